//! The repository's tasks. `cargo xtask` lists them.
//!
//! Each task sets up its own requirements and reports progress; nothing must be installed by hand first.
#![expect(clippy::print_stderr, reason = "a chore talks to the person who started it")]

mod bench;
mod demo;
mod dist;
mod pictures;
mod setup;
mod test;
mod web;
mod wire;
mod workspace;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask CHORE

  demo    build sysop and let it do a real job on this machine, without a key
  test    format, lints and all tests; --all adds what takes longer: long random tests, installs in fresh systems
  bench   measure whole processes against baselines of the same run [NAME..] [--check]
  wire    write what is generated from the messages: schemas, TypeScript, docs/protocol.md
  pictures  make the pictures in docs/pictures anew, from real runs [--screen: not the page] [SYSOP]
  web     build the page into web/dist, from where it goes into the binary; --test: and test it in a browser
  dist    what people install, in target/packages: binaries for old systems, an archive, Debian packages [--try]
  setup   install what the tests need (Debian packages), and say what is there";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let chore = arguments.next();
    let rest: Vec<_> = arguments.collect();
    let done = match chore.as_deref() {
        Some("demo") => demo::run(&rest),
        Some("test") => test::run(&rest),
        Some("bench") => bench::run(&rest),
        Some("dist") => dist::run(&rest),
        Some("pictures") => pictures::run(&rest),
        Some("setup") => setup::tests().and_then(|()| setup::desktop()),
        Some("web") => web::run(&rest),
        Some("wire") => wire::run(),
        None | Some("help" | "--help" | "-h") => {
            eprintln!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some(other) => {
            eprintln!("there is no chore `{other}`\n\n{HELP}");
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
