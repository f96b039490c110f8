//! Every Linux system interface that linkrate uses, and every unsafe block.
//!
//! One file per facility. A descriptor gets its owner in the line after it is opened. A refusal of
//! the kernel is a [`error::SysError`] with the operation, its subject and a remedy.
//!
//! - [`host`]: child processes in separate namespaces; programs that join them
//! - [`host_settings`]: settings of CPUs, kernel and network that change what traffic costs
//! - [`stack`]: what the network stack of a namespace is made of
//! - [`network_namespace`]: which one this is, and one that lives on without a process
//! - [`netlink`], [`ethtool`], [`sysfs`]: interfaces, their knobs and counters
//! - [`irq_affinity`]: the interrupts of an adapter, and the CPUs that handle them
//! - [`cpus`], [`processes`], [`procstat`], [`other_programs`]: CPUs and CPU time
//! - [`on_cpu`]: what each CPU worked for, by eBPF programs
//! - [`sched`], [`clock`]: affinity and scheduling of threads, time
//! - [`interrupts`], [`idle_trace`]: counts of interrupts, the time of softirqs and idle time, by eBPF programs
//! - [`perf`], [`kallsyms`]: samples of running CPUs, and names of kernel functions
//! - [`netstat`], [`tcp_info`], [`send_queue`], [`sock_diag`]: protocol counters, connections
//! - [`tcp_repair`], [`socket_swap`]: connections that move between sockets, and their descriptors
//! - [`seccomp`], [`process_memory`], [`socket_calls`], [`descriptors`]: calls of a program that another process answers
//! - [`ptrace_stop`]: programs that are stopped while a descriptor is replaced
//! - [`tree`]: files of `/proc` and `/sys`, below any root
//! - [`tap`], [`doorbell`], [`epoll`], [`wait`], [`prefetch`]: facilities for virtual adapters
//! - [`softirq_spin`]: a softirq load of known size
//! - [`local_socket`]: Unix sockets with a path, and the descriptors that travel over them
//! - [`run_directory`]: private directories for files that processes of one user share
//! - [`open_file`], [`open_file_limit`]: open files that another process has passed on, and how many a process may have
//! - [`limits`]: limits of processes, files and memory that this process has met
//! - [`stderr`]: lines to the user that never fail
//! - [`connect`]: connections with options that count before they are made
//! - [`socket`], [`socket_option`], [`bound_socket`], [`bounded`], [`memory`], [`unnamed_file`], [`splice`]: sockets, payload memory, sending without copies

// printing panics when nobody reads: lines to the user go through `stderr`
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[cfg(test)]
#[macro_use]
#[path = "../tests/common/skip.rs"]
mod skip;

pub mod bonding;
pub mod bound_socket;
pub mod bounded;
mod bpf;
pub mod cgroup;
pub mod clock;
pub mod connect;
pub mod cpus;
pub mod descriptors;
pub mod doorbell;
pub mod epoll;
pub mod error;
pub mod ethtool;
pub mod host;
pub mod host_settings;
pub mod idle_trace;
pub mod interrupts;
pub mod irq_affinity;
pub mod kallsyms;
pub mod limits;
pub mod local_socket;
pub mod memory;
pub mod netlink;
pub mod netstat;
pub mod network_namespace;
pub mod on_cpu;
pub mod open_file;
pub mod open_file_limit;
pub mod other_programs;
pub mod pcie;
pub mod perf;
pub mod prefetch;
pub mod process_memory;
pub mod processes;
pub mod procstat;
pub mod ptrace_stop;
pub mod run_directory;
pub mod sched;
pub mod seccomp;
pub mod send_queue;
pub mod sock_diag;
pub mod socket;
pub mod socket_calls;
pub mod socket_option;
pub mod socket_swap;
pub mod softirq_spin;
pub mod splice;
pub mod stack;
pub mod stderr;
pub mod sysfs;
pub mod tap;
pub mod tcp_info;
pub mod tcp_repair;
pub mod team;
pub mod tree;
pub mod unnamed_file;
pub mod wait;
