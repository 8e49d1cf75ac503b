//! Walks the syntax tree of a script and passes each simple command to [`super::simple_command`].
//!
//! Every kind of node is handled here by name. Any other kind, or text between nodes, makes the script unparseable.

use tree_sitter::Node;

use super::dialect;
use super::expansion;
use super::folders::Folders;
use super::lexer::{Extent, Lexer, Mismatch, RedirectOperator, Token, Word};
use super::program_call::{Script, ScriptOrigin, Stdin};
use super::simple_command::SimpleCommand;
use super::state::{Span, State};
use super::syntax_tree::{each_below, parse};
use super::targets;
use crate::risk::RiskClass;

/// Maximum number of `|`, and of `=(` in a script. The grammar's error recovery is quadratic in them.
const CHAIN_MAX: usize = 400;
const DELIMITER_BYTES_MAX: usize = 64;

const UNPARSED: &str = "cannot be parsed";

pub(super) fn run(state: &mut State, source: &str, origin: ScriptOrigin, input: &Stdin) {
    let script = Script { source, origin };
    let whole = script.span(0, source.len());
    if !state.read(whole, source.len()) {
        return;
    }
    if source.matches('|').count() > CHAIN_MAX || source.matches("=(").count() > CHAIN_MAX {
        state.note_unread(whole, "too complex to analyze");
        return;
    }
    if longest_delimiter(source) > DELIMITER_BYTES_MAX || source.contains('\0') {
        state.note_unread(whole, UNPARSED);
        return;
    }
    // The grammar misreads a script with two backquote substitutions.
    if let Some(plain) = without_backquotes(source) {
        state.with_depth(whole, |state| run(state, &plain, ScriptOrigin::Embedded(whole), input));
        return;
    }
    match parse(source) {
        Some(tree) if !tree.root_node().has_error() => {
            dialect::check(state, &script, tree.root_node());
            visit(state, &script, tree.root_node(), input, None);
        }
        Some(_) | None => state.note_unread(whole, UNPARSED),
    }
}

/// Returns the source with each backquote substitution rewritten as `$(…)`. Returns `None` if there are fewer than two
/// substitutions, or if the source contains anything that may quote or escape a backquote.
fn without_backquotes(source: &str) -> Option<String> {
    let quotes = source.matches('`').count();
    if quotes < 4 || quotes % 2 == 1 || source.contains(['\'', '\\', '#', '<', '$']) {
        return None;
    }
    let mut plain = String::with_capacity(source.len() + quotes);
    for (index, part) in source.split('`').enumerate() {
        let inside = index % 2 == 1;
        if inside && part.contains(['"', '(', ')']) {
            return None;
        }
        if inside {
            plain.extend(["$(", part, ")"]);
        } else {
            plain.push_str(part);
        }
    }
    Some(plain)
}

fn longest_delimiter(source: &str) -> usize {
    let length = |rest: &str| {
        rest.trim_start_matches(['-', ' ', '\t']).find(char::is_whitespace).unwrap_or(rest.len())
    };
    source.match_indices("<<").map(|(at, _)| length(source.get(at + 2..).unwrap_or(""))).max().unwrap_or(0)
}

/// Notes that a node cannot be parsed, because the lexer and the grammar disagree or its form is unknown.
fn note_unparsed(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    state.note_unread(script.span_of(node), UNPARSED);
}

