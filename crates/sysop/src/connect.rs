//! `sysop connect` and `sysop attach`: front ends for sessions on a server.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use secrecy::SecretString;
use sysop_client::client_tools::{LocalTools, LocalToolsSettings};
use sysop_client::{ClientError, NewSessionOptions, RemoteSessionService, ServerAddress, UndeliveredPrompt};
use sysop_core::catalog::Profile;
use sysop_core::text::neutralize_line;
use sysop_driver::frontend::{AttachedSession, SessionSelector, SessionService};
use sysop_repl::chat::{self, ExitBehavior, ReplContext};
use sysop_tui::TuiContext;

use crate::app::Machines;
use crate::cli::{AttachArguments, ConnectArguments, task_text};
use crate::commands::{HISTORY, chat_form};
use crate::exit::{CommandError, Exit};
use crate::global_flags::{GlobalFlags, ResumeTarget};
use crate::settings::{HostChoice, Settings};
use crate::tui;

/// Name of the directory, in the data directory, for records of calls that this machine has run for servers.
const LEDGERS: &str = "lent";
/// Environment variable that holds a server's access token.
const TOKEN: &str = "SYSOP_TOKEN";

/// Runs a session on a server with this machine's tools.
pub(crate) async fn connect(
    settings: Settings,
    flags: &GlobalFlags,
    arguments: ConnectArguments,
) -> Result<Exit> {
    let settings = Arc::new(settings);
    if !matches!(settings.host, HostChoice::Local) {
        let why = "`sysop connect` runs tools on this machine only; omit --host, or run sysop on that host";
        return Err(CommandError::usage(why).into());
    }
    let server = server(&settings, &arguments.url)?;
    let resume_command = format!("sysop connect {} --resume ", server.display_url());
    let local_tools = local_tools(&settings, flags, &arguments)?;
    let options = NewSessionOptions {
        model: flags.model_on_server().map_err(|error| CommandError::usage(error.to_string()))?,
        approve: Some(settings.approve(&HostChoice::Local)),
        own_name: chat::BY.to_owned(),
        ..NewSessionOptions::default()
    };
    let home = settings.folders.home.clone();
    let connecting = RemoteSessionService::connect(server, options, Some(Arc::new(local_tools)), home);
    let service = Arc::new(connecting.await.map_err(failure)?);
    let which = match &settings.resume {
        None => SessionSelector::New,
        Some(ResumeTarget::Latest | ResumeTarget::LatestWithUndo) => SessionSelector::Existing(String::new()),
        Some(ResumeTarget::Session(id)) => SessionSelector::Existing(id.as_str().to_owned()),
    };
    let face = ConversationOptions {
        task: task_text(&arguments.task),
        plain: arguments.plain,
        resume_command,
        leaving: ExitBehavior::StopTurn,
    };
    let opened = service.open_session(which).await.map_err(failure)?;
    converse(&settings, service, opened, face).await
}

/// Opens a front end for a session on a server.
pub(crate) async fn attach(
    settings: Settings,
    flags: &GlobalFlags,
    arguments: AttachArguments,
) -> Result<Exit> {
    let server = server(&settings, &arguments.url)?;
    let resume_command = format!("sysop attach {} ", server.display_url());
    let asked_for = arguments.session.or_else(|| match &settings.resume {
        Some(ResumeTarget::Session(id)) => Some(id.as_str().to_owned()),
        Some(ResumeTarget::Latest | ResumeTarget::LatestWithUndo) | None => None,
    });
    let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let term = settings.environment.value("TERM").unwrap_or_default();
    let is_chat = arguments.plain || arguments.chat || !terminal || matches!(term, "" | "dumb");
    let options = NewSessionOptions {
        model: flags.model_on_server().map_err(|error| CommandError::usage(error.to_string()))?,
        approve: flags.approve,
        own_name: if is_chat { chat::BY } else { sysop_tui::BY }.to_owned(),
        ..NewSessionOptions::default()
    };
    let connecting = RemoteSessionService::connect(server, options, None, settings.folders.home.clone());
    if is_chat {
        let service = Arc::new(connecting.await.map_err(failure)?);
        let opened = open_session(&service, asked_for).await.map_err(failure)?;
        let face = ConversationOptions {
            task: None,
            plain: arguments.plain,
            resume_command,
            leaving: ExitBehavior::KeepRunning,
        };
        return converse(&settings, service, opened, face).await;
    }
    let opened: Arc<Mutex<Option<Arc<RemoteSessionService>>>> = Arc::default();
    let kept = Arc::clone(&opened);
    let open = Box::pin(async move {
        let from_client = |error| tui::from_anyhow(failure(error).into());
        let service = Arc::new(connecting.await.map_err(from_client)?);
        *kept.lock() = Some(Arc::clone(&service));
        let session = open_session(&service, asked_for).await.map_err(from_client)?;
        Ok((service as Arc<dyn SessionService>, session))
    });
    let context = tui::context(&settings, None);
    // The session continues on the server without this front end.
    let leaving = sysop_tui::RunningTurnPolicy::Continue;
    let ended = sysop_tui::run(TuiContext { open, leaving, ..context }).await;
    let service = opened.lock().take();
    if let Some(service) = service {
        close(&service).await;
    }
    tui::leave(ended, &resume_command)
}

