//! A study while it runs: a screen that is drawn again and again, lines for a log, JSON.

use std::time::Duration;

use linkrate_model::units::format_duration;
use linkrate_study::labels;
use linkrate_study::progress::{CellProgress, FigureProgress, StudyProgress, TimeLeft};
use linkrate_study::quantity::Unit;

use crate::number::{ABSENT, margin, mean, percent};
use crate::terminal::Style;
use crate::words::count;
use crate::words::marks::{HOST_LIMITED, OF_THE_HOST};

/// Columns taken where the terminal does not say how wide it is.
const WIDTH: usize = 100;
/// Widest name of a cell.
const NAME: usize = 34;
/// Fewest and most blocks whose half-widths are drawn.
const HISTORY: (usize, usize) = (3, 12);
/// What a figure takes before its bars: mean, half-width, tick, blanks.
const FIGURE: usize = 23;
/// From within the target to eight times it and more, half a power of two each.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Lines around the cells: title, progress, what is waited for, heads, two of legend, blank ones, and the
/// one below where the cursor waits.
const AROUND: usize = 11;

/// The whole screen, of at most `size` columns and lines.
pub fn screen(progress: &StudyProgress, size: Option<(u16, u16)>, style: Style) -> String {
    let (width, height) =
        size.map_or((WIDTH, usize::MAX), |(width, height)| (width.into(), height.into()));
    let time_left = progress.left.map(left).unwrap_or_default();
    let mut lines = vec![
        style.bold(&cut(&progress.title, width)),
        String::new(),
        format!("{}{time_left}", place(progress)),
        precise(progress),
    ];
    lines.push(match (&progress.ended, &progress.wanting) {
        (Some(ended), _) => format!("ended: {ended}"),
        (None, Some(waits)) => format!("waits for {waits}"),
        (None, None) => "every figure is precise".to_owned(),
    });
    lines.push(String::new());
    let names: Vec<String> = progress.cells.iter().map(|cell| labels::cell(&cell.levels)).collect();
    let widths = names.iter().zip(&progress.cells);
    let widths = widths.map(|(name, cell)| (name.clone() + mark(cell)).chars().count());
    let longest = widths.max().unwrap_or(0);
    let name_width = longest.clamp(4, NAME);
    let beside = name_width + "  runs  ".len() + FIGURE * 2 + 2;
    let bars = (width.saturating_sub(beside) / 2).clamp(HISTORY.0, HISTORY.1);
    lines.push(format!(
        "{:<name_width$}  runs  {:<column$}  {}",
        "cell",
        rate_head(progress),
        "service demand",
        column = FIGURE + bars,
    ));
    let room = height.saturating_sub(AROUND).max(1);
    let shown = widest_first(progress, room);
    for index in &shown {
        let mark = mark(&progress.cells[*index]);
        let name = cut(&names[*index], name_width - mark.chars().count()) + mark;
        let name = format!("{name:<name_width$}");
        lines.push(row(&name, &progress.cells[*index], progress.precision, bars));
    }
    let hidden = progress.cells.len() - shown.len();
    let asked = progress.precision * 100.0;
    lines.push(match hidden {
        0 => String::new(),
        more => format!("and {} with narrower intervals", count(more, "more cell")),
    });
    lines.push(format!(
        "✓ within ±{asked:.2} %; bars: half-widths so far, ▁ within, █ eight times that or more"
    ));
    if shown.iter().any(|index| !mark(&progress.cells[*index]).is_empty()) {
        lines.push(format!("{} {OF_THE_HOST}", HOST_LIMITED.trim_start()));
    }
    lines.iter().map(|line| format!("{}\n", cut(line, width).trim_end())).collect()
}

/// The mark behind the name of a cell; empty where the adapter limits it.
fn mark(cell: &CellProgress) -> &'static str {
    if cell.host_limited == Some(true) { HOST_LIMITED } else { "" }
}

fn rate_head(progress: &StudyProgress) -> &'static str {
    let transactional = |cell: &CellProgress| {
        cell.metrics.iter().any(|figure| figure.quantity.unit == Unit::TransactionsPerSecond)
    };
    let transactions = progress.cells.iter().filter(|cell| transactional(cell)).count();
    match transactions {
        0 => "throughput",
        all if all == progress.cells.len() => "transactions",
        _ => "throughput or transactions",
    }
}

