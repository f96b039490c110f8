//! Frames or cells under way in one direction, in the order in which they arrive.

use std::collections::VecDeque;

use crate::load::Load;

/// Memory of the frames under way in one direction, at most: as much as 10 Gb/s carries in 100 ms.
const MOST_BYTES: usize = 128 << 20;

/// From so much memory on, short frames are copied out of the blocks that hold them. Before, a copy
/// would cost more than it saves.
const COPY_BYTES: usize = 4 << 20;

/// Memory of an entry beside its frames.
const ENTRY_BYTES: usize = size_of::<Entry>();

/// Frames or cells between two places, with the time at which their last bit arrives. Those that arrive
/// together may be one entry. Those that do not fit into [`MOST_BYTES`] are dropped and
/// counted.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Frames that were dropped since [`take_dropped`](Self::take_dropped).
    dropped: u64,
}

#[derive(Debug)]
struct Entry {
    at_ps: u64,
    load: Load,
    /// Memory that it takes.
    bytes: usize,
}

impl Flight {
    /// Adds frames. Those that are to arrive at the same time keep their order.
    pub(crate) fn add(&mut self, at_ps: u64, load: impl Into<Load>) {
        let load = load.into();
        let load = if self.bytes < COPY_BYTES { load } else { load.compact() };
        let bytes = ENTRY_BYTES + load.memory();
        if self.bytes + bytes > MOST_BYTES {
            self.dropped += load.count();
            return;
        }
        self.bytes += bytes;
        let entry = Entry { at_ps, load, bytes };
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
        for Entry { load, bytes, .. } in self.entries.drain(arrived..) {
            self.bytes -= bytes;
            self.dropped += load.count();
        }
    }

    /// The number of frames that were dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// The next frames that have arrived by `now_ps`.
    pub(crate) fn arrived(&mut self, now_ps: u64) -> Option<(u64, Load)> {
        if self.first_ps()? > now_ps {
            return None;
        }
        let Entry { at_ps, load, bytes } = self.entries.pop_front()?;
        self.bytes -= bytes;
        Some((at_ps, load))
    }

    /// When the next frame arrives.
    pub(crate) fn first_ps(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.at_ps)
    }

    /// When frames must be taken: at the arrival of burst number `batch`, but no later than `latest`
    /// says for the arrival of the first.
    pub(crate) fn worth_ps(&self, batch: usize, latest: impl Fn(u64) -> u64) -> Option<u64> {
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
            let mut flight = Flight::default();
            (0..frames).for_each(|number| flight.add(number, in_block(54, payload)));
            let (held, dropped) = (flight.entries.len() as u64, flight.take_dropped());
            assert_eq!((held + dropped, flight.take_dropped()), (frames, 0));
            assert!(dropped > 0, "{payload}");
            let in_blocks = |entry: &Entry| {
                let burst = entry.load.clone().into_frames().unwrap();
                burst.place().map_or(0, |(block, _)| block.size())
            };
            let blocks: usize = flight.entries.iter().map(in_blocks).sum();
            assert!(blocks < MOST_BYTES, "{payload}: {blocks}");
            // and most of the memory is frames
            assert!(held as usize * (54 + payload) > MOST_BYTES / 3, "{payload}: {held} frames");
            while flight.arrived(u64::MAX).is_some() {}
            assert_eq!(flight.bytes, 0);
            flight.add(0, in_block(54, payload));
            assert_eq!(flight.take_dropped(), 0);
        }
    }

    #[test]
    fn a_line_that_is_cut_loses_what_has_not_arrived() {
        let mut flight = Flight::default();
        for (at_ps, name) in [(5, b'a'), (7, b'b'), (9, b'c')] {
            flight.add(at_ps, WireFrame::copied(vec![name]));
        }
        flight.cut(7);
        assert_eq!(flight.take_dropped(), 1);
        let rest = std::iter::from_fn(|| flight.arrived(u64::MAX)).count();
        assert_eq!((rest, flight.bytes), (2, 0));
    }

    #[test]
    fn frames_come_in_the_order_of_their_times() {
        let mut flight = Flight::default();
        for (at_ps, name) in [(5, b'a'), (7, b'b'), (5, b'c'), (1, b'd')] {
            flight.add(at_ps, WireFrame::copied(vec![name]));
        }
        assert_eq!(flight.worth_ps(2, |first| first + 100), Some(5));
        assert_eq!(flight.worth_ps(9, |first| first + 3), Some(4));
        assert!(flight.arrived(0).is_none());
        let order: Vec<u8> = std::iter::from_fn(|| flight.arrived(6))
            .map(|(_, load)| load.into_frames().unwrap().head()[0])
            .collect();
        assert_eq!(order, *b"dac");
        assert_eq!(flight.first_ps(), Some(7));
    }
}
