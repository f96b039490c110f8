//! Tests of the reasons to refuse a run.

use std::time::Duration;

use linkrate_model::discipline::Discipline;
use linkrate_model::evidence::OutOfOrder;
use linkrate_model::knobs::PortRequest;
use linkrate_model::measurement::OtherProgram;
use linkrate_model::spec::Adapter;
use linkrate_model::{
    BitRate, ByteSize, CpuSet, Direction, InterfaceKnobs, MessageSize, Offload, Protocol, Workload,
    model,
};
use linkrate_wire::link::LinkLaw;

use super::*;
use crate::fixture;

/// The first cell of the fixture's study.
fn cell() -> RunSpec {
    fixture::ladder().cells[0].spec.clone()
}

/// Why a run of `spec` is refused that is judged for its costs. One that is believed has no remarks.
fn rejection(
    testbed: &TestbedSpec,
    spec: &RunSpec,
    measured: &Measurement,
    observed: &Observed,
) -> Option<Rejection> {
    match judge(&Run { testbed, spec, purpose: Purpose::Costs, measured, observed }) {
        Validity::Valid { remarks } => {
            assert_eq!(remarks, [""; 0]);
            None
        }
        Validity::Disturbed(rejection) | Validity::Rejected(rejection) => Some(rejection),
    }
}

pub(super) fn check(testbed: &TestbedSpec, run: &Measurement) -> Result<(), String> {
    let rejected = rejection(testbed, &cell(), run, &Observed::default());
    rejected.map_or(Ok(()), |rejection| Err(rejection.reason))
}

pub(super) fn refused(testbed: &TestbedSpec, run: &Measurement) -> String {
    check(testbed, run).unwrap_err()
}

/// How a sound run is judged after these observations.
fn judged(observed: &Observed) -> Validity {
    let (testbed, measured) = (TestbedSpec::default(), fixture::stream(9.4e8, 0.5));
    let (spec, purpose) = (cell(), Purpose::Costs);
    judge(&Run { testbed: &testbed, spec: &spec, purpose, measured: &measured, observed })
}

/// Why a sound run is refused after these observations: the name of the cause, and the reason.
fn observed(observed: Observed) -> [String; 2] {
    match judged(&observed) {
        Validity::Disturbed(Rejection { named, reason, .. }) => [named, reason],
        other => panic!("nothing from outside, or believed: {other:?}"),
    }
}

/// A sound run is believed after these observations.
fn believed(observed: &Observed) {
    assert_eq!(judged(observed), Validity::Valid { remarks: Vec::new() });
}

fn other(name: &str, percent: f64) -> OtherProgram {
    // the fixture's measurement is two seconds
    OtherProgram { pid: 4711, name: name.to_owned(), cpu_ns: (percent * 2e7) as u64, bound_ns: 0 }
}

fn gigabit(scale: f64) -> TestbedSpec {
    let adapter = Adapter::Model(Box::new(model::find("gigabit").unwrap()));
    TestbedSpec { adapter, scale, ..TestbedSpec::default() }
}

/// A run whose eth0 sent full frames for a second of its two at this rate.
fn sent_at(rate: f64) -> Measurement {
    let mut run = fixture::stream(9e7, 0.5);
    let mut adapter = fixture::counted(50.0, 1.0);
    let frames = (rate / 8.0 / 1538.0) as u64;
    let counters = [
        ("ifHCOutUcastPkts", frames),
        ("ifHCOutOctets", frames * 1518),
        ("txLinkBusyNs", 1_000_000_000),
    ];
    adapter.ports[0].counters = counters.map(|(name, count)| (name.to_owned(), count)).into();
    run.evidence.adapter = Some(adapter);
    run
}

