//! The window: combines the decisions of the other modules and executes them.

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

use crate::arguments::WindowArguments;
use crate::navigation::{self, NavigationDecision};
use crate::notifications::{NotificationFilter, Notifier};
use crate::server::{ServerEvent, ServerExit, ServerProcess};
use crate::single_instance::{InstanceLock, RaiseRequest};
use crate::window_state::{DataDirs, SIZE_MIN, WindowState};
use crate::{page, stderr};

const TITLE: &str = "sysop";
/// Title before the page is loaded.
const TITLE_FIRST: &str = "sysop: starting";
/// Maximum number of characters to take from the page's title.
const TITLE_CHARS_MAX: usize = 120;
/// Maximum number of web engine crashes after which the page is reloaded.
const CRASHES_MAX: u32 = 3;

/// Event from outside the window's event loop.
#[derive(Debug)]
enum AppEvent {
    /// Event from a server, tagged with the server's start number. Events from an earlier server are ignored.
    FromServer(u64, ServerEvent),
    /// Request from another process of sysop-desktop to raise the window.
    RaiseWindow(RaiseRequest),
    /// A notification of this session was clicked.
    OpenSession(String),
    TitleChanged(String),
    /// The page or a signal requested to close the window.
    Close,
    RestartServer,
    /// The page's web process crashed or exited.
    PageCrashed,
}

/// Shows the window until it is closed; returns the exit code. Fails if the window or the server cannot be created.
pub(crate) fn show(arguments: WindowArguments, folders: &DataDirs, instance: InstanceLock) -> Result<u8> {
    let mut events: EventLoop<AppEvent> = EventLoopBuilder::with_user_event().build();
    let state = WindowState::load(folders);
    let window = build_window(&events, state)?;
    let proxy = events.create_proxy();
    let server_origin = Rc::new(RefCell::new(None));
    // A killed window may have left a cookie behind.
    folders.forget_cookie();
    let mut context = WebContext::new(Some(folders.web()));
    let view = build_view(&window, &mut context, &proxy, &server_origin)?;
    listen(&instance, &proxy)?;
    let notifier = {
        let proxy = proxy.clone();
        Notifier::new(move |session| drop(proxy.send_event(AppEvent::OpenSession(session))))
    };
    let mut desktop_window = DesktopWindow {
        arguments,
        window,
        view,
        proxy,
        server_origin,
        notifier,
        reader: NotificationFilter::default(),
        state,
        server: None,
        started: 0,
        crashes: 0,
        failed: None,
    };
    desktop_window.start()?;
    events.run_return(|event, _, flow| {
        *flow = if desktop_window.take(event) { ControlFlow::Exit } else { ControlFlow::Wait };
    });
    // Hide the window immediately; its server may take a moment to exit.
    desktop_window.window.set_visible(false);
    gtk::gdk::Display::default().inspect(gtk::gdk::Display::flush);
    instance.close();
    desktop_window.save_state(folders);
    desktop_window.notifier.clear();
    let DesktopWindow { server, failed, .. } = desktop_window;
    server.into_iter().for_each(ServerProcess::end);
    folders.forget_cookie();
    Ok(failed.map_or(0, |status| {
        status.and_then(|status| status.code()).map_or(1, |code| if code == 2 { 2 } else { 1 })
    }))
}

