//! Decodes messages of the peer, and checks each count and name in them.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use linkrate_model::backup::{FileSizes, MAX_DIRECTORY, MAX_FILES, MAX_LENGTH};
use linkrate_model::interfaces::is_interface_name;
use linkrate_model::knobs::{MAX_MTU, MAX_SOCKET_BUFFER, MIN_MTU};
use linkrate_model::measurement::MAX_INTERVALS;
use linkrate_model::mix::MAX_PARTS;
use linkrate_model::profile::Profile;
use linkrate_model::workload::{
    MAX_BURST, MAX_FLOWS, MAX_MESSAGE, MAX_PAYLOAD_MEMORY, MAX_REQUEST_RATE, MAX_TRANSFER,
};
use linkrate_model::{SocketKnobs, Workload};
use serde::Deserialize;
use serde_json::Value;

use crate::RecordSpec;

use super::{HELLO_NUMBER, Hello, InterfaceFacts, MeasurementReport, Reply, Request, text};

/// Bounds on the messages of the peer; each is far above the need of any testbed.
pub mod bounds {
    /// Interfaces named in one request.
    pub const INTERFACES: usize = 256;
    /// Addresses of one host.
    pub const ADDRESSES: usize = 4096;
    /// Bytes of a driver's name or version, or of a counter's name.
    pub const WORD_BYTES: usize = 64;
    /// Bytes of a kernel release or a CPU model.
    pub const LINE_BYTES: usize = 256;
    /// Settings of a host.
    pub const SETTINGS: usize = 64;
    /// Length of one: boot parameters (`COMMAND_LINE_SIZE` of Linux is 4096 at most), or the state of each fault of the CPUs.
    pub const SETTING_BYTES: usize = 8192;
    /// Bytes that a third-party program knows a connection by.
    pub const FIRST_OCTETS: usize = 64;
    /// Bytes of the name of a congestion control: TCP_CA_NAME_MAX, include/net/tcp.h.
    pub const CONGESTION_BYTES: usize = 16;
    /// Counters of the kernel's protocols.
    pub const COUNTERS: usize = 4096;
    /// Steps of a histogram of latencies: three digits from 1 ns to a minute have 28,000.
    pub const LATENCIES: usize = 1 << 16;
    /// Addresses of unexpected peers in a report.
    pub const UNEXPECTED_PEERS: usize = 8;
    /// Settings and objects of a network stack: sysctls, and some files of each queue.
    pub const STACK: usize = 1 << 16;
    /// Queue disciplines in a report: each interface may have one for each of 256 queues.
    pub const DISCIPLINES: usize = 1 << 16;
    /// Interrupts of one interface.
    pub const INTERRUPTS: usize = 4096;
    /// TCP ports one host listens on.
    pub const LISTENERS: u32 = 64;
    /// Queue pairs.
    pub const QUEUES: u32 = 256;
    /// Frames that wait in one transmit queue.
    pub const QUEUE_LENGTH: u32 = 1 << 16;
    /// Functions named in a profile.
    pub const SYMBOLS: usize = 1024;
    /// Bytes of a function's name with its module's: KSYM_NAME_LEN and MODULE_NAME_LEN.
    pub const SYMBOL_BYTES: usize = 640;
    /// Threads named in a profile.
    pub const TASKS: usize = 256;
    /// Slots of the record of a flow, and of the records of all flows.
    pub const SLOTS: u64 = 1 << 16;
    /// The same of all flows of an agent together: 64 MiB.
    pub const ALL_SLOTS: u64 = 1 << 24;
    /// CPUs in a profile.
    pub const SAMPLED_CPUS: usize = 8192;
}

/// Why a message was refused.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is no JSON of the expected shape.
    #[error("cannot decode agent message: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("{field} is {value}, expected {expected}")]
    OutOfBounds { field: &'static str, value: String, expected: String },
}

