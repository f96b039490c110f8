//! The counters of a port: 64 bits wide, with the names of RFC 2863 (ifTable, ifXTable) and RFC 3635
//! (EtherLike), and names of linkrate where these have no name.
//!
//! Each counter has one writer, the device thread or one driver thread, so that counting takes no
//! locked instruction.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use linkrate_wire::atm::Defect;
use linkrate_wire::frame::link::destination;
use linkrate_wire::frame::{Cast, MacAddress};
use linkrate_wire::lro::Reason;

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts `more`. Only one thread may.
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Sets it to `value`. Only its writer may.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($(#[$doc:meta])* $group:ident { $($(#[$about:meta])* $field:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $group {
            $($(#[$about])* pub $field: Counter,)*
        }

        impl $group {
            /// Names and values, in the order of their declaration.
            pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($name, self.$field.get()),)*].into_iter()
            }

            pub const NAMES: &[&str] = &[$($name,)*];
        }
    };
}

counters! {
    /// Counters of a switch port. Written by the device thread.
    SwitchCounters {
        /// Frames from the port that went to all other ports of their VLAN: their address was
        /// unknown, or a group.
        flooded = "switchFlooded",
        /// Frames from the port in a VLAN that the port is not a member of.
        vlan = "switchDropVlan",
        /// Frames from the port that are shorter than their headers.
        malformed = "switchDropMalformed",
        /// Frames from the port whose check sequence was wrong.
        fcs = "switchDropFcs",
        /// Frames from the port that its group does not collect.
        uncollected = "switchDropNotCollecting",
        /// Frames from the port that the switch was dead for.
        dead = "switchDropDead",
        /// Frames to the port for which its queue had no room.
        full = "switchDropQueueFull",
        /// Frames from the port that were dropped: the memory for frames under way was full.
        in_flight = "switchDropInFlight",
        /// Nanoseconds from the last bit of each frame to the port at the switch until its last bit had left
        /// the switch, together.
        transit_ns = "switchTransitNs",
    }
}

counters! {
    /// Counters of a port of an ATM switch, in cells. Written by the device thread.
    AtmSwitchCounters {
        /// Sent to the port.
        out = "switchTxCells",
        /// From the port, with one wrong bit in the header, which was corrected.
        hec_corrected = "switchHecCorrected",
        /// From the port, dropped for a wrong header.
        hec_dropped = "switchDropHec",
        /// From the port, on a connection that the switch does not have.
        unknown = "switchDropNoConnection",
        /// From the port, while the switch was dead.
        dead = "switchDropDead",
        /// To the port, which had no room in its queue.
        full = "switchDropQueueFull",
        /// To the port, of units whose first cell found the queue filled (early packet discard).
        early = "switchDropEarly",
        /// To the port, of units of which a cell had found no room (partial packet discard).
        partial = "switchDropPartial",
        /// From the port: the memory for cells under way was full.
        in_flight = "switchDropInFlight",
    }
}

counters! {
    /// Counters of a link. Written by the device thread.
    LinkCounters {
        /// Octets sent, framing characters and FCS included (RFC 2863).
        out_octets = "ifHCOutOctets",
        /// Unicast frames sent.
        out_unicast = "ifHCOutUcastPkts",
        /// Multicast frames sent.
        out_multicast = "ifHCOutMulticastPkts",
        /// Broadcast frames sent.
        out_broadcast = "ifHCOutBroadcastPkts",
        /// Packets without an error that were not sent: the link was down.
        out_discards = "ifOutDiscards",
        /// Packets that could not be sent because of errors in them.
        out_errors = "ifOutErrors",
        /// Octets received.
        in_octets = "ifHCInOctets",
        /// Unicast frames received.
        in_unicast = "ifHCInUcastPkts",
        /// Multicast frames received.
        in_multicast = "ifHCInMulticastPkts",
        /// Broadcast frames received.
        in_broadcast = "ifHCInBroadcastPkts",
        /// Frames without an error that were dropped: there was no room.
        in_discards = "ifInDiscards",
        /// Frames with errors.
        in_errors = "ifInErrors",
        /// Frames whose check sequence was wrong (RFC 3635).
        fcs_errors = "dot3HCStatsFCSErrors",
        /// Frames longer than the port takes (RFC 3635).
        too_long = "dot3HCStatsFrameTooLongs",
        /// Nanoseconds the link was occupied outwards.
        out_busy_ns = "txLinkBusyNs",
        /// Nanoseconds the link was occupied inwards.
        in_busy_ns = "rxLinkBusyNs",
        /// Dropped: the link was down.
        tx_drop_link_down = "txDropLinkDown",
        /// Frames to the port that were dropped: the memory for frames under way was full.
        rx_drop_in_flight = "rxDropInFlight",
        /// Frames from the port that a silent fault of its link lost.
        tx_lost = "txLostSilently",
        /// Frames to the port that a silent fault of its link lost.
        rx_lost = "rxLostSilently",
        /// Frames or cells from the port that the faults of the line lost.
        line_lost = "txLostOnLine",
    }
}

