//! Records the paths that a command uses, so that the host can resolve them, and assesses them by their text
//! and by the files that they resolve to.
//!
//! Each function takes a word as written and the span of its findings. [`use_path`] handles an operand that
//! is read, written or run; [`fill_folder`] a directory in which the program writes files whose names it
//! chooses; [`change_tree`] a directory that is changed with all its contents; [`copy_to`] the target of a
//! copy or move that keeps the file's name; and [`link_to`] the target of a new link.

use std::path::Path;

use super::folders::Folders;
use super::lexer::{UNKNOWN, Word};
use super::options::is_listed;
use super::path;
use super::protected;
use super::state::{Span, State};
use super::write_effect::WriteEffect;
use crate::context::{Access, CommandContext, Resolution, ResolvedFile, Target};
use crate::risk::RiskClass;

/// Records a path that a command reads, writes or runs, and assesses it.
pub(super) fn use_path(state: &mut State, span: Span, word: &Word, access: Access) {
    let found = look_up(state, word, access);
    match access {
        Access::Write => {
            let verb = state.write_effect.verb();
            written(state, span, &found, |path, home| owned(protected::written(path, home)), verb);
        }
        Access::Read => reads(state, span, &found, protected::read),
        Access::Run | Access::Repository => state.raise(RiskClass::Changes),
    }
}

/// Assesses a directory into which a command writes files that it does not name, as when it unpacks an archive.
pub(super) fn fill_folder(state: &mut State, span: Span, word: &Word) {
    let found = look_up(state, word, Access::Write);
    let contains = |path: &str, home: Option<&str>| {
        let below = || protected::tree_written(path, home).map(|(_, what)| (RiskClass::Dangerous, what));
        owned(protected::written(path, home).or_else(below))
    };
    written(state, span, &found, contains, "may overwrite");
}

/// Assesses a path that is removed, moved or given other permissions, together with everything below it.
pub(super) fn change_tree(state: &mut State, span: Span, word: &Word) {
    let found = look_up(state, word, Access::Write);
    let is_moved = matches!(state.write_effect, WriteEffect::Move);
    let verb = if is_moved { "moves" } else { state.write_effect.verb() };
    written(state, span, &found, tree_written, verb);
}

/// Like [`protected::tree_written`], in words that say if the path is the protected place or contains it.
fn tree_written(path: &str, home: Option<&str>) -> Option<(RiskClass, String)> {
    let (class, what) = protected::tree_written(path, home)?;
    let is_root = path.starts_with('/') && path.trim_matches(['/', '*']).is_empty();
    let words = match protected::written(path, home) {
        _ if is_root => "everything".to_owned(),
        Some(_) => what.to_owned(),
        None => format!("a directory with {what}"),
    };
    Some((class, words))
}

fn owned(found: Option<(RiskClass, &str)>) -> Option<(RiskClass, String)> {
    found.map(|(class, what)| (class, what.to_owned()))
}

/// Assesses the target of a copy or move, which is a file, or a directory in which the source keeps its name.
pub(super) fn copy_to(state: &mut State, span: Span, target: &Word, source: &Word) {
    use_path(state, span, target, Access::Write);
    let name = source.text().trim_end_matches('/').rsplit('/').next().unwrap_or("");
    let mut below = look_up(state, target, Access::Write);
    for path in &mut below.paths {
        *path = path::resolve(Some(path.as_str()), name);
    }
    let home = state.survey.context.home.clone();
    for path in &below.paths {
        if let Some((class, what)) = protected::written(path, home.as_deref()) {
            state.note(span, class, &format!("changes {what}"));
        }
    }
}

/// Assesses the place that a new link leads to, because reads and writes through the link take place there.
pub(super) fn link_to(state: &mut State, span: Span, word: &Word) {
    let found = look_up(state, word, Access::Read);
    let home = state.survey.context.home.clone();
    for path in &found.paths {
        let leads = protected::tree_written(path, home.as_deref()).map(|(_, what)| what);
        if let Some(what) = leads.or_else(|| protected::tree_read(path, home.as_deref())) {
            state.note(span, RiskClass::Dangerous, &format!("links to {what}"));
        }
    }
    if word.expands {
        state.note(span, RiskClass::Opaque, "links to a path that is computed at run time");
    }
}

