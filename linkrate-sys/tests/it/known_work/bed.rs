//! A TUN whose driver, NAPI thread and application share one CPU, and what ran there.

use std::cell::RefCell;
use std::io::IoSlice;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use linkrate_model::CpuSet;
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::on_cpu::{OnCpu, OnCpuTrace};
use linkrate_sys::other_programs::kind_of;
use linkrate_sys::sched::Ahead;
use linkrate_sys::softirq_spin::{SoftirqSpin, Spin};
use linkrate_sys::tap::{self, Kind, Tap, VNET_HEADER_BYTES};
use linkrate_sys::{procstat, sched};

const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const STATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PORT: u16 = 4000;

/// The parts, in the order of [`Parts`]. The first three are given work.
pub const NAMES: [&str; 7] =
    ["driver", "NAPI thread", "application", "softirqs", "interrupts", "idle loop", "others"];

/// Time of each part, ns.
pub type Parts = [f64; NAMES.len()];

const OTHERS: usize = NAMES.len() - 1;

/// Work for each packet in the first three parts, ns.
pub type Work = [u64; 3];

/// What passes in a measurement: packets in batches, at full CPU beside a filler, and at half of it without.
#[derive(Clone, Copy)]
pub struct Load<'a> {
    pub batches: usize,
    /// In each batch.
    pub packets: usize,
    pub full: Option<&'a Filler>,
}

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// By the trace.
    pub parts: Parts,
    /// The work of the first three, by its own clock; none of the others.
    pub spun: Parts,
    /// The share of the time in which the CPU had nothing to do, or a [`Filler`] to run.
    pub idle: f64,
    /// The share of other programs, which run when nothing here does.
    pub programs: f64,
}

/// A batch: its packets, the work for each, and where they go.
struct Job {
    packets: usize,
    ns: u64,
    to: Arc<Port>,
}

/// A socket whose packets cost the NAPI thread this much more.
struct Port {
    napi_ns: u64,
    number: u16,
    socket: UdpSocket,
    filter: SoftirqSpin,
}

/// A thread on the CPU that does a batch when it is told, and says for how long it spun.
struct Worker {
    thread: u32,
    tell: SyncSender<Job>,
    done: Receiver<u64>,
}

impl Worker {
    fn start(cpu: u32, mut batch: impl FnMut(&Job) -> u64 + Send + 'static) -> Self {
        let (tell, told) = sync_channel::<Job>(1);
        let (finish, done) = sync_channel(1);
        let thread = start_on(cpu, move || {
            while let Ok(job) = told.recv() {
                finish.send(batch(&job)).unwrap();
            }
        });
        Self { thread, tell, done }
    }

    fn work(&self, packets: usize, ns: u64, to: &Arc<Port>) -> u64 {
        self.tell.send(Job { packets, ns, to: to.clone() }).unwrap();
        self.done.recv().unwrap()
    }
}

/// Takes what others leave of the CPU, until dropped.
pub struct Filler {
    thread: u32,
    _stop: SyncSender<()>,
}

/// Starts a thread on this CPU alone, and returns its number.
fn start_on(cpu: u32, body: impl FnOnce() + Send + 'static) -> u32 {
    let (name, named) = sync_channel(1);
    std::thread::spawn(move || {
        place(&[cpu].into_iter().collect());
        name.send(sched::current_thread() as u32).unwrap();
        body();
    });
    named.recv().unwrap()
}

fn place(cpus: &CpuSet) {
    sched::set_affinity(sched::current_thread(), cpus).unwrap();
}

/// Spins, and returns for how long, ns.
fn spin(ns: u64) -> u64 {
    if ns == 0 {
        return 0;
    }
    let begun_ns = monotonic_ns();
    loop {
        let spun_ns = monotonic_ns() - begun_ns;
        if spun_ns >= ns {
            return spun_ns;
        }
        std::hint::spin_loop();
    }
}

/// A datagram from the station to this port, behind the header of the TUN.
fn datagram(port: u16) -> Vec<u8> {
    let mut packet = vec![0; VNET_HEADER_BYTES + 32];
    let ip = &mut packet[VNET_HEADER_BYTES..];
    ip[..10].copy_from_slice(&[0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17]);
    ip[12..16].copy_from_slice(&STATION.octets());
    ip[16..20].copy_from_slice(&HOST.octets());
    let words = ip[..20].chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    // a checksum of zero is none
    ip[20..22].copy_from_slice(&port.to_be_bytes());
    ip[22..24].copy_from_slice(&port.to_be_bytes());
    ip[24..26].copy_from_slice(&12u16.to_be_bytes());
    packet
}

/// The host's end of a TUN with an application, all on one CPU.
pub struct Bed {
    pub cpu: u32,
    trace: OnCpuTrace,
    napi: u32,
    driver: Worker,
    application: Worker,
    /// Loading the filter of one takes a third of a second.
    ports: RefCell<Vec<Arc<Port>>>,
    _tun: OwnedFd,
    /// The caller and the NAPI thread, as driver and application, do not wait for other programs.
    _ahead: [Ahead; 2],
}

