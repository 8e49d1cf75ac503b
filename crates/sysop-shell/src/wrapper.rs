//! Wrappers: programs that run another program. Their own options are skipped; the inner program is assessed.

use super::lexer::Word;
use super::options::{self, StopPoint};
use super::program_call::{ArgumentSource, ProgramCall, Stdin};
use super::state::State;
use super::{builtin, targets};
use crate::context::{Access, Dialect};
use crate::risk::RiskClass;

/// Maximum number of positions at which the inner command is assumed to start, if a wrapper's options are unknown.
const GUESSES_MAX: usize = 16;

/// Command line syntax of a wrapper.
struct Wrapper {
    names: &'static [&'static str],
    options: &'static str,
    /// Number of the wrapper's own operands before the inner command.
    operands: usize,
    /// Minimum class of a call, and the reason.
    floor: (RiskClass, &'static str),
}

const STARTS: (RiskClass, &str) = (RiskClass::Changes, "starts another program");

const fn wrapper(
    names: &'static [&'static str],
    options: &'static str,
    operands: usize,
    floor: (RiskClass, &'static str),
) -> Wrapper {
    Wrapper { names, options, operands, floor }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper(
        &["sudo", "sudo-rs"],
        "-ABbEeHiKklnNPSsVv -CDghpRrTtUu: --askpass --background --bell --close-from= --chdir= --preserve-env? --edit --group= \
         --set-home --host= --login --remove-timestamp --reset-timestamp --list --non-interactive --preserve-groups --prompt= \
         --chroot= --role= --stdin --shell --type= --command-timeout= --other-user= --user= --version --validate --help",
        0,
        (RiskClass::Changes, "runs as root or another user"),
    ),
    wrapper(&["doas"], "-Lns -aCu:", 0, (RiskClass::Changes, "runs as root or another user")),
    wrapper(
        &["pkexec"],
        "--user= --disable-internal-agent --keep-cwd",
        0,
        (RiskClass::Changes, "runs as root or another user"),
    ),
    wrapper(
        &["env"],
        "-i0v -uCSa: --ignore-environment --null --unset= --chdir= --split-string= --debug --argv0= --block-signal? --default-signal? --ignore-signal?",
        0,
        STARTS,
    ),
    wrapper(&["nice"], "-n: -# --adjustment=", 0, STARTS),
    wrapper(&["ionice"], "-t -cnpPu: --class= --classdata= --ignore", 0, STARTS),
    wrapper(
        &["chrt"],
        "-abdfiomrRv -TPD: --all-tasks --batch --deadline --fifo --idle --other --rr --reset-on-fork",
        1,
        STARTS,
    ),
    wrapper(&["taskset"], "-ac --all-tasks --cpu-list", 1, STARTS),
    wrapper(
        &["numactl"],
        "-lsSHaKi -CNmMpi: --cpunodebind= --membind= --physcpubind= --interleave= --localalloc --preferred=",
        0,
        STARTS,
    ),
    wrapper(
        &["time", "gtime"],
        "-apqvlh -fo: --append --format= --output= --portability --quiet --verbose",
        0,
        STARTS,
    ),
    wrapper(
        &["timeout", "gtimeout"],
        "-vfp -ks: --signal= --kill-after= --foreground --preserve-status --verbose",
        1,
        STARTS,
    ),
    wrapper(
        &[
            "nohup", "setarch", "linux32", "linux64", "i386", "x86_64", "chronic", "eatmydata", "fakeroot",
            "torsocks", "torify", "proxychains", "proxychains4", "dbus-run-session", "unbuffer", "catchsegv",
            "ts", "cgexec", "noglob", "nocorrect", "-",
        ],
        "-R --addr-no-randomize -g:",
        0,
        STARTS,
    ),
    wrapper(&["setsid"], "-cfw --ctty --fork --wait", 0, STARTS),
    wrapper(&["stdbuf"], "-ieo: --input= --output= --error=", 0, STARTS),
    wrapper(
        &["flock"],
        "-enosuxFv -Ew: --shared --exclusive --unlock --nonblock --nb --timeout= --wait= --close --no-fork --conflict-exit-code= --verbose",
        1,
        STARTS,
    ),
    wrapper(
        &["strace", "ltrace"],
        "-cCdfFhiknqrtTvVxyzZSDA -eEoOpPsSuabXIU: --follow-forks --output= --trace= --summary-only",
        0,
        STARTS,
    ),
    wrapper(&["valgrind", "perf", "rr", "heaptrack"], "-qv", 0, STARTS),
    wrapper(&["busybox", "toybox"], "", 0, STARTS),
    wrapper(&["chroot"], "--userspec= --groups= --skip-chdir", 1, STARTS),
    wrapper(
        &["unshare"],
        "-mniupUCTrcf -RSGwl: -fmuinpU --mount? --uts? --ipc? --net? --pid? --user? --cgroup? --time? --fork --mount-proc? \
         --map-root-user --map-current-user --map-auto --propagation= --root= --wd= --setuid= --setgid= --kill-child? --keep-caps",
        0,
        STARTS,
    ),
    wrapper(
        &["nsenter"],
        "-amuinpUCTFZrwkeG -tSGN: -m? -u? -i? -n? -p? --target= --all --mount? --uts? --ipc? --net? --pid? --user? --cgroup? --time? \
         --root? --wd? --no-fork --preserve-credentials",
        0,
        (RiskClass::Changes, "runs in another process's namespaces"),
    ),
    wrapper(
        &["setpriv", "capsh", "prlimit", "firejail", "bwrap", "runcon", "choom"],
        "-t: --no-new-privs --reuid= --regid= --clear-groups --nofile= --init-groups",
        0,
        STARTS,
    ),
    wrapper(
        &["systemd-run"],
        "-rtPqGdSE -pMHEu: --scope --user --system --unit= --property= --description= --slice= --remain-after-exit --send-sighup \
         --service-type= --uid= --gid= --nice= --working-directory= --same-dir --setenv= --pty --pipe --quiet --collect --wait \
         --no-block --shell --on-active= --on-boot= --on-startup= --on-unit-active= --on-calendar= --timer-property= --machine=",
        0,
        (RiskClass::Opaque, "runs outside this shell"),
    ),
    wrapper(
        &["systemd-inhibit", "systemd-cat"],
        "-tp: --what= --who= --why= --mode= --identifier= --priority=",
        0,
        STARTS,
    ),
    wrapper(&["start-stop-daemon"], "", 0, (RiskClass::Opaque, "starts a program in the background")),
    wrapper(&["command"], "-pvV", 0, STARTS),
    wrapper(&["builtin"], "", 0, STARTS),
    wrapper(&["exec"], "-cl -a:", 0, STARTS),
    wrapper(&["coproc"], "", 0, (RiskClass::Opaque, "runs in the background with captured output")),
    wrapper(&["repeat"], "", 1, STARTS),
    wrapper(
        &["xargs", "gxargs"],
        "-0prtxo -adEILnPRsJ: -eil? --null --arg-file= --delimiter= --eof? --replace? --max-lines? --max-args= --max-procs= \
         --interactive --max-chars= --no-run-if-empty --verbose --exit --open-tty --process-slot-var= --show-limits",
        0,
        (RiskClass::Changes, "takes arguments from standard input"),
    ),
    wrapper(
        &[
            "ssh-agent", "xvfb-run", "rlwrap", "script", "su", "runuser", "sg", "watch", "parallel", "sem",
            "sshpass",
        ],
        "",
        0,
        STARTS,
    ),
];

