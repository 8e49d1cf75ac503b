//! Prompt images in the artifact directory.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sysop_core::image::{IMAGE_BYTES_MAX, ImageError, ImageRef, check};

use super::artifacts::Artifacts;

#[derive(Debug, thiserror::Error)]
pub enum ImageStoreError {
    #[error(transparent)]
    Refused(#[from] ImageError),
    #[error("cannot store the image: {0}")]
    Io(#[from] io::Error),
}

/// Checks an image and stores it in the artifact directory. `name` is the file name, for display. Blocks. Fails if the
/// image is not accepted, or if the directory cannot be written.
pub fn store_image(folder: &Path, bytes: &[u8], name: &str) -> Result<ImageRef, ImageStoreError> {
    let header = check(bytes)?;
    let artifact = artifacts(folder).store_image(bytes, header.format)?;
    Ok(ImageRef::new(artifact, header, name))
}

/// Checks an image file and stores it in the artifact directory. Returns `None` if there is no such file. Fails if
/// the file cannot be read, is not an image, or is too large; the error is one sentence that names the file. Blocks.
pub fn store_image_file(folder: &Path, path: &Path) -> Result<Option<ImageRef>, String> {
    let shown = path.display();
    let bytes = match read_image_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| format!("cannot read {shown}: {error}"))?,
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    store_image(folder, &bytes, &name).map(Some).map_err(|error| format!("{shown}: {error}"))
}

/// Reads a file, up to one byte more than the maximum size of an image.
fn read_image_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    let mut bytes = Vec::new();
    file.take(IMAGE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the image that an artifact holds. Blocks. Fails if it is missing, was changed, or is not an image.
pub fn load_image(folder: &Path, artifact: &str) -> io::Result<Vec<u8>> {
    artifacts(folder).image(artifact, IMAGE_BYTES_MAX as u64)
}

fn artifacts(folder: &Path) -> Artifacts {
    Artifacts::new(folder.to_owned(), IMAGE_BYTES_MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::{load_image, store_image};

    #[test]
    fn images_are_stored_once_and_only_images_are_loaded() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("artefacts");
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x05\0\0\0\x04\x08\x02\0\0\0";
        let image = store_image(&folder, png, "/tmp/a.png").unwrap();
        assert_eq!(image.to_string(), "image 5×4 a.png");
        assert_eq!(store_image(&folder, png, "b.png").unwrap().artifact, image.artifact);
        assert_eq!(load_image(&folder, &image.artifact).unwrap(), png);
        assert!(store_image(&folder, b"text", "a.png").unwrap_err().to_string().starts_with("not a PNG"));
        std::fs::write(home.path().join("secret"), "s").unwrap();
        let escape = image.artifact.replace("image-", "image-../secret");
        for name in ["../secret", "secret", "", &escape] {
            assert!(load_image(&folder, name).is_err(), "{name}");
        }
        std::fs::write(folder.join(&image.artifact), "other").unwrap();
        assert!(load_image(&folder, &image.artifact).is_err(), "changed bytes are not sent to a model");
    }
}
