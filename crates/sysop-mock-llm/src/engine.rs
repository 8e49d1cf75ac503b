//! Selects the response to a conversation. Pure: it does not use HTTP and remembers no earlier requests.

use crate::scenario::{Response, Scenarios};

/// Prefix of a user message that carries a tool result to a model without tools.
pub const OBSERVATION_PREFIX: &str = "Observation:";

/// Selects responses from scenarios.
#[derive(Debug, Clone)]
pub struct Engine {
    scenarios: Scenarios,
    responses: usize,
}

impl Engine {
    /// Creates an engine for `scenarios` and numbers their responses.
    pub fn new(mut scenarios: Scenarios) -> Self {
        let responses = scenarios.number_responses();
        Self { scenarios, responses }
    }

    /// Returns the response to the last user message after `tool_results` tool results.
    ///
    /// The first scenario whose trigger occurs in the message (case-sensitive) answers. The number of tool results
    /// selects the step (lsimons-agent design, "State Tracking"), so a step with N parallel calls is followed by the
    /// step N further on. After the last step, the last response repeats if it calls no tool. If it does call a tool,
    /// the default response ends the turn, because repeating the call would never end it. If no scenario matches, the
    /// default response answers.
    pub fn reply(&self, last_user: &str, tool_results: usize) -> &Response {
        let scenarios = self.scenarios.scenarios();
        let Some(scenario) = scenarios.iter().find(|scenario| last_user.contains(&scenario.trigger)) else {
            return self.scenarios.default_response();
        };
        let last = || scenario.steps.last().filter(|step| step.response.tool_calls.is_empty());
        scenario
            .steps
            .get(tool_results)
            .or_else(last)
            .map_or(self.scenarios.default_response(), |step| &step.response)
    }

    pub fn scenarios(&self) -> &Scenarios {
        &self.scenarios
    }

    pub fn answer(&self, turn: &Turn) -> &Response {
        self.reply(&turn.prompt, turn.tool_results)
    }

    /// Returns the number of responses. Every response number is smaller than this.
    pub(crate) fn responses(&self) -> usize {
        self.responses
    }
}

/// State of a conversation: its last prompt, and the number of tool results since that prompt.
///
/// The design counts all tool results of the conversation, which makes no difference if there is only one prompt. Here
/// the count restarts at each prompt, so that a second prompt starts its scenario at the first step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// Last user message that is not a tool result.
    pub prompt: String,
    pub tool_results: usize,
}

impl Turn {
    /// Adds a user message. A message that begins with [`OBSERVATION_PREFIX`] counts as a tool result.
    pub fn user(&mut self, text: &str) {
        if text.trim_start().starts_with(OBSERVATION_PREFIX) {
            self.tool_result();
        } else {
            self.prompt = text.to_owned();
            self.tool_results = 0;
        }
    }

    pub fn tool_result(&mut self) {
        self.tool_results += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(engine: &Engine, prompt: &str, results: usize) -> String {
        engine.reply(prompt, results).text()
    }

    #[test]
    fn plays_the_example_conversation() {
        let engine = Engine::new(Scenarios::builtin());
        let prompt = "Please write a hello world script";
        assert_eq!(said(&engine, prompt, 0), "I'll create a hello world Python script for you.");
        let run = engine.reply(prompt, 1);
        assert_eq!(run.tool_calls[0].id.as_deref(), Some("call_002"));
        assert_eq!(run.tool_calls[0].arguments_text, r#"{"command": "python hello.py"}"#);
        assert_eq!(said(&engine, prompt, 2), "Done! The script works correctly and outputs 'Hello, World!'");
        assert_eq!(said(&engine, "how are you?", 0), "I'm doing well, thank you for asking!");
        let default = "I'm a mock server. I only understand specific test scenarios.";
        assert_eq!(said(&engine, "Hello World", 0), default);
        assert_eq!(said(&engine, "", 0), default);
    }

    #[test]
    fn after_its_end_a_scenario_repeats_its_last_answer_but_no_call() {
        let text = r#"{"scenarios": [
            {"name": "first", "trigger": "a", "steps": [{"response": {"content": "only"}}]},
            {"name": "shadowed", "trigger": "ab", "steps": [{"response": {"content": "never"}}]},
            {"name": "calls", "trigger": "c", "steps": [{"response": {"tool_calls": [
                {"type": "function", "function": {"name": "ls", "arguments": "{}"}}]}}]}],
            "default_response": {"content": "default"}}"#;
        let engine = Engine::new(Scenarios::parse("x", text).unwrap());
        assert_eq!(said(&engine, "xabx", 9), "only");
        assert_eq!(engine.reply("c", 0).tool_calls.len(), 1);
        assert_eq!(said(&engine, "c", 1), "default");
        assert_eq!(engine.responses(), 4);
    }

    #[test]
    fn a_second_prompt_restarts_the_scenario_and_observations_count_as_results() {
        let mut turn = Turn::default();
        turn.user("hello world");
        turn.tool_result();
        turn.user("Observation: exit code 0");
        turn.user("  Observation:\nmore");
        assert_eq!(turn, Turn { prompt: "hello world".to_owned(), tool_results: 3 });
        turn.user("An Observation: of mine");
        assert_eq!(turn, Turn { prompt: "An Observation: of mine".to_owned(), tool_results: 0 });
    }
}
