//! Tests of fences on the real kernel. If the kernel lacks the features, only the refusal to run is tested.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use sysop_core::catalog::Profile;
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{Fence, SandboxMode};
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_host::{LocalHost, LocalSettings, SandboxSupport};
use tempfile::TempDir;

use crate::world::DEADLINE;

const READ_ONLY: Fence = Fence::ReadOnly { network: false };

fn workspace(network: bool) -> Fence {
    Fence::Workspace { write: Vec::new(), network }
}

/// A root and a directory next to it, both outside of the system's temporary directories.
struct FencedWorld {
    home: TempDir,
    host: LocalHost,
    calls: AtomicU32,
}

impl FencedWorld {
    fn new() -> Self {
        Self::with(SandboxSupport::of_kernel(), Profile::Full)
    }

    fn with(sandbox: SandboxSupport, profile: Profile) -> Self {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for folder in ["root", "outside"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        let settings = LocalSettings::new(home.path().join("root"), home.path().join("artefacts"));
        let sandbox_mode = SandboxMode::Auto;
        let host = LocalHost::open(LocalSettings { sandbox, sandbox_mode, profile, ..settings }).unwrap();
        Self { home, host, calls: AtomicU32::new(0) }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    fn call(&self, tool: &str, arguments: Value) -> ToolCall {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        ToolCall {
            id: CallId::new(format!("call-{number}")),
            wire_id: None,
            name: tool.to_owned(),
            arguments: Arguments::Object(arguments),
        }
    }

    async fn tool(&self, tool: &str, arguments: Value, fence: Fence) -> Outcome {
        let (sink, cancel) = (DeltaSink::none(), CancellationToken::new());
        let run = async {
            if fence == Fence::Off {
                self.host.run(self.call(tool, arguments), sink, cancel).await
            } else {
                self.host.run_fenced(self.call(tool, arguments), fence, sink, cancel).await
            }
        };
        tokio::time::timeout(DEADLINE, run).await.expect("the call ends in time")
    }

    async fn bash(&self, command: &str, fence: &Fence) -> Outcome {
        self.tool("bash", json!({ "command": command }), fence.clone()).await
    }

    async fn terminal(&self, command: &str, fence: &Fence) -> Outcome {
        self.tool("run_command", json!({ "command": command, "reasoning": "a test" }), fence.clone()).await
    }
}

fn is_fenced_here() -> bool {
    SandboxSupport::of_kernel().is_usable()
}

#[tokio::test]
async fn a_call_that_must_be_fenced_fails_without_kernel_support() {
    let world = FencedWorld::with(SandboxSupport::NONE, Profile::Full);
    for fence in [READ_ONLY, workspace(true)] {
        let outcome = world.bash("echo ran > made", &fence).await;
        assert_eq!(outcome.status, Status::Failed);
        assert!(outcome.output.contains("the sandbox is not enforced"), "{}", outcome.output);
    }
    let outcome = world.terminal("echo ran > made", &READ_ONLY).await;
    assert!(outcome.output.contains("the sandbox is not enforced"), "{}", outcome.output);
    assert!(!world.at("root/made").exists());
}

#[tokio::test]
async fn a_remote_or_other_host_refuses_a_fence() {
    struct Bare;
    #[async_trait::async_trait]
    impl Host for Bare {
        fn tools(&self) -> &[sysop_core::tool::ToolSpec] {
            &[]
        }
        async fn survey(&self, _: &ToolCall) -> sysop_core::policy::Survey {
            sysop_core::policy::Survey::default()
        }
        async fn run(&self, _: ToolCall, _: DeltaSink, _: CancellationToken) -> Outcome {
            panic!("it ran without its fence")
        }
    }
    let world = FencedWorld::with(SandboxSupport::NONE, Profile::Full);
    let call = world.call("bash", json!({ "command": "ls" }));
    let outcome = Bare.run_fenced(call, READ_ONLY, DeltaSink::none(), CancellationToken::new()).await;
    assert_eq!(outcome.status, Status::Failed);
}

#[tokio::test]
async fn running_outside_is_offered_only_with_a_sandbox() {
    let offers = |sandbox| {
        let world = FencedWorld::with(sandbox, Profile::Full);
        let bash = world.host.tools().iter().find(|spec| spec.name == "bash").unwrap().clone();
        bash.parameters["properties"].get("outside_sandbox").is_some()
    };
    assert!(!offers(SandboxSupport::NONE));
    assert_eq!(offers(SandboxSupport::of_kernel()), is_fenced_here());
}

#[tokio::test]
async fn a_workspace_fence_allows_writes_below_the_root_only() {
    if !is_fenced_here() {
        return;
    }
    let world = FencedWorld::new();
    fs::write(world.at("outside/kept"), "kept").unwrap();
    let outcome = world
        .bash(
            "mkdir -p a/b && echo x > a/b/c && mv a/b/c a/d && ln a/d a/e && rm a/e && cat a/d",
            &workspace(true),
        )
        .await;
    assert_eq!((outcome.status, outcome.output.as_str()), (Status::Ok, "x\n[exit code 0]"));
    let tmp = world.bash("f=$(mktemp) && echo x > $f && rm $f && echo x > /dev/null", &workspace(true)).await;
    assert_eq!(tmp.status, Status::Ok, "{}", tmp.output);
    for command in [
        "echo x > ../outside/new",
        "echo x >> ../outside/kept",
        "rm ../outside/kept",
        "mv a/d ../outside/moved",
        "mv ../outside/kept a/",
        "ln -s ../outside out; echo x > out/new",
        "mkdir ../outside/folder",
        "sh -c 'setsid sh -c \"echo x > ../outside/new\"'",
    ] {
        let outcome = world.bash(command, &workspace(true)).await;
        assert_eq!(outcome.status, Status::Failed, "{command}");
        assert!(outcome.output.contains("Permission denied"), "{command}: {}", outcome.output);
    }
    let left: Vec<_> =
        fs::read_dir(world.at("outside")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["kept"]);
    assert_eq!(fs::read_to_string(world.at("outside/kept")).unwrap(), "kept");
    fs::write(world.at("outside/ours"), "this process is not fenced").unwrap();
}

#[tokio::test]
async fn a_link_that_replaces_the_root_opens_nothing() {
    if !is_fenced_here() {
        return;
    }
    let world = FencedWorld::new();
    fs::rename(world.at("root"), world.at("moved")).unwrap();
    std::os::unix::fs::symlink("outside", world.at("root")).unwrap();
    let outcome = world.bash("echo x > new", &workspace(true)).await;
    assert!(outcome.output.contains("Permission denied"), "{}", outcome.output);
    assert!(!world.at("outside/new").exists());
}

#[tokio::test]
async fn a_workspace_fence_allows_writes_below_configured_paths() {
    if !is_fenced_here() {
        return;
    }
    let world = FencedWorld::new();
    let write = vec![world.at("outside").to_str().unwrap().to_owned(), "/no/such/folder".to_owned()];
    let outcome = world.bash("echo x > ../outside/new", &Fence::Workspace { write, network: false }).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.output);
}

#[tokio::test]
async fn a_command_stopped_by_the_sandbox_gets_one_line_of_explanation() {
    if !is_fenced_here() {
        return;
    }
    let world = FencedWorld::new();
    let outcome = world.bash("echo x > ../outside/new", &workspace(false)).await;
    let root = fs::canonicalize(world.at("root")).unwrap();
    let line = format!(
        "[exit code 1]\n[sysop: this ran in a sandbox (writable: {}, /tmp, /var/tmp; no network). If the sandbox is \
         the cause, call again with outside_sandbox=true and a reason; the user will be asked.]",
        root.display()
    );
    assert!(outcome.output.ends_with(&line), "{}", outcome.output);
    for command in ["echo Permission denied", "exit 3"] {
        let outcome = world.bash(command, &workspace(false)).await;
        assert!(!outcome.output.contains("[sysop:"), "{}", outcome.output);
    }
    let unfenced = world.bash("echo Permission denied; exit 1", &Fence::Off).await;
    assert!(!unfenced.output.contains("[sysop:"), "{}", unfenced.output);
}

/// Records a file tree with contents and metadata.
fn snapshot(folder: &Path, seen: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stat = fs::symlink_metadata(&path).unwrap();
        let content = if stat.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let owner = (stat.uid(), stat.gid(), stat.nlink());
        let times = (stat.mtime(), stat.mtime_nsec(), stat.ctime(), stat.ctime_nsec());
        seen.insert(path.clone(), format!("{:o} {owner:?} {times:?} {content:?}", stat.mode()));
        if stat.is_dir() {
            snapshot(&path, seen);
        }
    }
}

