//! Connections of a run: the system under test (SUT) listens, and every client connects; the CPUs
//! that its flows are bound to.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};

use linkrate_model::evidence::FlowEnds;
use linkrate_model::measurement::MAX_REPORTED_FLOWS;
use linkrate_model::topology::ipv6_address;
use linkrate_model::{CpuSet, Family, RunSpec, Task, Workload};
use linkrate_protocol::{ConnectSpec, Ends, FlowFacts, FlowPorts, ListenSpec, Reply, Request};

use super::event;
use crate::connection::{AgentError, expect_reply};
use crate::error::LabError;
use crate::testbed::{Client, Testbed};

/// Lets the SUT listen and every client connect; flows of the clients in `bind` are bound to these CPUs of
/// the SUT. Returns the options of the SUT's sockets, and on an
/// aggregate the addresses of the flows.
pub(super) fn connect(
    testbed: &mut Testbed,
    workload: &Workload,
    spec: &RunSpec,
    clients: usize,
    bind: &BTreeMap<u16, CpuSet>,
) -> Result<(FlowFacts, Vec<FlowEnds>), AgentError> {
    // a number that no other program guesses: the hasher has random keys
    let nonce = RandomState::new().hash_one(spec.seed);
    let shared_cpus = testbed.placement.is_shared();
    let record = event::record(spec, workload.flows(clients as u32));
    let listeners = testbed.backend.listeners(spec, workload.flows(clients as u32));
    let mut connections: Vec<Vec<ConnectSpec>> = vec![Vec::new(); clients];
    let mut listening = false;
    for (part, workload, numbers) in groups(workload, clients as u32) {
        let of = |number: &usize| ends(&testbed.clients[*number], spec.socket.family);
        let listen = Request::Listen(ListenSpec {
            workload: workload.clone(),
            socket: spec.socket.clone(),
            clients: numbers.iter().map(of).collect(),
            listeners,
            nonce,
            seed: spec.seed,
            shared_cpus,
            record,
            part,
            concurrent: listening,
            bind: bind.clone(),
        });
        listening = true;
        let ports = expect_reply!(
            testbed.sut.connection, listen, Reply::Listening { ports } => ports
        )?;
        if ports.len() != numbers.len() {
            return Err(testbed.sut.connection.unexpected("listen"));
        }
        for (number, ports) in numbers.into_iter().zip(ports) {
            let beside = !connections[number].is_empty();
            connections[number].push(ConnectSpec {
                workload: workload.clone(),
                socket: spec.socket.clone(),
                client: number as u32,
                ends: ends(&testbed.clients[number], spec.socket.family),
                ports,
                nonce,
                seed: spec.seed,
                shared_cpus,
                record,
                part,
                concurrent: beside,
            });
        }
    }
    let mut flows = Vec::new();
    let with_connections = testbed.clients.iter_mut().zip(connections);
    for (number, (client, connections)) in with_connections.enumerate() {
        let mut ports = Vec::new();
        for connect in connections {
            let connect = Request::Connect(connect);
            let connected =
                expect_reply!(client.host.connection, connect, Reply::Flows(facts) => facts)?;
            // the facts are those of all flows so far
            ports = connected.ports;
        }
        if let Some(macs) = testbed.backend.flow_macs(number) {
            let ends = ends(client, spec.socket.family);
            flows.extend(by_address(number as u32, ends, &macs, &ports));
        }
    }
    flows.truncate(MAX_REPORTED_FLOWS);
    let facts =
        expect_reply!(testbed.sut.connection, Request::AwaitFlows, Reply::Flows(facts) => facts)?;
    Ok((facts, flows))
}

