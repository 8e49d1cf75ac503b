//! Survey of a call: the context in which the call would run, and the files that its paths lead to. The
//! policy decides on the call by its survey.
//!
//! The context is determined once, so that the survey of a call without targets needs no access to the machine.

use sysop_core::id::CallId;
use sysop_core::message::ToolCall;
use sysop_core::policy::{
    CommandContext, Fence, Resolution, ResolvedTarget, Survey, Target, TerminalFocus, targets_of,
};
use sysop_core::tool::ToolEffect;

use crate::tools::{Toolbox, UNDO};
use crate::undo::records_of;

/// Reason why nothing is known of a command while a program runs in the terminal.
const TERMINAL_IS_BUSY: &str = "a program runs in the terminal; the command will not run until it ends";

impl Toolbox {
    /// Surveys a call and resolves its targets. `fence` selects the terminal that the call would use.
    pub(crate) async fn survey(&self, call: &ToolCall, fence: &Fence) -> Survey {
        let survey = self.facts(call, fence).await;
        *self.last_survey.lock() = Some((call.clone(), survey.clone()));
        survey
    }

    async fn facts(&self, call: &ToolCall, fence: &Fence) -> Survey {
        if call.name == UNDO {
            return self.survey_undo(call).await;
        }
        let Some(spec) = self.specs.iter().find(|spec| spec.name == call.name) else {
            return Survey::default();
        };
        let context = match self.machine.context().await {
            Ok(context) => context,
            Err(error) => return Survey { unreachable: Some(error.to_string()), ..Survey::default() },
        };
        let mut survey = Survey { context, resolution: Resolution::Host, ..Survey::default() };
        if spec.effect == ToolEffect::Keys {
            survey.terminal = self.enter_terminal(&mut survey, fence, TerminalUse::Keys, &call.id).await;
        } else if spec.name == "run_command" {
            self.enter_terminal(&mut survey, fence, TerminalUse::Command, &call.id).await;
        }
        if survey.resolution == Resolution::Host {
            let of_call = |survey: &Survey| targets_of(spec, call, survey);
            let resolving = self.resolve_targets(of_call, &mut survey);
            let (resolved, certain_failure) = tokio::join!(resolving, self.certain_failure(call));
            survey.certain_failure = certain_failure;
            if resolved.is_err() {
                survey.resolution = Resolution::Failed;
            }
        }
        survey
    }

    async fn survey_undo(&self, call: &ToolCall) -> Survey {
        if records_of(call).is_empty() {
            return Survey::default();
        }
        match self.machine.context().await {
            Ok(context) => {
                let survey = Survey { context, resolution: Resolution::Host, ..Survey::default() };
                Survey { undo: self.offer_undo(call).await, ..survey }
            }
            Err(error) => Survey { unreachable: Some(error.to_string()), ..Survey::default() },
        }
    }

    pub(crate) async fn resolve(&self, targets: Vec<Target>) -> Option<Vec<ResolvedTarget>> {
        let home = self.machine.context().await.ok()?.home;
        self.machine.resolve(targets, home.as_deref()).await
    }

    /// Resolves the targets of a call, then the targets of the scripts that it runs, up to the machine's maximum depth.
    /// Fails if the machine cannot resolve targets.
    pub(crate) async fn resolve_targets(
        &self,
        targets_of: impl Fn(&Survey) -> Vec<Target>,
        survey: &mut Survey,
    ) -> Result<(), Unresolved> {
        let mut asked: Vec<Target> = Vec::new();
        for _ in 0..self.machine.resolutions_max() {
            let mut targets = targets_of(survey);
            targets.retain(|target| !asked.contains(target));
            if targets.is_empty() {
                break;
            }
            asked.extend(targets.iter().cloned());
            let home = survey.context.home.clone();
            let resolved = self.machine.resolve(targets, home.as_deref()).await.ok_or(Unresolved)?;
            survey.targets.extend(resolved);
        }
        Ok(())
    }

    /// Replaces the survey's context with the context of the terminal, for a call that uses the terminal.
    async fn enter_terminal(
        &self,
        survey: &mut Survey,
        fence: &Fence,
        usage: TerminalUse,
        call: &CallId,
    ) -> TerminalFocus {
        let terminal = self.terminal_for(fence);
        let place = terminal.survey(usage).await;
        terminal.note_place(call, &place);
        if place.is_busy {
            survey.incomplete = Some(TERMINAL_IS_BUSY.to_owned());
        }
        let context = &mut survey.context;
        context.dialect = place.dialect;
        context.own_shell = false;
        context.folder = match place.folder {
            Some(folder) => Some(folder),
            // A new shell starts in the root; until it does, only keys are surveyed.
            None if place.is_new => context.root.clone(),
            None => None,
        };
        if !place.is_home {
            *context = CommandContext {
                dialect: place.dialect,
                folder: context.folder.take(),
                home: place.home,
                host: Some(place.machine.unwrap_or_else(|| "elsewhere".to_owned())),
                ..CommandContext::default()
            };
            survey.resolution = Resolution::Failed;
        } else if place.home.is_some() {
            context.home = place.home;
        }
        place.focus
    }
}

/// The machine could not resolve targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unresolved;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminalUse {
    /// A command, which needs a shell.
    Command,
    /// Keys, which go to the foreground program, whatever it is.
    Keys,
}
