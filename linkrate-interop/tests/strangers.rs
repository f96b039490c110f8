//! Clients that trickle, keep silent, ask for too much or ask where they have no business: none holds up the server or
//! others.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linkrate_interop::iperf3::{GREETING, Parameters, Transport};
use linkrate_interop::json::framed;
use linkrate_interop::netperf::{OmniRequest, Shape};
use linkrate_interop::serve::{self, Budget, Limits, Printed};

/// How long anything may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// States of iperf3.
const PARAM_EXCHANGE: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const SERVER_ERROR: u8 = 254;

/// Stops the servers, also where the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Servers of both programs with a budget of memory, and how long they took to end.
fn served(limits: &Limits, memory: u64, test: impl FnOnce(SocketAddr, SocketAddr)) -> Duration {
    let [iperf3, netperf] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let address = |listener: &TcpListener| listener.local_addr().expect("its address");
    let addresses = (address(&iperf3), address(&netperf));
    let (budget, stop) = (Budget::new(memory), AtomicBool::new(false));
    let stopped = std::thread::scope(|scope| {
        let (budget, stop) = (&budget, &stop);
        scope.spawn(move || {
            serve::iperf3(&iperf3, limits, budget, None, Printed::default(), stop, &|_| {})
        });
        scope.spawn(move || serve::netperf(&netperf, limits, budget, stop, &|_| {}));
        let _stop = Stop(stop);
        test(addresses.0, addresses.1);
        Instant::now()
    });
    stopped.elapsed()
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).expect("a server");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a time-out");
    stream
}

fn octets<const COUNT: usize>(stream: &mut TcpStream) -> [u8; COUNT] {
    let mut octets = [0; COUNT];
    stream.read_exact(&mut octets).expect("an answer");
    octets
}

/// Asks for a test of netperf. Returns its connection, the number of the error and the port.
fn ask(server: SocketAddr, asked: &OmniRequest) -> (TcpStream, u32, u16) {
    let mut control = connect(server);
    control.write_all(asked.message(false).octets()).expect("a server");
    let answer = octets::<656>(&mut control);
    let word = |index: usize| {
        u32::from_be_bytes(answer[index * 4..index * 4 + 4].try_into().expect("a word"))
    };
    (control, word(1), word(13) as u16)
}

/// A connection whose cookie has begun a session of iperf3.
fn greet(server: SocketAddr, number: u32) -> TcpStream {
    let mut control = connect(server);
    control.write_all(format!("{number:036}\0").as_bytes()).expect("a server");
    assert_eq!(octets(&mut control), [PARAM_EXCHANGE]);
    control
}

/// Sends an octet each 10 ms, until the server ends the connection or `most` has passed. Returns how long that was.
fn trickle(mut stream: &TcpStream, most: Duration) -> Duration {
    let begun = Instant::now();
    while begun.elapsed() < most && stream.write_all(b" ").is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    begun.elapsed()
}

fn transactions(shape: Shape, request: u32, response: u32) -> OmniRequest {
    OmniRequest {
        request_size: request,
        response_size: response,
        ..OmniRequest::of(shape, false, 1)
    }
}

#[test]
fn a_server_ends_within_a_second_whatever_its_clients_trickle() {
    let limits = Limits::default();
    let took = served(&limits, 1 << 30, |iperf3, netperf| {
        let cookie = connect(iperf3);
        let parameters = greet(iperf3, 1);
        (&parameters).write_all(&8192_u32.to_be_bytes()).expect("a server");
        let message = connect(netperf);
        let (control, error, port) =
            ask(netperf, &transactions(Shape::ConnectRequestResponse, 64 << 20, 1));
        assert_eq!(error, 0);
        let data = connect((Ipv4Addr::LOCALHOST, port).into());
        for stream in [cookie, parameters, message, data] {
            std::thread::spawn(move || trickle(&stream, TIMEOUT));
        }
        std::thread::sleep(Duration::from_millis(300));
        // it lives until the servers have ended
        std::mem::forget(control);
    });
    assert!(took < Duration::from_secs(1), "{took:?}");
}

