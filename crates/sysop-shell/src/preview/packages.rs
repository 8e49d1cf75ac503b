//! Package managers.

use super::effective::{EffectiveCommand, split};
use super::probe::{ProbeClass, Records, SECONDS_SLOW, Section};
use super::report::{Report, counted, name, names};
use super::scan::{Reason, Word};
use super::{Planned, View};

/// Packages without which a host can hardly be reached or repaired.
const ESSENTIAL: &[&str] = &[
    "openssh-server", "sudo", "systemd", "libc6", "bash", "dash", "openssl", "network-manager", "netplan.io",
    "ifupdown", "dropbear",
];

/// A simulation that runs without root: as root, it would rewrite one of apt's logs.
const APT: &str = r#"
command -v apt-get >/dev/null || r failed 'apt-get is not installed'
u=
if [ "$(id -u)" = 0 ]; then
command -v setpriv >/dev/null && u='setpriv --reuid=65534 --regid=65534 --clear-groups'
[ "$u" ] && $u true || { r failed 'apt would write a log as root'; exit; }
fi
o=$(LC_ALL=C DEBIAN_FRONTEND=noninteractive $u apt-get -s -o Debug::NoLocking=1 -o Dir::Log::Planner=/dev/null -o Dir::Log= -o APT::Get::Show-User-Simulation-Note=0 "$@" 2>&1 | tr -d '\000' | head -c 400000)
r out "$o"
"#;

pub(super) fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    match command.program.as_str() {
        "apt" | "apt-get" => apt(command),
        "dpkg" | "rpm" => file(command),
        "apk" => other(command, "apk --no-network -s"),
        "zypper" => other(command, "zypper --no-refresh --non-interactive --dry-run"),
        program => other(command, &format!("{program} -C --assumeno -q")),
    }
}

fn apt(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let long = [
        "yes", "assume-yes", "no-install-recommends", "purge", "auto-remove", "autoremove", "quiet",
        "only-upgrade", "reinstall", "allow-downgrades", "fix-broken",
    ];
    let found = split(&command.arguments, "yqf", "ot", &long)?;
    if found.has(&["o", "t"]) {
        return Err("the options are not recognized".to_owned());
    }
    let words: Option<Vec<String>> = found.operands.iter().map(Word::literal).collect();
    let words = words.ok_or("the packages are not known before the command runs")?;
    let Some((verb, packages)) = words.split_first() else { return Ok(Planned::Nothing) };
    match verb.as_str() {
        "update" => return Ok(Planned::Line("downloads the package lists; installs nothing".to_owned())),
        "clean" | "autoclean" => {
            return Ok(Planned::Line(
                "deletes downloaded packages; removes no installed packages".to_owned(),
            ));
        }
        "install" | "remove" | "purge" | "upgrade" | "dist-upgrade" | "full-upgrade" | "autoremove"
        | "reinstall" => {}
        _ => return Ok(Planned::Nothing),
    }
    let plain = |text: &String| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.:=~*^".contains(c)) && !text.starts_with('-')
    };
    if !packages.iter().all(plain) {
        return Err("packages given as files or patterns are not supported in previews".to_owned());
    }
    let mut arguments: Vec<Word> = Vec::new();
    for (names, option) in [
        (["-no-install-recommends", ""], "--no-install-recommends"),
        (["-purge", ""], "--purge"),
        (["-only-upgrade", ""], "--only-upgrade"),
        (["-autoremove", "-auto-remove"], "--auto-remove"),
        (["-fix-broken", "f"], "--fix-broken"),
        (["-reinstall", ""], "--reinstall"),
    ] {
        if found.has(&names) {
            arguments.push(Word::of(option));
        }
    }
    arguments.push(Word::of(if verb == "full-upgrade" { "dist-upgrade" } else { verb }));
    arguments.extend(packages.iter().map(|package| Word::of(package)));
    let mut section = Section::new(APT, View::Packages).with_words(arguments);
    section.is_unprivileged = true;
    section.seconds = SECONDS_SLOW;
    Planned::probe(section)
}

