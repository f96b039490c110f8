//! Tests of the evidence behind verdicts.

use linkrate_model::Workload;
use linkrate_model::measurement::{CpuTime, OtherProgram, ThreadTime};

use super::*;
use crate::fixture;
use crate::store::StoredRun;

fn run_of(run: Measurement) -> StoredRun {
    fixture::run(0, 0, Some(0), run)
}

fn only(shares: &Shares) -> DirectionShares {
    assert_eq!(shares.ways.len(), 1);
    shares.ways[0].clone()
}

/// A bidirectional run with these times of the senders at the SUT and at the clients.
fn both_ways(sut: SenderTimes, client: SenderTimes) -> StoredRun {
    let mut run = fixture::stream(1e9, 0.5);
    run.evidence.senders = sut.plus(client);
    run.evidence.client_senders = Some(client);
    run.evidence.adapter = Some(fixture::counted(99.6, 88.7));
    let mut run = run_of(run);
    if let Task::Workload(workload) = &mut run.spec.task {
        workload.direction = Direction::Bidirectional;
    }
    run
}

#[test]
fn evidence_is_taken_from_good_runs_only() {
    let mut measurement = fixture::stream(1e9, 0.5);
    measurement.evidence.senders.rwnd_limited_us = 1_900_000;
    let runs = [
        fixture::run(0, 0, Some(0), measurement),
        fixture::run(1, 1, Some(0), fixture::failed("x")),
        fixture::run(2, 2, Some(0), fixture::stream(1e9, 0.7)),
    ];
    let shares = of_runs(&runs, 0.5);
    assert_eq!((shares.good_runs, shares.scale), (2, 0.5));
    let sut = shares.sut.unwrap();
    assert!((sut.percent - 60.0).abs() < 1e-9 && !sut.of_thread);
    // where the path is not known, the interval counts
    assert!((only(&shares).rwnd_limited_percent.unwrap() - 50.0).abs() < 1e-9);
    assert_eq!(of_runs(&runs[1..2], 1.0), Shares::default());
}

#[test]
fn does_not_count_a_interval_that_a_queue_fills() {
    let mut run = fixture::stream(1e9, 0.5);
    let senders = &mut run.evidence.senders;
    (senders.busy_us, senders.rwnd_limited_us) = (1000, 900);
    senders.rwnd_limited_unqueued_us = Some(100);
    let shares = of_runs(&[run_of(run)], 1.0);
    assert!((only(&shares).rwnd_limited_percent.unwrap() - 10.0).abs() < 1e-9);
}

#[test]
fn each_direction_has_its_own_senders_and_links() {
    let times = |busy_us, rwnd, sndbuf_limited_us, full| SenderTimes {
        sockets: 1,
        busy_us,
        rwnd_limited_us: rwnd,
        rwnd_limited_unqueued_us: Some(rwnd),
        sndbuf_limited_us,
        buffer_samples: 10,
        buffer_full_samples: full,
        ..SenderTimes::default()
    };
    let run = both_ways(times(1000, 20, 300, 1), times(500, 400, 50, 9));
    let shares = of_runs([&run], 1.0);
    let [transmit, receive] = &shares.ways[..] else { panic!("{shares:?}") };
    assert_eq!(transmit.direction, Some(FlowDirection::Transmit));
    assert_eq!(receive.direction, Some(FlowDirection::Receive));
    assert_eq!((transmit.link_percent, receive.link_percent), (Some(99.6), Some(88.7)));
    assert_eq!(transmit.rwnd_limited_percent, Some(2.0));
    assert_eq!(receive.rwnd_limited_percent, Some(80.0));
    assert_eq!(transmit.sndbuf_limited_percent, Some(30.0));
    assert_eq!(receive.sndbuf_limited_percent, Some(90.0));

    // of the sum of both ends alone nothing is known of either
    let mut old = run;
    let crate::store::Outcome::Measured(measured) = &mut old.outcome else { panic!("{old:?}") };
    measured.evidence.client_senders = None;
    for way in of_runs([&old], 1.0).ways {
        assert_eq!((way.rwnd_limited_percent, way.sndbuf_limited_percent), (None, None));
    }
}

