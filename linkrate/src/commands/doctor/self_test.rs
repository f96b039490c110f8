//! `linkrate doctor self-test`: how exactly the CPU meters measure.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::atomic::Ordering;

use linkrate_doctor::self_test::{self, MeterKind, Pace, Sample, SelfTest, Verdict};
use linkrate_sys::stderr;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::{PIPE_WIDTH, print, wrap};
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
            stderr::raw(&format!("\rself-test: {done} of {all} samples"));
            if done == all {
                stderr::raw("\r\u{1b}[K");
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
    let of_meters = |cells: &dyn Fn(MeterKind) -> String| -> String {
        outcome.meters.iter().map(|meter| format!("  {}", cells(*meter))).collect()
    };
    let heading = |meter: MeterKind| format!("{:>6}  {:>17}  {:>6}", "load", meter.word(), "error");
    line(format!("{:<7}  {:>5}{}", "load", "asked", of_meters(&heading)));
    for method in &outcome.loads {
        let of_load = |sample: &&Sample| sample.load == method.load;
        let mut sizes: Vec<String> = outcome.samples.iter().filter(of_load).map(asked).collect();
        sizes.dedup();
        for size in sizes {
            let cells = |meter| {
                let found = outcome
                    .samples
                    .iter()
                    .filter(of_load)
                    .find(|sample| sample.meter == meter && asked(sample) == size);
                found.map_or_else(|| format!("{:>33}", "-"), figures)
            };
            line(format!("{:<7}  {size:>5}{}", method.load.word(), of_meters(&cells)));
        }
    }
    line(String::new());
    for sample in &outcome.samples {
        let reported = note(sample);
        for part in reported.iter().flat_map(|reported| wrap(reported, PIPE_WIDTH)) {
            line(part);
        }
    }
    for method in &outcome.loads {
        for part in wrap(&format!("{}: {}.", method.load.word(), method.how), PIPE_WIDTH) {
            line(part);
        }
    }
    if outcome.samples.iter().any(|sample| sample.pace == Pace::Fast) {
        let fast = "10, 25 and 50 µs: the same work after each of 5,000 wake-ups a second; a trace \
                    of switches, idle states and interrupts gives bounds of the size, and a \
                    reading within the bounds has no error.";
        let promise = promise(outcome).map_or_else(String::new, |promise| format!(" {promise}"));
        for part in wrap(&format!("{fast}{promise}"), PIPE_WIDTH) {
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

/// The asked size: a share of the CPU, or the work after each of 5,000 wake-ups a second.
fn asked(sample: &Sample) -> String {
    let percent = sample.asked_percent;
    match sample.pace {
        Pace::Slow => format!("{percent:.0} %"),
        Pace::Fast => {
            let us = percent / 100.0 * sample.pace.period_ns() as f64 / 1000.0;
            format!("{us:.0} µs")
        }
    }
}

fn figures(sample: &Sample) -> String {
    let mark = if sample.verdict == Verdict::Passed { ' ' } else { '!' };
    format!(
        "{:>6.2}  {:>17.2}  {:>+5.2}{mark}",
        sample.truth_percent, sample.measured_percent, sample.error_points
    )
}

/// A note on a disturbed sample.
fn note(sample: &Sample) -> Option<String> {
    let disturbance = sample.disturbance.as_ref()?;
    let intervals = sample.intervals;
    let (load, size, meter) = (sample.load.word(), asked(sample), sample.meter.word());
    Some(format!(
        "{load} {size}, {meter}: other work disturbed too many of {intervals} intervals; last disturbance: \
         {disturbance}."
    ))
}

/// What the test reports on meters at the fast pace: less than its limit, because the size of a load is known in
/// bounds.
fn promise(outcome: &SelfTest) -> Option<String> {
    let promised = outcome.samples.iter().filter_map(Sample::promised_percent);
    let (least, most) = promised.fold((f64::MAX, 0.0_f64), |(least, most), percent| {
        (least.min(percent), most.max(percent))
    });
    (most > 0.0).then(|| {
        format!(
            "With these bounds, the error of a meter that passes is known to {least:.0} to \
             {most:.0} % of these loads; the smallest load has the widest bounds."
        )
    })
}

fn summary(outcome: &SelfTest) -> String {
    let count = |verdict| outcome.samples.iter().filter(|s| s.verdict == verdict).count();
    let largest = |pace: Pace, error: &dyn Fn(&Sample) -> f64| {
        let of_pace = || outcome.samples.iter().filter(move |sample| sample.pace == pace);
        let of_meter = |meter: &MeterKind| {
            let of_meter = of_pace().filter(|sample| sample.meter == *meter);
            let error = of_meter.map(error).fold(0.0, f64::max);
            format!("{} {error:.2}", meter.word())
        };
        let of_meters: Vec<String> = outcome.meters.iter().map(of_meter).collect();
        of_pace().next().map(|_| of_meters.join(", "))
    };
    let slow = largest(Pace::Slow, &|sample| sample.error_points.abs());
    let fast = largest(Pace::Fast, &|sample| {
        sample.error_points.abs() * 100.0 / sample.truth_percent.max(f64::MIN_POSITIVE)
    });
    let slow = slow.map(|of_meters| format!("in percentage points {of_meters}"));
    let fast = fast.map(|of_meters| {
        format!(
            "at 5,000 wake-ups a second, beyond the bounds, in per cent of the load {of_meters}"
        )
    });
    let largest: Vec<String> = slow.into_iter().chain(fast).collect();
    let largest = format!("largest errors: {}", largest.join("; "));
    if outcome.interrupted {
        return format!("Interrupted; {largest}.");
    }
    let limits = format!(
        "{} percentage point, or at 5,000 wake-ups a second {} % of the load beyond the bounds of the trace",
        outcome.limit_points, outcome.limit_of_load_percent
    );
    let all = outcome.samples.len();
    match outcome.verdict {
        Verdict::Passed => format!(
            "The CPU meters measure each load on CPU {} within {limits}; {largest}.",
            outcome.cpus
        ),
        Verdict::Disturbed => format!(
            "{} of {all} samples could not be judged, because other work disturbed them; {largest}. \
             Stop other programs and try again.",
            count(Verdict::Disturbed)
        ),
        Verdict::Failed => format!(
            "A CPU meter has an error of more than {limits} in {} of {all} samples; {largest}.",
            count(Verdict::Failed)
        ),
    }
}
