//! Files with instructions for a model, from the workspace's top directory down to the root of the file tools, and the
//! workspace's skills and commands.
//!
//! The top directory is the nearest directory at or above the root that contains `.git`. If there is none, it is the
//! root itself. In each directory, only the first readable file of [`NAMES`] counts. A symbolic link counts only if it
//! leads to another of these names in the same directory, because a link to any file would send that file to the model.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::skill_files;
use crate::ssh::{SshConnection, SshError};

/// Names of instruction files, in order of precedence.
const NAMES: [&str; 4] = ["AGENTS.override.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md"];
const BYTES_MAX: u64 = 32 * 1024;
/// Maximum number of directories, counted from the root upward.
const FOLDERS_MAX: usize = 16;

/// A file that was found for the model: instructions, a skill, an attachment of a skill, or a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionText {
    pub kind: InstructionKind,
    /// Absolute path on its machine.
    pub path: String,
    /// First 32 KiB of the file, or 64 KiB of a skill or command. Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Size of the whole file in bytes.
    pub bytes: u64,
}

/// Role of a file that was found for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstructionKind {
    /// `AGENTS.md`, or another file with instructions such as `CLAUDE.md`.
    Instructions,
    /// `SKILL.md` of a skill.
    Skill,
    /// Another file in the directory of a skill. Its text is not read.
    Attachment,
    Command,
}

/// Reads the files of a workspace on this machine: instructions from the top directory down, then skills and commands,
/// the nearest first. Files that cannot be read are left out. Skills and commands in `home` itself are the user's own,
/// and are left out too.
pub fn read_instruction_files(root: &Path, home: Option<&Path>) -> Vec<InstructionText> {
    let Ok(root) = std::fs::canonicalize(root) else { return Vec::new() };
    let home = home.and_then(|home| std::fs::canonicalize(home).ok());
    let folders = folders(&root);
    let mut found: Vec<_> = folders.iter().filter_map(|folder| in_folder(folder)).collect();
    found.reverse();
    let top = folders.last().cloned().unwrap_or(root);
    for folder in folders.iter().filter(|folder| home.as_ref() != Some(folder)) {
        found.extend(skill_files::in_workspace(folder, &top));
    }
    without_repeats(found)
}

/// Removes duplicate entries for a skill, attachment or command, which linked directories cause; keeps the first.
fn without_repeats(mut found: Vec<InstructionText>) -> Vec<InstructionText> {
    let mut paths = HashSet::new();
    found.retain(|file| file.kind == InstructionKind::Instructions || paths.insert(file.path.clone()));
    found
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let owner = |folder: &Path| folder.metadata().map(|metadata| metadata.uid()).ok();
    // Another user's directory above the root, such as /tmp, is not part of the workspace.
    let own = owner(root);
    let up: Vec<PathBuf> = root
        .ancestors()
        .take(FOLDERS_MAX)
        .take_while(|folder| owner(folder) == own)
        .map(Path::to_owned)
        .collect();
    let top = up.iter().position(|folder| folder.join(".git").symlink_metadata().is_ok());
    up.into_iter().take(top.unwrap_or(0) + 1).collect()
}

fn in_folder(folder: &Path) -> Option<InstructionText> {
    NAMES.iter().find_map(|name| {
        let path = folder.join(name);
        let (mut file, bytes) = open(&path, folder)?;
        let mut content = Vec::new();
        file.by_ref().take(BYTES_MAX).read_to_end(&mut content).ok()?;
        let text = String::from_utf8_lossy(&content).into_owned();
        let path = path.to_str()?.to_owned();
        Some(InstructionText { kind: InstructionKind::Instructions, path, text, bytes })
    })
}

/// Opens a regular file, or the `NAMES` file in the same directory that it links to. Also returns its size.
fn open(path: &Path, folder: &Path) -> Option<(File, u64)> {
    let target = if path.symlink_metadata().ok()?.is_symlink() {
        let target = std::fs::read_link(path).ok()?;
        let name = NAMES.iter().find(|name| target == Path::new(name))?;
        folder.join(name)
    } else {
        path.to_owned()
    };
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).ok()?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(target).ok()?;
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((file, metadata.len()))
}

