//! Known work, added to one part of a host at a time: the trace of what ran must show it there, and nowhere else.

use crate::common::run_inside_with;
use linkrate_sys::host::Privilege;
use linkrate_sys::sched;

#[test]
fn known_work_is_in_its_own_part_alone() {
    run_inside("known_work_is_in_its_own_part_alone");
}

#[test]
fn samples_find_the_threads_for_as_long_as_the_trace() {
    run_inside("samples_find_the_threads_for_as_long_as_the_trace");
}

fn run_inside(test: &str) {
    if !sched::may_place_kernel_threads() {
        return println!("SKIPPED {test}: threads of the kernel cannot be placed here");
    }
    run_inside_with(&format!("known_work::inside::{test}"), Privilege::Root);
}

mod inside {
    use std::cell::RefCell;
    use std::io::IoSlice;
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::fd::OwnedFd;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::time::Duration;

    use linkrate_model::CpuSet;
    use linkrate_sys::clock::monotonic_ns;
    use linkrate_sys::netlink::RouteSocket;
    use linkrate_sys::on_cpu::{OnCpuTrace, Worked};
    use linkrate_sys::perf::CpuSampler;
    use linkrate_sys::softirq_spin::{SoftirqSpin, Spin};
    use linkrate_sys::tap::{self, Kind, Tap, VNET_HEADER_BYTES};
    use linkrate_sys::{procstat, sched};

    use crate::common::in_a_host;

    const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const STATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
    const PORT: u16 = 4000;

    /// Packets of a batch, and batches of a measurement.
    const BATCH: usize = 16;
    const BATCHES: usize = 30;

    /// Work that each part has anyway, ns a packet: code that runs after other work finds the caches otherwise than alone.
    const BASE_NS: u64 = 5_000;

    /// Pairs of measurements with and without more work, of which the median counts, and the most that are made: in some, a
    /// hypervisor takes time of the CPU.
    const PAIRS: usize = 5;
    const MAX_PAIRS: usize = 15;

    /// The parts, in the order of [`Parts`].
    const NAMES: [&str; 3] = ["driver", "NAPI thread", "application"];

    /// Time of each part, ns.
    type Parts = [f64; 3];

    /// Work that is added to each packet in each part, ns.
    type Added = [u64; 3];

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

    /// A datagram from the station, behind the header of the TUN.
    fn datagram() -> Vec<u8> {
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
        ip[20..22].copy_from_slice(&PORT.to_be_bytes());
        ip[22..24].copy_from_slice(&PORT.to_be_bytes());
        ip[24..26].copy_from_slice(&12u16.to_be_bytes());
        packet
    }

    /// A thread on the CPU that does a batch when it is told, and says for how long it spun.
    struct Worker {
        thread: u32,
        tell: SyncSender<u64>,
        done: Receiver<u64>,
    }

    impl Worker {
        fn start(cpu: u32, mut batch: impl FnMut(u64) -> u64 + Send + 'static) -> Self {
            let (tell, told) = sync_channel::<u64>(1);
            let (finish, done) = sync_channel(1);
            let (name, named) = sync_channel(1);
            std::thread::spawn(move || {
                let own = sched::current_thread();
                sched::set_affinity(own, &[cpu].into_iter().collect()).unwrap();
                name.send(own as u32).unwrap();
                while let Ok(added_ns) = told.recv() {
                    finish.send(batch(added_ns)).unwrap();
                }
            });
            Self { thread: named.recv().unwrap(), tell, done }
        }
    }

    /// The host's end of a TUN with an application, all on one CPU.
    struct Bed {
        cpu: u32,
        trace: OnCpuTrace,
        napi: u32,
        driver: Worker,
        application: Worker,
        socket: UdpSocket,
        /// The filter of the socket with its work; loading one takes a third of a second.
        filter: RefCell<Option<(u64, SoftirqSpin)>>,
        _tun: OwnedFd,
    }

