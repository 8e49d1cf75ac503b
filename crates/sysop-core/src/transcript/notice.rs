//! Notices for events without an item of their own: settings, compaction, todo list, jobs, guards, undo, shared
//! approvals.
//!
//! Text is untrusted, as everywhere in a transcript; front ends neutralize it.

use super::{ItemBody, ItemId, Notice, Severity, Transcript, change_sentence};
use crate::compaction::Compaction;
use crate::event::{ConfigChange, Event};
use crate::guard::GuardEnd;
use crate::id::JobId;
use crate::instructions::Instructions;
use crate::outcome::{Reversibility, Status};
use crate::session::WITHHELD_PROMPT;
use crate::skill::SkillKind;
use crate::todo::{TodoItem, TodoState};
use crate::ui_text;

const ITEMS_MAX: usize = 20;
/// Maximum characters of a command or task within a notice.
const LINE_CHARS_MAX: usize = 100;

impl Transcript {
    pub(super) fn configured(&mut self, event: &Event, change: &ConfigChange) {
        let mut policy_sentence = None;
        if let ConfigChange::Rules { dangerous, deny, options: Some(options), .. } = change {
            policy_sentence = Some(self.policy.sentence(options, dangerous, deny));
        }
        self.policy.configure(change);
        if let Some(facts) = &mut self.facts {
            facts.configure(change);
        }
        if policy_sentence == Some(None) {
            return;
        }
        // A server tells of rules that were added, as at a resume, and names none.
        if matches!(change, ConfigChange::Rules { options: None, rules, .. } if rules.is_empty()) {
            return;
        }
        let special = event_notice(event).map(|notice| notice.text);
        let special = special.or(policy_sentence.flatten().map(str::to_owned));
        let is_mode = special.is_none() && matches!(change, ConfigChange::Approve(_));
        let text = special.unwrap_or_else(|| change_sentence(change));
        // Changes of the mode with nothing in between, as when a user cycles through the modes, share a notice.
        let newest = self.items.back().map(|item| item.id.clone());
        let shared = self.mode_notice.take().map(|(id, _)| id);
        let shared = shared.filter(|id| is_mode && newest.as_ref() == Some(id));
        let id = shared.unwrap_or(ItemId::Notice(self.seq));
        self.mode_notice = is_mode.then(|| (id.clone(), self.seq));
        self.put(id, ItemBody::Notice(Notice { text, weight: Severity::Note }));
    }
}

/// Returns the notice for an event; `None` if the event is shown in another way.
#[expect(clippy::wildcard_enum_match_arm, reason = "other events are shown in another way")]
pub fn event_notice(event: &Event) -> Option<Notice> {
    let text = match event {
        Event::Configured { reached: Some(reached), .. } => {
            format!("auto ended after {reached}; the mode is `ask` again")
        }
        Event::ContextCompacted { compaction } => context_compacted(compaction),
        Event::InstructionsLoaded { instructions } => instructions_loaded(instructions),
        Event::PromptExpanded { text, commands } => prompt_expanded(text, commands.len()),
        Event::TodoChanged { items } => todo_changed(items),
        Event::JobStarted { job, command, host, .. } => {
            format!("job {job} started on {host}: {}", one_line(command))
        }
        Event::JobFinished { job, status, exit_code, .. } => job_finished(*job, *status, *exit_code),
        Event::GuardArmed { host, seconds, .. } => {
            format!("guard armed on {host}: rolls back in {seconds} s unless confirmed")
        }
        Event::GuardEnded { host, how, .. } => guard_ended(host, *how),
        Event::ApprovalGiven { by, needed: 2, .. } => {
            format!("allowed by {by} (1 of 2 approvals); another person must allow it, too")
        }
        Event::ApprovalGiven { by, needed, .. } => {
            format!(
                "allowed by {by}; the command needs {needed} approvals in all, each by a different person"
            )
        }
        Event::Undone { step, by, how, .. } => undone(*step, by, *how),
        _ => return None,
    };
    Some(Notice { text, weight: severity(event) })
}

/// Returns `Warning` for events that a user should check.
fn severity(event: &Event) -> Severity {
    let uncertain = matches!(
        event,
        Event::InstructionsLoaded { instructions: Instructions { untrusted, .. } } if !untrusted.is_empty()
    ) || matches!(
        event,
        Event::GuardEnded { how: GuardEnd::Fired | GuardEnd::Unknown, .. }
            | Event::JobFinished { status: Status::Unknown, .. }
            | Event::Undone { how: Reversibility::Partly | Reversibility::None, .. }
    );
    if uncertain { Severity::Warning } else { Severity::Note }
}

fn context_compacted(compaction: &Compaction) -> String {
    let (before, after) =
        (ui_text::tokens(compaction.tokens_before), ui_text::tokens(compaction.tokens_after));
    let what = match (compaction.replaced, compaction.elided.len()) {
        (0, 0) => String::new(),
        (0, 1) => "1 output, ".to_owned(),
        (0, outputs) => format!("{outputs} outputs, "),
        (1, _) => "1 message, ".to_owned(),
        (messages, _) => format!("{messages} messages, "),
    };
    format!("context compacted: {what}{before} → {after} tokens; details in the log")
}

