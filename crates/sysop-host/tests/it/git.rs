//! Tests of `git_*`, also in repositories whose config names malicious programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use sysop_core::catalog::Profile;
use sysop_core::outcome::{Outcome, Status};

use crate::world::{Factory, Setup, World, conformance};

conformance!(
    git_tools_work_in_a_repository,
    arguments_are_never_options,
    a_repository_above_the_root_is_not_used,
    a_poisoned_repository_runs_nothing,
    a_poisoned_sha256_repository_runs_nothing,
    a_filter_of_the_repository_is_reported,
    a_bare_repository_among_the_files_runs_nothing,
    files_outside_are_not_shown_through_the_config,
    a_repository_that_points_outside_is_refused,
    a_split_repository_below_the_root_works,
    files_that_the_config_names_are_not_read,
    replaced_commits_are_shown_as_they_were_made,
    an_unknown_setting_is_refused,
    nothing_is_fetched,
);

/// Runs git as a user would, to prepare a repository.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=A Person", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn repository(factory: &impl Factory, init: &[&str]) -> World {
    let world = factory.workspace();
    git(world.root(), &[&["init", "-q"], init].concat());
    git(world.root(), &["config", "user.name", "A Person"]);
    git(world.root(), &["config", "user.email", "a@example.org"]);
    world
}

async fn ok(world: &World, tool: &str, arguments: Value) -> Outcome {
    let outcome = world.call(tool, arguments).await;
    assert_eq!(outcome.status, Status::Ok, "{tool}: {}", outcome.output);
    outcome
}

async fn git_tools_work_in_a_repository(factory: &impl Factory) {
    let world = repository(factory, &[]);
    world.put("src/a.txt", "one\n");
    world.put("b.txt", "b\n");
    let status = ok(&world, "git_status", json!({})).await.output;
    assert!(
        status.starts_with("## No commits yet on ") && status.ends_with("\n?? b.txt\n?? src/\n"),
        "{status}"
    );
    ok(&world, "git_add", json!({ "paths": ["src", world.at("b.txt")] })).await;
    let outcome = ok(&world, "git_commit", json!({ "message": "-m First\n\n# kept\n$(touch x)" })).await;
    assert!(outcome.output.contains("2 files changed"), "{}", outcome.output);
    assert_eq!(git(world.root(), &["log", "--format=%B"]).trim_end(), "-m First\n\n# kept\n$(touch x)");
    world.put("src/a.txt", "one\ntwo\n");
    let diff = ok(&world, "git_diff", json!({})).await.output;
    assert!(diff.contains("+++ b/src/a.txt") && diff.ends_with("\n one\n+two\n"), "{diff}");
    assert_eq!(ok(&world, "git_diff", json!({ "path": "b.txt" })).await.output, "");
    assert_eq!(ok(&world, "git_diff", json!({ "staged": true })).await.output, "");
    assert_eq!(ok(&world, "git_diff", json!({ "revision": "HEAD", "path": "src" })).await.output, diff);
    ok(&world, "git_add", json!({ "paths": ["."] })).await;
    assert_eq!(ok(&world, "git_diff", json!({ "staged": true })).await.output, diff);
    ok(&world, "git_commit", json!({ "message": "Second" })).await;
    let log = ok(&world, "git_log", json!({ "limit": 1 })).await.output;
    assert!(log.ends_with(" A Person: Second\n") && log.lines().count() == 1, "{log}");
    let unsaid = ok(&world, "git_log", json!({ "limit": 1, "revision": "", "path": "" })).await.output;
    assert_eq!(unsaid, log, "an empty argument counts as missing");
    assert_eq!(ok(&world, "git_log", json!({ "path": "b.txt" })).await.output.lines().count(), 1);
    let show = ok(&world, "git_show", json!({ "revision": "HEAD" })).await.output;
    assert!(show.contains("    Second\n") && show.contains("+two\n"), "{show}");
    assert_eq!(ok(&world, "git_show", json!({ "revision": "HEAD~1:src/a.txt" })).await.output, "one\n");
    let outcome = world.call("git_commit", json!({ "message": "Third" })).await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Failed, Some(1)));
    assert!(outcome.output.ends_with("[exit code 1]"), "{}", outcome.output);
}

