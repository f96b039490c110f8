//! The filter: instructions of classic BPF over `struct seccomp_data` (seccomp(2)).

use super::Call;

/// Levels of options that a TCP socket has and a stream pair has not.
const LEVELS: [libc::c_int; 3] = [libc::IPPROTO_TCP, libc::IPPROTO_IP, libc::IPPROTO_IPV6];

/// Options of SOL_SOCKET that mean the same for every stream: how long a call waits and for how much,
/// and what kind of socket it is.
const OF_EVERY_STREAM: [libc::c_int; 7] = [
    libc::SO_TYPE,
    libc::SO_ACCEPTCONN,
    libc::SO_RCVLOWAT,
    libc::SO_RCVTIMEO,
    libc::SO_SNDTIMEO,
    libc::SO_PEEK_OFF,
    libc::SO_PASSCRED,
];

/// The AUDIT_ARCH of this process, include/uapi/linux/audit.h.
pub(super) const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

/// Offsets in `struct seccomp_data`, of the lower halves of arguments on machines with the least
/// significant byte first.
const NUMBER: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const LEVEL: u32 = 16 + 8;
const COMMAND: u32 = LEVEL;
const OPTION: u32 = 16 + 16;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Where a comparison continues.
#[derive(Clone, Copy)]
enum To {
    Next,
    Level,
    Option,
    Command,
    Pass,
    Wait,
}

/// The filter of the calls that can change what TCP does, that tell what TCP is, or that let a program
/// know a socket by another number.
pub(super) fn of_tcp() -> Vec<libc::sock_filter> {
    let load = |offset| (LOAD, offset, To::Next, To::Next);
    let test = |value: i64, hit, miss| (IF_EQUAL, value as u32, hit, miss);
    let mut steps = vec![load(ARCHITECTURE_AT)];
    steps.push(test(ARCHITECTURE.unwrap_or(0).into(), To::Next, To::Pass));
    steps.push(load(NUMBER));
    steps.extend(Call::ALL.iter().map(|(call, number)| {
        let to = match *number {
            libc::SYS_fcntl => To::Command,
            _ if call.is_about_option() => To::Level,
            _ => To::Wait,
        };
        test(*number, to, To::Next)
    }));
    steps.push((RETURN, libc::SECCOMP_RET_ALLOW, To::Next, To::Next));
    let level = steps.len();
    steps.push(load(LEVEL));
    steps.extend(LEVELS.map(|level| test(level.into(), To::Wait, To::Next)));
    steps.push(test(libc::SOL_SOCKET.into(), To::Option, To::Pass));
    let option = steps.len();
    steps.push(load(OPTION));
    steps.extend(OF_EVERY_STREAM.map(|option| test(option.into(), To::Pass, To::Next)));
    steps.push((RETURN, libc::SECCOMP_RET_USER_NOTIF, To::Next, To::Next));
    let command = steps.len();
    steps.push(load(COMMAND));
    let duplicates = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].map(i64::from);
    steps.extend(duplicates.map(|command| test(command, To::Wait, To::Next)));
    steps.push((RETURN, libc::SECCOMP_RET_ALLOW, To::Next, To::Next));
    let wait = steps.len();
    steps.push((RETURN, libc::SECCOMP_RET_USER_NOTIF, To::Next, To::Next));
    let pass = steps.len();
    steps.push((RETURN, libc::SECCOMP_RET_ALLOW, To::Next, To::Next));
    let jump = |at: usize, to| {
        let target = match to {
            To::Next => at + 1,
            To::Level => level,
            To::Option => option,
            To::Command => command,
            To::Pass => pass,
            To::Wait => wait,
        };
        // all jumps are forward, and the filter has fewer than 256 steps
        (target - at - 1) as u8
    };
    let instruction = |(at, (code, k, hit, miss)): (usize, (u16, u32, To, To))| match code {
        IF_EQUAL => libc::sock_filter { code, jt: jump(at, hit), jf: jump(at, miss), k },
        _ => libc::sock_filter { code, jt: 0, jf: 0, k },
    };
    steps.into_iter().enumerate().map(instruction).collect()
}

/// A filter that every call passes.
pub(super) fn of_nothing() -> Vec<libc::sock_filter> {
    vec![libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW }]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter returns for a call.
    fn verdict(architecture: u32, number: i64, level: i32, option: i32) -> u32 {
        let filter = of_tcp();
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = &filter[at];
            at += 1;
            match step.code {
                LOAD => {
                    loaded = match step.k {
                        NUMBER => number as u32,
                        ARCHITECTURE_AT => architecture,
                        LEVEL => level as u32,
                        OPTION => option as u32,
                        other => panic!("offset {other}"),
                    }
                }
                IF_EQUAL => at += usize::from(if loaded == step.k { step.jt } else { step.jf }),
                RETURN => return step.k,
                other => panic!("code {other}"),
            }
        }
    }

    #[test]
    fn calls_that_can_change_tcp_wait_and_others_pass() {
        let Some(here) = ARCHITECTURE else { return };
        let (wait, pass) = (libc::SECCOMP_RET_USER_NOTIF, libc::SECCOMP_RET_ALLOW);
        for (call, number) in Call::ALL.iter().copied() {
            let level = if number == libc::SYS_fcntl { libc::F_DUPFD } else { libc::IPPROTO_TCP };
            assert_eq!(verdict(here, number, level, 0), wait, "{call:?}");
            assert_eq!(verdict(here ^ 1, number, 0, 0), pass, "another instruction set");
        }
        assert_eq!(verdict(here, libc::SYS_fcntl, libc::F_DUPFD_CLOEXEC, 0), wait);
        for command in [libc::F_GETFL, libc::F_SETFL, libc::F_SETFD, libc::F_SETLKW] {
            assert_eq!(verdict(here, libc::SYS_fcntl, command, 0), pass, "{command}");
        }
        for number in [libc::SYS_read, libc::SYS_sendto, libc::SYS_recvfrom, libc::SYS_execve] {
            assert_eq!(verdict(here, number, libc::IPPROTO_TCP, 0), pass);
        }
        for number in [libc::SYS_getsockopt, libc::SYS_setsockopt] {
            assert_eq!(verdict(here, number, libc::IPPROTO_TCP, libc::TCP_NODELAY), wait);
            assert_eq!(verdict(here, number, libc::SOL_SOCKET, libc::SO_SNDBUF), wait);
            assert_eq!(verdict(here, number, libc::SOL_SOCKET, libc::SO_ERROR), wait);
            assert_eq!(verdict(here, number, libc::SOL_SOCKET, libc::SO_RCVTIMEO), pass);
            assert_eq!(verdict(here, number, libc::SOL_PACKET, libc::SO_SNDBUF), pass);
        }
    }
}
