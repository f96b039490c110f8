//! Looks at the send buffers of a window's bulk senders, from time to time.
//!
//! The kernel counts a sender as limited by its send buffer only if unsent data remains when it begins
//! to wait (`tcp_cwnd_validate`, net/ipv4/tcp_output.c). One whose every write goes straight out, as
//! with TCP_NODELAY or with segments as large as writes, waits for room uncounted. So this looks for
//! what makes the buffer the bound:
//!
//! - it is full ([`SendQueue::is_full`]), so the writer waits;
//! - all of it is sent: neither the congestion window nor the receiver's holds anything back;
//! - the smoothed round trip is at most twice the shortest: no more waits in queues on the
//!   path than is on its way, so that no resource there is used up.
//!
//! Such a sender has throughput = buffer / round trip, and would have more with more.

use std::os::fd::AsFd;

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::send_queue::{SendQueue, send_queue};
use linkrate_sys::tcp_info::{TcpInfo, tcp_info};

use crate::flow::Flow;

/// Time between two looks, ns: six a second, each waking a CPU for some 30 µs at most. No
/// multiple of a tick or of a round trip that anybody sets.
const EVERY_NS: u64 = 161_803_399;

/// Sockets of one look; of more, the next look takes the next ones.
const SOCKETS: usize = 16;

/// The smoothed round trip over the shortest, up to which the path has no queue to speak of.
const MOST_QUEUED: u64 = 2;

/// What has been seen of some flows.
#[derive(Debug)]
pub struct SendBuffers<'a> {
    flows: Vec<&'a Flow>,
    first: usize,
    next_ns: u64,
    /// Looks at one buffer each.
    pub looks: u64,
    /// Those that found it to be the bound.
    pub full: u64,
}

impl<'a> SendBuffers<'a> {
    /// For a window that opens now.
    pub fn of(flows: &'a [Flow]) -> Self {
        let flows = flows.iter().filter(|flow| flow.sends && flow.socket.is_some()).collect();
        Self { flows, first: 0, next_ns: monotonic_ns() + EVERY_NS / 2, looks: 0, full: 0 }
    }

    /// When to look next; `None` where there is nothing to look at.
    pub fn next_ns(&self) -> Option<u64> {
        (!self.flows.is_empty()).then_some(self.next_ns)
    }

    /// Looks.
    pub fn look(&mut self) {
        let count = self.flows.len();
        for step in 0..count.min(SOCKETS) {
            let flow = self.flows[(self.first + step) % count];
            let Some(socket) = flow.socket.as_deref() else { continue };
            // UDP has neither
            if let Some(is_bound) = is_bound(socket) {
                self.looks += 1;
                self.full += u64::from(is_bound);
            }
        }
        self.first = (self.first + SOCKETS) % count.max(1);
        self.next_ns += EVERY_NS;
    }
}

fn is_bound(socket: impl AsFd) -> Option<bool> {
    let queue = send_queue(&socket).ok()?;
    // most are not full, and TCP_INFO takes the socket's lock
    if !queue.is_full() || queue.unsent_bytes > 0 {
        return Some(false);
    }
    Some(binds(queue, tcp_info(&socket).ok()?))
}

fn binds(queue: SendQueue, info: TcpInfo) -> bool {
    queue.is_full() && queue.unsent_bytes == 0 && !has_queue(&info)
}

/// Whether more waits in queues on a connection's path than is on its way: the smoothed round trip
/// is more than [`MOST_QUEUED`] times the shortest. A resource on the path is then used up.
pub fn has_queue(info: &TcpInfo) -> bool {
    u64::from(info.rtt_us) > MOST_QUEUED.saturating_mul(u64::from(info.min_rtt_us))
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
    fn without_bulk_senders_nobody_looks() {
        let mut none = SendBuffers::of(&[]);
        assert_eq!(none.next_ns(), None);
        none.look();
        assert_eq!((none.looks, none.full), (0, 0));
    }
}
