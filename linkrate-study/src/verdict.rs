//! What bound a cell: each loaded direction is judged by itself, from evidence.
//!
//! The checks go from the outside in, and the first that holds is the bound: a full link, store, bus, queue
//! discipline, CPUs of the hosts, CPU of the adapter's device, receiver's window, send buffer, a link that is nearly
//! full, the receiver's window over a path that delays, the congestion window, round
//! trip. Each threshold is a constant with its reason. If no check holds, the verdict says so: it names no resource
//! without evidence. Behind a verdict stands how many runs by themselves say the same.
//!
//! Everything here is a pure function of [`Shares`]; `analysis::shares` takes them from runs. The
//! sentences are in [`phrases`].

use linkrate_model::BitRate;
use schemars::JsonSchema;
use serde::Serialize;

use crate::results::figures::RoundTripParts;

mod document;
pub mod phrases;

/// Per cent of time in which the links are occupied in one direction, from which they are full and bound it, whatever
/// else is. The ends of a measurement take less: a device fetches packets for half a millisecond of its link ahead.
pub const LINK_FULL_PERCENT: f64 = 99.5;

/// Per cent of time from which links bound a direction that nothing nearer bounds. The verdict says what took the rest.
pub const LINK_BOUND_PERCENT: f64 = 97.0;

/// Retransmitted share of payload, %, above which the verdict mentions it for a link that is not
/// full.
pub const RESENT_PERCENT: f64 = 0.1;

/// Per cent of the time in which senders had nothing to send, from which it is told of links that are not
/// full: as much as may be missing.
pub const NOTHING_TO_SEND_PERCENT: f64 = 100.0 - LINK_FULL_PERCENT;

/// Per cent of sending time limited by a window or a buffer, from which it is told of links that are not
/// full.
pub const SENDER_HELD_PERCENT: f64 = 5.0;

/// Per cent of time for which links may be idle while superframes are fetched into the store of their
/// adapter, before that is told: less than links that are [full](LINK_FULL_PERCENT) may miss.
pub const STORE_PERCENT: f64 = 100.0 - LINK_FULL_PERCENT;

/// The same of an adapter's bus.
pub const BUS_BOUND_PERCENT: f64 = 97.0;

/// Per cent of the rate of a backup's tape drives from which they bound it: the same as of a link.
pub const DRIVES_BOUND_PERCENT: f64 = LINK_BOUND_PERCENT;

/// Per cent of the rate of a queue discipline from which it is the bound: the same as of a link.
pub const DISCIPLINE_BOUND_PERCENT: f64 = LINK_BOUND_PERCENT;

/// Per cent of time in which a port of an aggregate is occupied, below which it has no flows, but their acknowledgements.
pub const PORT_IDLE_PERCENT: f64 = 10.0;

/// Per cent of time in which the links were occupied, up to which packets that wait in a queue
/// discipline wait because of the discipline: with a link that is nearly full they wait for the link.
pub const LINK_FREE_PERCENT: f64 = 90.0;

/// Per cent busy from which a CPU is the bound, or a thread that moves over several CPUs. A thread
/// that never waits still shares its CPU with a few per cent of timers and housekeeping, so 100 is
/// never reached.
pub const CPU_BOUND_PERCENT: f64 = 95.0;

/// Per cent of one client CPU that programs other than linkrate used, from which a verdict that
/// rests on the clients' CPUs mentions them: the CPU had as much left when it was no bound yet, so
/// these programs may have made it one.
pub const CLIENT_OTHERS_PERCENT: f64 = 100.0 - CPU_BOUND_PERCENT;

/// Per cent of one CPU from which the device threads on it are the bound, for the same reason.
pub const DEVICE_BOUND_PERCENT: f64 = 95.0;

/// Per cent of one CPU from which device threads are the bound where they share that CPU with the
/// clients and it is busy all the time: they take more than all other threads there together.
pub const DEVICE_SHARE_PERCENT: f64 = 50.0;

/// Per cent of sending time limited by the receiver's window, or by the send buffer, from which
/// that is the bound: half the time means that it limited more than anything else did.
pub const SENDER_LIMITED_PERCENT: f64 = 50.0;

