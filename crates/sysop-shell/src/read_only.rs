//! Programs that only look, and the options with which they only look. An allow-list: what is not here changes.
//!
//! Repositories: `git status`, `diff`, `show` and others may run programs that the repository's own configuration
//! names (`core.fsmonitor`, `textconv`, filters). They count as read-only in the repository one is in, because its
//! configuration does not travel with a clone; with `-C`, `--git-dir`, or after `cd`, they do not.

mod table;

use table::{GROUPS, Operands, RULES, SubcommandGroup, VERSIONED};

use super::lexer::Word;
use super::options::{ParsedOptions, StopPoint, is_listed, parse};
use super::sed;

/// Whether this command, its words being what will run, is known only to look.
pub(super) fn is_read_only(name: &str, words: &[Word], moved: bool) -> bool {
    let Some((_, arguments)) = words.split_first() else { return false };
    let plain = |word: &Word| !word.expands && !word.brace && !word.ansi && !word.odd && !word.history;
    if !words.iter().all(plain) {
        return false;
    }
    if let [only] = arguments
        && matches!(only.literal(), Some("--version" | "--help"))
        && is_listed(VERSIONED, name)
    {
        return true;
    }
    if let Some(rule) = RULES.iter().find(|rule| rule.names.contains(&name)) {
        let asked = match name {
            "apt-cache" => is_apt_cache(arguments),
            "crontab" => arguments.iter().any(|word| word.text() == "-l"),
            _ => true,
        };
        return asked && fits(rule.options, rule.operands, arguments);
    }
    if arguments.iter().any(|word| word.glob && word.may_be_option()) {
        return false;
    }
    match name {
        "find" => is_find(arguments),
        "sed" => is_sed(arguments),
        "ps" => arguments.iter().all(is_simple),
        "top" => is_top(arguments),
        "ip" => is_ip(arguments),
        "echo" => true,
        "printf" => arguments.first().is_some_and(|format| !format.text().starts_with('-')),
        "test" => is_test(arguments),
        "[" => arguments.split_last().is_some_and(|(last, inner)| last.text() == "]" && is_test(inner)),
        "journalctl" => is_journalctl(arguments),
        "mount" => arguments.is_empty(),
        "rpm" => is_rpm(arguments),
        "sysctl" => is_sysctl(arguments),
        "iptables" | "ip6tables" => is_iptables(arguments),
        "firewall-cmd" => is_firewall(arguments),
        "timedatectl" | "hostnamectl" | "loginctl" | "networkctl" if arguments.is_empty() => true,
        "git" if moved => false,
        _ => GROUPS.iter().any(|group| group.program == name && is_subcommand(group, arguments)),
    }
}

fn fits(options: &str, operands: Operands, arguments: &[Word]) -> bool {
    let Some(parsed) = parse(options, arguments, StopPoint::End) else { return false };
    let globs_are_safe = operands == Operands::Anything
        || !parsed.operands.iter().any(|word| word.glob && word.may_be_option());
    globs_are_safe
        && match operands {
            Operands::Any | Operands::Anything => true,
            Operands::Max(most) => {
                parsed.operands.len() <= most && parsed.operands.iter().all(|word| !word.glob || most > 1)
            }
            Operands::Starting(first) => parsed.operands.iter().all(|word| word.text().starts_with(first)),
        }
}

fn is_subcommand(group: &SubcommandGroup, arguments: &[Word]) -> bool {
    let Some(before) = parse(group.before, arguments, StopPoint::FirstOperand) else { return false };
    let Some(rest) = arguments.get(before.first_operand..) else { return false };
    let Some(first) = rest.first().and_then(Word::literal) else {
        return group.program == "systemctl" && before.operands.is_empty();
    };
    let second = rest.get(1).and_then(Word::literal);
    let found = group.subcommands.iter().find(|(path, _)| match path.split_once(' ') {
        Some((one, two)) => one == first && second == Some(two),
        None => *path == first,
    });
    let Some((path, options)) = found else { return false };
    let used = path.split(' ').count();
    let Some(parsed) = rest.get(used..).and_then(|rest| parse(options, rest, StopPoint::End)) else {
        return false;
    };
    let operands = parsed.operands.len();
    match (group.program, *path) {
        ("git", "branch" | "tag") => operands == 0 || parsed.has("l") || parsed.has("list"),
        ("git", "remote") => operands == 0,
        ("git", "reflog") => {
            parsed.operands.iter().all(|word| !matches!(word.text(), "expire" | "delete" | "drop" | "write"))
        }
        ("git", "config --get") => operands <= 2,
        ("git", "config --list" | "config -l") => operands == 0,
        ("docker" | "podman", "stats") => parsed.has("no-stream"),
        ("kubectl", "cluster-info") => operands == 0,
        ("git", _) => parsed.operands.iter().all(|word| !word.text().contains("ext::")),
        ("resolvectl", "dns") => operands <= 1,
        _ => true,
    }
}

fn is_apt_cache(arguments: &[Word]) -> bool {
    let subcommand = arguments.first().and_then(Word::literal);
    matches!(
        subcommand,
        Some(
            "show"
                | "showpkg"
                | "search"
                | "policy"
                | "depends"
                | "rdepends"
                | "madison"
                | "pkgnames"
                | "stats"
        )
    )
}

