use std::sync::mpsc;
use std::thread::JoinHandle;

use linkrate_model::{CpuSet, InterfaceKnobs};
use linkrate_sys::sched::{self, ThreadId};
use rustix::process::{Pid, setpriority_process};

use super::*;

/// Threads in the place of those of the kernel, which end with it.
struct StandIns {
    ids: Vec<u32>,
    running: Vec<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl StandIns {
    fn new(count: usize) -> Self {
        let (report, reported) = mpsc::channel();
        let begin = |_| {
            let (end, ended) = mpsc::channel();
            let report = report.clone();
            let run = move || {
                report.send(sched::current_thread() as u32).unwrap();
                let _ = ended.recv();
            };
            (end, std::thread::spawn(run))
        };
        let running = (0..count).map(begin).collect();
        Self { ids: reported.iter().take(count).collect(), running }
    }

    fn end(&mut self) {
        for (end, thread) in self.running.drain(..) {
            drop(end);
            thread.join().unwrap();
        }
    }
}

/// Two CPUs, or twice the only one.
fn two_cpus() -> Vec<u32> {
    let all = sched::affinity(sched::current_thread()).unwrap();
    let all: Vec<u32> = all.iter().collect();
    all.iter().copied().cycle().take(2).collect()
}

fn placed(ids: &[u32]) -> Napi {
    let mut napi = Napi { cpus: two_cpus(), ..Napi::default() };
    napi.made("eth0", Ok(ids.to_vec())).unwrap();
    napi.place("eth0", &[0, 1]).unwrap();
    napi
}

#[test]
fn threads_are_placed_beside_the_drivers_of_their_queues() {
    let threads = StandIns::new(5);
    let mut napi = placed(&threads.ids[..2]);
    // the queues of another port are shared out from the second driver on
    napi.made("eth1", Ok(threads.ids[2..].to_vec())).unwrap();
    napi.place("eth1", &[1, 0, 3]).unwrap();
    let cpus = two_cpus();
    let expected = [cpus[0], cpus[1], cpus[1], cpus[0], cpus[1]];
    for (id, cpu) in threads.ids.iter().zip(expected) {
        assert_eq!(sched::affinity(*id as ThreadId).unwrap(), CpuSet::from_iter([cpu]));
    }
    assert_eq!(napi.ids(), threads.ids);
    assert_eq!((napi.strayed(&CpuSet::from_iter(cpus)), napi.rescheduled()), (vec![], vec![]));
}

#[test]
fn a_thread_that_is_moved_reniced_or_gone_is_named() {
    let mut threads = StandIns::new(2);
    let [first, second] = threads.ids[..] else { unreachable!() };
    let napi = placed(&threads.ids);
    let cpus = CpuSet::from_iter(two_cpus());
    if cpus.len() > 1 {
        sched::set_affinity(first as ThreadId, &cpus).unwrap();
        let [strayed] = &napi.strayed(&cpus)[..] else { panic!("{napi:?}") };
        assert_eq!(strayed.thread, format!("NAPI thread {first} of eth0"));
        assert_eq!((&strayed.affinity, &strayed.role), (&cpus, &cpus));
    }
    setpriority_process(Pid::from_raw(second as ThreadId), 7).unwrap();
    let [rescheduled] = &napi.rescheduled()[..] else { panic!("{napi:?}") };
    assert_eq!(rescheduled.thread, format!("NAPI thread {second} of eth0"));
    assert_eq!(rescheduled.now, "SCHED_OTHER, nice 7");
    threads.end();
    assert_eq!(napi.strayed(&cpus), []);
    let now: Vec<String> = napi.rescheduled().into_iter().map(|one| one.now).collect();
    assert_eq!(now, ["ended", "ended"]);
}

#[test]
fn a_thread_of_an_aggregate_has_the_weight_of_a_thread_for_each_port() {
    assert_eq!([1, 2, 4, 8, 64, 256].map(nice_of), [0, -3, -6, -9, -19, -20]);
    let threads = StandIns::new(2);
    let mut napi = placed(&threads.ids);
    napi.weigh("eth1", 8).unwrap();
    assert_eq!(napi.threads[0].first.to_string(), "SCHED_OTHER, nice 0");
    napi.weigh("eth0", 8).unwrap();
    let expected = match setpriority_process(Pid::from_raw(threads.ids[0] as ThreadId), -9) {
        Ok(()) => "SCHED_OTHER, nice -9",
        Err(_) => "SCHED_OTHER, nice 0",
    };
    assert_eq!(napi.threads[1].first.to_string(), expected);
    // that it was set is no change by somebody else
    assert_eq!(napi.rescheduled(), []);
}

#[test]
fn an_interface_that_is_gone_has_no_threads() {
    let mut threads = StandIns::new(2);
    let mut napi = placed(&threads.ids);
    threads.end();
    let topology = topology::Topology::of(&linkrate_model::TestbedSpec::default());
    napi.forget(&topology.segments[0]);
    assert_eq!((napi.ids(), napi.rescheduled()), (vec![], vec![]));
}

#[test]
fn the_first_interface_decides_for_all() {
    let mut napi = Napi::default();
    napi.made("eth0", Err("no such file".to_owned())).unwrap();
    assert_eq!(napi.why_absent(), Some("no such file"));
    napi.made("eth1", Ok(Vec::new())).unwrap();
    assert_eq!(napi.why_absent(), Some("no such file"));

    let mut napi = Napi::default();
    napi.made("eth0", Ok(vec![7])).unwrap();
    let error = napi.made("eth1", Err("no such file".to_owned())).unwrap_err().to_string();
    assert!(
        error.contains("eth1 has no NAPI threads") && error.contains("no such file"),
        "{error}"
    );
    assert_eq!(napi.why_absent(), None);
}

#[test]
fn knobs_without_effect_are_refused_with_the_reason() {
    let napi = Napi { absent: Some("no such file".to_owned()), ..Napi::default() };
    let fresh = InterfaceKnobs::default;
    for (knob, asked) in [
        ("gro", InterfaceKnobs { gro: Some(true), ..fresh() }),
        ("gro-list", InterfaceKnobs { gro_list: Some(true), ..fresh() }),
        ("udp-gro-forwarding", InterfaceKnobs { udp_gro_forwarding: Some(true), ..fresh() }),
        ("threaded", InterfaceKnobs { threaded: Some(true), ..fresh() }),
        ("napi-defer-hard-irqs", InterfaceKnobs { napi_defer_hard_irqs: Some(2), ..fresh() }),
        ("gro-flush-timeout", InterfaceKnobs { gro_flush_timeout: Some(20_000), ..fresh() }),
    ] {
        assert!(Napi::default().check(&asked).is_ok(), "{knob}");
        let error = napi.check(&asked).unwrap_err().to_string();
        assert!(
            error.contains(&format!("\"{knob}\"")) && error.contains("no such file"),
            "{error}"
        );
    }
    let off = InterfaceKnobs {
        gro: Some(false),
        threaded: Some(false),
        napi_defer_hard_irqs: Some(0),
        ..fresh()
    };
    assert!(napi.check(&off).is_ok());
    let error = Napi::default().check(&off).unwrap_err().to_string();
    assert!(error.contains("\"threaded\""), "{error}");
}
