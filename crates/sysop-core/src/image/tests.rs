//! Tests of image headers: the formats with their variants, the limits, and damaged files.

use proptest::prelude::*;

use super::{
    IMAGE_BYTES_MAX, IMAGE_SIDE_MAX, ImageError, ImageFormat, ImageHeader, ImageRef, check, format_of,
};

/// Files of one pixel that encoders wrote.
const WEBP_LOSSY: &[u8] = b"RIFF\x22\x00\x00\x00WEBPVP8 \x16\x00\x00\x000\x01\x00\x9d\x01*\x01\x00\x01\x00\x0e\xc0\xfe%\xa4\x00\x03p\x00\x00\x00\x00";
const WEBP_LOSSLESS: &[u8] =
    b"RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00/\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00";
const WEBP_EXTENDED: &[u8] = b"RIFFJ\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00ALPH\x0c\x00\x00\x00\x11\x07\x10\x11\xfd\x0fDD\xff\x03\x00\x00VP8 \x18\x00\x00\x00\x14\x01\x00\x9d\x01*\x01\x00\x01\x00\x00\x00\xfe\x00\x00\x0d\xc0\x00\xfe\xe6\xb5\x00\x00\x00";
const GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x01D\x00;";

fn png(width: u32, height: u32) -> Vec<u8> {
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(),
        &width.to_be_bytes(),
        &height.to_be_bytes(),
        b"\x08\x02\0\0\0",
    ]
    .concat()
}

fn gif(width: u16, height: u16) -> Vec<u8> {
    [b"GIF89a".as_slice(), &width.to_le_bytes(), &height.to_le_bytes(), b"\x80\0\0"].concat()
}

/// Returns a JPEG file whose start of frame has the marker `frame`, after a segment with a preview of another size.
fn jpeg(frame: u8, width: u16, height: u16) -> Vec<u8> {
    let preview = b"\xff\xe1\0\x0bEx\xff\xc0\0\x09\x08\0\x01".as_slice();
    let tables = b"\xff\xff\xdb\0\x04\0\x01\xff\xc4\0\x03\0".as_slice();
    let start = [0xff, frame, 0, 11, 8];
    [
        b"\xff\xd8".as_slice(),
        preview,
        tables,
        &start,
        &height.to_be_bytes(),
        &width.to_be_bytes(),
        b"\x01\x01\x11\0",
    ]
    .concat()
}

fn webp_lossy(width: u16, height: u16) -> Vec<u8> {
    [&WEBP_LOSSY[..26], &width.to_le_bytes(), &height.to_le_bytes()].concat()
}

fn webp_lossless(width: u32, height: u32) -> Vec<u8> {
    let bits = (width - 1) | (height - 1) << 14 | 1 << 28;
    [&WEBP_LOSSLESS[..21], &bits.to_le_bytes()].concat()
}

fn webp_extended(width: u32, height: u32) -> Vec<u8> {
    [&WEBP_EXTENDED[..24], &(width - 1).to_le_bytes()[..3], &(height - 1).to_le_bytes()[..3]].concat()
}

fn header(format: ImageFormat, width: u32, height: u32) -> Result<ImageHeader, ImageError> {
    Ok(ImageHeader { format, width, height })
}

#[test]
fn the_size_is_read_from_every_format() {
    assert_eq!(check(&png(37, 21)), header(ImageFormat::Png, 37, 21));
    assert_eq!(check(&gif(1280, 720)), header(ImageFormat::Gif, 1280, 720));
    for frame in [0xc0, 0xc1, 0xc2, 0xcf] {
        assert_eq!(check(&jpeg(frame, 640, 480)), header(ImageFormat::Jpeg, 640, 480));
    }
    for bytes in [webp_lossy(1999, 33), webp_lossless(1999, 33), webp_extended(1999, 33)] {
        assert_eq!(check(&bytes), header(ImageFormat::Webp, 1999, 33));
    }
}

#[test]
fn files_of_encoders_are_read() {
    for bytes in [WEBP_LOSSY, WEBP_LOSSLESS, WEBP_EXTENDED] {
        assert_eq!(check(bytes), header(ImageFormat::Webp, 1, 1));
    }
    assert_eq!(check(GIF), header(ImageFormat::Gif, 1, 1));
}

