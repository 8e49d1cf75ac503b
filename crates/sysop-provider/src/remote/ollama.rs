//! Chooses the transport to the Ollama of the remote machine: a tunnel if possible, else `ollama run`. The choice is
//! kept until the tunnel breaks.
//!
//! An open tunnel proves nothing: an sshd that forbids forwarding closes each connection through it silently, and so
//! does a port without a listener. So a new tunnel is asked for Ollama's version, and if nothing comes back, `ollama
//! list` on the remote machine distinguishes the two cases.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest, Reply};
use url::Url;

use crate::api::{ErrorAction, HttpRequest, ModelApi, ModelQuirks, ReplyDecoder};
use crate::ollama::{Ollama, OllamaModel, ollama_base_url};
use crate::settings::OllamaSettings;
use crate::transport::HttpClients;

use super::{
    ForwardedPort, NO_REMOTE_MACHINE, RemoteError, RemoteEvent, RemoteMachine, commands, ollama_run_output,
};

/// Longest wait for the remote Ollama's version, and for its list of models.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(10);
/// Maximum bytes read of a list of models, and of the errors beside it.
const LIST_BYTES_MAX: usize = 1024 * 1024;
/// URL that selects the HTTP client for tunnels, which uses neither proxy nor certificates.
const LOOPBACK_URL: &str = "http://127.0.0.1";

pub(crate) struct RemoteOllama {
    remote: Option<Arc<dyn RemoteMachine>>,
    settings: OllamaSettings,
    ollama: Ollama,
    clients: Arc<HttpClients>,
    transport: tokio::sync::Mutex<Option<RemoteTransport>>,
    /// Notice about the transport that the user has not seen yet.
    pending_notice: Mutex<Option<String>>,
}

#[derive(Clone)]
pub(crate) enum RemoteTransport {
    /// Its API through a tunnel.
    Tunnel(Arc<Tunnel>),
    OllamaRun,
}

pub(crate) struct Tunnel {
    /// Keeps the tunnel open.
    _forwarded: ForwardedPort,
    server: Arc<Ollama>,
    /// Remote address as shown to the user.
    pub(crate) origin: String,
}

impl Tunnel {
    /// Returns the server at the remote end.
    pub(crate) fn server(&self) -> &Arc<Ollama> {
        &self.server
    }
}

/// Result of `ollama list` on the remote machine.
pub(crate) enum ModelList {
    /// Ollama runs and has these models.
    Models(Vec<String>),
    Failed(ModelFailure),
}

/// Result of a request through a new tunnel.
enum TunnelProbe {
    /// An HTTP response arrived.
    Http,
    /// The connection closed without a response.
    Closed,
    TimedOut,
}

impl RemoteOllama {
    /// Stores the connection and the settings; does no I/O.
    pub(crate) fn new(
        remote: Option<Arc<dyn RemoteMachine>>,
        settings: &OllamaSettings,
        clients: Arc<HttpClients>,
    ) -> Self {
        Self {
            remote,
            settings: settings.clone(),
            ollama: Ollama::remote(settings),
            clients,
            transport: tokio::sync::Mutex::default(),
            pending_notice: Mutex::default(),
        }
    }

    /// Returns the connection.
    ///
    /// # Errors
    /// The session has no remote machine.
    pub(crate) fn remote(&self) -> Result<&Arc<dyn RemoteMachine>, ModelFailure> {
        self.remote.as_ref().ok_or_else(|| ModelFailure {
            kind: FailureKind::BadRequest,
            message: NO_REMOTE_MACHINE.to_owned(),
        })
    }

    pub(crate) fn settings(&self) -> &OllamaSettings {
        &self.settings
    }

    /// Longest silence between two bytes.
    pub(crate) fn silence(&self) -> Duration {
        self.ollama.silence()
    }

