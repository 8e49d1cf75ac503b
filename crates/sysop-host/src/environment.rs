//! Environment for programs: the variables of this process without API keys and other secrets, plus variables that turn
//! prompts and pagers off.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::output::redact::Secrets;

/// Variables set for every command. They tell programs that there is no terminal and no user.
const SETTINGS: [(&str, &str); 8] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", ""),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
];

/// Variables that are removed: startup files that a non-interactive shell would run, and properties of a terminal.
const DROPPED: [&str; 7] = ["BASH_ENV", "ENV", "OLDPWD", "COLUMNS", "LINES", "FORCE_COLOR", "CLICOLOR_FORCE"];

/// Variables that hold keys although their names lack the usual endings.
const KEYS: [&str; 3] = ["LLM_AUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS"];

/// Git variables that a tool's git may inherit: author and committer, and the user's own config.
pub(crate) const GIT_VARIABLES_ALLOWED: [&str; 9] = [
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
];

/// Git variables for read-only commands. With them, git runs no program that a repository's config names, and fetches
/// nothing. Each value is a plain word, which a shell need not quote. No variable turns off text conversion, external
/// diffs and filters; options do that.
pub(crate) const GIT_GUARD: [(&str, &str); 11] = [
    ("GIT_CONFIG_COUNT", "3"),
    ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_0", "false"),
    ("GIT_CONFIG_KEY_1", "core.hooksPath"),
    ("GIT_CONFIG_VALUE_1", "/dev/null"),
    ("GIT_CONFIG_KEY_2", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_2", "explicit"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_PAGER", "cat"),
];