/// Opens the requested session, or without a request, the latest one that can be opened or a new one.
async fn open_session(
    service: &RemoteSessionService,
    asked_for: Option<String>,
) -> Result<AttachedSession, ClientError> {
    match asked_for {
        Some(id) => service.open_session(SessionSelector::Existing(id)).await,
        None => service.open_latest().await,
    }
}

/// Closes the connections, and lists the prompts that the server did not confirm.
async fn close(service: &RemoteSessionService) {
    for prompt in service.close().await {
        crate::tell(&undelivered_line(&prompt));
    }
}

fn undelivered_line(prompt: &UndeliveredPrompt) -> String {
    let what = if prompt.may_have_arrived { "may not have arrived" } else { "not sent" };
    format!("{what}: {}", neutralize_line(&prompt.text))
}

fn server(settings: &Settings, url: &str) -> Result<ServerAddress, CommandError> {
    let token = settings.environment.value(TOKEN).filter(|token| !token.is_empty());
    let server = ServerAddress::parse(url, token.map(SecretString::from)).map_err(|error| {
        if !matches!(error, ClientError::NoToken) || url.contains([':', '.', '/']) {
            return failure(error);
        }
        CommandError::usage(format!(
            "{url:?} is not the URL of a server; use the URL that `sysop serve` printed, such as \
             http://127.0.0.1:8765/?token=…"
        ))
    })?;
    if server.is_plain() {
        let shown = server.display_url();
        crate::tell(&format!(
            "warning: {shown} does not use TLS; the token and the session can be read on the network"
        ));
    }
    Ok(server)
}

fn local_tools(
    settings: &Arc<Settings>,
    flags: &GlobalFlags,
    arguments: &ConnectArguments,
) -> Result<LocalTools> {
    let profile = flags.profile.unwrap_or(Profile::Workspace);
    let machines = Machines::new(Arc::clone(settings));
    let host = machines.client_tools_host(
        settings.root.clone(),
        profile,
        arguments.allow_delete,
        arguments.max_file_size.unwrap_or(sysop_host::FILE_BYTES_MAX),
    )?;
    let tools = (!arguments.tools.is_empty()).then(|| arguments.tools.clone());
    let local_tools = LocalTools::new(LocalToolsSettings {
        host,
        root: settings.root.display().to_string(),
        tools,
        approve: settings.approve(&HostChoice::Local),
        dangerous: settings.dangerous_patterns.clone(),
        deny: settings.deny.clone(),
        policy: settings.policy_options(&HostChoice::Local),
        ledgers: settings.folders.data.join(LEDGERS),
    });
    let local_tools = local_tools.map_err(failure)?;
    Ok(match settings.limits.tool_timeout {
        Some(limit) => local_tools.with_time_limit(limit.as_secs()),
        None => local_tools,
    })
}

/// Settings of the line REPL for `sysop connect` and `sysop attach`.
struct ConversationOptions {
    task: Option<String>,
    plain: bool,
    resume_command: String,
    leaving: ExitBehavior,
}

async fn converse(
    settings: &Settings,
    service: Arc<RemoteSessionService>,
    opened: AttachedSession,
    face: ConversationOptions,
) -> Result<Exit> {
    let form = chat_form(settings, face.plain);
    let root = settings.root.clone();
    let context = ReplContext {
        opened,
        task: face.task,
        service: Arc::clone(&service) as Arc<dyn SessionService>,
        shell: Box::new(move || {
            let mut shell = std::process::Command::new(std::env::var_os("SHELL").unwrap_or("sh".into()));
            shell.current_dir(&root);
            shell
        }),
        history: Some(settings.folders.data.join(HISTORY)),
        form,
        prices: settings.prices.clone(),
        resume_command: face.resume_command,
        leaving: face.leaving,
    };
    let exit = chat::run(context).await;
    close(&service).await;
    exit
}

fn failure(error: ClientError) -> CommandError {
    let message = error.to_string();
    match error {
        ClientError::Address(_)
        | ClientError::NoToken
        | ClientError::Refused(_)
        | ClientError::Unknown(_)
        | ClientError::Invalid(_) => CommandError::usage(message),
        ClientError::Busy(_)
        | ClientError::Unreachable(_)
        | ClientError::Failed(_)
        | ClientError::Ledger(_) => CommandError::failed(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_may_have_arrived_is_not_called_unsent() {
        let line = |may_have_arrived| {
            undelivered_line(&UndeliveredPrompt { text: "restart\nit".to_owned(), may_have_arrived })
        };
        assert_eq!(line(false), format!("not sent: {}", neutralize_line("restart\nit")));
        assert_eq!(line(true), format!("may not have arrived: {}", neutralize_line("restart\nit")));
    }
}
