//! Steps of a turn: the next action, the request to the model, and the interpretation of its reply.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::state::{CurrentCall, EvidenceKind, EvidenceRequest, Phase, RepeatedCall};
use super::{Session, chat, hints, numbers};
use crate::catalog::{self, REASONS, VIEW_IMAGE_TOOL};
use crate::deferred_tools::{self, CALL_TOOL, FIND_TOOLS};
use crate::event::{Effect, Event, Origin, Output, PauseReason, StopReason};
use crate::guard::GUARD_ARGUMENT;
use crate::id::StepId;
use crate::image::RequestImages;
use crate::message::{
    Arguments, CallEnd, FinishReason, HistoryMessage, Message, ModelRequest, Reply, ToolCall, ToolProtocol,
};
use crate::outcome::{ARGUMENTS_OF, INVALID_ARGUMENTS, NO_ARGUMENTS};
use crate::policy::{ApprovalMode, RiskClass};
use crate::spec::SessionSpec;
use crate::text::neutralize_line;
use crate::token_estimate;
use crate::tool::{ClientTools, ToolEffect, ToolSpec};

/// Number of consecutive identical calls with identical results after which the turn pauses.
const REPEATS_MAX: u32 = 3;
/// Number of consecutive empty replies after which the turn ends.
pub(super) const EMPTY_REPLIES_MAX: u32 = 2;
const ARGUMENT_ERRORS_MAX: usize = 5;

/// Text added to the system prompt of a read-only session.
const READ_ONLY_PROMPT: &str = "This session is read-only: commands that change anything do not run. Investigate as far \
     as needed, then end with a plan: the commands that you would run, each with its purpose. To propose a step, call \
     its tool: the call is denied and recorded, and the user can run the recorded steps later.";

/// Message that is sent to the model after an empty reply.
pub(super) const EMPTY_NUDGE: &str = "Your last reply was empty. Continue, or say that you are done.";

/// Message that is sent to the model after a reply that claims actions, although no tool ran in the turn.
const EVIDENCE_NUDGE: &str = "You have run nothing yet, so nothing has been done. Do it now with a tool, or \
     answer again without claiming it.";

/// Number of consecutive failures with the same output after which the model gets its tools as text.
const SAME_FAILURES_SWITCH: u32 = 3;
/// Number of consecutive failures with the same output after which the turn pauses.
const SAME_FAILURES_MAX: u32 = 5;

/// Maximum length of a command that the model is told to run again for a file, in bytes.
const COMMAND_BYTES_MAX: usize = 200;

impl Session {
    /// Advances until the session needs an input from the world.
    pub(super) fn advance(&mut self, out: &mut Output) {
        loop {
            if self.survey.is_some() || self.previews.delays_approval() {
                return;
            }
            if self.summary.is_some() || self.is_reading_instructions() || self.is_checking_prompt() {
                return;
            }
            match &mut self.state.phase {
                Phase::Thinking { .. } => return,
                Phase::Idle => match self.state.queue.front().cloned() {
                    Some(prompt) => self.start_turn(out, prompt, Origin::Model),
                    None => return,
                },
                Phase::Acting {
                    work: CurrentCall::AwaitingApproval { .. } | CurrentCall::Running { .. },
                    ..
                } => return,
                Phase::Acting { pending, work: CurrentCall::Idle, .. } => {
                    if self.state.paused == Some(PauseReason::Interrupted) {
                        return;
                    }
                    let Some(call) = pending.front().cloned() else { return };
                    self.review_call(out, call, Origin::Model);
                }
                Phase::BetweenSteps => {
                    if !self.next_step(out) {
                        return;
                    }
                }
            }
        }
    }

