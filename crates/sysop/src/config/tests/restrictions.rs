//! Mistakes in parts of the config that restrict commands: they deny or restrict, and never allow more.

use super::World;
use crate::config::Config;

#[test]
fn an_invalid_list_of_denials_denies_everything() {
    let many = format!("deny = [{}]\n", "'x', ".repeat(257));
    for text in ["deny = 'reboot'\n", "deny = ['reboot', 7]\n", "deny = ['reboot', '(']\n", &many] {
        for world in [World::new().own(text), World::new().workspace(text)] {
            let config = world.load();
            assert_eq!((config.denials.len(), config.warnings.len()), (1, 0), "{text}");
            assert!(config.denials[0].message.ends_with("; all commands are denied until it is fixed"));
            assert_denies_everything(&config, text);
        }
    }
    for text in ["(", "['^reboot$', '(']", "['^reboot$', 7]"] {
        assert_denies_everything(&World::new().environment(&[("SYSOP_DENY", text)]).load(), text);
    }
}

#[test]
fn an_invalid_rule_denies_everything_unless_it_only_allows() {
    let allowing = "[[policy.rules]]\naction = 'allow'\nmatch = { program = 'ls' }\n";
    let many = format!("{}{}", allowing.repeat(257), allowing.replace("allow", "deny"));
    for text in [
        "[[policy.rules]]\naction = 'deny'\nmatch = { progam = 'touch' }\n",
        "[[policy.rules]]\naction = 'ask'\nmatch = { program = '' }\n",
        "[[policy.rules]]\naction = 'deny'\nmatch = { program = 'cp' }\nexamples = { match = ['mv a b'] }\n",
        "[[policy.rules]]\naction = 'dney'\nmatch = { program = 'touch' }\n",
        "[[policy.rules]]\nacton = 'deny'\nmatch = { program = 'touch' }\n",
        "[[policy.rules]]\naction = 1\nmatch = { program = 'touch' }\n",
        "[[policy.rule]]\naction = 'deny'\nmatch = { program = 'touch' }\n",
        "[policy]\nrules = 'deny touch'\n",
        "policy = 'deny'\n",
        "[[policy]]\naction = 'deny'\n",
    ] {
        for world in [
            World::new().own(text),
            World::new().workspace(text),
            World::new().file(".config/sysop/rules.toml", text),
        ] {
            let config = world.load();
            assert_eq!((config.denials.len(), config.warnings.len()), (1, 0), "{text}");
            assert!(config.denials[0].message.ends_with("; all commands are denied until it is fixed"));
        }
    }
    assert_eq!(World::new().own(&many).load().denials.len(), 1, "a rule behind the last one may deny");
    for text in [allowing.replace("program", "progam"), allowing.repeat(258)] {
        let config = World::new().own(&text).load();
        assert_eq!((config.denials.len(), config.warnings.len()), (0, 1), "it asks without the rule: {text}");
    }
}

#[test]
fn a_misspelled_restriction_denies_everything() {
    for (text, near) in [
        ("[[polcy.rules]]\naction = 'deny'\nmatch = { program = 'touch' }\n", "`policy`"),
        ("[[security.rules]]\naction = 'deny'\n", ""),
        ("[[security]]\nrules = ['deny touch']\n", ""),
        ("[[rules]]\naction = 'deny'\n", "`policy.rules`"),
        ("denny = ['reboot']\n", "`deny`"),
        ("Deny = ['reboot']\n", "`deny`"),
        ("dangerous_pattern = ['reboot']\n", "`dangerous_patterns`"),
        ("approv = 'never'\n", "`approve`"),
        ("sandbx = 'on'\n", "`sandbox`"),
        ("sandbox_netwrk = false\n", "`sandbox_network`"),
        ("never_ask = true\n", "`never_asks`"),
        ("approvals = 2\n", "`hosts.NAME.approvals`"),
        ("[hosts.db1]\naprove = 'never'\n", "`hosts.db1.approve`"),
        ("[hosts.db1]\naproval = 2\n", "`hosts.db1.approvals`"),
        ("[host.db1]\napprove = 'never'\n", "`hosts`"),
        ("[host.db1]\nmodel = ['ollama/*']\n", "`hosts`"),
    ] {
        for world in [World::new().own(text), World::new().workspace(text)] {
            let config = world.load();
            assert_eq!(
                (config.denials.len(), config.warnings.len()),
                (1, 0),
                "{text}: {:?}",
                config.warnings
            );
            let message = &config.denials[0].message;
            assert!(message.contains("is not a config key") && message.contains(near), "{message}");
            assert!(message.ends_with("; all commands are denied until it is fixed"), "{message}");
        }
    }
    for text in ["hosts_file = 'x'\n", "host = 'web1'\n", "[host.web1]\nuser = 'me'\n", "[tem]\na = 1\n"] {
        let config = World::new().own(text).load();
        assert_eq!((config.denials.len(), config.warnings.len()), (0, 1), "{text}");
    }
    for (name, value) in [
        ("SYSOP_DENNY", "reboot"),
        ("SYSOP_POLICY", "deny"),
        ("SYSOP_APPROV", "never"),
        ("SYSOP_SANDBX", "on"),
        ("SYSOP_RULES", "deny"),
        ("SYSOP_APPROVALS", "2"),
    ] {
        assert_eq!(World::new().environment(&[(name, value)]).load().denials.len(), 1, "{name}");
    }
    let config = World::new().environment(&[("SYSOP_APPROVALS", "2")]).load();
    let message = &config.denials[0].message;
    assert!(message.contains("did you mean `SYSOP_HOSTS__NAME__APPROVALS`?"), "{message}");
}

#[test]
fn an_invalid_value_of_another_restriction_denies_everything() {
    for text in [
        "dangerous_patterns = ['deploy', '(']\n",
        "dangerous_patterns = ['deploy', 7]\n",
        "dangerous_patterns = 'deploy'\n",
        "[hosts.db1]\napprovals = 'two'\n",
        "sandbox_network = 'no'\n",
        "never_asks = 'yes'\n",
    ] {
        for world in [World::new().own(text), World::new().workspace(text)] {
            let config = world.load();
            assert_eq!(config.denials.len(), 1, "{text}");
            assert!(config.text("dangerous_patterns").contains("mkfs"), "the built-in ones stay: {text}");
        }
    }
    let config = World::new().environment(&[("SYSOP_DANGEROUS_PATTERNS", "(")]).load();
    assert_eq!((config.denials.len(), config.warnings.len()), (1, 0));
}

#[test]
fn an_invalid_sandbox_counts_as_the_strictest() {
    for config in [
        World::new().own("sandbox = 'yes'\n").load(),
        World::new().own("sandbox = true\n").load(),
        World::new().environment(&[("SYSOP_SANDBOX", "yes")]).load(),
    ] {
        assert_eq!(config.text("sandbox"), "\"on\"");
        let complaints = config.complaints();
        assert!(
            complaints[1].ends_with("falling back to \"on\" because `sandbox` is invalid"),
            "{complaints:?}"
        );
    }
}

#[test]
fn errors_that_deny_everything_are_bounded() {
    let wrong = "7, ".repeat(10_000);
    let config = World::new().own(&format!("dangerous_patterns = [{wrong}]\n")).load();
    assert_eq!(config.denials.len(), crate::config::DENIALS_MAX);
}

fn assert_denies_everything(config: &Config, text: &str) {
    let patterns: Vec<String> = config.get("deny").unwrap();
    assert!(patterns.iter().any(|pattern| regex::Regex::new(pattern).is_err()), "{text}: {patterns:?}");
}
