//! The run loop: one task that takes keys, updates, what was fetched, and time, one after the other, and draws.
//!
//! Nothing ticks while nothing moves. What comes in a flood is taken in by the hundred and drawn once; a key is
//! drawn at once.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use sysop_core::event::{Input, Update};
use sysop_core::id::{Seq, SessionId};
use sysop_core::look::Looks;
use sysop_core::message::ModelRef;
use sysop_core::text::painted;
use sysop_core::transcript::{Item, Transcript};
use sysop_driver::face::{Desk, Opened, Session, Which};
use sysop_driver::port::SessionSummary;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use crate::app::{Act, App, AtDesk, Edited, Left, OPENING, PATHS_MAX, Past, Setup, Standing};
use crate::outside;
use crate::pane::{Pane, Pressed};
use crate::screen::{Event, Events, Mouse, Request, Screen, Suspended};
use crate::view::theme::ThemeName;
use crate::{BY, Leaving, OpenError, Opening, Programs, TuiContext, frame};

/// The least time between frames while much comes.
const FRAME: Duration = Duration::from_millis(12);
/// The same while the log of an earlier session is read: nobody reads what rushes by.
const REPLAY_FRAME: Duration = Duration::from_millis(200);
/// The most updates that are taken in before keys have their turn.
const UPDATES_MAX: usize = 512;
/// The longest history file that is read, in bytes.
const HISTORY_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    /// How the person left.
    pub left: Left,
    /// The session that they can go on with; none where nothing was said in it.
    pub to_resume: Option<SessionId>,
}

/// What was fetched.
enum Came {
    Past(Past),
    Opened(Result<Opened, String>),
    Sessions(Result<Vec<SessionSummary>, String>),
    Models(Vec<ModelRef>),
    Paths(String, Vec<String>),
    Artefact(Result<Vec<u8>, String>),
    /// Old texts of a session, and whether it is that one.
    Recalled(SessionId, Vec<Item>),
    /// How a session stands that was left while it ran; none where it runs no more.
    Stands(SessionId, Option<Standing>),
    /// Colours were kept, or not; one sentence.
    Kept(String),
    /// Something could not be done; one sentence.
    Failed(String),
}

/// Opens the face and runs it until the person leaves.
///
/// # Errors
/// When there is no session to begin with, or the terminal cannot be used.
pub async fn run(context: TuiContext) -> Result<Ended, OpenError> {
    let TuiContext { open, task, history, notice, theme, keep_theme, .. } = context;
    let TuiContext { prices, programs, drafts, kind, leaving, .. } = context;
    let began = Instant::now();
    let mut screen = Screen::enter(kind)?;
    screen.set_mouse(Mouse::Clicks);
    let mut app = App::new(Setup { theme, prices, leaving });
    if let Some(notice) = notice {
        app.say(notice, Duration::ZERO);
    }
    // On the screen before anything else is begun.
    screen.draw(|frame, links| frame::draw(&mut app, frame, links, Duration::ZERO))?;
    let (tell, came) = unbounded_channel();
    let events = Events::new()?;
    let face = Face {
        app,
        screen,
        events,
        began,
        leaving,
        desk: None,
        session: None,
        updates: None,
        task,
        held: Vec::new(),
        tell,
        history,
        keep_theme,
        programs,
        drafts,
        dirty: true,
        urgent: false,
        unseen: false,
        looks: true,
        pane: None,
        aside: HashMap::new(),
        recalls: false,
        last_frame: Duration::ZERO,
        left: None,
    };
    face.read_past();
    face.serve(open, came).await
}

struct Face {
    app: App,
    screen: Screen,
    events: Events,
    began: Instant,
    leaving: Leaving,
    desk: Option<Arc<dyn Desk>>,
    session: Option<Arc<dyn Session>>,
    updates: Option<BoxStream<'static, Update>>,
    task: Option<String>,
    /// What was asked for before there was a session.
    held: Vec<Act>,
    tell: UnboundedSender<Came>,
    history: Option<PathBuf>,
    keep_theme: Arc<dyn Fn(ThemeName) -> String + Send + Sync>,
    programs: Programs,
    drafts: PathBuf,
    /// Whether something has changed since the last frame.
    dirty: bool,
    /// Whether the person did something since.
    urgent: bool,
    /// Whether the last frame may not have reached the terminal yet.
    unseen: bool,
    /// Whether the person looks at this terminal, as far as it tells.
    looks: bool,
    /// The session's terminal, while the person is in it.
    pane: Option<Pane>,
    /// Sessions that were left while they ran, each with the task that watches it.
    aside: HashMap<SessionId, (Arc<dyn Session>, AbortHandle)>,
    /// Whether old texts are on their way.
    recalls: bool,
    last_frame: Duration,
    left: Option<Left>,
}

