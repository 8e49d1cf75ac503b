//! `sysop chat` with a model over the network: through pipes, and once in a real terminal.

use std::time::Duration;

use alacritty_terminal::vte::ansi::{Color, NamedColor};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::World;
use crate::person::{Person, at_a_terminal};
use crate::support::{
    DEADLINE, Mock, RawServer, Running, bash, call, hang, processes_with, say, wait_until_gone,
};
use crate::viewer::Viewer;

/// Edits and allows a command. Checks that the edited command is previewed and judged again before the answer counts.
fn edits_and_runs(arguments: &[&str]) -> String {
    let mock = Mock::start(&[("clean", vec![bash("rm one"), say("All clean.")])]);
    let world = World::with_openai(&mock.url())
        .file("work/one", "1")
        .file("work/two/a", "123")
        .file("work/two/b", "45");
    at_a_terminal(async {
        let mut person = Person::sits_down(&world, arguments);
        person.sees("$ rm one").await;
        person.sees("Run it?").await;
        person.types("e").await;
        person.sees("command").await;
        person.types("\u{15}rm -r two\r").await;
        person.sees("$ rm -r two").await;
        person.sees("2 files").await;
        person.sees("risk: dangerous").await;
        person.sees("Run it?").await;
        assert!(world.has("one") && world.has("two"), "nothing ran without an answer");
        person.types("Y\r").await;
        person.sees("All clean.").await;
        assert!(world.has("one") && !world.has("two"));
        person.types("\u{4}").await;
        person.leaves().await.1
    })
}

#[test]
fn an_edited_command_is_shown_with_its_effect_before_it_runs() {
    for arguments in [&["chat", "clean up"][..], &["exec", "clean up"]] {
        let seen = edits_and_runs(arguments);
        assert_eq!(seen.matches("Run it?").count(), 2, "{arguments:?}: {seen}");
    }
}

/// A conversation through pipes; each line is typed when the program waits for it.
struct ReplProcess {
    running: Running,
    /// Bytes of output at the time when the last line was typed.
    typed_at: usize,
}

impl ReplProcess {
    fn begin(world: &World, arguments: &[&str]) -> Self {
        let mut line = vec!["chat", "--plain"];
        line.extend(arguments);
        let talk = Self { running: world.start_with_input(&line), typed_at: 0 };
        talk.prompted();
        talk
    }

    /// Waits for the prompt after the last line. Returns the output since then.
    fn prompted(&self) -> String {
        self.comes("You: ")
    }

    /// Waits for the question after the last line.
    fn asked(&self) {
        self.comes("/s] ");
    }

    fn comes(&self, end: &str) -> String {
        let out = self.running.out.wait_for(end, |out| out.len() > self.typed_at && out.ends_with(end));
        out[self.typed_at..].to_owned()
    }

    /// Types a line; the program is at a question or a prompt.
    fn types(&mut self, line: &str) {
        self.typed_at = self.running.out.wait_for("what was said", |_| true).len();
        self.running.type_text(&format!("{line}\n"));
    }

    /// Types a line and waits for the next prompt. Returns the output in between.
    fn says(&mut self, line: &str) -> String {
        self.types(line);
        self.prompted()
    }

    /// Leaves by ending the input.
    fn leaves(mut self) {
        self.running.end_input();
        let run = self.running.finish();
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
    }
}

