//! Aggregates: ports that act as one interface of the host (IEEE 802.1AX; HP Auto Port Aggregation).
//!
//! The aggregate is software of the host. It has an interface of its own, and the driver of each of
//! its queues has the rings of all ports (`driver`). The ports keep their devices, links, buses and
//! counters. The driver of the first queue also decides which ports carry traffic (`control`).

pub(crate) mod control;
mod counters;
pub mod decisions;
pub(crate) mod driver;
mod markers;
pub(crate) mod membership;
mod messages;
mod report;

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linkrate_model::model::MAX_SUPERFRAME;
use linkrate_model::{AggregateKnobs, Balance, PortKnobs};
use linkrate_sys::tap::Offloads;
use linkrate_wire::balance::{Balancer, PortIndex};
use linkrate_wire::frame::MacAddress;

use crate::AdapterError;
use crate::counters::Snapshot;
use crate::interface::InterfaceShared;
use crate::interface::doorbell::ThreadDoorbell;
use crate::interface::driver::{DrivenQueue, Driver, DriverThreads};
use crate::interface::queue_pair::QueuePair;
use crate::interface::rings::{MAX_BYTES, MAX_QUEUE};
use crate::link::LinkShared;
use crate::settings::Settings;
use control::Control;
use counters::{AggregateCounters, Departed};
use decisions::DecisionLog;
use driver::AggregateDriver;
use markers::Markers;
use membership::{Address, Membership, PortState, bit, fresh_balancer};
use messages::Messages;

/// The longest frame of the models, with its header.
const MAX_FRAME: u32 = 9018;

/// How long a port that leaves may have packets left, and the time between two polls.
const TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub struct AggregateSpec {
    /// The name of its interface.
    pub name: String,
    /// The TAP's queues. Each port has as many queue pairs.
    pub queues: Vec<OwnedFd>,
    /// The address of its interface.
    pub address: [u8; 6],
    pub knobs: AggregateKnobs,
}

/// An aggregate. Its ports are attached to segments one by one
/// ([`HostSide::Aggregate`](crate::HostSide::Aggregate)). It must outlive them.
#[derive(Debug)]
pub struct Aggregate {
    shared: Arc<AggregateShared>,
    drivers: Vec<DrivenQueue>,
}

/// A port of an aggregate, as everyone sees it.
#[derive(Debug, Clone)]
struct Member {
    name: String,
    link: Arc<LinkShared>,
    /// It was told to leave.
    leaves: bool,
}

/// The ports that may carry traffic, with their numbers: the first `most` of those that were not told to
/// leave.
fn in_use(members: &[Option<Member>], most: u32) -> impl Iterator<Item = (usize, &Member)> {
    let members = members.iter().enumerate();
    let members = members.filter_map(|(number, member)| Some((number, member.as_ref()?)));
    members.filter(|(_, member)| !member.leaves).take(most as usize)
}

/// The state that the drivers of an aggregate share with its controller.
#[derive(Debug)]
pub struct AggregateShared {
    pub(crate) interface: Arc<InterfaceShared>,
    address: MacAddress,
    settings: Settings<AggregateKnobs>,
    /// By number.
    members: Mutex<Vec<Option<Member>>>,
    /// How packets of the host are balanced, and over which ports.
    decision: Mutex<Decision>,
    /// The sets of ports that packets of the host go to, and that packets are taken from.
    distributing: AtomicU64,
    collecting: AtomicU64,
    /// Grows with every decision.
    sharing: AtomicU64,
    /// Ports that no frame to a group of stations is taken from: it comes by another port too.
    copies: AtomicU64,
    /// The state of each port in the protocols, by number, and how often it was asked for and told.
    states: Mutex<Vec<PortState>>,
    asked: AtomicU64,
    answered: AtomicU64,
    /// Flows leave a port only when the partner has answered a marker; and the markers.
    asks_partner: AtomicBool,
    /// Flows change their ports when loads are uneven.
    evens_out: AtomicBool,
    markers: Mutex<Markers>,
    /// The addresses of the host, and how often they changed.
    addresses: Mutex<(u64, Vec<Address>)>,
    /// What ports that have left carried.
    departed: Mutex<Departed>,
    /// A failover group is to begin again.
    anew: AtomicBool,
    /// A port came or went, a link changed its state, or settings were requested.
    news: AtomicBool,
    /// Messages of the ports for the control.
    messages: Mutex<Messages>,
    /// Of the drivers; the first one decides.
    interrupts: Vec<Arc<ThreadDoorbell>>,
    pub(crate) counters: AggregateCounters,
    /// What the control decided, and when.
    decisions: DecisionLog,
}

