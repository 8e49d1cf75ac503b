//! The way to the Ollama of the far machine: a tunnel where there is one, else `ollama run`; found once, kept, and
//! found anew when it breaks.
//!
//! That a tunnel opens says nothing: an sshd that forwards nothing refuses each connection through it, and so does a
//! port where nobody listens; both close without a word. So a new tunnel is asked for Ollama's version, and where
//! nothing comes back, `ollama list` on the far machine tells the two apart.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest, Reply};
use url::Url;

use crate::ollama::{Ollama, OllamaModel, ollama_base_url};
use crate::settings::OllamaSettings;
use crate::transport::Clients;
use crate::wire::{Attempt, Built, Decoder, Refusal, Wire};

use super::{FarError, FarEvent, FarMachine, Forwarded, NO_FAR_MACHINE, noise, script};

/// The longest that the far Ollama may take to say its version, and the far machine to list its models.
const LOOK_MAX: Duration = Duration::from_secs(10);
/// The most bytes that are read of a list of models, and of the errors beside it.
const LIST_BYTES_MAX: usize = 1024 * 1024;
/// What the client for tunnels is chosen by: it knows no proxy and no certificates.
const ADDRESS_OF_THIS_MACHINE: &str = "http://127.0.0.1";

/// All that is known of the far machine's Ollama.
pub(crate) struct Link {
    far: Option<Arc<dyn FarMachine>>,
    settings: OllamaSettings,
    ollama: Ollama,
    clients: Arc<Clients>,
    way: tokio::sync::Mutex<Option<Way>>,
    /// What a person has not been told yet of the way.
    news: Mutex<Option<String>>,
}

/// How the far Ollama is reached.
#[derive(Clone)]
pub(crate) enum Way {
    /// By its API.
    Tunnel(Arc<Tunnel>),
    /// By `ollama run`.
    Pipe,
}

/// An open tunnel.
pub(crate) struct Tunnel {
    /// Keeps it open.
    _forwarded: Forwarded,
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

/// What `ollama list` on the far machine came to.
pub(crate) enum List {
    /// Ollama runs there and has these models.
    Models(Vec<String>),
    /// It ended badly.
    Failed(ModelFailure),
}

/// What came back through a tunnel.
enum Look {
    /// Someone who speaks HTTP.
    Answer,
    /// Nothing.
    Closed,
    /// Nothing in time.
    Silence,
}

impl Link {
    /// Takes the connection and the settings; does no IO.
    pub(crate) fn new(
        far: Option<Arc<dyn FarMachine>>,
        settings: &OllamaSettings,
        clients: Arc<Clients>,
    ) -> Self {
        Self {
            far,
            settings: settings.clone(),
            ollama: Ollama::far(settings),
            clients,
            way: tokio::sync::Mutex::default(),
            news: Mutex::default(),
        }
    }

