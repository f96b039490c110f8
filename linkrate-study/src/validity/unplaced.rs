//! NAPI threads that run where the kernel likes.

use super::Run;

/// What a reader must know of a run with threaded NAPI on interfaces whose threads are not placed. Those of virtual adapters
/// are, and a system under test with a machine of its own counts all CPUs.
pub(super) fn remark(run: &Run<'_>) -> Option<String> {
    let asked = run.spec.interface.threaded == Some(true);
    let placed = run.measured.evidence.adapter.is_some();
    let counts_all = run.measured.sut_cpu.shared || run.testbed.adapter.has_remote_sut();
    (asked && !placed && !counts_all).then(|| {
        "The threads of threaded NAPI may also have run on CPUs of the clients, where their time is no part of the service \
         demand."
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use linkrate_model::{Measurement, TestbedSpec};

    use super::super::Observed;
    use super::*;
    use crate::fixture;
    use crate::study::Purpose;

    fn remarked(asked: Option<bool>, change: impl FnOnce(&mut Measurement)) -> bool {
        let (testbed, observed) = (TestbedSpec::default(), Observed::default());
        let mut spec = fixture::ladder().cells[0].spec.clone();
        spec.interface.threaded = asked;
        let mut measured = fixture::stream(1e9, 0.5);
        change(&mut measured);
        let purpose = Purpose::Costs;
        let run = Run {
            testbed: &testbed,
            spec: &spec,
            purpose,
            measured: &measured,
            observed: &observed,
        };
        remark(&run).is_some()
    }

    #[test]
    fn threads_that_are_not_placed_are_remarked() {
        assert!(remarked(Some(true), |_| {}));
        assert!(!remarked(Some(false), |_| {}) && !remarked(None, |_| {}));
        assert!(!remarked(Some(true), |run| run.sut_cpu.shared = true));
        let adapter =
            |run: &mut Measurement| run.evidence.adapter = Some(fixture::counted(1.0, 1.0));
        assert!(!remarked(Some(true), adapter));
    }
}
