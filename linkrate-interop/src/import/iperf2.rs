//! The CSV of iperf 2 (`-y C`).
//!
//! Facts: iperf 2.0.13 and 2.1.9. A row has the time, the own address and port, those of the peer, a number, the interval,
//! bytes and bit/s. Of UDP the end that received has five more columns: jitter, lost, all, their share, and those out of order. A
//! client of UDP prints the row of its server too, whose addresses are the other way round. The last row of a connection is of
//! the whole test. Several connections have rows of their sum, with the number -1.

use std::collections::BTreeMap;

use linkrate_model::imported::{Asked, Found};
use linkrate_model::{Direction, Imported, Protocol};

use super::banner::place;
use super::{ImportError, MAX_RUNS, family_of, run_of, shown, too_many};

/// The port on which a server listens, if it was not asked for another.
const PORT: u16 = 5001;

/// The first of the ports that Linux gives to clients.
const FIRST_OF_CLIENTS: u16 = 32_768;

const OF_SENDER: &str = "The rate is what the client sent: iperf 2 does not report to a client of TCP what its server received.";

const TAKEN_AS_TCP: &str = "Rows of nine columns, without those of a server, are taken as TCP.";

/// An end of a connection.
type End<'a> = (&'a str, u16);

/// A row.
#[derive(Debug, Clone, Copy)]
struct Row<'a> {
    line: usize,
    own: End<'a>,
    peer: End<'a>,
    is_sum: bool,
    start: f64,
    end: f64,
    bytes: f64,
    bits_per_second: f64,
    /// Lost datagrams and all of them, at the end that received.
    lost_of: Option<(i64, u64)>,
}

/// A connection: the rows of its whole time.
#[derive(Debug)]
struct Connection<'a> {
    row: Row<'a>,
    /// What the server reported to its client.
    report: Option<Row<'a>>,
}

/// Connections of one test, or of several that have no sum.
#[derive(Debug, Default)]
struct Group<'a> {
    connections: Vec<Connection<'a>>,
    sum: Option<Row<'a>>,
}

/// Whether a text begins with such a row.
pub(super) fn is_iperf2(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut fields = first.split(',');
    // newer versions have the zone before the time, and milliseconds behind it
    let time = fields.next().and_then(|time| time.rsplit(':').next()?.split('.').next());
    time.is_some_and(|time| time.len() == 14 && time.bytes().all(|byte| byte.is_ascii_digit()))
        && fields.count() >= 8
}

/// The runs of a file.
pub(super) fn read(file: &str, text: &str) -> Result<Vec<Imported>, ImportError> {
    let mut groups = vec![Group::default()];
    // the connections of the last group by their ends, whichever is first
    let mut places: BTreeMap<(End<'_>, End<'_>), usize> = BTreeMap::new();
    let mut connections = 0;
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let row = row(number, line)?;
        let Some(group) = groups.last_mut() else { break };
        if row.is_sum {
            if is_whole(&row, group.sum.as_ref()) {
                group.sum = Some(row);
            }
            continue;
        }
        let ends = (row.own.min(row.peer), row.own.max(row.peer));
        match places.get(&ends).and_then(|at| group.connections.get_mut(*at)) {
            Some(known) if row.lost_of.is_some() && known.row.lost_of.is_none() => {
                if is_whole(&row, known.report.as_ref()) {
                    known.report = Some(row);
                }
            }
            Some(known) if known.row.own == row.own => {
                if is_whole(&row, Some(&known.row)) {
                    known.row = row;
                }
            }
            Some(_) => {
                let found = "a test of both ways";
                return Err(ImportError::new(place(number), found, "a test of one way"));
            }
            None => {
                connections += 1;
                if connections > MAX_RUNS {
                    return Err(too_many());
                }
                let connection = Connection { row, report: None };
                // connections of a test begin before its first sum
                if group.sum.is_some() {
                    places.clear();
                    places.insert(ends, 0);
                    groups.push(Group { connections: vec![connection], sum: None });
                } else {
                    places.insert(ends, group.connections.len());
                    group.connections.push(connection);
                }
            }
        }
    }
    let mut runs = Vec::new();
    for group in &groups {
        match &group.sum {
            Some(sum) => runs.push(run(file, &group.connections, Some(sum))?),
            None => {
                for one in &group.connections {
                    runs.push(run(file, std::slice::from_ref(one), None)?);
                }
            }
        }
    }
    match &mut runs[..] {
        [] => return Err(ImportError::of_file("a sum alone", "rows of connections")),
        [only] => only.place = None,
        _ => {}
    }
    Ok(runs)
}

/// Whether a row is of the whole time so far, and not of one interval.
fn is_whole(row: &Row<'_>, known: Option<&Row<'_>>) -> bool {
    row.start == 0.0 && known.is_none_or(|known| row.end >= known.end)
}

