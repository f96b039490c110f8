use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use linkrate_model::interfaces::InterfaceAddress;
use linkrate_model::{BitRate, ByteSize, InterfaceKnobs, MessageSize};

use super::super::{
    Ends, Finished, Latencies, ListenSpec, MeasureSpec, UnexpectedPeers, write_message,
};
use super::*;
use crate::Carries;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A message as a frame has it.
fn sent(message: &impl serde::Serialize) -> Vec<u8> {
    let mut frame = Vec::new();
    write_message(&mut frame, 7, message).unwrap();
    frame.split_off(4)
}

fn decoded(request: &Request) -> Result<Request, DecodeError> {
    let (number, request) = decode_request(&sent(request));
    assert_eq!(number, 7);
    request
}

fn listen(workload: Workload) -> Request {
    Request::Listen(ListenSpec {
        workload,
        socket: SocketKnobs::default(),
        clients: vec![Ends { client: HERE, listener: HERE }],
        listeners: 1,
        nonce: 1,
        seed: 1,
        shared_cpus: false,
        record: None,
        part: 0,
        concurrent: false,
        bind: BTreeMap::new(),
    })
}

#[test]
fn a_request_is_read_as_written() {
    let request = listen(Workload::default());
    assert_eq!(decoded(&request).unwrap(), request);
}

#[test]
fn every_request_except_hello_has_a_number() {
    let plain = |request: &Request| decode_request(&serde_json::to_vec(request).unwrap());
    let hello = Request::Hello { version: 1 };
    assert!(matches!(plain(&hello), (HELLO_NUMBER, Ok(_))));
    assert!(decoded(&hello).is_err());
    let (_, refused) = plain(&Request::Begin);
    let error = refused.unwrap_err().to_string();
    assert_eq!(error, "number is missing, expected a number in every request except hello");
    for wrong in [r#"{"number":0,"message":"begin"}"#, r#"{"number":1,"message":"begin","x":1}"#] {
        assert!(decode_request(wrong.as_bytes()).1.is_err(), "{wrong}");
    }
}

/// Replaces every string in a message, keys included, by one that drives a terminal.
#[test]
fn no_string_of_a_reply_drives_a_terminal_or_is_long() {
    let mut accepted = 0;
    for (name, bytes) in seeds() {
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        for pointer in strings(&value, "") {
            for text in ["\u{1b}[2Jx".to_owned(), "=\u{202e}1".to_owned(), "y".repeat(1 << 14)] {
                let mut hostile = value.clone();
                *hostile.pointer_mut(&pointer).unwrap() = Value::String(text);
                let Ok((_, reply)) = decode_reply(&serde_json::to_vec(&hostile).unwrap()) else {
                    continue;
                };
                accepted += 1;
                let mut again = serde_json::to_value(&reply).unwrap();
                let before = again.clone();
                text::clean(&mut again);
                assert_eq!(again, before, "{name}: {pointer}");
            }
        }
    }
    assert!(accepted > 10, "{accepted}");
}

/// The paths of all strings in a message (RFC 6901).
fn strings(value: &Value, at: &str) -> Vec<String> {
    match value {
        Value::String(_) => vec![at.to_owned()],
        Value::Array(values) => (0..values.len())
            .flat_map(|index| strings(&values[index], &format!("{at}/{index}")))
            .collect(),
        Value::Object(map) => {
            map.iter().flat_map(|(key, value)| strings(value, &format!("{at}/{key}"))).collect()
        }
        _ => Vec::new(),
    }
}

fn seeds() -> Vec<(String, Vec<u8>)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/protocol");
    let entries = std::fs::read_dir(directory).unwrap();
    let seed = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().strip_suffix(".json")?;
        Some((name.to_owned(), std::fs::read(&path).unwrap()))
    };
    entries.filter_map(|entry| seed(entry.unwrap().path())).collect()
}

