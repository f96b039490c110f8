//! What the counters of a run prove of it: those of interfaces, of the network stack, of sockets and of virtual adapters.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::BitRate;
use crate::cpu_use::{ThreadTime, percent};
use crate::discipline::Discipline;
use crate::driver_counts::DriverCounts;
use crate::existing_aggregate::ExistingAggregate;
use crate::interface_counts::InterfaceCounts;
use crate::is_zero;
use crate::peer_report::PeerReport;
use crate::workload::Direction;

/// What the counters prove of the run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// The SUT's interfaces, all together, over the measurement.
    pub interface: InterfaceCounts,
    /// The interfaces of clients that are agents, all together. Kept of runs between existing
    /// interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_interface: Option<InterfaceCounts>,
    /// The SUT's IP and TCP counters over the measurement, by the kernel's names (`Ip.OutRequests`).
    pub protocol: BTreeMap<String, u64>,
    /// TCP_INFO of the sending sockets over the measurement, both ends.
    pub senders: SenderTimes,
    /// The clients' part of `senders`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_senders: Option<SenderTimes>,
    /// Short sleeps of the clients' receivers that let data gather.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub client_receive_batches: u64,
    /// Packets that receive processing handled, by CPU, over the measurement (`/proc/net/softnet_stat`).
    pub receive_packets_by_cpu: BTreeMap<u32, u64>,
    /// What the SUT's virtual adapters counted; absent on other adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Box<AdapterEvidence>>,
    /// The links of existing interfaces that took part, before the measurement and after it; empty on
    /// testbeds that linkrate makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkEvidence>,
    /// Flows that did not move steadily when the measurement began, although the run waited for
    /// them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsettled_flows: u32,
    /// The part of each client in the traffic, in the order of clients. Kept of runs between existing
    /// interfaces with several agents as clients; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientPart>,
    /// The flows by their addresses, in the order in which they were connected. Kept of runs on an
    /// aggregate, at most [`MAX_REPORTED_FLOWS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowEnds>,
    /// The queue disciplines of the SUT's interfaces, with what they counted over the measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disciplines: Vec<Discipline>,
    /// The same of the interfaces of clients that are agents (`client 0: eth0`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_disciplines: Vec<Discipline>,
    /// What third-party programs at the peers told; empty where agents are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peer_reports: Vec<PeerReport>,
}

/// The most flows of a run whose addresses are kept.
pub const MAX_REPORTED_FLOWS: usize = 4096;

/// The most flows whose arrivals are read around the edges of a measurement. More would take too much time.
pub const MAX_FLOWS_READ: u32 = 64;

/// What the SUT's virtual adapters counted over the measurement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AdapterEvidence {
    /// Length of the measurement as the adapters' meter saw it.
    pub interval_ns: u64,
    /// The ports that took part, in order.
    pub ports: Vec<PortEvidence>,
    /// Busy share of each adapter's bus in per cent; absent where the bus does not limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bus_percent: Vec<f64>,
    /// CPU time of the device threads (segmentation, checksums, wires), which run on adapter CPUs
    /// and not on the SUT's.
    pub device_threads: Vec<ThreadTime>,
    /// CPU time of the SUT's driver threads; part of the SUT's own.
    pub driver_threads: Vec<ThreadTime>,
    /// What these threads counted.
    pub driver_counts: DriverCounts,
    /// Whether what the SUT received was processed by these threads, in their writes, as without NAPI threads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub receives_in_drivers: bool,
    /// Counters of the clients' ports together, of what frames waited for (`rxWaitNs`, ..).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clients: BTreeMap<String, u64>,
    /// TCP frames that arrived after a later frame of their connection, in either direction. Counted
    /// where a balancing reorders flows, and in runs with an event; absent elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_overtaken: Option<u64>,
}

/// One port over the measurement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PortEvidence {
    /// The port (`eth0`).
    pub name: String,
    /// Share of the measurement in which the link was occupied outwards, per cent; absent without a
    /// rate.
    pub tx_link_percent: Option<f64>,
    /// The same inwards.
    pub rx_link_percent: Option<f64>,
    /// Counters by name: those of RFC 2863 and RFC 3635 (`ifHCOutOctets`), and linkrate's own
    /// (`txSuperframes`, `txSegments`, `rxMergedFrames`, `rxSuperframes`, ...).
    pub counters: BTreeMap<String, u64>,
}

