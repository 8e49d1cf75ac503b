//! Merges the surveys of several hosts. A fact that differs between hosts becomes unknown, and if the hosts differ in
//! how targets were resolved, the resolution counts as failed.

use sysop_core::missed_hosts::reasons_by_host;
use sysop_core::policy::{CommandContext, Dialect, GuardOffer, Resolution, ResolvedTarget, Survey};
use sysop_core::ui_text::split_hint;

use super::member::no_answer;

/// Merges the surveys of the hosts into one. Unreachable hosts are only named, unless all are unreachable. `names` are
/// the names of the hosts, in the order of the surveys.
pub(super) fn merged(names: &[&str], surveys: Vec<Survey>) -> Survey {
    let certain_failure = common_failure(names, &surveys);
    let incomplete = missing_facts(names, &surveys);
    let told = names.iter().zip(&surveys);
    let reasons = told.filter_map(|(name, survey)| Some((*name, survey.unreachable.as_deref()?)));
    let reasons: Vec<_> = reasons.collect();
    let none_reached = reasons_by_host(&reasons);
    let failures: Vec<_> = reasons.iter().map(|(name, why)| (*name, split_hint(why).0)).collect();
    let unreached = reasons_by_host(&failures).lines().map(str::to_owned).collect();
    // The facts of unreachable hosts do not matter, because nothing runs there.
    let mut left = surveys.into_iter().filter(|survey| survey.unreachable.is_none());
    let Some(mut all) = left.next() else {
        return Survey { unreachable: Some(none_reached), ..Survey::default() };
    };
    for survey in left {
        let context = common_context(&all.context, &survey.context);
        let targets = common_targets(&context, &all, &survey);
        let resolution = match (all.resolution, survey.resolution) {
            (one, other) if one == other => one,
            (Resolution::Failed | Resolution::Host | Resolution::Elsewhere, _) => Resolution::Failed,
        };
        let guard = common_guard(all.guard, survey.guard);
        all = Survey { context, resolution, targets, guard, ..Survey::default() };
    }
    all.context.host = Some(names.join(","));
    all.certain_failure = certain_failure;
    all.incomplete = incomplete;
    all.unreached = unreached;
    all
}

/// Says why the facts of hosts are missing, if they are.
fn missing_facts(names: &[&str], surveys: &[Survey]) -> Option<String> {
    let told = names.iter().zip(surveys);
    let silent: Vec<(&str, &str)> =
        told.filter_map(|(name, survey)| Some((*name, survey.incomplete.as_deref()?))).collect();
    match silent.as_slice() {
        [] => None,
        [(_, why)] => Some((*why).to_owned()),
        silent => Some(no_answer(&silent.iter().map(|(name, _)| *name).collect::<Vec<_>>())),
    }
}

/// Returns the text with which the call would fail, if it would fail on each host that can be reached. Hosts with
/// different texts get a line each.
fn common_failure(names: &[&str], surveys: &[Survey]) -> Option<String> {
    let reached = names.iter().zip(surveys).filter(|(_, survey)| survey.unreachable.is_none());
    let failures: Vec<(&str, &str)> = reached
        .map(|(name, survey)| Some((*name, survey.certain_failure.as_deref()?)))
        .collect::<Option<_>>()?;
    let (_, first) = failures.first()?;
    if failures.iter().all(|(_, text)| text == first) {
        return Some((*first).to_owned());
    }
    let lines: Vec<String> = failures.iter().map(|(name, text)| format!("{name}: {text}")).collect();
    Some(lines.join("\n"))
}