/// Assesses one node. If the grammar attached the redirections after the node's last simple command to a
/// parent node, `end` is the true end of that command.
fn visit(state: &mut State, script: &Script<'_>, node: Node<'_>, input: &Stdin, end: Option<usize>) {
    state.with_depth(script.span_of(node), |state| match node.kind() {
        "program" | "do_group" | "else_clause" | "elif_clause" | "if_statement" | "negated_command" => {
            sequence(state, script, node, input, end);
        }
        "while_statement" => repeatedly(state, |state| sequence(state, script, node, input, end)),
        "compound_statement" if script.text(node).starts_with("((") => {
            double_parentheses(state, script, node, input)
        }
        "compound_statement" => sequence(state, script, node, input, None),
        "subshell" => in_subshell(state, |state| sequence(state, script, node, input, None)),
        "list" => list(state, script, node, input, end),
        "pipeline" => pipeline(state, script, node, input, end),
        "case_statement" => loop_or_case(state, script, node, input),
        "for_statement" | "c_style_for_statement" => {
            repeatedly(state, |state| loop_or_case(state, script, node, input))
        }
        "function_definition" => function(state, script, node),
        "redirected_statement" => redirected(state, script, node, input, end),
        "command"
        | "variable_assignment"
        | "variable_assignments"
        | "declaration_command"
        | "unset_command" => {
            visit_simple_command(state, script, node, input, end.unwrap_or(node.end_byte()));
        }
        "test_command" if script.text(node).starts_with("[[") => expansion::condition(state, script, node),
        "test_command" => visit_simple_command(state, script, node, input, end.unwrap_or(node.end_byte())),
        "comment" => comment(state, script, node),
        _ => note_unparsed(state, script, node),
    });
    let closed = is_compound(node.kind())
        || node.kind() == "function_definition"
        || (node.kind() == "test_command" && script.text(node).starts_with("[["));
    if let Some(end) = end.filter(|end| closed && *end > node.end_byte()) {
        let redirects = read(script, node.end_byte(), end, enclosing(node, end));
        judge_read(state, script, node, redirects, input, true);
    }
}

/// Assesses `((…))`, which is arithmetic, or two nested subshells in a plain `sh`. The text is also read as commands,
/// and dangerous findings of that reading count. Text that the grammar does not parse as commands is only arithmetic.
fn double_parentheses(state: &mut State, script: &Script<'_>, node: Node<'_>, input: &Stdin) {
    if expansion::arithmetic(state, script, node) {
        return;
    }
    let inner = script.text(node).strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let (span, inner) = (script.span_of(node), inner.unwrap_or(""));
    if !state.read(span, inner.len()) {
        return;
    }
    if let Some(tree) = parse(inner).filter(|tree| !tree.root_node().has_error()) {
        let commands = Script { source: inner, origin: ScriptOrigin::Embedded(span) };
        let judge = |state: &mut State| visit(state, &commands, tree.root_node(), input, None);
        state.adopt_dangers(judge, |finding| finding.why != UNPARSED);
    }
}

/// Returns true for compound statements, whose redirections follow their closing word.
fn is_compound(kind: &str) -> bool {
    matches!(
        kind,
        "compound_statement"
            | "subshell"
            | "if_statement"
            | "while_statement"
            | "for_statement"
            | "case_statement"
            | "c_style_for_statement"
    )
}

fn is_statement(kind: &str) -> bool {
    is_compound(kind)
        || matches!(
            kind,
            "list"
                | "pipeline"
                | "negated_command"
                | "function_definition"
                | "redirected_statement"
                | "command"
                | "variable_assignment"
                | "variable_assignments"
                | "declaration_command"
                | "unset_command"
                | "test_command"
        )
}

/// Assesses a part that runs in a subshell, which changes nothing of the outer shell.
fn in_subshell(state: &mut State, inner: impl FnOnce(&mut State)) {
    let folders = state.folders.clone();
    state.in_own_shell(inner);
    state.folders = folders;
}

/// Assesses a part of a pipeline. Some shells run the last part in the outer shell.
fn in_pipeline(state: &mut State, inner: impl FnOnce(&mut State)) {
    let folders = state.folders.clone();
    inner(state);
    state.folders = folders;
}

/// Assesses a part that may not run or may fail. Afterwards the shell may be in any of the directories that were
/// possible before it, or in the directories possible after it.
fn conditionally(state: &mut State, inner: impl FnOnce(&mut State)) {
    let before = state.folders.clone();
    inner(state);
    state.folders = before.or(&state.folders);
}

/// Assesses a part that may run repeatedly. Each run starts in the directory where the previous one ended, so a part
/// that changes the directory is assessed a second time with an unknown directory.
fn repeatedly(state: &mut State, inner: impl Fn(&mut State)) {
    let before = state.folders.clone();
    conditionally(state, &inner);
    if state.folders != before {
        state.folders = Folders::default();
        inner(state);
        state.folders = Folders::default();
    }
}