/// The largest share of a CPU that threads take together, in per cent. Threads that may run on the
/// same CPUs only are added up and spread over these CPUs, and a thread that may move fills at
/// least its own share of one CPU.
fn busiest_cpu_percent(threads: &[ThreadTime], interval_ns: u64) -> Option<f64> {
    let alone = threads.iter().map(|thread| thread.cpu_ns).max()?;
    let together = threads.iter().filter(|thread| !thread.affinity.is_empty()).map(|thread| {
        let within = |other: &&ThreadTime| {
            !other.affinity.is_empty()
                && other.affinity.iter().all(|cpu| thread.affinity.contains(cpu))
        };
        let cpu_ns =
            threads.iter().filter(within).fold(0u64, |sum, other| sum.saturating_add(other.cpu_ns));
        cpu_ns / thread.affinity.len().max(1) as u64
    });
    percent(together.fold(alone, u64::max), interval_ns)
}

impl AdapterEvidence {
    /// A counter of all ports together.
    pub fn total(&self, counter: &str) -> u64 {
        let counts = self.ports.iter().filter_map(|port| port.counters.get(counter));
        counts.fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// CPU time of the device in CPUs: 0.5 means half a CPU's worth of time was used.
    pub fn device_cpus(&self) -> f64 {
        let cpu_ns = self.device_threads.iter().fold(0u64, |sum, t| sum.saturating_add(t.cpu_ns));
        if self.interval_ns == 0 { 0.0 } else { cpu_ns as f64 / self.interval_ns as f64 }
    }

    /// CPU time of the device threads on the CPU that they use most, in per cent of that CPU;
    /// `None` without threads.
    pub fn busiest_device_percent(&self) -> Option<f64> {
        busiest_cpu_percent(&self.device_threads, self.interval_ns)
    }

    /// Mean bytes of a frame the ports sent, Ethernet header and FCS included: at most one
    /// MTU and its headers, however large the host's packets are.
    pub fn mean_wire_frame_bytes(&self) -> Option<f64> {
        self.mean_frame_bytes("Out")
    }

    /// The same of the frames the ports received, before any were merged.
    pub fn mean_received_frame_bytes(&self) -> Option<f64> {
        self.mean_frame_bytes("In")
    }

    fn mean_frame_bytes(&self, way: &str) -> Option<f64> {
        let kinds = ["Ucast", "Multicast", "Broadcast"];
        let frames = kinds.iter().map(|kind| self.total(&format!("ifHC{way}{kind}Pkts")));
        let frames = frames.fold(0u64, u64::saturating_add);
        ratio(Some(&self.total(&format!("ifHC{way}Octets"))), Some(&frames))
    }

    /// Packets that the ports dropped, by reason; reasons without a drop are left out.
    pub fn drops(&self) -> BTreeMap<String, u64> {
        let mut drops: BTreeMap<String, u64> = BTreeMap::new();
        for (name, count) in self.ports.iter().flat_map(|port| &port.counters) {
            let is_drop = name.starts_with("txDrop") || name.starts_with("rxDrop");
            if *count > 0 && (is_drop || name == "rxHostRefused") {
                let sum = drops.entry(name.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        drops
    }

    /// Received frames whose checksums were wrong.
    pub fn checksum_failures(&self) -> u64 {
        self.total("rxChecksumBad")
    }

    /// Mean frames that a superframe of the host was cut into.
    pub fn segments_per_superframe(&self) -> Option<f64> {
        ratio(Some(&self.total("txSegments")), Some(&self.total("txSuperframes")))
    }

    /// Mean frames that were merged into a superframe for the host.
    pub fn merges_per_superframe(&self) -> Option<f64> {
        ratio(Some(&self.total("rxMergedFrames")), Some(&self.total("rxSuperframes")))
    }
}

/// TCP_INFO times of sending sockets, summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SenderTimes {
    /// Sockets in the sum.
    pub sockets: u32,
    /// Time between the two readings of these counters, of all sockets together, µs. It begins
    /// before the measurement and ends after it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_us: u64,
    /// Time with data to send, µs.
    pub busy_us: u64,
    /// Part of it limited by the receiver's window, µs.
    pub rwnd_limited_us: u64,
    /// Part of that over paths without a queue: the smoothed round trip was at most twice the
    /// shortest when the measurement began and when it closed. Over other paths something is full
    /// that fills the receiver's window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rwnd_limited_unqueued_us: Option<u64>,
    /// Part of it limited by the send buffer, µs.
    pub sndbuf_limited_us: u64,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Payload that was sent again, bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resent_bytes: u64,
    /// Segments sent with payload, those sent again included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub data_segments: u64,
    /// Segments received without payload: acknowledgements of bulk data; zero in runs of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub acknowledgements: u64,
    /// Looks at the send buffers within the measurement.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub buffer_samples: u64,
    /// Looks that found a full buffer, all of it sent, and no queue on the path: a larger buffer
    /// would have given more throughput.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub buffer_full_samples: u64,
    /// Payload that waited behind lost segments at the edges of the measurement.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub out_of_order: OutOfOrder,
    /// What the senders knew of their path when the measurement began and when it closed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub path: [SenderPath; 2],
}

/// What TCP knows of the path of sending sockets; sums over the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SenderPath {
    /// Smoothed round trips, µs.
    pub rtt_us: u64,
    /// Shortest round trips, µs; zero of sockets that have not seen one.
    pub min_rtt_us: u64,
    /// Congestion windows, segments.
    pub cwnd_segments: u64,
    /// Slow start thresholds, segments; zero of sockets that have not left slow start.
    pub ssthresh_segments: u64,
    /// Segments that were sent and not acknowledged.
    pub unacked_segments: u64,
}

impl SenderPath {
    fn with(self, other: Self, sum: fn(u64, u64) -> u64) -> Self {
        Self {
            rtt_us: sum(self.rtt_us, other.rtt_us),
            min_rtt_us: sum(self.min_rtt_us, other.min_rtt_us),
            cwnd_segments: sum(self.cwnd_segments, other.cwnd_segments),
            ssthresh_segments: sum(self.ssthresh_segments, other.ssthresh_segments),
            unacked_segments: sum(self.unacked_segments, other.unacked_segments),
        }
    }
}

impl SenderTimes {
    /// The times of both. Sums stay at the largest number, whatever a peer reports.
    pub fn plus(self, more: Self) -> Self {
        self.with(more, u64::saturating_add, u32::saturating_add)
    }

    /// These times without those of `part`.
    pub fn without(self, part: Self) -> Self {
        self.with(part, u64::saturating_sub, u32::saturating_sub)
    }

    /// Segments without payload that arrived for each segment with payload that was sent; `None`
    /// without payload.
    pub fn acknowledgements_per_segment(&self) -> Option<f64> {
        ratio(Some(&self.acknowledgements), Some(&self.data_segments))
    }

    fn with(self, other: Self, times: fn(u64, u64) -> u64, count: fn(u32, u32) -> u32) -> Self {
        let unqueued = match (self.rwnd_limited_unqueued_us, other.rwnd_limited_unqueued_us) {
            (Some(own), Some(others)) => Some(times(own, others)),
            // without sockets there is nothing to know
            (own, None) if other.sockets == 0 => own,
            (None, others) if self.sockets == 0 => others,
            _ => None,
        };
        Self {
            sockets: count(self.sockets, other.sockets),
            observed_us: times(self.observed_us, other.observed_us),
            busy_us: times(self.busy_us, other.busy_us),
            rwnd_limited_us: times(self.rwnd_limited_us, other.rwnd_limited_us),
            rwnd_limited_unqueued_us: unqueued,
            sndbuf_limited_us: times(self.sndbuf_limited_us, other.sndbuf_limited_us),
            retransmits: times(self.retransmits, other.retransmits),
            resent_bytes: times(self.resent_bytes, other.resent_bytes),
            data_segments: times(self.data_segments, other.data_segments),
            acknowledgements: times(self.acknowledgements, other.acknowledgements),
            buffer_samples: times(self.buffer_samples, other.buffer_samples),
            buffer_full_samples: times(self.buffer_full_samples, other.buffer_full_samples),
            out_of_order: self.out_of_order.with(other.out_of_order, times),
            path: [0, 1].map(|edge| self.path[edge].with(other.path[edge], times)),
        }
    }
}

impl Evidence {
    /// The SUT's part of [`senders`](Self::senders).
    pub fn sut_senders(&self) -> Option<SenderTimes> {
        Some(self.senders.without(self.client_senders?))
    }

    /// Mean bytes of an IP packet as TCP built it: large with GSO and TSO, one MTU without.
    pub fn mean_stack_packet_bytes(&self) -> Option<f64> {
        let octets = self.sum(["IpExt.OutOctets", "Ip6.OutOctets"]);
        ratio(Some(&octets), Some(&self.sum(["Ip.OutRequests", "Ip6.OutRequests"])))
    }

    /// Mean frames of the link in a packet that the SUT's IP received: above 1 where the adapter (LRO) or the
    /// kernel (GRO) has merged some. Where linkrate does not know the link, frames are those that the drivers
    /// told of. Interfaces beside those of the run are in the packets.
    pub fn mean_frames_per_received_packet(&self) -> Option<f64> {
        let of_port = |port: &PortEvidence| port.counters.get("ifHCInUcastPkts").copied();
        let frames = match self.adapter.as_deref() {
            Some(adapter) => adapter.ports.iter().filter_map(of_port).fold(0, u64::saturating_add),
            None => self.interface.rx_packets,
        };
        ratio(Some(&frames), Some(&self.sum(["Ip.InReceives", "Ip6.InReceives"])))
    }

    /// Mean bytes of a packet that the SUT's IP received: large where the adapter, the kernel, or a peer that hands its
    /// superframes over whole has made one of many. Interfaces beside those of the run are in the packets.
    pub fn mean_received_packet_bytes(&self) -> Option<f64> {
        let octets = self.sum(["IpExt.InOctets", "Ip6.InOctets"]);
        ratio(Some(&octets), Some(&self.sum(["Ip.InReceives", "Ip6.InReceives"])))
    }

    /// The sum of counters of IPv4 and IPv6.
    fn sum(&self, names: [&str; 2]) -> u64 {
        names
            .iter()
            .filter_map(|name| self.protocol.get(*name))
            .fold(0, |sum, value| sum.saturating_add(*value))
    }

    /// Mean bytes of a packet handed to the driver: large only if the adapter does the cutting.
    pub fn mean_driver_packet_bytes(&self) -> Option<f64> {
        ratio(Some(&self.interface.tx_bytes), Some(&self.interface.tx_packets))
    }
}

fn ratio(numerator: Option<&u64>, denominator: Option<&u64>) -> Option<f64> {
    match (numerator, denominator) {
        (Some(n), Some(d)) if *d > 0 => Some(*n as f64 / *d as f64),
        _ => None,
    }
}

/// What one client sent and received.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClientPart {
    /// Its measurement, s.
    pub seconds: f64,
    /// Payload that it gave to its sockets in the measurement, bytes.
    pub sent_bytes: u64,
    /// Payload that it received in the measurement, bytes.
    pub received_bytes: u64,
    /// Transactions that it began.
    pub transactions: u64,
    /// Segments that it sent again.
    pub retransmits: u64,
}

impl ClientPart {
    /// Payload per second, bit/s: what it sent, or what it received.
    pub fn bits_per_second(&self, sends: bool) -> Option<f64> {
        let bytes = if sends { self.sent_bytes } else { self.received_bytes };
        (self.seconds > 0.0).then(|| bytes as f64 * 8.0 / self.seconds)
    }

