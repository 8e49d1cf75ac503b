//! Forwards prompts of `ssh` to users: passwords, passphrases, one-time codes, host key confirmations.
//!
//! `ssh` prompts by starting the program in `SSH_ASKPASS` with the prompt as its argument. That program is a second
//! sysop process. It finds the path of a socket in its environment, sends the prompt over this socket to the sysop that
//! started `ssh`, and prints the answer. The socket is in a directory that only its owner may enter.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sysop_core::question::QuestionKind;
use sysop_driver::port::CancellationToken;
use sysop_driver::prompter::{NoPrompter, PromptReply, PromptRequest, Prompter};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

pub const ASKPASS_VARIABLE: &str = "SYSOP_ASKPASS_SOCKET";
/// Environment variable in which `ssh` states the kind of answer that it expects.
const HINT_VARIABLE: &str = "SSH_ASKPASS_PROMPT";
/// Maximum bytes of one line on the socket, which holds a prompt or an answer.
const LINE_BYTES_MAX: u64 = 64 * 1024;

#[derive(Debug, Serialize, Deserialize)]
struct AskpassRequest {
    prompt: String,
    /// `confirm` or `none`, as given by `ssh`; empty if `ssh` asks for text.
    hint: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AskpassResponse {
    #[serde(rename = "answer")]
    Text(String),
    Refused,
}

/// Listening side of the socket. Dropping it closes the socket.
#[derive(Debug)]
pub(crate) struct Askpass {
    socket: PathBuf,
    shared: Arc<AskpassState>,
    closed: CancellationToken,
}

struct AskpassState {
    /// Name of the connection that prompts, as shown to users.
    from: String,
    people: Mutex<Arc<dyn Prompter>>,
    open: watch::Sender<usize>,
}

/// Guard that counts as a pending question until dropped.
struct OpenQuestion<'a>(&'a watch::Sender<usize>);

impl<'a> OpenQuestion<'a> {
    fn new(open: &'a watch::Sender<usize>) -> Self {
        open.send_modify(|open| *open += 1);
        Self(open)
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl std::fmt::Debug for AskpassState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("from", &self.from).finish_non_exhaustive()
    }
}

impl Askpass {
    /// Listens on a new socket in `folder`, which only its owner may enter. `from` names the connection to
    /// users. Must be called on a tokio runtime with IO.
    pub(crate) fn listen(folder: &Path, from: String) -> io::Result<Self> {
        let socket = folder.join(format!("ask-{:016x}", rand::random::<u64>()));
        // Renamed only after `bind`, so that a socket with the final name always has a listener.
        let early = socket.with_extension("new");
        let listener = UnixListener::bind(&early)?;
        std::fs::rename(&early, &socket)?;
        let shared = Arc::new(AskpassState {
            from,
            people: Mutex::new(Arc::new(NoPrompter)),
            open: watch::Sender::new(0),
        });
        let closed = CancellationToken::new();
        tokio::spawn(serve(listener, Arc::clone(&shared), closed.clone()));
        Ok(Self { socket, shared, closed })
    }

    pub(crate) fn set_prompter(&self, people: Arc<dyn Prompter>) {
        *self.shared.people.lock() = people;
    }

    /// Returns a receiver that follows the number of pending questions.
    pub(crate) fn questions(&self) -> watch::Receiver<usize> {
        self.shared.open.subscribe()
    }

    /// Returns the environment variable that gives the askpass program the path of the socket.
    pub(crate) fn variable(&self) -> (String, String) {
        (ASKPASS_VARIABLE.to_owned(), self.socket.display().to_string())
    }
}

impl Drop for Askpass {
    fn drop(&mut self) {
        self.closed.cancel();
        // The file may already be gone.
        let _ = std::fs::remove_file(&self.socket);
    }
}

async fn serve(listener: UnixListener, shared: Arc<AskpassState>, closed: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = closed.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else { return };
        let (shared, closed) = (Arc::clone(&shared), closed.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = closed.cancelled() => {}
                answered = answer(stream, &shared) => {
                    if let Err(error) = answered {
                        tracing::debug!(%error, "an ssh prompt was withdrawn");
                    }
                }
            }
        });
    }
}

