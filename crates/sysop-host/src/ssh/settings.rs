//! How a connection is made: the user's own `ssh` with the user's own config. Only what a program needs that
//! nobody looks at is set against it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::environment::Environment;
use crate::settings::HostError;

/// How long a connection may take to be answered, where the settings do not say otherwise.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);

/// How a machine is reached.
#[derive(Clone)]
pub struct SshSettings {
    /// Whatever `ssh DEST` accepts: an alias, `user@host`, `ssh://user@host:port`.
    pub destination: String,
    /// Beats the user of the config.
    pub user: Option<String>,
    /// Beats the port of the config.
    pub port: Option<u16>,
    /// In the place of `~/.ssh/config`.
    pub config_file: Option<PathBuf>,
    /// Where the socket of the connection goes; created 0700. Where it cannot be used, because its path is too
    /// long for a socket or others can enter it, another folder is.
    pub control_folder: PathBuf,
    /// A program that asks a person what ssh wants to know (ssh(1), `SSH_ASKPASS`). Without one nobody is asked.
    pub askpass: Option<PathBuf>,
    /// More variables for that program.
    pub askpass_env: Vec<(String, String)>,
    /// A program that does [`run_as_askpass`](crate::run_as_askpass) first: by it ssh asks the people of the
    /// session, once there are any.
    pub askpass_helper: Option<PathBuf>,
    /// How long the machine has to answer; people are waited for without it.
    pub connect_timeout: Duration,
}

/// Without the values for the program that asks: they may be secret.
impl std::fmt::Debug for SshSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SshSettings")
            .field("destination", &self.destination)
            .field("user", &self.user)
            .field("port", &self.port)
            .field("config_file", &self.config_file)
            .finish_non_exhaustive()
    }
}

impl SshSettings {
    /// The contract's settings for a destination.
    pub fn new(destination: impl Into<String>, control_folder: impl Into<PathBuf>) -> Self {
        Self {
            destination: destination.into(),
            user: None,
            port: None,
            config_file: None,
            control_folder: control_folder.into(),
            askpass: None,
            askpass_env: Vec::new(),
            askpass_helper: None,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
        }
    }

    /// Refuses what `ssh` would take for options or for several words.
    pub(super) fn check(&self) -> Result<(), HostError> {
        let odd = |text: &str| {
            text.is_empty()
                || text.starts_with('-')
                || text.chars().any(|character| character.is_control() || character.is_whitespace())
        };
        if odd(&self.destination) || self.user.as_deref().is_some_and(odd) {
            let shown = crate::path::shown(&self.destination);
            return Err(HostError::Destination(shown));
        }
        Ok(())
    }

    /// Arguments for every `ssh` of this connection, but for what concerns the socket and the terminal.
    ///
    /// The user's config decides who, where, by which keys and through what, and whether an unknown host key is
    /// asked about. It does not decide what would disturb a program (remote commands, forwards that another
    /// session holds already, escape characters, banners), what would lend the user's keys to what a model runs
    /// there (the agent), or how soon a dead connection is noticed.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        self.arguments_saying("ERROR")
    }

    /// The same, with ssh's own words from this level on.
    pub(super) fn arguments_saying(&self, level: &str) -> Vec<OsString> {
        let mut line: Vec<OsString> = Vec::new();
        if let Some(file) = &self.config_file {
            line.extend(["-F".into(), file.into()]);
        }
        if let Some(user) = &self.user {
            line.extend(["-l".into(), user.into()]);
        }
        if let Some(port) = self.port {
            line.extend(["-p".into(), port.to_string().into()]);
        }
        let batch = if self.askpass.is_some() { "no" } else { "yes" };
        line.push(format!("-oBatchMode={batch}").into());
        line.push(format!("-oConnectTimeout={}", self.connect_timeout.as_secs().max(1)).into());
        line.push(format!("-oLogLevel={level}").into());
        line.extend(OVERRIDES.map(OsString::from));
        line
    }

    /// The destination, where no option can follow.
    pub(super) fn target(&self) -> [OsString; 2] {
        ["--".into(), self.destination.clone().into()]
    }

    /// The environment of every `ssh` of this connection.
    pub(super) fn environment(&self) -> Environment {
        let mut environment = Environment::without_keys(std::env::vars_os());
        if let Some(askpass) = &self.askpass {
            environment.set("SSH_ASKPASS", askpass);
            environment.set("SSH_ASKPASS_REQUIRE", "force");
            // Before OpenSSH 8.4 this is what makes it ask by a program.
            if std::env::var_os("DISPLAY").is_none() {
                environment.set("DISPLAY", ":none");
            }
            for (name, value) in &self.askpass_env {
                environment.set(name, value);
            }
        }
        environment
    }
}

/// What beats the user's config.
const OVERRIDES: [&str; 12] = [
    "-oServerAliveInterval=15",
    "-oServerAliveCountMax=3",
    "-oForwardAgent=no",
    "-oForwardX11=no",
    "-oClearAllForwardings=yes",
    "-oPermitLocalCommand=no",
    "-oTunnel=no",
    "-oRemoteCommand=none",
    "-oEscapeChar=none",
    "-oControlPersist=no",
    "-oVisualHostKey=no",
    "-oUpdateHostKeys=no",
];

/// A path as ssh takes it where it would expand `%`.
pub(super) fn literal(path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = Vec::new();
    for byte in OsStr::as_bytes(path.as_os_str()) {
        bytes.push(*byte);
        if *byte == b'%' {
            bytes.push(b'%');
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::SshSettings;

    #[test]
    fn a_destination_that_looks_like_an_option_is_rejected() {
        for odd in ["", "-oProxyCommand=evil", "-v", "a b", "a\nb", "a\tb", "\u{1b}x"] {
            let error = SshSettings::new(odd, "/tmp/x").check().unwrap_err().to_string();
            assert!(error.contains("no destination") && !error.contains(['\n', '\u{1b}']), "{error}");
        }
        let mut settings = SshSettings::new("web1", "/tmp/x");
        settings.user = Some("-evil".to_owned());
        assert!(settings.check().is_err());
        for good in ["web1", "a@web1", "ssh://a@web1:2222", "[::1]", "::1", "ü.example"] {
            assert!(SshSettings::new(good, "/tmp/x").check().is_ok(), "{good}");
        }
    }

    #[test]
    fn ssh_never_prompts_without_an_askpass_program() {
        let mut settings = SshSettings::new("web1", "/tmp/x");
        assert!(settings.arguments().contains(&"-oBatchMode=yes".into()));
        settings.askpass = Some("/usr/bin/ask".into());
        settings.askpass_env = vec![("ASK_SOCKET".to_owned(), "/run/s".to_owned())];
        assert!(settings.arguments().contains(&"-oBatchMode=no".into()));
        let environment = settings.environment().pairs();
        for (name, value) in
            [("SSH_ASKPASS", "/usr/bin/ask"), ("SSH_ASKPASS_REQUIRE", "force"), ("ASK_SOCKET", "/run/s")]
        {
            assert!(environment.contains(&(name.into(), value.into())), "{name}");
        }
    }
}