/// Returns the refusal if a host refuses a guard. Otherwise, returns the longer of the guards offered, or that no host
/// needs one.
fn common_guard(one: GuardOffer, other: GuardOffer) -> GuardOffer {
    match (one, other) {
        (refused @ GuardOffer::Refused { .. }, _) | (_, refused @ GuardOffer::Refused { .. }) => refused,
        (GuardOffer::Offered { seconds: one }, GuardOffer::Offered { seconds: other }) => {
            GuardOffer::Offered { seconds: one.max(other) }
        }
        (offered @ GuardOffer::Offered { .. }, GuardOffer::NotNeeded)
        | (GuardOffer::NotNeeded, offered @ GuardOffer::Offered { .. }) => offered,
        (GuardOffer::NotNeeded, GuardOffer::NotNeeded) => GuardOffer::NotNeeded,
    }
}

fn common_context(one: &CommandContext, other: &CommandContext) -> CommandContext {
    fn same<T: Clone + PartialEq>(one: &Option<T>, other: &Option<T>) -> Option<T> {
        one.clone().filter(|_| one == other)
    }
    let dialect = match (one.dialect, other.dialect) {
        (one, other) if one == other => one,
        // For `sh`, the policy considers both readings if bash and other shells parse the text differently.
        (Dialect::Bash | Dialect::Sh, Dialect::Bash | Dialect::Sh) => Dialect::Sh,
        _ => Dialect::Unknown,
    };
    CommandContext {
        dialect,
        own_shell: one.own_shell && other.own_shell,
        folder: same(&one.folder, &other.folder),
        root: same(&one.root, &other.root),
        home: same(&one.home, &other.home),
        user: same(&one.user, &other.user),
        uid: same(&one.uid, &other.uid),
        host: None,
    }
}

/// Returns the targets that both surveys resolved, with the files of both.
fn common_targets(context: &CommandContext, one: &Survey, other: &Survey) -> Vec<ResolvedTarget> {
    // If the directories differ, the merged target has no directory.
    let in_common = |survey: &Survey| {
        let (own, root) = (survey.context.folder.clone(), survey.context.root.clone());
        let (no_folder, no_root) = (context.folder.is_none(), context.root.is_none());
        let mut targets = survey.targets.clone();
        for ResolvedTarget { target, .. } in &mut targets {
            let is_lost = (no_folder && target.folder == own) || (no_root && target.folder == root);
            target.folder.take_if(|_| is_lost);
        }
        targets
    };
    let others = in_common(other);
    let mut targets = in_common(one);
    targets.retain_mut(|resolved| {
        let same = others.iter().find(|other| other.target == resolved.target);
        for file in same.iter().flat_map(|same| &same.files) {
            if !resolved.files.contains(file) {
                resolved.files.push(file.clone());
            }
        }
        same.is_some()
    });
    targets
}

#[cfg(test)]
mod tests {
    use sysop_core::policy::{Access, ResolvedFile, Target};

    use super::*;

    fn survey(root: &str, dialect: Dialect, file: &str) -> Survey {
        let root = Some(root.to_owned());
        let target =
            Target { word: "a".to_owned(), glob: false, folder: root.clone(), access: Access::Write };
        let files = vec![ResolvedFile { path: file.to_owned(), ..ResolvedFile::default() }];
        Survey {
            context: CommandContext { dialect, folder: root.clone(), root, ..CommandContext::default() },
            resolution: Resolution::Host,
            targets: vec![ResolvedTarget { target, files }],
            ..Survey::default()
        }
    }

    #[test]
    fn a_merged_survey_keeps_only_common_facts() {
        let both = vec![survey("/srv", Dialect::Bash, "/srv/a"), survey("/srv", Dialect::Bash, "/etc/a")];
        let all = merged(&["web1", "web2"], both);
        assert_eq!((all.context.dialect, all.resolution), (Dialect::Bash, Resolution::Host));
        assert_eq!(all.context.host.as_deref(), Some("web1,web2"));
        let files: Vec<&str> = all.targets[0].files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(files, ["/srv/a", "/etc/a"]);

        let differ = vec![survey("/srv", Dialect::Bash, "/srv/a"), survey("/opt", Dialect::Sh, "/opt/a")];
        let all = merged(&["web1", "web2"], differ);
        assert_eq!((all.context.dialect, all.context.folder), (Dialect::Sh, None));
        assert_eq!(all.targets[0].target.folder, None);
        assert_eq!(all.targets[0].files.len(), 2);
    }

