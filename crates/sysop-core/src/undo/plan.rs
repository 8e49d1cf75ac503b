//! Plan of a capture: the entries that the host saves before a command runs, derived from the analysis of the command.
//!
//! An entry is a letter, a colon and a value; `undo.sh` of the host's adapter explains the letters. Values are data:
//! they reach the host's script as arguments and never become shell code.

use std::collections::BTreeSet;

use sysop_shell::{self as shell, Access, Invocation, Risk, RiskClass, Survey, Target};

use super::UndoRights;
use crate::command_path::absolute;

const ENTRIES_MAX: usize = 2_000;

/// State to save before a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturePlan {
    pub entries: Vec<String>,
    pub rights: UndoRights,
    /// True if the entries cover everything that the command is known to change.
    pub is_complete: bool,
    /// True if packages may change, whose state takes longer to save.
    pub has_packages: bool,
}

impl CapturePlan {
    /// Returns true if whole directories are watched because the command may change files in them without naming them.
    /// Changes of packages are apart: their state is worth a long wait.
    pub fn watches_directories(&self) -> bool {
        !self.has_packages && self.entries.iter().any(|entry| entry.starts_with("w:"))
    }
}

/// Programs that have no effect except on the paths that the analysis finds.
const FILE_PROGRAMS: [&str; 33] = [
    "rm", "mv", "cp", "ln", "mkdir", "rmdir", "touch", "chmod", "chown", "chgrp", "tee", "sed", "truncate",
    "install", "dd", "cat", "echo", "printf", "test", "[", "true", "false", ":", "cd", "unlink", "shred",
    "rename", "exit", "return", "break", "continue", "shift", "set",
];
/// Builtins that have no effect except on the shell that runs them.
const SHELL_STATE_BUILTINS: [&str; 15] = [
    "cd", "set", ":", "export", "declare", "typeset", "local", "readonly", "unset", "alias", "unalias",
    "umask", "shopt", "pushd", "popd",
];
/// Programs that only start another program. The analysis lists that program separately.
const WRAPPERS: [&str; 18] = [
    "sudo", "doas", "env", "nice", "ionice", "nohup", "timeout", "time", "setsid", "stdbuf", "command",
    "exec", "sh", "bash", "dash", "xargs", "builtin", "su",
];
/// Those of [`WRAPPERS`] that read a script.
const SHELLS: [&str; 3] = ["sh", "bash", "dash"];
/// Programs that change modes and owners but never content.
const MODE_PROGRAMS: [&str; 3] = ["chmod", "chown", "chgrp"];
/// Programs that write into a directory if their last operand is one.
const INTO_PROGRAMS: [&str; 4] = ["cp", "mv", "ln", "install"];
const ACCOUNT_PROGRAMS: [&str; 19] = [
    "useradd", "adduser", "userdel", "deluser", "usermod", "groupadd", "addgroup", "groupdel", "delgroup",
    "groupmod", "gpasswd", "passwd", "chage", "chsh", "chfn", "chpasswd", "newusers", "vipw", "vigr",
];
const IPTABLES_PROGRAMS: [&str; 7] = [
    "iptables", "ip6tables", "iptables-restore", "ip6tables-restore", "iptables-nft", "ip6tables-nft",
    "ipset",
];
/// Options of `git` before the subcommand that may have their value in the next word.
const GIT_VALUES: [&str; 8] = [
    "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source",
];
/// Words with which programs of Apache make it read its configuration again.
const RELOADS: [&str; 2] = ["graceful", "restart"];
const APT_PROGRAMS: [&str; 3] = ["apt", "apt-get", "aptitude"];
/// Directories to watch for changes if an unknown program runs as root. Such a program may change files that its
/// command does not name.
const WATCHED: [&str; 4] = ["/etc", "/var/spool/cron", "/usr/local", "/lib/systemd/system"];

/// Files that `hostnamectl`, `timedatectl` and `localectl` write.
const SETTINGS_FILES: [&str; 9] = [
    "/etc/hostname", "/etc/machine-info", "/etc/localtime", "/etc/timezone", "/etc/adjtime",
    "/etc/default/locale", "/etc/locale.conf", "/etc/default/keyboard", "/etc/vconsole.conf",
];

