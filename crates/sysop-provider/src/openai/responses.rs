//! The Responses API of OpenAI, which its reasoning models need for tools.
//!
//! Requests are stateless: the whole history is sent as items, nothing is stored on the server. The items of
//! a reply are kept and sent back verbatim and in order, because encrypted reasoning is valid only in front
//! of the call that it led to.

mod decode;
mod encode;

pub(super) use decode::ResponsesDecoder;
pub(super) use encode::body;

/// Field of a raw reply that holds the items as the server sent them.
const ITEMS: &str = "responses";

/// Names of models that OpenAI offers only through this API, without the date at the end of some names.
const ONLY_HERE: [&str; 14] = [
    "o1-pro", "o3-pro", "o3-deep-research", "o4-mini-deep-research", "computer-use-preview",
    "codex-mini-latest", "gpt-5-codex", "gpt-5.1-codex", "gpt-5.1-codex-max", "gpt-5.1-codex-mini",
    "gpt-5.2-codex", "gpt-5.3-codex", "gpt-5.6-cyber", "gpt-6-cyber",
];

/// Returns true for a model that OpenAI offers only through this API. False for names with a path, which gateways use,
/// because a gateway translates between the APIs.
pub(super) fn is_only_here(model: &str) -> bool {
    let dated = |name: &str| model.strip_prefix(name).is_some_and(|date| date.starts_with("-20"));
    let generation = model.strip_prefix("gpt-").is_some();
    ONLY_HERE.iter().any(|name| model == *name || dated(name)) || (generation && model.ends_with("-pro"))
}

/// Returns true if a host offers this API for all its models.
pub(super) fn is_offered_by(host: &str) -> bool {
    let azure = [".openai.azure.com", ".services.ai.azure.com"];
    host == "api.openai.com" || azure.iter().any(|domain| host.ends_with(domain))
}

#[cfg(test)]
mod tests {
    use super::{is_offered_by, is_only_here};

    #[test]
    fn models_without_another_api_are_known() {
        for name in ["o3-pro", "o1-pro-2025-03-19", "gpt-5-codex", "gpt-5.5-pro", "gpt-5.1-codex-max"] {
            assert!(is_only_here(name), "{name}");
        }
        for name in ["gpt-5", "gpt-4o", "openai/gpt-5-codex", "qwen3-pro", "o3-process", "gpt-5-codexes"] {
            assert!(!is_only_here(name), "{name}");
        }
    }

    #[test]
    fn hosts_of_openai_and_azure_offer_it() {
        for host in ["api.openai.com", "x.openai.azure.com", "x.services.ai.azure.com"] {
            assert!(is_offered_by(host), "{host}");
        }
        for host in
            ["127.0.0.1", "openrouter.ai", "openai.azure.com.evil.example", "api.openai.com.evil.example"]
        {
            assert!(!is_offered_by(host), "{host}");
        }
    }
}
