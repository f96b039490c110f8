//! Two systems of link aggregation in virtual time.

#[path = "common/lacp.rs"]
mod ends;
#[path = "common/pair.rs"]
mod pair;

use ends::{assert_agreed, joined, ms, seconds};
use pair::Wire;

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
