//! Samples the send buffers of bulk senders during a measurement.
//!
//! The kernel counts a sender as limited by its send buffer only if unsent data remains when it
//! begins to wait (`tcp_cwnd_validate`, net/ipv4/tcp_output.c). If every write is sent at once, as
//! with TCP_NODELAY or with segments as large as writes, the kernel does not count the waits. The
//! send buffer is the limit if
//!
//! - it is full ([`SendQueue::is_full`]), so the writer waits;
//! - all of it is sent, so neither the congestion window nor the receiver's window holds data back;
//! - the smoothed round trip is at most twice the shortest: queues on the path hold no more data than
//!   the path itself, so no resource of the path is saturated.
//!
//! Such a sender has throughput = buffer / round trip, and a larger buffer would raise it.

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::send_queue::{SendQueue, send_queue};
use linkrate_sys::tcp_info::TcpInfo;

use crate::flow::Flow;

/// Time between two samples, ns: six samples a second, each of which wakes a CPU for at most some
/// 30 µs. It is not a multiple of a tick or of a usual round trip.
pub const EVERY_NS: u64 = 161_803_399;

/// Sockets of one sample; the next sample takes the following ones.
const SOCKETS: usize = 16;

/// Up to this ratio of the smoothed to the shortest round trip, the path has no significant queue.
const MAX_QUEUED: u64 = 2;

#[derive(Debug)]
pub struct SendBuffers<'a> {
    flows: Vec<&'a Flow>,
    first: usize,
    next_ns: u64,
    /// Number of samples, one buffer each.
    pub looks: u64,
    /// Samples in which the buffer was the limit.
    pub full: u64,
}

impl<'a> SendBuffers<'a> {
    /// Samples for a measurement that opens now.
    pub fn of(flows: &'a [Flow]) -> Self {
        let flows = flows.iter().filter(|flow| flow.sends && flow.socket.is_some()).collect();
        Self { flows, first: 0, next_ns: monotonic_ns() + EVERY_NS / 2, looks: 0, full: 0 }
    }

    /// Time of the next sample; `None` without bulk senders.
    pub fn next_ns(&self) -> Option<u64> {
        (!self.flows.is_empty()).then_some(self.next_ns)
    }

    /// Takes a sample.
    pub fn look(&mut self) {
        let count = self.flows.len();
        for step in 0..count.min(SOCKETS) {
            let flow = self.flows[(self.first + step) % count];
            // UDP sockets have neither value
            if let Some(is_bound) = is_bound(flow, count) {
                self.looks += 1;
                self.full += u64::from(is_bound);
            }
        }
        self.first = (self.first + SOCKETS) % count.max(1);
        self.next_ns += EVERY_NS;
    }
}

fn is_bound(flow: &Flow, flows: usize) -> Option<bool> {
    let queue = send_queue(flow.socket.as_deref()?).ok()?;
    // most buffers are not full, and TCP_INFO takes the lock of the socket
    if !queue.is_full() || queue.unsent_bytes > 0 {
        return Some(false);
    }
    Some(binds(queue, flow.tcp_info(flows)?))
}

fn binds(queue: SendQueue, info: TcpInfo) -> bool {
    queue.is_full() && queue.unsent_bytes == 0 && !has_queue(&info)
}

/// Whether more waits in queues on a connection's path than is on its way: the smoothed round trip
/// is more than `MAX_QUEUED` times the shortest. A resource on the path is then used up.
pub fn has_queue(info: &TcpInfo) -> bool {
    u64::from(info.rtt_us) > MAX_QUEUED.saturating_mul(u64::from(info.min_rtt_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_binds_that_is_full_and_sent_over_a_path_without_a_queue() {
        let queue = SendQueue { buffer_bytes: 32768, queued_bytes: 31000, unsent_bytes: 0 };
        let info = TcpInfo { rtt_us: 10_400, min_rtt_us: 10_100, ..TcpInfo::default() };
        assert!(binds(queue, info));
        for (why, queue, info) in [
            ("room", SendQueue { queued_bytes: 20_000, ..queue }, info),
            ("a window holds it", SendQueue { unsent_bytes: 1, ..queue }, info),
            ("it waits on the path", queue, TcpInfo { rtt_us: 20_201, ..info }),
        ] {
            assert!(!binds(queue, info), "{why}");
        }
        let unknown = TcpInfo { min_rtt_us: u32::MAX, ..info };
        assert!(binds(queue, unknown));
    }

    #[test]
    fn without_bulk_senders_there_is_no_sample() {
        let mut none = SendBuffers::of(&[]);
        assert_eq!(none.next_ns(), None);
        none.look();
        assert_eq!((none.looks, none.full), (0, 0));
    }
}