impl Face {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    async fn serve(
        mut self,
        open: futures::future::BoxFuture<'static, Opening>,
        mut came: UnboundedReceiver<Came>,
    ) -> Result<Ended, OpenError> {
        let mut open = open.fuse();
        loop {
            self.draw()?;
            if let Some(left) = self.left.take() {
                return Ok(self.end(left));
            }
            let wake = self.wake();
            tokio::select! {
                biased;
                event = self.events.next() => self.event(event).await?,
                opened = &mut open => self.at_desk(opened?).await?,
                Some(came) = came.recv() => self.fetched(came).await?,
                () = came_of(&mut self.pane) => self.dirty = true,
                update = next_of(&mut self.updates) => self.updated(update),
                () = self.screen.ready(), if self.unseen || (self.dirty && !self.screen.is_ready()) => {}
                () = sleep_until(self.began, wake) => {
                    // What a moment takes away has to be drawn away, too.
                    self.dirty = true;
                    self.app.tick(self.began.elapsed());
                }
            }
        }
    }

    /// When there is something to do by itself.
    fn wake(&mut self) -> Option<Duration> {
        let now = self.now();
        if self.dirty && self.screen.is_ready() {
            let least = if self.app.is_replaying() { REPLAY_FRAME } else { FRAME };
            return Some((self.last_frame + least).max(now));
        }
        let next = self.app.next_change(now);
        // What has come by now changes the screen.
        self.dirty |= next.is_some_and(|next| next <= now);
        next
    }

    fn draw(&mut self) -> io::Result<()> {
        let now = self.now();
        if self.screen.is_ready() && std::mem::take(&mut self.unseen) && self.pane.is_none() {
            self.app.drawn(now);
        }
        if self.app.next_change(self.last_frame).is_some_and(|next| next <= now) {
            self.dirty = true;
        }
        let least = if self.app.is_replaying() { REPLAY_FRAME } else { FRAME };
        let due = self.urgent || now >= self.last_frame + least;
        if !self.dirty || !due || !self.screen.is_ready() {
            return Ok(());
        }
        self.app.tick(now);
        self.follow_pane();
        let (app, pane) = (&mut self.app, &mut self.pane);
        self.screen.draw(|frame, links| match pane {
            Some(pane) => frame::draw_pane(app, pane, frame, links),
            None => frame::draw(app, frame, links, now),
        })?;
        (self.dirty, self.urgent, self.unseen, self.last_frame) = (false, false, true, now);
        self.recall();
        Ok(())
    }

    /// Brings back the old texts that the person has come to.
    fn recall(&mut self) {
        let Some(session) = self.session.clone().filter(|_| !self.recalls) else { return };
        let Some(mut recall) = self.app.recall() else { return };
        self.recalls = true;
        let tell = self.tell.clone();
        tokio::spawn(async move {
            let mut updates = session.subscribe(Seq(0));
            while let Some(update) = updates.next().await {
                if let Update::Logged(logged) = update
                    && recall.apply(&logged)
                {
                    break;
                }
            }
            // Nobody listens where the person has left.
            let _ = tell.send(Came::Recalled(session.id().clone(), recall.items()));
        });
    }

    /// The mouse is for the program in the terminal where that is on the screen, else for the wheel.
    fn follow_pane(&mut self) {
        if let Some(over) = self.pane.as_ref().and_then(|pane| pane.over()).map(str::to_owned) {
            let now = self.now();
            self.app.say(over, now);
            self.close_pane();
        }
        self.screen.set_mouse(self.pane.as_ref().map_or(Mouse::Clicks, Pane::wanted_mouse));
    }

    /// What was typed into the terminal is no answer to what lies behind it.
    fn close_pane(&mut self) {
        self.pane = None;
        self.app.hidden();
    }

