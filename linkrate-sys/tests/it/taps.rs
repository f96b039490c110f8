//! TAPs in hosts of their own: what passes through them, and who holds them.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::common::{Agent, privileges, run_inside};
use linkrate_sys::host::{HostProcess, Isolation, Privilege};
use linkrate_sys::tap;

/// What opens if TAPs can be made here.
fn tun() -> Result<File, String> {
    let tun = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    tun.map_err(|error| format!("/dev/net/tun: {error}"))
}

fn run(name: &str) {
    or_skip!(tun());
    run_inside(name);
}

#[test]
fn a_tap_is_an_interface_with_queues() {
    run("taps::inside::a_tap_is_an_interface_with_queues");
}

#[test]
fn offloads_show_and_switch_as_features() {
    run("taps::inside::offloads_show_and_switch_as_features");
}

#[test]
fn frames_pass_both_ways() {
    run("taps::inside::frames_pass_both_ways");
}

#[test]
fn a_tun_carries_ip_packets() {
    run("taps::inside::a_tun_carries_ip_packets");
}

#[test]
fn a_full_queue_drops() {
    run("taps::inside::a_full_queue_drops");
}

#[test]
fn datagrams_wait_at_their_limit_and_tcp_passes() {
    run("taps::inside::datagrams_wait_at_their_limit_and_tcp_passes");
}

#[test]
fn queues_come_and_go() {
    run("taps::inside::queues_come_and_go");
}

#[test]
fn what_cannot_be_is_explained() {
    run("taps::inside::what_cannot_be_is_explained");
}

/// A host makes a TAP and another process takes it over: it then lives as long as that one holds
/// it, and carries frames without the host's doing.
#[test]
fn another_process_takes_a_tap_over() {
    or_skip!(tun());
    for privilege in privileges() {
        let mut first = Agent::start("taps::inside::agent", privilege.isolation());
        take_over(&mut first);
        // a second host of the same user namespace is its first one's, not ours
        let shared = first.host.user_namespace().unwrap();
        let isolation = match privilege {
            Privilege::Root => Isolation::Root,
            Privilege::UserNamespace => Isolation::UserNamespace { join: Some(shared.as_fd()) },
        };
        take_over(&mut Agent::start("taps::inside::agent", isolation));
        println!("{privilege:?}: taken over");
    }
}

fn take_over(agent: &mut Agent) {
    let answer = agent.ask("make t0 2");
    let taken: Vec<_> = answer.split_whitespace().map(|fd| take(&agent.host, fd)).collect();
    assert_eq!(taken.len(), 2);
    for queue in &taken {
        // the flags of the host's own; its kernel may have sent frames of its own accord
        let error = (0..100).find_map(|_| tap::read(queue, &mut [0; 64]).err());
        assert_eq!(error.map(|error| error.kind()), Some(std::io::ErrorKind::WouldBlock));
        let flags = rustix::io::fcntl_getfd(queue).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
    assert_eq!(agent.ask("release"), "ok");
    assert_eq!(agent.ask("carrier t0"), "true");
    tap::set_carrier(&taken[0], false).unwrap();
    assert_eq!(agent.ask("carrier t0"), "false");
    tap::set_carrier(&taken[1], true).unwrap();
    assert_eq!(agent.ask("carrier t0"), "true");
    drop(taken);
    // a host that another test starts has copies from its fork to its exec
    let deadline = Instant::now() + Duration::from_secs(10);
    while !agent.ask("carrier t0").contains("No such device") {
        assert!(Instant::now() < deadline, "the TAP outlived its taker");
    }
    let error = agent.host.take_descriptor(1_000_000).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EBADF), "{error}");
}

fn take(host: &HostProcess, descriptor: &str) -> std::os::fd::OwnedFd {
    host.take_descriptor(descriptor.parse().unwrap()).unwrap()
}

