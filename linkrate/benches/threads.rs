//! The threads of virtual adapters at link rate: CPU time of devices and client ports on one Gigabit
//! port, beside the price that this machine asks for the sleep and the wake-ups of such a thread alone;
//! four ports in both directions; the 10 Gigabit adapter receiving frame by frame. Run by
//! `cargo xtask bench`.

mod common;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

use linkrate_model::knobs::PortRequest;
use linkrate_model::{
    ByteSize, CpuSet, Direction, InterfaceKnobs, Measurement, MessageSize, Offload, Workload, model,
};
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::doorbell::Doorbell;
use linkrate_sys::epoll::{Epoll, Readable, Watch};
use linkrate_sys::sched;

use common::{Failed, ROUNDS, SECONDS, print_row, print_row_of_least};

/// The interrupt timer of model `gigabit`.
const TICK_NS: usize = 250_000;

/// A failure that can leave its thread.
type ThreadFailed = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    if !common::can_run("threads", &[]) {
        return Ok(());
    }
    let (one, two) = common::two_cpus()?;
    let two = if two.is_empty() { one.clone() } else { two };
    println!(
        "threads of virtual adapters, cubic, MTU 1500, {ROUNDS} rounds of {SECONDS} s in turn"
    );
    common::print_header();
    one_port(&one, &two)?;
    throughput()
}

/// Per cent of a CPU for device and client port at 1 Gb/s, and for sleep and wake-ups alone.
fn one_port(sut: &CpuSet, clients: &CpuSet) -> Result<(), Failed> {
    let mut rows = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        for (row, direction) in [Direction::Transmit, Direction::Receive].into_iter().enumerate() {
            let measurement = run("gigabit", direction, 1, Offload::Tso)?;
            let evidence =
                measurement.evidence.adapter.as_ref().ok_or("no evidence of the adapter")?;
            rows[row].push(evidence.device_cpus() * 100.0);
        }
        rows[2].push(sleeper(clients, None)?);
        rows[3].push(sleeper(clients, Some(sut))?);
    }
    let names = [
        ("gigabit, transmit, % of a CPU", "12 %"),
        ("gigabit, receive, % of a CPU", "12 %"),
        ("4000 sleeps a second alone, %", ""),
        ("and 4000 wake-ups, %", ""),
    ];
    for ((name, needed), row) in names.iter().zip(&mut rows) {
        print_row_of_least(name, row, needed);
    }
    Ok(())
}

/// Per cent of a CPU for a thread on `cpus` that sleeps until each tick and does nothing else. With `other`,
/// it also wakes a thread there at each tick, as the interrupt of a port does.
fn sleeper(cpus: &CpuSet, other: Option<&CpuSet>) -> Result<f64, Failed> {
    let bell = Doorbell::new()?;
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let woken = other.map(|cpus| scope.spawn(|| wait_for(&bell, &ends, cpus)));
        let sleeps = scope.spawn(|| sleep_until_ticks(cpus, other.is_some().then_some(&bell)));
        let percent = joined(sleeps);
        ends.store(true, Ordering::Relaxed);
        bell.ring();
        if let Some(woken) = woken {
            joined(woken)?;
        }
        percent
    })
}

fn joined<T>(thread: ScopedJoinHandle<'_, Result<T, ThreadFailed>>) -> Result<T, Failed> {
    let ended = thread.join().map_err(|_| "a thread panicked")?;
    ended.map_err(|failed| failed.to_string().into())
}

fn wait_for(bell: &Doorbell, ends: &AtomicBool, cpus: &CpuSet) -> Result<(), ThreadFailed> {
    sched::set_affinity(sched::current_thread(), cpus)?;
    let epoll = watch(bell)?;
    let mut readable = Readable::default();
    while !ends.load(Ordering::Relaxed) {
        epoll.wait(&mut readable, None)?;
        bell.clear();
    }
    Ok(())
}

fn sleep_until_ticks(cpus: &CpuSet, bell: Option<&Doorbell>) -> Result<f64, ThreadFailed> {
    let thread = sched::current_thread();
    sched::set_affinity(thread, cpus)?;
    // as a device thread has it
    sched::set_timer_slack_ns(1)?;
    let own = Doorbell::new()?;
    let epoll = watch(&own)?;
    let mut readable = Readable::default();
    let (begin_ns, begin_cpu_ns) = (monotonic_ns(), sched::thread_cpu_ns(thread)?);
    let end_ns = begin_ns + SECONDS * 1_000_000_000;
    for tick_ns in (begin_ns..end_ns).step_by(TICK_NS).skip(1) {
        epoll.wait(&mut readable, Some(tick_ns.saturating_sub(monotonic_ns())))?;
        if let Some(bell) = bell {
            bell.ring();
        }
    }
    let cpu_ns = sched::thread_cpu_ns(thread)? - begin_cpu_ns;
    Ok(cpu_ns as f64 * 100.0 / (monotonic_ns() - begin_ns) as f64)
}

fn watch(bell: &Doorbell) -> Result<Epoll, ThreadFailed> {
    let epoll = Epoll::new()?;
    epoll.add(bell.as_fd(), 0, Watch::Always)?;
    Ok(epoll)
}

/// Throughput where threads and their wake-ups were the bound once.
fn throughput() -> Result<(), Failed> {
    let mut rows = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        let both = run("gigabit", Direction::Bidirectional, 4, Offload::Tso)?;
        rows[0].push(both.traffic.bits_per_second() / 1e9);
        let receive = run("ten-gigabit", Direction::Receive, 1, Offload::None)?;
        rows[1].push(receive.traffic.bits_per_second() / 1e9);
    }
    print_row("4 gigabit, bidirectional, Gb/s", &mut rows[0], "7.0");
    print_row("ten-gigabit, receive, no LRO", &mut rows[1], "8.5");
    Ok(())
}

/// One run of a model with `ports` ports and a client on each.
fn run(
    name: &str,
    direction: Direction,
    ports: u32,
    offload: Offload,
) -> Result<Measurement, Failed> {
    // a lab takes its place on the CPUs for as long as it lives, so each is built for its turn
    let mut lab = common::lab(&common::testbed(model::find(name)?, ports)?)?;
    let interface = InterfaceKnobs {
        offload: Some(offload),
        port: PortRequest { lro: Some(false), ..PortRequest::default() },
        ..InterfaceKnobs::default()
    };
    let message = MessageSize::Fixed(ByteSize(32 << 10));
    let workload = Workload { message, direction, ..Workload::default() };
    common::run(&mut lab, &common::run_spec(workload, interface, ports, Some(ports), SECONDS))
}
