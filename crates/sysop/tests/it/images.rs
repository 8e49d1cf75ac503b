//! Images in prompts, as the model server receives them.

use std::fs;

use serde_json::{Value, json};

use crate::World;
use crate::serve::serve;
use crate::support::{Mock, RawServer, call, http, lines_of_json, say, streamed};

/// The header of a PNG file of this size. sysop reads no more of it.
fn png(width: u32, height: u32) -> Vec<u8> {
    let start = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice();
    [start, &width.to_be_bytes(), &height.to_be_bytes(), b"\x08\x02\0\0\0"].concat()
}

fn world(url: &str, config: &str) -> World {
    let world = World::with_openai(url).file(".config/sysop/config.toml", config);
    fs::write(world.work().join("photo.png"), png(1280, 720)).unwrap();
    world
}

const SEES: &str = "[models.\"openai/test-model\"]\nvision = true\n";

/// Returns the content of the newest user message.
fn prompt(body: &Value) -> &Value {
    let messages = body["messages"].as_array().expect("messages");
    &messages.iter().rfind(|message| message["role"] == "user").expect("a prompt")["content"]
}

fn data_url() -> String {
    use base64::Engine as _;
    format!("data:image/png;base64,{}", base64::prelude::BASE64_STANDARD.encode(png(1280, 720)))
}

