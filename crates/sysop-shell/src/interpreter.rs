//! Assesses shells and interpreters by the source of the program that they run, as far as it is known.

use super::dialect;
use super::lexer::Word;
use super::options;
use super::path;
use super::program_call::{ProgramCall, ScriptOrigin, Stdin};
use super::script_file::{self, Start};
use super::state::State;
use super::targets;
use crate::context::Access;
use crate::risk::RiskClass;

const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "mksh", "ksh93", "ash", "yash", "rbash", "fish", "csh", "tcsh",
    "posh",
];

/// Groups of interpreters, each with the short and long options that pass a program to them.
const INTERPRETERS: &[(&[&str], &str, &[&str])] = &[
    (&["python", "pypy", "ipython"], "c", &[]),
    (&["perl"], "eEMmnpd", &[]),
    (&["ruby", "irb", "jruby"], "er", &[]),
    (&["node", "nodejs", "bun", "tsx"], "epr", &["eval", "print", "require", "import", "loader"]),
    (&["php"], "rBREFd", &["run"]),
    (&["lua", "luajit", "texlua"], "el", &[]),
    (
        &["awk", "gawk", "mawk", "nawk", "original-awk"],
        "efil",
        &["source", "file", "include", "load", "exec"],
    ),
    (&["tclsh", "expect", "wish"], "c", &[]),
    (&["rscript", "r", "octave", "julia", "guile", "racket", "sbcl", "clisp"], "eEc", &["eval", "load"]),
    (
        &[
            "osascript", "elixir", "iex", "erl", "groovy", "scala", "kotlin", "jshell", "ocaml", "ghci",
            "runghc",
        ],
        "e",
        &["eval"],
    ),
    (&["pwsh", "powershell"], "cC", &["command", "encodedcommand"]),
    (&["gdb", "lldb"], "xoe", &["ex", "eval-command", "command", "init-command"]),
    (&["dc"], "ef", &["expression", "file"]),
    (&["m4", "ed", "ex", "red"], "", &[]),
];

/// Groups of editors and pagers, each with the short and long options that pass a command to them.
const EDITORS: &[(&[&str], &str, &[&str])] = &[
    (
        &["vi", "vim", "nvim", "view", "gvim", "rvim", "vimdiff", "ex"],
        "cSsuU",
        &["cmd", "servername", "remote-send", "remote-expr", "startuptime"],
    ),
    (&["emacs", "emacsclient"], "efl", &["eval", "execute", "funcall", "load", "script", "batch"]),
    (
        &["less", "more", "most", "lesspipe"],
        "kop",
        &["lesskey-src", "lesskey-file", "log-file", "lesskey-content"],
    ),
    (&["man"], "PHpC", &["pager", "html", "preprocessor", "config-file"]),
    (&["nano", "pico", "joe", "mcedit"], "sf", &["speller", "rcfile", "syntax"]),
];

/// Returns true if `name` is one of `names`, with or without a version after it (`python3.11`).
fn named(names: &[&str], name: &str) -> bool {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    names.iter().any(|known| *known == name || *known == bare)
}

/// Assesses shells, interpreters and editors. Returns false for any other program.
pub(super) fn judge(state: &mut State, call: &ProgramCall<'_>, name: &str) -> bool {
    if matches!(call.arguments(), [word] if matches!(word.literal(), Some("--version" | "--help"))) {
        return false;
    }
    if named(SHELLS, name) {
        let outer = std::mem::replace(&mut state.dialect, dialect::of_program(name));
        state.in_own_shell(|state| shell(state, call));
        state.dialect = outer;
        return true;
    }
    if let Some((names, short, long)) = INTERPRETERS.iter().find(|(names, _, _)| named(names, name)) {
        if names.contains(&"awk") {
            let trusted = call.is_usual_program(name);
            awk(state, call, trusted);
        } else {
            state.note(call.span, RiskClass::Changes, "runs a program that is not analyzed");
            interpreter(state, call, short, long);
        }
        return true;
    }
    if let Some((_, short, long)) = EDITORS.iter().find(|(names, _, _)| named(names, name)) {
        state.note(call.span, RiskClass::Changes, "opens an interactive program");
        let commanded = options::has_option(call.arguments(), short, long)
            || call.arguments().iter().any(|word| word.text().starts_with('+') && word.text().len() > 1);
        if commanded || call.argument_source.is_some() {
            state.note(call.span, RiskClass::Opaque, "passes commands to the program");
        }
        return true;
    }
    false
}

