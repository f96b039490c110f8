//! The document that iperf3's server prints of a test, as far as `linkrate serve` knows the test: its sums. It has one
//! interval, as with `-i 0`, and lists no streams.

use linkrate_interop::serve::{Ending, SessionReport};
use serde_json::{Map, Value, json};

use super::json::{set, set_datagrams, span, system};
use super::record::Datagrams;

/// The document of a session that has ended.
#[must_use]
pub fn document(session: &SessionReport) -> String {
    // the keys of each direction, and whether this end sends
    let ways: &[(&str, bool)] = match session.direction {
        None => &[],
        Some("reverse") => &[("", true)],
        Some("both") => &[("", false), ("_bidir_reverse", true)],
        Some(_) => &[("", false)],
    };
    let is_udp = session.transport == Some("udp");
    let mut interval = json!({"streams": []});
    let mut end = json!({"streams": []});
    for (key, sends) in ways {
        let [sent, received] = [true, false].map(|of_sender| sum(session, *sends, of_sender));
        let mut own = if *sends { sent.clone() } else { received.clone() };
        if is_udp {
            end[format!("sum{key}")] = Value::Object(own.clone());
        }
        set(&mut own, "omitted", false);
        interval[format!("sum{key}")] = Value::Object(own);
        end[format!("sum_sent{key}")] = Value::Object(sent);
        end[format!("sum_received{key}")] = Value::Object(received);
    }
    end["cpu_utilization_percent"] = json!({"host_total": session.cpu_percent});
    let client = session
        .client
        .map(|client| json!({"host": client.ip().to_string(), "port": client.port()}));
    let mut all = json!({
        "start": {
            "connected": [],
            "version": super::version(),
            "system_info": system(),
            "accepted_connection": client,
            "test_start": {
                "protocol": if is_udp { "UDP" } else { "TCP" },
                "num_streams": session.streams,
                "reverse": u8::from(session.direction == Some("reverse")),
                "bidir": u8::from(session.direction == Some("both")),
            },
        },
        "intervals": if session.seconds > 0.0 { json!([interval]) } else { json!([]) },
        "end": end,
    });
    let error = match &session.ending {
        Ending::Complete => None,
        Ending::Refused(reason) | Ending::Failed(reason) => Some(reason.as_str()),
        Ending::ClientLeft => Some("the client has terminated"),
        Ending::Stopped => Some("interrupt - the server has terminated"),
    };
    if let Some(error) = error {
        all["error"] = json!(error);
    }
    format!("{all:#}\n")
}

/// A direction as its sender knows it, or its receiver. What the client has lost is not known here.
fn sum(session: &SessionReport, sends: bool, of_sender: bool) -> Map<String, Value> {
    let bytes = match (sends, of_sender) {
        (true, true) => session.sent_bytes,
        (false, false) => session.received_bytes,
        (false, true) => session.client_bytes[0],
        (true, false) => session.client_bytes[1],
    };
    let mut fields = span(0.0, session.seconds, bytes);
    set(&mut fields, "sender", sends);
    match (&session.datagrams, session.retransmits) {
        (Some(all), _) if sends => set(&mut fields, "packets", all.sent_packets),
        (Some(all), _) => {
            let received = Datagrams {
                packets: all.expected_packets,
                lost: all.lost_packets.try_into().unwrap_or(i64::MAX),
                out_of_order: all.out_of_order_packets,
                jitter_seconds: all.jitter_seconds.unwrap_or(0.0),
            };
            set_datagrams(&mut fields, &received);
        }
        (None, Some(retransmits)) if sends && of_sender => {
            set(&mut fields, "retransmits", retransmits);
        }
        (None, _) => {}
    }
    fields
}

#[cfg(test)]
mod tests {
    use linkrate_interop::serve::DatagramReport;

    use super::*;

    fn read(session: &SessionReport) -> Value {
        serde_json::from_str(&document(session)).unwrap()
    }

    #[test]
    fn sums_have_the_octets_of_their_ends() {
        let session = SessionReport {
            direction: Some("both"),
            transport: Some("tcp"),
            seconds: 2.0,
            received_bytes: 1000,
            sent_bytes: 500,
            client_bytes: [1200, 400],
            retransmits: Some(3),
            ending: Ending::Complete,
            ..SessionReport::of("iperf3", "192.0.2.1:7".parse().ok())
        };
        let all = read(&session);
        for (sum, bytes) in [
            ("sum_sent", 1200),
            ("sum_received", 1000),
            ("sum_sent_bidir_reverse", 500),
            ("sum_received_bidir_reverse", 400),
        ] {
            assert_eq!(all["end"][sum]["bytes"], bytes, "{sum}");
        }
        assert_eq!(all["end"]["sum_sent_bidir_reverse"]["retransmits"], 3);
        assert_eq!(all["end"]["sum_received"]["bits_per_second"], 4000.0);
        assert_eq!(all["intervals"][0]["sum"]["bytes"], 1000);
        assert!(all.get("error").is_none(), "{all:#}");
        let datagrams =
            DatagramReport { expected_packets: 200, lost_packets: 2, ..Default::default() };
        let lossy = SessionReport {
            direction: Some("forward"),
            transport: Some("udp"),
            datagrams: Some(datagrams),
            ..session
        };
        let all = read(&lossy);
        assert_eq!(all["end"]["sum"]["lost_percent"], 1.0, "{all:#}");
        assert_eq!(all["intervals"][0]["sum"]["packets"], 200);
    }

    #[test]
    fn a_client_that_asks_for_nothing_leaves_an_error() {
        let all = read(&SessionReport::of("iperf3", None));
        assert_eq!(all["error"], "the client has terminated");
        assert_eq!((&all["intervals"], &all["end"]["streams"]), (&json!([]), &json!([])));
    }
}
