//! Plans of captures, by the command.

use sysop_shell::{CommandContext, Resolution, ResolvedFile, ResolvedTarget};

use super::*;

fn survey(uid: u32) -> Survey {
    let mut context = CommandContext::bash();
    context.folder = Some("/srv/app".to_owned());
    context.root = Some("/srv/app".to_owned());
    context.home = Some("/home/ada".to_owned());
    context.uid = Some(uid);
    Survey { context, resolution: Resolution::Elsewhere, ..Survey::default() }
}

fn entries(command: &str) -> Vec<String> {
    plan(command, &survey(0)).expect("a change").entries
}

#[test]
fn a_command_that_only_reads_keeps_nothing() {
    for command in
        ["ls -l /etc", "cat /etc/hosts | sort", "systemctl status nginx", "sysctl -n vm.swappiness"]
    {
        assert_eq!(plan(command, &survey(0)), None, "{command}");
    }
}

#[test]
fn the_end_of_the_commands_own_shell_changes_nothing() {
    let mut own = survey(0);
    own.context.own_shell = true;
    assert_eq!(plan("ls /etc; exit 3", &own), None);
    assert!(
        plan("ls /etc; exit 3", &survey(0)).is_some(),
        "in the shared terminal, it ends the shell of the user"
    );
    let plan = plan("rm a || exit 1", &own).expect("a change");
    assert_eq!((plan.entries, plan.is_complete), (vec!["c:/srv/app/a".to_owned()], true));
}

#[test]
fn what_changes_only_the_shell_keeps_nothing() {
    for command in [
        "cd /tmp && export FOO=bar",
        "export FOO=\"$x\" BAR=2",
        "export PATH=/opt/bin",
        "unalias ll; unset FOO; umask 027; set -o vi; shopt -s extglob; declare -x A=1; pushd /tmp",
    ] {
        let plan = plan(command, &survey(0)).expect("a change of the shell");
        assert!(plan.entries.is_empty() && plan.is_complete, "{command}: {plan:?}");
    }
    let with_file = plan("export A=1; echo x >a", &survey(0)).expect("a change");
    assert_eq!((with_file.entries, with_file.is_complete), (vec!["c:/srv/app/a".to_owned()], true));
    for command in
        ["export A=$(make)", "export A=1; make", "export PATH=/opt/bin; ls", "./export A=1", "export \"$x\""]
    {
        let plan = plan(command, &survey(0)).expect("a change");
        assert!(!plan.is_complete && !plan.entries.is_empty(), "{command}: {plan:?}");
    }
}

#[test]
fn programs_that_only_read_add_nothing_beside_a_change() {
    let own = survey(0);
    for command in ["ls -l '/srv/a b' && echo x >a", "grep -q x a || echo x >>a", "date; uname -a; echo x >a"]
    {
        let plan = plan(command, &own).expect("a change");
        assert_eq!((plan.entries, plan.is_complete), (vec!["c:/srv/app/a".to_owned()], true), "{command}");
    }
}

#[test]
fn the_content_of_written_paths_is_kept() {
    assert_eq!(entries("echo x >/etc/motd"), ["c:/etc/motd"]);
    assert_eq!(entries("rm -r old ~/x"), ["c:/home/ada/x", "c:/srv/app/old"]);
    assert_eq!(entries("sed -i s/a/b/ conf/a.txt"), ["c:/srv/app/conf/a.txt"]);
    assert_eq!(entries("truncate --size=0 log"), ["c:/srv/app/log"]);
    assert_eq!(entries(">log"), ["c:/srv/app/log"]);
    for command in ["chmod 600 a; >b", "chmod -v 600 a >b", "exec >b; chmod +x a", "chmod 600 a; env >b"] {
        assert!(entries(command).contains(&"c:/srv/app/b".to_owned()), "{command}: {:?}", entries(command));
    }
    assert!(plan("echo x >/etc/motd", &survey(0)).unwrap().is_complete);
}

