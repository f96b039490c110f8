//! Whatever the kernel's files say, on this host or in a copy of another's: it is read or left out.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use linkrate_sys::kallsyms::KernelSymbols;
use linkrate_sys::tcp_info::PathInfo;
use linkrate_sys::{netstat, processes, procstat, sysfs};
use linkrate_model::CpuSet;

fuzz_target!(|bytes: &[u8]| {
    if let Some(round_trip_us) = PathInfo::from_bytes(bytes).round_trip_us() {
        assert!(round_trip_us > 0);
    }
    let text = String::from_utf8_lossy(bytes);
    symbols(&text);
    times(&text);
    counters(&text);
    for cpus in [text.parse::<CpuSet>().ok(), sysfs::parse_mask(&text)].into_iter().flatten() {
        assert_eq!(CpuSet::try_from(cpus.to_string()).as_ref(), Ok(&cpus));
        assert_eq!(sysfs::parse_mask(&cpus.to_kernel_mask()), Some(cpus));
    }
});

fn symbols(text: &str) {
    let symbols = KernelSymbols::parse(text);
    assert_eq!(symbols.len() == 0, symbols.is_empty());
    let mut named = 0;
    let addresses = text.lines().filter_map(|line| line.split_ascii_whitespace().next());
    for address in addresses.filter_map(|word| u64::from_str_radix(word, 16).ok()) {
        for address in [address.saturating_sub(1), address, address.saturating_add(1)] {
            let Some(name) = symbols.name_of(address) else { continue };
            let (name, module) = name.split_once(' ').unwrap_or((name, ""));
            assert!(text.contains(name) && text.contains(module), "{name} {module}");
            named += 1;
        }
    }
    assert!(symbols.is_empty() || named > 0, "no function lies where it begins");
}

fn times(text: &str) {
    for (cpu, idle_ns) in procstat::parse_timer_list(text) {
        assert!(idle_ns > 0, "CPU {cpu}");
    }
    procstat::parse_idle_entries(text);
    for cpu in [0, 1, u32::MAX] {
        procstat::parse_stat(text, cpu);
    }
    if let Some(cpu) = processes::parse_processor(text) {
        assert_eq!(processes::stat_field(text, 39).and_then(|field| field.parse().ok()), Some(cpu));
    }
    assert_eq!(processes::stat_field(text, 2), None);
}

fn counters(text: &str) {
    let mut counters = BTreeMap::new();
    netstat::parse_pairs(text, &mut counters);
    assert!(counters.keys().all(|name| name.contains('.')));
    assert!(netstat::parse_softnet(text).len() <= text.lines().count());
}