async fn arguments_are_never_options(factory: &impl Factory) {
    let world = repository(factory, &[]);
    world.put("f", "x\n");
    ok(&world, "git_add", json!({ "paths": ["f"] })).await;
    ok(&world, "git_commit", json!({ "message": "First" })).await;
    world.put("f", "y\n");
    for (tool, arguments) in [
        ("git_diff", json!({ "revision": "--output=made" })),
        ("git_log", json!({ "revision": "--output=made" })),
        ("git_show", json!({ "revision": "--output=made" })),
        ("git_show", json!({ "revision": "HEAD\n--output=made" })),
        ("git_show", json!({ "revision": "" })),
        ("git_diff", json!({ "path": "--output=made" })),
        ("git_diff", json!({ "path": ":(top,exclude)made" })),
        ("git_add", json!({ "paths": ["--all"] })),
        ("git_add", json!({ "paths": [] })),
        ("git_add", json!({ "paths": ["../artefacts"] })),
        ("git_add", json!({ "paths": ["/etc/hostname"] })),
        ("git_commit", json!({ "message": "" })),
        ("git_log", json!({ "limit": "all" })),
    ] {
        let outcome = world.call(tool, arguments.clone()).await;
        let nothing = outcome.status == Status::Ok && outcome.output.is_empty();
        assert!(nothing || outcome.status == Status::Failed, "{tool} {arguments}: {}", outcome.output);
    }
    assert!(!world.at("made").exists());
    assert_eq!(git(world.root(), &["diff", "--cached", "--name-only"]), "");
}

async fn a_repository_above_the_root_is_not_used(factory: &impl Factory) {
    let world = factory.open(Setup {
        profile: Profile::Workspace,
        prepare: |home| {
            git(home, &["init", "-q"]);
        },
        ..Setup::default()
    });
    let outcome = world.call("git_status", json!({})).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.output.contains("not a git repository"), "{}", outcome.output);
}

