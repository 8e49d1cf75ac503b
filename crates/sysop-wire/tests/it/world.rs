//! Sessions driven through random inputs, with the updates that a driver would publish.

use arbtest::arbitrary::{Result, Unstructured};
use serde_json::{Value, json};
use sysop_core::budget::{Budget, BudgetLimits};
use sysop_core::compaction::{Compaction, CompactionReason};
use sysop_core::effort::Effort;
use sysop_core::event::{
    ConfigChange, Decision, Delta, Effect, Event, Input, Logged, Origin, PauseReason, TypedInput, Update,
};
use sysop_core::guard::{GuardEnd, GuardTimeout};
use sysop_core::id::{CallId, JobId, Seq, StepId, Timestamp};
use sysop_core::instructions::{
    FoundInstructions, InstructionFile, InstructionSource, Instructions, UntrustedFile,
};
use sysop_core::job::JobOutput;
use sysop_core::message::{Arguments, FailureKind, ModelFailure, ModelRef, Reply, ToolCall, Usage};
use sysop_core::mode::Mode;
use sysop_core::outcome::{
    ChangeKind, FileChange, HostOutcome, Outcome, Reversibility, Status, SystemChange,
};
use sysop_core::policy::{ApprovalMode, CommandContext, Survey};
use sysop_core::question::{Question, QuestionId, QuestionKind};
use sysop_core::session::Session;
use sysop_core::skill::{Skill, SkillKind, Skills};
use sysop_core::spec::SessionSpec;
use sysop_core::style::TextStyle;
use sysop_core::todo::{TodoItem, TodoState};
use sysop_core::tool::{ClientTools, ToolEffect, ToolSpec};

const TEXTS: [&str; 6] = ["", "go on", "stop", "漢 \"quoted\"\n", "\u{1b}[31mred\u{202e}", "rm -rf /tmp/x"];

/// A session and its published updates.
pub(crate) struct World {
    session: Session,
    step: Option<StepId>,
    running: Option<CallId>,
    asked: Option<CallId>,
    questions: u64,
    pub(crate) updates: Vec<Update>,
}

fn tool(name: &str, effect: ToolEffect) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: "d".into(),
        parameters: json!({"type": "object"}).into(),
        effect,
    }
}

fn text(u: &mut Unstructured<'_>) -> Result<String> {
    Ok((*u.choose(&TEXTS)?).to_owned())
}

fn arguments(u: &mut Unstructured<'_>) -> Result<Arguments> {
    let value = match u.int_in_range(0..=3)? {
        0 => return Ok(Arguments::Invalid(text(u)?)),
        1 => json!({"command": text(u)?, "reasoning": text(u)?}),
        2 => json!({"path": text(u)?, "content": {"deep": [1, null, true]}}),
        _ => json!({"summary": text(u)?}),
    };
    let Value::Object(map) = value else { unreachable!("written as an object") };
    Ok(Arguments::Object(map))
}

fn call(u: &mut Unstructured<'_>) -> Result<ToolCall> {
    let name = *u.choose(&["bash", "write_file", "read_file", "task_complete", "play", "none_such"])?;
    let id = *u.choose(&["a", "b", "c", ""])?;
    Ok(ToolCall { id: CallId::new(id), wire_id: None, name: name.into(), arguments: arguments(u)? })
}

fn reply(u: &mut Unstructured<'_>) -> Result<Reply> {
    let calls = (0..u.int_in_range(0..=3)?).map(|_| call(u)).collect::<Result<_>>()?;
    let usage = Usage {
        input_tokens: u.int_in_range(0..=9)?,
        output_tokens: u.int_in_range(0..=9)?,
        cached_tokens: u.int_in_range(0..=9)?,
    };
    Ok(Reply { text: text(u)?, reasoning: text(u)?, calls, usage, ..Reply::default() })
}

