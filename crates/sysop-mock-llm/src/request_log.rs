//! Keeps the newest requests for tests to look at. Never prints the value of a header: it may be a key.

use std::collections::VecDeque;
use std::fmt;

use serde_json::Value;

/// How many requests are kept; the oldest go first.
pub const RECORDED_REQUESTS_MAX: usize = 256;
/// How many bytes the bodies of the kept requests have together at most; the newest request is always kept.
pub const RECORDED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A request as it came.
#[derive(Clone, PartialEq)]
pub struct RecordedRequest {
    /// The HTTP method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query without its `?`; empty where there was none.
    pub query: String,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body; null where there was none or it was no JSON.
    pub body: Value,
}

impl RecordedRequest {
    /// The value of a header; `name` is in lower case.
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

/// The kept requests, oldest first.
#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    kept: VecDeque<(RecordedRequest, usize)>,
    bytes: usize,
}

impl RequestLog {
    /// Keeps a request whose body had so many bytes.
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
    fn the_record_is_bounded_in_number_and_bytes() {
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
    fn a_key_is_not_printed() {
        let request = request("/");
        assert_eq!(request.header("authorization"), Some("Bearer sk-secret"));
        assert!(!format!("{request:?}").contains("sk-secret"));
    }
}
