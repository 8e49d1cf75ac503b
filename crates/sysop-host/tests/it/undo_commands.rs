//! Undo of commands: on this machine through the tools, and of accounts, packages, rules and parameters in a namespace
//! with copies of `/etc`, `/var` and `/home`. The namespace needs root; without it, that test returns at once.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use serde_json::{Value, json};
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{ChangeKind, Outcome, Reversibility, Status};
use sysop_core::policy::{CommandContext, Survey, UndoOffer};
use sysop_core::undo::plan;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_host::{LocalHost, LocalSettings, UndoSettings};
use tempfile::TempDir;

/// Builds the namespace, and a function `row` that runs one change with its undo, the undo of that, and the undo of
/// that again. The function prints `ok` for a state that is as it must be.
const NAMESPACE: &str = r#"set -e; t=$1; mount --make-rprivate /; mkdir "$t/layers"; mount -t tmpfs -o size=64m t "$t/layers"
for d in etc var home; do
  mkdir -p "$t/layers/$d/up" "$t/layers/$d/work"
  mount -t overlay o -o "lowerdir=/$d,upperdir=$t/layers/$d/up,workdir=$t/layers/$d/work" "/$d"
done
ip link set lo up; mount -o remount,rw /proc/sys 2>/dev/null || true
# From the lists of packages, each run of apt would first build its cache, which takes seconds.
mount -t tmpfs l /var/lib/apt/lists; mkdir /var/lib/apt/lists/partial
# A folder of an overlay changes its size when it is first written to.
for d in /etc /etc/systemd /etc/systemd/system /home /var/mail /etc/nftables.d; do [ -d $d ] && { : >$d/.x; rm $d/.x; }; done
set +e
u() { sh "$t/undo.sh" "$t/records" "$@"; }
snap() {
  find /etc /home /var/mail -xdev ! -type d -exec stat -c '%n %f %u %g %s %y' {} + | sort
  find /etc /home -xdev -type d -exec stat -c '%n %f %u %g' {} + | sort
  find /etc /home -xdev -type f -exec sha256sum {} + | sort; find /etc -type l -exec readlink {} +
  nft -s list ruleset; ipset save | sed 's/ timeout [1-9][0-9]*//' | sort; dpkg-query -W -f '${binary:Package} ${Version} ${db:Status-Status}\n' 2>/dev/null | grep -v ' not-installed'
  awk 'BEGIN {RS=""} /Auto-Installed: 1/ {print $2}' /var/lib/apt/extended_states | sort; dpkg-query -W -f '${db:Status-Status} ${Conffiles}\n' sysoptest 2>/dev/null | grep ^installed; cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/ip_local_port_range
}
row() { # NAME SCRIPT ENTRIES...
  name=$1 command=$2; shift 2
  snap >"$t/s0"; u before "${name}1" 8388608 "$@" >/dev/null; sh -c "$command" >"$t/out" 2>&1
  said=$(u after "${name}1"); snap >"$t/s1"
  cmp -s "$t/s0" "$t/s1" && { echo "$name: the command changed nothing: $(cat "$t/out")"; return; }
  u apply "${name}1" "${name}2" 8388608 >"$t/said"; snap >"$t/s2"
  cmp -s "$t/s0" "$t/s2" || { echo "$name: not undone: $(cat "$t/said"; diff "$t/s0" "$t/s2" | head -n 20)"; return; }
  u apply "${name}2" "${name}3" 8388608 >"$t/said"
  u apply "${name}3" "${name}4" 8388608 >>"$t/said"; snap >"$t/s4"
  cmp -s "$t/s0" "$t/s4" || { echo "$name: not undone again: $(cat "$t/said"; diff "$t/s0" "$t/s4" | head -n 20)"; return; }
  echo "$name ok $(printf '%s\n' "$said" | sed -n 's/^U.undo.\([a-z]*\).*/\1/p')"
}
deb() { # VERSION
  rm -rf "$t/p"; mkdir -p "$t/p/DEBIAN" "$t/p/etc/sysoptest"
  printf 'Package: sysoptest\nVersion: %s\nArchitecture: all\nMaintainer: a <a@b.example>\nDescription: x\n' "$1" >"$t/p/DEBIAN/control"
  echo /etc/sysoptest/conf >"$t/p/DEBIAN/conffiles"; echo "version $1" >"$t/p/etc/sysoptest/conf"
  dpkg-deb -b "$t/p" "$t/t$1.deb" >/dev/null; mkdir -p /var/cache/apt/archives; cp "$t/t$1.deb" "/var/cache/apt/archives/sysoptest_$1_all.deb"
}
"#;