    async fn event(&mut self, event: Event) -> io::Result<()> {
        let now = self.now();
        (self.dirty, self.urgent) = (true, true);
        match event {
            Event::Key(key) if self.pane.is_some() => {
                let pressed = self.pane.as_mut().map(|pane| pane.key(key));
                if pressed == Some(Pressed::GaveBack) {
                    self.close_pane();
                }
            }
            Event::Paste(text) if self.pane.is_some() => {
                if let Some(pane) = &mut self.pane {
                    pane.paste(&text);
                }
            }
            Event::Mouse(mouse) if self.pane.is_some() => {
                if self.pane.as_mut().is_some_and(|pane| !pane.mouse(mouse)) {
                    self.app.mouse(mouse);
                }
            }
            Event::Key(key) => {
                let acts = self.app.key(key, now);
                self.act(acts).await?;
            }
            Event::Paste(text) => {
                let acts = self.app.paste(&text, now);
                self.act(acts).await?;
            }
            Event::Mouse(mouse) => self.app.mouse(mouse),
            Event::Focused(looks) => self.looks = looks,
            Event::Resized => self.screen.resized()?,
            Event::Lost => self.leave(Left::HungUp).await?,
            Event::Asked(request) => match request {
                Request::Interrupt => {
                    let acts = self.app.key(crate::app::ctrl_c(), now);
                    self.act(acts).await?;
                }
                Request::Quit | Request::Terminate => self.leave(Left::Terminated).await?,
                Request::Hangup => self.leave(Left::HungUp).await?,
                Request::Suspend => self.suspend().await?,
                Request::Continued => {
                    self.app.hidden();
                    self.screen.continued()?;
                }
            },
        }
        Ok(())
    }

    async fn leave(&mut self, left: Left) -> io::Result<()> {
        let acts = self.app.leave(left);
        self.act(acts).await
    }

    async fn suspend(&mut self) -> io::Result<()> {
        self.app.hidden();
        if self.screen.suspend(&mut self.events).await? == Suspended::Nowhere {
            let now = self.now();
            self.app.say("there is no shell to go back to", now);
        }
        Ok(())
    }

    fn updated(&mut self, first: Option<Update>) {
        let waited = self.app.waits_for_person();
        self.take_updates(first);
        if !waited && self.app.waits_for_person() && !self.looks {
            self.screen.ring();
        }
    }

    fn take_updates(&mut self, first: Option<Update>) {
        let now = self.now();
        self.dirty = true;
        let mut next = Some(first);
        for _ in 0..UPDATES_MAX {
            match next {
                Some(Some(update)) => self.app.update(&update, now),
                Some(None) => return self.gone(),
                None => return,
            }
            next = self.updates.as_mut().and_then(|updates| updates.next().now_or_never());
        }
        if let Some(Some(update)) = next {
            self.app.update(&update, now);
        }
    }

    fn gone(&mut self) {
        self.updates = None;
        let why = self.session.as_ref().and_then(|session| session.last_error());
        self.left = Some(Left::Failed(why.unwrap_or_else(|| "the session was closed".to_owned())));
    }

    async fn at_desk(&mut self, (desk, opened): (Arc<dyn Desk>, Opened)) -> io::Result<()> {
        self.app.at_desk(AtDesk { routines: desk.routines(), hosts: desk.hosts() });
        self.desk = Some(desk);
        self.opened(opened);
        let now = self.now();
        let mut acts = self.task.take().map(|task| self.app.task(&task, now)).unwrap_or_default();
        acts.append(&mut self.held);
        self.act(acts).await
    }

    fn opened(&mut self, opened: Opened) {
        self.dirty = true;
        let Opened { session, last, spec } = opened;
        self.pane = None;
        let id = session.id().clone();
        if let Some((_, watcher)) = self.aside.remove(&id) {
            watcher.abort();
        }
        let before = self.app.opened(id, last, &spec);
        let updates = self.updates.replace(session.subscribe(Seq(0)));
        if let (Some(left), Some(updates)) = (self.session.replace(session), updates) {
            self.watch(left, updates, before);
        }
    }

    /// Watches a session that is left, as long as it runs: it may need a person.
    fn watch(
        &mut self,
        session: Arc<dyn Session>,
        mut updates: BoxStream<'static, Update>,
        mut transcript: Transcript,
    ) {
        let (id, now) = (session.id().clone(), self.now());
        let Some(mut standing) = Standing::of(&transcript) else { return };
        if self.session.as_ref().is_some_and(|session| *session.id() == id) {
            return;
        }
        self.app.stands(&id, Some(standing), now);
        let (tell, left) = (self.tell.clone(), id.clone());
        let watcher = tokio::spawn(async move {
            while let Some(update) = updates.next().await {
                transcript.apply(&update);
                let stands = Standing::of(&transcript);
                if stands != Some(standing) && tell.send(Came::Stands(left.clone(), stands)).is_err() {
                    return;
                }
                let Some(stands) = stands else { return };
                standing = stands;
            }
            // Nobody listens where the person has left.
            let _ = tell.send(Came::Stands(left, None));
        });
        self.aside.insert(id, (session, watcher.abort_handle()));
    }

