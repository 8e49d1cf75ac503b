//! Tools that the session answers itself. They read and change nothing but the session.

use serde::Deserialize;

use super::Session;
use crate::catalog::{self, SKILL_TOOL};
use crate::deferred_tools::{self, FIND_TOOLS};
use crate::event::{Event, Origin, Output};
use crate::ledger::cut;
use crate::message::{Arguments, Message, ToolCall};
use crate::outcome::Outcome;
use crate::todo::{self, ITEM_BYTES_MAX, LIST_ITEMS_MAX, TodoItem, TodoState};
use crate::token_estimate;
use crate::tool::ToolSpec;

#[derive(Deserialize)]
struct TodoList {
    items: Vec<ListedItem>,
}

#[derive(Deserialize)]
struct ListedItem {
    text: String,
    #[serde(default)]
    state: TodoState,
}

impl Session {
    /// Returns the tools that the session offers in addition to the tools of its spec: `skill` if there are skills,
    /// `jobs` once a background job has been started, `read_output` once outputs have been omitted from the prompt, and
    /// `find_tools` and `call_tool` if there are deferred tools.
    pub(super) fn own_tools(&self) -> Vec<ToolSpec> {
        let names: Vec<_> =
            self.state.instructions.skills.listed().map(|skill| skill.name.as_str()).collect();
        let skill = (!names.is_empty()).then(|| catalog::skill(&names));
        let read_output = self.state.history.has_omitted().then(catalog::read_output);
        let jobs = (self.state.last_job.0 > 0).then(catalog::jobs);
        let spec = &self.state.spec;
        let deferred: Vec<ToolSpec> = match deferred_tools::defers(spec) {
            true => deferred_tools::external(&spec.tools).cloned().collect(),
            false => Vec::new(),
        };
        let search = (!deferred.is_empty()).then(|| deferred_tools::replacements(&deferred));
        skill.into_iter().chain(jobs).chain(read_output).chain(search.into_iter().flatten()).collect()
    }

    /// Answers a call to a tool whose effect is `Session`. Returns `None` if the answer follows later.
    pub(super) fn answer_own(
        &mut self,
        out: &mut Output,
        call: &ToolCall,
        origin: Origin,
    ) -> Option<Outcome> {
        let answer = match call.name.as_str() {
            catalog::TASK_LIST_TOOL => self.change_todo(out, call),
            catalog::READ_OUTPUT_TOOL => read_output(self, call),
            SKILL_TOOL => self.call_up_skill(call),
            FIND_TOOLS => {
                let query = call.text_argument("query").unwrap_or_default();
                deferred_tools::find(self.offered_tools().deferred(), query)
            }
            catalog::JOBS_TOOL => return self.call_jobs(out, call, origin),
            other => Err(format!("this session has no `{other}`")),
        };
        Some(answer.map_or_else(Outcome::failed, Outcome::ok))
    }

    /// Returns the text of a skill, or a note if the text is still in the model's history. Fails if the skill is
    /// unknown.
    fn call_up_skill(&self, call: &ToolCall) -> Result<String, String> {
        let name = call.text_argument("name").unwrap_or_default();
        let Some(skill) = self.state.instructions.skills.listed().find(|skill| skill.name == name) else {
            return Err(format!("no skill has the name `{name}`"));
        };
        let answer = skill.answer();
        let is_known = self.messages().any(|message| {
            matches!(message, Message::ToolResults { results }
                if results.iter().any(|result| result.name == SKILL_TOOL && result.output == answer))
        });
        Ok(if is_known { format!("you already have the text of `{name}`; see above") } else { answer })
    }

    fn change_todo(&mut self, out: &mut Output, call: &ToolCall) -> Result<String, String> {
        let Arguments::Object(arguments) = &call.arguments else {
            return Err("the arguments are not an object".to_owned());
        };
        let list = serde_json::from_value::<TodoList>(arguments.clone().into());
        let list = list.map_err(|error| format!("invalid list: {error}"))?;
        let items: Vec<TodoItem> = list
            .items
            .into_iter()
            .take(LIST_ITEMS_MAX)
            .map(|item| TodoItem {
                text: cut(item.text.trim(), ITEM_BYTES_MAX).to_owned(),
                state: item.state,
            })
            .collect();
        let answer = todo::summary(&items);
        if items != self.state.todo {
            self.emit(out, Event::TodoChanged { items });
        }
        Ok(answer)
    }
}

fn read_output(session: &Session, call: &ToolCall) -> Result<String, String> {
    let id = call.text_argument("id").unwrap_or_default();
    let Some(output) = session.state.history.omitted_output(id) else {
        return Err(format!("no omitted output has the id `{id}`"));
    };
    let lines: Vec<&str> = output.lines().collect();
    let (first, last) = match call.text_argument("range") {
        None => (1, lines.len()),
        Some(range) => parse_range(range, lines.len()).ok_or_else(|| {
            format!(
                "invalid range `{range}`; use FIRST-LAST, such as 1-200; the output has {} lines",
                lines.len()
            )
        })?,
    };
    let text = lines[first.saturating_sub(1).min(lines.len())..last].join("\n");
    let bytes = token_estimate::tool_output_bytes(u64::from(session.context_window()) / 8);
    if text.len() <= bytes {
        return Ok(text);
    }
    let cut = &text[..text.floor_char_boundary(bytes)];
    let next = first + cut.lines().count();
    Ok(format!("{cut}\n[truncated; {} lines in all; continue with range \"{next}-{last}\"]", lines.len()))
}

/// Parses `FIRST-LAST`, `FIRST-` or `LINE`, counted from 1, for an output of `lines` lines. Returns the first and the
/// last line, or `None` if the range is invalid.
fn parse_range(range: &str, lines: usize) -> Option<(usize, usize)> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let first: usize = first.trim().parse().ok()?;
    let last = match last.trim() {
        "" => lines,
        last => last.parse().ok()?,
    };
    (first >= 1 && first <= last).then_some((first, last.min(lines)))
}
