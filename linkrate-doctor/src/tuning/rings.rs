//! Descriptor rings against what was missed for want of them.

use linkrate_sys::shell;
use linkrate_wire::limits::Traffic;
use linkrate_wire::limits::path::loss_rate;
use linkrate_wire::link::Link;

use super::advice::{Advice, Basis, Cost};
use super::facts::Interface;
use super::round_trip::RoundTrip;

/// Counters of packets for which there was no receive descriptor; drivers use one or the other.
const MISSED: [&str; 3] = ["rx_missed_errors", "rx_fifo_errors", "rx_over_errors"];

/// The receive ring, with drops as evidence.
pub(super) fn advice(interface: &Interface, round_trip: &RoundTrip) -> Option<Advice> {
    interface.device.as_ref()?;
    let word = shell::word(&interface.name);
    // the same packet may be counted under several names
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
                    "{} of {} receive descriptors; none was ever missed",
                    rings.rx, rings.rx_max
                );
                Advice::good("rings", detail)
            }
            None => Advice::good("rings", "no packet was ever missed"),
        };
        return Some(evidence(advice));
    }
    let holds = rings
        .and_then(|rings| holds(interface, rings.rx))
        .map_or_else(String::new, |held| format!("; the ring holds {held} of full frames"));
    let detail = format!("{missed} packets found no receive descriptor{holds}");
    let advice = evidence(Advice::improve("rings", detail, cost(interface, missed, round_trip)));
    Some(match rings {
        Some(rings) if rings.rx < rings.rx_max => {
            advice.run(format!("ethtool -G {word} rx {}", rings.rx_max))
        }
        Some(_) => {
            advice.note("the ring is as long as it can be: more queues, or CPUs that come sooner")
        }
        None => advice.note("the driver does not tell its rings"),
    })
}

/// How long frames at link rate take to fill a ring.
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
                "{percent}; spread evenly, that leaves one connection {reached} of {limit} over \
                 {round_trip}"
            );
            let from = "TCP's response to losses (linkrate-wire, limits::path)";
            Cost::known(Basis::Computed, 1.0 - reached.0 / limit.0, text, from)
        }
        _ => Cost::known(Basis::Computed, share, percent, "missed / received packets"),
    }
}
