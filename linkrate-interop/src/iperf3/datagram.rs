//! Datagrams: the first one that opens a UDP stream, the header of each later one, and what a receiver makes
//! of them.

/// The datagrams with which clients open a stream, and what a server answers to each: text since 3.10, in the
/// order of octets of the client's machine, and a number before.
const GREETINGS: [([u8; 4], [u8; 4]); 4] = [
    (*b"9876", *b"6789"),
    (*b"6789", *b"9876"),
    (123_456_789_u32.to_le_bytes(), 987_654_321_u32.to_le_bytes()),
    (123_456_789_u32.to_be_bytes(), 987_654_321_u32.to_be_bytes()),
];

/// The datagram with which linkrate's client opens a stream: that of 3.10 and later, which earlier servers take too.
pub const GREETING: [u8; 4] = GREETINGS[0].0;

/// The answer to the first datagram of a stream; `None` to a datagram that opens no stream.
#[must_use]
pub fn answer(greeting: &[u8]) -> Option<[u8; 4]> {
    GREETINGS.iter().find(|(known, _)| known == greeting).map(|(_, answer)| *answer)
}

/// How many bits the number of a datagram has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterWidth {
    /// 32, unless the client asks for more.
    Narrow,
    /// 64 (`--udp-counters-64bit`).
    Wide,
}

impl CounterWidth {
    /// Octets of the header of a datagram: two words of time, and its number.
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Narrow => 12,
            Self::Wide => 16,
        }
    }
}

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// When it was sent by the clock of the sender, µs.
    pub sent_us: u64,
    /// Its number, from 1. Negative numbers end a stream of iperf 2; no iperf3 sends them.
    pub number: u64,
}

impl Datagram {
    /// Writes the header to the beginning of a payload; panics if that is shorter than [`CounterWidth::header_bytes`].
    pub fn emit(self, width: CounterWidth, payload: &mut [u8]) {
        let word = |number: u64| (number as u32).to_be_bytes();
        payload[..4].copy_from_slice(&word(self.sent_us / 1_000_000));
        payload[4..8].copy_from_slice(&word(self.sent_us % 1_000_000));
        match width {
            CounterWidth::Narrow => payload[8..12].copy_from_slice(&word(self.number)),
            CounterWidth::Wide => payload[8..16].copy_from_slice(&self.number.to_be_bytes()),
        }
    }

    /// Reads it; `None` for a payload that is too short, or microseconds that are no fraction of a second.
    #[must_use]
    pub fn parse(width: CounterWidth, payload: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            Some(u64::from(u32::from_be_bytes(payload.get(at..at + 4)?.try_into().ok()?)))
        };
        let (seconds, micros) = (word(0)?, word(4)?);
        let number = match width {
            CounterWidth::Narrow => word(8)?,
            CounterWidth::Wide => u64::from_be_bytes(payload.get(8..16)?.try_into().ok()?),
        };
        (micros < 1_000_000).then_some(Self { sent_us: seconds * 1_000_000 + micros, number })
    }
}

/// What a receiver has seen of a stream of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Arrivals {
    /// The highest number so far.
    pub highest: u64,
    /// Numbers below it that have not arrived.
    pub lost: u64,
    /// Datagrams that arrived behind one with a higher number.
    pub out_of_order: u64,
    /// Interarrival jitter, µs (RFC 1889, 6.3.1).
    pub jitter_us: f64,
    transit_us: Option<i64>,
}

impl Arrivals {
    /// Forgets the jitter so far: that of the beginning that is left out.
    pub fn restart_jitter(&mut self) {
        self.jitter_us = 0.0;
    }

