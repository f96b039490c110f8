//! Frames or cells under way in one direction, in the order in which they arrive.

use std::collections::VecDeque;

use crate::pdu::Pdu;

/// Memory of the frames under way in one direction, at most: as much as 10 Gb/s carries in 100 ms.
const MAX_BYTES: usize = 128 << 20;

/// From so much memory on, short frames are copied out of the blocks that hold them. Before, a copy
/// would cost more than it saves.
const COPY_BYTES: usize = 4 << 20;

/// Memory of an entry beside its frames.
const ENTRY_BYTES: usize = size_of::<Entry>();

/// Frames or cells between two places, with the time at which their last bit arrives. Those that arrive
/// together may be one entry. Those that do not fit into [`MAX_BYTES`] are dropped and
/// counted.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Frames that were dropped since [`take_dropped`](Self::take_dropped).
    dropped: u64,
}

#[derive(Debug)]
struct Entry {
    at_ps: u64,
    pdu: Pdu,
    /// Memory that it takes.
    bytes: usize,
}

impl InFlight {
    /// Adds frames. Those that are to arrive at the same time keep their order.
    pub(crate) fn add(&mut self, at_ps: u64, pdu: impl Into<Pdu>) {
        let pdu = pdu.into();
        let pdu = if self.bytes < COPY_BYTES { pdu } else { pdu.compact() };
        let bytes = ENTRY_BYTES + pdu.memory();
        if self.bytes + bytes > MAX_BYTES {
            self.dropped += pdu.count();
            return;
        }
        self.bytes += bytes;
        let entry = Entry { at_ps, pdu, bytes };
        match self.entries.back() {
            Some(last) if last.at_ps > at_ps => {
                let place = self.entries.partition_point(|other| other.at_ps <= at_ps);
                self.entries.insert(place, entry);
            }
            _ => self.entries.push_back(entry),
        }
    }

    /// The line is cut at `now_ps`: frames whose last bit has not arrived are dropped.
    pub(crate) fn cut(&mut self, now_ps: u64) {
        let arrived = self.entries.partition_point(|entry| entry.at_ps <= now_ps);
        for Entry { pdu, bytes, .. } in self.entries.drain(arrived..) {
            self.bytes -= bytes;
            self.dropped += pdu.count();
        }
    }

    /// The number of frames that were dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// The next frames that have arrived by `now_ps`.
    pub(crate) fn arrived(&mut self, now_ps: u64) -> Option<(u64, Pdu)> {
        if self.first_ps()? > now_ps {
            return None;
        }
        let Entry { at_ps, pdu, bytes } = self.entries.pop_front()?;
        self.bytes -= bytes;
        Some((at_ps, pdu))
    }

    /// When the next frame arrives.
    pub(crate) fn first_ps(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.at_ps)
    }

    /// When frames must be taken: at the arrival of burst number `batch`, but no later than `latest`
    /// says for the arrival of the first.
    pub(crate) fn take_by_ps(&self, batch: usize, latest: impl Fn(u64) -> u64) -> Option<u64> {
        let latest_ps = latest(self.first_ps()?);
        let batch_ps = self.entries.get(batch.max(1) - 1).map(|entry| entry.at_ps);
        Some(batch_ps.map_or(latest_ps, |at_ps| at_ps.min(latest_ps)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use linkrate_wire::lro::Parts;
    use linkrate_wire::segment::Cut;

    use super::*;
    use crate::frame::{Block, Burst, Train, WireFrame};

    /// A frame of `header` and `payload` bytes whose payload lies in a block of its own.
    fn in_block(header: usize, payload: usize) -> Burst {
        let cuts = vec![Cut { header: 0..header as u32, payload: 0..payload as u32, sum: None }];
        let (headers, block) = (vec![1; header], Some(Arc::new(Block::new())));
        let train = Train { headers, cuts, block, base: 12, ..Train::default() };
        Burst::of(&Arc::new(train), 0..1)
    }

    #[test]
    fn frames_that_are_long_under_way_are_bounded_in_bytes() {
        for (frames, payload) in [(600_000, 300), (200_000, 1448), (20_000, 60_000)] {
            let mut in_flight = InFlight::default();
            (0..frames).for_each(|number| in_flight.add(number, in_block(54, payload)));
            let (held, dropped) = (in_flight.entries.len() as u64, in_flight.take_dropped());
            assert_eq!((held + dropped, in_flight.take_dropped()), (frames, 0));
            assert!(dropped > 0, "{payload}");
            let in_blocks = |entry: &Entry| {
                let burst = entry.pdu.clone().into_frames().unwrap();
                burst.place().map_or(0, |(block, _)| block.size())
            };
            let blocks: usize = in_flight.entries.iter().map(in_blocks).sum();
            assert!(blocks < MAX_BYTES, "{payload}: {blocks}");
            // and most of the memory is frames
            assert!(held as usize * (54 + payload) > MAX_BYTES / 3, "{payload}: {held} frames");
            while in_flight.arrived(u64::MAX).is_some() {}
            assert_eq!(in_flight.bytes, 0);
            in_flight.add(0, in_block(54, payload));
            assert_eq!(in_flight.take_dropped(), 0);
        }
    }

    #[test]
    fn a_line_that_is_cut_loses_what_has_not_arrived() {
        let mut in_flight = InFlight::default();
        for (at_ps, name) in [(5, b'a'), (7, b'b'), (9, b'c')] {
            in_flight.add(at_ps, WireFrame::copied(vec![name]));
        }
        in_flight.cut(7);
        assert_eq!(in_flight.take_dropped(), 1);
        let rest = std::iter::from_fn(|| in_flight.arrived(u64::MAX)).count();
        assert_eq!((rest, in_flight.bytes), (2, 0));
    }

    #[test]
    fn frames_come_in_the_order_of_their_times() {
        let mut in_flight = InFlight::default();
        for (at_ps, name) in [(5, b'a'), (7, b'b'), (5, b'c'), (1, b'd')] {
            in_flight.add(at_ps, WireFrame::copied(vec![name]));
        }
        assert_eq!(in_flight.take_by_ps(2, |first| first + 100), Some(5));
        assert_eq!(in_flight.take_by_ps(9, |first| first + 3), Some(4));
        assert!(in_flight.arrived(0).is_none());
        let order: Vec<u8> = std::iter::from_fn(|| in_flight.arrived(6))
            .map(|(_, pdu)| pdu.into_frames().unwrap().head()[0])
            .collect();
        assert_eq!(order, *b"dac");
        assert_eq!(in_flight.first_ps(), Some(7));
    }
}