    /// Ends or pauses the turn, or calls the model. Returns false if the turn is already paused, or if it must wait for
    /// hooks, instructions or a summary.
    fn next_step(&mut self, out: &mut Output) -> bool {
        let state = &self.state;
        if state.completed {
            self.end_turn(out, StopReason::EndTurn, None);
        } else if state.paused.is_some() {
            return false;
        } else if state.repeated.as_ref().is_some_and(|last| last.times >= REPEATS_MAX)
            || state.same_failures.times >= SAME_FAILURES_MAX
        {
            self.pause(out, PauseReason::Loop, None);
        } else if state.step.step >= state.spec.max_iterations {
            let error = format!(
                "stopped after {} model calls (max_iterations); send `continue` to resume",
                state.spec.max_iterations
            );
            self.end_turn(out, StopReason::MaxIterations, Some(error));
        } else if let Some(error) = self.image_refusal() {
            self.end_turn(out, StopReason::Failed, Some(error));
        } else if self.check_prompt(out) || self.read_instructions(out) {
            return false;
        } else if self.expand_prompt(out) || self.run_expanded_commands(out) {
            return true;
        } else if let Some(detail) = self.budget_stop() {
            self.pause(out, PauseReason::Budget, Some(detail));
        } else if self.compact_if_needed(out) {
            return false;
        } else {
            let state = &self.state;
            let step = StepId { turn: state.turn, step: state.step.step + 1 };
            self.emit(out, Event::StepStarted { step });
            out.effects.push(Effect::CallModel { step, request: self.request() });
        }
        true
    }

    fn request(&self) -> ModelRequest {
        let state = &self.state;
        let window = state.history.window(state.keep);
        let mut messages = window.messages;
        let mut known_tools = Arc::clone(&self.offered_tools().specs);
        let mut tools = Arc::clone(&known_tools);
        let text_protocol = matches!(
            messages.iter().rev().map(HistoryMessage::message).find(|m| matches!(m, Message::Assistant { .. })),
            Some(Message::Assistant { reply }) if reply.protocol == ToolProtocol::Text
        );
        let repeats =
            matches!(&state.repeated, Some(RepeatedCall { times, .. }) if *times >= REPEATS_MAX - 1);
        if text_protocol && repeats {
            tools = Arc::from([]); // a small model answers only if it has no tool to call
        }
        let mut system = Arc::clone(&self.offered_tools().system);
        let mut text_system = self.offered_tools().text_system.clone();
        if state.spec.approve == ApprovalMode::Never {
            let read_only =
                |system: &Arc<str>| Arc::from(format!("{system}\n\n{READ_ONLY_PROMPT}").trim_start());
            (system, text_system) = (read_only(&system), text_system.as_ref().map(read_only));
        }
        if self.is_chat() {
            messages = chat::as_plain_text(messages, |name| self.offered_tools().completes(name));
            (tools, known_tools, system) = (Arc::from([]), Arc::from([]), chat::system(&state.spec));
            text_system = None;
        }
        ModelRequest {
            model: state.spec.model.clone(),
            system,
            text_system,
            messages,
            trimmed: window.trimmed,
            images: RequestImages { vision: self.vision(), ..RequestImages::default() },
            tools,
            known_tools,
            max_output_tokens: self.max_output_tokens(),
            temperature: state.spec.temperature,
            effort: state.spec.effort,
            mode: state.turn_mode,
            calls_as_text: self.switches_protocol(),
            must_call: state.failed_command.as_ref().is_some_and(|failed| failed.retries > 0),
            sampling_defaults: self.sampling_defaults(),
        }
    }

    /// Returns true if the model failed so often in the same way that it gets its tools as text. Always false for
    /// models in the built-in table, whose native tool calls are known to work.
    fn switches_protocol(&self) -> bool {
        let failed = self.state.same_failures.times >= SAME_FAILURES_SWITCH;
        failed && !self.is_chat() && self.listed().is_none()
    }

