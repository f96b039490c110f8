//! A host of a testbed: a process with an agent, the protocol to it, its clock and its CPUs.
//!
//! [`crate::peer`] starts the process; [`crate::backend`] makes its interfaces.

mod carrier;

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use linkrate_model::measurement::IdleSource;
use linkrate_model::{CpuMeter, CpuSet, InterfaceKnobs};
use linkrate_protocol::{Hello, InterfaceFacts, InterfaceSetup, PROTOCOL_VERSION, Reply, Request};
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::error::{SysError, SysResult};
use linkrate_sys::limits::is_lack;
use linkrate_sys::stderr;

use crate::connection::{AgentError, Connection, TIMEOUT, expect_reply};
use crate::error::LabError;
use crate::options::LabOptions;
use crate::peer::StderrLines;

pub(crate) use carrier::Carrier;

/// Prefix length of the networks between hosts in namespaces.
pub(crate) const PREFIX_LENGTH: u8 = 24;

/// Exchanges that a reading of a host's clock takes; the one with the shortest round trip counts.
const CLOCK_READINGS: u32 = 5;

#[derive(Debug)]
pub struct Host {
    /// `sut`, `client 0`, ...
    pub name: String,
    /// The protocol to its agent.
    pub connection: Connection,
    /// The agent's answer to the first request: kernel, CPUs, machine.
    pub hello: Hello,
    /// CLOCK_MONOTONIC of the host less that of the controller, ns.
    pub clock_offset_ns: i64,
    /// Duration of one request to its agent and the reply, ns.
    pub round_trip_ns: u64,
    /// The CPUs its threads run on.
    pub cpus: CpuSet,
    carrier: Carrier,
    /// Its standard error, if that is not the controller's.
    words: Option<StderrLines>,
    /// Existing interfaces that its agent restores at its end.
    held: Vec<String>,
}

impl Drop for Host {
    fn drop(&mut self) {
        let ended = self.carrier.end();
        // the agent may have said which setting is not restored
        if let Some(words) = self.words.take() {
            words.finish();
        }
        if let Some(doubt) = doubt(&self.name, self.pid(), &self.held, &ended) {
            stderr::line(doubt);
        }
    }
}

/// The least exit code of a carrier whose agent did not end by itself: `ssh` has 255 when the connection
/// was lost, ssh(1), and `srun` has 128 and the number of the signal that ended the task. No agent has any.
const NOT_BY_ITSELF: i32 = 128;

/// What is to be said of an agent whose end does not prove that it has restored its interfaces.
fn doubt(name: &str, pid: u32, held: &[String], ended: &io::Result<ExitStatus>) -> Option<String> {
    if held.is_empty() {
        return None;
    }
    let interfaces = held.join(", ");
    const LEFT: &str = "MTU, offloads, queues, steering and addresses may be those of a run";
    match ended {
        Ok(status) if status.code().is_some_and(|code| code < NOT_BY_ITSELF) => None,
        Ok(status) => Some(format!(
            "warning: the connection to the agent of {name} has ended ({status}) before the agent \
             said that it restored {interfaces}: {LEFT}\n\
             hint: the agent restores them when it goes on; if it was killed, the next run on them \
             does, or `linkrate restore` on its machine"
        )),
        Err(_) => Some(format!(
            "warning: the agent of {name} (process {pid}) does not end, and has not restored \
             {interfaces}: {LEFT}\n\
             hint: it restores them when it goes on (`kill -CONT {pid}`); otherwise end it with \
             `kill -KILL {pid}`, then `linkrate restore`"
        )),
    }
}

impl Host {
    /// Says hello to the agent behind `carrier` and reads its clock. An error returns the carrier, so that the caller
    /// can ask how it ended.
    pub(crate) fn greet(
        name: &str,
        carrier: impl Into<Carrier>,
        options: &LabOptions,
    ) -> Result<Self, Box<(AgentError, Carrier)>> {
        Self::greet_within(TIMEOUT, name, carrier, options)
    }

    /// The same with an agent that may take `timeout` to start.
    pub(crate) fn greet_within(
        timeout: Duration,
        name: &str,
        carrier: impl Into<Carrier>,
        options: &LabOptions,
    ) -> Result<Self, Box<(AgentError, Carrier)>> {
        let carrier = carrier.into();
        let greeted =
            converse(timeout, name, &carrier, options).and_then(|(mut connection, hello)| {
                let clock = read_clock(&mut connection)?;
                Ok((connection, hello, clock))
            });
        match greeted {
            Ok((connection, hello, (clock_offset_ns, round_trip_ns))) => Ok(Self {
                name: name.to_owned(),
                cpus: hello.online_cpus.clone(),
                connection,
                hello,
                clock_offset_ns,
                round_trip_ns,
                carrier,
                words: None,
                held: Vec::new(),
            }),
            Err(error) => Err(Box::new((error, carrier))),
        }
    }

