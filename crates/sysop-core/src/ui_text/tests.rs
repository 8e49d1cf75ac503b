//! Tests of messages for users.

use super::{
    counted, covers, error_lines, grouped, host_groups, host_status_parts, job_line, not_run_text, on_place,
    outcome_summary, place, running_jobs, server_machine, split_hint,
};
use crate::id::{CallId, JobId};
use crate::job::{Job, RunningJobs};
use crate::outcome::{
    CONNECTION_ENDED, EXIT_CODE_LOST, FULL_SCREEN_RUNS, HostOutcome, INNER_SHELL_ENDED, Outcome, Status,
    WAITS_FOR_ANSWER, nested_shell_note,
};
use crate::policy::{Grant, READ_ONLY_REFUSAL};

#[test]
fn a_command_that_goes_on_in_the_background_has_no_duration() {
    let outcome = Outcome { job: Some(crate::id::JobId(1)), duration_ms: 5_500, ..Outcome::ok("") };
    assert_eq!(outcome_summary(&outcome), "started in the background as job 1 (see /jobs)");
}

#[test]
fn a_grant_promises_no_bound_that_its_program_does_not_have() {
    let program = |program: &str, subcommand: Option<&str>| {
        covers(&Grant::Program { program: program.into(), subcommand: subcommand.map(str::to_owned) })
    };
    assert_eq!(program("touch", None), "any simple `touch …` that stays below this directory");
    let restart = program("systemctl", Some("restart"));
    assert_eq!(restart, "any simple `systemctl restart …`, run in this directory");
    let tool = |name: &str| covers(&Grant::Tool { name: name.into() });
    assert_eq!(tool("edit_file"), "all edits here, except to protected files");
    assert_eq!(tool("write_file"), "all writes here, except to protected files");
}

#[test]
fn the_user_of_a_host_with_a_port_is_named_without_the_scheme() {
    assert_eq!(place("ssh://joe@web1:2222"), "web1:2222 as joe");
    assert_eq!(host_status_parts("ssh://joe@web1:2222"), ["host web1:2222", "user joe"]);
    assert_eq!(place("ssh://web1:2222,joe@web2"), "2 hosts: web1:2222, web2 as joe");
}

#[test]
fn the_machine_of_a_server_is_named_once() {
    assert_eq!(on_place(&server_machine("ops.example.com")), "on ops.example.com");
    assert_eq!(on_place("joe@web1"), "on web1 as joe");
    assert_eq!(on_place("web1,web2"), "on 2 hosts: web1, web2");
}

#[test]
fn a_program_that_still_runs_in_the_terminal_is_no_lost_connection() {
    let summary = |output: String| outcome_summary(&Outcome::new(Status::Unknown, output));
    assert_eq!(summary(format!("Go? [{WAITS_FOR_ANSWER}]")), summary(String::new()), "printed by a program");
    assert_eq!(summary(format!("Go? \n[{WAITS_FOR_ANSWER}]")), "still running; it waits for input");
    assert_eq!(summary(format!("[{FULL_SCREEN_RUNS}]")), "still running in the terminal");
    let shell = nested_shell_note("bash");
    assert_eq!(summary(format!("[{shell}]")), "another shell is open in the terminal");
    let unsaved = "[no undo: /srv is too large]\n[no undo: timed out after 15 s]\n";
    assert_eq!(
        summary(format!("Go? \n[{WAITS_FOR_ANSWER}]\n{unsaved}")),
        "still running; it waits for input",
        "lines about undo follow the note"
    );
    assert!(summary("[the connection ended]".to_owned()).starts_with("outcome unknown"));
    assert_eq!(summary(format!("1\n[{EXIT_CODE_LOST}]\n{unsaved}")), "ended; its exit code was lost");
    assert_eq!(summary(format!("[{INNER_SHELL_ENDED}]")), "the inner shell ended");
    assert_eq!(
        summary(format!("[{CONNECTION_ENDED}the next call opens a new one]")),
        "outcome unknown: the connection ended; not run again"
    );
}

#[test]
fn a_running_job_is_one_line() {
    let (call, command) = (CallId::new("c"), "make\nall".to_owned());
    let job = Job { call, command, host: "web1".to_owned() };
    assert_eq!(job_line(JobId(2), &job, Some("3 s")), "job 2 on web1, 3 s: make\\nall");
    let mut jobs = RunningJobs::default();
    jobs.start(JobId(2), job);
    assert_eq!(running_jobs(&jobs), "job 2 on web1: make\\nall");
}

#[test]
fn a_call_that_was_stopped_at_its_time_limit_names_the_limit() {
    let summary = |status, output: &str| {
        outcome_summary(&Outcome { duration_ms: 30_100, ..Outcome::new(status, output) })
    };
    let note = Outcome::time_limit_note(30);
    let limit = "timed out after the limit of 30 s";
    assert_eq!(summary(Status::Timeout, &note), limit);
    assert_eq!(
        summary(Status::Timeout, &format!("[timed out after 9 s; stopped]\n{note}\n[no undo: x]")),
        limit
    );
    assert_eq!(summary(Status::Timeout, "no response"), "timed out, 30.1 s");
    assert_eq!(summary(Status::Failed, &note), "failed, 30.1 s", "printed by a program");
}

