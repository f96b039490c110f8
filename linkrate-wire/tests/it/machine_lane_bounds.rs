//! LAN Emulation against parties that lie, flood, or contradict the ELAN.

use std::time::Duration;

use crate::elan::{MS, SECOND, Wire, World, atm, bus, config, lecs, les, mac, name};
use crate::lossy::{handled, polled};
use linkrate_wire::atm::AtmAddress;
use linkrate_wire::control::lan_emulation::{
    Destination, Flags, FrameSize, LanType, LaneControl, Name, Operation, Status,
};
use linkrate_wire::control::{Data, lane_data};
use linkrate_wire::frame::MacAddress;
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::call::{Call, Cause, ExchangeEvent, PartyAction, PartyEvent, Purpose};
use linkrate_wire::machine::lane::{
    Bus, BusAction, BusConfig, Client, ClientAction, ClientConfig, ClientEvent, Configuration,
    Elan, Lecs, LecsConfig, Les, LesConfig, Reason, ServerAction, ServerEvent, State,
};
use proptest::prelude::*;

const LIAR: u8 = 66;

/// A LES or LECS that is asked by hand.
struct Asked<M> {
    server: M,
    purpose: Purpose,
    now: Duration,
    calls: u32,
}

impl<M: Machine<Event = ServerEvent<Vec<u8>>, Action = ServerAction>> Asked<M> {
    fn new(server: M, purpose: Purpose) -> Self {
        Self { server, purpose, now: Duration::ZERO, calls: 0 }
    }

    fn event(&mut self, event: ServerEvent<Vec<u8>>) -> Vec<ServerAction> {
        handled(&mut self.server, self.now, event)
    }

    /// A party calls, and is accepted.
    fn call(&mut self, from: AtmAddress) -> Call {
        let call = Call::incoming(self.calls);
        self.calls += 1;
        let purpose = self.purpose;
        let offered = PartyEvent::Offered { call, from, purpose };
        let accept = ServerAction::Call(PartyAction::Accept(call));
        assert_eq!(self.event(ServerEvent::Call(offered)), [accept]);
        call
    }

    fn send(&mut self, call: Call, frame: &LaneControl) -> Vec<ServerAction> {
        self.event(ServerEvent::Received { call, unit: frame.emit() })
    }

    /// The frames that the server sends when one comes.
    fn answers(&mut self, call: Call, frame: &LaneControl) -> Vec<(Call, LaneControl)> {
        let sent = self.send(call, frame).into_iter().filter_map(|action| match action {
            ServerAction::Send { call, frame } => Some((call, frame)),
            _ => None,
        });
        sent.collect()
    }

    #[track_caller]
    fn refuses(&mut self, call: Call, frame: &LaneControl, status: Status) {
        let answers = self.answers(call, frame);
        assert_eq!(answers, [(call, frame.answered(status))], "{frame:?}");
    }
}

fn request(operation: Operation, from: u8) -> LaneControl {
    let source = Destination::Mac(mac(from));
    LaneControl { source, source_atm: atm(from), ..LaneControl::request(operation) }
}

/// A client asks for the ATM address of a station.
fn arp(from: u8, requester: u16, target: MacAddress) -> LaneControl {
    let target = Destination::Mac(target);
    LaneControl { requester, target, ..request(Operation::Arp, from) }
}

/// Clients, joined for a second.
fn joined(configs: &[ClientConfig]) -> World {
    let mut world = World::new(configs, Wire::good(MS), 1);
    world.run_for(SECOND);
    world
}

fn server() -> Asked<Les> {
    let les = Les::new(LesConfig::new(name(), FrameSize::Octets1516, bus()));
    Asked::new(les, Purpose::ControlDirect)
}

/// A client joins by hand. Returns its call and the answer.
fn join(les: &mut Asked<Les>, from: u8, flags: Flags) -> (Call, LaneControl) {
    let call = les.call(atm(from));
    let actions = les.send(call, &LaneControl { flags, ..request(Operation::Join, from) });
    let [ServerAction::Call(PartyAction::SetUp { call: distribute, to, .. })] = actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(to, atm(from));
    let actions = les.event(ServerEvent::Call(PartyEvent::Connected(distribute)));
    let [ServerAction::Send { call: by, frame }] = actions[..] else { panic!("{actions:?}") };
    assert_eq!((by, frame.status), (call, Status::SUCCESS));
    (call, frame)
}

