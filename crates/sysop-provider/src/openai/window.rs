//! Facts about models, as reported by compatible servers: context window, size, the server itself. OpenAI's own API
//! reports no such facts.
//!
//! The window is the one that the server runs the model with, not the one that the model was trained with. A
//! server that does not report it is queried only once; failures are silent.
//!
//! Sources: llama.cpp `tools/server/server-context.cpp` (`/v1/models`, `/props`); vLLM `ModelCard`; LM Studio's REST
//! API (`/api/v1/models`).

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use serde_json::Value;

use super::OpenAi;
use crate::transport::query;

/// Maximum number of models with a cached answer.
const MODELS_MAX: usize = 256;
/// Value of `owned_by` in llama.cpp's list of models.
const LLAMA_CPP: &str = "llamacpp";
/// Value of `owned_by` in LM Studio's list of models.
const LM_STUDIO: &str = "organization_owner";
/// Value of `owned_by` in vLLM's list of models.
const VLLM: &str = "vllm";

/// Facts about a model and its server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ModelFacts {
    /// Context window in tokens.
    pub(crate) window: Option<u32>,
    /// Number of the model's parameters.
    pub(crate) parameters: Option<f64>,
    /// Name of the server program, if it is a known one.
    pub(crate) program: Option<&'static str>,
}

/// Answers from one server, by model.
#[derive(Debug, Default)]
pub(super) struct ModelFactsCache(Mutex<HashMap<String, ModelFacts>>);

impl ModelFactsCache {
    /// Returns the facts that the server has reported about a model.
    pub(super) fn of(&self, model: &str) -> ModelFacts {
        self.0.lock().get(model).cloned().unwrap_or_default()
    }

    fn is_first(&self, model: &str) -> bool {
        let mut facts = self.0.lock();
        if facts.contains_key(model) {
            return false;
        }
        if facts.len() >= MODELS_MAX {
            facts.clear();
        }
        facts.insert(model.to_owned(), ModelFacts::default());
        true
    }

    fn set(&self, model: &str, facts: ModelFacts) {
        self.0.lock().insert(model.to_owned(), facts);
    }
}

impl OpenAi {
    /// Queries the server for facts about a model, once in the lifetime of the process.
    pub(crate) async fn ask_facts(&self, http: &reqwest::Client, model: &str) -> ModelFacts {
        if self.facts.is_first(model)
            && let Some(facts) = self.query_facts(http, model).await
        {
            self.facts.set(model, facts);
        }
        self.facts.of(model)
    }

    async fn query_facts(&self, http: &reqwest::Client, model: &str) -> Option<ModelFacts> {
        let headers = self.headers().ok()?;
        let list = query(http.get(self.address("/models").ok()?), &headers).await?;
        let entry = entry_of(&list, model)?;
        self.is_llama_cpp.store(entry["owned_by"] == LLAMA_CPP, Ordering::Relaxed);
        let above = async |path: &str| query(http.get(self.address_above_v1(path)?), &headers).await;
        let mut facts = ModelFacts {
            window: listed_window(entry),
            parameters: entry["meta"]["n_params"].as_f64(),
            program: None,
        };
        match entry["owned_by"].as_str() {
            Some(LLAMA_CPP) => {
                facts.program = Some("llama.cpp");
                if facts.window.is_none() {
                    let props = above("/props").await.unwrap_or_default();
                    facts.window = tokens(&props["default_generation_settings"]["n_ctx"]);
                }
            }
            Some(LM_STUDIO) => {
                facts.program = Some("LM Studio");
                if facts.window.is_none() {
                    let loaded = above("/api/v1/models").await.unwrap_or_default();
                    facts.window = loaded_window(&loaded, model);
                }
            }
            Some(VLLM) => facts.program = Some("vLLM"),
            _ => {}
        }
        Some(facts)
    }

    /// Returns the name and version of the server program, or `None` for an unknown one.
    pub(crate) async fn server_version(&self, http: &reqwest::Client, model: &str) -> Option<String> {
        let program = self.ask_facts(http, model).await.program?;
        let (path, field) = match program {
            "llama.cpp" => ("/props", "build_info"),
            "vLLM" => ("/version", "version"),
            _ => return Some(program.to_owned()),
        };
        let headers = self.headers().ok()?;
        let answer = query(http.get(self.address_above_v1(path)?), &headers).await.unwrap_or_default();
        Some(
            answer[field]
                .as_str()
                .map_or_else(|| program.to_owned(), |version| format!("{program} {version}")),
        )
    }

    /// Appends a path to the base URL without its final `/v1`.
    fn address_above_v1(&self, path: &str) -> Option<String> {
        let base = self.base_url.trim().split('?').next()?.trim_end_matches('/');
        let root = base.strip_suffix("/v1").unwrap_or(base);
        self.is_http.then(|| format!("{root}{path}"))
    }
}

/// Returns a model's entry in a list of models. Servers with one model accept every name.
fn entry_of<'a>(list: &'a Value, model: &str) -> Option<&'a Value> {
    let entries = list["data"].as_array()?;
    let named = entries.iter().find(|entry| entry["id"] == model);
    named.or_else(|| entries.first().filter(|_| entries.len() == 1))
}

/// Returns the window in an entry from llama.cpp or vLLM.
fn listed_window(entry: &Value) -> Option<u32> {
    tokens(&entry["meta"]["n_ctx"]).or_else(|| tokens(&entry["max_model_len"]))
}

fn loaded_window(list: &Value, model: &str) -> Option<u32> {
    list["models"].as_array()?.iter().find_map(|entry| {
        let instances = entry["loaded_instances"].as_array()?;
        let named = instances.iter().find(|instance| instance["id"] == model);
        let instance = named.or_else(|| instances.first().filter(|_| entry["key"] == model))?;
        tokens(&instance["config"]["context_length"])
    })
}

fn tokens(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|tokens| u32::try_from(tokens).ok()).filter(|tokens| *tokens > 0)
}
