//! Hosts on which tools run, from `--host`, `SYSOP_HOST`, `[connection]` and `[hosts.NAME]`.
//!
//! Nothing here contacts a host. Names that could be an ssh option or affect a terminal are rejected.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use sysop_core::policy::{ApprovalMode, CommandPattern, Rule, RuleAction, glob_matches, literal_glob};
use sysop_core::text::neutralize_line;

use crate::app::ModelAccess;
use crate::config::{Config, ConfigEntry, ConfigOrigin, ConfigWarning, KeyPath, nearest_word};
use crate::exit::CommandError;

const LOCAL: &str = "local";

pub(crate) const HOSTS_MAX: usize = 1_000;

/// Hosts on which tools run. The text form is stored in the session; [`HostInventory::resolve`] parses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostChoice {
    Local,
    /// One host, connected through `ssh`.
    Ssh(SshTarget),
    /// Several hosts, in this order; at least two, without duplicates.
    Fleet(Vec<SshTarget>),
}

impl HostChoice {
    pub(crate) fn targets(&self) -> &[SshTarget] {
        match self {
            Self::Local => &[],
            Self::Ssh(target) => std::slice::from_ref(target),
            Self::Fleet(targets) => targets,
        }
    }
}

impl HostChoice {
    /// Replaces the root on each remote host with `root`, if set.
    pub(crate) fn with_root(mut self, root: Option<String>) -> Result<Self, CommandError> {
        let targets = match &mut self {
            Self::Local => &mut [],
            Self::Ssh(target) => std::slice::from_mut(target),
            Self::Fleet(targets) => targets.as_mut_slice(),
        };
        for target in targets {
            target.root = root.clone().or(target.root.take());
            *target = usable(target.clone())?;
        }
        Ok(self)
    }
}

impl fmt::Display for HostChoice {
    /// Formats as `local`, `web1`, or `web1, web2, db1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::Local {
            return f.write_str(LOCAL);
        }
        let names: Vec<&str> = self.targets().iter().map(|target| target.name.as_str()).collect();
        f.write_str(&names.join(", "))
    }
}

/// Host that is connected through `ssh`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SshTarget {
    /// Display name, also used in the log: the name in the config, or else the destination.
    pub(crate) name: String,
    /// Destination as accepted by `ssh`, including the configured user.
    pub(crate) destination: String,
    pub(crate) user: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) approve: Option<ApprovalMode>,
    /// Strictest mode of the config's other names for the same machine.
    approve_elsewhere: Option<ApprovalMode>,
    /// Root for the file tools, as a path on that host; not validated here.
    pub(crate) root: Option<String>,
    pub(crate) description: Option<String>,
}

impl SshTarget {
    fn new(name: &str, host: &str, user: Option<String>, port: Option<u16>) -> Self {
        // A user name in the destination overrides the configured user.
        let user = user.filter(|_| !host.contains('@'));
        let destination = match (&user, host.strip_prefix("ssh://")) {
            (Some(user), Some(rest)) => format!("ssh://{user}@{rest}"),
            (Some(user), None) => format!("{user}@{host}"),
            (None, _) => host.to_owned(),
        };
        let name = name.to_owned();
        let (approve, approve_elsewhere, root, description) = (None, None, None, None);
        Self { name, destination, user, port, approve, approve_elsewhere, root, description }
    }

    /// Creates the target for a host that is not in the config: an ssh alias or an address.
    fn unknown(destination: &str) -> Self {
        Self::new(destination, destination, None, None)
    }

    /// Returns the reason to reject the host, or `None` if it is valid. A host is rejected if `ssh` or a
    /// terminal could misinterpret part of it.
    fn complaint(&self) -> Option<String> {
        let unfit = |text: &String| invalid_name_reason(text);
        invalid_name_reason(&self.destination)
            .or_else(|| self.user.as_ref().and_then(unfit))
            .map(|why| format!("invalid host {:?}: {why}", self.destination))
            .or_else(|| {
                let root = self.root.as_ref().filter(|root| neutralize_line(root) != root.as_str())?;
                Some(format!("invalid root {root:?} for {}: it contains an unprintable character", self.name))
            })
    }

