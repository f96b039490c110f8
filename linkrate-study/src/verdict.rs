//! What bound a cell, from evidence.
//!
//! The checks go from the outside in, and the first that holds is the verdict: link, bus, CPUs of
//! the hosts, CPU of the adapter's device, receiver's window, send buffer. Thresholds are constants
//! with their reason. When none holds, the verdict says so; it never names a culprit for want of a
//! better one.

use std::fmt::{self, Write as _};

use linkrate_terms::measurement::AdapterEvidence;

use crate::analysis::figures::is_transactional;
use crate::analysis::{adapter, limit};
use crate::stats::sample::mean;
use crate::store::StoredRun;

mod brief;

/// Per cent of time in which the links are occupied, in the direction that is loaded, from which
/// they are the bound. A sender that fills its link still loses a little at the ends of the window
/// and whenever TCP recovers from a loss.
pub const LINK_BOUND_PERCENT: f64 = 97.0;

/// The same of an adapter's bus.
pub const BUS_BOUND_PERCENT: f64 = 97.0;

/// Per cent busy from which a CPU is the bound. A thread that never waits still shares its CPU
/// with a few per cent of timers and housekeeping, so 100 is never reached.
pub const CPU_BOUND_PERCENT: f64 = 95.0;

/// Per cent of one client CPU that programs other than linkrate used, from which it is told with a verdict
/// that rests on the clients' CPUs: as much as that CPU had left when it was still no bound, so that it
/// may be one because of them.
pub const CLIENT_OTHERS_PERCENT: f64 = 100.0 - CPU_BOUND_PERCENT;

/// Per cent of one CPU from which a device thread is the bound, for the same reason.
pub const DEVICE_BOUND_PERCENT: f64 = 95.0;

/// Per cent of one CPU from which a device thread is the bound where it shares its CPU with the
/// clients and that CPU is busy all the time: it takes more than all others there together.
pub const DEVICE_SHARE_PERCENT: f64 = 50.0;

/// Per cent of sending time limited by the receiver's window, or by the send buffer, from which
/// that is the bound: half the time means that it limited more than anything else did.
pub const SENDER_LIMITED_PERCENT: f64 = 50.0;

/// The evidence a verdict rests on; means over the good runs of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VerdictInput {
    /// Runs with figures.
    pub good_runs: u32,
    /// Share of time in which the links were occupied in the direction that is loaded, in per
    /// cent; on existing interfaces that of payload in what the links can carry. `None` where the
    /// adapter has no rate of its own, as veth.
    pub link_percent: Option<f64>,
    /// The same of the busiest adapter's bus.
    pub bus_percent: Option<f64>,
    /// The busiest thread of the adapters' devices, in per cent of one CPU.
    pub device_busiest_percent: Option<f64>,
    /// Whether devices and clients may run on the same CPUs.
    pub device_shares_cpus: bool,
    /// Links and buses run at this share of their rates.
    pub scale: f64,
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
    /// CPU time of programs other than linkrate on the clients' CPUs, in per cent of one CPU.
    pub client_others_percent: f64,
}