/// Assesses consecutive statements, between which only separators and keywords may stand.
fn sequence(state: &mut State, script: &Script<'_>, node: Node<'_>, input: &Stdin, end: Option<usize>) {
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
    if !gaps_are_blank(script, node, &children) {
        return note_unparsed(state, script, node);
    }
    let conditional = matches!(
        node.kind(),
        "do_group" | "else_clause" | "elif_clause" | "if_statement" | "while_statement"
    );
    if conditional {
        note_keyword(state, script, node);
    }
    let closing = if is_compound(node.kind()) { None } else { end };
    let mut separated = true;
    let mut before = node.start_byte();
    let last = children.iter().rposition(|child| is_statement(child.kind()));
    for (index, child) in children.iter().enumerate() {
        let kind = child.kind();
        let gap = script.source.get(before..child.start_byte()).unwrap_or("");
        separated |= gap.replace("\\\n", "").contains('\n');
        before = child.end_byte();
        if !child.is_named() {
            match kind {
                "&" => {
                    let why = "runs in the background";
                    state.note(script.span_of(*child), RiskClass::Changes, why);
                }
                ";" | ";;" | "\n" | "!" | "{" | "}" | "(" | ")" | "$(" | "<(" | ">(" | "if" | "then"
                | "else" | "elif" | "fi" | "while" | "until" | "do" | "done" => {}
                _ => return note_unparsed(state, script, *child),
            }
            separated = true;
        } else if kind == "comment" {
            comment(state, script, *child);
        } else {
            if is_statement(kind) && !std::mem::replace(&mut separated, false) {
                return note_unparsed(state, script, *child);
            }
            let child_end = closing.filter(|_| Some(index) == last);
            let each = |state: &mut State| visit(state, script, *child, input, child_end);
            let in_background = children.get(index + 1).is_some_and(|next| next.kind() == "&");
            if in_background { in_subshell(state, each) } else { conditionally(state, each) }
        }
    }
}

/// Notes a loop or a condition at its first word.
fn note_keyword(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    let why = match node.kind() {
        "if_statement" | "case_statement" => "a condition",
        "while_statement" | "for_statement" | "c_style_for_statement" => "a loop",
        _ => return state.raise(RiskClass::Changes),
    };
    let length = script.text(node).find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(0);
    state.note(script.span(node.start_byte(), node.start_byte() + length), RiskClass::Changes, why);
}

/// Notes a comment that an interactive shell may read as arguments.
fn note_comment(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    let why = "a comment after a command, which some shells read as arguments";
    state.note(script.span_of(node), RiskClass::Changes, why);
}

/// Returns true if the children are separated only by blanks, escaped line ends and, in sequences, line ends.
fn gaps_are_blank(script: &Script<'_>, node: Node<'_>, children: &[Node<'_>]) -> bool {
    let mut at = node.start_byte();
    let blank = |from: usize, to: usize| {
        let gap = script.source.get(from..to).unwrap_or("?").replace("\\\n", "");
        gap.bytes().all(|b| matches!(b, b' ' | b'\t' | b'\n'))
    };
    for child in children {
        if !blank(at, child.start_byte().max(at)) || !stands_alone(script, *child) {
            return false;
        }
        at = child.end_byte().max(at);
    }
    let end = if node.kind() == "program" { script.source.len() } else { node.end_byte() };
    let start = if node.kind() == "program" { 0 } else { node.start_byte() };
    blank(start, node.start_byte()) && blank(at, end.max(at))
}

/// Returns false if a keyword is adjacent to other text, which makes it an ordinary word; true for all other tokens.
fn stands_alone(script: &Script<'_>, token: Node<'_>) -> bool {
    let text = script.text(token);
    let keyword = text.starts_with(|c: char| c.is_ascii_alphabetic()) || matches!(text, "!" | "{" | "}");
    if token.is_named() || !keyword {
        return true;
    }
    let border = |c: char| matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>');
    let before = script.source.get(..token.start_byte()).unwrap_or("?");
    let after = script.source.get(token.end_byte()..).unwrap_or("?");
    before.chars().next_back().is_none_or(|c| border(c) || c == '`')
        && after.chars().next().is_none_or(|c| border(c) || c == '`')
}

/// Assesses a comment. Scripts ignore comments, but an interactive shell may read a comment as arguments.
fn comment(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    let before = script.source.get(..node.start_byte()).unwrap_or("");
    let line = before.rsplit('\n').next().unwrap_or("");
    if !line.trim_matches([' ', '\t']).is_empty() {
        note_comment(state, script, node);
    }
    let starts = before
        .chars()
        .next_back()
        .is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')'));
    if !starts || before.ends_with("\\\n") || before.ends_with("\\ ") || before.ends_with("\\\t") {
        note_unparsed(state, script, node);
    }
}