    async fn fetched(&mut self, came: Came) -> io::Result<()> {
        let now = self.now();
        self.dirty = true;
        match came {
            Came::Past(past) => self.app.remembers(past),
            Came::Opened(Ok(opened)) => self.opened(opened),
            Came::Sessions(Ok(sessions)) => {
                let today = sysop_driver::system_clock().now();
                self.app.pick_session(sessions, |it| ago(today.0.saturating_sub(it.changed.0)), now);
            }
            Came::Models(models) => self.app.pick_model(models),
            Came::Paths(word, paths) => self.app.found_paths(&word, paths),
            Came::Artefact(Ok(bytes)) => {
                let text = String::from_utf8_lossy(&bytes);
                let (text, looks) = painted(&text);
                self.page(&text, &looks).await?;
            }
            Came::Recalled(id, items) => {
                self.recalls = false;
                if self.app.session() == Some(&id) {
                    self.app.recalled(items);
                }
            }
            Came::Stands(id, standing) => {
                if standing.is_none() {
                    self.aside.remove(&id);
                }
                self.app.stands(&id, standing, now);
                if standing == Some(Standing::Waits) && !self.looks {
                    self.screen.ring();
                }
            }
            Came::Opened(Err(why)) => self.app.not_opened(why, now),
            Came::Sessions(Err(why)) => self.app.not_listed(why, now),
            Came::Artefact(Err(why)) | Came::Kept(why) | Came::Failed(why) => {
                self.app.say(why, now);
            }
        }
        Ok(())
    }

    async fn act(&mut self, acts: Vec<Act>) -> io::Result<()> {
        for act in acts {
            self.one_act(act).await?;
        }
        Ok(())
    }

    async fn one_act(&mut self, act: Act) -> io::Result<()> {
        let now = self.now();
        match act {
            // They wait for the desk.
            Act::ListSessions | Act::ListModels | Act::Open(_) | Act::ShowTerminal if self.desk.is_none() => {
                self.held.push(act);
            }
            Act::Send(input) => match &self.session {
                Some(session) => {
                    if let Err(why) = session.send(input) {
                        self.app.failed(why, now);
                    }
                }
                None => self.held.push(Act::Send(input)),
            },
            Act::Answer(id, answer) => {
                if let Some(session) = &self.session
                    && !session.answer(id, answer)
                {
                    self.app.say("nobody waits for that answer any more", now);
                }
            }
            Act::OpenEditor(what, text) => self.edit(what, &text).await?,
            Act::Pager(text) => self.page(&text, &Looks::default()).await?,
            Act::PagerOfOutput(text, looks) => self.page(&text, &looks).await?,
            Act::PagerOfArtefact(name) => {
                let id = self.session.as_ref().map(|session| session.id().clone());
                self.fetch(move |desk| async move {
                    match id {
                        Some(id) => Came::Artefact(desk.artefact(&id, &name).await),
                        None => Came::Failed("there is no session yet".to_owned()),
                    }
                });
            }
            Act::Open(which) => self.open(which),
            Act::ListSessions => self.fetch(|desk| async move { Came::Sessions(desk.list().await) }),
            Act::ListModels => self.fetch(|desk| async move { Came::Models(desk.models().await) }),
            Act::FindPaths(word) => {
                let Some(id) = self.session.as_ref().map(|session| session.id().clone()) else {
                    return Ok(());
                };
                self.fetch(move |desk| async move {
                    let paths = desk.paths(&id, &word, PATHS_MAX).await;
                    Came::Paths(word, paths)
                });
            }
            Act::Remember(message) => {
                if let Some(path) = &self.history
                    && let Err(error) = remember(path, &message)
                {
                    self.app.say(format!("{} cannot be written ({error})", path.display()), now);
                }
            }
            Act::KeepTheme(theme) => self.keep_theme(theme),
            Act::ShowTerminal => match self.session.as_ref().map(|session| session.terminal()) {
                Some(Some(terminal)) => self.pane = Some(Pane::new(terminal, BY)),
                Some(None) => self.app.say("this session has no terminal", now),
                None => self.app.say("the session is being opened", now),
            },
            Act::Suspend => self.suspend().await?,
            Act::Redraw => self.screen.resized()?,
            Act::Quit(left) => self.quit(left),
        }
        Ok(())
    }

    fn quit(&mut self, left: Left) {
        if self.leaving == Leaving::Stops {
            for (session, _) in self.aside.values() {
                // It may have ended by itself.
                let _ = session.send(Input::Cancel);
            }
        }
        self.left = Some(left);
    }

