//! Programs that are loaded in this kernel, and those that are attached to an interface or to a network namespace.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{NAME, NAME_BYTES, bpf_mut, owned};

// enum bpf_cmd, linux/bpf.h
const PROG_GET_NEXT_ID: libc::c_long = 11;
const PROG_GET_FD_BY_ID: libc::c_long = 13;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const PROG_QUERY: libc::c_long = 16;

/// The most programs to tell.
const MAX_PROGRAMS: usize = 64;

/// Where programs see packets of an interface or a namespace, as `enum bpf_attach_type` has it: at an interface, by its
/// index, or in a network namespace, by its descriptor.
const AT_INTERFACE: [(u32, &str); 2] = [(46, "tcx ingress"), (47, "tcx egress")];
const IN_NAMESPACE: [(u32, &str); 2] = [(17, "flow dissector"), (36, "socket lookup")];
/// In a control group, by the descriptor of its directory: those that see packets, sockets or calls of traffic.
const IN_CONTROL_GROUP: [(u32, &str); 9] = [
    (0, "control group, ingress"),
    (1, "control group, egress"),
    (2, "control group, socket"),
    (3, "control group, socket operations"),
    (14, "control group, sendmsg IPv4"),
    (15, "control group, sendmsg IPv6"),
    (19, "control group, recvmsg IPv4"),
    (20, "control group, recvmsg IPv6"),
    (22, "control group, setsockopt"),
];

/// `BPF_F_QUERY_EFFECTIVE`: with those of the groups above.
const EFFECTIVE: u32 = 1;

/// Types of programs that run in the middle of other code of the kernel, by `enum bpf_prog_type`.
const TRACING: [(u32, &str); 5] =
    [(2, "kprobe"), (5, "tracepoint"), (7, "perf event"), (17, "raw tracepoint"), (26, "tracing")];

/// `union bpf_attr` for BPF_PROG_QUERY.
#[repr(C)]
#[derive(Default)]
struct Query {
    target: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    program_ids: u64,
    program_count: u32,
    padding: u32,
    program_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

/// `union bpf_attr` for BPF_PROG_GET_NEXT_ID and BPF_PROG_GET_FD_BY_ID.
#[repr(C)]
#[derive(Default)]
struct ById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

/// `union bpf_attr` for BPF_OBJ_GET_INFO_BY_FD.
#[repr(C)]
#[derive(Default)]
struct OfDescriptor {
    descriptor: u32,
    length: u32,
    info: u64,
}

/// The beginning of `struct bpf_prog_info`, up to the name.
#[repr(C)]
#[derive(Default)]
struct Info {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    lengths: [u32; 2],
    instructions: [u64; 2],
    load_time_ns: u64,
    user: u32,
    map_count: u32,
    maps: u64,
    name: [u8; NAME_BYTES],
}

/// The programs at an interface beside XDP and the filters of tc, by where they are. Empty on kernels without such places,
/// and for a user who may not ask.
pub(crate) fn at_interface(index: u32) -> Vec<(String, String)> {
    attached(index, &AT_INTERFACE, 0)
}

/// The programs in a network namespace, by where they are.
pub(crate) fn in_namespace(namespace: &OwnedFd) -> Vec<(String, String)> {
    attached(namespace.as_raw_fd() as u32, &IN_NAMESPACE, 0)
}

/// The programs in a control group and in those above it, by where they are.
pub(crate) fn in_control_group(directory: &OwnedFd) -> Vec<(String, String)> {
    attached(directory.as_raw_fd() as u32, &IN_CONTROL_GROUP, EFFECTIVE)
}

fn attached(target: u32, places: &[(u32, &str)], query_flags: u32) -> Vec<(String, String)> {
    let found = places.iter().filter_map(|(attach_type, place)| {
        let mut ids = [0u32; MAX_PROGRAMS];
        let mut query = Query {
            target,
            attach_type: *attach_type,
            query_flags,
            program_ids: ids.as_mut_ptr() as u64,
            program_count: MAX_PROGRAMS as u32,
            ..Query::default()
        };
        // SAFETY: the attributes are those of this command; `ids` has room for as many numbers as they say and outlives
        // the call.
        if unsafe { bpf_mut(PROG_QUERY, &mut query) } < 0 {
            return None;
        }
        let ids = &ids[..MAX_PROGRAMS.min(query.program_count as usize)];
        let words: Vec<String> = ids.iter().map(u32::to_string).collect();
        (!words.is_empty()).then(|| ((*place).to_owned(), words.join(", ")))
    });
    found.collect()
}

/// The third-party programs that run in the middle of other code of the kernel, in words, by their numbers. Empty for a user
/// who may not ask.
pub(crate) fn tracing() -> Vec<String> {
    let mut reported = Vec::new();
    let mut id = 0;
    while reported.len() < MAX_PROGRAMS {
        let mut next = ById { id, ..ById::default() };
        // SAFETY: the attributes are those of this command; it keeps no pointer.
        if unsafe { bpf_mut(PROG_GET_NEXT_ID, &mut next) } < 0 {
            break;
        }
        id = next.next_id;
        // one that has just been unloaded is left out
        if let Ok(info) = info(id)
            && let Some((_, kind)) = TRACING.iter().find(|(kind, _)| *kind == info.kind)
            && info.name != NAME
        {
            let length = info.name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
            let name = String::from_utf8_lossy(&info.name[..length]);
            reported.push(format!("{kind} \"{name}\" (program {id})"));
        }
    }
    reported
}

fn info(id: u32) -> io::Result<Info> {
    let mut by_id = ById { id, ..ById::default() };
    // SAFETY: the attributes are those of this command; it keeps no pointer.
    let program = owned(unsafe { bpf_mut(PROG_GET_FD_BY_ID, &mut by_id) })?;
    let mut info = Info::default();
    let mut asked = OfDescriptor {
        descriptor: program.as_raw_fd() as u32,
        length: size_of::<Info>() as u32,
        info: &raw mut info as u64,
    };
    // SAFETY: the attributes are those of this command; `info` has the length that they say and outlives the call.
    match unsafe { bpf_mut(OBJ_GET_INFO_BY_FD, &mut asked) } {
        0 => Ok(info),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Program, ProgramType, end};
    use super::*;

    #[test]
    fn programs_of_linkrate_are_none_of_others() {
        let program = or_skip!(Program::load(ProgramType::RawTracepoint, &end()));
        let mut id = 0;
        let mut found = Vec::new();
        loop {
            let mut next = ById { id, ..ById::default() };
            // SAFETY: as in `tracing`.
            if unsafe { bpf_mut(PROG_GET_NEXT_ID, &mut next) } < 0 {
                break;
            }
            id = next.next_id;
            found.extend(info(id).ok().map(|info| (info.id, info.name)));
        }
        assert!(found.iter().any(|(_, name)| *name == NAME), "{found:?}");
        assert!(tracing().iter().all(|reported| !reported.contains("linkrate")), "{:?}", tracing());
        drop(program);
    }

    #[test]
    fn the_loopback_has_no_programs() {
        // SAFETY: the name ends with zero.
        let index = unsafe { libc::if_nametoindex(c"lo".as_ptr()) };
        assert!(at_interface(index).is_empty());
    }
}
