//! Crontabs, kernel settings, power, logs and firewalls.

use super::effective::{EffectiveCommand, split};
use super::probe::{ProbeClass, Section};
use super::scan::{Reason, Word};
use super::{Planned, View};

/// Prints who and what uses the machine.
const POWER: &str = r#"command -v who >/dev/null && n=$(who | cut -d' ' -f1 | sort -u | wc -l) && r say "users logged in: $((n))"
command -v uptime >/dev/null && r say "up $(awk '{printf "%d days", $1/86400}' /proc/uptime)"
if [ -d /run/systemd/system ]; then
for u in $(systemctl list-units --type=service --state=running --no-legend --plain --no-pager | cut -d' ' -f1 | head -n 200); do printf '%s %s\n' "$u" "$(systemctl is-enabled -- "$u")"; done | awk '$2=="disabled"{n++; s=s " " $1}END{if(n)print n ":" s}' | { read -r x && r say "running but not enabled: $x"; }
fi
"#;

pub(super) fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    match command.program.as_str() {
        "crontab" => crontab(command),
        "sysctl" => sysctl(command),
        "reboot" | "shutdown" | "poweroff" | "halt" => Planned::probe(Section::new(
            format!("r say \"{} $(uname -n)\"\n{POWER}", power_verb(command)),
            View::Sentences,
        )),
        "logrotate" => {
            let words = command
                .arguments
                .iter()
                .filter(|word| word.literal().is_none_or(|text| !text.starts_with('-')));
            let body = "command -v logrotate >/dev/null || { r failed 'logrotate is not installed'; exit; }\nr say \"would rotate: $(logrotate -d -- \"$@\" 2>&1 | grep -c 'log needs rotating')\"\n";
            let mut section = Section::new(body, View::Sentences).with_words(words.cloned().collect());
            section.class = ProbeClass::Temporary;
            Planned::probe(section)
        }
        "journalctl" => {
            let vacuums = command.arguments.iter().any(|word| word.beginning().starts_with("--vacuum"));
            if !vacuums {
                return Ok(Planned::Nothing);
            }
            Planned::probe(Section::new("r say \"$(LC_ALL=C journalctl --disk-usage)\"\n", View::Sentences))
        }
        "iptables" => {
            let words: Option<Vec<String>> = command.arguments.iter().map(Word::literal).collect();
            let words = words.ok_or("the rule is not known before the command runs")?;
            if !words.iter().any(|word| {
                matches!(word.as_str(), "-A" | "-D" | "-I" | "--append" | "--delete" | "--insert")
            }) {
                return Err("the command changes more than one rule".to_owned());
            }
            let twin = words.iter().map(|word| match word.as_str() {
                "-A" | "-D" | "-I" | "--append" | "--delete" | "--insert" => Word::of("-C"),
                word => Word::of(word),
            });
            let body = "command -v iptables >/dev/null || { r failed 'iptables is not installed'; exit; }\nif iptables \"$@\"; then r say 'this rule exists already'; else r say 'there is no such rule now'; fi\n";
            Planned::probe(Section::new(body, View::Sentences).with_words(twin.collect()))
        }
        _ => Err("firewall rules are not supported in previews".to_owned()),
    }
}

/// Says what a command for power does to the machine, whose name follows. An option that is unknown, combined with
/// others in one word or contradicted by another may mean a stop or a restart.
fn power_verb(command: &EffectiveCommand) -> &'static str {
    const UNKNOWN: &str = "stops or restarts";
    let is_shutdown = command.program == "shutdown";
    let mut only_warns = false;
    let mut verbs: Vec<&'static str> = Vec::new();
    for word in &command.arguments {
        let Some(word) = word.literal() else { return UNKNOWN };
        match (is_shutdown, word.as_str()) {
            (_, "--") => break,
            (true, "-k") => only_warns = true,
            (true, "-c") => verbs.push("cancels a planned stop of"),
            (true, "-r") | (_, "--reboot") => verbs.push("restarts"),
            (true, "-h" | "-H" | "-P") | (false, "-p") | (_, "--halt" | "--poweroff") => verbs.push("stops"),
            (false, "-f" | "--force" | "-d" | "--no-wtmp" | "-n" | "--no-sync") | (_, "--no-wall") => {}
            (_, option) if option.starts_with('-') => return UNKNOWN,
            // A time or a message.
            _ => {}
        }
    }
    verbs.dedup();
    match verbs.as_slice() {
        _ if only_warns => "only warns the users of",
        [] if command.program == "reboot" => "restarts",
        [] => "stops",
        [verb] => verb,
        _ => UNKNOWN,
    }
}