#[test]
fn a_server_refuses_those_that_contradict_it() {
    let mut les = server();
    let (_, joined) = join(&mut les, 1, Flags::default());
    assert_eq!((joined.size, joined.requester), (FrameSize::Octets1516, 1));
    let call = les.call(atm(LIAR));
    let join = request(Operation::Join, LIAR);
    let group = Destination::Mac(MacAddress::BROADCAST);
    for (lie, status) in [
        (LaneControl { source_atm: atm(1), ..join }, Status::ATM_ADDRESS),
        (LaneControl { source: Destination::Mac(mac(1)), ..join }, Status::DUPLICATE_DESTINATION),
        (LaneControl { source: group, ..join }, Status::DESTINATION),
        (LaneControl { source: Destination::Route([1, 2]), ..join }, Status::DESTINATION),
        (LaneControl { size: FrameSize::Octets9234, ..join }, Status::PARAMETERS),
        (LaneControl { lan: LanType::TokenRing, ..join }, Status::PARAMETERS),
        (LaneControl { elan: Name::new("red").unwrap(), ..join }, Status::PARAMETERS),
    ] {
        les.refuses(call, &lie, status);
    }
    // the ATM address of a client that has joined, from another connection of it
    let twice = les.call(atm(1));
    let join = LaneControl { source: Destination::Absent, ..request(Operation::Join, 1) };
    les.refuses(twice, &join, Status::DUPLICATE_ATM);
    assert_eq!(les.server.members().count(), 1);
    // those that do not join are released
    les.now = les.server.due().unwrap();
    let actions = polled(&mut les.server, les.now);
    let over = |call| ServerAction::Call(PartyAction::Release { call, cause: Cause::Normal });
    assert_eq!(actions, [over(call), over(twice)]);
    assert_eq!(les.server.due(), None);
}

#[test]
fn a_client_speaks_for_itself_alone() {
    let mut les = server();
    let (one, joined) = join(&mut les, 1, Flags::default());
    let (liar, of_liar) = join(&mut les, LIAR, Flags::default());
    let register = LaneControl {
        source: Destination::Mac(mac(9)),
        requester: of_liar.requester,
        ..request(Operation::Register, LIAR)
    };
    les.refuses(liar, &LaneControl { requester: joined.requester, ..register }, Status::REQUESTER);
    les.refuses(liar, &LaneControl { source_atm: atm(1), ..register }, Status::ATM_ADDRESS);
    let of_one = LaneControl { source: Destination::Mac(mac(1)), ..register };
    les.refuses(liar, &of_one, Status::DUPLICATE_DESTINATION);
    let unregister = LaneControl { operation: Operation::Unregister, ..of_one };
    les.refuses(liar, &unregister, Status::DUPLICATE_DESTINATION);
    assert_eq!(les.server.stations().count(), 2);
    // answers to questions of the first client: for another client, for a station of another one, or
    // for one that is not registered without being a proxy
    let asked = arp(1, joined.requester, mac(50));
    for lie in [
        LaneControl { target_atm: atm(2), ..asked.answered(Status::SUCCESS) },
        LaneControl { target_atm: atm(LIAR), ..asked.answered(Status::SUCCESS) },
        LaneControl {
            target_atm: atm(1),
            operation: Operation::Flush,
            ..asked.answered(Status::SUCCESS)
        },
        // questions and notices under another name
        asked,
        LaneControl { operation: Operation::Topology, ..asked },
        LaneControl { operation: Operation::NegativeArp, ..asked },
        LaneControl::request(Operation::Ready),
        LaneControl { operation: Operation::Configure, ..register },
    ] {
        assert_eq!(les.answers(liar, &lie), [], "{lie:?}");
    }
    assert_eq!(les.server.counters().unexpected, 8);
    // what it may say is passed on
    let own = LaneControl {
        target_atm: atm(LIAR),
        operation: Operation::Flush,
        ..asked.answered(Status::SUCCESS)
    };
    assert_eq!(les.answers(liar, &own), [(one, own)]);
    let moved = LaneControl { operation: Operation::NegativeArp, ..register };
    let told: Vec<_> = les.answers(liar, &moved).into_iter().map(|(_, frame)| frame).collect();
    assert_eq!(told, [moved]);
}

