//! Checks for programs whose arguments the table language cannot describe. The table names each check.

use super::operands::is_simple;
use super::sed;
use crate::context::Access;
use crate::lexer::Word;
use crate::options::{Effect, Reading, StopPoint, Style, operands_of, read, rules};
use crate::program_call::{ArgumentSource, ProgramCall, Stdin};
use crate::protected::is_secret_name;
use crate::risk::RiskClass;
use crate::state::State;
use crate::{path, targets};

mod addresses;
mod database;
mod files;
mod remote;
mod repository;
mod text;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Find,
    Sed,
    Test,
    Bracket,
    Printf,
    Remove,
    Rights,
    Moves,
    Tar,
    Ps,
    Kill,
    Sysctl,
    Service,
    Container,
    Environment,
    AfterDashes,
    Push,
    Address,
    Checkout,
    Cloud,
    Database,
    Sender,
    Ssh,
    LastText,
    Make,
    Removes,
    Mounts,
    Getent,
    Ifconfig,
    Mysqladmin,
    Addresses,
    Numeric,
    Reset,
    Config,
    Scale,
    Objects,
    Variables,
}

const NAMES: &[(&str, Check)] = &[
    ("find", Check::Find),
    ("sed", Check::Sed),
    ("test", Check::Test),
    ("bracket", Check::Bracket),
    ("printf", Check::Printf),
    ("remove", Check::Remove),
    ("rights", Check::Rights),
    ("moves", Check::Moves),
    ("tar", Check::Tar),
    ("ps", Check::Ps),
    ("kill", Check::Kill),
    ("sysctl", Check::Sysctl),
    ("service", Check::Service),
    ("container", Check::Container),
    ("environment", Check::Environment),
    ("after_dashes", Check::AfterDashes),
    ("push", Check::Push),
    ("address", Check::Address),
    ("checkout", Check::Checkout),
    ("cloud", Check::Cloud),
    ("database", Check::Database),
    ("sender", Check::Sender),
    ("ssh", Check::Ssh),
    ("last_text", Check::LastText),
    ("make", Check::Make),
    ("removes", Check::Removes),
    ("mounts", Check::Mounts),
    ("getent", Check::Getent),
    ("ifconfig", Check::Ifconfig),
    ("mysqladmin", Check::Mysqladmin),
    ("addresses", Check::Addresses),
    ("numeric", Check::Numeric),
    ("reset", Check::Reset),
    ("config", Check::Config),
    ("scale", Check::Scale),
    ("objects", Check::Objects),
    ("variables", Check::Variables),
];

