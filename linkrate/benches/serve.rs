//! `linkrate serve` beside the servers of iperf3 and netperf with the same client, clients of linkrate beside those of
//! iperf3 and netperf with the same server, and 64 clients at once: the same namespaces and CPUs, in turn, so that only
//! ratios within one run are compared. Run by `cargo xtask bench`; one part by its name: `iperf3`, `netperf`,
//! `clients` or `many`, and one test of it by a second name: `clients TCP_MAERTS`.

mod common;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use linkrate_lab::Lab;
use linkrate_model::{CpuSet, TestbedSpec};
use linkrate_stats::paired;
use linkrate_study::quantity::Interval;

use common::{Failed, ROUNDS, SECONDS, inside, print_row, received};

/// Rounds of two contestants. Of a stream on a shared machine, one round differs from the next by a fifth.
const CONTEST_ROUNDS: usize = 24;
/// Level of the interval of a ratio.
const CONFIDENCE: f64 = 0.95;

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
    println!("servers, veth, cubic, {CONTEST_ROUNDS} rounds of {SECONDS} s in turn, Gb/s");
    common::print_header();
    let ends = Ends::of(&mut lab)?;
    let mut names = common::words();
    let (part, test) = (names.next(), names.next());
    let wants = |name: &str| part.as_deref().is_none_or(|wanted| wanted == name);
    let wants_test = |name: &&str| test.as_deref().is_none_or(|wanted| wanted == *name);
    let has_netperf =
        || common::has("serve, netperf", "netserver") && common::has("serve, netperf", "netperf");
    if wants("iperf3") {
        for (name, options) in IPERF3.into_iter().filter(|(name, _)| wants_test(name)) {
            ends.compare(name, &["iperf3", "-s"], &mut |port| ends.iperf3(THEM, port, options))?;
        }
    }
    if wants("netperf") && has_netperf() {
        for test in NETPERF.into_iter().filter(wants_test) {
            ends.compare(test, &NETSERVER, &mut |port| ends.netperf(THEM, port, test))?;
        }
    }
    if wants("clients") {
        for (name, options) in IPERF3.into_iter().filter(|(name, _)| wants_test(name)) {
            let client = &mut |words: &[&str]| ends.iperf3(words, SERVER, options);
            ends.compare_clients(name, &["iperf3", "-s"], client)?;
        }
        if has_netperf() {
            for test in NETPERF.into_iter().filter(wants_test) {
                let client = &mut |words: &[&str]| ends.netperf(words, SERVER, test);
                ends.compare_clients(test, &NETSERVER, client)?;
            }
        }
    }
    if wants("many") {
        ends.many()?;
    }
    Ok(())
}

/// Tests of iperf3 and their options.
const IPERF3: [(&str, &[&str]); 2] = [("iperf3", &[]), ("iperf3 -R", &["-R"])];
/// Tests of netperf.
const NETPERF: [&str; 2] = ["TCP_STREAM", "TCP_MAERTS"];
const NETSERVER: [&str; 3] = ["netserver", "-D", "-4"];

/// What stands before the name of a client: nothing, or linkrate.
const THEM: &[&str] = &[];
const US: &[&str] = &[LINKRATE];

/// The port of a server alone.
const SERVER: u16 = 5313;

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
        let names = [theirs[0], "linkrate serve"];
        contest(name, names, |is_theirs| client(if is_theirs { THEIRS } else { OURS }))
    }

    /// Both clients with the same server, in turn.
    fn compare_clients(
        &self,
        name: &str,
        server: &[&str],
        client: &mut dyn FnMut(&[&str]) -> Result<f64, Failed>,
    ) -> Result<(), Failed> {
        let port = SERVER.to_string();
        let _server = self.server(&[server, &["-p", &port]].concat())?;
        let names = ["their client", "client of linkrate"];
        contest(name, names, |is_theirs| client(if is_theirs { THEM } else { US }))
    }

    /// A client on the system under test.
    fn client(&self, words: &[&str]) -> Command {
        let (pid, cpus) = self.sut;
        let mut command = inside(pid, cpus);
        command.args(words);
        command
    }

    fn iperf3_command(&self, whose: &[&str], port: u16, options: &[&str]) -> Command {
        let (port, seconds) = (port.to_string(), SECONDS.to_string());
        let words = ["iperf3", "-J", "-c", &self.address, "-p", &port, "-t", &seconds];
        let mut command = self.client(&[whose, &words[..], options].concat());
        command.stderr(Stdio::null());
        command
    }

    /// Bit/s at the receiver.
    fn iperf3(&self, whose: &[&str], port: u16, options: &[&str]) -> Result<f64, Failed> {
        received(&self.iperf3_command(whose, port, options).output()?.stdout)
    }

    /// Bit/s at the receiver.
    fn netperf(&self, whose: &[&str], port: u16, test: &str) -> Result<f64, Failed> {
        let (port, seconds) = (port.to_string(), SECONDS.to_string());
        let words =
            ["-P", "0", "-v", "0", "-H", &self.address, "-p", &port, "-t", test, "-l", &seconds];
        let output = self.client(&[whose, &["netperf"], &words].concat()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let megabits: f64 = text.trim().parse().map_err(|_| format!("netperf said {text:?}"))?;
        Ok(megabits * 1e6)
    }

    /// Many clients at once, beside one.
    fn many(&self) -> Result<(), Failed> {
        let port = SERVER.to_string();
        let words = [LINKRATE, "serve", "--programs", "iperf3", "--bind", &self.address];
        let _server = self.server(&[&words[..], &["--iperf3-port", port.as_str()]].concat())?;
        let mut rows = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            let one = self.iperf3(THEM, SERVER, &[])?;
            let clients: Result<Vec<Child>, _> = (0..MANY)
                .map(|_| self.iperf3_command(THEM, SERVER, &[]).stdout(Stdio::piped()).spawn())
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

/// Measures both in each round, each of them first in every other one, and prints the mean ratio with its interval.
fn contest(
    name: &str,
    names: [&str; 2],
    measure: impl FnMut(bool) -> Result<f64, Failed>,
) -> Result<(), Failed> {
    let pairs = common::pairs(CONTEST_ROUNDS, measure)?;
    let mut rows = [
        pairs.iter().map(|(theirs, _)| theirs / 1e9).collect::<Vec<_>>(),
        pairs.iter().map(|(_, ours)| ours / 1e9).collect(),
        pairs.iter().map(|(theirs, ours)| ours / theirs).collect(),
    ];
    for (row, who) in rows.iter_mut().zip([names[0], names[1], "ratio"]) {
        let needed = if who == "ratio" { "1.00" } else { "" };
        print_row(&format!("{name}, {who}"), row, needed);
    }
    let both = pairs.into_iter().map(|(theirs, ours)| (Some(theirs), Some(ours)));
    if let Some(found) = paired::ratio(both, CONFIDENCE) {
        let Interval { mean, low, high } = found.ratio;
        let [low, high] = [low, high].map(|end| end.unwrap_or(f64::NAN));
        println!(
            "{:32} {mean:.3}, 95 % interval {low:.3} to {high:.3}",
            format!("{name}, mean ratio")
        );
    }
    Ok(())
}
