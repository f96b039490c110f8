//! Clock rates and idle states: what saves power and takes its time for it.

use std::collections::{BTreeMap, BTreeSet};

use super::advice::{Advice, Basis, Cost};
use super::facts::{Cpu, Host};

const CPUS: &str = "/sys/devices/system/cpu";

/// Idle states that take longer to leave are felt in a round trip on a local network.
const FELT_US: u64 = 20;

/// A round trip between two hosts of a local network, to hold waking against, µs.
const SHORT_ROUND_TRIP_US: f64 = 80.0;

/// Governor, energy preference and idle states.
pub(super) fn advice(host: &Host) -> Vec<Advice> {
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
            true => Advice::unseen(name, "the clock rate is the hypervisor's to choose"),
            false => Advice::good(name, "this kernel does not choose the clock rate"),
        };
    }
    let list = governors.iter().copied().collect::<Vec<_>>().join(", ");
    if governors.iter().all(|governor| *governor == "performance") {
        return Advice::good(name, "the clock rate does not follow the load").seen(list, from);
    }
    let range = host.cpus.iter().find_map(|cpu| cpu.khz).filter(|(least, most)| least < most);
    let cost = match range {
        Some((least, most)) => {
            let share = 1.0 - least as f64 / most as f64;
            let text = format!(
                "between {:.1} and {:.1} GHz, so up to {:.0} % of the CPU's speed while it has not \
                 yet followed the load",
                least as f64 / 1e6,
                most as f64 / 1e6,
                share * 100.0
            );
            let from = format!("{CPUS}/cpu*/cpufreq/cpuinfo_min_freq, cpuinfo_max_freq");
            Cost::known(Basis::Computed, share, text, from)
        }
        None => Cost::unknown("how far the clock rate falls is not told"),
    };
    let detail = "the clock rate follows the load, and lags behind bursts of packets";
    let advice = Advice::consider(name, detail, cost).seen(list, from);
    let offered = host.cpus.iter().all(|cpu| {
        cpu.governors.is_empty() || cpu.governors.iter().any(|governor| governor == "performance")
    });
    match offered {
        true => advice
            .run(format!("echo performance | tee {CPUS}/cpu*/cpufreq/scaling_governor"))
            .note("it costs power, and takes the turbo's room where heat is short"),
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
    let cost = Cost::unknown("how much, only the CPU's own control knows");
    let detail = "the CPUs are told to prefer saving energy to speed";
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
        "up to {deepest} µs for each packet that finds its CPU asleep: a request/response of 80 µs \
         loses up to {:.0} %; a busy stream loses nothing",
        share * 100.0
    );
    let cost = Cost::known(Basis::Computed, share, text, from.clone());
    let detail = format!("idle CPUs take up to {deepest} µs to wake");
    let listed = slow.values().map(|(name, micros)| format!("{name} {micros} µs"));
    let mut advice =
        Advice::consider(name, detail, cost).seen(listed.collect::<Vec<_>>().join(", "), from);
    for number in slow.keys() {
        advice = advice.run(format!("echo 1 | tee {CPUS}/cpu*/cpuidle/state{number}/disable"));
    }
    Some(advice.note("for latency only; it costs power, and takes the turbo's room"))
}
