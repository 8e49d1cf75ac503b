//! Report lines and exit codes.

use std::path::Path;

use async_trait::async_trait;

use super::{DoctorProbe, data_hint, examine, fit, unusable};
use crate::config::tests::World;
use crate::exit::{CommandError, Exit};
use crate::global_flags::GlobalFlags;
use crate::select_model::{OllamaAnswer, OllamaServer, select_model};
use crate::settings::{ColorMode, ProviderSettings, Settings, SshTarget};

struct FakeDoctorProbe {
    database: Result<String, String>,
    models: Result<Vec<String>, String>,
}

#[async_trait]
impl DoctorProbe for FakeDoctorProbe {
    async fn database(&self, _data: &Path) -> Result<String, String> {
        self.database.clone()
    }

    async fn models(&self, _provider: &str, _settings: &ProviderSettings) -> Result<Vec<String>, String> {
        self.models.clone()
    }

    async fn host(&self, target: &SshTarget) -> Result<String, String> {
        if target.name == "dead" {
            Err("dead: nobody answers".to_owned())
        } else {
            Ok("Linux x86_64".to_owned())
        }
    }
}

fn well() -> FakeDoctorProbe {
    FakeDoctorProbe { database: Ok("2 sessions".to_owned()), models: Ok(vec!["phi3:latest".to_owned()]) }
}

fn settings(world: &World, environment: &[(&str, &str)]) -> Settings {
    let flags = GlobalFlags { root: Some(world.root()), ..GlobalFlags::default() };
    let path = ("PATH", std::env::var("PATH").unwrap());
    let environment = environment.iter().map(|(name, value)| (*name, (*value).to_owned())).chain([path]);
    Settings::from_parts(&flags, environment.collect(), world.folders(), ColorMode::Off).unwrap()
}

async fn report(settings: &Settings, probe: &FakeDoctorProbe) -> (String, Exit) {
    let absent = OllamaServer::answering(settings, OllamaAnswer::Absent);
    examine(settings, select_model(settings, &absent), probe).await
}

#[test]
fn a_report_fits_the_terminal() {
    let report = "FAIL  model     no model configured on this machine\n                -> run `sysop init` to set one up\n\
                  No problems found.\n";
    let fitted = "FAIL  model     no model configured on this\n                machine\n\
                  \x20               -> run `sysop init` to set\n                   one up\nNo problems found.\n";
    assert_eq!(fit(report, 44), fitted);
    assert_eq!(fit(report, 80), report);
}

#[tokio::test]
async fn a_healthy_setup_exits_0() {
    let world = World::new();
    let (text, exit) = report(&settings(&world, &[("SYSOP_MODEL", "ollama/phi3")]), &well()).await;
    assert_eq!(exit, Exit::Done, "{text}");
    assert!(text.contains("ok    model     ollama/phi3 (environment SYSOP_MODEL)\n"), "{text}");
    assert!(text.contains("ok    provider  ollama: reachable; phi3:latest\n"), "{text}");
    assert!(text.contains("ok    database  2 sessions\n"), "{text}");
    assert!(text.ends_with("No problems found.\n"), "{text}");
}