counters! {
    /// Of a device's work between interface and link. Written by the device thread.
    DeviceCounters {
        /// Superframes of the host that the device cut into frames.
        tx_superframes = "txSuperframes",
        /// Frames that were cut from superframes.
        tx_segments = "txSegments",
        /// Octets the host handed over, Ethernet header included.
        tx_host_octets = "txHostOctets",
        /// Packets the host handed over.
        tx_host_packets = "txHostPackets",
        /// Packets of one frame whose checksum the device completed.
        tx_checksums = "txChecksums",
        /// Dropped: headers or vnet header contradict the packet.
        tx_drop_malformed = "txDropMalformed",
        /// Dropped: longer than the port sends.
        tx_drop_oversized = "txDropOversized",
        /// Frames whose checksums were verified and right.
        rx_checksum_good = "rxChecksumGood",
        /// Frames with a wrong checksum, handed up as unverified.
        rx_checksum_bad = "rxChecksumBad",
        /// Frames merged.
        rx_merged = "rxMergedFrames",
        /// Superframes that were made of merged frames.
        rx_superframes = "rxSuperframes",
        /// Merging ended: the frame was shorter.
        rx_flush_short = "rxFlushShort",
        /// Merging ended: PSH or FIN.
        rx_flush_pushed = "rxFlushPushed",
        /// Merging ended: as large as an IP packet can be.
        rx_flush_full = "rxFlushFull",
        /// Merging ended: the next frame of the flow does not continue the superframe.
        rx_flush_mismatch = "rxFlushMismatch",
        /// Merging ended: another flow needed the place.
        rx_flush_evicted = "rxFlushEvicted",
        /// Merging ended: the batch was over.
        rx_flush_batch = "rxFlushBatch",
        /// Not merged: a flag forbids it, or there is no data.
        rx_unmerged_flags = "rxUnmergedFlags",
        /// Not merged: no TCP, a fragment, or options of IPv4.
        rx_unmerged_kind = "rxUnmergedKind",
        /// Dropped: lengths contradict each other.
        rx_drop_malformed = "rxDropMalformed",
        /// Dropped: the frame is of another VLAN than that of the port.
        rx_drop_vlan = "rxDropVlan",
        /// Dropped: no receive descriptor was free.
        rx_drop_ring = "rxDropRingFull",
        /// Dropped: the bus was behind by more than the receive FIFO holds.
        rx_drop_fifo = "rxDropFifoFull",
        /// Frames whose destination port was in the steering table.
        steering_hits = "steeringHits",
        /// Frames whose destination port was not, which the hash steered.
        steering_misses = "steeringMisses",
        /// Ports whose frames changed their queue.
        steering_moves = "steeringMoves",
        /// Packets of the adapter's TCP, before they were cut.
        toe_tx_packets = "toeTxPackets",
        /// Bytes of payload in them.
        toe_tx_bytes = "toeTxBytes",
        /// Frames for the adapter's TCP.
        toe_rx_frames = "toeRxFrames",
        /// Bytes of payload in them.
        toe_rx_bytes = "toeRxBytes",
        /// Packets that the host, or the adapter, had sent before their connection moved.
        toe_let_out = "toeLetOut",
        /// Given up: packets that had not left when their connection moved. The TCP that has it next sends their
        /// payload.
        toe_taken_back = "toeTakenBack",
        /// Dropped: packets of the host for a connection that is at the adapter.
        toe_host_segments = "toeHostSegments",
        /// Frames that waited while their connection moved.
        toe_held = "toeHeldFrames",
        /// Dropped: too many frames waited.
        toe_drop_held = "toeDropHeld",
        /// Receive interrupts.
        rx_interrupts = "rxInterrupts",
        /// Received frames whose interrupt was raised.
        rx_waited = "rxWaitedFrames",
        /// Nanoseconds that they waited for it by the rules of moderation, together.
        rx_wait_ns = "rxWaitNs",
        /// Nanoseconds by which it was raised later than these rules say, for each of them.
        rx_late_ns = "rxLateNs",
        /// Nanoseconds from the posting of each packet until its last bit had left, together.
        tx_wire_ns = "txWireNs",
        /// Nanoseconds for which the link was idle while a superframe was fetched into the adapter's store.
        tx_store_ns = "txStoreNs",
        /// Transmit completion interrupts.
        tx_interrupts = "txInterrupts",
        /// Packets that a capture left out: its queue was full, or writing had failed.
        capture_lost = "captureLost",
    }
}

