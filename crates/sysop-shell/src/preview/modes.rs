//! `chmod` and `chown`: the probe prints how many entries have which mode or owner, and the change is computed here.

use super::effective::{EffectiveCommand, split};
use super::files::objects;
use super::probe::{FILES, Records, Section};
use super::report::{Report, counted, names};
use super::scan::{Reason, Word};
use super::{Planned, View};

/// Defines `h`, which prints one line for each combination of type, mode and owner, with the number of such entries.
/// The arguments of `h` are passed to `find`. Also prints the umask.
const HISTOGRAM: &str = r#"
h() {
if [ "$gnu" ]; then find "$@" -printf '%y %m %U %G\n' || echo E
else { find "$@" -type d -exec stat -c 'd %a %u %g' {} + ; find "$@" -type l -exec stat -c 'l %a %u %g' {} + ; find "$@" ! -type d ! -type l -exec stat -c 'f %a %u %g' {} + ; }
fi | awk '{n[$0]++}END{for(k in n)print n[k],k}'
}
r umask "$(umask)"
"#;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModeChange {
    mode: String,
    is_recursive: bool,
}

pub(super) fn chmod(command: &EffectiveCommand) -> Result<Planned, Reason> {
    // A mode such as `-w` looks like an option.
    let found =
        split(&command.arguments, "RvfcH", "", &["recursive", "verbose", "silent", "quiet", "changes"])?;
    let Some((mode, operands)) = found.operands.split_first() else { return Ok(Planned::Nothing) };
    let mode = mode.literal().ok_or("the mode is not known before the command runs")?;
    if operands.is_empty() {
        return Ok(Planned::Nothing);
    }
    new_mode(&mode, 0o644, false, 0o22).ok_or("the mode is not recognized")?;
    let view = ModeChange { mode, is_recursive: found.has(&["R", "-recursive"]) };
    let section = histogram(view.is_recursive, true);
    Planned::probe(Section::new(section, View::Mode(view)).with_words(operands.to_vec()))
}

fn histogram(is_recursive: bool, follows: bool) -> String {
    let run = match (is_recursive, follows) {
        (true, true) => "r modes \"$(h -H \"$@\")\"",
        (true, false) => "r modes \"$(h \"$@\")\"",
        (false, _) => "r modes \"$(h -H \"$@\" -maxdepth 0)\"",
    };
    format!("{FILES}{HISTOGRAM}[ $# -gt 0 ] && {run}\n")
}

/// Files with the same type, mode, owner and group, with their number.
struct ModeGroup {
    count: u64,
    kind: char,
    mode: u32,
    user: u64,
    group: u64,
}

fn groups(records: &Records) -> Result<(Vec<ModeGroup>, bool), Reason> {
    let text = records.first("modes").unwrap_or("");
    let mut all = Vec::new();
    let mut is_partial = false;
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if fields.get(1) == Some(&"E") {
            is_partial = true;
            continue;
        }
        let parsed = (|| {
            Some(ModeGroup {
                count: fields.first()?.parse().ok()?,
                kind: fields.get(1)?.chars().next()?,
                mode: u32::from_str_radix(fields.get(2)?, 8).ok()?,
                user: fields.get(3)?.parse().ok()?,
                group: fields.get(4)?.parse().ok()?,
            })
        })();
        all.push(parsed.ok_or("the files cannot be counted")?);
    }
    Ok((all, is_partial))
}

impl ModeChange {
    pub(super) fn report(&self, records: &Records) -> Result<Report, Reason> {
        let (groups, is_partial) = groups(records)?;
        let umask =
            records.first("umask").and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o22);
        let (mut all, mut changed, mut special, mut open) = (0, 0, 0, 0);
        for group in groups.iter().filter(|group| group.kind != 'l') {
            all += group.count;
            let new = new_mode(&self.mode, group.mode, group.kind == 'd', umask)
                .ok_or("the mode is not recognized")?;
            if new != group.mode {
                changed += group.count;
                special += if group.mode & !new & 0o6000 != 0 && group.kind != 'd' { group.count } else { 0 };
                open += if new & !group.mode & 0o002 != 0 { group.count } else { 0 };
            }
        }
        let mut notes = vec![changes_text(changed, all, is_partial, records)];
        if special > 0 {
            notes.push(format!("clears setuid or setgid on {}", counted(special, "file")));
        }
        if open > 0 {
            notes.push(format!("makes {} writable by everyone", counted(open, "entry")));
        }
        notes.extend(missing(records));
        Ok(notes.join("; ").into())
    }
}

fn changes_text(changed: u64, all: u64, is_partial: bool, records: &Records) -> String {
    let least = if is_partial { "at least " } else { "" };
    let operands = objects(records.all("at"), records.number("operands").unwrap_or(0));
    format!("changes {least}{} of {}{operands}", super::report::number(changed), counted(all, "entry"))
}

fn missing(records: &Records) -> Option<String> {
    let mut missing = records.all("missing").peekable();
    missing.peek()?;
    Some(format!("fails for {}: does not exist", names(missing)))
}

/// Returns the mode of an entry after `chmod MODE`, or `None` if the mode is not understood.
fn new_mode(text: &str, old: u32, is_folder: bool, umask: u32) -> Option<u32> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777)?;
        // A directory keeps its setuid and setgid bits unless the mode has five digits.
        let kept = if is_folder && text.len() < 5 { old & 0o6000 } else { 0 };
        return Some(mode | kept);
    }
    text.split(',').try_fold(old, |mode, clause| clause_mode(clause, mode, is_folder, umask))
}