    /// Returns the request for evidence that must be made before this reply can end the turn, or `None` if it can.
    ///
    /// The question about files is for models that get their tools as text, which are small.
    pub(super) fn evidence_request(&self, reply: &Reply) -> Option<EvidenceRequest> {
        let state = &self.state;
        let is_empty = reply.text.trim().is_empty(); // another message asks for a reply
        let answers = reply.calls.is_empty() && reply.finish == FinishReason::Stop && !is_empty;
        if !answers || self.is_chat() || self.offered_tools().specs.is_empty() {
            return None;
        }
        let may_ask = |kind: EvidenceKind| !state.evidence_made.contains(&kind);
        let claims = !state.ran_tool && self.is_first_report() && hints::claims_action(&reply.text);
        if claims && may_ask(EvidenceKind::Claim) {
            return Some(EvidenceRequest { kind: EvidenceKind::Claim, text: EVIDENCE_NUDGE.to_owned() });
        }
        if reply.protocol != ToolProtocol::Text {
            return None;
        }
        let questions: [(EvidenceKind, &dyn Fn() -> Option<String>); 3] = [
            (EvidenceKind::EmptyFile, &|| state.empty_file.as_deref().map(hints::still_empty)),
            (EvidenceKind::UnwrittenFile, &|| self.unwritten_files()),
            (EvidenceKind::UnshownNumber, &|| self.unshown_number(&reply.text)),
        ];
        questions.into_iter().filter(|(kind, _)| may_ask(*kind)).find_map(|(kind, question)| {
            let text = question()?;
            Some(EvidenceRequest { kind, text })
        })
    }

    /// Returns a question about a number in an answer that is in no prompt, call or output of the session. Asks
    /// nothing once messages were compacted or outputs were omitted, as those that showed it may be gone.
    fn unshown_number(&self, answer: &str) -> Option<String> {
        if self.state.history.summary().is_some() || self.state.history.has_omitted() {
            return None;
        }
        let mut shown = HashSet::new();
        for message in self.state.history.messages() {
            match message {
                Message::User { text, .. } => numbers::add_numbers(text, &mut shown),
                Message::Assistant { reply } => {
                    for call in &reply.calls {
                        numbers::add_numbers(&call.arguments.to_value().to_string(), &mut shown);
                    }
                }
                Message::ToolResults { results } => {
                    results.iter().for_each(|result| numbers::add_numbers(&result.output, &mut shown));
                }
            }
        }
        let number = numbers::unshown_number(answer, &shown)?;
        let root = self.state.spec.root.as_str();
        let file =
            self.state.changed_files.last().and_then(|path| path.strip_prefix(root)?.strip_prefix('/'));
        Some(hints::not_shown(number, file))
    }

    /// Returns a question about files that the prompt names, but that no call of the session has named or changed.
    fn unwritten_files(&self) -> Option<String> {
        let prompt = self.state.last_prompt.as_deref()?;
        let calls = self.state.history.messages().flat_map(|message| match message {
            Message::Assistant { reply } => reply.calls.as_slice(),
            Message::User { .. } | Message::ToolResults { .. } => &[],
        });
        // The reason for a call tells what the model plans, which may never happen.
        let used = calls.map(|call| {
            let mut arguments = call.arguments.to_value();
            if let Some(arguments) = arguments.as_object_mut() {
                arguments.retain(|name, _| !REASONS.contains(&name.as_str()));
            }
            arguments.to_string()
        });
        let mut used: Vec<String> = used.collect();
        used.extend_from_slice(&self.state.changed_files);
        let spec = &self.state.spec;
        let system = spec.text_system.as_ref().unwrap_or(&spec.system);
        hints::unwritten_files(prompt, &used, system, self.command_with_one_value())
    }

    /// Returns the last command if it only reads, and printed a single word and nothing else.
    fn command_with_one_value(&self) -> Option<&str> {
        let Some(Message::ToolResults { results }) = self.state.history.messages().last() else {
            return None;
        };
        let [result] = results.as_slice() else { return None };
        let call = self.state.history.last_reply()?.calls.first().filter(|call| call.id == result.call)?;
        let value = result.output.trim_end().strip_suffix("[exit code 0]").unwrap_or(&result.output);
        let is_value = result.end == CallEnd::Done && value.split_whitespace().count() == 1;
        let command = call.text_argument("command").filter(|_| is_value)?;
        // A list of commands may have an effect that must not be repeated, and `>FILE` would concern only the last one.
        let is_single = !command.contains(['\n', '>', ';', '&']) && !command.contains("||");
        let is_short = command.len() <= COMMAND_BYTES_MAX;
        let reads = || self.risk_as_written(command).class == RiskClass::ReadOnly;
        (is_single && is_short && reads()).then_some(command)
    }

