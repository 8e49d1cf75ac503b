//! Events for the tests: one of each kind, random ones, and helpers to build a log.

use std::sync::Arc;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use serde_json::{Map, Value};
use sysop_core::budget::{Budget, BudgetLimits};
use sysop_core::compaction::{Compaction, CompactionReason};
use sysop_core::effort::Effort;
use sysop_core::event::{
    CancelFollowUp, ConfigChange, Decision, Event, Logged, Origin, PauseReason, StopReason, TypedInput,
};
use sysop_core::guard::{GuardEnd, GuardTimeout};
use sysop_core::id::{CallId, JobId, Seq, SessionId, StepId, Timestamp, TurnId};
use sysop_core::image::{ImageFormat, ImageRef};
use sysop_core::instructions::{InstructionFile, InstructionSource, Instructions, UntrustedFile};
use sysop_core::job::JobOutput;
use sysop_core::message::{
    Arguments, FailureKind, FinishReason, ModelFailure, ModelRef, RawReply, Reply, ToolCall, ToolProtocol,
    Usage,
};
use sysop_core::mode::Mode;
use sysop_core::model_limits::ModelLimits;
use sysop_core::model_table::ModelPrice;
use sysop_core::outcome::{
    ChangeKind, FileChange, HostOutcome, Outcome, Reversibility, Status, SystemChange,
};
use sysop_core::policy::{ApprovalMode, Finding, Grant, Risk, RiskClass};
use sysop_core::skill::Skills;
use sysop_core::spec::SessionSpec;
use sysop_core::todo::{TodoItem, TodoState};
use sysop_core::tool::{ClientTools, ToolEffect, ToolSpec};
use sysop_core::undo::{UndoRecord, UndoRights};

/// Creates a session id.
pub(crate) fn id(text: &str) -> SessionId {
    SessionId::new(text)
}

/// Numbers events after `after`, a millisecond apart.
pub(crate) fn log(after: u64, at: i64, events: impl IntoIterator<Item = Event>) -> Vec<Arc<Logged>> {
    let place = |(event, (seq, at))| Arc::new(Logged { seq: Seq(seq), at: Timestamp(at), event });
    events.into_iter().zip((after + 1..).zip(at..)).map(place).collect()
}

/// Returns `count` events after `after`, identifiable by `mark`.
pub(crate) fn queued(after: u64, count: usize, mark: &str) -> Vec<Arc<Logged>> {
    log(
        after,
        1000,
        (0..count).map(|n| Event::PromptQueued { text: format!("{mark} {n}"), images: Vec::new(), by: None }),
    )
}

/// The first event of a session.
pub(crate) fn opened(host: &str, root: &str) -> Event {
    let spec = SessionSpec {
        model: ModelRef::new("ollama", "phi3"),
        system: "You operate a server.".into(),
        tools: Vec::new(),
        approve: ApprovalMode::Ask,
        dangerous_patterns: vec![r"rm\s+-rf".into()],
        deny: Vec::new(),
        policy: Default::default(),
        max_iterations: 20,
        max_history_messages: 20,
        text_system: None,
        ledger_only: false,
        canary: None,
        models: Default::default(),
        budget: Default::default(),
        instructions: false,
        effort: None,
        max_output_tokens: None,
        temperature: Some(0.1),
        host: host.into(),
        root: root.into(),
        profile: "full".into(),
    };
    Event::SessionOpened { spec: spec.into(), opened_by: None }
}

/// The start of a turn.
pub(crate) fn turn(number: u32, prompt: &str) -> Event {
    Event::TurnStarted {
        turn: TurnId(number),
        prompt: prompt.into(),
        origin: Origin::Model,
        images: Vec::new(),
        by: None,
    }
}