/// Wrappers that take the inner command as text for a shell.
const TEXT: &[&str] = &["su", "runuser", "script", "sg", "watch", "parallel", "sem"];

/// Wrappers that change nothing but the inner command's time limit, priority or buffers.
const TRANSPARENT: &[&str] = &["timeout", "gtimeout", "nice", "stdbuf"];

/// Assesses a wrapper and the program that it runs. Returns false if the program is not a wrapper.
pub(super) fn judge(state: &mut State, call: &ProgramCall<'_>, name: &str) -> bool {
    if let "command" | "env" = name
        && starts_nothing(call, name)
    {
        return true;
    }
    let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) else { return false };
    if name == "exec" && !state.own_shell && !call.arguments().is_empty() {
        state.note(call.span_of_program(), RiskClass::Changes, "ends the shell");
    }
    let (floor, why) = wrapper.floor;
    if TRANSPARENT.contains(&name) && call.is_usual_program(name) {
        // The inner command decides. Unknown options are judged by `guess`.
    } else {
        state.note(call.span_of_program(), floor, why)
    }
    if TEXT.contains(&name) && in_other_shell(state, |state| text_command(state, call, name)) {
        return true;
    }
    let arguments = call.arguments();
    match options::parse(wrapper.options, arguments, StopPoint::FirstOperand) {
        Some(parsed) if !TEXT.contains(&name) => {
            own_options(state, call, name, &parsed);
            let argument_source =
                if name.ends_with("xargs") { Some(ArgumentSource::Stdin) } else { call.argument_source };
            let before = state.folders.clone();
            if let Some(folder) = start_folder(name, &parsed) {
                state.folders = targets::folders_at(state, folder);
            }
            inner(state, call, wrapper, parsed.first_operand, argument_source);
            if start_folder(name, &parsed).is_some() {
                state.folders = before;
            }
        }
        Some(_) | None => {
            guess(state, call);
        }
    }
    true
}

