//! Rules that help small models: one call at a time, hints, evidence, and usage after a failure.

use expect_test::expect;
use sysop_core::event::{ConfigChange, Input};
use sysop_core::message::{Arguments, CallEnd, Message, Reply, ToolProtocol};
use sysop_core::outcome::{ChangeKind, Outcome, Reversibility, Status, SystemChange};
use sysop_core::policy::ApprovalMode;
use sysop_core::spec::{FILE_LIST_MARK, SessionSpec};
use sysop_core::tool::{ClientTools, ToolEffect};

use crate::scripts::shows;
use crate::world::{World, bash, calls, says, spec, tool};

#[test]
fn a_small_model_that_repeats_itself_is_told_to_answer_without_tools() {
    let mut world = World::auto();
    world.prompt("go");
    for id in ["1", "2"] {
        let reply = Reply { protocol: ToolProtocol::Text, ..calls(vec![bash(id, "uptime")]) };
        world.reply(reply).outcome(Outcome::ok("up"));
    }
    let (_, request) = world.asked.clone().expect("asked");
    assert!(request.tools.is_empty());
    let Some(Message::ToolResults { results }) = request.messages.last().map(|m| m.message()) else {
        panic!("the last message holds the results")
    };
    assert!(results[0].output.ends_with("do something else, or answer now]"), "{}", results[0].output);
}