#[test]
fn a_copy_into_a_directory_keeps_the_file_of_that_name() {
    assert_eq!(entries("cp a.conf b.conf /etc/app"), ["i:/etc/app\ta.conf", "i:/etc/app\tb.conf"]);
    assert_eq!(entries("mv a b"), ["c:/srv/app/a", "i:/srv/app/b\ta"]);
}

#[test]
fn changes_of_modes_and_owners_keep_only_metadata() {
    assert_eq!(entries("chmod -R 755 www && chown -R 33:33 www"), ["m:/srv/app/www"]);
    assert_eq!(entries("chmod 600 a; echo b >a"), ["c:/srv/app/a"]);
}

#[test]
fn the_state_that_a_program_changes_is_kept() {
    let has = |command: &str, entry: &str| {
        let found = entries(command);
        assert!(found.iter().any(|found| found == entry), "{command}: {found:?}");
    };
    has("systemctl restart nginx", "u:nginx.service");
    has("systemctl reload nginx", "u:nginx.service:reload");
    has("nginx -t && nginx -s reload", "u:nginx.service:reload");
    has("apachectl graceful", "u:apache2.service:reload");
    has("git commit -m x", "G:/srv/app");
    has("git -C sub reset --hard HEAD~1", "G:/srv/app/sub");
    has("systemctl disable --now a.timer", "u:a.timer");
    has("service nginx stop", "u:nginx.service");
    has("crontab -u ada new", "r:ada");
    has("crontab -r", "r:");
    has("sysctl -w vm.swappiness=10", "s:vm.swappiness");
    has("sysctl -p /etc/sysctl.d/a.conf", "S:/etc/sysctl.d/a.conf");
    has("echo 1 >/proc/sys/net/ipv4/ip_forward", "s:net/ipv4/ip_forward");
    has("nft flush ruleset", "f:nft");
    has("iptables -A INPUT -j DROP", "f:iptables");
    has("firewall-cmd --add-masquerade", "f:nft");
    has("firewall-cmd --add-masquerade", "s:net.ipv4.ip_forward");
    has("useradd -m bob", "g:");
    has("userdel -r bob", "h:bob");
    has("apt-get install -y nginx", "a:install nginx");
    has("hostnamectl set-hostname web2", "c:/etc/hostname");
    has("hostnamectl set-hostname web2", "s:kernel.hostname");
    has("dpkg --configure nginx", "d:nginx");
    has("dpkg -i ./a.deb", "d:/srv/app/a.deb");
    has("./deploy.sh", "w:/etc");
}

#[test]
fn the_repository_is_the_one_that_the_options_of_git_choose() {
    for (command, wanted) in [
        ("git commit -C HEAD", vec!["G:/srv/app"]),
        ("git -C a -C b reset --hard", vec!["G:/srv/app/a/b"]),
        ("git -c core.editor=true -C /srv/other commit -C HEAD~1", vec!["G:/srv/other"]),
        ("git -C a --git-dir=.git --work-tree ../www clean -fd", vec!["G:/srv/app/a", "G:/srv/app/www"]),
        ("git --git-dir /srv/x/.git -p gc", vec!["G:/srv/app", "G:/srv/x"]),
    ] {
        let found: Vec<_> = entries(command).into_iter().filter(|entry| entry.starts_with("G:")).collect();
        assert_eq!(found, wanted, "{command}");
    }
}

#[test]
fn sudo_keeps_the_state_as_root() {
    assert_eq!(plan("sudo rm /etc/motd", &survey(1000)).unwrap().rights, UndoRights::Root);
    assert_eq!(plan("rm a", &survey(1000)).unwrap().rights, UndoRights::Own);
    assert_eq!(plan("sudo rm /etc/motd", &survey(0)).unwrap().rights, UndoRights::Own);
}

