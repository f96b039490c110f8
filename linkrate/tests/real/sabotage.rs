//! Runs that somebody spoils: each is refused with the culprit's name, and the next one is sound.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::lab::{
    SUT_INTERFACE, inside, lab, lab_for, lab_of, run_spec, run_undisturbed, undisturbed,
};
use crate::common::small::SmallStudy;
use crate::common::{LINKRATE, Running, kill, skip, wait_until};
use linkrate_lab::Lab;
use linkrate_lab::placement::Placement;
use linkrate_model::knobs::PortRequest;
use linkrate_model::measurement::{ENDED, OtherProgram};
use linkrate_model::spec::Adapter;
use linkrate_model::{
    BitRate, InterfaceKnobs, Measurement, Offload, RunSpec, Task, TestbedSpec, Workload, model,
};
use linkrate_study::executor::{Executor, RunFailure, Stage};
use linkrate_study::study::Purpose;
use linkrate_study::validity::programs;
use linkrate_sys::processes;
use rustix::process::Signal;

const WINDOW: Duration = Duration::from_millis(700);

fn run_of(offload: Option<Offload>) -> RunSpec {
    let interface = InterfaceKnobs { offload, ..InterfaceKnobs::default() };
    let spec = run_spec(Task::Workload(Workload::default()), interface, WINDOW);
    RunSpec { warm_up: Duration::from_millis(200), ..spec }
}

#[track_caller]
fn refused(lab: &mut Lab, spec: &RunSpec) -> RunFailure {
    match lab.run(spec) {
        Err(failure) => failure,
        Ok(measured) => panic!("a spoiled run was believed: {measured:?}"),
    }
}

#[track_caller]
fn validated(lab: &mut Lab, spec: &RunSpec) {
    run_undisturbed(lab, spec);
}

/// A shell that spins on one CPU.
fn hog(cpu: u32) -> Running {
    let cpu = cpu.to_string();
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu, "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
    Running::start(&mut command)
}

#[test]
fn names_a_program_on_the_suts_cpu() {
    needs!(root, "taskset");
    let mut lab = lab_for(Purpose::Costs, &TestbedSpec::default(), None);
    let cpu = lab.testbed().and_then(|testbed| testbed.placement.sut.iter().next());
    let spec = run_of(None);
    {
        let hog = hog(cpu.expect("a CPU"));
        let failure = refused(&mut lab, &spec);
        assert_eq!(failure.stage, Stage::Measure);
        let culprit = format!("\"sh\" (process {})", hog.pid());
        assert!(failure.reason.contains("CPUs of the system under test"), "{failure}");
        assert!(failure.reason.contains(&culprit), "{failure}");
    }
    validated(&mut lab, &spec);
}

/// A program with some per cent of the SUT's CPU adds as much to its busy time as a cheap stream costs.
#[test]
fn a_small_program_on_the_suts_cpu_is_no_cost_of_the_traffic() {
    const PAIRS: std::ops::RangeInclusive<usize> = 3..=12;
    /// The program costs the traffic cache misses and changes of thread beside its own time.
    const AGREE: f64 = 0.15;
    needs!(root, "taskset");
    let mut lab = lab_for(Purpose::Costs, &gigabit(), None);
    let spec = run_of(Some(Offload::Tso));
    let cpu = lab.testbed().and_then(|testbed| testbed.placement.sut.iter().next());
    let hog = hog(cpu.expect("a CPU"));
    let pid = hog.pid();
    let mut demands = |disturbed: bool| {
        let stop = AtomicBool::new(false);
        let measured = thread::scope(|scope| {
            let pulse = || {
                kill(pid, Signal::STOP);
                while disturbed && !stop.load(Ordering::Relaxed) {
                    kill(pid, Signal::CONT);
                    thread::sleep(Duration::from_millis(9));
                    kill(pid, Signal::STOP);
                    thread::sleep(Duration::from_millis(91));
                }
            };
            scope.spawn(pulse);
            let measured = undisturbed(&mut lab, &spec);
            stop.store(true, Ordering::Relaxed);
            measured
        });
        let measured = measured.unwrap_or_else(|failure| panic!("{failure}"));
        let cpu = &measured.sut_cpu;
        let of_hog = cpu.background.iter().find(|other| other.pid == pid);
        let percent = of_hog.map_or(0.0, |other| cpu.percent_of(other.bound_ns));
        let own = measured.service_demand_us_per_kb().expect("traffic");
        (own, own * cpu.busy_ns() as f64 / cpu.own_busy_ns() as f64, percent)
    };
    // other work on the machine only adds to a cost, so the smallest of several runs is the least disturbed
    let [mut calm, mut own, mut raw] = [f64::INFINITY; 3];
    let mut runs = Vec::new();
    for pair in 1..=*PAIRS.end() {
        let (without, with) = (demands(false), demands(true));
        assert!(with.2 > 4.0, "the program's per cent: {}", with.2);
        runs.push((without, with));
        (calm, own, raw) = (calm.min(without.0), own.min(with.0), raw.min(with.1));
        let agrees = (own / calm - 1.0).abs() < AGREE && raw / calm > 1.0 + AGREE;
        if agrees && PAIRS.contains(&pair) {
            return;
        }
    }
    panic!("{calm}, {own}, {raw}, (without others, with them, the program's per cent): {runs:?}");
}

