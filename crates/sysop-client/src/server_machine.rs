//! Name of the server's machine. A server calls it `local`, which front ends take for the machine they run on.

use std::sync::Arc;

use sysop_core::event::{Event, Update};
use sysop_core::spec::SessionSpec;
use sysop_core::ui_text::{is_local_host, server_machine};

use crate::ServerAddress;

/// The name of a server's machine in this client, such as `local on ops.example.com`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerMachine {
    name: String,
}

impl ServerMachine {
    pub(crate) fn of(server: &ServerAddress) -> Self {
        Self { name: server_machine(server.authority()) }
    }

    /// Returns the name to show for a host of the server.
    pub(crate) fn shown<'a>(&'a self, host: &'a str) -> &'a str {
        if is_local_host(host) { &self.name } else { host }
    }

    /// Returns the server's own name for a host that is shown.
    pub(crate) fn on_server<'a>(&self, host: &'a str) -> &'a str {
        if host == self.name { "local" } else { host }
    }

    /// Renames the host of a session.
    pub(crate) fn rename_host(&self, spec: &mut Arc<SessionSpec>) {
        if is_local_host(&spec.host) {
            Arc::make_mut(spec).host.clone_from(&self.name);
        }
    }

    /// Renames the server's machine in an update. A list of several hosts never contains it.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event has a host for display")]
    pub(crate) fn rename(&self, update: &mut Update) {
        let Update::Logged(logged) = update else { return };
        // An update that has just been decoded is not shared, and so not copied.
        match &mut Arc::make_mut(logged).event {
            Event::SessionOpened { spec, .. } => self.rename_host(spec),
            Event::JobStarted { host, .. }
            | Event::GuardArmed { host, .. }
            | Event::GuardEnded { host, .. } => *host = self.shown(host).to_owned(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::event::Logged;
    use sysop_core::id::{CallId, JobId, Seq, Timestamp};

    use super::*;

    fn machine(url: &str) -> ServerMachine {
        ServerMachine::of(&ServerAddress::parse(url, Some("t".to_owned().into())).unwrap())
    }

    fn job_host(host: &str) -> String {
        let event = Event::JobStarted {
            job: JobId(1),
            call: CallId::new("c1"),
            command: "make".to_owned(),
            host: host.to_owned(),
        };
        let mut update = Update::Logged(Arc::new(Logged { seq: Seq(1), at: Timestamp(0), event }));
        machine("https://ops.example.com").rename(&mut update);
        let Update::Logged(logged) = &update else { panic!("{update:?}") };
        let Event::JobStarted { host, .. } = &logged.event else { panic!("{logged:?}") };
        host.clone()
    }

    #[test]
    fn the_machine_of_a_server_is_named_after_the_server() {
        for (url, name) in [
            ("https://ops.example.com/sysop/", "local on ops.example.com"),
            ("https://ops.example.com:443", "local on ops.example.com"),
            ("http://127.0.0.1:8765", "local on 127.0.0.1:8765"),
            ("http://[::1]:8765", "local on [::1]:8765"),
        ] {
            let machine = machine(url);
            assert_eq!(machine.shown("local"), name);
            assert_eq!(machine.on_server(name), "local");
        }
        assert_eq!(job_host("local"), "local on ops.example.com");
    }

    #[test]
    fn other_hosts_and_fleets_keep_their_names() {
        let machine = machine("https://ops.example.com");
        for host in ["web1", "local, web1", "none", "admin@web1"] {
            assert_eq!((machine.shown(host), machine.on_server(host)), (host, host));
            assert_eq!(job_host(host), host);
        }
    }
}