struct World {
    home: TempDir,
    host: LocalHost,
}

impl World {
    fn new(bytes_max: u64) -> Self {
        Self::with(bytes_max, "records", |settings| settings)
    }

    /// Creates a world whose records are in a directory of this name, with other settings.
    fn with(bytes_max: u64, records: &str, settings: impl FnOnce(LocalSettings) -> LocalSettings) -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("root");
        fs::create_dir(&root).unwrap();
        let folder = home.path().join(records).to_str().map(str::to_owned);
        let own = settings(LocalSettings {
            allow_delete: true,
            undo: UndoSettings { bytes_max, folder, ..UndoSettings::default() },
            ..LocalSettings::new(&root, home.path().join("artifacts"))
        });
        Self { host: LocalHost::open(own).unwrap(), home }
    }

    /// Creates a world in which all scripts are older than the session.
    fn with_old_scripts() -> Self {
        let start = SystemTime::now() + Duration::from_secs(3600);
        Self::with(1 << 20, "records", |settings| LocalSettings { session_start: start, ..settings })
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.home.path().join("root").join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    async fn run(&self, tool: &str, arguments: Value) -> Outcome {
        self.run_until(CancellationToken::new(), tool, arguments).await
    }

    async fn run_until(&self, stop: CancellationToken, tool: &str, arguments: Value) -> Outcome {
        let Value::Object(arguments) = arguments else { panic!("the arguments are not an object") };
        let call = ToolCall {
            id: CallId::new("c"),
            wire_id: None,
            name: tool.to_owned(),
            arguments: Arguments::Object(arguments),
        };
        self.host.survey(&call).await;
        self.host.run(call, DeltaSink::none(), stop).await
    }

    async fn bash(&self, command: &str) -> Outcome {
        self.run("bash", json!({ "command": command })).await
    }

    fn undo_call(of: &Outcome) -> ToolCall {
        let Value::Object(arguments) = json!({ "step": 1, "call": "c", "records": of.records }) else {
            panic!()
        };
        ToolCall {
            id: CallId::new("u"),
            wire_id: None,
            name: "undo".to_owned(),
            arguments: Arguments::Object(arguments),
        }
    }

    async fn offer(&self, of: &Outcome) -> UndoOffer {
        self.host.survey(&Self::undo_call(of)).await.undo
    }

    async fn undo(&self, of: &Outcome) -> Outcome {
        self.host.run(Self::undo_call(of), DeltaSink::none(), CancellationToken::new()).await
    }

    fn records(&self) -> usize {
        fs::read_dir(self.home.path().join("records")).map_or(0, Iterator::count)
    }
}