fn crontab(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let found = split(&command.arguments, "rlei", "u", &[])?;
    if found.has(&["l"]) {
        return Ok(Planned::Nothing);
    }
    if found.has(&["e"]) {
        return Err("the command opens an editor".to_owned());
    }
    let mut body =
        String::from("u=; command -v crontab >/dev/null || { r failed 'crontab is not installed'; exit; }\n");
    let mut scalars = Vec::new();
    let user = match found.value(&["u"]) {
        Some(user) => {
            scalars.push(user.clone());
            body.push_str("u=$1; shift\n");
            "-u \"$u\" "
        }
        None => "",
    };
    if found.has(&["r"]) {
        body.push_str(&format!("n=$(crontab {user}-l | wc -l); r say \"deletes $((n)) lines of the crontab of ${{u:-$(id -un)}}\"\n"));
    } else {
        let file = found.operands.first().filter(|word| word.is_single()).ok_or("the input is unknown")?;
        if file.literal().as_deref() == Some("-") {
            return Err("the input comes from a pipe".to_owned());
        }
        scalars.push(file.clone());
        body.push_str(&format!("[ -r \"$1\" ] || {{ r say 'fails: the file cannot be read'; exit; }}\nf=$1; case $f in -*) f=./$f;; esac\no=$(crontab {user}-l | diff - \"$f\"); a=$(printf '%s\\n' \"$o\" | grep -c '^>') m=$(printf '%s\\n' \"$o\" | grep -c '^<'); r say \"crontab of ${{u:-$(id -un)}}: +$a −$m lines\"\n"));
    }
    Planned::probe(Section::new(body, View::Sentences).with_scalars(scalars))
}

fn sysctl(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let found = split(&command.arguments, "weqp", "", &["write", "load", "system", "quiet"])?;
    let show = "c() { case $1 in *[!A-Za-z0-9_./-]*|-*|'') r say 'a key is unknown'; return;; esac; o=$(cat \"/proc/sys/$(printf %s \"$1\" | tr . /)\" | tr '\\t' ' ') || { r say \"fails: there is no $1\"; return; }; if [ \"$o\" = \"$2\" ]; then r say \"$1 is $o already\"; else r say \"$1: $o → $2\"; fi; }\n";
    let body = if found.has(&["p", "-load"]) {
        let read = r#"f=${1:-/etc/sysctl.conf}; case $f in -*) f=./$f;; esac
[ -r "$f" ] || { r say 'fails: the file cannot be read'; exit; }
while IFS= read -r l; do case $l in '#'*|';'*|'') continue;; esac; k=$(printf %s "${l%%=*}" | tr -d ' \t-'); v=$(printf %s "${l#*=}" | sed 's/^[ \t]*//;s/[ \t]*$//'); c "$k" "$v"; done <"$f"
"#;
        format!("{show}{read}")
    } else if found.has(&["-system"]) {
        return Err("the command loads many files".to_owned());
    } else if found.operands.iter().any(|word| word.literal().is_some_and(|text| text.contains('='))) {
        format!("{show}for a do c \"${{a%%=*}}\" \"${{a#*=}}\"; done\n")
    } else {
        return Ok(Planned::Nothing);
    };
    Planned::probe(Section::new(body, View::Sentences).with_words(found.operands))
}
