//! Counters of a cell's runs that deny what was asked of it, too weak to refuse a run for.

use linkrate_model::knobs::{LEGACY_SUPERFRAME, Offload};
use linkrate_model::measurement::{AdapterEvidence, Evidence};
use linkrate_model::{Direction, Measurement, Protocol, RunSpec, Task, Workload};
use linkrate_wire::link::LinkLaw;

use super::merging;
use linkrate_stats::sample::mean;

/// Ethernet header and 802.1Q tag: what a driver's packet has around its IP packet.
const LINK_HEADER_BYTES: f64 = 18.0;

/// What the counters of the valid runs of one cell deny, as sentences without a capital. `law`
/// is that of the links of virtual adapters.
pub fn of_cell(law: LinkLaw, spec: &RunSpec, good: &[&Measurement]) -> Vec<String> {
    let Task::Workload(workload) = &spec.task else { return Vec::new() };
    let mtu = good.iter().find_map(|run| run.effective.interface.mtu).or(spec.interface.mtu);
    let mut found = Vec::new();
    found.extend(mtu.and_then(|mtu| offload(spec, workload, mtu, good)));
    found.extend(superframes(spec, workload, good));
    found.extend(mtu.into_iter().flat_map(|mtu| frames(law, mtu, good)));
    found.extend(lro(spec, good));
    found.extend(gro(spec, workload, good));
    found.extend(gro_list(spec, workload, good));
    found
}

fn mean_of(good: &[&Measurement], pick: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
    mean(&good.iter().filter_map(|run| pick(run)).collect::<Vec<_>>())
}

fn counted(good: &[&Measurement], pick: fn(&AdapterEvidence) -> Option<f64>) -> Option<f64> {
    mean_of(good, |run| pick(run.evidence.adapter.as_deref()?))
}

/// What frames of the largest size may have more on average, because counters are read one by one.
const COUNTED_APART: f64 = 1.005;

/// Whether the packets that were seen deny the rung of the transmit ladder that was asked for.
fn offload(spec: &RunSpec, workload: &Workload, mtu: u32, good: &[&Measurement]) -> Option<String> {
    let offload = spec.interface.offload?;
    if workload.kind.is_udp() {
        // the ladder is TCP's; datagrams are large at the top of the stack whatever the rung
        return None;
    }
    let stack = mean_of(good, |run| run.evidence.mean_stack_packet_bytes());
    let driver = mean_of(good, |run| run.evidence.mean_driver_packet_bytes());
    let largest_frame = f64::from(mtu) + LINK_HEADER_BYTES;
    // only a SUT that sends bulk data can show superframes: acknowledgements and small messages
    // never grow beyond the MTU, and neither does a superframe that is not allowed to
    let bulk = workload.kind.is_tcp_bulk()
        && workload.mix.is_empty()
        && workload.direction != Direction::Receive
        && workload.message.smallest().0 > u64::from(mtu)
        && (workload.kind != Protocol::Transfer || workload.transfer.0 > u64::from(mtu))
        && spec.interface.gso_max_size.is_none_or(|size| size > mtu);
    let (bytes, place, limit) = match offload {
        Offload::Tso => {
            let bytes = driver.filter(|bytes| bulk && *bytes <= largest_frame)?;
            (bytes, "handed to the driver", format!("no more than an MTU of {mtu} allows"))
        }
        Offload::Gso => {
            let bytes = driver.filter(|bytes| *bytes > largest_frame)?;
            (bytes, "handed to the driver", format!("more than an MTU of {mtu} allows"))
        }
        Offload::None => {
            let bytes = stack.filter(|bytes| *bytes > f64::from(mtu))?;
            (bytes, "that TCP built", format!("more than the MTU of {mtu}"))
        }
    };
    Some(format!(
        "offload {} was asked for, but packets {place} have {bytes:.0} bytes on average, {limit}",
        offload.name()
    ))
}

