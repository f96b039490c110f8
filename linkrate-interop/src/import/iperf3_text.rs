//! The text that iperf3 prints without `-J`.
//!
//! Facts: the text of iperf 3.12 and 3.21. A line of the end has `sender` or `receiver` behind its figures; several streams have
//! a line of their sum. What the receiver had is the rate, and only the end that knows it prints it.

use std::collections::BTreeSet;

use linkrate_model::imported::{Asked, Found};
use linkrate_model::{Direction, Family, Imported, Protocol};

use super::banner::place;
use super::{Beside, ImportError, MAX_RUNS, MAX_TEXT, family_of, run_of, shown, too_many};

/// How the output of a test begins at a client and at a server.
const BEGINS: [&str; 2] = ["Connecting to host ", "Accepted connection from "];

/// Most streams of one test.
const MAX_STREAMS: usize = 1024;

const ROUNDED: &str = "The text of iperf3 has three digits of a rate; its -J has all.";

/// Whether a text is iperf3's.
pub(super) fn is_iperf3(text: &str) -> bool {
    text.lines().any(|line| BEGINS.iter().any(|begin| line.starts_with(begin)))
}

/// The runs of a file.
pub(super) fn read(file: &str, text: &str) -> Result<Vec<Imported>, ImportError> {
    let mut runs = Vec::new();
    let mut version = None;
    let mut test: Option<Test> = None;
    let mut end = |test: Option<Test>| {
        let Some(test) = test else { return Ok(()) };
        runs.push(test.run(file)?);
        if runs.len() > MAX_RUNS { Err(too_many()) } else { Ok(()) }
    };
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(rest) = line.strip_prefix("iperf 3") {
            version = rest.split_whitespace().next().map(|rest| format!("3{}", shown(rest)));
        }
        if BEGINS.iter().any(|begin| line.starts_with(begin)) {
            end(test.take())?;
            let is_server = line.starts_with(BEGINS[1]);
            test =
                Some(Test { line: number, is_server, version: version.clone(), ..Test::default() });
        } else if let Some(test) = &mut test {
            test.add(number, line)?;
        }
    }
    end(test)?;
    if let [only] = &mut runs[..] {
        only.place = None;
    }
    Ok(runs)
}

/// What the text of one test says.
#[derive(Default)]
struct Test {
    line: usize,
    is_server: bool,
    version: Option<String>,
    reverse: bool,
    is_udp: bool,
    streams: BTreeSet<String>,
    family: Option<Family>,
    cookie: Option<String>,
    message: Option<u64>,
    warm_up_seconds: Option<f64>,
    ends: Vec<End>,
    beside: Beside,
}

/// A line of the end: what one side had of a stream, or of all.
struct End {
    name: String,
    /// Whether it is of the way that this host sends, in a test of both.
    transmits: Option<bool>,
    is_sender: bool,
    seconds: Option<f64>,
    bits_per_second: f64,
    retransmits: Option<u64>,
    lost_of: Option<(u64, u64)>,
}

impl Test {
    fn add(&mut self, number: usize, line: &str) -> Result<(), ImportError> {
        let words: Vec<&str> = line.split_whitespace().take(32).collect();
        if line.starts_with("iperf3: ") {
            self.beside.add(line);
        } else if line.starts_with("Reverse mode, ") {
            self.reverse = true;
        } else if line.starts_with("[ ID]") {
            self.is_udp = self.is_udp || line.contains("Datagrams");
        } else if let ["Cookie:", cookie] = words[..] {
            self.cookie = Some(linkrate_model::clean::short_line(cookie, MAX_TEXT).into_owned());
        } else if line.starts_with("Starting Test: ") {
            let before = |unit: &str| {
                let at = words.iter().position(|word| *word == unit)?;
                words.get(at.checked_sub(1)?)
            };
            self.message =
                before("byte").and_then(|size| size.parse().ok()).filter(|size| *size > 0);
            let omitted = words.iter().position(|word| *word == "omitting");
            let omitted = omitted.and_then(|at| words.get(at + 1)?.parse().ok());
            self.warm_up_seconds = omitted.filter(|seconds: &f64| (0.0..1e9).contains(seconds));
        } else if let Some((name, rest)) =
            line.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        {
            let (role, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((role, rest)) => (Some(role), rest),
                None => (None, rest),
            };
            self.line_of_stream(name.trim(), role, rest, number)?;
        }
        Ok(())
    }

