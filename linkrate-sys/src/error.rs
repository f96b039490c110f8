//! The error of every refused system call: operation, subject, cause and remedy.

use std::borrow::Cow;
use std::io;

/// A system call, a netlink request or a kernel file that was refused.
///
/// Printed as `set mtu of "v0" to 99999: Numerical result out of range (os error 34)`. The cause
/// is printed as part of the line, so it is not repeated through
/// [`source`](std::error::Error::source).
#[derive(Debug)]
pub struct SysError {
    operation: String,
    subject: String,
    cause: io::Error,
    detail: Option<String>,
    hint: Option<Cow<'static, str>>,
}

/// Result of functions that call the kernel.
pub type SysResult<T> = Result<T, SysError>;

impl SysError {
    /// `operation` is the attempted operation (`set mtu of`, `open`), `subject` its object
    /// (`"v0" to 99999`, `/proc/stat`); they are printed with a space between them. An empty
    /// subject is not printed.
    pub fn new(
        operation: impl Into<String>,
        subject: impl Into<String>,
        cause: impl Into<io::Error>,
    ) -> Self {
        Self {
            operation: operation.into(),
            subject: subject.into(),
            cause: cause.into(),
            detail: None,
            hint: None,
        }
    }

    /// Adds the kernel's text about this failure (the netlink extended acknowledgement).
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into()).filter(|detail| !detail.is_empty());
        self
    }

    /// Adds the remedy, a lowercase fragment for a `hint:` line.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The remedy, for a `hint:` line: the given one, or the default for this error number.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref().or_else(|| match self.cause.raw_os_error()? {
            libc::EPERM | libc::EACCES => {
                Some("run as root, or allow linkrate to create a user namespace")
            }
            libc::ENODEV => Some("list the interfaces of this host with `ip link`"),
            libc::EOPNOTSUPP => {
                Some("this kernel or this interface does not support the operation")
            }
            libc::EEXIST => Some("remove the existing object of that name first"),
            libc::ENOENT
                if self.subject.starts_with("/sys/") || self.subject.starts_with("/proc/") =>
            {
                Some("mount /proc and /sys")
            }
            libc::EMFILE => Some("raise the limit on open files with `ulimit -n`"),
            _ => None,
        })
    }

    /// The kind of failure.
    pub fn kind(&self) -> io::ErrorKind {
        self.cause.kind()
    }

    /// Whether this kernel or this interface does not support the operation.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.errno(), Some(libc::EOPNOTSUPP | libc::ENOSYS))
    }

    /// Whether there is no such interface.
    pub fn is_missing_device(&self) -> bool {
        self.errno() == Some(libc::ENODEV)
    }

    /// The error number, if the kernel gave one.
    pub fn errno(&self) -> Option<i32> {
        self.cause.raw_os_error()
    }
}

impl std::fmt::Display for SysError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.operation)?;
        if !self.subject.is_empty() {
            write!(f, " {}", self.subject)?;
        }
        write!(f, ": {}", self.cause)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        Ok(())
    }
}

impl std::error::Error for SysError {}

impl From<SysError> for io::Error {
    /// Keeps the kind and the whole line.
    fn from(error: SysError) -> Self {
        Self::new(error.kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errno(number: i32) -> io::Error {
        io::Error::from_raw_os_error(number)
    }

    #[test]
    fn says_what_was_tried_on_what_and_why_not() {
        let error = SysError::new("set mtu of", "\"v0\" to 99999", errno(libc::ERANGE));
        assert_eq!(
            error.to_string(),
            "set mtu of \"v0\" to 99999: Numerical result out of range (os error 34)"
        );
        assert_eq!(error.errno(), Some(libc::ERANGE));
        assert!(!error.is_unsupported());
        assert!(SysError::new("open", "", errno(libc::EOPNOTSUPP)).is_unsupported());
        assert_eq!(error.hint(), None);
    }

    #[test]
    fn carries_the_words_of_the_kernel_and_a_remedy() {
        let error = SysError::new("create veth", "", errno(libc::EPERM)).with_detail("no way");
        assert_eq!(error.to_string(), "create veth: Operation not permitted (os error 1) (no way)");
        assert!(error.hint().unwrap().contains("root"));
        assert_eq!(error.with_hint("pray").hint(), Some("pray"));
    }

    #[test]
    fn becomes_an_io_error_without_losing_a_word() {
        let error = io::Error::from(SysError::new("open", "a", errno(libc::ENOENT)));
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("open a: "));
    }
}