/// Creates a script that records that it ran.
fn witness(world: &World) -> String {
    let script = world.home().join("evil.sh");
    fs::write(
        &script,
        format!(
            "#!/bin/sh\necho ran \"$0\" \"$@\" >> {}/witness\nexec cat < /dev/null\n",
            world.home().display()
        ),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script.display().to_string()
}

fn ran(world: &World) -> Option<String> {
    fs::read_to_string(world.home().join("witness")).ok()
}

/// Sets a program in every place where a repository's config can name one.
fn poison(world: &World) {
    let root = world.root();
    world.put("f.txt", "one\n");
    world.put("g.txt", "one\n");
    git(root, &["add", "."]);
    git(root, &["commit", "-qm", "First"]);
    sign(root);
    world.put("g.txt", "staged\n");
    git(root, &["add", "g.txt"]);
    let evil = witness(world);
    world.put(".gitattributes", "*.txt filter=x=y diff=evil merge=evil\n");
    world.put(".git/info/attributes", "*.txt filter=x=y diff=evil\n");
    for (key, value) in [
        ("core.fsmonitor", evil.as_str()),
        ("core.hooksPath", world.at(".git/hooks").to_str().unwrap()),
        ("core.pager", &evil),
        ("core.editor", &evil),
        ("core.sshCommand", &evil),
        ("core.alternateRefsCommand", &evil),
        ("filter.x=y.clean", &evil),
        ("filter.x=y.smudge", &evil),
        ("filter.x=y.process", &evil),
        ("filter.x=y.required", "true"),
        ("diff.external", &evil),
        ("diff.evil.textconv", &evil),
        ("diff.evil.command", &evil),
        ("merge.evil.driver", &evil),
        ("hook.evil.event", "pre-commit"),
        ("hook.evil.command", &evil),
        ("gpg.program", &evil),
        ("gpg.ssh.defaultKeyCommand", &evil),
        ("commit.gpgSign", "true"),
        ("log.showSignature", "true"),
        ("format.pretty", "%G? %s"),
        ("pager.status", "true"),
        ("pager.diff", "true"),
        ("alias.status", &format!("!{evil}")),
        ("interactive.diffFilter", &evil),
        ("trailer.x.command", &evil),
        ("gc.auto", "1"),
        ("gc.recentObjectsHook", &evil),
        ("rerere.enabled", "true"),
        ("credential.helper", &evil),
    ] {
        git(root, &["config", key, value]);
    }
    for hook in [
        "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change",
        "reference-transaction", "post-checkout", "fsmonitor-watchman", "pre-auto-gc",
    ] {
        fs::copy(world.home().join("evil.sh"), world.at(&format!(".git/hooks/{hook}"))).unwrap();
    }
    // Same size as before, so that git has to read the file.
    world.put("f.txt", "two\n");
}

/// Adds a signature to the newest commit, which git may try to verify when it shows the commit.
fn sign(root: &Path) {
    let commit = git(root, &["cat-file", "commit", "HEAD"]);
    let (header, message) = commit.split_once("\n\n").unwrap();
    let field = if git(root, &["rev-parse", "--show-object-format"]).trim() == "sha256" {
        "gpgsig-sha256"
    } else {
        "gpgsig"
    };
    let signature = "-----BEGIN PGP SIGNATURE-----\n \n abcd\n -----END PGP SIGNATURE-----";
    let signed = root.join(".git/signed");
    fs::write(&signed, format!("{header}\n{field} {signature}\n\n{message}")).unwrap();
    let id = git(root, &["hash-object", "-t", "commit", "-w", signed.to_str().unwrap()]);
    git(root, &["update-ref", "HEAD", id.trim()]);
}

/// Reads objects of a poisoned repository safely.
fn git_plumbing(world: &World, arguments: &[&str]) -> String {
    let safe = ["-c", "core.fsmonitor=false", "-c", "core.pager=cat", "-c", "log.showSignature=false"];
    let textual = ["--no-textconv", "--no-ext-diff"];
    git(world.root(), &[&safe, &arguments[..1], &textual, &arguments[1..]].concat())
}

async fn every_git_tool(world: &World) {
    for (tool, arguments) in [
        ("git_status", json!({})),
        ("git_diff", json!({})),
        ("git_diff", json!({ "revision": "HEAD" })),
        ("git_diff", json!({ "staged": true })),
        ("git_log", json!({})),
        ("git_log", json!({ "path": "f.txt" })),
        ("git_show", json!({ "revision": "HEAD" })),
        ("git_show", json!({ "revision": "HEAD:f.txt" })),
        ("git_add", json!({ "paths": ["f.txt"] })),
        ("git_commit", json!({ "message": "Second" })),
    ] {
        let outcome = world.call(tool, arguments.clone()).await;
        assert_eq!(ran(world), None, "{tool} {arguments}: {}", outcome.output);
    }
}

async fn a_poisoned_repository_runs_nothing(factory: &impl Factory) {
    let world = repository(factory, &[]);
    poison(&world);
    every_git_tool(&world).await;
    let diff = ok(&world, "git_diff", json!({})).await.output;
    assert!(diff.contains("-one\n+two\n"), "it still says what changed: {diff}");
    assert_eq!(git_plumbing(&world, &["show", "HEAD:g.txt"]), "staged\n", "what was staged is committed");
    // Control: git without protection does run the program.
    let _ = Command::new("git").arg("status").current_dir(world.root()).output();
    assert!(ran(&world).is_some(), "without protection, the poisoned setting must run its program");
}

async fn a_poisoned_sha256_repository_runs_nothing(factory: &impl Factory) {
    let world = repository(factory, &["--object-format=sha256"]);
    poison(&world);
    every_git_tool(&world).await;
    let diff = ok(&world, "git_diff", json!({})).await.output;
    assert!(diff.contains("-one\n+two\n"), "{diff}");
}

async fn a_filter_of_the_repository_is_reported(factory: &impl Factory) {
    let world = repository(factory, &[]);
    poison(&world);
    let outcome = world.call("git_add", json!({ "paths": ["f.txt"] })).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.output.contains("filter x=y"), "{}", outcome.output);
    assert_eq!(ran(&world), None);
}

