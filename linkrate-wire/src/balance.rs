//! The port of an aggregate that a frame leaves by.
//!
//! A table of 256 entries, as HP Auto Port Aggregation has it, is between the flows and the ports.
//! [`Balance`] says which entry a frame has: by the destination's Ethernet address, by a hash of IP
//! addresses or ports, or by the queue. An unused entry takes the next active port in turn. An entry
//! that had no frame for 30 s is unused again.
//!
//! Frames of one flow have one entry, and a port keeps its frames in order. Only an entry that
//! changes its port could reorder a flow, because paths have different delays. So an entry in use
//! changes its port only
//!
//! - before a frame that comes more than a quiet time after the frame before it. The caller gives
//!   the quiet time: the largest difference of the delays of two paths, queues of the ports
//!   included;
//! - when a marker shows that all its frames have arrived (IEEE 802.1AX, 6.5);
//! - when the caller carries out a [`RebalanceProposal`]: it has held back the frames of the entry until all earlier
//!   ones had left;
//! - when its port leaves, because frames that wait there are lost anyway. A caller that wants a
//!   port to leave without loss lets it become empty first, and sends no frame meanwhile.
//!
//! Frames to a group of stations have no entry: they leave by the first active port. ARP requests
//! would otherwise take a turn each, and flows would be spread unevenly.
//!
//! Two exceptions: round robin has no table and reorders flows. Fragments of a datagram have another
//! entry than whole datagrams of the same flow where ports are hashed.
//!
//! ```text
//! frame ──▶ entry (Key) ──▶ port of the entry (Table, Loads) ──▶ shares
//!              a port joins or leaves ──▶ entries that change (sharing)
//!              loads are uneven ──▶ one entry that shall change (wish)
//! ```

mod active;
mod key;
mod loads;
mod proposal;
mod sharing;
mod table;

pub use key::FlowHash;
pub use linkrate_model::Balance;
pub use proposal::RebalanceProposal;

use crate::frame::{Cast, link};

use active::Active;
use key::Key;
use loads::{Loads, Period};
use table::Table;

/// The port of an unused entry.
const NONE: PortIndex = PortIndex(u8::MAX);

/// Entries of the table, as APA has them.
pub const ENTRIES: usize = 256;
/// An entry without a frame for longer is unused: 30 s, as in APA.
pub const AGE_PS: u64 = 30 * 1_000_000_000_000;
/// The most ports of an aggregate.
pub const MAX_PORTS: usize = 64;

/// A port of an aggregate, by its place in the configuration of the aggregate: 0 is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortIndex(pub u8);

impl PortIndex {
    /// As the index of a list with an element for each port.
    #[inline]
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// The frames that left by one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Frames; a superframe is one.
    pub frames: u64,
    /// Their bytes without FCS, as they were given to [`Balancer::choose`].
    pub bytes: u64,
}

/// How often entries in use changed their port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moves {
    /// In a gap, after a marker, or by a wish, so without reordering.
    pub orderly: u64,
    /// Because the port left.
    pub forced: u64,
}

/// An entry in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryUse {
    /// Its number, from 0 to 255.
    pub entry: u8,
    /// The port that its frames leave by.
    pub port: PortIndex,
    /// The port that it changes to as soon as that cannot reorder a flow; often the same.
    pub wanted: PortIndex,
    /// When its last frame came.
    pub last_ps: u64,
}

/// Why a set of ports was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BalancerError {
    /// No such number of ports.
    #[error("aggregate of {ports} ports, expected 1 to {MAX_PORTS}")]
    Ports {
        /// The number.
        ports: usize,
    },
    /// The aggregate does not have the port.
    #[error("port {port} of the aggregate, expected less than {ports}")]
    Port {
        /// The port.
        port: u8,
        /// How many it has.
        ports: usize,
    },
}

fn is_for_a_group(head: &[u8]) -> bool {
    link::destination(head).is_some_and(|destination| destination.cast() != Cast::Unicast)
}

