//! Containers as hosts, reached by stand-ins of `docker` and `kubectl`: programs that accept the same command lines,
//! and run the command on this machine, in a directory and an environment of its own. Like the real ones, they leave
//! the command running if they are killed. `cargo xtask dist --try` repeats the first test with a real podman.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::World;
use crate::support::{Mock, bash, call, say, wait_until_gone};

/// `$F` is the directory with the containers, and the log of the command lines.
const STAND_IN: &str = r#"#!/bin/sh
F=FOLDER
printf '%s %s\n' "${0##*/}" "$*" >> "$F/lines.log"
[ "$1" = exec ] || { echo "unknown command $1" >&2; exit 1; }
shift
terminal= user=root
while :; do
    case $1 in
    -i) shift ;;
    -t) terminal=yes; shift ;;
    -u) user=$2; shift 2 ;;
    -n) shift 2 ;;
    -*) echo "unknown flag $1" >&2; exit 1 ;;
    *) break ;;
    esac
done
name=$1; shift
if [ "$1" = -c ] && [ "${0##*/}" = kubectl ]; then shift 2; fi
if [ "${0##*/}" = kubectl ]; then
    [ "$1" = -- ] || { echo 'no command' >&2; exit 1; }
    shift
fi
cd "$F/$name" 2>/dev/null || { echo "Error response from daemon: No such container: $name" >&2; exit 1; }
cd "$F" # the image's working directory, which is not the home
set -- env -i "PATH=$PATH" "HOME=$F/$name" "TERM=xterm" "USER_INSIDE=$user" "$@"
[ "$terminal" ] && set -- python3 "$F/terminal.py" "$@"
exec 3<&0
setsid "$@" <&3 &
exec 3<&- </dev/null
wait $!
"#;

