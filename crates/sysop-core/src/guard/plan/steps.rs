//! Shell code of a plan: recording before the change, rollback, checks. Each step tolerates missing programs.

use std::collections::BTreeSet;

use super::{Area, UNITS};

const CAPTURE_UNITS: &str = r#"if [ -d /run/systemd/system ]; then
  set -- UNITS
  systemctl is-active "$@" | while read -r s; do case $s in active|reloading) echo "$1" ;; esac; shift; done >units
fi"#;
const RELOAD_UNITS: &str = "if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi";
const HOOK_UNITS: &str = r#"if [ -s units ] && [ -d /run/systemd/system ]; then
  set --; while read -r u; do set -- "$@" "$u"; done <units
  systemctl is-active "$@" | { b=; while read -r s; do
    case $s in active|reloading) ;; *) systemctl reset-failed "$1"; systemctl start "$1" || b=1 ;; esac; shift
  done; [ -z "$b" ]; } || bad=1
fi"#;

/// Restarts the ssh server. Without systemd and OpenRC, reloads the server that its pid file names, or starts a server.
const HOOK_SSHD: &str = r#"if [ -d /run/systemd/system ]; then
  r=
  for u in ssh sshd dropbear; do
    [ "$(systemctl show -p LoadState --value $u.service 2>/dev/null)" = loaded ] || continue
    if grep -qsx -e ssh.socket -e sshd.socket units; then r=1; continue; fi
    systemctl reset-failed $u 2>/dev/null; systemctl restart $u && r=1 && break
  done
  for u in ssh.socket sshd.socket; do grep -qsx $u units && { systemctl restart $u || r=; }; done
  [ -n "$r" ] || bad=1
elif [ -d /run/openrc ] && command -v rc-service >/dev/null; then rc-service sshd restart || bad=1
else
  mkdir -p /run/sshd
  p=$(cat /run/sshd.pid 2>/dev/null)
  case $(cat "/proc/${p:-x}/comm" 2>/dev/null) in
  sshd*) kill -HUP "$p" || bad=1 ;;
  *) s=$(command -v sshd) && "$s" || bad=1 ;;
  esac
fi"#;

const CAPTURE_FIREWALL: &str = r#"k=
if command -v nft >/dev/null && nft -s list ruleset >nft 2>/dev/null; then k=1; else rm -f nft; fi
for t in iptables ip6tables iptables-legacy ip6tables-legacy; do
  command -v $t-save >/dev/null || continue
  if $t-save >$t 2>/dev/null; then k=1; else rm -f $t; fi
