//! How long this process stalled while a measurement was open: somebody has stopped it (SIGSTOP, a debugger, a frozen cgroup), or
//! its whole machine did not run.
//!
//! A thread that sleeps until a time, and wakes much later, did not run in between. What it waited for its CPU is told by the
//! kernel (schedstat) and is no absence: then others had the CPU, which is told as such.

use std::fs;

use linkrate_sys::clock::monotonic_ns;

/// Time between two polls, ns. A stop is told but for what passes until the next look.
const EVERY_NS: u64 = 30_000_000;

/// Later wake-ups than by this are no jitter of the scheduler, ns.
const MIN_NS: u64 = 10_000_000;

/// The absences of the calling thread.
#[derive(Debug)]
pub struct Absences {
    every_ns: u64,
    next_ns: u64,
    waited_ns: u64,
    sum_ns: u64,
}

impl Absences {
    /// From now on. With `readers` processes that look on the same CPUs, each looks more seldom.
    pub fn from_now(readers: u32) -> Self {
        let every_ns = EVERY_NS * u64::from(readers.div_ceil(8).max(1));
        Self { every_ns, next_ns: monotonic_ns() + every_ns, waited_ns: waited_ns(), sum_ns: 0 }
    }

    /// When a look is due, CLOCK_MONOTONIC ns.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// The thread has woken that slept until `due_ns`.
    pub fn woke(&mut self, due_ns: u64) {
        self.woke_at(due_ns, monotonic_ns(), waited_ns);
    }

    fn woke_at(&mut self, due_ns: u64, now_ns: u64, waited_ns: impl Fn() -> u64) {
        let late_ns = now_ns.saturating_sub(due_ns);
        if late_ns >= MIN_NS {
            let waited_ns = waited_ns();
            let queued_ns = waited_ns.saturating_sub(self.waited_ns);
            self.waited_ns = waited_ns;
            let stalled_ns = late_ns.saturating_sub(queued_ns);
            self.sum_ns += if stalled_ns >= MIN_NS { stalled_ns } else { 0 };
        }
        if now_ns >= self.next_ns {
            self.next_ns = now_ns + self.every_ns;
        }
    }

    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }
}

/// How long the calling thread has waited for a CPU so far, ns; 0 on kernels that do not report.
fn waited_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use linkrate_sys::clock::sleep_until_ns;

    use super::*;

    #[test]
    fn a_late_wake_up_is_an_absence_unless_the_thread_waited_for_its_cpu() {
        const MS: u64 = 1_000_000;
        let mut absences =
            Absences { every_ns: 30 * MS, next_ns: 30 * MS, waited_ns: 7 * MS, sum_ns: 0 };
        absences.woke_at(30 * MS, 31 * MS, || unreachable!());
        assert_eq!((absences.next_ns(), absences.sum_ns()), (61 * MS, 0));
        absences.woke_at(61 * MS, 241 * MS, || 8 * MS);
        assert_eq!((absences.next_ns(), absences.sum_ns()), (271 * MS, 179 * MS));
        // others had the CPU
        absences.woke_at(271 * MS, 391 * MS, || 120 * MS);
        assert_eq!(absences.sum_ns(), 179 * MS);
        // something else was due, and the next look stays where it is
        absences.woke_at(400 * MS, 401 * MS, || unreachable!());
        assert_eq!(absences.next_ns(), 421 * MS);
    }

    #[test]
    fn a_crowd_looks_more_seldom() {
        let every = [0, 1, 8, 9, 36].map(|readers| Absences::from_now(readers).every_ns / EVERY_NS);
        assert_eq!(every, [1, 1, 1, 2, 5]);
    }

    /// It stops itself by a shell that lets it continue.
    #[test]
    fn a_process_that_was_stopped_knows_it() {
        const CHILD: &str = "LINKRATE_TEST_STOPS_ITSELF";
        if std::env::var_os(CHILD).is_none() {
            let name = "absence::tests::a_process_that_was_stopped_knows_it";
            let test = std::env::current_exe().unwrap();
            let ended =
                Command::new(test).args(["--exact", name, "--nocapture"]).env(CHILD, "1").status();
            assert!(ended.unwrap().success());
            return;
        }
        let mut absences = Absences::from_now(1);
        let stop = format!("kill -STOP {0}; sleep 0.3; kill -CONT {0}", std::process::id());
        let mut shell = Command::new("sh").args(["-c", &stop]).spawn().unwrap();
        let ended = thread::spawn(move || shell.wait().unwrap());
        while !ended.is_finished() {
            let due_ns = absences.next_ns();
            sleep_until_ns(due_ns);
            absences.woke(due_ns);
        }
        thread::sleep(Duration::from_millis(1));
        assert!(absences.sum_ns() > 200_000_000, "{}", absences.sum_ns());
    }
}
