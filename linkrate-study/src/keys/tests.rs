//! Tests of the key table and of the combinations.

use linkrate_model::spec::Adapter;
use linkrate_model::{
    Direction, Offload, Protocol, ReceivePath, SendPath, Steering, TestbedSpec, model,
};

use super::*;

fn text(value: &str) -> Level {
    Level::Text(value.to_owned())
}

/// A setup with these settings, each given as on a command line.
fn setup(settings: &[(&str, &str)]) -> Setup {
    let mut setup = Setup::default();
    for (key, value) in settings {
        apply(&mut setup, key, &text(value)).unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    setup
}

fn refusal(key: &str, level: &Level) -> String {
    let mut setup = Setup::default();
    let error = apply(&mut setup, key, level).unwrap_err();
    assert_eq!(setup, Setup::default(), "a refused setting changed something");
    error.to_string()
}

#[test]
fn names_are_unique_and_words_of_kinds_agree() {
    for (index, key) in KEYS.iter().enumerate() {
        assert!(KEYS[..index].iter().all(|other| other.name != key.name), "{}", key.name);
        assert!(!key.help.is_empty() && !key.values.expected().is_empty());
    }
    for word in find("kind").unwrap().values.words() {
        assert_eq!(kind_name(setup(&[("kind", word)]).workload.kind), word);
    }
}

/// Another value than that of the default.
fn other(key: &Key) -> Level {
    let number = |number: u32| Level::Number(number.into());
    match key.values {
        Values::Word(words) => text(words[words.len() - 1].0),
        Values::Switch(_) => Level::Switch(true),
        Values::Count((_, high), _) | Values::Rate((_, high), _) => number(high),
        Values::Size((_, high), _) => text(&ByteSize(high).to_string()),
        Values::Time((_, high), _) => text(&format_duration(high)),
        Values::Share(..) => text("0.3 %"),
        Values::Message(..) => text("2 B to 3 B"),
        Values::Congestion(_) => text("reno"),
        Values::Directory(_) => text("/tmp"),
        Values::Model(_) => text("gigabit"),
        Values::Label(_) => text("again"),
        Values::Knob(knob) => match knob.values {
            knobs::Values::Switch => Level::Switch(true),
            knobs::Values::Words(words) => text(words[words.len() - 1].word),
            knobs::Values::Number { high, .. } => number(high),
        },
    }
}

#[test]
fn every_part_of_a_setup_is_of_a_key_which_reads_what_it_sets() {
    let (default, mut all) = (Setup::default(), Setup::default());
    for key in KEYS {
        let level = other(key);
        apply(&mut all, key.name, &level).unwrap_or_else(|error| panic!("{}: {error}", key.name));
        assert_eq!(key.values.level(&all), Some(level), "{}", key.name);
        if let Some(default_level) = key.values.level(&default) {
            let mut same = default.clone();
            apply(&mut same, key.name, &default_level).unwrap();
            assert_eq!(same, default, "{}", key.name);
        }
    }
    let (default, all) = (format!("{default:?}"), format!("{all:?}"));
    let kept = default.split(", ").filter(|part| all.split(", ").any(|other| other == *part));
    // it has tables of its own
    assert_eq!(kept.collect::<Vec<_>>(), ["mix: [] }"]);
}

#[test]
fn each_word_sets_its_value() {
    let setup = setup(&[
        ("kind", "stream"),
        ("direction", "bidirectional"),
        ("offload", "tso"),
        ("send-path", "sendfile"),
        ("receive-path", "truncate"),
        ("working-set", "1 MiB"),
        ("receive-batching", "on"),
        ("congestion", "reno"),
    ]);
    assert_eq!(setup.workload.direction, Direction::Bidirectional);
    assert_eq!(setup.interface.offload, Some(Offload::Tso));
    assert_eq!(setup.workload.send_path, SendPath::Sendfile);
    assert_eq!(setup.workload.receive_path, ReceivePath::Truncate);
    assert_eq!(setup.socket.congestion, "reno");
    assert_eq!(
        (setup.workload.working_set, setup.workload.receive_batching),
        (Some(ByteSize(1 << 20)), true)
    );
}

#[test]
fn numbers_and_switches_come_as_toml_values_or_as_text() {
    for level in [Level::Number(8), text("8")] {
        let mut setup = Setup::default();
        apply(&mut setup, "connections", &level).unwrap();
        assert_eq!(setup.workload.connections, 8);
    }
    for level in [Level::Switch(false), text("off")] {
        let mut setup = Setup::default();
        apply(&mut setup, "gro", &level).unwrap();
        assert_eq!(setup.interface.gro, Some(false));
    }
    for level in [Level::Number(9000), text("9000"), text("9000 B")] {
        let mut setup = Setup::default();
        apply(&mut setup, "mtu", &level).unwrap();
        assert_eq!(setup.interface.mtu, Some(9000));
    }
}

#[test]
fn sizes_are_fixed_or_ranges() {
    let fixed = setup(&[("message", "32 KiB")]).workload.message;
    assert_eq!(fixed, MessageSize::Fixed(ByteSize(32768)));
    assert_eq!(
        setup(&[("message", "hi-perf")]).workload.message,
        MessageSize::Fixed(ByteSize(65_536))
    );
    let mixed = MessageSize::Uniform { low: ByteSize(4096), high: ByteSize(32_768) };
    assert_eq!(setup(&[("message", "med-mix")]).workload.message, mixed);
    let range = setup(&[("request", "128 B to 4 KiB")]).workload.request;
    assert_eq!(range, MessageSize::Uniform { low: ByteSize(128), high: ByteSize(4096) });
    let same = setup(&[("request", "1 KiB to 1024")]).workload.request;
    assert_eq!(same, MessageSize::Fixed(ByteSize(1024)));
    assert_eq!(setup(&[("socket", "128 KiB")]).socket.buffer, Some(ByteSize(131_072)));
    assert_eq!(setup(&[("socket", "128 KiB"), ("socket", "auto")]).socket.buffer, None);
    assert_eq!(setup(&[("udp-segment", "off")]).workload.udp_segment, None);
}

#[test]
fn refusals_name_the_value_and_the_expected_one() {
    for (key, level, message) in [
        ("ofload", text("tso"), "unknown key \"ofload\"; did you mean \"offload\"?"),
        ("offload", text("tos"), "unknown value \"tos\"; did you mean \"tso\"?"),
        ("offload", text("everything"), "expected one of none, gso, tso"),
        ("offload", Level::Switch(true), "true is not a valid value; expected one of"),
        ("gro", Level::Number(1), "1 is not a valid value; expected on or off"),
        ("connections", Level::Number(0), "0 is out of range; expected a whole number from 1 to"),
        ("connections", text("many"), "\"many\" is not a valid value"),
        ("message", text("65 MiB"), "65 MiB is out of range"),
        ("directory", text("tmp"), "\"tmp\" is not an absolute path; expected the path"),
        ("files", text("2 GiB"), "2 GiB is out of range; expected a size from 1 B to 1 GiB, or"),
        ("message", text("0"), "0 B is out of range"),
        ("message", text("32 KiBB"), "did you mean \"KiB\"?"),
        ("message", text("4 KiB to 1 KiB"), "begins with its larger size"),
        ("mtu", Level::Number(67), "67 B is out of range; expected a size from 68 B to 65535 B"),
        ("socket", text("1 KiB"), "or \"auto\""),
        ("congestion", text("cubic; rm"), "is not a name"),
        ("congestion", text("a-name-past-the-kernels-limit"), "is not a name"),
    ] {
        let error = refusal(key, &level);
        assert!(error.contains(message), "{key}: {error}");
    }
}

#[test]
fn long_text_is_cut_in_messages() {
    let long = text(&"ä".repeat(100_000));
    for key in KEYS {
        assert!(refusal(key.name, &long).len() < 400, "{}", key.name);
    }
    assert!(find(&"x".repeat(100_000)).unwrap_err().to_string().len() < 400);
}

#[test]
fn accepts_the_default_and_usual_setups() {
    for settings in [
        &[][..],
        &[("offload", "none"), ("tx-checksum", "off")],
        &[("offload", "gso"), ("tx-checksum", "off")],
        &[("offload", "tso"), ("gso-max-size", "32160")],
        &[("send-path", "splice"), ("message", "1 KiB to 64 KiB")],
        &[("kind", "request-response"), ("burst", "8"), ("nodelay", "on")],
        &[("kind", "connect-request-response")],
        &[("kind", "udp-stream"), ("message", "1472 B")],
        &[("kind", "udp-stream"), ("message", "63 KiB"), ("udp-segment", "1472")],
        &[("kind", "udp-stream"), ("message", "8 KiB"), ("mtu", "9000"), ("udp-segment", "8972")],
        &[("kind", "udp-request-response"), ("burst", "4")],
        &[("kind", "udp-request-response"), ("burst", "256"), ("request", "1"), ("response", "1")],
        &[("kind", "udp-request-response"), ("burst", "257"), ("request", "2"), ("response", "2")],
        &[("kind", "request-response"), ("burst", "257"), ("request", "1"), ("response", "1")],
    ] {
        assert_eq!(check(&setup(settings), &TestbedSpec::default()), Ok(()), "{settings:?}");
    }
}

#[test]
fn impossible_combinations_name_both_keys() {
    for settings in [
        &[("tx-checksum", "off"), ("offload", "tso")][..],
        &[("gso-max-size", "32 KiB"), ("offload", "none")],
        &[("gso-max-size", "1500"), ("mtu", "9000")],
        &[("udp-segment", "1472"), ("kind", "stream")],
        &[("udp-segment", "1472"), ("kind", "udp-request-response")],
        &[("udp-segment", "1473"), ("mtu", "1500"), ("kind", "udp-stream"), ("message", "1 KiB")],
        &[("udp-segment", "100"), ("message", "13 KiB"), ("kind", "udp-stream")],
        &[("udp-gro", "on"), ("kind", "stream")],
        &[("cpu-binding", "on"), ("kind", "connect-request-response")],
        &[("message", "65508"), ("kind", "udp-stream")],
        &[("message", "65508"), ("kind", "udp-stream"), ("udp-segment", "1472")],
        &[("request", "1 B to 65508 B"), ("kind", "udp-request-response")],
        &[("response", "64 KiB"), ("kind", "udp-request-response")],
        &[("send-path", "sendfile"), ("kind", "request-response")],
        &[("send-path", "splice"), ("kind", "connect-request-response")],
        &[("receive-path", "truncate"), ("kind", "udp-stream"), ("message", "1 KiB")],
        &[("receive-path", "truncate"), ("kind", "request-response")],
        &[("working-set", "1 MiB"), ("kind", "request-response")],
        &[("receive-batching", "on"), ("kind", "connect-request-response")],
        &[("direction", "receive"), ("kind", "request-response")],
        &[("direction", "bidirectional"), ("kind", "udp-request-response")],
        &[("burst", "2"), ("kind", "stream")],
        &[("burst", "2"), ("kind", "connect-request-response")],
        &[("nodelay", "on"), ("kind", "udp-stream"), ("message", "1 KiB")],
    ] {
        let refused = check(&setup(settings), &TestbedSpec::default()).unwrap_err();
        let [first, second] = [settings[0].0, settings[1].0];
        assert!([first, second].contains(&refused.key), "{settings:?}: {refused}");
        assert!([first, second].contains(&refused.other), "{settings:?}: {refused}");
        for key in [refused.key, refused.other] {
            assert!(refused.sentence.contains(key), "{refused}");
        }
    }
}

#[test]
fn udp_transactions_under_way_are_distinguished_by_their_numbers() {
    for (key, value, other) in
        [("request", "1 B", "response"), ("response", "1 B to 64 B", "request")]
    {
        let settings =
            [("kind", "udp-request-response"), ("burst", "257"), (key, value), (other, "64")];
        let refused = check(&setup(&settings), &TestbedSpec::default()).unwrap_err();
        assert_eq!((refused.key, refused.other), ("burst", key));
        assert_eq!(
            refused.sentence,
            format!(
                "burst 257 cannot be combined with messages of 1 B ({key} {value}); at most 256 can be told \
                 apart"
            )
        );
    }
}

#[test]
fn each_key_names_the_kinds_that_use_it() {
    for key in KEYS {
        let kinds = [
            Protocol::Stream,
            Protocol::RequestResponse,
            Protocol::UdpStream,
            Protocol::Transfer,
            Protocol::Backup,
        ];
        assert!(kinds.iter().any(|kind| is_used(key.name, *kind)), "{}", key.name);
    }
    assert!(!is_used("request", Protocol::Stream));
    assert!(!is_used("message", Protocol::RequestResponse));
    assert!(!is_used("congestion", Protocol::UdpStream));
    assert!(!is_used("transfer", Protocol::Stream));
    assert!(!is_used("direction", Protocol::Backup));
    assert!(!is_used("colour", Protocol::Stream));
}

#[test]
fn each_port_key_sets_its_knob() {
    let setup = setup(&[
        ("ports", "4"),
        ("lro", "on"),
        ("steering", "destination-port"),
        ("rx-usecs", "0"),
        ("rx-frames", "16384"),
        ("tx-usecs", "100"),
        ("vlan", "4094"),
        ("snap", "off"),
    ]);
    let port = &setup.interface.port;
    assert_eq!((setup.ports, port.lro, port.snap), (Some(4), Some(true), Some(false)));
    assert_eq!(port.steering, Some(Steering::DestinationPort));
    assert_eq!((port.rx_usecs, port.rx_frames, port.tx_usecs), (Some(0), Some(16_384), Some(100)));
    assert_eq!(port.vlan, Some(4094));
    assert!(refusal("vlan", &text("4095")).contains("4095 is out of range"));
    assert!(refusal("steering", &text("toeplitz")).contains("one of off, rss, destination-port"));
}

#[test]
fn loss_is_a_share_of_the_links_that_linkrate_makes() {
    for (given, ppm) in [("0.3 %", 3000), ("2%", 20_000), ("0 %", 0), ("50 %", 500_000)] {
        assert_eq!(setup(&[("loss", given)]).loss_ppm, ppm, "{given}");
    }
    assert!(refusal("loss", &text("51 %")).contains("out of range; expected a share such as"));
    assert!(refusal("loss", &text("0.00001 %")).contains("finer than 0.0001 %"));
    assert!(refusal("loss", &text("2")).contains("%"));
    assert!(refusal("loss", &Level::Number(2)).contains("expected a share such as \"0.3 %\""));
    assert!(super::misplaced("loss", &TestbedSpec::default()).is_some());
}

#[test]
fn a_setup_is_settled_on_its_testbed() {
    let model = Box::new(model::find("gigabit").unwrap());
    let testbed = TestbedSpec {
        adapter: Adapter::Model(model),
        ports: 2,
        clients_per_port: 3,
        ..TestbedSpec::default()
    };
    let mut given = setup(&[("ports", "4")]);
    given.settle(&testbed);
    assert_eq!((given.ports, given.clients), (Some(4), 12));
    let mut left_out = Setup::default();
    left_out.settle(&testbed);
    assert_eq!((left_out.ports, left_out.clients), (Some(2), 6));
    let mut veth = Setup { clients: 5, ..Setup::default() };
    veth.settle(&TestbedSpec::default());
    assert_eq!((veth.ports, veth.clients), (None, 5));
    let many = Setup { ports: Some(16), clients: 16 * 5, ..Setup::default() };
    assert_eq!(check(&many, &testbed).unwrap_err().key, "ports");
}

#[test]
fn ipv6_is_refused_where_nothing_carries_it() {
    let of_model = |name: &str| Adapter::Model(Box::new(model::find(name).unwrap()));
    let check = |settings: &[(&str, &str)], adapter: Adapter, router| {
        let testbed = TestbedSpec { adapter, router, ..TestbedSpec::default() };
        check(&setup(settings), &testbed).map_err(|error| error.to_string())
    };
    let ipv6 = ("family", "ipv6");
    for adapter in [Adapter::Veth, of_model("gigabit"), of_model("toe")] {
        assert_eq!(check(&[ipv6, ("mtu", "1280")], adapter.clone(), false), Ok(()));
        let refused = check(&[ipv6, ("mtu", "1279")], adapter, false).unwrap_err();
        assert!(refused.contains("family ipv6 cannot be combined with mtu 1279"), "{refused}");
    }
    let refused = check(&[ipv6], of_model("atm-155"), false).unwrap_err();
    assert!(refused.contains("adapter atm-155"), "{refused}");
    let refused = check(&[ipv6], of_model("gigabit"), true).unwrap_err();
    assert!(refused.contains("a router"), "{refused}");
    // 1500 less the headers of IPv6 and UDP
    let datagram = [("kind", "udp-stream"), ("message", "2906 B"), ("udp-segment", "1453 B"), ipv6];
    let refused = check(&datagram, of_model("gigabit"), false).unwrap_err();
    assert!(refused.contains("set at most 1452 B"), "{refused}");
}