/// Decodes a request and checks every count and name in it. Returns it with its number, which is
/// also that of a refusal.
pub fn decode_request(bytes: &[u8]) -> (u64, Result<Request, DecodeError>) {
    let (number, message) = match opened(bytes) {
        Ok(opened) => opened,
        Err(error) => return (HELLO_NUMBER, Err(error)),
    };
    let request = serde_json::from_value(message).map_err(DecodeError::from);
    let request = request.and_then(|request| {
        check_request(&request)?;
        check_number(number, matches!(request, Request::Hello { .. }))?;
        Ok(request)
    });
    (number, request)
}

/// Decodes a reply, with the number of its request. Every string in it is bounded and cleaned.
pub fn decode_reply(bytes: &[u8]) -> Result<(u64, Reply), DecodeError> {
    let (number, mut message) = opened(bytes)?;
    text::clean(&mut message);
    let reply: Reply = serde_json::from_value(message)?;
    check_reply(&reply)?;
    Ok((number, reply))
}

/// The number of a message and the message; a message without a number has [`HELLO_NUMBER`].
fn opened(bytes: &[u8]) -> Result<(u64, Value), DecodeError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Numbered {
        number: NonZeroU64,
        message: Value,
    }
    match serde_json::from_slice(bytes)? {
        Value::Object(map) if map.contains_key("number") => {
            let Numbered { number, message } = serde_json::from_value(Value::Object(map))?;
            Ok((number.get(), message))
        }
        message => Ok((HELLO_NUMBER, message)),
    }
}

/// Only the first request has no number.
fn check_number(number: u64, is_hello: bool) -> Result<(), DecodeError> {
    if (number == HELLO_NUMBER) == is_hello {
        return Ok(());
    }
    Err(DecodeError::OutOfBounds {
        field: "number",
        value: if is_hello { number.to_string() } else { "missing".to_owned() },
        expected: "a number in every request except hello".to_owned(),
    })
}

fn check_reply(reply: &Reply) -> Result<(), DecodeError> {
    match reply {
        Reply::Measured(report) if report.ended_ns < report.started_ns => {
            Err(DecodeError::OutOfBounds {
                field: "ended-ns",
                value: report.ended_ns.to_string(),
                expected: "a time after started-ns".to_owned(),
            })
        }
        Reply::Measured(report) => check_window(report),
        Reply::Hello(hello) => check_hello(hello),
        Reply::Listening { ports } => {
            at_most("clients", ports.len() as u64, MAX_FLOWS)?;
            let all = ports.iter().map(Vec::len).sum::<usize>();
            at_most("ports", all as u64, MAX_FLOWS * u64::from(bounds::LISTENERS))
        }
        Reply::Progress { bytes, .. } => at_most("flows", bytes.len() as u64, MAX_FLOWS),
        Reply::Finished(finished) => {
            at_most("parts", finished.parts.len() as u64, MAX_PARTS as u64)?;
            for latency in finished.parts.iter().chain([&finished.latency]) {
                for steps in [&latency.all, &latency.open] {
                    at_most("latencies", steps.len() as u64, bounds::LATENCIES as u64)?;
                }
            }
            let unexpected_peers = finished.unexpected_peers.addresses.len();
            at_most(
                "addresses of strangers",
                unexpected_peers as u64,
                bounds::UNEXPECTED_PEERS as u64,
            )
        }
        Reply::Steered(steered) => {
            at_most("interrupts", steered.stuck.len() as u64, bounds::INTERRUPTS as u64)
        }
        Reply::Tap { descriptors, napi_threads, .. } => {
            at_most("napi-threads", napi_threads.len() as u64, u64::from(bounds::QUEUES))?;
            within("descriptors", descriptors.len() as u64, 1, bounds::QUEUES.into())?;
            descriptors.iter().copied().try_for_each(check_descriptor)
        }
        Reply::Toe(reply) => {
            let (descriptors, flows) = reply.bounded();
            at_most("flows", flows as u64, MAX_FLOWS)?;
            descriptors.into_iter().try_for_each(check_descriptor)
        }
        Reply::Interface(facts) => check_facts(facts),
        Reply::Addresses(addresses) => {
            at_most("addresses", addresses.len() as u64, bounds::ADDRESSES as u64)?;
            addresses.iter().try_for_each(|address| {
                check_name(&address.interface)?;
                at_most("prefix-length", u64::from(address.prefix_length), 32)
            })
        }
        Reply::Route { interface, .. } => check_name(interface),
        Reply::Stack(stack) => {
            at_most("entries of a stack", stack.all().count() as u64, bounds::STACK as u64)
        }
        Reply::Knobs(knobs) => {
            at_most("interfaces", knobs.len() as u64, bounds::INTERFACES as u64)?;
            knobs.keys().try_for_each(|name| check_name(name))
        }
        _ => Ok(()),
    }
}

