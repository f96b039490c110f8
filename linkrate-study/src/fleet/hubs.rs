//! Figures of patterns with a node in the middle: all others send to it, or receive from it, at the same time.

use linkrate_model::evidence::ClientPart;

use super::pairs::{measure_of, pair_result};
use super::two_way::Subject;
use super::{Fleet, Hub, Pair};
use crate::quantity::Measure;
use crate::results::fleet::{HubResult, PairResult};
use crate::store::StoredRun;
use crate::study::Study;
use linkrate_stats::interval::of_mean;
use linkrate_stats::sample::mean;

/// The runs of a cell around a node.
fn runs_around(runs: &[StoredRun], cell: usize, hub: u32) -> Vec<&StoredRun> {
    let cell = u32::try_from(cell).ok();
    let is_its = |run: &&StoredRun| {
        run.cell == cell && run.pair.is_some_and(|pair: Pair| pair.sender == hub)
    };
    runs.iter().filter(is_its).collect()
}

/// The nodes that were in the middle, in their order.
fn hubs(fleet: &Fleet) -> Vec<u32> {
    fleet.ever_at(&fleet.in_the_middle())
}

/// The parts of the clients in a good run.
fn parts(run: &StoredRun) -> &[ClientPart] {
    run.measurement().filter(|_| run.is_good()).map_or(&[], |run| &run.evidence.clients)
}

/// The rate of a client, bit/s, or transactions per second.
fn rate(study: &Study, cell: usize, part: &ClientPart, hub: Hub) -> Option<f64> {
    match measure_of(study, cell) {
        Measure::Transactions => part.transactions_per_second(),
        _ => part.bits_per_second(hub == Hub::Receives),
    }
}

/// Jain's index; `None` of no rates.
fn fairness(rates: &[f64]) -> Option<f64> {
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let sum: f64 = rates.iter().sum();
    (squares > 0.0).then(|| sum * sum / (squares * rates.len() as f64))
}

/// The figures of each node in the middle; empty with patterns that have none.
pub(super) fn of_cell(
    study: &Study,
    fleet: &Fleet,
    runs: &[StoredRun],
    cell: usize,
) -> Vec<HubResult> {
    let Some(side) = fleet.pattern.hub() else { return Vec::new() };
    let of_hub = |node: u32| {
        let runs = runs_around(runs, cell, node);
        let fairness = runs.iter().filter_map(|run| {
            let rates = parts(run).iter().map(|part| rate(study, cell, part, side));
            fairness(&rates.collect::<Option<Vec<f64>>>()?)
        });
        let all = pair_result(study, cell, (node, node), &runs);
        HubResult {
            node,
            runs: all.runs,
            failed: all.failed,
            rate: all.rate,
            service_demand: all.service_demand,
            p99_us: all.p99_us,
            retransmits: all.retransmits,
            fairness: mean(&fairness.collect::<Vec<_>>()),
        }
    };
    hubs(fleet).into_iter().map(of_hub).collect()
}

/// The part of each other node, as pairs by sender and receiver.
pub(super) fn pairs(
    study: &Study,
    fleet: &Fleet,
    runs: &[StoredRun],
    cell: usize,
    side: Hub,
) -> Vec<PairResult> {
    let (mut pairs, now) = (Vec::new(), fleet.now_at_places());
    for hub in hubs(fleet) {
        let runs = runs_around(runs, cell, hub);
        // the others in the order of the clients of each run
        let others = |run: &StoredRun| fleet.around(hub, run.sequence, &run.missing_nodes);
        let clients: Vec<(&StoredRun, Vec<u32>)> =
            runs.iter().map(|run| (*run, others(run))).collect();
        for node in (0..fleet.count()).filter(|node| *node != hub) {
            let client = |others: &[u32]| others.iter().position(|other| *other == node);
            let with: Vec<(&StoredRun, usize)> =
                clients.iter().filter_map(|(run, others)| Some((*run, client(others)?))).collect();
            let is_due = [hub, node].iter().all(|one| now.contains(one));
            if with.is_empty() && !is_due {
                continue;
            }
            let its: Vec<&StoredRun> = with.iter().map(|(run, _)| *run).collect();
            let all = pair_result(study, cell, (hub, hub), &its);
            let own: Vec<&ClientPart> =
                with.iter().filter_map(|(run, client)| parts(run).get(*client)).collect();
            let rates: Vec<f64> =
                own.iter().filter_map(|part| rate(study, cell, part, side)).collect();
            // of one to many, the node in the middle sends, and its sockets are counted together
            let resent: Vec<f64> = match side {
                Hub::Receives => own.iter().map(|part| part.retransmits as f64).collect(),
                Hub::Sends => Vec::new(),
            };
            let (sender, receiver) = match side {
                Hub::Receives => (node, hub),
                Hub::Sends => (hub, node),
            };
            pairs.push(PairResult {
                sender,
                receiver,
                rate: of_mean(&rates, study.method.confidence),
                service_demand: None,
                p99_us: None,
                // absent without TCP
                retransmits: all.retransmits.and_then(|_| mean(&resent)),
                ..all
            });
        }
    }
    pairs.sort_unstable_by_key(|pair| (pair.sender, pair.receiver));
    pairs
}

