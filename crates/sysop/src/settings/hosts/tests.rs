//! Names, tags, lists and config tables, and invalid hosts.

use std::num::NonZeroUsize;

use sysop_core::policy::ApprovalMode;

use super::{HOSTS_MAX, HostChoice, HostInventory, SshTarget, approve_on};
use crate::config::tests::World;
use crate::config::{TrustDecision, save_trust};
use crate::exit::{CommandError, Exit};
use crate::global_flags::{GlobalFlags, ResumeTarget};
use crate::settings::Settings;
use crate::settings::tests::load;

const TABLE: &str = "\
[hosts.web2]\nhost = '10.0.0.2'\nuser = 'deploy'\nport = 2222\ntags = ['prod', 'web']\nroot = '/srv/web'\n\
description = 'the second'\n\
[hosts.web10]\ntags = ['prod', 'web']\n\
[hosts.db1]\nhost = 'ssh://db.example'\nuser = 'ann'\ntags = ['prod', 'db']\n\
[hosts.test]\ntags = ['spare']\n";

fn with(config: &str, flags: &GlobalFlags, environment: &[(&str, &str)]) -> Settings {
    load(&World::new().own(config), flags, environment).unwrap()
}

fn known() -> HostInventory {
    with(TABLE, &GlobalFlags::default(), &[]).hosts
}

fn names(text: &str) -> Result<String, String> {
    known().resolve(text).map(|choice| choice.to_string()).map_err(|failure| failure.to_string())
}

fn only(choice: HostChoice) -> SshTarget {
    let HostChoice::Ssh(target) = choice else { panic!("not one remote host: {choice:?}") };
    target
}

fn on(host: &str) -> GlobalFlags {
    GlobalFlags { host: Some(host.to_owned()), ..GlobalFlags::default() }
}

fn problem(settings: &Settings) -> Option<&CommandError> {
    settings.problems.first()
}

#[test]
fn a_table_without_keys_is_a_known_host() {
    let settings = with("[hosts.web2]\n\n[hosts.web1]\n", &GlobalFlags::default(), &[]);
    let known: Vec<_> = settings.hosts.known.iter().map(|host| host.target.destination.as_str()).collect();
    assert_eq!(known, ["web2", "web1"], "in the order of the file");
    let misspelled = with("[hosts.web1]\nhsot = '10.0.0.1'\n", &GlobalFlags::default(), &[]);
    assert!(misspelled.hosts.known.is_empty(), "{:?} {:?}", misspelled.hosts.known, misspelled.problems);
}

#[test]
fn a_table_describes_a_host() {
    let web2 = only(known().resolve("web2").unwrap());
    let expected = SshTarget {
        name: "web2".to_owned(),
        destination: "deploy@10.0.0.2".to_owned(),
        user: Some("deploy".to_owned()),
        port: Some(2222),
        approve: None,
        approve_elsewhere: None,
        root: Some("/srv/web".to_owned()),
        description: Some("the second".to_owned()),
    };
    assert_eq!(web2, expected);
    let web10 = only(known().resolve(" web10 ").unwrap());
    assert_eq!((web10.destination.as_str(), web10.user, web10.port), ("web10", None, None));
    assert_eq!(only(known().resolve("db1").unwrap()).destination, "ssh://ann@db.example");
    let both = with("[hosts.a]\nhost = 'bob@h'\nuser = 'ann'\n", &on("a"), &[]).host;
    let both = only(both);
    assert_eq!(
        (both.destination.as_str(), both.user),
        ("bob@h", None),
        "a host that names its user knows better"
    );
}