#[tokio::test]
async fn a_command_is_undone_after_its_plan_and_the_undo_too() {
    let world = World::new(1 << 20);
    fs::write(world.at("a"), "old\n").unwrap();
    let done = world.bash("echo new >a; mkdir d; echo x >d/x").await;
    assert_eq!(done.undo, Some(Reversibility::Exact), "{done:?}");
    let root = fs::canonicalize(world.at("")).unwrap();
    let changed: Vec<(String, &str)> =
        done.changed.iter().map(|change| (change.name.clone(), change.how.as_str())).collect();
    let path = |name: &str| root.join(name).display().to_string();
    assert_eq!(changed, [(path("a"), "edited"), (path("d") + "/", "created")]);
    let UndoOffer::Offered { lines } = world.offer(&done).await else { panic!("no offer") };
    assert_eq!(lines, [format!("restore {}", path("a")), format!("remove {}/", path("d"))]);
    assert_eq!(world.text("a"), "new\n", "a plan changes nothing");
    let undone = world.undo(&done).await;
    let told = format!("undone: {}, {}/", path("a"), path("d"));
    assert_eq!((undone.status, undone.output.as_str()), (Status::Ok, told.as_str()));
    assert!(world.text("a") == "old\n" && !world.at("d").exists());
    let redone = world.undo(&undone).await;
    assert_eq!(redone.status, Status::Ok, "{redone:?}");
    assert!(world.text("a") == "new\n" && world.text("d/x") == "x\n");
}

#[tokio::test]
async fn a_file_that_was_changed_since_is_named_and_nothing_is_undone() {
    let world = World::new(1 << 20);
    fs::write(world.at("a"), "old\n").unwrap();
    fs::write(world.at("b"), "old\n").unwrap();
    let done = world.bash("echo new | tee a b").await;
    fs::write(world.at("b"), "other\n").unwrap();
    let UndoOffer::Refused { why } = world.offer(&done).await else { panic!("an offer") };
    assert!(why.starts_with("changed since the call: ") && why.contains("/b was edited; nothing"), "{why}");
    let refused = world.undo(&done).await;
    assert_eq!(refused.status, Status::Failed);
    assert_eq!((world.text("a"), world.text("b")), ("new\n".to_owned(), "other\n".to_owned()));
}

#[tokio::test]
async fn a_call_that_only_reads_keeps_nothing() {
    let world = World::new(1 << 20);
    fs::write(world.at("a"), "old\n").unwrap();
    let read = world.bash("cat a; ls -l | sort; find . -name a").await;
    assert_eq!((read.undo, world.records()), (None, 0));
    assert!(read.changed.is_empty() && !read.output.contains("undo"), "{read:?}");
    world.run("read_file", json!({ "path": "a" })).await;
    assert_eq!(world.records(), 0);
    let off = World::new(0);
    assert_eq!((off.bash("echo x >a").await.undo, off.records()), (None, 0), "records are off");
}

#[tokio::test]
async fn a_call_that_is_stopped_while_its_state_is_saved_was_not_started() {
    let world = World::new(1 << 20);
    let records = world.home.path().join("records");
    // What saves the state writes the size of each complete record, so it waits at the second pipe.
    for record in ["a", "b"] {
        fs::create_dir_all(records.join(record)).unwrap();
        fs::write(records.join(record).join("complete"), "").unwrap();
        let pipe = records.join(format!("{record}.kb"));
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    }
    let cancel = CancellationToken::new();
    let (stop, first) = (cancel.clone(), records.join("a.kb"));
    let stopped = std::thread::spawn(move || {
        fs::read(first).unwrap();
        stop.cancel();
    });
    let outcome = world.run_until(cancel, "bash", json!({ "command": "echo new >a" })).await;
    stopped.join().unwrap();
    assert_eq!(
        (outcome.status, outcome.output.as_str(), outcome.undo),
        (Status::Cancelled, "not started: stopped while saving files for undo", None)
    );
    assert!(!world.at("a").exists());
}

#[tokio::test]
async fn content_over_the_limit_is_reported_in_the_outcome() {
    let world = World::new(1000);
    fs::write(world.at("big"), vec![b'x'; 5000]).unwrap();
    let done = world.bash("rm big").await;
    assert_eq!(done.status, Status::Ok);
    assert_eq!(done.undo, Some(Reversibility::None));
    assert!(
        done.output.contains("[no undo: ") && done.output.contains("its content is not saved]"),
        "{done:?}"
    );
    assert!(done.records.is_empty());
}

