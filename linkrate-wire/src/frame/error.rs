//! The error of a frame that was refused.

use super::Extent;
use std::fmt;

/// A field whose value contradicts the bytes around it.
///
/// Shows as `TCP header length at byte 46 is 12, expected 20 to 60`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameError {
    /// The field or header.
    pub field: &'static str,
    /// Where it is in the frame, in bytes.
    pub at: usize,
    /// The smallest value that would be right.
    pub lowest: usize,
    /// The largest value that would be right; `None` where only the smallest is bounded.
    pub highest: Option<usize>,
    /// The value found.
    pub found: usize,
}

impl fmt::Display for FrameError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, at, lowest, highest, found } = self;
        write!(formatter, "{field} at byte {at} is {found}, expected ")?;
        match highest {
            Some(highest) if highest == lowest => write!(formatter, "{lowest}"),
            Some(highest) => write!(formatter, "{lowest} to {highest}"),
            None => write!(formatter, "at least {lowest}"),
        }
    }
}

impl std::error::Error for FrameError {}

impl FrameError {
    /// Demands that `found`, the value of `field` at byte `at`, is in a range.
    #[inline]
    pub(crate) fn within(
        field: &'static str,
        at: usize,
        found: usize,
        lowest: usize,
        highest: usize,
    ) -> Result<usize, Self> {
        if (lowest..=highest).contains(&found) {
            Ok(found)
        } else {
            Err(Self { field, at, lowest, highest: Some(highest), found })
        }
    }
}

/// Demands that at least `length` bytes from `at` on lie in the head of `frame`. `field` says
/// "bytes of ...".
#[inline]
pub(super) fn has(
    field: &'static str,
    frame: Extent<'_>,
    at: usize,
    length: usize,
) -> Result<(), FrameError> {
    let found = frame.head.len().saturating_sub(at);
    if found >= length {
        Ok(())
    } else {
        Err(FrameError { field, at, lowest: length, highest: None, found })
    }
}
