//! Combines the results of a call on several hosts into one outcome. Hosts with the same result form a group and are
//! reported once; outliers come first. The text stays within the limits of a single host.

use std::collections::HashMap;
use std::sync::Arc;

use sysop_core::host_names::fold_names;
use sysop_core::outcome::{FileChange, HostOutcome, Outcome, Reversibility, Status, SystemChange};
use sysop_core::style::StyleRuns;
use sysop_core::text::neutralize_line;
use sysop_core::ui_text::counted;
use sysop_core::undo::{UndoRecord, split_undo_note};

use crate::output::OutputLimits;
use crate::output::artifacts::Artifacts;
use crate::output::capture::joined;
use crate::output::head_tail::{HeadTail, newlines};

/// Maximum bytes of host names in one line. They also take at most 1/`NAMES_PART` of the output limit.
const NAMES_BYTES_MAX: usize = 1024;
const NAMES_PART: usize = 8;
/// Minimum bytes and lines to show of each group. If there is not enough space for them, some groups are left out.
const GROUP_BYTES_MIN: usize = 512;
const GROUP_LINES_MIN: usize = 5;
/// Bytes and lines reserved for a notice that output or groups were left out.
const NOTICE_BYTES: usize = 128;
const NOTICE_LINES: usize = 1;
/// Bytes reserved for the fixed text of the notice that a section is truncated.
const HEADING_BYTES: usize = 64;

pub(super) struct HostResult {
    name: Arc<str>,
    pub(super) outcome: Outcome,
}

impl HostResult {
    pub(super) fn new(name: &Arc<str>, outcome: Outcome) -> Self {
        Self { name: Arc::clone(name), outcome }
    }
}

/// Indexes of hosts with the same result; never empty.
struct ResultGroup(Vec<usize>);

impl ResultGroup {
    fn first<'a>(&self, told: &'a [HostResult]) -> &'a Outcome {
        &told[self.0[0]].outcome
    }
}

/// Checks the results of the canary hosts. If the call must not run on the other hosts, returns the status and the
/// message to report for them; otherwise, returns `None`.
pub(super) async fn canary_failure(
    told: &mut [HostResult],
    artifacts: &Artifacts,
) -> Option<(Status, String)> {
    if told.iter().any(|told| told.outcome.status == Status::Cancelled) {
        return Some((
            Status::Cancelled,
            "not run: the call was stopped before it reached this host".to_owned(),
        ));
    }
    if let Some(bad) = told.iter().find(|told| told.outcome.status != Status::Ok) {
        let why = format!("not run: {} in the canary group ended with: {}", bad.name, end(&bad.outcome));
        return Some((Status::Rejected, why));
    }
    if groups(told, artifacts).await.len() == 1 {
        return None;
    }
    let canaries = names(told.iter(), NAMES_BYTES_MAX);
    let canaries = if told.len() == 2 { canaries.replace(", ", " and ") } else { canaries };
    let why = format!("not run: the canary hosts {canaries} gave different results");
    Some((Status::Rejected, why))
}

