//! A limit on the rate of datagrams, which TCP does not meet: the discipline `htb`
//! (net/sched/sch_htb.c) with one class for all packets except those of TCP.
//!
//! A packet that waits in the class belongs to its socket still. When the send buffer is full of
//! such packets, the program waits, as it does when a real adapter stops its queue. TCP needs no such
//! stop, because it is clocked by acknowledgements, and each stop costs a timer. Its packets take the
//! direct queue of `htb`, which has no rate.

use std::time::Duration;

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, Nla};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAttribute, TcFilterU32, TcFilterU32Option, TcHandle, TcMessage, TcOption, TcU32Key,
    TcU32Selector, TcU32SelectorFlags,
};

use super::message;
use crate::error::SysResult;
use crate::netlink::{RouteSocket, check_name, quoted};

pub(super) const HTB: &str = "htb";

/// The handle of the discipline; as a class, its direct queue.
const DIRECT: TcHandle = TcHandle { major: 1, minor: 0 };

/// The class of all packets that the filters do not name.
const LIMITED: TcHandle = TcHandle { major: 1, minor: 1 };

// linux/pkt_sched.h
const TCA_HTB_PARMS: u16 = 1;
pub(super) const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const TC_HTB_PROTOVER: u32 = 3;
const TC_LINKLAYER_ETHERNET: u8 = 1;
const TC_LINKLAYER_ATM: u8 = 2;
const TC_LINKLAYER_MASK: u8 = 0x0f;

/// `struct tc_htb_opt`, and the offsets of its fields.
const PARAMETERS: usize = 44;
const RATE: usize = 0;
const CEILING: usize = 12;
const BUFFER: usize = 24;
const CEILING_BUFFER: usize = 28;
const QUANTUM: usize = 32;

/// `struct tc_ratespec`: the offsets of the link layer, the octets added to each packet, and the
/// rate.
const LINK_LAYER: usize = 1;
const OVERHEAD: usize = 2;
const BYTES_PER_SECOND: usize = 8;

/// Bursts are told to the kernel in ticks of 64 ns (`PSCHED_SHIFT`, net/pkt_sched.h).
pub(super) const TICK_NS: u128 = 64;

/// Bytes of one class's turn. There is one class, but without a number the kernel derives one from
/// the rate and warns of it.
const TURN: u32 = 65_536;

/// `ETH_P_ALL`, linux/if_ether.h.
const EVERY_PROTOCOL: u16 = 3;

const PRIORITY: u32 = 1;

/// How fast datagrams leave an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramLimit {
    /// Bytes per second, `overhead` included.
    pub bytes_per_second: u64,
    /// How much leaves at once after a pause, as the time that it takes at that rate.
    pub burst: Duration,
    /// Octets that each packet takes on the link beside its own: of the packet from the Ethernet
    /// header on, once for a superframe.
    pub overhead: u16,
    /// A packet with its overhead leaves in cells: each 48 octets that it begins take 53
    /// (`psched_l2t_ns`, net/sch_generic.h).
    pub in_cells: bool,
}

impl RouteSocket {
    /// Limits the rate of all packets that are not TCP over IPv4 or IPv6; with a limit in place,
    /// changes its values. Replaces any other root discipline.
    ///
    /// # Errors
    /// `ENODEV` when this namespace has no interface of that name; `ENOENT` or `EOPNOTSUPP` on a
    /// kernel without `sch_htb` or `cls_u32`, and the interface then has `noqueue`.
    pub fn limit_datagrams(&mut self, name: &str, limit: &DatagramLimit) -> SysResult<()> {
        const OPERATION: &str = "limit the rate of datagrams of";
        check_name(OPERATION, name)?;
        let index = self.link(name)?.index;
        let steps = if self.datagram_limit(name)?.is_some() {
            vec![(limited_class(index, limit), NLM_F_REPLACE)]
        } else {
            let mut steps = vec![(discipline(index), NLM_F_CREATE | NLM_F_REPLACE)];
            let filters =
                TCP.iter().map(|keys| (direct_filter(index, keys), NLM_F_CREATE | NLM_F_EXCL));
            steps.extend(filters);
            // without its class, the discipline sends everything directly
            steps.push((limited_class(index, limit), NLM_F_CREATE | NLM_F_EXCL));
            steps
        };
        for (request, flags) in steps {
            if let Err(refusal) = self.act(request, flags) {
                self.set_no_queue(name)?;
                return Err(refusal.during(OPERATION, quoted(name)));
            }
        }
        Ok(())
    }

