//! The use of the host's CPUs while a test lasts, by the columns of `/proc/stat`.

use linkrate_sys::procstat::{CpuStates, cpu_states};

use crate::netperf::CpuModes;

/// netperf's number of this method (`S` in its output).
pub(super) const METHOD: u32 = 8;

/// The state of the CPUs at the beginning, and where the time of the test was over.
#[derive(Debug)]
pub(super) struct Meter {
    begun: Vec<CpuStates>,
    over: Option<Vec<CpuStates>>,
}

/// The use of all CPUs, per cent. As in netperf, time that waits for I/O is used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Used {
    pub(super) percent: f32,
    pub(super) modes: CpuModes,
    /// The busiest one.
    pub(super) peak: Option<(u32, f32)>,
    pub(super) cpus: u32,
}

impl Meter {
    /// Begins; `None` where `/proc/stat` cannot be read.
    pub(super) fn start() -> Option<Self> {
        cpu_states().ok().map(|begun| Self { begun, over: None })
    }

    /// Begins again; what was used before does not count.
    pub(super) fn begin(&mut self) {
        // where the file cannot be read any more, the beginning stays
        if let Ok(begun) = cpu_states() {
            self.begun = begun;
        }
    }

    /// The time of the test is over, and the server waits a little longer.
    pub(super) fn lap(&mut self) {
        self.over = cpu_states().ok();
    }

    /// What was used since the beginning, or until the time of the test was `over`. netperf takes all of the
    /// wait for time without load; other load makes that more than there is.
    pub(super) fn used(&self, over: bool) -> Option<Used> {
        let now = match self.over.as_ref().filter(|_| over) {
            Some(states) => states,
            None => &cpu_states().ok()?,
        };
        Some(used(&self.begun, now))
    }
}

fn used(before: &[CpuStates], now: &[CpuStates]) -> Used {
    let cpus = now.len() as u32;
    let mut all = Used { percent: 0.0, modes: CpuModes::default(), peak: None, cpus };
    for state in now {
        // a CPU that has come online has its time before
        let Some(earlier) = before.iter().find(|earlier| earlier.cpu == state.cpu) else {
            continue;
        };
        let past = state.since(earlier);
        if past.total() == 0 {
            continue;
        }
        let percent = |ticks: u64| (100.0 * ticks as f64 / past.total() as f64) as f32;
        let share = |ticks: u64| percent(ticks) / cpus as f32;
        let busy = past.total() - past.idle;
        all.percent += share(busy);
        all.modes.user += share(past.user);
        all.modes.system += share(past.system);
        all.modes.iowait += share(past.iowait);
        all.modes.irq += share(past.irq);
        all.modes.softirq += share(past.softirq);
        if all.peak.is_none_or(|(_, most)| percent(busy) > most) {
            all.peak = Some((state.cpu, percent(busy)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_that_of_all_cpus_and_the_peak_that_of_one() {
        let before = [0, 1].map(|cpu| CpuStates { cpu, user: 7, idle: 9, ..CpuStates::default() });
        let mut now = before;
        now[0].idle += 100;
        now[1].idle += 50;
        now[1].system += 30;
        now[1].softirq += 20;
        let all = used(&before, &now);
        assert_eq!((all.percent, all.peak, all.cpus), (25.0, Some((1, 50.0)), 2));
        assert_eq!((all.modes.system, all.modes.softirq, all.modes.user), (15.0, 10.0, 0.0));
        assert_eq!(used(&[], &now).percent, 0.0);
    }
}
