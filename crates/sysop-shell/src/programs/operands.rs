//! Assesses operands and option values by their kind.

use super::grammar::{Count, Entry, Kind, kind};
use crate::context::Access;
use crate::lexer::Word;
use crate::operands::reads_names_only;
use crate::options::{Effect, GivenOption, Reading, is_listed, is_one_word};
use crate::program_call::{ProgramCall, Stdin};
use crate::risk::RiskClass;
use crate::state::State;
use crate::{path, targets};

/// Systemd units that are needed to log in or to keep the machine running. A name stands for its instances too, and for
/// units of the same name with another suffix.
const VITAL_UNITS: &str = "ssh sshd sshd-keygen sshdgenkeys dropbear tinyssh network networking network-online network-pre \
    networkmanager networkmanager-wait-online networkd-dispatcher systemd-networkd systemd-networkd-wait-online \
    systemd-resolved systemd-hostnamed connman iwd wicked wickedd wpa_supplicant wpa_supplicant-wired wpa_supplicant-nl80211 hostapd dhcpcd dhclient ifup netctl netctl-auto \
    netplan netplan-wpa cloud-init wg-quick openvpn openvpn-client openvpn-server strongswan strongswan-starter ipsec \
    charon-systemd libreswan xl2tpd tailscaled zerotier-one nebula netbird cloudflared teleport tinc pppd ppp frr bird bird6 \
    keepalived quagga firewalld ufw nftables iptables ip6tables netfilter-persistent ipset shorewall shorewall6 ferm \
    docker-firewall fail2ban crowdsec crowdsec-firewall-bouncer sssd nslcd nscd winbind oddjobd polkit dbus dbus-broker \
    systemd-logind systemd-journald systemd-udevd systemd-user-sessions systemd-homed systemd-userdbd user user-runtime-dir \
    getty serial-getty console-getty wg-quick.target multi-user.target graphical.target basic.target sysinit.target sockets.target default.target \
    network.target network-online.target network-pre.target reboot.target poweroff.target halt.target kexec.target \
    shutdown.target rescue.target emergency.target suspend.target hibernate.target sleep.target exit.target \
    ctrl-alt-del.target soft-reboot.target hybrid-sleep.target runlevel0.target runlevel1.target runlevel6.target \
    systemd-reboot systemd-poweroff systemd-halt systemd-kexec systemd-suspend -.slice system.slice user.slice -.mount \
    home.mount usr.mount";
/// Packages that are needed to log in or to boot.
const VITAL_PACKAGES: &str = "openssh-server openssh openssh-client sudo systemd systemd-sysv linux-image linux-generic \
    kernel libc6 glibc libpam0g libpam-modules libpam-runtime pam openssl bash dash coreutils dpkg apt rpm dnf \
    network-manager networkmanager netplan.io ifupdown grub grub-pc init udev login passwd util-linux";
/// Processes on which logins or the whole machine depend, and patterns that match them.
const VITAL_PROCESSES: &str = "sshd ssh systemd init dbus-daemon systemd-logind networkmanager systemd-networkd sysop \
    dropbear sssd . .* * ^ $ bash sh zsh fish login agetty";

/// Assesses the operands of a call. Returns true if each has a place in the entry and is of the right kind.
pub(super) fn judge(
    state: &mut State,
    call: &ProgramCall<'_>,
    entry: &Entry,
    reading: &Reading<'_, '_>,
) -> bool {
    let given = reading.operands.len();
    let least = entry.operands.iter().filter(|place| matches!(place.count, Count::One | Count::Some)).count();
    let mut extra = given.saturating_sub(least);
    let mut words = reading.operands.iter().enumerate();
    let mut understood = true;
    for place in &entry.operands {
        let repeats = matches!(place.count, Count::Any | Count::Some);
        let take = match place.count {
            Count::One => 1,
            Count::Optional => usize::from(extra > 0),
            Count::Any => extra,
            Count::Some => extra + 1,
        };
        extra -= take - usize::from(take > 0 && matches!(place.count, Count::One | Count::Some));
        if let Kind::Command | Kind::Script = place.kind {
            let rest: Vec<Word> = words.by_ref().map(|(_, word)| (*word).clone()).collect();
            return run(state, call, place.kind, &rest) && understood;
        }
        for (_, word) in words.by_ref().take(take) {
            understood &= (repeats || is_one_word(word)) && use_word(state, call, entry, place.kind, word);
        }
    }
    understood && words.next().is_none()
}

