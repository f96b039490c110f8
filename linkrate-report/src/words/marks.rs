//! Marks of figures: the basis of published ones, and whether the adapter was what limited a cell.

use linkrate_study::analysis::adapter;
use linkrate_study::levels::Level;
use linkrate_study::published::Basis;
use linkrate_study::quantity::Quantity;
use linkrate_study::results::{CellResult, Effect, PublishedResult, StudyResults, figures};
use linkrate_study::verdict::{FlowDirection, Judged};

/// The words behind the name of a published figure: its basis unless the paper prints it, and a mark if something other
/// than the adapter limited what it is about, or a part that is left out.
pub fn of(results: &StudyResults, published: &PublishedResult) -> String {
    let mut marks = match published.basis {
        Basis::Printed => String::new(),
        Basis::Derived => " (derived)".to_owned(),
        Basis::Parameter => " (parameter)".to_owned(),
    };
    if published.factor.as_deref() == Some(figures::TOE_FACTOR) {
        marks.push_str(&format!(" ({ONE_SIDE})"));
    }
    if published.left_out > 0 {
        marks.push_str(&format!(" ({} {LEFT_OUT})", published.left_out));
    }
    if is_host_limited(results, published) {
        marks.push_str(HOST_LIMITED);
    }
    marks
}

/// What the marks of the published figures mean, each after its mark.
pub fn meanings(results: &StudyResults) -> Vec<(&'static str, String)> {
    let has = |basis| results.published.iter().any(|one| one.basis == basis);
    let derived = ("derived", "computed from figures that the paper prints".to_owned());
    let parameter =
        ("parameter", "used to calibrate the model: no independent evidence".to_owned());
    let one_side =
        results.published.iter().any(|one| one.factor.as_deref() == Some(figures::TOE_FACTOR));
    let one_side = one_side.then(|| {
        let meaning = "only the cost without TOE includes an emulated driver, whose system calls \
                       no real adapter needs";
        (ONE_SIDE, meaning.to_owned())
    });
    let left_out = results.published.iter().any(|one| one.left_out > 0);
    let left_out = left_out.then(|| {
        let meaning =
            "something other than the adapter limited one of its cells, so that it is left out of \
             all means";
        (LEFT_OUT, meaning.to_owned())
    });
    let host = results.published.iter().any(|one| is_host_limited(results, one))
        || results.cells.iter().any(|cell| !of_cell(results, cell).is_empty())
        || results.effects.iter().any(|effect| !of_effect(effect).is_empty());
    let host = host.then(|| match remedy(results) {
        Some(scale) => {
            format!("{OF_THE_HOST}; with --scale {scale} the links are likely to be the limit")
        }
        None => OF_THE_HOST.to_owned(),
    });
    [
        has(Basis::Derived).then_some(derived),
        has(Basis::Parameter).then_some(parameter),
        left_out,
        one_side,
        host.map(|meaning| (HOST_LIMITED.trim_start(), meaning)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Who published figures that no paper of the study has, each once.
pub fn sources<'p>(figures: impl IntoIterator<Item = &'p PublishedResult>) -> Vec<&'p str> {
    super::each_once(figures.into_iter().filter_map(|one| one.source.as_deref()))
}

/// What the marks of some of the published figures mean and who published these, as sentences behind a caption, each after
/// a space.
pub fn caption<'p>(
    results: &StudyResults,
    figures: impl IntoIterator<Item = &'p PublishedResult>,
) -> String {
    let figures: Vec<&PublishedResult> = figures.into_iter().collect();
    let marks: Vec<String> = figures.iter().map(|one| of(results, one)).collect();
    let used = |mark: &str| marks.iter().any(|marks| marks.contains(mark));
    let meanings = meanings(results).into_iter().filter(|(mark, _)| used(mark));
    let meanings =
        meanings.map(|(mark, meaning)| format!(" {}: {meaning}.", super::capitalised(mark)));
    let published = sources(figures).join("; ");
    let published = (!published.is_empty()).then(|| format!(" Published by: {published}."));
    meanings.chain(published).collect()
}

/// Share of the rate that a CPU allowed at which links are taken to bound a cell: each KB costs more at a
/// lower rate, because interrupts come at the same times.
const SAFE: f64 = 0.8;

