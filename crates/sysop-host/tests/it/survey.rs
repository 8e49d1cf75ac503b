//! Tests of surveys.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use sysop_core::catalog::Profile;
use sysop_core::outcome::Status;
use sysop_core::policy::{
    Access, Dialect, Resolution, ResolvedFile, ResolvedTarget, Survey, Target, TerminalFocus,
};
use sysop_core::tool::ToolSpec;
use sysop_driver::port::Host;
use sysop_host::{LocalHost, LocalSettings, RemoteSettings, SshHost, SshSettings};

use crate::sshd::{Login, Sshd, shared};
use crate::world::{Factory, Setup, World, conformance_with_busybox};

conformance_with_busybox!(
    a_survey_tells_where_and_as_whom_a_command_would_run,
    the_survey_resolves_the_paths_of_file_tools,
    the_survey_tells_that_an_edit_cannot_apply_in_the_words_of_the_tool,
);

fn real(path: &std::path::Path) -> String {
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

async fn survey(world: &World, tool: &str, arguments: Value) -> Survey {
    world.host.survey(&world.tool_call(tool, arguments)).await
}

async fn a_survey_tells_where_and_as_whom_a_command_would_run(factory: &impl Factory) {
    let world = factory.full();
    let told = survey(&world, "bash", json!({"command": "df -h"})).await;
    let context = told.context;
    assert_eq!(context.root, Some(real(world.root())));
    assert_eq!(context.folder, context.root);
    assert_eq!(context.uid, Some(rustix::process::getuid().as_raw()));
    assert!(context.home.is_some_and(|home| home.starts_with('/')) && context.user.is_some());
    let is_bash = world.call("bash", json!({"command": "echo ${BASH_VERSION:+yes}"})).await.output;
    let expected = if is_bash.starts_with("yes") { Dialect::Bash } else { Dialect::Sh };
    assert_eq!((context.dialect, told.resolution), (expected, Resolution::Host));
    assert!(context.own_shell, "`bash` starts a shell for each command");
    assert_eq!(told.targets, []);
}

async fn the_survey_resolves_the_paths_of_file_tools(factory: &impl Factory) {
    let world = factory.workspace();
    world.put("sub/file", "");
    symlink("../../outside", world.at("sub/out")).unwrap();
    symlink("sub/nothing", world.at("dangling")).unwrap();
    let home = real(world.home());
    for (path, leads_to, missing) in [
        ("sub/file", format!("{home}/root/sub/file"), false),
        ("sub/out", format!("{home}/outside"), false),
        ("sub/out/new", format!("{home}/outside/new"), true),
        ("dangling", format!("{home}/root/sub/nothing"), false),
        ("new/deep/../b", format!("{home}/root/new/b"), true),
        ("~/a", format!("{home}/root/~/a"), true),
        ("a\nb*", format!("{home}/root/a\nb*"), true),
    ] {
        let told = survey(&world, "write_file", json!({"path": path, "content": ""})).await;
        let [resolved] = &told.targets[..] else { panic!("{path}: {told:?}") };
        assert_eq!(resolved.target.access, Access::Write);
        let file = ResolvedFile { path: leads_to, missing, ..ResolvedFile::default() };
        assert_eq!(resolved.files, [file], "{path}");
    }
}

async fn the_survey_tells_that_an_edit_cannot_apply_in_the_words_of_the_tool(factory: &impl Factory) {
    let world = factory.full();
    world.put("a.conf", "listen 80;\nlisten 80;\nworkers 4;\n");
    let edit = |path: &str, old: &str| json!({"path": path, "old_string": old, "new_string": "workers 8;"});
    for (arguments, part) in [
        (edit("a.conf", "workers 5;"), "the most similar line is line 3: workers 4;"),
        (edit("a.conf", "listen 80;"), "occurs 2 times (lines 1, 2)"),
        (edit("a.conf", "workers 8;"), "are the same"),
        (edit("b.conf", "workers 4;"), "does not exist"),
        (json!({"path": "a.conf"}), "invalid argument"),
    ] {
        let told = survey(&world, "edit_file", arguments.clone()).await.certain_failure;
        assert!(told.as_ref().is_some_and(|told| told.contains(part)), "{arguments}: {told:?}");
        let outcome = world.call("edit_file", arguments).await;
        assert_eq!((outcome.status, Some(outcome.output)), (Status::Failed, told));
    }
    assert_eq!(survey(&world, "edit_file", edit("a.conf", "workers 4;")).await.certain_failure, None);
    assert_eq!(survey(&world, "write_file", json!({"path": "a.conf"})).await.certain_failure, None);
}

/// A local or remote host; both kinds must resolve targets alike.
struct Resolver {
    local: Option<LocalHost>,
    remote: Option<SshHost>,
    home: tempfile::TempDir,
}

impl Resolver {
    fn local() -> Self {
        let home = tempfile::tempdir().unwrap();
        let settings = LocalSettings::new(home.path(), home.path().join("artefacts"));
        Self { local: Some(LocalHost::open(settings).unwrap()), remote: None, home }
    }

    fn ssh(login: Login) -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().to_str().unwrap().to_owned();
        let settings = RemoteSettings::new(shared(login), Some(root), home.path().join("artefacts"));
        Self { local: None, remote: Some(SshHost::open(settings).unwrap()), home }
    }

    fn all() -> [Self; 3] {
        [Self::local(), Self::ssh(Login::Own), Self::ssh(Login::Ash)]
    }

    fn folder(&self) -> String {
        real(self.home.path())
    }

    fn target(&self, word: &str, access: Access) -> Target {
        Target { word: word.to_owned(), glob: false, folder: Some(self.folder()), access }
    }

    fn glob(&self, word: &str) -> Target {
        Target { glob: true, ..self.target(word, Access::Write) }
    }

    async fn resolve(&self, targets: &[Target]) -> Option<Vec<ResolvedTarget>> {
        match (&self.local, &self.remote) {
            (Some(host), _) => host.resolve(targets.to_vec()).await,
            (None, Some(host)) => host.resolve(targets.to_vec()).await,
            (None, None) => None,
        }
    }

    async fn paths(&self, target: Target) -> Option<Vec<String>> {
        let resolved = self.resolve(&[target]).await.unwrap();
        let mut paths: Vec<String> = resolved.first()?.files.iter().map(|file| file.path.clone()).collect();
        paths.sort();
        Some(paths)
    }
}

