//! Settings of an interface through ethtool's generic netlink family
//! (Documentation/networking/ethtool-netlink.rst, linux/ethtool_netlink.h), in the calling thread's
//! network namespace.
//!
//! `message` builds requests and takes bit sets apart. One file for each kind of setting:
//! [`Features`] and [`Channels`], which are also changed; [`Rings`], [`Rss`], [`Coalescing`],
//! [`Pause`] and [`LinkModes`], which are only read. [`Driver`] names the driver, through an ioctl(2).

use netlink_packet_core::{DecodeError, DefaultNla};

use crate::error::SysResult;
use crate::netlink::exchange::Refusal;
use crate::netlink::generic::Socket;

mod coalescing;
mod driver;
mod features;
mod link_modes;
mod message;
mod pause;
mod queues;

pub use coalescing::Coalescing;
pub use driver::Driver;
pub use features::{Feature, Features};
pub use link_modes::LinkModes;
pub use pause::{Pause, PauseFrames};
pub use queues::{Channels, Rings, Rss};

use message::EthtoolFamily;

/// An ethtool socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Ethtool(Socket<EthtoolFamily>);

impl Ethtool {
    /// Opens the socket and looks up the family; `ENOENT` on kernels without ethtool netlink (before 5.6).
    pub fn open() -> SysResult<Self> {
        let socket = Socket::open();
        socket.map(Self).map_err(|error| match error.errno() {
            Some(libc::ENOENT) => error.with_hint("features and channels need Linux 5.6 or later"),
            _ => error,
        })
    }

    /// Sends the read request `command` for interface `name` and lets `take` have kind and value of each
    /// attribute of the reply. `setting` names the setting in errors.
    fn read<T: Default>(
        &mut self,
        setting: &str,
        name: &str,
        command: u8,
        take: fn(&mut T, u16, &[u8]) -> Result<(), DecodeError>,
    ) -> SysResult<T> {
        let (operation, mut taken) = (format!("read {setting} of"), T::default());
        let request = message::read(command, name);
        self.0.read(request, (&operation, &quoted(name)), |kind, value| {
            take(&mut taken, kind, value)
        })?;
        Ok(taken)
    }

    /// Sends the change request `command` for interface `name`.
    fn change(
        &mut self,
        command: u8,
        name: &str,
        attributes: Vec<DefaultNla>,
    ) -> Result<(), Refusal> {
        self.0.request(message::change(command, name, attributes)).map(|_| ())
    }
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