/// Runs a program in a terminal of its own, which stays when the reader of its output ends.
const TERMINAL: &str = r"
import fcntl, os, pty, select, sys, termios, tty
pid, master = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
fcntl.ioctl(master, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
tty.setraw(0)
watched = [0, master]
while True:
    ready, _, _ = select.select(watched, [], [])
    if master in ready:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        try:
            os.write(1, data)
        except OSError:
            pass
    if 0 in ready:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b''
        if data:
            os.write(master, data)
        else:
            watched.remove(0)
";

/// Installs the stand-ins, so that `docker` and `kubectl` reach directories in `containers` of the home.
pub(crate) fn install_stand_ins(home: &Path, programs: &Path) -> PathBuf {
    let folder = home.join("containers");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("terminal.py"), TERMINAL).unwrap();
    for name in ["docker", "kubectl"] {
        let path = programs.join(name);
        fs::write(&path, STAND_IN.replace("FOLDER", &folder.display().to_string())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

struct ContainerRig {
    mock: Mock,
    world: World,
    folder: PathBuf,
}

impl ContainerRig {
    fn new(scenarios: &[(&str, Vec<Value>)]) -> Self {
        let mock = Mock::start(scenarios);
        let world = World::with_openai(&mock.url());
        let programs = world.home().join("bin");
        fs::create_dir(&programs).unwrap();
        let folder = install_stand_ins(world.home(), &programs);
        fs::create_dir(folder.join("web")).unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        Self { mock, world: world.variable("PATH", &path), folder }
    }

    /// Waits until no process runs in a container.
    fn nothing_runs(&self, name: &str) {
        let home = format!("HOME={}", self.folder.join(name).display());
        let until = Instant::now() + Duration::from_secs(10);
        let runs = |entry: &fs::DirEntry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes())
        };
        while fs::read_dir("/proc").unwrap().flatten().any(|entry| runs(&entry)) {
            assert!(Instant::now() < until, "processes of the container are left");
            std::thread::yield_now();
        }
    }

    fn lines(&self) -> String {
        fs::read_to_string(self.folder.join("lines.log")).unwrap_or_default()
    }

    /// Results of calls that the model got, in order.
    fn results(&self) -> Vec<String> {
        let body = self.mock.last_body();
        let messages = body["messages"].as_array().unwrap().iter();
        let results = messages.filter(|message| message["role"] == "tool");
        results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

fn run_command(command: &str) -> Value {
    call("run_command", json!({ "command": command, "reasoning": "" }))
}

#[test]
fn every_tool_works_in_a_container() {
    let rig = ContainerRig::new(&[(
        "do it",
        vec![
            bash("mkdir sub; pwd; exit 3"),
            call("write_file", json!({ "path": "notes.txt", "content": "one\ntwo\n" })),
            call(
                "edit_file",
                json!({ "path": "notes.txt", "old_string": "two", "new_string": "it's \"three\"" }),
            ),
            call("read_file", json!({ "path": "notes.txt" })),
            call("ls", json!({ "path": "." })),
            run_command("cd sub && export COLOR=blue"),
            run_command("echo \"$COLOR in ${PWD##*/}\"; (exit 4)"),
            say("All done."),
        ],
    )]);
    let run = rig.world.finish(&["exec", "--host", "docker:web", "--approve", "auto", "do it"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "All done.\n"), "{run:?}");
    assert_eq!(fs::read_to_string(rig.folder.join("web/notes.txt")).unwrap(), "one\nit's \"three\"\n");
    assert!(!rig.world.has("notes.txt"), "nothing is done here");
    let told = rig.results();
    assert!(told[0].contains("/containers/web") && told[0].contains("[exit code 3]"), "{told:?}");
    assert!(told[3].contains("it's \"three\"") && told[4].contains("notes.txt"), "{told:?}");
    assert!(told[6].contains("blue in sub\n") && told[6].contains("[exit code 4]"), "{told:?}");
    let log = rig.world.exported(&rig.world.only_session());
    assert_eq!(log[0]["event"]["spec"]["host"], "docker:web");
    rig.nothing_runs("web");
}

#[test]
fn a_command_that_takes_too_long_ends_inside_of_the_container() {
    let rig = ContainerRig::new(&[(
        "wait",
        vec![
            call("bash", json!({ "command": "echo begun; sleep 987654", "timeout_s": 1 })),
            say("It was stopped."),
        ],
    )]);
    let run = rig.world.finish(&["exec", "--host", "docker:web", "--approve", "auto", "wait"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "It was stopped.\n"), "{run:?}");
    let told = rig.results();
    assert!(told[0].contains("begun") && told[0].contains("1 s"), "{told:?}");
    wait_until_gone("sleep 987654", Duration::from_secs(10));
}

#[test]
fn users_pods_and_their_containers_are_passed_on() {
    let scenarios = || [("who", vec![bash("echo \"as $USER_INSIDE\""), say("Done.")])];
    let rig = ContainerRig::new(&scenarios());
    let run = rig.world.finish(&["exec", "--host", "app@docker:web", "--approve", "auto", "who"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(rig.results()[0].contains("as app"), "{:?}", rig.results());

    for (host, words) in [
        ("kube:shop/web", "kubectl exec -i -n shop web -- sh"),
        ("kube:shop/web/nginx", "kubectl exec -i -n shop web -c nginx -- sh"),
    ] {
        let rig = ContainerRig::new(&scenarios());
        let run = rig.world.finish(&["exec", "--host", host, "--approve", "auto", "who"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(rig.lines().contains(words), "{}", rig.lines());
    }
}

#[test]
fn containers_and_their_failures_are_named() {
    let rig = ContainerRig::new(&[("look", vec![bash("ls"), say("Nothing there.")])]);
    for arguments in [&["exec", "look"][..], &["chat", "--plain", "look"]] {
        let run = rig.world.finish(&[&["--host", "docker:none"], arguments].concat());
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
        assert!(
            run.err.contains("docker:none")
                && run.err.contains("No such container: none")
                && run.err.contains("docker ps"),
            "{run:?}"
        );
    }
    assert!(rig.mock.requests().is_empty(), "no model is asked");

    let only_stand_ins = rig.world.home().join("bin").display().to_string();
    let missing = rig.world.variable("PATH", &only_stand_ins);
    let run = missing.finish(&["exec", "--host", "podman:web", "look"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.err.contains("`podman` not found on PATH"), "{run:?}");

    for odd in ["docker:a/b", "kube:web", "docker:$(x)"] {
        let run = missing.finish(&["exec", "--host", odd, "look"]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.err.contains("invalid container") && run.err.contains("error:"), "{run:?}");
    }
}

#[test]
fn a_task_fails_if_one_of_its_hosts_was_not_reached() {
    let rig = ContainerRig::new(&[("look", vec![bash("ls"), say("I saw nothing.")])]);
    let run = rig.world.finish(&["exec", "-H", "docker:none,docker:gone", "--approve", "auto", "look"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(
        run.err.contains("No such container: none") && run.err.contains("No such container: gone"),
        "{run:?}"
    );
    let run = rig.world.finish(&["exec", "-H", "docker:none,docker:web", "--approve", "auto", "look"]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), "I saw nothing.\n"), "{run:?}");
}

#[test]
fn a_container_can_be_one_of_several_hosts() {
    let rig = ContainerRig::new(&[("which", vec![bash("cat kind"), say("They differ.")])]);
    fs::create_dir(rig.folder.join("db")).unwrap();
    fs::write(rig.folder.join("web/kind"), "new\n").unwrap();
    fs::write(rig.folder.join("db/kind"), "old\n").unwrap();
    let run = rig.world.finish(&["exec", "--host", "docker:web,docker:db", "--approve", "auto", "which"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let told = rig.results().remove(0);
    assert!(told.contains("== docker:web") && told.contains("== docker:db"), "{told}");
}
