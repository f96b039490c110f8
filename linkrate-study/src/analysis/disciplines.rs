//! Queue disciplines of the system under test and of its clients: figures of a cell, and the discipline that may
//! have limited what one of the two ends sends.

use std::collections::BTreeSet;

use linkrate_model::Measurement;
use linkrate_model::discipline::Discipline;

use crate::results::DisciplineFigures;
use crate::verdict::{DISCIPLINE_BOUND_PERCENT, DisciplineShare, FlowDirection};
use linkrate_stats::sample::mean;

/// The disciplines of one end in a run.
pub type Of = fn(&Measurement) -> &[Discipline];

/// Those of the system under test.
pub fn of_sut(run: &Measurement) -> &[Discipline] {
    &run.evidence.disciplines
}

/// Those of the clients that are agents.
pub fn of_clients(run: &Measurement) -> &[Discipline] {
    &run.evidence.client_disciplines
}

/// What makes disciplines of several runs one: handles change when a discipline is made again.
fn is_alike(one: &Discipline, other: &Discipline) -> bool {
    let of = |it: &Discipline| (it.interface.clone(), it.kind.clone(), it.parent.clone(), it.rate);
    of(one) == of(other)
}

/// The disciplines of the runs that were alike, each as means over those of its runs.
pub fn figures(runs: &[&Measurement], of: Of) -> Vec<DisciplineFigures> {
    let mut alike: Vec<Vec<&Discipline>> = Vec::new();
    for one in runs.iter().flat_map(|run| of(run)) {
        match alike.iter_mut().find(|all| is_alike(all[0], one)) {
            Some(all) => all.push(one),
            None => alike.push(vec![one]),
        }
    }
    let figures = alike.into_iter().map(|all| {
        let mean_of = |pick: fn(&Discipline) -> u64| {
            mean(&all.iter().map(|one| pick(one) as f64).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        let percents: Vec<f64> = all.iter().filter_map(|one| one.rate_percent()).collect();
        DisciplineFigures {
            interface: all[0].interface.clone(),
            kind: all[0].kind.clone(),
            parent: all[0].parent.clone(),
            runs: u32::try_from(all.len()).unwrap_or(u32::MAX),
            rate_bits_per_second: all[0].rate.map(|rate| rate.0),
            rate_percent: mean(&percents),
            drops: mean_of(|one| one.counts.dropped),
            overlimits: mean_of(|one| one.counts.overlimits),
            requeues: mean_of(|one| one.counts.requeues),
            backlog_bytes: mean_of(|one| one.counts.backlog_bytes),
        }
    });
    figures.collect()
}

/// The discipline that held packets back in each of these runs, of those through which traffic in this
/// direction is sent. Transactions pass the disciplines of both ends.
pub fn holding_back(
    runs: &[&Measurement],
    direction: Option<FlowDirection>,
) -> Option<DisciplineShare> {
    let sut = || holding_back_of(runs, of_sut, in_run);
    let clients = || holding_back_of(runs, of_clients, in_all_clients);
    match direction {
        Some(FlowDirection::Transmit) => sut(),
        Some(FlowDirection::Receive) => clients(),
        None => sut().or_else(clients),
    }
}

/// The disciplines that held back packets of clients; empty where a client has no such discipline, because
/// nothing then keeps it from sending in the place of the others.
fn in_all_clients(all: &[Discipline]) -> Vec<&Discipline> {
    let held = in_run(all);
    let clients = |of: &mut dyn Iterator<Item = &Discipline>| -> BTreeSet<String> {
        of.map(|one| one.interface.split(':').next().unwrap_or_default().to_owned()).collect()
    };
    let is_free = clients(&mut all.iter()) != clients(&mut held.iter().copied());
    if is_free { Vec::new() } else { held }
}

/// The discipline that held packets back in each of these runs: of several, as on the ports of an
/// aggregate, the one that held back the most in the first run. `None` if no discipline did in all of
/// them. Packets that arrive pass no discipline with a queue.
fn holding_back_of<'a>(
    runs: &[&'a Measurement],
    of: Of,
    held: impl Fn(&'a [Discipline]) -> Vec<&'a Discipline>,
) -> Option<DisciplineShare> {
    let held: Vec<Vec<&Discipline>> = runs.iter().map(|run| held(of(run))).collect();
    // the same one of each run
    let found: Vec<&Discipline> = held.first()?.iter().find_map(|first| {
        held.iter()
            .map(|of_run| of_run.iter().copied().find(|one| is_alike(first, one)))
            .collect::<Option<Vec<&Discipline>>>()
    })?;
    let first = *found.first()?;
    let all = runs.iter().flat_map(|run| of(run)).map(|one| one.interface.as_str());
    let others: BTreeSet<&str> = all.filter(|interface| *interface != first.interface).collect();
    let holds = |interface: &&str, is_kind: &dyn Fn(&str) -> bool| {
        held.iter()
            .all(|run| run.iter().any(|one| one.interface == *interface && is_kind(&one.kind)))
    };
    let named = |pick: &dyn Fn(&&str) -> bool| -> Vec<String> {
        others.iter().copied().filter(|interface| pick(interface)).map(str::to_owned).collect()
    };
    let mean_of = |pick: fn(&Discipline) -> Option<f64>| {
        mean(&found.iter().filter_map(|one| pick(one)).collect::<Vec<_>>())
    };
    Some(DisciplineShare {
        interface: first.interface.clone(),
        beside: named(&|interface| holds(interface, &|kind| kind == first.kind)),
        free: named(&|interface| !holds(interface, &|_| true)),
        kind: first.kind.clone(),
        rate: first.rate,
        rate_percent: mean_of(Discipline::rate_percent),
        waited: found.iter().all(|one| one.counts.held_back()),
        overlimits: mean_of(|one| Some(one.counts.overlimits as f64))?,
        drops: mean_of(|one| Some(one.counts.dropped as f64))?,
    })
}

/// The disciplines of a run that held packets back, most first: by the share of their own rate, then by
/// packets over their limit.
fn in_run(all: &[Discipline]) -> Vec<&Discipline> {
    let share = |one: &Discipline| one.rate_percent().unwrap_or(0.0);
    let holds = |one: &&Discipline| {
        let counts = &one.counts;
        let any = counts.overlimits > 0 || counts.dropped > 0 || counts.backlog_bytes > 0;
        counts.held_back() || (any && share(one) >= DISCIPLINE_BOUND_PERCENT)
    };
    let mut held: Vec<&Discipline> = all.iter().filter(holds).collect();
    held.sort_by(|one, other| {
        let by_share = share(other).total_cmp(&share(one));
        by_share.then(other.counts.overlimits.cmp(&one.counts.overlimits))
    });
    held
}

#[cfg(test)]
mod tests {
    use linkrate_model::BitRate;
    use linkrate_model::discipline::{self, DisciplineCounts};

    use super::*;

    const TRANSMIT: Option<FlowDirection> = Some(FlowDirection::Transmit);
    use crate::fixture;

    fn tbf(handle: &str, megabits: u64) -> Discipline {
        Discipline {
            interface: "eth0".to_owned(),
            kind: "tbf".to_owned(),
            handle: handle.to_owned(),
            parent: "root".to_owned(),
            queues: 1,
            rate: Some(BitRate(5e8)),
            counts: DisciplineCounts {
                time_ns: 1_000_000_000,
                bytes: megabits * 125_000,
                overlimits: 4000,
                dropped: 7,
                ..DisciplineCounts::default()
            },
            ..Discipline::default()
        }
    }

    fn run(disciplines: Vec<Discipline>) -> Measurement {
        let mut run = fixture::stream(5e8, 0.2);
        run.evidence.disciplines = disciplines;
        run
    }

    #[test]
    fn a_tbf_at_its_rate_held_packets_back_in_all_runs() {
        let none = Discipline { kind: "noqueue".to_owned(), ..Discipline::default() };
        let runs = [run(vec![none.clone(), tbf("8001:", 498)]), run(vec![tbf("8002:", 496), none])];
        let found = holding_back(&runs.each_ref(), TRANSMIT).unwrap();
        assert_eq!((found.interface.as_str(), found.kind.as_str()), ("eth0", "tbf"));
        assert!((found.rate_percent.unwrap() - 99.4).abs() < 1e-9, "{found:?}");
        assert_eq!((found.overlimits, found.drops, found.waited), (4000.0, 7.0, false));

        let figures = figures(&runs.each_ref(), of_sut);
        let named = |kind| figures.iter().find(|one| one.kind == kind).unwrap();
        assert_eq!((figures.len(), named("tbf").runs, named("tbf").drops), (2, 2, 7.0));
        assert_eq!(named("noqueue").rate_percent, None);
    }

    #[test]
    fn of_disciplines_on_several_ports_one_that_held_packets_back_in_all_runs_is_named() {
        let on = |interface: &str, megabits| Discipline {
            interface: interface.to_owned(),
            ..tbf("8001:", megabits)
        };
        // which of the two is the fuller changes from run to run
        let first = run(vec![on("eth0", 498), on("eth1", 496)]);
        let second = run(vec![on("eth0", 496), on("eth1", 498)]);
        let found = holding_back(&[&first, &second], TRANSMIT).unwrap();
        assert_eq!(found.interface, "eth0");
        assert!((found.rate_percent.unwrap() - 99.4).abs() < 1e-9, "{found:?}");
        // the fullest of the first run was free in another one
        let third = run(vec![on("eth0", 300), on("eth1", 497)]);
        assert_eq!(holding_back(&[&first, &second, &third], TRANSMIT).unwrap().interface, "eth1");
        assert_eq!((&found.beside[..], &found.free[..]), (&["eth1".to_owned()][..], &[][..]));
        let fourth = run(vec![on("eth0", 498), on("eth1", 300)]);
        // one of the ports is limited, and the others are free
        let unlimited = Discipline { kind: "noqueue".to_owned(), ..on("eth2", 0) };
        let partly = run(vec![on("eth0", 300), on("eth1", 497), unlimited]);
        let found = holding_back(&[&third, &partly], TRANSMIT).unwrap();
        assert_eq!((found.interface.as_str(), found.beside.len()), ("eth1", 0));
        assert_eq!(found.free, ["eth0", "eth2"]);
        assert_eq!(holding_back(&[&first, &third, &fourth], TRANSMIT), None, "none in all runs");
    }

    /// A run with these disciplines of clients, by the client's number.
    fn of_clients_run(disciplines: &[(usize, Discipline)]) -> Measurement {
        let mut run = run(vec![tbf("1:", 498)]);
        run.evidence.client_disciplines = disciplines
            .iter()
            .flat_map(|(number, one)| discipline::of_client(*number, std::slice::from_ref(one)))
            .collect();
        run
    }

    #[test]
    fn disciplines_of_clients_limit_what_the_sut_receives() {
        let free = Discipline { kind: "noqueue".to_owned(), ..tbf("0:", 0) };
        let named = |disciplines: &[(usize, Discipline)], direction| {
            let run = of_clients_run(disciplines);
            holding_back(&[&run], direction).map(|found| found.interface)
        };
        let both = [(0, tbf("1:", 496)), (1, tbf("1:", 498))];
        assert_eq!(named(&both, Some(FlowDirection::Receive)).as_deref(), Some("client 1: eth0"));
        assert_eq!(named(&both, TRANSMIT).as_deref(), Some("eth0"));
        // another client is free to send
        let one = [(0, tbf("1:", 498)), (1, free.clone())];
        assert_eq!(named(&one, Some(FlowDirection::Receive)), None);
        assert_eq!(named(&[(0, free)], Some(FlowDirection::Receive)), None);
        assert_eq!(named(&[], Some(FlowDirection::Receive)), None);
        // requests pass those of clients, responses those of the SUT
        assert_eq!(named(&both, None).as_deref(), Some("eth0"));
        let mut run = of_clients_run(&both);
        run.evidence.disciplines.clear();
        let found = holding_back(&[&run], None).map(|found| found.interface);
        assert_eq!(found.as_deref(), Some("client 1: eth0"));
    }

    #[test]
    fn a_discipline_that_does_not_limit_is_not_named() {
        let slow = tbf("1:", 480);
        assert_eq!(holding_back(&[&run(vec![slow.clone()])], TRANSMIT), None, "below its rate");
        let mut free = tbf("1:", 499);
        (free.counts.overlimits, free.counts.dropped) = (0, 0);
        assert_eq!(holding_back(&[&run(vec![free])], TRANSMIT), None, "nothing was held back");
        // a queue that was never empty tells without the rate
        let mut waits = slow;
        (waits.counts.backlog_opened_bytes, waits.counts.backlog_bytes) = (9000, 4500);
        let found = holding_back(&[&run(vec![waits.clone()])], TRANSMIT).unwrap();
        assert!(found.waited, "{found:?}");
        let other = run(vec![Discipline { kind: "htb".to_owned(), ..waits.clone() }]);
        assert_eq!(
            holding_back(&[&run(vec![waits]), &other], TRANSMIT),
            None,
            "another in each run"
        );
        assert_eq!(holding_back(&[&run(Vec::new())], TRANSMIT), None);
        assert_eq!(holding_back(&[], TRANSMIT), None);
    }
}