fn row(number: usize, line: &str) -> Result<Row<'_>, ImportError> {
    let fields: Vec<&str> = line.split(',').take(32).map(str::trim).collect();
    let error = |found: &str, expected: &str| {
        Err(ImportError::new(place(number), format!("{:?}", shown(found)), expected))
    };
    let (&[_, own, own_port, peer, peer_port, id, interval, bytes, rate], more) =
        match fields.split_first_chunk::<9>() {
            Some((first, more)) if matches!(more.len(), 0 | 5) => (first, more),
            _ => return error(line, "9 or 14 columns of iperf -y C"),
        };
    let parsed =
        |text: &str| text.parse::<f64>().ok().filter(|number| (0.0..1e18).contains(number));
    let (Some((start, end)), Some(bytes), Some(bits_per_second)) = (
        interval.split_once('-').and_then(|(start, end)| Some((parsed(start)?, parsed(end)?))),
        parsed(bytes),
        parsed(rate),
    ) else {
        return error(line, "an interval, bytes and bit/s in columns 7 to 9");
    };
    let (Ok(own_port), Ok(peer_port)) = (own_port.parse(), peer_port.parse()) else {
        return error(line, "ports in columns 3 and 5");
    };
    let lost_of = match more {
        [_, lost, all, ..] => match (lost.parse(), all.parse()) {
            (Ok(lost), Ok(all)) => Some((lost, all)),
            _ => return error(line, "datagrams in columns 11 and 12"),
        },
        _ => None,
    };
    let is_sum = id == "-1";
    let (own, peer) = ((own, own_port), (peer, peer_port));
    Ok(Row { line: number, own, peer, is_sum, start, end, bytes, bits_per_second, lost_of })
}

/// The run of one connection, or of several with their sum.
fn run(
    file: &str,
    connections: &[Connection<'_>],
    sum: Option<&Row<'_>>,
) -> Result<Imported, ImportError> {
    let Some(first) = connections.first() else {
        return Err(ImportError::of_file("a sum alone", "rows of connections"));
    };
    let total = sum.unwrap_or(&first.row);
    let bytes: f64 = connections.iter().map(|one| one.row.bytes).sum();
    if (bytes - total.bytes).abs() > 0.01 * total.bytes {
        let found = format!("a sum of {} bytes over connections of {bytes}", total.bytes);
        return Err(ImportError::new(
            place(total.line),
            found,
            "one test of several connections in a file",
        ));
    }
    let mut remarks = Vec::new();
    let reports: Option<Vec<&Row<'_>>> =
        connections.iter().map(|one| one.report.as_ref()).collect();
    let received: Vec<&Row<'_>> = match &reports {
        Some(reports) => reports.clone(),
        None => {
            connections.iter().map(|one| &one.row).filter(|row| row.lost_of.is_some()).collect()
        }
    };
    let kind = if received.is_empty() { Protocol::Stream } else { Protocol::UdpStream };
    let direction = match (reports.is_some(), kind, first.row.own.1, first.row.peer.1) {
        (true, ..) => Direction::Transmit,
        (false, Protocol::UdpStream, ..) => Direction::Receive,
        (.., PORT) => Direction::Transmit,
        (.., PORT, _) => Direction::Receive,
        (.., own, peer) if own >= FIRST_OF_CLIENTS && peer < FIRST_OF_CLIENTS => {
            Direction::Transmit
        }
        (.., own, peer) if peer >= FIRST_OF_CLIENTS && own < FIRST_OF_CLIENTS => Direction::Receive,
        (.., own, peer) => {
            let found = format!("ports {own} and {peer}");
            return Err(ImportError::new(
                place(first.row.line),
                found,
                "a port that identifies the server",
            ));
        }
    };
    let mut found = Found { seconds: Some(total.end), ..Found::default() };
    let rate = match &reports {
        Some(reports) => reports.iter().map(|row| row.bits_per_second).sum(),
        None => total.bits_per_second,
    };
    match direction {
        Direction::Receive => found.receive_bits_per_second = Some(rate),
        _ => found.transmit_bits_per_second = Some(rate),
    }
    if kind == Protocol::UdpStream {
        let counts = received.iter().filter_map(|row| row.lost_of);
        let (lost, all) = counts.fold((0i64, 0u64), |(lost, all), (more_lost, more)| {
            (lost.saturating_add(more_lost), all.saturating_add(more))
        });
        found.sent_datagrams = Some(all);
        found.lost_datagrams = u64::try_from(lost).ok().filter(|lost| *lost <= all);
        if found.lost_datagrams.is_none() {
            remarks.push(format!("Of {all} datagrams {lost} were lost; the loss is not known."));
        }
    } else {
        remarks.push(TAKEN_AS_TCP.to_owned());
        if direction == Direction::Transmit {
            remarks.push(OF_SENDER.to_owned());
        }
    }
    let asked = Asked {
        family: first.row.own.0.parse().ok().map(family_of),
        connections: u32::try_from(connections.len()).ok(),
        ..Asked::of(kind, direction)
    };
    let test = if kind == Protocol::UdpStream { "UDP" } else { "TCP" };
    let place = Some(place(first.row.line));
    Ok(Imported { place, remarks, ..run_of(file, "iperf2", test, asked, found) })
}

