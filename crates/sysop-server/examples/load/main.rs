//! Loads a server for `cargo xtask bench server`, from a process of its own, and prints numbers: `NAME NUMBER` lines.
//!
//! `load model` is the model that is asked meanwhile: it says when it said each piece. All else is `load CASE ADDRESS PID
//! …`, with the server's token in `SYSOP_TOKEN`. It is written to cost little beside what it measures: one thread, no JSON
//! but what is put together and searched as text.
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

/// Tells a number.
fn tell(name: &str, number: f64) {
    println!("{name} {number}");
}

/// Nanoseconds of a clock that all processes of this machine share.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// The value below which this share of the sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let at = (share * last as f64).round() as usize;
    sorted.get(at.min(last)).copied().unwrap_or(f64::NAN)
}
