//! Short additions to tool results and replies that help a model out of a failure. Pure functions of one call, one
//! outcome or one reply.
//!
//! Small models need these lines most: they repeat a failing command with other words, guess options, and report work
//! that they never did. A line is added only after a failure or a command without an effect; other sessions cost
//! nothing.

use crate::message::{CallEnd, ToolCall, has_error_message};
use crate::outcome::{Outcome, Reversibility, Status, SystemChange};
use crate::spec::{FILE_LIST_MARK, REPOSITORY_MARK};

/// Exit code of a shell that did not find the program.
const NOT_FOUND: i32 = 127;

/// Number of bytes of an output, from its end, that are searched for an error message.
const SEARCHED_BYTES_MAX: usize = 2_000;

/// Maximum characters of a command in a hint.
const COMMAND_CHARS_MAX: usize = 300;

/// Message of git outside of a repository.
const NO_REPOSITORY: &str = "fatal: not a git repository";

/// Lowercase phrases with which programs reject an option.
const WRONG_OPTION: [&str; 11] = [
    "invalid option",
    "unrecognized option",
    "unrecognised option",
    "unknown option",
    "illegal option",
    "unknown shorthand flag",
    "unknown flag",
    "unexpected argument",
    "unrecognized arguments",
    "unknown predicate",
    "option requires an argument",
];

/// Usual calls of programs whose options are often confused.
const USAGES: [(&str, &str); 22] = [
    ("awk", "awk '{print $1}' FILE"),
    ("cp", "cp -r SOURCE TARGET"),
    ("crontab", "crontab -l; crontab FILE"),
    ("cut", "cut -d: -f1 FILE"),
    ("date", "date -d '1 day ago' +%F"),
    ("df", "df -h PATH"),
    ("du", "du -sh PATH"),
    ("find", "find DIR -type f -name '*.log' -mtime +7"),
    ("grep", "grep -rn PATTERN PATH"),
    ("gunzip", "gunzip -k FILE.gz"),
    ("gzip", "gzip -k FILE"),
    ("head", "head -n 20 FILE"),
    ("ln", "ln -s TARGET LINK"),
    ("mkdir", "mkdir -p DIR"),
    ("ps", "ps aux"),
    ("sed", "sed -i 's/OLD/NEW/' FILE"),
    ("sort", "sort -k2 -n FILE | uniq -c"),
    ("sqlite3", "sqlite3 FILE.db 'SELECT 1;'"),
    ("tail", "tail -n 20 FILE"),
    ("tar", "tar -czf FILE.tar.gz PATH; tar -xzf FILE.tar.gz -C DIR"),
    ("unzip", "unzip FILE.zip -d DIR"),
    ("xargs", "find DIR -print0 | xargs -0 PROGRAM"),
];

/// Returns the line that is added to the result of a command that failed because a program is missing or refused an
/// option.
pub(super) fn usage(call: &ToolCall, outcome: &Outcome) -> Option<String> {
    let command = call.text_argument("command")?;
    if outcome.status != Status::Failed {
        return None;
    }
    let tail = outcome.output.floor_char_boundary(outcome.output.len().saturating_sub(SEARCHED_BYTES_MAX));
    let output = &outcome.output[tail..];
    let missing = missing_program(output).filter(|_| outcome.exit_code == Some(NOT_FOUND));
    if let Some(program) = missing {
        return Some(format!("[{program} is not installed: use another program, or the shell itself]"));
    }
    let line = output.lines().find(|line| {
        let line = line.to_ascii_lowercase();
        WRONG_OPTION.iter().any(|words| line.contains(words))
    })?;
    let program = rejecting_program(line, command)?;
    Some(match USAGES.iter().find(|(name, _)| *name == program) {
        Some((_, usage)) => format!("[usage: {usage}]"),
        None => format!("[to see the options of {program}, run `{program} --help`]"),
    })
}

/// Returns the error of a command whose quotes or document are not closed, such as a model writes if it ends a JSON
/// string too early.
pub(super) fn unclosed(command: &str) -> Option<String> {
    unclosed_document(command).or_else(|| unclosed_quote(command))
}

