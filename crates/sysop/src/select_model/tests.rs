//! Order of the selection, and the request to Ollama.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use sysop_core::ui_text::split_hint;

use super::ollama::CHOSEN_TIME_MAX;
use super::{ModelChoice, OllamaAnswer, OllamaServer, require_key, select_model};
use crate::config::tests::World;
use crate::exit::Exit;
use crate::global_flags::GlobalFlags;
use crate::settings::{ColorMode, Settings};

fn settings(environment: &[(&str, &str)]) -> Settings {
    let world = World::new();
    let flags = GlobalFlags { root: Some(world.root()), ..GlobalFlags::default() };
    Settings::from_parts(&flags, environment.iter().copied().collect(), world.folders(), ColorMode::Off)
        .unwrap()
}

fn absent(settings: &Settings) -> OllamaServer {
    OllamaServer::answering(settings, OllamaAnswer::Absent)
}

fn with_models(settings: &Settings, names: &[&str]) -> OllamaServer {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    OllamaServer::answering(settings, OllamaAnswer::Models(names))
}

fn picked(environment: &[(&str, &str)]) -> (String, String) {
    let settings = settings(environment);
    let ollama = OllamaServer::new(&settings);
    let ModelChoice { model, reason } = select_model(&settings, &ollama).unwrap();
    assert!(!ollama.is_asked(), "Ollama is asked only if nothing else matched");
    (model.to_string(), reason)
}

fn pair(model: &str, reason: &str) -> (String, String) {
    (model.to_owned(), reason.to_owned())
}

#[test]
fn a_model_without_its_key_is_a_usage_error() {
    let check = |environment: &[(&str, &str)]| {
        let settings = settings(environment);
        let pick = select_model(&settings, &absent(&settings)).unwrap();
        require_key(&settings, &pick)
    };
    for (model, variable) in [
        ("openai/gpt-4", "OPENAI_API_KEY"),
        ("anthropic/claude-x", "ANTHROPIC_API_KEY"),
        ("gemini/gemini-x", "GEMINI_API_KEY"),
    ] {
        let refused = check(&[("SYSOP_MODEL", model)]).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        let (what, hint) = split_hint(&refused.message);
        assert_eq!(what, format!("no API key for {model} (environment SYSOP_MODEL)"));
        let hint = hint.unwrap();
        assert!(hint.starts_with(&format!("set {variable}, ")) && hint.contains("`sysop init`"), "{hint}");
        check(&[("SYSOP_MODEL", model), (variable, "k")]).unwrap();
    }
    check(&[("SYSOP_MODEL", "ollama/phi3")]).unwrap();
    check(&[("SYSOP_MODEL", "demo")]).unwrap();
    check(&[("SYSOP_MODEL", "openai/x"), ("LLM_BASE_URL", "http://127.0.0.1:1/v1")]).unwrap();
}

#[test]
fn the_hint_names_the_variable_that_counts() {
    let said = |file: &str, environment: &[(&str, &str)]| {
        let world = World::new().file(".config/sysop/config.toml", file);
        let flags = GlobalFlags { root: Some(world.root()), ..GlobalFlags::default() };
        let environment = environment.iter().copied().collect();
        let settings = Settings::from_parts(&flags, environment, world.folders(), ColorMode::Off).unwrap();
        let pick = select_model(&settings, &absent(&settings)).unwrap();
        require_key(&settings, &pick).unwrap_err().message
    };
    let vendor = [("SYSOP_MODEL", "openai/x"), ("LLM_BASE_URL", "https://api.openai.com/v1")];
    let text = said("[providers.openai]\napi_key_env = 'CORP_KEY'\n", &vendor);
    assert!(
        text.contains("SYSOP_MODEL): LLM_BASE_URL is set, so the key must be in LLM_AUTH_TOKEN; "),
        "{text}"
    );
    assert!(text.contains("; set LLM_AUTH_TOKEN, run `sysop init`"), "{text}");
    let text = said("[providers.openai]\napi_key_env = 'CORP_KEY'\n", &vendor[..1]);
    assert!(text.contains(" is not set; set CORP_KEY, run"), "{text}");
}

#[test]
fn the_first_source_wins() {
    let mut environment = vec![
        ("SYSOP_MODEL", "ollama/phi3"),
        ("LLM_BASE_URL", "http://127.0.0.1:8000"),
        ("LLM_DEFAULT_MODEL", "azure/gpt-5-1"),
        ("LLM_SMALL_FAST_MODEL", "azure/gpt-5-mini"),
        ("OPENAI_API_KEY", "k"),
        ("GEMINI_API_KEY", "k"),
        ("GOOGLE_API_KEY", "k"),
        ("ANTHROPIC_API_KEY", "k"),
    ];
    assert_eq!(picked(&environment), pair("ollama/phi3", "environment SYSOP_MODEL"));
    environment.remove(0);
    assert_eq!(
        picked(&environment),
        pair("openai/azure/gpt-5-1", "LLM_BASE_URL and LLM_DEFAULT_MODEL are set")
    );
    environment.remove(1);
    assert_eq!(picked(&environment).0, "openai/azure/gpt-5-mini");
    environment.remove(1);
    assert_eq!(picked(&environment).0, "openai/default");
    environment.remove(0);
    assert_eq!(picked(&environment), pair("openai/gpt-6.1-terra", "OPENAI_API_KEY is set"));
    environment.remove(0);
    assert_eq!(picked(&environment), pair("gemini/gemini-3.8-flash", "GEMINI_API_KEY is set"));
    environment.remove(0);
    assert_eq!(picked(&environment), pair("gemini/gemini-3.8-flash", "GOOGLE_API_KEY is set"));
    environment.remove(0);
    assert_eq!(picked(&environment), pair("anthropic/claude-sonnet-5-5", "ANTHROPIC_API_KEY is set"));
}

