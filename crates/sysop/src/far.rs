//! `sysop connect` and `sysop attach`: faces on sessions that live on a server.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use secrecy::SecretString;
use sysop_client::lend::{LendSettings, Lending};
use sysop_client::{ClientError, RemoteDesk, Server, Wish};
use sysop_core::catalogue::Profile;
use sysop_driver::face::{Desk, Opened, Which};
use sysop_tui::TuiContext;

use crate::chat::{self, ChatContext, Leaving};
use crate::cli::{AttachArguments, ConnectArguments, GlobalFlags, Resume};
use crate::commands::{HISTORY, chat_form};
use crate::exit::{Exit, Failure};
use crate::settings::{HostChoice, Settings};
use crate::tui;
use crate::wiring::Machines;

/// The folder of the ledgers of lent calls, in the data folder.
const LEDGERS: &str = "lent";
/// Names the token for servers.
const TOKEN: &str = "SYSOP_TOKEN";

/// A session on a server whose tools run here.
pub(crate) async fn connect(
    settings: Settings,
    flags: &GlobalFlags,
    arguments: ConnectArguments,
) -> Result<Exit> {
    let settings = Arc::new(settings);
    if !matches!(settings.host, HostChoice::Local) {
        let why = "connect lends the tools of this machine; leave out --host, or run sysop on that machine";
        return Err(Failure::usage(why).into());
    }
    let server = server(&settings, &arguments.url)?;
    let again = format!("sysop connect {} --resume ", server.shown());
    let lending = lending(&settings, flags, &arguments)?;
    let wish = Wish {
        model: flags.model.clone(),
        approve: Some(settings.approve(&HostChoice::Local)),
        ..Wish::default()
    };
    let desk = Arc::new(RemoteDesk::connect(server, wish, Some(Arc::new(lending))).await.map_err(failure)?);
    let which = match &settings.resume {
        None => Which::New,
        Some(Resume::Latest) => Which::Earlier(String::new()),
        Some(Resume::Session(id)) => Which::Earlier(id.as_str().to_owned()),
    };
    let face = Face { task: arguments.task, plain: arguments.plain, again, leaving: Leaving::StopsIt };
    converse(&settings, desk, which, face).await
}

/// A face on a session that lives on a server.
pub(crate) async fn attach(
    settings: Settings,
    flags: &GlobalFlags,
    arguments: AttachArguments,
) -> Result<Exit> {
    let server = server(&settings, &arguments.url)?;
    let again = format!("sysop attach {} ", server.shown());
    let asked_for = arguments.session.or_else(|| match &settings.resume {
        Some(Resume::Session(id)) => Some(id.as_str().to_owned()),
        Some(Resume::Latest) | None => None,
    });
    let wish = Wish { model: flags.model.clone(), approve: flags.approve.map(Into::into), ..Wish::default() };
    let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let term = settings.environment.value("TERM").unwrap_or_default();
    if arguments.plain || arguments.chat || !terminal || matches!(term, "" | "dumb") {
        let desk = Arc::new(RemoteDesk::connect(server, wish, None).await.map_err(failure)?);
        let which = which(&desk, asked_for).await.map_err(failure)?;
        let face = Face { task: None, plain: arguments.plain, again, leaving: Leaving::LetsItRun };
        return converse(&settings, desk, which, face).await;
    }
    let opened: Arc<Mutex<Option<Arc<RemoteDesk>>>> = Arc::default();
    let kept = Arc::clone(&opened);
    let open = Box::pin(async move {
        let from_client = |error| tui::from_anyhow(failure(error).into());
        let desk = Arc::new(RemoteDesk::connect(server, wish, None).await.map_err(from_client)?);
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&desk));
        let which = which(&desk, asked_for).await.map_err(from_client)?;
        let session = desk.open_session(which).await.map_err(from_client)?;
        Ok((desk as Arc<dyn Desk>, session))
    });
    let context = tui::context(&settings, None);
    // The session lives on the server: it goes on without this face.
    let leaving = sysop_tui::Leaving::GoesOn;
    let ended = sysop_tui::run(TuiContext { open, leaving, ..context }).await;
    let desk = opened.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(desk) = desk {
        desk.close().await;
    }
    tui::leave(ended, &again)
}

/// The session that was asked for; without one the latest, or a new one where there is none.
async fn which(desk: &RemoteDesk, asked_for: Option<String>) -> Result<Which, ClientError> {
    if let Some(id) = asked_for {
        return Ok(Which::Earlier(id));
    }
    Ok(desk.latest().await?.map_or(Which::New, |id| Which::Earlier(id.as_str().to_owned())))
}

fn server(settings: &Settings, url: &str) -> Result<Server, Failure> {
    let token = settings.environment.value(TOKEN).filter(|token| !token.is_empty());
    let server = Server::parse(url, token.map(SecretString::from)).map_err(failure)?;
    if server.is_plain() {
        let shown = server.shown();
        crate::tell(&format!(
            "sysop: warning: {shown} is reached without TLS: whoever is on the way reads the token and all that is said"
        ));
    }
    Ok(server)
}

fn lending(settings: &Arc<Settings>, flags: &GlobalFlags, arguments: &ConnectArguments) -> Result<Lending> {
    let profile = flags.profile.map_or(Profile::Workspace, Profile::from);
    let machines = Machines::new(Arc::clone(settings));
    let host = machines.lent(
        settings.root.clone(),
        profile,
        arguments.allow_delete,
        arguments.max_file_size.unwrap_or(sysop_host::FILE_BYTES_MAX),
    )?;
    let tools = (!arguments.tools.is_empty()).then(|| arguments.tools.clone());
    let lending = Lending::new(LendSettings {
        host,
        root: settings.root.display().to_string(),
        tools,
        approve: settings.approve(&HostChoice::Local),
        dangerous: settings.dangerous_patterns.clone(),
        deny: settings.deny.clone(),
        ledgers: settings.folders.data.join(LEDGERS),
    });
    Ok(lending.map_err(failure)?)
}

/// How a conversation is held.
struct Face {
    task: Option<String>,
    plain: bool,
    again: String,
    leaving: Leaving,
}

async fn converse(settings: &Settings, desk: Arc<RemoteDesk>, which: Which, face: Face) -> Result<Exit> {
    let opened: Opened = desk.open_session(which).await.map_err(failure)?;
    let form = chat_form(settings, face.plain);
    let root = settings.root.clone();
    let context = ChatContext {
        opened,
        task: face.task,
        desk: Arc::clone(&desk) as Arc<dyn Desk>,
        shell: Box::new(move || {
            let mut shell = std::process::Command::new(std::env::var_os("SHELL").unwrap_or("sh".into()));
            shell.current_dir(&root);
            shell
        }),
        history: Some(settings.folders.data.join(HISTORY)),
        form,
        again: face.again,
        leaving: face.leaving,
    };
    let exit = chat::run(context).await;
    desk.close().await;
    exit
}

fn failure(error: ClientError) -> Failure {
    let message = error.to_string();
    match error {
        ClientError::Address(_)
        | ClientError::NoToken
        | ClientError::Refused(_)
        | ClientError::Unknown(_) => Failure::usage(message),
        ClientError::Unreachable(_) | ClientError::Failed(_) | ClientError::Ledger(_) => {
            Failure::failed(message)
        }
    }
}
