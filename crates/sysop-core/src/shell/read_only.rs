//! Programs that only look, and the options with which they only look. An allow-list: what is not here changes.
//!
//! Repositories: `git status`, `diff`, `show` and others may run programs that the repository's own configuration
//! names (`core.fsmonitor`, `textconv`, filters). They count as read-only in the repository one is in, because its
//! configuration does not travel with a clone; with `-C`, `--git-dir`, or after `cd`, they do not.

use super::lexer::Word;
use super::options::{Parsed, Until, parse};
use super::sed;

/// What operands a program may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operands {
    Any,
    /// Any, and no option of the program does harm, so that even `*` may stand for one.
    Anything,
    Max(usize),
    /// Each starts with this character.
    Starting(char),
}

struct Rule {
    names: &'static [&'static str],
    options: &'static str,
    operands: Operands,
}

const fn rule(names: &'static [&'static str], options: &'static str, operands: Operands) -> Rule {
    Rule { names, options, operands }
}

const RULES: &[Rule] = &[
    rule(
        &["ls", "dir", "vdir"],
        "-aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1 -ITw: --all --almost-all --author --block-size= --classify? --color? \
         --directory --file-type --format= --full-time --group-directories-first --no-group --human-readable --si \
         --dereference --inode --ignore= --hide= --numeric-uid-gid --literal --recursive --reverse --size --sort= \
         --time= --time-style= --width= --zero --context --indicator-style= --hyperlink?",
        Operands::Anything,
    ),
    rule(
        &["cat", "tac"],
        "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs --show-nonprinting",
        Operands::Anything,
    ),
    rule(&["head"], "-qvz -nc: -# --lines= --bytes= --quiet --silent --verbose", Operands::Anything),
    rule(
        &["tail"],
        "-fFqvzr -ncs: -# --lines= --bytes= --follow? --quiet --silent --verbose --pid= --retry --sleep-interval=",
        Operands::Anything,
    ),
    rule(&["wc"], "-clmLw --bytes --chars --lines --words --max-line-length", Operands::Anything),
    rule(&["nl"], "-p -bdfhilnsvw: --body-numbering= --number-width= --starting-line-number=", Operands::Any),
    rule(
        &["grep", "egrep", "fgrep", "zgrep"],
        "-abcEFGhHiIlLnoPqrRsTUvVwxyzZ -ABCefmDd: -# --regexp= --file= --ignore-case --no-ignore-case --invert-match \
         --word-regexp --line-regexp --count --color? --colour? --files-without-match --files-with-matches \
         --max-count= --only-matching --quiet --silent --no-messages --byte-offset --with-filename --no-filename \
         --line-number --initial-tab --null --null-data --after-context= --before-context= --context= --text \
         --binary-files= --devices= --directories= --exclude= --exclude-from= --exclude-dir= --include= --recursive \
         --dereference-recursive --extended-regexp --fixed-strings --basic-regexp --perl-regexp --line-buffered",
        Operands::Any,
    ),
    rule(
        &["rg"],
        "-aciFhHIlLnNopPqsSuUvVwx0 -ABCefgjmMrtT: --regexp= --file= --ignore-case --smart-case --case-sensitive \
         --count --count-matches --files --files-with-matches --files-without-match --fixed-strings --glob= --iglob= \
         --hidden --no-ignore --no-ignore-vcs --line-number --no-line-number --max-count= --max-depth= --multiline \
         --only-matching --pcre2 --quiet --type= --type-not= --type-list --unrestricted --invert-match --word-regexp \
         --line-regexp --after-context= --before-context= --context= --color= --heading --no-heading --json --null \
         --sort= --sortr= --stats --text --trim --vimgrep --with-filename --no-filename --column --no-messages \
         --max-columns= --max-filesize= --follow --no-config --debug --passthru --replace=",
        Operands::Any,
    ),
    rule(
        &["stat"],
        "-LftxFlnqrs -c: --dereference --file-system --format= --printf= --terse --cached=",
        Operands::Anything,
    ),
    rule(
        &["file"],
        "-bikLhNnprsvzZ0 -fFPe: --brief --mime --mime-type --mime-encoding --dereference --no-dereference --raw",
        Operands::Any,
    ),
    rule(
        &["du"],
        "-0abcDhHklLmPsSx -BdXt: --all --apparent-size --bytes --total --max-depth= --human-readable --si --summarize \
         --separate-dirs --one-file-system --exclude= --exclude-from= --threshold= --time? --inodes --block-size= \
         --dereference --null",
        Operands::Anything,
    ),
    rule(
        &["df"],
        "-aBhHiklPTv -tx: --all --human-readable --si --inodes --local --portability --total --type= --exclude-type= \
         --print-type --output? --block-size= --sync",
        Operands::Any,
    ),
    rule(
        &["free"],
        "-bkmghtlwvV -sc: --bytes --kilo --mega --giga --human --si --total --wide --lohi",
        Operands::Max(0),
    ),
    rule(&["uptime"], "-psV --pretty --since", Operands::Max(0)),
    rule(
        &["uname", "arch"],
        "-asnrvmpio --all --kernel-name --nodename --kernel-release --kernel-version --machine --processor \
         --hardware-platform --operating-system",
        Operands::Max(0),
    ),
    rule(&["nproc"], "--all --ignore=", Operands::Max(0)),
    rule(&["id"], "-agGnruzZ --group --groups --name --real --user --zero --context", Operands::Any),
    rule(&["whoami", "logname", "tty", "true", "false", ":"], "", Operands::Any),
    rule(&["groups", "pwd", "users"], "-LP", Operands::Any),
    rule(
        &["hostname"],
        "-adfiIsy --all-fqdns --all-ip-addresses --fqdn --ip-address --long --short --domain",
        Operands::Max(0),
    ),
    rule(
        &["date"],
        "-uRj -dr: -I? --date= --utc --universal --rfc-email --rfc-3339= --iso-8601? --reference=",
        Operands::Starting('+'),
    ),
    rule(&["cal", "ncal"], "-13jmsy -AB:", Operands::Any),
    rule(
        &["pgrep"],
        "-acflnovwxi -dgGPstuUF: --list-name --list-full --full --newest --oldest --exact --count --parent= --euid= \
         --uid= --terminal= --delimiter= --ignore-case --inverse",
        Operands::Any,
    ),
    rule(&["pidof"], "-csx -o:", Operands::Any),
    rule(&["pstree"], "-aAcghlnNpsStTuUZ -H:", Operands::Any),
    rule(
        &["ss"],
        "-hVnralopemitusSxdwM460OHbZzTQ -fA: --numeric --resolve --all --listening --options --extended --memory \
         --processes --info --tcp --udp --raw --unix --summary --ipv4 --ipv6 --no-header --oneline --family= --query=",
        Operands::Any,
    ),
    rule(&["netstat"], "-aceghilMnNoprsStuvWwxlC46", Operands::Max(0)),
    rule(&["arp"], "-an", Operands::Max(0)),
    rule(&["ifconfig"], "-as", Operands::Max(0)),
    rule(&["route"], "-neCFv46", Operands::Max(0)),
    rule(&["env"], "-0 --null", Operands::Max(0)),
    rule(&["printenv"], "-0 --null", Operands::Any),
    rule(&["which"], "-as --all", Operands::Any),
    rule(&["type"], "-afptP", Operands::Any),
    rule(&["whereis"], "-bmsu", Operands::Any),
    rule(&["sleep"], "", Operands::Any),
    rule(
        &["sort"],
        "-bcCdfghiMmnRrsuVz -ktS: --key= --field-separator= --reverse --numeric-sort --human-numeric-sort --unique \
         --version-sort --ignore-case --ignore-leading-blanks --month-sort --general-numeric-sort --stable \
         --zero-terminated --check? --merge --random-sort --dictionary-order --parallel= --buffer-size=",
        Operands::Any,
    ),
    rule(
        &["uniq"],
        "-cdDiuz -fsw: --count --repeated --unique --ignore-case --skip-fields= --skip-chars= --check-chars= \
         --all-repeated? --group? --zero-terminated",
        Operands::Max(1),
    ),
    rule(
        &["cut"],
        "-nsz -bcdf: --bytes= --characters= --delimiter= --fields= --complement --only-delimited --output-delimiter= \
         --zero-terminated",
        Operands::Any,
    ),
    rule(&["tr"], "-cCdst --complement --delete --squeeze-repeats --truncate-set1", Operands::Any),
    rule(&["paste"], "-sz -d: --delimiters= --serial", Operands::Any),
    rule(&["join"], "-i -aejotv12: --ignore-case --header", Operands::Any),
    rule(&["comm"], "-123z --total --output-delimiter= --nocheck-order --check-order", Operands::Any),
    rule(&["fold", "fmt"], "-bs -w: --width= --spaces", Operands::Any),
    rule(&["expand", "unexpand"], "-ai -t: --tabs=", Operands::Any),
    rule(
        &["column"],
        "-tnxe -scoNRH: --table --separator= --output-separator= --json --table-columns=",
        Operands::Any,
    ),
    rule(&["rev", "zcat", "bzcat", "xzcat", "zstdcat", "gzcat"], "", Operands::Any),
    rule(&["seq"], "-w -fs: --format= --separator= --equal-width", Operands::Any),
    rule(&["basename"], "-az -s: --multiple --suffix= --zero", Operands::Any),
    rule(&["dirname"], "-z --zero", Operands::Any),
    rule(
        &["realpath"],
        "-emLPqsz --canonicalize-existing --canonicalize-missing --relative-to= --relative-base= --quiet",
        Operands::Any,
    ),
    rule(
        &["readlink"],
        "-efmnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline",
        Operands::Any,
    ),
    rule(
        &[
            "md5sum",
            "sha1sum",
            "sha224sum",
            "sha256sum",
            "sha384sum",
            "sha512sum",
            "b2sum",
            "cksum",
            "shasum",
            "md5",
        ],
        "-bctwzqr -a: --check --binary --text --quiet --status --strict --warn --ignore-missing --tag --zero",
        Operands::Anything,
    ),
    rule(
        &["diff"],
        "-abBcdeEiNnpqrstTuwyZ -CUIxXFW: -# --brief --report-identical-files --unified? --context? --side-by-side \
         --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-case --recursive --new-file --text \
         --color? --exclude= --strip-trailing-cr --suppress-common-lines --width= --ignore-matching-lines=",
        Operands::Any,
    ),
    rule(
        &["cmp"],
        "-bls -in: --print-bytes --silent --quiet --verbose --bytes= --ignore-initial=",
        Operands::Any,
    ),
    rule(
        &["od", "hexdump", "hd"],
        "-abcCdfhilosvxX -AjNtwSne: --skip-bytes= --read-bytes= --format= --canonical --length=",
        Operands::Any,
    ),
    rule(&["strings"], "-afwo -nteT: --all --bytes= --radix=", Operands::Any),
    rule(
        &["jq"],
        "-acCeMnrRsSj --raw-output --compact-output --null-input --raw-input --slurp --sort-keys --exit-status \
         --color-output --monochrome-output --ascii-output --join-output --tab --args --jsonargs -# --indent=",
        Operands::Any,
    ),
    rule(
        &["tree"],
        "-adfghilnpqrstuvxACDFJNQSUX -LPI: --du --dirsfirst --noreport --prune --gitignore --si",
        Operands::Any,
    ),
    rule(
        &["lsblk"],
        "-abdefilmnpOrstSTzAJPD -oIxEM: --all --bytes --fs --json --list --output= --paths --topology --nodeps --noheadings --tree?",
        Operands::Any,
    ),
    rule(&["blkid"], "-ikl -stouLUnO:", Operands::Any),
    rule(
        &["findmnt"],
        "-abcDefiklnPruvJAR -oOtSTMd: --all --json --list --output= --real --df --types= --target= --source= --noheadings",
        Operands::Any,
    ),
    rule(
        &["lscpu", "lsmem", "lsns", "lsipc", "lslocks"],
        "-aJbceprxySTn -so: --json --extended? --parse? --all --output=",
        Operands::Max(0),
    ),
    rule(&["lspci", "lsusb"], "-vntkmDbx -sd:", Operands::Max(0)),
    rule(&["lsmod", "w", "who", "vmstat", "iostat", "mpstat"], "-abdfhHilmnopqrstuwxyzNkP", Operands::Any),
    rule(&["lsof"], "-abhlnNoPRtUVXw -cdgpu: -i?", Operands::Any),
    rule(
        &["last", "lastb", "lastlog"],
        "-adFiRwx -nstpub: -# --limit= --since= --until= --fulltimes",
        Operands::Any,
    ),
    rule(
        &["dmesg"],
        "-deHkLPrStTuxw -fl: --human --ctime --level= --facility= --kernel --userspace --follow --color? --decode --nopager --reltime --since= --until=",
        Operands::Max(0),
    ),
    rule(&["getent"], "", Operands::Any),
    rule(&["locale", "lsattr"], "-adRv", Operands::Any),
    rule(
        &["pvs", "vgs", "lvs", "pvdisplay", "vgdisplay", "lvdisplay", "pvscan"],
        "-avm -oOSs: --units= --noheadings --all --options=",
        Operands::Any,
    ),
    rule(&["ulimit"], "-aSHcdefilmnpqrstuvxT", Operands::Max(0)),
    rule(&["cd"], "-LPe", Operands::Max(1)),
    rule(&["apt-cache"], "", Operands::Any),
    rule(
        &["dpkg"],
        "-lLsS --list --listfiles --status --search --print-architecture --get-selections --print-foreign-architectures --verify",
        Operands::Any,
    ),
    rule(
        &["dpkg-query"],
        "-lLsSW -f: --list --listfiles --status --search --show --showformat=",
        Operands::Any,
    ),
    rule(&["crontab"], "-l -u:", Operands::Max(0)),
];

