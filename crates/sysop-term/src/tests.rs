//! Tests: rows stay within their cells, show everything that counts, and contain nothing that acts on a terminal.

mod cells;
mod code;
mod colors;
mod markdown;
mod output;
mod plan;
mod stream;
mod terminal;

use proptest::prelude::{Just, Strategy, any, prop_oneof};

use crate::testing::{NASTY, buffer, drawn, intruder, screen};
use crate::theme::{Theme, ThemeName};

const DARK: Theme = Theme { name: ThemeName::Dark };

/// Text full of constructs that the layouts must handle.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-z]{1,9} ",
        2 => proptest::sample::select(NASTY.to_vec()).prop_map(str::to_owned),
        3 => Just("\n".to_owned()),
        2 => Just("\n\n".to_owned()),
        4 => proptest::sample::select(vec![
            "**", "*", "_", "~~", "`", "```", "```sh\n", "~~~\n", "- ", "  - ", "1. ", "   ", "# ", "> ", "[a](http://b.c/)", "[",
            "](", "| a | b |\n|---|:-:|\n| 1 | ", "|", "---\n", "===\n", "\\", "<b>", "<!--", "&amp;", "http://x.y/z_(q)", "- [x] ",
            "\t", "    ",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..50).prop_map(|pieces| pieces.concat())
}
