#!/bin/sh
# Installs the archive of this folder with the script, and checks that a wrong archive is refused. Run by
# `cargo xtask dist --try`. In the guide the script downloads the archive; here it is in this folder.
set -eu
HOME=$(mktemp -d)
export HOME
install() { sh install.sh --from .; }
install
"$HOME/.local/bin/sysop" --version
"$HOME/.local/bin/sysop" exec --model demo --approve never hello

bad=$(mktemp -d)
cp install.sh SHA256SUMS sysop-*.tar.gz "$bad"
for archive in "$bad"/sysop-*.tar.gz; do printf x >> "$archive"; done
if sh install.sh --from "$bad" --prefix "$bad/out" 2>"$bad/said"; then
    echo 'a wrong archive was installed' >&2
    exit 1
fi
grep -q 'the sum of sysop-' "$bad/said"
test ! -e "$bad/out"
