//! What the config says of the sandbox, and what this machine makes of it.

use sysop_core::policy::{SandboxMode, SandboxOptions};
use sysop_host::SandboxSupport;

use super::{HostChoice, Settings, text, texts};
use crate::config::ConfigValue;

impl Settings {
    /// When commands are to be fenced.
    pub(crate) fn sandbox_mode(&self) -> SandboxMode {
        text(&self.config, "sandbox").and_then(|word| SandboxMode::from_name(&word)).unwrap_or_default()
    }

    /// What of that holds on these hosts: nothing on remote ones. Where this machine has no fences, `auto` does without, and
    /// `on` stays, so that nothing runs.
    pub(crate) fn sandbox_options(&self, host: &HostChoice) -> SandboxOptions {
        let mode = self.sandbox_mode();
        match (host, mode) {
            (HostChoice::Ssh(_) | HostChoice::Fleet(_), _) | (_, SandboxMode::Off) => {
                SandboxOptions::default()
            }
            (HostChoice::Local, SandboxMode::Auto) if !SandboxSupport::of_kernel().is_usable() => {
                SandboxOptions::default()
            }
            (HostChoice::Local, SandboxMode::Auto | SandboxMode::On) => SandboxOptions {
                mode,
                write: self.sandbox_write(),
                network: self
                    .config
                    .entry("sandbox_network")
                    .is_some_and(|entry| matches!(entry.value, ConfigValue::Switch(true))),
            },
        }
    }

    /// The folders of `sandbox_write`, with the home in the place of `~`.
    fn sandbox_write(&self) -> Vec<String> {
        let home = &self.folders.home;
        let absolute = |text: String| match text.strip_prefix('~') {
            Some(rest) => home.join(rest.trim_start_matches('/')).to_str().map(str::to_owned),
            None => Some(text),
        };
        texts(&self.config, "sandbox_write").into_iter().filter_map(absolute).collect()
    }
}
