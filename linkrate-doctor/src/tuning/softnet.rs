//! Receive processing since boot: packets dropped at a full backlog, and rounds that ended early.

use super::advice::{Advice, Basis, Cost};
use super::facts::Host;

const FROM: &str = "/proc/net/softnet_stat";

/// The default of `net.core.netdev_budget`: the most packets of one round.
const USUAL_BUDGET: u64 = 300;

/// A smaller share of packets in rounds that ended early does not matter.
const CUT_SHORT: f64 = 0.01;

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
        return Advice::good(name, "no CPU dropped a packet at a full backlog")
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
        "{:.4} % of all received packets were lost, and TCP must send each again; veth, tunnels and \
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
        None => advice
            .note("netdev_max_backlog exists in the first network namespace only: change it there"),
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
        return Advice::good(name, detail).seen(format!("squeezed {squeezed}"), FROM);
    }
    let detail = format!(
        "{squeezed} rounds of receive processing ended with packets left; on CPU {cpu} these rounds \
         had up to {:.0} % of its packets",
        most.min(1.0) * 100.0
    );
    let cost = Cost::unknown(
        "the remaining packets wait for the next round, behind processes, and rings may fill up",
    );
    let advice = Advice::consider(name, detail, cost).seen(format!("squeezed {squeezed}"), FROM);
    let (Some(budget), Some(micros)) = (budget, micros) else {
        return advice
            .note("netdev_budget exists in the first network namespace only: change it there");
    };
    advice
        .seen(format!("{budget} packets"), "/proc/sys/net/core/netdev_budget")
        .seen(format!("{micros} µs"), "/proc/sys/net/core/netdev_budget_usecs")
        .run(format!("sysctl -w net.core.netdev_budget={}", budget.saturating_mul(2)))
        .run(format!("sysctl -w net.core.netdev_budget_usecs={}", micros.saturating_mul(2)))
}