/// Assesses `a && b` or `a || b`. Within a chain of `&&`, every earlier command has succeeded. After the
/// chain, it is unknown which command was the last to run.
fn list(state: &mut State, script: &Script<'_>, node: Node<'_>, input: &Stdin, end: Option<usize>) {
    let passed = chain(state, script, node, input, end);
    state.folders = passed.or(&state.folders);
}

/// Assesses a list. Returns the directories in which the shell may be if the list ends before its last command.
fn chain(
    state: &mut State,
    script: &Script<'_>,
    node: Node<'_>,
    input: &Stdin,
    end: Option<usize>,
) -> Folders {
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
    let statements: Vec<&Node<'_>> = children.iter().filter(|child| is_statement(child.kind())).collect();
    let operators = children.iter().filter(|child| matches!(child.kind(), "&&" | "||")).count();
    let [left, right] = statements.as_slice() else {
        note_unparsed(state, script, node);
        return Folders::default();
    };
    if operators != 1 || !gaps_are_blank(script, node, &children) {
        note_unparsed(state, script, node);
        return Folders::default();
    }
    for comment in children.iter().filter(|child| child.kind() == "comment") {
        note_comment(state, script, *comment);
    }
    let is_and = |node: Node<'_>| {
        let mut cursor = node.walk();
        node.kind() == "list" && node.children(&mut cursor).any(|child| child.kind() == "&&")
    };
    let mut passed = state.folders.clone();
    if is_and(node) && is_and(**left) {
        state.with_depth(script.span_of(**left), |state| {
            passed = chain(state, script, **left, input, None);
        });
    } else {
        visit(state, script, **left, input, None);
    }
    passed = passed.or(&state.folders);
    if is_and(node) {
        visit(state, script, **right, input, end);
    } else {
        state.folders = passed.clone();
        conditionally(state, |state| visit(state, script, **right, input, end));
    }
    passed
}

fn pipeline(state: &mut State, script: &Script<'_>, node: Node<'_>, input: &Stdin, end: Option<usize>) {
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
    if !gaps_are_blank(script, node, &children) {
        return note_unparsed(state, script, node);
    }
    let mut stdin = input.clone();
    let last = children.iter().rposition(|child| is_statement(child.kind()));
    for (index, child) in children.iter().enumerate() {
        match child.kind() {
            "|" | "|&" => {}
            "comment" => note_comment(state, script, *child),
            _ => {
                let child_end = end.filter(|_| Some(index) == last);
                in_pipeline(state, |state| visit(state, script, *child, &stdin, child_end));
                stdin = piped_output(script, *child);
            }
        }
    }
}

/// Returns the output that a command writes into a pipe. The output is known only for a plain `echo` or `printf`.
fn piped_output(script: &Script<'_>, node: Node<'_>) -> Stdin {
    if node.kind() != "command" {
        return Stdin::Unknown;
    }
    let Ok(simple) = read(script, node.start_byte(), node.end_byte(), node) else { return Stdin::Unknown };
    let Some((program, arguments)) = simple.words.split_first() else { return Stdin::Unknown };
    let literal: Option<Vec<&str>> = arguments.iter().map(Word::literal).collect();
    match (program.literal(), literal) {
        (Some("echo" | "printf"), Some(words)) => {
            let is_text =
                |word: &&str| !matches!(*word, "-e" | "-n" | "-en" | "-ne" | "--") && !word.starts_with('%');
            let text: Vec<&str> = words.into_iter().filter(is_text).collect();
            Stdin::Text { text: text.join(" ").replace("\\n", "\n"), span: script.span_of(node) }
        }
        (Some(_) | None, _) => Stdin::Unknown,
    }
}