    /// Transactions per second.
    pub fn transactions_per_second(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.transactions as f64 / self.seconds)
    }
}

/// A flow, as the headers of its frames name it. With them the port that a hash chooses is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FlowEnds {
    /// The number of the client, from 0.
    pub client: u32,
    /// Who sends payload: `transmit` the SUT, `receive` the client, `bidirectional` both.
    pub direction: Direction,
    /// Address and port of the SUT.
    pub sut: SocketAddr,
    /// Address and port of the client.
    pub peer: SocketAddr,
    /// The SUT's Ethernet address in the flow's frames: `02:00:00:00:00:01`.
    pub sut_mac: String,
    /// The other one: the client's, or that of the router before it.
    pub peer_mac: String,
}

/// The link of an existing interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkEvidence {
    /// The interface.
    pub interface: String,
    /// Its rate; absent where it has none of its own, as a veth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// The bond or team that it is, with what its members counted from before the run until after
    /// it; absent for other interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Box<ExistingAggregate>>,
}

/// Payload that the peers had, and that waited behind a lost segment at the edges of a measurement, all senders
/// together.
///
/// TCP counts payload as received when all bytes before it are there. Payload that arrived behind a gap before a
/// measurement opened counts within the measurement when the gap closes, although no line carried it then. The sender
/// knows it by selective acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutOfOrder {
    /// When the measurement opened, bytes. It counts in the measurement, and does not belong there.
    pub opened_bytes: u64,
    /// When the measurement closed, bytes. It belongs to the measurement, and does not count.
    pub closed_bytes: u64,
}

