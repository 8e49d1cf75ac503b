//! Navigation inside and outside the window, tested by a page that tries to leave.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;

use crate::display::{Display, wait};
use crate::world::{HELPER, World};

/// Keycode of Enter on a PC keyboard.
const ENTER: [u8; 1] = [36];
/// A page that tries to leave, and reports its progress in the title.
const PAGE: &str = r#"<!doctype html><title>begun</title><body><a id="own" href="/another" target="_blank">own</a>
<a id="out" href="https://example.org/window?a=1&amp;b=$(id)" target="_blank">out</a><script>
const steps = [
  () => { location.href = 'file:///etc/hostname'; },
  () => { location.href = 'data:text/html,<title>left</title>'; },
  () => { const opened = window.open('/another'); if (opened) document.title = 'opened'; },
  () => { location.href = 'https://example.org/here'; },
  () => { location.href = 'http://localhost:4199/'; },
];
function next() {
  const step = steps.shift();
  if (step) { step(); setTimeout(next, 150); } else { document.title = 'stayed ' + location.hash; link('own').focus(); }
}
const link = (id) => document.getElementById(id);
// What a person does may open windows; what a script does by itself may not even ask. Keys that came too often are
// clicks, too: none may give the page an old title later.
let clicked = false;
link('own').onclick = () => {
  if (!clicked) { setTimeout(() => { document.title = 'no window'; link('out').focus(); }, 150); }
  clicked = true;
};
addEventListener('load', () => setTimeout(next, 100));
addEventListener('hashchange', () => { document.title = 'now ' + location.hash; });
</script>"#;

/// Serves pages like our server: redirects a client with a token to the page.
fn serve(page: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Ends with the process.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 8192];
            let length = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let answer = if head.starts_with("GET /readyz ") {
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}".to_owned()
            } else if head.starts_with("GET /?token=") {
                "HTTP/1.1 303 See Other\r\nLocation: /\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    .to_owned()
            } else {
                let length = page.len();
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}"
                )
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn foreign_links_open_in_the_browser() {
    let (display, world) = (Display::start(), World::new());
    let port = serve(PAGE);
    let opened = world.path("opened");
    world.program("bin/xdg-open", &format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >> '{}'\n", opened.display()));
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap());
    let world = world.variable("PATH", &path);
    let said = format!("{{\"type\":\"serving\",\"url\":\"http://127.0.0.1:{port}/?token=x\"}}");
    let server = world.program("bin/server", &format!("#!/bin/sh\necho '{said}'\ncat > /dev/null\n"));
    let helper = std::path::Path::new(HELPER);
    let arguments = ["--sysop", server.to_str().unwrap(), "--session", "0198-a"];
    let mut running = world.start(&display, helper, &arguments);
    let window = display.window("stayed #/s/0198-a");
    display.focus(window);
    wait("the page is given keys", || {
        display.press(&ENTER);
        display.windows().contains(&(window, "no window".to_owned())).then_some(())
    });
    display.press(&ENTER);
    let wanted =
        ["http://localhost:4199/", "https://example.org/here", "https://example.org/window?a=1&b=$(id)"];
    wait("the browser was asked", || {
        let found = std::fs::read_to_string(&opened).unwrap_or_default();
        let found: BTreeSet<&str> = found.lines().collect();
        found.into_iter().eq(wanted).then_some(())
    });
    assert_eq!(display.windows().len(), 1, "only one window is open");

    // A second start may name another session.
    let (status, said) = world.start(&display, helper, &["--session", "0198-b"]).end();
    assert!(status.success(), "{said}");
    assert_eq!(display.window("now #/s/0198-b"), window);
    display.close(window);
    assert!(running.end().0.success());
}
