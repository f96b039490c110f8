//! Connections of a run: the system under test listens, and every client connects.

use linkrate_agent::protocol::{ConnectSpec, FlowFacts, ListenSpec, Reply, Request};
use linkrate_sys::clock::monotonic_ns;
use linkrate_terms::{RunSpec, Workload};

use crate::connection::{AgentError, expect_reply};
use crate::testbed::Testbed;

/// Lets the SUT listen and every client connect. Returns the options of the SUT's sockets.
pub(super) fn connect(
    testbed: &mut Testbed,
    workload: &Workload,
    spec: &RunSpec,
    clients: usize,
) -> Result<FlowFacts, AgentError> {
    // a number that no stray connection guesses
    let nonce = spec.seed ^ monotonic_ns().rotate_left(32);
    let shared_cpus = testbed.placement.is_shared();
    let listeners = testbed.ground.listeners(spec, workload.flows(clients as u32));
    let listen = Request::Listen(ListenSpec {
        workload: workload.clone(),
        socket: spec.socket.clone(),
        clients: clients as u32,
        listeners,
        nonce,
        seed: spec.seed,
        shared_cpus,
    });
    let ports = expect_reply!(
        testbed.sut.connection, listen, Reply::Listening { ports } => ports
    )?;
    for (number, client) in testbed.clients.iter_mut().take(clients).enumerate() {
        let connect = Request::Connect(ConnectSpec {
            workload: workload.clone(),
            socket: spec.socket.clone(),
            client: number as u32,
            address: client.sut_address,
            ports: ports.clone(),
            nonce,
            seed: spec.seed,
            shared_cpus,
        });
        expect_reply!(client.host.connection, connect, Reply::Flows(_) => ())?;
    }
    expect_reply!(testbed.sut.connection, Request::AwaitFlows, Reply::Flows(facts) => facts)
}
