//! The payload that a program of others counted, beside the payload that the system under test counted.

use linkrate_terms::Measurement;

use super::Refusal;
use crate::executor::Stage;

/// How far both counts may be apart. Both are of the same whole test, after all of it was acknowledged.
const APART: f64 = 0.005;

/// Refuses a run of whose payload both ends tell different amounts.
pub(super) fn check(measured: &Measurement) -> Result<(), Refusal> {
    match measured.evidence.told.iter().find(|told| told.apart() > APART) {
        None => Ok(()),
        Some(told) => Err(Refusal {
            stage: Stage::Measure,
            named: told.program.clone(),
            reason: format!(
                "{} counted {} B of payload, and the system under test {} B; expected the same within \
                 {:.1} %",
                told.program,
                told.bytes,
                told.bytes_here,
                APART * 100.0
            ),
        }),
    }
}
