//! The repository at the root. Git tools run only if every part of it that git would read is below the root.
//!
//! A `.git` file, a link, `commondir`, alternates, an included file or a submodule may lead git anywhere. A script
//! (`repository.sh`) follows all of them on the host, right before each call, and stops at the first one that leads
//! outside. The names of all other settings are checked. A harmless setting is kept; one list of plain settings serves
//! git tools and git in shell commands. A known setting that names a program or a file is overridden. Any other setting
//! makes the tool refuse the repository.

use sysop_core::policy::is_plain_git_setting;

use super::{CallContext, GIT_TIMEOUT, ToolError, Toolbox, settings};
use crate::machine::TimeLimit;
use crate::machine::{ExitReason, MachineError, Program, SCRIPT_TEXT_BYTES_MAX};
use crate::output::capture::Capture;

const FOLLOW: &str = concat!(include_str!("../../real_path.sh"), include_str!("repository.sh"));
/// Exit status of the script if a reference leads outside. The output of the script names the reference.
const LEADS_OUTSIDE: i32 = 3;
/// Maximum number of links, borrowed repositories and included files that are followed.
const FOLLOWED_MAX: usize = 1_000;
const CONFIG_BYTES_MAX: usize = 1024 * 1024;
/// Maximum overridden settings per repository.
const OVERRIDES_MAX: usize = 1_000;
const FILE_SETTINGS: [&str; 6] = [
    "blame.ignorerevsfile", "commit.template", "core.attributesfile", "core.excludesfile", "diff.orderfile",
    "mailmap.file",
];
/// Settings that no git tool uses, or that every call overrides.
const HARMLESS_SETTINGS: [&str; 4] =
    ["core.alternaterefscommand", "core.fsmonitor", "diff.external", "extensions.worktreeconfig"];
/// Sections that no git tool uses: none signs, verifies, merges, connects or prompts.
const HARMLESS_SECTIONS: [&str; 8] =
    ["credential", "diff", "gpg", "interactive", "merge", "protocol", "sequence", "trailer"];
const ADVICE: &str = "choose a root that contains the whole repository, or, if you trust the repository, choose a \
    profile with a shell and run git there";

/// Relevant settings of a repository's own config.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Repository {
    pub(super) overrides: Vec<(String, String)>,
    /// Names of the filters for which the repository configures a program.
    pub(super) filters: Vec<String>,
    pub(super) sha256: bool,
}

impl Toolbox {
    /// Follows the repository at the root and reads its config, without running any program that the repository names.
    pub(super) async fn repository(&self, call: &CallContext<'_>) -> Result<Repository, ToolError> {
        let arguments = [SCRIPT_TEXT_BYTES_MAX, FOLLOWED_MAX].map(|most| most.to_string()).to_vec();
        let mut capture = Capture::for_tool(CONFIG_BYTES_MAX);
        let program = Program::GitScript { text: FOLLOW, arguments, settings: settings() };
        let exec = self
            .machine
            .exec(program, call.fence, &TimeLimit::new(GIT_TIMEOUT), &mut capture, call.cancel)
            .await?;
        let why = match (exec.end, capture.into_bytes()) {
            (ExitReason::Exited(0), Some(bytes)) => match parse(&bytes) {
                Ok(repository) => return Ok(repository),
                Err(why) => why,
            },
            (ExitReason::Exited(LEADS_OUTSIDE), Some(bytes)) => refusal(&String::from_utf8_lossy(&bytes)),
            (ExitReason::Cancelled, _) => return Err(MachineError::Cancelled.into()),
            (ExitReason::Unknown { why }, _) => why,
            (ExitReason::Exited(_) | ExitReason::Killed { .. } | ExitReason::TimedOut, Some(_)) => {
                format!("cannot inspect the repository; {ADVICE}")
            }
            (_, None) => "the repository's config is too large".to_owned(),
        };
        Err(ToolError::Refused(why))
    }
}

/// Returns the message for a repository that the script refused. The output of the script is then `outside NUL name NUL
/// place` or `unknown NUL reason`.
fn refusal(said: &str) -> String {
    let mut fields = said.splitn(3, '\0');
    match (fields.next(), fields.next(), fields.next()) {
        (Some("outside"), Some(name), Some(place)) => {
            format!("{name} points to {place}, outside the root, where git tools do not work; {ADVICE}")
        }
        (Some("unknown"), Some(why), _) => format!("cannot use the repository: {}", why.trim()),
        _ => format!("cannot inspect the repository; {ADVICE}"),
    }
}

