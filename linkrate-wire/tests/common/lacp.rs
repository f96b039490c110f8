//! A system of LACP as an end of a wire, watched at each step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use linkrate_wire::control::lacp::SystemId;
use linkrate_wire::control::{Control, Lacpdu};
use linkrate_wire::frame::{Headers, MacAddress};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::lacp::{
    Action, Event, GroupSettings, Link, PortSettings, Selection, System,
};

use crate::lossy::handled;
use crate::pair::{End, Pair, Wire};

pub const KEY: u16 = 7;

pub const GIGABIT: Link = Link { bits_per_second: Some(1_000_000_000), full_duplex: true };

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub fn id(priority: u16, last: u8) -> SystemId {
    SystemId { priority, address: MacAddress([2, 0, 0, 0, 0, last]) }
}

/// Settings of port `number` of the system whose address ends in `last`.
pub fn settings(last: u8, number: u16) -> PortSettings {
    let [high, low] = number.to_be_bytes();
    PortSettings::new(MacAddress([2, 0, 0, last, high, low]), KEY)
}

/// The PDU in a frame, if it is a LACPDU.
pub fn lacpdu(frame: &[u8]) -> Option<Lacpdu> {
    let headers = Headers::parse(frame).expect("a frame");
    match Control::of(frame, &headers).expect("a message") {
        Some(Control::Slow(slow)) if slow.subtype.octet() == 1 => {
            Some(Lacpdu::parse(slow.data).expect("a PDU"))
        }
        _ => None,
    }
}

/// A system, with ports that may be cut silently: what arrives there is lost.
pub struct Watched {
    pub system: System,
    pub cut: BTreeSet<u16>,
    /// Ports by what the actions said.
    pub collecting: BTreeSet<u16>,
    pub distributing: BTreeSet<u16>,
    /// Times of LACPDUs sent, by port.
    sent: BTreeMap<u16, Vec<Duration>>,
    /// Times that a port began to distribute.
    pub starts: usize,
    /// The last PDU that arrived at each port since its link came up, and when.
    heard: BTreeMap<u16, (Duration, Lacpdu)>,
}

/// What the wire carries: a frame, and the port that it left and arrives at.
pub type OnPort = (u16, Vec<u8>);

impl Watched {
    pub fn new(system: System) -> Self {
        Self {
            system,
            cut: BTreeSet::new(),
            collecting: BTreeSet::new(),
            distributing: BTreeSet::new(),
            sent: BTreeMap::new(),
            starts: 0,
            heard: BTreeMap::new(),
        }
    }

    /// Nothing remains to be done before the next due time: running all machines again, which a
    /// group that is set as it is does, has no effect.
    fn watch_rest(&self, now: Duration) {
        let rests = self.system.due().is_none_or(|due| due > now);
        let Some(group) = self.system.groups().next().filter(|_| rests) else { return };
        let again = Event::SetGroup { key: group.key, settings: group.settings };
        assert_eq!(handled(&mut self.system.clone(), now, again), [], "left undone at {now:?}");
    }

    /// What must hold after each step, whatever happens.
    fn watch(&mut self, now: Duration, actions: &[Action]) {
        for action in actions {
            let change = |set: &mut BTreeSet<u16>, port: u16, on: bool| {
                let changed = if on { set.insert(port) } else { set.remove(&port) };
                assert!(changed, "said twice: {action:?}");
            };
            match action {
                Action::Collecting { port, on, .. } => change(&mut self.collecting, *port, *on),
                Action::Distributing { port, on, .. } => {
                    change(&mut self.distributing, *port, *on);
                    self.starts += usize::from(*on);
                }
                Action::Send { port, frame } => {
                    if lacpdu(frame).is_some() {
                        let times = self.sent.entry(*port).or_default();
                        times.push(now);
                        let fourth = times.iter().rev().nth(3);
                        assert!(
                            fourth.is_none_or(|fourth| *fourth + seconds(1) <= now),
                            "four PDUs within a second on port {port}: {times:?}"
                        );
                    }
                }
                Action::Marker { .. } | Action::Notice(_) => {}
            }
        }
        for port in self.system.ports() {
            let (number, actor) = (port.number, port.actor.state);
            assert_eq!(self.collecting.contains(&number), actor.collecting, "{port:?}");
            assert_eq!(self.distributing.contains(&number), actor.distributing, "{port:?}");
            if !actor.collecting {
                assert!(!actor.distributing, "{port:?}");
                continue;
            }
            // never sends to a partner that has not accepted the port, by its last PDU
            let (at, pdu) = self.heard.get(&number).expect("a PDU");
            let own = (port.actor.system, port.actor.key, port.actor.port);
            let known = (pdu.partner.system, pdu.partner.key, pdu.partner.port) == own;
            assert!(known || !pdu.actor.state.aggregation, "{port:?}");
            assert!(pdu.actor.state.synchronization, "{port:?}");
            assert!(!actor.distributing || pdu.actor.state.collecting, "{port:?}");
            let patience = if actor.short_timeout { 3 } else { 90 };
            assert!(*at + seconds(patience) >= now, "{port:?}");
            assert_eq!(port.selection, Selection::Selected, "{port:?}");
            assert!(port.link.is_some(), "{port:?}");
        }
        if self.system.ports().count() <= 8 {
            self.watch_rest(now);
        }
        for group in self.system.groups() {
            assert!(group.collecting.len() <= usize::from(group.settings.max_active), "{group:?}");
        }
    }
}

