//! Wrappers, disguises, findings, words: one test per rule.

use super::class_of;
use crate::risk::{Risk, RiskClass};
use crate::{Access, Invocation, ResolvedFile, ResolvedTarget, Survey, Target, analyze};

/// Ways to start a command, which `@` stands for.
const WRAPPERS: &[&str] = &[
    "sudo @",
    "sudo -n @",
    "sudo -u root @",
    "sudo -u root -g root -E @",
    "sudo --user=root @",
    "sudo --user root @",
    "sudo -H -- @",
    "sudo A=1 @",
    "sudo -X @",
    "doas @",
    "doas -u root @",
    "pkexec @",
    "env @",
    "env -i A=1 @",
    "env -u PATH @",
    "env -C / @",
    "nice @",
    "nice -n 5 @",
    "nice -5 @",
    "ionice -c 3 @",
    "time @",
    "time -p @",
    "timeout 5 @",
    "timeout -s KILL -k 1 5s @",
    "nohup @",
    "setsid @",
    "setsid -w @",
    "stdbuf -o0 @",
    "stdbuf -oL -e 0 @",
    "flock f @",
    "flock -n -w 5 f @",
    "flock f -c '@'",
    "strace -o /dev/null @",
    "strace -f -e trace=open @",
    "busybox @",
    "chroot /mnt @",
    "unshare -m @",
    "nsenter -t 1 -m @",
    "systemd-run --scope @",
    "systemd-run -p A=b --unit=x @",
    "command @",
    "command -p @",
    "builtin @",
    "exec @",
    "exec -a x @",
    "coproc @",
    "xargs @",
    "xargs -n1 -I{} @",
    "xargs -0 -P 4 @",
    "parallel @",
    "watch @",
    "watch -n 1 -d @",
    "watch '@'",
    "script -qc '@'",
    "script -q -c '@' f",
    "su -c '@'",
    "su root -c '@'",
    "su --command='@' root",
    "runuser -u root -- @",
    "sg root -c '@'",
    "chrt 1 @",
    "taskset 1 @",
    "setpriv --reuid=0 @",
    "eatmydata @",
    "proxychains @",
    "noglob @",
    "sh -c '@'",
    "bash -c '@'",
    "bash -lc '@'",
    "bash -o pipefail -c '@'",
    "bash -e -c '@' x y",
    "dash -c '@'",
    "zsh -c '@'",
    "busybox sh -c '@'",
    "/bin/sh -c '@'",
    "sudo sh -c '@'",
    "sh -c \"sh -c '@'\"",
    "eval '@'",
    "eval @",
    "trap '@' EXIT",
    "find . -exec @ \\;",
    "find . -execdir @ +",
    "find . -ok @ \\;",
    "ssh host @",
    "ssh host '@'",
    "ssh -p 22 -l u host @",
    "echo '@' | sh",
    "echo '@' | sudo bash",
    "bash <<< '@'",
    "docker exec x @",
    "docker run --rm x @",
    "kubectl exec x -- @",
    "time nice nohup @",
    "sudo env timeout 5 nice @",
    "unknown-option-wrapper; sudo --zz @",
];

/// Places in a script where a command runs.
const PLACES: &[&str] = &[
    "@",
    "@;",
    "@ &",
    "ls; @",
    "ls && @",
    "ls || @",
    "ls | @",
    "ls |& @",
    "! @",
    "(@)",
    "{ @; }",
    "$(@)",
    "echo $(@)",
    "echo \"$(@)\"",
    "echo `@`",
    "echo \"`@`\"",
    "cat <(@)",
    "cat >(@)",
    "if @; then ls; fi",
    "if ls; then @; fi",
    "if ls; then ls; else @; fi",
    "if ls; then ls; elif @; then ls; fi",
    "while @; do ls; done",
    "while ls; do @; done",
    "until @; do ls; done",
    "for x in a; do @; done",
    "for x in $(@); do ls; done",
    "case x in x) @;; esac",
    "case $(@) in x) ls;; esac",
    "f() { @; }",
    "function f { @; }",
    "x=$(@)",
    "x=$(@) ls",
    "x=(a $(@))",
    "export x=$(@)",
    "echo ${x:-$(@)}",
    "echo ${x:=$(@)}",
    "echo \"${x:+$(@)}\"",
    "echo $((1 + $(@)))",
    "((x = $(@)))",
    "((@))", // two subshells to a plain sh
    "(((@)))",
    "while ((@)); do ls; done",
    "[ -n \"$(@)\" ]",
    "[[ -n $(@) ]]",
    "ls > $(@)",
    "ls <<< $(@)",
    "cat <<E\n$(@)\nE",
    "cat <<E && @\nx\nE",
    "cat <<E | @\nx\nE",
    "# x\n@",
    "ls # x\n@",
    "ls\n@\nls",
    "ls \\\n; @",
    "select x in a; do @; done",
    "{ ls; } | { @; }",
    "ls 2>&1 | tee x | @",
    "for ((i=0;i<1;i++)); do @; done",
    "(ls; (ls; (@)))",
    "A=1 B=2 @",
    ">x @",
    "2>/dev/null @",
];

