//! Whatever control frames, calls and frames come, the machines of LAN Emulation and of calls keep to
//! the contract of machines, bound what they send, and send frames that read back.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use linkrate_wire::atm::{AtmAddress, Connection};
use linkrate_wire::control::lan_emulation::{Destination, Flags, FrameSize, Name, Status};
use linkrate_wire::control::{Data, LaneControl};
use linkrate_wire::frame::MacAddress;
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::call::{
    Call, Cause, Exchange, ExchangeAction, ExchangeConfig, ExchangeEvent, PartyAction, PartyEvent,
    Purpose,
};
use linkrate_wire::machine::lane::{
    Bus, BusAction, BusConfig, Client, ClientAction, ClientConfig, ClientEvent, Configuration,
    Elan, Lecs, LecsConfig, Les, LesConfig, ServerAction, ServerEvent, State,
};

const SIZE: FrameSize = FrameSize::Octets1516;
const PURPOSES: [Purpose; 7] = [
    Purpose::ControlDistribute,
    Purpose::MulticastForward,
    Purpose::DataDirect,
    Purpose::ControlDirect,
    Purpose::MulticastSend,
    Purpose::ConfigurationDirect,
    Purpose::ClassicalIp,
];

fn atm(end_system: u8) -> AtmAddress {
    AtmAddress::local(1, [2, 0, 0, 0, 0, end_system], 0)
}

fn mac(station: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 1, station])
}

fn call(octet: u8) -> Call {
    Call { is_incoming: octet & 1 == 1, number: u32::from(octet / 2 % 8) }
}

/// The machines, each with what it was asked last.
struct Machines {
    client: Client<Vec<u8>>,
    lecs: Lecs,
    les: Les,
    bus: Bus<Vec<u8>>,
    exchange: Exchange,
    /// The last question of the client, and its call.
    question: Option<(Call, LaneControl)>,
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(frame) = LaneControl::parse(bytes) {
        assert_eq!(LaneControl::parse(&frame.emit()), Ok(frame));
    }
    if let Ok(data) = Data::parse(bytes) {
        assert_eq!(data.emit(), bytes);
    }
    let Some(([settings], mut rest)) = bytes.split_first_chunk() else { return };
    let mut machines = machines(*settings);
    let mut now = Duration::ZERO;
    // what happens, to whom, and how much time passes before
    while let Some(([kind, a, pass], after)) = rest.split_first_chunk() {
        rest = after;
        let pass = u64::from(*pass);
        let end = now + Duration::from_millis(if *kind & 0x80 == 0 { pass } else { pass * 1000 });
        machines.run(&mut now, end);
        let length = usize::from(*a % 120);
        match kind & 0x7f {
            10 if rest.len() < length => break,
            10 => {
                let unit = rest[..length].to_vec();
                rest = &rest[length..];
                for octet in 0..6 {
                    machines.received(now, call(octet), &unit);
                }
            }
            kind => machines.event(now, kind, *a),
        }
    }
});

fn machines(settings: u8) -> Machines {
    let name = Name::new("blue").expect("a short name");
    let configuration = match settings & 1 {
        0 => Configuration::Lecs(atm(200)),
        _ => Configuration::Les(atm(201)),
    };
    let config = ClientConfig {
        proxy: settings & 2 != 0,
        most_directs: 3,
        ..ClientConfig::new(atm(0), mac(0), configuration)
    };
    let elan = Elan { name, size: SIZE, les: atm(201) };
    let few = ExchangeConfig { most_calls: 4, most_addresses: 2, ..ExchangeConfig::default() };
    Machines {
        client: Client::new(config),
        lecs: Lecs::new(LecsConfig { most_calls: 4, ..LecsConfig::new(vec![elan]) }),
        les: Les::new(LesConfig { most_clients: 4, ..LesConfig::new(name, SIZE, atm(202)) }),
        bus: Bus::new(BusConfig { most_clients: 4, ..BusConfig::new(SIZE) }),
        exchange: Exchange::new(few),
        question: None,
    }
}

