//! Descriptor rings, and packets that were missed because a ring was too short.

use linkrate_model::shell;
use linkrate_wire::limits::Traffic;
use linkrate_wire::limits::path::loss_rate;
use linkrate_wire::link::Link;

use super::advice::{Advice, Basis, Cost};
use super::facts::Interface;
use super::round_trip::RoundTrip;

/// Counters of packets that found no receive descriptor; drivers use one or another.
const MISSED: [&str; 3] = ["rx_missed_errors", "rx_fifo_errors", "rx_over_errors"];

/// Advice on the receive ring, with missed packets as evidence.
pub(super) fn advice(interface: &Interface, round_trip: &RoundTrip) -> Option<Advice> {
    interface.device.as_ref()?;
    let word = shell::word(&interface.name);
    // a driver may count the same packet under several names
    let (counter, missed) = MISSED
        .iter()
        .map(|name| (*name, interface.count(name)))
        .max_by_key(|(_, count)| *count)
        .unwrap_or((MISSED[0], 0));
    let rings = interface.rings.filter(|rings| rings.rx_max > 0);
    let evidence = |mut advice: Advice| {
        if let Some(rings) = rings {
            let value =
                format!("rx {} of {}, tx {} of {}", rings.rx, rings.rx_max, rings.tx, rings.tx_max);
            advice = advice.seen(value, format!("ethtool -g {word}"));
        }
        advice
            .on(&interface.name)
            .seen(format!("{counter} {missed}"), interface.counter_path(counter))
    };
    if missed == 0 {
        let advice = match rings {
            Some(rings) => {
                let detail = format!(
                    "{} of {} receive descriptors; no packet was missed",
                    rings.rx, rings.rx_max
                );
                Advice::good("rings", detail)
            }
            None => Advice::good("rings", "no packet was missed"),
        };
        return Some(evidence(advice));
    }
    let holds = rings
        .and_then(|rings| holds(interface, rings.rx))
        .map_or_else(String::new, |held| format!("; full frames fill the ring in {held}"));
    let detail = format!("{missed} packets found no receive descriptor{holds}");
    let advice = evidence(Advice::improve("rings", detail, cost(interface, missed, round_trip)));
    Some(match rings {
        Some(rings) if rings.rx < rings.rx_max => {
            advice.run(format!("ethtool -G {word} rx {}", rings.rx_max))
        }
        Some(_) => advice.note(
            "the ring has its maximum length: use more queues, or shorten the delay of the CPUs",
        ),
        None => advice.note("the driver does not report its rings"),
    })
}

/// How long full frames at link rate take to fill a ring.
fn holds(interface: &Interface, descriptors: u32) -> Option<String> {
    let rate = interface.rate()?;
    let bits = Link::ethernet(rate).occupied(interface.mtu.into()) * 8;
    let micros = f64::from(descriptors) * bits as f64 / rate.0 * 1e6;
    Some(format!("{micros:.0} µs"))
}

fn cost(interface: &Interface, missed: u64, round_trip: &RoundTrip) -> Cost {
    let share = interface.share_lost(missed);
    let percent = format!("{:.4} % of all received packets were lost", share * 100.0);
    let traffic = Traffic::tcp(interface.mtu);
    let limit = interface.rate().and_then(|rate| Link::ethernet(rate).limit(&traffic).ok());
    let segment = traffic.largest_payload().ok();
    let reached = segment.and_then(|segment| loss_rate(segment, round_trip.time, share));
    match limit.map(|limit| limit.payload_rate()).zip(reached) {
        Some((limit, reached)) if reached < limit => {
            let text = format!(
                "{percent}; if the losses are spread evenly, one connection reaches {reached} of {limit} \
                 over {round_trip}"
            );
            let from = "response of TCP to losses (linkrate-wire, limits::path)";
            Cost::known(Basis::Computed, 1.0 - reached.0 / limit.0, text, from)
        }
        _ => Cost::known(Basis::Computed, share, percent, "missed / received packets"),
    }
}