/// Assesses the rest of a call as a separate command.
fn run(state: &mut State, call: &ProgramCall<'_>, kind: Kind, rest: &[Word]) -> bool {
    if kind == Kind::Script {
        call.run_joined(state, rest, Stdin::Unknown);
    } else if !rest.is_empty() {
        call.judge_inner(state, rest, call.argument_source);
    }
    true
}

/// Assesses one option. Returns true if its value is of the declared kind.
pub(super) fn judge_option(
    state: &mut State,
    call: &ProgramCall<'_>,
    entry: &Entry,
    option: &GivenOption<'_, '_>,
) -> bool {
    if let Effect::Raises(class, why) = option.rule.effect {
        let why = if why.is_empty() { super::plain_reason(class) } else { why };
        state.note(call.span, class, why);
    }
    let (Some(value), Ok(kind)) = (option.value, kind(option.rule.kind)) else { return true };
    if kind == Kind::Text {
        return true;
    }
    let word = Word { shape: value.to_owned(), ..option.word.clone() };
    if matches!(kind, Kind::Command | Kind::Script) {
        call.run_joined(state, &[word], Stdin::Unknown);
        return true;
    }
    use_word(state, call, entry, kind, &word)
}

/// Assesses one word as an operand or value of this kind. Returns true if the word can be of this kind.
fn use_word(state: &mut State, call: &ProgramCall<'_>, entry: &Entry, kind: Kind, word: &Word) -> bool {
    let span = call.span_of(word);
    match kind {
        Kind::Text | Kind::Command | Kind::Script => return true,
        Kind::Word => return is_simple(word),
        Kind::Key => return is_simple(word) && !word.text().contains('='),
        Kind::Format => return word.text().starts_with('+'),
        Kind::Read if reads_names_only(call, &program_name(call)) => {}
        Kind::Read => targets::use_path(state, span, word, Access::Read),
        Kind::Write => targets::use_path(state, span, word, Access::Write),
        Kind::Run => targets::use_path(state, span, word, Access::Run),
        Kind::Fill => targets::fill_folder(state, span, word),
        Kind::Link => targets::link_to(state, span, word),
        Kind::Source | Kind::Target if is_remote(word.text()) => {
            let (class, why) = if kind == Kind::Target {
                (RiskClass::Opaque, "sends files to another machine")
            } else {
                (RiskClass::Changes, "fetches from another machine")
            };
            state.note(span, class, why);
        }
        Kind::Source => targets::use_path(state, span, word, Access::Read),
        Kind::Target => targets::use_path(state, span, word, Access::Write),
        Kind::Host if word.literal().is_none() => {
            state.note(span, RiskClass::Opaque, "an address that is computed at run time");
        }
        Kind::Host => {}
        Kind::Cookie if !word.text().contains('=') => {
            state.note(span, RiskClass::Opaque, "sends a file, or data that is computed at run time");
        }
        Kind::Pretty => {
            const NAMES: &str = "oneline short medium full fuller reference email raw mboxrd";
            let text = word.text();
            let is_format = is_listed(NAMES, text) || text.contains(['%', ':', ' ']) || text.is_empty();
            if !is_format || text.contains("%G") || text.contains("signature") || word.literal().is_none() {
                state.note(span, RiskClass::Opaque, "a format that may run a program");
            }
        }
        Kind::Data | Kind::Cookie => {
            if word.literal().is_none() || names_file(word.text()) {
                state.note(span, RiskClass::Opaque, "sends a file, or data that is computed at run time");
            }
        }
        Kind::Setting => {
            let value = word.text().to_lowercase();
            let harmless = ["dpkg::options::=--force-conf", "dpkg::lock::timeout=", "acquire::retries="];
            if !harmless.iter().any(|start| value.starts_with(start)) {
                state.note(span, RiskClass::Opaque, "sets options that may run programs");
            }
        }
        Kind::Unit if entry.class < RiskClass::Changes => {}
        Kind::Unit => {
            note_vital(state, call, word, VITAL_UNITS, "affects a service that provides remote access")
        }
        Kind::Package => {
            // `apt install name-` removes the package.
            if let Some(name) = word.text().strip_suffix('-') {
                let removed = Word { shape: name.to_owned(), ..word.clone() };
                return use_word(state, call, entry, Kind::Removed, &removed);
            }
        }
        Kind::Removed => note_vital(state, call, word, VITAL_PACKAGES, "removes an essential package"),
        Kind::Process => {
            note_vital(state, call, word, VITAL_PROCESSES, "kills login sessions or system processes")
        }
    }
    true
}

