//! Protocol of the socket of a multiplexing `ssh` (OpenSSH, `PROTOCOL.mux`, version 4). Opens sessions and connections
//! whose ends are pipes of sysop.
//!
//! Another `ssh` process per session would cost three times as much, and would report a refusal, a start and a broken
//! connection as one exit code.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

use crate::platform::SEND_FLAGS;

const VERSION: u32 = 4;
const HELLO: u32 = 0x0000_0001;
const NEW_SESSION: u32 = 0x1000_0002;
const ALIVE_CHECK: u32 = 0x1000_0004;
const NEW_STDIO_FORWARD: u32 = 0x1000_0008;
const PERMISSION_DENIED: u32 = 0x8000_0002;
const FAILURE: u32 = 0x8000_0003;
const ALIVE: u32 = 0x8000_0005;
const SESSION_OPENED: u32 = 0x8000_0006;

/// Id of a request. Each connection to the socket carries only one request.
const REQUEST: u32 = 1;
/// Disables the escape character.
const NO_ESCAPE: u32 = 0xffff_ffff;
/// Maximum packet size in bytes, as in OpenSSH.
const PACKET_BYTES_MAX: usize = 256 * 1024;

/// Reason why a session or connection was not opened, or may not have been opened.
#[derive(Debug)]
pub(super) enum MuxError {
    /// The request was not delivered completely.
    Gone,
    /// The request was refused with this reason; nothing was started.
    Refused(String),
    /// The socket failed after the request; the result is unknown.
    Broken(io::Error),
}

/// Open session or connection, which is closed on drop.
#[derive(Debug)]
pub(super) struct MuxChannel {
    _stream: UnixStream,
}

/// Opens a session for a command, with these descriptors as its standard input, output and error.
pub(super) async fn open_session(
    socket: &Path,
    command: &str,
    ends: [BorrowedFd<'_>; 3],
) -> Result<MuxChannel, MuxError> {
    let mut request = MuxPacket::new(NEW_SESSION);
    // Reserved field, then terminal, X11, agent and subsystem: all off.
    request.number(REQUEST).text("").number(0).number(0).number(0).number(0);
    request.number(NO_ESCAPE).text("").text(command);
    open(socket, request, &ends).await
}

/// Opens a connection from the remote host to a port that it can reach.
pub(super) async fn open_forward(
    socket: &Path,
    host: &str,
    port: u16,
    ends: [BorrowedFd<'_>; 2],
) -> Result<MuxChannel, MuxError> {
    let mut request = MuxPacket::new(NEW_STDIO_FORWARD);
    request.number(REQUEST).text("").text(host).number(u32::from(port));
    open(socket, request, &ends).await
}

pub(super) async fn is_alive(socket: &Path) -> bool {
    let asked = async {
        let mut stream = UnixStream::connect(socket).await?;
        let mut check = MuxPacket::new(ALIVE_CHECK);
        check.number(REQUEST);
        stream.write_all(&[hello(), check.finish()].concat()).await?;
        while receive(&mut stream).await?.0 != ALIVE {}
        io::Result::Ok(())
    };
    asked.await.is_ok()
}

async fn open(socket: &Path, request: MuxPacket, ends: &[BorrowedFd<'_>]) -> Result<MuxChannel, MuxError> {
    let mut stream = UnixStream::connect(socket).await.map_err(|_| MuxError::Gone)?;
    // The server's hello is read with its response: waiting for it first would cost a round trip.
    stream.write_all(&[hello(), request.finish()].concat()).await.map_err(|_| MuxError::Gone)?;
    for end in ends {
        send_descriptor(&stream, *end).await.map_err(|_| MuxError::Gone)?;
    }
    loop {
        let (kind, body) = receive(&mut stream).await.map_err(MuxError::Broken)?;
        match kind {
            HELLO => {}
            SESSION_OPENED => return Ok(MuxChannel { _stream: stream }),
            PERMISSION_DENIED | FAILURE => return Err(MuxError::Refused(reason(&body))),
            other => {
                let odd = format!("unexpected response {other:#x}");
                return Err(MuxError::Broken(io::Error::new(io::ErrorKind::InvalidData, odd)));
            }
        }
    }
}

async fn send_descriptor(stream: &UnixStream, end: BorrowedFd<'_>) -> io::Result<()> {
    stream
        .async_io(Interest::WRITABLE, || {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut carried = SendAncillaryBuffer::new(&mut space);
            let ends = [end];
            let fits = carried.push(SendAncillaryMessage::ScmRights(&ends));
            debug_assert!(fits, "the buffer has space for one descriptor");
            let sent = sendmsg(stream.as_fd(), &[IoSlice::new(&[0])], &mut carried, SEND_FLAGS)?;
            if sent == 1 { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
        })
        .await
}

/// Receives a packet. Returns its type and content.
async fn receive(stream: &mut UnixStream) -> io::Result<(u32, Vec<u8>)> {
    let length = stream.read_u32().await? as usize;
    if !(4..=PACKET_BYTES_MAX).contains(&length) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "invalid packet length"));
    }
    let kind = stream.read_u32().await?;
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).await?;
    Ok((kind, body))
}

/// Returns the text of a response, which consists of a request id and a string.
fn reason(body: &[u8]) -> String {
    let text = body.get(8..).unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

fn hello() -> Vec<u8> {
    let mut hello = MuxPacket::new(HELLO);
    hello.number(VERSION);
    hello.finish()
}

struct MuxPacket(Vec<u8>);

impl MuxPacket {
    fn new(kind: u32) -> Self {
        let mut packet = Self(vec![0; 4]);
        packet.number(kind);
        packet
    }

    fn number(&mut self, number: u32) -> &mut Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        let length = u32::try_from(text.len()).expect("the length of a request is bounded");
        self.number(length);
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - 4).expect("the length of a request is bounded");
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}
