//! The CPUs of this machine, from `/sys/devices/system/cpu`
//! (Documentation/admin-guide/cputopology.rst).

use std::fs;
use std::io;

use linkrate_model::CpuSet;

use crate::error::SysError;

/// The CPUs that are online, from `/sys/devices/system/cpu/online`.
pub fn online() -> Result<CpuSet, SysError> {
    cpu_list("/sys/devices/system/cpu/online")
}

/// The CPUs that may ever be there, from `/sys/devices/system/cpu/possible`.
pub fn possible() -> Result<CpuSet, SysError> {
    cpu_list("/sys/devices/system/cpu/possible")
}

/// Hardware threads of the core of `cpu`, itself included; `cpu` alone where the kernel does not
/// say (`thread_siblings_list`, Documentation/admin-guide/cputopology.rst).
pub fn siblings_of(cpu: u32) -> CpuSet {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    cpu_list(&path).unwrap_or_else(|_| [cpu].into_iter().collect())
}

fn cpu_list(path: &str) -> Result<CpuSet, SysError> {
    let failed = |error| SysError::new("read", path, error);
    let text = fs::read_to_string(path).map_err(failed)?;
    text.trim().parse().map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))
}
