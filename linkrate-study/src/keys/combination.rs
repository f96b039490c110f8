//! Settings that cannot be combined.

use linkrate_model::backup::MAX_FILES;
use linkrate_model::model::LinkKind;
use linkrate_model::spec::Adapter;
use linkrate_model::workload::{MAX_FLOWS, MAX_PAYLOAD_MEMORY};
use linkrate_model::{ByteSize, Family, MessageSize, Offload, Protocol, TestbedSpec, Workload};
use linkrate_wire::limits::IpVersion;
use linkrate_wire::limits::packets::UDP_HEADER;

use super::refusal::{Combination, DEFAULT_MTU, refuse};
use super::{KEYS, MAX_DATAGRAM, Setup, event, kind_name, port};

/// UDP_MAX_SEGMENTS, include/linux/udp.h: `1 << 7` since Linux 6.9, 64 before.
const MAX_DATAGRAMS_PER_CALL: u64 = 128;

/// Transactions of UDP that a number of one byte tells apart.
const NUMBERS_OF_A_BYTE: u32 = 1 << 8;

/// Refuses a setup that no host can carry out, or whose result would not mean what its settings
/// say. The setup must be [settled](Setup::settle) on the testbed.
pub fn check(setup: &Setup, testbed: &TestbedSpec) -> Result<(), Combination> {
    let testbed = &*testbed.with_model(setup.adapter.as_deref());
    // another model than that of the testbed may have no emulated LAN
    if let Err(error) = testbed.check_bridge() {
        let sentence = format!("bridged-clients: {error}; {}", error.hint());
        return refuse("adapter", "adapter", sentence);
    }
    mixed(setup, testbed)?;
    if setup.idle {
        let sentence = "load idle leaves out the streams of a mix, and there is none; add [[mix]]";
        return refuse("load", "kind", sentence.to_owned());
    }
    against_kind(setup)?;
    backup(setup)?;
    datagrams(setup)?;
    interface(setup, testbed)?;
    event::check(setup, testbed)?;
    check_family(setup, testbed)?;
    match &testbed.adapter {
        Adapter::Model(model) => port::check(setup, model, testbed)?,
        Adapter::Interfaces(interfaces) => port::check_interfaces(setup, interfaces)?,
        Adapter::Veth | Adapter::Unknown => {}
    }
    size(setup)
}

/// Refuses a mix whose shares cannot be met, or one of whose workloads is impossible.
fn mixed(setup: &Setup, testbed: &TestbedSpec) -> Result<(), Combination> {
    let mix = &setup.workload.mix;
    if mix.is_empty() {
        return Ok(());
    }
    if setup.event.fault.is_some() {
        return refuse(
            "event",
            "kind",
            "an event cannot be combined with a mix; leave out [[mix]], or set event none"
                .to_owned(),
        );
    }
    if let Some((all, multiple)) = setup.workload.indivisible(setup.clients) {
        return refuse(
            "connections",
            "clients",
            format!(
                "connections {} of {} clients are {all} in all, which the shares of the mix do not \
                 divide; make it a multiple of {multiple}",
                setup.workload.connections, setup.clients
            ),
        );
    }
    for part in mix {
        let alone = Setup { workload: part.workload.clone(), ..setup.clone() };
        check(&alone, testbed).map_err(|error| Combination {
            sentence: format!("workload {:?} of the mix: {}", part.name, error.sentence),
            ..error
        })?;
    }
    Ok(())
}

/// Refuses a run with too many flows or too much memory.
fn size(setup: &Setup) -> Result<(), Combination> {
    let (workload, clients) = (&setup.workload, setup.clients);
    let key = if setup.ports.is_some() { "ports" } else { "clients" };
    let flows = workload.flows(clients);
    if flows > MAX_FLOWS {
        return refuse(
            "connections",
            key,
            format!(
                "connections {} of {clients} clients make {flows} flows; at most {MAX_FLOWS} are \
                 possible",
                workload.connections
            ),
        );
    }
    let memory = workload.payload_memory(clients);
    if memory > MAX_PAYLOAD_MEMORY {
        let key = match workload.kind {
            kind if kind.is_transactional() => "request",
            Protocol::Backup => "tree",
            _ => "message",
        };
        return refuse(
            key,
            "connections",
            format!(
                "{flows} flows with {key} this large need {} of memory at each end; at most \
                 {} are possible",
                ByteSize(memory),
                ByteSize(MAX_PAYLOAD_MEMORY)
            ),
        );
    }
    Ok(())
}

