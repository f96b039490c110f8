//! `linkrate limit`, as a user and a script meet it.

use crate::common;
/// What a command that succeeds prints.
#[track_caller]
fn printed(arguments: &str) -> String {
    common::printed(&format!("limit {arguments}"))
}

/// What a command with wrong arguments says.
#[track_caller]
fn refused(arguments: &str) -> String {
    common::linkrate(&format!("limit {arguments}")).refusal()
}

fn json(arguments: &str) -> serde_json::Value {
    serde_json::from_str(&printed(&format!("{arguments} --json"))).unwrap()
}

#[test]
fn ethernet_alone_is_a_table_of_common_links() {
    insta::assert_snapshot!(printed("ethernet"));
}

#[test]
fn atm_alone_is_a_table_of_common_links() {
    insta::assert_snapshot!(printed("atm"));
}

#[test]
fn one_rate_and_one_mtu_are_an_account() {
    insta::assert_snapshot!(printed("ethernet --rate 10G --mtu 9000"));
    insta::assert_snapshot!(printed("atm --rate oc3c --mtu 9180 --lane --message 32K"));
}

#[test]
fn every_option_changes_the_limit_as_theory_says() {
    let limit = |options: &str| {
        let document = json(&format!("ethernet --rate 1G --mtu 1500 {options}"));
        let limit = document["limits"][0]["limit_bits_per_second"].as_f64().unwrap();
        (limit / 1e4).round() / 1e2
    };
    for (options, megabits) in [
        ("", 941.48),
        ("--vlan", 939.04),
        ("--vlan 1", 939.04),
        ("--vlan 0", 941.48),
        ("--no-timestamps", 949.28),
        ("--ipv6", 928.48),
        ("--snap", 936.61),
        ("--udp", 957.09),
        ("--udp --message 1", 11.90),
        ("--message 1448", 941.48),
    ] {
        assert_eq!(limit(options), megabits, "{options}");
    }
}