fn tree(world: &FencedWorld) -> BTreeMap<PathBuf, String> {
    let mut seen = BTreeMap::new();
    ["root", "outside"].iter().for_each(|folder| snapshot(&world.at(folder), &mut seen));
    seen
}

/// Commands that change something; `F` stands for a file and `D` for a directory.
const CHANGES: &[&str] = &[
    "echo x > F",
    "echo x >> F",
    ": > F",
    ": >| F",
    "echo x 1<> F >&1",
    "exec 3<>F; echo x >&3",
    "truncate -s 0 F",
    "tee F < /dev/null",
    "dd if=/dev/zero of=F count=1 conv=notrunc",
    "cp /etc/hostname F",
    "sed -i s/a/b/ F",
    "install /etc/hostname D/new",
    "touch F",
    "touch -d 2001-01-01 F",
    "touch D/new",
    "mkdir D/new",
    "rmdir D/empty",
    "rm -f F",
    "rm -rf D",
    "unlink F",
    "mv F D/new",
    "mv F F.new",
    "mv D D.new",
    "ln F D/hard",
    "ln -s F D/soft",
    "mkfifo D/fifo",
    "mknod D/null c 1 3",
    "mknod D/disk b 8 0",
    "chmod 777 F",
    "chmod -R 777 D",
    "chown 1:1 F",
    "chgrp 1 F",
    "perl -e 'truncate(\"F\", 0) or exit 1'",
    "perl -e 'utime(0, 0, \"F\") or exit 1'",
    "perl -e 'chmod(0777, \"F\") or exit 1'",
    "perl -e 'open(my $f, \"<\", \"F\") or exit 0; chmod(0777, $f) or exit 1'",
    "perl -e 'rename(\"F\", \"D/new\") or exit 1'",
    "perl -e 'link(\"F\", \"D/new\") or exit 1'",
    "perl -e 'use Socket; socket(my $s, PF_UNIX, SOCK_STREAM, 0); bind($s, sockaddr_un(\"D/sock\")) or exit 1'",
    "perl -e 'exit(syscall(188, \"F\", \"user.a\", \"b\", 1, 0) == 0 ? 0 : 1)'",
    "perl -e 'exit(syscall(452, -100, \"F\", 0777, 0) == 0 ? 0 : 1)'",
    "perl -e 'open(my $f, \"<\", \"F\") or exit 0; ioctl($f, 0x40086602, pack(\"L!\", 0x40)) or exit 1'",
    "chattr +A F",
    "tar cf D/new.tar /etc/hostname",
    "git init D",
    "unshare -Ur sh -c 'echo x > F'",
    "unshare -Urm sh -c 'mount -t tmpfs none D && echo x > D/new'",
    "setsid sh -c 'echo x > F'",
    "nohup sh -c 'echo x > F'",
    "(cd D && echo x > new)",
    "bash -c 'echo x > F' & wait $!",
];