impl Machines {
    fn event(&mut self, now: Duration, kind: u8, a: u8) {
        let (offered, cause) = (call(a | 1), Cause::Normal);
        let (from, purpose) =
            (atm([0, 1, 2, 201, 202][usize::from(a) % 5]), PURPOSES[usize::from(a) % 7]);
        match kind % 16 {
            0 => self.client(now, ClientEvent::Start),
            1 if a > 250 => self.client(now, ClientEvent::Stop),
            1 | 2 => self.called(now, PartyEvent::Connected(call(a & !1))),
            3 => self.called(now, PartyEvent::Offered { call: offered, from, purpose }),
            // what the client waits for
            4 => {
                let call = call(a | 1);
                let distribute = Purpose::ControlDistribute;
                self.called(now, PartyEvent::Offered { call, from: atm(201), purpose: distribute });
                let (call, purpose) = (Call::incoming(9), Purpose::MulticastForward);
                self.called(now, PartyEvent::Offered { call, from: atm(202), purpose });
            }
            5 => self.called(now, PartyEvent::Released { call: call(a), cause }),
            // an answer to its last question, with a status in a few cases
            6 | 7 => {
                let Some((call, question)) = self.question else { return };
                let status = Status(if a & 0xc0 == 0xc0 { u16::from(a & 7) } else { 0 });
                let answer = LaneControl {
                    requester: 1,
                    size: SIZE,
                    target_atm: match question.target {
                        Destination::Mac(MacAddress::BROADCAST) => atm(202),
                        Destination::Absent => atm(201),
                        _ => atm(a % 4),
                    },
                    flags: Flags(u16::from(a >> 2 & 1)),
                    ..question.answered(status)
                };
                self.received(now, call, &answer.emit());
            }
            8 => {
                let mut frame = [mac(a % 8).0, mac(0).0].concat();
                frame.resize(usize::from(a) * 8, 0);
                self.client(now, ClientEvent::Frame(frame));
            }
            9 => self.client(now, ClientEvent::Register(mac(a % 8))),
            11 => self.client(now, ClientEvent::Unregister(mac(a % 8))),
            12 => self.client(now, ClientEvent::Behind(mac(a % 8))),
            13 => self.client(now, ClientEvent::Topology { changing: a & 1 == 1 }),
            14 => {
                let frame = [0xff; 80].to_vec();
                self.client(now, ClientEvent::Frame(frame));
            }
            _ => {
                let (port, address) = (u16::from(a % 4), atm(a / 4 % 4));
                let highest = Connection { vpi: 0, vci: 36 };
                let event = match a / 16 % 8 {
                    0 => ExchangeEvent::AddPort { port, highest },
                    1 => ExchangeEvent::RemovePort(port),
                    2 => ExchangeEvent::Register { port, address },
                    3 => ExchangeEvent::Unregister(address),
                    4 | 5 => {
                        let (call, to) = (call(a & !1), atm(a % 4));
                        let action = PartyAction::SetUp { call, to, purpose };
                        ExchangeEvent::Asked { party: address, action }
                    }
                    6 => {
                        let action = PartyAction::Accept(offered);
                        ExchangeEvent::Asked { party: address, action }
                    }
                    _ => {
                        let action = PartyAction::Release { call: call(a), cause };
                        ExchangeEvent::Asked { party: address, action }
                    }
                };
                self.exchange(now, event);
            }
        }
    }

    fn client(&mut self, now: Duration, event: ClientEvent<Vec<u8>>) {
        let mut actions = Vec::new();
        self.client.handle(now, event, &mut actions);
        self.check(actions, 1);
    }

    fn called(&mut self, now: Duration, event: PartyEvent) {
        self.client(now, ClientEvent::Call(event));
        self.served(now, |_| ServerEvent::Call(event));
    }

    fn received(&mut self, now: Duration, call: Call, unit: &[u8]) {
        self.client(now, ClientEvent::Received { call, unit: unit.to_vec() });
        self.served(now, |_| ServerEvent::Received { call, unit: unit.to_vec() });
    }