fn status(u: &mut Unstructured<'_>) -> Result<Status> {
    Ok(*u.choose(&[
        Status::Ok,
        Status::Failed,
        Status::Timeout,
        Status::Cancelled,
        Status::Interrupted,
        Status::Unknown,
        Status::Rejected,
    ])?)
}

fn outcome(u: &mut Unstructured<'_>) -> Result<Outcome> {
    let mut outcome = Outcome::new(status(u)?, text(u)?);
    outcome.exit_code = u.ratio(1, 2)?.then_some(3);
    outcome.truncated = u.ratio(1, 2)?;
    outcome.unreachable = u.ratio(1, 4)?;
    outcome.duration_ms = u.int_in_range(0..=9)?;
    outcome
        .styles
        .begin(u.int_in_range(0..=9)?, TextStyle::of(u.choose(&["", "31", "1;38;5;9", "48;2;1;2;3"])?));
    if u.ratio(1, 2)? {
        outcome.artifact = Some(text(u)?);
        outcome.changes =
            vec![FileChange { path: "a".into(), before: Some("b".into()), after_hash: "00".into() }];
        let (host, status) = ("web-1".to_owned(), status(u)?);
        outcome.hosts = vec![HostOutcome {
            host,
            status,
            exit_code: Some(1),
            duration_ms: 2,
            group: 3,
            unreachable: None,
        }];
        outcome.changed = vec![SystemChange { kind: ChangeKind::Unit, name: text(u)?, how: text(u)? }];
        outcome.undo = Some(reversibility(u)?);
    }
    Ok(outcome)
}

fn reversibility(u: &mut Unstructured<'_>) -> Result<Reversibility> {
    Ok(*u.choose(&[Reversibility::Exact, Reversibility::Partly, Reversibility::None])?)
}

fn compaction(u: &mut Unstructured<'_>) -> Result<Compaction> {
    Ok(Compaction {
        tokens_before: u.int_in_range(0..=2_000_000)?,
        tokens_after: u.int_in_range(0..=20_000)?,
        elided: (0..u.int_in_range(0..=2)?).map(|n| CallId::new(format!("c{n}"))).collect(),
        images_elided: false,
        ledger: text(u)?,
        summary: u.ratio(1, 2)?.then(|| "so far".to_owned()),
        focus: u.ratio(1, 2)?.then(|| "disk".to_owned()),
        keep: u.int_in_range(0..=9)?,
        replaced: u.int_in_range(0..=50)?,
        reason: *u.choose(&[
            CompactionReason::Threshold,
            CompactionReason::Overflow,
            CompactionReason::Asked,
        ])?,
        usage: Usage { input_tokens: u.int_in_range(0..=1)?, ..Usage::default() },
    })
}

