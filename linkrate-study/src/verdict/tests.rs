//! Tests of verdicts.

use super::*;

fn cpu(percent: f64) -> Option<CpuShare> {
    Some(CpuShare { percent, of_thread: false })
}

/// A direction that no link and no window bounds.
fn way(direction: Option<FlowDirection>) -> DirectionShares {
    DirectionShares {
        direction,
        rwnd_limited_percent: Some(3.0),
        rwnd_limited_anywhere_percent: Some(40.0),
        cwnd_limited_percent: Some(45.0),
        sndbuf_limited_percent: Some(1.0),
        resent_percent: Some(0.0),
        nothing_to_send_percent: Some(0.0),
        ..DirectionShares::default()
    }
}

/// A cell that transmits, and that nothing bounds.
fn calm() -> Shares {
    Shares {
        good_runs: 5,
        ways: vec![way(Some(FlowDirection::Transmit))],
        sut: cpu(12.04),
        client: cpu(10.0),
        ..Shares::default()
    }
}

fn with_direction(shares: Shares, change: impl Fn(&mut DirectionShares)) -> Shares {
    let mut shares = shares;
    shares.ways.iter_mut().for_each(change);
    shares
}

/// Both directions, with these shares of their links.
fn both_ways(transmit: f64, receive: f64) -> Shares {
    let at = |direction, percent| DirectionShares {
        link_percent: Some(percent),
        ..way(Some(direction))
    };
    Shares {
        ways: vec![at(FlowDirection::Transmit, transmit), at(FlowDirection::Receive, receive)],
        ..calm()
    }
}

fn only(shares: &Shares) -> Bottleneck {
    let verdict = judge(shares);
    assert_eq!(verdict.directions.len(), 1);
    verdict.directions[0].bottleneck.clone()
}

fn said(shares: &Shares) -> [String; 2] {
    let verdict = judge(shares);
    let (brief, sentence) = (verdict.brief(), verdict.sentence());
    assert!(brief.chars().count() <= sentence.chars().count(), "{brief} | {sentence}");
    [brief, sentence]
}

/// What the verdict is, in brief and as a sentence.
#[track_caller]
fn says(shares: &Shares, brief: &str, sentence: &str) {
    assert_eq!(said(shares), [brief, sentence]);
}

#[test]
fn senders_of_short_transfers_wait_for_words() {
    let waits = |percent| with_direction(calm(), |way| way.word_percent = Some(percent));
    assert!(matches!(only(&waits(49.9)), Bottleneck::NoSingleResource { .. }));
    assert_eq!(only(&waits(62.5)), Bottleneck::Acknowledgement { percent: 62.5 });
    let filled = with_direction(waits(62.5), |way| way.link_percent = Some(98.0));
    assert!(matches!(only(&filled), Bottleneck::Link { .. }));
    says(
        &waits(62.5),
        "limited by the wait for the peer's acknowledgement: 62.5 %",
        "limited by the wait for the peer's acknowledgement (62.5 % of the time): larger transfers, or more \
         connections, would fill the time",
    );
}

#[test]
fn links_that_wait_for_the_store_of_their_adapter_are_not_a_mystery() {
    let stores = |link, store| {
        with_direction(calm(), |way| {
            (way.link_percent, way.store_percent) = (Some(link), Some(store));
        })
    };
    assert!(matches!(only(&stores(90.0, 6.9)), Bottleneck::NoSingleResource { .. }));
    assert_eq!(only(&stores(90.0, 9.8)), Bottleneck::Store { percent: 9.8 });
    // full links, and a wait that is none to speak of
    assert!(matches!(only(&stores(99.5, 1.5)), Bottleneck::Link { .. }));
    assert_eq!(only(&stores(98.0, 1.5)), Bottleneck::Store { percent: 1.5 });
    assert!(matches!(only(&stores(96.9, 0.2)), Bottleneck::NoSingleResource { .. }));
    says(
        &stores(90.0, 9.8),
        "limited by the adapter's store: 9.8 %; links 90.0 %",
        "limited by the adapter's store (9.8 % of the time): the links are idle while superframes are fetched into \
         it; links 90.0 % occupied",
    );
}

