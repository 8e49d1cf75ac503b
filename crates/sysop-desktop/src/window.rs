//! The window: puts together what the other modules decide, and does what is done on the screen.

use std::cell::RefCell;
use std::process::{Command, ExitStatus, Stdio};
use std::rc::Rc;

use anyhow::{Context, Result};
use gtk::prelude::GtkWindowExt;
use tao::dpi::{LogicalPosition, LogicalSize, PhysicalPosition};
use tao::event::{Event, WindowEvent};
use tao::event_loop::{ControlFlow, EventLoop, EventLoopBuilder, EventLoopProxy};
use tao::platform::run_return::EventLoopExtRunReturn;
use tao::platform::unix::WindowExtUnix;
use tao::window::{Theme, Window, WindowBuilder};
use url::{Origin, Url};
use webkit2gtk::WebViewExt;
use wry::{
    NewWindowResponse, PermissionResponse, WebContext, WebView, WebViewBuilder, WebViewBuilderExtUnix,
    WebViewExtUnix,
};

use crate::arguments::Arguments;
use crate::news::{Notifier, Reader};
use crate::one::{Only, Raise};
use crate::place::{self, Ruling};
use crate::server::{Ended, Happening, Server};
use crate::state::{Folders, SIZE_MIN, State};
use crate::{page, tell};

/// The window's title, where the page has none.
const TITLE: &str = "sysop";
/// And before there is a page.
const TITLE_FIRST: &str = "sysop: starting";
/// The longest title that is taken from the page, in characters.
const TITLE_CHARS_MAX: usize = 120;
/// How often the web engine may end by itself before the page is given up.
const CRASHES_MAX: u32 = 3;

/// What the loop of the window hears from elsewhere.
#[derive(Debug)]
enum Heard {
    /// Of the server that was started as the so-manieth.
    Server(u64, Happening),
    /// A second start.
    Raise(Raise),
    /// A notice of this session was clicked on.
    Open(String),
    /// The page has a title.
    Title(String),
    /// The page asks to be closed, or a signal does.
    Close,
    /// The person wants the server to be started again.
    Again,
    /// The process of the page has ended.
    PageEnded,
}

/// Shows the window until it is closed. Gives what the process is to end with.
///
/// # Errors
/// The window or the server cannot be had.
pub(crate) fn show(arguments: Arguments, folders: &Folders, only: Only) -> Result<u8> {
    let mut events: EventLoop<Heard> = EventLoopBuilder::with_user_event().build();
    let state = State::load(folders);
    let window = build_window(&events, state)?;
    let proxy = events.create_proxy();
    let own = Rc::new(RefCell::new(None));
    // A window that was killed may have left it.
    folders.forget_cookie();
    let mut context = WebContext::new(Some(folders.web()));
    let view = build_view(&window, &mut context, &proxy, &own)?;
    listen(&only, &proxy)?;
    let notifier = {
        let proxy = proxy.clone();
        Notifier::new(move |session| drop(proxy.send_event(Heard::Open(session))))
    };
    let mut shown = Shown {
        arguments,
        window,
        view,
        proxy,
        own,
        notifier,
        reader: Reader::default(),
        state,
        server: None,
        started: 0,
        crashes: 0,
        failed: None,
    };
    shown.start()?;
    events.run_return(|event, _, flow| {
        *flow = if shown.take(event) { ControlFlow::Exit } else { ControlFlow::Wait };
    });
    // The window goes at once; its server may take a moment.
    shown.window.set_visible(false);
    gtk::gdk::Display::default().inspect(gtk::gdk::Display::flush);
    only.close();
    shown.remember(folders);
    shown.notifier.clear();
    let Shown { server, failed, .. } = shown;
    server.into_iter().for_each(Server::end);
    folders.forget_cookie();
    Ok(failed.map_or(0, |status| {
        status.and_then(|status| status.code()).map_or(1, |code| if code == 2 { 2 } else { 1 })
    }))
}

fn build_window(events: &EventLoop<Heard>, state: State) -> Result<Window> {
    let mut builder = WindowBuilder::new()
        .with_title(TITLE_FIRST)
        .with_inner_size(LogicalSize::new(state.width, state.height))
        .with_min_inner_size(LogicalSize::new(SIZE_MIN.0, SIZE_MIN.1))
        .with_maximized(state.maximized)
        .with_theme(None::<Theme>);
    if let Some((x, y)) = state.position {
        // A display that was there then may be gone.
        let inside = events.available_monitors().any(|monitor| {
            let scale = monitor.scale_factor();
            let (at, size) =
                (monitor.position().to_logical::<f64>(scale), monitor.size().to_logical::<f64>(scale));
            (at.x..at.x + size.width).contains(&x) && (at.y..at.y + size.height).contains(&y)
        });
        if inside {
            builder = builder.with_position(LogicalPosition::new(x, y));
        }
    }
    let window = builder.build(events).context("cannot open a window")?;
    window.gtk_window().set_icon_name(Some("sysop"));
    Ok(window)
}

