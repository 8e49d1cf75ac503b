//! The pane with a scripted terminal, and with real shells and programs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use crossterm::event::MouseButton;
use expect_test::expect;
use parking_lot::Mutex;
use ratatui::style::Color;
use sysop_core::catalog::Profile;
use sysop_driver::port::Host as _;
use sysop_host::{LocalHost, LocalSettings};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::*;

/// Deadline for anything that should happen at once, generous for busy machines.
const DEADLINE: Duration = Duration::from_secs(60);

/// A terminal with scripted output that records what is done with it.
struct RecordingTerminal {
    outputs: Mutex<Option<UnboundedReceiver<TerminalOutput>>>,
    picture: Bytes,
    done: Mutex<Vec<String>>,
}

impl RecordingTerminal {
    fn note(&self, what: String) {
        self.done.lock().push(what.replace('\x1b', "^"));
    }

    fn done(&self) -> Vec<String> {
        std::mem::take(&mut self.done.lock())
    }
}

#[async_trait]
impl Terminal for RecordingTerminal {
    async fn watch(&self) -> Result<TerminalView, String> {
        let outputs = self.outputs.lock().take().ok_or("no shell can be opened\u{1b}[2J")?;
        let live = futures::stream::unfold(outputs, |mut outputs| async {
            let output = outputs.recv().await?;
            Some((output, outputs))
        });
        let size = TerminalSize { columns: 20, rows: 4 };
        Ok(TerminalView { size, picture: self.picture.clone(), live: live.boxed() })
    }

    fn input(&self, by: &str, bytes: &[u8]) {
        self.note(format!("{by} typed {}", String::from_utf8_lossy(bytes)));
    }

    fn release(&self, by: &str) {
        self.note(format!("{by} released"));
    }

    fn resize(&self, size: TerminalSize) {
        self.note(format!("{}x{}", size.columns, size.rows));
    }
}

/// Returns a pane whose terminal shows `picture`.
async fn written(
    picture: &'static [u8],
) -> (TerminalPane, Arc<RecordingTerminal>, UnboundedSender<TerminalOutput>) {
    let (sender, outputs) = unbounded_channel();
    let terminal = Arc::new(RecordingTerminal {
        outputs: Mutex::new(Some(outputs)),
        picture: Bytes::from_static(picture),
        done: Mutex::default(),
    });
    let mut pane = TerminalPane::new(Arc::clone(&terminal) as Arc<dyn Terminal>, "ann");
    pane.next_change().await;
    (pane, terminal, sender)
}

fn bytes(text: &'static str) -> TerminalOutput {
    TerminalOutput::Bytes(Bytes::from_static(text.as_bytes()))
}

/// Renders the pane to text: `|` ends each row, `▏` is the cursor.
fn seen(pane: &mut TerminalPane, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    let cursor = pane.draw(area, &mut buffer);
    let mut out = String::new();
    for y in 0..height {
        let mut skip = 0;
        for x in 0..width {
            let symbol = buffer[(x, y)].symbol();
            assert!(!symbol.chars().any(char::is_control), "{symbol:?}");
            if skip == 0 {
                out.push_str(if cursor == Some(Position { x, y }) { "▏" } else { symbol });
                skip = unicode_width::UnicodeWidthStr::width(symbol);
            }
            skip = skip.saturating_sub(1);
        }
        out.push_str("|\n");
    }
    out
}

fn press(pane: &mut TerminalPane, code: KeyCode, held: KeyModifiers) -> PaneKeyResult {
    pane.key(KeyEvent::new(code, held))
}

