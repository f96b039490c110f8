//! A run on existing interfaces whose agents are scripts: their replies are written before anybody
//! asks. The fuzzer drives all code of the controller with it that reads a peer.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linkrate_model::topology::Topology;
use linkrate_model::{
    CpuSet, Interfaces, Measurement, Peer, Protocol, RunSpec, SocketKnobs, Task, TestbedSpec,
    Workload,
};
use linkrate_protocol::HELLO_NUMBER;
use linkrate_study::executor::{Facts, RunFailure, Stage};
use linkrate_study::study::Purpose;
use linkrate_study::validity::stack::FirstStacks;

use super::contention::Calibration;
use super::{facts, validated};
use crate::backend::existing;
use crate::error::LabError;
use crate::host::{Carrier, Host};
use crate::options::LabOptions;
use crate::placement::Placement;
use crate::testbed::Testbed;

/// The interface of the system under test.
const INTERFACE: &str = "eth1";

/// What a script led to.
#[derive(Debug)]
pub struct Ended {
    /// Facts of the testbed, once it is up.
    pub facts: Option<Facts>,
    pub spec: RunSpec,
    /// Figures, or the reason why there are none.
    pub outcome: Result<Measurement, RunFailure>,
}

/// The bytes of an agent: each line of `script` as the reply with the next number. A line that is no
/// JSON is sent as it is, without a length and a number.
pub fn stream(script: &[u8]) -> Vec<u8> {
    let (mut stream, mut number) = (Vec::new(), HELLO_NUMBER);
    for line in script.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        if !matches!(line[0], b'{' | b'"') {
            stream.extend(line);
            continue;
        }
        let frame = match number {
            HELLO_NUMBER => line.to_vec(),
            number => {
                [format!("{{\"number\":{number},\"message\":").as_bytes(), line, b"}"].concat()
            }
        };
        stream.extend((frame.len() as u32).to_be_bytes());
        stream.extend(frame);
        number += 1;
    }
    stream
}

/// Builds a testbed of two agents that send these bytes, and carries out a run of `kind` on it, or
/// an idle run.
pub fn run(sut: &[u8], client: &[u8], kind: Option<Protocol>) -> Ended {
    let task =
        kind.map_or(Task::Idle, |kind| Task::Workload(Workload { kind, ..Workload::default() }));
    let spec = RunSpec {
        socket: SocketKnobs { congestion: "cubic".to_owned(), ..SocketKnobs::default() },
        ..RunSpec::new(task, Duration::from_millis(100))
    };
    let mut facts = None;
    let outcome = carry_out(sut, client, &spec, &mut facts);
    Ended { facts, spec, outcome }
}

fn carry_out(
    sut: &[u8],
    client: &[u8],
    spec: &RunSpec,
    facts: &mut Option<Facts>,
) -> Result<Measurement, RunFailure> {
    let failed = |error: LabError| RunFailure {
        fatal: true,
        ..RunFailure::at(Stage::Testbed, error.to_string())
    };
    let (_ends, mut testbed, on) = testbed(sut, client).map_err(failed)?;
    *facts = Some(facts::facts(&testbed, &on, &Calibration::default()));
    validated(&mut testbed, &on, spec, Purpose::Costs, &mut FirstStacks::default())
}

