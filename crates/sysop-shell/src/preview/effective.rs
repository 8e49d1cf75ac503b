//! The program that a simple command ultimately runs, after assignments and programs such as `sudo` and `env`.

use super::scan::{Reason, Redirect, SimpleText, Word};

/// Maximum depth of wrappers and of `sh -c`.
const DEPTH_MAX: usize = 8;

/// Variables that change the behavior of the tools that a probe uses.
const SENSITIVE: &[&str] = &[
    "PATH", "IFS", "ENV", "HOME", "CDPATH", "GLOBIGNORE", "POSIXLY_CORRECT", "TMPDIR", "PWD", "OLDPWD",
    "SHELLOPTS", "BASHOPTS", "PS4", "OPTIND", "UID", "EUID", "PPID",
];

/// User as whom a command runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum RunsAs {
    #[default]
    Caller,
    /// With `sudo` or `doas`; `None` is root.
    Sudo(Option<String>),
}

/// A simple command without its wrappers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EffectiveCommand {
    /// Name of the program, without its directory.
    pub(super) program: String,
    pub(super) arguments: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
    pub(super) document: Option<Option<String>>,
    pub(super) runs_as: RunsAs,
}

/// Result of unwrapping a command.
pub(super) enum Unwrapped {
    Command(EffectiveCommand),
    /// The text of `sh -c TEXT`, and the user as whom it runs.
    Script(String, RunsAs),
    /// Only assignments: each name with its value.
    Assignments(Vec<(String, Word)>),
}

pub(super) fn unwrap(simple: &SimpleText, runs_as: &RunsAs) -> Result<Unwrapped, Reason> {
    let assigned = simple.words.iter().take_while(|word| assignment(word).is_some()).count();
    let mut words = simple.words.get(assigned..).unwrap_or(&[]);
    if words.is_empty() {
        return Ok(Unwrapped::Assignments(simple.words.iter().filter_map(assignment).collect()));
    }
    let mut runs_as = runs_as.clone();
    for name in simple.words.iter().take(assigned).filter_map(assignment).map(|(name, _)| name) {
        check_name(&name)?;
    }
    let mut wrapper = String::new();
    for _ in 0..DEPTH_MAX {
        let Some((first, rest)) = words.split_first() else {
            return match wrapper.as_str() {
                // Alone, it prints the variables.
                "env" => Ok(Unwrapped::Command(command(simple, wrapper, &[], runs_as))),
                _ => Err("the command names no program".to_owned()),
            };
        };
        let text = first.literal().ok_or("the program is not known before the command runs")?;
        let program = text.rsplit('/').next().unwrap_or(&text).to_owned();
        words = match program.as_str() {
            "sudo" => {
                let (user, rest) = sudo(rest)?;
                runs_as = RunsAs::Sudo(user);
                rest
            }
            "doas" => {
                runs_as = RunsAs::Sudo(None);
                skip_options(rest, &["n"], &[])?
            }
            "env" => skip_assignments(skip_options(rest, &["i", "-ignore-environment"], &[])?)?,
            "nice" => skip_options(rest, &[], &["n"])?,
            "ionice" => skip_options(rest, &["t"], &["c", "n"])?,
            "nohup" | "setsid" => skip_options(rest, &["f", "w", "p"], &[])?,
            "command" | "exec" | "builtin" => skip_options(rest, &[], &[])?,
            "stdbuf" => skip_options(rest, &[], &["o", "e", "i"])?,
            "timeout" => {
                let rest = skip_options(rest, &["-foreground", "-preserve-status", "v"], &["k", "s"])?;
                rest.get(1..).unwrap_or(&[])
            }
            "sh" | "bash" | "dash" if rest.first().is_some_and(takes_text) => {
                let script = rest
                    .get(1)
                    .and_then(Word::literal)
                    .ok_or("the script is not known before the command runs")?;
                if rest.len() > 2 {
                    return Err("the script has arguments".to_owned());
                }
                return Ok(Unwrapped::Script(script, runs_as));
            }
            _ => return Ok(Unwrapped::Command(command(simple, program, rest, runs_as))),
        };
        wrapper = program;
    }
    Err("the command is nested too deeply".to_owned())
}

fn command(simple: &SimpleText, program: String, arguments: &[Word], runs_as: RunsAs) -> EffectiveCommand {
    EffectiveCommand {
        program,
        arguments: arguments.to_vec(),
        redirects: simple.redirects.clone(),
        document: simple.document.clone(),
        runs_as,
    }
}

fn takes_text(word: &Word) -> bool {
    word.literal().is_some_and(|text| matches!(text.as_str(), "-c" | "-ec" | "-lc" | "-xc" | "-euc" | "-exc"))
}

/// Splits `NAME=VALUE`.
fn assignment(word: &Word) -> Option<(String, Word)> {
    let (name, _) = word.beginning().split_once('=')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = name.chars().all(plain) && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let value = word.without_beginning(name.len() + 1)?;
    is_name.then(|| (name.to_owned(), value))
}