/// Returns the error of a command with a single document, such as `cat <<EOF`, whose last line is missing.
fn unclosed_document(command: &str) -> Option<String> {
    let (before, after) = command.split_once("<<")?;
    let is_end = |sign: char| sign.is_whitespace() || ">|&;)".contains(sign);
    let word = after.trim_start_matches(['-', ' ']).split(is_end).next()?;
    let unquoted = ['\'', '"'].iter().find_map(|quote| word.strip_prefix(*quote)?.strip_suffix(*quote));
    let mark = unquoted.unwrap_or(word);
    let is_mark = mark.starts_with(|sign: char| sign.is_ascii_alphabetic())
        && mark.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_');
    let is_single =
        !after.contains("<<") && !before.contains(['\'', '"', '#', '`']) && !before.contains("((");
    if !is_mark || !is_single || after.lines().any(|line| line.trim() == mark) {
        return None;
    }
    Some(format!("error: not run: the document is never closed; end it with a line {mark}"))
}

/// Only commands of one line without comments are read, as others cannot be read by their quotes alone.
fn unclosed_quote(command: &str) -> Option<String> {
    if ["\n", "#", "\\", "<<", "$("].iter().any(|sign| command.contains(sign)) {
        return None;
    }
    let mut open = None;
    for sign in command.chars().filter(|sign| "'\"`".contains(*sign)) {
        open = match open {
            None => Some(sign),
            Some(quote) if quote == sign => None,
            Some('"') if sign == '`' => return None, // a substitution has quotes of its own
            Some('`') => return None,
            other => other,
        };
    }
    open.map(|quote| {
        format!(
            "error: not run: the quote {quote} is never closed; within a JSON string, write \\\" for each \" of the \
             command"
        )
    })
}

/// Returns the end of a call by its outcome.
pub(super) fn end_of(outcome: &Outcome) -> CallEnd {
    match outcome.status {
        Status::Failed if outcome.unreachable => CallEnd::Refused,
        Status::Failed if has_error_message(&outcome.output) => CallEnd::Failed,
        Status::Failed if outcome.exit_code.is_none() => CallEnd::Unfinished,
        Status::Ok | Status::Failed => CallEnd::Done,
        Status::Cancelled | Status::Rejected => CallEnd::Refused,
        Status::Timeout | Status::Interrupted | Status::Unknown => CallEnd::Unfinished,
    }
}

/// Programs that edit files in place.
const EDITORS: [&str; 4] = ["sed", "perl", "awk", "gawk"];

/// Returns the line that is added to the result of an edit that wrote files, but left the content of each as it was,
/// such as a `sed -i` whose pattern matches nothing. Such commands end without a word and with exit code 0.
pub(super) fn changed_nothing(call: &ToolCall, outcome: &Outcome) -> Option<String> {
    let command = call.text_argument("command")?;
    let is_silent = outcome.status == Status::Ok && !has_error_message(&outcome.output);
    // Other programs, such as `touch`, may be meant to leave the content, or have other effects.
    let is_editor = |word: &str| EDITORS.contains(&word.rsplit('/').next().unwrap_or_default());
    let is_edit = command.split_whitespace().any(is_editor);
    let is_recorded = outcome.undo == Some(Reversibility::Exact);
    if !(is_silent && is_edit && is_recorded && outcome.changed.iter().all(SystemChange::is_rewrite)) {
        return None;
    }
    let name = outcome.changed.first()?.name.rsplit('/').next().unwrap_or_default();
    let files = if outcome.changed.len() > 1 {
        format!("{name} and others have their")
    } else {
        format!("{name} has its")
    };
    let is_path = |word: &&str| word.rsplit('/').next() == Some(name);
    let path = command.split_whitespace().find(is_path).unwrap_or(name);
    Some(format!("[the edit changed nothing: {files} old content; run: cat {path}]"))
}

/// Programs and builtins that are used to empty a file or to create an empty one.
const EMPTYING: [&str; 7] = [":", "echo", "mktemp", "printf", "touch", "true", "truncate"];

