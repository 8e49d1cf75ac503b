//! Implementations of the commands, on top of the services.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use sysop_core::auto_bounds::{ACCEPTED_BOUNDS, AutoBounds};
use sysop_core::event::{ConfigChange, Input};
use sysop_core::id::SessionId;
use sysop_core::image::{ImageRef, PROMPT_IMAGES_MAX};
use sysop_core::message::ModelRef;
use sysop_core::model_provider::DEMO;
use sysop_core::model_table;
use sysop_core::policy::ApprovalMode;
use sysop_core::text::{neutralize, neutralize_line};
use sysop_core::ui_text::counted;
use sysop_driver::frontend::SessionService as _;
use sysop_driver::port::Store;
use sysop_mock_llm::Scenarios;
use sysop_provider::Providers;
use sysop_repl::RenderOptions;
use sysop_repl::chat::{self, ReplContext, TerminalTraits};
use sysop_repl::exec::{
    self, AnswerSchema, ApprovalHandler, CallOutput, CommandSequence, ExecContext, ExecFormat, ExecTask,
};

use crate::app::{Machines, Services, Storage, artifacts, database, delete_session, providers};
use crate::cli::{
    ChatArguments, ExecArguments, MockLlmArguments, SessionsCommand, TokenCommand, UndoArguments, task_text,
};
use crate::config::ConfigOrigin;
use crate::doctor::DoctorProbe;
use crate::exec_input;
use crate::exit::{CommandError, Exit};
use crate::global_flags::Verbosity;
use crate::local_model::ServersOfMachine;
use crate::select_model::ModelChoice;
use crate::sessions::{self, DisplayOptions, SessionsError};
use crate::settings::{ColorMode, HostChoice, ProviderSettings, Settings, SshTarget};
use crate::token::TokenMaker;

/// Name of the input history file, in the data directory.
pub(crate) const HISTORY: &str = "history";

/// Runs the line REPL.
pub(crate) async fn chat(settings: Settings, pick: ModelChoice, arguments: ChatArguments) -> Result<Exit> {
    let form = chat_form(&settings, arguments.plain);
    let history = settings.folders.data.join(HISTORY);
    let root = settings.root.clone();
    let prices = settings.prices.clone();
    if settings.resume.is_none() {
        crate::known_host::check(&settings).await?; // a resumed session has its own host
    }
    let services = Services::new(settings, pick.model)?;
    let opened = services.open().await?;
    let context = ReplContext {
        opened,
        task: arguments.images.added_to(task_text(&arguments.task)),
        service: Arc::new(services.clone()),
        shell: Box::new(move || {
            let mut shell = std::process::Command::new(std::env::var_os("SHELL").unwrap_or("sh".into()));
            shell.current_dir(&root);
            shell
        }),
        history: Some(history),
        form,
        prices,
        resume_command: "sysop chat --resume ".to_owned(),
        leaving: chat::ExitBehavior::StopTurn,
    };
    let exit = chat::run(context).await;
    services.close().await;
    exit
}

pub(crate) fn chat_form(settings: &Settings, plain: bool) -> chat::ReplLayout {
    chat::ReplLayout::choose(TerminalTraits {
        plain,
        no_color: settings.color == ColorMode::Off,
        term: settings.environment.value("TERM").unwrap_or_default(),
        terminal: io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal(),
    })
}

/// Runs one task non-interactively.
pub(crate) async fn exec(settings: Settings, pick: ModelChoice, arguments: ExecArguments) -> Result<Exit> {
    if let Some(bounds) = &arguments.bounds {
        check_bounds(bounds, &settings, &pick.model)?;
    }
    let input = exec_input::read(&settings, &pick.model, &arguments)?;
    let run = HeadlessRun {
        image_files: arguments.images.absolute_paths(),
        schema: input.schema,
        json: arguments.json,
        bounds: arguments.bounds,
        ..HeadlessRun::of(ExecTask::Prompt(input.task))
    };
    headless(settings, pick.model, run).await
}

/// Runs a routine's command, in which the variables have already been filled in. No model is called.
pub(crate) async fn routine(settings: Settings, name: &str, command: String) -> Result<Exit> {
    let asked_for = settings.model.as_ref().map(|configured| configured.value.clone());
    let model = asked_for.unwrap_or_else(|| ModelRef::new(DEMO, DEMO));
    headless(settings, model, HeadlessRun::of_routine(name, ExecTask::Routine(command))).await
}

