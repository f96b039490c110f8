//! A softirq load that interrupts an idle CPU, as receive processing does: another CPU sends
//! datagrams, which are steered to this one, where the filter of a socket holds each for a known
//! time.
//!
//! The work belongs to no thread, so only the filter's own clock readings tell its size. At a fast
//! pace each datagram also wakes a thread that waits for it on this CPU.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use linkrate_lab::Placement;
use linkrate_lab::testbed::{LabOptions, Testbed};
use linkrate_model::{CpuSet, TestbedSpec};
use linkrate_protocol::{Reply, Request};
use linkrate_sys::clock::{monotonic_ns, sleep_until_ns};
use linkrate_sys::error::{SysError, SysResult};
use linkrate_sys::host::Privilege;
use linkrate_sys::host::join::Namespaces;
use linkrate_sys::netstat::receive_packets_by_cpu;
use linkrate_sys::sched;
use linkrate_sys::softirq_spin::{MAX_NS, SoftirqSpin, Spin, Spun};

use super::load::{Load, LoadReading, Pace};

/// Number of datagrams of the trial that checks the steering.
const TRIAL: u64 = 5;

/// The filter of a load at a slow pace.
const LONG: Spin = Spin { ns: MAX_NS, arrives: false };

/// The receiving thread of a load looks this often whether it should end.
const RECEIVER_POLLS: Duration = Duration::from_millis(50);

/// A host whose loopback interface is steered to one CPU; it receives the datagrams.
#[derive(Debug)]
pub struct Steered {
    cpu: u32,
    senders: CpuSet,
    sender: Arc<UdpSocket>,
    receiver: Arc<UdpSocket>,
    /// Length of a long spin as measured, ns.
    long_ns: u64,
    _testbed: Testbed,
}

impl Steered {
    /// Builds a testbed and steers its system under test's loopback to the first of its CPUs. Fails with the reason why
    /// steering is not possible here.
    pub fn build(
        program: &Path,
        stop: &Arc<AtomicBool>,
        placement: &Placement,
    ) -> Result<Self, String> {
        if placement.is_shared() {
            return Err("no other CPU is available to send from".to_owned());
        }
        let cpu = placement.sut.iter().next().ok_or("the system under test has no CPU")?;
        let program = program.to_owned();
        let options = LabOptions::new(program, Arc::clone(stop));
        let mut testbed = Testbed::build(&TestbedSpec::default(), placement, &options)
            .map_err(|error| error.to_string())?;
        if testbed.privilege() != Some(Privilege::Root) {
            return Err("only root may steer receive processing".to_owned());
        }
        let cpus = [cpu].into_iter().collect();
        let steer = Request::SteerReceive { name: "lo".to_owned(), cpus };
        let connection = &mut testbed.sut.connection;
        match connection.ask(&steer) {
            Ok(Reply::Done) => {}
            Ok(_) => return Err(connection.unexpected("SteerReceive").to_string()),
            Err(error) => return Err(error.to_string()),
        }
        let namespaces = Namespaces::of(testbed.sut.pid()).map_err(|error| error.to_string())?;
        let (sender, receiver) =
            namespaces.loopback_sockets().map_err(|error| error.to_string())?;
        let address = receiver.local_addr().map_err(|error| error.to_string())?;
        sender.connect(address).map_err(|error| error.to_string())?;
        receiver.set_read_timeout(Some(RECEIVER_POLLS)).map_err(|error| error.to_string())?;
        let mut steered = Self {
            cpu,
            senders: placement.clients.clone(),
            sender: Arc::new(sender),
            receiver: Arc::new(receiver),
            long_ns: u64::from(LONG.ns),
            _testbed: testbed,
        };
        steered.long_ns = steered.try_out().map_err(|error| error.to_string())?;
        Ok(steered)
    }

