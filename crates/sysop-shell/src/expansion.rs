//! Assesses expansions by the commands they run, the variables they assign and the text they evaluate. An
//! expansion that only inserts a value has no effect; [`super::simple_command`] decides which commands may
//! take a word known only at run time.

use tree_sitter::Node;

use super::lexer::{is_name, is_plain_subscript};
use super::program_call::{Script, ScriptOrigin, Stdin};
use super::protected::is_secret_name;
use super::state::{Span, State};
use super::syntax_tree::each_below;
use crate::risk::RiskClass;

const BLANKS: [char; 3] = [' ', '\t', '\n'];

/// Returns true for nodes that the shell replaces with a value.
pub(super) fn is_expansion(kind: &str) -> bool {
    matches!(
        kind,
        "simple_expansion"
            | "expansion"
            | "command_substitution"
            | "process_substitution"
            | "arithmetic_expansion"
    )
}

/// Returns the expansion's text without preceding blanks, which the node has in double quotes.
pub(super) fn text<'s>(script: &Script<'s>, node: Node<'_>) -> &'s str {
    script.source.get(node.byte_range()).unwrap_or("").trim_start_matches(BLANKS)
}

/// Returns the offset at which the expansion begins, after any blanks that the grammar includes in the node.
pub(super) fn start(script: &Script<'_>, node: Node<'_>) -> usize {
    node.end_byte() - text(script, node).len()
}

fn span_of(script: &Script<'_>, node: Node<'_>) -> Span {
    script.span(start(script, node), node.end_byte())
}

/// Assesses the outermost expansions in a node. Assessing each of them includes the expansions nested in it.
pub(super) fn within(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    if is_expansion(node.kind()) {
        return judge(state, script, node);
    }
    let mut found = Vec::new();
    each_below(node, &mut |below| {
        let expands = is_expansion(below.kind());
        if expands {
            found.push(below);
        }
        !expands
    });
    for expansion in found {
        judge(state, script, expansion);
    }
}

fn judge(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    match plain_variable(text(script, node)) {
        Some(name) if is_secret_name(name) => {
            state.note(
                script.span_of(node),
                RiskClass::ReadsSecret,
                "expands a variable named like a secret",
            );
        }
        Some(_) => {}
        None => {
            let what = match node.kind() {
                "command_substitution" | "process_substitution" => "a substitution",
                "arithmetic_expansion" => "arithmetic",
                _ => "uses a complex expansion",
            };
            state.note(span_of(script, node), RiskClass::Changes, what);
        }
    }
    let span = script.span_of(node);
    state.with_depth(span, |state| match node.kind() {
        "simple_expansion" => simple_expansion(state, script, node),
        "command_substitution" => substitution(state, script, node),
        "process_substitution" => process(state, script, node),
        "arithmetic_expansion" => {
            arithmetic(state, script, node);
        }
        _ => parameter(state, script, node),
    });
}

/// Returns the name in `$NAME` or `${NAME}`, forms that only insert a value. `None` for other forms.
fn plain_variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let name = name.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(name);
    let special = matches!(name, "@" | "*" | "#" | "?" | "$" | "!" | "-" | "0" | "1" | "2" | "3");
    (special || is_name(name)).then_some(name)
}

/// Assesses `$name`. The grammar allows other text between the `$` and the name, but the shell does not.
fn simple_expansion(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    let text = text(script, node);
    let name = text.strip_prefix('$').unwrap_or("");
    let special = matches!(name, "@" | "*" | "#" | "?" | "$" | "!" | "-");
    if name.is_empty() || !(special || name.chars().all(|c| c.is_alphanumeric() || c == '_' || !c.is_ascii()))
    {
        state.note_unread(script.span_of(node), "cannot be parsed");
    }
}

fn substitution(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    let text = text(script, node);
    let span = script.span_of(node);
    if let Some(inner) = text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) {
        let inner = inner.replace("\\`", "`").replace("\\$", "$").replace("\\\\", "\\");
        let folders = state.folders.clone();
        state.in_own_shell(|state| state.run_script(&inner, ScriptOrigin::Embedded(span), &Stdin::Inherited));
        state.folders = folders;
    } else if text.starts_with("$(") && text.ends_with(')') {
        script.visit_substitution(state, node);
    } else {
        state.note_unread(span, "cannot be parsed");
    }
}

fn process(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    let text = text(script, node);
    let inner = state.class_of(|state| script.visit_substitution(state, node));
    if inner > RiskClass::ReadOnly || !text.starts_with('<') {
        state.note(
            script.span_of(node),
            RiskClass::Opaque,
            "a process substitution that may do more than read",
        );
    }
}

/// Assesses arithmetic and returns true if it is constant, which is safe. Variables are not safe, because the
/// shell evaluates their values too, and these may contain commands.
pub(super) fn arithmetic(state: &mut State, script: &Script<'_>, node: Node<'_>) -> bool {
    let text = text(script, node);
    state.note(span_of(script, node), RiskClass::Changes, "arithmetic");
    let plain = text.replace("$#", "0").replace("$?", "0").replace("$$", "0");
    let constant = plain
        .strip_prefix('$')
        .unwrap_or(&plain)
        .bytes()
        .all(|b| b.is_ascii_digit() || b" \t()[]+-*/%<>=!&|^~?:,".contains(&b));
    if !constant {
        state.note(script.span_of(node), RiskClass::Opaque, "arithmetic that may run a command");
    }
    inside(state, script, node);
    constant
}

fn inside(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
    for child in children {
        within(state, script, child);
    }
}