fn tbf(rate_percent: f64, waited: bool) -> DisciplineShare {
    DisciplineShare {
        beside: Vec::new(),
        free: Vec::new(),
        interface: "eth0".to_owned(),
        kind: "tbf".to_owned(),
        rate: Some(BitRate(5e8)),
        rate_percent: Some(rate_percent),
        waited,
        overlimits: 4100.0,
        drops: 12.4,
    }
}

#[test]
fn a_queue_discipline_at_its_rate_is_the_bound() {
    let at = |percent| {
        with_direction(calm(), |way| {
            (way.link_percent, way.discipline) = (Some(49.9), Some(tbf(percent, false)));
        })
    };
    assert!(matches!(only(&at(96.9)), Bottleneck::NoSingleResource { .. }));
    // a CPU that is busy all the time does not explain that it sends just that
    let busy = Shares { sut: cpu(99.0), ..at(99.6) };
    assert_eq!(only(&busy), Bottleneck::Discipline { discipline: tbf(99.6, false) });
    says(
        &at(99.6),
        "limited by the queue discipline tbf of eth0: 99.6 % of 500.0 Mb/s; links 49.9 %",
        "limited by the queue discipline tbf of eth0 (99.6 % of 500.0 Mb/s, packets held back 4100 times and 12 \
         dropped a run); links 49.9 % occupied",
    );
    let document = serde_json::to_value(judge(&at(99.6))).unwrap();
    assert_eq!(document["bottlenecks"][0]["resource"], "queue_discipline");
    assert_eq!(document["bottlenecks"][0]["percent"], 99.6);
    let full = with_direction(at(99.6), |way| way.link_percent = Some(99.5));
    assert!(matches!(only(&full), Bottleneck::Link { .. }));
}

#[test]
fn a_queue_discipline_is_named_with_its_ports() {
    let on = |beside: &[&str], free: &[&str]| {
        let names = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        let discipline =
            DisciplineShare { beside: names(beside), free: names(free), ..tbf(99.6, false) };
        said(&with_direction(calm(), |way| way.discipline = Some(discipline.clone())))[0].clone()
    };
    let of = |ports: &str| {
        format!("limited by the queue discipline tbf of {ports}: 99.6 % of 500.0 Mb/s")
    };
    assert_eq!(on(&[], &["eth1", "eth2", "eth3"]), of("eth0, 1 of 4 ports"));
    assert_eq!(on(&["eth1"], &["eth2"]), of("eth0 and eth1, 2 of 3 ports"));
    assert_eq!(on(&["eth1", "eth2"], &[]), of("eth0, eth1 and eth2"));
    assert_eq!(on(&["e1", "e2", "e3", "e4"], &[]), of("eth0, e1, e2 and 2 more"));
}

#[test]
fn a_queue_that_is_never_empty_is_the_bound_unless_something_behind_it_is_full() {
    let unknown = DisciplineShare { rate: None, rate_percent: None, ..tbf(0.0, true) };
    let waits = |link_percent| {
        with_direction(calm(), |way| {
            way.discipline = Some(unknown.clone());
            (way.link_percent, way.rwnd_limited_percent) = (link_percent, Some(72.0));
        })
    };
    assert_eq!(
        said(&waits(None))[0],
        "limited by the queue discipline tbf of eth0: packets held back 4100 times and 12 dropped a run"
    );
    assert!(matches!(only(&waits(Some(89.9))), Bottleneck::Discipline { .. }));
    assert!(matches!(only(&waits(Some(90.0))), Bottleneck::ReceiverWindow { .. }));
    let busy = Shares { sut: cpu(99.0), ..waits(None) };
    assert!(matches!(only(&busy), Bottleneck::SutCpu { .. }));
}

