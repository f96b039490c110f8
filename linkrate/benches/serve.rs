//! `linkrate serve` beside the servers of iperf3 and netperf: the same client, the same namespaces and CPUs, in
//! turn, so that only ratios within one run are compared; and 64 clients at once. Run by `cargo xtask bench`.

mod common;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use linkrate_lab::Lab;
use linkrate_terms::{CpuSet, TestbedSpec};

use common::{Failed, inside, print_row};

/// Rounds of every contestant, in turn.
const ROUNDS: usize = 7;
const SECONDS: u64 = 2;

/// Clients at once.
const MANY: usize = 64;

const LINKRATE: &str = env!("CARGO_BIN_EXE_linkrate");

fn main() -> Result<(), Failed> {
    if !common::can_run("serve", &["iperf3"]) {
        return Ok(());
    }
    let (one, two) = common::two_cpus()?;
    let two = if two.is_empty() { one.clone() } else { two };
    let spec =
        TestbedSpec { sut_cpus: Some(one), client_cpus: Some(two), ..TestbedSpec::default() };
    let mut lab = common::lab(&spec)?;
    println!("servers, veth, cubic, {ROUNDS} rounds of {SECONDS} s in turn, Gb/s");
    println!("{:32} {:>9} {:>9} {:>9} {:>9}", "", "best", "median", "worst", "needed");
    let ends = Ends::of(&mut lab)?;
    for (name, options) in [("iperf3", &[][..]), ("iperf3 -R", &["-R"])] {
        ends.compare(name, &["iperf3", "-s"], &mut |port| ends.iperf3(port, options))?;
    }
    if common::has("serve, netperf", "netserver") && common::has("serve, netperf", "netperf") {
        for test in ["TCP_STREAM", "TCP_MAERTS"] {
            let server = ["netserver", "-D", "-4"];
            ends.compare(test, &server, &mut |port| ends.netperf(port, test))?;
        }
    }
    ends.many()
}

/// The ends of a lab: clients run on the system under test, servers on its client.
struct Ends<'a> {
    sut: (u32, &'a CpuSet),
    client: (u32, &'a CpuSet),
    address: String,
}

/// A server that is ended with the contest.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl<'a> Ends<'a> {
    fn of(lab: &'a mut Lab) -> Result<Self, Failed> {
        let testbed = lab.testbed().ok_or("the testbed is down")?;
        Ok(Self {
            sut: (testbed.sut.pid(), &testbed.placement.sut),
            client: (testbed.clients[0].host.pid(), &testbed.placement.clients),
            address: testbed.clients[0].address.to_string(),
        })
    }

    /// Starts a server.
    fn server(&self, words: &[&str]) -> Result<Server, Failed> {
        let (pid, cpus) = self.client;
        let mut command = inside(pid, cpus);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Server(command.spawn()?);
        std::thread::sleep(Duration::from_millis(400));
        Ok(server)
    }

    /// The same client with both servers, in turn.
    fn compare(
        &self,
        name: &str,
        theirs: &[&str],
        client: &mut dyn FnMut(u16) -> Result<f64, Failed>,
    ) -> Result<(), Failed> {
        const THEIRS: u16 = 5311;
        const OURS: u16 = 5312;
        let [their_port, our_port] = [THEIRS, OURS].map(|port| port.to_string());
        let _theirs = self.server(&[theirs, &["-p", &their_port]].concat())?;
        let program = if theirs.contains(&"netserver") { "netperf" } else { "iperf3" };
        let port = format!("--{program}-port");
        let words = [LINKRATE, "serve", "--programs", program, "--bind", &self.address];
        let _ours = self.server(&[&words[..], &[port.as_str(), our_port.as_str()]].concat())?;
        let mut rows = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            let (of_theirs, of_ours) = (client(THEIRS)?, client(OURS)?);
            rows[0].push(of_theirs / 1e9);
            rows[1].push(of_ours / 1e9);
            rows[2].push(of_ours / of_theirs);
        }
        for (row, who) in rows.iter_mut().zip([theirs[0], "linkrate serve", "ratio"]) {
            let needed = if who == "ratio" { "1.00" } else { "" };
            print_row(&format!("{name}, {who}"), row, needed);
        }
        Ok(())
    }

    /// A client on the system under test.
    fn client(&self, words: &[&str]) -> Command {
        let (pid, cpus) = self.sut;
        let mut command = inside(pid, cpus);
        command.args(words);
        command
    }

    fn iperf3_command(&self, port: u16, options: &[&str]) -> Command {
        let (port, seconds) = (port.to_string(), SECONDS.to_string());
        let words = ["iperf3", "-J", "-c", &self.address, "-p", &port, "-t", &seconds];
        self.client(&[&words[..], options].concat())
    }

    /// Bit/s at the receiver.
    fn iperf3(&self, port: u16, options: &[&str]) -> Result<f64, Failed> {
        received(&self.iperf3_command(port, options).output()?.stdout)
    }

    /// Bit/s at the receiver.
    fn netperf(&self, port: u16, test: &str) -> Result<f64, Failed> {
        let (port, seconds) = (port.to_string(), SECONDS.to_string());
        let words =
            ["-P", "0", "-v", "0", "-H", &self.address, "-p", &port, "-t", test, "-l", &seconds];
        let output = self.client(&[&["netperf"][..], &words].concat()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let megabits: f64 = text.trim().parse().map_err(|_| format!("netperf said {text:?}"))?;
        Ok(megabits * 1e6)
    }

    /// Many clients at once, beside one.
    fn many(&self) -> Result<(), Failed> {
        const PORT: u16 = 5313;
        let port = PORT.to_string();
        let words = [LINKRATE, "serve", "--programs", "iperf3", "--bind", &self.address];
        let _server = self.server(&[&words[..], &["--iperf3-port", port.as_str()]].concat())?;
        let mut rows = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            let one = self.iperf3(PORT, &[])?;
            let clients: Result<Vec<Child>, _> = (0..MANY)
                .map(|_| self.iperf3_command(PORT, &[]).stdout(Stdio::piped()).spawn())
                .collect();
            let mut all = 0.0;
            for client in clients? {
                all += received(&client.wait_with_output()?.stdout)?;
            }
            rows[0].push(one / 1e9);
            rows[1].push(all / 1e9);
            rows[2].push(all / one);
        }
        let names = ["one client", "64 clients, together", "64 clients, ratio"];
        for (row, name) in rows.iter_mut().zip(names) {
            print_row(name, row, "");
        }
        Ok(())
    }
}

fn received(document: &[u8]) -> Result<f64, Failed> {
    let document: serde_json::Value = serde_json::from_slice(document)?;
    document["end"]["sum_received"]["bits_per_second"]
        .as_f64()
        .ok_or_else(|| format!("iperf3 said {}", document["error"]).into())
}