/// Assesses `${…}`. Distinguishes forms that only read a variable from all other forms.
fn parameter(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    let text = text(script, node);
    let inner = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).unwrap_or("!");
    let name = inner.trim_start_matches(['!', '#']);
    let name = name.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or("");
    if is_secret_name(name) && !inner.starts_with('#') {
        let why = "expands a variable named like a secret";
        state.note(script.span_of(node), RiskClass::ReadsSecret, why);
    }
    if let Some(why) = surprising(inner) {
        state.note(script.span_of(node), RiskClass::Opaque, why);
    }
    inside(state, script, node);
}

fn surprising(inner: &str) -> Option<&'static str> {
    let body = inner.strip_prefix('#').filter(|rest| !rest.is_empty()).unwrap_or(inner);
    if body.starts_with('!') && body.len() > 1 {
        return Some("a variable named by another variable");
    }
    let name_end = body.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(body.len());
    let (name, mut rest) = body.split_at_checked(name_end)?;
    let positional = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    if name.is_empty() {
        let Some(after) = rest.strip_prefix(['@', '*', '#', '?', '-', '$', '!']) else {
            return (!rest.is_empty() || inner != "#").then_some("an expansion that is not understood");
        };
        rest = after;
    } else if !is_name(name) && !positional {
        return Some("an expansion that is not understood");
    }
    if let Some(subscript) = rest.strip_prefix('[') {
        let Some((subscript, after)) = subscript.split_once(']') else {
            return Some("an array subscript that may run a command");
        };
        if !is_plain_subscript(subscript) {
            return Some("an array subscript that may run a command");
        }
        rest = after;
    }
    operator(rest)
}

/// Returns a description of the operator after the name in `${…}`, or `None` if it only tests the value or inserts part
/// of it.
fn operator(rest: &str) -> Option<&'static str> {
    if rest.is_empty() {
        return None;
    }
    if rest.starts_with('@') {
        return Some("an expansion that may run a command contained in the variable's value");
    }
    if rest.starts_with('=') || rest.starts_with(":=") {
        return Some("an expansion that assigns a variable");
    }
    let tests = [":-", ":+", ":?", "-", "+", "?", "#", "%", "/", "^", ","];
    let slice =
        rest.strip_prefix(':').is_some_and(|slice| slice.bytes().all(|b| b.is_ascii_digit() || b == b':'));
    let plain =
        !rest.contains(['$', '`', '"', '\'', '\\', '{', '}', '<', '>', '(', ')', '\n', ';', '&', '|']);
    let known = slice || tests.iter().any(|test| rest.starts_with(test));
    (!known || !plain).then_some("a nested expansion")
}

/// Assesses `[[ … ]]`, in which comparisons of numbers evaluate both sides.
pub(super) fn condition(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    let text = script.source.get(node.byte_range()).unwrap_or("");
    let words: Vec<&str> = text.split_whitespace().collect();
    let span = script.span_of(node);
    state.note(span, RiskClass::Changes, "a condition");
    if words.first() != Some(&"[[") || words.last() != Some(&"]]") {
        state.note_unread(span, "cannot be parsed");
    }
    let number = |word: Option<&&str>| {
        word.is_some_and(|word| {
            matches!(word.trim_matches('"'), "$?" | "$#" | "$$")
                || word.trim_matches('"').parse::<i64>().is_ok()
        })
    };
    let compares = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
    let plain = words.iter().enumerate().all(|(index, word)| {
        !compares.contains(word)
            || (index > 0 && number(words.get(index - 1)) && number(words.get(index + 1)))
    });
    let counted: usize = compares.iter().map(|operator| text.matches(operator).count()).sum();
    let seen = words.iter().filter(|word| compares.contains(word)).count();
    if !plain || counted != seen {
        state.note(span, RiskClass::Opaque, "arithmetic that may run a command");
    }
    let names = words.windows(2).all(|pair| match pair {
        [operator, name] => !matches!(*operator, "-v" | "-R") || is_name(name),
        _ => true,
    });
    if !names || text.contains("-v'") || text.contains("-v\"") {
        state.note(span, RiskClass::Opaque, "a variable name that may run a command");
    }
    pattern(state, script, node);
}

/// Assesses the expansions in a here-document, including those that the grammar misses.
pub(super) fn document(state: &mut State, script: &Script<'_>, body: Node<'_>) {
    within(state, script, body);
    if hides_expansion(script, body) {
        state.note(script.span_of(body), RiskClass::Dangerous, "a command hidden in a string");
    }
}

/// Assesses the expansions in a pattern, or in a word that the lexer does not read.
pub(super) fn pattern(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    within(state, script, node);
    if hides_expansion(script, node) {
        state.note(script.span_of(node), RiskClass::Opaque, "an unknown pattern");
    }
}

/// Returns true if text looks like an expansion that the grammar missed.
fn hides_expansion(script: &Script<'_>, node: Node<'_>) -> bool {
    if is_expansion(node.kind()) {
        return false;
    }
    let mut covered = Vec::new();
    each_below(node, &mut |below| {
        let expands = is_expansion(below.kind());
        if expands {
            covered.push(below.byte_range());
        }
        !expands
    });
    let text = script.source.get(node.byte_range()).unwrap_or("");
    let mut escaped = false;
    let mut ranges = covered.into_iter().peekable();
    for (offset, c) in text.char_indices() {
        let at = node.start_byte() + offset;
        while ranges.next_if(|range| range.end <= at).is_some() {}
        let inside = ranges.peek().is_some_and(|range| range.contains(&at));
        let rest = text.get(offset..).unwrap_or("");
        if !escaped
            && !inside
            && (c == '`'
                || ["$(", "${", "$[", "<(", ">(", "$\\\n"].iter().any(|opening| rest.starts_with(opening)))
        {
            return true;
        }
        escaped = c == '\\' && !escaped;
    }
    false
}
