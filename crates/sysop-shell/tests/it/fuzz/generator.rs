//! Generates command lines: an everyday command, then mutations that a shell or a program may read as more than it
//! seems.

use sysop_shell::Dialect;

/// Everyday commands, and read-only ones of the review.
const SEEDS: [&str; 2] =
    [include_str!("../../corpora/everyday.txt"), include_str!("../../corpora/review_everyday.txt")];

/// Options and operands that make some program write, run, connect or wait for nothing.
const ARGUMENTS: &[&str] = &[
    "-o P",
    "-oP",
    "--output=P",
    "--output P",
    "--outp=P",
    "-O P",
    "-w",
    "-w P",
    "-i",
    "-I",
    "-c",
    "-C P",
    "-f f",
    "-e",
    "-n",
    "-x",
    "-v",
    "-r",
    "-R",
    "-s",
    "-p",
    "-P",
    "-d",
    "-D",
    "-F x",
    "-z",
    "-t",
    "-T .",
    "-X",
    "-S",
    "-K",
    "-k",
    "-u",
    "-a",
    "-A",
    "--",
    "-",
    "-delete",
    "-exec touch P ;",
    r"-exec touch P \;",
    "-execdir ./be {} +",
    "-ok touch P ;",
    "-fprint P",
    "-fprintf P x",
    "-fls P",
    "--pre ./be",
    "--pre=./be",
    "--hostname-bin=./be",
    "--compress-program=./be",
    "--files0-from=list",
    "--reference=f",
    "--set=1",
    "--in-place",
    "--in-place=.b",
    "--expression=wP",
    "--file=f.sed",
    "--follow",
    "--pid=1",
    "--retry",
    "--ext-diff",
    "--textconv",
    "--no-index",
    "--open-files-in-pager=./be",
    "-O./be",
    "--op=./be",
    "--exec=./be",
    "--upload-pack=./be",
    "--filter=./be",
    "--vacuum-size=1",
    "--rotate",
    "--sync",
    "--flush",
    "--update",
    "--save",
    "--write",
    "--log=P",
    "--color=always",
    "--help",
    "--version",
    "f",
    "a b",
    "*",
    "./*",
    "?",
    "*.log",
    "[a-z]",
    "-*",
    "odd/*",
    "link",
    ".",
    "..",
    "/",
    "~",
    "~/.ssh",
    "/etc",
    "src/",
    "x.tar",
    "list",
    "10.1.2.3",
    "a.example",
    "http://10.1.2.3/",
    "1wP",
    "e",
    "1e",
    "w P",
    "s/o/x/w P",
    "s/o/touch P/e",
    "r f",
    "+%F",
    "@1",
    "1",
    "-1",
    "0",
    "P",
    "'a[$(touch P)]'",
    "a[0]",
    "x=1",
    "%n",
    "%s",
    "$x",
    "$cmd",
    "$opts",
    "\"$opts\"",
    "$sub",
    "${sub}",
    "${x:-f}",
    "${x:=P}",
    "${x:?P}",
    "${cmd@P}",
    "${!sub}",
    "${#sub}",
    "${cmd:$sub}",
    "${sub[0]}",
    "${sub/o/x}",
    "${(e)sub}",
    "${(P)sub}",
    "$((1))",
    "$((sub))",
    "$(($sub))",
    "$[1+1]",
    "$[sub]",
    "$(cat f)",
    "$(touch P)",
    "`touch P`",
    "<(touch P)",
    ">(touch P)",
    "=(touch P)",
    "=ls",
    "{a,b}",
    "{a,-o,P}",
    "{a..c}",
    "*(e:'touch P':)",
    "*(+cmd)",
    "!(f)",
    "!!",
    "!$",
    "^a^b",
    "$'\\x41'",
    "$'\\'' touch P '",
    "$\"x\"",
    "$@",
    "$*",
    "$1",
    "$?",
    "$$",
    "$-",
    "$_",
    "$RANDOM",
    "$HOME",
    "\"$HOME $USER\"",
    "~+",
    "~-",
    "~ada",
    "HEAD",
    "HEAD~1",
    "main..topic",
    "v1",
    "--all",
    "-- f",
];
/// Text that follows or joins a command.
const JOINS: &[&str] = &[
    "; ", " && ", " || ", " | ", " |& ", " & ", "\n", ";", "&&", "|", " &| ", " &! ", " ;; ", " \\\n",
    "\\\n", " # ", "#", " # x\n", " <<E\n",
];
const REDIRECTIONS: &[&str] = &[
    " > P",
    " >> P",
    " 2> P",
    " &> P",
    " >& P",
    " <> P",
    " >| P",
    " >! P",
    " >>| P",
    " 1>P",
    " < f",
    " < P",
    " <<< x",
    " <<< \"$(touch P)\"",
    " > /dev/null",
    " 2>/dev/null",
    " 2>&1",
    " >&2",
    " >&-",
    " <&-",
    " 3>P",
    " {fd}>P",
    " > /dev/tcp/10.1.2.3/80",
    " < /dev/udp/10.1.2.3/53",
    " <<E\n$(touch P)\nE",
    " <<'E'\n$(touch P)\nE",
    " <<E\nx\nE",
    " <<-E\n\tx\n\tE\ntouch P",
    " <<\\E\nx\nE\n",
    " > $cmd",
    " > /dev/stdout",
    " > /dev/fd/1",
    " > /dev/stderr",
    " < /dev/null",
    " >\\\nP",
    " 2>&P",
    " <& 0",
    " > *(touch P)",
];
/// Prefixes: assignments, wrappers, and words that change the reading of the rest.
const PREFIXES: &[&str] = &[
    "sudo ", "env ", "env -i ", "env A=1 ", "nice ", "nice -n 5 ", "timeout 1 ", "time ", "time -p ",
    "nohup ", "setsid ", "stdbuf -oL ", "xargs ", "xargs -a list ", "command ", "command -p ", "builtin ",
    "exec ", "exec -a x ", "busybox ", "eval ", "noglob ", "nocorrect ", "- ", "coproc ", "! ", "\\",
    "LC_ALL=C ", "X=1 ", "PATH=. ", "IFS=o ", "GIT_DIR=sub ", "GIT_EXTERNAL_DIFF=./be ", "GIT_PAGER=./be ",
    "PAGER=./be ", "LD_PRELOAD=./x ", "BASH_ENV=./be ", "LESSOPEN='|./be' ", "TZ=UTC ", "x=$(touch P) ",
    "x=f; ", "cd src; ", "cd sub; ", "cd; ", "cd /etc && ", "ls() { touch P; }; ", "alias ls='touch P'\n",
    "set -x; ", "set -- P; ", "shopt -s extglob; ", "setopt extendedglob; ", "emulate sh; ",
    "trap 'touch P' EXIT; ", "IFS=,; ", "x='touch P'; ", "PS4='$(touch P)'; ", "true; ", "for x in f a; do ",
    "f=f ", "export X; ", "readonly X; ", "flock f ", "watch ", "chroot . ", "strace ", "unshare ",
    "script -c ", "find . -exec ", "repeat 2 ", "{ ", "( ", "(( ", "[[ ", "[ ", "if ",
];
const SUFFIXES: &[&str] = &[
    "; touch P",
    " && touch P",
    " || touch P",
    " | touch P",
    " & touch P",
    "\ntouch P",
    " #\ntouch P",
    " # '\ntouch P #'",
    "; done",
    "; }",
    " )",
    " ))",
    " ]]",
    " ]",
    "; fi",
    " &",
    ";",
    " | sh",
    " | xargs",
    " | tee P",
    " | cat",
    " | wc -l",
    " | sort -o P",
    " | head -1",
    "}",
    ")",
    "'",
    "\"",
    "`",
    "\\",
    " $(touch P)",
    " `touch P`",
    " <(touch P)",
    "; rm f",
    "; echo x > P",
    " | sed -n 'w P'",
    " | awk '{print > \"P\"}'",
    " | xargs touch",
];
/// Characters and short strings that change the end of a word, a quote or a command.
const PIECES: &[&str] = &[
    "'", "\"", "\\", "`", "$", "(", ")", "{", "}", "[", "]", "<", ">", "|", "&", ";", "\n", "\t", " ", "#",
    "!", "*", "?", "~", "^", "%", "=", "-", "+", "@", ",", ":", "/", "$(", "${", "$'", "$\"", "((", "))",
    "[[", "]]", "&&", "||", "<<", ">>", "\\\n", "\r", "\u{a0}", "é", "\u{200b}", "0", "''", "\"\"", "\\ ",
    "touch P", ";touch P;", "\ntouch P\n", "$(touch P)", "`touch P`", ">P", "{fd}", "\\'", "\\\"", "$'\\''",
    "'\\''", "\\\\", "\\n",
];

