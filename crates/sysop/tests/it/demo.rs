//! First use: without a model, and with the scripted one.

use crate::World;

#[test]
fn the_demo_works_in_an_empty_directory() {
    let world = World::new();
    let run = world.finish(&["exec", "--model", "demo", "--approve", "auto", "demo: show me what you do"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.out.starts_with("Done.") && run.out.lines().count() == 1, "{run:?}");
    assert!(run.err.contains("scripted"), "the model says that it is scripted: {run:?}");
    let script = world.read("sysop-demo.sh");
    assert!(script.starts_with("#!/bin/sh\n") && script.contains("counts the files"), "{script}");
    let shown = world.finish(&["sessions", "show", &world.only_session()]).out;
    assert!(shown.contains("Hello from") && shown.contains("Files here: 1"), "{shown}");
}

#[test]
fn a_session_of_the_demo_is_resumed_without_a_configured_model() {
    let world = World::new();
    let first = world.finish(&["exec", "--model", "demo", "hello"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let again = world.finish(&["exec", "--continue", "hello"]);
    assert_eq!((again.code, again.out.as_str()), (Some(0), first.out.as_str()), "{again:?}");
    let named =
        format!("resuming \"hello\" on local in {}\nresumed with demo/demo\n", world.work().display());
    assert!(again.err.contains(&named) && !again.err.contains("resumed on"), "{again:?}");
}

#[test]
fn a_session_of_another_host_is_not_continued() {
    let world = World::new();
    assert_eq!(world.finish(&["exec", "--model", "demo", "hello"]).code, Some(0));
    let run = world.finish(&["exec", "--continue", "-H", "web1", "hello"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
    for words in ["no session on web1", "`sysop sessions list`", "`--resume ID`"] {
        assert!(run.err.contains(words), "{words}: {run:?}");
    }
}

#[test]
fn without_a_model_the_hint_explains_how_to_get_one() {
    let world = World::new();
    let run = world.finish(&["exec", "hello"]);
    assert_eq!((run.code, run.out.as_str(), run.err.lines().count()), (Some(2), "", 2), "{run:?}");
    let (error, hint) = run.err.split_once('\n').unwrap();
    assert!(error.starts_with("error: no model configured") && error.contains("127.0.0.1:1"), "{run:?}");
    for name in ["OPENAI_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY", "sysop --model demo"] {
        assert!(hint.starts_with("hint: ") && hint.contains(name), "{name}: {run:?}");
    }
    assert!(!world.data().exists(), "no session was created");
}