async fn a_bare_repository_among_the_files_runs_nothing(factory: &impl Factory) {
    let world = factory.open(Setup {
        profile: Profile::Workspace,
        prepare: |home| {
            git(home, &["init", "-q", "--bare", "root"]);
        },
        ..Setup::default()
    });
    let evil = witness(&world);
    fs::create_dir(world.home().join("tree")).unwrap();
    for (key, value) in [("core.bare", "false"), ("core.worktree", "../tree"), ("core.fsmonitor", &evil)] {
        git(world.root(), &["config", key, value]);
    }
    every_git_tool(&world).await;
    let outcome = world.call("git_status", json!({})).await;
    assert_eq!(outcome.status, Status::Failed, "{}", outcome.output);
    let _ = Command::new("git").arg("status").current_dir(world.root()).output();
    assert!(ran(&world).is_some(), "without protection, the poisoned setting must run its program");
}

async fn files_outside_are_not_shown_through_the_config(factory: &impl Factory) {
    let world = repository(factory, &[]);
    fs::create_dir(world.home().join("outside")).unwrap();
    fs::write(world.home().join("outside/secret"), "the-secret\n").unwrap();
    world.put("secret", "old\n");
    git(world.root(), &["add", "."]);
    git(world.root(), &["commit", "-qm", "First"]);
    let outside = world.home().join("outside");
    git(world.root(), &["config", "core.worktree", outside.to_str().unwrap()]);
    assert!(git(world.root(), &["diff"]).contains("the-secret"), "without protection, the trap must work");
    assert_eq!(ok(&world, "git_diff", json!({})).await.output, "");
    ok(&world, "git_add", json!({ "paths": ["secret"] })).await;
    assert_eq!(ok(&world, "git_show", json!({ "revision": ":secret" })).await.output, "old\n");
}

/// Prepares a repository at the root, and one outside with a commit that must stay hidden.
fn beside_another(factory: &impl Factory) -> World {
    let world = repository(factory, &[]);
    let outside = world.home().join("outside");
    fs::create_dir(&outside).unwrap();
    git(&outside, &["init", "-q"]);
    fs::write(outside.join("f.txt"), "the-secret\n").unwrap();
    git(&outside, &["add", "."]);
    git(&outside, &["commit", "-qm", "the-secret"]);
    fs::write(outside.join("config"), "[user]\n\tname = the-secret\n").unwrap();
    fs::write(outside.join("notes"), "=the-secret <a@the-secret.example>\n").unwrap();
    world.put("f.txt", "one\n");
    git(world.root(), &["add", "."]);
    git(world.root(), &["commit", "-qm", "First"]);
    world.put("f.txt", "two\n");
    world
}

fn link(to: impl AsRef<Path>, at: impl AsRef<Path>) {
    let at = at.as_ref();
    match fs::symlink_metadata(at) {
        Ok(kind) if kind.is_dir() => fs::rename(at, at.with_extension("old")).unwrap(),
        Ok(_) => fs::remove_file(at).unwrap(),
        Err(_) => fs::create_dir_all(at.parent().unwrap()).unwrap(),
    }
    std::os::unix::fs::symlink(to, at).unwrap();
}