    /// The limit of the rate of datagrams, as the kernel has it; `None` without one.
    ///
    /// # Errors
    /// `ENODEV` when this namespace has no interface of that name.
    pub fn datagram_limit(&mut self, name: &str) -> SysResult<Option<DatagramLimit>> {
        const OPERATION: &str = "read queue discipline of";
        check_name(OPERATION, name)?;
        let mut request = TcMessage::default();
        request.header.index = self.link(name)?.index as i32;
        let replies: Vec<RouteNetlinkMessage> = self
            .0
            .request(RouteNetlinkMessage::GetTrafficClass(request), NLM_F_DUMP)
            .map_err(|refusal| refusal.during(OPERATION, quoted(name)))?;
        Ok(replies.iter().find_map(|reply| match reply {
            RouteNetlinkMessage::NewTrafficClass(class) => limit_of(class),
            _ => None,
        }))
    }
}

/// The discipline: packets go to the class [`LIMITED`] if no filter says otherwise.
fn discipline(interface: u32) -> RouteNetlinkMessage {
    let mut message = message(interface, TcHandle::ROOT, HTB);
    message.header.handle = DIRECT;
    // struct tc_htb_glob: version, rate to quantum, default class, debug, packets sent directly
    let global = [TC_HTB_PROTOVER, 10, LIMITED.minor.into(), 0, 0];
    let global = global.iter().flat_map(|field| field.to_ne_bytes()).collect();
    message.attributes.push(options(vec![DefaultNla::new(TCA_HTB_INIT, global)]));
    RouteNetlinkMessage::NewQueueDiscipline(message)
}

/// The class with the rate.
fn limited_class(interface: u32, limit: &DatagramLimit) -> RouteNetlinkMessage {
    let mut message = message(interface, DIRECT, HTB);
    message.header.handle = LIMITED;
    let ticks = u32::try_from(limit.burst.as_nanos().div_ceil(TICK_NS)).unwrap_or(u32::MAX);
    let low = u32::try_from(limit.bytes_per_second).unwrap_or(u32::MAX);
    let layer = if limit.in_cells { TC_LINKLAYER_ATM } else { TC_LINKLAYER_ETHERNET };
    let mut parameters = vec![0; PARAMETERS];
    let mut put = |at: usize, bytes: &[u8]| parameters[at..at + bytes.len()].copy_from_slice(bytes);
    for spec in [RATE, CEILING] {
        put(spec + LINK_LAYER, &[layer]);
        put(spec + OVERHEAD, &limit.overhead.to_ne_bytes());
        put(spec + BYTES_PER_SECOND, &low.to_ne_bytes());
    }
    put(BUFFER, &ticks.to_ne_bytes());
    put(CEILING_BUFFER, &ticks.to_ne_bytes());
    put(QUANTUM, &TURN.to_ne_bytes());
    let wide = || limit.bytes_per_second.to_ne_bytes().to_vec();
    message.attributes.push(options(vec![
        DefaultNla::new(TCA_HTB_PARMS, parameters),
        DefaultNla::new(TCA_HTB_RATE64, wide()),
        DefaultNla::new(TCA_HTB_CEIL64, wide()),
    ]));
    RouteNetlinkMessage::NewTrafficClass(message)
}

