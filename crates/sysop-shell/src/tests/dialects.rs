//! Shells other than bash: the common subset keeps its class, and everything else is opaque.

use super::{bash, corpora};
use crate::risk::RiskClass;
use crate::{Dialect, Survey, analyze};

fn survey(dialect: Dialect) -> Survey {
    let mut survey = bash();
    survey.context.dialect = dialect;
    survey
}

fn class_in(dialect: Dialect, command: &str) -> (RiskClass, String) {
    let risk = analyze(command, &survey(dialect)).risk;
    let why: Vec<_> = risk.findings.iter().map(|finding| finding.why.clone()).collect();
    (risk.class, why.join("; "))
}

fn assert_opaque(dialect: Dialect, commands: &[&str]) {
    let wrong: Vec<String> = commands
        .iter()
        .filter_map(|command| {
            let (class, why) = class_in(dialect, command);
            (class < RiskClass::Opaque).then(|| format!("{class:?}: {command:?} ({why})"))
        })
        .collect();
    assert!(wrong.is_empty(), "{dialect:?}: {} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn everyday_commands_are_the_same_in_every_analyzed_shell() {
    for dialect in [Dialect::Sh, Dialect::Zsh] {
        let wrong: Vec<String> = corpora::everyday()
            .into_iter()
            .filter(|(expected, _)| *expected <= RiskClass::Changes)
            .filter_map(|(expected, command)| {
                let (found, why) = class_in(dialect, &command);
                (found != expected).then(|| format!("{expected:?} != {found:?}: {command:?} ({why})"))
            })
            .collect();
        assert!(wrong.is_empty(), "{dialect:?}: {} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn common_constructs_are_the_same_in_every_analyzed_shell() {
    for dialect in [Dialect::Bash, Dialect::Sh, Dialect::Zsh] {
        for (command, expected) in [
            ("pwd; echo \"$HOME $USER\"", RiskClass::ReadOnly),
            ("printf '%s %5d\\n' \"$USER\" 5", RiskClass::ReadOnly),
            ("printf '%s\\n' \"$USER\"; [ \"$a\" = \"$b\" ]", RiskClass::ReadOnly),
            ("df -h | sort -k 5", RiskClass::ReadOnly),
            ("git log --oneline -n 5", RiskClass::ReadOnly),
            ("git diff HEAD~1", RiskClass::ReadOnly),
            ("git show HEAD^", RiskClass::ReadOnly),
            ("find . -name '*.rs' -type f", RiskClass::ReadOnly),
            ("grep -rn 'fn main' src | head -n 5", RiskClass::ReadOnly),
            ("ls -la *.txt 2>/dev/null", RiskClass::ReadOnly),
            ("grep -c \"foo$\" f", RiskClass::ReadOnly),
            ("cat README.md; ls ~/src", RiskClass::ReadOnly),
            ("mkdir -p build && cd build && cmake ..", RiskClass::Changes),
            ("make 2>&1 | tail -n 20", RiskClass::Changes),
            ("cargo test --all -- --nocapture", RiskClass::Changes),
            ("git commit -m 'fix: it'\\''s done'", RiskClass::Changes),
            ("for f in a b; do echo \"$f\"; done", RiskClass::Changes),
            ("if [ -f a ]; then touch b; fi", RiskClass::Changes),
            ("while read -r line; do echo \"$line\"; done < f", RiskClass::Changes),
            ("tar -xzf a.tar.gz", RiskClass::Changes),
            ("NODE=1 npm ci", RiskClass::Changes),
            ("cat > f <<'EOF'\nhello\nEOF", RiskClass::Changes),
            ("x=$(date +%s); echo \"$x\"", RiskClass::Changes),
        ] {
            let (class, why) = class_in(dialect, command);
            if command.contains("\\''") && dialect == Dialect::Zsh {
                continue; // adjoining quotes are one to a zsh with RC_QUOTES
            }
            assert_eq!(class, expected, "{dialect:?} {command:?}: {why}");
        }
    }
}

#[test]
fn constructs_that_sh_parses_differently_are_opaque_in_sh() {
    assert_opaque(
        Dialect::Sh,
        &[
            "echo $'\\'; rm keep; #'",
            "echo $\"a\"",
            "[[ a > f ]]",
            "((x > f))",
            "cat <(ls)",
            "ls &> f",
            "ls &>> f",
            "ls |& cat",
            "touch {a,b}",
            "touch {1..3}",
            "cat <<< x",
            "function f { ls; }",
            "a=(1 2)",
            "a[1]=2",
            "a+=b",
            "echo ${x/a/b}",
            "echo ${x:1:2}",
            "echo ${x^^}",
            "echo ${!x}",
            "echo ${x@Q}",
            "ls >& f",
            "select x in a; do ls; done",
            "for ((i=0;i<1;i++)); do ls; done",
            "coproc ls",
            "ls @(a|b)",
            "echo $[1+2]",
            "echo $((x))",
            "printf '%d' 'a[$(rm keep)]'",
            "printf '%d\\n' \"$x\"",
            "[ 'a[$(rm keep)]' -eq 1 ]",
            "[ \"$x\" -eq 1 ]",
            "test \"$x\" -gt 1",
            "declare -i x=1",
            "exit 'a[$(rm keep)]'",
        ],
    );
}

#[test]
fn zsh_specific_constructs_are_opaque_in_zsh() {
    assert_opaque(
        Dialect::Zsh,
        &[
            "printf '%n' 'a[$(rm keep)]'",
            "printf '%d' 'a[$(rm keep)]'",
            "printf %i \"$x\"",
            "=ls",
            "cat =ls",
            "ls *(e:'rm keep':)",
            "ls *(.)",
            "ls **/*.c",
            "ls ***/x",
            "echo ${(e)x}",
            "echo ${~x}",
            "echo ${=x}",
            "echo $+x",
            "echo $~x",
            "echo $x[1]",
            "echo \"$x[$(rm keep)]\"",
            "echo $x:h",
            "print -P '%(x.$(rm keep).)'",
            "print -P $x",
            "[[ -v x ]]",
            "test -v 'x[$(rm keep)]'",
            "[ x -eq y ]",
            "repeat 3 ls",
            "foreach x (a b) ls; end",
            "for x (a b) ls",
            "{ ls } always { ls }",
            "< file",
            "> file",
            "ls ^a",
            "ls a#",
            "ls a##b",
            "ls <1-10>",
            "ls a<1-10>b",
            "ls ~foo",
            "ls ~+",
            "cd ~-",
            "ls *~x*",
            "noglob ls",
            "- ls",
            "coproc ls",
            "zmodload zsh/files",
            "echo hi!there",
            "echo \"hi!\"",
            "ls # x; rm keep",
            "# x; rm keep",
            "echo 'a''b'",
            "ls {a,b}",
            "ls &> f",
            "ls |& cat",
            "exit 'a[$(rm keep)]'",
            "return $x",
            "shift $x",
            "float x=1",
            "integer x=1",
            "typeset -i x=1",
            "x=1 y[1]=2",
            "a=(*)",
            "case x in (a|b) ls;; esac; echo ${x:h}",
            "sleep 'a[$(rm keep)]'",
        ],
    );
}

#[test]
fn shells_that_are_not_analyzed_are_opaque() {
    for dialect in [Dialect::Fish, Dialect::Csh, Dialect::Unknown] {
        assert_opaque(dialect, &["ls", "echo 'x\\' 'y; rm keep #'", "pwd", ""]);
    }
    for command in ["fish -c ls", "csh -c ls", "tcsh -c 'ls'"] {
        assert_opaque(Dialect::Bash, &[command]);
    }
}

#[test]
fn a_host_that_did_not_answer_is_not_an_unsupported_shell() {
    let why = "web2 did not answer within 9.5 s";
    let reasons = |command: &str, survey: &Survey| -> Vec<String> {
        let mut reasons: Vec<_> =
            analyze(command, survey).risk.findings.into_iter().map(|finding| finding.why).collect();
        reasons.dedup();
        reasons
    };
    let silent = Survey::without_facts(why);
    assert_eq!(analyze("ls", &silent).risk.class, RiskClass::Opaque);
    assert_eq!(reasons("ls", &silent), [why]);
    assert_eq!(reasons("echo 1 >a", &silent), [why, "writes to a file"]);
    assert_eq!(reasons("cat a", &silent), [why]);
    let unsupported = "sysop cannot analyze this shell's syntax";
    assert_eq!(reasons("ls", &survey(Dialect::Fish)), [unsupported]);
    assert_eq!(reasons("fish -c ls", &silent), ["starts a shell", why, unsupported]);
}

#[test]
fn a_started_shell_uses_its_own_dialect() {
    for command in [
        "sh -c \"echo \\$'a'\"",
        "zsh -c 'cat =ls'",
        "sh -c '[[ a > f ]]'",
        "bash -c 'ls'; zsh -c 'print -P x'",
    ] {
        assert_opaque(Dialect::Bash, &[command]);
    }
    assert_eq!(class_in(Dialect::Sh, "bash -c 'touch a{b,c,}'").0, RiskClass::Changes);
    assert_eq!(class_in(Dialect::Zsh, "bash -c 'touch a{b,c,}'").0, RiskClass::Changes);
}
