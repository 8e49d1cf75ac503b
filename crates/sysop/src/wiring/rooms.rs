//! The sessions of a server: many at a time, on any host, each with the models of its own host.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use sysop_core::catalogue::Profile;
use sysop_core::event::{Change, Event, Input};
use sysop_core::id::{Seq, SessionId, TurnId};
use sysop_core::message::{ModelRef, ModelRequest, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_core::policy::ApprovalMode;
use sysop_core::session::SessionSpec;
use sysop_core::tool::ToolSpec;
use sysop_driver::cluster::Cluster as _;
use sysop_driver::face::{Desk, Named, Session};
use sysop_driver::port::{
    CancellationToken, DeltaSink, Host, ModelEvent, Provider, SessionSummary, Store, StoreError,
};
use sysop_driver::{Driver, DriverError, MakeRuntime, Ports, Runtime, system_clock};
use sysop_server::audit::{Actor, AuditedCluster, AuditedStore};
use sysop_server::{Artefact, Found, RoomError, Rooms, Wish, Wrap};
use sysop_store::PostgresNode;
use tokio_util::io::ReaderStream;

use super::{Parts, Place, forget};
use crate::config::PROVIDERS;
use crate::demo::DEMO;
use crate::prompt;
use crate::settings::{HostChoice, unknown_provider};

/// How long a server that ends tries to tell the others so.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(3);
/// The host of a session that has no tools but those that clients lend.
const NONE: &str = "none";
/// The model of a far machine, which only sessions on that machine reach.
const FAR_MODELS: &str = "ollama+ssh";

/// The sessions of a server.
pub(crate) struct ServedRooms {
    parts: Parts,
    store: Arc<AuditedStore>,
    node: Option<PostgresNode>,
    driver: Driver,
    /// It was tried to give all sessions back.
    left: AtomicBool,
}

impl ServedRooms {
    /// Serves the sessions of these parts, from a store in front of theirs, perhaps as one node of several. Must be
    /// called within a tokio runtime.
    pub(crate) fn new(parts: Parts, store: Arc<AuditedStore>, node: Option<PostgresNode>) -> Self {
        let ports = Ports { store: Arc::clone(&store) as Arc<dyn Store>, clock: system_clock() };
        let driver = match &node {
            Some(node) => {
                let audited = AuditedCluster::new(Arc::new(node.clone()), Arc::clone(&store));
                Driver::among(ports, Arc::new(audited))
            }
            None => Driver::new(ports),
        };
        let rooms = Self { parts, store, node, driver, left: AtomicBool::new(false) };
        rooms.driver.begin_with(rooms.first());
        rooms
    }

    /// What each earlier session is told first: it works as it did, with the rules of today's config added.
    fn first(&self) -> Vec<Input> {
        let reads_only = self.reads_only().then_some(Change::Approve(ApprovalMode::Never));
        [self.parts.rules()].into_iter().chain(reads_only).map(|change| Input::Configure { change }).collect()
    }

    /// How a new session works, and with which tools of its own.
    fn plan(&self, wish: Wish) -> Result<(SessionSpec, Own), RoomError> {
        let settings = &self.parts.settings;
        let profile: Profile = match &wish.profile {
            Some(name) => {
                name.parse().map_err(|_| RoomError::Bad(format!("there is no profile {name:?}")))?
            }
            None => settings.profile.into(),
        };
        let (mut spec, own) = if wish.host.as_deref() == Some(NONE) {
            let place = Place { host: HostChoice::Local, root: PathBuf::new() };
            let spec = SessionSpec {
                system: prompt::system_without_host(),
                host: NONE.to_owned(),
                root: String::new(),
                ..self.parts.spec(&place, &[])
            };
            (spec, self.without_host())
        } else {
            let place = self.place(wish.host.as_deref(), wish.root.as_deref())?;
            let runtime = self.parts.runtime(&place, profile).map_err(|error| bad(&error))?;
            let spec = self.parts.spec(&place, runtime.host.tools());
            (spec, Own::At { place, profile, parts: self.parts.clone(), first: runtime })
        };
        profile.as_str().clone_into(&mut spec.profile);
        if let Some(model) = wish.model {
            self.known(&model, &spec)?;
            spec.model = model;
        }
        if let Some(approve) = wish.approve {
            self.permits(&Change::Approve(approve)).map_err(RoomError::Bad)?;
            spec.approve = approve;
        }
        Ok((spec, own))
    }

    /// Where a new session works: below the server's own root, or on another machine.
    fn place(&self, host: Option<&str>, root: Option<&Path>) -> Result<Place, RoomError> {
        let settings = &self.parts.settings;
        let host = match host {
            None => settings.host.clone(),
            Some(host) => settings.hosts.resolve(host).map_err(|failure| RoomError::Bad(failure.message))?,
        };
        let Some(root) = root else { return Ok(Place { host, root: settings.root.clone() }) };
        if matches!(host, HostChoice::Local) {
            return Ok(Place { host, root: below(&settings.root, root)? });
        }
        let there = root.to_str().ok_or_else(|| RoomError::Bad("the root is not UTF-8".to_owned()))?;
        let host =
            host.with_root(Some(there.to_owned())).map_err(|failure| RoomError::Bad(failure.message))?;
        Ok(Place { host, root: settings.root.clone() })
    }

    fn known(&self, model: &ModelRef, spec: &SessionSpec) -> Result<(), RoomError> {
        let provider = model.provider.as_str();
        if provider != DEMO && !PROVIDERS.contains(&provider) {
            return Err(RoomError::Bad(unknown_provider(provider)));
        }
        let far = self.parts.settings.hosts.resolve(&spec.host);
        if provider == FAR_MODELS && !matches!(far, Ok(HostChoice::Ssh(_))) {
            return Err(RoomError::Bad(format!(
                "{FAR_MODELS} is the Ollama of one far host; give one with `host`"
            )));
        }
        Ok(())
    }

    /// A session that is open here.
    fn opened(&self, id: &SessionId) -> Option<Found> {
        Some(found(&self.driver, self.driver.opened(id)?))
    }

    /// Where an earlier session works, and with which tools.
    async fn place_of(&self, id: &SessionId) -> Result<Own, RoomError> {
        let spec = self.spec_of(id).await?;
        if spec.host == NONE {
            return Ok(self.without_host());
        }
        let profile = spec.profile.parse().unwrap_or(self.parts.settings.profile.into());
        let place = self.parts.place_of(&spec).map_err(|error| bad(&error))?;
        let first = self.parts.runtime(&place, profile).map_err(|error| bad(&error))?;
        Ok(Own::At { place, profile, parts: self.parts.clone(), first })
    }

    /// A session with no machine of its own asks the models that this machine reaches.
    fn without_host(&self) -> Own {
        Own::None(self.parts.models.of(&HostChoice::Local))
    }

    async fn spec_of(&self, id: &SessionId) -> Result<SessionSpec, RoomError> {
        let start = self.store.load(id, Seq(0), 1).await.map_err(|error| failed(error.into()))?;
        match start.into_iter().next().map(|logged| logged.event) {
            Some(Event::SessionOpened { spec }) => Ok(spec),
            Some(_) | None => Err(RoomError::NotFound(id.clone())),
        }
    }

    /// Whether the server was started with `--approve never`: then nothing on it changes anything.
    fn reads_only(&self) -> bool {
        let settings = &self.parts.settings;
        settings.approve(&settings.host) == ApprovalMode::Never
    }
}

#[async_trait]
impl Rooms for ServedRooms {
    async fn create(&self, id: SessionId, wish: Wish, wrap: Wrap) -> Result<Found, RoomError> {
        let (spec, own) = self.plan(wish)?;
        let make_runtime = own.maker(wrap);
        let handle = self.driver.create(id, spec, make_runtime()).await.map_err(failed)?;
        Ok(found(&self.driver, self.driver.share(handle, make_runtime)))
    }

    async fn open(&self, id: &SessionId, wrap: Wrap) -> Result<Found, RoomError> {
        if let Some(found) = self.opened(id) {
            return Ok(found);
        }
        let own = self.place_of(id).await?;
        let session = self.driver.open(id, own.maker(wrap)).await.map_err(failed)?;
        Ok(found(&self.driver, session))
    }

    fn if_open(&self, id: &SessionId) -> Option<Found> {
        self.opened(id)
    }

    async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, RoomError> {
        self.store.list(limit).await.map_err(|error| failed(error.into()))
    }

    async fn is_logged(&self, id: &SessionId, seq: Seq) -> bool {
        let found = self.store.load(id, Seq(seq.0.saturating_sub(1)), 1).await;
        !found.is_ok_and(|found| found.is_empty())
    }

    async fn delete(&self, id: &SessionId) -> Result<(), RoomError> {
        self.driver.end(id, "this session was deleted");
        let forgotten = forget(self.store.as_ref(), &self.parts.kept, self.parts.settings(), id).await;
        forgotten.map_err(|error| failed(error.into()))
    }

    async fn artefact(&self, id: &SessionId, name: &str) -> Result<Artefact, RoomError> {
        self.spec_of(id).await?;
        let path = self.parts.artefact_path(name).map_err(RoomError::Bad)?;
        let gone = |error: std::io::Error| {
            RoomError::Bad(format!("the whole output cannot be read at {}: {error}", path.display()))
        };
        let file = tokio::fs::File::open(&path).await.map_err(gone)?;
        let bytes = file.metadata().await.map_err(gone)?.len();
        // No more than was there, also where it is still being written.
        let pieces = ReaderStream::new(tokio::io::AsyncReadExt::take(file, bytes));
        Ok(Artefact { bytes, pieces: pieces.boxed() })
    }

    async fn fork(&self, from: &SessionId, before: TurnId, id: &SessionId) -> Result<(), RoomError> {
        self.spec_of(from).await?;
        match self.driver.fork(from, before, id).await {
            Err(DriverError::NoTurn(..)) => {
                Err(RoomError::Bad(format!("session {from} has no turn {before}")))
            }
            done => done.map_err(failed),
        }
    }

    async fn paths(&self, id: &SessionId, word: &str, limit: usize) -> Result<Vec<String>, RoomError> {
        self.spec_of(id).await?;
        Ok(Desk::paths(&self.parts, id, word, limit).await)
    }

    fn hosts(&self) -> Vec<Named> {
        Desk::hosts(&self.parts)
    }

    async fn models(&self) -> Vec<ModelRef> {
        Desk::models(&self.parts).await
    }

    fn permits(&self, change: &Change) -> Result<(), String> {
        match change {
            Change::Approve(mode) if self.reads_only() && *mode != ApprovalMode::Never => {
                Err("this server was started with `--approve never`: nothing on it changes anything"
                    .to_owned())
            }
            Change::Model(model)
                if model.provider != DEMO && !PROVIDERS.contains(&model.provider.as_str()) =>
            {
                Err(unknown_provider(&model.provider))
            }
            Change::Approve(_)
            | Change::Model(_)
            | Change::Mode(_)
            | Change::Rules { .. }
            | Change::Lent(_) => Ok(()),
        }
    }

    fn acts(&self, id: &SessionId, who: &str, trace: Option<&str>) {
        self.store.acts(id, Actor { name: who.to_owned(), trace: trace.map(str::to_owned) });
    }

    fn model(&self, wanted: Option<&str>) -> ModelRef {
        let own = &self.parts.model;
        let Some(wanted) = wanted.filter(|name| !name.is_empty()) else { return own.clone() };
        match wanted.parse::<ModelRef>() {
            Ok(model) if model.provider == DEMO || PROVIDERS.contains(&model.provider.as_str()) => model,
            // A bare name is one of Gemini's; another model stands in where that is not what is configured.
            _ if matches!(own.provider.as_str(), "gemini" | "vertex") => ModelRef::new(&own.provider, wanted),
            Ok(_) | Err(_) => own.clone(),
        }
    }

    fn ask(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        self.parts.models.of(&self.parts.settings.host).stream(request)
    }

    async fn trouble(&self) -> Option<String> {
        let missing = match &self.node {
            Some(node) => node.ready().err(),
            None => None,
        };
        let missing = match missing {
            None => self.parts.kept.ready().await.err(),
            missing => missing,
        };
        missing.map(|error| error.to_string())
    }

    fn live_count(&self) -> usize {
        self.driver.live_sessions()
    }

    fn rest(&self, idle: Duration) {
        self.driver.rest(idle);
    }

    async fn leave(&self) {
        if self.left.load(Ordering::SeqCst) {
            return;
        }
        let leaving = async {
            self.driver.leave().await.map_err(|error| error.to_string())?;
            match &self.node {
                Some(node) => node.leave().await.map_err(|error| error.to_string()),
                None => Ok(()),
            }
        };
        let left = tokio::time::timeout(LEAVE_TIME_MAX, leaving).await;
        if let Err(error) = left.unwrap_or_else(|_| Err("the database takes too long".to_owned())) {
            tracing::warn!(error, "the other nodes find out by themselves that this one is gone");
        }
        self.left.store(true, Ordering::SeqCst);
    }
}

fn found(driver: &Driver, session: Arc<dyn Session>) -> Found {
    let last = driver.last_seq(session.id()).unwrap_or(Seq(0));
    Found { session, last }
}

/// The tools of a session that are its own.
enum Own {
    /// It has none, and reaches these models.
    None(Arc<dyn Provider>),
    /// Those of a machine.
    At { place: Place, profile: Profile, parts: Parts, first: Runtime },
}

impl Own {
    /// Makes its runtime, and makes it anew where the session was elsewhere meanwhile: what a host knew of the session,
    /// like a terminal, ends with each stay.
    fn maker(self, wrap: Wrap) -> MakeRuntime {
        match self {
            Self::None(provider) => Arc::new(move || {
                let provider = Arc::clone(&provider);
                Runtime { host: wrap(Arc::new(NoTools)), provider }
            }),
            Self::At { place, profile, parts, first } => {
                let first = Mutex::new(Some(first));
                Arc::new(move || {
                    let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
                    let Runtime { host, provider } =
                        first.unwrap_or_else(|| match parts.runtime(&place, profile) {
                            Ok(runtime) => runtime,
                            Err(error) => {
                                let host = Arc::new(Unreachable(format!("{error:#}")));
                                Runtime { host, provider: parts.models.of(&place.host) }
                            }
                        });
                    Runtime { host: wrap(host), provider }
                })
            }
        }
    }
}

/// A root that a client wishes for lies below the server's own.
fn below(own: &Path, wished: &Path) -> Result<PathBuf, RoomError> {
    let outside = || RoomError::Bad("the root must be a folder below the server's own root".to_owned());
    let root = own.join(wished).canonicalize().map_err(|_| outside())?;
    if root.starts_with(own) && root.is_dir() { Ok(root) } else { Err(outside()) }
}

fn bad(error: &anyhow::Error) -> RoomError {
    RoomError::Bad(format!("{error:#}"))
}

fn failed(error: DriverError) -> RoomError {
    match error {
        DriverError::Store(StoreError::NotFound(id)) => RoomError::NotFound(id),
        DriverError::Store(_)
        | DriverError::Closed(_)
        | DriverError::Full(_)
        | DriverError::NoTurn(..)
        | DriverError::Elsewhere(..)
        | DriverError::BadLog(..) => RoomError::Failed(error.to_string()),
    }
}

/// No machine at all.
struct NoTools;

#[async_trait]
impl Host for NoTools {
    fn tools(&self) -> &[ToolSpec] {
        &[]
    }

    async fn run(&self, call: ToolCall, _: DeltaSink, _: CancellationToken) -> Outcome {
        Outcome::failed(format!("this session has no machine of its own that could run {}", call.name))
    }
}

/// A machine whose tools cannot be had any more; why.
struct Unreachable(String);

#[async_trait]
impl Host for Unreachable {
    fn tools(&self) -> &[ToolSpec] {
        &[]
    }

    async fn run(&self, _: ToolCall, _: DeltaSink, _: CancellationToken) -> Outcome {
        Outcome::failed(self.0.clone())
    }
}