/// Returns the line that is added to the result of a command whose only change is a file that is empty or blank, such
/// as a pipeline whose filter selects the wrong column. Such commands end without a word and with exit code 0.
pub(super) fn wrote_nothing(call: &ToolCall, outcome: &Outcome) -> Option<String> {
    let command = call.text_argument("command")?;
    let [file] = outcome.changed.as_slice() else { return None };
    let is_silent = outcome.status == Status::Ok && !has_error_message(&outcome.output);
    let (writer, _) = command.rsplit_once('>')?;
    let is_meant = command.contains("/dev/null")
        || writer.trim().is_empty()
        || writer.split_whitespace().any(|word| EMPTYING.contains(&word));
    if !is_silent || is_meant || !file.is_blank_file() {
        return None;
    }
    let name = file.name.rsplit('/').next().unwrap_or_default();
    let (first_part, rest) = writer.split_once('|').unwrap_or((writer, ""));
    // A part that ends in quotes, or has a redirection of its own, cannot be run alone. Other parts are not repeated.
    let is_whole = !first_part.contains(['\'', '"', '\\', '>']) && !rest.starts_with('|');
    let is_whole = is_whole && !has_other_parts(behind_directory(first_part));
    let advice = if sorts_long_list(command) {
        format!("{USAGE}{LS_ORDERS}")
    } else if is_whole {
        format!("{RUN_FIRST_PART}{}", first_line(first_part.trim()))
    } else {
        String::new()
    };
    Some(format!("[the command wrote nothing into {name}, which is empty{advice}]"))
}

const RUN: &str = "; run: ";
const RUN_FIRST_PART: &str = "; run its first part alone: ";
const USAGE: &str = "; usage: ";
const LS_ORDERS: &str = "ls -S DIR (largest first), ls -t DIR (newest first)";

/// Returns true if a line of advice names the command to run next.
pub(super) fn names_command(advice: &str) -> bool {
    [RUN_FIRST_PART, USAGE, RUN].iter().any(|mark| advice.contains(mark))
}

/// Returns the line that is added to the result of a command with an idiom whose result is wrong in most directories
/// and files, although it ends without an error.
pub(super) fn wrong_idiom(call: &ToolCall, outcome: &Outcome) -> Option<String> {
    let command = call.text_argument("command").filter(|_| outcome.status == Status::Ok)?;
    if sorts_long_list(command) {
        return Some(format!(
            "[sort compares the whole lines of ls, from the permissions on{USAGE}{LS_ORDERS}]"
        ));
    }
    let name = loosely_matched_setting(command)?;
    Some(format!("[{}{USAGE}grep '^NAME=' FILE | cut -d= -f2]", loose_match(name)))
}

/// Signs in the word of a file name that a shell does not take as they are, or that may stand for several files.
const NOT_A_PLAIN_NAME: [char; 11] = ['<', '>', '*', '?', '[', '{', '$', '~', '\'', '"', '\\'];

/// Advice to run another command instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Correction {
    /// Line that is added to the result.
    pub(super) line: String,
    pub(super) command: String,
}

/// Returns the right command after one that printed or wrote something else than it seems to be for.
pub(super) fn corrected(call: &ToolCall, outcome: &Outcome) -> Option<Correction> {
    let command = call.text_argument("command").filter(|_| !has_error_message(&outcome.output))?;
    if has_other_parts(behind_directory(command)) {
        return None; // the model would repeat them, too
    }
    let written = || named_count(command).or_else(|| logged_ids(command)).or_else(|| loose_setting(command));
    let is_ok = outcome.status == Status::Ok;
    let right = is_ok.then(written).flatten();
    // This one also fails: grep finds nothing.
    let ended = is_ok || outcome.status == Status::Failed;
    let (what, right) = right.or_else(|| filtered_count(command).filter(|_| ended))?;
    Some(Correction { line: format!("[{what}{RUN}{right}]"), command: right })
}

/// Returns true if a command has parts beside one pipeline, such as `; rm a`, `&& git push` or `$(mktemp)`.
fn has_other_parts(command: &str) -> bool {
    command.contains([';', '&', '\n', '`']) || command.contains("||") || command.contains("$(")
}

/// Returns the command behind a leading `cd DIR &&`.
fn behind_directory(command: &str) -> &str {
    match command.split_once("&&") {
        Some((first, rest)) if matches!(*first.split_whitespace().collect::<Vec<_>>(), ["cd", dir] if !has_other_parts(dir)) => {
            rest
        }
        Some(_) | None => command,
    }
}

