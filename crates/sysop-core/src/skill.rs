//! Skills and custom commands: text from files that a user or the model invokes by name.
//!
//! A skill is a directory with a `SKILL.md`; a custom command is a Markdown file. Both may begin with front matter in a
//! subset of YAML: plain scalars, quoted scalars, and `|` and `>` blocks. Other values are ignored. Skills and commands
//! are text for the model and grant no permissions, whatever their `allowed-tools` says.

mod expand;
mod front_matter;

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use self::expand::Expansion;
use crate::instructions::InstructionSource;
use crate::ledger::cut;
use crate::policy::{Access, Finding, ResolvedFile, RiskClass, Survey};

pub const FILE_BYTES_MAX: usize = 64 * 1024;
/// Maximum total bytes of all skills and commands in a session.
pub const TOTAL_BYTES_MAX: usize = 512 * 1024;
pub const SKILLS_MAX: usize = 128;
/// Models with a context window up to this size, in tokens, get no list of skills; only users can then invoke skills.
const UNLISTED_WINDOW_MAX: u32 = 8_192;
const DESCRIPTION_BYTES_MAX: usize = 400;
const NAME_CHARS_MAX: usize = 64;

/// Text that can be invoked by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skill {
    /// Name, without a slash.
    pub name: String,
    /// Purpose, in the words of its file; may be empty for a command.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub kind: SkillKind,
    pub source: InstructionSource,
    /// Path of the file, for display.
    pub path: String,
    /// Arguments that a user may give, such as `HOST [PORT]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// True if the model may invoke this skill.
    pub listed: bool,
    /// Other files in the skill's directory, relative to that directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Text without front matter. Front ends do not get it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SkillKind {
    /// A directory with a `SKILL.md`; users and models invoke it.
    Skill,
    /// A Markdown file; only users invoke it.
    Command,
}

/// Skills and commands that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Skills {
    /// Usable skills and commands, with unique names.
    #[serde(rename = "skills", skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Skill>,
    /// One sentence for each file that cannot be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

impl Skill {
    /// Parses the text of a file. `name` is the name of a skill's directory, or the name of a command's file
    /// without `.md`.
    ///
    /// ```
    /// use sysop_core::instructions::InstructionSource;
    /// use sysop_core::skill::{Skill, SkillKind};
    ///
    /// let text = "---\ndescription: Renew a certificate: when it expires soon\n---\nRun certbot.";
    /// let skill = Skill::read(SkillKind::Skill, "certs", "/s/certs/SKILL.md", text, InstructionSource::User).unwrap();
    /// assert_eq!(skill.description, "Renew a certificate: when it expires soon");
    /// assert_eq!(skill.body, "Run certbot.");
    /// ```
    ///
    /// # Errors
    /// Returns one sentence if the file cannot be used.
    pub fn read(
        kind: SkillKind,
        name: &str,
        path: &str,
        text: &str,
        source: InstructionSource,
    ) -> Result<Self, String> {
        let (matter, body) = front_matter::split(text).map_err(|error| format!("{path}: {error}"))?;
        if !is_name(name) {
            return Err(format!(
                "{path}: invalid name `{name}`; use up to {NAME_CHARS_MAX} letters, digits, `-` and `_`"
            ));
        }
        let value = |key: &str| matter.get(key).map(|value| value.trim().to_owned());
        let description = value("description").unwrap_or_default();
        if kind == SkillKind::Skill && description.is_empty() {
            return Err(format!("{path}: no `description` in the front matter"));
        }
        if body.trim().is_empty() {
            return Err(format!("{path}: no text after the front matter"));
        }
        let is_true = |key: &str| value(key).is_some_and(|value| value == "true");
        Ok(Self {
            name: name.to_owned(),
            description,
            kind,
            source,
            path: path.to_owned(),
            arguments: value("argument-hint").filter(|hint| !hint.is_empty()),
            listed: kind == SkillKind::Skill && !is_true("disable-model-invocation"),
            files: Vec::new(),
            body: body.trim().to_owned(),
        })
    }