#[test]
fn a_proxy_answers_for_unregistered_stations_alone() {
    let mut les = server();
    let (one, joined) = join(&mut les, 1, Flags::default());
    let (proxy, _) = join(&mut les, LIAR, Flags::PROXY);
    let answer = |target| LaneControl {
        target_atm: atm(LIAR),
        ..arp(1, joined.requester, target).answered(Status::SUCCESS)
    };
    let right = answer(mac(50));
    assert_eq!(les.answers(proxy, &right), [(one, right)]);
    // it is neither another client nor the BUS
    for target in [mac(1), MacAddress::BROADCAST, MacAddress([1, 0, 0x5e, 0, 0, 1])] {
        assert_eq!(les.answers(proxy, &answer(target)), [], "{target}");
    }
}

#[test]
fn a_flood_of_questions_is_bounded() {
    let mut les = server();
    let (flood, joined) = join(&mut les, LIAR, Flags::default());
    let (victim, other) = join(&mut les, 1, Flags::default());
    join(&mut les, 3, Flags::PROXY);
    let question = arp(LIAR, joined.requester, mac(99));
    let mut sent = 0;
    for _ in 0..100_000 {
        les.now += Duration::from_micros(100);
        sent += les.answers(flood, &question).len();
    }
    // in ten seconds, to the one proxy
    assert!((5000..=5600).contains(&sent), "{sent}");
    assert_eq!(les.server.counters().dropped, 100_000 - sent as u64);
    // another client is served as ever
    let question = arp(1, other.requester, MacAddress::BROADCAST);
    let answer = LaneControl { target_atm: bus(), ..question.answered(Status::SUCCESS) };
    assert_eq!(les.answers(victim, &question), [(victim, answer)]);
}

#[test]
fn stations_and_clients_are_bounded() {
    let mut les = server();
    let (call, joined) = join(&mut les, 1, Flags::default());
    let mut refused = 0;
    for number in 0..5000_u16 {
        les.now += 10 * MS;
        let [high, low] = number.to_be_bytes();
        let register = LaneControl {
            source: Destination::Mac(MacAddress([2, 0, 0, 9, high, low])),
            requester: joined.requester,
            ..request(Operation::Register, 1)
        };
        let answers = les.answers(call, &register);
        refused += answers.iter().filter(|(_, one)| one.status == Status::RESOURCES).count();
    }
    assert_eq!((les.server.stations().count(), refused), (4096, 905));
    let offered = |number| {
        let (call, from, purpose) = (Call::incoming(number), atm(9), Purpose::ControlDirect);
        ServerEvent::Call(PartyEvent::Offered { call, from, purpose })
    };
    let busy = (1..5000_u32).filter(|number| {
        let actions = les.event(offered(*number));
        matches!(actions[..], [ServerAction::Call(PartyAction::Release { cause: Cause::Busy, .. })])
    });
    assert_eq!(busy.count(), 4999 - 1023);
}

