//! TAPs that this host has made and nobody has taken yet.
//!
//! A TAP belongs into the host's network namespace, and its descriptors to whoever plays the
//! adapter behind it. The agent makes it, names its descriptors, and closes its own copies when
//! told to: from then on the TAP lives exactly as long as the one who took them.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;

use linkrate_sys::error::{SysError, SysResult};
use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::tap::{Offloads, Tap, set_offloads};

/// The TAPs this agent still holds, by name.
#[derive(Debug, Default)]
pub struct Taps(BTreeMap<String, Tap>);

impl Taps {
    /// Makes the TAP `name` and returns the numbers of its descriptors, a queue each.
    ///
    /// # Errors
    /// When the kernel refuses any of it; there is then no such TAP.
    pub fn create(
        &mut self,
        name: &str,
        queues: u32,
        address: Option<[u8; 6]>,
        tx_queue_length: u32,
    ) -> SysResult<Vec<i32>> {
        let tap = Tap::open(name, queues)?;
        offer_everything(&tap)?;
        let mut route = RouteSocket::open()?;
        if let Some(address) = address {
            route.set_hardware_address(name, address)?;
        }
        route.set_tx_queue_length(name, tx_queue_length)?;
        let descriptors = tap.queues().iter().map(AsRawFd::as_raw_fd).collect();
        self.0.insert(name.to_owned(), tap);
        Ok(descriptors)
    }

    /// Closes this agent's descriptors of `name`. False when it holds none.
    pub fn release(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }
}

/// Leaves every offload to the reader, which is free to use none: `ethtool -k` shows them as on,
/// and each can be switched.
fn offer_everything(tap: &Tap) -> Result<(), SysError> {
    let queue = &tap.queues()[0];
    set_offloads(queue, Offloads::ALL)
        // Linux before 6.2 knows no USO; its `tx-udp-segmentation` then reads as off
        .or_else(|_| set_offloads(queue, Offloads { uso: false, ..Offloads::ALL }))
}