    /// Returns the host name or address, without user and port.
    fn machine(&self) -> String {
        let bare = self.destination.strip_prefix("ssh://");
        let host = bare.unwrap_or(&self.destination);
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host).trim_end_matches('/');
        let host = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            // A colon precedes a port only in a URL.
            None if bare.is_some() => host.split_once(':').map_or(host, |(host, _)| host),
            None => host,
        };
        host.trim_end_matches('.').to_ascii_lowercase()
    }

    /// Returns a key that is equal for different spellings of the same host.
    fn identity(&self) -> (&str, String, Option<u16>) {
        let bare = self.destination.strip_prefix("ssh://").unwrap_or(&self.destination);
        let (user, host) = bare.rsplit_once('@').unwrap_or(("", bare));
        (user, host.trim_end_matches(['.', '/']).to_ascii_lowercase(), self.port.filter(|port| *port != 22))
    }
}

/// Returns the reason why `ssh` or a terminal could misinterpret a name, or `None` if the name is valid.
pub(super) fn invalid_name_reason(text: &str) -> Option<String> {
    if text.is_empty() {
        Some("it is empty".to_owned())
    } else if text.starts_with('-') {
        Some("ssh would read it as an option".to_owned())
    } else if text.chars().any(|sign| sign.is_whitespace() || sign.is_control())
        || neutralize_line(text) != text
    {
        Some("it contains whitespace or an unprintable character".to_owned())
    } else if text.contains(',') {
        Some("it contains a comma".to_owned())
    } else {
        None
    }
}

/// Host that is configured in `[hosts]`.
#[derive(Debug, Clone)]
pub(crate) struct ConfiguredHost {
    pub(crate) target: SshTarget,
    pub(crate) tags: Vec<String>,
    /// Globs for models that may see the host's output; `None` allows all.
    models: Option<Vec<String>>,
    /// Number of different people who must approve a call on the host.
    approvals: u32,
    /// Position in the config at which the host's table starts.
    origin: ConfigOrigin,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct HostInventory {
    /// Hosts in `[hosts]`, in file order.
    pub(crate) known: Vec<ConfiguredHost>,
    /// Host in `[connection]`, unless it is also in `[hosts]`.
    connection: Option<SshTarget>,
}

impl HostInventory {
    /// Parses the tables `[hosts.NAME]`. Hosts with an invalid name are skipped with a warning.
    pub(super) fn read(config: &mut Config) -> Self {
        let mut origins: BTreeMap<String, ConfigOrigin> = BTreeMap::new();
        for (names, entry) in config.below(&KeyPath::from("hosts")) {
            if let [name, _] = names {
                let begins = origins.entry(name.clone()).or_insert_with(|| entry.origin().clone());
                if line(entry.origin()) < line(begins) {
                    *begins = entry.origin().clone();
                }
            }
        }
        let mut known: Vec<ConfiguredHost> = Vec::new();
        for (name, origin) in origins {
            let complaint = match name.as_str() {
                LOCAL => Some("it is reserved for this machine".to_owned()),
                name if name.starts_with('@') => Some("`@` is reserved for tags".to_owned()),
                name => invalid_name_reason(name),
            };
            match complaint {
                None => known.push(read_known(config, &name, origin)),
                Some(why) => {
                    let message = format!("ignoring host {name:?}: {why}");
                    config.warnings.push(ConfigWarning { origin, message });
                }
            }
        }
        known.sort_by_key(|known| line(&known.origin));
        Self { known, connection: None }
    }

    pub(super) fn choose(&mut self, config: &Config) -> Result<HostChoice, CommandError> {
        let Some(entry) = config.entry("connection.host") else { return Ok(HostChoice::Local) };
        let host: String = config.get("connection.host").unwrap_or_default();
        let with_host = |key: &str| {
            // A user from a file does not apply to a host from a flag.
            let more = config.entry(key)?;
            (layer(config, more.origin()) >= layer(config, entry.origin())).then_some(more)
        };
        let (user, port) = (with_host("connection.user"), with_host("connection.port"));
        let at = |origin: &ConfigOrigin, failure: CommandError| {
            CommandError::usage(format!("{origin}: {failure}"))
        };
        let Some(more) = user.or(port) else {
            return self.resolve(&host).map_err(|failure| at(entry.origin(), failure));
        };
        let host = host.trim();
        if host == LOCAL {
            return Ok(HostChoice::Local);
        }
        let is_other = self.find(host).is_some() || self.has_tag(host);
        if host.contains(',') || host.starts_with('@') || is_other {
            let why = format!(
                "`connection.user` and `connection.port` need a single host without a [hosts.NAME] table; set them \
                 in the tables of {host}"
            );
            return Err(at(more.origin(), CommandError::usage(why)));
        }
        let user = user.and_then(|_| config.get("connection.user"));
        let port = port.and_then(|_| config.get("connection.port"));
        let mut target = SshTarget::new(host, host, user, port);
        target.name.clone_from(&target.destination);
        self.connection = Some(target.clone());
        usable(self.with_other_names(target))
            .map(HostChoice::Ssh)
            .map_err(|failure| at(entry.origin(), failure))
    }