fn clause_mode(clause: &str, old: u32, is_folder: bool, umask: u32) -> Option<u32> {
    let who_end = clause.find(['+', '-', '='])?;
    let (who, actions) = clause.split_at(who_end);
    if !who.chars().all(|c| "ugoa".contains(c)) {
        return None;
    }
    let all = who.is_empty() || who.contains('a');
    let has = |c: char| all || who.contains(c);
    let reach =
        [('u', 0o4700), ('g', 0o2070), ('o', 0o1007)].iter().filter(|(c, _)| has(*c)).map(|(_, bits)| bits);
    let reach: u32 = reach.fold(0, |mask, bits| mask | bits);
    let mut mode = old;
    let mut rest = actions;
    while let Some(action) = rest.chars().next() {
        let letters_end = rest.get(1..)?.find(['+', '-', '=']).map_or(rest.len(), |at| at + 1);
        let letters = rest.get(1..letters_end)?;
        let mut bits = 0;
        for letter in letters.chars() {
            bits |= match letter {
                'r' => 0o444,
                'w' => 0o222,
                'x' => 0o111,
                'X' if is_folder || mode & 0o111 != 0 => 0o111,
                'X' => 0,
                's' => 0o6000,
                't' => 0o1000,
                _ => return None,
            };
        }
        bits &= reach;
        if who.is_empty() {
            bits &= !umask;
        }
        mode = match action {
            '+' => mode | bits,
            '-' => mode & !bits,
            '=' => {
                // A directory keeps setuid and setgid.
                let kept = if is_folder { 0o6000 } else { 0 };
                let cleared = reach & !kept;
                (mode & !cleared) | bits
            }
            _ => return None,
        };
        rest = rest.get(letters_end..)?;
    }
    Some(mode)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnerChange {
    changes_user: bool,
    changes_group: bool,
    is_recursive: bool,
}

/// Prints the numeric ids of user `$1` and group `$2`. `-` stands for no user or no group, and a group `.` for the
/// user's login group.
const OWNER: &str = r#"
u=$1 g=$2; shift 2
case $u in -) ;; *[!0-9]*) r user "$(id -u "$u")";; *) r user "$u";; esac
case $g in -) ;; .) r group "$(id -g "$u")";; *[!0-9]*) r group "$(awk -F: -v g="$g" '$1==g{print $3;exit}' /etc/group)";; *) r group "$g";; esac
"#;

pub(super) fn chown(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let found = split(
        &command.arguments,
        "RvfchP",
        "",
        &["recursive", "verbose", "silent", "quiet", "changes", "no-dereference"],
    )?;
    let Some((owner, operands)) = found.operands.split_first() else { return Ok(Planned::Nothing) };
    let owner = owner.literal().ok_or("the owner is not known before the command runs")?;
    let (user, group) = match owner.split_once(':') {
        _ if command.program == "chgrp" => ("-", owner.as_str()),
        None => (owner.as_str(), "-"),
        Some(("", group)) => ("-", group),
        Some((user, "")) => (user, "."),
        Some((user, group)) => (user, group),
    };
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    if operands.is_empty() || !plain(user) || !plain(group) {
        return Err("the owner is not recognized".to_owned());
    }
    let is_recursive = found.has(&["R", "-recursive"]);
    let view = OwnerChange { changes_user: user != "-", changes_group: group != "-", is_recursive };
    let follows = !(is_recursive || found.has(&["h", "-no-dereference"]));
    let body = format!("{OWNER}{}", histogram(is_recursive, follows));
    let scalars = vec![Word::of(user), Word::of(group)];
    Planned::probe(Section::new(body, View::Owner(view)).with_scalars(scalars).with_words(operands.to_vec()))
}

impl OwnerChange {
    pub(super) fn report(&self, records: &Records) -> Result<Report, Reason> {
        let (groups, is_partial) = groups(records)?;
        let user = records.number("user");
        let group = records.number("group");
        if self.changes_user && user.is_none() || self.changes_group && group.is_none() {
            return Ok("fails: the user or group does not exist".to_owned().into());
        }
        let differs = |one: &&ModeGroup| {
            self.changes_user && user.is_some_and(|user| user != one.user)
                || self.changes_group && group.is_some_and(|group| group != one.group)
        };
        let all = groups.iter().map(|one| one.count).sum();
        let changed = groups.iter().filter(differs).map(|one| one.count).sum();
        let special: u64 = groups
            .iter()
            .filter(differs)
            .filter(|one| one.kind == 'f' && one.mode & 0o6000 != 0)
            .map(|one| one.count)
            .sum();
        let mut notes = vec![changes_text(changed, all, is_partial, records)];
        if special > 0 {
            notes.push(format!("clears setuid or setgid on {}", counted(special, "file")));
        }
        if self.is_recursive && all > 0 && changed == 0 {
            notes.push("all entries have this owner already".to_owned());
        }
        notes.extend(missing(records));
        Ok(notes.join("; ").into())
    }
}

#[cfg(test)]
mod tests {
    use super::new_mode;

    #[test]
    fn modes_are_computed_as_chmod_does() {
        let file = |text: &str, old: u32| new_mode(text, old, false, 0o22);
        let folder = |text: &str, old: u32| new_mode(text, old, true, 0o22);
        assert_eq!(file("644", 0o4755), Some(0o644));
        assert_eq!(folder("755", 0o2700), Some(0o2755));
        assert_eq!(folder("00755", 0o2700), Some(0o755));
        assert_eq!(file("u+x,go-w", 0o666), Some(0o744));
        assert_eq!(file("a=rX", 0o640), Some(0o444));
        assert_eq!(folder("a=rX", 0o700), Some(0o555));
        assert_eq!(file("+w", 0o444), Some(0o644));
        assert_eq!(file("u=rwx,g=rx,o=", 0o600), Some(0o750));
        assert_eq!(file("u+q", 0o600), None);
        assert_eq!(file("9", 0o600), None);
    }
}
