//! Whatever a study file holds, it is read or refused with reasons, and what is read is whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_study::file::parse;

fuzz_target!(|text: &str| {
    match parse("fuzz", "fuzz.toml", text) {
        Ok(study) => {
            assert!(!study.cells.is_empty(), "a study without cells");
            assert_eq!(study.source, text);
            assert!(parse("fuzz", "fuzz.toml", &study.source).as_ref() == Ok(&study));
        }
        Err(errors) => {
            let shown = errors.to_string();
            assert!(shown.contains("fuzz.toml"), "an error that does not name the file: {shown}");
        }
    }
});