    /// Returns true if no tool has run since the history began. Later replies may report earlier work.
    fn is_first_report(&self) -> bool {
        let messages = self.state.history.window(self.state.keep).messages;
        !messages.iter().any(|message| matches!(message.message(), Message::ToolResults { .. }))
    }

    /// Makes the call ids of a reply unique within the session. The reply is logged with these ids.
    ///
    /// In the text protocol only the first call counts, because a model that writes several calls has not seen the
    /// result of the first one.
    pub(super) fn normalize(&self, mut reply: Reply) -> Reply {
        if reply.protocol == ToolProtocol::Text {
            reply.calls.truncate(1);
        }
        let wire_ids: Vec<_> = reply.calls.iter().map(|call| call.wire_id().to_owned()).collect();
        let repeats = wire_ids.iter().enumerate().any(|(index, id)| wire_ids[..index].contains(id));
        let mut calls: Vec<ToolCall> = Vec::with_capacity(reply.calls.len());
        for (index, mut call) in reply.calls.into_iter().enumerate() {
            let wanted = match wire_ids[index].as_str() {
                "" => format!("call_{}_{}_{index}", self.state.turn, self.state.step.step),
                id => id.to_owned(),
            };
            let id = self.state.unique_id_among(&wanted, &calls);
            if wire_ids[..index].contains(&wire_ids[index]) && !wire_ids[index].is_empty() {
                call.arguments = Arguments::Invalid(DUPLICATE_ID.to_owned());
            }
            call.wire_id = (id.as_str() != wire_ids[index] && !repeats && !wire_ids[index].is_empty())
                .then(|| wire_ids[index].clone());
            call.id = id;
            calls.push(call);
        }
        if repeats {
            reply.raw = None; // its ids are ambiguous; the calls are sent back under ours
        }
        reply.calls = calls;
        reply
    }

    /// Returns the stop reason and, if something failed, an error sentence. `None` if the turn continues.
    pub(super) fn ending(&self, reply: &Reply) -> Option<(StopReason, Option<String>)> {
        if !reply.calls.is_empty() || self.evidence_request(reply).is_some() {
            return None;
        }
        let text = reply.text.trim();
        match reply.finish {
            FinishReason::Refused => {
                let said = if text.is_empty() { "no reason given" } else { text };
                Some((StopReason::Failed, Some(format!("the model refused the request: {said}"))))
            }
            FinishReason::Length if !text.is_empty() => {
                Some((StopReason::EndTurn, Some("the reply was cut off at the token limit".to_owned())))
            }
            FinishReason::Stop if !text.is_empty() => Some((StopReason::EndTurn, None)),
            FinishReason::Stop | FinishReason::Length => self.empty_reply_ending(reply.finish),
        }
    }

    fn empty_reply_ending(&self, finish: FinishReason) -> Option<(StopReason, Option<String>)> {
        if self.state.empty_replies + 1 < EMPTY_REPLIES_MAX {
            return None;
        }
        if self.state.ran_tool && finish == FinishReason::Stop {
            return Some((StopReason::EndTurn, None));
        }
        let error = match finish {
            FinishReason::Length => {
                "the model reached its token limit before answering; raise max_output_tokens"
            }
            FinishReason::Stop | FinishReason::Refused => {
                "the model returned an empty answer twice; retry or use another model"
            }
        };
        Some((StopReason::Failed, Some(error.to_owned())))
    }
}

const DUPLICATE_ID: &str = "not run: another call in this reply has the same id";

/// Returns the system prompt. If there are client tools, it ends with a line about where they run.
fn system(spec: &SessionSpec, client_tools: &ClientTools) -> Arc<str> {
    if client_tools.tools.is_empty() {
        return Arc::from(spec.system.as_str());
    }
    let names: Vec<_> = client_tools.tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
    let line = format!(
        "These tools run on the user's own machine, in the directory {}: {}. All other tools run as described above.",
        serde_json::Value::from(client_tools.root.as_str()), // quoted, so that it reads as nothing more than a name
        names.join(", ")
    );
    Arc::from(format!("{}\n\n{line}", spec.system).trim_start())
}

