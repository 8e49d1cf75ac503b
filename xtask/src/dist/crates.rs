//! Packages for crates.io: runs all checks that `cargo publish` makes before uploading.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::docs;
use crate::web;
use crate::workspace::{cargo, root, step};

/// Directory in the crate `sysop-server` with the built page and the built guide, so that a program built
/// from crates.io has both. The crate's `build.rs` embeds it.
const SITE: &str = "crates/sysop-server/site";

/// Packages every crate as `cargo publish` does, without building them again and without uploading.
pub(super) fn check() -> Result<()> {
    let site = Site::fill()?;
    let mut publish = cargo();
    publish.args(["publish", "--dry-run", "--workspace", "--no-verify", "--allow-dirty", "--locked"]);
    step("pack the crates as for crates.io", &mut publish)?;
    drop(site);
    Ok(())
}

/// The filled directory; removed on drop, because a build would prefer it to newer files.
struct Site;

impl Site {
    fn fill() -> Result<Self> {
        let site = Self;
        for (name, built) in [("page", web::web().join("dist")), ("guide", docs::book())] {
            ensure!(built.join("index.html").is_file(), "{} is not built", built.display());
            copy(&built, &root().join(SITE).join(name))?;
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

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let name = path.file_name().context("an entry has a name")?;
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else if !name.as_encoded_bytes().starts_with(b".") && path.extension().is_none_or(|it| it != "map")
        {
            fs::copy(&path, to.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}