#[test]
fn the_lecs_knows_elans_by_name_and_by_address() {
    let elan = |text, size, les| Elan { name: Name::new(text).unwrap(), size, les };
    let elans = vec![
        elan("blue", FrameSize::Octets1516, atm(10)),
        elan("red", FrameSize::Octets9234, atm(11)),
    ];
    let red = elans[1].name;
    let mut settings = LecsConfig::new(elans);
    settings.members.insert(atm(1), red);
    let mut lecs = Asked::new(Lecs::new(settings), Purpose::ConfigurationDirect);
    let calls = [1, 2].map(|client| lecs.call(atm(client)));
    let configure = [1, 2].map(|client| request(Operation::Configure, client));
    // by address
    let answer = lecs.answers(calls[0], &configure[0])[0].1;
    assert_eq!((answer.status, answer.target_atm), (Status::SUCCESS, atm(11)));
    assert_eq!(
        (answer.size, answer.elan, answer.lan),
        (FrameSize::Octets9234, red, LanType::Ethernet)
    );
    // by name, which goes before
    let blue = LaneControl { elan: Name::new("blue").unwrap(), ..configure[0] };
    let answer = lecs.answers(calls[0], &blue)[0].1;
    assert_eq!((answer.target_atm, answer.size), (atm(10), FrameSize::Octets1516));
    let [_, call] = calls;
    let request = configure[1];
    lecs.refuses(call, &request, Status::NO_CONFIGURATION);
    let green = LaneControl { elan: Name::new("green").unwrap(), ..request };
    lecs.refuses(call, &green, Status::NO_CONFIGURATION);
    let large = LaneControl { elan: blue.elan, size: FrameSize::Octets9234, ..request };
    lecs.refuses(call, &large, Status::PARAMETERS);
    lecs.refuses(call, &LaneControl { source_atm: atm(1), ..request }, Status::ATM_ADDRESS);
    assert_eq!(lecs.send(call, &LaneControl { operation: Operation::Join, ..request }), []);
    let counters = lecs.server.counters();
    assert_eq!((counters.configured, counters.refused, counters.malformed), (2, 4, 1));
    // a flood is bounded, and a call that stays is released
    let answered = (0..10_000).map(|_| lecs.answers(call, &request).len()).sum::<usize>();
    assert!(answered <= 1000, "{answered}");
    assert_eq!(polled(&mut lecs.server, 120 * SECOND).len(), 2);
}

#[test]
fn the_bus_passes_on_frames_of_its_clients_alone() {
    let mut bus = Bus::new(BusConfig::new(FrameSize::Octets1516));
    let event = |bus: &mut Bus<Vec<u8>>, event| handled(bus, Duration::ZERO, event);
    let call = Call::incoming(7);
    let (from, purpose) = (atm(1), Purpose::MulticastSend);
    let offered = ServerEvent::Call(PartyEvent::Offered { call, from, purpose });
    let actions = event(&mut bus, offered);
    let forward = Call::outgoing(0);
    let purpose = Purpose::MulticastForward;
    let set_up = PartyAction::SetUp { call: forward, to: from, purpose };
    let accept = BusAction::Call(PartyAction::Accept(call));
    assert_eq!(actions, [accept, BusAction::Call(set_up)]);
    event(&mut bus, ServerEvent::Call(PartyEvent::Connected(forward)));
    assert!(bus.forwards().eq([forward]));
    let data = |octets| Data { lecid: 3, frame: &vec![1; octets] }.emit();
    let flush = LaneControl::request(Operation::Flush);
    for (call, unit, passes) in [
        (call, data(1514), true),
        (call, flush.emit(), true),
        (call, data(1515), false),
        (call, vec![0; lane_data::MIN_LENGTH - 1], false),
        (call, flush.answered(Status::SUCCESS).emit(), false),
        (call, LaneControl::request(Operation::Arp).emit(), false),
        (call, vec![0xff, 0], false),
        (Call::incoming(8), data(100), false),
        (forward, data(100), false),
    ] {
        let expected = if passes { vec![BusAction::Forward(unit.clone())] } else { vec![] };
        assert_eq!(event(&mut bus, ServerEvent::Received { call, unit }), expected);
    }
    let counters = bus.counters();
    assert_eq!((counters.frames, counters.flushes, counters.dropped), (1, 1, 7));
    // one connection less is both less
    let (call_gone, cause) = (forward, Cause::Normal);
    let released = ServerEvent::Call(PartyEvent::Released { call: call_gone, cause });
    let release = BusAction::Call(PartyAction::Release { call, cause });
    assert_eq!((event(&mut bus, released), bus.forwards().count()), (vec![release], 0));
}

