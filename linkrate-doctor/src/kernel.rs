//! Findings about the kernel and installed programs: congestion control, socket buffers, TAPs,
//! sampling, ssh.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use linkrate_model::{ByteSize, SocketKnobs};
use linkrate_sys::cpus;
use linkrate_sys::error::{SysError, SysResult};
use linkrate_sys::kallsyms::KernelSymbols;
use linkrate_sys::on_cpu::OnCpuTrace;
use linkrate_sys::perf::CpuSampler;
use linkrate_sys::tap::{self, Abilities, Offloads};

use super::{Finding, TUN};

/// Socket buffers up to here fill any link of a lab: 100 Gb/s over a round trip of 80 µs.
const AMPLE_BUFFER_BYTES: u64 = 1 << 20;

/// Lifts `rmem_max` and `wmem_max`, include/uapi/linux/capability.h.
const CAP_NET_ADMIN: u32 = 12;

pub(super) fn findings() -> Vec<Finding> {
    let network = "/proc/sys/net/ipv4";
    // capabilities in another user namespace do not lift limits that all namespaces share
    let capabilities = if first_user_namespace() { capabilities() } else { 0 };
    vec![
        congestion(
            read(&format!("{network}/tcp_available_congestion_control")),
            read(&format!("{network}/tcp_congestion_control")),
        ),
        buffers(
            number("/proc/sys/net/core/wmem_max"),
            number("/proc/sys/net/core/rmem_max"),
            capable(capabilities, CAP_NET_ADMIN),
        ),
        tun(tap::abilities()),
        preemption(
            read("/sys/kernel/debug/sched/preempt"),
            &read("/proc/sys/kernel/version").unwrap_or_default(),
        ),
        perf(try_sampling(), KernelSymbols::read().map(|symbols| symbols.len())),
        parts(OnCpuTrace::start().map(drop)),
        ssh(find_program("ssh")),
    ]
}

fn congestion(available: Option<String>, default: Option<String>) -> Finding {
    let name = "congestion";
    let (Some(available), Some(default)) = (available, default) else {
        return Finding::limited(
            name,
            "the kernel does not list its congestion control algorithms",
            "mount /proc with its sys directory",
        );
    };
    let detail = format!("{available}; default {default}");
    let asked = SocketKnobs::default().congestion;
    if !available.split_whitespace().any(|algorithm| algorithm == asked) {
        return Finding::limited(
            name,
            format!("{detail}; {asked} is missing, which runs use by default"),
            format!("`modprobe tcp_{asked}`, or choose an available algorithm with --congestion"),
        );
    }
    if default == "bbr" {
        return Finding::limited(
            name,
            format!(
                "{detail}; linkrate sets the algorithm of its sockets before they connect, so its runs \
                 are not affected; a socket that changes it later keeps the pacing of bbr"
            ),
            format!(
                "to measure other programs: `sysctl -w net.ipv4.tcp_congestion_control={asked}`"
            ),
        );
    }
    Finding::good(name, detail)
}

fn buffers(send: Option<u64>, receive: Option<u64>, unbound: bool) -> Finding {
    let name = "buffers";
    if unbound {
        return Finding::good(name, "no maximum for root: sockets get the buffers they ask for");
    }
    let remedy = "`sysctl -w net.core.wmem_max=4194304` and the same for rmem_max, or keep the \
                  autotuning of the kernel (--socket auto)";
    let (Some(send), Some(receive)) = (send, receive) else {
        let detail = "the kernel does not report the maximum of socket buffers";
        return Finding::limited(name, detail, remedy);
    };
    let detail =
        format!("at most {} for sending, {} for receiving", ByteSize(send), ByteSize(receive));
    match send.min(receive) {
        smallest if smallest >= AMPLE_BUFFER_BYTES => Finding::good(name, detail),
        _ => Finding::limited(name, detail, remedy),
    }
}

