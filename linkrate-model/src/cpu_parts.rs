//! What the CPUs of the system under test worked for.

use serde::{Deserialize, Serialize};

/// The busy time of CPUs by what ran, ns: sums of the times between a switch to it and the switch away from it. Softirqs and
/// interrupts are no time of the thread that they interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuParts {
    /// The threads of the flows: the application, and what the stack does in its calls.
    pub application_ns: u64,
    /// The driver threads of virtual adapters.
    pub driver_ns: u64,
    /// The NAPI threads of the kernel: receive processing, and what TCP sends because of it.
    pub napi_ns: u64,
    /// Softirqs.
    pub softirq_ns: u64,
    /// Hardware interrupts, and the ways out of the idle state behind them.
    pub interrupt_ns: u64,
    /// Other threads of the kernel.
    pub kernel_ns: u64,
    /// Threads of linkrate that are no part of the traffic, such as its meters.
    pub linkrate_ns: u64,
    /// All other programs.
    pub others_ns: u64,
}

impl CpuParts {
    /// All parts but those of other programs, in the order of the fields.
    #[must_use]
    pub fn own(&self) -> [u64; 7] {
        [
            self.application_ns,
            self.driver_ns,
            self.napi_ns,
            self.softirq_ns,
            self.interrupt_ns,
            self.kernel_ns,
            self.linkrate_ns,
        ]
    }

    /// What of a busy time is in no part, ns; negative where the parts are more, as by time that a hypervisor took.
    #[must_use]
    pub fn not_attributed_ns(&self, busy_ns: u64) -> i64 {
        let parts = self.own().iter().fold(self.others_ns, |sum, part| sum.saturating_add(*part));
        i64::try_from(i128::from(busy_ns) - i128::from(parts)).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_no_part_is_reported_in_either_sign() {
        let one = CpuParts {
            application_ns: 1,
            driver_ns: 2,
            napi_ns: 4,
            softirq_ns: 8,
            interrupt_ns: 16,
            kernel_ns: 32,
            linkrate_ns: 64,
            others_ns: 128,
        };
        assert_eq!(one.not_attributed_ns(300), 45);
        assert_eq!(one.not_attributed_ns(250), -5);
        assert_eq!(one.not_attributed_ns(255), 0);
        assert_eq!(one.own().iter().sum::<u64>() + one.others_ns, 255);
    }
}
