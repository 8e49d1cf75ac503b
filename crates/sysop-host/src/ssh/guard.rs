//! Guards on a remote host: the script on the target (`guard/guard.sh`), and the fresh logins that prove that users can
//! still log in.
//!
//! A guard is armed before a change that may lock people out, and rolls the change back unless it is confirmed in time.
//! The confirmation travels over a connection of its own that was opened after the change, because an open connection
//! keeps working when fresh logins do not. This module speaks to the target; `guarded_call` decides.

use std::time::Duration;

use sysop_core::guard::GuardPlan;

use super::connection::{ConnectionInner, SCRIPT_MAX, SshConnection};
use super::error::{SshError, one_line};
use super::running_script::{RunError, RunningScript, START, ScriptOutput, collect, nonce, run_script};
use super::script::{RemoteScript, ScriptInput};
use super::session::SshSession;

/// The script, which is sent with each use and kept on the target while a guard is armed.
const SCRIPT: &str = include_str!("guard/guard.sh");
/// Runs `SCRIPT` from standard input with the arguments after the first. The first is `root`, `own`, or `auto` for root
/// if that needs no password.
const START_SCRIPT: &str = r#"a=$1; shift; t='S=$(cat); eval "$S"'
if [ "$a" = own ] || [ "$(id -u)" = 0 ]; then exec sh -c "$t" sysop-guard "$@"; fi
if [ "$a" = auto ] && ! sudo -n sh -c true >/dev/null 2>&1; then exec sh -c "$t" sysop-guard "$@"; fi
exec sudo -n sh -c "$t" sysop-guard "$@""#;
/// Reports a login: the exit code of `sudo -n true`, or `-` for root and without sudo. Fails if that differs from `$1`,
/// unless `$1` is empty.
const LOGIN: &str = r#"b=$1; shift; s=-
if [ "$(id -u)" != 0 ] && command -v sudo >/dev/null 2>&1; then sudo -n true >/dev/null 2>&1; s=$?; fi
echo "L $s"; [ -z "$b" ] || [ "$b" = "$s" ] || exit 9"#;
/// Asks the timer of guard `$1` to roll back. Works without sudo.
const ASK_TIMER: &str = r#": >"$1/user/fire""#;
/// Prints the state of guard `$2` in the directory `$1` and the exit code of its change. Works without sudo.
const STATE: &str = r#"s=none; for w in armed confirmed firing fired failed; do [ -f "$1/$w" ] && { s=$w; break; }; done
e=-; [ -s "$1/user/exit" ] && e=$(cat "$1/user/exit"); echo "G $2 $s $e""#;
const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Timeout of ssh for the host's response during a fresh login.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Exit code of `LOGIN` if `sudo` behaves differently than before the change.
const SUDO_CHANGED: i32 = 9;

/// Privileges with which the script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rights {
    Root,
    /// Privileges of the login user.
    Own,
    /// Root if possible.
    Auto,
}

impl Rights {
    fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Own => "own",
            Self::Auto => "auto",
        }
    }
}

/// Line of the script's output: `G ID WORD REST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GuardLine {
    pub(super) id: String,
    pub(super) word: String,
    pub(super) rest: String,
}

/// Guard features that a host supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GuardSupport {
    pub(super) is_root: bool,
    /// A timer is known to outlive the connection.
    pub(super) has_timer: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardStatus {
    pub id: String,
    /// `armed`, `confirmed`, `firing`, `fired`, `failed` or `none`.
    pub state: String,
    /// Details as `KEY=VALUE`, separated by spaces: seconds left, the timer, and whether the host restarted.
    pub details: String,
}

impl From<GuardLine> for GuardStatus {
    fn from(line: GuardLine) -> Self {
        Self { id: line.id, state: line.word, details: line.rest }
    }
}

/// Manual query or decision about a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardVerb {
    Status,
    Confirm,
    Fire,
}

impl SshConnection {
    /// Lists the guards on the host, oldest first by name.
    pub async fn guards(&self) -> Result<Vec<GuardStatus>, SshError> {
        let ran = run(&self.0, Rights::Auto, &["list"], SCRIPT_MAX).await?;
        Ok(lines(&ran).into_iter().map(GuardStatus::from).collect())
    }

    /// Queries a guard, confirms it, or fires it. Returns `None` if the host does not know the guard. A
    /// decision that comes too late returns the guard's current state.
    pub async fn guard(&self, verb: GuardVerb, id: &str) -> Result<Option<GuardStatus>, SshError> {
        let word = match verb {
            GuardVerb::Status => "status",
            GuardVerb::Confirm => "confirm",
            GuardVerb::Fire => "fire",
        };
        let mut ran = run(&self.0, Rights::Auto, &[word, id], SCRIPT_MAX).await?;
        if lines(&ran).iter().all(|line| line.word == "none") {
            // An unprivileged guard belongs to the login user.
            ran = run(&self.0, Rights::Own, &[word, id], SCRIPT_MAX).await?;
        }
        Ok(lines(&ran).into_iter().find(|line| line.word != "none").map(GuardStatus::from))
    }
}