fn check_descriptor(descriptor: i32) -> Result<(), DecodeError> {
    if descriptor >= 0 {
        return Ok(());
    }
    Err(DecodeError::OutOfBounds {
        field: "descriptors",
        value: descriptor.to_string(),
        expected: "0 or more".to_owned(),
    })
}

/// The description of a machine is part of results.
fn check_hello(hello: &Hello) -> Result<(), DecodeError> {
    for (field, word) in [
        ("bytes of kernel", &hello.kernel),
        ("bytes of cpu-model", &hello.cpu_model),
        ("bytes of boot-id", &hello.boot_id),
    ] {
        at_most(field, word.len() as u64, bounds::LINE_BYTES as u64)?;
    }
    at_most("sysctls", hello.sysctls.len() as u64, bounds::COUNTERS as u64)?;
    for (name, value) in &hello.sysctls {
        at_most("bytes of a sysctl's name", name.len() as u64, bounds::WORD_BYTES as u64)?;
        at_most("bytes of a sysctl", value.len() as u64, bounds::LINE_BYTES as u64)?;
    }
    at_most("settings", hello.settings.len() as u64, bounds::SETTINGS as u64)?;
    for (name, value) in &hello.settings {
        at_most("bytes of a setting's name", name.len() as u64, bounds::WORD_BYTES as u64)?;
        at_most("bytes of a setting", value.len() as u64, bounds::SETTING_BYTES as u64)?;
    }
    Ok(())
}

fn check_window(report: &MeasurementReport) -> Result<(), DecodeError> {
    at_most("parts", report.parts.len() as u64, MAX_PARTS as u64)?;
    at_most("counters", report.protocol.len() as u64, bounds::COUNTERS as u64)?;
    for name in report.protocol.keys() {
        at_most("bytes of a counter's name", name.len() as u64, bounds::WORD_BYTES as u64)?;
    }
    at_most("CPUs", report.cpu.cpus.len() as u64, bounds::SAMPLED_CPUS as u64)?;
    at_most("CPUs", report.receive_packets_by_cpu.len() as u64, bounds::SAMPLED_CPUS as u64)?;
    // each flow is a thread, beside that of the agent
    at_most("threads", report.cpu.threads.len() as u64, MAX_FLOWS + 1)?;
    at_most("other programs", report.cpu.background.len() as u64, bounds::TASKS as u64)?;
    for disciplines in &report.disciplines {
        at_most("queue disciplines", disciplines.len() as u64, bounds::DISCIPLINES as u64)?;
        for one in disciplines {
            check_name(&one.interface)?;
            let words = [&one.kind, &one.handle, &one.parent];
            let longest = words.into_iter().map(String::len).max().unwrap_or(0);
            at_most("bytes of a word", longest as u64, bounds::WORD_BYTES as u64)?;
        }
    }
    at_most("intervals", report.intervals.len() as u64, MAX_INTERVALS as u64)?;
    if let Some(record) = &report.record {
        at_most("slots of a record", record.received.len() as u64, bounds::SLOTS)?;
        at_most("recorded flows", record.flows.len() as u64, MAX_FLOWS)?;
    }
    report.profile.as_deref().map_or(Ok(()), check_profile)
}

