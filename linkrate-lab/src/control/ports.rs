//! Adding and removing ports, and making and taking apart an aggregate, while the lab is up.

use std::time::Instant;

use linkrate_adapter::CAPTURE_TIMEOUT;
use linkrate_model::InterfaceKnobs;
use linkrate_model::topology::{RegroupError, Segment};

use super::messages::{Refused, Reply};
use super::news::FAREWELL;
use super::server::{Answer, OpenLab};
use crate::host::typed_name;
use linkrate_study::bounds::MAX_CLIENTS;

impl OpenLab {
    /// Adds a port to the aggregate, or a segment with one port and its clients. Returns their names.
    pub(super) fn add_port(&mut self) -> Result<(String, Vec<String>), Refused> {
        self.adapters()?;
        if let Some((wider, port)) = self.testbed.topology.widened()? {
            self.widen(wider)?;
            return Ok((port, Vec::new()));
        }
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

    /// Adds a port to an aggregate while its others carry traffic.
    fn widen(&mut self, wider: Segment) -> Result<(), Refused> {
        let aggregate = wider.aggregate.clone().unwrap_or_default();
        let asked = self.asked.get(&aggregate).cloned().unwrap_or_default();
        self.testbed.widen(wider)?;
        // all settings of the aggregate, which counts its ports
        self.testbed.set_port_knobs(&aggregate, &asked)?;
        Ok(self.testbed.follow_link_rate(&aggregate)?)
    }

    /// Removes a port from its aggregate while the others carry traffic.
    fn narrow(&mut self, port: &str, narrower: Segment) -> Result<Answer, Refused> {
        let aggregate = narrower.aggregate.clone().unwrap_or_default();
        let mut asked = self.asked.get(&aggregate).cloned().unwrap_or_default();
        let left = narrower.ports.len() as u32;
        let capture = self.testbed.narrow(narrower)?;
        // all of the ports are in use, unless somebody asked for fewer
        asked.aggregate.aggregate = asked.aggregate.aggregate.filter(|number| *number < left);
        self.testbed.set_port_knobs(&aggregate, &asked)?;
        self.testbed.follow_link_rate(&aggregate)?;
        self.asked.insert(aggregate, asked);
        self.captures.remove(port);
        Ok(Answer::Later(Box::new(move || {
            if let Some(capture) = capture {
                capture.wait(CAPTURE_TIMEOUT);
            }
            Reply::Done
        })))
    }

    /// Removes a port of an aggregate that has others, or the segment of a port or an aggregate: the ports
    /// with their clients. The reply waits until programs on these clients have ended and
    /// files have the captured packets.
    pub(super) fn remove_port(&mut self, port: &str) -> Result<Answer, Refused> {
        if let Some(narrower) = self.testbed.topology.narrowed(port) {
            return self.narrow(port, narrower);
        }
        let segment = self.adapters()?.segment(port);
        let first = segment.and_then(|of| of.ports.first()).map(|end| end.port.name().to_owned());
        let found = self.port(first.as_deref().unwrap_or(port))?;
        let (segment, ports) = (found.segment_number(), found.sut_ports());
        if !found.is_of_sut() {
            let of_sut = found.sut_interface();
            let reason = format!("{port} is a client's port, behind {of_sut}");
            return Err(
                Refused::wrong(reason).with_hint(format!("linkrate adapter remove {of_sut}"))
            );
        }
        let mut gone = found.client_ports();
        gone.extend(ports.iter().cloned());
        let leaving = self.adapters()?.programs_before_removal(port);
        self.return_programs(leaving);
        let removed = self.testbed.remove(port);
        self.asked.retain(|asked, _| asked != port && !ports.contains(asked));
        self.faults.remove(&segment);
        self.captures.retain(|captured, _| !gone.contains(captured));
        Ok(Answer::Later(Box::new(move || {
            removed.finish(FAREWELL);
            Reply::Done
        })))
    }

    /// Makes the ports of a segment an aggregate.
    pub(super) fn make_aggregate(&mut self, ports: &[String]) -> Result<Answer, Refused> {
        let wanted = self.testbed.topology.to_aggregate(ports)?.aggregated();
        self.adapters()?.check_rates(&wanted)?;
        self.regroup(wanted)
    }

    /// Takes an aggregate apart: each of its ports is an interface of its own again.
    pub(super) fn take_apart(&mut self, aggregate: &str) -> Result<Answer, Refused> {
        self.adapters()?;
        let wanted = self.testbed.topology.to_take_apart(aggregate)?.taken_apart();
        self.regroup(wanted)
    }

    fn regroup(&mut self, wanted: linkrate_model::topology::Segment) -> Result<Answer, Refused> {
        let ports: Vec<String> = wanted.ports.iter().map(|port| port.interface.clone()).collect();
        let interfaces: Vec<String> = match &wanted.aggregate {
            Some(aggregate) => vec![aggregate.clone()],
            None => ports.clone(),
        };
        let congestion = self.options.route_congestion.clone();
        let captures = self.testbed.regroup(wanted, congestion.as_deref())?;
        for interface in &interfaces {
            self.testbed.set_port_knobs(interface, &InterfaceKnobs::default())?;
        }
        self.asked.retain(|port, _| !ports.contains(port) && port != "agg0");
        self.captures.retain(|captured, _| !ports.contains(captured));
        Ok(Answer::Later(Box::new(move || {
            let deadline = Instant::now() + CAPTURE_TIMEOUT;
            for capture in captures {
                capture.wait(deadline.saturating_duration_since(Instant::now()));
            }
            Reply::Added { ports: interfaces, clients: Vec::new() }
        })))
    }
}

impl From<RegroupError> for Refused {
    fn from(error: RegroupError) -> Self {
        Self::wrong(error.to_string()).with_hint(error.hint())
    }
}
