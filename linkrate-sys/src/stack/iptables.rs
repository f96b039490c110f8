//! Rule sets of the iptables before nf_tables, by getsockopt(2).

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::size_of;
use std::os::fd::AsRawFd;

use linkrate_model::Family;

use crate::socket;

/// `IPT_SO_GET_INFO`, and `IP6T_SO_GET_INFO`: linux/netfilter_ipv4/ip_tables.h, linux/netfilter_ipv6/ip6_tables.h.
const GET_INFO: libc::c_int = 64;

/// `IPT_SO_GET_ENTRIES`, and `IP6T_SO_GET_ENTRIES`.
const GET_ENTRIES: libc::c_int = 65;

/// Octets of `struct ipt_get_entries` before its entries: the name, the size, and what aligns them.
const HEADER: usize = 40;

/// The most octets of rules that are read; a larger table is known by its extent.
const MAX_BYTES: u32 = 4 << 20;

/// `struct ipt_getinfo`, and `struct ip6t_getinfo`.
#[repr(C)]
#[derive(Default)]
struct Info {
    name: [u8; 32],
    valid_hooks: u32,
    hook_entry: [u32; 5],
    underflow: [u32; 5],
    entries: u32,
    bytes: u32,
}

/// The tables that are in use in the network namespace of the calling thread, with the extent of their rules. Asking for
/// another one would load it.
pub(super) fn tables() -> Vec<(String, String)> {
    let families = [
        ("ip_tables_names", "", Family::Ipv4, libc::IPPROTO_IP),
        ("ip6_tables_names", "6", Family::Ipv6, libc::IPPROTO_IPV6),
    ];
    let tables = families.into_iter().flat_map(|(file, suffix, family, level)| {
        let names = fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        let names: Vec<String> = names.lines().map(str::to_owned).collect();
        names.into_iter().filter_map(move |name| {
            let info = info(family, level, &name)?;
            let rules = format!("{} entries, {} bytes", info.entries, info.bytes);
            let rules = match entries(family, level, &name, info.bytes) {
                Some(entries) => format!("{rules}, {:08x}", digest(&entries, family)),
                None => rules,
            };
            Some((format!("{name}{suffix}"), rules))
        })
    });
    tables.collect()
}

/// The rules, as the kernel has them; `None` for a user who may not ask.
fn entries(family: Family, level: libc::c_int, table: &str, bytes: u32) -> Option<Vec<u8>> {
    if bytes > MAX_BYTES {
        return None;
    }
    let socket = socket::ip_socket(family, true).ok()?;
    let mut asked = vec![0; HEADER + bytes as usize];
    asked.get_mut(..table.len()).filter(|_| table.len() < 32)?.copy_from_slice(table.as_bytes());
    asked[32..36].copy_from_slice(&bytes.to_ne_bytes());
    let mut length = asked.len() as libc::socklen_t;
    // SAFETY: the option value is a live buffer of the length that `length` holds.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            GET_ENTRIES,
            asked.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    (result == 0).then(|| asked.split_off(HEADER))
}

/// A number that changes with the rules, and not with their counters. `struct ipt_entry` and `struct ip6t_entry`:
/// linux/netfilter_ipv4/ip_tables.h, linux/netfilter_ipv6/ip6_tables.h.
fn digest(entries: &[u8], family: Family) -> u32 {
    // where an entry has the offset of the next one, and its counters
    let (next_at, counters) = match family {
        Family::Ipv4 => (90, 96..112),
        Family::Ipv6 => (142, 152..168),
    };
    let mut hasher = DefaultHasher::new();
    let mut rest = entries;
    while let Some(next) = rest.get(next_at..next_at + 2) {
        let length = usize::from(u16::from_ne_bytes([next[0], next[1]]));
        let Some((entry, after)) = rest.split_at_checked(length) else { break };
        if length < counters.end {
            break;
        }
        entry[..counters.start].hash(&mut hasher);
        entry[counters.end..].hash(&mut hasher);
        rest = after;
    }
    hasher.finish() as u32
}

/// `None` for a user who may not ask.
fn info(family: Family, level: libc::c_int, table: &str) -> Option<Info> {
    let socket = socket::ip_socket(family, true).ok()?;
    let mut info = Info::default();
    let name = table.as_bytes();
    info.name.get_mut(..name.len())?.copy_from_slice(name);
    let mut length = size_of::<Info>() as libc::socklen_t;
    // SAFETY: the option value is a live `Info` of the length that `length` holds.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            GET_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_rules_of_the_same_extent_are_another_number_and_other_counters_are_not() {
        for (family, next_at, counters_at) in [(Family::Ipv4, 90, 96), (Family::Ipv6, 142, 152)] {
            let entry = |target: u8, packets: u8| {
                let mut entry = vec![0; 208];
                entry[next_at] = 208;
                entry[counters_at] = packets;
                entry[200] = target;
                entry
            };
            let rules = |target, packets| [entry(target, packets), entry(target, 0)].concat();
            let digest = |rules: Vec<u8>| super::digest(&rules, family);
            assert_eq!(digest(rules(1, 5)), digest(rules(1, 9)));
            assert_ne!(digest(rules(1, 5)), digest(rules(2, 5)));
            // an entry that leads nowhere ends the walk
            for broken in [vec![0; 208], vec![0xff; 208], vec![1; 20], Vec::new()] {
                assert_eq!(digest(broken), digest(Vec::new()));
            }
        }
    }
}
