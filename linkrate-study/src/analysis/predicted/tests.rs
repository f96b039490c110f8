//! Predictions of runs whose flows are known.

use std::net::SocketAddr;

use linkrate_model::knobs::AggregateRequest;

use crate::fixture;
use crate::store::Outcome;

use super::*;

/// A run over four ports with a flow from each of `clients`, which have a router before them or not.
fn run(clients: &[u32], knobs: AggregateKnobs, router: bool) -> Measurement {
    let mut run = fixture::stream(1e6, 50.0);
    let end = |last: u32, port: u16| SocketAddr::from(([198, 18, 0, last as u8], port));
    let flow = |(at, client): (usize, &u32)| FlowEnds {
        client: *client,
        direction: Direction::Transmit,
        sut: end(1, 5201),
        peer: end(2 + client, 40_000 + at as u16),
        sut_mac: "02:00:00:00:00:01".to_owned(),
        peer_mac: format!("02:00:00:00:00:{:02x}", if router { 0xfe } else { 2 + client }),
    };
    run.evidence.flows = clients.iter().enumerate().map(flow).collect();
    run.effective.interface.aggregate = AggregateRequest::of(&knobs);
    run
}

fn knobs(balance: Balance) -> AggregateKnobs {
    AggregateKnobs { aggregate: 4, balance, switch_balance: balance, ..AggregateKnobs::default() }
}

fn predicted(run: &Measurement) -> RunPrediction {
    of_run(run, FlowDirection::Transmit).expect("flows").expect("a hash")
}

#[test]
fn eight_clients_are_spread_and_eight_behind_a_router_are_not() {
    let clients: Vec<u32> = (0..8).collect();
    let direct = predicted(&run(&clients, knobs(Balance::Mac), false));
    assert_eq!((direct.flows, direct.ports_full), (vec![2; 4], 4));
    assert_eq!(direct.shares, [25.0; 4]);
    let routed = predicted(&run(&clients, knobs(Balance::Mac), true));
    assert_eq!((routed.flows, routed.ports_full), (vec![8, 0, 0, 0], 1));
    assert_eq!(routed.shares, [100.0, 0.0, 0.0, 0.0]);
    let by_ip = predicted(&run(&clients, knobs(Balance::Ip), true));
    assert_eq!(by_ip.flows.iter().sum::<usize>(), 8);
    assert!(by_ip.ports_full > 1, "{by_ip:?}");
}

#[test]
fn flows_of_one_client_share_its_link() {
    let one = predicted(&run(&[0; 8], knobs(Balance::Port), false));
    assert_eq!(one.ports_full, 1);
    assert!(one.flows.iter().filter(|flows| **flows > 0).count() > 1);
}

#[test]
fn where_no_hash_chooses_the_reason_is_given() {
    for balance in [Balance::RoundRobin, Balance::Adaptive, Balance::Cpu] {
        let reason = of_run(&run(&[0, 1], knobs(balance), false), FlowDirection::Transmit).unwrap();
        assert!(reason.is_err(), "{balance}");
    }
    let by_mac = run(&[0, 1], knobs(Balance::Mac), false);
    assert_eq!(of_run(&by_mac, FlowDirection::Receive), None, "no flow in this direction");
    let one_port = AggregateKnobs { aggregate: 1, ..knobs(Balance::Mac) };
    assert_eq!(of_run(&run(&[0, 1], one_port, false), FlowDirection::Transmit), None);
    // a run that kept none
    let mut earlier = by_mac;
    earlier.evidence.flows.clear();
    assert_eq!(of_run(&earlier, FlowDirection::Transmit), None);
}

#[test]
fn a_cell_has_means_over_its_runs_and_the_limit_of_its_ports() {
    let text = "title = \"t\"\n[testbed]\nadapter = \"gigabit\"\naggregate = 4\nclients = 8\n\
                scale = 0.2\n[factors]\ngro = [true]\n[workload]\naggregate = 4";
    let study = crate::file::parse("t", "t", text).unwrap_or_else(|errors| panic!("{errors}"));
    let spec = &study.cells[0].spec;
    let clients: Vec<u32> = (0..8).collect();
    let mut stored = [false, true].map(|router| StoredRun {
        spec: spec.clone(),
        ..fixture::run(0, 0, Some(0), run(&clients, knobs(Balance::Mac), router))
    });
    let mut counted = fixture::counted(50.0, 1.0);
    counted.ports[1].counters.insert("ifHCOutOctets".to_owned(), 3 * 1_518_000);
    if let Outcome::Measured(run) = &mut stored[0].outcome {
        run.evidence.adapter = Some(counted);
    }
    let runs: Vec<&StoredRun> = stored.iter().collect();
    let [cell] = &of_cell(&runs, &study.testbed)[..] else { panic!("one direction") };
    assert_eq!((cell.direction, cell.balance.as_str()), (FlowDirection::Transmit, "mac"));
    let flows: Vec<_> = cell.ports.iter().map(|port| port.flows.unwrap()).collect();
    assert_eq!(flows, [5.0, 1.0, 1.0, 1.0]);
    assert_eq!(
        (cell.ports[0].share_percent, cell.ports[0].measured_percent),
        (Some(62.5), Some(75.0))
    );
    // four ports and one port at 188.3 Mb/s, the mean
    let limit = cell.limit.unwrap().interval.mean;
    assert!((limit - 188.296e6 * 2.5).abs() < 1e5, "{limit}");
}

/// A study at a fifth of the rate: shares of limits can be compared, absolute figures cannot.
#[test]
fn a_published_rate_stands_beside_the_measured_one_as_shares_of_their_limits() {
    use crate::analysis::published;
    use crate::analysis::runs_by_cell::RunsByCell;

    let text = "title = \"t\"\n[testbed]\nadapter = \"gigabit\"\naggregate = 2\nclients = 8\n\
                scale = 0.2\n[factors]\naggregate = [1, 2]\n[workload]\n\
                direction = \"bidirectional\"\n[[published]]\nmeasure = \"throughput\"\n\
                at = { aggregate = 2 }\nvalue = \"3682 Mb/s\"";
    let study = crate::file::parse("t", "t", text).unwrap_or_else(|errors| panic!("{errors}"));
    let runs = [fixture::run_of(&study, 0, 0, 1, fixture::stream(700e6, 50.0))];
    let beside = published::beside(&study, &RunsByCell::of(&study, &runs), &[], 0.95, 0.95);
    let shares = (
        beside[0].published_percent_of_limit.unwrap(),
        beside[0].measured_percent_of_limit.unwrap(),
    );
    // 3765.9 Mb/s at full rate, 753.2 Mb/s at a fifth of it
    assert!((shares.0 - 97.77).abs() < 0.01, "{shares:?}");
    let measured = beside[0].measured.unwrap().mean;
    assert!((shares.1.mean - measured / 753.185e4).abs() < 0.01, "{shares:?}");
}
