//! Markers that drivers wait for before flows leave a port (IEEE 802.1AX-2014, 6.5).
//!
//! A driver whose packets have left asks for a marker on each port that flows leave. The control sends
//! it, and says how it ended: with an answer, all these packets have arrived at the partner.

/// A marker that a driver waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// The queue of the driver.
    queue: usize,
    pub(super) port: usize,
    /// Its number; no other request has it.
    pub(super) transaction: u32,
}

/// The markers of all drivers.
#[derive(Debug, Default)]
pub(super) struct Markers {
    /// Those that are to be sent.
    asked: Vec<Request>,
    sent: Vec<Request>,
    next: u32,
}

impl Markers {
    /// The driver of a queue waits for a marker on each of these ports, and for no earlier one.
    pub(super) fn ask(&mut self, queue: usize, ports: &[usize]) {
        self.asked.retain(|request| request.queue != queue);
        self.sent.retain(|request| request.queue != queue);
        for port in ports {
            let transaction = self.next;
            self.next = transaction.wrapping_add(1);
            self.asked.push(Request { queue, port: *port, transaction });
        }
    }

    /// Takes the markers that are to be sent.
    pub(super) fn take(&mut self) -> Vec<Request> {
        let asked = std::mem::take(&mut self.asked);
        self.sent.extend(&asked);
        asked
    }

    /// A marker was answered, or will not be.
    pub(super) fn end(&mut self, transaction: u32) {
        self.sent.retain(|request| request.transaction != transaction);
    }

    /// Whether the driver of a queue waits for a marker.
    pub(super) fn waits(&self, queue: usize) -> bool {
        self.asked.iter().chain(&self.sent).any(|request| request.queue == queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_waits_for_its_own_markers_and_for_the_latest() {
        let mut markers = Markers::default();
        markers.ask(0, &[1, 2]);
        markers.ask(1, &[1]);
        let sent = markers.take();
        assert_eq!(sent.iter().map(|request| request.port).collect::<Vec<_>>(), [1, 2, 1]);
        assert_eq!(markers.take(), []);
        markers.end(sent[0].transaction);
        assert!(markers.waits(0) && markers.waits(1) && !markers.waits(2));
        markers.end(sent[1].transaction);
        assert!(!markers.waits(0) && markers.waits(1));
        // an answer to an earlier one ends no later one
        markers.ask(1, &[1]);
        markers.end(sent[2].transaction);
        assert!(markers.waits(1));
        markers.ask(1, &[]);
        assert!(!markers.waits(1) && markers.take().is_empty());
    }
}
