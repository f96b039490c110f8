//! Veth pairs: the ends of a pair are in the system under test and in a client.
//!
//! A veth pair has no rate and no rings. Superframes pass whole.

use linkrate_model::topology::Segment;
use linkrate_protocol::Request;

use super::ReceiveSteering;
use super::namespaces::Join;
use crate::error::LabError;
use crate::host::{Client, Host};
use crate::placement::Placement;

#[derive(Debug)]
pub struct Veth {
    /// The most queue pairs that a run asks for.
    queues: u32,
}

impl Veth {
    /// Pairs with so many queue pairs.
    pub(crate) fn new(queues: u32) -> Self {
        Self { queues: queues.max(1) }
    }
}

impl Join for Veth {
    fn join(
        &mut self,
        _segment: &Segment,
        sut: &mut Host,
        clients: &mut [Client],
        _placement: &Placement,
    ) -> Result<(), LabError> {
        for client in clients {
            sut.order(&Request::CreateWire {
                name: client.sut_interface.clone(),
                peer_name: client.interface.clone(),
                peer_pid: client.host.pid(),
                queues: self.queues,
            })?;
        }
        Ok(())
    }

    fn receive_steering(&self, placement: &Placement) -> ReceiveSteering {
        if placement.is_shared() { ReceiveSteering::NotNeeded } else { ReceiveSteering::Rps }
    }
}
