//! Ports of this machine that lead to a remote one, by ssh itself and by a program there.

use std::fs;

use sysop_host::SshError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::sshd::{Login, Sshd, shared};
use crate::world::DEADLINE;

#[tokio::test]
async fn a_remote_port_is_reached_through_the_forward() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let far = listener.local_addr().unwrap().to_string();
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut asked = Vec::new();
                stream.read_to_end(&mut asked).await.unwrap();
                asked.reverse();
                stream.write_all(&asked).await.unwrap();
            });
        }
    });
    let connection = shared(Login::Fish);
    let forward = connection.forward(&far).await.unwrap();
    assert!(forward.address().ip().is_loopback());
    let ask = |question: Vec<u8>| {
        let address = forward.address();
        async move {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let (mut read, mut write) = stream.split();
            let mut answer = Vec::new();
            let (sent, received) = tokio::join!(
                async {
                    write.write_all(&question).await?;
                    write.shutdown().await
                },
                read.read_to_end(&mut answer)
            );
            sent.unwrap();
            received.unwrap();
            answer
        }
    };
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let backwards: Vec<u8> = large.iter().rev().copied().collect();
    let (short, long) = tokio::join!(ask(b"abc".to_vec()), ask(large));
    assert_eq!(short, b"cba");
    assert!(long == backwards);
    let address = forward.address();
    drop(forward);
    serving.abort();
    // A task closes the port, the next time that it is polled.
    let closed = async {
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, closed).await.unwrap();
}

#[tokio::test]
async fn a_refused_forward_names_the_refusing_host() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = shared(Login::Own).forward(&free).await.unwrap_err();
    assert!(matches!(&error, SshError::ForwardNobody { far, .. } if *far == free), "{error:?}");
    let server = Sshd::with(Login::Own, "AllowTcpForwarding no");
    let error = server.connection().forward(&free).await.unwrap_err();
    assert!(matches!(&error, SshError::ForwardNobody { why, .. } if why.contains("refused")), "{error:?}");
    let server = Sshd::with(Login::Ash, "AllowTcpForwarding no");
    fs::remove_file(server.path("home/busybox/nc")).unwrap();
    let error = server.connection().forward(&free).await.unwrap_err();
    assert!(matches!(error, SshError::ForwardRefused { .. }), "{error:?}");
    let told = error.to_string();
    assert!(told.contains("there is neither `bash` nor `nc` to relay with; install `nc`"), "{told}");
}

/// A server that sends a greeting and then echoes all input. The receiver has the number of open connections.
async fn echo(greeting: &'static [u8]) -> (String, tokio::sync::watch::Receiver<usize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (open, connections) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let open = open.clone();
            open.send_modify(|count| *count += 1);
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                // A client that is killed may reset the connection.
                let _ = write.write_all(greeting).await;
                let _ = tokio::io::copy(&mut read, &mut write).await;
                open.send_modify(|count| *count -= 1);
            });
        }
    });
    (address, connections)
}

async fn wait_until_all_closed(connections: &mut tokio::sync::watch::Receiver<usize>) {
    tokio::time::timeout(DEADLINE, connections.wait_for(|open| *open == 0)).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_remote_program_connects_if_forwarding_is_disabled() {
    let (far, mut connections) = echo(b"hello").await;
    for login in [Login::Own, Login::Tcsh, Login::Ash] {
        let server = Sshd::with(login, "AllowTcpForwarding no");
        let forward = server.connection().forward(&far).await.unwrap();
        let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let mut stream = tokio::net::TcpStream::connect(forward.address()).await.unwrap();
        let (mut read, mut write) = stream.split();
        let mut received = vec![0; b"hello".len() + sent.len()];
        let carried = async { tokio::join!(write.write_all(&sent), read.read_exact(&mut received)) };
        let (written, read) = tokio::time::timeout(DEADLINE, carried).await.unwrap();
        written.unwrap();
        read.unwrap();
        assert!(received[..5] == *b"hello" && received[5..] == sent, "{login:?}");
        drop(stream);
        wait_until_all_closed(&mut connections).await;
    }
}

#[tokio::test]
async fn a_server_that_closes_ends_a_relayed_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let far = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(b"\x1ebye\x1e").await;
        }
    });
    for login in [Login::Own, Login::Ash] {
        let server = Sshd::with(login, "AllowTcpForwarding no");
        let forward = server.connection().forward(&far).await.unwrap();
        let mut stream = tokio::net::TcpStream::connect(forward.address()).await.unwrap();
        let mut received = Vec::new();
        tokio::time::timeout(DEADLINE, stream.read_to_end(&mut received)).await.unwrap().unwrap();
        assert_eq!(received, b"\x1ebye\x1e", "{login:?}");
    }
}

#[tokio::test]
async fn a_relayed_connection_ends_with_its_forward_and_with_ssh() {
    let (far, mut connections) = echo(b"hello").await;
    for login in [Login::Own, Login::Ash] {
        let server = Sshd::with(login, "AllowTcpForwarding no");
        for lost in [false, true] {
            let forward = server.connection().forward(&far).await.unwrap();
            let mut stream = tokio::net::TcpStream::connect(forward.address()).await.unwrap();
            stream.read_exact(&mut [0; 5]).await.unwrap();
            if lost {
                server.kill_connections();
            } else {
                drop(forward);
            }
            let mut rest = Vec::new();
            let ended = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut rest)).await;
            assert!(ended.unwrap().is_err() || rest.is_empty());
            wait_until_all_closed(&mut connections).await;
        }
    }
}
