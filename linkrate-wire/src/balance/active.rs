//! The active ports, and whose turn it is.

use super::{MAX_PORTS, PortIndex};

#[derive(Debug, Clone)]
pub(super) struct Active {
    /// The first `count` of them are meant.
    ports: [PortIndex; MAX_PORTS],
    count: usize,
    /// Whose turn it is; less than `count` while there is a port.
    turn: usize,
    /// A bit for each port.
    mask: u64,
}

impl Active {
    /// Ports 0 to `count`, at most [`MAX_PORTS`].
    pub(super) fn all(count: usize) -> Self {
        let ports = [PortIndex(0); MAX_PORTS];
        let mut active = Self { ports, count: 0, turn: 0, mask: 0 };
        (0..).take(count).for_each(|port| active.add(PortIndex(port)));
        active
    }

    /// Makes these the active ports, each once. The turn stays with the port that has it, or goes
    /// to the first.
    pub(super) fn set(&mut self, ports: &[PortIndex]) {
        let turn = self.ports().get(self.turn).copied();
        (self.count, self.mask) = (0, 0);
        ports.iter().for_each(|port| self.add(*port));
        let place = self.ports().iter().position(|port| Some(*port) == turn);
        self.turn = place.unwrap_or(0);
    }

    fn add(&mut self, port: PortIndex) {
        if port.at() < MAX_PORTS && !self.has(port) {
            self.ports[self.count] = port;
            self.count += 1;
            self.mask |= 1 << port.0;
        }
    }

    pub(super) fn ports(&self) -> &[PortIndex] {
        &self.ports[..self.count]
    }

    pub(super) fn has(&self, port: PortIndex) -> bool {
        self.mask.checked_shr(port.0.into()).unwrap_or(0) & 1 == 1
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<PortIndex> {
        let port = *self.ports().get(self.turn)?;
        self.turn += 1;
        if self.turn == self.count {
            self.turn = 0;
        }
        Some(port)
    }

    /// Passes over `turns` ports.
    pub(super) fn pass(&mut self, turns: usize) {
        for _ in 0..turns % self.count.max(1) {
            self.next();
        }
    }

    /// The port with the smallest `load`; of several the next in turn. The turn continues behind it
    /// only if there were several.
    #[inline]
    pub(super) fn least(&mut self, load: impl Fn(PortIndex) -> u64) -> Option<PortIndex> {
        let (before, after) = self.ports().split_at(self.turn.min(self.count));
        let least = after.iter().chain(before).copied().min_by_key(|port| load(*port))?;
        if self.ports().get(self.turn) == Some(&least) {
            self.next();
        }
        Some(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports<const N: usize>(numbers: [u8; N]) -> [PortIndex; N] {
        numbers.map(PortIndex)
    }

    #[test]
    fn ports_take_turns() {
        let mut active = Active::all(3);
        let next = |active: &mut Active| active.next().expect("a port").0;
        assert_eq!([0; 5].map(|_| next(&mut active)), [0, 1, 2, 0, 1]);
        // the turn is port 2's, and stays there
        active.set(&ports([0, 1, 2, 5, 5]));
        assert_eq!([0; 4].map(|_| next(&mut active)), [2, 5, 0, 1]);
        active.set(&ports([5]));
        assert_eq!([0; 2].map(|_| next(&mut active)), [5, 5]);
        assert_eq!((active.has(PortIndex(5)), active.has(PortIndex(2))), (true, false));
        assert!(!active.has(PortIndex(200)));
        active.set(&[]);
        assert_eq!((active.next(), active.least(|_| 0)), (None, None));
    }

    #[test]
    fn all_64_ports_can_be_active() {
        let mut active = Active::all(MAX_PORTS);
        assert_eq!(active.ports().len(), MAX_PORTS);
        assert!(active.has(PortIndex(63)) && !active.has(PortIndex(64)));
        active.pass(63 + 64);
        assert_eq!([active.next(), active.next()], [Some(PortIndex(63)), Some(PortIndex(0))]);
    }

    #[test]
    fn equal_loads_take_turns() {
        let mut active = Active::all(3);
        let mut least = |loads: [u64; 3]| active.least(|port| loads[port.at()]).expect("a port").0;
        assert_eq!([least([5, 5, 5]), least([5, 5, 5]), least([5, 5, 5])], [0, 1, 2]);
        assert_eq!([least([5, 5, 1]), least([1, 5, 1]), least([5, 5, 1])], [2, 0, 2]);
    }
}
