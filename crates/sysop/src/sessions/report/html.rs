//! A report as a single HTML file. It has no scripts and loads nothing; a policy in its head forbids both.

use std::fmt::Write;

use super::{ReportedCall, SessionReport};

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #8886}\
table{border-collapse:collapse}th{text-align:left;padding:.15rem 1rem .15rem 0;vertical-align:top;font-weight:600}\
td{padding:.15rem 0;overflow-wrap:anywhere}\
pre{background:#8881;padding:.6rem .8rem;border-radius:.4rem;overflow-x:auto;margin:.3rem 0}\
blockquote{margin:.5rem 0;padding-left:.8rem;border-left:3px solid #8886;white-space:pre-wrap}\
li{margin:.6rem 0}.facts{opacity:.8;font-size:.9rem}.failed .facts{color:#c33;opacity:1}";

pub(super) fn write(report: &SessionReport) -> String {
    let title = escaped(&report.title);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    line(&mut html, "<table>");
    for (name, value) in &report.facts {
        line(&mut html, &format!("<tr><th>{name}</th><td>{}</td></tr>", escaped(value)));
    }
    for recording in &report.recordings {
        let (target, name) = (escaped(&url_of(recording)), escaped(recording));
        let link = format!("<a rel=\"noreferrer\" href=\"{target}\">{name}</a>");
        line(&mut html, &format!("<tr><th>Recording (asciicast)</th><td>{link}</td></tr>"));
    }
    line(&mut html, "</table>");
    section(&mut html, "Asked", &report.prompts, |html, prompt| {
        line(html, &format!("<blockquote>{}</blockquote>", escaped(prompt)));
    });
    section(&mut html, "Result", &report.answers, |html, answer| {
        line(html, &format!("<blockquote>{}</blockquote>", escaped(answer)));
    });
    list(&mut html, "Done", &report.done, call);
    list(&mut html, "Changed", &report.changes, |html, change| item(html, change));
    list(&mut html, "Undone", &report.undone, |html, undo| item(html, undo));
    list(&mut html, "Not run", &report.not_run, call);
    line(&mut html, "</body>\n</html>");
    html
}

fn line(html: &mut String, line: &str) {
    writeln!(html, "{line}").expect("writing to a string cannot fail");
}

fn section<T>(html: &mut String, title: &str, items: &[T], write: impl Fn(&mut String, &T)) {
    if !items.is_empty() {
        line(html, &format!("<h2>{title}</h2>"));
        items.iter().for_each(|item| write(html, item));
    }
}

fn list<T>(html: &mut String, title: &str, items: &[T], write: impl Fn(&mut String, &T)) {
    if !items.is_empty() {
        line(html, &format!("<h2>{title}</h2>\n<ul>"));
        items.iter().for_each(|item| write(html, item));
        line(html, "</ul>");
    }
}

fn item(html: &mut String, text: &str) {
    line(html, &format!("<li>{}</li>", escaped(text)));
}

fn call(html: &mut String, call: &ReportedCall) {
    let class = if call.is_ok { "" } else { " class=\"failed\"" };
    let notes: String = call.notes.iter().map(|note| format!("<br>{}", escaped(note))).collect();
    let facts = escaped(&call.facts);
    line(
        html,
        &format!(
            "<li{class}>{}. <span class=\"facts\">{facts}{notes}</span><pre>{}</pre></li>",
            call.number,
            escaped(&call.text)
        ),
    );
}

/// Returns the `file` URL of a path, or empty text if the path is relative.
fn url_of(path: &str) -> String {
    url::Url::from_file_path(path).map_or_else(|()| String::new(), |url| url.to_string())
}

/// Escapes text for use in elements and quoted attributes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
