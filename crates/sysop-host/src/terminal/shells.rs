//! What is typed into a shell so that it tells where its commands begin and end, and how a command is written
//! so that any shell takes it as one short line.
//!
//! Marks are `OSC 7717 ; KEY ; …`. The key is random for each shell, and the end of a command carries a nonce
//! that was made for this command: what a program prints cannot be taken for either.

use std::fmt::Write as _;

/// The longest line typed at a prompt that is no line editor's, or a small one: the system takes 4,095 bytes,
/// busybox as few as 1,024.
const PLAIN_LINE_BYTES_MAX: usize = 900;
/// The longest line typed into a full line editor.
const EDITED_LINE_BYTES_MAX: usize = 3000;

/// Kinds of shells, by what has to be typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShellKind {
    Bash,
    Zsh,
    Fish,
    /// Busybox, whose editor counts the letters of the prompt.
    Ash,
    /// dash, ksh and whatever else expands parameters in its prompt.
    Posix,
    /// csh and tcsh: nothing tells the end of a command.
    Csh,
}

impl ShellKind {
    /// By the name of its program: `/usr/bin/bash`, `-zsh`, `busybox`.
    pub(crate) fn of_program(path: &str) -> Option<Self> {
        let name = path.trim().rsplit('/').next().unwrap_or_default();
        let name = name.trim_start_matches('-');
        let name = name.split([' ', '.']).next().unwrap_or_default();
        match name {
            "bash" | "rbash" => Some(Self::Bash),
            "zsh" | "rzsh" => Some(Self::Zsh),
            "fish" => Some(Self::Fish),
            "busybox" | "ash" => Some(Self::Ash),
            "dash" | "sh" | "ksh" | "ksh93" | "mksh" | "lksh" | "oksh" | "yash" | "posh" => Some(Self::Posix),
            "csh" | "tcsh" | "bsd-csh" => Some(Self::Csh),
            _ => None,
        }
    }

    /// For people and the model.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Ash => "busybox sh",
            Self::Posix => "sh",
            Self::Csh => "csh",
        }
    }

    /// Whether it can tell the end of a command.
    pub(super) fn reports_commands(self) -> bool {
        self != Self::Csh
    }

    /// Whether it takes a line in raw mode, so that the terminal shows when it is ready.
    pub(super) fn has_line_editor(self) -> bool {
        self != Self::Posix
    }

    /// Whether a line may be sent as pasted, where it has asked for that: it then means nothing to key bindings.
    /// fish takes the blank in front away that keeps a line out of its history.
    pub(super) fn takes_paste(self) -> bool {
        matches!(self, Self::Bash | Self::Zsh)
    }

    fn line_bytes_max(self) -> usize {
        match self {
            Self::Bash | Self::Zsh | Self::Fish => EDITED_LINE_BYTES_MAX,
            Self::Ash | Self::Posix | Self::Csh => PLAIN_LINE_BYTES_MAX,
        }
    }
}

/// The line that asks any shell which program it is: its own words are those of all shells.
pub(super) fn identify_command(key: &str) -> String {
    format!(
        " sh -c 'printf \"\\033]7717;{key};K;%s;%s;%s\\007\" \"$(readlink /proc/$PPID/exe || ps -o comm= -p $PPID)\" \"$(tty)\" \"$(uname -n)\"'"
    )
}

/// The lines that make a shell tell. They may be typed again into the same shell.
pub(super) fn setup(kind: ShellKind, key: &str, secret_key: &str) -> Vec<String> {
    let lines: &[&str] = match kind {
        ShellKind::Bash => &BASH,
        ShellKind::Zsh => &ZSH,
        ShellKind::Fish => &FISH,
        ShellKind::Ash => &ASH,
        ShellKind::Posix => &POSIX,
        ShellKind::Csh => &[],
    };
    lines.iter().map(|line| line.replace("KEY", key).replace("ASKS", secret_key)).collect()
}

/// Prompts of sudo carry a mark; nothing pages.
macro_rules! exports {
    () => {
        concat!(
            "export PAGER=cat GIT_PAGER=cat MANPAGER=cat SYSTEMD_PAGER= ",
            r#"SUDO_PROMPT="$(printf '\033]7717;ASKS;S\007')[sudo] password for %p: ""#
        )
    };
}

/// What all shells with functions of the standard share: the mark itself, and the beginning of a command.
macro_rules! functions {
    () => {
        concat!(
            r#"__sysop_m() { \printf '\033]7717;KEY;%s\007' "$1" >/dev/tty; }; "#,
            r#"__sysop_c() { __sysop_n=$1; __sysop_x=$(\printf "$2"); __sysop_m "C;$1"; }; "#
        )
    };
}

