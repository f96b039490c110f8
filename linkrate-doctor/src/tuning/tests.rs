//! Invented hosts: a tree of `/proc` and `/sys` for the files, and values for
//! what only sockets tell.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use linkrate_sys::ethtool::{Channels, Coalescing, Feature, Features, LinkModes, Pause, Rings};
use linkrate_sys::netlink::RouteEntry;
use linkrate_sys::sock_diag::Connection;
use linkrate_sys::tcp_info::PathInfo;
use linkrate_sys::tree::Tree;
use proptest::prelude::*;

use super::facts::{Device, Host, Interface, Interrupt, Process};
use super::*;

/// A server with two nodes of two cores of two threads, and a 100 Gb/s card in a narrow slot.
fn server() -> (tempfile::TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    processors(&write);
    let port = "sys/devices/pci0000:3a/0000:3a:00.0";
    let card = format!("{port}/0000:3b:00.0");
    for (at, which, speed, lanes) in [
        (port, "max", "8.0 GT/s PCIe", "8"),
        (card.as_str(), "max", "16.0 GT/s PCIe", "16"),
        (card.as_str(), "current", "8.0 GT/s PCIe", "8"),
    ] {
        write(&format!("{at}/{which}_link_speed"), &format!("{speed}\n"));
        write(&format!("{at}/{which}_link_width"), &format!("{lanes}\n"));
    }
    write(&format!("{card}/numa_node"), "1\n");
    let net = format!("{card}/net/ens1");
    for (file, text) in [
        ("ifindex", "2"),
        ("type", "1"),
        ("flags", "0x1003"),
        ("mtu", "1500"),
        ("speed", "100000"),
        ("duplex", "full"),
        ("statistics/rx_packets", "10000000"),
        ("statistics/tx_packets", "9000000"),
        ("statistics/rx_missed_errors", "20000"),
        ("queues/rx-0/rps_cpus", "00"),
        ("queues/rx-1/rps_cpus", "00"),
        ("queues/tx-0/xps_cpus", "00"),
    ] {
        write(&format!("{net}/{file}"), &format!("{text}\n"));
    }
    for number in [90, 91, 92] {
        write(&format!("{card}/msi_irqs/{number}"), "msix\n");
        write(&format!("proc/irq/{number}/smp_affinity_list"), "0-7\n");
        write(&format!("proc/irq/{number}/effective_affinity_list"), "0\n");
    }
    write(
        "proc/interrupts",
        "      CPU0 CPU1 CPU2 CPU3 CPU4 CPU5 CPU6 CPU7\n\
         90:  3 0 0 0 0 0 0 0 PCI-MSIX-0000:3b:00.0 0-edge ens1-async\n\
         91:  1000000 0 0 0 0 0 0 0 PCI-MSIX-0000:3b:00.0 1-edge ens1-rx-0\n\
         92:  2000000 0 0 0 0 0 0 0 PCI-MSIX-0000:3b:00.0 2-edge ens1-rx-1\n",
    );
    link(root.path(), &format!("{net}/device"), &card);
    link(root.path(), "sys/class/net/ens1", &net);
    let loopback = "sys/devices/virtual/net/lo";
    write(&format!("{loopback}/ifindex"), "1\n");
    write(&format!("{loopback}/type"), "772\n");
    link(root.path(), "sys/class/net/lo", loopback);
    write("proc/net/softnet_stat", "00100000 00000010 00000800 0 0 0 0 0 0 0 0 0 00000000\n");
    for (setting, text) in [
        ("ipv4/tcp_rmem", "4096 131072 6291456"),
        ("ipv4/tcp_wmem", "4096 16384 4194304"),
        ("ipv4/tcp_window_scaling", "1"),
        ("ipv4/tcp_congestion_control", "cubic"),
        ("ipv4/tcp_available_congestion_control", "reno cubic"),
        ("core/rmem_max", "212992"),
        ("core/wmem_max", "212992"),
        ("core/netdev_max_backlog", "1000"),
        ("core/netdev_budget", "300"),
        ("core/netdev_budget_usecs", "2000"),
    ] {
        write(&format!("proc/sys/net/{setting}"), &format!("{text}\n"));
    }
    write("proc/777/comm", "irqbalance\n");
    let mut host = from_files(&Tree::below(root.path()));
    let ens1 = &mut host.interfaces[0];
    ens1.max_mtu = Some(9978);
    ens1.rings = Some(Rings { rx: 256, rx_max: 4096, tx: 256, tx_max: 4096 });
    ens1.channels = Some(Channels { combined: 2, combined_max: 64, ..Channels::default() });
    ens1.pause = Some(Pause::default());
    ens1.features = Some(features(&[("tx-tcp-segmentation", false), ("rx-gro", true)]));
    (root, host)
}