fn loop_or_case(state: &mut State, script: &Script<'_>, node: Node<'_>, input: &Stdin) {
    note_keyword(state, script, node);
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
    if !gaps_are_blank(script, node, &children) {
        return note_unparsed(state, script, node);
    }
    if node.kind() == "c_style_for_statement" {
        state.note(script.span_of(node), RiskClass::Opaque, "arithmetic that may run a command");
    }
    for child in children {
        match child.kind() {
            "do_group" | "compound_statement" => {
                conditionally(state, |state| visit(state, script, child, input, None))
            }
            "case_item" => case_item(state, script, child, input),
            "variable_name" if super::builtin::alters_execution(script.text(child)) => {
                let why = "sets a variable that changes how commands run";
                state.note(script.span_of(child), RiskClass::Opaque, why);
            }
            "comment" => comment(state, script, child),
            _ if child.is_named() => {
                let text = script.text(child);
                let word = Word { shape: text.to_owned(), ..Word::default() };
                if targets::names_secret(state, &word, false) {
                    state.secret_name.get_or_insert(script.span_of(child));
                }
                expansion::pattern(state, script, child);
            }
            _ => {}
        }
    }
}

fn case_item(state: &mut State, script: &Script<'_>, node: Node<'_>, input: &Stdin) {
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
    if !gaps_are_blank(script, node, &children) {
        return note_unparsed(state, script, node);
    }
    for child in children {
        if is_statement(child.kind()) {
            conditionally(state, |state| visit(state, script, child, input, None));
        } else if child.kind() == "comment" {
            comment(state, script, child);
        } else if child.is_named() {
            expansion::pattern(state, script, child);
        }
    }
}

fn function(state: &mut State, script: &Script<'_>, node: Node<'_>) {
    state.note(script.span_of(node), RiskClass::Opaque, "defines a function");
    let name = node.child_by_field_name("name").map_or("", |name| script.text(name));
    let Some(body) = node.child_by_field_name("body") else { return note_unparsed(state, script, node) };
    if calls_function(script, body, name) {
        state.note(
            script.span_of(node),
            RiskClass::Dangerous,
            "a function that calls itself endlessly (fork bomb)",
        );
    }
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        if child.kind() == "file_redirect" || child.kind() == "herestring_redirect" {
            return note_unparsed(state, script, child);
        }
    }
    conditionally(state, |state| visit(state, script, body, &Stdin::Unknown, None));
}

/// Returns true if a command with this name occurs in a node.
fn calls_function(script: &Script<'_>, node: Node<'_>, name: &str) -> bool {
    let mut found = false;
    each_below(node, &mut |below| {
        found |= below.kind() == "command_name" && script.text(below) == name;
        !found
    });
    found
}

/// Assesses a statement with redirections, which apply to the statement's last simple command.
fn redirected(state: &mut State, script: &Script<'_>, node: Node<'_>, input: &Stdin, end: Option<usize>) {
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
    if !gaps_are_blank(script, node, &children) {
        return note_unparsed(state, script, node);
    }
    let documents: Vec<Node<'_>> =
        children.iter().copied().filter(|child| child.kind() == "heredoc_redirect").collect();
    let body = node.child_by_field_name("body");
    let region_end = match documents.as_slice() {
        [] => end.unwrap_or(node.end_byte()),
        [document] if end.is_none() => line_end(script, *document),
        _ => return note_unparsed(state, script, node),
    };
    match body {
        Some(body) => visit(state, script, body, input, Some(region_end)),
        None => visit_simple_command(state, script, node, input, region_end),
    }
    for child in
        children.iter().filter(|child| matches!(child.kind(), "file_redirect" | "herestring_redirect"))
    {
        expansion::within(state, script, *child);
    }
    for document in documents {
        document_rest(state, script, document);
    }
}

impl Script<'_> {
    /// Assesses the statements in a substitution, which run in a subshell.
    pub(super) fn visit_substitution(&self, state: &mut State, node: Node<'_>) {
        in_subshell(state, |state| match node.child_by_field_name("redirect") {
            Some(redirect) => {
                let read = read(self, redirect.start_byte(), redirect.end_byte(), redirect);
                judge_read(state, self, redirect, read, &Stdin::Inherited, true);
            }
            None => sequence(state, self, node, &Stdin::Inherited, None),
        });
    }
}

