//! How far ahead of its link a device fetches the packets that its host has posted.

use std::sync::atomic::{Ordering, fence};

use crate::clock::earlier;
use crate::interface::Interface;
use crate::interface::moderation::Moderation;
use crate::interface::rings::MAX_BYTES;
use crate::link::Link;

/// The size of a port's transmit FIFO: the device fetches packets so far ahead of the link. It fetches whenever its
/// thread is awake, and the thread wakes when only [`FIFO_LOW_BYTES`] are left. On a link without a rate it fetches
/// no more than this in one turn, so that frames are received before they leave the cache.
pub(super) const FIFO_BYTES: u64 = 64 << 10;
pub(super) const FIFO_LOW_BYTES: u64 = 12 << 10;

/// Packets of the host in one turn of the device.
pub(super) const BUDGET: usize = 64;

/// Bytes that are fetched ahead of the link where the device thread serves the TAP: nearly all that
/// wait, so that a flow with little to send can pass the others. Without a link rate no packet
/// waits for long, and payload must still be in the cache when it is received.
pub(super) fn fetch_bytes(link: &Link) -> usize {
    match link.rate() {
        Some(_) => MAX_BYTES,
        None => FIFO_BYTES as usize,
    }
}

/// The traffic of a device, for [`transmit_due_ps`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Activity {
    pub(super) now_ps: u64,
    /// When the host or the link last had packets for the device.
    pub(super) active_ps: u64,
    /// When everything that was posted has left.
    pub(super) free_at_ps: u64,
    /// The rules for its interrupts.
    pub(super) moderation: Moderation,
}

/// When the device must fetch the next packet; `None` if a doorbell will say so. The device wants
/// no doorbell before its FIFO runs low, and before the next tick of the interrupt timer while
/// there is traffic, because these times are known. To be asked once the device thread has said
/// that it will sleep.
pub(super) fn transmit_due_ps(
    interface: &Interface,
    link: &Link,
    activity: Activity,
) -> Option<u64> {
    let Activity { now_ps, free_at_ps, moderation, .. } = activity;
    let low_ps = free_at_ps.saturating_sub(link.time_ps(FIFO_LOW_BYTES));
    let busy = low_ps > now_ps;
    let due_ps = moderation.tick_before_ps(low_ps).filter(|tick_ps| *tick_ps > now_ps);
    let low_ps = (busy || interface.has_posted()).then_some(due_ps.unwrap_or(low_ps));
    let tick_ps = busy_tick_ps(interface, activity);
    interface.shared.wants_doorbell.store(!busy && tick_ps.is_none(), Ordering::Relaxed);
    fence(Ordering::SeqCst);
    earlier(tick_ps, low_ps)
}

/// The next tick, while traffic makes it likely that there is something to do. What is posted
/// until then is early enough: its frames occupy the link from the time of their posting on,
/// and the far host learns of them at that tick. A doorbell would wake the device thread, at
/// the cost of an interrupt between CPUs, for nothing that anyone sees.
fn busy_tick_ps(interface: &Interface, activity: Activity) -> Option<u64> {
    let Activity { now_ps, active_ps, moderation, .. } = activity;
    if !interface.has_drivers() {
        // the device thread stamps what it fetches itself, so that it must not be late
        return None;
    }
    // one tick without traffic is allowed: a response takes as long
    let last_ps = moderation.tick_after_ps(moderation.tick_after_ps(active_ps)?)?;
    moderation.tick_after_ps(now_ps).filter(|tick_ps| *tick_ps <= last_ps)
}