#[test]
fn an_invalid_address_leads_to_no_other_provider() {
    assert_eq!(picked(&[("LLM_BASE_URL", "nonsense"), ("GEMINI_API_KEY", "k")]).0, "openai/default");
}

#[test]
fn credentials_in_an_address_are_hidden() {
    let settings = settings(&[("OLLAMA_HOST", "http://me:pass@box:1234")]);
    let reason = select_model(&settings, &with_models(&settings, &["phi3"])).unwrap().reason;
    assert_eq!(reason, "found in Ollama at http://[set]@box:1234");
    assert!(!select_model(&settings, &absent(&settings)).unwrap_err().to_string().contains("pass"));
}

#[test]
fn ollama_is_the_last_resort() {
    let settings = settings(&[("OLLAMA_HOST", "box:1234"), ("OPENAI_API_KEY", "")]);
    let ollama = with_models(&settings, &["phi3:latest", "llama3:8b"]);
    let found = select_model(&settings, &ollama).unwrap();
    assert_eq!(found.model.to_string(), "ollama/phi3:latest");
    assert_eq!(found.reason, "found in Ollama at http://box:1234");
}

#[test]
fn without_a_model_the_error_has_a_hint() {
    let settings = settings(&[]);
    for (nothing, phrase, start) in [
        (absent(&settings), "no Ollama at http://127.0.0.1:11434", "run `sysop init`, "),
        (
            with_models(&settings, &[]),
            "Ollama at http://127.0.0.1:11434 has no chat model",
            "run `ollama pull qwen3`, run `sysop init`, ",
        ),
    ] {
        let text = select_model(&settings, &nothing).unwrap_err().to_string();
        let (failure, hint) = split_hint(&text);
        assert_eq!(failure, format!("no model configured, and {phrase}"));
        let hint = hint.unwrap();
        assert!(hint.starts_with(start), "{hint}");
        assert!(hint.contains("ANTHROPIC_API_KEY") && hint.contains("sysop --model demo"), "{text}");
    }
}

#[test]
fn an_ollama_that_is_too_slow_is_not_called_absent() {
    for (environment, time, phrase) in [
        (&[][..], 300, "Ollama at http://127.0.0.1:11434 did not answer within 300 ms"),
        (&[("OLLAMA_HOST", "box")], 3_000, "Ollama at http://box:11434 did not answer within 3 s"),
    ] {
        let settings = settings(environment);
        let slow = OllamaServer::answering(&settings, OllamaAnswer::TimedOut);
        assert_eq!(slow.time_max(), Duration::from_millis(time), "{phrase}");
        let text = select_model(&settings, &slow).unwrap_err().to_string();
        assert_eq!(split_hint(&text).0, format!("no model configured, and {phrase}"));
    }
    assert_eq!(OllamaServer::new(&settings(&[])).with_patience().time_max(), CHOSEN_TIME_MAX);
}

/// Answers one request with these bytes and returns the request.
fn answering(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/ollama/", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    (address, served)
}

#[test]
fn the_models_of_an_ollama_are_listed() {
    let (address, served) = answering(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"models\":[\
         {\"name\":\"nomic-embed-text:latest\",\"model\":\"x\"},\
         {\"name\":\"bge\",\"capabilities\":[\"embedding\"]},\
         {\"name\":\"qwen3:8b\",\"capabilities\":[\"completion\",\"tools\"]},{\"name\":\"phi3:latest\"}]}",
    );
    let ollama = OllamaServer::at(&address);
    assert_eq!(ollama.models(), ["qwen3:8b", "phi3:latest"]);
    assert!(served.join().unwrap().starts_with("GET /ollama/api/tags HTTP/1.0\r\nHost: 127.0.0.1:"));
    assert_eq!(ollama.models(), ["qwen3:8b", "phi3:latest"], "it is asked once");
}

#[test]
fn a_server_that_is_not_ollama_has_no_models() {
    for answer in ["HTTP/1.1 404 Not Found\r\n\r\n{}", "HTTP/1.1 200 OK\r\n\r\n<html>", "HTTP/1.1 200 OK", ""]
    {
        let (address, served) = answering(answer);
        assert_eq!(*OllamaServer::at(&address).answer(), OllamaAnswer::Absent, "{answer:?}");
        served.join().unwrap();
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(*OllamaServer::at(&format!("http://{free}")).answer(), OllamaAnswer::Absent);
    assert_eq!(*OllamaServer::at("https://127.0.0.1").answer(), OllamaAnswer::Absent);
}

#[test]
fn a_silent_ollama_is_skipped() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = OllamaServer::at(&format!("http://{}", silent.local_addr().unwrap()));
    assert_eq!(*server.within(Duration::from_millis(20)).answer(), OllamaAnswer::TimedOut);
}

#[test]
fn only_an_address_of_this_machine_counts_as_such() {
    for address in ["http://127.0.0.1:11434", "http://localhost:1", "http://[::1]:11434", "http://127.9.9.9"]
    {
        assert!(OllamaServer::at(address).is_on_this_machine(), "{address}");
    }
    for address in ["http://box:11434", "http://10.0.0.5:11434", "https://localhost.example.org", "nonsense"]
    {
        assert!(!OllamaServer::at(address).is_on_this_machine(), "{address}");
    }
}