#[derive(Debug, Clone)]
struct Decision {
    balance: Balance,
    active: Vec<PortIndex>,
    /// A flow that was silent for so long may change its port.
    quiet_ps: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // a holder that panicked ends its thread, and the ports are then broken anyway
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Aggregate {
    /// Makes an aggregate without ports, and starts its drivers. TSO is off unless the knobs lift that. Fails when
    /// the TAP is gone.
    pub fn new(spec: AggregateSpec, threads: &DriverThreads) -> Result<Self, AdapterError> {
        let AggregateSpec { name, queues, address, knobs } = spec;
        let failed = |cause| AdapterError::Io { what: format!("make aggregate {name}"), cause };
        let taps: std::io::Result<Vec<_>> = queues.iter().map(OwnedFd::try_clone).collect();
        let taps = taps.map_err(failed)?;
        let places: Vec<_> = queues.iter().map(|_| threads.next()).collect();
        if places.is_empty() {
            return Err(failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, "no queue")));
        }
        let interface = InterfaceShared::new(name, &PortKnobs::default(), queues.len(), taps);
        let interrupts = places.iter().map(|(_, interrupt)| Arc::clone(interrupt)).collect();
        let shared =
            Arc::new(AggregateShared::new(interface, MacAddress(address), knobs, interrupts));
        let mut drivers = Vec::new();
        for (number, (tap, (thread, _))) in queues.into_iter().zip(places).enumerate() {
            let control = (number == 0).then(|| Box::new(Control::new(&shared)));
            let aggregate_driver = AggregateDriver::new(number, Arc::clone(&shared), control);
            let driver =
                Driver::new(tap, Box::new(aggregate_driver), Arc::clone(&shared.interface));
            drivers.push(threads.add(thread, driver));
        }
        Ok(Self { shared, drivers })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.interface.name()
    }

    /// The decisions of the host's end about its ports.
    #[must_use]
    pub fn decisions(&self) -> &DecisionLog {
        &self.shared.decisions
    }

    /// The ports that packets of the host go to, a bit each by their numbers.
    #[must_use]
    pub fn distributing(&self) -> u64 {
        self.shared.distributing.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn address(&self) -> MacAddress {
        self.shared.address
    }

    /// The driver threads that take the interrupts of its queues, in their order, as indices among those of its host.
    #[must_use]
    pub fn driver_threads(&self) -> Vec<usize> {
        self.drivers.iter().map(DrivenQueue::thread).collect()
    }

    #[must_use]
    pub fn interface(&self) -> &InterfaceShared {
        &self.shared.interface
    }

    /// Requests settings while traffic flows. Fails when the TAP is gone.
    pub fn set_knobs(&self, knobs: AggregateKnobs) -> Result<(), AdapterError> {
        self.shared.interface.set_offloads(offloads(&knobs))?;
        self.shared.settings.request(knobs);
        self.shared.notify();
        Ok(())
    }

    /// The settings that the drivers say they work with. Fails when the drivers do not answer.
    pub fn applied_knobs(&self) -> Result<AggregateKnobs, AdapterError> {
        let unanswered = |_| AdapterError::NotAcknowledged { name: self.name().to_owned() };
        let ended = || self.drivers.iter().any(|driver| driver.why_ended().is_some());
        self.shared.settings.applied(ended).map_err(unanswered)
    }

    /// Why it carries no packets any more.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        let of_driver = || self.drivers.iter().find_map(DrivenQueue::why_ended);
        of_driver().or_else(|| {
            self.shared.interface.is_broken().then(|| "its interface is gone".to_owned())
        })
    }

    #[must_use]
    pub fn counters(&self) -> Snapshot {
        let counters = &self.shared.counters;
        let own = [
            ("aggDropNoPort", &counters.no_port),
            ("aggDropQueueFull", &counters.full),
            ("aggDropNotCollecting", &counters.uncollected),
            ("aggDropMessages", counters.control_dropped.count_of_frames()),
            ("aggDropControl", &counters.control_full),
            ("aggMoves", &counters.moves),
        ];
        let own = own.map(|(name, count)| (name.to_owned(), count.load(Ordering::Relaxed)));
        own.into_iter().chain(self.shared.totals().named(counters)).collect()
    }

    /// The interrupts of its queues, which wake their drivers.
    pub(crate) fn interrupts(&self) -> impl ExactSizeIterator<Item = &Arc<ThreadDoorbell>> {
        self.drivers.iter().map(DrivenQueue::interrupt)
    }

    /// Takes port `number` with the queue pairs of its queues.
    pub(crate) fn add(
        &self,
        number: usize,
        name: &str,
        link: Arc<LinkShared>,
        queue_pairs: Vec<QueuePair>,
    ) {
        for (driver, queue_pair) in self.drivers.iter().zip(queue_pairs) {
            driver.add_queue_pair(number, queue_pair);
        }
        let mut members = lock(&self.shared.members);
        if members.len() <= number {
            members.resize_with(number + 1, || None);
        }
        members[number] = Some(Member { name: name.to_owned(), link, leaves: false });
        drop(members);
        self.shared.notify();
    }

    /// Tells port `number` to leave, or to come back.
    pub(crate) fn set_leaving(&self, number: usize, leaves: bool) {
        if let Some(Some(member)) = lock(&self.shared.members).get_mut(number) {
            member.leaves = leaves;
        }
        self.shared.notify();
    }

    /// The numbers of the ports that may carry traffic with these settings.
    pub(crate) fn in_use(&self, knobs: &AggregateKnobs) -> Vec<usize> {
        in_use(&lock(&self.shared.members), knobs.aggregate).map(|(number, _)| number).collect()
    }

    /// Lets port `number` go. No packet goes to it any more, what was posted leaves by it, and what it
    /// receives is taken until the other end has stopped.
    pub(crate) fn remove(&self, number: usize) {
        // it is still known meanwhile: flows leave it when it has drained
        self.set_leaving(number, true);
        let deadline = Instant::now() + TIMEOUT;
        let in_use = || {
            self.shared.collects(number)
                || self.drivers.iter().any(|driver| !driver.is_drained(number))
        };
        while self.broken().is_none() && in_use() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        let mut members = lock(&self.shared.members);
        if let Some(member) = members.get_mut(number).and_then(Option::take) {
            lock(&self.shared.departed).add(member.link);
        }
        drop(members);
        self.shared.notify();
        for driver in &self.drivers {
            driver.remove_queue_pair(number);
        }
    }

    /// Sets the addresses of its interface, each with its VLAN or 0, which a failover group announces
    /// after a move.
    pub fn set_addresses(&self, addresses: impl IntoIterator<Item = (IpAddr, u16)>) {
        let addresses = addresses.into_iter().map(|(ip, vlan)| Address { ip, vlan });
        let mut known = lock(&self.shared.addresses);
        *known = (known.0 + 1, addresses.collect());
        drop(known);
        self.shared.notify();
    }

    /// Lets the drivers look at the links.
    pub(crate) fn notify(&self) {
        self.shared.notify();
    }
}