    /// With its standard error.
    pub(crate) fn with_words(mut self, words: StderrLines) -> Self {
        self.words = Some(words);
        self
    }

    /// Binds it to its CPUs.
    pub(crate) fn place(&mut self, cpus: &CpuSet) -> Result<(), LabError> {
        let place = Request::Place { cpus: cpus.clone() };
        let placed = expect_reply!(self.connection, place, Reply::Placed { cpus } => cpus)?;
        if placed != *cpus {
            return Err(LabError::CannotMeasure {
                what: format!("{} runs on CPUs {placed}, expected {cpus}", self.name),
                hint: Some("choose CPUs with sut-cpus and client-cpus".to_owned()),
            });
        }
        self.cpus = placed;
        Ok(())
    }

    /// Reads its clock against the controller's.
    pub(crate) fn read_clock(&mut self) -> Result<(), AgentError> {
        (self.clock_offset_ns, self.round_trip_ns) = read_clock(&mut self.connection)?;
        Ok(())
    }

    /// Makes it account for the time of CPUs, and trace what runs there if `traces`. Returns the source of idle time.
    pub(crate) fn account(
        &mut self,
        cpus: &CpuSet,
        meter: CpuMeter,
        traces: bool,
    ) -> Result<IdleSource, AgentError> {
        let request = Request::Account { cpus: cpus.clone(), meter, traces };
        expect_reply!(self.connection, request, Reply::Accounts { source } => source)
    }

    /// Makes its agent hold existing interfaces: their settings are restored at its end.
    pub(crate) fn keep(&mut self, names: Vec<String>) -> Result<(), LabError> {
        // also if it is lost meanwhile
        self.held.extend(names.iter().cloned());
        let kept = self.order(&Request::Keep { names });
        self.named(kept)
    }

    /// Ends its input, so that its agent ends, and does not wait.
    pub(crate) fn hang_up(&self) {
        self.carrier.hang_up();
    }

    /// Names this host in its refusal, for requests that go to several hosts.
    pub(crate) fn named<T>(&self, answer: Result<T, AgentError>) -> Result<T, LabError> {
        answer.map_err(|error| match error {
            AgentError::Refused(refusal) => LabError::CannotMeasure {
                what: format!("{}: {refusal}", self.name),
                hint: refusal.hint,
            },
            error => error.into(),
        })
    }

    /// Sends a request that is answered with [`Reply::Done`].
    pub(crate) fn order(&mut self, request: &Request) -> Result<(), AgentError> {
        expect_reply!(self.connection, request, Reply::Done => ())
    }

    /// Waits until packets can pass an interface.
    pub(crate) fn await_link(&mut self, interface: &str) -> Result<(), AgentError> {
        self.order(&Request::AwaitLink { name: interface.to_owned() })
    }

    /// Gives an interface its address in a network of 24 bits, and brings it up. Other networks are
    /// reached by `gateway`.
    pub(crate) fn configure(
        &mut self,
        interface: &str,
        address: Ipv4Addr,
        route_congestion: Option<&str>,
        gateway: Option<Ipv4Addr>,
    ) -> Result<(), AgentError> {
        self.order(&Request::ConfigureInterface(InterfaceSetup {
            name: interface.to_owned(),
            address,
            prefix_length: PREFIX_LENGTH,
            route_congestion: route_congestion.map(str::to_owned),
            gateway,
        }))
    }

    pub(crate) fn describe(&mut self, interface: &str) -> Result<InterfaceFacts, AgentError> {
        let request = Request::Describe { name: interface.to_owned() };
        expect_reply!(self.connection, request, Reply::Interface(facts) => *facts)
    }

    /// Sets knobs on interfaces. Returns the knobs of each interface as its kernel reads them back.
    pub(crate) fn set_knobs(
        &mut self,
        interfaces: &[String],
        knobs: InterfaceKnobs,
    ) -> Result<BTreeMap<String, InterfaceKnobs>, AgentError> {
        let request = Request::SetKnobs { interfaces: interfaces.to_vec(), knobs };
        let effective =
            expect_reply!(self.connection, request, Reply::Knobs(effective) => effective)?;
        self.all_of(interfaces, effective)
    }

    /// Reads the knobs of an interface that its kernel knows.
    pub(crate) fn read_knobs(&mut self, interface: &str) -> Result<InterfaceKnobs, AgentError> {
        let interfaces = [interface.to_owned()];
        let request = Request::ReadKnobs { interfaces: interfaces.to_vec() };
        let effective =
            expect_reply!(self.connection, request, Reply::Knobs(effective) => effective)?;
        let mut effective = self.all_of(&interfaces, effective)?;
        effective.remove(interface).ok_or_else(|| self.connection.unexpected("read-knobs"))
    }