/// The first hook takes the exit code, before any other runs, and gives it on; with `set -e` that would end the
/// shell. The last one sees to it that the prompt still ends with the mark, whoever has changed it.
const BASH: [&str; 1] = [concat!(
    " { HISTCONTROL=ignorespace${HISTCONTROL:+:$HISTCONTROL}; ",
    functions!(),
    r#"__sysop_f() { __sysop_s=$?; __sysop_m "D;${__sysop_n-};$__sysop_s"; __sysop_n=; "#,
    r#"case $- in *e*) return 0;; esac; return $__sysop_s; }; "#,
    r#"__sysop_l() { case ${PS1-} in *KEY*) ;; *) PS1="${PS1-}"'\[\033]7717;KEY;B\007\]';; esac; }; "#,
    r#"case "$(declare -p PROMPT_COMMAND 2>/dev/null)" in *__sysop_f*) ;; "#,
    r#"'declare -a'*) PROMPT_COMMAND=('{ __sysop_f; } 2>/dev/null' "${PROMPT_COMMAND[@]}" '{ __sysop_l; } 2>/dev/null');; "#,
    r#"*) PROMPT_COMMAND='{ __sysop_f; } 2>/dev/null'$'\n'"${PROMPT_COMMAND-}"$'\n''{ __sysop_l; } 2>/dev/null';; esac; "#,
    exports!(),
    r#"; case "$(HISTTIMEFORMAT= history 1)" in *KEY*) history -d -1;; esac; } 2>/dev/null"#
)];

const ZSH: [&str; 2] = [
    " setopt histignorespace nopromptsp nopromptcr",
    concat!(
        " { ",
        functions!(),
        r#"__sysop_f() { { __sysop_s=$?; __sysop_m "D;${__sysop_n-};$__sysop_s"; __sysop_n=; "#,
        r#"case $- in *e*) return 0;; esac; return $__sysop_s; } 2>/dev/null; }; "#,
        r#"__sysop_l() { { case ${PS1-} in *KEY*) ;; *) PS1="${PS1-}"$'%{\033]7717;KEY;B\007%}';; esac; } 2>/dev/null; }; "#,
        r#"precmd_functions=(__sysop_f ${precmd_functions:#__sysop_*} __sysop_l); "#,
        exports!(),
        "; } 2>/dev/null"
    ),
];

const FISH: [&str; 1] = [concat!(
    r#" function __sysop_m; printf '\033]7717;KEY;%s\007' $argv[1] >/dev/tty; end; "#,
    r#"function __sysop_c; set -g __sysop_n $argv[1]; set -g __sysop_x (printf $argv[2] | string collect); __sysop_m "C;$argv[1]"; end; "#,
    r#"function __sysop_f --on-event fish_postexec --on-event fish_prompt; set -l code $status; __sysop_m "D;$__sysop_n;$code"; set -g __sysop_n; end; "#,
    r#"function __sysop_s; return $argv[1]; end; "#,
    r#"functions -q __sysop_p; or functions -c fish_prompt __sysop_p; "#,
    r#"function fish_prompt; set -l code $status; __sysop_s $code; __sysop_p; printf '\033]7717;KEY;B\007'; end; "#,
    r#"set -gx PAGER cat; set -gx GIT_PAGER cat; set -gx MANPAGER cat; set -gx SYSTEMD_PAGER ''; "#,
    r#"set -gx SUDO_PROMPT (printf '\033]7717;ASKS;S\007' | string collect)'[sudo] password for %p: '"#
)];

/// The end of a command is a part of the prompt: there is no other hook. It counts the prompts, because an editor
/// may draw one more than once.
const POSIX: [&str; 3] = [
    concat!(" { ", functions!(), "} 2>/dev/null"),
    concat!(" { ", exports!(), "; } 2>/dev/null"),
    concat!(
        r#" { case ${PS1-} in *KEY*) ;; *) PS1="$(printf '\033]7717;KEY;D;${__sysop_n-};$?;$((__sysop_i=${__sysop_i:-0}+1))\007')"#,
        r#"${PS1-}$(printf '\033]7717;KEY;B\007')";; esac; } 2>/dev/null"#
    ),
];

const ASH: [&str; 3] = [
    POSIX[0],
    POSIX[1],
    concat!(
        r#" { case ${PS1-} in *KEY*) ;; *) PS1="\[$(printf '\033]7717;KEY;D;${__sysop_n-};$?;$((__sysop_i=${__sysop_i:-0}+1))\007')\]"#,
        r#"${PS1-}\[$(printf '\033]7717;KEY;B\007')\]";; esac; } 2>/dev/null"#
    ),
];

/// The line that tells the exit code of a command whose end nobody saw, and of no other.
pub(super) fn recover(kind: ShellKind, key: &str) -> String {
    match kind {
        ShellKind::Fish => {
            format!(" printf '\\033]7717;{key};D;%s;%s\\007' \"$__sysop_n\" $status >/dev/tty")
        }
        ShellKind::Bash | ShellKind::Zsh | ShellKind::Ash | ShellKind::Posix | ShellKind::Csh => {
            format!(" \\printf '\\033]7717;{key};D;%s;%s\\007' \"${{__sysop_n-}}\" \"$?\" >/dev/tty")
        }
    }
}