/// Returns what is wrong with a command that counts a named file into another file, and the right command.
fn named_count(command: &str) -> Option<(String, String)> {
    let parts = pipeline(command);
    let [words] = parts.as_slice() else { return None };
    let ["wc", option, source, output @ ..] = words.as_slice() else { return None };
    let is_target = matches!(output, [">", _] | [_]) && writes_file(output);
    let is_source = option.starts_with('-') && !source.starts_with('-') && !source.contains(NOT_A_PLAIN_NAME);
    let right = format!("wc {option} <{source} {}", output.join(" "));
    (is_target && is_source).then_some(("wc writes the name of the file, too".to_owned(), right))
}

/// Returns true if one of the words redirects the output to a file, with or without a space before its name.
fn writes_file(words: &[&str]) -> bool {
    let targets = words.iter().enumerate().filter_map(|(at, word)| match word.strip_prefix('>')? {
        "" => words.get(at + 1).copied(),
        rest => Some(rest),
    });
    targets.into_iter().any(|target| !target.starts_with(['>', '&']) && target != "/dev/null")
}

/// Returns what is wrong with a command that writes the ids of commits with their subjects into a file, and the right
/// command.
fn logged_ids(command: &str) -> Option<(String, String)> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let is_log = command.contains("git log ") && words.contains(&"--oneline") && writes_file(&words);
    let right = command.replace(" --oneline", " --format=%s");
    (is_log && !command.contains('|'))
        .then_some(("--oneline writes the id of each commit, too".to_owned(), right))
}

/// Returns what is wrong with a command that reads a setting of a file by any line that contains its name, and the
/// right command.
fn loose_setting(command: &str) -> Option<(String, String)> {
    let name = loosely_matched_setting(command)?;
    let parts = pipeline(command);
    let path = match parts.as_slice() {
        [cat, grep, _] if cat.first() == Some(&"cat") && cat.len() == 2 && grep.len() == 2 => cat[1],
        [grep, _] if grep.len() == 3 => grep[2],
        _ => return None,
    };
    let (_, cut) = command.rsplit_once('|')?;
    Some((loose_match(name), format!("grep '^ *{name} *=' {path} | {}", cut.trim())))
}

fn loose_match(name: &str) -> String {
    format!("grep {name} matches comments and longer names too")
}

/// Returns what is wrong with a command that searches the count of all lines, and the command that counts the lines
/// that match.
fn filtered_count(command: &str) -> Option<(String, String)> {
    let (count, search) = command.split_once('|')?;
    let words: Vec<&str> = count.split_whitespace().collect();
    let ["wc", "-l", path] = words.as_slice() else { return None };
    let is_one_file = !path.contains(NOT_A_PLAIN_NAME);
    let search = search.trim().strip_prefix("grep ").filter(|rest| !rest.contains('|'))?;
    let (pattern, output) = match search.split_once('>') {
        // The digit is a file descriptor.
        Some((pattern, _)) if pattern.ends_with(|sign: char| sign.is_ascii_digit()) => return None,
        Some((pattern, file)) => (pattern.trim(), format!(" >{}", file.trim())),
        None => (search, String::new()),
    };
    let is_whole = ['\'', '"'].iter().all(|quote| pattern.matches(*quote).count() % 2 == 0);
    // `-o` prints the number itself, and `-q` only tests it.
    let tests_count =
        pattern.split_whitespace().any(|word| word.starts_with('-') && word.contains(['o', 'q']));
    let what = "wc prints one line, and grep searches that".to_owned();
    let is_mistake = is_whole && is_one_file && !tests_count;
    is_mistake.then(|| (what, format!("grep -c {pattern} {path}{output}")))
}

/// Returns the words of each part of a pipeline of one line. A `|` in quotes also separates parts. Returns nothing for
/// other commands.
fn pipeline(command: &str) -> Vec<Vec<&str>> {
    if command.contains("||") || command.contains(['\n', '`']) {
        return Vec::new();
    }
    command.split('|').map(|part| part.split_whitespace().collect()).collect()
}

