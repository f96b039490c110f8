//! Figures of the pairs of a fleet, and what stands out, in words.

use linkrate_model::clean;
use linkrate_stats::trend::median;
use linkrate_study::fleet::Hub;
use linkrate_study::labels;
use linkrate_study::results::StudyResults;
use linkrate_study::results::fleet::{FleetCell, FleetResults, HubResult, PairResult};

use crate::number::{self, Scale};
use crate::words::marks;

/// A figure of a pair that a matrix shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Throughput, or transactions per second.
    Rate,
    /// CPU time of the sender.
    ServiceDemand,
    /// The 99th percentile of the latency.
    P99,
    /// Retransmitted segments of a run.
    Retransmits,
}

/// Changes of places that are told one by one.
const MAX_REPORTED: usize = 8;

/// The nodes that took the places of others, in a sentence.
pub fn replaced(of: &FleetResults) -> Option<String> {
    let reported =
        of.replaced.iter().take(MAX_REPORTED).map(String::as_str).collect::<Vec<_>>().join("; ");
    match of.replaced.len() {
        0 => None,
        1..=MAX_REPORTED => Some(format!("Other nodes: {reported}.")),
        all => Some(format!("Other nodes: {reported}; and {} more changes.", all - MAX_REPORTED)),
    }
}

/// All figures, in the order of their matrices.
pub const FIGURES: [Figure; 4] =
    [Figure::Rate, Figure::ServiceDemand, Figure::P99, Figure::Retransmits];

impl Figure {
    /// The figure of a pair, in bit/s, transactions per second, µs, or segments.
    pub fn of(self, pair: &PairResult) -> Option<f64> {
        match self {
            Self::Rate => pair.rate.map(|rate| rate.mean),
            Self::ServiceDemand => pair.service_demand.map(|demand| demand.mean),
            Self::P99 => pair.p99_us,
            Self::Retransmits => pair.retransmits,
        }
    }

    /// Whether any pair has it, and whether it tells anything.
    pub fn is_known(self, cell: &FleetCell) -> bool {
        let mut known = cell.pairs.iter().filter_map(|pair| self.of(pair));
        match self {
            Self::Retransmits => known.any(|count| count > 0.0),
            // without any figure, the matrix of failures is what there is to see
            Self::Rate => true,
            _ => known.next().is_some(),
        }
    }

    /// The unit that suits the largest figure.
    pub fn scale(self, cell: &FleetCell) -> Scale {
        let largest = cell.pairs.iter().filter_map(|pair| self.of(pair)).fold(0.0, f64::max);
        let of = |divisor, unit| Scale { divisor, unit };
        match self {
            Self::Rate => Self::scale_of_rate(cell, largest),
            Self::ServiceDemand if cell.transactional => of(1.0, "µs a transaction"),
            Self::ServiceDemand => of(1.0, "µs/KB"),
            Self::P99 => of(1.0, "µs"),
            Self::Retransmits => of(1.0, "segments a run"),
        }
    }

    /// The unit that suits a rate.
    fn scale_of_rate(cell: &FleetCell, largest: f64) -> Scale {
        let of = |divisor, unit| Scale { divisor, unit };
        match cell.transactional {
            true => of(1.0, "/s"),
            false if largest >= 1e9 => of(1e9, "Gb/s"),
            false => of(1e6, "Mb/s"),
        }
    }

    /// What it is called.
    pub fn name(self, cell: &FleetCell) -> &'static str {
        match self {
            Self::Rate if cell.transactional => "transactions",
            Self::Rate => "throughput",
            Self::ServiceDemand => "service demand of the sender",
            Self::P99 => "99th percentile of the latency",
            Self::Retransmits => "retransmissions",
        }
    }

    /// The figure of a pair without its unit; the reason for an absent one.
    pub fn text(self, pair: &PairResult, scale: &Scale) -> String {
        match self.of(pair) {
            Some(value) => number::significant(value / scale.divisor, 3),
            None if pair.failed > 0 => "failed".to_owned(),
            None => "–".to_owned(),
        }
    }

    /// The median over the pairs in which a node sends, or receives.
    pub fn median(self, cell: &FleetCell, node: usize, sends: bool, scale: &Scale) -> String {
        let number = |pair: &&PairResult| if sends { pair.sender } else { pair.receiver };
        let own = cell.pairs.iter().filter(|pair| number(pair) as usize == node);
        let mut values: Vec<f64> = own.filter_map(|pair| self.of(pair)).collect();
        let shown = |median: f64| number::significant(median / scale.divisor, 3);
        median(&mut values).map_or_else(|| "–".to_owned(), shown)
    }
}