/// The description of an interface is part of results.
fn check_facts(facts: &InterfaceFacts) -> Result<(), DecodeError> {
    check_name(&facts.name)?;
    at_most("addresses", facts.addresses.len() as u64, bounds::ADDRESSES as u64)?;
    at_most("upper interfaces", facts.carries.len() as u64, bounds::INTERFACES as u64)?;
    facts.carries.iter().chain(&facts.belongs_to).try_for_each(|name| check_name(name))?;
    let InterfaceFacts { driver, driver_version, firmware, bus, bus_link, interrupts, .. } = facts;
    let words = [driver, driver_version, firmware, bus, bus_link, interrupts];
    for word in words.into_iter().chain(&facts.kind) {
        at_most("bytes of a word", word.len() as u64, bounds::WORD_BYTES as u64)?;
    }
    match facts.rate {
        Some(rate) if !(rate.0.is_finite() && rate.0 > 0.0) => Err(DecodeError::OutOfBounds {
            field: "rate",
            value: rate.0.to_string(),
            expected: "a finite rate above zero".to_owned(),
        }),
        _ => Ok(()),
    }
}

fn check_request(request: &Request) -> Result<(), DecodeError> {
    match request {
        Request::Hello { .. }
        | Request::Clock
        | Request::Place { .. }
        | Request::PrepareProfile { .. }
        | Request::Account { .. }
        | Request::AwaitFlows
        | Request::Progress
        | Request::Addresses
        | Request::RouteTo { .. }
        | Request::Begin
        | Request::Settle { .. }
        | Request::Finish => Ok(()),
        Request::CreateWire { name, peer_name, queues, .. } => {
            check_name(name)?;
            check_name(peer_name)?;
            at_most("queues", u64::from(*queues), u64::from(bounds::QUEUES))
        }
        Request::CreateTap { name, queues, address, mtu, tx_queue_length, .. } => {
            check_name(name)?;
            within("queues", (*queues).into(), 1, bounds::QUEUES.into())?;
            let length = u64::from(*tx_queue_length);
            within("tx-queue-length", length, 1, bounds::QUEUE_LENGTH.into())?;
            within("mtu", mtu.unwrap_or(MIN_MTU).into(), MIN_MTU.into(), MAX_MTU.into())?;
            address.as_ref().map_or(Ok(()), check_address)
        }
        Request::LimitDatagrams { name, bytes_per_second, burst_us, .. } => {
            check_name(name)?;
            at_least("bytes-per-second", *bytes_per_second, 1)?;
            at_least("burst-us", u64::from(*burst_us), 1)
        }
        Request::ConfigureInterface(setup) => {
            check_name(&setup.name)?;
            setup.route_congestion.as_deref().map_or(Ok(()), check_congestion)?;
            at_most("prefix-length", u64::from(setup.prefix_length), 32)
        }
        Request::ReachOverIpv6(setup) => {
            check_name(&setup.name)?;
            at_most("neighbours", setup.neighbours.len() as u64, bounds::ADDRESSES as u64)?;
            setup.route_congestion.as_deref().map_or(Ok(()), check_congestion)
        }
        Request::SteerReceive { name, .. }
        | Request::SteerInterface { name, .. }
        | Request::Describe { name }
        | Request::Lend { name, .. }
        | Request::AwaitLink { name }
        | Request::ReleaseTap { name } => check_name(name),
        Request::SetKnobs { interfaces, .. } | Request::ReadKnobs { interfaces } => {
            check_names(interfaces)
        }
        Request::ReadStack { interfaces, peers } => {
            check_names(interfaces)?;
            at_most("peers", peers.len() as u64, bounds::ADDRESSES as u64)
        }
        Request::Keep { names } => check_names(names),
        Request::Toe(request) => request.interface().map_or(Ok(()), check_name),
        Request::Listen(spec) => {
            at_most("clients", spec.clients.len() as u64, MAX_FLOWS)?;
            check_workload(&spec.workload, spec.clients.len() as u32)?;
            at_most("part", u64::from(spec.part), MAX_PARTS as u64 - 1)?;
            at_most("clients that are bound", spec.bind.len() as u64, bounds::ADDRESSES as u64)?;
            within("listeners", spec.listeners.into(), 1, bounds::LISTENERS.into())?;
            check_record(spec.record.as_ref(), spec.workload.flows(spec.clients.len() as u32))?;
            check_socket(&spec.socket)
        }
        Request::Connect(spec) => {
            at_most("client", u64::from(spec.client), MAX_FLOWS)?;
            check_workload(&spec.workload, 1)?;
            at_most("part", u64::from(spec.part), MAX_PARTS as u64 - 1)?;
            within("ports", spec.ports.len() as u64, 1, MAX_FLOWS)?;
            check_record(spec.record.as_ref(), spec.workload.flows(1))?;
            check_socket(&spec.socket)
        }
        Request::Dial(spec) => {
            at_most("client", u64::from(spec.client), MAX_FLOWS)?;
            check_workload(&spec.workload, 1)?;
            within("ports", spec.ports.len() as u64, 1, MAX_FLOWS)?;
            at_most("first-octets", spec.first_octets.len() as u64, bounds::FIRST_OCTETS as u64)?;
            at_most("clients that are bound", spec.bind.len() as u64, bounds::ADDRESSES as u64)?;
            check_socket(&spec.socket)
        }
        Request::Measure(spec) => {
            check_names(&spec.interfaces)?;
            at_most("agents", spec.agents.len() as u64, MAX_FLOWS)?;
            at_least("end-ns", spec.end_ns, spec.start_ns)
        }
    }
}