fn processors(write: &dyn Fn(&str, &str)) {
    write("sys/devices/system/cpu/online", "0-7\n");
    for cpu in 0..8u32 {
        let base = format!("sys/devices/system/cpu/cpu{cpu}");
        let (core, node) = (cpu / 2 * 2, cpu / 4);
        for (file, text) in [
            ("topology/thread_siblings_list", format!("{core}-{}", core + 1)),
            ("cache/index3/level", "3".to_owned()),
            ("cache/index3/shared_cpu_list", format!("{}-{}", node * 4, node * 4 + 3)),
            (&format!("node{node}/x"), String::new()),
            ("cpufreq/scaling_governor", "powersave".to_owned()),
            ("cpufreq/scaling_available_governors", "performance powersave".to_owned()),
            ("cpufreq/cpuinfo_min_freq", "800000".to_owned()),
            ("cpufreq/cpuinfo_max_freq", "3200000".to_owned()),
            ("cpuidle/state0/latency", "0".to_owned()),
            ("cpuidle/state3/latency", "120".to_owned()),
            ("cpuidle/state3/name", "C6".to_owned()),
        ] {
            write(&format!("{base}/{file}"), &format!("{text}\n"));
        }
    }
}

/// A symbolic link at `from` to `to`, both below `root`.
fn link(root: &Path, from: &str, to: &str) {
    let from = root.join(from);
    fs::create_dir_all(from.parent().unwrap()).unwrap();
    symlink(root.join(to), from).unwrap();
}

fn features(listed: &[(&str, bool)]) -> Features {
    let all = listed.iter().map(|(name, active)| {
        ((*name).to_owned(), Feature { active: *active, changeable: true, wanted: *active })
    });
    all.collect()
}

fn advice_of(host: &Host) -> Vec<Advice> {
    advise(host, &Question::default()).unwrap()
}

fn find<'a>(all: &'a [Advice], name: &str) -> &'a Advice {
    all.iter().find(|advice| advice.name == name).unwrap_or_else(|| panic!("no {name} in {all:#?}"))
}

/// A finding asks for these commands.
#[track_caller]
fn advises(all: &[Advice], name: &str, commands: &[&str]) {
    assert_eq!(find(all, name).commands, commands, "{name}");
}

/// A finding that asks for something, if there is one.
fn asks<'a>(all: &'a [Advice], name: &str) -> Option<&'a Advice> {
    let asks = |state| matches!(state, Tuning::Improve | Tuning::Consider);
    all.iter().find(|advice| advice.name == name && asks(advice.state))
}

fn share(advice: &Advice) -> f64 {
    advice.cost.as_ref().unwrap().lost_share.unwrap()
}

