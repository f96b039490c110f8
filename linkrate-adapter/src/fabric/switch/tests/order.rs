//! Frames of a flow leave a group in their order, however its ports come and go.

use proptest::prelude::*;

use super::*;

const GIGABIT: Option<BitRate> = Some(BitRate(1e9));
/// The ports of the group.
const PORTS: usize = 3;
/// The port by which all frames come.
const FROM: usize = PORTS;
/// A microsecond.
const US: u64 = 1_000_000;
/// When the first frame comes. The group is complete before.
const BEGIN_PS: u64 = 10_000_000 * US;

/// A switch with a group of three ports.
struct Rig {
    switch: Switch,
    now_ps: u64,
    knobs: AggregateKnobs,
    in_use: [bool; PORTS],
    /// A port has lost its carrier, which flows leave at once.
    has_lost: bool,
    /// The next number of each station's frames.
    next: [u32; 6],
    /// Of each frame that was taken from the switch: time, port, station and number.
    left: Vec<(u64, usize, u8, u32)>,
}

impl Rig {
    fn new(balance: Balance) -> Self {
        let knobs = AggregateKnobs {
            aggregate: PORTS as u32,
            mode: AggregateMode::Manual,
            switch_balance: balance,
            ..AggregateKnobs::default()
        };
        let switch = switch(PORTS + 1, GIGABIT);
        let (in_use, next, left) = ([true; PORTS], [0; 6], Vec::new());
        let mut rig = Self { switch, now_ps: 0, knobs, in_use, has_lost: false, next, left };
        rig.group();
        for station in 0..6 {
            rig.switch.enter(0, frame(100, station, None), 0);
        }
        rig.wait(BEGIN_PS);
        rig.left.clear();
        rig
    }

    fn group(&mut self) {
        let ports =
            (0..PORTS).map(|port| GroupPort { port, place: port, in_use: self.in_use[port] });
        let (ports, knobs) = (ports.collect(), self.knobs.clone());
        self.switch.set_group(0, GroupSpec { ports, ..GroupSpec::of([], knobs) });
    }

    /// Frames to a station behind the group, faster than a port sends them.
    fn send(&mut self, station: u8, count: usize) {
        for _ in 0..count {
            let mut bytes = frame(station, 99, None).into_frames().unwrap().first().to_vec();
            let number = &mut self.next[usize::from(station)];
            bytes[20..24].copy_from_slice(&number.to_be_bytes());
            *number += 1;
            bytes.resize(1514, 0);
            self.switch.enter(FROM, WireFrame::copied(bytes).into(), self.now_ps);
            self.wait(US);
        }
    }

    fn wait(&mut self, time_ps: u64) {
        self.now_ps += time_ps;
        self.switch.forward(self.now_ps);
        self.take(self.now_ps);
    }

    /// Takes what has left by `until_ps`.
    fn take(&mut self, until_ps: u64) {
        for port in 0..PORTS {
            while let Some((at_ps, pdu)) = self.switch.to(port).unwrap().arrived(until_ps) {
                for frame in pdu.into_frames().unwrap().each() {
                    let bytes = frame.to_vec();
                    // not a frame about the link
                    if bytes.len() == 1514 {
                        let number = u32::from_be_bytes(bytes[20..24].try_into().unwrap());
                        self.left.push((at_ps, port, bytes[5], number));
                    }
                }
            }
        }
    }

    fn set_carrier(&mut self, port: usize, up: bool) {
        if !up {
            self.switch.cut(port, self.now_ps);
            self.has_lost = true;
        }
        self.switch.set_link(port, GIGABIT, up);
    }

