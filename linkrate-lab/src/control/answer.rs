//! What each request comes to.

use std::collections::BTreeMap;
use std::path::Path;

use linkrate_adapter::{Port, WireError, WireKind};
use linkrate_agent::protocol::{Reply as AgentReply, Request as AgentRequest};
use linkrate_sys::clock::monotonic_ns;
use linkrate_terms::knobs::PortRequest;
use linkrate_terms::lab::{
    AdapterReport, HostReport, InterfaceReport, LabReport, PortReport, SettingsReport,
};
use linkrate_terms::nearest::did_you_mean;
use linkrate_terms::{BitRate, CpuSet, InterfaceKnobs};

use super::messages::{Refused, Reply, Request, Setting};
use super::server::OpenLab;
use super::{faults, host_name, settings, vlans};
use crate::LabError;
use crate::adapters::{Adapters, Line, effective_knobs, with_port};
use crate::connection::{AgentError, expect_reply};
use crate::testbed::Host;

/// The slowest a link may run: below it, a frame takes longer than programs wait.
const SLOWEST_LINK: BitRate = BitRate(1e6);

/// Prefix length of a wire's network.
const PREFIX_LENGTH: u8 = 24;

/// A port with the wire it is on.
#[derive(Debug, Clone, Copy)]
pub(super) struct PortOnLine<'a> {
    pub(super) line: &'a Line,
    port: &'a Port,
}