/// What stands out, where turns with a node in the middle were compared: this node, in its direction.
pub(super) fn subject(fleet: &Fleet, found: Subject) -> Subject {
    match (fleet.pattern.hub(), found) {
        (Some(Hub::Receives), Subject::Pair { receiver: node, .. }) => Subject::Receiver { node },
        (Some(Hub::Sends), Subject::Pair { sender: node, .. }) => Subject::Sender { node },
        _ => found,
    }
}

#[cfg(test)]
mod tests {
    use linkrate_model::measurement::Traffic;

    use super::*;
    use crate::fixture;
    use crate::fleet::rounds::tests::study_of;
    use crate::fleet::{Pattern, results};
    use crate::quantity::Interval;
    use crate::store::StoredStudy;

    const BLOCKS: u32 = 6;

    /// Six blocks of four nodes: each sender gets a third of what the sink takes, and n1 takes `slow` of it.
    fn measured(pattern: Pattern, slow: f64) -> StoredStudy {
        let text = "title = \"t\"\n[factors]\nmessage = [\"64 KiB\"]\n";
        let study = study_of(4, pattern, text);
        let fleet = study.fleet.clone().unwrap();
        let mut runs = Vec::new();
        for block in 0..BLOCKS {
            for turn in crate::fleet::rounds::block_rounds(&fleet, 1, block).concat() {
                let noise = 1.0 + f64::from((turn.number * 7) % 5) * 1e-3;
                let rate = if turn.pair.sender == 1 { 9e9 * slow } else { 9e9 } * noise;
                let shares = [0.5, 0.25, 0.25];
                let part = |(client, share): (u64, &f64)| {
                    let bytes = (rate * share / 8.0) as u64;
                    let (sent_bytes, received_bytes) =
                        if pattern == Pattern::Incast { (bytes, 0) } else { (0, bytes) };
                    let (transactions, retransmits) = (0, client * 10);
                    ClientPart {
                        seconds: 1.0,
                        sent_bytes,
                        received_bytes,
                        transactions,
                        retransmits,
                    }
                };
                let mut measured = fixture::stream(rate, 0.5);
                let bytes = measured.traffic.transmit_bytes;
                if pattern == Pattern::Incast {
                    measured.traffic = Traffic {
                        receive_bytes: bytes,
                        receive_seconds: 2.0,
                        ..Traffic::default()
                    };
                }
                measured.evidence.clients = (0..).zip(&shares).map(part).collect();
                let sequence = u32::try_from(runs.len()).unwrap();
                let run = fixture::run_of(&study, sequence, turn.number, 0, measured);
                runs.push(StoredRun { pair: Some(turn.pair), ..run });
            }
        }
        fixture::under_way(study, runs)
    }

    fn near(interval: Option<Interval>, expected: f64) {
        let mean = interval.expect("an interval").mean;
        assert!((mean / expected - 1.0).abs() < 0.01, "{mean}, expected {expected}");
    }

    #[test]
    fn a_sink_has_the_sum_and_each_sender_its_part() {
        let of = results::of(&measured(Pattern::Incast, 1.0)).unwrap();
        let cell = &of.cells[0];
        assert_eq!((cell.hubs.len(), cell.pairs.len()), (4, 12));
        near(cell.hubs[2].rate, 9e9);
        assert_eq!((cell.hubs[2].node, cell.hubs[2].runs), (2, BLOCKS));
        // (1/2 + 1/4 + 1/4)² / (3 × (1/4 + 1/16 + 1/16))
        assert!((cell.hubs[2].fairness.unwrap() - 1.0 / 1.125).abs() < 1e-6);
        let part = |sender, receiver| {
            let is_it = |pair: &&PairResult| (pair.sender, pair.receiver) == (sender, receiver);
            cell.pairs.iter().find(is_it).unwrap()
        };
        near(part(0, 2).rate, 4.5e9);
        near(part(1, 2).rate, 2.25e9);
        near(part(3, 2).rate, 2.25e9);
        near(part(1, 0).rate, 4.5e9);
        assert_eq!((part(0, 2).retransmits, part(3, 2).retransmits), (Some(0.0), Some(20.0)));
        assert!(cell.named.is_empty(), "{:?}", cell.named);
        assert_eq!(cell.comparisons, 4);
        assert!(cell.limits.as_ref().unwrap().contains("not compared"));
    }

    #[test]
    fn a_slow_node_in_the_middle_stands_out_in_its_direction() {
        for (pattern, subject) in [
            (Pattern::Incast, Subject::Receiver { node: 1 }),
            (Pattern::OneToMany, Subject::Sender { node: 1 }),
        ] {
            let of = results::of(&measured(pattern, 0.5)).unwrap();
            let named: Vec<Subject> = of.cells[0].named.iter().map(|named| named.subject).collect();
            assert_eq!(named, [subject]);
            assert!((of.cells[0].named[0].ratio.mean - 0.5).abs() < 0.01);
        }
    }

    #[test]
    fn fairness_is_one_of_equals_and_one_over_their_number_of_one() {
        assert_eq!(fairness(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(fairness(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(fairness(&[0.0, 0.0]), None);
        assert_eq!(fairness(&[]), None);
    }
}
