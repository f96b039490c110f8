//! Whatever packets come, and whenever, a session keeps to the contract of machines, takes a state
//! only as RFC 5880 allows, and sends packets that read back, few of them out of turn.

#![no_main]

use std::num::NonZeroU32;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use linkrate_wire::control::bfd::{Bfd, State};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::bfd::{Action, Config, Event, Intervals, Session};

fuzz_target!(|bytes: &[u8]| {
    let mut session = Session::new(Config::new(NonZeroU32::MIN), 1);
    let (mut now, mut actions) = (Duration::ZERO, Vec::new());
    let mut rest = bytes;
    // what happens, and how much time passes before
    while let Some(([kind, pass], after)) = rest.split_first_chunk() {
        rest = after;
        let end = now + Duration::from_millis(u64::from(*pass));
        let mut polls = 0;
        while let Some(due) = session.due().filter(|due| *due <= end) {
            now = now.max(due);
            session.poll(now, &mut actions);
            assert!(session.due().is_none_or(|due| due > now), "due again after its poll");
            polls += 1;
            assert!(polls < 1000, "polls without end");
        }
        now = end;
        let event = match kind % 6 {
            0 => Event::Enable,
            1 => Event::Disable,
            2 => Event::PathDown,
            3 => Event::Set(Intervals::both(u32::from(*pass) * 1000)),
            _ => {
                let Some((packet, after)) = rest.split_first_chunk::<24>() else { break };
                rest = after;
                let Ok(packet) = Bfd::parse(packet) else { continue };
                Event::Received(packet)
            }
        };
        let before = session.state();
        session.handle(now, event, &mut actions);
        if session.state() == State::Up && before != State::Up {
            let Event::Received(packet) = event else { panic!("up without a packet") };
            assert!(matches!(packet.state, State::Init | State::Up) && packet.other == 1);
        }
        let mut state = None;
        for action in actions.drain(..) {
            match action {
                Action::Send(packet) => assert_eq!(Bfd::parse(&packet.emit()), Ok(packet)),
                Action::Changed { from, to, .. } => {
                    assert!(from != to && state.is_none_or(|state| state == from));
                    state = Some(to);
                }
            }
        }
        assert!(state.is_none_or(|state| state == session.state()));
    }
});