/// Tools offered to the model, with their argument validators; derived from the spec and the client tools.
#[derive(Debug)]
pub(super) struct OfferedTools {
    specs: Arc<[ToolSpec]>,
    /// External tools whose definitions the model does not get.
    deferred: Vec<ToolSpec>,
    system: Arc<str>,
    /// System prompt for a model that gets its tools as text. `None` if that model gets `system`.
    text_system: Option<Arc<str>>,
    /// Estimated tokens of `specs`.
    tokens: OnceLock<u64>,
    validators: HashMap<String, OnceLock<Option<jsonschema::Validator>>>,
}

impl OfferedTools {
    /// Combines the tools of the spec, of the client and of the session. `session_tools` are the tools that the session
    /// answers itself; no other tool can take their names.
    ///
    /// `vision` is true if the model is known to see images; tools that show images are offered only then.
    pub(super) fn new(
        spec: &SessionSpec,
        client_tools: &ClientTools,
        session_tools: &[ToolSpec],
        vision: bool,
    ) -> Self {
        let defers = deferred_tools::defers(spec);
        let own = spec.tools.iter().filter(|tool| client_tools.named(&tool.name).is_none());
        let deferred: Vec<ToolSpec> =
            own.clone().filter(|tool| defers && tool.effect.is_external()).cloned().collect();
        let others = own.filter(|tool| !(defers && tool.effect.is_external())).chain(&client_tools.tools);
        let others = others.filter(|tool| vision || tool.name != VIEW_IMAGE_TOOL);
        let others = others.filter(|tool| session_tools.iter().all(|own| own.name != tool.name));
        let specs: Arc<[ToolSpec]> = others.chain(session_tools).cloned().collect();
        let all = specs.iter().chain(&deferred);
        let validators = all.map(|tool| (tool.name.clone(), OnceLock::new())).collect();
        // The short prompt does not tell apart the machines on which the tools run.
        let text_system =
            spec.text_system.as_deref().filter(|_| client_tools.tools.is_empty()).map(Arc::from);
        Self {
            specs,
            deferred,
            system: system(spec, client_tools),
            text_system,
            tokens: OnceLock::new(),
            validators,
        }
    }

    /// Returns the external tools whose definitions the model does not get.
    pub(super) fn deferred(&self) -> &[ToolSpec] {
        &self.deferred
    }

