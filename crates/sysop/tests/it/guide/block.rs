//! Code blocks of a page, and the marks that say how each is checked.

/// A code block, or a comment that prepares the page.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) line: usize,
    pub(super) check: Check,
    pub(super) text: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Check {
    Run { exit: i32 },
    Background { until: String },
    Screen { shows: String },
    Elsewhere { file: String },
    Output,
    Config,
    ConfigOnly,
    Show,
}

/// Returns the blocks of a page.
///
/// # Errors
/// A block has no mark, or one that does not fit its language.
pub(super) fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let line = line.trim_start();
        let (check, end) = if line == "<!-- run" {
            (Check::Run { exit: 0 }, "-->")
        } else if let Some(info) = line.strip_prefix("```") {
            (check(info).map_err(|why| format!("line {}: {why}", number + 1))?, "```")
        } else {
            continue;
        };
        let text: Vec<_> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != end).collect();
        found.push(Block { line: number + 1, check, text: text.join("\n") });
    }
    Ok(found)
}

/// Parses an info string, such as `sh run exit=3`.
fn check(info: &str) -> Result<Check, String> {
    let words = shell_words::split(info).map_err(|error| error.to_string())?;
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let value = |word: &str, name: &str| word.strip_prefix(name).map(str::to_owned);
    match words[..] {
        ["sh", "run"] => Ok(Check::Run { exit: 0 }),
        ["sh", "run", exit] => {
            let exit = value(exit, "exit=").and_then(|code| code.parse().ok());
            exit.map(|exit| Check::Run { exit }).ok_or_else(|| format!("expected exit=N in `{info}`"))
        }
        ["sh", "background", until] => value(until, "until=")
            .map(|until| Check::Background { until })
            .ok_or_else(|| format!("expected until=TEXT in `{info}`")),
        ["sh", "screen", shows] => value(shows, "shows=")
            .map(|shows| Check::Screen { shows })
            .ok_or_else(|| format!("expected shows=TEXT in `{info}`")),
        [_, file] if file.starts_with("elsewhere=") => {
            Ok(Check::Elsewhere { file: value(file, "elsewhere=").unwrap_or_default() })
        }
        ["text", "output"] => Ok(Check::Output),
        ["toml", "config"] => Ok(Check::Config),
        ["toml", "check"] => Ok(Check::ConfigOnly),
        [language, "show"] if language != "sh" => Ok(Check::Show),
        // The schemas of the protocol are generated.
        ["json"] => Ok(Check::Show),
        _ => Err(format!("the block `{info}` says neither how it is run nor that it is only shown")),
    }
}

impl Block {
    /// Checks that the lines of this block are in an output, in this order.
    pub(super) fn expect_output(&self, output: &str) {
        let mut lines = output.lines();
        for wanted in self.text.lines().filter(|line| !line.trim().is_empty()) {
            let fits = lines.any(|line| matches(wanted.trim_end(), line.trim_end()));
            assert!(fits, "`{wanted}` is missing from this output, or out of order:\n{output}");
        }
    }
}

/// Returns true if a line is this text, in which `…` stands for any text.
fn matches(wanted: &str, line: &str) -> bool {
    let mut parts = wanted.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let parts: Vec<_> = parts.collect();
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        match (is_last, rest.find(part)) {
            (true, _) => return rest.ends_with(part),
            (false, Some(at)) => rest = &rest[at + part.len()..],
            (false, None) => return false,
        }
    }
    rest.is_empty()
}
