//! `sysop sessions list|show|export|report|delete`, and the resolution of `--resume`.
//!
//! Reads logs and writes text; it never runs or changes a session. Text for users is neutralized, because titles,
//! prompts and outputs come from models, files and commands.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_core::session::Session;
use sysop_core::transcript::Participants;
use sysop_driver::port::{SessionSummary, Store, StoreError};
use sysop_wire::to_json_line;

use self::table::write_table;
use self::transcript::{TranscriptFormat, TranscriptWriter};

mod record;
mod report;
mod table;
#[cfg(test)]
mod tests;
mod transcript;

pub(crate) use record::{RecordedCall, SessionRecord, read_record};
pub(crate) use report::ReportFormat;

pub(crate) const SESSIONS_MAX: usize = 100_000;
/// Number of sessions in a list without `--limit` and `--all`.
const RECENT_SESSIONS: usize = 20;
/// Maximum number of sessions that are searched for something to undo.
const UNDO_SESSIONS_MAX: usize = 20;
const PAGE_EVENTS: usize = 1000;
/// Maximum number of ids to list in the error for an ambiguous id.
const CANDIDATES_MAX: usize = 5;

#[derive(Debug, Clone)]
pub(crate) struct DisplayOptions {
    /// Current time, to compute ages.
    pub(crate) now: Timestamp,
    pub(crate) zone: jiff::tz::TimeZone,
    /// Width of the terminal in columns. If it is `None`, no text is truncated.
    pub(crate) width: Option<usize>,
}

/// Export format of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    /// One event per line, as JSON.
    #[default]
    Jsonl,
    /// A human-readable Markdown document.
    #[value(alias = "md")]
    Markdown,
}

/// Error from a command about sessions. `Display` is one sentence that says what to do next.
#[derive(Debug)]
pub(crate) enum SessionsError {
    /// No id begins with this text.
    Unknown(String),
    /// Several ids begin with this text.
    Ambiguous { text: String, candidates: Vec<SessionId> },
    /// There are no sessions.
    NoneYet,
    /// There are sessions, but not on this host.
    NoneOn(String),
    /// None of the most recent sessions of a directory, of which there are this many, has something to undo.
    NothingToUndo(usize),
    /// The store failed.
    Store(StoreError),
    /// Writing the output failed.
    Io(io::Error),
}

impl SessionsError {
    /// Exit code of the process: 2 if the user specified a session that does not exist.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Unknown(_) | Self::Ambiguous { .. } | Self::NoneYet | Self::NoneOn(_) => 2,
            Self::NothingToUndo(_) | Self::Store(_) | Self::Io(_) => 1,
        }
    }
}

impl fmt::Display for SessionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(text) => write!(
                f,
                "no session with id `{}`; run `sysop sessions list` to see the sessions",
                table::one_line(text)
            ),
            Self::Ambiguous { text, candidates } => {
                let shown: Vec<_> = candidates.iter().take(CANDIDATES_MAX).map(SessionId::as_str).collect();
                let more = if candidates.len() > CANDIDATES_MAX { ", …" } else { "" };
                write!(
                    f,
                    "{} sessions match `{}` ({}{more}); use a longer id prefix",
                    candidates.len(),
                    table::one_line(text),
                    shown.join(", ")
                )
            }
            Self::NoneYet => write!(f, "there is no session yet; start one with `sysop`"),
            Self::NoneOn(host) => write!(
                f,
                "no session on {}; run `sysop sessions list` to see the others, and choose one with `--resume ID`",
                table::one_line(host)
            ),
            Self::NothingToUndo(sessions) => write!(
                f,
                "no change to undo in the last {sessions} sessions of this directory; run `sysop sessions list` to \
                 see all, and name one with `sysop undo SESSION`"
            ),
            Self::Store(error) => error.fmt(f),
            Self::Io(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}

impl std::error::Error for SessionsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Unknown(_)
            | Self::Ambiguous { .. }
            | Self::NoneYet
            | Self::NoneOn(_)
            | Self::NothingToUndo(_)
            | Self::Store(_) => None,
        }
    }
}

impl From<StoreError> for SessionsError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for SessionsError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Returns the id that equals `text`, or the only id that begins with it.
pub(crate) async fn resolve_id(store: &dyn Store, text: &str) -> Result<SessionId, SessionsError> {
    resolve(store, text).await.map(|summary| summary.id)
}