fn instructions_loaded(instructions: &Instructions) -> String {
    let read = instructions.files.iter().map(|file| {
        let size = ui_text::file_size(file.bytes);
        let cut = if file.is_cut() {
            format!(", truncated to {}", ui_text::file_size(file.sent))
        } else {
            String::new()
        };
        format!("{} ({size}{cut})", one_line(&file.path))
    });
    let withheld = instructions.untrusted.iter();
    let withheld =
        withheld.map(|file| format!("{} ({})", one_line(&file.path), ui_text::file_size(file.bytes)));
    let (read, withheld) = (read.collect::<Vec<_>>().join(", "), withheld.collect::<Vec<_>>().join(", "));
    let withheld =
        format!("not sent to the model, because this workspace is not trusted (see /trust): {withheld}");
    let mut parts = Vec::new();
    if !read.is_empty() {
        parts.push(format!("instructions: {read}"));
    }
    for (kind, what) in [(SkillKind::Skill, "skills"), (SkillKind::Command, "commands")] {
        let of_kind = instructions.skills.found.iter().filter(|skill| skill.kind == kind);
        let names: Vec<_> = of_kind.map(|skill| format!("/{}", skill.name)).collect();
        if !names.is_empty() {
            parts.push(format!("{what}: {}", names.join(" ")));
        }
    }
    if !instructions.untrusted.is_empty() {
        parts.push(withheld);
    }
    parts.extend(instructions.skills.skipped.iter().map(|problem| format!("skipped {}", one_line(problem))));
    if parts.is_empty() {
        return "instruction files are no longer sent to the model".to_owned();
    }
    parts.join("; ")
}

fn prompt_expanded(text: &str, commands: usize) -> String {
    if text == WITHHELD_PROMPT {
        return "prompt withheld from the model".to_owned();
    }
    let commands = match commands {
        0 => String::new(),
        1 => ", runs 1 command first".to_owned(),
        more => format!(", runs {more} commands first"),
    };
    format!("prompt expanded ({}{commands})", ui_text::file_size(text.len() as u64))
}

fn todo_changed(items: &[TodoItem]) -> String {
    if items.is_empty() {
        return "todo list cleared".to_owned();
    }
    let list = items.iter().take(ITEMS_MAX).map(|item| {
        let mark = match item.state {
            TodoState::Pending => ' ',
            TodoState::Active => '>',
            TodoState::Done => 'x',
        };
        format!("\n[{mark}] {}", one_line(&item.text))
    });
    let more = match items.len().saturating_sub(ITEMS_MAX) {
        0 => String::new(),
        more => format!("\n… and {more} more"),
    };
    let done = items.iter().filter(|item| item.state == TodoState::Done).count();
    format!("todo: {done} of {} done{}{more}", items.len(), list.collect::<String>())
}

fn job_finished(job: JobId, status: Status, exit_code: Option<i32>) -> String {
    // The wire and the log have the British spelling.
    let how = if status == Status::Cancelled { "canceled" } else { status.as_str() };
    match (status, exit_code) {
        (Status::Unknown, _) => format!("job {job}: outcome unknown"),
        (_, Some(code)) => format!("job {job} ended: {how}, exit code {code}"),
        (_, None) => format!("job {job} ended: {how}"),
    }
}

fn guard_ended(host: &str, how: GuardEnd) -> String {
    match how {
        GuardEnd::Confirmed => format!("guard on {host} confirmed: change kept"),
        GuardEnd::Fired => format!("guard on {host} fired: change rolled back"),
        GuardEnd::Unknown => {
            format!("guard on {host}: rollback status unknown; check the host")
        }
    }
}

fn undone(step: Option<u32>, by: &str, how: Reversibility) -> String {
    let step = step.map_or_else(|| "an earlier call".to_owned(), |step| format!("call {step}"));
    match how {
        Reversibility::Exact => format!("{by} undid {step}"),
        Reversibility::Partly => format!("{by} undid {step} only in part; check the rest"),
        Reversibility::None => format!("{by} could not undo {step}"),
    }
}