/// Refuses settings that the kind of workload does not use.
fn against_kind(setup: &Setup) -> Result<(), Combination> {
    let workload = &setup.workload;
    let kind = workload.kind;
    let settled = Workload { kind, ..Workload::default() }.settled();
    let settled = Setup { workload: settled, ..Setup::default() };
    for key in KEYS.iter().filter(|key| !key.remedy.is_empty() && !(key.used_by)(kind)) {
        let level = key.values.level(setup);
        let Some(value) = level.filter(|own| key.values.level(&settled).as_ref() != Some(own))
        else {
            continue;
        };
        let right = match (key.name, kind) {
            ("direction", Protocol::Backup) => "files always go to the SUT, so leave direction out",
            _ => key.remedy,
        };
        let (name, kind) = (key.name, kind_name(kind));
        let sentence = format!("{name} {value} cannot be combined with kind {kind}; {right}");
        return refuse(name, "kind", sentence);
    }
    match workload.request_rate_per_s {
        Some(rate) if workload.burst > 1 => refuse(
            "request-rate",
            "burst",
            format!(
                "request-rate {rate} cannot be combined with burst {}; an open loop has as many outstanding \
                 as its rate takes, so leave burst out",
                workload.burst
            ),
        ),
        _ => Ok(()),
    }
}

/// Refuses a tree of too many files.
fn backup(setup: &Setup) -> Result<(), Combination> {
    let Workload { kind, backup, .. } = &setup.workload;
    let (files, _) = backup.extent();
    if *kind == Protocol::Backup && files > MAX_FILES {
        return refuse(
            "tree",
            "files",
            format!(
                "tree {} of files {} has more than {MAX_FILES} files; set a smaller tree, or larger \
                 files",
                backup.tree, backup.files
            ),
        );
    }
    Ok(())
}

/// Refuses sizes that do not fit a datagram.
fn datagrams(setup: &Setup) -> Result<(), Combination> {
    let workload = &setup.workload;
    let sizes = match workload.kind {
        Protocol::UdpStream => vec![("message", workload.message)],
        Protocol::UdpRequestResponse => {
            vec![("request", workload.request), ("response", workload.response)]
        }
        _ => Vec::new(),
    };
    for (key, size) in sizes {
        numbered(workload, key, size)?;
        let largest = size.largest();
        if largest.0 > MAX_DATAGRAM {
            // UDP_SEGMENT does not lift this: one call is one UDP payload before it is cut
            return refuse(
                key,
                "kind",
                format!(
                    "{key} {largest} does not fit into a datagram of kind {}; set {key} to at most \
                     {MAX_DATAGRAM} B, for example \"1472 B\"",
                    kind_name(workload.kind)
                ),
            );
        }
    }
    let Some(segment) = workload.udp_segment else { return Ok(()) };
    let mtu = setup.interface.mtu.unwrap_or(DEFAULT_MTU);
    let headers = IpVersion::from(setup.socket.family).header() + UDP_HEADER;
    let room = u64::from(mtu).saturating_sub(headers);
    if segment.0 > room {
        return refuse(
            "udp-segment",
            "mtu",
            format!(
                "udp-segment {segment} with the headers of IP and UDP does not fit into mtu {mtu}; set at most {room} B"
            ),
        );
    }
    let largest = workload.message.largest();
    if largest.0.div_ceil(segment.0.max(1)) > MAX_DATAGRAMS_PER_CALL {
        return refuse(
            "udp-segment",
            "message",
            format!(
                "message {largest} makes more than {MAX_DATAGRAMS_PER_CALL} datagrams of udp-segment {segment}, the maximum for one call; set message to at most {}",
                ByteSize(segment.0.saturating_mul(MAX_DATAGRAMS_PER_CALL).min(MAX_DATAGRAM))
            ),
        );
    }
    Ok(())
}

