//! Builtins that evaluate text or change the meaning of later commands, and variables that have the same effect.

use super::dialect;
use super::lexer::{Word, is_name, is_plain_subscript};
use super::options;
use super::program_call::{ProgramCall, Script, ScriptOrigin, Stdin};
use super::protected::is_secret_name;
use super::script_file::{self, Start};
use super::state::State;
use crate::risk::RiskClass;

/// Reserved words, which the shell never looks up as a program unless they are quoted.
pub(super) const RESERVED: &[&str] = &[
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "select",
    "function", "{", "}", "!", "[[", "]]", "in", "end", "foreach", "always",
];

/// Returns true if setting this variable can make a program run or load other code, or read other settings.
pub(super) fn alters_execution(name: &str) -> bool {
    const NAMES: &str = "PATH ENV IFS PS0 PS1 PS2 PS3 PS4 PROMPT_COMMAND SHELL SHELLOPTS BASHOPTS CDPATH GLOBIGNORE \
        FPATH ZDOTDIR FCEDIT HISTFILE INPUTRC HOME EDITOR VISUAL BROWSER LESS CLASSPATH TERMINFO \
        TERMCAP GCONV_PATH LOCPATH NLSPATH MAKEFLAGS MAKEFILES OPENSSL_CONF KUBECONFIG SUDO_ASKPASS \
        SUDO_EDITOR SSH_ASKPASS RSYNC_RSH CVS_RSH SVN_SSH TAR_OPTIONS GREP_OPTIONS \
        RIPGREP_CONFIG_PATH MANOPT MANROFFOPT RUBYOPT RUBYLIB NODE_OPTIONS NODE_PATH \
        JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS GRADLE_OPTS RUSTC RUSTC_WRAPPER \
        CC CXX LD AR PHPRC PHP_INI_SCAN_DIR DOCKER_HOST DOCKER_CONFIG EXINIT VIMINIT COMSPEC \
        SYSTEMD_EDITOR DPKG_PAGER APT_CONFIG TMUX histchars prompt path fpath precmd preexec";
    const PREFIXES: &str = "LD_ DYLD_ BASH_ GIT_ LESS PYTHON PERL GEM_ BUNDLE_ NPM_ npm_ PIP_ CARGO_ LUA_ XDG_ FZF_ \
        SYSOP_ LLM_ RUSTUP_ DEBUGINFOD_ GLIBC_ MALLOC_ CONDA_";
    options::is_listed(NAMES, name)
        || PREFIXES.split(' ').any(|prefix| name.starts_with(prefix))
        || name.ends_with("PAGER")
}

/// Builtins that end the shell, jump within its script, or shift its arguments.
const JUMPS: [&str; 5] = ["exit", "return", "break", "continue", "shift"];

/// Names of the options of `set -o` that only decide when the shell gives up.
const GIVES_UP: [&str; 3] = ["errexit", "nounset", "pipefail"];

/// Returns true if the words call a builtin of `JUMPS` with at most a number, which no shell evaluates.
pub(super) fn is_plain_jump(words: &[Word]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    program.literal().is_some_and(|name| JUMPS.contains(&name))
        && match arguments {
            [] => true,
            [number] => dialect::is_number(number),
            _ => false,
        }
}

/// Returns true if `set` with these arguments only decides when the shell gives up: `-e`, `-u`, `-o pipefail`.
fn only_gives_up(arguments: &[Word]) -> bool {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let letters = word.literal().and_then(|text| text.strip_prefix(['-', '+']));
        let Some(letters) = letters.filter(|letters| !letters.is_empty()) else { return false };
        let plain = letters.strip_suffix('o').unwrap_or(letters);
        let mut is_named =
            || words.next().and_then(Word::literal).is_some_and(|name| GIVES_UP.contains(&name));
        if !plain.chars().all(|letter| matches!(letter, 'e' | 'u')) || (plain != letters && !is_named()) {
            return false;
        }
    }
    !arguments.is_empty()
}

