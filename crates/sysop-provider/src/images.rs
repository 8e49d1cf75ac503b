//! Images in requests: their bytes in base64, and data URLs.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sysop_core::image::{ImageRef, RequestImages};

/// Text of the user message that carries the images of tool results, where results take text only.
pub(crate) const RESULT_IMAGES: &str = "Images of the results above, in order:";

/// An image in the form that APIs take.
pub(crate) struct EncodedImage {
    pub(crate) media_type: &'static str,
    pub(crate) base64: String,
}

impl EncodedImage {
    pub(crate) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.base64)
    }
}

pub(crate) fn encoded_images(images: &[ImageRef], request: &RequestImages) -> Vec<EncodedImage> {
    let encode = |image: &ImageRef| {
        let base64 = BASE64_STANDARD.encode(request.bytes_of(image)?);
        Some(EncodedImage { media_type: image.media_type.media_type(), base64 })
    };
    images.iter().filter_map(encode).collect()
}
