//! Secrets in live output: in pieces, of several hosts, and with missing output.

use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::{Index, select};

use super::state::QUOTE_LINES_MAX;
use super::{HOSTS_MAX, LINE_BYTES_MAX, LiveRedactor};

fn redacted(mut redactor: LiveRedactor, chunks: &[&str]) -> String {
    let mut clean: String = chunks.iter().map(|chunk| redactor.push(chunk)).collect();
    clean.push_str(&redactor.finish());
    clean
}

const OUTPUT: &str = "\u{1b}[32mok\u{1b}[m\r\nexport A='b'\nDB_PASSWORD=hunter2\n\
    declare -x API_TOKEN=\"a\\\"b\nc\nd\"\nlast\ndeclare -x PASS=\"corr\nhorse99\"\n\
    -----BEGIN RSA PRIVATE KEY-----\r\nMIIEabc=\r\nMIIEdef=\r\n-----END RSA PRIVATE KEY-----\r\n\
    \u{1b}[31mtoken\u{1b}[m: 0123abcd\nHOME=/\0API_KEY=abcdefg\0LANG=C\0\
    x | -----BEGIN PRIVATE KEY-----\n-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nAuthorization: Bearer abcdefg1";
const CLEAN: &str = "\u{1b}[32mok\u{1b}[m\r\nexport A='b'\nDB_PASSWORD=[redacted: secret]\n\
    declare -x API_TOKEN=[redacted: secret]\nlast\ndeclare -x PASS=[redacted: secret]\n[redacted: private key]\n\
    token: [redacted: secret]\nHOME=/\nAPI_KEY=[redacted: secret]\nLANG=C\nx | [redacted: private key]\n\
    Authorization: Bearer [redacted: authorization]";

#[test]
fn a_value_over_several_lines_of_a_diff_is_redacted() {
    for mark in ["+", "-", "> ", " +"] {
        let diff = format!("{mark}export PASS=\"corr\n{mark}horse99\"\n{mark}A=b\n");
        let clean = format!("{mark}export PASS=[redacted: secret]\n{mark}A=b\n");
        assert_eq!(redacted(LiveRedactor::default(), &[&diff]), clean);
    }
}

/// Divides ASCII text.
fn pieces<'t>(text: &'t str, cuts: &[Index]) -> Vec<&'t str> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect()
}

fn plain(text: &str) -> String {
    crate::text::split_styles(&text.replace('\0', "\n")).0.into_owned()
}

/// Consecutive lines of a host. Secrets are written with the letters `Q` and `Z`, which are nowhere else.
fn part() -> impl Strategy<Value = Vec<&'static str>> {
    let key = proptest::collection::vec(select(vec!["QZQZ", "Z", "QQ=="]), 0..5);
    let key = key.prop_map(|lines| {
        [vec!["-----BEGIN PRIVATE KEY-----"], lines, vec!["-----END PRIVATE KEY-----"]].concat()
    });
    let quoted = ["Z", "", "Q | Z", "Q \\\" Z", "export A_TOKEN=Z", "-----BEGIN PRIVATE KEY-----"];
    let quote = proptest::collection::vec(select(quoted.to_vec()), 0..5);
    let quote = quote.prop_map(|lines| [vec!["declare -x API_TOKEN=\"Z"], lines, vec!["Q\""]].concat());
    let key_in_quotes = (key.clone(), quote.clone()).prop_map(|(key, quote)| {
        [&["declare -x API_TOKEN=\"-----BEGIN PRIVATE KEY-----"], &key[1..], &quote[1..]].concat()
    });
    let plain =
        select(vec!["a \"b\" c", "it's \"", "a | b", "", "export A=\"b\"", "-----END PRIVATE KEY-----"]);
    prop_oneof![key, quote, key_in_quotes, plain.prop_map(|line| vec![line])]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn secrets_of_several_hosts_are_told_apart(
        hosts in proptest::collection::vec(proptest::collection::vec(part(), 1..6), 2..5),
        turns in proptest::collection::vec(any::<Index>(), 200),
        cuts in proptest::collection::vec(any::<Index>(), 0..12),
    ) {
        let is_plain = |part: &&Vec<&str>| part.len() == 1;
        let plain = |host: usize, lines: &[&str]| -> Vec<String> {
            lines.iter().map(|line| format!("web{host} | {line}\n")).collect()
        };
        let mut waiting: Vec<_> = hosts.iter().map(|parts| parts.concat().into_iter()).collect();
        let mut output = String::new();
        for turn in turns {
            let host = turn.index(waiting.len());
            output.extend(waiting[host].next().map(|line| format!("web{host} | {line}\n")));
        }
        let clean = redacted(LiveRedactor::default(), &pieces(&output, &cuts));
        prop_assert!(!clean.contains(['Q', 'Z']), "{output}\n{clean}");
        for (host, (parts, rest)) in hosts.iter().zip(waiting).enumerate() {
            if rest.len() > 0 {
                continue;
            }
            let expected = parts.iter().filter(is_plain).flat_map(|part| plain(host, part));
            let prefix = format!("web{host} | ");
            let is_shown = |line: &&str| line.starts_with(&prefix) && !line.contains("[redacted: ");
            let shown: Vec<&str> = clean.split_inclusive('\n').filter(is_shown).collect();
            prop_assert_eq!(shown, expected.collect::<Vec<_>>(), "{}", output);
        }
    }

    #[test]
    fn secrets_across_chunks_are_redacted(cuts in proptest::collection::vec(any::<Index>(), 0..12)) {
        let clean = redacted(LiveRedactor::default(), &pieces(OUTPUT, &cuts));
        prop_assert_eq!(plain(&clean), plain(CLEAN));
    }
}