/// What the server says to parameters of a client: the state, and the number of its error.
fn answered(server: SocketAddr, number: u32, document: &[u8]) -> (u8, Option<u32>) {
    let mut control = greet(server, number);
    let length = u32::try_from(document.len()).expect("a short document");
    control.write_all(&[&length.to_be_bytes(), document].concat()).expect("a server");
    match octets(&mut control) {
        [SERVER_ERROR] => (SERVER_ERROR, Some(u32::from_be_bytes(octets(&mut control)))),
        [state] => (state, None),
    }
}

#[test]
fn parameters_are_read_as_leniently_as_iperf3_reads_them() {
    let limits = Limits::default();
    served(&limits, 1 << 30, |iperf3, _| {
        let lenient: [&[u8]; 5] = [
            b"\xef\xbb\xbf{\"tcp\":true,\"time\":1.5}",
            b"{\"tcp\":\"yes\",\"time\":0}",
            b"{\"udp\":true,\"bandwidth\":18446744073709551615,\"len\":1000}",
            b"{\"tcp\":true,\"title\":\"a\tb\xff\"}",
            b"{}",
        ];
        for (number, document) in (0..).zip(lenient) {
            assert_eq!(answered(iperf3, number, document), (CREATE_STREAMS, None), "{number}");
        }
        for (number, document, error) in [
            (10, "{\"tcp\":true,\"bandwidth\":-1}".to_owned(), 114),
            (11, "{\"udp\":true,\"len\":11}".to_owned(), 20),
            (12, format!("{{\"title\":\"{}\"}}", "x".repeat(100_000)), 114),
            (13, "[".repeat(4000), 114),
            (14, "{\"tcp\":true,\"server_affinity\":1000}".to_owned(), 132),
        ] {
            let found = answered(iperf3, number, document.as_bytes());
            assert_eq!(found, (SERVER_ERROR, Some(error)), "{number}");
        }
    });
}

#[test]
fn a_congestion_control_that_is_not_here_ends_no_test() {
    let limits = Limits::default();
    served(&limits, 1 << 30, |iperf3, _| {
        let mut control = greet(iperf3, 1);
        let congestion = Some("none-such".to_owned());
        let asked = Parameters { congestion, ..Parameters::default() };
        control.write_all(&framed(&asked.document()).expect("a document")).expect("a server");
        assert_eq!(octets(&mut control), [CREATE_STREAMS]);
        let stream = connect(iperf3);
        (&stream).write_all(format!("{:036}\0", 1).as_bytes()).expect("a server");
        // it starts, and runs
        assert_eq!(octets(&mut control), [1, 2]);
    });
}

#[test]
fn what_trickles_ends_with_its_time() {
    let limits = Limits { seconds: 1, ..Limits::default() };
    served(&limits, 1 << 30, |iperf3, netperf| {
        let parameters = greet(iperf3, 1);
        (&parameters).write_all(&8192_u32.to_be_bytes()).expect("a server");
        let message = connect(netperf);
        let (_control, _, port) =
            ask(netperf, &transactions(Shape::ConnectRequestResponse, 64 << 20, 1));
        let data = connect((Ipv4Addr::LOCALHOST, port).into());
        let threads = [parameters, message, data]
            .map(|stream| std::thread::spawn(move || trickle(&stream, TIMEOUT)));
        for thread in threads {
            let held = thread.join().expect("no panic");
            assert!(held < Duration::from_secs(14), "{held:?}");
        }
    });
}

#[test]
fn connections_without_a_test_take_no_place() {
    let limits = Limits { sessions: 1, ..Limits::default() };
    served(&limits, 1 << 30, |iperf3, netperf| {
        let _silent: Vec<TcpStream> = (0..4).map(|_| connect(netperf)).collect();
        // before parameters, and a password among them, there is no test
        let _greeted: Vec<TcpStream> = (0..4).map(|number| greet(iperf3, number)).collect();
        let asked = transactions(Shape::RequestResponse, 1, 1);
        let (_test, error, _) = ask(netperf, &asked);
        assert_eq!(error, 0);
        let (_, error, _) = ask(netperf, &asked);
        assert_eq!(error, 16, "it is busy");
    });
}

