//! Computes what a command would do, before it runs: "removes 12 files, 4.2 MB".
//!
//! # Problem
//!
//! A user who approves `rm -r build` wants to know what `build` contains. Few programs have a dry mode, some
//! dry modes write, and the effect depends on the host's files. So the effect is computed by other programs,
//! which only read: `find` for `rm`, `sed | diff` for `sed -i`, `pgrep` for `pkill`.
//!
//! # Design
//!
//! [`plan`] parses the command and returns a [`PreviewPlan`]: the script of a probe, and the parsers for its
//! output. The host runs the script where the command would run; [`PreviewPlan::lines`] turns the output into
//! lines. Both steps are pure.
//!
//! 1. `scan` reads a small language; a command with a substitution, a loop or a function has no preview.
//! 2. `effective` unwraps `sudo`, `env`, `sh -c` and the like.
//! 3. `files`, `services` and the other modules know the programs. For each call they return a section: constant text
//!    that gets the command's words as its arguments, and a view that parses the records that it prints.
//!
//! # Rejected
//!
//! - The dry modes of the programs themselves, unless they are known to write nothing: `apt-get -s` writes as root,
//!   `dpkg --dry-run` writes a log, `systemctl --dry-run` prints nothing.
//! - Changing the text of the command (`rm` → `ls`): a word of the user's command could become code again.
//!
//! # Invariants
//!
//! - A probe contains the words of a command only as quoted arguments, plain variables and globs.
//! - A failure is reported as "effect unknown", never as "no effect".
//! - A preview has no influence on the risk of a command.

mod accounts;
mod archives;
mod containers;
mod disks;
mod effective;
mod files;
mod footprint;
mod git;
mod modes;
mod opaque;
mod packages;
mod probe;
mod processes;
mod report;
mod scan;
mod search;
mod services;
mod stream_edit;
mod system;
mod text_diff;
mod transfer;
mod write;

use std::collections::BTreeMap;
use std::time::Duration;

use self::effective::{EffectiveCommand, RunsAs, Unwrapped, check_name, unwrap};
use self::footprint::Footprint;
pub use self::probe::ProbeClass;
use self::probe::{OPENING, Records, Section, section_text};
use self::report::Report;
use self::scan::{Pipeline, Reason, RedirectKind, SimpleText, Word, scan};
use crate::context::{CommandContext, Dialect, ResolvedTarget, Survey};
use crate::risk::RiskClass;

pub const SUMMARY_LINES_MAX: usize = 2;
pub const DIFF_LINES_MAX: usize = 20;
/// Maximum number of commands in one line that are probed.
const SECTIONS_MAX: usize = 6;
const LINE_CHARS_MAX: usize = 200;

/// Dialect, directory and shell in which a previewed command would run.
#[derive(Debug, Clone, Default)]
pub struct PreviewPlace {
    /// The command's dialect and directory.
    pub context: CommandContext,
    /// Directory in which probes start, if it differs from the command's directory.
    pub enter: Option<String>,
    /// True if the command runs in a shell that a user also uses. Its variables are unknown.
    pub is_shared_shell: bool,
    /// Paths of the command that the host has resolved. A path that is missing may lead anywhere.
    pub resolved: Vec<ResolvedTarget>,
}

/// Parser for a probe's output. Each variant belongs to one kind of section.
#[derive(Debug, Clone, PartialEq, Eq)]
enum View {
    Remove(files::Remove),
    Transfer(transfer::Transfer),
    Mode(modes::ModeChange),
    Owner(modes::OwnerChange),
    Write(write::Write),
    StreamEdit(stream_edit::StreamEdit),
    Patch,
    Search(search::Search),
    Link,
    Truncate(files::Truncate),
    Git(git::GitView),
    Processes,
    Services(services::ServiceChange),
    Packages,
    Archive,
    Rsync,
    /// Sentences that the probe prints itself.
    Sentences,
}

