//! Policy matrix: class by mode, and the influence of grants, rules and paths.

use std::fmt::Write;

use expect_test::expect;
use serde_json::json;
use sysop_core::catalog::{Profile, tools};
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::policy::{
    ApprovalMode, Assessment, CONFIG_ERROR, CommandContext, CommandPattern, Grant, GrantScope, Policy,
    PolicyOptions, Resolution, Risk, RiskClass, Rule, RuleAction, ScopedGrant, Survey, Verdict, grants_for,
};
use sysop_core::tool::{ToolEffect, ToolSpec};

fn survey() -> Survey {
    let context = CommandContext {
        folder: Some("/srv/app".to_owned()),
        root: Some("/srv/app".to_owned()),
        home: Some("/home/ann".to_owned()),
        user: Some("ann".to_owned()),
        ..CommandContext::bash()
    };
    Survey::elsewhere(context)
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    }
}

/// One row for each command: its class, then the verdict of each mode.
fn matrix(policy: &Policy, grants: &[Grant], commands: &[&str]) -> String {
    let mut table = String::new();
    for command in commands {
        let judge = |mode| policy.command(mode, grants, &survey(), command);
        let class = format!("{:?}", judge(ApprovalMode::Ask).risk.class);
        let verdicts = ApprovalMode::ALL.map(|mode| word(judge(mode).verdict));
        writeln!(table, "{command:24} {class:10} {}", verdicts.join(" "))
            .expect("writing to a string cannot fail");
    }
    table
}

const COMMANDS: &[&str] = &["ls -l", "touch a", "eval \"$x\"", "rm -rf /etc", "mkfs /dev/sda"];

