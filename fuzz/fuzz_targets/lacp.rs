//! A system of link aggregation takes any frames at any times: it never panics, its work is bounded,
//! and it never sends to a partner that has not accepted the port.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use linkrate_wire::control::lacp::{Information, Lacpdu, PortId, State, SystemId};
use linkrate_wire::control::marker::{Kind, Marker, Requester};
use linkrate_wire::frame::MacAddress;
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::lacp::{
    Action, Event, GroupSettings, Link, MarkerOutcome, PortSettings, Selection, System,
};

const PORTS: u16 = 5;
/// LACPDUs, markers and answers that a port may send in any second.
const MAX_SENT: usize = 3 + 5 + 5;

/// Numbers from the input, zeros after its end.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or_default()
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    fn port(&mut self) -> u16 {
        u16::from(self.byte()) % (PORTS + 1)
    }

    /// A small number most often, and now and then a time of years.
    fn time(&mut self) -> Duration {
        match self.byte() {
            0 => Duration::from_nanos(self.byte().into()),
            255 => Duration::from_secs(u64::from(self.word()) << 32),
            unit => Duration::from_millis(u64::from(unit) * u64::from(self.byte())),
        }
    }

    /// One of few systems, so that ports find partners.
    fn information(&mut self) -> Information {
        let address = MacAddress([2, 0, 0, 0, 0, self.byte() % 3]);
        let system = SystemId { priority: (self.byte() % 3).into(), address };
        let port = PortId { priority: (self.byte() % 3).into(), number: self.port() };
        Information { system, key: (self.byte() % 3).into(), port, state: State::of(self.byte()) }
    }
}

struct Bench {
    system: System,
    now: Duration,
    /// Frames that were sent: when, and at which port.
    sent: Vec<(Duration, u16)>,
    markers_asked: usize,
    markers_ended: usize,
}

impl Bench {
    fn handle(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.system.handle(self.now, event, &mut actions);
        self.judge(&actions);
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now.saturating_add(time);
        // a system that has years to wait through is looked at for the first polls
        for _ in 0..50 {
            let Some(due) = self.system.due().filter(|due| *due <= end) else { break };
            self.now = self.now.max(due);
            let mut actions = Vec::new();
            self.system.poll(self.now, &mut actions);
            let late = self.now == Duration::MAX;
            assert!(late || self.system.due().is_none_or(|due| due > self.now), "due again");
            self.judge(&actions);
        }
        self.now = end;
        let mut actions = Vec::new();
        self.system.poll(self.now, &mut actions);
        self.judge(&actions);
    }

    /// Running all machines again, which a group that is set as it is does, has no effect.
    fn judge_rest(&self) {
        let rests = self.system.due().is_none_or(|due| due > self.now);
        let Some(group) = self.system.groups().next().filter(|_| rests) else { return };
        let mut actions = Vec::new();
        let again = Event::SetGroup { key: group.key, settings: group.settings };
        self.system.clone().handle(self.now, again, &mut actions);
        assert!(actions.is_empty(), "left undone: {actions:?}");
    }