/// The scale of the testbed at which links would bound the cells that are marked, with one significant
/// digit. `None` without a limit of links, where a CPU bound none of them, and where it allowed too little to tell.
fn remedy(results: &StudyResults) -> Option<f64> {
    if !results.cells.iter().any(|cell| cell.verdict.is_bound_by_a_cpu()) {
        return None;
    }
    let is_marked = |cell: &&CellResult| cell.runs > 0 && !cell.verdict.is_of_the_adapter();
    let bound = results.cells.iter().filter(is_marked);
    let shares = bound.filter_map(|cell| {
        let mean = |quantity: &Option<Quantity>| Some(quantity.as_ref()?.interval.mean);
        Some(mean(&cell.throughput)? / mean(&cell.limit)?)
    });
    let scale = results.scale * SAFE * shares.min_by(f64::total_cmp)?;
    // 0.001 is the least that a study file takes
    (0.001..1.0).contains(&scale).then(|| {
        let digit = 10f64.powf(-scale.log10().floor());
        // the small part is what rounding may have lost
        (scale * digit + 1e-9).floor() / digit
    })
}

/// What marks a figure of this machine.
pub(crate) const HOST_LIMITED: &str = " ‡";

/// What marks a mean over several combinations of levels that leaves some out.
const LEFT_OUT: &str = "left out";

/// What marks a change by a TCP offload engine.
const ONE_SIDE: &str = "driver on one side";

/// What [`HOST_LIMITED`] means.
pub(crate) const OF_THE_HOST: &str = "not limited by the adapter";

/// Whether there is an adapter whose figures could be told from those of the machine.
pub(crate) fn has_adapter(results: &StudyResults) -> bool {
    results.imported.is_empty() && adapter::is_told(&results.adapter)
}

/// The mark behind the figures of a cell; empty where the adapter limited it.
pub fn of_cell(results: &StudyResults, cell: &CellResult) -> &'static str {
    let is_marked = has_adapter(results) && cell.runs > 0 && !cell.verdict.is_of_the_adapter();
    if is_marked { HOST_LIMITED } else { "" }
}

/// The mark behind the figures of one direction of a cell; empty where the adapter limited it.
pub fn of_direction(
    results: &StudyResults,
    cell: &CellResult,
    direction: FlowDirection,
) -> &'static str {
    let of_adapter =
        |way: &Judged| way.direction == Some(direction) && way.bottleneck.is_of_the_adapter();
    if cell.verdict.directions.iter().any(of_adapter) { "" } else { of_cell(results, cell) }
}

/// The mark behind an effect; empty where the adapter limited both cells.
pub fn of_effect(effect: &Effect) -> &'static str {
    if effect.host_limited == Some(true) { HOST_LIMITED } else { "" }
}

/// The cells behind a published figure.
fn cells_behind<'r>(
    results: &'r StudyResults,
    published: &'r PublishedResult,
) -> impl Iterator<Item = &'r CellResult> {
    let has =
        |cell: &CellResult, factor: &str, level: &Level| cell.levels.get(factor) == Some(level);
    let of_it = move |cell: &&CellResult| {
        let step = published.factor.as_ref().is_none_or(|factor| {
            let ends = [&published.from, &published.to];
            ends.into_iter().flatten().any(|end| has(cell, factor, end))
        });
        step && published.at.0.iter().all(|(factor, level)| has(cell, factor, level))
    };
    results.cells.iter().filter(of_it)
}

/// Whether something other than the adapter limited a cell behind the measured figure, which leaves none out.
pub fn is_host_limited(results: &StudyResults, published: &PublishedResult) -> bool {
    let whole = published.measured.is_some() && published.left_out == 0;
    whole && cells_behind(results, published).any(|cell| !of_cell(results, cell).is_empty())
}