/// Per cent of the requests of an open loop that must be answered in the measurement, from which their rate is the bound:
/// as many as were due, less those at the edges of the measurement.
pub const REQUEST_RATE_PERCENT: f64 = 99.0;

/// Per cent of the latency of transactions that its parts may leave unexplained, or exceed, where the round
/// trip is the bound. Host times are CPU times, and a round trip has some microseconds in which threads wake
/// up and CPUs leave their idle states, which no part has.
pub const UNEXPLAINED_PERCENT: f64 = 25.0;

/// One direction of the payload, seen from the system under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowDirection {
    /// The system under test sends.
    Transmit,
    /// The system under test receives.
    Receive,
}

/// The busiest CPU of one end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuShare {
    /// Per cent of one CPU.
    pub percent: f64,
    /// Whether this is the share of one thread that moved over several CPUs, none of which was as
    /// busy.
    pub of_thread: bool,
}

/// What senders knew of their path: means over their sockets at both edges of the measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathShares {
    /// Smoothed round trip, µs.
    pub rtt_us: f64,
    /// Shortest round trip, µs.
    pub min_rtt_us: f64,
    /// Congestion window, segments.
    pub cwnd_segments: f64,
}

/// How far the links of an aggregate's ports were occupied in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PortShares {
    /// Per cent of time of the fullest link.
    pub fullest_percent: f64,
    /// The number of its port, if it was the same in all runs.
    pub port: Option<u32>,
    /// Per cent of time of the others, from the least to the most.
    pub others_percent: (f64, f64),
}

/// A queue discipline of the SUT that held packets back in each run of a cell; means over the runs.
#[derive(Debug, Clone, PartialEq)]
pub struct DisciplineShare {
    /// Its interface.
    pub interface: String,
    /// The other interfaces of the same end where one of this kind held packets back in each run.
    pub beside: Vec<String>,
    /// The interfaces of the same end where none did.
    pub free: Vec<String>,
    /// Its kind by the kernel's name.
    pub kind: String,
    /// The rate that it holds packets back to; `None` if its kind does not report one.
    pub rate: Option<BitRate>,
    /// What left it, in per cent of that rate.
    pub rate_percent: Option<f64>,
    /// Whether packets waited in it when the measurements opened and when they closed.
    pub waited: bool,
    /// How often it held packets back in a measurement.
    pub overlimits: f64,
    /// Packets that it dropped in a measurement.
    pub drops: f64,
}

/// The evidence for one loaded direction; means over the good runs of a cell.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DirectionShares {
    /// The direction; `None` for transactions, which load both directions in turn.
    pub direction: Option<FlowDirection>,
    /// Per cent of time in which the links were occupied in this direction, as the mean over the
    /// ports; on existing interfaces the share of payload in what the links can carry. Of
    /// transactions the busier direction. `None` where the adapter has no rate of its own, as veth.
    pub link_percent: Option<f64>,
    /// Per cent of time in which the links were idle while superframes were fetched into the store of
    /// their adapter, mean over the ports. `None` where the adapter has no such store.
    pub store_percent: Option<f64>,
    /// The same by port, on an aggregate of several ports.
    pub ports: Option<PortShares>,
    /// Per cent of the senders' time limited by the receiver's window, over paths without a queue.
    pub rwnd_limited_percent: Option<f64>,
    /// The same over any path.
    pub rwnd_limited_anywhere_percent: Option<f64>,
    /// Per cent of the senders' time limited by the send buffer.
    pub sndbuf_limited_percent: Option<f64>,
    /// Per cent of the senders' time in which neither window nor buffer limited them: the congestion window did, or
    /// the small queues of the kernel (`tcp_small_queue_check`, net/ipv4/tcp_output.c).
    pub cwnd_limited_percent: Option<f64>,
    /// What the senders knew of their path at the edges of the measurement.
    pub path: Option<PathShares>,
    /// Payload that was sent again, in per cent of what arrived.
    pub resent_percent: Option<f64>,
    /// Per cent of the measurement in which senders of a stream had nothing under way.
    pub nothing_to_send_percent: Option<f64>,
    /// Per cent of the measurement in which senders of transfers had nothing under way: all bytes of a
    /// transfer were acknowledged, and its word was not there.
    pub word_percent: Option<f64>,
    /// Per cent of what the tape drives of a backup take.
    pub drives_percent: Option<f64>,
    /// The queue discipline that held packets back, in directions in which the SUT sends.
    pub discipline: Option<DisciplineShare>,
}