#[cfg(test)]
mod tests {
    use linkrate_model::Family;
    use proptest::prelude::*;

    use super::super::changed;
    use super::*;

    const TCP: &str = "\
20261128205305,192.0.2.1,54402,192.0.2.7,5001,3,0.0-1.0,117700000,941600000
20261128205306,192.0.2.1,54402,192.0.2.7,5001,3,1.0-2.0,117500000,940000000
20261128205306,192.0.2.1,54402,192.0.2.7,5001,3,0.0-2.0,235200000,940800000
";

    const UDP: &str = "\
20261128205305,192.0.2.1,53460,192.0.2.7,5001,3,0.0-10.0,1312710,1050168
20261128205305,192.0.2.7,5001,192.0.2.1,53460,3,0.0-10.0,1308300,1046640,0.009,3,893,0.336,0
";

    fn one(text: &str) -> Imported {
        assert!(is_iperf2(text));
        let mut runs = read("f", text).unwrap();
        assert_eq!(runs.len(), 1);
        runs.remove(0)
    }

    #[test]
    fn the_row_of_the_whole_time_is_the_run() {
        let run = one(TCP);
        assert_eq!((run.asked.kind, run.asked.direction), (Protocol::Stream, Direction::Transmit));
        assert_eq!(run.found.transmit_bits_per_second, Some(940.8e6));
        assert_eq!((run.found.seconds, run.asked.connections), (Some(2.0), Some(1)));
        assert_eq!(run.asked.family, Some(Family::Ipv4));
        assert_eq!(run.remarks, [TAKEN_AS_TCP, OF_SENDER]);
        let server =
            one(&TCP.replace("192.0.2.1,54402,192.0.2.7,5001", "192.0.2.7,5001,192.0.2.1,54402"));
        assert_eq!(server.found.receive_bits_per_second, Some(940.8e6));
        assert_eq!(server.remarks, [TAKEN_AS_TCP]);
        let two = read("f", &[TCP, &TCP.replace("54402", "54404")].concat()).unwrap();
        assert_eq!(two[1].place.as_deref(), Some("line 6"));
    }

    #[test]
    fn the_server_says_what_arrived() {
        let run = one(UDP);
        assert_eq!(
            (run.asked.kind, run.asked.direction),
            (Protocol::UdpStream, Direction::Transmit)
        );
        assert_eq!(run.found.transmit_bits_per_second, Some(1_046_640.0));
        assert_eq!((run.found.sent_datagrams, run.found.lost_datagrams), (Some(893), Some(3)));
        let (_, server) = UDP.split_once('\n').unwrap();
        let run = one(server);
        assert_eq!(run.found.receive_bits_per_second, Some(1_046_640.0));
        for lost in ["-3", "894"] {
            let absurd = one(&UDP.replace("0.009,3,", &format!("0.009,{lost},")));
            assert_eq!((absurd.found.lost_datagrams, absurd.remarks.len()), (None, 1));
        }
    }

    #[test]
    fn a_sum_is_of_its_connections() {
        let sum = "20261128205306,192.0.2.1,0,192.0.2.7,5001,-1,0.0-2.0,470400000,1881600000\n";
        let both = [TCP, &TCP.replace("54402", "54404"), sum].concat();
        let run = one(&both);
        assert_eq!((run.asked.connections, run.found.seconds), (Some(2), Some(2.0)));
        assert_eq!(run.found.transmit_bits_per_second, Some(1.8816e9));
        let again = [both.as_str(), &both.replace("5440", "5450")].concat();
        assert_eq!(read("f", &again).unwrap().len(), 2);
        let error = |text: &str| read("f", text).unwrap_err().to_string();
        let lone = TCP.replace("54402", "54408");
        assert!(
            error(&[&lone, both.as_str()].concat())
                .starts_with("line 10: a sum of 470400000 bytes")
        );
        assert!(error(sum).starts_with("a sum alone"));
        let back = "20261128205306,192.0.2.1,54402,192.0.2.7,5001,4,0.0-2.0,1,1\n";
        let back = back.replace("192.0.2.1,54402,192.0.2.7,5001", "192.0.2.7,5001,192.0.2.1,54402");
        assert!(error(&[TCP, &back].concat()).starts_with("line 4: a test of both ways"));
        assert!(error(&TCP.replace("5001", "54410")).starts_with("line 3: ports 54402 and 54410"));
        assert!(error(&TCP.replace(",941600000", "")).contains("9 or 14 columns"));
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
