use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;

use linkrate_model::{AggregateKnobs, Balance, BitRate, PortKnobs};
use linkrate_wire::frame::MacAddress;
use linkrate_wire::link::LinkLaw;
use linkrate_wire::lro::Reason;
use linkrate_wire::vnet::VnetHeader;
use proptest::prelude::*;
use rtrb::{Consumer, Producer};

use super::super::membership::{Membership, PortLink, Role};
use super::super::{Member as SharedMember, lock};
use super::*;
use crate::frame::WireFrame;
use crate::interface::InterfaceShared;
use crate::interface::doorbell::ThreadDoorbell;
use crate::interface::flow_queue::tests::packet;
use crate::interface::queue_pair::tests::{complete, queue_pair_both_directions};
use crate::link::{LinkShared, LinkSpec};

const RATE: Option<BitRate> = Some(BitRate(1e9));
const LENGTH: usize = 1500;

/// Ports, of which the first one carries traffic.
struct Rig {
    membership: Membership,
    aggregate_driver: AggregateDriver,
    devices: Vec<Consumer<TxDescriptor>>,
    /// The devices' ends of the receive rings.
    receiving: Vec<Producer<RxDescriptor>>,
    sent: usize,
    /// The last packet of each flow that has left by any port.
    left: BTreeMap<u8, usize>,
    /// The time of the host's packets, CLOCK_MONOTONIC ns, which passes by steps.
    now_ns: u64,
}

impl Rig {
    fn new(ports: usize) -> Self {
        Self::with(ports, Balance::Port)
    }

    /// Two ports that carry four flows, by turns.
    fn adaptive() -> Self {
        let mut rig = Self::with(2, Balance::Adaptive);
        rig.set_link(1, true);
        rig.poll();
        (0..4).for_each(|flow| rig.send(flow));
        assert_eq!(rig.drain(), [2, 2], "flows take turns");
        rig
    }

    fn with(ports: usize, balance: Balance) -> Self {
        let knobs = AggregateKnobs { balance, ..AggregateKnobs::default() };
        let address = MacAddress([2, 0, 0, 0, 0, 1]);
        let interface =
            InterfaceShared::new("agg0".to_owned(), &PortKnobs::default(), 1, Vec::new());
        let interrupts = vec![Arc::new(ThreadDoorbell::new().unwrap())];
        let shared = Arc::new(AggregateShared::new(interface, address, knobs.clone(), interrupts));
        let membership = Membership::new(Role::Host, address, knobs);
        let aggregate_driver = AggregateDriver::new(0, shared, None);
        let (devices, receiving) = (Vec::new(), Vec::new());
        // ahead of the clock: a test that takes its time gives no change up
        let ahead_ns = if balance == Balance::Adaptive { 3_600_000_000_000 } else { 0 };
        let (left, now_ns) = (BTreeMap::new(), monotonic_ns() + ahead_ns);
        let mut rig =
            Self { membership, aggregate_driver, devices, receiving, sent: 0, left, now_ns };
        for number in 0..ports {
            let (queue_pair, device, receiving) = queue_pair_both_directions(RATE);
            rig.aggregate_driver.add(number, queue_pair);
            rig.devices.push(device);
            rig.receiving.push(receiving);
            let spec = LinkSpec { law: LinkLaw::Ethernet, rate: RATE };
            let link = Arc::new(LinkShared::new(spec));
            let member = SharedMember { name: format!("eth{number}"), link, leaves: false };
            lock(&rig.aggregate_driver.shared.members).push(Some(member));
        }
        rig.set_link(0, true);
        rig.aggregate_driver.send_waiting();
        rig
    }

    fn set_link(&mut self, number: usize, up: bool) {
        // a link so slow that no gap is long enough: ports of the rig do not send by the clock
        let link = PortLink { up, rate: Some(BitRate(1e6)) };
        self.membership.set_link(Duration::ZERO, number, link, &mut Vec::new());
        self.aggregate_driver.shared.share(&self.membership);
    }