/// Checks that a variable does not change the behavior of the tools that a probe uses.
pub(super) fn check_name(name: &str) -> Result<(), Reason> {
    let prefixes = ["LD_", "BASH_", "GIT_", "LC_", "LANG"];
    if SENSITIVE.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix)) {
        return Err(format!("the command sets {name}"));
    }
    Ok(())
}

/// Skips the options of a wrapper. `flags` take no value, `valued` take one, attached or as the next word.
fn skip_options<'a>(words: &'a [Word], flags: &[&str], valued: &[&str]) -> Result<&'a [Word], Reason> {
    let mut rest = words;
    while let Some((first, after)) = rest.split_first() {
        let Some(option) = first.literal().filter(|text| text.starts_with('-') && text.len() > 1) else {
            break;
        };
        if option == "--" {
            return Ok(after);
        }
        let name = option.get(1..).unwrap_or("");
        if flags.contains(&name) {
            rest = after;
        } else if valued.contains(&name) {
            rest = after.get(1..).unwrap_or(&[]);
        } else if name.starts_with(|c: char| c.is_ascii_digit())
            || valued.iter().any(|known| name.starts_with(known) && known.len() == 1)
        {
            rest = after;
        } else {
            return Err(format!("the option {option} is unknown"));
        }
    }
    Ok(rest)
}

fn skip_assignments(words: &[Word]) -> Result<&[Word], Reason> {
    let count = words.iter().take_while(|word| assignment(word).is_some()).count();
    for (name, _) in words.iter().take(count).filter_map(assignment) {
        check_name(&name)?;
    }
    Ok(words.get(count..).unwrap_or(&[]))
}

fn sudo(words: &[Word]) -> Result<(Option<String>, &[Word]), Reason> {
    let mut rest = words;
    let mut user = None;
    while let Some((first, after)) = rest.split_first() {
        let Some(option) = first.literal().filter(|text| text.starts_with('-')) else { break };
        rest = match option.as_str() {
            "--" => {
                rest = after;
                break;
            }
            "-n" | "-E" | "-H" | "-k" | "-b" | "--non-interactive" | "--preserve-env" | "-S" => after,
            "-u" => {
                user = after.first().and_then(Word::literal);
                after.get(1..).unwrap_or(&[])
            }
            _ => return Err(format!("the option {option} of sudo is unknown")),
        };
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    match user {
        Some(user) if user == "root" => Ok((None, skip_assignments(rest)?)),
        Some(user) if user.chars().all(plain) && !user.starts_with('-') && !user.is_empty() => {
            Ok((Some(user), skip_assignments(rest)?))
        }
        Some(_) => Err("the user of sudo is unknown".to_owned()),
        None => Ok((None, skip_assignments(rest)?)),
    }
}

/// The options and operands of a program.
#[derive(Debug, Default)]
pub(super) struct SplitArguments {
    /// Each option with its value. Long options begin with `-`: `-recursive`.
    pub(super) options: Vec<(String, Option<Word>)>,
    pub(super) operands: Vec<Word>,
}

impl SplitArguments {
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    pub(super) fn value(&self, names: &[&str]) -> Option<&Word> {
        self.options
            .iter()
            .rev()
            .find(|(name, _)| names.contains(&name.as_str()))
            .and_then(|(_, value)| value.as_ref())
    }
}

/// Splits the arguments of a program that takes options anywhere. `flags` and `valued` are the known short
/// options; `long` are the known long options, with `=` at the end if they need a value. An unknown option is
/// an error, because it could change everything.
pub(super) fn split(
    arguments: &[Word],
    flags: &str,
    valued: &str,
    long: &[&str],
) -> Result<SplitArguments, Reason> {
    let mut found = SplitArguments::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let beginning = word.beginning();
        if !beginning.starts_with('-') || beginning == "-" {
            found.operands.push(word.clone());
            continue;
        }
        let text = word.literal();
        if text.as_deref() == Some("--") {
            found.operands.extend(words.cloned());
            break;
        }
        if let Some(name) = beginning.strip_prefix("--") {
            let (name, attached) = match name.split_once('=') {
                Some((name, _)) => (name, word.without_beginning(name.len() + 3)),
                None => (name, None),
            };
            let valued = long.contains(&format!("{name}=").as_str());
            if !valued && (!long.contains(&name) || text.is_none()) {
                return Err(format!("the option --{name} is unknown"));
            }
            let value = match attached {
                Some(value) => Some(value),
                None if valued && !long.contains(&name) => words.next().cloned(),
                None => None,
            };
            found.options.push((format!("-{name}"), value));
            continue;
        }
        let mut letters = beginning.char_indices().skip(1);
        let mut is_complete = true;
        for (at, letter) in letters.by_ref() {
            if flags.contains(letter) {
                found.options.push((letter.to_string(), None));
            } else if valued.contains(letter) {
                let attached = word.without_beginning(at + letter.len_utf8());
                let attached = attached.filter(|value| value.literal().is_none_or(|text| !text.is_empty()));
                found.options.push((letter.to_string(), attached.or_else(|| words.next().cloned())));
                is_complete = false;
                break;
            } else {
                return Err(format!("the option -{letter} is unknown"));
            }
        }
        if is_complete && text.is_none() {
            return Err("an option is not known before the command runs".to_owned());
        }
    }
    Ok(found)
}
