//! Code that depends on the operating system stands in the modules `platform` of the crates.

use std::path::Path;

use crate::tidy::{root, sources};

#[test]
fn only_the_platform_modules_tell_systems_apart() {
    let marks = ["target_os =", "target_vendor =", "target_family ="];
    let is_platform = |path: &Path| {
        path.file_name().is_some_and(|name| name == "platform.rs")
            || path.components().any(|part| part.as_os_str() == "platform")
    };
    // Tests of whole programs may look at one system.
    let is_code = |path: &Path| {
        path.starts_with(root().join("crates")) && path.components().any(|part| part.as_os_str() == "src")
    };
    let crates = sources().filter(|(path, _)| is_code(path));
    let (platforms, others): (Vec<_>, Vec<_>) = crates.partition(|(path, _)| is_platform(path));
    for (path, text) in others {
        for (number, line) in text.lines().enumerate() {
            let told = marks.iter().any(|mark| line.contains(mark));
            assert!(!told, "{}:{}: move this into `platform`", path.display(), number + 1);
        }
    }
    assert!(platforms.iter().any(|(_, text)| text.contains("cfg(target_os")), "no platform module was found");
}
