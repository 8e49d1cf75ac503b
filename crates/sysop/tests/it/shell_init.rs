//! Alt+S in real shells, each at a terminal.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use rustix::process::Signal;

use crate::World;
use crate::person::{Person, at_a_terminal};
use crate::support::{DEADLINE, Mock, RawServer, hang, say};

/// Alt+S, as terminals send it.
const ALT_S: &str = "\u{1b}s";
/// Prompt of the shells in these tests.
const PROMPT: &str = "PS> ";
/// Arguments for `sh` that start the program after them with SIGINT ignored, as in a background job of a script.
const IGNORING_SIGINT: [&str; 3] = ["-c", "trap '' INT; exec \"$@\"", "sh"];

/// A shell with its arguments and its start file, in which `{prompt}` stands for [`PROMPT`].
struct Shell {
    name: &'static str,
    arguments: &'static [&'static str],
    file: &'static str,
    start: &'static str,
}

const SHELLS: [Shell; 3] = [
    Shell {
        name: "bash",
        arguments: &["--noprofile", "--rcfile", "../rc.bash", "-i"],
        file: "rc.bash",
        start: r#"
            set -u
            PS1='{prompt}'
            bind 'set enable-bracketed-paste off'
            eval "$(sysop shell-init bash)"
        "#,
    },
    Shell {
        name: "zsh",
        arguments: &["-d", "-i"],
        file: ".zshrc",
        start: r#"
            PS1='{prompt}'
            unset zle_bracketed_paste
            eval "$(sysop shell-init zsh)"
        "#,
    },
    Shell {
        name: "fish",
        arguments: &["--no-config", "--interactive", "--init-command", "source ../rc.fish"],
        file: "rc.fish",
        start: "function fish_prompt; printf '{prompt}'; end\nfunction fish_greeting; end\nsysop shell-init fish | source\n",
    },
];

impl Shell {
    /// Returns a world for this shell with a model at this address.
    fn world(&self, model: &str) -> World {
        let binary = Path::new(env!("CARGO_BIN_EXE_sysop")).parent().unwrap().display().to_string();
        let path = std::env::var("PATH").unwrap();
        World::with_openai(model)
            .file(self.file, &self.start.replace("{prompt}", PROMPT))
            .variable("PATH", &format!("{binary}:{path}"))
            .variable("LC_ALL", "C.UTF-8")
    }

    /// Starts the shell with the default action for SIGINT, also if the test process ignores the signal.
    async fn starts(&self, world: &World) -> Person {
        let arguments = [&["--default-signal=INT", self.name], self.arguments].concat();
        prompted(Person::starts(world, "env", &arguments)).await
    }

    async fn starts_ignoring_sigint(&self, world: &World) -> Person {
        let arguments = [&IGNORING_SIGINT, [self.name].as_slice(), self.arguments].concat();
        prompted(Person::starts(world, "sh", &arguments)).await
    }
}

/// Waits until the person sees the shell's prompt.
async fn prompted(mut person: Person) -> Person {
    person.sees(PROMPT.trim_end()).await;
    person
}