    /// Resolves the text form of hosts: `local`, a configured host, an ssh destination, a tag (`@prod`, or
    /// `prod` if no host has that name), or a comma-separated list of them. Also parses the text form of
    /// [`HostChoice`]. Fails if a part is not a host; the error names the part and the reason.
    pub(crate) fn resolve(&self, text: &str) -> Result<HostChoice, CommandError> {
        if text.trim() == LOCAL {
            return Ok(HostChoice::Local);
        }
        let mut chosen: Vec<(SshTarget, HostMatch)> = Vec::new();
        for word in text.split(',').map(str::trim) {
            for (target, named) in self.of_word(word)? {
                add(&mut chosen, usable(target)?, named)?;
            }
        }
        if chosen.len() > HOSTS_MAX {
            let (many, most) = (chosen.len(), HOSTS_MAX);
            return Err(CommandError::usage(format!("too many hosts: {many} (maximum {most})")));
        }
        let mut targets: Vec<SshTarget> =
            chosen.into_iter().map(|(target, _)| self.with_other_names(target)).collect();
        match (targets.pop(), targets.is_empty()) {
            (Some(only), true) => Ok(HostChoice::Ssh(only)),
            (Some(last), false) => {
                targets.push(last);
                Ok(HostChoice::Fleet(targets))
            }
            (None, _) => Err(CommandError::usage("no host given; set --host")),
        }
    }

    /// Returns the configured hosts on a target's machine: a configured host's restrictions hold for every destination
    /// there, with any user and port.
    fn on_machine(&self, target: &SshTarget) -> impl Iterator<Item = &ConfiguredHost> {
        let machine = target.machine();
        self.known.iter().filter(move |known| {
            known.target.machine() == machine || known.target.name.to_ascii_lowercase() == machine
        })
    }

    /// Returns true if the config has a host on a target's machine.
    pub(crate) fn has_machine_of(&self, target: &SshTarget) -> bool {
        self.on_machine(target).next().is_some()
    }

    fn with_other_names(&self, target: SshTarget) -> SshTarget {
        let others = self.on_machine(&target).filter(|known| known.target.name != target.name);
        let modes = others.filter_map(|known| known.target.approve);
        SshTarget { approve_elsewhere: modes.reduce(ApprovalMode::stricter), ..target }
    }

    /// Returns the models that may see these hosts' output.
    pub(crate) fn model_access(&self, choice: &HostChoice) -> ModelAccess {
        let mut access = ModelAccess::default();
        for known in &self.known {
            let Some(models) = &known.models else { continue };
            let is_it = |other: &ConfiguredHost| other.target.name == known.target.name;
            if choice.targets().iter().any(|target| self.on_machine(target).any(is_it)) {
                access.add(known.target.name.clone(), models.clone());
            }
        }
        access
    }

    /// Returns all rules, and copies of a configured host's restrictions under each other name by which these hosts
    /// reach its machine.
    pub(crate) fn rules(&self, choice: &HostChoice, rules: &[Rule]) -> Vec<Rule> {
        let mut all = rules.to_vec();
        for target in choice.targets() {
            let others = self.on_machine(target).map(|known| &known.target.name);
            for name in others.filter(|name| **name != target.name) {
                let restricts = |rule: &&Rule| {
                    let host = rule.pattern.host.as_deref();
                    rule.action != RuleAction::Allow && host.is_some_and(|glob| glob_matches(glob, name))
                };
                let renamed = |rule: &Rule| {
                    let host = Some(literal_glob(&target.name));
                    Rule { pattern: CommandPattern { host, ..rule.pattern.clone() }, ..rule.clone() }
                };
                all.extend(rules.iter().filter(restricts).map(renamed));
            }
        }
        all
    }

    /// Returns the number of different people who must approve a call on these hosts: the maximum over the
    /// hosts.
    pub(crate) fn approvals(&self, choice: &HostChoice) -> u32 {
        let concerned = choice.targets().iter().flat_map(|target| self.on_machine(target));
        concerned.map(|known| known.approvals).max().unwrap_or_default()
    }