/// Chooses the port of each frame.
///
/// Threads that send at the same time have a balancer each. A flow must then stay with its thread,
/// or wait for the quiet time before it changes.
#[derive(Debug, Clone)]
pub struct Balancer {
    balance: Balance,
    key: Key,
    active: Active,
    table: Table,
    loads: Loads,
    /// The period in which a wish was asked for last.
    asked: Period,
    shares: Vec<Share>,
    moves: Moves,
}

impl Balancer {
    /// A balancer of `ports` ports, all active. An entry in use changes its port only after more than `quiet_ps`
    /// without a frame, or after a marker. Fails without a port, or with more than [`MAX_PORTS`].
    pub fn new(balance: Balance, ports: usize, quiet_ps: u64) -> Result<Self, BalancerError> {
        if !(1..=MAX_PORTS).contains(&ports) {
            return Err(BalancerError::Ports { ports });
        }
        Ok(Self::over(balance, Active::all(ports), ports, quiet_ps))
    }

    /// A balancer of [`MAX_PORTS`] ports, none active, so that ports may come later.
    #[must_use]
    pub fn of_most(balance: Balance, quiet_ps: u64) -> Self {
        let mut active = Active::all(MAX_PORTS);
        active.set(&[]);
        Self::over(balance, active, MAX_PORTS, quiet_ps)
    }

    fn over(balance: Balance, active: Active, ports: usize, quiet_ps: u64) -> Self {
        Self {
            balance,
            key: Key::new(balance),
            active,
            table: Table::new(quiet_ps),
            loads: Loads::default(),
            asked: Period::default(),
            shares: vec![Share::default(); ports],
            moves: Moves::default(),
        }
    }

    /// The same, with `turn` ports passed over at first. Several balancers of one aggregate begin
    /// at different ports, so that their first flows do not all take the first port.
    #[must_use]
    pub fn begun_at(mut self, turn: usize) -> Self {
        self.active.pass(turn);
        self
    }

    /// The port for a frame at `now_ps`; `None` while no port is active. The frame has `length`
    /// bytes without FCS, begins with `head`, in which all its headers are, and was sent on queue
    /// `queue`.
    #[inline]
    pub fn choose(
        &mut self,
        now_ps: u64,
        head: &[u8],
        length: usize,
        queue: u16,
    ) -> Option<PortIndex> {
        self.take(now_ps, head, length, queue, (1, length as u64))
    }

    /// The port for `frames` frames of one flow with `bytes` bytes together.
    #[inline]
    fn take(
        &mut self,
        now_ps: u64,
        head: &[u8],
        length: usize,
        queue: u16,
        (frames, bytes): (u64, u64),
    ) -> Option<PortIndex> {
        let port = match self.balance {
            Balance::RoundRobin => self.active.next()?,
            _ if is_for_a_group(head) => *self.active.ports().first()?,
            Balance::Adaptive => {
                let entry = self.key.entry(head, length, queue);
                let Self { table, active, loads, moves, .. } = self;
                table.adaptive(now_ps, entry, bytes, active, loads, moves)?
            }
            Balance::Mac | Balance::Ip | Balance::Port | Balance::Cpu => {
                let entry = self.key.entry(head, length, queue);
                self.table.fixed(now_ps, entry, bytes, &mut self.active, &mut self.moves)?
            }
        };
        let share = &mut self.shares[port.at()];
        share.frames += frames;
        share.bytes += bytes;
        Some(port)
    }

    /// The port for `frames` frames of one flow that travel together, with `bytes` bytes in total, of
    /// which the first has `length` bytes and begins with `head`. `None` also where the port depends
    /// on more than the flow: each frame then needs [`choose`](Self::choose).
    pub fn choose_together(
        &mut self,
        now_ps: u64,
        head: &[u8],
        length: usize,
        (frames, bytes): (u64, u64),
    ) -> Option<PortIndex> {
        if matches!(self.balance, Balance::RoundRobin | Balance::Adaptive) {
            return None;
        }
        self.take(now_ps, head, length, 0, (frames, bytes))
    }

