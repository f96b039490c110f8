//! Whether hosts can be isolated on this machine, and the remedy if not.

use std::fs;
use std::io;

use super::enter::{Step, StepReport, Steps, bring_loopback_up};
use super::{Isolation, Life};
use crate::error::{SysError, SysResult};

/// The privilege that isolation uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// The caller may create namespaces and configure their networks.
    Root,
    /// A user namespace gives the caller that privilege.
    UserNamespace,
}

impl Privilege {
    /// Isolation of the first host.
    pub fn isolation(self) -> Isolation<'static> {
        match self {
            Self::Root => Isolation::Root,
            Self::UserNamespace => Isolation::UserNamespace { join: None },
        }
    }
}

/// Tries to isolate a host, in a child that ends at once.
///
/// # Errors
/// The refused step, and in the hint the setting that an administrator can change.
pub fn can_isolate() -> SysResult<Privilege> {
    let act = || bring_loopback_up().map(|()| 0);
    // SAFETY: raw system calls only.
    let rehearsed = |isolation| unsafe { rehearse(isolation, act) };
    if rustix::process::geteuid().is_root() {
        match rehearsed(Isolation::Root) {
            Ok(_) => return Ok(Privilege::Root),
            // a user namespace has the same root directory
            Err((Some(step @ Step::PrivateMounts), cause))
                if cause.raw_os_error() == Some(libc::EINVAL) =>
            {
                return Err(refused(step, Isolation::Root, "for a test host".to_owned(), cause));
            }
            Err(_) => {}
        }
    }
    let isolation = Privilege::UserNamespace.isolation();
    rehearsed(isolation).map(|_| Privilege::UserNamespace).map_err(|(step, cause)| {
        // if every step succeeded, the loopback interface was refused
        let step = step.unwrap_or(Step::Loopback);
        refused(step, isolation, "for a test host".to_owned(), cause)
    })
}

/// Calls `act` in a temporary host and returns its finding. `operation` names it in errors.
///
/// # Errors
/// When hosts cannot be isolated here, or `act` fails.
///
/// # Safety
/// `act` makes raw system calls only: it neither allocates, nor locks, nor panics.
pub(crate) unsafe fn try_in_a_host(operation: &str, act: fn() -> io::Result<u8>) -> SysResult<u8> {
    let isolation = can_isolate()?.isolation();
    // SAFETY: by the caller.
    let found = unsafe { rehearse(isolation, act) };
    found.map_err(|(step, cause)| match step {
        Some(step) => refused(step, isolation, "for a test host".to_owned(), cause),
        None => SysError::new(operation, "", cause),
    })
}

/// Takes all steps of a host in a forked child, then calls `act`, and returns its finding. If `act`
/// fails, the error has no step.
///
/// # Safety
/// `act` makes raw system calls only: it neither allocates, nor locks, nor panics.
unsafe fn rehearse(
    isolation: Isolation<'_>,
    act: fn() -> io::Result<u8>,
) -> Result<u8, (Option<Step>, io::Error)> {
    let at_fork = |error| (Some(Step::Unshare), error);
    let report = StepReport::new().map_err(at_fork)?;
    let mut steps = Steps::new(isolation, Life::WithItsParent, report.writer());
    // SAFETY: the child makes raw system calls only until it exits without running destructors
    // or exit handlers; see `Steps`, and by the caller.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(at_fork(io::Error::last_os_error()));
    }
    if child == 0 {
        let errno = match steps.rehearse(act) {
            Ok(()) => 0,
            Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
        };
        // SAFETY: ends the child here; error numbers that matter are below 256.
        unsafe { libc::_exit(errno) };
    }
    match exit_code_of(child).map_err(at_fork)? {
        Some(0) => Ok(report.found().unwrap_or_default()),
        Some(errno) => Err((report.refused(), io::Error::from_raw_os_error(errno))),
        None => Err(at_fork(io::Error::other("the test child was killed"))),
    }
}

