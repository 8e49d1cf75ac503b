//! Files with instructions for a model, found on this machine and over ssh.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use sysop_host::{
    InstructionKind, InstructionText, read_instruction_files, read_own_skill_files,
    read_remote_instruction_files,
};

use crate::sshd::{Login, shared};

/// Reads the files of a root on this machine, and again through sshd with usual and with busybox' programs; all must
/// find the same.
async fn found(root: &Path) -> Vec<InstructionText> {
    let here = read_instruction_files(root, None);
    for login in [Login::Bash, Login::Ash] {
        let there = read_remote_instruction_files(&shared(login), root.to_str().unwrap()).await.unwrap();
        assert_eq!(here, there, "{login:?}");
    }
    here
}

fn names(found: &[InstructionText], root: &Path) -> Vec<String> {
    let name = |file: &InstructionText| {
        Path::new(&file.path).strip_prefix(root).unwrap().to_str().unwrap().to_owned()
    };
    found.iter().map(name).collect()
}

fn workspace() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    fs::create_dir_all(root.join("app/src")).unwrap();
    (folder, root)
}

#[tokio::test]
async fn files_are_read_from_the_repository_down_to_the_root() {
    let (_folder, root) = workspace();
    fs::write(root.join("AGENTS.md"), "above the repository").unwrap();
    fs::create_dir(root.join("app/.git")).unwrap();
    fs::write(root.join("app/CLAUDE.md"), "top\n").unwrap();
    fs::write(root.join("app/GEMINI.md"), "second choice").unwrap();
    fs::write(root.join("app/src/AGENTS.md"), "caf\u{e9} \u{1f600}\n\n").unwrap();
    fs::write(root.join("app/src/AGENTS.override.md"), "").unwrap();
    let files = found(&root.join("app/src")).await;
    assert_eq!(names(&files, &root), ["app/CLAUDE.md", "app/src/AGENTS.override.md"]);
    assert_eq!((files[0].text.as_str(), files[0].bytes), ("top\n", 4));
    assert_eq!((files[1].text.as_str(), files[1].bytes), ("", 0));
    fs::remove_file(root.join("app/src/AGENTS.override.md")).unwrap();
    let files = found(&root.join("app/src")).await;
    assert_eq!(files[1].text, "caf\u{e9} \u{1f600}\n\n");
    fs::remove_dir(root.join("app/.git")).unwrap();
    assert_eq!(names(&found(&root.join("app/src")).await, &root), ["app/src/AGENTS.md"]);
    assert_eq!(found(&root.join("app/none")).await, []);
}

#[tokio::test]
async fn links_and_special_files_do_not_lead_outside() {
    let (_folder, root) = workspace();
    let app = root.join("app");
    fs::write(root.join("secret"), "key").unwrap();
    fs::write(app.join(".env"), "key").unwrap();
    for target in ["../secret", ".env", "/etc/passwd", "../app/CLAUDE.md", "src", "GEMINI.md"] {
        let _ = fs::remove_file(app.join("AGENTS.md"));
        let _ = fs::remove_file(app.join("GEMINI.md"));
        symlink("../secret", app.join("GEMINI.md")).unwrap();
        symlink(target, app.join("AGENTS.md")).unwrap();
        assert_eq!(found(&app).await, [], "{target}");
    }
    fs::write(app.join("CLAUDE.md"), "shared").unwrap();
    fs::remove_file(app.join("AGENTS.md")).unwrap();
    symlink("CLAUDE.md", app.join("AGENTS.md")).unwrap();
    let files = found(&app).await;
    assert_eq!((names(&files, &root), files[0].text.as_str()), (vec!["app/AGENTS.md".to_owned()], "shared"));
    fs::remove_file(app.join("AGENTS.md")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, app.join("AGENTS.md"), 0o600.into()).unwrap();
    assert_eq!(names(&found(&app).await, &root), ["app/CLAUDE.md"], "a pipe is not waited for");
    fs::remove_file(app.join("AGENTS.md")).unwrap();
    fs::create_dir(app.join("AGENTS.md")).unwrap();
    assert_eq!(names(&found(&app).await, &root), ["app/CLAUDE.md"]);
}