#[tokio::test]
async fn a_deleted_file_is_restored_with_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new(1 << 20);
    fs::write(world.at("a"), "old\n").unwrap();
    fs::set_permissions(world.at("a"), fs::Permissions::from_mode(0o4710)).unwrap();
    let done = world.run("delete_file", json!({ "path": "a" })).await;
    assert!(!world.at("a").exists(), "{done:?}");
    assert_eq!(world.undo(&done).await.status, Status::Ok);
    assert_eq!(fs::metadata(world.at("a")).unwrap().permissions().mode() & 0o7777, 0o4710);
}

#[tokio::test]
async fn file_tools_say_what_they_changed() {
    let world = World::new(1 << 20);
    let done = world.run("write_file", json!({ "path": "n", "content": "x" })).await;
    let changed: Vec<_> =
        done.changed.iter().map(|it| (it.kind, it.name.as_str(), it.how.as_str())).collect();
    assert_eq!(changed, [(ChangeKind::File, "n", "created")]);
    assert_eq!((done.undo, world.records()), (Some(Reversibility::Exact), 0));
}

#[tokio::test]
async fn an_edit_that_matches_nothing_is_a_rewrite() {
    let world = World::new(1 << 20);
    fs::write(world.at("a"), "port = 80\n").unwrap();
    let done = world.run("bash", json!({ "command": "sed -i s/90/91/ a" })).await;
    assert!(done.changed.len() == 1 && done.changed[0].is_rewrite(), "{done:?}");
    assert_eq!(done.undo, Some(Reversibility::Exact));
    let done = world.run("bash", json!({ "command": "sed -i s/80/81/ a" })).await;
    assert!(done.changed.len() == 1 && !done.changed[0].is_rewrite(), "{done:?}");
}

#[tokio::test]
async fn files_that_are_empty_after_a_command_are_reported_as_such() {
    let world = World::new(1 << 20);
    for name in ["cut", "blanks", "same"] {
        fs::write(world.at(name), "old\n").unwrap();
    }
    let command = ": >cut; printf ' \\n\\t\\n' >blanks; touch same; grep x same >new; echo >line; echo x >full; \
        head -c 70 /dev/zero | tr '\\0' ' ' >long; mkdir d; ln -s nothing link; true";
    let done = world.bash(command).await;
    let root = fs::canonicalize(world.at("")).unwrap();
    let mut changed: Vec<(&str, &str)> = done
        .changed
        .iter()
        .map(|change| {
            (Path::new(&change.name).strip_prefix(&root).unwrap().to_str().unwrap(), change.how.as_str())
        })
        .collect();
    changed.sort_unstable();
    let expected = [
        ("blanks", "emptied"),
        ("cut", "emptied"),
        ("d", "created"),
        ("full", "created"),
        ("line", "created empty"),
        ("link", "created"),
        ("long", "created"),
        ("new", "created empty"),
        ("same", "touched"),
    ];
    assert_eq!(changed, expected);
    assert_eq!(world.undo(&done).await.status, Status::Ok);
    assert!(world.text("cut") == "old\n" && world.text("blanks") == "old\n" && !world.at("new").exists());
}

#[tokio::test]
async fn a_swap_file_of_vim_is_not_a_change_of_the_command() {
    let world = World::new(1 << 20);
    let done = world.bash("perl -e 'for (qw(.note.swp .swap note)) { open F, \">$_\"; print F 1 }'").await;
    assert!(world.at(".note.swp").exists(), "{done:?}");
    let mut changed: Vec<&str> =
        done.changed.iter().filter_map(|change| change.name.rsplit('/').next()).collect();
    changed.sort_unstable();
    assert_eq!(changed, [".swap", "note"], "{done:?}");
}