counters! {
    /// Counters of ATM and AAL5 at a port: names of RFC 2863 and RFC 2515 where they have one. Written by
    /// the device thread.
    AtmCounters {
        /// Cells sent.
        tx_cells = "atmTxCells",
        /// Cells received, those with errors included.
        rx_cells = "atmRxCells",
        /// Cells with one wrong bit in the header, which was corrected (ITU-T I.432.1).
        hec_corrected = "atmHecCorrected",
        /// Cells dropped for a wrong header.
        hec_dropped = "atmHecDropped",
        /// Cells of a connection that the port does not have, or without user data (RFC 2863, RFC 2515).
        unknown = "ifInUnknownProtos",
        /// Units with an encapsulation or a protocol that the port does not take.
        unknown_protocol = "aal5UnknownProtocols",
        /// Packets of the host without a connection to their destination.
        unresolved = "txDropNoConnection",
        /// Packets of the host for a connection whose queue before its peak rate was full.
        peak_rate_full = "txDropPeakRate",
    }
}

counters! {
    /// Units of AAL5 that were not received, by defect: of one connection, and of all that a port has or had.
    /// Written by the device thread.
    DefectCounters {
        /// With a wrong CRC (RFC 2515).
        crc = "aal5VccCrcErrors",
        /// Whose last cell did not come in time (RFC 2515).
        time_out = "aal5VccSarTimeOuts",
        /// Longer than the connection carries (RFC 2515).
        too_long = "aal5VccOverSizedSDUs",
        /// Whose length does not fit their cells.
        length = "aal5LengthErrors",
        /// That their sender gave up.
        aborted = "aal5Aborted",
    }
}

impl DefectCounters {
    /// Counts a unit.
    pub(crate) fn count(&self, defect: Defect) {
        match defect {
            Defect::Crc => &self.crc,
            Defect::TooLong => &self.too_long,
            Defect::Length => &self.length,
            Defect::Aborted => &self.aborted,
            Defect::TimeOut => &self.time_out,
        }
        .add(1);
    }
}

counters! {
    /// Counters of the servers of emulated LANs in an ATM switch. Written by the device thread.
    ElanCounters {
        /// Clients that the LECS has told their ELAN.
        configured = "elanConfigured",
        /// Clients that joined.
        joined = "elanJoined",
        /// Requests that LECS or LES refused.
        refused = "elanRefused",
        /// Questions for the ATM address of a station that the LES answered.
        answered = "elanArpAnswered",
        /// Other control frames that the LES sent on to clients.
        forwarded = "elanControlForwarded",
        /// Control frames that were dropped, because a client sent too many.
        dropped = "elanControlDropped",
        /// Control frames that contradict their sender, or that no client sends.
        lies = "elanControlLies",
        /// Data frames that the BUS sent to all clients.
        bus_frames = "elanBusFrames",
        /// Questions whether a path is empty that the BUS sent on.
        bus_flushes = "elanBusFlushes",
        /// Units that the BUS dropped: too long, too short, or control frames that are not for it.
        bus_dropped = "elanBusDropped",
        /// Units for a server with an error of AAL5.
        defects = "elanAal5Errors",
    }
}

