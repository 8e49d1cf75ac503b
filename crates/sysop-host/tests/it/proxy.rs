//! Proxy that simulates a failing network: it silently stops forwarding while frozen, or breaks a connection after a
//! number of bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Proxy to a port. Connections that were open during a freeze never recover; new ones work once the freeze is over.
#[derive(Clone)]
pub(crate) struct Proxy {
    port: u16,
    frozen: Arc<(Mutex<bool>, Condvar)>,
}

impl Proxy {
    pub(crate) fn start(to: u16) -> Self {
        Self::cut_after(to, u64::MAX)
    }

    /// Cuts each connection after it has carried `bytes` to the port.
    pub(crate) fn cut_after(to: u16, bytes: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Self { port, frozen: Arc::default() };
        let frozen = Arc::clone(&proxy.frozen);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let far = TcpStream::connect(("127.0.0.1", to)).unwrap();
                carry(near.try_clone().unwrap(), far.try_clone().unwrap(), Arc::clone(&frozen), bytes);
                carry(far, near, Arc::clone(&frozen), u64::MAX);
            }
        });
        proxy
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn freeze(&self) {
        *self.frozen.0.lock() = true;
    }

    pub(crate) fn thaw(&self) {
        *self.frozen.0.lock() = false;
        self.frozen.1.notify_all();
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, frozen: Arc<(Mutex<bool>, Condvar)>, most: u64) {
    std::thread::spawn(move || {
        let mut buffer = [0; 64 * 1024];
        let mut carried = 0;
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            frozen.1.wait_while(&mut frozen.0.lock(), |stop| *stop);
            carried += bytes as u64;
            if to.write_all(&buffer[..bytes]).is_err() || carried > most {
                break;
            }
        }
        // Both sides may already be closed.
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}