/// Notes a secret that is named by a program that may show file content. `below` means that directories with secrets
/// count too.
pub(super) fn note_secret(state: &mut State, span: Span, word: &Word, below: bool) {
    if is_ordinary(state, word) && !below {
        return;
    }
    let rule = if below { protected::tree_read } else { protected::read };
    // Quoted text that begins with a brace is a program or a value, as in awk and curl.
    if word.text().starts_with('{') && !word.brace {
        return;
    }
    if let Some(what) = secret(state, word, rule) {
        state.note(span, RiskClass::ReadsSecret, &format!("reads {what}"));
    }
}

/// Notes a directory that contains secrets in files and directories whose names do not start with a dot.
pub(super) fn note_visible_secrets(state: &mut State, span: Span, word: &Word) {
    if let Some(what) = secret(state, word, protected::visible_read) {
        state.note(span, RiskClass::ReadsSecret, &format!("reads {what}"));
    }
}

/// Returns true if a word names a secret. `below` means that a directory that contains secrets counts too.
pub(super) fn names_secret(state: &State, word: &Word, below: bool) -> bool {
    let rule = if below { protected::tree_read } else { protected::read };
    (below || !is_ordinary(state, word)) && secret(state, word, rule).is_some()
}

fn secret(
    state: &State,
    word: &Word,
    rule: fn(&str, Option<&str>) -> Option<&'static str>,
) -> Option<&'static str> {
    let home = state.survey.context.home.as_deref();
    let texts = if word.brace { brace_words(word.text()) } else { None };
    let texts = texts.unwrap_or_else(|| vec![word.text().to_owned()]);
    texts.iter().flat_map(|text| places(state, text)).find_map(|place| rule(&place, home))
}

/// Returns true for a plain name in an ordinary workspace. Such a name cannot match a protected or secret place.
fn is_ordinary(state: &State, word: &Word) -> bool {
    let Some(root) = state.ordinary_root.as_deref() else { return false };
    let is_within = |folder: &str| {
        folder.strip_prefix(root).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with('/') && !rest.contains(['.', '~', '*', '?', '[', '_'])
        })
    };
    !state.folders.is_unknown()
        && state.folders.iter().all(is_within)
        && !word.text().contains(['/', '.', '~', '*', '?', '[', '{', '_', UNKNOWN])
}

/// Returns the root of the workspace, unless it lies in or contains a protected or secret place.
pub(super) fn ordinary_root(context: &CommandContext) -> Option<String> {
    let root = context.root.as_deref()?;
    let home = context.home.as_deref();
    let ordinary =
        protected::tree_written(root, home).is_none() && protected::tree_read(root, home).is_none();
    (ordinary && root.len() > 1).then(|| root.to_owned())
}

/// Returns the files that the path of a script to run resolves to, or `None` if the host did not resolve it.
pub(super) fn script_files(state: &mut State, word: &Word) -> Option<Vec<ResolvedFile>> {
    look_up(state, word, Access::Run).files
}

/// Returns true if the host knows that there is no file with this name in any directory in which the shell may be, and
/// the command has not written one there.
pub(super) fn is_missing(state: &mut State, word: &Word) -> bool {
    let found = look_up(state, word, Access::Read);
    let placed = |target: &Target| {
        let folder = target.folder.as_deref().or(state.folders.only());
        path::resolve(folder, &target.word)
    };
    let may_hold = |target: &Target| {
        let place = placed(target);
        target.glob
            || place.contains(UNKNOWN)
            || found.paths.iter().any(|path| Path::new(path).starts_with(&place))
    };
    let survives = state.survey.resolution == Resolution::Host && !found.open && !found.unplaced;
    survives
        && found.files.is_some_and(|files| !files.is_empty() && files.iter().all(|file| file.missing))
        && !state.written().iter().any(may_hold)
}

/// A path and the facts known about it.
struct Found {
    /// The path as written, made absolute if possible, and each file that the host resolved it to.
    paths: Vec<String>,
    /// Files that the host found; `None` if the host did not resolve the path.
    files: Option<Vec<ResolvedFile>>,
    /// True if the text alone does not determine the path.
    open: bool,
    /// True if the path starts from an unknown directory.
    unplaced: bool,
    /// True if the path is a plain name in the workspace and does not lead anywhere else.
    ordinary: bool,
    /// True if there were too many paths to look up all of them.
    beyond: bool,
}