/// Whether the kernel lets a driver thread of a virtual adapter have its CPU while it works for a program. `modes` is
/// the text of `sched/preempt` in debugfs, the present one in parentheses; `version` is that of `uname -v`.
fn preemption(modes: Option<String>, version: &str) -> Finding {
    let name = "preemption";
    let of_version = |word: &str| version.split_whitespace().any(|found| found == word);
    let mode = modes
        .as_deref()
        .and_then(|modes| modes.split_once('(')?.1.split_once(')'))
        .map(|(mode, _)| mode)
        .or_else(|| {
            ["PREEMPT", "PREEMPT_RT"].iter().any(|word| of_version(word)).then_some("full")
        });
    match mode {
        Some("full") => Finding::good(name, "the kernel is preempted at once (full)"),
        Some(mode) => Finding::limited(
            name,
            format!(
                "the kernel is not preempted at once ({mode}): interrupts of virtual adapters wait \
                 until its current work ends, tens of microseconds (`interrupt_delay_us` in \
                 results)"
            ),
            "on Linux with PREEMPT_DYNAMIC: `echo full > /sys/kernel/debug/sched/preempt`",
        ),
        // debugfs is for root, and may be locked
        None => Finding::good(
            name,
            "this kernel does not report its mode; results have the delay that it causes \
             (`interrupt_delay_us`)",
        ),
    }
}

fn tun(found: SysResult<Abilities>) -> Finding {
    let name = TUN;
    let Abilities { several_queues, offloads } = match found {
        Ok(abilities) => abilities,
        Err(error) => {
            let detail = format!("no virtual adapters (TAP): {error}");
            let remedy = error.hint().unwrap_or("use a kernel with CONFIG_TUN").to_owned();
            return Finding::missing(TUN, detail, remedy);
        }
    };
    let queues = if several_queues { "several queues" } else { "one queue" };
    let detail =
        format!("virtual adapters (TAP) with vnet headers, {queues}; offloads: {offloads}");
    if several_queues && offloads == Offloads::ALL {
        return Finding::good(name, detail);
    }
    let remedy = "use Linux 6.2 or later, which has checksum, tso4, tso6, tso-ecn, uso and several \
                  queues";
    Finding::limited(name, detail, remedy)
}

/// Whether service demand can be divided by what ran.
fn parts(trace: SysResult<()>) -> Finding {
    let name = "parts";
    match trace {
        Ok(()) => Finding::good(
            name,
            "service demand can be split into parts, such as the driver and NAPI",
        ),
        Err(error) => {
            let remedy = error.hint().unwrap_or("run as root, not in a container").to_owned();
            Finding::limited(
                name,
                format!("service demand cannot be split into parts: {error}"),
                remedy,
            )
        }
    }
}

/// Both are tried, since a security module or a container may forbid what sysctls and capabilities
/// allow.
fn perf(sampling: SysResult<()>, symbols: SysResult<usize>) -> Finding {
    let name = "perf";
    let reported = |what: &str, error: SysError| {
        let remedy = error.hint().unwrap_or("run as root").to_owned();
        let detail = format!("{what}: {error}");
        match error.kind() {
            io::ErrorKind::PermissionDenied => Finding::limited(name, detail, remedy),
            _ => Finding::missing(name, detail, remedy),
        }
    };
    match (sampling, symbols) {
        (Err(error), _) => reported("--profile is not available", error),
        (_, Err(error)) => reported(
            "--profile is not available, since the names of kernel functions cannot be read",
            error,
        ),
        (Ok(()), Ok(functions)) => Finding::good(
            name,
            format!("--profile can attribute CPU time to {functions} functions of the kernel"),
        ),
    }
}

/// Opens a sampler of the first CPU that is online.
fn try_sampling() -> SysResult<()> {
    const SECOND_NS: u64 = 1_000_000_000;
    let cpu = cpus::online()?.iter().next().unwrap_or(0);
    CpuSampler::open(cpu, SECOND_NS, SECOND_NS).map(|_| ())
}

