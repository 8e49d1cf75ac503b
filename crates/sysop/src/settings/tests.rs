//! Settings from flags, environment and files.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::ExposeSecret;
use sysop_core::budget::{Budget, BudgetLimits};
use sysop_core::catalog::Profile;
use sysop_core::effort::Effort;
use sysop_core::message::ModelRef;
use sysop_core::model_limits::ModelLimits;
use sysop_core::model_table::ModelPrice;
use sysop_core::policy::ApprovalMode;
use sysop_provider::OpenAiApi;
use sysop_term::ThemeName;

use super::{ColorMode, HostChoice, Settings, color};
use crate::config::tests::World;
use crate::config::{ConfigWarning, Environment, KEYS, KeyPath, ListKind, TextKind, ValueKind};
use crate::exit::{CommandError, Exit};
use crate::global_flags::GlobalFlags;

const OWN: &str = ".config/sysop/config.toml";

pub(crate) fn load(
    world: &World,
    flags: &GlobalFlags,
    environment: &[(&str, &str)],
) -> Result<Settings, CommandError> {
    let flags = GlobalFlags { root: flags.root.clone().or(Some(world.root())), ..flags.clone() };
    Settings::from_parts(&flags, environment.iter().copied().collect(), world.folders(), ColorMode::Off)
}

fn settings(config: &str, environment: &[(&str, &str)]) -> Settings {
    load(&World::new().file(OWN, config), &GlobalFlags::default(), environment).unwrap()
}

fn key_of(settings: &Settings, provider: &str) -> Option<String> {
    settings.providers[provider].api_key.as_ref().map(|key| key.expose_secret().to_owned())
}

#[test]
fn defaults_match_the_documentation() {
    let settings = settings("", &[]);
    assert_eq!(settings.approve(&settings.host), ApprovalMode::Ask);
    assert_eq!(settings.profile, Profile::Full);
    assert_eq!(settings.host, HostChoice::Local);
    let limits = settings.limits;
    assert_eq!((limits.iterations, limits.history_messages), (20, 0));
    assert_eq!((limits.output_bytes, limits.output_lines), (51_200, 500));
    assert_eq!((limits.output_tokens, limits.tool_timeout), (None, None));
    assert_eq!(settings.dangerous_patterns.len(), 5);
    assert!(settings.model.is_none() && settings.deny.is_empty() && settings.problems.is_empty());
}

#[test]
fn a_complete_config_is_read() {
    let settings = settings(
        "model = 'openai/x'\ntool_timeout_s = 7\ntemperature = 0\ndeny = ['a']\n\
         [providers.openai]\nbase_url = 'http://h/v1'\ntimeout_s = 9\napi = 'chat'\neffort = 'xhigh'\nheaders = { X-A = 'b' }\n\
         [providers.ollama]\nnum_ctx = 4096\nkeep_alive = -1\n\
         [providers.vertex]\nproject = 'p'\nlocation = 'l'\n\
         [routines.service]\ncmd = 'restart {{name}}'\nvars = { name = { description = 'd', pattern = '^x$' } }\n\
         [routines.empty]\ndescription = 'nothing'\n",
        &[],
    );
    let openai = &settings.providers["openai"];
    assert_eq!(
        (openai.base_url.as_deref(), openai.timeout),
        (Some("http://h/v1"), Some(Duration::from_secs(9)))
    );
    assert_eq!((openai.api, openai.effort), (OpenAiApi::Chat, Some(Effort::XHigh)));
    assert_eq!((openai.headers[0].0.as_str(), openai.headers[0].1.expose_secret()), ("X-A", "b"));
    let ollama = &settings.providers["ollama"];
    assert_eq!((ollama.num_ctx, ollama.keep_alive.as_deref()), (Some(4096), Some("-1")));
    let vertex = &settings.providers["vertex"];
    assert_eq!((vertex.project.as_deref(), vertex.location.as_deref()), (Some("p"), Some("l")));
    assert_eq!(settings.limits.tool_timeout, Some(Duration::from_secs(7)));
    assert_eq!((settings.temperature, settings.deny.as_slice()), (Some(0.0), ["a".to_owned()].as_slice()));
    let service = settings.routine("service").unwrap();
    assert_eq!(service.vars["name"].pattern.as_deref(), Some("^x$"));
    assert!(settings.warnings()[0].message.contains("\"empty\" has no `cmd`"), "{:?}", settings.warnings());
    assert!(settings.routine("servce").unwrap_err().message.contains("did you mean `service`?"));
}