fn look_up(state: &mut State, word: &Word, access: Access) -> Found {
    let texts = if word.brace { brace_words(word.text()) } else { None };
    let unread_brace = word.brace && texts.is_none();
    let texts = texts.unwrap_or_else(|| vec![word.text().to_owned()]);
    let places: Vec<String> = texts.iter().flat_map(|text| places(state, text)).collect();
    let unplaced = places.iter().any(|place| place.contains(UNKNOWN));
    let mut found = Found {
        open: word.glob || unread_brace || word.expands && !is_folder_variable(word) || unplaced,
        unplaced: state.folders.is_unknown() && !is_rooted(word.text()) || hides_place(word.text()),
        paths: places,
        files: None,
        ordinary: is_ordinary(state, word),
        beyond: false,
    };
    if word.text().contains(UNKNOWN) || word.brace {
        return found;
    }
    let from: Vec<Option<String>> = match state.folders.is_unknown() || is_rooted(word.text()) {
        true => vec![state.folders.only().map(str::to_owned)],
        false => state.folders.iter().map(|folder| Some(folder.to_owned())).collect(),
    };
    let mut resolved = Some(Vec::new());
    for folder in from {
        let folder = folder.filter(|folder| folder.starts_with('/'));
        let target = Target { word: word.text().to_owned(), glob: word.glob, folder, access };
        let files = state.survey.resolved(&target).map(<[ResolvedFile]>::to_vec);
        found.ordinary &= files.as_ref().is_none_or(Vec::is_empty);
        found.paths.extend(files.iter().flatten().map(|file| file.path.clone()));
        resolved = resolved.zip(files).map(|(all, files)| [all, files].concat());
        found.beyond |= !state.add_target(target);
    }
    found.files = resolved;
    found
}

/// Expands one pair of braces with commas into words. Returns `None` for any other use of braces.
fn brace_words(text: &str) -> Option<Vec<String>> {
    let (start, rest) = text.split_once('{')?;
    let (inner, end) = rest.split_once('}')?;
    let plain = inner.contains(',') && !inner.contains('{') && !end.contains('{');
    plain.then(|| inner.split(',').map(|piece| format!("{start}{piece}{end}")).collect())
}

/// Returns true for a word such as `$HOME/x` or `$PWD/x`, whose only expansions have known values.
fn is_folder_variable(word: &Word) -> bool {
    word.text().starts_with(['~', '.']) && !word.text().contains(UNKNOWN)
}

/// Returns true for a path that contains an expansion. Such a path may lead to a secret even if its literal part does
/// not.
fn hides_place(text: &str) -> bool {
    text.contains(UNKNOWN) && text.contains('/')
}

/// Returns true if a path does not depend on the current directory.
fn is_rooted(text: &str) -> bool {
    text.starts_with(['/', '~'])
}

/// Returns the absolute path of a word for each directory in which the shell may be.
fn places(state: &State, text: &str) -> Vec<String> {
    if state.folders.is_unknown() || is_rooted(text) {
        return vec![place_in(state, state.folders.only(), text)];
    }
    state.folders.iter().map(|folder| place_in(state, Some(folder), text)).collect()
}

/// Returns the directories in which the shell may be after a change to the named directory.
pub(super) fn folders_at(state: &State, text: &str) -> Folders {
    state.folders.go(|folder| Some(place_in(state, folder, text)).filter(|place| !place.contains(UNKNOWN)))
}

/// Returns the absolute path of a word. A `~` stays if the home is unknown, an unknown directory becomes [`UNKNOWN`].
pub(super) fn place_in(state: &State, folder: Option<&str>, text: &str) -> String {
    let context = &state.survey.context;
    let rest = text.strip_prefix('~').and_then(|rest| match rest.split_once('/') {
        _ if rest.is_empty() => Some(""),
        Some(("", below)) => Some(below),
        Some((user, below)) if context.user.as_deref() == Some(user) => Some(below),
        None if context.user.as_deref() == Some(rest) => Some(""),
        Some(_) | None => None,
    });
    match (rest, context.home.as_deref()) {
        (Some(rest), Some(home)) => path::resolve(Some(home), if rest.is_empty() { "." } else { rest }),
        (Some(_) | None, _) => path::resolve(folder, text),
    }
}