/// A run beside a disturbance sees its programs on the CPUs of the system under test. They used so much that a run for costs is
/// refused, or the cost is that of calm runs: a disturbance costs the traffic caches and changes of thread beside its own
/// time. The runs are for functions, so that work of others refuses none.
#[track_caller]
fn seen_and_refused_or_as_cheap(
    disturb: &dyn Fn(&Placement) -> Running,
    its: &dyn Fn(&OtherProgram) -> bool,
) {
    const TRIES: usize = 10;
    const AGREE: f64 = 0.25;
    let mut lab = lab_for(Purpose::Functions, &gigabit(), None);
    let placement = lab.testbed().expect("a testbed").placement.clone();
    let spec = run_of(Some(Offload::Tso));
    let mut measured = || run_undisturbed(&mut lab, &spec);
    let demand = |run: &Measurement| run.service_demand_us_per_kb().expect("traffic");
    // other work on the machine only adds to a cost
    let [mut calm, mut beside] = [f64::INFINITY; 2];
    for _ in 0..TRIES {
        calm = calm.min(demand(&measured()));
        let disturbance = disturb(&placement);
        let run = measured();
        drop(disturbance);
        let cpu = &run.sut_cpu;
        let seen_ns: u64 =
            cpu.background.iter().filter(|one| its(one)).map(|one| one.bound_ns).sum();
        assert!(cpu.percent_of(seen_ns) > 1.0, "not seen: {:?}", cpu.background);
        assert!(seen_ns <= cpu.others_bound_ns(), "taken out as a whole");
        beside = beside.min(demand(&run));
        let percent = cpu.percent_of(cpu.others_at_most_ns());
        if percent >= programs::REFUSED_PERCENT || beside / calm < 1.0 + AGREE {
            return;
        }
    }
    panic!("neither refused nor as cheap: {calm} µs/KB, {beside} µs/KB beside the disturbance");
}

/// Each of them lives too short to be found in a table of processes.
#[test]
fn processes_that_come_and_go_are_no_cost_of_the_traffic() {
    needs!(root, "taskset");
    let disturb = |placement: &Placement| {
        let cpu = placement.sut.iter().next().expect("a CPU").to_string();
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu, "sh", "-c", "while :; do /bin/true; sleep 0.004; done"]);
        Running::start(&mut command)
    };
    seen_and_refused_or_as_cheap(&disturb, &|one| one.pid == ENDED);
}

/// Its NAPI threads are threads of the kernel as those of this lab are.
#[test]
fn another_lab_on_the_same_cpus_is_no_cost_of_the_traffic() {
    needs!(root, "taskset");
    let disturb = |placement: &Placement| {
        let Placement { sut, clients, .. } = placement;
        // this process has bound itself to the CPUs of the clients
        let mut command = Command::new("taskset");
        command.args(["-c", &format!("{sut},{clients}"), LINKRATE]);
        command.args(["measure", "--adapter", "gigabit", "--runs", "1", "--purpose", "functions"]);
        command.args(["--direction", "receive", "--time", "20 s"]);
        command.args(["--sut-cpus", &sut.to_string(), "--client-cpus", &clients.to_string()]);
        let running = Running::start(&mut command);
        let flows = wait_until(Duration::from_secs(60), || {
            let threads = processes::threads_of(running.pid()).into_iter();
            let is_driver =
                |id| processes::program_of(id).is_ok_and(|name| name.starts_with("drv"));
            threads.filter(|one| is_driver(one.id)).map(|one| one.cpu_ns).sum::<u64>() > 50_000_000
        });
        assert!(flows, "no traffic of the other lab");
        running
    };
    seen_and_refused_or_as_cheap(&disturb, &|one| one.name.starts_with("napi/"));
}

