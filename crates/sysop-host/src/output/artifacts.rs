//! Artifact directory: full outputs, images, and pre-images of changed files. Only the owner can access its contents:
//! files have mode 0600, directories 0700. The directory is created with its first file.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sysop_core::image::ImageFormat;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Directory of pre-images, named by their BLAKE3 hash.
const PREIMAGES: &str = "preimages";
/// Size in bytes of a buffer, which is filled and then written in one operation.
pub(crate) const BATCH_BYTES: usize = 512 * 1024;
/// Maximum batches queued for the disk. While the queue is full, further output waits in its pipe.
const BATCHES_WAITING_MAX: usize = 2;

#[derive(Debug, Clone)]
pub(crate) struct Artifacts {
    folder: PathBuf,
    bytes_max: u64,
}

impl Artifacts {
    pub(crate) fn new(folder: PathBuf, bytes_max: u64) -> Self {
        Self { folder, bytes_max }
    }

    /// Returns the maximum number of bytes that are stored per output.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Starts the artifact of a call. `first` is the output of the call so far.
    pub(crate) fn begin(&self, mut first: Vec<u8>) -> ArtifactWriter {
        let name = format!("output-{:016x}.txt", rand::random::<u64>());
        let path = self.folder.join(&name);
        let fits = usize::try_from(self.bytes_max).unwrap_or(usize::MAX).min(first.len());
        let cut = fits < first.len();
        first.truncate(fits);
        let (full, mut to_write) = mpsc::channel::<WriteBatch>(BATCHES_WAITING_MAX);
        let (done, empty) = mpsc::channel(BATCHES_WAITING_MAX);
        let writing = tokio::task::spawn_blocking(move || {
            let mut file = create_private(&path)?;
            file.write_all(&first)?;
            drop(first);
            while let Some(WriteBatch { buffer, bytes }) = to_write.blocking_recv() {
                file.write_all(&buffer[..bytes])?;
                // Buffers are reused, because fresh memory costs more than the write. Fails only at the end,
                // without a receiver.
                let _ = done.try_send(buffer);
            }
            Ok(())
        });
        ArtifactWriter { name, room: self.bytes_max - fits as u64, cut, full, empty, writing }
    }

    pub(crate) async fn store_output(&self, bytes: &[u8]) -> io::Result<String> {
        self.begin(bytes.to_vec()).finish((Vec::new(), 0)).await.map(|kept| kept.name)
    }

    /// Returns the BLAKE3 hash of a stored output, in hex.
    pub(crate) async fn output_hash(&self, name: &str) -> io::Result<String> {
        let path = self.output_path(name)?;
        let reading = tokio::task::spawn_blocking(move || {
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(File::open(path)?)?;
            Ok(hasher.finalize().to_hex().to_string())
        });
        reading.await.map_err(io::Error::other)?
    }

    pub(crate) async fn remove_output(&self, name: &str) {
        let Ok(path) = self.output_path(name) else { return };
        // An error only leaves a duplicate.
        let _ = tokio::task::spawn_blocking(move || std::fs::remove_file(path)).await;
    }

