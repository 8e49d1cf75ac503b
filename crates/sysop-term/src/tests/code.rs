//! Highlighting: each language by an example.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};

use super::any_text;
use crate::code::{Highlighter, Language};

fn check(language: &str, code: &str, expected: Expect) {
    let mut highlighter = Highlighter::new(Language::named(language));
    let mut out = String::new();
    for line in code.lines() {
        highlighter.tokens(line, &mut |text, ink| match ink {
            Some(ink) => write!(out, "{ink:?}({text})").unwrap(),
            None => out.push_str(text),
        });
        out.push('\n');
    }
    expected.assert_eq(&out);
}

#[test]
fn shells_and_scripts_are_highlighted() {
    check(
        "bash",
        "if [ -f \"$f\" ]; then  # yes\n  FOO=1 grep -rn 'it''s' ${HOME}/x | wc -l\nfi\necho \"two\nlines\" done",
        expect![[r#"
        Keyword(if) [ -f String("$f") ]; Keyword(then)  Comment(# yes)
          Variable(FOO)=Number(1) grep -rn String('it')String('s') Variable(${HOME})/x | Function(wc) -l
        Keyword(fi)
        Function(echo) String("two)
        String(lines") Keyword(done)
    "#]],
    );
    check(
        "python",
        "@app.get\nasync def f(x: int) -> None:\n    \"\"\"doc\n    more\"\"\"\n    return x + 1.5e3  # n",
        expect![[r#"
        Meta(@app).get
        Keyword(async) Keyword(def) Function(f)(x: int) -> Number(None):
            String("""doc)
        String(    more""")
            Keyword(return) x + Number(1.5e3)  Comment(# n)
    "#]],
    );
    check(
        "sql",
        "SELECT a, 'it''s' FROM t -- all\nwhere n >= 10;",
        expect![[r#"
        Keyword(SELECT) a, String('it')String('s') Keyword(FROM) t Comment(-- all)
        Keyword(where) n >= Number(10);
    "#]],
    );
}

#[test]
fn compiled_languages_are_highlighted() {
    check(
        "rust",
        "#[derive(Debug)]\npub fn f<'a>(x: &'a str) -> Option<char> { /* a\nb */ Some('x') } // e",
        expect![[r#"
        Meta(#[derive)(Type(Debug))]
        Keyword(pub) Keyword(fn) f<'a>(x: &'a Keyword(str)) -> Type(Option)<Keyword(char)> { Comment(/* a)
        Comment(b */) Number(Some)(String('x')) } Comment(// e)
    "#]],
    );
    check(
        "go",
        "func main() {\n\tx := `raw\n\\`\n}",
        expect![[r#"
        Keyword(func) Function(main)() {
        	x := String(`raw)
        String(\`)
        }
    "#]],
    );
    check(
        "ts",
        "const f = async (a: string) => `x ${a}`; // y",
        expect![[r#"
        Keyword(const) f = Keyword(async) (a: Keyword(string)) => String(`x ${a}`); Comment(// y)
    "#]],
    );
    check(
        "c",
        "#include <x.h>\nint main(void) { return 0x1F; }",
        expect![[r#"
        Meta(#include) <x.h>
        Keyword(int) Function(main)(Keyword(void)) { Keyword(return) Number(0x1F); }
    "#]],
    );
}

#[test]
fn configuration_files_are_highlighted() {
    check(
        "json",
        "{\"a\": [1, true, \"x\"]}",
        expect![[r#"
        {Key("a"): [Number(1), Number(true), String("x")]}
    "#]],
    );
    check(
        "yaml",
        "# c\nservices:\n  - name: \"x: y\"   # z\n    on-fail: yes\n    url: http://a:80",
        expect![[r#"
            Comment(# c)
            Key(services):
              - Key(name): String("x: y")   Comment(# z)
                Key(on-fail): Number(yes)
                Key(url): http://a:Number(80)
        "#]],
    );
    check(
        "toml",
        "[a.b]\nkey = \"v\" # c\nn = 1",
        expect![[r#"
        Meta([a.b])
        Key(key) = String("v") Comment(# c)
        Key(n) = Number(1)
    "#]],
    );
    check(
        "ini",
        "[Unit]\nAfter=network.target\n; c",
        expect![[r#"
        Meta([Unit])
        Key(After)=network.target
        Comment(; c)
    "#]],
    );
    check(
        "dockerfile",
        "FROM rust:1 AS b\nRUN echo \"$X\"",
        expect![[r#"
        Keyword(FROM) rust:Number(1) Keyword(AS) b
        Keyword(RUN) echo String("$X")
    "#]],
    );
    check(
        "nginx",
        "server {\n  listen 80;\n  proxy_set_header Host $host;\n}",
        expect![[r#"
        Keyword(server) {
          Keyword(listen) Number(80);
          Keyword(proxy_set_header) Host Variable($host);
        }
    "#]],
    );
    check(
        "diff",
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same",
        expect![[r#"
        Meta(--- a/x)
        Meta(+++ b/x)
        Key(@@ -1 +1 @@)
        Removed(-old)
        Added(+new)
         same
    "#]],
    );
}

#[test]
fn a_language_is_found_by_its_names() {
    for name in ["Rust", "rs", "rust,ignore", ".py", "yaml {1}", "Dockerfile"] {
        assert!(Language::named(name).is_some(), "{name}");
    }
    for name in ["", "klingon", "x".repeat(100).as_str()] {
        assert!(Language::named(name).is_none(), "{name}");
    }
    assert!(Language::of_path("etc/nginx/Dockerfile").is_some() && Language::of_path("a/b.toml").is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn highlighted_parts_join_to_the_line(code in any_text(), language in proptest::sample::select(vec!["sh", "py", "rs", "json", "yaml", "toml", "sql", "diff", "html", "lua", "ps1", "nginx", "make", ""])) {
        let mut highlighter = Highlighter::new(Language::named(language));
        for line in code.split('\n') {
            let mut out = String::new();
            highlighter.tokens(line, &mut |text, _| out.push_str(text));
            prop_assert_eq!(out, line);
        }
    }
}