    /// A packet of a flow, which carries its number.
    fn send(&mut self, flow: u8) {
        self.sent += 1;
        // never before the driver's last look at what has left
        self.now_ns = self.now_ns.max(monotonic_ns());
        let mut descriptor = packet(flow, LENGTH);
        let block = Arc::get_mut(&mut descriptor.block).unwrap();
        let number = (self.sent as u32).to_be_bytes();
        block.bytes_mut()[VNET_BYTES + 54..][..4].copy_from_slice(&number);
        self.aggregate_driver.send(TxDescriptor { posted_ns: self.now_ns, ..descriptor });
        self.aggregate_driver.end_batch();
    }

    /// Packets of four flows in turn.
    fn send_many(&mut self, count: usize) {
        (0..4).cycle().take(count).for_each(|flow| self.send(flow));
    }

    fn poll(&mut self) {
        self.aggregate_driver.send_waiting();
        self.aggregate_driver.end_batch();
    }

    /// A while passes, after which the driver looks at the loads.
    fn even_out(&mut self) {
        self.now_ns += 10_000_000;
        if self.aggregate_driver.shared.evens_out() {
            self.aggregate_driver.even_out(self.now_ns);
        }
        self.aggregate_driver.end_batch();
    }

    /// A port sends one packet, if it has one. Each flow must be in order.
    fn leave(&mut self, port: usize) -> bool {
        let Ok(next) = self.devices[port].peek() else { return false };
        let head = next.block.bytes(VNET_BYTES..VNET_BYTES + 58);
        let number = u32::from_be_bytes(head[54..58].try_into().unwrap()) as usize;
        let last = self.left.insert(head[35], number).unwrap_or(0);
        assert!(last < number, "flow {}: packet {number} after {last}", head[35]);
        let queue_pair = &self.aggregate_driver.members[port].as_ref().unwrap().queue_pair;
        complete(queue_pair, &mut self.devices[port]);
        true
    }

    /// The driver polls while the ports send until nothing is left. How many left by each.
    fn drain(&mut self) -> Vec<usize> {
        let mut counts = vec![0; self.devices.len()];
        loop {
            self.poll();
            let before = counts.clone();
            for (port, count) in counts.iter_mut().enumerate() {
                *count += usize::from(self.leave(port));
            }
            if counts == before {
                return counts;
            }
        }
    }

    /// A port loses its carrier, and everything that was posted to it.
    fn lose_carrier(&mut self, port: usize) {
        lock(&self.aggregate_driver.shared.members)[port].as_ref().unwrap().link.set_up(false);
        self.set_link(port, false);
        let queue_pair = &self.aggregate_driver.members[port].as_ref().unwrap().queue_pair;
        while !self.devices[port].is_empty() {
            complete(queue_pair, &mut self.devices[port]);
        }
    }

    /// A port leaves in good order.
    fn retire(&mut self, port: usize) {
        self.membership.remove(Duration::ZERO, port, &mut Vec::new());
        self.aggregate_driver.shared.share(&self.membership);
    }

    fn join(&mut self, port: usize) {
        lock(&self.aggregate_driver.shared.members)[port].as_ref().unwrap().link.set_up(true);
        self.retire(port);
        self.set_link(port, true);
    }

    /// The packets that have come by each port and that the driver has not taken yet.
    fn untaken(&self) -> Vec<usize> {
        let rings = self.receiving.iter();
        rings.map(|ring| ring.buffer().capacity() - ring.slots()).collect()
    }

    /// The time for which packets of the host wait at most is over.
    fn wait_in_vain(&mut self) {
        if let Some(draining) = &mut self.aggregate_driver.draining {
            draining.until_ns = 0;
        }
        if let Some(change) = &mut self.aggregate_driver.change {
            change.set_until(0);
        }
    }
}

/// More waits before the port than leaves in the time that packets of the host wait at most.
#[test]
fn flows_change_to_a_port_that_joins_however_many_packets_wait() {
    let mut rig = Rig::new(2);
    rig.send_many(1600);
    let posted = rig.devices[0].slots();
    assert!(posted < 200 && rig.devices[1].is_empty());
    rig.set_link(1, true);
    let counts = rig.drain();
    assert_eq!(counts.iter().sum::<usize>(), 1600);
    // two flows changed, as soon as what had been posted was away
    assert!(counts[1] >= 800 - posted && counts[1] <= 800, "{counts:?} of {posted} posted");
    assert!(rig.aggregate_driver.draining.is_none() && rig.aggregate_driver.again_ns.is_none());
}

