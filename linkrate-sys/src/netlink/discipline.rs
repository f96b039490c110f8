//! Queue disciplines (rtnetlink(7), tc(8)).

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use super::{RouteSocket, check_name, quoted};
use crate::error::SysResult;

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
        let mut message = TcMessage::default();
        message.header.index = self.link(name)?.index as i32;
        message.header.parent = TcHandle::ROOT;
        message.attributes = vec![TcAttribute::Kind(NO_QUEUE.to_owned())];
        let request = RouteNetlinkMessage::NewQueueDiscipline(message);
        self.act(request, NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(|refusal| refusal.during(OPERATION, format!("{} to {NO_QUEUE}", quoted(name))))
    }
}