#[test]
fn sizes_and_counts_beyond_any_testbed_are_refused() {
    let huge = MessageSize::Fixed(ByteSize(1 << 40));
    for workload in [
        Workload { message: huge, ..Workload::default() },
        Workload { connections: 1 << 20, ..Workload::default() },
        Workload { connections: 0, ..Workload::default() },
        Workload { burst: u32::MAX, ..Workload::default() },
        Workload {
            request: MessageSize::Uniform { low: ByteSize(9), high: ByteSize(3) },
            ..Workload::default()
        },
    ] {
        let error = decoded(&listen(workload)).unwrap_err();
        assert!(matches!(error, DecodeError::OutOfBounds { .. }), "{error}");
    }
}

#[test]
fn names_the_kernel_would_refuse_are_refused() {
    for name in ["", ".", "..", "a/b", "0123456789abcdef", "a b", "a:b"] {
        let request = Request::SetKnobs {
            interfaces: vec![name.to_owned()],
            knobs: InterfaceKnobs::default(),
        };
        assert!(decoded(&request).is_err(), "{name:?}");
    }
}

#[test]
fn knobs_of_too_many_or_unnamable_interfaces_are_refused() {
    let decoded = |names: &[String]| {
        let knobs = names.iter().map(|name| (name.clone(), InterfaceKnobs::default()));
        let reply = Reply::Knobs(knobs.collect());
        decode_reply(&sent(&reply)).map_err(|error| error.to_string())
    };
    let names: Vec<String> = (0..=256).map(|number| format!("eth{number}")).collect();
    assert!(decoded(&names[1..]).is_ok());
    assert_eq!(decoded(&names).unwrap_err(), "interfaces is 257, expected at most 256");
    assert!(decoded(&["a/b".to_owned()]).unwrap_err().starts_with("interface name is"));
}

#[test]
fn an_interface_is_named_once() {
    let measure = |interfaces: &[&str]| {
        decoded(&Request::Measure(MeasureSpec {
            start_ns: 0,
            end_ns: 1,
            interfaces: interfaces.iter().map(|name| (*name).to_owned()).collect(),
            readers: 1,
            ..MeasureSpec::default()
        }))
    };
    assert!(measure(&["p0", "p1"]).is_ok());
    let error = measure(&["p0", "p1", "p0"]).unwrap_err().to_string();
    assert_eq!(error, "interfaces is \"p0\" twice, expected each interface once");
}

#[test]
fn a_limit_of_datagrams_is_not_zero() {
    let limit = |bytes_per_second, burst_us| {
        let name = "p0".to_owned();
        let request = Request::LimitDatagrams {
            name,
            bytes_per_second,
            burst_us,
            overhead: 24,
            in_cells: true,
        };
        decoded(&request).map(|again| assert_eq!(again, request)).map_err(|e| e.to_string())
    };
    assert_eq!(limit(u64::MAX, 1), Ok(()));
    assert!(limit(0, 1).unwrap_err().contains("bytes-per-second is 0"));
    assert!(limit(1, 0).unwrap_err().contains("burst-us is 0"));
}

#[test]
fn a_tap_is_asked_for_within_bounds() {
    let tap = |queues, address, tx_queue_length| {
        let name = "p0".to_owned();
        let carries = Carries::Frames;
        let (mtu, napi) = (None, false);
        let request =
            Request::CreateTap { name, carries, queues, address, mtu, tx_queue_length, napi };
        decoded(&request).map(|again| assert_eq!(again, request)).map_err(|e| e.to_string())
    };
    assert_eq!(tap(1, None, 512), Ok(()));
    assert_eq!(tap(256, Some([2, 0, 0, 0, 0, 1]), 1 << 16), Ok(()));
    for (answer, field) in [
        (tap(0, None, 512), "queues is 0"),
        (tap(257, None, 512), "queues is 257"),
        (tap(1, None, 0), "tx-queue-length is 0"),
        (tap(1, None, u32::MAX), "tx-queue-length is 4294967295"),
        (tap(1, Some([0; 6]), 512), "address is 00:00:00:00:00:00"),
        (tap(1, Some([1, 0, 94, 0, 0, 1]), 512), "address is 01:00:5e:00:00:01"),
    ] {
        let error = answer.unwrap_err();
        assert!(error.starts_with(field), "{error}");
    }
}