impl Check {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, check)| *check)
    }

    /// Returns true if this check parses the arguments, and the table's rules do not.
    pub(super) fn reads_arguments(self) -> bool {
        matches!(
            self,
            Self::Find
                | Self::Sed
                | Self::Test
                | Self::Bracket
                | Self::Printf
                | Self::Tar
                | Self::Kill
                | Self::Service
        )
    }

    /// Returns true if the effect of the call does not depend on the values of the expansions in its arguments.
    pub(super) fn judges_expansions(self, arguments: &[Word]) -> bool {
        let bracket = arguments.split_last().filter(|(last, _)| last.text() == "]");
        self == Self::Test && text::takes_any_value(arguments)
            || self == Self::Bracket && bracket.is_some_and(|(_, inner)| text::takes_any_value(inner))
            || self == Self::Printf && text::is_printf(arguments)
    }

    /// Runs the check. Returns true if everything that it parses is understood.
    pub(super) fn run(
        self,
        state: &mut State,
        call: &ProgramCall<'_>,
        arguments: &[Word],
        reading: &Reading<'_, '_>,
    ) -> bool {
        match self {
            Self::Find => return files::find(state, call),
            Self::Sed => return sed_script(state, call),
            Self::Test => return text::is_test(arguments),
            Self::Bracket => {
                return arguments
                    .split_last()
                    .is_some_and(|(last, inner)| last.text() == "]" && text::is_test(inner));
            }
            Self::Printf => return text::is_printf(arguments),
            Self::Remove => files::remove(state, call, reading),
            Self::Rights => files::rights(state, call, reading),
            Self::Moves => files::moves(state, call, reading),
            Self::Tar => return files::tar(state, call),
            Self::Ps => ps(state, call, reading),
            Self::Kill => return kill(state, call),
            Self::Sysctl => sysctl(state, call, reading),
            Self::Service => return service(state, call),
            Self::Container => container(state, call, arguments, reading),
            Self::Environment => environment(state, call, reading),
            Self::AfterDashes => after_dashes(state, call, arguments),
            Self::Push => push(state, call, arguments, reading),
            Self::Address => remote::address(state, call, arguments),
            Self::Checkout => repository::checkout(state, call, arguments, reading),
            Self::Cloud => cloud(state, call),
            Self::Database => database::check(state, call),
            Self::Sender => remote::sender(state, call, reading),
            Self::Ssh => remote::ssh(state, call),
            Self::LastText => {
                if let Some(text) = arguments.iter().rev().find(|word| word.text().contains(' ')) {
                    call.run_joined(state, std::slice::from_ref(text), Stdin::Inherited);
                }
            }
            Self::Removes => removes(state, call, reading),
            Self::Mounts => mounts(state, call, reading),
            Self::Getent => getent(state, call, reading),
            Self::Ifconfig => {
                if reading.operands.len() > 1 || !reading.unknown.is_empty() {
                    state.note(call.span, RiskClass::Lockout, "changes network addresses or links");
                }
            }
            Self::Mysqladmin => mysqladmin(state, call, arguments),
            Self::Addresses => addresses::operands(state, call, reading),
            Self::Numeric => addresses::numeric(state, call, reading),
            Self::Reset => repository::reset(state, call, reading),
            Self::Config => repository::config(state, call, reading),
            Self::Scale => scale(state, call, reading),
            Self::Objects => objects(state, call, reading),
            Self::Variables => variables(state, call, reading),
            Self::Make => {
                if operands_of(arguments).any(|word| word.text().starts_with("SHELL")) {
                    state.note(call.span, RiskClass::Opaque, "runs build rules from the command line");
                }
            }
        }
        true
    }
}

/// Assesses `printenv`: notes variables named like a secret, as the expansion of such a variable is noted.
fn variables(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    for word in reading.operands.iter().filter(|word| is_secret_name(word.text())) {
        let why = "prints a variable named like a secret";
        state.note(call.span_of(word), RiskClass::ReadsSecret, why);
    }
}

/// Assesses `git push`: notes refspecs that overwrite or delete refs on the server.
fn push(state: &mut State, call: &ProgramCall<'_>, arguments: &[Word], reading: &Reading<'_, '_>) {
    remote::address(state, call, arguments);
    let rewrites = |word: &&Word| word.text().starts_with(['+', ':']) || word.literal().is_none();
    if reading.operands.iter().skip(1).any(rewrites) {
        state.note(call.span, RiskClass::Dangerous, "overwrites or deletes data on the server");
    }
}

/// Assesses programs like `rpm`: notes packages that are fetched or removed.
fn removes(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    let given = |name: &&str| reading.has(name);
    if reading.operands.iter().any(|word| word.text().contains("://")) {
        state.note(call.span, RiskClass::ReadsRemote, "fetches a package");
    }
    if ["e", "erase", "R", "remove", "r", "P", "purge"].iter().any(given) && !reading.has("q") {
        super::operands::note_removed(state, call, &reading.operands);
    }
}

/// Assesses `mysqladmin`: notes verbs that destroy data or stop the server.
fn mysqladmin(state: &mut State, call: &ProgramCall<'_>, arguments: &[Word]) {
    let verbs = ["drop", "shutdown", "password", "flush-privileges", "kill", "stop-slave", "reload"];
    if arguments.iter().any(|word| verbs.contains(&word.text())) {
        state.note(call.span, RiskClass::Dangerous, "drops or stops a database");
    }
}

