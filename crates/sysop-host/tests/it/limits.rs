//! Tests of large outputs: bounded memory, head and tail, the size of the gap, the full artifact, and redaction.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use sysop_core::outcome::Status;
use sysop_driver::port::CancellationToken;
use sysop_host::OutputLimits;

use crate::world::{Display, Factory, Setup, World, conformance_with_busybox};

conformance_with_busybox!(
    head_and_tail_are_shown_and_the_artifact_has_all,
    the_number_of_lines_is_limited,
    an_endless_line_is_truncated,
    truncation_splits_no_character,
    output_within_the_limits_is_complete,
    the_artifact_is_bounded,
    an_artifact_that_cannot_be_written_fails_no_call,
    live_display_is_bounded,
    secrets_are_redacted_everywhere,
    known_secret_formats_are_redacted_and_stay_in_the_artifact,
    a_long_file_names_the_lines_left_out,
    long_lists_are_truncated_too,
);

fn small() -> Setup {
    Setup { limits: OutputLimits { bytes: 2_000, lines: 40 }, ..Setup::default() }
}

fn artifact(world: &World, name: Option<&str>) -> Vec<u8> {
    std::fs::read(world.home().join("artefacts").join(name.expect("an artifact"))).unwrap()
}

async fn known_secret_formats_are_redacted_and_stay_in_the_artifact(factory: &impl Factory) {
    let world = factory.open(small());
    // Two writes, so that no single read contains the whole key.
    let command = "printf AKIAIOSF; sh -c 'echo ODNN7EXAMPLE'; seq 100";
    let outcome = world.call("bash", json!({ "command": command })).await;
    assert!(outcome.output.starts_with("[redacted: AWS key]\n"), "{}", outcome.output);
    let whole = artifact(&world, outcome.artifact.as_deref());
    assert!(whole.starts_with(b"AKIAIOSFODNN7EXAMPLE\n"));
    world.call("write_file", json!({ "path": "env", "content": "K=AKIAIOSFODNN7EXAMPLE\n" })).await;
    let outcome = world.call("read_file", json!({ "path": "env" })).await;
    assert!(outcome.output.contains("K=[redacted: AWS key]"), "{}", outcome.output);
}

async fn head_and_tail_are_shown_and_the_artifact_has_all(factory: &impl Factory) {
    let world = factory.full();
    let outcome = world.call("bash", json!({ "command": "seq 1 200000; exit 5" })).await;
    assert_eq!((outcome.status, outcome.exit_code, outcome.truncated), (Status::Failed, Some(5), true));
    assert!(outcome.output.len() <= 50 * 1024, "{}", outcome.output.len());
    assert!(outcome.output.starts_with("1\n2\n3\n"));
    assert!(outcome.output.ends_with("\n199999\n200000\n[exit code 5]"));
    let whole: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(artifact(&world, outcome.artifact.as_deref()), whole.as_bytes());
    let name = outcome.artifact.unwrap();
    let gap = outcome.output.lines().find(|line| line.starts_with('…')).unwrap();
    let shown: u64 = outcome.output.lines().filter(|line| line.parse::<u64>().is_ok()).count() as u64;
    let left_out = 200_000 - shown;
    let bytes: usize = whole.len()
        - outcome
            .output
            .lines()
            .filter(|line| line.parse::<u64>().is_ok())
            .map(|line| line.len() + 1)
            .sum::<usize>();
    assert_eq!(
        gap.replace(',', ""),
        format!("… [{left_out} lines {bytes} bytes omitted; full output: artifact {name}] …")
    );
    let file = world.home().join("artefacts").join(&name);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
}

async fn the_number_of_lines_is_limited(factory: &impl Factory) {
    let world = factory.open(small());
    let outcome = world.call("bash", json!({ "command": "seq 1 41" })).await;
    assert!(outcome.truncated);
    let expected: String = (1..=20).map(|n| format!("{n}\n")).collect();
    assert!(outcome.output.starts_with(&(expected + "… [1 line, 3 bytes omitted;")), "{}", outcome.output);
    assert!(outcome.output.contains("] …\n22\n23\n"), "{}", outcome.output);
    let outcome = world.call("bash", json!({ "command": "seq 1 40" })).await;
    assert!(!outcome.truncated && outcome.artifact.is_none());
}

async fn an_endless_line_is_truncated(factory: &impl Factory) {
    let world = factory.open(small());
    let outcome = world.call("bash", json!({ "command": "printf '%05000d' 7" })).await;
    assert!(outcome.truncated);
    assert!(outcome.output.len() <= 2_100, "{}", outcome.output.len());
    assert!(outcome.output.contains("\n… [0 lines, "), "{}", outcome.output);
    assert!(outcome.output.ends_with("0007\n[exit code 0]"));
}

async fn truncation_splits_no_character(factory: &impl Factory) {
    for shift in 0..4 {
        let world = factory.open(small());
        world.put("f", "x".repeat(shift) + &"€".repeat(3_000));
        let outcome = world.call("bash", json!({ "command": "cat f" })).await;
        assert!(outcome.truncated && !outcome.output.contains('\u{FFFD}'), "{}", outcome.output);
    }
    let world = factory.open(small());
    let outcome = world.call("bash", json!({ "command": "head -c 1500 /dev/zero | tr '\\0' '\\377'" })).await;
    assert!(outcome.truncated, "replacement characters count against the limit");
    assert!(outcome.output.len() <= 2_100, "{}", outcome.output.len());
    assert_eq!(artifact(&world, outcome.artifact.as_deref()), vec![0xFF; 1500]);
}

