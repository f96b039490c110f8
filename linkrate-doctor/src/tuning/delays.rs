//! Delays on purpose: interrupts that wait for more packets, and CPUs that save power by low clock
//! rates and idle states.

use std::collections::{BTreeMap, BTreeSet};

use linkrate_model::shell;

use super::advice::{Advice, Basis, Cost};
use super::facts::{Cpu, Host, Interface};
use super::window::RoundTrip;

/// A longer wait is noticeable in a round trip, µs.
const LONG_US: u32 = 100;

/// A usual wait for throughput, µs.
const USUAL_US: u32 = 20;

/// More interrupts per packet mean that they are not coalesced.
const UNCOALESCED: f64 = 0.5;

/// Advice on the wait of the receive interrupt.
pub(super) fn coalescing(interface: &Interface, round_trip: &RoundTrip) -> Option<Advice> {
    let device = interface.device.as_ref()?;
    let coalescing = interface.coalescing?;
    let micros = coalescing.rx_usecs?;
    let word = shell::word(&interface.name);
    let adaptive = coalescing.adaptive_rx;
    let total: u64 = device.interrupts.iter().map(super::facts::Interrupt::total).sum();
    let packets = interface.count("rx_packets") as f64 + interface.count("tx_packets") as f64;
    let each = total as f64 / packets.max(1.0);
    let seen = format!(
        "rx-usecs {micros}, rx-frames {}, adaptive-rx {}",
        coalescing.rx_frames.map_or_else(|| "n/a".to_owned(), |frames| frames.to_string()),
        match adaptive {
            Some(true) => "on",
            Some(false) => "off",
            None => "n/a",
        }
    );
    let evidence = |advice: Advice| {
        advice
            .on(&interface.name)
            .seen(seen.clone(), format!("ethtool -c {word}"))
            .seen(format!("{each:.2} interrupts per packet"), "/proc/interrupts, statistics")
    };
    if adaptive == Some(true) {
        return Some(evidence(Advice::good(
            "coalescing",
            "the driver adapts the wait to the load",
        )));
    }
    if micros > LONG_US {
        let trip = round_trip.time.as_secs_f64() * 1e6;
        let share = f64::from(micros) / (trip + f64::from(micros));
        let text = format!(
            "a single packet waits up to {micros} µs: requests over {round_trip} lose up to {:.0} %; \
             streams lose nothing",
            share * 100.0
        );
        let cost = Cost::known(Basis::Computed, share, text, "wait / (round trip + wait)");
        let detail = format!("receive interrupts wait up to {micros} µs");
        let advice = evidence(Advice::consider("coalescing", detail, cost));
        return Some(advice.run(change(&word, adaptive)));
    }
    let every = micros == 0 && coalescing.rx_frames.is_none_or(|frames| frames <= 1);
    // a hypervisor coalesces interrupts itself, and its counts are not those of hardware
    if every && each > UNCOALESCED && packets > 10_000.0 && !interface.is_paravirtual() {
        let cost = Cost::unknown(
            "about one interrupt for each packet; coalescing would save most of them",
        );
        let detail = format!("{each:.2} interrupts per packet: interrupts are not coalesced");
        let advice = evidence(Advice::consider("coalescing", detail, cost));
        return Some(advice.run(change(&word, adaptive)));
    }
    let detail = format!("receive interrupts wait {micros} µs; {each:.2} interrupts per packet");
    Some(evidence(Advice::good("coalescing", detail)))
}

fn change(word: &str, adaptive: Option<bool>) -> String {
    match adaptive {
        Some(_) => format!("ethtool -C {word} adaptive-rx on"),
        None => format!("ethtool -C {word} rx-usecs {USUAL_US}"),
    }
}

const CPUS: &str = "/sys/devices/system/cpu";

/// A longer exit latency is noticeable in a round trip on a local network.
const FELT_US: u64 = 20;

/// A round trip between two hosts of a local network, to compare exit latencies with, µs.
const SHORT_ROUND_TRIP_US: f64 = 80.0;

/// Advice on governor, energy preference and idle states.
pub(super) fn power(host: &Host) -> Vec<Advice> {
    if host.cpus.is_empty() {
        return vec![Advice::unseen("governor", format!("{CPUS}/online cannot be read"))];
    }
    let mut all = vec![governor(host)];
    all.extend(energy(host));
    all.extend(idle(host));
    all
}

