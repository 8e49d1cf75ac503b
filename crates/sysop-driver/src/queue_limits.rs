//! Limits on queued user inputs.

use sysop_core::event::Input;
use sysop_core::session::QUEUED_PROMPTS_MAX;

use crate::DriverError;

/// Maximum user inputs queued for processing; further inputs are refused.
const INPUTS_MAX: usize = 1024;
/// Notice for a prompt that can neither start nor be queued.
pub const QUEUE_IS_FULL: &str = "the prompt queue is full; try again later, or stop the turn";

/// Checks that there is room for a user's input. Counts the inputs that wait (`waiting`), the inputs that are
/// being processed (`unflushed`), and the number of prompts that wait for the turn to end (`queued`).
pub(crate) fn check_queue_room<'a>(
    input: &Input,
    waiting: impl ExactSizeIterator<Item = &'a Input>,
    unflushed: &'a [Input],
    queued: usize,
) -> Result<(), DriverError> {
    if is_user_input(input) && waiting.len() >= INPUTS_MAX {
        let why = format!("too many pending inputs ({INPUTS_MAX}); try again in a moment");
        return Err(DriverError::QueueFull(why));
    }
    let is_prompt = |input: &&Input| matches!(input, Input::Prompt { .. });
    if is_prompt(&input) && queued + waiting.chain(unflushed).filter(is_prompt).count() >= QUEUED_PROMPTS_MAX
    {
        return Err(DriverError::QueueFull(QUEUE_IS_FULL.to_owned()));
    }
    Ok(())
}

/// Returns true if the input comes from a user, not from an effect; only such inputs may be forwarded to another node.
pub(crate) fn is_user_input(input: &Input) -> bool {
    matches!(
        input,
        Input::Prompt { .. }
            | Input::WithdrawPrompt { .. }
            | Input::Direct { .. }
            | Input::Decision { .. }
            | Input::PreviewCommand { .. }
            | Input::Cancel
            | Input::Pause
            | Input::Resume
            | Input::Retry
            | Input::Clear
            | Input::Compact { .. }
            | Input::ReloadInstructions
            | Input::Background
            | Input::StopJob { .. }
            | Input::Configure { .. }
    )
}
