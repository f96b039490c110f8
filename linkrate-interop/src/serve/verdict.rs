//! What bounded a session, as far as its server can know.

use super::report::{Ending, SessionReport, Verdict};

/// A link that carries this share of its limit is the bound.
const FULL_LINK: f64 = 0.97;
/// A test that reaches this share of the rate that its client asked for is bound by it.
const FULL_RATE: f64 = 0.98;
/// A thread with this share of a CPU is the bound.
const FULL_THREAD: f64 = 0.95;
/// A window or a buffer that limits for this share of the time with something to send is the bound.
const LIMITED: f64 = 0.5;
/// A sender that sends this share of its payload again is bound by loss.
const LOST: f64 = 0.001;

/// What a verdict rests on beside the report.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Evidence {
    /// Payload each way that the client asked for, bit/s; 0 without a bound.
    pub(super) asked: f64,
    /// CPU time of the busiest thread, per cent of one CPU.
    pub(super) busiest_percent: f64,
}

/// The verdict of a session that is complete; `None` of others, and where nothing was measured.
pub(super) fn verdict(report: &SessionReport, evidence: Evidence) -> Option<Verdict> {
    if report.ending != Ending::Complete || report.seconds <= 0.0 {
        return None;
    }
    let rate = |bytes: u64| bytes as f64 * 8.0 / report.seconds;
    let busier = rate(report.received_bytes).max(rate(report.sent_bytes));
    let share = |of: f64| (of > 0.0).then(|| busier / of);
    let limit = report.interface.as_ref().and_then(|interface| interface.limit_bits_per_second);
    let limited = |us: u64, busy_us: u64| (busy_us > 0).then(|| us as f64 / busy_us as f64);
    // the windows of connections that only receive are those of their acknowledgements
    let sender = report.tcp.as_ref().filter(|_| report.sent_bytes > 0 && !report.transacts());
    let candidates = [
        (limit.and_then(share), FULL_LINK, (|percent| Verdict::Link { percent }) as fn(f64) -> _),
        (share(evidence.asked), FULL_RATE, |percent| Verdict::RateAskedFor { percent }),
        (Some(evidence.busiest_percent / 100.0), FULL_THREAD, |percent| Verdict::ServerCpu {
            percent,
        }),
        (sender.and_then(|tcp| limited(tcp.rwnd_limited_us, tcp.busy_us)), LIMITED, |percent| {
            Verdict::ReceiverWindow { percent }
        }),
        (sender.and_then(|tcp| limited(tcp.sndbuf_limited_us, tcp.busy_us)), LIMITED, |percent| {
            Verdict::SendBuffer { percent }
        }),
        (sender.map(|tcp| tcp.resent_bytes as f64 / report.sent_bytes as f64), LOST, |percent| {
            Verdict::Loss { percent }
        }),
    ];
    let found = candidates.into_iter().find_map(|(share, least, verdict)| {
        share.filter(|share| *share >= least).map(|share| verdict(share * 100.0))
    });
    Some(found.unwrap_or(Verdict::NotSeenHere))
}

#[cfg(test)]
mod tests {
    use super::super::interface::InterfaceReport;
    use super::super::report::TcpReport;
    use super::*;

    fn sent(bytes: u64) -> SessionReport {
        SessionReport {
            seconds: 1.0,
            sent_bytes: bytes,
            ending: Ending::Complete,
            tcp: Some(TcpReport { busy_us: 1000, ..TcpReport::default() }),
            interface: Some(InterfaceReport {
                limit_bits_per_second: Some(941e6),
                ..InterfaceReport::gigabit()
            }),
            ..SessionReport::of("iperf3", None)
        }
    }

    #[test]
    fn each_bound_is_found_by_its_evidence() {
        let none = Evidence::default();
        let slow = 50_000_000;
        let tcp = |change: fn(&mut TcpReport)| {
            let mut report = sent(slow);
            change(report.tcp.as_mut().unwrap());
            report
        };
        let full = sent(117_000_000);
        let busy = Evidence { busiest_percent: 99.0, ..none };
        for (report, evidence, expected) in [
            (&full, busy, "link"),
            (&sent(slow), Evidence { asked: 400e6, ..none }, "rate-asked-for"),
            (&sent(slow), busy, "server-cpu"),
            (&tcp(|tcp| tcp.rwnd_limited_us = 600), none, "receiver-window"),
            (&tcp(|tcp| tcp.sndbuf_limited_us = 600), none, "send-buffer"),
            (&tcp(|tcp| tcp.resent_bytes = 100_000), none, "loss"),
            (&sent(slow), none, "not-seen-here"),
        ] {
            let verdict = serde_json::to_value(verdict(report, evidence)).unwrap();
            assert_eq!(verdict["limited_by"], expected, "{report:?}");
        }
        // windows of a connection that receives say nothing of it
        let mut receives = tcp(|tcp| tcp.rwnd_limited_us = 600);
        (receives.sent_bytes, receives.received_bytes) = (0, slow);
        assert_eq!(verdict(&receives, none), Some(Verdict::NotSeenHere));
        let left = SessionReport { ending: Ending::ClientLeft, ..full };
        assert_eq!(verdict(&left, busy), None);
    }
}
