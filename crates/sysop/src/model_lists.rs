//! `sysop models`: the models that the configured providers offer, one `PROVIDER/NAME` per line.

use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use sysop_core::message::{FailureKind, ModelFailure, ModelRef};
use sysop_core::model_provider::{DEMO, LOCAL, OLLAMA_SSH, is_known};
use sysop_core::text::neutralize_line;
use sysop_provider::{ProbeResult, Providers};

use crate::app::{Machines, providers};
use crate::config::{PROVIDERS, unknown_provider};
use crate::doctor::{may_run_unconfigured, missing, named, offers, with_provider};
use crate::exit::{CommandError, Exit};
use crate::local_model::LocalModels;
use crate::settings::{HostChoice, Settings};

/// Maximum time for all servers to list their models.
const LIST_TIME_MAX: Duration = Duration::from_secs(5);

/// Lists the models of one provider, or of all configured providers. Problems are printed to standard error.
/// Fails if the provider is unknown, or no provider responded.
pub(crate) async fn run(settings: Settings, provider: Option<String>) -> Result<Exit> {
    if let Some(unknown) = provider.as_deref().filter(|name| !is_known(name)) {
        return Err(CommandError::usage(unknown_provider(unknown)).into());
    }
    let is_asked = |name: &str| provider.as_deref().is_none_or(|only| only == name);
    let mut lines = Vec::new();
    if is_asked(LOCAL.name) {
        let models = LocalModels::new(&settings);
        lines.extend(models.installed().map(|model| format!("{}/{}", LOCAL.name, model.name)));
    }
    if provider.as_deref() == Some(DEMO) {
        lines.push(format!("{DEMO}/{DEMO}"));
    }
    let settings = std::sync::Arc::new(settings);
    let machines = Machines::new(std::sync::Arc::clone(&settings));
    let mut problems = Vec::new();
    for (name, answer) in ask_servers(&settings, &machines, provider.as_deref()).await {
        lines.extend(answer.models.iter().map(|model| format!("{name}/{model}")));
        if provider.is_none() && is_unused(&settings, name) {
            continue;
        }
        problems.extend(answer.problem.map(|problem| with_provider(name, &problem.message)));
    }
    machines.close().await;
    if lines.is_empty() {
        let why = match problems.into_iter().next() {
            Some(problem) => problem,
            None => "no provider is configured, so there are no models to list; run `sysop init`".to_owned(),
        };
        return Err(CommandError::failed(why).into());
    }
    for problem in problems {
        crate::tell(&format!("warning: {problem}"));
    }
    let text: String = lines.iter().map(|line| format!("{}\n", neutralize_line(line))).collect();
    crate::emit(text.as_bytes())
}

/// Returns true for a provider that nobody configured and whose models nobody chose, so that its problems do not
/// matter.
fn is_unused(settings: &Settings, provider: &str) -> bool {
    let of_provider = settings.providers.get(provider).cloned().unwrap_or_default();
    let is_chosen = settings.model.as_ref().is_some_and(|model| model.value.provider == provider);
    !is_chosen && may_run_unconfigured(provider, &of_provider)
}

/// Asks a provider's server for its models, and returns their number. The error is one sentence.
pub(crate) async fn answer_of(settings: Settings, provider: &str) -> Result<usize, String> {
    let settings = std::sync::Arc::new(settings);
    let machines = Machines::new(std::sync::Arc::clone(&settings));
    let answers = ask_servers(&settings, &machines, Some(provider)).await;
    machines.close().await;
    match answers.into_iter().next() {
        Some((_, ProbeResult { problem: Some(problem), .. })) => Err(problem.message),
        Some((_, answer)) => Ok(answer.models.len()),
        None => Err(unknown_provider(provider)),
    }
}

