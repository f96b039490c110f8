//! Congestion control, and the queueing discipline that it needs.

use linkrate_model::shell;

use super::advice::{Advice, Cost};
use super::facts::{Host, Interface};

/// The default of Linux since 2.6.19.
const USUAL: &str = "cubic";

/// Algorithms that pace.
const PACING: [&str; 3] = ["bbr", "bbr1", "bbr2"];

/// Advice on the default algorithm, and on the queueing discipline if the algorithm paces.
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
            "connections start with {algorithm}, which paces by a timer instead of by \
             acknowledgements"
        );
        Advice::consider(name, detail, Cost::pacing())
    } else if algorithm == "reno" {
        let text = "after a loss, reno regains one segment each round trip; cubic is faster on long or \
                    fast paths";
        Advice::consider(name, "connections start with reno", Cost::unknown(text))
    } else {
        return Advice::good(name, format!("connections start with {algorithm}"))
            .seen(algorithm, from);
    };
    let advice = advice.seen(algorithm, from);
    match usual_is_there {
        true => advice.run(command),
        false => advice.run("modprobe tcp_cubic").run(command),
    }
}

/// Whether the queueing discipline paces for all connections, or each connection sets its own
/// timer.
fn pacing(host: &Host, interface: &Interface, algorithm: &str) -> Option<Advice> {
    let name = "queue-discipline";
    let of_queues = host.settings.default_queue_discipline.as_deref().unwrap_or("unknown");
    let (seen, paces) = match interface.queue_discipline.as_str() {
        // an interface without a queue cannot pace; an unknown discipline is not judged
        "noqueue" | "" => return None,
        // the queues have the default discipline, unless it was changed for them
        "mq" => (format!("mq; default of its queues: {of_queues}"), of_queues == "fq"),
        other => (other.to_owned(), other == "fq"),
    };
    let from = format!("ip link show dev {}", shell::word(&interface.name));
    if paces {
        let detail = "fq paces all connections with one timer";
        return Some(Advice::good(name, detail).on(&interface.name).seen(seen, from));
    }
    let cost = Cost::unknown(
        "without fq, TCP (since Linux 4.13) paces with one timer for each connection; fq has one for all",
    );
    let detail = format!("{algorithm} paces, and the queueing discipline does not support it");
    let word = shell::word(&interface.name);
    let advice = Advice::consider(name, detail, cost).on(&interface.name).seen(seen, from);
    Some(match interface.queue_discipline == "mq" {
        // fq at the root would merge all queues into one
        true => advice
            .run("sysctl -w net.core.default_qdisc=fq")
            .run(format!("tc qdisc replace dev {word} root handle 1: mq")),
        false => advice.run(format!("tc qdisc replace dev {word} root fq")),
    })
}