#[test]
fn in_the_text_protocol_only_the_first_call_of_a_reply_counts() {
    let mut world = World::auto();
    world.prompt("go");
    let two = || calls(vec![bash("1", "touch a"), bash("2", "touch b")]);
    world.reply(Reply { protocol: ToolProtocol::Text, ..two() });
    shows(
        world.outcome(Outcome::ok("made")),
        expect![[r#"
            finished 1 ok: made
            step 1.2"#]],
    );
    let mut native = World::auto();
    native.prompt("go").reply(two()).outcome(Outcome::ok("made"));
    assert!(native.lines().contains("started 2"), "{}", native.lines());
}

#[test]
fn a_claim_without_any_call_is_asked_for_its_evidence_once() {
    let mut world = World::auto();
    world.prompt("create a.txt").reply(says("The file a.txt has been created."));
    let (_, request) = world.asked.clone().expect("the turn continues");
    let last = request.messages.last().map(|message| message.message().clone());
    assert!(
        matches!(&last, Some(Message::User { text, .. }) if text.contains("nothing has been done")),
        "{last:?}"
    );
    shows(
        world.reply(says("The file a.txt has been created.")),
        expect![[r#"
            replied "The file a.txt has been created." []
            turn 1 ended end_turn"#]],
    );
    // After a call, and in later turns, a claim may report what was done.
    let mut world = World::auto();
    world.prompt("create a.txt").reply(calls(vec![bash("1", "touch a.txt")])).outcome(Outcome::ok(""));
    world.reply(says("The file a.txt has been created."));
    assert!(world.lines().ends_with("turn 1 ended end_turn"), "{}", world.lines());
    world.prompt("what did you do?").reply(says("The file a.txt has been created."));
    assert!(world.lines().ends_with("turn 2 ended end_turn"), "{}", world.lines());
}

#[test]
fn failing_alike_leads_to_a_hint_then_to_calls_as_text_then_to_a_question() {
    let mut world = World::auto();
    world.prompt("go");
    let fail = |world: &mut World, number: u32| {
        let command = format!("touch /wrong/{number}");
        world.reply(calls(vec![bash(&number.to_string(), &command)]));
        world.outcome(Outcome { exit_code: Some(1), ..Outcome::failed("touch: no such directory") });
    };
    let hinted = |world: &World| {
        let (_, request) = world.asked.clone().expect("asked");
        let Some(Message::ToolResults { results }) = request.messages.last().map(|last| last.message())
        else {
            panic!("the last message holds the results")
        };
        (results[0].output.ends_with("then take another approach]"), request.calls_as_text)
    };
    fail(&mut world, 1);
    assert_eq!(hinted(&world), (false, false));
    fail(&mut world, 2);
    assert_eq!(hinted(&world), (true, false));
    fail(&mut world, 3);
    assert_eq!(hinted(&world), (true, true));
    fail(&mut world, 4);
    fail(&mut world, 5);
    assert!(world.lines().ends_with("paused Loop"), "{}", world.lines());
    world.tell(Input::Resume);
    let (_, request) = world.asked.clone().expect("asked");
    assert!(!request.calls_as_text, "counted from the start");
}

#[test]
fn two_commands_follow_a_failed_one_before_an_answer() {
    let must_call = |outcomes: &[(&str, Outcome)]| -> Vec<bool> {
        let mut world = World::auto();
        world.prompt("go");
        let mut requests = vec![world.asked.clone().expect("asked").1.must_call];
        for (number, (command, outcome)) in outcomes.iter().enumerate() {
            world.reply(calls(vec![bash(&number.to_string(), command)])).outcome(outcome.clone());
            requests.push(world.asked.clone().expect("asked").1.must_call);
        }
        requests
    };
    let failed = |text: &str| Outcome { exit_code: Some(1), ..Outcome::failed(text) };
    let first = ("cp a b", failed("cp: error 1"));
    let list = ("ls", Outcome::ok("c"));
    let other = ("cp c b", failed("cp: error 2"));
    assert_eq!(
        must_call(&[list.clone(), first.clone(), list.clone(), list.clone()]),
        [false, false, true, true, false]
    );
    assert_eq!(must_call(&[first.clone(), other.clone(), other]), [false, true, true, false]);
    let repaired = ("mkdir -p d && cp a d/b", Outcome::ok(""));
    assert_eq!(must_call(&[first.clone(), repaired]), [false, true, false], "the same program succeeded");
    let nothing = ("grep x a", failed("[exit code 1]"));
    assert_eq!(must_call(&[nothing]), [false, false], "a search that finds nothing is no failure");
    let stopped = ("cp c b", Outcome { status: Status::Cancelled, ..Outcome::failed("stopped") });
    assert_eq!(must_call(&[first.clone(), stopped]), [false, true, false], "a person stopped it");
    let unreachable = ("ls", Outcome::unreachable("web1 refused the connection"));
    assert_eq!(must_call(std::slice::from_ref(&unreachable)), [false, false], "no command can run");
    assert_eq!(must_call(&[first, unreachable]), [false, true, false], "no command can run any more");
}

#[test]
fn a_model_with_tools_as_text_is_asked_once_about_a_file_that_nothing_used() {
    let text = |reply: Reply| Reply { protocol: ToolProtocol::Text, ..reply };
    let asked = |prompt: &str, reply: Reply| {
        let mut world = World::auto();
        let mut count = bash("1", "grep -c ERROR logs/app.log");
        let Arguments::Object(arguments) = &mut count.arguments else { panic!("an object") };
        // What a reason announces is not done.
        arguments.insert("reason".to_owned(), "Count them and write the number to answer.txt".into());
        world.prompt(prompt).reply(text(calls(vec![count]))).outcome(Outcome::ok("9"));
        world.reply(reply);
        if world.lines().ends_with("turn 1 ended end_turn") {
            return None;
        }
        let (_, request) = world.asked.clone().expect("asked");
        let Some(Message::User { text: question, .. }) =
            request.messages.last().map(|message| message.message().clone())
        else {
            panic!("a question")
        };
        world.reply(text(says("There are 9.")));
        assert!(world.lines().ends_with("turn 1 ended end_turn"), "{}", world.lines());
        Some(question)
    };
    let answer = || text(says("There are 9."));
    expect!["The request names out/answer.txt, but nothing that you ran has used it. If it must be written or changed, do that now. If not, give your answer again."]
        .assert_eq(&asked("Count the errors in logs/app.log. Write the number to out/answer.txt.", answer()).unwrap_or_default());
    for prompt in [
        "Count the errors in logs/app.log.",
        "Count the errors in logs/app.log. Leave b.conf as it is.",
        "Count the errors in logs/app.log. Do not write to answer.txt; b.conf must stay.",
        "Count errors, e.g. of 10.0.0.1, see https://a.example/b.html, *.log",
    ] {
        assert_eq!(asked(prompt, answer()), None, "{prompt}");
    }
    let native = says("There are 9.");
    assert_eq!(asked("Count the errors and write them to answer.txt.", native), None);
}

#[test]
fn a_file_that_changed_counts_as_used_even_if_no_command_names_it() {
    let change = |name: &str| SystemChange {
        kind: ChangeKind::File,
        name: format!("/srv/{name}"),
        how: "created".to_owned(),
    };
    let ends = |changed: Vec<SystemChange>| {
        let mut world = World::auto();
        let reply = Reply { protocol: ToolProtocol::Text, ..calls(vec![bash("1", "gzip big.log")]) };
        world.prompt("Compress big.log, so that big.log.gz takes its place.").reply(reply);
        world.outcome(Outcome { changed, ..Outcome::ok("[exit code 0]") });
        world.reply(Reply { protocol: ToolProtocol::Text, ..says("It is compressed.") });
        world.lines().ends_with("turn 1 ended end_turn")
    };
    assert!(ends(vec![change("big.log"), change("big.log.gz")]));
    assert!(!ends(vec![change("big.log")]));
}

/// Returns the result that the model gets for a command with these changes, whether it must call a tool next, and how
/// the call ended.
fn result_of(
    protocol: ToolProtocol,
    command: &str,
    output: &str,
    changed: Vec<SystemChange>,
) -> (String, bool, CallEnd) {
    let mut world = World::auto();
    world.prompt("Set the port.").reply(Reply { protocol, ..calls(vec![bash("1", command)]) });
    world.outcome(Outcome { changed, undo: Some(Reversibility::Exact), ..Outcome::ok(output) });
    let (_, request) = world.asked.clone().expect("asked");
    let Some(Message::ToolResults { results }) = request.messages.last().map(|last| last.message()) else {
        panic!("the last message holds the results")
    };
    (results[0].output.clone(), request.must_call, results[0].end)
}

#[test]
fn an_edit_that_left_the_files_as_they_were_is_told_so() {
    let rewritten = |name: &str, how: &str| SystemChange {
        kind: ChangeKind::File,
        name: format!("/srv/{name}"),
        how: how.to_owned(),
    };
    let run = result_of;
    let (silent, sed) = ("[exit code 0]", "sed -i s/80/81/ a.conf");
    let same = || rewritten("a.conf", "touched");
    let line = "[exit code 0]\n[the edit changed nothing: a.conf has its old content; run: cat a.conf]";
    let told = run(ToolProtocol::Text, sed, silent, vec![same()]);
    assert_eq!(told, (line.to_owned(), true, CallEnd::Advised));
    let told = run(ToolProtocol::Native, sed, silent, vec![same()]);
    assert_eq!(told, (line.to_owned(), false, CallEnd::Done), "a large model draws its own conclusion");
    let told = run(ToolProtocol::Text, sed, silent, vec![same(), rewritten("b", "touched")]).0;
    assert!(told.contains("changed nothing: a.conf and others have their old content"), "{told}");
    for (command, output, changed) in [
        (sed, silent, vec![same(), rewritten("b", "edited")]),
        (sed, silent, vec![]),
        (sed, "1 file read\n[exit code 0]", vec![same()]),
        ("touch a.conf", silent, vec![same()]),
        ("curl -o a.conf http://a/b", silent, vec![same()]),
    ] {
        let told = run(ToolProtocol::Text, command, output, changed);
        assert_eq!(told, (output.to_owned(), false, CallEnd::Done), "{command}");
    }
}

#[test]
fn a_command_that_wrote_nothing_into_its_file_is_told_so() {
    let run = |protocol: ToolProtocol, command: &str, how: &str, output: &str| {
        let (name, how) = ("/srv/a.txt".to_owned(), how.to_owned());
        result_of(protocol, command, output, vec![SystemChange { kind: ChangeKind::File, name, how }])
    };
    let (silent, pipe) = ("[exit code 0]", "ls -l | awk '{print $12}' > a.txt");
    let line = "[exit code 0]\n[the command wrote nothing into a.txt, which is empty; run its first part alone: ls -l]";
    for how in ["created empty", "emptied"] {
        assert_eq!(
            run(ToolProtocol::Text, pipe, how, silent),
            (line.to_owned(), true, CallEnd::Advised),
            "{how}"
        );
        let told = run(ToolProtocol::Native, pipe, how, silent);
        assert_eq!(told, (line.to_owned(), false, CallEnd::Done), "a large model draws its own conclusion");
    }
    let list = "ls -l | sort -rh | head -n 1 | awk '{print $9}' > a.txt";
    let line = "[exit code 0]\n[the command wrote nothing into a.txt, which is empty; usage: ls -S DIR (largest first), \
                ls -t DIR (newest first)]";
    let told = run(ToolProtocol::Text, list, "emptied", silent);
    assert_eq!(told, (line.to_owned(), true, CallEnd::Advised), "its first part says less");
    for command in [
        "grep -E 'error|fail' log > a.txt",
        "grep x f > a.txt 2>&1",
        "false || grep x f > a.txt",
        "git pull; grep x f > a.txt",
    ] {
        let told = run(ToolProtocol::Text, command, "emptied", silent);
        let line = "[exit code 0]\n[the command wrote nothing into a.txt, which is empty]";
        assert_eq!(told, (line.to_owned(), true, CallEnd::Failed), "{command}");
    }
    for (command, how, output) in [
        (pipe, "created", silent),
        (pipe, "created empty", "1 line\nerror: no such column\n[exit code 0]"),
        ("touch a.txt", "created empty", silent),
        (": > a.txt", "emptied", silent),
        ("> a.txt", "emptied", silent),
        ("echo > a.txt", "created empty", silent),
        ("cat /dev/null > a.txt", "emptied", silent),
    ] {
        let told = run(ToolProtocol::Text, command, how, output).0;
        assert!(!told.contains("wrote nothing"), "{command}: {told}");
    }
}

#[test]
fn a_corrected_command_is_demanded_and_followed_by_no_reminder() {
    let text = |reply: Reply| Reply { protocol: ToolProtocol::Text, ..reply };
    let mut world = World::auto();
    world.prompt("Write the value of HOST in a.conf to a.txt.");
    let right = "grep '^ *HOST *=' a.conf | cut -d= -f2 >a.txt";
    for (command, told, must_call) in [
        ("cat a.conf | grep HOST | cut -d= -f2 >a.txt", format!("run: {right}]"), true),
        (right, "[exit code 0]".to_owned(), false),
    ] {
        world.reply(text(calls(vec![bash("", command)]))).outcome(Outcome::ok("[exit code 0]"));
        let (_, request) = world.asked.clone().expect("asked");
        let Some(Message::ToolResults { results }) = request.messages.last().map(|it| it.message().clone())
        else {
            panic!("a result")
        };
        assert!(results[0].output.ends_with(&told), "{command}: {results:?}");
        assert_eq!(request.must_call, must_call, "{command}");
    }
}

#[test]
fn a_turn_does_not_end_with_an_empty_file_before_the_model_was_asked() {
    let text = |reply: Reply| Reply { protocol: ToolProtocol::Text, ..reply };
    let changed = |how: &str| {
        let (name, how) = ("/srv/a.txt".to_owned(), how.to_owned());
        Outcome { changed: vec![SystemChange { kind: ChangeKind::File, name, how }], ..Outcome::ok("") }
    };
    let pipe = || text(calls(vec![bash("", "ls -l | cut -d: -f9 > a.txt")]));
    let mut world = World::auto();
    world.prompt("Write the name into a.txt.");
    for how in ["created empty", "touched"] {
        world.reply(pipe()).outcome(changed(how));
    }
    world.reply(text(says("It is b.")));
    let (_, request) = world.asked.clone().expect("asked");
    let Some(Message::User { text: question, .. }) =
        request.messages.last().map(|last| last.message().clone())
    else {
        panic!("a question")
    };
    expect!["a.txt is still empty. If it must hold something, write that into it now. If not, give your answer again."]
        .assert_eq(&question);
    assert!(!request.tools.is_empty(), "the repeated call does not take its tools away");
    world.reply(text(says("It is b.")));
    assert!(world.lines().ends_with("turn 1 ended end_turn"), "it is asked once: {}", world.lines());
    let mut world = World::auto();
    world.prompt("Write the name into a.txt.").reply(pipe()).outcome(changed("created empty"));
    world.reply(text(calls(vec![bash("2", "echo b > a.txt")]))).outcome(changed("edited"));
    world.reply(text(says("It is b.")));
    assert!(world.lines().ends_with("turn 1 ended end_turn"), "{}", world.lines());
}

/// Returns the question that the model gets for the answer `answer`, after it has run each command with its outcome.
/// `None` if the turn ends.
fn question_after(prompt: &str, ran: &[(&str, Outcome)], answer: &str) -> Option<String> {
    let text = |reply: Reply| Reply { protocol: ToolProtocol::Text, ..reply };
    let files = format!("Be brief.\n{FILE_LIST_MARK}passwd.txt, logs/ (app.log)");
    let mut world = World::new(SessionSpec { text_system: Some(files), ..spec(ApprovalMode::Auto) });
    world.prompt(prompt);
    for (command, outcome) in ran {
        world.reply(text(calls(vec![bash("", command)]))).outcome(outcome.clone());
    }
    world.reply(text(says(answer)));
    if world.lines().ends_with("turn 1 ended end_turn") {
        return None;
    }
    let (_, request) = world.asked.clone()?;
    match request.messages.last().map(|last| last.message().clone()) {
        Some(Message::User { text, .. }) => Some(text),
        other => panic!("a question, not {other:?}"),
    }
}

fn after_change(name: &str, how: &str) -> Outcome {
    let change = SystemChange { kind: ChangeKind::File, name: format!("/srv/{name}"), how: how.to_owned() };
    Outcome { changed: vec![change], undo: Some(Reversibility::Exact), ..Outcome::ok("") }
}

#[test]
fn a_file_that_is_there_is_not_asked_about() {
    let ran = [("grep bash /etc/passwd >a.txt", after_change("a.txt", "created"))];
    let asked = |prompt: &str| question_after(prompt, &ran, "They are in a.txt.");
    assert_eq!(asked("List the users in passwd.txt and logs/app.log."), None, "the model might overwrite it");
    assert!(asked("List the users in users.txt.").is_some_and(|text| text.contains("COMMAND >users.txt")));
    let absolute = asked("Check /etc/nginx/nginx.conf.").expect("a question");
    assert!(absolute.contains("If it must be written or changed") && !absolute.contains('>'), "{absolute}");
}

#[test]
fn the_command_that_printed_the_value_is_proposed_for_the_file() {
    let asked = |command: &str, output: &str| {
        let ran = [(command, Outcome::ok(output))];
        question_after("Write the number of users to n.txt.", &ran, "It is 6.").expect("a question")
    };
    let count = "sort -u passwd.txt | wc -l";
    let question = asked(count, "6\n[exit code 0]");
    assert!(
        question.ends_with("If the result belongs there, run: sort -u passwd.txt | wc -l >n.txt"),
        "{question}"
    );
    for (command, output) in [
        (count, "6 7"),
        (count, ""),
        ("wc -l 2>&1", "6"),
        ("ls\nwc", "6"),
        ("cp a b && wc -l", "6"),
        ("a; b", "6"),
        ("docker run -d nginx", "3f2a"),
        ("mktemp", "/tmp/tmp.1"),
        ("curl -X POST http://a/b", "ok"),
        ("cat a", "cat: a: No such file"),
    ] {
        let question = asked(command, output);
        assert!(question.contains("COMMAND >n.txt"), "{command}: {question}");
    }
}

#[test]
fn a_file_that_was_only_created_is_asked_about_unless_the_request_wants_an_empty_one() {
    let touch = [("touch a.txt", after_change("a.txt", "created empty"))];
    let is_asked = |prompt: &str| {
        question_after(prompt, &touch, "It is done.")
            .is_some_and(|text| text.starts_with("a.txt is still empty"))
    };
    assert!(is_asked("Write yes or no to a.txt."));
    assert!(!is_asked("Create the empty file a.txt."));
}

#[test]
fn a_number_that_no_output_shows_is_asked_about_once() {
    let sum = [("awk '{s+=$1} END {print s}' passwd.txt >sum.txt", after_change("sum.txt", "created"))];
    let prompt = "Write the sum of passwd.txt to sum.txt.";
    expect!["Your answer says 10, but no output shows that. Run a command that prints it, such as: cat sum.txt. If nothing can print it, give your answer again."]
        .assert_eq(&question_after(prompt, &sum, "The sum is 10.").unwrap_or_default());
    let listed = [("cat passwd.txt", Outcome::ok("a\nb\nc"))];
    let asked = question_after("How many lines has passwd.txt?", &listed, "It has 3 lines.");
    assert!(asked.is_some_and(|text| text.contains("says 3")));
    let counted = [("wc -l passwd.txt", Outcome::ok("3 passwd.txt"))];
    assert_eq!(question_after("How many lines has passwd.txt?", &counted, "It has 3 lines."), None);
}

#[test]
fn a_command_that_ends_within_a_quote_is_returned_to_a_small_model_once() {
    let first = |protocol: ToolProtocol, command: &str| {
        let mut world = World::auto();
        world.prompt("go").reply(Reply { protocol, ..calls(vec![bash("1", command)]) });
        world
    };
    let is_returned =
        |protocol: ToolProtocol, command: &str| first(protocol, command).lines().contains("not run");
    for command in [
        "sqlite3 a.db 'SELECT at FROM logins WHERE user = ",
        "echo \"a",
        "cat <<EOF >a.sh\n#!/bin/sh\necho 'a'",
        "cat <<'EOF' >a.sh\necho a",
    ] {
        assert!(is_returned(ToolProtocol::Text, command), "{command}");
        assert!(!is_returned(ToolProtocol::Native, command), "other models are not corrected: {command}");
    }
    for command in [
        "echo 'it is \"a\"'",
        "echo \"it's\"",
        "cat <<EOF >a\n'\nEOF",
        "cat <<< \"a\"",
        "echo $((1<<2))",
        "echo $((1<<n))",
        "cat <<'END OF LIST' >a\nb\nEND OF LIST",
        "cat <<END-1 >a\nb\nEND-1",
        "echo a # it's",
        "echo it\\'s",
        "echo \"$(echo 'a\"b')\"",
    ] {
        assert!(!is_returned(ToolProtocol::Text, command), "{command}");
    }
    let mut world = first(ToolProtocol::Text, "echo 'a");
    world.reply(Reply { protocol: ToolProtocol::Text, ..calls(vec![bash("2", "echo 'a")]) });
    assert!(!world.lines().contains("not run"), "the second one is reviewed: {}", world.lines());
}

#[test]
fn a_silent_command_after_a_failure_is_followed_by_a_reminder_of_the_failed_one() {
    let result = |protocol: ToolProtocol, failing: &str, next: &str, outcome: Outcome| {
        let reply = |call| Reply { protocol, ..calls(vec![call]) };
        let mut world = World::auto();
        world.prompt("go").reply(reply(bash("1", failing)));
        world.outcome(Outcome { exit_code: Some(1), ..Outcome::failed("sh: notes/a: No such file") });
        world.reply(reply(bash("2", next))).outcome(outcome);
        let (_, request) = world.asked.clone().expect("asked");
        let Some(Message::ToolResults { results }) = request.messages.last().map(|last| last.message())
        else {
            panic!("the last message holds the results")
        };
        results[0].output.clone()
    };
    let silent = || Outcome::ok("[exit code 0]");
    let text = |failing: &str, next: &str| result(ToolProtocol::Text, failing, next, silent());
    let write = "echo a >notes/a";
    assert_eq!(
        text(write, "mkdir notes"),
        "[exit code 0]\n[this command failed and has not been run again; if it is still needed, run it now: echo a \
         >notes/a]"
    );
    assert_eq!(text(write, "echo a >a"), "[exit code 0]", "a corrected command");
    for wrapped in ["sudo echo a >notes/a", "sudo -n echo a >notes/a", "cd b && LANG=C echo a >notes/a"] {
        assert_eq!(text(wrapped, "sudo cd c && echo a >a"), "[exit code 0]", "{wrapped}");
        assert_ne!(text(wrapped, "sudo mkdir notes"), "[exit code 0]", "{wrapped}");
    }
    let look = Outcome::ok("notes.txt\n");
    assert_eq!(result(ToolProtocol::Text, write, "ls", look), "notes.txt\n", "a look");
    assert_eq!(
        result(ToolProtocol::Native, write, "mkdir notes", silent()),
        "[exit code 0]",
        "a large model"
    );
}

#[test]
fn models_that_get_their_tools_as_text_have_their_own_system_prompt() {
    let with = |approve| SessionSpec { text_system: Some("short".to_owned()), ..spec(approve) };
    let prompt = |world: &World| world.asked.clone().expect("asked").1.text_system;
    let mut world = World::new(with(ApprovalMode::Auto));
    world.prompt("go");
    assert_eq!(prompt(&world).as_deref(), Some("short"));

    let mut reads = World::new(with(ApprovalMode::Never));
    reads.prompt("go");
    let text = prompt(&reads).expect("the prompt");
    assert!(
        text.starts_with("short\n\n") && text.len() > "short\n\n".len(),
        "it says what is forbidden: {text}"
    );

    // It does not say which tools run where.
    let mut helped = World::new(with(ApprovalMode::Auto));
    let tools =
        ClientTools { tools: vec![tool("play", ToolEffect::Writes, "path")], root: "/home/me".to_owned() };
    helped.tell(Input::Configure { change: ConfigChange::ClientTools(tools) }).prompt("go");
    assert_eq!(prompt(&helped), None);
}

#[test]
fn failures_without_a_message_or_with_another_one_do_not_add_up() {
    let mut world = World::auto();
    world.prompt("go");
    for number in 1..=8 {
        let message = if number % 2 == 0 { format!("error {number}") } else { "[exit code 1]".to_owned() };
        world.reply(calls(vec![bash(&number.to_string(), &format!("grep {number} a"))]));
        world.outcome(Outcome { exit_code: Some(1), ..Outcome::failed(message) });
        assert!(!world.lines().contains("paused"), "{}", world.lines());
    }
}

#[test]
fn a_missing_program_adds_one_line_to_the_result() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("1", "jq . a.json")]));
    world.outcome(Outcome {
        exit_code: Some(127),
        ..Outcome::failed("bash: line 1: jq: command not found\n")
    });
    let (_, request) = world.asked.clone().expect("asked");
    let Some(Message::ToolResults { results }) = request.messages.last().map(|last| last.message()) else {
        panic!("the last message holds the results")
    };
    assert_eq!(
        results[0].output,
        "bash: line 1: jq: command not found\n[jq is not installed: use another program, or the shell itself]"
    );
}
