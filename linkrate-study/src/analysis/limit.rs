//! The limit of a cell's links, buses and tape drives.

use linkrate_model::spec::{Adapter, Task};
use linkrate_model::workload::Item;
use linkrate_model::{
    AtmKnobs, Direction, Measurement, MessageSize, Model, Protocol, RunSpec, TestbedSpec,
};
use linkrate_wire::limits::{Cut, Limit, Traffic, Transport};
use linkrate_wire::link::{Framing, Link, LinkLaw};

use crate::quantity::Measure;
use crate::store::StoredRun;
use crate::verdict::FlowDirection;

/// The most that all CPUs can be busy, in per cent.
pub(crate) const ALL_BUSY: f64 = 100.0;

/// Payload in bit/s that a cell's links can carry at most, all ports and directions together, or
/// its buses, or what the tape drives of its backup take, whichever is less. `None` where there is no rate, for transactions, and
/// for datagrams of more than one size. What the links of existing interfaces are, and whether a peer
/// does without TCP timestamps, is known from the cell's runs; the best of them counts.
///
/// It is a bound from above: acknowledgements, which take a little of the other direction, are
/// left out, and a bus is taken to carry payload alone, since of a superframe it carries next to
/// nothing else.
pub fn of_cell(spec: &RunSpec, testbed: &TestbedSpec, runs: &[&StoredRun]) -> Option<f64> {
    let testbed = &*testbed.of_run(spec);
    let good = runs.iter().filter_map(|run| run.measurement());
    let carried = match &testbed.adapter {
        Adapter::Veth | Adapter::Unknown => None,
        Adapter::Model(model) => {
            let largest = good.map(|run| run.effective.mss_bytes).max();
            of_model(spec, model, testbed, largest.unwrap_or(0))
        }
        Adapter::Interfaces(_) => {
            good.filter_map(|run| Some(one_way(spec, run)? * ways(spec))).reduce(f64::max)
        }
    };
    lesser(carried, of_drives(spec))
}

/// The lesser of two limits, as far as there are any.
fn lesser(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::min)
}

/// Payload in bit/s that the tape drives of a backup take; `None` for other workloads.
pub fn of_drives(spec: &RunSpec) -> Option<f64> {
    let Task::Workload(workload) = &spec.task else { return None };
    (workload.item() == Some(Item::File)).then(|| workload.backup.rate() as f64 * 8.0)
}

/// The most that a figure of a cell can be, in its unit; `None` where nothing is known to bound it.
pub fn of_figure(
    measure: Measure,
    spec: &RunSpec,
    testbed: &TestbedSpec,
    runs: &[&StoredRun],
) -> Option<f64> {
    let of_way = |direction| {
        let good = runs.iter().filter_map(|run| run.measurement());
        good.filter_map(|run| of_direction(spec, testbed, run, direction)).reduce(f64::max)
    };
    match measure {
        Measure::Throughput => of_cell(spec, testbed, runs),
        Measure::Transmit => of_way(FlowDirection::Transmit),
        Measure::Receive => of_way(FlowDirection::Receive),
        Measure::Cpu => Some(ALL_BUSY),
        _ => None,
    }
}

/// Payload in bit/s that one port of a virtual adapter can carry at most in one direction. `None` on
/// other adapters, and where [`of_cell`] has no limit.
pub fn of_port(spec: &RunSpec, testbed: &TestbedSpec) -> Option<f64> {
    Some(port_limit(spec, testbed, 0)?.payload_rate().0)
}

