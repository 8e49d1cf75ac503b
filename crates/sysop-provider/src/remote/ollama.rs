//! The way to the Ollama of the remote machine: a tunnel where there is one, else `ollama run`; found once, kept, and
//! found anew when it breaks.
//!
//! That a tunnel opens says nothing: an sshd that forwards nothing refuses each connection through it, and so does a
//! port where nobody listens; both close without a word. So a new tunnel is asked for Ollama's version, and where
//! nothing comes back, `ollama list` on the remote machine tells the two apart.

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

/// The longest that the far Ollama may take to say its version, and the remote machine to list its models.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(10);
/// The most bytes that are read of a list of models, and of the errors beside it.
const LIST_BYTES_MAX: usize = 1024 * 1024;
/// What the client for tunnels is chosen by: it knows no proxy and no certificates.
const LOOPBACK_URL: &str = "http://127.0.0.1";

/// All that is known of the remote machine's Ollama.
pub(crate) struct RemoteOllama {
    remote: Option<Arc<dyn RemoteMachine>>,
    settings: OllamaSettings,
    ollama: Ollama,
    clients: Arc<HttpClients>,
    transport: tokio::sync::Mutex<Option<RemoteTransport>>,
    /// What a person has not been told yet of the way.
    pending_notice: Mutex<Option<String>>,
}

/// How the far Ollama is reached.
#[derive(Clone)]
pub(crate) enum RemoteTransport {
    /// By its API.
    Tunnel(Arc<Tunnel>),
    /// By `ollama run`.
    OllamaRun,
}

/// An open tunnel.
pub(crate) struct Tunnel {
    /// Keeps it open.
    _forwarded: ForwardedPort,
    server: Arc<Ollama>,
    /// The far address as a person knows it.
    pub(crate) origin: String,
}

impl Tunnel {
    /// The server at its end.
    pub(crate) fn server(&self) -> &Arc<Ollama> {
        &self.server
    }
}

/// What `ollama list` on the remote machine came to.
pub(crate) enum ModelList {
    /// Ollama runs there and has these models.
    Models(Vec<String>),
    /// It ended badly.
    Failed(ModelFailure),
}

/// What came back through a tunnel.
enum TunnelProbe {
    /// Someone who speaks HTTP.
    Http,
    /// Nothing.
    Closed,
    /// Nothing in time.
    TimedOut,
}

impl RemoteOllama {
    /// Takes the connection and the settings; does no IO.
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

    /// The connection.
    ///
    /// # Errors
    /// There is none: the session's host is this machine.
    pub(crate) fn remote(&self) -> Result<&Arc<dyn RemoteMachine>, ModelFailure> {
        self.remote.as_ref().ok_or_else(|| ModelFailure {
            kind: FailureKind::BadRequest,
            message: NO_REMOTE_MACHINE.to_owned(),
        })
    }

    /// The settings of `[providers.ollama+ssh]`.
    pub(crate) fn settings(&self) -> &OllamaSettings {
        &self.settings
    }

    /// The longest silence between two bytes.
    pub(crate) fn silence(&self) -> Duration {
        self.ollama.silence()
    }

    /// What a person is to be told of the way; each thing once.
    pub(crate) fn pending_notice(&self) -> Option<String> {
        self.pending_notice.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The way that is known, or that is found now.
    pub(crate) async fn transport(&self) -> Result<RemoteTransport, ModelFailure> {
        let mut transport = self.transport.lock().await;
        match transport.as_ref() {
            Some(known) => Ok(known.clone()),
            None => self.connect(&mut transport).await,
        }
    }

    /// The way after something went wrong with a tunnel: the same where its end still answers, else a new one.
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
            // A certificate is made out to a name, and the near end of a tunnel has another.
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

    /// The address of the far Ollama as seen from there: of the config, else of the remote machine's environment.
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

    /// Finds out whether a new tunnel leads anywhere.
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
        // The tunnel is closed before the command runs: it may hold the only session that the remote machine gives.
        let origin = tunnel.origin.clone();
        drop(tunnel);
        match self.list(remote).await? {
            ModelList::Models(_) => self.fall_back_to_run(&format!(
                "no connection comes through to {origin} there, as if its sshd forwarded no ports (AllowTcpForwarding)"
            )),
            ModelList::Failed(_) => Err(unreachable(format!(
                "nobody answers for Ollama at {origin} on the remote machine; start it there with `ollama serve`, or \
                 check OLLAMA_HOST and that its sshd forwards ports (AllowTcpForwarding)"
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
    /// The connection broke, or it takes too long.
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

    /// `OLLAMA_HOST` for a command, where the config names another than the remote machine's own.
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

/// `host:port` as seen from there.
fn target(base: &Url) -> String {
    let host = base.host_str().unwrap_or_default();
    format!("{host}:{}", base.port_or_known_default().unwrap_or_default())
}

/// A tunnel to a far address; its server is called by the far address's name.
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

/// The wire to one model of the remote machine, through whatever tunnel is open.
pub(crate) struct RemoteOllamaModel {
    remote_ollama: Arc<RemoteOllama>,
    name: String,
    active: Mutex<ActiveTunnel>,
}

/// The tunnel in use.
struct ActiveTunnel {
    tunnel: Arc<Tunnel>,
    model: OllamaModel,
    /// Whether a request was made through it, so that a further one comes after trouble.
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

    /// Looks after the tunnel before a request that is not the first.
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
