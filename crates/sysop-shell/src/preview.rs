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
//! - A preview has no influence on the risk of a command. The risk decides which commands of a long script are
//!   previewed, and which are shown first.

mod accounts;
mod archives;
mod containers;
mod disks;
mod effective;
mod files;
mod footprint;
mod git;
mod lines;
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

use std::time::Duration;

use self::effective::{EffectiveCommand, RunsAs, Unwrapped, check_name, unwrap};
use self::footprint::Footprint;
pub use self::probe::ProbeClass;
use self::probe::{OPENING, Records, Section, section_text};
use self::report::Report;
use self::scan::{Pipeline, Reason, RedirectKind, SimpleText, Word, scan};
use crate::context::{CommandContext, Dialect, ResolvedTarget, Survey};
use crate::risk::{Finding, RiskClass};

/// Maximum number of commands in one line that are probed.
const SECTIONS_MAX: usize = 6;

/// Maximum number of characters of a command that names an unknown effect.
const SUBJECT_CHARS_MAX: usize = 40;

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
    /// Number of the effect's command among the planned ones.
    command: usize,
    /// Text of the command; of the command that runs the script, if the command is part of a nested script.
    subject: String,
    rank: Rank,
    /// True if a command before it in the line may change what the probe sees.
    follows_change: bool,
}

/// Importance of an effect: the class of its command if that class always asks. All other commands are equally
/// important.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(Option<RiskClass>);

impl Rank {
    fn of(class: RiskClass) -> Self {
        Self(class.always_asks().then_some(class))
    }

    fn is_dangerous(self) -> bool {
        self.0.is_some()
    }
}

/// A probe, and the parsers for its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewPlan {
    /// In the order of the commands.
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
        Ok(pipelines) => {
            planner.find_dangers(command);
            planner.pipelines(&pipelines, &RunsAs::Caller, &reads);
        }
        Err(why) if opaque::is_known(command) => planner.push(Entry::Unknown(why)),
        Err(_) => {}
    }
    planner.finish()
}

