//! The first start: nothing is configured, so the user chooses a model before anything else happens.

use std::io::{self, IsTerminal as _};

use anyhow::Result;
use sysop_core::message::ModelRef;
use sysop_core::model_provider::{DEMO, LOCAL};
use sysop_local::Machine;

use crate::exit::{Cancellation, CommandError};
use crate::global_flags::GlobalFlags;
use crate::init::{Prompter, choose_key, download_offer};
use crate::local_model::{GetConsent, LocalModels, download_model};
use crate::select_model::{OllamaServer, select_model};
use crate::settings::Settings;

/// Returns settings with a model. Without one, a person at the terminal chooses a download, an API key, or
/// the demo; if nobody is there, the settings are unchanged. Fails if the person cancels or the choice fails.
pub(crate) fn settings(settings: Settings, flags: &GlobalFlags, ollama: &OllamaServer) -> Result<Settings> {
    let terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    let resumes = settings.resume.is_some();
    let has_problem = settings.require_runnable().is_err();
    if settings.model.is_some() || !terminal || resumes || has_problem {
        return Ok(settings);
    }
    if select_model(&settings, ollama).is_ok() {
        return Ok(settings);
    }
    let model = loop {
        match choose_model(&settings, ollama)? {
            FirstChoice::Model(model) => break Some(model),
            FirstChoice::Configured => break None,
            // The menu comes again: declining a download does not mean leaving.
            FirstChoice::DownloadDeclined => {}
        }
    };
    let flags = GlobalFlags { model: model.or_else(|| flags.model.clone()), ..flags.clone() };
    Ok(crate::load_quietly(&flags)?)
}

/// Outcome of the choice of a model.
enum FirstChoice {
    Model(ModelRef),
    /// The model is in the config now.
    Configured,
    /// The person chose a download, and then declined it.
    DownloadDeclined,
}

/// Asks for a model and prepares it.
fn choose_model(settings: &Settings, ollama: &OllamaServer) -> Result<FirstChoice> {
    let models = LocalModels::new(settings);
    let recommended = models.catalog.recommended(&Machine::examine());
    let (name, offer) = (recommended.name.clone(), download_offer(recommended));
    let (mut input, mut output) = (io::stdin().lock(), io::stderr().lock());
    let mut prompter = Prompter::new(&mut input, &mut output);
    let timeout = ollama.timeout().map(|phrase| format!(", and {phrase}")).unwrap_or_default();
    prompter.say(&format!(
        "No model configured{timeout}. Choose one; `sysop init` changes it later.\n  \
         [1] {offer}\n  [2] use an API key, or another server\n  [3] try the demo, without a model"
    ))?;
    let answer = prompter.choice("Your choice [1-3, q quits]: ", &["1", "2", "3"]);
    let answer = answer.map_err(|error| match error.is::<Cancellation>() {
        true => CommandError::failed("no model chosen; run `sysop init` to set one up").into(),
        false => error,
    })?;
    Ok(match answer.as_str() {
        "1" => {
            drop((input, output));
            match crate::wait_for(download_model(settings, Some(&name), GetConsent::Ask)) {
                Err(error) if error.is::<Cancellation>() => return Ok(FirstChoice::DownloadDeclined),
                downloaded => downloaded?,
            };
            FirstChoice::Model(ModelRef::new(LOCAL.name, name))
        }
        "2" => {
            let setup = choose_key(&mut prompter, settings)?;
            crate::init::propose(&mut prompter, settings, &setup)?;
            FirstChoice::Configured
        }
        _ => FirstChoice::Model(ModelRef::new(DEMO, DEMO)),
    })
}
