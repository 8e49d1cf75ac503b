//! A routine as a config file.

use std::fmt::Write;

use toml::Value;

use crate::config::{
    EditContent, FailureAction, Routine, RunbookStep, STEP_TIMEOUT_S_DEFAULT, StepAction, StepExpectation,
    VerifyRetry,
};

pub(super) fn write(name: &str, routine: &Routine, notes: &[String]) -> String {
    let mut text = String::new();
    let mut line = |line: &str| writeln!(text, "{line}").expect("writing to a string cannot fail");
    line(
        "# Runbook for `sysop run`. Read it before you run it; `--plan` shows each command with its values.",
    );
    notes.iter().for_each(|note| line(&format!("# {note}")));
    line(&format!("\n[routines.{name}]"));
    if !routine.description.is_empty() {
        line(&format!("description = {}", string(&routine.description)));
    }
    for (name, variable) in &routine.vars {
        let mut parts = Vec::new();
        if !variable.description.is_empty() {
            parts.push(format!("description = {}", string(&variable.description)));
        }
        parts.extend(variable.pattern.as_ref().map(|pattern| format!("pattern = {}", string(pattern))));
        parts.extend(variable.default.as_ref().map(|value| format!("default = {}", string(value))));
        line(&format!("vars.{name} = {{ {} }}", parts.join(", ")));
    }
    if let Some(source) = &routine.made_from {
        let mut parts = vec![
            format!("session = {}", string(&source.session)),
            format!("date = {}", string(&source.date)),
        ];
        parts.extend(source.os.as_ref().map(|os| format!("os = {}", string(os))));
        parts.extend(source.arch.as_ref().map(|arch| format!("arch = {}", string(arch))));
        parts.extend(source.policy.filter(|policy| *policy > 0).map(|policy| format!("policy = {policy}")));
        line(&format!("made_from = {{ {} }}", parts.join(", ")));
    }
    for step in &routine.steps {
        line(&format!("\n[[routines.{name}.steps]]"));
        for (key, value) in keys(step) {
            line(&format!("{key} = {value}"));
        }
    }
    text
}

fn keys(step: &RunbookStep) -> Vec<(&'static str, String)> {
    let mut keys = Vec::new();
    let mut add = |key: &'static str, value: Option<String>| keys.extend(value.map(|value| (key, value)));
    let text = |text: &Option<String>| text.as_deref().map(string);
    add("name", Some(string(&step.name)));
    add("ask", text(&step.ask));
    add("unless", text(&step.unless));
    add("check", text(&step.check));
    match &step.action {
        StepAction::Manual => {}
        StepAction::Command(command) => add("cmd", Some(string(command))),
        StepAction::Edit(edit) => {
            add("file", Some(string(&edit.file)));
            add("sha256", text(&edit.sha256));
            match &edit.content {
                EditContent::Whole(content) => add("content", Some(string(content))),
                EditContent::Replace { old, new } => {
                    add("replace", Some(string(old)));
                    add("with", Some(string(new)));
                }
            }
        }
    }
    add("cwd", text(&step.cwd));
    if !step.env.is_empty() {
        let pairs: Vec<_> =
            step.env.iter().map(|(name, value)| format!("{name} = {}", string(value))).collect();
        add("env", Some(format!("{{ {} }}", pairs.join(", "))));
    }
    add("host", text(&step.host));
    add("expect", Some(expectation(&step.expect)));
    add("verify", text(&step.verify));
    if step.retry != VerifyRetry::default() {
        add("retry", Some(format!("{{ times = {}, every_s = {} }}", step.retry.times, step.retry.every_s)));
    }
    add("timeout_s", (step.timeout_s != STEP_TIMEOUT_S_DEFAULT).then(|| step.timeout_s.to_string()));
    add("undo", text(&step.undo));
    match step.on_fail {
        FailureAction::Stop => {}
        FailureAction::Undo => add("on_fail", Some(string("undo"))),
        FailureAction::Continue => add("on_fail", Some(string("continue"))),
    }
    add("guard", step.guard.map(|guard| guard.to_value().to_string()));
    keys
}

fn expectation(expect: &StepExpectation) -> String {
    let exit = match expect.exit.as_slice() {
        [code] => code.to_string(),
        codes => format!("[{}]", codes.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")),
    };
    let mut parts = vec![format!("exit = {exit}")];
    parts.extend(expect.pattern.as_ref().map(|pattern| format!("match = {}", string(pattern))));
    parts.extend(expect.not_pattern.as_ref().map(|pattern| format!("not_match = {}", string(pattern))));
    format!("{{ {} }}", parts.join(", "))
}

fn string(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
