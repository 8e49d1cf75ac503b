//! Connection errors of ssh, distinct from failures of commands. Each has a hint.
//!
//! The output of ssh only selects the wording of an error; it never decides whether a command ran.

use sysop_core::text::neutralize;

/// Maximum characters of ssh's output in an error.
const TOLD_CHARS_MAX: usize = 300;

/// Reason why a connection failed. `Display` is one sentence with a hint. A host's name never is its subject, because
/// it may be a word of the language; it stands first as a label instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SshError {
    #[error("`ssh` not found on PATH; install an OpenSSH client")]
    NoSsh,
    #[error("unknown host name {0}; check the spelling, or set its address in ~/.ssh/config")]
    UnknownHost(String),
    /// No server listens at the port.
    #[error("{destination}: connection refused{}; check the port, and that sshd is running", at_port(*port))]
    Refused {
        destination: String,
        /// Port, if it is not the default.
        port: Option<u16>,
    },
    /// No route to the host.
    #[error("cannot reach {destination} ({why}); check the network, the VPN and the address")]
    Unreachable { destination: String, why: String },
    /// The host did not respond in time.
    #[error("{0}: no response in time; check that the host is up and that no firewall blocks it")]
    Timeout(String),
    #[error(
        "the host key of {0} has CHANGED: the connection may be intercepted, or the host was reinstalled; ask its \
         administrator before you remove the old key with `ssh-keygen -R`"
    )]
    HostKeyChanged(String),
    /// The host key is unknown, and no user could be prompted.
    #[error("the host key of {0} is not known; run `ssh {0}` once, compare the fingerprint and accept it")]
    HostKeyUnknown(String),
    #[error(
        "{0}: all keys and passwords were rejected; try `ssh {0}`, and check the agent's keys with `ssh-add -l`"
    )]
    Auth(String),
    #[error("ssh rejected its configuration ({0}); run `ssh -G` for details")]
    Config(String),
    /// The connection ended before anything could run.
    #[error("{destination}: could not connect ({why}); try again, and check that sshd is running")]
    NotConnected {
        destination: String,
        /// Reason given by ssh.
        why: String,
    },
    #[error("lost the connection to {destination} ({why}); the next step reconnects")]
    Dropped {
        destination: String,
        /// Reason given by ssh or by sysop.
        why: String,
    },
    /// The login shell did not run `sh`.
    #[error(
        "the login shell on {destination} did not run `sh`{}; use an account with a POSIX-like shell",
        spawn_hint(said)
    )]
    NoShell {
        destination: String,
        /// Output that was received instead of the start mark.
        said: String,
    },
    /// The host or its ssh server refuses forwarding, and no program on the host can connect instead.
    #[error(
        "{destination}: port forwarding is not allowed ({why}), and there is neither `bash` nor `nc` to relay with; \
         install `nc` on {destination}, or set AllowTcpForwarding in its sshd_config"
    )]
    ForwardRefused { destination: String, why: String },
    /// No service listens at the target of a forward.
    #[error("nothing listens on {far} at {destination} ({why}); start the service on {destination}")]
    ForwardNobody {
        destination: String,
        /// `host:port` as seen from the remote host.
        far: String,
        why: String,
    },
    /// The root does not exist or cannot be entered.
    #[error("cannot enter the root {root} on {destination}; choose another directory with --root")]
    Root { destination: String, root: String },
    #[error("`{program}` not found on PATH; install it to reach {destination}")]
    NoContainerProgram { destination: String, program: &'static str },
    #[error(
        "cannot run commands in {destination} ({why}); check with `{list}` that it runs, and that it has `sh`"
    )]
    Container {
        destination: String,
        /// Last line that the program printed.
        why: String,
        /// Command that lists the containers.
        list: &'static str,
    },
    /// A local failure to create the socket or directory, or to start the process.
    #[error("cannot start a connection to {destination}: {why}")]
    Here {
        destination: String,
        /// Reason given by the system.
        why: String,
    },
    #[error("ssh to {destination} failed: {why}; run `ssh -v {destination}` for details")]
    Failed { destination: String, why: String },
}

fn spawn_hint(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(" (ssh printed: {said})") }
}

