//! TAPs that an agent makes in its host: given away to its parent, and with knobs that read back.

#[macro_use]
#[path = "../../linkrate-sys/tests/common/skip.rs"]
mod skip;
#[path = "../../linkrate-sys/tests/common/mod.rs"]
mod common;

use std::fs::OpenOptions;
use std::io::{BufReader, Read};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use common::{answer, privileges, spawn};
use linkrate_model::{InterfaceKnobs, Offload};
use linkrate_protocol::framing::read_frame;
use linkrate_protocol::{
    Carries, HELLO_NUMBER, InterfaceSetup, PROTOCOL_VERSION, Refusal, Reply, Request, decode_reply,
    write_message,
};
use linkrate_sys::host::HostProcess;
use linkrate_sys::tap::{self, Offloads};
use skip::skip;

const NAME: &str = "sut0";
const ADDRESS: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// An agent in a host of its own.
struct Host {
    process: HostProcess,
    replies: BufReader<UnixStream>,
    /// The number of the latest request.
    asked: u64,
}

impl Host {
    fn ask(&mut self, request: &Request) -> Result<Reply, Refusal> {
        let number = match request {
            Request::Hello { .. } => HELLO_NUMBER,
            _ => self.asked + 1,
        };
        self.asked = number;
        write_message(&mut self.process.socket(), number, request).unwrap();
        let frame = read_frame(&mut self.replies).unwrap().expect("a reply");
        let (answered, reply) = decode_reply(&frame).unwrap();
        assert_eq!(answered, number);
        match reply {
            Reply::Refused(refusal) => Err(refusal),
            reply => Ok(reply),
        }
    }

    fn create(&mut self, queues: u32) -> Result<Vec<i32>, Refusal> {
        let request = Request::CreateTap {
            name: NAME.to_owned(),
            carries: Carries::Frames,
            queues,
            address: Some(ADDRESS),
            mtu: None,
            tx_queue_length: 512,
            napi: false,
        };
        match self.ask(&request)? {
            Reply::Tap { descriptors, .. } => Ok(descriptors),
            reply => panic!("{reply:?}"),
        }
    }

    /// A TAP that this process alone holds, up and with an address.
    fn take_tap(&mut self, queues: u32) -> Vec<OwnedFd> {
        let descriptors = self.create(queues).unwrap();
        let taken = descriptors.iter().map(|fd| self.process.take_descriptor(*fd).unwrap());
        let taken = taken.collect();
        assert_eq!(self.ask(&Request::ReleaseTap { name: NAME.to_owned() }), Ok(Reply::Done));
        let setup = InterfaceSetup {
            name: NAME.to_owned(),
            address: Ipv4Addr::new(10, 9, 0, 1),
            prefix_length: 24,
            route_congestion: None,
            gateway: None,
        };
        assert_eq!(self.ask(&Request::ConfigureInterface(setup)), Ok(Reply::Done));
        assert_eq!(self.ask(&Request::AwaitLink { name: NAME.to_owned() }), Ok(Reply::Done));
        taken
    }

    fn set(&mut self, knobs: InterfaceKnobs) -> Result<InterfaceKnobs, String> {
        let interfaces = vec![NAME.to_owned()];
        match self.ask(&Request::SetKnobs { interfaces, knobs }) {
            Ok(Reply::Knobs(mut effective)) => {
                assert_eq!(effective.len(), 1);
                Ok(effective.remove(NAME).expect("the knobs of its interface"))
            }
            Ok(reply) => panic!("{reply:?}"),
            Err(refusal) => Err(refusal.reason),
        }
    }
}

/// Runs `test` against an agent, once for each way of isolation that works here.
fn with_agents(test: impl Fn(&mut Host)) {
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        return skip(format!("/dev/net/tun: {error}"));
    }
    for privilege in privileges() {
        println!("{privilege:?}");
        let process = spawn("inside::agent", privilege.isolation());
        let mut replies = BufReader::new(process.socket().try_clone().unwrap());
        assert_eq!(answer(&mut replies).as_deref(), Some("ready"));
        let mut host = Host { process, replies, asked: 0 };
        let hello = host.ask(&Request::Hello { version: PROTOCOL_VERSION });
        assert!(matches!(hello, Ok(Reply::Hello(_))), "{hello:?}");
        test(&mut host);
    }
}