/// Reads the files of a workspace on another machine. `root` is an absolute path, or relative to the home directory on
/// that machine. Fails if the machine cannot be reached.
pub async fn read_remote_instruction_files(
    connection: &SshConnection,
    root: &str,
) -> Result<Vec<InstructionText>, SshError> {
    let root = match root {
        "~" | "~/" => "",
        root => root.strip_prefix("~/").unwrap_or(root),
    };
    let (_, output) = connection.exec_sh(SCRIPT, &[root]).await?;
    Ok(without_repeats(String::from_utf8_lossy(&output).lines().filter_map(parsed).collect()))
}

/// Script that prints one line per file: its kind, its size, its beginning in hex and its path.
const SCRIPT: &str = r#"unset CDPATH; [ -z "$1" ] || cd -P -- "$1" 2>/dev/null || exit 40
folder=$(pwd -P); up=$folder; top=$folder; n=0
while [ -O "$up" ] && [ $n -lt 16 ]; do
  if [ -e "$up/.git" ]; then top=$up; break; fi
  [ "$up" = / ] && break
  up=${up%/*}; up=${up:-/}; n=$((n + 1))
done
set -- "$folder"
while [ "$folder" != "$top" ]; do folder=${folder%/*}; folder=${folder:-/}; set -- "$folder" "$@"; done
newline='
'
show() {
  case $3 in *"$newline"*) return ;; esac
  { [ -f "$3" ] && [ -r "$3" ]; } || return
  size=$(wc -c <"$3") || return
  hex=-; [ $2 = 0 ] || hex=$(dd bs=$2 count=1 <"$3" 2>/dev/null | od -An -v -tx1 | tr -d ' \n')
  printf '%s %s %s %s\n' $1 $size "${hex:--}" "$3"
}
within() {
  real=$(cd -P -- "$1" 2>/dev/null && pwd -P) || return
  case $real/ in "${top%/}"/*) printf '%s' "$real" ;; *) return 1 ;; esac
}
for folder; do
  case $folder in *"$newline"*) continue ;; esac
  for name in AGENTS.override.md AGENTS.md CLAUDE.md GEMINI.md; do
    file=$folder/$name
    if [ -h "$file" ]; then
      target=$(readlink "$file") || continue
      case $target in AGENTS.override.md | AGENTS.md | CLAUDE.md | GEMINI.md) ;; *) continue ;; esac
      [ -h "$folder/$target" ] && continue
    fi
    { [ -f "$file" ] && [ -r "$file" ]; } || continue
    show i 32768 "$file"
    break
  done
done
folder=$(pwd -P)
while :; do
  for dir in .agents/skills .sysop/skills .claude/skills; do
    real=$(within "$folder/$dir") || continue
    find "$real" -maxdepth 4 -type f -name SKILL.md 2>/dev/null | LC_ALL=C sort | head -n 64 | while IFS= read -r file; do
      show s 65536 "$file"
      find "${file%/*}" -maxdepth 3 -type f ! -name SKILL.md 2>/dev/null | LC_ALL=C sort | head -n 50 | while IFS= read -r file; do
        show a 0 "$file"
      done
    done
  done
  for dir in .sysop/commands .claude/commands; do
    real=$(within "$folder/$dir") || continue
    find "$real" -maxdepth 2 -type f -name '*.md' 2>/dev/null | LC_ALL=C sort | head -n 64 | while IFS= read -r file; do
      show c 65536 "$file"
    done
  done
  [ "$folder" = "$top" ] && break
  folder=${folder%/*}; folder=${folder:-/}
done"#;

/// Parses a line of the script's output.
fn parsed(line: &str) -> Option<InstructionText> {
    let mut parts = line.splitn(4, ' ');
    let kind = match parts.next()? {
        "i" => InstructionKind::Instructions,
        "s" => InstructionKind::Skill,
        "a" => InstructionKind::Attachment,
        "c" => InstructionKind::Command,
        _ => return None,
    };
    let (size, hex, path) = (parts.next()?, parts.next()?, parts.next()?);
    let hex = if hex == "-" { "" } else { hex };
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let content: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(pair).collect();
    let text = String::from_utf8_lossy(&content?).into_owned();
    Some(InstructionText { kind, path: path.to_owned(), text, bytes: size.parse().ok()? })
}