/// Assesses one `NAME=value` word.
pub(super) fn assignment(state: &mut State, script: &Script<'_>, word: &Word) {
    let span = script.span(word.start, word.end);
    state.note(span, RiskClass::Changes, "sets a variable");
    let before = word.value_at.and_then(|at| script.source.get(word.start..at)).unwrap_or(word.text());
    let target = before.trim_end_matches('=').trim_end_matches('+');
    let name = target.split('[').next().unwrap_or(target);
    if alters_execution(name) {
        state.note(span, RiskClass::Opaque, &format!("sets {name}, which changes how commands run"));
    }
    if let Some((_, subscript)) = target.split_once('[')
        && !is_plain_subscript(subscript.trim_end_matches(']'))
    {
        state.note(span, RiskClass::Opaque, "an array subscript that may run a command");
    }
}

/// Assesses variable names that are passed to a builtin. The shell evaluates a subscript in a name, and some
/// variables change how other programs run.
fn judge_names(state: &mut State, call: &ProgramCall<'_>, words: &[Word]) {
    for word in words {
        let span = call.span_of(word);
        if word.value_at.is_some() {
            assignment(state, call.script, word);
            continue;
        }
        let Some(text) = word.literal() else {
            state.note(span, RiskClass::Opaque, "a variable name that is computed at run time");
            continue;
        };
        let name = text.split('=').next().unwrap_or("");
        if alters_execution(name) {
            state.note(span, RiskClass::Opaque, &format!("sets {name}, which changes how commands run"));
        } else if !is_name(name) && !text.starts_with(['-', '+']) {
            state.note(span, RiskClass::Opaque, "a variable name that may run a command");
        }
    }
}

pub(super) fn judge(state: &mut State, call: &ProgramCall<'_>, name: &str) -> bool {
    let arguments = call.arguments();
    let span = call.span;
    match name {
        "eval" => {
            state.note(span, RiskClass::Opaque, "evaluates text as a command");
            call.run_joined(state, arguments, Stdin::Inherited);
        }
        "source" | "." => {
            state.note(span, RiskClass::Opaque, "sources a file in this shell");
            if let Some(file) = arguments.first() {
                script_file::run(state, call, file, Start::Shell);
            }
        }
        "trap" => trap(state, call),
        "alias" => alias(state, call),
        "let" => state.note(span, RiskClass::Opaque, "arithmetic that may run a command"),
        "declare" | "typeset" | "local" | "export" | "readonly" | "integer" | "float" => {
            declare(state, call, name)
        }
        "unset" | "unsetenv" | "getopts" => {
            state.note(span, RiskClass::Changes, "sets or removes a variable");
            judge_names(state, call, arguments.get(usize::from(name == "getopts")..).unwrap_or(&[]));
        }
        "read" | "vared" => read(state, call),
        "mapfile" | "readarray" => {
            state.note(span, RiskClass::Changes, "sets a variable");
            if options::has_option(arguments, "C", &[]) {
                state.note(span, RiskClass::Opaque, "runs a command for each line");
            }
            judge_names(state, call, arguments.last().map(std::slice::from_ref).unwrap_or(&[]));
        }
        "enable" | "bind" | "complete" | "compgen" | "compctl" | "zle" | "zmodload" | "autoload"
        | "sched" | "emulate" | "fc" => {
            state.note(span, RiskClass::Opaque, "changes how the shell works, or runs a command");
        }
        "hash" if options::has_option(arguments, "p", &[]) => {
            state.note(span, RiskClass::Opaque, "makes a command name run another program");
        }
        "printf" if options::has_option(arguments, "v", &[]) => {
            state.note(span, RiskClass::Opaque, "writes to a variable whose name may run a command");
        }
        "wait" if options::has_option(arguments, "p", &[]) => {
            state.note(span, RiskClass::Opaque, "writes to a variable whose name may run a command");
        }
        "test" | "[" => {
            test(state, call);
            return false;
        }
        // The end of a shell that runs only this command loses nothing; any other shell is the user's.
        "exit" | "return" | "break" | "continue" | "shift"
            if state.own_shell && is_plain_jump(call.words) => {}
        "set" if state.own_shell && only_gives_up(arguments) => {}
        "set" | "shopt" | "setopt" | "unsetopt" => {
            state.note(span, RiskClass::Changes, "changes how this shell works");
        }
        _ => return false,
    }
    true
}