    /// Returns a copy with an empty body, for front ends.
    #[must_use]
    pub fn without_body(&self) -> Self {
        Self { body: String::new(), ..self.clone() }
    }

    /// Returns the path of the skill's directory as shown to the model, with a note if it is on the user's
    /// machine.
    fn folder(&self) -> String {
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        match self.source {
            InstructionSource::Workspace => folder.to_owned(),
            InstructionSource::User | InstructionSource::Host => format!("{folder} (on the user's machine)"),
        }
    }

    /// Returns true if the directory of the skill contains this file. A directory that was reached through
    /// links is recognized by its name and the file's path below it.
    fn contains(&self, path: &str) -> bool {
        let Some(folder) = Path::new(&self.path).parent() else { return false };
        let path = Path::new(path);
        self.kind == SkillKind::Skill
            && (path.starts_with(folder)
                || folder.file_name().is_some_and(|name| {
                    self.files.iter().any(|file| path.ends_with(Path::new(name).join(file)))
                }))
    }

    /// Returns the text that the model gets when it invokes the skill.
    pub fn answer(&self) -> String {
        let mut text = format!("folder: {}\n", self.folder());
        if !self.files.is_empty() {
            text.push_str(&format!("files: {}\n", self.files.join(", ")));
        }
        format!("{text}\n{}", self.body)
    }
}

impl Skills {
    /// Adds the result of reading a file. A file goes to `skipped` if it cannot be used, if its name is already taken,
    /// or if it exceeds the limits of a session.
    pub fn add(&mut self, read: Result<Skill, String>) {
        let skill = match read {
            Ok(skill) => skill,
            Err(problem) => return self.skipped.push(problem),
        };
        let total: usize = self.found.iter().map(|skill| skill.body.len()).sum();
        if let Some(first) = self.find(&skill.name) {
            let problem = format!("{}: `{}` is already defined by {}", skill.path, skill.name, first.path);
            self.skipped.push(problem);
        } else if self.found.len() == SKILLS_MAX || total + skill.body.len() > TOTAL_BYTES_MAX {
            self.skipped.push(format!("{}: too many skills and commands", skill.path));
        } else {
            self.found.push(skill);
        }
    }

    pub fn find(&self, name: &str) -> Option<&Skill> {
        self.found.iter().find(|skill| skill.name == name)
    }

    pub fn listed(&self) -> impl Iterator<Item = &Skill> {
        self.found.iter().filter(|skill| skill.listed)
    }

    /// Unlists all skills if the model's context window of `window` tokens is too small for a list.
    pub fn limit(&mut self, window: u32) {
        if window <= UNLISTED_WINDOW_MAX {
            self.found.iter_mut().for_each(|skill| skill.listed = false);
        }
    }

    /// Returns a finding for each of a skill's scripts that a command runs: the hash of the script's text,
    /// and whether it has been changed since the session began. `command_bytes` is the length of the command.
    pub fn script_findings(&self, survey: &Survey, command_bytes: usize) -> Vec<Finding> {
        let runs = survey.targets.iter().filter(|resolved| resolved.target.access == Access::Run);
        let finding = |file: &ResolvedFile| {
            let skill = self.found.iter().find(|skill| skill.contains(&file.path))?;
            let name = Path::new(&file.path).file_name()?.to_string_lossy();
            let hash = match &file.script {
                Some(text) => format!("sha256 {}", short_hash(text)),
                None => "the file is too long or not text".to_owned(),
            };
            let age =
                if file.changed_in_session { "CHANGED in this session" } else { "unchanged in this session" };
            let why = format!("runs {name} of the skill {}: {hash}, {age}", skill.name);
            Some(Finding { start: 0, end: command_bytes, class: RiskClass::Changes, why })
        };
        runs.flat_map(|resolved| resolved.files.iter().filter_map(finding)).collect()
    }

    /// Returns the list of skills for the model, or `None` if the model may not invoke any.
    pub fn prompt(&self) -> Option<String> {
        let lines: Vec<_> = self
            .listed()
            .map(|skill| format!("- {}: {}\n", skill.name, cut(&skill.description, DESCRIPTION_BYTES_MAX)))
            .collect();
        (!lines.is_empty()).then(|| {
            format!(
                "--- skills: before a task that a skill covers, call `skill` with its name ---\n{}",
                lines.concat()
            )
        })
    }