/// A device that stalls for longer than packets of the host wait leaves flows where they are, and
/// they try again.
#[test]
fn flows_that_could_not_change_in_time_try_again() {
    let mut rig = Rig::new(2);
    rig.send_many(1600);
    rig.set_link(1, true);
    rig.poll();
    assert!(rig.aggregate_driver.draining.is_some(), "packets that have not left");
    rig.wait_in_vain();
    rig.poll();
    assert!(rig.aggregate_driver.draining.is_none());
    let again_ns = rig.aggregate_driver.again_ns.expect("another time");
    assert!(rig.aggregate_driver.due_ns().is_some_and(|due_ns| due_ns <= again_ns));
    let before = (0..100).filter(|_| rig.leave(0)).count();
    assert!(before > 0 && rig.devices[1].is_empty(), "no flow overtakes itself");
    rig.aggregate_driver.again_ns = Some(0);
    let counts = rig.drain();
    assert!(counts[1] > 500, "{before} and {counts:?}");
    assert!(rig.aggregate_driver.again_ns.is_none());
}

#[test]
fn a_partner_that_never_answers_a_marker_is_asked_once_for_a_change() {
    let mut rig = Rig::new(2);
    rig.send_many(400);
    rig.set_link(1, true);
    rig.aggregate_driver.shared.asks_partner.store(true, Ordering::Relaxed);
    rig.drain();
    assert!(
        rig.aggregate_driver.draining.is_some() && rig.devices[1].is_empty(),
        "the partner was asked"
    );
    rig.wait_in_vain();
    rig.poll();
    assert!(rig.aggregate_driver.draining.is_none() && rig.aggregate_driver.again_ns.is_none());
    assert!(rig.drain()[1] > 0);
}

#[test]
fn what_waits_before_a_port_without_a_carrier_goes_by_another_one() {
    let mut rig = Rig::new(2);
    rig.set_link(1, true);
    rig.drain();
    rig.send_many(400);
    let posted = rig.devices[0].slots();
    rig.lose_carrier(0);
    rig.poll();
    assert!(rig.aggregate_driver.draining.is_none(), "nothing more leaves by it");
    // what was on its way there is lost
    assert_eq!(rig.drain(), [0, 400 - posted]);
}

/// Four flows on two ports; those of the first one have nine tenths of all packets, and are never silent.
#[test]
fn adaptive_evens_out_the_ports_and_no_flow_overtakes_itself() {
    let mut rig = Rig::adaptive();
    // (flow, packets in each round): more than the ports send in the same time
    let flows: [(u8, usize); 4] = [(0, 18), (1, 2), (2, 18), (3, 2)];
    let round = |rig: &mut Rig, evens: bool| {
        for (flow, count) in flows {
            (0..count).for_each(|_| rig.send(flow));
        }
        match evens {
            true => rig.even_out(),
            false => rig.now_ns += 10_000_000,
        }
        let left = [0, 1].map(|port| (0..20).filter(|_| rig.leave(port)).count());
        rig.poll();
        left
    };
    let sent = |rig: &mut Rig, rounds: usize, evens: bool| {
        let all = (0..rounds).map(|_| round(rig, evens));
        all.fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
    };
    let uneven = sent(&mut rig, 40, false);
    assert!(uneven[0] > 4 * uneven[1], "{uneven:?}");
    assert!(!rig.devices[0].is_empty(), "the first port is never without a packet");
    sent(&mut rig, 40, true);
    let even = sent(&mut rig, 40, true);
    assert!(even[0].abs_diff(even[1]) <= even[0] / 4, "{even:?}, before {uneven:?}");
    let moves = rig.aggregate_driver.balancer.moves();
    assert!((1..6).contains(&moves.orderly) && moves.forced == 0, "{moves:?}");
    rig.drain();
    assert_eq!(rig.left.len(), 4);
}

/// The device of the busy port stalls.
#[test]
fn a_flow_whose_port_does_not_send_continues_there() {
    let mut rig = Rig::adaptive();
    [0, 2].into_iter().cycle().take(100).for_each(|flow| rig.send(flow));
    rig.even_out();
    assert!(rig.aggregate_driver.change.is_some() && !rig.aggregate_driver.is_drained(0));
    (0..20).for_each(|_| rig.send(0));
    (0..20).for_each(|_| rig.send(2));
    rig.wait_in_vain();
    assert_eq!(rig.drain(), [140, 0]);
    assert!(rig.aggregate_driver.change.is_none());
}

