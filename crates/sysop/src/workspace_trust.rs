//! Asks the user to trust a workspace's config file, before anything else happens in the workspace.
//!
//! Only an explicit yes counts. The answer is saved with the file's hash. Without a yes, the file can only make
//! settings stricter.

use std::io::{BufRead, Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use sysop_core::text::neutralize;

use crate::config::{TrustDecision, UntrustedWorkspace, display_path, save_trust};

const LINES_SHOWN_MAX: usize = 20;

const ANSWER_BYTES_MAX: u64 = 1024;

/// Asks the user and saves the answer. Returns `None` if the input ends before an answer. Fails if the
/// question cannot be asked or the answer cannot be saved.
pub(crate) fn ask(
    data: &Path,
    file: &UntrustedWorkspace,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<Option<TrustDecision>> {
    write!(output, "{}", neutralize(&question(file)))
        .and_then(|()| output.flush())
        .context("cannot ask whether to trust the workspace")?;
    let mut line = String::new();
    let read = input.take(ANSWER_BYTES_MAX).read_line(&mut line).context("cannot read the answer")?;
    if read == 0 {
        return Ok(None);
    }
    let answer = match line.trim().to_lowercase().as_str() {
        "y" | "yes" => TrustDecision::Trusted,
        _ => TrustDecision::Refused,
    };
    save_trust(data, file, answer)
        .with_context(|| format!("cannot save the answer to {}", display_path(data)))?;
    Ok(Some(answer))
}

fn question(file: &UntrustedWorkspace) -> String {
    let mut text = format!("{} contains settings that need your trust:\n", display_path(&file.path));
    for line in file.left_out.iter().take(LINES_SHOWN_MAX) {
        text.push_str("  ");
        text.push_str(line);
        text.push('\n');
    }
    if let more @ 1.. = file.left_out.len().saturating_sub(LINES_SHOWN_MAX) {
        text.push_str(&format!("  and {more} more\n"));
    }
    text.push_str(
        "The file is part of this workspace and may have been written by someone else. Trust it? [y/N] ",
    );
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::ask;
    use crate::config::{TrustDecision, UntrustedWorkspace};

    fn answered(input: &str) -> (Option<TrustDecision>, String, bool) {
        let data = tempfile::tempdir().unwrap();
        let file = UntrustedWorkspace {
            path: PathBuf::from("/w\u{1b}[2J/.sysop.toml"),
            hash: "h".to_owned(),
            left_out: (0..25).map(|number| format!("routines.r{number}.cmd = \"x\"")).collect(),
            refused: false,
        };
        let mut output = Vec::new();
        let answer = ask(data.path(), &file, &mut input.as_bytes(), &mut output).unwrap();
        (answer, String::from_utf8(output).unwrap(), data.path().join("trust.toml").exists())
    }

    #[test]
    fn only_an_explicit_yes_grants_trust() {
        for yes in ["y\n", "Yes\n", " y \n"] {
            assert_eq!((answered(yes).0, answered(yes).2), (Some(TrustDecision::Trusted), true), "{yes:?}");
        }
        for no in ["\n", "n\n", "yy\n", "why?\n", &"y".repeat(5000)] {
            assert_eq!((answered(no).0, answered(no).2), (Some(TrustDecision::Refused), true), "{no:?}");
        }
        assert_eq!((answered("").0, answered("").2), (None, false));
    }

    #[test]
    fn the_trust_question_shows_the_effects_escaped() {
        let (_, text, _) = answered("\n");
        assert!(text.contains("  routines.r19.cmd = \"x\"\n  and 5 more\n"), "{text}");
        assert!(text.ends_with("[y/N] ") && !text.contains('\u{1b}'), "{text}");
    }
}