    /// Expands a prompt that begins with `/NAME`. Returns `None` for any other prompt, or if no skill or command has
    /// that name.
    pub fn expand(&self, prompt: &str) -> Option<Expansion> {
        let (word, arguments) = prompt.split_once(char::is_whitespace).unwrap_or((prompt, ""));
        let skill = self.find(word.strip_prefix('/')?)?;
        Some(Expansion::new(skill, arguments.trim()))
    }
}

/// Returns the first 16 digits of the SHA-256 of the text, as `sha256sum` prints them.
fn short_hash(text: &str) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns true if the text can be the name of a skill or command. Such a name cannot be mistaken for a path or an
/// option.
pub fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= NAME_CHARS_MAX
        && name.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::{Skill, SkillKind, Skills, TOTAL_BYTES_MAX};
    use crate::instructions::InstructionSource;

    fn skill(kind: SkillKind, name: &str, text: &str) -> Result<Skill, String> {
        Skill::read(kind, name, &format!("/s/{name}/SKILL.md"), text, InstructionSource::User)
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_the_reason() {
        let broken = [
            ("x", "no front matter", "no `description`"),
            ("x", "---\nname: x\n---\nbody", "no `description`"),
            ("x", "---\ndescription: d\nbody", "not closed"),
            ("x", "---\ndescription: d\n---\n \n", "no text"),
            ("../x", "---\ndescription: d\n---\nbody", "invalid name"),
            ("-x", "---\ndescription: d\n---\nbody", "invalid name"),
        ];
        for (name, text, why) in broken {
            let error = skill(SkillKind::Skill, name, text).expect_err(text);
            assert!(error.starts_with("/s/") && error.contains(why), "{error}");
        }
        let command = skill(SkillKind::Command, "x", "only a text").expect("a command");
        assert_eq!((command.body.as_str(), command.listed), ("only a text", false));
    }

    #[test]
    fn the_first_skill_of_a_name_counts() {
        let mut skills = Skills::default();
        skills.add(skill(SkillKind::Command, "a", "first"));
        skills.add(skill(SkillKind::Skill, "a", "---\ndescription: d\n---\nsecond"));
        skills.add(skill(SkillKind::Command, "b", &"x".repeat(TOTAL_BYTES_MAX)));
        assert_eq!(skills.found.len(), 1);
        assert_eq!(skills.find("a").map(|skill| skill.body.as_str()), Some("first"));
        let expected = [
            "/s/a/SKILL.md: `a` is already defined by /s/a/SKILL.md",
            "/s/b/SKILL.md: too many skills and commands",
        ];
        assert_eq!(skills.skipped, expected);
    }

    #[test]
    fn only_listed_skills_reach_the_model() {
        let mut skills = Skills::default();
        skills.add(skill(SkillKind::Skill, "a", "---\ndescription: for a\n---\nx"));
        skills.add(skill(
            SkillKind::Skill,
            "b",
            "---\ndescription: d\ndisable-model-invocation: true\n---\nx",
        ));
        skills.add(skill(SkillKind::Command, "c", "x"));
        let prompt = skills.prompt().expect("a list");
        assert!(prompt.ends_with("---\n- a: for a\n"), "{prompt}");
        skills.limit(8_192);
        assert_eq!(skills.prompt(), None);
        assert!(skills.expand("/a").is_some(), "users can still invoke it");
    }

    #[test]
    fn the_model_gets_the_directory_and_its_files() {
        let mut skill =
            skill(SkillKind::Skill, "a", "---\ndescription: d\n---\nRun scripts/x.sh").expect("a skill");
        skill.files = vec!["scripts/x.sh".to_owned()];
        assert_eq!(
            skill.answer(),
            "folder: /s/a (on the user's machine)\nfiles: scripts/x.sh\n\nRun scripts/x.sh"
        );
    }
}