/// Text of each message with this role in an OpenAI request.
fn texts(body: &Value, role: &str) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap().iter();
    messages
        .filter(|message| message["role"] == role)
        .map(|message| message["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_conversation_lasts_until_end_of_input() {
    let mock = Mock::start(&[("first", vec![say("One.")]), ("second", vec![say("Two.")])]);
    let world = World::with_openai(&mock.url());
    let mut talk = ReplProcess::begin(&world, &[]);
    assert!(talk.says("first").contains("Agent: One.\n"));
    assert!(talk.says("second").contains("Agent: Two.\n"));
    talk.leaves();
    assert_eq!(texts(&mock.last_body(), "user"), ["first", "second"]);
    let mut talk = ReplProcess::begin(&world, &["--resume"]);
    let said = talk.says("a third");
    assert!(said.contains("Agent: No scenario fits."), "{said}");
    talk.leaves();
    assert_eq!(texts(&mock.last_body(), "user"), ["first", "second", "a third"]);
    assert_eq!(world.session_ids().len(), 1);
}

#[test]
fn status_names_the_protocol_of_the_model_and_its_server() {
    let mock = Mock::start(&[("first", vec![say("One.")])]);
    let line = |said: &str| {
        let line = said.lines().find(|line| line.starts_with("protocol"));
        line.unwrap_or_default().split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    let world = World::with_openai(&mock.url());
    let mut talk = ReplProcess::begin(&world, &[]);
    assert_eq!(line(&talk.says("/status")), format!("decided by the first request; {}", mock.url()));
    talk.says("first");
    assert_eq!(line(&talk.says("/status")), format!("native tools; {}", mock.url()));
    talk.leaves();
    // This model has no native tools.
    let world = World::new().variable("OLLAMA_HOST", &mock.address()).variable("SYSOP_MODEL", "ollama/phi3");
    let mut talk = ReplProcess::begin(&world, &[]);
    talk.says("first");
    let expected = format!("JSON constrained by a schema; {}", mock.url());
    assert_eq!(line(&talk.says("/status")), expected);
    talk.leaves();
}

#[test]
fn piped_lines_are_processed_in_order() {
    let mock =
        Mock::start(&[("first", vec![bash("touch made"), say("One.")]), ("second", vec![say("Two.")])]);
    let world = World::with_openai(&mock.url());
    let mut running = world.start_with_input(&["chat", "--plain", "first"]);
    running.type_text("y\nsecond\n!ls\n/exit\n");
    let run = running.finish();
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
    let places: Vec<_> =
        ["Run it?", "Agent: One.", "Agent: Two.", "\nmade\n"].map(|text| run.out.find(text)).to_vec();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {}", run.out);
}

#[test]
fn a_task_for_a_resumed_conversation_precedes_typed_input() {
    let mock =
        Mock::start(&[("first", vec![say("One.")]), ("second", vec![bash("touch made"), say("Two.")])]);
    let world = World::with_openai(&mock.url());
    assert_eq!(world.finish(&["exec", "first"]).code, Some(0));
    let mut running = world.start_with_input(&["chat", "--plain", "--resume=", "second"]);
    running.type_text("y\n/exit\n");
    let run = running.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.out.contains("Agent: Two.") && world.has("made"), "{run:?}");
    assert_eq!(texts(&mock.last_body(), "user"), ["first", "second"]);
}

#[test]
fn an_approval_is_given_edited_rejected_or_granted_for_the_session() {
    let mock = Mock::start(&[(
        "go",
        vec![
            bash("touch yes"),
            bash("touch no"),
            bash("touch proposed"),
            bash("echo always >> lines"),
            bash("echo always >> lines"),
            bash("touch stop"),
            say("never said"),
        ],
    )]);
    let world = World::with_openai(&mock.url());
    let mut talk = ReplProcess::begin(&world, &[]);
    talk.types("go");
    for answer in ["y", "n not this one", "e touch edited", "y", "a"] {
        talk.asked();
        talk.types(answer);
    }
    // The grant covers the second `echo`, so the next question is about `touch stop`.
    talk.asked();
    let said = talk.says("s");
    assert!(said.contains("stopped"), "{said}");
    talk.leaves();
    for (name, there) in
        [("yes", true), ("no", false), ("proposed", false), ("edited", true), ("stop", false)]
    {
        assert_eq!(world.has(name), there, "{name}");
    }
    assert_eq!(world.read("lines"), "always\nalways\n");
    let results = texts(&mock.last_body(), "tool");
    assert!(results[1].contains("not this one"), "{results:?}");
    assert!(results[2].contains("touch edited"), "the model is told what ran instead: {results:?}");
    assert_eq!(results.len(), 5);
}

#[test]
fn a_model_that_cannot_answer_is_set_with_a_warning() {
    let mock = Mock::start(&[("remember", vec![say("I will.")])]);
    let world = World::with_openai(&mock.url()).variable("OLLAMA_HOST", "http://127.0.0.1:9");
    let mut talk = ReplProcess::begin(&world, &[]);
    talk.says("remember me");
    let told = talk.says("/model ollama/nope");
    assert!(told.contains("(warning: ollama cannot be reached: "), "{told}");
    let told = talk.says("/model openai/nope");
    assert!(told.contains("(warning: openai does not list the model nope; it offers: "), "{told}");
    let told = talk.says("/model openai/mock");
    assert!(!told.contains("warning"), "{told}");
    talk.leaves();
}

#[test]
fn slash_commands_work() {
    let write = call("write_file", json!({ "path": "notes.txt", "content": "overwritten\n" }));
    let mock =
        Mock::start(&[("remember", vec![say("I will.")]), ("overwrite", vec![write, say("Written.")])]);
    let world = World::with_openai(&mock.url()).file("work/notes.txt", "precious\n");
    let mut talk = ReplProcess::begin(&world, &["--approve", "auto"]);
    let help = talk.says("/help");
    for name in ["/clear", "/undo", "/model", "/approve", "/exit", "!COMMAND"] {
        assert!(help.contains(name), "{name}: {help}");
    }
    assert!(talk.says("/hepl").contains("did you mean /help?"));

    talk.says("remember me");
    let cleared = talk.says("/clear");
    assert!(!cleared.contains("remember"), "{cleared}");
    assert!(talk.says("/model").contains("openai/test-model"));
    talk.says("/model other-model");
    talk.says("who am I");
    let body = mock.last_body();
    assert_eq!((texts(&body, "user"), &body["model"]), (vec!["who am I".to_owned()], &json!("other-model")));

    assert!(talk.says("overwrite it").contains("Agent: Written."));
    assert_eq!(world.read("notes.txt"), "overwritten\n");
    talk.says("/undo");
    assert_eq!(world.read("notes.txt"), "precious\n");
    let again = talk.says("/undo");
    assert!(again.contains("nothing to undo"), "{again}");
    assert_eq!(world.read("notes.txt"), "precious\n");

    let asked = mock.requests().len();
    let direct = talk.says("!echo typed by hand; exit 3");
    assert!(direct.contains("typed by hand\n") && direct.contains("exit code 3"), "{direct}");
    assert!(talk.says("/cmd echo the same").contains("the same\n"));
    assert_eq!(mock.requests().len(), asked, "the model is not asked about what was typed");
    talk.leaves();
}

#[test]
fn undo_does_not_overwrite_a_file_changed_since() {
    let write = call("write_file", json!({ "path": "notes.txt", "content": "by the model\n" }));
    let mock = Mock::start(&[("overwrite", vec![write, say("Written.")])]);
    let world = World::with_openai(&mock.url()).file("work/notes.txt", "before\n");
    let mut talk = ReplProcess::begin(&world, &["--approve", "auto"]);
    talk.says("overwrite it");
    std::fs::write(world.work().join("notes.txt"), "by the person\n").unwrap();
    let said = talk.says("/undo");
    assert!(said.contains("notes.txt"), "{said}");
    assert_eq!(world.read("notes.txt"), "by the person\n");
    talk.leaves();
}

#[test]
fn ctrl_c_stops_the_turn_but_not_the_conversation() {
    let name = format!("sleep 6{}", std::process::id());
    let mock = Mock::start(&[
        ("long", vec![bash(&format!("touch started; {name}")), say("never said")]),
        ("short", vec![say("Here I am.")]),
    ]);
    let world = World::with_openai(&mock.url());
    let mut talk = ReplProcess::begin(&world, &["--approve", "auto"]);
    talk.types("!true");
    talk.prompted();
    talk.types("long");
    talk.running.out.wait_for_text("[Tool: bash(");
    let until = std::time::Instant::now() + DEADLINE;
    while processes_with(&name).is_empty() {
        assert!(std::time::Instant::now() < until, "it never started");
        std::thread::yield_now();
    }
    talk.running.signal(Signal::INT);
    let said = talk.prompted();
    assert!(said.contains("stopped"), "{said}");
    wait_until_gone(&name, Duration::from_secs(5));
    assert!(talk.says("short").contains("Agent: Here I am."));
    talk.leaves();
}

#[test]
fn end_of_input_at_an_approval_runs_nothing() {
    let mock = Mock::start(&[("go", vec![bash("touch made"), say("never said")])]);
    let world = World::with_openai(&mock.url());
    let mut running = world.start_with_input(&["chat", "--plain"]);
    running.type_text("go\n");
    running.out.wait_for_text("Run it?");
    running.end_input();
    let run = running.finish();
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(!world.has("made"));
    let events = world.exported(&world.only_session());
    assert_eq!(events.last().unwrap()["event"]["type"], "turn_ended", "{events:?}");
}

#[test]
fn a_terminal_user_allows_a_proposal_and_stops_a_turn() {
    let name = format!("sleep 8{}", std::process::id());
    let mock = Mock::start(&[
        ("please make", vec![bash("touch made"), say("It is made.")]),
        ("take long", vec![bash(&format!("touch a; echo begun; {name}")), say("never said")]),
    ]);
    let world = World::with_openai(&mock.url());
    let (code, seen) = at_a_terminal(async {
        let mut person = Person::sits_down(&world, &["chat"]);
        person.sees("openai/test-model").await;
        person.sees("›").await;
        person.types("please make it\r").await;
        person.sees("touch made").await;
        person.sees("Run it?").await;
        assert!(!world.has("made"));
        person.types("y").await;
        person.sees("It is made.").await;
        assert!(world.has("made"));
        person.sees("›").await;
        person.types("please take long\r").await;
        person.sees("Run it?").await;
        person.types("y").await;
        person.sees("begun").await;
        person.types("\u{3}").await;
        person.sees("topp").await;
        person.sees("›").await;
        wait_until_gone(&name, Duration::from_secs(5));
        person.types("\u{4}").await;
        person.leaves().await
    });
    assert_eq!(code, 0, "{seen}");
    // The printed hint works as a command.
    let hint = seen.rsplit_once("To resume this session: sysop ").expect("a hint").1;
    let mut line: Vec<&str> = hint.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(line[0], "chat", "{hint}");
    line[0] = "exec";
    line.push("and now");
    let run = world.finish(&line);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "No scenario fits.\n"), "{run:?}");
    assert_eq!(texts(&mock.last_body(), "user"), ["please make it", "please take long", "and now"]);
}

