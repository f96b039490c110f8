//! A segment as its device thread owns it: the fabric, and the devices on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::earlier;
use crate::device::Device;
use crate::fabric::faults::{FaultInjector, Faults};
use crate::fabric::{Fabric, InFlight};
use crate::link::{Link, LinkShared};
use crate::path_change::{FrameDirection, PathChangeWatch};
use crate::pdu::Pdu;
use crate::reordering::{ReorderingCount, ReorderingWatch};

/// Frames or cells that a device takes from a link in one turn. Those that came together are taken
/// whole.
const BUDGET: u64 = 256;

/// Where the links of a device lead to.
#[derive(Debug)]
pub(crate) struct LeadsTo {
    /// The port of the fabric for each link.
    pub(crate) ports: Vec<usize>,
    /// The number of their switch in the fabric.
    pub(crate) switch: usize,
}

/// A device, with the port of the fabric that each of its links leads to.
#[derive(Debug)]
struct Station {
    device: Box<dyn Device>,
    ports: Vec<usize>,
    /// What its links lose is theirs to know.
    links: Vec<Arc<LinkShared>>,
}

/// A fabric and its devices.
#[derive(Debug)]
pub(crate) struct Segment {
    fabric: Box<dyn Fabric>,
    faults: FaultInjector,
    /// By number, which is given once.
    stations: BTreeMap<usize, Station>,
    /// Watches the order of frames while somebody wants to know.
    reordering: Option<ReorderingWatch>,
    /// Watches the ports of connections while somebody wants to know.
    path_changes: Option<PathChangeWatch>,
}

impl Segment {
    pub(crate) fn new(fabric: Box<dyn Fabric>) -> Self {
        let faults = FaultInjector::new(Faults::default());
        Self { fabric, faults, stations: BTreeMap::new(), reordering: None, path_changes: None }
    }

    /// Adds a device, whose links lead to these ports of the fabric.
    pub(crate) fn attach(
        &mut self,
        number: usize,
        device: Box<dyn Device>,
        LeadsTo { ports, switch }: LeadsTo,
    ) {
        for (port, link) in ports.iter().zip(device.links()) {
            self.fabric.attach(*port, link.spec(), switch);
        }
        let links = device.links().iter().map(|link| Arc::clone(&link.shared)).collect();
        self.stations.insert(number, Station { device, ports, links });
    }

    /// Removes a device and gives it back.
    pub(crate) fn detach(&mut self, number: usize) -> Option<Box<dyn Device>> {
        let station = self.stations.remove(&number)?;
        for port in station.ports {
            self.fabric.detach(port);
        }
        Some(station.device)
    }

    pub(crate) fn set_faults(&mut self, faults: Faults) {
        self.faults = FaultInjector::new(faults);
    }

    pub(crate) fn count_reordering(&mut self, count: ReorderingCount) {
        self.reordering = Some(ReorderingWatch::new(&count));
    }

    pub(crate) fn watch_path_changes(&mut self, watch: PathChangeWatch) {
        self.path_changes = Some(watch);
    }

    pub(crate) fn fabric(&mut self) -> &mut dyn Fabric {
        self.fabric.as_mut()
    }

    pub(crate) fn device(&mut self, number: usize) -> Option<&mut dyn Device> {
        Some(self.stations.get_mut(&number)?.device.as_mut())
    }

    pub(crate) fn devices(&mut self) -> impl Iterator<Item = &mut Box<dyn Device>> {
        self.stations.values_mut().map(|station| &mut station.device)
    }

