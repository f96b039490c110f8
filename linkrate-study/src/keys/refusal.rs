//! Settings that are refused beside others.

/// The MTU a testbed makes its links with when none is set.
pub(super) const DEFAULT_MTU: u32 = 1500;

/// Two settings that cannot be combined, as a sentence that says what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Combination {
    /// The key whose value is refused.
    pub key: &'static str,
    /// The key that it cannot be combined with.
    pub other: &'static str,
    /// What is wrong and what would be right.
    pub sentence: String,
}

pub(super) fn refuse(
    key: &'static str,
    other: &'static str,
    sentence: String,
) -> Result<(), Combination> {
    Err(Combination { key, other, sentence })
}