/// Letters, digits and punctuation that no program takes for more than a name, a number or a list.
fn is_simple(word: &Word) -> bool {
    word.literal()
        .is_some_and(|text| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_=,.:%+/@ ".contains(&b)))
}

fn is_find(arguments: &[Word]) -> bool {
    const FLAGS: &str = "-print -print0 -ls -prune -empty -depth -mount -xdev -follow -daystart -true -false -not -a \
        -o -and -or -readable -writable -executable -nouser -nogroup -noleaf -L -P -H ! ( ) , -quit \
        -warn -nowarn";
    const VALUED: &str = "-name -iname -path -ipath -wholename -regex -iregex -regextype -type -xtype -size -mtime \
        -atime -ctime -mmin -amin -cmin -newer -anewer -cnewer -newermt -newerct -user -group -uid \
        -gid -perm -maxdepth -mindepth -links -inum -samefile -lname -ilname -printf -fstype -used";
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.text();
        if is_listed(VALUED, text) {
            if words.next().is_none_or(|value| value.glob) {
                return false;
            }
        } else if text.starts_with('-') && !is_listed(FLAGS, text) || word.may_be_option() {
            return false;
        }
    }
    true
}

fn is_sed(arguments: &[Word]) -> bool {
    let list = "-nErsuz -e: --quiet --silent --expression= --regexp-extended --null-data --separate";
    let Some(parsed) = parse(list, arguments, StopPoint::End) else { return false };
    let mut scripts: Vec<&str> = parsed
        .options
        .iter()
        .filter(|(name, _)| matches!(*name, "e" | "expression"))
        .filter_map(|(_, value)| *value)
        .collect();
    let mut files = parsed.operands.iter();
    if scripts.is_empty() {
        let Some(script) = files.next().and_then(|word| word.literal()) else { return false };
        scripts.push(script);
    }
    !files.any(|word| word.may_be_option()) && sed::only_edits_stream(&scripts.join("\n"))
}

fn is_top(arguments: &[Word]) -> bool {
    let Some(parsed) = parse("-bcHiSs1 -nduUpowE:", arguments, StopPoint::End) else { return false };
    parsed.has("b") && parsed.operands.is_empty()
}

fn is_ip(arguments: &[Word]) -> bool {
    const OBJECTS: &[&str] = &[
        "addr",
        "address",
        "a",
        "link",
        "l",
        "route",
        "r",
        "ro",
        "neigh",
        "neighbour",
        "n",
        "rule",
        "ru",
        "maddr",
    ];
    let is_option = |text: &str| {
        matches!(
            text,
            "-4" | "-6"
                | "-s"
                | "-stats"
                | "-d"
                | "-details"
                | "-br"
                | "-brief"
                | "-c"
                | "-color"
                | "-j"
                | "-json"
                | "-o"
                | "-p"
                | "-pretty"
                | "-h"
                | "-human"
                | "-oneline"
                | "-t"
        )
    };
    if !arguments.iter().all(is_simple) {
        return false;
    }
    let mut words = arguments.iter().map(Word::text).skip_while(|text| is_option(text));
    let Some(object) = words.next().filter(|object| OBJECTS.contains(object)) else { return false };
    match words.next() {
        None | Some("show" | "list" | "ls" | "lst" | "get") => true,
        Some("s" | "sh") => object.starts_with('a'),
        Some(_) => false,
    }
}

fn is_test(arguments: &[Word]) -> bool {
    const COMPARE: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
    let number = |word: Option<&Word>| word.is_some_and(|word| word.text().parse::<i64>().is_ok());
    arguments.iter().enumerate().all(|(index, word)| {
        let text = word.text();
        let compares_numbers = !COMPARE.contains(&text)
            || (index > 0 && number(arguments.get(index - 1)) && number(arguments.get(index + 1)));
        !word.glob && !matches!(text, "-v" | "-R") && compares_numbers
    })
}

fn is_journalctl(arguments: &[Word]) -> bool {
    let list = "-aefklmqrxN -b? -ncpgotuSUFT: --no-pager --unit= --user-unit= --follow --lines? --since= --until= --boot? \
         --priority= --output= --output-fields= --reverse --grep= --case-sensitive? --identifier= --dmesg --all --full \
         --no-full --quiet --catalog --list-boots --disk-usage --utc --system --user --pager-end --header --field= \
         --fields --facility= --no-hostname --no-tail --verify --cursor= --after-cursor=";
    arguments.iter().all(|word| !word.glob) && parse(list, arguments, StopPoint::End).is_some()
}

fn is_rpm(arguments: &[Word]) -> bool {
    let Some((first, rest)) = arguments.split_first() else { return false };
    let first = first.text();
    let letters =
        first.strip_prefix("-q").is_some_and(|letters| letters.chars().all(|c| "ailfcdRs".contains(c)));
    letters
        && rest.iter().all(|word| {
            let text = word.text();
            !word.glob
                && !text.contains('%')
                && (!text.starts_with('-')
                    || matches!(text, "--last" | "--changelog" | "--scripts" | "-i" | "-l"))
        })
}

fn is_sysctl(arguments: &[Word]) -> bool {
    let Some(parsed) = parse("-aAbeNnr --all --names --values --ignore", arguments, StopPoint::End) else {
        return false;
    };
    parsed.operands.iter().all(|word| is_simple(word) && !word.text().contains('='))
}

fn is_iptables(arguments: &[Word]) -> bool {
    let list = "-LSnvx -t: --list --list-rules --numeric --verbose --exact --line-numbers --table=";
    let Some(parsed) = parse(list, arguments, StopPoint::End) else { return false };
    let lists = ["L", "S", "list", "list-rules"].iter().any(|name| parsed.has(name));
    lists && parsed.operands.len() <= 2 && parsed.operands.iter().all(|word| is_simple(word))
}

fn is_firewall(arguments: &[Word]) -> bool {
    let list = "--state --list-all --list-all-zones --get-zones --get-active-zones --get-default-zone --list-ports --list-services \
         --list-rich-rules --get-services --zone= --permanent";
    parse(list, arguments, StopPoint::End).is_some_and(|parsed: ParsedOptions<'_>| parsed.operands.is_empty())
}
