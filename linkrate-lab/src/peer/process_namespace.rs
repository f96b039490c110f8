//! The way into the network namespace of a process of this machine, through `nsenter`. A sysfs of that namespace is mounted
//! for the agent alone, as `ip netns exec` does it.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use linkrate_model::shell;
use linkrate_sys::host::network_namespace_of;

use super::remote::Transport;
use crate::connection;
use crate::error::LabError;
use crate::options::LabOptions;

/// Exit code of `nsenter` that has entered no namespace, and of `unshare` and `mount` that may not (EXIT_FAILURE).
const NOT_ENTERED: i32 = 1;

/// Runs `$1` with the sysfs of the namespace.
const WITH_SYSFS: &str = "mount -t sysfs sysfs /sys && exec sh -c \"$1\"";

/// The network namespace that a process had when it was looked for; another process may have its number since then.
#[derive(Debug)]
pub(crate) struct ProcessNamespace {
    pid: u32,
    namespace: File,
}

impl ProcessNamespace {
    /// That of process `pid`, which is another one than the controller's.
    pub(crate) fn of(pid: u32) -> Result<Self, LabError> {
        let invalid = |what: String, hint: &str| LabError::Invalid { what, hint: hint.to_owned() };
        let cannot = |error: io::Error| LabError::CannotMeasure {
            what: format!("pid:{pid}: its network namespace cannot be opened: {error}"),
            hint: Some("run as root".to_owned()),
        };
        let namespace =
            network_namespace_of(pid).map(File::from).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => invalid(
                    format!("pid:{pid}: no such process"),
                    "name a process that runs; lsns -t net lists one of each network namespace",
                ),
                _ => cannot(error),
            })?;
        let place = |file: &File| file.metadata().map(|of| (of.dev(), of.ino())).map_err(cannot);
        let own = File::open("/proc/thread-self/ns/net").map_err(cannot)?;
        if place(&namespace)? == place(&own)? {
            return Err(invalid(
                format!("pid:{pid} is in the network namespace of this host"),
                "name a process in another one; lsns -t net lists one of each",
            ));
        }
        Ok(Self { pid, namespace })
    }
}

impl Transport for ProcessNamespace {
    fn carrier(&self) -> &'static str {
        "nsenter"
    }

    fn package(&self) -> Option<&'static str> {
        Some("util-linux")
    }

    fn arguments(&self, command: &str) -> Vec<OsString> {
        // by the descriptor, which stays that of this namespace
        let held = format!("/proc/{}/fd/{}", std::process::id(), self.namespace.as_raw_fd());
        let net = format!("--net={held}");
        [&net, "unshare", "--mount", "sh", "-c", WITH_SYSFS, "sh", command]
            .map(OsString::from)
            .into()
    }

    fn timeout(&self) -> Duration {
        connection::TIMEOUT
    }

    fn usual_program<'a>(&self, options: &'a LabOptions) -> &'a Path {
        &options.program
    }

    fn trial(&self, command: &str) -> String {
        format!("nsenter --target {} --net sh -c {}", self.pid, shell::word(command))
    }

    fn failed(&self, code: i32) -> Option<&'static str> {
        (code == NOT_ENTERED).then_some("nsenter entered no such namespace")
    }

    fn needs(&self) -> &'static str {
        "it takes root"
    }

    fn talkers(&self) -> &'static str {
        "another program in the place of nsenter"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_of_this_host_and_of_no_process_are_refused() {
        let refused = |pid| ProcessNamespace::of(pid).unwrap_err().to_string();
        let own = std::process::id();
        assert_eq!(refused(own), format!("pid:{own} is in the network namespace of this host"));
        // beyond pid_max of any kernel
        assert_eq!(refused(u32::MAX), format!("pid:{}: no such process", u32::MAX));
    }
}