#[test]
fn tape_drives_that_are_full_are_the_bound() {
    let at = |percent| with_direction(calm(), |way| way.drives_percent = Some(percent));
    assert!(matches!(only(&at(96.9)), Bottleneck::NoSingleResource { .. }));
    let busy = Shares { client: cpu(99.0), ..at(98.5) };
    assert_eq!(only(&busy), Bottleneck::Drives { percent: 98.5 });
    assert_eq!(
        said(&at(98.5)),
        ["limited by the tape drives: 98.5 %", "limited by the tape drives (98.5 % of their rate)"]
    );
}

#[test]
fn no_good_run() {
    let busy = Shares { good_runs: 0, sut: cpu(99.0), ..calm() };
    assert_eq!(said(&busy), ["no run succeeded", "no verdict: no run succeeded"]);
}

#[test]
fn a_full_link_comes_before_the_cpu_and_one_that_is_nearly_full_after_it() {
    let busy = Shares { sut: cpu(99.0), ..calm() };
    let full = with_direction(busy.clone(), |way| way.link_percent = Some(99.5));
    assert_eq!(
        said(&full),
        ["limited by the link: transmit 99.5 %", "limited by the link (transmit 99.5 % occupied)"]
    );
    // what is missing is the CPU's
    let nearly = with_direction(busy, |way| way.link_percent = Some(99.3));
    says(
        &nearly,
        "limited by the SUT's CPU: 99.0 %; links 99.3 %",
        "limited by the SUT's CPU (99.0 % busy); the host is the limit: links 99.3 % occupied",
    );
}

#[test]
fn one_full_port_of_an_aggregate_is_the_bound() {
    let mut uneven = both_ways(46.0, 98.1);
    let ports = PortShares { fullest_percent: 99.64, port: Some(2), others_percent: (31.2, 55.4) };
    uneven.ways[0].ports = Some(ports);
    // even ports are the links
    uneven.ways[1].ports = Some(PortShares { fullest_percent: 99.0, ..ports });
    says(
        &uneven,
        "transmit limited by one port of the aggregate: port 2 99.6 %, the others 31 to 55 %; receive limited by the \
         link: 98.1 % (missing: no cause found)",
        "transmit is limited by one port of the aggregate (port 2 99.6 %, the others 31 to 55 % occupied); receive is \
         limited by the link (98.1 % occupied; missing: no cause found)",
    );
    let of = |ports: PortShares| {
        let mut way = both_ways(46.0, 46.0);
        way.ways.truncate(1);
        way.ways[0].ports = Some(ports);
        judge(&way).directions[0].bottleneck.clone()
    };
    assert_eq!(of(ports), Bottleneck::OnePort { ports });
    assert_eq!(of(ports).percent(), Some(99.64));
    assert!(!matches!(
        of(PortShares { fullest_percent: 96.9, ..ports }),
        Bottleneck::OnePort { .. }
    ));
    // several are full: what holds back the ports that are in use and not full is something else, or nothing has flows there
    let several = |least| of(PortShares { others_percent: (least, 99.8), ..ports });
    assert_ne!(several(85.0).word(), "one_port");
    assert_eq!(several(1.0).word(), "one_port");
    let anywhere = PortShares { port: None, others_percent: (50.1, 50.2), ..ports };
    let mut way = both_ways(46.0, 46.0);
    way.ways.truncate(1);
    way.ways[0].ports = Some(anywhere);
    assert_eq!(
        judge(&way).brief(),
        "limited by one port of the aggregate: the fullest 99.6 %, the others 50 %"
    );
}

