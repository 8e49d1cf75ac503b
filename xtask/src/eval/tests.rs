//! The tasks are proven by their solutions; the statistics, the proxy and the reference loop by examples.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::agent::{AgentEnd, AgentKind, Limits, TaskRun, Wire};
use super::proxy::{CountingProxy, ModelUse, Upstream, post, tokens};
use super::table::{TaskResult, json as result_json, table, wilson};
use super::task::{EvalTask, TaskFolder, faults, load};
use super::{EvalArgs, chosen, reference};
use crate::workspace::root;

fn tasks() -> Vec<EvalTask> {
    load(&root().join("xtask/eval")).expect("the tasks load")
}

fn task(name: &str) -> EvalTask {
    tasks().into_iter().find(|task| task.name == name).expect("a task has this name")
}

#[test]
fn each_check_passes_after_the_solution_only() {
    let faults: Vec<_> = tasks()
        .iter()
        .map(|task| (task.name.clone(), faults(task).expect("the scripts run")))
        .filter(|(_, faults)| !faults.is_empty())
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn each_fault_of_a_task_is_found() {
    let text = |check: &str, solution: &str| {
        format!(
            "prompt = ''\neasy = true\ntags = []\nsetup = 'touch before'\ncheck = '{check}'\nsolution = '{solution}'\n\
             wrong = 'touch wrong'\n"
        )
    };
    let folder = tempfile::tempdir().expect("a folder");
    for (check, solution, known) in [
        ("[ -e done ]; only done", "touch done", &[][..]),
        ("[ -e done ]", "touch done", &["the check passes although there is a stray file"]),
        ("only done", "touch done", &["the check passes before the solution"]),
        ("[ -e done ]; only done", "touch dune", &["the check fails after the solution"]),
        ("[ -e done ]; only done", "touch done; false", &["the solution fails"]),
        (
            "[ -e done ] || [ -e wrong ]; only done wrong",
            "touch done",
            &["the check passes after the wrong result"],
        ),
    ] {
        std::fs::write(folder.path().join("one.toml"), text(check, solution)).expect("it is written");
        let tasks = load(folder.path()).expect("it loads");
        assert_eq!(faults(&tasks[0]).expect("the scripts run"), known, "{check} {solution}");
    }
}

#[test]
fn forty_tasks_of_all_kinds_have_an_easy_half_and_wrong_results() {
    let tasks = tasks();
    let easy = tasks.iter().filter(|task| task.easy).count();
    assert!(tasks.len() >= 40 && easy * 2 == tasks.len(), "{easy} of {} are easy", tasks.len());
    assert!(tasks.iter().all(|task| task.wrong.is_some()));
    for tag in [
        "find", "inspect", "config", "scripts", "git", "archives", "logs", "permissions", "cron", "text",
        "sqlite", "recovery", "refuse",
    ] {
        let count = tasks.iter().filter(|task| task.tags.iter().any(|it| it == tag)).count();
        assert!(count >= 2, "{count} tasks have the tag {tag}");
    }
}

#[test]
fn a_file_with_an_unknown_key_is_not_a_task() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "prompt = ''\neasy = true\ntags = []\nsetup = ''\ncheck = ''\nsolution = ''\n";
    std::fs::write(folder.path().join("one.toml"), text).expect("it is written");
    assert_eq!(load(folder.path()).expect("it loads")[0].name, "one");
    std::fs::write(folder.path().join("two.toml"), format!("{text}chek = ''\n")).expect("it is written");
    let error = format!("{:#}", load(folder.path()).err().expect("it is refused"));
    assert!(error.contains("two.toml") && error.contains("chek"), "{error}");
}

#[test]
fn a_script_that_leaves_a_process_behind_ends() {
    let folder = TaskFolder::prepare(&task("file-create")).expect("the set-up works");
    let (succeeded, output) = folder.script("sleep 1000 & echo here").expect("it ends");
    assert!(succeeded);
    assert_eq!(output, "here");
}

#[test]
fn scripts_see_nothing_of_the_callers_environment() {
    let folder = TaskFolder::prepare(&task("file-create")).expect("the set-up works");
    let (_, output) =
        folder.script("env | cut -d= -f1 | grep -e CARGO -e TOKEN -e KEY || echo none").expect("it runs");
    assert_eq!(output, "none");
}

#[test]
fn the_interval_is_wilsons() {
    // By definition, each bound is a share from which the observed one is 1.96 standard errors away.
    for (solved, runs) in [(0, 10), (5, 10), (10, 10), (81, 263), (1, 1)] {
        let observed = solved as f64 / runs as f64;
        let (low, high) = wilson(solved, runs);
        assert!(low <= observed + 1e-9 && observed <= high + 1e-9, "{low} to {high}");
        for bound in [low, high] {
            let distance = 1.96 * (bound * (1.0 - bound) / runs as f64).sqrt();
            // At 0 and 1, one bound is the observed share itself.
            let edge = [0, runs].contains(&solved) && (bound - observed).abs() < 1e-9;
            assert!(
                edge || ((observed - bound).abs() - distance).abs() < 1e-4,
                "{solved} of {runs}: {bound}"
            );
        }
        assert!(low < high);
    }
    assert_eq!(wilson(0, 0), (0.0, 1.0));
}