async fn output_within_the_limits_is_complete(factory: &impl Factory) {
    let world = factory.open(small());
    let text = "12345678\n".repeat(3) + &"x".repeat(2_000 - 27);
    world.put("f", &text);
    let outcome = world.call("bash", json!({ "command": "cat f" })).await;
    assert_eq!(outcome.output, text + "\n[exit code 0]");
    assert!(!outcome.truncated && !world.home().join("artefacts").exists());
}

async fn the_artifact_is_bounded(factory: &impl Factory) {
    let world = factory.open(Setup { artifact_bytes_max: 10_000, ..small() });
    let outcome = world.call("bash", json!({ "command": "seq 1 1000000" })).await;
    assert!(outcome.output.contains("omitted; first 10,000 bytes: artifact "), "{}", outcome.output);
    let kept = artifact(&world, outcome.artifact.as_deref());
    assert_eq!(kept.len(), 10_000);
    assert!(kept.starts_with(b"1\n2\n3\n"));
}

async fn an_artifact_that_cannot_be_written_fails_no_call(factory: &impl Factory) {
    let world = factory.open(Setup {
        artifacts: "a-file/artefacts",
        prepare: |home| std::fs::write(home.join("a-file"), "").unwrap(),
        ..small()
    });
    let outcome = world.call("bash", json!({ "command": "seq 1 1000000" })).await;
    assert_eq!((outcome.status, outcome.truncated, outcome.artifact), (Status::Ok, true, None));
    assert!(outcome.output.contains("omitted; the full output could not be saved: "), "{}", outcome.output);
    assert!(outcome.output.ends_with("\n1000000\n[exit code 0]"));
}

async fn live_display_is_bounded(factory: &impl Factory) {
    let world = factory.full();
    let display = Display::default();
    let call = world.tool_call("bash", json!({ "command": "echo first; seq 1 3000000; echo last" }));
    let started = std::time::Instant::now();
    let outcome = world.host.run(call, display.sink(), CancellationToken::new()).await;
    assert_eq!(outcome.status, Status::Ok);
    let pieces = display.pieces();
    assert!(pieces.iter().all(|piece| piece.len() <= 64 * 1024));
    let most = started.elapsed().as_millis() / 50 + 2;
    assert!(pieces.len() as u128 <= most, "{} pieces, at most {most}", pieces.len());
    assert!(display.text().starts_with("first\n1\n") && display.text().ends_with("3000000\nlast\n"));
    assert!(display.text().contains("bytes omitted"));
}

async fn secrets_are_redacted_everywhere(factory: &impl Factory) {
    let world = factory.open(Setup { secrets: vec!["hunter22-key".to_owned()], ..small() });
    let display = Display::default();
    // Each write ends inside the secret, so that reads split it as well.
    let command = "for n in $(seq 1 300); do printf 'line hunt'; printf 'er22-'; printf 'key\\n'; done";
    let call = world.tool_call("bash", json!({ "command": command }));
    let outcome = world.host.run(call, display.sink(), CancellationToken::new()).await;
    assert!(outcome.truncated);
    let kept = String::from_utf8(artifact(&world, outcome.artifact.as_deref())).unwrap();
    assert_eq!(kept, "line [redacted]\n".repeat(300));
    for text in [&outcome.output, &display.text()] {
        assert!(text.contains("line [redacted]\n") && !text.contains("hunter22"), "{text}");
    }
    assert_eq!(world.host.redact("a hunter\x1b[1m22-key\x1b[0m b"), "a [redacted] b");
    world.put(".env", "KEY=hunter22-key\n");
    assert_eq!(world.call("read_file", json!({ "path": ".env" })).await.output, "KEY=[redacted]\n");
    world.put("hunter22-key.txt", "");
    assert!(!world.call("ls", json!({})).await.output.contains("hunter22"));
    assert!(!world.call("read_file", json!({ "path": "no/hunter22-key" })).await.output.contains("hunter22"));
}

async fn a_long_file_names_the_lines_left_out(factory: &impl Factory) {
    let world = factory.open(small());
    let text: String = (1..=1_000).map(|number| format!("{number}\n")).collect();
    world.put("f", &text);
    let outcome = world.call("read_file", json!({ "path": "f" })).await;
    assert!(outcome.truncated && outcome.artifact.is_none());
    let notice =
        "\n20\n… [lines 21 to 980 omitted (3,761 bytes); read them with start_line and end_line] …\n981\n";
    assert!(outcome.output.contains(notice), "{}", outcome.output);
    let outcome = world.call("read_file", json!({ "path": "f", "start_line": 501 })).await;
    assert!(outcome.output.contains("… [lines 521 to 980 omitted"), "{}", outcome.output);
    world.put("wide", "x".repeat(5_000));
    let outcome = world.call("read_file", json!({ "path": "wide" })).await;
    assert!(outcome.output.contains("bytes of line 1 omitted] …"), "{}", outcome.output);
}

async fn long_lists_are_truncated_too(factory: &impl Factory) {
    let world = factory.open(small());
    for number in 0..100 {
        world.put(&format!("file-{number:03}"), "");
    }
    let outcome = world.call("ls", json!({})).await;
    assert!(outcome.truncated);
    assert!(outcome.output.starts_with("file-000\n") && outcome.output.ends_with("file-099\n"));
    assert_eq!(
        artifact(&world, outcome.artifact.as_deref()).iter().filter(|byte| **byte == b'\n').count(),
        100
    );
}