/// Payload in bit/s that the links and buses of a run can carry at most in one direction, all ports
/// together, and its tape drives take. `None` where [`of_cell`] has no limit. Where a peer does without TCP timestamps, the
/// run tells, and its segments have room for more.
pub fn of_direction(
    spec: &RunSpec,
    testbed: &TestbedSpec,
    run: &Measurement,
    direction: FlowDirection,
) -> Option<f64> {
    let testbed = &*testbed.of_run(spec);
    let carried = match &testbed.adapter {
        Adapter::Veth | Adapter::Unknown => None,
        Adapter::Model(model) => {
            let rates = model.clone().scaled(testbed.scale);
            let payload = port_limit(spec, testbed, run.effective.mss_bytes)?.payload_rate().0;
            let share = match direction {
                FlowDirection::Transmit => peak_share(spec, &rates),
                FlowDirection::Receive => 1.0,
            };
            Some((payload * links(spec, testbed) * share).min(buses(spec, &rates)))
        }
        Adapter::Interfaces(_) => one_way(spec, run),
    };
    match direction {
        FlowDirection::Transmit => carried,
        FlowDirection::Receive => lesser(carried, of_drives(spec)),
    }
}

/// Payload in bit/s that the buses of a virtual adapter's ports can carry in both directions together.
/// `None` without buses.
pub fn of_buses(spec: &RunSpec, testbed: &TestbedSpec) -> Option<f64> {
    let testbed = &*testbed.of_run(spec);
    let Adapter::Model(model) = &testbed.adapter else { return None };
    let rate = buses(spec, &model.clone().scaled(testbed.scale));
    rate.is_finite().then_some(rate)
}

/// Payload that a run moved in one direction, in bytes and seconds; `None` without a measurement.
pub fn moved(run: &Measurement, direction: FlowDirection) -> Option<(u64, f64)> {
    let traffic = &run.traffic;
    let (bytes, seconds) = match direction {
        FlowDirection::Transmit => (traffic.transmit_bytes, traffic.transmit_seconds),
        FlowDirection::Receive => (traffic.receive_bytes, traffic.receive_seconds),
    };
    (seconds > 0.0).then_some((bytes, seconds))
}

/// The share of a line that is payload when such packets fill it, 0 to 1. `None` as for [`of_port`].
pub fn efficiency(spec: &RunSpec, testbed: &TestbedSpec) -> Option<f64> {
    Some(port_limit(spec, testbed, 0)?.efficiency())
}

/// The limit of one port of a virtual adapter for segments of that size, or 0 where it is not known.
fn port_limit(spec: &RunSpec, testbed: &TestbedSpec, mss: u32) -> Option<Limit> {
    let (link, mtu) = link_of(spec, testbed)?;
    link.limit(&agreed(traffic(spec, mtu)?, mss)).ok()
}

/// The link of each port of a virtual adapter, and the largest IP packet. `None` on other adapters, and
/// on links without a rate.
pub fn link_of(spec: &RunSpec, testbed: &TestbedSpec) -> Option<(Link, u32)> {
    let testbed = &*testbed.of_run(spec);
    let Adapter::Model(model) = &testbed.adapter else { return None };
    let rates = model.clone().scaled(testbed.scale);
    let knobs = &spec.interface;
    let port = knobs.port.over(&model.defaults, knobs.rx_checksum);
    let mtu = knobs.mtu.unwrap_or(model.default_mtu());
    Some((Link { line_rate: rates.rate?, framing: Framing::of(model, &port) }, mtu))
}

fn of_model(spec: &RunSpec, model: &Model, testbed: &TestbedSpec, mss: u32) -> Option<f64> {
    let rates = model.clone().scaled(testbed.scale);
    let payload = port_limit(spec, testbed, mss)?.payload_rate().0;
    let ways = match direction(spec) {
        Direction::Transmit => peak_share(spec, &rates),
        Direction::Receive => 1.0,
        Direction::Bidirectional => 1.0 + peak_share(spec, &rates),
    };
    Some((payload * links(spec, testbed) * ways).min(buses(spec, &rates)))
}

/// The links that carry a run: its ports, or where each client of an aggregate has a link of its own, no
/// more than clients.
fn links(spec: &RunSpec, testbed: &TestbedSpec) -> f64 {
    let ports = spec.ports.unwrap_or(1);
    f64::from(if testbed.aggregate > 0 { ports.min(spec.clients) } else { ports })
}