/// Waits for a forked child. `None` if a signal ended it.
fn exit_code_of(child: libc::pid_t) -> io::Result<Option<i32>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is writable; the child is the caller's own and not yet waited for.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } >= 0 {
            return Ok(libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// The error for a refused step, with the setting that an administrator can change.
pub(super) fn refused(
    step: Step,
    isolation: Isolation<'_>,
    subject: String,
    cause: io::Error,
) -> SysError {
    let hint = remedy(step, isolation, cause.raw_os_error(), |path| fs::read_to_string(path).ok());
    let error = SysError::new(step.name(), subject, cause);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// Settings that forbid namespaces: file, forbidding value, whether it concerns user namespaces
/// only, and the command that permits them.
const OBSTACLES: [(&str, &str, bool, &str); 5] = [
    // Debian and its descendants
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        true,
        "sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    ("/proc/sys/user/max_user_namespaces", "0", true, "sysctl -w user.max_user_namespaces=1000"),
    // Ubuntu since 23.10
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        true,
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("/proc/sys/user/max_net_namespaces", "0", false, "sysctl -w user.max_net_namespaces=1000"),
    ("/proc/sys/user/max_mnt_namespaces", "0", false, "sysctl -w user.max_mnt_namespaces=1000"),
];

fn remedy(
    step: Step,
    isolation: Isolation<'_>,
    errno: Option<i32>,
    read: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let as_user = matches!(isolation, Isolation::UserNamespace { .. });
    let obstacle = OBSTACLES
        .iter()
        .filter(|(_, _, users_only, _)| as_user || !users_only)
        .find(|(path, value, _, _)| read(path).is_some_and(|text| text.trim() == *value));
    let otherwise = if as_user { "run as root, or ask" } else { "ask" };
    match (errno?, obstacle) {
        // user_namespaces(7), namespaces(7): ENOSPC means that a limit is reached, EUSERS that the
        // nesting is too deep
        (libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS, Some((.., command))) => {
            Some(format!("{otherwise} an administrator to run `{command}`"))
        }
        (libc::ENOSPC | libc::EUSERS, None) => {
            Some(format!("{otherwise} an administrator to raise the limits in /proc/sys/user"))
        }
        (libc::EPERM | libc::EACCES, None) => Some(
            "run as root; in a container, start it with --privileged, or with \
             --cap-add=SYS_ADMIN --cap-add=NET_ADMIN --security-opt seccomp=unconfined"
                .to_owned(),
        ),
        (libc::EINVAL, _) if step == Step::PrivateMounts => Some(
            "the root directory is no mount point, as after chroot: use pivot_root, or `mount --bind DIR DIR` \
             before `chroot DIR`"
                .to_owned(),
        ),
        (libc::EINVAL, _) if step == Step::Unshare => {
            Some("use a kernel with network, mount and user namespaces".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: Isolation<'static> = Isolation::UserNamespace { join: None };

    /// The remedy where `path` reads `value` and nothing else is set.
    fn advice(isolation: Isolation<'_>, errno: i32, path: &str, value: &str) -> Option<String> {
        remedy(Step::Unshare, isolation, Some(errno), |asked| {
            (asked == path).then(|| format!("{value}\n"))
        })
    }

    #[test]
    fn the_setting_that_is_in_the_way_is_named() {
        for (path, value, users_only, command) in OBSTACLES {
            for errno in [libc::EPERM, libc::ENOSPC] {
                assert!(advice(USER, errno, path, value).unwrap().contains(command));
                let as_root = advice(Isolation::Root, errno, path, value).unwrap();
                assert_eq!(as_root.contains(command), !users_only, "{path}");
            }
            assert!(!advice(USER, libc::EPERM, path, "5").unwrap().contains(command));
        }
    }

    #[test]
    fn other_refusals_have_other_remedies() {
        assert!(advice(USER, libc::EPERM, "", "").unwrap().contains("--privileged"));
        assert!(advice(USER, libc::ENOSPC, "", "").unwrap().contains("/proc/sys/user"));
        assert!(advice(USER, libc::EINVAL, "", "").unwrap().contains("use a kernel with network"));
        assert_eq!(advice(USER, libc::EIO, "", ""), None);
        let mounts = remedy(Step::PrivateMounts, Isolation::Root, Some(libc::EINVAL), |_| None);
        assert!(mounts.unwrap().contains("chroot"));
    }
}
