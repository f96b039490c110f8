//! Formats, offloads and limits as pure functions
