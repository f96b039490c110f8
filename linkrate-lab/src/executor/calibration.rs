//! What a lab measures of its machine before the first run.

use std::collections::BTreeMap;

use linkrate_study::executor::Contention;
use linkrate_study::study::Purpose;

use super::contention;
use crate::testbed::Testbed;

/// What was measured. It holds for all testbeds of the lab: it depends on the CPUs and the kernel alone.
#[derive(Debug, Default)]
pub(super) struct Calibration {
    /// What the work of the other CPUs costs the SUT's; `None` before it was measured.
    contention: Option<Result<Option<Contention>, String>>,
}

impl Calibration {
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
    }

    pub(super) fn facts(&self) -> BTreeMap<String, String> {
        let contention = self.contention.as_ref().map(|contention| match contention {
            Ok(Some(contention)) => format!(
                "a loop of {:.1} ms on the SUT's CPU takes {contention} more CPU time while the other CPUs \
                 copy memory; quartiles in brackets",
                contention.loop_ns as f64 / 1e6
            ),
            Ok(None) => "not applicable: the clients have no CPUs of their own on this machine".to_owned(),
            Err(reason) => format!("not measured: {reason}"),
        });
        contention.map(|fact| ("contention".to_owned(), fact)).into_iter().collect()
    }

    /// What the work of the other CPUs costs the SUT's; `None` where that was not measured.
    pub(super) fn contention(&self) -> Option<Contention> {
        self.contention.as_ref()?.as_ref().ok().copied().flatten()
    }
}
