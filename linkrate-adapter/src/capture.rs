//! Captures of a port as pcapng, on demand: packets between host and device, and frames on each
//! link.
//!
//! The device copies a packet into a queue; a thread of its own writes the file. The queue is
//! bounded in bytes. A packet that does not fit is counted and left out, so a capture never slows the
//! port, and a file that takes no bytes never stops anything else.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::open_file;
use linkrate_wire::erf::Origin;
use linkrate_wire::link::LinkLaw;
use linkrate_wire::lro::Parts;
use linkrate_wire::pcapng::{self, Direction, Interface, Packet};

use crate::counters::DeviceCounters;
use crate::frame::WireFrame;

/// Memory of the packets between the device and the file.
const QUEUE_BYTES: usize = 64 << 20;

/// Memory of a packet beside its bytes: its entry in the queue, and what the allocator adds.
const ENTRY_BYTES: usize = size_of::<Captured>() + 16;

/// Bytes that are written with one system call.
const WRITE_BYTES: usize = 16 << 10;

/// How often a writer that waits for room checks whether its packets are still wanted.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long a writer may take to notice that they are not.
const ABANDON: Duration = Duration::from_millis(500);

/// `LINKTYPE_RAW`: IP packets.
const RAW_IP: u16 = 101;

/// The lowest bit of the interface of an ERF record, which Wireshark takes for the direction.
const FROM_END_SYSTEM: u8 = 0;
const TO_END_SYSTEM: u8 = 1;

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
    packets: Sender<Captured>,
    shared: Arc<Shared>,
    ended: Receiver<()>,
}