/// Returns the most recently changed session, for commands without an id.
pub(crate) async fn most_recent(store: &dyn Store) -> Result<SessionId, SessionsError> {
    store.list(1).await?.pop().map(|summary| summary.id).ok_or(SessionsError::NoneYet)
}

/// Returns the most recently changed session on these hosts in this directory, or else in any directory. For this
/// machine, which nobody need have named, it may also be one on another host; callers then name it before anything runs
/// there.
pub(crate) async fn most_recent_in(
    store: &dyn Store,
    host: &str,
    root: &str,
) -> Result<SessionId, SessionsError> {
    let all = store.list(SESSIONS_MAX).await?;
    if all.is_empty() {
        return Err(SessionsError::NoneYet);
    }
    let newest_of_all = all.first().filter(|_| host == "local").map(|summary| summary.id.clone());
    let mut of_host = all.into_iter().filter(|summary| summary.host == host).peekable();
    let newest = of_host.peek().map(|summary| summary.id.clone());
    let here = of_host.find(|summary| summary.root == root).map(|summary| summary.id);
    here.or(newest).or(newest_of_all).ok_or_else(|| SessionsError::NoneOn(host.to_owned()))
}

/// Returns the most recently changed session on these hosts in this directory that has something to undo. If the
/// directory has at most one session, that is not asked: returns what [`most_recent_in`] returns.
pub(crate) async fn most_recent_with_undo(
    store: &dyn Store,
    host: &str,
    root: &str,
) -> Result<SessionId, SessionsError> {
    let all = store.list(SESSIONS_MAX).await?;
    let here = all.into_iter().filter(|summary| summary.host == host && summary.root == root);
    let here: Vec<SessionId> = here.map(|summary| summary.id).take(UNDO_SESSIONS_MAX).collect();
    if here.len() < 2 {
        return most_recent_in(store, host, root).await;
    }
    for id in &here {
        if has_undo(store, id).await? {
            return Ok(id.clone());
        }
    }
    Err(SessionsError::NothingToUndo(here.len()))
}

async fn has_undo(store: &dyn Store, id: &SessionId) -> Result<bool, SessionsError> {
    let mut session: Option<Session> = None;
    each_event(store, id, |logged| {
        let event = logged.event.clone();
        match &mut session {
            Some(session) => session.replay_on([event]),
            // A log that cannot be replayed has no undo.
            None => session = Session::replay([event]).ok(),
        }
        Ok(())
    })
    .await?;
    Ok(session.is_some_and(|session| session.has_undo()))
}

/// Returns a session's title on one line, as the list of sessions shows it.
pub(crate) async fn title_of(store: &dyn Store, id: &SessionId) -> Result<String, SessionsError> {
    resolve(store, id.as_str()).await.map(|summary| table::title(&summary))
}

/// Number of sessions that a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListRows {
    /// The most recent ones, and a note if there are more.
    Recent,
    /// At most this many.
    AtMost(usize),
    All,
}

impl ListRows {
    pub(crate) fn of_flags(limit: Option<u32>, all: bool) -> Self {
        match limit {
            Some(limit) => Self::AtMost(limit as usize),
            None if all => Self::All,
            None => Self::Recent,
        }
    }
}

/// Writes a table of sessions, most recently changed first; if `hosts` is set, of those on any of these hosts. If
/// `Recent` omits sessions, a note about them goes to `notes`.
pub(crate) async fn list(
    store: &dyn Store,
    rows: ListRows,
    hosts: Option<&str>,
    view: &DisplayOptions,
    out: &mut impl Write,
    notes: &mut impl Write,
) -> Result<(), SessionsError> {
    // The ids are shortened as far as they are unique among all sessions, not only among the rows.
    let summaries = store.list(SESSIONS_MAX).await?;
    if summaries.is_empty() {
        writeln!(out, "No sessions yet. Start one with `sysop`.")?;
        return Ok(());
    }
    let id_chars = table::unique_chars(&summaries);
    let summaries: Vec<_> =
        summaries.into_iter().filter(|it| hosts.is_none_or(|hosts| runs_on(&it.host, hosts))).collect();
    if summaries.is_empty() {
        writeln!(out, "No sessions on {}.", table::one_line(hosts.unwrap_or_default()))?;
        return Ok(());
    }
    let limit = match rows {
        ListRows::Recent => RECENT_SESSIONS,
        ListRows::AtMost(limit) => limit,
        ListRows::All => summaries.len(),
    };
    write_table(&summaries[..limit.min(summaries.len())], id_chars, view, out)?;
    if rows == ListRows::Recent && summaries.len() > limit {
        out.flush()?;
        writeln!(notes, "{limit} of {} sessions; --all shows the rest", summaries.len())?;
    }
    Ok(())
}

