//! Text typed into shells: hooks that mark the beginning and end of commands, and the encoding of a command as short
//! lines that any shell accepts.
//!
//! Marks have the form `OSC 7717 ; KEY ; …`. The key is random per shell, and the end of a command carries a nonce made
//! for that command, so the output of a program cannot forge either.

use std::fmt::Write as _;

use sysop_core::policy::Dialect;

use crate::environment::GIT_GUARD;

/// Maximum bytes of a line typed without a full line editor: the kernel accepts 4,095 bytes, busybox only 1,024.
const PLAIN_LINE_BYTES_MAX: usize = 900;
/// Maximum bytes of a line typed into a full line editor.
const EDITED_LINE_BYTES_MAX: usize = 3000;

/// Kinds of shells that need different hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShellKind {
    Bash,
    Zsh,
    Fish,
    /// Busybox, whose line editor requires that the invisible parts of the prompt are marked as invisible.
    Ash,
    /// dash, ksh and other shells that expand parameters in the prompt.
    Posix,
    /// csh and tcsh, which cannot report the end of a command.
    Csh,
}

impl ShellKind {
    /// Determines the kind from the program's name: `/usr/bin/bash`, `-zsh`, `busybox`.
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

    /// Returns the name shown to people and the model.
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

    /// Returns the language of commands that are typed at the shell's prompt.
    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Bash => Dialect::Bash,
            Self::Zsh => Dialect::Zsh,
            Self::Fish => Dialect::Fish,
            Self::Ash | Self::Posix => Dialect::Sh,
            Self::Csh => Dialect::Csh,
        }
    }

    /// Returns true if the shell runs the model's commands itself. Otherwise, a second shell runs them, in a language
    /// that we can analyze.
    pub(super) fn evaluates_commands(self) -> bool {
        self.dialect().is_analyzed()
    }

    /// Returns true if the shell can report the end of a command.
    pub(super) fn reports_commands(self) -> bool {
        self != Self::Csh
    }

    /// Returns true if the shell reads lines in raw mode, so that the terminal's mode shows that it is ready.
    pub(super) fn has_line_editor(self) -> bool {
        self != Self::Posix
    }

    /// Returns true if a line may be sent as a bracketed paste, which bypasses key bindings. Returns false for fish,
    /// because it strips from a paste the leading space that keeps the line out of its history.
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

/// Returns a command, valid in every supported shell, that reports its program, terminal, machine and process id.
pub(super) fn identify_command(key: &str) -> String {
    format!(
        " sh -c 'printf \"\\033]7717;{key};K;%s;%s;%s;%s\\007\" \"$(readlink /proc/$PPID/exe || ps -o comm= -p $PPID)\" \"$(tty)\" \"$(uname -n)\" $PPID'"
    )
}

/// Returns the lines that install our hooks. They may be typed into the same shell again. `runner` is the program that
/// runs commands for a shell whose language we cannot analyze.
pub(super) fn setup(kind: ShellKind, key: &str, secret_key: &str, runner: &str) -> Vec<String> {
    let lines: &[&str] = match kind {
        ShellKind::Bash => &BASH,
        ShellKind::Zsh => &ZSH,
        ShellKind::Fish => &FISH,
        ShellKind::Ash => &ASH,
        ShellKind::Posix => &POSIX,
        ShellKind::Csh => &[],
    };
    let git_guard = GIT_GUARD.map(|(name, value)| match kind {
        ShellKind::Fish => format!("set -lx {name} {value};"),
        ShellKind::Bash | ShellKind::Zsh | ShellKind::Ash | ShellKind::Posix | ShellKind::Csh => {
            format!("{name}={value}")
        }
    });
    let of_line = |line: &&str| {
        // `GUARD` is replaced last: the names of its variables contain `KEY`, which must not be replaced.
        let line = line.replace("KEY", key).replace("ASKS", secret_key);
        line.replace("RUNNER", &fish_word(runner)).replace("GUARD", &git_guard.join(" "))
    };
    lines.iter().map(of_line).collect()
}

/// Adds a mark to sudo's prompt and turns pagers off.
macro_rules! exports {
    () => {
        concat!(
            "export PAGER=cat GIT_PAGER=cat MANPAGER=cat SYSTEMD_PAGER= ",
            r#"SUDO_PROMPT="$(printf '\033]7717;ASKS;S\007')[sudo] password for %p: ""#
        )
    };
}

