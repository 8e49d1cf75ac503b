//! The row of facts after a turn. Facts that do not fit on one row are left out, but are worded alike in each width.

use sysop_term::{StyleRole, TextRow};

use crate::render::{row, words, wrap};

/// Facts about a finished turn.
#[derive(Debug, Default)]
pub(super) struct TurnFacts<'a> {
    /// Host or hosts, as the session names them.
    pub(super) place: &'a str,
    pub(super) model: String,
    /// Other people and programs that read the output.
    pub(super) readers: Vec<String>,
    pub(super) exit_code: Option<i32>,
    pub(super) duration: Option<String>,
    /// Model calls, and the maximum per turn.
    pub(super) step: Option<(u32, u32)>,
    pub(super) tokens: Option<String>,
}

impl TurnFacts<'_> {
    /// Returns as many facts as fit on one row, or else the most important ones on several rows.
    pub(super) fn rows(&self, columns: usize) -> Vec<TextRow> {
        let forms = [self.parts(true, true), self.parts(false, true), self.parts(false, false)];
        let mut rows = forms.map(|parts| row(&format!("STATUS · {}", parts.join(" · ")), StyleRole::Dim));
        let fitting = rows.iter().position(|row| row.width() <= columns).unwrap_or(rows.len() - 1);
        wrap(&std::mem::take(&mut rows[fitting]), columns, 2)
    }

    fn parts(&self, with_step: bool, with_tokens: bool) -> Vec<String> {
        let mut parts = vec![words::host_summary(self.place), self.model.clone()];
        parts.extend(self.readers.iter().cloned());
        parts.extend(self.exit_code.map(|code| format!("exit code {code}")));
        parts.extend(self.duration.clone());
        parts.extend(self.step.filter(|_| with_step).map(|(step, most)| format!("step {step} of {most}")));
        parts.extend(self.tokens.as_ref().filter(|_| with_tokens).map(|tokens| format!("tokens {tokens}")));
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::TurnFacts;

    fn text(columns: usize) -> Vec<String> {
        let facts = TurnFacts {
            place: "web1",
            model: "openai/gpt-mock".into(),
            exit_code: Some(0),
            duration: Some("1.6 s".into()),
            step: Some((2, 20)),
            tokens: Some("2893 in, 44 out".into()),
            ..TurnFacts::default()
        };
        facts.rows(columns).iter().map(|row| row.text()).collect()
    }

    #[test]
    fn the_status_stays_on_one_row_and_words_its_facts_alike() {
        let long =
            "STATUS · web1 · openai/gpt-mock · exit code 0 · 1.6 s · step 2 of 20 · tokens 2893 in, 44 out";
        assert_eq!(text(119), [long]);
        assert_eq!(text(79), [long.replace(" · step 2 of 20", "")]);
        assert_eq!(text(59), ["STATUS · web1 · openai/gpt-mock · exit code 0 · 1.6 s"]);
        assert_eq!(text(39), ["STATUS · web1 · openai/gpt-mock · exit", "  code 0 · 1.6 s"]);
    }
}
