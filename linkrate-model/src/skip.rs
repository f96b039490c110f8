//! Fields that are left out where they say nothing.

/// Whether a field may be left out: serde asks with a reference.
pub(crate) fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}