#[test]
fn every_key_fits_the_type_that_reads_it() {
    let value = |kind: ValueKind| match kind {
        ValueKind::Text(TextKind::Word { words, .. }) => format!("{:?}", words[0]),
        ValueKind::Text(TextKind::Url) => "'http://127.0.0.1'".to_owned(),
        ValueKind::Text(_) => "'x'".to_owned(),
        ValueKind::Integer { most, .. } => most.to_string(),
        ValueKind::Number { most, .. } => format!("{most:?}"),
        ValueKind::Switch => "true".to_owned(),
        ValueKind::List(ListKind::Models) => "['ollama/*']".to_owned(),
        ValueKind::List(ListKind::Variables) => "['X']".to_owned(),
        ValueKind::List(_) => "['/x']".to_owned(),
    };
    let mut text = String::new();
    for key in KEYS {
        let names = key.pattern.iter().enumerate().map(|(at, name)| match *name {
            "*" if key.pattern[0] == "providers" && at == 1 => "openai",
            "*" => "x",
            name => name,
        });
        writeln!(text, "{} = {}", KeyPath::new(names), value(key.kind)).unwrap();
    }
    let settings = settings(&text, &[]);
    let complaints = settings.warnings().iter().filter(|warning| {
        // The text names every key, also those that exclude each other.
        !warning.message.contains("chmod") && !warning.message.contains("both `command` and `url`")
    });
    assert_eq!(complaints.collect::<Vec<_>>(), Vec::<&ConfigWarning>::new());
    assert_eq!(settings.routine("x").unwrap().vars["x"].default.as_deref(), Some("x"));
    assert_eq!(settings.providers["ollama"].num_ctx, Some(100_000_000));
    assert_eq!(settings.hosts.known[0].target.port, Some(65_535));
}

#[test]
fn guards_are_on_unless_their_seconds_are_0() {
    assert_eq!(settings("", &[]).undo_bytes, sysop_host::UNDO_BYTES_DEFAULT);
    assert_eq!(settings("[undo]\nmegabytes = 0\n", &[]).undo_bytes, 0);
    assert_eq!(settings("", &[]).guard_seconds, sysop_host::GUARD_SECONDS_DEFAULT);
    assert_eq!(settings("[guard]\nseconds = 300\n", &[]).guard_seconds, 300);
    assert_eq!(settings("[guard]\nseconds = 0\n", &[]).guard_seconds, 0);
}

#[test]
fn limits_of_models_are_read() {
    let written = settings(
        "ledger_only = true\n[models.\"openai/qwen2.5:7b\"]\ncontext_window = 8192\nmax_output_tokens = 1024\nvision = \
         false\n",
        &[],
    );
    let limits = ModelLimits {
        context_window: Some(8192),
        max_output_tokens: Some(1024),
        vision: Some(false),
        price: None,
    };
    assert_eq!(written.models["openai/qwen2.5:7b"], limits);
    assert!(written.ledger_only && !settings("", &[]).ledger_only);
    assert!(written.warnings().is_empty(), "{:?}", written.warnings());
}

#[test]
fn a_budget_is_read_and_flags_replace_its_limits() {
    let config = "[budget]\nturn = { cost = 0.5, minutes = 20 }\n[budget.session]\ncost = 5\ntokens = 1000000\nminutes = 60\n[budget.day]\nminutes = 90\n";
    let written = settings(config, &[]);
    assert!(written.warnings().is_empty(), "{:?}", written.warnings());
    let turn = BudgetLimits { cost: Some(0.5), tokens: None, minutes: Some(20) };
    let session = BudgetLimits { cost: Some(5.0), tokens: Some(1_000_000), minutes: Some(60) };
    assert_eq!(written.budget, Budget { turn, session });
    assert_eq!(written.day_budget, BudgetLimits { minutes: Some(90), ..BudgetLimits::default() });
    let flags = GlobalFlags { max_cost: Some(0.1), max_minutes: Some(3), ..GlobalFlags::default() };
    let flagged = load(&World::new().file(OWN, config), &flags, &[]).unwrap();
    let turn = BudgetLimits { minutes: Some(3), ..turn };
    assert_eq!(flagged.budget, Budget { turn, session: BudgetLimits { cost: Some(0.1), ..session } });
}

