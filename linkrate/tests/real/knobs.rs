//! Knobs proven by evidence: what a knob claims to do must show in counters that the knob did not
//! set, and what was read back must be what was asked.

use std::time::Duration;

use crate::common::READ_IN_TURN;
use crate::common::lab::{lab, lab_of, measured, run_undisturbed};
use linkrate_model::{ByteSize, InterfaceKnobs, Measurement, Offload, Workload};
use linkrate_study::file;

/// Ethernet's header, which a device counts and IP does not.
const HEADER: f64 = 14.0;

/// Measures every cell of a study with these factors and settings twice, in turn, so that each knob is set
/// again.
#[track_caller]
fn study(factors: &str, workload: &str) -> Vec<Vec<Measurement>> {
    let text = format!(
        "title = \"Knobs\"\n[testbed]\nadapter = \"veth\"\n[factors]\n{factors}\n[workload]\n{workload}\n[method]\n\
         run = \"300 ms\"\nwarm-up = \"100 ms\"\n"
    );
    let study =
        file::parse("knobs", "knobs.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    let mut lab = lab_of(&study.testbed, None);
    let mut measured = vec![Vec::new(); study.cells.len()];
    for _ in 0..2 {
        for (runs, cell) in measured.iter_mut().zip(&study.cells) {
            runs.push(run_undisturbed(&mut lab, &cell.spec));
        }
    }
    measured
}

fn stack(run: &Measurement) -> f64 {
    run.evidence.mean_stack_packet_bytes().expect("TCP sent something")
}

fn driver(run: &Measurement) -> f64 {
    run.evidence.mean_driver_packet_bytes().expect("the interface sent something")
}

/// Mean bytes of the packets that IP got from below: large when GRO merged them.
fn received(run: &Measurement) -> f64 {
    run.evidence.mean_received_packet_bytes().expect("IP received something")
}

#[test]
fn the_offload_ladder_shows_in_packet_sizes() {
    needs!(root);
    let cells = study("offload = [\"none\", \"gso\", \"tso\"]", "message = \"128 KiB\"");
    for run in &cells[0] {
        assert_eq!(run.effective.interface.offload, Some(Offload::None));
        assert!(
            stack(run) <= 1500.0 * READ_IN_TURN && driver(run) <= 1500.0 + HEADER,
            "{:?}",
            run.evidence
        );
    }
    for run in &cells[1] {
        assert_eq!(run.effective.interface.offload, Some(Offload::Gso));
        assert!(stack(run) > 3000.0 && driver(run) <= 1500.0 + HEADER, "{:?}", run.evidence);
    }
    for run in &cells[2] {
        assert_eq!(run.effective.interface.offload, Some(Offload::Tso));
        assert!(stack(run) > 3000.0 && driver(run) > 3000.0, "{:?}", run.evidence);
    }
    // one pass through the stack for each frame against one for many: whatever the machine
    let demand = |number: usize| {
        let runs = cells[number].iter();
        runs.map(|run| run.service_demand_us_per_kb().expect("traffic")).sum::<f64>()
    };
    assert!(demand(0) > 1.3 * demand(2), "{} and {}", demand(0), demand(2));
}

#[test]
fn the_mtu_bounds_every_frame() {
    needs!(root);
    let cells = study("mtu = [\"576 B\", \"1500 B\", \"9000 B\"]", "offload = \"none\"");
    for (number, mtu) in [(0, 576), (1, 1500), (2, 9000)] {
        for run in &cells[number] {
            assert_eq!(run.effective.interface.mtu, Some(mtu));
            // 20 of IP, 20 of TCP, 12 of its timestamps
            assert_eq!(run.effective.mss_bytes, mtu - 52);
            let size = driver(run);
            assert!(size <= f64::from(mtu) + HEADER, "mtu {mtu}: {size}");
            assert!(size > f64::from(mtu) * 0.45, "mtu {mtu}: {size}");
        }
    }
}

#[test]
fn the_virtual_mtu_bounds_every_superframe() {
    needs!(root);
    let cells = study("gso-max-size = [\"4000 B\", \"16000 B\", \"65536 B\"]", "offload = \"tso\"");
    let sizes = [(0, 4000), (1, 16_000), (2, 65_536)].map(|(number, bound)| {
        let sizes = cells[number].iter().map(|run| {
            assert_eq!(run.effective.interface.gso_max_size, Some(bound));
            assert!(driver(run) <= f64::from(bound) + HEADER, "{bound}: {}", driver(run));
            driver(run)
        });
        sizes.sum::<f64>() / 2.0
    });
    assert!(sizes.is_sorted() && sizes[0] > 1514.0, "{sizes:?}");
}

/// BIG TCP: what TCP hands down, and what IP receives, by the limit of each family.
#[test]
fn superframes_grow_beyond_64_kib() {
    needs!(root);
    for family in ["ipv4", "ipv6"] {
        let sizes = "= [\"64 KiB\", \"185000 B\"]";
        let workload = format!("message = \"1 MiB\"\nfamily = \"{family}\"");
        let sent_by = format!("{workload}\noffload = \"tso\"");
        let cells = study(&format!("gso-max-size {sizes}"), &sent_by);
        let large = |number: usize, size: fn(&Measurement) -> f64| {
            cells[number].iter().map(size).fold(0.0, f64::max)
        };
        assert!(large(0, stack) <= 65_536.0, "{family}: {}", large(0, stack));
        assert!(large(1, stack) > 65_536.0, "{family}: {}", large(1, stack));
        assert!(large(1, driver) > 65_536.0, "{family}: {}", large(1, driver));
        // a look at the queue takes 64 frames at most
        let received_by = format!("{workload}\ngro = true\nmtu = 9000\ndirection = \"receive\"");
        let cells = study(&format!("gro-max-size {sizes}"), &received_by);
        let large = |number: usize| cells[number].iter().map(received).fold(0.0, f64::max);
        assert!(large(0) <= 65_536.0 && large(1) > 65_536.0, "{family}: {} {}", large(0), large(1));
        for run in cells.concat() {
            let wire = run.evidence.interface;
            let frame = wire.rx_bytes as f64 / wire.rx_packets as f64;
            assert!(frame <= 9000.0 + HEADER, "the peer must cut its superframes: {frame}");
        }
    }
}

#[test]
fn gro_merges_what_arrives() {
    needs!(root);
    let cells = study("gro = [false, true]", "direction = \"receive\"");
    for (number, on) in [(0, false), (1, true)] {
        for run in &cells[number] {
            assert_eq!(run.effective.interface.gro, Some(on));
            let wire = run.evidence.interface;
            let frame = wire.rx_bytes as f64 / wire.rx_packets as f64;
            assert!(frame <= 1500.0 + HEADER, "the peer must cut its superframes: {frame}");
            let size = received(run);
            assert_eq!(size > 2000.0, on, "gro {on}: {size} bytes a packet");
        }
    }
}

#[test]
fn testbeds_have_the_requested_queues() {
    needs!(root);
    let cells = study("queues = [1, 2]", "connections = 4");
    for (number, queues) in [(0, 1), (1, 2)] {
        for run in &cells[number] {
            assert_eq!(run.effective.interface.queues, Some(queues));
        }
    }
}

#[test]
fn host_computed_checksums_are_accepted() {
    needs!(root);
    let cells = study(
        "tx-checksum = [true, false]\nrx-checksum = [true, false]",
        "offload = \"gso\"\ndirection = \"bidirectional\"",
    );
    for (number, transmit, receive) in
        [(0, true, true), (1, true, false), (2, false, true), (3, false, false)]
    {
        for run in &cells[number] {
            assert_eq!(run.effective.interface.tx_checksum, Some(transmit));
            assert_eq!(run.effective.interface.rx_checksum, Some(receive));
            let errors = run.evidence.protocol.get("Tcp.InCsumErrors").copied().unwrap_or(0);
            assert_eq!(errors, 0);
        }
    }
}

#[test]
fn socket_options_read_back() {
    needs!(root);
    let cells =
        study("congestion = [\"cubic\", \"reno\"]\nnodelay = [false, true]", "socket = \"64 KiB\"");
    for (number, congestion, nodelay) in
        [(0, "cubic", false), (1, "cubic", true), (2, "reno", false), (3, "reno", true)]
    {
        for run in &cells[number] {
            let effective = &run.effective;
            assert_eq!(effective.socket.congestion, congestion);
            assert_eq!(effective.socket.nodelay, nodelay);
            assert_eq!(effective.socket.buffer, Some(ByteSize(64 << 10)));
            // socket(7): the kernel doubles what was asked
            assert_eq!(effective.granted_send_buffer_bytes, 128 << 10);
            assert_eq!(effective.granted_receive_buffer_bytes, 128 << 10);
        }
    }
}

#[test]
fn a_knob_that_is_left_out_returns_to_its_first_value() {
    needs!(root);
    let mut lab = lab(None);
    let mut effective = |knobs: InterfaceKnobs| {
        let workload = Workload::default();
        let window = Duration::from_millis(100);
        measured(&mut lab, workload, knobs, window).effective.interface
    };
    let fresh = effective(InterfaceKnobs::default());
    let changed = InterfaceKnobs {
        offload: Some(Offload::Gso),
        gro: fresh.gro.map(|on| !on),
        tx_checksum: fresh.tx_checksum.map(|on| !on),
        rx_checksum: fresh.rx_checksum.map(|on| !on),
        mtu: Some(4000),
        gso_max_size: Some(16_000),
        gro_max_size: fresh.gro_max_size.map(|_| 185_000),
        txqueuelen: fresh.txqueuelen.map(|packets| packets / 2),
        queues: Some(2),
        // a veth has NAPI where it has GRO, which it has not at first
        threaded: fresh.threaded.map(|on| !on),
        napi_defer_hard_irqs: fresh.napi_defer_hard_irqs.map(|_| 2),
        gro_flush_timeout: fresh.gro_flush_timeout.map(|_| 20_000),
        gro_list: fresh.gro_list.map(|on| !on),
        udp_gro_forwarding: fresh.udp_gro_forwarding.map(|on| !on),
        ..InterfaceKnobs::default()
    };
    assert!(fresh.gro == Some(false) && fresh.threaded == Some(false), "{fresh:?}");
    assert_eq!(effective(changed.clone()), changed);
    assert_eq!(effective(InterfaceKnobs::default()), fresh);
    assert_eq!(effective(InterfaceKnobs { mtu: Some(4000), ..InterfaceKnobs::default() }), {
        InterfaceKnobs { mtu: Some(4000), ..fresh.clone() }
    });
}
