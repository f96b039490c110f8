//! Third-party programs at the peer, and the workloads that they can take part in.

use std::fmt;

use crate::{Direction, MessageSize, Protocol, Workload};

/// Octets of the smallest datagram that an iperf3 takes.
const MIN_DATAGRAM: u64 = 16;

/// A measuring program that waits at the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The server of iperf 3.1 and later.
    Iperf3,
    /// netserver of netperf 2.4.3 and later.
    Netperf,
}

/// Why a program cannot be the peer of a workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a peer {program} has no {lacks}; expected {expected}")]
pub struct ProgramError {
    /// The program.
    pub program: Program,
    /// What the workload asks for.
    pub lacks: &'static str,
    /// What would be right.
    pub expected: &'static str,
}

impl Program {
    /// All, in the order of their words.
    pub const ALL: [Self; 2] = [Self::Iperf3, Self::Netperf];

    /// The word for it, as peers have it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Iperf3 => "iperf3",
            Self::Netperf => "netperf",
        }
    }

    /// Where it listens unless another port is named.
    #[must_use]
    pub fn usual_port(self) -> u16 {
        match self {
            Self::Iperf3 => 5201,
            Self::Netperf => 12_865,
        }
    }

    /// Most connections of one test in one direction.
    fn most_connections(self) -> u32 {
        match self {
            Self::Iperf3 => 128,
            // each is a test of its own
            Self::Netperf => 512,
        }
    }

    fn check_datagrams(self, workload: &Workload) -> Result<(), ProgramError> {
        let lacks = |lacks, expected| Err(ProgramError { program: self, lacks, expected });
        let numbered = self == Self::Iperf3;
        if self == Self::Netperf && workload.direction != Direction::Transmit {
            return lacks(
                "stream of datagrams to the system under test",
                "direction transmit, or a peer iperf3",
            );
        }
        if numbered && workload.udp_segment.is_some() {
            return lacks("datagrams without a number each", "no udp-segment, or a peer netperf");
        }
        if numbered && workload.message.smallest().0 < MIN_DATAGRAM {
            return lacks("room for a number in such messages", "at least 16 bytes");
        }
        Ok(())
    }

    /// Checks that the program can be the peer of a workload.
    pub fn check(self, workload: &Workload) -> Result<(), ProgramError> {
        let lacks = |lacks, expected| Err(ProgramError { program: self, lacks, expected });
        if !workload.mix.is_empty() {
            return lacks("mix of workloads", "one workload");
        }
        match (self, workload.kind) {
            (_, Protocol::Stream)
            | (
                Self::Netperf,
                Protocol::RequestResponse
                | Protocol::ConnectRequestResponse
                | Protocol::UdpRequestResponse,
            ) => {}
            (_, Protocol::UdpStream) => self.check_datagrams(workload)?,
            (Self::Iperf3, kind) if kind.is_transactional() => {
                return lacks("transactions", "a stream, or a peer netperf");
            }
            _ => return lacks("such workload", "a stream, or with netperf transactions"),
        }
        if workload.kind == Protocol::UdpRequestResponse {
            let numbers = "numbers in its responses, so their requests are not known";
            if workload.burst > 1 {
                return lacks(numbers, "burst 1");
            }
            if workload.request_rate_per_s.is_some() {
                return lacks(numbers, "request-rate off, or kind request-response");
            }
        }
        if workload.connections > self.most_connections() {
            return match self {
                Self::Iperf3 => lacks("room for so many connections", "at most 128"),
                Self::Netperf => lacks("room for so many connections", "at most 512"),
            };
        }
        let fixed = |size: MessageSize| size.smallest() == size.largest();
        let peer_sends = match workload.kind {
            kind if kind.is_transactional() => [workload.request, workload.response].to_vec(),
            _ if workload.direction != Direction::Transmit => vec![workload.message],
            _ => Vec::new(),
        };
        match peer_sends.into_iter().all(fixed) {
            true => Ok(()),
            false => lacks("messages of several sizes", "one size"),
        }
    }
}

/// The user that a program at the peer asks for. Its password is in no file and no command line: it is read from
/// the environment where the connection is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramUser {
    /// The name.
    pub name: String,
    /// File with the public key of the program, in PEM form.
    pub key: String,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ByteSize;

    #[test]
    fn a_program_takes_part_in_what_it_knows() {
        let said = |program: Program, workload: &Workload| {
            program.check(workload).map_err(|error| error.to_string())
        };
        let stream = Workload::default();
        let transactions = Workload { kind: Protocol::RequestResponse, ..Workload::default() };
        for program in Program::ALL {
            assert_eq!(said(program, &stream), Ok(()));
            let error = said(program, &Workload { connections: 513, ..stream.clone() });
            assert!(error.unwrap_err().contains("room for so many connections; expected at most"));
            let error = said(program, &Workload { kind: Protocol::Backup, ..stream.clone() });
            assert!(error.unwrap_err().contains("expected a stream"));
        }
        assert_eq!(said(Program::Netperf, &transactions), Ok(()));
        assert_eq!(
            said(Program::Iperf3, &transactions).unwrap_err(),
            "a peer iperf3 has no transactions; expected a stream, or a peer netperf"
        );
    }

    #[test]
    fn datagrams_are_those_that_the_program_counts() {
        let udp = Workload { kind: Protocol::UdpStream, ..Workload::default() };
        let receives = Workload { direction: Direction::Receive, ..udp.clone() };
        assert_eq!(Program::Iperf3.check(&receives), Ok(()));
        assert_eq!(Program::Netperf.check(&udp), Ok(()));
        let said = |program: Program, workload: Workload| {
            program.check(&workload).unwrap_err().to_string()
        };
        let reported = said(Program::Netperf, receives);
        assert!(reported.contains("stream of datagrams to the system under test"), "{reported}");
        let short = MessageSize::Fixed(ByteSize(8));
        let reported = said(Program::Iperf3, Workload { message: short, ..udp.clone() });
        assert!(reported.contains("at least 16 bytes"), "{reported}");
        let cut = Workload { udp_segment: Some(ByteSize(1000)), ..udp };
        assert!(said(Program::Iperf3, cut.clone()).contains("no udp-segment"));
        assert_eq!(Program::Netperf.check(&cut), Ok(()));
        let asks = Workload { kind: Protocol::UdpRequestResponse, ..Workload::default() };
        assert_eq!(Program::Netperf.check(&asks), Ok(()));
        let reported = said(Program::Netperf, Workload { burst: 4, ..asks.clone() });
        assert!(reported.contains("expected burst 1"), "{reported}");
        let open = Workload { request_rate_per_s: Some(100), ..asks.clone() };
        let reported = said(Program::Netperf, open.clone());
        assert!(
            reported.contains("numbers in its responses") && reported.contains("request-rate off"),
            "{reported}"
        );
        let over_tcp = Workload { kind: Protocol::RequestResponse, ..open };
        assert_eq!(Program::Netperf.check(&over_tcp), Ok(()));
        assert!(said(Program::Iperf3, asks).contains("has no transactions"));
    }

    #[test]
    fn sizes_vary_where_the_system_under_test_sends() {
        let message = MessageSize::Uniform { low: ByteSize(1), high: ByteSize(9000) };
        let sends = Workload { message, ..Workload::default() };
        assert_eq!(Program::Iperf3.check(&sends), Ok(()));
        let receives = Workload { direction: Direction::Receive, ..sends };
        let error = Program::Iperf3.check(&receives).unwrap_err().to_string();
        assert_eq!(error, "a peer iperf3 has no messages of several sizes; expected one size");
    }
}
