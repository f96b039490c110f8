//! Making and taking apart an aggregate while the lab is up.

use std::time::Instant;

use linkrate_adapter::CAPTURE_TIMEOUT;
use linkrate_model::InterfaceKnobs;
use linkrate_model::topology::RegroupError;

use super::messages::{Refused, Reply};
use super::server::{Answer, OpenLab};

impl From<RegroupError> for Refused {
    fn from(error: RegroupError) -> Self {
        Self::wrong(error.to_string()).with_hint(error.hint())
    }
}

impl OpenLab {
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
