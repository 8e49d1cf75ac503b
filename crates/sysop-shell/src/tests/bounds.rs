//! Input of any size and shape terminates with a sound result.

use super::class_of;
use crate::risk::RiskClass;
use crate::{COMMAND_BYTES_MAX, analyze};

/// Text that nests, chains or opens something.
const PIECES: &[&str] = &[
    "(", "{", "$(", "\"", ";", "a|", "`", "[", "[[ ", "((", "$((", "${x:-", "<(", "if ", "case x in ", "'",
    "\\", "a=(", "a=( ", "<<A ", "<<<a ", "{a,", "|", "||", "&&", "a&&", "a;", "a\n", "!", "! ", "f(){ ",
    "$x", "${", "\"$(", "a b ", ">a ", "A=1 ", "é", "*", "#", "sudo ", "sudo -Z ", "env ", "eval ", "sh -c ",
    "xargs ", "find . -exec ", "$'", "\t", "\n", "}", ")", "]]", "&", "!!", "~", "x|\n", "su -c ",
    "nice -Z sudo -Z ", "$$ ", "a$$ ",
];

#[test]
fn a_command_of_one_mebibyte_is_rejected_unparsed() {
    for piece in PIECES {
        let command = piece.repeat((1 << 20) / piece.len());
        let (class, why) = class_of(&command);
        assert_eq!((class, why.as_str()), (RiskClass::Dangerous, "too long to analyze"), "{piece:?}");
    }
}

#[test]
fn the_longest_command_is_analyzed() {
    for piece in PIECES {
        let command = piece.repeat(COMMAND_BYTES_MAX / piece.len());
        let analysis = analyze(&command, &super::bash());
        assert!(analysis.risk.findings.len() <= 64, "{piece:?}");
        assert!(analysis.invocations.len() <= 2048, "{piece:?}");
    }
    let long = format!("echo {}", "x".repeat(COMMAND_BYTES_MAX - 5));
    assert_eq!(class_of(&long).0, RiskClass::ReadOnly);
    assert_eq!(class_of(&format!("{long}x")).0, RiskClass::Dangerous);
}

#[test]
fn deep_nesting_is_rejected() {
    for (open, close) in [
        ("( ", ")"),
        ("{ ", "; }"),
        ("$(", ")"),
        ("echo \"$(", ")\""),
        ("if ls; then ", "; fi"),
        ("! ", ""),
        ("sudo ", ""),
    ] {
        for depth in [2_usize, 400] {
            let command = format!("{}ls{}", open.repeat(depth), close.repeat(depth));
            let (class, why) = class_of(&command);
            assert_eq!(
                class == RiskClass::Dangerous,
                depth > 100 || open == "! ",
                "{depth} x {open:?}: {why}"
            );
        }
    }
}

#[test]
fn many_commands_are_too_complex() {
    let (class, why) = class_of(&"ls;".repeat(3000));
    assert_eq!((class, why.as_str()), (RiskClass::Dangerous, "too complex to analyze"));
    assert_eq!(class_of(&"ls\n".repeat(1000)).0, RiskClass::ReadOnly);
}

#[test]
fn text_parsed_twice_counts_twice() {
    // Each level is arithmetic, and is analyzed again as the subshells that it would be in a plain `sh`.
    let nested = |depth: usize, filling: usize| {
        let inner = format!("{}{}", "(( $( ".repeat(depth), "ls;".repeat(filling));
        class_of(&format!("{inner}ls{}", " ) + x<<y ))".repeat(depth)))
    };
    assert_eq!(nested(2, 1).0, RiskClass::Opaque);
    let (class, why) = nested(20, 6_000);
    assert!(class == RiskClass::Dangerous && why.ends_with("; too complex to analyze"), "{why}");
}

#[test]
fn a_danger_after_many_findings_is_kept() {
    let command = format!("{} rm -rf /", "sudo true; ".repeat(200));
    let analysis = analyze(&command, &super::bash());
    assert!(analysis.risk.class >= RiskClass::Dangerous);
    assert!(analysis.risk.findings.iter().any(|finding| finding.why == "recursive delete"));
}
