//! Connections of a run: the system under test listens, and every client connects.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddrV4;

use linkrate_agent::protocol::{
    ConnectSpec, Ends, FlowFacts, FlowPorts, ListenSpec, Reply, Request,
};
use linkrate_terms::flow::FlowEnds;
use linkrate_terms::measurement::MOST_FLOWS;
use linkrate_terms::{RunSpec, Workload};

use super::event;
use crate::connection::{AgentError, expect_reply};
use crate::testbed::{Client, Testbed};

/// Lets the SUT listen and every client connect. Returns the options of the SUT's sockets, and on an
/// aggregate the addresses of the flows.
pub(super) fn connect(
    testbed: &mut Testbed,
    workload: &Workload,
    spec: &RunSpec,
    clients: usize,
) -> Result<(FlowFacts, Vec<FlowEnds>), AgentError> {
    // a number that no other program guesses: the hasher has random keys
    let nonce = RandomState::new().hash_one(spec.seed);
    let shared_cpus = testbed.placement.is_shared();
    let record = event::record(spec, workload.flows(clients as u32));
    let listeners = testbed.ground.listeners(spec, workload.flows(clients as u32));
    let listen = Request::Listen(ListenSpec {
        workload: workload.clone(),
        socket: spec.socket.clone(),
        clients: testbed.clients.iter().take(clients).map(ends).collect(),
        listeners,
        nonce,
        seed: spec.seed,
        shared_cpus,
        record,
    });
    let ports = expect_reply!(
        testbed.sut.connection, listen, Reply::Listening { ports } => ports
    )?;
    if ports.len() != clients {
        return Err(testbed.sut.connection.unexpected("listen"));
    }
    let mut flows = Vec::new();
    let with_ports = testbed.clients.iter_mut().zip(ports);
    for (number, (client, ports)) in with_ports.enumerate() {
        let connect = Request::Connect(ConnectSpec {
            workload: workload.clone(),
            socket: spec.socket.clone(),
            client: number as u32,
            ends: ends(client),
            ports,
            nonce,
            seed: spec.seed,
            shared_cpus,
            record,
        });
        let connected =
            expect_reply!(client.host.connection, connect, Reply::Flows(facts) => facts)?;
        if let Some(macs) = testbed.ground.flow_macs(number) {
            flows.extend(by_address(number as u32, client, &macs, &connected.ports));
        }
    }
    flows.truncate(MOST_FLOWS);
    let facts =
        expect_reply!(testbed.sut.connection, Request::AwaitFlows, Reply::Flows(facts) => facts)?;
    Ok((facts, flows))
}

/// The flows of a client, whose frames have these Ethernet addresses of the SUT and of the far end.
fn by_address(
    number: u32,
    client: &Client,
    (sut_mac, far_mac): &(String, String),
    ports: &[FlowPorts],
) -> impl Iterator<Item = FlowEnds> {
    ports.iter().map(move |ports| FlowEnds {
        client: number,
        direction: ports.direction,
        sut: SocketAddrV4::new(client.sut_address, ports.listener),
        far_end: SocketAddrV4::new(client.address, ports.client),
        sut_mac: sut_mac.clone(),
        far_mac: far_mac.clone(),
    })
}

/// The addresses between which a client and the SUT exchange packets.
fn ends(client: &Client) -> Ends {
    Ends { client: client.address, listener: client.sut_address }
}
