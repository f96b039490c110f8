//! Tests of verdicts.

use linkrate_terms::measurement::OtherProgram;

use super::*;
use crate::fixture;

/// A cell that nothing bounds.
const CALM: VerdictInput = VerdictInput {
    good_runs: 5,
    link_percent: None,
    bus_percent: None,
    device_busiest_percent: None,
    device_shares_cpus: false,
    scale: 1.0,
    sut_busiest_percent: Some(12.04),
    client_busiest_percent: Some(10.0),
    shared_cpus: false,
    transactional: false,
    rwnd_limited_percent: Some(3.0),
    sndbuf_limited_percent: Some(1.0),
    client_others_percent: 0.0,
};

fn said(input: VerdictInput) -> String {
    judge(&input).to_string()
}

#[test]
fn no_good_run() {
    let busy = VerdictInput { good_runs: 0, sut_busiest_percent: Some(99.0), ..CALM };
    assert_eq!(said(busy), "nothing to judge: no run succeeded");
}

#[test]
fn the_link_comes_before_the_cpu() {
    let input = VerdictInput { link_percent: Some(99.3), sut_busiest_percent: Some(99.0), ..CALM };
    assert_eq!(said(input), "bound by the link (99.3 % occupied)");
    let input = VerdictInput { link_percent: Some(96.9), ..input };
    assert_eq!(said(input), "bound by the SUT's CPU (99.0 % busy)");
}

#[test]
fn sut_cpu_from_the_threshold_on() {
    let at = |percent| VerdictInput { sut_busiest_percent: Some(percent), ..CALM };
    assert_eq!(said(at(99.21)), "bound by the SUT's CPU (99.2 % busy)");
    assert_eq!(judge(&at(95.0)), Verdict::SutCpu { percent: 95.0 });
    assert!(matches!(judge(&at(94.9)), Verdict::NoSingleResource { .. }));
}

#[test]
fn client_cpu() {
    let input = VerdictInput { client_busiest_percent: Some(98.0), ..CALM };
    assert_eq!(
        said(input),
        "bound by the clients' CPU (98.0 % busy): the SUT may do more with stronger clients"
    );
}

#[test]
fn other_programs_on_a_client_cpu_that_is_the_bound_are_told() {
    let busy = VerdictInput {
        client_busiest_percent: Some(98.0),
        client_others_percent: CLIENT_OTHERS_PERCENT,
        ..CALM
    };
    assert_eq!(
        busy.sentence(),
        "bound by the clients' CPU (98.0 % busy): the SUT may do more with stronger clients; other \
         programs used 5.0 % of a CPU there, so that the figure is not linkrate's own"
    );
    assert_eq!(busy.brief(), "bound by the clients' CPU (98.0 % busy, 5.0 % by other programs)");
    let both = VerdictInput { sut_busiest_percent: Some(99.0), ..busy };
    assert!(both.sentence().ends_with("the figure is not linkrate's own"), "{}", both.sentence());
    assert!(both.brief().ends_with("clients 98.0 %, 5.0 % by other programs)"), "{}", both.brief());
    // where they are not the bound, or hardly there, they took nothing from the figure
    let calm = VerdictInput { client_busiest_percent: Some(90.0), ..busy };
    let few = VerdictInput { client_others_percent: 4.9, ..busy };
    for input in [calm, few] {
        assert!(!input.sentence().contains("programs") && !input.brief().contains("programs"));
    }
    let mut run = fixture::stream(1e9, 0.5);
    let other = |cpu_ns| OtherProgram { pid: 7, name: "sh".to_owned(), cpu_ns };
    run.client_cpu.others = vec![other(120_000_000), other(80_000_000)];
    let window_ns = run.client_cpu.cpus[0].window_ns as f64;
    let input = VerdictInput::of_runs(&[fixture::run(0, 0, Some(0), run)]);
    assert!((input.client_others_percent - 2e8 * 100.0 / window_ns).abs() < 1e-9, "{input:?}");
}

#[test]
fn both_cpus() {
    let input = VerdictInput {
        sut_busiest_percent: Some(99.2),
        client_busiest_percent: Some(98.1),
        ..CALM
    };
    assert_eq!(said(input), "bound by the CPUs of both ends (SUT 99.2 % busy, clients 98.1 %)");
}

#[test]
fn shared_cpus_name_neither_end() {
    for (sut, client) in [(99.0, 99.0), (99.0, 20.0), (20.0, 99.0)] {
        let input = VerdictInput {
            sut_busiest_percent: Some(sut),
            client_busiest_percent: Some(client),
            shared_cpus: true,
            ..CALM
        };
        assert_eq!(said(input), "bound by CPU that the SUT and the clients share (99.0 % busy)");
    }
}

#[test]
fn receiver_window() {
    let input = VerdictInput { rwnd_limited_percent: Some(72.0), ..CALM };
    assert_eq!(said(input), "bound by the receiver's window (72.0 % of sending time)");
    let input = VerdictInput { sndbuf_limited_percent: Some(80.0), ..input };
    assert!(matches!(judge(&input), Verdict::ReceiverWindow { .. }));
}

