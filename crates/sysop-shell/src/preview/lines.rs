//! The lines that a finished plan shows: the effects of the commands, the dangerous ones first, then the diffs.

use std::collections::BTreeMap;

use super::probe::Records;
use super::report::{self, Report};
use super::scan::Reason;
use super::{Entry, PlannedEffect, PreviewPlan, ProbeResult, View};

/// Maximum number of lines of a summary, unless more commands are dangerous.
const SUMMARY_LINES_MAX: usize = 2;
/// Maximum number of lines of a summary in which every line is about a dangerous command.
const DANGEROUS_LINES_MAX: usize = 4;
const DIFF_LINES_MAX: usize = 20;
const LINE_CHARS_MAX: usize = 200;

impl PreviewPlan {
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
        summary.iter().chain(&diff).map(|line| cut(line, LINE_CHARS_MAX)).collect()
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
        let is_single = self.omitted == 0 && self.effects.len() == 1;
        let unknown = |effect: &PlannedEffect, why: Reason| {
            let subject = match report::name(&effect.subject) {
                subject if is_single || subject.is_empty() => String::new(),
                subject => format!("`{subject}`: "),
            };
            Report::from(format!("{subject}effect unknown ({why})"))
        };
        let reports = self.effects.iter().map(|effect| (effect, report(&effect.entry)));
        reports.map(|(effect, report)| report.unwrap_or_else(|why| unknown(effect, why))).collect()
    }

    /// Joins the summaries of several commands: the dangerous ones first, then the others in their order. There are at
    /// most [`SUMMARY_LINES_MAX`] lines, or [`DANGEROUS_LINES_MAX`] about dangerous commands.
    fn summary(&self, reports: &[Report]) -> Vec<String> {
        let mut all: Vec<(usize, &PlannedEffect, &Report)> = self
            .effects
            .iter()
            .zip(reports)
            .enumerate()
            .map(|(at, (effect, report))| (at, effect, report))
            .collect();
        all.sort_by_key(|(_, effect, _)| std::cmp::Reverse(effect.rank));
        let mut shown: Vec<&(usize, &PlannedEffect, &Report)> = Vec::new();
        for one in &all {
            if shown.iter().all(|(_, _, report)| *report != one.2) {
                shown.push(one);
            }
        }
        let dangerous = shown.iter().filter(|(_, effect, _)| effect.rank.is_dangerous()).count();
        let lines_max = dangerous.clamp(SUMMARY_LINES_MAX, DANGEROUS_LINES_MAX);
        let more = shown.len().saturating_sub(lines_max);
        shown.truncate(lines_max);
        let mut previous = None;
        let mut lines: Vec<String> = Vec::new();
        for (at, effect, report) in shown {
            lines.push(format!("{}{}", order_words(*at, previous, effect.follows_change), report.summary));
            previous = Some(*at);
        }
        let effects = (more > 0).then(|| report::counted(more as u64, "more effect"));
        let commands = (self.omitted > 0).then(|| {
            let commands = report::counted(self.omitted as u64, "more command");
            format!("{commands} not previewed")
        });
        let rest: Vec<String> = effects.into_iter().chain(commands).collect();
        if let (Some(last), false) = (lines.last_mut(), rest.is_empty()) {
            // What is left out must be told, however long the line is.
            let rest = format!("; and {}", rest.join(", "));
            *last = cut(last, LINE_CHARS_MAX.saturating_sub(rest.chars().count() + 1)) + &rest;
        }
        lines
    }
}

/// Shortens a line to a number of characters, and one for the ellipsis.
fn cut(line: &str, chars_max: usize) -> String {
    match line.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or("")),
        None => line.to_owned(),
    }
}

/// Returns the words before a line about the effect at `at`, if the line before is about the effect at `previous`. The
/// probe of a later command does not see the effect of an earlier one.
fn order_words(at: usize, previous: Option<usize>, follows_change: bool) -> &'static str {
    match (previous.map(|previous| previous < at), follows_change) {
        (None, false) => "",
        (None, true) if at == 0 => "depends on the step before; as of now: ",
        (None, true) => "depends on an earlier step; as of now: ",
        (Some(true), false) => "then, as of now: ",
        (Some(true), true) if previous.is_some_and(|previous| previous + 1 == at) => {
            "then, depends on the step before; as of now: "
        }
        (Some(true), true) => "then, depends on an earlier step; as of now: ",
        (Some(false), false) => "before that, as of now: ",
        (Some(false), true) => "before that, depends on an earlier step; as of now: ",
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
