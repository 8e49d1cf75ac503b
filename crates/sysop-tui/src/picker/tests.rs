//! Lists as drawn, and their keys.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use expect_test::{Expect, expect};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::{FormVariable, Picker, PickerEvent, PickerItem, PickerStyle, VariableForm, VariableFormEvent};

fn sessions() -> Picker {
    let entry =
        |label: &str, detail: &str, preview: &str| PickerItem::new(label, detail).with_preview(preview);
    Picker::new(
        "sessions",
        vec![
            entry("make room on the disk", "web1 · 5 min ago · 3 turns", "df -h says 97 % of /var"),
            entry("update the packages", "local · yesterday · 1 turn", "apt says 12 can be upgraded"),
            entry("why is nginx slow \u{1b}[31m", "web2, web3 · 2 Nov · 14 turns", "access.log"),
            entry("日本語の名前", "db1 · 1 Nov · 2 turns", "e\u{301}clair"),
        ],
    )
}

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn type_in(picker: &mut Picker, text: &str) {
    for letter in text.chars() {
        assert_eq!(picker.key(key(KeyCode::Char(letter))), PickerEvent::Pending);
    }
}

/// Renders to text: `[…]` is the selected row, `_` marks matching letters.
fn seen(width: u16, height: u16, draw: impl FnOnce(&mut Buffer) -> Option<Position>) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    let cursor = draw(&mut buffer);
    let mut out = String::new();
    for y in 0..height {
        let mut row = String::new();
        let mut skip = 0;
        let mut matched = String::new();
        for x in 0..width {
            let cell = &buffer[(x, y)];
            if skip > 0 {
                skip -= 1;
                continue;
            }
            skip = unicode_width::UnicodeWidthStr::width(cell.symbol()).saturating_sub(1);
            row.push_str(if cursor == Some(Position { x, y }) { "▏" } else { cell.symbol() });
            if cell.modifier.contains(ratatui::style::Modifier::UNDERLINED) {
                matched.push_str(cell.symbol());
            }
        }
        out.push_str(&format!("|{}", row.trim_end()));
        if !matched.is_empty() {
            out.push_str(&format!("   ~ {matched}"));
        }
        out.push('\n');
    }
    out
}

fn check(picker: &mut Picker, (width, height): (u16, u16), expected: &Expect) {
    let screen = Rect::new(0, 0, width, height);
    let place = picker.popup_area(screen);
    expected.assert_eq(&seen(width, height, |buffer| picker.draw(place, buffer, &PickerStyle::default())));
}