fn task_run(solved: bool, requests: u64, estimated: u64) -> TaskRun {
    let model = ModelUse {
        requests,
        prompt_tokens: requests * 100,
        completion_tokens: 7,
        estimated,
        ..ModelUse::default()
    };
    TaskRun { solved, end: AgentEnd::Done, complaint: None, model, seconds: 2.0 }
}

#[test]
fn the_table_has_a_line_for_each_task_and_sums_for_each_half() {
    let (easy, hard) = (task("config-port"), task("git-revert"));
    let result = |task, agent, runs| TaskResult { task, agent, runs };
    let results = [
        result(&easy, AgentKind::Sysop, vec![task_run(true, 2, 0), task_run(true, 4, 0)]),
        result(&easy, AgentKind::Reference, vec![task_run(true, 2, 0), task_run(false, 2, 1)]),
        result(&hard, AgentKind::Sysop, vec![task_run(true, 5, 0), task_run(false, 5, 0)]),
    ];
    let text = table(&results);
    let line = |begin: &str| {
        let line =
            text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("no {begin}: {text}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("config-port  easy  sysop"), "config-port easy sysop 2/2 3.0 300 7 2.0");
    assert_eq!(line("config-port  easy  reference"), "config-port easy reference 1/2 2.0 ~200 ~7 2.0");
    assert_eq!(
        line("sysop     whole"),
        "sysop whole 3/4 solved = 75% (95% interval 30 to 95%); for each run 4.0 requests, 400 prompt tokens, 7 answer \
         tokens, 2 s"
    );
    assert!(line("sysop     easy").contains("2/2") && line("sysop     hard").contains("1/2"));
    assert!(!text.contains("reference hard"));
    assert!(text.contains("~ estimated"));
    let value = result_json(&results, "m");
    assert_eq!(value["tasks"][2]["runs"][1]["solved"], false);
    assert_eq!(value["sums"][2]["sum"]["prompt_tokens"], 1600);
}

#[test]
fn tokens_are_read_from_every_form_of_answer() {
    let one = json!({"usage": {"prompt_tokens": 12, "completion_tokens": 3}}).to_string();
    assert_eq!(tokens(one.as_bytes()), Some((12, 3)));
    let stream = "data: {\"choices\":[]}\n\ndata: {\"usage\":null}\n\ndata: {\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":6}}\n\ndata: [DONE]\n";
    assert_eq!(tokens(stream.as_bytes()), Some((5, 6)));
    let ollama = "{\"message\":{}}\n{\"done\":true,\"prompt_eval_count\":8,\"eval_count\":9}\n";
    assert_eq!(tokens(ollama.as_bytes()), Some((8, 9)));
    let responses = "event: response.completed\ndata: {\"response\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}}\n";
    assert_eq!(tokens(responses.as_bytes()), Some((1, 2)));
    assert_eq!(tokens(b"data: {\"choices\":[]}\n"), None);
}

/// Answers as many requests as there are answers (a status and a body), one after another. Returns its address and, in
/// the end, the requests with their heads.
fn server(answers: Vec<(u16, String)>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let address = listener.local_addr().expect("it has an address").to_string();
    let thread = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for (status, answer) in answers {
            let (mut stream, _) = listener.accept().expect("a client connects");
            let mut from = BufReader::new(stream.try_clone().expect("it can be cloned"));
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                from.read_line(&mut line).expect("a head");
                if line.trim().is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            from.read_exact(&mut body).expect("a body");
            requests.push(format!("{head}\n{}", String::from_utf8_lossy(&body)));
            let text = format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n\r\n{answer}");
            stream.write_all(text.as_bytes()).expect("the client reads");
        }
        requests
    });
    (address, thread)
}

const SECOND: Duration = Duration::from_secs(60);

#[test]
fn the_proxy_counts_requests_and_adds_the_key() {
    let answer = json!({"usage": {"prompt_tokens": 40, "completion_tokens": 2}}).to_string();
    let (address, thread) =
        server(vec![(200, answer), (500, "no".to_owned()), (200, "data: {}\n".to_owned())]);
    let upstream =
        Upstream::parse(&format!("http://{address}/v1/"), Some("se\"cret".to_owned())).expect("a URL");
    let proxy = CountingProxy::start(&upstream).expect("it starts");
    assert_eq!(proxy.base_url(), format!("http://127.0.0.1:{}/v1", proxy.port()));
    let path = proxy.path_of("/chat/completions");
    let body = json!({"model": "m"});
    let (status, value) = post(proxy.port(), &path, &body, SECOND).expect("an answer");
    assert_eq!((status, &value["usage"]["prompt_tokens"]), (200, &json!(40)));
    assert_eq!(post(proxy.port(), &path, &body, SECOND).expect("an answer").0, 500);
    assert_eq!(post(proxy.port(), &path, &body, SECOND).expect("an answer").0, 200);
    let counts = proxy.finish();
    let bytes = body.to_string().len() as u64;
    assert_eq!(
        counts,
        ModelUse {
            requests: 3,
            failed: 1,
            prompt_tokens: 40 + bytes / 4,
            completion_tokens: 4,
            estimated: 1,
            request_bytes: 3 * bytes
        }
    );
    let requests = thread.join().expect("the server ends");
    assert!(requests[0].starts_with("POST /v1/chat/completions HTTP/1.1"), "{}", requests[0]);
    assert!(requests[0].contains("Authorization: Bearer se\"cret\r\n"), "{}", requests[0]);
    assert!(requests[0].ends_with("\n{\"model\":\"m\"}"), "{}", requests[0]);
}

