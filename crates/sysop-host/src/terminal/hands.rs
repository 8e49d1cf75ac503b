//! People at the terminal: who has the control, what they typed, and what the log and the model are told of it.
//!
//! The agent waits from a person's first key until they give the control back, or have typed nothing for a while
//! and the terminal is as it was when they began. Secrets are typed like anything else, and told to nobody.

use std::sync::{Arc, Weak};
use std::time::Duration;

use sysop_core::event::Typed;
use sysop_core::text::neutralise_line;
use tokio::time::{Instant, sleep_until};

use super::live::Live;
use super::secret::secret_prompt;
use super::{SharedTerminal, keys, locked};

/// How long a person who types nothing keeps the control.
const LEASE: Duration = Duration::from_secs(3);
/// How long a stretch of typing may pause.
const STRETCH: Duration = Duration::from_secs(1);
/// The most bytes of one stretch that the log gets.
const STRETCH_BYTES_MAX: usize = 4096;
/// The most letters of what people typed that the model is told with one outcome.
const NEWS_LETTERS_MAX: usize = 1000;

/// Who types.
#[derive(Default)]
pub(super) struct Hands {
    holder: Option<Holder>,
    /// What the model has not been told yet.
    news: Vec<String>,
    /// Whether somebody looks after the lease.
    tended: bool,
}

struct Holder {
    by: String,
    last_key: Instant,
    /// Whether the shell was at its prompt when they began.
    at_prompt: bool,
    /// What they typed that was not told yet.
    stretch: Vec<u8>,
    /// The prompt of the secret that they are typing.
    secret: Option<String>,
}

impl SharedTerminal {
    /// A person types.
    pub(super) fn typed(&self, by: &str, bytes: &[u8]) {
        let Some(live) = self.current() else { return };
        if bytes.is_empty() || live.inner().ended.is_some() {
            return;
        }
        let secret = secret_prompt(&live).map(|open| open.prompt);
        let entered = secret.is_some();
        let at_prompt = live.inner().ready;
        let mut told = Vec::new();
        let taken = {
            let mut hands = locked(&self.hands);
            let taken = hands.holder.as_ref().is_none_or(|holder| holder.by != by);
            if taken {
                told.extend(hands.flush());
                let by = by.to_owned();
                let (stretch, secret) = (Vec::new(), None);
                hands.holder = Some(Holder { by, last_key: Instant::now(), at_prompt, stretch, secret });
            }
            told.extend(hands.take(bytes, secret));
            taken
        };
        let people = self.people();
        if taken {
            people.control(Some(by));
        }
        self.tell(told);
        {
            let mut inner = live.inner();
            inner.typed(bytes);
            inner.entered |= entered;
        }
        live.send(bytes.to_vec());
        self.tend();
    }

    /// A person gives the control back.
    pub(super) fn released(&self, by: &str) {
        let told = {
            let mut hands = locked(&self.hands);
            if hands.holder.as_ref().is_none_or(|holder| holder.by != by) {
                return;
            }
            let told = hands.flush();
            hands.holder = None;
            told
        };
        self.tell(told);
        self.people().control(None);
    }

    /// Who has the control; none where the agent may type.
    pub(super) fn holder(&self) -> Option<String> {
        locked(&self.hands).holder.as_ref().map(|holder| holder.by.clone())
    }

    /// What people typed since the last time, in one line for the model.
    pub(super) fn typed_news(&self) -> Option<String> {
        let told = locked(&self.hands).flush();
        self.tell(told);
        let news = std::mem::take(&mut locked(&self.hands).news);
        joined(&news)
    }

    /// Tells the log, and keeps it for the model.
    fn tell(&self, told: Vec<(String, Typed)>) {
        let people = self.people();
        for (by, typed) in told {
            let news = match &typed {
                Typed::Keys { text } => format!("{by} typed: {text}"),
                Typed::Secret { .. } => format!("{by} entered a password"),
                Typed::Answer { .. } => continue,
            };
            people.typed(&by, typed);
            let mut hands = locked(&self.hands);
            hands.news.push(news);
        }
    }

