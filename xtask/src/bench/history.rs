//! The history of the TUI, measured inside the process: frames, streams, memory.

use anyhow::Result;

use super::Bench;
use super::measure::BenchOutput;

/// Measures a history of many messages, streaming text, and memory over many frames.
pub(super) fn history(bench: &mut Bench) -> Result<()> {
    let numbers = BenchOutput::of_example("sysop-tui", "history", &[])?;
    bench.at_most("the first frame of 10,000 messages", numbers.get("first_frame_ms")?, 4.0, "ms");
    bench.at_most("a frame, scrolled by a row", numbers.get("frame_ms")?, 4.0, "ms");
    bench.at_most("the same / with 20 messages", numbers.get("frame_ratio")?, 1.25, "×");
    bench.at_most("the slowest new page", numbers.get("slowest_new_page_ms")?, 4.0, "ms");
    bench.at_most("additional memory after 200 more frames", numbers.get("grown_bytes")?, 0.0, "bytes");
    bench.baseline("allocations in a frame where nothing moves", numbers.get("allocations_a_frame")?, "");
    let rate = numbers.get("markdown_frames_per_s")?;
    bench.at_least("100k tokens of Markdown, a frame for each 100", rate, 60.0, "frames/s");
    let slowest = numbers.get("markdown_slowest_frame_ms")?;
    bench.at_most("the slowest of these frames", slowest, 16.7, "ms");
    let rate = numbers.get("line_frames_per_s")?;
    bench.at_least("the same as one endless line", rate, 60.0, "frames/s");
    let rate = numbers.get("code_frames_per_s")?;
    bench.at_least("the same as one block of code", rate, 60.0, "frames/s");
    for (what, name) in [
        ("the slowest of these frames, of an endless line", "line_slowest_frame_ms"),
        ("the slowest of these frames, of code", "code_slowest_frame_ms"),
    ] {
        bench.at_most(what, numbers.get(name)?, 16.7, "ms");
    }
    Ok(())
}