#[test]
fn a_tap_is_given_away_and_lives_as_long_as_its_taker() {
    with_agents(|host| {
        let taken = host.take_tap(2);
        assert_eq!(host.set(InterfaceKnobs::default()).unwrap().queues, Some(2));
        // it is not the agent's any more
        let refusal = host.ask(&Request::ReleaseTap { name: NAME.to_owned() }).unwrap_err();
        assert!(refusal.reason.contains("no TAP \"sut0\""), "{refusal}");
        let refusal = host.create(1).unwrap_err();
        assert!(refusal.reason.contains("Device or resource busy"), "{refusal}");
        assert_eq!(host.set(InterfaceKnobs::default()).unwrap().queues, Some(2));
        drop(taken);
        // a host that another test starts has copies from its fork to its exec
        let gone = |answer: Result<_, String>| match answer {
            Ok(_) => false,
            Err(error) => error.contains("No such device"),
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !gone(host.set(InterfaceKnobs::default())) {
            assert!(Instant::now() < deadline, "the TAP outlived its taker");
        }
        // and the name is free again
        drop(host.take_tap(1));
    });
}

#[test]
fn a_taken_tap_outlives_its_agent() {
    with_agents(|host| {
        let taken = host.take_tap(1);
        host.process.end(Duration::from_secs(5)).unwrap();
        host.replies.read_to_end(&mut Vec::new()).unwrap();
        let error = tap::read(&taken[0], &mut [0; 64]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        tap::set_carrier(&taken[0], false).unwrap();
    });
}

#[test]
fn knobs_of_a_tap_read_back() {
    with_agents(|host| {
        let taken = host.take_tap(3);
        let fresh = host.set(InterfaceKnobs::default()).unwrap();
        assert_eq!(fresh.offload, Some(Offload::Tso));
        assert_eq!((fresh.tx_checksum, fresh.rx_checksum), (Some(true), None));
        assert_eq!((fresh.mtu, fresh.queues), (Some(1500), Some(3)));
        assert_eq!(fresh.gro, Some(false));
        for offload in [Offload::None, Offload::Gso, Offload::Tso] {
            let knobs = InterfaceKnobs { offload: Some(offload), ..Default::default() };
            assert_eq!(
                host.set(knobs).unwrap(),
                InterfaceKnobs { offload: Some(offload), ..fresh.clone() }
            );
        }
        let knobs = InterfaceKnobs {
            mtu: Some(9000),
            gso_max_size: Some(32160),
            txqueuelen: Some(300),
            gro: Some(false),
            tx_checksum: Some(false),
            ..Default::default()
        };
        // without checksums there is no segmentation
        let without = InterfaceKnobs { offload: Some(Offload::Gso), ..fresh.clone() };
        let expected = InterfaceKnobs {
            mtu: knobs.mtu,
            gso_max_size: knobs.gso_max_size,
            txqueuelen: knobs.txqueuelen,
            gro: knobs.gro,
            tx_checksum: knobs.tx_checksum,
            ..without
        };
        assert_eq!(host.set(knobs).unwrap(), expected);
        assert_eq!(host.set(InterfaceKnobs::default()).unwrap(), fresh);

        // queues are the adapter's to change, and read back
        let queues = |count| InterfaceKnobs { queues: Some(count), ..Default::default() };
        assert_eq!(host.set(queues(3)).unwrap(), fresh);
        let error = host.set(queues(1)).unwrap_err();
        println!("{error}");
        assert!(error.contains("Operation not supported (os error 95) (it uses 3)"), "{error}");
        tap::detach_queue(&taken[2]).unwrap();
        assert_eq!(host.set(queues(2)).unwrap().queues, Some(2));
        assert_eq!(host.set(InterfaceKnobs::default()).unwrap().queues, Some(2));

        // what its kernel device does not have is a difference
        let knobs = InterfaceKnobs { rx_checksum: Some(true), ..Default::default() };
        let error = host.set(knobs).unwrap_err();
        println!("{error}");
        assert!(error.contains("\"rx-checksum\""), "{error}");
        // and so is what the adapter does not offer
        tap::set_offloads(&taken[0], Offloads { checksum: true, ..Offloads::NONE }).unwrap();
        let knobs = InterfaceKnobs { offload: Some(Offload::Tso), ..Default::default() };
        let error = host.set(knobs).unwrap_err();
        println!("{error}");
        assert!(error.contains("requested tso, effective is gso"), "{error}");
    });
}

/// What the tests above run in their hosts.
mod inside {
    use std::fs::File;
    use std::io::{Write, stdin, stdout};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use linkrate_agent::permissions::Permissions;

    use super::common::in_a_host;

    #[test]
    #[ignore = "runs in a host"]
    fn agent() {
        if !in_a_host() {
            return;
        }
        let mut output = stdout();
        // behind what the harness says, there are frames only
        output.write_all(b"\n@ready\n").unwrap();
        output.flush().unwrap();
        let (signals, _never) = UnixStream::pair().unwrap();
        // stdin itself would read ahead
        let mut input = File::from(stdin().as_fd().try_clone_to_owned().unwrap());
        let (carrier, signals) = (stdin(), signals.into());
        linkrate_agent::server::serve(
            &mut input,
            &mut output,
            carrier.as_fd(),
            signals,
            Permissions::Lab,
        )
        .unwrap();
    }
}
