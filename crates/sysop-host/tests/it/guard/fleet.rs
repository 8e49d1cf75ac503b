//! Guards on several hosts: the others follow only after the guard of the canary was confirmed.

use std::num::NonZeroUsize;
use std::sync::Arc;

use sysop_core::guard::{GuardEnd, GuardReport, GuardTimeout};
use sysop_core::outcome::Outcome;
use sysop_core::policy::GuardOffer;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_host::{Fleet, FleetSettings};

use super::target::{RELOAD, Recorder, Session, Setup, Target};

const NAMES: [&str; 3] = ["web1", "web2", "web3"];

struct GuardedFleet {
    targets: Vec<Target>,
    fleet: Fleet,
    reports: Arc<Recorder>,
}

impl GuardedFleet {
    fn start() -> Option<Self> {
        let targets: Option<Vec<Target>> =
            NAMES.iter().map(|name| Target::with(Setup { name, ..Setup::of("root") })).collect();
        let targets = targets?;
        let hosts = targets
            .iter()
            .zip(NAMES)
            .map(|(target, name)| (name.to_owned(), Arc::new(target.session(20).host) as Arc<dyn Host>));
        let settings = FleetSettings { canary: NonZeroUsize::new(1), ..FleetSettings::new("/nonexistent") };
        let fleet = Fleet::new(hosts.collect(), settings).unwrap();
        let reports = Arc::new(Recorder::default());
        fleet.set_prompter(Arc::clone(&reports) as Arc<dyn sysop_driver::prompter::Prompter>);
        Some(Self { targets, fleet, reports })
    }

    async fn guarded(&self, command: &str) -> Outcome {
        let call = Session::call(command);
        let GuardOffer::Offered { seconds } = self.fleet.survey(&call).await.guard else {
            panic!("no guard")
        };
        let guard = GuardTimeout { seconds };
        self.fleet.run_guarded(call, guard, DeltaSink::none(), CancellationToken::new()).await
    }

    fn by_host(outcome: &Outcome) -> Vec<String> {
        outcome.hosts.iter().map(|of| format!("{} {}", of.host, of.status.as_str())).collect()
    }

    fn reported(&self) -> Vec<String> {
        let name = |report: &GuardReport| match report {
            GuardReport::Armed { .. } => "armed",
            GuardReport::Ended { how: GuardEnd::Confirmed } => "confirmed",
            GuardReport::Ended { how: GuardEnd::Fired } => "fired",
            GuardReport::Ended { how: GuardEnd::Unknown } => "unknown",
        };
        self.reports.guards.lock().iter().map(|(host, report)| format!("{host} {}", name(report))).collect()
    }

    fn config(&self, host: usize) -> String {
        self.targets[host].text("/etc/ssh/sshd_config")
    }
}

#[tokio::test]
async fn a_canary_that_is_rolled_back_stops_the_fleet() {
    let Some(all) = GuardedFleet::start() else { return };
    let before: Vec<String> = (0..3).map(|host| all.config(host)).collect();
    let outcome = all.guarded(&format!("echo 'AllowUsers nobody' >>/etc/ssh/sshd_config; {RELOAD}")).await;
    assert_eq!(
        GuardedFleet::by_host(&outcome),
        ["web1 failed", "web2 rejected", "web3 rejected"],
        "{}",
        outcome.output
    );
    assert_eq!(all.reported(), ["web1 armed", "web1 fired"]);
    assert!(outcome.output.contains("ROLLED BACK"), "{}", outcome.output);
    for (host, before) in before.iter().enumerate() {
        assert_eq!(all.config(host), *before);
        all.targets[host].assert_not_locked(NAMES[host]);
        assert_eq!(all.targets[host].guards().exists(), host == 0, "the others were not even armed");
    }
}

#[tokio::test]
async fn the_fleet_follows_after_the_canary_was_confirmed() {
    let Some(all) = GuardedFleet::start() else { return };
    let outcome = all.guarded(&format!("echo '# hello' >>/etc/ssh/sshd_config; {RELOAD}")).await;
    assert_eq!(GuardedFleet::by_host(&outcome), ["web1 ok", "web2 ok", "web3 ok"], "{}", outcome.output);
    let reported = all.reported();
    assert_eq!(reported[..2], ["web1 armed", "web1 confirmed"], "{reported:?}");
    assert_eq!(reported.len(), 6, "{reported:?}");
    assert!((0..3).all(|host| all.config(host).ends_with("# hello\n")));
}

#[tokio::test]
async fn each_host_after_the_canary_heals_by_itself() {
    let Some(all) = GuardedFleet::start() else { return };
    for (host, line) in ["# fine", "# fine", "AllowUsers nobody"].into_iter().enumerate() {
        all.targets[host].inside(&format!("echo '{line}' >/etc/ssh/more"));
    }
    let before = all.config(2);
    let outcome = all.guarded(&format!("cat /etc/ssh/more >>/etc/ssh/sshd_config; {RELOAD}")).await;
    assert_eq!(GuardedFleet::by_host(&outcome), ["web1 ok", "web2 ok", "web3 failed"], "{}", outcome.output);
    assert!(all.config(1).ends_with("# fine\n"));
    assert_eq!(all.config(2), before);
    all.targets[2].assert_not_locked("web3");
}