impl View {
    fn report(&self, records: &Records) -> Result<Report, Reason> {
        match self {
            Self::Remove(view) => view.report(records),
            Self::Transfer(view) => view.report(records),
            Self::Mode(view) => view.report(records),
            Self::Owner(view) => view.report(records),
            Self::Write(view) => view.report(records),
            Self::StreamEdit(view) => view.report(records),
            Self::Patch => stream_edit::patch_report(records),
            Self::Search(view) => view.report(records),
            Self::Link => files::link_report(records),
            Self::Truncate(view) => view.report(records),
            Self::Git(view) => view.report(records),
            Self::Processes => processes::report(records),
            Self::Services(view) => view.report(records),
            Self::Packages => packages::report(records),
            Self::Archive => archives::report(records),
            Self::Rsync => archives::rsync_report(records),
            Self::Sentences => disks::sentences(records),
        }
    }
}

/// Result of planning the preview of one command.
enum Planned {
    Section(Box<Section>),
    /// A line that needs no probe.
    Line(String),
    /// The command changes nothing, or previews do not support its program.
    Nothing,
}

impl Planned {
    fn probe(section: Section) -> Result<Self, Reason> {
        Ok(Self::Section(Box::new(section)))
    }
}

/// Entry of a plan, in the order of the commands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Line(String),
    Unknown(Reason),
    Section(View),
}

/// Part of a preview: the effect of one command, or of one of its redirections.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PlannedEffect {
    entry: Entry,
    /// True if a command before it in the line may change what the probe sees.
    follows_change: bool,
}

/// A probe, and the parsers for its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewPlan {
    effects: Vec<PlannedEffect>,
    /// Number of further commands that may change something.
    omitted: usize,
    /// Script without `sudo`, and script with it.
    scripts: [String; 2],
    class: ProbeClass,
    limit: Duration,
}

/// Output of a probe on one host, or the reason for its failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    /// Name of the host; empty if there is only one.
    pub host: String,
    pub output: Result<Vec<u8>, String>,
}

/// Returns the plan of a command's preview, or `None` if there is nothing to show.
pub fn plan(command: &str, place: &PreviewPlace) -> Option<PreviewPlan> {
    if !place.context.dialect.is_analyzed() {
        return None;
    }
    let reads = |text: &str| {
        let survey = Survey::elsewhere(place.context.clone());
        crate::analyze(text, &survey).risk.class <= RiskClass::ReadOnly
    };
    if reads(command) {
        return None;
    }
    let mut planner = Planner::new(command, place);
    planner.before.extend(place.enter.as_deref().map(enter));
    match scan(command) {
        Ok(pipelines) => planner.pipelines(&pipelines, &RunsAs::Caller, &reads),
        Err(why) if opaque::is_known(command) => planner.push(Entry::Unknown(why)),
        Err(_) => {}
    }
    planner.finish()
}

/// Plans the preview of a file tool's write. Returns `None` if there is nothing to preview.
pub fn plan_write(path: &str, content: &str) -> Option<PreviewPlan> {
    let place = PreviewPlace::default();
    let mut planner = Planner::new("", &place);
    let section = write::section(Word::of(path), false, Some(content.to_owned()));
    planner.add(section, &RunsAs::Caller);
    planner.finish()
}

fn enter(folder: &str) -> String {
    let folder = Word::of(folder).source();
    format!("cd -P -- {folder} || {{ r failed 'the directory does not exist'; r end 1; exit; }}")
}

struct Planner<'a> {
    place: &'a PreviewPlace,
    command: &'a str,
    effects: Vec<PlannedEffect>,
    /// Number of commands after the last effect that may change something.
    omitted: usize,
    /// Footprints of the commands so far that may change something; `None` for an unknown one.
    changes: Vec<Option<Footprint>>,
    /// True if one of these may change what the probe of the current command sees.
    follows_change: bool,
    /// Directory of the current command; `None` if unknown.
    folder: Option<String>,
    /// Number of scripts that the current command is nested in.
    nested: usize,
    /// Sections, each with the shell lines that precede it (changes of directory and assignments) and the user as whom
    /// it runs.
    sections: Vec<(Section, Vec<String>, RunsAs)>,
    /// Changes of directory and assignments so far.
    before: Vec<String>,
    assigned: Vec<String>,
}