#[test]
fn exec_on_a_terminal_asks_and_ctrl_c_ends_it() {
    let silent_server = RawServer::start(|_, _, stream| hang(stream));
    let mock = Mock::start(&[("please make", vec![bash("touch made"), say("It is made.")])]);
    let (world, silent) = (World::with_openai(&mock.url()), World::with_openai(&silent_server.url()));
    at_a_terminal(async {
        let mut person = Person::sits_down(&world, &["exec", "please make it"]);
        person.sees("Run it?").await;
        person.types("y").await;
        let (code, seen) = person.leaves().await;
        assert_eq!(code, 0, "{seen}");
        assert!(seen.contains("It is made.") && world.has("made"), "{seen}");

        let mut person = Person::sits_down(&world, &["exec", "please make it"]);
        person.sees("Run it?").await;
        person.types("\u{3}").await;
        assert_eq!(person.leaves().await.0, 130);

        let mut person = Person::sits_down(&silent, &["exec", "go"]);
        let asked = async {
            while silent_server.bodies().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, asked).await.expect("the model is asked");
        person.types("\u{3}").await;
        assert_eq!(person.leaves().await.0, 130);
    });
}

#[test]
fn panels_keep_colors_and_no_other_sequences() {
    // A window title, the alternate screen, a cleared screen, cursor movements, concealed text.
    let play = "\\033]0;owned\\007\\033[?1049h\\033[2J\\033[7;3H\\033[4A\\033[8m";
    let live = format!(
        "printf 'x \\033[31mscarlet\\033[0m {play}end\\033[0m\\n'; until [ -e go-on ]; do sleep 0.02; done; \
         printf '\\033[1;35mleaf\\033[0m after\\n'"
    );
    let shared = "printf 'x \\033[31mcrimson\\033[0m \\033]0;owned\\007end\\n'";
    let mock = Mock::start(&[(
        "go",
        vec![
            bash(&live),
            call("run_command", json!({ "command": shared, "reasoning": "again" })),
            say("Done."),
        ],
    )]);
    let world = World::with_openai(&mock.url()).variable("SHELL", "/bin/bash");
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["chat", "--approve=auto", "go"]);
        // Magenta, because green is used for strings in the proposal above.
        let (red, magenta) = (Some(Color::Named(NamedColor::Red)), Some(Color::Named(NamedColor::Magenta)));
        // While the command runs, in the panel that is still open.
        viewer.sees("│ x scarlet end").await;
        assert_eq!(viewer.color_of("scarlet end"), red, "{}", viewer.screen());
        std::fs::write(world.work().join("go-on"), "").unwrap();
        let screen = viewer.sees("Done.").await;
        assert_eq!(screen.matches("COMMAND OUTPUT").count(), 2, "nothing was wiped away:\n{screen}");
        for (word, color) in [("scarlet end", red), ("crimson end", red), ("leaf after", magenta)] {
            assert_eq!(viewer.color_of(word), color, "{word} of\n{screen}");
            let around = viewer.color_of(word.split_once(' ').unwrap().1);
            assert_ne!(around, color, "what follows {word} is plain");
        }
        for sequence in ["\x1b]0;", "\x1b[?1049h", "\x1b[2J", "\x1b[7;3H", "\x1b[4A", "\x1b[8m"] {
            let passed = viewer.raw.windows(sequence.len()).any(|bytes| bytes == sequence.as_bytes());
            assert!(!passed, "{sequence:?} reached the terminal");
        }
        viewer.types("\x04").await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn always_writes_the_shown_rule() {
    let mock = Mock::start(&[("go", vec![bash("touch made"), say("Done.")])]);
    let world = World::with_openai(&mock.url());
    let mut talk = ReplProcess::begin(&world, &[]);
    talk.types("go");
    talk.asked();
    talk.types("A");
    let rule = "[[policy.rules]]\naction = \"allow\"\nmatch = { program = \"touch\", options = [], operands = [\"made\"], \
                host = \"local\" }\n";
    let shown = talk.comes("[y/n] ");
    assert!(shown.contains(rule), "{shown}");
    assert!(!world.home().join(".config/sysop/rules.toml").exists(), "not before it is confirmed");
    talk.says("y");
    assert_eq!(std::fs::read_to_string(world.home().join(".config/sysop/rules.toml")).unwrap(), rule);
    assert!(world.has("made"));
    talk.leaves();
    let check = |command: &str| world.run(&["policy", "check", "--mode", "ask", command]).out;
    assert!(check("touch made").starts_with("allow: changes"), "{}", check("touch made"));
    assert!(check("touch other").starts_with("ask: changes"), "{}", check("touch other"));
}

