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
const DIFF_LINES_MAX: usize = 200;
const LINE_CHARS_MAX: usize = 200;

impl PreviewPlan {
    /// Returns the lines of a plan that needs no probe, or whose probe was not run for the reason `why`.
    pub fn lines_without(&self, why: &str) -> Vec<String> {
        self.lines(&[ProbeResult { host: String::new(), output: Err(why.to_owned()) }])
    }

    /// Returns the lines to show. The hosts are grouped by what would happen on them. The lines contain
    /// unchecked text from the hosts.
    pub fn lines(&self, results: &[ProbeResult]) -> Vec<String> {
        let names_failures = self.names_failures(results);
        let mut groups: BTreeMap<GroupResult, Vec<&str>> = BTreeMap::new();
        for result in results {
            let of_host = match &result.output {
                Err(why) if names_failures => GroupResult::Failed(short_failure(why, &result.host)),
                output => GroupResult::Probed(self.reports(output)),
            };
            groups.entry(of_host).or_default().push(&result.host);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        // Odd hosts first: they are what a user must look at. Nothing is known about those whose probe failed.
        groups.sort_by_key(|(result, hosts)| (matches!(result, GroupResult::Failed(_)), hosts.len()));
        let (summary, diff) = match groups.as_slice() {
            [] => return Vec::new(),
            [(result, hosts)] => {
                let (mut lines, more) = self.group_summary(result);
                if let (Some(first), true) = (lines.first_mut(), hosts.len() > 1) {
                    *first = format!("{}: {first}", report::counted(hosts.len() as u64, "host"));
                }
                let mut lines: Vec<Vec<LinePart>> =
                    lines.into_iter().map(|text| vec![LinePart::of(text)]).collect();
                end_with(lines.last_mut(), &left_out(more, self.omitted));
                (lines, cut_diff(&diff_of(result)))
            }
            groups => {
                let parts = groups.iter().map(|(result, hosts)| self.group_parts(result, hosts));
                let mut lines = groups_in_lines(parts.collect());
                end_with(lines.last_mut(), &left_out(0, self.omitted));
                let diffs = groups.iter().map(|(result, hosts)| (hosts_text(hosts), diff_of(result)));
                let diffs = diffs.filter(|(_, diff)| !diff.is_empty());
                let diffs: Vec<String> =
                    diffs.flat_map(|(hosts, diff)| [vec![format!("--- {hosts}")], diff].concat()).collect();
                (lines, cut_diff(&diffs))
            }
        };
        let summary = summary.iter().map(|parts| line_of(parts));
        summary.chain(diff.iter().map(|line| cut(line, LINE_CHARS_MAX))).collect()
    }

    /// Returns true if a failed probe has one line about its host, and not one for each effect. Effects that are known
    /// without a probe are then left out, so they must be shown for another host.
    fn names_failures(&self, results: &[ProbeResult]) -> bool {
        let knows = |effect: &PlannedEffect| matches!(effect.entry, Entry::Line(_));
        let is_shown = || results.iter().any(|result| result.output.is_ok());
        results.len() > 1 && (is_shown() || !self.effects.iter().any(knows))
    }

    fn group_summary(&self, result: &GroupResult) -> (Vec<String>, usize) {
        match result {
            GroupResult::Probed(reports) => self.summary(reports),
            GroupResult::Failed(why) => (vec![format!("effect unknown ({why})")], 0),
        }
    }

    /// Returns the parts of the line about a group of hosts.
    fn group_parts(&self, result: &GroupResult, hosts: &[&str]) -> Vec<LinePart> {
        let (lines, more) = self.group_summary(result);
        let count = lines.len();
        let mut parts: Vec<LinePart> = lines.into_iter().map(LinePart::of).collect();
        for part in parts.iter_mut().take(count.saturating_sub(1)) {
            part.rest.push_str(", ");
        }
        if let Some(first) = parts.first_mut() {
            first.text.insert_str(0, &format!("{}: ", hosts_text(hosts)));
        }
        end_with(Some(&mut parts), &left_out(more, 0));
        parts
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
        let unknown = |effect: &PlannedEffect, why: Reason| {
            let subject = match report::command(&effect.subject) {
                subject if self.is_single() || subject.is_empty() => String::new(),
                subject => format!("`{subject}`: "),
            };
            Report::from(format!("{subject}effect unknown ({why})"))
        };
        let reports = self.effects.iter().map(|effect| (effect, report(&effect.entry)));
        reports.map(|(effect, report)| report.unwrap_or_else(|why| unknown(effect, why))).collect()
    }

    /// Joins the summaries of several commands: the dangerous ones first, then the others in their order. There are at
    /// most [`SUMMARY_LINES_MAX`] lines, or [`DANGEROUS_LINES_MAX`] about dangerous commands. Also returns the number
    /// of effects without a line.
    fn summary(&self, reports: &[Report]) -> (Vec<String>, usize) {
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
            let order = order_words(*at, previous, effect.follows_change);
            lines.push(match without_failures(&report.summary).filter(|_| effect.follows_change) {
                Some(certain) if certain.is_empty() => {
                    format!("{}{}", order.trim_end_matches(AS_OF_NOW), self.after_subject(effect))
                }
                Some(certain) => format!("{order}{certain}"),
                None => format!("{order}{}", report.summary),
            });
            previous = Some(*at);
        }
        (lines, more)
    }