/// A program that has a third of the CPU on which devices and clients run slows the traffic.
#[test]
fn a_program_on_the_cpu_of_the_devices_is_seen() {
    needs!(root, "taskset");
    let mut lab = lab_for(Purpose::Functions, &gigabit(), None);
    let cpu = lab.testbed().and_then(|testbed| testbed.placement.clients.iter().next());
    let hog = hog(cpu.expect("a CPU"));
    let measured = lab.run(&run_of(None)).unwrap_or_else(|failure| panic!("{failure}"));
    let cpu = &measured.client_cpu;
    let of_hog = cpu.background.iter().find(|other| other.pid == hog.pid()).expect("the program");
    assert_eq!(of_hog.bound_ns, of_hog.cpu_ns.min(of_hog.bound_ns));
    let percent = cpu.percent_of(cpu.others_bound_ns());
    assert!(percent >= programs::REFUSED_PERCENT, "{percent} %: {cpu:?}");
}

/// Threads of the kernel that process what the system under test receives.
#[test]
#[ignore = "exhaustive: another change in mid-run"]
fn a_napi_thread_that_is_moved_reniced_or_ended_is_named() {
    needs!(root, "taskset", "renice");
    let mut lab = lab_for(Purpose::Functions, &gigabit(), None);
    let spec = run_of(None);
    /// What is done to a thread, and what is said of it.
    type Case = fn(u32, &Placement) -> (String, String);
    let cases: [Case; 3] = [
        |thread, Placement { sut, clients, .. }| {
            let said = format!("may run on CPUs {clients}, expected {sut}");
            (format!("taskset -pc {clients} {thread}"), said)
        },
        |thread, _| {
            let said = "has SCHED_OTHER, nice 5, expected SCHED_OTHER, nice 0".to_owned();
            (format!("renice -n 5 -p {thread}"), said)
        },
        |_, _| {
            let said = "has ended, expected SCHED_OTHER, nice 0".to_owned();
            (format!("echo 0 > /sys/class/net/{SUT_INTERFACE}/threaded"), said)
        },
    ];
    for case in cases {
        // a testbed that somebody changed is not used again
        validated(&mut lab, &spec);
        let testbed = lab.testbed().expect("a testbed");
        let threads = testbed.backend.adapters().expect("adapters").napi_ids();
        let [thread] = threads[..] else { return skip("there are no NAPI threads") };
        let (act, said) = case(thread, &testbed.placement);
        // before, the thread goes on without work
        if act.starts_with("echo") && kernel_is_before([6, 17]) {
            continue;
        }
        let pid = testbed.sut.pid().to_string();
        let sabotage = thread::spawn(move || {
            thread::sleep(WINDOW / 2);
            let inside = ["--target", &pid, "--net", "--mount", "sh", "-c", &act];
            assert!(Command::new("nsenter").args(inside).status().expect("run nsenter").success());
        });
        let failure = refused(&mut lab, &spec);
        sabotage.join().expect("the saboteur");
        assert!(failure.disturbed && failure.stage == Stage::Measure, "{failure}");
        let named = format!("placement: thread \"NAPI thread {thread} of {SUT_INTERFACE}\" {said}");
        assert_eq!(failure.reason, named);
    }
    validated(&mut lab, &spec);
}

/// Whether this kernel is older.
fn kernel_is_before(version: [u32; 2]) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let numbers = release.split(['.', '-']).map_while(|word| word.parse().ok());
    numbers.take(2).collect::<Vec<u32>>() < version.to_vec()
}

/// A set of CPUs, which goes with its last process.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        wait_until(Duration::from_secs(10), || fs::remove_dir(&self.0).is_ok());
    }
}

