//! Sends a server's spans to an OpenTelemetry collector as OTLP JSON over HTTP. Disabled unless a collector is
//! configured.
//!
//! `docs/adr/0016` explains why the export is written by hand.

use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use sysop_server::spans::{ServiceInfo, Span, SpanRecorder, export_request};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::exit::CommandError;
use crate::settings::Settings;

/// Maximum number of spans per request.
const BATCH_MAX: usize = 512;
/// Time for which to collect spans for a batch.
const GATHER: Duration = Duration::from_millis(500);
/// Timeout for a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the last request when the server shuts down.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);

/// Standard environment variable with the OTLP endpoint for traces. It takes precedence over the config.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];

pub(crate) struct OtlpExporter {
    client: reqwest::Client,
    url: Url,
    headers: Vec<(String, SecretString)>,
    service: ServiceInfo,
    spans: Arc<SpanRecorder>,
    waiting: mpsc::Receiver<Span>,
}

impl OtlpExporter {
    /// Returns the exporter, or `None` if no collector is configured or `OTEL_SDK_DISABLED` is `true`. Fails if the
    /// collector's URL is invalid.
    pub(crate) fn new(settings: &Settings) -> Result<Option<Self>, CommandError> {
        let environment = &settings.environment;
        if environment.value("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let base = environment.value(ENDPOINT).or(settings.otlp_endpoint.as_deref());
        let url = match (environment.value(TRACES_ENDPOINT), base) {
            (Some(whole), _) => whole.to_owned(),
            (None, Some(base)) => format!("{}/v1/traces", base.trim_end_matches('/')),
            (None, None) => return Ok(None),
        };
        let url = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| {
            CommandError::usage(format!(
                "the collector endpoint ({ENDPOINT} or otlp_endpoint) is not an http:// URL"
            ))
        })?;
        let headers = environment.first(&HEADERS).map(|(_, value)| headers(value)).unwrap_or_default();
        let name = environment.value("OTEL_SERVICE_NAME").unwrap_or("sysop").to_owned();
        let service = ServiceInfo { name, version: env!("CARGO_PKG_VERSION").to_owned() };
        let (spans, waiting) = SpanRecorder::new();
        Ok(Some(Self { client: client(&url)?, url, headers, service, spans, waiting }))
    }

    pub(crate) fn spans(&self) -> Arc<SpanRecorder> {
        Arc::clone(&self.spans)
    }

    /// Sends spans until `stop` is canceled, then sends the remaining ones.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut batch = Vec::new();
        let mut reached = true;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = self.waiting.recv_many(&mut batch, BATCH_MAX) => {}
            }
            let more = async {
                tokio::time::sleep(GATHER).await;
                while batch.len() < BATCH_MAX
                    && let Ok(span) = self.waiting.try_recv()
                {
                    batch.push(span);
                }
            };
            let stopped = stop.run_until_cancelled(more).await.is_none();
            if stopped {
                break;
            }
            reached = self.send(&mut batch, TIMEOUT, reached).await;
        }
        while let Ok(span) = self.waiting.try_recv() {
            batch.push(span);
        }
        if !batch.is_empty() {
            self.send(&mut batch, LAST_TIMEOUT, reached).await;
        }
    }

    /// Sends a batch and returns true on success. If sending fails, the batch's spans are dropped.
    async fn send(&self, batch: &mut Vec<Span>, timeout: Duration, reached_before: bool) -> bool {
        let body = export_request(&self.service, batch).to_string();
        let count = batch.len();
        batch.clear();
        let mut request = self.client.post(self.url.clone()).timeout(timeout);
        for (name, value) in &self.headers {
            request = request.header(name, value.expose_secret());
        }
        let request = request.header(reqwest::header::CONTENT_TYPE, "application/json").body(body);
        let why = match request.send().await {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("HTTP status {}", response.status())),
            Err(error) => Some(error.without_url().to_string()),
        };
        let left_out = self.spans.left_out();
        if left_out > 0 {
            tracing::warn!(left_out, "spans dropped: the OTLP collector is too slow");
        }
        match &why {
            Some(why) if reached_before => {
                tracing::warn!(why, count, "cannot export spans to the OTLP collector")
            }
            Some(why) => tracing::debug!(why, count, "cannot export spans to the OTLP collector"),
            None if !reached_before => tracing::info!("exporting spans to the OTLP collector again"),
            None => {}
        }
        why.is_none()
    }
}

fn client(url: &Url) -> Result<reqwest::Client, CommandError> {
    // Fails only if the process already has a default provider, which is fine.
    rustls::crypto::ring::default_provider().install_default().ok();
    let mut builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    if matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| CommandError::failed(format!("cannot create the OTLP client: {error}")))
}

/// Parses `name=value,name=value` with percent-encoded values.
fn headers(text: &str) -> Vec<(String, SecretString)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| {
            // Parsed like a query value, except that a plus sign is literal.
            let value = format!("v={}", value.trim().replace('+', "%2B").replace('&', "%26"));
            let value = url::form_urlencoded::parse(value.as_bytes()).next();
            let value = value.map(|(_, value)| value.into_owned()).unwrap_or_default();
            (name.trim().to_owned(), SecretString::from(value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed_as_the_standard_specifies() {
        let read = headers("Authorization=Bearer%20a%2Cb+c==, x-scope = d&e,nothing");
        let read: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
        assert_eq!(read, [("Authorization", "Bearer a,b+c=="), ("x-scope", "d&e")]);
    }
}