#[test]
fn a_call_that_is_offered_again_is_the_same_call() {
    let mut bus: Bus<Vec<u8>> = Bus::new(BusConfig::new(FrameSize::Octets1516));
    let (call, from, purpose) = (Call::incoming(7), atm(1), Purpose::MulticastSend);
    let offered = ServerEvent::Call(PartyEvent::Offered { call, from, purpose });
    for expected in [2, 0, 0] {
        assert_eq!(handled(&mut bus, Duration::ZERO, offered.clone()).len(), expected);
    }
    for number in 0..3 {
        let connected = ServerEvent::Call(PartyEvent::Connected(Call::outgoing(number)));
        handled(&mut bus, Duration::ZERO, connected);
    }
    assert!(bus.forwards().eq([Call::outgoing(0)]));
}

fn fell_back(world: &World, client: usize) -> Option<Reason> {
    world.told.iter().rev().find_map(|(_, of, action)| match action {
        ClientAction::Changed { reason, to: State::Initial, .. } if *of == client => *reason,
        _ => None,
    })
}

#[test]
fn a_client_of_another_size_does_not_get_in() {
    let large = ClientConfig { size: FrameSize::Octets9234, ..config(1) };
    // one asks the LECS, the other one the LES
    let direct = ClientConfig { configuration: Configuration::Les(les()), ..config(2) };
    let direct = ClientConfig { size: FrameSize::Octets18190, ..direct };
    let world = joined(&[config(0), large, direct]);
    let status = Status::PARAMETERS;
    for (client, operation) in [(1, Operation::Configure), (2, Operation::Join)] {
        assert_eq!(fell_back(&world, client), Some(Reason::Refused { operation, status }));
    }
    assert_eq!(world.les.members().count(), 1);
    let refused = |from, operation| ServerAction::Refused { from, operation, status };
    let expected = [refused(atm(1), Operation::Configure), refused(atm(2), Operation::Join)];
    assert!(expected.iter().all(|one| world.refused.contains(one)), "{:?}", world.refused);
}

#[test]
fn two_clients_with_one_ethernet_address_are_not_both_in() {
    let twin = ClientConfig { mac: mac(0), ..config(1) };
    let mut world = World::new(&[config(0), twin], Wire::good(MS), 1);
    world.run_for(60 * SECOND);
    let states: Vec<State> = world.clients.iter().map(Client::state).collect();
    let in_it = states.iter().filter(|state| **state == State::Operational).count();
    assert_eq!((in_it, world.les.members().count()), (1, 1), "{states:?}");
    // the other one takes over when the first leaves
    let first = states.iter().position(|state| *state == State::Operational).unwrap();
    world.client(first, ClientEvent::Stop);
    world.run_for(61 * SECOND);
    assert_eq!(world.clients[1 - first].state(), State::Operational);
}

/// A party that plays no client, with an open call to a client.
fn intruder() -> (World, Call) {
    let mut world = joined(&[config(0), config(1)]);
    world.plug(50, atm(LIAR));
    let (call, purpose) = (Call::outgoing(0), Purpose::DataDirect);
    world.ask(atm(LIAR), PartyAction::SetUp { call, to: atm(0), purpose });
    world.run_for(SECOND);
    assert!(world.other_end(atm(LIAR), call).is_some());
    (world, call)
}

