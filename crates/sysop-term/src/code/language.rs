//! Tables for languages: their comments, strings and words.

#[derive(Debug)]
pub struct Language {
    /// Names used in code blocks, and file extensions, separated by spaces like all word lists here.
    names: &'static str,
    pub(super) family: SyntaxFamily,
    pub(super) line_comments: &'static [&'static str],
    pub(super) block_comment: Option<(&'static str, &'static str)>,
    pub(super) quotes: &'static [Quote],
    pub(super) keywords: &'static str,
    /// Words that are constants.
    pub(super) values: &'static str,
    /// Prefix that starts an attribute or directive.
    pub(super) attributes: &'static str,
    /// True if a dollar sign starts a variable.
    pub(super) dollar: bool,
    /// True if keywords are case-insensitive.
    pub(super) any_case: bool,
    /// True if capitalized words are types.
    pub(super) types: bool,
    /// True if the first word of a command is the program to run.
    pub(super) shell: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyntaxFamily {
    Code,
    /// Text before a colon is a key.
    Json,
    /// A word before a colon is a key.
    Yaml,
    /// A word before `=` is a key; sections are in brackets.
    Assignments,
    /// The first character of a line determines its kind.
    Diff,
    /// The first word of a line is a directive.
    Directives,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quote {
    pub(super) mark: &'static str,
    /// True if a backslash escapes the next character.
    pub(super) escapes: bool,
    /// True if the string may span several lines.
    pub(super) lines: bool,
}

impl Quote {
    /// Returns the offset after the string and its closing delimiter, and true. If the string does not end in `text`,
    /// returns the length of `text`, and false.
    pub(super) fn end_in(self, text: &str) -> (usize, bool) {
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            if text[at..].starts_with(self.mark) {
                return (at + self.mark.len(), true);
            }
            at += c.len_utf8();
            if c == '\\' && self.escapes {
                at += text[at..].chars().next().map_or(0, char::len_utf8);
            }
        }
        (text.len(), false)
    }
}

impl Language {
    /// Returns the language with this name or file extension, or `None` if it is unknown.
    pub fn named(name: &str) -> Option<&'static Self> {
        let word = name.split([' ', ',', '{', ':', '\t']).next().unwrap_or_default().trim_start_matches('.');
        if word.is_empty() || word.len() > 20 {
            return None;
        }
        let word = word.to_ascii_lowercase();
        ALL.iter().find(|language| has(language.names, &word))
    }

    pub fn of_path(path: &str) -> Option<&'static Self> {
        let file = path.rsplit('/').next().unwrap_or_default();
        match file.rsplit_once('.') {
            Some((_, ending)) => Self::named(ending),
            None => Self::named(file),
        }
    }

    pub(super) fn is_rust(&self) -> bool {
        has(self.names, "rust")
    }
}

