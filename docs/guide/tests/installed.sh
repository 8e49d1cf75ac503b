#!/bin/sh
# Installs the package of this folder in a fresh Debian, and does a first task. Run by `cargo xtask dist --try`.
set -eu
apt-get install -y ./sysop_*.deb
sysop --version
sysop exec --model demo --approve never hello
test -e /usr/lib/systemd/system/sysop.socket
test -e /usr/lib/systemd/user/sysop.service
