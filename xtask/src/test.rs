//! Everything that must hold.

use anyhow::Result;

use crate::chore::{cargo, step};
use crate::{setup, web, wire};

/// Runs format check, lints, the TypeScript of the messages, all tests, and those of the page in a browser; `rest` goes to
/// the test binaries.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    setup::run()?;
    setup::desktop()?;
    step("format", cargo().args(["fmt", "--all", "--check"]))?;
    let mut lints = cargo();
    lints.args(["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"]);
    step("lints", &mut lints)?;
    wire::check()?;
    web::build()?;
    web::check()?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--locked", "--no-fail-fast"]).args(rest);
    step("tests", &mut tests)?;
    web::test(&[])
}
