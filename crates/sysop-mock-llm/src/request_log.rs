//! Records recent requests for tests to inspect. `Debug` never prints header values, which may be keys.

use std::collections::VecDeque;
use std::fmt;

use serde_json::Value;

/// Maximum number of recorded requests; the oldest are dropped first.
pub const RECORDED_REQUESTS_MAX: usize = 256;
/// Maximum total bytes of recorded bodies. The oldest requests are dropped first; the newest is always kept.
pub const RECORDED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A request as the server received it.
#[derive(Clone, PartialEq)]
pub struct RecordedRequest {
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Query without its `?`; empty if there was none.
    pub query: String,
    /// Lowercase names of the headers, with their values.
    pub headers: Vec<(String, String)>,
    /// Body as JSON; null if there is none or it is not JSON.
    pub body: Value,
}

impl RecordedRequest {
    /// Returns the value of a header; `name` must be lowercase.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("RecordedRequest")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("query", &self.query)
            .field("header_names", &names)
            .field("body", &self.body)
            .finish()
    }
}

/// Recorded requests, oldest first.
#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    kept: VecDeque<(RecordedRequest, usize)>,
    bytes: usize,
}

impl RequestLog {
    /// Records a request whose body had `body_bytes` bytes, and drops the oldest requests beyond the limits.
    pub(crate) fn push(&mut self, request: RecordedRequest, body_bytes: usize) {
        self.kept.push_back((request, body_bytes));
        self.bytes += body_bytes;
        while self.kept.len() > RECORDED_REQUESTS_MAX
            || (self.bytes > RECORDED_BYTES_MAX && self.kept.len() > 1)
        {
            let dropped = self.kept.pop_front().map_or(0, |(_, bytes)| bytes);
            self.bytes -= dropped;
        }
    }

    pub(crate) fn all(&self) -> Vec<RecordedRequest> {
        self.kept.iter().map(|(request, _)| request.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str) -> RecordedRequest {
        RecordedRequest {
            method: "POST".to_owned(),
            path: path.to_owned(),
            query: String::new(),
            headers: vec![("authorization".to_owned(), "Bearer sk-secret".to_owned())],
            body: Value::Null,
        }
    }

    #[test]
    fn the_request_log_is_bounded_in_number_and_bytes() {
        let mut record = RequestLog::default();
        for number in 0..RECORDED_REQUESTS_MAX + 3 {
            record.push(request(&number.to_string()), 1);
        }
        assert_eq!(record.all().len(), RECORDED_REQUESTS_MAX);
        assert_eq!(record.all()[0].path, "3");
        record.push(request("huge"), RECORDED_BYTES_MAX);
        assert_eq!(record.all().len(), 1);
        record.push(request("small"), 1);
        assert_eq!(record.all()[0].path, "small");
    }

    #[test]
    fn debug_output_hides_the_key() {
        let request = request("/");
        assert_eq!(request.header("authorization"), Some("Bearer sk-secret"));
        assert!(!format!("{request:?}").contains("sk-secret"));
    }
}