done
if command -v ipset >/dev/null; then ipset save >ipset 2>/dev/null || rm -f ipset; fi
if command -v firewall-cmd >/dev/null && firewall-cmd -q --state 2>/dev/null; then echo 1 >firewalld; fi
[ -n "$k" ]"#;
/// Restores the saved firewall with `nft`, `ipset` and `iptables`, in this order. `nft` cannot always parse rules that
/// iptables wrote into nft tables, and one such rule would make the whole load fail. Tables with such rules are
/// therefore excluded from the nft load and restored by iptables. An ipset that is in use cannot be deleted, so its
/// content is swapped with that of a new set. Tables of `iptables` that did not exist when the state was saved are
/// emptied. firewalld would not notice that its rules of panic mode are gone, so it ends that mode itself.
const HOOK_FIREWALL: &str = r##"w=
if [ -f firewalld ] && firewall-cmd -q --query-panic; then firewall-cmd -q --panic-off; fi
if [ -f nft ]; then
  nft -s list ruleset | awk '
    /^table / {t=$2 " " $3; b=""; if (!f) all[++n]=t} f {b=b $0 "\n"} {x=$0; gsub(/"[^"]*"/,"",x)}
    x ~ /^\tflags .*owner/ || f && x ~ /^\t\t(.* )?(xt|#) / {left[t]} /^}/ && f && !(t in left) {o=o b}
    END {for (i=1; i<=n; i++) if (!(all[i] in left)) print "delete table", all[i]; printf "%s", o}' f=0 - f=1 nft >now ||
    { echo 'flush ruleset'; cat nft; } >now
  nft -f now && w=1
fi
if [ -s ipset ]; then
  ipset save | awk '!f {if ($1=="create") there[$2]; next} {x=$0} $1=="create" && ($2 in there) {put[$2]="sysop-" ++n; old[n]=$2}
    $2 in put {x=$1 " " put[$2] substr($0, length($1 $2)+2)}
    {print x >($1=="create" ? "sets" : "members")}
    END {for (i=1; i<=n; i++) print "swap sysop-" i, old[i] "\ndestroy sysop-" i >"swaps"}' f=0 - f=1 ipset
  touch sets members swaps; cat sets members swaps | ipset -exist restore || bad=1
fi
for t in iptables ip6tables iptables-legacy ip6tables-legacy; do
  [ -f $t ] || continue
  $t-save 2>/dev/null | grep -v '^#' >now; grep -v '^#' $t >then
  [ -n "$w" ] && [ $t = iptables -o $t = ip6tables ] && cmp -s now then && continue
  awk '!f {was[$0]; next} /^[*]/ {new=!($0 in was)} new && (/^[*]/ || /^COMMIT/) {print} new && /^:/ && $2!="-" {print $1, "ACCEPT [0:0]"}' \
    f=0 then f=1 now >more
  cat $t more | $t-restore && w=1
done
if [ -f firewalld ]; then firewall-cmd -q --reload && w=1; fi
[ -n "$w" ] || bad=1"##;

const CAPTURE_NETWORK: &str = r#"ip -o addr show >addr && ip route show >route && ip -o link show up >links || exit 1
ip -6 route show >route6 2>/dev/null; ip rule show >rule 2>/dev/null
for f in /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/icmp_echo_ignore_all /proc/sys/net/ipv4/conf/*/* \
  /proc/sys/net/ipv6/conf/*/*; do
  { IFS= read -r v <$f; } 2>/dev/null && echo $f $v
done >sysctl
if command -v nmcli >/dev/null; then nmcli -t -f UUID connection show --active >nm 2>/dev/null; fi
cat /proc/sys/kernel/hostname >host; true"#;
/// Restores kernel settings, the host name and the state of the network services, then links, addresses, routes and
/// routing rules. The order matters: addresses need links, and routes need addresses.
const HOOK_NETWORK: &str = r#"while read -r f v; do
  { IFS= read -r n <$f; } 2>/dev/null || continue; [ "$n" = "$v" ] || echo "$v" >$f
done <sysctl 2>/dev/null
read -r n </proc/sys/kernel/hostname; [ "$n" = "$(cat host)" ] || cat host >/proc/sys/kernel/hostname
if command -v netplan >/dev/null && [ -d /etc/netplan ]; then netplan apply; fi
if command -v networkctl >/dev/null && systemctl -q is-active systemd-networkd 2>/dev/null; then networkctl reload; fi
if command -v nmcli >/dev/null && systemctl -q is-active NetworkManager 2>/dev/null; then
  nmcli connection reload
  while read -r u; do nmcli -w 5 connection up uuid "$u" >/dev/null 2>&1 </dev/null; done <nm
fi
while read -r _ l _; do l=${l%:}; ip link set dev "${l%%@*}" up || bad=1; done <links
line() { read -r _ d _ a r <<E
$1
E
  r=" ${r%%\\*}" o=; b=; p=
  case $r in *' peer '*) p=${r#* peer }; p="peer ${p%% *}" ;; esac
  case $r in *' brd '*) b=${r#* brd }; b="brd ${b%% *}" ;; esac
  case $r in *' scope '*) o=${r#* scope }; o="scope ${o%% *}" ;; esac
  case $r in *' noprefixroute '*) o="$o noprefixroute" ;; esac
  l=${r% }; l=${l##* }; case $l in "$d":*) o="$o label $l" ;; esac; }
ip -o addr show >now
while IFS= read -r x; do line "$x"; grep -qF " $d " addr && ! grep -F " $d " addr | grep -qF " $a " && ip addr del $a $p dev $d; done <now
while IFS= read -r x; do line "$x"; grep -F " $d " now | grep -qF " $a " || ip addr replace $a $p $b dev $d $o || bad=1; done <addr
for v in '' 6; do [ -s route$v ] || continue; o=${v:+-6}
  ip $o route show >now
  while IFS= read -r x; do grep -qxF "$x" route$v || ip $o route del $x; done <now
  for i in 1 2; do
    ip $o route show >now; e=
    while IFS= read -r x; do grep -qxF "$x" now || ip $o route add ${x% linkdown*} || e=1; done <route$v
  done
  [ -z "$e" ] || bad=1
done 2>/dev/null
ip rule show >now 2>/dev/null
while IFS= read -r x; do grep -qxF "$x" rule || ip rule del pref ${x%%:*}; done <now
while IFS= read -r x; do grep -qxF "$x" now || ip rule add pref ${x%%:*} ${x#*:} || bad=1; done <rule"#;

/// Areas whose services are started again if they ran before the change.
const WITH_UNITS: [Area; 4] = [Area::Sshd, Area::Login, Area::Firewall, Area::Network];

/// Returns the shell code that records state before the change. Each step runs in a subshell, so that a successful
/// `exit` ends only that step. A step that fails ends the capture.
pub(super) fn capture(areas: &BTreeSet<Area>) -> String {
    let mut steps: Vec<String> = Vec::new();
    if areas.iter().any(|area| WITH_UNITS.contains(area)) {
        // The hook of the ssh server starts its services.
        let units = UNITS.iter().flat_map(|(_, names)| *names).filter(|name| !["ssh", "sshd"].contains(name));
        steps.push(CAPTURE_UNITS.replace("UNITS", &units.copied().collect::<Vec<_>>().join(" ")));
    }
    for area in areas {
        match area {
            Area::Firewall => steps.push(CAPTURE_FIREWALL.to_owned()),
            Area::Network => steps.push(CAPTURE_NETWORK.to_owned()),
            Area::Sshd | Area::Keys | Area::Sudo | Area::Login | Area::Accounts | Area::Names => {}
        }
    }
    steps.iter().map(|step| format!("(\n{step}\n) || exit 1\n")).collect()
}

/// Returns the shell code that runs after the files are restored. It restores the network first, so that the restarted
/// services find it.
pub(super) fn hook(areas: &BTreeSet<Area>) -> String {
    let mut steps = vec!["bad=0"];
    let has_units = areas.iter().any(|area| WITH_UNITS.contains(area));
    if has_units {
        steps.push(RELOAD_UNITS);
    }
    if areas.contains(&Area::Network) {
        steps.push(HOOK_NETWORK);
    }
    if areas.contains(&Area::Firewall) {
        steps.push(HOOK_FIREWALL);
    }
    if has_units {
        steps.push(HOOK_UNITS);
    }
    if areas.contains(&Area::Sshd) {
        steps.push(HOOK_SSHD);
    }
    if areas.contains(&Area::Login) {
        steps.push(
            "if [ -d /run/systemd/system ] && grep -qsx sssd units; then systemctl restart sssd || bad=1; fi",
        );
    }
    steps.push("exit $bad");
    steps.join("\n")
}

/// Returns the commands that must not fail after the change if they succeeded before. Each is one line.
pub(super) fn checks(areas: &BTreeSet<Area>, user: Option<&str>) -> Vec<String> {
    let mut checks = Vec::new();
    if areas.contains(&Area::Sshd) {
        checks.push("sshd -t".to_owned());
    }
    if areas.iter().any(|area| matches!(area, Area::Sudo | Area::Accounts | Area::Login)) {
        checks.push("visudo -c -q".to_owned());
    }
    let plain = |user: &&str| {
        !user.is_empty() && user.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    if areas.iter().any(|area| matches!(area, Area::Accounts | Area::Login))
        && let Some(user) = user.filter(plain)
    {
        checks.push(format!("getent passwd -- {user}"));
    }
    checks
}