/// The workloads of a mix with the clients that run them, by the number of the workload and of
/// connections. A workload that is no mix is one group.
fn groups(workload: &Workload, clients: u32) -> Vec<(u8, Workload, Vec<usize>)> {
    let mut groups: Vec<(u8, Workload, Vec<usize>)> = Vec::new();
    for (part, by_client) in (0..).zip(workload.by_client(clients)) {
        for (number, of_client) in by_client.into_iter().enumerate() {
            let same =
                |group: &&mut (u8, Workload, Vec<usize>)| group.0 == part && group.1 == of_client;
            match groups.iter_mut().find(same) {
                Some(group) => group.2.push(number),
                None if of_client.connections == 0 => {}
                None => groups.push((part, of_client, vec![number])),
            }
        }
    }
    groups
}

/// The flows of a client, whose frames have these Ethernet addresses of the SUT and of the peer.
fn by_address(
    number: u32,
    ends: Ends,
    (sut_mac, peer_mac): &(String, String),
    ports: &[FlowPorts],
) -> impl Iterator<Item = FlowEnds> {
    ports.iter().map(move |ports| FlowEnds {
        client: number,
        direction: ports.direction,
        sut: SocketAddr::new(ends.listener, ports.listener),
        peer: SocketAddr::new(ends.client, ports.client),
        sut_mac: sut_mac.clone(),
        peer_mac: peer_mac.clone(),
    })
}

/// The addresses between which a client and the SUT exchange packets.
pub(crate) fn ends(client: &Client, family: Family) -> Ends {
    let [client, listener] = [client.address, client.sut_address].map(|address| match family {
        Family::Ipv4 => IpAddr::V4(address),
        Family::Ipv6 => IpAddr::V6(ipv6_address(address)),
    });
    Ends { client, listener }
}

/// The CPUs of the flows of each client that takes part, by its number: those that take the interrupts of
/// its interface of the SUT. Empty if the run leaves flows to the scheduler. Fails where the SUT has one CPU: then the
/// scheduler has no choice, and a bound run is no other than an unbound one.
pub(super) fn bound_cpus(
    testbed: &Testbed,
    spec: &RunSpec,
    clients: usize,
) -> Result<BTreeMap<u16, CpuSet>, LabError> {
    let Task::Workload(workload) = &spec.task else { return Ok(BTreeMap::new()) };
    if !workload.cpu_binding {
        return Ok(BTreeMap::new());
    }
    let sut = &testbed.sut.cpus;
    if sut.len() < 2 {
        return Err(LabError::Invalid {
            what: format!(
                "cpu-binding on has no effect: the system under test has only CPU {sut}"
            ),
            hint: "give it two CPUs, for example sut-cpus = \"0-1\" or --sut-cpus 0-1; on a machine with \
                   two CPUs, its clients then have the same"
                .to_owned(),
        });
    }
    let adapters = testbed.backend.adapters();
    let cpus = |interface: &str| -> CpuSet {
        let threads = adapters.map(|adapters| adapters.driver_threads(interface));
        let of_interface = threads.into_iter().flatten().filter_map(|one| sut.iter().nth(one));
        let of_interface: CpuSet = of_interface.collect();
        // the interrupts of others come to all CPUs of the host
        if of_interface.is_empty() { sut.clone() } else { of_interface }
    };
    let numbered = (0..).zip(testbed.clients.iter().take(clients));
    Ok(numbered.map(|(number, client)| (number, cpus(&client.sut_interface))).collect())
}

#[cfg(test)]
mod tests {
    use linkrate_model::mix::MixPart;

    use super::*;

    #[test]
    fn clients_with_the_same_connections_listen_together() {
        let one = Workload { connections: 3, ..Workload::default() };
        assert_eq!(groups(&one, 2), [(0, one.clone(), vec![0, 1])]);
        let part = |name: &str, share| MixPart {
            name: name.to_owned(),
            share,
            workload: Workload::default(),
        };
        let mix = Workload { connections: 1, ..one }.of_mix(vec![part("a", 2), part("b", 1)]);
        let found = groups(&mix, 3);
        let found: Vec<_> = found.iter().map(|(part, w, of)| (*part, w.connections, of)).collect();
        assert_eq!(found, [(0, 1, &vec![0, 2]), (1, 1, &vec![1])]);
    }
}