#[test]
fn names_a_program_on_the_cpus_with_its_share() {
    let mut run = fixture::stream(9.4e9, 0.8);
    run.sut_cpu.background = vec![other("sh", 48.0), other("cron", 0.1)];
    assert_eq!(
        refused(&TestbedSpec::default(), &run),
        "other programs used 48.1 % of the CPUs of the system under test, expected less than 10 %: \
         \"sh\" (process 4711) 48.0 %, \"cron\" (process 4711) 0.1 %"
    );
    // of the measurement of 2 s
    run.sut_cpu.background = vec![other("sh", 2.4)];
    assert_eq!(check(&TestbedSpec::default(), &run), Ok(()));
    run.sut_cpu.background = vec![other("sh", 9.0)];
    assert_eq!(
        refused(&TestbedSpec::default(), &run),
        "other programs used 180 ms on CPUs of the system under test or elsewhere, up to 9.0 % of \
         the measurement, expected less than 2.5 %: \"sh\" (process 4711) 9.0 %"
    );
    // a program that may run there only is taken out of the figures
    run.sut_cpu.background[0].bound_ns = run.sut_cpu.background[0].cpu_ns;
    assert_eq!(check(&TestbedSpec::default(), &run), Ok(()));
    run.sut_cpu.background = Vec::new();
    run.client_cpu.background = vec![other("sh", 30.0)];
    assert_eq!(check(&TestbedSpec::default(), &run), Ok(()), "it may have been elsewhere");
    run.client_cpu.background[0].bound_ns = run.client_cpu.background[0].cpu_ns;
    assert_eq!(
        refused(&TestbedSpec::default(), &run),
        "other programs used 30.0 % of the CPUs of clients and devices, expected less than 10 %: \"sh\" \
         (process 4711) 30.0 %"
    );
    run.client_cpu.background = vec![OtherProgram { bound_ns: 190_000_000, ..other("sh", 9.5) }];
    assert_eq!(check(&TestbedSpec::default(), &run), Ok(()));
    run.client_cpu.background = Vec::new();
    run.sut_cpu.background = vec![other("\u{1b}[2J", 30.0)];
    let reason = refused(&TestbedSpec::default(), &run);
    assert!(!reason.contains('\u{1b}'), "{reason}");
    // 44 ms of 0.4 s, and 19 ms of 0.1 s, which is a daemon that woke up
    for (interval_ns, percent_of_2_s) in [(400_000_000, 2.2), (100_000_000, 0.95)] {
        run.sut_cpu.cpus[0].interval_ns = interval_ns;
        let used = other("sh", percent_of_2_s);
        run.sut_cpu.background = vec![OtherProgram { bound_ns: used.cpu_ns, ..used }];
        assert_eq!(check(&TestbedSpec::default(), &run).is_err(), interval_ns > 100_000_000);
    }
}

#[test]
fn time_that_may_be_of_others_is_a_part_of_the_cost_in_short_intervals_too() {
    let refused = |uncertain_ns: u64, bound_ns: u64| {
        let mut run = fixture::stream(9.4e9, 0.5);
        (run.sut_cpu.cpus[0].interval_ns, run.sut_cpu.cpus[0].busy_ns) = (400_000_000, 60_000_000);
        let cpu_ns = uncertain_ns + bound_ns;
        run.sut_cpu.background = vec![OtherProgram { cpu_ns, bound_ns, ..other("sh", 0.0) }];
        check(&TestbedSpec::default(), &run).err()
    };
    // 7 % of the measurement, and half of the cost
    assert_eq!(
        refused(28_000_000, 0).unwrap(),
        "other programs used 28 ms on CPUs of the system under test or elsewhere, up to 7.0 % of \
         the measurement, expected less than 2.5 %: \"sh\" (process 4711) 7.0 %"
    );
    assert_eq!(refused(0, 28_000_000), None, "it is taken out of the figures");
    assert_eq!(refused(9_900_000, 0), None, "a daemon that woke up");
}

/// The traffic stopped at the fault, so that 60 ms of a program that ran here or elsewhere are most of the busy time.
/// A slow link does the same to a pair of a fleet.
#[test]
fn a_run_is_not_refused_for_a_cost_that_nobody_asked_of_it() {
    let (testbed, observed) = (TestbedSpec::default(), Observed::default());
    let mut measured = fixture::stream(9.4e8, 0.5);
    measured.sut_cpu.cpus[0].busy_ns = 90_000_000;
    let plain = cell();
    let with_event = RunSpec { event: Some(fixture::failure().event), ..plain.clone() };
    let asked_of = |spec: &RunSpec, purpose, measured: &Measurement| {
        let run = Run { testbed: &testbed, spec, purpose, measured, observed: &observed };
        programs::check(&run)
    };
    // 60 ms of two seconds, and then 48 % of the CPU that only ran elsewhere
    let little = OtherProgram { cpu_ns: 60_000_000, ..other("sh", 0.0) };
    for others in [little, other("sh", 48.0)] {
        measured.sut_cpu.background = vec![others];
        assert!(asked_of(&plain, Purpose::Costs, &measured).is_err());
        assert_eq!(asked_of(&with_event, Purpose::Costs, &measured), Ok(()));
        assert_eq!(asked_of(&plain, Purpose::Rates, &measured), Ok(()));
    }
    // what slows the traffic itself is another matter
    measured.sut_cpu.cpus[0].busy_ns = 1_000_000_000;
    assert!(asked_of(&with_event, Purpose::Costs, &measured).is_err());
    assert!(asked_of(&plain, Purpose::Rates, &measured).is_err());
    // whether it flows is no matter of speed
    assert_eq!(asked_of(&plain, Purpose::Functions, &measured), Ok(()));
}

