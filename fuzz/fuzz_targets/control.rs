//! Bytes to a lab are a request or refused, and the words in a request are settings or refused. Bytes
//! from a lab are a reply or an error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_protocol::framing::{FrameBuffer, read_frame, write_frame};
use linkrate_lab::control::messages::{
    CONTROL_VERSION, Envelope, Request, Setting, decode_reply, decode_request,
};
use linkrate_lab::control::{faults, settings, vlans};
use linkrate_model::{InterfaceKnobs, Model, model};

fuzz_target!(|bytes: &[u8]| {
    // as a byte stream that comes in two parts, as the lab collects it
    let mut arrived = FrameBuffer::default();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let mut stream = bytes;
    for part in [first, second] {
        arrived.add(part);
        while let Ok(Some(frame)) = arrived.take() {
            assert_eq!(read_frame(&mut stream).expect("the same frame"), Some(frame.clone()));
            decode(&frame);
        }
    }
    // as one message, which a random length would seldom let through
    decode(bytes);
});

fn decode(bytes: &[u8]) {
    match decode_request(bytes) {
        Ok(request) => {
            let envelope = Envelope { version: CONTROL_VERSION, request };
            let again = decode_request(&sent_on(&envelope)).expect("a request that was accepted");
            assert_eq!(again, envelope.request);
            for model in model::built_in() {
                // a single port, and an aggregate
                for ports in [0, 4] {
                    carry_out(&envelope.request, &model, ports);
                }
            }
        }
        Err(refused) => assert!(!refused.reason.is_empty()),
    }
    if let Ok(reply) = decode_reply(bytes) {
        let again = sent_on(&reply);
        assert_eq!(decode_reply(&again).expect("a reply that was accepted"), reply);
    }
}

/// As far as it goes without a lab.
fn carry_out(request: &Request, model: &Model, ports: usize) {
    match request {
        Request::Set { settings, .. } => {
            if let Ok(knobs) = settings::over(&InterfaceKnobs::default(), settings, model, ports) {
                assert!(knobs.mtu.is_none_or(|mtu| mtu <= model.max_mtu));
                assert!(knobs.queues.is_none_or(|queues| queues <= model.queues));
                // what is shown can be set again and means the same
                let shown = words(knobs.values());
                let again = settings::over(&InterfaceKnobs::default(), &shown, model, ports);
                assert_eq!(again.expect("what was accepted"), knobs);
            }
        }
        Request::SetFaults { settings, .. } => {
            if let Ok(set) = faults::parse(settings) {
                set.check().expect("faults that can be");
                faults::parse(&words(faults::describe(&set))).expect("what was accepted");
            }
        }
        Request::SetVlans { settings, .. } => {
            if let Ok(set) = vlans::parse(settings) {
                // what is shown can be set again and means the same
                assert_eq!(vlans::parse(&words(vlans::describe(&set))).as_ref(), Ok(&set));
            }
        }
        _ => {}
    }
}

fn words<K: Into<String>>(values: impl IntoIterator<Item = (K, String)>) -> Vec<Setting> {
    values.into_iter().map(|(key, value)| Setting { key: key.into(), value }).collect()
}

fn sent_on(message: &impl serde::Serialize) -> Vec<u8> {
    let mut stream = Vec::new();
    write_frame(&mut stream, message).expect("a message that fits a frame");
    read_frame(&mut stream.as_slice()).expect("a whole frame").expect("one frame")
}
