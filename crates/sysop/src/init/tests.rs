//! The wizard's questions, with answers from memory.

use std::sync::mpsc;

use secrecy::ExposeSecret as _;

use super::{
    Changes, Prompter, Setup, answer_line, begins_like_key, choose, choose_key, choose_ollama, is_address,
    load_as_written, looks_like_key, propose, restore_key, written_server_answer,
};
use crate::config::KeyPath;
use crate::config::tests::World;
use crate::exit::Cancellation;
use crate::global_flags::GlobalFlags;
use crate::select_model::{OllamaAnswer, OllamaServer};
use crate::settings::{ColorMode, ProviderSettings, Settings};

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
    assert!(shown.contains("[4] keep the current setting: openai/x (environment SYSOP_MODEL)\n"), "{shown}");
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
    recording_server(head, body).0
}

/// Like [`server`], and also returns the requests, each of which is there before it is answered.
fn recording_server(head: &'static str, body: &'static str) -> (String, mpsc::Receiver<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let read = std::io::Read::read(&mut stream, &mut request).unwrap_or(0);
            let _ = sender.send(String::from_utf8_lossy(&request[..read]).into_owned());
            let length = body.len();
            let answer = format!("{head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
        }
    });
    (url, requests)
}

/// Starts a server that accepts every key and offers phi3. Returns its base URL and the requests.
fn phi3_server() -> (String, mpsc::Receiver<String>) {
    recording_server("HTTP/1.1 200 OK\r\ncontent-type: application/json", r#"{"data":[{"id":"phi3"}]}"#)
}

#[test]
fn after_a_pasted_key_the_next_one_is_asked_for_at_once() {
    let (world, url) = (World::new(), server("HTTP/1.1 401 Unauthorized", "{}"));
    let settings = settings(&world, &[]);
    let pasted = "0123456789ABCDEFGHIJ";
    let answers = format!("4\n{url}\n3\nfirst-key\n1\nsecond-key\n{pasted}\n2\n4\n2\nphi3\n");
    let (setup, shown) = answering(&answers, |prompter| choose_key(prompter, &settings).unwrap());
    let menu =
        "  [1] paste another key, hidden\n  [2] choose another source for the key\n  [3] continue anyway\n";
    assert_eq!(shown.matches(menu).count(), 2, "{shown}");
    assert!(shown.contains("Enter for 1, q quits]: API key (not shown)"), "{shown}");
    assert!(shown.contains("That looks like an API key.") && !shown.contains(pasted), "{shown}");
    assert_eq!(shown.matches("Where is the API key?").count(), 2, "{shown}");
    assert!(setup.key.is_none(), "the server needs none");
}

/// Answers the questions about a key and writes the result. Returns the key of the next start, and all that was shown.
fn key_after(config: &str, environment: &[(&str, &str)], answers: &str) -> (Option<String>, String) {
    let world = World::new().own(config);
    let settings = settings(&world, environment);
    let ((), shown) = answering(answers, |prompter| {
        let setup = choose_key(prompter, &settings).unwrap();
        propose(prompter, &settings, &setup).unwrap();
    });
    let next = self::settings(&world, environment);
    (key_text(&next.providers["openai"]).map(str::to_owned), shown)
}

fn key_text(provider: &ProviderSettings) -> Option<&str> {
    provider.api_key.as_ref().map(|key| key.expose_secret())
}

#[test]
fn a_server_gets_the_key_that_was_chosen_for_it_and_no_other() {
    let environment = [("OPENAI_API_KEY", "usual"), ("CORP_KEY", "corp")];
    let before = "[providers.openai]\nbase_url = 'http://127.0.0.1:9/v1'\napi_key = 'old'\n\
                  api_key_env = 'OLD_KEY'\napi_key_file = 'old.key'\n";
    for config in ["", before] {
        for (place, key) in [
            ("1\n3\n", Some("usual")),
            ("2\nCORP_KEY\n3\n", Some("corp")),
            ("3\npasted\n3\n", Some("pasted")),
            ("4\n3\n", None),
        ] {
            let answers = format!("4\nhttp://127.0.0.1:9/v1\n\n{place}phi3\ny\n");
            let (found, shown) = key_after(config, &environment, &answers);
            assert_eq!(found.as_deref(), key, "{place:?}: {shown}");
            assert!(
                shown.contains("Enter 1, 2, 3 or 4 (q quits)."),
                "no default for another server: {shown}"
            );
        }
    }
}

#[test]
fn a_key_for_openai_goes_to_no_server_of_an_earlier_choice() {
    let config = "[providers.openai]\nbase_url = 'http://127.0.0.1:9/v1'\napi_key_env = 'OLD_KEY'\n";
    let world = World::new().own(config);
    let environment = [("OLD_KEY", "old")];
    let settings = settings(&world, &environment);
    let ((), shown) = answering("2\n1\ngpt\ny\n", |prompter| {
        let setup = choose_key(prompter, &settings).unwrap();
        propose(prompter, &settings, &setup).unwrap();
    });
    assert!(shown.contains("and lose: providers.openai.base_url, providers.openai.api_key_env\n"), "{shown}");
    let openai = &self::settings(&world, &environment).providers["openai"];
    assert!(openai.base_url.is_none() && openai.api_key.is_none(), "{openai:?}");
}

#[test]
fn a_key_of_a_variable_that_overrides_the_config_goes_to_another_server_only_if_the_user_agrees() {
    let files = World::new().file("ours.key", "of-file\n");
    let file = files.folders().home.join("ours.key");
    let before = "[providers.openai]\napi_key = 'old'\napi_key_env = 'OLD_KEY'\napi_key_file = 'old.key'\n";
    for (variable, value, expected) in [
        ("SYSOP_PROVIDERS__OPENAI__API_KEY", "ours", Some("ours")),
        ("SYSOP_PROVIDERS__OPENAI__API_KEY_ENV", "CORP_KEY", Some("corp")),
        ("SYSOP_PROVIDERS__OPENAI__API_KEY_ENV", "UNSET_KEY", None),
        ("SYSOP_PROVIDERS__OPENAI__API_KEY_FILE", file.to_str().unwrap(), Some("of-file")),
    ] {
        let environment =
            [(variable, value), ("CORP_KEY", "corp"), ("OPENAI_API_KEY", "usual"), ("OLD_KEY", "old")];
        for config in ["", before] {
            let answers = "4\nhttp://127.0.0.1:9/v1\ny\n3\nphi3\ny\n";
            let (key, shown) = key_after(config, &environment, answers);
            assert_eq!(key.as_deref(), expected, "{variable}: {shown}");
            let named = format!("{variable} is set: its key comes before any other.\n");
            assert!(shown.contains(&named) && !shown.contains("Where is the API key?"), "{shown}");
        }
        let world = World::new();
        let settings = settings(&world, &environment);
        let (declined, shown) =
            answering("4\nhttp://127.0.0.1:9/v1\n\n", |prompter| choose_key(prompter, &settings).err());
        let declined = declined.unwrap().to_string();
        assert_eq!(declined, format!("unset {variable} and run `sysop init` again; nothing was changed"));
        let question = "Send its key to http://127.0.0.1:9/v1? [y/n, Enter for n, q quits]: ";
        assert!(shown.ends_with(question), "nothing was sent: {shown}");
    }
}

#[test]
fn the_server_of_a_variable_gets_a_key_for_openai_only_if_the_user_agrees() {
    let (world, (url, requests)) = (World::new(), phi3_server());
    let ours = ("SYSOP_PROVIDERS__OPENAI__API_KEY", "ours");
    let usual = ("OPENAI_API_KEY", "vendor");
    for (variable, key, answers, sent) in [
        ("SYSOP_PROVIDERS__OPENAI__BASE_URL", usual, "2\ny\n1\n\n", "vendor"),
        ("SYSOP_PROVIDERS__OPENAI__BASE_URL", usual, "2\ny\n3\npasted\n\n", "pasted"),
        ("LLM_BASE_URL", ours, "2\ny\n\n", "ours"),
    ] {
        let settings = settings(&world, &[(variable, &url), key]);
        let (declined, shown) = answering("2\n\n", |prompter| choose_key(prompter, &settings).err());
        let next = format!("unset {variable} and run `sysop init` again; nothing was changed");
        assert_eq!(declined.unwrap().to_string(), next);
        let question = format!("Send the key to {url}? [y/n, Enter for n, q quits]: ");
        assert!(shown.ends_with(&question), "{shown}");
        assert!(requests.try_recv().is_err(), "nothing was sent: {shown}");
        let (_, shown) = answering(answers, |prompter| choose_key(prompter, &settings).unwrap());
        let request = requests.try_recv().expect(&shown);
        assert!(request.contains(&format!("Bearer {sent}\r\n")), "{request}");
    }
    let settings = settings(&world, &[("LLM_BASE_URL", &url), usual]);
    let (refused, shown) = answering("2\n", |prompter| choose_key(prompter, &settings).err());
    let refused = refused.unwrap().to_string();
    assert!(
        refused.starts_with("LLM_BASE_URL is set: ") && refused.contains("unset LLM_BASE_URL"),
        "{refused}"
    );
    assert!(requests.try_recv().is_err(), "nothing was sent: {shown}");
}

#[test]
fn a_key_for_one_server_goes_to_another_only_if_the_user_agrees() {
    let (world, (url, requests)) = (World::new(), phi3_server());
    let settings = settings(&world, &[("CORP_KEY", "corp")]);
    let other = url.replace("/v1", "/other");
    for (place, name, key) in
        [("3\npasted\n", "the pasted key", "pasted"), ("2\nCORP_KEY\n", "the key of CORP_KEY", "corp")]
    {
        let question = format!("Send {name} to {url}? [y/n, Enter for n, q quits]: ");
        for (answer, is_sent) in [("y\n", true), ("\n4\n", false)] {
            let answers = format!("4\nhttp://127.0.0.1:9/v1\n{place}2\n{url}\n{answer}\n");
            let (setup, shown) = answering(&answers, |prompter| choose_key(prompter, &settings).unwrap());
            assert_eq!(shown.matches(&question).count(), 1, "{shown}");
            let request = requests.try_recv().expect(&shown);
            assert_eq!(request.contains(&format!("Bearer {key}\r\n")), is_sent, "{request}");
            assert_eq!(setup.key.is_some(), is_sent && key == "pasted");
        }
        let answers =
            format!("4\nhttp://127.0.0.1:9/v1\n{place}2\nhttp://127.0.0.1:9/other\n2\n{other}\nq\n");
        let (_, shown) = answering(&answers, |prompter| choose_key(prompter, &settings).err());
        assert_eq!(shown.matches("Send ").count(), 1, "only for another server: {shown}");
    }
}

#[test]
fn headers_of_the_config_go_to_no_other_server() {
    let (url, requests) = phi3_server();
    let headers = "headers = { authorization = 'Bearer corp' }\n";
    let variable = "SYSOP_PROVIDERS__OPENAI__BASE_URL";
    let typed = format!("4\n{url}\n4\n\ny\n");
    let (of_corp, same) = ("base_url = 'http://corp/v1'\n", format!("base_url = '{url}/other'\n"));
    for (address, environment, answers, is_kept) in [
        (of_corp, vec![], typed.as_str(), false),
        ("", vec![], &typed, false),
        (&same, vec![], &typed, true),
        (of_corp, vec![], "2\n1\ngpt\ny\n", false),
        ("base_url = 'https://api.openai.com/v1/'\n", vec![], "2\n1\ngpt\ny\n", true),
        (of_corp, vec![(variable, url.as_str())], "2\ny\n3\npasted\n\ny\n", false),
        ("", vec![(variable, url.as_str())], "2\ny\n3\npasted\n\ny\n", false),
        (&same, vec![(variable, url.as_str())], "2\ny\n3\npasted\n\ny\n", true),
    ] {
        let world = World::new().own(&format!("[providers.openai]\n{address}{headers}"));
        let settings = settings(&world, &environment);
        let ((), shown) = answering(answers, |prompter| {
            let setup = choose_key(prompter, &settings).unwrap();
            propose(prompter, &settings, &setup).unwrap();
        });
        // Without a key for the vendor, nothing is tried.
        let request = (!answers.starts_with("2\n1\n")).then(|| requests.try_recv().expect(&shown));
        let has_header = request.as_ref().map(|request| request.contains("Bearer corp"));
        assert!(has_header.is_none_or(|has| has == is_kept), "{address}{environment:?}: {request:?}");
        assert_eq!(shown.contains("providers.openai.headers"), !is_kept, "{shown}");
        let next = &self::settings(&world, &environment).providers["openai"];
        assert_eq!(next.headers.len(), usize::from(is_kept), "{address}{environment:?}: {shown}");
    }
}

#[test]
fn keys_of_the_config_stay_for_their_own_server_only_although_a_variable_overrides_them() {
    let (url, _requests) = phi3_server();
    let variables = ["SYSOP_PROVIDERS__OPENAI__API_KEY", "SYSOP_PROVIDERS__OPENAI__API_KEY_ENV"];
    let corp = "base_url = 'http://corp/v1'\n";
    let same = format!("base_url = '{url}'\n");
    let typed = format!("4\n{url}\ny\n\ny\n");
    for (address, variable, answers, is_kept) in [
        (corp, variables[0], typed.as_str(), false),
        ("", variables[0], &typed, false),
        (&same, variables[0], &typed, true),
        // The variable is not set, so nothing is tried at the vendor's.
        (corp, variables[1], "2\ngpt\ny\n", false),
        ("", variables[1], "2\ngpt\ny\n", true),
    ] {
        let world = World::new().own(&format!("[providers.openai]\n{address}api_key = 'old'\n"));
        let settings = settings(&world, &[(variable, "OURS")]);
        let ((), shown) = answering(answers, |prompter| {
            let setup = choose_key(prompter, &settings).unwrap();
            propose(prompter, &settings, &setup).unwrap();
        });
        let next = &self::settings(&world, &[]).providers["openai"];
        assert_eq!(next.api_key.is_some(), is_kept, "{address}{variable}: {shown}");
    }
}

#[test]
fn a_key_for_the_server_of_a_variable_is_written_with_its_address() {
    let (url, _requests) = phi3_server();
    for (number, provider) in [("2", "OPENAI"), ("1", "ANTHROPIC")] {
        let variable = format!("SYSOP_PROVIDERS__{provider}__BASE_URL");
        let usual = format!("{provider}_API_KEY");
        for (place, key, is_written) in
            [("3\npasted\n", "pasted", true), ("2\nCORP_KEY\n", "corp", true), ("1\n", "vendor", false)]
        {
            let world = World::new();
            let keys = [("CORP_KEY", "corp"), (usual.as_str(), "vendor")];
            let environment = [keys.as_slice(), &[(variable.as_str(), url.as_str())]].concat();
            let settings = settings(&world, &environment);
            let ((), shown) = answering(&format!("{number}\ny\n{place}phi3\ny\n"), |prompter| {
                let setup = choose_key(prompter, &settings).unwrap();
                propose(prompter, &settings, &setup).unwrap();
            });
            let next = &self::settings(&world, &keys).providers[&provider.to_lowercase()];
            assert_eq!(next.base_url.as_ref(), is_written.then_some(&url), "{shown}");
            assert_eq!(next.api_key.as_ref().unwrap().expose_secret(), key, "{shown}");
        }
    }
    let world = World::new();
    let settings = settings(&world, &[("SYSOP_PROVIDERS__OPENAI__BASE_URL", "127.0.0.1:9")]);
    let (refused, _) = answering("2\n", |prompter| choose_key(prompter, &settings).err());
    let refused = refused.unwrap().to_string();
    assert!(refused.starts_with("SYSOP_PROVIDERS__OPENAI__BASE_URL is not an http:// or"), "{refused}");
}

#[test]
fn a_password_in_the_address_of_a_variable_is_neither_shown_nor_written() {
    let (world, (url, _requests)) = (World::new(), phi3_server());
    let url = url.replace("http://", "http://joe:correcthorse@");
    let environment = [("SYSOP_PROVIDERS__OPENAI__BASE_URL", url.as_str()), ("OPENAI_API_KEY", "usual")];
    let settings = settings(&world, &environment);
    let (refused, shown) =
        answering("2\ny\n3\npasted\nphi3\n", |prompter| choose_key(prompter, &settings).err());
    let refused = refused.expect(&shown).to_string();
    let start = "the address in SYSOP_PROVIDERS__OPENAI__BASE_URL contains a user name or password";
    assert!(refused.starts_with(start), "{refused}");
    let (setup, usual) = answering("2\ny\n1\nphi3\n", |prompter| choose_key(prompter, &settings).unwrap());
    assert_eq!(setup.changes, model("openai/phi3"), "the address stays in the variable: {usual}");
    assert!(![refused, shown, usual].concat().contains("correcthorse"));
}

#[cfg(unix)]
#[test]
fn a_key_stays_as_it_was_if_the_config_cannot_be_written() {
    // No temporary file fits beside a target with such a long name.
    let target = "x".repeat(255);
    for old in [Some("old\n"), None] {
        let world = World::new().file(&target, "");
        let folder = world.folders().config.join("sysop");
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(world.folders().home.join(&target), folder.join("config.toml")).unwrap();
        let file = folder.join("openai.key");
        old.map_or(Ok(()), |text| std::fs::write(&file, text)).unwrap();
        let settings = settings(&world, &[]);
        let key = Some((file.clone(), "new".into()));
        let setup = Setup { changes: model("openai/gpt"), key, ..Setup::default() };
        let (failed, _) = answering("y\n", |prompter| propose(prompter, &settings, &setup));
        let error = failed.unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.ends_with("config.toml"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).ok().as_deref(), old);
    }
}