#[test]
fn computes_the_rate_of_a_link_from_octets_and_busy_time() {
    assert_eq!(check(&gigabit(1.0), &sent_at(1e9)), Ok(()));
    assert_eq!(check(&gigabit(1.0), &sent_at(0.995e9)), Ok(()));
    assert_eq!(
        refused(&gigabit(1.0), &sent_at(0.5e9)),
        "the link of eth0 ran at 500.0 Mb/s by its counters, expected 1.000 Gb/s"
    );
    assert_eq!(check(&gigabit(0.1), &sent_at(1e8)), Ok(()));
    assert!(check(&gigabit(0.1), &sent_at(1e9)).is_err());
}

/// Cells have no preamble and no gap, and SONET leaves them 26 of 27 columns.
#[test]
fn an_atm_link_shows_the_rate_of_its_cells() {
    use linkrate_wire::link::atm::OC3C;

    let (law, units) = (LinkLaw::Atm, 10_000);
    let busy_ps = units * law.pace(Some(OC3C)).time_ps(law.line_octets(40));
    let counters = [
        ("ifHCOutOctets", units * law.counted_octets(40)),
        ("ifHCOutUcastPkts", units),
        ("txLinkBusyNs", busy_ps / 1000),
    ];
    let mut run = sent_at(1e9);
    let port = &mut run.evidence.adapter.as_mut().unwrap().ports[0];
    port.counters.extend(counters.map(|(name, count)| (name.to_owned(), count)));
    let percent =
        |law| (counters::observed_rate(law, port).unwrap().0 / 149.76e6 - 1.0).abs() * 100.0;
    assert!(percent(law) < 1e-3);
    // preamble and gap for each of them would refuse the run
    assert!(percent(LinkLaw::Ethernet) > counters::RATE_PERCENT);
}

/// The model says which law its counters are held against.
#[test]
fn a_run_on_an_atm_model_is_judged_by_the_law_of_cells() {
    use linkrate_model::model::LinkKind;
    use linkrate_wire::link::atm::OC3C;

    let testbed = |link| {
        let model = model::Model { link, rate: Some(OC3C), ..model::find("gigabit").unwrap() };
        let adapter = Adapter::Model(Box::new(model));
        TestbedSpec { adapter, ..TestbedSpec::default() }
    };
    // cells for a second: 26 of 27 columns of OC-3c
    let mut run = sent_at(1e9);
    let octets = (149.76e6 / 8.0) as u64;
    let port = &mut run.evidence.adapter.as_mut().unwrap().ports[0];
    port.counters.insert("ifHCOutOctets".to_owned(), octets);
    port.counters.insert("ifHCOutUcastPkts".to_owned(), octets / (192 * 53));
    assert_eq!(check(&testbed(LinkKind::Atm), &run), Ok(()));
    let reason = refused(&testbed(LinkKind::Ethernet), &run);
    assert!(reason.contains("expected 155.5 Mb/s"), "{reason}");
}

/// 9180 octets of IP are 192 cells, 10,176 octets: more than any Ethernet frame of that MTU.
#[test]
fn frames_that_are_too_large_are_found_by_the_law_of_the_link() {
    let mut run = sent_at(1e9);
    run.effective.interface.mtu = Some(9180);
    let ports = &mut run.evidence.adapter.as_mut().unwrap().ports;
    ports.truncate(1);
    let port = &mut ports[0];
    port.counters.insert("ifHCOutUcastPkts".to_owned(), 1000);
    port.counters.insert("ifHCOutOctets".to_owned(), 1000 * 192 * 53);
    for (law, too_large) in [(LinkLaw::Atm, false), (LinkLaw::Ethernet, true)] {
        let reported = contradictions::of_cell(law, &cell(), &[&run]);
        assert_eq!(reported.iter().any(|one| one.starts_with("frames sent")), too_large, "{law:?}");
    }
}

#[test]
fn an_idle_link_has_no_observed_rate() {
    let mut run = sent_at(1e9);
    let adapter = run.evidence.adapter.as_mut().unwrap();
    adapter.ports[0].counters.insert("txLinkBusyNs".to_owned(), 1000);
    assert_eq!(check(&gigabit(1.0), &run), Ok(()));
    assert_eq!(check(&TestbedSpec::default(), &sent_at(0.5e9)), Ok(()), "veth has no rate");
}

