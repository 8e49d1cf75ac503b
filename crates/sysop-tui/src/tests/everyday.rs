//! The start screen, search, copying, lists and the status line.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use serde_json::json;
use sysop_core::compaction::Compaction;
use sysop_core::event::{Delta, Event, Input};
use sysop_core::hook::HookAnswer;
use sysop_core::id::{CallId, JobId, Seq, SessionId, Timestamp, TurnId};
use sysop_core::image::{ImageFormat, ImageRef};
use sysop_core::message::{Reply, Usage};
use sysop_core::model_progress::ModelProgress;
use sysop_core::outcome::{HostOutcome, Outcome, Status};
use sysop_driver::port::{SearchHit, SessionSummary};
use sysop_term::command::COMMANDS;

use super::world::{World, bash, control, key, says, spec};
use crate::app::{Action, AppOptions, RecentSession, StatusPart};

#[test]
fn the_list_of_themes_marks_the_choice_in_force() {
    let marked = |detects_theme, choice: &str| {
        let mut world = World::with(AppOptions { detects_theme, ..AppOptions::default() });
        if !choice.is_empty() {
            world.says(choice);
        }
        let screen = world.says("/theme").screen(80, 24);
        let line = screen.lines().find(|line| line.contains("now")).expect("the choice is marked");
        line.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(marked(true, ""), "auto follows the terminal: now dark");
    assert_eq!(marked(false, ""), "dark now");
    assert_eq!(marked(true, "/theme light"), "light now");
    assert_eq!(marked(false, "/theme auto"), "auto follows the terminal: now dark");
}

fn with_recent() -> World {
    let mut world = World::new();
    world.app.set_recent_sessions(vec![RecentSession {
        id: SessionId::new("s0"),
        title: "why is\nnginx down?".to_owned(),
        host: "web1".to_owned(),
        age: "5 min ago".to_owned(),
    }]);
    world
}

fn mouse(world: &mut World, kind: MouseEventKind, column: u16, row: u16) -> Vec<Action> {
    world.app.mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }, world.now)
}

fn row_with(world: &mut World, text: &str) -> u16 {
    let screen = world.screen(80, 24);
    u16::try_from(screen.lines().position(|line| line.contains(text)).expect("it is on the screen")).unwrap()
}

/// A session with a finished turn of one command.
fn finished() -> World {
    let mut world = World::that_always_asks();
    world.says("look at the log").replies(bash("c1", "tail /var/log/syslog")).is_read().press(KeyCode::Enter);
    let output = "first line\nkernel: oom-killer invoked\nlast line\n[exit code 0]";
    world.ends(Outcome { exit_code: Some(0), duration_ms: 8, ..Outcome::new(Status::Ok, output) });
    world.replies(says("The kernel ran out of memory."));
    world
}

#[test]
fn an_empty_session_shows_name_place_examples_and_recent_sessions() {
    let mut world = with_recent();
    let screen = world.screen(80, 24);
    for text in
        ["sysop 0.", "web1 · /srv", "ollama/qwen", "how full is the disk?", "why is nginx down?", "5 min ago"]
    {
        assert!(screen.contains(text), "{text} in\n{screen}");
    }
    world.says("go");
    assert!(!world.screen(80, 24).contains("how full is the disk?"));
}

#[test]
fn the_start_screen_fits_every_size() {
    for (columns, rows) in [(20, 5), (40, 12), (80, 24), (200, 60)] {
        let screen = with_recent().screen(columns, rows);
        assert_eq!(screen.lines().count(), usize::from(rows));
    }
}

#[test]
fn a_low_start_screen_drops_examples_before_the_name_and_the_keys() {
    let screen = with_recent().screen(60, 14);
    for text in ["sysop 0.", "web1 · /srv", "ollama/qwen", "why is nginx down?", "F1 commands"] {
        assert!(screen.contains(text), "{text} in\n{screen}");
    }
    assert!(!screen.contains("how full is the disk?") && !screen.contains("Try (Tab or Enter)"), "{screen}");
    let screen = with_recent().screen(60, 8);
    assert!(screen.contains("sysop 0.") && !screen.contains("why is nginx down?"), "{screen}");
}

#[test]
fn the_status_names_the_session() {
    let mut world = World::new();
    world.says("/status");
    let screen = world.screen(80, 30);
    assert!(screen.lines().any(|line| line.contains("session") && line.contains("s1")), "{screen}");
}