#[test]
fn an_error_names_both_the_config_and_the_key_that_cannot_be_restored() {
    let file = World::new().folders().home.join("missing").join("openai.key");
    let setup = Setup { key: Some((file, "new".into())), ..Setup::default() };
    for old in [None, Some(b"old".as_slice())] {
        let error = format!("{:#}", restore_key(&setup, old, anyhow::anyhow!("cannot write config.toml")));
        assert!(error.starts_with("cannot restore the key in "), "{error}");
        assert!(error.contains("openai.key: ") && error.ends_with(": cannot write config.toml"), "{error}");
    }
}

#[test]
fn a_rejected_key_that_overrides_the_config_is_not_asked_for_again() {
    let (world, url) = (World::new(), server("HTTP/1.1 401 Unauthorized", "{}"));
    let settings = settings(&world, &[("SYSOP_PROVIDERS__OPENAI__API_KEY", "ours")]);
    let answers = format!("4\n{url}\ny\n1\nphi3\n");
    let (setup, shown) = answering(&answers, |prompter| choose_key(prompter, &settings).unwrap());
    assert!(shown.contains("\n  [1] continue anyway\n"), "{shown}");
    assert!(setup.changes.contains(&model("openai/phi3")[0]), "{shown}");
}

#[test]
fn the_server_that_was_written_is_asked_although_variables_override_it() {
    let (url, requests) = phi3_server();
    let elsewhere = "http://127.0.0.1:9/elsewhere";
    for address in ["SYSOP_PROVIDERS__OPENAI__BASE_URL", "LLM_BASE_URL"] {
        let world = World::new();
        let environment = [("SYSOP_MODEL", "gemini/flash"), ("SYSOP_APPROVE", "each"), (address, elsewhere)];
        let settings = settings(&world, &environment);
        let (setup, shown) = answering(&format!("4\n{url}\n3\npasted\n\ny\n"), |prompter| {
            let mut setup = choose_key(prompter, &settings).unwrap();
            setup.changes.push((KeyPath::from("approve"), "each".to_owned()));
            propose(prompter, &settings, &setup).unwrap();
            setup
        });
        for (variable, key, used) in
            [("SYSOP_MODEL", "model", "gemini/flash"), (address, "providers.openai.base_url", elsewhere)]
        {
            let warning = format!(
                "warning: the variable {variable} overrides `{key}`: sysop uses {used} until you unset it\n"
            );
            assert!(shown.contains(&warning), "{shown}");
        }
        assert!(!shown.contains("SYSOP_APPROVE"), "the same value is no reason to warn: {shown}");
        while requests.try_recv().is_ok() {} // those of the questions
        let flags = GlobalFlags { root: Some(world.root()), ..GlobalFlags::default() };
        let written = load_as_written(&settings, &flags, &setup).unwrap();
        let line = crate::wait_for(written_server_answer(written)).unwrap();
        assert_eq!(line, Some(format!("{url} answers and offers 1 model.")));
        let request = requests.try_recv().unwrap();
        assert!(request.contains("Bearer pasted\r\n"), "{request}");
    }
}