#[test]
fn a_program_that_is_not_known_is_watched_but_never_complete() {
    for command in ["./deploy.sh", "make install", "apt-get install nginx", "rm $x", "eval \"$x\""] {
        assert!(!plan(command, &survey(0)).unwrap().is_complete, "{command}");
    }
    let own = plan("./deploy.sh", &survey(1000)).unwrap();
    assert!(!own.entries.iter().any(|entry| entry == "w:/etc"), "{own:?}");
}

#[test]
fn words_with_line_breaks_are_left_out() {
    let found = plan("rm 'a\nc:/etc/shadow'", &survey(0)).unwrap();
    assert!(found.entries.is_empty(), "{found:?}");
}

/// Surveys a command that runs scripts with these texts. All of them are older than the session.
fn with_scripts(command: &str, scripts: &[(&str, Option<&str>)]) -> Survey {
    let mut survey = survey(0);
    let script = |target: &Target| {
        let (_, text) = scripts.iter().find(|(name, _)| *name == target.word)?;
        let path = resolve(&target.word, target.folder.as_deref(), &survey);
        let file = ResolvedFile { path, script: text.map(str::to_owned), ..ResolvedFile::default() };
        Some(ResolvedTarget { target: target.clone(), files: vec![file] })
    };
    survey.targets = shell::analyze(command, &survey).targets.iter().filter_map(script).collect();
    survey
}

#[test]
fn the_targets_of_a_script_are_those_of_the_command_that_runs_it() {
    let text = "#!/bin/sh\nset -e\necho hello >out.txt\nrm -f old\nsed -i s/a/b/ conf/a\n";
    for (command, folder) in [
        ("sh mk.sh", "/srv/app"),
        ("bash -e mk.sh", "/srv/app"),
        ("./mk.sh", "/srv/app"),
        ("cd sub && sh ../mk.sh", "/srv/app/sub"),
        ("cd /opt && ./mk.sh", "/opt"),
    ] {
        let names = ["mk.sh", "./mk.sh", "../mk.sh"];
        let survey = with_scripts(command, &names.map(|name| (name, Some(text))));
        let plan = plan(command, &survey).expect("a change");
        let wanted = ["conf/a", "old", "out.txt"].map(|name| format!("c:{folder}/{name}"));
        assert_eq!((plan.entries.as_slice(), plan.is_complete), (wanted.as_slice(), true), "{command}");
    }
}

#[test]
fn a_script_of_which_a_part_is_unknown_counts_as_an_unknown_program() {
    let unknown = plan("make", &survey(0)).expect("a change").entries;
    let command = "sh mk.sh";
    let empties = plan(command, &with_scripts(command, &[("mk.sh", Some(">out\n"))])).expect("a change");
    assert_eq!(empties.entries, ["c:/srv/app/out"]);
    for text in [
        Some("echo x >\"$1\""),
        Some("f() { echo x >out; }; f"),
        Some("eval \"$x\""),
        Some("make"),
        Some("#!/usr/bin/env python3\nopen('out', 'w')"),
        Some("if"),
        Some("\u{7f}ELF\0"),
        None,
    ] {
        for command in ["sh mk.sh", "./mk.sh"] {
            let plan = plan(command, &with_scripts(command, &[("mk.sh", text), ("./mk.sh", text)]));
            let plan = plan.expect("a change");
            assert!(!plan.is_complete, "{command}: {text:?}");
            assert!(
                unknown.iter().all(|entry| plan.entries.contains(entry)),
                "{command}: {text:?}: {plan:?}"
            );
        }
    }
    // The host did not find the script, or its name is not known.
    for command in ["sh mk.sh", "./mk.sh", "sh \"$x\"", "bash -c \"$x\"", "if"] {
        let plan = plan(command, &survey(0)).expect("a change");
        assert!(!plan.is_complete && plan.entries == unknown, "{command}: {plan:?}");
    }
    let command = "cd /opt && sh mk.sh";
    let plan = plan(command, &with_scripts(command, &[("mk.sh", Some("echo x >\"$1\""))])).expect("a change");
    assert!(plan.entries.contains(&"w:/opt".to_owned()), "{plan:?}");
}
