//! How many CPUs take part in receiving: queues of the adapter, and steering where there are few.

use linkrate_sys::shell;
use linkrate_terms::CpuSet;

use super::advice::{Advice, Cost};
use super::facts::{Device, Host, Interface};

/// Beyond this many queues, more bring interrupts and no throughput on most adapters.
const ENOUGH: u32 = 16;

/// Fewer queues than CPUs, and what may stand in for them.
pub(super) fn advice(host: &Host, interface: &Interface) -> Vec<Advice> {
    let Some(device) = &interface.device else { return Vec::new() };
    let cpus = near(host, device);
    if cpus.len() < 2 {
        let detail = "one CPU, so one queue is enough";
        return vec![Advice::good("queues", detail).on(&interface.name)];
    }
    let mut all = vec![channels(interface, &cpus)];
    all.extend(steering(host, interface, &cpus));
    all
}

/// The CPUs of the adapter's node, or all.
pub(super) fn near(host: &Host, device: &Device) -> CpuSet {
    let node = device.node.map(|node| host.node_cpus(node)).filter(|cpus| !cpus.is_empty());
    node.unwrap_or_else(|| host.online())
}

fn channels(interface: &Interface, cpus: &CpuSet) -> Advice {
    let name = "queues";
    let word = shell::word(&interface.name);
    let Some(channels) = interface.channels else {
        let detail =
            format!("{} to receive, {} to send", interface.rx_queues.len(), interface.tx_queues);
        return Advice::good(name, detail).on(&interface.name);
    };
    // adapters that count pairs have no others, and the other way round
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
    let text = "with one connection nothing; with several, the CPU of each queue bounds what it \
                receives (the ten-gigabit paper: several connections on four or more processors)";
    let detail =
        format!("{now} of {most} queues are in use, and there are {} CPUs near", cpus.len());
    evidence(Advice::improve(name, detail, Cost::unknown(text)))
        .run(format!("ethtool -L {word} {kind} {useful}"))
        .note("it interrupts traffic for a moment, and resets the indirection table of RSS")
}

/// One receive queue and several CPUs: the kernel can spread what the adapter cannot.
fn steering(host: &Host, interface: &Interface, cpus: &CpuSet) -> Option<Advice> {
    let [queue] = &interface.rx_queues[..] else { return None };
    let most = interface.channels.map_or(1, |channels| channels.combined_max.max(channels.rx_max));
    if most > 1 {
        // real queues first
        return None;
    }
    let name = "receive-steering";
    let word = shell::word(&interface.name);
    let base = format!("/sys/class/net/{word}/queues/rx-0");
    let entries = host.settings.flow_entries;
    if queue.steering.is_empty() {
        let cost = Cost::unknown(
            "one CPU does the protocol work of all that is received; steering wakes others for it, \
             which pays with several busy connections and costs latency with one",
        );
        let detail = "one receive queue, and its packets are not spread over the CPUs (RPS)";
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
        let detail = "packets are spread over CPUs (RPS), and not to the CPU of their reader (RFS)";
        return Some(
            Advice::consider(name, detail, cost)
                .on(&interface.name)
                .seen(queue.flows.to_string(), format!("{base}/rps_flow_cnt"))
                .run("sysctl -w net.core.rps_sock_flow_entries=32768")
                .run(format!("echo 32768 > {base}/rps_flow_cnt")),
        );
    }
    let detail = format!("one receive queue, spread over CPUs {} by flow", queue.steering);
    Some(Advice::good(name, detail).on(&interface.name))
}

/// As `rps_cpus` reads it, without leading zeroes.
fn mask(cpus: &CpuSet) -> String {
    let mask = cpus.to_kernel_mask();
    let short = mask.trim_start_matches(['0', ',']);
    if short.is_empty() { "0".to_owned() } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_as_short_as_people_write_them() {
        assert_eq!(mask(&"0-1".parse().unwrap()), "3");
        assert_eq!(mask(&"0-32".parse().unwrap()), "1,ffffffff");
    }
}