#[test]
fn awk_programs_that_only_read_are_read_only() {
    for command in [
        "awk '{print $1}' f",
        "awk '{print $1}' f - g",
        "ps aux | awk 'NR>1 && /nginx|apache/ {print $2, $NF}'",
        "awk -F: -v n=5 '$3 >= n || $1 == \"root\" {s += $3} END {printf \"%d\\n\", s}' /etc/hostname",
        "awk 'BEGIN {while (i++ < 3) print i}'",
        "/usr/bin/awk '{print}' f",
        "gawk 'length($0) > 80' f.txt",
        "timeout 5 awk 1 f",
        "nice -n 5 stdbuf -oL df -h",
    ] {
        assert_eq!(class_of(command).0, RiskClass::ReadOnly, "{command}");
    }
    for secret in ["awk '{print}' /etc/shadow", "timeout 5 cat ~/.ssh/id_rsa", "awk 1 f ~/.aws/credentials"] {
        assert_eq!(class_of(secret).0, RiskClass::ReadsSecret, "{secret}");
    }
}

#[test]
fn other_awk_programs_and_wrapped_commands_are_more_than_reads() {
    for command in [
        "awk '{print > \"P\"}' f",
        "awk '{print>>\"P\"}' f",
        "awk '{print | \"sh\"}' f",
        "awk '{print || 1 | \"sh\"}' f",
        "awk '{print ||| \"sh\"}' f",
        "awk 'function w(x) {print x > \"P\"} {w($0)}' f",
        "awk 'BEGIN {\"id\" | getline x; print x}'",
        "awk 'BEGIN {\"id\" |& getline}'",
        "awk 'BEGIN {while ((getline l < \"/etc/shadow\") > 0) print l}'",
        "awk 'BEGIN {system(\"id\")}'",
        "awk 'BEGIN {s = \"system\"; @s(\"id\")}'",
        "awk 'BEGIN {ARGV[1] = \"/etc/shadow\"; ARGC = 2} {print}'",
        "awk 'BEGIN {print ENVIRON[\"TOKEN\"]}'",
        "gawk 'BEGIN{SYMTAB[\"AR\" \"GV\"][1]=\"/etc/shadow\"; SYMTAB[\"AR\" \"GC\"]=2} {print}'",
        "gawk 'BEGIN {print SYMTAB[\"ENV\" \"IRON\"][\"TOKEN\"]}'",
        "gawk 'BEGIN {for (f in FUNCTAB) print f}'",
        "gawk 1 /inet/tcp/0/example.com/80",
        "gawk 1 /inet4/tcp/0/example.com/80",
        "awk 1 /dev/tcp/example.com/80",
        "awk 'BEGIN {for (k in ENVIRON) print k}'",
        "awk 'BEGIN {sys\\\ntem(\"id\")}'",
        "awk 'BEGIN {pri\\\r\nnt > \"P\"}'",
        "awk -f prog f",
        "awk -e '{print}' f",
        "awk -i inplace '{print}' f",
        "awk -E prog",
        "awk -l ext '{print}'",
        "awk --dump-variables=P '{print}'",
        "awk -o P '{print}' f",
        "awk -W exec prog",
        "awk \"$x\" f",
        "awk '{print}' -f prog",
        "awk '{print}' f -fprog",
        "awk '{print}' *",
        "awk '{print}' $x",
        "awk -v x=$y '{print}' f",
        "awk",
        "awk -F:",
        "./awk '{print}' f",
        "/tmp/awk '{print}' f",
        "a\\wk '{print}' f",
        "AWK '{print}' f",
        "PATH=. awk '{print}' f",
        "AWKPATH=. awk '{print}' f",
        "LD_PRELOAD=./x awk '{print}' f",
        "awk() { rm f; }; awk '{print}' f",
        "alias awk='rm f'; awk '{print}' f",
        "echo f | xargs awk",
        "echo f | xargs awk '{print}'",
        "find . -exec awk '{print}' {} +",
        "./timeout 5 df",
        "/tmp/nice df",
        "ti\\meout 5 df",
        "timeout() { rm f; }; timeout 5 df",
        "timeout --unknown 5 df",
        "timeout $x df",
        "timeout 5 $x",
        "timeout 5 ./df",
        "timeout 5 touch P",
        "timeout 5 sh -c 'touch P'",
        "nice sudo df",
        "LD_PRELOAD=./x timeout 5 df",
        "stdbuf -o0 tee P",
    ] {
        assert!(class_of(command).0 > RiskClass::ReadOnly, "{command}");
    }
}

