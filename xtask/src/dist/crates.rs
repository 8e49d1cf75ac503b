//! Packages for crates.io: runs all checks that `cargo publish` makes before uploading.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::docs;
use crate::web;
use crate::workspace::{cargo, root, step};

/// Directory in the crate `sysop-server` with the built page and the built guide, so that a program built
/// from crates.io has both. The crate's `build.rs` embeds it.
const SITE: &str = "crates/sysop-server/site";

/// Packages every crate and builds it from its package, as `cargo publish` does, without uploading.
pub(super) fn check() -> Result<()> {
    let site = Site::fill()?;
    let mut publish = cargo();
    publish.args(["publish", "--dry-run", "--workspace", "--allow-dirty", "--locked"]);
    step("pack and build the crates as for crates.io", &mut publish)?;
    drop(site);
    Ok(())
}

/// Returns the built files of the page and the guide, each with its directory in the repository or in the crate.
pub(super) fn site_files() -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut files = Vec::new();
    for (name, built) in [("page", web::web().join("dist")), ("guide", docs::book())] {
        ensure!(built.join("index.html").is_file(), "{} is not built", built.display());
        find(&built, &Path::new(SITE).join(name), &mut files)?;
    }
    Ok(files)
}

/// The filled directory; removed on drop, because a build would prefer it to newer files.
struct Site;

impl Site {
    fn fill() -> Result<Self> {
        let site = Self;
        for (folder, file) in site_files()? {
            let folder = root().join(folder);
            fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
            let name = file.file_name().context("a file has a name")?;
            fs::copy(&file, folder.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
        }
        Ok(site)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Removing fails if the directory was never created.
        let _ = fs::remove_dir_all(root().join(SITE));
    }
}

/// Collects the files below `from`, for directories below `to`, without hidden files and source maps.
fn find(from: &Path, to: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let name = path.file_name().context("an entry has a name")?;
        if path.is_dir() {
            find(&path, &to.join(name), files)?;
        } else if !name.as_encoded_bytes().starts_with(b".") && path.extension().is_none_or(|it| it != "map")
        {
            files.push((to.to_owned(), path));
        }
    }
    Ok(())
}