/// Records are memory of this host.
fn check_record(record: Option<&RecordSpec>, flows: u64) -> Result<(), DecodeError> {
    let Some(record) = record else { return Ok(()) };
    at_least("slot-us", u64::from(record.slot_us), 1)?;
    at_most("slots of a record", u64::from(record.slots), bounds::SLOTS)?;
    at_most("slots of all records", flows.saturating_mul(record.slots.into()), bounds::ALL_SLOTS)
}

fn check_profile(profile: &Profile) -> Result<(), DecodeError> {
    at_least("period-ns", profile.period_ns, 1)?;
    at_most("profiled CPUs", profile.cpus.len() as u64, bounds::SAMPLED_CPUS as u64)?;
    at_most("functions", profile.kernel.len() as u64, bounds::SYMBOLS as u64)?;
    at_most("functions", profile.idle.len() as u64, bounds::SYMBOLS as u64)?;
    at_most("tasks", profile.tasks.len() as u64, bounds::TASKS as u64)?;
    let names = profile.kernel.iter().chain(&profile.idle).map(|(name, _)| name);
    for name in names.chain(profile.tasks.iter().map(|task| &task.name)) {
        at_most("bytes of a name", name.len() as u64, bounds::SYMBOL_BYTES as u64)?;
    }
    Ok(())
}