/// Assesses a shell that runs `-c text`, a file, or commands on standard input.
fn shell(state: &mut State, call: &ProgramCall<'_>) {
    const LIST: &str = "-abefhiklmnprstuvxBCDEHPTcd -oO: --login --posix --norc --noprofile --verbose --restricted --noediting \
         --debugger --rcfile= --init-file= --no-rcs --command=";
    const STARTS: &str = "starts a shell";
    let arguments = call.arguments();
    let (dashed, _): (Vec<Word>, Vec<Word>) =
        arguments.iter().cloned().partition(|word| !word.text().starts_with('+'));
    let Some(parsed) = options::parse(LIST, &dashed, options::StopPoint::FirstOperand) else {
        state.note(call.span_of_program(), RiskClass::Changes, STARTS);
        state.note(call.span, RiskClass::Opaque, "a shell with unknown options");
        for word in arguments {
            call.run_joined(state, std::slice::from_ref(word), Stdin::Inherited);
        }
        return;
    };
    if parsed.has("rcfile") || parsed.has("init-file") {
        state.note(call.span, RiskClass::Opaque, "a shell that runs a start-up file of the command's choice");
    }
    let operands = dashed.get(parsed.first_operand..).unwrap_or(&[]);
    let has_text = parsed.has("c") || parsed.has("command");
    let file = operands
        .first()
        .filter(|file| !has_text && !parsed.has("s") && !matches!(file.text(), "-" | "/dev/stdin"));
    // A named script runs like a program, as in `./script`; a script from a pipe does not.
    let named = file.filter(|file| {
        file.literal().is_some_and(|name| !name.starts_with("/dev/") && !name.starts_with("/proc/"))
    });
    if named.is_none() {
        state.note(call.span_of_program(), RiskClass::Changes, STARTS);
    }
    if has_text {
        let given = parsed
            .value(&["command"])
            .and_then(|text| dashed.iter().find(|word| word.text().ends_with(text)));
        match given.or(operands.first()) {
            Some(text) => command_text(state, call, text),
            None if call.argument_source.is_some() => {
                state.note(call.span, RiskClass::Opaque, "a shell that runs commands from standard input")
            }
            None => {}
        }
        return;
    }
    match (named, file) {
        (Some(file), _) => {
            if !script_file::run(state, call, file, Start::Shell) {
                state.note(call.span_of_program(), RiskClass::Changes, "runs a script");
            }
        }
        (None, Some(file)) => state.note(call.span_of(file), RiskClass::Opaque, "runs a script file"),
        (None, None) => standard_input(state, call),
    }
}

fn command_text(state: &mut State, call: &ProgramCall<'_>, text: &Word) {
    if text.literal().is_none() {
        state.note(call.span_of(text), RiskClass::Opaque, "a shell command that is computed at run time");
    }
    call.run_joined(state, std::slice::from_ref(text), call.input.clone());
}

/// Assesses a shell that is given no text or file to run and so reads commands from standard input.
fn standard_input(state: &mut State, call: &ProgramCall<'_>) {
    let why = match call.input {
        Stdin::Inherited => "opens a shell",
        Stdin::Unknown => "a shell that runs commands from standard input",
        Stdin::Text { text, span } => {
            let (text, span) = (text.clone(), *span);
            state.with_depth(span, |state| {
                state.run_script(&text, ScriptOrigin::Embedded(span), &Stdin::Inherited)
            });
            "a shell that runs text from standard input"
        }
    };
    state.note(call.span, RiskClass::Opaque, why);
}

