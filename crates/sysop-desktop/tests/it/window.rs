//! The window from start to end, and the end of its server.

use crate::display::{Display, Geometry, wait};
use crate::world::{World, command_lines, kill, terminate, wait_until_gone};

/// Title once the page is loaded.
const PAGE: &str = "sysop";

#[test]
fn the_window_shows_the_page_and_ends_its_server() {
    let (display, world) = (Display::start(), World::new());
    let mut desktop = world.desktop(&display);
    let window = display.window(PAGE);
    let Geometry { width, height, .. } = display.geometry(window);
    assert_eq!((width, height), (900, 700));
    display.screenshot(window, "page");
    let server = desktop.server();
    let lines = command_lines(desktop.pid());
    assert!(lines.contains("--watched"), "{lines}");
    assert!(
        !lines.contains("token") && !lines.contains("sysop_"),
        "a secret is visible to other users: {lines}"
    );
    display.close(window);
    let (status, said) = desktop.end();
    assert!(status.success(), "{status}: {said}");
    wait_until_gone(server);
    assert!(!world.path(".local/state/sysop/desktop/cookies").exists(), "the page's cookie is forgotten");
}

#[test]
fn size_and_position_are_restored() {
    let (display, world) = (Display::start(), World::new());
    let mut desktop = world.desktop(&display);
    let window = display.window(PAGE);
    let wanted = Geometry { x: 140, y: 90, width: 1010, height: 640 };
    display.place(window, wanted);
    wait("the window takes its place", || (display.geometry(window) == wanted).then_some(()));
    let picture = wait("the page fills it", || {
        let (width, height, points) = display.picture(window);
        ((width, height) == (wanted.width, wanted.height)).then_some(points.len())
    });
    assert_eq!(picture, 1010 * 640);
    // A signal is equivalent to the close button.
    terminate(desktop.pid());
    let (status, said) = desktop.end();
    assert!(status.success(), "{status}: {said}");
    let mut desktop = world.desktop(&display);
    let window = display.window(PAGE);
    wait("it is where it was", || (display.geometry(window) == wanted).then_some(()));
    display.close(window);
    desktop.end();
}

#[test]
fn killing_the_window_ends_its_server() {
    let (display, world) = (Display::start(), World::new());
    let mut desktop = world.desktop(&display);
    display.window(PAGE);
    let (helper, server) = (desktop.helper(), desktop.server());
    kill(helper);
    wait_until_gone(server);
    let (status, said) = desktop.end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("was killed"), "{said}");
    // Files left behind do no harm.
    let mut desktop = world.desktop(&display);
    display.close(display.window(PAGE));
    assert!(desktop.end().0.success());
}

#[test]
fn a_second_start_raises_the_window() {
    let (display, world) = (Display::start(), World::new());
    let mut first = world.desktop(&display);
    let window = display.window(PAGE);
    let cover = display.cover();
    assert_eq!(display.windows().last().map(|(top, _)| *top), Some(cover));
    let (status, said) = world.desktop(&display).end();
    assert!(status.success(), "{status}: {said}");
    assert!(said.contains("already open"), "the message says that the flags have no effect: {said}");
    wait("the window is on top", || (display.windows().last()?.0 == window).then_some(()));
    assert_eq!(display.windows().len(), 2, "there is no second window");
    display.close(window);
    assert!(first.end().0.success());
}