#[tokio::test]
async fn globs_resolve_as_in_a_shell() {
    for host in Resolver::all() {
        let folder = host.folder();
        let at = |name: &str| format!("{folder}/{name}");
        for name in ["a.txt", "b.txt", ".c.txt", "d e.txt", "new\nline.txt", "other"] {
            std::fs::write(at(name), "").unwrap();
        }
        std::fs::create_dir(at("sub")).unwrap();
        std::fs::write(at("sub/x.txt"), "").unwrap();
        symlink("/etc/passwd", at("link.txt")).unwrap();
        let mut found = vec![at("*.txt"), at("a.txt"), at("b.txt"), at("d e.txt"), at("new\nline.txt")];
        found.push("/etc/passwd".to_owned());
        found.sort();
        assert_eq!(host.paths(host.glob("*.txt")).await, Some(found.clone()));
        found.retain(|path| !path.ends_with("*.txt"));
        found.push(format!("{folder}/*.txt"));
        found.sort();
        assert_eq!(host.paths(host.glob(&format!("{folder}/*.txt"))).await, Some(found));
        assert_eq!(host.paths(host.glob("s?b/*")).await, Some(vec![at("s?b/*"), at("sub/x.txt")]));
        assert_eq!(host.paths(host.glob("[.]c*")).await, Some(vec![at("[.]c*")]));
        assert_eq!(host.paths(host.glob("none*")).await, Some(vec![at("none*")]));
        assert_eq!(host.paths(host.glob("**/x")).await, None, "shells differ");
        for number in 0..1_001 {
            std::fs::write(at(&format!("sub/{number}")), "").unwrap();
        }
        assert_eq!(host.paths(host.glob("sub/*")).await, None, "too many");
    }
}

#[tokio::test]
async fn home_directories_are_resolved_by_user_name() {
    for host in Resolver::all() {
        let root = host.paths(host.target("~root/x", Access::Read)).await;
        let of_root = std::fs::read_to_string("/etc/passwd").unwrap();
        let home = of_root.lines().find(|line| line.starts_with("root:")).unwrap().split(':').nth(5).unwrap();
        assert_eq!(root, Some(vec![format!("{home}/x")]));
        assert_eq!(host.paths(host.target("~nobody-has-this-name/x", Access::Read)).await, None);
        let own = host.paths(host.target("~/x", Access::Read)).await.unwrap();
        assert!(own[0].ends_with("/x") && own[0].starts_with('/'), "{own:?}");
        let nowhere = Target { folder: None, ..host.target("x", Access::Read) };
        assert_eq!(host.paths(nowhere).await, None);
    }
}

