//! Runbooks on this machine: phases of steps, drift, faults of files, and reports.

mod on_fail;

use std::fs;

use serde_json::json;

use crate::World;
use crate::person::{Person, at_a_terminal};
use crate::support::{Mock, bash, call, say};

fn with_steps(steps: &str) -> World {
    World::new().file(".config/sysop/config.toml", steps)
}

fn run(world: &World, arguments: &[&str]) -> crate::Run {
    world.finish(&[&["run", "--approve", "auto"], arguments].concat())
}

#[test]
fn a_step_is_skipped_checked_and_verified() {
    let world = with_steps(
        "[routines.site]\nvars.name = { pattern = '[a-z ]+' }\n\
         [[routines.site.steps]]\nname = 'make'\ncmd = 'mkdir {{name}}'\nunless = 'test -d {{name}}'\n\
         [[routines.site.steps]]\nname = 'count'\ncmd = 'printf \"n=%s\\n\" 7'\nexpect = { match = 'n=(?<count>.+)' }\n\
         [[routines.site.steps]]\nname = 'fill'\ncheck = 'test -d {{name}}'\n\
         cmd = 'echo {{count}} >{{name}}/count'\nverify = 'grep -q 7 {{name}}/count'\n\
         retry = { times = 2, every_s = 0 }\ncwd = '.'\nenv = { A = 'b' }\n",
    );
    let first = run(&world, &["site", "name=a b"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert_eq!(world.read("a b/count"), "7\n");
    assert!(first.out.contains("n=7\n"), "{first:?}");
    let again = run(&world, &["site", "name=a b"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.err.contains("already done: skipped"), "{again:?}");
    assert!(again.err.contains("done: 2 steps, 1 already done"), "{again:?}");

    let missing = run(&world, &["site"]);
    assert_eq!(missing.code, Some(2), "{missing:?}");
    let from = run(&world, &["site", "name=a", "--from", "3"]);
    assert_eq!(from.code, Some(2), "{from:?}");
    assert!(from.err.contains("step 3 needs {{count}}, which step 2 provides"), "{from:?}");
}

#[test]
fn a_run_without_a_name_lists_the_routines() {
    let world = with_steps(
        "[routines.up]\ncmd = 'uptime'\ndescription = 'Time; load'\n[routines.restart]\ncmd = 'true'\n",
    );
    let run = world.finish(&["run"]);
    let told = "restart\nup       Time; load\nerror: no routine given\nhint: name one of the above, as in `sysop run NAME`\n";
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(2), "", told), "{run:?}");
    let none = World::new().finish(&["run"]);
    assert!(
        none.code == Some(2) && none.err.starts_with("error: there are no routines\nhint: add one to "),
        "{none:?}"
    );
}

#[test]
fn a_failed_check_runs_nothing_and_a_failed_verify_is_retried() {
    let world = with_steps(
        "[[routines.check.steps]]\nname = 'no'\ncheck = 'test -e nothing'\ncmd = 'touch ran'\n\
         [[routines.verify.steps]]\nname = 'no'\ncmd = 'touch ran'\nverify = 'test -e nothing'\n\
         retry = { times = 3, every_s = 0 }\n",
    );
    let check = run(&world, &["check"]);
    assert_eq!(check.code, Some(1), "{check:?}");
    assert!(check.err.contains("`check` failed before the step: exit code 1, expected 0"), "{check:?}");
    assert!(!world.has("ran"));
    let verify = run(&world, &["verify"]);
    assert_eq!(verify.code, Some(1), "{verify:?}");
    assert!(verify.err.contains("exit code 1, expected 0 after 3 tries"), "{verify:?}");
    assert_eq!(verify.err.matches("test -e nothing").count(), 3, "{verify:?}");
}

#[test]
fn a_step_may_fail_or_end_otherwise_if_it_says_so() {
    let world = with_steps(
        "[[routines.r.steps]]\ncmd = 'false'\nexpect = { exit = [0, 1] }\n\
         [[routines.r.steps]]\ncmd = 'exit 4'\non_fail = 'continue'\n\
         [[routines.r.steps]]\ncmd = 'echo an error'\nexpect = { not_match = 'error' }\n",
    );
    let run = run(&world, &["r"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("failed, continuing: exit code 4, expected 0"), "{run:?}");
    assert!(
        run.err.contains("stopped at step 3 of 3 (echo an error): the output matches /error/"),
        "{run:?}"
    );
}

#[test]
fn the_policy_judges_each_step() {
    let world = with_steps(
        "[[routines.r.steps]]\ncmd = 'echo hello'\n[[routines.r.steps]]\nname = 'write'\ncmd = 'touch made'\n",
    );
    let asked = world.finish(&["run", "r"]);
    assert_eq!(asked.code, Some(3), "{asked:?}");
    assert!(asked.out.contains("hello") && !world.has("made"), "{asked:?}");
    let never = world.finish(&["run", "--approve", "never", "r"]);
    assert_eq!(never.code, Some(1), "{never:?}");
    assert!(never.err.contains("step 2 of 2 (write) was not approved"), "{never:?}");
    let plan = world.finish(&["run", "--plan", "r"]);
    assert_eq!(plan.code, Some(0), "{plan:?}");
    let expected = "r\non local, approve = ask\n\n1. echo hello\n   $ echo hello\n   read-only: runs\n\n2. write\n   \
                    $ touch made\n   changes: asks\n\nsteps without undo: 1, 2\nneeds: touch\n";
    assert_eq!(plan.out, expected);
    assert!(!world.has("made"));
}

#[test]
fn faults_are_named_with_their_lines() {
    let book = "[routines.r]\nvars.site = { pattern = '[a-z]+', default = 'UP' }\n\n[[routines.r.steps]]\n\
                cmd = 'ls {{other}}'\nchek = 'ls'\n\n[[routines.r.steps]]\ncmd = \"echo '{{site}}'\"\n\
                check = 'rm -rf x'\nexpect = { exit = 300, match = '(' }\ntimeout_s = 0\n\n\
                [[routines.r.steps]]\nname = 'empty'\n\n\
                [[routines.r.steps]]\nfile = 'a'\ncontent = 'b'\nguard = true\n\
                [[routines.r.steps]]\ncmd = 'ls'\nguard = 'ssh'\n";
    let world = World::new().file("work/book.toml", book);
    let checked = world.finish(&["runbook", "check", "book.toml"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    for fault in [
        "book.toml:5: routine \"r\": step 1: `cmd`: unknown value {{other}}; available variables: site",
        "book.toml:6: routine \"r\": step 1: `chek` is not a key of a step; did you mean `check`?",
        "book.toml:9: routine \"r\": step 2: `cmd`: {{site}} is inside quotes or a comment",
        "book.toml:10: routine \"r\": step 2: `check` must only read, but \"rm -rf x\" may change something",
        "book.toml:11: routine \"r\": step 2: `expect.exit` must be an integer from 0 to 255",
        "book.toml:11: routine \"r\": step 2: `expect.match` is not a valid regular expression",
        "book.toml:12: routine \"r\": step 2: `timeout_s` must be an integer from 1 to 3600",
        "book.toml:14: routine \"r\": step 3: a step needs `cmd`, `file` or `ask`",
        "routine \"r\": step 4: `guard` needs `cmd`: only commands can be guarded",
        "routine \"r\": step 5: `guard` must be true, or one of sshd, keys, sudo, login, accounts, firewall",
        "invalid value \"UP\" for `site`",
    ] {
        assert!(checked.out.contains(fault), "{fault}\n{}", checked.out);
    }
    let refused = run(&world, &["--file", "book.toml", "r"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("the routine \"r\" cannot run: book.toml:"), "{refused:?}");
    for (text, fault) in [
        ("x = [", ":1: invalid TOML"),
        ("", ":1: no routines"),
        ("[routines.r]\ndescription = 'x'\n", ":2: "),
    ] {
        fs::write(world.work().join("book.toml"), text).unwrap();
        let checked = world.finish(&["runbook", "check", "book.toml"]);
        assert_eq!(checked.code, Some(1), "{checked:?}");
        assert!(checked.out.contains(fault), "{text}: {checked:?}");
    }
    let missing = world.finish(&["runbook", "check", "nothing.toml"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(
        missing.out.starts_with("error: no runbook at nothing.toml\nhint: check the path, or create it"),
        "{missing:?}"
    );
    let missing = world.finish(&["run", "--file", "nothing.toml", "x"]);
    assert!(missing.err.starts_with("error: no runbook at nothing.toml\n"), "{missing:?}");
}

#[test]
fn steps_of_an_untrusted_workspace_do_not_run() {
    let world = World::new().file("work/.sysop.toml", "[[routines.r.steps]]\ncmd = 'touch made'\n");
    let ran = run(&world, &["r"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("ignoring the steps of the routine \"r\""), "{ran:?}");
    assert!(!world.has("made"));
    let trusted = run(&world, &["--trust", "r"]);
    assert_eq!((trusted.code, world.has("made")), (Some(0), true), "{trusted:?}");
}

#[test]
fn a_missing_program_stops_the_run_before_the_first_step() {
    let world = with_steps(
        "[[routines.r.steps]]\ncmd = 'touch made'\n[[routines.r.steps]]\ncmd = 'no-such-program x'\n",
    );
    let ran = run(&world, &["r"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("nothing ran: the host has no no-such-program"), "{ran:?}");
    assert!(!world.has("made"));
}

#[test]
fn a_person_answers_questions_and_consents_to_an_undo() {
    let world = with_steps(
        "[[routines.r.steps]]\nname = 'make'\ncmd = 'mkdir made'\nundo = 'rmdir made'\n\
         [[routines.r.steps]]\nname = 'by hand'\nask = 'Plug in the cable'\n\
         [[routines.r.steps]]\nname = 'fail'\ncmd = 'exit 3'\non_fail = 'undo'\n",
    );
    let headless = run(&world, &["r"]);
    assert_eq!(headless.code, Some(3), "{headless:?}");
    assert!(headless.err.contains("step 2 of 3 (by hand) needs a person"), "{headless:?}");
    fs::remove_dir(world.work().join("made")).unwrap();
    at_a_terminal(async {
        let mut person = Person::sits_down(&world, &["run", "--approve", "auto", "r"]);
        person.sees("Plug in the cable").await;
        person.sees("y yes").await;
        assert!(world.has("made"));
        let listed = world.finish(&["sessions", "list"]).out;
        assert_eq!(listed.matches("r (routine)").count(), 2, "a running routine has its name: {listed}");
        person.types("y").await;
        person.sees("Undo these steps now, in this order?").await;
        person.sees("y yes").await;
        person.types("y").await;
        let (code, seen) = person.leaves().await;
        assert_eq!(code, 1, "{seen}");
        assert!(seen.contains("undone: 1 step") && !seen.contains("1 steps"), "{seen}");
    });
    assert!(!world.has("made"));
}

#[test]
fn a_step_that_cannot_be_guarded_does_not_run() {
    let world = with_steps("[[routines.r.steps]]\nname = 'make'\ncmd = 'mkdir made'\nguard = true\n");
    let ran = run(&world, &["r"]);
    assert_eq!((ran.code, world.has("made")), (Some(1), false), "{ran:?}");
    let why = "step 1 of 1 (make) was not approved: this call needs a guard, which is not available: only \
               commands on Linux hosts over ssh can be guarded";
    assert!(ran.err.contains(why), "{ran:?}");
    let plan = world.finish(&["run", "--plan", "r"]);
    assert!(plan.out.contains("cannot be guarded, so the run would stop here"), "{plan:?}");
}

#[test]
fn a_report_lists_what_was_done_and_is_safe_to_open() {
    let task = vec![
        bash("echo '<script>alert(1)</script>' >page; : 'Authorization: Bearer abcDEF123456789'"),
        call("write_file", json!({ "path": "notes.txt", "content": "one\n" })),
        say("Done."),
    ];
    let mock = Mock::start(&[("task", task)]);
    let world = World::with_openai(&mock.url());
    let done = world.finish(&["exec", "--approve", "auto", "the task <b>&\u{202e}"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let session = world.only_session();
    let html = world.finish(&["sessions", "report", &session, "--format", "html"]);
    assert_eq!(html.code, Some(0), "{html:?}");
    assert!(html.out.starts_with("<!doctype html>") && html.out.contains("default-src 'none'"), "{html:?}");
    assert!(html.out.contains("the task &lt;b&gt;&amp;"), "{html:?}");
    for odd in ["<script", "<b>", "abcDEF123456789", "\u{202e}", "http-equiv=\"refresh"] {
        assert!(!html.out.contains(odd), "{odd}: {}", html.out);
    }
    let markdown = world.finish(&["sessions", "report", &session]);
    assert_eq!(markdown.code, Some(0), "{markdown:?}");
    assert!(markdown.out.contains("\n## Asked\n"), "{markdown:?}");
    assert!(!markdown.out.contains("abcDEF123456789"), "{markdown:?}");
    let unknown = world.finish(&["sessions", "report", "ffff"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
}