/// Returns the result of `apt-get -s`.
pub(super) fn report(records: &Records) -> Result<Report, Reason> {
    let text = records.first("out").ok_or("apt-get did not respond")?;
    if let Some(error) = text.lines().find(|line| line.starts_with("E:")) {
        return Ok(format!("fails: {}", name(error.trim_start_matches("E:").trim())).into());
    }
    let (mut new, mut upgraded, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    let mut security = 0;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Inst"), Some(package)) if words.next().is_some_and(|word| word.starts_with('[')) => {
                upgraded.push(package);
                security += u64::from(line.contains("-security") || line.contains("-Security"));
            }
            (Some("Inst"), Some(package)) => new.push(package),
            (Some("Remv" | "Purg"), Some(package)) if !removed.contains(&package) => removed.push(package),
            (_, _) => {}
        }
    }
    let mut notes = Vec::new();
    if !new.is_empty() {
        let count = counted(new.len() as u64, "new package");
        notes.push(format!("installs {count}: {}", names(new.into_iter())));
    }
    if !upgraded.is_empty() {
        let security = if security > 0 { format!(" ({security} for security)") } else { String::new() };
        let count = counted(upgraded.len() as u64, "package");
        notes.push(format!("upgrades {count}{security}: {}", names(upgraded.into_iter())));
    }
    if !removed.is_empty() {
        let mark = if removed.iter().any(|package| ESSENTIAL.contains(package)) { "!" } else { "" };
        let mut sorted = removed.clone();
        sorted.sort_by_key(|package| !ESSENTIAL.contains(package));
        notes.push(format!(
            "removes {}{mark}: {}",
            counted(removed.len() as u64, "package"),
            names(sorted.into_iter())
        ));
    }
    Ok(if notes.is_empty() { "changes no packages".to_owned() } else { notes.join("; ") }.into())
}

fn file(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let (flags, install) = if command.program == "dpkg" { ("iErRP", "i") } else { ("iUvheF", "U") };
    let found = split(&command.arguments, flags, "", &["install", "upgrade", "remove", "purge", "erase"])?;
    let installs = found.has(&["i", "-install", install, "-upgrade"]);
    let body = match (command.program.as_str(), installs) {
        ("dpkg", true) => {
            r#"for f do case $f in -*) f=./$f;; esac
n=$(dpkg-deb -f "$f" Package) || { r say "fails: cannot read a package"; continue; }
v=$(dpkg-deb -f "$f" Version); o=$(dpkg-query -W -f '${Version}' -- "$n")
if [ "$o" ]; then r say "$n: $o → $v"; else r say "installs $n $v"; fi; done
"#
        }
        ("dpkg", false) => {
            "for n do case $n in -*) continue;; esac\ns=$(dpkg-query -W -f '${db:Status-Status} ${Installed-Size}' -- \"$n\") || s=no\ncase $s in installed*) r say \"removes $n (${s#installed } kB)\";; *) r say \"$n is not installed\";; esac; done\n"
        }
        (_, true) => {
            "for f do case $f in -*) f=./$f;; esac\nr say \"installs $(rpm -qp --qf '%{NAME} %{VERSION}-%{RELEASE}' \"$f\")\"; done\n"
        }
        (_, false) => {
            "for n do case $n in -*) continue;; esac\nr say \"removes $(rpm -q --qf '%{NAME} %{VERSION}' -- \"$n\")\"; done\n"
        }
    };
    Planned::probe(
        Section::new(format!("[ $# -gt 20 ] && {{ r many $#; exit; }}\n{body}"), View::Sentences)
            .with_words(found.operands),
    )
}

/// Package managers with a simulation that may use the network; the end of its output is shown.
fn other(command: &EffectiveCommand, twin: &str) -> Result<Planned, Reason> {
    let words: Option<Vec<String>> = command.arguments.iter().map(Word::literal).collect();
    let words = words.ok_or("the packages are not known before the command runs")?;
    let words: Vec<String> = words
        .into_iter()
        .filter(|word| {
            !matches!(
                word.as_str(),
                "-y" | "--yes" | "-q" | "--non-interactive" | "-n" | "--noconfirm" | "--assumeyes"
            )
        })
        .collect();
    let verb = words.first().cloned().unwrap_or_default();
    if command.program == "pacman" {
        return Err("pacman has no dry run without side effects".to_owned());
    }
    let known =
        ["install", "in", "add", "del", "remove", "rm", "erase", "upgrade", "update", "up", "autoremove"];
    let plain = |text: &String| {
        !text.starts_with('-') && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-._:=~*<>".contains(c))
    };
    if !known.contains(&verb.as_str()) {
        return Ok(Planned::Nothing);
    }
    if !words.iter().all(plain) {
        return Err("the options are not recognized".to_owned());
    }
    let program = &command.program;
    let body = format!(
        "command -v {program} >/dev/null || {{ r failed '{program} is not installed'; exit; }}\no=$(LC_ALL=C {twin} \"$@\" 2>&1 | tr -d '\\000' | head -c 60000)\nr say \"$(printf '%s\\n' \"$o\" | grep -iE '^(install|upgrade|remov|downgrad|\\([0-9]+/[0-9]+\\)|[0-9]+ packages? to)' | head -n 4 | tr '\\n' ' ')\"\n"
    );
    let mut section =
        Section::new(body, View::Sentences).with_words(words.iter().map(|word| Word::of(word)).collect());
    section.seconds = SECONDS_SLOW;
    section.is_unprivileged = true;
    section.class = ProbeClass::Network;
    Planned::probe(section)
}