    /// Unwraps a call to `call_tool` into the call that it stands for. Returns other calls unchanged.
    pub(super) fn inner<'a>(&self, call: &'a ToolCall) -> Cow<'a, ToolCall> {
        if self.deferred.is_empty() { Cow::Borrowed(call) } else { deferred_tools::inner_call(call) }
    }

    pub(super) fn system(&self) -> &str {
        &self.system
    }

    pub(super) fn tokens(&self) -> u64 {
        *self.tokens.get_or_init(|| token_estimate::tools(&self.specs))
    }

    pub(super) fn named(&self, name: &str) -> Option<&ToolSpec> {
        self.specs.iter().chain(&self.deferred).find(|tool| tool.name == name)
    }

    /// Returns the tool that runs the shell commands of an expanded prompt, or `None` if no tool runs commands.
    pub(super) fn command_tool(&self) -> Option<&ToolSpec> {
        self.named("bash").or_else(|| self.specs.iter().find(|tool| tool.effect == ToolEffect::Command))
    }

    /// Returns true if calling this tool reports the task as complete.
    pub(super) fn completes(&self, name: &str) -> bool {
        self.named(name).is_some_and(|tool| tool.effect == ToolEffect::Completes)
    }

    /// Returns the call that `call` stands for, with its tool, if the tool exists and the arguments fit its schema.
    /// Fails with the message for the model if the tool is unknown or the arguments are invalid.
    pub(super) fn check<'a>(&self, call: &'a ToolCall) -> Result<(&ToolSpec, Cow<'a, ToolCall>), String> {
        let inner = self.inner(call);
        if matches!(inner, Cow::Owned(_)) && !self.deferred.iter().any(|tool| tool.name == inner.name) {
            let name = neutralize_line(&inner.name);
            return Err(match self.named(&inner.name) {
                Some(tool) if tool.name != CALL_TOOL => format!("call `{name}` directly; nothing ran"),
                Some(_) | None => format!("no MCP tool `{name}`; use `{FIND_TOOLS}`; nothing ran"),
            });
        }
        let spec = self.check_arguments(&inner)?;
        Ok((spec, inner))
    }

    fn check_arguments(&self, call: &ToolCall) -> Result<&ToolSpec, String> {
        let Some(spec) = self.named(&call.name) else {
            let names: Vec<_> = self.specs.iter().map(|tool| tool.name.as_str()).collect();
            return Err(format!("unknown tool `{}`; available: {}", call.name, names.join(", ")));
        };
        let arguments = match &call.arguments {
            Arguments::Object(arguments) => with_offered_reason(spec, arguments.clone()),
            Arguments::Invalid(text) if text == DUPLICATE_ID => return Err(DUPLICATE_ID.to_owned()),
            Arguments::Invalid(_) => {
                return Err(format!("{ARGUMENTS_OF}{}{NO_ARGUMENTS}; nothing ran", call.name));
            }
        };
        let validator = self
            .validators
            .get(&call.name)
            .and_then(|slot| slot.get_or_init(|| jsonschema::validator_for(&spec.parameters).ok()).as_ref());
        if validator.is_none_or(|validator| validator.is_valid(&arguments)) {
            return Ok(spec); // the usual case; collecting the errors is slower
        }
        let problems: Vec<_> = validator
            .into_iter()
            .flat_map(|validator| validator.iter_errors(&arguments))
            .take(ARGUMENT_ERRORS_MAX)
            .map(|error| match error.instance_path().to_string() {
                path if path.is_empty() => error.to_string(),
                path => format!("{}: {error}", path.trim_start_matches('/')),
            })
            .collect();
        Err(format!("{INVALID_ARGUMENTS}{}`: {}; nothing ran", call.name, problems.join("; ")))
    }
}

/// Returns the arguments, with the model's reason moved to the argument name that the tool declares. The reason is
/// removed if the tool declares no argument for it.
///
/// A runbook's request for a guard is not an argument of the tool.
fn with_offered_reason(spec: &ToolSpec, mut arguments: Map<String, Value>) -> Value {
    if spec.effect == ToolEffect::Command {
        arguments.remove(GUARD_ARGUMENT);
    }
    let offers = |name: &str| spec.parameters["properties"].get(name).is_some();
    for name in catalog::REASONS.iter().filter(|name| !offers(name)) {
        let Some(reason) = arguments.remove(*name) else { continue };
        if let Some(offered) = catalog::REASONS.iter().find(|name| offers(name)) {
            arguments.entry(*offered).or_insert(reason);
        }
    }
    Value::Object(arguments)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::with_offered_reason;
    use crate::catalog::{Profile, REASONS, tools};

    #[test]
    fn every_tool_accepts_both_names_of_the_reason() {
        for spec in tools(Profile::Full).into_iter().chain(tools(Profile::Operator)) {
            let mut arguments = json!({
                "command": "ls", "keys": "q", "path": "a", "content": "", "old_string": "a", "new_string": "b",
                "summary": "", "pattern": "*", "revision": "HEAD", "action": "list", "paths": ["a"], "message": "m",
            });
            let known = spec.parameters["properties"].as_object().expect("an object").clone();
            let arguments = arguments.as_object_mut().expect("an object");
            arguments.retain(|name, _| known.contains_key(name));
            let validator = jsonschema::validator_for(&spec.parameters).expect("a schema");
            for name in REASONS {
                let mut arguments = arguments.clone();
                arguments.insert(name.to_owned(), "to see".into());
                let checked = with_offered_reason(&spec, arguments);
                let errors: Vec<_> = validator.iter_errors(&checked).map(|error| error.to_string()).collect();
                let is_chunk = spec.name.contains("chunk") || spec.name == "todo";
                assert!(errors.is_empty() || is_chunk, "{} {name}: {errors:?}", spec.name);
            }
        }
    }
}