/// The other ends of the streams, the testbed, and its specification.
fn testbed(sut: &[u8], client: &[u8]) -> Result<([UnixStream; 2], Testbed, TestbedSpec), LabError> {
    let end: Peer = "ssh:lab2".parse().map_err(|_| std::io::Error::other("a peer"))?;
    let on = Interfaces {
        names: vec![INTERFACE.to_owned()],
        clients: vec![end.clone()],
        program: "linkrate".to_owned(),
        sut: None,
    };
    let spec = TestbedSpec::default().on_interfaces(on);
    let [first, second] = [0, 1].map(|cpu| CpuSet::from_iter([cpu]));
    let placement =
        Placement { sut: first.clone(), clients: second.clone(), controller: second, apart: true };
    let options = LabOptions::new("linkrate".into(), Arc::new(AtomicBool::new(false)));
    let (sut_end, mut sut) = host("sut", sut, &options)?;
    sut.place(&first)?;
    sut.keep(vec![INTERFACE.to_owned()])?;
    let (client_end, mut client) = host("ssh:lab2", client, &options)?;
    let all = client.hello.online_cpus.clone();
    client.place(&all)?;
    let names = [INTERFACE.to_owned()];
    let built =
        existing::join(sut, vec![(client, &end, &names[0])], Vec::new(), &names, &placement)?;
    let testbed = Testbed::of(built, Topology::of(&spec), &spec, &placement)?;
    Ok(([sut_end, client_end], testbed, spec))
}

/// An agent that sends these bytes and then nothing, and the other end of its stream.
fn host(name: &str, bytes: &[u8], options: &LabOptions) -> Result<(UnixStream, Host), LabError> {
    let (here, mut there) = UnixStream::pair()?;
    there.set_nonblocking(true)?;
    // bytes beyond the buffer of the socket do not matter
    let _ = there.write_all(bytes);
    there.shutdown(Shutdown::Write)?;
    let host = Host::greet(name, Carrier::Script(here), options).map_err(|failed| failed.0)?;
    Ok((there, host))
}

/// What the seeds of the fuzzer begin with: the kind of the run, the script of the system under test,
/// an empty line, and the script of the client.
pub fn of_input(input: &[u8]) -> Ended {
    let end = |mark: &[u8], of: &[u8]| of.windows(mark.len()).position(|part| part == mark);
    let (kind, rest) = input.split_at(end(b"\n", input).unwrap_or(input.len()));
    let (sut, client) = rest.split_at(end(b"\n\n", rest).unwrap_or(rest.len()));
    let kind = serde_json::Value::String(String::from_utf8_lossy(kind).into_owned());
    run(&stream(sut), &stream(client), serde_json::from_value(kind).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(name: &str) -> Ended {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/peer/");
        let input = std::fs::read(format!("{directory}{name}")).unwrap();
        // on a busy machine the time between two replies is that of a clock that was stepped
        let late = |ended: &Ended| {
            let reason = ended.outcome.as_ref().err().map_or("", |failure| &failure.reason);
            reason.contains("the common")
        };
        let mut ended = of_input(&input);
        for _ in 0..100 {
            if !late(&ended) {
                break;
            }
            ended = of_input(&input);
        }
        ended
    }

    #[test]
    fn the_scripts_of_honest_agents_lead_to_figures() {
        for name in ["stream", "request-response", "idle"] {
            let Ended { facts, outcome, .. } = seed(name);
            let measured = outcome.unwrap_or_else(|failure| panic!("{name}: {failure}"));
            assert_eq!(measured.traffic.transmit_bytes > 0, name != "idle", "{name}");
            assert_eq!(facts.unwrap().facts["client-kernel"], "6.12.0");
        }
    }

    #[test]
    fn the_text_of_a_client_reaches_the_facts_clean() {
        let Ended { facts, outcome, .. } = seed("kernel-controls");
        assert_eq!(facts.unwrap().facts["client-kernel"], "\u{fffd}[2J=1+\u{fffd}");
        outcome.unwrap_or_else(|failure| panic!("{failure}"));
    }

    #[test]
    fn counts_that_no_sum_holds_are_a_reason() {
        let reason = seed("huge-counts").outcome.unwrap_err().reason;
        assert!(
            reason.contains("of 18446744073709551615 B of payload by its counters"),
            "{reason}"
        );
    }

    #[test]
    fn a_script_has_lengths_and_numbers() {
        let expected =
            [&b"\0\0\0\x02{}"[..], &[0xff], b"\0\0\0\x1d{\"number\":1,\"message\":\"done\"}"];
        assert_eq!(stream(b"{}\n\xff\n\"done\"\n"), expected.concat());
    }
}