impl SshError {
    /// Derives the error from the output of an `ssh` that has exited.
    pub(super) fn read(destination: &str, printed: &str) -> Self {
        let name = || destination.to_owned();
        let has = |text: &str| printed.contains(text);
        if has("REMOTE HOST IDENTIFICATION HAS CHANGED") || has("differs from the key for the IP address") {
            return Self::HostKeyChanged(name());
        }
        if has("Host key verification failed") || has("host key is known for") {
            return Self::HostKeyUnknown(name());
        }
        if has("Could not resolve hostname") {
            let named = printed.split("resolve hostname ").nth(1).and_then(|rest| rest.split(':').next());
            return Self::UnknownHost(one_line(named.unwrap_or(destination)));
        }
        if has("Bad configuration option") || has("Bad owner or permissions") || has("bad configuration") {
            return Self::Config(last_line(printed));
        }
        if has("Permission denied")
            || has("Too many authentication failures")
            || has("authentication methods")
        {
            return Self::Auth(name());
        }
        if has("Connection refused") {
            return Self::Refused { destination: name(), port: other_port(printed) };
        }
        if has("timed out") || has("not responding") {
            return Self::Timeout(name());
        }
        if has("No route to host") || has("Network is unreachable") {
            return Self::Unreachable { destination: name(), why: last_line(printed) };
        }
        let ended = ["Connection closed", "Connection reset", "Broken pipe", "closed by remote host"];
        if ended.into_iter().any(has) {
            return Self::Dropped { destination: name(), why: last_line(printed) };
        }
        let why = last_line(printed);
        let why = if why.is_empty() { "ssh exited without a message".to_owned() } else { why };
        Self::Failed { destination: name(), why }
    }

    /// Derives the error from the output of an `ssh` that exited before the login.
    pub(super) fn read_before_login(destination: &str, printed: &str) -> Self {
        let error = Self::read(destination, printed);
        let Self::Dropped { destination, why } = error else { return error };
        Self::NotConnected { destination, why }
    }

    pub(super) fn root(destination: &str, root: &str) -> Self {
        Self::Root { destination: destination.to_owned(), root: one_line(root) }
    }

    pub(super) fn here(destination: &str, why: impl std::fmt::Display) -> Self {
        Self::Here { destination: destination.to_owned(), why: one_line(&why.to_string()) }
    }
}

/// Returns the port, unless it is the default, if ssh printed `connect to host HOST port PORT: …`.
fn other_port(printed: &str) -> Option<u16> {
    let after = printed.split("connect to host ").nth(1).and_then(|rest| rest.split(" port ").nth(1));
    let port = after.and_then(|rest| rest.split(':').next()?.parse::<u16>().ok());
    port.filter(|port| *port != 22)
}

fn at_port(port: Option<u16>) -> String {
    port.map_or_else(String::new, |port| format!(" (port {port})"))
}

/// Returns the last line that is not blank, escaped and shortened.
pub(super) fn last_line(text: &str) -> String {
    one_line(text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(""))
}

/// Returns the text as one line, escaped and shortened.
pub(super) fn one_line(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let short: String = line.join(" ").chars().take(TOLD_CHARS_MAX).collect();
    neutralize(&short).into_owned()
}

#[cfg(test)]
mod tests {
    use super::SshError;

    #[test]
    fn ssh_messages_are_classified() {
        let read = |printed| SshError::read("web1", printed);
        assert_eq!(
            read("ssh: Could not resolve hostname nowhere.invalid: Name or service not known\r\n"),
            SshError::UnknownHost("nowhere.invalid".to_owned())
        );
        assert_eq!(
            read("ssh: connect to host 127.0.0.1 port 1: Connection refused"),
            SshError::Refused { destination: "web1".to_owned(), port: Some(1) }
        );
        assert_eq!(
            read("ssh: connect to host web1 port 22: Connection refused"),
            SshError::Refused { destination: "web1".to_owned(), port: None }
        );
        assert_eq!(read("a@web1: Permission denied (publickey)."), SshError::Auth("web1".to_owned()));
        assert_eq!(
            read("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed."),
            SshError::HostKeyChanged("web1".to_owned())
        );
        assert_eq!(read("Host key verification failed."), SshError::HostKeyUnknown("web1".to_owned()));
        assert_eq!(read("Connection timed out during banner exchange"), SshError::Timeout("web1".to_owned()));
    }

    #[test]
    fn a_host_that_was_never_reached_was_not_lost() {
        let reset = "kex_exchange_identification: read: Connection reset by peer\n\
                     Connection reset by 10.0.0.1 port 22\n";
        let why = "Connection reset by 10.0.0.1 port 22";
        assert_eq!(
            SshError::read_before_login("web1", reset).to_string(),
            format!("web1: could not connect ({why}); try again, and check that sshd is running")
        );
        assert!(SshError::read("web1", reset).to_string().starts_with("lost the connection to web1"));
        let refused =
            SshError::read_before_login("closed", "connect to host closed port 1: Connection refused");
        let expected = "closed: connection refused (port 1); check the port, and that sshd is running";
        assert_eq!(refused.to_string(), expected);
    }

    #[test]
    fn each_ssh_error_is_one_clean_line_with_a_hint() {
        let error = SshError::read("web1", "odd \u{1b}[31m text\nlast \u{7} line\n");
        assert!(error.to_string().ends_with("run `ssh -v web1` for details"), "{error}");
        assert!(!error.to_string().contains(['\n', '\u{1b}', '\u{7}']), "{error:?}");
    }
}