#[test]
fn a_client_takes_no_orders_from_others() {
    let (mut world, call) = intruder();
    let before = world.clients[0].counters();
    // the client waits for an answer: nobody has this station
    world.frame(0, mac(0), mac(99));
    let is_question = |frame: &LaneControl| frame.target == Destination::Mac(mac(99));
    let question = world.control.iter().map(|(_, _, frame)| *frame).find(is_question).unwrap();
    let answer = LaneControl { target_atm: atm(LIAR), ..question.answered(Status::SUCCESS) };
    let changing = Flags::TOPOLOGY_CHANGE;
    for lie in [
        answer,
        LaneControl { flags: changing, ..request(Operation::Topology, LIAR) },
        LaneControl { operation: Operation::Join, ..answer },
        LaneControl { operation: Operation::NegativeArp, ..request(Operation::Arp, LIAR) },
    ] {
        world.send_unit(atm(LIAR), call, lie.emit());
    }
    world.send_unit(atm(LIAR), call, vec![0xff, 0, 1, 1, 0, 99]);
    world.send_unit(atm(LIAR), call, vec![0; 61]);
    world.run_for(100 * MS);
    let counters = world.clients[0].counters();
    assert_eq!((counters.unexpected - before.unexpected, counters.malformed), (4, 2));
    assert_eq!(world.clients[0].cache().next().unwrap().atm, None);
    assert!(!world.clients[0].topology_changes());
    // connections that only servers have are refused
    for (number, purpose) in [
        (1, Purpose::ControlDistribute),
        (2, Purpose::MulticastForward),
        (3, Purpose::ControlDirect),
        (4, Purpose::MulticastSend),
        (5, Purpose::ClassicalIp),
    ] {
        let call = Call::outgoing(number);
        world.ask(atm(LIAR), PartyAction::SetUp { call, to: atm(0), purpose });
        world.run_for(SECOND);
        assert_eq!(world.other_end(atm(LIAR), call), None, "{purpose:?}");
    }
    assert_eq!(world.clients[0].state(), State::Operational);
}

#[test]
fn a_party_that_is_never_ready_is_released() {
    let (mut world, call) = intruder();
    assert_eq!(world.clients[0].directs().map(|(.., ready)| ready).collect::<Vec<_>>(), [false]);
    world.run_for(30 * SECOND);
    assert_eq!(world.other_end(atm(LIAR), call), None);
    assert_eq!(world.clients[0].directs().count(), 0);
}

#[test]
fn a_flood_of_flushes_is_bounded() {
    let (mut world, call) = intruder();
    let before = world.control.len();
    let flush = LaneControl { target_atm: atm(0), requester: 9, ..request(Operation::Flush, LIAR) };
    for _ in 0..5000 {
        world.send_unit(atm(LIAR), call, flush.emit());
        world.send_unit(atm(LIAR), call, LaneControl::request(Operation::Ready).emit());
        world.run_for(Duration::from_micros(200));
    }
    // one second: what is gained in it, after a full bucket
    let answered = world.control.len() - before;
    assert!((500..=1010).contains(&answered), "{answered}");
    assert!(world.clients[0].counters().not_answered > 3000);
}

#[test]
fn a_flood_of_calls_is_bounded() {
    let few = ClientConfig { most_directs: 3, ..config(0) };
    let mut world = joined(&[few, config(1)]);
    world.plug(50, atm(LIAR));
    for number in 0..20 {
        let (call, purpose) = (Call::outgoing(number), Purpose::DataDirect);
        world.ask(atm(LIAR), PartyAction::SetUp { call, to: atm(0), purpose });
    }
    world.run_for(SECOND);
    assert_eq!(world.clients[0].directs().count(), 3);
    assert_eq!(world.calls(atm(LIAR)).len(), 3);
    // frames to others still arrive, through the BUS
    world.frame(0, mac(0), mac(1));
    world.run_for(SECOND);
    assert_eq!(world.count(mac(0), mac(1), 1), 1);
}

#[test]
fn a_flood_of_destinations_is_bounded() {
    let mut world = joined(&[config(0)]);
    for number in 0..20_000_u16 {
        let [high, low] = number.to_be_bytes();
        world.frame(0, mac(0), MacAddress([2, 0, 0, 8, high, low]));
    }
    let counters = world.clients[0].counters();
    assert_eq!(world.clients[0].cache().count(), 1024);
    assert_eq!((counters.sent_unknown, counters.dropped), (1024, 20_000 - 1024));
    world.run_for(10 * SECOND);
    assert_eq!(world.clients[0].cache().count(), 0);
}