    fn line_of_stream(
        &mut self,
        name: &str,
        role: Option<&str>,
        rest: &str,
        number: usize,
    ) -> Result<(), ImportError> {
        let words: Vec<&str> = rest.split_whitespace().take(32).collect();
        if let ["local", local, "port", ..] = words[..] {
            self.family = self.family.or(local.parse().ok().map(family_of));
            self.streams.insert(shown(name));
        }
        // each has a line of both sides, in both ways
        if self.ends.len() > 4 * MAX_STREAMS || self.streams.len() > MAX_STREAMS {
            let expected = format!("at most {MAX_STREAMS}");
            return Err(ImportError::new(place(number), "more streams", expected));
        }
        let [interval, "sec", _, _, rate, unit, ref rest @ .., last] = words[..] else {
            return Ok(());
        };
        if !matches!(last, "sender" | "receiver") {
            return Ok(());
        }
        let bits = unit.strip_suffix("/sec").and_then(bits_per_unit);
        let rate = rate.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
        let (Some(rate), Some(bits)) = (rate, bits) else {
            let found = format!("the rate {:?}", shown(&format!("{rate:?} {unit}")));
            return Err(ImportError::new(place(number), found, "a rate such as 9.41 Gbits/sec"));
        };
        let seconds = interval.split_once('-').and_then(|(_, end)| end.parse::<f64>().ok());
        let lost_of = rest.iter().find_map(|word| {
            let (lost, all) = word.split_once('/')?;
            Some((lost.parse().ok()?, all.parse().ok()?))
        });
        self.ends.push(End {
            name: shown(name),
            transmits: role.map(|role| role.starts_with("TX")),
            is_sender: last == "sender",
            seconds: seconds.filter(|seconds| (0.0..1e9).contains(seconds)),
            bits_per_second: rate * bits,
            retransmits: rest.first().and_then(|word| word.parse().ok()),
            lost_of,
        });
        Ok(())
    }

    /// The line of one side of all streams of a way.
    fn end(&self, transmits: Option<bool>, is_sender: bool) -> Option<&End> {
        let of_way = || {
            let is_it = move |end: &&End| end.transmits == transmits && end.is_sender == is_sender;
            self.ends.iter().filter(is_it)
        };
        let sum = of_way().find(|end| end.name == "SUM");
        sum.or_else(|| of_way().next().filter(|_| of_way().count() == 1))
    }

    fn run(self, file: &str) -> Result<Imported, ImportError> {
        let failed = |found: String| {
            let expected = "the lines of sender and receiver at its end";
            ImportError::new(place(self.line), found, expected)
        };
        if self.ends.is_empty() {
            let last = self.beside.named.last();
            return Err(failed(last.map_or("a test without an end".to_owned(), |line| {
                format!("the test failed: {line}")
            })));
        }
        let bidirectional = self.ends.iter().any(|end| end.transmits.is_some());
        let ways: &[Option<bool>] =
            if bidirectional { &[Some(true), Some(false)] } else { &[None] };
        let receivers: Vec<Option<&End>> = ways.iter().map(|way| self.end(*way, false)).collect();
        if receivers.iter().all(Option::is_none) {
            return Err(failed("no line of the receiver for all streams".to_owned()));
        }
        let kind = if self.is_udp { Protocol::UdpStream } else { Protocol::Stream };
        let direction = match (bidirectional, self.reverse != self.is_server) {
            (true, _) => Direction::Bidirectional,
            (false, true) => Direction::Receive,
            (false, false) => Direction::Transmit,
        };
        let rate = |at: usize| receivers.get(at).copied().flatten().map(|end| end.bits_per_second);
        let (transmit, receive) = match direction {
            Direction::Bidirectional => (rate(0), rate(1)),
            Direction::Transmit => (rate(0), None),
            Direction::Receive => (None, rate(0)),
        };
        let sum = |counts: Vec<Option<u64>>| {
            let counts: Option<Vec<u64>> = counts.into_iter().collect();
            counts.map(|counts| counts.into_iter().fold(0, u64::saturating_add))
        };
        let mut remarks = vec![ROUNDED.to_owned()];
        let lost_of: Vec<Option<(u64, u64)>> =
            receivers.iter().map(|end| end.and_then(|end| end.lost_of)).collect();
        let mut lost = sum(lost_of.iter().map(|counts| counts.map(|(lost, _)| lost)).collect());
        if lost_of.iter().flatten().any(|(lost, all)| lost > all) {
            remarks
                .push("More datagrams were lost than were sent; the loss is not known.".to_owned());
            lost = None;
        }
        let retransmits = ways.iter().map(|way| self.end(*way, true)?.retransmits).collect();
        let found = Found {
            seconds: receivers.iter().flatten().filter_map(|end| end.seconds).reduce(f64::max),
            transmit_bits_per_second: transmit,
            receive_bits_per_second: receive,
            sent_datagrams: sum(lost_of.iter().map(|counts| counts.map(|(_, all)| all)).collect())
                .filter(|_| self.is_udp),
            lost_datagrams: lost.filter(|_| self.is_udp),
            retransmits: sum(retransmits).filter(|_| !self.is_udp),
            ..Found::default()
        };
        let streams = self.streams.len() / ways.len();
        let asked = Asked {
            family: self.family,
            connections: u32::try_from(streams).ok().filter(|count| *count > 0),
            message: self.message,
            warm_up_seconds: self.warm_up_seconds,
            ..Asked::of(kind, direction)
        };
        let program = match &self.version {
            Some(version) => format!("iperf3 {version}"),
            None => "iperf3".to_owned(),
        };
        let protocol = if self.is_udp { "UDP" } else { "TCP" };
        let test = match bidirectional {
            true => format!("{protocol} both ways"),
            false => protocol.to_owned(),
        };
        remarks.extend(self.beside.remarks());
        Ok(Imported {
            place: Some(place(self.line)),
            cookie: self.cookie,
            remarks,
            ..run_of(file, &program, &test, asked, found)
        })
    }
}