/// The evidence that a verdict rests on; means over the good runs of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    /// Runs with figures.
    pub good_runs: u32,
    /// Each loaded direction.
    pub ways: Vec<DirectionShares>,
    /// Per cent of time in which the busiest adapter's bus was occupied.
    pub bus_percent: Option<f64>,
    /// CPU time of the adapters' device threads, in per cent of the CPU that they use most.
    pub device_percent: Option<f64>,
    /// Whether device threads and clients may run on the same CPUs.
    pub device_shares_cpus: bool,
    /// Links and buses run at this share of their rates.
    pub scale: f64,
    /// The busiest CPU of the SUT.
    pub sut: Option<CpuShare>,
    /// The busiest CPU of the clients.
    pub client: Option<CpuShare>,
    /// Whether the SUT and the clients run on the same CPUs.
    pub shared_cpus: bool,
    /// Whether the workload is made of transactions.
    pub transactional: bool,
    /// Answered requests of an open loop, in per cent of those that were due; `None` in a closed one.
    pub request_rate_percent: Option<f64>,
    /// The parts of their latency.
    pub round_trip: Option<RoundTripParts>,
    /// CPU time of programs other than linkrate on the clients' CPUs, in per cent of one CPU.
    pub client_others_percent: f64,
}

impl Default for Shares {
    /// No runs, on links at full rate.
    fn default() -> Self {
        Self {
            good_runs: 0,
            ways: Vec::new(),
            bus_percent: None,
            device_percent: None,
            device_shares_cpus: false,
            scale: 1.0,
            sut: None,
            client: None,
            shared_cpus: false,
            transactional: false,
            request_rate_percent: None,
            round_trip: None,
            client_others_percent: 0.0,
        }
    }
}

/// The resource that bound one direction, with its share.
#[derive(Debug, Clone, PartialEq)]
pub enum Bottleneck {
    /// The links carry all they can in this direction.
    Link {
        /// Of the time.
        percent: f64,
    },
    /// One port of an aggregate carries all it can, and the others do not: the balancing is uneven.
    OnePort { ports: PortShares },
    /// The links are occupied, or wait for superframes that their adapters store before they send them.
    Store {
        /// Of the time, while superframes were fetched.
        percent: f64,
    },
    /// An adapter's bus carries all it can.
    Bus {
        /// Of the time.
        percent: f64,
    },
    /// The tape drives of a backup take no more.
    Drives {
        /// Of their rate.
        percent: f64,
    },
    /// A queue discipline of the SUT lets no more pass.
    Discipline { discipline: DisciplineShare },
    /// A CPU of the SUT is busy all the time.
    SutCpu { sut: CpuShare },
    /// A CPU of the clients is busy all the time: the SUT may be able to do more.
    ClientCpu { client: CpuShare },
    /// CPUs of both ends are busy all the time.
    BothCpus { sut: CpuShare, client: CpuShare },
    /// A CPU that the SUT and the clients share is busy all the time.
    SharedCpu { both: CpuShare },
    /// The adapters' device threads fill a CPU.
    DeviceCpu {
        /// Of that CPU.
        percent: f64,
    },
    /// Senders wait for the receiver's window.
    ReceiverWindow {
        /// Of sending time.
        percent: f64,
        /// The path, where it delays: something on it that is not full makes each window take longer.
        path: Option<PathShares>,
    },
    /// Senders wait for their congestion window or for small queues.
    CongestionWindow {
        /// Of sending time.
        percent: f64,
        path: Option<PathShares>,
    },
    /// Senders wait for room in their send buffer.
    SendBuffer {
        /// Of sending time.
        percent: f64,
    },
    /// Senders of transfers wait for the word of the peer.
    Acknowledgement {
        /// Of the measurement.
        percent: f64,
    },
    /// Requests of an open loop are answered as fast as they come: nothing else limits their number.
    RequestRate {
        /// Of the requests that were due.
        percent: f64,
    },
    /// No resource is used up, every request waits for its response, and the parts of the latency explain
    /// it.
    RoundTrip { sut: Option<CpuShare>, parts: RoundTripParts },
    /// No check holds: each end waits for the other part of the time.
    NoSingleResource {
        sut: Option<CpuShare>,
        client: Option<CpuShare>,
        /// Of sending time, limited by the receiver's window.
        rwnd: Option<f64>,
        /// Of transactions: the latency that no part explains, if the parts were measured.
        unexplained: Option<Unexplained>,
    },
}

