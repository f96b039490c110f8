//! CLOCK_MONOTONIC, shared by every namespace of one machine, and the clock of a thread's CPU time.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * NS_PER_SECOND + now.tv_nsec as u64
}

/// Sleeps until CLOCK_MONOTONIC reaches `deadline_ns`; returns at once when it already has.
pub fn sleep_until_ns(deadline_ns: u64) {
    let deadline = Timespec {
        tv_sec: (deadline_ns / NS_PER_SECOND) as i64,
        tv_nsec: (deadline_ns % NS_PER_SECOND) as i64,
    };
    // an absolute deadline survives interruption by a signal unchanged
    while clock_nanosleep_absolute(ClockId::Monotonic, &deadline).is_err() {}
}
