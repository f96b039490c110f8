//! The queueing disciplines of an interface with their counters and the parameters that limit.

use std::fmt::Write as _;

use linkrate_model::BitRate;
use linkrate_model::discipline::{Discipline, DisciplineCounts, gathered};

use super::configured::{HANDLE, HEADER, INGRESS, PARENT, ROOT, TCA_KIND, TCA_OPTIONS};
use super::datagrams::{HTB, TCA_HTB_INIT, TICK_NS};
use crate::clock::monotonic_ns;
use crate::error::SysResult;
use crate::netlink::RouteSocket;
use crate::netlink::raw::{Raw, attributes, text, word};

// linux/rtnetlink.h, linux/gen_stats.h
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;

// linux/pkt_sched.h
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_CAKE_BASE_RATE64: u16 = 2;

/// `struct tc_tbf_qopt`: the offsets of the rate in bytes per second, the most bytes that may wait, and
/// the burst in ticks.
const TBF_RATE: usize = 8;
const TBF_LIMIT: usize = 24;
const TBF_BUFFER: usize = 28;

/// `struct tc_netem_qopt`: its length, before the attributes, and the offset of the most packets.
const NETEM_OPTIONS: usize = 24;
const NETEM_LIMIT: usize = 4;

impl RouteSocket {
    /// The disciplines of an interface: the root, what is below it, and that of ingress. Those that the
    /// kernel gave to the transmit queues are one.
    pub fn disciplines(&mut self, name: &str) -> SysResult<Vec<Discipline>> {
        let found = self.traffic_control(name, libc::RTM_GETQDISC, 0)?;
        let at_ns = monotonic_ns();
        let mut all: Vec<Discipline> =
            found.iter().map(|message| discipline(name, message, at_ns)).collect();
        if all.iter().any(|one| HAVE_CLASSES.contains(&one.kind.as_str())) {
            let classes = self.traffic_control(name, libc::RTM_GETTCLASS, 0)?;
            all.iter_mut().for_each(|one| add_classes(one, &classes));
        }
        Ok(gathered(all))
    }
}

/// Kinds whose classes have parameters that limit.
const HAVE_CLASSES: [&str; 4] = [HTB, "hfsc", "drr", "qfq"];

/// Adds the classes of a discipline to its parameters, so that a class that changes is seen.
fn add_classes(to: &mut Discipline, classes: &[Raw]) {
    if !HAVE_CLASSES.contains(&to.kind.as_str()) {
        return;
    }
    for class in classes {
        let handle = class.word(HANDLE).unwrap_or(0);
        if to.handle == format!("{:x}:", handle >> 16) {
            let options = class.attribute(HEADER, TCA_OPTIONS).unwrap_or_default();
            let parent = class.word(PARENT).unwrap_or(0);
            // writing to a String does not fail
            let _ = write!(to.parameters, " {handle:x} {parent:x} {}", digits(options));
        }
    }
}

fn discipline(interface: &str, message: &Raw, at_ns: u64) -> Discipline {
    let kind = text(message.attribute(HEADER, TCA_KIND).unwrap_or_default());
    let options = message.attribute(HEADER, TCA_OPTIONS).unwrap_or_default();
    let handle = message.word(HANDLE).unwrap_or(0) >> 16;
    let parent = match message.word(PARENT).unwrap_or(0) {
        ROOT => "root".to_owned(),
        INGRESS => "ingress".to_owned(),
        class => format!("{:x}:{:x}", class >> 16, class & 0xffff),
    };
    let mut reported = Discipline {
        interface: interface.to_owned(),
        handle: format!("{handle:x}:"),
        parent,
        queues: 1,
        parameters: parameters(&kind, options),
        counts: counts(message, at_ns),
        ..Discipline::default()
    };
    limits(&kind, options, &mut reported);
    reported.kind = kind;
    reported
}

