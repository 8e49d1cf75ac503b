//! Checks the table of scopes in `docs/server.md` against the routes and the messages.

use sysop_driver::tokens::Scopes;
use sysop_wire::ClientMessage;

use super::openapi::Content;
use crate::authenticator::Scope;
use crate::dispatch::needed_scopes;

const PAGE: &str = include_str!("../../../../docs/server.md");

/// Cells of the table below a heading, by row.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let (_, after) = PAGE.split_once(heading).unwrap();
    let lines = after.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.map(cells).collect()
}

#[test]
fn the_table_of_scopes_matches_the_routes() {
    let mut told: Vec<_> = rows("| method | path | scope |").into_iter().map(|row| row.join(" ")).collect();
    let messages = rows("| message | scope |");
    let routes = super::routes().into_iter().map(|route| {
        let kind = route.doc.body.as_ref().and_then(Content::message_kind);
        let needed = match (kind, route.scope) {
            (Some(kind), Scope::Answer | Scope::Operate) => {
                let row = messages.iter().find(|row| row[0] == format!("`{kind}`"));
                row.unwrap_or_else(|| panic!("the page lists no message {kind}"))[1].clone()
            }
            (None, Scope::Operate) => "`operate`".to_owned(),
            (None, Scope::Read) => "`read`".to_owned(),
            (None, Scope::Public) => "none".to_owned(),
            (kind, scope) => panic!("{} {kind:?} {scope:?}", route.path),
        };
        let decides = needed.contains("decide") && !needed.contains("typed");
        assert_eq!(route.scope == Scope::Answer, decides, "{}", route.path);
        format!("{} `{}` {needed}", route.method.to_uppercase(), route.path)
    });
    let mut routes: Vec<_> = routes.collect();
    told.sort();
    routes.sort();
    assert_eq!(told, routes);
}

#[test]
fn the_table_of_messages_says_what_each_needs() {
    let shortest = |kind: &str| match kind {
        "user.message" | "prompt.withdraw" => r#","content":"x""#,
        "tool.result" | "tool.output" => r#","toolCallId":"c","output":"x","content":"x""#,
        "approval.decision" => r#","toolCallId":"c","decision":"allow""#,
        "approval.preview" => r#","toolCallId":"c","command":"x""#,
        "job.stop" => r#","jobId":1"#,
        "question.answer" => r#","id":1,"answer":"x""#,
        "direct" => r#","command":"ls""#,
        "configure" => r#","mode":"chat""#,
        "terminal.input" => r#","data":"x""#,
        "terminal.resize" => r#","cols":80,"rows":24"#,
        _ => "",
    };
    let needs = |kind: &str, more: &str| {
        needed_scopes(&ClientMessage::parse(&format!(r#"{{"type":"{kind}"{more}}}"#)).unwrap())
    };
    let told = rows("| message | scope |");
    assert!(told.len() > 15, "{told:?}");
    for row in told {
        let kind = row[0].trim_matches('`');
        let needed = needs(kind, shortest(kind));
        let (first, then) = row[1].split_once("; ").unwrap_or((&row[1], ""));
        let said = match first {
            "`read`" => Scopes::READ,
            "`operate`" => Scopes::OPERATE,
            "decide or opener" => Scopes::DECIDE,
            "both" => Scopes::ALL,
            other => panic!("{other}"),
        };
        assert_eq!(needed, said, "{kind}");
        assert_eq!(then.is_empty(), !matches!(kind, "hello" | "terminal.attach" | "direct" | "configure"));
    }
    assert_eq!(needs("direct", r#","command":"ls","origin":"typed""#), Scopes::ALL);
    assert_eq!(needs("configure", r#","approve":"auto""#), Scopes::DECIDE);
}
