//! A list of nodes is read, or its first wrong line is named. No text of it drives a terminal or is long.

#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use linkrate_study::fleet::hosts::parse;
use linkrate_model::clean;

/// A message quotes some words of at most 64 characters.
const MAX_LENGTH: usize = 1024;

fuzz_target!(|text: &str| {
    match parse(text) {
        Ok(nodes) => {
            assert!(nodes.len() >= 2);
            let names: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
            assert_eq!(names.len(), nodes.len());
        }
        Err(error) => {
            assert!((1..=text.lines().count().max(1)).contains(&error.line));
            let message = error.to_string();
            assert!(message.len() < MAX_LENGTH && clean::line(&message) == message, "{message}");
        }
    }
});
