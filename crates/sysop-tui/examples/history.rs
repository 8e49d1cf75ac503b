//! Prints the cost of the history: a frame over 10,000 messages, 100,000 streamed tokens, memory over many frames.
//! `history show [COLUMNS [THEME]]` instead draws a session with every kind of item for inspection.
#![expect(clippy::print_stdout, reason = "an example that prints")]
#![expect(unsafe_code, reason = "an allocator that counts is unsafe by its signature")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use serde_json::json;
use sysop_core::event::{Decision, Delta, Event, Logged, Origin, StopReason, Update};
use sysop_core::id::{CallId, Seq, StepId, Timestamp, TurnId};
use sysop_core::message::{Arguments, Reply, ToolCall, Usage};
use sysop_core::outcome::{HostOutcome, Outcome, Status};
use sysop_core::policy::{CommandContext, Grant, Policy, Survey};
use sysop_core::transcript::Transcript;
use sysop_term::{Theme, ThemeName};
use sysop_tui::view::{HistoryView, Scroll};

type BoxError = Box<dyn std::error::Error>;
type CrosstermTerminal = Terminal<CrosstermBackend<Box<dyn Write>>>;

const COLUMNS: u16 = 120;
const ROWS: u16 = 40;
const MESSAGES: u64 = 10_000;
const TOKENS: usize = 100_000;
/// Tokens between two frames: 6,000 tokens per second at 60 frames per second.
const TOKENS_A_FRAME: usize = 100;
const FRAMES: usize = 200;
/// Number of repetitions of each series of frames.
const RUNS: usize = 10;
/// Rows drawn for inspection.
const SHOWN_ROWS: u16 = 80;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// The system allocator with counters.
struct CountingAllocator;

// SAFETY: all calls are forwarded unchanged to the system allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the same contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// A front end that draws the history on the whole screen.
struct Frontend {
    transcript: Transcript,
    history: HistoryView,
    screen: CrosstermTerminal,
    theme: Theme,
    seq: u64,
}

impl Frontend {
    fn new(columns: u16, rows: u16, theme: ThemeName, writer: Box<dyn Write>) -> Result<Self, BoxError> {
        let viewport = Viewport::Fixed(Rect::new(0, 0, columns, rows));
        let screen = Terminal::with_options(CrosstermBackend::new(writer), TerminalOptions { viewport })?;
        let theme = Theme::new(theme);
        Ok(Self { transcript: Transcript::new(), history: HistoryView::default(), screen, theme, seq: 0 })
    }

    fn log(&mut self, event: Event) {
        self.seq += 1;
        let logged = Logged { seq: Seq(self.seq), at: Timestamp(0), event };
        self.transcript.apply(&Update::Logged(Arc::new(logged)));
    }

    fn turn(&mut self, prompt: &str) -> StepId {
        let turn = self.transcript.turn().next();
        self.log(Event::TurnStarted {
            turn,
            prompt: prompt.to_owned(),
            images: Vec::new(),
            origin: Origin::Model,
            by: None,
        });
        let step = StepId { turn, step: 1 };
        self.log(Event::StepStarted { step });
        step
    }

    fn reply(&mut self, step: StepId, text: &str) {
        self.log(Event::Replied { step, reply: Reply { text: text.to_owned(), ..Reply::default() } });
    }