/// Subcommands that only look: program, options before the subcommand, then each with its own options.
struct Group {
    program: &'static str,
    before: &'static str,
    subcommands: &'static [(&'static str, &'static str)],
}

const GIT_LOG: &str = "-pusznwbiEFPRrtcmgMCB -nUSGLl: -# --oneline --stat? --shortstat --numstat --name-only --name-status --graph \
     --all --decorate? --no-decorate --format= --pretty? --abbrev-commit --abbrev? --patch --no-patch --author= \
     --grep= --since= --until= --after= --before= --max-count= --skip= --reverse --follow --merges --no-merges \
     --first-parent --branches? --tags? --remotes? --date= --color? --no-color --no-ext-diff --no-textconv --cached \
     --staged --summary --unified= --word-diff? --ignore-all-space --ignore-space-change --exit-code --quiet --raw \
     --diff-filter= --find-renames? --no-renames --minimal --histogram --no-prefix --merge-base --topo-order \
     --date-order --left-right --cherry-pick --relative-date --compact-summary --dirstat? --check";

const GROUPS: &[Group] = &[
    Group {
        program: "git",
        before: "-P --no-pager --no-optional-locks --literal-pathspecs",
        subcommands: &[
            (
                "status",
                "-sbvuz -u? --short --branch --long --porcelain? --untracked-files? --ignored? --show-stash --ahead-behind --renames --verbose --no-renames --column?",
            ),
            ("log", GIT_LOG),
            ("show", GIT_LOG),
            ("diff", GIT_LOG),
            ("shortlog", "-sneg --numbered --summary --email"),
            (
                "rev-parse",
                "--abbrev-ref? --short? --show-toplevel --show-prefix --git-dir --is-inside-work-tree --verify --symbolic-full-name --all --show-cdup --git-common-dir --is-bare-repository --quiet -q",
            ),
            (
                "rev-list",
                "-n: -# --count --all --max-count= --since= --until= --left-right --no-merges --merges --first-parent --reverse --oneline",
            ),
            (
                "ls-files",
                "-cdkmostuvz -xX: --cached --deleted --modified --others --ignored --stage --unmerged --exclude= --exclude-standard --error-unmatch --full-name",
            ),
            ("ls-tree", "-drtlz --name-only --name-status --full-name --full-tree --long"),
            (
                "blame",
                "-bcefhlnpstwMC -L: --date= --porcelain --line-porcelain --show-email --show-name --root",
            ),
            ("describe", "--all --tags --long --always --dirty? --abbrev= --match= --exact-match --contains"),
            (
                "branch",
                "-alrv --list --all --remotes --verbose --show-current --contains? --merged? --no-merged? --sort= --format= --color? --no-color",
            ),
            ("tag", "-ln --list --sort= --format= --contains? --merged? --points-at="),
            ("remote", "-v --verbose"),
            ("stash list", "-p --oneline --stat"),
            ("worktree list", "-vz --porcelain --verbose"),
            ("cat-file", "-tsep"),
            ("merge-base", "-a --all --is-ancestor --octopus"),
            ("reflog", "-n: -# --oneline --date="),
            ("config --get", "--all --global --local --system"),
            ("config --list", "--global --local --system --show-origin --show-scope"),
            ("config -l", "--global --local --system --show-origin"),
            ("count-objects", "-vH --verbose --human-readable"),
            ("version", ""),
        ],
    },
    Group {
        program: "systemctl",
        before: "-alqrPn -tpn: --no-pager --user --system --all --full --quiet --failed --type= --state= --plain --no-legend --property= --value --lines=",
        subcommands: &[
            ("status", SYSTEMCTL),
            ("show", SYSTEMCTL),
            ("cat", SYSTEMCTL),
            ("is-active", SYSTEMCTL),
            ("is-enabled", SYSTEMCTL),
            ("is-failed", SYSTEMCTL),
            ("is-system-running", SYSTEMCTL),
            ("list-units", SYSTEMCTL),
            ("list-unit-files", SYSTEMCTL),
            ("list-timers", SYSTEMCTL),
            ("list-sockets", SYSTEMCTL),
            ("list-dependencies", SYSTEMCTL),
            ("list-jobs", SYSTEMCTL),
            ("get-default", SYSTEMCTL),
        ],
    },
    Group { program: "docker", before: "", subcommands: DOCKER },
    Group { program: "podman", before: "", subcommands: DOCKER },
    Group {
        program: "kubectl",
        before: "-n: --namespace= --context= --cluster=",
        subcommands: &[
            ("get", KUBECTL),
            ("describe", KUBECTL),
            (
                "logs",
                "-fp -cnl: --follow --previous --tail= --since= --since-time= --timestamps --container= --namespace= --selector= --all-containers --prefix --context=",
            ),
            ("top", KUBECTL),
            ("version", "-o: --client --output="),
            ("api-resources", "-o: --namespaced? --output="),
            ("api-versions", ""),
            ("explain", "--recursive --api-version="),
            ("cluster-info", ""),
            ("config current-context", ""),
            ("config get-contexts", "-o:"),
            ("events", KUBECTL),
        ],
    },
    Group {
        program: "apt",
        before: "",
        subcommands: &[
            ("list", "-a --installed --upgradable --upgradeable --all-versions"),
            ("show", "-a --all-versions"),
            ("policy", ""),
            ("search", "--names-only --full -n"),
            ("depends", ""),
            ("rdepends", ""),
        ],
    },
    Group {
        program: "timedatectl",
        before: "--no-pager",
        subcommands: &[
            ("status", ""),
            ("show", "-ap:"),
            ("list-timezones", "--no-pager"),
            ("timesync-status", ""),
        ],
    },
    Group { program: "hostnamectl", before: "--no-pager", subcommands: &[("status", "--no-pager")] },
    Group {
        program: "loginctl",
        before: "--no-pager",
        subcommands: &[
            ("list-sessions", ""),
            ("list-users", ""),
            ("show-session", "-p:"),
            ("session-status", ""),
        ],
    },
    Group { program: "resolvectl", before: "--no-pager", subcommands: &[("status", ""), ("dns", "")] },
    Group { program: "networkctl", before: "--no-pager", subcommands: &[("status", "-a"), ("list", "")] },
    Group { program: "ufw", before: "", subcommands: &[("status", "")] },
    Group { program: "nft", before: "-anjs", subcommands: &[("list", "")] },
    Group {
        program: "zpool",
        before: "",
        subcommands: &[("status", "-vxLPD"), ("list", "-Hpv -o:"), ("history", "-il"), ("iostat", "-v")],
    },
    Group { program: "zfs", before: "", subcommands: &[("list", "-Hpr -otds:"), ("get", "-Hpr -ots:")] },
    Group { program: "snap", before: "", subcommands: &[("list", "--all"), ("info", ""), ("version", "")] },
    Group { program: "tmux", before: "", subcommands: &[("ls", ""), ("list-sessions", "")] },
    Group { program: "netplan", before: "", subcommands: &[("get", ""), ("status", "-a")] },
];