/// Moves the repository of the root away, and leaves a `.git` file that points to it.
fn split(world: &World, to: &str) {
    fs::create_dir_all(world.at(to).parent().unwrap()).unwrap();
    fs::rename(world.at(".git"), world.at(to)).unwrap();
    world.put(".git", format!("gitdir: {to}\n"));
}

/// Ways out of the root, with the text of the error that names each.
type WayOut = (&'static str, fn(&World, &Path));
const WAYS_OUT: [WayOut; 24] = [
    (".git points to", |world, outside| {
        fs::rename(world.at(".git"), world.at("old")).unwrap();
        world.put(".git", format!("gitdir: {}\n", outside.join(".git").display()));
    }),
    (".git points to", |world, _| {
        fs::rename(world.at(".git"), world.at("old")).unwrap();
        world.put(".git", "gitdir: ../outside/.git\r\n\n");
    }),
    (".git points to", |world, outside| {
        link("../outside/.git", world.at("way"));
        link("way", world.at(".git"));
        assert!(outside.exists());
    }),
    (".git points to", |world, outside| {
        fs::rename(world.at(".git"), world.at("old")).unwrap();
        git(outside, &["worktree", "add", "-q", "--detach", world.at("tree").to_str().unwrap()]);
        fs::rename(world.at("tree/.git"), world.at(".git")).unwrap();
    }),
    (".git points to", |world, _| {
        fs::rename(world.at(".git"), world.home().join("outside/mine")).unwrap();
        world.put(".git", "gitdir: ../outside/mine");
    }),
    ("commondir in .git points to", |world, outside| {
        world.put(".git/commondir", outside.join(".git").display().to_string());
    }),
    ("commondir in .git points to", |world, _| {
        split(world, "data/git");
        world.put("data/git/commondir", "../../../outside/.git\n");
    }),
    (".git/objects/info/alternates points to", |world, outside| {
        borrow(world, &outside.join(".git/objects").display().to_string());
    }),
    (".git/objects/info/alternates points to", |world, _| {
        borrow(world, "# borrowed\n../../../outside/.git/objects");
    }),
    ("middle/info/alternates points to", |world, outside| {
        borrow(world, "../../middle");
        world.put("middle/info/alternates", outside.join(".git/objects").display().to_string());
    }),
    ("has a path in quotes", |world, _| borrow(world, "\"../../../outsid\\145/.git/objects\"")),
    ("refers to objects on a server", |world, _| {
        world.put(".git/objects/info/http-alternates", "http://127.0.0.1:1/objects\n");
    }),
    ("the link .git/objects points to", |world, outside| {
        git(world.root(), &["update-ref", "HEAD", git_commit_of(world, outside).trim()]);
        link(outside.join(".git/objects"), world.at(".git/objects"));
    }),
    ("the link .git/refs/heads points to", |world, outside| {
        link(outside.join(".git/refs/heads"), world.at(".git/refs/heads"));
    }),
    ("the link .git/COMMIT_EDITMSG points to", |world, outside| {
        link(outside.join("notes"), world.at(".git/COMMIT_EDITMSG"));
    }),
    ("the link .git/logs/HEAD points to", |world, outside| {
        link(outside.join("notes"), world.at(".git/logs/HEAD"));
    }),
    ("the link .git/info/attributes points to", |world, outside| {
        link(outside.join("notes"), world.at(".git/info/attributes"));
    }),
    ("the link data/way points to", |world, outside| {
        world.put("data/.keep", "");
        link(outside.join("notes"), world.at("data/way"));
        link("../data", world.at(".git/data"));
    }),
    ("the link .git/config points to", |world, outside| {
        link(outside.join("config"), world.at(".git/config"));
    }),
    ("include.path in .git/config points to", |world, outside| {
        git(world.root(), &["config", "include.path", outside.join("config").to_str().unwrap()]);
    }),
    ("includeif.gitdir:/x y/.path in .git/config points to", |world, _| {
        git(world.root(), &["config", "includeIf.gitdir:/x y/.path", "../../outside/config"]);
    }),
    ("include.path in .git/../more points to", |world, _| {
        git(world.root(), &["config", "include.path", "../more"]);
        world.put("more", "[include]\n\tpath = ../outside/config\n");
    }),
    ("include.path in .git/config.worktree points to", |world, _| {
        git(world.root(), &["config", "extensions.worktreeConfig", "true"]);
        git(world.root(), &["config", "--worktree", "include.path", "../../outside/config"]);
    }),
    ("inner/.git points to", |world, outside| {
        let commit = git(outside, &["rev-parse", "HEAD^{tree}"]);
        assert!(!commit.is_empty());
        let head = git(world.root(), &["rev-parse", "HEAD"]);
        git(
            world.root(),
            &["update-index", "--add", "--cacheinfo", &format!("160000,{},inner", head.trim())],
        );
        world.put("inner/.git", format!("gitdir: {}\n", outside.join(".git").display()));
    }),
];

/// Makes the root's repository borrow objects, and points its branch to the outer commit.
fn borrow(world: &World, alternates: &str) {
    let commit = git(&world.home().join("outside"), &["rev-parse", "HEAD"]);
    let branch = git(world.root(), &["symbolic-ref", "HEAD"]);
    world.put(".git/objects/info/alternates", format!("{alternates}\n"));
    world.put(&format!(".git/{}", branch.trim()), commit);
}

/// Fetches the outer commit into the root's repository; returns its hash.
fn git_commit_of(world: &World, outside: &Path) -> String {
    git(world.root(), &["fetch", "-q", outside.to_str().unwrap()]);
    git(outside, &["rev-parse", "HEAD"])
}

async fn a_repository_that_points_outside_is_refused(factory: &impl Factory) {
    for (number, (names, lead)) in WAYS_OUT.into_iter().enumerate() {
        let world = beside_another(factory);
        let outside = world.home().join("outside");
        lead(&world, &outside);
        let before = world.outside();
        for (tool, arguments) in [
            ("git_status", json!({})),
            ("git_diff", json!({})),
            ("git_log", json!({})),
            ("git_show", json!({ "revision": "HEAD" })),
            ("git_add", json!({ "paths": ["f.txt"] })),
            ("git_commit", json!({ "message": "written" })),
        ] {
            let outcome = world.call(tool, arguments).await;
            assert_eq!(outcome.status, Status::Failed, "{number} {names}: {tool}: {}", outcome.output);
            assert!(outcome.output.contains(names), "{number} {names}: {tool}: {}", outcome.output);
            assert!(!outcome.output.contains("the-secret"), "{number}: {tool}: {}", outcome.output);
        }
        assert_eq!(world.outside(), before, "{number} {names}: something outside the root has changed");
    }
}

async fn a_split_repository_below_the_root_works(factory: &impl Factory) {
    let world = beside_another(factory);
    let inner = world.at("inner");
    fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "-q"]);
    git(&inner, &["commit", "-q", "--allow-empty", "-m", "Inner"]);
    git(world.root(), &["-c", "advice.addEmbeddedRepo=false", "add", "inner"]);
    git(world.root(), &["commit", "-qm", "With a submodule"]);
    fs::create_dir_all(world.at(".git/modules")).unwrap();
    fs::rename(inner.join(".git"), world.at(".git/modules/inner")).unwrap();
    world.put("inner/.git", "gitdir: ../.git/modules/inner\n");
    git(world.root(), &["config", "include.path", "../more"]);
    world.put("more", "[user]\n\tname = Included\n");
    world.put("lent/info/.keep", "");
    world.put(".git/objects/info/alternates", "# a comment\n../../lent\n");
    split(&world, "data/git");
    git(world.root(), &["config", "include.path", "../../more"]);
    world.put("data/git/objects/info/alternates", "../../../lent\n");
    link("../description", world.at("data/git/info/about"));
    world.put("inner/.git", "gitdir: ../data/git/modules/inner\n");
    let status = ok(&world, "git_status", json!({})).await.output;
    assert!(status.contains(" M f.txt\n") && !status.contains("inner"), "{status}");
    ok(&world, "git_add", json!({ "paths": ["f.txt"] })).await;
    ok(&world, "git_commit", json!({ "message": "Second" })).await;
    let log = ok(&world, "git_log", json!({ "limit": 1 })).await.output;
    assert!(log.ends_with(" Included: Second\n"), "{log}");
}

