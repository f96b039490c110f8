//! The device thread of a wire: it sends, carries and receives for all its ports, each thing at
//! its time, and sleeps in between.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use linkrate_sys::wait::wait;
use linkrate_terms::BitRate;
use linkrate_wire::lro::{Parts, Row};

use super::WireKind;
use super::cable::Cable;
use super::faults::{Fate, FaultInjector, Faults};
use super::flight::Flight;
use super::switch::Switch;
use super::vlans::Vlans;
use crate::clock::DeviceClock;
use crate::counters::SwitchCounters;
use crate::frame::{Burst, Train};
use crate::port::DevicePort;
use crate::port::interrupts::next_tick_ps;
use crate::ring::Waker;

/// A wait shorter than this is not worth a system call.
const SPIN_NS: u64 = 3_000;

/// Payload after which the device gives up its CPU to whoever else wants it. Drivers and programs that
/// share it then find what was carried in the cache, where it would be gone after some megabytes.
const SERVING_BYTES: usize = 300 << 10;

/// Frames that a port receives in one turn, and what else comes with the last of them.
const BUDGET: usize = 256;

/// What the device thread is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// A port, and its number.
    Attach(usize, Box<DevicePort>),
    /// The port of that number is gone.
    Detach(usize),
    /// Faults from now on.
    Faults(Box<Faults>),
    /// What the switch's port of that number is a member of, and where it counts.
    Vlans(usize, Vlans, Arc<SwitchCounters>),
    /// The end.
    End,
}

#[derive(Debug)]
enum Medium {
    Cable(Cable),
    Switch(Switch),
}

impl Medium {
    fn enter(&mut self, from: usize, burst: Burst, at_ps: u64) {
        match self {
            Self::Cable(cable) => cable.enter(from, burst, at_ps),
            Self::Switch(switch) => switch.enter(from, burst, at_ps),
        }
    }

    /// A port's link has another rate: a switch has one of that rate at its other end.
    fn set_rate(&mut self, port: usize, rate: Option<BitRate>) {
        if let Self::Switch(switch) = self {
            switch.set_rate(port, rate);
        }
    }

    fn to(&mut self, port: usize) -> Option<&mut Flight> {
        match self {
            Self::Cable(cable) => cable.to(port),
            Self::Switch(switch) => switch.to(port),
        }
    }
}

/// Everything the thread owns.
#[derive(Debug)]
pub(crate) struct Engine {
    clock: DeviceClock,
    doorbell: Arc<Waker>,
    commands: Receiver<Command>,
    /// By number; a port that was detached leaves its place.
    ports: Vec<Option<DevicePort>>,
    medium: Medium,
    faults: FaultInjector,
    /// Payload carried since the thread slept or gave up its CPU.
    carried_bytes: usize,
}

impl Engine {
    pub(crate) fn new(
        kind: WireKind,
        clock: DeviceClock,
        doorbell: Arc<Waker>,
        commands: Receiver<Command>,
    ) -> Self {
        let medium = match kind {
            WireKind::Cable => Medium::Cable(Cable::default()),
            WireKind::Switch => Medium::Switch(Switch::default()),
        };
        let faults = FaultInjector::new(Faults::default());
        Self { clock, doorbell, commands, ports: Vec::new(), medium, faults, carried_bytes: 0 }
    }

    /// Runs until it is told to end.
    pub(crate) fn run(mut self) -> io::Result<()> {
        while self.obey() {
            if self.turn() {
                if self.carried_bytes >= SERVING_BYTES {
                    self.carried_bytes = 0;
                    std::thread::yield_now();
                }
                continue;
            }
            self.carried_bytes = 0;
            self.doorbell.will_sleep();
            let slept = self.sleep();
            self.doorbell.woken();
            slept?;
        }
        Ok(())
    }