#[test]
fn an_interrupted_call_has_no_duration_unless_it_is_known() {
    let summary =
        |duration_ms| outcome_summary(&Outcome { duration_ms, ..Outcome::new(Status::Interrupted, "") });
    assert_eq!((summary(0), summary(12)), ("interrupted".to_owned(), "interrupted, 12 ms".to_owned()));
}

#[test]
fn people_do_not_see_advice_for_the_model() {
    let text = |output: &str| not_run_text(&Outcome::new(Status::Rejected, output));
    let expected = "not run: this session is read-only (approve = never)";
    assert_eq!(text(READ_ONLY_REFUSAL), expected);
    let rule = "denied by the rule `x`; do not try to work around it";
    assert_eq!(text(rule), "not run: denied by the rule `x`");
    assert_eq!(text("no ticket"), "not run: no ticket");
    assert_eq!(text("denied by a hook: no ticket; nothing ran"), "not run: denied by a hook: no ticket");
}

#[test]
fn thousands_are_separated_and_nouns_have_a_plural() {
    let shown: Vec<String> = [0, 999, 1_000, 56_789, 1_234_567].into_iter().map(grouped).collect();
    assert_eq!(shown, ["0", "999", "1,000", "56,789", "1,234,567"]);
    assert_eq!([0, 1, 2].map(|lines| counted(lines, "line")), ["0 lines", "1 line", "2 lines"]);
}

#[test]
fn hosts_that_all_printed_something_else_share_a_line() {
    let host = |name: &str, group, code| HostOutcome {
        host: name.to_owned(),
        status: if code == 0 { Status::Ok } else { Status::Failed },
        exit_code: Some(code),
        duration_ms: 10,
        group,
        unreachable: None,
    };
    let lines = |hosts: &[HostOutcome]| -> Vec<String> {
        host_groups(hosts).into_iter().map(|(text, _)| text).collect()
    };
    let mut hosts = vec![host("app01", 0, 0), host("app02", 1, 0), host("app03", 2, 0)];
    assert_eq!(lines(&hosts).len(), 3, "a few have a line each");
    hosts.extend([host("app04", 3, 0), host("web1", 4, 1)]);
    assert_eq!(
        lines(&hosts),
        ["4 hosts (app[01-04]): exit 0, 4 different outputs, 10 ms", "web1: exit 1, 10 ms"]
    );
}

#[test]
fn only_hosts_on_which_a_call_ran_count_as_failed() {
    let host = |status, why: Option<&str>| HostOutcome {
        host: "web1".to_owned(),
        status,
        exit_code: None,
        duration_ms: 0,
        group: 1,
        unreachable: why.map(str::to_owned),
    };
    let summary = |hosts: &[HostOutcome]| {
        outcome_summary(&Outcome { hosts: hosts.to_vec(), duration_ms: 1, ..Outcome::failed("") })
    };
    let [ok, failed] = [Status::Ok, Status::Failed].map(|status| host(status, None));
    let (skipped, lost) = (host(Status::Rejected, None), host(Status::Failed, Some("no route")));
    let hosts = [ok.clone(), failed, skipped, lost.clone()];
    assert_eq!(summary(&hosts), "failed on 1 of 4 hosts, not run on 2 of 4 hosts, 1 ms");
    assert_eq!(summary(&[ok, lost]), "not run on 1 of 2 hosts, 1 ms");
}

#[test]
fn hosts_that_cannot_be_reached_are_told_with_the_reason() {
    let host = |name: &str, group| HostOutcome {
        host: name.to_owned(),
        status: Status::Failed,
        exit_code: None,
        duration_ms: 10,
        group,
        unreachable: Some(format!("cannot reach {name}: connection refused")),
    };
    let lines = |hosts: &[HostOutcome]| -> Vec<String> {
        host_groups(hosts).into_iter().map(|(text, _)| text).collect()
    };
    assert_eq!(lines(&[host("db1", 1)]), ["db1: not run: cannot reach db1: connection refused"]);
    let labeled = |name: &str, group| HostOutcome {
        unreachable: Some(format!("{name}: no response in time")),
        ..host(name, group)
    };
    let alike = [labeled("web1", 1), labeled("web2", 2), labeled("web3", 3), labeled("db", 4)];
    assert_eq!(lines(&alike), ["4 hosts (web[1-3], db): not run: no response in time"]);
    let many: Vec<HostOutcome> = (1..=5).map(|number| host(&format!("db{number}"), number)).collect();
    assert_eq!(lines(&many), ["5 hosts (db[1-5]): not run: they cannot be reached"]);
}

#[test]
fn an_error_is_split_at_its_last_semicolon_outside_of_code() {
    assert_eq!(split_hint("no model; set a key"), ("no model", Some("set a key")));
    assert_eq!(split_hint("a; b; c"), ("a; b", Some("c")));
    assert_eq!(split_hint("`a; b` failed"), ("`a; b` failed", None));
    assert_eq!(split_hint("`a; b` failed; retry"), ("`a; b` failed", Some("retry")));
    assert_eq!(split_hint("bad value \"x; y\" (a; b)"), ("bad value \"x; y\" (a; b)", None));
    assert_eq!(split_hint("bad value \"a\\\"; y\"; retry"), ("bad value \"a\\\"; y\"", Some("retry")));
    assert_eq!(split_hint("plain"), ("plain", None));
    assert_eq!(split_hint("; x"), ("; x", None));
    assert_eq!(error_lines("no model; set a key"), "error: no model\nhint: set a key\n");
    assert_eq!(error_lines("plain"), "error: plain\n");
}
