//! A display for each test, with the observations and actions of a user.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    ClientMessageEvent, ConfigureWindowAux, ConnectionExt, CreateWindowAux, EventMask, ImageFormat,
    InputFocus, MapState, PropMode, StackMode, Window, WindowClass,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

/// Maximum wait for anything that should happen soon, on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
/// X11 event codes of a key press and a key release.
const KEYS: [u8; 2] = [2, 3];

/// Waits for a condition; fails the test with the condition's name on timeout.
pub(crate) fn wait<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < until, "{what}: it did not happen");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

pub(crate) struct Display {
    server: Child,
    connection: RustConnection,
    root: Window,
    /// Value for `DISPLAY`.
    pub(crate) name: String,
}

/// Position and size of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) x: i16,
    pub(crate) y: i16,
    pub(crate) width: u16,
    pub(crate) height: u16,
}

impl Display {
    pub(crate) fn start() -> Self {
        let mut server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "1600x1200x24", "-nolisten", "tcp", "-noreset"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb is there; `cargo xtask setup` installs it");
        let mut number = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut number).unwrap();
        let name = format!(":{}", number.trim());
        let (connection, screen) = RustConnection::connect(Some(&name)).unwrap();
        let root = connection.setup().roots[screen].root;
        Self { server, connection, root, name }
    }

    fn atom(&self, name: &str) -> u32 {
        self.connection.intern_atom(false, name.as_bytes()).unwrap().reply().unwrap().atom
    }

    fn title_of(&self, window: Window) -> Option<String> {
        let (name, text) = (self.atom("_NET_WM_NAME"), self.atom("UTF8_STRING"));
        let reply = self.connection.get_property(false, window, name, text, 0, 1024).unwrap().reply().ok()?;
        String::from_utf8(reply.value).ok().filter(|title| !title.is_empty())
    }

    /// Returns the visible windows with a title, the topmost last.
    pub(crate) fn windows(&self) -> Vec<(Window, String)> {
        let children = self.connection.query_tree(self.root).unwrap().reply().unwrap().children;
        let shown = |window: &Window| {
            let attributes = self.connection.get_window_attributes(*window).unwrap().reply();
            attributes.is_ok_and(|attributes| attributes.map_state == MapState::VIEWABLE)
        };
        children
            .into_iter()
            .filter(shown)
            .filter_map(|window| Some((window, self.title_of(window)?)))
            .collect()
    }

    pub(crate) fn window(&self, title: &str) -> Window {
        wait(&format!("a window with the title {title:?}"), || {
            self.windows().into_iter().find(|(_, of)| of == title).map(|(window, _)| window)
        })
    }

    pub(crate) fn geometry(&self, window: Window) -> Geometry {
        let of = self.connection.get_geometry(window).unwrap().reply().unwrap();
        let at = self.connection.translate_coordinates(window, self.root, 0, 0).unwrap().reply().unwrap();
        Geometry { x: at.dst_x, y: at.dst_y, width: of.width, height: of.height }
    }

    pub(crate) fn place(&self, window: Window, to: Geometry) {
        let place = ConfigureWindowAux::new()
            .x(i32::from(to.x))
            .y(i32::from(to.y))
            .width(u32::from(to.width))
            .height(u32::from(to.height));
        self.connection.configure_window(window, &place).unwrap().check().unwrap();
    }

    /// Closes a window like a user: asks the program to close it.
    pub(crate) fn close(&self, window: Window) {
        let delete = self.atom("WM_DELETE_WINDOW");
        let message = ClientMessageEvent::new(32, window, self.atom("WM_PROTOCOLS"), [delete, 0, 0, 0, 0]);
        self.connection.send_event(false, window, EventMask::NO_EVENT, message).unwrap().check().unwrap();
    }

    /// Covers everything with a window of another program.
    pub(crate) fn cover(&self) -> Window {
        let window = self.connection.generate_id().unwrap();
        let none = &CreateWindowAux::new().override_redirect(1).background_pixel(0x80_4020);
        let class = WindowClass::INPUT_OUTPUT;
        let made = self.connection.create_window(0, window, self.root, 0, 0, 1600, 1200, 0, class, 0, none);
        made.unwrap().check().unwrap();
        let (name, text) = (self.atom("_NET_WM_NAME"), self.atom("UTF8_STRING"));
        let titled = self.connection.change_property8(PropMode::REPLACE, window, name, text, b"cover");
        titled.unwrap().check().unwrap();
        self.connection.map_window(window).unwrap().check().unwrap();
        let above = ConfigureWindowAux::new().stack_mode(StackMode::ABOVE);
        self.connection.configure_window(window, &above).unwrap().check().unwrap();
        window
    }

    pub(crate) fn focus(&self, window: Window) {
        self.connection.set_input_focus(InputFocus::POINTER_ROOT, window, 0u32).unwrap().check().unwrap();
    }

    /// Types keys, by the keycodes of a PC keyboard.
    pub(crate) fn press(&self, codes: &[u8]) {
        for (code, kind) in codes.iter().flat_map(|code| KEYS.map(|kind| (*code, kind))) {
            let pressed = self.connection.xtest_fake_input(kind, code, 0, self.root, 0, 0, 0);
            pressed.unwrap().check().unwrap();
        }
    }

    /// Returns the picture of a window: width, height, and the RGB value of each pixel.
    pub(crate) fn picture(&self, window: Window) -> (u16, u16, Vec<[u8; 3]>) {
        let Geometry { width, height, .. } = self.geometry(window);
        let image =
            self.connection.get_image(ImageFormat::Z_PIXMAP, window, 0, 0, width, height, u32::MAX).unwrap();
        let data = image.reply().unwrap().data;
        (width, height, data.chunks_exact(4).map(|point| [point[2], point[1], point[0]]).collect())
    }

    /// Waits until something is drawn, and saves the picture in the target directory.
    pub(crate) fn screenshot(&self, window: Window, name: &str) {
        let (width, height, points) = wait("something is drawn in the window", || {
            let picture = self.picture(window);
            let ground = picture.2.last().copied()?;
            let drawn = picture.2.iter().filter(|point| **point != ground).count();
            (drawn > 200).then_some(picture)
        });
        let mut file = format!("P6\n{width} {height}\n255\n").into_bytes();
        file.extend(points.iter().flatten());
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(folder.join(format!("{name}.ppm")), file).unwrap();
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