/// Latency of transactions that its parts do not explain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unexplained {
    /// The parts leave too much, or are too much.
    Part(RoundTripParts),
    /// They were not measured: none of them, or those of the adapter where there is one.
    Unmeasured,
}

/// What took the rest of a link or a bus that is the bound and not full: something else that was full, or that
/// kept senders from it. Percentages as the word says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(into = "document::OfShortfall")]
pub enum Shortfall {
    /// The busiest CPU of the SUT.
    SutCpu(f64),
    /// That of the clients.
    ClientCpu(f64),
    /// The device threads on a CPU.
    DeviceCpu(f64),
    /// Payload was sent again.
    Resent(f64),
    /// Senders had nothing to send.
    NothingToSend(f64),
    /// The receiver's window limited senders.
    ReceiverWindow(f64),
    /// The send buffer limited senders.
    SendBuffer(f64),
    /// Links waited for superframes that their adapters store before they send them.
    Store(f64),
    /// Senders of transfers waited for the word of the peer.
    Word(f64),
    /// A queue discipline of the SUT, in per cent of its rate.
    Discipline(f64),
    /// None of these.
    Unknown,
}

/// What bound one direction of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(into = "document::OfDirection")]
#[schemars(from = "document::OfDirection")]
pub struct Judged {
    /// The direction; `None` for transactions.
    pub direction: Option<FlowDirection>,
    pub bottleneck: Bottleneck,
    /// How far the links were occupied in this direction, per cent of time.
    pub link_percent: Option<f64>,
    /// What took the rest where links or a bus are the bound and not full; empty otherwise.
    pub shortfall: Vec<Shortfall>,
    /// Runs that by themselves have the same bound, and runs with figures.
    pub agreeing: (u32, u32),
}

/// What bound a cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(into = "document::OfCell")]
pub struct Verdict {
    /// Each loaded direction; empty if no run succeeded.
    pub directions: Vec<Judged>,
    /// Whether the SUT and the clients run on the same CPUs.
    pub shared_cpus: bool,
    /// Whether device threads and clients may run on the same CPUs.
    pub device_shares_cpus: bool,
    /// Per cent of a client CPU that other programs used, if the verdict rests on the clients' CPUs
    /// and the share is large enough to have made it so ([`CLIENT_OTHERS_PERCENT`]).
    pub client_others_percent: Option<f64>,
    /// Links and buses run at this share of their rates.
    pub scale: f64,
    /// Whether nothing is known of the bound, because the runs were imported.
    pub imported: bool,
}

impl Verdict {
    /// That of imported runs, which have no evidence.
    #[must_use]
    pub fn of_imported() -> Self {
        Self {
            directions: Vec::new(),
            shared_cpus: false,
            device_shares_cpus: false,
            client_others_percent: None,
            scale: 1.0,
            imported: true,
        }
    }

    /// This verdict, with how many of the runs by themselves say the same of each direction.
    #[must_use]
    pub fn with_runs(mut self, runs: impl IntoIterator<Item = Self>) -> Self {
        self.directions.iter_mut().for_each(|way| way.agreeing.0 = 0);
        for run in runs {
            for (way, own) in self.directions.iter_mut().zip(&run.directions) {
                way.agreeing.0 += u32::from(own.bottleneck.word() == way.bottleneck.word());
            }
        }
        self
    }

