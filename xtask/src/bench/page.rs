//! Measurements of the page, in a real browser.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::Bench;
use crate::web;
use crate::workspace::{step, target};

/// Another web terminal, as a baseline. Part of it is compiled at installation, which npm must be told to allow.
const WETTY: &str = r#"{ "dependencies": { "wetty": "3.2.0" }, "allowScripts": { "node-pty": true } }"#;

/// Measures latency, download size, floods, long sessions, and memory over time.
pub(super) fn page(bench: &mut Bench) -> Result<()> {
    web::browser()?;
    let file = bench.folder.join("page-numbers");
    fs::write(&file, "").context("cannot create a file for the measurements")?;
    let mut measure = web::playwright(&bench.sysop);
    measure.args(["--grep", "@bench", "--workers", "1"]).env("BENCH_NUMBERS", &file);
    match wetty() {
        Ok(wetty) => drop(measure.env("WETTY", wetty)),
        Err(error) => eprintln!("    skipping wetty: {error:#}"),
    }
    step("measure the page", &mut measure)?;
    let text = fs::read_to_string(&file).context("cannot read the measurements")?;
    let number = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.split_once(' ').filter(|(known, _)| *known == name));
        line.and_then(|(_, value)| value.parse().ok())
    };
    let need = |name: &str| number(name).with_context(|| format!("the browser did not report `{name}`"));
    bench.at_most("first paint of the page on loopback", need("first_paint_ms")?, 300.0, "ms");
    bench.at_most("all scripts of the page, gzip", need("scripts_gzip_kib")?, 350.0, "KiB");
    let flood = need("flood_mb_per_s")?;
    bench.baseline("100 MB through a terminal tab", flood, "MB/s");
    bench.at_most("its longest task", need("flood_longest_task_ms")?, 200.0, "ms");
    if let Some(wetty) = number("wetty_mb_per_s") {
        bench.baseline("the same through wetty", wetty, "MB/s");
        bench.baseline("its longest task there", need("wetty_longest_task_ms")?, "ms");
        bench.at_least("100 MB through a tab / through wetty", flood / wetty, 1.0, "×");
    }
    bench.baseline("opening a session of 10,000 messages", need("long_session_open_ms")?, "ms");
    bench.at_least("scrolling through it", need("scroll_fps")?, 55.0, "frames/s");
    bench.baseline("its longest frame", need("scroll_worst_frame_ms")?, "ms");
    bench.baseline("streamed turns of the soak", need("soak_turns")?, "");
    bench.baseline("JavaScript heap at the end of the soak", need("soak_heap_mib")?, "MiB");
    bench.at_most("growth of the heap after the first third", need("soak_heap_growth_mib")?, 8.0, "MiB");
    Ok(())
}

/// Returns the path of wetty, installing it if needed.
fn wetty() -> Result<PathBuf> {
    let folder = target().join("tools/wetty");
    let program = folder.join("node_modules/wetty/build/main.js");
    let manifest = folder.join("package.json");
    if !program.exists() || fs::read_to_string(&manifest).is_ok_and(|last| last != WETTY) {
        fs::create_dir_all(&folder).context("cannot create a directory for wetty")?;
        fs::write(&manifest, WETTY).context("cannot write wetty's package.json")?;
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund"]);
        step("install wetty for comparison", install.current_dir(&folder))?;
    }
    Ok(program)
}
