//! MCP servers that the editor names for a session, and the user's consent to them.
//!
//! A workspace may have written the editor's list, so a server starts only after the user agreed to exactly its command
//! line or URL. The question is a permission request. Editors expect those during a turn, so the first prompt waits
//! for the answers; then the session, which is still empty, is opened again with the tools of the allowed servers.

use std::sync::Arc;

use serde_json::{Value, json};
use sysop_core::event::ConfigChange;
use sysop_core::policy::ApprovalMode;
use sysop_core::text::{neutralize, neutralize_line};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::client::{Answer, RpcError};
use crate::session::{Replay, SessionCommand};
use crate::{ConsentScope, ServerConsents, ServerQuestion, tool_view};

const SERVERS_MAX: usize = 16;
const ONCE: &str = "once";
const ALWAYS: &str = "always";
const REJECT: &str = "reject";

/// MCP server in the form in which editors name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditorServer {
    pub name: String,
    pub transport: EditorTransport,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditorTransport {
    Stdio { command: String, args: Vec<String>, env: Vec<(String, String)> },
    Http { url: String, headers: Vec<(String, String)> },
}

/// Reads the list of a request that opens a session, which some editors omit. Entries that cannot be used are returned
/// as notes for the user.
pub(crate) fn read(params: &Value) -> (Vec<EditorServer>, Vec<String>) {
    let (mut servers, mut notes) = (Vec::new(), Vec::new());
    let entries = params["mcpServers"].as_array().map(Vec::as_slice).unwrap_or_default();
    for entry in entries.iter().take(SERVERS_MAX) {
        let name = entry["name"].as_str().unwrap_or("?").to_owned();
        match transport(entry) {
            Ok(transport) => servers.push(EditorServer { name, transport }),
            Err(why) => {
                notes.push(format!("The editor's MCP server {} is not used: {why}.", neutralize_line(&name)))
            }
        }
    }
    if let more @ 1.. = entries.len().saturating_sub(SERVERS_MAX) {
        notes.push(format!("The editor names {more} more MCP servers, which are not used."));
    }
    (servers, notes)
}

fn transport(entry: &Value) -> Result<EditorTransport, &'static str> {
    let text = |name: &str| entry[name].as_str().map(str::to_owned);
    match entry["type"].as_str() {
        None | Some("stdio") => Ok(EditorTransport::Stdio {
            command: text("command").ok_or("the command is missing")?,
            args: words(&entry["args"]).ok_or("the arguments are not a list of strings")?,
            env: pairs(&entry["env"]).ok_or("the variables are not a list of names and values")?,
        }),
        Some("http") => Ok(EditorTransport::Http {
            url: text("url").ok_or("the URL is missing")?,
            headers: pairs(&entry["headers"]).ok_or("the headers are not a list of names and values")?,
        }),
        Some("sse") => Err("the old SSE transport is not supported"),
        Some(_) => Err("the transport is unknown"),
    }
}

fn words(list: &Value) -> Option<Vec<String>> {
    if list.is_null() {
        return Some(Vec::new());
    }
    list.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}

fn pairs(list: &Value) -> Option<Vec<(String, String)>> {
    // Editors written in Lua may encode an empty list as `{}`, because Lua has one type for both.
    if list.is_null() || list.as_object().is_some_and(serde_json::Map::is_empty) {
        return Some(Vec::new());
    }
    let pair = |pair: &Value| Some((pair["name"].as_str()?.to_owned(), pair["value"].as_str()?.to_owned()));
    list.as_array()?.iter().map(pair).collect()
}

/// A session whose first prompt waits for the user's consent to servers.
pub(crate) struct OpenConsent {
    consents: Arc<dyn ServerConsents>,
    /// Prompts that wait, as ids and parameters of their requests.
    prompts: Vec<(Value, Value)>,
    /// Changes of the session's config, for when it is open with its tools.
    changes: Vec<ConfigChange>,
    /// Canceled to withdraw the question; `None` before the first prompt.
    asking: Option<CancellationToken>,
    /// Text to show to the user with the first prompt.
    note: Option<String>,
}

