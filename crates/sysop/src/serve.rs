//! `sysop serve`: sessions for browsers and other programs.

use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use listenfd::ListenFd;
use secrecy::{ExposeSecret, SecretString};
use sysop_core::message::ModelRef;
use sysop_driver::system_clock;
use sysop_server::auth::Tokens;
use sysop_server::tls::Tls;
use sysop_server::{ClientToolSettings, Server, ServerSettings};
use sysop_store::{PostgresNode, PostgresStore};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::app::{LocalSessions, Services, Storage};
use crate::cli::ServeArguments;
use crate::exit::{CommandError, Exit};
use crate::global_flags::Verbosity;
use crate::origin;
use crate::otlp_exporter::OtlpExporter;
use crate::parent_watch::ParentWatch;
use crate::serve_options::{ServeOptions, redaction};
use crate::settings::Settings;
use crate::token_file::TokenFile;

/// Time for which a cluster node keeps an idle session that has no connections.
const NODE_IDLE: Duration = Duration::from_secs(4);

/// Shutdown timeout, applied first to the span exporter and then to saving the tokens' last-used times.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// Time until the token in the token file is renewed again after a failure.
const RENEWAL_PAUSE: Duration = Duration::from_secs(60);

/// Runs the server until the process is asked to exit.
pub(crate) fn run(settings: Settings, model: ModelRef, arguments: &ServeArguments) -> Result<Exit> {
    log_to_stderr(settings.verbosity, settings.environment.value("SYSOP_LOG"));
    raise_open_files();
    // Before the runtime starts threads, because this changes the environment.
    let inherited = inherited_listener(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let served = runtime.block_on(serve(settings, model, arguments, inherited));
    // Any remaining tasks serve models or clients that are no longer connected.
    runtime.shutdown_timeout(Duration::from_millis(200));
    served
}

/// Checks that the listening address is safe.
pub(crate) fn check(arguments: &ServeArguments) -> Result<(), CommandError> {
    arguments.exposure.check(address_of(arguments))
}

fn address_of(arguments: &ServeArguments) -> SocketAddr {
    match arguments.port {
        Some(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
        None => arguments.listen,
    }
}

/// Time after which a server rejects an unanswered approval, in seconds.
pub(crate) const APPROVAL_EXPIRES_S: u32 = 3600;

/// Takes the listening socket that systemd passed to this process, if any. It is used instead of `--listen`.
fn inherited_listener(settings: &Settings) -> Result<Option<TcpListener>, CommandError> {
    // Without this variable, the sockets are meant for another process.
    let mine = std::process::id().to_string();
    if settings.environment.value("LISTEN_PID") != Some(mine.as_str()) {
        return Ok(None);
    }
    let taken = ListenFd::from_env().take_tcp_listener(0);
    taken.map_err(|error| CommandError::usage(format!("cannot use the socket of LISTEN_FDS ({error})")))
}

async fn serve(
    mut settings: Settings,
    model: ModelRef,
    arguments: &ServeArguments,
    inherited: Option<TcpListener>,
) -> Result<Exit> {
    let exposure = &arguments.exposure;
    let (listener, tls) = exposure.listen(address_of(arguments), inherited).await?;
    let stop = ended_by_signals(tls)?;
    let address = listener.local_addr().context("the socket has an address")?;

    let client_tools = ClientToolSettings {
        tool_timeout: Duration::from_secs(arguments.tool_timeout),
        output_bytes: settings.limits.output_bytes,
        output_lines: settings.limits.output_lines,
        ..ClientToolSettings::default()
    };
    settings.approval_expires.get_or_insert(APPROVAL_EXPIRES_S);
    let storage = Storage::open(&settings).await?;
    let parts = Services::on(storage.clone(), settings, model);
    parts.set_page(exposure.page(address));
    let tokens = Tokens::open(storage.tokens(), system_clock()).await;
    let tokens = Arc::new(tokens.map_err(|error| CommandError::failed(error.to_string()))?);
    let start_token = {
        let tokens = Arc::clone(&tokens);
        move || {
            let tokens = Arc::clone(&tokens);
            async move { tokens.start(&origin::user_name()).await }
        }
    };
    let (token, life) = start_token().await.map_err(|error| CommandError::failed(error.to_string()))?;
    let exporter = OtlpExporter::new(parts.settings())?;
    let spans = exporter.as_ref().map(OtlpExporter::spans);
    let audited =
        exposure.audited_store(storage.store(), system_clock(), parts.settings(), spans.clone()).await?;
    let watcher = arguments.watched.then(|| ParentWatch::new(redaction(parts.settings())));
    let audited = Arc::new(match &watcher {
        Some(watcher) => audited.with_listener(watcher.event_sink()),
        None => audited,
    });
    let node = match &storage {
        Storage::Sqlite(_) => None,
        Storage::Postgres(store) => Some(join(store, address).await?),
    };
    let token_auth = exposure.token_auth(address, Arc::clone(&tokens));
    let usual = ServerSettings::default();
    // Idle sessions become available to other nodes.
    let idle = if node.is_some() { NODE_IDLE } else { usual.idle };
    let backend = Arc::new(LocalSessions::new(parts.clone(), audited, node));
    let server =
        Server::new(backend, Arc::new(token_auth), ServerSettings { client_tools, idle, spans, ..usual });
    let token_file = announce(exposure, address, &token, parts.settings(), watcher, &stop)?;
    let checked = parts.clone();
    tokio::spawn(async move { warn_of_unknown_host(checked.settings()).await });
    let token_file = token_file.map(|file| tokio::spawn(keep_renewed(file, life, stop.clone(), start_token)));
    tracing::info!(%address, "serving");

    let following = {
        let (tokens, stop) = (Arc::clone(&tokens), stop.clone());
        async move { tokens.follow(stop).await }
    };
    let following = tokio::spawn(following);
    let exported = CancellationToken::new();
    let exporting = exporter.map(|exporter| tokio::spawn(exporter.run(exported.clone())));
    server.serve(listener, stop.clone()).await;
    stop.cancel();
    exported.cancel();
    if let Some(exporting) = exporting {
        let _ = tokio::time::timeout(LAST_WRITES, exporting).await; // a panic was already reported
    }
    // Saves the tokens' last-used times if possible; a panic was reported already.
    let _ = tokio::time::timeout(LAST_WRITES, following).await;
    parts.close().await;
    if let Some(token_file) = token_file {
        drop(token_file.await); // a panic was already reported
    }
    tracing::info!("ended");
    Ok(Exit::Done)
}

/// Warns if sessions cannot use the configured host. The server starts all the same: the name may resolve later, and
/// sessions may choose other hosts.
async fn warn_of_unknown_host(settings: &Settings) {
    if let Err(error) = crate::known_host::check(settings).await {
        crate::tell(&format!("warning: {error}"));
    }
}

/// Prints the server's URL. If the output goes to a terminal or to a watching parent, the URL
/// contains the token. Otherwise, or if `--token-file` is set, the token is written to a file that exists
/// until the returned value is dropped.
fn announce(
    exposure: &ServeOptions,
    address: SocketAddr,
    token: &SecretString,
    settings: &Settings,
    watcher: Option<ParentWatch>,
    stop: &CancellationToken,
) -> Result<Option<TokenFile>> {
    let page = exposure.page(address);
    let with_token = || format!("{page}?token={}", token.expose_secret());
    let is_watched = watcher.is_some();
    let is_told = is_watched || io::stdout().is_terminal();
    let path = match (&exposure.token_file, is_told) {
        (Some(path), _) => Some(path.clone()),
        (None, true) => None,
        (None, false) => Some(TokenFile::usual_path(&settings.folders.data, address)),
    };
    let certificate = exposure.certificate();
    let file = path.map(|path| TokenFile::write(path, token.clone(), certificate)).transpose()?;
    let usual = TokenFile::usual_path(&settings.folders.data, address);
    let file = file.map(|file| file.linked_at(usual, certificate));
    match (watcher, &file) {
        (Some(watcher), _) => watcher.begin(&with_token(), stop.clone())?,
        (None, Some(file)) if !is_told => {
            tell(&format!("sysop listening on {page}, token file {}", file.path().display()))?;
        }
        (None, _) => tell(&format!("sysop listening on {}", with_token()))?,
    }
    if is_told && !is_watched && !sysop_server::has_page() {
        crate::tell("warning: this build has no web page; run `cargo xtask web`, then build sysop again");
    }
    Ok(file)
}

/// Replaces the token in the file before it expires, until the server stops. Returns the file, which exists as long as
/// the returned value.
async fn keep_renewed<New, E>(
    mut file: TokenFile,
    life: Duration,
    stop: CancellationToken,
    new_token: impl Fn() -> New,
) -> TokenFile
where
    New: Future<Output = Result<(SecretString, Duration), E>>,
    E: std::fmt::Display,
{
    let mut wait = life / 2;
    loop {
        tokio::select! {
            () = stop.cancelled() => return file,
            () = tokio::time::sleep(wait) => {}
        }
        if !file.has_own_token() {
            tracing::warn!(path = %file.path().display(), "the token file was removed or replaced; it is not renewed");
            stop.cancelled().await;
            return file;
        }
        let renewed = match new_token().await {
            Ok((token, life)) => file.replace(token).map(|()| life / 2).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        wait = match renewed {
            Ok(wait) => wait,
            Err(error) => {
                tracing::warn!(error, "cannot renew the token in the token file; trying again in a minute");
                RENEWAL_PAUSE
            }
        };
    }
}

/// Registers this process as a node of the cluster that shares a database.
async fn join(store: &PostgresStore, address: SocketAddr) -> Result<PostgresNode> {
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = format!("{machine}:{}", address.port());
    let node = PostgresNode::join(store, &name).await;
    let node = node.map_err(|error| CommandError::failed(error.to_string()))?;
    tracing::info!(node = name, "joined the cluster");
    Ok(node)
}

/// Returns a token that is canceled by SIGTERM, SIGINT or SIGHUP. A second signal exits the process
/// immediately. With TLS, SIGHUP reloads the certificate files instead.
fn ended_by_signals(tls: Option<Tls>) -> Result<CancellationToken> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let mut signal = signal(kind).context("cannot listen for signals")?;
        let stop = stop.clone();
        let reloads = tls.clone().filter(|_| kind == SignalKind::hangup());
        tokio::spawn(async move {
            while signal.recv().await.is_some() {
                if let Some(tls) = &reloads {
                    reload(tls);
                    continue;
                }
                if stop.is_cancelled() {
                    std::process::exit(i32::from(Exit::Terminated.code()));
                }
                stop.cancel();
            }
        });
    }
    Ok(stop)
}

fn reload(tls: &Tls) {
    match tls.reload() {
        Ok(()) => tracing::info!("TLS certificate reloaded"),
        Err(error) => tracing::error!(%error, "cannot reload the TLS certificate; keeping the current one"),
    }
}

/// Starts logging to standard error as JSON lines, without prompts, commands, outputs or secrets. On a terminal, where
/// a user wants to read the URL, routine messages need `-v`.
fn log_to_stderr(verbosity: Verbosity, wanted: Option<&str>) {
    let usual = match verbosity {
        Verbosity::Quiet => "error",
        Verbosity::Normal if io::stderr().is_terminal() => "warn",
        Verbosity::Normal => "warn,sysop=info,sysop_server=info",
        Verbosity::Verbose(1) => "info,sysop=debug,sysop_server=debug,sysop_driver=debug",
        Verbosity::Verbose(_) => "debug",
    };
    let filter: Targets = wanted
        .and_then(|wanted| wanted.parse().ok())
        .unwrap_or_else(|| usual.parse().expect("valid log filter"));
    let lines = tracing_subscriber::fmt::layer().json().with_writer(io::stderr);
    // Fails if another part of this process has set a subscriber, which is then kept.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}

/// Raises the limit on open files, because each socket needs one.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // With a lower limit, fewer clients can be served.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

fn tell(line: &str) -> Result<()> {
    crate::emit(format!("{line}\n").as_bytes()).map(drop)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_token_in_the_file_is_renewed_before_it_expires() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.token");
        let (hour, stop, made) =
            (Duration::from_secs(3600), CancellationToken::new(), Arc::new(AtomicU32::new(0)));
        let file = TokenFile::write(path.clone(), "first".into(), None).unwrap();
        let new_token = {
            let made = Arc::clone(&made);
            move || {
                let number = made.fetch_add(1, Ordering::Relaxed);
                let token = SecretString::from(format!("renewed {number}"));
                std::future::ready(Ok::<_, Infallible>((token, 10 * hour)))
            }
        };
        let renewing = tokio::spawn(keep_renewed(file, 2 * hour, stop.clone(), new_token));
        let after = async |wait: Duration| {
            tokio::task::yield_now().await; // the task begins to wait
            tokio::time::advance(wait).await;
            tokio::task::yield_now().await;
            std::fs::read_to_string(&path).unwrap()
        };
        let minute = Duration::from_secs(60);
        assert_eq!(after(hour - minute).await, "first\n");
        assert_eq!(after(2 * minute).await, "renewed 0\n");
        assert_eq!(after(5 * hour).await, "renewed 1\n");
        stop.cancel();
        drop(renewing.await.unwrap());
        assert!(!path.exists());
    }
}
