//! Error messages when something fails.

use std::fs;
use std::process::Command;

use crate::display::{Display, wait};
use crate::world::{World, kill, sysop};

/// Keycodes of Tab and Enter on a PC keyboard.
const TAB_ENTER: [u8; 2] = [23, 36];

/// Puts `sysop` alone in a directory, like an installation without the window.
fn alone(world: &World) -> std::path::PathBuf {
    let alone = world.path("alone");
    fs::create_dir(&alone).unwrap();
    let copy = alone.join("sysop");
    if fs::hard_link(sysop(), &copy).is_err() {
        fs::copy(sysop(), &copy).unwrap();
    }
    copy
}

#[test]
fn a_missing_display_is_reported() {
    let world = World::new();
    let run = world.command(&sysop(), &["desktop"]).output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{said}");
    assert!(said.contains("no display") && said.contains("sysop serve"), "{said}");
    assert!(
        said.starts_with("error: no display") && said.lines().count() == 2,
        "an error and a hint: {said}"
    );

    let run = world.command(&sysop(), &["desktop"]).env("DISPLAY", ":54321").output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot open the display"), "{said}");
}

#[test]
fn a_missing_helper_is_reported_with_the_searched_paths() {
    let world = World::new();
    let sysop = alone(&world);
    let run =
        world.command(&sysop, &["desktop"]).env("DISPLAY", ":54321").env("PATH", "/nonexistent").output();
    let run = run.unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{said}");
    assert!(said.contains("not found next to") && said.contains("package sysop-desktop"), "{said}");
}

#[test]
fn a_missing_web_engine_is_reported_with_its_library() {
    let world = World::new();
    let sysop = alone(&world);
    let folder = sysop.parent().unwrap();
    // A program whose library is gone makes the linker report it.
    fs::write(folder.join("engine.c"), "int engine(void) { return 0; }\n").unwrap();
    fs::write(folder.join("window.c"), "int engine(void); int main(void) { return engine(); }\n").unwrap();
    let cc = |arguments: &[&str]| {
        let made = Command::new("cc").args(arguments).current_dir(folder).status().unwrap();
        assert!(made.success(), "cc {arguments:?}");
    };
    cc(&["-shared", "-fPIC", "-o", "libengine-4.1.so.0", "-Wl,-soname,libengine-4.1.so.0", "engine.c"]);
    cc(&["-o", "sysop-desktop", "window.c", "-L.", "-l:libengine-4.1.so.0"]);
    let run = world.command(&sysop, &["desktop"]).env("DISPLAY", ":54321").output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{said}");
    assert!(said.contains("libengine-4.1.so.0") && said.contains("libwebkit2gtk-4.1-0"), "{said}");
    assert!(!said.contains("error while loading"), "one sentence: {said}");
}

#[test]
fn an_unknown_session_is_reported_before_a_window_opens() {
    let world = World::new();
    let run = world.command(&sysop(), &["desktop", "0198"]).env("DISPLAY", ":54321").output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{said}");
    assert!(said.contains("0198") && said.contains("sysop sessions list"), "{said}");
}

#[test]
fn a_server_that_fails_to_start_is_reported_in_window_and_terminal() {
    let (display, world) = (Display::start(), World::new());
    let mut desktop =
        world.start(&display, &sysop(), &["desktop", "--model", "demo", "--config", "missing.toml"]);
    let window = display.window("sysop: no server");
    display.screenshot(window, "no-server");
    display.close(window);
    let (status, said) = desktop.end();
    assert_eq!(status.code(), Some(2), "as the server ended: {said}");
    assert!(said.contains("missing.toml") && said.contains("could not start"), "{said}");
}

#[test]
fn a_crashed_server_is_reported_and_can_be_restarted() {
    let (display, world) = (Display::start(), World::new());
    let mut desktop = world.desktop(&display);
    let window = display.window("sysop");
    let server = desktop.server();
    kill(server);
    assert_eq!(display.window("sysop: no server"), window, "the window stays");
    display.focus(window);
    wait("the server is there again", || {
        display.press(&TAB_ENTER);
        display.windows().iter().any(|(_, title)| title == "sysop").then_some(())
    });
    assert_ne!(desktop.server(), server);
    display.close(window);
    let (status, said) = desktop.end();
    assert!(status.success(), "{status}: {said}");
}
