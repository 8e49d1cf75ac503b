//! Assessment of keys typed into a terminal, by the lines that they run.
//!
//! The effect of keys depends on the text at the cursor, which the host reports. At a shell prompt, the line is the
//! text already there plus the text typed. The line is assessed in the call that presses Enter, even if an earlier call
//! typed its text. A line that was edited, recalled or completed has an unknown text, and a line for a program other
//! than the shell has an unknown meaning: both are opaque.

use sysop_shell::{self as shell, Survey, TerminalFocus};

use super::{
    ApprovalMode, Assessment, Finding, Grant, Policy, Risk, RiskClass, RuleAction, Verdict, read_only_refusal,
};
use crate::key_stroke::{KeyStroke, Modifiers, SpecialKey, parse};
use crate::tool::ToolSpec;

/// Ex commands of a vi-like editor that are harmless, such as those that save, quit, move or show.
const EX_COMMANDS: &[&str] = &[
    "w", "q", "wq", "x", "q!", "w!", "wq!", "x!", "qa", "qa!", "wa", "wqa", "wqa!", "xa", "noh", "nohl",
    "nohlsearch", "set nu", "set nonu", "set number", "set nonumber", "set paste", "set nopaste", "set wrap",
    "set nowrap", "e!", "n", "N", "bn", "bp", "ls", "f", "p", "d", "help", "$",
];

impl Policy {
    /// Assesses keys for a terminal by the lines that they run.
    pub fn keys(
        &self,
        mode: ApprovalMode,
        grants: &[Grant],
        survey: &Survey,
        spec: &ToolSpec,
        keys: &str,
    ) -> Assessment {
        let typed = Typing::of(keys, &survey.terminal);
        let risk = self.risk_of_typing(&typed, survey);
        let covers = Grant::Tool { name: spec.name.clone() };
        if let Some(rule) = self.denies_keys(keys, survey) {
            return Assessment::denied_by(rule, risk, covers);
        }
        let granted = risk.class <= RiskClass::Changes && grants.contains(&covers);
        let asking = typed
            .lines
            .iter()
            .any(|line| self.restricting(RuleAction::Ask, survey, &shell::analyze(line, survey)).is_some());
        let verdict = if asking && mode != ApprovalMode::Never {
            Verdict::Ask
        } else {
            self.verdict(mode, risk.class, granted)
        };
        Assessment { verdict, risk, covers, refusal: read_only_refusal(verdict), rule: None }
    }

    /// Returns the rule that forbids these keys, if any.
    pub fn denies_keys(&self, keys: &str, survey: &Survey) -> Option<&str> {
        let typed = Typing::of(keys, &survey.terminal);
        self.denies(&typed.text, survey).or_else(|| {
            let lines = typed.lines.iter().find_map(|line| self.denies(line, survey));
            lines.or_else(|| self.denies(&typed.pending, survey))
        })
    }

    fn risk_of_typing(&self, typed: &Typing, survey: &Survey) -> Risk {
        let script = typed.lines.join("\n");
        let mut risk = match survey.terminal {
            TerminalFocus::FullScreen => self.dangers_of_lines(typed, survey),
            TerminalFocus::Program { .. } | TerminalFocus::Unknown | TerminalFocus::Prompt { .. } => {
                self.judge(&script, &shell::analyze(&script, survey))
            }
        };
        let mut note = |why: &str| {
            risk.class = risk.class.max(RiskClass::Opaque);
            risk.findings.push(Finding { start: 0, end: 0, class: RiskClass::Opaque, why: why.to_owned() });
        };
        for why in &typed.opaque {
            note(why);
        }
        let starts_program = typed.lines.split_last().is_some_and(|(_, before)| {
            before.iter().any(|line| shell::analyze(line, survey).risk.class > RiskClass::ReadOnly)
        });
        if starts_program && matches!(survey.terminal, TerminalFocus::Prompt { .. }) {
            note("types to a program started by an earlier line");
        }
        risk.class = risk.class.max(RiskClass::Changes);
        for finding in &mut risk.findings {
            (finding.start, finding.end) = (0, 0); // offsets refer to the line that runs, but the keys are shown
        }
        risk
    }

