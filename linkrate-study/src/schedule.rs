//! The order of runs, and the time that they take: randomised complete blocks.
//!
//! A block runs every cell once, and with an A/A test the first cell a second time. Whatever drifts over minutes (temperature, other tenants of the
//! machine) then hits all cells of a block alike, and effects are compared within blocks. Inside a
//! block the order is random, so that no cell always runs first or always after the same one.
//!
//! With few blocks chance alone is not enough: two cells may come in the same order in all of five.
//! Two of the first five blocks therefore reverse the order of one before them
//! ([`Order::Mirrored`](linkrate_stats::order::Order::Mirrored)).
//!
//! The order depends on the study's seed, its rule and the block's number alone: a resumed study
//! continues in its original order.

use std::time::Duration;

use rand_chacha::rand_core::Rng;

use crate::fleet::rounds;
use crate::study::{Cell, Study};

/// One run of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// [Number of the cell](Study::cell); `None` for the idle run.
    pub cell: Option<u32>,
    /// Seed for what is random inside the run; another one for each run of a study.
    pub seed: u64,
}

/// The runs of block `block` (from 0) in their order. The idle run comes first, if the study has
/// one.
pub fn block_order(study: &Study, block: u32) -> Vec<Slot> {
    let method = &study.method;
    let (cells, mut rng) = method.order.of_block(method.seed(), block, study.runs_of_cells());
    let idle = (!study.method.idle.is_zero()).then_some(None);
    idle.into_iter()
        .chain(cells.into_iter().map(Some))
        .map(|cell| Slot { cell, seed: rng.next_u64() })
        .collect()
}

/// What a run takes beside warm-up and measurement on a machine with two CPUs: setting knobs and reading
/// them back, connecting, collecting evidence.
pub const RUN_OVERHEAD: Duration = Duration::from_millis(200);

/// What a run with an event takes beside that: a port that failed is not used again at once.
pub const EVENT_OVERHEAD: Duration = Duration::from_millis(800);

/// The time after the runs of cells with an event, all of one block.
pub(crate) fn after_events<'c>(cells: impl Iterator<Item = &'c Cell>) -> Duration {
    let events = cells.filter(|cell| cell.spec.event.is_some()).count();
    EVENT_OVERHEAD.saturating_mul(u32::try_from(events).unwrap_or(u32::MAX))
}

/// How long a study takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    pub block: Duration,
    /// If every figure is precise when that is looked at first.
    pub shortest: Duration,
    /// If it never is: the most blocks, or as many as the budget holds.
    pub longest: Duration,
    /// Runs of one block, the idle run included.
    pub runs_per_block: u32,
    /// Rounds of one block: runs, or in a study of a fleet turns at the same time.
    pub rounds_per_block: u32,
}