impl OpenConsent {
    pub(crate) fn new(consents: Arc<dyn ServerConsents>, note: Option<String>) -> Self {
        Self { consents, prompts: Vec::new(), changes: Vec::new(), asking: None, note }
    }

    pub(crate) fn cancel(&self) {
        if let Some(asking) = &self.asking {
            asking.cancel();
        }
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    pub(crate) fn configure(&mut self, change: ConfigChange) {
        self.changes.push(change);
    }
}

impl Agent {
    /// Holds back a prompt if servers of the session need the user's consent. Returns false if none of them does.
    pub(crate) fn waits_for_consent(self: &Arc<Self>, id: &Value, params: &Value) -> bool {
        let Some(session) = params["sessionId"].as_str() else { return false };
        let mut open = self.consents.lock();
        let Some(consent) = open.get_mut(session) else { return false };
        consent.prompts.push((id.clone(), params.clone()));
        if consent.asking.is_none() {
            let stop = CancellationToken::new();
            consent.asking = Some(stop.clone());
            let (agent, consents) = (Arc::clone(self), Arc::clone(&consent.consents));
            let session = session.to_owned();
            tokio::spawn(async move { agent.settle_consent(&session, consents, stop).await });
        }
        true
    }

    /// Asks about each server, opens the session with the allowed ones, and passes the waiting prompts on.
    async fn settle_consent(
        self: Arc<Self>,
        session: &str,
        consents: Arc<dyn ServerConsents>,
        stop: CancellationToken,
    ) {
        let mut is_changed = false;
        for question in consents.questions() {
            match self.ask_consent(session, consents.as_ref(), &question, &stop).await {
                Some(is_allowed) => is_changed |= is_allowed,
                None => return self.drop_prompts(session).await,
            }
        }
        if stop.is_cancelled() {
            return self.drop_prompts(session).await;
        }
        let swapped = if is_changed { self.swap_session(session, consents.as_ref()).await } else { Ok(()) };
        let Some(consent) = self.consents.lock().remove(session) else { return };
        for change in consent.changes {
            // Fails if the session was closed; then the prompts are answered with the reason.
            let _ = self.with_open(session, |link| crate::agent::configure(link, change));
        }
        for (id, params) in consent.prompts {
            let sent = swapped.clone().and_then(|()| self.prompt(id.clone(), &params));
            if let Err(error) = sent {
                self.client.respond(id, Err(error)).await;
            }
        }
    }

    /// Opens a session, which has no prompt yet, again with the tools of the allowed servers.
    async fn swap_session(&self, session: &str, consents: &dyn ServerConsents) -> Result<(), RpcError> {
        let opened = consents.reopen().await.map_err(crate::agent::rpc_error)?;
        let old = self.sessions.lock().remove(session);
        let Some(old) = old else { return Ok(()) };
        let options = Arc::clone(&old.options);
        old.send(SessionCommand::Detach);
        // The task ends on its own after the command.
        let _ = old.close().await;
        let note = self.consents.lock().get_mut(session).and_then(|consent| consent.note.take());
        let link = self.link(opened, Replay::Skip, note, Some(options)).await;
        self.sessions.lock().insert(session.to_owned(), link);
        Ok(())
    }

    /// Asks about one server and acts on the answer. Returns true if the server may be used, or `None` if the question
    /// was withdrawn.
    async fn ask_consent(
        &self,
        session: &str,
        consents: &dyn ServerConsents,
        question: &ServerQuestion,
        stop: &CancellationToken,
    ) -> Option<bool> {
        let call = format!("mcp-{}", question.server);
        let fields = json!({
            "toolCallId": call, "title": neutralize_line(&question.title), "kind": "other", "status": "pending",
            "content": [tool_view::text_content(&neutralize(&question.text))],
        });
        let is_read_only =
            self.with_open(session, |link| Ok(link.options.lock().mode == ApprovalMode::Never));
        let mut update = fields.clone();
        update["sessionUpdate"] = "tool_call".into();
        self.client.update(session, update).await;
        if is_read_only.unwrap_or(true) {
            self.end_question(session, &call, "failed", "not used: this session is read-only").await;
            return Some(false);
        }
        let options = json!([
            { "optionId": ONCE, "name": "Allow in this session", "kind": "allow_once" },
            { "optionId": ALWAYS, "name": "Allow always", "kind": "allow_always" },
            { "optionId": REJECT, "name": "Reject", "kind": "reject_once" },
        ]);
        let params = json!({ "sessionId": session, "toolCall": fields, "options": options });
        let (request, answered) = self.client.request("session/request_permission", params).await;
        let answer = tokio::select! {
            answer = answered => answer.ok().flatten(),
            () = stop.cancelled() => {
                self.client.cancel_request(request).await;
                self.end_question(session, &call, "failed", "canceled").await;
                return None;
            }
        };
        let (status, text) = match scope(&answer) {
            None => ("failed", "not used: rejected".to_owned()),
            Some(scope) => match consents.allow(&question.server, scope).await {
                Ok(text) => ("completed", text),
                Err(why) => ("failed", why),
            },
        };
        self.end_question(session, &call, status, &text).await;
        Some(status == "completed")
    }

