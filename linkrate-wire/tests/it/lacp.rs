//! Two systems of link aggregation in virtual time.

use crate::ends::{Happening, History, KEY, PortSetting, assert_agreed, joined, ms, seconds};
use crate::pair::Wire;
use proptest::prelude::*;

#[test]
fn four_links_become_one_aggregate() {
    let mut pair = joined(4, [8, 8], Wire::good(ms(1)), 1);
    assert!(!pair.run_until(ms(1999)));
    assert_agreed(&pair, []);
    pair.run_until(ms(2100));
    assert_agreed(&pair, 1..=4);
    pair.run_until(seconds(3600));
    assert_agreed(&pair, 1..=4);
    assert_eq!((pair.a.starts, pair.b.starts), (4, 4));
}

/// The wire goes dead and comes back, and no end is told: only the time-out shows it.
#[test]
fn silent_loss_empties_the_aggregate_after_the_time_out() {
    let mut pair = joined(2, [8, 8], Wire::good(ms(1)), 1);
    pair.run_until(seconds(100));
    assert_agreed(&pair, 1..=2);
    pair.set_wire(Wire { lost: 1000, ..Wire::good(ms(1)) });
    // long time-out: 90 s after the last PDU
    pair.run_until(seconds(155));
    assert_agreed(&pair, 1..=2);
    pair.run_until(seconds(191));
    assert_agreed(&pair, []);
    pair.set_wire(Wire::good(ms(1)));
    pair.run_until(seconds(200));
    assert_agreed(&pair, 1..=2);
}

/// No frame is sent to a partner that does not take it in: not by its PDUs, which
/// [`Watched`](ends::Watched) sees to, but in truth. The wire loses half of the PDUs.
#[test]
fn while_an_aggregate_opens_no_frame_is_lost() {
    for seed in 0..20 {
        let wire = Wire { lost: 500, ..Wire::good(ms(7)) };
        let mut pair = joined(4, [8, 8], wire, seed);
        for time in 0..80_000 {
            pair.run_until(ms(time));
            assert!(pair.a.distributing.is_subset(&pair.b.collecting), "seed {seed}, {time} ms");
            assert!(pair.b.distributing.is_subset(&pair.a.collecting), "seed {seed}, {time} ms");
        }
        // a PDU that says "collecting" and is lost is missed until the next one, in half a minute
        pair.set_wire(Wire::good(ms(7)));
        pair.run_until(seconds(120));
        assert_agreed(&pair, 1..=4);
    }
}

/// Of a port in a group of like ports, or of any port.
fn port_setting(alike: bool) -> impl Strategy<Value = PortSetting> {
    let mostly = || prop::sample::select(vec![true, true, true, false]);
    let speeds = if alike { vec![None] } else { vec![None, Some(1), Some(1), Some(10)] };
    let speeds = prop::sample::select(speeds);
    let any = (1u16..4, any::<bool>(), mostly(), mostly(), any::<bool>(), speeds);
    any.prop_map(move |(priority, short_timeout, active, aggregatable, same_key, speed)| {
        PortSetting {
            priority,
            short_timeout,
            active,
            aggregatable: alike || aggregatable,
            key: KEY + u16::from(!(alike || same_key)),
            bits_per_second: speed,
        }
    })
}

fn happening() -> impl Strategy<Value = Happening> {
    let port = 1u16..9;
    prop_oneof![
        port.clone().prop_map(Happening::Down),
        port.clone().prop_map(Happening::Up),
        port.clone().prop_map(Happening::Cut),
        port.clone().prop_map(Happening::Joined),
        Just(Happening::Restart),
        port.clone().prop_map(Happening::Remove),
        port.prop_map(Happening::Add),
    ]
}

fn history(alike: bool) -> impl Strategy<Value = History> {
    let most = || prop::sample::select(vec![1u16, 2, 3, 8]);
    let restore = || prop::sample::select(vec![0u64, 0, 5, 40]);
    let wire = (0u64..500, 0u64..500, prop::sample::select(vec![0u64, 10, 400, 3000]));
    let whole = (
        [most(), most()],
        [restore(), restore()],
        [1u16..3, 1u16..3],
        wire,
        any::<u64>(),
        prop::collection::vec((0u64..8000, happening()), 0..12),
    );
    let ports = prop::collection::vec([port_setting(alike), port_setting(alike)], 1..9);
    (ports, whole).prop_map(|(port_settings, whole)| {
        let (max_active, wait_to_restore, priorities, wire, seed, happenings) = whole;
        let ports = port_settings.len() as u16;
        History {
            ports,
            max_active,
            wait_to_restore,
            priorities,
            port_settings,
            wire,
            seed,
            happenings,
        }
    })
}

fn in_the_end_both_ends_agree(history: &History) {
    let pair = history.live();
    let expected = history.expected();
    let active = &pair.a.distributing;
    assert!(expected.contains(active), "{active:?}, expected one of {expected:?}");
    assert_agreed(&pair, active.iter().copied());
}

proptest! {
    /// Whatever the wire did and the owners changed: once all is in order, both ends use the same
    /// ports, and those that the better system prefers. [`Watched`](ends::Watched) looks at each
    /// step before.
    #[test]
    fn both_ends_agree_on_ports_that_are_alike(history in history(true)) {
        in_the_end_both_ends_agree(&history);
    }

    /// Also where several aggregates could be made of the ports.
    #[test]
    fn both_ends_agree_on_one_of_several_aggregates(history in history(false)) {
        in_the_end_both_ends_agree(&history);
    }
}