#[tokio::test]
async fn link_loops_and_kernel_links_resolve_to_nothing() {
    for host in Resolver::all() {
        symlink("b", host.home.path().join("a")).unwrap();
        symlink("a", host.home.path().join("b")).unwrap();
        assert_eq!(host.paths(host.target("a", Access::Write)).await, None);
        assert_eq!(host.paths(host.target("/proc/self/cwd/x", Access::Write)).await, None);
        let null = host.paths(host.target("/dev/null", Access::Write)).await;
        assert_eq!(null, Some(vec!["/dev/null".to_owned()]));
        let stderr = host.paths(host.target("/dev/stderr", Access::Write)).await;
        assert_eq!(stderr, Some(vec!["/dev/stderr".to_owned()]));
    }
}

#[tokio::test]
async fn a_script_is_surveyed_with_its_text_and_age() {
    for host in Resolver::all() {
        // The first survey determines the start of the session.
        assert_eq!(host.resolve(&[]).await, Some(Vec::new()));
        let write = |name: &str, bytes: &[u8]| std::fs::write(host.home.path().join(name), bytes).unwrap();
        write("new.sh", b"rm -rf src\n\n");
        write("binary", b"a\0b");
        write("latin", b"\xff");
        write("large", &vec![b'#'; 64 * 1024 + 1]);
        let old = env!("CARGO_MANIFEST_DIR").to_owned() + "/Cargo.toml";
        let names = ["new.sh", "binary", "latin", "large", "missing", &old];
        let targets = names.map(|name| host.target(name, Access::Run));
        let resolved = host.resolve(&targets).await.unwrap();
        let files: Vec<&ResolvedFile> = resolved.iter().map(|resolved| &resolved.files[0]).collect();
        let scripts: Vec<Option<&str>> = files.iter().map(|file| file.script.as_deref()).collect();
        let toml = std::fs::read_to_string(&old).unwrap();
        let changed: Vec<bool> = files.iter().map(|file| file.changed_in_session).collect();
        if host.local.is_some() {
            assert_eq!(
                scripts,
                [Some("rm -rf src\n\n"), Some("a\0b"), None, None, None, Some(toml.as_str())]
            );
        } else {
            assert_eq!(scripts, [Some("rm -rf src\n\n"), None, None, None, None, Some(toml.as_str())]);
        }
        assert_eq!(changed, [true, true, true, true, false, false]);
    }
}

#[tokio::test]
async fn a_repository_is_surveyed_with_the_names_of_its_settings() {
    for host in [Resolver::local(), Resolver::ssh(Login::Own)] {
        let home = host.home.path();
        let git = |folder: &str, arguments: &[&str]| {
            let mut git = std::process::Command::new("git");
            let done = git.arg("-C").arg(home.join(folder)).args(arguments).output().unwrap();
            assert!(done.status.success(), "{arguments:?}: {done:?}");
        };
        let settings = async |folder: &str| {
            let target = host.target(folder, Access::Repository);
            let resolved = host.resolve(&[target]).await.unwrap();
            let names = resolved.first().map(|found| found.files[0].script.clone().expect("it has settings"));
            names.map(|names| names.lines().map(str::to_owned).collect::<Vec<_>>())
        };
        std::fs::create_dir_all(home.join("repo/deep/inner")).unwrap();
        git("repo", &["init", "-q"]);
        git("repo", &["config", "branch.main.remote", "x"]);
        let plain = settings("repo/deep").await.unwrap();
        assert!(
            plain.contains(&"core.bare".to_owned()) && !plain.iter().any(|name| name.starts_with("branch")),
            "{plain:?}"
        );
        git("repo/deep/inner", &["init", "-q"]);
        git(
            "repo/deep/inner",
            &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "a"],
        );
        git("repo/deep/inner", &["config", "diff.evil.textconv", "touch ran"]);
        assert_eq!(settings("repo").await, Some(plain), "a repository inside that the index does not name");
        git("repo", &["add", "deep/inner"]);
        assert!(settings("repo").await.unwrap().contains(&"diff.evil.textconv".to_owned()));
        git("repo", &["config", "core.fsmonitor", "touch ran; false"]);
        git("repo", &["config", "include.path", "../more"]);
        std::fs::write(home.join("repo/more"), "[diff]\n\texternal = touch ran\n").unwrap();
        let all = settings("repo/deep").await.unwrap();
        for name in ["diff.external", "core.fsmonitor", "include.path"] {
            assert!(all.contains(&name.to_owned()), "{name}: {all:?}");
        }
        assert!(!home.join("repo/ran").exists() && !home.join("repo/deep/inner/ran").exists());
        std::fs::write(home.join("repo/.git/config"), "[core").unwrap();
        std::fs::create_dir(home.join("plain")).unwrap();
        assert_eq!(settings("plain").await, Some(Vec::new()), "there is no repository");
    }
}