/// Returns the index of an event's kind; a new kind does not compile until it is generated below, too.
pub(crate) fn kind(event: &Event) -> usize {
    match event {
        Event::SessionOpened { .. } => 0,
        Event::Configured { .. } => 1,
        Event::PromptQueued { .. } => 2,
        Event::TurnStarted { .. } => 3,
        Event::StepStarted { .. } => 4,
        Event::Replied { .. } => 5,
        Event::ModelFailed { .. } => 6,
        Event::ApprovalAsked { .. } => 7,
        Event::Decided { .. } => 8,
        Event::ToolStarted { .. } => 9,
        Event::ToolFinished { .. } => 10,
        Event::Paused { .. } => 11,
        Event::Resumed => 12,
        Event::Compacted { .. } => 13,
        Event::HistoryCleared => 14,
        Event::TurnEnded { .. } => 15,
        Event::CancelAsked { .. } => 16,
        Event::TerminalInput { .. } => 17,
        Event::ContextCompacted { .. } => 18,
        Event::TodoChanged { .. } => 19,
        Event::JobStarted { .. } => 20,
        Event::JobFinished { .. } => 21,
        Event::GuardArmed { .. } => 22,
        Event::GuardEnded { .. } => 23,
        Event::ApprovalGiven { .. } => 24,
        Event::Undone { .. } => 25,
        Event::InstructionsLoaded { .. } => 26,
        Event::PromptExpanded { .. } => 27,
        Event::ApprovalPreviewed { .. } => 28,
        Event::PromptWithdrawn { .. } => 29,
    }
}

/// Number of kinds that `kind` distinguishes.
pub(crate) const KINDS: usize = 30;

/// Random events of one kind.
pub(crate) fn of_kind(kind: usize) -> impl Strategy<Value = Event> {
    let at = kind;
    match at {
        0 => (spec(), option::of(text()))
            .prop_map(|(spec, opened_by)| Event::SessionOpened { spec: spec.into(), opened_by })
            .boxed(),
        1 => (change(), option::of(text()))
            .prop_map(|(change, reached)| Event::Configured { change, reached })
            .boxed(),
        2 => (text(), vec(image(), 0..2), option::of(text()))
            .prop_map(|(text, images, by)| Event::PromptQueued { text, images, by })
            .boxed(),
        3 => (any::<u32>(), text(), origin(), option::of(text()))
            .prop_map(|(turn, prompt, origin, by)| {
                let (turn, images) = (TurnId(turn), Vec::new());
                Event::TurnStarted { turn, prompt, origin, images, by }
            })
            .boxed(),
        4 => step().prop_map(|step| Event::StepStarted { step }).boxed(),
        5 => (step(), reply()).prop_map(|(step, reply)| Event::Replied { step, reply }).boxed(),
        6 => (step(), failure()).prop_map(|(step, failure)| Event::ModelFailed { step, failure }).boxed(),
        7 => (call(), text(), text(), risk(), grant(), vec(text(), 0..3), option::of(any::<u32>()))
            .prop_map(|(call, command, reason, risk, covers, preview, seconds)| Event::ApprovalAsked {
                call,
                command,
                reason,
                risk,
                covers,
                preview,
                guarded: seconds.map(|seconds| GuardTimeout { seconds }),
                scope: None,
                terms: Default::default(),
            })
            .boxed(),
        8 => (text(), decision(), text())
            .prop_map(|(call, decision, by)| Event::Decided { call: CallId::new(call), decision, by })
            .boxed(),
        9 => (call(), origin()).prop_map(|(call, origin)| Event::ToolStarted { call, origin }).boxed(),
        10 => (text(), outcome())
            .prop_map(|(call, outcome)| Event::ToolFinished { call: CallId::new(call), outcome })
            .boxed(),
        11 => {
            let reason = prop_oneof![
                Just(PauseReason::Asked),
                Just(PauseReason::Loop),
                Just(PauseReason::Interrupted),
                Just(PauseReason::Budget)
            ];
            (reason, option::of(text()), any::<u64>())
                .prop_map(|(reason, detail, active_ms)| Event::Paused { reason, detail, active_ms })
                .boxed()
        }
        12 => Just(Event::Resumed).boxed(),
        13 => any::<usize>().prop_map(|keep| Event::Compacted { keep }).boxed(),
        14 => Just(Event::HistoryCleared).boxed(),
        15 => (any::<u32>(), stop_reason(), option::of(text()), any::<u64>())
            .prop_map(|(turn, reason, error, active_ms)| {
                let turn = TurnId(turn);
                Event::TurnEnded { turn, reason, error, active_ms }
            })
            .boxed(),
        16 => prop_oneof![
            Just(CancelFollowUp::Nothing),
            Just(CancelFollowUp::Retry),
            Just(CancelFollowUp::Clear)
        ]
        .prop_map(|then| Event::CancelAsked { then })
        .boxed(),
        17 => (text(), typed()).prop_map(|(by, typed)| Event::TerminalInput { by, typed }).boxed(),
        later => of_second_kind(later),
    }
}

