//! The one place where commands meet the parts of the program that carry them out.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use sysop_core::event::Update;
use sysop_core::id::SessionId;
use sysop_core::message::ModelRef;
use sysop_driver::port::Store;
use sysop_mock_llm::Scenarios;
use sysop_provider::Providers;
use sysop_wire::Encoder;

use crate::chat::{self, ChatContext, Surroundings};
use crate::cli::{ChatArguments, ExecArguments, MockLlmArguments, SessionsCommand, TokenCommand};
use crate::demo::DEMO;
use crate::doctor::Probe;
use crate::exec::{self, ExecContext, JsonMessages, Task};
use crate::exit::{Exit, Failure};
use crate::pick::Pick;
use crate::render::Look;
use crate::sessions::{self, SessionsError, View};
use crate::settings::{Colour, ProviderSettings, Settings, Target};
use crate::wiring::{Kept, Machines, Parts, database, forget, providers};

/// The file of typed lines, in the data folder.
pub(crate) const HISTORY: &str = "history";

/// A conversation, line by line.
pub(crate) async fn chat(settings: Settings, pick: Pick, arguments: ChatArguments) -> Result<Exit> {
    let form = chat_form(&settings, arguments.plain);
    let history = settings.folders.data.join(HISTORY);
    let root = settings.root.clone();
    let parts = Parts::new(settings, pick.model)?;
    let opened = parts.open().await?;
    let context = ChatContext {
        opened,
        task: arguments.task,
        desk: Arc::new(parts.clone()),
        shell: Box::new(move || {
            let mut shell = std::process::Command::new(std::env::var_os("SHELL").unwrap_or("sh".into()));
            shell.current_dir(&root);
            shell
        }),
        history: Some(history),
        form,
        again: "sysop chat --resume ".to_owned(),
        leaving: chat::Leaving::StopsIt,
    };
    let exit = chat::run(context).await;
    parts.close().await;
    exit
}

/// How a conversation looks, line by line.
pub(crate) fn chat_form(settings: &Settings, plain: bool) -> chat::Form {
    chat::Form::choose(Surroundings {
        plain,
        no_colour: settings.colour == Colour::Off,
        term: settings.environment.value("TERM").unwrap_or_default(),
        terminal: io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal(),
    })
}

/// One task without a screen.
pub(crate) async fn exec(settings: Settings, pick: Pick, arguments: ExecArguments) -> Result<Exit> {
    let task = exec::task_text(&arguments.task, io::stdin())
        .map_err(|bad| Failure { exit: bad.exit, message: bad.why })?;
    headless(settings, pick.model, Task::Prompt(task), arguments.json).await
}

/// The command of a routine, its variables filled in. No model is asked.
pub(crate) async fn routine(settings: Settings, command: String) -> Result<Exit> {
    let asked_for = settings.model.as_ref().map(|configured| configured.value.clone());
    let model = asked_for.unwrap_or_else(|| ModelRef::new(DEMO, DEMO));
    headless(settings, model, Task::Routine(command), false).await
}

async fn headless(settings: Settings, model: ModelRef, task: Task, json: bool) -> Result<Exit> {
    let colour = settings.colour == Colour::On;
    let asks = io::stdin().is_terminal() && io::stderr().is_terminal();
    let draws = !json && io::stdout().is_terminal();
    let stops = exec::signals().context("cannot listen for signals")?;
    let parts = Parts::new(settings, model)?;
    let opened = parts.open().await?;
    let form = if json {
        exec::Form::Json(Box::new(Messages(Encoder::new(opened.session.id().clone()))))
    } else {
        exec::Form::Human
    };
    let context = ExecContext {
        opened,
        task,
        form,
        out: Box::new(io::stdout()),
        terminal: draws.then(|| Look { width: crate::render::terminal_width(), colour }),
        err: Box::new(io::stderr()),
        ask: asks.then(|| exec::ask_on_terminal(colour)),
        ask_for_program: asks.then(|| exec::ask_for_programs_on_terminal(colour)),
        stops,
    };
    let exit = exec::run(context).await;
    parts.close().await;
    Ok(exit)
}

/// The messages of `--json`.
struct Messages(Encoder);

impl JsonMessages for Messages {
    fn messages(&mut self, update: &Update) -> Vec<String> {
        match update {
            Update::Logged(logged) => self.0.logged(logged).iter().map(sysop_wire::to_line).collect(),
            Update::Delta(delta) => vec![sysop_wire::to_line(&self.0.delta(delta))],
        }
    }
}

