//! Desktop notifications, received by the test's own service on its own bus.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use gtk::gio::prelude::*;
use gtk::gio::{Cancellable, DBusCallFlags, DBusConnection, DBusConnectionFlags, DBusNodeInfo};
use gtk::glib::{MainContext, MainLoop, Variant};
use serde_json::json;

use crate::display::{DEADLINE, Display};
use crate::world::{World, ask, port_of, sysop};

/// D-Bus interface of a notification service.
const INTERFACE: &str = r#"<node><interface name="org.freedesktop.Notifications">
<method name="Notify"><arg type="s" direction="in"/><arg type="u" direction="in"/><arg type="s" direction="in"/>
<arg type="s" direction="in"/><arg type="s" direction="in"/><arg type="as" direction="in"/>
<arg type="a{sv}" direction="in"/><arg type="i" direction="in"/><arg type="u" direction="out"/></method>
<method name="CloseNotification"><arg type="u" direction="in"/></method>
<signal name="ActionInvoked"><arg type="u"/><arg type="s"/></signal></interface></node>"#;
const NAME: &str = "org.freedesktop.Notifications";
const OBJECT: &str = "/org/freedesktop/Notifications";

struct Bus {
    daemon: Child,
    address: String,
    called: Receiver<(String, Variant)>,
    connection: DBusConnection,
}

impl Bus {
    fn start() -> Self {
        let mut daemon = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--print-address=1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon is there; `cargo xtask setup` installs it");
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        let (told, called) = channel();
        let (ready, is_ready) = channel();
        let at = address.clone();
        // Ends with the process.
        std::thread::spawn(move || {
            let context = MainContext::new();
            let context_of = context.clone();
            context
                .with_thread_default(move || {
                    let flags = DBusConnectionFlags::AUTHENTICATION_CLIENT
                        | DBusConnectionFlags::MESSAGE_BUS_CONNECTION;
                    let connection = DBusConnection::for_address_sync(&at, flags, None, Cancellable::NONE);
                    let connection = connection.unwrap();
                    let node = DBusNodeInfo::for_xml(INTERFACE).unwrap();
                    let interface = node.lookup_interface(NAME).unwrap();
                    let method =
                        move |_: DBusConnection,
                              _: &str,
                              _: &str,
                              _: &str,
                              method: &str,
                              parameters: Variant,
                              invocation: gtk::gio::DBusMethodInvocation| {
                            let answer = (method == "Notify").then(|| (7u32,).to_variant());
                            invocation.return_value(answer.as_ref());
                            told.send((method.to_owned(), parameters)).unwrap();
                        };
                    connection
                        .register_object(
                            OBJECT,
                            &interface,
                            method,
                            |_, _, _, _, _| ().to_variant(),
                            |_, _, _, _, _, _| false,
                        )
                        .unwrap();
                    connection.set_exit_on_close(false);
                    let bus = "org.freedesktop.DBus";
                    let name = (NAME, 0u32).to_variant();
                    let (flags, nothing) = (DBusCallFlags::NONE, Cancellable::NONE);
                    connection
                        .call_sync(Some(bus), "/", bus, "RequestName", Some(&name), None, flags, -1, nothing)
                        .unwrap();
                    ready.send(connection).unwrap();
                    MainLoop::new(Some(&context_of), false).run();
                })
                .unwrap();
        });
        let connection = is_ready.recv_timeout(DEADLINE).unwrap();
        Self { daemon, address, called, connection }
    }

    fn next(&self, method: &str) -> Variant {
        let (called, parameters) = self.called.recv_timeout(DEADLINE).expect("the service is called");
        assert_eq!(called, method, "{parameters:?}");
        parameters
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn text(parameters: &Variant, index: usize) -> String {
    parameters.child_value(index).get::<String>().unwrap()
}

#[test]
fn an_unfocused_window_notifies_and_a_click_raises_it() {
    let (display, bus) = (Display::start(), Bus::start());
    let world = World::new().variable("DBUS_SESSION_BUS_ADDRESS", &bus.address);
    let made = world.command(&sysop(), &["token", "create", "--name", "test", "--scope", "operate"]).output();
    let made = String::from_utf8(made.unwrap().stdout).unwrap();
    let token = made.split_whitespace().find(|word| word.starts_with("sysop_")).expect("it prints the token");
    let mut desktop = world.desktop(&display);
    let window = display.window("sysop");
    let cover = display.cover();
    display.focus(cover);

    let port = port_of(desktop.server());
    let session = ask(port, token, "POST", "/api/agent/sessions", "{}");
    let session = session["sessionId"].as_str().unwrap().to_owned();
    let say = |content: &str| {
        let says = json!({ "content": content }).to_string();
        ask(port, token, "POST", &format!("/api/agent/sessions/{session}/messages"), &says);
    };
    // The prompt is plain text, even if the service would interpret markup.
    say("hello & <b>bye</b>");
    let shown = bus.next("Notify");
    assert_eq!(
        (text(&shown, 3).as_str(), text(&shown, 4).as_str()),
        ("sysop is done", "hello &amp; &lt;b&gt;bye&lt;/b&gt;")
    );
    // The notification is obsolete once there is a next task.
    say("demo: write a script here that greets");
    assert_eq!(bus.next("CloseNotification").child_value(0).get::<u32>(), Some(7));
    let shown = bus.next("Notify");
    assert_eq!(
        (text(&shown, 0), text(&shown, 3)),
        ("sysop".to_owned(), "sysop: approval required".to_owned())
    );
    assert!(!text(&shown, 4).is_empty(), "the notification has a body: {shown:?}");

    // A click raises the window, which withdraws the notification.
    let clicked = (7u32, "default").to_variant();
    bus.connection.emit_signal(None, OBJECT, NAME, "ActionInvoked", Some(&clicked)).unwrap();
    crate::display::wait("the window is on top", || (display.windows().last()?.0 == window).then_some(()));
    let closed = bus.next("CloseNotification");
    assert_eq!(closed.child_value(0).get::<u32>(), Some(7));
    display.close(window);
    let (status, said) = desktop.end();
    assert!(status.success(), "{status}: {said}");
}
