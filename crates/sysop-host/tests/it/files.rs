//! Tests of the file tools `read_file`, `write_file`, `edit_file`, `find_files` and `ls`, which all profiles with
//! files share.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;
use sysop_core::outcome::Status;

use crate::world::{Factory, conformance_with_busybox};

conformance_with_busybox!(
    a_file_is_read_unchanged,
    a_range_of_lines_is_read,
    invalid_utf8_and_binary_files_are_reported,
    files_of_the_kernel_are_read,
    writing_creates_parents_and_replaces_at_once,
    writing_keeps_mode_and_line_endings,
    writing_goes_through_a_link_and_keeps_it,
    a_failed_write_is_explained_and_leaves_nothing,
    an_edit_replaces_its_only_match,
    an_edit_that_matches_no_or_several_places_changes_nothing,
    an_edit_keeps_line_endings_mode_and_odd_bytes,
    special_files_are_refused_without_waiting,
    files_are_found_by_name_and_by_path,
    ignored_files_are_not_found,
    a_directory_is_listed,
);

async fn a_file_is_read_unchanged(factory: &impl Factory) {
    let world = factory.full();
    world.put("a/b.txt", "one\n\ttwo ü\n\nlast");
    for path in ["a/b.txt", "./a//b.txt", "a/../a/b.txt", world.at("a/b.txt").to_str().unwrap()] {
        let outcome = world.call("read_file", json!({ "path": path })).await;
        assert_eq!((outcome.status, outcome.output.as_str()), (Status::Ok, "one\n\ttwo ü\n\nlast"), "{path}");
    }
    let outcome = world.call("read_file", json!({ "path": "a/none" })).await;
    assert_eq!((outcome.status, outcome.output.as_str()), (Status::Failed, "a/none does not exist"));
    let outcome = world.call("read_file", json!({ "path": "a" })).await;
    assert_eq!((outcome.status, outcome.output.as_str()), (Status::Failed, "a is a directory"));
    let outcome = world.call("read_file", json!({})).await;
    assert!(outcome.output.contains("`path`"), "{}", outcome.output);
}

async fn a_range_of_lines_is_read(factory: &impl Factory) {
    let world = factory.full();
    world.put("f", "1\n2\n3\n4");
    for (range, expected) in [
        (json!({ "path": "f", "start_line": 2, "end_line": 3 }), "2\n3\n"),
        (json!({ "path": "f", "start_line": 3 }), "3\n4"),
        (json!({ "path": "f", "end_line": 1 }), "1\n"),
        (json!({ "path": "f", "start_line": 4, "end_line": 100 }), "4"),
    ] {
        assert_eq!(world.call("read_file", range).await.output, expected);
    }
    let outcome = world.call("read_file", json!({ "path": "f", "start_line": 5 })).await;
    assert_eq!((outcome.status, outcome.output.as_str()), (Status::Failed, "f has only 4 lines"));
    for range in
        [json!({ "path": "f", "start_line": 3, "end_line": 2 }), json!({ "path": "f", "start_line": 0 })]
    {
        assert_eq!(world.call("read_file", range).await.status, Status::Failed);
    }
}

async fn invalid_utf8_and_binary_files_are_reported(factory: &impl Factory) {
    let world = factory.full();
    world.put("latin", b"caf\xe9\n");
    let outcome = world.call("read_file", json!({ "path": "latin" })).await;
    assert_eq!(outcome.status, Status::Ok);
    assert!(outcome.output.starts_with("caf\u{FFFD}\n"), "{}", outcome.output);
    assert!(outcome.output.contains("invalid UTF-8 is shown as"), "{}", outcome.output);
    world.put("binary", b"\x7fELF\0\0");
    let outcome = world.call("read_file", json!({ "path": "binary" })).await;
    assert_eq!(
        (outcome.status, outcome.output.as_str()),
        (Status::Failed, "binary is a binary file of 6 bytes")
    );
    let large = std::fs::File::create(world.at("large")).unwrap();
    large.set_len(sysop_host::FILE_BYTES_MAX + 1).unwrap();
    let outcome = world.call("read_file", json!({ "path": "large" })).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.output.contains("the limit for file tools is 16777216"), "{}", outcome.output);
}

async fn files_of_the_kernel_are_read(factory: &impl Factory) {
    let world = factory.open(crate::world::Setup {
        root: "proc",
        prepare: |home| {
            symlink("/proc/sys/kernel", home.join("proc")).unwrap();
        },
        ..Default::default()
    });
    let outcome = world.call("read_file", json!({ "path": "ostype" })).await;
    assert_eq!((outcome.status, outcome.output.as_str()), (Status::Ok, "Linux\n"));
}

