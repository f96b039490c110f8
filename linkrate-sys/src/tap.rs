//! TAP and TUN devices: an interface of the host at one end, descriptors at the other
//! (Documentation/networking/tuntap.rst, drivers/net/tun.c).
//!
//! A read returns a packet that the host transmits; a write gives the host a packet to receive. Each
//! is one packet behind a virtio-net header of [`VNET_HEADER_BYTES`]: of a TAP an Ethernet frame, of
//! a TUN an IP packet without a link header. All else is said of TAPs here and holds for both.
//!
//! A TAP lives as long as a descriptor of it, whichever process holds it, and keeps its network
//! namespace alive with it (`tun_chr_open`), even without a process in there.
//!
//! Each queue is a descriptor. The host picks the queue a flow is transmitted on, and learns it
//! from the queue on which the other direction of that flow was last written. A frame that finds
//! its queue full (its length is the interface's `txqueuelen`) is dropped by the kernel and
//! counted as `tx_dropped` of the interface; nothing stops the sender. A discipline with a rate does
//! ([`DatagramLimit`](crate::netlink::DatagramLimit)): a packet that waits there belongs to its socket
//! still, while a packet in the queue of the TAP does not (`skb_orphan`). Up to 15 places of a queue
//! may be taken by frames that were read already (`__ptr_ring_discard_one`,
//! include/linux/ptr_ring.h).
//!
//! # Receive processing
//!
//! A write takes its frame through the host's receive processing by itself, in the writing thread, without GRO
//! (`tun_get_user`). With `IFF_NAPI` it puts the frame into a list instead, which a NAPI instance of the queue polls, with
//! GRO. Softirqs would poll after each write, so that each frame is alone in its poll and GRO finds nothing to merge. [NAPI
//! threads](Tap::with_napi_threads) poll when the writer lets the CPU go, and find its whole batch.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::error::{SysError, SysResult};
use crate::netlink::check_name;
use crate::sysfs;

mod batch;
mod napi_thread;
mod probe;

pub use batch::{Packet, WriteRing, write_packet};
pub use probe::{Abilities, abilities};

const DEVICE: &str = "/dev/net/tun";

/// Bytes before each frame: `struct virtio_net_hdr`, include/uapi/linux/virtio_net.h. The longer
/// forms add what a TAP has no use for (a buffer count, a hash, tunnels); this one also leaves
/// the IP header behind an untagged Ethernet header aligned to eight bytes.
pub const VNET_HEADER_BYTES: usize = 10;

/// Most bytes that one read returns: the header, and the largest packet of a TAP with the default
/// `gso_max_size`.
pub const MAX_READ: usize = VNET_HEADER_BYTES + 65_589;

/// Most queues of one TAP: `MAX_TAP_QUEUES`, drivers/net/tun.c.
pub const MAX_QUEUES: u32 = 256;

/// What an interface carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Ethernet frames (`IFF_TAP`).
    Tap,
    /// IP packets (`IFF_TUN`). The kernel reads the IP version from the packet. The interface has no
    /// MAC address and no ARP.
    Tun,
}

impl Kind {
    const fn flag(self) -> libc::c_int {
        match self {
            Self::Tap => libc::IFF_TAP,
            Self::Tun => libc::IFF_TUN,
        }
    }

    const fn creation(self) -> &'static str {
        match self {
            Self::Tap => "create TAP",
            Self::Tun => "create TUN",
        }
    }
}

/// Where the host processes the frames that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receive {
    /// In the write.
    InWrite,
    /// In a NAPI instance of each queue (`IFF_NAPI`, since Linux 4.15).
    Napi,
}

impl Receive {
    const fn flag(self) -> libc::c_int {
        match self {
            Self::InWrite => 0,
            Self::Napi => libc::IFF_NAPI,
        }
    }
}

/// A TAP or TUN in the network namespace of the thread that opened it. It is down.
#[derive(Debug)]
pub struct Tap {
    name: String,
    queues: Vec<OwnedFd>,
}

/// What the host may leave to the reader of a TAP (`TUNSETOFFLOAD`).
///
/// The kernel refuses segmentation without checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offloads {
    /// Checksums of TCP and UDP (`TUN_F_CSUM`).
    pub checksum: bool,
    /// Superframes of TCP over IPv4 (`TUN_F_TSO4`).
    pub tso4: bool,
    /// Superframes of TCP over IPv6 (`TUN_F_TSO6`).
    pub tso6: bool,
    /// Superframes with CWR set, as ECN makes them (`TUN_F_TSO_ECN`).
    pub tso_ecn: bool,
    /// Superframes of UDP over both IP versions (`TUN_F_USO4` with `TUN_F_USO6`, never one
    /// alone); since 6.2.
    pub uso: bool,
}