/// The pair of two nodes, if it is one of the pattern.
pub fn pair(cell: &FleetCell, sender: usize, receiver: usize) -> Option<&PairResult> {
    let nodes = (u32::try_from(sender).ok()?, u32::try_from(receiver).ok()?);
    let found = cell.pairs.binary_search_by_key(&nodes, |pair| (pair.sender, pair.receiver));
    cell.pairs.get(found.ok()?)
}

/// The mark of the figures of a cell; empty where the adapter limited it.
pub fn mark(results: &StudyResults, cell: &FleetCell) -> &'static str {
    let own = results.cells.iter().find(|of| of.levels == cell.levels);
    own.map_or("", |own| marks::of_cell(results, own))
}

/// The heading of a matrix.
pub fn title(results: &StudyResults, cell: &FleetCell, figure: Figure, scale: &Scale) -> String {
    let name = figure.name(cell);
    let at = match results.cells.len() {
        1 => String::new(),
        _ => format!(", {}", labels::cell(&cell.levels)),
    };
    let mark = mark(results, cell);
    format!("{}{} of each pair{at}, {}{mark}", name[..1].to_uppercase(), &name[1..], scale.unit)
}

/// The figures of all others together with a node in the middle.
fn together(of: &FleetResults, cell: &FleetCell, hub: &HubResult) -> String {
    let name = of.name(hub.node);
    let sends = of.pattern.hub() == Some(Hub::Sends);
    let way = if sends { format!("{name} to all others") } else { format!("all others to {name}") };
    let Some(rate) = hub.rate else {
        return format!("{way}: no figures, {} runs failed", hub.failed);
    };
    let scale = Figure::scale_of_rate(cell, rate.mean);
    let mut said =
        format!("{way}: {} {}", number::significant(rate.mean / scale.divisor, 3), scale.unit);
    if let (Some(low), Some(high)) = (rate.low, rate.high) {
        let shown = |end: f64| number::significant(end / scale.divisor, 3);
        said += &format!(" ({} to {})", shown(low), shown(high));
    }
    if let Some(fairness) = hub.fairness {
        said += &format!(", Jain's index {fairness:.3}");
    }
    let is_its = |pair: &&PairResult| hub.node == if sends { pair.sender } else { pair.receiver };
    let rates = cell.pairs.iter().filter(is_its).filter_map(|pair| Some((pair, pair.rate?.mean)));
    if let Some((pair, least)) = rates.min_by(|a, b| a.1.total_cmp(&b.1)) {
        let node = if sends { pair.receiver } else { pair.sender };
        said += &format!(
            ", least with {}: {} {}",
            of.name(node),
            number::significant(least / scale.divisor, 3),
            scale.unit
        );
    }
    if let Some(count) = hub.retransmits {
        said += &format!(", {count:.0} segments sent again a run");
    }
    said
}

/// What stands out in a cell, or that nothing does.
pub fn sentences(of: &FleetResults, cell: &FleetCell) -> Vec<String> {
    let at = match of.cells.len() {
        1 => String::new(),
        _ => format!(" ({})", labels::cell(&cell.levels)),
    };
    let mut said: Vec<String> =
        cell.hubs.iter().map(|hub| format!("{}{at}", together(of, cell, hub))).collect();
    for named in &cell.named {
        let change = number::change(&named.ratio);
        let ends = change.ends.map(|ends| format!(" ({ends})")).unwrap_or_default();
        said.push(format!(
            "stands out{at}: {}: {}{ends}, adjusted p = {:.2e}",
            of.subject(named.subject),
            change.mean,
            named.p
        ));
        said.extend(named.evidence.iter().map(|clause| format!("  {clause}")));
    }
    for shared in &cell.shared {
        let value = shared
            .value
            .as_deref()
            .map_or("not known".into(), |value| clean::short_line(value, 80));
        said.push(format!(
            "slow nodes have in common{at}: {} is {value} on {} of {}, and on {} of {} other nodes, adjusted p = {:.2e}",
            shared.fact, shared.slow, shared.of_slow, shared.others, shared.of_others, shared.p
        ));
    }
    if cell.named.is_empty() && cell.comparisons > 0 {
        said.push(format!(
            "nothing stands out{at}: {} effects of nodes and pairs were compared, and no effect is shown to be {} or more",
            cell.comparisons,
            number::percent(of.minimum_effect)
        ));
    }
    said.extend(cell.limits.iter().map(|limits| format!("note{at}: {limits}")));
    said
}