/// Git variables set on every machine. With them, git takes paths literally, ignores replacement objects, and
/// uses no prompt, no editor and no network. Without `GIT_NO_LAZY_FETCH` and `GIT_ALLOW_PROTOCOL`, git would
/// fetch the missing objects of a partial clone with a program that the repository's config names.
pub(crate) const GIT_VARIABLES: [(&str, &str); 8] = [
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", ":"),
    ("GIT_PAGER", "cat"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
];

/// Environment variables of a program, sorted by name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Returns the environment for commands, derived from this process's variables. Removes variables whose
    /// names indicate a key, variables in `scrub`, and variables that contain one of the secrets.
    pub(crate) fn scrubbed(
        ours: impl Iterator<Item = (OsString, OsString)>,
        scrub: &[String],
        secrets: &Secrets,
    ) -> Self {
        let mut variables: BTreeMap<OsString, OsString> = ours
            .filter(|(name, value)| {
                let text = name.to_string_lossy();
                !is_key(&text)
                    && !DROPPED.contains(&text.as_ref())
                    && !scrub.iter().any(|named| *named == text)
                    && !secrets.known().are_in(value.as_bytes())
            })
            .collect();
        variables.extend(SETTINGS.map(|(name, value)| (name.into(), value.into())));
        Self(variables)
    }

    /// Returns the environment of `ssh`, which needs the user's agent and home directory. Therefore only variables
    /// whose names indicate a key are removed.
    pub(crate) fn without_keys(ours: impl Iterator<Item = (OsString, OsString)>) -> Self {
        Self(ours.filter(|(name, _)| !is_key(&name.to_string_lossy())).collect())
    }

    /// Returns a copy for git when a tool runs it. The copy lacks all `GIT_*` variables except `GIT_VARIABLES_ALLOWED`,
    /// and the relative directories in `PATH`, through which git could run programs from the workspace.
    pub(crate) fn for_git(&self) -> Self {
        let kept = |name: &OsStr| {
            name.to_str()
                .is_none_or(|name| !name.starts_with("GIT_") || GIT_VARIABLES_ALLOWED.contains(&name))
        };
        let mut variables = self.0.clone();
        variables.retain(|name, _| kept(name));
        if let Some(path) = variables.get_mut(OsStr::new("PATH")) {
            let absolute = std::env::split_paths(&*path).filter(|folder| folder.is_absolute());
            *path = std::env::join_paths(absolute).unwrap_or_default();
        }
        Self(variables)
    }

    pub(crate) fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    /// Returns the variables for the shared terminal, which has colors and prompts, but no pager.
    pub(crate) fn for_terminal(&self) -> Self {
        let mut variables = self.0.clone();
        for name in ["NO_COLOR", "GIT_TERMINAL_PROMPT"] {
            variables.remove(OsStr::new(name));
        }
        variables.insert("TERM".into(), "xterm-256color".into());
        if !["LC_ALL", "LC_CTYPE", "LANG"].iter().any(|name| variables.contains_key(OsStr::new(name))) {
            variables.insert("LC_CTYPE".into(), "C.UTF-8".into());
        }
        Self(variables)
    }

    pub(crate) fn value(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    pub(crate) fn pairs(&self) -> Vec<(OsString, OsString)> {
        self.0.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Returns the variables as `NAME=VALUE`. Variables that contain a zero byte are left out.
    pub(crate) fn entries(&self) -> Vec<CString> {
        self.0
            .iter()
            .filter_map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok())
            .collect()
    }

    /// Returns the path of a program, or `None` if it is in no absolute directory of `PATH`. Relative directories are
    /// skipped, because with the workspace as the working directory they would lead to programs in the workspace.
    pub(crate) fn program(&self, name: &str) -> Option<CString> {
        let path = self.0.get(OsStr::new("PATH"))?;
        std::env::split_paths(path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|program| is_executable(program))
            .and_then(|program| CString::new(program.into_os_string().into_vec()).ok())
    }
}

/// Environment of the commands on this machine.
#[derive(Debug)]
pub(crate) struct CommandEnvironment {
    pub(crate) variables: Environment,
    /// `variables`, converted for `posix_spawn`.
    pub(crate) entries: Arc<[CString]>,
    /// Path of the shell that runs commands.
    pub(crate) shell: CString,
}

impl CommandEnvironment {
    /// Returns the environment with these variables. The sessions of a process share it, because copies
    /// would be a quarter of the memory of a server's idle session, and the shell is searched once.
    pub(crate) fn of(variables: Environment) -> Arc<Self> {
        static LAST: Mutex<Weak<CommandEnvironment>> = Mutex::new(Weak::new());
        let mut last = LAST.lock();
        if let Some(same) = last.upgrade().filter(|shared| shared.variables == variables) {
            return same;
        }
        let shell = ["bash", "sh"].iter().find_map(|name| variables.program(name));
        let shell = shell.unwrap_or_else(|| c"/bin/sh".into());
        let made = Arc::new(Self { entries: variables.entries().into(), shell, variables });
        *last = Arc::downgrade(&made);
        made
    }
}

pub(super) fn is_executable(program: &Path) -> bool {
    use rustix::fs::{Access, access};
    program.is_file() && access(program, Access::EXEC_OK).is_ok()
}

fn is_key(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.contains("_API_KEY")
        || KEYS.contains(&name.as_str())
        || (name.starts_with("SYSOP_") && ["TOKEN", "KEY", "SECRET"].iter().any(|word| name.contains(word)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{CommandEnvironment, Environment};
    use crate::output::redact::Secrets;

    fn scrubbed(ours: &[(&str, &str)]) -> Vec<String> {
        let ours = ours.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let secrets = Secrets::new(&["hunter22".into()]);
        let environment = Environment::scrubbed(ours, &["MINE".to_owned()], &secrets);
        environment.entries().into_iter().map(|entry| entry.into_string().unwrap()).collect()
    }

    #[test]
    fn keys_and_secrets_are_removed() {
        let kept = scrubbed(&[
            ("HOME", "/home/x"),
            ("OPENAI_API_KEY", "a"),
            ("openai_api_key", "a"),
            ("GEMINI_API_KEY_2", "a"),
            ("LLM_AUTH_TOKEN", "a"),
            ("SYSOP_TOKEN", "a"),
            ("SYSOP_SERVER_TOKEN_FILE", "a"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "a"),
            ("MINE", "a"),
            ("DATABASE_URL", "postgres://u:hunter22@h/d"),
            ("BASH_ENV", "./evil"),
            ("SYSOP_MODEL", "demo/x"),
        ]);
        let names: Vec<&str> = kept.iter().map(|entry| entry.split('=').next().unwrap()).collect();
        assert_eq!(
            names,
            [
                "DEBIAN_FRONTEND", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "HOME", "MANPAGER", "NO_COLOR",
                "PAGER", "SYSOP_MODEL", "SYSTEMD_PAGER", "TERM"
            ]
        );
    }

    #[test]
    fn git_variables_are_removed() {
        let ours = [("GIT_EXTERNAL_DIFF", "evil"), ("GIT_DIR", "/x"), ("GIT_AUTHOR_NAME", "A")];
        let ours = ours.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let environment = Environment::scrubbed(ours, &[], &Secrets::default()).for_git();
        let git: Vec<String> = environment
            .entries()
            .into_iter()
            .map(|entry| entry.into_string().unwrap())
            .filter(|entry| entry.starts_with("GIT_"))
            .collect();
        assert_eq!(git, ["GIT_AUTHOR_NAME=A"]);
    }

    #[test]
    fn programs_are_searched_in_absolute_directories_only() {
        let folder = tempfile::tempdir().unwrap();
        let tool = folder.path().join("tool");
        std::fs::write(&tool, "").unwrap();
        let with_path = |path: &str| {
            Environment::scrubbed([("PATH".into(), path.into())].into_iter(), &[], &Secrets::default())
        };
        let absolute = with_path(folder.path().to_str().unwrap());
        assert_eq!(absolute.program("tool"), None, "the file is not executable");
        std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(absolute.program("tool").unwrap().as_bytes(), tool.to_str().unwrap().as_bytes());
        assert_eq!(with_path(".:src:").program("lib.rs"), None);
    }

    #[test]
    fn equal_environments_are_shared() {
        let of = |value: &str| {
            let ours = [("PATH".into(), value.into())].into_iter();
            CommandEnvironment::of(Environment::scrubbed(ours, &[], &Secrets::default()))
        };
        // Tests of the same process may replace the shared environment in between.
        let is_shared = |_| Arc::ptr_eq(&of("/one/a"), &of("/one/a"));
        assert!((0..1000).any(is_shared));
        let (first, second) = (of("/one/a"), of("/two/a"));
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(second.entries.iter().any(|entry| entry.to_bytes() == b"PATH=/two/a"));
    }
}