#[test]
fn refuses_payload_that_the_interface_did_not_carry() {
    let ends = vec!["ssh:lab2".parse().unwrap()];
    let on = linkrate_model::Interfaces::new(vec!["eth1".to_owned()], ends, None).unwrap();
    let testbed = TestbedSpec::default().on_interfaces(on);
    let mut run = fixture::stream(9.4e8, 0.5);
    let sent = run.traffic.transmit_bytes;
    // some drivers count once a second
    run.evidence.interface.tx_bytes = sent / 2;
    assert_eq!(check(&testbed, &run), Ok(()));
    run.evidence.interface.tx_bytes = sent / 50;
    let reason = refused(&testbed, &run);
    assert!(
        reason.starts_with("eth1 sent ") && reason.contains("did not use this interface"),
        "{reason}"
    );
    assert_eq!(
        check(&TestbedSpec::default(), &run),
        Ok(()),
        "linkrate's own wires lead nowhere else"
    );
}

#[test]
fn a_run_without_traffic_has_no_figures() {
    let nothing = fixture::stream(0.0, 0.5);
    let reason = refused(&TestbedSpec::default(), &nothing);
    let expected = "no data received during the measurement; the system under test sent 1000 packets and received 0, 0 TCP \
                    segments were sent again, 0 flows had not begun before it; its CPUs were busy for 50 %, of which had others 0 %";
    assert!(reason.starts_with(expected), "{reason}");
    let idle = RunSpec { task: Task::Idle, ..cell() };
    let rejected = rejection(&TestbedSpec::default(), &idle, &nothing, &Observed::default());
    assert_eq!(rejected, None);
}

#[test]
fn a_run_without_traffic_beside_a_busy_program_was_disturbed() {
    for percent in [40.0, 50.0] {
        let mut nothing = fixture::stream(0.0, 0.9);
        let program = other("sh", percent);
        nothing.client_cpu.background = vec![OtherProgram { bound_ns: program.cpu_ns, ..program }];
        let validity = judge(&Run {
            testbed: &TestbedSpec::default(),
            spec: &cell(),
            purpose: Purpose::Functions,
            measured: &nothing,
            observed: &Observed::default(),
        });
        let (Validity::Disturbed(Rejection { reason, .. })
        | Validity::Rejected(Rejection { reason, .. })) = &validity
        else {
            panic!("a run without traffic is valid")
        };
        assert_eq!(matches!(validity, Validity::Disturbed(_)), percent >= 50.0, "{validity:?}");
        assert!(
            reason.contains(&format!("others {percent:.0} %, \"sh\" {percent:.0} %")),
            "{reason}"
        );
    }
}

#[test]
fn a_thread_on_other_cpus_is_named() {
    let thread = "client 0: flow 3".to_owned();
    let strayed =
        vec![Strayed { thread, affinity: CpuSet::from_iter([0, 1]), role: CpuSet::from_iter([1]) }];
    assert_eq!(
        observed(Observed { strayed, ..Observed::default() }),
        [
            "client 0: flow 3",
            "placement: thread \"client 0: flow 3\" may run on CPUs 0-1, expected 1"
        ]
    );
}

#[test]
fn a_thread_that_somebody_reniced_is_named() {
    let [now, first] = [10, 0].map(|nice| format!("SCHED_OTHER, nice {nice}"));
    let rescheduled = vec![Rescheduled { thread: "NAPI thread 77 of eth0".to_owned(), now, first }];
    assert_eq!(
        observed(Observed { rescheduled, ..Observed::default() }),
        [
            "NAPI thread 77 of eth0",
            "placement: thread \"NAPI thread 77 of eth0\" has SCHED_OTHER, nice 10, expected SCHED_OTHER, nice 0"
        ]
    );
}

#[test]
fn the_knob_that_changed_is_named() {
    let before = InterfaceKnobs {
        offload: Some(Offload::Tso),
        mtu: Some(1500),
        port: PortRequest { lro: Some(false), ..PortRequest::default() },
        ..InterfaceKnobs::default()
    };
    let seen = |after: &InterfaceKnobs| {
        let (interface, before, after) = ("eth1".to_owned(), before.clone(), after.clone());
        Observed { knobs: vec![KnobsSeen { interface, before, after }], ..Observed::default() }
    };
    believed(&seen(&before));
    let other = InterfaceKnobs { offload: Some(Offload::None), ..before.clone() };
    assert_eq!(
        observed(seen(&other)),
        [
            "offload",
            "knob \"offload\" on eth1: tso when the run began, none when it ended: another program \
             changed it"
        ]
    );
    let unknown = InterfaceKnobs { port: PortRequest::default(), ..before.clone() };
    assert!(observed(seen(&unknown))[1].contains("\"lro\" on eth1: off when"));
}

