//! Secrets recognized by their form: keys and tokens of well-known services, private keys, authorization headers,
//! passwords in URLs, variables and settings named like a secret.
//!
//! In output ([`redact_shapes`]) the forms are strict, so that hashes, UUIDs and source code are kept. Each output is
//! searched as a whole, so no token is split. In command lines ([`redact_command_shapes`]) the forms are lenient: it is
//! better to remove too much there than to log a password.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::REDACTED;

/// Minimum bytes of the value of a variable. A shorter value is a setting rather than a secret.
const VALUE_BYTES_MIN: usize = 6;

/// Minimum bytes of the value of a setting in a file, which is less certain to be a secret than a variable.
const SETTING_BYTES_MIN: usize = 7;
/// Minimum bytes of a token without a digit in a header.
const WORD_TOKEN_BYTES_MIN: usize = 16;

/// Expression for a token behind the word `bearer`: at least 8 characters.
const BEARER_TOKEN: &str = "[A-Za-z0-9._~+/=-]{8,}";
/// Expression for a password or token in a header: at least 8 characters.
const HEADER_TOKEN: &str = "[A-Za-z0-9._~+/=:|%-]{8,}";
/// Names of headers whose value is a secret, as alternatives of an expression.
const HEADERS: &str = "(?:proxy-)?authorization|(?:private|job|deploy)-token|api-key|x-(?:[a-z0-9]+-)*token|\
                       (?:[a-z0-9]+-)+(?:api-?key|access-token|auth-token|vault-token|security-token)";
/// Words in the names of cookies that identify a user, as alternatives of an expression.
const COOKIES: &str = "sess|sid|token|auth|jwt|csrf|remember";
/// Words before the token in a header, as alternatives of an expression.
const SCHEMES: &str = "bearer|basic|token|digest|negotiate|api-?key|key|bot|splunk|genie-?key";

/// Form of a secret, with its name. If the expression has a group `s`, only the text of that group is secret.
struct Shape {
    name: &'static str,
    /// Parts of the text to search, if not all of it.
    scope: Option<Regex>,
    expression: Regex,
    is_secret: Condition,
}

/// Additional condition for the text before a secret, within the match, and for the secret.
type Condition = fn(&str, &str) -> bool;

impl Shape {
    fn new(name: &'static str, expression: &str, is_secret: Condition) -> Self {
        let expression = Regex::new(expression).expect("the regular expression is valid");
        Self { name, scope: None, expression, is_secret }
    }

    /// Searches only the parts of the text that match `scope`.
    fn within(self, scope: &str) -> Self {
        Self { scope: Some(Regex::new(scope).expect("the regular expression is valid")), ..self }
    }
}

/// Expression for the line before and the line after a private key.
const KEY_BORDER: &str = "-----(BEGIN|END) [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----";