    impl Bed {
        fn new(cpu: u32) -> Result<Self, String> {
            let trace = OnCpuTrace::start().map_err(|error| error.to_string())?;
            let (tun, threads) =
                Tap::with_napi_threads(Kind::Tun, "t0", 1).map_err(|error| error.to_string())?;
            sched::set_affinity(threads[0] as i32, &[cpu].into_iter().collect()).unwrap();
            let mut route = RouteSocket::open().unwrap();
            route.disable_ipv6("t0").unwrap();
            route.set_up("t0").unwrap();
            route.add_address("t0", HOST, 24).unwrap();
            let socket = UdpSocket::bind((HOST, PORT)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let receiver = socket.try_clone().unwrap();
            let queue = tun.queues()[0].try_clone().unwrap();
            let packet = datagram();
            let driver = Worker::start(cpu, move |added_ns| {
                // no thread that it wakes takes the CPU from it, as from drivers
                sched::become_napi().unwrap();
                let mut spun_ns = 0;
                for _ in 0..BATCH {
                    spun_ns += spin(added_ns);
                    let written = tap::write_vectored(&queue, &[IoSlice::new(&packet)]).unwrap();
                    assert_eq!(written, packet.len());
                }
                spun_ns
            });
            let application = Worker::start(cpu, move |added_ns| {
                for _ in 0..BATCH {
                    receiver.recv(&mut [0; 64]).unwrap();
                }
                spin(added_ns * BATCH as u64)
            });
            let tun = tun.queues()[0].try_clone().unwrap();
            Ok(Self {
                cpu,
                trace,
                napi: threads[0],
                driver,
                application,
                socket,
                filter: RefCell::default(),
                _tun: tun,
            })
        }

        /// Reads the trace there.
        fn read(&self) -> linkrate_sys::on_cpu::OnCpu {
            let (own, home) = (sched::current_thread(), sched::affinity(sched::current_thread()));
            sched::set_affinity(own, &[self.cpu].into_iter().collect()).unwrap();
            let read = self.trace.on(self.cpu).unwrap();
            sched::set_affinity(own, &home.unwrap()).unwrap();
            read
        }

        /// The parts of a measurement with this work, and the work by its own clock; `None` if a hypervisor took time of the CPU.
        fn measure(&self, [driver_ns, napi_ns, application_ns]: Added) -> Option<(Parts, Parts)> {
            let mut filter = self.filter.borrow_mut();
            if filter.as_ref().is_none_or(|(ns, _)| *ns != napi_ns) {
                let spin = Spin { ns: napi_ns as u32, arrives: true };
                *filter = Some((napi_ns, SoftirqSpin::attach(&self.socket, spin).unwrap()));
            }
            let spun = || filter.as_ref().unwrap().1.spun().unwrap();
            let before = spun();
            let steal_ns = || procstat::read_coarse(self.cpu).unwrap().steal_ns;
            let (stolen_ns, opened) = (steal_ns(), self.read());
            let mut spun_ns = [0; 3];
            for _ in 0..BATCHES {
                self.driver.tell.send(driver_ns).unwrap();
                spun_ns[0] += self.driver.done.recv().unwrap();
                self.application.tell.send(application_ns).unwrap();
                spun_ns[2] += self.application.done.recv().unwrap();
            }
            let worked: Worked = self.read().since(&opened);
            let after = spun();
            assert_eq!(after.datagrams - before.datagrams, (BATCH * BATCHES) as u64);
            spun_ns[1] = after.ns - before.ns;
            let of = |thread: u32| {
                let found = worked.threads.iter().find(|one| one.thread == thread);
                found.map_or(0.0, |one| one.ns as f64)
            };
            let parts = [of(self.driver.thread), of(self.napi), of(self.application.thread)];
            (steal_ns() == stolen_ns).then(|| (parts, spun_ns.map(|ns| ns as f64)))
        }
    }