/// Plans the preview of a file tool's write. Returns `None` if there is nothing to preview.
pub fn plan_write(path: &str, content: &str) -> Option<PreviewPlan> {
    let place = PreviewPlace::default();
    let mut planner = Planner::new("", &place);
    planner.add(write::tool_section(path, content), &RunsAs::Caller);
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
    /// Number of commands without a plan that may change something.
    omitted: usize,
    /// Dangerous parts of the script whose commands are being planned.
    dangers: Vec<Finding>,
    /// Number of planned commands.
    commands: usize,
    /// Rank and text of the current command.
    rank: Rank,
    subject: String,
    /// Lowest rank of a command of the nested script that is being planned, because of the command that runs the
    /// script.
    rank_min: Rank,
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
            dangers: Vec::new(),
            commands: 0,
            rank: Rank::default(),
            subject: String::new(),
            rank_min: Rank::default(),
            changes: Vec::new(),
            follows_change: false,
            folder: place.context.folder.clone(),
            nested: 0,
            sections: Vec::new(),
            before: Vec::new(),
            assigned: Vec::new(),
        }
    }

    /// Returns the text of a pipeline that is not part of a nested script, shortened.
    fn text_of(&self, pipeline: &[SimpleText]) -> Option<String> {
        let (first, last) = (pipeline.first()?, pipeline.last()?);
        let text = self.command.get(first.start..last.end)?.trim();
        let short: String = text.chars().take(SUBJECT_CHARS_MAX).collect();
        Some(if short.len() < text.len() { format!("{short}…") } else { short })
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

    /// Finds the dangerous parts of a script. The paths are those that the host has resolved.
    fn find_dangers(&mut self, script: &str) {
        let context = CommandContext { folder: self.folder.clone(), ..self.place.context.clone() };
        let survey = Survey { targets: self.place.resolved.clone(), ..Survey::elsewhere(context) };
        self.dangers = crate::analyze(script, &survey).risk.findings;
        self.dangers.retain(|finding| finding.class.always_asks());
    }

    /// Returns the rank of a pipeline of the script whose commands are being planned.
    fn rank_of(&self, pipeline: &[SimpleText]) -> Rank {
        let ([first, ..], [.., last]) = (pipeline, pipeline) else { return self.rank_min };
        let inside = self.dangers.iter().filter(|danger| danger.start < last.end && first.start < danger.end);
        inside.map(|danger| Rank::of(danger.class)).max().unwrap_or_default().max(self.rank_min)
    }

    /// Returns true if there are enough planned effects of this rank or a higher one.
    fn has_enough(&self, rank: Rank) -> bool {
        self.effects.iter().filter(|effect| effect.rank >= rank).count() >= SECTIONS_MAX
    }

    fn pipelines(&mut self, pipelines: &[Pipeline], runs_as: &RunsAs, reads: &dyn Fn(&str) -> bool) {
        for pipeline in pipelines {
            let footprint = self.footprint(pipeline);
            self.rank = self.rank_of(pipeline);
            if self.has_enough(self.rank) && !only_sets_place(pipeline, runs_as) {
                if self.may_change(pipeline, reads) {
                    self.omitted += 1;
                    self.changes.push(footprint);
                }
                continue;
            }
            self.commands += 1;
            if self.nested == 0 {
                self.subject = self.text_of(pipeline).unwrap_or_default();
            }
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
        let (command, rank, follows_change) = (self.commands, self.rank, self.follows_change);
        let subject = self.subject.clone();
        self.effects.push(PlannedEffect { entry, command, subject, rank, follows_change });
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
            Unwrapped::Script(script, runs_as) => return self.nested_script(&script, &runs_as),
        };
        if command.program == "cd" {
            let changed = self.change_folder(&command);
            if changed.is_err() {
                self.before.push("r failed 'the directory is unknown'; r end 1; exit".to_owned());
                self.folder = None;
            }
            return changed;
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

    /// Plans the commands of the script of `sh -c`.
    fn nested_script(&mut self, script: &str, runs_as: &RunsAs) -> Result<(), Reason> {
        let pipelines = scan(script)?;
        let before = (self.before.len(), self.assigned.len());
        let folder = self.folder.clone();
        let rank_min = self.rank_min;
        // A separate script: offsets of the outer command mean nothing there.
        let dangers = std::mem::take(&mut self.dangers);
        self.find_dangers(script);
        // If the script explains the rank of the outer command, its commands keep their own ranks and thus their order.
        let own_rank = self.dangers.iter().map(|danger| Rank::of(danger.class)).max().unwrap_or_default();
        self.rank_min = if own_rank < self.rank { self.rank } else { rank_min };
        self.nested += 1;
        self.pipelines(&pipelines, runs_as, &|_: &str| false);
        self.nested -= 1;
        self.rank_min = rank_min;
        self.dangers = dangers;
        self.folder = folder;
        self.before.truncate(before.0);
        self.assigned.truncate(before.1);
        Ok(())
    }

    fn change_folder(&mut self, cd: &EffectiveCommand) -> Result<(), Reason> {
        let (arguments, after_dashes) = match cd.arguments.as_slice() {
            [first, rest @ ..] if first.literal().as_deref() == Some("--") => (rest, true),
            arguments => (arguments, false),
        };
        let unknown = || "the target of `cd` is not one known path".to_owned();
        let [folder] = arguments else { return Err(unknown()) };
        if !folder.is_single() || (folder.beginning().starts_with('-') && !after_dashes) {
            return Err(unknown());
        }
        let failed = "{ r failed 'the directory does not exist'; r end 1; exit; }";
        self.before.push(format!("cd -- {} || {failed}", folder.source()));
        self.folder = folder.literal().and_then(|word| self.folder_of(&word));
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

    /// Drops the effects of the least dangerous commands if there are more than [`SECTIONS_MAX`].
    fn drop_surplus(&mut self) {
        let mut commands: Vec<(Rank, usize)> =
            self.effects.iter().map(|effect| (effect.rank, effect.command)).collect();
        commands.dedup();
        commands.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
        let count = |command: usize| self.effects.iter().filter(|effect| effect.command == command).count();
        let mut effects = 0;
        let mut kept: Vec<usize> = Vec::new();
        for (_, command) in &commands {
            if effects < SECTIONS_MAX {
                effects += count(*command);
                kept.push(*command);
            }
        }
        self.omitted += commands.len() - kept.len();
        let mut sections = std::mem::take(&mut self.sections).into_iter();
        for effect in &self.effects {
            if matches!(effect.entry, Entry::Section(_)) {
                let section = sections.next();
                self.sections.extend(section.filter(|_| kept.contains(&effect.command)));
            }
        }
        self.effects.retain(|effect| kept.contains(&effect.command));
    }

    fn finish(mut self) -> Option<PreviewPlan> {
        if self.effects.is_empty() {
            return None;
        }
        self.drop_surplus();
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

/// Returns true if a pipeline only sets what later commands use: their directory, or variables.
fn only_sets_place(pipeline: &[SimpleText], runs_as: &RunsAs) -> bool {
    let [simple] = pipeline else { return false };
    match unwrap(simple, runs_as) {
        Ok(Unwrapped::Assignments(_)) => true,
        Ok(Unwrapped::Command(command)) => command.program == "cd",
        Ok(Unwrapped::Script(..)) | Err(_) => false,
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
}
