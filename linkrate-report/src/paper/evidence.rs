//! What the counters of kernel and adapter prove, by subject.

use linkrate_model::BitRate;
use linkrate_study::labels;
use linkrate_study::results::{AdapterFigures, CellResult, DisciplineFigures};
use linkrate_wire::limits::IpVersion;
use serde::Serialize;

use super::tables::{percentage, plain};
use crate::number::{self, ABSENT};
use crate::table::{Field, NAME, NUMBER, STEP, Table};

#[derive(Debug, Default, Serialize)]
pub struct Evidence {
    /// What is the same in every cell, by name.
    pub common: Vec<(&'static str, String)>,
    /// The rest, in tables narrow enough for a page.
    pub tables: Vec<Table>,
}

/// A column of the evidence.
type Proof = (&'static str, fn(&CellResult) -> Option<String>);

/// The evidence by subject, without the columns that no cell has.
pub fn of(cells: &[CellResult]) -> Evidence {
    let packets: [Proof; 10] = [
        ("packet built by TCP", |cell| cell.evidence.stack_packet_bytes.map(bytes)),
        ("packet given to driver", |cell| cell.evidence.driver_packet_bytes.map(bytes)),
        ("frame sent on the wire", |cell| counted(cell)?.sent_frame_bytes.map(bytes)),
        ("frame received from the wire", |cell| counted(cell)?.received_frame_bytes.map(bytes)),
        ("frames cut from a superframe", |cell| counted(cell)?.segments_per_superframe.map(plain)),
        ("frames that LRO merged into one", |cell| counted(cell)?.merges_per_superframe.map(plain)),
        ("frames in a packet that IP received", |cell| {
            cell.evidence.frames_per_received_packet.map(plain)
        }),
        ("packet that IP received", |cell| cell.evidence.received_packet_bytes.map(bytes)),
        ("MSS", |cell| cell.evidence.mss_bytes.map(|mss| format!("{mss} B"))),
        ("address family", |cell| {
            cell.evidence.family.map(|family| IpVersion::from(family).to_string())
        }),
    ];
    let links: [Proof; 9] = [
        ("links occupied outwards", |cell| counted(cell)?.tx_link_percent.map(percentage)),
        ("links occupied inwards", |cell| counted(cell)?.rx_link_percent.map(percentage)),
        ("by port, out and in", |cell| by_port(counted(cell)?)),
        ("by member, sent and received", by_member),
        ("bus occupied", |cell| counted(cell)?.bus_percent.map(percentage)),
        ("limit of links and bus", |cell| cell.limit.as_ref().map(number::mean)),
        ("device CPU", |cell| counted(cell)?.device_cpus.map(|cpus| percentage(cpus * 100.0))),
        ("device threads, busiest CPU", |cell| {
            counted(cell)?.device_busiest_percent.map(percentage)
        }),
        ("delay of interrupts", |cell| {
            counted(cell)?.interrupt_delay_us.map(|us| format!("{} µs", plain(us)))
        }),
    ];
    let waits: [Proof; 18] = [
        ("client CPU", |cell| cell.evidence.client_cpu_percent.map(percentage)),
        ("CPU of other programs, subtracted", |cell| {
            cell.evidence.background_cpu_percent.map(percentage)
        }),
        ("CPU perhaps used by other programs", |cell| {
            cell.evidence.background_uncertainty_cpu_percent.map(percentage)
        }),
        ("limited by receive window", |cell| cell.evidence.rwnd_limited_percent.map(percentage)),
        ("limited by send buffer", |cell| cell.evidence.sndbuf_limited_percent.map(percentage)),
        ("send buffer", |cell| cell.evidence.granted_send_buffer_bytes.map(size)),
        ("receive buffer", |cell| cell.evidence.granted_receive_buffer_bytes.map(size)),
        ("retransmits a run", |cell| cell.evidence.retransmits.map(plain)),
        ("acknowledgements a segment", |cell| {
            cell.evidence.acknowledgements_per_segment.map(plain)
        }),
        ("receive batches at clients a run", |cell| {
            cell.evidence.client_receive_batches.map(plain)
        }),
        ("datagrams lost", |cell| {
            cell.evidence.lost_percent.map(|lost| number::percent(lost / 100.0))
        }),
        ("interface drops per run", |cell| cell.evidence.drops.map(plain)),
        ("queue disciplines", |cell| by_discipline(&cell.evidence.disciplines)),
        ("queue disciplines of clients", |cell| by_discipline(&cell.evidence.client_disciplines)),
        ("discipline drops per run", discipline_drops),
        // an empty sum of floats is −0
        ("adapter drops per run", |cell| {
            Some(plain(counted(cell)?.drops.values().sum::<f64>() + 0.0))
        }),
        ("wrong checksums per run", |cell| counted(cell)?.checksum_failures.map(plain)),
        ("idle time from", |cell| cell.evidence.idle_source.map(|source| source.name().to_owned())),
    ];
    let mut all = Evidence::default();
    let groups: [(&str, &[Proof]); 3] = [
        ("Packets and frames", &packets),
        ("Links, bus and device", &links),
        ("Waiting, losses and buffers", &waits),
    ];
    for (title, proofs) in groups {
        let mut varying: Vec<Proof> = Vec::new();
        for &(name, proof) in proofs {
            let fields: Vec<Option<String>> = cells.iter().map(proof).collect();
            match fields.first() {
                // a column of one and the same value only makes the table wide
                Some(Some(first)) if fields.iter().all(|f| f.as_ref() == Some(first)) => {
                    all.common.push((name, first.clone()));
                }
                _ if fields.iter().all(Option::is_none) => {}
                _ => varying.push((name, proof)),
            }
        }
        if varying.is_empty() {
            continue;
        }
        let mut table = Table::new(title);
        table.push("Cell", NAME, cells.iter().map(|cell| labels::cell(&cell.levels)));
        for (name, proof) in varying {
            let kind = if name == "by port, out and in" { STEP } else { NUMBER };
            table.push(name, kind, cells.iter().map(|cell| Field::or_absent(proof(cell))));
        }
        all.tables.push(table);
    }
    all
}

fn counted(cell: &CellResult) -> Option<&AdapterFigures> {
    cell.evidence.adapter.as_ref()
}

/// `eth0 98.2/1.1 %, eth1 97.9/1.0 %`, where there are several ports.
fn by_port(adapter: &AdapterFigures) -> Option<String> {
    let share = |share: Option<f64>| share.map_or(ABSENT.to_owned(), |share| format!("{share:.1}"));
    let ports: Vec<String> = adapter
        .ports
        .iter()
        .filter(|port| port.tx_link_percent.is_some() || port.rx_link_percent.is_some())
        .map(|port| {
            let (out, inwards) = (share(port.tx_link_percent), share(port.rx_link_percent));
            format!("{} {out}/{inwards} %", port.port)
        })
        .collect();
    (ports.len() > 1).then(|| ports.join(", "))
}

/// `eth2 70.0/51.2 %, eth3 30.0/48.8 %`: what the members of bonds and teams carried.
fn by_member(cell: &CellResult) -> Option<String> {
    let share = |share: Option<f64>| share.map_or(ABSENT.to_owned(), |share| format!("{share:.1}"));
    let members =
        cell.evidence.members.iter().map(|one| {
            format!("{} {}/{} %", one.member, share(one.tx_percent), share(one.rx_percent))
        });
    let members: Vec<String> = members.collect();
    (!members.is_empty()).then(|| members.join(", "))
}

/// `eth0 tbf 99.6 % of 500.0 Mb/s`; disciplines that the kernel made for queues are those of their root.
fn by_discipline(all: &[DisciplineFigures]) -> Option<String> {
    let roots = all.iter().filter(|one| one.parent == "root");
    let words = roots.map(|one| {
        let rate = one.rate_bits_per_second.zip(one.rate_percent);
        let rate = rate.map(|(rate, percent)| format!(" {percent:.1} % of {}", BitRate(rate)));
        format!("{} {}{}", one.interface, one.kind, rate.unwrap_or_default())
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn discipline_drops(cell: &CellResult) -> Option<String> {
    let roots = cell.evidence.disciplines.iter().filter(|one| one.parent == "root");
    let drops: Vec<f64> = roots.map(|one| one.drops).collect();
    (!drops.is_empty()).then(|| plain(drops.iter().sum()))
}

fn bytes(value: f64) -> String {
    format!("{} B", number::grouped(value.round()))
}

fn size(value: u64) -> String {
    linkrate_model::ByteSize(value).to_string()
}
