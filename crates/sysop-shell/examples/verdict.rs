//! Measures the time of a verdict on a 200-byte command, the first of a process and the best of many: `cargo run
//! --release -p sysop-shell --example verdict`.
#![expect(clippy::print_stdout, reason = "an example that prints")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it measures, and is no part of the analysis"
)]

use std::time::{Duration, Instant};

use sysop_shell::{CommandContext, RiskClass, Survey, analyze};

/// 200 bytes of costly syntax: a pipeline, quotes, an expansion, a loop and options of several programs.
const COMMAND: &str = "for f in $(find . -name '*.log' -mtime +7); do grep -Hn \"error\" \"$f\" | sort -u | head -n 20 >> \
report.txt; done; git log --oneline --since='2 weeks ago' -- src | wc -l; df -h / | tail -n 1; tar -tzf a.tgz";
const RUNS: usize = 2_000;

fn verdict(survey: &Survey) -> Duration {
    let start = Instant::now();
    let analysis = analyze(COMMAND, survey);
    let took = start.elapsed();
    assert!(analysis.risk.class >= RiskClass::Changes, "the command writes a file");
    took
}

fn main() {
    let survey = Survey::elsewhere(CommandContext::bash());
    let first = verdict(&survey);
    let best = (0..RUNS).map(|_| verdict(&survey)).min().unwrap_or_default();
    println!("bytes {}", COMMAND.len());
    println!("first_ms {:.3}", first.as_secs_f64() * 1e3);
    println!("best_ms {:.3}", best.as_secs_f64() * 1e3);
}