impl<'a> Planner<'a> {
    fn new(command: &'a str, place: &'a PreviewPlace) -> Self {
        Self {
            place,
            command,
            effects: Vec::new(),
            omitted: 0,
            changes: Vec::new(),
            follows_change: false,
            folder: place.context.folder.clone(),
            nested: 0,
            sections: Vec::new(),
            before: Vec::new(),
            assigned: Vec::new(),
        }
    }

    /// Returns the footprint of a pipeline; `None` if unknown.
    fn footprint(&self, pipeline: &[SimpleText]) -> Option<Footprint> {
        let (first, last) = (pipeline.first()?, pipeline.last()?);
        let text = self.command.get(first.start..last.end).filter(|_| self.nested == 0)?;
        let context = CommandContext { folder: self.folder.clone(), ..self.place.context.clone() };
        Footprint::of(text, &context, &self.place.resolved)
    }

    /// Returns the directory that `cd` enters; `None` if unknown.
    fn folder_of(&self, word: &str) -> Option<String> {
        let home = self.place.context.home.as_deref();
        match (word.strip_prefix('~'), word.starts_with('/')) {
            (Some(rest), _) if rest.is_empty() || rest.starts_with('/') => {
                footprint::plain(&format!("{}{rest}", home?))
            }
            (Some(_), _) => None,
            (None, true) => footprint::plain(word),
            (None, false) => footprint::plain(&format!("{}/{word}", self.folder.as_deref()?)),
        }
    }

    fn pipelines(&mut self, pipelines: &[Pipeline], runs_as: &RunsAs, reads: &dyn Fn(&str) -> bool) {
        for pipeline in pipelines {
            if self.effects.len() >= SECTIONS_MAX {
                self.omitted += usize::from(self.may_change(pipeline, reads));
                continue;
            }
            let footprint = self.footprint(pipeline);
            self.follows_change = self.changes.iter().any(|before| match (before, &footprint) {
                (Some(before), Some(footprint)) => footprint.follows(before),
                (None, _) | (_, None) => true,
            });
            let planned = match pipeline.as_slice() {
                [simple] => self.simple(simple, runs_as, reads),
                stages => self.pipeline(stages, runs_as, reads),
            };
            if let Err(why) = planned {
                self.push(Entry::Unknown(why));
            }
            if self.may_change(pipeline, reads) {
                self.changes.push(footprint);
            }
        }
    }

    /// Returns true if the commands may change what the probes of later commands see.
    fn may_change(&self, pipeline: &[SimpleText], reads: &dyn Fn(&str) -> bool) -> bool {
        let ([first, ..], [.., last]) = (pipeline, pipeline) else { return false };
        let text = self.command.get(first.start..last.end).unwrap_or("");
        let is_cd =
            pipeline.len() == 1 && first.words.first().and_then(Word::literal).as_deref() == Some("cd");
        !is_cd && !reads(text)
    }

    fn push(&mut self, entry: Entry) {
        self.effects.push(PlannedEffect { entry, follows_change: self.follows_change });
    }

