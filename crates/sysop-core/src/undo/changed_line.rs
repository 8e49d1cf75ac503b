//! The line that says what a call changed: `changed: 3 files in /etc, unit nginx restarted; undo: exact (/undo 4)`.

use crate::outcome::{ChangeKind, Outcome, Reversibility, SystemChange};

const NAMED_MAX: usize = 4;

/// Returns the line about what a call changed. `None` if it changed nothing. `step` is the number of the call in the
/// session.
///
/// The names are untrusted text.
pub fn changed_line(outcome: &Outcome, step: u32) -> Option<String> {
    if outcome.changed.is_empty() {
        return None;
    }
    let (files, others): (Vec<_>, Vec<_>) =
        groups(outcome).into_iter().partition(|group| group.kind == ChangeKind::File);
    let mut parts: Vec<String> = files_phrase(&files).into_iter().collect();
    parts.extend(others.iter().take(NAMED_MAX).map(ChangeGroup::phrase));
    if others.len() > NAMED_MAX {
        parts.push(format!("{} more", others.len() - NAMED_MAX));
    }
    let undo = match outcome.undo {
        Some(Reversibility::Exact) => format!("; undo: exact (/undo {step})"),
        Some(Reversibility::Partly) => format!("; undo: partial (/undo {step})"),
        Some(Reversibility::None) => "; undo: none".to_owned(),
        None => String::new(),
    };
    Some(format!("changed: {}{undo}", parts.join(", ")))
}

/// A change that is the same on all hosts of the group.
#[derive(Debug, PartialEq, Eq)]
pub struct ChangeGroup<'a> {
    pub kind: ChangeKind,
    /// Name without a host.
    pub name: &'a str,
    pub how: &'a str,
    /// Hosts in the order of the outcome, without duplicates; empty if the call ran on one host only.
    pub hosts: Vec<&'a str>,
}

impl ChangeGroup<'_> {
    fn phrase(&self) -> String {
        let Self { kind, name, how, hosts } = self;
        let how = if *how == SystemChange::CREATED_EMPTY { "created (empty)" } else { how };
        let change = match kind {
            ChangeKind::File => format!("{name} {how}"),
            ChangeKind::Unit => format!("unit {name} {how}"),
            ChangeKind::Package => format!("package {name} {how}"),
            ChangeKind::User if name.contains(' ') => format!("{name} {how}"),
            ChangeKind::User => format!("user {name} {how}"),
            ChangeKind::Cron => format!("crontab of {name} {how}"),
            ChangeKind::Firewall => format!("rules of {name} {how}"),
            ChangeKind::Sysctl => format!("{name} {how}"),
        };
        format!("{change}{}", on_hosts(hosts))
    }
}

/// Groups the changes that the outcome lists.
fn groups(outcome: &Outcome) -> Vec<ChangeGroup<'_>> {
    let changes = outcome.changed.iter();
    grouped(outcome, changes.map(|change| (change.kind, change.name.as_str(), change.how.as_str())))
}

/// Groups changes of an outcome, given as kind, name and how, that are the same on several hosts. Where a call ran on
/// several hosts, each name begins with a host and a colon.
pub fn grouped<'a>(
    outcome: &'a Outcome,
    changes: impl Iterator<Item = (ChangeKind, &'a str, &'a str)>,
) -> Vec<ChangeGroup<'a>> {
    let mut groups: Vec<ChangeGroup<'a>> = Vec::new();
    for (kind, name, how) in changes {
        let (host, name) = split_host(outcome, name);
        match groups.iter_mut().find(|group| (group.kind, group.name, group.how) == (kind, name, how)) {
            Some(group) => group.hosts.extend(host.filter(|host| !group.hosts.contains(host))),
            None => groups.push(ChangeGroup { kind, name, how, hosts: host.into_iter().collect() }),
        }
    }
    groups
}

fn split_host<'a>(outcome: &'a Outcome, name: &'a str) -> (Option<&'a str>, &'a str) {
    let on = |host: &'a str| Some((Some(host), name.strip_prefix(host)?.strip_prefix(':')?));
    let hosts = outcome.hosts.iter().map(|host| host.host.as_str());
    hosts.filter_map(on).max_by_key(|(host, _)| host.map_or(0, str::len)).unwrap_or((None, name))
}

