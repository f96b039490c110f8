//! Captures of a port as pcapng, on demand: packets between host and device, and frames on each
//! link.
//!
//! The device copies a packet into a bounded queue; a thread of the capture writes the file. A packet
//! that finds the queue full is counted and left out, so that a capture never slows the port.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use linkrate_sys::clock::monotonic_ns;
use linkrate_wire::link::LinkLaw;
use linkrate_wire::lro::Parts;
use linkrate_wire::pcapng::{self, Direction, Interface, Packet};

use crate::counters::DeviceCounters;
use crate::frame::WireFrame;

/// Packets between the device and the file.
const QUEUE: usize = 16_384;

/// The number of the host's side in the file. Links follow it.
const HOST: u32 = 0;

#[derive(Debug)]
struct Captured {
    interface: u32,
    at_ns: u64,
    sent: bool,
    bytes: Vec<u8>,
}

/// A port's capture, if one is on.
#[derive(Debug, Default)]
pub(crate) struct CaptureSlot {
    on: AtomicBool,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    to_file: SyncSender<Captured>,
    writer: JoinHandle<io::Result<u64>>,
}

impl CaptureSlot {
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Begins a capture into `path`. A capture that is on ends. `links` are the laws of the port's
    /// links.
    pub(crate) fn start(
        &self,
        path: &Path,
        port: &str,
        links: impl ExactSizeIterator<Item = LinkLaw>,
    ) -> io::Result<()> {
        self.stop()?;
        let mut file = BufWriter::new(File::create(path)?);
        let mut head = Vec::new();
        pcapng::section_header("linkrate", &mut head);
        let mut describe = |side: &str, law: LinkLaw| {
            let (name, link_type) = (format!("{port} {side}"), law.capture_type());
            let side = Interface { name: &name, link_type, speed: None, snap_length: 0 };
            pcapng::interface_description(&side, &mut head);
        };
        // a TAP carries Ethernet frames, whatever the links carry
        describe("host", LinkLaw::Ethernet);
        let several = links.len() > 1;
        for (number, law) in links.enumerate() {
            let name = if several { format!("wire {number}") } else { "wire".to_owned() };
            describe(&name, law);
        }
        file.write_all(&head)?;
        // the file is whole even if the capture ends at once
        file.flush()?;
        let (to_file, captured) = sync_channel(QUEUE);
        let writer = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || write(file, &captured))?;
        *self.lock() = Some(Running { to_file, writer });
        self.on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the capture and returns the number of its packets; 0 without a capture.
    pub(crate) fn stop(&self) -> io::Result<u64> {
        self.on.store(false, Ordering::Relaxed);
        let Some(running) = self.lock().take() else { return Ok(0) };
        drop(running.to_file);
        running.writer.join().unwrap_or_else(|_| Err(io::Error::other("capture writer panicked")))
    }

    /// A packet between host and adapter.
    pub(crate) fn host(&self, at_ns: u64, sent: bool, pieces: &[&[u8]], counters: &DeviceCounters) {
        if self.is_on() {
            self.put(Captured { interface: HOST, at_ns, sent, bytes: pieces.concat() }, counters);
        }
    }

    /// A frame on link `link`.
    pub(crate) fn link(
        &self,
        link: u32,
        at_ns: u64,
        sent: bool,
        frame: &WireFrame,
        counters: &DeviceCounters,
    ) {
        if self.is_on() {
            let bytes = [frame.head(), frame.tail()].concat();
            let interface = HOST + 1 + link;
            self.put(Captured { interface, at_ns, sent, bytes }, counters);
        }
    }

    fn put(&self, captured: Captured, counters: &DeviceCounters) {
        let running = self.lock();
        let Some(running) = &*running else { return };
        if let Err(TrySendError::Full(_)) = running.to_file.try_send(captured) {
            counters.capture_lost.add(1);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes until the capture is stopped. A disk that is full ends it.
fn write(mut file: BufWriter<File>, captured: &Receiver<Captured>) -> io::Result<u64> {
    // CLOCK_MONOTONIC as the time of day
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    let boot_ns = (since_epoch.as_nanos() as u64).wrapping_sub(monotonic_ns());
    let (mut count, mut block) = (0, Vec::new());
    for packet in captured {
        let direction = if packet.sent { Direction::Outbound } else { Direction::Inbound };
        block.clear();
        let captured = Packet {
            interface: packet.interface,
            time_ns: boot_ns.wrapping_add(packet.at_ns),
            direction,
            parts: &[&packet.bytes],
            comment: None,
            snap_length: 0,
        };
        pcapng::packet(&captured, &mut block);
        file.write_all(&block)?;
        count += 1;
    }
    file.flush()?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The link types of the file's interface descriptions, and the interfaces of its packets.
    fn read(file: &Path) -> (Vec<u16>, Vec<u32>) {
        let bytes = std::fs::read(file).unwrap();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let (mut types, mut interfaces, mut at) = (Vec::new(), Vec::new(), 0);
        while at < bytes.len() {
            match word(at) {
                1 => types.push(u16::from_ne_bytes([bytes[at + 8], bytes[at + 9]])),
                6 => interfaces.push(word(at + 8)),
                _ => {}
            }
            at += word(at + 4) as usize;
        }
        (types, interfaces)
    }

    #[test]
    fn each_link_is_captured_under_its_law() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("port.pcapng");
        let (slot, counters) = (CaptureSlot::default(), DeviceCounters::default());
        let frame = WireFrame::copied(vec![0; 60]);
        slot.link(0, 1, true, &frame, &counters);
        slot.start(&file, "agg0", [LinkLaw::Ethernet, LinkLaw::Atm].into_iter()).unwrap();
        slot.host(1, true, &[&[0; 60]], &counters);
        slot.link(1, 2, true, &frame, &counters);
        slot.link(0, 3, false, &frame, &counters);
        assert_eq!(slot.stop().unwrap(), 3);
        let (types, interfaces) = read(&file);
        let (ethernet, atm) = (LinkLaw::Ethernet.capture_type(), LinkLaw::Atm.capture_type());
        assert_eq!(types, [ethernet, ethernet, atm]);
        assert_eq!(interfaces, [0, 2, 1]);
    }
}