    fn open(&mut self, which: Which) {
        let now = self.now();
        self.app.say(OPENING, now);
        self.fetch(move |desk| async move { Came::Opened(desk.open(which).await) });
    }

    /// Fetches something at the desk, while everything goes on.
    fn fetch<F>(&mut self, what: impl FnOnce(Arc<dyn Desk>) -> F)
    where
        F: Future<Output = Came> + Send + 'static,
    {
        let Some(desk) = self.desk.clone() else {
            let now = self.now();
            return self.app.say("it is being opened", now);
        };
        let (tell, fetched) = (self.tell.clone(), what(desk));
        tokio::spawn(async move {
            // Nobody listens where the person has left.
            let _ = tell.send(fetched.await);
        });
    }

    async fn edit(&mut self, what: Edited, text: &str) -> io::Result<()> {
        let ending = match what {
            Edited::Draft => "md",
            Edited::Proposal => "sh",
        };
        let editor = self.programs.editor.as_deref();
        let edited =
            outside::edit(&mut self.screen, &mut self.events, editor, &self.drafts, ending, text).await?;
        self.app.hidden();
        let now = self.now();
        match edited {
            outside::Edited::Text(text) => self.app.edited(what, Some(text), now),
            outside::Edited::Left => {}
            outside::Edited::Failed(why) => self.app.say(why, now),
        }
        Ok(())
    }

    async fn page(&mut self, text: &str, looks: &Looks) -> io::Result<()> {
        let pager = self.programs.pager.as_deref();
        let paged = outside::page(&mut self.screen, &mut self.events, pager, text, looks).await?;
        self.app.hidden();
        if let Err(why) = paged {
            let now = self.now();
            self.app.say(why, now);
        }
        Ok(())
    }

    fn keep_theme(&self, theme: ThemeName) {
        let (keep, tell) = (Arc::clone(&self.keep_theme), self.tell.clone());
        tokio::task::spawn_blocking(move || {
            // Nobody listens where the person has left.
            let _ = tell.send(Came::Kept(keep(theme)));
        });
    }

    fn read_past(&self) {
        let (Some(path), tell) = (self.history.clone(), self.tell.clone()) else { return };
        tokio::task::spawn_blocking(move || {
            // There is none at first.
            if let Ok(past) = read_past(&path) {
                let _ = tell.send(Came::Past(past));
            }
        });
    }

    fn end(self, left: Left) -> Ended {
        let used = self.app.transcript().turn().0 > 0;
        Ended { left, to_resume: self.app.session().filter(|_| used).cloned() }
    }
}

fn read_past(path: &Path) -> io::Result<Past> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let (mut file, mut text) = (std::fs::File::open(path)?, Vec::new());
    // The newest are at the end.
    let before = file.metadata()?.len().saturating_sub(HISTORY_BYTES_MAX);
    file.seek(SeekFrom::Start(before))?;
    file.take(HISTORY_BYTES_MAX).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    // The first line may lack its beginning.
    Ok(Past::read(if before == 0 { &text } else { text.split_once('\n').map_or("", |(_, rest)| rest) }))
}

fn remember(path: &Path, message: &str) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(Past::line(message).as_bytes())
}

/// The next update; never where there is no session.
async fn next_of(updates: &mut Option<BoxStream<'static, Update>>) -> Option<Update> {
    match updates {
        Some(updates) => updates.next().await,
        None => std::future::pending().await,
    }
}

/// Something new in the terminal; never where it is not on the screen.
async fn came_of(pane: &mut Option<Pane>) {
    match pane {
        Some(pane) => pane.came().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(began: Instant, at: Option<Duration>) {
    match at {
        Some(at) => tokio::time::sleep_until((began + at).into()).await,
        None => std::future::pending().await,
    }
}

/// How long ago something was, in a word or two.
fn ago(milliseconds: i64) -> String {
    match milliseconds / 1_000 {
        ..60 => "just now".to_owned(),
        seconds @ 60..3_600 => format!("{} min ago", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::{HISTORY_BYTES_MAX, Past, read_past, remember};

    #[test]
    fn of_a_long_history_the_newest_is_read() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let path = folder.path().join("history");
        let long = "x".repeat(1024 * 1024);
        for _ in 0..=HISTORY_BYTES_MAX / (1024 * 1024) {
            remember(&path, &long).expect("it can be written");
        }
        remember(&path, "the newest").expect("it can be written");
        let past: Past = read_past(&path).expect("it can be read");
        let read: Vec<&str> = past.newest_first().collect();
        assert_eq!(read.first(), Some(&"the newest"));
        assert!(read[1..].iter().all(|message| *message == long));
    }
}
