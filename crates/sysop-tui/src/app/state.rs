//! The six states of the agent-rs design.

/// What the person sees the session do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// The person types.
    Input,
    /// A model is asked.
    Thinking,
    /// A command waits for the person.
    ReviewAction,
    /// A command runs.
    Executing,
    /// The model reads what came of it.
    Finalizing,
    /// The task is done and summed up.
    Done,
}