/// Parses settings of the form `scope NUL key LF value NUL`. The user's own settings for all repositories are kept. A
/// setting of this repository is overridden if it names a program or a file, and refused if its effect is unknown.
fn parse(bytes: &[u8]) -> Result<Repository, String> {
    let mut repository = Repository::default();
    let mut fields = bytes.split(|byte| *byte == 0);
    while let (Some(scope), Some(setting)) = (fields.next(), fields.next()) {
        let setting =
            std::str::from_utf8(setting).map_err(|_| "the repository's config is not UTF-8 text")?;
        let (key, value) = setting.split_once('\n').unwrap_or((setting, ""));
        if key == "extensions.objectformat" {
            repository.sha256 = value.eq_ignore_ascii_case("sha256");
        }
        if scope == b"local" || scope == b"worktree" {
            repository.take(key, value)?;
        }
        if repository.overrides.len() > OVERRIDES_MAX {
            return Err("the repository's config defines too many programs".to_owned());
        }
    }
    Ok(repository)
}

impl Repository {
    /// Takes one setting. `key` is in git's form: section and variable are lowercase, the name between them is
    /// unchanged.
    fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        let mut set = |name: String, value: &str| self.overrides.push((name, value.to_owned()));
        let section = key.split('.').next().unwrap_or_default();
        let (subsection, variable) = key.rsplit_once('.').unwrap_or((key, ""));
        if let Some(filter) = subsection.strip_prefix("filter.") {
            if matches!(variable, "clean" | "smudge" | "process" | "required") {
                for (name, value) in [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")] {
                    set(format!("{subsection}.{name}"), value);
                }
                if !self.filters.iter().any(|known| known == filter) {
                    self.filters.push(filter.to_owned());
                }
            }
        } else if subsection.starts_with("hook.") {
            set(format!("{subsection}.enabled"), "false");
        } else if FILE_SETTINGS.contains(&key) {
            set(key.to_owned(), "/dev/null");
        } else if key == "extensions.refstorage" && value.contains(':') {
            return Err(format!("the repository stores its refs as {value}; {ADVICE}"));
        } else if !HARMLESS_SETTINGS.contains(&key)
            && !HARMLESS_SECTIONS.contains(&section)
            && !is_plain_git_setting(key)
        {
            return Err(format!(
                "the repository sets {key}, which may run a program; unset {key}, or, if you trust the repository, \
                 choose a profile with a shell and run git there"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Repository, parse, refusal};

    #[test]
    fn repository_programs_are_overridden_by_name() {
        let config = b"global\0filter.lfs.clean\ngit-lfs clean\0local\0core.bare\nfalse\0\
            local\0filter.a=b.c.clean\nevil\0worktree\0hook.x.command\nevil\0\
            local\0core.attributesfile\n/etc/shadow\0global\0mailmap.file\n~/mine\0";
        let repository = parse(config).unwrap();
        assert_eq!(repository.filters, ["a=b.c"]);
        let keys: Vec<&str> = repository.overrides.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "filter.a=b.c.clean", "filter.a=b.c.smudge", "filter.a=b.c.process", "filter.a=b.c.required",
                "hook.x.enabled", "core.attributesfile",
            ]
        );
    }

    #[test]
    fn an_unknown_repository_setting_is_rejected_unless_the_user_set_it() {
        for name in ["core.newprogram", "anything.else", "lfs.extension.x.clean"] {
            let why = parse(format!("local\0{name}\nevil\0").as_bytes()).unwrap_err();
            assert!(why.contains(name), "{why}");
            assert_eq!(parse(format!("global\0{name}\nmine\0").as_bytes()).unwrap(), Repository::default());
        }
        assert!(parse(b"local\0extensions.refstorage\nfiles:///elsewhere\0").is_err());
        assert!(parse(b"local\0extensions.refstorage\nreftable\0").is_ok());
    }

    #[test]
    fn a_refusal_names_the_path_and_its_target() {
        let why = refusal(".git\\0x\0");
        assert!(why.starts_with("cannot inspect the repository; "), "{why}");
        let why = refusal("outside\0.git\0/elsewhere/.git");
        assert!(why.starts_with(".git points to /elsewhere/.git, outside the root"), "{why}");
        assert_eq!(refusal("unknown\0why\n"), "cannot use the repository: why");
    }

    #[test]
    fn the_hash_algorithm_is_detected() {
        assert!(parse(b"local\0extensions.objectformat\nsha256\0").unwrap().sha256);
        assert_eq!(parse(b"").unwrap(), Repository::default());
    }

    #[test]
    fn a_binary_or_overlong_config_is_an_error() {
        assert!(parse(b"local\0filter.\xff.clean\nx\0").is_err());
        let many: Vec<u8> =
            (0..300).flat_map(|n| format!("local\0filter.{n}.clean\nx\0").into_bytes()).collect();
        assert!(parse(&many).is_err());
    }
}
