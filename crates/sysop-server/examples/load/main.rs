//! Load generator for `cargo xtask bench server`. Runs as a separate process and prints results as `NAME NUMBER` lines.
//!
//! `load model` serves the model, which stamps each chunk with its time. All other cases are `load CASE ADDRESS PID …`,
//! with the server's token in `SYSOP_TOKEN`. The generator must cost little compared to the server: it has one thread,
//! and builds and searches JSON as text.
#![expect(clippy::print_stdout, reason = "an example that prints")]

mod cases;
mod client;
mod model;

use std::io::{Error, Result};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match arguments.as_slice() {
            ["model"] => model::serve().await,
            ["connected", rest @ ..] => cases::connected(cases::Target::read(rest)?).await,
            ["calls", rest @ ..] => cases::calls(cases::Target::read(rest)?).await,
            ["storm", rest @ ..] => cases::storm(cases::Target::read(rest)?).await,
            ["stored", rest @ ..] => cases::stored(cases::Target::read(rest)?).await,
            _ => Err(Error::other("load model | CASE ADDRESS PID MODEL-PORT COUNT")),
        }
    })
}

fn tell(name: &str, number: f64) {
    println!("{name} {number}");
}

/// Nanoseconds since 1970, from the clock that all processes of the machine share.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Returns the quantile `share` (0 to 1) of sorted values.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let at = (share * last as f64).round() as usize;
    sorted.get(at.min(last)).copied().unwrap_or(f64::NAN)
}
