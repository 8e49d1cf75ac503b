//! Previews of services, packages, processes, disks, accounts and firewalls, compared with what the commands then do on
//! a system that was booted with systemd.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sysop_core::preview;
use sysop_driver::port::{CancellationToken, Host};
use sysop_host::{RemoteSettings, SshConnection, SshHost, SshSettings};

use super::plan;
use crate::booted::BootedSystem;

/// A command, and the part of the state that its preview predicts.
struct Row {
    /// Prepares the system.
    setup: &'static str,
    command: &'static str,
    /// Prints the state, before and after the command.
    state: &'static str,
    /// Text of the preview: `{gone}` and `{new}` are the numbers of lines that are gone and new, `{before}` and
    /// `{after}` the whole state.
    wanted: &'static str,
    /// The preview names each line that is gone.
    names: bool,
}

/// Maximum time until an ended process is gone.
const SEEN_MAX: Duration = Duration::from_secs(10);
const UNITS: &str =
    "systemctl list-units --state=active --plain --no-legend --type=service | cut -d' ' -f1 | grep -v ^user";
const PACKAGES: &str =
    "dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n' | sed -n 's/^installed //p'";
const NAMES: &str = "dpkg-query -W -f '${db:Status-Status} ${Package}\\n' | sed -n 's/^installed //p'";
const SLEEPS: &str = "pgrep -x sleep";

const fn row(setup: &'static str, command: &'static str, state: &'static str, wanted: &'static str) -> Row {
    Row { setup, command, state, wanted, names: false }
}

const ROWS: &[Row] = &[
    Row {
        names: true,
        ..row(
            "cd /etc/systemd/system; printf '[Service]\\nExecStart=/bin/sleep 9999\\n' >base.service; \
         printf '[Unit]\\nRequires=base.service\\nAfter=base.service\\n[Service]\\nExecStart=/bin/sleep 9998\\n' >above.service; \
         systemctl daemon-reload; systemctl start above",
            "systemctl stop base",
            UNITS,
            "stops base",
        )
    },
    row("systemctl start above", "systemctl restart base", UNITS, "restarts base"),
    row("systemctl stop base above", "systemctl stop base", UNITS, "not running"),
    row(
        "systemctl enable cron",
        "systemctl disable cron",
        "systemctl is-enabled cron",
        "disable: cron, now {before}",
    ),
    row("systemctl enable cron", "systemctl enable cron", "systemctl is-enabled cron", "enabled already"),
    Row { names: true, ..row("", "apt-get remove -y cron", NAMES, "removes {gone} package") },
    row("", "apt-get install -y --no-install-recommends cron", NAMES, "installs {new} new package"),
    Row { names: true, ..row("", "apt-get purge -y ufw", NAMES, "removes {gone} package") },
    row("", "apt-get install -y --no-install-recommends ufw", NAMES, "installs {new} new package"),
    row("", "apt-get install -y --no-install-recommends cron", PACKAGES, "changes no packages"),
    row(
        "for i in 1 2 3; do setsid sleep 7777 >/dev/null 2>&1 & done; sleep 0.2",
        "pkill -f 'sleep 7777'",
        SLEEPS,
        "ends {gone} process",
    ),
    row(
        "for i in 1 2; do setsid sleep 6666 >/dev/null 2>&1 & done; sleep 0.2",
        "killall sleep",
        SLEEPS,
        "ends {gone} process",
    ),
    row(
        "setsid sleep 5555 >/dev/null 2>&1 & sleep 0.2",
        "kill $(pgrep -f 'sleep 5555')",
        SLEEPS,
        "effect unknown",
    ),
    row("", "pkill -x nosuchprogram", SLEEPS, "matches no processes"),
    row(
        "head -c 5000 /dev/urandom >/srv/lab/disk",
        "dd if=/dev/zero of=/srv/lab/disk bs=1000 count=2",
        "stat -c %s /srv/lab/disk",
        "overwrites the file /srv/lab/disk, {before} bytes",
    ),
    row(
        "truncate -s 4M /srv/lab/disk",
        "mkfs.ext4 -q -F /srv/lab/disk",
        "stat -c %s /srv/lab/disk",
        "formats the file /srv/lab/disk, {before} bytes",
    ),
    row(
        "mkdir -p /mnt/x; mount -t tmpfs t /mnt/x",
        "umount /mnt/x",
        "grep -c /mnt/x /proc/mounts",
        "unmounts /mnt/x",
    ),
    row(
        "mkdir -p /mnt/x; touch /mnt/x/f",
        "mount -t tmpfs t /mnt/x",
        "ls /mnt/x",
        "hides the current content of /mnt/x",
    ),
    row(
        "umount /mnt/x; useradd -m eve; head -c 3000 /dev/zero >/home/eve/f",
        "userdel -r eve",
        "find /home/eve -type f",
        "removes user eve and home /home/eve: {gone} files",
    ),
    row(
        "useradd -m eve; groupadd ops; gpasswd -a eve ops",
        "gpasswd -d eve ops",
        "id -nG eve",
        "eve leaves group ops; nobody else is in ops",
    ),
    row("gpasswd -a eve ops", "usermod -G '' eve", "id -nG eve", "leaves group ops"),
    row(
        "printf '1 1 * * * a\\n2 2 * * * b\\n' | crontab -",
        "crontab -r",
        "crontab -l",
        "deletes {gone} lines",
    ),
    row(
        "printf '1 1 * * * a\\n2 2 * * * b\\n' | crontab -; printf '1 1 * * * a\\n3 3 * * * c\\n4 4 * * * d\\n' >/srv/lab/tab",
        "crontab /srv/lab/tab",
        "crontab -l",
        "crontab: +{new} −{gone} lines",
    ),
    row(
        "crontab -r",
        "iptables -A INPUT -s 198.51.100.7 -j DROP",
        "iptables -S",
        "there is no such rule now",
    ),
    row("", "iptables -D INPUT -s 198.51.100.7 -j DROP", "iptables -S", "this rule exists already"),
    row(
        // A new network inherits it from this machine.
        "sysctl -w net.ipv4.ip_forward=0",
        "sysctl -w net.ipv4.ip_forward=1",
        "cat /proc/sys/net/ipv4/ip_forward",
        "net.ipv4.ip_forward: {before} → {after}",
    ),
    row(
        "sysctl -w net.ipv4.ip_forward=0; mkdir -p /srv/lab/g; cd /srv/lab/g; rm -rf .git *; git init -q .; git config user.name a; git config user.email a; \
         for i in 1 2 3; do echo $i >f$i; done; git add .; git commit -qm one; echo x >>f1; echo y >f2; touch u1 u2; mkdir d; touch d/u3",
        "git -C /srv/lab/g clean -fd",
        "cd /srv/lab/g; git ls-files --others",
        "{gone} ",
    ),
    row("", "git -C /srv/lab/g reset --hard", "cd /srv/lab/g; git diff --name-only", "{gone} "),
    row(
        "cd /srv/lab/g; git branch extra; git checkout -q extra; echo e >e; git add e; git commit -qm two; git checkout -q master",
        "git -C /srv/lab/g branch -D extra",
        "cd /srv/lab/g; git log --all --format=%h",
        "{gone} commit",
    ),
    row(
        "cd /srv/lab/g; echo s >>f1; git stash -q",
        "git -C /srv/lab/g stash drop",
        "cd /srv/lab/g; git stash list",
        "1 file changed",
    ),
    row(
        "mkdir -p /srv/lab/a /srv/lab/b; cd /srv/lab; rm -rf a/* b/*; touch a/1 a/2 b/3 b/4 b/5",
        "rsync -a --delete /srv/lab/a/ /srv/lab/b/",
        "ls /srv/lab/b",
        "{gone} ",
    ),
];

