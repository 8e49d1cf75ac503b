//! Runs every command of the guide, page by page, in a new home against a scripted model, and two hosts behind a real
//! sshd.
//!
//! The info string of a code block says how the block is checked:
//!
//! - `sh run`: bash runs it, and it succeeds; `exit=3` expects that exit code.
//! - `sh background until="…"`: bash runs it until the page ends; the next block waits for that text in its output.
//! - `sh screen shows="…"`: sysop runs on a terminal until that text is on the screen.
//! - `sh elsewhere=FILE`: the test in FILE runs these lines, or an equal script; the lines are in FILE.
//! - `text output`: output of the block before, line by line; `…` stands for any text.
//! - `toml config`: the user's config for the rest of the page. `toml check`: a config that loads without warnings.
//! - `show`: no command. Not for `sh`.
//!
//! A comment `<!-- run` with lines and `-->` prepares what a page needs. A block without a mark fails the page.

mod block;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use self::block::{Block, Check, blocks};
use crate::sshd::{Login, Sshd};
use crate::support::{Mock, Running};
use crate::viewer::Viewer;
use crate::{Run, World};

/// Address of a server in the guide; the server of a test has another port.
const ADDRESS: &str = "127.0.0.1:8765";
/// Names of the hosts in the guide.
const HOSTS: &str = "web1 web2 db1";
/// Page whose blocks `sysop-wire` generates and checks.
const GENERATED: &str = "protocol.md";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Returns the pages that the summary of the guide lists.
fn listed() -> Vec<PathBuf> {
    let summary = fs::read_to_string(docs().join("guide/SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    links.map(|link| docs().join("guide").join(link)).collect()
}

/// Environment in which the blocks of a page run.
struct Page {
    world: World,
    _sshd: Option<Sshd>,
    background: Vec<Running>,
    /// Address of the page's server, once it listens.
    address: Option<String>,
    last: String,
    _model: Mock,
}

impl Page {
    fn new(text: &str) -> Self {
        let scenarios = fs::read_to_string(docs().join("guide/model.json")).unwrap();
        let model = Mock::start_with(&scenarios);
        let world = World::with_openai(&model.url());
        let programs = world.home().join("bin");
        fs::create_dir(&programs).unwrap();
        symlink(env!("CARGO_BIN_EXE_sysop"), programs.join("sysop")).unwrap();
        let containers = crate::containers::install_stand_ins(world.home(), &programs);
        for name in ["web", "web-0"] {
            fs::create_dir(containers.join(name)).unwrap();
        }
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut world = world.variable("PATH", &path).variable("OPENAI_API_KEY", "none");
        let sshd = HOSTS.split(' ').any(|host| text.contains(host)).then(hosts);
        if let Some(sshd) = &sshd {
            world = world.variable("SYSOP_SSH_CONFIG", &sshd.path("ssh_config").display().to_string());
        }
        Self { world, _sshd: sshd, background: Vec::new(), address: None, last: String::new(), _model: model }
    }

    fn check(&mut self, block: &Block) {
        match &block.check {
            Check::Run { exit } => {
                let run = self.bash(&block.text).finish();
                assert_eq!(run.code, Some(*exit), "{}\n{}{}", block.text, run.out, run.err);
                self.last = run.out + &run.err;
            }
            Check::Background { until } => {
                let text = block.text.trim().replace("sysop serve", "sysop serve --port 0");
                let running = self.bash(&text);
                let said = running.out.wait_for_text(until);
                if let Some((_, rest)) = said.split_once("http://") {
                    self.address = Some(rest.split('/').next().unwrap().to_owned());
                }
                self.background.push(running);
            }
            Check::Screen { shows } => self.on_a_screen(&block.text, shows),
            Check::Output => block.expect_output(&self.last),
            Check::Config => self.load(&block.text, &self.world.home().join(".config/sysop/config.toml")),
            Check::ConfigOnly => self.load(&block.text, &self.world.home().join("checked.toml")),
            Check::Elsewhere { file } => elsewhere(&block.text, file),
            Check::Show => {}
        }
    }

    fn bash(&self, text: &str) -> Running {
        let text = match &self.address {
            Some(address) => text.replace(ADDRESS, address),
            None => text.to_owned(),
        };
        self.world.start_program("bash", &["-euo", "pipefail", "-c", &text])
    }

    fn on_a_screen(&self, text: &str, shows: &str) {
        let words = shell_words::split(text).unwrap();
        assert_eq!(words.first().map(String::as_str), Some("sysop"), "{text}");
        let arguments: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        crate::person::at_a_terminal(async {
            let mut viewer = Viewer::sits_down(&self.world, &arguments);
            viewer.sees(shows).await;
        });
    }

    /// Writes a config and checks that it loads without warnings.
    fn load(&self, text: &str, path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        let run = self.world.finish(&["config", "show", "--config", &path.display().to_string()]);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{text}\n{run:?}");
    }
}

/// Starts the hosts of the guide: one sshd, whose programs are stand-ins where a test must not change this machine.
fn hosts() -> Sshd {
    let sshd = Sshd::with(Login::Bash, "");
    let home = sshd.path("home");
    let programs = home.join("bin");
    fs::create_dir_all(&programs).unwrap();
    for (name, text) in [
        ("systemctl", "echo \"$@\" >> ~/systemctl.log"),
        ("journalctl", "echo 'disk full'"),
        ("nginx", "echo ok >&2"),
    ] {
        let path = programs.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    fs::write(home.join("app.conf"), "workers = 2\nport = 8080\n").unwrap();
    fs::write(home.join(".bashrc"), format!("PATH={}:$PATH\ncd\n", programs.display())).unwrap();
    let known = fs::read_to_string(sshd.path("known_hosts")).unwrap();
    assert!(!known.is_empty());
    sshd.configure(&format!("Host {HOSTS}\n  HostName 127.0.0.1\n  Port {}\n", sshd.port()));
    sshd
}

/// Checks that another test has these lines.
fn elsewhere(text: &str, file: &str) {
    let path = docs().join("..").join(file);
    let tested = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let command = line.split("  #").next().unwrap().trim();
        assert!(tested.contains(command), "{file} does not contain `{command}`");
    }
}

#[expect(clippy::print_stderr, reason = "names the block that fails")]
fn run_page(path: &Path) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = path.file_name().unwrap().to_str().unwrap();
    let blocks = blocks(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
    let mut page = Page::new(&text);
    for block in &blocks {
        if name == GENERATED && block.check == Check::Show {
            continue;
        }
        eprintln!("{name}:{}", block.line);
        page.check(block);
    }
}

/// Declares a test for each page.
macro_rules! pages {
    ($($test:ident: $page:literal;)*) => {
        const PAGES: &[&str] = &[$($page),*];
        $(#[test]
        fn $test() {
            run_page(&docs().join($page));
        })*
    };
}

pages! {
    the_commands_of_the_introduction_work: "guide/introduction.md";
    the_commands_of_the_installation_work: "guide/install.md";
    the_commands_of_the_tutorial_work: "guide/tutorial.md";
    the_commands_of_the_recipes_work: "guide/recipes.md";
    the_commands_of_the_front_ends_work: "guide/front-ends.md";
    the_commands_of_the_tui_work: "guide/tui.md";
    the_commands_of_the_repl_work: "guide/repl.md";
    the_session_commands_work: "guide/session-commands.md";
    the_commands_of_the_web_page_work: "guide/web-page.md";
    the_commands_of_connect_work: "guide/connect.md";
    the_commands_of_the_hosts_work: "guide/hosts.md";
    the_commands_of_the_configuration_work: "guide/configuration.md";
    the_commands_of_the_api_work: "guide/api.md";
    the_commands_of_the_services_work: "guide/services.md";
    the_commands_of_operations_work: "guide/operations.md";
    the_commands_of_the_troubleshooting_work: "guide/troubleshooting.md";
    the_commands_of_coming_from_work: "guide/coming-from.md";
    the_commands_of_the_comparison_work: "guide/comparison.md";
    the_commands_of_the_faq_work: "guide/faq.md";
    the_references_have_no_unmarked_block: "guide/cli.md";
    the_keys_have_no_unmarked_block: "guide/config-keys.md";
    the_commands_of_models_work: "models.md";
    the_commands_of_context_work: "context.md";
    the_commands_of_images_work: "images.md";
    the_commands_of_guarded_changes_work: "guard.md";
    the_commands_of_approvals_work: "approvals.md";
    the_commands_of_editors_work: "editors.md";
    the_commands_of_hooks_work: "hooks.md";
    the_commands_of_the_audit_log_work: "audit.md";
    the_commands_of_mcp_work: "mcp.md";
    the_commands_of_runbooks_work: "runbooks.md";
    the_commands_of_the_shell_work: "shell.md";
    the_commands_of_undo_work: "undo.md";
    the_commands_of_policy_work: "policy.md";
    the_commands_of_programs_work: "programs.md";
    the_commands_of_the_sandbox_work: "sandbox.md";
    the_commands_of_security_work: "security.md";
    the_commands_of_the_server_work: "server.md";
    the_commands_of_the_protocol_work: "protocol.md";
    the_commands_of_the_glossary_work: "glossary.md";
}

#[test]
fn every_page_of_the_summary_is_run() {
    let canonical =
        |path: &Path| fs::canonicalize(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let run: BTreeSet<_> = PAGES.iter().map(|page| canonical(&docs().join(page))).collect();
    let listed: BTreeSet<_> = listed().iter().map(|page| canonical(page)).collect();
    assert_eq!(run, listed, "each page of docs/guide/SUMMARY.md needs a line in `pages!`, and the reverse");
}

#[test]
fn a_block_that_is_not_marked_fails_its_page() {
    for text in ["```sh\nls\n```\n", "```\nls\n```\n", "```sh show\nls\n```\n", "```toml\na = 1\n```\n"] {
        assert!(blocks(text).is_err(), "{text}");
    }
    let run = Run { code: Some(0), out: "a 12 b\nc\n".to_owned(), err: String::new() };
    let output = blocks("```text output\na … b\nc\n```\n").unwrap();
    output[0].expect_output(&run.out);
    let other = std::panic::catch_unwind(|| output[0].expect_output("c\na 12 b\n"));
    assert!(other.is_err(), "the order counts");
}
