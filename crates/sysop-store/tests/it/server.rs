//! A PostgreSQL server for tests: private, in a directory of its own, reached by a socket there.
//!
//! The server is stopped and its directory removed when this process ends, however it ends: a shell at the other end of
//! a pipe does it. Tests of other crates may include this file by its path.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

/// Script of the shell that watches a server: `$1` is the directory of PostgreSQL's programs, `$2` the directory of the
/// server.
const PROCESS_SCRIPT: &str = r#"
trap '' PIPE # who is killed while it starts reads no answer
start() {
    "$1/pg_ctl" -s -w -D "$2/data" -l "$2/log" -o "-k '$2' -c listen_addresses= $3" start && echo started || {
        cat "$2/log" >&2
        echo failed
    }
}
stop() { [ ! -e "$2/data/postmaster.pid" ] || "$1/pg_ctl" -s -w -D "$2/data" -m "${4:-immediate}" stop; }
"$1/initdb" -U postgres -A trust -E UTF8 --locale=C --no-sync -D "$2/data" >"$2/log" 2>&1 &&
    printf 'local all locked scram-sha-256\nlocal all all trust\n' >"$2/data/pg_hba.conf"
start "$@"
while read -r word; do
    case $word in
        start) start "$@" ;;
        stop) stop "$@"; echo stopped ;;
        demote) stop "$1" "$2" "$3" fast; : >"$2/data/standby.signal"; start "$@" ;;
        promote) "$1/pg_ctl" -s -w -D "$2/data" promote && echo promoted ;;
    esac
done
stop "$@"
rm -rf "$2"
"#;

/// No data outlives the tests, so nothing has to reach the disk.
const SETTINGS: &str = "-c fsync=off -c full_page_writes=off -c max_connections=300 -c shared_buffers=32MB \
                        -c autovacuum=off -c log_min_messages=fatal";

/// A running server.
pub(crate) struct Server {
    folder: PathBuf,
    process: Mutex<PostgresProcess>,
    databases: AtomicU32,
}

struct PostgresProcess {
    shell: Child,
    answers: BufReader<ChildStdout>,
}

/// The server shared by the tests of this process.
pub(crate) fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(Server::start)
}

impl Server {
    /// Starts a server.
    pub(crate) fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("sysop-pg-").tempdir().expect("a folder").keep();
        let programs = programs();
        let user = server_user();
        if let Some((user, group)) = user {
            std::os::unix::fs::chown(&folder, Some(user), Some(group)).expect("root may give a folder away");
        }
        let mut shell = Command::new("/bin/sh");
        shell.current_dir(&folder).process_group(0);
        if let Some((user, group)) = user {
            shell.uid(user).gid(group);
        }
        let mut shell = shell
            .args(["-c", PROCESS_SCRIPT, "keeper"])
            .args([&programs, &folder])
            .arg(SETTINGS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let answers = BufReader::new(shell.stdout.take().expect("it is piped"));
        let process = Mutex::new(PostgresProcess { shell, answers });
        let server = Self { folder, process, databases: AtomicU32::new(0) };
        server.expect("started");
        server
    }

    /// Stops the server like a crash: connections get no message, nothing is flushed.
    pub(crate) fn crash(&self) {
        self.tell("stop");
        self.expect("stopped");
    }

    /// Starts the server again.
    pub(crate) fn start_again(&self) {
        self.tell("start");
        self.expect("started");
    }

    /// Starts the server again as a read-only standby.
    pub(crate) fn demote(&self) {
        self.tell("demote");
        self.expect("started");
    }

    /// Promotes a standby to a writable server.
    pub(crate) fn promote(&self) {
        self.tell("promote");
        self.expect("promoted");
    }

    /// Returns the directory of the server's socket.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates an empty database.
    pub(crate) async fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::SeqCst));
        self.admin(&format!("CREATE DATABASE {name}")).await;
        name
    }

    /// URL of a database, through the socket in `folder`.
    pub(crate) fn url_through(folder: &Path, database: &str) -> String {
        format!("postgres://postgres@localhost/{database}?host={}", folder.display())
    }

    /// URL of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        Self::url_through(&self.folder, database)
    }

    /// Runs SQL as the administrator.
    pub(crate) async fn admin(&self, sql: &str) {
        self.run("postgres", sql).await;
    }

    /// Runs SQL in a database.
    pub(crate) async fn run(&self, database: &str, sql: &str) {
        let options: PgConnectOptions = self.url(database).parse().expect("a URL");
        let mut connection = options.connect().await.expect("the server is there");
        connection.execute(AssertSqlSafe(sql.to_owned())).await.expect("SQL that is right");
    }

    fn tell(&self, word: &str) {
        let mut process = self.process.lock();
        let input = process.shell.stdin.as_mut().expect("it is piped");
        writeln!(input, "{word}").expect("the shell reads");
    }

    fn expect(&self, word: &str) {
        let mut line = String::new();
        let mut process = self.process.lock();
        process.answers.read_line(&mut line).expect("the shell answers");
        assert_eq!(line.trim_end(), word);
    }
}

/// Waits until the shell has cleaned up. The shared server is never dropped, but its pipe ends with the process.
impl Drop for Server {
    fn drop(&mut self) {
        let process = self.process.get_mut();
        drop(process.shell.stdin.take());
        process.shell.wait().ok();
    }
}

/// Directory of the programs of the newest PostgreSQL; Debian keeps them off the PATH.
fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|folder| folder.join("initdb").is_file());
    on_path.unwrap_or_else(|| {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        versions
            .map(|version| version.path().join("bin"))
            .filter(|folder| folder.join("initdb").is_file())
            .max_by_key(|folder| folder.parent().and_then(Path::file_name)?.to_str()?.parse::<u32>().ok())
            .expect("PostgreSQL is needed; `cargo xtask setup` installs it")
    })
}

/// Returns the user and group to run PostgreSQL as, if this process is root: those of its package's user, because
/// PostgreSQL refuses to run as root.
fn server_user() -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    let me = std::fs::metadata("/proc/self").map(|me| me.uid()).expect("Linux has /proc");
    if me != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("there are users");
    let line = users.lines().find(|line| line.starts_with("postgres:")).expect("its package makes a user");
    let mut numbers = line.split(':').skip(2).map(|number| number.parse().expect("ids are numbers"));
    Some((numbers.next().expect("a user"), numbers.next().expect("a group")))
}
