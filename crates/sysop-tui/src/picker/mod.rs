//! A list with a search, to pick one thing from.