fn note_vital(state: &mut State, call: &ProgramCall<'_>, word: &Word, vital: &str, why: &str) {
    let span = call.span_of(word);
    if is_vital(vital, word.text()) {
        state.note(span, RiskClass::Lockout, why);
    } else if word.literal().is_none() {
        state.note(span, RiskClass::Opaque, "the target is computed at run time");
    }
}

/// Returns true if `text`, a name, a name with a version, or a pattern, may mean one of the names in `vital`.
fn is_vital(vital: &str, text: &str) -> bool {
    let text = text.to_lowercase();
    let bare = if vital == VITAL_UNITS { without_suffix(&text) } else { text.as_str() };
    let plain = bare.split(['=', ':', '@']).next().unwrap_or("");
    if bare.is_empty() || is_listed(vital, &text) || is_listed(vital, bare) || is_listed(vital, plain) {
        return true;
    }
    let is_login = |start: &str, end: &str| text.starts_with(start) && text.ends_with(end);
    if vital == VITAL_UNITS && (is_login("user-", ".slice") || is_login("session-", ".scope")) {
        return true;
    }
    if ["linux-image", "kernel-", "libpam"].iter().any(|start| bare.starts_with(start)) {
        return vital == VITAL_PACKAGES;
    }
    let mut names = vital.split_ascii_whitespace();
    if vital == VITAL_PROCESSES {
        // `pkill` takes a regular expression that may match part of a name.
        let literal = bare.trim_matches(['^', '$']);
        return names.any(|name| name.contains(literal))
            || literal.contains(['*', '?', '[', '|', '(', '\\', '\0']);
    }
    let special = bare.find(['*', '?', '[', '{', '\\', '\0']);
    special.is_some_and(|at| {
        let start = bare.get(..at).unwrap_or("");
        // The pattern may match the instances of a name as well.
        names.any(|name| {
            name.starts_with(start) || start.strip_prefix(name).is_some_and(|rest| rest.starts_with('@'))
        })
    })
}

/// Returns a unit's name without the suffix of its kind. Targets and slices keep their suffix, because they are
/// unrelated to a service of the same name.
fn without_suffix(unit: &str) -> &str {
    let kinds = [".service", ".socket", ".path", ".timer", ".scope"];
    kinds.iter().find_map(|kind| unit.strip_suffix(kind)).unwrap_or(unit)
}

pub(super) fn note_removed(state: &mut State, call: &ProgramCall<'_>, packages: &[&Word]) {
    for word in packages {
        note_vital(state, call, word, VITAL_PACKAGES, "removes an essential package");
    }
}

pub(super) fn is_vital_unit(text: &str) -> bool {
    is_vital(VITAL_UNITS, text)
}

/// Returns true for a literal word of letters, digits and harmless punctuation, which every program takes as a name, a
/// number or a list.
pub(super) fn is_simple(word: &Word) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_=,.:%+/@ ".contains(&b);
    word.literal().is_some_and(|text| text.bytes().all(is_plain))
}

/// Returns true for `host:path` or a URL, with a colon before any slash, and for bash's network paths.
fn is_remote(text: &str) -> bool {
    let colon = text.find(':');
    colon.is_some_and(|colon| text.find('/').is_none_or(|slash| colon < slash)) || path::is_network(text)
}

/// Returns true if the text names a file for curl: `@file`, `name@file`, `name=@file`, `name=<file` or `%output{file}`.
fn names_file(text: &str) -> bool {
    let name = text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    name.starts_with('@') || ["=@", ":@", "=<", "%output"].iter().any(|sign| text.contains(sign))
}

/// Returns the program's name in lowercase, without its directory.
fn program_name(call: &ProgramCall<'_>) -> String {
    let text = call.words.first().map_or("", Word::text);
    text.rsplit('/').next().unwrap_or(text).to_lowercase()
}