/// Words of an IP packet that say TCP, as (offset, mask, value): for IPv4 version and protocol, for
/// IPv6 version and next header. A tag of a VLAN is not in these bytes.
const TCP: [[(i32, u32, u32); 2]; 2] = [
    [(0, 0xf000_0000, 0x4000_0000), (8, 0x00ff_0000, 0x0006_0000)],
    [(0, 0xf000_0000, 0x6000_0000), (4, 0x0000_ff00, 0x0000_0600)],
];

/// A filter that lets packets with these words pass the class.
fn direct_filter(interface: u32, words: &[(i32, u32, u32)]) -> RouteNetlinkMessage {
    let mut message = message(interface, DIRECT, TcFilterU32::KIND);
    message.header.info = PRIORITY << 16 | u32::from(EVERY_PROTOCOL.to_be());
    let mut selector = TcU32Selector::default();
    selector.flags = TcU32SelectorFlags::Terminal;
    selector.nkeys = words.len() as u8;
    selector.keys = words
        .iter()
        .map(|(offset, mask, value)| {
            let mut key = TcU32Key::default();
            (key.off, key.mask, key.val) = (*offset, *mask, *value);
            key
        })
        .collect();
    message.attributes.push(TcAttribute::Options(vec![
        TcOption::U32(TcFilterU32Option::ClassId(DIRECT)),
        TcOption::U32(TcFilterU32Option::Selector(selector)),
    ]));
    RouteNetlinkMessage::NewTrafficFilter(message)
}

/// The options of `htb`, which the packet crate has no type for.
fn options(of_htb: Vec<DefaultNla>) -> TcAttribute {
    TcAttribute::Options(of_htb.into_iter().map(TcOption::Other).collect())
}