#[test]
fn a_host_that_has_ended_has_no_descriptors() {
    let mut agent = Agent::start("taps::inside::agent", Isolation::None);
    assert!(agent.host.take_descriptor(0).is_ok());
    agent.host.end(Duration::from_secs(10)).unwrap();
    let error = agent.host.take_descriptor(0).unwrap_err();
    assert_eq!(error.errno(), Some(libc::ESRCH), "{error}");
}

/// What the tests above run in their hosts.
mod inside {
    use std::io::{ErrorKind, IoSlice, stdin};
    use std::net::{Ipv4Addr, TcpStream, UdpSocket};
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};
    use std::time::Duration;

    use linkrate_sys::ethtool::Ethtool;
    use linkrate_sys::netlink::{DatagramLimit, RouteSocket};
    use linkrate_sys::tap::{self, Offloads, Tap, VNET_HEADER_BYTES};
    use linkrate_sys::{sysfs, wait};

    use crate::common::{in_a_host, queue_directories};
    use crate::skip::skip;

    const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
    const STATION: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
    const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const STATION_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

    /// A TAP t0 that is up and has an address.
    fn up(queues: u32) -> (Tap, RouteSocket) {
        let tap = Tap::open("t0", queues).unwrap();
        let mut route = RouteSocket::open().unwrap();
        route.set_hardware_address("t0", HOST_MAC).unwrap();
        route.disable_ipv6("t0").unwrap();
        route.set_up("t0").unwrap();
        route.add_address("t0", HOST, 24).unwrap();
        route.wait_running("t0", Duration::from_secs(5)).unwrap();
        (tap, route)
    }

    /// The next frame from any of the queues, with its header.
    fn receive(queues: &[OwnedFd]) -> Option<(usize, Vec<u8>)> {
        let descriptors: Vec<_> = queues.iter().map(AsFd::as_fd).collect();
        let ready = wait::wait(&descriptors, Some(1_000_000_000)).unwrap();
        let index = (0..queues.len()).find(|index| ready.contains(*index))?;
        let mut buffer = vec![0; tap::MAX_READ];
        let length = tap::read(&queues[index], &mut buffer).unwrap();
        buffer.truncate(length);
        Some((index, buffer))
    }

    /// Answers the host's question for the station's address, so that datagrams follow.
    fn answer_arp(queues: &[OwnedFd]) {
        let (index, question) = receive(queues).expect("the host asks");
        let frame = &question[VNET_HEADER_BYTES..];
        assert_eq!(frame[12..14], [0x08, 0x06]);
        assert_eq!(frame[6..12], HOST_MAC);
        let arp = [0, 1, 8, 0, 6, 4, 0, 2];
        let (station, host) = (STATION.octets(), HOST.octets());
        let answer = [
            IoSlice::new(&[0; VNET_HEADER_BYTES]),
            IoSlice::new(&HOST_MAC),
            IoSlice::new(&STATION_MAC),
            IoSlice::new(&[0x08, 0x06]),
            IoSlice::new(&arp),
            IoSlice::new(&STATION_MAC),
            IoSlice::new(&station),
            IoSlice::new(&HOST_MAC),
            IoSlice::new(&host),
        ];
        let length = answer.iter().map(|part| part.len()).sum::<usize>();
        assert_eq!(tap::write_vectored(&queues[index], &answer).unwrap(), length);
    }

    #[test]
    #[ignore = "runs in a host"]
    fn a_tap_is_an_interface_with_queues() {
        if !in_a_host() {
            return;
        }
        let mut route = RouteSocket::open().unwrap();
        for queues in [1, 3] {
            let tap = Tap::open("t0", queues).unwrap();
            assert_eq!((tap.name(), tap.queues().len()), ("t0", queues as usize));
            let fresh = route.link("t0").unwrap();
            assert!(!fresh.up && fresh.mtu == 1500, "{fresh:?}");
            assert_eq!(queue_directories("t0", "tx-"), queues);
            assert_eq!(sysfs::rx_queue_count("t0").unwrap(), queues);
            route.set_tx_queue_length("t0", 77).unwrap();
            route.set_hardware_address("t0", HOST_MAC).unwrap();
            route.set_mtu("t0", 9000).unwrap();
            route.set_gso_max_size("t0", 32160).unwrap();
            let set = route.link("t0").unwrap();
            assert_eq!((set.mtu, set.tx_queue_length, set.gso_max_size), (9000, 77, 32160));
            assert_eq!(set.hardware_address, Some(HOST_MAC));
            for queue in tap.queues() {
                let error = tap::read(queue, &mut [0; 100]).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
            }
            drop(tap);
            assert_eq!(route.link("t0").unwrap_err().errno(), Some(libc::ENODEV));
        }
    }

    #[test]
    #[ignore = "runs in a host"]
    fn offloads_show_and_switch_as_features() {
        if !in_a_host() {
            return;
        }
        const FEATURES: [&str; 5] = [
            "tx-checksum-ip-generic",
            "tx-tcp-segmentation",
            "tx-tcp6-segmentation",
            "tx-tcp-ecn-segmentation",
            "tx-udp-segmentation",
        ];
        let tap = Tap::open("t0", 2).unwrap();
        let mut ethtool = Ethtool::open().unwrap();
        let none = ethtool.features("t0").unwrap();
        assert!(FEATURES.iter().all(|name| !none.is_active(name)), "{none:?}");
        let all = Offloads::ALL;
        for (offloads, on) in [
            (all, &FEATURES[..]),
            (Offloads { uso: false, ..all }, &FEATURES[..4]),
            (Offloads { uso: false, tso_ecn: false, ..all }, &FEATURES[..3]),
            (Offloads { checksum: true, tso4: true, ..Offloads::NONE }, &FEATURES[..2]),
            (Offloads { checksum: true, ..Offloads::NONE }, &FEATURES[..1]),
            (Offloads::NONE, &[]),
            (all, &FEATURES[..]),
        ] {
            tap::set_offloads(&tap.queues()[1], offloads).unwrap();
            let features = ethtool.features("t0").unwrap();
            let active = FEATURES.iter().filter(|name| features.is_active(name));
            assert!(active.eq(on.iter()), "{offloads}: {features:?}");
        }
        for name in FEATURES {
            for on in [false, true] {
                ethtool.set_features("t0", &[(name, on)]).unwrap();
                assert_eq!(ethtool.features("t0").unwrap().is_active(name), on, "{name}");
            }
        }
        // what the reader does not do cannot be switched on
        tap::set_offloads(&tap.queues()[0], Offloads::NONE).unwrap();
        ethtool.set_features("t0", &[("tx-checksum-ip-generic", true)]).unwrap();
        assert!(!ethtool.features("t0").unwrap().is_active("tx-checksum-ip-generic"));
    }

    #[test]
    #[ignore = "runs in a host"]
    fn frames_pass_both_ways() {
        if !in_a_host() {
            return;
        }
        let (tap, mut route) = up(1);
        tap::set_offloads(&tap.queues()[0], Offloads::ALL).unwrap();
        let socket = UdpSocket::bind((HOST, 7)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.send_to(b"to the station", (STATION, 9)).unwrap();
        answer_arp(tap.queues());
        let (_, sent) = receive(tap.queues()).expect("the datagram");
        assert_eq!(sent.len(), VNET_HEADER_BYTES + 14 + 20 + 8 + 14);
        // VIRTIO_NET_HDR_F_NEEDS_CSUM, no GSO, the checksum starts behind the IP header
        assert_eq!((sent[0], sent[1]), (1, 0));
        assert_eq!(u16::from_le_bytes([sent[6], sent[7]]), 34);
        assert_eq!(u16::from_le_bytes([sent[8], sent[9]]), 6);
        let frame = &sent[VNET_HEADER_BYTES..];
        assert_eq!(frame[..6], STATION_MAC);
        assert_eq!(frame[42..], *b"to the station");

        // back to where it came from; the sum of an IP header does not change
        let mut back = frame.to_vec();
        back[..6].copy_from_slice(&HOST_MAC);
        back[6..12].copy_from_slice(&STATION_MAC);
        back[26..30].copy_from_slice(&STATION.octets());
        back[30..34].copy_from_slice(&HOST.octets());
        back[34..38].copy_from_slice(&[0, 9, 0, 7]);
        // a UDP checksum of zero is none
        back[40..42].copy_from_slice(&[0, 0]);
        back[42..].copy_from_slice(b"to the host...");
        let parts = [&[0; VNET_HEADER_BYTES][..], &back[..42], &back[42..]].map(IoSlice::new);
        tap::write_vectored(&tap.queues()[0], &parts).unwrap();
        let mut received = [0; 100];
        let (length, from) = socket.recv_from(&mut received).unwrap();
        assert_eq!(received[..length], *b"to the host...");
        assert_eq!(from, (STATION, 9).into());

        // a frame that lies about itself, and one for an interface that is down
        let lie = [1, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0];
        let error = tap::write_vectored(&tap.queues()[0], &[IoSlice::new(&lie), parts[1]]);
        assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        route.set_down("t0").unwrap();
        let error = tap::write_vectored(&tap.queues()[0], &parts).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }

    #[test]
    #[ignore = "runs in a host"]
    fn a_tun_carries_ip_packets() {
        if !in_a_host() {
            return;
        }
        let tun = Tap::open_tun("t0", 1).unwrap();
        tap::set_offloads(&tun.queues()[0], Offloads::ALL).unwrap();
        let mut route = RouteSocket::open().unwrap();
        route.disable_ipv6("t0").unwrap();
        // the MTU of Classical IP over ATM
        route.set_mtu("t0", 9180).unwrap();
        route.set_up("t0").unwrap();
        route.add_address("t0", HOST, 24).unwrap();
        route.wait_running("t0", Duration::from_secs(5)).unwrap();
        assert_eq!(route.link("t0").unwrap().hardware_address, None);

        let socket = UdpSocket::bind((HOST, 7)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        // nobody is asked for an address first
        let datagram = [7; 9180 - 28];
        socket.send_to(&datagram, (STATION, 9)).unwrap();
        let (_, sent) = receive(tun.queues()).expect("the datagram");
        let packet = &sent[VNET_HEADER_BYTES..];
        assert_eq!((packet.len(), packet[0]), (9180, 0x45));
        assert_eq!((&packet[12..16], &packet[16..20]), (&HOST.octets()[..], &STATION.octets()[..]));
        assert_eq!(packet[28..], datagram);

        let mut back = packet[..28 + 4].to_vec();
        back[12..16].copy_from_slice(&STATION.octets());
        back[16..20].copy_from_slice(&HOST.octets());
        back[20..24].copy_from_slice(&[0, 9, 0, 7]);
        back[24..28].copy_from_slice(&[0, 12, 0, 0]);
        back[2..4].copy_from_slice(&32_u16.to_be_bytes());
        back[10..12].copy_from_slice(&[0, 0]);
        let words =
            back[..20].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum: u32 = words.sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        back[10..12].copy_from_slice(&sum.to_be_bytes());
        let write = |packet: &[u8]| {
            let parts = [&[0; VNET_HEADER_BYTES][..], packet].map(IoSlice::new);
            tap::write_vectored(&tun.queues()[0], &parts)
        };
        write(&back).unwrap();
        let mut received = [0; 100];
        assert_eq!(socket.recv_from(&mut received).unwrap(), (4, (STATION, 9).into()));
        assert_eq!(received[..4], [7; 4]);
        // neither version of IP
        back[0] = 0x55;
        assert_eq!(write(&back).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    #[ignore = "runs in a host"]
    fn a_full_queue_drops() {
        if !in_a_host() {
            return;
        }
        let (tap, mut route) = up(1);
        route.set_tx_queue_length("t0", 4).unwrap();
        let socket = UdpSocket::bind((HOST, 7)).unwrap();
        socket.send_to(b"first", (STATION, 9)).unwrap();
        answer_arp(tap.queues());
        receive(tap.queues()).expect("the first");
        let before = route.link("t0").unwrap().counters;
        for _ in 0..10 {
            socket.send_to(b"more", (STATION, 9)).unwrap();
        }
        let mut read = 0;
        while tap::read(&tap.queues()[0], &mut [0; 2000]).is_ok() {
            read += 1;
        }
        assert_eq!(read, 4);
        let after = route.link("t0").unwrap().counters;
        assert_eq!(after.tx_dropped - before.tx_dropped, 6, "{after:?}");
    }

    #[test]
    #[ignore = "runs in a host"]
    fn datagrams_wait_at_their_limit_and_tcp_passes() {
        if !in_a_host() {
            return;
        }
        for queues in [1, 3] {
            let (tap, mut route) = up(queues);
            assert_eq!(route.datagram_limit("t0").unwrap(), None);
            // 10 frames of 1000 bytes at once, and then one in 10 s
            let burst = Duration::from_secs(100);
            let slow =
                DatagramLimit { bytes_per_second: 100, burst, overhead: 24, in_cells: false };
            match route.limit_datagrams("t0", &slow) {
                Ok(()) => {}
                Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::EOPNOTSUPP)) => {
                    return skip(error);
                }
                Err(error) => panic!("{error}"),
            }
            assert_eq!(route.datagram_limit("t0").unwrap(), Some(slow));
            let socket = UdpSocket::bind((HOST, 7)).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket.send_to(b"first", (STATION, 9)).unwrap();
            answer_arp(tap.queues());
            let mut taken = 0;
            while socket.send_to(&[0; 934], (STATION, 9)).is_ok() {
                taken += 1;
                assert!(taken < 10_000, "nothing makes the program wait");
            }
            let mut passed = 0;
            while let Some((_, frame)) = receive(tap.queues()) {
                passed += usize::from(frame.len() > 900);
            }
            // the first datagram and the question took tokens too
            assert!((8..=11).contains(&passed) && passed < taken, "{passed} of {taken}");
            assert_eq!(route.link("t0").unwrap().counters.tx_dropped, 0);

            // the first segment of a connection, while datagrams wait
            let connection = std::thread::spawn(|| {
                let _ =
                    TcpStream::connect_timeout(&(STATION, 9).into(), Duration::from_millis(300));
            });
            std::thread::sleep(Duration::from_millis(100));
            let (_, segment) = receive(tap.queues()).expect("the segment");
            assert_eq!(segment[VNET_HEADER_BYTES + 23], 6, "TCP");
            connection.join().unwrap();

            // a faster link: what waited passes
            let fast = DatagramLimit { bytes_per_second: 5_000_000_000, burst, ..slow };
            route.limit_datagrams("t0", &fast).unwrap();
            assert_eq!(route.datagram_limit("t0").unwrap(), Some(fast));
            route.set_no_queue("t0").unwrap();
            assert_eq!(route.datagram_limit("t0").unwrap(), None);
        }
    }

    #[test]
    #[ignore = "runs in a host"]
    fn queues_come_and_go() {
        if !in_a_host() {
            return;
        }
        let (tap, _route) = up(3);
        let queues = tap.queues();
        let mut ethtool = Ethtool::open().unwrap();
        assert!(!ethtool.can_set_channels("t0").unwrap());
        let mut in_use = || {
            let channels = ethtool.channels("t0").unwrap();
            assert_eq!(channels.combined, queue_directories("t0", "tx-"));
            channels.combined
        };
        assert_eq!(in_use(), 3);
        tap::detach_queue(&queues[1]).unwrap();
        tap::detach_queue(&queues[2]).unwrap();
        assert_eq!((in_use(), sysfs::rx_queue_count("t0").unwrap()), (1, 1));
        let error = tap::detach_queue(&queues[1]).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EINVAL), "{error}");
        // one that is detached is quiet
        let error = tap::read(&queues[1], &mut [0; 100]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(!wait::wait(&[queues[1].as_fd()], Some(0)).unwrap().any());
        assert_eq!(tap::write_vectored(&queues[1], &[IoSlice::new(&[0; 100])]).unwrap(), 100);

        // all flows use the one that is left
        let sockets: Vec<_> = (0..16).map(|n| UdpSocket::bind((HOST, 100 + n)).unwrap()).collect();
        sockets[0].send_to(b"first", (STATION, 9)).unwrap();
        answer_arp(&queues[..1]);
        let used = |queues: &[OwnedFd]| {
            for socket in &sockets {
                socket.send_to(b"more", (STATION, 9)).unwrap();
            }
            let mut counts = [0; 3];
            for (count, queue) in counts.iter_mut().zip(queues) {
                while tap::read(queue, &mut [0; 2000]).is_ok() {
                    *count += 1;
                }
            }
            counts
        };
        assert_eq!(used(queues), [17, 0, 0]);
        tap::attach_queue(&queues[2]).unwrap();
        tap::attach_queue(&queues[1]).unwrap();
        assert_eq!(in_use(), 3);
        let spread = used(queues);
        assert_eq!(spread.iter().sum::<u32>(), 16);
        assert!(spread.iter().filter(|count| **count > 0).count() > 1, "{spread:?}");
    }

    #[test]
    #[ignore = "runs in a host"]
    fn what_cannot_be_is_explained() {
        if !in_a_host() {
            return;
        }
        let tap = Tap::open("t0", 1).unwrap();
        let queue = &tap.queues()[0];
        let mut route = RouteSocket::open().unwrap();
        let uncheckable = Offloads { tso4: true, ..Offloads::NONE };
        let beginnings = [
            (tap::set_offloads(queue, uncheckable), "set offloads of TAP to tso4: Invalid"),
            (
                Tap::open("lo", 1).map(drop),
                "create TAP \"lo\" (queues: 1): Device or resource busy",
            ),
            (
                Tap::open("t0", 2).map(drop),
                "create TAP \"t0\" (queues: 2): Device or resource busy",
            ),
            (tap::attach_queue(queue), "attach queue of TAP: Invalid"),
            (
                route.set_hardware_address("t0", [1, 0, 0, 0, 0, 0]),
                "set hardware address of \"t0\" to 01:00:00:00:00:00: Cannot assign",
            ),
            (route.set_tx_queue_length("t0", u32::MAX), "set txqueuelen of \"t0\" to 4294967295: "),
        ];
        for (result, beginning) in beginnings {
            let error = result.unwrap_err();
            println!("{error}; hint: {:?}", error.hint());
            assert!(error.to_string().starts_with(beginning), "{error}");
        }
        // the host may remove it
        route.delete_link("t0").unwrap();
        let error = tap::read(queue, &mut [0; 100]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADFD));
        assert!(wait::wait(&[queue.as_fd()], None).unwrap().any());
    }

    #[test]
    #[ignore = "runs in a host"]
    fn agent() {
        if !in_a_host() {
            return;
        }
        let mut held = None;
        for line in stdin().lines().map_while(Result::ok) {
            println!("\n@{}", obey(&line, &mut held).unwrap_or_else(|error| error.to_string()));
        }
    }

    fn obey(line: &str, held: &mut Option<Tap>) -> Result<String, linkrate_sys::error::SysError> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["make", name, queues] => {
                let tap = held.insert(Tap::open(name, queues.parse().unwrap())?);
                RouteSocket::open()?.set_up(name)?;
                let numbers = tap.queues().iter().map(|queue| queue.as_raw_fd().to_string());
                Ok(numbers.collect::<Vec<_>>().join(" "))
            }
            ["release"] => {
                *held = None;
                Ok("ok".to_owned())
            }
            ["carrier", name] => Ok(RouteSocket::open()?.link(name)?.carrier.to_string()),
            _ => Ok(format!("{line}?")),
        }
    }
}
