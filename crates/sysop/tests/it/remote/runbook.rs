//! A session on one host becomes a runbook for others.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{quiet, text, with_hosts};
use crate::World;
use crate::person::{Person, at_a_terminal};
use crate::sshd::{Login, Sshd};
use crate::support::{Mock, bash, call, say};

/// Hosts that ssh reaches, each with a home of its own.
struct Hosts {
    machines: Vec<Sshd>,
    mock: Mock,
    world: World,
}

const NAMES: [&str; 3] = ["one", "two", "three"];
/// Number of steps in the runbook that is made from the session.
const STEPS: usize = 12;

impl Hosts {
    fn with(scenarios: &[(&str, Vec<Value>)]) -> Self {
        let machines: Vec<Sshd> = NAMES.iter().map(|_| quiet(Sshd::start(Login::Own))).collect();
        let mock = Mock::start(scenarios);
        let hosts = NAMES.iter().map(|name| (*name).to_owned()).zip(&machines);
        let world = with_hosts(World::with_openai(&mock.url()), "all", hosts);
        Self { machines, mock, world }
    }

    /// Adds routines to the config.
    fn with_routines(mut self, routines: &str) -> Self {
        let path = ".config/sysop/config.toml";
        let config = fs::read_to_string(self.world.home().join(path)).unwrap();
        self.world = self.world.file(path, &format!("{config}{routines}"));
        self
    }

    fn there(&self, host: usize, name: &str) -> std::path::PathBuf {
        self.machines[host].path("home").join(name)
    }

    fn site(&self, host: usize) -> std::path::PathBuf {
        self.machines[host].path("home/site")
    }