/// Assesses `kubectl scale`. Scaling to zero stops workloads; a number that is not literal is assessed like zero.
fn scale(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    let replicas = reading.values(&["replicas"]);
    if replicas.iter().any(|count| count.parse::<u32>().map_or(true, |count| count == 0)) {
        state.note(call.span, RiskClass::Dangerous, "stops workloads in a cluster");
    }
}

/// Assesses `kubectl get`. A table of secrets shows only their names, but other output formats show their content.
fn objects(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    let output = reading.values(&["o", "output", "template"]);
    let is_table = output.iter().all(|format| matches!(*format, "wide" | "name"));
    let names_secret = |text: &str| {
        text.split(',').any(|kind| {
            let kind = kind.split(['/', '.']).next().unwrap_or("").to_lowercase();
            matches!(kind.as_str(), "secret" | "secrets")
        })
    };
    if !is_table && reading.operands.iter().any(|word| names_secret(word.text()) || word.literal().is_none())
    {
        state.note(call.span, RiskClass::ReadsSecret, "shows the contents of cluster secrets");
    }
}

/// Assesses `ps`: notes `ps e`, which prints the environment of processes.
fn ps(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    let shows = reading.operands.first().is_some_and(|word| {
        word.text().contains('e') && word.text().bytes().all(|b| b.is_ascii_alphabetic())
    });
    if shows {
        state.note(call.span, RiskClass::ReadsSecret, "shows the environment of processes");
    }
}

fn getent(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    match reading.operands.first().map(|word| word.text()) {
        Some("shadow" | "gshadow") => state.note(call.span, RiskClass::ReadsSecret, "reads password hashes"),
        Some("passwd" | "group" | "services" | "protocols" | "ethers" | "rpc" | "aliases") => {}
        Some(_) | None => state.note(call.span, RiskClass::ReadsRemote, "resolves names"),
    }
}

/// Assesses `sed`: its script, the files that it reads, and with `-i` the files that it writes. Returns true
/// if every part is understood.
fn sed_script(state: &mut State, call: &ProgramCall<'_>) -> bool {
    let list = "-nErsuz -e: -l: -i? -f:read --quiet --silent --debug --posix --sandbox --line-length= --follow-symlinks \
         --expression= --regexp-extended --null-data --separate --unbuffered --in-place? --file=read";
    let Some(known) = rules(list, Style::Gnu, Effect::Known) else { return false };
    let parsed = read(&known, Style::Gnu, call.arguments(), StopPoint::End);
    let given = parsed.values(&["e", "expression"]);
    let mut files = parsed.operands.iter();
    let scripts = match given.as_slice() {
        [] if !parsed.has("f") && !parsed.has("file") => {
            files.next().map(|word| word.text()).into_iter().collect()
        }
        _ => given,
    };
    let in_place = parsed.has("i") || parsed.has("in-place");
    let unread = parsed.has("f") || parsed.has("file");
    let hidden = |word: &&Word| word.literal().is_none() && word.text().starts_with('-');
    if unread || parsed.unknown.iter().any(hidden) || !sed::only_edits_stream(&scripts.join("\n")) {
        state.note(call.span, RiskClass::Opaque, "a script that may run commands or write files");
    }
    for word in files {
        let access = if in_place { Access::Write } else { Access::Read };
        targets::use_path(state, call.span_of(word), word, access);
    }
    if in_place {
        state.raise(RiskClass::Changes);
    }
    parsed.unknown.is_empty() && !scripts.iter().any(|script| script.contains(crate::lexer::UNKNOWN))
}

