//! Scope of "for this session".

use crate::context::{ResolvedFile, ResolvedTarget};
use crate::grant::Grant;
use crate::{analyze, covers, grant_for};

fn grant(command: &str) -> Grant {
    grant_for(command, &analyze(command, &super::bash()), &super::bash())
}

fn covered(grant: &Grant, command: &str) -> bool {
    covers(grant, command, &analyze(command, &super::bash()), &super::bash())
}

fn program(program: &str, subcommand: Option<&str>) -> Grant {
    Grant::Program { program: program.to_owned(), subcommand: subcommand.map(str::to_owned) }
}

#[test]
fn one_plain_command_grants_its_subcommand() {
    for (command, name, subcommand) in [
        ("git status", "git", "status"),
        ("git commit -m 'one thing'", "git", "commit"),
        ("systemctl restart nginx", "systemctl", "restart"),
        ("apt update", "apt", "update"),
        ("cargo test --lib", "cargo", "test"),
        ("git stash list", "git", "stash list"),
        ("docker compose up -d", "docker", "compose up"),
    ] {
        assert_eq!(grant(command), program(name, Some(subcommand)), "{command}");
    }
}

#[test]
fn a_program_without_subcommands_is_granted_only_for_reads() {
    assert_eq!(grant("ls -la"), program("ls", None));
    assert_eq!(grant("grep -rn x ."), program("grep", None));
    for command in ["curl https://x.example", "make", "sort -o f f", "dig x.example", "find . -name x"] {
        assert_eq!(grant(command), Grant::Exact { command: command.to_owned() }, "{command}");
    }
}

#[test]
fn complex_commands_are_granted_byte_for_byte() {
    for command in [
        "git status; ls",
        "git status && ls",
        "git status | cat",
        "git status > f",
        "git status &",
        "git status # x",
        "GIT_DIR=x git status",
        "X=1 git status",
        "sudo git status",
        "env git status",
        "timeout 5 git status",
        "./git status",
        "/usr/bin/git status",
        "git -C x status",
        "git -c a=b status",
        "git $x",
        "git \"$x\"",
        "git add *",
        "git add {a,b}",
        "git add $'a'",
        "git",
        "git stash drop",
        "git config alias.x '!ls'",
        "git push --force",
        "git reset --hard",
        "npm run build",
        "docker exec web ls",
        "git push",
        "git push origin main",
        "git fetch origin",
        "kubectl apply -f x.yaml",
        "npm install x",
        "pip install x",
        "apt install nginx",
        "scp a h:b",
        "mktemp",
        "mktemp -t x",
        "bash -c ls",
        "bash",
        "python3 x.py",
        "awk '{print}' f",
        "rm x",
        "rm -rf /",
        "find . -name x",
        "xargs ls",
        "ssh host ls",
        "eval ls",
        "(git status)",
        "! git status",
        "git status\nls",
        "git statu(",
        "",
    ] {
        assert_eq!(grant(command), Grant::Exact { command: command.to_owned() }, "{command}");
    }
}

#[test]
fn an_exact_grant_covers_only_the_same_bytes() {
    let exact = grant("rm x");
    assert!(covered(&exact, "rm x"));
    for command in ["rm  x", "rm x ", "rm x; ls", "rm y"] {
        assert!(!covered(&exact, command), "{command}");
    }
}

#[test]
fn a_program_grant_covers_only_its_own_kind() {
    let status = program("git", Some("status"));
    assert!(covered(&status, "git status"));
    assert!(covered(&status, "git status -sb"));
    for command in [
        "git status; rm -rf /",
        "git status && rm -rf /",
        "git status | sh",
        "git status > /etc/passwd",
        "git status $(rm -rf /)",
        "git status `ls`",
        "git -c x status",
        "git -c core.fsmonitor=./x status",
        "git statusx",
        "git commit",
        "git stat''us --x $y",
        "sudo git status",
        "GIT_DIR=x git status",
        "./git status",
        "git",
    ] {
        assert!(!covered(&status, command), "{command}");
    }
    let grep = program("git", Some("grep"));
    assert!(covered(&grep, "git grep -n x"));
    for command in
        ["git grep --op='touch P' x", "git grep -Ovi x", "git grep --unheard-of x", "git grep -Y x"]
    {
        assert!(!covered(&grep, command), "{command}");
    }
    let push = program("git", Some("push"));
    assert!(!covered(&push, "git push origin main"), "a command that sends data is granted only exactly");
    let restart = program("systemctl", Some("restart"));
    assert!(covered(&restart, "systemctl restart nginx"));
    assert!(!covered(&restart, "systemctl restart sshd"));
}

#[test]
fn a_program_grant_stays_below_the_directory() {
    let touch = program("touch", None);
    let tar = program("tar", None);
    for command in [
        "touch c.txt",
        "touch ./a/b",
        "touch a..b",
        "touch -r a.txt b.txt",
        "touch /home/ada/work/d.txt",
        "touch -ra b",
    ] {
        assert!(covered(&touch, command), "{command}");
        assert_eq!(grant(command), touch, "{command}");
    }
    for command in [
        "touch /etc/x",
        "touch /home/ada/workshop",
        "touch /home/ada/work/../x",
        "touch ../x",
        "touch a/../../x",
        "touch ..",
        "touch ~/x",
        "touch ~ada/x",
        "touch c.txt /etc/x",
        "touch -r/etc/passwd c.txt",
        "touch --reference=/etc/passwd c.txt",
        "touch -cr/etc/passwd c.txt",
        "touch -acr../x c.txt",
        "touch -cr~/x c.txt",
        "touch --reference ../x c.txt",
        "touch -- /etc/x",
    ] {
        assert!(!covered(&touch, command), "{command}");
        assert_eq!(grant(command), Grant::Exact { command: command.to_owned() }, "{command}");
    }
    assert!(!covered(&tar, "tar tf /etc/x.tar"));
    assert!(!covered(&program("ls", None), "ls /etc"));
}

#[test]
fn a_program_grant_follows_symbolic_links() {
    let command = "touch link/x";
    let target = analyze(command, &super::bash()).targets[0].clone();
    for (path, expected) in [("/home/ada/work/real/x", true), ("/etc/x", false)] {
        let files = vec![ResolvedFile { path: path.to_owned(), ..ResolvedFile::default() }];
        let mut survey = super::bash();
        survey.targets = vec![ResolvedTarget { target: target.clone(), files }];
        let analysis = analyze(command, &survey);
        assert_eq!(covers(&program("touch", None), command, &analysis, &survey), expected, "{path}");
    }
}

#[test]
fn a_program_grant_without_subcommand_covers_only_reads() {
    let sort = program("sort", None);
    assert!(covered(&sort, "sort -u f"));
    assert!(!covered(&sort, "sort -o f f"));
    assert!(!covered(&sort, "sort --compress-program=./x f"));
    assert!(!covered(&program("rm", None), "rm x"));
    assert!(!covered(&program("bash", None), "bash --version"));
    assert!(!covered(&Grant::Tool { name: "bash".to_owned() }, "ls"));
}