#[test]
fn senders_of_transfers_wait_while_nothing_is_under_way() {
    let times = SenderTimes { sockets: 4, busy_us: 1_000_000, ..SenderTimes::default() };
    let mut run = run_of(fixture::stream(1e9, 0.5));
    let crate::store::Outcome::Measured(measured) = &mut run.outcome else { panic!("{run:?}") };
    measured.evidence.senders = times;
    run.spec.duration = std::time::Duration::from_secs(1);
    assert_eq!(only(&of_runs([&run], 1.0)).word_percent, None, "streams wait for no word");
    run.spec.task = Task::Workload(Workload {
        kind: linkrate_model::Protocol::Transfer,
        ..Workload::default()
    });
    assert_eq!(only(&of_runs([&run], 1.0)).word_percent, Some(75.0));
}

/// The counters of senders are read before the measurement opens and after it closes: in 0.3 s, 36 ms are 12 %.
#[test]
fn senders_are_judged_by_the_time_over_which_they_were_counted() {
    let mut run = run_of(fixture::stream(1e9, 0.5));
    run.spec.duration = std::time::Duration::from_millis(300);
    let crate::store::Outcome::Measured(measured) = &mut run.outcome else { panic!("{run:?}") };
    measured.traffic.transmit_bytes = 30_000_000;
    measured.evidence.senders = SenderTimes {
        sockets: 2,
        observed_us: 672_000,
        busy_us: 604_800,
        resent_bytes: 336_000,
        ..SenderTimes::default()
    };
    let shares = of_runs([&run], 1.0);
    let near = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 1e-9;
    assert!(near(only(&shares).nothing_to_send_percent, 10.0), "{shares:?}");
    assert!(near(only(&shares).resent_percent, 1.0), "{shares:?}");
}

#[test]
fn transactions_are_judged_by_the_busier_direction() {
    let mut run = fixture::transactions(1e4, 0.5);
    run.evidence.adapter = Some(fixture::counted(3.0, 7.0));
    let mut run = run_of(run);
    run.spec.task = Task::Workload(Workload {
        kind: linkrate_model::Protocol::RequestResponse,
        ..Workload::default()
    });
    let shares = of_runs([&run], 1.0);
    let way = only(&shares);
    assert_eq!((way.direction, way.link_percent), (None, Some(7.0)));
    assert!(shares.transactional);
}

#[test]
fn the_send_buffer_is_found_by_looks_that_the_kernel_does_not_count() {
    let run = |sndbuf_limited_us, looks: (u64, u64)| {
        let mut run = fixture::stream(1e9, 0.5);
        let senders = &mut run.evidence.senders;
        (senders.busy_us, senders.sndbuf_limited_us) = (1_000_000, sndbuf_limited_us);
        (senders.buffer_full_samples, senders.buffer_samples) = looks;
        run_of(run)
    };
    let percent = |runs: &[StoredRun]| only(&of_runs(runs, 1.0)).sndbuf_limited_percent;
    assert_eq!(percent(&[run(0, (0, 0))]), Some(0.0));
    assert_eq!(percent(&[run(600_000, (0, 6))]), Some(60.0));
    assert_eq!(percent(&[run(0, (5, 6)), run(0, (6, 6))]), Some((500.0 / 6.0 + 100.0) / 2.0));
}

#[test]
fn other_programs_are_counted_in_per_cent_of_one_client_cpu() {
    let mut run = fixture::stream(1e9, 0.5);
    let other = |cpu_ns| OtherProgram { pid: 7, name: "sh".to_owned(), cpu_ns, bound_ns: 0 };
    run.client_cpu.background = vec![other(120_000_000), other(80_000_000)];
    let interval_ns = run.client_cpu.cpus[0].interval_ns as f64;
    let shares = of_runs(&[run_of(run)], 1.0);
    assert!((shares.client_others_percent - 2e8 * 100.0 / interval_ns).abs() < 1e-9, "{shares:?}");
}