#[test]
fn complete_lines_and_progress_are_shown_at_once() {
    let mut redactor = LiveRedactor::default();
    assert_eq!(redactor.push("\u{1b}[1ma\u{1b}[m\n50%\r"), "\u{1b}[1ma\u{1b}[m\n50%\r");
    assert_eq!(redactor.push("Password: "), "");
    assert_eq!(redactor.finish(), "Password: ");
}

#[test]
fn a_key_whose_beginning_is_missing_is_dropped() {
    let line = "MIIE".repeat(16);
    let output = format!("hunter2\n{line}\n{line}\nab==\n-----END PRIVATE KEY-----\nnext\n");
    assert_eq!(redacted(LiveRedactor::after_gap(), &[&output]), "next\n");
    let omitted = format!("a\nT=ghp_abc\n… [9 bytes omitted] …\n{output}");
    let clean = "a\nT=[redacted: token]\n… [9 bytes omitted] …\nnext\n";
    assert_eq!(redacted(LiveRedactor::default(), &[&omitted]), clean);
    assert_eq!(redacted(LiveRedactor::after_gap(), &["rest\n1\n2\n"]), "1\n2\n");
    let again = format!("\n… [9 bytes omitted] …\nrest\n… [9 bytes omitted] …\n{output}");
    let clean = "… [9 bytes omitted] …\n… [9 bytes omitted] …\nnext\n";
    assert_eq!(redacted(LiveRedactor::after_gap(), &[&again]), clean);
}

#[test]
fn a_key_with_carriage_returns_whose_beginning_is_missing_is_dropped() {
    let key = format!("{}\r\n", "MIIE".repeat(16));
    let lines = ["rest\r\n", "\r\n", &key, &key, "ab==\r\n", "-----END PRIVATE KEY-----\r\n", "next\r\n"];
    assert_eq!(redacted(LiveRedactor::after_gap(), &lines).trim_start(), "next\r\n");
}

#[test]
fn a_key_with_text_before_each_line_whose_beginning_is_missing_is_dropped() {
    let line = "MIIE".repeat(16);
    let file_and_line: fn(usize) -> String = |number| format!("key.pem:{number}:");
    let prefixes: [fn(usize) -> String; 4] = [
        |number| format!("{number}:"),
        file_and_line,
        |number| format!("Nov 30 12:00:{number:02} web1 app[7]: "),
        |number| format!("2026-11-30T12:00:{number:02}.000000000Z "),
    ];
    for prefix in prefixes {
        for before in ["", "-----BEGIN PRIVATE KEY-----\n"] {
            let begin: String = before.lines().map(|line| format!("{}{line}\n", prefix(1))).collect();
            let key: String = [line.as_str(), &line, "aB1==", "-----END PRIVATE KEY-----", "next line"]
                .iter()
                .zip(2..)
                .map(|(line, number)| format!("{}{line}\n", prefix(number)))
                .collect();
            let output = format!("{begin}… [9 bytes omitted] …\nhunter2\n{key}");
            let clean = redacted(LiveRedactor::default(), &[&output]);
            assert!(
                !clean.contains("MIIE") && !clean.contains("aB1") && !clean.contains("hunter"),
                "{clean}"
            );
            assert!(clean.ends_with(&format!("{}next line\n", prefix(6))), "{clean}");
        }
    }
}