#[test]
fn each_direction_is_judged_by_itself() {
    let full = both_ways(99.6, 98.1);
    says(
        &full,
        "limited by the link: transmit 99.6 %, receive 98.1 % (missing: receive no cause found)",
        "limited by the link (transmit 99.6 %, receive 98.1 % occupied; missing: receive no cause found)",
    );
    let mut one = both_ways(99.6, 88.7);
    (one.sut, one.client) = (cpu(80.06), cpu(70.2));
    assert!(matches!(judge(&one).directions[0].bottleneck, Bottleneck::Link { .. }));
    assert!(matches!(judge(&one).directions[1].bottleneck, Bottleneck::NoSingleResource { .. }));
    says(
        &one,
        "transmit limited by the link: 99.6 %; receive limited by no single resource: SUT CPU 80.1 %, clients 70.2 %, \
         window 40.0 %; links receive 88.7 %",
        "transmit is limited by the link (99.6 % occupied); receive is limited by no single resource (SUT CPU 80.1 %, \
         clients 70.2 %, window 40.0 %): each end waits for the other part of the time; links receive 88.7 % occupied",
    );
    // acknowledgements wait behind what is transmitted
    let waiting = with_direction(one.clone(), |way| way.rwnd_limited_anywhere_percent = Some(94.0));
    assert_eq!(
        said(&waiting)[0],
        "transmit limited by the link: 99.6 %; receive limited by the receiver's window: 94.0 % of \
         sending time; links receive 88.7 %"
    );
    one.ways[1].rwnd_limited_percent = Some(64.0);
    assert_eq!(
        said(&one)[0],
        "transmit limited by the link: 99.6 %; receive limited by the receiver's window: 64.0 % of \
         sending time; links receive 88.7 %"
    );
    // a CPU is busy for both directions
    let both = Shares { sut: cpu(99.4), client: cpu(96.2), ..both_ways(39.9, 41.0) };
    says(
        &both,
        "limited by the CPUs of both ends: SUT 99.4 %, clients 96.2 %; links transmit 39.9 %, receive 41.0 %",
        "limited by the CPUs of both ends (SUT 99.4 %, clients 96.2 % busy); the host is the limit: links transmit \
         39.9 %, receive 41.0 % occupied",
    );
    let windows =
        with_direction(both_ways(10.0, 20.0), |way| way.rwnd_limited_percent = Some(72.0));
    assert_eq!(
        said(&windows)[0],
        "limited by the receiver's window: transmit 72.0 %, receive 72.0 % of sending time; \
         links transmit 10.0 %, receive 20.0 %"
    );
}

#[test]
fn sut_cpu_from_the_threshold_on() {
    let at = |percent| Shares { sut: cpu(percent), ..calm() };
    assert_eq!(said(&at(99.21))[1], "limited by the SUT's CPU (99.2 % busy)");
    assert!(matches!(only(&at(95.0)), Bottleneck::SutCpu { sut } if sut.percent == 95.0));
    assert!(matches!(only(&at(94.9)), Bottleneck::NoSingleResource { .. }));
}

#[test]
fn a_thread_that_moves_over_several_cpus_is_named_as_one() {
    let moving = Some(CpuShare { percent: 97.2, of_thread: true });
    assert_eq!(
        said(&Shares { sut: moving, ..calm() }),
        ["limited by the SUT's CPU: 97.2 %", "limited by the SUT's CPU (one thread 97.2 % busy)"]
    );
}

#[test]
fn client_cpu() {
    says(
        &Shares { client: cpu(98.0), ..calm() },
        "limited by the clients' CPU: 98.0 %",
        "limited by the clients' CPU (98.0 % busy): the SUT may do more with stronger clients",
    );
}

#[test]
fn reports_other_programs_on_a_client_cpu_that_is_the_bound() {
    let busy = Shares { client: cpu(98.0), client_others_percent: CLIENT_OTHERS_PERCENT, ..calm() };
    says(
        &busy,
        "limited by the clients' CPU: 98.0 %, 5.0 % by other programs",
        "limited by the clients' CPU (98.0 % busy): the SUT may do more with stronger clients; other programs used \
         5.0 % of a client CPU, which may have lowered the throughput",
    );
    let both = Shares { sut: cpu(99.0), ..busy.clone() };
    assert_eq!(judge(&both).client_others_percent, Some(5.0));
    // other programs took nothing from the figure if the CPU had time left, or if they used less
    let calm = Shares { client: cpu(90.0), ..busy.clone() };
    let few = Shares { client_others_percent: 4.9, ..busy };
    for shares in [calm, few] {
        assert_eq!(judge(&shares).client_others_percent, None);
        assert!(!said(&shares).concat().contains("programs"));
    }
}

