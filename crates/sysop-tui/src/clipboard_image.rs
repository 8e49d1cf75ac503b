//! Reads an image from the clipboard, by `wl-paste` or `xclip`.

use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use sysop_core::image;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use crate::ClipboardAccess;

/// Maximum time for the program that reads the clipboard.
const READ_MAX: Duration = Duration::from_secs(5);
/// Maximum size of an image, in bytes.
const IMAGE_BYTES_MAX: u64 = 20 * 1024 * 1024;
/// Sentence for a clipboard without an image.
const NO_IMAGE: &str = "no image on the clipboard; paste text with the terminal's own key";

/// Reads an image from the clipboard and writes it to a new file in `folder`, which only its owner can read. The error is
/// one sentence for the user.
pub(crate) async fn read(access: ClipboardAccess, folder: &Path) -> Result<PathBuf, String> {
    let (program, arguments): (&str, &[&str]) = match access {
        ClipboardAccess::Wayland => ("wl-paste", &["--no-newline", "--type", "image/png"]),
        ClipboardAccess::X11 => ("xclip", &["-selection", "clipboard", "-t", "image/png", "-o"]),
        ClipboardAccess::Remote => {
            return Err(
                "cannot read the clipboard over ssh; copy the image here and mention it as @FILE".to_owned()
            );
        }
        ClipboardAccess::None => {
            return Err("cannot read the clipboard without a desktop; mention an image as @FILE".to_owned());
        }
    };
    let bytes = match tokio::time::timeout(READ_MAX, output(program, arguments)).await {
        Err(_) => return Err(format!("{program} did not answer; mention an image as @FILE")),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!(
                "cannot read the clipboard without {program}; install it, or mention an image as @FILE"
            ));
        }
        Ok(Err(error)) => return Err(format!("cannot run {program} ({error})")),
        Ok(Ok(bytes)) => bytes,
    };
    if bytes.is_empty() {
        return Err(NO_IMAGE.to_owned());
    }
    image::check(&bytes).map_err(|why| format!("cannot use the image on the clipboard: {why}"))?;
    let path = folder.join(format!("clipboard-{}.png", milliseconds()));
    let written = write(folder, &path, &bytes);
    written.map(|()| path.clone()).map_err(|error| format!("cannot write {} ({error})", path.display()))
}

/// Returns the standard output of a program; empty if the program failed or printed too much.
async fn output(program: &str, arguments: &[&str]) -> io::Result<Vec<u8>> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let mut bytes = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(IMAGE_BYTES_MAX + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() as u64 > IMAGE_BYTES_MAX {
        return Err(io::Error::other("the image is larger than 20 MB"));
    }
    let status = child.wait().await?;
    Ok(if status.success() { bytes } else { Vec::new() })
}

fn write(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    io::Write::write_all(&mut file, bytes)
}

fn milliseconds() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis()
}