    /// Returns the findings in lines typed into a full-screen program, which may contain a shell. Most input of such a
    /// program is not a command, so lines with a single word and lines that cannot be parsed are ignored.
    fn dangers_of_lines(&self, typed: &Typing, survey: &Survey) -> Risk {
        let mut risk = Risk { class: RiskClass::Changes, findings: Vec::new() };
        for line in typed.lines.iter().filter(|line| line.trim().contains(' ')) {
            let found = self.judge(line, &shell::analyze(line, survey)).findings;
            let counts = |finding: &Finding| finding.class.always_asks() && finding.why != "cannot be parsed";
            risk.findings.extend(found.into_iter().filter(counts));
        }
        risk.class = risk.findings.iter().map(|finding| finding.class).fold(risk.class, RiskClass::max);
        risk
    }
}

/// Effect of keys on the line at the cursor.
#[derive(Debug, Default)]
struct Typing {
    /// Lines ended by Enter. The first one includes the text that was already at the prompt.
    lines: Vec<String>,
    /// The last line, which has not been run yet.
    pending: String,
    /// All typed characters, with Enter as a newline.
    text: String,
    /// Reasons why a part of the effect is unknown.
    opaque: Vec<&'static str>,
    /// True if the line was edited, so that its text is unknown.
    edited: bool,
    /// True if the shell may have exited.
    left: bool,
}

/// A key, classified by its effect on a line editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKey {
    Char(char),
    Enter,
    /// A form of Enter that may have another effect as well.
    OddEnter,
    /// Discards the line.
    Interrupt,
    /// End of input if the line is empty.
    EndOfInput,
    /// Leaves the line unchanged.
    Redraw,
    /// Leaves a mode of an editor; at a prompt, changes the meaning of the next key.
    Escape,
    /// Changes the line in a way that is not modeled.
    Edit,
}

impl Typing {
    fn of(keys: &str, focus: &TerminalFocus) -> Self {
        let mut typing = Self::default();
        if let TerminalFocus::Prompt { line, at_end } = focus {
            typing.pending.clone_from(line);
            typing.edited = !at_end && !line.is_empty();
        }
        for key in parse(keys).iter().flat_map(line_keys) {
            typing.press(key, focus);
        }
        if *focus == TerminalFocus::FullScreen && !is_plain_for_editor(&typing.pending) {
            typing.opaque.push("may make the program on the screen run a command");
        }
        typing
    }

    fn press(&mut self, key: LineKey, focus: &TerminalFocus) {
        match key {
            LineKey::Char(c) => {
                self.pending.push(c);
                self.text.push(c);
            }
            LineKey::Enter => self.enter(focus),
            LineKey::OddEnter => {
                self.edited = true;
                self.enter(focus);
            }
            LineKey::Interrupt => {
                self.pending.clear();
                self.edited = false;
            }
            LineKey::EndOfInput => self.left |= self.pending.is_empty() || self.edited,
            LineKey::Redraw => {}
            LineKey::Escape if *focus == TerminalFocus::FullScreen && !self.edited => self.pending.clear(),
            LineKey::Escape => self.edited = true,
            LineKey::Edit => self.edited = true,
        }
    }

    fn enter(&mut self, focus: &TerminalFocus) {
        let line = std::mem::take(&mut self.pending);
        let edited = std::mem::take(&mut self.edited);
        self.text.push('\n');
        let why = match focus {
            TerminalFocus::Unknown => Some("presses Enter while an unknown program is in the foreground"),
            TerminalFocus::Program { .. } => Some("sends a line to a program that may run it"),
            TerminalFocus::Prompt { .. } if self.left => {
                Some("presses Enter while an unknown program is in the foreground")
            }
            TerminalFocus::Prompt { .. } => {
                edited.then_some("runs a line that was edited or recalled from history")
            }
            TerminalFocus::FullScreen => {
                let plain = is_plain_for_editor(&line) && (!edited || line.is_empty());
                (!plain).then_some("may be a command for the program on the screen")
            }
        };
        self.opaque.extend(why);
        self.lines.push(line);
    }
}