/// Returns true if a pipeline sorts the output of `ls -l` without naming a column.
fn sorts_long_list(command: &str) -> bool {
    let has = |words: &[&str], letters: [char; 2]| {
        let is_short = |word: &&&str| word.starts_with('-') && !word.starts_with("--");
        words.iter().filter(is_short).any(|word| word.contains(letters))
    };
    pipeline(command).windows(2).any(|parts| {
        let [list, sort] = parts else { return false };
        let is_sorted_list = list.first() == Some(&"ls") && sort.first() == Some(&"sort");
        let names_column = has(sort, ['k', 't']) || sort.iter().any(|word| word.starts_with("--key"));
        is_sorted_list && has(list, ['l', 'l']) && !has(list, ['S', 't']) && !names_column
    })
}

/// Returns the name of a setting in a file with lines `NAME=VALUE`, if a pipeline selects its line by the bare name.
fn loosely_matched_setting(command: &str) -> Option<&str> {
    let parts = pipeline(command);
    let at = parts.iter().position(|part| part.first() == Some(&"grep"))?;
    let split = parts.get(at + 1)?;
    let options = split.join(" ").replace(['\'', '"'], "");
    let is_at_sign = ["-d=", "-d =", "-F=", "-F ="].iter().any(|option| options.contains(option));
    let splits = is_at_sign && matches!(split.first(), Some(&("cut" | "awk")));
    let pattern = parts[at].get(1)?.trim_matches(['\'', '"']);
    let is_name = |sign: char| sign.is_ascii_alphanumeric() || "_.".contains(sign);
    (splits && !pattern.is_empty() && pattern.chars().all(is_name)).then_some(pattern)
}

/// Remembers the file that a command left empty, until a command fills it. See [`emptied_file`].
pub(super) fn track_empty_file(empty: &mut Option<String>, outcome: &Outcome, told: bool, prompt: &str) {
    match emptied_file(outcome, told, prompt) {
        Some(path) => *empty = Some(path),
        None => *empty = empty.take().filter(|path| !fills(outcome, path)),
    }
}

/// Returns the path of a file that a command was to fill, but left empty. `told` is true if its result says so. A file
/// that was only created is one, too, unless `prompt` asks for an empty file.
fn emptied_file(outcome: &Outcome, told: bool, prompt: &str) -> Option<String> {
    let [file] = outcome.changed.as_slice() else { return None };
    let mut words = prompt.split(|sign: char| !sign.is_alphabetic());
    let mut asks_for_empty =
        || words.any(|word| ["blank", "empty", "touch"].iter().any(|it| word.eq_ignore_ascii_case(it)));
    let is_new = file.how == SystemChange::CREATED_EMPTY;
    (file.is_blank_file() && (told || (is_new && !asks_for_empty()))).then(|| file.name.clone())
}

/// Returns true if a command has written something into the file at `path`.
fn fills(outcome: &Outcome, path: &str) -> bool {
    let mut changes = outcome.changed.iter().filter(|change| change.name == path);
    changes.any(|change| !change.is_rewrite() && !change.is_blank_file())
}

/// Returns the question about an empty file before a turn ends.
pub(super) fn still_empty(path: &str) -> String {
    format!(
        "{} is still empty. If it must hold something, write that into it now. If not, give your answer again.",
        base_name(path)
    )
}

/// Returns the question about a number in an answer that no output showed. `file` is the relative path of the file that
/// changed last.
pub(super) fn not_shown(number: &str, file: Option<&str>) -> String {
    let is_plain =
        |path: &&str| path.chars().all(|sign| sign.is_ascii_alphanumeric() || "._/-".contains(sign));
    let command = file.filter(is_plain).map(|path| format!(", such as: cat {path}")).unwrap_or_default();
    format!(
        "Your answer says {number}, but no output shows that. Run a command that prints it{command}. If nothing can print \
         it, give your answer again."
    )
}

/// Returns the line that is added to the result of a command that seems to prepare for `failed`, the command before it.
pub(super) fn not_repeated(failed: &str) -> String {
    let line = first_line(failed);
    format!("[this command failed and has not been run again; if it is still needed, run it now: {line}]")
}

/// Returns the beginning of a command, for a hint of one line.
fn first_line(command: &str) -> String {
    let mut line: String =
        command.lines().next().unwrap_or_default().chars().take(COMMAND_CHARS_MAX).collect();
    if line.len() < command.trim_end().len() {
        line.push_str(" …");
    }
    line
}