/// Random events of the kinds unknown to 0.1.0.
fn of_second_kind(kind: usize) -> proptest::strategy::BoxedStrategy<Event> {
    let call_id = || text().prop_map(CallId::new);
    match kind {
        18 => compaction().prop_map(|compaction| Event::ContextCompacted { compaction }).boxed(),
        19 => vec(todo(), 0..4).prop_map(|items| Event::TodoChanged { items }).boxed(),
        20 => (any::<u32>(), call_id(), text(), text())
            .prop_map(|(job, call, command, host)| Event::JobStarted { job: JobId(job), call, command, host })
            .boxed(),
        21 => (any::<u32>(), status(), option::of(any::<i32>()))
            .prop_map(|(job, status, exit_code)| {
                let output = JobOutput { text: "x".to_owned(), artifact: None };
                Event::JobFinished { job: JobId(job), status, exit_code, output }
            })
            .boxed(),
        22 => (call_id(), text(), any::<u32>())
            .prop_map(|(call, host, seconds)| Event::GuardArmed { call, host, seconds })
            .boxed(),
        23 => (
            call_id(),
            text(),
            prop_oneof![Just(GuardEnd::Confirmed), Just(GuardEnd::Fired), Just(GuardEnd::Unknown)],
        )
            .prop_map(|(call, host, how)| Event::GuardEnded { call, host, how })
            .boxed(),
        24 => (call_id(), text(), any::<u32>())
            .prop_map(|(call, by, needed)| Event::ApprovalGiven { call, by, needed, person: None })
            .boxed(),
        28 => (call_id(), option::of(text()), vec(text(), 0..3))
            .prop_map(|(call, command, preview)| {
                let risk = command.as_ref().map(|_| Risk::default());
                Event::ApprovalPreviewed { call, command, risk, preview }
            })
            .boxed(),
        25 => (call_id(), option::of(any::<u32>()), text(), reversibility())
            .prop_map(|(call, step, by, how)| Event::Undone { call, step, by, how })
            .boxed(),
        26 => (vec((text(), text(), any::<u64>()), 0..3), vec((text(), any::<u64>()), 0..3))
            .prop_map(|(files, untrusted)| {
                let source = InstructionSource::Workspace;
                let files = files.into_iter();
                let files = files
                    .map(|(path, text, bytes)| InstructionFile::new(path, source, text, bytes))
                    .collect();
                let untrusted = untrusted.into_iter();
                let untrusted = untrusted.map(|(path, bytes)| UntrustedFile { path, bytes }).collect();
                Event::InstructionsLoaded {
                    instructions: Instructions { files, untrusted, skills: Skills::default() },
                }
            })
            .boxed(),
        27 => (text(), vec(text(), 0..3))
            .prop_map(|(text, commands)| Event::PromptExpanded { text, commands })
            .boxed(),
        29 => (text(), option::of(text())).prop_map(|(text, by)| Event::PromptWithdrawn { text, by }).boxed(),
        unknown => panic!("there is no kind {unknown}"),
    }
}

