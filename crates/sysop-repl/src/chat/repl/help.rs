//! `/help`: the commands in groups, and the keys.

use std::io;

use sysop_term::StyleRole;
use sysop_term::cells::width;
use sysop_term::command::COMMANDS;

use super::Repl;
use crate::chat::ReplLayout;
use crate::render::{PANEL_COLUMNS_MAX, row, wrap};

/// Column at which the descriptions begin.
const DESCRIPTION_COLUMN: usize = 28;
/// Indent of a description on a row of its own if the terminal is narrow.
const NARROW_INDENT: usize = 6;
const NARROW_COLUMNS: usize = 2 * DESCRIPTION_COLUMN;

const GROUPS: &[(&str, &[&str])] = &[
    (
        "Session",
        &[
            "/help", "/status", "/cost", "/new", "/sessions", "/resume", "/fork", "/clear", "/compact",
            "/export", "/exit",
        ],
    ),
    ("Turn", &["/pause", "/stop", "/retry", "/plan", "/background", "/jobs"]),
    ("Model", &["/model", "/effort", "/mode", "/init", "/trust", "/mcp"]),
    ("Approval", &["/approve", "/auto", "/permissions"]),
    ("Host and commands", &["/host", "/cmd", "/shell", "/keys", "/run", "/routines", "/output", "/undo"]),
    ("TUI", &["/theme"]),
];

const LINES: &[(&str, &str)] = &[
    ("TEXT", "Send a message to the model"),
    ("!COMMAND", "Run a command without the model"),
    ("@FILE", "Mention a file; an image is attached"),
];

/// Keys of the panel layout.
const KEYS: &[(&str, &str)] = &[
    ("Alt+Enter, Ctrl+J", "New line (also \\ at the end of the line)"),
    ("Tab", "Complete commands, their arguments and @FILE"),
    ("↑ ↓, Ctrl+R", "Earlier lines; search them"),
    ("Ctrl+C", "Clear the line, or stop the turn; twice: quit"),
    ("Ctrl+P", "Pause the turn; in an empty line, resume it"),
    ("Ctrl+\\", "Pause the turn; again: open the session's terminal"),
    ("Ctrl+]", "Return from the session's terminal"),
    ("Ctrl+Z", "Suspend sysop"),
    ("Ctrl+D", "Quit; during a turn, after it"),
];

/// Keys of the plain layout.
const PLAIN_KEYS: &[(&str, &str)] = &[
    ("Ctrl+C", "Clear the line, or stop the turn; twice: quit"),
    ("Ctrl+\\", "Pause the turn"),
    ("Ctrl+D", "Quit"),
];

impl Repl {
    pub(super) fn help(&mut self) -> io::Result<()> {
        let columns = self.screen.render_options().width.saturating_sub(1).min(PANEL_COLUMNS_MAX);
        let keys = match self.context.form {
            ReplLayout::Panels { .. } => KEYS,
            ReplLayout::Plain => PLAIN_KEYS,
        };
        let text = help_text(keys, &self.skills.help(), columns);
        self.view.say(text.trim_end(), StyleRole::Text, &mut self.screen)
    }
}

/// Place of the guide.
const GUIDE: [(&str, &str); 1] = [("sysop serve", "Its page has the guide at /help/")];

/// Returns the help. `skills` are the names and descriptions of skills and custom commands.
fn help_text(keys: &[(&str, &str)], skills: &[(String, String)], columns: usize) -> String {
    let command = |name: &&str| COMMANDS.iter().find(|(known, ..)| known == name);
    let mut out = String::new();
    section("Input", LINES.iter().map(|(what, text)| ((*what).to_owned(), *text)), columns, &mut out);
    section("Keys", keys.iter().map(|(key, text)| ((*key).to_owned(), *text)), columns, &mut out);
    for (title, names) in GROUPS {
        let entries = names.iter().filter_map(command);
        section(
            title,
            entries.map(|(name, arguments, text)| (format!("{name} {arguments}"), *text)),
            columns,
            &mut out,
        );
    }
    if !skills.is_empty() {
        section(
            "Skills and custom commands",
            skills.iter().map(|(name, text)| (format!("/{name}"), text.as_str())),
            columns,
            &mut out,
        );
    }
    section("Guide", GUIDE.map(|(what, text)| (what.to_owned(), text)).into_iter(), columns, &mut out);
    out
}

fn section<'a>(
    title: &str,
    entries: impl Iterator<Item = (String, &'a str)>,
    columns: usize,
    out: &mut String,
) {
    out.push_str(&format!("{title}\n"));
    let column = if columns < NARROW_COLUMNS { NARROW_INDENT } else { DESCRIPTION_COLUMN };
    for (name, text) in entries {
        let name = format!("  {}", name.trim_end());
        let fits = width(&name) + 2 <= column;
        let names = wrap(&row(&name, StyleRole::Text), columns, NARROW_INDENT);
        let texts = wrap(&row(text, StyleRole::Text), columns.saturating_sub(column).max(1), 0);
        let mut texts = texts.iter().map(|text| text.text());
        if fits {
            let gap = " ".repeat(column - width(&name));
            out.push_str(&format!("{name}{gap}{}\n", texts.next().unwrap_or_default()));
        } else {
            out.extend(names.iter().map(|name| format!("{}\n", name.text().trim_end())));
        }
        out.extend(texts.map(|text| format!("{}{text}\n", " ".repeat(column))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut known: Vec<&str> = COMMANDS.iter().map(|(name, ..)| *name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn the_help_fits_every_width() {
        let skills =
            [("check-disk".to_owned(), "Find what fills a disk, on one host or on several".to_owned())];
        for columns in [40, 60, 79, 119] {
            for keys in [KEYS, PLAIN_KEYS] {
                let text = help_text(keys, &skills, columns);
                assert!(text.lines().all(|line| width(line) <= columns), "{columns}: {text}");
            }
        }
        let text = help_text(KEYS, &skills, 79);
        assert!(
            text.ends_with("Guide\n  sysop serve               Its page has the guide at /help/\n"),
            "{text}"
        );
        let entry = "  /effort none|minimal|low|medium|high|xhigh\n                            Set the reasoning effort\n";
        assert!(text.contains(entry), "{text}");
        assert!(text.contains("\n  /undo [CALL]              Undo the last change"), "{text}");
    }
}