fn build_window(events: &EventLoop<AppEvent>, state: WindowState) -> Result<Window> {
    let mut builder = WindowBuilder::new()
        .with_title(TITLE_FIRST)
        .with_inner_size(LogicalSize::new(state.width, state.height))
        .with_min_inner_size(LogicalSize::new(SIZE_MIN.0, SIZE_MIN.1))
        .with_maximized(state.maximized)
        .with_theme(None::<Theme>);
    if let Some((x, y)) = state.position {
        // The display with the stored position may have been disconnected.
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
    proxy: &EventLoopProxy<AppEvent>,
    server_origin: &Rc<RefCell<Option<Origin>>>,
) -> Result<WebView> {
    let (goes, opens, titled) = (proxy.clone(), Rc::clone(server_origin), proxy.clone());
    let server_origin = Rc::clone(server_origin);
    let builder = WebViewBuilder::new_with_web_context(context)
        .with_html(page::starting_page(None))
        .with_devtools(false)
        .with_clipboard(true)
        .with_back_forward_navigation_gestures(false)
        .with_navigation_handler(move |address| {
            match navigation::decide(&address, server_origin.borrow().as_ref()) {
                NavigationDecision::Allow => true,
                NavigationDecision::OpenInBrowser(url) => {
                    open_outside(&url);
                    false
                }
                NavigationDecision::RestartServer => {
                    let _ = goes.send_event(AppEvent::RestartServer);
                    false
                }
                NavigationDecision::Deny => false,
            }
        })
        .with_new_window_req_handler(move |address, _| {
            if let NavigationDecision::OpenInBrowser(url) =
                navigation::decide_new_window(&address, opens.borrow().as_ref())
            {
                open_outside(&url);
            }
            NewWindowResponse::Deny
        })
        // The page needs no permissions; notifications come from this program.
        .with_permission_handler(|_| PermissionResponse::Deny)
        .with_document_title_changed_handler(move |title| {
            drop(titled.send_event(AppEvent::TitleChanged(title)))
        });
    let container = window.default_vbox().context("cannot add a web view to the window")?;
    let view = builder.build_gtk(container).context("cannot create the web view")?;
    let (closes, ends) = (proxy.clone(), proxy.clone());
    view.webview().connect_close(move |_| drop(closes.send_event(AppEvent::Close)));
    view.webview().connect_web_process_terminated(move |_, _| drop(ends.send_event(AppEvent::PageCrashed)));
    Ok(view)
}

/// Forwards requests from other processes of this program, and signals, to the event loop.
fn listen(instance: &InstanceLock, proxy: &EventLoopProxy<AppEvent>) -> Result<()> {
    let raise_proxy = proxy.clone();
    instance.listen(move |raise| drop(raise_proxy.send_event(AppEvent::RaiseWindow(raise))))?;
    // SIGHUP, SIGINT, SIGTERM
    for signal in [1, 2, 15] {
        let proxy = proxy.clone();
        gtk::glib::unix_signal_add_local(signal, move || {
            let _ = proxy.send_event(AppEvent::Close);
            gtk::glib::ControlFlow::Continue
        });
    }
    Ok(())
}

/// Opens a URL in the user's browser.
fn open_outside(url: &Url) {
    let mut open = Command::new("xdg-open");
    open.arg(url.as_str()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match open.spawn() {
        // Wait for the child, so that no zombie process is left.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(error) => stderr::note(&format!("cannot open {url} ({error}); install xdg-utils")),
    }
}

struct DesktopWindow {
    arguments: WindowArguments,
    window: Window,
    view: WebView,
    proxy: EventLoopProxy<AppEvent>,
    /// Origin within which the page may navigate.
    server_origin: Rc<RefCell<Option<Origin>>>,
    notifier: Notifier,
    reader: NotificationFilter,
    state: WindowState,
    server: Option<ServerProcess>,
    started: u64,
    crashes: u32,
    /// Exit status of a server that exited on its own and has not been restarted.
    failed: Option<Option<ExitStatus>>,
}

impl DesktopWindow {
    fn start(&mut self) -> Result<()> {
        self.started += 1;
        self.failed = None;
        let (number, proxy) = (self.started, self.proxy.clone());
        let on_event = move |happening| drop(proxy.send_event(AppEvent::FromServer(number, happening)));
        self.server = Some(ServerProcess::start(
            &self.arguments.sysop, &self.arguments.server, self.state.port, on_event,
        )?);
        Ok(())
    }

    /// Handles an event; returns true if the window should close.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the window handles only a few of many events")]
    fn take(&mut self, event: Event<'_, AppEvent>) -> bool {
        match event {
            Event::WindowEvent { event, .. } => match event {
                WindowEvent::CloseRequested | WindowEvent::Destroyed => return true,
                WindowEvent::Resized(_) | WindowEvent::Moved(_) => self.record_geometry(),
                WindowEvent::Focused(true) => self.notifier.clear(),
                _ => {}
            },
            Event::UserEvent(heard) => return self.handle_event(heard),
            _ => {}
        }
        false
    }

    fn handle_event(&mut self, heard: AppEvent) -> bool {
        match heard {
            AppEvent::FromServer(number, happening) if number == self.started => {
                self.handle_server_event(happening)
            }
            AppEvent::FromServer(..) => {} // from a server that was replaced
            AppEvent::RaiseWindow(raise) => {
                raise.session.iter().for_each(|session| self.open(session));
                self.raise(raise.activation.as_deref());
            }
            AppEvent::OpenSession(session) => {
                self.open(&session);
                self.raise(None);
            }
            AppEvent::TitleChanged(title) => {
                let title: String = stderr::sanitize(title.trim()).chars().take(TITLE_CHARS_MAX).collect();
                self.window.set_title(if title.is_empty() { TITLE } else { &title });
            }
            AppEvent::Close => return true,
            AppEvent::RestartServer => {
                if self.server.is_none() {
                    self.load_html(&page::starting_page(None));
                    if let Err(error) = self.start() {
                        self.show_server_exit(&ServerExit {
                            status: None,
                            was_ready: false,
                            lines: vec![format!("{error:#}")],
                        });
                    }
                }
            }
            AppEvent::PageCrashed => {
                self.crashes += 1;
                if self.crashes <= CRASHES_MAX {
                    self.view.webview().reload();
                }
            }
        }
        false
    }

    fn handle_server_event(&mut self, happening: ServerEvent) {
        match happening {
            ServerEvent::NotReady(missing) => self.load_html(&page::starting_page(Some(&missing))),
            ServerEvent::Ready(mut url) => {
                *self.server_origin.borrow_mut() = Some(url.origin());
                self.state.port = url.port();
                // The server redirects the browser to the page; the fragment survives the redirect.
                url.set_fragment(self.arguments.session.as_deref().map(fragment).as_deref());
                self.load(&url);
            }
            ServerEvent::Message(message) => {
                let notice = self.reader.command_for(&message);
                if let Some(notice) = notice.filter(|_| !self.window.is_focused()) {
                    self.notifier.tell(notice);
                }
            }
            ServerEvent::Exited(ended) => {
                self.server = None;
                *self.server_origin.borrow_mut() = None;
                self.show_server_exit(&ended);
            }
        }
    }

    fn show_server_exit(&mut self, ended: &ServerExit) {
        self.failed = Some(ended.status);
        ended.lines.iter().for_each(|line| stderr::print(line));
        stderr::error(if ended.was_ready { "the server stopped" } else { "the server could not start" });
        self.load_html(&page::ended(ended));
    }

    fn open(&mut self, session: &str) {
        self.arguments.session = Some(session.to_owned());
        let server_origin = self.server_origin.borrow().clone();
        if let Some(server_origin) =
            server_origin.and_then(|server_origin| Url::parse(&server_origin.ascii_serialization()).ok())
        {
            let mut url = server_origin;
            url.set_fragment(Some(&fragment(session)));
            self.load(&url);
        }
    }

    fn raise(&self, activation: Option<&str>) {
        let window = self.window.gtk_window();
        if let Some(activation) = activation {
            window.set_startup_id(activation);
        }
        window.deiconify();
        window.present_with_time(0); // now
    }

    /// Records size and position, unless the window is maximized or full-screen.
    fn record_geometry(&mut self) {
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

    fn save_state(&self, folders: &DataDirs) {
        if let Err(error) = self.state.save(folders) {
            stderr::note(&format!("{error:#}"));
        }
    }

    fn load(&self, url: &Url) {
        if let Err(error) = self.view.load_url(url.as_str()) {
            stderr::note(&format!("cannot show the page ({error})"));
        }
    }

    fn load_html(&self, html: &str) {
        if let Err(error) = self.view.load_html(html) {
            stderr::note(&format!("cannot show the page ({error})"));
        }
    }
}

fn fragment(session: &str) -> String {
    format!("/s/{session}")
}