impl Offloads {
    /// Everything a kernel of today hands over.
    pub const ALL: Self = Self { checksum: true, tso4: true, tso6: true, tso_ecn: true, uso: true };

    /// Nothing: every frame is complete and fits the MTU.
    pub const NONE: Self =
        Self { checksum: false, tso4: false, tso6: false, tso_ecn: false, uso: false };

    fn bits(self) -> libc::c_uint {
        [
            (self.checksum, libc::TUN_F_CSUM),
            (self.tso4, libc::TUN_F_TSO4),
            (self.tso6, libc::TUN_F_TSO6),
            (self.tso_ecn, libc::TUN_F_TSO_ECN),
            (self.uso, libc::TUN_F_USO4 | libc::TUN_F_USO6),
        ]
        .into_iter()
        .filter(|(on, _)| *on)
        .fold(0, |bits, (_, bit)| bits | bit)
    }
}

impl std::fmt::Display for Offloads {
    /// The names that are on, as `checksum, tso4`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = [
            (self.checksum, "checksum"),
            (self.tso4, "tso4"),
            (self.tso6, "tso6"),
            (self.tso_ecn, "tso-ecn"),
            (self.uso, "uso"),
        ];
        let on: Vec<&str> = names.into_iter().filter_map(|(on, name)| on.then_some(name)).collect();
        f.write_str(if on.is_empty() { "none".to_owned() } else { on.join(", ") }.as_str())
    }
}

impl Tap {
    /// Makes the TAP `name` with `queues` queues in the calling thread's network namespace,
    /// without offloads. Its descriptors are close-on-exec and never wait.
    ///
    /// # Errors
    /// `ENOENT` or `EACCES` when `/dev/net/tun` is missing or not the caller's to open, `EPERM`
    /// without CAP_NET_ADMIN over the namespace, `EBUSY` when the name is taken.
    pub fn open(name: &str, queues: u32) -> SysResult<Self> {
        Self::of_kind(Kind::Tap, name, queues)
    }

    /// Makes the TUN `name`, otherwise like [`open`](Self::open).
    pub fn open_tun(name: &str, queues: u32) -> SysResult<Self> {
        Self::of_kind(Kind::Tun, name, queues)
    }

    /// Makes the TAP or TUN `name`, otherwise like [`open`](Self::open).
    pub fn of_kind(kind: Kind, name: &str, queues: u32) -> SysResult<Self> {
        Self::make((kind, Receive::InWrite), name, queues, |_| Ok(()))
    }

    /// The same, where a thread of the kernel polls the NAPI instance of each queue. Returns these threads too, in the
    /// order of the queues. They may run on all CPUs.
    ///
    /// # Errors
    /// As for `open`; before Linux 5.12, where no thread can be had; and where the threads are not to be found, as in a
    /// PID namespace of a container.
    pub fn with_napi_threads(kind: Kind, name: &str, queues: u32) -> SysResult<(Self, Vec<u32>)> {
        // interfaces of other namespaces have the same name, and so have their threads: one is made at a time
        let device = open_device().map_err(not_opened)?;
        let failed = |error| SysError::new("find NAPI threads of", name, error);
        rustix::fs::flock(&device, FlockOperation::LockExclusive)
            .map_err(|error| failed(error.into()))?;
        let mut threads = Vec::new();
        let mut newest = napi_thread::newest_process().map_err(failed)?;
        let tap = Self::make((kind, Receive::Napi), name, queues, |number| {
            if number == 0 {
                sysfs::set_napi(name, sysfs::Napi::Threaded, 1)?;
            }
            let before = newest;
            newest = napi_thread::newest_process().map_err(failed)?;
            threads.push(napi_thread::of_interface(name, before, newest).map_err(failed)?);
            Ok(())
        })?;
        Ok((tap, threads))
    }