    /// Runs the task on the first host, and makes a runbook of it. Returns the path of the runbook.
    fn recorded(&self) -> String {
        let run = self.world.finish(&["exec", "--host", "one", "--approve", "auto", "set up the site"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let book = text(&self.world.home().join("book.toml"));
        let session = self.world.only_session();
        let run = self.world.finish(&["runbook", "export", &session, "--name", "site", "--output", &book]);
        assert_eq!((run.code, run.out.as_str()), (Some(0), ""), "{run:?}");
        assert!(run.err.contains("note: left out call 3 (`cat missing`): it exited with 1"), "{run:?}");
        assert!(run.err.contains("note: left out 1 read-only command"), "{run:?}");
        book
    }
}

fn write(path: &str, content: &str) -> Value {
    call("write_file", json!({ "path": path, "content": content }))
}

/// Returns the replies of the task: the steps, a failed command, and a command that only reads.
fn the_task() -> Vec<Value> {
    vec![
        bash("mkdir -p site"),
        bash("mkdir site/conf.d"),
        bash("cat missing"),
        bash("mkdir site/logs"),
        write("site/conf.d/base.conf", "listen 80\nname {{end}} it's \"a\"\n"),
        call(
            "edit_file",
            json!({ "path": "site/conf.d/base.conf", "old_string": "listen 80\n", "new_string": "listen 8080\n" }),
        ),
        bash("ls site"),
        bash("ln -s conf.d/base.conf site/current"),
        bash("mkdir 'site/a b'"),
        write("site/-umlaut ü", "grüße\n\n\n"),
        bash("ln -s ../logs 'site/a b/logs'"),
        bash("mkdir -- site/-dash"),
        bash("ln -s logs site/log"),
        bash("chmod 700 site/logs"),
        say("The site is set up."),
    ]
}

/// Paths below a directory with their kind and content, sorted.
fn tree(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if path.is_symlink() {
                found.push(format!("{name} -> {}", fs::read_link(&path).unwrap().display()));
            } else if path.is_dir() {
                found.push(format!("{name}/"));
                folders.push(path);
            } else {
                found.push(format!("{name}: {:?}", fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_recorded_session_is_replayed_stops_at_drift_and_is_undone() {
    let hosts = Hosts::with(&[("set up", the_task())]);
    let book = hosts.recorded();
    let checked = hosts.world.finish(&["runbook", "check", &book]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(checked.out.ends_with(&format!("ok, site ({STEPS} steps)\n")), "{checked:?}");
    let asked = hosts.mock.requests().len();
    let run = |host: &str, more: &[&str]| {
        let line = ["run", "--file", &book, "--host", host, "--approve", "auto", "site"];
        hosts.world.finish(&[&line[..], more].concat())
    };

    let plan = run("two", &["--plan"]);
    assert_eq!(plan.code, Some(0), "{plan:?}");
    assert!(plan.out.contains(&format!("\n{STEPS}. chmod 700 site/logs\n")), "{plan:?}");
    assert!(plan.out.contains(&format!("steps without undo: {STEPS}\n")), "{plan:?}");
    assert!(!hosts.site(1).exists(), "a plan runs nothing");

    let replay = run("two", &[]);
    assert_eq!(replay.code, Some(0), "{replay:?}");
    assert!(replay.err.contains(&format!("── step 1 of {STEPS} (mkdir -p site)")), "{replay:?}");
    assert!(replay.err.contains(&format!("done: {STEPS} steps")), "{replay:?}");
    assert_eq!(tree(&hosts.site(1)), tree(&hosts.site(0)));

    fs::create_dir_all(hosts.site(2).join("a b")).unwrap();
    let drifted = run("three", &[]);
    assert_eq!(drifted.code, Some(1), "{drifted:?}");
    let difference =
        format!("stopped at step 7 of {STEPS} (mkdir 'site/a b') on three: exit code 1, expected 0");
    assert!(drifted.err.contains(&difference), "{drifted:?}");
    let hint = format!("continue with `sysop run --file {book} --host three --approve auto site --from 7`");
    assert!(drifted.err.contains(&hint), "{drifted:?}");
    assert!(drifted.err.contains("  step 6: rm -- site/current\n"), "{drifted:?}");
    assert!(hosts.site(2).join("current").exists() && !hosts.site(2).join("log").exists());

    fs::remove_dir(hosts.site(2).join("a b")).unwrap();
    let resumed = run("three", &["--from", "7"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert_eq!(tree(&hosts.site(2)), tree(&hosts.site(0)));

    let undone = run("three", &["--undo"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    let order: Vec<usize> = (1..STEPS)
        .map(|step| {
            let title = format!("── undo step {step} of ");
            undone.err.find(&title).unwrap_or_else(|| panic!("{title}: {undone:?}"))
        })
        .collect();
    assert!(order.is_sorted_by(|first, later| first > later), "{undone:?}");
    assert!(!hosts.site(2).exists(), "{:?}", tree(&hosts.site(2)));
    assert_eq!(hosts.mock.requests().len(), asked, "no model was called");
}

#[test]
fn the_exported_script_does_the_same_in_each_shell() {
    let hosts = Hosts::with(&[("set up", the_task())]);
    hosts.recorded();
    let session = hosts.world.only_session();
    let script = hosts.world.finish(&["runbook", "export", &session, "--name", "site", "--format", "sh"]);
    assert_eq!(script.code, Some(0), "{script:?}");
    for shell in [&["dash"][..], &["bash"], &["busybox", "sh"]] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book.sh");
        fs::write(&path, &script.out).unwrap();
        let sh = |folder: &Path| {
            let mut command = std::process::Command::new(shell[0]);
            command.args(&shell[1..]).arg(&path).current_dir(folder).output().unwrap()
        };
        let done = sh(folder.path());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{shell:?}: {said}");
        assert!(said.ends_with(&format!("done: {STEPS} steps\n")), "{shell:?}: {said}");
        assert_eq!(tree(&folder.path().join("site")), tree(&hosts.site(0)), "{shell:?}");
        let again = sh(folder.path());
        let said = String::from_utf8_lossy(&again.stderr).into_owned();
        assert_eq!(again.status.code(), Some(1), "{shell:?}: {said}");
        assert!(said.contains(&format!("stopped at step 2 of {STEPS}")), "{shell:?}: {said}");
        let other = tempfile::tempdir().unwrap();
        fs::create_dir_all(other.path().join("site/a b")).unwrap();
        let drifted = String::from_utf8_lossy(&sh(other.path()).stderr).into_owned();
        let undo = "rm -- site/current\n# in site/conf.d/base.conf, replace \"listen 8080\\n\" with \"listen 80\\n\"\n\
                    rm -- 'site/conf.d/base.conf'\nrmdir -- site/logs\n";
        assert!(drifted.contains(undo), "{shell:?}: {drifted}");
    }
}

#[test]
fn a_run_on_several_hosts_names_the_host_that_differs() {
    let hosts = Hosts::with(&[]).with_routines(
        "[[routines.probe.steps]]\nname = 'kind'\ncmd = 'cat kind'\nexpect = { match = '^new$' }\n\
         [[routines.probe.steps]]\ncmd = 'touch done'\n",
    );
    for (machine, kind) in hosts.machines.iter().zip(["new", "old", "new"]) {
        fs::write(machine.path("home/kind"), format!("{kind}\n")).unwrap();
    }
    let line = ["run", "--host", "@all", "--approve", "auto", "probe"];
    let run = hosts.world.finish(&line);
    assert_eq!(run.code, Some(1), "{run:?}");
    let difference =
        "stopped at step 1 of 2 (kind): the output does not match /^new$/; it begins with \"old\"";
    assert!(run.err.contains(difference), "{run:?}");
    let has = |hosts: &Hosts| hosts.machines.iter().filter(|it| it.path("home/done").exists()).count();
    assert_eq!(has(&hosts), 0);
    fs::write(hosts.machines[1].path("home/kind"), "new\n").unwrap();
    let run = hosts.world.finish(&line);
    assert_eq!((run.code, has(&hosts)), (Some(0), 3), "{run:?}");
}

#[test]
fn steps_run_on_the_hosts_that_they_name_and_are_undone_there() {
    let hosts = Hosts::with(&[]).with_routines(
        "[[routines.r.steps]]\nname = 'a'\ncmd = 'mkdir a'\nundo = 'rmdir a'\n\
         [[routines.r.steps]]\nname = 'kind'\nhost = 'two'\ncmd = 'cat kind'\nexpect = { match = 'is (?<kind>.+)' }\n\
         [[routines.r.steps]]\nname = 'both'\nhost = 'two,three'\nunless = 'test -d b'\ncmd = 'mkdir b'\n\
         verify = 'test -d b'\nundo = 'rmdir b'\n\
         [[routines.r.steps]]\nname = 'here'\nhost = 'one'\ncmd = 'touch {{kind}}'\nundo = 'rm {{kind}}'\n",
    );
    fs::write(hosts.there(1, "kind"), "is odd\n").unwrap();
    let run = |more: &[&str]| {
        let line = ["run", "--host", "one", "--approve", "auto", "r"];
        hosts.world.finish(&[&line[..], more].concat())
    };
    let ran = run(&[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for line in ["── step 2 of 4 (kind) on two", "── step 3 of 4 (both) on two,three", "done: 4 steps"]
    {
        assert!(ran.err.contains(line), "{line}: {ran:?}");
    }
    let has = |name: &str| [0, 1, 2].map(|host| hosts.there(host, name).exists());
    assert_eq!(
        (has("a"), has("b"), has("odd")),
        ([true, false, false], [false, true, true], [true, false, false])
    );
    let listed = hosts.world.finish(&["sessions", "list"]);
    assert_eq!(listed.out.matches("two, three").count(), 1, "{listed:?}");

    let unknown = hosts.world.finish(&["run", "--host", "@none", "r"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    fs::remove_file(hosts.there(0, "odd")).unwrap();
    let undone = run(&["--undo", "--from", "3"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert!(undone.err.contains("── undo step 3 of 4 (both) on two,three"), "{undone:?}");
    assert_eq!((has("a"), has("b")), ([false; 3], [false; 3]));
}

#[test]
fn a_program_that_another_host_lacks_stops_the_run_before_the_first_step() {
    let hosts = Hosts::with(&[]).with_routines(
        "[[routines.r.steps]]\ncmd = 'touch made'\n\
         [[routines.r.steps]]\nhost = 'two'\ncmd = 'no-such-program x'\n",
    );
    let ran = hosts.world.finish(&["run", "--host", "one", "--approve", "auto", "r"]);
    assert_eq!((ran.code, hosts.there(0, "made").exists()), (Some(1), false), "{ran:?}");
    assert!(ran.err.contains("nothing ran: two has no no-such-program"), "{ran:?}");
}

#[test]
fn a_plan_shows_the_answers_of_the_hosts_and_changes_nothing() {
    let hosts = Hosts::with(&[]).with_routines(
        "[[routines.r.steps]]\nname = 'clean'\ncmd = 'rm -r old'\nunless = 'test ! -e old'\n\
         [[routines.r.steps]]\nname = 'flag'\nhost = 'two'\ncmd = 'echo new >flag'\nguard = true\n\
         unless = 'grep -q new flag'\ncheck = 'test -f flag'\n\
         [[routines.r.steps]]\nname = 'edit'\ncwd = 'conf'\ncmd = 'sed -i s/8080/80/ a.conf'\n\
         [[routines.r.steps]]\nname = 'gone'\nhost = 'gone'\ncmd = 'touch x'\n\
         [hosts.gone]\nhost = 'gone'\n",
    );
    let ssh = hosts.world.home().join("hosts.ssh");
    let known = fs::read_to_string(&ssh).unwrap();
    fs::write(&ssh, format!("{known}Host gone\n  HostName 127.0.0.1\n  Port 1\n")).unwrap();
    fs::create_dir(hosts.there(0, "old")).unwrap();
    fs::create_dir(hosts.there(0, "conf")).unwrap();
    for (name, text) in [("old/a", "1234567"), ("old/b", "89"), ("conf/a.conf", "listen 8080\n")] {
        fs::write(hosts.there(0, name), text).unwrap();
    }
    fs::write(hosts.there(1, "flag"), "old\n").unwrap();
    let plan = || hosts.world.finish(&["run", "--host", "one", "--plan", "r"]);
    let first = plan();
    assert_eq!(first.code, Some(0), "{first:?}");
    for text in [
        "gone cannot be reached, so effects on it are unknown: gone: connection refused (port 1)",
        "\n1. clean\n   $ rm -r old\n   dangerous: asks\n",
        "2 files",
        "   unless: test ! -e old (now: not done yet; the step would run)\n",
        "\n2. flag on two\n   $ echo new >flag\n   may lock you out: asks\n",
        "   guarded: rolls back by itself after 120 s unless a fresh login works\n",
        "   unless: grep -q new flag (now: not done yet; the step would run)\n",
        "   check: test -f flag (now: passes)\n",
        "+listen 80\n",
        "\n4. gone on gone\n   $ touch x\n",
    ] {
        assert!(first.out.contains(text), "{text:?} is not in\n{}", first.out);
    }
    assert!(
        hosts.there(0, "old/a").exists() && fs::read_to_string(hosts.there(1, "flag")).unwrap() == "old\n"
    );

    fs::remove_dir_all(hosts.there(0, "old")).unwrap();
    fs::remove_file(hosts.there(1, "flag")).unwrap();
    let second = plan();
    for text in [
        "   unless: test ! -e old (now: already done; the step would be skipped)\n",
        "   check: test -f flag (now: fails, exit code 1, expected 0)\n",
    ] {
        assert!(second.out.contains(text), "{text:?} is not in\n{}", second.out);
    }
    let listed = hosts.world.finish(&["sessions", "list"]);
    assert!(listed.out.starts_with("No sessions yet"), "a plan creates no session: {listed:?}");
}

#[test]
fn a_step_with_a_guard_runs_guarded_and_is_rolled_back_if_logins_fail() {
    let hosts = Hosts::with(&[]);
    let keys = text(&hosts.machines[0].path("authorized"));
    let hosts = hosts.with_routines(&format!(
        "[[routines.good.steps]]\nname = 'flag'\ncmd = 'echo new >flag'\nguard = true\n\
         [[routines.bad.steps]]\nname = 'flag'\ncmd = 'echo bad >flag; echo none >{keys}'\nguard = true\n"
    ));
    let line = |routine| ["run", "--host", "one", "--approve", "auto", routine];
    let headless = hosts.world.finish(&line("good"));
    assert_eq!((headless.code, hosts.there(0, "flag").exists()), (Some(3), false), "{headless:?}");
    assert!(headless.err.contains("guarded: rolls back by itself after 120 s"), "{headless:?}");
    for (routine, code, flag) in [("good", 0, "new\n"), ("bad", 1, "new\n")] {
        let seen = at_a_terminal(async {
            let mut person = Person::sits_down(&hosts.world, &line(routine));
            person.sees("guarded: rolls back by itself").await;
            person.sees("Run it?").await;
            person.types("Y\r").await;
            let (ended, seen) = person.leaves().await;
            assert_eq!(ended, code, "{seen}");
            seen
        });
        assert_eq!(fs::read_to_string(hosts.there(0, "flag")).unwrap(), flag, "{routine}: {seen}");
        assert_eq!(seen.contains("ROLLED BACK"), routine == "bad", "{seen}");
    }
    let again = hosts.world.finish(&["exec", "--host", "one", "--approve", "auto", "hello"]);
    assert_eq!(again.code, Some(0), "logins work again: {again:?}");
}