#[test]
fn a_variable_that_overrides_a_removed_address_is_named() {
    let (url, _requests) = phi3_server();
    let variable = "SYSOP_PROVIDERS__OPENAI__BASE_URL";
    let world = World::new().own("[providers.openai]\nbase_url = 'http://127.0.0.1:9/v1'\n");
    let settings = settings(&world, &[(variable, &url), ("OPENAI_API_KEY", "usual")]);
    let (setup, shown) = answering("2\ny\n1\nphi3\ny\n", |prompter| {
        let setup = choose_key(prompter, &settings).unwrap();
        propose(prompter, &settings, &setup).unwrap();
        setup
    });
    let warning = format!(
        "warning: the variable {variable} overrides `providers.openai.base_url`: sysop uses {url} until you unset it\n"
    );
    assert!(shown.contains(&warning), "{shown}");
    let flags = GlobalFlags { root: Some(world.root()), ..GlobalFlags::default() };
    let openai = &load_as_written(&settings, &flags, &setup).unwrap().providers["openai"];
    assert_eq!((&openai.base_url, key_text(openai)), (&None, Some("usual")), "the server is OpenAI's");
}

#[test]
fn a_change_that_only_removes_keys_says_so() {
    let world = World::new().own("model = \"openai/gpt\"\n\n[providers.openai]\napi_key = 'old'\n");
    let settings = settings(&world, &[]);
    let removed = vec![KeyPath::from("providers.openai.api_key")];
    let setup = Setup { changes: model("openai/gpt"), removed, ..Setup::default() };
    let (written, shown) = answering("y\n", |prompter| propose(prompter, &settings, &setup));
    written.unwrap();
    assert!(shown.contains("config.toml will lose: providers.openai.api_key\nWrite it?"), "{shown}");
    assert!(!shown.contains("will get"), "{shown}");
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
fn a_name_that_the_server_offers_is_accepted_although_it_looks_like_an_address() {
    let name = "mistral-small3.1:2503";
    let world = World::new();
    let settings = settings(&world, &[]);
    let models = OllamaAnswer::Models(vec!["phi3".to_owned(), name.to_owned()]);
    let ollama = OllamaServer::answering(&settings, models);
    let typed = format!("{name}\n");
    let (changes, _) = answering(&typed, |prompter| choose_ollama(prompter, &ollama).unwrap());
    assert_eq!(changes, model(&format!("ollama/{name}")));
    let url = server(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json",
        r#"{"data":[{"id":"phi3"},{"id":"mistral-small3.1:2503"}]}"#,
    );
    let answers = format!("4\n{url}\n4\n{typed}");
    let (setup, shown) = answering(&answers, |prompter| choose_key(prompter, &settings).unwrap());
    assert!(setup.changes.contains(&model(&format!("openai/{name}"))[0]), "{shown}");
}

#[test]
fn a_model_that_the_server_does_not_list_can_be_entered_again() {
    let (world, (url, _)) = (World::new(), phi3_server());
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
        ("", OllamaAnswer::Absent, "press q and set OLLAMA_HOST to its address."),
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
fn an_address_without_a_scheme_is_no_name_of_a_model_and_gets_an_offer() {
    for address in ["http://box", "127.0.0.1:19402", "[::1]:11434", "localhost:1234", "box.lan:80"] {
        assert!(is_address(address), "{address}");
    }
    for name in ["qwen3", "qwen2.5:7b", "llama3.1:8", "hf.co/me/model.gguf:8000", "phi3:latest"] {
        assert!(!is_address(name), "{name}");
    }
    let world = World::new();
    let settings = settings(&world, &[]);
    let (_, shown) =
        answering("4\n127.0.0.1:8000/v1\n10.0.0.7\nq\n", |prompter| choose_key(prompter, &settings).err());
    assert!(shown.contains("Not a URL: did you mean `http://127.0.0.1:8000/v1`?\n"), "{shown}");
    assert!(shown.contains("Not a URL. Start it with http:// or https://"), "{shown}");
}

#[test]
fn a_chosen_variable_that_is_not_set_is_told_at_once() {
    let world = World::new();
    let settings = settings(&world, &[]);
    let (_, shown) = answering("1\n2\nCORP_KEY\nq\n", |prompter| choose_key(prompter, &settings).err());
    assert!(
        shown.contains("Name of the variable [q quits]: Set CORP_KEY before you start sysop.\n"),
        "{shown}"
    );
}

#[test]
fn a_question_is_wrapped_between_words() {
    let (mut input, mut output) = (&b"web1\n"[..], Vec::new());
    let mut prompter = Prompter { input: &mut input, output: &mut output, columns: Some(20) };
    assert_eq!(prompter.ask("Host to run on [Enter for this machine]: ").unwrap(), "web1");
    assert_eq!(String::from_utf8(output).unwrap(), "Host to run on\n[Enter for this\nmachine]: ");
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
        let is_canceled = ended.err().is_some_and(|error| error.is::<Cancellation>());
        assert_eq!(is_canceled, !is_written, "{answer}");
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
