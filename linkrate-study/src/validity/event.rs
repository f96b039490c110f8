//! The event of a run: it came at its moment, and every byte that arrived was in its place.
//!
//! Frames that are lost and sent again are what such a run is about. Nothing else is forgiven.

use std::time::Duration;

use linkrate_model::units::format_duration;
use linkrate_model::{Measurement, RunSpec};

use super::Rejection;
use crate::executor::Stage;

/// How late a fault or a recovery may be. Before it, the part of the measurement is shorter than asked.
const LATE: Duration = Duration::from_millis(20);

/// Checks the moments of the event, unless `is_for_functions`, and the bytes of all streams.
pub(super) fn check(
    spec: &RunSpec,
    run: &Measurement,
    is_for_functions: bool,
) -> Result<(), Rejection> {
    let refuse = |named: &str, reason: String| {
        Err(Rejection { stage: Stage::Measure, named: named.to_owned(), reason })
    };
    let (event, failure) = match (&spec.event, &run.failure) {
        (None, _) => return Ok(()),
        (Some(event), Some(failure)) => (event, failure),
        (Some(event), None) => {
            return refuse("event", format!("event {} did not happen", event.fault.word()));
        }
    };
    let moments = [("event-at", Some(event.at), Some(failure.at_ns))].into_iter().chain([(
        "event-recover",
        event.recover,
        failure.recovered_ns,
    )]);
    for (named, asked, was_ns) in moments {
        let Some(asked) = asked else { continue };
        let Some(was) = was_ns.map(Duration::from_nanos) else {
            return refuse(named, format!("{named} {} did not happen", format_duration(asked)));
        };
        if was.abs_diff(asked) > LATE && !is_for_functions {
            let reason = format!(
                "{named} {} happened {} after the beginning of the measurement, expected at most {} off",
                format_duration(asked),
                format_duration(was),
                format_duration(LATE)
            );
            return refuse(named, reason);
        }
    }
    if failure.wrong_bytes > 0 {
        let reason = format!(
            "{} of {} received bytes differ from those that were sent: payload was lost, duplicated, \
             reordered or corrupted above TCP",
            failure.wrong_bytes, failure.verified_bytes
        );
        return refuse("stream", reason);
    }
    if failure.verified_bytes == 0 {
        return refuse("stream", "no received byte was verified".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use linkrate_model::failure::Failure;

    use super::*;
    use crate::fixture;

    const MS: u64 = 1_000_000;

    fn failed() -> (RunSpec, Measurement) {
        let failure = fixture::failure();
        let event = failure.event;
        let spec = RunSpec { event: Some(event), ..fixture::ladder().cells[0].spec.clone() };
        let run = Measurement { failure: Some(Box::new(failure)), ..fixture::stream(1e9, 0.5) };
        (spec, run)
    }

    fn refused(change: impl FnOnce(&mut Failure)) -> String {
        let (spec, mut run) = failed();
        change(run.failure.as_mut().unwrap());
        check(&spec, &run, false).unwrap_err().reason
    }

    #[test]
    fn lost_and_resent_frames_are_what_the_run_is_about() {
        let (spec, run) = failed();
        assert_eq!(check(&spec, &run, false), Ok(()));
        assert_eq!(check(&RunSpec { event: None, ..spec }, &run, false), Ok(()));
    }

    #[test]
    fn a_wrong_byte_and_an_event_off_its_moment_are_refused() {
        assert!(refused(|failure| failure.wrong_bytes = 3).starts_with("3 of 1073741824 received"));
        assert!(refused(|failure| failure.verified_bytes = 0).contains("no received byte"));
        assert!(
            refused(|failure| failure.at_ns = 530 * MS).starts_with("event-at 500 ms happened")
        );
        assert!(refused(|failure| failure.recovered_ns = None).contains("did not happen"));
        // how late it was is a figure, which a run for its functions has not
        let (spec, mut late) = failed();
        late.failure.as_mut().unwrap().at_ns = 530 * MS;
        assert!(check(&spec, &late, false).is_err() && check(&spec, &late, true).is_ok());
        let without = fixture::stream(1e9, 0.5);
        assert!(check(&spec, &without, false).unwrap_err().reason.contains("did not happen"));
    }
}
