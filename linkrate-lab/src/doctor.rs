//! What this host can and cannot measure.
