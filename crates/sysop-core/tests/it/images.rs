//! Images in prompts: models that cannot see them, queued and retried prompts, and compaction.

use sysop_core::event::{Event, Input, StopReason};
use sysop_core::image::{ImageFormat, ImageRef};
use sysop_core::message::Message;
use sysop_core::model_limits::ModelLimits;
use sysop_core::policy::ApprovalMode;
use sysop_core::spec::SessionSpec;
use sysop_core::tool::ToolEffect;

use crate::world::{World, says, spec, tool};

fn image(name: &str) -> ImageRef {
    ImageRef {
        artifact: format!("image-{name}"),
        media_type: ImageFormat::Png,
        width: 1400,
        height: 1400,
        name: name.to_owned(),
    }
}

fn seeing(vision: Option<bool>, context_window: Option<u32>) -> SessionSpec {
    let mut spec = spec(ApprovalMode::Auto);
    spec.max_history_messages = 0;
    let limits = ModelLimits { vision, context_window, ..ModelLimits::default() };
    spec.models.insert(spec.model.to_string(), limits);
    spec
}

fn look(name: &str) -> Input {
    Input::Prompt { text: format!("look at {name}"), images: vec![image(name)], by: None }
}

/// Returns the names of the images in the request to the model.
fn sent(world: &World) -> Vec<String> {
    let request = &world.asked.as_ref().expect("the model is asked").1;
    request
        .messages
        .iter()
        .flat_map(|message| message.message().images())
        .map(|image| image.name.clone())
        .collect()
}

#[test]
fn a_model_that_is_known_to_see_no_images_is_not_asked() {
    let mut world = World::new(seeing(Some(false), None));
    world.tell(look("a.png"));
    assert!(world.asked.is_none());
    let Some(Event::TurnEnded { reason, error: Some(error), .. }) = world.log.last() else {
        panic!("no error")
    };
    assert_eq!(*reason, StopReason::Failed);
    assert!(error.contains("cannot see images; choose a model that can"), "{error}");
    world.prompt("then in words");
    assert!(world.asked.is_some(), "later prompts without images are sent");
}

#[test]
fn a_servers_support_of_images_counts_for_the_next_prompt() {
    let mut world = World::new(seeing(None, None));
    world.tell(look("a.png"));
    assert_eq!(sent(&world), ["a.png"]);
    let mut reply = says("no picture here");
    reply.vision = Some(false);
    world.reply(reply).tell(look("b.png"));
    let refused = matches!(world.log.last(), Some(Event::TurnEnded { reason: StopReason::Failed, .. }));
    assert!(refused, "{}", world.lines());
}

#[test]
fn queued_and_retried_prompts_keep_their_images() {
    let mut world = World::new(seeing(Some(true), None));
    world.prompt("first").tell(look("a.png")).reply(says("done"));
    assert_eq!(sent(&world), ["a.png"]);
    world.reply(says("seen")).tell(Input::Retry);
    assert_eq!(sent(&world), ["a.png"]);
}

#[test]
fn a_prompt_of_images_alone_gets_text() {
    let mut world = World::new(seeing(Some(true), None));
    world.tell(Input::Prompt { text: " ".to_owned(), images: vec![image("a.png")], by: None });
    let request = &world.asked.as_ref().expect("the model is asked").1;
    assert!(matches!(request.messages[0].message(), Message::User { text, .. } if !text.trim().is_empty()));
}

#[test]
fn view_image_is_offered_only_to_models_that_see() {
    for (vision, offered) in [(Some(true), true), (Some(false), false), (None, false)] {
        let mut spec = seeing(vision, None);
        spec.tools.push(tool("view_image", ToolEffect::Reads, "path"));
        let mut world = World::new(spec);
        world.prompt("go");
        let tools = &world.asked.as_ref().expect("the model is asked").1.tools;
        assert_eq!(tools.iter().any(|tool| tool.name == "view_image"), offered, "{vision:?}");
    }
}

#[test]
fn compaction_leaves_out_older_images_first() {
    let mut world = World::new(seeing(Some(true), Some(9_000)));
    for name in ["a.png", "b.png", "c.png"] {
        world.tell(look(name)).reply(says("seen"));
    }
    world.tell(look("d.png"));
    assert_eq!(sent(&world), ["c.png", "d.png"], "{}", world.lines());
    let elided = world.log.iter().any(|event| {
        matches!(event, Event::ContextCompacted { compaction }
            if compaction.images_elided && compaction.replaced == 0 && compaction.elided.is_empty())
    });
    assert!(elided, "{}", world.lines());
    let request = &world.asked.as_ref().expect("the model is asked").1;
    let Message::User { text, .. } = request.messages[0].message() else { panic!("not a prompt") };
    assert_eq!(text, "look at a.png\n[image 1400×1400 a.png omitted]");
}