/// Forms of secrets in output.
static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let (any, shape): (Condition, _) = (|_, _| true, Shape::new);
    let end = KEY_BORDER.replace("(BEGIN|END)", "END");
    vec![
        shape(
            "private key",
            &format!(r"{}[\s\S]*?({end}|\z)", KEY_BORDER.replace("(BEGIN|END)", "BEGIN")),
            any,
        ),
        // End of a private key whose beginning was cut off.
        shape("private key", &format!(r"\A[A-Za-z0-9+/=\s]*{end}"), any),
        shape("AWS key", r"\b(AKIA|ASIA)[A-Z0-9]{16}\b", any),
        shape(
            "AWS secret",
            r#"(?i:aws_?secret_?(access_?)?key|SecretAccessKey)["']?\s*[:=]\s*["']?(?<s>[A-Za-z0-9/+]{40})\b"#,
            any,
        ),
        shape("GitHub token", r"\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})", any),
        shape("GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,}", any),
        shape("Slack token", r"\b(xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}", any),
        shape("Google key", r"\bAIza[A-Za-z0-9_-]{35}", any),
        shape("API key", r"\bsk-[A-Za-z0-9_-]{20,}", is_mixed),
        shape("JWT", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", any),
        shape(
            "authorization",
            &format!(r#"\b(?i:(?:{HEADERS})["']?:[ \t]*["']?(?:{SCHEMES}))[ \t]+(?<s>{HEADER_TOKEN})"#),
            is_header_token,
        ),
        // Without a known word before the token, it is the last one in its line or quotes.
        shape(
            "authorization",
            &format!(
                r#"\b(?i:{HEADERS})["']?:[ \t]*["']?(?:[A-Za-z][A-Za-z0-9-]*[ \t]+)?(?<s>{HEADER_TOKEN})(?:["'\s]|\z)"#
            ),
            |before, token| is_header_token(before, token) && !NAMES.is_match(token),
        ),
        shape("cookie", &format!("(?i:[a-z0-9_.-]*(?:{COOKIES})[a-z0-9_.-]*)=(?<s>[^;,\"'\\s]{{8,}})"), any)
            .within(r#"(?i:\b(?:set-)?cookie["']?:)[^\r\n]*"#),
        shape("authorization", &format!(r"(?i:\bbearer)\s+(?<s>{BEARER_TOKEN})"), is_mixed),
        shape(
            "password",
            r#"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@'"]*:(?<s>[^\s/@'"][^\s/'"]*)@"#,
            |before, value| {
                let is_text = is_mask(value) || is_inserted(value) || value.starts_with(['{', '*']);
                !(is_text || QUERY.is_match(&format!("{before}{value}")))
            },
        ),
    ]
});

/// Environment variables named like a secret, in lines as of `env`, `export -p`, `docker inspect`, `systemctl show` and
/// files of settings. In command lines, the value would include the command behind it.
static VARIABLES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let is_value: Condition = |_, value| is_secret_value(value);
    let variable = variable();
    let assigned = format!("{}=", assigned_variable());
    let environment = format!(r"(?:(?:\bENV|\s-e|\s--env)[ \t=]*{assigned}|\s-e{PASSWORD_WORD}=)");
    let in_quotes: Condition = |_, value| is_secret_value(value) && !is_template(value);
    let is_word: Condition = |_, value| is_secret_value(value) && !value.starts_with("[redacted");
    let shape = |expression: String, is_secret| Shape::new("secret", &expression, is_secret);
    vec![
        // `declare` writes a value with line breaks as it is, and always closes the quote.
        shape(format!(r#"(?m)^{PLACE}{DECLARES}{assigned}(?<s>"(?:[^"\\]|\\[\s\S])*("|\z))"#), is_value),
        shape(format!(r"{}(?<s>[^\r\n\x00]+)", variable_line()), is_value),
        // "NAME=value" in JSON and in unit files
        shape(format!(r#""{assigned}(?<s>(?:[^"\\\r\n]|\\.)+)"#), in_quotes),
        shape(format!(r"'{assigned}(?<s>[^'\r\n]+)"), in_quotes),
        shape(format!(r#"[\s=]{assigned}(?<s>[^\s"']+)"#), is_word).within(r"(?m)\bEnvironment=[^\r\n]*"),
        shape(format!(r#"{environment}(?<s>"[^"\r\n]+"|'[^'\r\n]+'|[^\s"']+)"#), is_word),
        // NAME: value in YAML, and in JSON with one pair in a line
        shape(
            format!(r#"(?m)^{PLACE}["']?{variable}["']?:[ \t]+{SETTING_VALUE}{SETTING_END}"#),
            |_, value| {
                let (is_quoted, plain) = unquoted(value);
                plain.len() >= SETTING_BYTES_MIN
                    && is_secret_value(value)
                    && !is_template(plain)
                    && (is_quoted || !CODE.is_match(value))
            },
        ),
    ]
});

/// Settings whose key is named like a secret, in lines of files (properties, YAML, JSON, INI), and in pairs of JSON and
/// quoted arguments anywhere in a line.
static SETTINGS: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    [
        format!("{}{SETTING_VALUE}{SETTING_END}", setting()),
        format!(r#""{SETTING_KEY}"[ \t]*:[ \t]*"(?<s>(?:[^"\s\\]|\\.)+)""#),
        format!(r"'{SETTING_KEY}'[ \t]*:[ \t]*'(?<s>[^'\s]+)'"),
        // JSON within a string of JSON, as in the lines of a log
        format!(r#"\\"{SETTING_KEY}\\"[ \t]*:[ \t]*\\"(?<s>[^"\s]+?)\\""#),
        format!(r#""(?:--?)?{SETTING_KEY}=(?<s>[^"\s\\]+)""#),
        format!(r"'(?:--?)?{SETTING_KEY}=(?<s>[^'\s]+)'"),
    ]
    .map(|expression| Shape::new("secret", &expression, is_setting_secret))
    .into()
});

/// Expression for the value of a setting: a single word.
const SETTING_VALUE: &str = r#"(?<s>"[^"\s]+"|'[^'\s]+'|\S+)"#;
/// Expression for the rest of a setting's line.
const SETTING_END: &str = r"[ \t]*[,;]?(?:[ \t]+[#;][^\n]*|[ \t]*)\r?$";
/// Expression for a key named like a secret.
const SETTING_KEY: &str = "(?i:[a-z0-9_.-]*?(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|\
                           private[_-]?key|secret[_-]?key|_(?:pass|pwd?)))";

/// Returns an expression for the beginning of a line that shows a setting named like a secret, up to its value. Tokens
/// that name a page of a list are no secrets, and a caller needs them.
fn setting() -> String {
    format!(r#"(?m)^{PLACE}["']?{SETTING_KEY}["']?[ \t]*[:=][ \t]*"#)
}

/// Expression for the text before the content of a line: the place, which `grep` and the output of several hosts write,
/// and the blanks and marks of `diff`, of a list, of a quotation, and of a shell that traces its commands.
const PLACE: &str = r"(?:[^\s|]+ \| )?(?:[^\s:=]+[:-])?(?:[0-9]+[:-])?[ \t<>!+-]*";

/// Expression for the words before the name of a variable in the output of `export -p` and `declare -x`.
const DECLARES: &str = r"(?:export|declare[ \t]+-[a-z]+)[ \t]+";

/// Returns an expression for the name of a variable that is named like a secret.
fn variable() -> String {
    let word = "SECRET|PASSWORD|PASSWD|PASSPHRASE|TOKEN|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY|CREDENTIAL";
    format!("(?:[A-Z0-9_]*(?:{word})S?[0-9]*(?:_[A-Z0-9_]*)?|[A-Z0-9_]*_(?:PASS|PWD?))")
}

/// Expression for the name of a variable that is a secret before a `=`. Elsewhere, `PASS` is a common word, as in the
/// results of tests.
const PASSWORD_WORD: &str = "(?:PASS|PW)";

/// Like [`variable`], for a name before a `=`.
fn assigned_variable() -> String {
    format!(r"(?:{}|\b{PASSWORD_WORD})", variable())
}

/// Returns an expression for the beginning of a line that shows such a variable. `env -0` separates variables by NUL.
fn variable_line() -> String {
    let name = assigned_variable();
    format!(r"(?m)(?:^|\x00){PLACE}(?:{DECLARES}|(?:ENV|ARG)[ \t]+)?{name}=")
}

/// Additional forms of secrets in command lines.
static COMMAND_SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let value = r#"(?<s>"(?:[^"\\]|\\.)*"|'[^']*'|[^\s;|&)"']+)"#;
    let word = r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|api[_-]?key|access[_-]?key|private[_-]?key|auth)";
    let shapes = [
        r"(?i)\b(?:bearer|basic|digest)\s+(?<s>[\w.~+/=-]{4,})".to_owned(),
        // authorization: scheme value
        r#"(?i)\b[\w-]*authorization["']?\s*[:=]\s*["']?(?:[a-z][\w-]*\s+)?(?<s>[^\s"';|&)]{4,})"#.to_owned(),
        // NAME=value and name: value, as in variables, JSON and headers
        format!(r#"(?i)[\w-]*{word}[\w-]*["']?\s*[=:]\s*{value}"#),
        // --password value
        format!(r"(?i)--?[\w-]*{word}[\w-]*\s+{value}"),
        // LDAP_PW=value, docker run -ePW=value, plink -pw value: `pw` is also a part of other words
        format!(r#"(?i)(?:\b|\s-e)(?:[\w-]*[_-])?pw[0-9]*(?:[_-][\w-]*)?["']?\s*[=:]\s*{value}"#),
        format!(r"(?i)\s--?(?:[\w-]*[_-])?pw[0-9]*(?:[_-][\w-]*)?\s+{value}"),
        // scheme://user:secret@host
        r#"://[^/\s:@]*:(?<s>[^/\s"']+)@"#.to_owned(),
        // mysql -psecret, sshpass -p secret, curl -u user:secret
        format!(r"\b(?:mysql\w*|mariadb\w*)\b[^;|&\n]*?\s-p{value}"),
        format!(r"\b(?:sshpass|smbclient|ldap\w+|redis-cli)\b[^;|&\n]*?\s-[paw]\s*{value}"),
        format!(r"\s(?:-u|--user|--proxy-user)[\s=]*[^\s:]+:{value}"),
        // text piped into a program that asks for a password
        r"(?:echo|printf)\s+(?:-\w+\s+)*(?<s>[^|\n]+?)\s*\|\s*(?:sudo\s+(?:-\w+\s+)*-S|su\b|passwd|chpasswd|cryptsetup|gpg)".to_owned(),
        // tokens with a known prefix
        r"(?<s>\b(?:sysop_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|hf_|npm_)[\w-]{12,})".to_owned(),
        r"(?<s>\b(?:AKIA|ASIA)[0-9A-Z]{16}\b)".to_owned(),
        r"(?<s>\bAIza[\w-]{30,})".to_owned(),
        r"(?<s>\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*)".to_owned(),
        r"(?s)(?<s>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z))".to_owned(),
    ];
    shapes.iter().map(|shape| Shape::new("secret", shape, |_, _| true)).collect()
});

/// Matches a token at the end of truncated text, where the token may continue beyond the end.
static CUT_TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    let starts = "AKIA|ASIA|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|AIza|sk-|eyJ";
    Regex::new(&format!(r"\b({starts})[A-Za-z0-9._-]*\z")).expect("the regular expression is valid")
});

/// Match a variable or a setting named like a secret at the end of truncated text. The part of the value that is left
/// may look like a number or a path.
static CUT_VALUES: LazyLock<[Regex; 7]> = LazyLock::new(|| {
    let (variable, assigned) = (variable(), assigned_variable());
    [
        format!(r"{}(?<s>[^\r\n\x00]+)\z", variable_line()),
        format!(r#"{}(?<s>"[^"\s]*|'[^'\s]*|[^\s"']\S*)\z"#, setting()),
        format!(r#""{assigned}=(?<s>[^"\r\n]+)\z"#),
        format!(r"'{assigned}=(?<s>[^'\r\n]+)\z"),
        format!(r#"[\s=](?:-e)?(?:{assigned}|{PASSWORD_WORD})=(?<s>"[^"\r\n]*|'[^'\r\n]*|[^\s"']+)\z"#),
        format!(r#"(?m)^{PLACE}["']?{variable}["']?:[ \t]+(?<s>\S+)\z"#),
        format!(r#"["']{SETTING_KEY}\\?["']?[ \t]*[:=][ \t]*\\?["']?(?<s>[^"'\s]+)\z"#),
    ]
    .map(|expression| Regex::new(&expression).expect("the regular expression is valid"))
});

/// Returns true for a token after the name of a header: one with a digit, or a long one.
fn is_header_token(before: &str, token: &str) -> bool {
    !PAGE_TOKEN.is_match(before)
        && (token.len() >= WORD_TOKEN_BYTES_MIN || token.bytes().any(|byte| byte.is_ascii_digit()))
}

/// Matches a URL up to the first pair of its query, which follows the host or a port. Digits are a port after a name
/// that is one of a host, and in URLs of the web. Other text with `?`, `#` and a later `@` may be a password whose
/// special characters were not encoded, as in `https://joe:p?ss@web` or `postgres://joe:2024?k=x@db`.
static QUERY: LazyLock<Regex> = LazyLock::new(|| {
    let port =
        r"(?:(?:\Ahttps?|\Awss?)://[^:?#]*|://(?:localhost|\[[0-9a-f:.]+\]|[^:?#]*\.[^:?#]*)):[0-9]{1,5}";
    let expression = format!(r"(?i)(?:://[^:?#]*|{port})\?[\w.%\[\]-]+=");
    Regex::new(&expression).expect("the regular expression is valid")
});

/// Matches names with points between them, as in `process.env.API_KEY`.
static NAMES: LazyLock<Regex> = LazyLock::new(|| {
    let expression = r"\A[A-Za-z_][A-Za-z_]*(?:\.[A-Za-z_]+)+\z";
    Regex::new(expression).expect("the regular expression is valid")
});

/// Returns true if the value of a setting may be a secret: text with a digit or a special character that is neither a
/// number, a path, a mask, a template nor, without quotes, source code.
fn is_setting_secret(key: &str, text: &str) -> bool {
    let (quoted, value) = unquoted(text);
    let value = if quoted { value } else { value.trim_end_matches([',', ';']) };
    let is_telling =
        |char: char| char.is_ascii_digit() || !(char.is_alphanumeric() || "_.-/:".contains(char));
    let is_uniform = value.bytes().all(|byte| Some(byte) == value.bytes().next());
    value.len() >= SETTING_BYTES_MIN
        && value.contains(is_telling)
        && !(is_uniform || is_number(value) || is_mask(value) || is_path(value) || is_template(value))
        && (quoted || !CODE.is_match(text))
        && !PAGE_TOKEN.is_match(key)
}

/// Returns a value without its quotes, and true if it has some.
fn unquoted(text: &str) -> (bool, &str) {
    let end = text.trim_end_matches([',', ';', ')', ']', '}']);
    let inner = |quote: char| end.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).map_or((false, text), |inner| (true, inner))
}

/// Matches the key of a token that names a page of a list. It is no secret, and a caller needs it.
static PAGE_TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    let expression =
        r#"(?i)(?:next|page|pagination|continuation|cursor)[_.-]?token\\?["']?\s*[:=]\s*\\?["']?\z"#;
    Regex::new(expression).expect("the regular expression is valid")
});

/// Matches a value without quotes that is source code: a call, an element, a path of names, a reference, a symbol, a
/// list, a type, or a name before a comma or semicolon.
static CODE: LazyLock<Regex> = LazyLock::new(|| {
    let types = "(?:u?int|u?long|float|double|char|complex|string|str|bytes?|varchar|bigu?int|utf|base|oauth)_?[0-9]+";
    let name = "[A-Za-z_][A-Za-z0-9_]*";
    let path = format!(r"{name}(?:(?:\.|::)<?{name}>?)*");
    let inner = r#"[\w\s"'.,:;/&*<>=+\[\](){}#?@|-]*"#;
    let expressions = [
        format!(r"[&*!]*{path}!?\((?:{inner}\)(?:[?)\]}}]|\.[a-z_]+)*)?"),
        format!(r"[&*!]*{path}!?\[{inner}\](?:\({inner}\))?"),
        format!(r"&*{path}<{inner}>\??"),
        format!(r"&*{name}(?:::<?{name}>?)+"),
        r"[a-z_][a-z0-9_]{0,19}(?:\.[A-Za-z_][A-Za-z0-9_]{0,19})+".to_owned(),
        format!(r"[&*:]{name}|[&*]?{name}\??[,;]"),
        "!+[A-Za-z_.]+|%[A-Za-z_]+%".to_owned(),
        format!(r"\[{inner}\]"),
        format!("(?i:{types}(?:_t|array|clampedarray|token|client)?)"),
    ];
    Regex::new(&format!(r"\A(?:{})\??[,;]?\z", expressions.join("|")))
        .expect("the regular expression is valid")
});

/// Returns true for text that stands for a value or contains such text: `$name`, `{{ name }}`, `%(name)s`. Text beside
/// it with a digit and a special character is a secret.
fn is_template(value: &str) -> bool {
    static INSERTED: LazyLock<Regex> = LazyLock::new(|| {
        let expression = r"\$\{[^{}]*\}|\{\{[^{}]*\}\}|\{(?:[A-Za-z_][\w.:!-]*)?\}|%\([A-Za-z_]\w*\)[a-z]?";
        Regex::new(expression).expect("the regular expression is valid")
    });
    let is_name = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_inserted(value)
        || value.strip_prefix('$').is_some_and(is_name)
        || INSERTED.is_match(value) && !is_random(&INSERTED.replace_all(value, ""))
}

/// Returns true for text with a digit and a special character, as passwords from a generator.
fn is_random(text: &str) -> bool {
    let is_special = |byte: u8| byte.is_ascii_punctuation() && !b"_.-/:".contains(&byte);
    text.bytes().any(|byte| byte.is_ascii_digit()) && text.bytes().any(is_special)
}

/// Returns true if the value of a variable may be a secret. Numbers, paths, expansions, placeholders and redacted
/// values are none.
fn is_secret_value(text: &str) -> bool {
    let text = text.trim_end();
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    let value = inner('"').or_else(|| inner('\'')).unwrap_or(text);
    value.len() >= VALUE_BYTES_MIN
        && !(is_number(value)
            || is_mask(value)
            || is_path(value)
            || is_inserted(value.trim_start_matches(['"', '\''])))
}

fn is_number(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte))
}

fn is_mask(value: &str) -> bool {
    let inner = value.strip_prefix("[redacted").and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|inner| !inner.contains(']'))
}

/// Returns true for a plain path. A long random component may be a secret in base64.
fn is_path(value: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~@:+".contains(&byte);
    let is_random = |part: &str| part.len() >= 20 && has_mixed_characters(part);
    ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start))
        && value.bytes().all(is_plain)
        && !value.split('/').any(is_random)
}

/// Returns true for text that stands for a value, as in scripts and templates: `$(command)`, `${NAME}`, `$NAME`,
/// `<name>`.
fn is_inserted(value: &str) -> bool {
    let is_name = |rest: &str| {
        rest.trim_end_matches(['"', '\''])
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    ["$(", "${"].iter().any(|start| value.starts_with(start))
        || value.strip_prefix('`').is_some_and(|rest| rest.ends_with('`'))
        || value.strip_prefix('$').is_some_and(is_name)
        || value.starts_with('<') && value.ends_with('>')
}

fn is_mixed(_: &str, secret: &str) -> bool {
    has_mixed_characters(secret)
}

/// Returns true if the text has both a digit and a capital letter. Random strings usually do; class names do not.
pub(super) fn has_mixed_characters(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Replacement of a private key in output.
pub(super) const KEY_MASK: &str = "[redacted: private key]";
/// Replacement of the value of a variable in output.
pub(super) const VALUE_MASK: &str = "[redacted: secret]";

/// Border of a private key in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyBorder {
    /// A key begins at this offset.
    Begin(usize),
    /// A key ends before this offset.
    End(usize),
}

/// Returns the borders of private keys in a line, in order.
pub(super) fn key_borders(line: &str) -> Vec<KeyBorder> {
    static BORDERS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(KEY_BORDER).expect("the regular expression is valid"));
    let border = |found: Captures<'_>| match &found[1] {
        "BEGIN" => KeyBorder::Begin(found.get_match().start()),
        _ => KeyBorder::End(found.get_match().end()),
    };
    BORDERS.captures_iter(line).map(border).collect()
}

/// Returns the offset of a quoted value that does not end in this line of the output of `export -p` or `declare`, if
/// the variable is named like a secret.
pub(super) fn open_quote(line: &str) -> Option<usize> {
    static OPEN: LazyLock<Regex> = LazyLock::new(|| {
        let expression =
            format!(r#"\A{PLACE}{DECLARES}{}=(?<s>"(?:[^"\\]|\\[\s\S])*)\z"#, assigned_variable());
        Regex::new(&expression).expect("the regular expression is valid")
    });
    Some(OPEN.captures(line)?.name("s")?.start())
}

/// Returns true for the rest of a line in which a quoted value begins and does not end, if its variable is named like a
/// secret or the beginning of the name is missing.
pub(super) fn opens_quote(rest: &str) -> bool {
    static OPEN: LazyLock<Regex> = LazyLock::new(|| {
        let name = assigned_variable();
        let expression = format!(r#"(?:\A[A-Za-z0-9_]*|\b{name})="(?:[^"\\]|\\[\s\S])*\z"#);
        Regex::new(&expression).expect("the regular expression is valid")
    });
    OPEN.is_match(rest)
}

/// Returns true for a line of the output of `export -p` or `declare` with the beginning of a variable.
pub(super) fn declares_variable(line: &str) -> bool {
    static DECLARED: LazyLock<Regex> = LazyLock::new(|| {
        let expression = format!(r"\A{PLACE}{DECLARES}[A-Za-z_][A-Za-z0-9_]*(?:[=\r\n]|\z)");
        Regex::new(&expression).expect("the regular expression is valid")
    });
    DECLARED.is_match(line)
}

/// Returns the offset after the end of a quoted value that began in an earlier line, or `None` if it goes on.
pub(super) fn quote_end(line: &str) -> Option<usize> {
    let mut chars = line.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some(at + 1),
            '\\' => drop(chars.next()),
            _ => {}
        }
    }
    None
}

/// Redacts secrets of known forms in output; each replacement names the form. If the end of the text was cut
/// off, use [`redact_cut_shapes`] instead.
pub fn redact_shapes(text: &str) -> Cow<'_, str> {
    let mask = |name: &str| format!("[redacted: {name}]");
    let mut clean = Cow::Borrowed(text);
    for shapes in [&SHAPES, &VARIABLES, &SETTINGS] {
        let redacted = match redact(&clean, shapes, mask) {
            Cow::Owned(redacted) => redacted,
            Cow::Borrowed(_) => continue,
        };
        clean = Cow::Owned(redacted);
    }
    clean
}

/// Like [`redact_shapes`], but also redacts a token that was cut off at the end of the text.
pub fn redact_cut_shapes(text: &str) -> Cow<'_, str> {
    let clean = redact_shapes(text);
    let value = CUT_VALUES
        .iter()
        .find_map(|cut| cut.captures(&clean)?.name("s").filter(|value| !is_mask(value.as_str())));
    let (start, name) = match (value, CUT_TOKEN.find(&clean)) {
        (Some(value), _) => (value.start(), "secret"),
        (None, Some(token)) => (token.start(), "token"),
        (None, None) => return clean,
    };
    Cow::Owned(format!("{}[redacted: {name}]", &clean[..start]))
}

/// Redacts everything in a command line that may be a secret, going by its form.
pub fn redact_command_shapes(command: &str) -> String {
    let mask = |_: &str| REDACTED.to_owned();
    redact(&redact(command, &COMMAND_SHAPES, mask), &SHAPES, mask).into_owned()
}

fn redact<'a>(text: &'a str, shapes: &[Shape], mask: fn(&str) -> String) -> Cow<'a, str> {
    let mut clean = Cow::Borrowed(text);
    for shape in shapes {
        let redacted = match &shape.scope {
            Some(scope) => scope
                .replace_all(&clean, |part: &Captures<'_>| redact_shape(&part[0], shape, mask).into_owned()),
            None => redact_shape(&clean, shape, mask),
        };
        if *redacted != *clean {
            clean = Cow::Owned(redacted.into_owned());
        }
    }
    clean
}

fn redact_shape<'a>(text: &'a str, shape: &Shape, mask: fn(&str) -> String) -> Cow<'a, str> {
    shape.expression.replace_all(text, |found: &Captures<'_>| {
        let (from, whole) = (found.get_match().start(), &found[0]);
        let secret = found.name("s").unwrap_or(found.get_match());
        let (before, after) = (&whole[..secret.start() - from], &whole[secret.end() - from..]);
        if (shape.is_secret)(before, secret.as_str()) {
            format!("{before}{}{after}", mask(shape.name))
        } else {
            whole.to_owned()
        }
    })
}

#[cfg(test)]
mod tests;
