//! Fence of a call, by mode, class and config.

use std::fmt::Write;

use expect_test::expect;
use serde_json::{Map, Value, json};
use sysop_core::catalog::{Profile, tools};
use sysop_core::event::{Event, Logged};
use sysop_core::id::{CallId, Seq, Timestamp};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::policy::{
    ApprovalMode, Assessment, CommandContext, Fence, Policy, PolicyOptions, SandboxMode, SandboxOptions,
    Survey, Verdict,
};
use sysop_core::tool::ToolSpec;
use sysop_core::transcript::Transcript;

fn survey(uid: u32) -> Survey {
    let context = CommandContext {
        folder: Some("/srv/app".to_owned()),
        root: Some("/srv/app".to_owned()),
        home: Some("/home/ann".to_owned()),
        uid: Some(uid),
        ..CommandContext::bash()
    };
    Survey::elsewhere(context)
}

fn policy(mode: SandboxMode) -> Policy {
    let sandbox = SandboxOptions { mode, write: vec!["/home/ann/.cache".to_owned()], network: true };
    Policy::new(&[], &[]).with_options(PolicyOptions { sandbox, ..PolicyOptions::default() })
}

fn tool(name: &str) -> ToolSpec {
    tools(Profile::Full).into_iter().find(|tool| tool.name == name).expect("a tool")
}

fn call(tool: &str, arguments: Value) -> ToolCall {
    let arguments: Map<String, Value> = arguments.as_object().expect("an object").clone();
    ToolCall {
        id: CallId::new("c"),
        wire_id: None,
        name: tool.to_owned(),
        arguments: Arguments::Object(arguments),
    }
}

fn word(fence: &Fence) -> &'static str {
    match fence {
        Fence::Off => "off",
        Fence::ReadOnly { network: false } => "read-only",
        Fence::ReadOnly { network: true } => "read-only+net",
        Fence::Workspace { network: true, .. } => "workspace",
        Fence::Workspace { network: false, .. } => "workspace-net",
    }
}

/// One row for each command: its fence in `each`, `ask`, `auto` and `never`.
fn matrix(policy: &Policy, survey: &Survey, tool_name: &str) -> String {
    let spec = tool(tool_name);
    let mut table = String::new();
    let commands = ["ls", "touch a", "eval \"$x\"", "sudo touch a", "cd x && sudo touch a", "rm -rf /etc"];
    for command in commands {
        let call = call(tool_name, json!({ "command": command }));
        let fence = |mode| {
            let assessment = policy.command(mode, &[], survey, command);
            word(&policy.fence(mode, survey, &spec, &call, &assessment))
        };
        writeln!(table, "{command:22} {}", ApprovalMode::ALL.map(fence).join(" ")).expect("a string");
    }
    table
}