#[test]
fn checksums_and_versions_after_missing_output_are_shown() {
    let sum = "0123456789abcdef".repeat(4);
    let shown = format!("Package: app\nVersion: 1.2\n{sum}  a\nsha256:{sum}\n");
    for from in ["Package", "Version", &sum, "sha256"] {
        let shown = &shown[shown.find(from).unwrap()..];
        assert_eq!(redacted(LiveRedactor::after_gap(), &[&format!("rest\n{shown}")]), shown);
    }
    let key = "MIIE".repeat(16);
    let headers = format!("rest\nVersion: 1\n\n{key}\n=aBcd\n-----END PGP PRIVATE KEY BLOCK-----\nnext\n");
    assert_eq!(redacted(LiveRedactor::after_gap(), &[&headers]), "Version: 1\n\nnext\n");
}

#[test]
fn after_missing_output_the_rest_of_a_line_may_open_a_secret_of_any_host() {
    for rest in ["ort API_TOKEN=\"a\n", "KEN=\"a\n", "=\"a\n"] {
        let output = format!("{rest}b\" c\nnext\n");
        assert_eq!(redacted(LiveRedactor::after_gap(), &[&output]).trim_start(), "next\n", "{rest}");
    }
    let lines = "x\nweb1 | x\nweb2 | x\n… [9 bytes omitted] …\n";
    for host in ["eb1 | ", ""] {
        let output = format!("{}{host}export API_TOKEN=\"a\nweb1 | b\"\nweb1 | next\n", &lines[2..]);
        let clean = redacted(LiveRedactor::default(), &[&output]);
        assert_eq!(clean.split("omitted] …").last().unwrap().trim_start(), "web1 | next\n", "{host}");
    }
    for rest in ["class=\"a\" b\n", "a=b\n", "x=\"$y\"\n"] {
        assert_eq!(redacted(LiveRedactor::after_gap(), &[&format!("{rest}next\n")]), "next\n", "{rest}");
    }
}

#[test]
fn the_end_of_a_key_ends_all_that_began_before_it() {
    let begin = "a:-----BEGIN PRIVATE KEY-----\n";
    let output = format!("{begin}{begin}MIIE\n-----END PRIVATE KEY-----\nnext\n");
    assert_eq!(redacted(LiveRedactor::default(), &[&output]), "a:[redacted: private key]\nnext\n");
}

#[test]
fn after_missing_output_of_one_host_its_key_is_dropped_and_other_hosts_are_shown() {
    let key = "MIIE".repeat(16);
    let lines = format!(
        "web1 | a\nweb1 | … [9 bytes omitted] …\nweb2 | b\nweb1 | hunter2\nweb1 | {key}\nweb2 | c\n\
         web2 | -----BEGIN PRIVATE KEY-----\nweb1 | {key}\nweb1 | -----END PRIVATE KEY-----\nweb2 | {key}\n\
         web2 | -----END PRIVATE KEY-----\nweb1 | d\n"
    );
    let clean = "web1 | a\nweb1 | … [9 bytes omitted] …\nweb2 | b\nweb2 | c\n\
                 web2 | [redacted: private key]\nweb1 | d\n";
    assert_eq!(redacted(LiveRedactor::default(), &[&lines]), clean);
}

#[test]
fn after_missing_output_of_all_hosts_no_host_shows_the_rest_of_a_key() {
    let key = "MIIE".repeat(16);
    let lines = format!(
        "web1 | a\n… [earlier output omitted] …\nrest\nweb2 | b\nweb1 | {key}\nweb2 | c\nweb1 | {key}\n\
         web1 | d.\n"
    );
    let clean = "web1 | a\n… [earlier output omitted] …\nweb2 | b\nweb2 | c\nweb1 | d.\n";
    assert_eq!(redacted(LiveRedactor::default(), &[&lines]), clean);
}

#[test]
fn the_secrets_of_too_many_hosts_to_tell_apart_are_hidden_but_not_all_later_output() {
    let mut redactor = LiveRedactor::default();
    for host in 0..=HOSTS_MAX {
        redactor.push(&format!("web{host} | export API_TOKEN=\"a\n"));
    }
    assert!(redactor.hosts.named.len() <= HOSTS_MAX);
    for host in [0, HOSTS_MAX] {
        let output = format!("web{host} | hunter22\nweb{host} | {}\n", "MIIE".repeat(16));
        assert_eq!(redactor.push(&output), "");
        let rest = format!("web{host} | a\n").repeat(QUOTE_LINES_MAX);
        assert_eq!(redactor.push(&rest).trim_start(), format!("web{host} | a\n"));
    }
}

