//! Todo.