pub(super) async fn report(
    mut told: Vec<HostResult>,
    limits: OutputLimits,
    artifacts: &Artifacts,
) -> Outcome {
    let groups = groups(&mut told, artifacts).await;
    let mut hosts: Vec<HostOutcome> = told
        .iter()
        .map(|HostResult { name, outcome }| HostOutcome {
            host: name.to_string(),
            status: outcome.status,
            exit_code: outcome.exit_code,
            duration_ms: outcome.duration_ms,
            group: 0,
            unreachable: outcome.unreachable.then(|| first_line(&outcome.output)),
        })
        .collect();
    for (number, group) in (1..).zip(&groups) {
        for &place in &group.0 {
            hosts[place].group = number;
        }
    }
    let changes = told.iter_mut().flat_map(|HostResult { name, outcome }| {
        let changes = std::mem::take(&mut outcome.changes);
        changes
            .into_iter()
            .map(move |change| FileChange { path: format!("{name}:{}", change.path), ..change })
    });
    let changes = changes.collect();
    let changed = told.iter_mut().flat_map(|HostResult { name, outcome }| {
        let changed = std::mem::take(&mut outcome.changed);
        changed
            .into_iter()
            .map(move |change| SystemChange { name: format!("{name}:{}", change.name), ..change })
    });
    let changed = changed.collect();
    let undo = told
        .iter()
        .filter_map(|told| told.outcome.undo)
        .reduce(|one, other| if one == other { one } else { Reversibility::Partly });
    let records = told.iter_mut().flat_map(|HostResult { name, outcome }| {
        let records = std::mem::take(&mut outcome.records);
        records.into_iter().map(move |record| UndoRecord { host: name.to_string(), ..record })
    });
    let records = records.collect();
    let undo_ms = told.iter().map(|told| told.outcome.undo_ms).max().unwrap_or(0);
    let mut page = ReportWriter { told: &told, limits, artifacts, artifact: None, truncated: false };
    let (output, styles) = page.write(&groups).await;
    let exit_code = told.first().and_then(|told| told.outcome.exit_code);
    Outcome {
        status: status(&told),
        output,
        styles,
        exit_code: exit_code.filter(|_| told.iter().all(|told| told.outcome.exit_code == exit_code)),
        truncated: page.truncated || told.iter().any(|told| told.outcome.truncated),
        artifact: page.artifact,
        duration_ms: 0,
        undo_ms,
        job: None,
        changes,
        hosts,
        changed,
        undo,
        records,
        images: Vec::new(),
        unreachable: false,
    }
}

/// Returns the status of the whole call, which is the worst status of any host. If the call was rejected on some hosts
/// only, it counts as failed, not as rejected.
fn status(told: &[HostResult]) -> Status {
    let statuses = || told.iter().map(|told| told.outcome.status);
    let worst = statuses().max_by_key(|status| severity(*status)).unwrap_or(Status::Ok);
    if worst == Status::Interrupted {
        Status::Unknown
    } else if worst == Status::Rejected && statuses().any(|status| status != worst) {
        Status::Failed
    } else {
        worst
    }
}

fn severity(status: Status) -> u8 {
    match status {
        Status::Ok => 0,
        Status::Rejected => 1,
        Status::Failed => 2,
        Status::Timeout => 3,
        Status::Cancelled => 4,
        Status::Interrupted => 5,
        Status::Unknown => 6,
    }
}

fn first_line(text: &str) -> String {
    neutralize_line(text.lines().next().unwrap_or_default()).into_owned()
}

fn end(outcome: &Outcome) -> String {
    match (outcome.exit_code, outcome.status) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Status::Timeout) => "timed out".to_owned(),
        (None, Status::Cancelled) => "stopped".to_owned(),
        (None, Status::Unknown) => "the result is unknown".to_owned(),
        (None, Status::Rejected) => "not run".to_owned(),
        (None, status @ (Status::Ok | Status::Failed | Status::Interrupted)) => status.as_str().to_owned(),
    }
}

/// Returns the output, and the lines at its end that say why there is no undo, without the line between them if it only
/// repeats the exit code, which the heading tells.
fn without_exit_code(outcome: &Outcome) -> (&str, &str) {
    let mut text = outcome.output.as_str();
    while let Some((before, _)) = split_undo_note(text) {
        text = before;
    }
    let notes = outcome.output[text.len()..].trim_start_matches('\n');
    let line = outcome.exit_code.map(|code| format!("[exit code {code}]"));
    let before = line.and_then(|line| text.strip_suffix(&line));
    let before = before.filter(|before| before.is_empty() || before.ends_with('\n'));
    before.map_or((&outcome.output, ""), |before| (before, notes))
}