fn trap(state: &mut State, call: &ProgramCall<'_>) {
    let arguments = call.arguments();
    let words = if arguments.first().is_some_and(|word| word.text() == "--") {
        arguments.get(1..)
    } else {
        Some(arguments)
    };
    let plain =
        |state: &mut State| state.note(call.span, RiskClass::Changes, "shows or resets signal handlers");
    match words.and_then(<[Word]>::first) {
        None => plain(state),
        Some(action) if matches!(action.text(), "-" | "" | "-l" | "-p") => plain(state),
        Some(action) => {
            state.note(call.span, RiskClass::Opaque, "runs a command on a signal");
            call.run_joined(state, std::slice::from_ref(action), Stdin::Inherited);
        }
    }
}

fn alias(state: &mut State, call: &ProgramCall<'_>) {
    state.note(call.span, RiskClass::Changes, "shows or defines aliases");
    for word in call.arguments() {
        let Some((_, value)) = word.text().split_once('=') else { continue };
        let span = call.span_of(word);
        state.note(span, RiskClass::Opaque, "redefines a command");
        if word.literal().is_some() {
            state.with_depth(span, |state| {
                state.run_script(value, ScriptOrigin::Embedded(span), &Stdin::Inherited)
            });
        }
    }
}

fn declare(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    if arguments.iter().all(|word| word.value_at.is_none()) {
        let is_name = |word: &Word| !word.text().starts_with(['-', '+']);
        let shows = options::has_option(arguments, "pfF", &[]) || !arguments.iter().any(is_name);
        let why = if shows { "shows or sets variables" } else { "sets a variable" };
        state.note(call.span, RiskClass::Changes, why);
    }
    let evaluates = options::has_option(arguments, "in", &[]) && name != "export" && name != "readonly";
    let plus = arguments.iter().any(|word| word.text().starts_with("+i"));
    if (evaluates && !plus) || matches!(name, "integer" | "float") {
        state.note(call.span, RiskClass::Opaque, "a variable whose value may run a command");
    }
    if options::has_option(arguments, "p", &[])
        && let Some(word) = arguments.iter().find(|word| is_secret_name(word.text()))
    {
        let why = "prints a variable named like a secret";
        state.note(call.span_of(word), RiskClass::ReadsSecret, why);
    }
    judge_names(state, call, arguments);
}

fn read(state: &mut State, call: &ProgramCall<'_>) {
    state.note(call.span, RiskClass::Changes, "sets a variable");
    match options::parse("-ers -adinNptu:", call.arguments(), options::StopPoint::FirstOperand) {
        Some(parsed) => {
            let rest = call.arguments().get(parsed.first_operand..).unwrap_or(&[]);
            judge_names(state, call, rest);
            if let Some(array) = parsed.value(&["a"])
                && (alters_execution(array) || !is_name(array))
            {
                state.note(call.span, RiskClass::Opaque, "a variable name that may run a command");
            }
        }
        None => state.note(
            call.span,
            RiskClass::Opaque,
            "reads into variables whose names are computed at run time",
        ),
    }
}

/// Assesses `test`. `-v NAME` evaluates a subscript in NAME, and some shells also evaluate numbers that are compared.
fn test(state: &mut State, call: &ProgramCall<'_>) {
    let arguments = call.arguments();
    for pair in arguments.windows(2) {
        let [operator, operand] = pair else { continue };
        if matches!(operator.text(), "-v" | "-R") && !operand.literal().is_some_and(is_name) {
            state.note(call.span, RiskClass::Opaque, "a variable name that may run a command");
        }
    }
    let hidden = |word: &Word| word.text().contains("$(") || word.text().contains('`');
    if arguments.iter().any(hidden) {
        state.note(call.span, RiskClass::Opaque, "a test that runs a command");
    }
}