#[test]
fn plain_arithmetic_is_not_dangerous() {
    for command in [
        "((i++))",
        "((x = y * 3))",
        "((a > b))",
        "((n % 2 == 0))",
        "((x <<= 2))",
        "((a && b || c))",
        "((end > start))",
        "((end - start))",
        "((mid=(lo+hi)/2))",
        "((x = a ? b : c))",
        "for ((i=0; i<9; i++)); do ls; done",
        "while ((n--)); do ls; done",
    ] {
        let (class, why) = class_of(command);
        assert!(class < RiskClass::Dangerous, "{command:?}: {why}");
    }
}

const DESTRUCTIVE: &str = "rm -rf /";

#[test]
fn every_wrapper_keeps_the_danger() {
    for wrapper in WRAPPERS {
        let command = wrapper.replace('@', DESTRUCTIVE);
        let (class, why) = class_of(&command);
        assert!(class >= RiskClass::Dangerous, "{command:?}: {why}");
    }
}

#[test]
fn every_syntactic_place_keeps_the_danger() {
    for place in PLACES {
        let command = place.replace('@', DESTRUCTIVE);
        let (class, why) = class_of(&command);
        assert!(class >= RiskClass::Dangerous, "{command:?}: {why}");
    }
}

#[test]
fn only_limits_priorities_and_buffers_leave_a_command_read_only() {
    for wrapper in WRAPPERS {
        let (class, why) = class_of(&wrapper.replace('@', "ls"));
        let name = wrapper.split(' ').next();
        let is_transparent = matches!(name, Some("nice" | "timeout" | "stdbuf"));
        assert_eq!(class == RiskClass::ReadOnly, is_transparent, "{wrapper:?}: {why}");
    }
}

#[test]
fn every_syntactic_place_parses() {
    for place in PLACES {
        let (class, why) = class_of(&place.replace('@', "ls"));
        assert!(class < RiskClass::Dangerous, "{place:?}: {why}");
    }
}

#[test]
fn quoting_does_not_hide_a_program() {
    for disguise in [
        "r\\m", "r''m", "r\"\"m", "'r'm", "\"r\"'m'", "$'rm'", "$'\\x72m'", "$'\\162m'", "$'\\u0072m'",
        "\\r\\m", "r\\\nm",
    ] {
        let (class, why) = class_of(&format!("{disguise} -rf /"));
        assert!(class >= RiskClass::Dangerous, "{disguise:?}");
        assert!(why.contains("recursive delete"), "{disguise:?}: {why}");
        let (class, why) = class_of(&format!("{} x", disguise.replace('m', "mdir")));
        assert_eq!(class, RiskClass::Opaque, "{disguise:?}");
        assert!(why.contains("quoting hides"), "{disguise:?}: {why}");
    }
}

#[test]
fn hidden_characters_are_dangerous() {
    for hidden in [
        '\0', '\r', '\u{8}', '\u{1b}', '\u{7f}', '\u{9b}', '\u{a0}', '\u{ad}', '\u{200b}', '\u{200d}',
        '\u{202e}', '\u{2066}', '\u{2028}', '\u{2003}', '\u{3000}', '\u{feff}', '\u{e0020}', '\u{fe0f}',
        '\u{3164}',
    ] {
        let analysis = analyze(&format!("ls {hidden}x"), &super::bash());
        assert_eq!(analysis.risk.class, RiskClass::Dangerous, "{hidden:?}");
        let finding = analysis.risk.findings.first().expect("a finding");
        assert_eq!((finding.start, finding.end), (3, 3 + hidden.len_utf8()));
    }
    assert_eq!(class_of("echo 'Grüße, 世界 🦀'").0, RiskClass::ReadOnly);
}