impl From<LabError> for Refused {
    fn from(error: LabError) -> Self {
        let wrong = matches!(error, LabError::Invalid { .. });
        Self { wrong, reason: error.to_string(), hint: error.hint() }
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
    /// Carries out a request.
    pub(super) fn answer(&mut self, request: Request) -> Result<Reply, Refused> {
        match request {
            Request::Lab => Ok(Reply::Lab(self.report())),
            Request::Down => Ok(Reply::Done),
            Request::Adapters { kernel } => {
                self.adapter_report(kernel).map(|report| Reply::Adapters(Box::new(report)))
            }
            Request::Set { port, settings } => self.set(&port, &settings).map(Reply::Settings),
            Request::SetFaults { port, settings } => {
                let line = self.port(&port)?.line;
                let faults = faults::parse(&settings)?;
                line.wire.set_faults(faults).map_err(LabError::from)?;
                let name = line.sut.shared.name().to_owned();
                self.faults.insert(name, faults);
                Ok(Reply::Faults(faults::describe(&faults)))
            }
            Request::SetVlans { port, settings } => {
                let found = self.port(&port)?.port;
                let wanted = vlans::parse(&settings)?;
                found.set_vlans(wanted).map_err(|error| match error {
                    WireError::NoSwitch { .. } => Refused::wrong(error.to_string())
                        .with_hint("linkrate lab up --clients-per-port 2 puts switches on wires"),
                    other => LabError::from(other).into(),
                })?;
                Ok(Reply::Vlans(found.vlans().map(|now| vlans::describe(&now)).unwrap_or_default()))
            }
            Request::SetLink { port, up } => {
                self.port(&port)?.port.shared.set_link(up).map_err(LabError::from)?;
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
            Request::Remove { port } => self.remove_port(&port).map(|()| Reply::Done),
            Request::StartCapture { port, file } => {
                let found = self.port(&port)?;
                if let Some(other) = self.captures.get(&port) {
                    let reason = format!("port {port} is being captured to {other}");
                    return Err(Refused::failed(reason)
                        .with_hint(format!("linkrate adapter capture {port} --stop")));
                }
                found.port.start_capture(Path::new(&file)).map_err(LabError::from)?;
                self.captures.insert(port, file);
                Ok(Reply::Done)
            }
            Request::StopCapture { port } => {
                let found = self.port(&port)?;
                let Some(file) = self.captures.get(&port) else {
                    return Err(Refused::failed(format!("port {port} is not being captured")));
                };
                let (stopped, file) = (found.port.stop_capture(), file.clone());
                self.captures.remove(&port);
                let packets = stopped.map_err(LabError::from)?;
                Ok(Reply::Captured { packets, file })
            }
        }
    }

    pub(super) fn adapters(&self) -> Result<&Adapters, Refused> {
        self.testbed.adapters.as_ref().ok_or_else(|| {
            let reason =
                format!("the hosts of lab {} are joined by veths, not adapters", self.name);
            Refused::failed(reason).with_hint("linkrate lab up --adapter gigabit")
        })
    }

    /// The port of that name, at either end of a wire.
    pub(super) fn port(&self, name: &str) -> Result<PortOnLine<'_>, Refused> {
        let all = || {
            let lines = self.testbed.adapters.iter().flat_map(Adapters::lines);
            lines.flat_map(|line| {
                let ends = std::iter::once(&line.sut).chain(&line.clients);
                ends.map(move |port| (port_name(port), PortOnLine { line, port }))
            })
        };
        self.adapters()?;
        if let Some((_, found)) = all().find(|(port, _)| port == name) {
            return Ok(found);
        }
        let names: Vec<String> = all().map(|(port, _)| port).collect();
        let tail = did_you_mean(name, names.iter().map(String::as_str));
        Err(Refused::wrong(format!("no port {name:?} in lab {}{tail}", self.name))
            .with_hint(format!("its ports are {}", names.join(", "))))
    }

    /// An adapter can negotiate less than it has, and no more.
    fn set_link_rate(&self, port: &str, rate: BitRate) -> Result<(), Refused> {
        let model = self.adapters()?.model();
        let Some(most) = model.rate else {
            let reason =
                format!("links of {} have no rate: they are as fast as they go", model.name);
            return Err(Refused::wrong(reason));
        };
        if !(SLOWEST_LINK..=most).contains(&rate) {
            let reason = format!("rate is {rate}, expected {SLOWEST_LINK} to {most}");
            return Err(Refused::wrong(reason));
        }
        let found = self.port(port)?;
        found.line.set_link_rate(found.port, rate);
        Ok(())
    }

    /// The lab and its hosts.
    pub fn report(&self) -> LabReport {
        let testbed = &self.testbed;
        let host = |host: &Host, cpus: &CpuSet, interfaces| HostReport {
            name: host_name(&host.name),
            pid: host.pid(),
            cpus: cpus.clone(),
            interfaces,
        };
        let interface = |name: &str, address| InterfaceReport {
            name: name.to_owned(),
            address,
            prefix_length: PREFIX_LENGTH,
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
            congestion: self.options.route_congestion.clone().unwrap_or_default(),
            hosts,
        }
    }

    fn adapter_report(&mut self, kernel: bool) -> Result<AdapterReport, Refused> {
        let mut from_kernel = BTreeMap::new();
        if kernel {
            let mut names = self.testbed.sut_interfaces(usize::MAX);
            names.sort();
            for name in names {
                let knobs = read_knobs(&mut self.testbed.sut, &name)?;
                from_kernel.insert(name, knobs);
            }
            for client in &mut self.testbed.clients {
                let knobs = read_knobs(&mut client.host, &client.interface)?;
                from_kernel.insert(host_name(&client.host.name), knobs);
            }
        }
        let adapters = self.adapters()?;
        let port = |line: &Line, port: &Port, reaches: Vec<String>| {
            let name = port_name(port);
            let of_sut = std::ptr::eq(port, &line.sut);
            let kernel = from_kernel.get(&name).cloned().unwrap_or_default();
            PortReport {
                adapter: of_sut.then(|| line.number / adapters.model().ports),
                wire: match wire_kind(line) {
                    WireKind::Cable => "cable".to_owned(),
                    WireKind::Switch => "switch".to_owned(),
                },
                reaches,
                link_up: port.shared.link_up(),
                link_rate: port.shared.link_rate(),
                capture: self.captures.get(&name).cloned(),
                faults: self
                    .faults
                    .get(line.sut.shared.name())
                    .map(faults::describe)
                    .unwrap_or_default(),
                vlans: port.vlans().map(|now| vlans::describe(&now)).unwrap_or_default(),
                knobs: with_port(kernel, effective_knobs(port)),
                counters: port.counters(),
                drivers: port.driver_times(),
                device: line.wire.device_time(),
                name,
            }
        };
        let names = |ports: &[Port]| ports.iter().map(port_name).collect::<Vec<_>>();
        let at_ns = monotonic_ns();
        let mut ports: Vec<PortReport> = adapters
            .lines()
            .iter()
            .map(|line| port(line, &line.sut, names(&line.clients)))
            .collect();
        for line in adapters.lines() {
            for client in &line.clients {
                let own = port_name(client);
                let mut reaches = vec![port_name(&line.sut)];
                reaches.extend(names(&line.clients).into_iter().filter(|name| *name != own));
                ports.push(port(line, client, reaches));
            }
        }
        Ok(AdapterReport {
            lab: self.name.to_string(),
            at_ns,
            model: adapters.model().clone(),
            buses_busy_ns: adapters.buses_busy_ns(),
            ports,
        })
    }

    /// Changes settings of a port of the system under test.
    fn set(&mut self, port: &str, asked: &[Setting]) -> Result<SettingsReport, Refused> {
        let line = self.port(port)?.line;
        if line.sut.shared.name() != port {
            let reason = format!(
                "{port} is a client's port; its settings follow from those of {}",
                line.sut.shared.name()
            );
            return Err(Refused::wrong(reason));
        }
        let shared_with: Vec<String> = line.clients.iter().map(port_name).collect();
        let before = self.asked.get(port).cloned().unwrap_or_default();
        let wanted = settings::over(&before, asked, self.adapters()?.model())?;
        let named = |key: &str| asked.iter().any(|setting| setting.key == key);
        let effective = match self.apply(port, &wanted, named("mtu")) {
            Ok(effective) => effective,
            Err(refused) => {
                // as it was, as far as that goes; the refusal is what matters
                let _ = self.apply(port, &before, named("mtu"));
                return Err(refused);
            }
        };
        self.asked.insert(port.to_owned(), wanted);
        let values = effective.values();
        let value =
            |key: &str| values.iter().find(|(name, _)| *name == key).map(|(_, v)| v.clone());
        let shared: Vec<String> =
            settings::SHARED.into_iter().filter(|key| named(key)).map(str::to_owned).collect();
        Ok(SettingsReport {
            port: port.to_owned(),
            settings: asked
                .iter()
                .map(|Setting { key, .. }| {
                    // a key without a value is one that this kernel does not show
                    (key.clone(), value(key).unwrap_or_else(|| "unknown".to_owned()))
                })
                .collect(),
            shared_with: if shared.is_empty() { Vec::new() } else { shared_with },
            shared,
        })
    }

    /// Sets everything that was ever asked of a port: an agent puts back what is not named.
    fn apply(
        &mut self,
        port: &str,
        wanted: &InterfaceKnobs,
        mtu_too: bool,
    ) -> Result<InterfaceKnobs, Refused> {
        if mtu_too {
            let behind = |client: &&mut crate::testbed::Client| client.sut_interface == port;
            for client in self.testbed.clients.iter_mut().filter(behind) {
                let request = AgentRequest::SetKnobs {
                    interfaces: vec![client.interface.clone()],
                    knobs: InterfaceKnobs { mtu: wanted.mtu, ..InterfaceKnobs::default() },
                };
                expect_reply!(client.host.connection, request, AgentReply::Knobs(_) => ())?;
            }
        }
        let Some(adapters) = &self.testbed.adapters else {
            return Err(Refused::failed("there is no adapter"));
        };
        let model = adapters.model();
        let Some(line) = adapters.line(port) else {
            return Err(Refused::failed(format!("port {port} is gone")));
        };
        let queues = wanted.queues.unwrap_or(model.queues) as usize;
        line.sut.shared.use_queues(queues).map_err(LabError::from)?;
        let knobs = InterfaceKnobs {
            // the virtual MTU is the model's
            gso_max_size: wanted.gso_max_size.or(Some(model.superframe)),
            // what the port itself knows is not the kernel's to set
            rx_checksum: None,
            queues: None,
            port: PortRequest::default(),
            ..wanted.clone()
        };
        let request = AgentRequest::SetKnobs { interfaces: vec![port.to_owned()], knobs };
        let kernel =
            expect_reply!(self.testbed.sut.connection, request, AgentReply::Knobs(knobs) => knobs)?;
        Ok(with_port(kernel, line.set_knobs(model, wanted)))
    }

    /// Gives a fresh port its model's virtual MTU.
    pub(super) fn prepare_port(&mut self, port: &str) -> Result<(), LabError> {
        let Some(adapters) = &self.testbed.adapters else { return Ok(()) };
        let request = AgentRequest::SetKnobs {
            interfaces: vec![port.to_owned()],
            knobs: InterfaceKnobs {
                gso_max_size: Some(adapters.model().superframe),
                ..InterfaceKnobs::default()
            },
        };
        expect_reply!(self.testbed.sut.connection, request, AgentReply::Knobs(_) => ())?;
        Ok(())
    }
}

fn read_knobs(host: &mut Host, name: &str) -> Result<InterfaceKnobs, Refused> {
    let request = AgentRequest::ReadKnobs { name: name.to_owned() };
    Ok(expect_reply!(host.connection, request, AgentReply::Knobs(knobs) => knobs)?)
}

/// `eth0` of the system under test, `client-0` of a client.
fn port_name(port: &Port) -> String {
    host_name(port.shared.name())
}

fn wire_kind(line: &Line) -> WireKind {
    if line.clients.len() == 1 { WireKind::Cable } else { WireKind::Switch }
}