#[test]
fn a_client_that_was_called_twice_uses_one_connection() {
    let mut world = joined(&[config(0), config(1)]);
    // both call at the same time
    for _ in 0..10 {
        world.frame(0, mac(0), mac(1));
        world.frame(1, mac(1), mac(0));
        world.run_for(100 * MS);
    }
    for (one, other) in [(0, 1), (1, 0)] {
        let client = &world.clients[one];
        assert_eq!(client.directs().count(), 2);
        let path = client.path(mac(other as u8)).unwrap();
        // that of the lower address
        let linkrate_wire::machine::lane::Path::Direct(call) = path else { panic!("{path:?}") };
        assert_eq!(call.is_incoming, one == 1);
        assert_eq!(world.count(mac(one as u8), mac(other as u8), other), 10);
    }
    // the other one becomes idle
    for _ in 0..1300 {
        world.frame(0, mac(0), mac(1));
        world.run_for(SECOND);
    }
    assert_eq!(world.clients[0].directs().count(), 1);
}

#[test]
fn an_address_that_is_at_another_port_gets_no_calls() {
    let mut world = joined(&[config(0)]);
    let (port, highest) = (60, linkrate_wire::atm::Connection { vpi: 0, vci: 100 });
    world.exchange(ExchangeEvent::AddPort { port, highest });
    world.exchange(ExchangeEvent::Register { port, address: atm(0) });
    world.exchange(ExchangeEvent::Register { port, address: lecs() });
    world.run_for(SECOND);
    assert_eq!(world.exchange.parties().filter(|(_, at)| *at == port).count(), 0);
    assert_eq!(world.clients[0].state(), State::Operational);
}

/// Frames that differ from those of the protocol in a few places.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let operations = prop::sample::select(vec![
        Operation::Configure,
        Operation::Join,
        Operation::Ready,
        Operation::Register,
        Operation::Arp,
        Operation::Flush,
        Operation::NegativeArp,
        Operation::Topology,
    ]);
    let wrong = prop::collection::vec((0_usize..108, any::<u8>()), 0..4);
    let head = (operations, any::<bool>(), 0_u32..12, 0_u16..4, 0_u16..6);
    (head, 0_u8..4, 0_u8..4, wrong).prop_map(|(head, source, target, wrong)| {
        let (operation, is_response, transaction, requester, status) = head;
        let frame = LaneControl {
            is_response,
            transaction,
            requester,
            status: Status(status),
            target: Destination::Mac(mac(target)),
            target_atm: atm(target),
            size: FrameSize::Octets1516,
            ..request(operation, source)
        };
        let mut unit = frame.emit();
        for (at, octet) in wrong {
            if let Some(place) = unit.get_mut(at) {
                *place = octet;
            }
        }
        unit
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_liar_among_clients_stops_nobody(
        units in prop::collection::vec((frame(), 0_usize..8, 0_u32..500), 1..200),
    ) {
        let mut world = joined(&[config(0), config(1), config(2)]);
        // the last client's host lies: it sends by all connections of its client
        let (call, purpose) = (Call::outgoing(1000), Purpose::DataDirect);
        world.ask(atm(2), PartyAction::SetUp { call, to: atm(0), purpose });
        world.run_for(SECOND);
        for (unit, which, pause) in units {
            let calls = world.calls(atm(2));
            let call = calls.get(which % calls.len().max(1)).map(|(call, _)| *call);
            if let Some(call) = call {
                world.send_unit(atm(2), call, unit);
            }
            if which == 0 {
                world.frame(0, mac(0), mac(1));
            }
            world.run_for(pause * MS);
        }
        world.run_for(30 * SECOND);
        let before = [world.count(mac(0), mac(1), 1), world.count(mac(1), mac(0), 0)];
        for _ in 0..10 {
            world.frame(0, mac(0), mac(1));
            world.frame(1, mac(1), mac(0));
            world.run_for(SECOND);
        }
        let after = [world.count(mac(0), mac(1), 1), world.count(mac(1), mac(0), 0)];
        prop_assert_eq!(after, before.map(|count| count + 10));
        for client in [0, 1] {
            prop_assert_eq!(world.clients[client].state(), State::Operational);
            prop_assert_eq!(world.clients[client].counters().fell_back, 0);
        }
    }
}
