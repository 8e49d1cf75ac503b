//! `sysop serve` behind the proxies of the guide: their real programs with the guide's settings, a certificate of the
//! test and free ports.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use crate::World;
use crate::exposed::ServeProcess;
use crate::support::{DEADLINE, Mock, say};

/// Command line of the server in the guide.
const SERVE: &str = "sysop serve --behind-proxy --allow-host ops.example.org";

/// A proxy that forwards to a server; it ends with the value.
struct ReverseProxy {
    child: Child,
    port: u16,
    certificate: PathBuf,
}

impl Drop for ReverseProxy {
    fn drop(&mut self) {
        // The proxy may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Writes a certificate for `localhost` with its key.
fn certify(folder: &Path) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    fs::write(folder.join("ops.pem"), &cert).unwrap();
    fs::write(folder.join("ops.key"), &key).unwrap();
    fs::write(folder.join("ops-and-key.pem"), format!("{cert}{key}")).unwrap();
}

impl ReverseProxy {
    /// Starts a proxy with its settings in `docs/guide/proxies`, adapted to this machine.
    fn start(folder: &Path, settings: &str, (server, port): (SocketAddr, u16), command: &[&str]) -> Self {
        certify(folder);
        let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/proxies").join(settings);
        let text = fs::read_to_string(&guide).unwrap();
        let text = text
            .replace("127.0.0.1:8765", &server.to_string())
            .replace("ops.example.org:443", &format!("localhost:{port}"))
            .replace("listen 443", &format!("listen 127.0.0.1:{port}"))
            .replace("bind :443", &format!("bind 127.0.0.1:{port}"))
            .replace("ops.example.org", "localhost")
            .replace("/etc/ssl", &folder.display().to_string());
        let path = folder.join(settings);
        fs::write(&path, text).unwrap();
        let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
        let child = Command::new(command[0])
            .args(&command[1..])
            .arg(&path)
            .env("PATH", search)
            .env("HOME", folder)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; `cargo xtask setup` installs it", command[0]));
        let mut proxy = Self { child, port, certificate: folder.join("ops.pem") };
        let until = Instant::now() + DEADLINE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(proxy.child.try_wait().unwrap().is_none(), "{settings}: the proxy ended");
            assert!(Instant::now() < until, "{settings}: the proxy does not listen");
            std::thread::yield_now();
        }
        proxy
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    fn curl(&self, arguments: &[&str], path: &str) -> String {
        let output: Output = Command::new("curl")
            .args(["--silent", "--show-error", "--include", "--http1.1", "--max-time", "60", "--cacert"])
            .arg(&self.certificate)
            .args(arguments)
            .arg(format!("{}{path}", self.url()))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }
}

/// Checks sign-in, page, guide, socket, event stream and the refusal of cross-origin pages through a proxy.
fn works_behind(settings: &str, command: &[&str]) {
    let mock = Mock::start(&[("hello", vec![say("The answer came through.")])]);
    let world = World::with_openai(&mock.url());
    let port = free_port();
    // The proxy of the guide has the port of HTTPS, which no host name mentions.
    let serve = SERVE.replace("ops.example.org", &format!("localhost:{port} --port 0"));
    let server = ServeProcess::with(&world, &serve.split(' ').skip(1).collect::<Vec<_>>());
    let folder = tempfile::tempdir().unwrap();
    let proxy = ReverseProxy::start(folder.path(), settings, (server.address, port), command);
    let bearer = format!("Authorization: Bearer {}", server.token);

    let without = proxy.curl(&[], "/api/hosts");
    assert!(without.starts_with("HTTP/1.1 401"), "{settings}: {without}");
    // The browser uses HTTPS, so the cookie is for HTTPS alone.
    let visit = proxy.curl(&[], &format!("/?token={}", server.token));
    let cookie = visit.lines().find(|line| line.to_lowercase().starts_with("set-cookie: __host-sysop-"));
    let cookie = cookie.unwrap_or_else(|| panic!("{settings}: no cookie: {visit}"));
    assert!(cookie.trim_end().ends_with("; Secure"), "{settings}: {cookie}");
    for page in ["/", "/help/"] {
        let shown = proxy.curl(&["--header", &bearer], page);
        assert!(shown.starts_with("HTTP/1.1 200") && shown.contains("<html"), "{settings} {page}: {shown}");
    }
    let foreign =
        proxy.curl(&["--header", &bearer, "--header", "Origin: https://evil.example"], "/api/hosts");
    assert!(foreign.starts_with("HTTP/1.1 403"), "{settings}: {foreign}");

    // The client uses a WebSocket.
    let client = World::new()
        .variable("SYSOP_TOKEN", &server.token)
        .variable("SSL_CERT_FILE", &proxy.certificate.display().to_string());
    let mut attached = client.start_with_input(&["connect", &proxy.url(), "--plain", "hello"]);
    attached.out.wait_for_text("The answer came through.");
    attached.end_input();
    assert_eq!(attached.finish().code, Some(0), "{settings}");

    // The stream of events arrives while it is open, not only at its end.
    let sessions = proxy.curl(&["--header", &bearer], "/api/agent/sessions");
    let id = sessions.split("\"sessionId\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let id = id.unwrap_or_else(|| panic!("{settings}: no session: {sessions}"));
    let events = format!("{}/api/agent/sessions/{id}/events", proxy.url());
    let mut stream = Command::new("curl")
        .args(["--silent", "--no-buffer", "--max-time", "60", "--cacert"])
        .arg(&proxy.certificate)
        .args(["--header", &bearer, &events])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = crate::exposed::read_until(&mut stream.stdout.take().unwrap(), "The answer came through.");
    stream.kill().unwrap();
    stream.wait().unwrap();
    assert!(said.contains("assistant.message"), "{settings}: {said}");
}

#[test]
fn the_server_works_behind_nginx() {
    // A worker process would survive the kill of its master.
    works_behind("nginx.conf", &["nginx", "-p", ".", "-e", "stderr", "-g", "master_process off;", "-c"]);
}

#[test]
fn the_server_works_behind_caddy() {
    works_behind("Caddyfile", &["caddy", "run", "--adapter", "caddyfile", "--config"]);
}

#[test]
fn the_server_works_behind_haproxy() {
    works_behind("haproxy.cfg", &["haproxy", "-db", "-f"]);
}

#[test]
fn the_server_uses_a_socket_that_systemd_passes() {
    let world = World::new().variable("SYSOP_MODEL", "demo");
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let home = format!("HOME={}", world.home().display());
    let sysop = env!("CARGO_BIN_EXE_sysop");
    // Listens, and starts the server at the first connection. `--listen` of the server does not count.
    let arguments = ["-l", &address, "-E", &home, "-E", "SYSOP_MODEL=demo", "-E", "PATH", sysop, "serve"];
    let activator = world.start_program("systemd-socket-activate", &arguments);
    activator.err.wait_for_text("Listening on");
    let health = Command::new("curl")
        .args(["--silent", "--show-error", "--retry", "20", "--retry-connrefused", "--max-time", "60"])
        .arg(format!("http://{address}/healthz"))
        .output()
        .unwrap();
    assert!(health.status.success(), "{}", String::from_utf8_lossy(&health.stderr));
    let said = activator.out.wait_for_text("\n");
    assert!(said.contains(&format!("http://{address}/")), "{said}");
    activator.signal(rustix::process::Signal::TERM);
    assert_eq!(activator.finish().code, Some(0));
}

/// A socket that is for another process is not used.
#[test]
fn a_socket_of_another_process_is_left_alone() {
    let world =
        World::new().variable("SYSOP_MODEL", "demo").variable("LISTEN_FDS", "1").variable("LISTEN_PID", "1");
    let server = ServeProcess::with(&world, &["serve", "--port", "0"]);
    assert_eq!(server.ask("GET", "/healthz", &[], "").status, 200);
}
