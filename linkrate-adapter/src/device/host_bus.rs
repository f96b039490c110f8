//! The way of a device to its host's memory: over the bus of its adapter, if the model has one.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::bus::{Bus, DESCRIPTOR_BYTES};
use crate::clock::DeviceClock;
use crate::frame::WireFrame;
use crate::link::Link;

/// How long a packet may wait for the bus in the receive FIFO: at 10 Gb/s about 256 KB. A slow link
/// fills a FIFO later.
const FIFO_PS: u64 = 200_000_000;
const FIFO_BYTES: u64 = 32 << 10;

/// The bus, and the packets that it has not carried to the host's memory yet.
#[derive(Debug)]
pub(super) struct HostBus {
    /// `None`: it never limits.
    bus: Option<Arc<Bus>>,
    waiting: VecDeque<(u64, WireFrame)>,
}

/// What becomes of a packet for the host.
#[derive(Debug)]
pub(super) enum ToHost {
    /// It is in the host's memory since this time.
    There(WireFrame, u64),
    /// [`HostBus::carried`] will tell.
    Waits,
    /// The receive FIFO is full, and the packet lost.
    Lost,
}

impl HostBus {
    pub(super) fn new(bus: Option<Arc<Bus>>) -> Self {
        Self { bus, waiting: VecDeque::new() }
    }

    /// Whether it can limit.
    pub(super) fn is_limit(&self) -> bool {
        self.bus.is_some()
    }

    /// How long after `posted_ns` the device has `bytes` of the host's memory.
    pub(super) fn to_device_ps(&self, posted_ns: u64, bytes: usize) -> u64 {
        self.bus.as_ref().map_or(0, |bus| bus.transfer(posted_ns, bytes))
    }

    /// Carries a packet, complete at `at_ps`, to the host's memory.
    pub(super) fn towards_host(
        &mut self,
        frame: WireFrame,
        at_ps: u64,
        now_ps: u64,
        (clock, link): (&DeviceClock, &Link),
    ) -> ToHost {
        let Some(bus) = &self.bus else { return ToHost::There(frame, at_ps) };
        let fifo_ps = FIFO_PS.max(link.time_ps(FIFO_BYTES));
        // the lateness of the device thread is not the bus's backlog
        if bus.backlog_ps(clock.monotonic_ns(now_ps.max(at_ps))) > fifo_ps {
            return ToHost::Lost;
        }
        let bytes = frame.len() + DESCRIPTOR_BYTES;
        let done_ps = at_ps + bus.transfer(clock.monotonic_ns(at_ps), bytes);
        if done_ps <= now_ps && self.waiting.is_empty() {
            return ToHost::There(frame, done_ps);
        }
        self.waiting.push_back((done_ps, frame));
        ToHost::Waits
    }

    /// The next packet that the bus has carried by now, and since when it is there.
    pub(super) fn carried(&mut self, now_ps: u64) -> Option<(WireFrame, u64)> {
        self.due_ps().filter(|done_ps| *done_ps <= now_ps)?;
        self.waiting.pop_front().map(|(done_ps, frame)| (frame, done_ps))
    }

    /// When [`carried`](Self::carried) has a packet.
    pub(super) fn due_ps(&self) -> Option<u64> {
        self.waiting.front().map(|(done_ps, _)| *done_ps)
    }
}
