//! The tables of programs, options and subcommands that only look. Data alone; how to read an option list is told
//! in [`super::super::options`].

/// What operands a program may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    Any,
    /// Any, and no option of the program does harm, so that even `*` may stand for one.
    Anything,
    Max(usize),
    /// Each starts with this character.
    Starting(char),
}

pub(super) struct ProgramRule {
    pub(super) names: &'static [&'static str],
    pub(super) options: &'static str,
    pub(super) operands: Operands,
}

const fn rule(names: &'static [&'static str], options: &'static str, operands: Operands) -> ProgramRule {
    ProgramRule { names, options, operands }
}

pub(super) const RULES: &[ProgramRule] = &[
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
         --word-regexp --line-regexp --count --color? --color? --files-without-match --files-with-matches \
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
pub(super) struct SubcommandGroup {
    pub(super) program: &'static str,
    pub(super) before: &'static str,
    pub(super) subcommands: &'static [(&'static str, &'static str)],
}

const GIT_LOG: &str = "-pusznwbiEFPRrtcmgMCB -nUSGLl: -# --oneline --stat? --shortstat --numstat --name-only --name-status --graph \
     --all --decorate? --no-decorate --format= --pretty? --abbrev-commit --abbrev? --patch --no-patch --author= \
     --grep= --since= --until= --after= --before= --max-count= --skip= --reverse --follow --merges --no-merges \
     --first-parent --branches? --tags? --remotes? --date= --color? --no-color --no-ext-diff --no-textconv --cached \
     --staged --summary --unified= --word-diff? --ignore-all-space --ignore-space-change --exit-code --quiet --raw \
     --diff-filter= --find-renames? --no-renames --minimal --histogram --no-prefix --merge-base --topo-order \
     --date-order --left-right --cherry-pick --relative-date --compact-summary --dirstat? --check";

pub(super) const GROUPS: &[SubcommandGroup] = &[
    SubcommandGroup {
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
    SubcommandGroup {
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
    SubcommandGroup { program: "docker", before: "", subcommands: DOCKER },
    SubcommandGroup { program: "podman", before: "", subcommands: DOCKER },
    SubcommandGroup {
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
    SubcommandGroup {
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
    SubcommandGroup {
        program: "timedatectl",
        before: "--no-pager",
        subcommands: &[
            ("status", ""),
            ("show", "-ap:"),
            ("list-timezones", "--no-pager"),
            ("timesync-status", ""),
        ],
    },
    SubcommandGroup {
        program: "hostnamectl",
        before: "--no-pager",
        subcommands: &[("status", "--no-pager")],
    },
    SubcommandGroup {
        program: "loginctl",
        before: "--no-pager",
        subcommands: &[
            ("list-sessions", ""),
            ("list-users", ""),
            ("show-session", "-p:"),
            ("session-status", ""),
        ],
    },
    SubcommandGroup {
        program: "resolvectl",
        before: "--no-pager",
        subcommands: &[("status", ""), ("dns", "")],
    },
    SubcommandGroup {
        program: "networkctl",
        before: "--no-pager",
        subcommands: &[("status", "-a"), ("list", "")],
    },
    SubcommandGroup { program: "ufw", before: "", subcommands: &[("status", "")] },
    SubcommandGroup { program: "nft", before: "-anjs", subcommands: &[("list", "")] },
    SubcommandGroup {
        program: "zpool",
        before: "",
        subcommands: &[("status", "-vxLPD"), ("list", "-Hpv -o:"), ("history", "-il"), ("iostat", "-v")],
    },
    SubcommandGroup {
        program: "zfs",
        before: "",
        subcommands: &[("list", "-Hpr -otds:"), ("get", "-Hpr -ots:")],
    },
    SubcommandGroup {
        program: "snap",
        before: "",
        subcommands: &[("list", "--all"), ("info", ""), ("version", "")],
    },
    SubcommandGroup { program: "tmux", before: "", subcommands: &[("ls", ""), ("list-sessions", "")] },
    SubcommandGroup { program: "netplan", before: "", subcommands: &[("get", ""), ("status", "-a")] },
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
pub(super) const VERSIONED: &str = "git cargo rustc rustup python python3 pip pip3 node npm deno bun go java javac ruby gem perl \
    php lua gcc g++ cc clang make cmake ninja ld gdb bash sh zsh fish dash tmux vim nano curl \
    wget ssh rsync tar gzip zip unzip docker podman kubectl helm terraform ansible systemctl \
    journalctl apt apt-get dnf yum rpm dpkg snap flatpak brew pacman nginx apache2 psql mysql \
    sqlite3 redis-cli ffmpeg ls cat grep rg find sed awk gawk jq sort sudo openssl ip ss ps \
    sysop";