impl Machine for Watched {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Duration, event: Event, actions: &mut Vec<Action>) {
        if let Event::Frame { port, .. } = &event
            && self.cut.contains(port)
        {
            return;
        }
        match &event {
            Event::Frame { port, frame } => {
                let is_up = self.system.port(*port).is_some_and(|port| port.link.is_some());
                if let Some(pdu) = lacpdu(frame).filter(|_| is_up) {
                    self.heard.insert(*port, (now, pdu));
                }
            }
            Event::LinkDown { port } | Event::RemovePort { port } => {
                self.heard.remove(port);
            }
            _ => {}
        }
        self.system.handle(now, event, actions);
        self.watch(now, actions);
    }

    fn due(&self) -> Option<Duration> {
        self.system.due()
    }

    fn poll(&mut self, now: Duration, actions: &mut Vec<Action>) {
        self.system.poll(now, actions);
        self.watch(now, actions);
    }
}

impl End for Watched {
    type Message = OnPort;

    fn message(action: Action) -> Result<OnPort, Action> {
        match action {
            Action::Send { port, frame } => Ok((port, frame)),
            action => Err(action),
        }
    }

    fn arrival((port, frame): OnPort) -> Event {
        Event::Frame { port, frame }
    }
}

pub type Joined = Pair<Watched, Watched>;

/// Two systems, the first with the better identifier, joined by `ports` links, all up.
pub fn joined(ports: u16, max_active: [u16; 2], wire: Wire, seed: u64) -> Joined {
    let [a, b] = [id(100, 1), id(200, 2)].map(|id| Watched::new(System::new(id)));
    let mut pair = Pair::new(a, b, wire, seed);
    let group = |max_active| Event::SetGroup {
        key: KEY,
        settings: GroupSettings { max_active, ..GroupSettings::default() },
    };
    pair.handle_a(group(max_active[0]));
    pair.handle_b(group(max_active[1]));
    for port in 1..=ports {
        pair.handle_a(Event::SetPort { port, settings: settings(1, port) });
        pair.handle_b(Event::SetPort { port, settings: settings(2, port) });
    }
    for port in 1..=ports {
        link_up(&mut pair, port, GIGABIT);
    }
    pair
}

pub fn link_up(pair: &mut Joined, port: u16, link: Link) {
    pair.handle_a(Event::LinkUp { port, link });
    pair.handle_b(Event::LinkUp { port, link });
}

pub fn link_down(pair: &mut Joined, port: u16) {
    pair.handle_a(Event::LinkDown { port });
    pair.handle_b(Event::LinkDown { port });
}

/// Both ends send on exactly these ports.
pub fn assert_agreed(pair: &Joined, ports: impl IntoIterator<Item = u16>) {
    let ports: BTreeSet<u16> = ports.into_iter().collect();
    for end in [&pair.a, &pair.b] {
        let show: Vec<_> = end.system.ports().map(|port| (port.number, port.selection)).collect();
        assert_eq!(end.distributing, ports, "at {:?}: {show:?}", pair.now());
        assert_eq!(end.collecting, ports, "at {:?}: {show:?}", pair.now());
    }
    for number in ports {
        let [a, b] = [&pair.a, &pair.b].map(|end| end.system.port(number).expect("a port"));
        assert_eq!((a.partner, b.partner), (Some(b.actor), Some(a.actor)));
    }
}

/// A history of two systems: what they are, and what happens to them.
#[derive(Debug, Clone)]
pub struct History {
    pub ports: u16,
    pub max_active: [u16; 2],
    /// How long a port that failed is to be in order, in seconds.
    pub wait_to_restore: [u64; 2],
    pub priorities: [u16; 2],
    /// Settings of each port, at both ends.
    pub port_settings: Vec<[PortSetting; 2]>,
    pub wire: (u64, u64, u64),
    pub seed: u64,
    pub happenings: Vec<(u64, Happening)>,
}

#[derive(Debug, Clone, Copy)]
pub struct PortSetting {
    pub priority: u16,
    pub short_timeout: bool,
    pub active: bool,
    pub aggregatable: bool,
    /// Its key, at the second end; the first has one group.
    pub key: u16,
    /// The speed of the link, at the first end; the second has the same.
    pub bits_per_second: Option<u64>,
}

