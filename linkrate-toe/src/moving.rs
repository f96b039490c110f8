//! A move of a connection as one state machine: what is to be done next, whatever came of the last step. It has no
//! clock, no device and no messages: who moves a connection takes the steps.
//!
//! Between the first step and the last one no TCP gets frames of the peer, so that none comes to a TCP that does
//! not have the connection: it would reset it. So each step is taken once the one before it was answered.

/// Which TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Host,
    Adapter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The device keeps the frames of the peer, and the TCP has taken those that came before. The connection is
    /// to go to this side.
    Hold(Side),
    /// The connection leaves its TCP. A TCP that does not give it away continues with it.
    TakeOut,
    /// The device takes back what this TCP has sent and what has not left.
    TakeBack,
    /// This TCP gets the connection. If the adapter's does not take it, it is still at hand.
    PutIn(Side),
    /// The device hands the frames of the peer to this TCP, those first that it has kept.
    Deliver(Side),
    /// The connection stays where it was, and so do the frames of the peer.
    Stay,
}

/// A move that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Where the connection is to go.
    pub to: Side,
    /// What is to be done.
    pub step: Step,
}

impl Move {
    #[must_use]
    pub const fn new(to: Side) -> Self {
        Self { to, step: Step::Hold(to) }
    }

    /// What follows the step, which was taken or has failed. `None` at the end.
    #[must_use]
    pub const fn after(self, is_taken: bool) -> Option<Self> {
        use Step::{Deliver, Hold, PutIn, Stay, TakeBack, TakeOut};
        let step = match (self.step, is_taken) {
            // it is on its way back, and its frames are held already
            (Hold(Side::Host), _) if matches!(self.to, Side::Adapter) => PutIn(Side::Host),
            (Hold(_), true) => TakeOut,
            (TakeOut, true) => TakeBack,
            // a device may have begun to hold without an answer
            (Hold(_) | TakeOut, false) => Stay,
            (TakeBack, true) => PutIn(self.to),
            (TakeBack, false) => PutIn(Side::Host),
            (PutIn(Side::Adapter), false) => Hold(Side::Host),
            // if the host does not take it either, it is lost, and the host's TCP answers the peer
            (PutIn(side), _) => Deliver(side),
            (Deliver(_) | Stay, _) => return None,
        };
        Some(Self { step, ..self })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use super::*;

    /// A peer, a device and two TCPs. One thing happens at each instant, by chance.
    #[derive(Debug)]
    struct World {
        random: u64,
        /// Frames that the peer has sent, and those on their way from the device to a TCP.
        frames: u64,
        underway: VecDeque<(Side, u64)>,
        /// Frames that a TCP has got, those of them for the connection, and those that came where it was not.
        got: usize,
        taken: Vec<u64>,
        resets: u64,
        /// The number of the next byte that the TCP sends, those that wait for the link, and those that have left.
        bytes: u64,
        waiting: VecDeque<u64>,
        left: Vec<u64>,
        /// Where the connection is, and where the device hands frames, unless it holds them.
        at: Option<Side>,
        to: Side,
        held: Option<Vec<u64>>,
        /// The connection has a place in the table of the device.
        has_place: bool,
        /// The first byte that was taken back, once that was answered.
        unsent: Option<u64>,
        /// Steps that were ordered and are not carried out, by their numbers: those of the device, and those of the
        /// two TCPs, of which none waits for the other.
        orders: VecDeque<(usize, Step)>,
        requests: Vec<(usize, Step, Option<u64>)>,
        /// The number of an order to hold, and how many frames must have been got.
        settling: Option<(usize, usize)>,
        answered: BTreeSet<usize>,
        ordered: usize,
    }

    impl World {
        fn new(seed: u64) -> Self {
            Self {
                random: seed,
                frames: 0,
                underway: VecDeque::new(),
                got: 0,
                taken: Vec::new(),
                resets: 0,
                bytes: 0,
                waiting: VecDeque::new(),
                left: Vec::new(),
                at: Some(Side::Host),
                to: Side::Host,
                held: None,
                has_place: false,
                unsent: None,
                orders: VecDeque::new(),
                requests: Vec::new(),
                settling: None,
                answered: BTreeSet::new(),
                ordered: 0,
            }
        }

        fn chance(&mut self, of: usize) -> usize {
            self.random =
                self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (self.random >> 33) as usize % of
        }

        fn instant(&mut self) {
            match self.chance(6) {
                0 => {
                    match &mut self.held {
                        Some(held) => held.push(self.frames),
                        None => self.underway.push_back((self.to, self.frames)),
                    }
                    self.frames += 1;
                }
                1 if self.at.is_some() => {
                    self.waiting.push_back(self.bytes);
                    self.bytes += 1;
                }
                _ => self.goes_on(),
            }
        }

        /// Something of what has begun goes on.
        fn goes_on(&mut self) {
            match self.chance(4) {
                0 => self.left.extend(self.waiting.pop_front()),
                1 => {
                    if let Some((side, frame)) = self.underway.pop_front() {
                        self.got += 1;
                        match self.at == Some(side) {
                            true => self.taken.push(frame),
                            false => self.resets += 1,
                        }
                    }
                }
                2 => {
                    if let Some((number, step)) = self.orders.pop_front() {
                        self.carry_out_at_device(number, step);
                    }
                }
                _ if self.requests.is_empty() => {}
                _ => {
                    let which = self.chance(self.requests.len());
                    let (number, step, unsent) = self.requests.swap_remove(which);
                    match step {
                        Step::PutIn(side) => {
                            self.at = Some(side);
                            self.bytes = unsent.unwrap_or(self.bytes);
                        }
                        _ => self.at = None,
                    }
                    self.answered.insert(number);
                }
            }
            if let Some((number, _)) = self.settling.take_if(|(_, least)| self.got >= *least) {
                self.answered.insert(number);
            }
        }

        fn carry_out_at_device(&mut self, number: usize, step: Step) {
            match step {
                Step::Hold(_) => {
                    self.held.get_or_insert_default();
                    self.has_place = true;
                    self.settling = Some((number, self.got + self.underway.len()));
                    return;
                }
                Step::TakeBack => self.unsent = self.waiting.drain(..).next(),
                _ => {
                    if let Step::Deliver(side) = step {
                        self.to = side;
                    }
                    self.has_place = self.to == Side::Adapter;
                    let held = self.held.take().into_iter().flatten();
                    self.underway.extend(held.map(|frame| (self.to, frame)));
                }
            }
            self.answered.insert(number);
        }

        /// Takes a step. One that fails does nothing, except that the device holds.
        fn take(&mut self, step: Step, is_awaited: bool, fails: bool) -> bool {
            let number = self.ordered;
            self.ordered += 1;
            match step {
                Step::TakeOut | Step::PutIn(_) | Step::TakeBack if fails => return false,
                Step::TakeOut | Step::PutIn(_) => {
                    self.requests.push((
                        number,
                        step,
                        self.unsent.filter(|_| step != Step::TakeOut),
                    ));
                }
                _ => self.orders.push_back((number, step)),
            }
            while is_awaited && !self.answered.contains(&number) {
                self.instant();
            }
            !fails
        }

        /// Moves the connection without waiting for the answer to one step. `fails`: the steps that fail, a bit each.
        fn moves(&mut self, to: Side, unawaited: Option<Step>, fails: u32) {
            let mut next = Some(Move::new(to));
            self.unsent = None;
            for number in 0.. {
                let Some(now) = next else { break };
                let is_taken =
                    self.take(now.step, unawaited != Some(now.step), fails >> number & 1 == 1);
                next = now.after(is_taken);
            }
            (0..20).for_each(|_| self.instant());
        }

        /// Nothing new comes, and all that has begun ends.
        fn ends(&mut self) {
            while !(self.orders.is_empty()
                && self.requests.is_empty()
                && self.underway.is_empty()
                && self.waiting.is_empty())
            {
                self.goes_on();
            }
        }

        /// Each frame and each byte has come once, and in order.
        fn is_whole(&self) -> bool {
            self.taken.iter().copied().eq(0..self.frames)
                && self.left.iter().copied().eq(0..self.bytes)
                && self.resets == 0
        }
    }

    const BOTH: [Side; 2] = [Side::Adapter, Side::Host];

    #[test]
    fn in_whatever_order_things_happen_nothing_is_lost_or_doubled() {
        for seed in 0..1000 {
            let mut world = World::new(seed);
            for to in BOTH.repeat(3) {
                world.moves(to, None, 0);
                assert_eq!((world.at, world.to, &world.held), (Some(to), to, &None), "{seed}");
                assert_eq!(world.has_place, to == Side::Adapter);
            }
            world.ends();
            assert!(world.is_whole(), "{seed}: {world:?}");
        }
    }

    #[test]
    fn each_step_but_the_last_must_be_answered_before_the_next_one() {
        for to in BOTH {
            let steps = [Step::Hold(to), Step::TakeOut, Step::TakeBack, Step::PutIn(to)];
            for step in steps.into_iter().chain([Step::Deliver(to)]) {
                let is_harmed = |seed| {
                    let mut world = World::new(seed);
                    if to == Side::Host {
                        world.moves(Side::Adapter, None, 0);
                    }
                    world.moves(to, Some(step), 0);
                    world.ends();
                    !(world.is_whole() && world.at == Some(to) && world.to == to)
                };
                assert_eq!((0..1000).any(is_harmed), step != Step::Deliver(to), "{step:?}");
            }
        }
    }

    #[test]
    fn whichever_steps_fail_a_connection_is_where_its_frames_go() {
        for (to, fails, seed) in BOTH.into_iter().flat_map(|to| {
            (0..1 << 7).flat_map(move |fails| (0..20).map(move |seed| (to, fails, seed)))
        }) {
            let mut world = World::new(seed);
            if to == Side::Host {
                world.moves(Side::Adapter, None, 0);
            }
            world.moves(to, None, fails);
            world.ends();
            let at = world.at.unwrap_or(Side::Host);
            assert_eq!((world.to, &world.held), (at, &None), "{to:?} {fails:b}: {world:?}");
            assert_eq!(world.has_place, at == Side::Adapter, "{to:?} {fails:b}: {world:?}");
            assert!(world.at.is_none() || world.is_whole(), "{to:?} {fails:b}: {world:?}");
        }
    }

    #[test]
    fn a_connection_that_does_not_move_stays_or_returns() {
        let steps = |to, fails: &dyn Fn(Step) -> bool| {
            let (mut next, mut all) = (Some(Move::new(to)), Vec::new());
            while let Some(now) = next {
                all.push(now.step);
                next = now.after(!fails(now.step));
            }
            all
        };
        use Step::{Deliver, Hold, PutIn, Stay, TakeBack, TakeOut};
        let (host, adapter) = (Side::Host, Side::Adapter);
        assert_eq!(steps(adapter, &|step| step == TakeOut), [Hold(adapter), TakeOut, Stay]);
        let way = [Hold(adapter), TakeOut, TakeBack, PutIn(adapter)];
        let back = [Hold(host), PutIn(host), Deliver(host)];
        assert_eq!(steps(adapter, &|step| step == PutIn(adapter)), [&way[..], &back].concat());
    }
}