    /// Returns the text of an effect's command, after a colon. Empty if the plan is about one effect only.
    fn after_subject(&self, effect: &PlannedEffect) -> String {
        match report::command(&effect.subject) {
            subject if self.is_single() || subject.is_empty() => String::new(),
            subject => format!(": `{subject}`"),
        }
    }

    fn is_single(&self) -> bool {
        self.omitted == 0 && self.effects.len() == 1
    }
}

/// The result that hosts have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum GroupResult {
    Probed(Vec<Report>),
    /// Reason why the probe did not run to its end.
    Failed(String),
}

/// Returns the reason why a probe failed without the host's name before it and without the hint after it.
fn short_failure(why: &str, host: &str) -> String {
    let why = why.strip_prefix(host).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(why);
    report::name(why.split_once("; ").map_or(why, |(failure, _)| failure))
}

/// Part of a line: a text that may be shortened, and the words after it, which are always shown.
#[derive(Debug)]
struct LinePart {
    text: String,
    rest: String,
}

impl LinePart {
    fn of(text: String) -> Self {
        Self { text, rest: String::new() }
    }
}

/// Adds words to the end of a line.
fn end_with(line: Option<&mut Vec<LinePart>>, words: &str) {
    if let Some(last) = line.and_then(|parts| parts.last_mut()) {
        last.rest.push_str(words);
    }
}

/// Returns the words about effects and commands without a line. Empty if there are none.
fn left_out(effects: usize, commands: usize) -> String {
    let effects = (effects > 0).then(|| report::counted(effects as u64, "more effect"));
    let commands = (commands > 0).then(|| {
        let commands = report::counted(commands as u64, "more command");
        format!("{commands} not previewed")
    });
    let words: Vec<String> = effects.into_iter().chain(commands).collect();
    if words.is_empty() { String::new() } else { format!("; and {}", words.join(", ")) }
}

/// Joins the parts of a line. If they do not fit into [`LINE_CHARS_MAX`], the longest texts are shortened: the words
/// about what is left out are shown, however long the line is.
fn line_of(parts: &[LinePart]) -> String {
    let chars = |text: &str| text.chars().count();
    let ellipses = parts.len().saturating_sub(1);
    let room =
        LINE_CHARS_MAX.saturating_sub(ellipses + parts.iter().map(|part| chars(&part.rest)).sum::<usize>());
    let fits = |limit: &usize| parts.iter().map(|part| chars(&part.text).min(*limit)).sum::<usize>() <= room;
    let limit = (0..=room).rev().find(fits).unwrap_or(0);
    parts.iter().map(|part| cut(&part.text, limit) + &part.rest).collect()
}

