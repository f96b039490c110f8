//! Every byte sequence of a peer that speaks the protocol of iperf3 or netperf is a message or an error, at
//! either end. A message that is accepted means the same when it is sent on.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_interop::iperf3::{
    Arrivals, COOKIE_BYTES, Cookie, CounterWidth, Datagram, MAX_RESULT_BYTES, Parameters, Results,
    State, answer,
};
use linkrate_interop::json::{Fields, LENGTH_BYTES, length};
use linkrate_interop::netperf::{
    Classic, Form, Layout, MESSAGE_BYTES, Message, OmniRequest, OmniResponse, OmniResults,
    SHORT_MESSAGE_BYTES, Shape,
};

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => documents(rest),
        1 => datagrams(rest),
        2 => netperf(rest),
        _ => greeting(rest),
    }
});

fn documents(bytes: &[u8]) {
    if let Some(announced) = bytes.first_chunk::<LENGTH_BYTES>() {
        if let Ok(octets) = length(*announced, MAX_RESULT_BYTES) {
            assert_eq!(u32::from_be_bytes(*announced) as usize, octets);
            assert!((1..=MAX_RESULT_BYTES as usize).contains(&octets));
        }
    }
    let Ok(fields) = Fields::parse(bytes) else { return };
    fn again(document: &str) -> Fields<'_> {
        Fields::parse(document.as_bytes()).expect("a document that was written")
    }
    if let Ok(parameters) = Parameters::parse(&fields) {
        let read = Parameters::parse(&again(&parameters.document().to_string()));
        assert_eq!(read, Ok(parameters));
    }
    for streams in 1..4 {
        if let Ok(results) = Results::parse(&fields, streams) {
            let read = Results::parse(&again(&results.document().to_string()), streams);
            assert_eq!(
                read.expect("results that were accepted").streams.len(),
                results.streams.len()
            );
        }
    }
}

fn datagrams(bytes: &[u8]) {
    let mut arrivals = Arrivals::default();
    for payload in bytes.chunks(16) {
        for width in [CounterWidth::Narrow, CounterWidth::Wide] {
            let Some(datagram) = Datagram::parse(width, payload) else { continue };
            let mut sent = [0; 16];
            datagram.emit(width, &mut sent);
            let octets = width.header_bytes();
            assert_eq!(sent[..octets], payload[..octets]);
            arrivals.add(datagram, datagram.number);
            assert!(arrivals.lost <= arrivals.highest);
        }
    }
}

fn netperf(bytes: &[u8]) {
    let mut octets = [0; MESSAGE_BYTES];
    let length = bytes.len().min(MESSAGE_BYTES);
    octets[..length].copy_from_slice(&bytes[..length]);
    let message = Message::of(&octets);
    messages(&message);
    if let Some(short) = bytes.first_chunk() {
        let short = Message::of_short(short);
        assert_eq!(short.octets()[SHORT_MESSAGE_BYTES..], [0; MESSAGE_BYTES - SHORT_MESSAGE_BYTES]);
        messages(&short);
    }
}

const FORMS: [Form; 8] = [
    Form::Omni,
    Form::Classic(Classic::TcpStream),
    Form::Classic(Classic::TcpMaerts),
    Form::Classic(Classic::TcpRr),
    Form::Classic(Classic::TcpCrr),
    Form::Classic(Classic::TcpCc),
    Form::Classic(Classic::UdpStream),
    Form::Classic(Classic::UdpRr),
];

/// Reads a message as each that a client or a server may send.
fn messages(message: &Message) {
    let _ = (message.cpu(), message.error(), message.cpu_rate());
    if let Ok(request) = OmniRequest::parse(message) {
        assert_eq!(OmniRequest::parse(&request.message(false)), Ok(request));
    }
    let _ = Form::of(message.kind()).map(|form| form.request(&message));
    let asked = OmniRequest::of(Shape::Stream, true, 1);
    for form in FORMS {
        let Form::Classic(test) = form else { continue };
        let _ = test.read_response(message);
        if let Ok(results) = test.read_results(message, &asked) {
            assert!(results.cpu_percent.is_none_or(|percent| percent >= 0.0));
        }
    }
    if let Ok(response) = OmniResponse::parse(message) {
        assert_eq!(
            OmniResponse::parse(&response.message()).map(|read| read.data_port),
            Ok(response.data_port)
        );
        for form in FORMS {
            let _ = form.response(&response);
        }
    }
    if let Ok(results) = OmniResults::parse(message) {
        for layout in [Layout::TwoFive, Layout::TwoSix, Layout::TwoSeven] {
            let written = results.message(layout);
            let read = OmniResults::parse(&written).map(|read| read.received_bytes);
            assert_eq!(read, Ok(results.received_bytes));
            for form in FORMS {
                let _ = form.results(&results, layout);
            }
        }
    }
}

fn greeting(bytes: &[u8]) {
    // an answer is no longer than what it answers
    assert!(answer(bytes).is_none_or(|answer| answer.len() == bytes.len()));
    if let Some(octets) = bytes.first_chunk::<COOKIE_BYTES>() {
        if let Some(cookie) = Cookie::of(*octets) {
            assert_eq!(cookie.octets(), octets);
        }
    }
    for octet in bytes {
        if let Some(state) = State::of(*octet) {
            assert_eq!(state.octet(), *octet);
        }
    }
}