#[test]
fn send_buffer() {
    let input = VerdictInput { sndbuf_limited_percent: Some(50.0), shared_cpus: true, ..CALM };
    assert_eq!(
        said(input),
        "bound by the send buffer (50.0 % of sending time); the SUT and the clients share CPUs"
    );
}

#[test]
fn the_send_buffer_is_found_by_looks_that_the_kernel_does_not_count() {
    let run = |sndbuf_limited_us, looks: (u64, u64)| {
        let mut run = fixture::stream(1e9, 0.5);
        let senders = &mut run.evidence.senders;
        (senders.busy_us, senders.sndbuf_limited_us) = (1_000_000, sndbuf_limited_us);
        (senders.buffer_full_looks, senders.buffer_looks) = looks;
        fixture::run(0, 0, Some(0), run)
    };
    let percent = |runs: &[StoredRun]| VerdictInput::of_runs(runs).sndbuf_limited_percent;
    assert_eq!(percent(&[run(0, (0, 0))]), Some(0.0));
    assert_eq!(percent(&[run(600_000, (0, 6))]), Some(60.0));
    assert_eq!(percent(&[run(0, (5, 6)), run(0, (6, 6))]), Some((500.0 / 6.0 + 100.0) / 2.0));
}

#[test]
fn round_trip() {
    let input = VerdictInput { transactional: true, ..CALM };
    assert_eq!(
        said(input),
        "bound by the round trip: every request waits for its response (SUT CPU 12.0 % busy)"
    );
}

#[test]
fn no_single_resource() {
    assert_eq!(
        said(CALM),
        "bound by no single resource: the ends wait for each other (SUT CPU 12.0 % busy, \
         clients 10.0 %, window-limited 3.0 % of sending time)"
    );
    let blind = VerdictInput { good_runs: 1, ..VerdictInput::default() };
    assert_eq!(said(blind), "bound by no single resource: the ends wait for each other");
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
    let input = VerdictInput::of_runs(&runs);
    assert_eq!(input.good_runs, 2);
    assert!((input.sut_busiest_percent.unwrap() - 60.0).abs() < 1e-9);
    assert!((input.rwnd_limited_percent.unwrap() - 50.0).abs() < 1e-9);
    assert_eq!(VerdictInput::of_runs(&runs[1..2]), VerdictInput::default());
}

#[test]
fn the_bus_comes_after_the_link() {
    let full = VerdictInput { bus_percent: Some(98.2), sut_busiest_percent: Some(99.0), ..CALM };
    assert_eq!(said(full), "bound by the bus (98.2 % occupied)");
    assert!(matches!(
        judge(&VerdictInput { link_percent: Some(97.0), ..full }),
        Verdict::Link { .. }
    ));
}

#[test]
fn a_device_thread_is_told_from_the_clients_on_its_cpu() {
    let busy = VerdictInput {
        device_busiest_percent: Some(96.3),
        client_busiest_percent: Some(99.0),
        ..CALM
    };
    assert_eq!(
        said(busy),
        "bound by the CPU of the adapter's device (busiest thread 96.3 % of a CPU)"
    );
    let most =
        VerdictInput { device_busiest_percent: Some(71.2), device_shares_cpus: true, ..busy };
    assert_eq!(
        most.sentence(),
        "bound by the CPU of the adapter's device (busiest thread 71.2 % of a CPU); device and \
         clients share CPUs"
    );
    let less = VerdictInput { device_busiest_percent: Some(49.9), ..most };
    assert!(matches!(judge(&less), Verdict::ClientCpu { .. }));
    let apart = VerdictInput { device_shares_cpus: false, ..most };
    assert!(matches!(judge(&apart), Verdict::ClientCpu { .. }));
    let calm = VerdictInput { client_busiest_percent: Some(80.0), ..most };
    assert!(matches!(judge(&calm), Verdict::NoSingleResource { .. }));
    let sut =
        VerdictInput { sut_busiest_percent: Some(99.0), client_busiest_percent: None, ..busy };
    assert!(matches!(judge(&sut), Verdict::SutCpu { .. }));
}

#[test]
fn where_the_host_is_the_limit_the_sentence_says_so() {
    let input = VerdictInput {
        link_percent: Some(43.2),
        sut_busiest_percent: Some(99.8),
        device_shares_cpus: true,
        ..CALM
    };
    assert_eq!(
        input.sentence(),
        "bound by the SUT's CPU (99.8 % busy); the host is the limit: links 43.2 % occupied"
    );
    let clients = VerdictInput {
        sut_busiest_percent: Some(60.0),
        client_busiest_percent: Some(99.0),
        ..input
    };
    assert_eq!(
        clients.sentence(),
        "bound by the clients' CPU (99.0 % busy): the SUT may do more with stronger clients; the host \
         is the limit: links 43.2 % occupied, device and clients share CPUs"
    );
    let calm = VerdictInput { link_percent: Some(43.2), scale: 0.1, ..CALM };
    assert!(calm.sentence().ends_with("; links 43.2 % occupied; links at 0.1 of their rate"));
    let full = VerdictInput { link_percent: Some(99.0), scale: 0.1, ..CALM };
    assert_eq!(full.sentence(), "bound by the link (99.0 % occupied); links at 0.1 of their rate");
    // a veth's verdicts have nothing to add
    assert_eq!(CALM.sentence(), said(CALM));
}
