//! Effects of one step between levels, gathered and put into words.
//!
//! A step (from no offload to TSO) has an effect at each combination of the other factors. They
//! stand together: one clause for each combination of named levels (direction), in which
//! numbers (ports, sizes) are listed. Falls and rises never share a verb.

use linkrate_study::labels;
use linkrate_study::levels::{Level, Levels};
use linkrate_study::quantity::Measure;
use linkrate_study::results::{CellResult, Effect, StudyResults};
use linkrate_study::study::PART;

use crate::number;
use crate::words::{self, marks};
use linkrate_stats::interval::MIN_TO_CLAIM;

/// A step of one factor, within one part of the study, and its effects on one measure.
#[derive(Debug, Clone)]
pub struct Step<'a> {
    results: &'a StudyResults,
    pub factor: &'a str,
    pub from: &'a Level,
    pub to: &'a Level,
    /// The part of the study; absent in a study without parts.
    pub part: Option<&'a Level>,
    pub measure: Measure,
    /// Indices of the effects.
    pub effects: Vec<usize>,
}

/// Every step, in the order of the results. Effects of too few blocks to claim anything have none, and neither have those
/// that are the same fact as another.
pub fn all(results: &StudyResults) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let effects = results.effects.iter().enumerate();
    let judged =
        |(_, effect): &(usize, &Effect)| effect.pairs >= MIN_TO_CLAIM && effect.same_as.is_none();
    for (index, effect) in effects.filter(judged) {
        let part = effect.at.get(PART);
        let same = |step: &&mut Step<'_>| {
            (step.factor, step.from, step.to, step.part, step.measure)
                == (effect.factor.as_str(), &effect.from, &effect.to, part, effect.measure)
        };
        match steps.iter_mut().find(same) {
            Some(step) => step.effects.push(index),
            None => steps.push(Step {
                results,
                factor: &effect.factor,
                from: &effect.from,
                to: &effect.to,
                part,
                measure: effect.measure,
                effects: vec![index],
            }),
        }
    }
    steps
}

/// The levels that a factor takes in one part, in the order of the cells.
pub fn levels<'a>(results: &'a StudyResults, factor: &str, part: Option<&Level>) -> Vec<&'a Level> {
    let mut levels = Vec::new();
    for cell in results.cells.iter().filter(|cell| cell.levels.get(PART) == part) {
        if let Some(level) = cell.levels.get(factor).filter(|level| !levels.contains(level)) {
            levels.push(level);
        }
    }
    levels
}

/// Every level that a factor takes, in the order of the cells.
pub fn all_levels<'a>(results: &'a StudyResults, factor: &str) -> Vec<&'a Level> {
    let mut levels = Vec::new();
    for cell in &results.cells {
        levels.extend(cell.levels.get(factor).filter(|level| !levels.contains(level)));
    }
    levels
}

/// Whether a factor's levels are at least three numbers or sizes: something to go along.
pub fn is_scale(levels: &[&Level]) -> bool {
    levels.len() >= 3 && levels.iter().all(|level| labels::number(level).is_some())
}

/// Which way an effect goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Down,
    Up,
}

