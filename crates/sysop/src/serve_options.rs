//! Access to a server: the flags of `sysop serve` that control it, and the server components built from them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use secrecy::SecretString;
use sysop_driver::port::{Clock, Store};
use sysop_server::audit::{Audit, AuditFailurePolicy, AuditedStore, CommandRedactor, Journal};
use sysop_server::auth::{
    Authority, Exposure, HostPolicy, Origin, Proxies, TokenAuth, TokenAuthSettings, Tokens,
};
use sysop_server::limits::{Limits, Listener, Rate};
use sysop_server::spans::SpanRecorder;
use sysop_server::tls::Tls;
use tokio::net::TcpListener;

use crate::config::display_path;
use crate::exit::CommandError;
use crate::global_flags::number_of;
use crate::settings::{ProviderSettings, Settings};

/// Listener and access options.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Access options")]
pub(crate) struct ServeOptions {
    /// Accept requests for this host name (repeatable)
    #[arg(long, value_name = "NAME[:PORT]", value_parser = authority)]
    pub(crate) allow_host: Vec<Authority>,
    /// Accept cross-origin requests from this origin; they need a token (repeatable)
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    pub(crate) allow_origin: Vec<Origin>,
    /// Serve TLS with this certificate (PEM); reloaded on SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Trust the forwarding headers of TLS proxies at these addresses or networks; without ADDR, of those on this
    /// machine
    #[arg(long, value_name = "ADDR,…", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.0/8,::1", value_parser = proxies)]
    pub(crate) behind_proxy: Option<Proxies>,
    /// Write the token to this file while the server runs [default: a file in the data directory if standard output
    /// is not a terminal]
    #[arg(long, value_name = "PATH")]
    pub(crate) token_file: Option<PathBuf>,
    /// Behavior if the audit log cannot be written
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    pub(crate) audit: AuditMode,
    /// Maximum requests per token per minute, including WebSocket messages
    #[arg(long, value_name = "N", default_value_t = Limits::default().requests.per_minute, value_parser = number_of::<u32>("number of requests", 1..=u32::MAX.into()))]
    pub(crate) max_requests: u32,
    /// Maximum concurrent requests, sockets and streams per token
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = number_of::<u32>("number of connections", 1..=u32::MAX.into()))]
    pub(crate) max_connections: u32,
    /// Maximum new sessions per token per minute
    #[arg(long, value_name = "N", default_value_t = Limits::default().sessions.per_minute, value_parser = number_of::<u32>("number of sessions", 1..=u32::MAX.into()))]
    pub(crate) max_sessions: u32,
}

/// `--audit`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditMode {
    /// Do not run anything that cannot be audited
    #[default]
    Required,
    /// Run anyway and log an error
    BestEffort,
}

fn authority(text: &str) -> Result<Authority, String> {
    text.parse().map_err(|bad: sysop_server::auth::OriginParseError| bad.to_string())
}

fn origin(text: &str) -> Result<Origin, String> {
    text.parse().map_err(|bad: sysop_server::auth::OriginParseError| bad.to_string())
}

fn proxies(text: &str) -> Result<Proxies, String> {
    Proxies::new(text.split(',').map(str::trim)).map_err(|bad| bad.to_string())
}

impl ServeOptions {
    /// Refuses to listen on an address where others could read the traffic.
    pub(crate) fn check(&self, listen: SocketAddr) -> Result<(), CommandError> {
        let exposure =
            Exposure { listen, tls: self.tls_cert.is_some(), behind_proxy: self.behind_proxy.is_some() };
        exposure.check().map_err(|exposed| CommandError::usage(exposed.to_string()))
    }

