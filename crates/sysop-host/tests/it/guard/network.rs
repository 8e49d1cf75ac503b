//! Changes of addresses, routes, links and firewalls.

use sysop_core::guard::GuardEnd;

use super::target::{Setup, Target, all_heal};

/// Prints what the rollback has to restore, without the numbers of interfaces.
const STATE: &str =
    "ip -4 -o addr show; ip route show; ip rule show; ip -br link show | cut -c1-30; nft -s list ruleset";

#[test]
fn lost_addresses_routes_and_links_are_restored() {
    all_heal(
        Setup::of("root"),
        8,
        STATE,
        &[
            "ip addr flush dev eth0",
            "ip addr del 192.0.2.2/24 dev eth0",
            "ip link set eth0 down",
            "ip route add blackhole 192.0.2.1",
            "ip rule add pref 5 to 192.0.2.1 prohibit",
            "ip addr add 192.0.2.9/24 dev eth0; ip addr del 192.0.2.2/24 dev eth0; ip route replace default via 192.0.2.8",
        ],
    );
}

#[test]
fn rules_that_drop_logins_are_removed() {
    all_heal(
        Setup::of("root"),
        8,
        STATE,
        &[
            "iptables -P INPUT DROP",
            "iptables -I INPUT -p tcp --dport 22 -j REJECT --reject-with tcp-reset",
            "iptables -A INPUT -m conntrack --ctstate NEW -j DROP",
            "nft add table inet t; nft 'add chain inet t c { type filter hook input priority 0; policy drop; }'",
            "nft add table inet t; nft 'add chain inet t c { type filter hook output priority 0; policy drop; }'",
        ],
    );
}

#[test]
fn rules_that_were_there_before_are_kept() {
    let Some(target) = Target::start("root") else { return };
    target.inside("iptables -A INPUT -s 198.51.100.7 -j DROP; iptables -N own; iptables -A own -j RETURN");
    let before = target.inside("iptables-save | grep -v '^[#:]'");
    assert!(before.contains("198.51.100.7"), "{before}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let session = target.session(8);
    let outcome = runtime.block_on(session.guarded("iptables -F; iptables -X; iptables -P INPUT DROP"));
    assert!(outcome.output.contains("ROLLED BACK"), "{}", outcome.output);
    assert_eq!(target.inside("iptables-save | grep -v '^[#:]'"), before);
    target.assert_not_locked("iptables");
}

#[test]
fn sets_and_tables_are_restored_along_with_iptables_rules() {
    for change in [
        "ipset add closed 192.0.2.1",
        "nft add table inet t; nft 'add chain inet t c { type filter hook input priority 0; policy drop; }'",
    ] {
        let Some(target) = Target::start("root") else { return };
        // nft cannot read these rules.
        target.inside(
            "ipset create closed hash:ip; iptables -A INPUT -m set --match-set closed src -j DROP; \
             iptables -A INPUT -s 198.51.100.7 -m string --string x --algo bm -j DROP",
        );
        let state =
            "iptables-save | grep ^-; ipset list closed | sed '1,/Members/d'; nft list tables | grep inet";
        let before = target.inside(state);
        assert!(before.contains("--match-set closed"), "{before}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(target.session(8).guarded(change));
        assert!(outcome.output.contains("ROLLED BACK"), "{change}: {}", outcome.output);
        assert_eq!(target.inside(state), before, "{change}");
        target.assert_not_locked(change);
    }
}

#[tokio::test]
async fn harmless_changes_of_the_network_are_confirmed() {
    let Some(target) = Target::start("root") else { return };
    for change in [
        "ip addr add 192.0.2.77/32 dev lo",
        "iptables -A INPUT -s 198.51.100.7 -j DROP",
        "sysctl -q -w net.ipv4.ip_forward=1",
    ] {
        let session = target.session(60);
        let outcome = session.guarded(change).await;
        assert_eq!(session.endings(), [GuardEnd::Confirmed], "{change}: {}", outcome.output);
    }
    assert!(target.inside("ip addr show dev lo").contains("192.0.2.77"));
}