/// A received packet of 60 bytes.
fn received() -> RxDescriptor {
    let delivery =
        Delivery::Frame { frame: WireFrame::copied(vec![2; 60]).into(), reason: Reason::NotTcp };
    RxDescriptor { vnet: VnetHeader::default(), delivery, replaced: None, unmade: None }
}

/// More waits at each port than one poll takes.
#[test]
fn ports_are_served_in_turn_when_more_has_come_than_a_poll_takes() {
    let mut rig = Rig::new(2);
    rig.set_link(1, true);
    for ring in &mut rig.receiving {
        (0..200).for_each(|_| ring.push(received()).unwrap());
    }
    let sink = File::options().write(true).open("/dev/null").unwrap();
    let mut host = HostEnd::new(OwnedFd::from(sink));
    for expected in [[200 - WEIGHT, 200], [200 - WEIGHT; 2], [200 - 2 * WEIGHT, 200 - WEIGHT]] {
        assert_eq!(rig.aggregate_driver.receive(&mut host).unwrap(), WEIGHT);
        assert_eq!(rig.untaken(), expected);
    }
    while rig.aggregate_driver.receive(&mut host).unwrap() > 0 {}
    assert_eq!(rig.untaken(), [0; 2]);
}

/// What happens to the driver of an aggregate of three ports.
#[derive(Debug, Clone, Copy)]
enum Happening {
    Send { flow: u8, count: usize },
    Leave { port: usize, count: usize },
    LoseCarrier(usize),
    Retire(usize),
    Join(usize),
    Poll,
    EvenOut,
    WaitInVain,
    TryAgain,
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::{EvenOut, Join, Leave, LoseCarrier, Poll, Retire, Send, TryAgain, WaitInVain};
    prop_oneof![
        8 => (0..6_u8, 1..60_usize).prop_map(|(flow, count)| Send { flow, count }),
        8 => (0..3_usize, 1..80_usize).prop_map(|(port, count)| Leave { port, count }),
        1 => (0..3_usize).prop_map(LoseCarrier),
        1 => (0..3_usize).prop_map(Retire),
        3 => (0..3_usize).prop_map(Join),
        6 => Just(Poll),
        3 => Just(EvenOut),
        1 => Just(WaitInVain),
        1 => Just(TryAgain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// However ports come and go, no packet leaves before an earlier one of its flow, and what was not
    /// lost with a carrier leaves.
    #[test]
    fn no_flow_overtakes_itself(
        all in prop::collection::vec(happening(), 0..80),
        balance in prop::sample::select(vec![Balance::Port, Balance::Adaptive]),
    ) {
        let mut rig = Rig::with(3, balance);
        for one in all {
            match one {
                // the driver takes nothing from its host meanwhile
                Happening::Send { flow, count } if rig.aggregate_driver.draining.is_none() => {
                    (0..count).for_each(|_| rig.send(flow));
                }
                Happening::Leave { port, count } => {
                    (0..count).for_each(|_| _ = rig.leave(port));
                }
                Happening::LoseCarrier(port) => rig.lose_carrier(port),
                Happening::Retire(port) => rig.retire(port),
                Happening::Join(port) => rig.join(port),
                // a port that leaves has to give up its flows by then, and overtaken packets are the price
                Happening::WaitInVain if (0..3).all(|port| rig.aggregate_driver.shared.distributes(port)) => {
                    rig.wait_in_vain();
                }
                Happening::TryAgain if rig.aggregate_driver.again_ns.is_some() => rig.aggregate_driver.again_ns = Some(0),
                Happening::EvenOut => rig.even_out(),
                Happening::Poll | Happening::Send { .. } | Happening::WaitInVain
                | Happening::TryAgain => {}
            }
            rig.poll();
        }
        (0..3).for_each(|port| rig.join(port));
        rig.drain();
        rig.send_many(600);
        let counts = rig.drain();
        prop_assert_eq!(counts.iter().sum::<usize>(), 600, "{:?}", rig.aggregate_driver);
        prop_assert!(rig.aggregate_driver.draining.is_none());
    }
}
