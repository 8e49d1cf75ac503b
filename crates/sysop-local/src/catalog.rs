//! The table of models and of builds of `llama-server`. The table is data in `models.toml`; entries from the
//! user's config are added to it or replace parts of its entries.

use serde::Deserialize;
use url::Url;

use crate::machine::Machine;

const TABLE: &str = include_str!("models.toml");

/// Name of the program that runs models, and of its entry in the user's config.
pub const SERVER_NAME: &str = "llama-server";

/// Size of the key-value cache per token, in bytes, assumed for a model that does not state it.
const KV_BYTES_DEFAULT: u64 = 131_072;
/// Context window, in tokens, assumed for a model that does not state it.
const CONTEXT_WINDOW_DEFAULT: u32 = 8_192;
/// Free memory, in bytes, below which the small model is recommended.
const SMALL_MEMORY_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Models and server builds.
#[derive(Debug, Clone, Deserialize)]
pub struct Catalog {
    #[serde(rename = "model")]
    models: Vec<ModelEntry>,
    #[serde(rename = "server")]
    servers: Vec<ServerBuild>,
}

/// A file pinned by its hash.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pin {
    /// Source: `https`, `http` or `file`.
    pub url: Url,
    /// SHA-256 in lowercase hexadecimal digits; `None` if it is unknown.
    pub sha256: Option<String>,
    /// Size in bytes; `None` if it is unknown.
    pub size: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ModelEntry {
    /// The part of `local/NAME` after the slash.
    pub name: String,
    /// Short description for lists.
    #[serde(default)]
    pub about: String,
    #[serde(flatten)]
    pub pin: Pin,
    /// Name of the license; empty if it is unknown.
    #[serde(default)]
    pub license: String,
    /// Maximum tokens of prompt and reply; `None` if it is unknown.
    pub context_window: Option<u32>,
    /// Size of the key-value cache, in bytes per token.
    kv_bytes: Option<u64>,
    /// True for the model that is recommended for machines with little memory.
    #[serde(default)]
    small: bool,
    #[serde(default)]
    pub arguments: Vec<String>,
}

/// A build of `llama-server` for one system.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServerBuild {
    pub name: String,
    /// Release of llama.cpp, or `custom` if the user's config names the file.
    pub version: String,
    /// Operating system, as in `std::env::consts::OS`.
    pub system: String,
    /// Processor, as in `std::env::consts::ARCH`.
    pub architecture: String,
    #[serde(flatten)]
    pub pin: Pin,
    pub license: String,
}

/// One `[models."local/NAME"]` table in the user's config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelOverride {
    /// Name without `local/`.
    pub name: String,
    pub url: Option<String>,
    pub sha256: Option<String>,
    pub size: Option<u64>,
    pub license: Option<String>,
    pub context_window: Option<u32>,
}

/// A config entry that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// The name is not usable as the name of a file.
    #[error("invalid model name {0:?}; use letters, digits, `.`, `_` and `-`")]
    Name(String),
    /// A new model has no source.
    #[error("[models.\"local/{0}\"] has no `url`; set the URL of its GGUF file")]
    NoUrl(String),
    /// The source is not a URL of a supported kind.
    #[error("`url` of [models.\"local/{0}\"] is not an https://, http:// or file:// URL")]
    Url(String),
    /// The hash is not a SHA-256.
    #[error("`sha256` of [models.\"local/{0}\"] is not 64 hexadecimal digits")]
    Hash(String),
}

impl Catalog {
    /// Returns the built-in table.
    ///
    /// # Panics
    /// Never; a test parses the table.
    pub fn built_in() -> Self {
        toml::from_str(TABLE).expect("a test parses the table")
    }

    /// Returns the built-in table with the entries from the user's config. Entries that cannot be used are
    /// returned as errors and leave the table as it is.
    pub fn with(overrides: impl IntoIterator<Item = ModelOverride>) -> (Self, Vec<CatalogError>) {
        let (mut catalog, mut errors) = (Self::built_in(), Vec::new());
        for change in overrides {
            if let Err(error) = catalog.apply(change) {
                errors.push(error);
            }
        }
        (catalog, errors)
    }

