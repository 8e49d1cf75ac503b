//! The wizard's questions, with answers from memory.

use super::{
    Changes, Prompter, Setup, answer_line, begins_like_key, choose, choose_key, choose_ollama,
    looks_like_key, propose,
};
use crate::config::KeyPath;
use crate::config::tests::World;
use crate::exit::Cancellation;
use crate::global_flags::GlobalFlags;
use crate::select_model::{OllamaAnswer, OllamaServer};
use crate::settings::{ColorMode, Settings};

fn settings(world: &World, environment: &[(&str, &str)]) -> Settings {
    let flags = GlobalFlags { root: Some(world.root()), ..GlobalFlags::default() };
    let environment = environment.iter().copied().collect();
    Settings::from_parts(&flags, environment, world.folders(), ColorMode::Off).unwrap()
}

/// Runs some questions with these answers. Returns their result, and all that was shown.
fn answering<T>(answers: &str, ask: impl FnOnce(&mut Prompter<'_>) -> T) -> (T, String) {
    let (mut input, mut output) = (answers.as_bytes(), Vec::new());
    let mut prompter = Prompter { input: &mut input, output: &mut output, columns: None };
    let result = ask(&mut prompter);
    (result, String::from_utf8(output).unwrap())
}

fn model(name: &str) -> Changes {
    vec![(KeyPath::from("model"), name.to_owned())]
}

#[test]
fn the_models_are_those_of_the_configured_ollama() {
    let world = World::new().own("[providers.ollama]\nbase_url = 'http://box:1234'\n");
    let settings = settings(&world, &[]);
    let models = OllamaAnswer::Models(vec!["phi3".to_owned(), "qwen3".to_owned()]);
    let ollama = OllamaServer::answering(&settings, models);
    let (chosen, shown) = answering("3\n\n\n\n", |prompter| choose(prompter, &settings, &ollama).unwrap());
    assert!(shown.contains("[3] use Ollama at http://box:1234\n"), "{shown}");
    assert!(shown.contains("Ollama has: phi3, qwen3\nModel [Enter for phi3, q quits]: "), "{shown}");
    assert_eq!(chosen.0.changes[..1], model("ollama/phi3"));
    assert!(shown.contains("[4] set no model: sysop then takes ollama/phi3\n"), "{shown}");
    let settings = self::settings(&world, &[("SYSOP_MODEL", "openai/x")]);
    let (_, shown) = answering("4\n\n\n", |prompter| choose(prompter, &settings, &ollama).unwrap());
    assert!(shown.contains("[4] keep the current setting\n"), "{shown}");
}

#[test]
fn the_line_about_an_answer_names_the_vendor_or_the_address() {
    for (provider, base_url, line) in [
        ("ollama", None, "Ollama answers and offers 2 models."),
        ("openai", None, "OpenAI answers and offers 2 models."),
        ("openai", Some("http://me:pass@h/v1"), "http://[set]@h/v1 answers and offers 2 models."),
    ] {
        assert_eq!(answer_line(provider, base_url.map(str::to_owned), Ok(2)), line);
    }
    assert_eq!(answer_line("openai", None, Err("it is down".to_owned())), "warning: it is down");
}

/// Starts a server that answers every request with this head and body. Returns its base URL.
fn server(head: &'static str, body: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
            let length = body.len();
            let answer = format!("{head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
        }
    });
    url
}