/// Plans the capture before a command, or returns `None` if the command only reads.
pub fn plan(command: &str, survey: &Survey) -> Option<CapturePlan> {
    let survey = &shell::reading_scripts(survey);
    let analysis = shell::analyze(command, survey);
    if only_reads(&analysis.risk) {
        return None;
    }
    let is_opaque = analysis.risk.class == RiskClass::Opaque
        || analysis.risk.findings.iter().any(|finding| finding.class == RiskClass::Opaque);
    let scripts: Vec<&Target> =
        analysis.targets.iter().filter(|target| target.access == Access::Run).collect();
    let changes_only_shell = !analysis.is_partial
        && !analysis.invocations.is_empty()
        && analysis.invocations.iter().all(|invocation| changes_only_shell(&invocation.words));
    let mut found = Found {
        survey,
        // Otherwise, a new alias or a variable such as PATH may decide what the other programs do.
        ignores_shell_state: !is_opaque || changes_only_shell,
        entries: BTreeSet::new(),
        folders: Vec::new(),
        modes_only: true,
        mode_operands: BTreeSet::new(),
        is_complete: !is_opaque || changes_only_shell,
        has_packages: false,
        uses_sudo: false,
    };
    for invocation in &analysis.invocations {
        found.invocation(&invocation.words);
    }
    let written = analysis.targets.iter().filter(|target| target.access == Access::Write);
    written.for_each(|target| found.target(target));
    let has_shell =
        !scripts.is_empty() || analysis.invocations.iter().any(|it| SHELLS.contains(&program_of(it)));
    let has_unread = scripts.iter().any(|script| !is_read(script, survey));
    if analysis.is_partial || has_unread || is_opaque && has_shell {
        found.unknown_scripts(&scripts);
    }
    Some(found.plan())
}

/// Returns the paths that scripts of the command name and that the survey has not resolved.
pub fn script_targets(command: &str, survey: &Survey) -> Vec<Target> {
    if !survey.targets.iter().any(|resolved| resolved.target.access == Access::Run) {
        return Vec::new();
    }
    let mut targets = shell::analyze(command, &shell::reading_scripts(survey)).targets;
    targets.retain(|target| survey.resolved(target).is_none());
    targets
}

/// Returns the name of the program without its directory; empty if it is unknown.
fn program_of(invocation: &Invocation) -> &str {
    let program = invocation.words.first().and_then(Option::as_deref).unwrap_or_default();
    program.rsplit('/').next().unwrap_or_default()
}

/// Returns true if the host knows the text of the script. The analysis finds out whether the text is one of a shell.
fn is_read(script: &Target, survey: &Survey) -> bool {
    let files = survey.resolved(script).unwrap_or_default();
    !files.is_empty() && files.iter().all(|file| file.script.is_some())
}

/// Plans the capture of the paths that a file tool changes, relative to `root`.
pub fn plan_paths(paths: &[&str], survey: &Survey) -> CapturePlan {
    let folder = survey.context.root.as_deref();
    let entries = paths.iter().map(|path| format!("c:{}", resolve(path, folder, survey))).collect();
    CapturePlan { entries, rights: UndoRights::Own, is_complete: true, has_packages: false }
}

/// Returns true for a builtin that changes only the shell, with arguments that the shell does not evaluate.
fn changes_only_shell(words: &[Option<String>]) -> bool {
    let known: Option<Vec<&str>> = words.iter().map(Option::as_deref).collect();
    known.is_some_and(|known| {
        known.first().is_some_and(|program| SHELL_STATE_BUILTINS.contains(program))
            && !known.iter().any(|word| word.contains(['$', '`', '[']))
    })
}

struct Found<'a> {
    survey: &'a Survey,
    /// True if what the command changes in its shell has no effect on anything else.
    ignores_shell_state: bool,
    entries: BTreeSet<String>,
    /// Destinations that may be directories, with the names that would be written into them.
    folders: Vec<(String, Vec<String>)>,
    modes_only: bool,
    /// Words of the programs that change modes and owners. Other written files, such as the targets of redirects, are
    /// kept with their content.
    mode_operands: BTreeSet<String>,
    is_complete: bool,
    has_packages: bool,
    uses_sudo: bool,
}