#[test]
fn auto_fences_reads_in_never_and_plain_changes_of_users_in_auto() {
    expect![[r#"
        ls                     off off off read-only
        touch a                off off workspace read-only
        eval "$x"              off off off read-only
        sudo touch a           off off off read-only
        cd x && sudo touch a   off off off read-only
        rm -rf /etc            off off off read-only
    "#]]
    .assert_eq(&matrix(&policy(SandboxMode::Auto), &survey(1000), "bash"));
}

#[test]
fn root_is_fenced_in_never_only() {
    expect![[r#"
        ls                     off off off read-only
        touch a                off off off read-only
        eval "$x"              off off off read-only
        sudo touch a           off off off read-only
        cd x && sudo touch a   off off off read-only
        rm -rf /etc            off off off read-only
    "#]]
    .assert_eq(&matrix(&policy(SandboxMode::Auto), &survey(0), "bash"));
}

#[test]
fn on_fences_every_command_of_bash() {
    expect![[r#"
        ls                     workspace workspace workspace read-only
        touch a                workspace workspace workspace read-only
        eval "$x"              workspace workspace workspace read-only
        sudo touch a           workspace workspace workspace read-only
        cd x && sudo touch a   workspace workspace workspace read-only
        rm -rf /etc            workspace workspace workspace read-only
    "#]]
    .assert_eq(&matrix(&policy(SandboxMode::On), &survey(0), "bash"));
}

#[test]
fn the_shared_terminal_is_never_fenced_and_never_has_a_shell_of_its_own() {
    for mode in [SandboxMode::Auto, SandboxMode::On] {
        let policy = policy(mode);
        let table = matrix(&policy, &survey(1000), "run_command");
        assert!(table.lines().all(|row| row.ends_with(" off off off read-only")), "{table}");
        assert_eq!(policy.shell_fence(ApprovalMode::Never), Fence::ReadOnly { network: false });
        assert_eq!(policy.shell_fence(ApprovalMode::Auto), Fence::Off);
    }
    assert_eq!(policy(SandboxMode::Off).shell_fence(ApprovalMode::Never), Fence::Off);
}

#[test]
fn sandbox_off_fences_no_call() {
    let table = matrix(&policy(SandboxMode::Off), &survey(1000), "bash");
    assert!(table.lines().all(|row| row.ends_with(" off off off off")), "{table}");
}

#[test]
fn only_what_connects_may_connect_in_never_and_only_where_the_config_says_so() {
    let options = |never_network| PolicyOptions {
        never_network,
        sandbox: SandboxOptions { mode: SandboxMode::Auto, ..SandboxOptions::default() },
        ..PolicyOptions::default()
    };
    let never = ApprovalMode::Never;
    let fence = |never_network, command: &str| {
        let policy = Policy::new(&[], &[]).with_options(options(never_network));
        let assessment = policy.command(never, &[], &survey(0), command);
        let call = call("bash", json!({ "command": command }));
        word(&policy.fence(never, &survey(0), &tool("bash"), &call, &assessment))
    };
    assert_eq!(fence(true, "dig example.org"), "read-only+net");
    assert_eq!(fence(true, "ls"), "read-only");
    assert_eq!(fence(false, "dig example.org"), "read-only");
}

fn outside(sandbox: SandboxMode, mode: ApprovalMode, arguments: Value) -> Assessment {
    let policy = policy(sandbox);
    let assessment = policy.command(mode, &[], &survey(1000), "ls");
    policy.assess_outside(mode, &call("bash", arguments), assessment)
}

#[test]
fn a_call_outside_the_sandbox_asks_in_every_mode_that_can_ask() {
    let arguments = json!({ "command": "ls", "outside_sandbox": true, "reason": "needs the bus" });
    for mode in [ApprovalMode::Each, ApprovalMode::Ask, ApprovalMode::Auto] {
        let assessment = outside(SandboxMode::Auto, mode, arguments.clone());
        assert_eq!(assessment.verdict, Verdict::Ask, "{mode:?}");
        assert!(assessment.risk.findings.iter().any(|finding| finding.why == "runs outside the sandbox"));
        let policy = policy(SandboxMode::Auto);
        let fence =
            policy.fence(mode, &survey(1000), &tool("bash"), &call("bash", arguments.clone()), &assessment);
        assert_eq!(fence, Fence::Off);
    }
    let never = outside(SandboxMode::Auto, ApprovalMode::Never, arguments.clone());
    assert_eq!(never.verdict, Verdict::Deny);
    let on = outside(SandboxMode::On, ApprovalMode::Auto, arguments.clone());
    assert_eq!((on.verdict, on.refusal.contains("sandbox = on")), (Verdict::Deny, true));
    let off = outside(SandboxMode::Off, ApprovalMode::Auto, arguments);
    assert_eq!(off.verdict, Verdict::Allow);
}

#[test]
fn a_call_outside_the_sandbox_says_why() {
    let arguments = json!({ "command": "ls", "outside_sandbox": true, "reason": " " });
    let assessment = outside(SandboxMode::Auto, ApprovalMode::Auto, arguments);
    assert_eq!(assessment.verdict, Verdict::Deny);
    assert!(assessment.refusal.contains("`reason`"), "{}", assessment.refusal);
}

#[test]
fn options_without_a_sandbox_are_logged_as_before() {
    assert_eq!(serde_json::to_string(&PolicyOptions::default()).expect("JSON"), "{}");
    let read: PolicyOptions = serde_json::from_str(r#"{"never_network":true}"#).expect("options");
    assert_eq!(read.sandbox, SandboxOptions::default());
    let sandbox = SandboxOptions { mode: SandboxMode::Auto, write: vec!["/a".to_owned()], network: true };
    let options = PolicyOptions { sandbox, ..PolicyOptions::default() };
    let text = serde_json::to_string(&options).expect("JSON");
    assert_eq!(text, r#"{"sandbox":{"mode":"auto","write":["/a"],"network":true}}"#);
    assert_eq!(serde_json::from_str::<PolicyOptions>(&text).expect("options"), options);
}

#[test]
fn the_status_line_shows_the_sandbox_if_every_command_is_fenced() {
    let label_on = |host: &str, sandbox, mode| {
        let mut spec = crate::world::spec(mode);
        spec.policy.sandbox.mode = sandbox;
        host.clone_into(&mut spec.host);
        let mut transcript = Transcript::default();
        let event = Event::SessionOpened { spec: spec.into(), opened_by: None };
        transcript.apply_logged(&Logged { seq: Seq(1), at: Timestamp(0), event });
        transcript.session_info().expect("a session").fence_label()
    };
    let label = |sandbox, mode| label_on("local", sandbox, mode);
    assert_eq!(label(SandboxMode::Auto, ApprovalMode::Never), Some("sandboxed"));
    assert_eq!(label(SandboxMode::On, ApprovalMode::Ask), Some("sandboxed"));
    assert_eq!(label(SandboxMode::Auto, ApprovalMode::Auto), None);
    assert_eq!(label(SandboxMode::Off, ApprovalMode::Never), None);
    let on_server = label_on("local on ops.example.com", SandboxMode::Off, ApprovalMode::Never);
    assert_eq!(on_server, None, "a server does not tell the fence of its own machine");
    for host in ["web1", "web1, web2"] {
        assert_eq!(label_on(host, SandboxMode::Off, ApprovalMode::Never), Some("sandbox not enforced"));
        assert_eq!(label_on(host, SandboxMode::Off, ApprovalMode::Ask), None);
    }
}
