//! The binary: parses the command line, loads settings, runs a command, and returns its exit code.
//!
//! Starts only what the command needs: no runtime and no config for `--help` and `--version`.

mod acp;
mod app;
mod approve;
mod audit;
mod cli;
mod commands;
mod completions;
mod config;
mod config_commands;
mod connect;
mod demo;
mod desktop;
mod doctor;
mod exec_input;
mod exit;
mod first_run;
mod fit_lines;
mod global_flags;
mod guard;
mod help;
mod init;
mod known_host;
mod local_model;
mod markdown;
mod mcp;
mod model_lists;
mod origin;
mod otlp_exporter;
mod parent_watch;
mod policy_check;
mod process_guard;
#[cfg(test)]
mod reference;
mod runbook;
mod select_model;
mod serve;
mod serve_options;
mod sessions;
mod settings;
mod shell_init;
mod skills;
mod system_prompt;
mod token;
mod token_file;
mod tool_calling_file;
mod trust;
mod tui;
mod user_program;
mod workspace_trust;
mod yes_no;

use std::ffi::OsString;
use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use sysop_core::id::SessionId;
use sysop_core::message::ModelRef;
use sysop_core::model_provider::DEMO;
use sysop_core::policy::Dialect;
use sysop_core::text::neutralize;
use sysop_core::ui_text::error_lines;

use crate::cli::{
    ApproveArguments, Arguments, AuditCommand, ChatArguments, Command, PolicyCheckArguments, PolicyCommand,
    RunbookCommand, ShellInitArguments, SkillsCommand, UndoArguments,
};
use crate::exit::{Cancellation, CommandError, Exit};
use crate::global_flags::{GlobalFlags, ResumeTarget, Verbosity};
use crate::select_model::{ModelChoice, OllamaServer};
use crate::settings::{HostChoice, Settings};

/// Memory allocator. For long logs and answers, which consist of many small allocations, it is a third faster
/// than the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WARNINGS_PRINTED_MAX: usize = 5;

fn main() -> ExitCode {
    // An `ssh` started by another sysop process runs this program to ask for a password.
    if let Some(code) = sysop_host::run_as_askpass() {
        return ExitCode::from(code);
    }
    // The supervisor of a local model runs this program, which then becomes the model's server.
    if let Some(code) = sysop_local::run_as_launcher() {
        return ExitCode::from(code);
    }
    process_guard::close_memory();
    origin::name_process();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // Scripts call this often, and it does not need the full command line parser.
    if let [_, flag] = arguments.as_slice()
        && (flag == "--version" || flag == "-V")
    {
        return end(emit(concat!("sysop ", env!("CARGO_PKG_VERSION"), "\n").as_bytes()));
    }
    match completions::complete(&arguments) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(_) => return ExitCode::FAILURE, // a message would appear in the line that is being typed
    }
    match cli::parse(arguments) {
        Ok(arguments) => end(dispatch(arguments)),
        Err(error) => {
            // If printing fails, nothing can be reported.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage.code()))
        }
    }
}

/// Prints an error and its hint, if there is one, and returns the exit code.
fn end(result: Result<Exit>) -> ExitCode {
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            let text = format!("{error:#}");
            if error.is::<Cancellation>() {
                tell(&text)
            } else {
                tell(error_lines(&text).trim_end())
            }
            exit::exit_of(&error).into()
        }
    }
}

