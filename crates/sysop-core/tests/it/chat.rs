//! Plain chat: its requests, that nothing in a reply runs, and the turn from which a change of mode applies.

use expect_test::expect;
use serde_json::json;
use sysop_core::event::{ConfigChange, Event, Input, Origin};
use sysop_core::message::{Message, ModelRequest, Reply, ToolProtocol};
use sysop_core::mode::{Mode, SamplingDefaults};
use sysop_core::outcome::Outcome;
use sysop_core::policy::ApprovalMode;
use sysop_core::session::{Activity, Session};
use sysop_core::tool::ToolEffect;

use crate::world::{World, bash, call, calls, says, spec, tool};

fn asked(world: &World) -> ModelRequest {
    world.asked.clone().expect("the model is asked").1
}

/// Returns the messages of the last request, one per line.
fn told(world: &World) -> String {
    let request = asked(world);
    let lines = request.messages.iter().map(|message| match message.message() {
        Message::User { text, .. } => format!("user {text:?}"),
        Message::Assistant { reply } => format!("model {:?}", reply.text),
        Message::ToolResults { .. } => "results".to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_chat_offers_no_tools_and_has_a_prompt_and_a_temperature_of_its_own() {
    let mut world = World::auto();
    world.lend("/home/me", &["write_file"]).mode(Mode::Chat).prompt("How full is the disk?");
    let request = asked(&world);
    assert!(request.tools.is_empty());
    assert!(request.system.contains("<cmd>the command</cmd>"), "{}", request.system);
    assert!(request.system.ends_with("The terminal is on this machine, in the directory \"/srv\"."));
    let unknown_window = SamplingDefaults { reasoning_tokens: Some(16_384), ..SamplingDefaults::CHAT };
    assert_eq!((request.mode, request.sampling_defaults), (Mode::Chat, unknown_window));
    assert_eq!(
        (SamplingDefaults::CHAT.temperature, SamplingDefaults::CHAT.output_tokens),
        (Some(0.7), Some(4096))
    );
    world.reply(says("Use <cmd>df -h</cmd>."));
    assert!(world.lines().ends_with("turn 1 ended end_turn"), "{}", world.lines());
    world.mode(Mode::Agent).prompt("do it");
    let request = asked(&world);
    assert_eq!((request.mode, request.tools.len()), (Mode::Agent, 4));
    assert!(request.system.starts_with("Be brief."));
}

#[test]
fn configured_sampling_applies_in_every_mode() {
    let mut spec = spec(ApprovalMode::Auto);
    (spec.temperature, spec.max_output_tokens) = (Some(0.1), Some(77));
    let mut world = World::new(spec);
    for mode in Mode::ALL {
        world.mode(mode).prompt("go");
        let request = asked(&world);
        assert_eq!((request.temperature, request.max_output_tokens), (Some(0.1), Some(77)), "{mode}");
        world.reply(says("done"));
    }
}

#[test]
fn a_terminal_agent_uses_a_lower_temperature_and_others_the_servers_default() {
    let sampling_defaults = |tools: &[ToolEffect]| {
        let mut spec = spec(ApprovalMode::Auto);
        spec.tools = tools.iter().map(|effect| tool("it", *effect, "x")).collect();
        let sampling_defaults = SamplingDefaults::of(Mode::Agent, &spec.tools);
        (sampling_defaults.temperature, sampling_defaults.output_tokens)
    };
    assert_eq!(sampling_defaults(&[ToolEffect::Command, ToolEffect::Keys]), (Some(0.3), Some(4096)));
    assert_eq!(
        sampling_defaults(&[ToolEffect::Command, ToolEffect::Keys, ToolEffect::Writes]),
        (Some(0.3), Some(16_384))
    );
    assert_eq!(
        sampling_defaults(&[ToolEffect::Command, ToolEffect::Writes, ToolEffect::Reads]),
        (None, Some(16_384))
    );
}

#[test]
fn a_call_in_a_chat_is_answered_with_an_error() {
    let mut world = World::auto();
    world
        .mode(Mode::Chat)
        .prompt("go")
        .reply(calls(vec![bash("b", "touch a"), call("c", "task_complete", json!({"summary": "done"}))]));
    expect![[r#"
        replied "" [b=bash c=task_complete]
        finished b failed: nothing ran: this is a plain chat without tools. Answer in words, and write each command that the user may want to run as <cmd>the command</cmd>
        finished c failed: nothing ran: this is a plain chat without tools. Answer in words, and write each command that the user may want to run as <cmd>the command</cmd>
        step 1.2"#]]
    .assert_eq(&world.lines());
    assert!(world.ran.is_empty());
    assert!(told(&world).contains("(result of bash failed)\\nnothing ran"), "{}", told(&world));
}

#[test]
fn a_chat_reply_is_never_parsed_for_calls() {
    for text in [
        r#"{"type":"shell","command":"touch a","reason":"to try"}"#,
        "```sh\ntouch a\n```",
        "<tool_call>{\"name\":\"bash\",\"arguments\":{\"command\":\"touch a\"}}</tool_call>",
        r#"{"type":"answer","text":"4"}"#,
    ] {
        for protocol in [ToolProtocol::Native, ToolProtocol::Text] {
            let mut world = World::auto();
            world.mode(Mode::Chat).prompt("go").reply(Reply { protocol, ..says(text) });
            let Some(Event::Replied { reply, .. }) = world.last.events.first() else { panic!("no reply") };
            assert_eq!((reply.text.as_str(), reply.calls.len()), (text, 0), "byte for byte");
            assert_eq!(world.session.activity(), Activity::Idle);
        }
    }
}

#[test]
fn a_chat_sees_earlier_tool_calls_as_text() {
    let mut world = World::auto();
    world
        .prompt("Free some room.")
        .reply(Reply { text: "I look.".to_owned(), ..calls(vec![bash("1", "df -h")]) });
    world
        .outcome(Outcome::ok("/ 90%\n"))
        .reply(calls(vec![call("2", "read_file", json!({"path": "a"}))]))
        .outcome(Outcome::ok(""))
        .reply(calls(vec![call("3", "task_complete", json!({"summary": "The disk is 90% full."}))]));
    world.mode(Mode::Chat).prompt("Is that bad?");
    expect![[r#"
        user "Free some room."
        model "I look.\n\n(I called bash with: df -h)"
        user "(result of bash)\n/ 90%"
        model "(I called read_file with {\"path\":\"a\"})"
        user "(result of read_file)\n(nothing was printed)"
        model "The disk is 90% full."
        user "Is that bad?""#]]
    .assert_eq(&told(&world));
    world.reply(says("Yes.")).mode(Mode::Agent).prompt("Then go on.");
    assert!(told(&world).contains("results"), "an agent gets its calls back unchanged: {}", told(&world));
}

#[test]
fn a_mode_change_takes_effect_in_the_next_turn() {
    let mut world = World::each();
    world.prompt("go").reply(calls(vec![bash("1", "touch a")])).prompt("and then?").mode(Mode::Chat);
    assert_eq!((world.session.mode(), world.lines().as_str()), (Mode::Chat, "configured Mode(Chat)"));
    assert!(world.waiting().is_some(), "the running turn keeps its mode");
    world.allow().outcome(Outcome::ok(""));
    assert_eq!((asked(&world).mode, asked(&world).tools.len()), (Mode::Agent, 4));
    world.reply(says("done"));
    assert_eq!(asked(&world).mode, Mode::Chat, "the queued prompt runs in the next mode");
    world.mode(Mode::Agent).reply(calls(vec![bash("2", "touch a")]));
    assert_eq!((world.waiting(), asked(&world).mode), (None, Mode::Chat));
    world.reply(says("ok")).tell(Input::Retry);
    assert_eq!(asked(&world).mode, Mode::Agent, "a retry runs in the current mode");
}

#[test]
fn a_user_can_run_commands_during_a_chat() {
    let mut world = World::each();
    world.mode(Mode::Chat).direct("bash", "uptime", Origin::User);
    assert!(world.running.is_some());
    world.outcome(Outcome::ok("")).direct("bash", "touch a", Origin::Routine);
    assert!(world.waiting().is_some(), "a routine still needs approval");
}

#[test]
fn setting_the_same_mode_again_changes_nothing() {
    let mut world = World::each();
    world.mode(Mode::Agent);
    assert!(world.last.events.is_empty());
    world.mode(Mode::Chat).mode(Mode::Chat);
    assert!(world.last.events.is_empty());
}

#[test]
fn the_mode_is_logged_and_defaults_to_agent() {
    let mut world = World::each();
    assert_eq!(Session::replay(&world.log).expect("a log").mode(), Mode::Agent);
    world.mode(Mode::Chat);
    let event = serde_json::to_value(world.log.last().expect("logged")).expect("plain data");
    assert_eq!(event, json!({"type": "configured", "change": {"mode": "chat"}}));
    let back: Event = serde_json::from_value(event).expect("it reads back");
    assert_eq!(back, Event::configured(ConfigChange::Mode(Mode::Chat)));
    assert_eq!(world.crash().session.mode(), Mode::Chat);
}
