//! The people as one host among several knows them: each question says which host asks, and only one host asks
//! at a time.

use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::event::Typed;
use sysop_driver::people::{Answer, Asked, People};
use tokio::sync::{Mutex, watch};

use super::member::Member;

/// The way from one host to the people.
pub(super) struct OnHost {
    name: Arc<str>,
    people: Arc<dyn People>,
    /// Held by the host whose question is before the people.
    turn: Arc<Mutex<()>>,
    questions: watch::Sender<usize>,
}

impl OnHost {
    pub(super) fn new(member: &Member, people: Arc<dyn People>, turn: Arc<Mutex<()>>) -> Self {
        Self { name: Arc::clone(&member.name), people, turn, questions: member.asking.clone() }
    }
}

/// A question that waits, for as long as this lives.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn new(questions: &'a watch::Sender<usize>) -> Self {
        questions.send_modify(|count| *count += 1);
        Self(questions)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[async_trait]
impl People for OnHost {
    async fn ask(&self, asked: Asked) -> Answer {
        let _waiting = Waiting::new(&self.questions);
        let _turn = self.turn.lock().await;
        let from = if names(&asked.from, &self.name) {
            asked.from
        } else {
            format!("{} on {}", asked.from, self.name)
        };
        self.people.ask(Asked { from, ..asked }).await
    }

    fn typed(&self, by: &str, typed: Typed) {
        self.people.typed(by, typed);
    }

    /// Told to nobody: several hosts have no terminal that could change hands.
    fn control(&self, _: Option<&str>) {}

    fn notice(&self, text: &str) {
        self.people.notice(&format!("{}: {text}", self.name));
    }
}

/// Whether a name is among the words of a text.
fn names(text: &str, name: &str) -> bool {
    text.split_whitespace().any(|word| word.trim_matches(['(', ')', ',', ':', '\'', '"']) == name)
}