fn interpreter(state: &mut State, call: &ProgramCall<'_>, short: &str, long: &[&str]) {
    let arguments = call.arguments();
    if let Stdin::Text { text, .. } = call.input {
        warn_of_destruction(state, call, text);
    }
    let leading =
        arguments.iter().take_while(|word| word.text().len() > 1 && word.text().starts_with('-')).count();
    let before_file = arguments.get(..leading).unwrap_or(&[]);
    let has_file = arguments
        .get(leading)
        .is_some_and(|word| word.text() != "-" && word.text() != "/dev/stdin" && !word.expands);
    if let Some(file) = arguments.get(leading).filter(|_| has_file) {
        targets::use_path(state, call.span_of(file), file, Access::Run);
    }
    let only_told =
        matches!(arguments, [word] if matches!(word.text(), "--version" | "--help" | "-V" | "-v" | "-h"));
    if options::has_option(before_file, short, long) {
        for word in arguments {
            warn_of_destruction(state, call, word.text());
        }
        state.note(call.span, RiskClass::Opaque, "runs inline code");
    } else if !only_told && !has_file && !options::has_option(before_file, "m", &[]) {
        state.note(call.span, RiskClass::Opaque, "an interpreter that runs code from standard input");
    } else if call.argument_source.is_some() {
        state.note(call.span, RiskClass::Opaque, "an interpreter whose arguments come from standard input");
    }
}

/// Warns of destructive words in the text of a program in another language, which is not parsed.
fn warn_of_destruction(state: &mut State, call: &ProgramCall<'_>, text: &str) {
    const SIGNS: &[&str] = &[
        "rm -rf", "rm -fr", "rm -r ", "mkfs", "wipefs", "rmtree(", "of=/dev/", "/dev/sd", "/dev/nvme",
        "/etc/shadow", "/etc/sudoers",
    ];
    if SIGNS.iter().any(|sign| text.contains(sign)) {
        state.note(call.span, RiskClass::Dangerous, "an inline program that looks destructive");
    }
}

/// Assesses an awk program. A program only reads if it contains no construct that can run commands, write files, or
/// read other files than its operands. If awk is not `trusted`, another program may run.
fn awk(state: &mut State, call: &ProgramCall<'_>, trusted: bool) {
    let Some(parsed) = options::parse(
        "-P -Fv: --field-separator= --assign= --posix --re-interval",
        call.arguments(),
        options::StopPoint::FirstOperand,
    ) else {
        state.note(call.span, RiskClass::Opaque, "an awk program that is computed at run time");
        return;
    };
    let Some((program, files)) = parsed.operands.split_first() else {
        return state.note(call.span, RiskClass::Changes, "an awk program that is not given");
    };
    let Some(text) = program.literal() else {
        state.note(call.span_of(program), RiskClass::Opaque, "an awk program that is computed at run time");
        return;
    };
    warn_of_destruction(state, call, text);
    if !awk_only_reads(text) {
        state.note(
            call.span_of(program),
            RiskClass::Opaque,
            "an awk program that may run commands or write files",
        );
    }
    // Some awks take options after operands, which may name another program.
    let is_file = |word: &Word| {
        let text = word.literal().filter(|_| !word.glob && !word.brace && !word.ansi);
        text.is_some_and(|text| text == "-" || !text.starts_with('-'))
    };
    if !trusted || call.argument_source.is_some() || !files.iter().all(|word| is_file(word)) {
        state.note(call.span, RiskClass::Changes, "an awk program whose files are not known");
    }
    for word in files {
        if path::is_network(word.text()) || word.text().starts_with("/inet") {
            state.note(call.span_of(word), RiskClass::Opaque, "opens a network connection");
        }
        targets::use_path(state, call.span_of(word), word, Access::Read);
    }
}

/// Returns true if the text of an awk program shows that it runs no command, writes no file, and reads only the files
/// that the command line names.
///
/// Only `print` and `printf` have redirections, and these stand behind them. Before them, `|` and `>` are part of a
/// pattern or a comparison, because a pipe into `getline` does not count: the name is refused.
fn awk_only_reads(text: &str) -> bool {
    const REFUSED: [&str; 12] = [
        "system", "getline", "@", "close", "fflush", "ARGV", "ARGC", "ENVIRON", "PROCINFO", "SYMTAB",
        "FUNCTAB", "\\\n",
    ];
    let printed = text.find("print").map_or("", |at| text.get(at..).unwrap_or("")).replace("||", " ");
    let is_plain = |sign: char| sign == '\n' || sign == '\t' || !sign.is_control();
    !printed.contains(['|', '>'])
        && text.chars().all(is_plain)
        && !REFUSED.iter().any(|word| text.contains(word))
}