    fn served(&mut self, now: Duration, event: impl Fn(()) -> ServerEvent<Vec<u8>>) {
        let mut actions = Vec::new();
        self.lecs.handle(now, event(()), &mut actions);
        self.les.handle(now, event(()), &mut actions);
        check_servers(&actions);
        assert!(self.les.members().count() <= 4 && self.les.stations().count() <= 4 * 4096);
        let mut actions = Vec::new();
        self.bus.handle(now, event(()), &mut actions);
        assert!(self.bus.forwards().count() <= 4 && actions.len() <= 2);
        for action in actions {
            if let BusAction::Forward(unit) = action {
                assert!(unit.len() <= usize::from(SIZE.octets()));
            }
        }
    }

    fn exchange(&mut self, now: Duration, event: ExchangeEvent) {
        let mut actions = Vec::new();
        self.exchange.handle(now, event, &mut actions);
        let open = actions.iter().filter(|one| matches!(one, ExchangeAction::Open { .. }));
        assert!(open.count() <= 1);
        let mut ends: Vec<_> = self.exchange.open().flatten().map(|(_, at)| at).collect();
        let count = ends.len();
        ends.sort_unstable();
        ends.dedup();
        assert_eq!(ends.len(), count, "a circuit of two calls");
    }

    /// Polls all machines that are due up to `end`.
    fn run(&mut self, now: &mut Duration, end: Duration) {
        let mut polls = 0;
        loop {
            let due = [self.client.due(), self.lecs.due(), self.les.due(), self.exchange.due()];
            let Some(due) = due.into_iter().flatten().min().filter(|due| *due <= end) else {
                break;
            };
            *now = due.max(*now);
            let mut actions = Vec::new();
            self.client.poll(*now, &mut actions);
            self.check(actions, 64);
            let mut actions = Vec::new();
            self.lecs.poll(*now, &mut actions);
            self.les.poll(*now, &mut actions);
            check_servers(&actions);
            self.exchange.poll(*now, &mut Vec::new());
            let due = [self.client.due(), self.lecs.due(), self.les.due(), self.exchange.due()];
            assert!(due.iter().flatten().all(|due| due > now), "due again after its poll");
            polls += 1;
            // 255 s, with a few destinations
            assert!(polls < 20_000, "polls without end");
        }
        *now = end;
    }

    /// What the client wants done. `events` is how many events may have led to it.
    fn check(&mut self, actions: Vec<ClientAction<Vec<u8>>>, events: usize) {
        // at most all that waits of all destinations
        assert!(actions.len() <= events * (8 * 70 + 40), "{} actions", actions.len());
        assert!(self.client.directs().count() <= 3 && self.client.cache().count() <= 8);
        let lecid = self.client.lecid();
        assert!(self.client.state() < State::Registering || lecid != 0);
        for action in actions {
            match action {
                ClientAction::Send { call, frame } => {
                    assert_eq!(LaneControl::parse(&frame.emit()), Ok(frame));
                    if !frame.is_response {
                        self.question = Some((call, frame));
                    }
                }
                ClientAction::Transmit { frame, .. } => {
                    let unit = Data { lecid, frame: &frame }.emit();
                    assert!(unit.len() <= usize::from(SIZE.octets()) && Data::parse(&unit).is_ok());
                }
                ClientAction::Deliver(unit) => assert!(Data::parse(&unit).is_ok()),
                ClientAction::Changed { from, to, .. } => assert_ne!(from, to),
                ClientAction::Call(_) | ClientAction::NotRegistered { .. } => {}
            }
        }
    }
}

fn check_servers(actions: &[ServerAction]) {
    // a frame goes to four clients at most, and four calls may end
    assert!(actions.len() <= 16, "{} actions", actions.len());
    for action in actions {
        if let ServerAction::Send { frame, .. } = action {
            assert_eq!(LaneControl::parse(&frame.emit()), Ok(*frame));
        }
    }
}