/// Groups the hosts by result. Smaller groups come first; among groups of the same size, those with the worst result
/// come first. Hosts that did not run the call come last.
async fn groups(told: &mut [HostResult], artifacts: &Artifacts) -> Vec<ResultGroup> {
    let mut places: HashMap<(&str, Option<i32>, String), usize> = HashMap::new();
    let mut groups: Vec<ResultGroup> = Vec::new();
    for (place, HostResult { outcome, .. }) in told.iter().enumerate() {
        // Artifact names are unique, even if the results are the same.
        let text = match &outcome.artifact {
            Some(name) => outcome.output.replace(name.as_str(), ""),
            None => outcome.output.clone(),
        };
        let next = groups.len();
        match *places.entry((outcome.status.as_str(), outcome.exit_code, text)).or_insert(next) {
            known if known < next => groups[known].0.push(place),
            _ => groups.push(ResultGroup(vec![place])),
        }
    }
    drop(places);
    let mut split = Vec::new();
    for group in groups {
        split.extend(by_artifact(group, told, artifacts).await);
    }
    split.sort_by_key(|group| {
        let status = group.first(told).status;
        (status == Status::Rejected, group.0.len(), u8::MAX - severity(status), group.0[0])
    });
    split
}

/// Splits a group by the contents of its artifacts, because the text does not show them. If several artifacts are
/// equal, only one of them is kept.
async fn by_artifact(group: ResultGroup, told: &mut [HostResult], artifacts: &Artifacts) -> Vec<ResultGroup> {
    if group.0.len() == 1 || group.first(told).artifact.is_none() {
        return vec![group];
    }
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut split: Vec<ResultGroup> = Vec::new();
    for place in group.0 {
        let name = told[place].outcome.artifact.clone().unwrap_or_default();
        let hash = artifacts.output_hash(&name).await.unwrap_or_else(|_| name.clone());
        let next = split.len();
        let number = *known.entry(hash).or_insert(next);
        if number == next {
            split.push(ResultGroup(vec![place]));
            continue;
        }
        let kept = split[number].first(told);
        let (text, styles, kept) = (kept.output.clone(), kept.styles.clone(), kept.artifact.clone());
        if kept.as_ref() != Some(&name) {
            artifacts.remove_output(&name).await;
        }
        let outcome = &mut told[place].outcome;
        (outcome.output, outcome.styles, outcome.artifact) = (text, styles, kept);
        split[number].0.push(place);
    }
    split
}

/// Joins the names of hosts, consecutive ones as a range. If they do not fit into `bytes_max` bytes, joins as many
/// names as fit, and appends the number of the remaining names.
fn names<'a>(told: impl IntoIterator<Item = &'a HostResult>, bytes_max: usize) -> String {
    let names: Vec<&str> = told.into_iter().map(|told| &*told.name).collect();
    let folded = fold_names(&names);
    if folded.len() <= bytes_max {
        return folded;
    }
    let mut line = String::new();
    for (at, name) in names.iter().enumerate() {
        if !line.is_empty() && line.len() + name.len() + 2 > bytes_max {
            return format!("{line} and {} more", names.len() - at);
        }
        if !line.is_empty() {
            line.push_str(", ");
        }
        line.push_str(name);
    }
    line
}

struct ReportWriter<'a> {
    told: &'a [HostResult],
    limits: OutputLimits,
    artifacts: &'a Artifacts,
    /// First artifact that the report mentions.
    artifact: Option<String>,
    truncated: bool,
}

struct ReportSection<'a> {
    heading: String,
    body: String,
    styles: StyleRuns,
    outcome: &'a Outcome,
}

impl ReportSection<'_> {
    fn lines(&self) -> usize {
        usize::try_from(newlines(self.body.as_bytes())).unwrap_or(usize::MAX)
    }

    fn limits_min(&self) -> OutputLimits {
        let (bytes, lines) = (self.body.len(), self.lines());
        OutputLimits {
            bytes: self.heading.len() + bytes.min(GROUP_BYTES_MIN),
            lines: 1 + lines.min(GROUP_LINES_MIN),
        }
    }
}