fn dispatch(arguments: Arguments) -> Result<Exit> {
    origin::check(arguments.command.as_ref())?;
    let mut flags = arguments.global;
    flags.creates_config = arguments.command.as_ref().is_some_and(Command::writes_config);
    let Some(command) = arguments.command else {
        return tui::run(&flags, arguments.images.added_to(cli::task_text(&arguments.task)));
    };
    if !arguments.images.files.is_empty() {
        return Err(
            CommandError::usage("put --image after the command: `sysop exec --image FILE TASK`").into()
        );
    }
    match command {
        Command::Acp => acp::run(&flags),
        Command::ShellInit(arguments) => shell_init(&flags, arguments),
        Command::Completions { shell } => emit(&completions::script(shell)?),
        Command::Man => emit(&help::manual().context("cannot generate the man page")?),
        Command::MockLlm(arguments) => wait_for(commands::mock_llm(arguments)),
        Command::Config(command) => config_commands::run(command, &Settings::load(&flags)?),
        Command::Model(command) => {
            let settings = load(&flags)?;
            wait_for(local_model::run(&settings, command))
        }
        Command::Models { provider } => wait_for(model_lists::run(load(&flags)?, provider)),
        Command::Trust(arguments) => wait_for(trust::run(flags, arguments)),
        Command::Init => init::run(flags).map(|()| Exit::Done),
        Command::Policy(PolicyCommand::Check(arguments)) => policy_check(&load(&flags)?, arguments),
        Command::Skills(SkillsCommand::List) => emit(skills::list(&load(&flags)?).as_bytes()),
        Command::Skills(SkillsCommand::Check { paths }) => report(skills::check(&paths)),
        Command::Guard(command) => wait_for(guard::run(load(&flags)?, command)),
        Command::Mcp(command) => wait_for(mcp::run(load(&mcp::flags(flags, &command))?, command)),
        Command::Doctor(arguments) => doctor(Settings::load(&flags), arguments),
        Command::Sessions(command) => {
            let settings = load(&flags)?.with_database(command.database.database);
            wait_for(commands::sessions(settings, command.command))
        }
        Command::Token(command) => {
            let settings = load(&flags)?.with_database(command.database.database);
            let maker = token::TokenMaker { owner: origin::user_name(), unattended: origin::is_unattended() };
            wait_for(commands::token(settings, &maker, command.command))
        }
        Command::Audit(command) => audit_command(command, &Settings::load(&flags)?),
        Command::Serve(arguments) => {
            serve::check(&arguments)?;
            let (settings, pick) = with_model(load(&flags)?)?;
            let settings = settings.with_database(arguments.database.database.clone());
            serve::run(settings, pick.model, &arguments)
        }
        Command::Connect(arguments) => {
            wait_for(connect::connect(load_with_trust_prompt(&flags)?, &flags, arguments))
        }
        Command::Approve(arguments) => approve_command(&load(&flags)?, &arguments),
        Command::Attach(arguments) => wait_for(connect::attach(load(&flags)?, &flags, arguments)),
        Command::Desktop(arguments) => wait_for(desktop::run(flags, arguments)),
        Command::Undo(arguments) => undo(flags, arguments),
        Command::Run(arguments) => runbook::run(load(&flags)?, &arguments),
        Command::Runbook(RunbookCommand::Export(arguments)) => {
            let settings = load(&flags)?.with_database(arguments.database.database.clone());
            wait_for(runbook::export(settings, arguments))
        }
        Command::Runbook(RunbookCommand::Check { files }) => report(runbook::check(&files)),
        Command::Chat(arguments) => chat(&flags, arguments),
        Command::Exec(arguments) => {
            let (settings, pick) = with_model(load(&flags)?)?;
            describe(&settings, &pick);
            mcp::tell_waiting(&settings);
            wait_for(commands::exec(settings, pick, arguments))
        }
    }
}

/// Prints text and returns the exit code.
fn report((text, exit): (String, Exit)) -> Result<Exit> {
    let text =
        if io::stdout().is_terminal() { doctor::fit(&text, sysop_repl::terminal_width()) } else { text };
    emit(text.as_bytes())?;
    Ok(exit)
}

fn approve_command(settings: &Settings, arguments: &ApproveArguments) -> Result<Exit> {
    let clock = sysop_driver::system_clock();
    wait_for(approve::run(settings, clock.as_ref(), arguments, &mut StandardOutput))
}