impl Bed {
    /// On the first CPU. The caller works on another one from then on, if there is one.
    pub fn new() -> Result<Self, String> {
        let home = sched::affinity(sched::current_thread()).unwrap();
        let mut cpus = home.iter();
        let cpu = cpus.next().unwrap();
        if let Some(other) = cpus.next() {
            place(&[other].into_iter().collect());
        }
        // the pacer's sleeps
        sched::set_timer_slack_ns(1).unwrap();
        let trace = OnCpuTrace::start().map_err(|error| error.to_string())?;
        let (tun, threads) =
            Tap::with_napi_threads(Kind::Tun, "t0", 1).map_err(|error| error.to_string())?;
        sched::set_affinity(threads[0] as i32, &[cpu].into_iter().collect()).unwrap();
        let mut route = RouteSocket::open().unwrap();
        route.disable_ipv6("t0").unwrap();
        route.set_up("t0").unwrap();
        route.add_address("t0", HOST, 24).unwrap();
        let queue = tun.queues()[0].try_clone().unwrap();
        let driver = Worker::start(cpu, move |job| {
            // no thread that it wakes takes the CPU from it, as from drivers
            sched::become_napi().unwrap();
            let packet = datagram(job.to.number);
            let mut spun_ns = 0;
            for _ in 0..job.packets {
                spun_ns += spin(job.ns);
                let written = tap::write_vectored(&queue, &[IoSlice::new(&packet)]).unwrap();
                assert_eq!(written, packet.len());
            }
            spun_ns
        });
        let application = Worker::start(cpu, move |job| {
            sched::become_napi().unwrap();
            for _ in 0..job.packets {
                job.to.socket.recv(&mut [0; 64]).unwrap();
            }
            spin(job.ns * job.packets as u64)
        });
        let _tun = tun.queues()[0].try_clone().unwrap();
        let ports = RefCell::default();
        let _ahead = [Ahead::now(), Ahead::lent_to(threads[0] as i32)];
        Ok(Self { cpu, trace, napi: threads[0], driver, application, ports, _tun, _ahead })
    }

    /// The threads of the first three parts.
    pub fn threads(&self) -> [u32; 3] {
        [self.driver.thread, self.napi, self.application.thread]
    }

    /// Never lets the CPU be idle.
    pub fn fill(&self) -> Filler {
        let (_stop, stopped) = sync_channel::<()>(0);
        let thread = start_on(self.cpu, move || {
            sched::become_idle().unwrap();
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                spin(20_000);
            }
        });
        Filler { thread, _stop }
    }

    fn port(&self, napi_ns: u64) -> Arc<Port> {
        let mut ports = self.ports.borrow_mut();
        if let Some(port) = ports.iter().find(|port| port.napi_ns == napi_ns) {
            return port.clone();
        }
        let number = PORT + ports.len() as u16;
        let socket = UdpSocket::bind((HOST, number)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let spin = Spin { ns: napi_ns as u32, arrives: true };
        let filter = SoftirqSpin::attach(&socket, spin).unwrap();
        let port = Arc::new(Port { napi_ns, number, socket, filter });
        ports.push(port.clone());
        port
    }

    fn read(&self) -> OnCpu {
        let home = sched::affinity(sched::current_thread()).unwrap();
        place(&[self.cpu].into_iter().collect());
        let read = self.trace.on(self.cpu).unwrap();
        place(&home);
        read
    }

    /// What a load with this work has of the CPU; `None` if a hypervisor took time of it.
    pub fn measure(&self, work: Work, load: Load<'_>) -> Option<Measured> {
        let Load { batches, packets, full } = load;
        let [driver_ns, napi_ns, application_ns] = work;
        let to = self.port(napi_ns);
        let before = to.filter.spun().unwrap();
        let steal_ns = || procstat::read_coarse(self.cpu).unwrap().steal_ns;
        let awake_ns = |at_ns| self.trace.cpu_awake_ns(self.cpu, at_ns).unwrap();
        let (stolen_ns, opened) = (steal_ns(), self.read());
        let begun_ns = monotonic_ns();
        let begun_awake_ns = awake_ns(begun_ns);
        let mut spun = Parts::default();
        for _ in 0..batches {
            let batch_ns = monotonic_ns();
            spun[0] += self.driver.work(packets, driver_ns, &to) as f64;
            spun[2] += self.application.work(packets, application_ns, &to) as f64;
            if full.is_none() {
                // until as much was idle as was not, but for what other programs have
                let now_ns = monotonic_ns();
                let awake_ns = awake_ns(now_ns) - begun_awake_ns;
                let wait_ns = (2 * awake_ns).saturating_sub(now_ns - begun_ns);
                let at_most_ns = 2 * (now_ns - batch_ns);
                std::thread::sleep(Duration::from_nanos(wait_ns.min(at_most_ns)));
            }
        }
        let worked = self.read().since(&opened);
        let after = to.filter.spun().unwrap();
        assert_eq!(after.datagrams - before.datagrams, (packets * batches) as u64);
        spun[1] = (after.ns - before.ns) as f64;
        let mut parts = Parts::default();
        parts[3] = worked.softirq_ns.iter().sum::<u64>() as f64;
        parts[4] = worked.interrupt_ns as f64;
        parts[5] = worked.idle_loop_ns as f64;
        parts[OTHERS] = worked.lost_ns as f64;
        let (mut idle_ns, mut programs_ns) = (worked.idle_ns as f64, 0.0);
        for one in &worked.threads {
            let own = self.threads().iter().position(|thread| *thread == one.thread);
            if full.is_some_and(|filler| filler.thread == one.thread) {
                idle_ns += one.ns as f64;
            } else if own.is_some() || kind_of(one.process).is_some_and(|(_, is_kernel)| is_kernel)
            {
                parts[own.unwrap_or(OTHERS)] += one.ns as f64;
            } else if one.process != std::process::id() {
                programs_ns += one.ns as f64;
            }
        }
        let share = |ns: f64| ns / worked.interval_ns as f64;
        let (idle, programs) = (share(idle_ns), share(programs_ns));
        (steal_ns() == stolen_ns).then_some(Measured { parts, spun, idle, programs })
    }
}
