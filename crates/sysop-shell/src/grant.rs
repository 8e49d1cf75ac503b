//! What "allow for this session" covers. Never more than one plain command's own kind.

use serde::{Deserialize, Serialize};

use super::lexer::{Lexer, Token};
use super::{Analysis, interpreter, wrapper};
use crate::risk::RiskClass;

/// What "for this session" allows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Exactly this command.
    Exact {
        /// The command, byte for byte.
        command: String,
    },
    /// Any plain command of this program and subcommand.
    Program {
        /// As in `git`.
        program: String,
        /// As in `status`; none where the program has no subcommands.
        subcommand: Option<String>,
    },
    /// Any call of this tool (file tools).
    Tool {
        /// The tool's name.
        name: String,
    },
}

/// Programs whose first argument says what they do, and the first arguments that do not say enough.
const WITH_SUBCOMMANDS: &[(&str, &[&str])] = &[
    (
        "git",
        &[
            "config",
            "remote",
            "stash",
            "submodule",
            "worktree",
            "bisect",
            "notes",
            "lfs",
            "reflog",
            "maintenance",
        ],
    ),
    ("systemctl", &[]),
    (
        "docker",
        &[
            "compose",
            "container",
            "image",
            "volume",
            "network",
            "system",
            "exec",
            "run",
            "context",
            "buildx",
            "builder",
            "swarm",
            "stack",
            "service",
        ],
    ),
    (
        "podman",
        &["compose", "container", "image", "volume", "network", "system", "exec", "run", "pod", "machine"],
    ),
    ("kubectl", &["exec", "run", "config", "rollout", "debug", "plugin", "auth", "certificate"]),
    ("apt", &[]),
    ("apt-get", &[]),
    ("apt-cache", &[]),
    ("dnf", &["module", "group", "history"]),
    ("yum", &["module", "group", "history"]),
    ("zypper", &[]),
    ("apk", &[]),
    ("brew", &["services"]),
    ("snap", &["run"]),
    ("flatpak", &["run"]),
    ("pip", &["config"]),
    ("pip3", &["config"]),
    ("npm", &["run", "run-script", "exec", "x", "config", "explore"]),
    ("pnpm", &["run", "exec", "dlx", "config"]),
    ("yarn", &["run", "exec", "dlx", "config"]),
    ("cargo", &["xtask"]),
    ("go", &["run", "tool", "generate"]),
    ("rustup", &["run", "override"]),
    ("helm", &["plugin", "repo"]),
    ("terraform", &["state", "workspace"]),
    ("gh", &["api", "alias", "extension", "repo", "secret", "codespace"]),
    ("timedatectl", &[]),
    ("hostnamectl", &[]),
    ("loginctl", &[]),
];

/// What "allow for this session" should cover for this command.
pub fn grant_for(command: &str, analysis: &Analysis) -> Grant {
    let exact = Grant::Exact { command: command.to_owned() };
    if analysis.risk.class > RiskClass::Changes {
        return exact;
    }
    let Some(words) = plain_words(command) else { return exact };
    match kind_of(&words) {
        Some((program, subcommand @ Some(_))) => Grant::Program { program, subcommand },
        Some((program, None)) if analysis.risk.class == RiskClass::ReadOnly => {
            Grant::Program { program, subcommand: None }
        }
        Some((_, None)) | None => exact,
    }
}

/// Whether a grant given earlier covers this command.
pub fn covers(grant: &Grant, command: &str, analysis: &Analysis) -> bool {
    match grant {
        Grant::Exact { command: exact } => exact == command,
        Grant::Program { program, subcommand } => {
            let most = if subcommand.is_some() { RiskClass::Changes } else { RiskClass::ReadOnly };
            let kind = plain_words(command).and_then(|words| kind_of(&words));
            analysis.risk.class <= most
                && kind.is_some_and(|kind| kind == (program.clone(), subcommand.clone()))
        }
        Grant::Tool { .. } => false,
    }
}

/// The words of one plain command: no expansion, no glob, no redirection, no assignment, nothing beside it.
fn plain_words(command: &str) -> Option<Vec<String>> {
    let mut lexer = Lexer::new(command, 0, &[]);
    let mut words = Vec::new();
    loop {
        match lexer.next().ok()? {
            Token::End => return Some(words),
            Token::Word(word) => {
                let literal = word.literal()?;
                if word.ansi || word.odd || word.history || word.value_at.is_some() && words.is_empty() {
                    return None;
                }
                words.push(literal.to_owned());
            }
            Token::Redirect(_) | Token::Operator(..) | Token::Comment => return None,
        }
    }
}

/// Program and subcommand, where a grant by name says what it allows.
fn kind_of(words: &[String]) -> Option<(String, Option<String>)> {
    let (program, arguments) = words.split_first()?;
    let plain = |text: &str| {
        text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'+'))
    };
    let runs_others = wrapper::is_wrapper(program) || interpreter::runs_programs(program);
    if !plain(program)
        || runs_others
        || matches!(program.as_str(), "rm" | "dd" | "mv" | "." | "eval" | "source")
    {
        return None;
    }
    let Some((_, vague)) = WITH_SUBCOMMANDS.iter().find(|(name, _)| name == program) else {
        return Some((program.clone(), None));
    };
    let subcommand = arguments.first()?;
    let named = plain(subcommand) && subcommand.starts_with(|c: char| c.is_ascii_lowercase());
    (named && !vague.contains(&subcommand.as_str())).then(|| (program.clone(), Some(subcommand.clone())))
}
