//! Yes-or-no questions on the terminal. Only an explicit yes counts.

use std::io::{self, BufRead, Read as _, Write};

use anyhow::{Context, Result};
use sysop_core::text::neutralize;

const ANSWER_BYTES_MAX: u64 = 1024;

/// Asks a question on standard error, without control characters, and adds the possible answers. Returns `None` if the
/// input ends before an answer.
pub(crate) fn ask(question: &str) -> Result<Option<bool>> {
    ask_on(question, &mut io::stderr().lock(), &mut io::stdin().lock())
}

fn ask_on(question: &str, output: &mut dyn Write, input: &mut dyn BufRead) -> Result<Option<bool>> {
    write!(output, "{} [y/N] ", neutralize(question))
        .and_then(|()| output.flush())
        .context("cannot show the prompt")?;
    let mut line = String::new();
    let read = input.take(ANSWER_BYTES_MAX).read_line(&mut line).context("cannot read the answer")?;
    Ok((read > 0).then(|| matches!(line.trim().to_lowercase().as_str(), "y" | "yes")))
}

#[cfg(test)]
mod tests {
    use super::ask_on;

    #[test]
    fn only_an_explicit_yes_counts() {
        for (typed, answer) in [
            ("y\n", Some(true)),
            (" YES \n", Some(true)),
            ("\n", Some(false)),
            ("yes please\n", Some(false)),
            ("n", Some(false)),
            ("", None),
        ] {
            let mut shown = Vec::new();
            assert_eq!(
                ask_on("Start \u{1b}[2J?", &mut shown, &mut typed.as_bytes()).unwrap(),
                answer,
                "{typed:?}"
            );
            assert_eq!(String::from_utf8(shown).unwrap(), "Start \\x1b[2J? [y/N] ");
        }
    }
}
