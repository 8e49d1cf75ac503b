//! Tests of questions from several hosts: one at a time, with the host's name, and without using up the call's time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sysop_core::event::TypedInput;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::question::QuestionKind;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter};
use tokio::time::sleep;

use super::{Fake, bash, by_host, call, exited, fake, fleet};

/// User who answers slowly, and records the questions.
#[derive(Default)]
struct SlowPrompter {
    seen: Mutex<Vec<String>>,
    takes: Duration,
}

impl SlowPrompter {
    fn note(&self, what: String) {
        self.seen.lock().push(what);
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }
}

#[async_trait]
impl Prompter for SlowPrompter {
    async fn ask(&self, asked: PromptRequest) -> PromptReply {
        self.note(format!("asked by {}", asked.from));
        sleep(self.takes).await;
        self.note(format!("answers {}", asked.from));
        PromptReply::Given { by: "ann".to_owned(), text: "hunter2".into() }
    }

    fn typed(&self, by: &str, _: TypedInput) {
        self.note(format!("typed by {by}"));
    }

    fn control(&self, _: Option<&str>) {
        self.note("control".to_owned());
    }

    fn notice(&self, text: &str) {
        self.note(text.to_owned());
    }
}

fn asked(from: &str) -> PromptRequest {
    let prompt = "Password: ".to_owned();
    PromptRequest {
        kind: QuestionKind::Secret,
        from: from.to_owned(),
        details: Vec::new(),
        prompt,
        call: None,
    }
}

/// Returns a host that asks for a password before it ends.
fn asks(from: &'static str) -> Fake {
    let mut host = fake(|_, _, _| async { Outcome::ok("") });
    let people = Arc::clone(&host.people);
    host.act = Box::new(move |_, _, cancel| {
        let people = people.lock().clone().expect("it was told who is there");
        Box::pin(async move {
            people.notice("connecting");
            tokio::select! {
                () = cancel.cancelled() => Outcome::new(Status::Cancelled, ""),
                answer = people.ask(asked(from)) => match answer {
                    PromptReply::Given { .. } => exited(0, ""),
                    PromptReply::NoSecret | PromptReply::Refused => exited(1, ""),
                },
            }
        })
    });
    host
}

#[tokio::test(start_paused = true)]
async fn hosts_prompt_one_at_a_time_and_waiting_does_not_time_out() {
    let fleet = fleet([("web1", asks("sudo")), ("web2", asks("sudo on web2")), ("db1", asks("ssh db1"))]);
    // Three answers of a minute each exceed the time of a call.
    let people = Arc::new(SlowPrompter { takes: Duration::from_secs(60), ..SlowPrompter::default() });
    fleet.set_prompter(Arc::clone(&people) as Arc<dyn Prompter>);
    let outcome = bash(&fleet).await;
    assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
    assert_eq!(outcome.duration_ms, 180_000);
    let seen = people.seen();
    let notices = seen.iter().filter(|line| line.ends_with(": connecting")).count();
    assert_eq!(notices, 3, "notices do not wait for a question: {seen:?}");
    let questions: Vec<&String> = seen.iter().filter(|line| !line.ends_with(": connecting")).collect();
    for (number, from) in ["sudo on web1", "sudo on web2", "ssh db1"].into_iter().enumerate() {
        assert!(questions.contains(&&format!("asked by {from}")), "{from}: {seen:?}");
        let pair = &questions[2 * number..2 * number + 2];
        let name = pair[0].strip_prefix("asked by ").unwrap();
        assert_eq!(pair[1], &format!("answers {name}"), "no other question comes in between: {seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_host_leaves_the_prompt_queue() {
    let fleet = fleet([("web1", asks("sudo")), ("web2", asks("sudo"))]);
    let people = Arc::new(SlowPrompter { takes: Duration::MAX, ..SlowPrompter::default() });
    fleet.set_prompter(Arc::clone(&people) as Arc<dyn Prompter>);
    let cancel = CancellationToken::new();
    let stopping = async {
        sleep(Duration::from_secs(5)).await; // on the paused clock, without a real wait
        cancel.cancel();
    };
    let command = call("bash", serde_json::json!({ "command": "x" }));
    let (outcome, ()) = tokio::join!(fleet.run(command, DeltaSink::none(), cancel.clone()), stopping);
    assert_eq!(outcome.duration_ms, 5_000);
    assert_eq!(by_host(&outcome), ["web1 cancelled 1", "web2 cancelled 1"]);
    let asked = people.seen().iter().filter(|line| line.starts_with("asked")).count();
    assert_eq!(asked, 1, "the second host never asked: {:?}", people.seen());
    let other = SlowPrompter { takes: Duration::from_secs(1), ..SlowPrompter::default() };
    let other = Arc::new(other);
    fleet.set_prompter(Arc::clone(&other) as Arc<dyn Prompter>);
    assert_eq!(bash(&fleet).await.status, Status::Ok, "the next call can ask again");
}

#[tokio::test]
async fn typed_input_events_pass_and_terminal_control_events_do_not() {
    let host = asks("sudo");
    let people = Arc::clone(&host.people);
    let fleet = fleet([("web1", host)]);
    let all = Arc::new(SlowPrompter::default());
    fleet.set_prompter(Arc::clone(&all) as Arc<dyn Prompter>);
    let one = people.lock().clone().unwrap();
    one.typed("ann", TypedInput::Secret { prompt: "Password: ".to_owned() });
    one.control(Some("ann"));
    one.notice("hello");
    assert_eq!(all.seen(), ["typed by ann", "web1: hello"]);
}
