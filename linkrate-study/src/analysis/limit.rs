//! What a cell's links and buses can carry.

use linkrate_terms::spec::{Adapter, Task};
use linkrate_terms::{Direction, MessageSize, Protocol, RunSpec, TestbedSpec};
use linkrate_wire::limits::{Cut, Encapsulation, EthernetLink, Traffic};

/// The MTU that ports have when none is set.
const DEFAULT_MTU: u32 = 1500;

/// Payload in bit/s that a cell's links can carry at most, all ports and directions together, or
/// its buses, whichever is less. `None` where there is no rate, for transactions, and for
/// datagrams of more than one size.
///
/// It is a bound from above: acknowledgements, which take a little of the other direction, are
/// left out, and a bus is taken to carry payload alone, since of a superframe it carries next to
/// nothing else.
pub fn of_cell(spec: &RunSpec, testbed: &TestbedSpec) -> Option<f64> {
    let (Adapter::Model(model), Task::Workload(workload)) = (&testbed.adapter, &spec.task) else {
        return None;
    };
    let rates = (**model).clone().scaled(testbed.scale);
    let knobs = &spec.interface;
    let port = knobs.port.over(&model.defaults, knobs.rx_checksum);
    let mtu = knobs.mtu.unwrap_or(DEFAULT_MTU.min(model.max_mtu));
    let traffic = match (workload.kind, workload.udp_segment, workload.message) {
        (Protocol::Stream, _, _) => Traffic::tcp(mtu),
        (Protocol::UdpStream, Some(size), _)
        | (Protocol::UdpStream, None, MessageSize::Fixed(size)) => {
            Traffic { cut: Cut::Message(size), ..Traffic::udp(mtu) }
        }
        _ => return None,
    };
    let link = EthernetLink {
        vlan_tags: u8::from(port.vlan > 0),
        encapsulation: if port.snap { Encapsulation::Snap } else { Encapsulation::EthernetII },
        ..EthernetLink::new(rates.rate?)
    };
    let ways = if workload.direction == Direction::Bidirectional { 2.0 } else { 1.0 };
    let ports = spec.ports.unwrap_or(1);
    let links = link.limit(&traffic).ok()?.payload_rate().0 * f64::from(ports) * ways;
    let adapters = f64::from(ports.div_ceil(model.ports.max(1)));
    let buses = rates.bus.map_or(f64::INFINITY, |bus| bus.0 * adapters);
    Some(links.min(buses))
}

#[cfg(test)]
mod tests {
    use crate::file::parse;

    use super::*;

    /// Mb/s of the last cell.
    fn limit(testbed: &str, workload: &str) -> Option<f64> {
        let text = format!(
            "title = \"t\"\n[testbed]\n{testbed}\n[factors]\ngro = [true]\n[workload]\n{workload}"
        );
        let study = parse("t", "t", &text).unwrap_or_else(|errors| panic!("{errors}"));
        of_cell(&study.cells.last()?.spec, &study.testbed).map(|rate| (rate / 1e4).round() / 100.0)
    }

    #[test]
    fn links_ports_directions_and_scale_multiply() {
        let gigabit = "adapter = \"gigabit\"";
        assert_eq!(limit(gigabit, ""), Some(941.48));
        assert_eq!(limit(gigabit, "mtu = 9000"), Some(990.04));
        assert_eq!(limit(gigabit, "vlan = 5"), Some(939.04));
        assert_eq!(limit(gigabit, "ports = 2\ndirection = \"bidirectional\""), Some(3765.93));
        assert_eq!(limit(&format!("{gigabit}\nscale = 0.1"), ""), Some(94.15));
        assert_eq!(limit(gigabit, "kind = \"udp-stream\"\nmessage = 1472"), Some(957.09));
    }

    #[test]
    fn the_bus_is_shared_by_an_adapters_ports_and_directions() {
        let ten = "adapter = \"ten-gigabit\"";
        assert_eq!(limit(ten, "mtu = 9000"), Some(9900.42));
        assert_eq!(limit(ten, "mtu = 9000\ndirection = \"bidirectional\""), Some(12_550.0));
        assert_eq!(limit(ten, "direction = \"bidirectional\"\nports = 4"), Some(50_200.0));
    }

    #[test]
    fn what_has_no_rate_has_no_limit() {
        assert_eq!(limit("adapter = \"veth\"", ""), None);
        assert_eq!(limit("adapter = \"gigabit\"", "kind = \"request-response\""), None);
        let two_sizes = "kind = \"udp-stream\"\nmessage = \"1 B to 9 B\"";
        assert_eq!(limit("adapter = \"gigabit\"", two_sizes), None);
    }
}
