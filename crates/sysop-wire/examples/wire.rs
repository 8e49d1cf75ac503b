//! Writes the files generated from the messages: `cargo xtask wire`.

use std::path::Path;

#[expect(clippy::disallowed_methods, reason = "the chore writes the generated files")]
fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, text) in sysop_wire::schema::generated_files() {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("files lie in folders"))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}