#[test]
fn theme_and_prices_are_read() {
    let written = settings(
        "theme = \"light\"\n[prices.\"anthropic/claude.x\"]\ninput = 3.0\noutput = \
         15\n[prices.\"ollama/q\"]\ncached = 0.3\n",
        &[],
    );
    assert_eq!(written.theme, ThemeName::Light);
    assert_eq!(
        written.prices["anthropic/claude.x"],
        ModelPrice { input: 3.0, output: 15.0, ..ModelPrice::default() }
    );
    assert_eq!(written.prices["ollama/q"], ModelPrice { cached: Some(0.3), ..ModelPrice::default() });
    assert!(written.warnings().is_empty(), "{:?}", written.warnings());
    assert_eq!(settings("", &[]).theme, ThemeName::Dark);
    assert_eq!(settings("", &[("COLORFGBG", "0;15")]).theme, ThemeName::Light);
    assert_eq!(settings("theme = \"light\"", &[("NO_COLOR", "1")]).theme, ThemeName::None);
    assert_eq!(settings("theme = \"pink\"", &[]).warnings().len(), 1);
    // A theme picked in a front end is saved, unless another source overrides it.
    assert_eq!(settings("", &[("COLORFGBG", "0;15")]).theme_decided_by, None);
    let decided = written.theme_decided_by.expect("the file decides");
    assert!(decided.ends_with("config.toml:1"), "{decided}");
    for (name, value) in [("NO_COLOR", "1"), ("SYSOP_THEME", "dark")] {
        assert_eq!(settings("", &[(name, value)]).theme_decided_by, Some(format!("environment {name}")));
    }
}

#[test]
fn flags_override_everything() {
    let world = World::new().file(OWN, "model = 'openai/x'\napprove = 'never'\nprofile = 'operator'\n");
    let flags = GlobalFlags {
        model: Some(ModelRef::new("ollama", "phi3")),
        approve: Some(ApprovalMode::Auto),
        profile: Some(Profile::Coder),
        ..GlobalFlags::default()
    };
    let settings = load(&world, &flags, &[("SYSOP_MODEL", "gemini/y"), ("SYSOP_APPROVE", "ask")]).unwrap();
    let model = settings.model.as_ref().unwrap();
    assert_eq!(
        (model.value.to_string(), model.origin.to_string()),
        ("ollama/phi3".into(), "flag --model".into())
    );
    assert_eq!((settings.approve(&settings.host), settings.profile), (ApprovalMode::Auto, Profile::Coder));
}

#[test]
fn the_ssh_config_is_found_in_the_home_or_by_its_setting() {
    let named = |text: &str| {
        let world = World::new().own(&format!("ssh_config = '{text}'\n"));
        let settings = load(&world, &GlobalFlags::default(), &[]).unwrap();
        (settings.ssh_config.unwrap(), world)
    };
    let (path, world) = named("~/.ssh/work");
    assert_eq!(path, world.folders().home.join(".ssh/work"));
    let (path, world) = named("hosts.conf");
    assert_eq!(path, world.folders().config.join("sysop/hosts.conf"));
    assert_eq!(named("/etc/hosts.conf").0, std::path::Path::new("/etc/hosts.conf"));
}

#[test]
fn the_host_flag_overrides_the_configured_host() {
    let jexida = "[connection]\nhost = '192.168.1.224'\nuser = 'jexida'\n[model]\nname = 'phi3'\n";
    let world = World::new().file(".jexida/config.toml", jexida);
    let settings = load(&world, &GlobalFlags::default(), &[]).unwrap();
    assert_eq!(settings.host.to_string(), "jexida@192.168.1.224");
    assert_eq!(settings.model.as_ref().unwrap().value.to_string(), "ollama+ssh/phi3");
    settings.require_runnable().unwrap();

    let here = GlobalFlags { host: Some("local".into()), ..GlobalFlags::default() };
    let settings = load(&world, &here, &[]).unwrap();
    assert_eq!(settings.host, HostChoice::Local);
    assert_eq!(settings.model.as_ref().unwrap().value.to_string(), "ollama/phi3");
    settings.require_runnable().unwrap();

    let there = GlobalFlags { host: Some("web1".into()), ..GlobalFlags::default() };
    let settings = load(&world, &there, &[]).unwrap();
    assert_eq!(settings.host.to_string(), "web1");
}

