//! Knobs of real interfaces, in hosts of their own.

use crate::common::run_inside;

#[test]
fn knobs_of_a_veth_read_back() {
    run_inside("interfaces::inside::knobs_of_a_veth_read_back");
}

#[test]
fn features_of_a_veth_read_back() {
    run_inside("interfaces::inside::features_of_a_veth_read_back");
}

#[test]
fn channels_follow_and_show_in_sysfs() {
    run_inside("interfaces::inside::channels_follow_and_show_in_sysfs");
}

#[test]
fn what_cannot_be_is_explained() {
    run_inside("interfaces::inside::what_cannot_be_is_explained");
}

#[test]
fn a_route_decides_the_congestion_control_of_both_ends() {
    run_inside("interfaces::inside::a_route_decides_the_congestion_control_of_both_ends");
}

#[test]
fn an_idle_wire_without_ipv6_is_silent() {
    run_inside("interfaces::inside::an_idle_wire_without_ipv6_is_silent");
}

#[test]
fn steering_reads_back() {
    run_inside("interfaces::inside::steering_reads_back");
}

/// What the tests above run in their hosts.
mod inside {
    use std::fs::File;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    use linkrate_model::CpuSet;
    use linkrate_sys::ethtool::{Channels, Ethtool};
    use linkrate_sys::netlink::RouteSocket;
    use linkrate_sys::sysfs;
    use rustix::net::sockopt::tcp_congestion;

    use crate::common::{in_a_host, leave_network, queue_directories};
    use crate::skip::skip;

    /// The namespace the calling thread is in.
    fn here() -> File {
        File::open("/proc/thread-self/ns/net").unwrap()
    }

    /// A veth v0 with its peer v1 beside it.
    fn veth(queues: u32) -> RouteSocket {
        let mut route = RouteSocket::open().unwrap();
        route.create_veth("v0", "v1", here().as_fd(), queues).unwrap();
        route
    }