impl Found<'_> {
    fn add(&mut self, letter: char, value: &str) {
        if !value.contains(['\n', '\0']) {
            self.entries.insert(format!("{letter}:{value}"));
        }
    }

    fn note_modes(&mut self, program: &str, operands: &[String]) {
        let is_of_modes = MODE_PROGRAMS.contains(&program);
        self.modes_only &= is_of_modes;
        if is_of_modes {
            self.mode_operands.extend(operands.iter().cloned());
        }
    }

    fn invocation(&mut self, words: &[Option<String>]) {
        let text = |word: &Option<String>| word.clone().unwrap_or_default();
        let Some(first) = words.first().map(text) else { return };
        let program = first.rsplit('/').next().unwrap_or_default().to_owned();
        let rest: Vec<String> = words[1..].iter().map(text).collect();
        let is_known = words.iter().all(Option::is_some);
        let program = program.as_str();
        self.uses_sudo |= program == "sudo" || program == "doas";
        if WRAPPERS.contains(&program) || self.is_script(&first) {
            return;
        }
        self.note_modes(program, &rest);
        if INTO_PROGRAMS.contains(&program) {
            self.note_folder(&rest);
        }
        if FILE_PROGRAMS.contains(&program) || self.only_reads(words) {
            return;
        }
        if self.ignores_shell_state && SHELL_STATE_BUILTINS.contains(&first.as_str()) {
            return;
        }
        let operand = rest.iter().rfind(|word| !word.starts_with('-')).cloned().unwrap_or_default();
        match program {
            "systemctl" | "service" | "invoke-rc.d" => self.units(program, &rest),
            // A service that a program reloads by itself is reloaded by its unit afterwards, where there is one.
            "nginx" if rest.iter().any(|word| word == "reload") => self.reloaded(&["nginx"]),
            "apachectl" | "apache2ctl" | "httpd"
                if rest.iter().any(|word| RELOADS.contains(&word.as_str())) =>
            {
                self.reloaded(&["apache2", "httpd"]);
            }
            "git" => self.repository(&rest),
            "crontab" => match rest.iter().position(|word| word == "-u") {
                Some(at) => self.add('r', rest.get(at + 1).map_or("", String::as_str)),
                None => self.add('r', ""),
            },
            "sysctl" => self.parameters(&rest),
            "nft" => self.add('f', "nft"),
            "firewall-cmd" => self.firewalld(),
            "ufw" => {
                self.add('f', "iptables");
                self.add('c', "/etc/ufw");
                self.add('c', "/etc/default/ufw");
            }
            _ if IPTABLES_PROGRAMS.contains(&program) => self.add('f', "iptables"),
            _ if ACCOUNT_PROGRAMS.contains(&program) => {
                self.add('g', "");
                if is_name(&operand) && !matches!(program, "gpasswd" | "passwd" | "chage") {
                    self.add('h', &operand);
                }
                self.is_complete &= !matches!(program, "chpasswd" | "newusers") || is_known;
            }
            "dpkg" => self.packages(&rest),
            _ if APT_PROGRAMS.contains(&program) => {
                self.packages(&[]);
                let words: Vec<&str> =
                    rest.iter().map(String::as_str).filter(|word| is_apt_word(word)).collect();
                self.add('a', &words.join(" "));
            }
            "dnf" | "yum" | "zypper" | "pacman" | "apk" | "rpm" | "snap" | "flatpak" => self.unknown(),
            "hostname" => {
                self.add('s', "kernel.hostname");
                self.unknown();
            }
            "hostnamectl" | "timedatectl" | "localectl" => {
                SETTINGS_FILES.iter().for_each(|path| self.add('c', path));
                self.add('s', "kernel.hostname");
                let plain = ["set-hostname", "hostname", "set-timezone", "set-locale"];
                self.is_complete &= rest.iter().any(|word| plain.contains(&word.as_str()));
            }
            _ => self.unknown(),
        }
    }

    /// Returns true for a script that was read. The analysis lists its commands separately.
    fn is_script(&self, program: &str) -> bool {
        let run = self.survey.targets.iter().map(|resolved| &resolved.target);
        let mut run = run.filter(|target| target.access == Access::Run && target.word == program).peekable();
        program.contains('/') && run.peek().is_some() && run.all(|script| is_read(script, self.survey))
    }

    /// Returns true if the words are a command that only reads.
    fn only_reads(&self, words: &[Option<String>]) -> bool {
        let quoted: Option<Vec<String>> = words.iter().map(|word| Some(quoted(word.as_ref()?))).collect();
        quoted.is_some_and(|words| only_reads(&shell::analyze(&words.join(" "), self.survey).risk))
    }

    /// Notes the names that `cp` and the like write if their destination is a directory.
    fn note_folder(&mut self, rest: &[String]) {
        let mut operands: Vec<&String> = rest.iter().filter(|word| !word.starts_with('-')).collect();
        let given = rest.iter().find_map(|word| word.strip_prefix("--target-directory="));
        let after_t = rest.iter().position(|word| word == "-t").and_then(|at| rest.get(at + 1));
        let folder = match given.or(after_t.map(String::as_str)) {
            Some(folder) => folder.to_owned(),
            None => match operands.pop() {
                Some(last) => last.clone(),
                None => return,
            },
        };
        let names = operands.iter().filter_map(|source| source.trim_end_matches('/').rsplit('/').next());
        let names = names.filter(|name| !name.is_empty() && !name.starts_with('.')).map(str::to_owned);
        self.folders.push((folder, names.collect()));
    }

    fn units(&mut self, program: &str, rest: &[String]) {
        if rest.iter().any(|word| word == "--user" || word == "--global") {
            self.is_complete = false;
            return;
        }
        let plain: Vec<&str> =
            rest.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
        let (verb, units) = match (program, plain.as_slice()) {
            ("systemctl", [verb, units @ ..]) => (*verb, units),
            (_, [unit, verb, ..]) => (*verb, std::slice::from_ref(unit)),
            _ => return,
        };
        let verb = match verb {
            "daemon-reload" | "reset-failed" => return,
            "reload" | "force-reload" => "reload",
            "start" | "stop" | "restart" | "try-restart" | "reload-or-restart" | "enable" | "disable"
            | "mask" | "unmask" | "reenable" | "preset" | "edit" | "revert" | "link" | "add-wants"
            | "add-requires" => "",
            _ => {
                self.is_complete = false;
                return;
            }
        };
        for unit in units.iter().filter(|unit| is_name(unit)) {
            let unit = if unit.contains('.') { (*unit).to_owned() } else { format!("{unit}.service") };
            let entry = if verb.is_empty() { unit } else { format!("{unit}:{verb}") };
            self.add('u', &entry);
        }
    }

    /// Adds the repository in which `git` runs, as the options before the subcommand choose it.
    fn repository(&mut self, rest: &[String]) {
        let mut folder = resolve(".", self.survey.context.folder.as_deref(), self.survey);
        let (mut git_dir, mut work_tree) = (None, None);
        let mut words = rest.iter().map(String::as_str);
        while let Some(word) = words.next().filter(|word| word.starts_with('-')) {
            let (option, joined) = match word.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (word, None),
            };
            let value = match option {
                _ if joined.is_some() => joined,
                _ if GIT_VALUES.contains(&option) => words.next(),
                _ => None,
            };
            match option {
                "-C" => folder = resolve(value.unwrap_or("."), Some(&folder), self.survey),
                "--git-dir" => git_dir = value,
                "--work-tree" => work_tree = value,
                _ => {}
            }
        }
        self.add('G', &folder);
        for place in [git_dir, work_tree].into_iter().flatten() {
            let place = resolve(place, Some(&folder), self.survey);
            self.add('G', place.strip_suffix("/.git").unwrap_or(&place));
        }
        self.unknown();
    }

    fn firewalld(&mut self) {
        self.add('f', "nft");
        self.add('c', "/etc/firewalld");
        // Masquerading switches forwarding on, but its end does not switch it off.
        self.add('s', "net.ipv4.ip_forward");
        self.add('s', "net.ipv6.conf.all.forwarding");
    }

    fn reloaded(&mut self, services: &[&str]) {
        self.is_complete = false;
        services.iter().for_each(|service| self.add('u', &format!("{service}.service:reload")));
    }

    fn parameters(&mut self, rest: &[String]) {
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-p" | "--load" => {
                    let file = words.clone().next().filter(|word| !word.starts_with('-'));
                    let file = file.map_or("/etc/sysctl.conf", String::as_str);
                    self.add('S', &resolve(file, self.survey.context.folder.as_deref(), self.survey));
                }
                "--system" => self.is_complete = false,
                word => {
                    if let Some((key, _)) = word.split_once('=').filter(|(key, _)| is_key(key)) {
                        self.add('s', key);
                    }
                }
            }
        }
    }

    fn packages(&mut self, rest: &[String]) {
        self.has_packages = true;
        self.add('p', "");
        for word in rest.iter().filter(|word| word.ends_with(".deb")) {
            self.add('d', &resolve(word, self.survey.context.folder.as_deref(), self.survey));
        }
        if rest
            .iter()
            .any(|word| matches!(word.as_str(), "-r" | "-P" | "--remove" | "--purge" | "--configure"))
        {
            rest.iter().filter(|word| is_name(word)).for_each(|word| self.add('d', word));
        }
        self.unknown();
        self.add('U', "");
        self.add('g', "");
        self.is_complete = false;
    }

    fn working_folder(&self) -> Option<String> {
        self.survey.context.folder.clone().or_else(|| self.survey.context.root.clone())
    }

    /// Adds the directories in which an unknown program may change files: the working directory, the home directory,
    /// and for root [`WATCHED`].
    fn unknown(&mut self) {
        self.is_complete = false;
        if self.survey.context.uid == Some(0) || self.uses_sudo {
            WATCHED.iter().for_each(|place| self.add('w', place));
        }
        if let Some(home) = self.survey.context.home.clone() {
            self.add('~', &home);
        }
        if let Some(folder) = self.working_folder().filter(|folder| folder != "/") {
            self.add('w', &folder);
        }
    }

    /// Like [`Self::unknown`], and adds the directories of scripts outside the working directory.
    fn unknown_scripts(&mut self, scripts: &[&Target]) {
        self.unknown();
        let working = self.working_folder().unwrap_or_default();
        for folder in scripts.iter().filter_map(|script| script.folder.as_deref()) {
            let is_below = folder.strip_prefix(&working).is_some_and(|rest| rest.starts_with('/'));
            if folder.starts_with('/') && folder != "/" && (working.is_empty() || !is_below) {
                self.add('w', folder);
            }
        }
    }

    fn target(&mut self, target: &Target) {
        let word = resolve(&target.word, target.folder.as_deref(), self.survey);
        let is_of_mode = self.modes_only && self.mode_operands.contains(&target.word);
        let letter = if is_of_mode { 'm' } else { 'c' };
        let resolved: Vec<String> =
            self.survey.resolved(target).into_iter().flatten().map(|file| file.path.clone()).collect();
        let is_literal = !target.glob && (target.folder.is_some() || target.word.starts_with(['/', '~']));
        self.is_complete &= is_literal || !resolved.is_empty();
        let into = self.folders.iter().find(|(folder, _)| *folder == target.word).cloned();
        let paths = resolved.into_iter().chain(is_literal.then_some(word));
        for path in paths.collect::<BTreeSet<String>>() {
            if let Some(key) = path.strip_prefix("/proc/sys/") {
                self.add('s', key);
            } else if path.starts_with("/dev/") || path.starts_with("/proc/") || path.starts_with("/sys/") {
                self.is_complete &=
                    matches!(path.as_str(), "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty");
            } else if let Some((_, names)) = into.as_ref().filter(|(_, names)| !names.is_empty()) {
                names.iter().for_each(|name| self.add('i', &format!("{path}\t{name}")));
            } else {
                self.add(letter, &path);
            }
        }
    }

    fn plan(self) -> CapturePlan {
        let rights = match self.uses_sudo && self.survey.context.uid != Some(0) {
            true => UndoRights::Root,
            false => UndoRights::Own,
        };
        CapturePlan {
            is_complete: self.is_complete && self.entries.len() <= ENTRIES_MAX,
            entries: self.entries.into_iter().take(ENTRIES_MAX).collect(),
            rights,
            has_packages: self.has_packages,
        }
    }
}