#[test]
fn both_cpus() {
    let both = Shares { sut: cpu(99.2), client: cpu(98.1), ..calm() };
    says(
        &both,
        "limited by the CPUs of both ends: SUT 99.2 %, clients 98.1 %",
        "limited by the CPUs of both ends (SUT 99.2 %, clients 98.1 % busy)",
    );
    let device = Shares { device_shares_cpus: true, ..both };
    says(
        &device,
        "limited by the CPUs of both ends: SUT 99.2 %, clients and device 98.1 %",
        "limited by the CPUs of both ends (SUT 99.2 %, clients 98.1 % busy); the host is the limit: device and \
         clients share CPUs",
    );
}

#[test]
fn shared_cpus_name_neither_end() {
    for (sut, client) in [(99.0, 98.0), (99.0, 20.0), (20.0, 99.0)] {
        let shares = Shares { sut: cpu(sut), client: cpu(client), shared_cpus: true, ..calm() };
        says(
            &shares,
            "limited by the CPU that the SUT and the clients share: 99.0 %",
            "limited by the CPU that the SUT and the clients share (99.0 % busy)",
        );
    }
}

#[test]
fn receiver_window() {
    let window = with_direction(calm(), |way| way.rwnd_limited_percent = Some(72.0));
    says(
        &window,
        "limited by the receiver's window: 72.0 % of sending time",
        "limited by the receiver's window (72.0 % of sending time)",
    );
    let both = with_direction(window, |way| way.sndbuf_limited_percent = Some(80.0));
    assert!(matches!(only(&both), Bottleneck::ReceiverWindow { .. }));
}

#[test]
fn send_buffer() {
    let full = with_direction(calm(), |way| way.sndbuf_limited_percent = Some(50.0));
    says(
        &Shares { shared_cpus: true, ..full },
        "limited by the send buffer: 50.0 % of sending time",
        "limited by the send buffer (50.0 % of sending time); the SUT and the clients share CPUs",
    );
}

#[test]
fn links_that_are_not_full_say_what_is_missing() {
    let at = |percent| with_direction(calm(), |way| way.link_percent = Some(percent));
    assert_eq!(judge(&at(99.5)).directions[0].shortfall, []);
    assert_eq!(said(&at(99.6))[0], "limited by the link: transmit 99.6 %");
    // not the bound, so that nothing is missing to it
    assert_eq!(judge(&at(96.9)).directions[0].shortfall, []);
    assert_eq!(judge(&at(99.4)).directions[0].shortfall, [Shortfall::Unknown]);
    says(
        &at(98.0),
        "limited by the link: transmit 98.0 % (missing: no cause found)",
        "limited by the link (transmit 98.0 % occupied; missing: no cause found)",
    );
    let mut held = at(98.1);
    held.ways[0].resent_percent = Some(0.34);
    held.ways[0].nothing_to_send_percent = Some(0.4);
    says(
        &held,
        "limited by the link: transmit 98.1 % (missing: 0.3 % sent again)",
        "limited by the link (transmit 98.1 % occupied; missing: 0.3 % sent again)",
    );
    let document = serde_json::to_value(judge(&held)).unwrap();
    assert_eq!(document["bottlenecks"][0]["shortfall"][0]["cause"], "resent");
    assert_eq!(document["bottlenecks"][0]["shortfall"][0]["percent"], 0.34);
    held.ways[0].nothing_to_send_percent = Some(1.2);
    held.ways[0].rwnd_limited_percent = Some(7.0);
    let brief = said(&held)[0].clone();
    assert!(brief.ends_with("nothing to send for 1.2 %, window 7.0 % of sending time)"), "{brief}");
    // what bounds other cells takes the rest of this one
    let mut beside = at(98.0);
    let way = &mut beside.ways[0];
    (way.store_percent, way.word_percent) = (Some(0.4), Some(1.6));
    assert_eq!(
        said(&beside)[0],
        "limited by the link: transmit 98.0 % (missing: waiting for the peer's acknowledgement 1.6 %)"
    );
    beside.ways[0].discipline = Some(tbf(96.9, true));
    assert_eq!(judge(&beside).directions[0].shortfall, [Shortfall::Word(1.6)]);
}