    /// Whether the adapter, or what lies beyond it, limited each loaded direction: a link, a bus, a store, drives or a
    /// queue discipline. Where anything else did (a CPU of anybody, a window, the round trip, or what is not
    /// known), the figure is that of this machine.
    pub fn is_of_the_adapter(&self) -> bool {
        !self.directions.is_empty()
            && self.directions.iter().all(|way| way.bottleneck.is_of_the_adapter())
    }

    /// Whether something other than the adapter limited a direction; `None` where nothing is known of it.
    pub fn is_of_the_host(&self) -> Option<bool> {
        (!self.directions.is_empty()).then(|| !self.is_of_the_adapter())
    }

    /// The same of several cells together: of the host if one is, and not known unless that of each other one is.
    pub fn any_of_the_host(each: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
        each.into_iter().reduce(|one, other| match (one, other) {
            (Some(false), Some(false)) => Some(false),
            (Some(true), _) | (_, Some(true)) => Some(true),
            _ => None,
        })?
    }

    /// Whether each loaded direction was at what links and buses can carry, or tape drives take.
    pub fn is_at_its_limit(&self) -> bool {
        let is = |bound: &Bottleneck| {
            matches!(
                bound,
                Bottleneck::Link { .. } | Bottleneck::Bus { .. } | Bottleneck::Drives { .. }
            )
        };
        !self.directions.is_empty() && self.directions.iter().all(|way| is(&way.bottleneck))
    }

    /// Whether a CPU was the bound of a direction, of the hosts or of the virtual device.
    pub fn is_bound_by_a_cpu(&self) -> bool {
        let is =
            |bound: &Bottleneck| bound.is_host() || matches!(bound, Bottleneck::DeviceCpu { .. });
        self.directions.iter().any(|way| is(&way.bottleneck))
    }

    /// Whether a CPU of the SUT was full in a direction, so that its throughput is the inverse of its service demand.
    pub fn is_bound_by_the_suts_cpu(&self) -> bool {
        let is = |bound: &Bottleneck| {
            matches!(
                bound,
                Bottleneck::SutCpu { .. }
                    | Bottleneck::BothCpus { .. }
                    | Bottleneck::SharedCpu { .. }
            )
        };
        !self.directions.is_empty() && self.directions.iter().all(|way| is(&way.bottleneck))
    }
}

pub fn judge(shares: &Shares) -> Verdict {
    let ways = if shares.good_runs == 0 { &[][..] } else { &shares.ways };
    let ways: Vec<Judged> = ways
        .iter()
        .map(|way| {
            let bound = bound(shares, way);
            let missing = missing(shares, way, &bound);
            let (direction, link_percent) = (way.direction, way.link_percent);
            let agreeing = (shares.good_runs, shares.good_runs);
            Judged { direction, bottleneck: bound, link_percent, shortfall: missing, agreeing }
        })
        .collect();
    let rests_on_clients = ways.iter().any(|way| {
        matches!(
            way.bottleneck,
            Bottleneck::ClientCpu { .. }
                | Bottleneck::BothCpus { .. }
                | Bottleneck::SharedCpu { .. }
        )
    });
    let others = shares.client_others_percent;
    Verdict {
        directions: ways,
        shared_cpus: shares.shared_cpus,
        device_shares_cpus: shares.device_shares_cpus,
        client_others_percent: (rests_on_clients && others >= CLIENT_OTHERS_PERCENT)
            .then_some(others),
        scale: shares.scale,
        imported: false,
    }
}