/// The machine takes the CPU of the system under test away: its threads continue on the other one.
#[test]
#[ignore = "exhaustive: another change in mid-run"]
fn a_cpu_that_is_taken_away_is_named() {
    const GROUPS: &str = "/sys/fs/cgroup/cpuset";
    needs!(root);
    let group = Group(PathBuf::from(format!("{GROUPS}/linkrate-test-{}", std::process::id())));
    if fs::create_dir(&group.0).is_err() {
        return skip(format!("no set of CPUs can be made in {GROUPS}"));
    }
    let mut lab = lab_for(Purpose::Functions, &gigabit(), None);
    let spec = run_of(None);
    validated(&mut lab, &spec);
    let testbed = lab.testbed().expect("a testbed");
    let (sut, clients) = (testbed.sut.pid(), testbed.placement.clients.clone());
    let memory = fs::read_to_string(format!("{GROUPS}/cpuset.mems")).expect("its memory");
    fs::write(group.0.join("cpuset.mems"), memory.trim()).expect("set the memory");
    fs::write(group.0.join("cpuset.cpus"), clients.to_string()).expect("set the CPUs");
    let procs = group.0.join("cgroup.procs");
    let sabotage = thread::spawn(move || {
        thread::sleep(WINDOW / 2);
        fs::write(procs, sut.to_string()).expect("move the system under test");
    });
    let failure = refused(&mut lab, &spec);
    sabotage.join().expect("the saboteur");
    // a thread that begins meanwhile has no CPU, and those that run are on another one
    let seen = [format!(" may run on CPUs {clients}, "), "a cpuset does not allow".to_owned()];
    assert_eq!(failure.stage, Stage::Measure, "{failure}");
    assert!(seen.iter().any(|seen| failure.reason.contains(seen)), "{failure}");
    validated(&mut lab, &spec);
}

#[test]
#[ignore = "exhaustive: eleven seconds alone on the machine"]
fn a_host_that_is_stopped_for_a_while_is_named() {
    needs!(root);
    let spec = RunSpec { duration: Duration::from_secs(2), ..run_of(None) };
    for named in ["client 0", "sut", "the process of the adapters"] {
        let mut lab = lab_for(Purpose::Rates, &gigabit(), None);
        let testbed = lab.testbed().expect("a testbed");
        let pid = match named {
            "sut" => testbed.sut.pid(),
            "client 0" => testbed.clients[0].host.pid(),
            _ => std::process::id(),
        };
        let pause = format!("sleep 1.3; kill -STOP {pid}; sleep 0.3; kill -CONT {pid}");
        let pause = Running::start(Command::new("sh").args(["-c", &pause]));
        let failure = refused(&mut lab, &spec);
        assert!(pause.wait().status.success());
        assert!(failure.disturbed, "{failure}");
        assert!(failure.reason.starts_with(&format!("{named} stalled for ")), "{failure}");
        // on a busy machine the next one may be refused for other programs
        let next = lab.run(&run_of(None)).err().map_or_else(String::new, |failure| failure.reason);
        assert!(!next.contains("stalled"), "{next}");
    }
}

#[test]
fn an_offload_that_is_switched_back_is_named() {
    needs!(root, "ethtool");
    let mut lab = lab(None);
    let pid = lab.testbed().expect("a testbed").sut.pid();
    let spec = run_of(Some(Offload::Tso));
    let saboteur = thread::spawn(move || {
        thread::sleep(WINDOW / 2);
        let off = ["-K", SUT_INTERFACE, "tso", "off"];
        assert!(inside(pid, "ethtool").args(off).status().expect("run ethtool").success());
    });
    let failure = refused(&mut lab, &spec);
    saboteur.join().expect("the saboteur");
    assert_eq!(failure.stage, Stage::Knob);
    assert_eq!(
        failure.reason,
        "knob \"offload\" on eth0: tso when the run began, gso when it ended: another program \
         changed it"
    );
    validated(&mut lab, &spec);
}

