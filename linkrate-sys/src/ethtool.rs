//! Settings of an interface through ethtool's generic netlink family
//! (Documentation/networking/ethtool-netlink.rst, linux/ethtool_netlink.h), in the calling thread's
//! network namespace.
//!
//! `message` builds requests and takes replies apart. One file for each kind of setting:
//! [`Features`] and [`Channels`], which are also changed; [`Rings`], [`Coalescing`], [`Pause`] and
//! [`LinkModes`], which are only read. [`Driver`] names the driver, through an ioctl(2).

use netlink_packet_core::{DecodeError, DefaultNla};
use netlink_packet_generic::GenlMessage;

use crate::error::{SysError, SysResult};
use crate::netlink::exchange::{Exchange, Refusal};
use crate::netlink::generic;

mod channels;
mod coalescing;
mod driver;
mod features;
mod link_modes;
mod message;
mod pause;
mod rings;

pub use channels::Channels;
pub use coalescing::Coalescing;
pub use driver::Driver;
pub use features::{Feature, Features};
pub use link_modes::LinkModes;
pub use pause::Pause;
pub use rings::Rings;

use message::{FAMILY_NAME, Reply, Request, each_attribute};

/// An ethtool socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Ethtool {
    exchange: Exchange,
    family: u16,
}

impl Ethtool {
    /// Opens the socket and looks up the family.
    ///
    /// # Errors
    /// `ENOENT` on kernels without ethtool netlink (before 5.6).
    pub fn open() -> SysResult<Self> {
        let mut exchange = Exchange::open(netlink_sys::protocols::NETLINK_GENERIC, "generic")?;
        let family = generic::family(&mut exchange, FAMILY_NAME).map_err(|refusal| {
            refusal
                .during("look up netlink family", quoted(FAMILY_NAME))
                .with_hint("features and channels need Linux 5.6 or later")
        })?;
        Ok(Self { exchange, family })
    }

    /// Sends the read request `command` for interface `name` and passes kind and value of each
    /// attribute of the reply to `take`. `setting` names the setting in errors.
    fn read(
        &mut self,
        setting: &str,
        name: &str,
        command: u8,
        mut take: impl FnMut(u16, &[u8]) -> Result<(), DecodeError>,
    ) -> SysResult<()> {
        let operation = format!("read {setting} of");
        let replies = self
            .request(Request::read(command, name))
            .map_err(|refusal| refusal.during(&operation, quoted(name)))?;
        for Reply(attributes) in replies {
            each_attribute(&attributes, &mut take).map_err(|error| {
                let cause = std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string());
                SysError::new(&operation, quoted(name), cause)
            })?;
        }
        Ok(())
    }

    /// Sends the change request `command` for interface `name`.
    fn change(
        &mut self,
        command: u8,
        name: &str,
        attributes: Vec<DefaultNla>,
    ) -> Result<(), Refusal> {
        self.request(Request::change(command, name, attributes)).map(|_| ())
    }

    fn request(&mut self, request: Request) -> Result<Vec<Reply>, Refusal> {
        let mut message = GenlMessage::from_payload(request);
        message.set_resolved_family_id(self.family);
        let replies: Vec<GenlMessage<Reply>> = self.exchange.request(message, 0)?;
        Ok(replies.into_iter().map(|reply| reply.payload).collect())
    }
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
