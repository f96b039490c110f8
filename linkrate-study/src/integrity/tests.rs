use super::*;
use crate::fixture;
use linkrate_terms::measurement::OtherProgram;
use linkrate_terms::model;

fn other(name: &str, percent: f64) -> OtherProgram {
    // the fixture's window is two seconds
    OtherProgram { pid: 4711, name: name.to_owned(), cpu_ns: (percent * 2e7) as u64 }
}

fn gigabit(scale: f64) -> TestbedSpec {
    let adapter = Adapter::Model(Box::new(model::find("gigabit").unwrap()));
    TestbedSpec { adapter, scale, ..TestbedSpec::default() }
}

/// A run whose eth0 sent full frames for a second of its two at this rate.
fn sent_at(rate: f64) -> Measurement {
    let mut run = fixture::stream(9.4e8, 0.5);
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
fn a_program_that_takes_the_cpus_is_named_with_its_share() {
    let mut run = fixture::stream(9.4e9, 0.8);
    run.sut_cpu.others = vec![other("sh", 48.0), other("cron", 0.1)];
    assert_eq!(
        check(&TestbedSpec::default(), &run).unwrap_err(),
        "other programs used 48.1 % of the CPUs of the system under test, expected less than 10 %: \
         \"sh\" (process 4711) 48.0 %, \"cron\" (process 4711) 0.1 %"
    );
    run.sut_cpu.others = vec![other("sh", 9.0)];
    assert_eq!(check(&TestbedSpec::default(), &run), Ok(()));
    run.client_cpu.others = vec![other("sh", 30.0)];
    assert_eq!(check(&TestbedSpec::default(), &run), Ok(()), "it costs the SUT nothing");
    run.sut_cpu.others = vec![other("\u{1b}[2J", 30.0)];
    let reason = check(&TestbedSpec::default(), &run).unwrap_err();
    assert!(!reason.contains('\u{1b}'), "{reason}");
    // the same share of a window of 0.2 s is a daemon that woke up
    run.sut_cpu.cpus[0].window_ns = 200_000_000;
    run.sut_cpu.others = vec![other("sh", 3.0)];
    assert_eq!(check(&TestbedSpec::default(), &run), Ok(()));
}

#[test]
fn a_link_tells_its_rate_by_what_it_carried_in_its_busy_time() {
    assert_eq!(check(&gigabit(1.0), &sent_at(1e9)), Ok(()));
    assert_eq!(check(&gigabit(1.0), &sent_at(0.995e9)), Ok(()));
    assert_eq!(
        check(&gigabit(1.0), &sent_at(0.5e9)).unwrap_err(),
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
    let percent = |law| (observed_rate(law, port).unwrap().0 / 149.76e6 - 1.0).abs() * 100.0;
    assert!(percent(law) < 1e-3);
    // preamble and gap for each of them would refuse the run
    assert!(percent(LinkLaw::Ethernet) > RATE_PERCENT);
}

#[test]
fn an_idle_link_tells_nothing() {
    let mut run = sent_at(1e9);
    let adapter = run.evidence.adapter.as_mut().unwrap();
    adapter.ports[0].counters.insert("txLinkBusyNs".to_owned(), 1000);
    assert_eq!(check(&gigabit(1.0), &run), Ok(()));
    assert_eq!(check(&TestbedSpec::default(), &sent_at(0.5e9)), Ok(()), "veth has no rate");
}

#[test]
fn what_is_too_small_to_refuse_a_run_for_is_told() {
    let mut busy = fixture::stream(9.4e9, 0.8);
    busy.sut_cpu.others = vec![other("cron", 3.0)];
    let calm = || fixture::run(0, 0, Some(0), fixture::stream(9.4e9, 0.8));
    let runs = [calm(), fixture::run(1, 0, Some(1), busy)];
    assert_eq!(
        told(runs.iter()),
        [
            "Other programs used more than 1 % of the CPUs of the system under test in 1 run, most in \
          run 1: \"cron\" (process 4711) 3.0 %."
        ]
    );
    assert_eq!(told([calm()].iter()), [""; 0]);
}

#[test]
fn a_wall_clock_that_went_back_is_told() {
    let run = |sequence| fixture::run(sequence, 0, Some(0), fixture::stream(9.4e9, 0.8));
    let mut later = run(2);
    later.started_unix_ms -= 60_000;
    let said = told([run(0), run(1), later].iter());
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("The wall clock went back by 57.0 s between runs 1 and 2"),
        "{said:?}"
    );
}

#[test]
fn payload_that_the_interface_did_not_carry_went_another_way() {
    let ends = vec!["ssh:lab2".parse().unwrap()];
    let on = linkrate_terms::Interfaces::new(vec!["eth1".to_owned()], ends, None).unwrap();
    let testbed = TestbedSpec::default().on_interfaces(on);
    let mut run = fixture::stream(9.4e8, 0.5);
    let sent = run.traffic.transmit_bytes;
    // some drivers count once a second
    run.evidence.interface.tx_bytes = sent / 2;
    assert_eq!(check(&testbed, &run), Ok(()));
    run.evidence.interface.tx_bytes = sent / 50;
    let reason = check(&testbed, &run).unwrap_err();
    assert!(reason.starts_with("eth1 sent ") && reason.contains("another way"), "{reason}");
    assert_eq!(
        check(&TestbedSpec::default(), &run),
        Ok(()),
        "linkrate's own wires lead nowhere else"
    );
}
