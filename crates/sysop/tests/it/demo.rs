//! The first minute: without any model, and with the scripted one.

use crate::World;

#[test]
fn the_demo_does_what_it_says_in_an_empty_folder() {
    let world = World::new();
    let run = world.finish(&["exec", "--model", "demo", "--approve", "auto", "demo: show me what you do"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.out.starts_with("Done.") && run.out.lines().count() == 1, "{run:?}");
    assert!(run.err.contains("scripted"), "it says that it is one: {run:?}");
    let script = world.read("sysop-demo.sh");
    assert!(script.starts_with("#!/bin/sh\n") && script.contains("counts the files"), "{script}");
    let shown = world.finish(&["sessions", "show", &world.only_session()]).out;
    assert!(shown.contains("Hello from") && shown.contains("There are 1 files here"), "{shown}");
}

#[test]
fn without_a_model_three_lines_name_what_was_looked_for() {
    let world = World::new();
    let run = world.finish(&["exec", "hello"]);
    assert_eq!((run.code, run.out.as_str(), run.err.lines().count()), (Some(2), "", 3), "{run:?}");
    for name in [
        "--model",
        "SYSOP_MODEL",
        "LLM_BASE_URL",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "ANTHROPIC_API_KEY",
        "127.0.0.1:1",
    ] {
        assert!(run.err.lines().next().unwrap().contains(name), "{name}: {run:?}");
    }
    assert!(!world.data().exists(), "nothing was begun");
}