#[test]
fn a_host_restricts_its_models_under_every_name() {
    let config = "[hosts.db1]\nhost = 'ssh://ann@DB.example:2222'\nmodels = ['local/*', 'ollama/*']\ntags = ['prod']\n\
        [hosts.db2]\nhost = '10.0.0.2'\nmodels = ['ollama/phi3']\ntags = ['prod']\n[hosts.web]\ntags = ['prod']\n\
        [hosts.shut]\nmodels = 'ollama/*'\n[hosts.typo]\nmodels = ['ollama']\n";
    let settings = with(config, &GlobalFlags::default(), &[]);
    let asked = |host: &str, model: &str| {
        let choice = settings.hosts.resolve(host).unwrap();
        settings.hosts.model_access(&choice).refusal(&model.parse().unwrap())
    };
    for (host, model, refuses) in [
        ("local", "openai/gpt", None),
        ("web", "openai/gpt", None),
        ("web,other", "openai/gpt", None),
        ("db1", "ollama/x", None),
        ("db1", "openai/gpt", Some("db1")),
        ("bob@db.example", "openai/gpt", Some("db1")),
        ("ssh://db.example.:22/", "openai/gpt", Some("db1")),
        ("root@db1", "openai/gpt", Some("db1")),
        ("10.0.0.2", "ollama/phi3", None),
        ("ann@10.0.0.2", "ollama/phi4", Some("db2")),
        ("web,db2", "openai/gpt", Some("db2")),
        ("@prod", "ollama/phi4", Some("db2")),
        ("@prod", "ollama/phi3", None),
        ("shut", "ollama/phi3", Some("shut")),
        ("typo", "ollama/phi3", Some("typo")),
    ] {
        let why = asked(host, model);
        let named = refuses.map(|refuses| format!("[hosts.{refuses}]"));
        assert_eq!(why.is_some(), named.is_some(), "{host} {model}: {why:?}");
        assert!(named.is_none_or(|named| why.as_ref().unwrap().contains(&named)), "{host} {model}: {why:?}");
    }
    let warnings: Vec<_> = settings.warnings().iter().map(|warning| warning.message.clone()).collect();
    assert!(warnings[0].contains("no model is allowed until it is fixed"), "{warnings:?}");
    assert!(warnings[1].contains("is not PROVIDER/NAME or PROVIDER/*"), "{warnings:?}");
}

