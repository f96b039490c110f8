//! The answer to each request.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use linkrate_model::lab::{
    AdapterReport, HostReport, InterfaceReport, LabReport, PortReport, SettingsReport,
};
use linkrate_model::nearest::did_you_mean;
use linkrate_model::topology::ipv6_address;
use linkrate_model::{BitRate, CpuSet};
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::stderr;

use super::messages::{Refused, Reply, Request, Setting};
use super::server::{Answer, OpenLab};
use super::{faults, settings, vlans};
use crate::backend::adapters::{Adapters, PortOnSegment, Segment};
use crate::connection::AgentError;
use crate::error::LabError;
use crate::host::{Host, PREFIX_LENGTH, typed_name};

/// The lowest rate of a link: below it, a frame takes longer than programs wait.
const SLOWEST_LINK: BitRate = BitRate(1e6);

impl From<LabError> for Refused {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Agent(error) => error.into(),
            error => {
                let wrong = matches!(error, LabError::Invalid { .. });
                Self { wrong, reason: error.to_string(), hint: error.hint() }
            }
        }
    }
}

impl From<AgentError> for Refused {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Refused(refusal) => {
                Self { wrong: false, reason: refusal.reason, hint: refusal.hint }
            }
            other => Self::failed(other.to_string()),
        }
    }
}

impl OpenLab {
    /// Carries out a request, to which `file` belongs.
    pub(super) fn answer(
        &mut self,
        request: Request,
        file: Option<OwnedFd>,
    ) -> Result<Answer, Refused> {
        let reply = match request {
            Request::StopCapture { port } => return self.stop_capture(port),
            Request::Offload { process, descriptor } => return self.offload(process, descriptor),
            Request::Connections => {
                self.connections().map(|report| Reply::Connections(Box::new(report)))
            }
            Request::Remove { port } => return self.remove_port(&port),
            Request::MakeAggregate { ports } => return self.make_aggregate(&ports),
            Request::TakeApart { aggregate } => return self.take_apart(&aggregate),
            Request::StartCapture { port, file: name } => self.start_capture(port, name, file),
            Request::Lab => Ok(Reply::Lab(self.report())),
            Request::Down => Ok(Reply::Done),
            Request::Supervise => match (&self.supervisor, file) {
                (Some(supervisor), Some(calls)) => {
                    supervisor.admit(calls.into());
                    Ok(Reply::Done)
                }
                _ => Err(Refused::failed("this lab supervises no programs")),
            },
            Request::Adapters { kernel } => {
                self.adapter_report(kernel).map(|report| Reply::Adapters(Box::new(report)))
            }
            Request::Set { port, settings } => self.set(&port, &settings).map(Reply::Settings),
            Request::SetFaults { port, settings } => {
                let found = self.port(&port)?;
                let faults = faults::parse(&settings)?;
                found.set_faults(faults)?;
                let segment = found.segment_number();
                self.faults.insert(segment, faults);
                Ok(Reply::Faults(faults::describe(&faults)))
            }
            Request::SetVlans { port, settings } => {
                let found = self.port(&port)?;
                found.set_vlans(vlans::parse(&settings)?)?;
                Ok(Reply::Vlans(vlans::describe(&found.vlans())))
            }
            Request::SetLink { port, up } => {
                self.port(&port)?.set_link(up)?;
                Ok(Reply::Done)
            }
            Request::SetLinkRate { port, bits_per_second } => {
                self.set_link_rate(&port, BitRate(bits_per_second as f64)).map(|()| Reply::Done)
            }
            Request::Add { ports } => {
                let (mut names, mut clients) = (Vec::new(), Vec::new());
                for _ in 0..ports {
                    match self.add_port() {
                        Ok((port, with)) => {
                            names.push(port);
                            clients.extend(with);
                        }
                        Err(refused) if names.is_empty() => return Err(refused),
                        Err(refused) => {
                            let reason = format!(
                                "added {} of {ports} ports ({}), then: {}",
                                names.len(),
                                names.join(", "),
                                refused.reason
                            );
                            return Err(Refused { reason, ..refused });
                        }
                    }
                }
                Ok(Reply::Added { ports: names, clients })
            }
        };
        reply.map(Answer::Now)
    }

