//! Ports and segments as the controller holds them: attach, read, set, and remove.

mod link;
mod offload;
mod segment;

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use linkrate_model::lab::{AtmArpReport, ConnectionReport, LaneReport};
use linkrate_model::{AtmKnobs, PortKnobs};

use crate::AdapterError;
use crate::aggregate::Aggregate;
use crate::atm::{ArpShared, AtmShared, OF_SERVER};
use crate::capture::CaptureEnding;
use crate::counters::{AtmSwitchCounters, DriverCounters, ElanCounters, Snapshot};
use crate::device_threads::DeviceThread;
use crate::engine::{Command, Place};
use crate::fabric::bridged::BridgeShared;
use crate::interface::driver::DrivenQueue;
use crate::port_shared::PortShared;

pub use link::PortLink;
use link::SwitchEnd;
#[cfg(test)]
pub(crate) use segment::HostEnd;
pub use segment::{HostSide, PortSpec, Segment};

/// How long a device thread may take to release a port.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long the file of a capture may take for its last packets when the port goes.
pub const CAPTURE_TIMEOUT: Duration = Duration::from_secs(1);

/// A port. Dropping it ends its drivers, and with the last handle of the TAP its interface goes.
#[derive(Debug)]
pub struct Port {
    /// Its state, which the device shares.
    pub shared: Arc<PortShared>,
    place: Place,
    /// Of each queue.
    counters: Vec<Arc<DriverCounters>>,
    /// The switch's ports that its links lead to; empty on a cable.
    switch: Vec<SwitchEnd>,
    /// What there is of ATM behind its links.
    atm: AtmBehind,
    /// Its queues that driver threads serve.
    drivers: Vec<DrivenQueue>,
    /// The aggregate whose drivers serve it, and its number there.
    member_of: Option<(Arc<Aggregate>, usize)>,
    thread: Arc<DeviceThread>,
    /// Connections that its TCP offload engine holds.
    most_connections: usize,
    /// Whether the device thread still serves it.
    attached: bool,
}

/// What of a segment's ATM counts at a port; nothing where there is none.
#[derive(Debug, Clone, Default)]
struct AtmBehind {
    /// The counters of the switch's port that it leads to.
    cells: Option<Arc<AtmSwitchCounters>>,
    /// Those of the servers of emulated LANs in this switch.
    elans: Option<Arc<ElanCounters>>,
    /// The bridge between an Ethernet switch and an emulated LAN.
    bridge: Option<Arc<BridgeShared>>,
    /// The ATMARP server in this switch.
    server: Option<Arc<ArpShared>>,
}

impl AtmBehind {
    fn values(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let cells = self.cells.iter().flat_map(|cells| cells.values());
        let servers = self.elans.iter().flat_map(|elans| elans.values());
        let of_server = self.server.iter().flat_map(|server| server.counters.values());
        let of_server = of_server.filter(|(name, _)| name.starts_with(OF_SERVER));
        let bridge = self.bridge.iter();
        let bridge = bridge.flat_map(|one| one.lane.counters.values().chain(one.counters.values()));
        cells.chain(servers).chain(of_server).chain(bridge)
    }
}