/// What the buses of a run carry in both directions together, bit/s.
fn buses(spec: &RunSpec, rates: &Model) -> f64 {
    let adapters = f64::from(spec.ports.unwrap_or(1).div_ceil(rates.ports.max(1)));
    rates.bus.map_or(f64::INFINITY, |bus| bus.0 * adapters)
}

/// The share of a line's cells that the peak rates of a port let it send, 0 to 1. A port has a connection
/// to each of its clients, and the knob is of the ports of the system under test.
fn peak_share(spec: &RunSpec, rates: &Model) -> f64 {
    let peak = spec.interface.atm.over(&AtmKnobs::default()).peak_rate;
    let (Some(line), 1..) = (rates.rate, peak) else { return 1.0 };
    let connections = spec.clients.div_ceil(spec.ports.unwrap_or(1).max(1));
    let cells = LinkLaw::of(rates).payload_rate(line).0;
    (f64::from(peak) * 1e3 * f64::from(connections) / cells).min(1.0)
}

/// Payload in bit/s that the links of existing interfaces can carry in one direction. `None` where
/// one of them has no rate.
fn one_way(spec: &RunSpec, run: &Measurement) -> Option<f64> {
    let mtu = run.effective.interface.mtu?;
    let traffic = agreed(traffic(spec, mtu)?, run.effective.mss_bytes);
    let links = run
        .evidence
        .links
        .iter()
        .map(|link| Some(Link::ethernet(link.rate?).limit(&traffic).ok()?.payload_rate().0));
    let links: Option<Vec<f64>> = links.collect();
    links.filter(|links| !links.is_empty()).map(|links| links.iter().sum())
}

/// The traffic with the TCP options that the ends have agreed on, which the segments' size tells: those of
/// a peer without timestamps have room for 12 octets of payload more.
fn agreed(traffic: Traffic, mss: u32) -> Traffic {
    let Transport::Tcp { .. } = traffic.transport else { return traffic };
    match traffic.largest_payload() {
        Ok(longest) if u64::from(mss) > longest => {
            Traffic { transport: Transport::Tcp { timestamps: false }, ..traffic }
        }
        _ => traffic,
    }
}

/// Payload that existing interfaces moved in one direction, in per cent of their links'
/// limit in it.
pub fn filled_percent(spec: &RunSpec, run: &Measurement, direction: FlowDirection) -> Option<f64> {
    let limit = one_way(spec, run)?;
    let (bytes, seconds) = moved(run, direction)?;
    Some(bytes as f64 * 800.0 / seconds / limit)
}

fn direction(spec: &RunSpec) -> Direction {
    match &spec.task {
        Task::Workload(workload) => workload.direction,
        Task::Idle => Direction::Transmit,
    }
}

fn ways(spec: &RunSpec) -> f64 {
    if direction(spec) == Direction::Bidirectional { 2.0 } else { 1.0 }
}