/// Returns the line that is added to the result of a git command that ran outside of a repository. `system` is the
/// system prompt, which may list the files of the workspace.
pub(super) fn no_repository(call: &ToolCall, outcome: &Outcome, system: &str) -> Option<String> {
    let command = call.text_argument("command")?;
    if outcome.status != Status::Failed
        || !command.starts_with("git ")
        || !outcome.output.contains(NO_REPOSITORY)
    {
        return None;
    }
    let is_short = !command.contains('\n') && command.chars().count() <= COMMAND_CHARS_MAX;
    // Nothing ran behind `&&`. Other parts would run once more.
    let is_repeatable = !has_other_parts(&command.replace("&&", "").replace("2>&1", ""));
    let name = listed_repository(system).filter(|_| is_short && is_repeatable)?;
    // Paths below the repository are relative to it from now on.
    let inner = first_line(command).replace(&format!(" {name}/"), " ");
    Some(format!("[the repository is in the directory {name}; run: cd {name} && {inner}]"))
}

/// Returns the name of the only git repository in the list of files that a system prompt contains.
fn listed_repository(system: &str) -> Option<&str> {
    let mut marks = system.match_indices(REPOSITORY_MARK);
    let (at, _) = marks.next()?;
    let name = system[..at].rsplit([' ', '\n']).next().filter(|name| !name.is_empty())?;
    marks.next().is_none().then_some(name)
}

/// Returns the program that a shell did not find, according to its message: `sh: 1: jq: not found`, `bash: line 1: jq:
/// command not found`, `zsh: command not found: jq`.
fn missing_program(output: &str) -> Option<&str> {
    output.lines().rev().find_map(|line| {
        let line = line.trim_end();
        let name = match line.rsplit_once("command not found: ") {
            Some((_, name)) => name,
            None => line
                .strip_suffix(": command not found")
                .or_else(|| line.strip_suffix(": not found"))?
                .rsplit(": ")
                .next()?,
        };
        is_program_name(name).then_some(name)
    })
}

/// Returns the program that refused an option: the program whose name begins the message, or else the command's only
/// program. `None` if neither is known.
fn rejecting_program<'a>(line: &'a str, command: &'a str) -> Option<&'a str> {
    let base = |word: &'a str| word.rsplit('/').next().unwrap_or(word);
    let called = |name: &str| {
        command
            .split(|sign: char| !(sign.is_alphanumeric() || "-_./+".contains(sign)))
            .any(|word| base(word) == name)
    };
    let named = line.split_once(": ").map(|(name, _)| base(name.trim()));
    let named = named.filter(|name| is_program_name(name) && called(name));
    named.or_else(|| {
        let single = !command.contains(['|', ';', '&', '\n', '$', '`', '(']);
        let first = command.split_whitespace().find(|word| *word != "sudo" && !word.contains('='))?;
        Some(base(first)).filter(|name| single && is_program_name(name))
    })
}

fn is_program_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    (1..=32).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('-')
}

/// Ends of host names.
const DOMAINS: [&str; 11] =
    ["com", "dev", "example", "internal", "invalid", "io", "lan", "local", "net", "org", "test"];

/// Maximum number of files that the model is asked about.
const FILES_MAX: usize = 3;

/// Returns a question about the files that `prompt` names and that occur in none of the texts in `used`. Files in the
/// list of the system prompt do not count: they are there, so nothing shows that they must be written. `last` is the
/// command that printed a single value just before.
pub(super) fn unwritten_files(
    prompt: &str,
    used: &[String],
    system: &str,
    last: Option<&str>,
) -> Option<String> {
    let listed = listed_names(system);
    let mut files: Vec<&str> = Vec::new();
    let sentences = prompt.split_inclusive(['\n', ';']).flat_map(|line| line.split_inclusive(". "));
    for path in sentences.filter(|sentence| !restricts(sentence)).flat_map(named_files) {
        let name = base_name(path);
        let is_used = listed.contains(&name) || used.iter().any(|text| text.contains(name));
        if !is_used && !files.contains(&path) {
            files.push(path);
        }
    }
    files.truncate(FILES_MAX);
    let first = files.first()?;
    let subject = format!("The request names {}, but nothing that you ran has used it.", files.join(", "));
    // Without a list of the files, nothing tells that the file is not there yet.
    let is_new = !listed.is_empty() && !first.starts_with(['/', '~']);
    Some(match last.filter(|_| is_new) {
        // An offer to answer again is taken, although the result is missing.
        Some(command) => format!("{subject} If the result belongs there, run: {command} >{first}"),
        None if is_new => format!(
            "{subject} If the result belongs there, run a command that writes it: COMMAND >{first}. If not, give your answer \
             again."
        ),
        None => format!(
            "{subject} If it must be written or changed, do that now. If not, give your answer again."
        ),
    })
}