#[test]
fn the_plan_of_a_read_only_session_is_run_step_by_step() {
    let mock = Mock::start(&[("go", vec![bash("touch one"), bash("touch two"), say("That is the plan.")])]);
    let world = World::with_openai(&mock.url());
    let mut talk = ReplProcess::begin(&world, &["--approve", "never"]);
    let listed = talk.says("go");
    assert!(listed.contains("1. touch one") && listed.contains("2. touch two"), "{listed}");
    assert!(talk.says("/plan").contains("read-only: /approve ask first, then /plan"));
    let denied = talk.says("!touch zz");
    assert!(
        denied.contains("touch zz") && denied.contains("(not run: this session is read-only"),
        "{denied}"
    );
    assert!(
        denied.matches("session is read-only").count() == 1 && !denied.contains("nothing ran"),
        "{denied}"
    );
    assert!(!world.has("one") && !world.has("zz"));
    let next = talk.says("/approve auto");
    assert!(next.contains("2 proposed steps; /plan runs the next one: `touch one`"), "{next}");
    assert!(talk.says("/plan").contains("1 proposed step left"));
    assert!(world.has("one") && !world.has("two"));
    talk.says("/plan");
    assert!(world.has("two"));
    assert!(talk.says("/plan").contains("no proposed steps"));
    talk.leaves();
}
