//! The open folder of a root: one for all who work beneath it, for a server has thousands of sessions on one root.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt};

/// By device and number, which no other folder gets while one of them is open.
type Folders = HashMap<(u64, u64), Weak<Dir>>;

static OPEN: Mutex<Option<Folders>> = Mutex::new(None);

/// Opens a folder, or shares it with who has it open.
pub(super) fn open(place: &Path) -> io::Result<Arc<Dir>> {
    let opened = Dir::open_ambient_dir(place, ambient_authority())?;
    let found = opened.dir_metadata()?;
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn one_folder_is_open_once_whatever_it_is_called_and_another_is_another() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("root");
        fs::create_dir(&place).unwrap();
        let first = open(&place).unwrap();
        assert!(Arc::ptr_eq(&first, &open(&place).unwrap()));
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&place, &link).unwrap();
        assert!(Arc::ptr_eq(&first, &open(&link).unwrap()));
        assert!(!Arc::ptr_eq(&first, &open(home.path()).unwrap()));
        // A new folder of the same name is not the one that was there.
        fs::remove_dir(&place).unwrap();
        fs::create_dir(&place).unwrap();
        fs::write(place.join("new"), "").unwrap();
        assert!(open(&place).unwrap().exists("new"));
        assert!(!first.exists("new"));
    }
}