fn check_workload(workload: &Workload, clients: u32) -> Result<(), DecodeError> {
    // each workload of a mix has its own request
    at_most("parts", workload.mix.len() as u64, 0)?;
    at_least("connections", u64::from(workload.connections), 1)?;
    at_least("clients", u64::from(clients), 1)?;
    at_most("flows", workload.flows(clients), MAX_FLOWS)?;
    at_most("payload memory", workload.payload_memory(clients), MAX_PAYLOAD_MEMORY)?;
    within("burst", workload.burst.into(), 1, MAX_BURST.into())?;
    let rate = workload.request_rate_per_s.unwrap_or(1);
    within("request-rate", rate.into(), 1, MAX_REQUEST_RATE.into())?;
    for (field, size) in [
        ("message", workload.message),
        ("request", workload.request),
        ("response", workload.response),
    ] {
        at_least(field, size.smallest().0, 1)?;
        within(field, size.largest().0, size.smallest().0, MAX_MESSAGE)?;
    }
    if let Some(size) = workload.working_set {
        at_least("working-set", size.0, 1)?;
    }
    let backup = &workload.backup;
    at_least("tree", backup.tree.0, 1)?;
    if let FileSizes::One(size) = backup.files {
        within("files", size.0, 1, MAX_LENGTH)?;
    }
    at_most("files of a tree", backup.extent().0, MAX_FILES)?;
    at_least("drives", backup.drives.into(), 1)?;
    at_least("drive-rate", backup.drive_rate.0, 1)?;
    let directory = &backup.directory;
    at_most("bytes of directory", directory.len() as u64, MAX_DIRECTORY as u64)?;
    within("transfer", workload.transfer.0, 1, MAX_TRANSFER)?;
    let segment = workload.udp_segment.map_or(1, |segment| segment.0);
    within("udp-segment", segment, 1, u16::MAX.into())
}

fn check_socket(socket: &SocketKnobs) -> Result<(), DecodeError> {
    check_congestion(&socket.congestion)?;
    match socket.buffer {
        Some(bytes) => at_most("buffer", bytes.0, MAX_SOCKET_BUFFER),
        None => Ok(()),
    }
}

fn check_congestion(name: &str) -> Result<(), DecodeError> {
    at_most("bytes of congestion", name.len() as u64, bounds::CONGESTION_BYTES as u64)
}

/// Hosts behind one switch reach the SUT through one interface, which must not count twice.
fn check_names(names: &[String]) -> Result<(), DecodeError> {
    at_most("interfaces", names.len() as u64, bounds::INTERFACES as u64)?;
    let mut seen = BTreeSet::new();
    for name in names {
        check_name(name)?;
        if !seen.insert(name) {
            return Err(DecodeError::OutOfBounds {
                field: "interfaces",
                value: format!("{name:?} twice"),
                expected: "each interface once".to_owned(),
            });
        }
    }
    Ok(())
}

/// As the kernel's is_valid_ether_addr (include/linux/etherdevice.h).
fn check_address(address: &[u8; 6]) -> Result<(), DecodeError> {
    if address[0] & 1 == 0 && *address != [0; 6] {
        return Ok(());
    }
    Err(DecodeError::OutOfBounds {
        field: "address",
        value: address.map(|byte| format!("{byte:02x}")).join(":"),
        expected: "a unicast address, such as 02:00:00:00:00:01".to_owned(),
    })
}

fn check_name(name: &str) -> Result<(), DecodeError> {
    if is_interface_name(name) {
        return Ok(());
    }
    Err(DecodeError::OutOfBounds {
        field: "interface name",
        value: format!("{name:?}"),
        expected: "1 to 15 printable characters without '/' and ':'".to_owned(),
    })
}

fn at_most(field: &'static str, value: u64, limit: u64) -> Result<(), DecodeError> {
    if value <= limit {
        return Ok(());
    }
    let expected = format!("at most {limit}");
    Err(DecodeError::OutOfBounds { field, value: value.to_string(), expected })
}

fn within(field: &'static str, value: u64, low: u64, high: u64) -> Result<(), DecodeError> {
    at_least(field, value, low)?;
    at_most(field, value, high)
}

fn at_least(field: &'static str, value: u64, limit: u64) -> Result<(), DecodeError> {
    if value >= limit {
        return Ok(());
    }
    let expected = format!("at least {limit}");
    Err(DecodeError::OutOfBounds { field, value: value.to_string(), expected })
}

#[cfg(test)]
mod tests;
