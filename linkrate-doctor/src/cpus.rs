//! Findings about CPUs: placement, idle time, background load, steal and clock rate.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linkrate_agent::cpu_meter::{self, choose};
use linkrate_lab::Placement;
use linkrate_model::measurement::IdleSource;
use linkrate_model::{CpuMeter, CpuSet};
use linkrate_study::analysis::warnings::{BACKGROUND_CPU_PERCENT, PROC_STAT_TICK, STEAL_PERCENT};
use linkrate_sys::cgroup::cpu_quota;
use linkrate_sys::clock::{monotonic_ns, sleep_until_ns};
use linkrate_sys::cpus::siblings_of;
use linkrate_sys::error::SysError;
use linkrate_sys::procstat::{self, CpuTimes};

use super::Finding;

/// How long the CPUs are observed.
const WINDOW: Duration = Duration::from_millis(500);

/// How often the wait checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Whether the system under test and its clients have CPUs, and cores, of their own.
pub(super) fn placement_finding(placement: &Placement) -> Finding {
    let name = "placement";
    let Placement { sut, clients, .. } = placement;
    if placement.is_shared() {
        return Finding::limited(
            name,
            format!(
                "the system under test and the clients share CPU {sut}: their CPU time cannot be told apart"
            ),
            "allow this process a second CPU: taskset, the cpuset of the container, or a larger machine",
        );
    }
    let owners = format!("system under test on CPU {sut}, clients on {clients}");
    let cores = separate_cores(placement, siblings_of);
    match cores {
        Cores::Separate => Finding::good(name, owners),
        Cores::Shared(Some((sut, clients))) => Finding::limited(
            name,
            format!("{owners}; both use the same core, so each slows the other"),
            format!("measure with `--sut-cpus {sut} --client-cpus {clients}`"),
        ),
        Cores::Shared(None) => Finding::limited(
            name,
            format!("{owners}; the host has only one core, so each slows the other"),
            "use a machine with more cores",
        ),
    }
}

#[derive(Debug, PartialEq)]
enum Cores {
    /// No core has CPUs of both roles.
    Separate,
    /// A core has CPUs of both roles. With the placement that avoids this, if there is one.
    Shared(Option<(CpuSet, CpuSet)>),
}

fn separate_cores(placement: &Placement, threads: impl Fn(u32) -> CpuSet) -> Cores {
    let core: CpuSet = placement.sut.iter().flat_map(|cpu| to_vec(&threads(cpu))).collect();
    if !core.overlaps(&placement.clients) {
        return Cores::Separate;
    }
    let usable = placement.sut.iter().chain(placement.clients.iter());
    let (whole, rest): (BTreeSet<u32>, BTreeSet<u32>) = usable.partition(|cpu| core.contains(*cpu));
    let better = (!rest.is_empty())
        .then(|| (whole.into_iter().collect::<CpuSet>(), rest.into_iter().collect::<CpuSet>()));
    Cores::Shared(better)
}

fn to_vec(cpus: &CpuSet) -> Vec<u32> {
    cpus.iter().collect()
}

/// Whether a control group takes CPU time away.
pub(super) fn quota() -> Option<Finding> {
    let quota = cpu_quota()?;
    let detail = quota.to_string();
    let remedy =
        "raise it, or measure outside of this control group: runs that reach the quota are held up";
    Some(Finding::limited("quota", detail, remedy))
}

/// How exactly idle time can be read.
pub(super) fn idle_time() -> Finding {
    let name = "idle-time";
    let tick = format!("{} ms", PROC_STAT_TICK.as_millis());
    match choose(CpuMeter::Auto) {
        IdleSource::TimerList => {
            Finding::good(name, "read in nanoseconds (/proc/timer_list); idle CPUs have no tick")
        }
        IdleSource::ProcStat => Finding::limited(
            name,
            format!("read in steps of {tick} (/proc/stat), which is 0.5 % of a run of 2 s"),
            "run as root to read nanoseconds, or use runs of 10 s",
        ),
        // this meter alone changes what it measures
        IdleSource::IdleCounter => Finding::limited(
            name,
            "the kernel samples idle time by a tick that never stops; threads of idle priority count \
             it instead (idle-counter), so the CPUs never sleep and no wake-up is charged",
            "boot without nohz=off, on a kernel with CONFIG_NO_HZ_IDLE",
        ),
    }
}