impl Script<'_> {
    /// Returns the span of the word at which the lexer and the grammar disagree, or of the script if there is none.
    fn span_of_mismatch(&self, at: usize) -> Span {
        let (before, after) = self.source.split_at_checked(at).unwrap_or_default();
        let start = before.trim_end_matches(|c: char| !c.is_whitespace()).len();
        let end = at + after.find(char::is_whitespace).unwrap_or(after.len());
        if start < end { self.span(start, end) } else { self.span(0, self.source.len()) }
    }
}

/// Returns the offset at which a simple command that has a here-document ends on its first line.
fn line_end(script: &Script<'_>, document: Node<'_>) -> usize {
    let mut cursor = document.walk();
    let children: Vec<Node<'_>> = document.children(&mut cursor).collect();
    let start = children
        .iter()
        .find(|child| child.kind() == "heredoc_start")
        .map_or(document.start_byte(), |start| start.end_byte());
    let line = script
        .source
        .get(start..)
        .and_then(|rest| rest.find('\n'))
        .map_or(document.end_byte(), |length| start + length);
    let stop = children.iter().find(|child| matches!(child.kind(), "pipeline" | "&&" | "||"));
    stop.map_or(line, |stop| stop.start_byte().min(line))
}

/// Assesses what follows `<<EOF` on the same line, and the text of the here-document.
fn document_rest(state: &mut State, script: &Script<'_>, document: Node<'_>) {
    let mut cursor = document.walk();
    let children: Vec<Node<'_>> = document.children(&mut cursor).collect();
    for child in &children {
        if child.kind() == "pipeline" {
            pipeline(state, script, *child, &document_text(script, document), None);
        } else if is_statement(child.kind()) {
            conditionally(state, |state| visit(state, script, *child, &Stdin::Inherited, None));
        } else if child.is_named() && child.kind() != "heredoc_body" {
            expansion::within(state, script, *child);
        }
    }
    let part = |kind: &str| children.iter().find(|child| child.kind() == kind).copied();
    let (Some(start), Some(body), Some(end)) =
        (part("heredoc_start"), part("heredoc_body"), part("heredoc_end"))
    else {
        return note_unparsed(state, script, document);
    };
    let Some((delimiter, quoted)) = delimiter(script.text(start)) else {
        return note_unparsed(state, script, document);
    };
    let line_of =
        |at: usize| script.source.get(..at).and_then(|before| before.rsplit('\n').next()).unwrap_or("?");
    let indented = line_of(end.start_byte());
    let tail = script.source.get(end.end_byte()..).unwrap_or("?");
    let closes = indented.bytes().all(|b| b == b'\t')
        && (tail.is_empty() || tail.starts_with('\n'))
        && script.text(end).trim_start_matches('\t') == delimiter;
    let closes_early = script.text(body).lines().any(|line| line == delimiter);
    if !closes || closes_early {
        return note_unparsed(state, script, document);
    }
    if !quoted {
        expansion::document(state, script, body);
    }
}

/// Returns a here-document's delimiter without quotes, and true if it was quoted. `None` if it is not a plain name.
fn delimiter(text: &str) -> Option<(&str, bool)> {
    let unquoted = ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    let (name, quoted) = match (unquoted, text.strip_prefix('\\')) {
        (Some(name), _) | (None, Some(name)) => (name, true),
        (None, None) => (text, false),
    };
    let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    plain.then_some((name, quoted))
}

/// Returns the byte ranges of the outermost expansions in a node, in order.
fn extents(script: &Script<'_>, node: Node<'_>) -> Vec<Extent> {
    let mut found = Vec::new();
    each_below(node, &mut |below| {
        if expansion::is_expansion(below.kind()) {
            found.push(Extent { start: expansion::start(script, below), end: below.end_byte() });
            return false;
        }
        true
    });
    found
}

/// Reads a simple command with the lexer, and assesses the command and its expansions.
fn visit_simple_command(state: &mut State, script: &Script<'_>, node: Node<'_>, input: &Stdin, end: usize) {
    let read = read(script, node.start_byte(), end, enclosing(node, end));
    judge_read(state, script, node, read, input, false);
    expansion::within(state, script, node);
}

