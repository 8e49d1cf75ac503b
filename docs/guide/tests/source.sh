#!/bin/sh
# Installs sysop from the sources into a folder of its own. Run by `cargo xtask test --all`.
set -eu
cargo install --locked --path crates/sysop
sysop --version