/// Returns false if a line typed into a full-screen program may be a command of that program, such as `:!x`, `!x`,
/// `:call …` or a filter. Harmless commands such as `:w` and searches do not count.
fn is_plain_for_editor(line: &str) -> bool {
    let commands = [':', '!', '|', '@', '='];
    match line.split_once(':') {
        Some((before, command)) => {
            let number = !command.is_empty() && command.bytes().all(|b| b.is_ascii_digit());
            !before.contains(commands) && (number || EX_COMMANDS.contains(&command))
        }
        None => line.starts_with(['/', '?']) || !line.contains(commands),
    }
}

/// Translates a keystroke to the keys that a line editor receives.
fn line_keys(stroke: &KeyStroke) -> Vec<LineKey> {
    let plain = Modifiers::default();
    match stroke {
        KeyStroke::Text(text) => text.replace("\r\n", "\n").chars().map(typed_key).collect(),
        KeyStroke::Control(byte) => vec![match byte {
            b'\r' | b'\n' => LineKey::Enter,
            0x03 => LineKey::Interrupt,
            0x04 => LineKey::EndOfInput,
            0x0c => LineKey::Redraw,
            0x0f | 0x18 => LineKey::OddEnter, // operate-and-get-next; the prefix of edit-and-execute
            _ => LineKey::Edit,
        }],
        KeyStroke::Alt(text) if matches!(text.as_str(), "#" | "\r" | "\n" | "\u{f}") => {
            vec![LineKey::OddEnter]
        }
        KeyStroke::Alt(_) => vec![LineKey::Edit],
        KeyStroke::Key(SpecialKey::Enter, modifiers) if *modifiers == plain => vec![LineKey::Enter],
        KeyStroke::Key(SpecialKey::Enter, _) => vec![LineKey::OddEnter],
        KeyStroke::Key(SpecialKey::Escape, modifiers) if *modifiers == plain => vec![LineKey::Escape],
        KeyStroke::Key(..) => vec![LineKey::Edit],
    }
}

fn typed_key(c: char) -> LineKey {
    match c {
        '\n' | '\r' => LineKey::Enter,
        '\u{3}' => LineKey::Interrupt,
        '\u{4}' => LineKey::EndOfInput,
        c if c.is_control() => LineKey::Edit,
        c => LineKey::Char(c),
    }
}

#[cfg(test)]
mod tests {
    use sysop_shell::{CommandContext, RiskClass, Survey, TerminalFocus};

    use super::{Policy, Typing};

    fn class(keys: &str, terminal: TerminalFocus) -> RiskClass {
        let policy = Policy::new(&[r"\bsudo\b".to_owned()], &[]);
        let context = CommandContext {
            folder: Some("/home/ada/work".to_owned()),
            home: Some("/home/ada".to_owned()),
            ..CommandContext::bash()
        };
        let survey = Survey { terminal: terminal.clone(), ..Survey::elsewhere(context) };
        policy.risk_of_typing(&Typing::of(keys, &terminal), &survey).class
    }

    fn at_prompt(line: &str, keys: &str) -> RiskClass {
        class(keys, TerminalFocus::Prompt { line: line.to_owned(), at_end: true })
    }