/// The runs of the cell behind a published figure that has the fewest.
pub fn runs_behind(results: &StudyResults, published: &PublishedResult) -> u32 {
    cells_behind(results, published).map(|cell| cell.runs).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use linkrate_study::levels::Levels;
    use linkrate_study::quantity::{Interval, Measure, Unit};
    use linkrate_study::results::PublishedKind;
    use linkrate_study::verdict::{Bottleneck, CpuShare};

    use super::*;
    use crate::unmeasured::without_runs;

    fn judged(bound: Bottleneck) -> Vec<Judged> {
        let missing = Vec::new();
        vec![Judged {
            direction: None,
            bottleneck: bound,
            link_percent: None,
            shortfall: missing,
            agreeing: (5, 5),
        }]
    }

    #[test]
    fn a_figure_is_marked_where_the_adapter_did_not_limit_one_of_its_cells() {
        let text = "title = \"t\"\n[factors]\noffload = [\"none\", \"tso\"]\nports = [1, 2]\n";
        let mut results = without_runs(text);
        let tso = || Level::Text("tso".to_owned());
        let published = |ports, step: bool| PublishedResult {
            basis: Basis::Printed,
            source: None,
            measure: Measure::Throughput,
            at: Levels(vec![("ports".to_owned(), Level::Number(ports))]),
            factor: step.then(|| "offload".to_owned()),
            from: step.then(|| Level::Text("none".to_owned())),
            to: step.then(tso),
            kind: PublishedKind::Effect,
            combinations: 1,
            left_out: 0,
            published: 1.0,
            measured: Some(Interval { mean: 1.0, low: None, high: None }),
            unit: Unit::Ratio,
            published_percent_of_limit: None,
            measured_percent_of_limit: None,
        };
        assert!(!is_host_limited(&results, &published(2, true)));
        // tso on two ports
        let busy = CpuShare { percent: 99.0, of_thread: false };
        let bound = Bottleneck::SutCpu { sut: busy };
        results.adapter = "gigabit".to_owned();
        for cell in &mut results.cells {
            (cell.runs, cell.verdict.directions) = (5, judged(Bottleneck::Link { percent: 99.9 }));
        }
        results.cells[3].verdict.directions = judged(bound);
        assert!(is_host_limited(&results, &published(2, true)));
        assert!(is_host_limited(&results, &published(2, false)));
        assert!(!is_host_limited(&results, &published(1, true)));
        let cost = PublishedResult { measure: Measure::ServiceDemand, ..published(2, true) };
        assert!(is_host_limited(&results, &cost));
        // the basis comes first
        let derived = PublishedResult { basis: Basis::Derived, ..published(2, true) };
        assert_eq!(of(&results, &derived), " (derived) ‡");
        assert_eq!(of(&results, &published(1, true)), "");
        results.published = vec![derived, published(1, true)];
        let marks: Vec<&str> = meanings(&results).iter().map(|(mark, _)| *mark).collect();
        assert_eq!(marks, ["derived", "‡"]);
        // the figure has them beside each name
        let figure = crate::paper::change_figures::published(&results).unwrap().unwrap();
        let described = &figure.panels[0].description;
        assert!(described.contains("2 ports (derived) ‡: ") && described.contains("1 port: "));
        // a caption has the marks of its own figures
        let all = caption(&results, &results.published);
        assert!(
            all.starts_with(" Derived: computed from") && all.contains(". ‡: not limited by"),
            "{all}"
        );
        assert_eq!(caption(&results, &results.published[1..]), "");
        // who published them is told once
        for one in &mut results.published {
            one.source = Some("a letter (2022)".to_owned());
        }
        let all = caption(&results, &results.published);
        assert!(all.ends_with(". Published by: a letter (2022)."), "{all}");
        assert_eq!(all.matches("letter").count(), 1);
        // the others are the figure of the adapter
        results.published[0].left_out = 2;
        assert_eq!(of(&results, &results.published[0]), " (derived) (2 left out)");
        let marks: Vec<&str> = meanings(&results).iter().map(|(mark, _)| *mark).collect();
        assert_eq!(marks, ["derived", "left out", "‡"], "the cell has its mark");
    }

    #[test]
    fn the_remedy_is_a_scale_at_which_links_would_bind() {
        let mut results = without_runs("title = \"t\"\n[factors]\nports = [1, 2, 4]\n");
        let rate = |mean| {
            let interval = Interval { mean, low: None, high: None };
            Some(Quantity { interval, unit: Unit::BitsPerSecond })
        };
        let busy = CpuShare { percent: 99.0, of_thread: false };
        assert_eq!(remedy(&results), None);
        // the links bound the first cell; a CPU allowed 0.7 and 0.45 of the limit in the others
        for (cell, rate_of) in results.cells.iter_mut().zip([0.2e9, 0.7e9, 0.45e9]) {
            cell.verdict.directions = judged(Bottleneck::SutCpu { sut: busy });
            (cell.throughput, cell.limit, cell.runs) = (rate(rate_of), rate(1e9), 5);
        }
        results.cells[0].verdict.directions = judged(Bottleneck::Link { percent: 99.9 });
        assert_eq!(remedy(&results), Some(0.3));
        results.scale = 0.1;
        assert_eq!(remedy(&results), Some(0.03));
        results.cells[2].limit = None;
        assert_eq!(remedy(&results), Some(0.05));
        results.cells[1].limit = None;
        assert_eq!(remedy(&results), None);
    }
}
