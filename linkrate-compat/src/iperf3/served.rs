//! The document that iperf3's server prints of a test.

use linkrate_interop::serve::{Ending, SessionReport};

use super::json::{Document, Whole};

/// The document of a session that has ended.
#[must_use]
pub fn document(session: &SessionReport) -> String {
    text(session, |all| serde_json::to_string_pretty(all)) + "\n"
}

/// The same for its client, on one line.
#[must_use]
pub fn output(session: &SessionReport) -> String {
    text(session, |all| serde_json::to_string(all))
}

fn text(
    session: &SessionReport,
    text: impl Fn(&Whole<'_>) -> serde_json::Result<String>,
) -> String {
    let mut document = Document::new(None);
    if let Some(measured) = &session.measured {
        document.begin(&measured.start);
        document.finish(&measured.end);
    }
    let intervals = session.measured.as_deref().map(|measured| &measured.intervals[..]);
    let error = match &session.ending {
        Ending::Complete => None,
        Ending::Refused(reason) | Ending::Failed(reason) => Some(reason.as_str()),
        Ending::ClientLeft => Some("the client has terminated"),
        Ending::Stopped => Some("interrupt - the server has terminated"),
    };
    // it has no map whose keys are no text, and nothing else fails
    text(&document.with(intervals.unwrap_or_default(), error)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use linkrate_interop::iperf3::{Directions, Parameters, Role, Transport};
    use linkrate_interop::measured::{
        Connection, Datagrams, End, Interval, Measured, Path, Spread, Start, StreamEnd,
        StreamInterval,
    };
    use serde_json::{Value, json};

    use super::*;

    /// A session of one second with a stream each way.
    fn session(transport: Transport) -> SessionReport {
        let is_udp = transport == Transport::Udp;
        let address = |port| format!("192.0.2.1:{port}").parse().unwrap();
        let parameters = Parameters {
            transport,
            ways: Directions::Both,
            title: Some("a title".to_owned()),
            ..Parameters::default()
        };
        let connection = |socket| Connection { socket, local: address(5201), remote: address(7) };
        let start = Start {
            role: Role::Server,
            host: "192.0.2.1".to_owned(),
            port: 7,
            parameters,
            cookie: "abc".to_owned(),
            mss: Some(1448),
            buffers: (16_384, 131_072),
            streams: [5, 7].map(connection).into(),
            unix_milliseconds: 0,
            interval_seconds: 1.0,
        };
        let seen = Datagrams { packets: 200, lost: 2, ..Datagrams::default() };
        let interval = |socket, sends, bytes| StreamInterval {
            socket,
            sends,
            bytes,
            datagrams: is_udp.then_some(seen),
            path: (sends && !is_udp).then(|| Path { retransmits: 3, ..Path::default() }),
        };
        let end = |socket, sends, sent_bytes, received_bytes| StreamEnd {
            socket,
            sends,
            sent_bytes,
            received_bytes,
            sent_seconds: 2.0,
            received_seconds: 2.0,
            retransmits: (sends && !is_udp).then_some(3),
            spread: Spread::default(),
            received: is_udp.then_some(seen),
            sent_packets: 200,
        };
        let end = End {
            streams: vec![end(5, false, 1200, 1000), end(7, true, 500, 400)],
            own_cpu_percent: [3.0, 1.0, 2.0],
            own_congestion: Some("cubic".to_owned()),
            ..End::default()
        };
        let streams = [interval(5, false, 1000), interval(7, true, 500)].into();
        let intervals = vec![Interval { start: 0.0, end: 2.0, is_omitted: false, streams }];
        SessionReport {
            measured: Some(Box::new(Measured { start, intervals, end })),
            ending: Ending::Complete,
            ..SessionReport::of("iperf3", "192.0.2.1:7".parse().ok())
        }
    }

    fn read(session: &SessionReport) -> Value {
        let all: Value = serde_json::from_str(&document(session)).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&output(session)).unwrap(), all);
        assert!(!output(session).contains('\n'));
        all
    }

    #[test]
    fn a_server_receives_on_the_way_forward() {
        let all = read(&session(Transport::Tcp));
        assert_eq!(all["start"]["accepted_connection"], json!({"host": "192.0.2.1", "port": 7}));
        assert!(all["start"].get("connecting_to").is_none() && all["title"] == "a title");
        for (sum, sends, bytes) in [
            ("sum_sent", false, 1200),
            ("sum_received", false, 1000),
            ("sum_sent_bidir_reverse", true, 500),
            ("sum_received_bidir_reverse", true, 400),
        ] {
            let sum = &all["end"][sum];
            assert_eq!((&sum["bytes"], &sum["sender"]), (&json!(bytes), &json!(sends)));
        }
        let [received, sent] = [0, 1].map(|index| &all["end"]["streams"][index]["sender"]);
        assert!(received.get("retransmits").is_none() && received.get("max_rtt").is_none());
        assert_eq!((&sent["retransmits"], &sent["max_rtt"]), (&json!(3), &json!(0)));
        assert_eq!(all["end"]["sum_received"]["bits_per_second"], 4000.0);
        let interval = &all["intervals"][0];
        assert_eq!(
            (&interval["sum"]["bytes"], &interval["streams"][1]["bytes"]),
            (&json!(1000), &json!(500))
        );
        assert_eq!(interval["sum_bidir_reverse"]["retransmits"], 3);
        assert_eq!(all["end"]["sender_tcp_congestion"], "cubic");
        assert!(all.get("error").is_none(), "{all:#}");
    }

    #[test]
    fn datagrams_have_the_loss_of_their_receiver() {
        let all = read(&session(Transport::Udp));
        assert_eq!(all["end"]["sum"]["lost_percent"], 1.0, "{all:#}");
        assert_eq!(all["end"]["streams"][0]["udp"]["packets"], 200);
        assert_eq!(all["intervals"][0]["sum"]["packets"], 200);
    }

    #[test]
    fn a_client_that_asks_for_nothing_leaves_an_error() {
        let all = read(&SessionReport::of("iperf3", None));
        assert_eq!(all["error"], "the client has terminated");
        assert_eq!((&all["intervals"], &all["end"]), (&json!([]), &json!({})));
    }
}
