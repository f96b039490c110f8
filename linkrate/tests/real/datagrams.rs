//! Programs that send datagrams wait for the link of a virtual adapter.

use std::time::Duration;

use crate::common::lab::{lab_of, run_spec, run_undisturbed};
use crate::common::{enter_namespace, skip};
use linkrate_lab::Lab;
use linkrate_model::spec::Adapter;
use linkrate_model::{
    ByteSize, InterfaceKnobs, Measurement, MessageSize, Protocol, RunSpec, Task, TestbedSpec,
    Workload, model,
};
use linkrate_sys::netlink::{DatagramLimit, RouteSocket};

/// The port of the lab.
const SUT_INTERFACE: &str = "eth0";

/// What a link of 1 Gb/s carries of datagrams with 1472 bytes.
const PAYLOAD_RATE: f64 = 957.1e6;

fn lab(name: &str) -> Lab {
    let model = model::find(name).unwrap_or_else(|error| panic!("{error}"));
    let spec = TestbedSpec { adapter: Adapter::Model(Box::new(model)), ..TestbedSpec::default() };
    lab_of(&spec, Some("cubic"))
}

/// Asks for something in the network of the system under test.
fn in_sut<T: Send + 'static>(
    lab: &mut Lab,
    act: impl FnOnce(&mut RouteSocket) -> T + Send + 'static,
) -> T {
    let pid = lab.testbed().expect("up").sut.pid();
    let asked = std::thread::spawn(move || {
        enter_namespace(pid);
        act(&mut RouteSocket::open().expect("a socket"))
    });
    asked.join().expect("an answer")
}

fn limit(lab: &mut Lab) -> Option<DatagramLimit> {
    in_sut(lab, |route| route.datagram_limit(SUT_INTERFACE).expect("a limit or none"))
}

fn run(lab: &mut Lab, message: u64) -> Measurement {
    let workload = Workload {
        kind: Protocol::UdpStream,
        message: MessageSize::Fixed(ByteSize(message)),
        ..Workload::default()
    };
    let spec = RunSpec {
        adapter: None,
        warm_up: Duration::from_millis(300),
        ..run_spec(Task::Workload(workload), InterfaceKnobs::default(), Duration::from_millis(700))
    };
    run_undisturbed(lab, &spec)
}

/// Transactions over UDP with `burst` outstanding, in a second; `loss_ppm` of the frames are lost.
fn exchange(lab: &mut Lab, burst: u32, loss_ppm: u32) -> Measurement {
    let kind = Protocol::UdpRequestResponse;
    let task = Task::Workload(Workload { kind, burst, ..Workload::default() });
    let spec = RunSpec {
        warm_up: Duration::from_millis(300),
        loss_ppm,
        ..run_spec(task, InterfaceKnobs::default(), Duration::from_secs(1))
    };
    run_undisturbed(lab, &spec)
}

/// Each frame is lost with 1 %, requests and responses alike. Responses name their request, so a loss delays its
/// own request and no other, and another one takes its place when it is given up. By Little's law, as many
/// requests are outstanding as were asked for. Matched to a wrong request, nine tenths of the responses would not
/// be as quick as without losses.
#[test]
#[ignore = "exhaustive: seven seconds alone on the machine"]
fn lost_datagrams_shift_no_other_latency_and_keep_the_concurrency() {
    needs!(root);
    /// After so long a request is given up, s.
    const TIMEOUT: f64 = 0.1;
    let mut lab = lab("gigabit");
    for burst in [8, 64] {
        let mut quick_ns = 0;
        for loss_ppm in [0, 10_000] {
            let measured = exchange(&mut lab, burst, loss_ppm);
            let latency = measured.latency.expect("transactions have latencies");
            let (traffic, wanted) = (measured.traffic, f64::from(burst));
            let timed_out = u64::try_from(traffic.lost_datagrams).expect("a count");
            let text = format!("{burst} outstanding, {loss_ppm} ppm: {traffic:?}, {latency:?}");
            println!("{text}");
            // all counted transactions and all time-outs were timed, except at the window's edges
            let timed = traffic.transactions + timed_out;
            assert!(timed.abs_diff(latency.count) <= u64::from(2 * burst), "{text}");
            let seconds = traffic.transaction_seconds;
            let outstanding = latency.count as f64 * latency.mean_ns / 1e9 / seconds;
            // what waits at one edge is given up after twice the time at most
            let unsure = 0.02 + if loss_ppm == 0 { 0.0 } else { 2.0 * TIMEOUT / seconds };
            assert!((outstanding / wanted - 1.0).abs() < unsure, "{outstanding}: {text}");
            // of two frames with 1 % each
            let expected = if loss_ppm == 0 { 0.0..0.001 } else { 0.01..0.03 };
            assert!(expected.contains(&(timed_out as f64 / timed as f64)), "{text}");
            // the tail has the time-outs, and the middle knows nothing of them
            let tail = latency.max_ns as f64 / 1e9;
            assert_eq!(tail >= TIMEOUT, loss_ppm > 0, "{text}");
            if loss_ppm == 0 {
                quick_ns = latency.p90_ns.expect("a hundred transactions");
            } else {
                let p90_ns = latency.p90_ns.expect("a hundred transactions");
                assert!(p90_ns < quick_ns * 3 / 2, "without losses {quick_ns}: {text}");
            }
        }
    }
}

