//! The files of the page and of the guide (`help/`), embedded and compressed when the server was built.
//!
//! Files below `assets/` have a content hash in their name and are cached forever; all others are revalidated on each
//! use.

use std::io::Read as _;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;

struct File {
    /// Path below the page, without a leading `/`.
    name: &'static str,
    kind: &'static str,
    /// Value of `ETag`.
    tag: &'static str,
    packed: &'static [u8],
}

static FILES: &[File] = &include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Returns true if the web page is part of this build; otherwise, the server has only a note in its place.
pub fn has_page() -> bool {
    FILES.iter().any(|file| file.name.starts_with("assets/"))
}

/// Directory of the files with a content hash in their name.
const ASSETS: &str = "assets/";
/// URL path of the guide, and the file that is sent for it.
const GUIDE: [&str; 2] = ["/help/", "help/index.html"];
/// Only the browser may cache the file, and it must revalidate the file on each use.
const REVALIDATE: HeaderValue = HeaderValue::from_static("private, no-cache");
const IMMUTABLE: HeaderValue = HeaderValue::from_static("private, max-age=31536000, immutable");

/// `GET /`.
pub(super) async fn index(headers: HeaderMap) -> Response {
    send("index.html", &headers)
}

/// `GET /assets/{name}`.
pub(super) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    send(&format!("{ASSETS}{name}"), &headers)
}

/// Answers a request for a file outside `assets/`, such as `/favicon.svg` or a page of the guide. Returns `None` if
/// there is no such file.
pub(super) fn file(path: &str, headers: &HeaderMap) -> Option<Response> {
    let [guide, first] = GUIDE;
    if path == guide.trim_end_matches('/') {
        // Links in the guide are relative to its directory.
        return Some((StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, guide)]).into_response());
    }
    let name = if path == guide { first } else { path.strip_prefix('/').unwrap_or(path) };
    let known = !name.starts_with(ASSETS) && FILES.iter().any(|file| file.name == name);
    known.then(|| send(name, headers))
}

pub(super) fn send(name: &str, headers: &HeaderMap) -> Response {
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        let why = "no such file; reload the page";
        return super::problem::of(StatusCode::NOT_FOUND, sysop_wire::ErrorCode::BadMessage, why);
    };
    let keep = if name.starts_with(ASSETS) { IMMUTABLE } else { REVALIDATE };
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let common = [
        (header::CACHE_CONTROL, keep),
        (header::ETAG, HeaderValue::from_static(file.tag)),
        (header::VARY, HeaderValue::from_static("Accept-Encoding")),
    ];
    if known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == file.tag)) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(file.kind))];
    if takes_gzip(headers) {
        let packed = [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
        return (common, kind, packed, file.packed).into_response();
    }
    let mut plain = Vec::new();
    GzDecoder::new(file.packed).read_to_end(&mut plain).expect("the build compressed the file");
    (common, kind, plain).into_response()
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    let mut codings = lines.flat_map(|line| line.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = weight.split_once('=').is_some_and(|(_, weight)| weight.trim().parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn body(response: Response) -> Vec<u8> {
        axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("it is whole").to_vec()
    }

    fn asking(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[tokio::test]
    async fn assets_are_equal_packed_and_plain_and_support_etags() {
        for file in FILES {
            let plain = send(file.name, &HeaderMap::new());
            assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
            let packed = send(file.name, &asking(&[(header::ACCEPT_ENCODING, "br, gzip;q=0.5")]));
            assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
            assert_eq!(packed.headers()[header::ETAG], file.tag);
            let mut unpacked = Vec::new();
            GzDecoder::new(body(packed).await.as_slice()).read_to_end(&mut unpacked).expect("gzip");
            assert_eq!(body(plain).await, unpacked, "{}", file.name);
            let known = send(file.name, &asking(&[(header::IF_NONE_MATCH, file.tag)]));
            assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
            assert!(body(known).await.is_empty());
        }
    }

    #[test]
    fn a_client_that_refuses_gzip_gets_plain_files() {
        for line in ["", "identity", "br, gzip;q=0", "gzip; q=0.0", "deflate"] {
            assert!(!takes_gzip(&asking(&[(header::ACCEPT_ENCODING, line)])), "{line}");
        }
        assert!(takes_gzip(&asking(&[(header::ACCEPT_ENCODING, "GZIP")])));
    }

    #[test]
    fn a_missing_asset_is_not_found() {
        for name in ["", "assets/", "assets/../index.html", "../Cargo.toml", ".stamp"] {
            assert_eq!(send(name, &HeaderMap::new()).status(), StatusCode::NOT_FOUND, "{name}");
        }
        let is_file = |path: &str| file(path, &HeaderMap::new()).is_some();
        assert!(!is_file("/assets/x") && is_file("/index.html"));
    }

    #[tokio::test]
    async fn the_guide_is_at_help() {
        let without_slash = file("/help", &HeaderMap::new()).expect("it redirects");
        assert_eq!(without_slash.status(), StatusCode::PERMANENT_REDIRECT);
        assert_eq!(without_slash.headers()[header::LOCATION], "/help/");
        let first = file("/help/", &HeaderMap::new()).expect("the guide, or how to build it");
        assert_eq!(first.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        let first = String::from_utf8(body(first).await).expect("UTF-8");
        assert!(first.contains("guide") && !first.contains("<script>"), "{first}");
        assert!(file("/help/no-such-page.html", &HeaderMap::new()).is_none());
    }
}
