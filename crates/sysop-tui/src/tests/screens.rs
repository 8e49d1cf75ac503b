//! Pictures of every state.