    /// Carries out what it was told. False at the end.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Attach(number, port)) => self.attach(number, *port),
                Ok(Command::Detach(number)) => {
                    if let Some(place) = self.ports.get_mut(number) {
                        *place = None;
                    }
                    if let Medium::Switch(switch) = &mut self.medium {
                        switch.detach(number);
                    }
                }
                Ok(Command::Faults(faults)) => self.faults = FaultInjector::new(*faults),
                Ok(Command::Vlans(number, vlans, counters)) => {
                    if let Medium::Switch(switch) = &mut self.medium {
                        switch.configure(number, vlans, counters);
                    }
                }
                Ok(Command::End) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    fn attach(&mut self, number: usize, port: DevicePort) {
        if let Medium::Switch(switch) = &mut self.medium {
            switch.attach(number, port.limits.rate);
        }
        if self.ports.len() <= number {
            self.ports.resize_with(number + 1, || None);
        }
        self.ports[number] = Some(port);
    }

    /// Does everything that is due now. False when there was nothing.
    fn turn(&mut self) -> bool {
        let Self { clock, ports, medium, faults, carried_bytes, .. } = self;
        let mut any = false;
        let now_ps = clock.now_ps();
        for (number, port) in ports.iter_mut().enumerate() {
            let Some(port) = port else { continue };
            if port.refresh() {
                medium.set_rate(number, port.limits.rate);
            }
            let counters = Arc::clone(&port.shared);
            any |= port.transmit(now_ps, &mut |burst, at_ps| {
                faults.pass(burst, |fate| match fate {
                    Fate::Arrives(burst, later_ps) => medium.enter(number, burst, at_ps + later_ps),
                    // counted where it was sent from: the far end is not known yet
                    Fate::FcsError => counters.counters.lost_to_fcs.add(1),
                });
            });
        }
        if let Medium::Switch(switch) = medium {
            any |= switch.forward(now_ps);
        }
        for (number, port) in ports.iter_mut().enumerate() {
            let (Some(port), Some(flight)) = (port, medium.to(number)) else { continue };
            any |= port.carried(now_ps);
            let mut frames = 0;
            while frames < BUDGET {
                let Some((at_ps, burst)) = flight.arrived(now_ps) else { break };
                frames += burst.frames();
                *carried_bytes += burst.tail().len();
                port.receive(burst, at_ps, now_ps);
                any = true;
            }
            any |= port.interrupt(now_ps);
        }
        any
    }

    /// When there is something to do that no doorbell announces.
    fn due_ps(&mut self, now_ps: u64) -> Option<u64> {
        let mut due_ps = match &self.medium {
            Medium::Switch(switch) => switch.due_ps(),
            Medium::Cable(_) => None,
        };
        let mut sooner = |other: Option<u64>| {
            if let Some(other) = other {
                due_ps = Some(due_ps.map_or(other, |due_ps| due_ps.min(other)));
            }
        };
        for (number, port) in self.ports.iter_mut().enumerate() {
            let Some(port) = port else { continue };
            // blocks go back to their drivers
            port.trains.sweep(Train::clear);
            sooner(port.transmit_due_ps(now_ps));
            sooner(port.interrupt_due_ps());
            sooner(port.on_bus.front().map(|(done_ps, _)| *done_ps));
            // what arrives shows when the host is interrupted, and not before
            let frames = port.knobs.rx_frames as usize;
            let batch = if frames == 0 { usize::MAX } else { frames };
            let tick = |first_ps| next_tick_ps(first_ps, port.knobs.rx_usecs);
            if let Some(flight) = self.medium.to(number) {
                sooner(flight.worth_ps(batch, tick));
            }
        }
        due_ps
    }

    /// Sleeps until something is due or a driver rings.
    fn sleep(&mut self) -> io::Result<()> {
        let now_ps = self.clock.now_ps();
        let due_ps = self.due_ps(now_ps);
        let timeout_ns = due_ps.map(|due_ps| DeviceClock::ns_until(now_ps, due_ps));
        if timeout_ns.is_some_and(|ns| ns < SPIN_NS) {
            return Ok(());
        }
        wait(&[self.doorbell.as_fd()], timeout_ns)?;
        Ok(())
    }
}
