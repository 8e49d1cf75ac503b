//! Undo of commands by the binary, on this machine.

use crate::World;
use serde_json::json;

use crate::support::{Mock, bash, call, lines_of_json, say};

const TASK: &str = "change the file";

/// A session whose first call changed `a` and made `made`. Returns its world and its id.
fn changed() -> (Mock, World, String, crate::Run) {
    let mock = Mock::start(&[(TASK, vec![bash("echo new >a; mkdir made; echo x >made/x"), say("done")])]);
    let world = World::with_openai(&mock.url());
    std::fs::write(world.work().join("a"), "old\n").unwrap();
    let ran = world.finish(&["exec", "--approve", "auto", TASK]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let listed = world.finish(&["sessions", "list"]);
    let id =
        listed.out.lines().rfind(|line| line.contains(TASK)).and_then(|line| line.split_whitespace().next());
    let id = id.unwrap_or_else(|| panic!("no session: {listed:?}")).to_owned();
    (mock, world, id, ran)
}

#[test]
fn a_step_is_planned_undone_and_redone() {
    let (_mock, world, id, ran) = changed();
    assert!(
        ran.err.contains("changed: 2 files in ") && ran.err.contains("; undo: exact (sysop undo "),
        "{ran:?}"
    );
    let told =
        ran.err.split("(sysop undo ").nth(1).and_then(|rest| rest.split(')').next()).expect("a command");
    let [told_session, "1"] = told.split(' ').collect::<Vec<_>>()[..] else { panic!("{told}") };
    assert!(told_session.starts_with(&id), "{told} and {id}");
    let read = || std::fs::read_to_string(world.work().join("a")).unwrap();
    let export = || world.finish(&["sessions", "export", &id]).out;
    let before = export();
    assert!(!before.is_empty());

    let plan = world.finish(&["undo", &id, "--plan"]);
    let latest = world.finish(&["undo", "--plan"]);
    assert_eq!(latest.out, plan.out, "without an id: the most recent session");
    let named = format!("{TASK}\" on local in {}", world.work().display());
    assert!(latest.err.starts_with(&format!("session {id}")) && latest.err.contains(&named), "{latest:?}");
    assert_eq!((plan.code, read().as_str()), (Some(0), "new\n"), "{plan:?}");
    assert!(plan.out.contains("restore ") && plan.out.contains("remove "), "{plan:?}");

    assert_eq!(world.finish(&["undo", "--yes"]).code, Some(2), "undoing without asking needs an id");
    let unanswered = world.finish(&["undo", &id]);
    assert_eq!((unanswered.code, read().as_str()), (Some(3), "new\n"), "{unanswered:?}");
    assert!(unanswered.err.contains("`undo call 1` needs approval"), "{unanswered:?}");
    let absent = world.finish(&["undo", &id, "9", "--yes"]);
    let why = "error: there is no call 9\nhint: this session has 1 tool call\n";
    assert_eq!((absent.code, absent.err.as_str()), (Some(1), why), "{absent:?}");
    assert_eq!(export(), before, "a plan, and an undo that cannot run, are not logged");

    let undone = world.finish(&["undo", &id, "1", "--yes"]);
    assert_eq!((undone.code, read().as_str()), (Some(0), "old\n"), "{undone:?}");
    assert!(undone.err.contains("  changed: 2 files in "), "{undone:?}");
    assert!(undone.err.contains("  undone: ") && undone.err.contains("/a, "), "{undone:?}");
    assert!(!world.has("made"), "{undone:?}");
    let shown = world.finish(&["sessions", "show", &id]);
    assert_eq!(world.finish(&["sessions", "show"]).out, shown.out);
    assert!(shown.out.contains("undid "), "{shown:?}");

    let step = shown.out.rsplit("(/undo ").next().and_then(|rest| rest.split(')').next()).unwrap().to_owned();
    let redone = world.finish(&["undo", &id, &step, "--yes"]);
    assert_eq!((redone.code, read().as_str()), (Some(0), "new\n"), "{redone:?}");
    assert!(world.has("made/x"), "{redone:?}");
}

#[test]
fn an_undo_without_a_session_finds_the_last_one_that_has_something_to_undo() {
    let looks = [(TASK, vec![bash("echo new >a"), say("done")]), ("look around", vec![say("nothing here")])];
    let mock = Mock::start(&looks);
    let world = World::with_openai(&mock.url());
    assert_eq!(world.finish(&["exec", "--approve", "auto", TASK]).code, Some(0));
    for _ in 0..2 {
        assert_eq!(world.finish(&["exec", "look around"]).code, Some(0));
    }
    let id = world.session_ids().pop().expect("the oldest session is the last");
    let plan = world.finish(&["undo", "--plan"]);
    let named = plan.err.lines().next().is_some_and(|line| line.contains(&format!("\"{TASK}\"")));
    assert!(plan.code == Some(0) && named, "{plan:?}");
    assert_eq!(world.finish(&["undo", &id, "--yes"]).code, Some(0));
    let none = world.finish(&["undo", "--plan"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.err.contains("no change to undo in the last 3 sessions of this directory"), "{none:?}");
}

#[test]
fn changes_of_file_tools_are_planned_and_asked_about_too() {
    let edit = json!({ "path": "app.conf", "old_string": "port = 80", "new_string": "port = 8080" });
    let write = json!({ "path": "new.txt", "content": "x" });
    let mock = Mock::start(&[(TASK, vec![call("edit_file", edit), call("write_file", write), say("done")])]);
    let world = World::with_openai(&mock.url());
    std::fs::write(world.work().join("app.conf"), "port = 80\n").unwrap();
    let ran = world.finish(&["exec", "--approve", "auto", TASK]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let listed = world.finish(&["sessions", "list"]).out;
    let id = listed.lines().nth(1).and_then(|line| line.split_whitespace().next()).unwrap();
    let read = || std::fs::read_to_string(world.work().join("app.conf")).unwrap();

    let plan = world.finish(&["undo", id, "--plan"]);
    assert_eq!((plan.code, plan.out.as_str()), (Some(0), "restore app.conf\nremove new.txt\n"), "{plan:?}");
    assert!(read() == "port = 8080\n" && world.has("new.txt"), "the plan changes nothing");

    let unanswered = world.finish(&["undo", id]);
    assert_eq!(unanswered.code, Some(3), "{unanswered:?}");
    assert!(unanswered.err.contains("hint: run interactively, or run `sysop undo "), "{unanswered:?}");
    assert!(read() == "port = 8080\n" && world.has("new.txt"), "nobody has allowed it");

    let undone = world.finish(&["undo", id, "--yes"]);
    assert_eq!((undone.code, read().as_str()), (Some(0), "port = 80\n"), "{undone:?}");
    assert!(!world.has("new.txt"), "{undone:?}");
    assert!(undone.err.contains("  OK, removed 1 file: new.txt; restored 1 file: app.conf\n"), "{undone:?}");
}

#[test]
fn a_file_that_somebody_else_changed_since_is_named_and_kept() {
    let (_mock, world, id, _) = changed();
    std::fs::write(world.work().join("a"), "other\n").unwrap();
    let refused = world.finish(&["undo", &id, "1", "--yes"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("changed since the call: ") && refused.err.contains("/a was edited"),
        "{refused:?}"
    );
    assert!(world.has("made/x"));
    let missing = world.finish(&["undo", &id, "7", "--yes"]);
    assert!(missing.code == Some(1) && missing.err.contains("there is no call 7"), "{missing:?}");
    assert_eq!(world.finish(&["undo", "nosuchsession", "--yes"]).code, Some(2));
    assert_eq!(world.finish(&["undo", &id, "0"]).code, Some(2));
}

#[test]
fn the_messages_name_what_changed() {
    let mock = Mock::start(&[(TASK, vec![bash("echo new >a"), bash("cat a"), say("done")])]);
    let world = World::with_openai(&mock.url());
    let run = world.finish(&["exec", "--json", "--approve", "auto", TASK]);
    let messages = lines_of_json(&run.out);
    let ended: Vec<_> = messages.iter().filter(|message| message["type"] == "tool.finished").collect();
    assert_eq!(ended[0]["undo"], "exact", "{run:?}");
    assert_eq!(ended[0]["changed"][0]["kind"], "file");
    assert_eq!(ended[0]["changed"][0]["how"], "created");
    assert!(ended[1].get("undo").is_none() && ended[1].get("changed").is_none(), "{run:?}");
}

#[test]
fn in_the_home_directory_what_sysop_writes_is_no_change() {
    let mock = Mock::start(&[(
        TASK,
        vec![bash("make -v"), bash("tar -cf made --files-from /dev/null"), bash("make -v"), say("done")],
    )]);
    let world = World::with_openai(&mock.url());
    let home = world.home().to_str().unwrap();
    let ran = world.finish(&["exec", "-v", "--root", home, "--approve", "auto", TASK]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.err.matches("changed: ").count(), 1, "{ran:?}");
    assert!(ran.err.contains("/made created; undo: partial (sysop undo "), "{ran:?}");
    let listed = world.finish(&["sessions", "list"]).out;
    let id = listed.lines().nth(1).and_then(|line| line.split_whitespace().next()).unwrap();
    let plan = world.finish(&["undo", id, "--plan"]);
    assert_eq!(plan.code, Some(0), "{plan:?}");
    let steps: Vec<&str> = plan.out.lines().filter(|line| !line.starts_with("not exact")).collect();
    assert_eq!(steps, [format!("remove {home}/made")], "{plan:?}");
    assert_eq!(world.finish(&["undo", id, "--yes"]).code, Some(0));
    assert!(!world.home().join("made").exists());
}

#[test]
fn a_file_that_a_script_of_the_user_makes_is_undone() {
    let mock = Mock::start(&[(TASK, vec![bash("sh mk.sh"), say("done")])]);
    let world = World::with_openai(&mock.url()).file("work/mk.sh", "echo hello >out.txt\n");
    let ran = world.finish(&["exec", "--approve", "auto", TASK]);
    assert!(ran.err.contains("/out.txt created; undo: exact (sysop undo "), "{ran:?}");
    let listed = world.finish(&["sessions", "list"]).out;
    let id = listed.lines().nth(1).and_then(|line| line.split_whitespace().next()).unwrap();
    let undone = world.finish(&["undo", id, "--yes"]);
    assert!(undone.code == Some(0) && !world.has("out.txt") && world.has("mk.sh"), "{undone:?}");
}
