//! Desktop notifications over D-Bus, for a user who is looking elsewhere while something needs attention.
//!
//! Notifications are based on the server's messages, so they appear whatever the page is doing.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use gtk::gio::prelude::*;
use gtk::gio::{BusType, Cancellable, DBusCallFlags, DBusConnection, DBusSignalFlags};
use gtk::glib::{Variant, VariantDict, VariantTy};
use serde_json::Value;

use crate::arguments::is_valid_session_id;
use crate::stderr::sanitize;

/// Name of the D-Bus service and of its interface. The next constant is the path of its object.
const SERVICE: &str = "org.freedesktop.Notifications";
const OBJECT: &str = "/org/freedesktop/Notifications";
/// Maximum number of remembered prompts, and of remembered notifications.
const KNOWN_MAX: usize = 256;
const CALL_TIMEOUT_MS: i32 = 10_000;
/// Action id for a click on the notification itself.
const CLICK: &str = "default";

/// Subject of a notification; at most one is shown per subject.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum NotificationKey {
    /// An approval: session and call.
    Approval(String, String),
    TurnEnd(String),
}

impl NotificationKey {
    fn session(&self) -> &str {
        match self {
            Self::Approval(session, _) | Self::TurnEnd(session) => session,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotificationCommand {
    Show {
        about: NotificationKey,
        summary: &'static str,
        /// Plain text, not markup.
        body: String,
        /// True if the user must act.
        urgent: bool,
    },
    Withdraw(NotificationKey),
}

/// Turns server messages into notifications.
#[derive(Debug, Default)]
pub(crate) struct NotificationFilter {
    prompts: HashMap<String, String>,
}

impl NotificationFilter {
    /// Returns the notification for a message, or `None` if the message does not need one.
    pub(crate) fn command_for(&mut self, message: &Value) -> Option<NotificationCommand> {
        let text = |field: &str| sanitize(message[field].as_str().unwrap_or_default().trim());
        let session = message["sessionId"].as_str().filter(|id| is_valid_session_id(id))?.to_owned();
        match message["type"].as_str()? {
            "user.message" => {
                if self.prompts.len() >= KNOWN_MAX {
                    self.prompts.clear();
                }
                self.prompts.insert(session.clone(), text("content"));
                Some(NotificationCommand::Withdraw(NotificationKey::TurnEnd(session)))
            }
            "approval.request" => Some(NotificationCommand::Show {
                about: NotificationKey::Approval(session, text("toolCallId")),
                summary: "sysop: approval required",
                body: text("command"),
                urgent: true,
            }),
            "approval.closed" => {
                Some(NotificationCommand::Withdraw(NotificationKey::Approval(session, text("toolCallId"))))
            }
            "assistant.done" => {
                let summary = match message["metadata"]["stopReason"].as_str()? {
                    "end_turn" => "sysop is done",
                    "max_iterations" => "sysop: iteration limit reached",
                    "failed" => "sysop: turn failed",
                    // The user caused this end and knows about it.
                    _ => return None,
                };
                let body = self.prompts.get(&session).cloned().unwrap_or_default();
                Some(NotificationCommand::Show {
                    about: NotificationKey::TurnEnd(session),
                    summary,
                    body,
                    urgent: false,
                })
            }
            _ => None,
        }
    }
}

/// Shows notifications while a notification service is available.
#[derive(Clone)]
pub(crate) struct Notifier {
    inner: Rc<NotifierInner>,
}

struct NotifierInner {
    /// `None` if there is no session bus, or until it is connected.
    bus: RefCell<Option<DBusConnection>>,
    displayed: RefCell<HashMap<NotificationKey, u32>>,
    /// Notifications that were sent to the service and whose ids have not arrived yet. If a notification is removed
    /// from this set before its id arrives, it is closed as soon as the id arrives.
    asked: RefCell<HashSet<NotificationKey>>,
    on_click: Box<dyn Fn(String)>,
}

impl Notifier {
    /// Creates a notifier that calls `on_click` with the session of a clicked notification.
    pub(crate) fn new(on_click: impl Fn(String) + 'static) -> Self {
        let inner = NotifierInner {
            bus: RefCell::default(),
            displayed: RefCell::default(),
            asked: RefCell::default(),
            on_click: Box::new(on_click),
        };
        let notifier = Self { inner: Rc::new(inner) };
        let finds = notifier.clone();
        gtk::gio::bus_get(BusType::Session, Cancellable::NONE, move |bus| {
            let Ok(bus) = bus else { return };
            // Closing the bus must not exit the program.
            bus.set_exit_on_close(false);
            finds.subscribe_signals(&bus);
            *finds.inner.bus.borrow_mut() = Some(bus);
        });
        notifier
    }

    /// Shows or withdraws a notification. Does nothing without a bus or a service.
    pub(crate) fn tell(&self, notice: NotificationCommand) {
        match notice {
            NotificationCommand::Show { about, summary, body, urgent } => {
                self.show(about, summary, &body, urgent)
            }
            NotificationCommand::Withdraw(about) => {
                self.inner.asked.borrow_mut().remove(&about);
                let id = self.inner.displayed.borrow_mut().remove(&about);
                id.into_iter().for_each(|id| self.close(id));
            }
        }
    }

    /// Withdraws all notifications. Called when the window gets the focus.
    pub(crate) fn clear(&self) {
        self.inner.asked.borrow_mut().clear();
        let displayed = std::mem::take(&mut *self.inner.displayed.borrow_mut());
        displayed.into_values().for_each(|id| self.close(id));
    }

    fn subscribe_signals(&self, bus: &DBusConnection) {
        for signal in ["ActionInvoked", "NotificationClosed"] {
            let inner = Rc::downgrade(&self.inner);
            let heard = move |_: &DBusConnection, _: &str, _: &str, _: &str, signal: &str, said: &Variant| {
                let Some(inner) = inner.upgrade() else { return };
                let Some(id) =
                    said.n_children().gt(&0).then(|| said.child_value(0)).and_then(|id| id.get::<u32>())
                else {
                    return;
                };
                let about = inner
                    .displayed
                    .borrow()
                    .iter()
                    .find(|(_, displayed)| **displayed == id)
                    .map(|(about, _)| about.clone());
                let Some(about) = about else { return };
                if signal == "NotificationClosed" {
                    inner.displayed.borrow_mut().remove(&about);
                } else {
                    (inner.on_click)(about.session().to_owned());
                }
            };
            bus.signal_subscribe(
                Some(SERVICE),
                Some(SERVICE),
                Some(signal),
                Some(OBJECT),
                None,
                DBusSignalFlags::NONE,
                heard,
            );
        }
    }

    fn show(&self, about: NotificationKey, summary: &str, body: &str, urgent: bool) {
        let replaces = self.inner.displayed.borrow().get(&about).copied().unwrap_or(0);
        let hints = VariantDict::new(None);
        hints.insert("urgency", if urgent { 2u8 } else { 1u8 });
        hints.insert("desktop-entry", "sysop-desktop");
        let parameters = Variant::tuple_from_iter([
            "sysop".to_variant(),
            replaces.to_variant(),
            "sysop".to_variant(),
            summary.to_variant(),
            gtk::glib::markup_escape_text(body).as_str().to_variant(),
            vec![CLICK, "Open"].to_variant(),
            hints.end(),
            (-1i32).to_variant(),
        ]);
        {
            let mut asked = self.inner.asked.borrow_mut();
            if asked.len() >= KNOWN_MAX {
                asked.clear();
            }
            asked.insert(about.clone());
        }
        let notifier = self.clone();
        let displayed = move |answer: Result<Variant, gtk::glib::Error>| {
            let Some(id) = answer
                .ok()
                .filter(|answer| answer.n_children() == 1)
                .and_then(|answer| answer.child_value(0).get::<u32>())
            else {
                return;
            };
            if !notifier.inner.asked.borrow_mut().remove(&about) {
                return notifier.close(id);
            }
            let mut displayed = notifier.inner.displayed.borrow_mut();
            if displayed.len() >= KNOWN_MAX {
                displayed.clear();
            }
            displayed.insert(about, id);
        };
        self.call("Notify", &parameters, VariantTy::new("(u)").ok(), displayed);
    }

    fn close(&self, id: u32) {
        // It is fine if the notification is already gone.
        self.call("CloseNotification", &(id,).to_variant(), None, |_| {});
    }

    fn call(
        &self,
        method: &str,
        parameters: &Variant,
        answer: Option<&VariantTy>,
        answered: impl FnOnce(Result<Variant, gtk::glib::Error>) + 'static,
    ) {
        let bus = self.inner.bus.borrow();
        let Some(bus) = bus.as_ref() else { return };
        let (flags, nothing) = (DBusCallFlags::NONE, Cancellable::NONE);
        bus.call(
            Some(SERVICE),
            OBJECT,
            SERVICE,
            method,
            Some(parameters),
            answer,
            flags,
            CALL_TIMEOUT_MS,
            nothing,
            answered,
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{NotificationCommand, NotificationFilter, NotificationKey};

    #[test]
    fn approvals_and_finished_turns_notify_and_nothing_else_does() {
        let mut reader = NotificationFilter::default();
        let asked = reader.command_for(&json!({
            "type": "approval.request", "sessionId": "s", "toolCallId": "c", "command": "rm \u{1b}[2J x\n"
        }));
        let approval = NotificationKey::Approval("s".to_owned(), "c".to_owned());
        let Some(NotificationCommand::Show { about, body, urgent: true, .. }) = asked else {
            panic!("{asked:?}")
        };
        assert_eq!((about, body.as_str()), (approval.clone(), "rm \u{fffd}[2J x"));
        let closed =
            reader.command_for(&json!({ "type": "approval.closed", "sessionId": "s", "toolCallId": "c" }));
        assert_eq!(closed, Some(NotificationCommand::Withdraw(approval)));
        reader.command_for(&json!({ "type": "user.message", "sessionId": "s", "content": "why?" }));
        let mut done = |reason: &str| {
            let message =
                json!({ "type": "assistant.done", "sessionId": "s", "metadata": { "stopReason": reason } });
            reader.command_for(&message)
        };
        let Some(NotificationCommand::Show { summary, body, urgent: false, .. }) = done("end_turn") else {
            panic!("the user is notified")
        };
        assert_eq!((summary, body.as_str()), ("sysop is done", "why?"));
        assert_eq!(done("cancelled"), None, "a user who stopped the turn is not notified");
        assert_eq!(
            NotificationFilter::default()
                .command_for(&json!({ "type": "approval.request", "sessionId": "a/b" })),
            None
        );
    }
}
