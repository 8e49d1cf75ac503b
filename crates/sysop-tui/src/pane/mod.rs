//! The session's terminal as a pane: its live screen, and keys for it.
