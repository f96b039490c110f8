//! Deliberate faults of a segment's links.

mod cells;

use std::time::Duration;

use linkrate_wire::link::LinkLaw;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::frame::{Burst, WireFrame};
use crate::pdu::Pdu;

/// Faults of one segment, in both directions, each as the share of frames, or of ATM cells, that have
/// it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// Frames or ATM cells that are lost.
    pub loss: f64,
    /// Frames with one flipped bit and a right frame check sequence, as bad memory in a switch makes
    /// them: only the checksums of IP and TCP can tell.
    pub corrupt: f64,
    /// Frames with a bit that was flipped on the line: their check sequence is wrong, and the port
    /// drops them.
    pub fcs_error: f64,
    /// Frames that arrive twice.
    pub duplicate: f64,
    /// Frames that are overtaken by those behind them.
    pub reorder: f64,
    /// How much later an overtaken frame comes.
    pub reorder_by: Duration,
    /// ATM cells with one flipped bit in the header, which the header error control corrects.
    pub header_error: f64,
    /// ATM cells with two flipped bits in the header, which are dropped.
    pub double_header_error: f64,
    /// ATM cells with one flipped bit in the payload: the CRC of their unit is wrong.
    pub payload_error: f64,
    /// ATM cells behind which a cell of another connection comes with their header.
    pub misinsert: f64,
    /// How much longer every frame or cell takes.
    pub delay: Duration,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            loss: 0.0,
            corrupt: 0.0,
            fcs_error: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            header_error: 0.0,
            double_header_error: 0.0,
            payload_error: 0.0,
            misinsert: 0.0,
            reorder_by: Duration::from_micros(200),
            delay: Duration::ZERO,
            seed: 1,
        }
    }
}

/// A fault out of its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{fault} is {value}, expected {expected}")]
pub struct FaultError {
    fault: &'static str,
    value: String,
    expected: &'static str,
}

impl FaultError {
    #[must_use]
    pub fn expected(&self) -> &'static str {
        self.expected
    }
}

/// Longest delay: a second more than any round trip on Earth.
const MAX_DELAY: Duration = Duration::from_secs(10);

impl Faults {
    /// The error names the first value out of its range.
    pub fn check(&self) -> Result<(), FaultError> {
        let shares = [
            ("loss", self.loss),
            ("corrupt", self.corrupt),
            ("fcs-error", self.fcs_error),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("header-error", self.header_error),
            ("double-header-error", self.double_header_error),
            ("payload-error", self.payload_error),
            ("misinsert", self.misinsert),
        ];
        for (fault, value) in shares {
            if !(0.0..=1.0).contains(&value) {
                let expected = "a share from 0 to 1";
                return Err(FaultError { fault, value: value.to_string(), expected });
            }
        }
        for (fault, value) in [("delay", self.delay), ("reorder-by", self.reorder_by)] {
            if value > MAX_DELAY {
                let value = format!("{value:?}");
                return Err(FaultError { fault, value, expected: "at most 10 s" });
            }
        }
        Ok(())
    }

    /// Checks that links under `law` can have these faults. The error names the first that they do not have.
    pub fn check_law(&self, law: LinkLaw) -> Result<(), FaultError> {
        let (others, what, expected): (&[_], _, _) = match law {
            LinkLaw::Ethernet => (
                &[
                    ("header-error", self.header_error),
                    ("double-header-error", self.double_header_error),
                    ("payload-error", self.payload_error),
                    ("misinsert", self.misinsert),
                ],
                "a fault of ATM cells, on an Ethernet link",
                "loss, corrupt, fcs-error, duplicate, reorder and delay",
            ),
            LinkLaw::Atm => (
                &[
                    ("corrupt", self.corrupt),
                    ("fcs-error", self.fcs_error),
                    ("duplicate", self.duplicate),
                    ("reorder", self.reorder),
                ],
                "a fault of Ethernet frames, on an ATM link",
                "loss, header-error, double-header-error, payload-error, misinsert and delay",
            ),
        };
        match others.iter().find(|(_, share)| *share > 0.0) {
            Some((fault, _)) => Err(FaultError { fault, value: what.to_owned(), expected }),
            None => Ok(()),
        }
    }

    fn any(&self) -> bool {
        *self != Self { seed: self.seed, reorder_by: self.reorder_by, ..Self::default() }
    }
}

/// Faults at work.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    faults: Faults,
    any: bool,
    random: ChaCha8Rng,
    /// Frames or cells that were lost since the last [`take_lost`](FaultInjector::take_lost).
    lost: u64,
}

impl FaultInjector {
    pub(crate) fn new(faults: Faults) -> Self {
        let random = ChaCha8Rng::seed_from_u64(faults.seed);
        Self { any: faults.any(), random, lost: 0, faults }
    }

    /// Frames or cells that were lost since the last call.
    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Calls `arrives` for what is not lost of a load whose last bit would arrive at `at_ps`, each
    /// part with the time of its last bit.
    pub(crate) fn pass(&mut self, pdu: Pdu, at_ps: u64, mut arrives: impl FnMut(Pdu, u64)) {
        match pdu {
            pdu if !self.any || pdu.is_signal() => arrives(pdu, at_ps),
            Pdu::Frames(burst) => {
                let mut later = |burst: Burst, later_ps| arrives(burst.into(), at_ps + later_ps);
                burst.each().for_each(|frame| self.pass_one(frame, &mut later));
            }
            Pdu::Cells(train) => self.pass_cells(train, at_ps, &mut arrives),
            Pdu::Signal(_) => {}
        }
    }