#[test]
fn a_bare_model_name_means_ollama_on_the_tools_host() {
    let there = "[connection]\nhost = 'web1'\n";
    for (config, environment, model) in [
        ("[model]\nname = 'phi3'\n", vec![], "ollama/phi3"),
        ("[model]\nname = 'phi3'\n", vec![("SYSOP_CONNECTION__HOST", "web1")], "ollama+ssh/phi3"),
        (
            "[model]\nname = 'hf.co/me/x:Q4'\n[connection]\nhost = 'web1'\n",
            vec![],
            "ollama+ssh/hf.co/me/x:Q4",
        ),
        ("[model]\nname = 'phi3'\n[connection]\nhost = 'local'\n", vec![], "ollama/phi3"),
        ("[model]\nname = 'phi3'\nprovider = 'ollama'\n[connection]\nhost = 'web1'\n", vec![], "ollama/phi3"),
        (there, vec![("SYSOP_MODEL", "gemini/x")], "gemini/x"),
    ] {
        let settings = settings(config, &environment);
        assert_eq!(settings.model.unwrap().value.to_string(), model, "{config} {environment:?}");
    }
    assert_eq!(settings(there, &[]).model, None);
}

#[test]
fn a_wrong_address_of_the_models_provider_is_an_error() {
    let config = "[providers.openai]\nbase_url = '127.0.0.1:8000/v1'\n";
    let variable = vec![("LLM_BASE_URL", "me:secret@127.0.0.1:9"), ("LLM_AUTH_TOKEN", "k")];
    let openai = "model = 'openai/x'\n";
    for (config, environment, words) in [
        (
            config.to_owned(),
            vec![("OPENAI_API_KEY", "k")],
            ["config.toml:2: ", "did you mean `http://127.0.0.1:8000/v1`?"],
        ),
        (format!("{openai}{config}"), vec![], ["config.toml:3: ", "not an http:// or https:// URL"]),
        (
            "[providers.gemini]\nbase_url = '127.0.0.1:9'\n".to_owned(),
            vec![("GEMINI_API_KEY", "k")],
            ["config.toml:2: ", "`http://127.0.0.1:9`?"],
        ),
        (
            format!("{openai}[providers.openai]\nbase_url = 8000\n"),
            vec![],
            ["config.toml:3: ", "set it to the URL"],
        ),
        (
            format!("{openai}[providers.openai]\nbase_url = ''\n"),
            vec![],
            ["config.toml:3: ", "set it to the URL"],
        ),
        (
            String::new(),
            vec![("LLM_BASE_URL", " "), ("OPENAI_API_KEY", "k")],
            ["LLM_BASE_URL is not an http:// or https:// URL", "set it to"],
        ),
        (String::new(), variable.clone(), ["LLM_BASE_URL is not", "`http://[set]@127.0.0.1:9`?"]),
        (openai.to_owned(), vec![("LLM_BASE_URL", "ftp://x")], ["LLM_BASE_URL is not", "set it to the URL"]),
    ] {
        let settings = settings(&config, &environment);
        let refused = settings.require_runnable().unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        assert!(words.iter().all(|word| refused.message.contains(word)), "{refused}");
        assert!(!refused.message.contains("secret"), "{refused}");
        assert!(!settings.config.show().contains("secret"), "{}", settings.config.show());
        assert_eq!(settings.warnings(), [], "the error says it");
    }
    for (config, environment) in [
        (format!("model = 'ollama/phi3'\n{config}"), vec![]),
        (config.to_owned(), vec![("GEMINI_API_KEY", "k")]),
    ] {
        let other = settings(&config, &environment);
        other.require_runnable().unwrap();
        assert_eq!(other.warnings().len(), 1);
    }
    // A valid address takes the place of a wrong one.
    let environment = [("LLM_BASE_URL", "http://127.0.0.1:9/v1")];
    settings(config, &environment).require_runnable().unwrap();
}

#[test]
fn an_unknown_provider_or_profile_is_an_error() {
    for (config, environment, word) in [
        ("model = 'opnai/x'\n", vec![], "config.toml:1: unknown provider \"opnai\"; did you mean `openai`?"),
        ("", vec![("SYSOP_MODEL", "nobody/x")], "environment SYSOP_MODEL: unknown provider \"nobody\""),
        ("", vec![("SYSOP_MODEL", "phi3")], "environment SYSOP_MODEL: \"phi3\" names no provider"),
        ("[model]\nprovider = 'openai'\n", vec![], "config.toml:2: \"openai\" is a provider, not a model"),
        ("profile = 'codr'\n", vec![], "config.toml:1: unknown profile \"codr\"; did you mean `coder`?"),
        (
            "model = 'ollama+ssh/phi3'\n",
            vec![],
            "config.toml:1: ollama+ssh needs a host: --host DEST or [connection] in the config; use --model \
             ollama/phi3",
        ),
    ] {
        let refused = settings(config, &environment).require_runnable().unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        assert!(refused.message.contains(word), "{refused}");
    }
}