fn host(system: &BootedSystem, folder: &std::path::Path) -> Arc<SshHost> {
    let mut settings = SshSettings::new("box", folder.join("control"));
    settings.config_file = Some(system.config());
    let connection = SshConnection::new(settings).unwrap();
    Arc::new(SshHost::open(RemoteSettings::new(connection, None, folder.join("artifacts"))).unwrap())
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn previews_of_a_system_are_exact() {
    let Some(system) = BootedSystem::get() else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = host(&system, folder.path());
    system.inside("mkdir -p /srv/lab");
    let mut wrong = Vec::new();
    for Row { setup, command, state, wanted, names } in ROWS {
        system.inside(&format!("{{ :\n{setup}\n}} >/dev/null 2>&1"));
        let before = system.inside(state);
        let Some(plan) = plan(command) else {
            wrong.push(format!("{command}: no preview"));
            continue;
        };
        let began = Instant::now();
        let shown = preview::lines(&plan, &host.probe(&plan, CancellationToken::new()).await).join(" / ");
        let took = began.elapsed();
        assert_eq!(system.inside(state), before, "the probe of {command} changed something");
        let said = system.inside(&format!(
            "cd; DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND; {command}; echo rc $?"
        ));
        let mut after = system.inside(state);
        // A process that was ended is there until its parent has seen it.
        let until = Instant::now() + SEEN_MAX;
        while *state == SLEEPS && wanted.contains("{gone}") && after == before && Instant::now() < until {
            after = system.inside(state);
        }
        let (old, new) = (lines(&before), lines(&after));
        let gone: Vec<&String> = old.difference(&new).collect();
        let text = wanted
            .replace("{gone}", &gone.len().to_string())
            .replace("{new}", &new.difference(&old).count().to_string())
            .replace("{before}", before.trim())
            .replace("{after}", after.trim());
        let unnamed: Vec<&&String> =
            gone.iter().filter(|name| *names && !shown.contains(name.trim_end_matches(".service"))).collect();
        eprintln!("{took:>8.0?}  {command}\n          {shown}");
        if !shown.contains(&text) || !unnamed.is_empty() {
            wrong.push(format!("{command}: {shown:?} instead of {text:?}, unnamed {unnamed:?}\n  {said}"));
        }
    }
    let exact = ROWS.len() - wrong.len();
    eprintln!("{exact} of {} exact", ROWS.len());
    assert!(exact * 100 >= ROWS.len() * 95, "{exact} of {}:\n{}", ROWS.len(), wrong.join("\n"));
}
