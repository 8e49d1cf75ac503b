//! The portable subset of the shell language, which every POSIX shell and zsh parse as bash does. The grammar and the
//! rules follow bash, so a script for another shell is opaque unless it stays in this subset.
//!
//! The subset is an allow-list: only kinds of nodes, operators and characters listed here are portable.

use tree_sitter::Node;

use super::expansion;
use super::lexer::{Word, is_name};
use super::program_call::Script;
use super::state::State;
use super::syntax_tree::each_below;
use crate::context::Dialect;
use crate::risk::RiskClass;

const WHY: &str = "shells disagree on this syntax";
/// Maximum characters of a script that a finding quotes.
const SHOWN_CHARS_MAX: usize = 40;

/// Records a finding for the first part of the script that its shell may parse differently from bash.
pub(super) fn check(state: &mut State, script: &Script<'_>, root: Node<'_>) {
    let dialect = state.dialect;
    if dialect == Dialect::Bash {
        return;
    }
    if !dialect.is_analyzed() {
        return state.note_unknown_syntax(script.span(0, script.source.len()));
    }
    let mut found = None;
    each_below(root, &mut |node| {
        if found.is_none() && !is_portable(script, node, dialect) {
            found = Some(node);
        }
        found.is_none() && !is_read_as_text(node.kind())
    });
    if let Some(node) = found {
        let text: String = script.text(node).chars().take(SHOWN_CHARS_MAX).collect();
        let why = format!("shells disagree on `{}`", text.trim());
        state.note(script.span(expansion::start(script, node), node.end_byte()), RiskClass::Opaque, &why);
    }
}

pub(super) fn of_program(name: &str) -> Dialect {
    match name {
        "bash" | "rbash" => Dialect::Bash,
        "sh" | "dash" | "ksh" | "mksh" | "ksh93" | "ash" | "yash" | "posh" => Dialect::Sh,
        "zsh" => Dialect::Zsh,
        "fish" => Dialect::Fish,
        "csh" | "tcsh" => Dialect::Csh,
        _ => Dialect::Unknown,
    }
}

/// Returns true for nodes that are assessed by their whole text, so that their children are not visited.
fn is_read_as_text(kind: &str) -> bool {
    matches!(
        kind,
        "word" | "raw_string" | "simple_expansion" | "expansion" | "arithmetic_expansion" | "extglob_pattern"
    )
}

fn is_portable(script: &Script<'_>, node: Node<'_>, dialect: Dialect) -> bool {
    let text = script.text(node);
    if !node.is_named() {
        return is_portable_token(node, text);
    }
    match node.kind() {
        "command"
        | "command_name"
        | "list"
        | "pipeline"
        | "negated_command"
        | "subshell"
        | "if_statement"
        | "elif_clause"
        | "else_clause"
        | "while_statement"
        | "do_group"
        | "case_item"
        | "unary_expression"
        | "binary_expression"
        | "test_operator"
        | "unset_command"
        | "declaration_command"
        | "variable_assignments"
        | "special_variable_name"
        | "file_descriptor"
        | "heredoc_end" => true,
        "concatenation" => is_portable_brace(script, node),
        "number" => text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()),
        "variable_name" => is_name(text),
        "test_command" => text.starts_with("[ "),
        "compound_statement" => text.starts_with(['{']),
        "for_statement" => text.starts_with("for ") && has_token(node, "in"),
        "case_statement" => has_token(node, "in"),
        "redirected_statement" => node.child_by_field_name("body").is_some() || dialect == Dialect::Sh,
        "file_redirect" => is_portable_redirect(script, node),
        "heredoc_redirect" | "heredoc_start" | "heredoc_body" | "heredoc_content" => {
            is_quoted_document(script, node) || is_portable_document(text, node.kind())
        }
        "word" | "extglob_pattern" => is_portable_word(script, node, dialect),
        "raw_string" => dialect == Dialect::Sh || !touches_quote(script, node),
        "string" => true,
        "string_content" => is_portable_content(text, dialect),
        "simple_expansion" => is_portable_variable(script, node, dialect),
        "expansion" => is_portable_parameter(expansion::text(script, node), dialect),
        "command_substitution" => !text.trim_start().starts_with('`') || !text.contains('\\'),
        "arithmetic_expansion" => is_constant(expansion::text(script, node)),
        "variable_assignment" => {
            node.child_by_field_name("name").is_some_and(|name| is_name(script.text(name)))
                && !text.contains("+=")
        }
        "comment" => is_portable_comment(script, node, dialect),
        _ => false,
    }
}