    async fn end_question(&self, session: &str, call: &str, status: &str, text: &str) {
        let content = [tool_view::text_content(&neutralize(text))];
        let update = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": call, "status": status, "content": content,
        });
        self.client.update(session, update).await;
    }

    /// Responds `cancelled` to the prompts that waited for a question that was canceled. The next prompt causes the
    /// question to be asked again.
    async fn drop_prompts(&self, session: &str) {
        let is_open = self.sessions.lock().contains_key(session);
        let prompts = {
            let mut consents = self.consents.lock();
            let Some(consent) = consents.get_mut(session) else { return };
            consent.asking = None;
            let prompts = std::mem::take(&mut consent.prompts);
            if !is_open {
                consents.remove(session);
            }
            prompts
        };
        for (id, _) in prompts {
            self.client.respond(id, Ok(json!({ "stopReason": "cancelled" }))).await;
        }
    }
}

/// Returns the scope that the user allowed. Anything other than an option of the request is a rejection.
fn scope(answer: &Answer) -> Option<ConsentScope> {
    let outcome = &answer.as_ref()?["outcome"];
    match (outcome["outcome"].as_str()?, outcome["optionId"].as_str()?) {
        ("selected", ONCE) => Some(ConsentScope::Session),
        ("selected", ALWAYS) => Some(ConsentScope::Always),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_list_are_read_and_the_rest_is_named() {
        let (servers, notes) = read(&json!({ "mcpServers": [
            { "name": "a", "command": "/bin/a", "args": ["-x"], "env": [{ "name": "K", "value": "v" }] },
            { "name": "b", "type": "http", "url": "https://b.example/mcp", "headers": [] },
            { "name": "lua", "command": "c", "args": [], "env": {} },
            { "name": "old\u{1b}[2J", "type": "sse", "url": "https://c.example/sse", "headers": [] },
            { "name": "bad", "command": "c", "args": [1], "env": [] },
        ] }));
        let names: Vec<_> = servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "lua"]);
        assert_eq!(
            servers[0].transport,
            EditorTransport::Stdio {
                command: "/bin/a".into(),
                args: vec!["-x".into()],
                env: vec![("K".into(), "v".into())]
            }
        );
        assert!(
            notes[0].contains("old\\x1b[2J is not used: the old SSE transport is not supported"),
            "{notes:?}"
        );
        assert!(notes[1].contains("bad is not used"), "{notes:?}");
        for none in [json!({}), json!({ "mcpServers": null }), json!({ "mcpServers": {} })] {
            assert!(read(&none).0.is_empty() && read(&none).1.is_empty(), "{none}");
        }
    }

    #[test]
    fn only_a_known_option_allows_a_server() {
        let given =
            |option: &str| scope(&Some(json!({ "outcome": { "outcome": "selected", "optionId": option } })));
        assert_eq!(given("once"), Some(ConsentScope::Session));
        assert_eq!(given("always"), Some(ConsentScope::Always));
        assert_eq!((given("reject"), given("Once")), (None, None));
        assert_eq!(scope(&Some(json!({ "outcome": { "outcome": "cancelled" } }))), None);
        assert_eq!(scope(&None), None, "an error");
    }
}