#[test]
fn a_root_must_be_a_directory() {
    let world = World::new().file("work/file", "");
    for wrong in ["absent", "file"] {
        let flags = GlobalFlags { root: Some(world.root().join(wrong)), ..GlobalFlags::default() };
        let refused = load(&world, &flags, &[]).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        assert!(refused.message.contains("--root"), "{refused}");
    }
    let through = GlobalFlags { root: Some(world.root().join("../work/.")), ..GlobalFlags::default() };
    assert_eq!(load(&world, &through, &[]).unwrap().root, world.root().canonicalize().unwrap());
}

#[test]
fn a_key_is_read_from_its_configured_variable() {
    let named = "[providers.openai]\napi_key_env = 'CORP_KEY'\napi_key = 'in-file'\n";
    let settings_named = settings(named, &[("CORP_KEY", "corp"), ("OPENAI_API_KEY", "open")]);
    assert_eq!(key_of(&settings_named, "openai").as_deref(), Some("corp"));
    assert!(settings_named.secret_variables.contains(&"CORP_KEY".to_owned()));
    let unset = settings(named, &[("OPENAI_API_KEY", "open")]);
    assert_eq!(key_of(&unset, "openai"), None, "a key for another server is no substitute");
    assert!(unset.providers["openai"].api_key_origin.as_ref().unwrap().contains("CORP_KEY"));
    let in_file = settings("[providers.gemini]\napi_key = 'in-file'\n", &[]);
    assert_eq!(key_of(&in_file, "gemini").as_deref(), Some("in-file"));
    let environment = settings("[providers.gemini]\napi_key = 'in-file'\n", &[("GOOGLE_API_KEY", "google")]);
    assert_eq!(key_of(&environment, "gemini").as_deref(), Some("google"));
    let ours = settings(named, &[("CORP_KEY", "corp"), ("SYSOP_PROVIDERS__OPENAI__API_KEY", "ours")]);
    assert_eq!(key_of(&ours, "openai").as_deref(), Some("ours"));
}

#[test]
fn the_places_of_address_and_key_are_known() {
    let sources = |file: &str, environment: &[(&str, &str)]| {
        let sources = settings(file, environment).providers["openai"].sources.clone();
        (sources.base_url, sources.api_key)
    };
    let some = |text: &str| Some(text.to_owned());
    let base = ("LLM_BASE_URL", "http://127.0.0.1:9/v1");
    assert_eq!(sources("", &[]), (None, None));
    assert_eq!(sources("", &[base]), (some("LLM_BASE_URL"), some("LLM_AUTH_TOKEN")));
    assert_eq!(sources("", &[("OPENAI_API_KEY", "k")]), (None, some("OPENAI_API_KEY")));
    let no_key = |file: &str, environment: &[(&str, &str)]| {
        settings(file, environment).providers["openai"].sources.no_key.clone()
    };
    let unset = "no key was sent: LLM_AUTH_TOKEN is not set";
    assert_eq!(no_key("", &[base]).as_deref(), Some(unset));
    let other = format!("{unset}, and OPENAI_API_KEY is not sent to LLM_BASE_URL");
    assert_eq!(no_key("", &[base, ("OPENAI_API_KEY", "k")]), Some(other));
    let other = format!("{unset}, and the key in the config is not sent to LLM_BASE_URL");
    assert_eq!(no_key("[providers.openai]\napi_key = 'k'\n", &[base]), Some(other));
    for sent in [("LLM_AUTH_TOKEN", "k"), ("SYSOP_PROVIDERS__OPENAI__API_KEY", "k")] {
        assert_eq!(no_key("", &[base, sent]), None);
    }
    assert_eq!(no_key("", &[("OPENAI_API_KEY", "k")]), None);
    let (base_url, _) = sources("[providers.openai]\nbase_url = 'http://127.0.0.1:9/v1'\n", &[]);
    let base_url = base_url.unwrap();
    assert!(base_url.starts_with("base_url at ") && base_url.ends_with("config.toml:2"), "{base_url}");
}