    /// Takes the pending notice about the transport; each notice is returned once.
    pub(crate) fn pending_notice(&self) -> Option<String> {
        self.pending_notice.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the known transport, or connects.
    pub(crate) async fn transport(&self) -> Result<RemoteTransport, ModelFailure> {
        let mut transport = self.transport.lock().await;
        match transport.as_ref() {
            Some(known) => Ok(known.clone()),
            None => self.connect(&mut transport).await,
        }
    }

    /// Returns the transport after a failure: the same tunnel if its remote end still answers, else a new transport.
    async fn transport_after_failure(&self, tunnel: &Arc<Tunnel>) -> Result<RemoteTransport, ModelFailure> {
        let mut transport = self.transport.lock().await;
        match transport.as_ref() {
            Some(RemoteTransport::Tunnel(known)) if Arc::ptr_eq(known, tunnel) => {}
            Some(other) => return Ok(other.clone()),
            None => return self.connect(&mut transport).await,
        }
        if matches!(self.probe_version(tunnel).await?, TunnelProbe::Http) {
            return Ok(RemoteTransport::Tunnel(Arc::clone(tunnel)));
        }
        *transport = None;
        self.connect(&mut transport).await
    }

    async fn connect(
        &self,
        transport: &mut Option<RemoteTransport>,
    ) -> Result<RemoteTransport, ModelFailure> {
        let remote = self.remote()?;
        let base = self.remote_base_url(remote).await?;
        let found = if base.scheme() == "https" {
            // A certificate names the remote host, but the near end of a tunnel has another name.
            self.fall_back_to_run("the Ollama there is reached by https")?
        } else {
            match remote.forward(&target(&base)).await {
                Ok(forwarded) => {
                    self.probe_tunnel(remote, open_tunnel(&self.ollama, &base, forwarded)?).await?
                }
                Err(RemoteError::Forbidden(why)) => self.fall_back_to_run(&why)?,
                Err(RemoteError::Failed(why)) => return Err(unreachable(why)),
            }
        };
        Ok(transport.insert(found).clone())
    }

    /// Returns the remote Ollama's address as seen from there: from the config, else from the remote environment.
    async fn remote_base_url(&self, remote: &Arc<dyn RemoteMachine>) -> Result<Url, ModelFailure> {
        let (host, whose) = match &self.settings.endpoint.base_url {
            Some(base_url) => (Some(base_url.clone()), "the base_url of [providers.ollama+ssh]"),
            None => {
                let host = remote.ollama_host().await.map_err(|error| unreachable(error.to_string()))?;
                (host, "OLLAMA_HOST on the remote machine")
            }
        };
        let wrong = |why: String| ModelFailure {
            kind: FailureKind::BadRequest,
            message: format!("{whose} cannot be used: {why}"),
        };
        let base = ollama_base_url(host.as_deref().unwrap_or_default()).map_err(wrong)?;
        Url::parse(&base).map_err(|error| wrong(error.to_string()))
    }

    /// Checks that a new tunnel leads to a server, else falls back or fails.
    async fn probe_tunnel(
        &self,
        remote: &Arc<dyn RemoteMachine>,
        tunnel: Tunnel,
    ) -> Result<RemoteTransport, ModelFailure> {
        match self.probe_version(&tunnel).await? {
            TunnelProbe::Http => return Ok(RemoteTransport::Tunnel(Arc::new(tunnel))),
            TunnelProbe::TimedOut => {
                return Err(unreachable(format!(
                    "Ollama at {} on the remote machine did not answer within {} s; look at its log there",
                    tunnel.origin,
                    PROBE_WAIT_MAX.as_secs()
                )));
            }
            TunnelProbe::Closed => {}
        }
        // The tunnel is closed before the command runs: it may occupy the only session that the remote machine allows.
        let origin = tunnel.origin.clone();
        drop(tunnel);
        match self.list(remote).await? {
            ModelList::Models(_) => self.fall_back_to_run(&format!(
                "no connection comes through to {origin} there, as if its sshd forwarded no ports (AllowTcpForwarding)"
            )),
            ModelList::Failed(_) => Err(unreachable(format!(
                "cannot connect to Ollama at {origin} on the remote host; start it there with `ollama serve`, or \
                 check OLLAMA_HOST and AllowTcpForwarding in sshd_config"
            ))),
        }
    }

    fn fall_back_to_run(&self, why: &str) -> Result<RemoteTransport, ModelFailure> {
        let why = why.trim_end_matches('.');
        let address = self.settings.endpoint.base_url.as_deref().unwrap_or_default();
        if address.contains('@') {
            return Err(ModelFailure {
                kind: FailureKind::BadRequest,
                message: format!(
                    "{why}, and `ollama run` there would show the password in the base_url of \
                     [providers.ollama+ssh] in the list of processes; take it out"
                ),
            });
        }
        let pending_notice = format!(
            "{why}; `ollama run` is used over ssh instead: tools go by the text protocol, and the window is the one \
             that Ollama has there (num_ctx of [providers.ollama+ssh] says how large it is)"
        );
        *self.pending_notice.lock().unwrap_or_else(PoisonError::into_inner) = Some(pending_notice);
        Ok(RemoteTransport::OllamaRun)
    }

    async fn probe_version(&self, tunnel: &Tunnel) -> Result<TunnelProbe, ModelFailure> {
        let http = self.clients.for_address(LOOPBACK_URL)?;
        let address = tunnel.server.address("/api/version")?;
        let headers = crate::transport::header_map(&tunnel.server.headers()).unwrap_or_default();
        let asked = http.get(address).headers(headers).send();
        Ok(match tokio::time::timeout(PROBE_WAIT_MAX, asked).await {
            Ok(Ok(_)) => TunnelProbe::Http,
            Ok(Err(_)) => TunnelProbe::Closed,
            Err(_) => TunnelProbe::TimedOut,
        })
    }

    /// Runs `ollama list` on the remote machine.
    ///
    /// # Errors
    /// The connection broke, or the command took too long.
    pub(crate) async fn list(&self, remote: &Arc<dyn RemoteMachine>) -> Result<ModelList, ModelFailure> {
        let command = commands::list(self.ollama_host_override());
        let mut events = remote.pipe(&command, Vec::new());
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let listing = async {
            loop {
                match events.next().await {
                    Some(RemoteEvent::Stdout(bytes)) => take(&mut output, &bytes),
                    Some(RemoteEvent::Stderr(bytes)) => take(&mut errors, &bytes),
                    Some(RemoteEvent::Exited(code)) => return Ok(code),
                    Some(RemoteEvent::Disconnected(why)) => return Err(unreachable(why)),
                    None => return Ok(None),
                }
            }
        };
        let code = match tokio::time::timeout(PROBE_WAIT_MAX, listing).await {
            Ok(ended) => ended?,
            Err(_) => {
                let seconds = PROBE_WAIT_MAX.as_secs();
                return Err(unreachable(format!(
                    "`ollama list` on the remote machine did not end within {seconds} s; look at Ollama's log there"
                )));
            }
        };
        if code == Some(0) {
            return Ok(ModelList::Models(commands::parse_model_list(&ollama_run_output::clean(&output))));
        }
        Ok(ModelList::Failed(commands::failure("ollama list", "", code, &ollama_run_output::clean(&errors))))
    }

    /// Returns `OLLAMA_HOST` for a command, if the config overrides the remote machine's own.
    pub(crate) fn ollama_host_override(&self) -> Option<&str> {
        self.settings.endpoint.base_url.as_deref()
    }
}

fn take(kept: &mut Vec<u8>, bytes: &[u8]) {
    let room = LIST_BYTES_MAX.saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

fn unreachable(message: String) -> ModelFailure {
    ModelFailure { kind: FailureKind::Unreachable, message }
}

/// Returns `host:port` as seen from the remote machine.
fn target(base: &Url) -> String {
    let host = base.host_str().unwrap_or_default();
    format!("{host}:{}", base.port_or_known_default().unwrap_or_default())
}

/// Wraps a forwarded port; requests keep the remote address as their `Host`.
fn open_tunnel(ollama: &Ollama, base: &Url, forwarded: ForwardedPort) -> Result<Tunnel, ModelFailure> {
    let host = base.host_str().unwrap_or_default();
    let host = base.port().map_or(host.to_owned(), |port| format!("{host}:{port}"));
    let address = forwarded.address();
    let mut near = base.clone();
    let changed = near.set_ip_host(address.ip()).and_then(|()| near.set_port(Some(address.port())));
    changed.map_err(|()| {
        unreachable(format!("the tunnel to {host} has no usable address ({address}); try again"))
    })?;
    let server = ollama.through_tunnel(near.as_str().trim_end_matches('/').to_owned(), &host);
    Ok(Tunnel {
        _forwarded: forwarded,
        server: Arc::new(server),
        origin: base.origin().ascii_serialization(),
    })
}

/// API of one model on the remote machine, through the current tunnel.
pub(crate) struct RemoteOllamaModel {
    remote_ollama: Arc<RemoteOllama>,
    name: String,
    active: Mutex<ActiveTunnel>,
}

struct ActiveTunnel {
    tunnel: Arc<Tunnel>,
    model: OllamaModel,
    /// A request was already made, so a further one follows a failure.
    used: bool,
}

impl RemoteOllamaModel {
    pub(crate) fn new(remote_ollama: Arc<RemoteOllama>, tunnel: Arc<Tunnel>, name: &str) -> Self {
        let model = tunnel.server.model(name);
        Self {
            remote_ollama,
            name: name.to_owned(),
            active: Mutex::new(ActiveTunnel { tunnel, model, used: false }),
        }
    }

    fn model(&self) -> OllamaModel {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).model.clone()
    }

    /// Checks the tunnel before any request but the first.
    async fn repair_tunnel(&self) -> Result<(), ModelFailure> {
        let tunnel = {
            let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
            if !std::mem::replace(&mut active.used, true) {
                return Ok(());
            }
            Arc::clone(&active.tunnel)
        };
        match self.remote_ollama.transport_after_failure(&tunnel).await? {
            RemoteTransport::Tunnel(tunnel) => {
                let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
                active.model = tunnel.server.model(&self.name);
                active.tunnel = tunnel;
                Ok(())
            }
            RemoteTransport::OllamaRun => {
                let message = "the remote machine forwards no ports any more; ask again to go on with `ollama run` there";
                Err(unreachable(message.to_owned()))
            }
        }
    }
}

impl ModelApi for RemoteOllamaModel {
    fn prepare<'a>(&'a self, http: &'a reqwest::Client) -> BoxFuture<'a, Result<(), ModelFailure>> {
        Box::pin(async move {
            self.repair_tunnel().await?;
            self.model().prepare(http).await
        })
    }

    fn after_reply<'a>(
        &'a self,
        http: &'a reqwest::Client,
        reply: &'a Reply,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move { self.model().after_reply(http, reply).await })
    }

    fn build(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Result<HttpRequest, ModelFailure> {
        self.model().build(request, quirks)
    }

    fn decoder(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Box<dyn ReplyDecoder> {
        self.model().decoder(request, quirks)
    }

    fn classify_error(&self, status: u16, body: &str, quirks: &mut ModelQuirks) -> Option<ErrorAction> {
        self.model().classify_error(status, body, quirks)
    }
}
