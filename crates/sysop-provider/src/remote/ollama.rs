//! The Ollama of the remote machine, reached through a tunnel that is kept until it breaks.
//!
//! An open tunnel does not prove that Ollama answers: connections through it may be closed silently if sshd forbids
//! forwarding or if nothing listens at the remote port. So a new tunnel is tested by asking for Ollama's version.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest};
use url::Url;

use crate::api::{ErrorAction, HttpRequest, ModelApi, ModelQuirks, ReplyDecoder};
use crate::ollama::{Ollama, OllamaModel, ollama_base_url};
use crate::settings::OllamaSettings;
use crate::transport::HttpClients;

use super::{ForwardedPort, NO_REMOTE_MACHINE, RemoteError, RemoteMachine};

/// Maximum wait for the remote Ollama to report its version.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(10);
/// URL that selects the HTTP client for tunnels, which uses neither proxy nor certificates.
const LOOPBACK_URL: &str = "http://127.0.0.1";

pub(crate) struct RemoteOllama {
    remote: Option<Arc<dyn RemoteMachine>>,
    settings: OllamaSettings,
    ollama: Ollama,
    clients: Arc<HttpClients>,
    tunnel: tokio::sync::Mutex<Option<Arc<Tunnel>>>,
}

pub(crate) struct Tunnel {
    /// Guard that keeps the tunnel open.
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
            tunnel: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn settings(&self) -> &OllamaSettings {
        &self.settings
    }

    /// Returns the longest allowed silence between two bytes.
    pub(crate) fn silence(&self) -> Duration {
        self.ollama.silence()
    }

    /// Returns the open tunnel, or opens one if there is none. Fails without a remote machine or Ollama.
    pub(crate) async fn tunnel(&self) -> Result<Arc<Tunnel>, ModelFailure> {
        let mut known = self.tunnel.lock().await;
        match known.as_ref() {
            Some(known) => Ok(Arc::clone(known)),
            None => self.connect(&mut known).await,
        }
    }

    /// Returns the tunnel to use after a request through `failed` has failed: the same tunnel if its remote
    /// end still answers, otherwise a newer one.
    async fn tunnel_after_failure(&self, failed: &Arc<Tunnel>) -> Result<Arc<Tunnel>, ModelFailure> {
        let mut known = self.tunnel.lock().await;
        match known.as_ref() {
            Some(known) if !Arc::ptr_eq(known, failed) => return Ok(Arc::clone(known)),
            Some(_) if matches!(self.probe_version(failed).await?, TunnelProbe::Http) => {
                return Ok(Arc::clone(failed));
            }
            Some(_) | None => {}
        }
        *known = None;
        self.connect(&mut known).await
    }

    async fn connect(&self, known: &mut Option<Arc<Tunnel>>) -> Result<Arc<Tunnel>, ModelFailure> {
        let remote = self.remote.as_ref().ok_or_else(|| bad_request(NO_REMOTE_MACHINE.to_owned()))?;
        let base = self.remote_base_url(remote).await?;
        let origin = base.origin().ascii_serialization();
        if base.scheme() == "https" {
            // A certificate names the remote host, but the local end of a tunnel has another name.
            return Err(bad_request(format!(
                "Ollama on the remote host is at {origin}, but https does not work through ssh; set base_url in \
                 [providers.ollama+ssh] to an http address, or base_url in [providers.ollama] to {origin}"
            )));
        }
        let forwarded = remote.forward(&target(&base)).await.map_err(|error| match error {
            RemoteError::NotListening => not_running(&origin),
            RemoteError::Failed(why) => unreachable(why),
        })?;
        let tunnel = open_tunnel(&self.ollama, &base, forwarded)?;
        match self.probe_version(&tunnel).await? {
            TunnelProbe::Http => Ok(Arc::clone(known.insert(Arc::new(tunnel)))),
            TunnelProbe::Closed => Err(not_running(&origin)),
            TunnelProbe::TimedOut => Err(unreachable(format!(
                "Ollama at {origin} on the remote host did not respond within {} s; check its log on that host",
                PROBE_WAIT_MAX.as_secs()
            ))),
        }
    }

    /// Returns the remote Ollama's address as seen from the remote machine. The address comes from the config, or else
    /// from that machine's `OLLAMA_HOST`.
    async fn remote_base_url(&self, remote: &Arc<dyn RemoteMachine>) -> Result<Url, ModelFailure> {
        let (host, whose) = match &self.settings.endpoint.base_url {
            Some(base_url) => (Some(base_url.clone()), "base_url in [providers.ollama+ssh]"),
            None => {
                let host = remote.ollama_host().await.map_err(|error| unreachable(error.to_string()))?;
                (host, "OLLAMA_HOST on the remote host")
            }
        };
        let wrong = |why: String| bad_request(format!("invalid {whose}: {why}"));
        let base = ollama_base_url(host.as_deref().unwrap_or_default()).map_err(wrong)?;
        Url::parse(&base).map_err(|error| wrong(error.to_string()))
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
}

fn not_running(origin: &str) -> ModelFailure {
    unreachable(format!(
        "cannot connect to Ollama at {origin} on the remote host; start it with `ollama serve`, or check OLLAMA_HOST on \
         that host"
    ))
}

fn bad_request(message: String) -> ModelFailure {
    ModelFailure { kind: FailureKind::BadRequest, message }
}

fn unreachable(message: String) -> ModelFailure {
    ModelFailure { kind: FailureKind::Unreachable, message }
}

/// Returns the `host:port` of a base URL, as seen from the remote machine.
fn target(base: &Url) -> String {
    let host = base.host_str().unwrap_or_default();
    format!("{host}:{}", base.port_or_known_default().unwrap_or_default())
}

/// Returns a tunnel that uses a forwarded port. Requests through it keep the remote address as their `Host` header.
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

/// API of one model on the remote machine, reached through the current tunnel.
pub(crate) struct RemoteOllamaModel {
    remote_ollama: Arc<RemoteOllama>,
    name: String,
    active: Mutex<ActiveTunnel>,
}

struct ActiveTunnel {
    tunnel: Arc<Tunnel>,
    model: OllamaModel,
    /// True if a request was already made. A further request means that the earlier one failed.
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
        self.active.lock().model.clone()
    }

    /// Checks the tunnel before every request except the first, and replaces it if it is broken.
    async fn repair_tunnel(&self) -> Result<(), ModelFailure> {
        let tunnel = {
            let mut active = self.active.lock();
            if !std::mem::replace(&mut active.used, true) {
                return Ok(());
            }
            Arc::clone(&active.tunnel)
        };
        let tunnel = self.remote_ollama.tunnel_after_failure(&tunnel).await?;
        let mut active = self.active.lock();
        active.model = tunnel.server.model(&self.name);
        active.tunnel = tunnel;
        Ok(())
    }
}

impl ModelApi for RemoteOllamaModel {
    fn prepare<'a>(&'a self, http: &'a reqwest::Client) -> BoxFuture<'a, Result<(), ModelFailure>> {
        Box::pin(async move {
            self.repair_tunnel().await?;
            self.model().prepare(http).await
        })
    }

    fn after_reply<'a>(&'a self, http: &'a reqwest::Client, model: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move { self.model().after_reply(http, model).await })
    }

    fn context_window(&self, model: &str) -> Option<u32> {
        self.model().context_window(model)
    }

    fn vision(&self) -> Option<bool> {
        self.model().vision()
    }

    fn calls_as_text(&self, request: &ModelRequest, quirks: &ModelQuirks) -> bool {
        self.model().calls_as_text(request, quirks)
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