#[test]
fn advises_a_badly_tuned_server_from_its_files() {
    let (_root, host) = server();
    assert_eq!(host.interfaces.len(), 1, "{:?}", host.interfaces);
    let all = advice_of(&host);

    let pcie = find(&all, "pcie");
    assert_eq!(
        (pcie.state, pcie.detail.as_str()),
        (Tuning::Improve, "8 GT/s x8, and the card supports 16 GT/s x16")
    );
    // 57.6 of 100 Gb/s
    assert!((share(pcie) - 0.424).abs() < 1e-3, "{pcie:?}");
    assert!(pcie.note.as_deref().unwrap().contains("move the card"), "{pcie:?}");

    let rings = find(&all, "rings");
    assert_eq!(rings.commands, ["ethtool -G ens1 rx 4096"]);
    assert!(rings.detail.starts_with("20000 packets found no receive descriptor"), "{rings:?}");
    assert!(rings.detail.ends_with("full frames fill the ring in 31 µs"), "{rings:?}");
    assert!(rings.evidence.iter().any(|e| e.value == "rx 256 of 4096, tx 256 of 4096"));
    assert!(share(rings) > 0.99, "0.2 % lost over 1 ms leaves 0.3 Gb/s: {rings:?}");

    assert!((share(find(&all, "governor")) - 0.75).abs() < 1e-9);
    let performance =
        "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
    advises(&all, "governor", &[performance]);

    let interrupts = find(&all, "interrupts");
    assert_eq!(
        interrupts.detail,
        "interrupts go to CPU 0, outside node 1 of the adapter (CPUs 4-7)"
    );
    // each core once, and the one for events left alone
    assert_eq!(
        interrupts.commands,
        ["echo 4 > /proc/irq/91/smp_affinity_list", "echo 6 > /proc/irq/92/smp_affinity_list"]
    );
    assert!(interrupts.note.as_deref().unwrap().contains("irqbalance"));

    advises(&all, "tso", &["ethtool -K ens1 tso on"]);
    advises(&all, "queues", &["ethtool -L ens1 combined 4"]);
    advises(&all, "jumbo-frames", &["ip link set dev ens1 mtu 9000"]);
    advises(&all, "pause", &["ethtool -A ens1 rx on tx on"]);
    advises(
        &all,
        "idle-states",
        &["echo 1 | tee /sys/devices/system/cpu/cpu*/cpuidle/state3/disable"],
    );
    advises(&all, "backlog", &["sysctl -w net.core.netdev_max_backlog=4000"]);
    assert_eq!(find(&all, "congestion-control").state, Tuning::Good);

    // 100 Gb/s over 1 ms: 12.5 MB under way, twice that for the buffer
    let buffers = find(&all, "socket-buffers");
    assert_eq!(buffers.state, Tuning::Consider, "the round trip is only assumed");
    assert_eq!(
        buffers.commands,
        [
            "sysctl -w net.ipv4.tcp_rmem='4096 131072 33554432'",
            "sysctl -w net.ipv4.tcp_wmem='4096 16384 33554432'"
        ]
    );
    assert!((share(buffers) - (1.0 - 2_097_152.0 * 8e3 / 1e11)).abs() < 1e-6, "{buffers:?}");
}

#[test]
fn sorts_by_cost_with_unknown_costs_last() {
    let (_root, host) = server();
    let all = advice_of(&host);
    let ranks: Vec<_> = all.iter().map(Advice::rank).collect();
    assert!(ranks.is_sorted(), "{ranks:?}");
    assert_eq!(all[0].name, "rings");
    let place = |name: &str| all.iter().position(|advice| advice.name == name).unwrap();
    assert!(place("pcie") < place("interrupts"), "a figure before none");
    assert!(place("interrupts") < place("governor"), "to improve before to consider");
    for advice in &all {
        let asks = matches!(advice.state, Tuning::Improve | Tuning::Consider);
        assert_eq!(advice.cost.is_some(), asks, "{advice:?}");
        let remedy = !advice.commands.is_empty() || advice.note.is_some();
        assert!(!asks || (remedy && !advice.evidence.is_empty()), "{advice:?}");
        assert!(asks || advice.commands.is_empty(), "{advice:?}");
    }
}

