#!/bin/sh
# Installs the package of this folder in a fresh Debian, and does a first task. Run by `cargo xtask dist --try`.
set -eu
begun=$(date +%s)
apt-get install -y ./sysop_*.deb
sysop --version
sysop exec --model demo --approve never hello
seconds=$(($(date +%s) - begun))
test -e /usr/lib/systemd/system/sysop.socket
test -e /usr/lib/systemd/user/sysop.service

# The same with a model server.
sysop mock-llm --port 0 > /tmp/mock &
mock=$!
until grep -q 'OpenAI: ' /tmp/mock; do sleep 0.1; done
LLM_BASE_URL=$(sed -n 's/.*(OpenAI: \(http.*\)\/v1).*/\1/p' /tmp/mock)
export LLM_BASE_URL
sysop doctor
sysop exec "how are you"
kill "$mock"
echo "sysop answered $seconds s after the start of its installation"