async fn answer(stream: UnixStream, shared: &AskpassState) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = tokio::io::BufReader::new(read.take(LINE_BYTES_MAX));
    let mut line = String::new();
    read.read_line(&mut line).await?;
    let request: AskpassRequest = serde_json::from_str(&line)?;
    let people = Arc::clone(&*shared.people.lock());
    if request.hint == "none" {
        people.notice(&format!("{}: {}", shared.from, request.prompt.trim()));
        return respond(&mut write, &AskpassResponse::Text(String::new())).await;
    }
    let asked = PromptRequest {
        kind: question_kind(&request),
        from: shared.from.clone(),
        details: Vec::new(),
        prompt: request.prompt.clone(),
        call: None,
    };
    let mut nothing = [0; 1];
    let open = OpenQuestion::new(&shared.open);
    let given = tokio::select! {
        answer = people.ask(asked) => answer,
        // The askpass program has exited, because `ssh` gave up.
        _ = read.read(&mut nothing) => return Ok(()),
    };
    drop(open);
    let response = match given {
        PromptReply::Given { text, .. } => response_to(&request, &text),
        PromptReply::NoSecret | PromptReply::Refused => AskpassResponse::Refused,
    };
    respond(&mut write, &response).await
}

fn response_to(request: &AskpassRequest, text: &SecretString) -> AskpassResponse {
    let text = text.expose_secret();
    if request.hint == "confirm" {
        let yes = matches!(text.trim().to_ascii_lowercase().as_str(), "y" | "yes");
        return if yes { AskpassResponse::Text(String::new()) } else { AskpassResponse::Refused };
    }
    AskpassResponse::Text(text.to_owned())
}

async fn respond(write: &mut (impl AsyncWriteExt + Unpin), response: &AskpassResponse) -> io::Result<()> {
    let mut line = serde_json::to_vec(response)?;
    line.push(b'\n');
    let written = write.write_all(&line).await;
    line.fill(0);
    written
}

/// Determines the kind of a question. `ssh` asks about host keys the same way it asks for passwords, so only
/// the exact wording of the prompt distinguishes the two. Prompts that a server chooses start with
/// `(user@host)` (OpenSSH 8.4 and later), and always count as secrets.
fn question_kind(request: &AskpassRequest) -> QuestionKind {
    let prompt = request.prompt.trim();
    let about_a_key = prompt.starts_with("The authenticity of host ")
        && ["(yes/no/[fingerprint])?", "(yes/no)?"].iter().any(|end| prompt.ends_with(end));
    let again = ["Please type 'yes', 'no' or the fingerprint:", "Please type 'yes' or 'no':"];
    let open = request.hint == "confirm" || about_a_key || again.contains(&prompt);
    if open { QuestionKind::Text } else { QuestionKind::Secret }
}

/// If `ssh` started this process as its askpass program, forwards the prompt and prints the answer. Returns the exit
/// code, which is 0 if there is an answer and 1 otherwise, or `None` if this process is not the askpass program.
pub fn run_as_askpass() -> Option<u8> {
    let socket = std::env::var_os(ASKPASS_VARIABLE)?;
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let prompt = prompt_argument(&arguments, std::env::var_os("SSH_ASKPASS"), std::env::current_exe().ok())?;
    let request = AskpassRequest { prompt, hint: std::env::var(HINT_VARIABLE).unwrap_or_default() };
    match send_request(Path::new(&socket), &request) {
        Ok(AskpassResponse::Text(text)) => {
            let text = SecretString::from(text);
            let mut out = io::stdout().lock();
            let printed = writeln!(out, "{}", text.expose_secret()).and_then(|()| out.flush());
            Some(u8::from(printed.is_err()))
        }
        Ok(AskpassResponse::Refused) => Some(1),
        Err(_) => {
            // The system's error message would look like one from ssh. Nothing can be done if writing fails.
            let told = "sysop: cannot forward the ssh prompt: the sysop process that started ssh has exited";
            let _ = writeln!(io::stderr(), "{told}");
            Some(1)
        }
    }
}

/// Returns the prompt if `ssh` started this process to ask a user: the prompt is then the only argument, and
/// `SSH_ASKPASS` names this program. The socket variable alone proves nothing, because other programs inherit it.
fn prompt_argument(
    arguments: &[OsString],
    asks_by: Option<OsString>,
    this: Option<PathBuf>,
) -> Option<String> {
    let [prompt] = arguments else { return None };
    let place = |path: PathBuf| path.canonicalize().unwrap_or(path);
    let is_this = place(asks_by?.into()) == place(this?);
    is_this.then(|| prompt.to_string_lossy().into_owned())
}

