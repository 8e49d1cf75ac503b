//! Metrics in the OpenMetrics format. Labels come from small closed sets, never from names that clients choose.

use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upper bounds of the histogram buckets, in seconds.
const SECONDS: [f64; 10] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

type Labels<const N: usize> = [(&'static str, String); N];

pub(crate) struct Metrics {
    registry: Registry,
    sessions_created: Counter<u64, AtomicU64>,
    sessions_live: Gauge<i64, AtomicI64>,
    tasks: Gauge<i64, AtomicI64>,
    sockets: Gauge<i64, AtomicI64>,
    streams: Gauge<i64, AtomicI64>,
    messages_in: Counter<u64, AtomicU64>,
    messages_out: Counter<u64, AtomicU64>,
    sockets_dropped: Family<Labels<1>, Counter>,
    streams_dropped: Family<Labels<1>, Counter>,
    requests: Family<Labels<3>, Counter>,
    request_seconds: Family<Labels<1>, Histogram>,
    tool_calls: Family<Labels<2>, Counter>,
    tool_seconds: Family<Labels<1>, Histogram>,
    tool_output_bytes: Counter<u64, AtomicU64>,
}

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("sysop"),
            sessions_created: Counter::default(),
            sessions_live: Gauge::default(),
            tasks: Gauge::default(),
            sockets: Gauge::default(),
            streams: Gauge::default(),
            messages_in: Counter::default(),
            messages_out: Counter::default(),
            sockets_dropped: Family::default(),
            streams_dropped: Family::default(),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(seconds),
            tool_calls: Family::default(),
            tool_seconds: Family::new_with_constructor(seconds),
            tool_output_bytes: Counter::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("sessions_created", "Sessions created", self.sessions_created.clone());
        registry.register("sessions_live", "Sessions in memory", self.sessions_live.clone());
        registry.register("tasks", "Running tasks of all users", self.tasks.clone());
        registry.register("sockets", "Connected sockets", self.sockets.clone());
        registry.register("streams", "Connected event streams", self.streams.clone());
        registry.register("messages_received", "Messages from clients", self.messages_in.clone());
        registry.register("messages_sent", "Messages to clients", self.messages_out.clone());
        registry.register(
            "sockets_dropped",
            "Sockets closed by the server, by reason",
            self.sockets_dropped.clone(),
        );
        registry.register(
            "streams_dropped",
            "Event streams closed by the server, by reason",
            self.streams_dropped.clone(),
        );
        registry.register("http_requests", "Requests by route and status", self.requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time until the response to a request started",
            Unit::Seconds,
            self.request_seconds.clone(),
        );
        registry.register(
            "tool_calls",
            "Finished tool calls, by tool (`client` for client tools)",
            self.tool_calls.clone(),
        );
        registry.register_with_unit(
            "tool_call_duration",
            "Duration of tool calls",
            Unit::Seconds,
            self.tool_seconds.clone(),
        );
        registry.register_with_unit(
            "tool_output",
            "Output bytes of tool calls",
            Unit::Bytes,
            self.tool_output_bytes.clone(),
        );
    }

    /// Encodes all metrics as text. Must be called within a tokio runtime.
    pub(crate) fn text(&self, sessions_live: usize) -> String {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.sessions_live.set(count(sessions_live));
        self.tasks.set(count(tokio::runtime::Handle::current().metrics().num_alive_tasks()));
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string cannot fail");
        text
    }

    pub(crate) fn session_created(&self) {
        self.sessions_created.inc();
    }

    /// Counts an open socket until the returned guard is dropped.
    pub(crate) fn socket(&self) -> GaugeGuard {
        GaugeGuard::new(&self.sockets)
    }

    /// Counts an open event stream until the returned guard is dropped.
    pub(crate) fn stream(&self) -> GaugeGuard {
        GaugeGuard::new(&self.streams)
    }

    pub(crate) fn message_in(&self) {
        self.messages_in.inc();
    }

    pub(crate) fn message_out(&self) {
        self.messages_out.inc();
    }

    pub(crate) fn socket_dropped(&self, why: &'static str) {
        self.sockets_dropped.get_or_create(&[("reason", why.to_owned())]).inc();
    }

    pub(crate) fn stream_dropped(&self, why: &'static str) {
        self.streams_dropped.get_or_create(&[("reason", why.to_owned())]).inc();
    }

    pub(crate) fn request(&self, method: &str, route: &'static str, status: u16, took: Duration) {
        let labels =
            [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.get_or_create(&[("route", route.to_owned())]).observe(took.as_secs_f64());
    }

    pub(crate) fn tool_ended(&self, tool: &str, status: &'static str, took: Duration, output_bytes: usize) {
        let tool = ("tool", tool.to_owned());
        self.tool_calls.get_or_create(&[tool.clone(), ("status", status.to_owned())]).inc();
        self.tool_seconds.get_or_create(&[tool]).observe(took.as_secs_f64());
        self.tool_output_bytes.inc_by(output_bytes as u64);
    }
}

/// Increments a gauge, and decrements it again on drop.
pub(crate) struct GaugeGuard(Gauge<i64, AtomicI64>);

impl GaugeGuard {
    fn new(gauge: &Gauge<i64, AtomicI64>) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
