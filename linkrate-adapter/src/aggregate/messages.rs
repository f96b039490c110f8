//! Messages of the ports that wait for the control.

use linkrate_wire::balance::MAX_PORTS;

/// Most messages of one port that wait. A port that sends more loses them, and takes no place of another.
/// All other ports of a failover group may poll it at the same time.
const MAX_PER_PORT: usize = MAX_PORTS;

/// Messages in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Messages {
    waiting: Vec<(usize, Vec<u8>)>,
    /// How many of them each port has, by number.
    counts: Vec<usize>,
}

impl Messages {
    /// Keeps a message of port `number`. False if there is no place for it.
    pub(super) fn keep(&mut self, number: usize, message: Vec<u8>) -> bool {
        if number >= MAX_PORTS {
            return false;
        }
        if self.counts.len() <= number {
            self.counts.resize(number + 1, 0);
        }
        let has_place = self.counts[number] < MAX_PER_PORT;
        if has_place {
            self.counts[number] += 1;
            self.waiting.push((number, message));
        }
        has_place
    }

    /// Takes all of them, each with the number of its port.
    pub(super) fn take(&mut self) -> Vec<(usize, Vec<u8>)> {
        self.counts.clear();
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_of_all_other_ports_have_room() {
        let mut messages = Messages::default();
        for port in 0..MAX_PORTS {
            assert!((1..MAX_PORTS).all(|_| messages.keep(port, vec![0])), "at port {port}");
        }
        assert_eq!(messages.take().len(), MAX_PORTS * (MAX_PORTS - 1));
    }

    #[test]
    fn a_port_that_sends_too_much_takes_no_place_of_another() {
        let mut messages = Messages::default();
        // a second time, after the first ones were taken
        for _ in 0..2 {
            let kept = (0..10_000).filter(|_| messages.keep(0, vec![0])).count();
            assert_eq!(kept, MAX_PER_PORT);
            assert!((1..MAX_PORTS).all(|port| messages.keep(port, vec![1])));
            assert!(!messages.keep(MAX_PORTS, vec![1]), "no such port");
            let taken = messages.take();
            let ports: Vec<usize> = taken.iter().map(|(port, _)| *port).collect();
            let others = ports[MAX_PER_PORT..].iter().copied();
            assert!(ports[..MAX_PER_PORT].iter().all(|port| *port == 0) && others.eq(1..MAX_PORTS));
            assert!(messages.take().is_empty());
        }
    }
}