fn compaction() -> impl Strategy<Value = Compaction> {
    let tokens = (any::<u64>(), any::<u64>(), any::<usize>(), any::<usize>());
    let reason = prop_oneof![
        Just(CompactionReason::Threshold),
        Just(CompactionReason::Overflow),
        Just(CompactionReason::Asked),
    ];
    let texts = (text(), option::of(text()), option::of(text()));
    (tokens, vec(text(), 0..3), texts, reason, usage()).prop_map(
        |((tokens_before, tokens_after, keep, replaced), elided, (ledger, summary, focus), reason, usage)| {
            Compaction {
                tokens_before,
                tokens_after,
                elided: elided.into_iter().map(CallId::new).collect(),
                images_elided: keep % 2 == 1,
                ledger,
                summary,
                focus,
                keep,
                replaced,
                reason,
                usage,
            }
        },
    )
}

fn todo() -> impl Strategy<Value = TodoItem> {
    let state = prop_oneof![Just(TodoState::Pending), Just(TodoState::Active), Just(TodoState::Done)];
    (text(), state).prop_map(|(text, state)| TodoItem { text, state })
}

fn reversibility() -> impl Strategy<Value = Reversibility> {
    prop_oneof![Just(Reversibility::Exact), Just(Reversibility::Partly), Just(Reversibility::None)]
}

fn system_change() -> impl Strategy<Value = SystemChange> {
    let kind = prop_oneof![
        Just(ChangeKind::File),
        Just(ChangeKind::Unit),
        Just(ChangeKind::Package),
        Just(ChangeKind::User),
        Just(ChangeKind::Cron),
        Just(ChangeKind::Firewall),
        Just(ChangeKind::Sysctl),
    ];
    (kind, text(), text()).prop_map(|(kind, name, how)| SystemChange { kind, name, how })
}

/// Any event.
pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    (0..KINDS).prop_flat_map(of_kind)
}

/// Any text: control characters, quotes, newlines and all planes of Unicode.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z ]{1,20}",
        "(\\PC|[\u{0}-\u{1f}\u{7f}-\u{9f}\u{2028}\u{202e}\"\\\\]){0,24}"
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Value::from), object_of(inner).prop_map(Value::Object)]
    })
}

fn object_of(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    btree_map(text(), inner, 0..4).prop_map(|map| map.into_iter().collect())
}

fn step() -> impl Strategy<Value = StepId> {
    (any::<u32>(), any::<u32>()).prop_map(|(turn, step)| StepId { turn: TurnId(turn), step })
}

fn origin() -> impl Strategy<Value = Origin> {
    prop_oneof![
        Just(Origin::Model),
        Just(Origin::User),
        Just(Origin::Routine),
        Just(Origin::Plan),
        Just(Origin::McpClient)
    ]
}

fn model() -> impl Strategy<Value = ModelRef> {
    ("[a-z+]{1,8}", "[a-z0-9:/.]{1,12}").prop_map(|(provider, name)| ModelRef::new(provider, name))
}

fn mode() -> impl Strategy<Value = ApprovalMode> {
    proptest::sample::select(ApprovalMode::ALL.to_vec())
}

fn change() -> impl Strategy<Value = ConfigChange> {
    let chat = prop_oneof![Just(Mode::Agent), Just(Mode::Chat)].prop_map(ConfigChange::Mode);
    let rules = (vec(text(), 0..3), vec(text(), 0..3));
    let rules = rules.prop_map(|(dangerous, deny)| ConfigChange::Rules {
        dangerous,
        deny,
        options: None,
        rules: Vec::new(),
    });
    let lent = (vec(tool(), 0..3), text())
        .prop_map(|(tools, root)| ConfigChange::ClientTools(ClientTools { tools, root }));
    prop_oneof![
        model().prop_map(ConfigChange::Model),
        Just(ConfigChange::Effort(Effort::Minimal)),
        mode().prop_map(ConfigChange::Approve),
        chat,
        rules,
        lent
    ]
}