fn has_token(node: Node<'_>, token: &str) -> bool {
    let mut cursor = node.walk();
    node.children(&mut cursor).any(|child| child.kind() == token)
}

/// Returns true for portable keywords and operators. A lone `$`, as at the end of quoted text, is also accepted.
fn is_portable_token(node: Node<'_>, text: &str) -> bool {
    const TOKENS: &[&str] = &[
        ";", ";;", "&", "|", "&&", "||", "(", ")", "{", "}", "!", "\n", "\"", "`", "$(", "<", ">", ">>",
        ">|", ">&", "<&", "<<", "<<-", "[", "]", "=", "!=", "-a", "-o", "if", "then", "elif", "else", "fi",
        "while", "until", "do", "done", "for", "in", "case", "esac", "unset", "export", "readonly", "local",
    ];
    let text = text.trim_start_matches([' ', '\t', '\n']);
    TOKENS.contains(&text)
        || text.is_empty()
        || text == "$" && node.parent().is_some_and(|parent| is_expansion_part(parent.kind()))
}

/// Returns true for nodes in which a lone `$` is a separate token.
fn is_expansion_part(kind: &str) -> bool {
    matches!(kind, "string" | "simple_expansion" | "heredoc_body")
}

/// Returns true for a portable redirection. `<&` and `>&` must be followed by a single digit or a dash. `<` must not be
/// followed by a digit or a dash, because zsh may read `<1-9>` as a glob.
fn is_portable_redirect(script: &Script<'_>, node: Node<'_>) -> bool {
    let text = script.text(node).trim_start_matches(|c: char| c.is_ascii_digit());
    if let Some(target) = text.strip_prefix(">&").or_else(|| text.strip_prefix("<&")) {
        let target = target.trim_start();
        return target.len() == 1 && target.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    }
    let target = text.trim_start_matches(['<', '>', '|', ' ', '\t']);
    !(text.starts_with('<') && target.starts_with(|c: char| c.is_ascii_digit() || c == '-'))
}

/// Returns true for a word that contains no braces, only `{}`, or one pair of braces with commas in otherwise
/// plain text. Such a pair is accepted although some shells expand it to several words and others do not.
fn is_portable_brace(script: &Script<'_>, node: Node<'_>) -> bool {
    let mut cursor = node.walk();
    if !node.children(&mut cursor).any(|child| matches!(script.text(child), "{" | "}")) {
        return true;
    }
    let text = script.text(node).replace("{}", "");
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./,{}@".contains(c);
    let pairs = text.matches('{').count();
    text.chars().all(plain)
        && pairs == text.matches('}').count()
        && pairs <= 1
        && (pairs == 0
            || text.contains(',')
                && text.starts_with(|c: char| c.is_ascii_alphanumeric() || "./_".contains(c)))
}

/// Returns true for the text of a here-document with a quoted delimiter, which is not expanded.
fn is_quoted_document(script: &Script<'_>, node: Node<'_>) -> bool {
    let within = |node: Node<'_>| {
        let mut cursor = node.walk();
        let start = node.children(&mut cursor).find(|child| child.kind() == "heredoc_start");
        start.is_some_and(|start| script.text(start).starts_with(['\'', '"']))
    };
    matches!(node.kind(), "heredoc_body" | "heredoc_content")
        && std::iter::successors(node.parent(), Node::parent).take(2).any(within)
}

