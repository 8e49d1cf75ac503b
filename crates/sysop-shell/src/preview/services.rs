//! `systemctl` and `service`.

use super::effective::{EffectiveCommand, split};
use super::probe::{Records, Section};
use super::report::{Report, counted, name, names};
use super::scan::{Reason, Word};
use super::{Planned, View};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServiceChange {
    verb: String,
}

/// Prints the state of each unit, and the active units that stop together with it.
const UNITS: &str = r#"
command -v systemctl >/dev/null || r failed 'systemctl is not installed'
[ -d /run/systemd/system ] || r failed 'systemd is not running'
[ $# -gt 20 ] && { r many $#; exit; }
for u do
r unit "$u"
r show "$(systemctl $m show -p LoadState -p ActiveState -p UnitFileState -p MainPID -p NeedDaemonReload -p TriggeredBy -- "$u")"
for d in $(systemctl $m show -p RequiredBy -p BoundBy -p ConsistsOf -p PropagatesStopTo --value -- "$u"); do
[ "$(systemctl $m show -p ActiveState --value -- "$d")" = active ] && r needs "$d"
done
done
"#;

pub(super) fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let found = split(
        &command.arguments,
        "qf",
        "",
        &["now", "user", "system", "no-block", "force", "quiet", "no-pager", "runtime", "full"],
    )?;
    let words: Option<Vec<String>> = found.operands.iter().map(Word::literal).collect();
    let words = words.ok_or("the units are not known before the command runs")?;
    let (verb, units) = match (command.program.as_str(), words.as_slice()) {
        ("systemctl", [verb, units @ ..]) => (verb.clone(), units.to_vec()),
        ("service", [unit, verb]) => (verb.clone(), vec![unit.clone()]),
        (_, _) => return Ok(Planned::Nothing),
    };
    if verb == "daemon-reload" {
        return Ok(Planned::Line("reads all unit files again; no service restarts".to_owned()));
    }
    let known = [
        "stop", "restart", "try-restart", "reload", "start", "reload-or-restart", "enable", "disable",
        "mask", "unmask", "kill",
    ];
    if !known.contains(&verb.as_str()) || units.is_empty() {
        return Ok(Planned::Nothing);
    }
    if units.iter().any(|unit| unit.starts_with('-') || unit.contains(['*', '?', '['])) {
        return Err("unit patterns are not supported in previews".to_owned());
    }
    let verb = if found.has(&["-now"]) { format!("{verb} --now") } else { verb };
    let manager = if found.has(&["-user"]) { "m=--user" } else { "m=" };
    let units = units.iter().map(|unit| Word::of(unit)).collect();
    let section = Section::new(format!("{manager}\n{UNITS}"), View::Services(ServiceChange { verb }));
    Planned::probe(section.with_words(units))
}

impl ServiceChange {
    pub(super) fn report(&self, records: &Records) -> Result<Report, Reason> {
        let mut notes = Vec::new();
        let units: Vec<&str> = records.all("unit").collect();
        let (mut active, mut missing, mut reload) = (Vec::new(), Vec::new(), false);
        let mut states = Vec::new();
        for (unit, show) in units.iter().zip(records.all("show")) {
            let value = |key: &str| {
                let mut lines = show.lines().filter_map(|line| line.split_once('='));
                lines.find(|(name, _)| *name == key).map_or("", |(_, value)| value).to_owned()
            };
            match (value("LoadState").as_str(), value("ActiveState").as_str()) {
                ("", _) => return Err("systemd is not responding".to_owned()),
                ("not-found", _) => missing.push(*unit),
                (_, "active" | "activating" | "reloading") => active.push(*unit),
                (_, _) => {}
            }
            reload |= value("NeedDaemonReload") == "yes";
            states.push(value("UnitFileState"));
            let triggers = value("TriggeredBy");
            if !triggers.is_empty() && self.verb.starts_with("stop") {
                notes.push(format!("{} can start the unit again", name(&triggers)));
            }
        }
        let text = self.text(&units, &active, &states);
        notes.insert(0, text);
        let stops =
            self.verb.starts_with("stop") || self.verb.contains("restart") || self.verb.contains("--now");
        let mut needs: Vec<&str> = records.all("needs").collect();
        needs.sort_unstable();
        needs.dedup();
        if stops && !needs.is_empty() && !active.is_empty() {
            notes.insert(
                1,
                format!(
                    "and {}: {}",
                    counted(needs.len() as u64, "dependent unit"),
                    names(needs.into_iter())
                ),
            );
        }
        if !missing.is_empty() {
            notes.push(format!("fails for {}: not found", names(missing.into_iter())));
        }
        if reload {
            notes.push("a unit file changed: run daemon-reload first".to_owned());
        }
        Ok(notes.join("; ").into())
    }

    fn text(&self, units: &[&str], active: &[&str], states: &[String]) -> String {
        let all = names(units.iter().copied());
        let running = names(active.iter().copied());
        let same = |state: &str| !states.is_empty() && states.iter().all(|known| known == state);
        match self.verb.as_str() {
            "stop" | "kill" if active.is_empty() => format!("{all} is not running"),
            "stop" => format!("stops {running}"),
            "kill" => format!("signals {running}"),
            "try-restart" if active.is_empty() => format!("{all} is not running"),
            "restart" | "reload-or-restart" if active.is_empty() => {
                format!("starts {all}, which is not running")
            }
            "restart" | "try-restart" | "reload-or-restart" => format!("restarts {running}"),
            "reload" if active.is_empty() => format!("fails: {all} is not running"),
            "reload" => format!("reloads {running}"),
            "start" if active.len() == units.len() => format!("{all} is running already"),
            "start" => format!("starts {all}"),
            "enable" if same("enabled") => format!("{all} is enabled already"),
            "disable" if same("disabled") => format!("{all} is disabled already"),
            "mask" if same("masked") => format!("{all} is masked already"),
            verb => {
                let before = states
                    .iter()
                    .find(|state| !state.is_empty())
                    .map_or(String::new(), |state| format!(", now {}", name(state)));
                format!("{verb}: {all}{before}")
            }
        }
    }
}