/// Runs the script with a verb and its arguments over the open connection.
pub(super) async fn run(
    inner: &ConnectionInner,
    rights: Rights,
    arguments: &[&str],
    limit: Duration,
) -> Result<ScriptOutput, RunError> {
    run_script(inner, script(rights, arguments), OUTPUT_BYTES_MAX, limit).await
}

fn script(rights: Rights, arguments: &[&str]) -> RemoteScript {
    let words: Vec<&str> = [rights.as_str()].into_iter().chain(arguments.iter().copied()).collect();
    let input = Some(ScriptInput::Bytes(SCRIPT.as_bytes().to_vec()));
    RemoteScript { input, ..RemoteScript::new(START_SCRIPT, &words) }
}

pub(super) fn lines(ran: &ScriptOutput) -> Vec<GuardLine> {
    let text = String::from_utf8_lossy(&ran.output);
    let parse = |line: &str| {
        let mut words = line.strip_prefix("G ")?.splitn(3, ' ');
        let (id, word) = (words.next()?.to_owned(), words.next()?.to_owned());
        let rest = one_line(words.next().unwrap_or_default());
        Some(GuardLine { id: one_line(&id), word: one_line(&word), rest })
    };
    text.lines().filter_map(parse).collect()
}

/// Returns the line of the guard `id`.
pub(super) fn line_of(ran: &ScriptOutput, id: &str) -> Option<GuardLine> {
    lines(ran).into_iter().find(|line| line.id == id)
}

/// Asks the host which guard features it supports.
pub(super) async fn probe(inner: &ConnectionInner) -> Result<GuardSupport, RunError> {
    let ran = run(inner, Rights::Auto, &["probe"], SCRIPT_MAX).await?;
    let told = line_of(&ran, "-").map(|line| line.rest).unwrap_or_default();
    let has = |word: &str| told.split(' ').any(|told| told == word);
    Ok(GuardSupport { is_root: has("uid=0"), has_timer: has("timer=systemd") || has("timer=setsid") })
}

#[derive(Debug, Clone)]
pub(super) struct ArmedOnHost {
    pub(super) id: String,
    pub(super) folder: String,
    pub(super) rights: Rights,
}

/// Arms a guard. Only the exact answer counts. The error says why the guard is not armed, as a clause.
pub(super) async fn arm(
    inner: &ConnectionInner,
    plan: &GuardPlan,
    seconds: u32,
    uid: u32,
    rights: Rights,
) -> Result<ArmedOnHost, String> {
    let id = nonce();
    let (seconds, uid, checks) = (seconds.to_string(), uid.to_string(), plan.checks.join("\n"));
    let mut words = vec!["arm", &id, &seconds, &uid, &plan.capture, &plan.hook, &checks];
    words.extend(plan.paths.iter().map(String::as_str));
    let ran = run(inner, rights, &words, SCRIPT_MAX).await.map_err(|failed| {
        let maybe = if failed.may_have_run {
            "; even if the guard was armed, its rollback has nothing to undo, because the command did not run"
        } else {
            ""
        };
        format!("{}{maybe}", failed.error)
    })?;
    match line_of(&ran, &id) {
        Some(GuardLine { word, rest, .. }) if word == "armed" && ran.status == 0 => {
            let folder = rest.splitn(4, ' ').nth(3).unwrap_or_default().to_owned();
            if !folder.starts_with('/') {
                return Err("the host did not report the guard's directory".to_owned());
            }
            Ok(ArmedOnHost { id, folder, rights })
        }
        Some(GuardLine { word, rest, .. }) if word == "busy" => Err(format!(
            "guard {rest} is still armed on this host; settle it with `sysop guard status|confirm|fire {}`",
            inner.name()
        )),
        Some(GuardLine { rest, .. }) => Err(rest),
        None => {
            let said = one_line(&ran.errors);
            Err(if said.is_empty() { format!("the script ended with {}", ran.status) } else { said })
        }
    }
}

/// Result of a fresh login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FreshLogin {
    /// Exit code of `sudo -n true`, or `-`.
    pub(super) sudo: String,
    /// Answer to the confirmation, if one was sent.
    pub(super) confirmed: Option<GuardLine>,
    /// True if the login may have prompted users.
    asks: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LoginFailure {
    Ssh(SshError),
    /// The login worked, but `sudo` does not behave as before.
    Sudo,
}

impl std::fmt::Display for LoginFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ssh(error) => write!(f, "{error}"),
            Self::Sudo => f.write_str("sudo no longer works as before"),
        }
    }
}

