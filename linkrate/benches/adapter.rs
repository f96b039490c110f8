//! What the work of a virtual adapter costs: everything on beside superframes handed through the
//! same rings, and beside Open vSwitch's userspace datapath with TSO between two TAPs. iperf3 sends
//! one stream, cubic, MTU 1500, in turn. Then, with the link's rate, whether paced links are full.
//! Run by `cargo xtask bench`; `cargo bench -p linkrate --bench adapter -- links` measures the links alone.

mod common;
#[path = "../tests/common/open_vswitch.rs"]
mod open_vswitch;

use std::process::{Child, Command};

use linkrate_model::{InterfaceKnobs, MessageSize, Model, Workload, model};

use common::{Failed, Iperf3, MESSAGE, ROUNDS, SECONDS, print_row};
use open_vswitch::{OpenVSwitch, output};

fn main() -> Result<(), Failed> {
    if !common::can_run("adapter", &["iperf3"]) {
        return Ok(());
    }
    println!("virtual adapters, one iperf3 stream, cubic, {ROUNDS} rounds of {SECONDS} s in turn");
    common::print_header();
    if !common::words().any(|word| word == "links") {
        unpaced()?;
    }
    paced()
}

/// The 10 Gigabit adapter without its link and bus.
fn unpaced_model(hand_through: bool) -> Result<Model, Failed> {
    let model = model::find("ten-gigabit")?;
    Ok(Model { rate: None, bus: None, queues: 1, hand_through, ..model })
}

fn unpaced() -> Result<(), Failed> {
    // a lab takes its place on the CPUs for as long as it lives, so each is built for its turn
    let turn = |hand_through| -> Result<f64, Failed> {
        let mut lab = common::lab(&common::testbed(unpaced_model(hand_through)?, 1)?)?;
        // sets the knobs, and warms up
        common::run(
            &mut lab,
            &common::run_spec(Workload::default(), common::all_on(), 1, Some(1), 1),
        )?;
        common::iperf3_in(&mut lab, false)
    };
    let open_vswitch = if common::has("Open vSwitch", "ovs-vswitchd") {
        Some(SwitchedTaps::start()?)
    } else {
        None
    };
    let (mut to_through, mut to_switch) = (Vec::new(), Vec::new());
    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let (handed, worked) = (turn(true)?, turn(false)?);
        to_through.push(worked / handed);
        rates[0].push(handed / 1e9);
        rates[1].push(worked / 1e9);
        if let Some(switch) = &open_vswitch {
            let switched = switch.stream()?;
            to_switch.push(worked / switched);
            rates[2].push(switched / 1e9);
        }
    }
    let names = ["handed through", "everything on", "Open vSwitch, TSO"];
    for (name, rates) in names.iter().zip(&mut rates).filter(|(_, rates)| !rates.is_empty()) {
        print_row(name, rates, "Gb/s");
    }
    print_row("to handed through", &mut to_through, "0.9");
    if !to_switch.is_empty() {
        print_row("to Open vSwitch", &mut to_switch, "1.0");
    }
    Ok(())
}

/// Throughput in per cent of what TCP can get of the links.
fn paced() -> Result<(), Failed> {
    let row = |name: &str, model: &str, ports: u32, mtu: u32| -> Result<(), Failed> {
        let model = model::find(model)?;
        let rate = model.rate.ok_or("a model with a rate")?.0;
        let limit = common::tcp_limit(rate, mtu) * f64::from(ports);
        let mut lab = common::lab(&common::testbed(model, ports)?)?;
        let interface = InterfaceKnobs { mtu: Some(mtu), ..common::all_on() };
        let message = MessageSize::Fixed(MESSAGE);
        let mut percents = Vec::new();
        for _ in 0..ROUNDS {
            let workload = Workload { message, ..Workload::default() };
            let spec = common::run_spec(workload, interface.clone(), ports, Some(ports), SECONDS);
            let measurement = common::run(&mut lab, &spec)?;
            percents.push(measurement.traffic.bits_per_second() * 100.0 / limit);
        }
        print_row(name, &mut percents, "99 %");
        Ok(())
    };
    row("gigabit, 1 port, %", "gigabit", 1, 1500)?;
    row("gigabit, 2 ports, %", "gigabit", 2, 1500)?;
    row("ten-gigabit, MTU 9000, %", "ten-gigabit", 1, 9000)
}

/// Open vSwitch's userspace datapath with TSO, and two TAPs of it in namespaces of their own.
struct SwitchedTaps {
    hosts: [Child; 2],
    switch: OpenVSwitch,
}

const TAPS: [(&str, &str); 2] = [("tap-a", "10.9.0.1"), ("tap-b", "10.9.0.2")];

impl SwitchedTaps {
    fn start() -> Result<Self, Failed> {
        let switch = OpenVSwitch::start(&["other_config:userspace-tso-enable=true"])?;
        let bridge = ["add-br", "bridge", "--", "set", "bridge", "bridge", "datapath_type=netdev"];
        switch.configure(&bridge)?;
        let host = || Command::new("unshare").args(["-n", "sleep", "600"]).spawn();
        let taps = Self { hosts: [host()?, host()?], switch };
        for ((tap, address), host) in TAPS.iter().zip(&taps.hosts) {
            let pid = host.id();
            let port = ["add-port", "bridge", tap, "--", "set", "interface", tap, "type=internal"];
            taps.switch.configure(&port)?;
            ip(None, &format!("link set {tap} netns {pid}"))?;
            let inside = Some(pid);
            ip(inside, "link set lo up")?;
            ip(inside, &format!("addr add {address}/24 dev {tap}"))?;
            ip(inside, &format!("link set {tap} up"))?;
            let route = format!("route change 10.9.0.0/24 dev {tap} src {address} congctl cubic");
            ip(inside, &route)?;
        }
        Ok(taps)
    }

    fn stream(&self) -> Result<f64, Failed> {
        let (one, two) = common::two_cpus()?;
        common::iperf3(&Iperf3 {
            sender: (self.hosts[0].id(), &one),
            receiver: (self.hosts[1].id(), if two.is_empty() { &one } else { &two }),
            address: TAPS[1].1,
            zero_copy: false,
        })
    }
}

impl Drop for SwitchedTaps {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            let _ = host.kill();
            let _ = host.wait();
        }
    }
}

/// Runs ip(8), in the network namespace of a process if one is named.
fn ip(namespace: Option<u32>, words: &str) -> Result<(), Failed> {
    let mut command = match namespace {
        Some(pid) => {
            let mut command = Command::new("nsenter");
            command.args([&format!("--net=/proc/{pid}/ns/net"), "ip"]);
            command
        }
        None => Command::new("ip"),
    };
    command.args(words.split(' '));
    output(command).map(drop)
}