/// The lines by which a shell runs a command as one, at its own level, so that `cd`, variables and functions
/// last. All but the last only put it together.
pub(super) fn lines(kind: ShellKind, nonce: &str, command: &str) -> Vec<String> {
    let fish = kind == ShellKind::Fish;
    let mut chunks = escaped(command, kind.line_bytes_max());
    let last = chunks.pop().unwrap_or_default();
    let mut lines = Vec::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let before = if index == 0 { "" } else { r#""$__sysop_b""# };
        let set = if fish { "set -g __sysop_b " } else { "__sysop_b=" };
        lines.push(format!(" {set}{before}'{chunk}'"));
    }
    let before = if lines.is_empty() { "" } else { r#""$__sysop_b""# };
    lines.push(if fish {
        format!(" __sysop_c {nonce} {before}'{last}'; and eval $__sysop_x")
    } else {
        format!(r#" {{ __sysop_c {nonce} {before}'{last}'; }} 2>/dev/null&&\eval "$__sysop_x""#)
    });
    lines
}

/// A text as formats for `printf` in single quotes, in pieces of at most `bytes_max`. Only printable ASCII is in
/// it, and nothing that a line editor, a history or a quote could take for its own.
fn escaped(text: &str, bytes_max: usize) -> Vec<String> {
    let mut chunks = vec![String::new()];
    let mut piece = String::new();
    for (index, byte) in text.bytes().enumerate() {
        piece.clear();
        match byte {
            b'%' => piece.push_str("%%"),
            b'\n' => piece.push_str("\\n"),
            b'-' if index == 0 => piece.push_str("\\055"),
            b'\'' | b'\\' | b'!' | b'^' | 0..=0x1f | 0x7f.. => {
                write!(piece, "\\{byte:03o}").expect("a string takes all");
            }
            _ => piece.push(char::from(byte)),
        }
        let chunk = chunks.last_mut().expect("there is one from the start");
        if chunk.len() + piece.len() > bytes_max {
            chunks.push(piece.clone());
        } else {
            chunk.push_str(&piece);
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

    use super::super::marks::{ShellMark, parse};
    use super::{PLAIN_LINE_BYTES_MAX, ShellKind, escaped, lines, setup};

    #[test]
    fn shells_are_known_by_their_programs() {
        let known = ["/usr/bin/bash", "-zsh", "fish", "/bin/busybox", "/bin/dash", "/usr/bin/tcsh", "ksh93"];
        let kinds: Vec<_> = known.iter().filter_map(|program| ShellKind::of_program(program)).collect();
        use ShellKind::{Ash, Bash, Csh, Fish, Posix, Zsh};
        assert_eq!(kinds, [Bash, Zsh, Fish, Ash, Posix, Csh, Posix]);
        assert_eq!(ShellKind::of_program("/usr/bin/python3.11"), None);
    }

    #[test]
    fn marks_are_read_and_others_are_not() {
        let mark = |text: &str| parse(format!("\x1b]{text}\x07").as_bytes());
        assert_eq!(mark("7717;k;C;n"), Some(("k".to_owned(), ShellMark::CommandStarted("n".to_owned()))));
        let done = ShellMark::CommandEnded { nonce: "n".to_owned(), code: 3, count: None };
        assert_eq!(mark("7717;k;D;n;3"), Some(("k".to_owned(), done)));
        assert_eq!(mark("7717;k;B"), Some(("k".to_owned(), ShellMark::PromptReady)));
        for other in ["7717;k;D;n", "7717;k;D;n;x", "7717;k", "7717", "133;D;0", "7717;k;Z"] {
            assert_eq!(mark(other), None, "{other}");
        }
    }

    #[test]
    fn lines_are_short_and_without_controls() {
        let command = "echo 'ä!' \\\n\t%s ".repeat(400);
        for kind in [ShellKind::Bash, ShellKind::Zsh, ShellKind::Fish, ShellKind::Ash, ShellKind::Posix] {
            for line in lines(kind, "0123456789abcdef", &command) {
                assert!(line.len() < kind.line_bytes_max() + 120, "{kind:?}: {}", line.len());
                assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{kind:?}: {line}");
            }
            for line in setup(kind, "0123456789abcdef", "fedcba9876543210") {
                assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{kind:?}: {line}");
            }
        }
        for line in setup(ShellKind::Posix, "0123456789abcdef", "fedcba9876543210") {
            assert!(line.len() < PLAIN_LINE_BYTES_MAX, "{}", line.len());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn what_is_written_is_what_a_shell_reads(text in "[^\0]{1,80}", bytes_max in 4_usize..50) {
            let chunks = escaped(&text, bytes_max);
            prop_assert!(chunks.iter().all(|chunk| chunk.len() <= bytes_max));
            let script = format!("x=$(printf '{}'; echo .); printf %s \"$x\"", chunks.concat());
            let output = Command::new("dash").args(["-c", &script]).output().expect("dash runs");
            prop_assert_eq!(String::from_utf8(output.stdout).expect("text"), text + ".");
        }
    }
}