#[test]
fn a_key_is_not_sent_to_another_address() {
    let file = "[providers.openai]\napi_key = 'in-file'\nheaders = { authorization = 'in-file' }\n";
    let base = ("LLM_BASE_URL", "http://127.0.0.1:8000");
    for (config, environment) in [
        (file, vec![base]),
        ("[providers.openai]\napi_key_env = 'CORP_KEY'\n", vec![base, ("CORP_KEY", "corp")]),
        ("", vec![base, ("OPENAI_API_KEY", "open")]),
    ] {
        let settings = settings(config, &environment);
        assert_eq!(key_of(&settings, "openai"), None, "{config} {environment:?}");
        assert!(settings.providers["openai"].headers.is_empty());
    }
    let with_its_own = settings(file, &[base, ("LLM_AUTH_TOKEN", "token")]);
    assert_eq!(key_of(&with_its_own, "openai").as_deref(), Some("token"));
    let without_address = settings("", &[("LLM_AUTH_TOKEN", "token")]);
    assert_eq!(key_of(&without_address, "openai"), None);
}

#[test]
fn a_key_that_the_config_names_for_a_server_comes_before_the_usual_variable() {
    let world = World::new().file("openai.key", "of-file\n");
    let file = format!("api_key_file = '{}'\n", world.folders().home.join("openai.key").display());
    let usual = ("OPENAI_API_KEY", "usual");
    let key = |table: &str, environment: &[(&str, &str)]| {
        let world = World::new().file(OWN, &format!("[providers.openai]\n{table}"));
        key_of(&load(&world, &GlobalFlags::default(), environment).unwrap(), "openai")
    };
    let base = "base_url = 'http://h/v1'\n";
    for (table, expected) in [
        (format!("{base}{file}"), Some("of-file")),
        (file.clone(), Some("of-file")),
        (format!("{base}api_key_env = ''\n"), None),
        (format!("{base}{file}api_key_env = ''\n"), None),
        (format!("{base}api_key = 'literal'\n"), Some("literal")),
        (base.to_owned(), Some("usual")),
        (format!("{base}{file}api_key = 'literal'\n"), Some("of-file")),
        (format!("{file}api_key = 'literal'\n"), Some("of-file")),
    ] {
        assert_eq!(key(&table, &[usual]).as_deref(), expected, "{table}");
    }
    assert_eq!(key(&format!("{file}api_key = 'literal'\n"), &[]).as_deref(), Some("of-file"));
    let address = ("SYSOP_PROVIDERS__OPENAI__BASE_URL", "http://other/v1");
    assert_eq!(key(&format!("{base}{file}"), &[usual, address]).as_deref(), Some("usual"), "of that server");
    let of_corp = world.folders().home.join("openai.key");
    let of_corp = ("SYSOP_PROVIDERS__OPENAI__API_KEY_FILE", of_corp.to_str().unwrap());
    for table in ["", base] {
        assert_eq!(
            key(table, &[usual, address, of_corp]).as_deref(),
            Some("of-file"),
            "named for that server"
        );
    }
    let ours = ("SYSOP_PROVIDERS__OPENAI__API_KEY", "ours");
    assert_eq!(key(&format!("{base}{file}api_key_env = ''\n"), &[usual, ours]).as_deref(), Some("ours"));
}

#[test]
fn a_key_of_a_file_is_not_sent_to_the_server_of_a_variable() {
    let world = World::new().file("openai.key", "of-file\n");
    let file = format!("api_key_file = '{}'\n", world.folders().home.join("openai.key").display());
    let named = "api_key_env = 'CORP_KEY'\n";
    let variable = "SYSOP_PROVIDERS__OPENAI__BASE_URL";
    let openai = |table: &str, address| {
        let table = format!("[providers.openai]\n{table}headers = {{ X-A = 'b' }}\n");
        settings(&table, &[(variable, address), ("CORP_KEY", "corp")])
    };
    for (setting, expected) in
        [(file.as_str(), "of-file"), (named, "corp"), ("api_key = 'literal'\n", "literal")]
    {
        let of_corp = format!("base_url = 'http://corp/v1'\n{setting}");
        for (table, address) in [
            (of_corp.as_str(), "http://other/v1"),
            (setting, "http://other/v1"),
            (&of_corp, "https://api.openai.com/v1"),
        ] {
            let settings = openai(table, address);
            let other = &settings.providers["openai"];
            assert!(other.api_key.is_none() && other.headers.is_empty(), "{table} {address}");
            let why = other.sources.no_key.clone().unwrap_or_default();
            assert!(why.ends_with(&format!(" is not sent to the server of {variable}")), "{why}");
            assert!(
                has_secret(&settings, expected) && has_secret(&settings, "b"),
                "the model may not see it"
            );
            let is_scrubbed = settings.secret_variables.iter().any(|name| name == "CORP_KEY");
            assert_eq!(is_scrubbed, setting == named, "{table}");
        }
        for (table, address) in [(of_corp.as_str(), "http://corp"), (setting, "https://api.openai.com/v1/")] {
            let settings = openai(table, address);
            assert_eq!(key_of(&settings, "openai").as_deref(), Some(expected), "{table} {address}");
            assert_eq!(settings.providers["openai"].headers.len(), 1);
        }
    }
}