/// Refuses more transactions under way than the numbers in their datagrams tell apart: a datagram of one
/// byte has a number of one byte.
fn numbered(workload: &Workload, key: &'static str, size: MessageSize) -> Result<(), Combination> {
    let (burst, smallest) = (workload.burst, size.smallest());
    if workload.kind != Protocol::UdpRequestResponse || smallest.0 > 1 || burst <= NUMBERS_OF_A_BYTE
    {
        return Ok(());
    }
    refuse(
        "burst",
        key,
        format!(
            "burst {burst} cannot be combined with messages of {smallest} ({key} {size}); at most \
             {NUMBERS_OF_A_BYTE} can be told apart"
        ),
    )
}

/// Refuses knobs of the interface that cannot be combined.
fn interface(setup: &Setup, testbed: &TestbedSpec) -> Result<(), Combination> {
    let knobs = &setup.interface;
    // GRO is off on what linkrate makes, until it is asked for
    let without_gro = match testbed.adapter {
        Adapter::Veth | Adapter::Model(_) => knobs.gro != Some(true),
        Adapter::Interfaces(_) | Adapter::Unknown => knobs.gro == Some(false),
    };
    if let Some(size) = knobs.gro_max_size.filter(|_| without_gro) {
        return refuse(
            "gro-max-size",
            "gro",
            format!("gro-max-size {size} has no effect without GRO; set gro on"),
        );
    }
    // Software GSO computes checksums as it cuts; only TSO leaves them to the adapter, and the
    // kernel takes TSO away with the checksum offload (netdev_fix_features, net/core/dev.c).
    if knobs.offload == Some(Offload::Tso) && knobs.tx_checksum == Some(false) {
        return refuse(
            "tx-checksum",
            "offload",
            "tx-checksum off cannot be combined with offload tso; TSO needs transmit checksum offload, so \
             set tx-checksum on, or offload to none or gso"
                .to_owned(),
        );
    }
    let Some(size) = knobs.gso_max_size else { return Ok(()) };
    if knobs.offload == Some(Offload::None) {
        return refuse(
            "gso-max-size",
            "offload",
            format!(
                "gso-max-size {size} has no effect with offload none, which builds no \
                 superframes; set offload to gso or tso"
            ),
        );
    }
    let mtu = knobs.mtu.unwrap_or(DEFAULT_MTU);
    if size < mtu {
        return refuse(
            "gso-max-size",
            "mtu",
            format!("gso-max-size {size} is below mtu {mtu}; a superframe holds at least a frame"),
        );
    }
    Ok(())
}

/// Refuses IPv6 where nothing carries it.
fn check_family(setup: &Setup, testbed: &TestbedSpec) -> Result<(), Combination> {
    if setup.socket.family == Family::Ipv4 {
        return Ok(());
    }
    let smallest = setup.socket.family.smallest_mtu();
    if let Some(mtu) = setup.interface.mtu.filter(|mtu| *mtu < smallest) {
        let sentence = format!(
            "family ipv6 cannot be combined with mtu {mtu}: each link of IPv6 has at least {smallest} B; \
             set mtu to at least {smallest}, or family ipv4"
        );
        return refuse("family", "mtu", sentence);
    }
    let cannot = match &testbed.adapter {
        // a program has addresses of its own
        Adapter::Interfaces(on) if on.program_of_clients().is_some() => return Ok(()),
        Adapter::Interfaces(_) => {
            "existing interfaces, whose addresses linkrate does not choose".to_owned()
        }
        Adapter::Model(model) if model.link == LinkKind::Atm => {
            format!("adapter {}, whose fabric resolves addresses of IPv4 alone", model.name)
        }
        _ if testbed.router => "a router, which routes IPv4 alone".to_owned(),
        _ => return Ok(()),
    };
    let sentence = format!("family ipv6 cannot be combined with {cannot}; set family ipv4");
    refuse("family", "adapter", sentence)
}