#[test]
fn a_queue_discipline_that_changed_is_named() {
    let of = |interface: &str, kind: &str, parameters: &str| Discipline {
        interface: interface.to_owned(),
        kind: kind.to_owned(),
        handle: "8001:".to_owned(),
        parent: "root".to_owned(),
        parameters: parameters.to_owned(),
        ..Discipline::default()
    };
    let seen = |before: &[Discipline], after: &[Discipline]| {
        let disciplines = DisciplinesSeen::of(&[before.to_vec(), after.to_vec()]);
        Observed { disciplines, ..Observed::default() }
    };
    let (free, tbf) = (of("eth1", "noqueue", ""), of("eth0", "tbf", "00"));
    let mut later = tbf.clone();
    later.counts.bytes = 9;
    believed(&seen(&[free.clone(), tbf.clone()], &[later, free.clone()]));

    let limited = Discipline { rate: Some(BitRate(5e8)), ..of("eth1", "tbf", "11") };
    assert_eq!(
        observed(seen(&[free.clone(), tbf.clone()], &[limited, tbf.clone()])),
        [
            "eth1",
            "queue discipline of eth1: noqueue 8001: at root when the measurement began, tbf 8001: at \
             root, 500.0 Mb/s when it closed: another program changed it"
        ]
    );
    let other = observed(seen(std::slice::from_ref(&tbf), &[of("eth0", "tbf", "01")]));
    assert!(
        other[1].contains("tbf 8001: at root with other parameters or classes when it closed"),
        "{other:?}"
    );
    assert!(observed(seen(&[tbf], &[]))[1].contains("no discipline when it closed"));
}

#[test]
fn a_link_that_changed_its_rate_is_named() {
    let seen = |expected, seen| {
        let rate = RateSeen { interface: "eth0".to_owned(), expected, seen };
        Observed { rates: vec![rate], ..Observed::default() }
    };
    assert_eq!(
        observed(seen(Some(BitRate(1e9)), Some(BitRate(1e8)))),
        ["eth0", "the link of eth0 runs at 100.0 Mb/s, expected 1.000 Gb/s"]
    );
    assert_eq!(
        observed(seen(Some(BitRate(1e9)), None))[1],
        "the link of eth0 runs at an unknown rate, expected 1.000 Gb/s"
    );
}

#[test]
fn a_clock_that_moved_is_named() {
    let moved = |moved_ns| {
        let clock = ClockSeen { host: "client-0".to_owned(), moved_ns };
        Observed { clocks: vec![clock], ..Observed::default() }
    };
    assert_eq!(
        observed(moved(-7_250_000)),
        [
            "client-0",
            "the clock of client-0 has moved by -7.2 ms since its host was started, expected at most \
             5 ms: its interval was not the common one"
        ]
    );
    believed(&moved(-5_000_000));
}

#[test]
fn a_interval_away_from_the_common_one_is_refused() {
    let interval = |opened_ms: u64, closed_ms: u64| {
        let ns = |ms| ms * 1_000_000;
        let (opened_off_ns, closed_off_ns) = (ns(opened_ms), ns(closed_ms));
        let host = "client-0".to_owned();
        let seen = MeasurementSeen { host, opened_off_ns, closed_off_ns, stalled_ns: 0 };
        Observed { intervals: vec![seen], ..Observed::default() }
    };
    // the fixture's measurement is two seconds, and a tenth of it is more than 100 ms
    assert_eq!(
        observed(interval(3, 201)),
        [
            "client-0",
            "client-0: its interval opened 3 ms and closed 201 ms away from the common interval, \
             expected at most 200 ms"
        ]
    );
    let (testbed, measured) = (TestbedSpec::default(), fixture::stream(9.4e8, 0.5));
    let validated = |interval_ms: u64, observed: &Observed| {
        let spec = RunSpec { duration: Duration::from_millis(interval_ms), ..cell() };
        rejection(&testbed, &spec, &measured, observed).is_none()
    };
    assert!(validated(2000, &interval(200, 0)));
    assert!(validated(500, &interval(100, 100)));
    assert!(!validated(500, &interval(101, 0)), "half a second allows 100 ms");
}

