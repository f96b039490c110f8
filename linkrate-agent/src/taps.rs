//! TAPs that this host has created, until the controller takes their descriptors.
//!
//! A TAP must be in the network namespace of the host, and its descriptors must be with the virtual
//! adapter. The agent creates the TAP, reports the numbers of its descriptors, and closes its own
//! copies on request. From then on the TAP exists as long as the process that took them.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;

use linkrate_sys::error::{SysError, SysResult};
use linkrate_sys::ethtool::Ethtool;
use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::tap::{Kind, Offloads, Tap, set_offloads};

use crate::knobs::GRO;
use linkrate_protocol::{Carries, Reply};

/// An interface to be created.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub carries: Carries,
    /// Its Ethernet address; the kernel chooses where `None`.
    pub address: Option<[u8; 6]>,
    /// The same for the MTU.
    pub mtu: Option<u32>,
    /// The most packets that wait in each queue.
    pub tx_queue_length: u32,
    /// Whether NAPI threads are to process what is written, if this kernel has them.
    pub napi: bool,
}

/// The TAPs this agent still holds, by name.
#[derive(Debug, Default)]
pub struct Taps(BTreeMap<String, Tap>);

impl Taps {
    /// Creates the interface `name`. The reply has the numbers of its descriptors, one for each queue, and its NAPI
    /// threads. When the kernel refuses a step, the TAP does not exist.
    pub fn create(&mut self, name: &str, queues: u32, setup: Setup) -> SysResult<Reply> {
        let Setup { carries, address, mtu, tx_queue_length, napi } = setup;
        let kind = match carries {
            Carries::Frames | Carries::PlainFrames => Kind::Tap,
            Carries::Packets => Kind::Tun,
        };
        let threaded = napi.then(|| Tap::with_napi_threads(kind, name, queues)).transpose();
        let ((tap, napi_threads), napi_refused) = match threaded {
            Ok(Some(made)) => (made, None),
            Ok(None) => ((Tap::of_kind(kind, name, queues)?, Vec::new()), None),
            Err(error) => {
                ((Tap::of_kind(kind, name, queues)?, Vec::new()), Some(error.to_string()))
            }
        };
        // adapters of the others have no offloads
        if carries == Carries::Frames {
            offer_everything(&tap)?;
        }
        // what merges received segments is asked for; a TAP whose frames are processed in the write has no GRO
        Ethtool::open()?.set_features(name, &[(GRO, false)])?;
        let mut route = RouteSocket::open()?;
        if let Some(address) = address {
            route.set_hardware_address(name, address)?;
        }
        if let Some(mtu) = mtu {
            route.set_mtu(name, mtu)?;
        }
        route.set_tx_queue_length(name, tx_queue_length)?;
        // a multi-queue TAP would otherwise get a discipline with a ring for each of 256 queues; a
        // discipline that limits datagrams is the controller's choice (`LimitDatagrams`)
        route.set_no_queue(name)?;
        let descriptors = tap.queues().iter().map(AsRawFd::as_raw_fd).collect();
        self.0.insert(name.to_owned(), tap);
        Ok(Reply::Tap { descriptors, napi_threads, napi_refused })
    }

    /// Closes this agent's descriptors of `name`. False if it has none.
    pub fn release(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }
}

/// Offers every offload; the adapter may use any of them. `ethtool -k` shows them as on, and each
/// can be switched.
fn offer_everything(tap: &Tap) -> Result<(), SysError> {
    let queue = &tap.queues()[0];
    set_offloads(queue, Offloads::ALL)
        // Linux before 6.2 has no USO; `tx-udp-segmentation` then reads as off
        .or_else(|_| set_offloads(queue, Offloads { uso: false, ..Offloads::ALL }))
}
