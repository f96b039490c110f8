//! Decodes messages of the far end, and checks each count and name in them.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use linkrate_terms::backup::{FileSizes, LONGEST_DIRECTORY, MOST_FILES};
use linkrate_terms::interfaces::is_interface_name;
use linkrate_terms::intervals::MOST_INTERVALS;
use linkrate_terms::mix::MOST_PARTS;
use linkrate_terms::model::{LARGEST_MTU, SMALLEST_MTU};
use linkrate_terms::profile::Profile;
use linkrate_terms::workload::{MAX_FLOWS, MAX_PAYLOAD_MEMORY};
use linkrate_terms::{SocketKnobs, Workload};
use serde::Deserialize;
use serde_json::Value;

use crate::flow::backup::header::LONGEST;
use crate::flow::record::RecordSpec;

use super::{HELLO_NUMBER, Hello, InterfaceFacts, Reply, Request, WindowReport, text};

/// Bounds on the messages of the far end; each is far above the need of any testbed.
pub mod bounds {
    /// One message, bytes.
    pub const MESSAGE_BYTES: u64 = 64 << 20;
    /// One transfer, bytes.
    pub const TRANSFER_BYTES: u64 = 1 << 40;
    /// One socket buffer, bytes.
    pub const BUFFER_BYTES: u64 = 1 << 30;
    /// Outstanding requests of one flow.
    pub const BURST: u32 = 4096;
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
    /// Bytes that a program of others knows a connection by.
    pub const FIRST_OCTETS: usize = 64;
    /// Bytes of the name of a congestion control: TCP_CA_NAME_MAX, include/net/tcp.h.
    pub const CONGESTION_BYTES: usize = 16;
    /// Counters of the kernel's protocols.
    pub const COUNTERS: usize = 4096;
    /// Steps of a histogram of latencies: three digits from 1 ns to a minute have 28,000.
    pub const LATENCIES: usize = 1 << 16;
    /// Addresses of strangers in a report.
    pub const STRANGERS: usize = 8;
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
    #[error("message is not understood: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A value is out of bounds.
    #[error("{field} is {value}, expected {expected}")]
    OutOfBounds {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// The values that are accepted.
        expected: String,
    },
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
///
/// # Errors
/// [`DecodeError`] when it is no reply, or names the field that is out of bounds.
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
        Reply::Window(report) if report.ended_ns < report.started_ns => {
            Err(DecodeError::OutOfBounds {
                field: "ended-ns",
                value: report.ended_ns.to_string(),
                expected: "a time after started-ns".to_owned(),
            })
        }
        Reply::Window(report) => check_window(report),
        Reply::Hello(hello) => check_hello(hello),
        Reply::Listening { ports } => {
            at_most("clients", ports.len() as u64, MAX_FLOWS)?;
            let all = ports.iter().map(Vec::len).sum::<usize>();
            at_most("ports", all as u64, MAX_FLOWS * u64::from(bounds::LISTENERS))
        }
        Reply::Progress { bytes, .. } => at_most("flows", bytes.len() as u64, MAX_FLOWS),
        Reply::Finished(finished) => {
            at_most("parts", finished.parts.len() as u64, MOST_PARTS as u64)?;
            for latency in finished.parts.iter().chain([&finished.latency]) {
                at_most("latencies", latency.len() as u64, bounds::LATENCIES as u64)?;
            }
            let strangers = finished.strangers.addresses.len();
            at_most("addresses of strangers", strangers as u64, bounds::STRANGERS as u64)
        }
        Reply::Steered(steered) => {
            at_most("interrupts", steered.stuck.len() as u64, bounds::INTERRUPTS as u64)
        }
        Reply::Tap { descriptors } => {
            at_least("descriptors", descriptors.len() as u64, 1)?;
            at_most("descriptors", descriptors.len() as u64, u64::from(bounds::QUEUES))?;
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

fn check_window(report: &WindowReport) -> Result<(), DecodeError> {
    at_most("parts", report.parts.len() as u64, MOST_PARTS as u64)?;
    at_most("counters", report.protocol.len() as u64, bounds::COUNTERS as u64)?;
    for name in report.protocol.keys() {
        at_most("bytes of a counter's name", name.len() as u64, bounds::WORD_BYTES as u64)?;
    }
    at_most("CPUs", report.cpu.cpus.len() as u64, bounds::SAMPLED_CPUS as u64)?;
    at_most("CPUs", report.receive_packets_by_cpu.len() as u64, bounds::SAMPLED_CPUS as u64)?;
    // each flow is a thread, beside that of the agent
    at_most("threads", report.cpu.threads.len() as u64, MAX_FLOWS + 1)?;
    at_most("other programs", report.cpu.others.len() as u64, bounds::TASKS as u64)?;
    for disciplines in &report.disciplines {
        at_most("queue disciplines", disciplines.len() as u64, bounds::DISCIPLINES as u64)?;
        for one in disciplines {
            check_name(&one.interface)?;
            let words = [&one.kind, &one.handle, &one.parent];
            let longest = words.into_iter().map(String::len).max().unwrap_or(0);
            at_most("bytes of a word", longest as u64, bounds::WORD_BYTES as u64)?;
        }
    }
    at_most("intervals", report.intervals.len() as u64, MOST_INTERVALS as u64)?;
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
            at_least("queues", u64::from(*queues), 1)?;
            at_most("queues", u64::from(*queues), u64::from(bounds::QUEUES))?;
            at_least("tx-queue-length", u64::from(*tx_queue_length), 1)?;
            at_most(
                "tx-queue-length",
                u64::from(*tx_queue_length),
                u64::from(bounds::QUEUE_LENGTH),
            )?;
            at_least("mtu", u64::from(mtu.unwrap_or(SMALLEST_MTU)), u64::from(SMALLEST_MTU))?;
            at_most("mtu", u64::from(mtu.unwrap_or(LARGEST_MTU)), u64::from(LARGEST_MTU))?;
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
        Request::Keep { names } => check_names(names),
        Request::Toe(request) => request.interface().map_or(Ok(()), check_name),
        Request::Listen(spec) => {
            at_most("clients", spec.clients.len() as u64, MAX_FLOWS)?;
            check_workload(&spec.workload, spec.clients.len() as u32)?;
            at_most("part", u64::from(spec.part), MOST_PARTS as u64 - 1)?;
            at_most("clients that are bound", spec.bind.len() as u64, bounds::ADDRESSES as u64)?;
            at_least("listeners", u64::from(spec.listeners), 1)?;
            at_most("listeners", u64::from(spec.listeners), u64::from(bounds::LISTENERS))?;
            check_record(spec.record.as_ref(), spec.workload.flows(spec.clients.len() as u32))?;
            check_socket(&spec.socket)
        }
        Request::Connect(spec) => {
            at_most("client", u64::from(spec.client), MAX_FLOWS)?;
            check_workload(&spec.workload, 1)?;
            at_most("part", u64::from(spec.part), MOST_PARTS as u64 - 1)?;
            at_most("ports", spec.ports.len() as u64, MAX_FLOWS)?;
            at_least("ports", spec.ports.len() as u64, 1)?;
            check_record(spec.record.as_ref(), spec.workload.flows(1))?;
            check_socket(&spec.socket)
        }
        Request::Dial(spec) => {
            at_most("client", u64::from(spec.client), MAX_FLOWS)?;
            check_workload(&spec.workload, 1)?;
            at_most("ports", spec.ports.len() as u64, MAX_FLOWS)?;
            at_least("ports", spec.ports.len() as u64, 1)?;
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
    at_least("burst", u64::from(workload.burst), 1)?;
    at_most("burst", u64::from(workload.burst), u64::from(bounds::BURST))?;
    for (field, size) in [
        ("message", workload.message),
        ("request", workload.request),
        ("response", workload.response),
    ] {
        at_least(field, size.smallest().0, 1)?;
        at_least(field, size.largest().0, size.smallest().0)?;
        at_most(field, size.largest().0, bounds::MESSAGE_BYTES)?;
    }
    if let Some(size) = workload.working_set {
        at_least("working-set", size.0, 1)?;
    }
    let backup = &workload.backup;
    at_least("tree", backup.tree.0, 1)?;
    if let FileSizes::One(size) = backup.files {
        at_least("files", size.0, 1)?;
        at_most("files", size.0, LONGEST)?;
    }
    at_most("files of a tree", backup.extent().0, MOST_FILES)?;
    at_least("drives", backup.drives.into(), 1)?;
    at_least("drive-rate", backup.drive_rate.0, 1)?;
    let directory = &backup.directory;
    at_most("bytes of directory", directory.len() as u64, LONGEST_DIRECTORY as u64)?;
    at_least("transfer", workload.transfer.0, 1)?;
    at_most("transfer", workload.transfer.0, bounds::TRANSFER_BYTES)?;
    if let Some(segment) = workload.udp_segment {
        at_least("udp-segment", segment.0, 1)?;
        at_most("udp-segment", segment.0, u64::from(u16::MAX))?;
    }
    Ok(())
}

fn check_socket(socket: &SocketKnobs) -> Result<(), DecodeError> {
    check_congestion(&socket.congestion)?;
    match socket.buffer {
        Some(bytes) => at_most("buffer", bytes.0, bounds::BUFFER_BYTES),
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

fn at_least(field: &'static str, value: u64, limit: u64) -> Result<(), DecodeError> {
    if value >= limit {
        return Ok(());
    }
    let expected = format!("at least {limit}");
    Err(DecodeError::OutOfBounds { field, value: value.to_string(), expected })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{IpAddr, Ipv4Addr};

    use linkrate_terms::interfaces::InterfaceAddress;
    use linkrate_terms::{BitRate, ByteSize, CpuSet, InterfaceKnobs, MessageSize};

    use super::super::{Ends, Finished, ListenSpec, MeasureSpec, Strangers, write_message};
    use super::*;
    use crate::protocol::Carries;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// A message as a frame has it.
    fn sent(message: &impl serde::Serialize) -> Vec<u8> {
        let mut frame = Vec::new();
        write_message(&mut frame, 7, message).unwrap();
        frame.split_off(4)
    }

    fn decoded(request: &Request) -> Result<Request, DecodeError> {
        let (number, request) = decode_request(&sent(request));
        assert_eq!(number, 7);
        request
    }

    fn listen(workload: Workload) -> Request {
        Request::Listen(ListenSpec {
            workload,
            socket: SocketKnobs::default(),
            clients: vec![Ends { client: HERE, listener: HERE }],
            listeners: 1,
            nonce: 1,
            seed: 1,
            shared_cpus: false,
            record: None,
            part: 0,
            beside: false,
            bind: BTreeMap::new(),
        })
    }

    #[test]
    fn a_request_is_read_as_written() {
        let request = listen(Workload::default());
        assert_eq!(decoded(&request).unwrap(), request);
    }

    #[test]
    fn every_request_except_hello_has_a_number() {
        let plain = |request: &Request| decode_request(&serde_json::to_vec(request).unwrap());
        let hello = Request::Hello { version: 1 };
        assert!(matches!(plain(&hello), (HELLO_NUMBER, Ok(_))));
        assert!(decoded(&hello).is_err());
        let (_, refused) = plain(&Request::Begin);
        let error = refused.unwrap_err().to_string();
        assert_eq!(error, "number is missing, expected a number in every request except hello");
        for wrong in
            [r#"{"number":0,"message":"begin"}"#, r#"{"number":1,"message":"begin","x":1}"#]
        {
            assert!(decode_request(wrong.as_bytes()).1.is_err(), "{wrong}");
        }
    }

    /// Replaces every string in a message, keys included, by one that drives a terminal.
    #[test]
    fn no_string_of_a_reply_drives_a_terminal_or_is_long() {
        let mut accepted = 0;
        for (name, bytes) in seeds() {
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            for pointer in strings(&value, "") {
                for text in ["\u{1b}[2Jx".to_owned(), "=\u{202e}1".to_owned(), "y".repeat(1 << 20)]
                {
                    let mut hostile = value.clone();
                    *hostile.pointer_mut(&pointer).unwrap() = Value::String(text);
                    let Ok((_, reply)) = decode_reply(&serde_json::to_vec(&hostile).unwrap())
                    else {
                        continue;
                    };
                    accepted += 1;
                    let mut again = serde_json::to_value(&reply).unwrap();
                    let before = again.clone();
                    text::clean(&mut again);
                    assert_eq!(again, before, "{name}: {pointer}");
                }
            }
        }
        assert!(accepted > 10, "{accepted}");
    }

    /// The paths of all strings in a message (RFC 6901).
    fn strings(value: &Value, at: &str) -> Vec<String> {
        match value {
            Value::String(_) => vec![at.to_owned()],
            Value::Array(values) => (0..values.len())
                .flat_map(|index| strings(&values[index], &format!("{at}/{index}")))
                .collect(),
            Value::Object(map) => {
                map.iter().flat_map(|(key, value)| strings(value, &format!("{at}/{key}"))).collect()
            }
            _ => Vec::new(),
        }
    }

    fn seeds() -> Vec<(String, Vec<u8>)> {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/protocol");
        let entries = std::fs::read_dir(directory).unwrap();
        let seed = |path: std::path::PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap().strip_suffix(".json")?;
            Some((name.to_owned(), std::fs::read(&path).unwrap()))
        };
        entries.filter_map(|entry| seed(entry.unwrap().path())).collect()
    }

    #[test]
    fn sizes_and_counts_beyond_any_testbed_are_refused() {
        let huge = MessageSize::Fixed(ByteSize(1 << 40));
        for workload in [
            Workload { message: huge, ..Workload::default() },
            Workload { connections: 1 << 20, ..Workload::default() },
            Workload { connections: 0, ..Workload::default() },
            Workload { burst: u32::MAX, ..Workload::default() },
            Workload {
                request: MessageSize::Uniform { low: ByteSize(9), high: ByteSize(3) },
                ..Workload::default()
            },
        ] {
            let error = decoded(&listen(workload)).unwrap_err();
            assert!(matches!(error, DecodeError::OutOfBounds { .. }), "{error}");
        }
    }

    #[test]
    fn names_the_kernel_would_refuse_are_refused() {
        for name in ["", ".", "..", "a/b", "0123456789abcdef", "a b", "a:b"] {
            let request = Request::SetKnobs {
                interfaces: vec![name.to_owned()],
                knobs: InterfaceKnobs::default(),
            };
            assert!(decoded(&request).is_err(), "{name:?}");
        }
    }

    #[test]
    fn knobs_of_too_many_or_unnamable_interfaces_are_refused() {
        let decoded = |names: &[String]| {
            let knobs = names.iter().map(|name| (name.clone(), InterfaceKnobs::default()));
            let reply = Reply::Knobs(knobs.collect());
            decode_reply(&sent(&reply)).map_err(|error| error.to_string())
        };
        let names: Vec<String> = (0..=256).map(|number| format!("eth{number}")).collect();
        assert!(decoded(&names[1..]).is_ok());
        assert_eq!(decoded(&names).unwrap_err(), "interfaces is 257, expected at most 256");
        assert!(decoded(&["a/b".to_owned()]).unwrap_err().starts_with("interface name is"));
    }

    #[test]
    fn an_interface_is_named_once() {
        let measure = |interfaces: &[&str]| {
            decoded(&Request::Measure(MeasureSpec {
                start_ns: 0,
                end_ns: 1,
                interfaces: interfaces.iter().map(|name| (*name).to_owned()).collect(),
                cpus: CpuSet::default(),
                profile: false,
                agents: Vec::new(),
                readers: 1,
                event_ns: None,
            }))
        };
        assert!(measure(&["p0", "p1"]).is_ok());
        let error = measure(&["p0", "p1", "p0"]).unwrap_err().to_string();
        assert_eq!(error, "interfaces is \"p0\" twice, expected each interface once");
    }

    #[test]
    fn a_limit_of_datagrams_is_not_zero() {
        let limit = |bytes_per_second, burst_us| {
            let name = "p0".to_owned();
            let request = Request::LimitDatagrams {
                name,
                bytes_per_second,
                burst_us,
                overhead: 24,
                in_cells: true,
            };
            decoded(&request).map(|again| assert_eq!(again, request)).map_err(|e| e.to_string())
        };
        assert_eq!(limit(u64::MAX, 1), Ok(()));
        assert!(limit(0, 1).unwrap_err().contains("bytes-per-second is 0"));
        assert!(limit(1, 0).unwrap_err().contains("burst-us is 0"));
    }

    #[test]
    fn a_tap_is_asked_for_within_bounds() {
        let tap = |queues, address, tx_queue_length| {
            let name = "p0".to_owned();
            let carries = Carries::Frames;
            let request =
                Request::CreateTap { name, carries, queues, address, mtu: None, tx_queue_length };
            decoded(&request).map(|again| assert_eq!(again, request)).map_err(|e| e.to_string())
        };
        assert_eq!(tap(1, None, 512), Ok(()));
        assert_eq!(tap(256, Some([2, 0, 0, 0, 0, 1]), 1 << 16), Ok(()));
        for (answer, field) in [
            (tap(0, None, 512), "queues is 0"),
            (tap(257, None, 512), "queues is 257"),
            (tap(1, None, 0), "tx-queue-length is 0"),
            (tap(1, None, u32::MAX), "tx-queue-length is 4294967295"),
            (tap(1, Some([0; 6]), 512), "address is 00:00:00:00:00:00"),
            (tap(1, Some([1, 0, 94, 0, 0, 1]), 512), "address is 01:00:5e:00:00:01"),
        ] {
            let error = answer.unwrap_err();
            assert!(error.starts_with(field), "{error}");
        }
    }

    #[test]
    fn descriptors_that_cannot_be_are_refused() {
        let answer = |descriptors| decode_reply(&sent(&Reply::Tap { descriptors })).is_ok();
        assert!(answer(vec![5, 6]));
        assert!(!answer(vec![]) && !answer(vec![5, -1]) && !answer(vec![5; 257]));
    }

    #[test]
    fn what_flows_are_said_to_have_seen_is_bounded() {
        let answer = |steps, strangers| {
            let addresses = vec![HERE; strangers];
            let strangers = Strangers { refused: 9, addresses };
            let finished =
                Finished { latency: vec![(1, 1); steps], strangers, ..Finished::default() };
            let decoded = decode_reply(&sent(&Reply::Finished(finished)));
            decoded.map(|_| ()).map_err(|error| error.to_string())
        };
        let (steps, strangers) = (bounds::LATENCIES, bounds::STRANGERS);
        assert_eq!(answer(steps, strangers), Ok(()));
        assert_eq!(answer(steps + 1, 0).unwrap_err(), "latencies is 65537, expected at most 65536");
        let refused = answer(0, strangers + 1).unwrap_err();
        assert_eq!(refused, "addresses of strangers is 9, expected at most 8");
    }

    #[test]
    fn what_an_interface_is_said_to_be_is_bounded() {
        let answer = |facts: InterfaceFacts| {
            let reply = Reply::Interface(Box::new(facts));
            let decoded = decode_reply(&sent(&reply));
            decoded.map(|_| ()).map_err(|error| error.to_string())
        };
        let facts = InterfaceFacts { name: "eth1".to_owned(), ..InterfaceFacts::default() };
        assert_eq!(answer(facts.clone()), Ok(()));
        let address = InterfaceAddress {
            interface: "eth1".to_owned(),
            address: Ipv4Addr::LOCALHOST,
            prefix_length: 8,
        };
        for wrong in [
            InterfaceFacts { name: "a b".to_owned(), ..facts.clone() },
            InterfaceFacts { firmware: "x".repeat(65), ..facts.clone() },
            InterfaceFacts { rate: Some(BitRate(0.0)), ..facts.clone() },
            InterfaceFacts { addresses: vec![address; 5000], ..facts },
        ] {
            assert!(answer(wrong).is_err());
        }
    }

    #[test]
    fn nonsense_is_an_error_and_not_a_panic() {
        for bytes in
            [&b""[..], b"{", b"null", b"{\"hello\":{}}", b"{\"hello\":{\"version\":-1}}", b"\xff"]
        {
            assert!(decode_request(bytes).1.is_err());
            assert!(decode_reply(bytes).is_err());
        }
    }

    /// A seed that no longer decodes leads the fuzzer nowhere.
    #[test]
    fn the_fuzzers_seeds_are_what_their_names_say() {
        let mut messages = 0;
        for (name, bytes) in seeds() {
            let (request, reply) = (decode_request(&bytes).1, decode_reply(&bytes));
            let is_refused = ["-too-many", "-no-period"].iter().any(|end| name.ends_with(end));
            if is_refused {
                let out_of_bounds = matches!(request, Err(DecodeError::OutOfBounds { .. }))
                    || matches!(reply, Err(DecodeError::OutOfBounds { .. }));
                assert!(out_of_bounds, "{name}: {request:?}, {reply:?}");
            } else {
                assert!(request.is_ok() || reply.is_ok(), "{name}: {request:?}, {reply:?}");
            }
            messages += 1;
        }
        assert!(messages > 20, "{messages}");
    }
}
