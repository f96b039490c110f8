//! The hosts that take part in a run, and the interfaces that lead to them.

use crate::host::{Client, Host};
use crate::peer::PeerServer;

/// The hosts that take part in a run, or in a change of knobs.
#[derive(Debug)]
pub(crate) struct Participants<'a> {
    pub(crate) sut: &'a mut Host,
    /// In the order of the interfaces that lead to them.
    pub(crate) clients: &'a mut [Client],
    /// Third-party programs in their place; in the same order.
    pub(crate) programs: &'a [PeerServer],
}

impl Participants<'_> {
    /// The interfaces of the system under test that lead to the clients, in their order.
    pub(crate) fn sut_interfaces(&self) -> Vec<String> {
        sut_interfaces(self.clients, self.programs)
    }
}

/// The interfaces of the system under test that lead to `clients`, or to `programs`, each once, in their
/// order.
pub(crate) fn sut_interfaces(clients: &[Client], programs: &[PeerServer]) -> Vec<String> {
    let of_clients = clients.iter().map(|client| &client.sut_interface);
    let of_programs = programs.iter().map(|program| &program.sut_interface);
    let mut names: Vec<String> = of_clients.chain(of_programs).cloned().collect();
    names.dedup();
    names
}