    #[test]
    fn a_call_fails_for_certain_only_if_it_fails_on_each_reached_host() {
        let failing = |text: &str| Survey {
            certain_failure: Some(text.to_owned()),
            ..survey("/srv", Dialect::Bash, "/srv/a")
        };
        let away = Survey { unreachable: Some("no route".to_owned()), ..Survey::default() };
        let failure = |surveys| merged(&["web1", "web2", "db1"], surveys).certain_failure;
        let same = vec![failing("a was not found"), failing("a was not found"), away.clone()];
        assert_eq!(failure(same).as_deref(), Some("a was not found"));
        let differ = vec![failing("a was not found"), failing("f does not exist"), away.clone()];
        assert_eq!(failure(differ).as_deref(), Some("web1: a was not found\nweb2: f does not exist"));
        let applies = vec![failing("a was not found"), survey("/srv", Dialect::Bash, "/srv/a"), away];
        assert_eq!(failure(applies), None);
    }

    #[test]
    fn each_host_that_cannot_be_reached_is_named_with_its_reason() {
        let away = |why: &str| Survey { unreachable: Some(why.to_owned()), ..Survey::default() };
        let told = |names: &[&str], reasons: &[&str]| {
            merged(names, reasons.iter().map(|why| away(why)).collect()).unreachable.unwrap()
        };
        let refused = |host: &str| format!("{host}: connection refused; check the port");
        assert_eq!(
            told(&["web1", "web2", "db"], &[&refused("127.0.0.1"), &refused("127.0.0.1"), &refused("db")]),
            "web1, web2: 127.0.0.1: connection refused\ndb: connection refused; check the port"
        );
        assert_eq!(
            told(&["web1", "db"], &[&refused("web1"), "no route"]),
            "web1: connection refused (check the port)\ndb: no route"
        );
        assert_eq!(
            told(&["web1", "web2", "web3"], &[&refused("web1"), &refused("web2"), &refused("web3")]),
            "web[1-3]: connection refused; check the port"
        );
    }

    #[test]
    fn hosts_that_cannot_be_reached_are_named_beside_the_facts_of_the_others() {
        let away = |why: &str| Survey { unreachable: Some(why.to_owned()), ..Survey::default() };
        let surveys = vec![
            survey("/srv", Dialect::Bash, "/srv/a"),
            away("dead1: connection refused; check the port"),
            away("dead2: connection refused; check the port"),
            away("cannot reach db: no route"),
        ];
        let all = merged(&["web1", "dead1", "dead2", "db"], surveys);
        assert_eq!(all.unreached, ["dead1, dead2: connection refused", "cannot reach db: no route"]);
        assert_eq!((all.unreachable, all.incomplete), (None, None));
        assert_eq!((all.context.dialect, all.targets.len()), (Dialect::Bash, 1));
        let reached = vec![survey("/srv", Dialect::Bash, "/srv/a"), survey("/srv", Dialect::Bash, "/srv/a")];
        assert!(merged(&["web1", "web2"], reached).unreached.is_empty());
    }

    #[test]
    fn a_silent_host_makes_the_survey_unknown() {
        let silent = |name: &str| Survey::without_facts(no_answer(&[name]));
        let all = merged(&["a", "b"], vec![survey("/srv", Dialect::Bash, "/srv/a"), silent("b")]);
        assert_eq!((all.context.dialect, all.resolution), (Dialect::Unknown, Resolution::Failed));
        assert!(all.targets.is_empty());
        assert_eq!(all.incomplete.as_deref(), Some("b did not answer within 9.5 s"));
        let all = merged(&["a", "b"], vec![silent("a"), silent("b")]);
        assert_eq!(all.incomplete.as_deref(), Some("a, b did not answer within 9.5 s"));
    }
}