/// Earlier sessions.
pub(crate) async fn sessions(settings: Settings, command: SessionsCommand) -> Result<Exit> {
    let kept = Kept::open(&settings).await?;
    let store = kept.store();
    let store = store.as_ref();
    let width = io::stdout().is_terminal().then(crate::render::terminal_width);
    let view = View { now: sysop_driver::system_clock().now(), zone: jiff::tz::TimeZone::system(), width };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let done = match command {
        SessionsCommand::List { limit } => sessions::list(store, limit as usize, &view, &mut out).await,
        SessionsCommand::Show { id } => sessions::show(store, &id, &view, &mut out).await,
        SessionsCommand::Export { id, format } => sessions::export(store, &id, format, &view, &mut out).await,
        SessionsCommand::Delete { id } => {
            let forget = async |id: &SessionId| forget(store, &kept, &settings, id).await;
            sessions::delete(store, &id, forget, &mut out).await
        }
    };
    let done = done.and_then(|()| out.flush().map_err(SessionsError::Io));
    kept.close().await;
    match done {
        Ok(()) => Ok(Exit::Done),
        Err(SessionsError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(error) if error.exit_code() == Exit::Usage.code() => {
            Err(Failure::usage(error.to_string()).into())
        }
        Err(error) => Err(Failure::failed(error.to_string()).into()),
    }
}

/// Who may use the server.
pub(crate) async fn token(settings: Settings, command: TokenCommand) -> Result<Exit> {
    let kept = Kept::open(&settings).await?;
    let store = kept.tokens();
    let clock = sysop_driver::system_clock();
    let done =
        crate::token::run(store.as_ref(), clock.as_ref(), command, &mut io::stdout(), &mut io::stderr())
            .await;
    kept.close().await;
    done
}

/// The scripted model server.
pub(crate) async fn mock_llm(arguments: MockLlmArguments) -> Result<Exit> {
    let scenarios = match &arguments.scenarios {
        Some(file) => Scenarios::load(file).map_err(|error| Failure::usage(error.to_string()))?,
        None => Scenarios::builtin(),
    };
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", arguments.port)).await;
    let listener = listener.map_err(|error| {
        Failure::failed(format!(
            "cannot listen on port {} ({error}); choose another with --port",
            arguments.port
        ))
    })?;
    let address = listener.local_addr().context("the socket has an address")?;
    let mut out = io::stdout().lock();
    writeln!(out, "mock models on http://{address} (OpenAI: http://{address}/v1; Ctrl+C ends it)")?;
    out.flush()?;
    drop(out);
    tokio::select! {
        served = sysop_mock_llm::serve(listener, scenarios) => served.context("the server ended")?,
        stopped = tokio::signal::ctrl_c() => stopped.context("cannot listen for Ctrl+C")?,
    }
    Ok(Exit::Done)
}

/// Looks for the database, the providers and the hosts with the parts that would use them.
pub(crate) struct Reach {
    machines: Machines,
    providers: Providers,
}

impl Reach {
    /// Asks nobody yet.
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        let machines = Machines::new(Arc::clone(&settings));
        let providers = Providers::new(providers(&settings, machines.far_machine(&settings.host)));
        Self { machines, providers }
    }
}

#[async_trait]
impl Probe for Reach {
    async fn database(&self, data: &Path) -> Result<String, String> {
        let path = database(data);
        let shown = crate::config::shown(&path);
        if !path.exists() {
            return Ok(format!("{shown} will be made when it is needed"));
        }
        let store = sysop_store::SqliteStore::open(&path).map_err(|error| error.to_string())?;
        let count = store.list(sessions::SESSIONS_MAX).await.map_err(|error| error.to_string())?.len();
        store.close().await;
        Ok(format!("{shown}, {count} sessions"))
    }

    async fn models(&self, provider: &str, _settings: &ProviderSettings) -> Result<Vec<String>, String> {
        let probe = self.providers.probe(provider).await;
        match probe.problem {
            Some(problem) => Err(problem),
            None => Ok(probe.models),
        }
    }

    async fn host(&self, target: &Target) -> Result<String, String> {
        let connection = self.machines.connection(target).map_err(|failure| failure.to_string())?;
        let facts = connection.facts().await.map_err(|error| error.to_string())?;
        let commands = if facts.bash.is_some() { "bash" } else { "sh" };
        Ok(format!("{} {}, {}, commands by {commands}", facts.system, facts.architecture, facts.user))
    }
}