#[test]
fn findings_point_at_their_text() {
    for (command, part, why) in [
        ("ls; rm -rf /; ls", "rm -rf /", "recursive delete"),
        ("sudo apt update", "sudo", "runs as root or another user"),
        ("sh -c 'ls; rm -rf /'", "'ls; rm -rf /'", "recursive delete"),
        ("echo x > /dev/sda", "> /dev/sda", "writes to a block device"),
        ("ls && $x", "$x", "the program is not known before the command runs"),
        ("echo \"é$(rm -rf x)\"", "rm -rf x", "recursive delete"),
        ("echo \"é`rm -rf x`\"", "`rm -rf x`", "recursive delete"),
        ("echo ${x:-y}", "${x:-y}", "uses a complex expansion"),
        ("ls; python3 -c 'x()'", "python3 -c 'x()'", "runs inline code"),
    ] {
        let analysis = analyze(command, &super::bash());
        let found = analysis.risk.findings.iter().find(|finding| finding.why == why).expect(command);
        assert_eq!(command.get(found.start..found.end), Some(part), "{command}");
    }
}

#[test]
fn a_change_of_permissions_is_called_recursive_only_if_it_is() {
    for (command, why) in [
        ("chmod 755 /srv", "changes permissions of a system path or a home directory"),
        ("chown x ~", "changes permissions of a system path or a home directory"),
        ("chmod -R 755 /srv", "changes permissions recursively"),
        ("chown --recursive x ~", "changes permissions recursively"),
    ] {
        let found = class_of(command);
        assert!(found.0 >= RiskClass::Dangerous && found.1.contains(why), "{command}: {found:?}");
    }
}

#[test]
fn changes_have_a_reason() {
    for command in ["touch x", "frobnicate", "ls -Q9", "./ls"] {
        let analysis = analyze(command, &super::bash());
        assert_eq!(analysis.risk.class, RiskClass::Changes, "{command}");
        assert!(!analysis.risk.findings.is_empty(), "{command}");
    }
    for (command, part, why) in [
        ("for f in *; do wc $f; done", "for", "a loop"),
        ("while true; do ls; done", "while", "a loop"),
        ("until false; do ls; done", "until", "a loop"),
        ("if true; then ls; fi", "if", "a condition"),
        ("case x in y) ls;; esac", "case", "a condition"),
        ("[[ -e x ]]", "[[ -e x ]]", "a condition"),
        ("echo \"now: $(date)\"", "$(date)", "a substitution"),
        ("echo `date`", "`date`", "a substitution"),
        ("diff <(ls a) <(ls b)", "<(ls a)", "a substitution"),
        ("ls $x", "$x", "a word that is known only at run time"),
        ("cat \"$x\"", "\"$x\"", "a word that is known only at run time"),
        ("echo $((1 + 2))", "$((1 + 2))", "arithmetic"),
        ("ls {a,b}", "{a,b}", "braces that become several words"),
        ("cat <<'X'\nhello\nX", "<<'X'", "uses a here-document"),
        ("wc <<< text", "<<< text", "uses a here-string"),
        ("ls &", "&", "runs in the background"),
        ("time ls", "time", "starts another program"),
        ("watch ls", "watch", "starts another program"),
        ("ls | xargs wc", "xargs", "takes arguments from standard input"),
        ("find . -exec wc {} +", "-exec", "runs a program on the files found"),
        ("x=1", "x=1", "sets a variable"),
        ("export x=1", "x=1", "sets a variable"),
        ("export x", "export x", "sets a variable"),
        ("export -p", "export -p", "shows or sets variables"),
        ("touch b", "b", "creates or changes a file"),
        ("mkdir -p a >log", "a", "creates a directory"),
        ("mkdir -p a >log", ">log", "writes to a file"),
        ("sh b", "sh", "runs a script"),
        ("sh -c ls", "sh", "starts a shell"),
        ("read x", "read x", "sets a variable"),
        ("set -x", "set -x", "changes how this shell works"),
    ] {
        let Risk { class, findings } = analyze(command, &super::bash()).risk;
        assert_eq!(class, RiskClass::Changes, "{command}");
        let found: Vec<_> =
            findings.iter().map(|found| (&command[found.start..found.end], found.why.as_str())).collect();
        assert!(found.contains(&(part, why)), "{command}: {found:?}");
    }
    assert!(analyze("ls -la | wc -l", &super::bash()).risk.findings.is_empty());
}