/// Returns true if the model may not see this text.
fn has_secret(settings: &Settings, text: &str) -> bool {
    settings.secrets().iter().any(|secret| secret.expose_secret() == text)
}

#[test]
fn a_key_without_a_vendor_and_an_empty_name_are_for_any_server() {
    let ollama = settings("[providers.ollama]\napi_key = 'k'\n", &[("OLLAMA_HOST", "http://box:11434")]);
    assert_eq!(key_of(&ollama, "ollama").as_deref(), Some("k"));
    let address = ("SYSOP_PROVIDERS__OPENAI__BASE_URL", "http://other/v1");
    let none = settings("[providers.openai]\napi_key_env = ''\n", &[address, ("OPENAI_API_KEY", "vendor")]);
    assert_eq!(key_of(&none, "openai"), None, "the server needs no key");
}

#[test]
fn a_variable_named_for_a_key_is_secret_also_if_another_key_counts() {
    let file = "[providers.openai]\nbase_url = 'http://corp/v1'\napi_key_env = 'CORP_KEY'\n";
    let corp = ("CORP_KEY", "corp");
    for other in [
        ("SYSOP_PROVIDERS__OPENAI__API_KEY", "ours"),
        ("SYSOP_PROVIDERS__OPENAI__API_KEY_ENV", "OTHER_KEY"),
        ("LLM_BASE_URL", "http://other/v1"),
    ] {
        let settings = settings(file, &[corp, other]);
        assert_ne!(key_of(&settings, "openai").as_deref(), Some("corp"));
        assert!(settings.secret_variables.contains(&"CORP_KEY".to_owned()), "{other:?}");
        assert!(has_secret(&settings, "corp"), "{other:?}");
    }
    let ollama = "[providers.ollama]\nbase_url = 'http://corp'\napi_key_env = 'CORP_KEY'\n";
    let settings = settings(ollama, &[corp, ("OLLAMA_HOST", "other")]);
    assert_eq!(key_of(&settings, "ollama"), None);
    assert!(settings.secret_variables.contains(&"CORP_KEY".to_owned()) && has_secret(&settings, "corp"));
}

#[test]
fn a_secret_that_a_variable_replaces_stays_hidden_from_the_model() {
    let world = World::new().file("old.key", "of-old-file\n").file("new.key", "of-new-file\n");
    let path = |name: &str| world.folders().home.join(name).display().to_string();
    let file = format!(
        "[providers.openai]\napi_key = 'literal'\napi_key_file = '{}'\nheaders = {{ x = 'header' }}\n",
        path("old.key")
    );
    let new_file = path("new.key");
    let settings = settings(
        &file,
        &[
            ("SYSOP_PROVIDERS__OPENAI__API_KEY", "ours"),
            ("SYSOP_PROVIDERS__OPENAI__API_KEY_FILE", &new_file),
            ("SYSOP_PROVIDERS__OPENAI__HEADERS__X", "our-header"),
        ],
    );
    for secret in ["literal", "of-old-file", "of-new-file", "header", "ours", "our-header"] {
        assert!(has_secret(&settings, secret), "{secret}");
    }
}

#[test]
fn a_key_for_vertex_in_a_file_is_for_its_vendor() {
    let vertex = |address| {
        let variable = ("SYSOP_PROVIDERS__VERTEX__BASE_URL", address);
        key_of(&settings("[providers.vertex]\napi_key = 'k'\n", &[variable]), "vertex")
    };
    assert_eq!(vertex("https://aiplatform.googleapis.com").as_deref(), Some("k"));
    assert_eq!(vertex("https://other.example"), None);
}

#[test]
fn the_hint_about_a_missing_key_names_the_setting() {
    let no_key = |table: &str| {
        let settings = settings(&format!("[providers.openai]\nbase_url = 'http://h/v1'\n{table}"), &[]);
        settings.providers["openai"].sources.no_key.clone().unwrap_or_default()
    };
    assert_eq!(no_key(""), "");
    let none = no_key("api_key_env = ''\n");
    assert!(none.starts_with("no key was sent: api_key_env is empty at ") && none.ends_with(":3"), "{none}");
    let unset = no_key("api_key_env = 'CORP_KEY'\n");
    assert!(unset.starts_with("no key was sent: environment variable CORP_KEY, named at "), "{unset}");
}