/// An event that the session does not emit by itself.
fn later_event(u: &mut Unstructured<'_>) -> Result<Event> {
    let call = CallId::new(*u.choose(&["a", "b"])?);
    let job = JobId(u.int_in_range(0..=3)?);
    let seconds = u.int_in_range(0..=300)?;
    Ok(match u.int_in_range(0..=9)? {
        0 => Event::ContextCompacted { compaction: compaction(u)? },
        1 => {
            let state = *u.choose(&[TodoState::Pending, TodoState::Active, TodoState::Done])?;
            let items = (0..u.int_in_range(0..=2)?)
                .map(|_| Ok(TodoItem { text: text(u)?, state }))
                .collect::<Result<_>>()?;
            Event::TodoChanged { items }
        }
        2 => Event::JobStarted { job, call, command: text(u)?, host: "web-1".into() },
        3 => {
            let exit_code = u.ratio(1, 2)?.then_some(2);
            let output = JobOutput { text: text(u)?, artifact: None };
            Event::JobFinished { job, status: status(u)?, exit_code, output }
        }
        4 => Event::GuardArmed { call, host: text(u)?, seconds },
        5 => {
            let how = *u.choose(&[GuardEnd::Confirmed, GuardEnd::Fired, GuardEnd::Unknown])?;
            Event::GuardEnded { call, host: text(u)?, how }
        }
        6 if u.ratio(1, 2)? => {
            let command = u.ratio(1, 2)?.then(|| text(u)).transpose()?;
            let risk = command.as_ref().map(|_| sysop_core::policy::Risk::default());
            Event::ApprovalPreviewed { call, command, risk, preview: vec![text(u)?] }
        }
        6 => Event::ApprovalGiven { call, by: text(u)?, needed: 2, person: None },
        7 => {
            let step = u.ratio(1, 2)?.then(|| u.arbitrary()).transpose()?;
            Event::Undone { call, step, by: text(u)?, how: reversibility(u)? }
        }
        8 => {
            let file = InstructionFile::new(text(u)?, InstructionSource::Workspace, String::new(), 7);
            let untrusted = vec![UntrustedFile { path: text(u)?, bytes: 8 }];
            let path = format!("{}/SKILL.md", text(u)?);
            let matter = "---\ndescription: d\n---\nx";
            let skill = Skill::read(SkillKind::Skill, "x", &path, matter, InstructionSource::User);
            let mut skills = Skills { found: Vec::new(), skipped: vec![text(u)?] };
            skills.add(skill.map(|skill| Skill { body: String::new(), ..skill }));
            Event::InstructionsLoaded { instructions: Instructions { files: vec![file], untrusted, skills } }
        }
        9 => Event::PromptExpanded { text: text(u)?, commands: vec![text(u)?] },
        _ => Event::Paused { reason: PauseReason::Budget, detail: None, active_ms: 0 },
    })
}

fn change(u: &mut Unstructured<'_>) -> Result<ConfigChange> {
    Ok(match u.int_in_range(0..=8)? {
        8 => {
            let session = BudgetLimits { cost: Some(0.5), tokens: Some(200_000), minutes: None };
            ConfigChange::Budget(Budget { session, ..Budget::default() })
        }
        7 => ConfigChange::Effort(Effort::Low),
        0 => ConfigChange::Model(ModelRef::new("demo", *u.choose(&["one", "two"])?)),
        1 => ConfigChange::Approve(*u.choose(&ApprovalMode::ALL)?),
        2 => ConfigChange::Rules {
            dangerous: vec![text(u)?],
            deny: Vec::new(),
            options: None,
            rules: Vec::new(),
        },
        3 => ConfigChange::ClientTools(ClientTools::default()),
        5 => ConfigChange::Mode(*u.choose(&Mode::ALL)?),
        4 => ConfigChange::ClientTools(ClientTools {
            tools: vec![tool("play", ToolEffect::Completes)],
            root: text(u)?,
        }),
        _ => {
            let tools = vec![tool("bash", ToolEffect::Command), tool("task_complete", ToolEffect::Writes)];
            ConfigChange::ClientTools(ClientTools { tools, root: "/home/me".into() })
        }
    })
}

fn typed(u: &mut Unstructured<'_>) -> Result<TypedInput> {
    let text = text(u)?;
    Ok(match u.int_in_range(0..=2)? {
        0 => TypedInput::Keys { text },
        1 => TypedInput::Secret { prompt: text },
        _ => TypedInput::Answer { prompt: text, text: "yes".into() },
    })
}

fn decision(u: &mut Unstructured<'_>) -> Result<Decision> {
    let command = u.ratio(1, 3)?.then(|| "echo edited".to_owned());
    Ok(match u.int_in_range(0..=2)? {
        0 => Decision::Allow { command },
        1 => Decision::AllowSession { command },
        _ => Decision::Reject { reason: text(u)? },
    })
}