#[test]
fn a_port_and_a_bus_that_are_not_full_say_what_is_missing_too() {
    let mut uneven = with_direction(calm(), |way| way.link_percent = Some(46.0));
    let ports = PortShares { fullest_percent: 98.0, port: Some(2), others_percent: (31.2, 55.4) };
    uneven.ways[0].ports = Some(ports);
    uneven.ways[0].resent_percent = Some(0.34);
    says(
        &uneven,
        "limited by one port of the aggregate: port 2 98.0 %, the others 31 to 55 % (missing: 0.3 % sent again)",
        "limited by one port of the aggregate (port 2 98.0 %, the others 31 to 55 % occupied; missing: 0.3 % sent \
         again)",
    );
    let mut bus = Shares { bus_percent: Some(98.0), ..both_ways(60.0, 62.0) };
    says(
        &bus,
        "limited by the bus: 98.0 % (missing: no cause found)",
        "limited by the bus (98.0 % occupied; missing: no cause found)",
    );
    bus.ways[1].resent_percent = Some(0.2);
    let brief = said(&bus)[0].clone();
    let missing = "(missing: transmit no cause found, receive 0.2 % sent again)";
    assert!(brief.ends_with(missing), "{brief}");
    bus.bus_percent = Some(99.5);
    assert_eq!(said(&bus)[0], "limited by the bus: 99.5 %");
}

/// Transactions of 500 µs of which so much is unexplained.
fn explained_but_for(unexplained_us: f64) -> Shares {
    let parts = RoundTripParts {
        latency_us: 500.0,
        moderation_us: Some(410.0 - unexplained_us),
        device_us: Some(6.0),
        wire_us: Some(4.0),
        sut_us: 50.0,
        clients_us: Some(30.0),
        unexplained_us,
    };
    let round_trip = Some(parts);
    Shares { transactional: true, round_trip, ways: vec![way(None)], ..calm() }
}

#[test]
fn a_round_trip_is_no_bound_unless_its_parts_explain_it() {
    for explained in [0.0, 124.0, -124.0] {
        let bound = only(&explained_but_for(explained));
        assert!(matches!(bound, Bottleneck::RoundTrip { .. }), "{explained}: {bound:?}");
    }
    says(
        &explained_but_for(200.0),
        "limited by no single resource: SUT CPU 12.0 %, clients 10.0 %, window 40.0 %; 40 % of the round trip \
         unexplained",
        "limited by no single resource (SUT CPU 12.0 %, clients 10.0 %, window 40.0 %; 40 % of the round trip \
         unexplained, 500.0 µs: interrupt delay 210.0 µs, SUT 50.0 µs, clients 30.0 µs, device 6.0 µs, wire 4.0 µs, \
         unexplained 200.0 µs): every request waits for its response, and not all of the wait is explained",
    );
    let [brief, _] = said(&explained_but_for(-200.0));
    assert!(brief.ends_with("parts exceed the round trip by 40 %"), "{brief}");
    // as where the path is not known
    let unmeasured = Shares { round_trip: None, ..explained_but_for(0.0) };
    let [brief, sentence] = said(&unmeasured);
    assert!(brief.ends_with("; the parts of the round trip were not measured"), "{brief}");
    assert!(sentence.contains("not all of the wait is explained"), "{sentence}");
    assert!(matches!(only(&unmeasured), Bottleneck::NoSingleResource { .. }));
    // what a stream waits for is another question
    let stream = with_direction(calm(), |way| way.direction = Some(FlowDirection::Transmit));
    assert!(matches!(only(&stream), Bottleneck::NoSingleResource { unexplained: None, .. }));
}

