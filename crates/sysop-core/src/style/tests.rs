//! Styles from sequences, written to the log and read back, and kept with text.

use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};

use super::{Color, STYLE_CHANGES_MAX, StyleRuns, TextAttribute, TextStyle};

#[test]
fn sgr_parameters_select_colors_and_attributes() {
    let selected = |parameters: &str| TextStyle::of(parameters).to_sgr();
    for (asked, got) in [
        ("", ""),
        ("1;31", "1;31"),
        ("01;34", "1;34"),
        ("1;2;3;4;7;9", "1;2;3;4;7;9"),
        ("1;31;0", ""),
        ("1;2;3;22", "3"),
        ("4;24;7;27;9;29", ""),
        ("4:3", "4"),
        ("4;4:0", ""),
        ("21", "4"),
        ("97;104", "97;104"),
        ("31;39;41;49", ""),
        ("38;5;208", "38;5;208"),
        ("38;5;9", "91"),
        ("38;2;1;2;3;1", "1;38;2;1;2;3"),
        ("38:2:1:2:3", "38;2;1;2;3"),
        ("48:2::1:2:3", "48;2;1;2;3"),
        ("38:5:3", "33"),
        ("58;2;9;9;9;32", "32"),
        ("38;2;1;2", ""),
        ("38;5;999;31", "31"),
        // Concealed, blinking and unknown parameters.
        ("8;5;6;10;53;300;x", ""),
    ] {
        assert_eq!(selected(asked), got, "{asked}");
    }
    assert!(TextStyle::of("1").has(TextAttribute::Bold) && !TextStyle::of("22").has(TextAttribute::Bold));
    assert_eq!(TextStyle::of("38;5;7").foreground, Some(Color::Indexed(7)));
}

#[test]
fn positions_outside_the_text_are_ignored() {
    let read = |json: &str| serde_json::from_str::<StyleRuns>(json).unwrap();
    let runs = |styles: &StyleRuns, text: &str| {
        let pieces = styles.runs(text).map(|(piece, look)| format!("{piece}={}", look.to_sgr()));
        pieces.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(runs(&read("[[1,\"31\"],[2,\"\"]]"), "abc"), "a= b=31 c=");
    assert_eq!(runs(&read("[[0,\"31\"],[1,\"32\"],[99,\"33\"]]"), "äb"), "äb=31");
    assert_eq!(runs(&read("[[5,\"31\"],[2,\"32\"]]"), "abcdefg"), "abcde= fg=31");
    assert_eq!(runs(&read("[[0,\"\\u001b]0;x\\u0007\"]]"), "a"), "a=");
    assert_eq!(runs(&StyleRuns::default(), ""), "");
}

#[test]
fn style_changes_are_bounded_and_end_reset() {
    let mut styles = StyleRuns::default();
    for at in 0..2 * STYLE_CHANGES_MAX {
        styles.begin(at, TextStyle::of(if at % 2 == 0 { "31" } else { "32" }));
    }
    let text = "x".repeat(2 * STYLE_CHANGES_MAX);
    assert_eq!(styles.changes().count(), STYLE_CHANGES_MAX);
    assert_eq!(styles.runs(&text).last().unwrap().1, TextStyle::default());
}

fn any_look() -> impl Strategy<Value = TextStyle> {
    prop::collection::vec(any::<u8>(), 0..9).prop_map(|numbers| {
        let numbers: Vec<String> = numbers.iter().map(u8::to_string).collect();
        TextStyle::of(&numbers.join(";"))
    })
}

proptest! {
    #[test]
    fn style_runs_round_trip_through_the_log(changes in prop::collection::vec((0_usize..200, any_look()), 0..20)) {
        let mut styles = StyleRuns::default();
        for (at, look) in changes {
            styles.begin(at, look);
            prop_assert_eq!(TextStyle::of(&look.to_sgr()), look);
        }
        let json = serde_json::to_string(&styles).unwrap();
        let plain = json.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b',' | b'"' | b'[' | b']'));
        prop_assert!(plain, "{}", json);
        prop_assert_eq!(serde_json::from_str::<StyleRuns>(&json).unwrap(), styles);
    }

    #[test]
    fn styled_pieces_join_to_the_text(text in "[aä日\n]{0,20}", changes in prop::collection::vec((0_usize..40, any_look()), 0..9)) {
        let mut styles = StyleRuns::default();
        changes.into_iter().for_each(|(at, look)| styles.begin(at, look));
        let whole: String = styles.runs(&text).map(|(piece, _)| piece).collect();
        prop_assert_eq!(whole, text);
    }
}
