//! Context windows of models, as reported by compatible servers. OpenAI's own API does not.
//!
//! The window is the one that the server runs the model with, not the one that the model was trained with. A
//! server that does not report it is queried only once; failures are silent.
//!
//! Sources: llama.cpp `tools/server/server-context.cpp` (`/v1/models`, `/props`); vLLM `ModelCard`; LM Studio's REST API
//! (`/api/v1/models`).

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

/// Answers from one server, by model: tokens, or `None` if the server does not report them.
#[derive(Debug, Default)]
pub(super) struct WindowCache(Mutex<HashMap<String, Option<u32>>>);

impl WindowCache {
    /// Returns a model's window in tokens if the server has reported it.
    pub(super) fn of(&self, model: &str) -> Option<u32> {
        self.0.lock().get(model).copied().flatten()
    }

    fn is_first(&self, model: &str) -> bool {
        let mut windows = self.0.lock();
        if windows.contains_key(model) {
            return false;
        }
        if windows.len() >= MODELS_MAX {
            windows.clear();
        }
        windows.insert(model.to_owned(), None);
        true
    }

    fn set(&self, model: &str, window: u32) {
        self.0.lock().insert(model.to_owned(), Some(window));
    }
}

impl OpenAi {
    /// Queries the server for a model's context window, once in the lifetime of the process.
    pub(super) async fn ask_window(&self, http: &reqwest::Client, model: &str) {
        if self.windows.is_first(model)
            && let Some(window) = self.query_window(http, model).await
        {
            self.windows.set(model, window);
        }
    }

    async fn query_window(&self, http: &reqwest::Client, model: &str) -> Option<u32> {
        let headers = self.headers().ok()?;
        let list = query(http.get(self.address("/models").ok()?), &headers).await?;
        let entry = entry_of(&list, model)?;
        self.is_llama_cpp.store(entry["owned_by"] == LLAMA_CPP, Ordering::Relaxed);
        if let Some(window) = listed_window(entry) {
            return Some(window);
        }
        match entry["owned_by"].as_str()? {
            LLAMA_CPP => {
                let props = query(http.get(self.address_above_v1("/props")?), &headers).await?;
                tokens(&props["default_generation_settings"]["n_ctx"])
            }
            LM_STUDIO => {
                let loaded = query(http.get(self.address_above_v1("/api/v1/models")?), &headers).await?;
                loaded_window(&loaded, model)
            }
            _ => None,
        }
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
