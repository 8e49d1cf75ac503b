//! Import cycles among the files of a crate: at most three files may form a cycle.
//!
//! A file uses another if it names an item of that file by a path that begins with `crate`, `super` or `self`. A module
//! and its children are one unit, so a path from a file to the file of an ancestor or a descendant does not count.
//! Tests do not count. Paths are found without parsing the language: an item re-exported by an ancestor counts as the
//! ancestor's own.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{root, sources};

const CIRCLE_FILES_MAX: usize = 3;

/// A module with its own file, as the path of names below the crate root; empty for the root.
type Module = Vec<String>;
/// Modules used by each module.
type Uses = BTreeMap<Module, BTreeSet<Module>>;

/// Returns the modules of each crate with their text, both without tests.
fn crates() -> BTreeMap<String, BTreeMap<Module, String>> {
    let mut crates: BTreeMap<String, BTreeMap<Module, String>> = BTreeMap::new();
    for (path, text) in sources() {
        let path = path.strip_prefix(root()).expect("it is in the repository").display().to_string();
        let Some((folder, file)) = path.split_once("/src/") else { continue };
        let name = folder.rsplit('/').next().expect("a split has a last part");
        let module = module_of(file);
        if !module.iter().any(|part| part == "tests") {
            crates.entry(name.to_owned()).or_default().insert(module, without_tests(&text).to_owned());
        }
    }
    crates
}

/// Returns the module of a file below `src/`.
fn module_of(file: &str) -> Module {
    match file.trim_end_matches(".rs") {
        "lib" | "main" => Module::new(),
        path => path.split('/').map(str::to_owned).collect(),
    }
}

fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().expect("a split has a first part")
}

/// Splits Rust into words, `::` and single characters, without comments. Strings are split like code.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    for line in text.lines() {
        // The `//` of a URL in a string does not begin a comment.
        let comment = line.match_indices("//").find(|(at, _)| !line[..*at].ends_with(':'));
        let mut rest = comment.map_or(line, |(at, _)| &line[..at]).trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let length = match word {
                0 if rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                word => word,
            };
            tokens.push(&rest[..length]);
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// Returns the paths in text that begin with `crate`, `super` or `self`; a group in braces is expanded.
fn paths(text: &str) -> Vec<Vec<&str>> {
    let tokens = tokens(text);
    let mut paths = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let begins = ["crate", "super", "self"].contains(&tokens[at])
            && tokens.get(at + 1) == Some(&"::")
            && (at == 0 || tokens[at - 1] != "::");
        at = if begins { read_path(&tokens, at, &[], &mut paths) } else { at + 1 };
    }
    paths
}

/// Reads one path, or all paths of a group in braces, and returns the position after it.
fn read_path<'a>(
    tokens: &[&'a str],
    mut at: usize,
    prefix: &[&'a str],
    paths: &mut Vec<Vec<&'a str>>,
) -> usize {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(at).filter(|token| **token != "{") {
        path.push(*token);
        at += 1;
        if tokens.get(at) != Some(&"::") {
            paths.push(path);
            return if tokens.get(at) == Some(&"as") { at + 2 } else { at };
        }
        at += 1;
    }
    at += 1;
    while let Some(token) = tokens.get(at).filter(|token| **token != "}") {
        at = if *token == "," { at + 1 } else { read_path(tokens, at, &path, paths) };
    }
    at + 1
}

/// Returns the module whose file a path leads to, from the module that contains the path.
fn resolve(from: &Module, path: &[&str], modules: &BTreeSet<Module>) -> Option<Module> {
    let mut rest = path;
    let mut target = from.clone();
    while let [first, others @ ..] = rest {
        match *first {
            "crate" => target.clear(),
            "super" => drop(target.pop()),
            "self" => {}
            _ => break,
        }
        rest = others;
    }
    for part in rest {
        target.push((*part).to_owned());
        if !modules.contains(&target) {
            target.pop();
            break;
        }
    }
    modules.contains(&target).then_some(target)
}

fn uses(files: &BTreeMap<Module, String>) -> Uses {
    let modules: BTreeSet<Module> = files.keys().cloned().collect();
    let of = |(module, text): (&Module, &String)| {
        let targets = paths(text).into_iter().filter_map(|path| resolve(module, &path, &modules));
        let targets = targets.filter(|target| !target.starts_with(module) && !module.starts_with(target));
        (module.clone(), targets.collect())
    };
    files.iter().map(of).collect()
}

/// Returns all modules that a module reaches in one or more steps.
fn reachable<'a>(from: &Module, uses: &'a Uses) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = uses[from].iter().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(&uses[module]);
        }
    }
    reached
}

