//! Files that a redirection, `tee` or a file tool writes.

use super::effective::{EffectiveCommand, split};
use super::probe::{Records, Section};
use super::report::{Report, counted, diff_counts, name, size};
use super::scan::{Reason, Word};
use super::text_diff::unified;
use super::{Planned, View};

const CONTENT_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    appends: bool,
    /// The written text, if it is known.
    content: Option<String>,
    /// True if the writer creates missing directories, which a shell and `tee` do not.
    creates_folders: bool,
}

const WRITE: &str = r#"
p=$1; case $p in -*) p=./$p;; esac
r path "$p"
if [ -d "$p" ]; then r folder 1
elif [ -e "$p" ]; then
[ -f "$p" ] || { r special 1; exit; }
n=$(stat -Lc %s "$p"); r size "$n"; r lines "$(wc -l <"$p")"
[ -r "$p" ] || { r unreadable 1; exit; }
if [ "$2" = c ] && [ "$n" -le 262144 ] && tr -d '\000' <"$p" | cmp -s - "$p"; then printf 'text\0'; cat <"$p" | tr -d '\000'; printf '\0'; fi
else
r new 1; parent "$p"
fi
"#;

/// Returns the section for a file that a command writes.
pub(super) fn section(path: Word, appends: bool, content: Option<String>) -> Section {
    section_of(path, Write { appends, content, creates_folders: false })
}

/// Returns the section for a file that a file tool writes.
pub(super) fn tool_section(path: &str, content: &str) -> Section {
    let content = Some(content.to_owned());
    section_of(Word::of(path), Write { appends: false, content, creates_folders: true })
}

fn section_of(path: Word, write: Write) -> Section {
    let content = write.content.filter(|text| text.len() <= CONTENT_BYTES_MAX);
    let compares = if content.is_some() && !write.appends { "c" } else { "-" };
    let view = View::Write(Write { content, ..write });
    Section::new(WRITE, view).with_scalars(vec![path, Word::of(compares)])
}

/// `tee` whose input does not come from a pipe.
pub(super) fn tee(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let found = split(&command.arguments, "ai", "", &["append", "ignore-interrupts"])?;
    let content = command.document.clone().flatten();
    let [target] = found.operands.as_slice() else {
        return Err("the command writes several files".to_owned());
    };
    if !target.is_single() {
        return Err("the file is unknown".to_owned());
    }
    Planned::probe(section(target.clone(), found.has(&["a", "-append"]), content))
}

/// Returns a command's output if known without running it, as for `echo`, `printf` and `cat` of literal text.
pub(super) fn content_of(command: &EffectiveCommand) -> Option<String> {
    let words: Option<Vec<String>> = command.arguments.iter().map(Word::literal).collect();
    let words = words?;
    match command.program.as_str() {
        ":" | "true" => Some(String::new()),
        "cat" if words.is_empty() => command.document.clone().flatten(),
        "echo" if words.first().is_none_or(|word| !word.starts_with('-')) => {
            let text = words.join(" ");
            // Shells disagree on backslashes.
            (!text.contains('\\')).then(|| text + "\n")
        }
        "printf" => match words.as_slice() {
            [format] => printf_text(format),
            [format, text] if format == "%s" => Some(text.clone()),
            [format, texts @ ..] if format == "%s\\n" => {
                Some(texts.iter().map(|text| format!("{text}\n")).collect())
            }
            _ => None,
        },
        _ => None,
    }
}

fn printf_text(format: &str) -> Option<String> {
    if format.contains('%') || format.starts_with('-') {
        return None;
    }
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        out.push(match (c, c == '\\') {
            (_, false) => c,
            (_, true) => match chars.next()? {
                'n' => '\n',
                't' => '\t',
                '\\' => '\\',
                _ => return None,
            },
        });
    }
    Some(out)
}

impl Write {
    pub(super) fn report(&self, records: &Records) -> Result<Report, Reason> {
        let path = records.first("path").map(name).ok_or("the file cannot be read")?;
        if records.has("folder") {
            return Ok(format!("fails: {path} is a directory").into());
        }
        let folder = records.first("nofolder").filter(|_| self.creates_folders).map(name);
        if let (None, Some(failure)) = (&folder, records.folder_failure()) {
            return Ok(failure.into());
        }
        if records.has("special") {
            return Ok(format!("writes to {path}, which is not a regular file").into());
        }
        let length = self.content.as_ref().map(|text| text.len() as u64);
        let lines = self.content.as_ref().map(|text| text.lines().count() as u64);
        let size_text = || length.map_or(String::new(), |bytes| format!(" with {}", size(bytes)));
        if records.has("new") {
            let lines = lines
                .filter(|lines| *lines > 0)
                .map_or(size_text(), |lines| format!(" with {}", counted(lines, "line")));
            let folder = folder.map_or(String::new(), |folder| format!(", and the directory {folder}"));
            return Ok(format!("creates {path}{lines}{folder}").into());
        }
        let old = records.number("size").ok_or("the file cannot be read")?;
        if self.appends {
            let what = lines.map_or("text".to_owned(), |lines| counted(lines, "line"));
            return Ok(format!("appends {what} to {path} ({})", size(old)).into());
        }
        let before = format!("{}, {}", size(old), counted(records.number("lines").unwrap_or(0), "line"));
        match (&self.content, records.first("text")) {
            (Some(new), _) if new.is_empty() => Ok(format!("empties {path} ({before})").into()),
            (Some(new), Some(text)) if new == text => {
                Ok(format!("rewrites {path} with the same content").into())
            }
            (Some(new), Some(text)) => {
                let diff = unified(text, new);
                let (removed, added) = diff_counts(&diff);
                Ok(Report {
                    summary: format!("overwrites {path} ({before}): +{added} −{removed} lines"),
                    diff,
                })
            }
            (Some(_) | None, _) => Ok(format!("overwrites {path} ({before}){}", size_text()).into()),
        }
    }
}
