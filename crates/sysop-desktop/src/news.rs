//! Tells a person who looks elsewhere what waits for them: a notification of the desktop, over D-Bus.
//!
//! It comes from the server's own words and not from the page, so that it comes whatever the page does just then.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use gtk::gio::prelude::*;
use gtk::gio::{BusType, Cancellable, DBusCallFlags, DBusConnection, DBusSignalFlags};
use gtk::glib::{Variant, VariantDict, VariantTy};
use serde_json::Value;

use crate::arguments::is_session;
use crate::tell::harmless;

/// The service, its object and its interface.
const SERVICE: &str = "org.freedesktop.Notifications";
const OBJECT: &str = "/org/freedesktop/Notifications";
/// How many sessions' prompts, and notifications, are known at a time.
const KNOWN_MAX: usize = 256;
/// How long an answer of the service may take, in milliseconds.
const ANSWER_MS: i32 = 10_000;
/// The action of a click on the notification itself.
const CLICK: &str = "default";

/// What a notification is about: at most one is shown of each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum About {
    /// An approval: session and call.
    Approval(String, String),
    /// The end of a session's turn.
    End(String),
}

impl About {
    fn session(&self) -> &str {
        match self {
            Self::Approval(session, _) | Self::End(session) => session,
        }
    }
}

/// What is to be shown or taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Show it.
    Show {
        /// What it is about.
        about: About,
        /// The line above.
        summary: &'static str,
        /// The text, as text.
        body: String,
        /// Whether something waits.
        urgent: bool,
    },
    /// It is no longer true.
    TakeBack(About),
}

/// Makes notices of the server's words.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    prompts: HashMap<String, String>,
}

impl Reader {
    /// The notice of a message, if it is worth one.
    pub(crate) fn notice(&mut self, message: &Value) -> Option<Notice> {
        let text = |field: &str| harmless(message[field].as_str().unwrap_or_default().trim());
        let session = message["sessionId"].as_str().filter(|id| is_session(id))?.to_owned();
        match message["type"].as_str()? {
            "user.message" => {
                if self.prompts.len() >= KNOWN_MAX {
                    self.prompts.clear();
                }
                self.prompts.insert(session.clone(), text("content"));
                Some(Notice::TakeBack(About::End(session)))
            }
            "approval.request" => Some(Notice::Show {
                about: About::Approval(session, text("toolCallId")),
                summary: "sysop asks: may it run this?",
                body: text("command"),
                urgent: true,
            }),
            "approval.closed" => Some(Notice::TakeBack(About::Approval(session, text("toolCallId")))),
            "assistant.done" => {
                let summary = match message["metadata"]["stopReason"].as_str()? {
                    "end_turn" => "sysop is done",
                    "max_iterations" => "sysop stopped at its limit of steps",
                    "failed" => "sysop could not go on",
                    // Somebody wanted that, and knows.
                    _ => return None,
                };
                let body = self.prompts.get(&session).cloned().unwrap_or_default();
                Some(Notice::Show { about: About::End(session), summary, body, urgent: false })
            }
            _ => None,
        }
    }
}

/// Shows notices, for as long as there is a service that does.
#[derive(Clone)]
pub(crate) struct Notifier {
    inner: Rc<Inner>,
}

struct Inner {
    /// None where there is no bus, or not yet.
    bus: RefCell<Option<DBusConnection>>,
    shown: RefCell<HashMap<About, u32>>,
    /// What the service was asked to show, and has not yet said under which number; taken back where it is not in here
    /// any more by then.
    asked: RefCell<HashSet<About>>,
    clicked: Box<dyn Fn(String)>,
}