const SYSTEMCTL: &str = "-alqrP -tpnosu: --no-pager --user --system --all --full --quiet --failed --type= --state= --plain \
     --no-legend --property= --value --lines= --output= --reverse --recursive --legend=";

const DOCKER: &[(&str, &str)] = &[
    ("ps", "-aqsl -fn: --all --quiet --filter= --format= --no-trunc --size --latest --last="),
    ("images", "-aq -f: --all --quiet --filter= --format= --no-trunc --digests --tree"),
    ("logs", "-ft -n: --follow --tail= --since= --until= --timestamps --details"),
    ("inspect", "-s -f: --format= --size --type="),
    ("stats", "-a --no-stream --all --format= --no-trunc"),
    ("version", "-f: --format="),
    ("info", "-f: --format="),
    ("top", ""),
    ("port", ""),
    ("diff", ""),
    ("history", "-Hq --no-trunc --quiet --format= --human"),
    ("events", "-f: --since= --until= --filter= --format="),
    ("container ls", "-aqs -fn: --all --quiet --filter= --format= --no-trunc"),
    ("container inspect", "-s -f: --format="),
    ("image ls", "-aq -f: --all --quiet --filter= --format="),
    ("image inspect", "-f: --format="),
    ("network ls", "-q -f: --filter= --format= --no-trunc --quiet"),
    ("network inspect", "-v -f: --format="),
    ("volume ls", "-q -f: --filter= --format= --quiet"),
    ("volume inspect", "-f: --format="),
    ("system df", "-v --verbose --format="),
    ("context ls", "-q --format="),
    ("compose ps", "-aq --all --quiet --format= --services --filter= --status="),
    ("compose logs", "-ft -n: --follow --tail= --since= --until= --timestamps --no-color --no-log-prefix"),
    ("compose ls", "-aq --all --quiet --format= --filter="),
    ("compose version", ""),
];

