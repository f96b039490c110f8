//! Two systems of link aggregation in virtual time.

#[path = "common/lacp.rs"]
mod ends;
#[path = "common/pair.rs"]
mod pair;

use ends::{Happening, History, PortSetting, assert_agreed, joined, ms, seconds};
use pair::Wire;
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

fn port_setting() -> impl Strategy<Value = PortSetting> {
    let passive = prop::sample::select(vec![true, true, true, false]);
    (1u16..4, any::<bool>(), passive).prop_map(|(priority, short_timeout, active)| PortSetting {
        priority,
        short_timeout,
        active,
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

fn history() -> impl Strategy<Value = History> {
    let most = || prop::sample::select(vec![1u16, 2, 3, 8]);
    let wire = (0u64..500, 0u64..500, prop::sample::select(vec![0u64, 10, 400, 3000]));
    (1u16..9).prop_flat_map(move |ports| {
        (
            prop::collection::vec([port_setting(), port_setting()], usize::from(ports)),
            [most(), most()],
            [1u16..3, 1u16..3],
            wire.clone(),
            any::<u64>(),
            prop::collection::vec((0u64..8000, happening()), 0..12),
        )
            .prop_map(
                move |(port_settings, most_active, priorities, wire, seed, happenings)| History {
                    ports,
                    most_active,
                    priorities,
                    port_settings,
                    wire,
                    seed,
                    happenings,
                },
            )
    })
}

proptest! {
    /// Whatever the wire did and the owners changed: once all is in order, both ends use the same
    /// ports, and those that the better system prefers. [`Watched`] looks at each step before.
    #[test]
    fn both_ends_agree_in_the_end(history in history()) {
        let pair = history.live();
        assert_agreed(&pair, history.expected());
    }
}
