//! The profile of the CPUs of the system under test, by samples.
//!
//! Raw counts by kernel function and by thread. The analysis assigns functions to categories, so
//! that a better table of categories improves stored runs as well.

use serde::{Deserialize, Serialize};

/// The samples of one run's measurement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Profile {
    /// Time between two samples of a CPU, ns.
    pub period_ns: u64,
    /// Samples taken on each CPU as (CPU, samples), busy or idle.
    pub cpus: Vec<(u32, u64)>,
    /// How often the CPUs became idle; a CPU does so again after each interrupt. Absent where the
    /// kernel does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_entries: Option<u64>,
    /// Samples in the kernel while a thread ran, as (innermost function, samples), the most
    /// frequent first. A module's function has the module after it (`f [m]`).
    pub kernel: Vec<(String, u64)>,
    /// The same for samples while no thread ran: in the idle loop, and in interrupts and softirqs
    /// that interrupted it. They are not in `kernel`.
    pub idle: Vec<(String, u64)>,
    /// Samples in functions beyond the length of these lists, of both.
    pub kernel_rest: u64,
    /// Samples in the kernel at addresses outside all known functions.
    pub kernel_unnamed: u64,
    /// Samples by the thread that ran, the most frequent first.
    pub tasks: Vec<TaskSamples>,
    /// Samples that the kernel dropped for lack of room.
    pub lost: u64,
    /// How often the kernel stopped sampling a CPU until its next tick. It does so on a CPU that is
    /// idle for long, so the missing samples were idle.
    pub throttled: u64,
}

/// The samples of one thread, or of all threads beyond the length of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TaskSamples {
    /// Its name; at most 15 bytes, as the kernel keeps it.
    pub name: String,
    /// The part of the system that it belongs to.
    pub owner: Owner,
    /// Its process id, 0 for idle CPUs.
    pub process: u32,
    /// Its own id.
    pub thread: i32,
    /// Samples in user mode.
    pub user: u64,
    /// Samples in the kernel while it ran; they are part of the samples by function.
    pub kernel: u64,
}

/// The part of the system that a thread belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// A flow of linkrate's: the application.
    Flow,
    /// A driver of a virtual adapter.
    Driver,
    /// The device of a virtual adapter, where it shares the CPUs.
    Device,
    /// The instrument: agents and controller.
    Instrument,
    /// No thread: the CPU was idle, or busy in an interrupt.
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