    /// A reply with these interfaces and no others.
    fn all_of(
        &mut self,
        interfaces: &[String],
        effective: BTreeMap<String, InterfaceKnobs>,
    ) -> Result<BTreeMap<String, InterfaceKnobs>, AgentError> {
        let complete = interfaces.iter().all(|name| effective.contains_key(name));
        if complete && effective.len() == interfaces.len() {
            return Ok(effective);
        }
        Err(self.connection.unexpected("a request about other interfaces"))
    }

    /// Its process id, which names its namespaces.
    pub fn pid(&self) -> u32 {
        self.carrier.pid()
    }

    /// Why its agent answers no request any more, as a phrase.
    pub(crate) fn broken(&self) -> Option<String> {
        // a process that has ended, waited for or not, has no namespaces
        if self.network_namespace().is_err_and(|error| !is_lack(&error)) {
            return Some(format!("the agent of {} has died", self.name));
        }
        // it stood still, and may be in any state
        let reason = self.connection.why_lost()?;
        Some(format!("the agent of {} is lost: {reason}", self.name))
    }

    pub fn network_namespace(&self) -> io::Result<OwnedFd> {
        self.carrier.process()?.network_namespace()
    }

    /// A copy of one of its descriptors.
    pub fn take_descriptor(&self, descriptor: i32) -> SysResult<OwnedFd> {
        let process = self.carrier.process();
        process
            .map_err(|error| SysError::new("take a descriptor of", &self.name, error))?
            .take_descriptor(descriptor)
    }

    /// The user namespace that owns it.
    pub fn user_namespace(&self) -> io::Result<OwnedFd> {
        self.carrier.process()?.user_namespace()
    }
}

/// A client, and how it and the system under test reach each other.
#[derive(Debug)]
pub struct Client {
    pub host: Host,
    /// The interface of the system under test that leads to it.
    pub sut_interface: String,
    /// Its own interface.
    pub interface: String,
    /// The address of the system under test for this client.
    pub sut_address: Ipv4Addr,
    pub address: Ipv4Addr,
}

/// The name of a host as people type it: `client-0`.
pub(crate) fn typed_name(name: &str) -> String {
    name.replace(' ', "-")
}

/// Says hello to the agent behind `carrier`.
fn converse(
    timeout: Duration,
    name: &str,
    carrier: &Carrier,
    options: &LabOptions,
) -> Result<(Connection, Hello), AgentError> {
    let lost =
        |error: io::Error| AgentError::Lost { host: name.to_owned(), reason: error.to_string() };
    let socket = carrier.socket().try_clone().map_err(lost)?;
    let mut connection = Connection::new(name.to_owned(), socket.into(), Arc::clone(&options.stop));
    let hello = Request::Hello { version: PROTOCOL_VERSION };
    connection.send(&hello)?;
    match connection.receive(timeout)? {
        Reply::Hello(hello) => Ok((connection, hello)),
        _ => Err(connection.unexpected("hello")),
    }
}

/// Reads how far the host's clock is ahead of the controller's, and how long the exchange with the
/// shortest round trip took, both in ns. Hosts of one machine share a clock: an offset within the
/// error of the round trip counts as zero.
pub(crate) fn read_clock(connection: &mut Connection) -> Result<(i64, u64), AgentError> {
    let mut best: (u64, i64) = (u64::MAX, 0);
    for _ in 0..CLOCK_READINGS {
        let asked = monotonic_ns();
        let there = expect_reply!(
            connection, Request::Clock, Reply::Clock { monotonic_ns } => monotonic_ns
        )?;
        let answered = monotonic_ns();
        let round_trip = answered - asked;
        let here = asked + round_trip / 2;
        // a distance above i64::MAX ns, 292 years, is an error of the host
        let distance = i64::try_from(there.abs_diff(here)).unwrap_or(i64::MAX);
        let offset = if there >= here { distance } else { -distance };
        if round_trip < best.0 {
            let within_error = offset.unsigned_abs() <= round_trip / 2 + 1;
            best = (round_trip, if within_error { 0 } else { offset });
        }
    }
    Ok((best.1, best.0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn an_agent_that_may_not_have_restored_its_interfaces_is_named() {
        let held = ["eth1".to_owned(), "eth2".to_owned()];
        let of = |raw| doubt("ssh:lab2", 7, &held, &Ok(ExitStatus::from_raw(raw)));
        // it restores before it exits, with whatever code
        assert_eq!((of(0), of(1 << 8), of(101 << 8)), (None, None, None));
        for (raw, part) in
            [(9, "signal: 9"), (255 << 8, "exit status: 255"), (137 << 8, "exit status: 137")]
        {
            let said = of(raw).unwrap();
            let all = [part, "agent of ssh:lab2", "eth1, eth2", "`linkrate restore`"];
            assert!(all.iter().all(|part| said.contains(part)), "{said}");
        }
        let given_up = Err(io::ErrorKind::TimedOut.into());
        let said = doubt("sut", 7, &held, &given_up).unwrap();
        assert!(said.contains("`kill -CONT 7`"), "{said}");
        assert_eq!(doubt("sut", 7, &[], &given_up), None);
    }
}
