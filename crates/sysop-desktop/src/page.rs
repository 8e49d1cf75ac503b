//! Pages shown by the window itself: while the server is starting, and after it has exited.
//!
//! These pages run no scripts, load nothing, and escape all text.

use std::os::unix::process::ExitStatusExt;

use crate::navigation::AGAIN;
use crate::server::ServerExit;

const FRAME: (&str, &str) = (
    r#"<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
:root { color-scheme: dark; --text: #d7dde8; --dim: #8b97ab; --line: #2b3342; --back: #11151c; --mark: #6aa9ff; }
@media (prefers-color-scheme: light) {
  :root { color-scheme: light; --text: #1f2733; --dim: #5b6678; --line: #d5dbe5; --back: #fbfcfe; --mark: #1f5fbf; } }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
main { width: min(44rem, 86vw); }
h1 { font-size: 1.35rem; font-weight: 600; margin: 0 0 .5rem; }
p { margin: 0 0 1rem; color: var(--dim); }
pre { margin: 0 0 1rem; padding: .8rem 1rem; border: 1px solid var(--line); border-radius: 8px; max-height: 50vh;
  overflow: auto; font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
a { color: var(--mark); }
.bar { height: 3px; border-radius: 2px; background: var(--line); overflow: hidden; }
.bar::after { content: ""; display: block; width: 30%; height: 100%; background: var(--mark);
  animation: go 1.4s ease-in-out infinite alternate; }
@keyframes go { from { margin-left: 0; } to { margin-left: 70%; } }
@media (prefers-reduced-motion: reduce) { .bar::after { animation: none; } }
</style>"#,
    "</main></body></html>",
);

pub(crate) fn starting_page(missing: Option<&str>) -> String {
    let why = match missing {
        Some(missing) => {
            format!("The server is not ready yet: {}.", escape(missing.trim_end_matches('.')))
        }
        None => "The server is starting.".to_owned(),
    };
    framed("sysop: starting", &format!("<h1>sysop</h1><p role=\"status\">{why}</p><div class=\"bar\"></div>"))
}

/// Returns the page that is shown after the server has exited on its own.
pub(crate) fn ended(ended: &ServerExit) -> String {
    let head = if ended.was_ready { "The server stopped" } else { "The server could not start" };
    let how = match ended.status {
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("Exit code {code}."),
            (None, Some(signal)) => format!("Killed by signal {signal}."),
            (None, None) => "Exit status unknown.".to_owned(),
        },
        None => "Exit status unknown.".to_owned(),
    };
    let kept = if ended.was_ready {
        " Sessions are saved. Commands that were running are marked as interrupted and do not run again."
    } else {
        ""
    };
    let said = match ended.lines.as_slice() {
        [] => "<p>No output.</p>".to_owned(),
        lines => format!("<p>Last output:</p><pre>{}</pre>", escape(&lines.join("\n"))),
    };
    framed(
        "sysop: no server",
        &format!(
            "<h1>{head}</h1><p role=\"alert\">{how}{kept}</p>{said}<p><a href=\"{AGAIN}\">Restart the server</a></p>"
        ),
    )
}

fn framed(title: &str, body: &str) -> String {
    let (before, after) = FRAME;
    format!("{before}<title>{title}</title></head><body><main>{body}{after}")
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            plain => escaped.push(plain),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{ended, starting_page};
    use crate::server::ServerExit;

    #[test]
    fn server_output_is_escaped_in_the_failure_page() {
        let lines = vec!["<script>x</script> & \"y\"".to_owned()];
        let page = ended(&ServerExit { status: None, was_ready: false, lines });
        assert!(page.contains("&lt;script&gt;x&lt;/script&gt; &amp; &quot;y&quot;"), "{page}");
        assert!(!page.contains("<script"), "{page}");
        assert!(starting_page(Some("<b>")).contains("&lt;b&gt;"));
    }
}