/// Functions for all POSIX-like shells: sending a mark, beginning a command, and reporting directory and home at the
/// prompt (`$PWD` is not reliable).
macro_rules! functions {
    ($builtin:literal) => {
        concat!(
            r#"__sysop_m() { \printf '\033]7717;KEY;%s\007' "$1" >/dev/tty; }; "#,
            r#"__sysop_c() { __sysop_n=$1; __sysop_x=$(\printf "$2"); __sysop_m "C;$1"; }; "#,
            r#"__sysop_w() { __sysop_d=$("#,
            $builtin,
            r#" pwd -P && \printf .) && \printf '\033]7717;KEY;P;%s;KEY;%s;KEY\007' "${__sysop_d%??}" "${HOME-}"; "#,
            r#"return 0; }; "#
        )
    };
}

/// Runs a read-only command with git settings for this command only, which keep git from running a repository's
/// programs.
macro_rules! guarded {
    ($before:literal, $eval:literal) => {
        concat!("__sysop_g() { ", $before, "GUARD", $eval, r#" "$__sysop_x"; }; "#)
    };
}

/// The first hook saves the exit code before other hooks run and passes it on, except under `set -e`, where a nonzero
/// exit code of the hook would end the shell. The last hook restores the mark at the end of the prompt if another hook
/// changed the prompt.
const BASH: [&str; 1] = [concat!(
    " { HISTCONTROL=ignorespace${HISTCONTROL:+:$HISTCONTROL}; ",
    functions!(r"\builtin"),
    guarded!("", r" \eval"),
    r#"__sysop_f() { __sysop_s=$?; __sysop_m "D;${__sysop_n-};$__sysop_s"; __sysop_n=; "#,
    r#"case $- in *e*) return 0;; esac; return $__sysop_s; }; "#,
    r#"__sysop_l() { __sysop_w >/dev/tty; "#,
    r#"case ${PS1-} in *KEY*) ;; *) PS1="${PS1-}"'\[\033]7717;KEY;B\007\]';; esac; }; "#,
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
        functions!(r"\builtin"),
        guarded!("local -x ", r"; \eval"),
        r#"__sysop_f() { { __sysop_s=$?; __sysop_m "D;${__sysop_n-};$__sysop_s"; __sysop_n=; "#,
        r#"case $- in *e*) return 0;; esac; return $__sysop_s; } 2>/dev/null; }; "#,
        r#"__sysop_l() { { __sysop_w >/dev/tty; "#,
        r#"case ${PS1-} in *KEY*) ;; *) PS1="${PS1-}"$'%{\033]7717;KEY;B\007%}';; esac; } 2>/dev/null; }; "#,
        r#"precmd_functions=(__sysop_f ${precmd_functions:#__sysop_*} __sysop_l); "#,
        exports!(),
        "; } 2>/dev/null"
    ),
];

/// Commands run in a second shell (`RUNNER`), which at its end reports its directory and exported variables. fish
/// adopts the directory and the variables with its own commands, as values and never as code.
const FISH: [&str; 3] = [
    concat!(
        r#" function __sysop_m; printf '\033]7717;KEY;%s\007' $argv[1] >/dev/tty; end; "#,
        r#"function __sysop_c; set -g __sysop_n $argv[1]; set -g __sysop_x (printf $argv[2] | string collect); __sysop_m "C;$argv[1]"; end; "#,
        r#"function __sysop_f --on-event fish_postexec --on-event fish_prompt; set -l code $status; __sysop_m "D;$__sysop_n;$code"; set -g __sysop_n; end; "#,
        r#"function __sysop_s; return $argv[1]; end"#,
    ),
    concat!(
        r#" set -g __sysop_w '__sysop_x=$1 __sysop_r=$2; shift 2; "#,
        r#"__sysop_t() { export PWD="$(command pwd -P)"; env -0 >"$__sysop_r" 2>/dev/null; }; trap __sysop_t 0; eval "$__sysop_x"'; "#,
        r#"function __sysop_e; set -l f (command mktemp); or return 1; "#,
        r#"command RUNNER -c $__sysop_w sysop $__sysop_x $f; set -l code $status; "#,
        r#"for l in (string split0 <$f); set -l n (string match -r '^[A-Za-z_][A-Za-z0-9_]*' -- $l); or continue; "#,
        r#"set -l v (string replace -r '^[^=]*=' '' -- $l | string collect); "#,
        r#"if test $n = PWD; test "$v" = (builtin pwd -P | string collect); or builtin cd -- "$v"; continue; end; "#,
        r#"string match -qr '^(_|__sysop.*|SHLVL|OLDPWD|BASH_FUNC.*|GIT_CONFIG_.*|GIT_OPTIONAL_LOCKS|GIT_NO_LAZY_FETCH|GIT_ALLOW_PROTOCOL|GIT_PAGER)$' -- $n; and continue; "#,
        r#"test "$$n" = "$v"; or set -gx $n "$v" 2>/dev/null; end; "#,
        r#"command rm -f -- $f; return $code; end; "#,
        r#"function __sysop_g; GUARD __sysop_e; end"#,
    ),
    concat!(
        r#" functions -q __sysop_p; or functions -c fish_prompt __sysop_p; "#,
        r#"function fish_prompt; set -l code $status; __sysop_s $code; __sysop_p; "#,
        r#"printf '\033]7717;KEY;P;%s;KEY;%s;KEY\007' (builtin pwd -P | string collect) "$HOME"; "#,
        r#"printf '\033]7717;KEY;B\007'; end; "#,
        r#"set -gx PAGER cat; set -gx GIT_PAGER cat; set -gx MANPAGER cat; set -gx SYSTEMD_PAGER ''; "#,
        r#"set -gx SUDO_PROMPT (printf '\033]7717;ASKS;S\007' | string collect)'[sudo] password for %p: '"#
    ),
];

/// The prompt itself reports the end of a command, because these shells have no other hook. The prompt counts how often
/// it is expanded, because a line editor may draw one prompt several times.
const POSIX: [&str; 4] = [
    concat!(" { ", functions!(r"\command"), "} 2>/dev/null"),
    concat!(" { ", guarded!("", r" \command eval"), "} 2>/dev/null"),
    concat!(" { ", exports!(), "; } 2>/dev/null"),
    concat!(
        r#" { case ${PS1-} in *KEY*) ;; *) PS1="$(printf '\033]7717;KEY;D;${__sysop_n-};$?;$((__sysop_i=${__sysop_i:-0}+1))\007$(__sysop_w 2>/dev/null)')"#,
        r#"${PS1-}$(printf '\033]7717;KEY;B\007')";; esac; } 2>/dev/null"#
    ),
];

const ASH: [&str; 4] = [
    POSIX[0],
    POSIX[1],
    POSIX[2],
    concat!(
        r#" { case ${PS1-} in *KEY*) ;; *) PS1="\[$(printf '\033]7717;KEY;D;${__sysop_n-};$?;$((__sysop_i=${__sysop_i:-0}+1))\007$(__sysop_w 2>/dev/null)')\]"#,
        r#"${PS1-}\[$(printf '\033]7717;KEY;B\007')\]";; esac; } 2>/dev/null"#
    ),
];

fn fish_word(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

/// Returns a line that makes a shell of unknown kind run a command with `sh`. The script is one single-quoted word
/// without special characters, which every shell passes on unchanged. The script marks its beginning with `nonce`. At
/// its end, the script writes its directory to a file, and the shell then changes to that directory. Returns `None` if
/// the command is too long for one line.
pub(super) fn beside(nonce: &str, command: &str, guarded: bool) -> Option<String> {
    let guard: String = GIT_GUARD.iter().map(|(name, value)| format!("export {name}={value}; ")).collect();
    let guard = if guarded { guard.as_str() } else { "" };
    let script = format!(
        "printf '\\033]7717;{nonce};C;{nonce}\\007' >/dev/tty; {guard}\
         trap '(umask 077; set -C; pwd -P >/tmp/.sysop-{nonce}) 2>/dev/null' 0\n{command}"
    );
    let mut format = String::with_capacity(script.len() * 2);
    for byte in script.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b' '
            | b'_'
            | b'.'
            | b'/'
            | b'='
            | b','
            | b':'
            | b'-'
                if !format.is_empty() =>
            {
                format.push(char::from(byte));
            }
            _ => write!(format, "\\{byte:03o}").expect("writing to a string cannot fail"),
        }
    }
    let line = format!(
        " sh -c 'eval \"$(printf \"{format}\")\"'; cd \"`cat /tmp/.sysop-{nonce}`\"; rm -f /tmp/.sysop-{nonce}"
    );
    (line.len() <= EDITED_LINE_BYTES_MAX).then_some(line)
}