#[tokio::test]
async fn a_read_only_fence_prevents_file_changes() {
    if !is_fenced_here() {
        return;
    }
    let world = FencedWorld::new();
    for place in ["root", "outside"] {
        fs::create_dir_all(world.at(place).join("folder/empty")).unwrap();
        fs::write(world.at(place).join("file"), "a").unwrap();
        fs::write(world.at(place).join("folder/file"), "a").unwrap();
        std::os::unix::fs::symlink("file", world.at(place).join("link")).unwrap();
    }
    let before = tree(&world);
    let mut script = String::new();
    for place in ["root", "outside"] {
        for file in ["file", "link", "folder/file"] {
            let (file, folder) = (world.at(place).join(file), world.at(place).join("folder"));
            for change in CHANGES {
                let command =
                    change.replace('F', file.to_str().unwrap()).replace('D', folder.to_str().unwrap());
                script.push_str(&format!("( {command}\n) > /dev/null 2>&1\n"));
            }
        }
    }
    let outcome = world.bash(&script, &READ_ONLY).await;
    assert!(outcome.exit_code.is_some(), "{}", outcome.output);
    let after = tree(&world);
    for (path, was) in &before {
        assert_eq!(after.get(path), Some(was), "{} changed", path.display());
    }
    assert_eq!(before.len(), after.len(), "{after:?}");
    // Control: without a fence the same commands do change files.
    world.bash(&script, &Fence::Off).await;
    assert_ne!(tree(&world), before);
}

