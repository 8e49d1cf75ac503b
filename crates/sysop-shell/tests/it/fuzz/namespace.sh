# Builds a throwaway system in its own namespaces, runs a batch of commands there, and prints each lasting change as a
# line `change: …`. The test replaces the last line of this file by the batch, a shell script of `run` lines.
# Runs as the root of a user namespace, which is nobody outside.
set -eu
export LC_ALL=C

step='mount a tmpfs'
trap 'echo "cannot $step"' EXIT
mount -t tmpfs none /mnt
root=/mnt/root
mkdir -p /mnt/usr.changes /mnt/usr.work /mnt/usr.fixture/bin /mnt/usr.fixture/lib /mnt/usr.fixture/local/bin $root
cd $root
mkdir -p dev/shm dev/pts etc home/ada/work mnt opt proc root run srv sys tmp usr var/log var/tmp var/lib var/spool/cron
step='mount an overlay of /usr in a user namespace (Linux 5.11 or newer, nothing mounted below /usr)'
mount -t overlay none usr -o lowerdir=/mnt/usr.fixture:/usr,upperdir=/mnt/usr.changes,workdir=/mnt/usr.work,userxattr
step='mount the folders of programs'
for folder in bin sbin lib lib32 lib64; do
    if [ -L /$folder ]; then cp -P /$folder $folder; elif [ -d /$folder ]; then mkdir $folder; mount --bind /$folder $folder; fi
done
step='mount /proc'
mount -t proc none proc
step='bind the devices'
for device in null zero full random urandom tty; do : > dev/$device; mount --bind /dev/$device dev/$device; done
ln -s /proc/self/fd dev/fd
ln -s /proc/self/fd/0 dev/stdin
ln -s /proc/self/fd/1 dev/stdout
ln -s /proc/self/fd/2 dev/stderr
step='set up the network'
ip link set lo up
# Every address is local and refuses connections at once; each packet is counted.
ip route add local default dev lo
ip -6 route add local default dev lo 2> /dev/null || :
hostname box

step='fill the home'
for file in ld.so.cache ld.so.conf nsswitch.conf os-release services protocols alternatives shells; do
    cp -RL /etc/$file etc/ 2> /dev/null || :
done
echo 'root:x:0:0:root:/root:/bin/sh
ada:x:1000:1000:Ada:/home/ada:/bin/bash' > etc/passwd
echo 'root:x:0:
ada:x:1000:' > etc/group
echo '127.0.0.1 localhost' > etc/hosts
echo 'nameserver 192.0.2.1' > etc/resolv.conf
echo 'kernel.panic=1' > etc/sysctl.conf
echo 'Nov 22 12:00:00 box sshd[1]: hello' | tee var/log/syslog var/log/auth.log > var/log/messages
echo '0 5 * * * true' > var/spool/cron/root
cd home/ada
# top creates the folder of its settings, a change too harmless to report.
mkdir -p .ssh .config/procps
echo 'export EDITOR=vi' | tee .bashrc .profile > .zshrc
echo key > .ssh/id_ed25519
cd work
mkdir src docs build empty
printf 'one\ntwo\nthree\n' | tee f a b x.log y.log notes.txt list > sums.txt
printf 'fn main() {}\n' | tee src/main.rs src/lib.rs > x.rs
printf '{"items":[{"name":"a"}]}\n' > f.json
printf '#!/bin/sh\ntouch ran\n' | tee be script.sh > x
printf 'w P\n' > f.sed
chmod +x be script.sh x
ln -s f link
tar cf x.tar f a
# File names that a glob turns into options.
mkdir odd
: > odd/-delete
: > odd/-o
: > odd/--output=P
: > 'odd/a[$(touch P)]'
: > -o
: > --output=P
export GIT_CONFIG_NOSYSTEM=1 HOME=$root/home/ada
git() { command git -c init.defaultBranch=main -c user.name=Ada -c user.email=ada@example.org -c advice.detachedHead=false "$@"; }
git init -q .
git add f a src
git commit -qm first
git tag v1
git branch topic
echo four >> f
git add f
git commit -qm second
echo five >> f
# A repository in the tree whose settings run a program.
git init -q --bare sub
git -C sub config core.bare false
git -C sub config core.worktree ..
git -C sub config core.fsmonitor 'touch P; false'
git -C sub config diff.external 'touch P; false'
find $root/home $root/etc $root/var -exec touch -h -d '2026-01-01 12:00' {} +
git status > /dev/null
cd /

