//! `linkrate doctor --self-test`: how exactly the CPU meters measure.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::atomic::Ordering;

use linkrate_doctor::self_test::{self, Sample, SelfTest, Verdict};
use linkrate_sys::tell;
use linkrate_terms::measurement::IdleSource;
use serde::Serialize;

use super::wrap::{PIPE_WIDTH, wrap};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::print;
use crate::program::this_program;

/// Version of the JSON document.
const SELF_TEST_FORMAT: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    #[serde(flatten)]
    outcome: &'a SelfTest,
}

/// Tests the meters and prints the result.
pub(super) fn run(json: bool) -> Result<Exit, Failure> {
    let stop = interrupt::on_signal()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    let is_watched = std::io::stderr().is_terminal();
    let mut progress = |done: usize, all: usize| {
        if is_watched {
            tell::raw(&format!("\rself-test: {done} of {all} samples"));
            if done == all {
                tell::raw("\r\u{1b}[K");
            }
        }
    };
    let outcome = self_test::run(&this_program()?, &stop, &mut progress)?;
    if json {
        let document = Document { format: SELF_TEST_FORMAT, outcome: &outcome };
        let text = serde_json::to_string_pretty(&document)
            .map_err(|error| Failure::new(Exit::Failure, format!("self-test as JSON: {error}")))?;
        print(&format!("{text}\n"))?;
    } else {
        print(&text(&outcome))?;
    }
    Ok(match outcome.verdict {
        _ if stop.load(Ordering::Relaxed) => Exit::Interrupted,
        Verdict::Passed => Exit::Success,
        Verdict::Disturbed => Exit::CannotMeasure,
        Verdict::Failed => Exit::Failure,
    })
}

fn text(outcome: &SelfTest) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        // writing to a String does not fail
        let _ = writeln!(text, "{}", line.trim_end());
    };
    let of_meters = |cells: &dyn Fn(IdleSource) -> String| -> String {
        outcome.meters.iter().map(|meter| format!("  {}", cells(*meter))).collect()
    };
    let heading =
        |meter: IdleSource| format!("{:>7}  {:>12}  {:>6}", "load", meter.word(), "error");
    line(format!("{:<7}  {:>5}{}", "load", "asked", of_meters(&heading)));
    for method in &outcome.loads {
        let of_load = |sample: &&Sample| sample.load == method.load;
        let mut sizes: Vec<f64> =
            outcome.samples.iter().filter(of_load).map(|sample| sample.asked_percent).collect();
        sizes.dedup();
        for size in sizes {
            let cells = |meter| {
                let found = outcome
                    .samples
                    .iter()
                    .filter(of_load)
                    .find(|sample| (sample.asked_percent, sample.meter) == (size, meter));
                found.map_or_else(|| format!("{:>29}", "-"), figures)
            };
            line(format!("{:<7}  {size:>3} %{}", method.load.word(), of_meters(&cells)));
        }
    }
    line(String::new());
    for sample in &outcome.samples {
        let told = note(sample);
        for part in told.iter().flat_map(|told| wrap(told, PIPE_WIDTH)) {
            line(part);
        }
    }
    for method in &outcome.loads {
        for part in wrap(&format!("{}: {}.", method.load.word(), method.how), PIPE_WIDTH) {
            line(part);
        }
    }
    for left_out in &outcome.left_out {
        for part in wrap(&format!("left out: {left_out}"), PIPE_WIDTH) {
            line(part);
        }
    }
    line(String::new());
    for part in wrap(&summary(outcome), PIPE_WIDTH) {
        line(part);
    }
    text
}

fn figures(sample: &Sample) -> String {
    let mark = if sample.verdict == Verdict::Passed { ' ' } else { '!' };
    format!(
        "{:>7.2}  {:>12.2}  {:>+5.2}{mark}",
        sample.truth_percent, sample.measured_percent, sample.error_points
    )
}

/// A note on a disturbed sample.
fn note(sample: &Sample) -> Option<String> {
    let disturbance = sample.disturbance.as_ref()?;
    let windows = sample.windows;
    let (load, size, meter) = (sample.load.word(), sample.asked_percent, sample.meter.word());
    Some(format!(
        "{load} {size} %, {meter}: other work disturbed too many of {windows} windows; last disturbance: \
         {disturbance}."
    ))
}

fn summary(outcome: &SelfTest) -> String {
    let limit = outcome.limit_points;
    let count = |verdict| outcome.samples.iter().filter(|s| s.verdict == verdict).count();
    let largest = |meter: &IdleSource| {
        let of_meter = outcome.samples.iter().filter(|sample| sample.meter == *meter);
        let error = of_meter.map(|sample| sample.error_points.abs()).fold(0.0, f64::max);
        format!("{} {error:.2}", meter.word())
    };
    let largest: Vec<String> = outcome.meters.iter().map(largest).collect();
    let largest = format!("largest error in percentage points: {}", largest.join(", "));
    if outcome.interrupted {
        return format!("Interrupted; {largest}.");
    }
    let all = outcome.samples.len();
    match outcome.verdict {
        Verdict::Passed => format!(
            "The CPU meters measure each load on CPU {} within {limit} percentage point; {largest}.",
            outcome.cpus
        ),
        Verdict::Disturbed => format!(
            "{} of {all} samples could not be judged, because other work disturbed them; {largest}. \
             Stop other programs and try again.",
            count(Verdict::Disturbed)
        ),
        Verdict::Failed => format!(
            "A CPU meter has an error of more than {limit} percentage point in {} of {all} samples; \
             {largest}.",
            count(Verdict::Failed)
        ),
    }
}
