//! Test rig: a session's terminal with a scripted user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sysop_core::catalog::Profile;
use sysop_core::event::TypedInput;
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter, Terminal};
use sysop_host::{LocalHost, LocalSettings};
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::world::{DEADLINE, Display};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
    Dash,
    Ash,
    Tcsh,
}

impl Shell {
    /// Returns a script that starts this shell with its own home.
    fn script(self, home: &Path) -> String {
        let start = match self {
            Self::Bash => "exec bash",
            Self::Zsh => "exec zsh",
            Self::Fish => "exec fish",
            Self::Dash => "ENV=$HOME/.shrc; export ENV; exec dash",
            Self::Ash => "ENV=$HOME/.shrc; export ENV; exec busybox ash",
            Self::Tcsh => "exec tcsh",
        };
        format!(
            "#!/bin/sh\nHOME={}; export HOME; unset XDG_CONFIG_HOME XDG_DATA_HOME\n{start}\n",
            home.display()
        )
    }

    /// Returns the startup file of the shell, below its home.
    fn rc(self) -> &'static str {
        match self {
            Self::Bash => ".bashrc",
            Self::Zsh => ".zshrc",
            Self::Fish => ".config/fish/config.fish",
            Self::Dash | Self::Ash => ".shrc",
            Self::Tcsh => ".tcshrc",
        }
    }
}

/// Host with a terminal.
pub(super) struct Rig {
    home: TempDir,
    pub(super) host: Arc<LocalHost>,
    pub(super) people: Arc<RecordingPrompter>,
    calls: AtomicU32,
}

impl Rig {
    pub(super) fn new(shell: Shell) -> Self {
        Self::with_rc(shell, "")
    }

    /// Creates a rig whose shell has this startup file.
    pub(super) fn with_rc(shell: Shell, rc: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let theirs = home.path().join("theirs");
        let file = theirs.join(shell.rc());
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::create_dir(home.path().join("root")).unwrap();
        fs::write(file, rc).unwrap();
        let script = home.path().join("shell");
        fs::write(&script, shell.script(&theirs)).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let mut settings = LocalSettings::new(home.path().join("root"), home.path().join("artefacts"));
        settings.profile = Profile::Operator;
        settings.shell = Some(script);
        settings.secrets = vec!["known-secret-1".into()];
        let host = Arc::new(LocalHost::open(settings).unwrap());
        let people = Arc::new(RecordingPrompter::default());
        host.set_prompter(Arc::clone(&people) as Arc<dyn Prompter>);
        Self { home, host, people, calls: AtomicU32::new(0) }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.home.path().join("root")
    }

    pub(super) fn artifacts(&self) -> PathBuf {
        self.home.path().join("artefacts")
    }

    pub(super) fn terminal(&self) -> Arc<dyn Terminal> {
        self.host.terminal().unwrap()
    }

    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Value,
        cancel: CancellationToken,
        sink: DeltaSink,
    ) -> Outcome {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let call = ToolCall {
            id: CallId::new(format!("call-{number}")),
            wire_id: None,
            name: tool.to_owned(),
            arguments: Arguments::Object(arguments),
        };
        let run = self.host.run(call, sink, cancel);
        tokio::time::timeout(DEADLINE, run).await.expect("the call ends in time")
    }

    pub(super) async fn run(&self, command: &str) -> Outcome {
        let arguments = json!({ "command": command, "reasoning": "a test" });
        self.call("run_command", arguments, CancellationToken::new(), DeltaSink::none()).await
    }

    /// Runs a command that must succeed; returns its output.
    pub(super) async fn output(&self, command: &str) -> String {
        let outcome = self.run(command).await;
        let output = outcome.output.strip_suffix("[exit code 0]");
        output.unwrap_or_else(|| panic!("{command}: {outcome:?}")).to_owned()
    }

    pub(super) async fn run_for(&self, command: &str, timeout_s: u64) -> Outcome {
        let arguments = json!({ "command": command, "reasoning": "a test", "timeout_s": timeout_s });
        self.call("run_command", arguments, CancellationToken::new(), DeltaSink::none()).await
    }

    pub(super) async fn keys(&self, keys: &str) -> Outcome {
        let arguments = json!({ "keys": keys, "reasoning": "a test" });
        self.call("send_keys", arguments, CancellationToken::new(), DeltaSink::none()).await
    }

    /// Sends keys, then waits until the screen matches.
    pub(super) async fn keys_until(&self, keys: &str, shown: impl Fn(&str) -> bool) -> Outcome {
        let mut outcome = self.keys(keys).await;
        let deadline = tokio::time::Instant::now() + DEADLINE;
        while !shown(&outcome.output) {
            assert!(tokio::time::Instant::now() < deadline, "the screen still shows {}", outcome.output);
            // An empty quoted string sends no key, but a look needs one: Ctrl+L redraws.
            outcome = self.keys("Ctrl+L").await;
        }
        outcome
    }

    /// Runs a command, and cancels it once `enough` accepts its output.
    pub(super) async fn run_until(
        &self,
        command: &str,
        enough: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Outcome {
        let cancel = CancellationToken::new();
        let (stop, display) = (cancel.clone(), Display::default());
        let shown = display.clone();
        let sink = DeltaSink::new(move |text| {
            shown.take(text);
            if enough(&shown.text()) {
                stop.cancel();
            }
        });
        self.call("run_command", json!({ "command": command, "reasoning": "a test" }), cancel, sink).await
    }

    /// Returns all recordings so far as one string.
    pub(super) fn recorded(&self) -> String {
        let mut all = String::new();
        for entry in fs::read_dir(self.artifacts()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "cast") {
                assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
                all.push_str(&fs::read_to_string(path).unwrap());
            }
        }
        all
    }
}

/// Scripted user that records questions, input and notices.
#[derive(Default)]
pub(super) struct RecordingPrompter {
    pub(super) answers: Mutex<Vec<PromptReply>>,
    pub(super) asked: Mutex<Vec<PromptRequest>>,
    pub(super) typed: Mutex<Vec<(String, TypedInput)>>,
    pub(super) control: Mutex<Vec<Option<String>>>,
    heard: Notify,
}

impl RecordingPrompter {
    /// Adds answers, given in this order; without further answers, questions stay open.
    pub(super) fn will_answer(&self, answers: impl IntoIterator<Item = PromptReply>) {
        self.answers.lock().extend(answers);
    }

    /// Waits until `enough` accepts the recorded state.
    pub(super) async fn until(&self, enough: impl Fn(&Self) -> bool) {
        let waiting = async {
            loop {
                let heard = self.heard.notified();
                if enough(self) {
                    return;
                }
                heard.await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.expect("they hear it in time");
    }
}

#[async_trait]
impl Prompter for RecordingPrompter {
    async fn ask(&self, asked: PromptRequest) -> PromptReply {
        self.asked.lock().push(asked);
        self.heard.notify_waiters();
        let answer = {
            let mut answers = self.answers.lock();
            (!answers.is_empty()).then(|| answers.remove(0))
        };
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    fn typed(&self, by: &str, typed: TypedInput) {
        assert!(tokio::runtime::Handle::try_current().is_ok(), "reporting needs a tokio runtime");
        self.typed.lock().push((by.to_owned(), typed));
        self.heard.notify_waiters();
    }

    fn control(&self, holder: Option<&str>) {
        self.control.lock().push(holder.map(str::to_owned));
        self.heard.notify_waiters();
    }

    fn notice(&self, _: &str) {}
}

/// Maximum time to report a settled screen on a busy machine.
pub(super) const SETTLED_MAX: Duration = Duration::from_secs(2);
