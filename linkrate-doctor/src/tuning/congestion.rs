//! Congestion control, and the queueing discipline that must go with it.

use linkrate_sys::shell;

use super::advice::{Advice, Cost};
use super::facts::{Host, Interface};
use super::measured;

/// The default of Linux since 2.6.19.
const USUAL: &str = "cubic";

/// Algorithms that pace.
const PACING: [&str; 3] = ["bbr", "bbr1", "bbr2"];

/// The default algorithm, and for one that paces who paces.
pub(super) fn advice(host: &Host, subjects: &[&Interface]) -> Vec<Advice> {
    let Some(algorithm) = host.settings.congestion.as_deref() else { return Vec::new() };
    let mut all = vec![default(host, algorithm)];
    if PACING.contains(&algorithm) {
        all.extend(subjects.iter().filter_map(|interface| pacing(host, interface, algorithm)));
    }
    all
}

fn default(host: &Host, algorithm: &str) -> Advice {
    let name = "congestion-control";
    let from = "/proc/sys/net/ipv4/tcp_congestion_control";
    let usual_is_there = host.settings.congestion_available.iter().any(|a| a == USUAL);
    let command = "sysctl -w net.ipv4.tcp_congestion_control=cubic";
    let advice = if PACING.contains(&algorithm) {
        let detail = format!(
            "connections begin under {algorithm}, which sends by a timer and not by \
             acknowledgements"
        );
        Advice::consider(name, detail, measured::pacing())
    } else if algorithm == "reno" {
        let text = "after a loss, reno takes a round trip for each segment it regains; cubic is \
                    faster on long or fast paths";
        Advice::consider(name, "connections begin under reno", Cost::unknown(text))
    } else {
        return Advice::good(name, format!("connections begin under {algorithm}"))
            .seen(algorithm, from);
    };
    let advice = advice.seen(algorithm, from);
    match usual_is_there {
        true => advice.run(command),
        false => advice.run("modprobe tcp_cubic").run(command),
    }
}

/// Whether the interface paces for its connections, or each of them sets timers of its own.
fn pacing(host: &Host, interface: &Interface, algorithm: &str) -> Option<Advice> {
    let name = "queue-discipline";
    let of_queues = host.settings.default_queue_discipline.as_deref().unwrap_or("unknown");
    let (seen, paces) = match interface.queue_discipline.as_str() {
        // without a queue nothing is paced below TCP; and what says nothing is not judged
        "noqueue" | "" => return None,
        // what its queues have is the default, unless somebody changed it
        "mq" => (format!("mq, its queues by default {of_queues}"), of_queues == "fq"),
        other => (other.to_owned(), other == "fq"),
    };
    let from = format!("ip link show dev {}", shell::word(&interface.name));
    if paces {
        let detail = "fq paces for all connections at once";
        return Some(Advice::good(name, detail).on(&interface.name).seen(seen, from));
    }
    let cost = Cost::unknown(
        "since Linux 4.13 TCP paces by itself, with a timer for each connection; fq has one for all",
    );
    let detail = format!("{algorithm} paces, and the queueing discipline does not do it for it");
    let word = shell::word(&interface.name);
    let advice = Advice::consider(name, detail, cost).on(&interface.name).seen(seen, from);
    Some(match interface.queue_discipline == "mq" {
        // fq at the root would make one queue of all
        true => advice
            .run("sysctl -w net.core.default_qdisc=fq")
            .run(format!("tc qdisc replace dev {word} root handle 1: mq")),
        false => advice.run(format!("tc qdisc replace dev {word} root fq")),
    })
}
