//! Names of programs that draw on a whole screen and read keys. Without a terminal, they fail or wait in vain.

use crate::context::{CommandContext, Survey};

/// Programs with the same options.
struct Programs {
    names: &'static [&'static str],
    /// Short options with which these programs need no terminal.
    batch: &'static str,
    /// Short options that take a value, attached or in the next word.
    valued: &'static str,
    /// Whole words, up to a `=`, with which these programs need no terminal.
    words: &'static [&'static str],
}

const NEED_TERMINAL: &[Programs] = &[
    Programs { names: &["top"], batch: "bl", valued: "dEnopuUw", words: &[] },
    Programs { names: &["iotop"], batch: "b", valued: "dnpu", words: &["--batch"] },
    Programs {
        names: &["glances"],
        batch: "qsw",
        valued: "BCfptu",
        words: &["--export", "--quiet", "--stdout", "--stdout-csv", "--stdout-json"],
    },
    Programs { names: &["nmon"], batch: "fFxXz", valued: "cs", words: &[] },
    Programs { names: &["ncdu"], batch: "o", valued: "fo", words: &[] },
    Programs {
        names: &["vi", "vim", "nvim", "view", "vimdiff"],
        batch: "eE",
        valued: "cistTuUwW",
        words: &["--headless"],
    },
    Programs {
        names: &["emacs"],
        batch: "",
        valued: "",
        words: &["-batch", "--batch", "-script", "--script", "--daemon"],
    },
    Programs {
        names: &[
            "nano", "pico", "joe", "mcedit", "micro", "htop", "btop", "atop", "mc", "tig", "nmtui",
            "lazygit", "k9s",
        ],
        batch: "",
        valued: "",
        words: &[],
    },
];

const WINDOW_MANAGERS: [&str; 2] = ["screen", "tmux"];

/// Short options of screen and of tmux that take a value.
const SCREEN_VALUED: &str = "cehpsStT";
const TMUX_VALUED: &str = "LSTfcentsxyF";

/// Returns the first program of a command that needs a terminal, if there is one.
pub fn full_screen_program(command: &str) -> Option<&'static str> {
    let analysis = crate::analyze(command, &Survey::elsewhere(CommandContext::bash()));
    analysis.invocations.iter().find_map(|invocation| {
        let (program, arguments) = invocation.words.split_first()?;
        let name = program.as_deref()?.rsplit('/').next()?;
        let words: Vec<&str> = arguments.iter().map(|word| word.as_deref().unwrap_or_default()).collect();
        if words.contains(&"--help") || words.contains(&"--version") {
            return None;
        }
        if let Some(manager) = WINDOW_MANAGERS.iter().find(|manager| **manager == name) {
            let attaches = if name == "screen" { screen_attaches(&words) } else { tmux_attaches(&words) };
            return attaches.then_some(*manager);
        }
        NEED_TERMINAL.iter().find_map(|programs| {
            let known = programs.names.iter().find(|known| **known == name)?;
            (!is_batch(programs, &words)).then_some(*known)
        })
    })
}

fn is_batch(programs: &Programs, words: &[&str]) -> bool {
    let (flags, _) = flags_and_operands(words, programs.valued);
    let is_known = |word: &&str| programs.words.contains(&word.split('=').next().unwrap_or(word));
    flags.chars().any(|flag| programs.batch.contains(flag)) || words.iter().any(is_known)
}

/// Returns true if screen creates a session and shows it, or attaches to one. `-d` alone detaches one, and `-d -m`
/// creates one in the background.
fn screen_attaches(words: &[&str]) -> bool {
    let (flags, _) = flags_and_operands(words, SCREEN_VALUED);
    let has = |some: &[char]| flags.contains(some);
    let (lists_or_sends, attaches, detaches) =
        (has(&['l', 'w', 'v', 'X', 'Q']), has(&['r', 'R', 'x']), has(&['d', 'D']));
    !lists_or_sends && (attaches || !detaches)
}

/// Returns true if tmux creates a session and shows it, or attaches to one.
fn tmux_attaches(words: &[&str]) -> bool {
    let (flags, operands) = flags_and_operands(words, TMUX_VALUED);
    match operands.first() {
        None => !flags.contains(['c', 'V']),
        Some(command) if command.starts_with("new") => {
            (*command == "new" || "new-session".starts_with(command)) && !flags.contains('d')
        }
        Some(command) => "attach-session".starts_with(command),
    }
}

/// Returns the short options, without their values, and the operands.
fn flags_and_operands<'a>(words: &[&'a str], valued: &str) -> (String, Vec<&'a str>) {
    let (mut flags, mut operands) = (String::new(), Vec::new());
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        match word.strip_prefix('-').filter(|cluster| !cluster.is_empty()) {
            None => operands.push(*word),
            Some(cluster) if cluster.starts_with('-') => {}
            Some(cluster) => match cluster.find(|flag| valued.contains(flag)) {
                None => flags.push_str(cluster),
                Some(at) => {
                    flags.push_str(&cluster[..=at]);
                    if at + 1 == cluster.len() {
                        words.next_if(|value| !value.starts_with('-'));
                    }
                }
            },
        }
    }
    (flags, operands)
}

#[cfg(test)]
mod tests {
    use super::full_screen_program;

    #[test]
    fn a_program_that_draws_on_the_screen_is_named() {
        for (command, program) in [
            ("vi /etc/hosts", Some("vi")),
            ("cd /etc && sudo -u joe /usr/bin/vim hosts", Some("vim")),
            ("top", Some("top")),
            ("echo vi", None),
            ("ls", None),
        ] {
            assert_eq!(full_screen_program(command), program, "{command}");
        }
    }

    #[test]
    fn a_program_whose_options_keep_it_off_the_screen_needs_no_terminal() {
        for command in [
            "top -b -n1",
            "top -bn1",
            "top -d1 -b",
            "iotop -bon 3",
            "vim --version",
            "vim -es x",
            "nvim --headless +q",
            "emacs -batch -l x.el",
            "ncdu -xo- /",
            "glances --export=csv",
            "screen -ls",
            "screen -dmS x",
            "screen -d -m -S x sleep 9",
            "screen -S x -X quit",
            "screen -wipe",
            "screen -d x",
            "tmux ls",
            "tmux kill-server",
            "tmux new -d -s work",
            "tmux -L lab new-session -ds work",
            "tmux send-keys -t work q",
            "tmux new-window",
            "tmux -V",
        ] {
            assert_eq!(full_screen_program(command), None, "{command}");
        }
    }

    #[test]
    fn an_option_that_means_something_else_to_a_program_does_not_hide_it() {
        for command in [
            "top -d 1", "top -u bob", "top -ubob", "htop -d 5", "vim -d a b", "vim -b f",
            "vim -c 'set et' f", "emacs -nw x", "screen", "screen -S x", "screen -r", "screen -d -r x",
            "screen -DR", "screen -x work", "tmux", "tmux a", "tmux attach -d -t work", "tmux new -s dev",
            "tmux new -As main", "tmux -L lab",
        ] {
            let name = command.split(' ').next();
            assert_eq!(full_screen_program(command), name, "{command}");
        }
    }
}