fn kill(state: &mut State, call: &ProgramCall<'_>) -> bool {
    let arguments = call.arguments();
    let first = arguments.first().map_or("", Word::text);
    if matches!(first, "-l" | "-L" | "--list" | "--table") {
        return arguments.iter().all(is_simple);
    }
    let skip = match first {
        "-s" | "-n" | "--signal" | "-q" => 2,
        _ => usize::from(first.starts_with('-') && arguments.len() > 1),
    };
    let processes = arguments.get(skip..).unwrap_or(&[]);
    state.note(call.span, RiskClass::Changes, "kills processes");
    let number = |word: &Word| word.text().parse::<i64>().ok();
    if processes.iter().any(|word| number(word).is_some_and(|number| number.abs() <= 1)) {
        state.note(call.span, RiskClass::Lockout, "kills all processes or init");
    } else if !processes.iter().all(|word| number(word).is_some() || is_job(word.text())) {
        state.note(call.span, RiskClass::Opaque, "kills a process that is chosen at run time");
    }
    if call.argument_source == Some(ArgumentSource::Stdin) {
        state.note(call.span, RiskClass::Dangerous, "the targets come from standard input");
    }
    true
}

fn is_job(text: &str) -> bool {
    text == "--"
        || text
            .strip_prefix('%')
            .is_some_and(|job| job.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+'))
}

fn sysctl(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    let writes = reading.has("w") || reading.has("write");
    for word in &reading.operands {
        let text = word.text().replace('/', ".");
        let (name, value) = text.split_once('=').unwrap_or((&text, ""));
        if value.is_empty() && !writes {
            continue;
        }
        let span = call.span_of(word);
        if name.starts_with("net.") || word.literal().is_none() || name.contains('*') {
            state.note(span, RiskClass::Lockout, "changes the network configuration");
        } else if name.contains("core_pattern") || name.contains("modprobe") {
            state.note(span, RiskClass::Dangerous, "changes the running kernel");
        } else {
            state.note(span, RiskClass::Changes, "changes the running kernel");
        }
    }
}

/// Assesses `service NAME ACTION` and similar programs. Returns true if every part is understood.
fn service(state: &mut State, call: &ProgramCall<'_>) -> bool {
    let arguments = call.arguments();
    let actions: Vec<&str> = operands_of(arguments).map(Word::text).collect();
    let looks_on = matches!(actions.as_slice(), [_, "status"] | []) && arguments.iter().all(is_simple)
        || matches!(arguments, [word] if word.text() == "--status-all");
    if looks_on {
        return true;
    }
    state.note(call.span, RiskClass::Changes, "starts, stops or reloads a service");
    let vital = |word: &Word| word.literal().is_none() || super::operands::is_vital_unit(word.text());
    if operands_of(arguments).any(vital) && !actions.contains(&"start") {
        state.note(call.span, RiskClass::Lockout, "affects a service that provides remote access");
    }
    arguments.iter().all(is_simple)
}

/// Assesses `docker run`: notes host resources that are shared with the container.
fn container(state: &mut State, call: &ProgramCall<'_>, arguments: &[Word], reading: &Reading<'_, '_>) {
    let own = arguments.get(..reading.first_operand).unwrap_or(arguments);
    for option in &reading.options {
        let (name, value) = (option.rule.name, option.value.unwrap_or(""));
        let shares = match name {
            "v" | "volume" | "mount" => {
                let source = match name {
                    "mount" => value
                        .split(',')
                        .find_map(|part| part.strip_prefix("source=").or_else(|| part.strip_prefix("src=")))
                        .unwrap_or(""),
                    _ => value.split(':').next().unwrap_or(""),
                };
                let folder = path::resolve(state.folders.only(), source);
                let system = ["/etc", "/var", "/root", "/home", "/usr", "/run", "/opt", "/srv", "/mnt"];
                folder == "/"
                    || system.contains(&folder.as_str())
                    || source.contains("docker.sock")
                    || source.starts_with('/') && path::protected(&folder).is_some()
            }
            "pid" | "net" | "network" | "ipc" | "userns" | "uts" => value == "host",
            _ => false,
        };
        if shares {
            state.note(call.span, RiskClass::Dangerous, "gives a container access to the host");
        } else if matches!(name, "v" | "volume" | "mount") && option.word.literal().is_none() {
            state.note(call.span, RiskClass::Opaque, "shares a path that is computed at run time");
        }
    }
    if own.iter().any(|word| word.text().contains("docker.sock")) {
        state.note(call.span, RiskClass::Dangerous, "gives a container access to the host");
    }
}

/// Assesses `docker inspect`: notes that it shows the environment of a container, unless the format or the type
/// excludes that.
fn environment(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    let formats = reading.values(&["f", "format"]);
    let types = reading.values(&["type"]);
    let is_container = types.iter().all(|kind| !matches!(*kind, "image" | "network" | "volume" | "node"));
    if is_container && (formats.is_empty() || formats.iter().any(|format| may_show_environment(format))) {
        state.note(call.span, RiskClass::ReadsSecret, "shows the environment of containers");
    }
}

/// Returns true if a template of `docker inspect` may show the environment: it names it, or something that contains it.
fn may_show_environment(format: &str) -> bool {
    let format = format.to_lowercase();
    let names_part = |(point, _): (usize, &str)| {
        let rest = &format[point + 1..];
        let (name, after) =
            rest.split_at(rest.find(|char: char| !char.is_ascii_alphanumeric()).unwrap_or(rest.len()));
        !matches!(name, "" | "createcommand") && (name != "config" || after.starts_with('.'))
    };
    format.contains(crate::lexer::UNKNOWN)
        || !format.contains("{{")
        || ["env", "index"].iter().any(|word| format.contains(word))
        || !format.match_indices('.').all(names_part)
}

/// Assesses `mount` and `umount`: notes system directories that are mounted over or unmounted.
fn mounts(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    let remounts = reading.values(&["o", "options"]).iter().any(|value| value.contains("remount"));
    let system =
        ["/", "/home", "/var", "/usr", "/etc", "/boot", "/opt", "/root", "/tmp", "/dev", "/proc", "/sys"];
    let over = |word: &&&Word| {
        let folder = path::resolve(state.folders.only(), word.text());
        system.contains(&folder.as_str()) || path::protected(&folder).is_some_and(|what| what != "a device")
    };
    let unmounts = call.words.first().is_some_and(|word| word.text().ends_with("umount"));
    let places = reading.operands.iter().skip(usize::from(!unmounts));
    if remounts || places.clone().any(|word| over(&word)) {
        state.note(call.span, RiskClass::Dangerous, "mounts over or unmounts a system directory");
    } else if places.clone().any(|word| word.literal().is_none()) {
        state.note(call.span, RiskClass::Opaque, "mounts a source that is computed at run time");
    }
}

/// Assesses the command after `--`, as in `kubectl exec POD -- command…`.
fn after_dashes(state: &mut State, call: &ProgramCall<'_>, arguments: &[Word]) {
    let at = arguments.iter().position(|word| word.text() == "--");
    match at.and_then(|at| arguments.get(at + 1..)) {
        Some(inner @ [_, ..]) => call.judge_inner(state, inner, call.argument_source),
        Some(_) | None => state.note(call.span, RiskClass::Opaque, "runs a command on another host"),
    }
}

/// Assesses cloud tools by the verbs in their words, as in `terminate-instances`, `instances delete` and `s3 rm`.
fn cloud(state: &mut State, call: &ProgramCall<'_>) {
    const VERBS: &[&str] = &[
        "delete", "terminate", "destroy", "remove", "rm", "rb", "purge", "undefine", "deregister", "detach",
        "revoke", "stop-instances", "reset", "wipe",
    ];
    let destroys = operands_of(call.arguments()).take(4).any(|word| {
        let text = word.text();
        VERBS
            .iter()
            .any(|verb| text == *verb || text.strip_prefix(verb).is_some_and(|rest| rest.starts_with('-')))
    });
    let deletes =
        call.arguments().iter().any(|word| "--delete".starts_with(word.text()) && word.text().len() > 3);
    if destroys || deletes {
        state.note(call.span, RiskClass::Dangerous, "deletes or stops shared resources");
    }
}