/// Transactions of several frames on a virtual adapter: the CPU times are known, and the waits for
/// interrupts are not.
#[test]
fn cpu_times_alone_explain_no_round_trip_over_an_adapter() {
    let mut transactions = explained_but_for(0.0);
    let parts = transactions.round_trip.as_mut().unwrap();
    (parts.moderation_us, parts.device_us, parts.wire_us) = (None, None, None);
    (parts.sut_us, parts.clients_us, parts.unexplained_us) = (300.0, Some(190.0), 10.0);
    let bound = only(&transactions);
    assert!(matches!(bound, Bottleneck::RoundTrip { .. }), "no adapter: {bound:?}");
    transactions.device_percent = Some(20.0);
    let [brief, _] = said(&transactions);
    assert!(brief.ends_with("; the parts of the round trip were not measured"), "{brief}");
    transactions.round_trip.as_mut().unwrap().unexplained_us = 200.0;
    let [brief, _] = said(&transactions);
    assert!(brief.ends_with("; 40 % of the round trip unexplained"), "{brief}");
    transactions.round_trip.as_mut().unwrap().moderation_us = Some(200.0);
    transactions.round_trip.as_mut().unwrap().unexplained_us = 0.0;
    assert!(matches!(only(&transactions), Bottleneck::RoundTrip { .. }));
}

#[test]
fn round_trip() {
    let transactions = explained_but_for(50.0);
    says(
        &transactions,
        "limited by the round trip: interrupt delay 72 %, SUT 10 %, clients 6 %, device 1 %, wire 1 %",
        "limited by the round trip (500.0 µs: interrupt delay 360.0 µs, SUT 50.0 µs, clients 30.0 µs, device 6.0 µs, \
         wire 4.0 µs, unexplained 50.0 µs; SUT CPU 12.0 %): every request waits for its response",
    );
    let full = with_direction(transactions, |way| way.link_percent = Some(98.0));
    assert_eq!(said(&full)[0], "limited by the link: 98.0 % (missing: no cause found)");
}

#[test]
fn no_single_resource() {
    says(
        &calm(),
        "limited by no single resource: SUT CPU 12.0 %, clients 10.0 %, window 40.0 %",
        "limited by no single resource (SUT CPU 12.0 %, clients 10.0 %, window 40.0 %): each end waits for the other \
         part of the time",
    );
    let blind =
        Shares { good_runs: 1, ways: vec![DirectionShares::default()], ..Shares::default() };
    assert_eq!(said(&blind)[0], "limited by no single resource");
}

#[test]
fn the_bus_comes_after_the_link() {
    let full = Shares { bus_percent: Some(98.2), sut: cpu(99.0), ..calm() };
    says(
        &full,
        "limited by the bus: 98.2 % (missing: SUT CPU 99.0 %)",
        "limited by the bus (98.2 % occupied; missing: SUT CPU 99.0 % busy)",
    );
    let link = with_direction(full, |way| way.link_percent = Some(99.5));
    assert!(matches!(only(&link), Bottleneck::Link { .. }));
}

#[test]
fn windows_over_a_path_that_delays_are_a_bound_where_nothing_is_full() {
    let path = PathShares { rtt_us: 1300.0, min_rtt_us: 52.0, cwnd_segments: 90.0 };
    let held = with_direction(calm(), |way| {
        (way.rwnd_limited_anywhere_percent, way.path) = (Some(93.1), Some(path));
    });
    says(
        &held,
        "limited by the receiver's window: 93.1 % of sending time",
        "limited by the receiver's window (93.1 % of sending time): round trips of 1300 µs, the shortest 52 µs, \
         congestion window 90 segments",
    );
    // a full CPU makes the path longer
    let busy = Shares { sut: cpu(98.0), ..held };
    assert!(matches!(only(&busy), Bottleneck::SutCpu { .. }));
    let slow = with_direction(calm(), |way| {
        (way.cwnd_limited_percent, way.path) = (Some(99.3), Some(path));
    });
    assert_eq!(only(&slow), Bottleneck::CongestionWindow { percent: 99.3, path: Some(path) });
    assert_eq!(
        said(&slow)[0],
        "limited by the congestion window or small queues: 99.3 % of sending time"
    );
    // so is the sender of a full link
    let full = with_direction(slow, |way| way.link_percent = Some(97.5));
    assert!(matches!(only(&full), Bottleneck::Link { .. }));
}