/// As many cells as there is room for: all in their order, or those with the widest intervals.
fn widest_first(progress: &StudyProgress, room: usize) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..progress.cells.len()).collect();
    if shown.len() > room {
        let width = |index: &usize| {
            let widths = progress.cells[*index].metrics.iter().map(|figure| figure.half_width);
            // a cell without an interval is the widest of all
            let known: Option<Vec<f64>> = widths.collect();
            known
                .filter(|widths| !widths.is_empty())
                .map_or(f64::INFINITY, |widths| widths.into_iter().fold(0.0, f64::max))
        };
        shown.sort_by(|a, b| width(b).total_cmp(&width(a)));
        shown.truncate(room);
        shown.sort_unstable();
    }
    shown
}

fn row(name: &str, cell: &CellProgress, precision: f64, bars: usize) -> String {
    let width = FIGURE + bars;
    let figures = cell
        .metrics
        .iter()
        .map(|figure| format!("{:<width$}", self::figure(figure, precision, bars)));
    let figures: Vec<String> = figures.collect();
    let figures = if figures.is_empty() { ABSENT.to_owned() } else { figures.join("  ") };
    format!("{name}  {:>4}  {figures}", cell.runs)
}

/// `3.21 Gb/s ±4.1 %  ▇▅▄▃`, with a tick instead of a blank when it is precise.
fn figure(figure: &FigureProgress, precision: f64, bars: usize) -> String {
    let half = margin(&figure.quantity).unwrap_or_else(|| ABSENT.to_owned());
    let done = figure.half_width.is_some_and(|half| half <= precision);
    let skipped = figure.history.len().saturating_sub(bars);
    let bars: String = figure.history[skipped..].iter().map(|half| bar(half / precision)).collect();
    let tick = if done { '✓' } else { ' ' };
    let mean = mean(&figure.quantity).replace("/transaction", "").replace(" transactions/s", "/s");
    format!("{mean:>11} {half:>8} {tick} {bars}")
}

fn bar(ratio: f64) -> char {
    if ratio <= 1.0 {
        return BARS[0];
    }
    // a ratio beyond every bar, or no ratio at all, has the highest one
    let step = (ratio.log2() * 2.0).floor() + 1.0;
    BARS[if step < 7.0 { step as usize } else { 7 }]
}

/// `4 of 5 to 20 blocks, 3 of 11 runs of the next`
fn place(progress: &StudyProgress) -> String {
    let blocks = match progress.first_check == progress.max_blocks {
        true => progress.max_blocks.to_string(),
        false => format!("{} to {}", progress.first_check, progress.max_blocks),
    };
    let done = progress.blocks;
    match progress.ended.is_some() {
        true => format!("{} of {blocks}", count(done as usize, "block")),
        false => format!(
            "{done} of {blocks} blocks, {} of {} runs of the next",
            progress.run, progress.runs_per_block
        ),
    }
}

/// `12 of 20 figures within ±2.50 %; 1 run failed`
fn precise(progress: &StudyProgress) -> String {
    let failed = match progress.failed {
        0 => String::new(),
        n => format!("; {} failed", count(n as usize, "run")),
    };
    let asked = progress.precision * 100.0;
    format!("{} of {} figures within ±{asked:.2} %{failed}", progress.precise, progress.metrics)
}

fn left(left: TimeLeft) -> String {
    let text = |seconds: f64| format_duration(Duration::from_secs((seconds.round() as u64).max(1)));
    if left.at_most_seconds.round() > left.likely_seconds.round() {
        return format!(
            "; about {} left, at most {}",
            text(left.likely_seconds),
            text(left.at_most_seconds)
        );
    }
    format!("; about {} left", text(left.likely_seconds))
}

/// One line, for a log.
pub fn line(progress: &StudyProgress) -> String {
    if let Some(ended) = &progress.ended {
        return format!("ended: {ended}\n");
    }
    let widest = progress.widest.as_ref().map_or(String::new(), |widest| {
        format!("; widest ±{}: {}", percent(widest.half_width), widest.name)
    });
    let time_left = progress.left.map(left).unwrap_or_default();
    format!("{}{time_left}; {}{widest}\n", place(progress), precise(progress))
}