/// Shortens a line to a number of characters, and one for the ellipsis.
fn cut(line: &str, chars_max: usize) -> String {
    match line.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or("")),
        None => line.to_owned(),
    }
}

/// Returns a summary without what is said to fail, or `None` if nothing is. An earlier command may cure the failure.
/// The rest is empty if it says nothing else for certain, as in `nothing to move`.
fn without_failures(summary: &str) -> Option<String> {
    let fails = |note: &&str| note.starts_with("fails") || note.starts_with("will fail");
    let is_missing = summary.contains("effect unknown (") && summary.ends_with("does not exist)");
    let certain: Vec<&str> = summary.split("; ").filter(|note| !is_missing && !fails(note)).collect();
    if certain.len() == summary.split("; ").count() {
        return None;
    }
    let is_empty = certain.iter().all(|note| note.starts_with("nothing to ") || note.contains(" 0 of 0 "));
    Some(if is_empty { String::new() } else { certain.join("; ") })
}

/// End of the words about the order of effects, before what the probe saw.
const AS_OF_NOW: &str = "; as of now: ";

/// Returns the words before a line about the effect at `at`, if the line before is about the effect at `previous`. The
/// probe of a later command does not see the effect of an earlier one.
fn order_words(at: usize, previous: Option<usize>, follows_change: bool) -> &'static str {
    match (previous.map(|previous| previous < at), follows_change) {
        (None, false) => "",
        (None, true) if at == 0 => "depends on the command before; as of now: ",
        (None, true) => "depends on an earlier command; as of now: ",
        (Some(true), false) => "then, as of now: ",
        (Some(true), true) if previous.is_some_and(|previous| previous + 1 == at) => {
            "then, depends on the command before; as of now: "
        }
        (Some(true), true) => "then, depends on an earlier command; as of now: ",
        (Some(false), false) => "before that, as of now: ",
        (Some(false), true) => "before that, depends on an earlier command; as of now: ",
    }
}

fn read_section(view: &View, records: &Records) -> Result<Report, Reason> {
    if records.has("nosudo") && records.has("unseen") {
        return Err("the directory cannot be seen without sudo".to_owned());
    }
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

fn diff_of(result: &GroupResult) -> Vec<String> {
    match result {
        GroupResult::Probed(reports) => {
            reports.iter().flat_map(|report| report.diff.iter().cloned()).collect()
        }
        GroupResult::Failed(_) => Vec::new(),
    }
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
            format!("{count} ({})", report::host_names(hosts))
        }
    }
}

/// Distributes the parts about several groups of hosts over at most [`SUMMARY_LINES_MAX`] lines.
fn groups_in_lines(groups: Vec<Vec<LinePart>>) -> Vec<Vec<LinePart>> {
    let mut groups = groups.into_iter();
    let first = groups.next();
    let others = groups.len().saturating_sub(2);
    let mut second: Vec<LinePart> = Vec::new();
    for group in groups.take(2) {
        end_with(Some(&mut second), "; ");
        second.extend(group);
    }
    if others > 0 {
        end_with(Some(&mut second), &format!("; {}", report::counted(others as u64, "other result")));
    }
    first.into_iter().chain([second]).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::cut_diff;

    #[test]
    fn a_diff_is_shown_whole_up_to_200_lines() {
        let lines = |count: usize| (0..count).map(|number| format!("+{number}")).collect::<Vec<_>>();
        assert_eq!(cut_diff(&lines(200)), lines(200));
        let cut = cut_diff(&lines(201));
        assert_eq!(cut.len(), 200);
        assert_eq!(cut[199], "… 2 more lines");
    }
}