#[test]
fn a_name_is_a_host_a_tag_or_an_ssh_destination() {
    for (text, expected) in [
        ("local", "local"),
        ("web2", "web2"),
        ("ann@10.0.0.9", "ann@10.0.0.9"),
        ("nobody-knows", "nobody-knows"),
        ("ssh://ann@h:2222", "ssh://ann@h:2222"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("@prod", "web2, web10, db1"),
        ("prod", "web2, web10, db1"),
        ("test", "test"),
        ("@spare", "test"),
        ("db1,other , web2", "db1, other, web2"),
        ("@web,@db", "web2, web10, db1"),
        ("@web,@prod", "web2, web10, db1"),
        ("web10,@web", "web10, web2"),
        ("@web,web10", "web2, web10"),
    ] {
        assert_eq!(names(text).as_deref(), Ok(expected), "{text}");
        assert_eq!(names(expected).as_deref(), Ok(expected), "what a session keeps names the same hosts");
    }
    let by_name = with("[hosts.prod]\n[hosts.prod.x]\n", &on("prod"), &[]);
    assert!(by_name.warnings()[0].message.contains("`hosts.prod.x` is not a config key"), "{by_name:?}");
    let both = "[hosts.prod]\nhost = 'h'\n[hosts.web1]\ntags = ['prod']\n";
    assert_eq!(only(with(both, &on("prod"), &[]).host).destination, "h", "a name goes before a tag");
    assert_eq!(with(both, &on("@prod"), &[]).host.to_string(), "web1");
}

#[test]
fn an_invalid_host_is_rejected_with_a_reason() {
    for (text, why) in [
        ("-oProxyCommand=touch x", "ssh would read it as an option"),
        ("web2,-oProxyCommand=x", "ssh would read it as an option"),
        ("a b", "it contains whitespace or an unprintable character"),
        ("a\u{1b}[2J", "it contains whitespace or an unprintable character"),
        ("a\nb", "it contains whitespace"),
        ("a\u{202e}b", "it contains whitespace or an unprintable character"),
        ("web2,,db1", "empty host name in the list"),
        ("web2,", "empty host name in the list"),
        ("", "empty host name"),
        ("web2,local", "`local` cannot be combined with other hosts"),
        ("@prdo", "no host has the tag \"prdo\"; did you mean `@prod`?"),
        ("@nothing", "no host has the tag \"nothing\"; available: db, prod, spare, web"),
        ("web2,web2", "duplicate host web2"),
        ("other,OTHER", "other and OTHER are the same host"),
        ("other,other.", "other and other. are the same host"),
        ("web10,ann@x,ann@X", "ann@x and ann@X are the same host"),
        ("@db,ann@db.example", "db1 and ann@db.example are the same host"),
        ("db1,ssh://ann@db.example/", "db1 and ssh://ann@db.example/ are the same host"),
    ] {
        let refused = names(text).unwrap_err();
        assert!(refused.contains(why), "{text:?}: {refused}");
        assert!(!refused.contains(['\u{1b}', '\n', '\u{202e}']), "{refused:?}");
    }
    assert_eq!(names("ann@x,bob@x").as_deref(), Ok("ann@x, bob@x"), "two accounts are two places");
    let many: Vec<String> = (0..=HOSTS_MAX).map(|number| format!("h{number}")).collect();
    assert!(names(&many.join(",")).unwrap_err().starts_with("too many hosts: 1001 (maximum 1000)"));
    assert!(names(&many[1..].join(",")).is_ok());
}

#[test]
fn an_invalid_host_blocks_tasks_but_not_config_show() {
    let settings = with("[hosts.x]\nhost = '-oProxyCommand=x'\n[hosts.y]\nuser = '-l'\n", &on("x"), &[]);
    let refused = settings.require_runnable().unwrap_err();
    assert_eq!(refused.exit, Exit::Usage);
    assert_eq!(
        refused.message,
        "flag --host: invalid host \"-oProxyCommand=x\": ssh would read it as an option"
    );
    assert!(settings.config.show().contains("hosts.x.host = \"-oProxyCommand=x\""));
    assert!(settings.hosts.resolve("y").unwrap_err().message.contains("invalid host \"-l@y\""));
    let in_file =
        with("approve = 'ask'\n[connection]\nhost = 'a b'\nuser = 'c'\n", &GlobalFlags::default(), &[]);
    assert!(in_file.problems[0].message.contains("config.toml:3: invalid host \"c@a b\""), "{in_file:?}");
}

#[test]
fn names_that_cannot_be_typed_are_ignored() {
    let config = "[hosts.'a b']\nuser = 'x'\n[hosts.local]\nuser = 'x'\n[hosts.'@t']\nuser = 'x'\n\
                  [hosts.'a,b']\nuser = 'x'\n[hosts.fine]\ntags = ['good', 'a b', 'c,d', '@e', 1]\n";
    let settings = with(config, &GlobalFlags::default(), &[]);
    let known: Vec<&str> = settings.hosts.known.iter().map(|known| known.target.name.as_str()).collect();
    assert_eq!(known, ["fine"]);
    assert_eq!(settings.hosts.known[0].tags, ["good"]);
    let warnings: Vec<String> = settings.warnings().iter().map(ToString::to_string).collect();
    for (line, text) in [
        (10, "`hosts.fine.tags` contains the invalid tag \"a b\""),
        (10, "`hosts.fine.tags` contains the invalid tag \"c,d\""),
        (10, "`hosts.fine.tags` contains the invalid tag \"@e\""),
        (10, "`hosts.fine.tags` must be a list of strings, not an integer"),
        (2, "ignoring host \"a b\""),
        (4, "ignoring host \"local\": it is reserved for this machine"),
        (6, "ignoring host \"@t\""),
        (8, "ignoring host \"a,b\": it contains a comma"),
    ] {
        let found = warnings
            .iter()
            .any(|warning| warning.contains(&format!("config.toml:{line}: ")) && warning.contains(text));
        assert!(found, "{line} {text}: {warnings:#?}");
    }
}

#[test]
fn wrong_types_are_reported_with_their_line() {
    let config = "[hosts]\na = 'x'\n[hosts.b]\nport = 'x'\n[hosts.c]\nport = 70000\ntags = 'prod'\n\
                  approve = 'allways'\nhots = 'x'\n[connection]\nport = true\n";
    let settings = with(config, &GlobalFlags::default(), &[]);
    let warnings: Vec<String> = settings.warnings().iter().map(ToString::to_string).collect();
    for text in [
        "config.toml:2: `hosts.a` must be a table, not a string",
        "config.toml:4: `hosts.b.port` must be an integer, not a string",
        "config.toml:6: `hosts.c.port` must be an integer from 1 to 65535",
        "config.toml:7: `hosts.c.tags` must be a list of strings, not a string",
        "config.toml:8: `hosts.c.approve` is \"allways\", but must be one of auto, ask, each, never",
        "config.toml:8: falling back to \"each\" because `hosts.c.approve` is invalid",
        "config.toml:9: `hosts.c.hots` is not a config key; did you mean `hosts.c.host`?",
        "config.toml:11: `connection.port` must be an integer, not a boolean",
    ] {
        assert!(warnings.iter().any(|warning| warning.ends_with(text)), "{text}: {warnings:#?}");
    }
}

#[test]
fn the_connection_is_the_default_host_with_its_user_and_port() {
    let config = "[connection]\nhost = '192.168.1.224'\nuser = 'jexida'\nport = 2222\n";
    let settings = with(config, &GlobalFlags::default(), &[]);
    let target = only(settings.host);
    assert_eq!((target.name.as_str(), target.port), ("jexida@192.168.1.224", Some(2222)));
    assert_eq!((target.destination.as_str(), target.user.as_deref()), (target.name.as_str(), Some("jexida")));
    let again = only(settings.hosts.resolve(&target.name).unwrap());
    assert_eq!(
        SshTarget { root: target.root.clone(), ..again },
        target,
        "a session that was kept finds the port again"
    );
}

#[test]
fn a_user_from_one_layer_does_not_apply_to_a_host_of_another() {
    let config = "[connection]\nhost = 'a'\nuser = 'ann'\nport = 22\n";
    for (flags, environment, destination) in [
        (GlobalFlags::default(), vec![], "ann@a"),
        (on("b"), vec![], "b"),
        (on("a"), vec![("SYSOP_CONNECTION__USER", "bob")], "a"),
        (GlobalFlags::default(), vec![("SYSOP_HOST", "b")], "b"),
        (GlobalFlags::default(), vec![("SYSOP_CONNECTION__HOST", "b")], "b"),
        (GlobalFlags::default(), vec![("SYSOP_CONNECTION__USER", "bob")], "bob@a"),
        (GlobalFlags::default(), vec![("SYSOP_HOST", "b"), ("SYSOP_CONNECTION__USER", "bob")], "bob@b"),
        (GlobalFlags::default(), vec![("SYSOP_HOST", "b"), ("SYSOP_CONNECTION__HOST", "c")], "b"),
        (on("d"), vec![("SYSOP_HOST", "b")], "d"),
    ] {
        let host = only(with(config, &flags, &environment).host);
        assert_eq!(host.destination, destination, "{flags:?} {environment:?}");
    }
    let local = with(config, &GlobalFlags::default(), &[("SYSOP_HOST", "local")]);
    assert_eq!(local.host, HostChoice::Local);
    assert!(local.problems.is_empty());
}

#[test]
fn the_default_host_may_name_configured_hosts() {
    let settings = with(&format!("[connection]\nhost = 'web2'\n{TABLE}"), &GlobalFlags::default(), &[]);
    assert_eq!(only(settings.host).destination, "deploy@10.0.0.2");
    let settings = with(&format!("[connection]\nhost = '@prod'\n{TABLE}"), &GlobalFlags::default(), &[]);
    assert_eq!(settings.host.targets().len(), 3);
    for host in ["web2", "prod", "@prod", "a,b"] {
        let config = format!("[connection]\nhost = '{host}'\nuser = 'x'\n{TABLE}");
        let settings = with(&config, &GlobalFlags::default(), &[]);
        let refused = &settings.require_runnable().unwrap_err().message;
        assert!(refused.contains("config.toml:3: `connection.user`"), "{host}: {refused}");
    }
}

#[test]
fn hosts_can_be_configured_in_the_environment() {
    let environment = [
        ("SYSOP_HOST", "@lab"),
        ("SYSOP_HOSTS__WEB1__USER", "ann"),
        ("SYSOP_HOSTS__WEB1__TAGS", "lab"),
        ("SYSOP_HOSTS__WEB2__TAGS", "['lab', 'web']"),
    ];
    let settings = with("", &GlobalFlags::default(), &environment);
    let destinations: Vec<&str> =
        settings.host.targets().iter().map(|target| target.destination.as_str()).collect();
    assert_eq!(destinations, ["ann@web1", "web2"]);
    assert!(
        settings.config.show().contains("hosts.web1.tags = [\"lab\"]  # environment SYSOP_HOSTS__WEB1__TAGS")
    );
    let wrong = with("", &GlobalFlags::default(), &[("SYSOP_HOSTS__WEB1__TAGS", "a b")]);
    assert!(wrong.warnings()[0].message.contains("contains the invalid tag"), "{wrong:?}");
}

#[test]
fn an_untrusted_workspace_cannot_name_a_host() {
    let file = "[connection]\nhost = 'far'\nuser = 'x'\n[hosts.web2]\nhost = 'evil'\napprove = 'auto'\n\
                [hosts.evil]\ntags = ['prod']\n";
    let world = World::new().own(TABLE).file("work/.sysop.toml", file);
    let settings = load(&world, &GlobalFlags::default(), &[]).unwrap();
    assert_eq!(settings.host, HostChoice::Local);
    assert_eq!(settings.hosts.resolve("@prod").unwrap().to_string(), "web2, web10, db1");
    assert_eq!(only(settings.hosts.resolve("web2").unwrap()).destination, "deploy@10.0.0.2");
    let untrusted = settings.untrusted().expect("the person can be asked");
    assert_eq!(untrusted.left_out.len(), 5, "{untrusted:?}");
    save_trust(&world.folders().data, untrusted, TrustDecision::Trusted).unwrap();
    let settings = load(&world, &GlobalFlags::default(), &[]).unwrap();
    assert_eq!(only(settings.host).destination, "x@far", "what the person trusts counts like their own");
}

#[test]
fn a_remote_root_is_not_checked_locally() {
    let far = |config: &str, root: &str, environment: &[(&str, &str)]| {
        let flags = GlobalFlags { root: Some(root.into()), ..GlobalFlags::default() };
        load(&World::new().own(config), &flags, environment).unwrap()
    };
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    for (config, environment) in [
        ("[connection]\nhost = 'a'\n", vec![]),
        ("", vec![("SYSOP_HOST", "a")]),
        ("[connection]\nhost = 'a'\n[hosts.a]\nroot = '/other'\n", vec![]),
    ] {
        let settings = far(config, "/no/such/folder", &environment);
        assert_eq!(settings.root, here, "the workspace's config is that of the current folder");
        assert_eq!(only(settings.host).root.as_deref(), Some("/no/such/folder"));
    }
    let settings = far(&format!("[connection]\nhost = '@web'\n{TABLE}"), "apps", &[]);
    let roots: Vec<Option<&str>> =
        settings.host.targets().iter().map(|target| target.root.as_deref()).collect();
    assert_eq!(roots, [Some("apps"), Some("apps")]);
    let odd = far("[connection]\nhost = 'a'\n", "a\u{1b}b", &[]);
    assert!(problem(&odd).unwrap().message.contains("invalid root"), "{:?}", odd.problems);
    let flags = GlobalFlags { root: Some("/no/such/folder".into()), ..on("local") };
    let world = World::new().own("[connection]\nhost = 'a'\n");
    assert!(load(&world, &flags, &[]).unwrap_err().message.contains("--root"), "here it is looked for");
}

#[test]
fn several_hosts_use_the_strictest_approval_mode() {
    let table = "[hosts.free]\napprove = 'auto'\ntags = ['all']\n[hosts.plain]\ntags = ['all']\n\
                 [hosts.care]\napprove = 'ask'\n[hosts.shut]\napprove = 'never'\ntags = ['all']\n";
    let approve = |config: &str, host: &str, flag: Option<ApprovalMode>, environment: &[(&str, &str)]| {
        let host = (!host.is_empty()).then(|| host.to_owned());
        let flags = GlobalFlags { approve: flag, host, ..GlobalFlags::default() };
        let settings = with(&format!("{config}{table}"), &flags, environment);
        settings.approve(&settings.host)
    };
    use ApprovalMode::{Ask, Auto, Never};
    for (config, host, expected) in [
        ("", "local", Ask),
        ("", "free", Auto),
        ("", "plain", Ask),
        ("", "unheard-of", Ask),
        ("", "shut", Never),
        ("", "free,plain", Ask),
        ("", "@all", Never),
        ("approve = 'ask'\n", "free", Auto),
        ("approve = 'never'\n", "free", Never),
        ("approve = 'auto'\n", "plain", Auto),
        ("approve = 'auto'\n", "care", Ask),
        ("approve = 'auto'\n", "free,plain", Auto),
        ("approve = 'auto'\n", "free,shut", Never),
        // A host's mode holds for its machine, however it is reached; only its own name may loosen.
        ("[hosts.db]\nhost = 'ann@10.0.0.9'\nport = 2222\napprove = 'never'\n", "10.0.0.9", Never),
        ("[hosts.db]\nhost = '10.0.0.9'\napprove = 'never'\n", "ssh://root@10.0.0.9:22", Never),
        ("[hosts.db]\nhost = '10.0.0.9'\napprove = 'never'\n", "free,bob@10.0.0.9", Never),
        (
            "[hosts.db]\nhost = '10.0.0.9'\napprove = 'never'\n[hosts.x]\nhost = '10.0.0.9'\napprove = 'auto'\n",
            "x",
            Never,
        ),
        ("[hosts.db]\napprove = 'never'\n", "root@DB.", Never),
        ("[connection]\nhost = 'db'\nuser = 'root'\n[hosts.x]\nhost = 'db'\napprove = 'never'\n", "", Never),
        ("[hosts.db]\nhost = '10.0.0.9'\napprove = 'auto'\n", "10.0.0.9", Ask),
    ] {
        assert_eq!(approve(config, host, None, &[]), expected, "{config:?} {host}");
    }
    assert_eq!(approve("", "free", Some(ApprovalMode::Ask), &[]), Ask, "a flag is not loosened");
    assert_eq!(approve("", "free", None, &[("SYSOP_APPROVE", "ask")]), Ask, "nor the environment");
    assert_eq!(
        approve("", "shut", Some(ApprovalMode::Auto), &[]),
        Never,
        "a host may be stricter than a flag"
    );
    assert_eq!(approve("", "care", Some(ApprovalMode::Auto), &[]), Ask);
    let world = World::new().own(table).file("work/.sysop.toml", "approve = 'ask'\n");
    let settings = load(&world, &on("local"), &[]).unwrap();
    let free = settings.hosts.resolve("free").unwrap();
    assert_eq!(approve_on(&settings.config, &free), Ask, "nor what a workspace asks for");
}

#[test]
fn a_rule_that_restricts_a_host_holds_under_each_name_of_its_machine() {
    let config = "[hosts.prod]\nhost = '10.0.0.9'\n[hosts.web]\n\
                  [[policy.rules]]\naction = 'deny'\nmatch = { program = 'touch', host = 'prod*' }\n\
                  [[policy.rules]]\naction = 'allow'\nmatch = { program = 'make', host = 'prod' }\n";
    for (host, names) in [
        ("prod", vec![]),
        ("root@10.0.0.9", vec!["root@10.0.0.9"]),
        ("web,10.0.0.9", vec!["10.0.0.9"]),
        ("web", vec![]),
    ] {
        let settings = with(config, &on(host), &[]);
        let rules = settings.policy_options(&settings.host).rules;
        let added: Vec<_> = rules[2..].iter().filter_map(|rule| rule.pattern.host.as_deref()).collect();
        assert_eq!(added, names, "{host}");
        assert!(rules[2..].iter().all(|rule| rule.pattern.program == "touch"), "{host}");
    }
}

#[test]
fn a_canary_needs_more_hosts() {
    let problem_of = |host: Option<&str>, resume: Option<ResumeTarget>| {
        let flags = GlobalFlags {
            host: host.map(str::to_owned),
            canary: NonZeroUsize::new(2),
            resume,
            ..GlobalFlags::default()
        };
        problem(&with(TABLE, &flags, &[])).map(|problem| problem.message.clone())
    };
    assert_eq!(problem_of(Some("@prod"), None), None);
    assert_eq!(
        problem_of(None, None).as_deref(),
        Some("--canary 2 needs several hosts, but there is only local; add hosts with --host")
    );
    assert!(problem_of(Some("web2"), None).unwrap().contains("only web2"));
    assert!(problem_of(Some("@web"), None).unwrap().contains("must be less than the number of hosts (2)"));
    assert_eq!(problem_of(None, Some(ResumeTarget::Latest)), None, "an earlier session has hosts of its own");
}

#[test]
fn remote_ollama_needs_exactly_one_host() {
    let config = format!("[model]\nname = 'phi3'\n{TABLE}");
    let several = with(&config, &on("@prod"), &[]);
    let refused = problem(&several).unwrap();
    assert!(
        refused.message.ends_with(
            "config.toml:2: ollama+ssh needs a single remote host; \
             use --model ollama/phi3 for Ollama on this machine"
        ),
        "{refused}"
    );
    assert_eq!(problem(&with(&config, &on("web2"), &[])), None);
}