#[test]
fn descriptors_that_cannot_be_are_refused() {
    let answer = |descriptors| {
        let tap = Reply::Tap { descriptors, napi_threads: Vec::new(), napi_refused: None };
        decode_reply(&sent(&tap)).is_ok()
    };
    assert!(answer(vec![5, 6]));
    assert!(!answer(vec![]) && !answer(vec![5, -1]) && !answer(vec![5; 257]));
}

#[test]
fn what_flows_are_said_to_have_seen_is_bounded() {
    let answer = |steps, unexpected_peers| {
        let addresses = vec![HERE; unexpected_peers];
        let unexpected_peers = UnexpectedPeers { refused: 9, addresses };
        let latency = Latencies { open: vec![(1, 1); steps], ..Latencies::default() };
        let finished = Finished { latency, unexpected_peers, ..Finished::default() };
        let decoded = decode_reply(&sent(&Reply::Finished(finished)));
        decoded.map(|_| ()).map_err(|error| error.to_string())
    };
    let (steps, unexpected_peers) = (bounds::LATENCIES, bounds::UNEXPECTED_PEERS);
    assert_eq!(answer(steps, unexpected_peers), Ok(()));
    assert_eq!(answer(steps + 1, 0).unwrap_err(), "latencies is 65537, expected at most 65536");
    let refused = answer(0, unexpected_peers + 1).unwrap_err();
    assert_eq!(refused, "addresses of strangers is 9, expected at most 8");
}

#[test]
fn what_an_interface_is_said_to_be_is_bounded() {
    let answer = |facts: InterfaceFacts| {
        let reply = Reply::Interface(Box::new(facts));
        let decoded = decode_reply(&sent(&reply));
        decoded.map(|_| ()).map_err(|error| error.to_string())
    };
    let facts = InterfaceFacts { name: "eth1".to_owned(), ..InterfaceFacts::default() };
    assert_eq!(answer(facts.clone()), Ok(()));
    let address = InterfaceAddress {
        interface: "eth1".to_owned(),
        address: Ipv4Addr::LOCALHOST,
        prefix_length: 8,
    };
    for wrong in [
        InterfaceFacts { name: "a b".to_owned(), ..facts.clone() },
        InterfaceFacts { firmware: "x".repeat(65), ..facts.clone() },
        InterfaceFacts { rate: Some(BitRate(0.0)), ..facts.clone() },
        InterfaceFacts { addresses: vec![address; 5000], ..facts },
    ] {
        assert!(answer(wrong).is_err());
    }
}

#[test]
fn nonsense_is_an_error_and_not_a_panic() {
    for bytes in
        [&b""[..], b"{", b"null", b"{\"hello\":{}}", b"{\"hello\":{\"version\":-1}}", b"\xff"]
    {
        assert!(decode_request(bytes).1.is_err());
        assert!(decode_reply(bytes).is_err());
    }
}

/// A seed that no longer decodes leads the fuzzer nowhere.
#[test]
fn the_fuzzers_seeds_are_what_their_names_say() {
    let mut messages = 0;
    for (name, bytes) in seeds() {
        let (request, reply) = (decode_request(&bytes).1, decode_reply(&bytes));
        let is_refused = ["-too-many", "-no-period"].iter().any(|end| name.ends_with(end));
        if is_refused {
            let out_of_bounds = matches!(request, Err(DecodeError::OutOfBounds { .. }))
                || matches!(reply, Err(DecodeError::OutOfBounds { .. }));
            assert!(out_of_bounds, "{name}: {request:?}, {reply:?}");
        } else {
            assert!(request.is_ok() || reply.is_ok(), "{name}: {request:?}, {reply:?}");
        }
        messages += 1;
    }
    assert!(messages > 20, "{messages}");
}
