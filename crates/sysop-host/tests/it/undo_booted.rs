//! Undo of units, crontabs, the host's name, kernel parameters and rules on a system that was booted with systemd.

use std::fs;

use sysop_core::policy::{CommandContext, Survey};
use sysop_core::undo::plan;

use crate::booted::BootedSystem;

/// A function `row` like the one of the namespace, with the state that only a booted system has.
const BOOTED: &str = r#"t=/srv/lab/undo; rm -rf $t; mkdir -p $t; cp /srv/lab/undo.sh $t/
u() { sh $t/undo.sh $t/records "$@"; }
snap() {
  find /etc/systemd/system /etc/hostname /etc/localtime /etc/timezone /etc/default/locale /etc/locale.conf /etc/ufw -printf '%p %y %m %U:%G %l %T@\n' | sort
  for i in sysoptest cron; do systemctl is-enabled $i; systemctl is-active $i; done
  cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/hostname; crontab -l; nft -s list ruleset; firewall-cmd --list-all-zones
  find /etc/firewalld -type f -exec sha256sum {} + | sort
  find /etc/ufw /etc/default /var/spool/cron -type f -exec sha256sum {} + | grep -v /crontabs/ | sort
}
row() { # NAME SCRIPT ENTRIES...
  name=$1 command=$2; shift 2
  snap >$t/s0; u before ${name}1 8388608 "$@" >/dev/null; sh -c "$command" >$t/out 2>&1; said=$(u after ${name}1); snap >$t/s1
  cmp -s $t/s0 $t/s1 && { echo "$name: the command changed nothing: $(cat $t/out)"; return; }
  u apply ${name}1 ${name}2 8388608 >$t/said; snap >$t/s2
  cmp -s $t/s0 $t/s2 || { echo "$name: not undone: $(cat $t/said; diff $t/s0 $t/s2)"; return; }
  u apply ${name}2 ${name}3 8388608 >$t/said; u apply ${name}3 ${name}4 8388608 >>$t/said; snap >$t/s4
  cmp -s $t/s0 $t/s4 || { echo "$name: not undone again: $(cat $t/said; diff $t/s0 $t/s4)"; return; }
  echo "$name ok $(printf '%s\n' "$said" | sed -n 's/^U.undo.\([a-z]*\).*/\1/p')"
}
printf '[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/sysoptest.service
systemctl daemon-reload; crontab -r 2>/dev/null
exec 2>/dev/null
"#;

/// Commands that prepare the next row are between the rows, without a name.
const ROWS: [(&str, &str, &str); 24] = [
    ("enable", "systemctl enable sysoptest", "exact"),
    ("start", "systemctl start sysoptest", "partly"),
    ("", "systemctl enable --now sysoptest", ""),
    ("stop", "systemctl stop sysoptest", "partly"),
    ("disable", "systemctl disable --now sysoptest", "partly"),
    ("mask", "systemctl mask --now cron", "partly"),
    ("", "systemctl mask cron", ""),
    ("unmask", "systemctl unmask cron", "exact"),
    ("", "systemctl unmask cron; systemctl start cron", ""),
    (
        "dropin",
        "mkdir -p /etc/systemd/system/sysoptest.service.d; \
         printf '[Service]\\nNice=5\\n' >/etc/systemd/system/sysoptest.service.d/x.conf; \
         systemctl daemon-reload; systemctl restart sysoptest",
        "partly",
    ),
    ("cron", "echo '1 2 3 4 5 true' | crontab -", "exact"),
    ("hostname", "hostnamectl set-hostname other", "exact"),
    ("timezone", "timedatectl set-timezone Asia/Tokyo", "exact"),
    ("locale", "localectl set-locale LANG=C", "exact"),
    ("ufw", "ufw allow 2222/tcp; ufw deny from 198.51.100.7", "exact"),
    ("", "sysctl -w net.ipv4.ip_forward=0 >/dev/null", ""),
    ("sysctl", "sysctl -w net.ipv4.ip_forward=1", "exact"),
    ("nft", "nft add table inet x; nft add chain inet x c", "exact"),
    (
        "",
        "ufw --force disable >/dev/null; systemctl start firewalld; until firewall-cmd -q --state; do sleep 0.1; done",
        "",
    ),
    (
        "fwruntime",
        "firewall-cmd --add-port=2222/tcp --add-service=http; firewall-cmd --add-masquerade",
        "exact",
    ),
    // Rules that are not permanent stay, also if the command made firewalld forget them.
    ("", "firewall-cmd --add-port=3333/tcp >/dev/null", ""),
    (
        "fwrule",
        "firewall-cmd --remove-port=3333/tcp; \
         firewall-cmd '--add-rich-rule=rule family=ipv4 source address=198.51.100.7 reject'",
        "exact",
    ),
    ("fwpermanent", "firewall-cmd --permanent --add-port=2224/tcp", "exact"),
    ("fwreload", "firewall-cmd --permanent --add-port=2224/tcp && firewall-cmd --reload", "exact"),
];

#[test]
fn changes_of_a_booted_system_are_undone() {
    let Some(system) = BootedSystem::get() else { return };
    fs::create_dir_all(system.at("/srv/lab")).unwrap();
    fs::write(system.at("/srv/lab/undo.sh"), include_str!("../../src/undo/undo.sh")).unwrap();
    let mut context = CommandContext::bash();
    (context.folder, context.root, context.uid) = (Some("/".to_owned()), Some("/".to_owned()), Some(0));
    let survey = Survey::elsewhere(context);
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let mut script = BOOTED.to_owned();
    for (name, command, _) in ROWS {
        if name.is_empty() {
            script.push_str(&format!("{command}\n"));
            continue;
        }
        let entries = plan(command, &survey).expect("a change").entries;
        let entries: Vec<String> = entries.iter().map(|entry| quoted(entry)).collect();
        script.push_str(&format!("row {name} {} {}\n", quoted(command), entries.join(" ")));
    }
    script.push_str("systemctl stop firewalld; systemctl disable --now sysoptest; rm -r /etc/systemd/system/sysoptest.service* $t\n");
    fs::write(system.at("/srv/lab/rows.sh"), script).unwrap();
    let said = system.inside("sh /srv/lab/rows.sh");
    let rows = ROWS.iter().filter(|(name, ..)| !name.is_empty());
    let wanted: Vec<String> = rows.map(|(name, _, undo)| format!("{name} ok {undo}")).collect();
    let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, wanted);
}