#[test]
fn a_verdict_counts_the_runs_that_say_the_same() {
    let with = |percent| judge(&Shares { good_runs: 1, sut: cpu(percent), ..calm() });
    let verdict = judge(&Shares { good_runs: 3, sut: cpu(95.3), ..calm() });
    let verdict = verdict.with_runs([with(93.2), with(96.0), with(96.8)]);
    assert_eq!(verdict.brief(), "limited by the SUT's CPU: 95.3 % (2 of 3 runs)");
    let verdict = verdict.with_runs([with(95.0), with(96.0), with(96.8)]);
    assert_eq!(verdict.brief(), "limited by the SUT's CPU: 95.3 %");
}

#[test]
fn device_threads_are_reported_from_the_clients_on_their_cpu() {
    let busy = Shares { device_percent: Some(96.3), client: cpu(99.0), ..calm() };
    says(&busy, "limited by the device's CPU: 96.3 %", "limited by the device's CPU (96.3 % busy)");
    let most = Shares { device_percent: Some(71.2), device_shares_cpus: true, ..busy.clone() };
    assert_eq!(
        said(&most)[1],
        "limited by the CPU of device and clients (full, 71.2 % by the device); device and clients share CPUs"
    );
    let less = Shares { device_percent: Some(49.9), ..most.clone() };
    assert!(matches!(only(&less), Bottleneck::ClientCpu { .. }));
    let apart = Shares { device_shares_cpus: false, ..most.clone() };
    assert!(matches!(only(&apart), Bottleneck::ClientCpu { .. }));
    let calm = Shares { client: cpu(80.0), ..most };
    assert!(matches!(only(&calm), Bottleneck::NoSingleResource { .. }));
    let sut = Shares { sut: cpu(99.0), client: None, ..busy };
    assert!(matches!(only(&sut), Bottleneck::SutCpu { .. }));
}

#[test]
fn a_scaled_testbed_is_named() {
    let scaled = Shares { scale: 0.1, ..calm() };
    let some = with_direction(scaled.clone(), |way| way.link_percent = Some(43.2));
    assert!(said(&some)[1].ends_with("; links 43.2 % occupied; links at 0.1 of their rate"));
    let full = with_direction(scaled, |way| way.link_percent = Some(99.8));
    assert_eq!(
        said(&full)[1],
        "limited by the link (transmit 99.8 % occupied); links at 0.1 of their rate"
    );
}

#[test]
fn the_document_has_the_sentence_and_each_direction() {
    let document = serde_json::to_value(judge(&both_ways(99.6, 88.7))).unwrap();
    assert!(document["verdict"].as_str().unwrap().starts_with("transmit is limited by the link"));
    assert_eq!(
        document["bottlenecks"],
        serde_json::json!([
            {
                "direction": "transmit",
                "resource": "link",
                "percent": 99.6,
                "link_percent": 99.6,
                "shortfall": [],
                "runs_agreeing": 5,
                "runs": 5
            },
            {
                "direction": "receive",
                "resource": "no_single_resource",
                "percent": null,
                "link_percent": 88.7,
                "shortfall": [],
                "runs_agreeing": 5,
                "runs": 5
            },
        ])
    );
    assert_eq!(
        serde_json::to_value(judge(&Shares::default())).unwrap()["bottlenecks"],
        serde_json::json!([])
    );
}