    fn frame(&mut self) -> Result<Duration, BoxError> {
        let begun = Instant::now();
        let Self { transcript, history, screen, theme, .. } = self;
        screen.draw(|frame| history.draw(transcript, None, *theme, frame.area(), frame.buffer_mut()))?;
        Ok(begun.elapsed())
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

const ANSWER: &str = "The service **does not start** because `nginx.conf` is broken:\n\n1. line 12 has no `;`\n2. the port \
    is taken, see <https://nginx.org/en/docs/>\n   - by `apache2`\n   - since *yesterday*\n\n```nginx\nserver {\n  listen \
    80;\n}\n```\n\n| port | program |\n|---:|---|\n| 80 | apache2 |\n| 443 | nginx |\n\nShall I stop it?";

fn talk(messages: u64) -> Result<Frontend, BoxError> {
    let mut face = Frontend::new(COLUMNS, ROWS, ThemeName::Dark, Box::new(std::io::sink()))?;
    for number in 0..messages / 2 {
        let step = face.turn(&format!("why does service {number} not start?"));
        face.reply(step, ANSWER);
    }
    Ok(face)
}

/// Returns the fastest of many frames that each scroll by one row.
fn scrolled(face: &mut Frontend) -> Result<Duration, BoxError> {
    let mut best = Duration::MAX;
    for number in 0..FRAMES {
        face.history.scroll(if number % 2 == 0 { Scroll::Up(1) } else { Scroll::Down(1) });
        best = best.min(face.frame()?);
    }
    Ok(best)
}

fn frames() -> Result<(), BoxError> {
    let mut few = talk(20)?;
    few.frame()?;
    let mut face = talk(MESSAGES)?;
    println!("first_frame_ms {:.3}", ms(face.frame()?));
    let (few, many) = (scrolled(&mut few)?, scrolled(&mut face)?);
    println!("frame_ms {:.4}", ms(many));
    println!("frame_ratio {:.3}", many.as_secs_f64() / few.as_secs_f64());
    let mut pages = Vec::new();
    for _ in 0..RUNS {
        face.history = HistoryView::default();
        face.history.scroll(Scroll::Top);
        let mut run = Vec::new();
        for _ in 0..FRAMES {
            run.push(face.frame()?);
            face.history.scroll(Scroll::PageDown);
        }
        keep_fastest(&mut pages, run);
    }
    println!("slowest_new_page_ms {:.3}", ms(slowest(&pages)));
    face.history.scroll(Scroll::End);
    for _ in 0..FRAMES {
        face.frame()?;
    }
    let (bytes, allocations) = (LIVE_BYTES.load(Ordering::Relaxed), ALLOCATIONS.load(Ordering::Relaxed));
    for _ in 0..FRAMES {
        face.frame()?;
    }
    let grown = LIVE_BYTES.load(Ordering::Relaxed).saturating_sub(bytes);
    println!("grown_bytes {grown}");
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
    println!("allocations_a_frame {:.1}", allocations as f64 / FRAMES as f64);
    Ok(())
}

/// Returns the duration of each frame of a stream, including handling the tokens since the last one.
fn stream(tokens: &[&str]) -> Result<Vec<Duration>, BoxError> {
    let mut face = Frontend::new(COLUMNS, ROWS, ThemeName::Dark, Box::new(std::io::sink()))?;
    let step = face.turn("tell me all");
    let mut run = Vec::new();
    for some in tokens.chunks(TOKENS_A_FRAME) {
        let begun = Instant::now();
        for token in some {
            face.transcript.apply(&Update::Delta(Delta::Text { step, text: (*token).to_owned() }));
        }
        face.frame()?;
        run.push(begun.elapsed());
    }
    Ok(run)
}

fn streams() -> Result<(), BoxError> {
    let words: Vec<&str> = ANSWER.split_inclusive(' ').chain(["\n\n"]).collect();
    let markdown: Vec<&str> = words.iter().copied().cycle().take(TOKENS).collect();
    let line = vec!["word "; TOKENS];
    let code = ["let x = ", "\"text\"; ", "// why\n"].into_iter().cycle();
    let code: Vec<&str> = ["```rust\n"].into_iter().chain(code).take(TOKENS).collect();
    for (name, tokens) in [("markdown", markdown), ("line", line), ("code", code)] {
        let mut frames = Vec::new();
        for _ in 0..RUNS {
            keep_fastest(&mut frames, stream(&tokens)?);
        }
        let all: Duration = frames.iter().sum();
        println!("{name}_frames_per_s {:.0}", frames.len() as f64 / all.as_secs_f64());
        println!("{name}_slowest_frame_ms {:.3}", ms(slowest(&frames)));
    }
    Ok(())
}

/// Keeps the shortest duration of each frame, which excludes other load on the machine.
fn keep_fastest(best: &mut Vec<Duration>, run: Vec<Duration>) {
    if best.is_empty() {
        *best = run;
    } else {
        best.iter_mut().zip(run).for_each(|(best, this)| *best = this.min(*best));
    }
}

fn slowest(frames: &[Duration]) -> Duration {
    frames.iter().copied().max().unwrap_or_default()
}

fn call(id: &str, name: &str, arguments: serde_json::Value) -> ToolCall {
    let arguments = Arguments::parse(&arguments.to_string());
    ToolCall { id: CallId::new(id), wire_id: None, name: name.to_owned(), arguments }
}

/// A session with every kind of item.
fn everything(face: &mut Frontend) {
    let step = face.turn("Why does nginx not start?\nFix it if you can. 日本 👍🏽 e\u{301} \u{202e}x");
    let reasoning = "Look at the unit first.\nThen at the ports.".to_owned();
    let usage = Usage { input_tokens: 12_400, output_tokens: 310, cached_tokens: 0 };
    let reply = Reply { text: ANSWER.to_owned(), reasoning, usage, ..Reply::default() };
    face.log(Event::Replied { step, reply });
    let command =
        "for f in /etc/nginx/*.conf; do sudo rm -rf \"$HOME/x\" && grep -n 'listen' \"$f\"; done # all";
    let asked = call("a", "bash", json!({ "command": command }));
    face.log(Event::ApprovalAsked {
        call: asked.clone(),
        command: command.to_owned(),
        reason: "Find the ports".to_owned(),
        risk: Policy::new(&[], &[]).risk(command, &Survey::elsewhere(CommandContext::bash())),
        covers: Grant::Exact { command: command.to_owned() },
        preview: Vec::new(),
        guarded: None,
        scope: None,
        terms: Default::default(),
    });
    let decision = Decision::Allow { command: None };
    face.log(Event::Decided { call: CallId::new("a"), decision, by: "tui".to_owned() });
    let lines: String = (1..40).map(|n| format!("/etc/nginx/{n}.conf:{n}: listen 80;\n")).collect();
    face.log(Event::ToolStarted { call: asked, origin: Origin::Model });
    let mut outcome =
        Outcome { exit_code: Some(3), duration_ms: 1_240, ..Outcome::new(Status::Failed, lines) };
    let host = |host: &str, status, group| HostOutcome {
        host: host.to_owned(),
        status,
        exit_code: None,
        duration_ms: 300,
        group,
        unreachable: None,
    };
    outcome.hosts =
        vec![host("web3", Status::Timeout, 0), host("web1", Status::Ok, 1), host("web2", Status::Ok, 1)];
    face.log(Event::ToolFinished { call: CallId::new("a"), outcome });
    let edit = call(
        "b",
        "edit_file",
        json!({"path": "nginx.conf", "old_string": "server {\n  listen 80\n}\n", "new_string": "server {\n  listen 8080;\n}\n"}),
    );
    face.log(Event::ToolStarted { call: edit, origin: Origin::Model });
    face.log(Event::ToolFinished { call: CallId::new("b"), outcome: Outcome::ok("edited nginx.conf") });
    let turn = TurnId(1);
    face.log(Event::TurnEnded { turn, reason: StopReason::EndTurn, error: None, active_ms: 0 });
    face.turn("now?");
    face.log(Event::ToolStarted {
        call: call("c", "bash", json!({ "command": "make -j" })),
        origin: Origin::User,
    });
    let text = "\u{1b}[1;32mCompiling\u{1b}[0m x\n\u{1b}[31merror\u{1b}[0m: no\n 10%\r 90%".to_owned();
    face.transcript.apply(&Update::Delta(Delta::Output { call: CallId::new("c"), text }));
}

fn show(columns: u16, theme: ThemeName) -> Result<(), BoxError> {
    print!("\x1b[2J");
    let mut face = Frontend::new(columns, SHOWN_ROWS, theme, Box::new(std::io::stdout()))?;
    everything(&mut face);
    face.frame()?;
    println!("\x1b[{SHOWN_ROWS};1H");
    Ok(())
}

fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("show") => {
            let columns = arguments.next().map_or(Ok(80), |columns| columns.parse())?;
            let theme = arguments.next().and_then(|word| ThemeName::of(&word)).unwrap_or_default();
            show(columns, theme)
        }
        Some(other) => Err(format!("`{other}` is not known; usage: history [show [COLUMNS [THEME]]]").into()),
        None => {
            frames()?;
            streams()
        }
    }
}