/// How a run's payload is cut; `None` for transactions and for datagrams of more than one size.
fn traffic(spec: &RunSpec, mtu: u32) -> Option<Traffic> {
    let Task::Workload(workload) = &spec.task else { return None };
    let ip = spec.socket.family.into();
    match (workload.kind, workload.udp_segment, workload.message) {
        (kind, _, _) if kind.is_tcp_bulk() => Some(Traffic { ip, ..Traffic::tcp(mtu) }),
        (Protocol::UdpStream, Some(size), _)
        | (Protocol::UdpStream, None, MessageSize::Fixed(size)) => {
            Some(Traffic { ip, cut: Cut::Message(size), ..Traffic::udp(mtu) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use linkrate_wire::control::lan_emulation::FrameSize;
    use linkrate_wire::link::atm::{OC3C, OC12C};

    use crate::file::parse;
    use crate::fixture;
    use crate::store::Outcome;

    use super::*;

    /// Mb/s of the last cell.
    fn limit(testbed: &str, workload: &str) -> Option<f64> {
        let text = format!(
            "title = \"t\"\n[testbed]\n{testbed}\n[factors]\ngro = [true]\n[workload]\n{workload}"
        );
        let study = parse("t", "t", &text).unwrap_or_else(|errors| panic!("{errors}"));
        of_cell(&study.cells.last()?.spec, &study.testbed, &[])
            .map(|rate| (rate / 1e4).round() / 100.0)
    }

    #[test]
    fn links_ports_directions_and_scale_multiply() {
        let gigabit = "adapter = \"gigabit\"";
        assert_eq!(limit(gigabit, ""), Some(941.48));
        assert_eq!(limit(gigabit, "mtu = 9000"), Some(990.04));
        // an IPv6 header has 20 octets more
        assert_eq!(limit(gigabit, "family = \"ipv6\""), Some(928.48));
        assert_eq!(limit(gigabit, "vlan = 5"), Some(939.04));
        assert_eq!(limit(gigabit, "ports = 2\ndirection = \"bidirectional\""), Some(3765.93));
        assert_eq!(limit(&format!("{gigabit}\nscale = 0.1"), ""), Some(94.15));
        assert_eq!(limit(gigabit, "kind = \"udp-stream\"\nmessage = 1472"), Some(957.09));
    }

    #[test]
    fn a_peer_without_timestamps_raises_the_limit_of_its_cell() {
        let text = "title = \"t\"\n[testbed]\nadapter = \"gigabit\"\n[factors]\ngro = [true]\n";
        let study = parse("t", "t", text).unwrap_or_else(|errors| panic!("{errors}"));
        let spec = &study.cells[0].spec;
        let of = |mss_bytes| {
            let mut run = fixture::run(0, 0, Some(0), fixture::stream(100e6, 50.0));
            let Outcome::Measured(measured) = &mut run.outcome else { panic!("figures") };
            measured.effective.mss_bytes = mss_bytes;
            let of_cell = of_cell(spec, &study.testbed, &[&run]).unwrap();
            let measured = run.measurement().unwrap();
            let way =
                of_direction(spec, &study.testbed, measured, FlowDirection::Transmit).unwrap();
            assert_eq!(of_cell, way, "one limit for cells and for runs");
            (of_cell / 1e4).round() / 100.0
        };
        assert_eq!([0, 1448, 1460].map(of), [941.48, 941.48, 949.28]);
    }

    #[test]
    fn an_aggregate_carries_as_much_as_its_ports_and_its_clients() {
        let on = |clients| format!("adapter = \"gigabit\"\naggregate = 4\nclients = {clients}");
        assert_eq!(limit(&on(8), ""), Some(3765.93));
        assert_eq!(limit(&on(8), "aggregate = 2"), Some(1882.96));
        assert_eq!(limit(&on(3), "mode = \"lacp\""), Some(2824.45));
    }

    #[test]
    fn the_bus_is_shared_by_an_adapters_ports_and_directions() {
        let ten = "adapter = \"ten-gigabit\"";
        assert_eq!(limit(ten, "mtu = 9000"), Some(9900.42));
        assert_eq!(limit(ten, "mtu = 9000\ndirection = \"bidirectional\""), Some(12_550.0));
        assert_eq!(limit(ten, "direction = \"bidirectional\"\nports = 4"), Some(50_200.0));
    }

    /// Mb/s of a cell on an ATM adapter, with two decimals.
    fn atm_limit(oc: linkrate_model::BitRate, change: impl Fn(&mut RunSpec)) -> Option<f64> {
        use linkrate_model::model::{LinkKind, find};

        let gigabit = find("gigabit").unwrap();
        let (ports, max_mtu) = (1, 65_527);
        let link = LinkKind::Atm;
        let model = Model { rate: Some(oc), bus: None, link, ports, max_mtu, ..gigabit };
        let mut spec = fixture::run(0, 0, Some(0), fixture::stream(1e6, 50.0)).spec;
        spec.ports = Some(1);
        change(&mut spec);
        let adapter = Adapter::Model(Box::new(model));
        let testbed = TestbedSpec { adapter, ..TestbedSpec::default() };
        of_cell(&spec, &testbed, &[]).map(|rate| (rate / 1e4).round() / 100.0)
    }

    fn workload(spec: &mut RunSpec) -> &mut linkrate_model::Workload {
        match &mut spec.task {
            Task::Workload(workload) => workload,
            Task::Idle => panic!("a workload"),
        }
    }

    /// The paper of study atm gives 135 and 542 Mb/s for 64 KiB in one packet. Packets of 9180 octets
    /// with TCP timestamps, as Linux sends them, come within 1 % of that.
    #[test]
    fn the_limits_of_classical_ip() {
        for (mtu, of_155, of_622) in [
            (9180, 134.34, 537.35),
            (1500, 127.86, 511.44),
            (576, 113.90, 455.58),
            (65_527, 135.44, 541.76),
        ] {
            let limits = [OC3C, OC12C].map(|oc| atm_limit(oc, |s| s.interface.mtu = Some(mtu)));
            assert_eq!(limits, [Some(of_155), Some(of_622)], "MTU {mtu}");
        }
        // 9180 where none is set
        assert_eq!(atm_limit(OC3C, |_| ()), Some(134.34));
    }

    /// A packet fills whole cells, so that one octet may cost a cell: at the same line rate a
    /// larger MTU is not always better.
    #[test]
    fn an_octet_may_cost_a_cell() {
        // 48 x 32 - 8 - 8: the largest packet in 32 cells
        let [fits, spills] =
            [1520, 1521].map(|mtu| atm_limit(OC3C, |s| s.interface.mtu = Some(mtu)));
        assert!(fits > spills, "{fits:?} {spills:?}");
    }

    /// A third of the cells of OC-3c, for what the system under test sends.
    #[test]
    fn a_peak_rate_is_a_limit_of_its_direction() {
        let of = |direction, clients| {
            atm_limit(OC3C, |spec| {
                spec.interface.atm.peak_rate = Some(49_920);
                spec.clients = clients;
                workload(spec).direction = direction;
            })
        };
        assert_eq!(of(Direction::Transmit, 1), Some(44.78));
        assert_eq!(of(Direction::Receive, 1), Some(134.34));
        assert_eq!(of(Direction::Bidirectional, 1), Some(179.12));
        // a connection to each client of the port, and no more than the line
        assert_eq!(of(Direction::Transmit, 2), Some(89.56));
        assert_eq!(of(Direction::Transmit, 4), Some(134.34));
    }

    #[test]
    fn adapters_and_directions_add_up() {
        let of = |ports, direction| {
            atm_limit(OC12C, |spec| {
                (spec.ports, spec.clients) = (Some(ports), ports);
                workload(spec).direction = direction;
            })
        };
        assert_eq!(of(1, Direction::Bidirectional), Some(1074.69));
        assert_eq!(of(1, Direction::Receive), of(1, Direction::Transmit));
        assert_eq!(of(8, Direction::Transmit), Some(4298.77));
        assert_eq!(of(8, Direction::Bidirectional), Some(8597.54));
    }

    /// Requests wait for responses: the line is no bound. A datagram has one, with its own cells.
    #[test]
    fn requests_have_no_limit_and_datagrams_have() {
        let requests = |kind| atm_limit(OC3C, |spec| workload(spec).kind = kind);
        assert_eq!(requests(Protocol::RequestResponse), None);
        assert_eq!(requests(Protocol::UdpRequestResponse), None);
        let datagrams = atm_limit(OC3C, |spec| {
            workload(spec).kind = Protocol::UdpStream;
            workload(spec).message = MessageSize::Fixed(linkrate_model::ByteSize(1024));
        });
        // 1024 + 28 + 8 + 8 octets are 23 cells
        assert_eq!(datagrams, Some(125.80));
    }

    /// The sizes of LAN Emulation are those of its units; eight octets more than Classical IP are a
    /// cell more at some of them only.
    #[test]
    fn the_limits_of_lan_emulation() {
        let limit = |framing, mtu| {
            let link = Link { line_rate: OC12C, framing };
            let limit = link.limit(&Traffic::tcp(mtu)).unwrap();
            ((limit.payload_rate().0 / 1e4).round() / 100.0, limit.cells.unwrap())
        };
        for (unit, emulated, classical) in [
            (FrameSize::Octets1516, (511.44, 32), (511.44, 32)),
            (FrameSize::Octets4544, (532.53, 95), (532.53, 95)),
            (FrameSize::Octets9234, (536.79, 193), (536.79, 193)),
            (FrameSize::Octets18190, (539.02, 380), (540.44, 379)),
        ] {
            let mtu = unit.mtu().into();
            assert_eq!(limit(Framing::LanEmulation, mtu), emulated, "{unit:?}");
            assert_eq!(limit(Framing::ClassicalIp, mtu), classical, "{unit:?}");
        }
    }

    #[test]
    fn a_link_without_a_rate_has_no_limit() {
        assert_eq!(limit("adapter = \"veth\"", ""), None);
        assert_eq!(limit("adapter = \"gigabit\"", "kind = \"request-response\""), None);
        let two_sizes = "kind = \"udp-stream\"\nmessage = \"1 B to 9 B\"";
        assert_eq!(limit("adapter = \"gigabit\"", two_sizes), None);
    }

    #[test]
    fn existing_links_are_as_fast_as_their_runs_found_them() {
        use linkrate_model::BitRate;
        use linkrate_model::measurement::LinkEvidence;

        let text = "title = \"t\"\n[testbed]\ninterface = [\"e1\", \"e2\"]\n\
                    clients = [\"ssh:a\", \"ssh:b\"]\n[factors]\ngro = [true]\n";
        let study = parse("t", "t", text).unwrap_or_else(|errors| panic!("{errors}"));
        let cell = &study.cells[0].spec;
        assert_eq!((cell.ports, cell.clients), (Some(2), 2));
        let mut run = fixture::run(0, 0, Some(0), fixture::stream(100e6, 50.0));
        run.spec = cell.clone();
        let rated = |rate: Option<f64>| {
            let mut run = run.clone();
            if let Outcome::Measured(measured) = &mut run.outcome {
                measured.effective.interface.mtu = Some(1500);
                let link = |name: &str| LinkEvidence {
                    interface: name.to_owned(),
                    rate: rate.map(BitRate),
                    aggregate: None,
                };
                measured.evidence.links = vec![link("e1"), link("e2")];
            }
            run
        };
        let run = rated(Some(1e9));
        let limit = of_cell(cell, &study.testbed, &[&run]).unwrap();
        assert!((limit / 1e6 - 2.0 * 941.48).abs() < 0.01, "{limit}");
        let mut without_timestamps = run.clone();
        if let Outcome::Measured(measured) = &mut without_timestamps.outcome {
            measured.effective.mss_bytes = 1460;
        }
        let more = of_cell(cell, &study.testbed, &[&without_timestamps]).unwrap();
        assert!((more / 1e6 - 2.0 * 949.28).abs() < 0.01, "{more}");
        let filled =
            filled_percent(cell, run.measurement().unwrap(), FlowDirection::Transmit).unwrap();
        let traffic = &run.measurement().unwrap().traffic;
        let expected = traffic.transmit_bytes as f64 * 800.0 / traffic.transmit_seconds / limit;
        assert!((filled - expected).abs() < 1e-9, "{filled} {expected}");
        assert_eq!(of_cell(cell, &study.testbed, &[&rated(None)]), None, "a link without a rate");
        assert_eq!(of_cell(cell, &study.testbed, &[]), None);
    }
}