#[test]
fn lines_of_one_host_may_look_like_lines_of_several() {
    let quote =
        |first: &str, next: &str| format!("{first}export API_TOKEN=\"a\n{next}b\n{next}c\"\nx | next\n");
    for (first, next) in [("a\nx | ", "y | "), ("x | ", ""), ("\nx | ", ""), ("", "x | "), ("", "x\" | ")] {
        let clean = redacted(LiveRedactor::default(), &[&quote(first, next)]);
        let shown = clean.strip_prefix(&format!("{first}export API_TOKEN=[redacted: secret]\n"));
        let end = shown.unwrap_or_else(|| panic!("{clean}"));
        assert!(end == "x | next\n" || next.contains('"') && end.starts_with(" | b\n"), "{clean}");
    }
    let key = "-----BEGIN PRIVATE KEY-----\nx | MIIE\ny | -----END PRIVATE KEY-----\nx | next\n";
    assert_eq!(redacted(LiveRedactor::default(), &[key]), "[redacted: private key]\nx | next\n");
    let gap = "rest export\nexport API_TOKEN=\"a\nx | b\nc\"\nx | next\n";
    let clean = "export API_TOKEN=[redacted: secret]\nx | next\n";
    assert_eq!(redacted(LiveRedactor::after_gap(), &[gap]), clean);
    let rest = "export API_TOKEN=\"a\nx | b\nc\"\nx | next\n";
    assert_eq!(redacted(LiveRedactor::after_gap(), &[rest]), "x | next\n");
}

#[test]
fn lines_about_the_ends_of_calls_and_steps_of_progress_do_not_mix_hosts() {
    let output = "web1 | export API_TOKEN=\"a\n\n[1/2 hosts] web3: ok, 8 ms\nweb2 | 10%\r20%\rb\"\n\
                  web1 | b\nweb1 | c\"\nweb1 | next\n";
    let clean = "web1 | export API_TOKEN=[redacted: secret]\n[1/2 hosts] web3: ok, 8 ms\nweb2 | 10%\r20%\rb\"\n\
                 web1 | next\n";
    assert_eq!(redacted(LiveRedactor::default(), &[output]), clean);
}

#[test]
fn missing_output_within_a_key_does_not_hide_all_that_follows() {
    let begin = "-----BEGIN PRIVATE KEY-----\nMIIE\n";
    let mask = "[redacted: private key]\n";
    for host in ["", "web1 | "] {
        for (rest, shown) in [
            ("MIIE\nab==\n-----END PRIVATE KEY-----\nnext\n", "next\n"),
            ("E\nDEK-Info: AES\n\nMIIE\n-----END PRIVATE KEY-----\nnext\n", "next\n"),
            ("E\nMIIE\nnext line\nnext\n", "next line\nnext\n"),
            ("KEY-----\nnext line\n", "next line\n"),
            (
                "x\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nnext\n",
                "[redacted: private key]\nnext\n",
            ),
            ("-----BEGIN PRIVATE KEY-----\nM-I\n-----END PRIVATE KEY-----\nnext\n", "next\n"),
        ] {
            let prefixed =
                |text: &str| text.lines().map(|line| format!("{host}{line}\n")).collect::<String>();
            let omitted = "… [9 bytes omitted] …\n";
            let output = prefixed(&format!("a\n{begin}{omitted}{rest}"));
            let clean = prefixed(&format!("a\n{mask}{omitted}{shown}"));
            assert_eq!(redacted(LiveRedactor::default(), &[&output]), clean, "{rest}");
        }
    }
}

