//! The script that saves and restores state, with each shell that a machine may have, on files of the test.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use tempfile::TempDir;

const SCRIPT: &str = include_str!("../../src/undo/undo.sh");
const SHELLS: [&[&str]; 3] = [&["dash"], &["busybox", "sh"], &["bash", "--posix"]];

/// A directory with files, a shell, and a directory of records.
struct Machine {
    home: TempDir,
    shell: &'static [&'static str],
}

impl Machine {
    fn new(shell: &'static [&'static str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("undo.sh"), SCRIPT).unwrap();
        let machine = Self { home, shell };
        fs::create_dir_all(machine.at("d/sub")).unwrap();
        machine.put("a", "a");
        machine.put("d/b", "b");
        machine.put("d/sub/c", "c");
        symlink("a", machine.at("link")).unwrap();
        for (name, mode) in [("a", 0o640), ("d/b", 0o600), ("d/sub/c", 0o4755)] {
            fs::set_permissions(machine.at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        machine.sh("touch -d '2020-01-01 01:02:03' a d/b d/sub d");
        machine
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join("t").join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    fn sh(&self, command: &str) {
        let done = Command::new("sh").args(["-c", command]).current_dir(self.at("")).status().unwrap();
        assert!(done.success(), "{command}");
    }

    /// Runs the script and returns its lines without the leading `U`.
    fn undo(&self, arguments: &[&str]) -> Vec<String> {
        let output = Command::new(self.shell[0])
            .args(&self.shell[1..])
            .arg(self.home.path().join("undo.sh"))
            .arg(self.home.path().join("records"))
            .args(arguments)
            .env("PATH", self.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter_map(|line| line.strip_prefix("U\t")).map(str::to_owned).collect()
    }

    /// Search path in which programs of the test come first.
    fn path(&self) -> std::ffi::OsString {
        let system = std::env::var_os("PATH").unwrap_or_default();
        let own = self.home.path().join("bin");
        std::env::join_paths([own].into_iter().chain(std::env::split_paths(&system))).unwrap()
    }

    fn before(&self, id: &str, entries: &[String]) -> Vec<String> {
        let mut words = vec!["before", id, "1000000"];
        words.extend(entries.iter().map(String::as_str));
        self.undo(&words)
    }

    /// Keeps the content of these names, runs the command, and returns what the script says afterwards.
    fn change(&self, id: &str, names: &[&str], command: &str) -> Vec<String> {
        let mut entries: Vec<String> =
            names.iter().map(|name| format!("c:{}", self.at(name).display())).collect();
        // As the survey of a call does it: what a link leads to is named too.
        let links = names.iter().filter_map(|name| fs::read_link(self.at(name)).ok());
        entries.extend(links.map(|target| format!("c:{}", self.at("").join(target).display())));
        assert_eq!(self.before(id, &entries), ["ready\t\t"]);
        let _ = Command::new("sh").args(["-c", command]).current_dir(self.at("")).output().unwrap();
        self.undo(&["after", id])
    }

    /// Undoes `id` and asserts that it worked.
    fn apply(&self, id: &str, new: &str) {
        let said = self.undo(&["apply", id, new, "1000000"]);
        assert!(said.iter().any(|line| line.starts_with("end\tdone")), "{id}: {said:?}");
    }

    /// Describes every file: type, mode, owner, time in seconds, content.
    fn tree(&self) -> Vec<String> {
        let mut all = Vec::new();
        describe(&self.at(""), &mut all);
        all.sort();
        all
    }

    /// Like `tree`, without times.
    fn content(&self) -> Vec<String> {
        self.tree().into_iter().map(|line| line.split(" @").next().unwrap_or_default().to_owned()).collect()
    }
}

fn describe(path: &Path, all: &mut Vec<String>) {
    let meta = fs::symlink_metadata(path).unwrap();
    let content = if meta.is_symlink() {
        fs::read_link(path).unwrap().display().to_string()
    } else if meta.is_file() {
        fs::read_to_string(path).unwrap()
    } else {
        String::new()
    };
    let (mode, uid, gid) = (meta.mode(), meta.uid(), meta.gid());
    // Not every tool can restore a link's own time, and the root's time belongs to the test.
    let time = if meta.is_symlink() || path.ends_with("t/") { 0 } else { meta.mtime() };
    all.push(format!("{} {mode:o} {uid}:{gid} {content:?} @{time}", path.display()));
    if meta.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| describe(&entry.unwrap().path(), all));
    }
}

fn on_each_shell(test: impl Fn(&Machine)) {
    for shell in SHELLS {
        test(&Machine::new(shell));
    }
}

/// Changes of files, each with the names whose content is kept.
const CHANGES: [(&[&str], &str); 16] = [
    (&["a"], "echo more >>a"),
    (&["a"], "sed -i s/a/x/ a 2>/dev/null || echo y >a"),
    (&["a"], "truncate -s 0 a"),
    (&["a"], "touch a"),
    (&["a", "z"], "if [ -e a ]; then mv a z; else echo z >z; fi"),
    (&["d"], "rm -rf d"),
    (&["d"], "chmod -R 777 d 2>/dev/null || mkdir -p d"),
    (&["d"], "if [ -d d ]; then echo n >d/n; fi"),
    (&["d/b"], "rm -rf d/b; mkdir -p d; mkdir d/b; echo 1 >d/b/x"),
    (&["new/x/y"], "mkdir -p new/x; echo q >new/x/y"),
    (&["link"], "rm -rf link; ln -s d link"),
    (&["link"], "rm -rf link; mkdir link; echo l >link/l"),
    (&["link"], "rm -rf link; echo file >link"),
    (&["a"], "rm -rf a; ln -s d/b a"),
    (&["a"], "chmod 000 a 2>/dev/null || :"),
    (&["d/sub"], "rm -rf d/sub; mkdir -p d; echo f >d/sub"),
];

#[test]
fn each_change_of_files_is_undone_and_the_undo_as_well() {
    on_each_shell(|machine| {
        for (at, (names, command)) in CHANGES.iter().enumerate() {
            let (step, back, again, last) =
                (format!("s{at}"), format!("b{at}"), format!("r{at}"), format!("l{at}"));
            let before = machine.tree();
            let said = machine.change(&step, names, command);
            let after = machine.content();
            assert!(said.iter().any(|line| line.starts_with("undo\texact")), "{command}: {said:?}");
            machine.apply(&step, &back);
            assert_eq!(machine.tree(), before, "{:?} {command}", machine.shell);
            machine.apply(&back, &again);
            assert_eq!(machine.content(), after, "{:?} undo of undo: {command}", machine.shell);
            machine.apply(&again, &last);
            assert_eq!(machine.tree(), before, "{:?} third undo: {command}", machine.shell);
        }
    });
}

#[test]
fn modes_and_owners_are_restored_without_content() {
    on_each_shell(|machine| {
        let before = machine.tree();
        let entry = format!("m:{}", machine.at("d").display());
        machine.before("m1", &[entry]);
        let owner = if rustix::process::geteuid().is_root() { "chown -R 33:44 d;" } else { "" };
        machine.sh(&format!("{owner} chmod -R 711 d"));
        let said = machine.undo(&["after", "m1"]);
        assert!(said.contains(&"undo\texact\t".to_owned()), "{said:?}");
        machine.apply("m1", "m2");
        assert_eq!(machine.tree(), before);
    });
}

#[test]
fn an_undo_is_refused_if_somebody_changed_the_file_since() {
    on_each_shell(|machine| {
        machine.change("e1", &["a"], "echo new >a");
        machine.sh("echo other >a");
        let path = machine.at("a").display().to_string();
        let wanted = [format!("changed\t\t{path} was edited")];
        assert_eq!(machine.undo(&["plan", "e1"]), wanted);
        assert_eq!(machine.undo(&["apply", "e1", "e2", "1000000"]), wanted);
        assert_eq!(fs::read_to_string(machine.at("a")).unwrap(), "other\n");
        machine.change("e3", &["d"], "chmod 700 d/b; rm d/sub/c");
        machine.sh("chmod 644 d/b; echo c >d/sub/c");
        let said = machine.undo(&["plan", "e3"]);
        assert_eq!(
            said,
            [
                format!(
                    "changed\t\t{}/d/b has another mode or owner",
                    machine.at("").display().to_string().trim_end_matches('/')
                ),
                format!(
                    "changed\t\t{}/d/sub/c exists again",
                    machine.at("").display().to_string().trim_end_matches('/')
                ),
            ]
        );
        machine.change("e4", &["n"], "mkdir n; echo 1 >n/1");
        machine.sh("echo 2 >n/2");
        let said = machine.undo(&["plan", "e4"]);
        assert_eq!(said, [format!("changed\t\t{} is new", machine.at("n/2").display())]);
    });
}

#[test]
fn content_over_the_limit_is_reported_and_not_partly_saved() {
    on_each_shell(|machine| {
        machine.sh("mkdir big; for i in 1 2 3; do head -c 500000 /dev/zero >big/$i; done");
        let entries = ["a", "big"].map(|name| format!("c:{}", machine.at(name).display()));
        let said = machine.before("o1", &entries);
        let path = machine.at("big").display().to_string();
        assert_eq!(
            said,
            [format!("note\t{path} is 2 MB: its content is not saved\t"), "ready\t\t".to_owned()]
        );
        let kept = fs::read_to_string(machine.home.path().join("records/o1/kept")).unwrap();
        assert!(kept.contains("/t/a") && !kept.contains("big"), "{kept}");
        machine.sh("rm -r big a");
        let said = machine.undo(&["after", "o1"]);
        assert!(said.contains(&"undo\tpartly\t".to_owned()), "{said:?}");
        let plan = machine.undo(&["plan", "o1"]);
        assert!(plan.contains(&format!("step\t\trestore {}", machine.at("a").display())), "{plan:?}");
        assert!(plan.iter().any(|line| line.starts_with("caveat") && line.contains("big/1")), "{plan:?}");
    });
}

#[test]
fn a_repository_takes_no_room_from_other_files() {
    on_each_shell(|machine| {
        machine.sh(
            "mkdir -p repo/.git; head -c 700000 /dev/zero >repo/.git/pack; head -c 600000 /dev/zero >big",
        );
        let at = |name: &str| machine.at(name).display().to_string();
        // In the order in which the entries of a plan come.
        let entries = [format!("G:{}", at("repo")), format!("c:{}", at("big"))];
        assert_eq!(machine.before("g1", &entries), ["ready\t\t"]);
        let tree = machine.tree();
        machine.sh("echo 1 >repo/.git/pack; echo 2 >big");
        let said = machine.undo(&["after", "g1"]);
        assert!(said.contains(&"undo\texact\t".to_owned()), "{said:?}");
        machine.apply("g1", "g2");
        assert_eq!(machine.tree(), tree);
    });
}

#[test]
fn a_repository_that_takes_too_long_to_list_is_not_saved() {
    for shell in [SHELLS[0], SHELLS[2]] {
        let machine = Machine::new(shell);
        machine.sh("mkdir -p repo/.git; echo 1 >repo/.git/pack");
        let folder = machine.home.path().join("bin");
        fs::create_dir(&folder).unwrap();
        // The first, short listing is cut off; the others are complete.
        let script = "#!/bin/sh\ns=$1; shift; [ \"$s\" = 2 ] || exec \"$@\"\n\"$@\" | head -n 2; exit 124\n";
        fs::write(folder.join("timeout"), script).unwrap();
        fs::set_permissions(folder.join("timeout"), fs::Permissions::from_mode(0o755)).unwrap();
        let said = machine.before("s1", &[format!("G:{}", machine.at("repo").display())]);
        assert_eq!(said, ["ready\t\t"]);
        assert_eq!(fs::read_to_string(machine.home.path().join("records/s1/kept")).unwrap(), "");
    }
}

/// Number of entries of a folder from which the script no longer lists it.
const ENTRIES_MAX: usize = 20_000;

#[test]
fn a_folder_with_too_many_entries_is_left_out_as_a_whole() {
    on_each_shell(|machine| {
        fs::create_dir(machine.at("many")).unwrap();
        (0..ENTRIES_MAX + 5).for_each(|at| machine.put(&format!("many/{at}"), ""));
        let watched = machine.at("").display().to_string();
        let watched = watched.trim_end_matches('/');
        let entries = [format!("w:{watched}"), format!("c:{}", machine.at("a").display())];
        let note =
            format!("note\t{watched} has more than {ENTRIES_MAX} entries: its changes are not tracked\t");
        assert_eq!(machine.before("w1", &entries), [note, "ready\t\t".to_owned()]);
        // Entries that were behind the limit come before it now.
        machine.sh("echo new >a; find many -type f | head -n 10 | xargs rm");
        let said = machine.undo(&["after", "w1"]);
        let files: Vec<&String> = said.iter().filter(|line| line.starts_with("file")).collect();
        assert_eq!(files, [&format!("file\tedited\t{}", machine.at("a").display())], "{said:?}");
        assert!(said.contains(&"undo\tpartly\t".to_owned()), "{said:?}");
        machine.apply("w1", "w2");
        assert_eq!(fs::read_dir(machine.at("many")).unwrap().count(), ENTRIES_MAX - 5);
        assert_eq!(fs::read_to_string(machine.at("a")).unwrap(), "a");
    });
}

#[test]
fn a_folder_that_takes_too_long_to_list_is_left_out_as_a_whole() {
    // With busybox, `timeout` is a part of the shell.
    for shell in [SHELLS[0], SHELLS[2]] {
        for slow in ["before", "after"] {
            let machine = Machine::new(shell);
            let folder = machine.home.path().join("bin");
            fs::create_dir(&folder).unwrap();
            let script = "#!/bin/sh\nshift; \"$@\" | head -n 2; exit 124\n";
            fs::write(folder.join("slow"), script).unwrap();
            fs::set_permissions(folder.join("slow"), fs::Permissions::from_mode(0o755)).unwrap();
            let watched = machine.at("d").display().to_string();
            let note = format!("note\t{watched} takes too long to list: its changes are not tracked\t");
            if slow == "before" {
                fs::rename(folder.join("slow"), folder.join("timeout")).unwrap();
            }
            let said = machine.before("t1", &[format!("w:{watched}")]);
            assert_eq!(said.contains(&note), slow == "before", "{said:?}");
            if slow == "before" {
                fs::remove_file(folder.join("timeout")).unwrap();
            } else {
                fs::rename(folder.join("slow"), folder.join("timeout")).unwrap();
            }
            let tree = machine.tree();
            let said = machine.undo(&["after", "t1"]);
            assert_eq!(said.contains(&note), slow == "after", "{said:?}");
            assert!(said.contains(&"undo\tnone\tcontent was not saved".to_owned()), "{said:?}");
            assert!(!said.iter().any(|line| line.starts_with("file")), "{said:?}");
            machine.undo(&["apply", "t1", "t2", "1000000"]);
            assert_eq!(machine.tree(), tree, "an undo removes nothing that it did not see whole");
        }
    }
}

/// Shells whose programs are files of the search path, so that a test can replace them.
const SHELLS_WITH_PROGRAMS: [&[&str]; 2] = [SHELLS[0], SHELLS[2]];

impl Machine {
    /// Puts a script in place of a program. It has the directory of the test in `$HOME`.
    fn replace(&self, program: &str, script: &str) {
        let folder = self.home.path().join("bin");
        fs::create_dir_all(&folder).unwrap();
        let text = format!("#!/bin/sh\nHOME='{}'\n{script}\n", self.home.path().display());
        fs::write(folder.join(program), text).unwrap();
        fs::set_permissions(folder.join(program), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Makes a program note its arguments.
    fn watch(&self, program: &str) {
        self.replace(program, &format!("echo \"$*\" >>\"$HOME/ran\"; exec /usr/bin/{program} \"$@\""));
    }

    /// Returns the number of noted calls since the last time whose arguments contain the text.
    fn calls(&self, text: &str) -> usize {
        let ran = self.home.path().join("ran");
        let count =
            fs::read_to_string(&ran).unwrap_or_default().lines().filter(|line| line.contains(text)).count();
        let _ = fs::remove_file(ran);
        count
    }

    fn entry(&self, kind: char, name: &str) -> String {
        format!("{kind}:{}", self.at(name).display())
    }
}

#[test]
fn files_whose_content_is_saved_are_listed_once_before_the_command() {
    for shell in SHELLS_WITH_PROGRAMS {
        let machine = Machine::new(shell);
        machine.watch("find");
        let place = machine.at("d").display().to_string();
        machine.before("o1", &[machine.entry('c', "d")]);
        assert_eq!(machine.calls(&place), 1);
        machine.sh("echo more >d/b");
        let said = machine.undo(&["after", "o1"]);
        assert!(said.contains(&format!("file\tedited\t{place}/b")), "{said:?}");
        machine.apply("o1", "o2");
        assert_eq!(fs::read_to_string(machine.at("d/b")).unwrap(), "b");
    }
}

#[test]
fn all_listings_together_are_bounded() {
    for shell in SHELLS_WITH_PROGRAMS {
        let machine = Machine::new(shell);
        // Each listing seems to take three seconds.
        machine.replace(
            "date",
            "n=$(cat \"$HOME/n\" 2>/dev/null || echo 0); n=$((n+3)); echo $n | tee \"$HOME/n\"",
        );
        let names: Vec<String> = (0..6).map(|at| format!("d/{at}")).collect();
        names.iter().for_each(|name| machine.put(name, "x"));
        let entries: Vec<String> = names.iter().map(|name| machine.entry('c', name)).collect();
        let said = machine.before("b1", &entries);
        let late = said.iter().filter(|line| line.contains("its changes are not tracked")).count();
        assert_eq!((late, said.last().map(String::as_str)), (3, Some("ready\t\t")), "{said:?}");
    }
}

#[test]
fn a_listing_that_takes_too_long_ends_even_if_timeout_ends_only_its_child() {
    for shell in SHELLS_WITH_PROGRAMS {
        let machine = Machine::new(shell);
        // Like the `timeout` of busybox.
        machine.replace(
            "timeout",
            "case $* in *t/d*) ;; *) shift; exec \"$@\" ;; esac\nshift; \"$@\" & child=$!\n\
             until [ -e \"$HOME/lists\" ]; do :; done; kill $child; wait $child; exit 124",
        );
        // A slow program; its own child keeps nothing open.
        machine.replace(
            "find",
            "case $* in *t/d*) ;; *) exec /usr/bin/find \"$@\" ;; esac\n\
             : >\"$HOME/lists\"; sleep 5 >&- 2>&- 3>&-; : >\"$HOME/went-on\"",
        );
        let said = machine.before("l1", &[machine.entry('w', "d")]);
        assert!(said.iter().any(|line| line.contains("takes too long to list")), "{said:?}");
        assert!(!machine.home.path().join("went-on").exists());
    }
}

#[test]
fn an_undo_does_not_list_again_what_took_too_long() {
    for shell in SHELLS_WITH_PROGRAMS {
        let machine = Machine::new(shell);
        machine.replace("timeout", "case $* in *t/d*) exit 124 ;; esac; shift; exec \"$@\"");
        machine.before("s1", &[machine.entry('w', "d"), machine.entry('c', "a")]);
        machine.put("a", "new");
        machine.undo(&["after", "s1"]);
        machine.replace("timeout", "echo \"$*\" >>\"$HOME/ran\"; shift; exec \"$@\"");
        machine.apply("s1", "s2");
        assert_eq!(fs::read_to_string(machine.at("a")).unwrap(), "a");
        assert_eq!(machine.calls("t/d"), 0);
    }
}

#[test]
fn files_of_another_size_are_not_read_to_be_compared() {
    for shell in SHELLS_WITH_PROGRAMS {
        let machine = Machine::new(shell);
        (0..30).for_each(|at| machine.put(&format!("d/{at}"), "x"));
        let tree = machine.content();
        machine.watch("cmp");
        machine.watch("stat");
        machine.before("z1", &[machine.entry('c', "d")]);
        machine.calls("");
        machine.sh("for f in d/[0-9]*; do echo longer >$f; done");
        let said = machine.undo(&["after", "z1"]);
        assert_eq!(said.iter().filter(|line| line.starts_with("file\tedited")).count(), 30, "{said:?}");
        let ran = fs::read_to_string(machine.home.path().join("ran")).unwrap_or_default();
        let single = ran.lines().filter(|line| line.matches("t/d/").count() == 1).count();
        assert_eq!(single, 0, "no program runs for a single file: {ran}");
        machine.apply("z1", "z2");
        assert_eq!(machine.content(), tree);
    }
}

#[test]
fn the_directories_of_sysop_are_not_part_of_a_record() {
    on_each_shell(|machine| {
        machine.sh("mkdir -p 'o[w]n/sub' data/sysop; echo 1 >'o[w]n/db'; echo 1 >'o[w]n/sub/x'; echo 1 >data/sysop/x; echo 1 >data/y");
        machine.sh("ln -s t ../link; ln -s t/data/sysop ../short");
        let home = machine.home.path().display().to_string();
        let at = |name: &str| machine.at(name).display().to_string();
        let entries = [
            format!("w:{home}"),
            format!("c:{}", at("data")),
            format!("c:{}", at("o[w]n/db")),
            format!("x:{home}/link/o[w]n"),
            format!("x:{home}/short"),
        ];
        let note = format!("note\t{} belongs to sysop and is not saved\t", at("o[w]n/db"));
        assert_eq!(machine.before("w1", &entries), [note.as_str(), "ready\t\t"]);
        let kept = machine.home.path().join("records/w1/pre/1");
        assert!(kept.join("y").exists() && !kept.join("sysop").exists(), "{kept:?}");
        machine.sh("echo more >>'o[w]n/db'; rm 'o[w]n/sub/x'; echo 2 >'o[w]n/z'; echo 2 >data/sysop/x; rm data/y; echo 1 >n");
        let said = machine.undo(&["after", "w1"]);
        let files: Vec<&String> = said.iter().filter(|line| line.starts_with("file\t")).collect();
        assert_eq!(
            files,
            [&format!("file\tremoved\t{}", at("data/y")), &format!("file\tcreated\t{}", at("n"))]
        );
        assert!(said.contains(&"undo\texact\t".to_owned()), "{said:?}");
        // What sysop writes later does not stop the undo.
        machine.sh("rm -r 'o[w]n/sub'; echo 3 >data/sysop/x");
        let plan = machine.undo(&["plan", "w1"]);
        assert_eq!(
            plan[..2],
            [format!("step\t\trestore {}", at("data/y")), format!("step\t\tremove {}", at("n"))]
        );
        machine.apply("w1", "w2");
        assert!(machine.at("data/y").exists() && !machine.at("n").exists());
        assert_eq!(fs::read_to_string(machine.at("data/sysop/x")).unwrap(), "3\n");
    });
}

#[test]
fn a_directory_that_is_removed_with_one_of_sysop_in_it_comes_back_with_its_mode() {
    on_each_shell(|machine| {
        machine.sh("mkdir -p data/o data/.h; echo 1 >data/.h/y; ln -s y data/.h/l; chmod 711 data; chmod 2750 data/.h");
        machine.sh("touch -d '2020-01-01 01:02:03' data/.h/y data/.h data");
        let tree = machine.tree();
        let entries = [machine.entry('c', "data"), machine.entry('x', "data/o")];
        machine.before("d1", &entries);
        machine.sh("rm -r data");
        let said = machine.undo(&["after", "d1"]);
        assert!(said.contains(&"undo\texact\t".to_owned()), "{said:?}");
        machine.apply("d1", "d2");
        machine.sh("mkdir data/o; touch -d '2020-01-01 01:02:03' data");
        assert_eq!(content_without(&machine.tree(), "/data/o "), content_without(&tree, "/data/o "));
    });
}

fn content_without(tree: &[String], name: &str) -> Vec<String> {
    tree.iter().filter(|line| !line.contains(name)).cloned().collect()
}

#[test]
fn records_are_private_and_old_ones_are_removed() {
    on_each_shell(|machine| {
        machine.change("k1", &["a"], "echo 1 >a");
        let folder = machine.home.path().join("records");
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        machine.sh("touch -d '2020-01-01' ../records/k1");
        machine.change("k2", &["a"], "echo 2 >a");
        assert!(!folder.join("k1").exists() && folder.join("k2").exists());
        let lists = fs::read_dir(folder.join("k2")).unwrap().map(|entry| entry.unwrap().file_name());
        let lists: Vec<_> = lists.filter(|name| name.to_string_lossy().contains("list.")).collect();
        assert!(lists.is_empty(), "a record holds each listing once: {lists:?}");
        let said = machine.undo(&["plan", "k1"]);
        assert_eq!(said, ["changed\t\tthe record of this call is gone; records are kept for 7 days"]);
    });
}

#[test]
fn file_names_are_never_run_as_code() {
    on_each_shell(|machine| {
        let odd = "q'; touch hacked; $(touch hacked2) `x` \\ *";
        let entry = format!("c:{}", machine.at(odd).display());
        machine.before("n1", &[entry]);
        machine.put(odd, "odd");
        machine.undo(&["after", "n1"]);
        machine.apply("n1", "n2");
        assert!(
            !machine.at(odd).exists() && !machine.at("hacked").exists() && !machine.at("hacked2").exists()
        );
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Undoing the steps from the last to the first gives the state before the first, at every point in between too.
    #[test]
    fn random_sequences_of_changes_are_undone_in_reverse(steps in prop::collection::vec(0..CHANGES.len(), 1..=10)) {
        let machine = Machine::new(SHELLS[0]);
        let mut states = Vec::new();
        let mut kept = Vec::new();
        for (at, change) in steps.iter().enumerate() {
            let (names, command) = CHANGES[*change];
            states.push(machine.tree());
            let said = machine.change(&format!("s{at}"), names, command);
            kept.push(said.iter().any(|line| line.starts_with("undo\texact")));
        }
        while let Some(state) = states.pop() {
            let at = states.len();
            if kept.pop() == Some(true) {
                machine.apply(&format!("s{at}"), &format!("u{at}"));
            }
            prop_assert_eq!(machine.tree(), state, "step {} of {:?}", at, &steps);
        }
    }
}
