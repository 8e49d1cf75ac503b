//! stub
use super::*;
use sysop_core::policy::Finding;
use sysop_core::transcript::Plan;
/// x
pub fn subject(_p: &Plan, command: &str, _f: &[Finding], theme: Theme, columns: usize) -> Vec<Row> {
    command
        .split('\n')
        .flat_map(|l| {
            cells::wrap_exact(&cells::exact(l, theme.style(Ink::Code), theme.style(Ink::Warn)), columns)
        })
        .collect()
}
