//! Sessions of a sequence that uses several hosts: one for each host, opened at its first call.

use std::collections::HashMap;

use futures::stream::BoxStream;
use sysop_core::event::{Input, Update};
use sysop_core::id::Seq;
use sysop_core::transcript::Transcript;
use sysop_driver::frontend::{AttachedSession, SessionSelector};

use super::ExecRun;
use crate::Exit;

/// Hosts of a run. The host of the run itself has no name here.
#[derive(Default)]
pub(super) struct HostSessions {
    /// Host of the session in use.
    current: Option<String>,
    parked: HashMap<Option<String>, ParkedSession>,
    /// Call for another host. It is sent once the session of that host is in use.
    pub(super) pending: Option<(Option<String>, Input)>,
    /// Position of the last event of the session in use.
    pub(super) last: Seq,
}

struct ParkedSession {
    opened: AttachedSession,
    transcript: Transcript,
}

impl HostSessions {
    pub(super) fn is_current(&self, host: Option<&String>) -> bool {
        self.current.as_ref() == host
    }
}

impl ExecRun {
    /// Sends the call that waits for another host, if any, and changes to the session of that host. Returns the updates
    /// of that session. The error has been printed.
    pub(super) async fn change_host(&mut self) -> Result<Option<BoxStream<'static, Update>>, Exit> {
        let Some((host, call)) = self.hosts.pending.take() else { return Ok(None) };
        self.enter_host(host, call).await.map(Some).map_err(|error| {
            self.printer.error(&error);
            Exit::Failed
        })
    }

    async fn enter_host(
        &mut self,
        host: Option<String>,
        call: Input,
    ) -> Result<BoxStream<'static, Update>, String> {
        let next = match self.hosts.parked.remove(&host) {
            Some(parked) => parked,
            None => {
                let service = self.service.clone().ok_or("this run cannot use other hosts")?;
                let name = host.clone().unwrap_or_default();
                let selector = SessionSelector::NewOnHost { host: name, model: None, approve: None };
                let opened = service.open(selector).await?;
                ParkedSession { opened, transcript: Transcript::new() }
            }
        };
        let opened = std::mem::replace(&mut self.opened, next.opened);
        let transcript = std::mem::replace(&mut self.transcript, next.transcript);
        let parked =
            ParkedSession { opened: AttachedSession { last: self.hosts.last, ..opened }, transcript };
        self.hosts.parked.insert(std::mem::replace(&mut self.hosts.current, host), parked);
        self.hosts.last = self.opened.last;
        self.printer.session = self.opened.session.id().short().to_owned();
        let updates = self.opened.session.subscribe(self.opened.last);
        self.sent = Some(call.clone());
        self.opened.session.send(call)?;
        Ok(updates)
    }
}
