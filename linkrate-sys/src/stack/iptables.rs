//! Rule sets of the iptables before nf_tables, by getsockopt(2).

use std::fs;
use std::os::fd::AsRawFd;

use linkrate_model::Family;

use super::digest;
use crate::socket;

/// `IPT_SO_GET_INFO`, and `IP6T_SO_GET_INFO`: linux/netfilter_ipv4/ip_tables.h, linux/netfilter_ipv6/ip6_tables.h.
const GET_INFO: libc::c_int = 64;

/// `IPT_SO_GET_ENTRIES`, and `IP6T_SO_GET_ENTRIES`.
const GET_ENTRIES: libc::c_int = 65;

/// Octets of `struct ipt_get_entries` before its entries: the name, the size, and what aligns them.
const HEADER: usize = 40;

/// The most octets of rules that are read; a larger table is known by its extent.
const MAX_BYTES: u32 = 4 << 20;

/// Octets of the name with which `struct ipt_getinfo` and `struct ipt_get_entries` begin.
const NAME: usize = 32;

/// `struct ipt_getinfo`, and `struct ip6t_getinfo`: its octets, and where the number of entries and their octets are.
const INFO: usize = 84;
const ENTRIES_AT: usize = 76;
const BYTES_AT: usize = 80;

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
            let (entries, bytes) = extent(family, level, &name)?;
            let extent = format!("{entries} entries, {bytes} bytes");
            let rules = match rules(family, level, &name, bytes) {
                Some(rules) => {
                    format!("{extent}, {:08x}", digest(&without_counters(&rules, family)))
                }
                None => extent,
            };
            Some((format!("{name}{suffix}"), rules))
        })
    });
    tables.collect()
}

/// The number of entries of a table, and their octets; `None` for a user who may not ask.
fn extent(family: Family, level: libc::c_int, table: &str) -> Option<(u32, u32)> {
    let mut info = [0; INFO];
    ask(family, level, GET_INFO, table, &mut info)?;
    let number = |at: usize| Some(u32::from_ne_bytes(*info.get(at..)?.first_chunk()?));
    Some((number(ENTRIES_AT)?, number(BYTES_AT)?))
}

/// The rules, as the kernel has them; `None` for a user who may not ask.
fn rules(family: Family, level: libc::c_int, table: &str, bytes: u32) -> Option<Vec<u8>> {
    if bytes > MAX_BYTES {
        return None;
    }
    let mut asked = vec![0; HEADER + bytes as usize];
    asked[NAME..NAME + 4].copy_from_slice(&bytes.to_ne_bytes());
    ask(family, level, GET_ENTRIES, table, &mut asked)?;
    Some(asked.split_off(HEADER))
}

/// Reads an option of a table into `value`, which begins with the table's name.
fn ask(
    family: Family,
    level: libc::c_int,
    option: libc::c_int,
    table: &str,
    value: &mut [u8],
) -> Option<()> {
    let socket = socket::ip_socket(family, true).ok()?;
    value.get_mut(..NAME)?.get_mut(..table.len())?.copy_from_slice(table.as_bytes());
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: the option value is a live buffer of the length that `length` holds.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(())
}

/// The parts of rules that are not counters. `struct ipt_entry` and `struct ip6t_entry`: linux/netfilter_ipv4/ip_tables.h,
/// linux/netfilter_ipv6/ip6_tables.h.
fn without_counters(rules: &[u8], family: Family) -> Vec<&[u8]> {
    // where an entry has the offset of the next one, and its counters
    let (next_at, counters) = match family {
        Family::Ipv4 => (90, 96..112),
        Family::Ipv6 => (142, 152..168),
    };
    let (mut parts, mut rest) = (Vec::new(), rules);
    while let Some(next) = rest.get(next_at..next_at + 2) {
        let length = usize::from(u16::from_ne_bytes([next[0], next[1]]));
        let Some((entry, after)) = rest.split_at_checked(length) else { break };
        if length < counters.end {
            break;
        }
        parts.extend([&entry[..counters.start], &entry[counters.end..]]);
        rest = after;
    }
    parts
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
            let digest = |rules: Vec<u8>| digest(&without_counters(&rules, family));
            assert_eq!(digest(rules(1, 5)), digest(rules(1, 9)));
            assert_ne!(digest(rules(1, 5)), digest(rules(2, 5)));
            // an entry that leads nowhere ends the walk
            for broken in [vec![0; 208], vec![0xff; 208], vec![1; 20], Vec::new()] {
                assert_eq!(digest(broken), digest(Vec::new()));
            }
        }
    }
}
