//! The begin of a measurement: every flow moves, and moves steadily.
//!
//! Connections start unevenly. On a busy CPU a flow may wait for its first turn until long after
//! the others have filled the link, and a measurement that opens before that measures the start. The
//! bytes of each flow are therefore looked at in equal steps, and the measurement opens when none of the
//! last steps differs from the others.

use std::collections::VecDeque;
use std::time::Duration;

use linkrate_model::{Protocol, Workload};
use linkrate_protocol::{Reply, Request};
use linkrate_sys::clock::monotonic_ns;

use super::programs::tend_until;
use crate::connection::{AgentError, expect_reply};
use crate::testbed::Testbed;

/// Time between two polls.
const STEP: Duration = Duration::from_millis(50);

/// Steps that are compared.
const STEPS: usize = 3;

/// The longest wait after the warm-up.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A flow moves steadily if it carries at least this part of the mean of all flows.
const SHARE: u64 = 8;

/// All flows together move steadily if no step carries less than this part of another.
const EVENNESS: u64 = 2;

/// Messages that a flow carries on average in the steps that are compared. Below this number a flow
/// that stalls cannot be told from a flow between two messages.
const MESSAGES: u64 = 8;

/// Lets the flows run until `opens_ns` of CLOCK_MONOTONIC, and longer while they do not move
/// steadily, at most by [`TIMEOUT`]. Returns the number of flows that still did not.
pub(super) fn hold(
    testbed: &mut Testbed,
    workload: &Workload,
    warm_up: Duration,
    opens_ns: u64,
) -> Result<u32, AgentError> {
    // no warm-up means that the begin is the question
    if warm_up.is_zero() {
        return Ok(0);
    }
    let Testbed { sut, backend, .. } = testbed;
    let (connection, adapters) = (&mut sut.connection, backend.adapters());
    let step_ns = STEP.as_nanos() as u64;
    let steps = (warm_up.as_nanos() as u64 / step_ns).min(STEPS as u64);
    // programs that leave out a beginning may have taken some of it
    let mut look_ns = (opens_ns - steps * step_ns).max(monotonic_ns());
    tend_until(adapters, look_ns, |at_ns| connection.pause_until(at_ns))?;
    let last_ns = opens_ns + TIMEOUT.as_nanos() as u64;
    let mut samples = Samples::new(workload);
    loop {
        let bytes = expect_reply!(
            connection, Request::Progress, Reply::Progress { bytes, .. } => bytes
        )?;
        samples.add(bytes);
        let slow = samples.unsteady();
        if look_ns >= opens_ns && slow == Some(0) || look_ns >= last_ns {
            return Ok(slow.unwrap_or(0));
        }
        look_ns = (look_ns + step_ns).max(monotonic_ns());
        tend_until(adapters, look_ns, |at_ns| connection.pause_until(at_ns))?;
    }
}

/// The last looks at the bytes of each flow.
#[derive(Debug)]
struct Samples {
    samples: VecDeque<Vec<u64>>,
    /// Bytes of one message.
    message: u64,
    /// Flows are judged one by one, and not only all together.
    each: bool,
}

impl Samples {
    fn new(workload: &Workload) -> Self {
        let transaction = workload.request.largest().0 + workload.response.largest().0;
        let message = match workload.kind {
            kind if kind.is_transactional() => transaction,
            Protocol::Transfer => workload.transfer.0,
            _ => workload.message.largest().0,
        };
        // a connection of a transaction goes to whichever flow is free
        // flows of different workloads do not move alike
        let each = workload.kind != Protocol::ConnectRequestResponse && workload.mix.is_empty();
        Self { samples: VecDeque::new(), message, each }
    }

    fn add(&mut self, bytes: Vec<u64>) {
        if self.samples.len() > STEPS {
            self.samples.pop_front();
        }
        self.samples.push_back(bytes);
    }

    /// The number of flows that do not move steadily: all of them if their sum does not. `None`
    /// before there are enough looks.
    fn unsteady(&self) -> Option<u32> {
        if self.samples.len() <= STEPS {
            return None;
        }
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let moved: Vec<u64> =
            last.iter().zip(first).map(|(after, before)| after.saturating_sub(*before)).collect();
        let flows = moved.len() as u64;
        let mean = total(&moved) / flows.max(1);
        if mean < MESSAGES.saturating_mul(self.message) {
            return Some(0);
        }
        let samples: Vec<u64> = self.samples.iter().map(|sample| total(sample)).collect();
        let steps = samples.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        let (least, most) = (steps.clone().min()?, steps.max()?);
        if least.saturating_mul(EVENNESS) < most {
            return Some(flows as u32);
        }
        let slow = moved.iter().filter(|bytes| **bytes < mean / SHARE).count();
        Some(if self.each { slow as u32 } else { 0 })
    }
}

/// The bytes of all flows; the sum stays at the largest number, whatever an agent reports.
fn total(sample: &[u64]) -> u64 {
    sample.iter().copied().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use linkrate_model::MessageSize;
    use linkrate_model::units::ByteSize;

    use super::*;

    fn samples(kind: Protocol, all: &[&[u64]]) -> Option<u32> {
        let message = MessageSize::Fixed(ByteSize(1));
        let workload =
            Workload { kind, message, request: message, response: message, ..Workload::default() };
        let mut samples = Samples::new(&workload);
        all.iter().for_each(|bytes| samples.add(bytes.to_vec()));
        samples.unsteady()
    }

    #[test]
    fn flows_that_move_alike_are_steady() {
        let alike: [&[u64]; 4] = [&[0, 0], &[100, 90], &[190, 200], &[300, 300]];
        assert_eq!(samples(Protocol::Stream, &alike), Some(0));
        assert_eq!(samples(Protocol::Stream, &alike[..3]), None, "too few looks");
    }

    #[test]
    fn a_flow_that_stalls_is_counted() {
        let still: [&[u64]; 4] = [&[0, 7, 0], &[100, 7, 90], &[190, 7, 200], &[300, 8, 300]];
        assert_eq!(samples(Protocol::Stream, &still), Some(1));
        assert_eq!(samples(Protocol::ConnectRequestResponse, &still), Some(0));
    }

    #[test]
    fn a_step_without_progress_makes_all_flows_unsteady() {
        let pause: [&[u64]; 4] = [&[0, 0], &[100, 100], &[120, 120], &[220, 220]];
        assert_eq!(samples(Protocol::Stream, &pause), Some(2));
        // only the last steps count
        let over: [&[u64]; 6] =
            [&[0, 0], &[100, 100], &[120, 120], &[220, 220], &[320, 320], &[420, 420]];
        assert_eq!(samples(Protocol::Stream, &over), Some(0));
    }

    #[test]
    fn counts_that_no_sum_holds_are_judged_too() {
        let huge: [&[u64]; 4] = [&[0, 0], &[u64::MAX, u64::MAX], &[u64::MAX, 0], &[u64::MAX, 7]];
        assert_eq!(samples(Protocol::Stream, &huge), Some(2));
    }

    #[test]
    fn few_messages_are_not_judged() {
        let few: [&[u64]; 4] = [&[0, 0], &[2, 0], &[4, 0], &[6, 0]];
        assert_eq!(samples(Protocol::Stream, &few), Some(0));
    }
}
