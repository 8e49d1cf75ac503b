//! Properties: danger survives any wrapping; no input panics; the class is the worst finding.

use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_oneof, proptest};
use proptest::sample::select;

use crate::risk::RiskClass;
use crate::{Dialect, analyze, covers, grant_for};

/// Commands that are dangerous by themselves, without quotes.
const DANGEROUS: &[&str] = &[
    "rm -rf /",
    "rm -r --no-preserve-root /",
    "mkfs.ext4 /dev/sda",
    "dd if=/dev/zero of=/dev/sda",
    "shred x",
    "reboot",
    "kill -9 -1",
    "iptables -F",
    "userdel x",
    "crontab -r",
    "systemctl stop sshd",
    "git push --force",
    "kubectl delete pod x",
    "chmod -R 777 /",
];

fn wrapped() -> impl Strategy<Value = String> {
    let leaf = select(DANGEROUS).prop_map(str::to_owned);
    leaf.prop_recursive(5, 32, 1, |inner| {
        const PREFIXES: &[&str] = &[
            "sudo ", "sudo -u root ", "env ", "env A=1 ", "nice -n 3 ", "timeout 9 ", "nohup ", "setsid ",
            "time ", "command ", "exec ", "stdbuf -oL ", "ionice -c2 ", "xargs ", "chroot /x ", "ls; ",
            "ls && ", "true || ", "cat f | ", "A=1 ", "! true; ", "ls\n",
        ];
        const AROUND: &[(&str, &str)] = &[
            ("(", ")"), // doubled, they are arithmetic to bash, and subshells to a plain sh
            ("{ ", "; }"),
            ("echo $( ", ")"),
            ("cat <(", ")"),
            ("if true; then ", "; fi"),
            ("while ", "; do ls; done"),
            ("f() { ", "; }"),
            ("", "; ls"),
            ("", " &"),
            ("", " > x"),
        ];
        prop_oneof![
            (select(PREFIXES), inner.clone()).prop_map(|(prefix, inner)| format!("{prefix}{inner}")),
            (select(AROUND), inner.clone())
                .prop_map(|((open, close), inner)| format!("{open}{inner}{close}")),
            inner.clone().prop_map(|inner| format!("sh -c {}", shell_words::quote(&inner))),
            inner.clone().prop_map(|inner| format!("eval {}", shell_words::quote(&inner))),
            inner.clone().prop_map(|inner| format!("su -c {}", shell_words::quote(&inner))),
            inner.prop_map(|inner| format!("trap {} EXIT", shell_words::quote(&inner))),
        ]
    })
}

/// A dangerous command whose first word is quoted without changing its meaning.
fn disguised() -> impl Strategy<Value = String> {
    (select(DANGEROUS), vec(0_u8..5, 1..12)).prop_map(|(command, ways)| {
        let (program, rest) = command.split_once(' ').unwrap_or((command, ""));
        let mut ways = ways.into_iter().cycle();
        let quoted = |c: char| match ways.next() {
            Some(0) => format!("\\{c}"),
            Some(1) => format!("'{c}'"),
            Some(2) => format!("\"{c}\""),
            Some(3) => format!("$'\\x{:02x}'", u32::from(c)),
            Some(_) | None => c.to_string(),
        };
        format!("{} {rest}", program.chars().map(quoted).collect::<String>())
    })
}

/// Text made of shell syntax.
fn soup() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "rm", "ls", "-rf", "/", " ", "\n", ";", "&", "|", "(", ")", "{", "}", "[", "]", "<", ">", "<<",
        "EOF", "'", "\"", "`", "$", "\\", "#", "=", "!", "*", "?", "~", "if", "then", "fi", "do", "done",
        "for", "in", "case", "esac", "while", "function", "x", "1", "$(", "${", "$((", "))", "<(", "sudo",
        "eval", "sh -c", "é", "\t", "time", "[[", "]]", "-", ",", "..", "@", "%", "+",
    ];
    vec(
        prop_oneof![8 => select(PIECES).prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)],
        0..40,
    )
    .prop_map(|pieces| pieces.concat())
}