impl AggregateShared {
    /// An aggregate without ports, whose queues have these interrupts.
    fn new(
        interface: InterfaceShared,
        address: MacAddress,
        knobs: AggregateKnobs,
        interrupts: Vec<Arc<ThreadDoorbell>>,
    ) -> Self {
        Self {
            interface: Arc::new(interface),
            address,
            decision: Mutex::new(Decision {
                balance: knobs.balance,
                active: Vec::new(),
                quiet_ps: 0,
            }),
            settings: Settings::new(knobs),
            members: Mutex::default(),
            distributing: AtomicU64::new(0),
            collecting: AtomicU64::new(0),
            sharing: AtomicU64::new(1),
            copies: AtomicU64::new(0),
            states: Mutex::default(),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            asks_partner: AtomicBool::new(false),
            evens_out: AtomicBool::new(false),
            markers: Mutex::default(),
            addresses: Mutex::default(),
            departed: Mutex::default(),
            anew: AtomicBool::new(false),
            news: AtomicBool::new(true),
            messages: Mutex::default(),
            interrupts,
            counters: AggregateCounters::default(),
            decisions: DecisionLog::default(),
        }
    }

    fn notify(&self) {
        self.has_news_now();
        if let Some(interrupt) = self.interrupts.first() {
            interrupt.ring();
        }
    }

    /// The control must look, and its driver is awake.
    fn has_news_now(&self) {
        self.news.store(true, Ordering::Release);
    }

    /// Whether packets of the host go to port `number`.
    pub(crate) fn distributes(&self, number: usize) -> bool {
        self.distributing.load(Ordering::Relaxed) & bit(number) != 0
    }

    /// Whether packets are taken from port `number`.
    pub(crate) fn collects(&self, number: usize) -> bool {
        self.collecting.load(Ordering::Relaxed) & bit(number) != 0
    }

    /// Whether frames to groups of stations on port `number` are copies of those on another port.
    pub(crate) fn has_copies(&self, number: usize) -> bool {
        self.copies.load(Ordering::Relaxed) & bit(number) != 0
    }

    pub(crate) fn has_news(&self) -> bool {
        self.news.load(Ordering::Acquire)
    }

    /// The control looks at everything from here on.
    fn take_news(&self) {
        self.news.swap(false, Ordering::AcqRel);
    }

    pub(crate) fn sharing(&self) -> u64 {
        self.sharing.load(Ordering::Acquire)
    }