impl OutOfOrder {
    /// Both together, number by number.
    #[must_use]
    pub fn with(self, other: Self, bytes: fn(u64, u64) -> u64) -> Self {
        Self {
            opened_bytes: bytes(self.opened_bytes, other.opened_bytes),
            closed_bytes: bytes(self.closed_bytes, other.closed_bytes),
        }
    }

    /// What a measurement counts too much by them, bytes; below zero if too little.
    pub fn excess_bytes(self) -> i64 {
        // no number of a peer overflows
        let [opened, closed] = [self.opened_bytes, self.closed_bytes]
            .map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        opened - closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(cpus: &[u32], cpu_ns: u64) -> ThreadTime {
        ThreadTime {
            name: "device".to_owned(),
            affinity: cpus.iter().copied().collect(),
            cpu_ns,
            user_ns: 0,
        }
    }

    #[test]
    fn device_threads_are_added_up_by_the_cpus_they_run_on() {
        let busiest = |threads: &[ThreadTime]| {
            let device_threads = threads.to_vec();
            let counted =
                AdapterEvidence { interval_ns: 1000, device_threads, ..AdapterEvidence::default() };
            counted.busiest_device_percent()
        };
        assert_eq!(busiest(&[]), None);
        let on_one = [200, 150, 130, 120].map(|cpu_ns| thread(&[1], cpu_ns));
        assert_eq!(busiest(&on_one), Some(60.0));
        let apart = [thread(&[1], 200), thread(&[2], 900), thread(&[1], 300)];
        assert_eq!(busiest(&apart), Some(90.0));
        // two CPUs for both threads: each has half of them, unless one thread alone takes more
        assert_eq!(busiest(&[thread(&[1, 2], 500), thread(&[1, 2], 900)]), Some(90.0));
        let three = [500, 600, 700].map(|cpu_ns| thread(&[1, 2], cpu_ns));
        assert_eq!(busiest(&three), Some(90.0));
        // what may run on CPU 1 alone counts for the pair of CPUs too
        assert_eq!(busiest(&[thread(&[1, 2], 800), thread(&[1], 980)]), Some(98.0));
        // an affinity that could not be read says nothing of where the thread ran
        assert_eq!(busiest(&[thread(&[], 400), thread(&[], 300)]), Some(40.0));
    }

    #[test]
    fn adds_and_separates_senders() {
        let own = SenderTimes {
            sockets: 2,
            busy_us: 900,
            rwnd_limited_us: 500,
            rwnd_limited_unqueued_us: Some(300),
            ..SenderTimes::default()
        };
        let far = SenderTimes { rwnd_limited_unqueued_us: Some(40), ..own };
        let both = own.plus(far);
        assert_eq!(
            (both.sockets, both.busy_us, both.rwnd_limited_unqueued_us),
            (4, 1800, Some(340))
        );
        assert_eq!(both.without(far), own);
        assert_eq!(SenderTimes::default().plus(own), own);
        assert_eq!(own.plus(SenderTimes::default()), own);
        let unknown = SenderTimes { rwnd_limited_unqueued_us: None, ..far };
        assert_eq!(own.plus(unknown).rwnd_limited_unqueued_us, None);
    }

    #[test]
    fn senders_of_earlier_versions_are_read() {
        let text = "{\"sockets\":1,\"busy_us\":9,\"rwnd_limited_us\":4,\"sndbuf_limited_us\":0,\
                    \"retransmits\":0}";
        let read: SenderTimes = serde_json::from_str(text).unwrap();
        assert_eq!((read.rwnd_limited_us, read.rwnd_limited_unqueued_us), (4, None));
    }

    #[test]
    fn the_excess_has_a_sign_and_no_overflow() {
        let excess =
            |opened_bytes, closed_bytes| OutOfOrder { opened_bytes, closed_bytes }.excess_bytes();
        assert_eq!((excess(700, 200), excess(200, 700)), (500, -500));
        assert_eq!((excess(u64::MAX, 0), excess(0, u64::MAX)), (i64::MAX, -i64::MAX));
    }
}
