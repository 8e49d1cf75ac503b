//! What becomes of a tool's output: secrets replaced, head and tail kept, the whole put aside.
//!
//! Memory stays bounded however much comes. Nothing here knows where the bytes come from.

pub(crate) mod artifacts;
pub(crate) mod capture;
pub(crate) mod head_tail;
pub(crate) mod purge_session;
pub(crate) mod redact;
pub(crate) mod throttle;

/// How much of a tool's output the model is told. What is said about the output (the gap, the exit code)
/// comes on top, in a few dozen bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// The most bytes of text.
    pub bytes: usize,
    /// The most lines.
    pub lines: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { bytes: 50 * 1024, lines: 500 }
    }
}

/// A number with its thousands set apart: `1,234,567`.
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

/// `1 line`, `2 lines`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_set_apart() {
        let shown: Vec<String> = [0, 999, 1_000, 56_789, 1_234_567].into_iter().map(grouped).collect();
        assert_eq!(shown, ["0", "999", "1,000", "56,789", "1,234,567"]);
    }
}