/// Runs the steps of a routine. No model is called. `others` are the hosts of its steps besides the run's.
pub(crate) async fn runbook(
    settings: Settings,
    name: &str,
    sequence: Box<dyn CommandSequence>,
    others: Vec<HostChoice>,
) -> Result<Exit> {
    for host in &others {
        crate::known_host::check_host(&settings, host).await?;
    }
    let asked_for = settings.model.as_ref().map(|configured| configured.value.clone());
    let model = asked_for.unwrap_or_else(|| ModelRef::new(DEMO, DEMO));
    headless(settings, model, HeadlessRun::of_routine(name, ExecTask::Sequence(sequence))).await
}

/// Checks that the bounds of `auto` can be enforced.
fn check_bounds(bounds: &AutoBounds, settings: &Settings, model: &ModelRef) -> Result<(), CommandError> {
    let mode = settings.config.entry("approve");
    let flag = mode.filter(|entry| matches!(entry.origin(), ConfigOrigin::Flag { .. }));
    let host = &settings.host;
    let why = if flag.is_some_and(|entry| entry.value.to_string() != "\"auto\"") {
        "--bounds applies to auto mode; omit --approve".to_owned()
    } else if settings.approve(host) == ApprovalMode::Never {
        format!("the approval mode of {host} is never, so it cannot be auto; omit --bounds")
    } else if bounds.excludes(&host.to_string(), &settings.policy_options(host).tags) {
        match bounds.foreign_host(&host.to_string()) {
            Some(word) => {
                format!("`{word}` is neither a bound nor a host of this task ({host}); {ACCEPTED_BOUNDS}")
            }
            None => format!("{host} is not in these bounds; change --bounds or --host"),
        }
    } else if bounds.cost.is_some()
        && !settings.prices.contains_key(&model.to_string())
        && model_table::price(model).is_none()
    {
        format!(
            "the price of {model} is unknown, so its cost cannot be bounded; set [prices.\"{model}\"] input and output"
        )
    } else {
        return Ok(());
    };
    Err(CommandError::usage(why))
}

/// Undoes a tool call in a session. No model is called.
pub(crate) async fn undo(mut settings: Settings, arguments: UndoArguments) -> Result<Exit> {
    settings.model = None; // the session keeps its own
    let task = ExecTask::Undo { step: arguments.step, plan_only: arguments.plan };
    let answer = arguments.yes.then(exec::allow_all);
    headless(settings, ModelRef::new(DEMO, DEMO), HeadlessRun { answer, ..HeadlessRun::of(task) }).await
}

/// A task that runs without a screen, with its options.
struct HeadlessRun {
    task: ExecTask,
    image_files: Vec<PathBuf>,
    schema: Option<AnswerSchema>,
    json: bool,
    bounds: Option<AutoBounds>,
    answer: Option<ApprovalHandler>,
    /// Title of a new session, or `None` if its prompt is its title.
    title: Option<String>,
}

impl HeadlessRun {
    fn of(task: ExecTask) -> Self {
        Self {
            task,
            image_files: Vec::new(),
            schema: None,
            json: false,
            bounds: None,
            answer: None,
            title: None,
        }
    }

    fn of_routine(name: &str, task: ExecTask) -> Self {
        Self { title: Some(format!("{name} (routine)")), ..Self::of(task) }
    }
}