/// The limit that a class of [`discipline`] has; `None` for any other class.
fn limit_of(class: &TcMessage) -> Option<DatagramLimit> {
    if class.header.handle != LIMITED {
        return None;
    }
    let is_htb =
        |attribute: &TcAttribute| matches!(attribute, TcAttribute::Kind(kind) if kind == HTB);
    class.attributes.iter().find(|attribute| is_htb(attribute))?;
    let nested = class.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Options(options) => options.iter().find_map(|option| match option {
            TcOption::Other(nla) => Some(nla),
            _ => None,
        }),
        _ => None,
    })?;
    let mut bytes = vec![0; nested.value_len()];
    nested.emit_value(&mut bytes);
    let (mut parameters, mut wide) = (None, None);
    for nla in netlink_packet_core::NlasIterator::new(&bytes).flatten() {
        match nla.kind() {
            TCA_HTB_PARMS => parameters = Some(nla.value().to_vec()),
            TCA_HTB_RATE64 => wide = nla.value().try_into().ok().map(u64::from_ne_bytes),
            _ => {}
        }
    }
    let parameters = parameters?;
    let word = |at: usize| {
        let bytes = parameters.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let overhead = parameters.get(RATE + OVERHEAD..RATE + OVERHEAD + 2)?;
    let ticks = u64::from(word(BUFFER)?);
    Some(DatagramLimit {
        // told only where 32 bits are not enough
        bytes_per_second: wide.unwrap_or(word(RATE + BYTES_PER_SECOND)?.into()),
        burst: Duration::from_nanos(ticks * TICK_NS as u64),
        overhead: u16::from_ne_bytes(overhead.try_into().ok()?),
        in_cells: parameters[RATE + LINK_LAYER] & TC_LINKLAYER_MASK == TC_LINKLAYER_ATM,
    })
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::Emitable;

    use super::*;

    const LIMIT: DatagramLimit = DatagramLimit {
        bytes_per_second: 125_250_000,
        burst: Duration::from_millis(5),
        overhead: 24,
        in_cells: false,
    };

    fn bytes_of(message: RouteNetlinkMessage) -> Vec<u8> {
        let (RouteNetlinkMessage::NewQueueDiscipline(message)
        | RouteNetlinkMessage::NewTrafficClass(message)
        | RouteNetlinkMessage::NewTrafficFilter(message)) = message
        else {
            panic!("{message:?}")
        };
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        bytes
    }

    /// The words of a message in the byte order of the machine.
    fn words(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    fn attribute(length: u32, kind: u32) -> u32 {
        u32::from_ne_bytes([(length & 255) as u8, (length >> 8) as u8, kind as u8, 0])
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_discipline_sends_what_no_filter_names_to_the_class() {
        // interface 7, handle 1:0, parent root; kind "htb"; options with TCA_HTB_INIT
        let expected = vec![
            0,
            7,
            0x1_0000,
            u32::MAX,
            0, //
            attribute(8, 1),
            u32::from_le_bytes(*b"htb\0"), //
            attribute(28, 2),
            attribute(24, 2),
            3,
            10,
            1,
            0,
            0,
        ];
        assert_eq!(words(&bytes_of(discipline(7))), expected);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_class_has_rate_burst_and_overhead() {
        let spec = [0x0018_0100, 0, 125_250_000];
        let mut expected = vec![
            0,
            7,
            0x1_0001,
            0x1_0000,
            0, //
            attribute(8, 1),
            u32::from_le_bytes(*b"htb\0"), //
            attribute(76, 2),
            attribute(48, 1),
        ];
        expected.extend(spec);
        expected.extend(spec);
        // 5 ms in ticks of 64 ns, twice; turn, level, priority
        expected.extend([78_125, 78_125, 65_536, 0, 0]);
        for kind in [6, 7] {
            expected.extend([attribute(12, kind), 125_250_000, 0]);
        }
        assert_eq!(words(&bytes_of(limited_class(7, &LIMIT))), expected);
    }

    #[test]
    fn cells_are_a_link_layer_of_both_rates() {
        let class = |in_cells| bytes_of(limited_class(7, &DatagramLimit { in_cells, ..LIMIT }));
        let (frames, cells) = (class(false), class(true));
        let differ = frames.iter().zip(&cells).filter(|(one, other)| one != other);
        assert_eq!(differ.collect::<Vec<_>>(), [(&1, &2); 2]);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_filter_sends_tcp_directly() {
        // u32: class 1:0; a terminal selector with two keys of mask, value, offset and offset mask
        let expected = vec![
            0,
            7,
            0,
            0x1_0000,
            0x1_0300, //
            attribute(8, 1),
            u32::from_le_bytes(*b"u32\0"), //
            attribute(64, 2),
            attribute(8, 1),
            0x1_0000, //
            attribute(52, 5),
            0x0002_0001,
            0,
            0,
            0, //
            0xf0,
            0x40,
            0,
            0, //
            0x0000_ff00,
            0x0000_0600,
            8,
            0,
        ];
        assert_eq!(words(&bytes_of(direct_filter(7, &TCP[0]))), expected);
    }

    #[test]
    fn a_class_reads_back() {
        let limits = [
            LIMIT,
            DatagramLimit { bytes_per_second: 125_000_000_000, ..LIMIT },
            DatagramLimit { overhead: 16, in_cells: true, ..LIMIT },
        ];
        for limit in limits {
            let RouteNetlinkMessage::NewTrafficClass(mut class) = limited_class(7, &limit) else {
                panic!("a class")
            };
            // as a reader has it: all options in one attribute
            let mut nested = Vec::new();
            for attribute in &class.attributes {
                let TcAttribute::Options(options) = attribute else { continue };
                nested = vec![0; options.as_slice().buffer_len()];
                options.as_slice().emit(&mut nested);
            }
            class.attributes.retain(|attribute| matches!(attribute, TcAttribute::Kind(_)));
            assert_eq!(limit_of(&class), None, "without options");
            class.attributes.push(options(vec![DefaultNla::new(2, nested)]));
            assert_eq!(limit_of(&class), Some(limit));
            class.header.handle.minor = 9;
            assert_eq!(limit_of(&class), None, "another class");
        }
    }
}
