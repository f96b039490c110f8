//! Whatever the far end sends is a message or an error, and a message means the same once sent on.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_agent::framing::{read_frame, write_frame};
use linkrate_agent::protocol::{decode_reply, decode_request};

fuzz_target!(|bytes: &[u8]| {
    // as a byte stream
    let mut stream = bytes;
    while let Ok(Some(frame)) = read_frame(&mut stream) {
        decode(&frame);
    }
    // as one message, which a random length would seldom let through
    decode(bytes);
});

fn decode(bytes: &[u8]) {
    if let Ok(request) = decode_request(bytes) {
        let again = sent_on(&request);
        assert_eq!(decode_request(&again).expect("a request that was accepted"), request);
    }
    if let Ok(reply) = decode_reply(bytes) {
        let again = sent_on(&reply);
        assert_eq!(decode_reply(&again).expect("a reply that was accepted"), reply);
    }
}

fn sent_on(message: &impl serde::Serialize) -> Vec<u8> {
    let mut stream = Vec::new();
    write_frame(&mut stream, message).expect("a message that fits a frame");
    read_frame(&mut stream.as_slice()).expect("a whole frame").expect("one frame")
}