    #[test]
    #[ignore = "runs in a host"]
    fn knobs_of_a_veth_read_back() {
        if !in_a_host() {
            return;
        }
        let mut route = veth(3);
        let fresh = route.link("v0").unwrap();
        assert_eq!((fresh.mtu, fresh.tx_queues, fresh.rx_queues), (1500, 3, 3));
        assert!(!fresh.up && !fresh.carrier);
        assert!(fresh.index > 0 && fresh.gro_max_size > 0);
        assert!(fresh.tso_max_size >= fresh.gso_max_size);
        assert_eq!(route.link("v1").unwrap().rx_queues, 3);

        route.set_mtu("v0", 9000).unwrap();
        route.set_gso_max_segs("v0", 1).unwrap();
        route.set_gso_max_size("v0", 16384).unwrap();
        let set = route.link("v0").unwrap();
        assert_eq!((set.mtu, set.gso_max_segs, set.gso_max_size), (9000, 1, 16384));
        // zero on kernels that have only one size
        assert!([0, 16384].contains(&set.gso_ipv4_max_size), "{set:?}");
        // and up again, to what it was
        route.set_gso_max_size("v0", fresh.gso_max_size).unwrap();
        route.set_gso_max_segs("v0", fresh.gso_max_segs).unwrap();
        route.set_gro_max_size("v0", 185_000).unwrap();
        let set = route.link("v0").unwrap();
        assert_eq!(set.gro_max_size, 185_000);
        assert!([0, 185_000].contains(&set.gro_ipv4_max_size), "{set:?}");
        route.set_gro_max_sizes("v0", fresh.gro_max_size, fresh.gro_ipv4_max_size).unwrap();
        let set = route.link("v0").unwrap();
        assert_eq!(set.gso_max_size, fresh.gso_max_size);
        assert_eq!(set.gso_ipv4_max_size, fresh.gso_ipv4_max_size);
        assert_eq!(set.gso_max_segs, fresh.gso_max_segs);

        route.set_up("v0").unwrap();
        assert!(route.link("v0").unwrap().up);
        assert!(!route.link("v0").unwrap().carrier);
        let error = route.wait_running("v0", Duration::from_millis(5)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        route.set_up("v1").unwrap();
        assert!(route.link("v0").unwrap().carrier);
        route.wait_running("v0", Duration::from_secs(5)).unwrap();
        route.set_down("v0").unwrap();
        assert!(!route.link("v0").unwrap().up);
        route.delete_link("v0").unwrap();
        assert_eq!(route.link("v1").unwrap_err().errno(), Some(libc::ENODEV));
        route.set_up("lo").unwrap();
        assert!(route.link("lo").unwrap().up);
    }

    #[test]
    #[ignore = "runs in a host"]
    fn features_of_a_veth_read_back() {
        if !in_a_host() {
            return;
        }
        let mut route = veth(1);
        let mut ethtool = Ethtool::open().unwrap();
        for name in [
            "tx-scatter-gather",
            "tx-tcp-segmentation",
            "tx-tcp6-segmentation",
            "tx-generic-segmentation",
            "tx-checksum-ip-generic",
            "rx-gro",
        ] {
            let feature = ethtool.features("v0").unwrap().get(name).unwrap();
            assert!(feature.changeable, "{name}: {feature:?}");
            for on in [false, true, false, true] {
                ethtool.set_features("v0", &[(name, on)]).unwrap();
                let features = ethtool.features("v0").unwrap();
                assert_eq!(features.is_active(name), on, "{name}");
            }
        }
        // several at once, the others stay
        let before = ethtool.features("v0").unwrap();
        let ladder = [("tx-tcp6-segmentation", false), ("rx-gro", false)];
        ethtool.set_features("v0", &ladder).unwrap();
        let after = ethtool.features("v0").unwrap();
        for (name, feature) in before.iter() {
            let wanted = ladder.iter().find(|(wanted, _)| *wanted == name).map(|(_, on)| *on);
            assert_eq!(after.is_active(name), wanted.unwrap_or(feature.active), "{name}");
        }
        // what the driver fixes is a wish without effect, found by reading back
        let fixed = before.get("netns-local").or_else(|| before.get("rx-vlan-filter")).unwrap();
        assert!(!fixed.changeable);
        // segmentation depends on checksums: the kernel turns it off too
        ethtool.set_features("v0", &[("tx-tcp-segmentation", true)]).unwrap();
        ethtool.set_features("v0", &[("tx-checksum-ip-generic", false)]).unwrap();
        assert!(!ethtool.features("v0").unwrap().is_active("tx-tcp-segmentation"));
        // GRO on a veth that is up makes its NAPI
        route.set_up("v0").unwrap();
        ethtool.set_features("v0", &[("rx-gro", true)]).unwrap();
        assert!(ethtool.features("v0").unwrap().is_active("rx-gro"));
    }

    #[test]
    #[ignore = "runs in a host"]
    fn channels_follow_and_show_in_sysfs() {
        if !in_a_host() {
            return;
        }
        let mut route = veth(4);
        let mut ethtool = Ethtool::open().unwrap();
        let channels = ethtool.channels("v0").unwrap();
        assert_eq!((channels.rx_max, channels.tx_max, channels.combined_max), (4, 4, 0));
        assert!(ethtool.can_set_channels("v0").unwrap());
        assert!(!ethtool.can_set_channels("lo").unwrap());
        assert!(ethtool.can_set_channels("no-such-if").is_err());
        assert_eq!(ethtool.channels("v0").unwrap(), channels);
        for count in [1, 2, 4, 1] {
            ethtool.set_channels("v0", Some(count), Some(count), None).unwrap();
            let expected = Channels { rx: count, tx: count, ..channels };
            assert_eq!(ethtool.channels("v0").unwrap(), expected);
            assert_eq!(sysfs::rx_queue_count("v0").unwrap(), count);
            assert_eq!(queue_directories("v0", "tx-"), count);
        }
        let index = std::fs::read_to_string("/sys/class/net/v0/ifindex").unwrap();
        assert_eq!(index.trim(), route.link("v0").unwrap().index.to_string());
        // this sysfs is of this namespace: it has nothing else
        let names = std::fs::read_dir("/sys/class/net").unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["lo", "v0", "v1"]);
    }

    #[test]
    #[ignore = "runs in a host"]
    fn what_cannot_be_is_explained() {
        if !in_a_host() {
            return;
        }
        let mut route = veth(2);
        let mut ethtool = Ethtool::open().unwrap();
        let unmade = Ipv4Addr::new(10, 9, 0, 0);
        let errors = [
            (route.set_mtu("v0", 99_999), "set mtu of \"v0\" to 99999: "),
            (route.set_gso_max_segs("v0", 70_000), "set gso_max_segs of \"v0\" to 70000: "),
            (route.set_gso_max_size("v0", 1 << 30), "set gso_max_size of \"v0\" to 1073741824: "),
            (route.set_gso_max_size("v0", 10), "set gso_max_size of \"v0\" to 10: "),
            (route.set_up("no-such-if"), "bring up \"no-such-if\": No such device"),
            (
                route.create_veth("v0", "v2", here().as_fd(), 1),
                "create veth pair \"v0\" and \"v2\" (queues: 1): File exists",
            ),
            (
                route.create_veth("v2", "v3", File::open("/dev/null").unwrap().as_fd(), 1),
                "create veth pair \"v2\" and \"v3\" (queues: 1): Invalid argument",
            ),
            (
                route.set_route_congestion("v0", unmade, 24, Ipv4Addr::LOCALHOST, "cubic"),
                "set congestion control of route 10.9.0.0/24 on \"v0\" to cubic: ",
            ),
            (
                ethtool.set_features("v0", &[("no-such-feature", true)]),
                "set features of \"v0\" to no-such-feature on: ",
            ),
            (
                ethtool.set_channels("v0", Some(9), Some(9), None),
                "set channels of \"v0\" to rx 9, tx 9: ",
            ),
            (ethtool.features("no-such-if").map(drop), "read features of \"no-such-if\": No such"),
            (
                sysfs::set_receive_steering("v0", 7, &CpuSet::default()),
                "write CPUs \"\" to /sys/class/net/v0/queues/rx-7/rps_cpus: No such file",
            ),
        ];
        for (result, beginning) in errors {
            let error = result.unwrap_err();
            println!("{error}; hint: {:?}", error.hint());
            assert!(error.to_string().starts_with(beginning), "{error}");
        }
    }