/// Returns true for a portable part of a here-document: a delimiter that is a plain name, or text without expansions.
fn is_portable_document(text: &str, kind: &str) -> bool {
    match kind {
        "heredoc_start" => {
            let name = text.trim_matches(['\'', '"']);
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        }
        "heredoc_redirect" => true,
        _ => {
            !text.contains(['\\', '`'])
                && !text.contains("${")
                && !text.contains("$(")
                && !text.contains("$[")
        }
    }
}

/// Returns true for a portable unquoted word. Such a word may contain characters that have no special meaning in any
/// shell, simple globs, a leading `~`, and backslashes before characters other than letters.
fn is_portable_word(script: &Script<'_>, node: Node<'_>, dialect: Dialect) -> bool {
    let text = script.text(node);
    if matches!(text, "!" | "!=" | "=" | "==" | "[" | "]" | "{}" | "~" | "\\;" | "\\!" | "\\(" | "\\)") {
        return text != "==" || dialect == Dialect::Sh;
    }
    if matches!(text, "{" | "}") {
        return node.parent().is_some_and(|parent| parent.kind() == "concatenation");
    }
    let before = script.source.get(..node.start_byte()).and_then(|before| before.chars().next_back());
    let is_start = before.is_none_or(|c| " \t\n;&|(<>`".contains(c));
    let is_job = text.starts_with('%') && node.parent().is_none_or(|parent| parent.kind() != "command");
    if is_start && (is_job || text.starts_with(['=', '^', '#', '!'])) || text.contains("**") {
        return false;
    }
    let tilde = text.strip_prefix("~/").unwrap_or(text);
    let mut chars = tilde.chars().peekable();
    let mut bracket = false;
    let mut first = true;
    while let Some(c) = chars.next() {
        let plain = match c {
            '\\' => chars.next().is_some_and(|next| !next.is_alphanumeric()),
            '*' | '?' => true,
            '[' => {
                bracket = true;
                chars.peek().is_some_and(|next| !matches!(next, '^' | '[' | ':'))
            }
            ']' => std::mem::replace(&mut bracket, false),
            '~' | '^' => {
                !first
                    && tilde.starts_with(|c: char| c.is_ascii_alphanumeric())
                    && !text.contains(['*', '?', '['])
            }
            '#' => !first && dialect == Dialect::Sh,
            '{' => chars.next_if_eq(&'}').is_some(),
            '!' => false,
            _ => c.is_alphanumeric() || "_-./,:=+@%".contains(c) || !c.is_ascii(),
        };
        if !plain {
            return false;
        }
        first = false;
    }
    !bracket
}

/// Returns true if a single-quoted string directly follows or precedes another one. Zsh with RC_QUOTES reads the two
/// quotes between them as a quote character.
fn touches_quote(script: &Script<'_>, node: Node<'_>) -> bool {
    let before = script.source.get(..node.start_byte()).unwrap_or("");
    let after = script.source.get(node.end_byte()..).unwrap_or("");
    before.ends_with('\'') || after.starts_with('\'')
}

/// Returns true for text in double quotes that every shell takes literally.
fn is_portable_content(text: &str, dialect: Dialect) -> bool {
    !text.contains(['$', '`']) && (dialect == Dialect::Sh || !text.contains('!'))
}

/// Returns true for `$NAME`, unless zsh would parse the text after it as a subscript or a modifier.
fn is_portable_variable(script: &Script<'_>, node: Node<'_>, dialect: Dialect) -> bool {
    let Some(name) = expansion::text(script, node).strip_prefix('$') else { return false };
    let digit = name.len() == 1 && name.bytes().all(|b| b.is_ascii_digit());
    if !(is_name(name) || digit || matches!(name, "?" | "$" | "#" | "@" | "*" | "!")) {
        return false;
    }
    let mut after = script.source.get(node.end_byte()..).unwrap_or("").chars();
    match after.next() {
        None => true,
        Some(':') => {
            dialect == Dialect::Sh || after.next().is_some_and(|c| matches!(c, '/' | '$' | ' ' | '"'))
        }
        Some(c) => " \t\n\"'/.,-;&|)`\\@".contains(c) || dialect == Dialect::Sh && "=@%+]}".contains(c),
    }
}