/// Returns the directory in which a wrapper starts the inner command, if an option names one.
fn start_folder<'w>(name: &str, parsed: &options::ParsedOptions<'w>) -> Option<&'w str> {
    match name {
        "env" => parsed.value(&["C", "chdir"]),
        "sudo" | "sudo-rs" => parsed.value(&["D", "chdir"]),
        "systemd-run" => parsed.value(&["working-directory"]),
        "unshare" | "nsenter" => parsed.value(&["wd", "w"]),
        _ => None,
    }
}

/// Assesses text that is run by an unnamed shell, `sh` or the user's own. Everything but the portable subset is opaque.
fn in_other_shell<T>(state: &mut State, inner: impl FnOnce(&mut State) -> T) -> T {
    let outer = std::mem::replace(&mut state.dialect, Dialect::Sh);
    let result = state.in_own_shell(inner);
    state.dialect = outer;
    result
}

/// Returns true for calls that start no program, such as `command -v ls` and a bare `env`.
fn starts_nothing(call: &ProgramCall<'_>, name: &str) -> bool {
    let arguments = call.arguments();
    match (name, arguments.first().and_then(Word::literal)) {
        ("env", None) => arguments.is_empty(),
        ("command", Some("-v" | "-V")) => arguments.iter().all(|word| word.literal().is_some() && !word.ansi),
        (_, Some(_) | None) => false,
    }
}

/// Assesses the inner command, which begins after the wrapper's own options, assignments and operands.
/// `first` is the index of the first word after the options.
fn inner(
    state: &mut State,
    call: &ProgramCall<'_>,
    wrapper: &Wrapper,
    first: usize,
    argument_source: Option<ArgumentSource>,
) {
    let arguments = call.arguments();
    let mut at = first;
    let takes_assignments = wrapper.names.iter().any(|name| matches!(*name, "sudo" | "env" | "doas"));
    while takes_assignments && arguments.get(at).is_some_and(is_assignment) {
        if let Some(word) = arguments.get(at) {
            environment(state, call, word);
        }
        at += 1;
    }
    for word in arguments.get(at..at + wrapper.operands).unwrap_or(&[]) {
        if word.literal().is_none() {
            state.note(
                call.span_of(word),
                RiskClass::Opaque,
                "a word before the command is computed at run time",
            );
        }
    }
    at += wrapper.operands;
    let rest = arguments.get(at..).unwrap_or(&[]);
    if rest.is_empty() {
        return without_command(state, call, wrapper);
    }
    if let [option, text] = rest
        && wrapper.names.contains(&"flock")
        && is_command_option(option.text())
    {
        let text = std::slice::from_ref(text);
        return in_other_shell(state, |state| call.run_joined(state, text, Stdin::Inherited));
    }
    call.judge_inner(state, rest, argument_source);
}

fn without_command(state: &mut State, call: &ProgramCall<'_>, wrapper: &Wrapper) {
    let opens_shell =
        wrapper.names.iter().any(|name| matches!(*name, "chroot" | "unshare" | "nsenter" | "systemd-run"));
    if opens_shell {
        state.note(call.span, RiskClass::Opaque, "opens a shell");
    }
}

fn is_assignment(word: &Word) -> bool {
    let name = word.text().split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && !name.contains('/') && !name.starts_with('-'))
}

/// Assesses an assignment before the inner command, as in `env NAME=value`.
fn environment(state: &mut State, call: &ProgramCall<'_>, word: &Word) {
    let name = word.text().split('=').next().unwrap_or("");
    if builtin::alters_execution(name) || word.literal().is_none() && word.may_be_option() {
        state.note(
            call.span_of(word),
            RiskClass::Opaque,
            &format!("sets {name}, which changes how commands run"),
        );
    }
}

