//! CLOCK_MONOTONIC, shared by every namespace of one machine, the clock of a thread's CPU time, and local time as text.

use std::ffi::CString;
use std::mem::MaybeUninit;

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * NS_PER_SECOND + now.tv_nsec as u64
}

/// The local time as strftime(3) prints it with `format`; `None` for a format with a zero octet, and for text of more than
/// 255 octets.
#[must_use]
pub fn local_time(format: &str) -> Option<String> {
    let format = CString::new(format).ok()?;
    let mut text = [0_u8; 256];
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: time(2) takes a null pointer. `now` and `parts` live through the call, which writes `parts` alone.
    let is_known = unsafe {
        let now = libc::time(std::ptr::null_mut());
        !libc::localtime_r(&raw const now, parts.as_mut_ptr()).is_null()
    };
    // SAFETY: `text` is writable for its length, of which the call writes no more, and `format` ends with a zero. All of
    // `parts` is integers and a pointer that may be null, and localtime_r has written it.
    let length = unsafe {
        let (at, parts) = (text.as_mut_ptr().cast(), parts.as_ptr());
        if is_known { libc::strftime(at, text.len(), format.as_ptr(), parts) } else { 0 }
    };
    (is_known && (length > 0 || format.is_empty()))
        .then(|| String::from_utf8_lossy(&text[..length]).into_owned())
}

/// Sleeps until CLOCK_MONOTONIC reaches `deadline_ns`; returns at once when it already has.
pub fn sleep_until_ns(deadline_ns: u64) {
    let deadline = Timespec {
        tv_sec: (deadline_ns / NS_PER_SECOND) as i64,
        tv_nsec: (deadline_ns % NS_PER_SECOND) as i64,
    };
    // an absolute deadline survives interruption by a signal unchanged
    while clock_nanosleep_absolute(ClockId::Monotonic, &deadline).is_err() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_is_printed_in_a_format() {
        let seconds: u64 = local_time("%s").unwrap().parse().unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert!(now.as_secs().abs_diff(seconds) < 5, "{seconds}");
        assert_eq!(local_time("a%%b").unwrap(), "a%b");
        assert_eq!((local_time(""), local_time("a\0b")), (Some(String::new()), None));
        assert_eq!(local_time(&"x".repeat(300)), None);
    }
}