/// The sockets of a run must have the options that it asked for.
#[test]
fn another_socket_option_than_requested_is_refused_by_name() {
    let (testbed, mut spec) = (TestbedSpec::default(), cell());
    let mut measured = fixture::stream(9.4e8, 0.5);
    measured.effective.socket.nodelay = true;
    let judged = |spec: &RunSpec, measured: &Measurement| {
        rejection(&testbed, spec, measured, &Observed::default())
    };
    let refused = |knob: &str, values: &str| {
        let (named, reason) = (knob.to_owned(), format!("knob \"{knob}\": {values}"));
        Some(Rejection { stage: Stage::Knob, named, reason })
    };
    assert_eq!(judged(&spec, &measured), refused("nodelay", "requested false, effective is true"));
    measured.effective.socket.congestion = "bbr".to_owned();
    assert_eq!(
        judged(&spec, &measured),
        refused("congestion", "requested cubic, effective is bbr")
    );
    if let Task::Workload(workload) = &mut spec.task {
        workload.kind = Protocol::UdpStream;
    }
    assert_eq!(judged(&spec, &measured), None, "UDP has neither");
    spec.task = Task::Idle;
    assert_eq!(judged(&spec, &measured), None, "an idle run has no sockets");
}

#[test]
fn remarks_on_packets_on_other_cpus() {
    let mut run = fixture::stream(9.4e8, 0.5);
    run.evidence.interface.rx_packets = 10_000;
    run.evidence.receive_packets_by_cpu = [(0, 9600), (1, 400)].into();
    let (testbed, spec) = (TestbedSpec::default(), cell());
    let steered_to = |cpus: &[u32]| {
        let observed =
            Observed { steered_to: Some(cpus.iter().copied().collect()), ..Observed::default() };
        let (testbed, spec, observed) = (&testbed, &spec, &observed);
        match judge(&Run { testbed, spec, purpose: Purpose::Costs, measured: &run, observed }) {
            Validity::Valid { remarks } => remarks.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([steered_to(&[0]), steered_to(&[0, 1]), steered_to(&[1])], [0, 0, 1]);
}

/// A run of a second that received so many segments with LRO and merged none.
fn unmerged(segments: u64) -> (RunSpec, Measurement) {
    let mut spec = cell();
    if let Task::Workload(workload) = &mut spec.task {
        workload.direction = Direction::Receive;
        workload.message = MessageSize::Fixed(ByteSize(131_072));
    }
    let mut run = fixture::stream(9.4e8, 0.5);
    let mut adapter = fixture::counted(1.0, 90.0);
    adapter.interval_ns = 1_000_000_000;
    for port in &mut adapter.ports {
        port.counters.insert("ifHCInUcastPkts".to_owned(), segments + 40);
        port.counters.insert("rxUnmergedFlags".to_owned(), 40);
        port.counters.remove("txLinkBusyNs");
    }
    run.evidence.adapter = Some(adapter);
    run.effective.interface.port = PortRequest {
        lro: Some(true),
        rx_usecs: Some(250),
        rx_frames: Some(0),
        ..PortRequest::default()
    };
    (spec, run)
}

fn merging_refused(spec: &RunSpec, measured: &Measurement) -> Option<Rejection> {
    rejection(&gigabit(1.0), spec, measured, &Observed::default())
}

#[test]
fn lro_that_merges_nothing_is_refused_by_name() {
    let (spec, run) = unmerged(80_000);
    assert_eq!(
        merging_refused(&spec, &run),
        Some(Rejection {
            stage: Stage::Knob,
            named: "lro".to_owned(),
            reason:
                "knob \"lro\" on eth0: on, but the adapter merged none of 80000 received segments"
                    .to_owned(),
        })
    );
    // one port of two is enough
    let mut one = run.clone();
    let ports = &mut one.evidence.adapter.as_mut().unwrap().ports;
    ports[0].counters.insert("rxMergedFrames".to_owned(), 7);
    assert!(merging_refused(&spec, &one).unwrap().reason.contains("on eth1"));
}

/// A change that makes a run another one.
type Change = dyn Fn(&mut Workload, &mut RunSpec, &mut Measurement);

#[test]
fn lro_may_merge_nothing_where_nothing_can_be_merged() {
    let (spec, run) = unmerged(80_000);
    let with = |change: &dyn Fn(&mut Workload, &mut RunSpec, &mut Measurement)| {
        let (mut spec, mut run) = (spec.clone(), run.clone());
        let Task::Workload(mut workload) = spec.task.clone() else { panic!("idle") };
        change(&mut workload, &mut spec, &mut run);
        spec.task = Task::Workload(workload);
        merging_refused(&spec, &run)
    };
    assert!(with(&|_, _, _| {}).is_some());
    let honest: [(&str, &Change); 8] = [
        ("acknowledgements alone", &|workload, _, _| workload.direction = Direction::Transmit),
        ("transactions", &|workload, _, run| {
            workload.kind = Protocol::RequestResponse;
            run.traffic.transactions = 1000;
        }),
        ("each write is one segment", &|workload, _, _| {
            workload.message = MessageSize::Fixed(ByteSize(1448));
        }),
        ("segments of many connections", &|workload, _, _| workload.connections = 17),
        ("a batch for each segment", &|_, _, run| {
            run.effective.interface.port.rx_usecs = Some(0);
        }),
        ("a batch for every second segment", &|_, _, run| {
            run.effective.interface.port.rx_frames = Some(1);
        }),
        ("off", &|_, _, run| run.effective.interface.port.lro = Some(false)),
        ("connections at the adapter", &|_, _, run| {
            for port in &mut run.evidence.adapter.as_mut().unwrap().ports {
                let frames = port.counters["ifHCInUcastPkts"];
                port.counters.insert("toeRxFrames".to_owned(), frames);
            }
        }),
    ];
    for (why, change) in honest {
        assert_eq!(with(change), None, "{why}");
    }
    let (spec, few) = unmerged(400);
    assert_eq!(merging_refused(&spec, &few), None, "the first round trips");
    // it is told nevertheless
    let reported = contradictions::of_cell(LinkLaw::Ethernet, &spec, &[&few]);
    assert_eq!(reported, ["lro was on, but the adapter merged no received segments"]);
    // 80,000 segments are 20 in a batch of 250 µs: two of each of ten connections
    let crowd = |connections| with(&|workload, _, _| workload.connections = connections);
    assert!(crowd(9).is_some() && crowd(10).is_none());
}

/// With TOE on, every connection is at the adapter, and the host sends nothing for one.
#[test]
fn a_run_with_connections_at_the_host_is_no_run_with_toe() {
    use linkrate_model::knobs::Toe;

    let mut run = sent_at(1e9);
    run.effective.interface.port.toe = Some(Toe::On);
    let count = |run: &mut Measurement, name: &str, count: u64| {
        let ports = &mut run.evidence.adapter.as_mut().unwrap().ports;
        ports[0].counters.insert(name.to_owned(), count);
    };
    assert!(refused(&gigabit(1.0), &run).starts_with("toe was on with 0 connections"));
    count(&mut run, "toeConnections", 4);
    assert_eq!(check(&gigabit(1.0), &run), Ok(()));
    count(&mut run, "toeStayed.ecn", 1);
    assert_eq!(
        refused(&gigabit(1.0), &run),
        "toe was on with 4 connections at the adapter; at the host stayed 1 for ecn"
    );
    count(&mut run, "toeHostSegments", 3);
    assert_eq!(
        refused(&gigabit(1.0), &run),
        "TCP of the host sent 3 packets for connections that are at the adapter"
    );
    // with TOE off nobody asks
    run.effective.interface.port.toe = Some(Toe::Off);
    assert_eq!(check(&gigabit(1.0), &run), Ok(()));
}

/// A line that was to lose frames has lost some, unless there were too few to tell.
#[test]
fn a_line_that_loses_nothing_is_no_line_with_loss() {
    let (mut run, spec) = (sent_at(1e9), cell());
    let lossy = RunSpec { loss_ppm: 20_000, ..spec.clone() };
    let reason = |spec: &RunSpec, run: &Measurement| {
        super::counters::losses(spec, run).err().map(|rejection| rejection.reason)
    };
    assert_eq!(reason(&spec, &run), None);
    let counters = |run: &mut Measurement, name: &str, count| {
        for port in &mut run.evidence.adapter.as_mut().unwrap().ports {
            port.counters.insert(name.to_owned(), count);
        }
    };
    counters(&mut run, "ifHCOutUcastPkts", 1000);
    let refused = reason(&lossy, &run).unwrap();
    assert!(refused.starts_with("loss of 2 % was asked for, and none of "), "{refused}");
    counters(&mut run, "txLostOnLine", 1);
    assert_eq!(reason(&lossy, &run), None);
    counters(&mut run, "txLostOnLine", 0);
    counters(&mut run, "ifHCOutUcastPkts", 100);
    assert_eq!(reason(&lossy, &run), None);
}

/// The first cell of a study of one cell on the fixture's testbed: a stream of this direction.
fn streaming(direction: Direction) -> RunSpec {
    let task = Task::Workload(Workload { direction, ..Workload::default() });
    RunSpec { ports: Some(1), task, ..cell() }
}

#[test]
fn no_run_moves_more_than_its_links_can_carry_in_either_direction() {
    let limit = 1e9 * 1448.0 / 1538.0;
    let refused = |spec: &RunSpec, transmit: f64, receive: f64, usecs: u32, mss: u32| {
        let mut run = sent_at(1e9);
        let bytes = |percent: f64| (limit / 4.0 * percent / 100.0) as u64;
        (run.traffic.transmit_bytes, run.traffic.transmit_seconds) = (bytes(transmit), 2.0);
        (run.traffic.receive_bytes, run.traffic.receive_seconds) = (bytes(receive), 2.0);
        run.effective.interface.port.rx_usecs = Some(usecs);
        run.effective.mss_bytes = mss;
        limits::check(&gigabit(1.0), spec, &run)
            .err()
            .map(|rejection| (rejection.named, rejection.reason))
    };
    let both = streaming(Direction::Bidirectional);
    assert_eq!(refused(&both, 100.0, 100.0, 20, 1448), None);
    // ten milliseconds of two seconds, while a thread stalled
    assert_eq!(refused(&both, 100.49, 99.0, 20, 1448), None);
    assert_eq!(refused(&both, 100.9, 99.0, 10_000, 1448), None, "held by moderation");
    let (named, reason) = refused(&both, 88.0, 100.7, 20, 1448).unwrap();
    assert_eq!(named, "receive");
    assert_eq!(
        reason,
        "receive was 100.70 % of what its links and buses can carry (948.1 Mb/s of 941.5 Mb/s), which \
         is impossible: the interval has payload of the time before it, because something stalled \
         when it began"
    );
    // the limit of peers without timestamps
    assert_eq!(refused(&both, 101.2, 101.2, 20, 1460), None);
    assert!(refused(&both, 101.4, 100.7, 20, 1460).is_some());
    let requests = RunSpec {
        task: Task::Workload(Workload { kind: Protocol::RequestResponse, ..Workload::default() }),
        ..both
    };
    assert_eq!(refused(&requests, 200.0, 0.0, 20, 1448), None, "they have no limit");
}

#[test]
fn payload_that_waited_behind_lost_segments_is_the_cause_if_it_is_enough() {
    let limit = 1e9 * 1448.0 / 1538.0;
    let cause = |opened_bytes: u64| {
        let mut run = sent_at(1e9);
        (run.traffic.transmit_bytes, run.traffic.transmit_seconds) =
            ((limit / 4.0 * 1.007) as u64, 2.0);
        run.evidence.senders.out_of_order = OutOfOrder { opened_bytes, closed_bytes: 0 };
        let rejected = limits::check(&gigabit(1.0), &streaming(Direction::Transmit), &run);
        let reason = rejected.unwrap_err().reason;
        reason.split_once("because ").unwrap().1.to_owned()
    };
    assert_eq!(cause(0), "something stalled when it began");
    assert_eq!(cause(400_000), "something stalled when it began");
    assert_eq!(
        cause(1_500_000),
        "1500000 B waited behind lost segments when it opened; a longer warm-up lets TCP repair the losses of \
         its start"
    );
}

#[test]
fn no_run_moves_more_in_both_directions_than_its_bus_can_carry() {
    let adapter = Adapter::Model(Box::new(model::find("ten-gigabit").unwrap()));
    let ten_gigabit = TestbedSpec { adapter, ..TestbedSpec::default() };
    let mut both = streaming(Direction::Bidirectional);
    both.interface.mtu = Some(9000);
    let refused = |spec: &RunSpec, percent: f64| {
        let mut run = sent_at(1e9);
        let bytes = (10e9 * 8948.0 / 9038.0 / 8.0 * 2.0 * percent / 100.0) as u64;
        (run.traffic.transmit_bytes, run.traffic.transmit_seconds) = (bytes, 2.0);
        (run.traffic.receive_bytes, run.traffic.receive_seconds) = (bytes, 2.0);
        limits::check(&ten_gigabit, spec, &run).err()
    };
    assert_eq!(refused(&both, 63.0), None, "12.47 of 12.55 Gb/s");
    // neither direction is full, and the bus has less than both
    let Rejection { named, reason, .. } = refused(&both, 70.0).unwrap();
    assert_eq!(named, "the sum of both directions");
    let said = "the sum of both directions was 110.44 % of what its links and buses can carry (13.86 Gb/s \
                of 12.55 Gb/s), which is impossible";
    assert!(reason.starts_with(said), "{reason}");
    let one = RunSpec {
        task: Task::Workload(Workload { direction: Direction::Receive, ..Workload::default() }),
        ..both
    };
    assert_eq!(refused(&one, 70.0), None, "the sum is compared where both directions have payload");
}
