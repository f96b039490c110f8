//! Signals and ends of input at random moments of a study on existing interfaces: whatever
//! happens to the controller or an agent, every setting, address, route and interface comes back.
//!
//! Several machines are swept at the same time. Nothing here is a figure, so they may disturb each
//! other. `LINKRATE_SWEEP_SEED` chooses other moments.

use std::sync::Mutex;
use std::time::Duration;

use crate::common::machines::{
    Machine, difference, lost_in_a_move, study_of_the_loop, with_a_furnished_loop,
};
use crate::common::processes::OwnCopy;
use crate::common::{Running, command, kill, wait_until};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open};

/// Events of the sweep.
const EVENTS: usize = 40;

/// Machines at the same time.
const LANES: usize = 6;

/// The longest time to an event, ms: the testbed takes some hundred to build, a run as many.
const LATEST_MS: u64 = 2500;

/// How long all processes may take to end after the controller was told to end: an agent that was
/// stopped is given up after 15 s, and a connection after 15 s.
const END: Duration = Duration::from_secs(60);

/// How long the kernel may take until all addresses are as before (IPv6 tests each for a second).
const SETTLED: Duration = Duration::from_secs(15);

/// A process of the study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Controller,
    SystemUnderTest,
    Client,
}

/// What happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Kill,
    Terminate,
    HangUp,
    Stop(Duration),
    EndOfInput,
}

#[derive(Debug, Clone, Copy)]
struct Event {
    target: Target,
    act: Act,
    after: Duration,
}

/// Every act on every target, three times or less, each at a moment of its own.
fn events(seed: u64) -> Vec<Event> {
    let mut state = seed | 1;
    let mut random = move || {
        // xorshift64, Marsaglia 2003
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let targets = [Target::Controller, Target::SystemUnderTest, Target::Client];
    let all = (0..).flat_map(|round: usize| {
        targets.into_iter().flat_map(move |target| {
            // the first of each kind takes as long as a suspended machine
            let seconds = if round == 0 { 30 } else { 3 };
            let stop = Act::Stop(Duration::from_secs(seconds));
            // a controller has no input
            let input = (target != Target::Controller).then_some(Act::EndOfInput);
            [stop, Act::Kill, Act::Terminate, Act::HangUp]
                .into_iter()
                .chain(input)
                .map(move |act| (target, act))
        })
    });
    all.take(EVENTS)
        .map(|(target, act)| {
            // half of them while the testbed is built
            let latest = if random() % 2 == 0 { LATEST_MS / 5 } else { LATEST_MS };
            Event { target, act, after: Duration::from_millis(random() % latest) }
        })
        .collect()
}

/// Everything that is set on the machine.
#[track_caller]
fn settings(machine: &Machine) -> String {
    let everything = machine.sh("for name in eth1 eth2; do
             ip -details link show dev $name | sed 's/^[0-9]*: //; s/qlen.*//; s/@if[0-9]*/@/'
             ethtool -k $name
             ethtool -l $name || true
             cat /sys/class/net/$name/queues/rx-*/rps_cpus
             for sysctl in /proc/sys/net/ipv[46]/conf/$name/* /proc/sys/net/ipv[46]/neigh/$name/*
             do echo \"$sysctl $(cat $sysctl 2>/dev/null || true)\"; done
         done
         ip -brief link show | sed 's/@.*//' | sort
         ip -4 address show | grep inet | sort
         ip -6 address show scope global | grep inet6 | sort
         ip -4 route show table all | sort
         ip -6 route show table all | grep -v fe80 | grep -v multicast | sort");
    // a kernel writes the stable secret of addresses only
    let settings = everything.lines().filter(|line| !line.contains("stable_secret"));
    settings.collect::<Vec<_>>().join("\n") + "\n" + &lost_in_a_move(machine)
}

/// Ends the input of a process whose standard input is a socket.
fn end_input(pid: u32) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    // each step fails for a process that has ended
    let taken = pidfd_open(pid, PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, 0, PidfdGetfdFlags::empty()));
    if let Ok(socket) = taken {
        let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Read);
    }
}

/// Runs a study and lets one event happen to it. Returns what went wrong.
fn run(event: Event, machine: &Machine, own: &OwnCopy, before: &str) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut study = study_of_the_loop(machine, &own.program(), directory.path());
    let running = Running::start(&mut study);
    std::thread::sleep(event.after);
    let mut pid = running.pid();
    if event.target != Target::Controller {
        let index = usize::from(event.target == Target::Client);
        // at an early moment there is no agent yet
        wait_until(Duration::from_secs(10), || own.agents().len() > index);
        pid = own.agents().get(index).copied().unwrap_or(pid);
    }
    match event.act {
        Act::Kill => kill(pid, Signal::KILL),
        Act::Terminate => kill(pid, Signal::TERM),
        Act::HangUp => kill(pid, Signal::HUP),
        Act::EndOfInput => end_input(pid),
        Act::Stop(time) => {
            kill(pid, Signal::STOP);
            std::thread::sleep(time);
            kill(pid, Signal::CONT);
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    running.signal(Signal::INT);
    let ended = running.wait();
    if !wait_until(END, || own.processes().is_empty()) {
        return Err(format!("processes are left: {:?}\n{}", own.processes(), ended.stderr));
    }
    if event.target == Target::SystemUnderTest && event.act == Act::Kill {
        let mut doctor = command(own.program(), "restore");
        machine.on(&mut doctor);
        let restored = Running::start(&mut doctor).wait();
        if restored.code() != Some(0) {
            return Err(format!("restore: {restored:?}"));
        }
    }
    if wait_until(SETTLED, || settings(machine) == before) {
        return Ok(());
    }
    Err(format!("{}\n{}", difference(before, &settings(machine)), ended.stderr))
}

#[test]
#[ignore = "exhaustive: every act on every process, at many moments"]
fn settings_come_back_whatever_happens_to_a_controller_or_an_agent() {
    needs!(root, "ethtool", "ip", two_cpus);
    let seed = std::env::var("LINKRATE_SWEEP_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(20_261_122);
    let waiting = Mutex::new(events(seed));
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                let own = OwnCopy::new();
                let mut machine = with_a_furnished_loop();
                let mut before = settings(&machine);
                loop {
                    let mut events = waiting.lock().expect("no panic while it is locked");
                    // the events that take longest come first
                    if events.is_empty() {
                        return;
                    }
                    let longest = |event: &Event| event.act == Act::Stop(Duration::from_secs(30));
                    let next = events.iter().position(longest).unwrap_or(0);
                    let event = events.remove(next);
                    drop(events);
                    if let Err(reason) = run(event, &machine, &own, &before) {
                        let mut failures = failures.lock().expect("no panic while it is locked");
                        failures.push(format!("{event:?}: {reason}"));
                        // the next event must not fail for the same reason
                        machine = with_a_furnished_loop();
                        before = settings(&machine);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic while it is locked");
    assert!(failures.is_empty(), "seed {seed}:\n{}", failures.join("\n\n"));
}
