use linkrate_model::BitRate;
use linkrate_model::measurement::PortEvidence;
use linkrate_model::model::{LinkKind, Model, find};
use linkrate_model::spec::Adapter;
use linkrate_wire::limits::Traffic;
use linkrate_wire::link::atm::OC12C;

use super::*;
use crate::fixture;

fn testbed(link: LinkKind) -> TestbedSpec {
    let gigabit = find("gigabit").unwrap();
    let model = Model { rate: Some(OC12C), link, max_mtu: 9180, ..gigabit };
    TestbedSpec { adapter: Adapter::Model(Box::new(model)), ..TestbedSpec::default() }
}

fn spec(mtu: u32) -> RunSpec {
    let mut spec = fixture::run(0, 0, Some(0), fixture::stream(1e6, 50.0)).spec;
    spec.interface.mtu = Some(mtu);
    spec.ports = Some(1);
    spec
}

/// A run of two seconds on `ports` ports in which full packets filled `filled` of each line.
fn run(testbed: &TestbedSpec, mtu: u32, ports: usize, filled: f64) -> Measurement {
    let (link, _) = limit::link_of(&spec(mtu), testbed).unwrap();
    let limit = link.limit(&Traffic::tcp(mtu)).unwrap();
    let packets = (limit.packets_per_second() * 2.0 * filled).round() as u64;
    let law = link.framing.law();
    let octets = packets * law.counted_octets(link.framing.unit(mtu.into()));
    let payload = packets * limit.payload * ports as u64;
    let mut run = fixture::stream(payload as f64 * 4.0, 50.0);
    run.effective.mss_bytes = limit.payload as u32;
    let mut counted = fixture::counted(filled * 100.0, 0.0);
    counted.ports = (0..ports)
        .map(|port| PortEvidence {
            name: format!("eth{port}"),
            counters: [("ifHCOutOctets", octets), ("ifHCOutUcastPkts", packets)]
                .map(|(name, count)| (name.to_owned(), count))
                .into(),
            ..PortEvidence::default()
        })
        .collect();
    run.evidence.adapter = Some(counted);
    run
}

fn percent(tax: &LineTax, name: &str) -> f64 {
    tax.parts.iter().filter(|part| part.name == name).map(|part| part.percent).sum()
}

/// One cell in 27 is overhead of SONET, five octets of 53 are headers: of a full line of OC-12c,
/// Classical IP at MTU 9180 leaves 86.4 % to payload.
#[test]
fn the_cell_tax_of_a_full_line() {
    let testbed = testbed(LinkKind::Atm);
    let run = run(&testbed, 9180, 1, 1.0);
    let [tax] = &of_cell(&spec(9180), &testbed, &[&run, &run])[..] else { panic!("one direction") };
    assert_eq!(tax.direction, FlowDirection::Transmit);
    for (name, expected) in [
        ("payload", 86.38),
        ("TCP/IP headers", 0.49),
        ("LLC/SNAP header", 0.08),
        ("AAL5 padding", 0.19),
        ("AAL5 trailer", 0.08),
        ("cell headers", 9.08),
        ("SONET overhead", 3.70),
    ] {
        assert!((percent(tax, name) - expected).abs() < 0.01, "{name} {tax:?}");
    }
    assert!(percent(tax, "idle") < 0.02);
    let at_most = tax.payload_percent_at_most.unwrap();
    assert!((at_most - percent(tax, "payload")).abs() < 0.01, "{at_most}");
}

#[test]
fn a_line_that_is_half_full_is_half_idle() {
    let testbed = testbed(LinkKind::Ethernet);
    let run = run(&testbed, 1500, 2, 0.5);
    let spec = RunSpec { ports: Some(2), ..spec(1500) };
    let [tax] = &of_cell(&spec, &testbed, &[&run])[..] else { panic!("one direction") };
    assert!((percent(tax, "idle") - 50.0).abs() < 0.01, "{tax:?}");
    // 1448 of 1538 octets, in half of the time
    assert!((percent(tax, "payload") - 47.07).abs() < 0.01, "{tax:?}");
    let whole: f64 = tax.parts.iter().map(|part| part.percent).sum();
    assert!((whole - 100.0).abs() < 1e-6, "{whole}");
}

#[test]
fn what_no_counter_saw_has_no_account() {
    let testbed = testbed(LinkKind::Atm);
    let plain = fixture::stream(1e6, 50.0);
    assert_eq!(of_cell(&spec(9180), &testbed, &[&plain]), []);
    let unrated = {
        let Adapter::Model(model) = &testbed.adapter else { panic!("a model") };
        let model = Model { rate: None::<BitRate>, ..model.as_ref().clone() };
        TestbedSpec { adapter: Adapter::Model(Box::new(model)), ..TestbedSpec::default() }
    };
    let run = run(&testbed, 9180, 1, 1.0);
    assert_eq!(of_cell(&spec(9180), &unrated, &[&run]), []);
    let mut requests = spec(9180);
    if let Task::Workload(workload) = &mut requests.task {
        workload.kind = Protocol::RequestResponse;
    }
    assert_eq!(of_cell(&requests, &testbed, &[&run]), []);
}