/// Packets of more than 64 KiB (BIG TCP) that were asked for and did not come: the limit of each family is one of its own, and
/// either end of the path may keep an older one.
fn superframes(spec: &RunSpec, workload: &Workload, good: &[&Measurement]) -> Option<String> {
    let large = workload.message.smallest().0 > u64::from(LEGACY_SUPERFRAME);
    if workload.kind != Protocol::Stream || !workload.mix.is_empty() || !large {
        return None;
    }
    let knobs = &spec.interface;
    let (key, asked, place, size): (_, _, _, fn(&Evidence) -> Option<f64>) =
        match workload.direction {
            Direction::Transmit => {
                let size = Evidence::mean_stack_packet_bytes;
                ("gso-max-size", knobs.gso_max_size, "that TCP built", size)
            }
            Direction::Receive => {
                let size = Evidence::mean_received_packet_bytes;
                ("gro-max-size", knobs.gro_max_size, "that IP received", size)
            }
            Direction::Bidirectional => return None,
        };
    let asked = asked.filter(|bytes| *bytes > LEGACY_SUPERFRAME)?;
    let bytes = mean_of(good, |run| size(&run.evidence))?;
    (bytes <= f64::from(LEGACY_SUPERFRAME)).then(|| {
        format!(
            "{key} {asked} was asked for, but packets {place} have {bytes:.0} bytes on average, as \
             without it"
        )
    })
}

/// Frames on the link that are larger than the MTU allows.
fn frames(law: LinkLaw, mtu: u32, good: &[&Measurement]) -> Vec<String> {
    // octets of cells are counted as they come, and a unit with its last cell
    let largest = law.counted_octets(u64::from(mtu) + law.longest_header()) as f64 * COUNTED_APART;
    let ways = [
        ("sent", counted(good, AdapterEvidence::mean_wire_frame_bytes)),
        ("received", counted(good, AdapterEvidence::mean_received_frame_bytes)),
    ];
    let large = ways.into_iter().filter_map(|(way, bytes)| Some((way, bytes?)));
    let large = large.filter(|(_, bytes)| *bytes > largest);
    large
        .map(|(way, bytes)| {
            format!(
                "frames {way} on the wire have {bytes:.0} bytes on average, more than an MTU of \
                 {mtu} allows"
            )
        })
        .collect()
}

/// Merging that contradicts the knob, where it may be honest.
fn lro(spec: &RunSpec, good: &[&Measurement]) -> Option<String> {
    if spec.interface.port.lro == Some(false) {
        let merges = counted(good, AdapterEvidence::merges_per_superframe)?;
        return Some(format!(
            "lro off was asked for, but the adapter merged {merges:.1} frames into one on average"
        ));
    }
    let idle = good.iter().filter(|run| merging::merged_nothing(spec, run)).count();
    (idle > 0 && idle == good.len())
        .then(|| "lro was on, but the adapter merged no received segments".to_owned())
}

/// Frames in a packet that IP received, from which on some were merged: other packets of the host are counted
/// among those, and counters are read one by one.
const MERGED: f64 = 1.05;

/// What IP received against the wish for GRO. An adapter that merges hides what the kernel does.
fn gro(spec: &RunSpec, workload: &Workload, good: &[&Measurement]) -> Option<String> {
    let asked = spec.interface.gro?;
    let has_lro = |run: &&Measurement| run.effective.interface.port.lro == Some(true);
    if good.iter().any(has_lro) || !workload.mix.is_empty() || !workload.kind.is_tcp_bulk() {
        return None;
    }
    let frames = mean_of(good, |run| run.evidence.mean_frames_per_received_packet())?;
    match asked {
        false if frames > MERGED => Some(format!(
            "gro off was asked for, but IP received {frames:.1} frames in one packet on average"
        )),
        true if frames <= MERGED && workload.direction != Direction::Transmit => {
            Some("gro was on, but the kernel merged no received segments".to_owned())
        }
        _ => None,
    }
}

