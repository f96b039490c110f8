//! Whatever stands where a header of a backup should, it is refused, or reads back as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_agent::flow::backup::header::{HEADER_BYTES, Header};
use linkrate_model::backup::MAX_LENGTH;

fuzz_target!(|bytes: &[u8]| {
    let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else { return };
    let Ok(header) = Header::from_bytes(bytes) else { return };
    assert!((1..=MAX_LENGTH).contains(&header.length));
    let name = header.path.name();
    assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '/'), "{name:?}");
    assert_eq!(header.to_bytes(), *bytes);
});
