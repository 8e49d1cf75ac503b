//! Runs the real binary, each time in a new home and workspace, with only the test's own environment variables.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod acp;
mod acpx;
mod always;
mod approvals;
mod attack;
mod budget;
mod chat;
mod cli;
mod completions;
mod config;
mod connect;
mod containers;
mod demo;
mod everyday;
mod exec_input;
mod exposed;
mod guide;
mod hooks;
#[path = "../../../sysop-local/tests/it/hub.rs"]
mod hub;
mod images;
mod instructions;
mod jobs;
mod kill;
mod local;
mod mcp;
mod nodes;
mod person;
#[path = "../../../sysop-store/tests/it/server.rs"]
#[expect(dead_code, reason = "the tests of the store use all of it")]
mod pg;
mod policy;
mod protected;
mod proxies;
mod remote;
mod runbook;
mod sandbox;
mod screen;
mod serve;
mod shell_init;
mod skills;
#[path = "../../../sysop-host/tests/it/sshd.rs"]
#[expect(dead_code, reason = "the tests of the host use all of it")]
mod sshd;
mod support;
mod survive;
mod terminal_protocol;
mod undo;
mod upgrade;
mod viewer;
mod wires;

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use tempfile::TempDir;

/// A home and a workspace for one test.
pub(crate) struct World {
    dir: TempDir,
    pub(crate) environment: Vec<(String, String)>,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        // A port without a listener, so that no test finds an Ollama on this machine.
        let environment = vec![("OLLAMA_HOST".to_owned(), "127.0.0.1:1".to_owned())];
        Self { dir, environment }
    }

    pub(crate) fn home(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::cargo_bin("sysop").unwrap();
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.work())
            .args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments).output().unwrap())
    }

    /// Runs the binary with a pipe as standard output that nobody reads any more.
    pub(crate) fn run_unread(&self, arguments: &[&str]) -> Run {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sysop"));
        command.args(arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.home()).envs(self.environment.iter().map(|(name, value)| (name, value)));
        let child = command.current_dir(self.work()).stdout(writer).stderr(std::process::Stdio::piped());
        Run::of(child.spawn().unwrap().wait_with_output().unwrap())
    }
}

/// Exit code and output of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