    /// The connection.
    ///
    /// # Errors
    /// There is none: the session's host is this machine.
    pub(crate) fn far(&self) -> Result<&Arc<dyn FarMachine>, ModelFailure> {
        self.far
            .as_ref()
            .ok_or_else(|| ModelFailure { kind: FailureKind::BadRequest, message: NO_FAR_MACHINE.to_owned() })
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
    pub(crate) fn news(&self) -> Option<String> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The way that is known, or that is found now.
    pub(crate) async fn way(&self) -> Result<Way, ModelFailure> {
        let mut way = self.way.lock().await;
        match way.as_ref() {
            Some(known) => Ok(known.clone()),
            None => self.find(&mut way).await,
        }
    }

    /// The way after something went wrong with a tunnel: the same where its end still answers, else a new one.
    async fn way_after(&self, tunnel: &Arc<Tunnel>) -> Result<Way, ModelFailure> {
        let mut way = self.way.lock().await;
        match way.as_ref() {
            Some(Way::Tunnel(known)) if Arc::ptr_eq(known, tunnel) => {}
            Some(other) => return Ok(other.clone()),
            None => return self.find(&mut way).await,
        }
        if matches!(self.look(tunnel).await?, Look::Answer) {
            return Ok(Way::Tunnel(Arc::clone(tunnel)));
        }
        *way = None;
        self.find(&mut way).await
    }

    async fn find(&self, way: &mut Option<Way>) -> Result<Way, ModelFailure> {
        let far = self.far()?;
        let base = self.base(far).await?;
        let found = if base.scheme() == "https" {
            // A certificate is made out to a name, and the near end of a tunnel has another.
            self.by_pipe("the Ollama there is reached by https")?
        } else {
            match far.forward(&target(&base)).await {
                Ok(forwarded) => self.tried(far, tunnel(&self.ollama, &base, forwarded)?).await?,
                Err(FarError::Refused(why)) => self.by_pipe(&why)?,
                Err(FarError::Failed(why)) => return Err(unreachable(why)),
            }
        };
        Ok(way.insert(found).clone())
    }

    /// The address of the far Ollama as seen from there: of the config, else of the far machine's environment.
    async fn base(&self, far: &Arc<dyn FarMachine>) -> Result<Url, ModelFailure> {
        let (host, whose) = match &self.settings.endpoint.base_url {
            Some(base_url) => (Some(base_url.clone()), "the base_url of [providers.ollama+ssh]"),
            None => {
                let host = far.ollama_host().await.map_err(|error| unreachable(error.to_string()))?;
                (host, "OLLAMA_HOST on the far machine")
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
    async fn tried(&self, far: &Arc<dyn FarMachine>, tunnel: Tunnel) -> Result<Way, ModelFailure> {
        match self.look(&tunnel).await? {
            Look::Answer => return Ok(Way::Tunnel(Arc::new(tunnel))),
            Look::Silence => {
                return Err(unreachable(format!(
                    "Ollama at {} on the far machine did not answer within {} s; look at its log there",
                    tunnel.origin,
                    LOOK_MAX.as_secs()
                )));
            }
            Look::Closed => {}
        }
        // The tunnel is closed before the command runs: it may hold the only session that the far machine gives.
        let origin = tunnel.origin.clone();
        drop(tunnel);
        match self.list(far).await? {
            List::Models(_) => self.by_pipe(&format!(
                "no connection comes through to {origin} there, as if its sshd forwarded no ports (AllowTcpForwarding)"
            )),
            List::Failed(_) => Err(unreachable(format!(
                "nobody answers for Ollama at {origin} on the far machine; start it there with `ollama serve`, or \
                 check OLLAMA_HOST and that its sshd forwards ports (AllowTcpForwarding)"
            ))),
        }
    }

    fn by_pipe(&self, why: &str) -> Result<Way, ModelFailure> {
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
        let news = format!(
            "{why}; `ollama run` is used over ssh instead: tools go by the text protocol, and the window is the one \
             that Ollama has there (num_ctx of [providers.ollama+ssh] says how large it is)"
        );
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = Some(news);
        Ok(Way::Pipe)
    }

    async fn look(&self, tunnel: &Tunnel) -> Result<Look, ModelFailure> {
        let http = self.clients.for_address(ADDRESS_OF_THIS_MACHINE)?;
        let address = tunnel.server.address("/api/version")?;
        let headers = crate::transport::header_map(&tunnel.server.headers()).unwrap_or_default();
        let asked = http.get(address).headers(headers).send();
        Ok(match tokio::time::timeout(LOOK_MAX, asked).await {
            Ok(Ok(_)) => Look::Answer,
            Ok(Err(_)) => Look::Closed,
            Err(_) => Look::Silence,
        })
    }

    /// Runs `ollama list` on the far machine.
    ///
    /// # Errors
    /// The connection broke, or it takes too long.
    pub(crate) async fn list(&self, far: &Arc<dyn FarMachine>) -> Result<List, ModelFailure> {
        let command = script::list(self.address_there());
        let mut events = far.pipe(&command, Vec::new());
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let listing = async {
            loop {
                match events.next().await {
                    Some(FarEvent::Output(bytes)) => take(&mut output, &bytes),
                    Some(FarEvent::Errors(bytes)) => take(&mut errors, &bytes),
                    Some(FarEvent::Ended(code)) => return Ok(code),
                    Some(FarEvent::Broken(why)) => return Err(unreachable(why)),
                    None => return Ok(None),
                }
            }
        };
        let code = match tokio::time::timeout(LOOK_MAX, listing).await {
            Ok(ended) => ended?,
            Err(_) => {
                let seconds = LOOK_MAX.as_secs();
                return Err(unreachable(format!(
                    "`ollama list` on the far machine did not end within {seconds} s; look at Ollama's log there"
                )));
            }
        };
        if code == Some(0) {
            return Ok(List::Models(script::listed(&noise::clean(&output))));
        }
        Ok(List::Failed(script::failure("ollama list", "", code, &noise::clean(&errors))))
    }

    /// `OLLAMA_HOST` for a command, where the config names another than the far machine's own.
    pub(crate) fn address_there(&self) -> Option<&str> {
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
fn tunnel(ollama: &Ollama, base: &Url, forwarded: Forwarded) -> Result<Tunnel, ModelFailure> {
    let host = base.host_str().unwrap_or_default();
    let host = base.port().map_or(host.to_owned(), |port| format!("{host}:{port}"));
    let address = forwarded.address();
    let mut near = base.clone();
    let changed = near.set_ip_host(address.ip()).and_then(|()| near.set_port(Some(address.port())));
    changed.map_err(|()| {
        unreachable(format!("the tunnel to {host} has no usable address ({address}); try again"))
    })?;
    let server = ollama.through(near.as_str().trim_end_matches('/').to_owned(), &host);
    Ok(Tunnel {
        _forwarded: forwarded,
        server: Arc::new(server),
        origin: base.origin().ascii_serialization(),
    })
}

/// The wire to one model of the far machine, through whatever tunnel is open.
pub(crate) struct FarModel {
    link: Arc<Link>,
    name: String,
    now: Mutex<Now>,
}

/// The tunnel in use.
struct Now {
    tunnel: Arc<Tunnel>,
    model: OllamaModel,
    /// Whether a request was made through it, so that a further one comes after trouble.
    used: bool,
}

impl FarModel {
    pub(crate) fn new(link: Arc<Link>, tunnel: Arc<Tunnel>, name: &str) -> Self {
        let model = tunnel.server.model(name);
        Self { link, name: name.to_owned(), now: Mutex::new(Now { tunnel, model, used: false }) }
    }

    fn model(&self) -> OllamaModel {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).model.clone()
    }

    /// Looks after the tunnel before a request that is not the first.
    async fn mend(&self) -> Result<(), ModelFailure> {
        let tunnel = {
            let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            if !std::mem::replace(&mut now.used, true) {
                return Ok(());
            }
            Arc::clone(&now.tunnel)
        };
        match self.link.way_after(&tunnel).await? {
            Way::Tunnel(tunnel) => {
                let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
                now.model = tunnel.server.model(&self.name);
                now.tunnel = tunnel;
                Ok(())
            }
            Way::Pipe => {
                let message =
                    "the far machine forwards no ports any more; ask again to go on with `ollama run` there";
                Err(unreachable(message.to_owned()))
            }
        }
    }
}

impl Wire for FarModel {
    fn prepare<'a>(&'a self, http: &'a reqwest::Client) -> BoxFuture<'a, Result<(), ModelFailure>> {
        Box::pin(async move {
            self.mend().await?;
            self.model().prepare(http).await
        })
    }

    fn afterwards<'a>(
        &'a self,
        http: &'a reqwest::Client,
        reply: &'a Reply,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move { self.model().afterwards(http, reply).await })
    }

    fn build(&self, request: &ModelRequest, attempt: &Attempt) -> Result<Built, ModelFailure> {
        self.model().build(request, attempt)
    }

    fn decoder(&self, request: &ModelRequest, attempt: &Attempt) -> Box<dyn Decoder> {
        self.model().decoder(request, attempt)
    }

    fn refused(&self, status: u16, body: &str, attempt: &mut Attempt) -> Option<Refusal> {
        self.model().refused(status, body, attempt)
    }
}
