//! The one place where commands meet the parts of the program that carry them out.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use crate::cli::{ChatArguments, ExecArguments, MockLlmArguments, SessionsCommand};
use crate::config::shown;
use crate::doctor::Probe;
use crate::exit::{Exit, Failure};
use crate::pick::Pick;
use crate::settings::{ProviderSettings, Settings};

/// A conversation, line by line.
pub(crate) async fn chat(settings: Settings, pick: Pick, arguments: ChatArguments) -> Result<Exit> {
    let _ = (settings, pick, arguments);
    Err(unconnected("chat").into())
}

/// One task without a screen.
pub(crate) async fn exec(settings: Settings, pick: Pick, arguments: ExecArguments) -> Result<Exit> {
    let _ = (settings, pick, arguments);
    Err(unconnected("exec").into())
}

/// The command of a routine, its variables filled in.
pub(crate) async fn routine(settings: Settings, name: String, command: String) -> Result<Exit> {
    let _ = (settings, name, command);
    Err(unconnected("run").into())
}

/// Earlier sessions.
pub(crate) async fn sessions(settings: Settings, command: SessionsCommand) -> Result<Exit> {
    let _ = (settings, command);
    Err(unconnected("sessions").into())
}

/// The scripted model server.
pub(crate) async fn mock_llm(arguments: MockLlmArguments) -> Result<Exit> {
    let _ = arguments;
    Err(unconnected("mock-llm").into())
}

fn unconnected(command: &str) -> Failure {
    Failure::failed(format!("`sysop {command}` is not part of this build; take one that has it"))
}

/// Looks for databases and providers by plain means: a file's first bytes, an open port.
pub(crate) struct Reach;

/// How long an open port may take to show itself.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// How each SQLite database begins (its documentation, "Database File Format", 1.3).
const SQLITE_HEADER: &[u8; 16] = b"SQLite format 3\0";

#[async_trait]
impl Probe for Reach {
    async fn database(&self, data: &Path) -> Result<String, String> {
        let path = data.join("sysop.db");
        let mut header = [0; SQLITE_HEADER.len()];
        let read =
            std::fs::File::open(&path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut header));
        match read {
            Ok(()) if header == *SQLITE_HEADER => Ok(shown(&path)),
            Ok(()) => Err(format!("{} is no database", shown(&path))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(format!("{} will be made when it is needed", shown(&path)))
            }
            Err(error) => Err(format!("{} cannot be read: {error}", shown(&path))),
        }
    }

    async fn models(&self, provider: &str, settings: &ProviderSettings) -> Result<Vec<String>, String> {
        let own = match provider {
            "openai" => "https://api.openai.com",
            "anthropic" => "https://api.anthropic.com",
            "gemini" => "https://generativelanguage.googleapis.com",
            "vertex" => "https://aiplatform.googleapis.com",
            _ => crate::pick::OLLAMA_ADDRESS,
        };
        let address = settings.base_url.as_deref().unwrap_or(own);
        let url = url::Url::parse(address).map_err(|error| format!("{address}: {error}"))?;
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().unwrap_or_default();
        let connected = tokio::time::timeout(CONNECT_TIME_MAX, tokio::net::TcpStream::connect((host, port)));
        match connected.await {
            Ok(Ok(_)) if provider == "ollama" => {
                Ok(crate::pick::installed_models(address).unwrap_or_default())
            }
            Ok(Ok(_)) => Ok(Vec::new()),
            Ok(Err(error)) => Err(format!("nobody answers at {host}:{port} ({error})")),
            Err(_) => Err(format!("nobody answers at {host}:{port}")),
        }
    }
}