fn on_hosts(hosts: &[&str]) -> String {
    match hosts {
        [] => String::new(),
        [one] => format!(" on {one}"),
        several => format!(" on {} hosts", several.len()),
    }
}

/// Names one file, or counts several below their common directory. The same file on several hosts is one file.
fn files_phrase(files: &[ChangeGroup<'_>]) -> Option<String> {
    let more = |group: &ChangeGroup<'_>| group.name.strip_suffix(" more files")?.parse::<usize>().ok();
    // Hosts do not say which files they left out; most likely they are the same ones.
    let extra = files.iter().filter_map(more).max().unwrap_or(0);
    let mut names: Vec<&str> = Vec::new();
    for group in files.iter().filter(|group| more(group).is_none()) {
        if !names.contains(&group.name) {
            names.push(group.name);
        }
    }
    let mut hosts: Vec<&str> = files.iter().flat_map(|group| group.hosts.iter().copied()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    match (names.as_slice(), files) {
        ([], _) => None,
        ([_], [only]) => Some(only.phrase()),
        ([name], _) if extra == 0 => Some(format!("{name}{}", on_hosts(&hosts))),
        ([first, rest @ ..], _) => {
            let place = common_directory(first, rest);
            Some(format!("{} files in {place}{}", names.len() + extra, on_hosts(&hosts)))
        }
    }
}

fn common_directory(first: &str, rest: &[&str]) -> String {
    let parent = |name: &str| name.trim_end_matches('/').rsplit_once('/').map_or("", |(it, _)| it).to_owned();
    let mut common = parent(first);
    for name in rest {
        while !common.is_empty() && !parent(name).starts_with(&format!("{common}/")) && parent(name) != common
        {
            common = parent(&common);
        }
    }
    if common.is_empty() { "/".to_owned() } else { common }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{HostOutcome, Status, SystemChange};

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
            "changed: 3 files in /etc, unit nginx restarted, package foo 1.2→1.3, group www changed; undo: partial \
             (/undo 7)"
        );
        let many = outcome(&[(File, "/srv/a", "removed"), (File, "1003 more files", "changed")], None);
        assert_eq!(changed_line(&many, 1).unwrap(), "changed: 1004 files in /srv");
        assert_eq!(changed_line(&outcome(&[], None), 1), None);
    }

    #[test]
    fn the_same_change_on_several_hosts_is_named_once() {
        use ChangeKind::{File, Unit};
        let line = |changed: &[(ChangeKind, &str, &str)]| {
            let host = |host: &str| HostOutcome {
                host: host.to_owned(),
                status: Status::Ok,
                exit_code: Some(0),
                duration_ms: 0,
                group: 0,
                unreachable: None,
            };
            let hosts = ["web1", "db1", "web1:2"].map(host).to_vec();
            changed_line(&Outcome { hosts, ..outcome(changed, None) }, 1).unwrap()
        };
        let (web, db) = ((File, "web1:/etc/motd", "edited"), (File, "db1:/etc/motd", "edited"));
        assert_eq!(line(&[web, db]), "changed: /etc/motd edited on 2 hosts");
        assert_eq!(line(&[web]), "changed: /etc/motd edited on web1");
        assert_eq!(line(&[(File, "web1:2:/etc/motd", "edited")]), "changed: /etc/motd edited on web1:2");
        let created = (File, "db1:/etc/motd", "created");
        assert_eq!(line(&[web, created]), "changed: /etc/motd on 2 hosts");
        let issue = [(File, "web1:/etc/issue", "edited"), (File, "db1:/etc/issue", "edited")];
        assert_eq!(line(&[web, db, issue[0], issue[1]]), "changed: 2 files in /etc on 2 hosts");
        let more = [(File, "web1:40 more files", "changed"), (File, "db1:40 more files", "changed")];
        assert_eq!(line(&[web, db, more[0], more[1]]), "changed: 41 files in /etc on 2 hosts");
        let units = [(Unit, "web1:nginx", "restarted"), (Unit, "db1:nginx", "restarted")];
        assert_eq!(
            line(&[web, units[0], units[1]]),
            "changed: /etc/motd edited on web1, unit nginx restarted on 2 hosts"
        );
    }
}
