//! What single keys do.
