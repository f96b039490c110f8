//! Rule sets of the iptables before nf_tables, by getsockopt(2).

use std::fs;
use std::mem::size_of;
use std::os::fd::AsRawFd;

use linkrate_terms::Family;

use crate::socket;

/// `IPT_SO_GET_INFO`, and `IP6T_SO_GET_INFO`: linux/netfilter_ipv4/ip_tables.h, linux/netfilter_ipv6/ip6_tables.h.
const GET_INFO: libc::c_int = 64;

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
            Some((format!("{name}{suffix}"), rules))
        })
    });
    tables.collect()
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
