//! Prompter for one host in a fleet: names the host in each question, and shows one question at a time.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::event::TypedInput;
use sysop_core::guard::GuardReport;
use sysop_core::id::CallId;
use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter};
use tokio::sync::{Mutex, watch};

use super::member::Member;

/// Forwards the questions of one host to the user.
pub(super) struct HostPrompter {
    name: Arc<str>,
    people: Arc<dyn Prompter>,
    /// Lock held by the host whose question is currently shown to the user.
    prompt_lock: Arc<Mutex<()>>,
    open_prompts: watch::Sender<usize>,
}

impl HostPrompter {
    pub(super) fn new(member: &Member, people: Arc<dyn Prompter>, prompt_lock: Arc<Mutex<()>>) -> Self {
        Self {
            name: Arc::clone(&member.name),
            people,
            prompt_lock,
            open_prompts: member.open_prompts.clone(),
        }
    }
}

/// Guard that counts a question as pending until dropped.
struct OpenPromptGuard<'a>(&'a watch::Sender<usize>);

impl<'a> OpenPromptGuard<'a> {
    fn new(open_prompts: &'a watch::Sender<usize>) -> Self {
        open_prompts.send_modify(|count| *count += 1);
        Self(open_prompts)
    }
}

impl Drop for OpenPromptGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[async_trait]
impl Prompter for HostPrompter {
    async fn ask(&self, asked: PromptRequest) -> PromptReply {
        let _waiting = OpenPromptGuard::new(&self.open_prompts);
        let _turn = self.prompt_lock.lock().await;
        let from = if names(&asked.from, &self.name) {
            asked.from
        } else {
            format!("{} on {}", asked.from, self.name)
        };
        self.people.ask(PromptRequest { from, ..asked }).await
    }

    fn typed(&self, by: &str, typed: TypedInput) {
        self.people.typed(by, typed);
    }

    /// Does nothing, because a fleet has no terminal whose control could change.
    fn control(&self, _: Option<&str>) {}

    fn guard(&self, call: &CallId, _: &str, report: GuardReport) {
        self.people.guard(call, &self.name, report);
    }

    fn notice(&self, text: &str) {
        self.people.notice(&with_host(&self.name, text));
    }
}

/// Returns true if `name` is one of the words in `text`.
fn names(text: &str, name: &str) -> bool {
    text.split_whitespace().any(|word| word.trim_matches(['(', ')', ',', ':', '\'', '"']) == name)
}

/// Returns a notice with the name of its host, unless it ends with that: `saving files for undo on web1…`.
fn with_host<'a>(name: &str, text: &'a str) -> Cow<'a, str> {
    let is_named = text.strip_suffix('…').is_some_and(|text| text.ends_with(&format!(" on {name}")));
    if is_named { Cow::Borrowed(text) } else { Cow::Owned(format!("{name}: {text}")) }
}

#[cfg(test)]
mod tests {
    use super::with_host;

    #[test]
    fn a_notice_names_its_host_once() {
        assert_eq!(with_host("web1", "saving files for undo on web1…"), "saving files for undo on web1…");
        assert_eq!(
            with_host("web1", "saving files for undo on db.web1…"),
            "web1: saving files for undo on db.web1…"
        );
        assert_eq!(with_host("web1", "host key added"), "web1: host key added");
    }
}
