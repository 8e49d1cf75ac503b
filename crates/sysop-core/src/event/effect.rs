//! Instructions of a session to the driver.

use std::time::Duration;

use crate::guard::GuardTimeout;
use crate::hook::HookQuestion;
use crate::id::{CallId, StepId, TurnId};
use crate::message::{ModelRequest, ToolCall};
use crate::policy::Fence;
use crate::preview::PreviewPlan;

/// An instruction to the driver. Never stored.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Call the model; answer with `Input::Reply`.
    CallModel { step: StepId, request: ModelRequest },
    /// Drop the model call and ignore its reply.
    CancelModel { step: StepId },
    /// Call the model for a summary of older messages; answer with `Input::Summarized`. Users see nothing of this call.
    Summarize {
        /// Number of the request. The answer repeats it, so that the two can be matched.
        attempt: u32,
        request: Box<ModelRequest>,
    },
    /// Drop the call for a summary and ignore its reply.
    CancelSummary { attempt: u32 },
    /// Read the instructions of the workspace and the user; answer with `Input::InstructionsRead`.
    ReadInstructions {
        /// Number of the request. The answer repeats it, so that the two can be matched.
        attempt: u32,
    },
    /// Ask the host for the facts about a call that the policy needs; answer with `Input::Surveyed`.
    Survey {
        call: ToolCall,
        /// Location at which the call would run.
        place: ToolLocation,
        /// Fence of the shell that `run_command` would use at this location.
        shell: Fence,
        /// Number of the survey. The answer repeats it, so that the two can be matched.
        attempt: u32,
    },
    /// Run the probe of a preview; answer with `Input::Previewed`, preceded by `Input::PreviewLate` if it takes long.
    Preview {
        /// Number of the probe. The answer repeats it, so that the two can be matched.
        attempt: u32,
        plan: Box<PreviewPlan>,
    },
    /// Stop a probe and ignore its answer.
    CancelPreview { attempt: u32 },
    /// Ask the user's hooks about a call; answer with `Input::HooksAnswered`.
    AskHooks {
        question: Box<HookQuestion>,
        /// Number of the survey that preceded the question. The answer repeats it.
        attempt: u32,
    },
    /// Ask the user's hooks about the prompt of a turn; answer with `Input::PromptHooksAnswered`.
    AskPromptHooks { turn: TurnId, prompt: String },
    /// Answer with `Input::ApprovalTimer` when `after` has passed.
    SetApprovalTimer { call: CallId, after: Duration },
    /// Run a tool; answer with `Input::Outcome`.
    RunTool {
        /// The call, exactly as it must run.
        call: ToolCall,
        /// Location at which the call runs, as decided together with the call.
        place: ToolLocation,
        /// Restrictions that the kernel enforces. A host that cannot fence the call must not run it.
        fence: Fence,
        /// Guard that rolls the call back. A host that cannot arm it must not run the call.
        guard: Option<GuardTimeout>,
    },
    /// Answer with `Input::BackgroundTimer` when `after` has passed.
    SetBackgroundTimer { call: CallId, after: Duration },
    /// The session no longer waits for this call: lift its time limit, and stop showing its output. Its
    /// `Input::Outcome` still follows.
    Background { call: CallId },
    /// Read the output of a call that runs in the background; answer with `Input::JobRead`.
    ReadJob {
        /// The call to the tool `jobs` that reads the output.
        call: CallId,
        /// The background call whose output is read.
        job: CallId,
        /// Maximum time to wait for the background call to end.
        wait: Duration,
    },
    /// Stop a tool. Its `Input::Outcome` still follows, with the output captured so far.
    CancelTool { call: CallId },
    /// Show a line to users. It is not logged.
    Notify { text: String },
    /// Answer with `Input::TurnTimer` when `after` has passed.
    SetTurnTimer { turn: TurnId, after: Duration },
    /// Answer with `Input::Timer` when `after` has passed.
    SetTimer {
        /// The call that is being stopped.
        call: CallId,
        after: Duration,
    },
}

/// Location at which a call runs. It is decided together with the call, so that consent for one location never applies
/// to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolLocation {
    /// The session's own host.
    Host,
    /// The client that provides the tool.
    Client,
}