#[test]
fn a_mode_decides_by_class() {
    let policy = Policy::new(&[], &[]);
    expect![[r#"
        ls -l                    ReadOnly   ask allow allow allow
        touch a                  Changes    ask ask allow deny
        eval "$x"                Opaque     ask ask ask deny
        rm -rf /etc              Lockout    ask ask ask deny
        mkfs /dev/sda            Dangerous  ask ask ask deny
    "#]]
    .assert_eq(&matrix(&policy, &[], COMMANDS));
}

#[test]
fn never_mode_can_ask_before_reads() {
    let options = PolicyOptions { never_asks: true, ..PolicyOptions::default() };
    let policy = Policy::new(&[], &[]).with_options(options);
    expect![[r#"
        ls -l                    ReadOnly   ask allow allow ask
        touch a                  Changes    ask ask allow deny
        eval "$x"                Opaque     ask ask ask deny
        rm -rf /etc              Lockout    ask ask ask deny
        mkfs /dev/sda            Dangerous  ask ask ask deny
    "#]]
    .assert_eq(&matrix(&policy, &[], COMMANDS));
}

#[test]
fn grants_cover_calls_except_those_that_always_ask() {
    let policy = Policy::new(&[], &[]);
    let grants: Vec<Grant> =
        COMMANDS.iter().map(|command| Grant::Exact { command: (*command).to_owned() }).collect();
    expect![[r#"
        ls -l                    ReadOnly   allow allow allow allow
        touch a                  Changes    allow allow allow deny
        eval "$x"                Opaque     allow allow allow deny
        rm -rf /etc              Lockout    ask ask ask deny
        mkfs /dev/sda            Dangerous  ask ask ask deny
    "#]]
    .assert_eq(&matrix(&policy, &grants, COMMANDS));
}

fn rule(action: RuleAction, program: &str) -> Rule {
    let pattern = CommandPattern { program: program.to_owned(), ..CommandPattern::default() };
    Rule { action, pattern, origin: format!("rules.toml:{program}") }
}

#[test]
fn rules_apply_in_the_order_deny_ask_allow_then_mode() {
    let rules = vec![
        rule(RuleAction::Allow, "*"),
        rule(RuleAction::Ask, "cp"),
        rule(RuleAction::Ask, "du"),
        rule(RuleAction::Deny, "mv"),
    ];
    let options = PolicyOptions { rules, ..PolicyOptions::default() };
    let policy = Policy::new(&[], &["halt".to_owned()]).with_options(options);
    let commands =
        ["ls -l", "touch a", "cp a b", "du -s", "mv a b", "touch a; mv a b", "halt", "rm -rf /etc"];
    expect![[r#"
        ls -l                    ReadOnly   allow allow allow allow
        touch a                  Changes    allow allow allow deny
        cp a b                   Changes    ask ask ask deny
        du -s                    ReadOnly   ask ask ask ask
        mv a b                   Changes    deny deny deny deny
        touch a; mv a b          Changes    deny deny deny deny
        halt                     Lockout    deny deny deny deny
        rm -rf /etc              Lockout    ask ask ask deny
    "#]]
    .assert_eq(&matrix(&policy, &[], &commands));
    let Assessment { rule, .. } = policy.command(ApprovalMode::Ask, &[], &survey(), "touch a");
    assert_eq!(rule.as_deref(), Some("rules.toml:*"), "the rule that decided is named");
}

#[test]
fn a_reason_quotes_a_pattern_only_if_the_user_wrote_it() {
    let policy = Policy::new(&[r"rm\s+-rf\s+/".to_owned(), r"dd\s+if=".to_owned(), "deploy".to_owned()], &[]);
    let reasons = |command: &str| {
        let findings = policy.risk(command, &survey()).findings;
        findings.into_iter().map(|finding| finding.why).collect::<Vec<_>>().join(", ")
    };
    let text = reasons("rm -rf /srv; dd if=/dev/zero");
    assert!(!text.contains("pattern"), "{text}");
    assert_eq!(text.matches("recursive delete").count(), 1, "the analysis tells it already: {text}");
    assert!(reasons("dd if=/dev/zero").contains("copies raw data with dd"));
    assert!(reasons("deploy now").contains("matches the dangerous pattern `deploy`"));
}

#[test]
fn a_pattern_that_matches_only_unquoted_words_marks_their_command() {
    let policy = Policy::new(&[r"rm\s+-rf\s+/".to_owned()], &[]);
    for command in
        ["ls; rm \"-rf\" /srv; date", "ls; sudo rm \"-rf\" /srv && date", "ls *; (rm \"-rf\" /srv)"]
    {
        let findings = policy.risk(command, &survey()).findings;
        let marked = findings.iter().filter(|finding| finding.why == "recursive delete");
        let marked: Vec<_> = marked.map(|finding| &command[finding.start..finding.end]).collect();
        assert_eq!(marked, ["rm \"-rf\" /srv"], "{command}");
    }
}

#[test]
fn an_invalid_pattern_neither_weakens_nor_tightens_the_policy() {
    let policy = Policy::new(&["(".to_owned(), "deploy".to_owned()], &[]);
    let verdict = |policy: &Policy, command: &str| {
        word(policy.command(ApprovalMode::Auto, &[], &survey(), command).verdict)
    };
    assert_eq!((verdict(&policy, "touch a"), verdict(&policy, "deploy now")), ("allow", "ask"));
    let policy = Policy::new(&[], &["(".to_owned()]);
    assert_eq!((verdict(&policy, "ls"), verdict(&policy, "touch a")), ("deny", "deny"));
}

fn tool(name: &str) -> ToolSpec {
    [Profile::Full, Profile::Workspace]
        .into_iter()
        .flat_map(tools)
        .find(|tool| tool.name == name)
        .expect("a tool of the catalog")
}

fn call(name: &str, path: &str) -> ToolCall {
    let serde_json::Value::Object(arguments) = json!({ "path": path }) else { unreachable!("an object") };
    ToolCall {
        id: CallId::new("c"),
        wire_id: None,
        name: name.to_owned(),
        arguments: Arguments::Object(arguments),
    }
}

#[test]
fn file_tools_are_judged_by_their_paths() {
    let policy = Policy::new(&[], &[]);
    let mut table = String::new();
    for (name, path) in [
        ("read_file", "src/main.rs"),
        ("ls", "."),
        ("write_file", "src/main.rs"),
        ("write_file", ".bashrc"),
        ("edit_file", ".git/hooks/pre-commit"),
        ("write_file", "~/notes"),
        ("write_file", "it's"),
    ] {
        let spec = tool(name);
        let grant = [Grant::Tool { name: name.to_owned() }];
        let judge = |mode, grants: &[Grant]| {
            word(policy.tool(mode, grants, &survey(), &spec, &call(name, path)).verdict)
        };
        let verdicts = ApprovalMode::ALL.map(|mode| judge(mode, &[]));
        let granted = judge(ApprovalMode::Each, &grant);
        writeln!(table, "{name} {path}: {}; granted {granted}", verdicts.join(" "))
            .expect("writing to a string cannot fail");
    }
    expect![[r#"
        read_file src/main.rs: allow allow allow allow; granted allow
        ls .: allow allow allow allow; granted allow
        write_file src/main.rs: ask ask allow deny; granted allow
        write_file .bashrc: ask ask ask deny; granted ask
        edit_file .git/hooks/pre-commit: ask ask ask deny; granted ask
        write_file ~/notes: ask ask allow deny; granted allow
        write_file it's: ask ask allow deny; granted allow
    "#]]
    .assert_eq(&table);
}

#[test]
fn an_error_in_the_config_denies_every_tool_that_does_not_only_read() {
    let external = |effect| ToolSpec { effect, ..tool("read_file") };
    for deny in [format!("{CONFIG_ERROR}config.toml:2"), "(".to_owned()] {
        let policy = Policy::new(&[], std::slice::from_ref(&deny));
        let mut allowed = Vec::new();
        for (spec, path) in [
            (tool("read_file"), "notes"),
            (tool("ls"), "."),
            (tool("write_file"), "notes"),
            (tool("edit_file"), "notes"),
            (tool("mkdir"), "notes"),
            (tool("git_commit"), "notes"),
            (external(ToolEffect::External), "notes"),
            (external(ToolEffect::ExternalReads), "notes"),
            (external(ToolEffect::ExternalReads), "/home/ann/.ssh/id_rsa"),
        ] {
            let grants = [Grant::Tool { name: spec.name.clone() }];
            let judged = policy.tool(ApprovalMode::Auto, &grants, &survey(), &spec, &call(&spec.name, path));
            match judged.verdict {
                Verdict::Deny => assert_eq!(judged.rule.as_ref(), Some(&deny), "{spec:?}"),
                verdict => allowed.push(format!("{} {:?}: {}", spec.name, spec.effect, word(verdict))),
            }
        }
        assert_eq!(allowed, ["read_file Reads: allow", "ls Reads: allow", "read_file ExternalReads: allow"]);
    }
}

#[test]
fn calls_of_mcp_servers_ask_unless_the_user_believes_the_server() {
    let policy = Policy::new(&[], &[]);
    let external = |effect| ToolSpec {
        name: "mcp__files__read".to_owned(),
        description: "".into(),
        parameters: json!({"type": "object"}).into(),
        effect,
    };
    let mut table = String::new();
    for (effect, path) in [
        (ToolEffect::External, "notes"),
        (ToolEffect::External, "/home/ann/.ssh/id_rsa"),
        (ToolEffect::ExternalReads, "notes"),
        (ToolEffect::ExternalReads, "/home/ann/.ssh/id_rsa"),
    ] {
        let spec = external(effect);
        let survey = Survey::elsewhere(CommandContext::bash());
        let grant = [Grant::Tool { name: spec.name.clone() }];
        let judge =
            |mode, grants: &[Grant]| policy.tool(mode, grants, &survey, &spec, &call(&spec.name, path));
        let verdicts = ApprovalMode::ALL.map(|mode| word(judge(mode, &[]).verdict)).join(" ");
        let granted = word(judge(ApprovalMode::Auto, &grant).verdict);
        let class = judge(ApprovalMode::Ask, &[]).risk.class;
        writeln!(table, "{effect:?} {path}: {verdicts}; granted {granted}; {class:?}")
            .expect("writing to a string cannot fail");
    }
    expect![[r#"
        External notes: ask ask ask deny; granted allow; Opaque
        External /home/ann/.ssh/id_rsa: ask ask ask deny; granted ask; ReadsSecret
        ExternalReads notes: allow allow allow allow; granted allow; ReadOnly
        ExternalReads /home/ann/.ssh/id_rsa: ask ask ask deny; granted ask; ReadsSecret
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_grant_holds_for_its_tool_directory_host_and_user_only() {
    let (bash, terminal) = (tool("bash"), tool("run_command"));
    let scope = GrantScope::of(&bash, &survey()).expect("the folder is known");
    let grants = [ScopedGrant { grant: Grant::Exact { command: "rm -rf build".to_owned() }, scope }];
    let holds = |spec: &ToolSpec, survey: &Survey| !grants_for(&grants, spec, survey).is_empty();
    assert!(holds(&bash, &survey()));
    assert!(!holds(&terminal, &survey()));
    let changes: [fn(&mut CommandContext); 4] = [
        |context| context.folder = Some("/srv/app/precious".to_owned()),
        |context| context.host = Some("web1".to_owned()),
        |context| context.user = Some("root".to_owned()),
        |context| context.folder = None,
    ];
    for change in changes {
        let mut other = survey();
        change(&mut other.context);
        assert!(!holds(&bash, &other), "{other:?}");
    }
    let unknown = Survey { resolution: Resolution::Failed, ..Survey::default() };
    assert_eq!(GrantScope::of(&bash, &unknown), None, "an unknown directory is not a scope");
}

#[test]
fn ask_in_a_0_1_0_log_means_each() {
    use sysop_core::event::{ConfigChange, Event};
    let old: Event = serde_json::from_value(json!({"type": "configured", "change": {"approve": "ask"}}))
        .expect("an event");
    assert_eq!(old, Event::configured(ConfigChange::Approve(ApprovalMode::Each)));
    for mode in ApprovalMode::ALL {
        let event = Event::configured(ConfigChange::Approve(mode));
        let text = serde_json::to_string(&event).expect("plain data");
        assert_eq!(serde_json::from_str::<Event>(&text).expect("an event"), event, "{text}");
    }
}

#[test]
fn always_offers_a_rule_for_one_plain_command_only() {
    let call = |name: &str, key: &str, value: &str| ToolCall {
        id: CallId::new("c1"),
        wire_id: None,
        name: name.to_owned(),
        arguments: Arguments::Object(serde_json::Map::from_iter([(key.to_owned(), value.into())])),
    };
    let risk = |class| Risk { class, findings: Vec::new() };
    let rule = |command: &str, class| {
        Rule::for_approval("local", &call("bash", "command", command), command, &risk(class))
    };
    let toml = rule("touch a", RiskClass::Changes).map(|rule| rule.to_toml());
    let expected = "[[policy.rules]]\naction = \"allow\"\n\
        match = { program = \"touch\", options = [], operands = [\"a\"], host = \"local\" }\n";
    assert_eq!(toml.as_deref(), Some(expected));
    // The user's dangerous patterns count as well as the grammar.
    assert_eq!(rule("touch a", RiskClass::Dangerous), None);
    for command in ["rm -rf /", "touch a; touch b", "touch $(id)", "touch a > b"] {
        assert_eq!(rule(command, RiskClass::Changes), None, "{command}");
    }
    let file = call("edit_file", "path", "a");
    assert_eq!(Rule::for_approval("local", &file, "edit_file a", &risk(RiskClass::Changes)), None);
}
