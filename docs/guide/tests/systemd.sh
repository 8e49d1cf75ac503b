#!/bin/sh
# Starts the units of the package in a booted Debian, as root. Run by `cargo xtask dist --try`.
set -eux

# The server of the machine.
mkdir -p /etc/sysop
echo 'SYSOP_MODEL=demo' > /etc/sysop/environment
chmod 600 /etc/sysop/environment
# The unit's limits leave the fences of commands possible.
mkdir -p /run/systemd/system/sysop.service.d
printf '[Service]\nExecStartPre=/usr/bin/sysop doctor\n' > /run/systemd/system/sysop.service.d/try.conf
systemctl daemon-reload
systemctl enable --now sysop.socket
curl --silent --fail --retry 10 http://127.0.0.1:8765/healthz
systemctl is-active sysop.service
# In tenths: the exposure of a service without any limits is 96.
systemd-analyze security --no-pager --threshold=20 sysop.service > /tmp/security
journalctl --no-pager --unit sysop.service | grep 'auto: Landlock ABI'
test "$(stat -c %U /var/lib/sysop)" = sysop
token=$(cat /var/lib/sysop/.local/share/sysop/sysop-127.0.0.1-8765.token)
curl --silent --fail --header "Authorization: Bearer $token" http://127.0.0.1:8765/api/models
curl --silent --fail --header "Authorization: Bearer $token" --header 'Content-Type: application/json' \
    --data '{"message": "demo: show me what you do"}' --max-time 60 http://127.0.0.1:8765/chat | grep '"content"'
systemctl disable --now sysop.socket
systemctl stop sysop.service
test ! -e /var/lib/sysop/.local/share/sysop/sysop-127.0.0.1-8765.token

# The server of a user.
useradd --create-home ann
loginctl enable-linger ann
uid=$(id -u ann)
for _ in 1 2 3 4 5 6 7 8 9 10; do
    test -S "/run/user/$uid/bus" && break
    sleep 1
done
cat > /home/ann/try.sh <<'END'
set -eux
mkdir -p ~/.config/sysop
echo 'SYSOP_MODEL=demo' > ~/.config/sysop/environment
systemctl --user enable --now sysop.socket
curl --silent --fail --retry 10 http://127.0.0.1:8765/healthz
cat ~/.local/share/sysop/sysop-127.0.0.1-8765.token
systemctl --user is-active sysop.service
END
runuser -u ann -- env "XDG_RUNTIME_DIR=/run/user/$uid" HOME=/home/ann sh /home/ann/try.sh
echo "both servers work; $(grep -o 'Overall exposure.*' /tmp/security)"
