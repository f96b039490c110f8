//! Whatever two peers answer to a controller that builds a testbed and carries out a run on it, the
//! run has figures that can be stored, or a reason. No text of theirs drives a terminal or is long.
//!
//! An input is the kind of the run, a line for each reply of the system under test, an empty line,
//! and a line for each reply of the client.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_lab::executor::scripted::{Ended, of_input};
use linkrate_study::store::line::{decode, encode};
use linkrate_study::store::{Outcome, StoredRun};
use linkrate_model::clean;

/// A reason can quote some texts of 1024 characters.
const MAX_LENGTH: usize = 16 << 10;

fuzz_target!(|input: &[u8]| {
    let Ended { facts, spec, outcome } = of_input(input);
    check_texts(&serde_json::to_value(&facts).expect("facts are JSON"));
    let outcome = match outcome {
        Ok(measurement) => Outcome::Measured(Box::new(measurement)),
        Err(failure) => {
            assert!(!failure.reason.is_empty());
            Outcome::Failed(failure)
        }
    };
    check_texts(&serde_json::to_value(&outcome).expect("an outcome is JSON"));
    let (sequence, block, cell, started_unix_ms) = (0, 0, Some(0), 0);
    let run = StoredRun {
        sequence,
        block,
        cell,
        pair: None,
        missing_nodes: Vec::new(),
        started_unix_ms,
        spec,
        outcome,
    };
    // as the store does before it writes: a count that is too large is an error with a name
    if let Ok(read) = encode(&run).and_then(|line| decode(line.trim_ascii_end())) {
        assert_eq!(read, run);
    }
});

fn check_texts(value: &serde_json::Value) {
    let check = |text: &String| {
        assert_eq!(clean::line(text), *text);
        assert!(text.len() < MAX_LENGTH, "{} bytes", text.len());
    };
    match value {
        serde_json::Value::String(text) => check(text),
        serde_json::Value::Array(values) => values.iter().for_each(check_texts),
        serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| {
            check(key);
            check_texts(value);
        }),
        _ => {}
    }
}