async fn headless(settings: Settings, model: ModelRef, run: HeadlessRun) -> Result<Exit> {
    let HeadlessRun { task, image_files, schema, json, bounds, answer, title } = run;
    let color = settings.color == ColorMode::On;
    let asks = sysop_repl::has_keyboard() && io::stderr().is_terminal();
    let draws = !json && schema.is_none() && io::stdout().is_terminal();
    let call_output = match settings.verbosity {
        Verbosity::Quiet | Verbosity::Normal => CallOutput::Hidden,
        Verbosity::Verbose(1) => CallOutput::Excerpt,
        Verbosity::Verbose(_) => CallOutput::Whole,
    };
    let is_quiet = settings.verbosity == Verbosity::Quiet;
    let stops = exec::signals().context("cannot listen for signals")?;
    if settings.resume.is_none() {
        crate::known_host::check(&settings).await?; // a resumed session has its own host
        let refusal = settings.hosts.model_access(&settings.host).refusal(&model);
        if let (ExecTask::Prompt(_), Some(why)) = (&task, refusal) {
            return Err(CommandError::usage(why).into());
        }
    }
    let (resume_flags, budget) = (approve_flag(&settings), settings.budget);
    let services = Services::new(settings, model)?;
    let services = match title {
        Some(title) => services.with_title(title),
        None => services,
    };
    let services = match &task {
        ExecTask::Undo { step, plan_only } => {
            services.check_undo(*step).await?;
            // An undo that nobody can approve does nothing either.
            let is_plan = *plan_only || (answer.is_none() && !asks);
            if is_plan { services.without_writes() } else { services }
        }
        ExecTask::Prompt(_) | ExecTask::Routine(_) | ExecTask::Sequence(_) => services,
    };
    let opened = services.open().await?;
    let chosen_title = services.chosen_title(opened.session.id()).await?;
    if let Some(bounds) = bounds {
        let change = ConfigChange::Auto(bounds);
        opened.session.send(Input::Configure { change }).map_err(CommandError::failed)?;
    }
    let images = attach_images(&services, opened.session.id(), &image_files).await?;
    let form = if json { ExecFormat::Json } else { ExecFormat::Human };
    let context = ExecContext {
        opened,
        chosen_title,
        task,
        images,
        schema,
        form,
        out: Box::new(io::stdout()),
        terminal: draws.then(|| RenderOptions { width: sysop_repl::terminal_width(), color }),
        err: Box::new(io::stderr()),
        call_output,
        is_quiet,
        ask: answer.or_else(|| asks.then(|| exec::ask_on_terminal(color))),
        confirm: asks.then(|| exec::confirm_on_terminal(color)),
        ask_for_program: asks.then(|| exec::ask_for_programs_on_terminal(color)),
        service: Some(Arc::new(services.clone())),
        resume_flags,
        budget,
        hides_keys: asks,
        stops,
    };
    let exit = exec::run(context).await;
    services.close().await;
    Ok(exit)
}

async fn attach_images(services: &Services, session: &SessionId, files: &[PathBuf]) -> Result<Vec<ImageRef>> {
    if files.len() > PROMPT_IMAGES_MAX {
        return Err(
            CommandError::usage(format!("at most {PROMPT_IMAGES_MAX} --image options are allowed")).into()
        );
    }
    let mut images = Vec::new();
    for path in files {
        let attached = services.attach_image(session, path).await.map_err(CommandError::usage)?;
        let missing =
            || CommandError::usage(format!("no file {}; check the path after --image", path.display()));
        images.push(attached.ok_or_else(missing)?);
    }
    Ok(images)
}

/// Returns the flag `--approve MODE` with a space behind it, for a command that continues a run. Empty without the
/// flag.
pub(crate) fn approve_flag(settings: &Settings) -> String {
    let entry = settings.config.entry("approve");
    let flag = entry.filter(|entry| matches!(entry.origin(), ConfigOrigin::Flag { .. }));
    let mode = flag.and_then(|_| settings.config.get::<String>("approve"));
    mode.map(|mode| format!("--approve {mode} ")).unwrap_or_default()
}

/// Returns the hosts that the flag names, or `None` without the flag.
fn named_hosts(settings: &Settings) -> Option<String> {
    let entry = settings.config.entry("connection.host")?;
    matches!(entry.origin(), ConfigOrigin::Flag { .. }).then(|| settings.host.to_string())
}

