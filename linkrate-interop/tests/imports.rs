//! Files that people have, with the faults that their programs are known for: each is imported with a remark, or refused with
//! its cause.

use std::path::Path;

use linkrate_interop::import::read;
use linkrate_model::{Direction, Family, Imported, Protocol};

fn imported(name: &str) -> Result<Vec<Imported>, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/imports").join(name);
    read(name, &std::fs::read(path).expect(name)).map_err(|error| error.to_string())
}

/// The one run of a file, and its remarks in one.
fn one(name: &str) -> (Imported, String) {
    let mut runs = imported(name).expect(name);
    assert_eq!(runs.len(), 1, "{name}");
    let run = runs.remove(0);
    assert!(run.found.bits_per_second() > Some(0.0) || run.is_transactional(), "{name}: {run:?}");
    let remarks = run.remarks.join("\n");
    (run, remarks)
}

#[test]
fn outputs_of_netperf() {
    let (udp, _) = one("udp_throughput_alone.txt");
    assert_eq!(udp.asked.kind, Protocol::UdpStream);
    assert_eq!(udp.found.transmit_bits_per_second, Some(1685.19e6));

    let (old, _) = one("test_to.txt");
    assert_eq!((old.test.as_str(), old.asked.family), ("TCP_STREAM", None));
    assert_eq!(old.found.transmit_bits_per_second, Some(941.4e6));

    let (columns, remarks) = one("columns.txt");
    assert_eq!(columns.found.transactions_per_second, Some(16_597.51));
    assert_eq!(columns.found.latency.expect("latency").p99_ns, Some(87_000));
    assert!(remarks.contains("no THROUGHPUT_UNITS"), "{remarks}");

    let (histogram, remarks) = one("histogram.txt");
    assert_eq!(histogram.found.transactions_per_second, Some(3313.49));
    assert_eq!(histogram.asked.family, Some(Family::Ipv4));
    assert!(remarks.contains("histogram that -v 2 prints"), "{remarks}");

    let failed = imported("failed.txt").expect_err("a failed test");
    let said = "line 1: the test failed: recv_response_timed_n: no response received";
    assert!(failed.starts_with(said), "{failed}");

    let (sum, remarks) = one("super_netperf.txt");
    assert_eq!((sum.asked.connections, sum.found.retransmits), (None, Some(1207)));
    assert!(remarks.contains("may be the sum of several netperf"), "{remarks}");

    let zero = imported("zero_rate.txt").expect_err("a test that moved nothing");
    assert_eq!(zero, "a rate of 0, expected a test that transferred data");

    let (unnamed, remarks) = one("no_protocol.csv");
    assert_eq!((unnamed.asked.kind, unnamed.found.mss_bytes), (Protocol::Stream, Some(1448)));
    assert!(remarks.contains("no PROTOCOL"), "{remarks}");
}

#[test]
fn documents_of_iperf3() {
    let (nan, remarks) = one("nan.json");
    assert_eq!((nan.found.sent_datagrams, nan.found.lost_datagrams), (Some(1726), Some(0)));
    assert!(remarks.contains("\"nan\" or \"inf\" for 4 values"), "{remarks}");

    let (_, remarks) = one("warning_before.json");
    assert!(
        remarks.contains("The file also has the line \"warning: Warning:  UDP block size"),
        "{remarks}"
    );
    let (_, remarks) = one("error_behind.json");
    assert!(
        remarks.contains("The file also has the line \"iperf3: error - unable to send"),
        "{remarks}"
    );
    one("bom.json");

    let (lost, remarks) = one("negative_lost.json");
    assert_eq!(lost.found.lost_datagrams, None);
    assert!(remarks.contains("field \"lost_packets\" is -3, expected a whole number"), "{remarks}");

    for (name, count) in
        [("retransmits_u64.json", "18446744073709551615"), ("retransmits_u32.json", "4294967294")]
    {
        let (run, remarks) = one(name);
        assert_eq!(run.found.retransmits, None, "{name}");
        assert!(
            remarks.contains(&format!("field \"retransmits\" is {count}, a sum of -1")),
            "{remarks}"
        );
    }

    let (client, server) = (one("client.json").0, one("server.json").0);
    assert!(client.cookie.is_some() && client.cookie == server.cookie);
    assert_eq!(
        (client.asked.direction, server.asked.direction),
        (Direction::Transmit, Direction::Receive)
    );
    assert_eq!(client.found.bits_per_second(), server.found.bits_per_second());

    let (stream, _) = one("full_stream.json");
    assert_eq!(stream.found.retransmits, Some(1030));
    let list = imported("list.json").expect("a list of documents");
    assert_eq!((list.len(), list[1].place.as_deref()), (2, Some("document 2")));
    assert_eq!(list[0].cookie, list[1].cookie);
}

#[test]
fn text_of_iperf3() {
    let (text, remarks) = one("iperf3_text.txt");
    assert_eq!((text.asked.direction, text.asked.connections), (Direction::Transmit, Some(1)));
    assert_eq!(text.found.transmit_bits_per_second, Some(17.2e9));
    assert_eq!((text.found.retransmits, text.found.seconds), (Some(72_132), Some(2.0)));
    assert!(remarks.contains("three digits"), "{remarks}");
}