#[tokio::test]
async fn the_terminal_screen_is_drawn() {
    let (mut pane, terminal, sender) =
        written("one \x1b[1;31mred\x1b[0m 漢字\r\ne\u{301}\u{202e}x\tz".as_bytes()).await;
    expect![[r#"
        one red 漢字        |
        éx      z▏          |
                            |
                            |
    "#]]
    .assert_eq(&seen(&mut pane, 20, 4));
    let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 4));
    pane.draw(buffer.area, &mut buffer);
    assert_eq!(buffer[(4, 0)].style().fg, Some(Color::Red));
    sender.send(bytes("\x1b[?25l\x1b[2;1Hmore")).unwrap();
    sender.send(TerminalOutput::Resized(TerminalSize { columns: 10, rows: 2 })).unwrap();
    pane.next_change().await;
    expect![[r#"
        字        |
        more    z |
    "#]]
    .assert_eq(&seen(&mut pane, 10, 2));
    // Each size is reported once.
    assert_eq!(terminal.done(), ["20x4", "10x2"]);
}

#[tokio::test]
async fn a_larger_screen_is_cropped_around_the_cursor() {
    let (mut pane, _, _sender) = written("1\r\n2\r\n3\r\n4 long 漢字".as_bytes()).await;
    expect![[r#"
        3       |
        4 long  |
    "#]]
    .assert_eq(&seen(&mut pane, 8, 2));
    for (width, height) in (0..6).flat_map(|width| (0..6).map(move |height| (width, height))) {
        seen(&mut pane, width, height);
    }
}

#[tokio::test]
async fn keys_are_typed_and_one_releases_control() {
    let (mut pane, terminal, sender) = written(b"$ ").await;
    assert_eq!(press(&mut pane, KeyCode::Up, KeyModifiers::NONE), PaneKeyResult::Consumed);
    sender.send(bytes("\x1b[?1h\x1b[?2004h")).unwrap();
    pane.next_change().await;
    press(&mut pane, KeyCode::Up, KeyModifiers::NONE);
    pane.paste("a\nb\u{1b}[201~");
    press(&mut pane, KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(press(&mut pane, KeyCode::CapsLock, KeyModifiers::NONE), PaneKeyResult::Ignored);
    assert_eq!(press(&mut pane, KeyCode::Char(']'), KeyModifiers::CONTROL), PaneKeyResult::Released);
    assert_eq!(press(&mut pane, KeyCode::Char('t'), KeyModifiers::CONTROL), PaneKeyResult::Released);
    drop(pane);
    assert_eq!(
        terminal.done(),
        [
            "ann typed ^[A",
            "ann typed ^OA",
            "ann typed ^[200~a\rb[201~^[201~",
            "ann typed \x03",
            "ann released",
            "ann released",
            "ann released",
        ]
    );
}

#[tokio::test]
async fn scrolled_off_rows_can_be_read() {
    let (mut pane, terminal, sender) = written(b"").await;
    for number in 1..=30 {
        let line = format!("line {number}\r\n");
        sender.send(TerminalOutput::Bytes(Bytes::from(line))).unwrap();
    }
    pane.next_change().await;
    seen(&mut pane, 20, 4);
    press(&mut pane, KeyCode::PageUp, KeyModifiers::NONE);
    press(&mut pane, KeyCode::PageUp, KeyModifiers::NONE);
    let shown = seen(&mut pane, 20, 4);
    assert!(shown.contains("line 22 ") && !shown.contains('▏'), "{shown}");
    assert_eq!(
        pane.status("web1", Some("bob")),
        "terminal on web1 · bob is typing · 6 rows up, PgDn to return"
    );
    // New output does not move the scrolled view.
    sender.send(bytes("line 31\r\n")).unwrap();
    pane.next_change().await;
    assert_eq!(seen(&mut pane, 20, 4), shown);
    press(&mut pane, KeyCode::Char('x'), KeyModifiers::NONE);
    assert!(seen(&mut pane, 20, 4).contains("line 31 "));
    assert_eq!(pane.status("web1", Some("ann")), "terminal on web1 · you are typing · Ctrl+] to return");
    assert_eq!(terminal.done().last().unwrap(), "ann typed x");
    // After missed output, the pane continues with a full redraw.
    sender.send(TerminalOutput::Redrawn(Bytes::from_static(b"\x1b[H\x1b[2Jnow"))).unwrap();
    pane.next_change().await;
    assert!(seen(&mut pane, 20, 4).starts_with("now▏"));
}

#[tokio::test]
async fn mouse_events_go_to_programs_that_requested_them() {
    let (mut pane, terminal, sender) = written(b"").await;
    let area = Rect::new(2, 3, 20, 4);
    let mut buffer = Buffer::empty(Rect::new(0, 0, 30, 10));
    pane.draw(area, &mut buffer);
    let event = |kind, column, row| MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
    let (click, wheel) = (MouseEventKind::Down(MouseButton::Left), MouseEventKind::ScrollUp);
    assert!(!pane.mouse(event(click, 1, 3)));
    assert!(pane.mouse(event(click, 2, 3)));
    assert_eq!(pane.mouse_mode(), Mouse::Clicks);
    sender.send(bytes("\x1b[?1049h")).unwrap();
    pane.next_change().await;
    pane.mouse(event(wheel, 2, 3));
    sender.send(bytes("\x1b[?1002;1006h")).unwrap();
    pane.next_change().await;
    assert_eq!(pane.mouse_mode(), Mouse::Drags);
    pane.mouse(event(wheel, 4, 5));
    pane.mouse(event(click, 2, 3));
    assert_eq!(
        terminal.done(),
        ["20x4", "ann typed ^[A^[A^[A", "ann typed ^[<64;3;3M", "ann typed ^[<0;1;1M"]
    );
}

#[tokio::test]
async fn an_ended_terminal_shows_the_reason() {
    let (mut pane, terminal, sender) = written(b"last words").await;
    sender.send(TerminalOutput::Ended("the shell ended with code 3".to_owned())).unwrap();
    pane.next_change().await;
    expect![[r#"
        last words                    |
                                      |
                                      |
        the shell ended with code 3   |
    "#]]
    .assert_eq(&seen(&mut pane, 30, 4));
    assert_eq!(pane.end_reason(), Some("the shell ended with code 3"));
    assert_eq!(press(&mut pane, KeyCode::Char('x'), KeyModifiers::NONE), PaneKeyResult::Ignored);
    assert_eq!(press(&mut pane, KeyCode::Esc, KeyModifiers::NONE), PaneKeyResult::Released);
    // The scripted terminal can be watched only once.
    let mut pane = TerminalPane::new(Arc::clone(&terminal) as Arc<dyn Terminal>, "ann");
    assert!(seen(&mut pane, 40, 1).starts_with("opening the terminal…"));
    pane.next_change().await;
    assert!(seen(&mut pane, 40, 1).starts_with(r"no shell can be opened\x1b[2J"));
}

#[tokio::test]
async fn an_unfinished_synchronized_update_is_shown() {
    let (mut pane, _, sender) = written(b"before").await;
    sender.send(bytes("\x1b[?2026h\r\nafter")).unwrap();
    pane.next_change().await;
    assert!(!seen(&mut pane, 20, 4).contains("after"));
    tokio::time::timeout(DEADLINE, pane.next_change()).await.unwrap();
    assert!(seen(&mut pane, 20, 4).contains("after"));
}

struct RealTerminal {
    pane: TerminalPane,
    /// Terminates the shell on drop.
    _host: LocalHost,
    home: TempDir,
}

impl RealTerminal {
    async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let script = home.path().join("shell");
        let text = format!("#!/bin/sh\nHOME={}; export HOME\nexec bash\n", home.path().display());
        fs::write(home.path().join(".bashrc"), "PS1='$ '\n").unwrap();
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(home.path().join("root")).unwrap();
        let mut settings = LocalSettings::new(home.path().join("root"), home.path().join("artefacts"));
        settings.profile = Profile::Operator;
        settings.shell = Some(script);
        let host = LocalHost::open(settings).unwrap();
        let pane = TerminalPane::new(host.terminal().unwrap(), "ann");
        Self { pane, _host: host, home }
    }

    /// Waits until the pane shows the wanted text.
    async fn sees(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        let waiting = async {
            loop {
                let shown = seen(&mut self.pane, 60, 12);
                if wanted(&shown) {
                    return shown;
                }
                self.pane.next_change().await;
            }
        };
        match tokio::time::timeout(DEADLINE, waiting).await {
            Ok(shown) => shown,
            Err(_) => panic!("it never looks so:\n{}", seen(&mut self.pane, 60, 12)),
        }
    }

    fn types(&mut self, text: &str) {
        for letter in text.chars() {
            let code = if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
            assert_eq!(press(&mut self.pane, code, KeyModifiers::NONE), PaneKeyResult::Consumed);
        }
    }

    fn presses(&mut self, code: KeyCode) {
        press(&mut self.pane, code, KeyModifiers::NONE);
    }
}

#[tokio::test]
async fn a_real_shell_takes_keys_and_the_size_of_the_pane() {
    let mut real = RealTerminal::new().await;
    real.sees(|shown| shown.contains("$ ▏")).await;
    real.types("stty size; echo ab\n");
    real.sees(|shown| shown.contains("\n12 60 ") && shown.contains("\nab ")).await;
    // Recalls a command with the up arrow and edits it.
    real.presses(KeyCode::Up);
    real.sees(|shown| shown.contains("echo ab▏")).await;
    real.presses(KeyCode::Left);
    real.types("\u{e4}漢\n");
    real.sees(|shown| shown.contains("\naä漢b ")).await;
    real.types("exit 3\n");
    let shown = real.sees(|shown| shown.contains("exit 3")).await;
    assert!(!shown.is_empty());
    while real.pane.end_reason().is_none() {
        tokio::time::timeout(DEADLINE, real.pane.next_change()).await.expect("the shell ends");
    }
}

#[tokio::test]
async fn a_real_editor_is_driven_from_the_pane() {
    let mut real = RealTerminal::new().await;
    real.sees(|shown| shown.contains("$ ▏")).await;
    real.types("vim.tiny note\n");
    real.sees(|shown| shown.matches("\n~ ").count() > 5).await;
    real.types("ione");
    real.presses(KeyCode::Enter);
    real.types("two");
    real.presses(KeyCode::Home);
    real.types("<");
    real.presses(KeyCode::Up);
    real.presses(KeyCode::End);
    real.types(">");
    real.presses(KeyCode::Esc);
    // The cursor is now on the last letter.
    real.sees(|shown| shown.contains("one▏") && shown.contains("<two") && !shown.contains("INSERT")).await;
    real.types(":wq\n");
    real.sees(|shown| shown.contains("vim.tiny note") && !shown.contains("\n~ ")).await;
    let note = real.home.path().join("root/note");
    let waiting = async {
        while !note.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.expect("the editor writes");
    assert_eq!(fs::read_to_string(note).unwrap(), "one>\n<two\n");
}

#[tokio::test]
async fn a_real_pager_is_driven_from_the_pane() {
    let mut real = RealTerminal::new().await;
    real.sees(|shown| shown.contains("$ ▏")).await;
    real.types("seq 100 | less\n");
    real.sees(|shown| shown.starts_with("1 ") && shown.contains("\n11 ")).await;
    real.presses(KeyCode::PageDown);
    real.sees(|shown| shown.starts_with("12 ")).await;
    real.presses(KeyCode::End);
    real.sees(|shown| shown.contains("\n100 ")).await;
    real.types("q");
    real.sees(|shown| shown.contains("$ ▏")).await;
}
