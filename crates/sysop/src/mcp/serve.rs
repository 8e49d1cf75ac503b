//! `sysop mcp serve`: offers the hosts as tools of an MCP server on standard input and output.
//!
//! With `--attachable`, a server on a free local port lets `sysop attach` join the sessions, as with `sysop
//! serve`. Its URL and token file are printed to standard error, which the calling agent does not read.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use sysop_core::message::ModelRef;
use sysop_core::model_provider::DEMO;
use sysop_driver::frontend::{SessionSelector, SessionService};
use sysop_driver::port::{Annotation, Store, StoreError};
use sysop_driver::system_clock;
use sysop_driver::tokens::TokenId;
use sysop_mcp_server::McpServerSettings;
use sysop_repl::exec::{self, StopSignal};
use sysop_server::auth::Tokens;
use sysop_server::{Server, ServerSettings};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::{LocalSessions, Services, Storage};
use crate::config::display_path;
use crate::exit::{CommandError, Exit};
use crate::origin;
use crate::select_model::{self, OllamaServer};
use crate::serve_options::ServeOptions;
use crate::settings::Settings;
use crate::token_file::TokenFile;

/// Part of the reply if nobody could approve a call.
const HINT: &str = "This client cannot ask its user, and nobody is attached. Tell the user: start `sysop mcp serve` with \
     `--attachable` and join with the `sysop attach` command that it prints to standard error, or run the command \
     yourself";

/// Part of the reply to a call that would make a change in the default mode.
const READ_ONLY_HINT: &str = "Tell the user: to be asked to approve changes, start `sysop mcp serve` with `--approve \
                              ask`, or run \
     the command yourself";

/// Reason that `sysop attach` gets at exit.
const ENDED: &str = "`sysop mcp serve` ended; `sysop sessions list` shows its sessions";

/// Maximum time to wait at exit before the token is revoked. Some clients kill a server that ends too slowly.
const FAREWELL_MAX: Duration = Duration::from_secs(1);
/// Maximum time to wait after that for the server to close its connections.
const CLOSE_MAX: Duration = Duration::from_secs(5);

pub(super) async fn run(settings: Settings, attachable: bool) -> Result<Exit> {
    settings.require_runnable()?;
    let mut stops = exec::signals().context("cannot listen for signals")?;
    crate::known_host::check(&settings).await?;
    let model = select_model::select_model(&settings, &OllamaServer::new(&settings)).ok();
    let has_model = model.is_some();
    let model = model.map_or_else(|| ModelRef::new(DEMO, DEMO), |choice| choice.model);
    let storage = Storage::open(&settings).await?;
    let services = Services::on(storage.clone(), settings, model);
    let attach = match attachable {
        true => Some(AttachServer::start(&services, &storage).await?),
        false => None,
    };
    let mcp = mcp_settings(&services, storage.store(), attach.as_ref(), has_model);
    let serving = sysop_mcp_server::serve(mcp, tokio::io::stdin(), tokio::io::stdout());
    // Some clients end servers by a signal instead of the end of input.
    let served = tokio::select! {
        served = serving => served.map(|()| None),
        stopped = stops.recv() => Ok(stopped),
    };
    if let Some(attach) = attach {
        attach.close().await;
    }
    services.close().await;
    let stopped = served.map_err(CommandError::failed)?;
    Ok(stopped.map_or(Exit::Done, StopSignal::exit))
}

fn mcp_settings(
    services: &Services,
    store: Arc<dyn Store>,
    attach: Option<&AttachServer>,
    has_model: bool,
) -> McpServerSettings {
    let sessions = attach.map(|attach| Arc::clone(&attach.sessions));
    let watched = sessions.clone();
    let opening = services.clone();
    McpServerSettings {
        open: Arc::new(move |host| {
            let (services, sessions) = (opening.clone(), sessions.clone());
            Box::pin(async move {
                match sessions {
                    Some(sessions) => sessions.create_on(&host, &origin::user_name()).await,
                    None if host.is_empty() => SessionService::open(&services, SessionSelector::New).await,
                    None => {
                        let selector = SessionSelector::NewOnHost { host, model: None, approve: None };
                        SessionService::open(&services, selector).await
                    }
                }
            })
        }),
        name_session: Arc::new(move |id, title| {
            let store = Arc::clone(&store);
            Box::pin(async move {
                let annotation = Annotation { title: Some(title), ..Annotation::default() };
                // If this fails, the session is listed without a title.
                let _ = store.annotate(&id, &annotation).await;
            })
        }),
        hosts: SessionService::hosts(services),
        has_model,
        is_watched: Arc::new(move |id| watched.as_ref().is_some_and(|sessions| sessions.is_watched(id))),
        hint: HINT.to_owned(),
        read_only_hint: READ_ONLY_HINT.to_owned(),
    }
}

/// Server to which `sysop attach` connects.
struct AttachServer {
    sessions: Arc<LocalSessions>,
    stop: CancellationToken,
    running: JoinHandle<()>,
    tokens: Arc<Tokens>,
    token_id: TokenId,
    _token_file: TokenFile,
}

/// The access options of `sysop serve` with their defaults.
#[derive(Parser)]
struct AccessDefaults {
    #[command(flatten)]
    exposure: ServeOptions,
}

impl AttachServer {
    async fn start(services: &Services, storage: &Storage) -> Result<Self> {
        let AccessDefaults { exposure } = AccessDefaults::parse_from(["sysop"]);
        let (listener, _) = exposure.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None).await?;
        let address = listener.local_addr().context("the socket has an address")?;
        let failed = |error: StoreError| CommandError::failed(error.to_string());
        let tokens = Arc::new(Tokens::open(storage.tokens(), system_clock()).await.map_err(failed)?);
        let (token, token_id) = tokens.of_process(&origin::user_name()).await.map_err(failed)?;
        let settings = services.settings();
        let audited = exposure.audited_store(storage.store(), system_clock(), settings, None).await?;
        let sessions = Arc::new(LocalSessions::new(services.clone(), Arc::new(audited), None));
        let token_auth = exposure.token_auth(address, Arc::clone(&tokens));
        let server_settings = ServerSettings {
            notice: Duration::ZERO,
            final_message: Some(ENDED.to_owned()),
            ..ServerSettings::default()
        };
        let server = Server::new(Arc::clone(&sessions) as Arc<_>, Arc::new(token_auth), server_settings);
        let path = TokenFile::usual_path(&settings.folders.data, address);
        let token_file = TokenFile::write(path, token, None)?;
        let page = exposure.page(address);
        let shown = display_path(token_file.path());
        crate::tell(&format!("to watch and approve: SYSOP_TOKEN=$(cat {shown}) sysop attach {page}"));
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let running = tokio::spawn(async move { server.serve(listener, stopping).await });
        Ok(Self { sessions, stop, running, tokens, token_id, _token_file: token_file })
    }

    async fn close(mut self) {
        self.stop.cancel();
        // A client must read why its connection ends before its token stops working.
        let ended = tokio::time::timeout(FAREWELL_MAX, &mut self.running).await;
        // If this fails, the token is left behind until it expires.
        if let Err(error) = self.tokens.revoke(&self.token_id).await {
            tracing::warn!(%error, "cannot revoke the token for `sysop attach`");
        }
        if ended.is_err() {
            // Connections that are not closed in time are closed when the process exits.
            let _ = tokio::time::timeout(CLOSE_MAX, self.running).await;
        }
    }
}