fn undo(mut flags: GlobalFlags, arguments: UndoArguments) -> Result<Exit> {
    let session = arguments.session.as_deref().map(SessionId::new);
    flags.resume = Some(session.map_or(ResumeTarget::LatestWithUndo, ResumeTarget::Session));
    wait_for(commands::undo(load(&flags)?, arguments))
}

fn chat(flags: &GlobalFlags, arguments: ChatArguments) -> Result<Exit> {
    let settings = load_with_trust_prompt(flags)?;
    let ollama = OllamaServer::new(&settings);
    let (settings, pick) = with_model_of(first_run::settings(settings, flags, &ollama)?, &ollama)?;
    describe(&settings, &pick);
    wait_for(mcp::ask_before_session(&settings))?;
    wait_for(commands::chat(settings, pick, arguments))
}

/// Loads the settings and wipes secrets from the environment.
fn load_quietly(flags: &GlobalFlags) -> Result<Settings, CommandError> {
    let settings = Settings::load(flags)?;
    process_guard::wipe_variables(&settings.secret_variables);
    Ok(settings)
}

/// Like `load_quietly`, and prints warnings. Errors because of which commands are denied are never left out.
fn load(flags: &GlobalFlags) -> Result<Settings> {
    let settings = load_quietly(flags)?;
    for error in &settings.config.denials {
        tell(&format!("error: {error}"));
    }
    if settings.verbosity != Verbosity::Quiet {
        let warnings = settings.warnings();
        for warning in warnings.iter().take(WARNINGS_PRINTED_MAX) {
            tell(&format!("warning: {warning}"));
        }
        if let more @ 1.. = warnings.len().saturating_sub(WARNINGS_PRINTED_MAX) {
            let more = sysop_core::ui_text::counted(more as u64, "more warning");
            tell(&format!("warning: {more}; run `sysop config show` to see all"));
        }
    }
    Ok(settings)
}

/// Like `load`, but first asks the user to trust the workspace if parts of its config are ignored, the user
/// has not refused before, and standard input and error are a terminal.
fn load_with_trust_prompt(flags: &GlobalFlags) -> Result<Settings> {
    let settings = Settings::load(flags)?;
    let terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    match settings.untrusted() {
        Some(untrusted) if terminal && !untrusted.refused => {
            workspace_trust::ask(
                &settings.folders.data,
                untrusted,
                &mut io::stdin().lock(),
                &mut io::stderr().lock(),
            )?;
        }
        Some(_) | None => {}
    }
    load(flags)
}

fn with_model(settings: Settings) -> Result<(Settings, ModelChoice)> {
    let ollama = OllamaServer::new(&settings);
    with_model_of(settings, &ollama)
}

/// Like `with_model`, with an Ollama server that may have been asked before.
fn with_model_of(settings: Settings, ollama: &OllamaServer) -> Result<(Settings, ModelChoice)> {
    settings.require_runnable()?;
    let pick = match select_model::select_model(&settings, ollama) {
        Ok(pick) => pick,
        // A resumed session keeps its own model, which may be the demo or one that `--model` named.
        Err(_) if settings.resume.is_some() => {
            ModelChoice { model: ModelRef::new(DEMO, DEMO), reason: "no other is configured".to_owned() }
        }
        Err(none) => return Err(CommandError::usage(none.to_string()).into()),
    };
    select_model::require_key(&settings, &pick)?;
    Ok((settings, pick))
}

fn shell_init(flags: &GlobalFlags, arguments: ShellInitArguments) -> Result<Exit> {
    if !arguments.propose {
        return emit(arguments.shell.script().as_bytes());
    }
    // Do not print warnings, which would end up on the user's line.
    let prepare = || {
        let settings = load_quietly(flags)?;
        let picked = with_model(settings).map_err(|error| CommandError::usage(format!("{error:#}")));
        picked.map(|(settings, pick)| (settings, pick.model))
    };
    report(wait_for(shell_init::propose(arguments.shell, prepare))?)
}