/// One JSON document on a line of its own.
pub fn document(progress: &StudyProgress) -> String {
    let mut text = serde_json::to_string(progress).unwrap_or_default();
    text.push('\n');
    text
}

/// At most so many characters; text with escape sequences was cut before they were added.
fn cut(text: &str, width: usize) -> String {
    let plain = text.starts_with('\u{1b}') || text.chars().count() <= width;
    if plain {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use linkrate_study::levels::{Level, Levels};
    use linkrate_study::progress::Widest;
    use linkrate_study::quantity::{Interval, Measure, Quantity};

    use super::*;

    fn figure(measure: Measure, unit: Unit, mean: f64, history: &[f64]) -> FigureProgress {
        let half = history.last().copied();
        let end = |sign: f64| half.map(|half| mean * (1.0 + sign * half));
        let interval = Interval { mean, low: end(-1.0), high: end(1.0) };
        let quantity = Quantity { interval, unit };
        FigureProgress { measure, quantity, half_width: half, history: history.to_vec() }
    }

    fn progress() -> StudyProgress {
        let cell = |name: &str, runs, rate: &[f64], demand: &[f64]| CellProgress {
            levels: Levels(vec![("offload".to_owned(), Level::Text(name.to_owned()))]),
            runs,
            host_limited: Some(true),
            metrics: vec![
                figure(Measure::Throughput, Unit::BitsPerSecond, 9.41e9, rate),
                figure(Measure::ServiceDemand, Unit::MicrosecondsPerKb, 0.8612, demand),
            ],
        };
        let empty = CellProgress {
            levels: Levels::default(),
            runs: 0,
            host_limited: None,
            metrics: Vec::new(),
        };
        let long: Vec<f64> = (0..20).rev().map(|n| 0.02 * 1.2f64.powi(n)).collect();
        StudyProgress {
            study: "tso".to_owned(),
            title: "What each rung buys".to_owned(),
            blocks: 6,
            first_check: 5,
            max_blocks: 30,
            run: 2,
            runs_per_block: 4,
            failed: 1,
            precision: 0.025,
            metrics: 12,
            precise: 5,
            widest: Some(Widest { name: "service demand of GSO".to_owned(), half_width: 0.071 }),
            wanting: Some("service demand of GSO: ±7.10 %, expected ±2.50 %".to_owned()),
            left: Some(TimeLeft { likely_seconds: 75.2, at_most_seconds: 300.0 }),
            ended: None,
            cells: vec![
                cell("none", 6, &[0.3, 0.1, 0.05, 0.03, 0.02], &long),
                cell("gso", 6, &[], &[0.071]),
                empty,
            ],
        }
    }

    #[test]
    fn a_screen_of_a_study_under_way() {
        insta::assert_snapshot!(screen(&progress(), Some((100, 24)), Style::default()));
    }

    #[test]
    fn a_small_terminal_has_the_widest_intervals_and_no_longer_lines() {
        let text = screen(&progress(), Some((60, 13)), Style::default());
        assert!(text.lines().count() < 13, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("the only cell") && text.contains("\nGSO "), "{text}");
        assert!(text.contains("and 1 more cell with narrower intervals"), "{text}");
    }

    #[test]
    fn bars_fall_by_half_a_power_of_two() {
        let bars = [0.2, 1.0, 1.01, 1.5, 2.1, 3.0, 4.1, 6.0, 8.1, 1e9, f64::INFINITY, f64::NAN];
        assert_eq!(bars.map(bar).iter().collect::<String>(), "▁▁▂▃▄▅▆▇████");
    }

    #[test]
    fn lines_for_a_log() {
        let mut progress = progress();
        assert_eq!(
            line(&progress),
            "6 of 5 to 30 blocks, 2 of 4 runs of the next; about 1 min 15 s left, at most 5 min; \
             5 of 12 figures within ±2.50 %; 1 run failed; widest ±7.1 %: service demand of GSO\n"
        );
        progress.ended = Some("interrupted".to_owned());
        assert_eq!(line(&progress), "ended: interrupted\n");
        let value: serde_json::Value = serde_json::from_str(&document(&progress)).unwrap();
        assert_eq!(value["cells"][0]["metrics"][0]["unit"], "bit/s");
        assert_eq!(value["cells"][0]["metrics"][0]["history"][4], 0.02);
    }
}
