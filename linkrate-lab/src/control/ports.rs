//! Adding and removing ports while others carry traffic.

use linkrate_study::keys::MAX_CLIENTS;
use linkrate_terms::InterfaceKnobs;

use super::messages::{Refused, Reply};
use super::server::{Answer, FAREWELL, OpenLab};
use crate::host::typed_name;

impl OpenLab {
    /// Adds a segment with one port and its clients. Returns their names.
    pub(super) fn add_port(&mut self) -> Result<(String, Vec<String>), Refused> {
        self.adapters()?;
        let per_port = self.spec.clients_per_port.max(1);
        let clients = self.testbed.clients.len();
        if clients + per_port as usize > MAX_CLIENTS as usize {
            let reason = format!(
                "another port would add {per_port} to {clients} clients, expected at most \
                 {MAX_CLIENTS} in all"
            );
            return Err(Refused::failed(reason).with_hint("remove another port first"));
        }
        let segment = self.testbed.topology.next(per_port);
        let port = segment.ports[0].interface.clone();
        let clients = self.testbed.add(segment, &self.options)?;
        if let Err(error) = self.testbed.set_port_knobs(&port, &InterfaceKnobs::default()) {
            // nobody has started a program on its clients
            drop(self.testbed.remove(&port));
            return Err(error.into());
        }
        Ok((port, clients.iter().map(|name| typed_name(name)).collect()))
    }

    /// Removes the segment of a port: the port with its clients, and other ports there. The reply
    /// waits until programs on these clients have ended and files have the captured packets.
    pub(super) fn remove_port(&mut self, port: &str) -> Result<Answer, Refused> {
        let found = self.port(port)?;
        let (of_sut, ports) = (found.segment_name(), found.sut_ports());
        if !found.is_of_sut() {
            let reason = format!("{port} is a client's port, behind {of_sut}");
            return Err(
                Refused::wrong(reason).with_hint(format!("linkrate adapter remove {of_sut}"))
            );
        }
        let mut gone = found.client_ports();
        gone.extend(ports.iter().cloned());
        let removed = self.testbed.remove(port);
        self.asked.retain(|port, _| !ports.contains(port));
        self.faults.remove(&of_sut);
        self.captures.retain(|captured, _| !gone.contains(captured));
        Ok(Answer::Later(Box::new(move || {
            removed.finish(FAREWELL);
            Reply::Done
        })))
    }
}
