//! Keys of the sandbox, and the limits of an untrusted workspace.

use super::World;

#[test]
fn the_sandbox_has_defaults_and_variables() {
    let config = World::new().load();
    assert_eq!(config.text("sandbox"), "\"auto\"");
    assert_eq!(config.text("sandbox_write"), r#"["~/.cache", "~/.cargo", "~/.npm"]"#);
    assert_eq!(config.text("sandbox_network"), "true");
    let config = World::new()
        .environment(&[
            ("SYSOP_SANDBOX", "on"),
            ("SYSOP_SANDBOX_WRITE", r#"["/srv/cache"]"#),
            ("SYSOP_SANDBOX_NETWORK", "false"),
        ])
        .load();
    assert_eq!(config.text("sandbox"), "\"on\"");
    assert_eq!(config.text("sandbox_write"), r#"["/srv/cache"]"#);
    assert_eq!(config.text("sandbox_network"), "false");
}

#[test]
fn an_untrusted_workspace_can_only_tighten_the_sandbox() {
    let wanted =
        |own: &str, workspace: &str, key: &str| World::new().own(own).workspace(workspace).load().text(key);
    let words = ["off", "auto", "on"];
    for (at, own) in words.iter().enumerate() {
        for (wish_at, wish) in words.iter().enumerate() {
            let held = wanted(&format!("sandbox = '{own}'\n"), &format!("sandbox = '{wish}'\n"), "sandbox");
            assert_eq!(held, format!("{:?}", words[at.max(wish_at)]), "{own} {wish}");
        }
    }
    assert_eq!(wanted("", "sandbox = 'off'\n", "sandbox"), "\"auto\"");
    let write = wanted("sandbox_write = ['/a']\n", "sandbox_write = ['/', '~']\n", "sandbox_write");
    assert_eq!(write, r#"["/a"]"#);
    assert_eq!(wanted("", "sandbox_network = false\n", "sandbox_network"), "false");
    assert_eq!(wanted("", "on_timeout = 'background'\n", "on_timeout"), "\"kill\"");
    assert_eq!(wanted("on_timeout = 'background'\n", "on_timeout = 'kill'\n", "on_timeout"), "\"kill\"");
    let network = wanted("sandbox_network = false\n", "sandbox_network = true\n", "sandbox_network");
    assert_eq!(network, "false");
}

#[test]
fn writable_directories_are_absolute_or_below_home() {
    let config = World::new().own("sandbox_write = ['/a', 'target', '~/b', '~', '~ann/c']\n").load();
    assert_eq!(config.text("sandbox_write"), r#"["/a", "~/b", "~"]"#);
    assert_eq!(config.warnings.len(), 2);
}
