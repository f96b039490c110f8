//! Queue disciplines of interfaces (tc(8)): their kinds, the parameters that limit, and their counters.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::BitRate;

/// One queue discipline of an interface.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Discipline {
    /// The interface.
    pub interface: String,
    /// Its kind by the kernel's name (`tbf`, `fq_codel`, `noqueue`).
    pub kind: String,
    /// Its handle (`8001:`); `0:` for one that the kernel gave the interface itself.
    pub handle: String,
    /// `root`, `ingress`, or the class of another discipline (`1:10`).
    pub parent: String,
    /// How many equal disciplines of the kernel this is, one for each transmit queue.
    pub queues: u32,
    /// The rate that it holds packets back to; absent where its kind has none, or none is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// What may leave at once after a pause, bytes; absent where its kind has no such parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_bytes: Option<u64>,
    /// The most that may wait, bytes; absent where its kind counts packets, or has no such parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// The same in packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_packets: Option<u64>,
    /// All its parameters as the kernel tells them, in hexadecimal digits, without counters. Empty in
    /// the evidence of a run: they serve to see a change.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parameters: String,
    /// What it counted.
    pub counts: DisciplineCounts,
}

/// Counters of a queue discipline (`struct gnet_stats_basic`, `struct gnet_stats_queue`,
/// linux/gen_stats.h): since it was made, or over a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DisciplineCounts {
    /// When they were read on CLOCK_MONOTONIC, or the length of the measurement; ns.
    pub time_ns: u64,
    /// Bytes that left it, headers included.
    pub bytes: u64,
    /// Packets that left it.
    pub packets: u64,
    /// Packets that it dropped.
    pub dropped: u64,
    /// How often it held packets back that were due by their order. What counts is up to its kind.
    pub overlimits: u64,
    /// Packets that the driver did not take at first.
    pub requeues: u64,
    /// Bytes that waited at the reading; of a measurement when it closed.
    pub backlog_bytes: u64,
    /// Packets that waited.
    pub backlog_packets: u64,
    /// Bytes that waited when the measurement began; zero in a reading.
    pub backlog_opened_bytes: u64,
}

impl DisciplineCounts {
    /// The counts since `earlier`. The kernel counts packets and drops with 32 bits, which wrap.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let wrapped = |now: u64, then: u64| u64::from((now as u32).wrapping_sub(then as u32));
        Self {
            time_ns: self.time_ns.saturating_sub(earlier.time_ns),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            packets: wrapped(self.packets, earlier.packets),
            dropped: wrapped(self.dropped, earlier.dropped),
            overlimits: wrapped(self.overlimits, earlier.overlimits),
            requeues: wrapped(self.requeues, earlier.requeues),
            backlog_opened_bytes: earlier.backlog_bytes,
            ..self
        }
    }

    /// Whether packets waited at both ends of the measurement, and some were held back or dropped within.
    pub fn held_back(&self) -> bool {
        let waited = self.backlog_opened_bytes > 0 && self.backlog_bytes > 0;
        waited && (self.overlimits > 0 || self.dropped > 0)
    }

    fn plus(self, more: Self) -> Self {
        Self {
            time_ns: self.time_ns,
            bytes: self.bytes.saturating_add(more.bytes),
            packets: self.packets.saturating_add(more.packets),
            dropped: self.dropped.saturating_add(more.dropped),
            overlimits: self.overlimits.saturating_add(more.overlimits),
            requeues: self.requeues.saturating_add(more.requeues),
            backlog_bytes: self.backlog_bytes.saturating_add(more.backlog_bytes),
            backlog_packets: self.backlog_packets.saturating_add(more.backlog_packets),
            backlog_opened_bytes: self
                .backlog_opened_bytes
                .saturating_add(more.backlog_opened_bytes),
        }
    }
}

impl Discipline {
    /// What left it, in per cent of its rate; `None` without a rate or a measurement.
    pub fn rate_percent(&self) -> Option<f64> {
        let seconds = self.counts.time_ns as f64 / 1e9;
        let rate = self.rate?.0;
        (seconds > 0.0 && rate > 0.0)
            .then(|| self.counts.bytes as f64 * 8.0 / seconds * 100.0 / rate)
    }

    /// Whether both are one discipline with the same parameters, whatever they counted.
    pub fn is_same(&self, other: &Self) -> bool {
        Self { counts: other.counts, ..self.clone() } == *other
    }

    /// Whether the kernel gave it to a transmit queue, beside others that are equal.
    fn is_of_a_queue(&self) -> bool {
        self.handle == "0:" && self.parent != "root"
    }
}

impl fmt::Display for Discipline {
    /// `tbf 8001: at root, 500.0 Mb/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} at {}", self.kind, self.handle, self.parent)?;
        self.rate.map_or(Ok(()), |rate| write!(f, ", {rate}"))
    }
}

