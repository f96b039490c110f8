//! Every byte sequence of the peer is a message or an error. A message that is accepted means the
//! same when it is sent on. No string of an accepted reply drives a terminal or is long.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_protocol::framing::read_frame;
use linkrate_protocol::{cleaned, decode_reply, decode_request, write_message};

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
    if let (number, Ok(request)) = decode_request(bytes) {
        let (again, sent) = decode_request(&sent_on(number, &request));
        assert_eq!((again, sent.expect("a request that was accepted")), (number, request));
    }
    if let Ok((number, reply)) = decode_reply(bytes) {
        let again = decode_reply(&sent_on(number, &reply)).expect("a reply that was accepted");
        assert_eq!(again, (number, reply));
        check_strings(&serde_json::to_value(&again.1).expect("a reply is JSON"));
    }
}

fn sent_on(number: u64, message: &impl serde::Serialize) -> Vec<u8> {
    let mut stream = Vec::new();
    write_message(&mut stream, number, message).expect("a message that fits a frame");
    read_frame(&mut stream.as_slice()).expect("a whole frame").expect("one frame")
}

fn check_strings(value: &serde_json::Value) {
    match value {
        serde_json::Value::String(text) => assert_eq!(cleaned(text), *text),
        serde_json::Value::Array(values) => values.iter().for_each(check_strings),
        serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| {
            assert_eq!(cleaned(key), *key);
            check_strings(value);
        }),
        _ => {}
    }
}