    #[test]
    #[ignore = "runs in a host"]
    fn a_route_decides_the_congestion_control_of_both_ends() {
        if !in_a_host() {
            return;
        }
        let read = |name| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
        let default = read("tcp_congestion_control");
        let available = read("tcp_available_congestion_control");
        let Some(other) = available.split_whitespace().find(|name| *name != default.trim()) else {
            return skip(format!("this kernel has only {default}"));
        };
        let network = Ipv4Addr::new(10, 9, 0, 0);
        let near = Ipv4Addr::new(10, 9, 0, 1);
        let far = Ipv4Addr::new(10, 9, 0, 2);
        let end = |name: &str, address| {
            let mut route = RouteSocket::open().unwrap();
            route.disable_ipv6(name).unwrap();
            route.set_up(name).unwrap();
            route.add_address(name, address, 24).unwrap();
            let error = route.set_route_congestion(name, network, 24, address, "none").unwrap_err();
            println!("{error}; hint: {:?}", error.hint());
            route.set_route_congestion(name, network, 24, address, other).unwrap();
        };
        let (namespace, peer) = mpsc::channel();
        let (wired, wait_for_wire) = mpsc::channel();
        let (listening, wait_for_listener) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                leave_network();
                namespace.send(here()).unwrap();
                wait_for_wire.recv().unwrap();
                end("v1", far);
                let timeout = Duration::from_secs(5);
                RouteSocket::open().unwrap().wait_running("v1", timeout).unwrap();
                let listener = TcpListener::bind((far, 7)).unwrap();
                listening.send(()).unwrap();
                let (socket, _) = listener.accept().unwrap();
                assert_eq!(tcp_congestion(&socket).unwrap(), other);
            });
            let peer = peer.recv().unwrap();
            let mut route = RouteSocket::open().unwrap();
            route.create_veth("v0", "v1", peer.as_fd(), 1).unwrap();
            wired.send(()).unwrap();
            end("v0", near);
            wait_for_listener.recv().unwrap();
            route.wait_running("v0", Duration::from_secs(5)).unwrap();
            let started = Instant::now();
            let socket = TcpStream::connect((far, 7)).unwrap();
            // the first segment was not lost
            assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
            assert_eq!(tcp_congestion(&socket).unwrap(), other);
            assert!(route.link("v0").unwrap().counters.tx_packets > 0);
            println!("default {}, over the route {other}", default.trim());
        });
    }

    #[test]
    #[ignore = "runs in a host"]
    fn an_idle_wire_without_ipv6_is_silent() {
        if !in_a_host() {
            return;
        }
        let mut route = veth(1);
        for name in ["v0", "v1"] {
            route.disable_ipv6(name).unwrap();
            route.set_up(name).unwrap();
        }
        // duplicate address detection and the first solicitation come within two seconds
        thread::sleep(Duration::from_millis(2500));
        for name in ["v0", "v1"] {
            assert_eq!(route.link(name).unwrap().counters.tx_packets, 0, "{name}");
        }
    }

    #[test]
    #[ignore = "runs in a host"]
    fn steering_reads_back() {
        if !in_a_host() {
            return;
        }
        let _route = veth(2);
        let mut ethtool = Ethtool::open().unwrap();
        ethtool.set_channels("v0", Some(2), Some(2), None).unwrap();
        let none = CpuSet::default();
        let first: CpuSet = "0".parse().unwrap();
        assert_eq!(sysfs::receive_steering("v0", 1).unwrap(), none);
        match sysfs::set_receive_steering("v0", 1, &first) {
            Ok(()) => {
                assert_eq!(sysfs::receive_steering("v0", 1).unwrap(), first);
                assert_eq!(sysfs::receive_steering("v0", 0).unwrap(), none);
                sysfs::set_receive_steering("v0", 1, &none).unwrap();
                for absent in ["8000", "0,8000"] {
                    let absent: CpuSet = absent.parse().unwrap();
                    let error = sysfs::set_receive_steering("v0", 1, &absent).unwrap_err();
                    println!("{error}; hint: {:?}", error.hint());
                }
            }
            // the root of a user namespace may not
            Err(error) => {
                println!("{error}; hint: {:?}", error.hint());
                assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
                assert!(error.hint().unwrap().contains("user namespace"));
            }
        }
    }
}
