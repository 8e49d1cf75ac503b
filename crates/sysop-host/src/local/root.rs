//! Open root directories. All sessions with the same root share one handle, as a server may have thousands of sessions.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt};
use parking_lot::Mutex;

/// Open roots by device and inode, which are not reused while the directory is open.
type OpenRoots = HashMap<(u64, u64), Weak<Dir>>;

static OPEN: Mutex<Option<OpenRoots>> = Mutex::new(None);

/// Opens a directory, or returns the handle that is already open.
pub(super) fn open(path: &Path) -> io::Result<Arc<Dir>> {
    let opened = Dir::open_ambient_dir(path, ambient_authority())?;
    let found = opened.dir_metadata()?;
    let mut open = OPEN.lock();
    let open = open.get_or_insert_default();
    let name = (found.dev(), found.ino());
    if let Some(shared) = open.get(&name).and_then(Weak::upgrade) {
        return Ok(shared);
    }
    open.retain(|_, folder| folder.strong_count() > 0);
    let opened = Arc::new(opened);
    open.insert(name, Arc::downgrade(&opened));
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::open;

    #[test]
    fn a_directory_is_opened_once_under_all_its_names() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("root");
        fs::create_dir(&path).unwrap();
        let first = open(&path).unwrap();
        assert!(Arc::ptr_eq(&first, &open(&path).unwrap()));
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Arc::ptr_eq(&first, &open(&link).unwrap()));
        assert!(!Arc::ptr_eq(&first, &open(home.path()).unwrap()));
        // A new directory with the same name is a different directory.
        fs::remove_dir(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("new"), "").unwrap();
        assert!(open(&path).unwrap().exists("new"));
        assert!(!first.exists("new"));
    }
}