/// The counters; zero where the kernel tells none.
fn counts(message: &Raw, at_ns: u64) -> DisciplineCounts {
    let all = message.attribute(HEADER, TCA_STATS2).unwrap_or_default();
    let of = |kind| attributes(all).find(|(found, _)| *found == kind).map_or(&[][..], |(_, v)| v);
    let (basic, queue) = (of(TCA_STATS_BASIC), of(TCA_STATS_QUEUE));
    let field = |at: usize| u64::from(queue.get(at..).and_then(word).unwrap_or(0));
    DisciplineCounts {
        time_ns: at_ns,
        bytes: wide(basic).unwrap_or(0),
        packets: basic.get(8..).and_then(word).unwrap_or(0).into(),
        backlog_packets: field(0),
        backlog_bytes: field(4),
        dropped: field(8),
        requeues: field(12),
        overlimits: field(16),
        backlog_opened_bytes: 0,
    }
}

/// The parameters that limit, by the kind.
fn limits(kind: &str, options: &[u8], to: &mut Discipline) {
    let limit = |at: usize| options.get(at..).and_then(word).map(u64::from);
    match kind {
        "tbf" => {
            let Some(parameters) = nested(options, TCA_TBF_PARMS) else { return };
            let field = |at: usize| parameters.get(at..).and_then(word).map(u64::from);
            let rate = nested(options, TCA_TBF_RATE64).and_then(wide).or_else(|| field(TBF_RATE));
            to.rate = rate.and_then(bit_rate);
            to.limit_bytes = field(TBF_LIMIT);
            to.burst_bytes = rate.zip(field(TBF_BUFFER)).and_then(|(rate, ticks)| {
                u64::try_from(u128::from(rate) * u128::from(ticks) * TICK_NS / 1_000_000_000).ok()
            });
        }
        "netem" => {
            let more = options.get(NETEM_OPTIONS..).unwrap_or_default();
            let narrow = || nested(more, TCA_NETEM_RATE).and_then(word).map(u64::from);
            let rate = nested(more, TCA_NETEM_RATE64).and_then(wide).or_else(narrow);
            to.rate = rate.and_then(bit_rate);
            to.limit_packets = limit(NETEM_LIMIT);
        }
        "cake" => {
            to.rate = nested(options, TCA_CAKE_BASE_RATE64).and_then(wide).and_then(bit_rate);
        }
        "pfifo" => to.limit_packets = limit(0),
        "bfifo" => to.limit_bytes = limit(0),
        _ => {}
    }
}

/// All parameters in hexadecimal digits, without the counters that two kinds have among them.
fn parameters(kind: &str, options: &[u8]) -> String {
    match kind {
        // the last word of struct tc_htb_glob counts packets
        HTB => attributes(options).fold(String::new(), |all, (found, value)| {
            let kept = value.len().saturating_sub(if found == TCA_HTB_INIT { 4 } else { 0 });
            all + &digits(&value[..kept])
        }),
        "gred" => String::new(),
        _ => digits(options),
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut all, byte| {
        // writing to a String does not fail
        let _ = write!(all, "{byte:02x}");
        all
    })
}

fn nested(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(found, value)| (found == kind).then_some(value))
}

/// The first eight bytes as a number in the byte order of the machine.
fn wide(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?))
}