    pub(super) fn adapters(&self) -> Result<&Adapters, Refused> {
        self.testbed.backend.adapters().ok_or_else(|| {
            let reason =
                format!("lab {} has no ports of adapters: veths join its hosts", self.name);
            Refused::failed(reason).with_hint("linkrate lab up --adapter gigabit")
        })
    }

    /// The port of that name, of the system under test or of a client.
    pub(super) fn port(&self, name: &str) -> Result<PortOnSegment<'_>, Refused> {
        let adapters = self.adapters()?;
        adapters.port(name).ok_or_else(|| {
            let names: Vec<String> = adapters.ports().map(|port| port.name()).collect();
            let tail = did_you_mean(name, names.iter().map(String::as_str));
            Refused::wrong(format!("no port {name:?} in lab {}{tail}", self.name))
                .with_hint(format!("its ports are {}", names.join(", ")))
        })
    }

    /// Sets the rate of a link, up to that of the model.
    fn set_link_rate(&mut self, port: &str, rate: BitRate) -> Result<(), Refused> {
        let model = self.adapters()?.model();
        let Some(most) = model.rate else {
            let reason = format!("links of {} have no rate: nothing limits them", model.name);
            return Err(Refused::wrong(reason));
        };
        if !(SLOWEST_LINK..=most).contains(&rate) {
            let reason = format!("rate is {rate}, expected {SLOWEST_LINK} to {most}");
            return Err(Refused::wrong(reason));
        }
        let found = self.port(port)?;
        found.set_link_rate(rate);
        // at a cable, the rate of the other end changes too
        let of_sut = found.sut_ports();
        for interface in of_sut {
            self.testbed.follow_link_rate(&interface)?;
        }
        Ok(())
    }

    /// The lab and its hosts.
    pub fn report(&self) -> LabReport {
        let testbed = &self.testbed;
        let host = |host: &Host, cpus: &CpuSet, interfaces| HostReport {
            name: typed_name(&host.name),
            pid: host.pid(),
            cpus: cpus.clone(),
            interfaces,
        };
        let interface = |name: &str, address| InterfaceReport {
            name: name.to_owned(),
            address,
            prefix_length: PREFIX_LENGTH,
            ipv6: testbed.keeps_ipv6().then(|| ipv6_address(address)),
        };
        let mut of_sut: Vec<InterfaceReport> = testbed
            .clients
            .iter()
            .map(|client| interface(&client.sut_interface, client.sut_address))
            .collect();
        of_sut.dedup();
        let mut hosts = vec![host(&testbed.sut, &testbed.placement.sut, of_sut)];
        hosts.extend(testbed.clients.iter().map(|client| {
            let interfaces = vec![interface(&client.interface, client.address)];
            host(&client.host, &testbed.placement.clients, interfaces)
        }));
        LabReport {
            name: self.name.to_string(),
            pid: std::process::id(),
            adapter: self.spec.adapter.name().to_owned(),
            scale: self.spec.scale,
            ports: testbed.topology.segments.iter().map(|segment| segment.adapter_ports()).sum(),
            fabric: testbed.topology.segments.iter().flat_map(|segment| segment.drawn()).collect(),
            congestion: self.options.route_congestion.clone().unwrap_or_default(),
            offloads: self.offloads(),
            hosts,
        }
    }

    fn adapter_report(&mut self, kernel: bool) -> Result<AdapterReport, Refused> {
        let mut of_kernel = BTreeMap::new();
        if kernel {
            for name in self.testbed.sut_interfaces(usize::MAX) {
                let knobs = self.testbed.sut.read_knobs(&name)?;
                of_kernel.insert(name, knobs);
            }
            for client in &mut self.testbed.clients {
                let knobs = client.host.read_knobs(&client.interface)?;
                of_kernel.insert(typed_name(&client.host.name), knobs);
            }
        }
        let adapters = self.adapters()?;
        let at_ns = monotonic_ns();
        let mut report = |port: PortOnSegment<'_>| {
            let name = port.name();
            let faults = self.faults.get(&port.segment_number());
            let found = port.report(of_kernel.remove(&name).unwrap_or_default())?;
            let capture = self.captures.get(&name).map(|file| match port.capture_failure() {
                Some(failure) => format!("{file}, until {failure}"),
                None => file.clone(),
            });
            Ok::<_, LabError>(PortReport {
                capture,
                faults: faults.map(faults::describe).unwrap_or_default(),
                vlans: vlans::describe(&port.vlans()),
                ..found
            })
        };
        Ok(AdapterReport {
            lab: self.name.to_string(),
            at_ns,
            model: adapters.model().clone(),
            buses_busy_ns: adapters.buses_busy_ns(),
            drivers: adapters.driver_times(),
            devices: adapters.device_times(),
            ports: adapters.ports().map(&mut report).collect::<Result<_, _>>()?,
            aggregates: adapters.aggregate_reports()?,
        })
    }

    /// Changes knobs of the first interface of the system under test, an aggregate, before the lab serves
    /// anybody, and waits until its ports carry traffic, as far as they can.
    pub fn prepare(&mut self, asked: &[Setting]) -> Result<(), Refused> {
        let Some(interface) = self.testbed.sut_interfaces(1).pop().filter(|_| !asked.is_empty())
        else {
            return Ok(());
        };
        self.set(&interface, asked)?;
        if let Err(error) = self.testbed.backend.await_ports() {
            stderr::line(format_args!("warning: {error}"));
        }
        Ok(())
    }

    /// Changes settings of a port of the system under test.
    fn set(&mut self, port: &str, asked: &[Setting]) -> Result<SettingsReport, Refused> {
        let adapters = self.adapters()?;
        let aggregated = adapters.segment(port).and_then(|found| found.aggregate.as_ref());
        let (shared_with, ports) = match aggregated {
            Some(aggregate) if aggregate.name() == port => {
                let segment = adapters.segment(port);
                let clients = segment.map(Segment::client_names).unwrap_or_default();
                (clients, segment.map_or(0, |segment| segment.ports.len()))
            }
            _ => {
                let found = self.port(port)?;
                let of_sut = match aggregated {
                    Some(aggregate) => aggregate.name().to_owned(),
                    None => found.sut_interface(),
                };
                if !found.is_of_sut() || aggregated.is_some() {
                    let whose = match found.is_of_sut() {
                        true => "a port of an aggregate",
                        false => "a client's port",
                    };
                    let reason =
                        format!("{port} is {whose}; its settings follow those of {of_sut}");
                    let hint = format!("linkrate adapter set {of_sut} ...");
                    return Err(Refused::wrong(reason).with_hint(hint));
                }
                (found.client_ports(), 0)
            }
        };
        let before = self.asked.get(port).cloned().unwrap_or_default();
        let wanted = settings::over(&before, asked, adapters.model(), ports)?;
        let named = |key: &str| asked.iter().any(|setting| setting.key == key);
        let leaving = adapters.programs_before_setting(port, &wanted, named("toe"));
        self.return_programs(leaving);
        // all settings ever made: an agent restores what a request leaves out
        let effective = match self.testbed.set_port_knobs(port, &wanted) {
            Ok(effective) => effective,
            Err(error) => {
                // as before, as far as that goes; the first error is the one to report
                let _ = self.testbed.set_port_knobs(port, &before);
                return Err(error.into());
            }
        };
        self.asked.insert(port.to_owned(), wanted);
        let effective = effective.common();
        let values = effective.values();
        let value =
            |key: &str| values.iter().find(|(name, _)| *name == key).map(|(_, v)| v.clone());
        let shared: Vec<String> =
            settings::shared().filter(|key| named(key)).map(str::to_owned).collect();
        Ok(SettingsReport {
            port: port.to_owned(),
            settings: asked
                .iter()
                .map(|Setting { key, .. }| {
                    // this kernel does not show a key without a value
                    (key.clone(), value(key).unwrap_or_else(|| "unknown".to_owned()))
                })
                .collect(),
            shared_with: if shared.is_empty() { Vec::new() } else { shared_with },
            shared,
        })
    }
}
