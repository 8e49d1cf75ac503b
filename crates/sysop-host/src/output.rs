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

/// Formats a number with thousands separators: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with a noun: `1 line`, `2 lines`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_separated() {
        let shown: Vec<String> = [0, 999, 1_000, 56_789, 1_234_567].into_iter().map(grouped).collect();
        assert_eq!(shown, ["0", "999", "1,000", "56,789", "1,234,567"]);
    }
}
