//! Receive packet steering (RPS) and the settings of NAPI of an interface, through `/sys/class/net`.
//!
//! A sysfs shows the interfaces of the network namespace of the process that mounted it. A
//! [host](crate::host) mounts its own. If that failed, its interfaces are missing here, and the
//! error says so.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use linkrate_model::CpuSet;

use crate::error::{SysError, SysResult};

const CLASS: &str = "/sys/class/net";

const NOT_MOUNTED: &str = "this sysfs shows another network namespace; run `mount -t sysfs sysfs \
                           /sys` in the host, in a separate mount namespace";

/// Number of receive queues of `interface` in use: its `queues/rx-N` directories.
///
/// # Errors
/// `NotFound` if this sysfs does not have the interface.
pub fn rx_queue_count(interface: &str) -> SysResult<u32> {
    let path = path(interface, "queues")?;
    let failed = |error| SysError::new("list", path.display().to_string(), error);
    let mut count = 0;
    for entry in fs::read_dir(&path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        count += u32::from(name.to_string_lossy().starts_with("rx-"));
    }
    Ok(count)
}

/// The CPUs to which receive queue `queue` spreads its packets (`rps_cpus`,
/// Documentation/networking/scaling.rst); an empty set if steering is off.
///
/// # Errors
/// `NotFound` if the interface or queue does not exist.
pub fn receive_steering(interface: &str, queue: u32) -> SysResult<CpuSet> {
    let path = path(interface, &format!("queues/rx-{queue}/rps_cpus"))?;
    let text = read(&path).map_err(explain_steering)?;
    parse_mask(&text).ok_or_else(|| unreadable(&path, &text))
}

/// Spreads the packets of receive queue `queue` over `cpus` and reads the setting back. An empty
/// set turns steering off.
///
/// # Errors
/// `PermissionDenied` without CAP_NET_ADMIN in the first user namespace: the kernel
/// (`store_rps_map`, net/core/net-sysfs.c) does not accept root of another user namespace.
pub fn set_receive_steering(interface: &str, queue: u32, cpus: &CpuSet) -> SysResult<()> {
    let path = path(interface, &format!("queues/rx-{queue}/rps_cpus"))?;
    fs::write(&path, cpus.to_kernel_mask()).map_err(|error| {
        let operation = format!("write CPUs \"{cpus}\" to");
        explain_steering(SysError::new(operation, path.display().to_string(), error))
    })?;
    let effective = receive_steering(interface, queue)?;
    if effective == *cpus { Ok(()) } else { Err(differs(&path, cpus, &effective)) }
}

/// How NAPI polls an interface (Documentation/networking/napi.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Napi {
    /// Kernel threads poll, one for each instance, in place of softirqs: 0 or 1. Since Linux 5.12.
    Threaded,
    /// Polls without a packet after which interrupts are on again. Since Linux 5.8.
    DeferHardIrqs,
    /// The time after which a deferred poll takes place, ns.
    GroFlushTimeout,
}

impl Napi {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Threaded, Self::DeferHardIrqs, Self::GroFlushTimeout];

    /// The name of its file in `/sys/class/net/INTERFACE`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threaded => "threaded",
            Self::DeferHardIrqs => "napi_defer_hard_irqs",
            Self::GroFlushTimeout => "gro_flush_timeout",
        }
    }
}

/// One of the settings of NAPI.
///
/// # Errors
/// `NotFound` on kernels that do not have it, `InvalidInput` for an interface without NAPI.
pub fn napi(interface: &str, setting: Napi) -> SysResult<u64> {
    let path = path(interface, setting.name())?;
    let text = read(&path)?;
    text.parse().map_err(|_| unreadable(&path, &text))
}

/// Changes one of the settings of NAPI, and reads it back.
///
/// # Errors
/// As for [`napi`], and `PermissionDenied` without CAP_NET_ADMIN over the network namespace.
pub fn set_napi(interface: &str, setting: Napi, value: u64) -> SysResult<()> {
    let path = path(interface, setting.name())?;
    fs::write(&path, value.to_string()).map_err(|error| {
        SysError::new(format!("write {value} to"), path.display().to_string(), error)
    })?;
    let effective = napi(interface, setting)?;
    if effective == value { Ok(()) } else { Err(differs(&path, &value, &effective)) }
}

