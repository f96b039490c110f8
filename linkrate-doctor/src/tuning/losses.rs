//! Where packets are lost: at receive rings that are too short, for want of pause frames, and at
//! the backlogs of CPUs.

use linkrate_model::shell;
use linkrate_wire::limits::Traffic;
use linkrate_wire::limits::path::loss_rate;
use linkrate_wire::link::Link;

use super::advice::{Advice, Basis, Cost};
use super::facts::{Host, Interface};
use super::window::RoundTrip;

/// Counters of packets that found no receive descriptor; drivers use one or another.
const MISSED: [&str; 3] = ["rx_missed_errors", "rx_fifo_errors", "rx_over_errors"];

/// Advice on the receive ring, with missed packets as evidence.
pub(super) fn rings(interface: &Interface, round_trip: &RoundTrip) -> Option<Advice> {
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
            "the ring has its maximum length: use more queues, or reduce the delay of the CPUs",
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

/// Advice on pause frames that are off while the adapter misses packets.
pub(super) fn pause(interface: &Interface) -> Option<Advice> {
    interface.device.as_ref()?;
    let pause = interface.pause?;
    let missed = interface.count("rx_missed_errors");
    let word = shell::word(&interface.name);
    let switch = |on: bool| if on { "on" } else { "off" };
    let seen = format!("rx {}, tx {}", switch(pause.rx), switch(pause.tx));
    let from = format!("ethtool -a {word}");
    if pause.tx || missed == 0 {
        let detail = format!("pause frames {seen}, and no packet was missed");
        let detail = if missed == 0 { detail } else { format!("pause frames {seen}") };
        return Some(Advice::good("pause", detail).on(&interface.name).seen(seen, from));
    }
    let cost = Cost::unknown(
        "TCP must retransmit the missed packets. Lengthen the rings first: a paused peer delays \
         all its traffic",
    );
    let detail = format!("{missed} packets were missed, and the adapter sends no pause frames");
    Some(
        Advice::consider("pause", detail, cost)
            .on(&interface.name)
            .seen(seen, from)
            .seen(format!("rx_missed_errors {missed}"), interface.counter_path("rx_missed_errors"))
            .run(format!("ethtool -A {word} rx on tx on"))
            .note("the switch must obey pause frames; do not enable them with priority flow control (DCB)"),
    )
}

const SOFTNET_STAT: &str = "/proc/net/softnet_stat";

/// The default of `net.core.netdev_budget`: the most packets of one round.
const USUAL_BUDGET: u64 = 300;

/// A smaller share of packets in rounds that ended early does not matter.
const CUT_SHORT: f64 = 0.01;

/// Packets dropped at a full backlog, and rounds of receive processing that ended early, since boot.
pub(super) fn softnet(host: &Host) -> Vec<Advice> {
    if host.softnet.is_empty() {
        return vec![Advice::unseen("backlog", format!("{SOFTNET_STAT} cannot be read"))];
    }
    vec![backlog(host), budget(host)]
}

fn backlog(host: &Host) -> Advice {
    let name = "backlog";
    let dropped: u64 = host.softnet.iter().map(|cpu| cpu.dropped).sum();
    let processed: u64 = host.softnet.iter().map(|cpu| cpu.processed).sum();
    if dropped == 0 {
        return Advice::good(name, "no CPU dropped a packet at a full backlog")
            .seen("second column 0", SOFTNET_STAT);
    }
    let share = dropped as f64 / (processed as f64 + dropped as f64);
    let cpus: Vec<String> =
        host.softnet.iter().filter(|c| c.dropped > 0).map(|c| c.cpu.to_string()).collect();
    let length = host.settings.backlog;
    let detail = format!(
        "{dropped} packets were dropped since boot because the backlog of a CPU was full (CPU {})",
        cpus.join(", ")
    );
    let text = format!(
        "{:.4} % of all received packets were lost, and TCP must send each again; veth, tunnels and \
         packet steering use the backlog",
        share * 100.0
    );
    let cost = Cost::known(Basis::Computed, share, text, SOFTNET_STAT);
    let advice =
        Advice::improve(name, detail, cost).seen(format!("dropped {dropped}"), SOFTNET_STAT);
    match length {
        Some(length) => {
            advice.seen(length.to_string(), "/proc/sys/net/core/netdev_max_backlog").run(format!(
                "sysctl -w net.core.netdev_max_backlog={}",
                length.saturating_mul(4).max(4000)
            ))
        }
        None => advice.note(
            "netdev_max_backlog exists in the initial network namespace only: change it there",
        ),
    }
}

fn budget(host: &Host) -> Advice {
    let name = "receive-budget";
    let (budget, micros) = (host.settings.budget, host.settings.budget_us);
    let round = budget.unwrap_or(USUAL_BUDGET);
    let squeezed: u64 = host.softnet.iter().map(|cpu| cpu.squeezed).sum();
    // an upper bound: a round may have ended by time
    let share = |cpu: &super::facts::Softnet| {
        cpu.squeezed as f64 * round as f64 / cpu.processed.max(1) as f64
    };
    let worst =
        host.softnet.iter().map(|cpu| (cpu.cpu, share(cpu))).max_by(|a, b| a.1.total_cmp(&b.1));
    let (cpu, most) = worst.unwrap_or((0, 0.0));
    if most < CUT_SHORT {
        let detail = "receive processing almost never used up its budget";
        return Advice::good(name, detail).seen(format!("squeezed {squeezed}"), SOFTNET_STAT);
    }
    let detail = format!(
        "{squeezed} rounds of receive processing ended with packets left; on CPU {cpu} these rounds \
         had up to {:.0} % of its packets",
        most.min(1.0) * 100.0
    );
    let cost = Cost::unknown(
        "the remaining packets wait for the next round, behind processes, and rings may fill up",
    );
    let advice =
        Advice::consider(name, detail, cost).seen(format!("squeezed {squeezed}"), SOFTNET_STAT);
    let (Some(budget), Some(micros)) = (budget, micros) else {
        return advice
            .note("netdev_budget exists in the initial network namespace only: change it there");
    };
    advice
        .seen(format!("{budget} packets"), "/proc/sys/net/core/netdev_budget")
        .seen(format!("{micros} µs"), "/proc/sys/net/core/netdev_budget_usecs")
        .run(format!("sysctl -w net.core.netdev_budget={}", budget.saturating_mul(2)))
        .run(format!("sysctl -w net.core.netdev_budget_usecs={}", micros.saturating_mul(2)))
}