/// Logs in over a new connection. Fails if the login behaves differently from `before`: `sudo -n` must give the same
/// result, and a login that prompted no user before must not prompt one now. If `confirm` is set, confirms that guard
/// in the same session, so that the confirmation itself proves that a fresh login works.
pub(super) async fn fresh_login(
    inner: &ConnectionInner,
    before: Option<&FreshLogin>,
    confirm: Option<&ArmedOnHost>,
    limit: Duration,
) -> Result<FreshLogin, LoginFailure> {
    match before {
        Some(before) => fresh_login_with(inner, Some(before), confirm, limit, before.asks).await,
        None => match fresh_login_with(inner, None, confirm, limit, false).await {
            Err(LoginFailure::Ssh(SshError::Auth(_))) => {
                fresh_login_with(inner, None, confirm, limit, true).await
            }
            login => login,
        },
    }
}

async fn fresh_login_with(
    inner: &ConnectionInner,
    before: Option<&FreshLogin>,
    confirm: Option<&ArmedOnHost>,
    limit: Duration,
    asks: bool,
) -> Result<FreshLogin, LoginFailure> {
    let expected = before.map_or("", |login| login.sudo.as_str());
    let (text, words, input) = match confirm {
        None => (LOGIN.to_owned(), vec![expected], None),
        Some(guard) => (
            format!("{LOGIN}\n{START_SCRIPT}"),
            vec![expected, guard.rights.as_str(), "confirm", guard.id.as_str()],
            Some(ScriptInput::Bytes(SCRIPT.as_bytes().to_vec())),
        ),
    };
    let script = RemoteScript { input, ..RemoteScript::new(&text, &words) };
    let ran = fresh(inner, script, limit, asks).await.map_err(|failed| LoginFailure::Ssh(failed.error))?;
    let said = String::from_utf8_lossy(&ran.output);
    let sudo = said.lines().find_map(|line| line.strip_prefix("L ")).map(str::to_owned);
    match sudo {
        Some(_) if ran.status == SUDO_CHANGED => Err(LoginFailure::Sudo),
        Some(sudo) => {
            Ok(FreshLogin { sudo, confirmed: confirm.and_then(|guard| line_of(&ran, &guard.id)), asks })
        }
        None => Err(LoginFailure::Ssh(SshError::NoShell {
            destination: inner.name().to_owned(),
            said: one_line(&ran.errors),
        })),
    }
}

async fn fresh(
    inner: &ConnectionInner,
    script: RemoteScript,
    limit: Duration,
    may_ask: bool,
) -> Result<ScriptOutput, RunError> {
    let nonce = nonce();
    let text = format!("{START}\n(\nunset n\n{}\n)\ne=$?\n{}", script.text, super::running_script::END);
    let script = RemoteScript { text, ..script };
    let session = SshSession::open_fresh(inner, script.encode(&nonce), CONNECT_MAX, may_ask).await;
    let mut running = RunningScript::of(session.map_err(RunError::not_run)?, &nonce);
    collect(inner, &mut running, OUTPUT_BYTES_MAX, limit).await
}

/// Returns the change's state and exit code, over the open connection or, if that is broken, a fresh one.
pub(super) async fn state(
    inner: &ConnectionInner,
    guard: &ArmedOnHost,
    limit: Duration,
) -> Option<GuardLine> {
    let script = || RemoteScript::new(STATE, &[&guard.folder, &guard.id]);
    let ran = match run_script(inner, script(), OUTPUT_BYTES_MAX, limit).await {
        Ok(ran) => ran,
        Err(_) => fresh(inner, script(), limit, true).await.ok()?,
    };
    line_of(&ran, &guard.id)
}

/// Orders the rollback. Returns the script's answer. If the script did not run, as without sudo, asks the
/// timer and returns `None`.
pub(super) async fn fire(
    inner: &ConnectionInner,
    guard: &ArmedOnHost,
    why: &str,
    limit: Duration,
) -> Option<GuardLine> {
    let words = ["fire", guard.id.as_str(), why];
    let ran = match run(inner, guard.rights, &words, limit).await {
        Ok(ran) => Some(ran),
        Err(_) => fresh(inner, script(guard.rights, &words), limit, true).await.ok(),
    };
    let answer = ran.as_ref().and_then(|ran| line_of(ran, &guard.id));
    if answer.is_none() {
        let script = RemoteScript::new(ASK_TIMER, &[&guard.folder]);
        // The state tells whether this had an effect.
        let _ = run_script(inner, script, OUTPUT_BYTES_MAX, limit).await;
    }
    answer
}

/// Runs the plan's checks. Returns the messages of the checks that passed before the change and fail now, or `None` if
/// there are no such checks or the checks could not run.
pub(super) async fn check(inner: &ConnectionInner, guard: &ArmedOnHost, limit: Duration) -> Option<String> {
    let ran = run(inner, guard.rights, &["check", &guard.id], limit).await.ok()?;
    line_of(&ran, &guard.id).filter(|line| line.word == "bad").map(|line| line.rest)
}
