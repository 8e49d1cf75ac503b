//! A front end that displays the events it gets. Its keys: `q` exits, `p` panics, `t` panics in another thread, `z`
//! suspends, `e` edits, `v` pages, `c` copies, `f` floods the terminal.

use std::ffi::OsStr;
use std::path::PathBuf;

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::text::Line;
use sysop_core::style::StyleRuns;
use sysop_term::grid::Mouse;
use sysop_tui::external_program;
use sysop_tui::screen::{ProcessSignal, Screen, SuspendResult, TerminalEvent, TerminalEvents, TerminalKind};

/// Environment variable that makes a process of these tests the front end.
pub(crate) const ROLE: &str = "SYSOP_TUI_TEST_FACE";
/// Environment variable with the directory for drafts.
pub(crate) const DRAFTS: &str = "SYSOP_TUI_TEST_DRAFTS";
/// Text that is edited or paged; contains a control sequence.
pub(crate) const TEXT: &str = "first\nsecond \u{1b}]0;owned\u{7}";

struct TestFrontend {
    screen: Screen,
    events: TerminalEvents,
    said: Vec<String>,
    floods: bool,
    frames: u64,
}

pub(crate) fn run() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let why = runtime.block_on(async {
        let mut screen = Screen::enter(TerminalKind::of("xterm")).unwrap();
        screen.set_mouse(Mouse::Clicks);
        let events = TerminalEvents::new().unwrap();
        let mut face = TestFrontend { screen, events, said: Vec::new(), floods: false, frames: 0 };
        face.serve().await
    });
    println!("left because of {why}");
}

impl TestFrontend {
    async fn serve(&mut self) -> String {
        loop {
            // A frame is skipped while the previous one is being written, and drawn again afterwards.
            let left_out = !self.screen.is_ready();
            self.draw();
            let event = tokio::select! {
                biased;
                event = self.events.next() => event,
                () = self.screen.ready(), if self.floods || left_out => continue,
            };
            if let Some(why) = self.take(event).await {
                return why;
            }
        }
    }

    fn draw(&mut self) {
        self.frames += 1;
        let size = self.screen.size();
        let first = format!("size {}x{}", size.width, size.height);
        let (said, floods, frames) = (&self.said, self.floods, self.frames);
        let drawn = self.screen.draw(|frame, _| {
            let area = frame.area();
            let rows = std::iter::once(first.as_str()).chain(said.iter().map(String::as_str));
            for (y, row) in (area.top()..area.bottom()).zip(rows) {
                frame.render_widget(Line::from(row), Rect { y, height: 1, ..area });
            }
            let below = u16::try_from(said.len() + 1).unwrap();
            for y in (below..area.height).filter(|_| floods) {
                let row = format!("{frames:>width$}", width = usize::from(area.width));
                frame.render_widget(Line::from(row), Rect { y, height: 1, ..area });
            }
        });
        if drawn.is_err() {
            self.said.push("the terminal was closed".to_owned());
        }
    }

    async fn take(&mut self, event: TerminalEvent) -> Option<String> {
        match event {
            TerminalEvent::Key(key) if key.modifiers.contains(KeyModifiers::CONTROL) => {
                self.said.push(format!("ctrl {}", key.code));
            }
            TerminalEvent::Key(key) => {
                self.said.push(format!("key {}", key.code));
                if let KeyCode::Char(letter) = key.code {
                    return self.key(letter).await;
                }
            }
            TerminalEvent::Paste(text) => self.said.push(format!("paste {}", text.replace('\n', "↵"))),
            TerminalEvent::Mouse(mouse) => self.said.push(format!("mouse {},{}", mouse.column, mouse.row)),
            TerminalEvent::Focused(is) => self.said.push(format!("focus {is}")),
            TerminalEvent::Resized => self.screen.resized().unwrap(),
            TerminalEvent::Signal(ProcessSignal::Suspend) => self.suspend().await,
            TerminalEvent::Signal(ProcessSignal::Continued) => {
                self.screen.continued().unwrap();
                self.said.push("continued".to_owned());
            }
            TerminalEvent::Signal(request) => return Some(format!("{request:?}")),
            TerminalEvent::Background { is_light } => self.said.push(format!("light {is_light}")),
            TerminalEvent::Lost => return Some("loss".to_owned()),
        }
        None
    }

    async fn key(&mut self, letter: char) -> Option<String> {
        let drafts = PathBuf::from(std::env::var_os(DRAFTS).unwrap_or_default());
        match letter {
            'q' => return Some("a key".to_owned()),
            'p' => panic!("on \u{1b}[31mpurpose"),
            't' => {
                let _ = std::thread::spawn(|| panic!("elsewhere")).join();
                self.said.push("Resumed".to_owned());
            }
            'z' => self.suspend().await,
            'c' => self.said.push(format!("{:?}", self.screen.copy("copied"))),
            'f' => self.floods = true,
            'e' => {
                let editor = drafts.join("editor");
                let (screen, events) = (&mut self.screen, &mut self.events);
                let edited = external_program::edit(
                    screen,
                    events,
                    Some(editor.as_os_str()),
                    &drafts,
                    "md",
                    "old text",
                )
                .await;
                self.said.push(format!("{:?}", edited.unwrap()));
            }
            'v' => {
                let (screen, events) = (&mut self.screen, &mut self.events);
                let paged = external_program::page(
                    screen,
                    events,
                    Some(OsStr::new("less")),
                    TEXT,
                    &StyleRuns::default(),
                )
                .await;
                self.said.push(format!("{:?}", paged.unwrap()));
            }
            _ => {}
        }
        None
    }

    async fn suspend(&mut self) {
        let came = self.screen.suspend(&mut self.events).await.unwrap();
        self.said.push(if came == SuspendResult::NoShell { "nowhere" } else { "back" }.to_owned());
    }
}