/// Asks a model's server if it offers the model. Returns one sentence that says why a request would fail, or `None` if
/// no reason is known.
pub(crate) async fn problem_of(
    settings: &Settings,
    machines: &Machines,
    host: &HostChoice,
    model: &ModelRef,
) -> Option<String> {
    let provider = model.provider.as_str();
    if provider == DEMO {
        return None;
    }
    if provider == LOCAL.name {
        let models: Vec<String> =
            LocalModels::new(settings).installed().map(|model| model.name.clone()).collect();
        return not_listed(model, &models);
    }
    let of_provider = settings.providers.get(provider).cloned().unwrap_or_default();
    if let Some(missing) = missing(provider, &of_provider, host) {
        return Some(format!("{provider} is not configured: {missing}"));
    }
    let clients = Providers::new(providers(settings, machines.remote_machine(host)));
    let answer = clients.probe(provider).await;
    match answer.problem {
        None => not_listed(model, &answer.models),
        Some(ModelFailure { kind: FailureKind::UnknownModel, .. }) => None, // the server lists no models
        Some(ModelFailure { kind: FailureKind::Unreachable, message }) => {
            Some(format!("{provider} cannot be reached: {message}"))
        }
        Some(ModelFailure { message, .. }) => Some(with_provider(provider, &message)),
    }
}

/// Returns a sentence if the server's list has neither the model nor a dated form of it.
fn not_listed(model: &ModelRef, models: &[String]) -> Option<String> {
    let ModelRef { provider, name } = model;
    let dated = format!("{name}-");
    if offers(models, name) || models.iter().any(|listed| listed.starts_with(&dated)) {
        return None;
    }
    let listed = named(models);
    Some(
        neutralize_line(&format!("{provider} does not list the model {name}; it offers: {listed}"))
            .into_owned(),
    )
}

/// Queries the configured providers' servers, or only the server of `provider`, for their models.
async fn ask_servers(
    settings: &Settings,
    machines: &Machines,
    provider: Option<&str>,
) -> Vec<(&'static str, ProbeResult)> {
    let clients = Providers::new(providers(settings, machines.remote_machine(&settings.host)));
    let asked = askable(settings, provider).map(|name| {
        let clients = &clients;
        async move { (name, clients.probe(name).await) }
    });
    join_all(asked).await
}

/// Returns the providers that can be asked: the named one, or all that are configured.
fn askable(settings: &Settings, provider: Option<&str>) -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().copied().filter(move |name| provider.is_none_or(|only| only == *name)).filter(
        move |name| {
            let of_provider = settings.providers.get(*name).cloned().unwrap_or_default();
            provider.is_some() || missing(name, &of_provider, &settings.host).is_none()
        },
    )
}

/// Returns the models that the configured providers' servers offer. Servers that are too slow are skipped.
pub(crate) async fn offered(settings: &Settings, machines: &Machines) -> Vec<ModelRef> {
    let clients = Providers::new(providers(settings, machines.remote_machine(&settings.host)));
    within(LIST_TIME_MAX, &clients, askable(settings, None)).await
}

/// Like [`offered`], but with a time limit, and without contacting a host.
pub(crate) async fn offered_within(
    time: Duration,
    settings: &Settings,
    machines: &Machines,
) -> Vec<ModelRef> {
    let clients = Providers::new(providers(settings, machines.remote_machine(&settings.host)));
    within(time, &clients, askable(settings, None).filter(|name| *name != OLLAMA_SSH.name)).await
}

async fn within(
    time: Duration,
    clients: &Providers,
    names: impl Iterator<Item = &'static str>,
) -> Vec<ModelRef> {
    let asked = names.map(|name| async move {
        let answer = tokio::time::timeout(time, clients.probe(name)).await;
        let models = answer.map(|answer| answer.models).unwrap_or_default();
        models.into_iter().map(|model| ModelRef::new(name, model)).collect::<Vec<_>>()
    });
    join_all(asked).await.concat()
}

#[cfg(test)]
mod tests {
    use super::is_unused;
    use crate::config::tests::World;
    use crate::global_flags::GlobalFlags;
    use crate::settings::tests::load;

    #[test]
    fn an_ollama_that_is_down_matters_if_it_is_configured_or_runs_the_model() {
        let is_unused = |environment: &[(&str, &str)]| {
            let settings = load(&World::new(), &GlobalFlags::default(), environment).expect("it is valid");
            is_unused(&settings, "ollama")
        };
        assert!(is_unused(&[]) && is_unused(&[("SYSOP_MODEL", "openai/x")]));
        assert!(!is_unused(&[("SYSOP_MODEL", "ollama/qwen3")]));
        assert!(!is_unused(&[("OLLAMA_HOST", "box")]));
    }
}