#[test]
fn udp_tests_that_send_nothing_do_not_hold_back_others_of_their_address() {
    let limits = Limits::default();
    served(&limits, 1 << 30, |iperf3, _| {
        let ask = |number: u32| {
            let asked =
                Parameters { transport: Transport::Udp, block: 1400, ..Parameters::default() };
            let mut control = greet(iperf3, number);
            let document = framed(&asked.document()).expect("a document");
            control.write_all(&document).expect("a server");
            control
        };
        let _silent: Vec<TcpStream> = (0..8).map(ask).collect();
        std::thread::sleep(Duration::from_millis(200));
        let begun = Instant::now();
        let mut honest = ask(99);
        assert_eq!(octets(&mut honest), [CREATE_STREAMS]);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a time-out");
        socket.send_to(&GREETING, iperf3).expect("a datagram");
        socket.recv(&mut [0; 8]).expect("an answer");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    });
}

/// Memory of this process, octets.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("memory");
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).expect("a number") << 10
}

#[test]
fn tests_have_their_memory_from_one_budget_and_touch_what_they_use() {
    let limits = Limits::default();
    served(&limits, 300 << 20, |_, netperf| {
        let before = resident();
        let asked = transactions(Shape::RequestResponse, 64 << 20, 64 << 20);
        let all: Vec<(TcpStream, u32, u16)> = (0..8).map(|_| ask(netperf, &asked)).collect();
        let errors: Vec<u32> = all.iter().map(|(_, error, _)| *error).collect();
        assert_eq!(errors, [0, 0, 16, 16, 16, 16, 16, 16]);
        let more = resident() - before;
        assert!(more < 100 << 20, "{more} octets");
        drop(all);
        // and give it back
        let begun = Instant::now();
        while ask(netperf, &asked).1 != 0 {
            assert!(begun.elapsed() < TIMEOUT, "no memory");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn ports_and_addresses_are_for_clients_that_are_granted_by_name() {
    let busy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let used = busy.local_addr().expect("its address").port();
    let free = {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("its address").port()
    };
    let asked = |port: u16, address: Option<&str>| OmniRequest {
        data_port: port,
        data_address: address.map(|address| address.parse().expect("an address")),
        ..transactions(Shape::RequestResponse, 1, 1)
    };
    for networks in [vec![], vec!["127.0.0.0/8".parse().expect("a network")]] {
        let is_trusted = !networks.is_empty();
        let limits = Limits { networks, ..Limits::default() };
        served(&limits, 1 << 30, |_, netperf| {
            let error = |port, address| ask(netperf, &asked(port, address)).1;
            assert_eq!(error(0, None), 0);
            assert_eq!(error(0, Some("127.0.0.1")), 0);
            // one number for all: which port is used, or which address is here, is not told
            assert_eq!(error(used, None), 1);
            assert_eq!(error(111, None), 1);
            assert_eq!(error(0, Some("127.0.0.2")), 1);
            assert_eq!(error(0, Some("192.0.2.1")), 1);
            assert_eq!(error(free, None), u32::from(!is_trusted));
        });
    }
}

#[test]
fn files_of_this_host_are_no_payload() {
    served(&Limits::default(), 1 << 30, |_, netperf| {
        let error = |shape| {
            let asked = OmniRequest {
                fill_file: "/etc/hostname".to_owned(),
                ..OmniRequest::of(shape, false, 1)
            };
            ask(netperf, &asked).1
        };
        // EOPNOTSUPP; payload of the client is its own matter
        assert_eq!([Shape::Maerts, Shape::RequestResponse].map(error), [95; 2]);
        assert_eq!(error(Shape::Stream), 0);
    });
}