impl<'a> Step<'a> {
    fn effect(&self, index: usize) -> &'a Effect {
        &self.results.effects[index]
    }

    /// The effects that are claimed.
    pub fn claimed(&self) -> Vec<usize> {
        self.effects.iter().copied().filter(|index| self.effect(*index).significant).collect()
    }

    /// Claimed effects that are better, or worse, for the host.
    pub fn claimed_for(&self, better: bool) -> Vec<usize> {
        let more_is_better = self.measure.more_is_better();
        let is_better = |index: &usize| (self.effect(*index).ratio.mean > 1.0) == more_is_better;
        self.claimed().into_iter().filter(|index| is_better(index) == better).collect()
    }

    /// Whether an effect is shown to exist, with its size open.
    pub fn differs(&self) -> bool {
        self.effects.iter().any(|index| self.effect(*index).different)
    }

    /// Whether such an effect is for the worse.
    pub fn has_adverse_difference(&self) -> bool {
        let more_is_better = self.measure.more_is_better();
        let is_adverse =
            |effect: &Effect| effect.different && (effect.ratio.mean > 1.0) != more_is_better;
        self.effects.iter().any(|index| is_adverse(self.effect(*index)))
    }

    /// Whether an effect for the worse is shown, or is not shown though its own interval excludes no change.
    pub fn may_lose(&self) -> bool {
        let more_is_better = self.measure.more_is_better();
        let is_worse = |effect: &Effect| (effect.ratio.mean > 1.0) != more_is_better;
        let is_apart = |effect: &Effect| {
            effect.significant || effect.different || words::is_not_significant(effect)
        };
        let mut effects = self.effects.iter().map(|index| self.effect(*index));
        effects.any(|effect| is_worse(effect) && is_apart(effect))
    }

    /// The cell at one end of an effect.
    pub fn cell(&self, index: usize, end: &Level) -> Option<&'a CellResult> {
        let effect = self.effect(index);
        let is_it = |cell: &&CellResult| {
            cell.levels.get(&effect.factor) == Some(end)
                && cell.levels.without(&effect.factor).0.len() == effect.at.0.len()
                && effect.at.0.iter().all(|(name, level)| cell.levels.get(name) == Some(level))
        };
        self.results.cells.iter().find(is_it)
    }

    /// `service demand`, or `service demand per transaction`.
    pub fn measured(&self) -> &'static str {
        let of_transactions = self
            .effects
            .first()
            .and_then(|index| self.cell(*index, self.to))
            .is_some_and(|cell| cell.transactions.is_some());
        match self.measure {
            Measure::ServiceDemand if of_transactions => "service demand per transaction",
            measure => measure.word(),
        }
    }

    /// The step as the subject of a sentence.
    pub fn subject(&self) -> labels::Subject {
        labels::subject(self.factor, self.from, self.to)
    }

    /// What the claimed effects among `chosen` are, behind the step's subject: `reduces transmit
    /// service demand by 64 % (62 to 66 %)`. Those of this machine come last, and say so. Empty when none is claimed.
    pub fn reported(&self, chosen: &[usize]) -> String {
        let is_of_adapter = |index: &&usize| marks::of_effect(self.effect(**index)).is_empty();
        let (adapter, machine): (Vec<usize>, Vec<usize>) = chosen.iter().partition(is_of_adapter);
        match (self.told_of(&adapter), self.told_of(&machine)) {
            (adapter, machine) if machine.is_empty() => adapter,
            (adapter, machine) if adapter.is_empty() => format!("on this machine {machine}"),
            (adapter, machine) => format!("{adapter}, and on this machine {machine}"),
        }
    }

    /// The same, wherever the limit was.
    fn told_of(&self, chosen: &[usize]) -> String {
        let mut parts = Vec::new();
        for (way, verbs) in [(Way::Down, ["reduces", "reduce"]), (Way::Up, ["raises", "raise"])] {
            let clauses = self.clauses(chosen, |effect| {
                effect.significant && (effect.ratio.mean < 1.0) == (way == Way::Down)
            });
            if clauses.is_empty() {
                continue;
            }
            let mut reported = Vec::new();
            let mut object = None;
            for clause in &clauses {
                let this = self.object(clause);
                let size = self.size(clause, way);
                let place = self.place(clause, &["direction"]);
                let (by, ends) = size;
                let words = [format!("by {by} %"), place, ends];
                let words: Vec<String> = words.into_iter().filter(|w| !w.is_empty()).collect();
                let words = words.join(" ");
                reported.push(match object.as_ref() == Some(&this) {
                    true => words,
                    false => format!("{this} {words}"),
                });
                object = Some(this);
            }
            let verb = verbs[usize::from(self.subject().plural)];
            parts.push(format!("{verb} {}", labels::listed(&reported)));
        }
        parts.join(" but ")
    }

    /// Effects that `wanted` lets through, by the levels with names at which they are.
    fn clauses(&self, chosen: &[usize], wanted: impl Fn(&Effect) -> bool) -> Vec<Vec<usize>> {
        let mut clauses: Vec<(Levels, Vec<usize>)> = Vec::new();
        for &index in chosen {
            let effect = self.effect(index);
            if !wanted(effect) {
                continue;
            }
            let named =
                |(name, level): &&(String, Level)| name != PART && labels::number(level).is_none();
            let key = Levels(effect.at.0.iter().filter(named).cloned().collect());
            match clauses.iter_mut().find(|(levels, _)| *levels == key) {
                Some((_, clause)) => clause.push(index),
                None => clauses.push((key, vec![index])),
            }
        }
        clauses.into_iter().map(|(_, clause)| clause).collect()
    }

    /// `transmit service demand`.
    fn object(&self, clause: &[usize]) -> String {
        let direction = clause.first().and_then(|index| self.effect(*index).at.get("direction"));
        match direction {
            Some(direction) => format!("{direction} {}", self.measured()),
            None => self.measured().to_owned(),
        }
    }

    /// The size of the change, and its interval in brackets.
    fn size(&self, clause: &[usize], way: Way) -> (String, String) {
        let ratios = || clause.iter().map(|index| &self.effect(*index).ratio);
        let down = way == Way::Down;
        // of a fall the largest ratio is the least
        let extreme = |values: Vec<f64>, largest: bool| {
            let better = |a: f64, b: f64| if largest { a.max(b) } else { a.min(b) };
            values.into_iter().reduce(better)
        };
        let means: Vec<f64> = ratios().map(|ratio| ratio.mean).collect();
        let (Some(least), Some(most)) = (extreme(means.clone(), down), extreme(means, !down))
        else {
            return (String::new(), String::new());
        };
        let lows: Option<Vec<f64>> = ratios().map(|ratio| ratio.low).collect();
        let highs: Option<Vec<f64>> = ratios().map(|ratio| ratio.high).collect();
        let (near, far) = if down { (highs, lows) } else { (lows, highs) };
        let near = near.and_then(|values| extreme(values, down));
        let far = far.and_then(|values| extreme(values, !down));
        // as many decimals as keep the ends of a narrow interval apart
        let plain: &dyn Fn(f64) -> String = &number::change_size;
        let finer: &dyn Fn(f64) -> String = &|ratio| format!("{:.1}", (ratio - 1.0).abs() * 100.0);
        let size = match (near, far) {
            (Some(near), Some(far)) if plain(near) == plain(far) => finer,
            _ => plain,
        };
        let by = match (size(least), size(most)) {
            (least, most) if least == most => most,
            (least, most) => format!("{least} to {most}"),
        };
        let ends = match (near, far) {
            (Some(near), Some(far)) => {
                let cut = number::upper_size(most, far);
                let far = if down || cut == plain(far) { size(far) } else { cut };
                let within = if clause.len() > 1 { "intervals within " } else { "" };
                format!("({within}{} to {far} %)", size(near))
            }
            _ => String::new(),
        };
        (by, ends)
    }

    /// Where the effects are, without the factors `but`: `on 1, 2 and 4 ports with no offload`.
    fn place(&self, clause: &[usize], but: &[&str]) -> String {
        let Some(first) = clause.first() else { return String::new() };
        let factors = self.effect(*first).at.0.iter().map(|(name, _)| name.as_str());
        let factors = factors.filter(|name| *name != PART && !but.contains(name));
        let mut combinations = 1;
        let mut places = Vec::new();
        for name in factors {
            let mut levels: Vec<&Level> = Vec::new();
            for index in clause {
                let level = self.effect(*index).at.get(name);
                levels.extend(level.filter(|level| !levels.contains(level)));
            }
            combinations *= levels.len();
            places.push(labels::place(name, &levels));
        }
        if combinations != clause.len() {
            // a list of levels would claim combinations that are not there
            return format!("in {}", words::count(clause.len(), "case"));
        }
        places.join(" ")
    }
}