#[test]
fn a_path_that_cannot_be_checked_has_one_reason() {
    let computed = "writes to a path that is computed at run time";
    for (command, reason) in [("echo 1 >$x", computed), ("echo 1 >a", "writes to a file")] {
        let Risk { findings, .. } = analyze(command, &super::bash()).risk;
        let mut found: Vec<_> = findings.iter().map(|finding| finding.why.as_str()).collect();
        found.retain(|why| why.starts_with("writes"));
        assert_eq!(found, [reason], "{command}");
    }
}

#[test]
fn one_fact_has_one_reason() {
    let reasons = |command: &str, survey: &Survey| -> Vec<String> {
        analyze(command, survey).risk.findings.into_iter().map(|finding| finding.why).collect()
    };
    let bash = super::bash();
    assert_eq!(reasons("export x=1", &bash), ["sets a variable"]);
    assert_eq!(reasons("x=1; export x", &bash), ["sets a variable"; 2], "a card shows the reason once");
    let sort = ["an unknown option or operand", "an option computed at run time"];
    assert_eq!(reasons("sort $x f", &bash), sort);

    let target = Target {
        word: "run.sh".to_owned(),
        glob: false,
        folder: bash.context.folder.clone(),
        access: Access::Run,
    };
    let script = Some("echo \"now: $(date)\"\n".to_owned());
    let file = ResolvedFile {
        path: "/home/ada/work/run.sh".to_owned(),
        changed_in_session: true,
        script,
        ..ResolvedFile::default()
    };
    let survey = Survey { targets: vec![ResolvedTarget { target, files: vec![file] }], ..bash };
    assert_eq!(reasons("sh run.sh", &survey), ["runs a script that contains a substitution"]);
}

