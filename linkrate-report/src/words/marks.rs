//! Marks of figures that stand beside published ones: their basis, and the bound of their cells.

use linkrate_study::levels::Level;
use linkrate_study::published::Basis;
use linkrate_study::quantity::Quantity;
use linkrate_study::results::{CellResult, PublishedResult, StudyResults};

/// The words behind the name of a published figure: its basis unless the paper prints it, and a mark if a
/// CPU was the bound, of all that it is about or of a part that is left out.
pub fn of(results: &StudyResults, published: &PublishedResult) -> String {
    let mut marks = match published.basis {
        Basis::Printed => String::new(),
        Basis::Derived => " (derived)".to_owned(),
        Basis::Parameter => " (parameter)".to_owned(),
    };
    if published.left_out > 0 {
        marks.push_str(&format!(" ({} {LEFT_OUT})", published.left_out));
    }
    if is_host_bound(results, published) {
        marks.push(' ');
        marks.push_str(HOST_BOUND);
    }
    marks
}

/// What the marks of the published figures mean, each after its mark.
pub fn meanings(results: &StudyResults) -> Vec<(&'static str, String)> {
    let has = |basis| results.published.iter().any(|one| one.basis == basis);
    let derived = ("derived", "computed from figures that the paper prints".to_owned());
    let parameter =
        ("parameter", "the model was made from this figure: agreement is no prediction".to_owned());
    let left_out = results.published.iter().any(|one| one.left_out > 0);
    let left_out = left_out.then(|| {
        let meaning = "a CPU was the bound of one of its cells, so that it is in no mean";
        (LEFT_OUT, meaning.to_owned())
    });
    let host = results.published.iter().any(|one| is_host_bound(results, one));
    let host = host.then(|| match remedy(results) {
        Some(scale) => {
            format!(
                "{OF_THE_HOST}; with `scale = {scale}` in [testbed] the links are likely to be the bound"
            )
        }
        None => OF_THE_HOST.to_owned(),
    });
    [
        has(Basis::Derived).then_some(derived),
        has(Basis::Parameter).then_some(parameter),
        left_out,
        host.map(|meaning| (HOST_BOUND, meaning)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What the marks of some of the published figures mean, as sentences behind a caption, each after a space.
pub fn caption<'p>(
    results: &StudyResults,
    figures: impl IntoIterator<Item = &'p PublishedResult>,
) -> String {
    let marks: Vec<String> = figures.into_iter().map(|one| of(results, one)).collect();
    let used = |mark: &str| marks.iter().any(|marks| marks.contains(mark));
    let meanings = meanings(results).into_iter().filter(|(mark, _)| used(mark));
    meanings.map(|(mark, meaning)| format!(" {}: {meaning}.", super::capitalised(mark))).collect()
}

/// Share of the rate that a CPU allowed at which links are taken to bound a cell: each KB costs more at a
/// lower rate, because interrupts come at the same times.
const SAFE: f64 = 0.8;

/// The scale of the testbed at which links would bound the cells that a CPU bound, with one significant
/// digit. `None` without a limit of links, and where a CPU allowed too little to tell.
fn remedy(results: &StudyResults) -> Option<f64> {
    let bound = results.cells.iter().filter(|cell| cell.verdict.is_of_the_host());
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

/// What marks a measured figure whose bound was a CPU.
const HOST_BOUND: &str = "‡";

/// What marks a mean over several combinations of levels that leaves some out.
const LEFT_OUT: &str = "left out";

/// What [`HOST_BOUND`] means.
const OF_THE_HOST: &str =
    "a CPU was the bound: the measured figure is that of this machine, and not that of the adapter";

/// Whether a CPU was the bound of a cell behind the measured figure, which leaves none out. Costs are those of the
/// host whatever the bound.
fn is_host_bound(results: &StudyResults, published: &PublishedResult) -> bool {
    let has =
        |cell: &CellResult, factor: &str, level: &Level| cell.levels.get(factor) == Some(level);
    let of_it = |cell: &&CellResult| {
        let step = published.factor.as_ref().is_none_or(|factor| {
            let ends = [&published.from, &published.to];
            ends.into_iter().flatten().any(|end| has(cell, factor, end))
        });
        step && published.at.0.iter().all(|(factor, level)| has(cell, factor, level))
    };
    let whole = published.measured.is_some() && published.left_out == 0;
    let measured = published.measure.is_rate() && whole;
    measured && results.cells.iter().filter(of_it).any(|cell| cell.verdict.is_of_the_host())
}

#[cfg(test)]
mod tests {
    use linkrate_study::levels::Levels;
    use linkrate_study::quantity::{Interval, Measure, Unit};
    use linkrate_study::results::PublishedKind;
    use linkrate_study::verdict::{Bound, CpuShare, Judged};

    use super::*;
    use crate::unmeasured::without_runs;

    #[test]
    fn a_figure_is_marked_where_a_cpu_bound_one_of_its_cells() {
        let text = "title = \"t\"\n[factors]\noffload = [\"none\", \"tso\"]\nports = [1, 2]\n";
        let mut results = without_runs(text);
        let tso = || Level::Text("tso".to_owned());
        let published = |ports, step: bool| PublishedResult {
            basis: Basis::Printed,
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
        assert!(!is_host_bound(&results, &published(2, true)));
        // tso on two ports
        let busy = CpuShare { percent: 99.0, of_thread: false };
        let bound = Bound::SutCpu { sut: busy };
        results.cells[3].verdict.ways =
            vec![Judged { direction: None, bound, link_percent: None, missing: Vec::new() }];
        assert!(is_host_bound(&results, &published(2, true)));
        assert!(is_host_bound(&results, &published(2, false)));
        assert!(!is_host_bound(&results, &published(1, true)));
        let cost = PublishedResult { measure: Measure::ServiceDemand, ..published(2, true) };
        assert!(!is_host_bound(&results, &cost));
        // the basis comes first
        let derived = PublishedResult { basis: Basis::Derived, ..published(2, true) };
        assert_eq!(of(&results, &derived), " (derived) ‡");
        assert_eq!(of(&results, &published(1, true)), "");
        assert!(meanings(&results).is_empty());
        results.published = vec![derived, published(1, true)];
        let marks: Vec<&str> = meanings(&results).iter().map(|(mark, _)| *mark).collect();
        assert_eq!(marks, ["derived", "‡"]);
        // the table has them beside each figure
        let table = crate::paper::tables::published(&results).unwrap();
        let named = [&table.rows[0], &table.rows[1]].map(|row| row.fields[1].text.as_str());
        assert!(named[0].ends_with(" (derived) ‡") && !named[1].contains('‡'), "{named:?}");
        // a caption has the marks of its own figures
        let all = caption(&results, &results.published);
        assert!(
            all.starts_with(" Derived: computed from") && all.contains(". ‡: a CPU was"),
            "{all}"
        );
        assert_eq!(caption(&results, &results.published[1..]), "");
        // the others are the figure of the adapter
        results.published[0].left_out = 2;
        assert_eq!(of(&results, &results.published[0]), " (derived) (2 left out)");
        let marks: Vec<&str> = meanings(&results).iter().map(|(mark, _)| *mark).collect();
        assert_eq!(marks, ["derived", "left out"]);
    }

    #[test]
    fn the_remedy_is_a_scale_at_which_links_would_bind() {
        let mut results = without_runs("title = \"t\"\n[factors]\nports = [1, 2, 4]\n");
        let rate = |mean| {
            let interval = Interval { mean, low: None, high: None };
            Some(Quantity { interval, unit: Unit::BitsPerSecond })
        };
        let busy = CpuShare { percent: 99.0, of_thread: false };
        let verdict = |bound| {
            vec![Judged { direction: None, bound, link_percent: None, missing: Vec::new() }]
        };
        assert_eq!(remedy(&results), None);
        // the links bound the first cell; a CPU allowed 0.7 and 0.45 of the limit in the others
        for (cell, rate_of) in results.cells.iter_mut().zip([0.2e9, 0.7e9, 0.45e9]) {
            cell.verdict.ways = verdict(Bound::SutCpu { sut: busy });
            (cell.throughput, cell.limit) = (rate(rate_of), rate(1e9));
        }
        results.cells[0].verdict.ways = verdict(Bound::Link { percent: 99.9 });
        assert_eq!(remedy(&results), Some(0.3));
        results.scale = 0.1;
        assert_eq!(remedy(&results), Some(0.03));
        results.cells[2].limit = None;
        assert_eq!(remedy(&results), Some(0.05));
        results.cells[1].limit = None;
        assert_eq!(remedy(&results), None);
    }
}