impl World {
    /// Creates a session that lives through the inputs drawn from `u`.
    pub(crate) fn random(u: &mut Unstructured<'_>) -> Result<Self> {
        let effects = [
            ("bash", ToolEffect::Command),
            ("write_file", ToolEffect::Writes),
            ("read_file", ToolEffect::Reads),
            ("task_complete", ToolEffect::Completes),
        ];
        let spec = SessionSpec {
            model: ModelRef::new("demo", "demo"),
            system: "Be brief.".into(),
            tools: effects.into_iter().map(|(name, effect)| tool(name, effect)).collect(),
            approve: ApprovalMode::Ask,
            dangerous_patterns: Vec::new(),
            deny: Vec::new(),
            policy: Default::default(),
            max_iterations: 4,
            max_history_messages: 6,
            text_system: None,
            ledger_only: false,
            canary: None,
            models: Default::default(),
            budget: Default::default(),
            instructions: false,
            effort: None,
            max_output_tokens: None,
            temperature: None,
            host: "web-1".into(),
            root: "/srv".into(),
            profile: "full".into(),
        };
        let (session, mut out) = Session::open(spec);
        if let [Event::SessionOpened { opened_by, .. }] = out.events.as_mut_slice() {
            *opened_by = u.ratio(1, 2)?.then(|| "web".to_owned());
        }
        let (step, running, asked) = (None, None, None);
        let mut world = Self { session, step, running, asked, questions: 0, updates: Vec::new() };
        world.publish(out.events);
        for _ in 0..u.int_in_range(0..=60)? {
            if u.is_empty() {
                break;
            }
            if u.ratio(1, 6)? {
                let event = later_event(u)?;
                world.publish(vec![event]);
            } else if u.ratio(1, 3)? {
                let delta = world.delta(u)?;
                world.updates.extend(delta.map(Update::Delta));
            } else {
                let input = world.input(u)?;
                world.tell(input);
            }
        }
        Ok(world)
    }

    /// Returns the logged events only.
    pub(crate) fn log(&self) -> Vec<std::sync::Arc<Logged>> {
        let logged = self.updates.iter().filter_map(|update| match update {
            Update::Logged(logged) => Some(logged.clone()),
            Update::Delta(_) => None,
        });
        logged.collect()
    }

    fn publish(&mut self, events: Vec<Event>) {
        for mut event in events {
            match &mut event {
                Event::ApprovalAsked { call, preview, guarded, .. } => {
                    self.asked = Some(call.id.clone());
                    if self.updates.len().is_multiple_of(2) {
                        *preview = vec!["- old".to_owned(), "+ new".to_owned()];
                        *guarded = Some(GuardTimeout { seconds: 120 });
                    }
                }
                Event::Decided { .. } => self.asked = None,
                Event::TurnEnded { .. } => (self.step, self.running) = (None, None),
                _ => {}
            }
            let seq = Seq(self.log().len() as u64 + 1);
            self.updates.push(Update::Logged(Logged { seq, at: Timestamp(0), event }.into()));
        }
    }

