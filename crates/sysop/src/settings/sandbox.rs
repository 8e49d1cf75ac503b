//! Sandbox settings from the config, adjusted to what this machine supports.

use sysop_core::policy::{SandboxMode, SandboxOptions};
use sysop_host::SandboxSupport;

use super::{HostChoice, Settings};

impl Settings {
    pub(crate) fn sandbox_mode(&self) -> SandboxMode {
        self.config.get("sandbox").unwrap_or_default()
    }

    /// Returns the sandbox options for these hosts. Remote hosts have no sandbox. If this machine does not
    /// support the sandbox, `auto` runs commands without it, and `on` is kept, so that nothing runs.
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
                network: self.config.get("sandbox_network") == Some(true),
            },
        }
    }

    /// Returns the directories in `sandbox_write`, with `~` replaced with the home directory.
    fn sandbox_write(&self) -> Vec<String> {
        let home = &self.folders.home;
        let absolute = |text: String| match text.strip_prefix('~') {
            Some(rest) => home.join(rest.trim_start_matches('/')).to_str().map(str::to_owned),
            None => Some(text),
        };
        let folders: Vec<String> = self.config.get("sandbox_write").unwrap_or_default();
        folders.into_iter().filter_map(absolute).collect()
    }
}