    /// Opens the listener, or uses the `inherited` one, unless others could read the traffic. Fails if the
    /// traffic would be readable, the TLS files are invalid, or the address is unavailable.
    pub(crate) async fn listen(
        &self,
        listen: SocketAddr,
        inherited: Option<std::net::TcpListener>,
    ) -> Result<(Listener, Option<Tls>)> {
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                Some(Tls::load(certificate, key).map_err(|error| CommandError::usage(error.to_string()))?)
            }
            (_, _) => None,
        };
        let listener = match inherited {
            Some(inherited) => {
                self.check(inherited.local_addr().context("the inherited socket has no address")?)?;
                inherited.set_nonblocking(true).context("cannot use the inherited socket")?;
                TcpListener::from_std(inherited).context("cannot use the inherited socket")?
            }
            None => {
                self.check(listen)?;
                TcpListener::bind(listen).await.map_err(|error| {
                    CommandError::failed(format!(
                        "cannot listen on {listen} ({error}); choose another address with --port or --listen"
                    ))
                })?
            }
        };
        let listener = Listener::new(listener, tls.clone(), self.limits().peer_connections);
        Ok((listener.behind(self.behind_proxy.clone().unwrap_or_default()), tls))
    }

    /// Creates the authentication for a server that listens on `address`.
    pub(crate) fn token_auth(&self, address: SocketAddr, tokens: Arc<Tokens>) -> TokenAuth {
        let settings = TokenAuthSettings {
            host_policy: HostPolicy::new(address, self.allow_host.clone(), self.allow_origin.clone()),
            tls: self.tls_cert.is_some(),
            proxies: self.behind_proxy.clone().unwrap_or_default(),
            limits: self.limits(),
        };
        TokenAuth::new(tokens, settings)
    }

    /// Wraps a store so that its events are audited and, if `spans` is set, recorded as spans. Fails if the
    /// audit log is required but cannot be written.
    pub(crate) async fn audited_store(
        &self,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: &Settings,
        spans: Option<Arc<SpanRecorder>>,
    ) -> Result<AuditedStore> {
        let failure_policy = match self.audit {
            AuditMode::Required => AuditFailurePolicy::Stop,
            AuditMode::BestEffort => AuditFailurePolicy::Continue,
        };
        let mut audit = Audit::in_folder(&settings.folders.audit());
        if settings.audit_journald {
            let journal = Journal::open().context("cannot open a socket for the journal")?;
            audit = audit.with_journal(journal);
        }
        let audit = Arc::new(audit);
        match (audit.check().await, failure_policy) {
            (Err(error), AuditFailurePolicy::Stop) => {
                let why = format!("{error}, or start with --audit best-effort");
                return Err(CommandError::failed(why).into());
            }
            (Err(error), AuditFailurePolicy::Continue) => {
                tracing::error!(%error, "cannot write the audit log; calls are not audited")
            }
            (Ok(()), _) => tracing::info!(path = %display_path(audit.path()), "audit log enabled"),
        }
        Ok(AuditedStore::new(store, clock, audit, redaction(settings), failure_policy).with_spans(spans))
    }

    /// Returns the URL of the web UI.
    pub(crate) fn page(&self, address: SocketAddr) -> String {
        let scheme = if self.tls_cert.is_some() { "https" } else { "http" };
        let port = address.port();
        let host = match (self.allow_host.first(), address.ip().is_unspecified()) {
            (Some(name), _) if self.tls_cert.is_some() => name.with_port(port),
            (Some(_) | None, true) => format!("127.0.0.1:{port}"),
            (Some(_) | None, false) => address.to_string(),
        };
        format!("{scheme}://{host}/")
    }

    /// Returns the certificate file, if the server uses TLS.
    pub(crate) fn certificate(&self) -> Option<&Path> {
        self.tls_cert.as_deref()
    }

    fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            requests: Rate { per_minute: self.max_requests, burst: usual.requests.burst },
            connections: self.max_connections as usize,
            sessions: Rate {
                per_minute: self.max_sessions,
                burst: usual.sessions.burst.max(self.max_sessions),
            },
            ..usual
        }
    }
}

pub(crate) fn redaction(settings: &Settings) -> CommandRedactor {
    CommandRedactor::new(&secrets(settings))
}

/// Secrets that must not appear in the audit log.
fn secrets(settings: &Settings) -> Vec<SecretString> {
    let of = settings.providers.values().flat_map(ProviderSettings::secrets);
    of.chain(settings.database_password()).collect()
}