    pub(crate) fn common_tags(&self, choice: &HostChoice) -> Vec<String> {
        let tags_of = |target: &SshTarget| {
            let known = self.known.iter().find(|known| known.target.name == target.name);
            known.map(|known| known.tags.clone()).unwrap_or_default()
        };
        let tags = choice.targets().iter().map(tags_of);
        tags.reduce(|common, tags| common.into_iter().filter(|tag| tags.contains(tag)).collect())
            .unwrap_or_default()
    }

    fn of_word(&self, word: &str) -> Result<Vec<(SshTarget, HostMatch)>, CommandError> {
        if word.is_empty() {
            let why = "empty host name in the list; write NAME,NAME";
            return Err(CommandError::usage(why));
        }
        if word == LOCAL {
            let why = "`local` cannot be combined with other hosts; remove it from the list";
            return Err(CommandError::usage(why));
        }
        if let Some(tag) = word.strip_prefix('@') {
            return if self.has_tag(tag) { Ok(self.of_tag(tag)) } else { Err(self.no_tag(tag)) };
        }
        let connection = self.connection.iter().find(|target| target.name == word);
        match self.find(word).or(connection) {
            Some(target) => Ok(vec![(target.clone(), HostMatch::ByName)]),
            None if self.has_tag(word) => Ok(self.of_tag(word)),
            None => Ok(vec![(SshTarget::unknown(word), HostMatch::ByName)]),
        }
    }

    fn find(&self, name: &str) -> Option<&SshTarget> {
        self.known.iter().map(|known| &known.target).find(|target| target.name == name.trim())
    }

    fn has_tag(&self, tag: &str) -> bool {
        self.known.iter().any(|known| known.tags.iter().any(|known| known == tag))
    }

    fn of_tag(&self, tag: &str) -> Vec<(SshTarget, HostMatch)> {
        let tagged = self.known.iter().filter(|known| known.tags.iter().any(|known| known == tag));
        tagged.map(|known| (known.target.clone(), HostMatch::ByTag)).collect()
    }

    fn no_tag(&self, tag: &str) -> CommandError {
        let tags = self.known.iter().flat_map(|known| known.tags.iter().map(String::as_str));
        let tags: std::collections::BTreeSet<&str> = tags.collect();
        let next = match (nearest_word(tag, tags.iter().copied()), tags.is_empty()) {
            (Some(meant), _) => format!("did you mean `@{meant}`?"),
            (None, true) => "set `tags = [..]` in [hosts.NAME]".to_owned(),
            (None, false) => format!("available: {}", tags.into_iter().collect::<Vec<_>>().join(", ")),
        };
        CommandError::usage(format!("no host has the tag {tag:?}; {next}"))
    }
}

/// Way in which a host was selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostMatch {
    ByName,
    /// Tags may overlap, so duplicates are allowed.
    ByTag,
}

fn add(
    chosen: &mut Vec<(SshTarget, HostMatch)>,
    target: SshTarget,
    named: HostMatch,
) -> Result<(), CommandError> {
    let same = chosen.iter().find(|(other, _)| {
        other.name.eq_ignore_ascii_case(&target.name) || other.identity() == target.identity()
    });
    match same {
        None => chosen.push((target, named)),
        Some((other, by))
            if other.name == target.name && (named, *by) != (HostMatch::ByName, HostMatch::ByName) => {}
        Some((other, _)) if other.name == target.name => {
            return Err(CommandError::usage(format!("duplicate host {}; remove one", other.name)));
        }
        Some((other, _)) => {
            let why = format!("{} and {} are the same host; remove one", other.name, target.name);
            return Err(CommandError::usage(why));
        }
    }
    Ok(())
}

fn usable(target: SshTarget) -> Result<SshTarget, CommandError> {
    match target.complaint() {
        None => Ok(target),
        Some(why) => Err(CommandError::usage(why)),
    }
}

/// Table `[hosts.NAME]`, as it appears in the config.
#[derive(Default, Deserialize)]
#[serde(default)]
struct HostTable {
    host: Option<String>,
    user: Option<String>,
    port: Option<u16>,
    tags: Vec<String>,
    approve: Option<ApprovalMode>,
    models: Option<Vec<String>>,
    approvals: Option<u32>,
    root: Option<String>,
    description: Option<String>,
}