/// Returns true if a session on the hosts `of` runs on any of `hosts`. Names are separated by commas.
fn runs_on(of: &str, hosts: &str) -> bool {
    let names = |text: &str| text.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
    let wanted = names(hosts);
    names(of).iter().any(|name| wanted.contains(name))
}

pub(crate) async fn show(
    store: &dyn Store,
    text: &str,
    view: &DisplayOptions,
    out: &mut impl Write,
) -> Result<(), SessionsError> {
    let summary = resolve(store, text).await?;
    write_transcript(store, &summary, TranscriptFormat::Plain, view, out).await
}

pub(crate) async fn export(
    store: &dyn Store,
    text: &str,
    format: ExportFormat,
    view: &DisplayOptions,
    out: &mut impl Write,
) -> Result<(), SessionsError> {
    let summary = resolve(store, text).await?;
    match format {
        ExportFormat::Jsonl => {
            each_event(store, &summary.id, |logged| writeln!(out, "{}", to_json_line(logged))).await
        }
        ExportFormat::Markdown => {
            write_transcript(store, &summary, TranscriptFormat::Markdown, view, out).await
        }
    }
}

/// Writes a session's report. `artifacts` is the directory with terminal recordings.
pub(crate) async fn write_report(
    store: &dyn Store,
    text: &str,
    format: ReportFormat,
    artifacts: &Path,
    view: &DisplayOptions,
    out: &mut impl Write,
) -> Result<(), SessionsError> {
    let summary = resolve(store, text).await?;
    let record = read_record(store, &summary.id).await?;
    Ok(out.write_all(report::report(&summary.id, &record, artifacts, &view.zone, format).as_bytes())?)
}

/// Calls `forget` to delete a session, and prints its id.
pub(crate) async fn delete(
    store: &dyn Store,
    text: &str,
    forget: impl AsyncFnOnce(&SessionId) -> Result<(), StoreError>,
    out: &mut impl Write,
) -> Result<(), SessionsError> {
    let summary = resolve(store, text).await?;
    forget(&summary.id).await?;
    writeln!(out, "Deleted session {} ({}).", table::one_line(summary.id.as_str()), table::title(&summary))?;
    Ok(())
}

async fn resolve(store: &dyn Store, text: &str) -> Result<SessionSummary, SessionsError> {
    let unknown = || SessionsError::Unknown(text.to_owned());
    if text.is_empty() {
        return Err(unknown());
    }
    let mut found = store.list(SESSIONS_MAX).await?;
    found.retain(|summary| summary.id.as_str().starts_with(text));
    if let Some(exact) = found.iter().position(|summary| summary.id.as_str() == text) {
        return Ok(found.swap_remove(exact));
    }
    match found.len() {
        0 => Err(unknown()),
        1 => Ok(found.swap_remove(0)),
        _ => {
            let candidates = found.into_iter().map(|summary| summary.id).collect();
            Err(SessionsError::Ambiguous { text: text.to_owned(), candidates })
        }
    }
}

async fn write_transcript(
    store: &dyn Store,
    summary: &SessionSummary,
    form: TranscriptFormat,
    view: &DisplayOptions,
    out: &mut impl Write,
) -> Result<(), SessionsError> {
    // The first prompt needs its sender's name even if a second person appears only at the end.
    let mut participants = Participants::default();
    each_event(store, &summary.id, |logged| {
        participants.apply(&logged.event);
        Ok(())
    })
    .await?;
    let mut transcript = TranscriptWriter::new(form, participants);
    transcript.write_head(summary, view, out)?;
    each_event(store, &summary.id, |logged| transcript.write_event(&logged.event, out)).await?;
    Ok(transcript.write_end(out)?)
}

async fn each_event(
    store: &dyn Store,
    id: &SessionId,
    mut take: impl FnMut(&Logged) -> io::Result<()>,
) -> Result<(), SessionsError> {
    let mut after = Seq(0);
    loop {
        let page = store.load(id, after, PAGE_EVENTS).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        for logged in &page {
            take(logged)?;
        }
    }
}