/// With `-v`, describes what a task will use.
fn describe(settings: &Settings, pick: &ModelChoice) {
    if !matches!(settings.verbosity, Verbosity::Verbose(_)) {
        return;
    }
    for file in &settings.config.files {
        tell(&format!("config: {}", config::display_path(file)));
    }
    if settings.resume.is_some() {
        return; // the session has its own host, and its own model unless one is configured
    }
    tell(&format!("model: {} ({})", pick.model, pick.reason));
    let mode = settings.approve(&settings.host);
    let root = match settings.host {
        HostChoice::Local => config::display_path(&settings.root),
        HostChoice::Ssh(_) | HostChoice::Fleet(_) => {
            app::ToolLocation::new(settings.host.clone(), settings.root.clone()).display_root()
        }
    };
    tell(&format!(
        "host: {}, root {}, approval {}",
        sysop_core::ui_text::place(&settings.host.to_string()),
        root,
        mode.as_str()
    ));
}

fn policy_check(settings: &Settings, arguments: PolicyCheckArguments) -> Result<Exit> {
    let command = arguments.command_line();
    let PolicyCheckArguments { command: _, mode, dialect, cwd, json } = arguments;
    let question = policy_check::PolicyQuestion {
        command,
        mode,
        dialect: dialect.unwrap_or(Dialect::Bash),
        folder: cwd,
    };
    if let Some(problem) = settings.problems.iter().find(|problem| problem.message.contains("host")) {
        return Err(problem.clone().into());
    }
    let answer = policy_check::check(settings, question)?;
    for name in known_host::unconfigured_names(settings) {
        let name = sysop_core::text::neutralize_line(name);
        tell(&format!("warning: {name} is not a configured host; the general settings were used"));
    }
    emit(if json { answer.to_json() } else { answer.to_text() }.as_bytes())
}

fn audit_command(command: AuditCommand, settings: &Settings) -> Result<Exit> {
    let mut text = Vec::new();
    let done = audit::run(&settings.folders.audit(), command, &mut text);
    emit(&text)?;
    done
}

fn doctor(settings: Result<Settings, CommandError>, arguments: cli::DoctorArguments) -> Result<Exit> {
    let settings = match settings {
        Ok(settings) => std::sync::Arc::new(settings),
        Err(failure) => return report(doctor::unusable(&failure)),
    };
    if let Some(model) = arguments.probe {
        return wait_for(commands::probe_model(settings, model));
    }
    let pick = select_model::select_model(&settings, &OllamaServer::new(&settings));
    let reach = commands::LiveDoctorProbe::new(std::sync::Arc::clone(&settings));
    report(wait_for(async { Ok(doctor::examine(&settings, pick, &reach).await) })?)
}

/// Maximum wait for blocking tasks at the end of a command.
const BLOCKED_MAX: Duration = Duration::from_millis(200);

fn wait_for<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime()?;
    let done = runtime.block_on(command);
    // A read of standard input that still waits must not keep the process.
    runtime.shutdown_timeout(BLOCKED_MAX);
    done
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")
}

/// Standard output. A closed pipe is not an error, so that `sysop approve | head -1` ends quietly.
struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        or_if_closed(io::stdout().write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        or_if_closed(io::stdout().flush(), ())
    }
}

fn or_if_closed<T>(written: io::Result<T>, value: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(value),
        Ok(_) | Err(_) => written,
    }
}

/// Writes to standard output.
fn emit(bytes: &[u8]) -> Result<Exit> {
    let written = StandardOutput.write_all(bytes).and_then(|()| StandardOutput.flush());
    written.context("cannot write to standard output")?;
    Ok(Exit::Done)
}

/// Prints a message to standard error.
fn tell(text: &str) {
    // If printing fails, nothing can be reported.
    let _ = writeln!(io::stderr().lock(), "{}", neutralize(text));
}