/// Returns true if no part of a command makes a change. The class of reading secrets is above that of a change.
fn only_reads(risk: &Risk) -> bool {
    let reads =
        |class| matches!(class, RiskClass::ReadOnly | RiskClass::ReadsRemote | RiskClass::ReadsSecret);
    reads(risk.class) && risk.findings.iter().all(|finding| reads(finding.class))
}

/// Quotes a word, unless it is plain: the analysis does not trust a program whose name is quoted.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { shell::single_quoted(word) }
}

/// Returns true for the name of a user, a unit or a package.
fn is_name(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@:+".contains(c);
    !word.is_empty() && !word.starts_with(['-', '.', ':']) && word.chars().all(plain)
}

fn is_key(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    !word.is_empty() && !word.contains("..") && word.chars().all(plain)
}

/// Returns true for a word of `apt-get` that may be repeated to simulate the command: a subcommand, a
/// package, or an option that is known to affect only the result.
fn is_apt_word(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".+:=~_-".contains(c);
    let options =
        ["--purge", "--no-install-recommends", "--install-recommends", "--allow-downgrades", "--reinstall"];
    if word.starts_with('-') {
        return options.contains(&word);
    }
    !word.is_empty() && word.chars().all(plain)
}

/// Resolves a word of a command, in `folder` or else in the root.
fn resolve(word: &str, folder: Option<&str>, survey: &Survey) -> String {
    let context = &survey.context;
    absolute(word, folder.or(context.root.as_deref()), context.home.as_deref())
}

#[cfg(test)]
mod tests;
