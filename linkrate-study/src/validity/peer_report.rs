//! The payload that a third-party program counted, beside the payload that the system under test
//! counted.

use linkrate_model::Measurement;

use super::Rejection;
use crate::executor::Stage;

/// How far both counts may be apart. Both are of the same whole test, after all of it was acknowledged.
const APART: f64 = 0.005;

/// Refuses a run of whose payload both ends tell different amounts.
pub(super) fn check(measured: &Measurement) -> Result<(), Rejection> {
    match measured.evidence.peer_reports.iter().find(|reported| reported.difference() > APART) {
        None => Ok(()),
        Some(reported) => Err(Rejection {
            stage: Stage::Measure,
            named: reported.program.clone(),
            reason: format!(
                "{} counted {} B of payload, and the system under test {} B; expected the same within \
                 {:.1} %",
                reported.program,
                reported.bytes,
                reported.bytes_here,
                APART * 100.0
            ),
        }),
    }
}
