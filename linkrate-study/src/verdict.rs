//! What bound a cell, from evidence.
//!
//! The checks go from the outside in, and the first that holds is the verdict: link, CPUs,
//! receiver's window, send buffer. Thresholds are constants with their reason. When none holds,
//! the verdict says so; it never names a culprit for want of a better one.

use std::fmt;

use crate::analysis::figures::is_transactional;
use crate::stats::sample::mean;
use crate::store::StoredRun;

/// Per cent of what the link can carry from which the link is the bound. Measured at the receiver
/// over a window whose ends cut into bursts, a saturated link reads a little below its limit.
pub const LINK_BOUND_PERCENT: f64 = 98.0;

/// Per cent busy from which a CPU is the bound. A thread that never waits still shares its CPU
/// with a few per cent of timers and housekeeping, so 100 is never reached.
pub const CPU_BOUND_PERCENT: f64 = 95.0;

/// Per cent of sending time limited by the receiver's window, or by the send buffer, from which
/// that is the bound: half the time means that it limited more than anything else did.
pub const SENDER_LIMITED_PERCENT: f64 = 50.0;

/// The evidence a verdict rests on; means over the good runs of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct VerdictInput {
    /// Runs with figures.
    pub good_runs: u32,
    /// Throughput in per cent of what the link can carry; `None` where the adapter has no rate
    /// of its own, as veth.
    pub link_percent: Option<f64>,
    /// The busiest CPU of the SUT, in per cent of one CPU.
    pub sut_busiest_percent: Option<f64>,
    /// The busiest CPU of the clients, in per cent of one CPU.
    pub client_busiest_percent: Option<f64>,
    /// Whether the SUT and the clients run on the same CPUs.
    pub shared_cpus: bool,
    /// Whether the workload is made of transactions.
    pub transactional: bool,
    /// Share of sending time limited by the receiver's window, in per cent.
    pub rwnd_limited_percent: Option<f64>,
    /// Share of sending time limited by the send buffer, in per cent.
    pub sndbuf_limited_percent: Option<f64>,
}

/// What bound a cell. Percentages as in [`VerdictInput`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// There is nothing to judge.
    NoGoodRun,
    /// The link carries all it can.
    Link {
        /// Of what it can carry.
        percent: f64,
    },
    /// A CPU of the SUT is busy all the time.
    SutCpu {
        /// Busiest CPU.
        percent: f64,
    },
    /// A CPU of the clients is busy all the time: the SUT may be able to do more.
    ClientCpu {
        /// Busiest CPU.
        percent: f64,
    },
    /// CPUs of both ends are busy all the time.
    BothCpus {
        /// Busiest CPU of the SUT.
        sut: f64,
        /// Busiest CPU of the clients.
        client: f64,
    },
    /// A CPU that the SUT and the clients share is busy all the time.
    SharedCpu {
        /// Busiest CPU.
        percent: f64,
    },
    /// Senders wait for the receiver's window.
    ReceiverWindow {
        /// Of sending time.
        percent: f64,
        /// Whether the SUT and the clients share CPUs.
        shared_cpus: bool,
    },
    /// Senders wait for room in their send buffer.
    SendBuffer {
        /// Of sending time.
        percent: f64,
        /// Whether the SUT and the clients share CPUs.
        shared_cpus: bool,
    },
    /// None of these, and every request waits for its response.
    RoundTrip {
        /// Busiest CPU of the SUT.
        sut: Option<f64>,
        /// Whether the SUT and the clients share CPUs.
        shared_cpus: bool,
    },
    /// None of these: each end waits for the other a part of the time, and no part is the larger.
    NoSingleResource {
        /// Busiest CPU of the SUT.
        sut: Option<f64>,
        /// Busiest CPU of the clients.
        client: Option<f64>,
        /// Of sending time, limited by the receiver's window.
        rwnd: Option<f64>,
        /// Whether the SUT and the clients share CPUs.
        shared_cpus: bool,
    },
}

impl VerdictInput {
    /// The evidence in the good runs among `runs`. `link_percent` is left `None`.
    pub fn of_runs<'a>(runs: impl IntoIterator<Item = &'a StoredRun>) -> Self {
        let good_runs: Vec<_> =
            runs.into_iter().filter(|run| run.measurement().is_some()).collect();
        let good: Vec<_> = good_runs.iter().filter_map(|run| run.measurement()).collect();
        let busiest =
            |pick: fn(&linkrate_terms::Measurement) -> &linkrate_terms::measurement::CpuUse| {
                let values: Vec<f64> = good
                    .iter()
                    .map(|run| pick(run))
                    .filter(|cpu| cpu.cpus.iter().any(|cpu| cpu.window_ns > 0))
                    .map(|cpu| cpu.busiest_percent())
                    .collect();
                mean(&values)
            };
        let limited = |pick: fn(&linkrate_terms::measurement::SenderTimes) -> u64| {
            let values: Vec<f64> = good
                .iter()
                .map(|run| &run.evidence.senders)
                .filter(|senders| senders.busy_us > 0)
                .map(|senders| pick(senders) as f64 * 100.0 / senders.busy_us as f64)
                .collect();
            mean(&values)
        };
        Self {
            good_runs: u32::try_from(good.len()).unwrap_or(u32::MAX),
            link_percent: None,
            sut_busiest_percent: busiest(|run| &run.sut_cpu),
            client_busiest_percent: busiest(|run| &run.client_cpu),
            shared_cpus: good.iter().any(|run| run.sut_cpu.shared),
            transactional: good_runs.iter().any(|run| is_transactional(&run.spec)),
            rwnd_limited_percent: limited(|senders| senders.rwnd_limited_us),
            sndbuf_limited_percent: limited(|senders| senders.sndbuf_limited_us),
        }
    }
}