counters! {
    /// Counters of a client of ATMARP, or of a server: those of RFC 2320 by their names, where it has one.
    /// Written by the device thread.
    ArpCounters {
        /// Connections that calls have got, from this port and to it.
        calls = "atmCallsOpened",
        /// Calls that did not come about.
        calls_failed = "atmCallsFailed",
        /// Connections that the other end or the switch has ended.
        calls_over = "atmCallsCleared",
        /// Attempts to register an ATM address that another port has.
        not_registered = "atmAddressInUse",
        /// Questions to the server.
        out_requests = "ipoaArpClientArpOutReqs",
        /// Answers of the server.
        in_replies = "ipoaArpClientArpInReplies",
        /// Refusals of the server: it does not know the address.
        in_refusals = "ipoaArpClientArpInNaks",
        /// Questions of the server for the addresses of this port.
        in_inverse_requests = "ipoaArpClientInArpInReqs",
        /// Answers to them.
        out_inverse_replies = "ipoaArpClientInArpOutReplies",
        /// Messages that no server sends.
        in_others = "ipoaArpClientInOthers",
        /// Messages of another kind that were sent.
        out_others = "ipoaArpClientOutOthers",
        /// Questions to this server.
        server_in_requests = "ipoaArpSrvrArpInReqs",
        /// Answers.
        server_out_replies = "ipoaArpSrvrArpOutReplies",
        /// Questions for an address that it does not know.
        server_out_refusals = "ipoaArpSrvrArpOutNaks",
        /// Questions for the addresses of an end system that has called, or whose entry has aged.
        server_out_inverse_requests = "ipoaArpSrvrInArpOutReqs",
        /// Answers to them.
        server_in_inverse_replies = "ipoaArpSrvrInArpInReplies",
        /// End systems that claim an IP address that another one has.
        server_duplicates = "ipoaArpSrvrArpDupIpAddr",
        /// End systems that were not learnt, because the table is full.
        server_full = "ipoaArpSrvrTableFull",
        /// Units that are no message of ATMARP.
        server_malformed = "ipoaArpSrvrMalformed",
        /// Messages of another kind that came.
        server_in_others = "ipoaArpSrvrInOthers",
        /// Messages of another kind that were sent.
        server_out_others = "ipoaArpSrvrOutOthers",
    }
}

counters! {
    /// Counters of a client of an emulated LAN: those of the LAN Emulation Client MIB (af-lane-0093) by
    /// their names. Written by the device thread.
    LaneCounters {
        /// Control frames sent.
        control_out = "lecControlFramesOut",
        /// Control frames received.
        control_in = "lecControlFramesIn",
        /// Questions for the ATM address of a station, or of the BUS.
        asked = "lecArpRequestsOut",
        /// Such questions that came.
        asked_by_others = "lecArpRequestsIn",
        /// Answers to them.
        answered = "lecArpRepliesOut",
        /// Answers of others, asked for or not.
        answers = "lecArpRepliesIn",
        /// Data-direct connections that did not come about.
        calls_failed = "lecSvcFailures",
        /// Frames by data-direct connections.
        direct = "laneTxDirect",
        /// Frames to one station through the BUS.
        unknown = "laneTxUnknown",
        /// Frames to groups and to all, through the BUS.
        groups = "laneTxGroups",
        /// Frames of the host that were dropped: not in the ELAN yet, or too many that wait for their
        /// station.
        dropped = "laneTxDropped",
        /// Questions whether a path is empty.
        flushed = "laneFlushes",
        /// Entries of the cache that expired.
        aged = "laneArpAged",
        /// Frames for the host.
        delivered = "laneRxFrames",
        /// Own frames that came back from the BUS.
        own = "laneRxOwn",
        /// Frames from the BUS for stations of others.
        of_others = "laneRxOthers",
        /// Units that are no frames, or frames that contradict what is known.
        lies = "laneRxLies",
        /// Questions of others that were not answered, because there were too many.
        not_answered = "laneArpNotAnswered",
        /// Times that the client lost its ELAN.
        fell_back = "laneFellBack",
    }
}

