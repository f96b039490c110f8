//! A peer that sends any bytes: the controller ends each request with a reply or an error, in
//! time, without a panic, and with a text that a terminal can show.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use linkrate_lab::connection::{AgentError, Connection};
use linkrate_protocol::{Refusal, Reply, Request, cleaned, write_message};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// How long a controller may take with a peer that has closed.
const QUICK: Duration = Duration::from_secs(5);

/// Asks a peer that sends `bytes` and closes; returns the error that ended the conversation.
fn talk(bytes: &[u8]) -> Result<AgentError, TestCaseError> {
    let (here, mut there) = UnixStream::pair().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut connection = Connection::new("ssh:lab2".to_owned(), here.into(), stop);
    there.set_nonblocking(true).unwrap();
    // bytes beyond the buffer of the socket do not matter
    let _ = there.write_all(bytes);
    there.shutdown(std::net::Shutdown::Write).unwrap();
    let begun = Instant::now();
    for _ in 0..1000 {
        match connection.ask(&Request::Clock) {
            Ok(reply) => check_strings(&serde_json::to_value(&reply).unwrap())?,
            Err(AgentError::Refused(refusal)) => check_text(&refusal.reason)?,
            Err(error) => {
                prop_assert!(begun.elapsed() < QUICK);
                check_text(&error.to_string())?;
                // a connection that was lost stays lost, for the same reason
                let again = connection.ask(&Request::Clock).unwrap_err();
                prop_assert_eq!(again.to_string(), error.to_string());
                return Ok(error);
            }
        }
    }
    Err(TestCaseError::fail("the conversation does not end"))
}

fn check_text(text: &str) -> Result<(), TestCaseError> {
    prop_assert!(text.len() < 8192, "{} bytes", text.len());
    prop_assert!(text.chars().all(|character| !character.is_control()), "{text:?}");
    Ok(())
}

fn check_strings(value: &serde_json::Value) -> Result<(), TestCaseError> {
    match value {
        serde_json::Value::String(text) => prop_assert_eq!(&cleaned(text), text),
        serde_json::Value::Array(values) => values.iter().try_for_each(check_strings)?,
        serde_json::Value::Object(map) => map.iter().try_for_each(|(key, value)| {
            prop_assert_eq!(&cleaned(key), key);
            check_strings(value)
        })?,
        _ => {}
    }
    Ok(())
}

/// The messages that the fuzzer begins with.
fn seeds() -> Vec<Vec<u8>> {
    let directory = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/protocol"));
    let mut paths: Vec<PathBuf> =
        directory.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let json = paths.iter().filter(|path| path.extension().is_some_and(|end| end == "json"));
    json.map(|path| std::fs::read(path).unwrap()).collect()
}

fn framed(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = Vec::new();
    for message in messages {
        stream.extend((message.len() as u32).to_be_bytes());
        stream.extend(message);
    }
    stream
}

/// A seed with the number of one of the first requests, and some bytes that differ.
fn mutated(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>());
    (prop::sample::select(seeds), prop::collection::vec(change, 0..4), 0..4u8).prop_map(
        |(mut seed, changes, number)| {
            if let Some(at) = seed.windows(10).position(|part| part == b"\"number\":7") {
                seed[at + 9] = b'0' + number;
            }
            for (at, byte) in changes {
                let at = at.index(seed.len());
                seed[at] = byte;
            }
            seed
        },
    )
}

fn try_all<S: Strategy>(strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases: 2000, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    if let Err(failure) = TestRunner::new_with_rng(config, rng).run(strategy, test) {
        panic!("{failure}");
    }
}

#[test]
fn any_bytes_end_the_conversation_with_a_reason() {
    try_all(&prop::collection::vec(any::<u8>(), 0..600), |bytes| talk(&bytes).map(drop));
}

#[test]
fn any_frames_of_almost_right_messages_end_the_conversation_with_a_reason() {
    let frames = prop::collection::vec(mutated(seeds()), 0..6);
    try_all(&frames, |messages| talk(&framed(&messages)).map(drop));
}

#[test]
fn text_of_the_peer_does_not_reach_a_terminal_as_it_is() {
    let reason = "\u{1b}]0;title\u{7}\u{9b}2J\u{202e}".to_owned() + &"x".repeat(100_000);
    let refusal = Reply::Refused(Refusal { reason, hint: Some("\u{1b}c".to_owned()) });
    let mut stream = Vec::new();
    write_message(&mut stream, 0, &refusal).unwrap();
    // and an error of the decoder that quotes the message
    stream.extend(framed(&[br#"{"number":1,"message":"\u001b[31mred"}"#.to_vec()]));
    let error = talk(&stream).unwrap();
    assert!(error.to_string().contains("cannot decode"), "{error}");
}