fn ssh(found: Option<PathBuf>) -> Finding {
    match found {
        Some(path) => {
            Finding::good("ssh", format!("{} can reach clients on other machines", path.display()))
        }
        None => Finding::limited(
            "ssh",
            "no ssh client: all clients must be on this machine",
            "install an ssh client (package openssh-client)",
        ),
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: &str) -> Option<u64> {
    read(path)?.parse().ok()
}

/// The effective capabilities of this process, as proc_pid_status(5) prints them.
fn capabilities() -> u64 {
    let status = read("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn capable(capabilities: u64, capability: u32) -> bool {
    capabilities >> capability & 1 == 1
}

/// The first user namespace maps every user to itself, user_namespaces(7).
fn first_user_namespace() -> bool {
    let map = read("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn find_program(name: &str) -> Option<PathBuf> {
    let directories = std::env::var_os("PATH")?;
    std::env::split_paths(&directories).map(|directory| directory.join(name)).find(|path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State::{self, Good, Limited, Missing};

    fn congested(available: &str, default: &str) -> Finding {
        congestion(Some(available.to_owned()), Some(default.to_owned()))
    }

    #[test]
    fn reports_a_pacing_default_and_a_missing_cubic() {
        assert_eq!(congested("reno cubic", "cubic").state, Good);
        let bbr = congested("reno bbr cubic", "bbr");
        assert_eq!(bbr.state, Limited);
        assert!(bbr.remedy.unwrap().contains("tcp_congestion_control=cubic"));
        let absent = congested("reno", "reno");
        assert!(absent.remedy.unwrap().contains("modprobe tcp_cubic"));
        assert_eq!(congestion(None, None).state, Limited);
    }

    #[test]
    fn a_kernel_that_is_not_preempted_makes_interrupts_late() {
        let of = |modes: Option<&str>, version: &str| preemption(modes.map(str::to_owned), version);
        let dynamic = "#1 SMP PREEMPT_DYNAMIC @0";
        assert_eq!(of(Some("none voluntary (full) lazy"), dynamic).state, Good);
        let late = of(Some("(none) voluntary full lazy"), dynamic);
        assert_eq!(late.state, Limited);
        assert!(late.detail.contains("(none)") && late.remedy.unwrap().contains("sched/preempt"));
        assert_eq!(of(None, "#1 SMP PREEMPT @0").detail, of(Some("(full)"), dynamic).detail);
        assert!(of(None, dynamic).detail.contains("does not report its mode"));
    }

    #[test]
    fn small_buffers_limit_ordinary_users_only() {
        assert_eq!(buffers(Some(212_992), Some(212_992), true).state, Good);
        assert_eq!(buffers(Some(4 << 20), Some(212_992), false).state, Limited);
        let ample = buffers(Some(4 << 20), Some(1 << 20), false);
        assert_eq!(
            (ample.state, ample.detail.as_str()),
            (Good, "at most 4 MiB for sending, 1 MiB for receiving")
        );
    }

    #[test]
    fn without_its_device_there_are_no_emulated_adapters() {
        let state = |kind: io::ErrorKind| {
            let error = SysError::new("open", "/dev/net/tun", kind).with_hint("a remedy");
            tun(Err(error)).state
        };
        assert_eq!(state(io::ErrorKind::PermissionDenied), Missing);
        assert_eq!(state(io::ErrorKind::NotFound), Missing);
    }

    #[test]
    fn a_missing_tap_ability_limits() {
        let all = Abilities { several_queues: true, offloads: Offloads::ALL };
        let good = tun(Ok(all));
        assert_eq!(good.state, Good);
        assert_eq!(
            good.detail,
            "virtual adapters (TAP) with vnet headers, several queues; offloads: checksum, tso4, \
             tso6, tso-ecn, uso"
        );
        let old = Abilities { offloads: Offloads { uso: false, ..Offloads::ALL }, ..all };
        assert_eq!(tun(Ok(old)).state, Limited);
        assert_eq!(tun(Ok(Abilities { several_queues: false, ..all })).state, Limited);
    }

    #[test]
    fn failed_sampling_comes_with_its_remedy() {
        let refused = |kind: io::ErrorKind| SysError::new("sample", "CPU 0", kind).with_hint("x");
        let denied = || refused(io::ErrorKind::PermissionDenied);
        let states: Vec<State> = [
            perf(Ok(()), Ok(7)),
            perf(Err(denied()), Ok(7)),
            perf(Ok(()), Err(denied())),
            perf(Err(refused(io::ErrorKind::Unsupported)), Ok(7)),
        ]
        .map(|finding| {
            assert_eq!(finding.remedy.is_some(), finding.state != Good);
            finding.state
        })
        .into();
        assert_eq!(states, [Good, Limited, Limited, Missing]);
        assert!(capable(1 << 38, 38) && !capable(1 << 37, 38));
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        assert!(find_program("sh").is_some());
        assert_eq!(find_program("no-such-program-at-all"), None);
        assert_eq!((ssh(None).state, ssh(Some("/bin/ssh".into())).state), (Limited, Good));
    }
}
