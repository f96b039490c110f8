//! Prefetching memory into the cache.

/// Bytes of a cache line; with longer lines, some are prefetched twice.
const LINE_BYTES: usize = 64;

/// Asks the processor to fetch `bytes` into its cache while the program continues. It has no other
/// effect, and no effect at all except on x86-64 and arm64.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES) {
        prefetch_line(line.as_ptr());
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_line(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, which SSE of every x86-64 processor has; it changes nothing and never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn prefetch_line(address: *const u8) {
    // SAFETY: a hint, which changes nothing and never faults.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{0}]",
            in(reg) address,
            options(nostack, readonly, preserves_flags),
        );
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn prefetch_line(_address: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_may_be_asked_for_and_stay_as_they_are() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let before = bytes.clone();
        for range in [0..0, 0..1, 63..65, 1..10_000, 9_999..10_000] {
            prefetch(&bytes[range]);
        }
        assert_eq!(bytes, before);
    }
}
