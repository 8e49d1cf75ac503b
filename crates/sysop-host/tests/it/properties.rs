//! Property tests: the properties of the agent-rs design that concern this crate, with their original numbers, and the
//! properties of the output limits.

use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::test_runner::TestCaseError;
use serde_json::json;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::single_quoted;
use sysop_host::OutputLimits;

use crate::world::{Factory, Local, Setup, World};

fn run(world: &World, command: &str) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(world.call("bash", json!({ "command": command })))
}

/// Text that passes through shell and output unchanged.
fn printable() -> impl Strategy<Value = String> {
    "[ -~äß€\n\t]{0,40}"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // **Feature: agent-rs, Property 9: For any shell command string, executing it SHALL capture both stdout and stderr,
    // and the combined output SHALL be stored in execution_output.**
    #[test]
    fn property_9_command_execution_output_capture(
        pieces in proptest::collection::vec((any::<bool>(), printable()), 0..8),
        code in 0..=255_i32,
    ) {
        let world = Local.full();
        let mut command = String::new();
        let mut expected = String::new();
        for (is_error, text) in &pieces {
            let stream = if *is_error { " >&2" } else { "" };
            command.push_str(&format!("printf %s {}{stream}\n", single_quoted(text)));
            expected.push_str(text);
        }
        command.push_str(&format!("exit {code}"));
        let outcome = run(&world, &command);
        prop_assert_eq!(outcome.exit_code, Some(code));
        prop_assert_eq!(outcome.status, if code == 0 { Status::Ok } else { Status::Failed });
        let border = if expected.is_empty() || expected.ends_with('\n') { "" } else { "\n" };
        prop_assert_eq!(outcome.output, format!("{expected}{border}[exit code {code}]"));
    }

    // **Feature: agent-rs, Property 19: For any command output exceeding the configured max_output_bytes or
    // max_output_lines, the output SHALL be truncated and the truncated flag SHALL be set to true.**
    #[test]
    fn property_19_output_truncation_safety(
        lines in proptest::collection::vec("[a-zß€]{0,60}", 0..80),
        last_is_whole in any::<bool>(),
        max_output_bytes in 1_usize..3_000,
        max_output_lines in 1_usize..60,
    ) {
        let limits = OutputLimits { bytes: max_output_bytes, lines: max_output_lines };
        let world = Local.open(Setup { limits, ..Setup::default() });
        let text = lines.join("\n") + if last_is_whole { "\n" } else { "" };
        world.put("text", &text);
        let outcome = run(&world, "cat text");
        let exceeds = text.len() > max_output_bytes || text.lines().count() > max_output_lines;
        prop_assert_eq!(outcome.truncated, exceeds);
        if exceeds {
            is_truncated_well(&world, &outcome, &text, limits)?;
        } else {
            prop_assert!(outcome.output.starts_with(&text));
            prop_assert_eq!(outcome.artifact, None);
        }
    }

    #[test]
    fn output_is_bounded_and_its_artifact_exact_for_any_bytes(
        bytes in proptest::collection::vec(any::<u8>(), 0..4_000),
        limit in 1_usize..2_000,
    ) {
        let world = Local.open(Setup { limits: OutputLimits { bytes: limit, lines: 500 }, ..Setup::default() });
        world.put("bytes", &bytes);
        let outcome = run(&world, "cat bytes");
        let notices = 160;
        prop_assert!(outcome.output.len() <= limit + notices, "{} > {limit}", outcome.output.len());
        prop_assert!(outcome.truncated || bytes.len() <= limit);
        if let Some(name) = outcome.artifact {
            prop_assert_eq!(std::fs::read(world.home().join("artefacts").join(name)).unwrap(), bytes);
        }
    }
}

/// Checks that head and tail of the text are within the limits, and that the gap is counted and stored.
fn is_truncated_well(
    world: &World,
    outcome: &Outcome,
    text: &str,
    limits: OutputLimits,
) -> Result<(), TestCaseError> {
    let name = outcome.artifact.as_deref().expect("the whole is kept");
    let kept = std::fs::read_to_string(world.home().join("artefacts").join(name)).unwrap();
    prop_assert_eq!(&kept, text);
    let body = outcome.output.strip_suffix("[exit code 0]").expect("the exit code is last");
    let (head, rest) = body.split_once("… [").expect("the gap is told");
    let (notice, tail) = rest.split_once("] …\n").expect("the gap is told in one line");
    prop_assert!(head.len() + tail.len() <= limits.bytes + 2);
    prop_assert!(head.lines().count() + tail.lines().count() <= limits.lines);
    let numbers: Vec<usize> = notice
        .split(", ")
        .take(2)
        .map(|part| part.split(' ').next().unwrap_or_default().replace(',', "").parse().unwrap())
        .collect();
    // A truncated line gets a newline, which may look like a newline of the text.
    let may_end = |part: &str| [Some(part.to_owned()), part.strip_suffix('\n').map(str::to_owned)];
    let heads = may_end(head).into_iter().flatten().filter(|head| text.starts_with(head));
    let told_well = heads.clone().any(|head| {
        may_end(tail).into_iter().flatten().any(|tail| {
            let missing = text[head.len()..].strip_suffix(&tail);
            missing.is_some_and(|missing| numbers == [missing.matches('\n').count(), missing.len()])
        })
    });
    prop_assert!(told_well, "{numbers:?} of {text:?} are not missing in {head:?} and {tail:?}");
    Ok(())
}