fn spec() -> impl Strategy<Value = SessionSpec> {
    let words = (text(), text(), text(), text());
    let lists = (vec(tool(), 0..3), vec(text(), 0..3), vec(text(), 0..3));
    let limits =
        (any::<u32>(), any::<usize>(), option::of(any::<u32>()), option::of(0.0..2.0f32), any::<bool>());
    (model(), mode(), words, lists, limits).prop_map(
        |(model, approve, (system, host, root, profile), (tools, dangerous_patterns, deny), limits)| {
            let (max_iterations, max_history_messages, max_output_tokens, temperature, price) = limits;
            let limits = ModelLimits {
                context_window: max_output_tokens,
                max_output_tokens,
                vision: Some(max_iterations > 7),
                price: price.then(|| ModelPrice {
                    input: 0.1 + 0.2,
                    output: 15.0,
                    cached: max_output_tokens.map(|_| 0.3),
                    above: Some((200_000, 6.0, 22.5, None)),
                }),
            };
            let budget = Budget {
                turn: BudgetLimits {
                    cost: price.then_some(0.7),
                    tokens: max_output_tokens.map(u64::from),
                    minutes: max_output_tokens,
                },
                session: BudgetLimits { cost: Some(f64::from(max_iterations) / 3.0), ..Default::default() },
            };
            SessionSpec {
                model,
                text_system: price.then(|| system.clone()),
                system,
                tools,
                approve,
                dangerous_patterns,
                deny,
                policy: Default::default(),
                max_iterations,
                max_history_messages,
                ledger_only: max_history_messages % 2 == 0,
                canary: None,
                models: max_output_tokens.map(|_| (host.clone(), limits)).into_iter().collect(),
                budget,
                instructions: price,
                effort: price.then_some(Effort::XHigh),
                max_output_tokens,
                temperature,
                host,
                root,
                profile,
            }
        },
    )
}

fn tool() -> impl Strategy<Value = ToolSpec> {
    let effect = prop_oneof![
        Just(ToolEffect::Reads),
        Just(ToolEffect::Writes),
        Just(ToolEffect::Command),
        Just(ToolEffect::Keys),
        Just(ToolEffect::Completes),
        Just(ToolEffect::Session),
    ];
    (text(), text(), value(), effect).prop_map(|(name, description, parameters, effect)| ToolSpec {
        name,
        description: description.into(),
        parameters: parameters.into(),
        effect,
    })
}

fn call() -> impl Strategy<Value = ToolCall> {
    let arguments =
        prop_oneof![object_of(value()).prop_map(Arguments::Object), text().prop_map(Arguments::Invalid)];
    (text(), option::of(text()), text(), arguments).prop_map(|(id, wire_id, name, arguments)| ToolCall {
        id: CallId::new(id),
        wire_id,
        name,
        arguments,
    })
}

fn usage() -> impl Strategy<Value = Usage> {
    (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(input, output, cached)| Usage {
        input_tokens: input,
        output_tokens: output,
        cached_tokens: cached,
    })
}

fn reply() -> impl Strategy<Value = Reply> {
    let protocol = prop_oneof![Just(ToolProtocol::Native), Just(ToolProtocol::Text)];
    let finish =
        prop_oneof![Just(FinishReason::Stop), Just(FinishReason::Length), Just(FinishReason::Refused)];
    let raw = option::of((model(), value()).prop_map(|(model, value)| RawReply { model, value }));
    let counts = (usage(), option::of(any::<u32>()));
    (text(), text(), vec(call(), 0..3), protocol, finish, counts, raw).prop_map(
        |(text, reasoning, calls, protocol, finish, (usage, context_window), raw)| Reply {
            text,
            reasoning,
            calls,
            protocol,
            finish,
            usage,
            context_window,
            vision: context_window.map(|window| window % 2 == 0),
            raw,
        },
    )
}

fn failure() -> impl Strategy<Value = ModelFailure> {
    let kind = prop_oneof![
        Just(FailureKind::ContextOverflow),
        Just(FailureKind::Auth),
        Just(FailureKind::UnknownModel),
        Just(FailureKind::Unreachable),
        Just(FailureKind::RateLimited),
        Just(FailureKind::Protocol),
        Just(FailureKind::BadRequest),
    ];
    (kind, text()).prop_map(|(kind, message)| ModelFailure { kind, message })
}

