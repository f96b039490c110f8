//! Single ports of virtual adapters, for the users of a lab that stays up.

use std::fs::File;

use linkrate_adapter::link::LinkShared;
use linkrate_adapter::{AdapterError, CaptureEnding, Port};
use linkrate_model::lab::PortReport;
use linkrate_model::{BitRate, InterfaceKnobs};

use super::{Adapters, Faults, LinkLaw, Segment, SutPort, Vlans, effective_knobs, with_port};
use crate::error::LabError;
use crate::host::typed_name;

#[derive(Debug, Clone, Copy)]
pub(crate) struct PortOnSegment<'a> {
    adapters: &'a Adapters,
    segment: &'a Segment,
    port: &'a Port,
    /// The port as one of the system under test; `None` at a client.
    of_sut: Option<&'a SutPort>,
}

impl Adapters {
    /// Every port: those of the system under test, then those of its clients.
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortOnSegment<'_>> {
        let all = || self.segments.iter();
        let of_sut =
            all().flat_map(|segment| segment.ports.iter().map(move |port| (segment, port)));
        let of_sut = of_sut.map(|(segment, port)| PortOnSegment {
            adapters: self,
            segment,
            port: &port.port,
            of_sut: Some(port),
        });
        let of_clients =
            all().flat_map(|segment| segment.clients.iter().map(move |port| (segment, port)));
        let of_clients = of_clients.map(|(segment, port)| PortOnSegment {
            adapters: self,
            segment,
            port,
            of_sut: None,
        });
        of_sut.chain(of_clients)
    }

    /// The port of that name: `eth0` of the system under test, `client-0` of a client.
    pub(crate) fn port(&self, name: &str) -> Option<PortOnSegment<'_>> {
        self.ports().find(|port| port.name() == name)
    }
}

impl PortOnSegment<'_> {
    pub(crate) fn name(&self) -> String {
        typed_name(self.port.name())
    }

    /// The ports of the system under test on its segment.
    pub(crate) fn sut_ports(&self) -> Vec<String> {
        self.segment.ports.iter().map(|port| port.name().to_owned()).collect()
    }

    pub(crate) fn segment_number(&self) -> u32 {
        self.segment.topology.number
    }

    /// The interface of the system under test on its segment: the aggregate, or that of the first port.
    pub(crate) fn sut_interface(&self) -> String {
        let first = || self.segment.ports.first().map(SutPort::name);
        let aggregate = self.segment.aggregate.as_ref().map(|aggregate| aggregate.name());
        aggregate.or_else(first).unwrap_or_default().to_owned()
    }

    pub(crate) fn is_of_sut(&self) -> bool {
        self.of_sut.is_some()
    }

    /// The clients' ports on its segment.
    pub(crate) fn client_ports(&self) -> Vec<String> {
        self.segment.client_names()
    }

    /// Sets the faults of its segment, which must be those of what its links carry: frames or cells.
    pub(crate) fn set_faults(&self, faults: Faults) -> Result<(), LabError> {
        faults.check_law(LinkLaw::of(&self.adapters.model)).map_err(|error| LabError::Invalid {
            what: error.to_string(),
            hint: format!("faults of these links are {}", error.expected()),
        })?;
        Ok(self.segment.joined.set_faults(faults)?)
    }

    /// The VLANs of the switch's port that it leads to; all on a cable. The links of a port have the
    /// same VLANs.
    pub(crate) fn vlans(&self) -> Vlans {
        self.port.links().find_map(|link| link.vlans()).unwrap_or(Vlans::All)
    }

    /// Sets the VLANs of the switch's port that it leads to.
    pub(crate) fn set_vlans(&self, vlans: Vlans) -> Result<(), LabError> {
        let set = self.port.links().try_for_each(|link| link.set_vlans(vlans.clone()));
        set.map_err(|error| match error {
            AdapterError::NoSwitch { .. } => LabError::Invalid {
                what: error.to_string(),
                hint: "start a lab with switches: linkrate lab up --clients-per-port 2".to_owned(),
            },
            other => other.into(),
        })
    }

    /// Takes its links up or down.
    pub(crate) fn set_link(&self, up: bool) -> Result<(), LabError> {
        for port in self.segment.sharing(self.port) {
            port.links().try_for_each(|link| link.set_up(up))?;
        }
        Ok(())
    }

    /// Lets its links run at another rate.
    pub(crate) fn set_link_rate(&self, rate: BitRate) {
        self.segment.set_link_rate(self.port, rate);
    }

    /// Starts to capture its packets to a file that is open for writing.
    pub(crate) fn start_capture(&self, file: File) -> Result<(), LabError> {
        Ok(self.port.start_capture(file)?)
    }

    /// Ends the capture, if one is on.
    pub(crate) fn stop_capture(&self) -> Option<CaptureEnding> {
        self.port.stop_capture()
    }

    /// Why the file of the capture gets no more packets, if writing it has failed.
    pub(crate) fn capture_failure(&self) -> Option<String> {
        self.port.capture_failure()
    }

    /// Its state; the lab that holds it adds the capture, the faults and the VLANs in words.
    pub(crate) fn report(&self, kernel: InterfaceKnobs) -> Result<PortReport, LabError> {
        let name = self.name();
        let mut reaches: Vec<String> = match self.segment.elan_of(self.port) {
            // stations of other emulated LANs are not reached
            Some(elan) => {
                let all = self.segment.all_ports();
                let same = all.filter(|other| self.segment.elan_of(other) == Some(elan));
                same.map(|other| typed_name(other.name())).collect()
            }
            None => self.sut_ports().into_iter().chain(self.client_ports()).collect(),
        };
        reaches.retain(|other| *other != name);
        let per_adapter = self.adapters.model.ports;
        let links = || self.port.links().map(|link| link.shared());
        Ok(PortReport {
            adapter: self
                .of_sut
                .map(|port| self.segment.topology.adapter_port(port.number) / per_adapter),
            fabric: self.segment.topology.fabric.name().to_owned(),
            reaches,
            link_up: links().any(LinkShared::is_up),
            // the rates of all links together
            link_rate: links().map(|link| Some(link.rate()?.0)).sum::<Option<f64>>().map(BitRate),
            capture: None,
            faults: Default::default(),
            vlans: Default::default(),
            connections: self.port.connections(),
            lane: self.port.lane(),
            atmarp: self.port.atmarp(),
            knobs: with_port(kernel, effective_knobs(self.port)?),
            counters: self.port.counters(),
            name,
        })
    }
}