async fn files_that_the_config_names_are_not_read(factory: &impl Factory) {
    let world = beside_another(factory);
    let notes = world.home().join("outside/notes");
    let commits = "Shown <shown@example.org> <a@example.org>\n";
    fs::write(world.home().join("outside/names"), commits).unwrap();
    let names = world.home().join("outside/names");
    for (key, file) in
        [("core.attributesFile", &notes), ("mailmap.file", &names), ("core.excludesFile", &names)]
    {
        git(world.root(), &["config", key, file.to_str().unwrap()]);
    }
    assert!(
        git(world.root(), &["show", "HEAD"]).contains("shown@example.org"),
        "without protection, the trap must work"
    );
    let show = ok(&world, "git_show", json!({ "revision": "HEAD" })).await.output;
    assert!(show.contains("A Person <a@example.org>") && !show.contains("shown@"), "{show}");
    let diff = ok(&world, "git_diff", json!({})).await.output;
    assert!(diff.contains("+two\n") && !diff.contains("the-secret"), "{diff}");
}

async fn replaced_commits_are_shown_as_they_were_made(factory: &impl Factory) {
    let world = beside_another(factory);
    let first = git(world.root(), &["rev-parse", "HEAD"]);
    git(world.root(), &["commit", "-q", "--allow-empty", "--amend", "-m", "Replaced"]);
    let other = git(world.root(), &["rev-parse", "HEAD"]);
    git(world.root(), &["update-ref", "HEAD", first.trim()]);
    git(world.root(), &["replace", first.trim(), other.trim()]);
    assert!(git(world.root(), &["log"]).contains("Replaced"), "without protection, the trap must work");
    assert!(ok(&world, "git_log", json!({})).await.output.ends_with(": First\n"));
}