/// Judges a cell.
pub fn judge(input: &VerdictInput) -> Verdict {
    if input.good_runs == 0 {
        return Verdict::NoGoodRun;
    }
    let at_least = |value: Option<f64>, threshold| value.filter(|value| *value >= threshold);
    if let Some(percent) = at_least(input.link_percent, LINK_BOUND_PERCENT) {
        return Verdict::Link { percent };
    }
    let sut = at_least(input.sut_busiest_percent, CPU_BOUND_PERCENT);
    let client = at_least(input.client_busiest_percent, CPU_BOUND_PERCENT);
    let shared_cpus = input.shared_cpus;
    match (sut, client) {
        (Some(percent), _) | (None, Some(percent)) if shared_cpus => {
            return Verdict::SharedCpu { percent: client.map_or(percent, |c| c.max(percent)) };
        }
        (Some(sut), Some(client)) => return Verdict::BothCpus { sut, client },
        (Some(percent), None) => return Verdict::SutCpu { percent },
        (None, Some(percent)) => return Verdict::ClientCpu { percent },
        (None, None) => {}
    }
    if let Some(percent) = at_least(input.rwnd_limited_percent, SENDER_LIMITED_PERCENT) {
        return Verdict::ReceiverWindow { percent, shared_cpus };
    }
    if let Some(percent) = at_least(input.sndbuf_limited_percent, SENDER_LIMITED_PERCENT) {
        return Verdict::SendBuffer { percent, shared_cpus };
    }
    let sut = input.sut_busiest_percent;
    if input.transactional {
        return Verdict::RoundTrip { sut, shared_cpus };
    }
    Verdict::NoSingleResource {
        sut,
        client: input.client_busiest_percent,
        rwnd: input.rwnd_limited_percent,
        shared_cpus,
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shared_after = false;
        match self {
            Self::NoGoodRun => f.write_str("nothing to judge: no run succeeded")?,
            Self::Link { percent } => {
                write!(f, "bound by the link ({percent:.1} % of what it can carry)")?;
            }
            Self::SutCpu { percent } => write!(f, "bound by the SUT's CPU ({percent:.1} % busy)")?,
            Self::ClientCpu { percent } => write!(
                f,
                "bound by the clients' CPU ({percent:.1} % busy): the SUT may do more with \
                 stronger clients"
            )?,
            Self::BothCpus { sut, client } => write!(
                f,
                "bound by the CPUs of both ends (SUT {sut:.1} % busy, clients {client:.1} %)"
            )?,
            Self::SharedCpu { percent } => {
                write!(f, "bound by CPU that the SUT and the clients share ({percent:.1} % busy)")?
            }
            Self::ReceiverWindow { percent, shared_cpus } => {
                write!(f, "bound by the receiver's window ({percent:.1} % of sending time)")?;
                shared_after = *shared_cpus;
            }
            Self::SendBuffer { percent, shared_cpus } => {
                write!(f, "bound by the send buffer ({percent:.1} % of sending time)")?;
                shared_after = *shared_cpus;
            }
            Self::RoundTrip { sut, shared_cpus } => {
                f.write_str("bound by the round trip: every request waits for its response")?;
                if let Some(percent) = sut {
                    write!(f, " (SUT CPU {percent:.1} % busy)")?;
                }
                shared_after = *shared_cpus;
            }
            Self::NoSingleResource { sut, client, rwnd, shared_cpus } => {
                f.write_str("bound by no single resource: the ends wait for each other")?;
                let parts = [
                    sut.map(|percent| format!("SUT CPU {percent:.1} % busy")),
                    client.map(|percent| format!("clients {percent:.1} %")),
                    rwnd.map(|percent| format!("window-limited {percent:.1} % of sending time")),
                ];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                if !parts.is_empty() {
                    write!(f, " ({})", parts.join(", "))?;
                }
                shared_after = *shared_cpus;
            }
        }
        if shared_after { f.write_str("; the SUT and the clients share CPUs") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// A cell that nothing bounds.
    const CALM: VerdictInput = VerdictInput {
        good_runs: 5,
        link_percent: None,
        sut_busiest_percent: Some(12.04),
        client_busiest_percent: Some(10.0),
        shared_cpus: false,
        transactional: false,
        rwnd_limited_percent: Some(3.0),
        sndbuf_limited_percent: Some(1.0),
    };

    fn said(input: VerdictInput) -> String {
        judge(&input).to_string()
    }

    #[test]
    fn no_good_run() {
        let busy = VerdictInput { good_runs: 0, sut_busiest_percent: Some(99.0), ..CALM };
        assert_eq!(said(busy), "nothing to judge: no run succeeded");
    }

    #[test]
    fn the_link_comes_before_the_cpu() {
        let input =
            VerdictInput { link_percent: Some(99.3), sut_busiest_percent: Some(99.0), ..CALM };
        assert_eq!(said(input), "bound by the link (99.3 % of what it can carry)");
        let input = VerdictInput { link_percent: Some(97.9), ..input };
        assert_eq!(said(input), "bound by the SUT's CPU (99.0 % busy)");
    }

    #[test]
    fn sut_cpu_from_the_threshold_on() {
        let at = |percent| VerdictInput { sut_busiest_percent: Some(percent), ..CALM };
        assert_eq!(said(at(99.21)), "bound by the SUT's CPU (99.2 % busy)");
        assert_eq!(judge(&at(95.0)), Verdict::SutCpu { percent: 95.0 });
        assert!(matches!(judge(&at(94.9)), Verdict::NoSingleResource { .. }));
    }

    #[test]
    fn client_cpu() {
        let input = VerdictInput { client_busiest_percent: Some(98.0), ..CALM };
        assert_eq!(
            said(input),
            "bound by the clients' CPU (98.0 % busy): the SUT may do more with stronger clients"
        );
    }

    #[test]
    fn both_cpus() {
        let input = VerdictInput {
            sut_busiest_percent: Some(99.2),
            client_busiest_percent: Some(98.1),
            ..CALM
        };
        assert_eq!(said(input), "bound by the CPUs of both ends (SUT 99.2 % busy, clients 98.1 %)");
    }

    #[test]
    fn shared_cpus_name_neither_end() {
        for (sut, client) in [(99.0, 99.0), (99.0, 20.0), (20.0, 99.0)] {
            let input = VerdictInput {
                sut_busiest_percent: Some(sut),
                client_busiest_percent: Some(client),
                shared_cpus: true,
                ..CALM
            };
            assert_eq!(
                said(input),
                "bound by CPU that the SUT and the clients share (99.0 % busy)"
            );
        }
    }

    #[test]
    fn receiver_window() {
        let input = VerdictInput { rwnd_limited_percent: Some(72.0), ..CALM };
        assert_eq!(said(input), "bound by the receiver's window (72.0 % of sending time)");
        let input = VerdictInput { sndbuf_limited_percent: Some(80.0), ..input };
        assert!(matches!(judge(&input), Verdict::ReceiverWindow { .. }));
    }

    #[test]
    fn send_buffer() {
        let input = VerdictInput { sndbuf_limited_percent: Some(50.0), shared_cpus: true, ..CALM };
        assert_eq!(
            said(input),
            "bound by the send buffer (50.0 % of sending time); the SUT and the clients share CPUs"
        );
    }

    #[test]
    fn round_trip() {
        let input = VerdictInput { transactional: true, ..CALM };
        assert_eq!(
            said(input),
            "bound by the round trip: every request waits for its response (SUT CPU 12.0 % busy)"
        );
    }

    #[test]
    fn no_single_resource() {
        assert_eq!(
            said(CALM),
            "bound by no single resource: the ends wait for each other (SUT CPU 12.0 % busy, \
             clients 10.0 %, window-limited 3.0 % of sending time)"
        );
        let blind = VerdictInput { good_runs: 1, ..VerdictInput::default() };
        assert_eq!(said(blind), "bound by no single resource: the ends wait for each other");
    }

    #[test]
    fn evidence_is_taken_from_good_runs_only() {
        let mut measurement = fixture::stream(1e9, 0.5);
        measurement.evidence.senders.rwnd_limited_us = 1_900_000;
        let runs = [
            fixture::run(0, 0, Some(0), measurement),
            fixture::run(1, 1, Some(0), fixture::failed("x")),
            fixture::run(2, 2, Some(0), fixture::stream(1e9, 0.7)),
        ];
        let input = VerdictInput::of_runs(&runs);
        assert_eq!(input.good_runs, 2);
        assert!((input.sut_busiest_percent.unwrap() - 60.0).abs() < 1e-9);
        assert!((input.rwnd_limited_percent.unwrap() - 50.0).abs() < 1e-9);
        assert_eq!(VerdictInput::of_runs(&runs[1..2]), VerdictInput::default());
    }
}