/// The ten values of the ATM paper's appendix, as the help says they come out.
#[test]
fn the_published_formula_gives_the_papers_values() {
    let document = json("atm --published-formula");
    let values: Vec<f64> = document["limits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|limit| (limit["published_formula_bits_per_second"].as_f64().unwrap() / 1e6).round())
        .collect();
    // the paper has 535 where this has 532
    assert_eq!(values, [90.0, 103.0, 126.0, 133.0, 135.0, 362.0, 413.0, 503.0, 532.0, 542.0]);
    insta::assert_snapshot!(printed("atm --published-formula --rate OC-3c --message 4K,64K"));
}

#[test]
fn one_document_holds_every_combination() {
    let document = json("ethernet --rate 1G,10G --mtu 1500,9000 --message 64,1K");
    assert_eq!(document["format"], 1);
    let limits = document["limits"].as_array().unwrap();
    assert_eq!(limits.len(), 8);
    let first = &limits[0];
    assert_eq!(first["message_bytes"], 64);
    let sum: f64 = first["unit"]["layers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|layer| layer["bytes"].as_f64().unwrap())
        .sum();
    assert_eq!(sum + 64.0, first["unit"]["line_bytes"].as_f64().unwrap());
}

const FLOWS: &str = "--flow 10.0.0.1,40000,10.0.0.2,5201,02:00:00:00:00:09 \
     --flow 10.0.0.1,40001,10.0.0.3,5201,02:00:00:00:00:09 \
     --flow 10.0.0.1,40002,10.0.0.4,5201,02:00:00:00:00:09";

#[test]
fn random_flows_over_an_aggregate_are_a_table() {
    insta::assert_snapshot!(printed("aggregate"));
    insta::assert_snapshot!(printed(
        "aggregate --ports 4 --flows 1,16 --balance mac,adaptive,round-robin --mtu 9000 --rate 10G"
    ));
}

/// Behind one router, all frames go to its address: balancing by MAC uses one port.
#[test]
fn named_flows_over_an_aggregate_have_a_port_each() {
    insta::assert_snapshot!(printed(&format!("aggregate --ports 2 --balance mac {FLOWS}")));
    let document = json(&format!("aggregate --ports 2 --balance mac,port,round-robin {FLOWS}"));
    let limits = document["limits"].as_array().unwrap();
    let figure = |at: usize, key: &str| limits[at][key]["mean"].as_f64().unwrap() / 1e6;
    let throughput = [0, 1, 2].map(|at| figure(at, "throughput_bits_per_second").round());
    assert_eq!(throughput, [941.0, 1883.0, 1883.0]);
    let slowest = [0, 1, 2].map(|at| figure(at, "slowest_flow_bits_per_second").round());
    assert_eq!(slowest, [314.0, 471.0, 628.0]);
    assert_eq!(limits[0]["flows_per_port"], serde_json::json!([3, 0]));
    assert_eq!(limits[0]["named_flows"][2]["entry"], 9);
    assert_eq!(limits[2]["named_flows"][2]["port"], serde_json::Value::Null);
}

#[test]
fn an_aggregate_of_one_document_holds_every_combination() {
    let document = json("aggregate --ports 1,8 --flows 1,8 --balance port,cpu --queues 2 --seed 5");
    let limits = document["limits"].as_array().unwrap();
    assert_eq!((document["format"].as_u64(), limits.len()), (Some(1), 8));
    let of = |at: usize, key: &str| &limits[at][key];
    // one flow over 8 ports is as fast as one port
    let port = of(2, "port_limit_bits_per_second");
    assert_eq!(&limits[2]["throughput_bits_per_second"]["mean"], port);
    assert_eq!((of(2, "samples").as_u64(), of(3, "samples").as_u64()), (None, Some(2000)));
    assert_eq!((of(2, "seed").as_u64(), of(3, "seed").as_u64()), (None, Some(5)));
    assert_eq!((of(3, "queues").as_u64(), of(7, "queues").as_u64()), (None, Some(2)));
    // two queues fill two ports at most
    let p95 = limits[7]["throughput_bits_per_second"]["p95"].as_f64();
    assert_eq!(p95, port.as_f64().map(|port| 2.0 * port));
}

#[test]
fn wrong_arguments_are_refused_with_what_would_be_right() {
    let cases = [
        "ethernet --rate 10",
        "ethernet --rate 10GB/s",
        "ethernet --rate fast",
        "ethernet --rate 0G",
        "ethernet --mtu 60",
        "ethernet --mtu 1280,70000",
        "ethernet --mtu 1000 --ipv6",
        "ethernet --mtu 9KBi",
        "ethernet --vlan 3",
        "ethernet --message 0",
        "ethernet --udp --message 64K",
        "ethernet --udp --no-timestamps",
        "ethernet --snapp",
        "ethernett",
        "atm --rate oc3",
        "atm --rate sonet",
        "atm --mtu 65535",
        "atm --published-formula --mtu 9180",
        "aggregate --ports 0",
        "aggregate --ports 2,65",
        "aggregate --ports two",
        "aggregate --flows 0",
        "aggregate --flows 5000",
        "aggregate --balance adaptiv",
        "aggregate --balance cpu",
        "aggregate --balance cpu --queues 257",
        "aggregate --balance cpu --queues 2 --flow 10.0.0.1,1,10.0.0.2,2",
        "aggregate --balance mac --flow 10.0.0.1,1,10.0.0.2,2",
        "aggregate --flow 10.0.0.1,1,10.0.0.2",
        "aggregate --flow 10.0.0.1,1,host,2",
        "aggregate --flow 10.0.0.1,70000,10.0.0.2,2",
        "aggregate --flow 10.0.0.1,1,10.0.0.2,2,02:00",
        "aggregate --flow 10.0.0.1,1,::1,2",
        "aggregate --flow 10.0.0.1,1,10.0.0.2,2 --flows 2",
        "aggregate --message 64,128",
        "aggregate --mtu 60",
    ];
    let reported: Vec<String> =
        cases.iter().map(|case| format!("$ linkrate limit {case}\n{}", refused(case))).collect();
    insta::assert_snapshot!(reported.join("\n"));
}

#[test]
fn help_explains_itself() {
    for link in ["ethernet", "atm", "aggregate"] {
        // clap indents its empty lines
        let help = printed(&format!("{link} --help"));
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        insta::assert_snapshot!(format!("{link}_help"), help.join("\n"));
    }
}
