//! What the work of a virtual adapter costs: everything on beside superframes handed through the
//! same rings, and beside Open vSwitch's userspace datapath with TSO between two TAPs. iperf3 sends
//! one stream, cubic, MTU 1500, in turn. Then, with the link's rate, whether paced links are full.
//! Run by `cargo xtask bench`; `cargo bench -p linkrate --bench adapter -- links` measures the links alone.

mod common;
#[path = "../tests/common/open_vswitch.rs"]
mod open_vswitch;

use std::process::{Child, Command};

use linkrate_lab::Lab;
use linkrate_model::knobs::PortRequest;
use linkrate_model::spec::Adapter;
use linkrate_model::{
    ByteSize, CpuSet, InterfaceKnobs, MessageSize, Model, Offload, TestbedSpec, Workload, model,
};
use linkrate_study::executor::Executor;

use common::{Failed, Iperf3, iperf3, print_row};
use open_vswitch::{OpenVSwitch, output};

/// Rounds of every contestant, in turn.
const ROUNDS: usize = 7;
const SECONDS: u64 = 2;
const MESSAGE: ByteSize = ByteSize(128 << 10);

fn main() -> Result<(), Failed> {
    if !common::can_run("adapter", &["iperf3"]) {
        return Ok(());
    }
    let (one, two) = common::two_cpus()?;
    let two = if two.is_empty() { one.clone() } else { two };
    println!("virtual adapters, one iperf3 stream, cubic, {ROUNDS} rounds of {SECONDS} s in turn");
    println!("{:32} {:>9} {:>9} {:>9} {:>9}", "", "best", "median", "worst", "needed");
    if !std::env::args().any(|argument| argument == "links") {
        unpaced(&one, &two)?;
    }
    paced(&one, &two)
}

/// The 10 Gigabit adapter without its link and bus.
fn unpaced_model(hand_through: bool) -> Result<Model, Failed> {
    let model = model::find("ten-gigabit")?;
    Ok(Model { rate: None, bus: None, queues: 1, hand_through, ..model })
}

fn adapter_lab(model: Model, ports: u32, sut: &CpuSet, clients: &CpuSet) -> Result<Lab, Failed> {
    common::lab(&TestbedSpec {
        adapter: Adapter::Model(Box::new(model)),
        clients: ports,
        ports,
        sut_cpus: Some(sut.clone()),
        client_cpus: Some(clients.clone()),
        ..TestbedSpec::default()
    })
}

/// Everything an adapter does.
fn all_on() -> InterfaceKnobs {
    InterfaceKnobs {
        offload: Some(Offload::Tso),
        port: PortRequest { lro: Some(true), ..PortRequest::default() },
        ..InterfaceKnobs::default()
    }
}

fn unpaced(sut: &CpuSet, clients: &CpuSet) -> Result<(), Failed> {
    // a lab takes its place on the CPUs for as long as it lives, so each is built for its turn
    let turn = |hand_through| -> Result<f64, Failed> {
        let mut lab = adapter_lab(unpaced_model(hand_through)?, 1, sut, clients)?;
        // sets the knobs, and warms up
        lab.run(&common::run_spec(Workload::default(), all_on(), 1, Some(1), 1))?;
        lab_stream(&mut lab)
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
            let switched = switch.stream(sut, clients)?;
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

fn lab_stream(lab: &mut Lab) -> Result<f64, Failed> {
    let testbed = lab.testbed().ok_or("the testbed is down")?;
    let placement = testbed.placement.clone();
    iperf3(&Iperf3 {
        sender: (testbed.sut.pid(), &placement.sut),
        receiver: (testbed.clients[0].host.pid(), &placement.clients),
        address: &testbed.clients[0].address.to_string(),
        seconds: SECONDS,
        message: MESSAGE,
        zero_copy: false,
    })
}

/// Throughput in per cent of what TCP can get of the links.
fn paced(sut: &CpuSet, clients: &CpuSet) -> Result<(), Failed> {
    let row = |name: &str, model: &str, ports: u32, mtu: u32| -> Result<(), Failed> {
        let model = model::find(model)?;
        let rate = model.rate.ok_or("a model with a rate")?.0;
        let limit = common::tcp_limit(rate, mtu) * f64::from(ports);
        let mut lab = adapter_lab(model, ports, sut, clients)?;
        let interface = InterfaceKnobs { mtu: Some(mtu), ..all_on() };
        let message = MessageSize::Fixed(MESSAGE);
        let mut percents = Vec::new();
        for _ in 0..ROUNDS {
            let workload = Workload { message, ..Workload::default() };
            let spec = common::run_spec(workload, interface.clone(), ports, Some(ports), SECONDS);
            let measurement = lab.run(&spec)?;
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

    fn stream(&self, sender: &CpuSet, receiver: &CpuSet) -> Result<f64, Failed> {
        iperf3(&Iperf3 {
            sender: (self.hosts[0].id(), sender),
            receiver: (self.hosts[1].id(), receiver),
            address: TAPS[1].1,
            seconds: SECONDS,
            message: MESSAGE,
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
