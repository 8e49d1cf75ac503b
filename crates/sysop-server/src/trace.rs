//! W3C Trace Context.

use std::fmt;

/// A validated `traceparent`: `00-<trace id>-<span id>-<flags>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceParent {
    text: String,
    own: bool,
}

impl TraceParent {
    /// Parses a `traceparent` header. Returns `None` if it is malformed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let hex = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let nothing = |part: &str| part.bytes().all(|byte| byte == b'0');
        let mut parts = text.trim().splitn(4, '-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let known = hex(version, 2) && version != "ff" && hex(trace, 32) && hex(span, 16);
        let flags = flags.get(..2).filter(|flags| hex(flags, 2))?;
        (known && !nothing(trace) && !nothing(span))
            .then(|| Self { text: format!("00-{trace}-{span}-{flags}"), own: false })
    }

    /// Starts a new, sampled trace.
    pub(crate) fn new() -> Self {
        let (trace, span) = (uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple().to_string());
        Self { text: format!("00-{trace}-{}-01", &span[..16]), own: true }
    }

    /// Returns true if the trace started in this process.
    pub(crate) fn is_own(&self) -> bool {
        self.own
    }

    pub(crate) fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.text[53..55], 16).is_ok_and(|flags| flags & 1 == 1)
    }

    pub(crate) fn span_id(&self) -> &str {
        &self.text[36..52]
    }

    pub(crate) fn trace_id(&self) -> &str {
        &self.text[3..35]
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::TraceParent;

    #[test]
    fn a_new_trace_id_is_valid() {
        let new = TraceParent::new().to_string();
        assert_eq!(TraceParent::parse(&new).map(|trace| trace.to_string()), Some(new));
    }

    #[test]
    fn only_standard_trace_headers_are_accepted() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(TraceParent::parse(good).unwrap().trace_id(), "0af7651916cd43dd8448eb211c80319c");
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-é",
        ] {
            assert_eq!(TraceParent::parse(bad), None, "{bad}");
        }
    }
}
