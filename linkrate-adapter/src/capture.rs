//! Captures of a port as pcapng, on demand: what the host hands over and gets, before the offloads
//! and after, and what is on the wire.
//!
//! The device only copies a packet into a bounded queue; a thread of its own writes the file. What
//! does not fit the queue is counted and left out, so that a capture never slows the port.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use linkrate_sys::clock::monotonic_ns;
use linkrate_wire::lro::Parts;
use linkrate_wire::pcapng::{self, Direction, Interface, Packet};

use crate::counters::DeviceCounters;
use crate::frame::WireFrame;
use crate::pacing::LAW;

/// Packets between the device and the file.
const QUEUE: usize = 16_384;

/// Which side of the offloads a packet was seen on; the number of its interface in the file.
const HOST: u32 = 0;
const WIRE: u32 = 1;

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

    /// Begins a capture into `path`, after the end of one that was on.
    pub(crate) fn start(&self, path: &Path, port: &str) -> io::Result<()> {
        self.stop()?;
        let mut file = BufWriter::new(File::create(path)?);
        let mut head = Vec::new();
        pcapng::section_header("linkrate", &mut head);
        // the host's side shows packets before the offloads and after, the wire's what travels
        let link_type = LAW.capture_type();
        for side in ["host", "wire"] {
            let name = format!("{port} {side}");
            let side = Interface { name: &name, link_type, speed: None, snap_length: 0 };
            pcapng::interface_description(&side, &mut head);
        }
        file.write_all(&head)?;
        // a reader finds a whole file however early the capture ends
        file.flush()?;
        let (to_file, captured) = sync_channel(QUEUE);
        let writer = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || write(file, &captured))?;
        *self.lock() = Some(Running { to_file, writer });
        self.on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the capture and says how many packets it has; 0 when none was on.
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

    /// A frame on the wire.
    pub(crate) fn wire(
        &self,
        at_ns: u64,
        sent: bool,
        frame: &WireFrame,
        counters: &DeviceCounters,
    ) {
        if self.is_on() {
            let bytes = [frame.head(), frame.tail()].concat();
            self.put(Captured { interface: WIRE, at_ns, sent, bytes }, counters);
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