/// The first check that holds for one direction.
fn bound(shares: &Shares, way: &DirectionShares) -> Bottleneck {
    let at_least = |value: Option<f64>, threshold| value.filter(|value| *value >= threshold);
    let busy = |cpu: Option<CpuShare>| cpu.filter(|cpu| cpu.percent >= CPU_BOUND_PERCENT);
    if let Some(percent) = at_least(shares.request_rate_percent, REQUEST_RATE_PERCENT) {
        return Bottleneck::RequestRate { percent };
    }
    let links = |threshold: f64| {
        // one that is full holds back its own flows alone: another one that is in use and not full has another reason
        let full = |ports: &PortShares| {
            let (least, most) = ports.others_percent;
            ports.fullest_percent >= threshold && (most < threshold || least < PORT_IDLE_PERCENT)
        };
        let link =
            at_least(way.link_percent, threshold).map(|percent| Bottleneck::Link { percent });
        link.or_else(|| way.ports.filter(full).map(|ports| Bottleneck::OnePort { ports }))
    };
    if let Some(bound) = links(LINK_FULL_PERCENT) {
        return bound;
    }
    let stored = at_least(way.store_percent, STORE_PERCENT);
    let taken = |percent: &f64| percent + way.link_percent.unwrap_or(0.0) >= LINK_BOUND_PERCENT;
    if let Some(percent) = stored.filter(taken) {
        return Bottleneck::Store { percent };
    }
    if let Some(percent) = at_least(shares.bus_percent, BUS_BOUND_PERCENT) {
        return Bottleneck::Bus { percent };
    }
    if let Some(percent) = at_least(way.drives_percent, DRIVES_BOUND_PERCENT) {
        return Bottleneck::Drives { percent };
    }
    let discipline = |holds: &dyn Fn(&DisciplineShare) -> bool| {
        let discipline = way.discipline.clone().filter(holds)?;
        Some(Bottleneck::Discipline { discipline })
    };
    let at_its_rate =
        |one: &DisciplineShare| at_least(one.rate_percent, DISCIPLINE_BOUND_PERCENT).is_some();
    if let Some(bound) = discipline(&at_its_rate) {
        return bound;
    }
    let (sut, client) = (busy(shares.sut), busy(shares.client));
    let takes_most = client.is_some() && shares.device_shares_cpus;
    let device_bound = if takes_most { DEVICE_SHARE_PERCENT } else { DEVICE_BOUND_PERCENT };
    let device = at_least(shares.device_percent, device_bound);
    match (sut, client) {
        (Some(busy), other) | (other, Some(busy)) if shares.shared_cpus => {
            let both = other.filter(|other| other.percent > busy.percent).unwrap_or(busy);
            return Bottleneck::SharedCpu { both };
        }
        (Some(sut), Some(client)) => return Bottleneck::BothCpus { sut, client },
        (Some(sut), None) => return Bottleneck::SutCpu { sut },
        // a CPU that device threads fill, or take most of, is busy because of them
        (None, Some(_)) if device.is_some() => {}
        (None, Some(client)) => return Bottleneck::ClientCpu { client },
        (None, None) => {}
    }
    if let Some(percent) = device {
        return Bottleneck::DeviceCpu { percent };
    }
    // what is full behind a discipline makes packets wait in it too
    let free = way.link_percent.is_none_or(|percent| percent < LINK_FREE_PERCENT);
    if let Some(bound) = discipline(&|one| one.waited && free) {
        return bound;
    }
    let window = at_least(way.rwnd_limited_percent, SENDER_LIMITED_PERCENT).or_else(|| {
        // links of this direction have room: acknowledgements wait, behind the other direction's data
        let waits = shares.ways.iter().any(|other| is_other_and_full(way, other));
        at_least(way.rwnd_limited_anywhere_percent, SENDER_LIMITED_PERCENT).filter(|_| waits)
    });
    if let Some(percent) = window {
        return Bottleneck::ReceiverWindow { percent, path: None };
    }
    if let Some(percent) = at_least(way.sndbuf_limited_percent, SENDER_LIMITED_PERCENT) {
        return Bottleneck::SendBuffer { percent };
    }
    if let Some(bound) = links(LINK_BOUND_PERCENT) {
        return bound;
    }
    if let Some(percent) = at_least(way.word_percent, SENDER_LIMITED_PERCENT) {
        return Bottleneck::Acknowledgement { percent };
    }
    // no resource is full, so what delays the path only makes each window take longer
    if let Some(percent) = at_least(way.rwnd_limited_anywhere_percent, SENDER_LIMITED_PERCENT) {
        return Bottleneck::ReceiverWindow { percent, path: way.path };
    }
    let streams = !shares.transactional;
    let cwnd = at_least(way.cwnd_limited_percent, SENDER_LIMITED_PERCENT).filter(|_| streams);
    if let Some(percent) = cwnd {
        return Bottleneck::CongestionWindow { percent, path: way.path };
    }
    let is_bound = |parts: &RoundTripParts| is_measured(shares, parts) && is_explained(parts);
    if let Some(parts) = shares.round_trip.filter(is_bound) {
        return Bottleneck::RoundTrip { sut: shares.sut, parts };
    }
    no_single_resource(shares, way)
}