    /// Sees to it that somebody looks after the lease.
    fn tend(&self) {
        let mut hands = locked(&self.hands);
        if hands.tended {
            return;
        }
        // Without a runtime there is no agent either that could wait.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        hands.tended = true;
        runtime.spawn(tend(self.me.clone()));
    }

    /// Ends a stretch that has paused, and a lease that is over. Says when to look again; none where nobody has
    /// the control any more.
    fn look(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut told = Vec::new();
        let mut hands = locked(&self.hands);
        let Some(holder) = &mut hands.holder else {
            hands.tended = false;
            return None;
        };
        let (last_key, at_prompt) = (holder.last_key, holder.at_prompt);
        if now >= last_key + STRETCH {
            told = hands.flush();
        }
        drop(hands);
        self.tell(told);
        let over =
            now >= last_key + LEASE && self.current().is_none_or(|live| is_as_it_was(&live, at_prompt));
        if over {
            let mut hands = locked(&self.hands);
            if hands.holder.as_ref().is_some_and(|holder| holder.last_key == last_key) {
                hands.holder = None;
                hands.tended = false;
                drop(hands);
                self.people().control(None);
                return None;
            }
        }
        Some(if now < last_key + STRETCH { last_key + STRETCH } else { (last_key + LEASE).max(now + LOOK) })
    }
}

/// How often it is looked whether the terminal is as it was.
const LOOK: Duration = Duration::from_millis(100);

async fn tend(terminal: Weak<SharedTerminal>) {
    loop {
        let Some(next) = terminal.upgrade().and_then(|terminal: Arc<SharedTerminal>| terminal.look()) else {
            return;
        };
        sleep_until(next).await;
    }
}

/// Whether the agent may go on: the shell is at its prompt, or the program still runs to which the person typed.
fn is_as_it_was(live: &Live, at_prompt: bool) -> bool {
    let inner = live.inner();
    inner.ready || inner.ended.is_some() || inner.shells.is_empty() || !at_prompt
}

fn joined(news: &[String]) -> Option<String> {
    let all = news.join("; ");
    let all = neutralise_line(&all);
    let mut line: String = all.chars().take(NEWS_LETTERS_MAX).collect();
    if line.len() < all.len() {
        line.push('…');
    }
    (!line.is_empty()).then_some(line)
}

impl Hands {
    /// Takes what the holder typed; gives what is complete.
    fn take(&mut self, bytes: &[u8], secret: Option<String>) -> Vec<(String, Typed)> {
        let mut told = Vec::new();
        if secret.is_some() {
            told.extend(self.flush());
        }
        let Some(holder) = &mut self.holder else { return told };
        holder.last_key = Instant::now();
        if let Some(prompt) = secret {
            if bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
                told.push((holder.by.clone(), Typed::Secret { prompt }));
                holder.secret = None;
            } else {
                holder.secret = Some(prompt);
            }
            return told;
        }
        holder.secret = None;
        for line in bytes.split_inclusive(|byte| matches!(byte, b'\r' | b'\n')) {
            let Some(holder) = &mut self.holder else { return told };
            let room = STRETCH_BYTES_MAX.saturating_sub(holder.stretch.len());
            holder.stretch.extend_from_slice(&line[..line.len().min(room)]);
            if line.ends_with(b"\r") || line.ends_with(b"\n") {
                told.extend(self.flush());
            }
        }
        told
    }

    /// What the holder typed and nobody was told yet.
    fn flush(&mut self) -> Vec<(String, Typed)> {
        let Some(holder) = &mut self.holder else { return Vec::new() };
        let text = keys::names(&std::mem::take(&mut holder.stretch));
        if text.is_empty() { Vec::new() } else { vec![(holder.by.clone(), Typed::Keys { text })] }
    }
}