    fn simple(
        &mut self,
        simple: &SimpleText,
        runs_as: &RunsAs,
        reads: &dyn Fn(&str) -> bool,
    ) -> Result<(), Reason> {
        let text = self.command.get(simple.start..simple.end).unwrap_or("");
        let command = match unwrap(simple, runs_as)? {
            Unwrapped::Command(command) => command,
            Unwrapped::Assignments(assignments) => {
                for (name, value) in assignments {
                    check_name(&name)?;
                    self.before.push(format!("{name}={}", value.source()));
                    self.assigned.push(name);
                }
                return Ok(());
            }
            Unwrapped::Script(pipelines, runs_as) => {
                let before = (self.before.len(), self.assigned.len());
                // A separate script: offsets of the outer command mean nothing there.
                let folder = self.folder.clone();
                self.nested += 1;
                self.pipelines(&pipelines, &runs_as, &|_: &str| false);
                self.nested -= 1;
                self.folder = folder;
                self.before.truncate(before.0);
                self.assigned.truncate(before.1);
                return Ok(());
            }
        };
        if command.program == "cd" {
            let arguments = match command.arguments.as_slice() {
                [first, rest @ ..] if first.literal().as_deref() == Some("--") => (rest, true),
                arguments => (arguments, false),
            };
            let ([folder], after_dashes) = arguments else {
                return Err("the target of `cd` is not one known path".to_owned());
            };
            if !folder.is_single() || (folder.beginning().starts_with('-') && !after_dashes) {
                return Err("the target of `cd` is not one known path".to_owned());
            }
            let failed = "{ r failed 'the directory does not exist'; r end 1; exit; }";
            self.before.push(format!("cd -- {} || {failed}", folder.source()));
            self.folder = folder.literal().and_then(|word| self.folder_of(&word));
            return Ok(());
        }
        self.redirects(&command)?;
        if reads(text) && command.runs_as == RunsAs::Caller {
            return Ok(());
        }
        self.check_words(&command)?;
        let planned = opaque::planned(&command).map_or_else(|| planned(&command), Ok)?;
        self.take(planned, &command.runs_as);
        Ok(())
    }

    fn take(&mut self, planned: Planned, runs_as: &RunsAs) {
        match planned {
            Planned::Section(section) => self.add(*section, runs_as),
            Planned::Line(line) => self.push(Entry::Line(line)),
            Planned::Nothing => {}
        }
    }

    fn add(&mut self, section: Section, runs_as: &RunsAs) {
        self.push(Entry::Section(section.view.clone()));
        self.sections.push((section, self.before.clone(), runs_as.clone()));
    }

    /// Adds the effects of a command's redirections on files.
    fn redirects(&mut self, command: &EffectiveCommand) -> Result<(), Reason> {
        for redirect in &command.redirects {
            let target = redirect.target.literal();
            let is_file = matches!(redirect.kind, RedirectKind::Write | RedirectKind::Append)
                && target.as_deref().is_none_or(|path| !path.starts_with("/dev/") || disks::is_disk(path));
            if !is_file {
                continue;
            }
            if !redirect.target.is_single() {
                return Err("the target of a redirection is unknown".to_owned());
            }
            if let Some(path) = target.as_deref().filter(|path| disks::is_disk(path)) {
                self.add(disks::section(Word::of(path), disks::DiskAction::Overwrite), &command.runs_as);
                continue;
            }
            let content = (redirect.descriptor == 1).then(|| write::content_of(command)).flatten();
            let append = redirect.kind == RedirectKind::Append;
            // The user's shell opens the file, even if the command runs with `sudo`.
            self.add(write::section(redirect.target.clone(), append, content), &RunsAs::Caller);
        }
        Ok(())
    }