    fn output_path(&self, name: &str) -> io::Result<PathBuf> {
        if is_output(name) {
            return Ok(self.folder.join(name));
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "invalid output name"))
    }

    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        create_private(&self.folder.join(name))
    }

    /// Stores the pre-image of a file and returns its name. Equal bytes are stored only once; storing them again
    /// updates the modification time of the stored file.
    pub(crate) fn store_preimage(&self, bytes: &[u8]) -> io::Result<String> {
        let name = format!("{PREIMAGES}/{}", blake3::hash(bytes).to_hex());
        self.store_named(&name, bytes)?;
        Ok(name)
    }

    /// Stores an image and returns its name. Equal bytes are stored only once, like pre-images.
    pub(crate) fn store_image(&self, bytes: &[u8], format: ImageFormat) -> io::Result<String> {
        let name = format!("image-{}.{}", blake3::hash(bytes).to_hex(), format.extension());
        self.store_named(&name, bytes)?;
        Ok(name)
    }

    /// Stores bytes under a name that contains their hash.
    fn store_named(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.folder.join(name);
        if File::open(&path).and_then(|file| file.set_modified(SystemTime::now())).is_ok() {
            return Ok(());
        }
        let part = path.with_extension(format!("{:016x}", rand::random::<u64>()));
        let written = create_private(&part)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| std::fs::rename(&part, &path));
        if let Err(error) = written {
            // A partial file is useless; failing to remove it changes nothing.
            let _ = std::fs::remove_file(&part);
            return Err(error);
        }
        Ok(())
    }

    /// Reads a pre-image. Fails if the name is invalid, or if the bytes do not match the hash in the name.
    pub(crate) fn preimage(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.read_hashed(name, preimage_hash(name), bytes_max)
    }

    /// Reads an image. Fails if the name is invalid, or if the bytes do not match the hash in the name.
    pub(crate) fn image(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.read_hashed(name, image_hash(name), bytes_max)
    }

    fn read_hashed(&self, name: &str, hash: Option<&str>, bytes_max: u64) -> io::Result<Vec<u8>> {
        let hash =
            hash.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "invalid artifact name"))?;
        let mut bytes = Vec::new();
        File::open(self.folder.join(name))?.take(bytes_max).read_to_end(&mut bytes)?;
        if blake3::hash(&bytes).to_hex().as_str() != hash {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the artifact was changed"));
        }
        Ok(bytes)
    }
}

pub(crate) fn is_output(name: &str) -> bool {
    let number = name.strip_prefix("output-").and_then(|rest| rest.strip_suffix(".txt"));
    number.is_some_and(|number| is_hex(number, 16))
}

pub(crate) fn is_preimage(name: &str) -> bool {
    preimage_hash(name).is_some()
}

pub(crate) fn is_image(name: &str) -> bool {
    image_hash(name).is_some()
}

fn image_hash(name: &str) -> Option<&str> {
    let (hash, extension) = name.strip_prefix("image-")?.split_once('.')?;
    (is_hex(hash, 64) && matches!(extension, "png" | "jpg" | "gif" | "webp")).then_some(hash)
}