/// What the device, the writer and the controller share about one capture.
#[derive(Debug, Default)]
struct Shared {
    /// CLOCK_MONOTONIC zero as the time of day.
    boot_ns: u64,
    /// Memory of the packets in the queue.
    queued: AtomicUsize,
    /// Packets that the device saw, and packets that the file has.
    seen: AtomicU64,
    written: AtomicU64,
    /// The packets that are left are not wanted any more.
    abandoned: AtomicBool,
    /// Why the writer ended before the capture did.
    failure: OnceLock<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureTotal {
    /// Packets in the file.
    pub packets: u64,
    /// Packets that are not in the file.
    pub lost: u64,
    /// Why writing ended early, if it did.
    pub failure: Option<String>,
}

/// A capture that takes no more packets, whose file may not have all of them yet.
#[derive(Debug)]
pub struct CaptureEnding {
    shared: Arc<Shared>,
    ended: Receiver<()>,
}

impl CaptureSlot {
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Begins a capture into `file`, which it empties. A capture that is on ends. `links` are the
    /// laws of the port's links.
    pub(crate) fn start(
        &self,
        file: File,
        port: &str,
        links: impl ExactSizeIterator<Item = LinkLaw>,
    ) -> io::Result<()> {
        let is_regular = file.metadata()?.is_file();
        if !is_regular {
            open_file::set_nonblocking(&file)?;
        }
        let mut head = Vec::new();
        pcapng::section_header("linkrate", &mut head);
        let mut describe = |side: &str, link_type: u16| {
            let name = format!("{port} {side}");
            let side = Interface { name: &name, link_type, speed: None, snap_length: 0 };
            pcapng::interface_description(&side, &mut head);
        };
        let links: Vec<LinkLaw> = links.collect();
        // the interface of an ATM port carries IP packets
        let cells = links.contains(&LinkLaw::Atm);
        describe("host", if cells { RAW_IP } else { LinkLaw::Ethernet.capture_type() });
        for (number, law) in links.iter().enumerate() {
            let name = if links.len() > 1 { format!("wire {number}") } else { "wire".to_owned() };
            describe(&name, law.capture_type());
        }
        // CLOCK_MONOTONIC as the time of day
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
        let boot_ns = (since_epoch.as_nanos() as u64).wrapping_sub(monotonic_ns());
        let (packets, captured) = channel();
        // the receiver learns the end of the writer from the sender's
        let (end, ended) = sync_channel(0);
        let shared = Arc::new(Shared { boot_ns, ..Shared::default() });
        let mut writer = Writer { file, shared: Arc::clone(&shared), boot_ns, block: head };
        std::thread::Builder::new().name("capture".to_owned()).spawn(move || {
            // a file system may take long to free the blocks of a long file
            let emptied = if is_regular { writer.file.set_len(0) } else { Ok(()) };
            if let Err(error) = emptied.and_then(|()| writer.run(&captured))
                && !writer.shared.abandoned.load(Ordering::Relaxed)
            {
                // it is set once
                let _ = writer.shared.failure.set(error.to_string());
            }
            drop(end);
        })?;
        *self.lock() = Some(Running { packets, shared, ended });
        self.on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the capture, if one is on.
    pub(crate) fn stop(&self) -> Option<CaptureEnding> {
        self.on.store(false, Ordering::Relaxed);
        // without its sender the writer ends with the last packet
        let Running { shared, ended, .. } = self.lock().take()?;
        Some(CaptureEnding { shared, ended })
    }

    /// Why the file gets no more packets, if writing it has failed.
    pub(crate) fn failure(&self) -> Option<String> {
        self.lock().as_ref()?.shared.failure.get().cloned()
    }

    /// A packet between host and adapter.
    pub(crate) fn host(&self, at_ns: u64, sent: bool, pieces: &[&[u8]], counters: &DeviceCounters) {
        if self.is_on() {
            self.put((HOST, at_ns, sent), pieces, counters);
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
            self.put((HOST + 1 + link, at_ns, sent), &[frame.head(), frame.tail()], counters);
        }
    }

    /// What `write` writes of cells on link `link`: ERF records.
    pub(crate) fn cells(
        &self,
        link: u32,
        at_ns: u64,
        sent: bool,
        counters: &DeviceCounters,
        write: impl FnOnce(Origin, &mut Vec<u8>),
    ) {
        if !self.is_on() {
            return;
        }
        let boot_ns = self.lock().as_ref().map_or(0, |running| running.shared.boot_ns);
        let interface = if sent { FROM_END_SYSTEM } else { TO_END_SYSTEM };
        let time_ns = boot_ns.wrapping_add(at_ns);
        let mut record = Vec::new();
        write(Origin { time_ns, interface, lost: 0 }, &mut record);
        self.put((HOST + 1 + link, at_ns, sent), &[&record], counters);
    }

    fn put(
        &self,
        (interface, at_ns, sent): (u32, u64, bool),
        pieces: &[&[u8]],
        counters: &DeviceCounters,
    ) {
        let running = self.lock();
        let Some(Running { packets, shared, .. }) = &*running else { return };
        shared.seen.fetch_add(1, Ordering::Relaxed);
        let memory = ENTRY_BYTES + pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let taken = shared.queued.load(Ordering::Relaxed) + memory <= QUEUE_BYTES && {
            // before it is sent: the writer subtracts it
            shared.queued.fetch_add(memory, Ordering::Relaxed);
            // it fails once the writer has failed
            packets.send(Captured { interface, at_ns, sent, bytes: pieces.concat() }).is_ok()
        };
        if !taken {
            counters.capture_lost.add(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CaptureEnding {
    /// Waits until the file has all packets, for `timeout` and half a second at most. Packets that
    /// it has not taken by then are lost.
    pub fn wait(self, timeout: Duration) -> CaptureTotal {
        let Self { shared, ended } = self;
        let is_late = |timeout| ended.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout);
        if is_late(timeout) {
            shared.abandoned.store(true, Ordering::Relaxed);
            if is_late(ABANDON) {
                let _ = shared.failure.set("the file takes no bytes".to_owned());
            }
        }
        let packets = shared.written.load(Ordering::Relaxed);
        let lost = shared.seen.load(Ordering::Relaxed).saturating_sub(packets);
        CaptureTotal { packets, lost, failure: shared.failure.get().cloned() }
    }
}

/// The writing end of a capture.
#[derive(Debug)]
struct Writer {
    file: File,
    shared: Arc<Shared>,
    /// CLOCK_MONOTONIC zero as the time of day.
    boot_ns: u64,
    /// What is to be written next.
    block: Vec<u8>,
}

impl Writer {
    /// Writes until the capture is stopped, the file fails, or the packets are abandoned.
    fn run(&mut self, captured: &Receiver<Captured>) -> io::Result<()> {
        let mut packets = 0;
        loop {
            let packet = match captured.try_recv() {
                Ok(packet) => packet,
                Err(TryRecvError::Disconnected) => return self.flush(&mut packets),
                Err(TryRecvError::Empty) => {
                    // a reader of a FIFO sees packets as they come
                    self.flush(&mut packets)?;
                    match captured.recv() {
                        Ok(packet) => packet,
                        Err(_) => return Ok(()),
                    }
                }
            };
            self.add(&packet);
            packets += 1;
            let memory = ENTRY_BYTES + packet.bytes.len();
            drop(packet);
            self.shared.queued.fetch_sub(memory, Ordering::Relaxed);
            if self.block.len() >= WRITE_BYTES {
                self.flush(&mut packets)?;
            }
        }
    }

    fn add(&mut self, packet: &Captured) {
        let direction = if packet.sent { Direction::Outbound } else { Direction::Inbound };
        let captured = Packet {
            interface: packet.interface,
            time_ns: self.boot_ns.wrapping_add(packet.at_ns),
            direction,
            parts: &[&packet.bytes],
            comment: None,
            snap_length: 0,
        };
        pcapng::packet(&captured, &mut self.block);
    }

    /// Writes what was added, and counts its packets.
    fn flush(&mut self, packets: &mut u64) -> io::Result<()> {
        let mut written = 0;
        while written < self.block.len() {
            if self.shared.abandoned.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.file.write(&self.block[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    open_file::await_room(&self.file, POLL_INTERVAL)?;
                }
                Err(error) => return Err(error),
            }
        }
        self.block.clear();
        self.shared.written.fetch_add(std::mem::take(packets), Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::os::fd::OwnedFd;
    use std::time::Instant;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn ethernet() -> impl ExactSizeIterator<Item = LinkLaw> {
        std::iter::once(LinkLaw::Ethernet)
    }

    fn put(slot: &CaptureSlot, count: usize, bytes: usize, counters: &DeviceCounters) {
        let packet = vec![7; bytes];
        (0..count).for_each(|at_ns| slot.host(at_ns as u64, true, &[&packet], counters));
    }

    /// The link types of the file's interface descriptions, and the interfaces of its packets.
    fn read(bytes: &[u8]) -> (Vec<u16>, Vec<u32>) {
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
        let (mut reader, writer) = io::pipe().unwrap();
        let (slot, counters) = (CaptureSlot::default(), DeviceCounters::default());
        let frame = WireFrame::copied(vec![0; 60]);
        slot.link(0, 1, true, &frame, &counters);
        let laws = [LinkLaw::Ethernet, LinkLaw::Atm].into_iter();
        slot.start(File::from(OwnedFd::from(writer)), "agg0", laws).unwrap();
        slot.host(1, true, &[&[0; 60]], &counters);
        slot.link(1, 2, true, &frame, &counters);
        slot.link(0, 3, false, &frame, &counters);
        assert_eq!(slot.stop().unwrap().wait(TIMEOUT).packets, 3);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        let (types, interfaces) = read(&bytes);
        let (ethernet, atm) = (LinkLaw::Ethernet.capture_type(), LinkLaw::Atm.capture_type());
        // a port with a link of cells has IP packets at its host
        assert_eq!(types, [RAW_IP, ethernet, atm]);
        assert_eq!(interfaces, [0, 2, 1]);
    }

    #[test]
    fn a_file_has_every_packet_that_was_put() {
        let path = std::env::temp_dir().join(format!("linkrate-capture-{}", std::process::id()));
        std::fs::write(&path, "what was there before").unwrap();
        let mut file = File::options().read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let (slot, counters) = (CaptureSlot::default(), DeviceCounters::default());
        put(&slot, 1, 100, &counters);
        slot.start(file.try_clone().unwrap(), "eth0", ethernet()).unwrap();
        put(&slot, 1000, 100, &counters);
        let total = slot.stop().unwrap().wait(TIMEOUT);
        assert_eq!(total, CaptureTotal { packets: 1000, lost: 0, failure: None });
        assert!(slot.stop().is_none());
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
        assert!(bytes.len() > 1000 * 100 && bytes.len() < 1000 * 200, "{}", bytes.len());
    }

    #[test]
    fn a_pipe_that_nobody_reads_bounds_memory_and_waits() {
        let (_reader, writer) = io::pipe().unwrap();
        let (slot, counters) = (CaptureSlot::default(), DeviceCounters::default());
        slot.start(File::from(OwnedFd::from(writer)), "eth0", ethernet()).unwrap();
        put(&slot, 3 * QUEUE_BYTES / (60 << 10), 60 << 10, &counters);
        let queued = slot.lock().as_ref().unwrap().shared.queued.load(Ordering::Relaxed);
        assert!(queued <= QUEUE_BYTES && queued > QUEUE_BYTES / 2, "{queued}");
        // small packets take more memory than their bytes
        put(&slot, QUEUE_BYTES / 100, 1, &counters);
        let queued = slot.lock().as_ref().unwrap().shared.queued.load(Ordering::Relaxed);
        assert!(queued <= QUEUE_BYTES, "{queued}");
        assert!(counters.capture_lost.get() > 0);
        let began = Instant::now();
        let ending = slot.stop().unwrap();
        assert!(began.elapsed() < ABANDON, "stopping does not wait");
        let total = ending.wait(Duration::from_millis(100));
        assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
        let put = (3 * QUEUE_BYTES / (60 << 10) + QUEUE_BYTES / 100) as u64;
        assert_eq!((total.packets + total.lost, total.failure), (put, None));
    }

    #[test]
    fn a_file_that_fails_says_why_and_stops_nothing() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let full = File::options().write(true).open("/dev/full").unwrap();
        for (file, reason) in
            [(File::from(OwnedFd::from(writer)), "Broken pipe"), (full, "No space left")]
        {
            let (slot, counters) = (CaptureSlot::default(), DeviceCounters::default());
            slot.start(file, "eth0", ethernet()).unwrap();
            let deadline = Instant::now() + TIMEOUT;
            while slot.failure().is_none() {
                assert!(Instant::now() < deadline);
                put(&slot, 1, 100, &counters);
                std::thread::sleep(Duration::from_millis(1));
            }
            put(&slot, 10, 100, &counters);
            assert!(counters.capture_lost.get() >= 10);
            let total = slot.stop().unwrap().wait(TIMEOUT);
            assert!(total.failure.unwrap().contains(reason));
            assert_eq!(total.packets, 0);
        }
    }
}