    fn apply(&mut self, change: ModelOverride) -> Result<(), CatalogError> {
        let name = change.name;
        let usable = |sign: u8| sign.is_ascii_alphanumeric() || b"._-".contains(&sign);
        if name.is_empty() || name.starts_with('.') || name.len() > 100 || !name.bytes().all(usable) {
            return Err(CatalogError::Name(name));
        }
        let url = change.url.map(|url| parse_url(&url).ok_or_else(|| CatalogError::Url(name.clone())));
        let url = url.transpose()?;
        let sha256 = change.sha256.map(|hash| hash.to_ascii_lowercase());
        let is_hash = |hash: &String| hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
        if sha256.as_ref().is_some_and(|hash| !is_hash(hash)) {
            return Err(CatalogError::Hash(name));
        }
        if name == SERVER_NAME {
            let url = url.ok_or(CatalogError::NoUrl(name))?;
            self.servers.insert(0, custom_build(Pin { url, sha256, size: change.size }, change.license));
            return Ok(());
        }
        let license = change.license;
        match self.models.iter_mut().find(|model| model.name == name) {
            Some(model) => {
                // A different file has a different hash and size.
                if let Some(url) = url.filter(|url| *url != model.pin.url) {
                    model.pin = Pin { url, sha256: model.pin.sha256.take(), size: model.pin.size };
                }
                if sha256.is_some() && sha256 != model.pin.sha256 {
                    model.pin.size = None;
                    model.pin.sha256 = sha256;
                }
                model.pin.size = change.size.or(model.pin.size);
                model.license = license.unwrap_or_else(|| std::mem::take(&mut model.license));
                model.context_window = change.context_window.or(model.context_window);
            }
            None => {
                // `[models."local/NAME"] context_window` alone may be for a model outside this table.
                let Some(url) = url else {
                    return if sha256.is_none() && change.size.is_none() && license.is_none() {
                        Ok(())
                    } else {
                        Err(CatalogError::NoUrl(name))
                    };
                };
                self.models.push(ModelEntry {
                    name,
                    about: "from your config".to_owned(),
                    pin: Pin { url, sha256, size: change.size },
                    license: license.unwrap_or_default(),
                    context_window: change.context_window,
                    kv_bytes: None,
                    small: false,
                    arguments: Vec::new(),
                });
            }
        }
        Ok(())
    }

    pub fn models(&self) -> &[ModelEntry] {
        &self.models
    }

    pub fn model(&self, name: &str) -> Option<&ModelEntry> {
        self.models.iter().find(|model| model.name == name)
    }

    /// Returns the model to recommend on a machine: the default one, or the small one if little memory is free.
    ///
    /// # Panics
    /// Never; a test finds both in the table.
    pub fn recommended(&self, machine: &Machine) -> &ModelEntry {
        let small = machine.memory_free.is_some_and(|free| free < SMALL_MEMORY_MAX);
        let fits = self.models.iter().find(|model| model.small == small);
        fits.expect("a test finds both in the table")
    }

    /// Returns the smallest model that is good enough for real tasks: the default one.
    ///
    /// # Panics
    /// Never; the table is not empty.
    pub fn default_model(&self) -> &ModelEntry {
        self.models.first().expect("the table is not empty")
    }

    /// Returns the build of the server for a system and a processor, as named in `std::env::consts`.
    pub fn server(&self, system: &str, architecture: &str) -> Option<&ServerBuild> {
        self.servers.iter().find(|build| {
            build.version == CUSTOM || (build.system == system && build.architecture == architecture)
        })
    }
}

impl ModelEntry {
    /// Returns the size of the key-value cache, in bytes per token.
    pub fn kv_bytes(&self) -> u64 {
        self.kv_bytes.unwrap_or(KV_BYTES_DEFAULT)
    }

    /// Returns the maximum tokens of prompt and reply.
    pub fn window(&self) -> u32 {
        self.context_window.unwrap_or(CONTEXT_WINDOW_DEFAULT)
    }
}

/// Version of a build that the user's config names.
const CUSTOM: &str = "custom";

fn custom_build(pin: Pin, license: Option<String>) -> ServerBuild {
    ServerBuild {
        name: SERVER_NAME.to_owned(),
        version: CUSTOM.to_owned(),
        system: std::env::consts::OS.to_owned(),
        architecture: std::env::consts::ARCH.to_owned(),
        pin,
        license: license.unwrap_or_default(),
    }
}

