//! The run loop: one task that handles keys, updates, fetched data and timers one after the other, and draws.
//!
//! There is no periodic tick: the loop wakes only for events and scheduled changes. If many updates arrive, they are
//! handled in batches, and each batch is drawn once. The effect of a key is drawn at once.

mod extras;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use sysop_core::event::{Input, Update};
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_core::image;
use sysop_core::message::ModelRef;
use sysop_core::skill::Skill;
use sysop_core::style::StyleRuns;
use sysop_core::text::split_styles;
use sysop_core::transcript::{Item, Transcript};
use sysop_driver::frontend::{
    AttachedSession, OfferedRule, SessionHandle, SessionSelector, SessionService, ToolServer,
};
use sysop_driver::port::{SearchHit, SessionSummary};
use sysop_term::grid::Mouse;
use sysop_term::theme::ThemeChoice;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use crate::app::{
    Action, App, AppOptions, BackgroundStatus, EditTarget, ExitReason, OPENING, PATHS_MAX, PromptHistory,
    ServiceCatalog,
};
use crate::external_program;
use crate::prompt_history_file::{read_prompt_history, remember};
use crate::screen::{ProcessSignal, Screen, SuspendResult, TerminalEvent, TerminalEvents};
use crate::terminal_pane::{PaneKeyResult, TerminalPane};
use crate::{
    BY, ClipboardAccess, ExternalPrograms, OpenError, OpenResult, RunningTurnPolicy, TuiContext, frame,
};
use extras::{Occasion, ago, with_images};

/// Minimum interval between frames under load.
const FRAME: Duration = Duration::from_millis(12);
/// Minimum interval between frames while a log is being replayed, which is too fast to follow anyway.
const REPLAY_FRAME: Duration = Duration::from_millis(200);
/// Maximum number of updates to handle before checking for keys.
const UPDATES_MAX: usize = 512;

/// Result of running the front end.
#[derive(Debug)]
pub struct TuiExit {
    pub left: ExitReason,
    /// Session that the user can resume, or `None` if no prompt was sent in it.
    pub to_resume: Option<SessionId>,
    /// Complete answer with which the last turn of that session ended. Untrusted text.
    pub last_answer: Option<String>,
    /// Call that awaited an answer of the user when the turn was stopped. Untrusted text.
    pub stopped_call: Option<String>,
}

/// Data that was fetched in the background.
enum FetchResult {
    PromptHistory(PromptHistory),
    SessionOpened(Result<AttachedSession, String>),
    Sessions(Result<Vec<SessionSummary>, String>),
    /// Sessions for the start screen.
    RecentSessions(Vec<SessionSummary>),
    /// Sessions whose text contains the searched words.
    SessionHits(String, Vec<SearchHit>),
    /// Branch of the repository at the root of a session.
    Branch(SessionId, Option<String>),
    ModelStatus(Option<String>),
    ModelProblem(Option<String>),
    /// Image from the clipboard, or the reason why there is none.
    PastedImage(Result<PathBuf, String>),
    Models(Vec<ModelRef>),
    ToolServers(Result<Vec<ToolServer>, String>),
    Paths(String, Vec<String>),
    Artifact(Result<Vec<u8>, String>),
    /// Restored items of a session. They are ignored if another session is shown by the time they arrive.
    Backfilled(SessionId, Vec<Item>),
    /// Status of a background session; `None` if it is no longer running.
    BackgroundStatus(SessionId, Option<BackgroundStatus>),
    AllowedAlways(Result<(), String>),
    ThemeSaved(String),
    /// The answer to `/trust`, for the user.
    WorkspaceTrusted(String),
    Skills(SessionId, Vec<Skill>),
    Failed(String),
}

fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Runs the front end until the user exits. Fails if opening the first session or the terminal fails.
pub async fn run(context: TuiContext) -> Result<TuiExit, OpenError> {
    let TuiContext { open, task, history, notice, theme, keep_theme, detects_theme, .. } = context;
    let TuiContext { prices, programs, drafts, kind, leaving, clipboard, status_line, home, .. } = context;
    let began = Instant::now();
    let mut screen = Screen::enter(kind)?;
    screen.set_mouse(Mouse::Drags);
    let started = Some(wall_clock());
    let mut app = App::new(AppOptions { theme, detects_theme, prices, leaving, status_line, home, started });
    if let Some(notice) = notice {
        app.show_flash(notice, Duration::ZERO);
    }
    // Show the first frame before starting anything else.
    screen.draw(|frame, links| frame::draw(&mut app, frame, links, Duration::ZERO))?;
    if detects_theme {
        screen.ask_background();
    }
    let (result_sender, came) = unbounded_channel();
    let events = TerminalEvents::new()?;
    let face = RunLoop {
        app,
        screen,
        events,
        began,
        leaving,
        service: None,
        session: None,
        updates: None,
        task,
        deferred_actions: Vec::new(),
        result_sender,
        history,
        keep_theme,
        programs,
        drafts,
        clipboard,
        asked_background: detects_theme.then_some(Duration::ZERO),
        dirty: true,
        urgent: false,
        unseen: false,
        looks: true,
        pane: None,
        background_sessions: HashMap::new(),
        backfilling: false,
        last_frame: Duration::ZERO,
        left: None,
    };
    face.read_prompt_history();
    face.serve(open, came).await
}

struct RunLoop {
    app: App,
    screen: Screen,
    events: TerminalEvents,
    began: Instant,
    leaving: RunningTurnPolicy,
    service: Option<Arc<dyn SessionService>>,
    session: Option<Arc<dyn SessionHandle>>,
    updates: Option<BoxStream<'static, Update>>,
    task: Option<String>,
    /// Actions requested before the session service was connected.
    deferred_actions: Vec<Action>,
    result_sender: UnboundedSender<FetchResult>,
    history: Option<PathBuf>,
    keep_theme: Arc<dyn Fn(ThemeChoice) -> String + Send + Sync>,
    programs: ExternalPrograms,
    drafts: PathBuf,
    clipboard: ClipboardAccess,
    /// Time at which the terminal was queried for its background color; `None` if no reply is expected.
    asked_background: Option<Duration>,
    /// True if something has changed since the last frame.
    dirty: bool,
    /// True if the change was caused by the user and must be drawn without delay.
    urgent: bool,
    /// True if the last frame may not have reached the terminal.
    unseen: bool,
    /// False if the terminal has reported that it lost the focus. Always true if the terminal does not report focus.
    looks: bool,
    /// The session's terminal, while it is shown.
    pane: Option<TerminalPane>,
    /// Sessions that the user left while they were running, each with the task that watches it.
    background_sessions: HashMap<SessionId, (Arc<dyn SessionHandle>, AbortHandle)>,
    /// True while truncated items are being fetched.
    backfilling: bool,
    last_frame: Duration,
    left: Option<ExitReason>,
}

impl RunLoop {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    async fn serve(
        mut self,
        open: futures::future::BoxFuture<'static, OpenResult>,
        mut came: UnboundedReceiver<FetchResult>,
    ) -> Result<TuiExit, OpenError> {
        let mut open = open.fuse();
        loop {
            self.draw()?;
            if let Some(left) = self.left.take() {
                self.await_stop(&left).await?;
                self.await_background().await;
                return Ok(self.into_exit(left));
            }
            let wake = self.wake();
            tokio::select! {
                biased;
                event = self.events.next() => self.event(event).await?,
                opened = &mut open => self.connected(opened?).await?,
                Some(came) = came.recv() => self.on_fetch_result(came).await?,
                () = pane_changed(&mut self.pane) => self.dirty = true,
                update = next_update(&mut self.updates) => self.on_update(update),
                () = self.screen.ready(), if self.unseen || (self.dirty && !self.screen.is_ready()) => {}
                () = sleep_until(self.began, wake) => {
                    // Flash messages that time out must disappear from the screen.
                    self.dirty = true;
                    self.app.tick(self.now());
                    let actions = self.app.release_letter(self.now());
                    self.perform_actions(actions).await?;
                }
            }
        }
    }

    /// Returns the time at which the loop must wake up even if no event arrives, if any.
    fn wake(&mut self) -> Option<Duration> {
        let now = self.now();
        if self.dirty && self.screen.is_ready() {
            let least = if self.app.is_replaying() { REPLAY_FRAME } else { FRAME };
            return Some((self.last_frame + least).max(now));
        }
        let next = self.app.next_change(now);
        // A change that is already due needs a frame.
        self.dirty |= next.is_some_and(|next| next <= now);
        next
    }