/// Returns the groups of modules in which each module reaches every other.
fn circles(uses: &Uses) -> BTreeSet<Vec<&Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        uses.keys().map(|module| (module, reachable(module, uses))).collect();
    let circle_of = |(module, ahead): (&&Module, &BTreeSet<&Module>)| -> Vec<&Module> {
        let back = uses.keys().filter(|other| ahead.contains(*other) && reached[*other].contains(*module));
        back.collect()
    };
    reached.iter().map(circle_of).filter(|circle| circle.len() > 1).collect()
}

fn file_name(module: &Module) -> String {
    if module.is_empty() { "lib.rs or main.rs".to_owned() } else { format!("{}.rs", module.join("/")) }
}

#[test]
fn module_cycles_have_at_most_three_files() {
    let mut wrong = Vec::new();
    for (name, files) in crates().iter() {
        let uses = uses(files);
        for circle in circles(&uses).iter().filter(|circle| circle.len() > CIRCLE_FILES_MAX) {
            let names: Vec<_> = circle.iter().map(|module| file_name(module)).collect();
            wrong.push(format!("{name}: {}", names.join(", ")));
        }
    }
    let advice = "move what they share into a file that uses none of them";
    assert!(wrong.is_empty(), "files that use each other in a cycle; {advice}:\n{}", wrong.join("\n"));
}

fn module(path: &str) -> Module {
    path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn joined(text: &str) -> Vec<String> {
    paths(text).into_iter().map(|path| path.join("::")).collect()
}

#[test]
fn paths_in_use_declarations_are_found() {
    assert_eq!(joined("use crate::a::B;"), ["crate::a::B"]);
    assert_eq!(joined("pub(crate) use self::a::{B, C as D};"), ["self::a::B", "self::a::C"]);
    let nested = "use crate::{\n    a::{self, b::{C, D}},\n    e::F as G, // not crate::x\n    h::*,\n};\nuse std::fs;";
    let expected = ["crate::a::self", "crate::a::b::C", "crate::a::b::D", "crate::e::F", "crate::h::*"];
    assert_eq!(joined(nested), expected);
    assert_eq!(joined("use super::super::a::B;\nuse other::a::B;"), ["super::super::a::B"]);
}

#[test]
fn paths_in_code_are_found() {
    let code = "let a = crate::a::make::<u8>(super::b::MAX) + \"http://x\".len() + self::c::d { e: self.f };";
    assert_eq!(joined(code), ["crate::a::make::<", "super::b::MAX", "self::c::d"]);
    assert_eq!(joined("/// [`crate::a::B`]\nfn crate_name(self) {} // super::a"), [""; 0]);
}

#[test]
fn a_path_resolves_to_the_file_of_its_item() {
    let modules: BTreeSet<Module> = ["", "a", "a/b", "a/c", "d"].map(module).into();
    let resolved = |from: &str, path: &str| {
        let path: Vec<&str> = path.split("::").collect();
        resolve(&module(from), &path, &modules).map(|found| found.join("/"))
    };
    assert_eq!(resolved("d", "crate::a::b::Item").as_deref(), Some("a/b"));
    assert_eq!(resolved("d", "crate::a::Item").as_deref(), Some("a"));
    assert_eq!(resolved("a/b", "super::c::Item::new").as_deref(), Some("a/c"));
    assert_eq!(resolved("a/b", "super::super::d::Item").as_deref(), Some("d"));
    assert_eq!(resolved("a", "self::b").as_deref(), Some("a/b"));
    assert_eq!(resolved("d", "crate::Item").as_deref(), Some(""));
}

#[test]
fn cycles_are_detected() {
    let files = |texts: &[(&str, &str)]| -> BTreeMap<Module, String> {
        texts.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect()
    };
    let found = |texts: &[(&str, &str)]| -> Vec<Vec<String>> {
        let uses = uses(&files(texts));
        circles(&uses).iter().map(|circle| circle.iter().map(|module| file_name(module)).collect()).collect()
    };
    let ring = [("a", "use crate::b::B;"), ("b", "use crate::c::C;"), ("c", "use crate::a::A;"), ("d", "")];
    assert_eq!(found(&ring), [["a.rs", "b.rs", "c.rs"]]);
    let line = [("a", "use crate::b::B;"), ("b", "use crate::c::C;"), ("c", ""), ("d", "use crate::a::A;")];
    assert_eq!(found(&line), [[""; 0]; 0]);
    let family = [("", "use crate::a::A;"), ("a", "use self::b::B;"), ("a/b", "use super::A; use crate::C;")];
    assert_eq!(found(&family), [[""; 0]; 0]);
    let two = [("a", "use super::b::B;"), ("b", "fn f() { crate::a::f() }"), ("c", "use crate::{a, b};")];
    assert_eq!(found(&two), [["a.rs", "b.rs"]]);
}

#[test]
fn tests_are_ignored() {
    assert_eq!(
        without_tests("use crate::a;\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n"),
        "use crate::a;\n"
    );
    assert_eq!(module_of("a/b.rs"), module("a/b"));
    assert_eq!(module_of("lib.rs"), Module::new());
}