#[test]
fn exec_sends_an_image_and_the_log_refers_to_it() {
    let server = Mock::start(&[("look", vec![say("A red light.")])]);
    let world = world(&server.url(), SEES);
    let run = world.finish(&["exec", "--json", "--image", "photo.png", "look"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let part = json!({"type": "image_url", "image_url": {"url": data_url()}});
    assert_eq!(*prompt(&server.last_body()), json!([{"type": "text", "text": "look"}, part]));
    let message = lines_of_json(&run.out).into_iter().find(|line| line["type"] == "user.message").unwrap();
    let image = &message["images"][0];
    assert_eq!(
        (&image["width"], &image["height"], &image["name"]),
        (&1280.into(), &720.into(), &"photo.png".into())
    );
    let log = fs::read(world.data().join("sysop.db")).unwrap();
    let bytes = png(1280, 720);
    assert!(!log.windows(bytes.len()).any(|window| window == bytes), "the log contains no image bytes");
    let artifact = image["artifact"].as_str().unwrap();
    assert_eq!(fs::read(world.data().join("artefacts").join(artifact)).unwrap(), bytes);

    let shown = world.finish(&["sessions", "show", &world.only_session()]);
    assert!(shown.out.contains("[image 1280×720 photo.png]"), "{shown:?}");
    assert_eq!(world.finish(&["sessions", "delete", &world.only_session()]).code, Some(0));
    assert!(!world.data().join("artefacts").join(artifact).exists(), "the image is deleted with its session");
}

#[test]
fn files_that_are_not_images_or_too_large_are_refused_with_advice() {
    let server = Mock::start(&[("look", vec![say("x")])]);
    let world = world(&server.url(), SEES);
    fs::write(world.work().join("large.png"), png(2001, 10)).unwrap();
    fs::write(world.work().join("notes.png"), "text").unwrap();
    for (file, why) in [
        ("large.png", "has 2001×10 pixels; at most 2000 on each side are accepted\nhint: shrink it: `magick"),
        ("notes.png", "not a PNG, JPEG, GIF or WebP image"),
        ("gone.png", "check the path after --image"),
    ] {
        let run = world.finish(&["exec", "--image", file, "look"]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.err.contains(why) && run.err.contains(file), "{run:?}");
    }
    assert!(server.requests().is_empty());
}

#[test]
fn a_model_without_vision_is_not_asked() {
    let server = Mock::start(&[("look", vec![say("x")])]);
    let world = world(&server.url(), "[models.\"openai/test-model\"]\nvision = false\n");
    let run = world.finish(&["exec", "--image", "photo.png", "look"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(
        run.err.contains("openai/test-model cannot see images\nhint: choose a model that can with /model"),
        "{run:?}"
    );
    assert!(server.requests().is_empty());
}

#[test]
fn a_server_that_refuses_images_gets_the_text_and_the_user_a_note() {
    let refusal = r#"{"error":{"message":"unknown variant `image_url`, expected `text`"}}"#;
    let refusal = http("400 Bad Request", "application/json", refusal);
    let server = RawServer::replies(vec![refusal, streamed("Hm.")]);
    let world = world(&server.url(), "");
    let run = world.finish(&["exec", "--image", "photo.png", "look"]);
    assert_eq!((run.code, run.out.trim()), (Some(0), "Hm."), "{run:?}");
    assert!(run.err.contains("rejected a request with an image; only text is sent to it now"), "{run:?}");
    let bodies = server.bodies();
    assert_eq!(bodies.len(), 2);
    assert_eq!(
        *prompt(&bodies[1]),
        json!(
            "look\n[image 1280×720 photo.png omitted: you cannot see images; tell the user if the image matters]"
        )
    );
}

#[test]
fn a_model_views_an_image_file_below_the_root() {
    let view = |path: &str| call("view_image", json!({ "path": path }));
    // The API takes images of results in a message of the user, which starts the second scenario.
    let server = Mock::start(&[
        ("look", vec![view("photo.png")]),
        ("Images of the results", vec![view("../out.png"), say("A red light.")]),
    ]);
    let world = world(&server.url(), SEES);
    let run = world.finish(&["exec", "look"]);
    assert_eq!((run.code, run.out.trim()), (Some(0), "A red light."), "{run:?}");
    let body = server.last_body();
    let messages = body["messages"].as_array().unwrap();
    let results: Vec<_> = messages.iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results[0]["content"], "image 1280×720 photo.png");
    assert!(results[1]["content"].as_str().unwrap().contains(".."), "{results:?}");
    assert_eq!(prompt(&body)[1]["image_url"]["url"], data_url());
}

#[test]
fn view_image_is_offered_only_to_models_that_see() {
    let offered = |config: &str| {
        let server = Mock::start(&[("look", vec![say("x")])]);
        let run = world(&server.url(), config).finish(&["exec", "look"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        server.last_body()["tools"].to_string().contains("view_image")
    };
    assert!(offered(SEES));
    assert!(!offered(""));
}

#[test]
fn chat_sends_the_images_that_a_prompt_names() {
    let server = Mock::start(&[("look", vec![say("A red light.")])]);
    let world = world(&server.url(), SEES);
    fs::copy(world.work().join("photo.png"), world.work().join("my photo.png")).unwrap();
    let mut chat = world.start_with_input(&["chat", "--plain"]);
    chat.type_text("look at @photo.png, @\"my photo.png\" and @missing.png\n");
    chat.out.wait_for_text("A red light.");
    chat.end_input();
    let run = chat.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.out.contains("image 1280×720 photo.png"), "{run:?}");
    let body = server.last_body();
    let parts = prompt(&body).as_array().expect("parts");
    assert_eq!(parts.len(), 3, "text and two images: {parts:?}");
    assert_eq!(parts[0]["text"], "look at @photo.png, @\"my photo.png\" and @missing.png");
}

#[test]
fn a_server_stores_an_uploaded_image_for_a_prompt() {
    let mock = Mock::start(&[("look", vec![say("A red light.")])]);
    let server_world = world(&mock.url(), SEES);
    let server = serve(&server_world, &[]);
    let session = server.session();
    let images = format!("/api/agent/sessions/{session}/images");
    let (status, stored) = server.upload(&format!("{images}?name=photo.png"), "image/png", &png(1280, 720));
    assert_eq!(status, 201, "{stored}");
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!((&stored["width"], &stored["name"]), (&1280.into(), &"photo.png".into()));

    let messages = format!("/api/agent/sessions/{session}/messages");
    let send = |image: &Value| {
        server.post_as(&server.token, &messages, &json!({"content": "look", "images": [image]}))
    };
    let mut lies = stored.clone();
    lies["width"] = 10.into();
    let mut unknown = stored.clone();
    unknown["artifact"] = "../sysop.db".into();
    for (image, why) in
        [(&lies, "another format or size than stated"), (&unknown, "is not stored on this server")]
    {
        let (status, text) = send(image);
        assert!(status == 400 && text.contains(why), "{status}: {text}");
    }
    assert_eq!(send(&stored).0, 202);
    let told = server.events(&session, 0).until("assistant.done");
    assert!(told.iter().any(|message| message["content"] == "A red light."), "{told:?}");
    let part = json!({"type": "image_url", "image_url": {"url": data_url()}});
    assert_eq!(*prompt(&mock.last_body()), json!([{"type": "text", "text": "look"}, part]));
}

#[test]
fn an_upload_that_is_not_an_image_is_refused() {
    let mock = Mock::start(&[]);
    let server_world = world(&mock.url(), SEES);
    let server = serve(&server_world, &[]);
    let images = format!("/api/agent/sessions/{}/images", server.session());
    let large = [png(10, 10), vec![0; 5 * 1024 * 1024]].concat();
    for (media_type, bytes, status, why) in [
        ("text/plain", png(10, 10), 415, "Content-Type"),
        ("application/json", b"{}".to_vec(), 415, "Content-Type"),
        ("image/png", b"text".to_vec(), 422, "not a PNG"),
        ("image/png", png(2001, 10), 422, "2001"),
        ("image/png", large, 413, "too large"),
    ] {
        let (refused, text) = server.upload(&images, media_type, &bytes);
        assert!(refused == status && text.contains(why), "{media_type}: {refused} {text}");
    }
    let folder = server_world.data().join("artefacts");
    let stored = fs::read_dir(folder).map(Iterator::count).unwrap_or(0);
    assert_eq!(stored, 0, "nothing refused is stored");
}

#[test]
fn an_attached_client_sends_images_of_its_own_machine() {
    let mock = Mock::start(&[("look", vec![say("A red light.")])]);
    let server_world = World::with_openai(&mock.url()).file(".config/sysop/config.toml", SEES);
    let server = serve(&server_world, &[]);
    let here = World::new().variable("SYSOP_TOKEN", &server.token);
    fs::write(here.work().join("photo.png"), png(1280, 720)).unwrap();
    let mut attached = here.start_with_input(&["attach", "--plain", &format!("http://{}", server.address)]);
    attached.out.wait_for_text("You: ");
    attached.type_text("look at @photo.png\n");
    attached.out.wait_for_text("A red light.");
    attached.type_text("/exit\n");
    attached.end_input();
    let run = attached.finish();
    assert!(run.out.contains("image 1280×720 photo.png"), "{run:?}");
    let part = json!({"type": "image_url", "image_url": {"url": data_url()}});
    assert_eq!(prompt(&mock.last_body())[1], part);
}
