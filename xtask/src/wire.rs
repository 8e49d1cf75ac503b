//! Generates files from the message types: schemas, TypeScript, and the protocol page. Checks that a page can use them.

use std::process::Command;

use anyhow::Result;

use crate::workspace::{cargo, root, step, target};
use crate::{setup, web};

/// Compiler that type-checks the generated types.
const TYPESCRIPT: &str = "typescript@5.9.3";
/// Example of page code that uses the types, relative to the root.
const USE: &str = "crates/sysop-wire/schema/use.ts";

/// Writes the generated files and compiles the TypeScript.
pub(crate) fn run() -> Result<()> {
    let mut generate = cargo();
    generate.args(["run", "--quiet", "--locked", "--package", "sysop-wire"]);
    generate.args(["--features", "schema", "--example", "wire"]);
    step("generate files from the message types", &mut generate)?;
    check()
}

/// Compiles the committed TypeScript.
pub(crate) fn check() -> Result<()> {
    setup::need(&web::NODE)?;
    let tools = target().join("typescript");
    let compiler = tools.join("node_modules/.bin/tsc");
    if !compiler.exists() {
        std::fs::create_dir_all(&tools)?;
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(&tools);
        step("install the TypeScript compiler", install.arg(TYPESCRIPT))?;
    }
    let mut compile = Command::new(compiler);
    compile.args(["--strict", "--noEmit", "--target", "es2022", "--module", "esnext"]);
    compile.args(["--moduleResolution", "bundler", USE]).current_dir(root());
    step("check the generated types", &mut compile)
}