    /// Counts a datagram that arrived at `now_us` of the receiver's clock.
    pub fn add(&mut self, datagram: Datagram, now_us: u64) {
        if datagram.number > self.highest {
            self.lost += datagram.number - self.highest - 1;
            self.highest = datagram.number;
        } else {
            self.out_of_order += 1;
            // it had been taken for lost
            self.lost = self.lost.saturating_sub(1);
        }
        // both clocks may be off by any constant, which the difference does not have
        let transit_us = now_us.wrapping_sub(datagram.sent_us).cast_signed();
        if let Some(before) = self.transit_us {
            let change = transit_us.wrapping_sub(before).unsigned_abs() as f64;
            self.jitter_us += (change - self.jitter_us) / 16.0;
        }
        self.transit_us = Some(transit_us);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arrive(numbers: &[u64]) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for (at, number) in (0..).zip(numbers) {
            arrivals.add(Datagram { sent_us: at * 100, number: *number }, at * 100 + 7_000);
        }
        arrivals
    }

    #[test]
    fn a_stream_is_opened_by_every_version() {
        // since 3.10 and before, on machines of either order of octets
        assert_eq!(answer(b"9876"), Some(*b"6789"));
        assert_eq!(answer(b"6789"), Some(*b"9876"));
        assert_eq!(answer(&[0x15, 0xcd, 0x5b, 0x07]), Some([0xb1, 0x68, 0xde, 0x3a]));
        assert_eq!(answer(&[0x07, 0x5b, 0xcd, 0x15]), Some([0x3a, 0xde, 0x68, 0xb1]));
        for other in [&b""[..], b"987", b"98765", b"0000"] {
            assert_eq!(answer(other), None);
        }
    }

    #[test]
    fn losses_and_order_are_distinguished() {
        let counts = |numbers: &[u64]| {
            let seen = arrive(numbers);
            (seen.highest, seen.lost, seen.out_of_order)
        };
        assert_eq!(counts(&[1, 2, 3]), (3, 0, 0));
        assert_eq!(counts(&[1, 3, 4]), (4, 1, 0));
        assert_eq!(counts(&[1, 3, 2, 4]), (4, 0, 1));
        assert_eq!(counts(&[4]), (4, 3, 0));
        // nothing makes a loss negative
        assert_eq!(counts(&[1, 1, 1]), (1, 0, 2));
    }

    #[test]
    fn jitter_is_that_of_the_rfc() {
        let mut arrivals = Arrivals::default();
        // clocks a year apart
        let offset = 31_536_000_000_000;
        for (number, delay_us) in (1..).zip([100, 260, 100]) {
            let sent_us = offset + number * 1000;
            arrivals.add(Datagram { sent_us, number }, number * 1000 + delay_us);
        }
        let first = 160.0 / 16.0;
        assert!((arrivals.jitter_us - (first + (160.0 - first) / 16.0)).abs() < 1e-9);
        assert_eq!(arrive(&[1, 2, 3, 4]).jitter_us, 0.0);
    }

    proptest! {
        #[test]
        fn a_header_reads_back(sent_us in 0_u64..4_294_967_296_000_000, number: u64) {
            let mut payload = [0xaa; 20];
            let wide = Datagram { sent_us, number };
            wide.emit(CounterWidth::Wide, &mut payload);
            prop_assert_eq!(Datagram::parse(CounterWidth::Wide, &payload), Some(wide));
            let narrow = Datagram { number: number & 0xffff_ffff, ..wide };
            narrow.emit(CounterWidth::Narrow, &mut payload);
            prop_assert_eq!(Datagram::parse(CounterWidth::Narrow, &payload), Some(narrow));
            for width in [CounterWidth::Narrow, CounterWidth::Wide] {
                let short = &payload[..width.header_bytes() - 1];
                prop_assert_eq!(Datagram::parse(width, short), None);
            }
        }

        #[test]
        fn any_numbers_are_counted_without_wrapping(
            numbers in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..50),
        ) {
            let mut arrivals = Arrivals::default();
            for (sent_us, number, now_us) in numbers {
                arrivals.add(Datagram { sent_us, number }, now_us);
                prop_assert!(arrivals.lost <= arrivals.highest && arrivals.jitter_us >= 0.0);
            }
        }
    }
}
