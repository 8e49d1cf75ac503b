//! Programs that change users.

use super::effective::{EffectiveCommand, split};
use super::probe::Section;
use super::scan::{Reason, Word};
use super::{Planned, View};

/// Looks up user `$1`, and warns if it is the user of this session.
const USER: &str = r#"
u=$1; l=$(awk -F: -v u="$u" '$1==u{print;exit}' /etc/passwd)
[ "$l" ] || { r say "fails: there is no user $u"; exit; }
h=$(printf %s "$l" | cut -d: -f6); i=$(printf %s "$l" | cut -d: -f3)
me=$(id -un); [ "$me" = "$u" ] && r say "$u is the user of this session!"
"#;

const USERDEL: &str = r#"
c=0; for p in /proc/[0-9]*; do [ "$(awk '/^Uid/{print $2}' "$p/status")" = "$i" ] && c=$((c+1)); done
if [ "$x" ] && [ -d "$h" ]; then set -- $(tree "$h"); r say "removes user $u and home $h: $1 files, $5 bytes"; else r say "removes user $u; home $h stays"; fi
r say "processes: $c"
"#;

pub(super) fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let long = [
        "remove", "remove-home", "force", "lock", "unlock", "expire", "delete", "append", "groups=",
        "shell=", "home=", "login=", "expiredate=",
    ];
    let (flags, valued) = match command.program.as_str() {
        "userdel" | "deluser" => ("rf", ""),
        "usermod" => ("aLUm", "Ggsdluec"),
        "gpasswd" => ("", "ad"),
        _ => ("lude", "EmMIW"),
    };
    let found = split(&command.arguments, flags, valued, &long)?;
    let single = |word: &&Word| word.is_single() && !word.beginning().starts_with('-');
    let user = match command.program.as_str() {
        "gpasswd" => found.value(&["d", "a"]),
        _ => found.operands.first(),
    };
    let user = user.filter(single).ok_or("the user is unknown")?.clone();
    let locks = "s=$(passwd -S -- \"$u\" | cut -d' ' -f2); r say \"password of $u now: ${s:-unknown}\"\n";
    let mut scalars = vec![user];
    let body = match command.program.as_str() {
        "userdel" => format!("x={}\n{USERDEL}", if found.has(&["r", "-remove"]) { "1" } else { "" }),
        "deluser" if found.operands.len() == 2 => {
            scalars.push(found.operands[1].clone());
            group_loss("\"$2\"")
        }
        "deluser" => format!("x={}\n{USERDEL}", if found.has(&["-remove-home"]) { "1" } else { "" }),
        "gpasswd" if found.has(&["d"]) => {
            scalars.push(found.operands.first().filter(single).ok_or("the group is unknown")?.clone());
            group_loss("\"$2\"")
        }
        "usermod" => match found.value(&["G", "-groups"]) {
            Some(groups) => {
                scalars.push(groups.clone());
                let keeps = if found.has(&["a", "-append"]) { "1" } else { "" };
                format!(
                    "k={keeps}; n=\",$2,\"; for g in $(awk -F: -v u=\"$u\" '{{s=\",\" $4 \",\"; if(index(s,\",\" u \",\"))print $1}}' /etc/group); do case $n in *\",$g,\"*) ;; *) [ \"$k\" ] || {{ r say \"leaves group $g\"; o=$(awk -F: -v g=\"$g\" '$1==g{{print $4}}' /etc/group); [ \"$o\" = \"$u\" ] && r say \"nobody else is in $g\"; }};; esac; done\nr say \"groups after: $2\"\n"
                )
            }
            None => format!("{locks}r say \"now: $(printf %s \"$l\" | cut -d: -f6,7)\"\n"),
        },
        _ => locks.to_owned(),
    };
    let section = Section::new(format!("{USER}{body}"), View::Sentences);
    Planned::probe(section.with_scalars(scalars))
}

fn group_loss(group: &str) -> String {
    format!(
        "g={group}; o=$(awk -F: -v g=\"$g\" '$1==g{{print $4}}' /etc/group); case \",$o,\" in *\",$u,\"*) r say \"$u leaves group $g\"; [ \"$o\" = \"$u\" ] && r say \"nobody else is in $g\";; *) r say \"$u is not in group $g\";; esac\n"
    )
}
