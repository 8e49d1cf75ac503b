//! The repository's tasks. `cargo xtask` lists them.
//!
//! Each task sets up its own requirements and reports progress; nothing must be installed by hand first.
#![expect(clippy::print_stderr, reason = "a task reports to the user who started it")]

mod bench;
mod booted;
mod booted_tests;
mod demo;
mod dist;
mod docs;
mod eval;
mod macos;
mod pictures;
mod prices;
mod setup;
mod task;
mod test;
mod web;
mod wire;
mod workflows;
mod workspace;

use std::process::ExitCode;

use task::{Checked, Task};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next();
    let rest: Vec<_> = arguments.collect();
    let name = match name.as_deref() {
        None | Some("help" | "--help" | "-h") => {
            eprintln!("{}", task::overview());
            return ExitCode::SUCCESS;
        }
        Some(name) => name,
    };
    let Some(task) = Task::named(name) else {
        eprintln!("unknown task `{name}`\n\n{}", task::overview());
        return ExitCode::from(2);
    };
    // `eval` has a parser and a help of its own.
    match if task.name == "eval" { Ok(Checked::Run) } else { task.check(&rest) } {
        Ok(Checked::Run) => {}
        Ok(Checked::Help) => {
            eprintln!("{}", task.help());
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("xtask: {why}\n\n{}", task.help());
            return ExitCode::from(2);
        }
    }
    let done = match task.name {
        "demo" => demo::run(&rest),
        "test" => test::run(&rest),
        "bench" => bench::run(&rest),
        "dist" => dist::run(&rest),
        "eval" => eval::run(&rest),
        "check-macos" => macos::run(),
        "layout" => bench::layout::run(&rest),
        "docs" => docs::run(&rest),
        "pictures" => pictures::run(&rest),
        "prices" => prices::run(&rest),
        "setup" => setup::tests().and_then(|()| setup::desktop()),
        "web" => web::run(&rest),
        "wire" => wire::run(),
        other => unreachable!("the task `{other}` has no function"),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
