//! How a host of netperf measures its CPU.

/// The method of that number, in words.
#[must_use]
pub fn cpu_method(number: u32) -> &'static str {
    match number {
        1 => "idle counter of HP-UX",
        2 => "pstat",
        3 => "times",
        4 => "loops that run while nothing else does",
        5 => "getrusage",
        6 => "Windows NT's counters",
        7 | 11 => "kstat",
        8 => "/proc/stat",
        9 => "sysctl",
        10 => "perfstat",
        12 => "host_info of macOS",
        _ => "a method of an unknown number",
    }
}
