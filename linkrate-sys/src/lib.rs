//! Every Linux system interface linkrate uses, and every unsafe block

pub mod clock;
pub mod error;
pub mod ethtool;
pub mod host;
pub mod memory;
pub mod memory_file;
pub mod netlink;
pub mod netstat;
pub mod procstat;
pub mod sched;
pub mod socket;
pub mod splice;
pub mod sysfs;
pub mod tcp_info;
