//! Processing of tool output: redacts secrets, keeps head and tail, and writes the full output to an artifact.
//!
//! Memory is bounded, whatever the amount of output.

pub(crate) mod artifacts;
pub(crate) mod capture;
pub(crate) mod head_tail;
pub(crate) mod images;
pub(crate) mod purge_session;
pub(crate) mod redact;
pub(crate) mod throttle;

/// Limits on the output that a model receives from one call. Notices about the output, such as the size of the gap or
/// the exit code, add a few dozen bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    pub bytes: usize,
    pub lines: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { bytes: 50 * 1024, lines: 500 }
    }
}