#[tokio::test]
async fn an_unreachable_host_yields_an_empty_survey() {
    let server = Sshd::start(Login::Own);
    let mut settings: SshSettings = server.settings();
    settings.destination = "nosuchhost.invalid".to_owned();
    let connection = sysop_host::SshConnection::new(settings).unwrap();
    let home = tempfile::tempdir().unwrap();
    let mut settings = RemoteSettings::new(connection, None, home.path().join("artefacts"));
    settings.profile = Profile::Full;
    let host = SshHost::open(settings).unwrap();
    let spec: &ToolSpec = host.tools().iter().find(|spec| spec.name == "bash").unwrap();
    assert_eq!(spec.name, "bash");
    let world = crate::world::Local.open(Setup::default());
    let told = host.survey(&world.tool_call("bash", json!({"command": "ls"}))).await;
    assert_eq!((told.resolution, told.targets, told.context), <_>::default());
    let why = told.unreachable.expect("it says why");
    assert!(why.contains("nosuchhost.invalid"), "{why}");
}

#[tokio::test]
async fn a_switched_link_is_noticed_by_the_next_survey() {
    let world = crate::world::Local.workspace();
    world.put("safe", "");
    symlink("safe", world.at("link")).unwrap();
    let call = world.tool_call("write_file", json!({"path": "link", "content": ""}));
    let before = world.host.survey(&call).await;
    std::fs::remove_file(world.at("link")).unwrap();
    symlink("/etc/hostname", world.at("link")).unwrap();
    let after = world.host.survey(&call).await;
    assert_eq!(before.targets[0].files[0].path, world.at("safe").to_string_lossy());
    assert_eq!(after.targets[0].files[0].path, "/etc/hostname");
}

#[tokio::test]
async fn read_only_git_runs_no_program_of_the_repository() {
    for world in [crate::world::Local.full(), crate::world::Ssh(Login::Own).full()] {
        let run = |command: &'static str| world.call("bash", json!({ "command": command }));
        run("git init -q; git config core.fsmonitor 'touch ran; false'; touch a").await;
        run("git status; git log; git diff").await;
        assert!(!world.at("ran").exists(), "a read-only command runs no program");
        run("git add a").await;
        assert!(world.at("ran").exists(), "a changing command runs the program");
    }
}

#[tokio::test]
async fn a_remote_terminal_reports_its_directory() {
    let setup = Setup { profile: Profile::Operator, ..Setup::default() };
    let world = crate::world::Ssh(Login::Own).open(setup);
    std::fs::create_dir(world.at("sub dir")).unwrap();
    let run =
        |command: &'static str| world.call("run_command", json!({"command": command, "reasoning": "a"}));
    let folder = async || {
        let told = survey(&world, "run_command", json!({"command": "ls", "reasoning": "a"})).await;
        assert_eq!(told.resolution, Resolution::Host, "{told:?}");
        told.context.folder
    };
    assert_eq!(folder().await, Some(real(world.root())));
    run("cd 'sub dir'").await;
    assert_eq!(folder().await, Some(real(&world.at("sub dir"))));
    // A prompt hook of the user, or a changed `PWD`, has no effect on the directory.
    let outcome = run("PWD=/; PROMPT_COMMAND='history -a'").await;
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
    assert_eq!(folder().await, Some(real(&world.at("sub dir"))));
    let focus = survey(&world, "send_keys", json!({"keys": "a", "reasoning": "a"})).await.terminal;
    assert_eq!(focus, TerminalFocus::Prompt { line: String::new(), at_end: true });
    run("sh -c 'printf \"\\033[?1049h\"; exec cat'").await;
    let focus = survey(&world, "send_keys", json!({"keys": "a", "reasoning": "a"})).await.terminal;
    assert_eq!(focus, TerminalFocus::FullScreen);
}

#[tokio::test]
async fn a_slow_startup_file_over_ssh_does_not_delay_the_call() {
    let setup = Setup { profile: Profile::Operator, ..Setup::default() };
    let world = crate::world::Ssh(Login::Own).open(setup);
    world.put("rc", "PS1='\\u@\\h\\$ '\nPROMPT_COMMAND='history -a'\n");
    let run =
        |command: &'static str| world.call("run_command", json!({"command": command, "reasoning": "a"}));
    for command in [". ./rc", "export PROMPT_COMMAND='history -a'", "unset PROMPT_COMMAND"] {
        let outcome = run(command).await;
        assert_eq!(outcome.exit_code, Some(0), "{command}: {outcome:?}");
    }
    assert_eq!(run("echo next").await.output, "next\n[exit code 0]");
}