fn build_view(
    window: &Window,
    context: &mut WebContext,
    proxy: &EventLoopProxy<Heard>,
    own: &Rc<RefCell<Option<Origin>>>,
) -> Result<WebView> {
    let (goes, opens, titled) = (proxy.clone(), Rc::clone(own), proxy.clone());
    let own = Rc::clone(own);
    let builder = WebViewBuilder::new_with_web_context(context)
        .with_html(page::waiting(None))
        .with_devtools(false)
        .with_clipboard(true)
        .with_back_forward_navigation_gestures(false)
        .with_navigation_handler(move |address| match place::rule(&address, own.borrow().as_ref()) {
            Ruling::Here => true,
            Ruling::Outside(url) => {
                open_outside(&url);
                false
            }
            Ruling::Again => {
                let _ = goes.send_event(Heard::Again);
                false
            }
            Ruling::Refused => false,
        })
        .with_new_window_req_handler(move |address, _| {
            if let Ruling::Outside(url) = place::rule_on_window(&address, opens.borrow().as_ref()) {
                open_outside(&url);
            }
            NewWindowResponse::Deny
        })
        // The page needs none of what can be asked for; notices come from here.
        .with_permission_handler(|_| PermissionResponse::Deny)
        .with_document_title_changed_handler(move |title| drop(titled.send_event(Heard::Title(title))));
    let container = window.default_vbox().context("a window has room for a page")?;
    let view = builder.build_gtk(container).context("cannot show a page")?;
    let (closes, ends) = (proxy.clone(), proxy.clone());
    view.webview().connect_close(move |_| drop(closes.send_event(Heard::Close)));
    view.webview().connect_web_process_terminated(move |_, _| drop(ends.send_event(Heard::PageEnded)));
    Ok(view)
}

/// Hears second starts and signals.
fn listen(only: &Only, proxy: &EventLoopProxy<Heard>) -> Result<()> {
    let raises = proxy.clone();
    only.listen(move |raise| drop(raises.send_event(Heard::Raise(raise))))?;
    // SIGHUP, SIGINT, SIGTERM
    for signal in [1, 2, 15] {
        let proxy = proxy.clone();
        gtk::glib::unix_signal_add_local(signal, move || {
            let _ = proxy.send_event(Heard::Close);
            gtk::glib::ControlFlow::Continue
        });
    }
    Ok(())
}