async fn writing_creates_parents_and_replaces_at_once(factory: &impl Factory) {
    let world = factory.full();
    let outcome = world.call("write_file", json!({ "path": "a/b/c.txt", "content": "new\n" })).await;
    assert_eq!((outcome.status, outcome.output.as_str()), (Status::Ok, "OK, 4 bytes written"));
    assert_eq!(world.text("a/b/c.txt"), "new\n");
    std::fs::hard_link(world.at("a/b/c.txt"), world.home().join("other-name")).unwrap();
    world.call("write_file", json!({ "path": "a/b/c.txt", "content": "" })).await;
    assert_eq!(world.text("a/b/c.txt"), "");
    let other = std::fs::read_to_string(world.home().join("other-name")).unwrap();
    assert_eq!(other, "new\n", "the old file was replaced, not written into");
    let left: Vec<_> = std::fs::read_dir(world.at("a/b")).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left");
}

async fn writing_keeps_mode_and_line_endings(factory: &impl Factory) {
    let world = factory.full();
    world.put("run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(world.at("run.sh"), std::fs::Permissions::from_mode(0o750)).unwrap();
    world.call("write_file", json!({ "path": "run.sh", "content": "#!/bin/sh\nexit\n" })).await;
    assert_eq!(world.mode("run.sh"), 0o750);
    world.put("dos.ini", "a=1\r\nb=2\r\n");
    world.call("write_file", json!({ "path": "dos.ini", "content": "a=3\nb=4\r\n" })).await;
    assert_eq!(world.text("dos.ini"), "a=3\r\nb=4\r\n");
    world.put("mixed", "a\r\nb\n");
    world.call("write_file", json!({ "path": "mixed", "content": "c\nd\r\n" })).await;
    assert_eq!(world.text("mixed"), "c\nd\r\n");
}

async fn writing_goes_through_a_link_and_keeps_it(factory: &impl Factory) {
    let world = factory.full();
    world.put("real/conf", "old");
    symlink("real/conf", world.at("link")).unwrap();
    symlink("link", world.at("link-to-link")).unwrap();
    symlink("real", world.at("folder")).unwrap();
    for (path, content) in [("link", "1"), ("link-to-link", "2"), ("folder/conf", "3")] {
        let outcome = world.call("write_file", json!({ "path": path, "content": content })).await;
        assert_eq!(outcome.status, Status::Ok, "{path}: {}", outcome.output);
        assert_eq!(world.text("real/conf"), content, "{path}");
    }
    assert!(world.at("link").is_symlink() && world.at("link-to-link").is_symlink());
    world.call("edit_file", json!({ "path": "link", "old_string": "3", "new_string": "4" })).await;
    assert_eq!(world.text("real/conf"), "4");
    assert!(world.at("link").is_symlink());
}

async fn a_failed_write_is_explained_and_leaves_nothing(factory: &impl Factory) {
    let world = factory.full();
    world.put("file", "x");
    std::fs::create_dir(world.at("folder")).unwrap();
    let long = "n".repeat(300);
    for (path, why) in [
        ("file/below", "a parent of file/below is a file"),
        ("file/", "a parent of file/ is a file"),
        ("folder", "folder is a directory"),
        ("folder/.", "is a directory"),
        (".", "is a directory"),
        ("", "invalid path"),
        (long.as_str(), "too long"),
    ] {
        let outcome = world.call("write_file", json!({ "path": path, "content": "y" })).await;
        assert_eq!(outcome.status, Status::Failed, "{path}");
        assert!(outcome.output.contains(why), "{path}: {}", outcome.output);
        assert!(outcome.changes.is_empty(), "{path}");
    }
    assert_eq!(world.text("file"), "x");
    let mut names: Vec<_> =
        std::fs::read_dir(world.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["file", "folder"]);
}

async fn an_edit_replaces_its_only_match(factory: &impl Factory) {
    let world = factory.full();
    world.put("main.rs", "fn a() {}\nfn b() {}\n");
    let edit = json!({ "path": "main.rs", "old_string": "fn b() {}", "new_string": "fn b() {\n    a();\n}" });
    let outcome = world.call("edit_file", edit).await;
    assert_eq!((outcome.status, outcome.output.as_str()), (Status::Ok, "OK"));
    assert_eq!(world.text("main.rs"), "fn a() {}\nfn b() {\n    a();\n}\n");
}

async fn an_edit_that_matches_no_or_several_places_changes_nothing(factory: &impl Factory) {
    let world = factory.full();
    let content = "let x = 1;\nlet y = 2;\nlet x = 1;\n";
    world.put("f", content);
    for (old, why) in [
        ("let x = 1;", "occurs 2 times (lines 1, 3)"),
        ("let y  = 2;", "the most similar line is line 2: let y = 2;"),
        ("", "old_string is empty"),
    ] {
        let outcome =
            world.call("edit_file", json!({ "path": "f", "old_string": old, "new_string": "z" })).await;
        assert_eq!(outcome.status, Status::Failed);
        assert!(outcome.output.contains(why), "{}", outcome.output);
        assert_eq!(world.text("f"), content);
    }
    let missing = json!({ "path": "g", "old_string": "a", "new_string": "b" });
    assert_eq!(world.call("edit_file", missing).await.output, "g does not exist");
    assert!(!world.at("g").exists());
}

async fn an_edit_keeps_line_endings_mode_and_odd_bytes(factory: &impl Factory) {
    let world = factory.full();
    world.put("dos", "a\r\nb\r\nc\r\n");
    std::fs::set_permissions(world.at("dos"), std::fs::Permissions::from_mode(0o604)).unwrap();
    world.call("edit_file", json!({ "path": "dos", "old_string": "a\nb", "new_string": "x\ny\nz" })).await;
    assert_eq!(world.text("dos"), "x\r\ny\r\nz\r\nc\r\n");
    assert_eq!(world.mode("dos"), 0o604);
    world.put("latin", b"# caf\xe9\nport = 1\n");
    world
        .call("edit_file", json!({ "path": "latin", "old_string": "port = 1", "new_string": "port = 2" }))
        .await;
    assert_eq!(world.bytes("latin"), b"# caf\xe9\nport = 2\n");
}

async fn special_files_are_refused_without_waiting(factory: &impl Factory) {
    let world = factory.full();
    let pipe = world.at("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.at("socket")).unwrap();
    for path in ["pipe", "socket"] {
        for (tool, arguments) in [
            ("read_file", json!({ "path": path })),
            ("write_file", json!({ "path": path, "content": "x" })),
            ("edit_file", json!({ "path": path, "old_string": "a", "new_string": "b" })),
        ] {
            let outcome = world.call(tool, arguments).await;
            assert_eq!(outcome.status, Status::Failed);
            assert!(
                outcome.output.contains("neither a regular file nor a directory"),
                "{tool}: {}",
                outcome.output
            );
        }
    }
    assert!(!pipe.is_file() && pipe.exists());
}

async fn files_are_found_by_name_and_by_path(factory: &impl Factory) {
    let world = factory.full();
    for path in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/deep/d.toml", ".hidden/e.rs", ".git/f.rs"] {
        world.put(path, "");
    }
    symlink("src", world.at("loop")).unwrap();
    for (arguments, expected) in [
        (json!({ "pattern": "*.rs" }), ".hidden/e.rs\na.rs\nsrc/b.rs\nsrc/deep/c.rs\n"),
        (json!({ "pattern": "src/*.rs" }), "src/b.rs\n"),
        (json!({ "pattern": "src/**/*.rs" }), "src/b.rs\nsrc/deep/c.rs\n"),
        (json!({ "pattern": "./**/{b,d}.*" }), "src/b.rs\nsrc/deep/d.toml\n"),
        (json!({ "pattern": "*", "path": "src/deep" }), "src/deep/c.rs\nsrc/deep/d.toml\n"),
        (json!({ "pattern": "*.toml", "path": "" }), "src/deep/d.toml\n"),
        (json!({ "pattern": "*.py" }), "[no matching files]"),
    ] {
        let outcome = world.call("find_files", arguments.clone()).await;
        assert_eq!((outcome.status, outcome.output.as_str()), (Status::Ok, expected), "{arguments}");
    }
    let outcome = world.call("find_files", json!({ "pattern": "a{b" })).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.output.contains("`pattern`"), "{}", outcome.output);
}

