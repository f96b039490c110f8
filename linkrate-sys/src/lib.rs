//! Every Linux system interface linkrate uses, and every unsafe block.
//!
//! One file per facility. Descriptors are owned the line after they are opened; what the kernel
//! refuses comes back as [`error::SysError`] with what was tried, on what, and a remedy.
//!
//! - [`host`]: child processes in namespaces of their own; programs that join them
//! - [`netlink`], [`ethtool`], [`sysfs`]: interfaces, their knobs and counters
//! - [`irq_affinity`]: which interrupts an adapter has, and where they go
//! - [`procstat`], [`census`], [`sched`], [`clock`]: CPU time, of whom, affinity, time
//! - [`interrupts`]: softirqs by their length, seen by eBPF programs
//! - [`perf`], [`kallsyms`]: what a CPU is doing, by the names of the kernel's functions
//! - [`netstat`], [`tcp_info`], [`send_queue`], [`sock_diag`]: protocol counters, connections
//! - [`tree`]: what `/proc` and `/sys` say, below any root
//! - [`tap`], [`doorbell`], [`wait`]: what virtual adapters stand on
//! - [`softirq_spin`]: a load of known size that no thread carries
//! - [`local_socket`]: how processes of one machine find each other
//! - [`shell`]: words quoted for a shell
//! - [`socket`], [`memory`], [`memory_file`], [`splice`]: sockets, and payload that is not copied

pub mod awake;
mod bpf;
pub mod census;
pub mod clock;
mod cpu_lines;
pub mod doorbell;
pub mod error;
pub mod ethtool;
pub mod host;
pub mod interrupts;
pub mod irq_affinity;
pub mod kallsyms;
pub mod local_socket;
pub mod memory;
pub mod memory_file;
pub mod netlink;
pub mod netstat;
pub mod perf;
pub mod prefetch;
pub mod procstat;
pub mod sched;
pub mod send_queue;
pub mod shell;
pub mod sock_diag;
pub mod socket;
pub mod softirq_spin;
pub mod splice;
pub mod sysfs;
pub mod tap;
pub mod tcp_info;
pub mod tree;
pub mod wait;