#[tokio::test]
async fn mistakes_in_the_config_are_problems_or_at_least_mentioned() {
    let report_on = async |text: &str| {
        let world = World::new().own(text);
        report(&settings(&world, &[("SYSOP_MODEL", "demo")]), &well()).await
    };
    let (text, exit) = report_on("max_iteration = 5\n").await;
    assert_eq!(exit, Exit::Done, "{text}");
    assert!(text.ends_with("Tasks can run. 1 note about the config above.\n"), "{text}");
    for denying in [
        "[[policy.rules]]\naction = 'deny'\nmatch = { progam = 'touch' }\n",
        "deny = ['(']\n",
        "denny = ['reboot']\n",
        "dangerous_patterns = ['(']\n",
    ] {
        let (text, exit) = report_on(denying).await;
        assert_eq!(exit, Exit::Failed, "{text}");
        assert!(
            text.starts_with("FAIL  config    ") && text.contains("are denied until it is fixed"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_full_disk_is_not_a_matter_of_rights() {
    assert!(data_hint(std::io::ErrorKind::StorageFull).contains("XDG_DATA_HOME=/dev/shm/"));
    assert!(data_hint(std::io::ErrorKind::PermissionDenied).starts_with("make it writable"));
    let world = World::new();
    let probe = FakeDoctorProbe { database: Err("the disk is full; use another disk".to_owned()), ..well() };
    let (text, _) = report(&settings(&world, &[("SYSOP_MODEL", "demo")]), &probe).await;
    assert!(
        text.contains("FAIL  database  the disk is full\n                -> use another disk\n"),
        "{text}"
    );
}

#[tokio::test]
async fn the_demo_needs_no_provider() {
    let world = World::new();
    let probe = FakeDoctorProbe { models: Err("nobody answers".to_owned()), ..well() };
    let (text, exit) = report(&settings(&world, &[("SYSOP_MODEL", "demo")]), &probe).await;
    assert_eq!(exit, Exit::Done, "{text}");
}

#[tokio::test]
async fn each_problem_is_a_line_with_a_hint() {
    let world = World::new();
    let no_model = report(&settings(&world, &[]), &well()).await;
    let probe = FakeDoctorProbe { models: Err("nobody answers".to_owned()), ..well() };
    let no_provider = report(&settings(&world, &[("SYSOP_MODEL", "ollama/phi3")]), &probe).await;
    let no_key = report(&settings(&world, &[("SYSOP_MODEL", "gemini/x")]), &well()).await;
    let probe = FakeDoctorProbe { database: Err("sysop.db is no database".to_owned()), ..well() };
    let no_database = report(&settings(&world, &[("SYSOP_MODEL", "demo")]), &probe).await;
    let world = World::new().file(".local/share/sysop", "a file in the way");
    let no_folder = report(&settings(&world, &[("SYSOP_MODEL", "demo")]), &well()).await;
    let world = World::new().file(".config/sysop/config.toml", "[connection]\nhost = 'dead'\n");
    let no_host = report(&settings(&world, &[("SYSOP_MODEL", "demo")]), &well()).await;
    for ((text, exit), bad, hint) in [
        (no_model, "FAIL  model     no model configured", "sysop --model demo"),
        (no_provider, "FAIL  provider  ollama: nobody answers", "ollama serve"),
        (no_key, "FAIL  provider  gemini: not configured", "set GEMINI_API_KEY"),
        (no_database, "FAIL  database  sysop.db is no database", "try again"),
        (no_folder, "FAIL  data      ", "XDG_DATA_HOME"),
        (no_host, "FAIL  host      dead", "ssh dead"),
    ] {
        assert_eq!(exit, Exit::Failed, "{text}");
        let mut lines = text.lines().skip_while(|line| !line.starts_with(bad));
        assert!(lines.next().is_some(), "{bad} is missing:\n{text}");
        let next = lines.next().unwrap();
        assert!(next.starts_with("                -> ") && next.contains(hint), "{text}");
        assert_eq!(text.matches("FAIL  ").count(), 1, "{text}");
    }
}

#[tokio::test]
async fn a_missing_model_is_reported() {
    let world = World::new();
    let (text, exit) = report(&settings(&world, &[("SYSOP_MODEL", "ollama/qwen3")]), &well()).await;
    assert_eq!(exit, Exit::Failed);
    assert!(text.starts_with("FAIL  model     ollama does not list the model qwen3\n"), "{text}");
    assert!(text.contains("-> ollama pull qwen3") && text.contains("reachable; phi3:latest"), "{text}");
    assert!(!text.contains("ok    model "), "{text}");
    let gemini = [("SYSOP_MODEL", "gemini/new"), ("GEMINI_API_KEY", "k")];
    let (text, exit) = report(&settings(&world, &gemini), &well()).await;
    assert_eq!(exit, Exit::Done, "a server may know more names than it lists");
    assert!(text.contains("note  model     gemini does not list the model new"), "{text}");
    let own_server = [("LLM_BASE_URL", "http://127.0.0.1:9/v1"), ("LLM_DEFAULT_MODEL", "qwen")];
    let (text, exit) = report(&settings(&world, &own_server), &well()).await;
    assert_eq!(exit, Exit::Done, "a server with a single model may accept any name: {text}");
    assert!(text.contains("note  model     openai does not list the model qwen"), "{text}");
    assert!(text.contains("-> if it does not answer: sysop config set model openai/phi3:latest"), "{text}");
}

#[tokio::test]
async fn a_server_without_a_model_name_is_noted() {
    let (world, environment) = (World::new(), [("LLM_BASE_URL", "http://127.0.0.1:9/v1")]);
    for (models, hint) in [
        (vec!["phi3".to_owned()], "sysop config set model openai/phi3\n"),
        (
            vec!["phi3".to_owned(), "qwen".to_owned()],
            "sysop config set model openai/phi3, or another of `sysop models`\n",
        ),
        (Vec::new(), "set LLM_DEFAULT_MODEL, or run `sysop init`\n"),
    ] {
        let (text, exit) =
            report(&settings(&world, &environment), &FakeDoctorProbe { models: Ok(models), ..well() }).await;
        assert_eq!(exit, Exit::Done, "a server with a single model may accept any name: {text}");
        let note = "note  model     no model name: vLLM, and servers with several models, need one\n";
        assert!(text.contains(&format!("{note}                -> {hint}")), "{text}");
        assert!(text.contains("\nTasks can run if the server needs no model name."), "{text}");
        assert!(!text.contains("ok    model ") && !text.contains("No problems found."), "{text}");
    }
    let mistaken = World::new().own("max_iteration = 5\n");
    let (text, _) = report(&settings(&mistaken, &environment), &well()).await;
    assert!(
        text.ends_with(" See the note about the model above. 1 note about the config above.\n"),
        "{text}"
    );
    let default = FakeDoctorProbe { models: Ok(vec!["default".to_owned()]), ..well() };
    assert!(!report(&settings(&world, &environment), &default).await.0.contains("no model name"));
    let named = [environment[0], ("LLM_DEFAULT_MODEL", "default")];
    let (text, _) = report(&settings(&world, &named), &well()).await;
    assert!(text.contains("note  model     openai does not list the model default"), "{text}");
}

#[tokio::test]
async fn a_problem_names_its_provider_once() {
    let world = World::new();
    let gemini = settings(&world, &[("SYSOP_MODEL", "gemini/new"), ("GEMINI_API_KEY", "k")]);
    for (problem, line) in [
        ("cannot connect to gemini at https://g (refused); retry", "cannot connect to gemini at https://g"),
        ("gemini returned 401: bad key; check it", "gemini returned 401: bad key"),
        ("no key; set it", "gemini: no key"),
    ] {
        let probe = FakeDoctorProbe { models: Err(problem.to_owned()), ..well() };
        let (text, _) = report(&gemini, &probe).await;
        assert!(text.contains(&format!("FAIL  provider  {line}")), "{text}");
    }
}

#[tokio::test]
async fn selected_hosts_are_checked_and_others_listed() {
    let mut config = "[hosts.web1]\nhost = '10.0.0.1'\nuser = 'deploy'\nport = 2222\ntags = ['prod']\n\
                      root = '/srv'\ndescription = 'shop'\n[hosts.dead]\ntags = ['prod']\n\
                      [hosts.spare]\ntags = ['old', 'db']\n"
        .to_owned();
    for number in 0..30 {
        config.push_str(&format!("[hosts.more{number}]\ndescription = 'x'\n"));
    }
    let world = World::new().own(&config);
    let flags = GlobalFlags {
        host: Some("@prod".to_owned()),
        canary: std::num::NonZeroUsize::new(1),
        ..GlobalFlags::default()
    };
    let environment = [("SYSOP_MODEL".to_owned(), "demo".to_owned())].into_iter().collect();
    let settings = Settings::from_parts(&flags, environment, world.folders(), ColorMode::Off).unwrap();
    let (text, exit) = report(&settings, &well()).await;
    assert_eq!(exit, Exit::Failed);
    for line in [
        "ok    host      web1 (-p 2222 deploy@10.0.0.1), root /srv, shop: Linux x86_64\n",
        "FAIL  host      dead: nobody answers\n                -> run `ssh dead` to see the error\n",
        "ok    canary    changes run on 1 of the hosts first\n",
        "note  host      spare, tags old, db; not selected\n",
        "note  host      more18, x; not selected\nnote  host      and 11 more; see `sysop config show`\n",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    assert!(!text.contains("ok    root"), "the root is on the hosts:\n{text}");
}

#[tokio::test]
async fn the_remote_ollama_is_checked_on_a_remote_host() {
    let world = World::new();
    let (text, _) = report(&settings(&world, &[("SYSOP_MODEL", "demo")]), &well()).await;
    assert!(text.contains("note  provider  not configured: "), "{text}");
    assert!(text.contains(", ollama+ssh"), "{text}");
    let (text, _) = report(&settings(&world, &[("SYSOP_MODEL", "ollama+ssh/phi3")]), &well()).await;
    let missing =
        "FAIL  provider  ollama+ssh: not configured\n                -> ollama+ssh needs a host: --host DEST";
    assert!(text.contains(missing), "{text}");
    let problems =
        text.lines().take_while(|line| line.starts_with("FAIL") || line.starts_with("    ")).count();
    assert_eq!(problems, 4, "problems come first: {text}");
    let config = "[connection]\nhost = 'web1'\n[model]\nname = 'phi3'\n";
    let world = World::new().file(".config/sysop/config.toml", config);
    let (text, _) = report(&settings(&world, &[]), &well()).await;
    assert!(text.contains("ok    provider  ollama+ssh: reachable; phi3:latest\n"), "{text}");
}

#[tokio::test]
async fn the_report_contains_no_secret() {
    let world = World::new().file(".config/sysop/config.toml", "[providers.gemini]\napi_key = 'hidden'\n");
    let keys = [("OPENAI_API_KEY", "hidden"), ("SYSOP_MODEL", "openai/x")];
    let (text, _) = report(&settings(&world, &keys), &well()).await;
    assert!(text.contains("openai: reachable (key: environment OPENAI_API_KEY)"), "{text}");
    assert!(!text.contains("hidden"), "{text}");
}

#[cfg(unix)]
#[tokio::test]
async fn programs_in_the_workspace_are_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new().file("work/ssh", "#!/bin/sh\ntouch ran\n").file("work/bash", "#!/bin/sh\n");
    for name in ["ssh", "bash"] {
        let path = world.root().join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let flags = GlobalFlags { root: Some(world.root()), ..GlobalFlags::default() };
    let environment = [("PATH", "."), ("SYSOP_MODEL", "demo")].into_iter().collect();
    let settings = Settings::from_parts(&flags, environment, world.folders(), ColorMode::Off).unwrap();
    let (text, exit) = report(&settings, &well()).await;
    assert_eq!(exit, Exit::Failed);
    assert!(
        text.contains("FAIL  bash      not found") && text.contains("note  ssh       not found"),
        "{text}"
    );
    assert!(!world.root().join("ran").exists());
}

#[test]
fn unloadable_settings_are_reported() {
    let (text, exit) = unusable(&CommandError::usage("c.toml:3: this is not TOML: x; put that line right"));
    assert_eq!(exit, Exit::Failed);
    assert!(text.starts_with(
        "FAIL  config    c.toml:3: this is not TOML: x\n                -> put that line right\n"
    ));
}