#[tokio::test]
async fn effects_outside_of_the_watched_paths_are_never_exact() {
    let world = World::new(1 << 20);
    let done = world.bash("tar -cf made --files-from /dev/null").await;
    assert_eq!(done.undo, Some(Reversibility::Partly), "{done:?}");
    assert!(done.changed.iter().any(|change| change.name.ends_with("/made")), "{done:?}");
    assert_eq!(world.undo(&done).await.status, Status::Ok);
    assert!(!world.at("made").exists());
}

#[tokio::test]
async fn what_sysop_itself_writes_is_not_a_change_of_the_command() {
    // The records are below the directory of the command, as in a home directory.
    let world = World::with(1 << 20, "root/.data/undo", |settings| settings);
    let done = world.bash("make -v").await;
    assert_eq!((done.status, done.undo), (Status::Ok, Some(Reversibility::None)), "{done:?}");
    assert!(done.changed.is_empty() && done.records.is_empty(), "{done:?}");
    let made = world.bash("tar -cf made --files-from /dev/null").await;
    assert_eq!((made.changed.len(), made.undo), (1, Some(Reversibility::Partly)), "{made:?}");
    world.bash("make -v").await;
    assert_eq!(world.undo(&made).await.status, Status::Ok);
    assert!(!world.at("made").exists());
}

#[tokio::test]
async fn what_a_script_changes_is_recorded_for_each_way_to_run_it() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let world = World::with_old_scripts();
    let put = |name: &str, text: &str| fs::write(world.at(name), text).unwrap();
    fs::create_dir(world.at("sub")).unwrap();
    put("mk.sh", "echo hello >out.txt\nrm -f gone\necho 2 >link\nsh sub/inner.sh\n");
    put("sub/inner.sh", "mkdir inner\n");
    fs::set_permissions(world.at("mk.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("linked", world.at("link")).unwrap();
    let state = || {
        let names = fs::read_dir(world.at("")).unwrap().map(|entry| entry.unwrap().file_name());
        let names: std::collections::BTreeSet<_> = names.collect();
        (names, world.text("linked"), world.text("gone"))
    };
    put("gone", "gone\n");
    put("linked", "1\n");
    let before = state();
    for command in ["sh mk.sh", "bash ./mk.sh", "sh -e mk.sh", "./mk.sh", "cd sub && cd .. && sh mk.sh"] {
        let done = world.bash(command).await;
        assert_eq!((done.status, done.undo), (Status::Ok, Some(Reversibility::Exact)), "{command}: {done:?}");
        let has = |name: &str, how: &str| {
            done.changed.iter().any(|change| change.name.ends_with(name) && change.how == how)
        };
        assert!(has("/out.txt", "created") && has("/gone", "removed"), "{command}: {done:?}");
        assert!(has("/inner/", "created") && has("/linked", "edited"), "{command}: {done:?}");
        let undone = world.undo(&done).await;
        assert_eq!(undone.status, Status::Ok, "{command}: {undone:?}");
        assert_eq!(state(), before, "{command}");
    }
}

#[tokio::test]
async fn new_files_of_a_script_that_is_only_partly_understood_are_recorded() {
    let world = World::with_old_scripts();
    let put = |name: &str, text: &str| fs::write(world.at(name), text).unwrap();
    put("args.sh", "echo hello >\"$1\"\n");
    put("function.sh", "make() { echo hello >made; }\nmake\n");
    put("odd.sh", "echo hello >made; case x in x) ;; esac; coproc x { :; }\n");
    put("empty.sh", "ls\n");
    for command in ["sh args.sh made", "sh function.sh", "bash odd.sh"] {
        let done = world.bash(command).await;
        assert_eq!(done.undo, Some(Reversibility::Partly), "{command}: {done:?}");
        let changed: Vec<&str> = done.changed.iter().map(|change| change.name.as_str()).collect();
        assert!(changed.len() == 1 && changed[0].ends_with("/made"), "{command}: {done:?}");
        assert_eq!(world.undo(&done).await.status, Status::Ok, "{command}");
        assert!(!world.at("made").exists(), "{command}");
    }
    let (done, records) = (world.bash("sh empty.sh").await, world.records());
    assert_eq!((done.undo, world.bash("sh empty.sh").await.undo), (None, None), "{done:?}");
    assert_eq!(world.records(), records, "a script that only reads starts no record");
}

/// Sets that rules use, and a table that is not of iptables. All chains exist, as after each `iptables-restore`.
const SETS: &str = "nft flush ruleset; nft add table inet own; nft add chain inet own c
for c in INPUT FORWARD OUTPUT; do iptables -P $c ACCEPT; done
ipset create sysopa hash:ip timeout 86400 counters; ipset add sysopa 192.0.2.1; ipset create sysopl list:set; ipset add sysopl sysopa
for s in sysopa sysopl; do iptables -A INPUT -m set --match-set $s src -j DROP; done
";

/// A repository with two commits, another branch, and files that are changed and new.
const REPOSITORY: &str = "mkdir /etc/sysoprepo; ( cd /etc/sysoprepo; git init -q -b main; git config user.name a; git config user.email a
echo 1 >f; git add f; git commit -qm one; git branch other; echo 2 >g; git add g; git commit -qm more; echo changed >>f; echo new >n )
";

