//! Inverses of simple commands. A command without an entry here has no inverse; nothing is guessed.

use std::cmp::Reverse;
use std::collections::HashSet;

use sysop_core::outcome::{ChangeKind, Outcome};

/// Returns the command that undoes this one, if that is certain from its text and its output.
pub(super) fn derived_undo(command: &str, outcome: &Outcome) -> Option<String> {
    simple_undo(command, outcome)
        .or_else(|| installed_packages(command, outcome))
        .or_else(|| created_files(outcome))
}

/// Returns the words of a command that has no substitutions, redirections or operators.
fn plain_words(command: &str) -> Option<Vec<String>> {
    if command.contains(|c: char| "$`;&|<>(){}*?[]~\n\\#!".contains(c)) {
        return None;
    }
    shell_words::split(command).ok()
}

fn simple_undo(command: &str, outcome: &Outcome) -> Option<String> {
    let words = plain_words(command)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (sudo, rest): (&[&str], &[&str]) = match words.as_slice() {
        ["sudo", "-n", rest @ ..] => (&words[..2], rest),
        ["sudo", rest @ ..] => (&words[..1], rest),
        rest => (&[], rest),
    };
    let inverse: Vec<String> = inverse(rest, outcome)?.into_iter().map(str::to_owned).collect();
    let all = sudo.iter().map(|word| (*word).to_owned()).chain(inverse);
    Some(shell_words::join(all))
}

fn inverse<'a>(words: &[&'a str], outcome: &Outcome) -> Option<Vec<&'a str>> {
    let is_plain = |words: &[&str]| !words.is_empty() && words.iter().all(|word| !word.starts_with('-'));
    match words {
        ["systemctl", verb, units @ ..] if units.iter().any(|unit| !unit.starts_with('-')) => {
            let verb = match *verb {
                "start" => "stop",
                "stop" => "start",
                "enable" => "disable",
                "disable" => "enable",
                "mask" => "unmask",
                "unmask" => "mask",
                "reload" => "reload",
                "restart" => "restart",
                _ => return None,
            };
            Some([&["systemctl", verb], units].concat())
        }
        ["mkdir", folders @ ..] => {
            let (folders, has_parents) = match folders {
                ["-p", "--", folders @ ..] | ["-p", folders @ ..] => (folders, true),
                ["--", folders @ ..] | folders => (folders, false),
            };
            let mut removed: Vec<&str> = folders.iter().rev().copied().collect();
            if has_parents {
                removed = removed.iter().flat_map(|folder| created_folders(folder, outcome)).collect();
                // Several folders may share a parent: it is removed once, after all that it contains.
                let mut seen = HashSet::new();
                removed.retain(|folder| seen.insert(*folder));
                removed.sort_by_key(|folder| Reverse(folder.split('/').count()));
            }
            is_plain(folders).then(|| [&["rmdir", "--"], &removed[..]].concat())
        }
        ["ln", "-s", target, link] if is_plain(&[target, link]) && !link.ends_with('/') && *link != "." => {
            Some(vec!["rm", "--", link])
        }
        ["useradd" | "adduser", .., user] if !user.starts_with('-') => Some(vec!["userdel", user]),
        ["groupadd" | "addgroup", .., group] if !group.starts_with('-') => Some(vec!["groupdel", group]),
        ["usermod", "-aG", group, user] if is_plain(&[group, user]) && !group.contains(',') => {
            Some(vec!["gpasswd", "-d", user, group])
        }
        ["gpasswd", "-a", user, group] => Some(vec!["gpasswd", "-d", user, group]),
        ["ufw", verb @ ("allow" | "deny" | "limit"), rule @ ..] if !rule.is_empty() => {
            Some([&["ufw", "delete", *verb], rule].concat())
        }
        ["iptables" | "ip6tables", "-A", rule @ ..] => Some([&[words[0], "-D"], rule].concat()),
        ["ip", kind @ ("addr" | "address" | "route" | "rule"), verb @ ("add" | "del"), rest @ ..] => {
            let verb = if *verb == "add" { "del" } else { "add" };
            Some([&["ip", *kind, verb], rest].concat())
        }
        ["docker", "compose", "up", "-d"] => Some(vec!["docker", "compose", "down"]),
        ["docker", verb @ ("start" | "stop"), names @ ..] if is_plain(names) => {
            let verb = if *verb == "start" { "stop" } else { "start" };
            Some([&["docker", verb], names].concat())
        }
        _ => None,
    }
}

/// Returns the folder and those of its parents that were created with it, the deepest first.
fn created_folders<'a>(folder: &'a str, outcome: &Outcome) -> Vec<&'a str> {
    // Only the topmost of new folders is listed, with a slash at its end.
    let is_topmost = |path: &str| {
        let mut created = outcome.changed.iter().filter(|change| change.is_creation());
        created.any(|change| {
            let above = change.name.trim_end_matches('/').strip_suffix(path);
            above.is_some_and(|above| above.is_empty() || above.ends_with('/') && !path.starts_with('/'))
        })
    };
    let mut folders = vec![folder];
    let mut path = folder.trim_end_matches('/');
    while !is_topmost(path) {
        match path.rsplit_once('/') {
            Some((parent, _)) if !matches!(parent, "" | "." | "..") => path = parent,
            Some(_) | None => return vec![folder],
        }
        folders.push(path);
    }
    folders
}