/// Something that happens at a port, counted modulo the number of ports.
#[derive(Debug, Clone, Copy)]
pub enum Happening {
    /// Carrier is lost at both ends.
    Down(u16),
    Up(u16),
    /// Frames to the second system are lost silently.
    Cut(u16),
    Joined(u16),
    /// The second system begins again.
    Restart,
    Remove(u16),
    Add(u16),
}

impl History {
    fn settings(&self, end: u8, port: u16) -> PortSettings {
        let chosen = self.port_settings[usize::from(port) - 1][usize::from(end) - 1];
        let PortSetting { priority, short_timeout, active, aggregatable, .. } = chosen;
        let key = if end == 1 { KEY } else { chosen.key };
        let rest = settings(end, port);
        PortSettings { priority, short_timeout, active, aggregatable, key, ..rest }
    }

    fn link(&self, port: u16) -> Link {
        let bits_per_second = self.port_settings[usize::from(port) - 1][0].bits_per_second;
        Link { bits_per_second, full_duplex: true }
    }

    fn system(&self, end: u8) -> Watched {
        let priority = self.priorities[usize::from(end) - 1];
        Watched::new(System::new(id(priority, end)))
    }

    fn events(&self, end: u8) -> Vec<Event> {
        let max_active = self.max_active[usize::from(end) - 1];
        let wait_to_restore = seconds(self.wait_to_restore[usize::from(end) - 1]);
        let settings = GroupSettings { max_active, wait_to_restore, fallback: false };
        let group = |key| Event::SetGroup { key, settings };
        let mut events = vec![group(KEY), group(KEY + 1)];
        for port in 1..=self.ports {
            events.push(Event::SetPort { port, settings: self.settings(end, port) });
            events.push(Event::LinkUp { port, link: self.link(port) });
        }
        events
    }

    /// Lives through it; then all is repaired, and time passes.
    pub fn live(&self) -> Joined {
        let (lost, doubled, spread) = self.wire;
        let wire = Wire { lost, doubled, delay: ms(1)..=ms(1 + spread) };
        let mut pair = Pair::new(self.system(1), self.system(2), wire, self.seed);
        self.events(1).into_iter().for_each(|event| pair.handle_a(event));
        self.events(2).into_iter().for_each(|event| pair.handle_b(event));
        let mut now = 0;
        for (after, happening) in &self.happenings {
            now += after;
            pair.run_until(ms(now));
            self.happen(&mut pair, *happening);
        }
        pair.set_wire(Wire::good(ms(1)));
        for port in 1..=self.ports {
            self.happen(&mut pair, Happening::Joined(port));
            self.happen(&mut pair, Happening::Add(port));
        }
        let end = pair.now() + seconds(300);
        pair.run_until(end);
        pair
    }

    fn happen(&self, pair: &mut Joined, happening: Happening) {
        let port = |port: u16| (port - 1) % self.ports + 1;
        match happening {
            Happening::Down(number) => link_down(pair, port(number)),
            Happening::Up(number) => link_up(pair, port(number), self.link(port(number))),
            Happening::Cut(number) => {
                pair.b.cut.insert(port(number));
            }
            Happening::Joined(number) => {
                pair.b.cut.remove(&port(number));
            }
            Happening::Restart => {
                pair.b = self.system(2);
                self.events(2).into_iter().for_each(|event| pair.handle_b(event));
            }
            Happening::Remove(number) => pair.handle_a(Event::RemovePort { port: port(number) }),
            Happening::Add(number) => {
                let port = port(number);
                let settings = self.settings(1, port);
                pair.handle_a(Event::SetPort { port, settings });
                link_up(pair, port, self.link(port));
            }
        }
    }

    /// The sets of ports of which one is to be active in the end.
    pub fn expected(&self) -> Vec<BTreeSet<u16>> {
        let senior = usize::from(id(self.priorities[1], 2) < id(self.priorities[0], 1));
        let most = self.max_active.into_iter().min().map_or(0, usize::from);
        let mut sets: BTreeMap<_, Vec<(u16, u16)>> = BTreeMap::new();
        for (port, [a, b]) in (1..).zip(&self.port_settings) {
            // two passive ends never speak
            if a.active || b.active {
                let individual = !(a.aggregatable && b.aggregatable);
                let set = (b.key, a.bits_per_second, individual.then_some(port));
                sets.entry(set).or_default().push(([a, b][senior].priority, port));
            }
        }
        let active = |mut ports: Vec<(u16, u16)>| {
            ports.sort_unstable();
            ports.into_iter().take(most).map(|(_, port)| port).collect()
        };
        match sets.is_empty() {
            true => vec![BTreeSet::new()],
            false => sets.into_values().map(active).collect(),
        }
    }
}