const KUBECTL: &str = "-Aw -nolLR: --namespace= --all-namespaces --output= --selector= --watch --show-labels --label-columns= \
     --sort-by= --field-selector= --no-headers --context= --containers --for= --types= --ignore-not-found";

/// Programs whose `--version` and `--help` do nothing else.
const VERSIONED: &[&str] = &[
    "git",
    "cargo",
    "rustc",
    "rustup",
    "python",
    "python3",
    "pip",
    "pip3",
    "node",
    "npm",
    "deno",
    "bun",
    "go",
    "java",
    "javac",
    "ruby",
    "gem",
    "perl",
    "php",
    "lua",
    "gcc",
    "g++",
    "cc",
    "clang",
    "make",
    "cmake",
    "ninja",
    "ld",
    "gdb",
    "bash",
    "sh",
    "zsh",
    "fish",
    "dash",
    "tmux",
    "vim",
    "nano",
    "curl",
    "wget",
    "ssh",
    "rsync",
    "tar",
    "gzip",
    "zip",
    "unzip",
    "docker",
    "podman",
    "kubectl",
    "helm",
    "terraform",
    "ansible",
    "systemctl",
    "journalctl",
    "apt",
    "apt-get",
    "dnf",
    "yum",
    "rpm",
    "dpkg",
    "snap",
    "flatpak",
    "brew",
    "pacman",
    "nginx",
    "apache2",
    "psql",
    "mysql",
    "sqlite3",
    "redis-cli",
    "ffmpeg",
    "ls",
    "cat",
    "grep",
    "rg",
    "find",
    "sed",
    "awk",
    "gawk",
    "jq",
    "sort",
    "sudo",
    "openssl",
    "ip",
    "ss",
    "ps",
    "sysop",
];

