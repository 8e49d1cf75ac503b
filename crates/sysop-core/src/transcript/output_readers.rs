//! Records the models that received output of a session's tools.

use crate::event::{ConfigChange, Event};
use crate::message::{FailureKind, ModelRef};

const MODELS_MAX: usize = 64;

/// The models that received output of a session's tools, in the order in which they first received it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputReaders {
    models: Vec<ModelRef>,
    current: Option<ModelRef>,
    /// Model of the current step, if the history sent to it contains tool output.
    asked: Option<ModelRef>,
    /// True if the history contains tool output.
    has_output: bool,
}

impl OutputReaders {
    pub fn apply(&mut self, event: &Event) {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "other events do not change what models were sent"
        )]
        match event {
            Event::SessionOpened { spec, .. } => self.current = Some(spec.model.clone()),
            Event::Configured { change: ConfigChange::Model(model), .. } => {
                self.current = Some(model.clone())
            }
            Event::ToolFinished { .. } => self.has_output = true,
            Event::HistoryCleared => self.has_output = false,
            Event::StepStarted { .. } => self.asked = self.current.clone().filter(|_| self.has_output),
            Event::Replied { .. } => self.sent(),
            Event::ModelFailed { failure, .. }
                if matches!(failure.kind, FailureKind::Withheld | FailureKind::Budget) =>
            {
                self.asked = None
            }
            Event::ModelFailed { .. } | Event::TurnEnded { .. } => self.sent(),
            _ => {}
        }
    }

    /// Records the model of the current step. Even if no reply arrived, the model may have read the output.
    fn sent(&mut self) {
        let Some(model) = self.asked.take() else { return };
        if !self.models.contains(&model) && self.models.len() < MODELS_MAX {
            self.models.push(model);
        }
    }

    pub fn models(&self) -> &[ModelRef] {
        &self.models
    }

    /// Returns the providers of these models, each once. Leaves out the provider of the current model, which front ends
    /// show anyway.
    pub fn other_providers(&self) -> Vec<&str> {
        let current = self.current.as_ref().map(|model| model.provider.as_str());
        let mut providers: Vec<&str> = Vec::new();
        for model in &self.models {
            if Some(model.provider.as_str()) != current && !providers.contains(&model.provider.as_str()) {
                providers.push(&model.provider);
            }
        }
        providers
    }
}

#[cfg(test)]
mod tests {
    use super::OutputReaders;
    use crate::event::{ConfigChange, Event, StopReason};
    use crate::id::{CallId, StepId, TurnId};
    use crate::message::{FailureKind, ModelFailure, ModelRef, Reply};
    use crate::outcome::Outcome;

    fn model(name: &str) -> Event {
        Event::configured(ConfigChange::Model(name.parse::<ModelRef>().unwrap()))
    }

    fn step() -> Event {
        Event::StepStarted { step: StepId::default() }
    }

    fn replied() -> Event {
        Event::Replied { step: StepId::default(), reply: Reply::default() }
    }

    fn failed(kind: FailureKind) -> Event {
        Event::ModelFailed {
            step: StepId::default(),
            failure: ModelFailure { kind, message: "no".to_owned() },
        }
    }

    fn output() -> Event {
        Event::ToolFinished { call: CallId::new("1"), outcome: Outcome::ok("shown") }
    }

    fn readers(events: Vec<Event>) -> (Vec<String>, Vec<String>) {
        let mut readers = OutputReaders::default();
        events.iter().for_each(|event| readers.apply(event));
        let others = readers.other_providers().into_iter().map(str::to_owned).collect();
        (readers.models().iter().map(ToString::to_string).collect(), others)
    }

    #[test]
    fn a_model_is_recorded_for_all_output_before_its_request() {
        let first = vec![model("a/x"), step(), replied(), output()];
        assert_eq!(
            readers(first.clone()),
            (vec![], vec![]),
            "the model was called before there was any output"
        );
        let then = |events: Vec<Event>| [first.clone(), events].concat();
        assert_eq!(readers(then(vec![step(), replied()])), (vec!["a/x".to_owned()], vec![]));
        let other = then(vec![step(), replied(), model("b/y"), step(), replied(), step(), replied()]);
        assert_eq!(readers(other), (vec!["a/x".to_owned(), "b/y".to_owned()], vec!["a".to_owned()]));
        let cleared = then(vec![Event::HistoryCleared, model("b/y"), step(), replied()]);
        assert_eq!(readers(cleared), (vec![], vec![]));
    }

    #[test]
    fn a_requested_model_is_recorded_unless_output_was_withheld() {
        let ended = || Event::TurnEnded {
            turn: TurnId::default(),
            reason: StopReason::Cancelled,
            error: None,
            active_ms: 0,
        };
        for (end, read) in [
            (failed(FailureKind::Withheld), false),
            (failed(FailureKind::Auth), true),
            (failed(FailureKind::Unreachable), true),
            (ended(), true),
        ] {
            let events = vec![model("a/x"), output(), step(), end.clone(), ended()];
            assert_eq!(readers(events).0.is_empty(), !read, "{end:?}");
        }
    }
}