/// Returns true for `${NAME}`, `${#NAME}`, and for `${NAME-word}` and similar forms if the word is plain.
fn is_portable_parameter(text: &str, dialect: Dialect) -> bool {
    let Some(inner) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else { return false };
    let body = inner.strip_prefix('#').unwrap_or(inner);
    let end = body.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(body.len());
    let Some((name, rest)) = body.split_at_checked(end) else { return false };
    if !is_name(name) {
        return false;
    }
    if rest.is_empty() {
        return true;
    }
    let operators: &[&str] =
        if dialect == Dialect::Sh { &[":-", ":+", "-", "+", "##", "#", "%%", "%"] } else { &[":-", ":+"] };
    let word = operators.iter().find_map(|operator| rest.strip_prefix(operator));
    body.len() == inner.len()
        && word.is_some_and(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c)))
}

/// Returns true for an arithmetic expansion that contains only constants.
fn is_constant(text: &str) -> bool {
    let inner = text.strip_prefix("$((").and_then(|rest| rest.strip_suffix("))"));
    inner.is_some_and(|inner| inner.bytes().all(|b| b.is_ascii_digit() || b" +-*/%".contains(&b)))
}

/// Returns true for a portable comment. In `sh`, any comment is portable. An interactive zsh has no comments: it reads
/// `#` as the name of a command or as an argument. So in zsh, a comment must be plain text on a separate line.
fn is_portable_comment(script: &Script<'_>, node: Node<'_>, dialect: Dialect) -> bool {
    let before = script.source.get(..node.start_byte()).unwrap_or("");
    let alone = before.rsplit('\n').next().unwrap_or("").trim().is_empty();
    let plain = |c: char| c.is_alphanumeric() || " .,:_-#".contains(c);
    dialect == Dialect::Sh || alone && script.text(node).chars().all(plain)
}

/// Returns the reason why a call is opaque in this dialect, or `None` if it is not. A call is opaque if it calls a
/// builtin whose arguments ksh or zsh evaluates but bash does not, or if its first word is one that these shells do not
/// look up as a program.
pub(super) fn evaluates(dialect: Dialect, words: &[Word]) -> Option<&'static str> {
    if dialect == Dialect::Bash {
        return None;
    }
    let (program, arguments) = words.split_first()?;
    let name = program.literal()?;
    let evaluated = "a number that may run a command";
    match name {
        "print" | "repeat" | "foreach" | "end" | "select" | "function" | "always" | "coproc" | "float"
        | "integer" | "zmv" | "noglob" | "nocorrect" | "-" | "autoload" | "functions" | "zstyle"
        | "zcompile" | "disable" | "typeset" | "declare" | "rehash" | "whence" | "where" | "zargs"
        | "log" | "r" | "history" | "private" | "nameref" | "limit" | "unlimit" | "which-command"
        | "run-help" => Some(WHY),
        // The program table knows which formats and numbers of `printf` only print.
        "printf" => (!super::programs::is_plain_printf(arguments)).then_some(evaluated),
        "test" | "[" => {
            const COMPARE: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
            let compared = |index: usize| arguments.get(index).is_some_and(is_number);
            let plain = arguments.iter().enumerate().all(|(index, word)| {
                !COMPARE.contains(&word.text()) || index > 0 && compared(index - 1) && compared(index + 1)
            });
            let names = arguments.iter().any(|word| matches!(word.text(), "-v" | "-R" | "-t"));
            let built = arguments.first().is_some_and(|word| word.expands && !word.quoted);
            (!plain || names || built).then_some(evaluated)
        }
        "exit" | "return" | "shift" | "break" | "continue" | "ulimit" | "sleep" | "let" | "echotc" => {
            let plain = |word: &Word| is_number(word) || !word.expands && !word.text().contains(['[', '(']);
            (!arguments.iter().all(plain)).then_some(evaluated)
        }
        _ => None,
    }
}

/// Returns true for a word of digits, with or without a minus sign, and for an exit status.
pub(super) fn is_number(word: &Word) -> bool {
    word.is_status()
        || word.literal().is_some_and(|text| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        })
}
