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
mod pictures;
mod prices;
mod setup;
mod test;
mod web;
mod wire;
mod workflows;
mod workspace;

use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask TASK [ARGUMENTS]

  demo      Build sysop and run a real task on this machine, without a key; --model: with a downloaded model
  test      Check format and lints, and run all tests; --all adds long random tests and installs in fresh systems
  bench     Measure whole processes against baselines of the same run [NAME...] [--check]
  eval      Count the tasks that a model solves with sysop and with a plain loop [--help]
  wire      Generate schemas, TypeScript types and docs/protocol.md from the message types
  pictures  Take the pictures in docs/pictures from real runs [--screen: without the page; --tour: only join them] [SYSOP]
  prices    Generate the table of hosted models from LiteLLM's list [FILE]
  docs      Write the reference pages and build the guide into docs/guide/book [--build: only build]
  web       Build the page into web/dist; --test: test it in a browser as well
  dist      Build binaries for old systems, an archive and Debian packages in target/packages [--static] [--try]
  setup     Install the Debian packages that the tests need";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next();
    let rest: Vec<_> = arguments.collect();
    let done = match task.as_deref() {
        Some("demo") => demo::run(&rest),
        Some("test") => test::run(&rest),
        Some("bench") => bench::run(&rest),
        Some("dist") => dist::run(&rest),
        Some("eval") => eval::run(&rest),
        Some("docs") => docs::run(&rest),
        Some("pictures") => pictures::run(&rest),
        Some("prices") => prices::run(&rest),
        Some("setup") => setup::tests().and_then(|()| setup::desktop()),
        Some("web") => web::run(&rest),
        Some("wire") => wire::run(),
        None | Some("help" | "--help" | "-h") => {
            eprintln!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some(other) => {
            eprintln!("unknown task `{other}`\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