    /// What each part has by the trace, and by another way: which thread a timer interrupts.
    #[test]
    #[ignore = "runs in a host"]
    fn samples_find_the_threads_for_as_long_as_the_trace() {
        const PERIOD_NS: u64 = 100_000;
        const MEASUREMENTS: usize = 20;
        if !in_a_host() {
            return;
        }
        let test = "samples_find_the_threads_for_as_long_as_the_trace";
        let cpus: CpuSet = sched::affinity(sched::current_thread()).unwrap();
        let cpu = cpus.iter().next().unwrap();
        let bed = Bed::new(cpu);
        let sampler = CpuSampler::open(cpu, PERIOD_NS, 10_000_000_000);
        let (bed, mut sampler) = match (bed, sampler) {
            (Ok(bed), Ok(sampler)) => (bed, sampler),
            (Err(reason), _) => return println!("SKIPPED {test}: {reason}"),
            (_, Err(error)) => return println!("SKIPPED {test}: {error}"),
        };
        // work of each part, of which the timer sees some in the kernel and some outside
        let work = [30_000, 50_000, 10_000];
        bed.measure(work);
        sampler.start().unwrap();
        let mut traced = [0.0; 3];
        for _ in 0..MEASUREMENTS {
            let Some((parts, _)) = bed.measure(work) else {
                return println!("SKIPPED {test}: a hypervisor took time of the CPU");
            };
            for (all, part) in traced.iter_mut().zip(parts) {
                *all += part;
            }
        }
        sampler.stop().unwrap();
        let threads = [bed.driver.thread, bed.napi, bed.application.thread];
        let mut sampled = [0.0; 3];
        sampler
            .drain(|sample| {
                let found = threads.iter().position(|thread| *thread == sample.thread as u32);
                sampled[found.unwrap_or(0)] += f64::from(u8::from(found.is_some()));
            })
            .unwrap();
        let (count, ns): (f64, f64) = (sampled.iter().sum(), traced.iter().sum());
        assert!(count > 2000.0, "{count} samples");
        for (part, name) in NAMES.iter().enumerate() {
            let (by_samples, by_trace) = (sampled[part] / count, traced[part] / ns);
            let scatter = 3.0 * (by_trace * (1.0 - by_trace) / count).sqrt();
            println!(
                "{name}: {:.1} % by samples, {:.1} % by the trace",
                by_samples * 100.0,
                by_trace * 100.0
            );
            assert!(
                (by_samples - by_trace).abs() < 0.05 + scatter,
                "{name}: {sampled:?} {traced:?}"
            );
        }
    }

    #[test]
    #[ignore = "runs in a host"]
    fn known_work_is_in_its_own_part_alone() {
        if !in_a_host() {
            return;
        }
        let test = "known_work_is_in_its_own_part_alone";
        let cpus: CpuSet = sched::affinity(sched::current_thread()).unwrap();
        let bed = match Bed::new(cpus.iter().next().unwrap()) {
            Ok(bed) => bed,
            Err(reason) => return println!("SKIPPED {test}: {reason}"),
        };
        // a loop that takes what others leave: the CPU is never idle
        let full = || {
            let cpu = bed.cpu;
            let (stop, stopped) = sync_channel::<()>(0);
            std::thread::spawn(move || {
                let own = sched::current_thread();
                sched::set_affinity(own, &[cpu].into_iter().collect()).unwrap();
                sched::become_idle().unwrap();
                while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                    spin(20_000);
                }
            });
            stop
        };
        for is_full in [false, true] {
            let _loop = is_full.then(full);
            let sizes = if is_full { &[50_000][..] } else { &[10_000, 50_000, 100_000] };
            let of_part = |part: usize| sizes.iter().map(move |ns: &u64| (part, *ns));
            for (part, added_ns) in (0..3).flat_map(of_part) {
                let mut added = [BASE_NS; 3];
                added[part] += added_ns;
                // how far each part is from what it should have moved by, per cent of the known work
                let mut off: [Vec<f64>; 3] = Default::default();
                for _ in 0..MAX_PAIRS {
                    let both = bed.measure([BASE_NS; 3]).zip(bed.measure(added));
                    let Some(((without, spun_without), (with, spun))) = both else { continue };
                    for (of, all) in off.iter_mut().enumerate() {
                        let more = with[of] - without[of] - (spun[of] - spun_without[of]);
                        all.push(more * 100.0 / (spun[part] - spun_without[part]));
                    }
                    if off[0].len() == PAIRS {
                        break;
                    }
                }
                if off[0].len() < PAIRS {
                    return println!("SKIPPED {test}: a hypervisor took time of the CPU");
                }
                // the median, and how far the middle half of the pairs lies apart
                let of_middle = off.each_mut().map(|all| {
                    all.sort_by(f64::total_cmp);
                    (all[PAIRS / 2], all[PAIRS - 2] - all[1])
                });
                let case =
                    format!("{added_ns} ns more for the {}, full CPU {is_full}", NAMES[part]);
                println!("{case}: {:+.2?} %", of_middle.map(|(median, _)| median));
                let is_right = |(median, scatter): &(f64, f64)| median.abs() <= 3.0 + scatter;
                assert!(of_middle.iter().all(is_right), "{case}: {off:.2?} %");
            }
        }
    }
}
