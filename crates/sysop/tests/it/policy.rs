//! `sysop policy check`, rules of config files, and headless tasks in each approval mode.

use crate::World;
use crate::support::{Mock, bash, say};

const CONFIG: &str = ".config/sysop/config.toml";

fn check(world: &World, arguments: &[&str]) -> serde_json::Value {
    let run = world.run(&[&["policy", "check", "--json"], arguments].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn check_prints_the_verdict_of_each_mode() {
    let world = World::new();
    for (mode, command, verdict, class) in [
        ("ask", "df -h", "allow", "read_only"),
        ("each", "df -h", "ask", "read_only"),
        ("never", "df -h", "allow", "read_only"),
        ("ask", "touch a", "ask", "changes"),
        ("auto", "touch a", "allow", "changes"),
        ("never", "touch a", "deny", "changes"),
        ("auto", "rm -rf /etc", "ask", "dangerous"),
    ] {
        let answer = check(&world, &["--mode", mode, command]);
        assert_eq!(
            (&answer["verdict"], &answer["class"]),
            (&verdict.into(), &class.into()),
            "{mode} {command}: {answer}"
        );
        assert!(answer["reasons"].is_array() && answer["targets"].is_array(), "{answer}");
    }
    let text = world.run(&["policy", "check", "rm -rf /etc"]);
    assert!(text.out.starts_with("ask: dangerous, may lock you out\n"), "{text:?}");
    assert!(world.run(&["policy", "check", "rm -rf a"]).out.starts_with("ask: dangerous\n"));
    assert!(text.out.contains("`") && text.out.contains("decided by approve = ask"), "{text:?}");
    let fish = check(&world, &["--mode", "auto", "--dialect", "fish", "touch a"]);
    assert_eq!((&fish["verdict"], &fish["class"]), (&"ask".into(), &"opaque".into()), "{fish}");
    let far = world.run(&["policy", "check", "--host", "web1", "ls"]);
    assert!(far.out.contains("are resolved when"), "{far:?}");
    let warning = "warning: web1 is not a configured host; the general settings were used\n";
    assert!(far.code == Some(0) && far.err == warning, "{far:?}");
    for usage in [&["policy"][..], &["policy", "check"], &["policy", "check", "--mode", "some", "ls"]] {
        assert_eq!(world.run(usage).code, Some(2), "{usage:?}");
    }
}

#[test]
fn a_hosts_restrictions_hold_under_each_name_and_in_each_list() {
    let world = World::new().file(
        CONFIG,
        "[hosts.prod]\nhost = '10.0.0.9'\napprove = 'never'\n[hosts.db]\n[hosts.web1]\n[hosts.web2]\n\
         [[policy.rules]]\naction = 'deny'\nmatch = { program = 'touch', host = 'db' }\n\
         [[policy.rules]]\naction = 'allow'\nmatch = { program = 'make', host = 'web*' }\n",
    );
    let world = world.variable("SYSOP_APPROVE", "auto");
    for (host, command, verdict) in [
        ("prod", "mkdir a", "deny"),
        ("10.0.0.9", "mkdir a", "deny"),
        ("ssh://root@10.0.0.9:2222", "mkdir a", "deny"),
        ("web1,10.0.0.9", "mkdir a", "deny"),
        ("web1", "mkdir a", "allow"),
        ("db", "touch a", "deny"),
        ("root@db", "touch a", "deny"),
        ("web1,db", "touch a", "deny"),
        ("web1,web2", "touch a", "allow"),
    ] {
        let answer = check(&world, &["--host", host, command]);
        assert_eq!(answer["verdict"], verdict, "{host} {command}: {answer}");
    }
    for (host, unknown) in [
        ("prod", ""),
        ("root@10.0.0.9", ""),
        ("docker:app", ""),
        ("pord", "warning: pord is not a configured host; the general settings were used\n"),
        ("web1,pord", "warning: pord is not a configured host; the general settings were used\n"),
    ] {
        let run = world.run(&["policy", "check", "--host", host, "ls"]);
        assert_eq!((run.code, run.err.as_str()), (Some(0), unknown), "{host}: {run:?}");
    }
    let loosened = check(&world, &["--mode", "auto", "--host", "prod", "mkdir a"]);
    assert_eq!(loosened["verdict"], "allow", "as after /approve auto: {loosened}");
    let decided = |host: &str| {
        let out = world.run(&["policy", "check", "--host", host, "ls"]).out;
        out.lines().last().unwrap_or_default().to_owned()
    };
    assert!(decided("prod").contains("approve = never from [hosts.prod] ("), "{}", decided("prod"));
    assert!(decided("10.0.0.9").contains("never from [hosts], another name of 10.0.0.9 ("));
    assert!(
        decided("web1").contains("approve = auto from environment SYSOP_APPROVE ("),
        "{}",
        decided("web1")
    );
    for (host, verdict) in [("web1", "allow"), ("web1,web2", "allow"), ("web1,db", "ask")] {
        let answer = check(&world, &["--mode", "ask", "--host", host, "make"]);
        assert_eq!(answer["verdict"], verdict, "{host}: {answer}");
    }
}

#[test]
fn rules_are_loaded_checked_and_applied() {
    let world = World::new().file(
        CONFIG,
        "[[policy.rules]]\naction = 'allow'\nmatch = { program = 'make' }\n\
         examples = { match = ['make test'], no_match = ['make > x', 'make; rm a'] }\n\
         [[policy.rules]]\naction = 'deny'\nmatch = { program = 'git', subcommand = 'push' }\n\
         [[policy.rules]]\naction = 'allow'\nmatch = { program = 'touch' }\nexamples = { no_match = ['touch a'] }\n\
         [[policy.rules]]\naction = 'allow'\nmatch = { progam = 'cp' }\n",
    );
    let verdict = |command: &str| check(&world, &["--mode", "ask", command])["verdict"].clone();
    assert_eq!(verdict("make test"), "allow");
    assert_eq!(verdict("make test > log"), "ask");
    assert_eq!(verdict("/usr/bin/git -C x push"), "deny");
    assert_eq!(verdict("touch a"), "ask", "a rule whose example fails does not count");
    let config = world.home().join(CONFIG);
    let answer = check(&world, &["make"]);
    assert_eq!(answer["rule"], format!("{}:1", config.display()));
    let run = world.run(&["policy", "check", "ls"]);
    for line in [
        format!("{}:8: ignoring this rule: the `no_match` example \"touch a\" matches", config.display()),
        format!(
            "{}:12: ignoring this rule: unknown key `progam`, expected one of `program`",
            config.display()
        ),
    ] {
        assert!(run.err.contains(&line), "{line}\n{}", run.err);
    }
    let shown = world.run(&["config", "show"]);
    assert!(
        shown.out.contains("policy.rules += { action = \"deny\", match = { program = \"git\""),
        "{shown:?}"
    );
}

#[test]
fn an_untrusted_workspace_can_only_tighten_the_policy() {
    let world = World::new().file(CONFIG, "never_network = true\napprove = 'never'\n").file(
        "work/.sysop.toml",
        "approve = 'each'\nnever_network = false\n[[policy.rules]]\naction = 'allow'\nmatch = { program = 'touch' }\n\
         [[policy.rules]]\naction = 'deny'\nmatch = { program = 'ls' }\n",
    );
    let verdict = |arguments: &[&str]| check(&world, arguments)["verdict"].clone();
    assert_eq!(verdict(&["--mode", "ask", "touch a"]), "ask");
    assert_eq!(verdict(&["ls"]), "deny");
    assert_eq!(verdict(&["touch a"]), "deny", "the rule never matches");
    assert_eq!(verdict(&["pwd"]), "ask", "`each` applies as well");
    let shown = world.run(&["config", "show"]).out;
    for line in ["approve = \"never\"", "never_asks = true", "never_network = false"] {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "{line}\n{shown}");
    }
}

#[test]
fn an_invalid_pattern_and_a_misspelled_key_deny() {
    let verdict =
        |world: &World, command: &str| check(world, &["--mode", "auto", command])["verdict"].clone();
    for text in ["dangerous_patterns = ['(', 'deploy']\n", "denny = ['reboot']\n"] {
        assert_eq!(verdict(&World::new().file(CONFIG, text), "ls"), "deny", "{text}");
    }
    let world = World::new().file(CONFIG, "deny = ['(']\n");
    assert_eq!(verdict(&world, "ls"), "deny");
    let run = world.run(&["policy", "check", "ls"]);
    assert!(
        run.err.contains("config.toml:1: `deny` contains the invalid regular expression \"(\""),
        "{run:?}"
    );
    assert!(run.err.contains("all commands are denied until it is fixed"), "{run:?}");
    let decided = run.out.lines().find(|line| line.starts_with("decided by ")).unwrap_or_default();
    let place = decided.strip_prefix("decided by the config error at ").unwrap_or_default();
    assert!(place.ends_with("config.toml:1"), "{run:?}");
}

#[test]
fn a_mistyped_rule_denies_and_says_so_even_if_quiet() {
    let rule = "[[policy.rules]]\naction = 'deny'\nmatch = { progam = 'touch' }\n";
    let mock = Mock::start(&[("go", vec![bash("touch made"), say("Done.")])]);
    let mistakes: String = (0..7).map(|number| format!("wrong{number} = 1\n")).collect();
    let world = World::with_openai(&mock.url()).file("work/.sysop.toml", &format!("{mistakes}{rule}"));
    let run = world.finish(&["exec", "-q", "--approve", "auto", "go"]);
    assert_eq!((run.code, world.has("made")), (Some(2), false), "{run:?}");
    assert!(run.err.contains("error: not done: the config error at "), "{run:?}");
    assert!(run.err.starts_with("error: ") && run.err.contains(".sysop.toml:8: invalid rule: "), "{run:?}");
    assert!(run.err.contains("; all commands are denied until it is fixed"), "{run:?}");
    let answer = check(&world, &["--mode", "auto", "> made"]);
    assert_eq!(answer["verdict"], "deny", "{answer}");
    assert!(answer["rule"].as_str().unwrap().contains(".sysop.toml:8"), "{answer}");
}

#[test]
fn exec_runs_reads_and_asks_for_the_rest() {
    let script = [("go", vec![bash("echo seen"), bash("touch made"), say("Done.")])];
    let mock = Mock::start(&script);
    let world = World::with_openai(&mock.url());
    let run = world.finish(&["exec", "go"]);
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(!world.has("made"));
    let mock = Mock::start(&script);
    let world = World::with_openai(&mock.url());
    let run = world.finish(&["exec", "--approve", "each", "go"]);
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(run.err.contains("`echo seen` needs approval"), "{run:?}");
    let mock = Mock::start(&script);
    let world = World::with_openai(&mock.url());
    let run = world.finish(&["exec", "--approve", "auto", "go"]);
    assert_eq!((run.code, world.has("made")), (Some(0), true), "{run:?}");
}

#[test]
fn a_jexida_config_means_each_mode() {
    let world = World::new().file(".jexida/config.toml", "[model]\nname = 'phi3'\n");
    assert_eq!(check(&world, &["ls"])["verdict"], "ask");
    assert_eq!(check(&World::new(), &["ls"])["verdict"], "allow");
}

#[test]
fn an_unknown_host_exits_2() {
    let mock = Mock::start(&[("go", vec![say("Hello.")])]);
    let world = World::with_openai(&mock.url());
    let run = world.finish(&["exec", "--host", "nosuchhost.invalid", "go"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
    assert!(run.err.contains("unknown host nosuchhost.invalid"), "{run:?}");
}

#[test]
fn check_resolves_local_links() {
    let world = World::new().file(".bashrc", "");
    std::os::unix::fs::symlink(world.home().join(".bashrc"), world.home().join("notes")).unwrap();
    let answer =
        check(&world, &["--mode", "auto", "--cwd", world.home().to_str().unwrap(), "echo x >> notes"]);
    assert_eq!((&answer["verdict"], &answer["class"]), (&"ask".into(), &"dangerous".into()), "{answer}");
    let file = answer["targets"][0]["files"][0].as_str().unwrap_or_default();
    assert!(file.ends_with("/.bashrc"), "{answer}");
}

#[test]
fn a_script_of_an_earlier_run_is_judged_by_its_text() {
    let script = [
        ("write", vec![bash("echo 'rm -rf ~/keep' > r.sh"), say("Written.")]),
        ("run", vec![bash("sh r.sh"), say("Done.")]),
    ];
    let mock = Mock::start(&script);
    let world = World::with_openai(&mock.url()).file("keep/me", "");
    let run = world.finish(&["exec", "--approve", "auto", "write"]);
    assert_eq!((run.code, world.has("r.sh")), (Some(0), true), "{run:?}");
    let run = world.finish(&["exec", "--approve", "auto", "--resume", "--", "run"]);
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(run.err.contains("`sh r.sh` needs approval"), "{run:?}");
}

#[test]
fn read_only_git_is_judged_by_its_repositorys_settings() {
    let world = World::new().file("work/a", "1\n").file("work/.gitattributes", "a diff=x\n");
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        let done = git.arg("-C").arg(world.work()).args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    };
    git(&["init", "-q"]);
    let verdict = |command: &str| check(&world, &["--mode", "never", command])["verdict"].clone();
    for command in ["git status", "git diff", "git log -p", "git -P show HEAD"] {
        assert_eq!(verdict(command), "allow", "{command}");
    }
    git(&["config", "diff.x.textconv", "touch ran; cat"]);
    for command in ["git status", "git diff", "git log -p", "git -P show HEAD", "cd .; git diff"] {
        assert_eq!(verdict(command), "deny", "{command}");
    }
    let answer = check(&world, &["--mode", "auto", "git diff"]);
    assert_eq!((&answer["verdict"], &answer["class"]), (&"ask".into(), &"opaque".into()), "{answer}");
    assert!(answer["reasons"][0]["why"].as_str().unwrap().contains("diff.x.textconv"), "{answer}");
    assert_eq!(check(&world, &["--mode", "auto", "git add a"])["verdict"], "allow");
}

#[test]
fn an_approval_says_what_the_command_would_do() {
    let script = [("clean up", vec![bash("rm -rf build")])];
    let shown = "removes 2 files, 1 directory, 8 bytes in build";
    for json in [false, true] {
        let mock = Mock::start(&script);
        let world = World::with_openai(&mock.url());
        let folder = world.work().join("build");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("one"), "text").unwrap();
        std::fs::write(folder.join("two"), "more").unwrap();
        let options: &[&str] = if json { &["exec", "--json", "clean up"] } else { &["exec", "clean up"] };
        let run = world.finish(options);
        assert_eq!((run.code, world.has("build/one")), (Some(3), true), "{run:?}");
        if json {
            let messages = crate::support::lines_of_json(&run.out);
            let request = messages.iter().find(|message| message["type"] == "approval.request").unwrap();
            assert_eq!(request["preview"], serde_json::json!([shown]), "{run:?}");
        } else {
            assert!(run.err.contains(&format!("preview: {shown}")), "{run:?}");
        }
    }
}

#[test]
fn a_path_is_shown_once_if_it_is_no_link() {
    let world = World::new().file("work/a", "").file("work/dir/b", "");
    std::os::unix::fs::symlink("dir", world.work().join("link")).unwrap();
    let text = |command: &str| world.run(&["policy", "check", command]).out;
    let plain = world.work().join("a").canonicalize().unwrap();
    let shown = text(&format!("touch {}", plain.display()));
    assert!(shown.contains(&format!("  writes {}\n", plain.display())), "{shown}");
    let shown = text("touch link/b");
    assert!(shown.contains("  writes link/b -> ") && shown.contains("/dir/b\n"), "{shown}");
}