/// Estimates a study's time. `overhead_per_run` is the time of a run beside warm-up and measurement:
/// setting knobs, connecting, collecting evidence. A budget cuts both ends to the whole blocks that
/// fit into it, and to at least one block.
pub fn estimate(study: &Study, overhead_per_run: Duration) -> Estimate {
    let method = &study.method;
    let cells = study.runs_of_cells();
    let idle = if method.idle.is_zero() { 0 } else { 1 };
    let run = method.run.saturating_add(method.warm_up).saturating_add(overhead_per_run);
    let own = (0..cells).filter_map(|cell| study.cell(cell));
    let mut block = run.saturating_mul(cells).saturating_add(after_events(own));
    if idle == 1 {
        block = block.saturating_add(method.idle).saturating_add(overhead_per_run);
    }
    let of_turn = cells.saturating_add(idle);
    let mut rounds_per_block = of_turn;
    // of a fleet, the pairs of a round take their turns at the same time
    if let Some(fleet) = &study.fleet {
        rounds_per_block = u32::try_from(rounds::rounds(fleet).len()).unwrap_or(u32::MAX);
        block = block.saturating_mul(rounds_per_block);
    }
    let fitting = method.budget.map_or(u32::MAX, |budget| {
        let blocks = budget.as_nanos() / block.as_nanos().max(1);
        u32::try_from(blocks).unwrap_or(u32::MAX).max(1)
    });
    Estimate {
        block,
        shortest: block.saturating_mul(method.stop_rule().first_look().min(fitting)),
        longest: block.saturating_mul(method.max_blocks.min(fitting)),
        runs_per_block: of_turn.saturating_mul(study.turns()),
        rounds_per_block,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use linkrate_stats::order::Order;

    fn study(levels: usize, method: &str) -> Study {
        let sizes: Vec<String> = (1..=levels).map(|size| size.to_string()).collect();
        let text = format!(
            "title = \"t\"\n[factors]\nmessage = [{}]\n[method]\naa = false\n{method}",
            sizes.join(", ")
        );
        crate::file::parse("t", "t.toml", &text).unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn cells(study: &Study, block: u32) -> Vec<u32> {
        block_order(study, block).iter().filter_map(|slot| slot.cell).collect()
    }

    #[test]
    fn every_block_runs_every_cell_once_after_the_idle_run() {
        let study = study(6, "seed = 7");
        for block in 0..200 {
            let order = block_order(&study, block);
            assert_eq!(order[0].cell, None);
            let mut cells = cells(&study, block);
            assert_eq!(cells.len(), order.len() - 1);
            cells.sort_unstable();
            assert_eq!(cells, [0, 1, 2, 3, 4, 5]);
        }
    }

    /// An A/A test is one more run of a block, at a place as random as the others.
    #[test]
    fn the_first_cell_comes_twice_in_an_a_a_test() {
        let mut study = study(3, "seed = 7");
        let alone = estimate(&study, Duration::ZERO);
        study.method.aa = true;
        let mut places = HashSet::new();
        for block in 0..60 {
            let order = cells(&study, block);
            let twice = order.iter().filter_map(|cell| study.cell(*cell));
            assert_eq!(twice.filter(|cell| cell.levels == study.cells[0].levels).count(), 2);
            places.insert(order.iter().position(|cell| study.aa_cell() == Some(*cell)));
        }
        assert_eq!(places.len(), 4);
        let twice = estimate(&study, Duration::ZERO);
        assert_eq!(twice.runs_per_block, alone.runs_per_block + 1);
        assert_eq!(twice.block, alone.block + study.method.run + study.method.warm_up);
        assert!(study.cell(4).is_none());
    }

    #[test]
    fn no_idle_run_is_planned_when_it_is_left_out() {
        let study = study(3, "idle = \"0 s\"");
        assert!(block_order(&study, 0).iter().all(|slot| slot.cell.is_some()));
        assert_eq!(estimate(&study, Duration::ZERO).runs_per_block, 3);
    }

    #[test]
    fn the_order_depends_on_seed_and_block_only() {
        let (one, two) = (study(6, "seed = 1"), study(6, "seed = 2"));
        assert_eq!(block_order(&one, 3), block_order(&one, 3));
        assert_ne!(block_order(&one, 3), block_order(&two, 3));
        let orders: HashSet<Vec<u32>> = (0..30).map(|block| cells(&one, block)).collect();
        assert!(orders.len() > 25, "{}", orders.len());
        let seeds: HashSet<u64> =
            (0..100).flat_map(|block| block_order(&one, block)).map(|slot| slot.seed).collect();
        assert_eq!(seeds.len(), 700);
    }

    /// Stored studies are resumed in this order: it must never change.
    #[test]
    fn the_order_does_not_change_between_versions() {
        let mut study = study(6, "seed = 1");
        study.method.order = Order::Independent;
        assert_eq!(cells(&study, 0), [1, 0, 2, 3, 5, 4]);
        assert_eq!(cells(&study, 1), [4, 1, 2, 5, 3, 0]);
        study.method.order = Order::Mirrored;
        assert_eq!(cells(&study, 0), [1, 0, 2, 3, 5, 4]);
        assert_eq!(cells(&study, 1), [4, 5, 3, 2, 0, 1]);
    }

    #[test]
    fn two_blocks_of_a_new_study_reverse_one_before_them() {
        let new = study(6, "seed = 3");
        assert_eq!(new.method.order, Order::Mirrored);
        let old = Study {
            method: crate::study::Method { order: Order::Independent, ..new.method.clone() },
            ..new.clone()
        };
        for block in 0..40 {
            let first = match block {
                1 => 0,
                4 => 2,
                _ => {
                    assert_eq!(block_order(&new, block), block_order(&old, block));
                    continue;
                }
            };
            let mut mirrored = cells(&new, block);
            assert_ne!(mirrored, cells(&old, block));
            mirrored.reverse();
            assert_eq!(mirrored, cells(&new, first));
        }
        let seeds: HashSet<u64> =
            (0..10).flat_map(|block| block_order(&new, block)).map(|slot| slot.seed).collect();
        assert_eq!(seeds.len(), 70, "what is random inside a run is not repeated");
    }

    #[test]
    fn no_two_cells_come_in_the_same_order_in_all_blocks() {
        for seed in 0..50 {
            let study = study(5, &format!("seed = {seed}"));
            let places: Vec<Vec<u32>> = (0..2).map(|block| cells(&study, block)).collect();
            for (a, b) in (0..5).flat_map(|a| (0..a).map(move |b| (a, b))) {
                let first =
                    |order: &Vec<u32>| order.iter().find(|cell| [a, b].contains(cell)).copied();
                assert_ne!(first(&places[0]), first(&places[1]), "seed {seed}, cells {a} and {b}");
            }
        }
    }

    #[test]
    fn every_cell_comes_at_every_position_equally_often() {
        let study = study(6, "seed = 1");
        let blocks = 6000;
        let mut counts = [[0u32; 6]; 6];
        for block in 0..blocks {
            for (position, cell) in cells(&study, block).into_iter().enumerate() {
                counts[position][cell as usize] += 1;
            }
        }
        let expected = f64::from(blocks) / 6.0;
        let chi_square: f64 = counts
            .iter()
            .flatten()
            .map(|count| (f64::from(*count) - expected).powi(2) / expected)
            .sum();
        // 25 degrees of freedom; one in a thousand fair shuffles exceeds 52.6
        assert!(chi_square < 52.6, "{chi_square}");
    }

    #[test]
    fn an_estimate_counts_overhead_and_honours_the_budget() {
        let method = "run = \"2 s\"\nwarm-up = \"300 ms\"\nidle = \"1 s\"\n";
        let overhead = Duration::from_millis(200);
        let open = estimate(&study(6, method), overhead);
        assert_eq!(open.block, Duration::from_millis(6 * 2500 + 1200));
        assert_eq!(open.shortest, open.block * 5);
        assert_eq!(open.longest, open.block * 30);
        assert_eq!(open.runs_per_block, 7);
        let bound = study(6, &format!("{method}budget = \"4 min 30 s\""));
        let bound = estimate(&bound, overhead);
        assert_eq!(bound.shortest, bound.block * 5);
        assert_eq!(bound.longest, bound.block * 16);
    }
}
