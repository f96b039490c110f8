//! What the CPUs of the system under test were doing, by samples.
//!
//! Raw counts by kernel function and by thread. Which function belongs to which category is for the
//! analysis to say, so that a stored run gains from a better table of categories.

use serde::{Deserialize, Serialize};

/// The samples of one run's window.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Profile {
    /// Time between two samples of a CPU, ns.
    pub period_ns: u64,
    /// Samples taken on each CPU as (CPU, samples), busy or idle.
    pub cpus: Vec<(u32, u64)>,
    /// How often the CPUs began to idle, which they do again after each interrupt; absent where
    /// the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_entries: Option<u64>,
    /// Samples in the kernel on a thread's back as (innermost function, samples), the commonest
    /// first. A module's
    /// function has the module behind it (`f [m]`).
    pub kernel: Vec<(String, u64)>,
    /// The same for samples on the back of no thread: of the idle loop, and of interrupts and
    /// softirqs that came out of it. None of them is in `kernel`.
    pub idle: Vec<(String, u64)>,
    /// Samples in functions that were too many to list, of either.
    #[serde(default)]
    pub kernel_rest: u64,
    /// Samples in the kernel at addresses of no function.
    #[serde(default)]
    pub kernel_unnamed: u64,
    /// Samples by the thread that ran, the commonest first.
    pub tasks: Vec<TaskSamples>,
    /// Samples for which the kernel had no room.
    #[serde(default)]
    pub lost: u64,
    /// How often the kernel stopped sampling a CPU until its next tick, which it does where a CPU
    /// idles for long: what is missing of the samples was idle.
    #[serde(default)]
    pub throttled: u64,
}

/// The samples of one thread, or of those that were too many to list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TaskSamples {
    /// Its name; at most 15 bytes, as the kernel keeps it.
    pub name: String,
    /// Whose it is.
    pub owner: Owner,
    /// Its process id, 0 for idle CPUs.
    pub process: u32,
    /// Its own id.
    pub thread: i32,
    /// Samples in user mode.
    pub user: u64,
    /// Samples in the kernel on its back, part of those by function.
    pub kernel: u64,
}

/// Whose a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// A flow of linkrate's: the application.
    Flow,
    /// A driver of a virtual adapter.
    Driver,
    /// The device of a virtual adapter, where it shares the CPUs.
    Device,
    /// What measures: agents and controller.
    Instrument,
    /// Nobody: the CPU was idle, or busy for no thread in particular.
    Idle,
    /// Another program.
    Other,
}

impl Profile {
    /// Samples of all CPUs together.
    pub fn samples(&self) -> u64 {
        self.cpus.iter().fold(0, |sum, (_, samples)| sum.saturating_add(*samples))
    }
}