fn parse_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let usable = match url.scheme() {
        "http" | "https" => url.has_host(),
        "file" => url.to_file_path().is_ok(),
        _ => false,
    };
    usable.then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str) -> ModelOverride {
        ModelOverride { name: name.to_owned(), ..ModelOverride::default() }
    }

    #[test]
    fn every_entry_of_the_table_is_pinned_to_a_commit_or_a_release_and_has_a_hash() {
        let catalog = Catalog::built_in();
        let pins = catalog.models.iter().map(|model| &model.pin);
        for pin in pins.chain(catalog.servers.iter().map(|build| &build.pin)) {
            let hash = pin.sha256.as_deref().unwrap();
            assert!(
                hash.len() == 64 && hash.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f')),
                "{hash}"
            );
            assert!(pin.size.is_some() && pin.url.scheme() == "https", "{}", pin.url);
            let segments: Vec<_> = pin.url.path_segments().unwrap().collect();
            let pinned = match pin.url.host_str().unwrap() {
                "huggingface.co" => segments[2] == "resolve" && segments[3].len() == 40,
                _ => segments[2..4] == ["releases", "download"] && segments[4].starts_with('b'),
            };
            assert!(pinned, "{}", pin.url);
        }
    }

    #[test]
    fn the_recommended_model_depends_on_the_free_memory() {
        let catalog = Catalog::built_in();
        let with = |gigabytes: u64| Machine { memory_free: Some(gigabytes << 30), cores: 2 };
        assert_eq!(catalog.recommended(&with(1)).name, "qwen2.5-coder-0.5b");
        assert_eq!(catalog.recommended(&with(8)).name, "qwen2.5-coder-1.5b");
        assert_eq!(catalog.recommended(&Machine { memory_free: None, cores: 2 }), catalog.default_model());
        assert!(catalog.server("linux", "x86_64").is_some() && catalog.server("plan9", "mips").is_none());
    }

    #[test]
    fn a_new_hash_in_the_config_drops_the_size_of_the_old_file() {
        let hash = "A".repeat(64);
        let (catalog, errors) = Catalog::with([ModelOverride {
            sha256: Some(hash.clone()),
            url: Some("https://mirror.example/q.gguf".to_owned()),
            ..change("qwen2.5-coder-1.5b")
        }]);
        assert_eq!(errors, []);
        let pin = &catalog.model("qwen2.5-coder-1.5b").unwrap().pin;
        assert_eq!((pin.sha256.as_deref(), pin.size), (Some(hash.to_lowercase().as_str()), None));
        assert_eq!(pin.url.host_str(), Some("mirror.example"));
    }

    #[test]
    fn a_mirror_in_the_config_keeps_the_pinned_hash() {
        let url = Some("https://mirror.example/q.gguf".to_owned());
        let (catalog, _) = Catalog::with([ModelOverride { url, ..change("qwen3.5-2b") }]);
        assert!(catalog.model("qwen3.5-2b").unwrap().pin.sha256.is_some());
    }

    #[test]
    fn invalid_entries_of_the_config_are_reported_and_change_nothing() {
        let url = || Some("https://example.org/a.gguf".to_owned());
        let (catalog, errors) = Catalog::with([
            change("only-a-window"),
            ModelOverride { url: url(), ..change("../escape") },
            ModelOverride { url: url(), ..change(".hidden") },
            ModelOverride { url: Some("ftp://example.org/a".to_owned()), ..change("ftp") },
            ModelOverride { url: url(), sha256: Some("abc".to_owned()), ..change("short") },
            ModelOverride { size: Some(1), ..change("nowhere") },
        ]);
        let kinds: Vec<_> = errors.iter().map(std::mem::discriminant).collect();
        let wanted = [
            CatalogError::Name(String::new()),
            CatalogError::Name(String::new()),
            CatalogError::Url(String::new()),
            CatalogError::Hash(String::new()),
            CatalogError::NoUrl(String::new()),
        ];
        assert_eq!(kinds, wanted.iter().map(std::mem::discriminant).collect::<Vec<_>>());
        assert_eq!(catalog.models.len(), Catalog::built_in().models.len());
    }
}
