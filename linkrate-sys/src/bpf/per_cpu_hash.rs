//! A hash map with a value for each CPU under each key, which eBPF programs fill and this process reads.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{
    Instruction, MAP_CREATE, MAP_LOOKUP_ELEM, MapCreate, MapLookup, bpf, code, owned, step,
};
use crate::cpus;

const MAP_LOOKUP_BATCH: libc::c_long = 24;
const MAP_LOOKUP_AND_DELETE_BATCH: libc::c_long = 25;
const MAP_TYPE_PERCPU_HASH: u32 = 5;

/// Keys that one call reads. A bucket of the map must fit.
const BATCH: usize = 512;

/// The part of `union bpf_attr` for batches.
#[repr(C)]
#[derive(Default)]
struct Batch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// The map: keys of 64 bits, and values of `WORDS` of them for each CPU.
#[derive(Debug)]
pub(crate) struct PerCpuHash<const WORDS: usize> {
    map: OwnedFd,
    /// The possible CPUs, in the order of the values.
    cpus: Vec<u32>,
}

/// What to do with the entries that a call has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Keep,
    Delete,
}

impl<const WORDS: usize> PerCpuHash<WORDS> {
    /// An empty map with room for `entries` keys; `EPERM` without CAP_BPF, `ENOMEM`.
    pub(crate) fn new(entries: u32) -> io::Result<Self> {
        let cpus = cpus::possible().map_err(io::Error::other)?.iter().collect();
        let attributes = MapCreate {
            map_type: MAP_TYPE_PERCPU_HASH,
            key_size: size_of::<u64>() as u32,
            value_size: (WORDS * size_of::<u64>()) as u32,
            max_entries: entries,
            map_flags: 0,
        };
        // SAFETY: the attributes are those of this command; it keeps no pointer.
        let map = unsafe { bpf(MAP_CREATE, &attributes) };
        Ok(Self { map: owned(map)?, cpus })
    }

    /// Two instructions that load the map into a register, as an argument of a function.
    pub(crate) fn load(&self, register: u8) -> [Instruction; 2] {
        const PSEUDO_MAP_FD: u8 = 1;
        [
            step(code::LOAD_MAP_VALUE, register, PSEUDO_MAP_FD, 0, self.map.as_raw_fd()),
            step(0, 0, 0, 0, 0),
        ]
    }

    /// The keys, each with its value of `cpu`. What programs add or remove meanwhile may be there or not.
    ///
    /// # Errors
    /// `EINVAL` before Linux 5.6, `ENOENT` for an impossible CPU.
    pub(crate) fn of_cpu(&self, cpu: u32) -> io::Result<Vec<(u64, [u64; WORDS])>> {
        let at = self.cpus.iter().position(|one| *one == cpu);
        let at = at.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        let mut found = Vec::new();
        self.each(Then::Keep, |key, values| {
            let value = std::array::from_fn(|word| values[at * WORDS + word]);
            found.push((key, value));
        })?;
        Ok(found)
    }

    /// The first words of a key's values of all CPUs together; 0 for a key that is not there.
    pub(crate) fn sum_of(&self, key: u64) -> io::Result<u64> {
        let mut values = vec![0u64; WORDS * self.cpus.len()];
        let attributes = MapLookup {
            map_fd: self.map.as_raw_fd() as u32,
            key: &raw const key as u64,
            value: values.as_mut_ptr() as u64,
            ..MapLookup::default()
        };
        // SAFETY: the attributes are those of this command. The key has its 8 octets and the values have room for
        // those of all possible CPUs; both outlive the call.
        let result = unsafe { bpf(MAP_LOOKUP_ELEM, &attributes) };
        if result != 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::ENOENT) { Ok(0) } else { Err(error) };
        }
        Ok(values.iter().step_by(WORDS).sum())
    }

    /// Removes all keys.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.each(Then::Delete, |_, _| ())
    }

    fn each(&self, then: Then, mut take: impl FnMut(u64, &[u64])) -> io::Result<()> {
        let of_key = WORDS * self.cpus.len();
        let (mut keys, mut values) = (vec![0u64; BATCH], vec![0u64; BATCH * of_key]);
        // where the next call continues; the first one has none
        let (mut at, mut next) = (0u64, 0u64);
        let mut begun = false;
        loop {
            let mut attributes = Batch {
                in_batch: if begun { &raw const at as u64 } else { 0 },
                out_batch: &raw mut next as u64,
                keys: keys.as_mut_ptr() as u64,
                values: values.as_mut_ptr() as u64,
                count: BATCH as u32,
                map_fd: self.map.as_raw_fd() as u32,
                ..Batch::default()
            };
            let command = match then {
                Then::Keep => MAP_LOOKUP_BATCH,
                Then::Delete => MAP_LOOKUP_AND_DELETE_BATCH,
            };
            // SAFETY: the attributes are those of this command, which writes the count back into them. Keys and
            // values have room for `count` keys of 8 octets and the values of all possible CPUs, and the positions
            // for the 4 octets that this kind of map has; all of them outlive the call.
            let result = unsafe { super::bpf_mut(command, &mut attributes) };
            let error = (result != 0).then(io::Error::last_os_error);
            let is_last = error.as_ref().and_then(io::Error::raw_os_error) == Some(libc::ENOENT);
            if let Some(error) = error.filter(|_| !is_last) {
                return Err(error);
            }
            for index in 0..(attributes.count as usize).min(BATCH) {
                take(keys[index], &values[index * of_key..(index + 1) * of_key]);
            }
            if is_last {
                return Ok(());
            }
            (at, begun) = (next, true);
        }
    }
}
