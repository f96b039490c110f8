//! What an adapter does between its host's interface and its links.
//!
//! A device thread owns its devices and calls them: with frames that arrive, with its clock, and
//! whenever the host may have posted packets. A device has one interface and one or more links; it
//! may send frames of its own and keep timers.

pub(crate) mod nic;

use std::fmt;

use crate::fabric::Flight;
use crate::frame::Burst;
use crate::interface::Interface;
use crate::link::Link;

/// Where a device puts frames: the number of its link, the frames, and the time at which their last
/// bit is on the link.
pub(crate) type Outlet<'a> = dyn FnMut(usize, Burst, u64) + 'a;

/// A device.
pub(crate) trait Device: fmt::Debug + Send {
    /// Takes up settings that were changed. The device acknowledges what it works with from then
    /// on. Calls `other_rate` for each link whose rate is another than before.
    fn refresh(&mut self, other_rate: &mut dyn FnMut(usize, &Link));

    /// Sends what the host has posted, as far ahead as the links' FIFOs reach. Says whether
    /// anything was sent.
    fn transmit(&mut self, now_ps: u64, out: &mut Outlet<'_>) -> bool;

    /// Takes frames whose last bit came in by link number `link` at `at_ps`.
    fn receive(&mut self, link: usize, burst: Burst, at_ps: u64, now_ps: u64);

    /// Does what is due by `now_ps`: interrupts, completions, timers. Says whether anything was
    /// due.
    fn poll(&mut self, now_ps: u64, out: &mut Outlet<'_>) -> bool;

    /// When the device must be called again, beside arrivals, as far as it is known. To be asked
    /// once the device thread has said that it will sleep.
    fn due_ps(&mut self, now_ps: u64) -> Option<u64>;

    /// When it pays to look at what arrives by a link: frames show when the host is interrupted,
    /// and not before.
    fn arrival_due_ps(&self, link: usize, flight: &Flight) -> Option<u64>;

    /// The host's interface.
    fn interface(&mut self) -> &mut Interface;

    /// The links, by their numbers.
    fn links(&self) -> &[Link];
}
