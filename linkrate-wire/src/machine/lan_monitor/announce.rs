//! Announcements of the group's addresses after a move, and when they are due (rapid ARP).

use std::net::IpAddr;
use std::time::Duration;

use super::Address;
use crate::control::arp::{self, Arp, Station};
use crate::control::nd::Advertisement;
use crate::frame::MacAddress;
use crate::frame::link::{TagControl, retagged};

/// Announcements in short intervals, then in long ones.
const RAPID: u32 = 10;
const RAPID_INTERVAL: Duration = Duration::from_secs(1);
const SLOW: u32 = 12;
const SLOW_INTERVAL: Duration = Duration::from_secs(5);

/// When to announce: at a move, each second ten times, then each 5 s for a minute.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Announcements {
    made: u32,
    next: Option<Duration>,
}

impl Announcements {
    /// Begins again, with one at once.
    pub(super) fn begin(&mut self, now: Duration) {
        *self = Self { made: 0, next: Some(now) };
    }

    pub(super) fn stop(&mut self) {
        self.next = None;
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.next
    }

    /// Whether one is due. It then counts as made.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        if self.next.is_none_or(|next| next > now) {
            return false;
        }
        self.made += 1;
        let interval = if self.made <= RAPID { RAPID_INTERVAL } else { SLOW_INTERVAL };
        self.next = (self.made <= RAPID + SLOW).then_some(now + interval);
        true
    }
}

/// The frame that tells all stations that `address` is at `mac`: an ARP announcement, or an
/// unsolicited neighbour advertisement.
pub(super) fn frame(mac: MacAddress, address: Address) -> Vec<u8> {
    let frame = match address.ip {
        IpAddr::V4(ip) => {
            let message = Arp::announcement(Station { hardware: mac, ip }).emit();
            crate::control::frame(MacAddress::BROADCAST, mac, arp::ETHER_TYPE, &message)
        }
        IpAddr::V6(ip) => Advertisement::unsolicited(ip, mac).frame(),
    };
    match address.vlan {
        0 => frame,
        vlan => retagged(&frame, Some(TagControl(0).with_vlan(vlan))).unwrap_or(frame),
    }
}
