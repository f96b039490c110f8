//! Reading the fields of a message in their order.

use crate::frame::FrameError;

/// A message of which the fields before `at` are read.
///
/// Places in errors count from the first byte of `bytes`, which is the whole frame where there is
/// one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// What a message that is cut off lacks: "bytes of ...".
    lacks: &'static str,
}

impl<'a> Reader<'a> {
    /// The message that begins at byte `at` of `bytes`.
    pub(super) const fn new(bytes: &'a [u8], at: usize, lacks: &'static str) -> Self {
        Self { bytes, at, lacks }
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let rest = self.rest();
        let Some(array) = rest.first_chunk::<N>() else {
            let (field, at, found) = (self.lacks, self.at, rest.len());
            return Err(FrameError { field, at, lowest: N, highest: None, found });
        };
        self.at += N;
        Ok(*array)
    }

    /// The next byte, whose value is in `lowest..=highest`.
    pub(super) fn byte(
        &mut self,
        field: &'static str,
        lowest: u8,
        highest: u8,
    ) -> Result<u8, FrameError> {
        let at = self.at;
        let [value] = self.array()?;
        FrameError::within(field, at, value.into(), lowest.into(), highest.into())?;
        Ok(value)
    }

    /// The next two bytes as a number, whose value is in `lowest..=highest`.
    pub(super) fn word(
        &mut self,
        field: &'static str,
        lowest: u16,
        highest: u16,
    ) -> Result<u16, FrameError> {
        let at = self.at;
        let value = u16::from_be_bytes(self.array()?);
        FrameError::within(field, at, value.into(), lowest.into(), highest.into())?;
        Ok(value)
    }

    /// The next two bytes as a number.
    pub(super) fn any_word(&mut self) -> Result<u16, FrameError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}