#[tokio::test]
async fn long_files_are_truncated_and_binary_ones_replaced() {
    let (_folder, root) = workspace();
    fs::write(root.join("AGENTS.md"), vec![0xff; 40_000]).unwrap();
    let files = found(&root).await;
    assert_eq!((files[0].text.chars().count(), files[0].bytes), (32_768, 40_000));
    assert!(files[0].text.starts_with('\u{fffd}'));
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn skills_and_commands_are_found_with_the_nearest_first() {
    let (_folder, root) = workspace();
    let app = root.join("app");
    fs::create_dir(app.join(".git")).unwrap();
    write(&app.join("AGENTS.md"), "top");
    write(&app.join(".agents/skills/certs/SKILL.md"), "caf\u{e9}");
    write(&app.join(".agents/skills/certs/scripts/renew.sh"), "#!/bin/sh");
    write(&app.join(".agents/skills/certs/a.txt"), "");
    write(&app.join(".agents/skills/group/dns/SKILL.md"), "deeper");
    write(&app.join(".agents/skills/a/b/c/d/SKILL.md"), "too deep");
    write(&app.join(".sysop/commands/check.md"), "look");
    write(&app.join(".sysop/commands/notes.txt"), "no command");
    write(&app.join("src/.claude/skills/near/SKILL.md"), "near");
    write(&root.join(".sysop/commands/above.md"), "above the repository");
    fs::create_dir(app.join(".claude")).unwrap();
    symlink("../.agents/skills", app.join(".claude/skills")).unwrap();
    let files = found(&app.join("src")).await;
    let expected = [
        "app/AGENTS.md",
        "app/src/.claude/skills/near/SKILL.md",
        "app/.agents/skills/certs/SKILL.md",
        "app/.agents/skills/certs/a.txt",
        "app/.agents/skills/certs/scripts/renew.sh",
        "app/.agents/skills/group/dns/SKILL.md",
        "app/.sysop/commands/check.md",
    ];
    assert_eq!(names(&files, &root), expected);
    let kinds: Vec<_> = files.iter().map(|file| file.kind).collect();
    let (skill, attachment) = (InstructionKind::Skill, InstructionKind::Attachment);
    let kind = [
        InstructionKind::Instructions,
        skill,
        skill,
        attachment,
        attachment,
        skill,
        InstructionKind::Command,
    ];
    assert_eq!(kinds, kind);
    assert_eq!((files[2].text.as_str(), files[4].text.as_str(), files[4].bytes), ("caf\u{e9}", "", 9));
    assert_eq!(
        read_instruction_files(&app, Some(&app)).len(),
        1,
        "files in the home directory belong to the user"
    );
}

#[tokio::test]
async fn no_skill_or_command_is_read_from_outside_the_workspace() {
    let (_folder, root) = workspace();
    let app = root.join("app");
    fs::create_dir(app.join(".git")).unwrap();
    write(&root.join("secret/x/SKILL.md"), "key");
    write(&root.join("secret/x.md"), "key");
    fs::create_dir_all(app.join(".agents/skills/x")).unwrap();
    symlink("../../../../secret/x/SKILL.md", app.join(".agents/skills/x/SKILL.md")).unwrap();
    symlink(root.join("secret/x"), app.join(".agents/skills/y")).unwrap();
    fs::create_dir_all(app.join(".sysop")).unwrap();
    symlink("../../secret", app.join(".sysop/skills")).unwrap();
    symlink(root.join("secret"), app.join(".sysop/commands")).unwrap();
    fs::create_dir_all(app.join(".claude/commands")).unwrap();
    symlink("/etc/passwd", app.join(".claude/commands/p.md")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, app.join(".claude/commands/pipe.md"), 0o600.into()).unwrap();
    symlink(".", app.join(".claude/commands/loop")).unwrap();
    assert_eq!(found(&app).await, []);
}

#[tokio::test]
async fn the_users_own_skills_may_be_links() {
    let (_folder, root) = workspace();
    write(&root.join("dotfiles/certs/SKILL.md"), "mine");
    fs::create_dir(root.join("skills")).unwrap();
    symlink("../dotfiles/certs", root.join("skills/certs")).unwrap();
    symlink("..", root.join("skills/loop")).unwrap();
    let files = read_own_skill_files(&[root.join("skills"), root.join("none")], &[]);
    let own: Vec<_> =
        names(&files, &root).into_iter().filter(|name| name.starts_with("skills/certs")).collect();
    assert_eq!(own, ["skills/certs/SKILL.md"]);
}