#[test]
fn a_server_that_does_not_answer_counts_as_failed() {
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let address = free.local_addr().expect("it has an address");
    drop(free);
    let proxy = CountingProxy::start(&Upstream::parse(&address.to_string(), None).expect("a URL"))
        .expect("it starts");
    let (status, _) = post(proxy.port(), "/api/chat", &json!({}), SECOND).expect("an answer");
    assert_eq!(status, 502);
    let counts = proxy.finish();
    assert_eq!((counts.requests, counts.failed), (1, 1));
}

/// Returns an answer of a model that chose this step.
fn step_answer(wire: Wire, command: &str, done: bool) -> (u16, String) {
    let content = json!({"command": command, "done": done}).to_string();
    let answer = match wire {
        Wire::Openai => json!({"choices": [{"message": {"content": content}}]}),
        Wire::Ollama => json!({"message": {"content": content}, "done": true}),
    };
    (200, answer.to_string())
}

fn run_reference(
    wire: Wire,
    answers: Vec<(u16, String)>,
    steps: u32,
) -> (AgentEnd, Option<String>, Vec<Value>) {
    let task = task("file-create");
    let folder = TaskFolder::prepare(&task).expect("the set-up works");
    let (address, thread) = server(answers);
    let proxy = CountingProxy::start(&Upstream::parse(&address, None).expect("a URL")).expect("it starts");
    let limits = Limits { time: SECOND, steps };
    let mut log = Vec::new();
    let end =
        reference::run(&proxy, (wire, "m"), (&folder, &task.prompt), &limits, &mut log).expect("it runs");
    let requests = thread.join().expect("the server ends").into_iter();
    let bodies = requests.map(|request| {
        let (_, body) = request.rsplit_once('\n').expect("a body");
        serde_json::from_str(body).expect("JSON")
    });
    (end, folder.check(&task).expect("the check runs"), bodies.collect())
}

#[test]
fn the_reference_loop_runs_commands_until_the_model_is_done() {
    for wire in [Wire::Openai, Wire::Ollama] {
        let answers = vec![
            step_answer(wire, "echo 'order two disks' >notes/todo.txt", false),
            step_answer(wire, "mkdir notes && echo 'order two disks' >notes/todo.txt", false),
            step_answer(wire, "", true),
        ];
        let (end, complaint, bodies) = run_reference(wire, answers, 20);
        assert_eq!((end, complaint), (AgentEnd::Done, None));
        let messages = bodies[1]["messages"].as_array().expect("messages");
        let result = messages[messages.len() - 1]["content"].as_str().expect("a result");
        assert!(result.starts_with("exit code 2\n") && result.contains("notes/todo.txt"), "{result}");
        let prompt =
            &bodies[0]["messages"].as_array().expect("messages").last().expect("a prompt")["content"];
        assert_eq!(prompt, &task("file-create").prompt);
    }
}

#[test]
fn the_reference_loop_ends_at_the_maximum_of_steps_and_at_an_error() {
    let wire = Wire::Openai;
    let answers = vec![step_answer(wire, "true", false), step_answer(wire, "true", false)];
    let (end, complaint, _) = run_reference(wire, answers, 2);
    assert!(end == AgentEnd::Steps && complaint.is_some(), "{end:?}");
    let (end, _, _) = run_reference(wire, vec![(400, "{}".to_owned())], 2);
    assert_eq!(end, AgentEnd::Error);
}

#[test]
fn arguments_are_parsed() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let args =
        EvalArgs::parse(&words("config-port --reps 2 --wire ollama --agent sysop --minutes 3 -- --bounds 9"))
            .expect("they are valid");
    assert_eq!((args.reps, args.wire, args.limits.time), (2, Wire::Ollama, Duration::from_secs(180)));
    assert_eq!(args.agents, [AgentKind::Sysop]);
    assert_eq!((args.names, args.arguments), (words("config-port"), words("--bounds 9")));
    for wrong in ["--reps 0", "--reps", "--wire smoke", "--agent all", "--frobnicate 1"] {
        assert!(EvalArgs::parse(&words(wrong)).is_err(), "{wrong}");
    }
    assert!(chosen(tasks(), &words("no-such-task")).is_err());
}