/// Returns true if a list of words separated by spaces contains this word.
pub(super) fn has(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

const fn one_line(mark: &'static str) -> Quote {
    Quote { mark, escapes: true, lines: false }
}

const fn many_lines(mark: &'static str) -> Quote {
    Quote { mark, escapes: true, lines: true }
}

const fn raw(mark: &'static str) -> Quote {
    Quote { mark, escapes: false, lines: true }
}

const SLASHES: Option<(&str, &str)> = Some(("/*", "*/"));

const BASE: Language = Language {
    names: "",
    family: SyntaxFamily::Code,
    line_comments: &["#"],
    block_comment: None,
    quotes: &[one_line("\""), one_line("'")],
    keywords: "",
    values: "true false null",
    attributes: "",
    dollar: false,
    any_case: false,
    types: false,
    shell: false,
};

static ALL: [Language; 26] = [
    Language {
        names: "sh bash shell zsh console shell-session terminal ash dash ksh fish bashrc",
        quotes: &[many_lines("\""), raw("'")],
        keywords: "if then else elif fi for in do done while until case esac function select time return exit \
            break continue local export readonly declare set unset shift trap end switch begin and or \
            not",
        values: "",
        dollar: true,
        shell: true,
        ..BASE
    },
    Language {
        names: "python py python3 py3 pyi",
        quotes: &[many_lines("\"\"\""), many_lines("'''"), one_line("\""), one_line("'")],
        keywords: "and as assert async await break case class continue def del elif else except finally for \
            from global if import in is lambda match nonlocal not or pass raise return try while with \
            yield",
        values: "True False None self cls",
        attributes: "@",
        types: true,
        ..BASE
    },
    Language {
        names: "rust rs",
        line_comments: &["//"],
        block_comment: SLASHES,
        quotes: &[many_lines("\""), one_line("'")],
        keywords: "as async await break const continue crate dyn else enum extern fn for if impl in let loop \
            match mod move mut pub ref return static struct super trait type unsafe use where while bool \
            char str u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64",
        values: "true false self Self None Some Ok Err",
        attributes: "#",
        types: true,
        ..BASE
    },
    Language {
        names: "json jsonc json5 jsonl ndjson webmanifest",
        family: SyntaxFamily::Json,
        line_comments: &["//"],
        block_comment: SLASHES,
        ..BASE
    },
    Language {
        names: "yaml yml",
        family: SyntaxFamily::Yaml,
        values: "true false null yes no on off ~",
        attributes: "&*!",
        ..BASE
    },
    Language {
        names: "toml",
        family: SyntaxFamily::Assignments,
        quotes: &[many_lines("\"\"\""), raw("'''"), one_line("\""), one_line("'")],
        values: "true false inf nan",
        ..BASE
    },
    Language {
        names: "ini conf cfg systemd service timer socket properties env dotenv desktop editorconfig sysctl",
        family: SyntaxFamily::Assignments,
        line_comments: &["#", ";"],
        quotes: &[one_line("\"")],
        values: "true false yes no on off",
        dollar: true,
        ..BASE
    },
    Language {
        names: "sql psql mysql sqlite postgres postgresql plpgsql",
        line_comments: &["--"],
        block_comment: SLASHES,
        quotes: &[many_lines("'"), one_line("\"")],
        keywords: "select from where and or not in is like between join left right inner outer full cross on \
            using group by order having limit offset insert into values update set delete create alter \
            drop table index view database schema primary key foreign references unique default \
            constraint check union all distinct as with case when then else end begin commit rollback \
            transaction grant revoke explain analyze vacuum exists returning asc desc if cascade add \
            column to int integer bigint text varchar boolean timestamp date numeric serial jsonb uuid",
        any_case: true,
        ..BASE
    },
    Language {
        names: "go golang",
        line_comments: &["//"],
        block_comment: SLASHES,
        quotes: &[one_line("\""), raw("`"), one_line("'")],
        keywords: "break case chan const continue default defer else fallthrough for func go goto if import \
            interface map package range return select struct switch type var string int int32 int64 uint \
            byte rune bool error float64 any",
        values: "true false nil iota",
        types: true,
        ..BASE
    },
    Language {
        names: "javascript js jsx mjs cjs typescript ts tsx node",
        line_comments: &["//"],
        block_comment: SLASHES,
        quotes: &[one_line("\""), one_line("'"), many_lines("`")],
        keywords: "as async await break case catch class const continue debugger default delete do else enum \
            export extends finally for from function if implements import in instanceof interface let \
            new of private protected public readonly return static super switch throw try type typeof \
            var void while yield string number boolean",
        values: "true false null undefined this NaN",
        attributes: "@",
        types: true,
        ..BASE
    },
    Language {
        names: "c h cpp cc cxx c++ hpp hh objc m",
        line_comments: &["//"],
        block_comment: SLASHES,
        keywords: "auto break case catch char class const constexpr continue default delete do double else enum \
            explicit extern float for goto if inline int long namespace new operator private protected \
            public register return short signed sizeof static struct switch template throw try typedef \
            typename union unsigned using virtual void volatile while bool size_t",
        values: "true false NULL nullptr this",
        attributes: "#",
        types: true,
        ..BASE
    },
    Language {
        names: "java kotlin kt kts scala groovy gradle csharp cs c# swift dart",
        line_comments: &["//"],
        block_comment: SLASHES,
        quotes: &[many_lines("\"\"\""), one_line("\""), one_line("'")],
        keywords: "abstract as async await boolean break case catch class const continue def default do double \
            else enum extends final finally for fun func guard if implements import in instanceof int \
            interface is let long namespace new object override package private protected public record \
            return sealed static string struct super switch synchronized throw throws trait try using \
            val var void when while",
        values: "true false null nil this self",
        attributes: "@",
        types: true,
        ..BASE
    },
    Language {
        names: "dockerfile docker containerfile",
        family: SyntaxFamily::Directives,
        keywords: "AS",
        dollar: true,
        ..BASE
    },
    Language {
        names: "nginx nginxconf caddyfile caddy apache apacheconf haproxy sshconfig ssh_config ssh-config \
            sshd_config hosts fstab crontab",
        family: SyntaxFamily::Directives,
        quotes: &[one_line("\"")],
        values: "on off yes no true false",
        dollar: true,
        ..BASE
    },
    Language {
        names: "diff patch",
        family: SyntaxFamily::Diff,
        line_comments: &[],
        quotes: &[],
        values: "",
        ..BASE
    },
    Language {
        names: "terraform tf hcl tfvars nomad",
        line_comments: &["#", "//"],
        block_comment: SLASHES,
        quotes: &[one_line("\"")],
        keywords: "resource data variable output module provider terraform locals for in if backend dynamic \
            moved import",
        ..BASE
    },
    Language {
        names: "makefile make mk gnumakefile just justfile",
        keywords: "ifeq ifneq ifdef ifndef else endif include define endef export",
        attributes: ".",
        dollar: true,
        ..BASE
    },
    Language {
        names: "ruby rb gemfile rakefile vagrantfile elixir ex exs puppet pp",
        keywords: "alias and begin break case class def defmodule do else elsif end ensure for if in include \
            module next not or require rescue return self super then undef unless until when while yield",
        values: "true false nil",
        attributes: "@",
        types: true,
        ..BASE
    },
    Language {
        names: "php",
        line_comments: &["//", "#"],
        block_comment: SLASHES,
        keywords: "abstract as break case catch class const continue declare default do echo else elseif \
            extends final fn for foreach function if implements interface match namespace new private \
            protected public require return static switch throw trait try use var while",
        dollar: true,
        types: true,
        ..BASE
    },
    Language {
        names: "perl pl pm awk r",
        keywords: "my our local sub use package if elsif else unless while until for foreach return last next \
            print printf BEGIN END function in repeat require",
        values: "TRUE FALSE NULL NA undef",
        dollar: true,
        ..BASE
    },
    Language {
        names: "lua haskell hs ada",
        line_comments: &["--"],
        block_comment: Some(("--[[", "]]")),
        keywords: "and break case class data do else elseif end for function goto if import in instance let \
            local module not of or repeat return then type until where while",
        values: "true false nil True False",
        types: true,
        ..BASE
    },
    Language {
        names: "powershell ps1 pwsh psm1",
        block_comment: Some(("<#", "#>")),
        keywords: "begin break catch class continue do else elseif end exit finally for foreach function if in \
            param process return switch throw try until while",
        dollar: true,
        any_case: true,
        ..BASE
    },
    Language {
        names: "html xml svg xhtml vue plist",
        line_comments: &[],
        block_comment: Some(("<!--", "-->")),
        quotes: &[one_line("\"")],
        values: "",
        attributes: "<&",
        ..BASE
    },
    Language {
        names: "css scss less sass",
        line_comments: &["//"],
        block_comment: SLASHES,
        values: "none auto inherit initial",
        attributes: "@.#",
        ..BASE
    },
    Language {
        names: "proto graphql gql thrift zig nix",
        line_comments: &["//", "#"],
        block_comment: SLASHES,
        keywords: "syntax package import message service rpc returns enum repeated optional oneof map query \
            mutation type input interface fragment on const var fn pub return if else while for struct \
            let in with inherit rec",
        types: true,
        ..BASE
    },
    Language {
        names: "prometheus promql logql log jq",
        keywords: "by on without sum rate avg max min count ERROR WARN INFO DEBUG",
        ..BASE
    },
];