fn preimage_hash(name: &str) -> Option<&str> {
    name.strip_prefix("preimages/").filter(|hash| is_hex(hash, 64))
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Writes one artifact while its output arrives, one buffer at a time.
#[derive(Debug)]
pub(crate) struct ArtifactWriter {
    name: String,
    room: u64,
    cut: bool,
    full: mpsc::Sender<WriteBatch>,
    empty: mpsc::Receiver<Vec<u8>>,
    writing: JoinHandle<io::Result<()>>,
}

/// Buffer and the number of bytes to write from it.
#[derive(Debug)]
struct WriteBatch {
    buffer: Vec<u8>,
    bytes: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ArtifactRef {
    pub(crate) name: String,
    /// True if only the beginning of the output was stored.
    pub(crate) cut: bool,
}

impl ArtifactWriter {
    /// Queues the first `bytes` bytes of the buffer for writing, up to the size limit, and waits while the queue is
    /// full. Afterwards, the buffer starts with the `held` bytes that followed the queued bytes. Cancel safe.
    pub(crate) async fn write_batch(&mut self, buffer: &mut Vec<u8>, bytes: usize, held: usize) {
        if self.room > 0
            && let Ok(place) = self.full.reserve().await
        {
            let mut next = self.empty.try_recv().unwrap_or_default();
            next.resize(next.len().max(BATCH_BYTES).max(2 * held), 0);
            next[..held].copy_from_slice(&buffer[bytes..bytes + held]);
            let fits = fitting(&mut self.room, &mut self.cut, bytes);
            place.send(WriteBatch { buffer: std::mem::replace(buffer, next), bytes: fits });
        } else {
            // The size limit is reached, or a write failed; `finish` returns the error.
            fitting(&mut self.room, &mut self.cut, bytes);
            buffer.copy_within(bytes..bytes + held, 0);
        }
    }

    /// Queues the last bytes and waits for all writes.
    pub(crate) async fn finish(mut self, (mut rest, bytes): (Vec<u8>, usize)) -> io::Result<ArtifactRef> {
        self.write_batch(&mut rest, bytes, 0).await;
        drop(self.full);
        self.writing.await.map_err(io::Error::other)??;
        Ok(ArtifactRef { name: self.name, cut: self.cut })
    }
}

/// Returns how many of `bytes` fit into `room`, and subtracts that number from `room`. Sets `cut` if some do not fit.
fn fitting(room: &mut u64, cut: &mut bool, bytes: usize) -> usize {
    let fits = usize::try_from(*room).unwrap_or(usize::MAX).min(bytes);
    *cut |= fits < bytes;
    *room -= fits as u64;
    fits
}

fn create_private(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::{Artifacts, BATCH_BYTES};

    #[test]
    fn pre_images_are_restored_and_readable_by_their_owner_only() {
        let home = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::new(home.path().join("a/b"), 10);
        let name = artifacts.store_preimage(b"before").unwrap();
        assert_eq!(artifacts.store_preimage(b"before").unwrap(), name);
        assert_eq!(artifacts.preimage(&name, 100).unwrap(), b"before");
        let mode = |path: &str| home.path().join(path).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("a"), mode("a/b"), mode("a/b/preimages")), (0o700, 0o700, 0o700));
        assert_eq!(mode(&format!("a/b/{name}")), 0o600);
    }

    #[test]
    fn a_pre_image_that_does_not_match_its_hash_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("secret"), "s").unwrap();
        let artifacts = Artifacts::new(home.path().join("a"), 10);
        let name = artifacts.store_preimage(b"before").unwrap();
        std::fs::write(home.path().join("a").join(&name), "other").unwrap();
        for name in [name.as_str(), "preimages/../../secret", "secret", "/etc/passwd", "preimages/"] {
            assert!(artifacts.preimage(name, 100).is_err(), "{name}");
        }
    }

    #[tokio::test]
    async fn an_output_artifact_is_bounded() {
        for chunks in [&["12345", "67", "890ab", "c"][..], &["1234567890ab"], &["12345", "67890", "a"]] {
            let home = tempfile::tempdir().unwrap();
            let artifacts = Artifacts::new(home.path().to_owned(), 10);
            let mut writer = artifacts.begin(chunks[0].as_bytes().to_vec());
            for chunk in &chunks[1..] {
                writer.write_batch(&mut chunk.as_bytes().to_vec(), chunk.len(), 0).await;
            }
            let kept = writer.finish((Vec::new(), 0)).await.unwrap();
            assert!(kept.cut);
            assert_eq!(std::fs::read(home.path().join(kept.name)).unwrap(), b"1234567890");
        }
    }

    #[tokio::test]
    async fn batches_stay_in_order_and_held_artifacts_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::new(home.path().to_owned(), u64::MAX);
        let mut writer = artifacts.begin(b"first".to_vec());
        let mut expected = b"first".to_vec();
        let mut buffer = b"--".to_vec();
        for number in 0..20_u8 {
            assert_eq!(buffer[..2], *b"--");
            buffer.truncate(2);
            buffer.extend(vec![number; BATCH_BYTES / 3]);
            expected.extend_from_slice(&buffer);
            let bytes = buffer.len();
            buffer.extend_from_slice(b"--not yet");
            writer.write_batch(&mut buffer, bytes, 2).await;
        }
        expected.extend_from_slice(b"--");
        let kept = writer.finish((buffer, 2)).await.unwrap();
        assert!(!kept.cut);
        assert!(std::fs::read(home.path().join(kept.name)).unwrap() == expected);
    }
}