    /// No frame has left before an earlier one of its flow. If one left by another port than the one before,
    /// the time between them is at least what the host may take for a frame. Returns how many have left.
    fn check(&mut self) -> Result<usize, TestCaseError> {
        self.switch.forward(u64::MAX / 2);
        self.take(u64::MAX);
        self.left.sort_unstable();
        for station in 0..6 {
            let of = self.left.iter().filter(|(_, _, to, _)| *to == station);
            let frames: Vec<(u64, usize, u32)> =
                of.map(|(at_ps, port, _, number)| (*at_ps, *port, *number)).collect();
            for pair in frames.windows(2) {
                let [(before_ps, before, first), (at_ps, port, number)] = pair else { continue };
                prop_assert!(number > first, "station {}: {} before {}", station, first, number);
                let apart_ps = if before == port || self.has_lost { 0 } else { 1_000 * US };
                prop_assert!(
                    at_ps - before_ps >= apart_ps,
                    "station {}: frame {} leaves port {} {} ns after frame {} port {}",
                    station,
                    number,
                    port,
                    (at_ps - before_ps) / 1000,
                    first,
                    before
                );
            }
        }
        Ok(self.left.len())
    }
}

/// What happens to the group.
#[derive(Debug, Clone, Copy)]
enum Happening {
    Send { station: u8, count: usize },
    Wait { us: u64 },
    Use { port: usize, in_use: bool },
    Carrier { port: usize, up: bool },
    Balance(Balance),
}

fn happening() -> impl Strategy<Value = Happening> {
    let balance = prop::sample::select(vec![Balance::Mac, Balance::Adaptive, Balance::Port]);
    prop_oneof![
        8 => (0..6_u8, 1..150_usize).prop_map(|(station, count)| Happening::Send { station, count }),
        4 => (1..30_000_u64).prop_map(|us| Happening::Wait { us }),
        3 => (0..PORTS, any::<bool>()).prop_map(|(port, in_use)| Happening::Use { port, in_use }),
        2 => (0..PORTS, any::<bool>()).prop_map(|(port, up)| Happening::Carrier { port, up }),
        1 => balance.prop_map(Happening::Balance),
    ]
}

/// The port that a full queue is before leaves the group: its flows wait for it, and nothing is lost.
#[test]
fn a_flow_waits_for_the_port_that_it_leaves() {
    let mut rig = Rig::new(Balance::Mac);
    rig.send(0, 200);
    let before = rig.left.last().expect("a frame that has left").1;
    rig.in_use[before] = false;
    rig.group();
    rig.send(0, 100);
    assert_eq!(rig.check().unwrap(), 300);
    let by: Vec<usize> = rig.left.iter().map(|(_, port, ..)| *port).collect();
    assert_eq!(by[..200], [before; 200]);
    assert!(by[200..].iter().all(|port| *port != before), "{by:?}");
}

/// What waits before a port without a carrier is lost, so that nobody waits for it.
#[test]
fn no_flow_waits_for_a_port_without_a_carrier() {
    let mut rig = Rig::new(Balance::Mac);
    rig.send(0, 200);
    let before = rig.left.last().expect("a frame that has left").1;
    rig.set_carrier(before, false);
    let lost_ps = rig.now_ps;
    rig.send(0, 1);
    rig.check().unwrap();
    let (at_ps, port, ..) = *rig.left.last().unwrap();
    assert!(port != before && at_ps < lost_ps + 100 * US, "port {port} at {at_ps}, lost {lost_ps}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_flow_overtakes_itself(
        all in prop::collection::vec(happening(), 0..40),
        balance in prop::sample::select(vec![Balance::Mac, Balance::Adaptive]),
    ) {
        let mut rig = Rig::new(balance);
        for one in all {
            match one {
                Happening::Send { station, count } => rig.send(station, count),
                Happening::Wait { us } => rig.wait(us * US),
                Happening::Use { port, in_use } => {
                    rig.in_use[port] = in_use;
                    rig.group();
                }
                Happening::Carrier { port, up } => rig.set_carrier(port, up),
                Happening::Balance(balance) => {
                    rig.knobs.switch_balance = balance;
                    rig.group();
                }
            }
        }
        rig.check()?;
    }
}