/// Bits of what iperf3 calls `Gbits` or `MBytes`; `None` for no such unit.
fn bits_per_unit(unit: &str) -> Option<f64> {
    let (prefix, base, bits) = match (unit.strip_suffix("bits"), unit.strip_suffix("Bytes")) {
        (Some(prefix), _) => (prefix, 1000.0, 1.0),
        (_, Some(prefix)) => (prefix, 1024.0, 8.0),
        _ => return None,
    };
    let power = ["", "K", "M", "G", "T"].iter().position(|known| *known == prefix)?;
    Some(bits * f64::powi(base, i32::try_from(power).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::changed;
    use super::*;

    const TCP: &str = "\
Connecting to host 192.0.2.7, port 5201
[  5] local 192.0.2.1 port 40624 connected to 192.0.2.7 port 5201
[  7] local 192.0.2.1 port 40626 connected to 192.0.2.7 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec   112 MBytes   941 Mbits/sec    0    308 KBytes
[SUM]   0.00-1.00   sec   225 MBytes  1.88 Gbits/sec    0
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  1.10 GBytes   945 Mbits/sec    3             sender
[  5]   0.00-10.04  sec  1.09 GBytes   940 Mbits/sec                  receiver
[  7]   0.00-10.00  sec  1.10 GBytes   945 Mbits/sec    4             sender
[  7]   0.00-10.04  sec  1.09 GBytes   940 Mbits/sec                  receiver
[SUM]   0.00-10.00  sec  2.20 GBytes  1.89 Gbits/sec    7             sender
[SUM]   0.00-10.04  sec  2.18 GBytes  1.88 Gbits/sec                  receiver

iperf Done.
";

    const UDP: &str = "\
iperf 3.21
Accepted connection from 2001:db8::1, port 40612
      Cookie: 6qmld3ilglifocihjxdqpxlqdycomjo5547l
[  5] local 2001:db8::7 port 5201 connected to 2001:db8::1 port 45210
Starting Test: protocol: UDP, 1 streams, 1428 byte blocks, omitting 2 seconds, 10 second test, tos 0
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-10.00  sec  1.19 MBytes  1000 Kbits/sec  0.011 ms  6/880 (0.68%)  receiver
iperf3: error - idle
";

    fn one(text: &str) -> Imported {
        assert!(is_iperf3(text));
        let mut runs = read("f", text).unwrap();
        assert_eq!(runs.len(), 1);
        runs.remove(0)
    }

    #[test]
    fn a_client_has_the_rate_of_the_receiver() {
        let run = one(TCP);
        assert_eq!(run.found.transmit_bits_per_second, Some(1.88e9));
        assert_eq!((run.found.retransmits, run.found.seconds), (Some(7), Some(10.04)));
        assert_eq!((run.asked.connections, run.asked.family), (Some(2), Some(Family::Ipv4)));
        assert_eq!(run.remarks, [ROUNDED]);
        let reverse = TCP.replacen('\n', "\nReverse mode, remote host 192.0.2.7 is sending\n", 1);
        let run = one(&reverse);
        assert_eq!(run.asked.direction, Direction::Receive);
        assert_eq!(run.found.receive_bits_per_second, Some(1.88e9));
        let binary = one(&TCP.replace("1.88 Gbits/sec", "1.75 GBytes/sec")).found;
        assert_eq!(binary.transmit_bits_per_second, Some(1.75 * 8.0 * 1_073_741_824.0));
    }

    #[test]
    fn a_server_receives_and_a_line_of_an_error_is_said() {
        let run = one(UDP);
        assert_eq!(
            (run.asked.kind, run.asked.direction),
            (Protocol::UdpStream, Direction::Receive)
        );
        assert_eq!(run.found.receive_bits_per_second, Some(1e6));
        assert_eq!((run.found.sent_datagrams, run.found.lost_datagrams), (Some(880), Some(6)));
        assert_eq!((run.asked.message, run.asked.warm_up_seconds), (Some(1428), Some(2.0)));
        assert_eq!((run.program.as_str(), run.asked.family), ("iperf3 3.21", Some(Family::Ipv6)));
        assert_eq!(run.cookie.unwrap().len(), 36);
        assert_eq!(run.remarks[1..], ["The file also has the line \"iperf3: error - idle\"."]);
        let absurd = one(&UDP.replace("6/880", "881/880"));
        assert_eq!(absurd.found.lost_datagrams, None);
        assert!(absurd.remarks[1].contains("not known"), "{:?}", absurd.remarks);
    }

    #[test]
    fn both_ways_have_a_line_each() {
        let both = "\
Connecting to host 192.0.2.7, port 5201
[  5] local 192.0.2.1 port 40624 connected to 192.0.2.7 port 5201
[  7] local 192.0.2.1 port 40626 connected to 192.0.2.7 port 5201
[ ID][Role] Interval           Transfer     Bitrate         Retr
[  5][TX-C]   0.00-2.00   sec  4.00 GBytes  17.2 Gbits/sec   12             sender
[  5][TX-C]   0.00-2.00   sec  4.00 GBytes  17.1 Gbits/sec                  receiver
[  7][RX-C]   0.00-2.00   sec  2.00 GBytes  8.59 Gbits/sec    9             sender
[  7][RX-C]   0.00-2.00   sec  2.00 GBytes  8.58 Gbits/sec                  receiver
";
        let run = one(both);
        assert_eq!(
            (run.asked.direction, run.asked.connections),
            (Direction::Bidirectional, Some(1))
        );
        let found = run.found;
        let ways = (found.transmit_bits_per_second, found.receive_bits_per_second);
        assert_eq!((ways, found.retransmits), ((Some(17.1 * 1e9), Some(8.58e9)), Some(21)));
    }

    #[test]
    fn what_has_no_end_is_refused() {
        let error = |text: &str| read("f", text).unwrap_err().to_string();
        let begin = "Connecting to host 192.0.2.7, port 5201\n";
        assert!(error(begin).starts_with("line 1: a test without an end, expected"));
        let failed = format!("{begin}iperf3: error - the server is busy\n");
        assert!(error(&failed).starts_with("line 1: the test failed: iperf3: error - the server"));
        // only the sender's end, as of a server at a reversed test
        let sender: String = UDP.replace("receiver", "sender");
        assert!(error(&sender).contains("no line of the receiver"));
        assert!(
            error(&TCP.replace("1.88 Gbits/sec", "fast Gbits/sec"))
                .starts_with("line 14: the rate")
        );
        let two = [TCP, UDP].concat();
        assert_eq!(read("f", &two).unwrap()[1].place.as_deref(), Some("line 18"));
    }

    proptest! {
        #[test]
        fn any_change_is_runs_or_an_error(at in any::<prop::sample::Index>(), c in any::<char>()) {
            for text in [TCP, UDP] {
                let _ = read("f", &changed(text, at, c));
            }
        }
    }
}