    fn tell(&mut self, input: Input) {
        let out = self.session.handle(input);
        self.publish(out.events);
        for effect in out.effects {
            match effect {
                Effect::CallModel { step, .. } => self.step = Some(step),
                Effect::CancelModel { .. } => self.step = None,
                Effect::RunTool { call, .. } => self.running = Some(call.id),
                Effect::ReadInstructions { attempt } => {
                    self.tell(Input::InstructionsRead {
                        attempt,
                        instructions: FoundInstructions::default(),
                    });
                }
                Effect::Survey { call, attempt, .. } => {
                    let survey = Survey::elsewhere(CommandContext::bash());
                    self.tell(Input::Surveyed { call: call.id, attempt, survey: Box::new(survey) });
                }
                Effect::Summarize { attempt, .. } => {
                    let result = Ok(Reply { text: r#"{"open": ["x"]}"#.to_owned(), ..Reply::default() });
                    self.tell(Input::Summarized { attempt, result });
                }
                Effect::CancelSummary { .. }
                | Effect::Preview { .. }
                | Effect::CancelPreview { .. }
                | Effect::AskHooks { .. }
                | Effect::AskPromptHooks { .. }
                | Effect::SetApprovalTimer { .. }
                | Effect::CancelTool { .. }
                | Effect::SetBackgroundTimer { .. }
                | Effect::Background { .. }
                | Effect::ReadJob { .. }
                | Effect::SetTimer { .. }
                | Effect::Notify { .. }
                | Effect::SetTurnTimer { .. } => {}
            }
        }
    }

    /// Draws the next input, mostly one that makes progress.
    fn input(&mut self, u: &mut Unstructured<'_>) -> Result<Input> {
        if u.ratio(2, 3)? {
            if let Some(step) = self.step.take() {
                let kind = *u.choose(&[FailureKind::Unreachable, FailureKind::ContextOverflow])?;
                let failure = ModelFailure { kind, message: text(u)? };
                let result = if u.ratio(1, 5)? { Err(failure) } else { Ok(reply(u)?) };
                return Ok(Input::Reply { step, result });
            }
            if let Some(call) = self.asked.clone() {
                return Ok(Input::Decision { call, decision: decision(u)?, by: text(u)?, person: None });
            }
            if let Some(call) = self.running.take() {
                return Ok(Input::Outcome { call, outcome: outcome(u)? });
            }
        }
        Ok(match u.int_in_range(0..=12)? {
            0..=3 => {
                let by = u.ratio(1, 2)?.then(|| text(u)).transpose()?;
                Input::Prompt { text: text(u)?, images: Vec::new(), by }
            }
            4 => {
                let Arguments::Object(arguments) = arguments(u)? else { return Ok(Input::Cancel) };
                let origin = *u.choose(&[Origin::User, Origin::Routine, Origin::Plan, Origin::McpClient])?;
                let by = u.ratio(1, 2)?.then(|| text(u)).transpose()?;
                Input::Direct { tool: "bash".into(), arguments, origin, by }
            }
            5 => Input::Cancel,
            6 => Input::Pause,
            7 => Input::Resume,
            8 => Input::Retry,
            9 => Input::Clear,
            10 => Input::Configure { change: change(u)? },
            11 => Input::TerminalInput { by: text(u)?, typed: typed(u)? },
            _ => {
                (self.step, self.running) = (None, None);
                Input::Recovered
            }
        })
    }

    fn delta(&mut self, u: &mut Unstructured<'_>) -> Result<Option<Delta>> {
        Ok(match u.int_in_range(0..=7)? {
            0 => self.step.map(|step| text(u).map(|text| Delta::Text { step, text })).transpose()?,
            1 => self.step.map(|step| text(u).map(|text| Delta::Reasoning { step, text })).transpose()?,
            2 => self.step.map(|step| Delta::Restarted { step }),
            3 => match self.running.clone() {
                Some(call) => Some(Delta::Output { call, text: text(u)? }),
                None => None,
            },
            4 => Some(Delta::Notice { text: text(u)? }),
            5 => {
                self.questions += 1;
                let (from, prompt) = (text(u)?, text(u)?);
                let details = if u.ratio(1, 2)? { vec![text(u)?] } else { Vec::new() };
                let call = self.running.clone();
                let question = Question {
                    id: QuestionId(self.questions),
                    kind: *u.choose(&[
                        QuestionKind::Secret,
                        QuestionKind::Text,
                        QuestionKind::PerhapsSecret,
                    ])?,
                    from,
                    details,
                    prompt,
                    call,
                };
                Some(Delta::Question { question })
            }
            6 => {
                let id = QuestionId(u.int_in_range(0..=self.questions)?);
                Some(Delta::QuestionClosed { id, by: u.ratio(1, 2)?.then(|| "web".to_owned()) })
            }
            _ => Some(Delta::Control { holder: u.ratio(1, 2)?.then(|| "web".to_owned()) }),
        })
    }
}