/// Changes of the system, each with the undo that the script must promise.
const ROWS: [(&str, &str, &str); 24] = [
    ("useradd", "useradd -m sysopbob", "exact"),
    ("usermod", "usermod -aG games sysopann; chsh -s /bin/sh sysopann", "exact"),
    ("passwd", "passwd -l sysopann; chage -M 33 sysopann", "exact"),
    ("group", "groupadd sysopdev; gpasswd -a sysopann sysopdev", "exact"),
    ("userdel", "userdel -r sysopann", "exact"),
    (
        "sysctl",
        "sysctl -w net.ipv4.ip_forward=1; sysctl -w net.ipv4.ip_local_port_range='20000 30000'",
        "exact",
    ),
    ("nft", "nft add table inet t; nft add chain inet t c", "exact"),
    ("nftflush", "nft flush ruleset", "exact"),
    ("iptables", "iptables -A INPUT -p tcp --dport 23 -j DROP; ip6tables -P FORWARD DROP", "exact"),
    (
        "ipset",
        "ipset flush sysopa; ipset add sysopa 192.0.2.9; ipset create sysopn hash:ip; \
         iptables -A INPUT -m set --match-set sysopn src -j DROP",
        "exact",
    ),
    (
        "ipsetkind",
        "iptables -F INPUT; ipset destroy sysopl; ipset destroy sysopa; ipset create sysopa hash:net; \
         ipset add sysopa 192.0.2.0/24; iptables -A INPUT -m set --match-set sysopa src -j DROP",
        "exact",
    ),
    ("xtables", "nft flush ruleset", "exact"),
    ("unit", "systemctl mask sysoptest.service", "exact"),
    ("gitcommit", "git -C /etc/sysoprepo commit -qam two; git -C /etc/sysoprepo tag done", "exact"),
    ("gitreset", "git -C /etc/sysoprepo reset -q --hard HEAD~1; git -C /etc/sysoprepo clean -fdq", "exact"),
    (
        "gitbranch",
        "git -C /etc/sysoprepo checkout -q other; git -C /etc/sysoprepo branch -D -q main",
        "exact",
    ),
    ("install", "dpkg -i @T@/t1.0.deb", "partly"),
    ("upgrade", "dpkg -i --force-confnew @T@/t2.0.deb", "partly"),
    // It stops at the question about the config file, which nobody answers.
    ("upgradeasks", "dpkg -i @T@/t2.0.deb </dev/null", "partly"),
    ("upgradekeeps", "dpkg -i --force-confold @T@/t2.0.deb", "partly"),
    ("purge", "dpkg -P sysoptest", "partly"),
    ("unpacked", "dpkg -i @T@/t2.0.deb", "partly"),
    ("configurekeeps", "dpkg --configure --force-confold sysoptest", "partly"),
    ("configureasks", "dpkg --configure sysoptest </dev/null", "partly"),
];