#[test]
fn settings_do_not_print_secrets() {
    let settings = settings(
        "[providers.openai]\napi_key = 'hidden'\nheaders = { a = 'hidden' }\n",
        &[("GEMINI_API_KEY", "hidden")],
    );
    let openai = format!("{:?}", settings.providers);
    assert!(!openai.contains("hidden"), "{openai}");
    assert!(!format!("{settings:?}").contains("hidden"), "not even the environment");
}

#[test]
fn text_in_place_of_a_key_is_not_redacted() {
    let secrets = |key| {
        let settings = settings("[providers.openai]\nheaders = { a = 'none' }\n", &[("OPENAI_API_KEY", key)]);
        settings.secrets().iter().map(|secret| secret.expose_secret().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(secrets("none"), ["none"], "the value of the header alone");
    assert_eq!(secrets("sk-no-key-required"), ["none"]);
    assert_eq!(secrets("sk-1234"), ["sk-1234", "none"]);
}

#[test]
fn key_variables_are_listed_for_removal() {
    let settings = settings("", &[("SYSOP_PROVIDERS__OPENAI__HEADERS__X", "hidden")]);
    for name in [
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "ANTHROPIC_API_KEY",
        "LLM_AUTH_TOKEN",
        "SYSOP_TOKEN",
        "SYSOP_PROVIDERS__OLLAMA_SSH__API_KEY",
        "SYSOP_PROVIDERS__OPENAI__HEADERS__X",
    ] {
        assert!(settings.secret_variables.contains(&name.to_owned()), "{name}");
    }
}

#[test]
fn color_follows_the_terminal_and_environment() {
    let flags = GlobalFlags::default();
    let none = Environment::default();
    assert_eq!(color(&flags, &none, true), ColorMode::On);
    assert_eq!(color(&flags, &none, false), ColorMode::Off);
    let off: Environment = [("NO_COLOR", "1")].into_iter().collect();
    assert_eq!(color(&flags, &off, true), ColorMode::Off);
    let empty: Environment = [("NO_COLOR", "")].into_iter().collect();
    assert_eq!(color(&flags, &empty, true), ColorMode::On);
    let dumb: Environment = [("TERM", "dumb")].into_iter().collect();
    assert_eq!(color(&flags, &dumb, true), ColorMode::Off);
    assert_eq!(color(&GlobalFlags { no_color: true, ..flags }, &none, true), ColorMode::Off);
}

#[test]
fn a_named_config_file_replaces_the_users_own() {
    let world = World::new().file(OWN, "max_iterations = 2\n").file("given.toml", "max_output_lines = 3\n");
    let given: PathBuf = world.folders().home.join("given.toml");
    let flags = GlobalFlags { config: Some(given.clone()), ..GlobalFlags::default() };
    let settings = load(&world, &flags, &[]).unwrap();
    assert_eq!((settings.limits.iterations, settings.limits.output_lines), (20, 3));
    assert_eq!(settings.config.own_file, given);
}

#[test]
fn empty_tables_declare_variables_and_routines() {
    let config = "[routines.good]\ncmd = 'echo {{name}}'\nvars.name = {}\n[routines.empty]\n\
                  [[routines.stepped.steps]]\ncmd = 'echo {{other}}'\n";
    let settings = settings(config, &[]);
    let values = [("name".to_owned(), "a b".to_owned())];
    assert_eq!(settings.routine("good").unwrap().render(&values).unwrap(), "echo 'a b'");
    let error = settings.routine("empty").unwrap_err().to_string();
    assert_eq!(error, "the routine \"empty\" has no `cmd` and no `steps`");
    let warnings: Vec<String> = settings.warnings().iter().map(ToString::to_string).collect();
    let unknown = "unknown value {{other}}; the routine has no variables; \
                   declare it: vars.other = { description = \"…\" }";
    assert!(warnings.iter().any(|warning| warning.ends_with(unknown)), "{warnings:?}");
}

#[test]
fn another_name_for_the_address_of_a_host_is_corrected() {
    let settings = settings("[hosts.web1]\naddress = '10.0.0.1'\n", &[]);
    let warning = settings.warnings()[0].to_string();
    let expected = "`hosts.web1.address` is not a config key; did you mean `hosts.web1.host`?";
    assert!(warning.ends_with(expected), "{warning}");
}