#[test]
fn a_setting_changed_as_advised_is_good() {
    let (_root, mut host) = server();
    for cpu in &mut host.cpus {
        cpu.governor = Some("performance".to_owned());
        cpu.idle_states.iter_mut().for_each(|state| state.enabled = state.exit_us <= 20);
    }
    host.settings.tcp_rmem = Some([4096, 131_072, 33_554_432]);
    host.settings.tcp_wmem = Some([4096, 16_384, 33_554_432]);
    host.settings.rmem_max = Some(1 << 24);
    host.settings.wmem_max = Some(1 << 24);
    host.softnet.clear();
    let ens1 = &mut host.interfaces[0];
    ens1.mtu = 9000;
    ens1.statistics.clear();
    ens1.features = Some(features(&[("tx-tcp-segmentation", true), ("rx-gro", true)]));
    ens1.channels = Some(Channels { combined: 4, combined_max: 64, ..Channels::default() });
    let device = ens1.device.as_mut().unwrap();
    let bus = device.bus.as_mut().unwrap();
    bus.current = bus.card;
    for (one, cpu) in device.interrupts.iter_mut().zip([0, 4, 6]) {
        one.effective = [cpu].into_iter().collect();
    }
    let left: Vec<Advice> =
        advice_of(&host).into_iter().filter(|advice| advice.state < Tuning::Good).collect();
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn takes_the_round_trip_from_the_busiest_connection() {
    let (_root, mut host) = server();
    let near = "192.0.2.1".parse().unwrap();
    host.interfaces[0].addresses = vec![near];
    let connection = |inode, min_rtt_us, bytes_acked| Connection {
        local: (near, 5001).into(),
        remote: ("198.51.100.7".parse::<std::net::IpAddr>().unwrap(), 80).into(),
        inode,
        path: PathInfo { min_rtt_us, bytes_acked, ..PathInfo::default() },
    };
    host.connections = vec![connection(1, 150, 5 << 30), connection(2, 90_000, 70_000)];
    // 0.15 ms: 1.9 MB under way, and autotuning has 2 MiB
    let all = advice_of(&host);
    let buffers = find(&all, "socket-buffers");
    assert_eq!(buffers.state, Tuning::Good, "{buffers:?}");
    assert!(buffers.detail.contains("150 µs to 198.51.100.7"), "{buffers:?}");

    let asked = Question { round_trip: Some(Duration::from_millis(20)), ..Question::default() };
    let all = advise(&host, &asked).unwrap();
    let buffers = find(&all, "socket-buffers");
    assert_eq!(buffers.state, Tuning::Improve, "{buffers:?}");
    assert!(buffers.commands[0].contains("536870912"), "{buffers:?}");

    // and whose process runs on the other node
    host.processes = vec![Process {
        pid: 42,
        name: "backup".to_owned(),
        cpus: "4-7".parse().unwrap(),
        sockets: vec![1],
    }];
    let all = advice_of(&host);
    advises(&all, "processes", &["taskset --all-tasks --cpu-list --pid 0-3 42"]);
    host.processes[0].sockets = vec![2];
    assert!(asks(&advice_of(&host), "processes").is_none(), "70 kB are no load");
}

#[test]
fn tells_a_slow_link_from_a_slow_peer() {
    let (_root, mut host) = server();
    let modes = |advertised: &[&str], peer: &[&str]| {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Some(LinkModes {
            speed_mbps: Some(1000),
            full_duplex: Some(true),
            autoneg: true,
            supported: own(&["1000baseT/Full", "10000baseT/Full"]),
            advertised: own(advertised),
            peer: own(peer),
        })
    };
    host.interfaces[0].speed_mbps = Some(1000);
    host.interfaces[0].modes = modes(&["1000baseT/Full"], &[]);
    let all = advice_of(&host);
    let speed = find(&all, "link-speed");
    assert_eq!(speed.commands, ["ethtool -s ens1 speed 10000 duplex full autoneg on"]);
    assert!((share(speed) - 0.9).abs() < 1e-9 && speed.state == Tuning::Improve);

    let both = ["1000baseT/Full", "10000baseT/Full"];
    host.interfaces[0].modes = modes(&both, &["1000baseT/Full"]);
    assert_eq!(find(&advice_of(&host), "link-speed").state, Tuning::Consider);
    host.interfaces[0].modes = modes(&both, &both);
    assert_eq!(find(&advice_of(&host), "link-speed").state, Tuning::Improve);

    host.interfaces[0].full_duplex = Some(false);
    advises(&advice_of(&host), "duplex", &["ethtool -s ens1 autoneg on"]);
    host.interfaces[0].statistics.insert("rx_crc_errors".to_owned(), 400);
    assert_eq!(find(&advice_of(&host), "damaged-frames").state, Tuning::Improve);
}

#[test]
fn bbr_on_a_fast_path_and_what_paces_it() {
    let (_root, mut host) = server();
    host.settings.congestion = Some("bbr".to_owned());
    host.interfaces[0].queue_discipline = "mq".to_owned();
    host.settings.default_queue_discipline = Some("fq_codel".to_owned());
    let all = advice_of(&host);
    advises(&all, "congestion-control", &["sysctl -w net.ipv4.tcp_congestion_control=cubic"]);
    advises(
        &all,
        "queue-discipline",
        &["sysctl -w net.core.default_qdisc=fq", "tc qdisc replace dev ens1 root handle 1: mq"],
    );
    host.interfaces[0].queue_discipline = "fq".to_owned();
    assert_eq!(find(&advice_of(&host), "queue-discipline").state, Tuning::Good);
    host.settings.congestion_available.retain(|name| name != "cubic");
    assert_eq!(find(&advice_of(&host), "congestion-control").commands[0], "modprobe tcp_cubic");
}

/// A virtual interface of `kind`.
fn software(name: &str, index: u32, kind: &str, mtu: u32) -> Interface {
    Interface {
        name: name.to_owned(),
        index,
        kind: Some(kind.to_owned()),
        up: true,
        mtu,
        features: Some(features(&[("tx-tcp-segmentation", true)])),
        // what a veth says, which no link has
        speed_mbps: Some(10_000),
        ..Interface::default()
    }
}

#[test]
fn mtus_along_the_path_that_differ() {
    let mut members = [software("v0", 2, "veth", 9000), software("v1", 3, "veth", 1500)];
    members[1].max_mtu = Some(65_535);
    for member in &mut members {
        member.controller = Some("br0".to_owned());
    }
    let mut host = Host { interfaces: members.into(), ..Host::default() };
    host.interfaces.push(software("br0", 4, "bridge", 1500));
    let all = advice_of(&host);
    let mtu = asks(&all, "mtu").unwrap();
    assert_eq!(mtu.interface.as_deref(), Some("br0"));
    assert_eq!(mtu.commands, ["ip link set dev v1 mtu 9000"]);
    host.interfaces[1].max_mtu = Some(4000);
    assert_eq!(asks(&advice_of(&host), "mtu").unwrap().commands, ["ip link set dev v0 mtu 1500"]);
    // asked about one member, the bridge is still about it
    let one = Question { interface: Some("v0".to_owned()), ..Question::default() };
    assert!(asks(&advise(&host, &one).unwrap(), "mtu").is_some());
    host.interfaces[0].mtu = 1500;
    assert!(asks(&advice_of(&host), "mtu").is_none());

    let mut pair = [software("a", 2, "veth", 9000), software("b", 3, "veth", 1500)];
    pair[0].lower = Some("b".to_owned());
    pair[1].lower = Some("a".to_owned());
    let mut host = Host { interfaces: pair.into(), ..Host::default() };
    assert_eq!(asks(&advice_of(&host), "mtu").unwrap().commands, ["ip link set dev b mtu 9000"]);

    host.interfaces.remove(1);
    host.routes = vec![RouteEntry {
        destination: "203.0.113.9".to_owned(),
        interface: Some(2),
        mtu: Some(1400),
        learned: true,
        ..RouteEntry::default()
    }];
    let all = advice_of(&host);
    let learned = find(&all, "path-mtu");
    assert!(learned.detail.contains("203.0.113.9 mtu 1400"), "{learned:?}");
    assert!(
        (share(learned) - (1.0 - 1348.0 / 1438.0 * 9038.0 / 8948.0)).abs() < 1e-9,
        "{learned:?}"
    );
    host.routes[0].learned = false;
    assert!(asks(&advice_of(&host), "route-mtu").is_some());
}

#[test]
fn offloads_that_depend_on_others_are_switched_on_together() {
    let mut host = Host { interfaces: vec![software("v0", 2, "veth", 1500)], ..Host::default() };
    host.interfaces[0].features = Some(features(&[
        ("tx-scatter-gather", false),
        ("tx-checksum-ip-generic", false),
        ("tx-tcp-segmentation", false),
        ("tx-generic-segmentation", true),
        // a veth is made so, and passes superframes whole
        ("rx-gro", false),
    ]));
    let all = advice_of(&host);
    advises(&all, "tso", &["ethtool -K v0 sg on tx on tso on"]);
    assert!(asks(&all, "gro").is_none(), "{all:?}");
    host.interfaces[0].kind = None;
    advises(&advice_of(&host), "gro", &["ethtool -K v0 gro on"]);
    // an offload that the adapter does not have is no finding
    let fixed = [("tx-tcp-segmentation".to_owned(), Feature::default())];
    host.interfaces[0].features = Some(fixed.into_iter().collect());
    let all = advice_of(&host);
    assert!(find(&all, "offloads").detail.contains("not supported by the driver"), "{all:?}");
    assert!(asks(&all, "tso").is_none());

    host.interfaces[0].gso_max_segs = 1;
    host.interfaces[0].gso_max_size = 65_536;
    advises(&advice_of(&host), "superframes", &["ip link set dev v0 gso_max_segs 65535"]);
}

#[test]
fn reports_long_waits_and_interrupts_for_every_packet() {
    let (_root, mut host) = server();
    let set = |host: &mut Host, rx_usecs, adaptive_rx| {
        host.interfaces[0].coalescing = Some(Coalescing {
            rx_usecs: Some(rx_usecs),
            rx_frames: Some(1),
            adaptive_rx,
            ..Coalescing::default()
        });
    };
    set(&mut host, 250, None);
    let all = advice_of(&host);
    let waits = find(&all, "coalescing");
    assert!((share(waits) - 0.2).abs() < 1e-9, "250 µs beside 1 ms: {waits:?}");
    assert_eq!(waits.commands, ["ethtool -C ens1 rx-usecs 20"]);
    set(&mut host, 0, Some(false));
    assert_eq!(find(&advice_of(&host), "coalescing").state, Tuning::Good, "0.16 for a packet");
    host.interfaces[0].statistics.insert("rx_packets".to_owned(), 1_000_000);
    host.interfaces[0].statistics.insert("tx_packets".to_owned(), 0);
    advises(&advice_of(&host), "coalescing", &["ethtool -C ens1 adaptive-rx on"]);
    set(&mut host, 0, Some(true));
    assert_eq!(find(&advice_of(&host), "coalescing").state, Tuning::Good);
}

#[test]
fn one_queue_and_threads_of_one_core() {
    let (_root, mut host) = server();
    let ens1 = &mut host.interfaces[0];
    ens1.channels = Some(Channels { combined: 1, combined_max: 1, ..Channels::default() });
    ens1.rx_queues.truncate(1);
    let interrupts = &mut ens1.device.as_mut().unwrap().interrupts;
    interrupts[1].effective = "4".parse().unwrap();
    interrupts[2].effective = "5".parse().unwrap();
    let all = advice_of(&host);
    advises(&all, "receive-steering", &["echo f0 > /sys/class/net/ens1/queues/rx-0/rps_cpus"]);
    assert!(find(&all, "interrupts").detail.contains("are threads of one core"), "{all:?}");
    host.interfaces[0].rx_queues[0].steering = "4-7".parse().unwrap();
    assert!(
        find(&advice_of(&host), "receive-steering").commands[0].contains("rps_sock_flow_entries")
    );
}

#[test]
fn the_page_says_that_there_is_no_adapter() {
    let host = Host { interfaces: vec![software("v0", 2, "veth", 1500)], ..Host::default() };
    let all = advice_of(&host);
    assert_eq!(find(&all, "adapter").state, Tuning::Unseen);
    let mut guest = software("eth0", 2, "", 1500);
    guest.device = Some(Device { driver: Some("virtio_net".to_owned()), ..Device::default() });
    let host = Host { interfaces: vec![guest], ..Host::default() };
    assert!(find(&advice_of(&host), "adapter").detail.contains("virtio_net"));
    assert!(advice_of(&Host::default()).iter().all(|advice| advice.state >= Tuning::Good));
}

#[test]
fn refuses_a_missing_interface_and_lists_the_others() {
    let (_root, host) = server();
    let asked = Question { interface: Some("eth9".to_owned()), ..Question::default() };
    let error = advise(&host, &asked).unwrap_err();
    assert_eq!(error.to_string(), "no interface \"eth9\" on this host; its interfaces: ens1");
}

proptest! {
    #[test]
    fn no_host_is_beyond_advice(
        numbers in proptest::collection::vec(any::<u32>(), 16),
        name in "[!-~]{1,15}",
        percent in any::<bool>(),
    ) {
        // read once: the files are the same each time
        static SERVER: LazyLock<Host> = LazyLock::new(|| server().1);
        let mut host = SERVER.clone();
        let ens1 = &mut host.interfaces[0];
        ens1.name = name;
        ens1.mtu = numbers[0];
        ens1.max_mtu = Some(numbers[1]);
        ens1.speed_mbps = Some(numbers[2].max(1));
        ens1.rings = Some(Rings {
            rx: numbers[3], rx_max: numbers[4], tx: numbers[5], tx_max: numbers[6],
        });
        ens1.gso_max_size = numbers[7];
        ens1.gso_max_segs = numbers[8];
        ens1.full_duplex = Some(percent);
        ens1.channels = Some(Channels {
            rx: numbers[9], rx_max: numbers[10], combined: numbers[11], ..Channels::default()
        });
        for (counter, value) in ["rx_packets", "rx_missed_errors", "rx_crc_errors"].iter().zip(&numbers) {
            ens1.statistics.insert((*counter).to_owned(), u64::from(*value) << 32);
        }
        let interrupts: &mut Vec<Interrupt> = &mut ens1.device.as_mut().unwrap().interrupts;
        interrupts.truncate(numbers[12] as usize % 4);
        host.settings.tcp_rmem = Some([0, 0, u64::from(numbers[13])]);
        host.softnet[0].squeezed = u64::from(numbers[14]);
        let asked = Question {
            round_trip: Some(Duration::from_micros(numbers[15].into())), ..Question::default()
        };
        for advice in advise(&host, &asked).unwrap() {
            if let Some(share) = advice.cost.and_then(|cost| cost.lost_share) {
                prop_assert!((0.0..=1.0).contains(&share), "{}", advice.name);
            }
        }
    }
}

/// A bond of two members, as the files of its driver tell, without `/proc/net/bonding`.
fn bonded(changes: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join("sys/class/net").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    };
    let gib = (1u64 << 30).to_string();
    for (name, index) in [("bond0", "2"), ("eth2", "3"), ("eth3", "4")] {
        write(&format!("{name}/ifindex"), index);
        write(&format!("{name}/flags"), "0x1003");
        write(&format!("{name}/type"), "1");
    }
    for (file, text) in [
        ("mode", "802.3ad 4"),
        ("xmit_hash_policy", "layer2 0"),
        ("lacp_rate", "slow 0"),
        ("slaves", "eth2 eth3"),
        ("ad_aggregator", "1"),
        ("ad_partner_mac", "02:00:00:00:00:01"),
    ] {
        write(&format!("bond0/bonding/{file}"), text);
    }
    for name in ["eth2", "eth3"] {
        for (file, text) in [
            ("bonding_slave/mii_status", "up"),
            ("bonding_slave/ad_aggregator_id", "1"),
            ("speed", "10000"),
            ("statistics/tx_bytes", gib.as_str()),
        ] {
            write(&format!("{name}/{file}"), text);
        }
    }
    for (path, text) in changes {
        write(path, text);
    }
    let host = from_files(&Tree::below(root.path()));
    (root, host)
}

