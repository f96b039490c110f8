//! A softirq load that interrupts an idle CPU, as receive processing does: datagrams are sent from
//! another CPU and steered to this one, where a socket's filter holds each for a known time.
//!
//! No thread carries this work, so that nothing but its own clock reading knows how much it was.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use linkrate_agent::protocol::{Reply, Request};
use linkrate_lab::Placement;
use linkrate_lab::testbed::{LabOptions, Testbed};
use linkrate_sys::clock::{monotonic_ns, sleep_until_ns};
use linkrate_sys::error::{SysError, SysResult};
use linkrate_sys::host::Privilege;
use linkrate_sys::host::join::Namespaces;
use linkrate_sys::netstat::receive_packets_by_cpu;
use linkrate_sys::sched;
use linkrate_sys::softirq_spin::{SPIN_NS, SoftirqSpin, Spun};
use linkrate_terms::{CpuSet, TestbedSpec};

use super::load::{Load, LoadReading};

/// Datagrams of the trial that shows whether steering works.
const TRIAL: u64 = 5;

/// Where the datagrams are sent: a host whose loopback interface is steered to one CPU.
#[derive(Debug)]
pub struct Steered {
    cpu: u32,
    senders: CpuSet,
    sender: Arc<UdpSocket>,
    spin: SoftirqSpin,
    /// Holds the socket the filter is attached to, and the host it is in.
    _receiver: UdpSocket,
    _testbed: Testbed,
}

impl Steered {
    /// Builds a testbed and steers its system under test's loopback to the first of its CPUs.
    ///
    /// # Errors
    /// Why that cannot be done here, in words.
    pub fn build(
        program: &Path,
        stop: &Arc<AtomicBool>,
        placement: &Placement,
    ) -> Result<Self, String> {
        if placement.is_shared() {
            return Err("there is no other CPU to send from".to_owned());
        }
        let cpu = placement.sut.iter().next().ok_or("the system under test has no CPU")?;
        let program = program.to_owned();
        let options = LabOptions { program, stop: Arc::clone(stop), route_congestion: None };
        let mut testbed = Testbed::build(&TestbedSpec::default(), placement, &options)
            .map_err(|error| error.to_string())?;
        if testbed.privilege() != Some(Privilege::Root) {
            return Err("receive processing is steered by root only".to_owned());
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
        let spin = SoftirqSpin::attach(&receiver).map_err(|error| error.to_string())?;
        let address = receiver.local_addr().map_err(|error| error.to_string())?;
        sender.connect(address).map_err(|error| error.to_string())?;
        let steered = Self {
            cpu,
            senders: placement.clients.clone(),
            sender: Arc::new(sender),
            spin,
            _receiver: receiver,
            _testbed: testbed,
        };
        steered.try_out().map_err(|error| error.to_string())?;
        Ok(steered)
    }

    /// Sends a few datagrams and sees where they are processed.
    fn try_out(&self) -> SysResult<()> {
        let failed = |what: String| {
            let error = std::io::Error::other(what);
            SysError::new("steer datagrams to CPU", self.cpu.to_string(), error)
        };
        let there = || Ok(receive_packets_by_cpu()?.get(&self.cpu).copied().unwrap_or(0));
        let before: u64 = there()?;
        for _ in 0..TRIAL {
            self.sender.send(&[0]).map_err(|error| failed(error.to_string()))?;
            sleep_until_ns(monotonic_ns() + 2 * SPIN_NS);
        }
        let (processed, spun) = (there()? - before, self.spin.spun()?);
        if spun.datagrams < TRIAL || processed < TRIAL {
            return Err(failed(format!(
                "of {TRIAL} datagrams {processed} were processed there, {} held",
                spun.datagrams
            )));
        }
        Ok(())
    }

    /// Starts a load of `share` of the CPU.
    ///
    /// # Errors
    /// When the sending thread cannot be started.
    pub fn load(&self, share: f64) -> SysResult<SteeredLoad<'_>> {
        let spun = self.spin.spun()?;
        // the spin's own length, not what was asked of it
        let interval_ns = (spun.ns / spun.datagrams.max(1)) as f64 / share;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, sender, cpus) =
            (Arc::clone(&stop), Arc::clone(&self.sender), self.senders.clone());
        let body = move || {
            let _ = sched::set_affinity(sched::current_thread(), &cpus);
            let _ = sched::set_timer_slack_ns(1);
            let began_ns = monotonic_ns();
            for number in 1u32.. {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                // one that is lost shows in the sum
                let _ = sender.send(&[0]);
                sleep_until_ns(began_ns + (f64::from(number) * interval_ns) as u64);
            }
        };
        let thread = std::thread::Builder::new().name("sender".to_owned()).spawn(body);
        let failed = |error| SysError::new("start sender to CPU", self.cpu.to_string(), error);
        Ok(SteeredLoad { steered: self, stop, thread: Some(thread.map_err(failed)?) })
    }
}

/// Datagrams at a steady rate.
#[derive(Debug)]
pub struct SteeredLoad<'a> {
    steered: &'a Steered,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load for SteeredLoad<'_> {
    fn cpu(&self) -> u32 {
        self.steered.cpu
    }

    fn overlaps_others(&self) -> bool {
        true
    }

    fn read(&self) -> SysResult<LoadReading> {
        // a reader that runs there finds no datagram half done
        let at_ns = monotonic_ns();
        let Spun { ns, .. } = self.steered.spin.spun()?;
        Ok(LoadReading { at_ns, busy_ns: ns, lost_ns: 0 })
    }
}

impl Drop for SteeredLoad<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // it holds nothing that could be in disorder
            let _ = thread.join();
        }
    }
}
