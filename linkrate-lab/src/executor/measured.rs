//! What a lab measures of its machine before the first run, and adds to what runs measure.

use std::collections::BTreeMap;

use linkrate_study::belief::Purpose;
use linkrate_study::executor::Contention;
use linkrate_terms::Measurement;
use linkrate_terms::tap::TapPrices;

use super::contention;
use crate::ground::fact_of_tap_prices;
use crate::testbed::Testbed;

/// What was measured. It holds for all testbeds of the lab: it depends on the CPUs and the kernel alone.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// The prices of calls to a TAP, or why they are not known; `None` without virtual adapters.
    tap: Option<Result<TapPrices, String>>,
    /// What the work of the other CPUs costs the SUT's; `None` before it was measured.
    contention: Option<Result<Option<Contention>, String>>,
}

impl Measured {
    /// Measures what runs of this purpose need, was not measured yet and can be measured on this testbed. Nothing must
    /// flow.
    pub(super) fn complete(&mut self, testbed: &mut Testbed, purpose: Purpose) {
        if purpose == Purpose::Functions {
            return;
        }
        if self.contention.is_none() {
            let measured = contention::measure(&testbed.placement);
            self.contention = Some(measured.map_err(|error| error.to_string()));
        }
        if self.tap.is_none() {
            let prices = testbed.ground.tap_prices(&mut testbed.sut);
            self.tap = prices.map(|prices| prices.map_err(|error| error.to_string()));
        }
    }

    /// The facts by name.
    pub(super) fn facts(&self) -> BTreeMap<String, String> {
        let tap = self.tap.as_ref().map(|prices| match prices {
            Ok(prices) => fact_of_tap_prices(prices),
            Err(reason) => format!("not measured: {reason}"),
        });
        let tap = tap.map(|fact| ("tap-prices".to_owned(), fact));
        let contention = self.contention.as_ref().map(|contention| match contention {
            Ok(Some(contention)) => format!(
                "a loop of {:.1} ms on the SUT's CPU takes {contention} more CPU time while the other CPUs \
                 copy memory; quartiles in brackets",
                contention.loop_ns as f64 / 1e6
            ),
            Ok(None) => "not applicable: the clients have no CPUs of their own on this machine".to_owned(),
            Err(reason) => format!("not measured: {reason}"),
        });
        let contention = contention.map(|fact| ("contention".to_owned(), fact));
        tap.into_iter().chain(contention).collect()
    }

    /// What the work of the other CPUs costs the SUT's; `None` where that was not measured.
    pub(super) fn contention(&self) -> Option<Contention> {
        self.contention.as_ref()?.as_ref().ok().copied().flatten()
    }

    /// What a reader must know, as sentences.
    pub(super) fn warnings(&self) -> Vec<String> {
        let failed = self.tap.as_ref().and_then(|prices| prices.as_ref().err());
        let warning = failed.map(|reason| {
            format!(
                "the prices of calls to a TAP could not be measured, so it is not known which part of \
                 the driver's time a real adapter would not cost: {reason}"
            )
        });
        warning.into_iter().collect()
    }

    /// Adds to a measurement what it is to be reckoned with.
    pub(super) fn add_to(&self, measurement: &mut Measurement) {
        if let Some(Ok(prices)) = &self.tap
            && let Some(adapter) = &mut measurement.evidence.adapter
            && let Some(tap) = &mut adapter.tap
        {
            tap.prices = Some(*prices);
        }
    }
}