#[test]
#[ignore = "exhaustive: another change in mid-run"]
fn a_queue_discipline_that_is_set_meanwhile_is_named() {
    needs!(root, "tc");
    let mut lab = lab_for(Purpose::Rates, &gigabit(), None);
    let spec = run_of(None);
    validated(&mut lab, &spec);
    let tc_of = |lab: &mut Lab| {
        let pid = lab.testbed().expect("a testbed").sut.pid();
        move |words: &str| {
            assert!(inside(pid, "tc").args(words.split(' ')).status().expect("run tc").success());
        }
    };
    let saboteur = |lab: &mut Lab, words: &'static str| {
        let tc = tc_of(lab);
        thread::spawn(move || {
            thread::sleep(WINDOW * 7 / 10);
            tc(words);
        })
    };
    let limits = "qdisc replace dev eth0 root tbf rate 500mbit burst 64kb latency 20ms";
    let sabotage = saboteur(&mut lab, limits);
    let failure = refused(&mut lab, &spec);
    sabotage.join().expect("the saboteur");
    assert_eq!(failure.stage, Stage::Knob);
    assert!(failure.reason.starts_with("queue discipline of eth0: "), "{failure}");
    assert!(failure.reason.contains(" at root when the measurement began, tbf "), "{failure}");
    assert!(failure.reason.contains(" at root, 500.0 Mb/s when it closed"), "{failure}");
    // one that is replaced between two runs would be in all later ones
    validated(&mut lab, &spec);
    let tc = tc_of(&mut lab);
    tc("qdisc replace dev eth0 root handle 7: htb default 10");
    let failure = refused(&mut lab, &spec);
    assert!(
        failure.reason.starts_with("queue disciplines of eth0 of the system under test: "),
        "{failure}"
    );
    // a discipline that is there from the begin is part of the run, with its classes
    let mut lab = lab_for(Purpose::Rates, &gigabit(), None);
    let tc = tc_of(&mut lab);
    tc("qdisc replace dev eth0 root handle 7: htb default 10");
    tc("class add dev eth0 parent 7: classid 7:10 htb rate 800mbit");
    validated(&mut lab, &spec);
    let sabotage =
        saboteur(&mut lab, "class change dev eth0 parent 7: classid 7:10 htb rate 700mbit");
    let failure = refused(&mut lab, &spec);
    sabotage.join().expect("the saboteur");
    let changed = "htb 7: at root with other parameters or classes when it closed";
    assert!(failure.reason.contains(changed), "{failure}");
}

#[test]
#[ignore = "exhaustive: another change in mid-run"]
fn a_queue_discipline_of_a_client_that_is_set_meanwhile_is_named() {
    needs!(root, "tc");
    let mut lab = lab_of(&gigabit(), None);
    let client = &lab.testbed().expect("a testbed").clients[0];
    let (pid, interface) = (client.host.pid(), client.interface.clone());
    let spec = run_of(None);
    validated(&mut lab, &spec);
    let sabotage = thread::spawn(move || {
        thread::sleep(WINDOW * 7 / 10);
        let set =
            format!("qdisc replace dev {interface} root tbf rate 500mbit burst 64kb latency 20ms");
        assert!(inside(pid, "tc").args(set.split(' ')).status().expect("run tc").success());
        interface
    });
    let failure = refused(&mut lab, &spec);
    let interface = sabotage.join().expect("the saboteur");
    assert_eq!(failure.stage, Stage::Knob);
    let named = format!("queue discipline of client 0: {interface}: ");
    assert!(failure.reason.starts_with(&named), "{failure}");
    assert!(failure.reason.contains(" at root, 500.0 Mb/s when it closed"), "{failure}");
    validated(&mut lab, &spec);
}

#[test]
fn a_device_that_ignores_a_setting_is_named() {
    let model = model::find("ten-gigabit").expect("a built-in model");
    let adapter = Adapter::Model(Box::new(model));
    let mut lab = lab_of(&TestbedSpec { adapter, ..TestbedSpec::default() }, None);
    let lro = |on| {
        let port = PortRequest { lro: Some(on), ..PortRequest::default() };
        let interface = InterfaceKnobs { port, ..InterfaceKnobs::default() };
        RunSpec { interface, ..run_of(None) }
    };
    let stick = |lab: &mut Lab, stuck| {
        let testbed = lab.testbed().expect("a testbed");
        let adapters = testbed.backend.adapters().expect("virtual adapters");
        adapters.sut_ports().for_each(|port| port.port.set_stuck(stuck));
    };
    validated(&mut lab, &lro(false));
    stick(&mut lab, true);
    let failure = refused(&mut lab, &lro(true));
    assert_eq!(failure.stage, Stage::Knob);
    let said = "knob \"lro\" of eth0: requested on, effective is off";
    assert!(failure.reason.contains(said), "{failure}");
    stick(&mut lab, false);
    validated(&mut lab, &lro(true));
}