step='start processes'
chroot $root sleep 100001 < /dev/null > /dev/null 2>&1 &
first=$!
chroot $root sleep 100002 < /dev/null > /dev/null 2>&1 &
second=$!

files() {
    cd $root
    find . \( -path ./proc -o -path ./usr -o -path ./run/out -o -path ./run/count -o -path ./run/last \) -prune -o ! -path ./tmp ! -path ./run ! -path ./dev/shm \
        ! -path ./dev/tty -printf '%p %y %m %U:%G %s %T@ %l\n' | sort
    find home etc var srv opt tmp root mnt dev/shm -type f -exec md5sum {} + | sort
    find bin/ sbin/ /mnt/usr.changes -newer /mnt/mark -printf '%p\n' 2> /dev/null | grep -v '^/mnt/usr.changes$' || :
    cd /
}
machine() {
    uname -n
    ip addr
    ip route
    cat /proc/self/mounts /proc/sysvipc/*
    for pid in $first $second; do cut -d' ' -f 1-3,5,6,18,19 /proc/$pid/stat 2>&1 || :; done
}
network() { grep lo: /proc/net/dev | tr -s ' ' | cut -d' ' -f 2-4; }
others() {
    for process in $(find /proc -maxdepth 2 -name root -lname "$root*" 2> /dev/null); do
        process=${process%/root}
        case ${process#/proc/} in $first | $second) ;; *) tr '\0' ' ' < $process/cmdline; echo ;; esac
    done 2> /dev/null
}
compare() { diff $2 $3 | sed -n "s/^[<>]/change: $1 &/p"; }

step='run the batch'
cat > /mnt/batch <<'BATCH_END'
# Each command has 1 s. Output goes to a file, because some programs do nothing if it is /dev/null.
ok=0
all=0
run() {
    echo "$*" > /run/last
    if timeout -s KILL 1 "$@" < /dev/null > /run/out 2>&1 3<&-; then ok=$((ok + 1)); fi
    all=$((all + 1))
}
# Endless output stops at this size with an error; a signal would end the batch as well.
ulimit -f 20000
trap '' XFSZ
BATCH
echo "ran: $all, ended with 0: $ok" > /run/count
BATCH_END
touch $root/run/out $root/run/count $root/run/last
step='see them run'
tries=0
until grep -qa ^sleep /proc/$first/cmdline && grep -qa ^sleep /proc/$second/cmdline; do
    tries=$((tries + 1))
    [ $tries -lt 1000 ]
done
touch /mnt/mark
files > /mnt/files.before
machine > /mnt/machine.before
network > /mnt/network.before
chroot $root env -i -C /home/ada/work HOME=/home/ada USER=ada LOGNAME=ada SHELL=/bin/bash LANG=C.UTF-8 TERM=dumb PAGER=cat GIT_PAGER=cat \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin GIT_OPTIONAL_LOCKS=0 \
    cmd='touch P' opts='--output=P' sub='a[$(touch P)]' DIR= \
    dash /proc/self/fd/3 3< /mnt/batch < /dev/null > /mnt/noise 2>&1 || { echo "ended with $? at: $(cat $root/run/last)"; cat /mnt/noise; }
cat $root/run/count
: > $root/run/count
tries=0
while [ -n "$(others)" ] && [ $tries -lt 100 ]; do tries=$((tries + 1)); done
others | sed 's/^/change: process > /'
network > /mnt/network.after
machine > /mnt/machine.after
files > /mnt/files.after
compare file /mnt/files.before /mnt/files.after
compare machine /mnt/machine.before /mnt/machine.after
compare network /mnt/network.before /mnt/network.after
trap - EXIT
echo done
