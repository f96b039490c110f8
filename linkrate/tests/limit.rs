//! `linkrate limit`, as a person and a script meet it.

mod common;

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
    ];
    let told: Vec<String> =
        cases.iter().map(|case| format!("$ linkrate limit {case}\n{}", refused(case))).collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn help_explains_itself() {
    for link in ["ethernet", "atm"] {
        // clap indents its empty lines
        let help = printed(&format!("{link} --help"));
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        insta::assert_snapshot!(format!("{link}_help"), help.join("\n"));
    }
}