/// Whether its parts explain a latency.
fn is_explained(parts: &RoundTripParts) -> bool {
    parts.unexplained_percent().abs() <= UNEXPLAINED_PERCENT
}

/// Whether all parts were measured: CPU times alone explain nothing where frames wait for the interrupts of adapters.
fn is_measured(shares: &Shares, parts: &RoundTripParts) -> bool {
    shares.device_percent.is_none() || parts.moderation_us.is_some()
}

/// That no check holds, or that runs have different ones.
pub(crate) fn no_single_resource(shares: &Shares, way: &DirectionShares) -> Bottleneck {
    let unexplained = || {
        let is_reported =
            |parts: &RoundTripParts| is_measured(shares, parts) || !is_explained(parts);
        let reported = shares.round_trip.filter(is_reported);
        reported.map_or(Unexplained::Unmeasured, Unexplained::Part)
    };
    Bottleneck::NoSingleResource {
        sut: shares.sut,
        client: shares.client,
        rwnd: way.rwnd_limited_anywhere_percent,
        unexplained: shares.transactional.then(unexplained),
    }
}

/// Whether `other` is the direction beside `way`, and fills its links.
fn is_other_and_full(way: &DirectionShares, other: &DirectionShares) -> bool {
    other.direction != way.direction
        && other.link_percent.is_some_and(|percent| percent >= LINK_BOUND_PERCENT)
}

/// What took the rest of links or a bus that are the bound and not full.
fn missing(shares: &Shares, way: &DirectionShares, bound: &Bottleneck) -> Vec<Shortfall> {
    if !bound.is_outside() || bound.percent().is_none_or(|percent| percent >= LINK_FULL_PERCENT) {
        return Vec::new();
    }
    let from = |value: Option<f64>, least, is: fn(f64) -> Shortfall| {
        value.filter(|value| *value >= least).map(is)
    };
    let busy = |cpu: Option<CpuShare>, is| from(cpu.map(|cpu| cpu.percent), CPU_BOUND_PERCENT, is);
    let held = SENDER_HELD_PERCENT;
    let at_its_rate = way.discipline.as_ref().and_then(|discipline| discipline.rate_percent);
    let found = [
        busy(shares.sut, Shortfall::SutCpu),
        busy(shares.client, Shortfall::ClientCpu),
        from(shares.device_percent, DEVICE_BOUND_PERCENT, Shortfall::DeviceCpu),
        from(way.resent_percent, RESENT_PERCENT, Shortfall::Resent),
        from(way.nothing_to_send_percent, NOTHING_TO_SEND_PERCENT, Shortfall::NothingToSend),
        from(way.rwnd_limited_percent, held, Shortfall::ReceiverWindow),
        from(way.sndbuf_limited_percent, held, Shortfall::SendBuffer),
        from(way.store_percent, STORE_PERCENT, Shortfall::Store),
        from(way.word_percent, NOTHING_TO_SEND_PERCENT, Shortfall::Word),
        from(at_its_rate, DISCIPLINE_BOUND_PERCENT, Shortfall::Discipline),
    ];
    let found: Vec<Shortfall> = found.into_iter().flatten().collect();
    if found.is_empty() { vec![Shortfall::Unknown] } else { found }
}