    fn draw(&mut self) -> io::Result<()> {
        self.follow_connection();
        let now = self.now();
        if self.screen.is_ready() && std::mem::take(&mut self.unseen) && self.pane.is_none() {
            self.app.note_displayed(now);
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
        self.look_for_rule();
        self.follow_pane();
        let (app, pane) = (&mut self.app, &mut self.pane);
        self.screen.draw(|frame, links| match pane {
            Some(pane) => frame::draw_pane(app, pane, frame, links),
            None => frame::draw(app, frame, links, now),
        })?;
        (self.dirty, self.urgent, self.unseen, self.last_frame) = (false, false, true, now);
        if let Some(text) = self.app.take_selected_text() {
            self.copy(&text, None);
        }
        self.backfill();
        Ok(())
    }

    /// Looks up the "allow always" rule to offer with the proposal that is about to be drawn.
    fn look_for_rule(&mut self) {
        let (Some(service), Some(session)) = (&self.service, &self.session) else { return };
        let Some(plan) = self.app.proposal_without_offer() else { return };
        let offered = service.offered_rule(session.id(), self.app.transcript(), plan);
        self.app.set_offered_rule(offered);
    }

    /// Fetches the full text of truncated items that have become visible.
    fn backfill(&mut self) {
        let Some(session) = self.session.clone().filter(|_| !self.backfilling) else { return };
        let Some(mut recall) = self.app.backfill() else { return };
        self.backfilling = true;
        let result_sender = self.result_sender.clone();
        tokio::spawn(async move {
            let mut updates = session.subscribe(Seq(0));
            while let Some(update) = updates.next().await {
                if let Update::Logged(logged) = update
                    && recall.apply(&logged)
                {
                    break;
                }
            }
            // Fails if the user has already exited.
            let _ = result_sender.send(FetchResult::Backfilled(session.id().clone(), recall.items()));
        });
    }

    /// Closes the pane once its terminal has closed. Sets the mouse mode for the pane or the history.
    fn follow_pane(&mut self) {
        if let Some(over) = self.pane.as_ref().and_then(|pane| pane.end_reason()).map(str::to_owned) {
            let now = self.now();
            self.app.show_flash(over, now);
            self.close_pane();
        }
        self.screen.set_mouse(self.pane.as_ref().map_or(Mouse::Drags, TerminalPane::mouse_mode));
    }

    /// Closes the pane. Resets the debounce: keys typed into the pane must not answer a proposal behind it.
    fn close_pane(&mut self) {
        self.pane = None;
        self.app.reset_debounce();
    }

    async fn event(&mut self, event: TerminalEvent) -> io::Result<()> {
        let now = self.now();
        (self.dirty, self.urgent) = (true, true);
        match event {
            TerminalEvent::Key(key) if self.pane.is_some() => {
                let pressed = self.pane.as_mut().map(|pane| pane.key(key));
                if pressed == Some(PaneKeyResult::Released) {
                    self.close_pane();
                }
            }
            TerminalEvent::Paste(text) if self.pane.is_some() => {
                if let Some(pane) = &mut self.pane {
                    pane.paste(&text);
                }
            }
            TerminalEvent::Mouse(mouse) if self.pane.is_some() => {
                if self.pane.as_mut().is_some_and(|pane| !pane.mouse(mouse)) {
                    let actions = self.app.mouse(mouse, now);
                    self.perform_actions(actions).await?;
                }
            }
            TerminalEvent::Key(key) => {
                let actions = self.app.key(key, now);
                self.perform_actions(actions).await?;
            }
            TerminalEvent::Paste(text) => {
                // A file dragged onto the terminal arrives as a paste of its path.
                let image = image::pasted_path(&text).filter(|path| Path::new(path).is_file());
                let mention = image.map_or_else(|| text.clone(), |path| image::mention_of(&path) + " ");
                let actions = self.app.paste_file(&text, &mention, now);
                self.perform_actions(actions).await?;
            }
            TerminalEvent::Mouse(mouse) => {
                let actions = self.app.mouse(mouse, now);
                self.perform_actions(actions).await?;
            }
            TerminalEvent::Background { is_light } => self.note_background(is_light),
            TerminalEvent::Focused(looks) => self.looks = looks,
            TerminalEvent::Resized => self.screen.resized()?,
            TerminalEvent::Lost => self.leave(ExitReason::HungUp).await?,
            TerminalEvent::Signal(request) => match request {
                ProcessSignal::Interrupt => {
                    let actions = self.app.key(crate::app::ctrl_c(), now);
                    self.perform_actions(actions).await?;
                }
                ProcessSignal::Quit | ProcessSignal::Terminate => self.leave(ExitReason::Terminated).await?,
                ProcessSignal::Hangup => self.leave(ExitReason::HungUp).await?,
                ProcessSignal::Suspend => self.suspend().await?,
                ProcessSignal::Continued => {
                    self.app.reset_debounce();
                    self.screen.continued()?;
                }
            },
        }
        Ok(())
    }

    async fn leave(&mut self, left: ExitReason) -> io::Result<()> {
        let actions = self.app.leave(left);
        self.perform_actions(actions).await
    }

    async fn suspend(&mut self) -> io::Result<()> {
        self.app.reset_debounce();
        if self.screen.suspend(&mut self.events).await? == SuspendResult::NoShell {
            let now = self.now();
            self.app.show_flash("cannot suspend: not started from a shell", now);
        }
        Ok(())
    }

    fn on_update(&mut self, first: Option<Update>) {
        let (waited, worked) = (self.app.needs_user(), self.app.is_working());
        self.take_updates(first);
        if !waited && self.app.needs_user() {
            self.notify(Occasion::NeedsUser);
        } else if worked && !self.app.is_working() {
            self.notify(Occasion::TurnEnded);
        }
        if self.app.take_stale_branch() {
            self.fetch_branch();
        }
    }

    fn take_updates(&mut self, first: Option<Update>) {
        let now = self.now();
        self.dirty = true;
        let mut next = Some(first);
        for _ in 0..UPDATES_MAX {
            match next {
                Some(Some(update)) => self.app.update(&update, now),
                Some(None) => return self.session_closed(),
                None => return,
            }
            next = self.updates.as_mut().and_then(|updates| updates.next().now_or_never());
        }
        if let Some(Some(update)) = next {
            self.app.update(&update, now);
        }
    }

    fn session_closed(&mut self) {
        self.updates = None;
        let why = self.session.as_ref().and_then(|session| session.last_error());
        self.left = Some(ExitReason::Failed(why.unwrap_or_else(|| "the session was closed".to_owned())));
    }

    async fn connected(
        &mut self,
        (service, opened): (Arc<dyn SessionService>, AttachedSession),
    ) -> io::Result<()> {
        self.app.connected(ServiceCatalog { routines: service.routines(), hosts: service.hosts() });
        self.service = Some(service);
        self.opened(opened);
        let now = self.now();
        let mut actions = self.task.take().map(|task| self.app.task(&task, now)).unwrap_or_default();
        actions.append(&mut self.deferred_actions);
        self.perform_actions(actions).await
    }

    fn opened(&mut self, opened: AttachedSession) {
        self.dirty = true;
        let AttachedSession { session, last, spec } = opened;
        self.pane = None;
        let id = session.id().clone();
        if let Some((_, watcher)) = self.background_sessions.remove(&id) {
            watcher.abort();
        }
        let before = self.app.opened(id, last, &spec);
        self.app.set_viewer(session.viewer());
        let updates = self.updates.replace(session.subscribe(Seq(0)));
        if let (Some(left), Some(updates)) = (self.session.replace(session), updates) {
            self.watch_in_background(left, updates, before);
        }
        self.find_skills();
        self.fetch_branch();
        self.fetch_recent_sessions();
    }

    fn find_skills(&mut self) {
        let Some(id) = self.session.as_ref().map(|session| session.id().clone()) else { return };
        self.fetch(move |service| async move {
            let skills = service.skills(&id).await;
            FetchResult::Skills(id, skills)
        });
    }

    /// Watches a session that the user has left for as long as it runs, because it may need an answer.
    fn watch_in_background(
        &mut self,
        session: Arc<dyn SessionHandle>,
        mut updates: BoxStream<'static, Update>,
        mut transcript: Transcript,
    ) {
        let (id, now) = (session.id().clone(), self.now());
        let Some(mut standing) = BackgroundStatus::of(&transcript) else { return };
        if self.session.as_ref().is_some_and(|session| *session.id() == id) {
            return;
        }
        self.app.set_background_status(&id, Some(standing), now);
        let (result_sender, left) = (self.result_sender.clone(), id.clone());
        let watcher = tokio::spawn(async move {
            while let Some(update) = updates.next().await {
                transcript.apply(&update);
                let stands = BackgroundStatus::of(&transcript);
                if stands != Some(standing)
                    && result_sender.send(FetchResult::BackgroundStatus(left.clone(), stands)).is_err()
                {
                    return;
                }
                let Some(stands) = stands else { return };
                standing = stands;
            }
            // Fails if the user has already exited.
            let _ = result_sender.send(FetchResult::BackgroundStatus(left, None));
        });
        self.background_sessions.insert(id, (session, watcher.abort_handle()));
    }

    async fn on_fetch_result(&mut self, came: FetchResult) -> io::Result<()> {
        let now = self.now();
        self.dirty = true;
        match came {
            FetchResult::PromptHistory(prompt_history) => self.app.set_prompt_history(prompt_history),
            FetchResult::SessionOpened(Ok(opened)) => self.opened(opened),
            FetchResult::Sessions(Ok(sessions)) => {
                let today = sysop_driver::system_clock().now();
                let age = |it: &SessionSummary| ago(today.0.saturating_sub(it.changed.0));
                let actions = self.app.pick_session(sessions, age, now);
                Box::pin(self.perform_actions(actions)).await?;
            }
            FetchResult::RecentSessions(sessions) => self.set_recent_sessions(sessions),
            FetchResult::SessionHits(typed, hits) => self.app.offer_sessions(&typed, &hits),
            FetchResult::Branch(id, branch) => {
                if self.app.session() == Some(&id) {
                    self.app.set_branch(branch);
                }
            }
            FetchResult::ModelStatus(status) => self.app.set_model_status(status.as_deref()),
            FetchResult::ModelProblem(Some(problem)) => {
                self.app.show_flash(format!("warning: {problem}"), now);
            }
            FetchResult::ModelProblem(None) => {}
            FetchResult::PastedImage(image) => self.pasted_image(image).await?,
            FetchResult::Models(models) => self.app.pick_model(models),
            FetchResult::ToolServers(servers) => self.app.pick_tool_server(servers, now),
            FetchResult::Paths(word, paths) => self.app.offer_paths(&word, paths),
            FetchResult::Artifact(Ok(bytes)) => {
                let text = String::from_utf8_lossy(&bytes);
                let (text, looks) = split_styles(&text);
                self.page(&text, &looks).await?;
            }
            FetchResult::Backfilled(id, items) => {
                self.backfilling = false;
                if self.app.session() == Some(&id) {
                    self.app.recalled(items);
                }
            }
            FetchResult::BackgroundStatus(id, standing) => {
                if standing.is_none() {
                    self.background_sessions.remove(&id);
                }
                self.app.set_background_status(&id, standing, now);
                if standing == Some(BackgroundStatus::AwaitingUser) {
                    self.notify(Occasion::NeedsUser);
                }
            }
            FetchResult::Skills(id, skills) => {
                if self.session.as_ref().is_some_and(|session| *session.id() == id) {
                    self.app.set_skills(skills);
                }
            }
            FetchResult::AllowedAlways(answered) => {
                if let Err(why) = answered {
                    self.app.failed(why, now); // nothing was decided
                }
            }
            FetchResult::WorkspaceTrusted(told) => {
                self.app.show_flash(told, now);
                self.find_skills();
            }
            FetchResult::SessionOpened(Err(why)) => self.app.open_failed(why, now),
            FetchResult::Sessions(Err(why)) => self.app.list_failed(why, now),
            FetchResult::Artifact(Err(why)) | FetchResult::ThemeSaved(why) | FetchResult::Failed(why) => {
                self.app.show_flash(why, now);
            }
        }
        Ok(())
    }

    async fn perform_actions(&mut self, actions: Vec<Action>) -> io::Result<()> {
        for act in actions {
            self.perform_action(act).await?;
        }
        Ok(())
    }

    async fn perform_action(&mut self, act: Action) -> io::Result<()> {
        let now = self.now();
        match act {
            // Deferred until the session service is connected.
            Action::ListSessions | Action::ListModels | Action::OpenSession(_) | Action::ShowTerminal
                if self.service.is_none() =>
            {
                self.deferred_actions.push(act);
            }
            Action::TakeBack(prompts) => self.take_back(prompts),
            Action::Send(input) => match &self.session {
                Some(session) => {
                    let prompt =
                        if let Input::Prompt { text, .. } = &input { Some(text.clone()) } else { None };
                    let input = with_images(self.service.as_deref(), session.id(), input).await;
                    if let Err(why) = input.and_then(|input| session.send(input)) {
                        self.app.not_sent(prompt, why, now);
                    }
                }
                None => self.deferred_actions.push(Action::Send(input)),
            },
            Action::AnswerQuestion(id, answer) => {
                if let Some(session) = &self.session
                    && !session.answer(id, answer)
                {
                    self.app.show_flash("the prompt is no longer open", now);
                }
            }
            Action::AllowAlways(offered) => self.allow_always(offered),
            Action::OpenEditor(what, text) => self.edit(what, &text).await?,
            Action::OpenPager(text) => self.page(&text, &StyleRuns::default()).await?,
            Action::PageOutput(text, looks) => self.page(&text, &looks).await?,
            Action::PageArtifact(name) => {
                let id = self.session.as_ref().map(|session| session.id().clone());
                self.fetch(move |service| async move {
                    match id {
                        Some(id) => FetchResult::Artifact(service.artifact(&id, &name).await),
                        None => FetchResult::Failed("no session yet".to_owned()),
                    }
                });
            }
            Action::OpenSession(which) => self.open(which),
            Action::ListSessions => {
                self.fetch(|service| async move { FetchResult::Sessions(service.list().await) })
            }
            Action::SearchSessions(text) => self.search_sessions(text),
            Action::Export(file) => self.export(file),
            Action::Copy { text, part } => self.copy(&text, part.as_deref()),
            Action::PasteImage => self.paste_image(),
            Action::TrustWorkspace => self.trust_workspace(),
            Action::ListModels => {
                self.fetch(|service| async move { FetchResult::Models(service.models().await) })
            }
            Action::ListToolServers => self.fetch_tool_servers(),
            Action::FetchModelStatus => self.fetch_model_status(),
            Action::CheckModel(model) => self.check_model(model),
            Action::FindPaths(word) => self.find_paths(word),
            Action::AppendPromptHistory(message) => self.append_prompt_history(&message),
            Action::SaveTheme(theme) => self.keep_theme(theme),
            Action::ShowTerminal => match self.session.as_ref().map(|session| session.terminal()) {
                Some(Some(terminal)) => self.pane = Some(TerminalPane::new(terminal, BY)),
                Some(None) => self.app.show_flash(self.app.no_terminal(), now),
                None => self.app.show_flash("opening the session", now),
            },
            Action::Suspend => self.suspend().await?,
            Action::Redraw => self.screen.resized()?,
            Action::Quit(left) => self.quit(left),
        }
        Ok(())
    }

    fn find_paths(&mut self, word: String) {
        let Some(id) = self.session.as_ref().map(|session| session.id().clone()) else { return };
        self.fetch(move |service| async move {
            let paths = service.paths(&id, &word, PATHS_MAX).await;
            FetchResult::Paths(word, paths)
        });
    }

    fn append_prompt_history(&mut self, message: &str) {
        if let Some(path) = &self.history
            && let Err(error) = remember(path, message)
        {
            let text = format!("cannot write {} ({error})", path.display());
            self.app.show_flash(text, self.began.elapsed());
        }
    }

    fn allow_always(&mut self, offered: OfferedRule) {
        let Some(session) = self.session.clone() else { return };
        self.fetch(move |service| async move {
            FetchResult::AllowedAlways(service.allow_always(session.as_ref(), &offered, BY).await)
        });
    }

    fn trust_workspace(&mut self) {
        let Some(session) = self.session.clone() else { return };
        self.fetch(move |service| async move {
            let told = service.trust_workspace(session.as_ref()).await;
            FetchResult::WorkspaceTrusted(told.unwrap_or_else(|why| why))
        });
    }

    fn fetch_tool_servers(&mut self) {
        let Some(session) = self.session.clone() else {
            return self
                .app
                .pick_tool_server(Err("still starting; try again in a moment".to_owned()), self.now());
        };
        self.fetch(move |service| async move {
            FetchResult::ToolServers(service.tool_servers(session.id()).await)
        });
    }

    fn quit(&mut self, left: ExitReason) {
        if self.leaving == RunningTurnPolicy::Cancel {
            for (session, _) in self.background_sessions.values() {
                // Fails if the session has already ended.
                let _ = session.send(Input::Cancel);
            }
        }
        self.left = Some(left);
    }

    fn open(&mut self, which: SessionSelector) {
        let now = self.now();
        self.app.show_flash(OPENING, now);
        self.fetch(move |service| async move { FetchResult::SessionOpened(service.open(which).await) });
    }

    fn fetch<F>(&mut self, what: impl FnOnce(Arc<dyn SessionService>) -> F)
    where
        F: Future<Output = FetchResult> + Send + 'static,
    {
        let Some(service) = self.service.clone() else {
            let now = self.now();
            return self.app.show_flash("opening", now);
        };
        let (result_sender, fetched) = (self.result_sender.clone(), what(service));
        tokio::spawn(async move {
            // Fails if the user has already exited.
            let _ = result_sender.send(fetched.await);
        });
    }

    async fn edit(&mut self, what: EditTarget, text: &str) -> io::Result<()> {
        let ending = match what {
            EditTarget::Draft => "md",
            EditTarget::Proposal => "sh",
        };
        let editor = self.programs.editor.as_deref();
        let edited =
            external_program::edit(&mut self.screen, &mut self.events, editor, &self.drafts, ending, text)
                .await?;
        self.app.reset_debounce();
        let now = self.now();
        match edited {
            external_program::EditorResult::Text(text) => {
                let actions = self.app.edited(what, Some(text), now);
                return Box::pin(self.perform_actions(actions)).await;
            }
            external_program::EditorResult::Unchanged => {}
            external_program::EditorResult::Failed(why) => self.app.show_flash(why, now),
        }
        Ok(())
    }

    async fn page(&mut self, text: &str, looks: &StyleRuns) -> io::Result<()> {
        let pager = self.programs.pager.as_deref();
        let paged = external_program::page(&mut self.screen, &mut self.events, pager, text, looks).await?;
        self.app.reset_debounce();
        if let Err(why) = paged {
            let now = self.now();
            self.app.show_flash(why, now);
        }
        Ok(())
    }

    fn read_prompt_history(&self) {
        let (Some(path), result_sender) = (self.history.clone(), self.result_sender.clone()) else { return };
        tokio::task::spawn_blocking(move || {
            // The file does not exist on the first run.
            if let Ok(prompt_history) = read_prompt_history(&path) {
                let _ = result_sender.send(FetchResult::PromptHistory(prompt_history));
            }
        });
    }

    fn into_exit(self, left: ExitReason) -> TuiExit {
        let used = self.app.transcript().turn().0 > 0;
        TuiExit {
            left,
            to_resume: self.app.session().filter(|_| used).cloned(),
            last_answer: self.app.last_answer().map(str::to_owned),
            stopped_call: self.app.stopped_call().map(str::to_owned),
        }
    }
}

/// Waits for the next update. Never completes if there is no session.
async fn next_update(updates: &mut Option<BoxStream<'static, Update>>) -> Option<Update> {
    match updates {
        Some(updates) => updates.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for a change of the pane. Never completes if the pane is not shown.
async fn pane_changed(pane: &mut Option<TerminalPane>) {
    match pane {
        Some(pane) => pane.next_change().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(began: Instant, at: Option<Duration>) {
    match at {
        Some(at) => tokio::time::sleep_until((began + at).into()).await,
        None => std::future::pending().await,
    }
}