    fn judge(&mut self, actions: &[Action]) {
        assert!(actions.len() <= 64 * usize::from(PORTS) + 64, "{} actions", actions.len());
        for action in actions {
            match action {
                Action::Send { port, .. } => self.sent.push((self.now, *port)),
                Action::Marker { outcome, .. } => {
                    self.markers_ended += 1;
                    if let MarkerOutcome::Answered { after } = outcome {
                        assert!(*after <= self.now);
                    }
                }
                _ => {}
            }
        }
        let recent = self.now.saturating_sub(Duration::from_secs(1));
        let is_recent = |at: Duration| at > recent || self.now < Duration::from_secs(1);
        self.sent.retain(|(at, _)| is_recent(*at));
        for port in 1..=PORTS {
            let count = self.sent.iter().filter(|(_, by)| *by == port).count();
            assert!(count <= MAX_SENT, "{count} frames in a second");
        }
        for port in self.system.ports() {
            let bits = port.actor.state;
            let partner = port.partner.map(|partner| partner.state).unwrap_or_default();
            let group = self.system.group(port.actor.key);
            // it works alone
            let falls_back = bits.defaulted && group.is_some_and(|group| group.settings.fallback);
            assert!(!bits.collecting || partner.synchronization || falls_back, "{port:?}");
            let sends = bits.collecting && (partner.collecting || falls_back);
            assert!(!bits.distributing || sends, "{port:?}");
            assert!(!bits.collecting || port.selection == Selection::Selected, "{port:?}");
            assert!(!bits.collecting || port.link.is_some(), "{port:?}");
        }
        self.judge_rest();
        for group in self.system.groups() {
            assert!(group.collecting.len() <= group.settings.max_active.into(), "{group:?}");
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let id = SystemId { priority: 1, address: MacAddress([2, 0, 0, 0, 0, 1]) };
    let mut bench = Bench {
        system: System::new(id),
        now: Duration::ZERO,
        sent: Vec::new(),
        markers_asked: 0,
        markers_ended: 0,
    };
    let plain = GroupSettings::default();
    bench.handle(Event::SetGroup { key: 1, settings: plain });
    let link = Link { bits_per_second: None, full_duplex: true };
    for port in 1..=2 {
        let settings = PortSettings::new(MacAddress([2, 0, 0, 0, 1, port as u8]), 1);
        bench.handle(Event::SetPort { port, settings });
        bench.handle(Event::LinkUp { port, link });
    }
    while !input.0.is_empty() {
        let (what, port) = (input.byte(), input.port());
        match what % 16 {
            0 => {
                let key = (input.byte() % 3).into();
                let bits = input.byte();
                let settings = GroupSettings {
                    max_active: (bits % 4).into(),
                    wait_to_restore: input.time(),
                    fallback: bits & 4 != 0,
                };
                bench.handle(Event::SetGroup { key, settings });
            }
            1 => bench.handle(Event::RemoveGroup { key: (input.byte() % 3).into() }),
            2 => {
                let bits = input.byte();
                let settings = PortSettings {
                    address: MacAddress([2, 0, 0, 0, 1, port as u8]),
                    key: (input.byte() % 3).into(),
                    priority: (input.byte() % 3).into(),
                    active: bits & 1 == 0,
                    short_timeout: bits & 2 == 0,
                    aggregatable: bits & 4 == 0,
                    retired: bits & 0xf8 == 0xf8,
                };
                bench.handle(Event::SetPort { port, settings });
            }
            3 => bench.handle(Event::RemovePort { port }),
            4 => bench.handle(Event::SetSystemPriority { priority: (input.byte() % 3).into() }),
            5 => {
                let bits_per_second =
                    [None, Some(1), Some(u64::MAX)][usize::from(input.byte() % 3)];
                let full_duplex = !input.byte().is_multiple_of(8);
                bench.handle(Event::LinkUp { port, link: Link { bits_per_second, full_duplex } });
            }
            6 => bench.handle(Event::LinkDown { port }),
            7 => {
                let count = input.byte().into();
                let frame = input.bytes(count).to_vec();
                bench.handle(Event::Frame { port, frame });
            }
            // as a frame that is one of a slow protocol
            8 => {
                let count = input.byte().into();
                let head = [1, 0x80, 0xc2, 0, 0, 2, 2, 0, 0, 0, 0, 9, 0x88, 9];
                let frame = [&head, input.bytes(count)].concat();
                bench.handle(Event::Frame { port, frame });
            }
            9 => {
                let requester = Requester {
                    port: input.port(),
                    system: MacAddress([2, 0, 0, 0, 0, input.byte() % 3]),
                    transaction: (input.byte() % 8).into(),
                };
                let question = input.byte().is_multiple_of(2);
                let kind = if question { Kind::Information } else { Kind::Response };
                bench.handle(Event::Marker { port, pdu: Marker { kind, requester } });
            }
            10 => {
                bench.markers_asked += 1;
                let (transaction, patience) = (input.byte().into(), input.time());
                bench.handle(Event::RequestMarker { port, transaction, patience });
            }
            // any PDU, and one that knows this end
            11 => {
                let (actor, partner) = (input.information(), input.information());
                let pdu = Lacpdu { version: 1, actor, partner, collector_max_delay: 0 };
                bench.handle(Event::Lacpdu { port, pdu });
            }
            12 | 13 => {
                let actor = input.information();
                if let Some(own) = bench.system.port(port) {
                    let partner = own.actor;
                    let pdu = Lacpdu { version: 1, actor, partner, collector_max_delay: 0 };
                    let frame = pdu.frame(MacAddress([2, 0, 0, 0, 0, 9]));
                    bench.handle(Event::Frame { port, frame });
                }
            }
            _ => {
                let time = input.time();
                bench.wait(time);
            }
        }
    }
    // each request for a marker ends
    for port in 0..=PORTS {
        bench.handle(Event::RemovePort { port });
    }
    assert_eq!(bench.markers_ended, bench.markers_asked);
    assert_eq!(bench.system.due(), None);
});