async fn ignored_files_are_not_found(factory: &impl Factory) {
    let world = factory.full();
    world.put(".gitignore", "target/\n*.log\n/top.txt\n");
    world.put("sub/.gitignore", "!kept.log\nlocal\n");
    world.put("sub/.ignore", "more\n");
    for path in
        ["target/x", "a.log", "top.txt", "sub/top.txt", "sub/kept.log", "sub/local", "sub/more", "local"]
    {
        world.put(path, "");
    }
    let outcome = world.call("find_files", json!({ "pattern": "[a-z]*" })).await;
    assert_eq!(outcome.output, "local\nsub/kept.log\nsub/top.txt\n");
}

async fn a_directory_is_listed(factory: &impl Factory) {
    let world = factory.full();
    world.put("b.txt", "");
    world.put("a/inner", "");
    world.put("evil\n\u{1b}[31mname", "");
    symlink("b.txt", world.at("c")).unwrap();
    let outcome = world.call("ls", json!({})).await;
    assert_eq!(outcome.output, "a/\nb.txt\nc -> b.txt\nevil\\n\\u{1b}[31mname\n");
    let unsaid = world.call("ls", json!({ "path": "" })).await;
    assert_eq!(unsaid.output, outcome.output, "an empty path counts as missing");
    assert_eq!(world.call("ls", json!({ "path": "a" })).await.output, "inner\n");
    let outcome = world.call("ls", json!({ "path": "b.txt" })).await;
    assert_eq!(
        (outcome.status, outcome.output.as_str()),
        (Status::Failed, "a parent of b.txt is a file, not a directory")
    );
    std::fs::create_dir(world.at("empty")).unwrap();
    assert_eq!(world.call("ls", json!({ "path": "empty/" })).await.output, "[empty directory]");
}