/// Changes those settings of NAPI that are not as they should be, in the order of [`Napi::ALL`]; `None` stays as it is.
/// With `off`, only those that become 0, which must come before GRO is switched off: a veth without GRO has no NAPI
/// instances, and then the kernel refuses. Without it, the others. Gives each that was refused with what [`napi`] or
/// [`set_napi`] say, and tries the next one when it is asked for more.
pub fn set_napi_where_it_differs(
    interface: &str,
    values: [Option<u64>; Napi::ALL.len()],
    off: bool,
) -> impl Iterator<Item = (Napi, SysError)> {
    Napi::ALL.into_iter().zip(values).filter_map(move |(setting, value)| {
        let value = value.filter(|value| (*value == 0) == off)?;
        let set = napi(interface, setting).and_then(|is| match is == value {
            true => Ok(()),
            false => set_napi(interface, setting, value),
        });
        Some((setting, set.err()?))
    })
}

fn explain_steering(error: SysError) -> SysError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => error.with_hint(
            "only root may set receive packet steering, not root of a user namespace; run as root or \
             leave it off",
        ),
        io::ErrorKind::NotFound => error.with_hint(
            "the interface has fewer receive queues in use; set more channels first",
        ),
        _ if error.errno() == Some(libc::EOVERFLOW) => {
            error.with_hint("this machine has no CPUs of these numbers")
        }
        _ => error,
    }
}

/// The path of `file` of `interface`, after checking that this sysfs has the interface.
fn path(interface: &str, file: &str) -> SysResult<PathBuf> {
    let directory = Path::new(CLASS).join(interface);
    // a name with a slash would be a path to another directory
    if interface.is_empty() || interface.contains('/') || !directory.join("ifindex").exists() {
        let cause = io::Error::from_raw_os_error(libc::ENOENT);
        return Err(SysError::new("find interface", directory.display().to_string(), cause)
            .with_hint(NOT_MOUNTED));
    }
    Ok(directory.join(file))
}

fn read(path: &Path) -> SysResult<String> {
    fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .map_err(|error| SysError::new("read", path.display().to_string(), error))
}

fn unreadable(path: &Path, text: &str) -> SysError {
    let cause =
        io::Error::new(io::ErrorKind::InvalidData, format!("unexpected content \"{text}\""));
    SysError::new("read", path.display().to_string(), cause)
}

fn differs(
    path: &Path,
    requested: &impl std::fmt::Display,
    effective: &impl std::fmt::Display,
) -> SysError {
    let cause = io::Error::other(format!("requested {requested}, reads back {effective}"));
    SysError::new("set", path.display().to_string(), cause)
}

/// Reads a mask such as `00000001,00000003`: groups of 32 bits, the most significant first, whose
/// leading zeros may be missing.
pub fn parse_mask(text: &str) -> Option<CpuSet> {
    let mut cpus = Vec::new();
    for (group, word) in text.split(',').rev().enumerate() {
        let word = u32::from_str_radix(word, 16).ok()?;
        let first = u32::try_from(group).ok()? * 32;
        cpus.extend((0..32).filter(|bit| word >> bit & 1 == 1).map(|bit| first + bit));
    }
    Some(cpus.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_whatever_their_width() {
        for (text, list) in [
            ("1", "0"),
            ("3", "0-1"),
            ("00000002,00000002", "1,33"),
            ("0,80000000", "31"),
            ("ff", "0-7"),
        ] {
            assert_eq!(parse_mask(text), Some(list.parse().unwrap()), "{text}");
        }
        assert_eq!(parse_mask("00"), Some(CpuSet::default()));
        for text in ["", "g", "1,", "100000000"] {
            assert_eq!(parse_mask(text), None, "{text}");
        }
    }

    #[test]
    fn masks_print_and_read_back() {
        for list in ["0", "1", "0-63", "5,40,95"] {
            let cpus: CpuSet = list.parse().unwrap();
            assert_eq!(parse_mask(&cpus.to_kernel_mask()), Some(cpus));
        }
    }

    #[test]
    fn a_missing_interface_explains_whose_sysfs_this_is() {
        for name in ["no-such-if", "../net/lo", ""] {
            let error = rx_queue_count(name).unwrap_err();
            assert!(error.hint().unwrap().contains("mount -t sysfs"), "{error}");
        }
    }
}
