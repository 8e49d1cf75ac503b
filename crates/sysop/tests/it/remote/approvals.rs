//! Two people for one host, by a server and `sysop approve`.

use std::fs;

use secrecy::ExposeSecret;
use serde_json::json;
use sysop_core::id::Timestamp;
use sysop_driver::tokens::{TokenKind, TokenStore};
use sysop_server::auth::{NewToken, mint};
use sysop_store::SqliteStore;

use super::RemoteMachineRig;
use crate::World;
use crate::approvals::{asked, only_id};
use crate::serve::serve;
use crate::support::{bash, say};

const TASK: &str = "change the file";

/// Makes a token as another system user of the server's machine would.
fn token_of_another_user(world: &World, owner: &str) -> String {
    let store = SqliteStore::open(&world.home().join(".local/share/sysop/sysop.db")).unwrap();
    let (token, record) = mint(NewToken {
        kind: TokenKind::Issued,
        name: "pager".to_owned(),
        owner: owner.to_owned(),
        scopes: "decide".parse().unwrap(),
        now: Timestamp(1),
        expires: None,
        parent: None,
        unattended: false,
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.insert_token(&record)).unwrap();
    token.expose_secret().to_owned()
}

#[test]
fn a_change_on_a_guarded_host_needs_two_different_people() {
    let rig = RemoteMachineRig::with(&[(TASK, vec![bash("touch made"), say("That is it.")])]);
    let config = rig.world.home().join(".config/sysop/config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}approvals = 2\n")).unwrap();
    let server = serve(&rig.world, &["--approve", "auto"]);
    let session = asked(&server, &json!({ "host": "far" }));
    let list = rig.world.finish(&["approve"]);
    assert!(list.out.contains("0 of 2 people"), "{list:?}");
    let id = only_id(&list);
    let mut events = server.events(&session, 0);
    let first = rig.world.finish(&["approve", &id]);
    assert_eq!(
        (first.code, first.out.as_str()),
        (Some(0), "Allowed (1 of 2 approvals; another person must also allow it): touch made\n"),
        "{first:?}"
    );
    let given = events.until("approval.given").pop().unwrap();
    assert_eq!(given["needed"], 2);
    let again = rig.world.finish(&["approve", &id]);
    assert!(again.code == Some(1) && again.err.contains("you have already allowed it"), "{again:?}");
    assert!(!rig.there("made").exists());

    let bob = token_of_another_user(&rig.world, "bob");
    let elsewhere = World::new()
        .variable("SYSOP_URL", &format!("http://{}", server.address))
        .variable("SYSOP_TOKEN", &bob);
    let list = elsewhere.finish(&["approve"]);
    assert!(list.out.contains("1 of 2 people ("), "{list:?}");
    let second = elsewhere.finish(&["approve", &id]);
    assert_eq!((second.code, second.out.as_str()), (Some(0), "Allowed: touch made\n"), "{second:?}");
    events.until("assistant.done");
    assert!(rig.there("made").exists());
}