    /// Calls `attached` with the number of each queue that it has.
    fn make(
        (kind, receive): (Kind, Receive),
        name: &str,
        queues: u32,
        mut attached: impl FnMut(u32) -> SysResult<()>,
    ) -> SysResult<Self> {
        let operation = kind.creation();
        check_name(operation, name)?;
        let subject = || format!("\"{name}\" (queues: {queues})");
        if !(1..=MAX_QUEUES).contains(&queues) {
            let cause = io::Error::from_raw_os_error(libc::EINVAL);
            return Err(SysError::new(operation, subject(), cause)
                .with_detail(format!("a TAP has 1 to {MAX_QUEUES} queues")));
        }
        let mut tap = Self { name: name.to_owned(), queues: Vec::new() };
        for number in 0..queues {
            let queue = open_device().map_err(not_opened)?;
            // the first makes the TAP and is not to become a further queue of one that exists
            let first = number == 0;
            set_interface(&queue, (kind, receive), name.as_bytes(), first, queues > 1).map_err(
                |error| {
                    let error = SysError::new(operation, subject(), error);
                    match error.errno() {
                        Some(libc::EBUSY) => {
                            error.with_hint("choose another name, this one is taken")
                        }
                        _ => error,
                    }
                },
            )?;
            tap.queues.push(queue);
            attached(number)?;
        }
        set_header_size(&tap.queues[0])
            .map_err(|error| SysError::new("set header size of TAP", subject(), error))?;
        Ok(tap)
    }

    /// The name of the interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The queues, in their order.
    pub fn queues(&self) -> &[OwnedFd] {
        &self.queues
    }
}

/// Tells the kernel which offloads the reader of the TAP has: `ethtool -k` then shows them as on, and
/// `ethtool -K` can switch them. Holds for all queues of the TAP.
///
/// # Errors
/// `EINVAL` for segmentation without checksums, or for what this kernel does not know.
pub fn set_offloads(queue: impl AsFd, offloads: Offloads) -> SysResult<()> {
    pass_offloads(queue, offloads).map_err(|error| {
        let error = SysError::new("set offloads of TAP to", offloads.to_string(), error);
        match error.errno() {
            Some(libc::EINVAL) => error.with_hint(
                "segmentation needs checksum, tso-ecn needs tso4 or tso6, and uso Linux 6.2 or \
                 later",
            ),
            _ => error,
        }
    })
}

/// Puts the carrier of the interface on or off, as a cable that is plugged or pulled. Holds for
/// the whole TAP.
///
/// # Errors
/// `EINVAL` on kernels before 5.0, `EPERM` when no queue is attached.
pub fn set_carrier(queue: impl AsFd, on: bool) -> SysResult<()> {
    // SAFETY: TUNSETCARRIER reads one int, which lives through the call.
    unsafe { pass_int(queue, libc::TUNSETCARRIER, libc::c_int::from(on)) }.map_err(|error| {
        SysError::new("set carrier of TAP to", if on { "on" } else { "off" }, error)
    })
}

/// Gives a detached queue back to its TAP; `EINVAL` when it is attached.
pub fn attach_queue(queue: impl AsFd) -> SysResult<()> {
    set_queue(queue, libc::IFF_ATTACH_QUEUE)
        .map_err(|error| SysError::new("attach queue of TAP", "", error))
}

/// Takes a queue out of use: the host spreads its flows over the others, and what waited in it is
/// lost. Until it is [attached](attach_queue) there is nothing to read from it; frames written to
/// it still reach the host, which learns no flow's queue from them.
///
/// # Errors
/// `EINVAL` when it is detached.
pub fn detach_queue(queue: impl AsFd) -> SysResult<()> {
    set_queue(queue, libc::IFF_DETACH_QUEUE)
        .map_err(|error| SysError::new("detach queue of TAP", "", error))
}

/// Whether a NAPI instance processes what is written to a queue.
pub fn has_napi(queue: impl AsFd) -> bool {
    // SAFETY: ifreq is plain data, valid when zeroed.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // SAFETY: TUNGETIFF writes one ifreq, which lives through the call.
    let got = unsafe { pass(queue, libc::TUNGETIFF, (&raw mut request).cast()) };
    // SAFETY: TUNGETIFF has set the flags, and a zeroed union has them as well.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    got.is_ok() && libc::c_int::from(flags) & libc::IFF_NAPI != 0
}

/// Reads one packet that the host transmits, behind its header. Bytes that do not fit into `buffer`
/// are lost.
///
/// # Errors
/// `WouldBlock` when there is none; `EBADFD` when the host has removed the interface.
pub fn read(queue: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(queue, buffer)?)
}

/// Writes one packet for the host to receive, behind its header; `parts` follow each other.
///
/// # Errors
/// `EINVAL` for a packet that the kernel does not accept, `EIO` when the interface is down, `EBADFD` when the host
/// has removed it.
pub fn write_vectored(queue: impl AsFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(rustix::io::writev(queue, parts)?)
}

// What follows up to `not_opened` allocates nothing: a forked child calls it.

fn open_device() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(DEVICE, flags, Mode::empty())?)
}