type Rule = fn(&str, Option<&str>) -> Option<(RiskClass, String)>;

fn written(state: &mut State, span: Span, found: &Found, rule: Rule, verb: &str) {
    let place = found.paths.first().cloned().unwrap_or_default();
    if path::is_network(&place) {
        return state.note(span, RiskClass::Opaque, "opens a network connection");
    }
    let effect = state.write_effect;
    let survey = std::rc::Rc::clone(&state.survey);
    let home = survey.context.home.as_deref();
    let mut protected = false;
    for path in found.paths.iter().filter(|_| !found.ordinary) {
        if path::is_block_device(path) && effect == WriteEffect::Write {
            protected = true;
            state.note(span, RiskClass::Dangerous, "writes to a block device");
        } else if let Some((class, what)) = rule(path, home) {
            protected = true;
            state.note(span, class, &format!("{verb} {what}"));
        }
    }
    let device = place.starts_with("/dev/") && !path::is_shared_memory(&place);
    if protected || device && !found.open {
        return;
    }
    let resolved = found.files.as_ref().is_some_and(|files| !files.is_empty());
    let unchecked = if found.open && !resolved {
        Some("a path that is computed at run time")
    } else if found.beyond {
        Some("too many files to check")
    } else if survey.resolution == Resolution::Failed && !resolved {
        Some("a path that could not be resolved")
    } else {
        None
    };
    let incomplete = survey.incomplete.as_deref().filter(|_| !found.beyond || found.open && !resolved);
    // A reason about the path says more than that a file is written.
    if unchecked.is_none() || incomplete.is_some() || !effect.is_told_by_verb() {
        state.note(span, RiskClass::Changes, effect.reason());
    }
    if let Some(what) = unchecked {
        let why = format!("{} {what}", effect.verb_on_path());
        state.note(span, RiskClass::Opaque, incomplete.unwrap_or(&why));
    }
}

fn reads(state: &mut State, span: Span, found: &Found, rule: fn(&str, Option<&str>) -> Option<&'static str>) {
    let survey = std::rc::Rc::clone(&state.survey);
    for path in found.paths.iter().filter(|_| !found.ordinary) {
        if let Some(what) = rule(path, survey.context.home.as_deref()) {
            state.note(span, RiskClass::ReadsSecret, &format!("reads {what}"));
        }
    }
    let resolved = found.files.as_ref().is_some_and(|files| !files.is_empty());
    if found.unplaced && !resolved {
        let why = survey.incomplete.as_deref().unwrap_or("reads a file at an unknown path");
        state.note(span, RiskClass::Opaque, why);
    }
}

/// Names of build files, from which programs that build, test or start something take the commands that they run.
const BUILD_FILES: &str = "makefile gnumakefile justfile package.json cargo.toml build.rs cmakelists.txt setup.py pyproject.toml \
    rakefile gemfile build.gradle pom.xml tasks.py noxfile.py conftest.py dockerfile docker-compose.yml compose.yaml \
    compose.yml vagrantfile meson.build build.ninja taskfile.yml";

/// Notes if the command runs a script that it has just written. `builds` means that the command also runs commands from
/// build files.
pub(super) fn note_written_scripts(state: &mut State, span: Span, builds: bool) {
    let placed = |target: &Target| {
        let folder = target.folder.as_deref().or(state.folders.only());
        path::resolve(folder, &target.word)
    };
    let written: Vec<String> = state.written().iter().map(placed).collect();
    let mut run = state.targets().iter().filter(|target| target.access == Access::Run);
    let name = |path: &String| path.rsplit('/').next().unwrap_or("").to_lowercase();
    let is_built = builds && written.iter().any(|path| is_listed(BUILD_FILES, &name(path)));
    if is_built || run.any(|target| written.contains(&placed(target))) {
        state.note(span, RiskClass::Opaque, "runs a file that the same command wrote");
    }
}
