//! The layout: which part of the screen shows what.
