//! Background commands, in the real binary.

use std::time::Duration;

use serde_json::{Value, json};

use crate::World;
use crate::person::{Person, at_a_terminal};
use crate::support::{Mock, call, lines_of_json, processes_with, say, wait_until_gone};

/// The results that the model has got, in order.
fn results(server: &Mock) -> Vec<String> {
    let body = server.last_body();
    let messages = body["messages"].as_array().unwrap().iter();
    let messages = messages.filter(|message| message["role"] == "tool");
    messages.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

fn start(command: &str) -> Value {
    call("bash", json!({ "command": command, "background": true }))
}

fn jobs(arguments: Value) -> Value {
    call("jobs", arguments)
}

#[test]
fn a_model_starts_waits_for_and_reads_a_job() {
    let server = Mock::start(&[(
        "build",
        vec![
            start("echo begun; sleep 2; echo built; exit 3"),
            jobs(json!({ "action": "list" })),
            jobs(json!({ "action": "read", "id": 1, "wait_s": 30 })),
            say("It failed."),
        ],
    )]);
    let world = World::with_openai(&server.url());
    let run = world.finish(&["exec", "--json", "--approve", "auto", "build"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let results = results(&server);
    assert_eq!(results[0], "begun\n\n[still running in the background as job 1; see `jobs`]", "{results:?}");
    assert!(results[1].starts_with("1: running on local: echo begun; sleep 2;"), "{results:?}");
    assert!(results[2].starts_with("begun\nbuilt\n[exit code 3]\n[job 1 ended, exit code 3:"), "{results:?}");
    let messages = lines_of_json(&run.out);
    let of =
        |kind: &str| messages.iter().find(|message| message["type"] == kind).cloned().unwrap_or_default();
    assert_eq!((&of("job.started")["jobId"], &of("job.started")["host"]), (&json!(1), &json!("local")));
    assert_eq!((&of("job.finished")["jobId"], &of("job.finished")["exitCode"]), (&json!(1), &json!(3)));
}

#[test]
fn the_output_of_a_running_job_is_redacted_for_the_model_and_the_log() {
    let token = format!("ghp_{}", "aB3dE5gH7jK9".repeat(3));
    let (one, two) = token.split_at(20);
    let server = Mock::start(&[(
        "build",
        vec![
            start(&format!(
                "A={one} B={two}; printf '\\033[31mred\\033[0m %s\\033[1m%s\\033[0m\\n' $A $B; sleep 654321"
            )),
            jobs(json!({ "action": "read", "id": 1 })),
            jobs(json!({ "action": "stop", "id": 1 })),
            say("Done."),
        ],
    )]);
    let world = World::with_openai(&server.url());
    let run = world.finish(&["exec", "--approve", "auto", "build"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let results = results(&server);
    for result in &results[..2] {
        assert!(result.starts_with("red [redacted: GitHub token]\n"), "{results:?}");
    }
    let log = format!("{:?}", world.exported(&world.only_session()));
    assert!(!log.contains(&token) && !log.contains("\\u{1b}") && !log.contains("\\u001b"), "{log}");
}

#[test]
fn a_command_that_outlives_its_time_goes_on_if_the_model_wants_it() {
    let slow = |on_timeout: &str| {
        let command = "echo a; sleep 2; echo b";
        call("bash", json!({ "command": command, "timeout_s": 1, "on_timeout": on_timeout }))
    };
    let server = Mock::start(&[
        (
            "kept",
            vec![slow("background"), jobs(json!({ "action": "read", "id": 1, "wait_s": 30 })), say("ok")],
        ),
        ("killed", vec![slow("kill"), say("ok")]),
    ]);
    let world = World::with_openai(&server.url());
    world.finish(&["exec", "--approve", "auto", "kept"]);
    assert!(results(&server)[1].starts_with("a\nb\n[exit code 0]\n[job 1 ended"), "{:?}", results(&server));
    world.finish(&["exec", "--approve", "auto", "killed"]);
    assert_eq!(results(&server), ["a\n[timed out after 1 s; stopped]"]);
}

#[test]
fn the_config_keeps_commands_that_outlive_their_time() {
    let slow = call("bash", json!({ "command": "echo a; sleep 2; echo b", "timeout_s": 1 }));
    let read = jobs(json!({ "action": "read", "id": 1, "wait_s": 30 }));
    let server = Mock::start(&[("build", vec![slow, read, say("ok")])]);
    let world =
        World::with_openai(&server.url()).file(".config/sysop/config.toml", "on_timeout = 'background'\n");
    let run = world.finish(&["exec", "--approve", "auto", "build"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(results(&server)[1].starts_with("a\nb\n[exit code 0]\n[job 1 ended"), "{:?}", results(&server));
}

#[test]
fn a_job_ends_with_the_program_that_started_it_and_is_named() {
    let server = Mock::start(&[("serve", vec![start("sleep 987654"), say("Started.")])]);
    let world = World::with_openai(&server.url());
    let run = world.finish(&["exec", "--approve", "auto", "serve"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.err.contains("stopped the background job on local: sleep 987654"), "{run:?}");
    wait_until_gone("sleep 987654", Duration::from_secs(10));
    let log = world.exported(&world.only_session());
    let ended = log.iter().map(Value::to_string).find(|event| event.contains("\"job_finished\""));
    assert!(ended.as_ref().is_some_and(|event| event.contains("\"cancelled\"")), "{ended:?}: {log:?}");
}

#[test]
fn each_way_to_quit_the_repl_warns_before_it_stops_a_job() {
    for (line, again) in [("/exit", "enter /exit again"), ("quit", "enter quit again")] {
        let server = Mock::start(&[("serve", vec![start("sleep 876543"), say("Started.")])]);
        let world = World::with_openai(&server.url());
        at_a_terminal(async {
            let mut person = Person::sits_down(&world, &["chat", "--approve", "auto"]);
            person.sees("›").await;
            person.types("serve\r").await;
            person.sees("Started.").await;
            person.sees("›").await;
            for _ in 0..2 {
                person.types(&format!("{line}\r")).await;
                person.sees(&format!("1 background job is running; {again} to stop it and quit")).await;
                person.sees("›").await;
                person.types("/jobs\r").await; // takes the wish to quit back
                person.sees("sleep 876543").await;
                person.sees("›").await;
            }
            person.types(&format!("{line}\r")).await;
            person.sees(again).await;
            person.sees("›").await;
            person.types(&format!("{line}\r")).await;
            assert_eq!(person.leaves().await.0, 0);
        });
        wait_until_gone("sleep 876543", Duration::from_secs(10));
    }
}

#[test]
fn ctrl_c_in_the_repl_warns_before_it_stops_a_job() {
    let server = Mock::start(&[("serve", vec![start("sleep 765432"), say("Started.")])]);
    let world = World::with_openai(&server.url());
    at_a_terminal(async {
        let mut person = Person::sits_down(&world, &["chat", "--approve", "auto"]);
        person.sees("›").await;
        person.types("serve\r").await;
        person.sees("Started.").await;
        person.sees("›").await;
        for warning in [
            "Press Ctrl+C again to quit",
            "1 background job is running; press Ctrl+C again to stop it and quit",
        ] {
            person.types("\u{3}").await;
            person.sees(warning).await;
            person.sees("›").await;
        }
        person.types("\u{3}").await;
        assert_eq!(person.leaves().await.0, 0);
    });
    wait_until_gone("sleep 765432", Duration::from_secs(10));
}

#[test]
fn a_line_during_a_turn_takes_the_wish_to_quit_back() {
    let runs = call("bash", json!({ "command": "sleep 345678", "timeout_s": 600 }));
    let server = Mock::start(&[("serve", vec![start("sleep 456789"), runs])]);
    let world = World::with_openai(&server.url());
    at_a_terminal(async {
        let mut person = Person::sits_down(&world, &["chat", "--approve", "auto"]);
        person.sees("›").await;
        person.types("serve\r").await;
        person.sees("sleep 345678").await;
        for _ in 0..2 {
            person.types("/exit\r").await;
            person.sees("1 background job is running; enter /exit again to stop it and quit").await;
            person.types("/jobs\r").await;
            person.sees(": sleep 456789").await;
        }
        person.types("/exit\r").await;
        person.sees("enter /exit again").await;
        person.types("/exit\r").await;
        assert_eq!(person.leaves().await.0, 0);
    });
    for command in ["sleep 456789", "sleep 345678"] {
        wait_until_gone(command, Duration::from_secs(10));
    }
}

#[test]
fn after_a_kill_the_outcome_of_a_job_is_unknown_and_nothing_is_left() {
    let server = Mock::start(&[
        (
            "serve",
            vec![start("sleep 678912"), call("bash", json!({ "command": "sleep 60", "timeout_s": 60 }))],
        ),
        ("look", vec![jobs(json!({ "action": "read", "id": 1 })), say("Gone.")]),
    ]);
    let world = World::with_openai(&server.url());
    let run = world.start(&["exec", "--json", "--approve", "auto", "serve"]);
    run.out.wait_for("the second command", |text| text.contains("sleep 60"));
    assert!(!processes_with("sleep 678912").is_empty());
    run.kill();
    wait_until_gone("sleep 678912", Duration::from_secs(20));
    let id = world.only_session();
    let resume = format!("--resume={id}");
    let run = world.finish(&["exec", &resume, "--approve", "auto", "look"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        results(&server).last().unwrap().contains("[job 1 ended, outcome unknown"),
        "{:?}",
        results(&server)
    );
}

#[test]
fn users_list_read_and_stop_jobs() {
    let server = Mock::start(&[("serve", vec![start("echo up; sleep 765432"), say("Started.")])]);
    let world = World::with_openai(&server.url());
    let mut chat = world.start_with_input(&["chat", "--approve", "auto"]);
    chat.type_text("serve\n/jobs\n/jobs read 1\n/jobs stop 1\n");
    chat.out.wait_for("the end of the job", |text| text.contains("job 1 ended: canceled"));
    chat.type_text("/jobs\n");
    chat.end_input();
    let run = chat.finish();
    assert!(run.out.contains("1: running on local: echo up; sleep 765432"), "{run:?}");
    assert!(run.out.contains("[job 1 is running: echo up; sleep 765432]"), "{run:?}");
    assert!(run.out.contains("1: cancelled on local: echo up; sleep 765432"), "{run:?}");
    wait_until_gone("sleep 765432", Duration::from_secs(10));
}