fn read_known(config: &Config, name: &str, origin: ConfigOrigin) -> ConfiguredHost {
    let table: HostTable = config.get(KeyPath::new(["hosts", name])).unwrap_or_default();
    let target = SshTarget {
        approve: table.approve,
        root: table.root,
        description: table.description,
        ..SshTarget::new(name, table.host.as_deref().unwrap_or(name).trim(), table.user, table.port)
    };
    let approvals = table.approvals.unwrap_or_default();
    ConfiguredHost { target, tags: table.tags, models: table.models, approvals, origin }
}

fn line(origin: &ConfigOrigin) -> usize {
    match origin {
        ConfigOrigin::File { line, .. } => *line,
        ConfigOrigin::Default | ConfigOrigin::Environment { .. } | ConfigOrigin::Flag { .. } => usize::MAX,
    }
}

/// Returns the rank of an origin's layer. A layer with a higher rank takes precedence.
fn layer(config: &Config, origin: &ConfigOrigin) -> u8 {
    match origin {
        ConfigOrigin::Default => 0,
        ConfigOrigin::File { path, .. } if **path == *config.own_file => 1,
        ConfigOrigin::File { .. } => 2,
        ConfigOrigin::Environment { .. } => 3,
        ConfigOrigin::Flag { .. } => 4,
    }
}

/// Returns true if both `each` and `never` apply: changes are denied, and read-only commands need approval.
pub(super) fn asks_and_denies(config: &Config, host: &HostChoice) -> bool {
    let general = config.get("approve").unwrap_or_default();
    let of_hosts =
        host.targets().iter().flat_map(|target| [target.approve, target.approve_elsewhere]).flatten();
    let modes: Vec<_> = of_hosts.chain([general]).collect();
    modes.contains(&ApprovalMode::Each) && modes.contains(&ApprovalMode::Never)
}

/// Returns the approval mode on these hosts: the strictest of the modes of each host.
///
/// For a host with its own `approve`, the mode is the stricter one of the host's and the general mode. There
/// is one exception: if the general mode is `ask` from the user's own file or the defaults, a host may set
/// `auto`. A mode from a flag, the environment or a workspace is never loosened. The mode of another name for the same
/// machine only makes it stricter.
pub(crate) fn approve_on(config: &Config, host: &HostChoice) -> ApprovalMode {
    let entry = config.entry("approve");
    let general = config.get("approve").unwrap_or_default();
    let own = entry.is_none_or(|entry| layer(config, entry.origin()) <= 1);
    let on = |target: &SshTarget| match target.approve {
        None => general,
        Some(ApprovalMode::Auto) if own && general == ApprovalMode::Ask => ApprovalMode::Auto,
        Some(mode) => general.stricter(mode),
    };
    let on = |target: &SshTarget| {
        target.approve_elsewhere.map_or_else(|| on(target), |mode| on(target).stricter(mode))
    };
    host.targets().iter().map(on).reduce(ApprovalMode::stricter).unwrap_or(general)
}

/// Returns the setting that makes the mode of [`approve_on`] what it is, or `None` if it is the default.
pub(crate) fn approve_source(config: &Config, host: &HostChoice) -> Option<String> {
    let mode = approve_on(config, host);
    if mode == config.get("approve").unwrap_or_default() {
        let origin = config.entry("approve").map(ConfigEntry::origin);
        return origin.filter(|origin| **origin != ConfigOrigin::Default).map(ToString::to_string);
    }
    let of_host = host.targets().iter().find(|target| target.approve == Some(mode));
    let of_host = of_host.map(|target| format!("[{}]", KeyPath::new(["hosts", &target.name])));
    let of_other_name = host.targets().iter().find(|target| target.approve_elsewhere == Some(mode));
    of_host.or_else(|| of_other_name.map(|target| format!("[hosts], another name of {}", target.name)))
}

/// Checks that there are more hosts than `canary`, so that some are left for the run after the canary group.
pub(crate) fn check_canary(canary: usize, host: &HostChoice) -> Result<(), CommandError> {
    match host.targets().len() {
        0 | 1 => Err(CommandError::usage(format!(
            "--canary {canary} needs several hosts, but there is only {host}; add hosts with --host"
        ))),
        hosts if canary >= hosts => Err(CommandError::usage(format!(
            "--canary {canary} must be less than the number of hosts ({hosts}); use a smaller number"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