/// What bound a cell. Percentages as in [`VerdictInput`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// There is nothing to judge.
    NoGoodRun,
    /// The links carry all they can.
    Link {
        /// Of the time.
        percent: f64,
    },
    /// An adapter's bus carries all it can.
    Bus {
        /// Of the time.
        percent: f64,
    },
    /// A thread of the adapters' devices is busy all the time.
    DeviceCpu {
        /// Of one CPU.
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

impl Default for VerdictInput {
    /// No runs, on links at full rate.
    fn default() -> Self {
        Self {
            good_runs: 0,
            link_percent: None,
            bus_percent: None,
            device_busiest_percent: None,
            device_shares_cpus: false,
            scale: 1.0,
            sut_busiest_percent: None,
            client_busiest_percent: None,
            shared_cpus: false,
            transactional: false,
            rwnd_limited_percent: None,
            sndbuf_limited_percent: None,
            client_others_percent: 0.0,
        }
    }
}

impl VerdictInput {
    /// The evidence in the good runs among `runs`; the scale is left at 1.
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
        let counted = |pick: fn(&AdapterEvidence) -> Option<f64>| {
            let values: Vec<f64> =
                good.iter().filter_map(|run| pick(adapter::evidence(run)?)).collect();
            mean(&values)
        };
        let others: Vec<f64> = good
            .iter()
            .map(|run| &run.client_cpu)
            .filter_map(|cpu| {
                // of one CPU: which of them it was is not known
                let window_ns = cpu.cpus.iter().map(|cpu| cpu.window_ns).max()?;
                Some(cpu.others_ns() as f64 * 100.0 / window_ns.max(1) as f64)
            })
            .collect();
        let links: Vec<f64> = good_runs
            .iter()
            .filter_map(|run| {
                let measured = run.measurement()?;
                adapter::loaded_link_percent(&run.spec, measured)
                    .or_else(|| limit::filled_percent(&run.spec, measured))
            })
            .collect();
        Self {
            good_runs: u32::try_from(good.len()).unwrap_or(u32::MAX),
            link_percent: mean(&links),
            bus_percent: counted(adapter::bus_percent),
            device_busiest_percent: counted(AdapterEvidence::busiest_device_percent),
            device_shares_cpus: good.iter().any(|run| adapter::device_shares_cpus(run)),
            scale: 1.0,
            sut_busiest_percent: busiest(|run| &run.sut_cpu),
            client_busiest_percent: busiest(|run| &run.client_cpu),
            shared_cpus: good.iter().any(|run| run.sut_cpu.shared),
            transactional: good_runs.iter().any(|run| is_transactional(&run.spec)),
            rwnd_limited_percent: limited(|senders| senders.rwnd_limited_us),
            sndbuf_limited_percent: send_buffer_percent(
                limited(|senders| senders.sndbuf_limited_us),
                &good,
            ),
            client_others_percent: mean(&others).unwrap_or(0.0),
        }
    }

    /// Other programs' share of a client CPU, if the verdict rests on the clients' CPUs and it is enough
    /// to have made it so.
    pub fn clients_disturbed(&self) -> Option<f64> {
        let rests_on_clients = matches!(
            judge(self),
            Verdict::ClientCpu { .. } | Verdict::BothCpus { .. } | Verdict::SharedCpu { .. }
        );
        let enough = self.client_others_percent >= CLIENT_OTHERS_PERCENT;
        (rests_on_clients && enough).then_some(self.client_others_percent)
    }

    /// The verdict as a sentence, with what a reader needs beside it: how far the links were
    /// filled where something else was the bound, and what shares its CPUs.
    pub fn sentence(&self) -> String {
        let verdict = judge(self);
        let mut text = verdict.to_string();
        let host = matches!(
            verdict,
            Verdict::SutCpu { .. }
                | Verdict::ClientCpu { .. }
                | Verdict::BothCpus { .. }
                | Verdict::SharedCpu { .. }
        );
        let links = self.link_percent.filter(|_| !verdict.is_outside());
        let device = matches!(verdict, Verdict::DeviceCpu { .. });
        let shares = (host && !matches!(verdict, Verdict::SutCpu { .. })) || device;
        let shares = shares && self.device_shares_cpus;
        let beside = [
            links.map(|percent| format!("links {percent:.1} % occupied")),
            shares.then(|| "device and clients share CPUs".to_owned()),
        ];
        let beside: Vec<String> = beside.into_iter().flatten().collect();
        if !beside.is_empty() {
            let limit = if host { "the host is the limit: " } else { "" };
            // writing to a String does not fail
            let _ = write!(text, "; {limit}{}", beside.join(", "));
        }
        if let Some(percent) = self.clients_disturbed() {
            let _ = write!(
                text,
                "; other programs used {percent:.1} % of a CPU there, so that the figure is not \
                 linkrate's own"
            );
        }
        if self.scale < 1.0 && verdict != Verdict::NoGoodRun {
            let _ = write!(text, "; links at {} of their rate", self.scale);
        }
        text
    }
}

/// Share of sending time limited by the send buffer, in per cent: what the kernel counted, or the share of
/// looks that found a full buffer to be the bound, whichever is more. The kernel's counter leaves out
/// senders that wait with all their data sent, and looks are few, but neither finds what is not there.
fn send_buffer_percent(counted: Option<f64>, good: &[&linkrate_terms::Measurement]) -> Option<f64> {
    let shares: Vec<f64> = good
        .iter()
        .map(|run| &run.evidence.senders)
        .filter(|senders| senders.buffer_looks > 0)
        .map(|senders| senders.buffer_full_looks as f64 * 100.0 / senders.buffer_looks as f64)
        .collect();
    [counted, mean(&shares)].into_iter().flatten().reduce(f64::max)
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
    if let Some(percent) = at_least(input.bus_percent, BUS_BOUND_PERCENT) {
        return Verdict::Bus { percent };
    }
    let sut = at_least(input.sut_busiest_percent, CPU_BOUND_PERCENT);
    let client = at_least(input.client_busiest_percent, CPU_BOUND_PERCENT);
    let takes_most = client.is_some() && input.device_shares_cpus;
    let device_bound = if takes_most { DEVICE_SHARE_PERCENT } else { DEVICE_BOUND_PERCENT };
    let device = at_least(input.device_busiest_percent, device_bound);
    let shared_cpus = input.shared_cpus;
    match (sut, client) {
        (Some(percent), _) | (None, Some(percent)) if shared_cpus => {
            return Verdict::SharedCpu { percent: client.map_or(percent, |c| c.max(percent)) };
        }
        (Some(sut), Some(client)) => return Verdict::BothCpus { sut, client },
        (Some(percent), None) => return Verdict::SutCpu { percent },
        // a CPU that a device thread fills, or the most of, is busy because of it
        (None, Some(_)) if device.is_some() => {}
        (None, Some(percent)) => return Verdict::ClientCpu { percent },
        (None, None) => {}
    }
    if let Some(percent) = device {
        return Verdict::DeviceCpu { percent };
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

impl Verdict {
    /// Whether it lies at or beyond the links, so that how far they were filled adds nothing.
    fn is_outside(&self) -> bool {
        matches!(self, Self::NoGoodRun | Self::Link { .. } | Self::Bus { .. })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shared_after = false;
        match self {
            Self::NoGoodRun => f.write_str("nothing to judge: no run succeeded")?,
            Self::Link { percent } => {
                write!(f, "bound by the link ({percent:.1} % occupied)")?;
            }
            Self::Bus { percent } => write!(f, "bound by the bus ({percent:.1} % occupied)")?,
            Self::DeviceCpu { percent } => write!(
                f,
                "bound by the CPU of the adapter's device (busiest thread {percent:.1} % of a CPU)"
            )?,
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
mod tests;
