//! Ports that come and go while others carry traffic.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use linkrate_agent::protocol::{Reply, Request};
use linkrate_study::keys::MAX_CLIENTS;
use linkrate_sys::host::{Isolation, Life, Privilege, end_programs};

use super::host_name;
use super::messages::Refused;
use super::server::{FAREWELL, OpenLab};
use crate::LabError;
use crate::connection::expect_reply;
use crate::testbed::{Client, addresses, configure, start, sut_interface};

impl OpenLab {
    /// Adds one port with its clients, and returns their names.
    pub(super) fn add_port(&mut self) -> Result<(String, Vec<String>), Refused> {
        let per_port = self.spec.clients_per_port.max(1);
        let clients = self.testbed.clients.len();
        if clients + per_port as usize > MAX_CLIENTS as usize {
            let reason = format!(
                "a port more would add {per_port} to {clients} clients, expected at most \
                 {MAX_CLIENTS} in all"
            );
            return Err(Refused::failed(reason).with_hint("remove another port first"));
        }
        let number = self.adapters()?.next_number();
        let port = sut_interface(number);
        match self.try_add(number, &port) {
            Ok(clients) => Ok((port, clients)),
            Err(error) => {
                // half a port is none
                if let Some(adapters) = &mut self.testbed.adapters {
                    adapters.remove_port(&port);
                }
                self.testbed.clients.retain(|client| client.sut_interface != port);
                Err(error.into())
            }
        }
    }

    fn try_add(&mut self, number: u32, port: &str) -> Result<Vec<String>, LabError> {
        let testbed = &mut self.testbed;
        let user_namespace = match testbed.privilege {
            None | Some(Privilege::Root) => None,
            Some(Privilege::UserNamespace) => Some(testbed.sut.user_namespace()?),
        };
        let taken: BTreeSet<String> =
            testbed.clients.iter().map(|client| client.host.name.clone()).collect();
        let free = (0..).map(|number| format!("client {number}"));
        let free = free.filter(|name| !taken.contains(name));
        let mut added = Vec::new();
        for (index, name) in (0..self.spec.clients_per_port.max(1)).zip(free) {
            let isolation = match &user_namespace {
                None => Isolation::Root,
                Some(shared) => Isolation::UserNamespace { join: Some(shared.as_fd()) },
            };
            let host = start(
                &name,
                Life::WithItsParent,
                isolation,
                &testbed.placement.clients,
                &self.options,
            )?;
            let (sut_address, address) = addresses(number, index);
            added.push(Client {
                host,
                sut_interface: port.to_owned(),
                interface: "eth0".to_owned(),
                sut_address,
                address,
            });
        }
        let Some(adapters) = &mut testbed.adapters else { return Ok(Vec::new()) };
        let mut hosts: Vec<_> =
            added.iter_mut().map(|client| (&mut client.host, client.interface.as_str())).collect();
        adapters.add_port(&mut testbed.sut, port, &mut hosts, &testbed.placement)?;
        let congestion = self.options.route_congestion.as_deref();
        let (sut_address, _) = addresses(number, 0);
        configure(&mut testbed.sut, port, sut_address, None, congestion)?;
        for client in &mut added {
            configure(&mut client.host, &client.interface, client.address, None, congestion)?;
        }
        let ends = std::iter::once((&mut testbed.sut, port))
            .chain(added.iter_mut().map(|client| (&mut client.host, client.interface.as_str())));
        for (host, name) in ends {
            let request = Request::AwaitLink { name: name.to_owned() };
            expect_reply!(host.connection, request, Reply::Done => ())?;
        }
        let names = added.iter().map(|client| host_name(&client.host.name)).collect();
        testbed.clients.extend(added);
        self.prepare_port(port)?;
        Ok(names)
    }

    /// Takes a port away, with its clients.
    pub(super) fn remove_port(&mut self, port: &str) -> Result<(), Refused> {
        let line = self.port(port)?.line;
        if line.sut.shared.name() != port {
            let reason = format!("{port} is at the far end of {}", line.sut.shared.name());
            return Err(Refused::wrong(reason)
                .with_hint(format!("linkrate adapter remove {}", line.sut.shared.name())));
        }
        let gone: Vec<String> = std::iter::once(port.to_owned())
            .chain(line.clients.iter().map(|client| host_name(client.shared.name())))
            .collect();
        let behind = self.testbed.clients.iter().filter(|client| client.sut_interface == port);
        let hosts: Vec<u32> = behind.map(|client| client.host.pid()).collect();
        end_programs(&hosts, FAREWELL);
        if let Some(adapters) = &mut self.testbed.adapters {
            adapters.remove_port(port);
        }
        self.testbed.clients.retain(|client| client.sut_interface != port);
        self.asked.remove(port);
        self.faults.remove(port);
        self.captures.retain(|captured, _| !gone.contains(captured));
        Ok(())
    }
}
