//! State of one analysis: findings, bounds and directories. Does not depend on the grammar.

use std::rc::Rc;

use super::folders::Folders;
use super::lexer::Word;
use super::write_effect::WriteEffect;
use super::{Analysis, Invocation};
use crate::context::{Access, Dialect, Resolution, Survey, Target};
use crate::risk::{Finding, Risk, RiskClass};

/// Maximum number of findings that are kept. A further finding still raises the class, and replaces the mildest finding
/// if it is worse.
const FINDINGS_MAX: usize = 64;
/// Maximum number of simple commands over all nested scripts. More are too complex to analyze.
const STEPS_MAX: usize = 2048;
/// Maximum number of words analyzed over all nested scripts and all guesses of where a command starts.
const WORDS_MAX: usize = 65_536;
/// Maximum bytes parsed across all nested scripts.
const SCRIPT_BYTES_MAX: usize = 4 * super::COMMAND_BYTES_MAX;
/// Maximum nesting depth, which counts grammar nodes, wrappers and nested scripts together.
const DEPTH_MAX: usize = 160;
/// Maximum number of paths recorded. Further paths are not reported to the host and are assessed as unresolved.
const TARGETS_MAX: usize = 256;

/// Reason for a word whose value the text does not tell.
pub(super) const RUN_TIME_WORD: &str = "a word that is known only at run time";
const RUN_TIME_OPTION: &str = "an option computed at run time";

/// Reasons that name a construct. In a script file, the script contains it.
const CONSTRUCTS: &[&str] = &[
    "a loop",
    "a condition",
    "a substitution",
    "arithmetic",
    "braces that become several words",
    RUN_TIME_WORD,
];

/// Start and end offset, in bytes, in the command being analyzed.
pub(super) type Span = (usize, usize);

/// Findings, invocations and bounds of one analysis.
#[derive(Debug)]
pub(super) struct State {
    class: RiskClass,
    findings: Vec<Finding>,
    invocations: Vec<Invocation>,
    steps: usize,
    words: usize,
    script_bytes: usize,
    exhausted: bool,
    /// True if a part of the text was not analyzed.
    is_partial: bool,
    depth: usize,
    targets: Vec<Target>,
    /// Targets whose content the command changes.
    written: Vec<Target>,
    /// Effect of the program being assessed on the paths that it writes.
    pub(super) write_effect: WriteEffect,
    /// Span of the first secret that is named in the arguments of a program that handles only names.
    pub(super) secret_name: Option<Span>,
    /// True if some program in the command reads files whose names are known only at run time.
    pub(super) reads_names: bool,
    /// Root of the workspace; `None` if it lies in or contains a protected or secret place.
    pub(super) ordinary_root: Option<String>,
    pub(super) survey: Rc<Survey>,
    /// Dialect of the script being read.
    pub(super) dialect: Dialect,
    /// True if the shell that is being assessed ends with the command or before it.
    pub(super) own_shell: bool,
    start: Folders,
    /// Absolute directories from which relative paths start. An empty path stands for the unknown initial
    /// directory on another machine, which will assess the command again.
    pub(super) folders: Folders,
}

impl State {
    pub(super) fn new(survey: Rc<Survey>) -> Self {
        let unnamed = (survey.resolution == Resolution::Elsewhere).then(String::new);
        let start = Folders::of(survey.context.folder.clone().or(unnamed));
        Self {
            class: RiskClass::ReadOnly,
            findings: Vec::new(),
            invocations: Vec::new(),
            steps: 0,
            words: 0,
            script_bytes: 0,
            exhausted: false,
            is_partial: false,
            depth: 0,
            targets: Vec::new(),
            written: Vec::new(),
            write_effect: WriteEffect::Write,
            secret_name: None,
            reads_names: false,
            ordinary_root: None,
            dialect: survey.context.dialect,
            own_shell: survey.context.own_shell,
            folders: start.clone(),
            start,
            survey,
        }
    }

    /// Returns true if the shell may have left its initial directory.
    pub(super) fn has_moved(&self) -> bool {
        self.folders != self.start
    }

    /// Records a path that the command uses. Returns false if too many paths were recorded before.
    pub(super) fn add_target(&mut self, target: Target) -> bool {
        if target.access == Access::Write
            && !self.write_effect.keeps_content()
            && self.written.len() < TARGETS_MAX
        {
            self.written.push(target.clone());
        }
        if self.targets.contains(&target) {
            return true;
        }
        let fits = self.targets.len() < TARGETS_MAX;
        if fits {
            self.targets.push(target);
        }
        fits
    }

    /// Returns the paths recorded so far whose content the command changes.
    pub(super) fn written(&self) -> &[Target] {
        &self.written
    }

    /// Returns the simple commands analyzed so far.
    pub(super) fn invocations(&self) -> &[Invocation] {
        &self.invocations
    }

    /// Returns the paths recorded so far.
    pub(super) fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Records a finding and raises the class accordingly.
    pub(super) fn note(&mut self, span: Span, class: RiskClass, why: &str) {
        self.raise(class);
        let finding = Finding { start: span.0, end: span.1, class, why: why.to_owned() };
        if self.findings.contains(&finding) {
            return;
        }
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else if let Some(mildest) = self.findings.iter_mut().min_by_key(|kept| kept.class)
            && mildest.class < class
        {
            *mildest = finding;
        }
    }

    /// Records that a part of the text is not analyzed, which is dangerous.
    pub(super) fn note_unread(&mut self, span: Span, why: &str) {
        self.is_partial = true;
        self.note(span, RiskClass::Dangerous, why);
    }