/// Whether this command, its words being what will run, is known only to look.
pub(super) fn is_read_only(name: &str, words: &[Word], moved: bool) -> bool {
    let Some((_, arguments)) = words.split_first() else { return false };
    let plain = |word: &Word| !word.expands && !word.brace && !word.ansi && !word.odd && !word.history;
    if !words.iter().all(plain) {
        return false;
    }
    if let [only] = arguments
        && matches!(only.literal(), Some("--version" | "--help"))
        && VERSIONED.contains(&name)
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
        "ps" => arguments.iter().all(|word| is_simple(word)),
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
    let Some(parsed) = parse(options, arguments, Until::End) else { return false };
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

fn is_subcommand(group: &Group, arguments: &[Word]) -> bool {
    let Some(before) = parse(group.before, arguments, Until::FirstOperand) else { return false };
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
    let Some(parsed) = rest.get(used..).and_then(|rest| parse(options, rest, Until::End)) else {
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
    const FLAGS: &[&str] = &[
        "-print",
        "-print0",
        "-ls",
        "-prune",
        "-empty",
        "-depth",
        "-mount",
        "-xdev",
        "-follow",
        "-daystart",
        "-true",
        "-false",
        "-not",
        "-a",
        "-o",
        "-and",
        "-or",
        "-readable",
        "-writable",
        "-executable",
        "-nouser",
        "-nogroup",
        "-noleaf",
        "-L",
        "-P",
        "-H",
        "!",
        "(",
        ")",
        ",",
        "-quit",
        "-warn",
        "-nowarn",
    ];
    const VALUED: &[&str] = &[
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-regex",
        "-iregex",
        "-regextype",
        "-type",
        "-xtype",
        "-size",
        "-mtime",
        "-atime",
        "-ctime",
        "-mmin",
        "-amin",
        "-cmin",
        "-newer",
        "-anewer",
        "-cnewer",
        "-newermt",
        "-newerct",
        "-user",
        "-group",
        "-uid",
        "-gid",
        "-perm",
        "-maxdepth",
        "-mindepth",
        "-links",
        "-inum",
        "-samefile",
        "-lname",
        "-ilname",
        "-printf",
        "-fstype",
        "-used",
    ];
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.text();
        if VALUED.contains(&text) {
            if words.next().is_none_or(|value| value.glob) {
                return false;
            }
        } else if text.starts_with('-') && !FLAGS.contains(&text) || word.may_be_option() {
            return false;
        }
    }
    true
}

fn is_sed(arguments: &[Word]) -> bool {
    let list = "-nErsuz -e: --quiet --silent --expression= --regexp-extended --null-data --separate";
    let Some(parsed) = parse(list, arguments, Until::End) else { return false };
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
    !files.any(|word| word.may_be_option()) && sed::only_edits(&scripts.join("\n"))
}

fn is_top(arguments: &[Word]) -> bool {
    let Some(parsed) = parse("-bcHiSs1 -nduUpowE:", arguments, Until::End) else { return false };
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
    arguments.iter().all(|word| !word.glob) && parse(list, arguments, Until::End).is_some()
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
    let Some(parsed) = parse("-aAbeNnr --all --names --values --ignore", arguments, Until::End) else {
        return false;
    };
    parsed.operands.iter().all(|word| is_simple(word) && !word.text().contains('='))
}

fn is_iptables(arguments: &[Word]) -> bool {
    let list = "-LSnvx -t: --list --list-rules --numeric --verbose --exact --line-numbers --table=";
    let Some(parsed) = parse(list, arguments, Until::End) else { return false };
    let lists = ["L", "S", "list", "list-rules"].iter().any(|name| parsed.has(name));
    lists && parsed.operands.len() <= 2 && parsed.operands.iter().all(|word| is_simple(word))
}

fn is_firewall(arguments: &[Word]) -> bool {
    let list = "--state --list-all --list-all-zones --get-zones --get-active-zones --get-default-zone --list-ports --list-services \
         --list-rich-rules --get-services --zone= --permanent";
    parse(list, arguments, Until::End).is_some_and(|parsed: Parsed<'_>| parsed.operands.is_empty())
}