#[test]
fn an_aggregate_that_is_whole_is_good() {
    let (_root, host) = bonded(&[]);
    let all = advice_of(&host);
    let good = find(&all, "aggregate");
    assert_eq!((good.state, good.interface.as_deref()), (Tuning::Good, Some("bond0")));
    assert!(good.evidence[0].value.starts_with("bond, 802.3ad, hash layer2"), "{good:?}");
    let names = ["aggregate-member", "aggregate-partner", "aggregate-rates", "aggregate-shares"];
    assert!(names.iter().all(|name| all.iter().all(|advice| advice.name != *name)));
}

#[test]
fn what_is_wrong_with_an_aggregate_is_reported() {
    let zero = "00:00:00:00:00:00";
    for (path, text, name, part, lost) in [
        ("eth3/bonding_slave/mii_status", "down", "-member", "the link of eth3 is down", Some(0.5)),
        ("bond0/bonding/ad_partner_mac", zero, "-partner", "no LACP partner answers", Some(0.5)),
        (
            "eth3/bonding_slave/ad_aggregator_id",
            "2",
            "-partner",
            "another aggregator than the active one: eth3",
            Some(0.5),
        ),
        ("eth3/speed", "1000", "-rates", "rates from 1.000 Gb/s to 10.00 Gb/s", None),
        ("eth3/statistics/tx_bytes", "0", "-shares", "eth2 sent 100 % of all bytes", Some(0.5)),
        ("bond0/bonding/slaves", "", "", "no members", None),
    ] {
        let (_root, host) = bonded(&[(path, text)]);
        let name = &format!("aggregate{name}");
        let all = advice_of(&host);
        let reported = find(&all, name);
        assert!(reported.detail.contains(part), "{part}: {reported:?}");
        assert_ne!(reported.state, Tuning::Good);
        assert_eq!(reported.cost.as_ref().unwrap().lost_share, lost, "{reported:?}");
        assert!(reported.note.is_some() || !reported.commands.is_empty());
        assert!(name == "aggregate" || all.iter().all(|advice| advice.name != "aggregate"));
    }
    let (_root, host) = bonded(&[("eth3/statistics/tx_bytes", "0")]);
    let command = "echo layer3+4 > /sys/class/net/bond0/bonding/xmit_hash_policy";
    assert_eq!(find(&advice_of(&host), "aggregate-shares").commands, [command]);
    // one active member is what that mode is for
    let backup = [("bond0/bonding/mode", "active-backup 1"), ("eth3/statistics/tx_bytes", "0")];
    let (_root, host) = bonded(&backup);
    assert_eq!(find(&advice_of(&host), "aggregate").state, Tuning::Good);
    // too little was sent to tell
    let little = [("eth2/statistics/tx_bytes", "1000"), ("eth3/statistics/tx_bytes", "0")];
    assert_eq!(find(&advice_of(&bonded(&little).1), "aggregate").state, Tuning::Good);
}