/// Gives an address of the web to the person's own browser.
fn open_outside(url: &Url) {
    let mut open = Command::new("xdg-open");
    open.arg(url.as_str()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match open.spawn() {
        // Its end is waited for, so that no dead process is left.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(error) => tell::note(&format!("cannot open {url} ({error}); the package xdg-utils has xdg-open")),
    }
}

/// The window and all that belongs to it.
struct Shown {
    arguments: Arguments,
    window: Window,
    view: WebView,
    proxy: EventLoopProxy<Heard>,
    /// Where the page may go.
    own: Rc<RefCell<Option<Origin>>>,
    notifier: Notifier,
    reader: Reader,
    state: State,
    server: Option<Server>,
    /// How many servers were started.
    started: u64,
    crashes: u32,
    /// How the server ended, where it did by itself and was not started again.
    failed: Option<Option<ExitStatus>>,
}

impl Shown {
    fn start(&mut self) -> Result<()> {
        self.started += 1;
        self.failed = None;
        let (number, proxy) = (self.started, self.proxy.clone());
        let told = move |happening| drop(proxy.send_event(Heard::Server(number, happening)));
        self.server =
            Some(Server::start(&self.arguments.sysop, &self.arguments.server, self.state.port, told)?);
        Ok(())
    }

    /// Takes an event; true when the window is to go.
    #[expect(clippy::wildcard_enum_match_arm, reason = "a window tells of much more than is of use here")]
    fn take(&mut self, event: Event<'_, Heard>) -> bool {
        match event {
            Event::WindowEvent { event, .. } => match event {
                WindowEvent::CloseRequested | WindowEvent::Destroyed => return true,
                WindowEvent::Resized(_) | WindowEvent::Moved(_) => self.measure(),
                WindowEvent::Focused(true) => self.notifier.clear(),
                _ => {}
            },
            Event::UserEvent(heard) => return self.hear(heard),
            _ => {}
        }
        false
    }

    fn hear(&mut self, heard: Heard) -> bool {
        match heard {
            Heard::Server(number, happening) if number == self.started => self.follow(happening),
            Heard::Server(..) => {} // of a server that was replaced
            Heard::Raise(raise) => {
                raise.session.iter().for_each(|session| self.open(session));
                self.raise(raise.activation.as_deref());
            }
            Heard::Open(session) => {
                self.open(&session);
                self.raise(None);
            }
            Heard::Title(title) => {
                let title: String = tell::harmless(title.trim()).chars().take(TITLE_CHARS_MAX).collect();
                self.window.set_title(if title.is_empty() { TITLE } else { &title });
            }
            Heard::Close => return true,
            Heard::Again => {
                if self.server.is_none() {
                    self.load_html(&page::waiting(None));
                    if let Err(error) = self.start() {
                        self.give_up(&Ended {
                            status: None,
                            was_ready: false,
                            lines: vec![format!("{error:#}")],
                        });
                    }
                }
            }
            Heard::PageEnded => {
                self.crashes += 1;
                if self.crashes <= CRASHES_MAX {
                    self.view.webview().reload();
                }
            }
        }
        false
    }

    fn follow(&mut self, happening: Happening) {
        match happening {
            Happening::NotReady(missing) => self.load_html(&page::waiting(Some(&missing))),
            Happening::Ready(mut url) => {
                *self.own.borrow_mut() = Some(url.origin());
                self.state.port = url.port();
                // The server sends the browser on to the page; what stands behind `#` stays.
                url.set_fragment(self.arguments.session.as_deref().map(fragment).as_deref());
                self.load(&url);
            }
            Happening::News(message) => {
                let notice = self.reader.notice(&message);
                if let Some(notice) = notice.filter(|_| !self.window.is_focused()) {
                    self.notifier.tell(notice);
                }
            }
            Happening::Ended(ended) => {
                self.server = None;
                *self.own.borrow_mut() = None;
                self.give_up(&ended);
            }
        }
    }

    /// Shows that there is no server.
    fn give_up(&mut self, ended: &Ended) {
        self.failed = Some(ended.status);
        ended.lines.iter().for_each(|line| tell::say(line));
        tell::error(if ended.was_ready { "the server has ended" } else { "the server could not start" });
        self.load_html(&page::ended(ended));
    }

    /// Shows a session.
    fn open(&mut self, session: &str) {
        self.arguments.session = Some(session.to_owned());
        let own = self.own.borrow().clone();
        if let Some(own) = own.and_then(|own| Url::parse(&own.ascii_serialization()).ok()) {
            let mut url = own;
            url.set_fragment(Some(&fragment(session)));
            self.load(&url);
        }
    }

    /// Brings the window to the front.
    fn raise(&self, activation: Option<&str>) {
        let window = self.window.gtk_window();
        if let Some(activation) = activation {
            window.set_startup_id(activation);
        }
        window.deiconify();
        window.present_with_time(0); // now
    }

    /// Learns its size and place, while they are its own.
    fn measure(&mut self) {
        self.state.maximized = self.window.is_maximized();
        if self.state.maximized || self.window.fullscreen().is_some() {
            return;
        }
        let scale = self.window.scale_factor();
        let size = self.window.inner_size().to_logical::<f64>(scale);
        (self.state.width, self.state.height) = (size.width, size.height);
        let position = self.window.outer_position().ok();
        self.state.position = position.map(|at: PhysicalPosition<i32>| at.to_logical::<f64>(scale).into());
    }

    fn remember(&self, folders: &Folders) {
        if let Err(error) = self.state.save(folders) {
            tell::note(&format!("{error:#}"));
        }
    }

    fn load(&self, url: &Url) {
        if let Err(error) = self.view.load_url(url.as_str()) {
            tell::note(&format!("cannot show the page ({error})"));
        }
    }

    fn load_html(&self, html: &str) {
        if let Err(error) = self.view.load_html(html) {
            tell::note(&format!("cannot show a page ({error})"));
        }
    }
}

/// How the page is told which session to show.
fn fragment(session: &str) -> String {
    format!("/s/{session}")
}
