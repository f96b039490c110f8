//! Results while a test lasts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::options::{Options, Output};
use super::report::{Progress, Unit};

/// Prints what has been carried in each interval until the test is over.
pub(super) fn run(
    options: &Options,
    every: Duration,
    progress: &Progress,
    over: &AtomicBool,
    print: &impl Fn(&str),
) {
    let unit = Unit::of(options);
    let (mut begun, mut before, mut number) = (Instant::now(), 0, 0);
    while !over.load(Ordering::Relaxed) {
        thread::park_timeout((begun + every).saturating_duration_since(Instant::now()));
        let seconds = begun.elapsed().as_secs_f64();
        // the last one is shorter; one that is far too short says nothing
        if seconds < every.as_secs_f64() && (!over.load(Ordering::Relaxed) || seconds < 0.05) {
            continue;
        }
        let units = progress.units.load(Ordering::Relaxed);
        let rate = unit.convert((units - before) as f64 / seconds);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        print(&line(&options.output, number, rate, &unit.interim_name(), seconds, now));
        (begun, before, number) = (Instant::now(), units, number + 1);
    }
}

fn line(
    output: &Output,
    number: u32,
    rate: f64,
    unit: &str,
    seconds: f64,
    now: Duration,
) -> String {
    let ending = format!("{}.{:03}", now.as_secs(), now.subsec_millis());
    match output {
        Output::Pairs(_) => format!(
            "NETPERF_INTERIM_RESULT[{number}]={rate:.2}\nNETPERF_UNITS[{number}]={unit}\n\
             NETPERF_INTERVAL[{number}]={seconds:.3}\nNETPERF_ENDING[{number}]={ending}\n"
        ),
        Output::Commas(_) => format!("{rate:7.2},{unit},{seconds:.3},{ending}\n"),
        Output::Classic | Output::Columns(_) => format!(
            "Interim result: {rate:7.2} {unit} over {seconds:.3} seconds ending at {ending}\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netperf::options::Names;

    #[test]
    fn an_interval_is_reported_in_the_form_of_the_results() {
        let now = Duration::from_millis(1_795_495_454_737);
        let said = |output| line(&output, 3, 941.5, "10^6bits/s", 0.25, now);
        assert_eq!(
            said(Output::Classic),
            "Interim result:  941.50 10^6bits/s over 0.250 seconds ending at 1795495454.737\n"
        );
        assert_eq!(
            said(Output::Pairs(Names::Usual)),
            "NETPERF_INTERIM_RESULT[3]=941.50\nNETPERF_UNITS[3]=10^6bits/s\nNETPERF_INTERVAL[3]=0.250\n\
             NETPERF_ENDING[3]=1795495454.737\n"
        );
        assert_eq!(said(Output::Commas(Names::Usual)), " 941.50,10^6bits/s,0.250,1795495454.737\n");
    }
}