    /// The entry of a frame, as [`choose`](Self::choose) finds it; `None` for round robin, which
    /// has no table, and for a frame to a group.
    #[must_use]
    pub fn entry_of(&self, head: &[u8], length: usize, queue: u16) -> Option<u8> {
        let has_entry = self.balance != Balance::RoundRobin && !is_for_a_group(head);
        has_entry.then(|| self.key.entry(head, length, queue))
    }

    /// The ports that may be used from now on; one named twice counts once. Entries of other ports move at once.
    /// When ports join, what the entries carried lately is shared out evenly among all, and each entry comes over
    /// as soon as that cannot reorder a flow. Adaptive balancing moves entries all the time instead. With a port
    /// that the aggregate does not have, it fails and changes nothing.
    pub fn set_active(&mut self, now_ps: u64, ports: &[PortIndex]) -> Result<(), BalancerError> {
        let known = self.shares.len();
        if let Some(PortIndex(port)) = ports.iter().find(|port| port.at() >= known) {
            return Err(BalancerError::Port { port: *port, ports: known });
        }
        self.active.set(ports);
        if self.balance == Balance::Adaptive {
            self.loads.advance(now_ps);
            self.moves.forced +=
                self.table.leave_by_load(now_ps, &mut self.active, &mut self.loads);
        } else {
            self.moves.forced += self.table.leave(now_ps, &mut self.active);
            self.table.share_out(&self.active);
        }
        Ok(())
    }

    /// The active ports, in the order in which they take turns.
    #[must_use]
    pub fn active(&self) -> &[PortIndex] {
        self.active.ports()
    }

    /// A marker that was sent on `port` at `sent_ps` was answered, or the port has drained: all frames
    /// that were given to the port before have arrived. Entries without a later frame may change their port at once.
    pub fn marker_answered(&mut self, port: PortIndex, sent_ps: u64) {
        self.table.arrived(port, sent_ps);
    }

    /// With adaptive balancing, the change of port that would even out uneven loads most. A flow that is
    /// never silent stays where it is otherwise. The caller may hold back the frames of the entry until all
    /// earlier ones have left, and then [carry it out](Self::carry_out). Loads are looked at once in
    /// each of their periods, 8.6 ms, so that they can follow a change before the next one.
    pub fn proposal(&mut self, now_ps: u64) -> Option<RebalanceProposal> {
        let period = Period::of(now_ps);
        if self.balance != Balance::Adaptive || period <= self.asked {
            return None;
        }
        self.asked = period;
        let period = self.loads.advance(now_ps);
        let loads = self.table.loads(period);
        proposal::of(self.active.ports(), |port| self.loads.of(port), &loads)
    }

    /// Carries out a wish at `now_ps`: no frame of the entry is under way on its port. False if the entry
    /// has changed its port since, or the other port is not active any more.
    pub fn carry_out(&mut self, now_ps: u64, proposal: RebalanceProposal) -> bool {
        let Self { table, active, loads, moves, .. } = self;
        let is_done = active.has(proposal.to) && table.change(now_ps, proposal, loads);
        moves.orderly += u64::from(is_done);
        is_done
    }

    /// How many entries on `port` wait for a gap or a marker to change to another port.
    #[must_use]
    pub fn waiting(&self, port: PortIndex) -> usize {
        self.entries().filter(|entry| entry.port == port && entry.wanted != port).count()
    }

    /// Changes the quiet time.
    pub fn set_quiet(&mut self, quiet_ps: u64) {
        self.table.set_quiet(quiet_ps);
    }

    /// The policy.
    #[must_use]
    pub fn balance(&self) -> Balance {
        self.balance
    }

    /// The frames that left by each port, in the order of the ports.
    #[must_use]
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// How often entries in use changed their port.
    #[must_use]
    pub fn moves(&self) -> Moves {
        self.moves
    }

    /// The entries that have a port, in the order of their numbers. One that is due to age is among
    /// them until its next frame, or until the active ports change.
    pub fn entries(&self) -> impl Iterator<Item = EntryUse> {
        self.table.entries()
    }
}