    /// Sends a few datagrams and checks which CPU processes them. Returns the length of a spin, ns.
    fn try_out(&self) -> SysResult<u64> {
        let spin = SoftirqSpin::attach(&self.receiver, LONG)?;
        let failed = |what: String| {
            let error = std::io::Error::other(what);
            SysError::new("steer datagrams to CPU", self.cpu.to_string(), error)
        };
        let there = || Ok(receive_packets_by_cpu()?.get(&self.cpu).copied().unwrap_or(0));
        let before: u64 = there()?;
        for _ in 0..TRIAL {
            self.sender.send(&[0]).map_err(|error| failed(error.to_string()))?;
            sleep_until_ns(monotonic_ns() + 2 * u64::from(LONG.ns));
        }
        let (processed, spun) = (there()? - before, spin.spun()?);
        if spun.datagrams < TRIAL || processed < TRIAL {
            return Err(failed(format!(
                "of {TRIAL} datagrams it processed {processed}, and the filter held {}",
                spun.datagrams
            )));
        }
        Ok(spun.ns / spun.datagrams)
    }

    /// Starts a load of `share` of the CPU.
    pub fn load(&self, share: f64, pace: Pace) -> SysResult<SteeredLoad<'_>> {
        let (kind, interval_ns) = match pace {
            // the measured length of a spin, not the requested one
            Pace::Slow => (LONG, self.long_ns as f64 / share),
            Pace::Fast => {
                let interval_ns = pace.period_ns() as f64;
                (Spin { ns: (share * interval_ns) as u32, arrives: true }, interval_ns)
            }
        };
        let spin = SoftirqSpin::attach(&self.receiver, kind)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut load = SteeredLoad { steered: self, spin, stop, threads: Vec::new() };
        let (stopped, sender) = (Arc::clone(&load.stop), Arc::clone(&self.sender));
        let send = move || {
            let began_ns = monotonic_ns();
            for number in 1u32.. {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                // a lost datagram is missing in the sum too
                let _ = sender.send(&[0]);
                sleep_until_ns(began_ns + (f64::from(number) * interval_ns) as u64);
            }
        };
        if kind.arrives {
            let (stopped, receiver) = (Arc::clone(&load.stop), Arc::clone(&self.receiver));
            let receive = move || {
                while !stopped.load(Ordering::Relaxed) {
                    // a time-out is a reason to check whether this should end
                    let _ = receiver.recv(&mut [0]);
                }
            };
            load.start("receiver", &[self.cpu].into_iter().collect(), receive)?;
        }
        load.start("sender", &self.senders, send)?;
        Ok(load)
    }
}

/// Datagrams at a steady rate.
#[derive(Debug)]
pub struct SteeredLoad<'a> {
    steered: &'a Steered,
    spin: SoftirqSpin,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl SteeredLoad<'_> {
    /// Starts a thread on `cpus`.
    fn start(
        &mut self,
        name: &str,
        cpus: &CpuSet,
        body: impl FnOnce() + Send + 'static,
    ) -> SysResult<()> {
        let cpus = cpus.clone();
        let placed = move || {
            let _ = sched::set_affinity(sched::current_thread(), &cpus);
            let _ = sched::set_timer_slack_ns(1);
            body();
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(placed);
        let failed = |error| {
            SysError::new("start thread for load on CPU", self.steered.cpu.to_string(), error)
        };
        self.threads.push(thread.map_err(failed)?);
        Ok(())
    }
}

impl Load for SteeredLoad<'_> {
    fn cpu(&self) -> u32 {
        self.steered.cpu
    }

    fn overlaps_others(&self) -> bool {
        true
    }

    fn read(&self) -> SysResult<LoadReading> {
        // while the reader runs on this CPU, no datagram is in the filter
        let at_ns = monotonic_ns();
        let Spun { ns, .. } = self.spin.spun()?;
        Ok(LoadReading { at_ns, busy_ns: ns, lost_ns: 0 })
    }
}

impl Drop for SteeredLoad<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // a panic of one of them needs no cleanup
            let _ = thread.join();
        }
    }
}
