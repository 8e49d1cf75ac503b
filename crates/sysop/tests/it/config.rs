//! `sysop config`: path, effective values and warnings.

use crate::World;
use crate::support::{Mock, bash, say};

#[test]
fn path_prints_the_file_in_use() {
    let world = World::new();
    let ours = world.home().join(".config/sysop/config.toml");
    assert_eq!(world.run(&["config", "path"]).out, format!("{}\n", ours.display()));
    let world = world.variable("XDG_CONFIG_HOME", "/tmp/elsewhere");
    assert_eq!(world.run(&["config", "path"]).out, "/tmp/elsewhere/sysop/config.toml\n");
    let world = World::new().file(".jexida/config.toml", "[model]\nname = 'phi3'\n");
    let jexida = world.home().join(".jexida/config.toml");
    assert_eq!(world.run(&["config", "path"]).out, format!("{}\n", jexida.display()));
}

#[test]
fn show_prints_each_value_with_its_origin() {
    let world = World::new()
        .file(
            ".config/sysop/config.toml",
            "model = 'ollama/phi3'\nmax_iteration = 1\n[providers.gemini]\napi_key = 'x1y2z3'\n",
        )
        .file("work/.sysop.toml", "max_iterations = 3\nmodel = 'openai/evil'\n")
        .variable("SYSOP_MAX_OUTPUT_LINES", "77")
        .variable("OPENAI_API_KEY", "q7w8e9");
    let run = world.run(&["config", "show", "--approve", "never"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let config = world.home().join(".config/sysop/config.toml");
    let workspace = world.work().canonicalize().unwrap().join(".sysop.toml");
    for line in [
        format!("model = \"ollama/phi3\"  # {}:1", config.display()),
        format!("max_iterations = 3  # {}:1", workspace.display()),
        "max_output_lines = 77  # environment SYSOP_MAX_OUTPUT_LINES".to_owned(),
        "approve = \"never\"  # flag --approve".to_owned(),
        "max_output_bytes = 51200  # default".to_owned(),
        "providers.openai.api_key = [set]  # environment OPENAI_API_KEY".to_owned(),
        format!("providers.gemini.api_key = [set]  # {}:4", config.display()),
    ] {
        assert!(run.out.lines().any(|shown| shown == line), "{line} is missing:\n{}", run.out);
    }
    assert!(!format!("{run:?}").contains("x1y2z3") && !format!("{run:?}").contains("q7w8e9"), "{run:?}");
    assert!(
        run.err.contains(&format!(
            "{}:2: `max_iteration` is not a config key; did you mean `max_iterations`?\n",
            config.display()
        )),
        "{}",
        run.err
    );
    assert!(run.err.contains(&format!("{}:2: ignoring `model.name`", workspace.display())), "{}", run.err);
}

#[test]
fn get_prints_the_value_in_effect() {
    let world = World::new()
        .file(
            ".config/sysop/config.toml",
            "model = 'ollama/phi3'\nmax_iterations = 3\n[providers.gemini]\napi_key = 'x1y2z3'\ntimeout_s = 9\n",
        )
        .variable("SYSOP_MAX_ITERATIONS", "7");
    let config = world.home().join(".config/sysop/config.toml");
    let get = |arguments: &[&str]| {
        let run = world.run(&[&["config", "get"], arguments].concat());
        (run.code, run.out, run.err)
    };
    let value = |text: &str| (Some(0), text.to_owned(), String::new());
    assert_eq!(get(&["model"]), value("ollama/phi3\n"));
    assert_eq!(get(&["model.name"]), value("phi3\n"));
    assert_eq!(get(&["max_iterations"]), value("7\n"));
    assert_eq!(get(&["-v", "max_iterations"]), value("7  # environment SYSOP_MAX_ITERATIONS\n"));
    assert_eq!(get(&["guard.seconds", "-v"]), value("120  # default\n"));
    assert_eq!(get(&["approve", "--approve", "never"]), value("never\n"));
    assert_eq!(get(&["sandbox_write"]), value("[\"~/.cache\", \"~/.cargo\", \"~/.npm\"]\n"));
    let table = "providers.gemini.api_key = [set]\nproviders.gemini.timeout_s = 9\n";
    assert_eq!(get(&["providers.gemini"]), value(table));
    let secret = format!("[set]  # {}:4\n", config.display());
    assert_eq!(get(&["-v", "providers.gemini.api_key"]), value(&secret));
    let failed = |code, why: &str| (Some(code), String::new(), why.to_owned());
    assert_eq!(get(&["temperature"]), failed(1, "error: `temperature` is not set\n"));
    assert_eq!(get(&["hooks"]), failed(1, "error: `hooks` is not set\n"));
    let (code, out, err) = get(&["aprove"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("`aprove` is not a config key") && err.contains("did you mean `approve`?"), "{err}");
}

#[test]
fn programs_of_the_user_are_shown_and_set() {
    let text = "[[hooks]]\non = 'end'\nrun = ['/bin/log', '--token=abcdefghijklmnopqrst']\n[notify]\ncommand = ['ntfy']\n";
    let world = World::new()
        .file(".config/sysop/config.toml", text)
        .file("work/.sysop.toml", "[notify]\ncommand = ['evil']\n");
    let config = world.home().join(".config/sysop/config.toml");
    let run = world.run(&["config", "show", "--trust"]);
    let hook = format!("timeout_s = 10, on_error = \"ask\" }}  # {}:1\n", config.display());
    assert!(
        run.out.contains("hooks += { on = \"end\", run = [\"/bin/log\", ") && run.out.contains(&hook),
        "{run:?}"
    );
    assert!(run.out.contains(&format!("notify.command = [\"ntfy\"]  # {}:4\n", config.display())), "{run:?}");
    assert!(!run.out.contains("abcdefghijklmnopqrst") && !run.out.contains("evil"), "{run:?}");
    assert_eq!(world.run(&["config", "get", "notify.command"]).out, "[\"ntfy\"]\n");

    let set = world.run(&["config", "set", "notify.timeout_s", "20"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    assert_eq!(world.run(&["config", "get", "notify.timeout_s"]).out, "20\n");
    assert_eq!(set.err, "was: notify.timeout_s is not set\nnow: notify.timeout_s = 20\n");
    let set = world.run(&["config", "set", "hooks", "[{ on = 'prompt', run = ['/bin/check'] }]"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    assert!(world.run(&["config", "get", "hooks"]).out.contains("run = [\"/bin/check\"]"));
    let refused = world.run(&["config", "set", "hooks", "[{ on = 'prompt', run = [] }]"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("must name a program"), "{refused:?}");
    assert!(world.run(&["config", "get", "hooks"]).out.contains("run = [\"/bin/check\"]"));
}

#[test]
fn a_change_shows_the_old_and_the_new_value_without_secrets() {
    let text = "deny = ['reboot', 'halt']\n[providers.gemini]\napi_key = 'x1y2z3'\n";
    let world = World::new().file(".config/sysop/config.toml", text);
    let told = |line: &[&str]| {
        let run = world.run(&[&["config"], line].concat());
        assert_eq!((run.code, run.out.as_str()), (Some(0), ""), "{run:?}");
        run.err
    };
    let err = told(&["set", "deny", "reboot"]);
    assert_eq!(err, "was: deny = [\"reboot\", \"halt\"]\nnow: deny = [\"reboot\"]\n");
    let err = told(&["set", "providers.gemini.api_key", "a4b5c6"]);
    assert_eq!(err, "was: providers.gemini.api_key = [set]\nnow: providers.gemini.api_key = [set]\n");
    assert_eq!(told(&["unset", "deny"]), "was: deny = [\"reboot\"]\nnow: deny is not set\n");
    assert_eq!(told(&["set", "-q", "approve", "each"]), "");
}

#[test]
fn the_configured_time_limit_applies_to_calls_that_set_none() {
    let mock = Mock::start(&[("wait", vec![bash("sleep 1000"), say("It took too long.")])]);
    let world = World::with_openai(&mock.url()).variable("SYSOP_TOOL_TIMEOUT_S", "1");
    let run = world.finish(&["exec", "--approve", "auto", "wait for it"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.err.contains("timed out after the limit of 1 s"), "{run:?}");
    let body = mock.last_body().to_string();
    assert!(body.contains("[timed out after 1 s; stopped]") && body.contains("\"Default 1\""), "{body}");
}

#[test]
fn a_config_that_is_not_toml_exits_2() {
    let world = World::new().file(".config/sysop/config.toml", "max_iterations = 3\nbroken [\n");
    let run = world.run(&["config", "show"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    assert!(run.err.contains("config.toml:2: invalid TOML"), "{}", run.err);
}

#[test]
fn the_config_flag_replaces_the_default_file() {
    let world = World::new().file(".config/sysop/config.toml", "broken [").file(
        "given.toml",
        "[connection]\nhost = '192.168.1.224'\nuser = 'jexida'\n[model]\nname = 'phi3'\n",
    );
    let given = world.home().join("given.toml");
    let given = given.to_str().unwrap();
    let shown = world.run(&["config", "show", "--config", given]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(
        shown.out.contains(&format!("connection.host = \"192.168.1.224\"  # {given}:2")),
        "{}",
        shown.out
    );
}

#[test]
fn a_routine_with_missing_values_exits_2() {
    let world = World::new().file(
        ".config/sysop/config.toml",
        "[routines.service]\ncmd = 'systemctl restart {{name}}'\n\
         vars = { name = { description = 'unit name', pattern = '^[a-z]+$' } }\n",
    );
    for (line, word) in [
        (&["run", "service"][..], "add name=VALUE (unit name, must match \"^[a-z]+$\")"),
        (&["run", "service", "name=x; reboot"], "invalid value \"x; reboot\" for `name`"),
        (&["run", "service", "nam=x"], "unknown variable \"nam\"\nhint: available variables: name"),
        (&["run", "servic"], "did you mean `service`?"),
    ] {
        let run = world.run(line);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.err.contains(word) && run.err.starts_with("error: "), "{run:?}");
    }
}

#[test]
fn hosts_are_shown_with_their_origin() {
    let own = "[hosts.web1]\nhost = '10.0.0.1'\nport = 2222\ntags = ['prod', 'web']\n[hosts.'db.1']\nuser = 'ann'\n";
    let world = World::new().file(".config/sysop/config.toml", own);
    let run = world.variable("SYSOP_HOST", "@web").run(&["config", "show"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
    for line in [
        "connection.host = \"@web\"  # environment SYSOP_HOST",
        "hosts.web1.host = \"10.0.0.1\"  # ",
        "hosts.web1.port = 2222  # ",
        "hosts.web1.tags = [\"prod\", \"web\"]  # ",
        "hosts.\"db.1\".user = \"ann\"  # ",
    ] {
        assert!(run.out.lines().any(|shown| shown.starts_with(line)), "{line} is missing:\n{}", run.out);
    }
    assert!(run.out.contains("config.toml:4\n"), "{}", run.out);
}

#[test]
fn an_invalid_host_exits_2_and_runs_nothing() {
    for (flags, why) in [
        (["--host", "a b"], "invalid host \"a b\""),
        (["--host", "web1,-oProxyCommand=x"], "ssh would read it as an option"),
        (["--host", "@nothing"], "no host has the tag \"nothing\""),
        (["--host", "web1,web1"], "duplicate host web1"),
        (["--canary", "1"], "--canary 1 needs several hosts"),
        (["--canary", "0"], "--canary"),
    ] {
        let run = World::new().run(&["exec", "x", "--model", "demo", flags[0], flags[1]]);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
        assert!(run.err.contains(why), "{flags:?}: {}", run.err);
    }
}