impl Notifier {
    /// Calls `clicked` with the session of a notice that was clicked on.
    pub(crate) fn new(clicked: impl Fn(String) + 'static) -> Self {
        let inner = Inner {
            bus: RefCell::default(),
            shown: RefCell::default(),
            asked: RefCell::default(),
            clicked: Box::new(clicked),
        };
        let notifier = Self { inner: Rc::new(inner) };
        let finds = notifier.clone();
        gtk::gio::bus_get(BusType::Session, Cancellable::NONE, move |bus| {
            let Ok(bus) = bus else { return };
            // A bus that ends is no reason to end.
            bus.set_exit_on_close(false);
            finds.hear(&bus);
            *finds.inner.bus.borrow_mut() = Some(bus);
        });
        notifier
    }

    /// Shows a notice, or takes one back. Without a bus or a service, nothing happens.
    pub(crate) fn tell(&self, notice: Notice) {
        match notice {
            Notice::Show { about, summary, body, urgent } => self.show(about, summary, &body, urgent),
            Notice::TakeBack(about) => {
                self.inner.asked.borrow_mut().remove(&about);
                let id = self.inner.shown.borrow_mut().remove(&about);
                id.into_iter().for_each(|id| self.close(id));
            }
        }
    }

    /// Takes all back: the person looks.
    pub(crate) fn clear(&self) {
        self.inner.asked.borrow_mut().clear();
        let shown = std::mem::take(&mut *self.inner.shown.borrow_mut());
        shown.into_values().for_each(|id| self.close(id));
    }

    fn hear(&self, bus: &DBusConnection) {
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
                    .shown
                    .borrow()
                    .iter()
                    .find(|(_, shown)| **shown == id)
                    .map(|(about, _)| about.clone());
                let Some(about) = about else { return };
                if signal == "NotificationClosed" {
                    inner.shown.borrow_mut().remove(&about);
                } else {
                    (inner.clicked)(about.session().to_owned());
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

    fn show(&self, about: About, summary: &str, body: &str, urgent: bool) {
        let replaces = self.inner.shown.borrow().get(&about).copied().unwrap_or(0);
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
        let shown = move |answer: Result<Variant, gtk::glib::Error>| {
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
            let mut shown = notifier.inner.shown.borrow_mut();
            if shown.len() >= KNOWN_MAX {
                shown.clear();
            }
            shown.insert(about, id);
        };
        self.call("Notify", &parameters, VariantTy::new("(u)").ok(), shown);
    }

    fn close(&self, id: u32) {
        // One that is gone already is as good.
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
            ANSWER_MS,
            nothing,
            answered,
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{About, Notice, Reader};

    #[test]
    fn what_waits_and_what_is_done_are_told_and_the_rest_is_not() {
        let mut reader = Reader::default();
        let asked = reader.notice(&json!({
            "type": "approval.request", "sessionId": "s", "toolCallId": "c", "command": "rm \u{1b}[2J x\n"
        }));
        let approval = About::Approval("s".to_owned(), "c".to_owned());
        let Some(Notice::Show { about, body, urgent: true, .. }) = asked else { panic!("{asked:?}") };
        assert_eq!((about, body.as_str()), (approval.clone(), "rm \u{fffd}[2J x"));
        let closed =
            reader.notice(&json!({ "type": "approval.closed", "sessionId": "s", "toolCallId": "c" }));
        assert_eq!(closed, Some(Notice::TakeBack(approval)));
        reader.notice(&json!({ "type": "user.message", "sessionId": "s", "content": "why?" }));
        let mut done = |reason: &str| {
            let message =
                json!({ "type": "assistant.done", "sessionId": "s", "metadata": { "stopReason": reason } });
            reader.notice(&message)
        };
        let Some(Notice::Show { summary, body, urgent: false, .. }) = done("end_turn") else {
            panic!("it is told")
        };
        assert_eq!((summary, body.as_str()), ("sysop is done", "why?"));
        assert_eq!(done("cancelled"), None, "who stopped it knows");
        assert_eq!(
            Reader::default().notice(&json!({ "type": "approval.request", "sessionId": "a/b" })),
            None
        );
    }
}