    /// Checks that the words of a command do not depend on something that a probe cannot see.
    fn check_words(&self, command: &EffectiveCommand) -> Result<(), Reason> {
        let words = || command.arguments.iter();
        if self.place.context.dialect == Dialect::Zsh && words().any(|word| !word.is_single()) {
            return Err("zsh expands words differently".to_owned());
        }
        let unknown =
            words().flat_map(Word::variables).find(|name| !self.assigned.iter().any(|known| known == name));
        match unknown {
            Some(name) if self.place.is_shared_shell && !matches!(name, "HOME" | "USER") => {
                Err(format!("the value of ${name} in the terminal is unknown"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Handles commands that are joined by `|`. Previews `find … | xargs …`, `tee`, downloads that are run, and
    /// redirections to files. Fails for any other supported program, unless the command only reads, because its input
    /// is unknown.
    fn pipeline(
        &mut self,
        stages: &[SimpleText],
        runs_as: &RunsAs,
        reads: &dyn Fn(&str) -> bool,
    ) -> Result<(), Reason> {
        let mut commands = Vec::new();
        for stage in stages {
            match unwrap(stage, runs_as)? {
                Unwrapped::Command(command) => commands.push(command),
                Unwrapped::Assignments(_) | Unwrapped::Script(..) => {
                    return Err("the input comes from a pipe".to_owned());
                }
            }
        }
        if let [first, last] = commands.as_slice() {
            if let Some(section) = search::piped(first, last)? {
                self.check_words(first)?;
                self.add(section, &last.runs_as);
                return Ok(());
            }
            if last.program == "tee" {
                return self.tee(Some(first), last);
            }
        }
        if let Some(line) = opaque::piped(&commands) {
            self.push(Entry::Line(line));
            return Ok(());
        }
        for (stage, command) in stages.iter().zip(&commands) {
            self.redirects(command)?;
            let text = self.command.get(stage.start..stage.end).unwrap_or("");
            if command.program == "tee" {
                self.tee(None, command)?;
            } else if !reads(text) && is_known(&command.program) {
                return Err("the input comes from a pipe".to_owned());
            }
        }
        Ok(())
    }

    fn tee(&mut self, source: Option<&EffectiveCommand>, tee: &EffectiveCommand) -> Result<(), Reason> {
        let found = effective::split(&tee.arguments, "ai", "", &["append", "ignore-interrupts"])?;
        self.check_words(tee)?;
        let content = source.filter(|source| source.redirects.is_empty()).and_then(write::content_of);
        let content = content.or_else(|| tee.document.clone().flatten());
        for target in &found.operands {
            if target.literal().is_some_and(|path| path.starts_with("/dev/")) {
                continue;
            }
            if !target.is_single() {
                return Err("the file is unknown".to_owned());
            }
            let section = write::section(target.clone(), found.has(&["a", "-append"]), content.clone());
            self.add(section, &tee.runs_as);
        }
        Ok(())
    }

    fn finish(self) -> Option<PreviewPlan> {
        if self.effects.is_empty() {
            return None;
        }
        let text = |sudo: bool| {
            let numbered = self.sections.iter().enumerate();
            let sections = numbered.map(|(index, (section, before, runs_as))| {
                section_text(index, section, before, runs_as, sudo)
            });
            OPENING.to_owned() + &sections.collect::<String>()
        };
        let scripts = [text(false), text(true)];
        let class = self.sections.iter().map(|(section, ..)| section.class).max();
        let seconds = self.sections.iter().map(|(section, ..)| section.seconds).max();
        Some(PreviewPlan {
            effects: self.effects,
            omitted: self.omitted,
            scripts,
            class: class.unwrap_or(ProbeClass::ReadOnly),
            limit: Duration::from_secs(seconds.unwrap_or(probe::SECONDS)),
        })
    }
}

/// Returns true if previews support the program.
fn is_known(program: &str) -> bool {
    PROGRAMS.contains(&program) || program.starts_with("mkfs")
}

/// Programs that previews support, apart from `mkfs` and its variants.
const PROGRAMS: &[&str] = &[
    "rm", "rmdir", "unlink", "mv", "cp", "install", "chmod", "chown", "chgrp", "ln", "truncate", "sed",
    "find", "tee", "tar", "unzip", "rsync", "dd", "wipefs", "mount", "umount", "apt", "apt-get", "dpkg",
    "rpm", "dnf", "yum", "zypper", "apk", "pacman", "systemctl", "service", "kill", "pkill", "killall",
    "userdel", "deluser", "usermod", "passwd", "chage", "crontab", "sysctl", "git", "docker", "podman",
    "kubectl", "reboot", "shutdown", "poweroff", "halt", "patch", "xargs", "lvremove", "vgremove",
    "lvreduce", "shred", "gpasswd", "iptables", "ufw", "logrotate", "journalctl",
];

fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    match command.program.as_str() {
        "rm" | "rmdir" | "unlink" | "shred" => files::remove(command),
        "mv" | "cp" | "install" => transfer::planned(command),
        "chmod" => modes::chmod(command),
        "chown" | "chgrp" => modes::chown(command),
        "ln" => files::link(command),
        "truncate" => files::truncate(command),
        "tee" => write::tee(command),
        "sed" => stream_edit::planned(command),
        "patch" => stream_edit::patch(command),
        "find" => search::planned(command),
        "tar" | "unzip" => archives::planned(command),
        "rsync" => archives::rsync(command),
        "dd" | "wipefs" | "mount" | "umount" | "lvremove" | "vgremove" | "lvreduce" => {
            disks::planned(command)
        }
        program if program.starts_with("mkfs") => disks::planned(command),
        "apt" | "apt-get" | "dpkg" | "rpm" | "dnf" | "yum" | "zypper" | "apk" | "pacman" => {
            packages::planned(command)
        }
        "systemctl" | "service" => services::planned(command),
        "kill" | "pkill" | "killall" => processes::planned(command),
        "userdel" | "deluser" | "usermod" | "passwd" | "chage" | "gpasswd" => accounts::planned(command),
        "crontab" | "sysctl" | "reboot" | "shutdown" | "poweroff" | "halt" | "logrotate" | "journalctl"
        | "iptables" | "ufw" => system::planned(command),
        "git" => git::planned(command),
        "docker" | "podman" | "kubectl" => containers::planned(command),
        _ => Ok(Planned::Nothing),
    }
}

impl PreviewPlan {
    /// Returns the script of the probe, or `None` if the lines need no probe. `sudo` is true if the probe may use
    /// `sudo -n` for commands that use `sudo`.
    pub fn script(&self, sudo: bool) -> Option<&str> {
        (self.section_count() > 0).then(|| self.scripts[usize::from(sudo)].as_str())
    }

    fn section_count(&self) -> usize {
        self.effects.iter().filter(|effect| matches!(effect.entry, Entry::Section(_))).count()
    }

    pub fn class(&self) -> ProbeClass {
        self.class
    }

    /// Returns the time after which the host must stop the probe.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns the lines of a plan that needs no probe, or whose probe was not run for the reason `why`.
    pub fn lines_without(&self, why: &str) -> Vec<String> {
        self.lines(&[ProbeResult { host: String::new(), output: Err(why.to_owned()) }])
    }

    /// Returns the lines to show. The hosts are grouped by what would happen on them. The lines contain
    /// unchecked text from the hosts.
    pub fn lines(&self, results: &[ProbeResult]) -> Vec<String> {
        let mut groups: BTreeMap<Vec<Report>, Vec<&str>> = BTreeMap::new();
        for result in results {
            groups.entry(self.reports(&result.output)).or_default().push(&result.host);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        // Odd hosts first: they are what a user must look at.
        groups.sort_by_key(|(_, hosts)| hosts.len());
        let (summary, diff) = match groups.as_slice() {
            [] => return Vec::new(),
            [(reports, hosts)] => {
                let mut summary = self.summary(reports);
                if let (Some(first), true) = (summary.first_mut(), hosts.len() > 1) {
                    *first = format!("{}: {first}", report::counted(hosts.len() as u64, "host"));
                }
                (summary, cut_diff(&diff_of(reports)))
            }
            groups => {
                let parts: Vec<String> = groups
                    .iter()
                    .map(|(reports, hosts)| {
                        format!("{}: {}", hosts_text(hosts), self.summary(reports).join(", "))
                    })
                    .collect();
                let diffs = groups.iter().map(|(reports, hosts)| (hosts_text(hosts), diff_of(reports)));
                let diffs = diffs.filter(|(_, diff)| !diff.is_empty());
                let diffs: Vec<String> =
                    diffs.flat_map(|(hosts, diff)| [vec![format!("--- {hosts}")], diff].concat()).collect();
                (parts_in_lines(&parts), cut_diff(&diffs))
            }
        };
        let cut = |line: String| -> String {
            match line.char_indices().nth(LINE_CHARS_MAX) {
                Some((at, _)) => format!("{}…", line.get(..at).unwrap_or("")),
                None => line,
            }
        };
        summary.into_iter().chain(diff).map(cut).collect()
    }

    fn reports(&self, output: &Result<Vec<u8>, String>) -> Vec<Report> {
        let count = self.section_count();
        let mut sections = output.as_ref().map(|output| Records::by_section(output, count).into_iter());
        let mut report = |entry: &Entry| match entry {
            Entry::Line(line) => Ok(Report::from(line.clone())),
            Entry::Unknown(why) => Err(why.clone()),
            Entry::Section(view) => match &mut sections {
                Err(why) => Err((*why).clone()),
                Ok(sections) => read_section(view, &sections.next().unwrap_or_default()),
            },
        };
        let unknown = |why: Reason| Report::from(format!("effect unknown ({why})"));
        self.effects.iter().map(|effect| report(&effect.entry).unwrap_or_else(unknown)).collect()
    }

    /// Joins the summaries of several commands into at most [`SUMMARY_LINES_MAX`] lines.
    fn summary(&self, reports: &[Report]) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for (at, (effect, report)) in self.effects.iter().zip(reports).enumerate() {
            // The probe of a later command does not see the effect of an earlier one.
            let words = match (at, effect.follows_change) {
                (0, false) => "",
                (_, false) => "then, as of now: ",
                (0, true) => "depends on the step before; as of now: ",
                (_, true) => "then, depends on the step before; as of now: ",
            };
            if !reports[..at].contains(report) {
                lines.push(format!("{words}{}", report.summary));
            }
        }
        let more = lines.len().saturating_sub(SUMMARY_LINES_MAX);
        lines.truncate(SUMMARY_LINES_MAX);
        let effects = (more > 0).then(|| report::counted(more as u64, "more effect"));
        let commands = (self.omitted > 0).then(|| {
            let commands = report::counted(self.omitted as u64, "more command");
            format!("{commands} not previewed")
        });
        let rest: Vec<String> = effects.into_iter().chain(commands).collect();
        if let (Some(last), false) = (lines.last_mut(), rest.is_empty()) {
            last.push_str(&format!("; and {}", rest.join(", ")));
        }
        lines
    }
}

fn read_section(view: &View, records: &Records) -> Result<Report, Reason> {
    if let Some(why) = records.first("failed") {
        return Err(report::name(why));
    }
    if !records.has("end") {
        return Err("the probe did not finish".to_owned());
    }
    if let Some(count) = records.number("many") {
        return Err(format!("the command names {}, too many to check", report::counted(count, "path")));
    }
    let mut report = view.report(records)?;
    if records.has("nosudo") {
        report.summary.push_str(" (seen without sudo)");
    }
    Ok(report)
}

fn diff_of(reports: &[Report]) -> Vec<String> {
    reports.iter().flat_map(|report| report.diff.iter().cloned()).collect()
}

fn cut_diff(all: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = all.iter().take(DIFF_LINES_MAX).cloned().collect();
    if all.len() > DIFF_LINES_MAX {
        lines.truncate(DIFF_LINES_MAX - 1);
        lines.push(format!("… {}", report::counted((all.len() - DIFF_LINES_MAX + 1) as u64, "more line")));
    }
    lines
}

fn hosts_text(hosts: &[&str]) -> String {
    match hosts {
        [host] => report::name(host),
        hosts => {
            let count = report::counted(hosts.len() as u64, "host");
            format!("{count} ({})", report::names(hosts.iter().copied()))
        }
    }
}

/// Distributes the summaries of several groups of hosts over at most [`SUMMARY_LINES_MAX`] lines.
fn parts_in_lines(parts: &[String]) -> Vec<String> {
    match parts {
        [first, rest @ ..] if rest.len() > 2 => {
            let more = report::counted((rest.len() - 2) as u64, "other result");
            vec![first.clone(), format!("{}; {}; {more}", rest[0], rest[1])]
        }
        [first, rest @ ..] if !rest.is_empty() => vec![first.clone(), rest.join("; ")],
        parts => parts.to_vec(),
    }
}
