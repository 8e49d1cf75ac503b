//! Our side of the protocol: the capabilities that servers see, and the answers to their requests. Roots and sampling,
//! which are deprecated, are not offered.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorData,
    FormElicitationCapability, Implementation, ProgressNotificationParam, ProtocolVersion,
    UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use sysop_core::id::CallId;
use sysop_core::text::neutralize_line;
use sysop_driver::port::DeltaSink;
use sysop_driver::prompter::Prompter;

use tokio::time::timeout;

use crate::activity::Activity;
use crate::elicitation;
use crate::settings::ServerName;

/// Maximum time for a question to stay open, because nobody may be there to answer it.
const QUESTION_MAX: Duration = Duration::from_secs(600);

/// Prompter and display for the call that is running now.
#[derive(Default)]
pub(crate) struct CallContext {
    pub(crate) prompter: Option<Arc<dyn Prompter>>,
    pub(crate) call: Option<(CallId, DeltaSink)>,
}

#[derive(Clone)]
pub(crate) struct ClientHandler {
    server: ServerName,
    activity: Arc<Activity>,
    context: Arc<Mutex<CallContext>>,
}

impl ClientHandler {
    pub(crate) fn new(server: ServerName, context: Arc<Mutex<CallContext>>) -> Self {
        Self { server, activity: Arc::new(Activity::new()), context }
    }

    pub(crate) fn activity(&self) -> Arc<Activity> {
        Arc::clone(&self.activity)
    }
}

impl rmcp::ClientHandler for ClientHandler {
    fn get_info(&self) -> ClientConfig {
        let elicitation = ElicitationCapability::new()
            .with_form(FormElicitationCapability::new())
            .with_url(UrlElicitationCapability::new());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(elicitation);
        let own = Implementation::new("sysop", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, own).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let (prompter, call) = {
            let context = self.context.lock();
            (context.prompter.clone(), context.call.as_ref().map(|(id, _)| id.clone()))
        };
        // A server may ask only during a call; at other times nobody expects its questions.
        let (Some(prompter), Some(call)) = (prompter, call) else { return Ok(elicitation::declined()) };
        let _open = self.activity.ask();
        let answering = elicitation::answer(&self.server, request, prompter.as_ref(), call);
        Ok(timeout(QUESTION_MAX, answering).await.unwrap_or_else(|_| elicitation::declined()))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.activity.touch();
        let context = self.context.lock();
        if let (Some((_, sink)), Some(message)) = (&context.call, &progress.message) {
            sink.output(&format!("{}\n", neutralize_line(message)));
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.activity.set_list_changed();
    }
}
