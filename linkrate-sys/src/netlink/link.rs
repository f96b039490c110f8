//! State of one interface.

use linkrate_model::measurement::InterfaceCounts;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage, Stats64};

/// State of one interface (`RTM_NEWLINK`, linux/if_link.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// Interface index, unique in its network namespace.
    pub index: u32,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// The Ethernet address; `None` for interfaces whose addresses are of another kind.
    pub hardware_address: Option<[u8; 6]>,
    /// Packets that a transmit queue holds (`txqueuelen`).
    pub tx_queue_length: u32,
    /// Administratively up (`IFF_UP`).
    pub up: bool,
    /// Carrier is present (`IFF_LOWER_UP`): on a veth, the peer is up too.
    pub carrier: bool,
    /// Ready to send (`IFF_RUNNING`, `IF_OPER_UP`). The kernel reacts to a carrier up to a second
    /// later (net/core/link_watch.c), and drops packets until then.
    pub running: bool,
    /// Largest superframe in bytes, headers included; IPv4 sockets use
    /// [`gso_ipv4_max_size`](Self::gso_ipv4_max_size).
    pub gso_max_size: u32,
    /// The same for IPv4; zero on kernels before 6.3, which have only one size.
    pub gso_ipv4_max_size: u32,
    /// Most segments in one superframe.
    pub gso_max_segs: u32,
    /// Largest packet that GRO builds, in bytes; IPv4 has its own since 6.3.
    pub gro_max_size: u32,
    /// The same for IPv4; zero on kernels before 6.3.
    pub gro_ipv4_max_size: u32,
    /// The driver's own limit on superframes in bytes; nothing above it can be set.
    pub tso_max_size: u32,
    /// The driver's own limit on segments of a superframe.
    pub tso_max_segs: u32,
    /// Allocated transmit queues; [channels](crate::ethtool::Ethtool::channels) tell how many are
    /// in use.
    pub tx_queues: u32,
    /// Allocated receive queues.
    pub rx_queues: u32,
    /// Packets, bytes and drops since the interface was created.
    pub counters: InterfaceCounts,
}

impl From<&LinkMessage> for Link {
    fn from(message: &LinkMessage) -> Self {
        let mut link = Self {
            index: message.header.index,
            up: message.header.flags.contains(LinkFlags::Up),
            carrier: message.header.flags.contains(LinkFlags::LowerUp),
            running: message.header.flags.contains(LinkFlags::Running),
            ..Self::default()
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::Mtu(value) => link.mtu = *value,
                LinkAttribute::Address(value) => {
                    link.hardware_address = value.as_slice().try_into().ok();
                }
                LinkAttribute::TxQueueLen(value) => link.tx_queue_length = *value,
                LinkAttribute::GsoMaxSize(value) => link.gso_max_size = *value,
                LinkAttribute::GsoIpv4MaxSize(value) => link.gso_ipv4_max_size = *value,
                LinkAttribute::GsoMaxSegs(value) => link.gso_max_segs = *value,
                LinkAttribute::GroMaxSize(value) => link.gro_max_size = *value,
                LinkAttribute::GroIpv4MaxSize(value) => link.gro_ipv4_max_size = *value,
                LinkAttribute::TsoMaxSize(value) => link.tso_max_size = *value,
                LinkAttribute::TsoMaxSegs(value) => link.tso_max_segs = *value,
                LinkAttribute::NumTxQueues(value) => link.tx_queues = *value,
                LinkAttribute::NumRxQueues(value) => link.rx_queues = *value,
                LinkAttribute::Stats64(stats) => link.counters = counts_of(stats),
                _ => {}
            }
        }
        link
    }
}

/// Counters since the interface was created (`struct rtnl_link_stats64`).
fn counts_of(stats: &Stats64) -> InterfaceCounts {
    InterfaceCounts {
        tx_packets: stats.tx_packets,
        tx_bytes: stats.tx_bytes,
        rx_packets: stats.rx_packets,
        rx_bytes: stats.rx_bytes,
        tx_dropped: stats.tx_dropped,
        rx_dropped: stats.rx_dropped,
        tx_errors: stats.tx_errors,
        rx_errors: stats.rx_errors,
        // ethtool has them
        ..InterfaceCounts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_a_link_land_in_their_fields() {
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::Mtu(9000),
            LinkAttribute::GsoMaxSegs(1),
            LinkAttribute::NumRxQueues(4),
        ];
        message.header.index = 7;
        message.header.flags = LinkFlags::Up;
        let link = Link::from(&message);
        assert_eq!((link.index, link.mtu, link.gso_max_segs, link.rx_queues), (7, 9000, 1, 4));
        assert!(link.up && !link.carrier);
    }
}