/// Makes `queue` a queue of the interface `name`: the first, or a further one. Bytes of `name` that
/// do not fit are left out.
fn set_interface(
    queue: impl AsFd,
    (kind, receive): (Kind, Receive),
    name: &[u8],
    first: bool,
    several: bool,
) -> io::Result<()> {
    // a TAP for several queues has 256 transmit queues in the kernel, each with its discipline
    let several = if several { libc::IFF_MULTI_QUEUE } else { 0 };
    let flags = kind.flag() | receive.flag() | libc::IFF_NO_PI | libc::IFF_VNET_HDR | several;
    let mut request = interface_request(flags | if first { libc::IFF_TUN_EXCL } else { 0 });
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    // SAFETY: TUNSETIFF reads and writes one ifreq, which lives through the call.
    unsafe { pass(queue, libc::TUNSETIFF, (&raw mut request).cast()) }
}

fn set_header_size(queue: impl AsFd) -> io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads one int, which lives through the call.
    unsafe { pass_int(queue, libc::TUNSETVNETHDRSZ, VNET_HEADER_BYTES as libc::c_int) }
}

fn pass_offloads(queue: impl AsFd, offloads: Offloads) -> io::Result<()> {
    let bits = libc::c_ulong::from(offloads.bits());
    // SAFETY: TUNSETOFFLOAD takes the bits themselves and follows no pointer.
    let result = unsafe { libc::ioctl(queue.as_fd().as_raw_fd(), libc::TUNSETOFFLOAD, bits) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_queue(queue: impl AsFd, flag: libc::c_int) -> io::Result<()> {
    let mut request = interface_request(flag);
    // SAFETY: TUNSETQUEUE reads one ifreq, which lives through the call.
    unsafe { pass(queue, libc::TUNSETQUEUE, (&raw mut request).cast()) }
}

fn interface_request(flags: libc::c_int) -> libc::ifreq {
    // SAFETY: ifreq is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // 16 bits, the highest of which is a flag too
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    request
}

/// # Safety
/// `operation` reads no more than one int.
unsafe fn pass_int(
    queue: impl AsFd,
    operation: libc::Ioctl,
    mut value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: by the caller.
    unsafe { pass(queue, operation, (&raw mut value).cast()) }
}

/// # Safety
/// `argument` points to what `operation` reads and writes.
unsafe fn pass(
    queue: impl AsFd,
    operation: libc::Ioctl,
    argument: *mut libc::c_void,
) -> io::Result<()> {
    // SAFETY: by the caller.
    let result = unsafe { libc::ioctl(queue.as_fd().as_raw_fd(), operation, argument) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn not_opened(cause: io::Error) -> SysError {
    let error = SysError::new("open", DEVICE, cause);
    match error.errno() {
        Some(libc::EACCES | libc::EPERM) => error.with_hint(
            "run as root, or let an administrator run `chmod 666 /dev/net/tun`; with the package: `adduser USER linkrate`",
        ),
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
            error.with_hint("`modprobe tun`; in a container, start it with --device /dev/net/tun")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloads_are_the_kernels_bits() {
        assert_eq!(Offloads::NONE.bits(), 0);
        assert_eq!(Offloads::ALL.bits(), 0x6f);
        // include/uapi/linux/if_tun.h
        assert_eq!(Offloads { uso: true, ..Offloads::NONE }.bits(), 0x60);
        assert_eq!(Offloads::NONE.to_string(), "none");
        assert_eq!(Offloads::ALL.to_string(), "checksum, tso4, tso6, tso-ecn, uso");
    }

    #[test]
    fn impossible_names_and_counts_are_refused_before_the_kernel_sees_them() {
        for (name, queues) in [("sixteen-letters!", 1), ("a/b", 1), ("t0", 0), ("t0", 257)] {
            for (kind, beginning) in [(Kind::Tap, "create TAP "), (Kind::Tun, "create TUN ")] {
                let error = Tap::of_kind(kind, name, queues).unwrap_err();
                assert!(error.to_string().starts_with(beginning), "{error}");
                assert_eq!(error.errno(), Some(libc::EINVAL));
            }
        }
    }

    #[test]
    fn a_device_that_does_not_open_comes_with_its_remedy() {
        let hint = |errno| {
            let error = not_opened(io::Error::from_raw_os_error(errno));
            assert!(error.to_string().starts_with("open /dev/net/tun: "), "{error}");
            error.hint().unwrap().to_owned()
        };
        assert!(hint(libc::EACCES).contains("chmod 666"));
        assert!(hint(libc::ENOENT).contains("modprobe tun"));
        assert!(hint(libc::EMFILE).contains("ulimit"));
    }
}
