//! The line that says what a call changed: `changed: 3 files in /etc, unit nginx restarted; undo: exact (/undo 4)`.

use crate::outcome::{ChangeKind, Outcome, Reversibility, SystemChange};

const NAMED_MAX: usize = 4;

/// Returns the line about what a call changed. `None` if it changed nothing, or only files through file
/// tools, whose output already names them. `step` is the number of the call in the session.
///
/// The names are untrusted text.
pub fn changed_line(outcome: &Outcome, step: u32) -> Option<String> {
    let changed = &outcome.changed;
    let by_file_tools = outcome.records.is_empty() && !outcome.changes.is_empty();
    if changed.is_empty() || by_file_tools {
        return None;
    }
    let (files, others): (Vec<&SystemChange>, Vec<&SystemChange>) =
        changed.iter().partition(|change| change.kind == ChangeKind::File);
    let mut parts: Vec<String> = files_phrase(&files).into_iter().collect();
    parts.extend(others.iter().take(NAMED_MAX).map(|change| phrase(change)));
    if others.len() > NAMED_MAX {
        parts.push(format!("{} more", others.len() - NAMED_MAX));
    }
    let undo = match outcome.undo {
        Some(Reversibility::Exact) => format!("; undo: exact (/undo {step})"),
        Some(Reversibility::Partly) => format!("; undo: partly (/undo {step})"),
        Some(Reversibility::None) => "; undo: none".to_owned(),
        None => String::new(),
    };
    Some(format!("changed: {}{undo}", parts.join(", ")))
}

fn phrase(change: &SystemChange) -> String {
    let SystemChange { kind, name, how } = change;
    match kind {
        ChangeKind::File => format!("{name} {how}"),
        ChangeKind::Unit => format!("unit {name} {how}"),
        ChangeKind::Package => format!("package {name} {how}"),
        ChangeKind::User if name.contains(' ') => format!("{name} {how}"),
        ChangeKind::User => format!("user {name} {how}"),
        ChangeKind::Cron => format!("crontab of {name} {how}"),
        ChangeKind::Firewall => format!("rules of {name} {how}"),
        ChangeKind::Sysctl => format!("{name} {how}"),
    }
}

/// Names one file, or counts several below their common directory.
fn files_phrase(files: &[&SystemChange]) -> Option<String> {
    let more = |change: &&&SystemChange| {
        change.name.strip_suffix(" more files").and_then(|n| n.parse::<usize>().ok())
    };
    let extra: usize = files.iter().filter_map(|change| more(&change)).sum();
    let named: Vec<&&SystemChange> = files.iter().filter(|change| more(change).is_none()).collect();
    match named.as_slice() {
        [] => None,
        [one] if extra == 0 => Some(phrase(one)),
        [first, rest @ ..] => {
            let parent =
                |name: &str| name.trim_end_matches('/').rsplit_once('/').map_or("", |(it, _)| it).to_owned();
            let mut common = parent(&first.name);
            for change in rest {
                while !common.is_empty()
                    && !parent(&change.name).starts_with(&format!("{common}/"))
                    && parent(&change.name) != common
                {
                    common = parent(&common);
                }
            }
            let place = if common.is_empty() { "/".to_owned() } else { common };
            Some(format!("{} files in {place}", named.len() + extra))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(changed: &[(ChangeKind, &str, &str)], undo: Option<Reversibility>) -> Outcome {
        let of = |(kind, name, how): &(ChangeKind, &str, &str)| SystemChange {
            kind: *kind,
            name: (*name).to_owned(),
            how: (*how).to_owned(),
        };
        Outcome { changed: changed.iter().map(of).collect(), undo, ..Outcome::ok("") }
    }

    #[test]
    fn changes_are_described_in_one_line() {
        use ChangeKind::{File, Package, Unit, User};
        let one = outcome(&[(File, "/etc/motd", "edited")], Some(Reversibility::Exact));
        assert_eq!(changed_line(&one, 4).unwrap(), "changed: /etc/motd edited; undo: exact (/undo 4)");
        let all = [
            (File, "/etc/a", "edited"),
            (File, "/etc/nginx/b", "created"),
            (File, "/etc/nginx/conf.d/c/", "removed"),
            (Unit, "nginx", "restarted"),
            (Package, "foo", "1.2→1.3"),
            (User, "group www", "changed"),
        ];
        let line = changed_line(&outcome(&all, Some(Reversibility::Partly)), 7).unwrap();
        assert_eq!(
            line,
            "changed: 3 files in /etc, unit nginx restarted, package foo 1.2→1.3, group www changed; undo: partly \
             (/undo 7)"
        );
        let many = outcome(&[(File, "/srv/a", "removed"), (File, "1003 more files", "changed")], None);
        assert_eq!(changed_line(&many, 1).unwrap(), "changed: 1004 files in /srv");
        assert_eq!(changed_line(&outcome(&[], None), 1), None);
    }
}