#[tokio::test]
async fn a_read_only_fence_prevents_writes_everywhere() {
    if !is_fenced_here() {
        return;
    }
    let world = FencedWorld::new();
    let name = format!("sysop-fence-{}", std::process::id());
    for folder in ["/tmp", "/var/tmp", "/dev/shm", "/etc", "/run", "/root", "$HOME"] {
        let outcome = world.bash(&format!("echo x > {folder}/{name}"), &READ_ONLY).await;
        assert_eq!(outcome.status, Status::Failed, "{folder}");
        assert!(!Path::new(folder).join(&name).exists(), "{folder}");
    }
    for file in
        ["/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/$PPID/oom_score_adj", "/dev/pts/0"]
    {
        let outcome = world.bash(&format!("echo 0 > {file}"), &READ_ONLY).await;
        assert_eq!(outcome.status, Status::Failed, "{file}");
    }
}

#[tokio::test]
async fn the_private_temporary_directory_is_removed_with_the_command() {
    if !is_fenced_here() {
        return;
    }
    let world = FencedWorld::new();
    let outcome =
        world.bash("f=$(mktemp) && echo x > $f && mkdir $TMPDIR/a && echo $TMPDIR", &READ_ONLY).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.output);
    let folder = outcome.output.lines().next().unwrap();
    assert!(folder.contains("sysop-"), "{folder}");
    assert_eq!(fs::symlink_metadata(folder).unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn read_only_commands_work_behind_a_read_only_fence() {
    if !is_fenced_here() {
        return;
    }
    let world = FencedWorld::new();
    fs::write(world.at("root/file"), "b\na\n").unwrap();
    let made = world
        .bash("git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm m", &Fence::Off);
    assert_eq!(made.await.status, Status::Ok);
    for command in [
        "ls -la / ~ .",
        "cat file",
        "sort file | uniq -c",
        "grep -r --exclude-dir=.git a .",
        "find . -name file",
        "stat file",
        "git status --short && git log --oneline && git diff",
        "ps aux",
        "df -h",
        "free",
        "id && whoami && hostname && uname -a",
        "uptime",
        "cat <<END\nhere\nEND",
        "head -1 <(cat file)",
        "find . -type f -print0 | xargs -0 wc -l",
        "tar cf - . | tar tf -",
        "echo x | tee /dev/null > /dev/null && echo err >&2",
        "echo out > /dev/stdout",
        "timeout 5 true",
        "nice true",
        "sleep 5 & kill %1; wait; true",
        "mktemp -u",
        "command -v ip > /dev/null && ip -brief address || true",
        "command -v ss > /dev/null && ss -tln || true",
        "diff <(ls) <(ls)",
        "env | sort | head -3",
        "du -sh .",
    ] {
        let outcome = world.bash(command, &READ_ONLY).await;
        let said = &outcome.output;
        assert_eq!(outcome.status, Status::Ok, "{command}: {said}");
        assert!(!said.contains("denied") && !said.contains("not permitted"), "{command}: {said}");
    }
}

#[tokio::test]
async fn git_tools_work_behind_a_read_only_fence() {
    if !is_fenced_here() {
        return;
    }
    let world = FencedWorld::with(SandboxSupport::of_kernel(), Profile::Workspace);
    let git = std::process::Command::new("git").args(["init", "-q"]).arg(world.at("root")).status().unwrap();
    assert!(git.success());
    fs::write(world.at("root/new"), "x").unwrap();
    let outcome = world.tool("git_status", json!({}), READ_ONLY).await;
    assert!(outcome.status == Status::Ok && outcome.output.contains("?? new"), "{}", outcome.output);
    let outcome = world.tool("git_add", json!({ "paths": ["new"] }), READ_ONLY).await;
    assert_eq!(outcome.status, Status::Failed, "{}", outcome.output);
}

/// Commands that exit with 0 if they reach a port of this machine.
fn connections(tcp: u16, udp: u16) -> [String; 4] {
    [
        format!("exec 3<>/dev/tcp/127.0.0.1/{tcp}"),
        format!("echo x > /dev/udp/127.0.0.1/{udp}"),
        "perl -e 'use Socket; socket(my $s, PF_INET, SOCK_RAW, 1) or exit 1'".to_owned(),
        "perl -e 'socket(my $s, 17, 3, 0) or exit 1'".to_owned(),
    ]
}

#[tokio::test]
async fn nothing_connects_without_a_network() {
    if !is_fenced_here() {
        return;
    }
    let world = FencedWorld::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    let commands = connections(tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    for fence in [READ_ONLY, workspace(false)] {
        for command in &commands {
            let outcome = world.bash(command, &fence).await;
            assert_eq!(outcome.status, Status::Failed, "{command}");
        }
        let said = world.bash(&commands[0], &fence).await.output;
        assert!(said.contains("[sysop: this ran in a sandbox"), "{said}");
    }
    assert_eq!(tcp.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(udp.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    for fence in [Fence::ReadOnly { network: true }, workspace(true), Fence::Off] {
        for command in &commands[..2] {
            let outcome = world.bash(command, &fence).await;
            assert_eq!(outcome.status, Status::Ok, "{command}: {}", outcome.output);
        }
    }
}

#[tokio::test]
async fn root_keeps_no_capability_that_changes_the_machine() {
    if !is_fenced_here() {
        return;
    }
    let world = FencedWorld::new();
    let outcome = world.bash("grep -E 'CapEff|CapPrm|CapInh|CapAmb' /proc/self/status", &READ_ONLY).await;
    // CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE and CAP_SYSLOG.
    let allowed = 1 << 2 | 1 << 19 | 1_u64 << 34;
    for line in outcome.output.lines().filter(|line| line.starts_with("Cap")) {
        let held = u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap();
        assert_eq!(held & !allowed, 0, "{line}");
    }
    // The commands set values that are already set, so they are harmless outside a fence.
    for command in ["hostname $(hostname)", "renice -n 0 1"] {
        let outcome = world.bash(command, &READ_ONLY).await;
        assert_eq!(outcome.status, Status::Failed, "{command}: {}", outcome.output);
    }
}

#[tokio::test]
async fn a_fence_keeps_signals_from_processes_outside() {
    if !is_fenced_here() {
        return;
    }
    let world = FencedWorld::new();
    let ours = std::process::id();
    for fence in [READ_ONLY, workspace(true)] {
        let outcome = world.bash(&format!("kill -0 {ours}"), &fence).await;
        assert_eq!(outcome.status, Status::Failed, "{}", outcome.output);
    }
    assert_eq!(world.bash(&format!("kill -0 {ours}"), &Fence::Off).await.status, Status::Ok);
}

#[tokio::test]
async fn a_fenced_command_can_be_stopped_and_times_out() {
    if !is_fenced_here() {
        return;
    }
    let world = FencedWorld::new();
    let outcome =
        world.tool("bash", json!({ "command": "tail -f /dev/null", "timeout_s": 1 }), READ_ONLY).await;
    assert_eq!(outcome.status, Status::Timeout);
}

#[tokio::test]
async fn the_fenced_terminal_is_a_shell_of_its_own() {
    if !is_fenced_here() {
        return;
    }
    let world = Arc::new(FencedWorld::new());
    fs::create_dir(world.at("root/folder")).unwrap();
    let outcome = world.terminal("mark=shared; echo x > made; echo done", &Fence::Off).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.output);
    assert!(world.at("root/made").exists());
    let outcome = world.terminal("cd folder; echo [$mark] $(tty)", &READ_ONLY).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.output);
    assert!(outcome.output.contains("[] /dev/pts/"), "{}", outcome.output);
    let outcome = world.terminal("pwd; echo x > made", &READ_ONLY).await;
    assert!(
        outcome.output.contains(&*world.at("root/folder").to_string_lossy()),
        "its folder lasts: {}",
        outcome.output
    );
    assert!(outcome.output.contains("Permission denied"), "{}", outcome.output);
    assert!(outcome.output.contains("[sysop: this ran in a sandbox"), "{}", outcome.output);
    assert!(!world.at("root/folder/made").exists());
    let outcome =
        world.terminal("echo x > $TMPDIR/a && cat $TMPDIR/a && echo tty > /dev/tty", &READ_ONLY).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.output);
    let outcome = world.terminal("echo [$mark]", &Fence::Off).await;
    assert!(outcome.output.contains("[shared]"), "{}", outcome.output);
}