/// The disciplines with those of the kernel's queues that are equal as one, whose counts are added up.
pub fn gathered(disciplines: Vec<Discipline>) -> Vec<Discipline> {
    let mut all: Vec<Discipline> = Vec::new();
    for one in disciplines {
        let equal = all.iter_mut().find(|other| {
            let alike = (&other.interface, &other.kind, &other.parameters)
                == (&one.interface, &one.kind, &one.parameters);
            alike && other.is_of_a_queue() && one.is_of_a_queue()
        });
        match equal {
            Some(other) => {
                other.queues += 1;
                other.counts = other.counts.plus(one.counts);
            }
            None => all.push(one),
        }
    }
    all
}

/// What the disciplines counted between two readings: of those that are in both, without the
/// parameters that only serve to see a change.
pub fn over_measurement(opened: &[Discipline], closed: &[Discipline]) -> Vec<Discipline> {
    let both = closed.iter().filter_map(|after| {
        let before = opened.iter().find(|before| before.is_same(after))?;
        let counts = after.counts.since(before.counts);
        Some(Discipline { counts, parameters: String::new(), ..after.clone() })
    });
    both.collect()
}

/// The disciplines of a client's interface, by a name that no interface of the SUT has.
pub fn of_client(number: usize, disciplines: &[Discipline]) -> Vec<Discipline> {
    let named = disciplines.iter().map(|one| {
        let interface = format!("client {number}: {}", one.interface);
        Discipline { interface, ..one.clone() }
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, handle: &str, parent: &str) -> Discipline {
        Discipline {
            interface: "eth0".to_owned(),
            kind: kind.to_owned(),
            handle: handle.to_owned(),
            parent: parent.to_owned(),
            queues: 1,
            ..Discipline::default()
        }
    }

    fn counted(discipline: Discipline, time_ns: u64, bytes: u64, dropped: u64) -> Discipline {
        let counts = DisciplineCounts { time_ns, bytes, dropped, ..DisciplineCounts::default() };
        Discipline { counts, ..discipline }
    }

    #[test]
    fn equal_queues_are_one_and_others_are_not() {
        let mq = of("mq", "0:", "root");
        let queue =
            |number, bytes| counted(of("fq_codel", "0:", &format!("0:{number}")), 5, bytes, 1);
        let own = of("fq_codel", "7:", "1:3");
        let all = gathered(vec![mq.clone(), queue(2, 10), queue(1, 30), own.clone()]);
        let [first, queues, last] = &all[..] else { panic!("{all:?}") };
        assert_eq!((first, last), (&mq, &own));
        assert_eq!((queues.queues, queues.counts.bytes, queues.counts.dropped), (2, 40, 2));
        assert_eq!(queues.counts.time_ns, 5);
    }

    #[test]
    fn a_window_has_the_difference_of_what_stayed() {
        let tbf = Discipline { rate: Some(BitRate(1e9)), ..of("tbf", "8001:", "root") };
        let tbf = Discipline { parameters: "00ff".to_owned(), ..tbf };
        let mut opened = counted(tbf.clone(), 1_000_000_000, 500, u64::from(u32::MAX));
        opened.counts.backlog_bytes = 3000;
        let mut closed = counted(tbf.clone(), 3_000_000_000, 500 + 248_000_000, 4);
        closed.counts.backlog_bytes = 1500;
        let both = over_measurement(&[opened.clone()], &[closed.clone()]);
        let [one] = &both[..] else { panic!("{both:?}") };
        assert_eq!((one.counts.time_ns, one.counts.dropped), (2_000_000_000, 5), "32 bits wrap");
        assert_eq!((one.counts.backlog_opened_bytes, one.counts.backlog_bytes), (3000, 1500));
        assert!(one.counts.held_back());
        assert!((one.rate_percent().unwrap() - 99.2).abs() < 1e-9);
        assert_eq!(one.parameters, "");
        // other parameters: another discipline
        let changed = Discipline { parameters: "00fe".to_owned(), ..closed };
        assert!(over_measurement(&[opened], &[changed]).is_empty());
    }

    #[test]
    fn a_queue_that_was_empty_held_nothing_back() {
        let counts = DisciplineCounts {
            overlimits: 9,
            backlog_bytes: 1500,
            backlog_opened_bytes: 1500,
            ..DisciplineCounts::default()
        };
        assert!(counts.held_back());
        assert!(!DisciplineCounts { backlog_opened_bytes: 0, ..counts }.held_back());
        assert!(!DisciplineCounts { backlog_bytes: 0, ..counts }.held_back());
        assert!(!DisciplineCounts { overlimits: 0, ..counts }.held_back());
        assert!(DisciplineCounts { overlimits: 0, dropped: 1, ..counts }.held_back());
    }

    #[test]
    fn a_discipline_is_named_with_its_rate() {
        let tbf = Discipline { rate: Some(BitRate(5e8)), ..of("tbf", "8001:", "root") };
        assert_eq!(tbf.to_string(), "tbf 8001: at root, 500.0 Mb/s");
        assert_eq!(of("noqueue", "0:", "root").to_string(), "noqueue 0: at root");
        assert_eq!(tbf.rate_percent(), None, "no window");
    }
}
