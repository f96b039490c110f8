//! Whatever a line of the run store holds is a run or an error, and a run reads back as it was
//! written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_study::store::StoredRun;
use linkrate_study::store::line::{decode, encode};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(run) = decode(bytes) {
        reads_back(&run);
    }
    // behind the checksum, which random changes would never get past
    if let Ok(run) = serde_json::from_slice::<StoredRun>(bytes) {
        reads_back(&run);
    }
});

fn reads_back(run: &StoredRun) {
    let line = encode(run).expect("a run that was read");
    let line = line.strip_suffix(b"\n").expect("a line ends");
    assert_eq!(&decode(line).expect("a line that was written"), run);
}