    /// Publishes a decision.
    fn share(&self, membership: &Membership) {
        let set = |ports: &[usize]| ports.iter().fold(0, |set, port| set | bit(*port));
        let (balance, active) = (membership.knobs().balance, membership.active());
        let packet = match membership.knobs().aggregate_tso {
            true => MAX_SUPERFRAME,
            false => MAX_FRAME,
        };
        // what a queue pair lets wait before a port, with the packet that passes the limit of bytes
        let most = (MAX_BYTES as u64 + u64::from(packet)).min(u64::from(packet) * MAX_QUEUE as u64);
        let quiet_ps = membership.quiet_ps(most);
        *lock(&self.decision) = Decision { balance, active, quiet_ps };
        self.collecting.store(set(membership.collecting()), Ordering::Relaxed);
        self.distributing.store(set(membership.distributing()), Ordering::Relaxed);
        self.copies.store(set(&membership.copies()), Ordering::Relaxed);
        self.counters.moves.store(membership.moves(), Ordering::Relaxed);
        let asks_partner = membership.asks_partner();
        self.asks_partner.store(asks_partner, Ordering::Relaxed);
        let evens_out = balance == Balance::Adaptive && !asks_partner;
        self.evens_out.store(evens_out, Ordering::Relaxed);
        self.sharing.fetch_add(1, Ordering::Release);
        // packets that wait before a port without traffic go to another one at once
        self.interrupts.iter().skip(1).for_each(|interrupt| interrupt.ring());
    }

    /// How often somebody has asked for the state of the ports.
    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// Tells the state of each port in the protocols, if somebody asks. `asked` is from the beginning of
    /// the look.
    fn answer(&self, asked: u64, of: impl Fn(usize) -> PortState) {
        if asked != self.answered.load(Ordering::Relaxed) {
            let count = lock(&self.members).len();
            *lock(&self.states) = (0..count).map(of).collect();
            self.answered.store(asked, Ordering::Release);
        }
    }

    /// The balancer of queue `queue`, before the first decision.
    pub(crate) fn balancer(&self, queue: usize) -> Balancer {
        let Decision { balance, quiet_ps, .. } = *lock(&self.decision);
        fresh_balancer(balance, quiet_ps, queue)
    }

    /// Whether flows on any port may come to another one by the decision: a port joins, or packets are
    /// balanced otherwise.
    pub(crate) fn shares_otherwise(&self, balancer: &Balancer) -> bool {
        let decision = lock(&self.decision);
        let joins = |port: &PortIndex| !balancer.active().contains(port);
        decision.balance != balancer.balance() || decision.active.iter().any(joins)
    }

    pub(crate) fn has_carrier(&self, number: usize) -> bool {
        let members = lock(&self.members);
        let member = members.get(number).and_then(Option::as_ref);
        member.is_some_and(|member| member.link.is_up())
    }

    pub(crate) fn asks_partner(&self) -> bool {
        self.asks_partner.load(Ordering::Relaxed)
    }

    /// Whether flows change their ports when loads are uneven, without the partner's word.
    pub(crate) fn evens_out(&self) -> bool {
        self.evens_out.load(Ordering::Relaxed)
    }

    fn count_full(&self) {
        self.counters.full.fetch_add(1, Ordering::Relaxed);
    }

    /// Has a marker sent on each of these ports for the driver of queue `queue`.
    pub(crate) fn ask_partner(&self, queue: usize, ports: &[usize]) {
        lock(&self.markers).ask(queue, ports);
        self.notify();
    }

    /// Whether the driver of queue `queue` waits for the answer to a marker.
    pub(crate) fn awaits_partner(&self, queue: usize) -> bool {
        lock(&self.markers).waits(queue)
    }

    /// Lets a balancer follow the decision.
    pub(crate) fn follow(&self, balancer: &mut Balancer, now_ns: u64, queue: usize) {
        let Decision { balance, active, quiet_ps } = lock(&self.decision).clone();
        if balancer.balance() != balance {
            *balancer = fresh_balancer(balance, quiet_ps, queue);
        }
        balancer.set_quiet(quiet_ps);
        // every port of an aggregate has a place in its balancer
        let _ = balancer.set_active(now_ns * 1000, &active);
    }

    /// Keeps a message of port `number` for the control. `is_awake` says that the control's own driver
    /// calls.
    pub(crate) fn message(&self, number: usize, message: Vec<u8>, is_awake: bool) {
        let length = message.len();
        if !lock(&self.messages).keep(number, message) {
            return self.counters.control_dropped.count(length);
        }
        self.counters.control_in.count(length);
        match is_awake {
            true => self.has_news_now(),
            false => self.notify(),
        }
    }

    pub(crate) fn count_uncollected(&self, frames: u64) {
        self.counters.uncollected.fetch_add(frames, Ordering::Relaxed);
    }
}

/// The offloads of an aggregate's interface. The paper's aggregate has no TSO: the ports of an
/// aggregate need not have it all.
fn offloads(knobs: &AggregateKnobs) -> Offloads {
    match knobs.aggregate_tso {
        true => Offloads::ALL,
        false => Offloads { checksum: true, ..Offloads::NONE },
    }
}