impl Shortfall {
    /// The word for it in documents, and its percentage.
    pub fn word(self) -> (&'static str, Option<f64>) {
        match self {
            Self::SutCpu(percent) => ("sut_cpu", Some(percent)),
            Self::ClientCpu(percent) => ("client_cpu", Some(percent)),
            Self::DeviceCpu(percent) => ("device_cpu", Some(percent)),
            Self::Resent(percent) => ("resent", Some(percent)),
            Self::NothingToSend(percent) => ("nothing_to_send", Some(percent)),
            Self::ReceiverWindow(percent) => ("receiver_window", Some(percent)),
            Self::SendBuffer(percent) => ("send_buffer", Some(percent)),
            Self::Store(percent) => ("superframe_store", Some(percent)),
            Self::Word(percent) => ("acknowledgement", Some(percent)),
            Self::Discipline(percent) => ("queue_discipline", Some(percent)),
            Self::Unknown => ("unknown", None),
        }
    }
}

impl Bottleneck {
    /// The word for it in documents.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Link { .. } => "link",
            Self::OnePort { .. } => "one_port",
            Self::Store { .. } => "superframe_store",
            Self::Bus { .. } => "bus",
            Self::Drives { .. } => "drives",
            Self::Discipline { .. } => "queue_discipline",
            Self::SutCpu { .. } => "sut_cpu",
            Self::ClientCpu { .. } => "client_cpu",
            Self::BothCpus { .. } => "both_cpus",
            Self::SharedCpu { .. } => "shared_cpu",
            Self::DeviceCpu { .. } => "device_cpu",
            Self::ReceiverWindow { .. } => "receiver_window",
            Self::SendBuffer { .. } => "send_buffer",
            Self::CongestionWindow { .. } => "congestion_window",
            Self::Acknowledgement { .. } => "acknowledgement",
            Self::RequestRate { .. } => "request_rate",
            Self::RoundTrip { .. } => "round_trip",
            Self::NoSingleResource { .. } => "no_single_resource",
        }
    }

    /// The share of the resource that is used up: of time, of one CPU, of sending time. Of both
    /// ends' CPUs it is the SUT's. `None` if no resource is used up, and of a queue discipline whose
    /// rate is not known.
    pub fn percent(&self) -> Option<f64> {
        match self {
            Self::Link { percent }
            | Self::Store { percent }
            | Self::Bus { percent }
            | Self::Drives { percent }
            | Self::DeviceCpu { percent }
            | Self::ReceiverWindow { percent, .. }
            | Self::CongestionWindow { percent, .. }
            | Self::SendBuffer { percent }
            | Self::Acknowledgement { percent }
            | Self::RequestRate { percent } => Some(*percent),
            Self::OnePort { ports } => Some(ports.fullest_percent),
            Self::Discipline { discipline } => discipline.rate_percent,
            Self::SutCpu { sut: cpu }
            | Self::ClientCpu { client: cpu }
            | Self::BothCpus { sut: cpu, .. }
            | Self::SharedCpu { both: cpu } => Some(cpu.percent),
            Self::RoundTrip { .. } | Self::NoSingleResource { .. } => None,
        }
    }

    /// Whether it lies at or beyond the links, so that how far they were filled adds nothing.
    fn is_outside(&self) -> bool {
        matches!(self, Self::Link { .. } | Self::OnePort { .. } | Self::Bus { .. })
    }

    /// Whether the adapter or what lies beyond it is the bound.
    pub fn is_of_the_adapter(&self) -> bool {
        self.is_outside()
            || matches!(self, Self::Store { .. } | Self::Drives { .. } | Self::Discipline { .. })
    }

    /// Whether a CPU of the hosts is the bound.
    fn is_host(&self) -> bool {
        matches!(
            self,
            Self::SutCpu { .. }
                | Self::ClientCpu { .. }
                | Self::BothCpus { .. }
                | Self::SharedCpu { .. }
        )
    }

    /// Whether the CPU of the clients or of the virtual device took part in the bound, so that
    /// faster peers may show more.
    pub fn rests_on_peer(&self) -> bool {
        matches!(
            self,
            Self::ClientCpu { .. }
                | Self::BothCpus { .. }
                | Self::SharedCpu { .. }
                | Self::DeviceCpu { .. }
        )
    }
}

#[cfg(test)]
mod tests;