    fn pass_one(&mut self, frame: WireFrame, arrives: &mut impl FnMut(Burst, u64)) {
        let faults = self.faults;
        if self.chance(faults.loss) {
            self.lost += 1;
            return;
        }
        if self.chance(faults.fcs_error) {
            arrives(Burst::from(frame).damaged(), duration_ps(faults.delay));
            return;
        }
        let frame = if self.chance(faults.corrupt) { self.flipped(&frame) } else { frame };
        let mut later_ps = duration_ps(faults.delay);
        if self.chance(faults.reorder) {
            later_ps += duration_ps(faults.reorder_by);
        }
        if self.chance(faults.duplicate) {
            arrives(frame.clone().into(), later_ps);
        }
        arrives(frame.into(), later_ps);
    }

    fn chance(&mut self, share: f64) -> bool {
        // no draw for a share of 0, so that the pattern of one fault does not depend on others
        share > 0.0 && (self.random.next_u64() >> 11) as f64 / ((1u64 << 53) as f64) < share
    }

    fn flipped(&mut self, frame: &WireFrame) -> WireFrame {
        let mut bytes = frame.to_vec();
        let bit = self.random.next_u64() as usize % (bytes.len() * 8).max(1);
        if let Some(byte) = bytes.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
        WireFrame::copied(bytes)
    }
}

fn duration_ps(duration: Duration) -> u64 {
    // at most `MAX_DELAY`
    duration.as_nanos() as u64 * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(faults: Faults, frames: usize) -> Vec<(Burst, u64)> {
        let mut injector = FaultInjector::new(faults);
        let mut out = Vec::new();
        for _ in 0..frames {
            injector.pass(WireFrame::copied(vec![0; 100]).into(), 0, |pdu, later_ps| {
                out.push((pdu.into_frames().unwrap(), later_ps))
            });
        }
        out
    }

    #[test]
    fn a_line_without_faults_changes_nothing() {
        let out = pass(Faults::default(), 10);
        let whole = |(burst, later_ps): &(Burst, u64)| {
            !burst.is_damaged() && *later_ps == 0 && burst.first().to_vec() == [0; 100]
        };
        assert!(out.len() == 10 && out.iter().all(whole));
    }

    #[test]
    fn every_lost_frame_is_counted_once() {
        let mut injector = FaultInjector::new(Faults { loss: 0.2, ..Faults::default() });
        let (mut came, mut lost) = (0, 0);
        for _ in 0..1000 {
            injector.pass(WireFrame::copied(vec![0; 100]).into(), 0, |_, _| came += 1);
            lost += injector.take_lost();
        }
        assert_eq!((came + lost, injector.take_lost()), (1000, 0));
        assert!((150..250).contains(&lost), "{lost}");
    }

    #[test]
    fn shares_come_out_as_asked_and_the_same_for_one_seed() {
        let faults = Faults { loss: 0.1, duplicate: 0.05, corrupt: 0.2, ..Faults::default() };
        let out = pass(faults, 10_000);
        let expected = 10_000.0 * 0.9 * 1.05;
        assert!((out.len() as f64 - expected).abs() < 200.0, "{}", out.len());
        let flipped = |(burst, _): &&(Burst, u64)| {
            let bits: u32 = burst.first().to_vec().iter().map(|byte| byte.count_ones()).sum();
            assert!(bits <= 1);
            bits == 1
        };
        let corrupted = out.iter().filter(flipped).count() as f64;
        assert!((corrupted / out.len() as f64 - 0.2).abs() < 0.02, "{corrupted}");
        assert_eq!(format!("{:?}", pass(faults, 50)), format!("{:?}", pass(faults, 50)));
    }

    #[test]
    fn frames_and_cells_have_faults_of_their_own() {
        let of_both = Faults { loss: 0.1, delay: Duration::from_millis(1), ..Faults::default() };
        let of_frames = Faults { duplicate: 0.1, ..Faults::default() };
        let of_cells = Faults { misinsert: 0.1, ..Faults::default() };
        for law in [LinkLaw::Ethernet, LinkLaw::Atm] {
            assert_eq!(of_both.check_law(law), Ok(()));
            assert_eq!(of_frames.check_law(law).is_ok(), law == LinkLaw::Ethernet);
            assert_eq!(of_cells.check_law(law).is_ok(), law == LinkLaw::Atm);
        }
        let error = of_frames.check_law(LinkLaw::Atm).unwrap_err().to_string();
        assert!(
            error.starts_with("duplicate is a fault of Ethernet frames, on an ATM link"),
            "{error}"
        );
    }

    #[test]
    fn delays_add_up() {
        let faults = Faults {
            delay: Duration::from_millis(2),
            reorder: 1.0,
            reorder_by: Duration::from_micros(5),
            ..Faults::default()
        };
        assert!(matches!(pass(faults, 1)[..], [(_, 2_005_000_000)]));
    }

    #[test]
    fn a_damaged_frame_arrives_and_says_so() {
        let out = pass(Faults { fcs_error: 1.0, ..Faults::default() }, 3);
        assert!(out.len() == 3 && out.iter().all(|(burst, _)| burst.is_damaged()));
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        let error = Faults { reorder: 1.5, ..Faults::default() }.check().unwrap_err();
        assert_eq!(error.to_string(), "reorder is 1.5, expected a share from 0 to 1");
        let error = Faults { loss: f64::NAN, ..Faults::default() }.check().unwrap_err();
        assert!(error.to_string().starts_with("loss is NaN"));
        let faults = Faults { delay: Duration::from_secs(60), ..Faults::default() };
        assert!(faults.check().unwrap_err().to_string().contains("at most 10 s"));
    }
}