fn risk() -> impl Strategy<Value = Risk> {
    let finding = (any::<usize>(), any::<usize>(), class(), text())
        .prop_map(|(start, end, class, why)| Finding { start, end, class, why });
    (class(), vec(finding, 0..3)).prop_map(|(class, findings)| Risk { class, findings })
}

fn class() -> impl Strategy<Value = RiskClass> {
    prop_oneof![
        Just(RiskClass::ReadOnly),
        Just(RiskClass::Changes),
        Just(RiskClass::Opaque),
        Just(RiskClass::Dangerous)
    ]
}

fn grant() -> impl Strategy<Value = Grant> {
    prop_oneof![
        text().prop_map(|command| Grant::Exact { command }),
        (text(), option::of(text())).prop_map(|(program, subcommand)| Grant::Program { program, subcommand }),
        text().prop_map(|name| Grant::Tool { name }),
    ]
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![
        option::of(text()).prop_map(|command| Decision::Allow { command }),
        option::of(text()).prop_map(|command| Decision::AllowSession { command }),
        text().prop_map(|reason| Decision::Reject { reason }),
    ]
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![
        Just(Status::Ok),
        Just(Status::Failed),
        Just(Status::Timeout),
        Just(Status::Cancelled),
        Just(Status::Interrupted),
        Just(Status::Unknown),
        Just(Status::Rejected),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let change = (text(), option::of(text()), text()).prop_map(|(path, before, after_hash)| FileChange {
        path,
        before,
        after_hash,
    });
    let end = (option::of(any::<i32>()), any::<bool>(), option::of(text()), any::<u64>());
    let host = (text(), status(), option::of(any::<i32>()), any::<u64>(), any::<u32>()).prop_map(
        |(host, status, exit_code, duration_ms, group)| HostOutcome {
            host,
            status,
            exit_code,
            duration_ms,
            group,
            unreachable: None,
        },
    );
    let system = (vec(system_change(), 0..3), option::of(reversibility()));
    (status(), text(), end, vec(change, 0..3), vec(host, 0..3), system).prop_map(
        |(status, output, end, changes, hosts, (changed, undo))| {
            let (exit_code, truncated, artifact, duration_ms) = end;
            let styles = sysop_core::text::split_styles("a\u{1b}[1;31mb\u{1b}[0mc").1;
            let record = |id: String| UndoRecord { host: id.clone(), id, rights: UndoRights::Root };
            let records = undo.map(|_| record(output.clone())).into_iter().collect();
            Outcome {
                unreachable: duration_ms % 2 == 1,
                status,
                output,
                styles,
                exit_code,
                truncated,
                artifact,
                duration_ms,
                undo_ms: duration_ms / 2,
                job: undo.map(|_| JobId(3)),
                changes,
                hosts,
                changed,
                undo,
                records,
                images: Vec::new(),
            }
        },
    )
}

fn image() -> impl Strategy<Value = ImageRef> {
    (text(), 1..3000_u32, 1..3000_u32).prop_map(|(name, width, height)| ImageRef {
        artifact: "image-0.png".to_owned(),
        media_type: ImageFormat::Png,
        width,
        height,
        name,
    })
}

fn stop_reason() -> impl Strategy<Value = StopReason> {
    prop_oneof![
        Just(StopReason::EndTurn),
        Just(StopReason::MaxIterations),
        Just(StopReason::Cancelled),
        Just(StopReason::Failed),
        Just(StopReason::Paused),
    ]
}

fn typed() -> impl Strategy<Value = TypedInput> {
    prop_oneof![
        text().prop_map(|text| TypedInput::Keys { text }),
        (any::<u32>(), any::<u32>())
            .prop_map(|(keys, seconds)| TypedInput::Activity { keys: keys.into(), seconds: seconds.into() }),
        text().prop_map(|prompt| TypedInput::Secret { prompt }),
        (text(), text()).prop_map(|(prompt, text)| TypedInput::Answer { prompt, text }),
    ]
}