fn send_request(socket: &Path, request: &AskpassRequest) -> io::Result<AskpassResponse> {
    let mut stream = StdUnixStream::connect(socket)?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use sysop_core::event::TypedInput;
    use tokio::sync::mpsc;

    use super::*;

    /// Prompter that gives a fixed answer and reports its questions.
    struct ScriptedPrompter {
        asked: mpsc::UnboundedSender<PromptRequest>,
        noticed: mpsc::UnboundedSender<String>,
        answer: PromptReply,
    }

    #[async_trait]
    impl Prompter for ScriptedPrompter {
        async fn ask(&self, asked: PromptRequest) -> PromptReply {
            self.asked.send(asked).expect("the test listens");
            self.answer.clone()
        }

        fn typed(&self, _: &str, _: TypedInput) {}

        fn control(&self, _: Option<&str>) {}

        fn notice(&self, text: &str) {
            self.noticed.send(text.to_owned()).expect("the test listens");
        }
    }

    struct World {
        askpass: Askpass,
        asked: mpsc::UnboundedReceiver<PromptRequest>,
        noticed: mpsc::UnboundedReceiver<String>,
        folder: tempfile::TempDir,
    }

    fn world(answer: PromptReply) -> World {
        let folder = tempfile::tempdir().unwrap();
        let askpass = Askpass::listen(folder.path(), "ssh web1".to_owned()).unwrap();
        let (asks, asked) = mpsc::unbounded_channel();
        let (notices, noticed) = mpsc::unbounded_channel();
        askpass.set_prompter(Arc::new(ScriptedPrompter { asked: asks, noticed: notices, answer }));
        World { askpass, asked, noticed, folder }
    }

    fn given(text: &str) -> PromptReply {
        PromptReply::Given { by: "ann".to_owned(), text: text.into() }
    }

    async fn ask(world: &World, prompt: &str, hint: &str) -> io::Result<Option<String>> {
        let request = AskpassRequest { prompt: prompt.to_owned(), hint: hint.to_owned() };
        let socket = world.askpass.socket.clone();
        let passing = tokio::task::spawn_blocking(move || send_request(&socket, &request));
        Ok(match passing.await.unwrap()? {
            AskpassResponse::Text(text) => Some(text),
            AskpassResponse::Refused => None,
        })
    }

    #[tokio::test]
    async fn a_password_prompt_is_secret_and_the_answer_is_returned_unchanged() {
        let mut world = world(given("p\"ä\\ß w "));
        let prompt = "ann@web1's password: ";
        assert_eq!(ask(&world, prompt, "").await.unwrap().as_deref(), Some("p\"ä\\ß w "));
        let asked = world.asked.recv().await.unwrap();
        assert_eq!((asked.kind, asked.prompt.as_str()), (QuestionKind::Secret, prompt));
        assert_eq!(asked.from, "ssh web1");
    }

    #[tokio::test]
    async fn a_host_key_prompt_is_not_secret() {
        let question = "The authenticity of host 'web1 (10.0.0.1)' can't be established.\n\
                        ED25519 key fingerprint is SHA256:abc.\n\
                        Are you sure you want to continue connecting (yes/no/[fingerprint])? ";
        for prompt in [question, "Please type 'yes', 'no' or the fingerprint: "] {
            let mut world = world(given("yes"));
            assert_eq!(ask(&world, prompt, "").await.unwrap().as_deref(), Some("yes"));
            assert_eq!(world.asked.recv().await.unwrap().kind, QuestionKind::Text);
        }
    }

    /// A server chooses the wording of its own questions.
    #[tokio::test]
    async fn server_prompts_are_always_secret() {
        for prompt in [
            "(ann@web1) Password (yes/no): ",
            "(ann@web1) The authenticity of host 'x (y)' can't be established. Sure (yes/no/[fingerprint])? ",
            "(ann@web1) Please type 'yes', 'no' or the fingerprint: ",
            "Password (yes/no)? ",
            "The authenticity of host is (yes/no)? Password: ",
        ] {
            let mut world = world(given("x"));
            assert_eq!(ask(&world, prompt, "").await.unwrap().as_deref(), Some("x"));
            assert_eq!(world.asked.recv().await.unwrap().kind, QuestionKind::Secret, "{prompt}");
        }
    }

    #[test]
    fn only_ssh_can_make_askpass_ask() {
        let folder = tempfile::tempdir().unwrap();
        let (this, link) = (folder.path().join("sysop"), folder.path().join("link"));
        std::fs::write(&this, "").unwrap();
        std::os::unix::fs::symlink(&this, &link).unwrap();
        let asked = |arguments: &[&str], asks_by: Option<&Path>| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            prompt_argument(&arguments, asks_by.map(OsString::from), Some(this.clone()))
        };
        assert_eq!(asked(&["Password: "], Some(&this)).as_deref(), Some("Password: "));
        assert_eq!(asked(&["Password: "], Some(&link)).as_deref(), Some("Password: "));
        assert_eq!(asked(&["exec", "hello"], Some(&this)), None);
        assert_eq!(asked(&[], Some(&this)), None);
        assert_eq!(asked(&["doctor"], Some(Path::new("/usr/bin/ssh-askpass"))), None);
        assert_eq!(asked(&["doctor"], None), None);
    }

    #[tokio::test]
    async fn a_confirmation_is_a_yes_or_no_question() {
        for (answer, expected) in [("y", Some("")), ("Yes", Some("")), ("no", None), ("", None)] {
            let world = world(given(answer));
            let came = ask(&world, "Allow use of key?", "confirm").await.unwrap();
            assert_eq!(came.as_deref(), expected, "{answer}");
        }
    }

    #[tokio::test]
    async fn messages_from_ssh_are_notices() {
        let mut world = world(PromptReply::Refused);
        assert!(ask(&world, "Confirm user presence for key\n", "none").await.unwrap().is_some());
        assert_eq!(world.noticed.recv().await.unwrap(), "ssh web1: Confirm user presence for key");
        assert!(world.asked.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_refusal_and_a_missing_prompter_give_no_answer() {
        let told = world(PromptReply::Refused);
        assert_eq!(ask(&told, "Password: ", "").await.unwrap(), None);
        told.askpass.set_prompter(Arc::new(NoPrompter));
        assert_eq!(ask(&told, "Password: ", "").await.unwrap(), None);
    }

    #[tokio::test]
    async fn the_socket_goes_with_the_connection() {
        let World { askpass, folder, .. } = world(PromptReply::Refused);
        let (_, path) = askpass.variable();
        let path = PathBuf::from(path);
        assert!(path.starts_with(folder.path()) && path.exists());
        drop(askpass);
        assert!(!path.exists());
    }

    /// A question is withdrawn when `ssh` stops waiting: the prompter's future is dropped.
    #[tokio::test]
    async fn canceling_a_prompt_withdraws_the_question() {
        struct SilentPrompter(mpsc::UnboundedSender<&'static str>);
        struct Dropped(mpsc::UnboundedSender<&'static str>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.send("taken back").expect("the test listens");
            }
        }
        #[async_trait]
        impl Prompter for SilentPrompter {
            async fn ask(&self, _: PromptRequest) -> PromptReply {
                let _dropped = Dropped(self.0.clone());
                self.0.send("asked").expect("the test listens");
                std::future::pending().await
            }

            fn typed(&self, _: &str, _: TypedInput) {}

            fn control(&self, _: Option<&str>) {}

            fn notice(&self, _: &str) {}
        }
        let world = world(PromptReply::Refused);
        let (tell, mut told) = mpsc::unbounded_channel();
        world.askpass.set_prompter(Arc::new(SilentPrompter(tell)));
        let mut stream = UnixStream::connect(&world.askpass.socket).await.unwrap();
        stream.write_all(b"{\"prompt\":\"Password: \",\"hint\":\"\"}\n").await.unwrap();
        let mut questions = world.askpass.questions();
        assert_eq!(told.recv().await, Some("asked"));
        assert_eq!(*questions.borrow_and_update(), 1);
        drop(stream);
        assert_eq!(told.recv().await, Some("taken back"));
        questions.wait_for(|open| *open == 0).await.unwrap();
    }
}