#[test]
fn descriptions_stand_below_each_other() {
    let mut picker = Picker::new(
        "Commands",
        vec![
            PickerItem::new("/exit", "Quit (Ctrl+D)"),
            PickerItem::new("/effort none|minimal|low|medium|high", "Set the reasoning effort of the model"),
        ],
    );
    let style = PickerStyle::default();
    let screen = seen(60, 8, |buffer| picker.draw(Rect::new(0, 0, 60, 8), buffer, &style));
    let column = |text: &str| {
        let before = screen.lines().find_map(|line| line.split_once(text)).map(|(before, _)| before);
        before.map(|before| before.chars().count())
    };
    assert!(column("Quit").is_some(), "{screen}");
    assert_eq!(column("Quit"), column("Set the"), "{screen}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "pictures")]
fn a_session_list_is_drawn() {
    let mut picker = sessions();
    check(
        &mut picker,
        (80, 24),
        &expect![[r#"
            |
            |
            |
            |
            |
            |
            |
            |    ┌ sessions ────────────────────────────────────────────────────────────┐
            |    │› ▏                                                                   │
            |    │make room on the disk                       web1 · 5 min ago · 3 turns│
            |    │update the packages                         local · yesterday · 1 turn│
            |    │why is nginx slow \x1b[31m               web2, web3 · 2 Nov · 14 turns│
            |    │日本語の名前                                     db1 · 1 Nov · 2 turns│
            |    │                                                                      │
            |    │df -h says 97 % of /var                                               │
            |    └─────────────────────────────────────────────────────────────────── 4 ┘
            |
            |
            |
            |
            |
            |
            |
            |
        "#]],
    );
    type_in(&mut picker, "web");
    check(
        &mut picker,
        (40, 12),
        &expect![[r#"
            |
            |┌ sessions ────────────────────────────┐
            |│› web▏                                │
            |│make room on the…  web1 · 5 min ago ·…│
            |│why is nginx slo…  web2, web3 · 2 Nov…│
            |│                                      │
            |│                                      │
            |│                                      │
            |│df -h says 97 % of /var               │
            |└────────────────────────────── 2 of 4 ┘
            |
            |
        "#]],
    );
    type_in(&mut picker, "2 ngx");
    check(
        &mut picker,
        (80, 24),
        &expect![[r#"
            |
            |
            |
            |
            |
            |
            |
            |    ┌ sessions ────────────────────────────────────────────────────────────┐
            |    │› web2 ngx▏                                                           │
            |    │why is nginx slow \x1b[31m               web2, web3 · 2 Nov · 14 turns│
            |    │                                                                      │
            |    │                                                                      │
            |    │                                                                      │
            |    │                                                                      │
            |    │access.log                                                            │
            |    └────────────────────────────────────────────────────────────── 1 of 4 ┘
            |
            |
            |
            |
            |
            |
            |
            |
        "#]],
    );
    type_in(&mut picker, "qqq");
    check(
        &mut picker,
        (40, 12),
        &expect![[r#"
            |
            |┌ sessions ────────────────────────────┐
            |│› web2 ngxqqq▏                        │
            |│no matches                            │
            |│                                      │
            |│                                      │
            |│                                      │
            |│                                      │
            |│                                      │
            |└────────────────────────────── 0 of 4 ┘
            |
            |
        "#]],
    );
}

#[test]
fn keys_move_the_selection() {
    let mut picker = sessions();
    for (code, expected) in [
        (KeyCode::Down, 1),
        (KeyCode::End, 3),
        (KeyCode::Down, 0),
        (KeyCode::Up, 3),
        (KeyCode::PageUp, 0),
        (KeyCode::PageDown, 3),
        (KeyCode::Home, 0),
    ] {
        assert_eq!(picker.key(key(code)), PickerEvent::Pending);
        assert_eq!(picker.selected(), Some(expected), "{code:?}");
    }
    type_in(&mut picker, "nginx");
    assert_eq!(picker.key(key(KeyCode::Enter)), PickerEvent::Chosen(2));
    for _ in 0..5 {
        picker.key(key(KeyCode::Backspace));
    }
    assert_eq!(picker.count(), (4, 4));
    assert_eq!(picker.key(key(KeyCode::Esc)), PickerEvent::Cancelled);
    type_in(&mut picker, "zzz");
    assert_eq!(picker.key(key(KeyCode::Enter)), PickerEvent::Pending);
    assert_eq!(picker.selected(), None);
}

#[test]
fn a_hundred_thousand_rows_cost_only_the_visible_ones() {
    let rows = (0..100_000).map(|number| PickerItem::new(&format!("line {number} of the history"), ""));
    let mut picker = Picker::new("history", rows.collect());
    picker.key(key(KeyCode::End));
    check(
        &mut picker,
        (40, 12),
        &expect![[r#"
            |┌ history ─────────────────────────────┐
            |│› ▏                                   │
            |│line 99991 of the history             │
            |│line 99992 of the history             │
            |│line 99993 of the history             │
            |│line 99994 of the history             │
            |│line 99995 of the history             │
            |│line 99996 of the history             │
            |│line 99997 of the history             │
            |│line 99998 of the history             │
            |│line 99999 of the history             │
            |└────────────────────────────── 100000 ┘
        "#]],
    );
    type_in(&mut picker, "99998");
    assert_eq!(picker.selected(), Some(99_998));
    assert_eq!(picker.count(), (1, 100_000));
}

#[test]
fn the_picker_fits_any_screen() {
    let ask = VariableForm::new(
        "t",
        vec![FormVariable { name: "name".to_owned(), description: "unit".to_owned() }],
    );
    for (width, height) in (0..24).flat_map(|width| (0..10).map(move |height| (width, height))) {
        let screen = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(screen);
        let mut picker = sessions();
        type_in(&mut picker, "日本 x");
        for place in [picker.popup_area(screen), screen] {
            let cursor = picker.draw(place, &mut buffer, &PickerStyle::default());
            assert!(cursor.is_none_or(|cursor| screen.contains(cursor)), "{screen:?}");
            let cursor = ask.draw(place, &mut buffer, &PickerStyle::default());
            assert!(cursor.is_none_or(|cursor| screen.contains(cursor)), "{screen:?}");
        }
        picker.draw(Rect::new(5, 5, 300, 300), &mut buffer, &PickerStyle::default());
    }
}

#[test]
fn variables_are_requested_one_by_one() {
    let variable = |name: &str, description: &str| FormVariable {
        name: name.to_owned(),
        description: description.to_owned(),
    };
    let mut ask =
        VariableForm::new("service", vec![variable("name", "unit name"), variable("how", "restart or stop")]);
    let answer = |ask: &mut VariableForm, text: &str| {
        for letter in text.chars() {
            ask.key(key(KeyCode::Char(letter)));
        }
        ask.key(key(KeyCode::Enter))
    };
    assert_eq!(answer(&mut ask, "Nginx"), VariableFormEvent::Answered(0));
    ask.refuse("a name has small letters only");
    let place = ask.popup_area(Rect::new(0, 0, 60, 6));
    expect![[r#"
        |┌ service ─────────────────────────────────────────────────┐
        |│unit name                                                 │
        |│name › Nginx▏                                             │
        |│a name has small letters only                             │   ~ a name has small letters only
        |└──────────────────────────────────────────────────────────┘
        |
    "#]]
    .assert_eq(&seen(60, 6, |buffer| ask.draw(place, buffer, &PickerStyle::default())));
    for _ in 0..5 {
        ask.key(key(KeyCode::Backspace));
    }
    assert_eq!(answer(&mut ask, "nginx"), VariableFormEvent::Answered(0));
    assert_eq!(ask.values(), None);
    expect![[r#"
        |┌ service ─────────────────────────────────────────────────┐
        |│name: nginx                                               │
        |│restart or stop                                           │
        |│how › ▏                                                   │
        |└──────────────────────────────────────────────────────────┘
        |
    "#]]
    .assert_eq(&seen(60, 6, |buffer| ask.draw(place, buffer, &PickerStyle::default())));
    assert_eq!(answer(&mut ask, "stop"), VariableFormEvent::Answered(1));
    let values =
        [("name", "nginx"), ("how", "stop")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(ask.values(), Some(values.to_vec()));
    assert_eq!(ask.key(key(KeyCode::Esc)), VariableFormEvent::Cancelled);
}