/// Datagrams that IP received one by one, although the kernel was to keep them as lists. Of TCP it does so only with what it
/// forwards.
fn gro_list(spec: &RunSpec, workload: &Workload, good: &[&Measurement]) -> Option<String> {
    let receives = workload.kind == Protocol::UdpStream
        && workload.mix.is_empty()
        && workload.direction != Direction::Transmit;
    if spec.interface.gro_list != Some(true) || !receives {
        return None;
    }
    let frames = mean_of(good, |run| run.evidence.mean_frames_per_received_packet())?;
    (frames <= MERGED)
        .then(|| "gro-list was on, but the kernel merged no received datagrams".to_owned())
}

#[cfg(test)]
mod tests {
    use linkrate_model::Task;

    use super::*;
    use crate::fixture;

    #[test]
    fn datagrams_that_no_list_keeps_are_told() {
        let told = |kind: Protocol, gro_list, frames: u64| {
            let mut spec = fixture::ladder().cells[0].spec.clone();
            let direction = Direction::Receive;
            spec.task = Task::Workload(Workload { kind, direction, ..Workload::default() });
            spec.interface.gro_list = gro_list;
            let mut run = fixture::stream(1e9, 0.5);
            run.evidence.adapter = None;
            run.evidence.interface.rx_packets = frames;
            run.evidence.protocol.insert("Ip.InReceives".to_owned(), 1000);
            gro_list_of(&spec, &run)
        };
        let said = "gro-list was on, but the kernel merged no received datagrams";
        assert_eq!(told(Protocol::UdpStream, Some(true), 1000).as_deref(), Some(said));
        for (kind, asked, frames) in [
            (Protocol::UdpStream, Some(true), 4000),
            (Protocol::UdpStream, Some(false), 1000),
            (Protocol::UdpStream, None, 1000),
            (Protocol::Stream, Some(true), 1000),
        ] {
            assert_eq!(told(kind, asked, frames), None, "{kind:?} {asked:?} {frames}");
        }
    }

    #[test]
    fn large_superframes_without_effect_are_told() {
        let told = |direction, gso_max_size, gro_max_size, bytes: u64| {
            let mut spec = fixture::ladder().cells[0].spec.clone();
            spec.task = Task::Workload(Workload { direction, ..Workload::default() });
            spec.interface.gso_max_size = gso_max_size;
            spec.interface.gro_max_size = gro_max_size;
            let mut run = fixture::stream(1e9, 0.5);
            let octets = 100 * bytes;
            for (name, count) in [
                ("IpExt.OutOctets", octets),
                ("Ip.OutRequests", 100),
                ("IpExt.InOctets", octets),
                ("Ip.InReceives", 100),
            ] {
                run.evidence.protocol.insert(name.to_owned(), count);
            }
            let Task::Workload(workload) = &spec.task else { unreachable!() };
            superframes(&spec, workload, &[&run])
        };
        let (sent, received) = (Direction::Transmit, Direction::Receive);
        let said = "gso-max-size 185000 was asked for, but packets that TCP built have 60000 bytes \
                    on average, as without it";
        assert_eq!(told(sent, Some(185_000), None, 60_000).as_deref(), Some(said));
        let said = told(received, None, Some(185_000), 60_000).unwrap();
        let begin = "gro-max-size 185000 was asked for, but packets that IP received have";
        assert!(said.starts_with(begin), "{said}");
        for (direction, gso, gro, bytes) in [
            (sent, Some(185_000), None, 150_000),
            (sent, Some(65_536), None, 60_000),
            (sent, None, Some(185_000), 60_000),
            (received, Some(185_000), None, 60_000),
            (received, None, Some(185_000), 150_000),
        ] {
            let found = told(direction, gso, gro, bytes);
            assert_eq!(found, None, "{direction:?} {gso:?} {gro:?} {bytes}");
        }
    }

    fn gro_list_of(spec: &RunSpec, run: &Measurement) -> Option<String> {
        let Task::Workload(workload) = &spec.task else { unreachable!() };
        gro_list(spec, workload, &[run])
    }
}