impl Port {
    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.interface.name()
    }

    /// Every counter, with those of its queues and of the switch's ports that it leads to.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        let mut all = self.shared.counters();
        for (name, value) in self.counters.iter().flat_map(|queue| queue.values()) {
            *all.entry(name.to_owned()).or_default() += value;
        }
        for (name, value) in self.switch.iter().flat_map(|end| end.counters.values()) {
            *all.entry(name.to_owned()).or_default() += value;
        }
        all.extend(self.atm.values().map(|(name, value)| (name.to_owned(), value)));
        all
    }

    /// Its connections, with their other ends; empty where the links carry frames.
    #[must_use]
    pub fn connections(&self) -> Vec<ConnectionReport> {
        let reports =
            |atm: &Arc<AtmShared>| atm.channels().iter().map(|one| one.report()).collect();
        self.shared.atm.as_ref().map_or_else(Vec::new, reports)
    }

    /// Its client of an emulated LAN, or at an Ethernet port that of the bridge behind its switch; `None`
    /// where there is none.
    #[must_use]
    pub fn lane(&self) -> Option<LaneReport> {
        let of_bridge = || self.atm.bridge.as_ref().map(|bridge| &bridge.lane);
        let own = self.shared.atm.as_ref().and_then(|atm| atm.lane.get());
        Some(own.or_else(of_bridge)?.report())
    }

    /// Its client of an ATMARP server, and what the server knows; `None` where its connections are no
    /// calls.
    #[must_use]
    pub fn atmarp(&self) -> Option<AtmArpReport> {
        let client = self.shared.atm.as_ref()?.atmarp.get()?;
        let now = Duration::from_nanos(self.thread.clock.now_ps() / 1000);
        Some(AtmArpReport {
            trouble: client.trouble(),
            cache: client.entries(now),
            server: self.atm.server.as_ref().map_or_else(Vec::new, |server| server.entries(now)),
        })
    }

    /// Why it carries no packets any more: a thread that serves it has ended, or its interface is
    /// gone.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        let of_driver = || self.drivers.iter().find_map(DrivenQueue::why_ended);
        let of_interface =
            || self.shared.interface.is_broken().then(|| "its interface is gone".to_owned());
        let of_aggregate = || self.member_of.as_ref().and_then(|(of, _)| of.broken());
        self.thread.why_ended().or_else(of_driver).or_else(of_interface).or_else(of_aggregate)
    }

    /// Its place in its aggregate; `None` where it has an interface of its own.
    #[must_use]
    pub fn place(&self) -> Option<usize> {
        self.member_of.as_ref().map(|(_, place)| *place)
    }

    /// Tells a port of an aggregate to leave in good order, or to come back. The group of the switch must
    /// be told too ([`Segment::set_group`]). A port with an interface of its own ignores it.
    pub fn set_leaving(&self, leaves: bool) {
        if let Some((aggregate, place)) = &self.member_of {
            aggregate.set_leaving(*place, leaves);
        }
    }

    /// The driver threads that take the interrupts of its queues, in their order, as indices among those of its host; empty
    /// where the device thread serves it, or an aggregate.
    #[must_use]
    pub fn driver_threads(&self) -> Vec<usize> {
        self.drivers.iter().map(DrivenQueue::thread).collect()
    }

    /// Requests settings while traffic flows.
    pub fn set_knobs(&self, knobs: PortKnobs) {
        self.shared.settings.request(knobs);
        self.thread.doorbell.ring();
    }

    #[must_use]
    pub fn requested_knobs(&self) -> PortKnobs {
        self.shared.settings.requested().1
    }

    /// Whether one of its links is up.
    #[must_use]
    pub fn has_carrier(&self) -> bool {
        self.shared.links.iter().any(|link| link.is_up())
    }

    /// Requests settings of an ATM port while traffic flows. Other ports ignore it.
    pub fn set_atm_knobs(&self, knobs: AtmKnobs) {
        if let Some(atm) = &self.shared.atm {
            atm.settings.request(knobs);
            self.thread.doorbell.ring();
        }
    }

    /// The settings that the device of an ATM port says it works with; `None` of another port. Fails when the
    /// device does not answer.
    pub fn applied_atm_knobs(&self) -> Result<Option<AtmKnobs>, AdapterError> {
        let Some(atm) = &self.shared.atm else { return Ok(None) };
        let unanswered = |_| AdapterError::NotAcknowledged { name: self.name().to_owned() };
        let ended = || self.thread.why_ended().is_some();
        atm.settings.applied(ended).map(Some).map_err(unanswered)
    }

    /// The settings that the device says it works with. Fails when the device does not answer.
    pub fn applied_knobs(&self) -> Result<PortKnobs, AdapterError> {
        let unanswered = |_| AdapterError::NotAcknowledged { name: self.name().to_owned() };
        self.shared.settings.applied(|| self.thread.why_ended().is_some()).map_err(unanswered)
    }

    /// Makes the device ignore requests for settings, or obey them again. This fault tests the
    /// read-back.
    pub fn set_stuck(&self, stuck: bool) {
        self.shared.stuck.store(stuck, Ordering::Relaxed);
    }

    /// Its links, by their numbers.
    pub fn links(&self) -> impl ExactSizeIterator<Item = PortLink<'_>> {
        (0..self.shared.links.len()).map(|number| PortLink { port: self, number })
    }

    /// Begins a capture of this port into a file that is open for writing, as pcapng. The file is emptied. Fails if
    /// the file cannot be emptied, or the thread that writes it cannot be started.
    pub fn start_capture(&self, file: File) -> Result<(), AdapterError> {
        let failed = |cause| AdapterError::Io { what: "start capture".to_owned(), cause };
        let laws = self.shared.links.iter().map(|link| link.law());
        self.shared.capture.start(file, self.name(), laws).map_err(failed)
    }

    /// Ends the capture, if one is on. The file may take longer.
    #[must_use]
    pub fn stop_capture(&self) -> Option<CaptureEnding> {
        self.shared.capture.stop()
    }

    /// Why the file of the capture gets no more packets, if writing it has failed.
    #[must_use]
    pub fn capture_failure(&self) -> Option<String> {
        self.shared.capture.failure()
    }

    /// Removes it without waiting for the file of its capture, if one is on. Whoever drops a port
    /// instead waits for the file.
    #[must_use]
    pub fn remove(mut self) -> Option<CaptureEnding> {
        self.detach()
    }

    /// Ends its drivers and its device. Returns the capture, which has the last packets.
    fn detach(&mut self) -> Option<CaptureEnding> {
        if !std::mem::take(&mut self.attached) {
            return None;
        }
        // driver threads release its queues
        self.drivers.clear();
        if let Some((aggregate, number)) = &self.member_of {
            aggregate.remove(*number);
        }
        // after its answer, the device thread holds no handle of the TAP
        let (answer, answered) = sync_channel(1);
        if self.thread.send_command(Command::Detach(self.place, answer)).is_ok() {
            let _ = answered.recv_timeout(TIMEOUT);
        }
        self.shared.capture.stop()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Some(ending) = self.detach() {
            ending.wait(CAPTURE_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;
    use std::time::Instant;

    use linkrate_model::topology::Fabric;
    use linkrate_model::{CpuSet, model};
    use linkrate_sys::sched::{affinity, current_thread};
    use linkrate_wire::link::LinkLaw;

    use super::*;
    use crate::device_threads::tests::Broken;
    use crate::{DeviceSpec, DeviceThreads};

    fn threads() -> DeviceThreads {
        let cpu = affinity(current_thread()).unwrap().iter().next().unwrap();
        DeviceThreads::new(&CpuSet::from_iter([cpu]))
    }

    /// A port whose capture goes to a pipe that is full, and the end of the pipe.
    fn captured(threads: &mut DeviceThreads) -> (Segment, Port, std::io::PipeReader) {
        let mut segment = threads.segment(Fabric::Cable, LinkLaw::Ethernet).unwrap();
        // a socket stands for the TAP
        let (_, tap) = UnixDatagram::pair().unwrap();
        tap.set_nonblocking(true).unwrap();
        let port = segment
            .attach(PortSpec {
                name: "eth0".to_owned(),
                queues: vec![tap.into()],
                device: DeviceSpec::of(&model::find("gigabit").unwrap()),
                knobs: PortKnobs::default(),
                bus: None,
                host: HostSide::Device,
                switch: 0,
            })
            .unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        port.start_capture(File::from(OwnedFd::from(writer))).unwrap();
        for at_ns in 0..100 {
            let shared = &port.shared;
            shared.capture.host(at_ns, true, &[&[0; 4096]], &shared.counters);
        }
        (segment, port, reader)
    }

    #[test]
    fn removing_a_port_does_not_wait_for_the_file_of_its_capture_and_dropping_it_does() {
        let mut threads = threads();
        let (_segment, port, _reader) = captured(&mut threads);
        let began = Instant::now();
        let ending = port.remove().unwrap();
        assert!(began.elapsed() < CAPTURE_TIMEOUT / 2, "{:?}", began.elapsed());
        let total = ending.wait(Duration::ZERO);
        assert_eq!((total.packets + total.lost, total.failure), (100, None));
        let (_segment, port, _reader) = captured(&mut threads);
        let began = Instant::now();
        drop(port);
        assert!(began.elapsed() >= CAPTURE_TIMEOUT, "{:?}", began.elapsed());
    }

    #[test]
    fn an_identifier_that_is_in_use_gets_no_second_connection() {
        let mut segment = threads().segment(Fabric::Switch, LinkLaw::Atm).unwrap();
        let end = |port, vci| (port, crate::Connection { vpi: 0, vci });
        segment.connect(end(0, 101), end(1, 100)).unwrap();
        for (one, other, said) in [
            (
                end(0, 102),
                end(1, 100),
                "end 1 of a permanent connection: VPI 0 and VCI 100 are in use",
            ),
            (end(0, 5), end(2, 100), "end 0 of a permanent connection: VCI 5 is reserved"),
            (end(0, 102), end(2, 1024), "expected up to 0 and 1023"),
        ] {
            let refused = segment.connect(one, other).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
        // those that were refused have taken nothing
        segment.connect(end(0, 102), end(2, 100)).unwrap();
    }

    #[test]
    fn a_port_of_a_thread_that_died_says_why_it_is_broken() {
        let mut threads = threads();
        let (_segment, port, _reader) = captured(&mut threads);
        assert_eq!(port.broken(), None);
        port.thread.send_command(Command::AddSegment(7, Box::new(Broken))).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        let why = loop {
            match port.broken() {
                Some(why) => break why,
                None => assert!(Instant::now() < deadline),
            }
        };
        assert!(why.ends_with("has ended: panic: this fabric is broken"), "{why}");
        drop(port.remove());
    }
}