    /// Records that the script being read is for a shell whose syntax is not analyzed, or for a shell that the host did
    /// not name.
    pub(super) fn note_unknown_syntax(&mut self, span: Span) {
        let survey = Rc::clone(&self.survey);
        let why = survey.incomplete.as_deref().filter(|_| self.dialect == Dialect::Unknown);
        self.note(span, RiskClass::Opaque, why.unwrap_or("sysop cannot analyze this shell's syntax"));
    }

    /// Records that a word, whose value the text does not tell, may be an option. This replaces the finding about its
    /// value.
    pub(super) fn note_run_time_option(&mut self, span: Span) {
        self.findings.retain(|known| (known.start, known.end) != span || known.why != RUN_TIME_WORD);
        self.note(span, RiskClass::Opaque, RUN_TIME_OPTION);
    }

    /// Says of the constructs found in a script file at this span that the script contains them. Returns true if there
    /// are any.
    pub(super) fn attribute_to_script(&mut self, span: Span) -> bool {
        let of_script = |found: &&mut Finding| {
            (found.start, found.end) == span && CONSTRUCTS.contains(&found.why.as_str())
        };
        let mut any = false;
        for found in self.findings.iter_mut().filter(of_script) {
            found.why = format!("runs a script that contains {}", found.why);
            any = true;
        }
        any
    }

    /// Raises the class for an obvious effect, which needs no finding.
    pub(super) fn raise(&mut self, class: RiskClass) {
        self.class = self.class.max(class);
    }

    /// Runs `inner` with the lowest class as the current class, and returns the class that results. Afterwards, the
    /// overall class is the worse of the returned class and the class before the call.
    pub(super) fn class_of(&mut self, inner: impl FnOnce(&mut Self)) -> RiskClass {
        let before = std::mem::replace(&mut self.class, RiskClass::ReadOnly);
        inner(self);
        let found = self.class;
        self.class = found.max(before);
        found
    }

    /// Runs `inner` on a copy of the state. Adopts its simple commands and paths, but only those of its findings that
    /// are dangerous and that `counts` accepts. Its steps, words and bytes count toward the overall bounds.
    pub(super) fn adopt_dangers(&mut self, inner: impl FnOnce(&mut Self), counts: impl Fn(&Finding) -> bool) {
        let mut aside = Self {
            steps: self.steps,
            words: self.words,
            script_bytes: self.script_bytes,
            exhausted: self.exhausted,
            depth: self.depth,
            folders: self.folders.clone(),
            dialect: self.dialect,
            own_shell: self.own_shell,
            ordinary_root: self.ordinary_root.clone(),
            ..Self::new(Rc::clone(&self.survey))
        };
        inner(&mut aside);
        let Self { steps, words, script_bytes, exhausted, is_partial, .. } = aside;
        let Self { findings, invocations, targets, .. } = aside;
        (self.steps, self.words, self.script_bytes, self.exhausted) = (steps, words, script_bytes, exhausted);
        self.is_partial |= is_partial;
        self.invocations.extend(invocations);
        for target in targets {
            self.add_target(target);
        }
        for finding in
            findings.into_iter().filter(|found| found.class >= RiskClass::Dangerous && counts(found))
        {
            self.note((finding.start, finding.end), finding.class, &finding.why);
        }
    }

    /// Runs `inner` to assess a shell that the command starts and that does not outlive the command.
    pub(super) fn in_own_shell<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.own_shell, true);
        let result = inner(self);
        self.own_shell = outer;
        result
    }

    /// Runs `inner` one level deeper, or notes that the nesting is too deep. Does nothing once a bound has been
    /// exceeded.
    pub(super) fn with_depth(&mut self, span: Span, inner: impl FnOnce(&mut Self)) {
        if self.exhausted {
            return;
        }
        if self.depth >= DEPTH_MAX {
            self.note_unread(span, "nested too deeply to analyze");
            return;
        }
        self.depth += 1;
        inner(self);
        self.depth -= 1;
    }

    /// Counts one simple command and stores its words. Returns false if a bound is exceeded.
    pub(super) fn count_command(&mut self, span: Span, words: &[Word]) -> bool {
        self.steps += 1;
        self.words += words.len();
        if !self.within_bounds(span) {
            return false;
        }
        let words = words.iter().map(|word| word.literal().map(str::to_owned)).collect();
        self.invocations.push(Invocation { words, span });
        true
    }

    /// Counts the bytes of one more script. Returns false if a bound is exceeded.
    pub(super) fn read(&mut self, span: Span, bytes: usize) -> bool {
        self.script_bytes += bytes;
        self.within_bounds(span)
    }

    fn within_bounds(&mut self, span: Span) -> bool {
        let within =
            self.steps <= STEPS_MAX && self.words <= WORDS_MAX && self.script_bytes <= SCRIPT_BYTES_MAX;
        if !within && !self.exhausted {
            self.exhausted = true;
            self.note_unread(span, "too complex to analyze");
        }
        within
    }

    pub(super) fn into_analysis(mut self) -> Analysis {
        if let Some(span) = self.secret_name.filter(|_| self.reads_names) {
            self.note(span, RiskClass::ReadsSecret, "passes a secret to a program");
        }
        self.findings.sort_by_key(|finding| (finding.start, finding.end, std::cmp::Reverse(finding.class)));
        Analysis {
            risk: Risk { class: self.class, findings: self.findings },
            invocations: self.invocations,
            targets: self.targets,
            is_partial: self.is_partial,
        }
    }
}