/// Returns the node itself if it reaches to `end`, or else its nearest ancestor that does.
fn enclosing(node: Node<'_>, end: usize) -> Node<'_> {
    let mut around = node;
    while around.end_byte() < end {
        match around.parent() {
            Some(parent) => around = parent,
            None => break,
        }
    }
    around
}

fn judge_read(
    state: &mut State,
    script: &Script<'_>,
    node: Node<'_>,
    read: Result<SimpleCommand, Mismatch>,
    input: &Stdin,
    only_redirects: bool,
) {
    match read {
        Ok(simple) if only_redirects && !simple.words.is_empty() => note_unparsed(state, script, node),
        Ok(simple) => simple.judge(state, script, input),
        Err(Mismatch(at)) => state.note_unread(script.span_of_mismatch(at), UNPARSED),
    }
}

/// Lexes the words and redirections between two offsets. Fails if an offset is inside a token of the lexer.
fn read(script: &Script<'_>, start: usize, end: usize, around: Node<'_>) -> Result<SimpleCommand, Mismatch> {
    let extents = extents(script, around);
    let mut lexer = Lexer::new(script.source, start, &extents);
    let mut simple = SimpleCommand::default();
    loop {
        let before = lexer.at;
        let token = lexer.next()?;
        match token {
            Token::End => return Ok(simple),
            Token::Operator(_, at) | Token::Redirect(super::lexer::Redirect { start: at, .. })
                if at >= end =>
            {
                return Ok(simple);
            }
            Token::Comment
                if before >= end
                    || script.source.get(before..end).is_some_and(|gap| gap.trim().is_empty()) =>
            {
                return Ok(simple);
            }
            Token::Word(word) if word.start >= end => return Ok(simple),
            Token::Operator('(', at) if array_opens(&simple, at) => array(&mut lexer, &mut simple)?,
            Token::Comment | Token::Operator(..) => return Err(Mismatch(before)),
            Token::Word(word) => simple.words.push(word),
            Token::Redirect(redirect) => {
                let target = lexer.target()?;
                if let RedirectOperator::Document { .. } = redirect.operator {
                    simple.document = Some(document_text(script, around));
                }
                simple.redirects.push((redirect, target));
            }
        }
        if lexer.at > end {
            return Err(Mismatch(end));
        }
    }
}

/// Returns true if the parenthesis at offset `at` opens an array: it follows an assignment without a value.
fn array_opens(simple: &SimpleCommand, at: usize) -> bool {
    simple.words.last().is_some_and(|word| word.end == at && word.value_at == Some(at))
}

fn array(lexer: &mut Lexer<'_>, simple: &mut SimpleCommand) -> Result<(), Mismatch> {
    loop {
        match lexer.next()? {
            Token::Word(word) if word.odd || word.history || word.value_at.is_some() => {
                return Err(Mismatch(word.start));
            }
            Token::Word(_) | Token::Comment | Token::Operator('\n', _) => {}
            Token::Operator(')', at) => {
                if !lexer.at_border() {
                    return Err(Mismatch(lexer.at));
                }
                if let Some(word) = simple.words.last_mut() {
                    word.end = at + 1;
                    word.expands = true;
                    word.shape.push(super::lexer::UNKNOWN);
                }
                return Ok(());
            }
            Token::Operator(_, at) => return Err(Mismatch(at)),
            Token::Redirect(_) | Token::End => return Err(Mismatch(lexer.at)),
        }
    }
}

/// Returns the text of the here-document as standard input. The text is unknown if the shell expands it.
fn document_text(script: &Script<'_>, around: Node<'_>) -> Stdin {
    let mut quoted = false;
    let mut found = None;
    each_below(around, &mut |below| {
        match below.kind() {
            "heredoc_start" => quoted = delimiter(script.text(below)).is_some_and(|(_, quoted)| quoted),
            "heredoc_body" => found = Some((script.text(below).to_owned(), script.span_of(below))),
            _ => {}
        }
        found.is_none()
    });
    match found {
        Some((text, span)) if quoted || !text.contains(['$', '`', '\\']) => Stdin::Text { text, span },
        Some(_) | None => Stdin::Unknown,
    }
}