#[test]
fn the_palette_shows_the_selected_description_in_full() {
    for columns in [60, 120] {
        let mut world = World::new();
        world.press(KeyCode::F(1)).types("/auto");
        let screen = world.screen(columns, 24);
        let joined = screen.replace(['│', '\n'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
        let text = "/auto BOUNDS: Run without asking within bounds, e.g. 20 commands, 30m, $0.50, @lab";
        assert!(joined.contains(text), "{screen}");
    }
}

#[test]
fn a_wrong_command_stays_in_the_box() {
    let mut world = World::new();
    world.says("/hots web1");
    assert_eq!(world.app.composer().text(), "/hots web1");
    assert!(world.screen(80, 24).contains("unknown command /hots; did you mean /host?"));
}

#[test]
fn cycling_through_the_approval_modes_leaves_one_line() {
    let mut world = finished();
    for _ in 0..3 {
        world.press(KeyCode::BackTab);
    }
    let screen = world.screen(80, 24);
    assert_eq!(screen.matches("approval mode set to").count(), 1, "{screen}");
    assert!(screen.contains("approval mode set to `each`"), "{screen}");
    // After something else, a change has a line of its own.
    world.says("hello").press(KeyCode::Esc).press(KeyCode::BackTab);
    let screen = world.screen(80, 24);
    assert_eq!(screen.matches("approval mode set to").count(), 2, "{screen}");
}

#[test]
fn tab_cycles_through_the_examples() {
    let mut world = World::new();
    world.press(KeyCode::Tab);
    assert_eq!(world.app.composer().text(), "how full is the disk?");
    world.press(KeyCode::Tab);
    assert_eq!(world.app.composer().text(), "which services failed since yesterday?");
    world.types("x").press(KeyCode::Tab);
    assert_eq!(world.app.composer().text(), "which services failed since yesterday?x");
}

#[test]
fn enter_on_an_empty_start_screen_takes_an_example_and_then_sends_it() {
    let mut world = World::new();
    assert!(world.press(KeyCode::Enter).app.composer().text().starts_with("how full"));
    world.press(KeyCode::Enter);
    assert!(world.app.composer().text().is_empty());
    // Later, Enter in an empty composer does nothing.
    let mut world = finished();
    assert!(world.press(KeyCode::Enter).app.composer().text().is_empty());
}

#[test]
fn the_status_shows_how_the_model_gets_its_tools_once_that_is_known() {
    let mut world = finished();
    world.types("/status").press(KeyCode::Enter);
    assert!(matches!(world.actions.last(), Some(Action::FetchModelStatus)), "{:?}", world.actions);
    assert!(!world.screen(80, 24).contains("protocol"));
    world.app.set_model_status(Some("native tools; http://127.0.0.1:8000"));
    let screen = world.screen(80, 24);
    assert!(
        screen.contains("protocol") && screen.contains("native tools; http://127.0.0.1:8000"),
        "{screen}"
    );
    // A late answer does not open the status again.
    world.press(KeyCode::Esc).app.set_model_status(Some("native tools"));
    assert!(!world.screen(80, 24).contains("protocol"));
}

#[test]
fn a_click_on_a_recent_session_opens_it() {
    let mut world = with_recent();
    let row = row_with(&mut world, "why is nginx down?");
    assert!(mouse(&mut world, MouseEventKind::Down(MouseButton::Left), 5, row).is_empty());
    let actions = mouse(&mut world, MouseEventKind::Up(MouseButton::Left), 5, row);
    assert!(matches!(&actions[..], [Action::OpenSession(_)]), "{actions:?}");
}

#[test]
fn a_finished_command_takes_one_line() {
    let screen = finished().screen(80, 24);
    assert!(screen.contains("✓ 8 ms"), "{screen}");
    for noise in ["· allowed", "exit code 0", "ok,"] {
        assert!(!screen.contains(noise), "{noise} in\n{screen}");
    }
}

#[test]
fn a_rejection_is_told_once() {
    let mut world = World::that_always_asks();
    world.says("clean up").replies(bash("c1", "make clean")).is_read();
    world.answers_with('r').types("not now").press(KeyCode::Enter);
    let screen = world.screen(80, 24);
    assert_eq!(screen.matches("rejected").count(), 1, "{screen}");
    assert!(screen.contains("■ rejected: not now"), "{screen}");
}

#[test]
fn a_search_goes_to_the_newest_card_with_a_match_first() {
    let mut world = finished();
    world.screen(80, 24);
    world.press(KeyCode::Tab).types("/kernel").press(KeyCode::Enter);
    let buffer = world.frame(80, 24);
    let marked: String = buffer
        .content()
        .iter()
        .filter(|cell| cell.bg == ratatui::style::Color::Indexed(24) && cell.symbol() != "▌")
        .map(ratatui::buffer::Cell::symbol)
        .collect();
    assert_eq!(marked, "kernel");
    let newest = world.app.history.focused().cloned();
    world.types("n");
    assert_ne!(world.app.history.focused(), newest.as_ref());
    world.types("N");
    assert_eq!(world.app.history.focused(), newest.as_ref());
    world.press(KeyCode::Esc);
    assert!(world.app.search().is_none());
}

#[test]
fn a_search_without_a_match_says_so() {
    let mut world = finished();
    world.screen(80, 24);
    world.press(KeyCode::Tab).types("/nowhere").press(KeyCode::Enter);
    assert!(world.screen(80, 24).contains("not found: nowhere"));
}

#[test]
fn y_copies_the_focused_card() {
    let mut world = finished();
    world.screen(80, 24);
    world.press(KeyCode::Tab).types("y");
    assert!(
        matches!(&world.actions[..], [.., Action::Copy { text, part: None }] if text == "The kernel ran out of memory.")
    );
}

#[test]
fn dragging_the_mouse_selects_text_and_copies_it() {
    let mut world = finished();
    let row = row_with(&mut world, "oom-killer");
    mouse(&mut world, MouseEventKind::Down(MouseButton::Left), 2, row);
    mouse(&mut world, MouseEventKind::Drag(MouseButton::Left), 7, row + 1);
    world.frame(80, 24);
    assert_eq!(world.app.take_selected_text(), None);
    mouse(&mut world, MouseEventKind::Up(MouseButton::Left), 7, row + 1);
    world.frame(80, 24);
    let copied = world.app.take_selected_text().expect("text was selected");
    assert_eq!(copied, "kernel: oom-killer invoked\n│ last l");
    assert_eq!(world.app.take_selected_text(), None);
}

#[test]
fn the_progress_of_a_slow_model_is_shown() {
    let mut world = World::new();
    world.says("go");
    let step = world.asked.expect("a model is asked");
    let reading = ModelProgress { prompt: Some((512, 2_048)), ..ModelProgress::default() };
    world.delta(Delta::Progress { step, progress: reading });
    assert!(world.screen(100, 24).contains("qwen: reading the prompt: 512 of 2048 tokens (25%)"));
    let receiving = ModelProgress { received: 43, receiving_ms: 3_500, ..reading };
    world.delta(Delta::Progress { step, progress: receiving });
    assert!(world.screen(100, 24).contains("qwen: 43 tokens received, 12 per second"));
    world.replies(says("done"));
    assert!(!world.screen(100, 24).contains("tokens received"));
}

#[test]
fn the_status_line_has_the_parts_that_the_user_chose() {
    let mut world = World::new();
    world.app.set_branch(Some("main".to_owned()));
    assert!(world.screen(80, 24).contains("web1 · /srv (main) · ollama/qwen · ask"));
    let parts = vec![StatusPart::Host, StatusPart::Approval, StatusPart::Tokens];
    let mut world = World::with(AppOptions { status_line: parts, ..AppOptions::default() });
    let usage = Usage { input_tokens: 1_000, output_tokens: 50, cached_tokens: 0 };
    world.says("go").replies(sysop_core::message::Reply { usage, ..says("yes") });
    assert!(world.screen(80, 24).contains("  web1 · ask · 1000 in, 50 out"));
}

#[test]
fn the_branch_is_read_again_only_after_calls_that_may_switch_it() {
    for (host, is_local) in [("local", true), ("web1", false)] {
        let mut world = World::on(host);
        world.says("go");
        assert!(!world.app.take_stale_branch(), "nothing ran yet");
        world.replies(bash("c1", "git status")).ends(Outcome::ok(""));
        assert_eq!(world.app.take_stale_branch(), is_local);
        assert!(!world.app.take_stale_branch(), "once");
    }
}

#[test]
fn the_help_is_searched_by_typing() {
    let mut world = World::new();
    world.press(KeyCode::Char('?')).types("always allow");
    let screen = world.screen(80, 24);
    assert!(
        screen.contains("Always allow this exact command") && !screen.contains("Jump to latest"),
        "{screen}"
    );
    assert!(screen.contains("search: always allow"), "{screen}");
    world.types("xyz");
    assert!(world.screen(80, 24).contains("no matches"));
    world.press(KeyCode::Backspace).press(KeyCode::Backspace).press(KeyCode::Backspace);
    assert!(world.screen(80, 24).contains("Always allow this exact command"));
    world.press(KeyCode::Esc);
    assert!(!world.screen(80, 24).contains("Always allow this exact command"));
}

#[test]
fn a_flash_message_covers_the_status_of_a_turn_for_a_second_at_most() {
    let mut world = World::new();
    world.says("/stop");
    world.says("go");
    assert!(world.screen(80, 24).contains("nothing is running"), "it was just said");
    world.passes(Duration::from_millis(1100));
    let screen = world.screen(80, 24);
    assert!(screen.contains("waiting for qwen") && !screen.contains("nothing is running"), "{screen}");
}

#[test]
fn a_prompt_that_was_queued_in_a_pause_returns_to_the_input_after_a_stop() {
    let mut world = World::new();
    world.says("go").replies(bash("c1", "sleep 9"));
    world.key(control('p'));
    world.says("and then this");
    world.press(KeyCode::Esc);
    world.ends(Outcome::new(Status::Cancelled, ""));
    assert!(world.screen(80, 24).contains("› and then this"), "{}", world.screen(80, 24));
}

#[test]
fn status_and_permissions_are_shown_and_grants_are_revoked() {
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", "touch x")).is_read().press(KeyCode::Char('a'));
    world.is_read().press(KeyCode::Char('a')).ends(Outcome::ok(""));
    world.replies(says("done"));
    assert_eq!(world.app.transcript().grants().len(), 1);
    world.says("/status");
    let screen = world.screen(80, 24);
    assert!(screen.contains("permissions  1 for this session") && screen.contains("host"), "{screen}");
    world.press(KeyCode::Esc).says("/permissions");
    assert!(world.screen(100, 24).contains("Allowed for this session"));
    world.press(KeyCode::Enter);
    assert!(world.app.transcript().grants().is_empty());
    world.says("again").replies(bash("c2", "touch x"));
    assert!(world.app.review().is_some(), "the command needs approval again");
}

#[test]
fn the_palette_lists_commands_and_keeps_the_input() {
    let mut world = World::new();
    world.types("half a thought").press(KeyCode::F(1)).types("stat");
    assert!(world.screen(100, 24).contains("Show host, model, approval"));
    world.press(KeyCode::Enter);
    assert!(world.screen(100, 24).contains("─ Status ─"));
    world.press(KeyCode::Esc);
    assert_eq!(world.app.composer().text(), "half a thought");
}

#[test]
fn the_palette_runs_a_command_that_needs_no_argument() {
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", "touch x")).is_read().press(KeyCode::Char('a'));
    world.is_read().press(KeyCode::Char('a')).ends(Outcome::ok("")).replies(says("done"));
    world.press(KeyCode::F(1)).types("perm").press(KeyCode::Enter);
    assert!(world.screen(100, 24).contains("Allowed for this session"), "{}", world.screen(100, 24));
    assert_eq!(world.press(KeyCode::Esc).app.composer().text(), "");
    let needs_arguments = |name: &&str| {
        let mut world = World::new();
        world.press(KeyCode::F(1)).types(name).press(KeyCode::Enter);
        world.app.composer().text() == format!("{name} ")
    };
    let names = COMMANDS.iter().map(|(name, ..)| *name).filter(needs_arguments).collect::<Vec<_>>();
    assert_eq!(names, ["/auto", "/effort", "/run", "/cmd", "/keys"]);
}

#[test]
fn background_jobs_are_a_list_that_reads_and_stops_them() {
    let started = |id: u32, command: &str| Event::JobStarted {
        job: JobId(id),
        call: CallId::new(format!("c{id}")),
        command: command.to_owned(),
        host: "web1".to_owned(),
    };
    let mut world = World::new();
    world.says("/jobs");
    assert!(world.screen(100, 24).contains("no background job is running"));
    world.happened(vec![started(1, "make all"), started(2, "sleep 900")]);
    world.says("/jobs");
    let screen = world.screen(100, 24);
    assert!(screen.contains("Background jobs · Enter reads, Ctrl+X stops"), "{screen}");
    assert!(screen.contains("1 make all") && screen.contains("2 sleep 900"), "{screen}");
    let stop = world.app.key(control('x'), world.now);
    assert!(matches!(&stop[..], [Action::Send(Input::StopJob { job: JobId(1) })]), "{stop:?}");
    world.says("/jobs").press(KeyCode::Down);
    let read = world.app.key(key(KeyCode::Enter), world.now);
    let [Action::Send(Input::Direct { tool, arguments, .. })] = &read[..] else { panic!("{read:?}") };
    assert_eq!((tool.as_str(), &arguments["action"], &arguments["id"]), ("jobs", &json!("read"), &json!(2)));
}

#[test]
fn sessions_are_found_by_title_and_by_text_but_not_by_age() {
    let session = |id: &str, title: &str| SessionSummary {
        id: SessionId::new(id),
        title: title.to_owned(),
        created: Timestamp(0),
        changed: Timestamp(0),
        last_seq: Seq(9),
        host: "web1".to_owned(),
        root: "/srv".to_owned(),
        pinned: false,
    };
    let mut world = World::new();
    world.says("/sessions");
    let sessions = vec![session("a", "demo"), session("b", "restart nginx")];
    world.app.pick_session(sessions, |_| "5 min ago".to_owned(), world.now);
    world.types("min");
    assert!(!world.screen(80, 24).contains("demo"));
    assert!(matches!(world.actions.last(), Some(Action::SearchSessions(text)) if text == "min"));
    let hits = [SearchHit { id: SessionId::new("a"), excerpt: "the admin asked".to_owned() }];
    world.app.offer_sessions("mi", &hits);
    assert!(!world.screen(80, 24).contains("demo"), "an answer to an older text is ignored");
    world.app.offer_sessions("min", &hits);
    let screen = world.screen(80, 24);
    assert!(screen.contains("demo") && screen.contains("the admin asked"), "{screen}");
}

#[test]
fn a_message_is_removed_by_the_next_key_once_it_was_read() {
    let mut world = World::new();
    world.says("/stop");
    assert!(world.screen(80, 24).contains("nothing is running"));
    world.passes(Duration::from_secs(2)).says("go");
    assert!(!world.screen(80, 24).contains("nothing is running"));
}

#[test]
fn a_requested_pause_is_described_once() {
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", "sleep 9")).is_read().press(KeyCode::Enter).key(control('p'));
    let screen = world.screen(100, 24);
    assert!(screen.contains("pausing after this command… Ctrl+P to resume"), "{screen}");
    assert!(!screen.to_lowercase().contains("paused") && !screen.contains("Ctrl+P pause"), "{screen}");
}

#[test]
fn the_status_line_counts_the_same_tokens_as_the_cost() {
    let mut world = World::new();
    let usage = |input_tokens| Usage { input_tokens, output_tokens: 10, ..Usage::default() };
    world.says("go").replies(Reply { usage: usage(500), ..says("done") });
    let compaction = Compaction { usage: usage(200), ..Compaction::default() };
    world.happened(vec![Event::ContextCompacted { compaction }]);
    let screen = world.screen(120, 24);
    assert!(screen.contains("700 in, 20 out"), "{screen}");
    world.says("/cost");
    assert!(world.app.flash().is_some_and(|text| text.contains("700 tokens in, 20 out")), "{screen}");
}

#[test]
fn a_prompt_to_a_paused_turn_is_sent_once() {
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", "make")).is_read().press(KeyCode::Enter).key(control('p'));
    assert!(world.screen(100, 24).contains("Queue a message"));
    world.says("first thing").ends(Outcome::new(Status::Ok, "done"));
    assert!(world.screen(100, 24).contains("A message ends the paused turn"));
    world.says("second thing");
    assert_eq!(world.app.composer().text(), "", "{}", world.screen(100, 24));
    assert!(world.screen(100, 24).contains("1 queued"), "{}", world.screen(100, 24));
    let screen = world.replies(says("All right.")).replies(says("Done as well.")).screen(100, 30);
    assert!(screen.contains("❯ first thing") && screen.contains("❯ second thing"), "{screen}");
    assert!(screen.contains("Done as well.") && !screen.contains("queued  "), "{screen}");
    assert_eq!(world.app.composer().text(), "");
}

#[test]
fn a_prompt_of_somebody_else_to_a_paused_turn_keeps_own_prompts_queued() {
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", "make")).is_read().press(KeyCode::Enter).key(control('p'));
    world.says("first thing").says("second thing").ends(Outcome::new(Status::Ok, "done"));
    world.types("a draft");
    world.tell(Input::Prompt { text: "of somebody".into(), images: Vec::new(), by: Some("ann".into()) });
    assert_eq!(world.app.composer().text(), "a draft", "{}", world.screen(100, 24));
    let screen = world.screen(100, 24);
    assert!(screen.contains("2 queued"), "{screen}");
    world.tell(Input::Cancel);
    assert_eq!(world.app.composer().text(), "second thing\na draft", "a stop returns what has not run");
}

#[test]
fn a_prompt_with_images_that_a_hook_denies_keeps_the_next_prompt_queued() {
    let mut spec = spec();
    spec.policy.prompt_hooks = true;
    let mut world = World::of(spec, AppOptions::default());
    let image = ImageRef {
        artifact: "image-1".to_owned(),
        media_type: ImageFormat::Png,
        width: 1,
        height: 1,
        name: "secret.png".to_owned(),
    };
    world.tell(Input::Prompt { text: "look".into(), images: vec![image], by: None }).says("then this");
    let answer = HookAnswer::Deny { reason: "no images".to_owned() };
    world.tell(Input::PromptHooksAnswered { turn: TurnId(1), answer });
    assert!(world.log.iter().any(|event| matches!(event, Event::HistoryCleared)));
    assert!(
        world
            .log
            .iter()
            .any(|event| matches!(event, Event::TurnStarted { prompt, .. } if prompt == "then this"))
    );
    assert_eq!(world.app.composer().text(), "", "the prompt runs, so it is not returned as well");
}

#[test]
fn a_requested_pause_does_not_hide_the_live_output() {
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", "make")).is_read().press(KeyCode::Enter).prints("compiling\n");
    assert!(world.screen(100, 24).contains("bash  output so far"));
    let screen = world.key(control('p')).prints("linking\n").screen(100, 24);
    assert!(screen.contains("bash  output so far") && screen.contains("linking"), "{screen}");
    world.ends(Outcome::new(Status::Ok, "compiling\nlinking"));
    let screen = world.screen(100, 24);
    assert!(screen.contains("■ Paused. Ctrl+P to resume") && !screen.contains("pausing"), "{screen}");
    assert!(!screen.contains("! paused"), "it is told once: {screen}");
    let screen = world.key(control('p')).screen(100, 24);
    assert!(screen.contains("· paused, then resumed"), "{screen}");
}

#[test]
fn ctrl_v_asks_for_an_image() {
    let mut world = World::new();
    world.key(control('v'));
    assert!(matches!(&world.actions[..], [Action::PasteImage]));
}

#[test]
fn the_calls_of_one_reply_are_counted() {
    let mut world = World::that_always_asks();
    let (mut first, second) = (bash("c1", "uptime"), bash("c2", "df"));
    first.calls.extend(second.calls);
    world.says("go").replies(first);
    assert!(world.screen(80, 24).contains("Run this?  1 of 2"));
    world.tell(Input::Cancel);
}

#[test]
fn the_card_of_twenty_hosts_folds_their_names_and_names_the_canaries() {
    let names: Vec<String> = (1..=20).map(|number| format!("app{number:02}")).collect();
    let spec = sysop_core::spec::SessionSpec { host: names.join(","), canary: Some(2), ..spec() };
    let mut world = World::of(spec, AppOptions::default());
    world.says("go").replies(bash("c1", "touch x"));
    let screen = world.screen(80, 24);
    assert!(screen.contains("canary: app01, app02 first"), "{screen}");
    assert!(screen.lines().last().is_some_and(|status| status.contains("canary 2")), "{screen}");
    assert!(screen.contains("on 20 hosts: app[01-20]") && !screen.contains("app03"), "{screen}");
}

#[test]
fn the_card_of_several_hosts_names_those_that_the_last_call_missed() {
    let host = |name: &str, unreachable: Option<&str>| HostOutcome {
        host: name.to_owned(),
        status: if unreachable.is_some() { Status::Failed } else { Status::Ok },
        exit_code: None,
        duration_ms: 0,
        group: u32::from(unreachable.is_some()),
        unreachable: unreachable.map(str::to_owned),
    };
    let spec = sysop_core::spec::SessionSpec { host: "web1,dead".to_owned(), ..spec() };
    let mut world = World::of(spec, AppOptions::default());
    world.says("go").replies(bash("c1", "touch x"));
    assert!(world.screen(80, 24).contains("on 2 hosts: web1, dead"));
    let why = "dead: no response in time; check that the host is up";
    let missed = |world: &mut World, why: Option<&str>, next: &str| {
        world.is_read();
        world.press(KeyCode::Enter);
        let call = world.running.take().expect("a tool runs").id;
        let hosts = vec![host("web1", None), host("dead", why)];
        world.tell(Input::Outcome { call, outcome: Outcome { hosts, ..Outcome::ok("") } });
        world.replies(bash(next, "touch x")).screen(80, 24)
    };
    let screen = missed(&mut world, Some(why), "c2");
    assert!(screen.contains("on 2 hosts: web1, dead\n  ! dead: no response in time\n"), "{screen}");
    let screen = missed(&mut world, None, "c3");
    assert!(screen.contains("on 2 hosts: web1, dead\n") && !screen.contains("! dead"), "{screen}");
}

#[test]
fn the_card_of_several_hosts_names_those_that_cannot_be_reached() {
    let spec = sysop_core::spec::SessionSpec { host: "web1,dead".to_owned(), ..spec() };
    let mut world = World::of(spec, AppOptions::default());
    world.unreached = vec!["dead: connection refused\u{1b}[2J".to_owned()];
    let screen = world.says("go").replies(bash("c1", "touch x")).screen(80, 24);
    let line = "on 2 hosts: web1, dead\n  ! dead: connection refused\\x1b[2J; nothing will run there\n";
    assert!(screen.contains(line), "{screen}");
    assert_eq!(screen.matches("nothing will run there").count(), 1, "{screen}");
}

#[test]
fn the_bounds_of_auto_count_down_while_nothing_else_happens() {
    let mut world = World::with(AppOptions { started: Some(Timestamp(0)), ..AppOptions::default() });
    world.says("/auto 3m");
    let mut shown = Vec::new();
    while shown.len() < 4 {
        let screen = world.screen(100, 24);
        let left = screen.split_once("auto (").and_then(|(_, rest)| rest.split_once(" left)"));
        let left = left.unwrap_or_else(|| panic!("no countdown: {screen}")).0.to_owned();
        if shown.last() != Some(&left) {
            shown.push(left);
        }
        let next = world.app.next_change(world.now).expect("the countdown changes");
        world.passes(next.saturating_sub(world.now));
    }
    assert_eq!(shown, ["3m", "2m", "119s", "118s"]);
}

#[test]
fn the_expiry_of_an_approval_counts_down_while_nothing_else_happens() {
    let mut spec = spec();
    spec.policy.approval_expires_s = 200;
    let mut world = World::of(spec, AppOptions { started: Some(Timestamp(0)), ..AppOptions::default() });
    world.says("go").replies(bash("c1", "touch x"));
    let mut shown = Vec::new();
    while shown.len() < 4 {
        let screen = world.screen(100, 24);
        let left = screen.lines().find_map(|line| line.trim().strip_prefix("expires in "));
        let left = left.unwrap_or_else(|| panic!("no expiry: {screen}")).to_owned();
        if shown.last() != Some(&left) {
            shown.push(left);
        }
        let next = world.app.next_change(world.now).expect("the countdown changes");
        world.passes(next.saturating_sub(world.now));
    }
    assert_eq!(shown, ["4 min", "3 min", "2 min", "119 s"]);
}

#[test]
fn a_proposal_says_how_many_people_must_allow_it() {
    let mut spec = spec();
    spec.policy.approvals = 2;
    let mut world = World::of(spec, AppOptions::default());
    world.says("go").replies(bash("c1", "touch x"));
    assert!(world.screen(100, 24).contains("0 of 2 people have allowed this"));
}
