//! Embeds the page and the guide into the server: compresses the files that `cargo xtask web` and `cargo xtask docs`
//! built. In a published crate, both are part of the crate. If one is missing, embeds a small page that explains how to
//! build it.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Directories with the files of a site: below the server's root, in the repository, in a published crate, and instead
/// of a site that was not built.
const SITES: [(&str, &str, &str, &str); 2] = [
    ("", "../../web/dist", "site/page", "src/http/unbuilt"),
    ("help/", "../../docs/guide/book", "site/guide", "src/http/unbuilt-guide"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let packed = PathBuf::from(env::var("OUT_DIR")?);
    let mut table = String::from("[\n");
    let mut number = 0;
    for (below, built, shipped, instead) in SITES {
        let folder = site(built, shipped, instead)?;
        for path in files_below(&folder)? {
            let name = path.strip_prefix(&folder)?.to_str().ok_or("names of the page's files are UTF-8")?;
            let name = format!("{below}{name}");
            let bytes = compressed(&fs::read(&path)?)?;
            // A gzip stream ends with the checksum and length of its content.
            let tag: String = bytes[bytes.len() - 8..].iter().map(|byte| format!("{byte:02x}")).collect();
            let kept = packed.join(format!("{number}.gz"));
            number += 1;
            fs::write(&kept, bytes)?;
            writeln!(
                table,
                "    File {{ name: {name:?}, kind: {:?}, tag: \"W/\\\"{tag}\\\"\", packed: include_bytes!({:?}) }},",
                kind(&path),
                kept.display().to_string()
            )?;
        }
    }
    table.push(']');
    fs::write(packed.join("page.rs"), table)?;
    Ok(())
}

fn site(built: &str, shipped: &str, instead: &str) -> Result<PathBuf, Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let [built, shipped, instead] = [built, shipped, instead].map(|folder| here.join(folder));
    if shipped.join("index.html").is_file() {
        println!("cargo::rerun-if-changed={}", shipped.display());
        return Ok(shipped);
    }
    // Cargo reruns the script on every build if a watched directory is missing. A failure to create it has no other
    // effect.
    let _ = fs::create_dir_all(&built);
    println!("cargo::rerun-if-changed={}", built.display());
    println!("cargo::rerun-if-changed={}", instead.display());
    Ok(if built.join("index.html").is_file() { built } else { instead })
}

/// Lists all files in order, except hidden ones and source maps.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.is_dir() {
            found.extend(files_below(&path)?);
        } else if !hidden && path.extension().is_none_or(|extension| extension != "map") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn compressed(bytes: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("json") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
