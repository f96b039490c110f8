//! Queue disciplines (rtnetlink(7), tc(8)).

mod configured;
mod counted;
mod datagrams;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use super::{RouteSocket, check_name, quoted};
use crate::error::SysResult;

pub use configured::Disciplines;
pub(super) use configured::HOOKS;
pub use datagrams::DatagramLimit;

/// The discipline without a queue: packets go to the driver at once.
const NO_QUEUE: &str = "noqueue";

impl RouteSocket {
    /// Replaces the root queue discipline of an interface by `noqueue`, which takes no memory. On
    /// an interface that is down this spares the kernel the default discipline, of which every
    /// transmit queue has one.
    ///
    /// # Errors
    /// `ENODEV` when this namespace has no interface of that name.
    pub fn set_no_queue(&mut self, name: &str) -> SysResult<()> {
        const OPERATION: &str = "set queue discipline of";
        check_name(OPERATION, name)?;
        let message = message(self.link(name)?.index, TcHandle::ROOT, NO_QUEUE);
        let request = RouteNetlinkMessage::NewQueueDiscipline(message);
        self.act(request, NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(|refusal| refusal.during(OPERATION, format!("{} to {NO_QUEUE}", quoted(name))))
    }
}

/// A message about a part of the traffic control of an interface: a discipline, a class or a filter
/// of this kind under `parent`.
fn message(interface: u32, parent: TcHandle, kind: &str) -> TcMessage {
    let mut message = TcMessage::default();
    message.header.index = interface as i32;
    message.header.parent = parent;
    message.attributes = vec![TcAttribute::Kind(kind.to_owned())];
    message
}