/// Bits of payload in a second that the sender was told it had sent.
fn reported(measurement: &Measurement, message: u64) -> f64 {
    let bits = (measurement.traffic.sent_datagrams * message) as f64 * 8.0;
    bits / measurement.traffic.transmit_seconds
}

#[test]
fn a_sender_of_datagrams_is_told_what_the_link_carries() {
    needs!(root);
    let mut lab = lab("gigabit");
    let Some(set) = limit(&mut lab) else {
        return skip("this kernel limits no datagrams");
    };
    assert_eq!((set.bytes_per_second, set.overhead, set.in_cells), (125_250_000, 24, false));

    let limited = run(&mut lab, 1472);
    let (sent, received) = (reported(&limited, 1472), limited.traffic.bits_per_second());
    assert!(sent < 1.1 * PAYLOAD_RATE, "sent {sent}, received {received}");
    assert!(received < 1.01 * PAYLOAD_RATE, "{received}");
    let evidence = limited.evidence.adapter.as_deref().expect("evidence of the adapter");
    // a packet that finds the ring full wakes no driver
    let (sleeps, packets) = (evidence.total("driverSleeps"), limited.traffic.sent_datagrams);
    assert!(sleeps < packets.max(1), "{sleeps} sleeps, {packets} packets");

    // without the limit, the sender is told many times that: this test can fail
    in_sut(&mut lab, |route| route.set_no_queue(SUT_INTERFACE).expect("no queue"));
    assert_eq!(limit(&mut lab), None);
    let sent = reported(&run(&mut lab, 1472), 1472);
    assert!(sent > 2.0 * PAYLOAD_RATE, "{sent}");
}

/// Cells of an adapter of 155.52 Mb/s in a second.
const CELLS: f64 = 149.76e6 / 424.0;

#[test]
#[ignore = "exhaustive: the same on another link"]
fn a_sender_on_atm_is_told_what_the_cells_carry() {
    needs!(root);
    let mut lab = lab("atm-155");
    let Some(set) = limit(&mut lab) else {
        return skip("this kernel limits no datagrams");
    };
    assert_eq!((set.overhead, set.in_cells), (16, true));
    // UDP, IP, LLC/SNAP and trailer are 44 octets
    for (message, cells) in [(200, 6), (1472, 32), (9152, 192)] {
        let limited = run(&mut lab, message);
        let carried = CELLS / f64::from(cells) * message as f64 * 8.0;
        let (sent, received) = (reported(&limited, message), limited.traffic.bits_per_second());
        let of = |rate: f64| rate / carried;
        // a full send buffer at the start of the window has been told before
        assert!((0.95..1.02).contains(&of(sent)), "{message}: {:.4} were sent", of(sent));
        // of 58 900 datagrams in a second the receiver loses some, on a busy machine more
        assert!((0.9..1.01).contains(&of(received)), "{message}: {:.4} came", of(received));
    }
}
