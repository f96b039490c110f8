//! What TAPs can do here, found out by making one where nobody sees it.

use std::io;

use super::{
    Kind, Offloads, Receive, not_opened, open_device, pass_offloads, set_header_size, set_interface,
};
use crate::error::SysResult;
use crate::host::try_in_a_host;

/// What TAPs with a virtio-net header can do on this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// One TAP may have several queues.
    pub several_queues: bool,
    /// What the reader of a TAP may offer to do.
    pub offloads: Offloads,
}

/// The offloads one by one, each with what it needs.
const STEPS: [Offloads; 5] = {
    let checksum = Offloads { checksum: true, ..Offloads::NONE };
    [
        checksum,
        Offloads { tso4: true, ..checksum },
        Offloads { tso6: true, ..checksum },
        Offloads { tso4: true, tso6: true, tso_ecn: true, ..checksum },
        Offloads { uso: true, ..checksum },
    ]
};

const SEVERAL_QUEUES: u8 = 1 << STEPS.len();

/// Makes a TAP in a network namespace that lives for a moment, and tries out what it can do.
///
/// # Errors
/// Where no TAP can be made: `/dev/net/tun` does not open, no namespace can be had for it, or the
/// kernel refuses the TAP or its header.
pub fn abilities() -> SysResult<Abilities> {
    // nothing comes of it until it gets a name, and here the reason can be told
    drop(open_device().map_err(not_opened)?);
    // SAFETY: `try_out` makes raw system calls only.
    unsafe { try_in_a_host("try out a TAP", try_out) }.map(read)
}

/// A bit for each of [`STEPS`], and one for several queues. Runs in a forked child: it neither
/// allocates, nor locks, nor panics.
fn try_out() -> io::Result<u8> {
    const NAME: &[u8] = b"tap0";
    let first = open_device()?;
    set_interface(&first, (Kind::Tap, Receive::InWrite), NAME, true, true)?;
    set_header_size(&first)?;
    let mut found = 0;
    for (index, step) in STEPS.into_iter().enumerate() {
        found |= u8::from(pass_offloads(&first, step).is_ok()) << index;
    }
    let second = open_device()?;
    if set_interface(&second, (Kind::Tap, Receive::InWrite), NAME, false, true).is_ok() {
        found |= SEVERAL_QUEUES;
    }
    Ok(found)
}

fn read(found: u8) -> Abilities {
    let has = |index: usize| found >> index & 1 == 1;
    Abilities {
        several_queues: found & SEVERAL_QUEUES != 0,
        offloads: Offloads {
            checksum: has(0),
            tso4: has(1),
            tso6: has(2),
            tso_ecn: has(3),
            uso: has(4),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::skip;

    #[test]
    fn every_ability_has_a_bit() {
        let all = Abilities { several_queues: true, offloads: Offloads::ALL };
        assert_eq!(read(0x3f), all);
        let none = Abilities { several_queues: false, offloads: Offloads::NONE };
        assert_eq!(read(0), none);
        assert_eq!(read(0x1f).offloads, Offloads::ALL);
        assert!(!read(0x2f).offloads.uso);
    }

    #[test]
    fn a_kernel_with_taps_has_checksums_and_queues() {
        // what the kernel would call the probe's TAP; this machine may have one of its own
        let seen = || std::path::Path::new("/sys/class/net/tap0").exists();
        let before = seen();
        match abilities() {
            Ok(found) => {
                assert!(found.several_queues && found.offloads.checksum, "{found:?}");
                assert!(found.offloads.tso4 && found.offloads.tso6, "{found:?}");
            }
            Err(error) => skip(error),
        }
        assert_eq!(seen(), before, "the probe's TAP is outside its namespace");
    }
}