#[test]
#[ignore = "exhaustive: another change in mid-run"]
fn an_interface_that_differs_from_the_others_is_named() {
    needs!(root);
    let two_clients = TestbedSpec { clients: 2, ..TestbedSpec::default() };
    let mut lab = lab_of(&two_clients, None);
    let pid = lab.testbed().expect("a testbed").sut.pid().to_string();
    let smaller = "echo 1400 > /sys/class/net/eth1/mtu";
    let set = Command::new("nsenter")
        .args(["--target", &pid, "--net", "--mount", "sh", "-c", smaller])
        .status();
    assert!(set.expect("run nsenter").success());
    let both = RunSpec { clients: 2, ..run_of(None) };
    let failure = refused(&mut lab, &both);
    assert_eq!(failure.stage, Stage::Knob);
    assert_eq!(
        failure.reason,
        "knob \"mtu\" of eth1: not requested, effective is 1400; eth0 has 1500 (hint: set mtu for \
         the run, or give all interfaces the same value)"
    );
    // a run over the first interface alone has one value, and so has a run that asks for it
    validated(&mut lab, &run_of(None));
    let mtu = InterfaceKnobs { mtu: Some(1400), ..InterfaceKnobs::default() };
    validated(&mut lab, &RunSpec { interface: mtu, ..both });
}

fn gigabit() -> TestbedSpec {
    let model = model::find("gigabit").expect("a built-in model");
    TestbedSpec { adapter: Adapter::Model(Box::new(model)), ..TestbedSpec::default() }
}

#[test]
#[ignore = "exhaustive: another change in mid-run"]
fn names_a_link_at_half_its_rate() {
    needs!(root);
    let mut lab = lab_of(&gigabit(), None);
    let spec = run_of(None);
    let adapters = lab.testbed().and_then(|testbed| testbed.backend.adapters()).expect("adapters");
    let segment = adapters.segment(SUT_INTERFACE).expect("a port");
    segment.set_link_rate(&segment.ports[0].port, BitRate(5e8));
    let failure = refused(&mut lab, &spec);
    assert_eq!(failure.stage, Stage::Testbed);
    assert_eq!(failure.reason, "the link of eth0 runs at 500.0 Mb/s, expected 1.000 Gb/s");

    // whoever sets it back in time is betrayed by what the link carried
    let adapters = lab.testbed();
    assert!(adapters.is_none(), "a testbed that was tampered with is not used again");
    validated(&mut lab, &spec);
    let adapters = lab.testbed().and_then(|testbed| testbed.backend.adapters()).expect("adapters");
    let segment = adapters.segment(SUT_INTERFACE).expect("a port");
    let ports = [&segment.ports[0].port, &segment.clients[0]].map(|port| Arc::clone(&port.shared));
    let saboteur = thread::spawn(move || {
        for rate in [5e8, 1e9] {
            thread::sleep(WINDOW / 2);
            ports.iter().for_each(|port| port.links[0].set_rate(BitRate(rate)));
        }
    });
    let failure = refused(&mut lab, &spec);
    saboteur.join().expect("the saboteur");
    assert!(failure.reason.starts_with("the link of eth0 ran at "), "{failure}");
    assert!(failure.reason.ends_with("by its counters, expected 1.000 Gb/s"), "{failure}");
    validated(&mut lab, &spec);
}

#[test]
#[ignore = "exhaustive: another change in mid-run"]
fn a_clock_that_moved_is_named() {
    needs!(root);
    let mut lab = lab(None);
    let spec = run_of(None);
    validated(&mut lab, &spec);
    // as if this host's clock had been set back since it was started
    lab.testbed().expect("a testbed").clients[0].host.clock_offset_ns = 20_000_000;
    let failure = refused(&mut lab, &spec);
    assert_eq!(failure.stage, Stage::Measure);
    assert!(failure.reason.starts_with("the clock of client 0 has moved by -20.0 ms"), "{failure}");
    validated(&mut lab, &spec);
}

#[test]
#[ignore = "exhaustive: ten seconds alone on the machine"]
fn continues_a_study_without_refused_runs() {
    needs!(root, "taskset");
    let study = SmallStudy::for_costs();
    let running = Running::start(study.run().args(["--sut-cpus", "0", "--client-cpus", "1"]));
    study.await_runs(3);
    {
        let _hog = hog(0);
        study.await_runs(6);
    }
    // each run that is refused is repeated
    let finished = running.wait().expect_code(0);
    let document = finished.json();
    let failures = document["failures"].as_array().expect("failures");
    assert!(!failures.is_empty());
    for failure in failures {
        let reason = failure["reason"].as_str().expect("a reason");
        assert!(reason.contains("other programs used "), "{reason}");
        assert!(reason.contains("\"sh\""), "{reason}");
    }
    for cell in document["cells"].as_array().expect("cells") {
        assert!(cell["throughput"]["mean"].as_f64().is_some_and(|mean| mean > 0.0), "{cell}");
    }
}