    /// Does everything that is due by `now_ps`, and adds the payload that arrived to
    /// `carried_bytes`. False when there was nothing.
    pub(crate) fn turn(&mut self, now_ps: u64, carried_bytes: &mut usize) -> bool {
        let Self { fabric, faults, stations, reordering, path_changes } = self;
        reordering.take_if(|watch| !watch.is_wanted());
        path_changes.take_if(|watch| !watch.is_wanted());
        let mut any = false;
        for Station { device, ports, links } in stations.values_mut() {
            device.refresh(&mut |link, state: &Link| {
                fabric.set_link(ports[link], state.rate(), state.shared.is_up());
                if !state.shared.is_up() {
                    fabric.cut(ports[link], now_ps);
                }
            });
            let mut into = into(fabric.as_mut(), faults, path_changes, ports, links);
            any |= device.transmit(now_ps, &mut into);
        }
        any |= fabric.forward(now_ps);
        for Station { device, ports, links } in stations.values_mut() {
            for (link, port) in ports.iter().enumerate() {
                let Some(in_flight) = fabric.to(*port) else { continue };
                let silent = links[link].is_silent_in();
                count_dropped(in_flight, &device.links()[link]);
                let mut taken = 0;
                while taken < BUDGET {
                    let Some((at_ps, pdu)) = in_flight.arrived(now_ps) else { break };
                    taken += pdu.count();
                    if silent && !pdu.is_signal() {
                        links[link].counters.rx_lost.add(pdu.count());
                        any = true;
                        continue;
                    }
                    if let (Some(watch), Pdu::Frames(burst)) = (&mut *reordering, &pdu) {
                        watch.arrived(burst);
                    }
                    if let (Some(watch), Pdu::Frames(burst)) = (&mut *path_changes, &pdu) {
                        watch.passed(*port, FrameDirection::In, burst, at_ps);
                    }
                    *carried_bytes += pdu.payload();
                    device.receive(link, pdu, at_ps, now_ps);
                    any = true;
                }
            }
            any |=
                device.poll(now_ps, &mut into(fabric.as_mut(), faults, path_changes, ports, links));
        }
        any
    }

    /// When the segment must be called again if no doorbell rings.
    pub(crate) fn due_ps(&mut self, now_ps: u64) -> Option<u64> {
        let Self { fabric, stations, .. } = self;
        let mut due_ps = None;
        let mut sooner = |other: Option<u64>| due_ps = earlier(due_ps, other);
        for Station { device, ports, .. } in stations.values_mut() {
            sooner(device.due_ps(now_ps));
            for (link, port) in ports.iter().enumerate() {
                if let Some(in_flight) = fabric.to(*port) {
                    sooner(device.arrival_due_ps(link, in_flight));
                }
            }
        }
        // a host sees forwarded frames with its next interrupt, and not before
        sooner(fabric.due_ps(&|in_flight| {
            let links = stations.values().flat_map(|Station { device, ports, .. }| {
                (0..ports.len()).filter_map(|link| device.arrival_due_ps(link, in_flight))
            });
            links.min()
        }));
        due_ps
    }
}

/// Counts frames that were dropped on the way to a link.
fn count_dropped(in_flight: &mut InFlight, link: &Link) {
    match in_flight.take_dropped() {
        0 => {}
        dropped => link.shared.counters.rx_drop_in_flight.add(dropped),
    }
}

/// The way of a device's frames into the fabric, past the faults of the line.
fn into<'a>(
    fabric: &'a mut dyn Fabric,
    faults: &'a mut FaultInjector,
    path_changes: &'a mut Option<PathChangeWatch>,
    ports: &'a [usize],
    links: &'a [Arc<LinkShared>],
) -> impl FnMut(usize, Pdu, u64) + 'a {
    move |link, pdu, at_ps| {
        if links[link].is_silent_out() && !pdu.is_signal() {
            links[link].counters.tx_lost.add(pdu.count());
            return;
        }
        if let (Some(watch), Pdu::Frames(burst)) = (&mut *path_changes, &pdu) {
            watch.passed(ports[link], FrameDirection::Out, burst, at_ps);
        }
        faults.pass(pdu, at_ps, |pdu, at_ps| fabric.enter(ports[link], pdu, at_ps));
        match faults.take_lost() {
            0 => {}
            lost => links[link].counters.line_lost.add(lost),
        }
    }
}
