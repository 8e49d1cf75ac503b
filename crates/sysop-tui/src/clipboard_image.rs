//! Reads an image from the clipboard with `wl-paste` or `xclip`.

use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use sysop_core::image;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use crate::ClipboardAccess;

/// Timeout for the program that reads the clipboard.
const READ_MAX: Duration = Duration::from_secs(5);
/// Maximum size of an image, in bytes.
const IMAGE_BYTES_MAX: u64 = 20 * 1024 * 1024;
/// Error message for a clipboard without an image.
const NO_IMAGE: &str = "no image on the clipboard; paste text with the terminal's own paste key";

/// Reads an image from the clipboard and writes it to a new file in `folder` that only its owner can read.
/// The error is one sentence for the user.
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
    read_with(program, arguments, folder).await
}

async fn read_with(program: &str, arguments: &[&str], folder: &Path) -> Result<PathBuf, String> {
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

/// Returns a program's standard output, or nothing if the program failed or printed too much.
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::{NO_IMAGE, read, read_with};
    use crate::ClipboardAccess;

    /// An image of one pixel.
    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    /// Writes a program that stands for `xclip`.
    fn program(folder: &Path, script: &str) -> String {
        let path = folder.join("reader");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    async fn pasted(script: &str) -> (tempfile::TempDir, Result<PathBuf, String>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("image.png"), STANDARD.decode(PNG).unwrap()).unwrap();
        let program = program(
            folder.path(),
            &script.replace("IMAGE", &folder.path().join("image.png").to_string_lossy()),
        );
        let read = read_with(&program, &["-o"], &folder.path().join("drafts")).await;
        (folder, read)
    }

    #[tokio::test]
    async fn an_image_on_the_clipboard_becomes_a_private_file() {
        let (_folder, read) = pasted("cat IMAGE").await;
        let path = read.expect("there is an image");
        assert_eq!(std::fs::read(&path).unwrap(), STANDARD.decode(PNG).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_clipboard_without_an_image_gives_a_clear_sentence() {
        assert_eq!(
            pasted("echo 'Error: target image/png not available' >&2; exit 1").await.1,
            Err(NO_IMAGE.to_owned())
        );
        let text = pasted("echo hello").await.1.expect_err("text is no image");
        assert!(text.starts_with("cannot use the image on the clipboard: "), "{text}");
        let missing =
            read_with("/nonexistent/xclip", &[], Path::new("/tmp")).await.expect_err("it is missing");
        assert!(missing.contains("install it"), "{missing}");
    }

    #[tokio::test]
    async fn over_ssh_and_without_a_desktop_nothing_is_run() {
        for access in [ClipboardAccess::Remote, ClipboardAccess::None] {
            let why = read(access, Path::new("/nonexistent")).await.expect_err("there is no clipboard");
            assert!(why.contains("@FILE"), "{why}");
        }
    }
}
