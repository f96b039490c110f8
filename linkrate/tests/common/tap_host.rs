//! TAPs in a host of a test's own, and what its kernel makes of a frame.

use std::fs;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::OwnedFd;
use std::time::Duration;

use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::tap::{self, Offloads, Tap, VNET_HEADER_BYTES};
use linkrate_wire::frame::Headers;
use linkrate_wire::vnet::{Form, VnetHeader};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::own_host::{ip, up};

/// The largest MTU of a TAP.
pub const MAX_MTU: u32 = 65_521;

/// A TAP without offloads, of the largest MTU, with room for `frames` frames that wait; not up yet.
pub fn tap(name: &str, frames: usize) -> OwnedFd {
    assert_eq!(VNET_HEADER_BYTES, Form::Plain.length());
    let tap = Tap::open(name, 1).expect("a TAP");
    let tap = tap.queues()[0].try_clone().expect("its queue");
    tap::set_offloads(&tap, Offloads::NONE).expect("no offloads");
    let mut route = RouteSocket::open().expect("netlink");
    // frees its places in batches (__ptr_ring_discard_one, include/linux/ptr_ring.h)
    route.set_tx_queue_length(name, 2 * frames as u32).expect("room");
    route.set_mtu(name, MAX_MTU).expect("the largest MTU of a TAP");
    tap
}

/// Lets the host receive a frame on a TAP, which is no superframe. The kernel has done all its work
/// when this returns.
pub fn write_plain(tap: &OwnedFd, frame: &[u8]) -> std::io::Result<usize> {
    tap::write_vectored(tap, &[&[0; VNET_HEADER_BYTES][..], frame].map(IoSlice::new))
}

/// Every frame that the host has sent on a TAP without offloads.
pub fn read_all(tap: &OwnedFd) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut buffer = vec![0; tap::MAX_READ];
    loop {
        match tap::read(tap, &mut buffer) {
            Ok(length) => {
                // complete, with nothing left to do; that its checksum was verified changes nothing
                let (reported, frame) =
                    VnetHeader::parse(&buffer[..length], Form::Plain).expect("a header");
                assert_eq!(VnetHeader { data_valid: false, ..reported }, VnetHeader::default());
                frames.push(frame.to_vec());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return frames,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Two TAPs and the bridge between them, which changes nothing in a frame. What is written into the
/// one leaves through the other, which takes no superframes, so that the kernel cuts them in
/// software.
pub struct Bridge {
    entry: OwnedFd,
    exit: OwnedFd,
}

impl Bridge {
    /// In the test's host, with room for so many frames that come of one.
    pub fn new(most_segments: usize) -> Self {
        let (entry, exit) = (tap("entry", most_segments), tap("exit", most_segments));
        ip("link add bridge type bridge stp_state 0 forward_delay 0 mcast_snooping 0");
        let mut route = RouteSocket::open().expect("netlink");
        for name in ["entry", "exit"] {
            ip(&format!("link set {name} master bridge"));
        }
        // no firewall looks at what the bridge carries; absent where the kernel has none for it
        for family in ["ip", "ip6"] {
            let _ = fs::write(format!("/proc/sys/net/bridge/bridge-nf-call-{family}tables"), "0");
        }
        route.set_mtu("bridge", MAX_MTU).expect("the MTU of its ports");
        for name in ["entry", "exit", "bridge"] {
            route.disable_ipv6(name).expect("silence");
            up(name);
        }
        // the port of the bridge may follow its link a moment later
        let bridge = Self { entry, exit };
        // a broadcast of a protocol for experiments
        let mut probe = vec![0xff; 6];
        probe.extend([0xaa, 0, 0, 0, 0, 2, 0x88, 0xb5]);
        probe.resize(100, 0);
        for _ in 0..1000 {
            write_plain(&bridge.entry, &probe).expect("written");
            if !read_all(&bridge.exit).is_empty() {
                return bridge;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the bridge forwards nothing");
    }

    /// What comes out for a superframe.
    pub fn cut(&self, header: &[u8], frame: &[u8]) -> std::io::Result<Vec<Vec<u8>>> {
        tap::write_vectored(&self.entry, &[IoSlice::new(header), IoSlice::new(frame)])?;
        Ok(read_all(&self.exit))
    }
}

/// Tries the same `cases` values of a strategy each time, and stops at the first that fails.
#[track_caller]
pub fn try_cases<S: Strategy>(
    cases: u32,
    values: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    if let Err(failure) = TestRunner::new_with_rng(config, rng).run(values, test) {
        panic!("{failure}");
    }
}

/// Fails with what differs, the frame's number and the place in it; two frames may differ where
/// `excuses` says so.
pub fn compare(
    ours: &[Vec<u8>],
    kernel: &[Vec<u8>],
    excuses: impl Fn(&[u8], &[u8]) -> bool,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(ours.len(), kernel.len(), "number of frames");
    for (number, (ours, kernel)) in ours.iter().zip(kernel).enumerate() {
        if ours != kernel && !excuses(ours, kernel) {
            let at = ours.iter().zip(kernel).position(|(ours, theirs)| ours != theirs);
            let headers = Headers::parse(ours);
            prop_assert!(
                false,
                "frame {number} of {} bytes differs at byte {at:?}: ours {:02x?}, kernel's ({}) {:02x?}, {headers:?}",
                ours.len(),
                &ours[..ours.len().min(160)],
                kernel.len(),
                &kernel[..kernel.len().min(160)]
            );
        }
    }
    Ok(())
}

/// What was compared, counted by name: a comparison that met nothing proves nothing.
#[derive(Debug, Default)]
pub struct Tally(std::collections::BTreeMap<&'static str, u32>);

impl Tally {
    /// Adds what holds.
    pub fn count<const N: usize>(&mut self, names: [(&'static str, bool); N]) {
        for (name, holds) in names {
            self.add(name, u32::from(holds));
        }
    }

    pub fn add(&mut self, name: &'static str, count: u32) {
        *self.0.entry(name).or_default() += count;
    }

    /// There must be so many at least.
    #[track_caller]
    pub fn expect(&self, name: &str, least: u32) {
        let found = self.0.get(name).copied().unwrap_or(0);
        assert!(found >= least, "{name}: {found}, expected at least {least}: {self:?}");
    }
}
