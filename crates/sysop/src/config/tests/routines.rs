//! Routines: values are validated and become exactly one word of the shell.

use std::collections::BTreeMap;
use std::process::Command;

use proptest::prelude::*;

use crate::config::routine::{Routine, RoutineError, Variable};

fn routine(cmd: &str, pattern: Option<&str>, default: Option<&str>) -> Routine {
    let variable = Variable {
        description: "unit name".to_owned(),
        pattern: pattern.map(str::to_owned),
        default: default.map(str::to_owned),
    };
    Routine {
        description: String::new(),
        cmd: cmd.to_owned(),
        vars: BTreeMap::from([("name".to_owned(), variable)]),
        ..Routine::default()
    }
}

fn values(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn values_replace_placeholders() {
    let restart = routine("sudo systemctl restart {{name}}", Some("^[a-z0-9@._-]+$"), None);
    assert_eq!(
        restart.render(&values(&[("name", "nginx.service")])).unwrap(),
        "sudo systemctl restart nginx.service"
    );
    let spaced = routine("ls {{ name }} {{name}}", None, Some("a b"));
    assert_eq!(spaced.render(&[]).unwrap(), "ls 'a b' 'a b'");
}

#[test]
fn a_wrong_value_names_the_variable_and_its_pattern() {
    let restart = routine("systemctl restart {{name}}", Some("^[a-z]+$"), None);
    let invalid = restart.render(&values(&[("name", "x; reboot")])).unwrap_err();
    assert_eq!(
        invalid.to_string(),
        r#"invalid value "x; reboot" for `name` (unit name, must match "^[a-z]+$")"#
    );
    let missing = restart.render(&[]).unwrap_err();
    assert_eq!(
        missing.to_string(),
        r#"missing value for `name`; add name=VALUE (unit name, must match "^[a-z]+$")"#
    );
    let unknown = restart.render(&values(&[("nam", "x")])).unwrap_err();
    assert_eq!(unknown.to_string(), r#"unknown variable "nam"; available variables: name"#);
    let twice = restart.render(&values(&[("name", "x"), ("name", "y")])).unwrap_err();
    assert_eq!(twice.to_string(), "`name` has two values; give it one");
    let undeclared = routine("echo {{other}}", None, Some("x")).render(&[]).unwrap_err();
    assert!(matches!(undeclared, RoutineError::Undeclared { .. }), "{undeclared}");
}

#[test]
fn a_pattern_must_match_the_whole_value() {
    for pattern in ["[a-z]+", "a|[a-z]+", "(?m)^[a-z]+$"] {
        let restart = routine("x {{name}}", Some(pattern), None);
        assert!(restart.render(&values(&[("name", "abc")])).is_ok(), "{pattern}");
        for value in ["abc;", "abc\nreboot", "\nabc", "abc\n"] {
            assert!(restart.render(&values(&[("name", value)])).is_err(), "{pattern} {value:?}");
        }
    }
}

#[test]
fn other_braces_are_kept() {
    let docker = routine("docker ps --format '{{.Names}} {{json .Ports}}' {{", None, Some("x"));
    assert_eq!(docker.render(&[]).unwrap(), docker.cmd);
}

#[test]
fn a_value_that_needs_quotes_is_rejected_inside_quotes() {
    for cmd in [
        "echo '{{name}}'",
        "echo \"{{name}}\"",
        "echo \"$(ls {{name}})\"",
        "echo `ls {{name}}`",
        "true # {{name}}",
        "cat <<EOF\n{{name}}\nEOF",
        r"echo $'it\'s {{name}}'",
        "echo \\{{name}}",
        "echo $(( {{name}} ))",
        "echo ${x:-{{name}}}",
    ] {
        let quoted = routine(cmd, None, None);
        let error = quoted.render(&values(&[("name", "a; touch /tmp/x")]));
        assert!(matches!(error, Err(RoutineError::Quoted { .. })), "{cmd}: {error:?}");
        assert!(quoted.render(&values(&[("name", "plain-1.2")])).is_ok(), "{cmd}");
    }
    for cmd in [
        "echo 'it' \"is\" {{name}}",
        "# don't\necho {{name}}",
        "cat <<< {{name}}",
        "x=a#b; ls {{name}}",
        "ls ${x#'} $(ls {{name}})",
    ] {
        assert!(routine(cmd, None, None).render(&values(&[("name", "a b")])).is_ok(), "{cmd}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A shell reads any value as exactly one word, wherever a placeholder is accepted.
    #[test]
    fn a_value_is_quoted_as_one_shell_word(value in "[^\\x00]{0,24}", frame in prop::sample::select(vec![
        "printf '%s|' {{name}}", "printf '%s|' 'it''s' {{name}}", "printf '%s|' \"$HOME\" {{name}} # it's\n",
        "printf '%s|' '{{name}}'", "printf '%s|' \"{{name}}\"", "printf '%s|' x{{name}}y",
    ])) {
        let Ok(command) = routine(frame, None, None).render(&values(&[("name", &value)])) else {
            return Ok(());
        };
        let output = Command::new("sh").args(["-c", &command]).env("HOME", "h").output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let expected = if frame.contains("x{{") { format!("x{value}y|") } else { format!("{value}|") };
        prop_assert!(printed.ends_with(&expected), "{command:?} printed {printed:?}");
        let words_before = usize::from(frame.contains("it''s") || frame.contains("$HOME"));
        let bars = value.matches('|').count() + 1 + words_before;
        prop_assert_eq!(printed.matches('|').count(), bars);
        prop_assert!(output.stderr.is_empty());
    }
}
