//! What the analysis gathers as it goes, and the bounds it keeps to. Knows nothing of shell grammar.

use std::rc::Rc;

use super::folders::Folders;
use super::lexer::Word;
use super::{Analysis, Invocation};
use crate::context::{Access, Dialect, Resolution, Survey, Target};
use crate::risk::{Finding, Risk, RiskClass};

/// Most findings kept; the class still counts those beyond.
const FINDINGS_MAX: usize = 64;
/// Most simple commands looked at, over all nested scripts; past it the command is too complex to judge.
const STEPS_MAX: usize = 2048;
/// Most words looked at, over all nested scripts and guesses.
const WORDS_MAX: usize = 65_536;
/// Most bytes parsed, over all nested scripts.
const SCRIPT_BYTES_MAX: usize = 4 * super::COMMAND_BYTES_MAX;
/// Deepest nesting of grammar nodes, wrappers and quoted scripts together.
const DEPTH_MAX: usize = 160;
/// Most paths recorded; a host that resolves them sees no more, and those beyond are judged as not resolved.
const TARGETS_MAX: usize = 256;

/// Bytes from and past, in the command as it was given.
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
    depth: usize,
    targets: Vec<Target>,
    /// Those of them whose content the command changes.
    written: Vec<Target>,
    /// Set while a program is judged that changes no content, as `chmod` does not.
    pub(super) keeps_content: bool,
    /// Where a secret is named by what does not read it.
    pub(super) secret_name: Option<Span>,
    /// A program reads files whose names are not in its arguments as written.
    pub(super) reads_names: bool,
    /// The root of the workspace, if nothing that is protected or secret lies around it.
    pub(super) ordinary_root: Option<String>,
    /// What the host told.
    pub(super) survey: Rc<Survey>,
    /// The language of the script that is read now.
    pub(super) dialect: Dialect,
    /// Where the command begins.
    start: Folders,
    /// Where relative paths start, absolute. Empty for a start that only the machine knows which judges the command again.
    pub(super) folders: Folders,
}

impl State {
    /// Nothing found yet, in the circumstances of a survey.
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
            depth: 0,
            targets: Vec::new(),
            written: Vec::new(),
            keeps_content: false,
            secret_name: None,
            reads_names: false,
            ordinary_root: None,
            dialect: survey.context.dialect,
            folders: start.clone(),
            start,
            survey,
        }
    }

    /// Whether the shell may have left the folder that the command began in.
    pub(super) fn has_moved(&self) -> bool {
        self.folders != self.start
    }

    /// Records a path that the command uses; false when there are too many.
    pub(super) fn add_target(&mut self, target: Target) -> bool {
        if target.access == Access::Write && !self.keeps_content && self.written.len() < TARGETS_MAX {
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

    /// Paths whose content the command changes, so far.
    pub(super) fn written(&self) -> &[Target] {
        &self.written
    }

    /// Simple commands so far.
    pub(super) fn invocations(&self) -> &[Invocation] {
        &self.invocations
    }

    /// Paths recorded so far.
    pub(super) fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Records a finding and raises the class to it.
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

    /// Raises the class without a word: for what is plain to see.
    pub(super) fn raise(&mut self, class: RiskClass) {
        self.class = self.class.max(class);
    }

    /// Runs `inner` with a class of its own and tells it; the whole keeps the worse of both.
    pub(super) fn class_of(&mut self, inner: impl FnOnce(&mut Self)) -> RiskClass {
        let before = std::mem::replace(&mut self.class, RiskClass::ReadOnly);
        inner(self);
        let found = self.class;
        self.class = found.max(before);
        found
    }

    /// Runs `inner` aside, and takes over of what it finds only the dangers that count; its bounds are those of the whole.
    pub(super) fn adopt_dangers(&mut self, inner: impl FnOnce(&mut Self), counts: impl Fn(&Finding) -> bool) {
        let mut aside = Self {
            steps: self.steps,
            words: self.words,
            script_bytes: self.script_bytes,
            exhausted: self.exhausted,
            depth: self.depth,
            folders: self.folders.clone(),
            dialect: self.dialect,
            ordinary_root: self.ordinary_root.clone(),
            ..Self::new(Rc::clone(&self.survey))
        };
        inner(&mut aside);
        let Self { steps, words, script_bytes, exhausted, findings, invocations, targets, .. } = aside;
        (self.steps, self.words, self.script_bytes, self.exhausted) = (steps, words, script_bytes, exhausted);
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

    /// Goes one level deeper, or notes that it is too deep and does not.
    pub(super) fn with_depth(&mut self, span: Span, inner: impl FnOnce(&mut Self)) {
        if self.exhausted {
            return;
        }
        if self.depth >= DEPTH_MAX {
            self.note(span, RiskClass::Dangerous, "nested too deep to analyze");
            return;
        }
        self.depth += 1;
        inner(self);
        self.depth -= 1;
    }

    /// Counts one simple command and keeps its words; false when there have been too many.
    pub(super) fn count_command(&mut self, span: Span, words: &[Word]) -> bool {
        self.steps += 1;
        self.words += words.len();
        if !self.within_bounds(span) {
            return false;
        }
        let words = words.iter().map(|word| word.literal().map(str::to_owned)).collect();
        self.invocations.push(Invocation { words });
        true
    }

    /// Counts the bytes of one more script; false when there have been too many.
    pub(super) fn read(&mut self, span: Span, bytes: usize) -> bool {
        self.script_bytes += bytes;
        self.within_bounds(span)
    }

    fn within_bounds(&mut self, span: Span) -> bool {
        let within =
            self.steps <= STEPS_MAX && self.words <= WORDS_MAX && self.script_bytes <= SCRIPT_BYTES_MAX;
        if !within && !self.exhausted {
            self.exhausted = true;
            self.note(span, RiskClass::Dangerous, "too complex to analyze");
        }
        within
    }

    pub(super) fn into_analysis(mut self) -> Analysis {
        if let Some(span) = self.secret_name.filter(|_| self.reads_names) {
            self.note(span, RiskClass::ReadsSecret, "names a secret for a program that reads it");
        }
        self.findings.sort_by_key(|finding| (finding.start, finding.end, std::cmp::Reverse(finding.class)));
        Analysis {
            risk: Risk { class: self.class, findings: self.findings },
            invocations: self.invocations,
            targets: self.targets,
        }
    }
}
