//! How many CPUs receive: queues of the adapter, and steering if it has only one.

use linkrate_model::CpuSet;
use linkrate_model::shell;

use super::advice::{Advice, Cost};
use super::facts::{Device, Host, Interface};

/// On most adapters, more queues than this add interrupts and no throughput.
const ENOUGH: u32 = 16;

/// Advice on fewer queues than CPUs, and on steering instead of queues.
pub(super) fn advice(host: &Host, interface: &Interface) -> Vec<Advice> {
    let Some(device) = &interface.device else { return Vec::new() };
    let cpus = near(host, device);
    if cpus.len() < 2 {
        let detail = "one CPU needs only one queue";
        return vec![Advice::good("queues", detail).on(&interface.name)];
    }
    let mut all = vec![channels(interface, &cpus)];
    all.extend(steering(host, interface, &cpus));
    all
}

/// The CPUs of the adapter's node; all CPUs if the node is unknown.
pub(super) fn near(host: &Host, device: &Device) -> CpuSet {
    let node = device.node.map(|node| host.node_cpus(node)).filter(|cpus| !cpus.is_empty());
    node.unwrap_or_else(|| host.online())
}

fn channels(interface: &Interface, cpus: &CpuSet) -> Advice {
    let name = "queues";
    let word = shell::word(&interface.name);
    let Some(channels) = interface.channels else {
        let detail = format!(
            "{} receive queues, {} transmit queues",
            interface.rx_queues.len(),
            interface.tx_queues
        );
        return Advice::good(name, detail).on(&interface.name);
    };
    // a driver counts either pairs or single queues
    let (kind, now, most) = match channels.combined_max {
        0 => ("rx", channels.rx, channels.rx_max),
        most => ("combined", channels.combined, most),
    };
    let useful = most.min(cpus.len() as u32).min(ENOUGH);
    let evidence = |advice: Advice| {
        advice
            .on(&interface.name)
            .seen(format!("{kind} {now} of {most}"), format!("ethtool -l {word}"))
            .seen(format!("CPUs {cpus}"), "/sys/devices/system/cpu, numa_node of the device")
    };
    if now >= useful {
        return evidence(Advice::good(name, format!("{now} queues, {} CPUs", cpus.len())));
    }
    let text = "one connection loses nothing; with several, the CPU of each queue limits its receive \
                rate (the ten-gigabit paper: several connections on four or more processors)";
    let detail = format!(
        "{now} of {most} queues are in use, and the adapter's node has {} CPUs",
        cpus.len()
    );
    evidence(Advice::improve(name, detail, Cost::unknown(text)))
        .run(format!("ethtool -L {word} {kind} {useful}"))
        .note("it interrupts traffic for a moment and resets the indirection table of RSS")
}

/// Steering by the kernel, for an adapter with one receive queue.
fn steering(host: &Host, interface: &Interface, cpus: &CpuSet) -> Option<Advice> {
    let [queue] = &interface.rx_queues[..] else { return None };
    let most = interface.channels.map_or(1, |channels| channels.combined_max.max(channels.rx_max));
    if most > 1 {
        // more queues are better than steering
        return None;
    }
    let name = "receive-steering";
    let word = shell::word(&interface.name);
    let base = format!("/sys/class/net/{word}/queues/rx-0");
    let entries = host.settings.flow_entries;
    if queue.steering.is_empty() {
        let cost = Cost::unknown(
            "one CPU processes all received packets; steering wakes other CPUs for them, which helps \
             with several busy connections and costs latency with one",
        );
        let detail = "the only receive queue does not spread its packets over the CPUs (RPS)";
        return Some(
            Advice::consider(name, detail, cost)
                .on(&interface.name)
                .seen("none", format!("{base}/rps_cpus"))
                .run(format!("echo {} > {base}/rps_cpus", mask(cpus))),
        );
    }
    if queue.flows == 0 || entries == Some(0) {
        let cost =
            Cost::unknown("packets are processed on another CPU than the one that reads them");
        let detail =
            "packets are spread over CPUs (RPS) without regard to the CPU of their reader (RFS)";
        return Some(
            Advice::consider(name, detail, cost)
                .on(&interface.name)
                .seen(queue.flows.to_string(), format!("{base}/rps_flow_cnt"))
                .run("sysctl -w net.core.rps_sock_flow_entries=32768")
                .run(format!("echo 32768 > {base}/rps_flow_cnt")),
        );
    }
    let detail =
        format!("the only receive queue spreads its packets over CPUs {} by flow", queue.steering);
    Some(Advice::good(name, detail).on(&interface.name))
}

/// `cpus` as a mask for `rps_cpus`, without leading zeroes.
fn mask(cpus: &CpuSet) -> String {
    let mask = cpus.to_kernel_mask();
    let short = mask.trim_start_matches(['0', ',']);
    if short.is_empty() { "0".to_owned() } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_short_cpu_masks() {
        assert_eq!(mask(&"0-1".parse().unwrap()), "3");
        assert_eq!(mask(&"0-32".parse().unwrap()), "1,ffffffff");
    }
}