/// Background load of one CPU, in per cent of the window.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Load {
    cpu: u32,
    busy: f64,
    steal: f64,
}

/// Observes the CPUs: the load of other programs, and the time that the hypervisor takes.
pub(super) fn load_findings(placement: &Placement, stop: &AtomicBool) -> Vec<Finding> {
    let cpus: CpuSet = placement.sut.iter().chain(placement.clients.iter()).collect();
    let source = choose(CpuMeter::IdleTime);
    let precise = source == IdleSource::TimerList;
    match watch(&cpus, source, stop) {
        Ok(loads) => vec![background(&loads, precise), steal(&loads, steal_since_boot(&cpus))],
        Err(error) => {
            let remedy = "mount /proc, and allow this process to read /proc/stat";
            vec![Finding::missing("background", error.to_string(), remedy)]
        }
    }
}

fn watch(cpus: &CpuSet, source: IdleSource, stop: &AtomicBool) -> Result<Vec<Load>, SysError> {
    let meter = cpu_meter::CpuMeter::new(source, cpus)?;
    let opened = meter.times(cpus)?;
    let end_ns = monotonic_ns() + WINDOW.as_nanos() as u64;
    while monotonic_ns() < end_ns && !stop.load(Ordering::Relaxed) {
        sleep_until_ns(end_ns.min(monotonic_ns() + POLL_INTERVAL.as_nanos() as u64));
    }
    let closed = meter.times(cpus)?;
    Ok(opened.iter().zip(&closed).map(|(before, after)| load(source, before, after)).collect())
}

fn load(source: IdleSource, before: &CpuTimes, after: &CpuTimes) -> Load {
    let time = cpu_meter::busy(source, before, after);
    let share = |ns: u64| ns as f64 * 100.0 / time.interval_ns.max(1) as f64;
    Load { cpu: time.cpu, busy: share(time.busy_ns), steal: share(time.steal_ns) }
}

fn background(loads: &[Load], precise: bool) -> Finding {
    let name = "background";
    let mean = mean(loads.iter().map(|load| load.busy));
    let Some(worst) = loads.iter().max_by(|a, b| a.busy.total_cmp(&b.busy)) else {
        return Finding::good(name, "no CPU to observe");
    };
    let detail = match loads {
        [only] => format!("CPU {} was {:.1} % busy with other work", only.cpu, only.busy),
        _ => format!(
            "the CPUs were {mean:.1} % busy with other work, the busiest {:.1} % (CPU {})",
            worst.busy, worst.cpu
        ),
    };
    // one tick is the resolution, not a load
    let tick = PROC_STAT_TICK.as_secs_f64() / WINDOW.as_secs_f64() * 100.0;
    let allowed = BACKGROUND_CPU_PERCENT + if precise { 0.0 } else { tick };
    if worst.busy <= allowed {
        return Finding::good(name, detail);
    }
    let remedy = "stop the other programs (`top` lists them), or bind them to other CPUs with \
                  `taskset`";
    Finding::limited(name, detail, remedy)
}

/// Per cent of all CPU time since boot.
fn steal_since_boot(cpus: &CpuSet) -> f64 {
    let times: Vec<CpuTimes> =
        cpus.iter().filter_map(|cpu| procstat::read_coarse(cpu).ok()).collect();
    mean(times.iter().map(|time| time.steal_ns as f64 / time.at_ns.max(1) as f64 * 100.0))
}

fn steal(loads: &[Load], since_boot: f64) -> Finding {
    let name = "steal";
    let now = mean(loads.iter().map(|load| load.steal));
    let detail =
        format!("the hypervisor took {now:.1} % of the CPU time now, {since_boot:.1} % since boot");
    if now > STEAL_PERCENT || since_boot > STEAL_PERCENT {
        let remedy = "measure while the other virtual machines are idle, or on a physical machine";
        return Finding::limited(name, detail, remedy);
    }
    match virtual_machine() || since_boot > 0.0 {
        true => Finding::good(name, detail),
        false => Finding::good(name, "no hypervisor found"),
    }
}