#[test]
fn each_change_of_the_system_is_undone_in_a_namespace() {
    if !rustix::process::geteuid().is_root() {
        crate::world::not_tested("undo in a namespace", "only root may make one");
        return;
    }
    let (said, errors) = in_namespace(namespace_script);
    let wanted: Vec<String> = ROWS.iter().map(|(name, _, undo)| format!("{name} ok {undo}")).collect();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines, wanted, "{errors}");
}

/// Runs a script for a folder in a namespace of its own, and returns what it prints.
fn in_namespace(script: impl Fn(&Path) -> String) -> (String, String) {
    let home = tempfile::tempdir().unwrap();
    // These tests are about what is undone, also on a machine that lists slowly.
    let undo = include_str!("../../src/undo/undo.sh").replace("LIST_MAX=8\n", "LIST_MAX=600\n");
    assert!(undo.contains("LIST_MAX=600"));
    fs::write(home.path().join("undo.sh"), undo).unwrap();
    let output = Command::new("unshare")
        .args(["-m", "-n", "--propagation", "private", "sh", "-c", &script(home.path()), "sh"])
        .arg(home.path())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Returns the command and its entries as words of a script.
fn planned(command: &str) -> String {
    let mut context = CommandContext::bash();
    context.folder = Some("/".to_owned());
    context.root = context.folder.clone();
    context.home = Some("/nowhere".to_owned());
    context.uid = Some(0);
    let survey = Survey::elsewhere(context);
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let entries = plan(command, &survey).expect("a change").entries;
    let words = std::iter::once(command).chain(entries.iter().map(String::as_str));
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// A user, and two versions of a package.
const USER_AND_PACKAGES: &str =
    "useradd -m sysopann; echo hi >/home/sysopann/x; chown sysopann /home/sysopann/x; deb 1.0; deb 2.0\n";

/// Returns the script of the namespace with its rows, whose entries are planned from the commands.
fn namespace_script(home: &Path) -> String {
    let mut script = NAMESPACE.to_owned() + USER_AND_PACKAGES;
    for (name, command, _) in ROWS {
        let command = command.replace("@T@", &home.display().to_string());
        if name == "upgrade" {
            script.push_str("dpkg -i \"$t/t1.0.deb\" >/dev/null 2>&1; echo mine >>/etc/sysoptest/conf\n");
        }
        if name == "unpacked" {
            script.push_str("dpkg -P sysoptest >/dev/null; dpkg --unpack \"$t/t1.0.deb\" >/dev/null\n");
        }
        if name == "configurekeeps" {
            script.push_str(
                "dpkg -P sysoptest >/dev/null; dpkg -i \"$t/t1.0.deb\" >/dev/null; echo mine >>/etc/sysoptest/conf\n\
                 dpkg --unpack \"$t/t2.0.deb\" >/dev/null\n",
            );
        }
        if name == "gitcommit" {
            script.push_str(REPOSITORY);
        }
        if name == "nftflush" {
            script.push_str("nft add table ip kept; nft add chain ip kept c\n");
        }
        if name == "iptables" {
            script.push_str("nft flush ruleset\n");
        }
        if name == "ipset" {
            script.push_str(SETS);
        }
        script.push_str(&format!("row {name} {}\n", planned(&command)));
    }
    script
}

/// Changes of each kind, for random sequences. Each may also fail or change nothing, depending on what was before.
const CHANGES: [&str; 35] = [
    "date +%N >/etc/sysopa",
    "mkdir -p /etc/sysopd/x; cp /etc/hosts /etc/sysopd/x/; date +%N >/etc/sysopd/y",
    "rm -rf /etc/sysopd /etc/sysopa",
    "mv /etc/sysopa /etc/sysopd",
    "chmod -R 711 /etc/sysopd",
    "chown -R games /etc/sysopd /etc/sysopa",
    "rm -rf /etc/sysopl; ln -s sysopd /etc/sysopl",
    "sed -i 's/[0-9]/x/' /etc/sysopa",
    "truncate -s 0 /etc/sysopd/y",
    "useradd -m sysopbob",
    "usermod -aG games -s /bin/sh sysopann",
    "passwd -l sysopann",
    "chage -M 33 sysopann",
    "groupadd sysopdev",
    "gpasswd -a sysopann sysopdev",
    "userdel -r sysopann",
    "userdel sysopbob",
    "sysctl -w net.ipv4.ip_forward=1",
    "sysctl -w net.ipv4.ip_forward=0 net.ipv4.ip_local_port_range='20000 30000'",
    "nft add table inet t; nft add chain inet t c",
    "nft flush ruleset",
    "iptables -A INPUT -p tcp --dport 23 -j DROP",
    "ip6tables -P FORWARD DROP",
    "ipset create sysopn hash:ip; ipset add sysopn 192.0.2.7",
    "iptables -A INPUT -m set --match-set sysopn src -j DROP",
    "ipset flush sysopn",
    "systemctl mask sysoptest.service",
    "systemctl unmask sysoptest.service",
    "git -C /etc/sysoprepo commit -qam two",
    "git -C /etc/sysoprepo reset -q --hard HEAD~1; git -C /etc/sysoprepo clean -fdq",
    "git -C /etc/sysoprepo checkout -q other; date +%N >/etc/sysoprepo/f",
    "dpkg -i --force-confnew @T@/t1.0.deb",
    "dpkg -i --force-confold @T@/t2.0.deb",
    "dpkg -r sysoptest",
    "dpkg -P sysoptest",
];

/// Functions for a sequence: `step` makes a change, `back` undoes it and compares.
const SEQUENCE: &str = r#"
step() { # NUMBER COMMAND ENTRIES...
  n=$1 command=$2; shift 2; snap >"$t/s$n"; u before "p$n" 8388608 "$@" >/dev/null; sh -c "$command" >"$t/out" 2>&1; u after "p$n" >"$t/said$n"
}
back() { # NUMBER
  grep -q "undo.\(exact\|partly\)" "$t/said$1" && u apply "p$1" "b$1" 8388608 >"$t/said"
  snap >"$t/now"; cmp -s "$t/s$1" "$t/now" && { echo "ok"; return; }
  echo "step $1 is not undone: $(cat "$t/said$1" "$t/said"; diff "$t/s$1" "$t/now" | head -n 20)"; exit 1
}
"#;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, max_shrink_iters: 12, ..ProptestConfig::default() })]

    /// The steps are undone from the last to the first; after each, everything is as before that step. A failure prints
    /// the numbers of the changes, and the seed is kept beside this file.
    #[test]
    fn random_sequences_of_all_kinds_of_changes_are_undone_in_a_namespace(
        steps in prop::collection::vec(0..CHANGES.len(), 1..=10)
    ) {
        if !rustix::process::geteuid().is_root() {
            crate::world::not_tested("random undo in a namespace", "only root may make one");
            return Ok(());
        }
        let (said, errors) = in_namespace(|home| {
            let mut script = NAMESPACE.to_owned() + USER_AND_PACKAGES + REPOSITORY + SEQUENCE;
            for (number, change) in steps.iter().enumerate() {
                let command = CHANGES[*change].replace("@T@", &home.display().to_string());
                script.push_str(&format!("step {number} {}\n", planned(&command)));
            }
            (0..steps.len()).rev().for_each(|number| script.push_str(&format!("back {number}\n")));
            script
        });
        let commands: Vec<&str> = steps.iter().map(|change| CHANGES[*change]).collect();
        prop_assert_eq!(&said, &"ok\n".repeat(steps.len()), "{:#?}: {}", commands, errors);
    }
}
