//! The folder where whole outputs and the earlier bytes of changed files are kept. Everything in it is for its
//! owner alone: files 0600, folders 0700. It is created when the first of them is.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Folder of the earlier bytes of files, by their BLAKE3.
const PREIMAGES: &str = "preimages";
/// Chunks that wait for the disk; what comes faster waits in its pipe.
const QUEUE_CHUNKS_MAX: usize = 16;

/// The folder.
#[derive(Debug, Clone)]
pub(crate) struct Artefacts {
    folder: PathBuf,
    bytes_max: u64,
}

impl Artefacts {
    pub(crate) fn new(folder: PathBuf, bytes_max: u64) -> Self {
        Self { folder, bytes_max }
    }

    /// The most bytes kept of one output.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Begins an artefact for the whole output of a call.
    pub(crate) fn begin(&self) -> ArtefactWriter {
        let name = format!("output-{:016x}.txt", rand::random::<u64>());
        let path = self.folder.join(&name);
        let (chunks, mut queue) = mpsc::channel::<Bytes>(QUEUE_CHUNKS_MAX);
        let bytes_max = self.bytes_max;
        let writing = tokio::task::spawn_blocking(move || {
            let mut file = create_private(&path)?;
            let mut room = bytes_max;
            let mut cut = false;
            while let Some(chunk) = queue.blocking_recv() {
                let fits = usize::try_from(room).unwrap_or(usize::MAX).min(chunk.len());
                file.write_all(&chunk[..fits])?;
                room -= fits as u64;
                cut |= fits < chunk.len();
            }
            Ok(cut)
        });
        ArtefactWriter { name, chunks, writing }
    }

    /// Keeps the bytes of a file as they were; the name finds them again. The same bytes are kept once.
    pub(crate) fn keep_preimage(&self, bytes: &[u8]) -> io::Result<String> {
        let name = format!("{PREIMAGES}/{}", blake3::hash(bytes).to_hex());
        let path = self.folder.join(&name);
        if path.exists() {
            return Ok(name);
        }
        let part = path.with_extension(format!("{:016x}", rand::random::<u64>()));
        let written = create_private(&part)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| std::fs::rename(&part, &path));
        if let Err(error) = written {
            // What there is of it is of no use; that it cannot be removed changes nothing.
            let _ = std::fs::remove_file(&part);
            return Err(error);
        }
        Ok(name)
    }

    /// The bytes of a file as they were. A name that is none of ours, or bytes that are not what the name
    /// says, are errors.
    pub(crate) fn preimage(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let hash = name
            .strip_prefix("preimages/")
            .filter(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no name of an artefact"))?;
        let mut bytes = Vec::new();
        File::open(self.folder.join(name))?.take(bytes_max).read_to_end(&mut bytes)?;
        if blake3::hash(&bytes).to_hex().as_str() != hash {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the artefact was changed"));
        }
        Ok(bytes)
    }
}

/// Writes one artefact beside the stream that it keeps.
#[derive(Debug)]
pub(crate) struct ArtefactWriter {
    name: String,
    chunks: mpsc::Sender<Bytes>,
    writing: JoinHandle<io::Result<bool>>,
}

/// A finished artefact.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) name: String,
    /// Whether it is only the beginning of the output.
    pub(crate) cut: bool,
}

impl ArtefactWriter {
    /// Waits until there is room for one more chunk. After an error there always is.
    pub(crate) async fn room(&self) -> Option<mpsc::Permit<'_, Bytes>> {
        self.chunks.reserve().await.ok()
    }

    /// Waits until all is written.
    pub(crate) async fn finish(self) -> io::Result<Kept> {
        drop(self.chunks);
        let cut = self.writing.await.map_err(io::Error::other)??;
        Ok(Kept { name: self.name, cut })
    }
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

    use bytes::Bytes;

    use super::Artefacts;

    #[test]
    fn preimages_come_back_and_are_private() {
        let home = tempfile::tempdir().unwrap();
        let artefacts = Artefacts::new(home.path().join("a/b"), 10);
        let name = artefacts.keep_preimage(b"before").unwrap();
        assert_eq!(artefacts.keep_preimage(b"before").unwrap(), name);
        assert_eq!(artefacts.preimage(&name, 100).unwrap(), b"before");
        let mode = |path: &str| home.path().join(path).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("a"), mode("a/b"), mode("a/b/preimages")), (0o700, 0o700, 0o700));
        assert_eq!(mode(&format!("a/b/{name}")), 0o600);
    }

    #[test]
    fn a_preimage_is_what_its_name_says_or_an_error() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("secret"), "s").unwrap();
        let artefacts = Artefacts::new(home.path().join("a"), 10);
        let name = artefacts.keep_preimage(b"before").unwrap();
        std::fs::write(home.path().join("a").join(&name), "other").unwrap();
        for name in [name.as_str(), "preimages/../../secret", "secret", "/etc/passwd", "preimages/"] {
            assert!(artefacts.preimage(name, 100).is_err(), "{name}");
        }
    }

    #[tokio::test]
    async fn an_output_is_kept_up_to_its_bound() {
        let home = tempfile::tempdir().unwrap();
        let artefacts = Artefacts::new(home.path().to_owned(), 10);
        let writer = artefacts.begin();
        for chunk in ["12345", "67", "890ab", "c"] {
            writer.room().await.expect("nothing is wrong").send(Bytes::from_static(chunk.as_bytes()));
        }
        let kept = writer.finish().await.unwrap();
        assert!(kept.cut);
        assert_eq!(std::fs::read(home.path().join(kept.name)).unwrap(), b"1234567890");
    }
}
