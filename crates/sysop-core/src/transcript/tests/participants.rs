//! Senders of prompts, shown once several people take part.

use super::*;

fn from(turn: u32, by: Option<&str>) -> Step {
    Event::TurnStarted {
        turn: TurnId(turn),
        prompt: format!("prompt {turn}"),
        origin: Origin::Model,
        images: Vec::new(),
        by: by.map(str::to_owned),
    }
    .into()
}

fn opened_by(by: &str) -> Step {
    Event::SessionOpened { spec: spec(), opened_by: Some(by.to_owned()) }.into()
}

fn answered(by: &str) -> Step {
    let decision = Decision::Allow { command: None };
    Event::Decided { call: CallId::new("c1"), decision, by: by.to_owned() }.into()
}

/// Returns the sender that is shown with each prompt.
fn senders(steps: &[Step]) -> Vec<Option<String>> {
    let transcript = live(steps);
    let prompts = transcript.items().filter_map(|item| {
        let ItemBody::Prompt(prompt) = &item.body else { return None };
        Some(prompt.sender().map(str::to_owned))
    });
    prompts.collect()
}

#[test]
fn senders_are_shown_once_a_second_person_takes_part() {
    let ada = || Some("ada".to_owned());
    let mut steps = vec![opened_by("ada"), from(1, Some("ada")), answered("ada"), from(2, Some("ada"))];
    assert_eq!(senders(&steps), [None, None]);
    steps.extend([answered("sysop"), answered("a hook")]);
    assert_eq!(senders(&steps), [None, None]);
    let before = live(&steps).items().map(|item| item.revision).collect::<Vec<_>>();
    let mut answered_by_bob = steps.clone();
    answered_by_bob.push(answered("bob"));
    assert_eq!(senders(&answered_by_bob), [ada(), ada()]);
    let after = live(&answered_by_bob).items().map(|item| item.revision).collect::<Vec<_>>();
    assert!(before.iter().zip(&after).all(|(before, after)| before < after), "{before:?} {after:?}");
    steps.push(from(3, Some("bob")));
    assert_eq!(senders(&steps), [ada(), ada(), Some("bob".to_owned())]);
}

#[test]
fn local_front_ends_are_not_people() {
    let steps = [open(), from(1, None), answered("tui"), answered("chat"), from(2, None)];
    assert_eq!(senders(&steps), [None, None]);
}

#[test]
fn a_queued_prompt_names_its_sender_among_several_people() {
    let queued = |by: &str| -> Step {
        let by = Some(by.to_owned());
        Event::PromptQueued { text: "next".to_owned(), images: Vec::new(), by }.into()
    };
    let steps = [opened_by("ada"), from(1, Some("ada")), queued("ada"), queued("bob")];
    let transcript = live(&steps);
    let notices: Vec<_> = transcript
        .items()
        .filter_map(|item| {
            let ItemBody::Notice(notice) = &item.body else { return None };
            Some(notice.text.as_str())
        })
        .collect();
    assert_eq!(notices, ["queued: next", "queued by bob: next"]);
}