async fn an_unknown_setting_is_refused(factory: &impl Factory) {
    let world = beside_another(factory);
    git(world.root(), &["config", "core.newProgram", "evil"]);
    let outcome = world.call("git_status", json!({})).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.output.contains("the repository sets core.newprogram"), "{}", outcome.output);
}

async fn nothing_is_fetched(factory: &impl Factory) {
    let world = repository(factory, &[]);
    let evil = witness(&world);
    world.put("f.txt", "one\n");
    git(world.root(), &["add", "."]);
    git(world.root(), &["commit", "-qm", "First"]);
    for (key, value) in [
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", &format!("ext::{evil}")),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", &evil),
        ("protocol.ext.allow", "always"),
    ] {
        git(world.root(), &["config", key, value]);
    }
    let blob = git(world.root(), &["rev-parse", "HEAD:f.txt"]);
    let (folder, rest) = blob.trim().split_at(2);
    fs::remove_file(world.at(&format!(".git/objects/{folder}/{rest}"))).unwrap();
    let outcome = world.call("git_show", json!({ "revision": "HEAD" })).await;
    assert_eq!(outcome.status, Status::Failed, "{}", outcome.output);
    assert_eq!(ran(&world), None);
    let _ = Command::new("git").args(["show", "HEAD"]).current_dir(world.root()).output();
    assert!(ran(&world).is_some(), "without protection, the trap must work");
}