#[test]
fn large_images_are_refused_with_a_command_that_shrinks_them() {
    assert_eq!(check(&png(IMAGE_SIDE_MAX, IMAGE_SIDE_MAX)).map(|header| header.width), Ok(IMAGE_SIDE_MAX));
    let error = check(&png(10, IMAGE_SIDE_MAX + 1)).unwrap_err();
    assert_eq!(error, ImageError::TooLarge { width: 10, height: IMAGE_SIDE_MAX + 1 });
    assert!(error.to_string().contains("magick FILE -resize 1568x1568 out.png"), "{error}");
    let mut bytes = png(10, 10);
    bytes.resize(IMAGE_BYTES_MAX, 0);
    assert!(check(&bytes).is_ok());
    bytes.push(0);
    let error = check(&bytes).unwrap_err();
    assert!(error.to_string().starts_with("the image has 5.0 MB; at most 5 MB"), "{error}");
}

#[test]
fn other_files_are_not_images() {
    for bytes in
        [&b""[..], b"\x89PN", b"%PDF-1.7", b"<svg/>", b"RIFF\0\0\0\0WAVEfmt ", b"BM", b"GIF88a\x01\0\x01\0"]
    {
        assert_eq!(check(bytes), Err(ImageError::UnknownFormat), "{bytes:?}");
        assert_eq!(format_of(bytes), None);
    }
    assert_eq!(check(b"root:x:0:0:/root\n"), Err(ImageError::Text));
    assert_eq!(check(b"<?xml version='1.0'?>\n<svg/>\n"), Err(ImageError::UnknownFormat));
    for bytes in
        [png(0, 5), gif(5, 0), jpeg(0xda, 5, 5), jpeg(0xc0, 0, 5), b"RIFF\0\0\0\0WEBPVP9 1234".to_vec()]
    {
        assert_eq!(check(&bytes), Err(ImageError::NoSize), "{bytes:?}");
    }
}

#[test]
fn names_are_one_line_without_directories() {
    let of = |name: &str| ImageRef::new("a".to_owned(), check(&png(4, 3)).unwrap(), name);
    assert_eq!(of("/tmp/my photo.png").to_string(), "image 4×3 my photo.png");
    assert_eq!(of("").to_string(), "image 4×3");
    assert!(!of("a\u{1b}[2J\n.png").name.contains(['\u{1b}', '\n']));
    assert!(of(&"é".repeat(500)).name.len() <= 120);
}

#[test]
fn tokens_grow_with_the_area() {
    let of = |width, height| ImageRef::new("a".to_owned(), check(&png(width, height)).unwrap(), "").tokens();
    assert_eq!((of(28, 28), of(29, 28), of(1000, 1000)), (1, 2, 1296));
}

proptest! {
    #[test]
    fn a_truncated_file_has_no_size_or_the_true_one(
        width in 1..=IMAGE_SIDE_MAX, height in 1..=IMAGE_SIDE_MAX, kind in 0..7, keep in 0.0..1.0
    ) {
        let (w, h) = (u16::try_from(width).unwrap(), u16::try_from(height).unwrap());
        let bytes = match kind {
            0 => png(width, height),
            1 => gif(w, h),
            2 => jpeg(0xc0, w, h),
            3 => jpeg(0xc2, w, h),
            4 => webp_lossy(w, h),
            5 => webp_lossless(width, height),
            _ => webp_extended(width, height),
        };
        let whole = check(&bytes).unwrap();
        prop_assert_eq!((whole.width, whole.height), (width, height));
        let length = (bytes.len() as f64 * keep) as usize;
        match check(&bytes[..length]) {
            Ok(cut) => prop_assert_eq!(cut, whole),
            Err(error) => prop_assert!(matches!(error, ImageError::UnknownFormat | ImageError::NoSize)),
        }
    }

    #[test]
    fn any_bytes_are_safe(start in 0..4_usize, rest in proptest::collection::vec(any::<u8>(), 0..200)) {
        let starts: [&[u8]; 4] = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBPVP8L", b""];
        if let Ok(header) = check(&[starts[start], rest.as_slice()].concat()) {
            prop_assert!((1..=IMAGE_SIDE_MAX).contains(&header.width));
            prop_assert!((1..=IMAGE_SIDE_MAX).contains(&header.height));
        }
    }
}