/// Returns the command that removes exactly the packages listed as new in an installation's output.
fn installed_packages(command: &str, outcome: &Outcome) -> Option<String> {
    let words = plain_words(command)?;
    let at = words.iter().position(|word| word == "apt-get" || word == "apt")?;
    let is_install = words[at..].iter().any(|word| word == "install");
    let prefix = &words[..at];
    if !is_install
        || !prefix
            .iter()
            .all(|word| ["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive"].contains(&word.as_str()))
    {
        return None;
    }
    let mut lines = outcome.output.lines().skip_while(|line| !line.contains("following NEW packages"));
    lines.next()?;
    let names: Vec<&str> = lines
        .take_while(|line| line.starts_with("  "))
        .flat_map(str::split_whitespace)
        .take_while(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.:".contains(&byte)))
        .collect();
    if names.is_empty() {
        return None;
    }
    let prefix: String = prefix.iter().map(|word| format!("{word} ")).collect();
    Some(format!("{prefix}apt-get purge -y {}", names.join(" ")))
}

/// Returns the command that removes the files listed in the outcome, if it lists only files and all are new.
fn created_files(outcome: &Outcome) -> Option<String> {
    let is_new = |change: &sysop_core::outcome::SystemChange| {
        change.kind == ChangeKind::File && change.is_creation() && !change.name.ends_with('/')
    };
    let all_new = !outcome.changed.is_empty() && outcome.changed.iter().all(is_new);
    (all_new && outcome.hosts.is_empty()).then(|| {
        let names = outcome.changed.iter().rev().map(|change| shell_words::quote(&change.name).into_owned());
        format!("rm -- {}", names.collect::<Vec<_>>().join(" "))
    })
}

#[cfg(test)]
mod tests {
    use sysop_core::outcome::{ChangeKind, Outcome, SystemChange};

    use super::derived_undo;

    #[test]
    fn simple_commands_have_an_inverse() {
        let undo = |command: &str| derived_undo(command, &Outcome::ok(""));
        for (command, inverse) in [
            ("systemctl start nginx", "systemctl stop nginx"),
            ("sudo -n systemctl enable --now nginx", "sudo -n systemctl disable --now nginx"),
            ("mkdir -p site", "rmdir -- site"),
            ("mkdir 'a b' c", "rmdir -- c 'a b'"),
            ("ln -s ../conf site/conf", "rm -- site/conf"),
            ("sudo usermod -aG docker ops", "sudo gpasswd -d ops docker"),
            ("ufw allow 443/tcp", "ufw delete allow 443/tcp"),
            (
                "iptables -A INPUT -p tcp --dport 80 -j ACCEPT",
                "iptables -D INPUT -p tcp --dport 80 -j ACCEPT",
            ),
        ] {
            assert_eq!(undo(command).as_deref(), Some(inverse), "{command}");
        }
        for command in [
            "mkdir $(date +%F)", "mkdir -m 700 x", "rm x", "mv a b", "systemctl daemon-reload",
            "mkdir a; reboot", "ln -s a b/",
        ] {
            assert_eq!(undo(command), None, "{command}");
        }
    }

    #[test]
    fn folders_that_were_created_above_are_removed_too() {
        let undo = |command: &str, created: &[&str]| {
            let mut outcome = Outcome::ok("");
            outcome.changed = created
                .iter()
                .map(|name| SystemChange {
                    kind: ChangeKind::File,
                    name: (*name).to_owned(),
                    how: "created".to_owned(),
                })
                .collect();
            derived_undo(command, &outcome)
        };
        for (command, created, inverse) in [
            ("mkdir -p /srv/a/b/c", &["/srv/a/"][..], "rmdir -- /srv/a/b/c /srv/a/b /srv/a"),
            ("mkdir -p /srv/a/b/c", &["/srv/a/b/c/"], "rmdir -- /srv/a/b/c"),
            ("mkdir -p a/b", &["/home/u/a/"], "rmdir -- a/b a"),
            ("mkdir -p x y/z", &["/home/u/x/", "/home/u/y/z/"], "rmdir -- y/z x"),
            ("mkdir -p /srv/a/b /srv/a/c", &["/srv/a/"], "rmdir -- /srv/a/c /srv/a/b /srv/a"),
            ("mkdir -p a/b", &[], "rmdir -- a/b"),
            ("mkdir -p a/b", &["/home/u/aa/"], "rmdir -- a/b"),
            ("mkdir /srv/a", &["/srv/a/"], "rmdir -- /srv/a"),
        ] {
            assert_eq!(undo(command, created).as_deref(), Some(inverse), "{command} {created:?}");
        }
        assert_eq!(undo("make dirs", &["/srv/a/"]), None, "`rm` removes no folder");
    }

    #[test]
    fn an_installation_is_undone_by_removing_the_new_packages() {
        let output =
            "Reading lists\nThe following NEW packages will be installed:\n  a-lib b\n  c\n0 upgraded\n";
        let undo = derived_undo("sudo apt-get install -y c", &Outcome::ok(output));
        assert_eq!(undo.as_deref(), Some("sudo apt-get purge -y a-lib b c"));
        assert_eq!(derived_undo("sudo apt-get install -y c", &Outcome::ok("c is already the newest")), None);
    }

    #[test]
    fn recorded_new_files_are_removed() {
        let file = |name: &str, how: &str| SystemChange {
            kind: ChangeKind::File,
            name: name.to_owned(),
            how: how.to_owned(),
        };
        let mut outcome = Outcome::ok("");
        outcome.changed = vec![file("/srv/a b", "created")];
        assert_eq!(derived_undo("make", &outcome).as_deref(), Some("rm -- '/srv/a b'"));
        outcome.changed.push(file("/etc/x", "edited"));
        assert_eq!(derived_undo("make", &outcome), None);
    }
}