#[test]
fn after_a_pasted_key_the_next_one_is_asked_for_at_once() {
    let (world, url) = (World::new(), server("HTTP/1.1 401 Unauthorized", "{}"));
    let settings = settings(&world, &[]);
    let pasted = "0123456789ABCDEFGHIJ";
    let answers = format!("4\n{url}\n3\nfirst-key\n1\nsecond-key\n{pasted}\n2\n4\n2\nphi3\n");
    let (setup, shown) = answering(&answers, |prompter| choose_key(prompter, &settings).unwrap());
    let menu = "  [1] paste another key, hidden\n  [2] take the key from elsewhere\n  [3] continue anyway\n";
    assert_eq!(shown.matches(menu).count(), 2, "{shown}");
    assert!(shown.contains("Enter for 1, q quits]: API key (not shown)"), "{shown}");
    assert!(shown.contains("That looks like an API key.") && !shown.contains(pasted), "{shown}");
    assert_eq!(shown.matches("Where is the API key?").count(), 2, "{shown}");
    assert!(setup.key.is_none(), "the server needs none");
}

#[test]
fn a_web_page_is_not_taken_for_an_api() {
    let (world, url) =
        (World::new(), server("HTTP/1.1 200 OK\r\ncontent-type: text/html", "<html><title>Login</title>"));
    let settings = settings(&world, &[]);
    let answers = format!("4\n{url}\n4\n2\nphi3\n");
    let (_, shown) = answering(&answers, |prompter| choose_key(prompter, &settings).unwrap());
    let origin = url.trim_end_matches("/v1");
    let warning =
        format!("warning: {origin} returned a web page: Login, which is not an API; check the URL\n");
    assert!(shown.contains(&warning), "{shown}");
}

#[test]
fn a_key_that_is_pasted_at_a_question_for_a_name_is_not_taken() {
    let world = World::new();
    let settings = settings(&world, &[]);
    let ollama = OllamaServer::answering(&settings, OllamaAnswer::Absent);
    for key in ["sk-ant-api03-0123456789abcdef", "AIzaSyA0123456789abcdefg", "gsk_0123456789abcdefgh"] {
        let answers = format!("3\n{key}\nqwen3\n{key}\n\n\n");
        let (chosen, shown) = answering(&answers, |prompter| choose(prompter, &settings, &ollama).unwrap());
        assert_eq!(shown.matches("That looks like an API key. It was not stored").count(), 2, "{shown}");
        assert!(!shown.contains(key), "{shown}");
        assert_eq!(chosen.0.changes[..1], model("ollama/qwen3"));
        assert!(!chosen.0.changes.iter().any(|(_, value)| value == key), "{key}");
    }
    let key = "sk-ant-api03-0123456789abcdef";
    let answers = format!("4\n{key}\nhttp://127.0.0.1:9/v1\n4\n3\n{key}\nhttp://h/v1\nphi3\n");
    let (setup, shown) = answering(&answers, |prompter| choose_key(prompter, &settings).unwrap());
    assert_eq!(shown.matches("That looks like an API key.").count(), 2, "{shown}");
    assert!(shown.contains("That is an address. Enter the name of a model; q quits.\n"), "{shown}");
    assert!(setup.changes.contains(&model("openai/phi3")[0]), "{shown}");
}

#[test]
fn a_name_of_a_host_or_a_model_does_not_pass_for_a_key() {
    for name in ["sk-web1", "sk-web1.example.com,sk-web2.example.com", "qwen3-coder-30b-a3b-instruct-2507"] {
        assert!(!begins_like_key(name), "{name}");
    }
}

#[test]
fn an_address_is_not_taken_for_the_name_of_a_model() {
    let world = World::new();
    let settings = settings(&world, &[]);
    for answer in [OllamaAnswer::Absent, OllamaAnswer::Models(vec!["phi3".to_owned()])] {
        let ollama = OllamaServer::answering(&settings, answer);
        let (changes, shown) =
            answering("http://box:11434\nqwen3\n", |prompter| choose_ollama(prompter, &ollama).unwrap());
        assert!(shown.contains("set OLLAMA_HOST to its address."), "{shown}");
        assert_eq!(changes, model("ollama/qwen3"));
    }
}