/// Lists, shows, exports and deletes sessions.
pub(crate) async fn sessions(settings: Settings, command: SessionsCommand) -> Result<Exit> {
    let storage = Storage::open(&settings).await?;
    let store = storage.store();
    let store = store.as_ref();
    let width = io::stdout().is_terminal().then(sysop_repl::terminal_width);
    let view =
        DisplayOptions { now: sysop_driver::system_clock().now(), zone: jiff::tz::TimeZone::system(), width };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let named = async |id: Option<String>| match id {
        Some(id) => Ok(id),
        None => sessions::most_recent(store).await.map(|id| id.to_string()),
    };
    let run = async {
        match command {
            SessionsCommand::List { limit, all } => {
                let rows = sessions::ListRows::of_flags(limit, all);
                let hosts = named_hosts(&settings);
                sessions::list(store, rows, hosts.as_deref(), &view, &mut out, &mut io::stderr()).await
            }
            SessionsCommand::Show { id } => sessions::show(store, &named(id).await?, &view, &mut out).await,
            SessionsCommand::Export { id, format } => {
                sessions::export(store, &named(id).await?, format, &view, &mut out).await
            }
            SessionsCommand::Report { id, format } => {
                let artifacts = artifacts(&settings.folders.data);
                sessions::write_report(store, &named(id).await?, format, &artifacts, &view, &mut out).await
            }
            SessionsCommand::Delete { id } => {
                let delete_session =
                    async |id: &SessionId| delete_session(store, &storage, &settings, id).await;
                sessions::delete(store, &id, delete_session, &mut out).await
            }
        }
    };
    let done = run.await.and_then(|()| out.flush().map_err(SessionsError::Io));
    storage.close().await;
    match done {
        Ok(()) => Ok(Exit::Done),
        Err(SessionsError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(error) if error.exit_code() == Exit::Usage.code() => {
            Err(CommandError::usage(error.to_string()).into())
        }
        Err(error) => Err(CommandError::failed(error.to_string()).into()),
    }
}

/// Manages a server's access tokens.
pub(crate) async fn token(settings: Settings, maker: &TokenMaker, command: TokenCommand) -> Result<Exit> {
    let storage = Storage::open(&settings).await?;
    let store = storage.tokens();
    let clock = sysop_driver::system_clock();
    let (out, err) = (&mut crate::StandardOutput, &mut io::stderr());
    let done = crate::token::run(store.as_ref(), clock.as_ref(), maker, command, out, err).await;
    storage.close().await;
    done
}

/// Runs the scripted model server.
pub(crate) async fn mock_llm(arguments: MockLlmArguments) -> Result<Exit> {
    let scenarios = match &arguments.scenarios {
        Some(file) => Scenarios::load(file).map_err(|error| CommandError::usage(error.to_string()))?,
        None => Scenarios::builtin(),
    };
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", arguments.port)).await;
    let listener = listener.map_err(|error| {
        CommandError::failed(format!(
            "cannot listen on port {} ({error}); choose another one with --port",
            arguments.port
        ))
    })?;
    let address = listener.local_addr().context("the socket has an address")?;
    let line = format!(
        "Mock model server listening on http://{address} (OpenAI: http://{address}/v1). Press Ctrl+C to stop.\n"
    );
    crate::emit(line.as_bytes())?;
    tokio::select! {
        served = sysop_mock_llm::serve(listener, scenarios) => served.context("the server stopped")?,
        stopped = tokio::signal::ctrl_c() => stopped.context("cannot listen for Ctrl+C")?,
    }
    Ok(Exit::Done)
}

/// Asks a model how it calls tools best, prints the result and remembers it. Fails if the model does not answer.
pub(crate) async fn probe_model(settings: Arc<Settings>, model: ModelRef) -> Result<Exit> {
    let machines = Machines::new(Arc::clone(&settings));
    let mut access = providers(&settings, machines.remote_machine(&settings.host));
    access.local = Some(ServersOfMachine::shared(&settings));
    crate::tell(&format!("asking {} up to ten short questions", neutralize_line(&model.to_string())));
    let report = Providers::new(access).probe_model(&model).await;
    machines.close().await;
    let report = report.map_err(CommandError::failed)?;
    let server =
        if report.server.is_empty() { String::new() } else { format!("\nserver: {}", report.server) };
    let text = format!("{model}: {report}{server}\n");
    crate::emit(neutralize(&text).as_bytes())
}

/// Doctor probe that checks the database, the providers and the hosts through the services that a task would use.
pub(crate) struct LiveDoctorProbe {
    machines: Machines,
    providers: Providers,
}

impl LiveDoctorProbe {
    /// Creates the probe without connecting.
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        let machines = Machines::new(Arc::clone(&settings));
        let providers = Providers::new(providers(&settings, machines.remote_machine(&settings.host)));
        Self { machines, providers }
    }
}

#[async_trait]
impl DoctorProbe for LiveDoctorProbe {
    async fn database(&self, data: &Path) -> Result<String, String> {
        let path = database(data);
        let shown = crate::config::display_path(&path);
        if !path.exists() {
            return Ok(format!("{shown} (not created yet)"));
        }
        let store = sysop_store::SqliteStore::open(&path).map_err(|error| error.to_string())?;
        let count = store.list(sessions::SESSIONS_MAX).await.map_err(|error| error.to_string())?.len();
        store.close().await;
        Ok(format!("{shown}, {}", counted(u64::try_from(count).unwrap_or(u64::MAX), "session")))
    }

    async fn models(&self, provider: &str, _settings: &ProviderSettings) -> Result<Vec<String>, String> {
        let probe = self.providers.probe(provider).await;
        match probe.problem {
            Some(problem) => Err(problem.message),
            None => Ok(probe.models),
        }
    }

    async fn host(&self, target: &SshTarget) -> Result<String, String> {
        let connection = self.machines.connection(target).map_err(|failure| failure.to_string())?;
        let facts = connection.machine_info().await.map_err(|error| error.to_string())?;
        let commands = if facts.bash.is_some() { "bash" } else { "sh" };
        Ok(format!("{} {}, user {}, shell {commands}", facts.system, facts.architecture, facts.user))
    }
}
