//! Receive processing that ran out of room or of time, since boot.

use super::advice::{Advice, Basis, Cost};
use super::facts::Host;

const FROM: &str = "/proc/net/softnet_stat";

/// A round that is cut short had this many packets at most, unless told otherwise
/// (`net.core.netdev_budget`).
const USUAL_BUDGET: u64 = 300;

/// Of all packets, the share in rounds that were cut short above which it matters.
const CUT_SHORT: f64 = 0.01;

/// Backlogs that were full, and rounds that were cut short.
pub(super) fn advice(host: &Host) -> Vec<Advice> {
    if host.softnet.is_empty() {
        return vec![Advice::unseen("backlog", format!("{FROM} cannot be read"))];
    }
    vec![backlog(host), budget(host)]
}

fn backlog(host: &Host) -> Advice {
    let name = "backlog";
    let dropped: u64 = host.softnet.iter().map(|cpu| cpu.dropped).sum();
    let processed: u64 = host.softnet.iter().map(|cpu| cpu.processed).sum();
    if dropped == 0 {
        return Advice::good(name, "no CPU ever dropped a packet for a full backlog")
            .seen("second column 0", FROM);
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
        "{:.4} % of all received packets, each of which TCP must send again; veth, tunnels and \
         packet steering use the backlog",
        share * 100.0
    );
    let cost = Cost::known(Basis::Computed, share, text, FROM);
    let advice = Advice::improve(name, detail, cost).seen(format!("dropped {dropped}"), FROM);
    match length {
        Some(length) => {
            advice.seen(length.to_string(), "/proc/sys/net/core/netdev_max_backlog").run(format!(
                "sysctl -w net.core.netdev_max_backlog={}",
                length.saturating_mul(4).max(4000)
            ))
        }
        None => advice.note("netdev_max_backlog is the first network namespace's: change it there"),
    }
}

fn budget(host: &Host) -> Advice {
    let name = "receive-budget";
    let (budget, micros) = (host.settings.budget, host.settings.budget_us);
    let round = budget.unwrap_or(USUAL_BUDGET);
    let squeezed: u64 = host.softnet.iter().map(|cpu| cpu.squeezed).sum();
    // at most: a round may have ended by its time
    let share = |cpu: &super::facts::Softnet| {
        cpu.squeezed as f64 * round as f64 / cpu.processed.max(1) as f64
    };
    let worst =
        host.softnet.iter().map(|cpu| (cpu.cpu, share(cpu))).max_by(|a, b| a.1.total_cmp(&b.1));
    let (cpu, most) = worst.unwrap_or((0, 0.0));
    if most < CUT_SHORT {
        let detail = "receive processing almost never ran out of its budget";
        return Advice::good(name, detail).seen(format!("squeezed {squeezed}"), FROM);
    }
    let detail = format!(
        "CPU {cpu} ended {squeezed} rounds of receive processing with work left, up to {:.0} % of \
         its packets",
        most.min(1.0) * 100.0
    );
    let cost = Cost::unknown(
        "the rest waits for the next round, behind processes: later packets, full rings",
    );
    let advice = Advice::consider(name, detail, cost).seen(format!("squeezed {squeezed}"), FROM);
    let (Some(budget), Some(micros)) = (budget, micros) else {
        return advice.note("netdev_budget is the first network namespace's: change it there");
    };
    advice
        .seen(format!("{budget} packets"), "/proc/sys/net/core/netdev_budget")
        .seen(format!("{micros} µs"), "/proc/sys/net/core/netdev_budget_usecs")
        .run(format!("sysctl -w net.core.netdev_budget={}", budget.saturating_mul(2)))
        .run(format!("sysctl -w net.core.netdev_budget_usecs={}", micros.saturating_mul(2)))
}