/// Returns read-only commands in which one word contains text that some shell runs, expands or evaluates.
fn mutated() -> impl Strategy<Value = (Dialect, String)> {
    const READS: &[&str] =
        &["ls -la src", "cat README.md", "grep -n main src", "head -n 5 f", "git log --oneline", "wc -l f"];
    const PIECES: &[&str] = &[
        "$(x)", "`x`", "${(e)x}", "${x@P}", "<(x)", ">(x)", "*(e:x:)", "=(x)", "$+x", "$~x", "$x[1]",
        "$'\\'", "{a,b}", "$[x]", "$((x))", ">f", "&>f", ";x", "&x", "|x", "|&x", "\nx", "<<<x", "$\"x\"",
        "(x)", "${!x}", "${x:=y}",
    ];
    let dialects = select(
        &[Dialect::Bash, Dialect::Sh, Dialect::Zsh, Dialect::Fish, Dialect::Csh, Dialect::Unknown][..],
    );
    (dialects, select(READS), select(PIECES), any::<proptest::sample::Index>()).prop_map(
        |(dialect, command, piece, at)| {
            let ends: Vec<usize> =
                command.match_indices(' ').map(|(at, _)| at).chain([command.len()]).collect();
            let (before, after) = command.split_at(*at.get(&ends));
            (dialect, format!("{before}{piece}{after}"))
        },
    )
}

/// Returns true if the analysis of a command satisfies the invariants.
fn is_sound(command: &str) -> bool {
    let survey = super::bash();
    let analysis = analyze(command, &survey);
    let worst =
        analysis.risk.findings.iter().map(|finding| finding.class).max().unwrap_or(RiskClass::ReadOnly);
    let spans = analysis.risk.findings.iter().all(|finding| {
        finding.start <= finding.end && finding.end <= command.len() && !finding.why.is_empty()
    });
    let explained = analysis.risk.class == worst || analysis.risk.class == RiskClass::Changes;
    let grant = grant_for(command, &analysis, &survey);
    spans && explained && covers(&grant, command, &analysis, &survey)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn wrapping_a_command_keeps_its_danger(command in wrapped()) {
        let analysis = analyze(&command, &super::bash());
        prop_assert!(analysis.risk.class >= RiskClass::Dangerous, "{}", command);
    }

    #[test]
    fn quoting_a_command_keeps_its_danger(command in disguised()) {
        let analysis = analyze(&command, &super::bash());
        prop_assert!(analysis.risk.class >= RiskClass::Dangerous, "{}", command);
    }

    #[test]
    fn an_added_construct_is_never_read_only((dialect, command) in mutated()) {
        let mut survey = super::bash();
        survey.context.dialect = dialect;
        let class = analyze(&command, &survey).risk.class;
        prop_assert!(class > RiskClass::ReadOnly, "{:?}: {:?}", dialect, command);
    }

    #[test]
    fn random_shell_fragments_are_analyzed(command in soup()) {
        prop_assert!(is_sound(&command), "{:?}", command);
    }

    #[test]
    fn any_text_is_analyzed_without_panic(command in any::<String>()) {
        prop_assert!(is_sound(&command), "{:?}", command);
    }

    #[test]
    fn an_added_command_never_lowers_the_class(command in soup(), added in prop_oneof![Just("touch x"), Just("ls")]) {
        let alone = analyze(added, &super::bash()).risk.class;
        let both = analyze(&format!("{added}\n{command}"), &super::bash()).risk.class;
        prop_assert!(both >= alone, "{:?}", command);
    }
}

#[test]
fn arbitrary_bytes_are_analyzed_without_panic() {
    arbtest::arbtest(|unstructured| {
        let bytes: Vec<u8> = unstructured.arbitrary()?;
        let command = String::from_utf8_lossy(&bytes);
        assert!(is_sound(&command), "{command:?}");
        Ok(())
    })
    .budget_ms(500);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test reads its corpus")]
fn recorded_inputs_are_analyzed_without_panic() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpora/inputs");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("the folder of kept inputs") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a readable file");
        let command = String::from_utf8_lossy(&bytes);
        assert!(is_sound(&command), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 10);
}