#[test]
fn wrapped_invocations_are_unwrapped() {
    let command = "sudo -u x ls \"a b\" $y *.c; sh -c 'cat f'";
    let analysis = analyze(command, &super::bash());
    let found: Vec<(&str, Vec<_>)> = analysis
        .invocations
        .iter()
        .map(|Invocation { words, span: (start, end) }| {
            (&command[*start..*end], words.iter().map(Option::as_deref).collect())
        })
        .collect();
    let (listed, script) = ("ls \"a b\" $y *.c", "sh -c 'cat f'");
    let expected = [
        (
            "sudo -u x ls \"a b\" $y *.c",
            vec![Some("sudo"), Some("-u"), Some("x"), Some("ls"), Some("a b"), None, None],
        ),
        (listed, vec![Some("ls"), Some("a b"), None, None]),
        (script, vec![Some("sh"), Some("-c"), Some("cat f")]),
        ("'cat f'", vec![Some("cat"), Some("f")]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn nothing_to_run_is_read_only() {
    for command in ["", " ", "\n\n", "# only a comment"] {
        let analysis = analyze(command, &super::bash());
        assert_eq!(analysis.risk.class, RiskClass::ReadOnly, "{command:?}");
        assert!(analysis.invocations.is_empty());
    }
}

#[test]
fn files_in_shared_memory_are_ordinary_files() {
    for (command, class) in [
        ("echo x > /dev/shm/a", RiskClass::Changes),
        ("echo x >> /dev/SHM/a", RiskClass::Changes),
        ("cd /dev/shm; ls > a", RiskClass::Changes),
        ("ls > /dev/null 2> /dev/stderr", RiskClass::ReadOnly),
    ] {
        let (found, why) = class_of(command);
        assert_eq!(found, class, "{command:?}: {why}");
    }
}

#[test]
fn directory_changes_are_tracked() {
    for (command, class) in [
        ("cd /etc && echo x > passwd", RiskClass::Lockout),
        ("cd /tmp; cd ../etc; echo x > passwd", RiskClass::Lockout),
        ("pushd /etc; echo x > passwd", RiskClass::Lockout),
        ("cd \"$d\"; echo x > passwd", RiskClass::Opaque),
        ("cd -; echo x > passwd", RiskClass::Opaque),
        ("cd /etc || cd /tmp; echo x > passwd", RiskClass::Lockout),
        ("(cd /etc); echo x > passwd", RiskClass::Changes),
        ("cd /etc; (cd /tmp); echo x > passwd", RiskClass::Lockout),
        ("cd build && echo x > passwd", RiskClass::Changes),
        ("mkdir b && cd b && echo x > f", RiskClass::Changes),
        ("mkdir b && cd b && cd c && echo x > f && ls", RiskClass::Changes),
        ("ls && cd /etc && echo x > passwd", RiskClass::Lockout),
        ("ls && cd \"$x\" && echo x > f", RiskClass::Opaque),
        ("ls && cd b; echo x > f", RiskClass::Changes),
        ("ls && cd b || ls; echo x > f", RiskClass::Changes),
        ("cd /etc; cd /nowhere; echo x > passwd", RiskClass::Lockout),
        ("cd /etc; cd /tmp & echo x > passwd", RiskClass::Lockout),
        ("cd /etc; nice cd /tmp; echo x > passwd", RiskClass::Lockout),
        ("cd /etc; bash -c 'cd /tmp'; echo x > passwd", RiskClass::Lockout),
        ("if ls; then cd /etc; fi; echo x > passwd", RiskClass::Lockout),
        ("cd /tmp; for i in 1 2; do echo x > passwd; cd /etc; done", RiskClass::Opaque),
        ("cd /tmp; while cd /etc; do cat shadow; done", RiskClass::ReadsSecret),
        ("cd /etc && ls passwd", RiskClass::ReadOnly),
    ] {
        assert_eq!(class_of(command).0, class, "{command}");
    }
}

#[test]
fn a_value_counts_as_text_only_for_programs_that_take_any_text() {
    for command in [
        "echo $x",
        "echo -n \"$x\"",
        "echo ${x}y",
        "[ -n \"$x\" ] && echo \"$?\"",
        "[ ! \"$x\" = \"$y\" ]",
        "printf '%s\\n' \"$x\"",
        "(echo \"$x\")",
        "cat \"$HOME/notes\"",
    ] {
        assert_eq!(class_of(command).0, RiskClass::ReadOnly, "{command:?}");
    }
    for command in [
        "cat \"$x\"", "cat $HOME/notes", "ls $x", "[ \"$x\" \"$y\" ]", "[ $x = y ]", "[ -v \"$x\" ]",
        "[ \"$x\" -eq 1 ]", "printf \"$x\"", "printf '%d' \"$x\"", "printf '%s%d' $x 1", "sort \"$x\"",
        "find . -name \"$x\"", "$x echo", "x=1 echo \"$x\"", "echo \"${x:=1}\"", "echo \"${x@P}\"",
        "echo \"${!x}\"", "echo \"$(date)\"", "echo $((x))", "ec''ho \"$x\"", "echo \"$x\" > \"$y\"",
    ] {
        assert!(class_of(command).0 >= RiskClass::Changes, "{command:?}");
    }
    for command in
        ["echo $OPENAI_API_KEY", "echo \"${DB_PASSWORD:-none}\"", "curl -H \"X: $GH_TOKEN\" http://x.example"]
    {
        assert_eq!(class_of(command).0, RiskClass::ReadsSecret, "{command:?}");
    }
}

#[test]
fn expansions_separated_by_blanks_are_parsed() {
    for (command, expected) in [
        ("echo \"$HOME $USER\"", RiskClass::ReadOnly),
        ("pwd; echo \"$KEPT $kept\"", RiskClass::ReadOnly),
        ("echo \"$(pwd) $(date)\"", RiskClass::Changes),
        ("echo \"${x} ${y}\"", RiskClass::ReadOnly),
        ("echo \"$? $((1 + 2)) $x\"", RiskClass::Changes),
        ("echo \"$a\t$b\n  $c\"", RiskClass::ReadOnly),
    ] {
        let (class, why) = class_of(command);
        assert_eq!(class, expected, "{command:?}: {why}");
    }
    for command in ["echo \"$x $(rm -rf /)\"", "echo \"$(pwd) $(rm -rf /)\""] {
        assert!(class_of(command).0 >= RiskClass::Dangerous, "{command:?}");
    }
}

#[test]
fn reads_of_secrets_by_other_programs_are_detected() {
    for command in [
        "find ~/.ssh -type f -exec cat {} +",
        "find ~ -name 'id_*' -exec cat {} \\;",
        "find / -name shadow -exec grep root {} +",
        "find ~/.ssh -type f | xargs cat",
        "echo /etc/shadow | xargs cat",
        "xargs cat <<< /etc/shadow",
        "ls ~/.ssh/* | xargs -n1 cat",
        "git diff --no-index /etc/shadow x",
        "git diff /etc/shadow x",
        "kubectl get secret db -o yaml",
        "kubectl get secrets -ojson",
        "kubectl -n x get pods,secrets --output=yaml",
        "kubectl get secret/db --template='{{.data}}'",
        "echo \"`cat /etc/shadow`\"",
        "echo \" `cat /etc/shadow`\"",
        "echo \"a `cat /etc/shadow` b\"",
    ] {
        let (class, why) = class_of(command);
        assert!(class >= RiskClass::ReadsSecret, "{command:?} {class:?}: {why}");
    }
    for command in
        ["find src -name '*.rs' -exec grep -n x {} +", "kubectl get secrets", "kubectl get pods -o yaml"]
    {
        assert!(class_of(command).0 <= RiskClass::Changes, "{command:?}");
    }
    for command in ["echo \"a `date` b\"", "echo \"`date` `id -u` x\"", "echo \"n: `wc -l f`\""] {
        assert_eq!(class_of(command).0, RiskClass::Changes, "{command:?}: {}", class_of(command).1);
    }
}

#[test]
fn units_on_which_logins_depend_are_lockouts_in_any_spelling() {
    let names = [
        "ssh",
        "ssh.service",
        "ssh.socket",
        "ssh@1.service",
        "sshd",
        "sshd@0-192.0.2.1:22-192.0.2.7:4.service",
        "sshd.socket",
        "dropbear@x",
        "wg-quick@wg0",
        "wg-quick@wg7.service",
        "wg-quick@office",
        "wg-quick.target",
        "openvpn",
        "openvpn@client",
        "openvpn-client@office",
        "openvpn-server@a.service",
        "ifup@eth0",
        "networking",
        "dhcpcd@eth0",
        "wpa_supplicant@wlan0",
        "wpa_supplicant-wired@eth0",
        "systemd-networkd",
        "systemd-networkd.socket",
        "NetworkManager.service",
        "strongswan",
        "strongswan-starter",
        "tailscaled",
        "user@1000",
        "user-1000.slice",
        "session-3.scope",
        "system.slice",
        "network.target",
        "'wg-*'",
        "'wg-quick@*'",
        "'openvpn*'",
        "'*@wg0'",
        "'w?-quick@wg0'",
        "'ss[h]'",
        "'wg-quick@w*'",
    ];
    for name in names {
        for verb in ["stop", "restart", "disable --now", "mask", "kill", "try-restart"] {
            let command = format!("systemctl {verb} {name}");
            assert_eq!(class_of(&command).0, RiskClass::Lockout, "{command}");
        }
    }
    for name in [
        "nginx", "nginx.service", "postgresql@15-main", "backup@home.timer", "usergroups", "'nginx*'",
        "php-fpm",
    ] {
        let command = format!("systemctl restart {name}");
        assert_eq!(class_of(&command).0, RiskClass::Changes, "{command}");
    }
    assert_eq!(class_of("service openvpn stop").0, RiskClass::Lockout);
}

/// Returns the class in a shell of its own, and in the shell of a terminal that goes on.
fn classes_in_shells(command: &str) -> [RiskClass; 2] {
    [true, false].map(|own_shell| {
        let mut survey = super::bash();
        survey.context.own_shell = own_shell;
        analyze(command, &survey).risk.class
    })
}

#[test]
fn the_end_of_a_shell_is_a_change_only_if_the_shell_would_go_on() {
    let (reads, changes) = (RiskClass::ReadOnly, RiskClass::Changes);
    for command in [
        "ls src; exit 3",
        "exit",
        "cd src || exit 1",
        "ls src; exit $?",
        "ls src; exit \"${?}\"",
        "return 2",
        "ls src && { pwd; exit 0; }",
        "set -e; ls src",
        "set -euo pipefail; ls src | wc -l",
        "set +e",
        "shift 2; ls src",
        "break",
        "ls src | exit 1",
    ] {
        assert_eq!(classes_in_shells(command), [reads, changes], "{command}");
    }
    for command in ["(ls src; exit 3)", "(set -e; ls src)", "true; false; :; test -f a; [ -d b ]"] {
        assert_eq!(classes_in_shells(command), [reads, reads], "{command}");
    }
    for command in [
        "ls src; exit 3; touch a", "exit 3 >a", "exit $code", "exit 'a[$(rm keep)]'", "exit \"1$?$x\"",
        "logout", "set -x; ls src", "set -- a b", "set", "set -eo", "set -o", "set -o xtrace", "set -ek",
        "exec ls src", "exec touch a",
    ] {
        let classes = classes_in_shells(command);
        assert!(classes.iter().all(|class| *class >= changes), "{command}: {classes:?}");
    }
    assert_eq!(classes_in_shells("sh -c 'exit 3'")[0], classes_in_shells("sh -c true")[0]);
    assert_eq!(classes_in_shells("sh -c 'exit 3'")[1], classes_in_shells("sh -c true")[1]);
}

#[test]
fn a_process_id_at_the_end_of_a_word_is_an_unknown_value() {
    // The grammar alone reads `$$` before a semicolon.
    for (command, same) in [
        ("touch /tmp/r-$$ && echo restarted", "touch /tmp/r-$$; echo restarted"),
        ("mv a /tmp/x.$$ && ls", "mv a /tmp/x.$$; ls"),
        ("echo a$$ ok", "echo a$$; echo ok"),
        ("echo a$$\nls", "echo a$$; ls"),
        ("echo a$$\t&& ls", "echo a$$; ls"),
        ("echo x > /etc/cron.d/a$$ && ls", "echo x > /etc/cron.d/a$$; ls"),
        ("sh -c 'rm -r /tmp/x$$ y'", "sh -c 'rm -r /tmp/x$$;' y"),
        ("touch /tmp/f.$$", "touch /tmp/f.$$;"),
        ("cat f.$$", "cat f.$$;"),
        ("cat f.$$|wc -l", "cat f.$$; wc -l"),
        ("(touch a.$$)", "(touch a.$$;)"),
        ("cat a.$$>b", "cat a.$$ >b"),
    ] {
        let (found, expected) = (class_of(command), class_of(same));
        assert_eq!(found.0, expected.0, "{command}: {}, {same}: {}", found.1, expected.1);
        assert!(!found.1.contains("cannot be parsed"), "{command}: {}", found.1);
    }
    assert!(class_of("touch r-$$ && echo restarted").0 < RiskClass::Dangerous);
    for command in [
        "echo a$$ $(rm -rf /)",
        "echo a$$ ; rm -rf /",
        "echo a$$ `rm -rf /`",
        "rm -rf a$$ /",
        "rm -rf /$$",
        "echo a$$&rm -rf /",
        "echo \"a$$\"; rm -rf /",
        "echo \\$$ && rm -rf /",
        "echo '$$ ' && rm -rf /",
        "echo $'$$ ' && rm -rf /",
        "echo \"a$$ $(rm -rf /)\"",
        "echo ${x:-$$ $(rm -rf /)}",
        "[[ $$ == a$$ && -n $(rm -rf /) ]]",
        "for x in a$$ $(rm -rf /); do ls; done",
        "case a$$ in *) rm -rf /;; esac",
        "cat <<E$$ \nx\nE$$ \nrm -rf /",
        "cat <<E$$\nE$0\nE$$\nrm -rf /",
        "cat <<'E$0'\nE$$\nrm -rf /\nE$0\nrm -rf /",
    ] {
        assert!(class_of(command).0 >= RiskClass::Dangerous, "{command:?}: {:?}", class_of(command));
    }
}

#[test]
fn a_hidden_character_is_named() {
    for (command, escape) in [("ls \u{1f469}\u{200d}a", "\\u{200d}"), ("ls \u{1b}[1m", "\\x1b")] {
        let why = format!("contains the control or invisible character {escape}");
        assert_eq!(class_of(command), (RiskClass::Dangerous, why));
    }
    let (_, why) = class_of("ls \u{202e}a\u{2066}b\u{202e}c\u{2069}");
    assert_eq!(why, "contains the control or invisible characters \\u{202e}, \\u{2066}, \\u{2069}");
    let many: String = ('\u{200b}'..='\u{200f}').chain('\u{202a}'..='\u{202e}').collect();
    assert!(class_of(&many).1.ends_with("\\u{202c} and 2 more"));
}