fn virtual_machine() -> bool {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Whether the clock rate of the CPUs is constant.
pub(super) fn frequency(placement: &Placement) -> Finding {
    let cpus = placement.sut.iter().chain(placement.clients.iter());
    let governors = cpus.filter_map(|cpu| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    });
    frequency_of(&governors.collect())
}

fn frequency_of(governors: &BTreeSet<String>) -> Finding {
    let name = "frequency";
    if governors.is_empty() {
        return Finding::good(name, "this kernel does not change the clock rate of the CPUs");
    }
    let list = governors.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    if governors.iter().all(|governor| governor == "performance") {
        return Finding::good(name, format!("governor {list}"));
    }
    Finding::limited(
        name,
        format!("governor {list}: the clock rate varies with the load, and so does every CPU cost"),
        "`cpupower frequency-set --governor performance`",
    )
}

#[cfg(test)]
mod tests {
    use linkrate_sys::sched;

    use super::*;
    use crate::State;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn roles_on_one_core_get_a_better_placement_where_there_is_one() {
        let pairs = |cpu: u32| [cpu / 2 * 2, cpu / 2 * 2 + 1].into_iter().collect::<CpuSet>();
        let place = |sut, clients| Placement {
            sut: cpus(sut),
            clients: cpus(clients),
            controller: cpus(clients),
            apart: false,
        };
        let better = Cores::Shared(Some((cpus("0-1"), cpus("2-3"))));
        assert_eq!(separate_cores(&place("0", "1-3"), pairs), better);
        assert_eq!(separate_cores(&place("0", "1"), pairs), Cores::Shared(None));
        assert_eq!(separate_cores(&place("0-1", "2-7"), pairs), Cores::Separate);
    }

    #[test]
    fn load_is_neither_idle_nor_stolen() {
        let times = |at_ns, idle_ns, steal_ns| CpuTimes {
            cpu: 3,
            at_ns,
            idle_ns,
            uncertain_ns: 0,
            steal_ns,
            cpu_awake_ns: None,
        };
        let source = IdleSource::TimerList;
        let seen = load(source, &times(1000, 500, 10), &times(2000, 700, 60));
        assert!((seen.busy - 76.0).abs() < 1e-9 && (seen.steal - 5.0).abs() < 1e-9, "{seen:?}");
        // ticks may add up to more than the window
        let seen = load(source, &times(0, 0, 0), &times(1000, 1000, 1010));
        assert_eq!(seen.busy, 0.0);
    }

    #[test]
    fn ignores_a_single_tick_where_time_is_read_in_ticks() {
        let loads =
            [Load { cpu: 0, busy: 0.1, steal: 0.0 }, Load { cpu: 1, busy: 3.0, steal: 2.5 }];
        assert_eq!(background(&loads, true).state, State::Limited);
        assert_eq!(background(&loads, false).state, State::Good);
        assert!(background(&loads, true).detail.contains("3.0 % (CPU 1)"));
        assert_eq!(steal(&loads, 0.0).state, State::Limited);
        assert_eq!(steal(&loads[..1], 0.4).state, State::Good);
    }

    #[test]
    fn only_one_governor_keeps_the_clock_rate() {
        let of = |names: &[&str]| frequency_of(&names.iter().map(|n| (*n).to_owned()).collect());
        assert_eq!(of(&[]).state, State::Good);
        assert_eq!(of(&["performance"]).state, State::Good);
        assert_eq!(of(&["performance", "powersave"]).state, State::Limited);
    }

    #[test]
    fn this_host_can_be_watched() {
        let placement = Placement::choose(&linkrate_model::TestbedSpec::default()).unwrap();
        let home = sched::affinity(sched::current_thread()).unwrap();
        let findings = load_findings(&placement, &AtomicBool::new(true));
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert_eq!(sched::affinity(sched::current_thread()).unwrap(), home);
    }
}