counters! {
    /// Of a bridge between Ethernet ports and an emulated LAN, beside those of its client. The first three
    /// have the names of RFC 4188, of its port to the Ethernet side. Written by the device thread.
    BridgeCounters {
        /// Frames that came from stations behind the bridge.
        in_frames = "dot1dTpPortInFrames",
        /// Frames of the emulated LAN that left for stations behind the bridge.
        out_frames = "dot1dTpPortOutFrames",
        /// Addresses that were not learnt, because there were too many.
        not_learnt = "dot1dTpLearnedEntryDiscards",
        /// Frames that were dropped, because the queue before its ATM link was full.
        full = "bridgeDropQueueFull",
        /// Units of AAL5 that it received with an error.
        defects = "bridgeAal5Errors",
        /// Times that it told the clients that the topology changes.
        topology_changes = "bridgeTopologyChanges",
    }
}

counters! {
    /// Counters of the driver of a queue. Written by the driver thread, or by the device thread where
    /// it serves the TAP itself.
    DriverCounters {
        /// Packets taken from the host.
        tx_packets = "txPackets",
        /// Packets handed to the host.
        rx_packets = "rxPackets",
        /// Packets the host refused.
        rx_refused = "rxHostRefused",
        /// Times the device's doorbell was rung.
        doorbells = "txDoorbells",
        /// Times the thread of the queue's driver slept.
        sleeps = "driverSleeps",
        /// Times the driver had used its budget and let the programs of its CPU run.
        budgets = "driverBudgetsSpent",
        /// Changes of the destination-port steering table.
        steering_updates = "steeringUpdates",
    }
}

impl DeviceCounters {
    /// Counts why merging ended at a superframe.
    pub fn flushed(&self, reason: Reason) {
        match reason {
            Reason::Short => &self.rx_flush_short,
            Reason::Pushed => &self.rx_flush_pushed,
            Reason::Full => &self.rx_flush_full,
            Reason::Evicted => &self.rx_flush_evicted,
            Reason::Flushed => &self.rx_flush_batch,
            // another frame of the flow that does not fit
            _ => &self.rx_flush_mismatch,
        }
        .add(1);
    }

    /// Counts why a frame was not merged, if the reason is in the frame.
    pub fn unmerged(&self, reason: Reason) {
        match reason {
            Reason::Flags | Reason::NoPayload => self.rx_unmerged_flags.add(1),
            Reason::NotTcp | Reason::Fragment | Reason::Malformed => self.rx_unmerged_kind.add(1),
            _ => {}
        }
    }
}

impl LinkCounters {
    /// Counts frames to one destination that were sent.
    pub fn sent(&self, destination: &[u8], frames: usize, octets: u64) {
        self.out_octets.add(octets);
        kind(destination, &self.out_unicast, &self.out_multicast, &self.out_broadcast)
            .add(frames as u64);
    }

    /// Counts frames to one destination that were received.
    pub fn received(&self, destination: &[u8], frames: usize, octets: u64) {
        self.in_octets.add(octets);
        kind(destination, &self.in_unicast, &self.in_multicast, &self.in_broadcast)
            .add(frames as u64);
    }
}

/// The counter for a frame, by its destination: one station, a group, or all.
fn kind<'a>(
    frame: &[u8],
    unicast: &'a Counter,
    multicast: &'a Counter,
    broadcast: &'a Counter,
) -> &'a Counter {
    match destination(frame).map(MacAddress::cast) {
        Some(Cast::Unicast) => unicast,
        Some(Cast::Broadcast) => broadcast,
        Some(Cast::Multicast) | None => multicast,
    }
}

pub type Snapshot = BTreeMap<String, u64>;

/// The counts between two snapshots.
#[must_use]
pub fn since(later: &Snapshot, earlier: &Snapshot) -> Snapshot {
    let before = |name: &str| earlier.get(name).copied().unwrap_or(0);
    later.iter().map(|(name, value)| (name.clone(), value.wrapping_sub(before(name)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_by_kind() {
        let counters = LinkCounters::default();
        counters.sent(&[2, 0, 0, 0, 0, 1], 1, 64);
        counters.sent(&[3, 0, 0, 0, 0, 1], 1, 64);
        counters.sent(&[0xff; 6], 1, 64);
        let values: Snapshot = counters.values().map(|(name, n)| (name.to_owned(), n)).collect();
        assert_eq!(values["ifHCOutOctets"], 192);
        for name in ["ifHCOutUcastPkts", "ifHCOutMulticastPkts", "ifHCOutBroadcastPkts"] {
            assert_eq!(values[name], 1, "{name}");
        }
        assert_eq!(since(&values, &values)["ifHCOutOctets"], 0);
    }
}
