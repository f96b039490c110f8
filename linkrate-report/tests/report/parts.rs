//! Parts of a service demand: four tenths are application and stack, the rest the driver.

use linkrate_study::quantity::{Interval, Quantity};
use linkrate_study::results::{DemandParts, PartIntervals, TapPart};

/// The parts of this service demand, which scatter as it does.
pub fn of(demand: Quantity) -> DemandParts {
    let whole = demand.interval;
    let part = |fraction: f64| Interval {
        mean: whole.mean * fraction,
        low: whole.low.map(|low| low * fraction),
        high: whole.high.map(|high| high * fraction),
    };
    DemandParts {
        application_and_stack: whole.mean * 0.4,
        driver: whole.mean * 0.6,
        tap: Some(TapPart {
            mean: whole.mean * 0.21,
            low: whole.mean * 0.2,
            high: whole.mean * 0.23,
        }),
        intervals: PartIntervals { application_and_stack: part(0.4), driver: part(0.6) },
    }
}