/// Assesses those options of a wrapper that have an effect by themselves, not only on the inner command.
fn own_options(state: &mut State, call: &ProgramCall<'_>, name: &str, parsed: &options::ParsedOptions<'_>) {
    let span = call.span;
    match name {
        "sudo" | "sudo-rs" | "doas" => {
            let shell = ["i", "s", "login", "shell"].iter().any(|option| parsed.has(option));
            if shell && parsed.operands.is_empty() {
                state.note(span, RiskClass::Opaque, "opens a shell");
            }
            if ["e", "edit"].iter().any(|option| parsed.has(option)) {
                for word in &parsed.operands {
                    targets::use_path(state, call.span_of(word), word, Access::Write);
                }
            }
        }
        "env" => {
            if let Some(text) = parsed.value(&["S", "split-string"]) {
                state.note(span, RiskClass::Opaque, "splits a string and runs it as a command");
                call.run_text(state, text, span, Stdin::Inherited);
            }
        }
        "unshare" | "nsenter" | "systemd-run" if parsed.has("shell") || parsed.has("S") => {
            state.note(span, RiskClass::Opaque, "opens a shell");
        }
        "time" | "strace" | "ltrace" => {
            if let Some(target) = parsed.value(&["o", "output"]) {
                let word = Word { shape: target.to_owned(), ..Word::default() };
                targets::use_path(state, span, &word, Access::Write);
            }
        }
        "systemd-run" if parsed.has("p") || parsed.has("property") => {
            state.note(span, RiskClass::Opaque, "runs a service with properties from the command line");
        }
        _ => {}
    }
}

/// Assesses a wrapper whose options are not understood. The inner command may start at any word, so several are tried.
fn guess(state: &mut State, call: &ProgramCall<'_>) {
    state.note(call.span, RiskClass::Opaque, "runs a command after unknown options");
    let arguments = call.arguments();
    let starts = (0..arguments.len())
        .filter(|at| arguments.get(*at).is_some_and(|word| !word.text().starts_with('-')));
    for at in starts.take(GUESSES_MAX) {
        let rest = arguments.get(at..).unwrap_or(&[]);
        call.judge_inner(state, rest, call.argument_source);
        if let Some(text) = rest.first().filter(|word| word.text().contains(' ')) {
            call.run_joined(state, std::slice::from_ref(text), Stdin::Inherited);
        }
    }
}

/// Assesses wrappers that pass text to a shell, such as `su -c text` and `watch words…`. Returns false for others.
fn text_command(state: &mut State, call: &ProgramCall<'_>, name: &str) -> bool {
    let arguments = call.arguments();
    if let "watch" | "parallel" | "sem" = name {
        if name != "watch" {
            state.note(call.span, RiskClass::Opaque, "builds commands from standard input");
        }
        let list = "-bcCdegprtwx -nqsI: --differences? --interval= --no-title --beep --errexit --chgexit --color --exec --precise \
             --equexit= --no-wrap";
        return match options::parse(list, arguments, StopPoint::FirstOperand) {
            Some(parsed) if !parsed.operands.is_empty() => {
                let rest = arguments.get(parsed.first_operand..).unwrap_or(&[]);
                call.run_joined(state, rest, Stdin::Inherited);
                true
            }
            Some(_) | None => false,
        };
    }
    let position = arguments.iter().position(|word| is_command_option(word.text()));
    let Some(position) = position else {
        if matches!(name, "su" | "runuser" | "sg") {
            state.note(call.span, RiskClass::Opaque, "runs as another user, or opens a shell as that user");
        }
        return false;
    };
    if matches!(name, "su" | "runuser") {
        state.note(call.span_of_program(), RiskClass::Changes, "runs as root or another user");
    }
    let Some(option) = arguments.get(position) else { return false };
    match option.text().split_once('=') {
        Some((_, text)) => call.run_text(state, text, call.span_of(option), Stdin::Inherited),
        None => match arguments.get(position + 1) {
            Some(text) => call.run_joined(state, std::slice::from_ref(text), Stdin::Inherited),
            None => state.note(call.span, RiskClass::Opaque, "a command that is computed at run time"),
        },
    }
    true
}

/// Returns true for an option that passes a command: `-c`, a cluster such as `-qc`, `--command`, `--command=…` or
/// `--session-command…`.
fn is_command_option(text: &str) -> bool {
    match text.strip_prefix("--") {
        Some(long) => {
            let name = long.split('=').next().unwrap_or("");
            !name.is_empty() && ("command".starts_with(name) || "session-command".starts_with(name))
        }
        None => text.starts_with('-') && text.ends_with('c') && text.len() > 1,
    }
}