impl<'a> ReportWriter<'a> {
    async fn write(&mut self, groups: &[ResultGroup]) -> (String, StyleRuns) {
        let mut sections: Vec<ReportSection<'a>> = groups.iter().map(|group| self.section(group)).collect();
        let left_out = self.left_out(groups, &sections);
        let (mut output, mut styles) = (String::new(), StyleRuns::default());
        let mut notice = String::new();
        if !left_out.is_empty() {
            self.truncated = true;
            notice = self.notice(groups, &left_out);
            let mut number = 0..;
            sections.retain(|_| number.next().is_none_or(|number| !left_out.contains(&number)));
        }
        let shares = self.shares(&sections, &notice);
        // The omitted groups are smaller than the last one displayed, so the notice belongs before it.
        let total = sections.len();
        for (number, (section, share)) in (1..).zip(sections.into_iter().zip(shares)) {
            if number == total {
                output.push_str(&notice);
            }
            output.push_str(&section.heading);
            let (body, body_looks) = self.fitting(section, share).await;
            styles.append(output.len(), &body, &body_looks);
            output.push_str(&body);
        }
        if output.ends_with('\n') {
            output.pop();
        }
        (output, styles)
    }

    fn section(&self, group: &ResultGroup) -> ReportSection<'a> {
        let outcome = &self.told[group.0[0]].outcome;
        let names = names(group.0.iter().map(|&place| &self.told[place]), self.names_bytes_max());
        let hosts = counted(group.0.len() as u64, "host");
        let end = if outcome.unreachable { "not run".to_owned() } else { end(outcome) };
        let heading = format!("== {names} ({hosts} of {}): {end} ==\n", self.told.len());
        let mut body = String::with_capacity(outcome.output.len() + 1);
        let mut styles = StyleRuns::default();
        let mut changes = outcome.styles.changes().peekable();
        let mut from = 0;
        let (text, notes) = without_exit_code(outcome);
        for line in text.split_inclusive('\n').chain(notes.split_inclusive('\n')) {
            // A host's output must not imitate the heading of another host.
            if line.starts_with("== ") {
                body.push(' ');
            }
            while let Some((at, look)) = changes.next_if(|(at, _)| *at < from + line.len()) {
                styles.begin(body.len() + at - from, look);
            }
            body.push_str(line);
            from += line.len();
        }
        if !body.is_empty() && !body.ends_with('\n') {
            body.push('\n');
        }
        ReportSection { heading, body, styles, outcome }
    }

    fn names_bytes_max(&self) -> usize {
        NAMES_BYTES_MAX.min(self.limits.bytes / NAMES_PART)
    }

    /// Returns the indexes of groups that do not fit. The largest group is always displayed, for comparison.
    fn left_out(&self, groups: &[ResultGroup], sections: &[ReportSection<'_>]) -> Vec<usize> {
        let Some(largest) = (0..groups.len()).rev().max_by_key(|&number| groups[number].0.len()) else {
            return Vec::new();
        };
        let fits = |used: OutputLimits, more: OutputLimits| {
            used.bytes + more.bytes <= self.limits.bytes && used.lines + more.lines <= self.limits.lines
        };
        let all = sections.iter().map(ReportSection::limits_min).fold(NOTHING, plus);
        if fits(all, NOTHING) {
            return Vec::new();
        }
        let notice = OutputLimits { bytes: self.names_bytes_max() + NOTICE_BYTES, lines: NOTICE_LINES };
        let mut used = plus(notice, sections[largest].limits_min());
        let mut left_out = Vec::new();
        for (number, section) in sections.iter().enumerate().filter(|(number, _)| *number != largest) {
            if left_out.is_empty() && fits(used, section.limits_min()) {
                used = plus(used, section.limits_min());
            } else {
                left_out.push(number);
            }
        }
        left_out
    }

    fn notice(&self, groups: &[ResultGroup], left_out: &[usize]) -> String {
        let mut places: Vec<usize> = left_out.iter().flat_map(|&number| groups[number].0.clone()).collect();
        places.sort_unstable();
        let hosts = counted(places.len() as u64, "host");
        let endings = counted(left_out.len() as u64, "other result");
        let names = names(places.into_iter().map(|place| &self.told[place]), self.names_bytes_max());
        format!("… [{hosts} with {endings} omitted: {names}; select fewer hosts at once] …\n")
    }

    /// Returns the limits of each section. Space that one section does not need is given to the others.
    fn shares(&self, sections: &[ReportSection<'_>], notice: &str) -> Vec<OutputLimits> {
        let headings: usize = sections.iter().map(|section| section.heading.len()).sum();
        let lines = sections.len() + usize::from(!notice.is_empty());
        let bytes_left = self.limits.bytes.saturating_sub(headings + notice.len());
        let bytes = fair_shares(bytes_left, sections.iter().map(|section| section.body.len()).collect());
        let lines_left = self.limits.lines.saturating_sub(lines);
        let lines = fair_shares(lines_left, sections.iter().map(ReportSection::lines).collect());
        bytes.into_iter().zip(lines).map(|(bytes, lines)| OutputLimits { bytes, lines }).collect()
    }

    /// Returns the section's text, truncated to its share. The full text of a truncated section is stored as an
    /// artifact.
    async fn fitting(&mut self, section: ReportSection<'_>, share: OutputLimits) -> (String, StyleRuns) {
        let artifact = section.outcome.artifact.clone();
        if section.body.len() <= share.bytes && section.lines() <= share.lines {
            self.artifact = self.artifact.take().or(artifact);
            return (section.body, section.styles);
        }
        self.truncated = true;
        let kept = match artifact {
            Some(name) => Ok(name),
            None => self.artifacts.store_output(section.outcome.output.as_bytes()).await,
        };
        let place = match &kept {
            Ok(name) => format!("full output: artifact {name}"),
            Err(error) => format!("the full output could not be saved: {error}"),
        };
        let mut excerpt = HeadTail::new(OutputLimits {
            bytes: share.bytes.saturating_sub(place.len() + HEADING_BYTES),
            lines: share.lines.saturating_sub(NOTICE_LINES),
        });
        excerpt.push(section.body.as_bytes());
        let excerpt = excerpt.finish();
        self.artifact = self.artifact.take().or(kept.ok());
        let Some(gap) = excerpt.gap else { return (section.body, section.styles) };
        let gap = format!("{}, {}", counted(gap.lines, "line"), counted(gap.bytes, "byte"));
        let text = joined(&excerpt.head, &format!("… [{gap} omitted; {place}] …"), &excerpt.tail);
        (text, StyleRuns::default())
    }
}

const NOTHING: OutputLimits = OutputLimits { bytes: 0, lines: 0 };

fn plus(one: OutputLimits, other: OutputLimits) -> OutputLimits {
    OutputLimits { bytes: one.bytes + other.bytes, lines: one.lines + other.lines }
}

/// Distributes `left` among the needs. Small needs are met in full. The rest is divided equally.
fn fair_shares(mut left: usize, needs: Vec<usize>) -> Vec<usize> {
    let mut by_need: Vec<usize> = (0..needs.len()).collect();
    by_need.sort_by_key(|&place| needs[place]);
    let mut given = needs;
    let mut waiting = given.len();
    for place in by_need {
        given[place] = given[place].min(left / waiting);
        left -= given[place];
        waiting -= 1;
    }
    given
}

#[cfg(test)]
mod tests {
    use super::fair_shares;

    #[test]
    fn unused_output_share_goes_to_other_hosts() {
        assert_eq!(fair_shares(100, vec![10, 500, 500]), [10, 45, 45]);
        assert_eq!(fair_shares(100, vec![10, 20, 30]), [10, 20, 30]);
        assert_eq!(fair_shares(2, vec![5, 0, 5, 5]), [0, 0, 1, 1]);
        assert_eq!(fair_shares(0, vec![5]), [0]);
    }
}