#[test]
fn missing_output_within_a_quote_hides_its_rest_but_not_all_that_follows() {
    let many = "line\n".repeat(QUOTE_LINES_MAX + 1);
    for (rest, shown) in [
        ("b\" c\nd\ne\" f\nnext\n", "next\n"),
        ("b\nc\ndeclare -x HOME=\"/\"\nnext\n", "declare -x HOME=\"/\"\nnext\n"),
        ("b\nexport A_TOKEN=\"c\nd\"\nnext\n", "export A_TOKEN=[redacted: secret]\nnext\n"),
        ("b\n\"-----BEGIN PRIVATE KEY-----\nM\n-----END PRIVATE KEY-----\nnext\n", "next\n"),
        (&format!("b\n{many}next\n"), "next\n"),
        ("b\n… [9 bytes omitted] …\nc\nd\"\nnext\n", "… [9 bytes omitted] …\nnext\n"),
    ] {
        let output = format!("export API_TOKEN=\"a\n… [9 bytes omitted] …\n{rest}");
        let clean = format!("export API_TOKEN=[redacted: secret]\n… [9 bytes omitted] …\n{shown}");
        assert_eq!(redacted(LiveRedactor::default(), &[&output]), clean, "{rest}");
    }
}

#[test]
fn a_long_line_in_a_key_or_in_quotes_does_not_end_them() {
    let line = "a".repeat(LINE_BYTES_MAX + 1);
    let key = ["-----BEGIN PRIVATE KEY-----\n", &line, "\nab==\n-----END PRIVATE KEY-----\nnext\n"];
    assert_eq!(redacted(LiveRedactor::default(), &key), "[redacted: private key]\nnext\n");
    let quote = ["export API_TOKEN=\"abcdefg\n", &line, "\nhunter22\"\nnext\n"];
    assert_eq!(redacted(LiveRedactor::default(), &quote), "export API_TOKEN=[redacted: secret]\nnext\n");
}

#[test]
fn a_line_without_end_is_cut() {
    let line = format!("{} ghp_{}", "x ".repeat(LINE_BYTES_MAX / 2), "a1B2".repeat(9));
    let clean = redacted(LiveRedactor::default(), &[&line, " ghp_", "more\nnext\n"]);
    assert!(
        clean.ends_with(" [redacted: GitHub token]… [rest of the line omitted] …\nnext\n"),
        "{}",
        clean.len()
    );
    let mut redactor = LiveRedactor::default();
    redactor.push(&line);
    assert_eq!(redactor.push("more\nnext\n"), "next\n");
}

/// Returns the redacted output of lines that arrive one by one.
fn redacted_lines(redactor: LiveRedactor, lines: &str) -> String {
    redacted(redactor, &lines.split_inclusive('\n').collect::<Vec<_>>())
}

#[test]
fn a_key_that_begins_behind_the_end_of_a_quote_is_redacted() {
    let lines = "export DB_TOKEN=\"$(cat t\n)\"; KEY=\"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n\
                 -----END RSA PRIVATE KEY-----\"\nnext\n";
    let clean = "export DB_TOKEN=[redacted: secret]\n; KEY=\"[redacted: private key]\n\"\nnext\n";
    assert_eq!(redacted_lines(LiveRedactor::default(), lines), clean);
}

#[test]
fn the_rest_of_a_quote_behind_the_end_of_a_key_is_redacted() {
    let key = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----";
    for (rest, shown) in [
        ("\nhunter22\n\"\nnext\n", "\nnext\n"),
        ("hunter22\" a\nnext\n", "\n a\nnext\n"),
        ("\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nhunter22\"\nnext\n", "\nnext\n"),
        (
            "\" -----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nnext\n",
            "\n [redacted: private key]\nnext\n",
        ),
    ] {
        let lines = format!("declare -x APP_SECRET=\"{key}{rest}");
        let clean = format!("declare -x APP_SECRET=[redacted: secret]{shown}");
        assert_eq!(redacted_lines(LiveRedactor::default(), &lines), clean, "{rest}");
    }
}

#[test]
fn the_rest_of_a_quote_behind_the_end_of_a_key_is_dropped_after_missing_output() {
    let end = "-----END PRIVATE KEY-----\nhunter22\n\"\nnext\n";
    let begin = "-----BEGIN PRIVATE KEY-----\nMIIE\n";
    for output in [
        format!("declare -x APP_SECRET=\"{begin}… [9 bytes omitted] …\nMIIE\nMIIE\n{end}"),
        format!("declare -x APP_SECRET=\"a\n… [9 bytes omitted] …\nb\n{begin}{end}"),
        format!("declare -x APP_SECRET=\"a\n… [9 bytes omitted] …\nb {begin}{end}"),
        format!("… [9 bytes omitted] …\nPP_SECRET=\"{begin}{end}"),
    ] {
        let clean = redacted_lines(LiveRedactor::default(), &output);
        assert!(!clean.contains("hunter22") && !clean.contains("MIIE"), "{clean}");
        assert!(clean.ends_with("next\n"), "{clean}");
    }
}
