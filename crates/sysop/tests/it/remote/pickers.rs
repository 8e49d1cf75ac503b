//! Hosts and models picked from lists in the TUI: the next turn runs on the host and uses the model.

use super::{RemoteMachineRig, text};
use crate::World;
use crate::person::at_a_terminal;
use crate::support::{Mock, bash, say};
use crate::viewer::Viewer;

const LEAVE: &str = "\x15\x15\x04";

#[test]
fn the_next_turn_runs_on_the_picked_host() {
    let far = RemoteMachineRig::with(&[
        ("before", vec![say("Nothing to do.")]),
        ("go there", vec![bash("touch made; pwd"), say("Made there.")]),
        ("go home", vec![bash("touch at-home"), say("Made at home.")]),
    ]);
    let root = text(&far.there(""));
    let root = root.trim_end_matches('/');
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&far.world, &["before"]);
        viewer.sees("Nothing to do.").await;
        viewer.types("/host\r").await;
        viewer.sees("New session on host").await;
        // A part of the name filters the list; Enter picks the remaining entry.
        viewer.types("fa").await;
        viewer
            .sees_that("one host", |screen| screen.contains("› fa") && !screen.contains("this machine"))
            .await;
        viewer.types("\r").await;
        viewer
            .sees_that("a session there", |screen| {
                !screen.contains("Nothing to do.") && is_on(screen, "far", "openai/test-model")
            })
            .await;
        viewer.types("go there\r").await;
        let screen = viewer.reads_the_proposal().await;
        assert!(screen.contains("bash · far in"), "a proposal tells where it would run:\n{screen}");
        viewer.types("\r").await;
        let screen = viewer.sees("Made there.").await;
        assert!(screen.contains(root), "{screen}");
        assert!(far.there("made").exists() && !far.world.has("made"));
        // Back to this machine, with the name typed as an argument.
        viewer.types("/host local\r").await;
        viewer.sees_that("a session here", |screen| status(screen).starts_with("local ·")).await;
        viewer.types("go home\r").await;
        viewer.reads_the_proposal().await;
        viewer.types("\r").await;
        viewer.sees("Made at home.").await;
        assert!(far.world.has("at-home") && !far.there("at-home").exists());
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
    let ids = far.world.session_ids();
    let hosts = ids.iter().map(|id| far.world.exported(id)[0]["event"]["spec"]["host"].clone());
    assert_eq!(hosts.collect::<Vec<_>>(), ["local", "far", "local"]);
    far.nothing_is_left();
}

#[test]
fn the_next_turn_uses_the_picked_model() {
    let first = Mock::start(&[("who", vec![say("I am the first.")])]);
    let second = Mock::start(&[("who", vec![say("I am the second.")])]);
    let world = World::with_openai(&first.url()).variable("OLLAMA_HOST", &second.address());
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["who are you?"]);
        viewer.sees("I am the first.").await;
        viewer.types("/model\r").await;
        let screen = viewer
            .sees_that("what is there", |screen| screen.contains("Models") && screen.contains("ollama/"))
            .await;
        assert!(screen.contains("openai/test-model") && screen.contains("now"), "{screen}");
        viewer.types("phi3").await;
        viewer.sees_that("one model", |screen| !screen.contains("openai/test-model  ")).await;
        viewer.types("\r").await;
        viewer.sees_that("the other model", |screen| is_on(screen, "local", "ollama/phi3")).await;
        let asked = first.requests().len();
        viewer.types("who are you now?\r").await;
        viewer.sees("I am the second.").await;
        assert_eq!(first.requests().len(), asked, "the first model is no longer called");
        let body = second.last_body();
        assert!(body["model"].as_str().unwrap().starts_with("phi3"), "{body}");
        let told = body.to_string();
        assert!(told.contains("I am the first.") && told.contains("who are you now?"), "{told}");
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
        // A resumed session uses the model requested now, here by a variable. The name may be typed as an argument.
        let id = world.only_session();
        let mut viewer = Viewer::sits_down(&world, &[&format!("--resume={id}")]);
        viewer
            .sees_that("the model of now", |screen| {
                screen.contains("I am the second.") && is_on(screen, "local", "openai/test-model")
            })
            .await;
        viewer.types("/model ollama/phi3:latest\r").await;
        viewer.sees_that("the other again", |screen| is_on(screen, "local", "ollama/phi3")).await;
        viewer.types("who is this?\r").await;
        viewer.sees_that("both", |screen| screen.matches("I am the second.").count() == 2).await;
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn a_new_session_stays_where_the_user_is_with_model_and_mode() {
    let far = RemoteMachineRig::with(&[("look", vec![bash("touch made"), say("I looked.")])]).with_model();
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&far.world, &["--host", "far"]);
        viewer.sees_that("a session there", |screen| is_on(screen, "far", "openai/test-model")).await;
        viewer.types("/host local\r").await;
        viewer.sees_that("a session here", |screen| is_on(screen, "local", "openai/test-model")).await;
        viewer.types("/model openai/other\r").await;
        viewer.sees_that("the other model", |screen| is_on(screen, "local", "openai/other")).await;
        viewer.types("look\r").await;
        viewer.reads_the_proposal().await;
        viewer.types("\x1b").await;
        viewer.sees("stopped").await;
        viewer.types("/approve never\r").await;
        viewer.sees_that("the mode", |screen| status(screen).contains("never")).await;
        viewer.types("/new\r").await;
        let screen = viewer.sees_that("an empty session", |screen| screen.contains("Describe a task")).await;
        assert!(is_on(&screen, "local", "openai/other"), "{screen}");
        assert!(status(&screen).contains("never"), "{screen}");
        // The list of recent sessions has the one that was just left.
        viewer.sees_that("the session that was left", |screen| screen.contains("look")).await;
        viewer.types("/host far\r").await;
        let screen = viewer.sees_that("a session there", |screen| status(screen).starts_with("far ·")).await;
        assert!(status(&screen).contains("never"), "{screen}");
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
}

/// Returns true if the status line names this host, and a model whose name begins like this.
fn is_on(screen: &str, host: &str, model: &str) -> bool {
    let status = status(screen);
    status.starts_with(&format!("{host} · ")) && status.contains(&format!(" · {model}"))
}

/// Returns the last row, which shows the host and the model.
fn status(screen: &str) -> &str {
    screen.lines().last().unwrap_or_default().trim()
}
