//! Transfers, mixes and backups through virtual adapters.

use std::time::Duration;

use crate::common::lab::{lab_of, run_spec, run_undisturbed};
use linkrate_lab::Lab;
use linkrate_model::backup::{Backup, FileSizes};
use linkrate_model::mix::MixPart;
use linkrate_model::spec::Adapter;
use linkrate_model::{
    ByteSize, Direction, InterfaceKnobs, Measurement, MessageSize, Protocol, RunSpec, Task,
    TestbedSpec, Workload, model,
};

/// The most payload of one direction of the link, with some room for the ends of windows.
const LINK: f64 = 1.02 * 941.5e6;

fn lab(clients: u32) -> Lab {
    let gigabit = model::find("gigabit").unwrap_or_else(|error| panic!("{error}"));
    let spec = TestbedSpec {
        adapter: Adapter::Model(Box::new(gigabit)),
        clients,
        clients_per_port: clients,
        ..TestbedSpec::default()
    };
    lab_of(&spec, Some("cubic"))
}

fn run(lab: &mut Lab, clients: u32, workload: Workload) -> Measurement {
    let spec = run_spec(
        Task::Workload(workload.settled()),
        InterfaceKnobs::default(),
        Duration::from_millis(400),
    );
    let spec = RunSpec { warm_up: Duration::from_millis(200), clients, ports: Some(1), ..spec };
    run_undisturbed(lab, &spec)
}

#[test]
fn transfers_have_response_times_in_every_direction() {
    let mut lab = lab(1);
    for direction in [Direction::Transmit, Direction::Receive, Direction::Bidirectional] {
        let message = MessageSize::named("sm-mix").expect("a name");
        let kind = Protocol::Transfer;
        let transfer = ByteSize(100_000);
        let workload = Workload { kind, direction, message, transfer, ..Workload::default() };
        let measured = run(&mut lab, 1, workload);
        let (traffic, latency) = (&measured.traffic, measured.latency.expect("response times"));
        let loaded = [traffic.transmit_bytes, traffic.receive_bytes].map(|bytes| bytes > 0);
        let expected = match direction {
            Direction::Transmit => [true, false],
            Direction::Receive => [false, true],
            Direction::Bidirectional => [true, true],
        };
        assert_eq!(loaded, expected, "{traffic:?}");
        assert!(latency.count.abs_diff(traffic.transactions) <= 8, "{latency:?} {traffic:?}");
        // 100,000 bytes occupy the link for 0.85 ms
        assert!(latency.min_ns > 800_000, "{latency:?}");
        let bytes = traffic.transmit_bytes + traffic.receive_bytes;
        let transferred = traffic.transactions * 100_000;
        // bytes are counted where they arrive and transfers where they begin, over windows that begin some ms apart on a
        // busy machine; eight transfers are under way
        assert!(bytes.abs_diff(transferred) < 800_000 + bytes / 10, "{traffic:?}");
    }
}

#[test]
fn the_workloads_of_a_mix_have_their_shares_and_figures() {
    let mut lab = lab(2);
    let part = |name: &str, share, workload| MixPart { name: name.to_owned(), share, workload };
    let kind = Protocol::Transfer;
    let mix = vec![
        part("transfers", 2, Workload { kind, ..Workload::default() }),
        part("requests", 1, Workload { kind: Protocol::RequestResponse, ..Workload::default() }),
        part(
            "datagrams",
            1,
            Workload {
                kind: Protocol::UdpStream,
                direction: Direction::Receive,
                message: MessageSize::Fixed(ByteSize(1000)),
                ..Workload::default()
            },
        ),
    ];
    let workload = Workload { connections: 2, ..Workload::default() }.of_mix(mix);
    let measured = run(&mut lab, 2, workload);
    let [transfers, requests, datagrams] = &measured.parts[..] else { panic!("{measured:?}") };
    assert!(transfers.latency.is_some() && requests.latency.is_some(), "{:?}", measured.parts);
    assert!(datagrams.latency.is_none() && measured.latency.is_none());
    assert_eq!(transfers.traffic.receive_bytes, 0);
    assert!(requests.traffic.transactions > 10, "{requests:?}");
    assert!(datagrams.traffic.receive_bytes > 1_000_000, "{datagrams:?}");
    let whole = measured.traffic.receive_bytes;
    let parts: u64 = measured.parts.iter().map(|part| part.traffic.receive_bytes).sum();
    assert_eq!(whole, parts);
    assert!(transfers.traffic.bits_per_second() < LINK, "{transfers:?}");
}

#[test]
fn a_backup_is_as_fast_as_its_drive() {
    let mut lab = lab(2);
    let of = |drive_rate| Workload {
        kind: Protocol::Backup,
        backup: Backup {
            files: FileSizes::Mixed,
            tree: ByteSize(4 << 20),
            drive_rate: ByteSize(drive_rate),
            ..Backup::default()
        },
        ..Workload::default()
    };
    let slow = run(&mut lab, 2, of(20_000_000));
    let rate = slow.traffic.bits_per_second() / 8.0;
    assert!((18e6..20.5e6).contains(&rate), "{rate} B/s");
    assert!(slow.traffic.transactions > 10 && slow.latency.is_some(), "{:?}", slow.traffic);
    let fast = run(&mut lab, 2, of(40_000_000));
    let rate = fast.traffic.bits_per_second() / 8.0;
    assert!((36e6..41e6).contains(&rate), "{rate} B/s");
}