#[test]
fn a_model_that_the_server_does_not_list_can_be_entered_again() {
    let url = server("HTTP/1.1 200 OK\r\ncontent-type: application/json", r#"{"data":[{"id":"phi3"}]}"#);
    let world = World::new();
    let settings = settings(&world, &[]);
    for (answers, name) in [("pih3\n1\nphi3\n", "phi3"), ("pih3\n\n\n", "phi3"), ("pih3\n2\n", "pih3")] {
        let answers = format!("4\n{url}\n4\n{answers}");
        let (setup, shown) = answering(&answers, |prompter| choose_key(prompter, &settings).unwrap());
        let menu = "does not list pih3\n  [1] enter another model\n  [2] continue anyway\n";
        assert!(shown.contains(menu), "{shown}");
        assert!(setup.changes.contains(&model(&format!("openai/{name}"))[0]), "{shown}");
    }
}

#[test]
fn an_ollama_without_a_model_is_described_by_its_own_address() {
    let world = World::new();
    for (host, answer, sentence) in [
        ("", OllamaAnswer::Absent, "not responding at http://127.0.0.1:11434. `ollama serve` starts it."),
        (
            "localhost:1",
            OllamaAnswer::Absent,
            "not responding at http://localhost:1. `ollama serve` starts it.",
        ),
        (
            "box",
            OllamaAnswer::Absent,
            "not responding at http://box:11434. Check that it runs there, and OLLAMA_HOST.",
        ),
        ("box", OllamaAnswer::TimedOut, "Ollama at http://box:11434 did not answer within 3 s."),
        ("box", OllamaAnswer::Models(Vec::new()), "has no chat model. `ollama pull NAME` gets one."),
        ("https://box", OllamaAnswer::Absent, "The models of https://box are not listed here"),
    ] {
        let settings = settings(&world, &[("OLLAMA_HOST", host)]);
        let ollama = OllamaServer::answering(&settings, answer);
        let (changes, shown) = answering("qwen3\n", |prompter| choose_ollama(prompter, &ollama).unwrap());
        assert!(shown.contains(sentence), "{shown}");
        assert_eq!(changes, model("ollama/qwen3"));
    }
}

#[test]
fn a_lone_q_quits_at_every_question_and_writes_nothing() {
    let world = World::new().file(".config/sysop/openai.key", "good\n");
    let settings = settings(&world, &[]);
    let own_server = "2\n4\nhttp://127.0.0.1:9/v1";
    // After each `q`, the answers go on as if it were the name, the key or the address that was asked for.
    for (question, answers) in [
        ("Your choice [1-4, q quits]: ", "q\n4\n\n1\ny\n".to_owned()),
        ("qwen3 [Enter for none, q quits]: ", "3\nq\n\n1\ny\n".to_owned()),
        ("Base URL, such as http://127.0.0.1:8000/v1 [q quits]: ", "2\n4\nQ\n".to_owned()),
        ("Name of the variable [q quits]: ", format!("{own_server}\n2\nq\n")),
        ("API key (not shown) [q quits]: \n", format!("{own_server}\n3\nq\n3\nqwen\n\n1\ny\n")),
        ("Model [q quits]: ", format!("{own_server}\n4\n3\nq\n\n1\ny\n")),
        ("Host to run on [Enter for this machine, q quits]: ", "4\nq\n\n\n1\ny\n".to_owned()),
        ("Enter for 1, q quits]: ", "4\n\nq\n1\ny\n".to_owned()),
        ("Enter for y, q quits]: ", "4\n\n2\nq\ny\n".to_owned()),
    ] {
        let ollama = OllamaServer::answering(&settings, OllamaAnswer::Absent);
        let (ended, shown) = answering(&answers, |prompter| {
            let (setup, _) = choose(prompter, &settings, &ollama)?;
            propose(prompter, &settings, &setup)
        });
        let error = ended.expect_err(question);
        assert!(error.is::<Cancellation>(), "{question}: {error} in {shown}");
        assert!(shown.ends_with(question), "{question}: {shown}");
        let config = world.folders().config.join("sysop");
        assert_eq!(std::fs::read_to_string(config.join("openai.key")).unwrap(), "good\n", "{question}");
        assert!(!config.join("config.toml").exists(), "{question}");
    }
}

/// Answers the questions of a wizard with the given config. Returns the changes, and all that was shown.
fn chosen(config: &str, answers: &str) -> (Vec<(String, String)>, String) {
    let world = World::new().own(config);
    let settings = settings(&world, &[]);
    let ollama = OllamaServer::answering(&settings, OllamaAnswer::Absent);
    let (chosen, shown) = answering(answers, |prompter| choose(prompter, &settings, &ollama).unwrap());
    (chosen.0.changes.iter().map(|(key, value)| (key.to_string(), value.clone())).collect(), shown)
}

fn change(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[test]
fn enter_keeps_the_host_and_the_mode_that_are_set_and_names_them() {
    let config = "approve = 'never'\n[connection]\nhost = 'web9'\n";
    let (changes, shown) = chosen(config, "4\n\n\n");
    assert_eq!(changes, []);
    assert!(
        shown.contains("Host to run on [Enter for web9, `local` for this machine, q quits]: "),
        "{shown}"
    );
    assert!(shown.contains("  [5] keep the current setting: never\n"), "{shown}");
    assert!(shown.ends_with("Your choice [1-5, Enter for 5, q quits]: "), "{shown}");
    let (changes, _) = chosen(config, "4\nlocal\n1\n");
    assert_eq!(changes, [change("connection.host", "local"), change("approve", "ask")]);
}

#[test]
fn enter_takes_the_recommended_mode_and_this_machine_if_none_is_set() {
    for host in ["", "local"] {
        let (changes, shown) = chosen("", &format!("4\n{host}\n\n"));
        assert_eq!(changes, [change("approve", "ask")]);
        assert!(shown.contains("[Enter for this machine, q quits]: "), "{shown}");
    }
}

#[test]
fn a_mode_is_chosen_by_its_number_or_its_name() {
    for answer in ["4", "never", "NEVER"] {
        let (changes, _) = chosen("", &format!("4\n\n{answer}\n"));
        assert_eq!(changes, [change("approve", "never")], "{answer}");
    }
    let (_, shown) = chosen("", "4\n\nhttp://127.0.0.1:8000/v1\n5\n2\n");
    assert_eq!(shown.matches("Enter 1, 2, 3 or 4 (q quits).").count(), 2, "{shown}");
    assert!(!shown.contains("API key. It"), "{shown}");
}

#[test]
fn a_wrong_answer_to_yes_or_no_names_both() {
    let world = World::new();
    let settings = settings(&world, &[]);
    let setup = Setup { changes: model("ollama/phi3"), ..Setup::default() };
    for (answer, is_written) in [("no", false), ("n", false), ("Y", true)] {
        let answers = format!("maybe\n{answer}\n");
        let (ended, shown) = answering(&answers, |prompter| propose(prompter, &settings, &setup));
        assert_eq!(ended.is_ok(), is_written, "{answer}");
        assert!(shown.contains("Enter y or n (q quits)."), "{shown}");
    }
}

#[test]
fn a_key_is_known_by_its_beginning_or_by_its_characters() {
    for key in ["sk-only-words", "AIzaOnlyWords", "0123456789abcdefghij", "Zm9v/YmFyYmF6cXV4MTIz/NDU2+Nzg5"] {
        assert!(looks_like_key(key), "{key}");
    }
    for answer in [
        "1",
        "task-list",
        "sk- and more",
        "OPENAI_API_KEY",
        "http://127.0.0.1:8000/v1 ",
        "http://127.0.0.1:8000/v1",
        "/home/me/sysop/key7",
        "~/models/qwen3-8b-q4.gguf",
        "./models/qwen3-8b-q4.gguf",
    ] {
        assert!(!looks_like_key(answer), "{answer}");
    }
}
