//! Reads the images for requests to models from the artifact directory.
//!
//! The loader wraps a session's provider, because messages and the log contain only references to images. The loader
//! also limits the images in a request, dropping the oldest ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use sysop_core::image::{REQUEST_IMAGE_BYTES_MAX, REQUEST_IMAGES_MAX};
use sysop_core::message::ModelRequest;
use sysop_driver::port::{ModelEvent, Provider};

/// Wraps a provider so that its requests contain the bytes of their images.
pub(super) fn with_images(provider: Arc<dyn Provider>, folder: PathBuf) -> Arc<dyn Provider> {
    Arc::new(ImageLoader { provider, folder })
}

struct ImageLoader {
    provider: Arc<dyn Provider>,
    folder: PathBuf,
}

impl Provider for ImageLoader {
    fn stream(&self, mut request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        let names = newest_first(&request);
        if names.is_empty() {
            return self.provider.stream(request);
        }
        let (provider, folder) = (Arc::clone(&self.provider), self.folder.clone());
        let loading = async move {
            let loaded = tokio::task::spawn_blocking(move || load(&folder, &names)).await;
            let (bytes, missing) = loaded.unwrap_or_default();
            request.images.bytes = bytes;
            let notice = missing.map(|name| {
                ModelEvent::Notice(format!(
                    "the image {name} is not stored on this machine; the model gets a placeholder"
                ))
            });
            futures::stream::iter(notice).chain(provider.stream(request))
        };
        futures::stream::once(loading).flatten().boxed()
    }
}

/// Returns the artifacts of a request's images without duplicates, newest first.
fn newest_first(request: &ModelRequest) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let images = request.messages.iter().rev().flat_map(|message| {
        message.message().images().collect::<Vec<_>>().into_iter().rev().map(|image| image.artifact.clone())
    });
    images.filter(|name| seen.insert(name.clone())).collect()
}

/// Loads images within the limits for a request. Also returns the name of the newest unreadable one, if any.
fn load(folder: &Path, names: &[String]) -> (BTreeMap<String, Arc<[u8]>>, Option<String>) {
    let (mut loaded, mut total, mut missing) = (BTreeMap::new(), 0, None);
    for name in names.iter().take(REQUEST_IMAGES_MAX) {
        match sysop_host::load_image(folder, name) {
            Ok(bytes) if total + bytes.len() > REQUEST_IMAGE_BYTES_MAX => break,
            Ok(bytes) => {
                total += bytes.len();
                loaded.insert(name.clone(), Arc::from(bytes));
            }
            Err(error) => {
                tracing::warn!(%error, name, "cannot read an image");
                missing = missing.or(Some(name.clone()));
            }
        }
    }
    (loaded, missing)
}
