//! Every file is imported runs or an error. Runs that were imported are a result set that reads back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_interop::import::read;
use linkrate_study::import::assemble;

fuzz_target!(|bytes: &[u8]| {
    let Ok(runs) = read("file", bytes) else { return };
    // documents of one test may contradict each other
    let Ok(set) = assemble(runs, 0) else { return };
    set.study.check().expect("a plan that can be stored");
});