    #[test]
    fn a_line_typed_over_several_calls_is_judged_whole() {
        for (line, keys, expected) in [
            ("", "rm Space -", RiskClass::Changes),
            ("rm -", "rf Space sub Enter", RiskClass::Dangerous),
            ("sudo", "Space touch Space F Enter", RiskClass::Dangerous),
            ("rm -rf sub", "Enter", RiskClass::Dangerous),
            ("rm -rf sub", "^M", RiskClass::Dangerous),
            ("rm -rf sub", "Ctrl+J", RiskClass::Dangerous),
            ("rm -rf sub", "\" \" Enter", RiskClass::Dangerous),
            ("rm -rf sub", "Ctrl+C", RiskClass::Changes),
            ("rm -rf sub", "Ctrl+C ls Enter", RiskClass::Changes),
            ("", "make Enter", RiskClass::Changes),
            ("", "cd Space build Enter make Enter", RiskClass::Changes),
            ("", "\"cd ~/.ssh\" Enter \"echo k > rc\" Enter", RiskClass::Lockout),
            ("", "q", RiskClass::Changes),
            ("", "Ctrl+L", RiskClass::Changes),
            ("", "Ctrl+D", RiskClass::Changes),
        ] {
            assert_eq!(at_prompt(line, keys), expected, "{line:?} {keys:?}");
        }
    }

    #[test]
    fn a_line_that_was_edited_or_recalled_is_opaque() {
        for keys in [
            "Up Enter",
            "Ctrl+R touch Enter",
            "lsx Backspace Enter",
            "rf Ctrl+A rm Space Enter",
            "ls Tab Enter",
            "Alt+. Enter",
            "ls Alt+Enter",
            "ls Escape # Enter",
            "Up Ctrl+O",
            "ls Ctrl+X Ctrl+E",
            "ls Left Enter",
            "F3 Enter",
            "Ctrl+Y Enter",
            "Ctrl+D ls Enter",
            "python3 Enter \"import os\" Enter",
        ] {
            assert!(at_prompt("", keys) >= RiskClass::Opaque, "{keys:?}");
        }
        let middle = TerminalFocus::Prompt { line: "rm -rf sub".to_owned(), at_end: false };
        assert!(class("Enter", middle) >= RiskClass::Opaque);
    }

    #[test]
    fn editing_without_enter_changes_nothing_yet() {
        for keys in ["Up", "Ctrl+R", "Backspace", "Tab", "Up Ctrl+C"] {
            assert_eq!(at_prompt("", keys), RiskClass::Changes, "{keys:?}");
        }
    }

    #[test]
    fn keys_sent_to_an_editor_are_not_shell_code() {
        for keys in [
            "dd", "$", "{", "G o hello Enter", ":wq Enter", "Escape :q! Enter", "i hello Escape :w Enter",
            "j", "/word Enter", ":12 Enter", "Down Down Enter", "Ctrl+D", "q",
        ] {
            assert_eq!(class(keys, TerminalFocus::FullScreen), RiskClass::Changes, "{keys:?}");
        }
        for keys in [
            ":!ls Enter", ":", ":! Space ls Enter", "!ls Enter", "!", "dd:call Space x() Enter",
            ":w Space !sh Enter", "q: Enter", ":r !x Enter", "@: Enter", ": Left call Enter", "!}sort Enter",
        ] {
            assert!(class(keys, TerminalFocus::FullScreen) >= RiskClass::Opaque, "{keys:?}");
        }
        assert_eq!(class("\"rm -rf sub\" Enter", TerminalFocus::FullScreen), RiskClass::Dangerous);
    }

    #[test]
    fn a_line_for_a_program_is_opaque_and_a_key_is_not() {
        for terminal in [TerminalFocus::Unknown, TerminalFocus::Program { name: "python3".to_owned() }] {
            for keys in ["q", "y", "Space", "Ctrl+C", "Ctrl+D", "Down"] {
                assert_eq!(class(keys, terminal.clone()), RiskClass::Changes, "{keys:?}");
            }
            for keys in ["\"import os\" Enter", "Enter", "y Enter", "\"x\n\""] {
                assert!(class(keys, terminal.clone()) >= RiskClass::Opaque, "{keys:?}");
            }
        }
    }
}