fn governor(host: &Host) -> Advice {
    let name = "governor";
    let governors: BTreeSet<&str> =
        host.cpus.iter().filter_map(|cpu| cpu.governor.as_deref()).collect();
    let from = format!("{CPUS}/cpu*/cpufreq/scaling_governor");
    if governors.is_empty() {
        return match host.virtual_machine {
            true => Advice::unseen(name, "the hypervisor controls the clock rate"),
            false => Advice::good(name, "this kernel does not change the clock rate"),
        };
    }
    let list = governors.iter().copied().collect::<Vec<_>>().join(", ");
    if governors.iter().all(|governor| *governor == "performance") {
        return Advice::good(name, "the clock rate does not depend on the load").seen(list, from);
    }
    let range = host.cpus.iter().find_map(|cpu| cpu.khz).filter(|(least, most)| least < most);
    let cost = match range {
        Some((least, most)) => {
            let share = 1.0 - least as f64 / most as f64;
            let text = format!(
                "the clock rate is between {:.1} and {:.1} GHz: up to {:.0} % of the CPU's speed is \
                 missing until it follows the load",
                least as f64 / 1e6,
                most as f64 / 1e6,
                share * 100.0
            );
            let from = format!("{CPUS}/cpu*/cpufreq/cpuinfo_min_freq, cpuinfo_max_freq");
            Cost::known(Basis::Computed, share, text, from)
        }
        None => Cost::unknown("the kernel does not report the range of the clock rate"),
    };
    let detail = "the clock rate follows the load, and rises too late for bursts of packets";
    let advice = Advice::consider(name, detail, cost).seen(list, from);
    let offered = host.cpus.iter().all(|cpu| {
        cpu.governors.is_empty() || cpu.governors.iter().any(|governor| governor == "performance")
    });
    match offered {
        true => advice
            .run(format!("echo performance | tee {CPUS}/cpu*/cpufreq/scaling_governor"))
            .note("it costs power, and may reduce the turbo clock rate"),
        false => advice.run("modprobe cpufreq_performance"),
    }
}

fn energy(host: &Host) -> Option<Advice> {
    let name = "energy-preference";
    let preferences: BTreeSet<&str> =
        host.cpus.iter().filter_map(|cpu| cpu.energy.as_deref()).collect();
    if preferences.is_empty() {
        return None;
    }
    let file = "cpufreq/energy_performance_preference";
    let list = preferences.iter().copied().collect::<Vec<_>>().join(", ");
    let from = format!("{CPUS}/cpu*/{file}");
    let saves = |preference: &&str| preference.contains("power");
    if !preferences.iter().any(saves) {
        return Some(Advice::good(name, "the CPUs prefer performance").seen(list, from));
    }
    let cost = Cost::unknown("the CPU itself chooses between speed and energy");
    let detail = "the CPUs are set to prefer saving energy over speed";
    let advice = Advice::consider(name, detail, cost).seen(list, from);
    Some(advice.run(format!("echo performance | tee {CPUS}/cpu*/{file}")))
}

fn idle(host: &Host) -> Option<Advice> {
    let name = "idle-states";
    let slow = |cpu: &Cpu| -> Vec<(u32, String, u64)> {
        let states = cpu.idle_states.iter();
        let felt = states.filter(|state| state.enabled && state.exit_us > FELT_US);
        felt.map(|state| (state.number, state.name.clone(), state.exit_us)).collect()
    };
    let slow: BTreeMap<u32, (String, u64)> = host
        .cpus
        .iter()
        .flat_map(slow)
        .map(|(number, name, micros)| (number, (name, micros)))
        .collect();
    let from = format!("{CPUS}/cpu*/cpuidle/state*/latency");
    let Some(deepest) = slow.values().map(|(_, micros)| *micros).max() else {
        let any = host.cpus.iter().any(|cpu| !cpu.idle_states.is_empty());
        let detail = format!("no idle state takes more than {FELT_US} µs to leave");
        return any.then(|| Advice::good(name, detail));
    };
    let share = deepest as f64 / (SHORT_ROUND_TRIP_US + deepest as f64);
    let text = format!(
        "a packet for a sleeping CPU waits up to {deepest} µs: a request/response of 80 µs loses up \
         to {:.0} %; a busy stream loses nothing",
        share * 100.0
    );
    let cost = Cost::known(Basis::Computed, share, text, from.clone());
    let detail = format!("idle CPUs take up to {deepest} µs to wake up");
    let listed = slow.values().map(|(name, micros)| format!("{name} {micros} µs"));
    let mut advice =
        Advice::consider(name, detail, cost).seen(listed.collect::<Vec<_>>().join(", "), from);
    for number in slow.keys() {
        advice = advice.run(format!("echo 1 | tee {CPUS}/cpu*/cpuidle/state{number}/disable"));
    }
    Some(advice.note("for latency only; it costs power, and may reduce the turbo clock rate"))
}