/// Returns the line to type into the shell to report the exit code of a command whose end mark was lost. `key`
/// identifies the command.
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

/// Returns the lines that make a shell run a command in the shell itself, so that `cd`, variables and functions
/// persist. All lines but the last only assemble the command text.
pub(super) fn lines(kind: ShellKind, nonce: &str, command: &str, guarded: bool) -> Vec<String> {
    let fish = kind == ShellKind::Fish;
    if fish && let Some(exit) = own_exit(command) {
        return vec![format!(" __sysop_c {nonce} exit; and {exit}")];
    }
    let mut chunks = escaped(command, kind.line_bytes_max());
    let last = chunks.pop().unwrap_or_default();
    let mut lines = Vec::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let before = if index == 0 { "" } else { r#""$__sysop_b""# };
        let set = if fish { "set -g __sysop_b " } else { "__sysop_b=" };
        lines.push(format!(" {set}{before}'{chunk}'"));
    }
    let before = if lines.is_empty() { "" } else { r#""$__sysop_b""# };
    lines.push(match (fish, guarded) {
        (true, true) => format!(" __sysop_c {nonce} {before}'{last}'; and __sysop_g"),
        (true, false) => format!(" __sysop_c {nonce} {before}'{last}'; and __sysop_e"),
        (false, true) => format!(r#" {{ __sysop_c {nonce} {before}'{last}'; }} 2>/dev/null&&__sysop_g"#),
        (false, false) => {
            format!(r#" {{ __sysop_c {nonce} {before}'{last}'; }} 2>/dev/null&&\eval "$__sysop_x""#)
        }
    });
    lines
}

/// Returns the `exit` command if `command` must end the terminal's shell itself, and not only the runner.
fn own_exit(command: &str) -> Option<String> {
    let rest = command.trim().strip_prefix("exit")?;
    let code: u8 = if rest.is_empty() { 0 } else { rest.strip_prefix(' ')?.trim().parse().ok()? };
    Some(format!("exit {code}"))
}

/// Encodes the text as `printf` formats that can be put in single quotes, in chunks of at most `bytes_max` bytes. The
/// result is printable ASCII without characters that are special to line editors, history expansion or quotes.
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
                write!(piece, "\\{byte:03o}").expect("writing to a string cannot fail");
            }
            _ => piece.push(char::from(byte)),
        }
        let chunk = chunks.last_mut().expect("the list starts with one chunk");
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
    fn shells_are_recognized_by_program_name() {
        let known = ["/usr/bin/bash", "-zsh", "fish", "/bin/busybox", "/bin/dash", "/usr/bin/tcsh", "ksh93"];
        let kinds: Vec<_> = known.iter().filter_map(|program| ShellKind::of_program(program)).collect();
        use ShellKind::{Ash, Bash, Csh, Fish, Posix, Zsh};
        assert_eq!(kinds, [Bash, Zsh, Fish, Ash, Posix, Csh, Posix]);
        assert_eq!(ShellKind::of_program("/usr/bin/python3.11"), None);
    }

    #[test]
    fn our_marks_are_parsed_and_others_ignored() {
        let mark = |text: &str| parse(format!("\x1b]{text}\x07").as_bytes());
        assert_eq!(mark("7717;k;C;n"), Some(("k".to_owned(), ShellMark::CommandStarted("n".to_owned()))));
        let done = ShellMark::CommandEnded { nonce: "n".to_owned(), code: 3, count: None };
        assert_eq!(mark("7717;k;D;n;3"), Some(("k".to_owned(), done)));
        assert_eq!(mark("7717;k;B"), Some(("k".to_owned(), ShellMark::PromptReady)));
        let place = |folder: &str, home: &str| {
            let place = ShellMark::Place { folder: folder.to_owned(), home: home.to_owned() };
            Some(("k".to_owned(), place))
        };
        assert_eq!(mark("7717;k;P;/a;b;k;/home/x;k"), place("/a;b", "/home/x"));
        for other in [
            "7717;k;P;/a",
            "7717;k;P;/a;k",
            "7717;k;P;a;k;/home/x;k",
            "7717;k;P;/a\nb;k;/home/x;k",
            "7717;k;D;n",
            "7717;k;D;n;x",
            "7717;k",
            "7717",
            "133;D;0",
            "7717;k;Z",
        ] {
            assert_eq!(mark(other), None, "{other}");
        }
    }

    #[test]
    fn shell_lines_are_short_and_have_no_control_characters() {
        let command = "echo 'ä!' \\\n\t%s ".repeat(400);
        for kind in [ShellKind::Bash, ShellKind::Zsh, ShellKind::Fish, ShellKind::Ash, ShellKind::Posix] {
            for line in lines(kind, "0123456789abcdef", &command, true) {
                assert!(line.len() < kind.line_bytes_max() + 120, "{kind:?}: {}", line.len());
                assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{kind:?}: {line}");
            }
            for line in setup(kind, "0123456789abcdef", "fedcba9876543210", "/usr/bin/bash") {
                assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{kind:?}: {line}");
            }
        }
        for line in setup(ShellKind::Posix, "0123456789abcdef", "fedcba9876543210", "sh") {
            assert!(line.len() < PLAIN_LINE_BYTES_MAX, "{}", line.len());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn quoted_words_are_read_back_by_the_shell(text in "[^\0]{1,80}", bytes_max in 4_usize..50) {
            let chunks = escaped(&text, bytes_max);
            prop_assert!(chunks.iter().all(|chunk| chunk.len() <= bytes_max));
            let script = format!("x=$(printf '{}'; echo .); printf %s \"$x\"", chunks.concat());
            let output = Command::new("dash").args(["-c", &script]).output().expect("dash runs");
            prop_assert_eq!(String::from_utf8(output.stdout).expect("text"), text + ".");
        }
    }
}
