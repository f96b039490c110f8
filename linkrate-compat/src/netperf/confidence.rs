//! Tests until the interval of their throughput is narrow enough.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use linkrate_stats::student_t::critical_value;
use linkrate_sys::sched;

use super::NetperfError;
use super::ends::Ends;
use super::options::Options;
use super::report::Report;
use super::test;

/// Runs as many tests as are asked for. The report is that of the last one, with the mean rate of all.
pub(super) fn run(
    options: &Options,
    ends: &Ends,
    stop: &Arc<AtomicBool>,
    print: &(impl Fn(&str) + Sync),
    note: &impl Fn(&str),
) -> Result<Report, NetperfError> {
    bind(options, note);
    let Some(asked) = options.confidence else {
        return test::run(options, ends, stop, print);
    };
    let mut rates = Vec::new();
    loop {
        let report = test::run(options, ends, stop, print)?;
        rates.push(report.rate);
        let tests = rates.len() as u32;
        let (mean, width) = interval(&rates, asked.level);
        let is_narrow = width.is_some_and(|width| width <= asked.width);
        if tests >= asked.most || tests >= asked.least && is_narrow {
            return Ok(Report { tests, width, rate: mean, ..report });
        }
    }
}

/// Binds this program to its CPU, and says where that does not hold.
fn bind(options: &Options, note: &impl Fn(&str)) {
    let Some(cpu) = options.on_cpu[0] else { return };
    let thread = sched::current_thread();
    let wanted = [cpu].into_iter().collect();
    let bound = sched::set_affinity(thread, &wanted).and_then(|()| sched::affinity(thread));
    match bound {
        Ok(found) if found == wanted => {}
        Ok(found) => note(&format!("-T {cpu}: this program runs on CPUs {found}")),
        Err(error) => note(&format!("-T {cpu} does not hold here: {error}")),
    }
}

/// The mean, and the full width of its interval as a part of it (Student's t).
fn interval(rates: &[f64], level: f64) -> (f64, Option<f64>) {
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    if rates.len() < 2 || mean <= 0.0 {
        return (mean, None);
    }
    let squares = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
    let error = (squares / (count - 1.0) / count).sqrt();
    (mean, Some(2.0 * critical_value(level, count - 1.0) * error / mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_is_that_of_students_interval() {
        let (mean, width) = interval(&[9.0, 10.0, 11.0], 0.95);
        assert_eq!(mean, 10.0);
        // 4.303 of a standard error of 0.577, twice
        assert!((width.unwrap() - 0.4969).abs() < 1e-3, "{width:?}");
        assert_eq!(interval(&[9.0], 0.95), (9.0, None));
        assert_eq!(interval(&[0.0, 0.0], 0.95), (0.0, None));
    }
}
