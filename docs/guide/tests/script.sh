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

# A refused archive leaves nothing, here or in the folder for temporary files.
bad=$(mktemp -d)
mkdir "$bad/tmp"
cp install.sh SHA256SUMS sysop-*.tar.gz "$bad"
for archive in "$bad"/sysop-*.tar.gz; do printf x >> "$archive"; done
if TMPDIR="$bad/tmp" sh install.sh --from "$bad" --prefix "$bad/out" 2>"$bad/said"; then
    echo 'a wrong archive was installed' >&2
    exit 1
fi
grep -q 'the sum of sysop-' "$bad/said"
test ! -e "$bad/out"
rmdir "$bad/tmp"

# So does an archive whose signature cannot be checked.
if sh install.sh --from . --prefix "$bad/out" --key RWQ0 2>"$bad/said"; then
    echo 'an archive without a valid signature was installed' >&2
    exit 1
fi
grep -q 'the signature' "$bad/said"
test ! -e "$bad/out"
echo 'sysop was installed from the right archive only'