/// Returns the names of files in the list that a system prompt contains.
fn listed_names(system: &str) -> Vec<&str> {
    let list = system.lines().find_map(|line| line.strip_prefix(FILE_LIST_MARK)).unwrap_or_default();
    list.split([' ', ',', '(', ')']).filter(|name| !name.is_empty()).collect()
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns true if a sentence says what must not be done or must stay as it is.
fn restricts(sentence: &str) -> bool {
    let words = sentence.split(|sign: char| !sign.is_alphabetic() && sign != '\'');
    let is_restriction = |word: &str| RESTRICTIONS.iter().any(|listed| listed.eq_ignore_ascii_case(word));
    words.into_iter().any(is_restriction)
}

/// Words of a restriction. A file that must stay as it is need not be used.
const RESTRICTIONS: [&str; 12] = [
    "don't", "except", "keep", "keeps", "leave", "leaves", "never", "nor", "not", "stay", "stays",
    "unchanged",
];

/// Returns the paths of files in a text. The name of a file has an extension. Names of up to three characters, such as
/// `e.g`, addresses of hosts and pages, and patterns do not count.
fn named_files(text: &str) -> impl Iterator<Item = &str> {
    let separators = |sign: char| sign.is_whitespace() || "\"'`()[]{}<>,;".contains(sign);
    text.split(separators).filter_map(|word| {
        let path = word.trim_end_matches(['.', ':', '!', '?']);
        let name = base_name(path);
        let (stem, extension) = name.rsplit_once('.')?;
        let is_plain = |sign: char| sign.is_alphanumeric() || "_-.+".contains(sign);
        let is_name = !path.contains("://") && name.chars().all(is_plain) && name.chars().count() > 3;
        let is_extension =
            extension.starts_with(char::is_alphabetic) && extension.chars().all(char::is_alphanumeric);
        let is_host = DOMAINS.contains(&extension) && !path.contains('/');
        (is_name && is_extension && !is_host && !stem.is_empty()).then_some(path)
    })
}

/// Lowercase phrases that claim an action.
const CLAIMS: [&str; 10] = [
    "successfully", "has been ", "have been ", "i have ", "i've ", "i ran ", "i created ", "i updated ",
    "i removed ", "was created",
];

/// Participles of actions that change a machine or read from it. A claim names one of them.
const ACTIONS: [&str; 26] = [
    "added", "appended", "archived", "changed", "checked", "committed", "compressed", "copied", "created",
    "deleted", "edited", "enabled", "executed", "extracted", "fixed", "installed", "merged", "modified",
    "moved", "removed", "renamed", "replaced", "restarted", "reverted", "updated", "written",
];

/// Maximum bytes at each end of a reply that are searched for a claim.
const CLAIM_BYTES_MAX: usize = 4096;

/// Returns true if the text claims that an action was done. Questions, plans and refusals are not claims. What stands
/// far from both ends of a long reply is part of its answer.
pub(super) fn claims_action(text: &str) -> bool {
    let begin = text.floor_char_boundary(CLAIM_BYTES_MAX);
    let end = text.ceil_char_boundary(text.len().saturating_sub(CLAIM_BYTES_MAX)).max(begin);
    [&text[..begin], &text[end..]].into_iter().any(says_that_an_action_was_done)
}

fn says_that_an_action_was_done(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.split(['.', '!', '\n', ';']).any(|sentence| {
        // Most sentences of a long reply name no action.
        let mut words = sentence.split(|sign: char| !sign.is_alphanumeric());
        words.any(|word| ACTIONS.contains(&word)) && {
            let denied = [" not ", "n't ", "cannot", "unable", "would", "will ", "should", "?"];
            let padded = format!("{sentence} ");
            !denied.iter().any(|word| sentence.contains(word))
                && CLAIMS.iter().any(|claim| padded.contains(claim))
        }
    })
}

#[cfg(test)]
mod tests;