fn one_line(text: &str) -> String {
    let line = text.trim().replace(['\n', '\r'], " ");
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CallId;
    use crate::instructions::{InstructionFile, InstructionSource, UntrustedFile};
    use crate::job::JobOutput;
    use crate::skill::Skill;

    fn line(event: &Event) -> (Severity, String) {
        let notice = event_notice(event).expect("it has a line");
        (notice.weight, notice.text)
    }

    fn note(text: &str) -> (Severity, String) {
        (Severity::Note, text.to_owned())
    }

    fn warning(text: &str) -> (Severity, String) {
        (Severity::Warning, text.to_owned())
    }

    #[test]
    fn a_compaction_notice_shows_its_tokens() {
        let elided = vec![CallId::new("a"), CallId::new("b")];
        let compaction =
            Compaction { tokens_before: 41_200, tokens_after: 2_100, elided, ..Compaction::default() };
        assert_eq!(
            line(&Event::ContextCompacted { compaction }),
            note("context compacted: 2 outputs, 41 k → 2100 tokens; details in the log")
        );
    }

    #[test]
    fn a_todo_notice_shows_the_progress() {
        let item = |text: &str, state| TodoItem { text: text.into(), state };
        let items = vec![item("look", TodoState::Done), item(" clean\nup ", TodoState::Active)];
        assert_eq!(line(&Event::TodoChanged { items }), note("todo: 1 of 2 done\n[x] look\n[>] clean up"));
        assert_eq!(line(&Event::TodoChanged { items: Vec::new() }), note("todo list cleared"));
    }

    #[test]
    fn an_instructions_notice_names_files_that_are_not_trusted() {
        let file = |path: &str, sent, bytes| InstructionFile {
            sent,
            ..InstructionFile::new(path.into(), InstructionSource::Workspace, String::new(), bytes)
        };
        let files = vec![file("/a/AGENTS.md", 9, 9), file("/a/b/AGENTS.md", 1, 2_000)];
        let mut instructions = Instructions { files, ..Instructions::default() };
        let read = "instructions: /a/AGENTS.md (9 bytes), /a/b/AGENTS.md (2.0 kB, truncated to 1 byte)";
        let event =
            |instructions: &Instructions| Event::InstructionsLoaded { instructions: instructions.clone() };
        assert_eq!(line(&event(&instructions)), note(read));
        instructions.untrusted = vec![UntrustedFile { path: "/c/CLAUDE.md".into(), bytes: 10 }];
        let withheld = "not sent to the model, because this workspace is not trusted (see /trust): /c/CLAUDE.md (10 \
                        bytes)";
        assert_eq!(line(&event(&instructions)), warning(&format!("{read}; {withheld}")));
        instructions.files.clear();
        assert_eq!(line(&event(&instructions)), warning(withheld));
        instructions.untrusted.clear();
        let read = |kind, name: &str, text| Skill::read(kind, name, "/c/x.md", text, InstructionSource::User);
        instructions.skills.add(read(SkillKind::Command, "check", "x"));
        instructions.skills.add(read(SkillKind::Skill, "certs", "---\ndescription: d\n---\nx"));
        instructions.skills.add(read(SkillKind::Skill, "none", "x"));
        let expected =
            "skills: /certs; commands: /check; skipped /c/x.md: no `description` in the front matter";
        assert_eq!(line(&event(&instructions)), note(expected));
    }

    #[test]
    fn a_job_notice_shows_command_and_exit() {
        let (job, call) = (JobId(3), CallId::new("c"));
        let started = Event::JobStarted { job, call, command: "x".repeat(300), host: "web1".into() };
        assert_eq!(line(&started), note(&format!("job 3 started on web1: {}…", "x".repeat(LINE_CHARS_MAX))));
        let ended = |status, exit_code| {
            line(&Event::JobFinished { job, status, exit_code, output: JobOutput::default() })
        };
        assert_eq!(ended(Status::Failed, Some(2)), note("job 3 ended: failed, exit code 2"));
        assert_eq!(ended(Status::Cancelled, None), note("job 3 ended: canceled"));
        assert_eq!(ended(Status::Unknown, None), warning("job 3: outcome unknown"));
    }

    #[test]
    fn a_guard_notice_shows_its_deadline_and_result() {
        let (call, host) = (CallId::new("c"), "web1".to_owned());
        let armed = Event::GuardArmed { call: call.clone(), host: host.clone(), seconds: 120 };
        assert_eq!(line(&armed), note("guard armed on web1: rolls back in 120 s unless confirmed"));
        let ended = |how| line(&Event::GuardEnded { call: call.clone(), host: host.clone(), how });
        assert_eq!(ended(GuardEnd::Confirmed), note("guard on web1 confirmed: change kept"));
        assert_eq!(ended(GuardEnd::Fired), warning("guard on web1 fired: change rolled back"));
        assert_eq!(ended(GuardEnd::Unknown).0, Severity::Warning);
    }

    #[test]
    fn notices_name_users() {
        let (call, by) = (CallId::new("c1"), "ada".to_owned());
        let given = Event::ApprovalGiven { call: call.clone(), by: by.clone(), person: None, needed: 2 };
        assert_eq!(
            line(&given),
            note("allowed by ada (1 of 2 approvals); another person must allow it, too")
        );
        let undone = |step, how| line(&Event::Undone { call: call.clone(), step, by: by.clone(), how });
        assert_eq!(undone(Some(3), Reversibility::Exact), note("ada undid call 3"));
        assert_eq!(
            undone(Some(3), Reversibility::Partly),
            warning("ada undid call 3 only in part; check the rest")
        );
        assert_eq!(undone(Some(3), Reversibility::None), warning("ada could not undo call 3"));
        assert_eq!(undone(None, Reversibility::Exact), note("ada undid an earlier call"));
    }
}
