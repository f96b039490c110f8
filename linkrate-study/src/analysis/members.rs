//! The shares of the members of bonds and teams of the host: figures of a cell, and a warning when
//! one member carries far more than the others.

use linkrate_model::Measurement;

use crate::results::MemberFigures;
use crate::store::StoredRun;
use linkrate_stats::sample::mean;

/// A hash is uneven when one member carries this many times what it would carry of an even one.
const UNEVEN: f64 = 1.5;

/// The shares of each member, means over the runs.
pub fn figures(runs: &[&Measurement]) -> Vec<MemberFigures> {
    let mut named: Vec<(&str, &str)> = Vec::new();
    for link in runs.iter().flat_map(|run| &run.evidence.links) {
        for member in link.aggregate.iter().flat_map(|aggregate| &aggregate.members) {
            let name = (link.interface.as_str(), member.name.as_str());
            if !named.contains(&name) {
                named.push(name);
            }
        }
    }
    let of = |(interface, member): (&str, &str), direction: usize| {
        let links = runs.iter().flat_map(|run| &run.evidence.links);
        let links = links.filter(|link| link.interface == interface);
        let shares = links.filter_map(|link| {
            let shares = link.aggregate.as_ref()?.shares();
            shares.into_iter().find(|(name, _)| *name == member)?.1[direction]
        });
        mean(&shares.collect::<Vec<_>>())
    };
    let figures = named.into_iter().map(|name| MemberFigures {
        aggregate: name.0.to_owned(),
        member: name.1.to_owned(),
        tx_percent: of(name, 0),
        rx_percent: of(name, 1),
    });
    figures.collect()
}

/// One sentence for each direction of an aggregate in which a member carried far more than its
/// share. Without the mode an active member and its backups would look the same.
pub fn uneven(name: &str, runs: &[&StoredRun]) -> Vec<String> {
    let good: Vec<&Measurement> = runs.iter().filter_map(|run| run.measurement()).collect();
    let spreads = |interface: &str| {
        let links = good.iter().flat_map(|run| &run.evidence.links);
        let mut links = links.filter(|link| link.interface == interface);
        links.any(|link| link.aggregate.as_ref().is_some_and(|one| one.spreads()))
    };
    let figures = figures(&good);
    let mut found = Vec::new();
    for (verb, share) in [
        ("sent", (|one: &MemberFigures| one.tx_percent) as fn(&MemberFigures) -> Option<f64>),
        ("received", |one| one.rx_percent),
    ] {
        for one in figures.iter().filter(|one| spreads(&one.aggregate)) {
            let members = figures.iter().filter(|other| other.aggregate == one.aggregate).count();
            let even = 100.0 / members.max(1) as f64;
            let Some(percent) = share(one).filter(|share| *share >= even * UNEVEN) else {
                continue;
            };
            found.push(format!(
                "{name}: {} of aggregate {} {verb} {percent:.0} % of its bytes; even shares of its \
                 {members} members would be {even:.0} %.",
                one.member, one.aggregate
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use linkrate_model::existing_aggregate::{ExistingAggregate, ExistingMember};
    use linkrate_model::measurement::{InterfaceCounts, LinkEvidence};

    use super::*;
    use crate::fixture;
    use crate::store::Outcome;

    fn link(mode: &str, sent: [u64; 2]) -> LinkEvidence {
        let member = |(name, tx_bytes): (&str, u64)| ExistingMember {
            name: name.to_owned(),
            counts: InterfaceCounts { tx_bytes, rx_bytes: 50, ..InterfaceCounts::default() },
            ..ExistingMember::default()
        };
        let aggregate = ExistingAggregate {
            mode: Some(mode.to_owned()),
            members: ["eth2", "eth3"].into_iter().zip(sent).map(member).collect(),
            ..ExistingAggregate::default()
        };
        let aggregate = Some(Box::new(aggregate));
        LinkEvidence { interface: "bond0".to_owned(), rate: None, aggregate }
    }

    fn stored(mode: &str, sent: [u64; 2]) -> StoredRun {
        let mut run = fixture::run(0, 0, Some(0), fixture::stream(100e6, 50.0));
        if let Outcome::Measured(measured) = &mut run.outcome {
            measured.evidence.links = vec![link(mode, sent)];
        }
        run
    }

    #[test]
    fn shares_are_means_over_the_runs() {
        let runs = [stored("802.3ad", [90, 10]), stored("802.3ad", [70, 30])];
        let good: Vec<&Measurement> = runs.iter().filter_map(|run| run.measurement()).collect();
        let figures = figures(&good);
        let seen: Vec<_> =
            figures.iter().map(|f| (f.member.as_str(), f.tx_percent, f.rx_percent)).collect();
        assert_eq!(seen, [("eth2", Some(80.0), Some(50.0)), ("eth3", Some(20.0), Some(50.0))]);
        let reported = uneven("cell", &runs.iter().collect::<Vec<_>>());
        assert_eq!(
            reported,
            ["cell: eth2 of aggregate bond0 sent 80 % of its bytes; even shares of its 2 members \
              would be 50 %."]
        );
    }

    #[test]
    fn even_shares_and_one_active_member_are_no_warning() {
        for one in [stored("802.3ad", [60, 40]), stored("active-backup", [100, 0])] {
            assert!(uneven("cell", &[&one]).is_empty());
        }
        assert!(figures(&[]).is_empty());
    }
}