/// Generator of commands; equal seeds give equal commands (SplitMix64).
pub(super) struct Generator {
    state: u64,
    seeds: Vec<String>,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        let lines = SEEDS.iter().flat_map(|table| table.lines()).filter_map(|line| {
            let (expected, command) = line.split_once(" | ")?;
            let reads = expected.starts_with("read_only") || expected.starts_with("never=allow");
            // Waiting for more input is not a change, and takes the whole time limit.
            let waits = [" -f", "-Fq", "--follow", "sleep"].iter().any(|text| command.contains(text));
            (reads && !waits).then(|| command.replace('␤', "\n"))
        });
        Self { state: seed, seeds: lines.collect() }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("less than the bound")
    }

    fn pick(&mut self, from: &'static [&'static str]) -> &'static str {
        from[self.below(from.len())]
    }

    fn seed(&mut self) -> String {
        let at = self.below(self.seeds.len());
        self.seeds[at].clone()
    }

    pub(super) fn dialect(&mut self) -> (Dialect, &'static str) {
        match self.below(5) {
            0..=1 => (Dialect::Bash, "bash"),
            2..=3 => (Dialect::Zsh, "zsh"),
            _ => (Dialect::Sh, "sh"),
        }
    }

    pub(super) fn command(&mut self) -> String {
        let mut command = self.seed();
        for _ in 0..self.below(5) {
            command = self.mutate(&command);
        }
        command
    }

    fn mutate(&mut self, command: &str) -> String {
        match self.below(16) {
            0..=4 => {
                let argument = self.pick(ARGUMENTS);
                self.insert_word(command, argument)
            }
            5 => format!("{command}{}{}", self.pick(JOINS), self.seed()),
            6 => format!("{command}{}", self.pick(REDIRECTIONS)),
            7 => format!("{}{command}", self.pick(PREFIXES)),
            8 => format!("{command}{}", self.pick(SUFFIXES)),
            9..=10 => self.quote(command),
            11..=12 => self.insert_piece(command),
            13 => self.drop_piece(command),
            14 => self.wrap(command),
            _ => self.shorten_option(command),
        }
    }

    /// Inserts a word at a word boundary.
    fn insert_word(&mut self, command: &str, word: &str) -> String {
        let mut words: Vec<&str> = command.split(' ').collect();
        let at = 1 + self.below(words.len());
        words.insert(at.min(words.len()), word);
        words.join(" ")
    }

    fn position(&mut self, command: &str) -> usize {
        let mut at = self.below(command.len() + 1);
        while !command.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    fn insert_piece(&mut self, command: &str) -> String {
        let at = self.position(command);
        let piece = self.pick(PIECES);
        format!("{}{piece}{}", &command[..at], &command[at..])
    }

    fn drop_piece(&mut self, command: &str) -> String {
        let (one, two) = (self.position(command), self.position(command));
        let (start, end) = (one.min(two), one.max(two).min(one.min(two) + 3));
        let end = (end..=command.len()).find(|at| command.is_char_boundary(*at)).unwrap_or(command.len());
        format!("{}{}", &command[..start], &command[end..])
    }

    /// Rewrites a word in another spelling with the same meaning, or nearly so.
    fn quote(&mut self, command: &str) -> String {
        let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let at = self.below(words.len());
        let word = words[at].clone();
        let middle = self.position(&word);
        let (left, right) = word.split_at(middle);
        words[at] = match self.below(7) {
            0 => format!("'{word}'"),
            1 => format!("\"{word}\""),
            2 => format!("{left}''{right}"),
            3 => format!("{left}\\{right}"),
            4 => format!("$'{word}'"),
            5 => format!("{left}\"{right}\""),
            _ => format!("{left}$@{right}"),
        };
        words.join(" ")
    }

    fn wrap(&mut self, command: &str) -> String {
        match self.below(12) {
            0 => format!("({command})"),
            1 => format!("{{ {command}; }}"),
            2 => format!("echo $({command})"),
            3 => format!("echo \"$({command})\""),
            4 => format!("if {command}; then {}; fi", self.seed()),
            5 => format!("for x in f a; do {command}; done"),
            6 => format!("while {command}; do break; done"),
            7 => format!("case x in x) {command};; esac"),
            8 => format!("f() {{ {command}; }}; f"),
            9 => format!("cat <({command})"),
            10 => format!("sh -c '{command}'"),
            _ => format!("x=$({command}); echo \"$x\""),
        }
    }

    /// Abbreviates a long option, or clusters short ones.
    fn shorten_option(&mut self, command: &str) -> String {
        let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let options: Vec<usize> = (0..words.len()).filter(|at| words[*at].starts_with('-')).collect();
        if options.is_empty() {
            return self.insert_piece(command);
        }
        let at = options[self.below(options.len())];
        words[at] = if words[at].starts_with("--") {
            let name = words[at].split('=').next().unwrap_or("").len().max(3);
            let mut cut = 3 + self.below(name - 2);
            while !words[at].is_char_boundary(cut.min(words[at].len())) {
                cut -= 1;
            }
            words[at][..cut.min(words[at].len())].to_owned()
        } else {
            let letter = char::from(b"abcdefghijklmnopqrstuvwxyzCDEFILOPRSTUWX0"[self.below(41)]);
            format!("{}{letter}", words[at])
        };
        words.join(" ")
    }
}