#[test]
fn counts_a_busy_thread_that_moves_over_several_cpus() {
    let thread = |cpu_ns| ThreadTime {
        name: "flow".to_owned(),
        affinity: [0, 1].into_iter().collect(),
        cpu_ns,
        user_ns: 0,
    };
    let sut = |thread_ns, cpu_ns: u64| {
        let mut run = fixture::stream(1e9, 0.5);
        let cpu = |cpu| CpuTime {
            cpu,
            interval_ns: 1000,
            busy_ns: cpu_ns,
            steal_ns: 0,
            uncertainty_ns: 0,
        };
        run.sut_cpu.cpus = vec![cpu(0), cpu(1)];
        run.sut_cpu.threads = vec![thread(thread_ns)];
        of_runs(&[run_of(run)], 1.0).sut.unwrap()
    };
    assert_eq!(sut(970, 500), CpuShare { percent: 97.0, of_thread: true });
    assert_eq!(sut(400, 500), CpuShare { percent: 50.0, of_thread: false });
    // read a moment later, a thread seems a little busier than the CPU that it never left
    assert_eq!(sut(984, 980), CpuShare { percent: 98.0, of_thread: false });
    // the clock of a driver's thread runs while it waits for the CPU that it is bound to
    let mut run = fixture::stream(1e9, 0.5);
    let mut counted = fixture::counted(10.0, 10.0);
    let bound = [0].into_iter().collect();
    counted.driver_threads = vec![ThreadTime { affinity: bound, ..thread(1_960_000_000) }];
    run.evidence.adapter = Some(counted);
    let shares = of_runs(&[run_of(run)], 1.0);
    assert_eq!(shares.sut.unwrap(), CpuShare { percent: 50.0, of_thread: false });
}

/// A stream that the receiver's window stops for a share of its time, on a link that is occupied so far.
fn windowed(window: f64, link_percent: f64) -> StoredRun {
    let mut run = fixture::stream(1e9, 0.5);
    let senders = &mut run.evidence.senders;
    (senders.sockets, senders.busy_us) = (1, 1_000_000);
    senders.rwnd_limited_us = (window * 1e6) as u64;
    senders.rwnd_limited_unqueued_us = Some(senders.rwnd_limited_us);
    run.evidence.adapter = Some(fixture::counted(link_percent, 0.6));
    run_of(run)
}

#[test]
fn what_bound_most_runs_bound_the_cell() {
    let (full, windowed) = (windowed(0.1, 99.9), windowed(0.99, 60.0));
    let of = |runs: &[&StoredRun]| verdict(runs.iter().copied(), 1.0);
    // by the mean of these the link is at 96.5 %, and the window stops the sender for 17 %
    let nine = of(&[&full, &full, &full, &full, &full, &full, &full, &full, &windowed]);
    assert_eq!(nine.brief(), "limited by the link: transmit 99.9 % (8 of 9 runs)");
    assert!(nine.is_of_the_adapter());
    // without a majority for the adapter it is none of the adapter's
    assert!(!of(&[&full, &windowed]).is_of_the_adapter());
    let five = of(&[&windowed, &full, &full, &windowed, &windowed]);
    assert!(matches!(five.directions[0].bottleneck, Bottleneck::ReceiverWindow { .. }), "{five:?}");
    assert_eq!(five.directions[0].agreeing, (3, 5));
    // as many runs have another bound: neither is the cell's
    let mut busy = fixture::stream(1e9, 0.99);
    busy.evidence.adapter = Some(fixture::counted(60.0, 0.6));
    let busy = run_of(busy);
    for runs in
        [[&windowed, &windowed, &busy, &busy, &full], [&busy, &windowed, &full, &windowed, &busy]]
    {
        let tied = of(&runs);
        assert_eq!(tied.directions[0].bottleneck.word(), "no_single_resource", "{tied:?}");
    }
}