/// Bytes per second as a rate; zero stands for none.
fn bit_rate(bytes_per_second: u64) -> Option<BitRate> {
    (bytes_per_second > 0).then_some(BitRate(bytes_per_second as f64 * 8.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nest(parts: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut all = Raw::new(0, []);
        parts.iter().for_each(|(kind, value)| all.push(*kind, value));
        all.body
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn reported(kind: &str, parent: u32, options: &[u8]) -> Raw {
        let mut message = Raw::new(libc::RTM_NEWQDISC, words(&[0, 7, 0x8001_0000, parent, 2]));
        message.push(TCA_KIND, format!("{kind}\0").as_bytes());
        message.push(TCA_OPTIONS, options);
        let basic = [5_000_000_000_u64.to_ne_bytes().to_vec(), words(&[70, 0])].concat();
        let queue = words(&[3, 4500, 11, 12, 13]);
        message.push(TCA_STATS2, &nest(&[(TCA_STATS_BASIC, basic), (TCA_STATS_QUEUE, queue)]));
        message
    }

    /// `struct tc_tbf_qopt` with this rate in bytes per second.
    fn tbf(rate: u32) -> Vec<u8> {
        words(&[0, 0, rate, 0, 0, 0, 100_000, 15_625, 0])
    }

    #[test]
    fn a_tbf_has_rate_limit_burst_and_counters() {
        let options = nest(&[(TCA_TBF_PARMS, tbf(62_500_000))]);
        let tbf = discipline("eth0", &reported("tbf", ROOT, &options), 9);
        assert_eq!(tbf.to_string(), "tbf 8001: at root, 500.0 Mb/s");
        // 15,625 ticks of 64 ns are 1 ms
        assert_eq!((tbf.limit_bytes, tbf.burst_bytes), (Some(100_000), Some(62_500)));
        assert_eq!(tbf.parameters, digits(&options));
        let expected = DisciplineCounts {
            time_ns: 9,
            bytes: 5_000_000_000,
            packets: 70,
            dropped: 11,
            overlimits: 13,
            requeues: 12,
            backlog_bytes: 4500,
            backlog_packets: 3,
            backlog_opened_bytes: 0,
        };
        assert_eq!(tbf.counts, expected);
    }

    #[test]
    fn a_rate_of_more_than_32_bits_has_an_attribute_of_its_own() {
        let rate = 12_500_000_000_u64.to_ne_bytes().to_vec();
        let options = nest(&[(TCA_TBF_PARMS, tbf(u32::MAX)), (TCA_TBF_RATE64, rate.clone())]);
        let found = discipline("eth0", &reported("tbf", 0x1_0010, &options), 0);
        assert_eq!((found.rate, found.parent.as_str()), (Some(BitRate(1e11)), "1:10"));
        let mut options = words(&[0, 1000, 0, 0, 0, 0]);
        options.extend(nest(&[(TCA_NETEM_RATE, words(&[125_000_000, 0, 0, 0]))]));
        let netem = discipline("eth0", &reported("netem", ROOT, &options), 0);
        assert_eq!((netem.rate, netem.limit_packets), (Some(BitRate(1e9)), Some(1000)));
        let cake = nest(&[(TCA_CAKE_BASE_RATE64, vec![0; 8])]);
        assert_eq!(discipline("eth0", &reported("cake", ROOT, &cake), 0).rate, None, "unlimited");
        let fifo = |kind| discipline("eth0", &reported(kind, ROOT, &words(&[30])), 0);
        assert_eq!(fifo("pfifo").limit_packets, Some(30));
        assert_eq!(fifo("bfifo").limit_bytes, Some(30));
    }

    #[test]
    fn packets_that_an_htb_counted_are_no_parameter() {
        let with = |default, packets| {
            let global = words(&[3, 10, default, 0, packets]);
            let options = nest(&[(TCA_HTB_INIT, global), (5, words(&[1000]))]);
            discipline("eth0", &reported(HTB, ROOT, &options), 0)
        };
        assert!(with(1, 5).is_same(&with(1, 6)));
        assert!(!with(1, 5).is_same(&with(2, 5)));
    }

    #[test]
    fn a_class_that_changes_changes_its_discipline() {
        let root = discipline("eth0", &reported(HTB, ROOT, &[]), 0);
        let class = |handle: u32, rate: u32| {
            let mut message = Raw::new(libc::RTM_NEWTCLASS, words(&[0, 7, handle, 0x8001_0000, 0]));
            message.push(TCA_KIND, b"htb\0");
            message.push(TCA_OPTIONS, &nest(&[(1, words(&[0, 0, rate]))]));
            message
        };
        let with = |classes: &[Raw]| {
            let mut root = root.clone();
            add_classes(&mut root, classes);
            root
        };
        let before = with(&[class(0x8001_0010, 1000)]);
        assert!(before.is_same(&with(&[class(0x8001_0010, 1000)])));
        assert!(!before.is_same(&with(&[class(0x8001_0010, 500)])));
        assert!(!before.is_same(&with(&[class(0x8001_0010, 1000), class(0x8001_0020, 1)])));
        // those of another discipline do not matter
        assert!(before.is_same(&with(&[class(0x8001_0010, 1000), class(0x8002_0010, 1)])));
        assert_eq!(before.to_string(), root.to_string());
    }

    #[test]
    fn the_loopback_has_one_discipline_at_most() {
        let mut socket = RouteSocket::open().unwrap();
        let found = socket.disciplines("lo").unwrap();
        assert!(found.iter().all(|one| one.interface == "lo" && one.parent == "root"), "{found:?}");
        assert!(found.len() <= 1, "{found:?}");
        assert!(socket.disciplines("absent0").is_err());
    }
}