/// Runs a test in each shell, with a model that answers a line with `trigger`.
fn in_each_shell<T: Future<Output = ()>>(
    trigger: &str,
    answer: &str,
    test: impl Fn(&'static str, World, Person) -> T,
) {
    for shell in &SHELLS {
        let mock = Mock::start(&[(trigger, vec![say(answer)])]);
        let world = shell.world(&mock.url());
        at_a_terminal(async {
            let person = shell.starts(&world).await;
            test(shell.name, world, person).await;
        });
        let body = mock.last_body();
        let asked = body["messages"][1]["content"].as_str().unwrap();
        assert!(asked.starts_with("Directory: ") && asked.contains(trigger), "{}: {asked}", shell.name);
        assert_eq!(body.get("tools"), None, "the model gets no tools");
    }
}

#[test]
fn a_proposal_replaces_the_line_and_runs_only_on_enter() {
    in_each_shell(
        "make a file",
        "touch 'made by it' && printf 'it-%d\\n' 23",
        async |name, world, mut person| {
            person.types("make a file").await;
            person.types(ALT_S).await;
            person.sees("touch 'made by it'").await;
            assert!(!world.has("made by it"), "{name}: the command waits for Enter");
            person.types("\r").await;
            person.sees("it-23").await;
            assert!(world.has("made by it"), "{name}");
        },
    );
}

#[test]
fn several_lines_and_quotes_reach_the_line_unchanged() {
    let script = "```\nprintf '%s|' \"a  b\" 'c\"d' '$e' \\\\\nprintf 'end-%d\\n' 24\n```";
    in_each_shell("print it", script, async |name, _, mut person| {
        person.types("print it").await;
        person.types(ALT_S).await;
        person.sees("end-%d").await;
        person.types("\r").await;
        person.sees("a  b|c\"d|$e|").await;
        person.sees("end-24").await;
        assert!(!person.seen.contains("syntax error"), "{name}: {}", person.seen);
    });
}

#[test]
fn control_characters_in_a_proposal_are_visible_and_harmless() {
    let hostile = "echo x\u{1b}]0;title\u{7}\u{4}\u{202e}y";
    in_each_shell("hostile", hostile, async |name, _, mut person| {
        person.types("hostile").await;
        person.types(ALT_S).await;
        person.sees("x\\x1b]0;title\\x07\\x04\\u{202e}y").await;
        assert!(!person.seen.contains("hostile: "), "{name}: nothing ran");
    });
}

#[test]
fn a_failure_leaves_the_line_and_says_why() {
    in_each_shell("still-%d", "# it needs a browser", async |name, _, mut person| {
        person.types("printf 'still-%d\\n' 25").await;
        person.types(ALT_S).await;
        person.sees("sysop: no command: it needs a browser").await;
        person.types("\r").await;
        person.sees("still-25").await;
        assert!(!person.seen.contains("not found"), "{name}: {}", person.seen);
    });
}

/// Starts a model that never answers. The receiver gets a message for each request.
fn silent_model() -> (RawServer, Receiver<()>) {
    let (tell, asked) = channel();
    let silent = RawServer::start(move |_, _, stream| {
        // The receiver is gone if the test has ended.
        let _ = tell.send(());
        hang(stream);
    });
    (silent, asked)
}

/// Waits until the model is asked about this line. Other tests may still send requests to a port that was theirs.
fn wait_until_asked((silent, asked): &(RawServer, Receiver<()>), line: &str) {
    while !silent.bodies().iter().any(|body| body.to_string().contains(line)) {
        asked.recv_timeout(DEADLINE).expect("the model is asked");
    }
}

#[test]
fn an_interrupt_ends_the_wait_and_keeps_the_line() {
    for (shell, ignoring) in SHELLS.iter().flat_map(|shell| [(shell, false), (shell, true)]) {
        let model = silent_model();
        let world = shell.world(&model.0.url());
        at_a_terminal(async {
            let mut person = match ignoring {
                true => shell.starts_ignoring_sigint(&world).await,
                false => shell.starts(&world).await,
            };
            let line = "printf 'still-%d\\n' 25";
            person.types(line).await;
            person.types(ALT_S).await;
            wait_until_asked(&model, "still-");
            person.types("\u{3}").await;
            if ignoring && shell.name == "bash" {
                // bash cannot trap a signal that was ignored when it started, so the wait ends, but the line is lost.
                person.sees(PROMPT.trim_end()).await;
                person.types(line).await;
            }
            person.types("\r").await;
            person.sees("still-25").await;
            assert!(!person.seen.contains("no proposal"), "{}: {}", shell.name, person.seen);
        });
    }
}

#[test]
fn an_interrupted_proposal_ends_with_130_even_if_sigint_was_ignored() {
    let model = silent_model();
    let world = World::with_openai(&model.0.url()).file("work/line", "list files");
    let binary = env!("CARGO_BIN_EXE_sysop");
    let script = "trap '' INT; exec \"$0\" shell-init bash --propose < line";
    let running = world.start_program("sh", &["-c", script, binary]);
    wait_until_asked(&model, "list files");
    running.signal(Signal::INT);
    let run = running.finish();
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(130), "", ""), "{run:?}");
}

#[test]
fn scripts_are_printed_without_a_config_or_a_model() {
    let world = World::new().file(".config/sysop/config.toml", "this is = = no config");
    for shell in ["bash", "zsh", "fish"] {
        let run = world.finish(&["shell-init", shell]);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
        assert!(run.out.contains("shell-init") && run.out.contains("__sysop_propose"), "{run:?}");
    }
    assert_eq!(world.finish(&["shell-init", "tcsh"]).code, Some(2));
}

#[test]
fn a_proposal_without_a_model_is_one_sentence_on_standard_output() {
    let world = World::new();
    let mut running = world.start_with_input(&["shell-init", "bash", "--propose"]);
    running.type_text("list files");
    running.end_input();
    let run = running.finish();
    assert_eq!((run.code, run.err.as_str()), (Some(2), ""), "{run:?}");
    assert!(run.out.starts_with("sysop: ") && run.out.lines().count() == 1, "{run:?}");
}
