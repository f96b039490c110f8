//! Single ports of virtual adapters, for the users of a lab that stays up.

use std::fs::File;

use linkrate_adapter::{AdapterError, CaptureEnding, Port};
use linkrate_terms::lab::PortReport;
use linkrate_terms::{BitRate, InterfaceKnobs};

use super::{Adapters, Faults, Line, Vlans, effective_knobs, with_port};
use crate::error::LabError;
use crate::host::typed_name;

/// A port with the wire it is on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortOnLine<'a> {
    adapters: &'a Adapters,
    line: &'a Line,
    port: &'a Port,
}

impl Adapters {
    /// Every port: those of the system under test, then those of its clients.
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortOnLine<'_>> {
        let of_sut = self.lines.iter().map(|line| (line, &line.sut));
        let of_clients =
            self.lines.iter().flat_map(|line| line.clients.iter().map(move |port| (line, port)));
        let all = of_sut.chain(of_clients);
        all.map(|(line, port)| PortOnLine { adapters: self, line, port })
    }

    /// The port of that name: `eth0` of the system under test, `client-0` of a client.
    pub(crate) fn port(&self, name: &str) -> Option<PortOnLine<'_>> {
        self.ports().find(|port| port.name() == name)
    }
}

impl PortOnLine<'_> {
    /// Its name.
    pub(crate) fn name(&self) -> String {
        typed_name(self.port.name())
    }

    /// The port of the system under test on its wire.
    pub(crate) fn sut_port(&self) -> String {
        self.line.name()
    }

    /// Whether it is that port.
    pub(crate) fn is_of_sut(&self) -> bool {
        std::ptr::eq(self.port, &self.line.sut)
    }

    /// The clients' ports on its wire.
    pub(crate) fn client_ports(&self) -> Vec<String> {
        self.line.clients.iter().map(|port| typed_name(port.name())).collect()
    }

    /// Sets the faults of its wire.
    pub(crate) fn set_faults(&self, faults: Faults) -> Result<(), LabError> {
        Ok(self.line.segment.set_faults(faults)?)
    }

    /// The VLANs of the switch's port that it leads to; all on a cable.
    pub(crate) fn vlans(&self) -> Vlans {
        self.port.vlans().unwrap_or(Vlans::All)
    }

    /// Sets the VLANs of the switch's port that it leads to.
    pub(crate) fn set_vlans(&self, vlans: Vlans) -> Result<(), LabError> {
        self.port.set_vlans(vlans).map_err(|error| match error {
            AdapterError::NoSwitch { .. } => LabError::Invalid {
                what: error.to_string(),
                hint: "start a lab with switches: linkrate lab up --clients-per-port 2".to_owned(),
            },
            other => other.into(),
        })
    }

    /// Takes its link up or down.
    pub(crate) fn set_link(&self, up: bool) -> Result<(), LabError> {
        Ok(self.port.set_link(up)?)
    }

    /// Lets its link run at another rate.
    pub(crate) fn set_link_rate(&self, rate: BitRate) {
        self.line.set_link_rate(self.port, rate);
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
    ///
    /// # Errors
    /// The device does not answer.
    pub(crate) fn report(&self, kernel: InterfaceKnobs) -> Result<PortReport, LabError> {
        let name = self.name();
        let mut reaches = self.client_ports();
        if !self.is_of_sut() {
            reaches.retain(|other| *other != name);
            reaches.insert(0, self.sut_port());
        }
        let per_adapter = self.adapters.model.ports;
        Ok(PortReport {
            adapter: self.is_of_sut().then(|| self.line.number / per_adapter),
            wire: self.line.fabric.name().to_owned(),
            reaches,
            link_up: self.port.shared.link.is_up(),
            link_rate: self.port.shared.link.rate(),
            capture: None,
            faults: Default::default(),
            vlans: Default::default(),
            knobs: with_port(kernel, effective_knobs(self.port)?),
            counters: self.port.counters(),
            name,
        })
    }
}
