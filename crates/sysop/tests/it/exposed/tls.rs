//! TLS with certificate files.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustix::process::Signal;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{ServeProcess, eventually};
use crate::World;
use crate::support::DEADLINE;

/// Writes a certificate for `localhost` and its key into the world's home.
fn certify(world: &World) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(world.home().join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(world.home().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

/// Returns the response of a server whose certificate is trusted, or `None` if it presents another one.
fn ask(served: &ServeProcess, trusted: &CertificateDer<'static>, path: &str) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let tcp = TcpStream::connect(served.address).unwrap();
    tcp.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), tcp);
    let port = served.address.port();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost:{port}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    // The connection may end without a TLS close notification.
    let _ = stream.read_to_end(&mut answer);
    Some(String::from_utf8(answer).unwrap()).filter(|answer| answer.starts_with("HTTP"))
}

#[test]
fn the_server_uses_tls_and_reloads_its_certificate_on_sighup() {
    let world = World::new().variable("SYSOP_MODEL", "demo");
    let first = certify(&world);
    let (cert, key) = (world.home().join("cert.pem"), world.home().join("key.pem"));
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    // With TLS, the server may listen on external addresses.
    let served =
        ServeProcess::with(&world, &["serve", "--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key]);
    assert!(served.running.out.wait_for_text("\n").contains("https://"));
    let visit = ask(&served, &first, &format!("/?token={}", served.token)).unwrap();
    let cookie = visit.lines().find(|line| line.starts_with("set-cookie: __Host-sysop-")).expect("a cookie");
    assert!(cookie.ends_with("; Secure"), "{cookie}");
    assert!(visit.contains("strict-transport-security: "), "{visit}");
    assert_eq!(served.ask("GET", "/healthz", &[], "").status, 0, "plain HTTP gets no response");

    let second = certify(&world);
    served.running.signal(Signal::HUP);
    eventually("the new certificate is shown", || ask(&served, &second, "/healthz").is_some());
    assert!(ask(&served, &first, "/healthz").is_none());
    std::fs::write(key, "nothing").unwrap();
    served.running.signal(Signal::HUP);
    served.running.err.wait_for_text("cannot reload the TLS certificate");
    assert!(ask(&served, &second, "/healthz").is_some());
    served.running.signal(Signal::TERM);
    assert_eq!(served.running.finish().code, Some(0));
}

#[test]
fn unusable_tls_files_are_named() {
    let world = World::new().variable("SYSOP_MODEL", "demo");
    let run = world.finish(&["serve", "--port", "0", "--tls-cert", "none.pem", "--tls-key", "none.pem"]);
    assert!(run.code == Some(2) && run.err.contains("none.pem"), "{run:?}");
    let run = world.finish(&["serve", "--port", "0", "--tls-cert", "none.pem"]);
    assert!(run.code == Some(2) && run.err.contains("--tls-key"), "{run:?}");
}
