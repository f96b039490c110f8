//! The classic output of netperf: a banner, the head of a table, a blank line, and one or two rows.
//!
//! Facts: the output of netperf 2.7, and the banner of 2.2. Local is where netperf ran, which is the system under test.

use linkrate_model::imported::{Asked, Found};
use linkrate_model::{Direction, Imported, Protocol, SendPath};

use super::banner::{Lines, TESTS, asked_by, bits_per_unit, has_banner, is_banner, place, title};
use super::{Beside, ImportError, MAX_RUNS, omni, run_of, too_many};

/// Most lines of a test: omni tests can print some 200 values, one a line.
const MAX_LINES: usize = 4096;

/// How the lines of `-v 2` begin that stand behind the figures: alignments, and a histogram.
const VERBOSE: [&str; 2] = ["Alignment ", "Histogram of "];

const NO_VERBOSE: &str = "The histogram that -v 2 prints after the results is not imported.";

/// Whether a text has a banner of netperf.
pub(super) fn is_netperf(text: &str) -> bool {
    has_banner(text)
}

/// Whether a line is a complaint: the name of a function or of the program, and a colon.
fn is_complaint(line: &str) -> bool {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = line.starts_with(|c: char| c.is_ascii_lowercase());
    begins && line.split_once(':').is_some_and(|(name, _)| name.chars().all(is_name))
}

/// The runs of a file.
pub(super) fn read(file: &str, text: &str) -> Result<Vec<Imported>, ImportError> {
    let mut lines = (1..).zip(text.lines()).peekable();
    let mut beside = Beside::default();
    while let Some((_, line)) = lines.next_if(|(_, line)| !is_banner(line)) {
        if !line.trim().is_empty() {
            beside.add(line);
        }
    }
    let mut runs = Vec::new();
    while let Some((number, banner)) = lines.next() {
        if runs.len() == MAX_RUNS {
            return Err(too_many());
        }
        let mut body = Vec::new();
        let (mut complaint, mut verbose) = (None, false);
        while let Some((at, line)) = lines.next_if(|(_, line)| !is_banner(line)) {
            // intermediate results and complaints about confidence stand anywhere
            if line.starts_with("Interim result:") || line.starts_with("!!!") {
                continue;
            }
            if is_complaint(line) {
                complaint = Some(line);
                beside.add(line);
                continue;
            }
            verbose = verbose || VERBOSE.iter().any(|begin| line.starts_with(begin));
            if verbose {
                continue;
            }
            if body.len() == MAX_LINES {
                let found = format!("more than {MAX_LINES} lines behind it");
                return Err(ImportError::new(place(number), found, "those of one test"));
            }
            body.push((at, line));
        }
        if let Some(last) =
            complaint.filter(|_| body.iter().all(|(_, line)| line.trim().is_empty()))
        {
            let found = format!("the test failed: {}", super::shown(last));
            return Err(ImportError::new(place(number), found, "the figures of a test that ended"));
        }
        let mut run = match omni::of(file, (number, banner), &body)? {
            Some(run) => run,
            None => classic(file, number, banner, &body)?,
        };
        run.place = Some(place(number));
        run.remarks.extend(verbose.then(|| NO_VERBOSE.to_owned()));
        run.remarks.extend(std::mem::take(&mut beside).remarks());
        runs.push(run);
    }
    if let [only] = &mut runs[..] {
        only.place = None;
    }
    Ok(runs)
}

/// The run of a table.
fn classic(file: &str, number: usize, banner: &str, body: &Lines) -> Result<Imported, ImportError> {
    let title = title(banner);
    let Some((_, test, kind, direction)) = TESTS.iter().find(|(name, ..)| *name == title) else {
        let names: Vec<&str> = TESTS.iter().map(|(_, test, ..)| *test).collect();
        let found = format!("the test {:?}", super::shown(title));
        return Err(ImportError::new(place(number), found, format!("one of {}", names.join(", "))));
    };
    let blank = body.iter().position(|(_, line)| line.trim().is_empty());
    let Some((head, rows)) = blank.map(|blank| body.split_at(blank)) else {
        let expected =
            "the head of its table, a blank line and its figures, or the output of -o or -k";
        return Err(ImportError::new(place(number), "a banner without a table", expected));
    };
    let words = || head.iter().flat_map(|(_, line)| line.split_whitespace());
    let with_cpu = words().any(|word| matches!(word, "Utilization" | "CPU"));
    let rows: Vec<&(usize, &str)> =
        rows.iter().filter(|(_, line)| !line.trim().is_empty()).collect();
    let columns = |index: usize, counts: [usize; 2]| {
        let count = counts[usize::from(with_cpu)];
        let Some((at, row)) = rows.get(index) else {
            let found = format!("{} rows of figures", rows.len());
            return Err(ImportError::new(place(number), found, format!("row {}", index + 1)));
        };
        numbers(*at, row, count)
    };
    let unit = words().find_map(bits_per_unit);
    let unit = || {
        unit.ok_or_else(|| {
            let expected = "a unit such as 10^6bits/sec or MBytes/sec";
            ImportError::new(place(number), "no unit of the throughput in the head", expected)
        })
    };
    let mut asked = asked_by(banner, Asked::of(*kind, *direction));
    let mut found = Found::default();
    // what was not measured is -1
    let known = |value: f64| Some(value).filter(|value| *value >= 0.0);
    let bytes = |value: f64| known(value).map(|value| value as u64);
    let mut remarks = Vec::new();
    match kind {
        Protocol::UdpStream => {
            let sent = columns(0, [6, 8])?;
            let received = columns(1, [4, 6])?;
            found.granted_send_buffer_bytes = bytes(sent[0]);
            asked.message = bytes(sent[1]).filter(|size| *size > 0);
            found.seconds = known(received[1]);
            found.transmit_bits_per_second = known(received[3] * unit()?);
            found.sent_datagrams = bytes(sent[3]);
            found.lost_datagrams = bytes(sent[3] - received[2]);
            if found.lost_datagrams.is_none() {
                remarks.push(format!(
                    "Of {} datagrams {} were received; the loss is not known.",
                    sent[3], received[2]
                ));
            }
            if with_cpu {
                (found.cpu_percent, found.service_demand_us) = (known(sent[6]), known(sent[7]));
                found.client_cpu_percent = known(received[4]);
            }
        }
        Protocol::Stream => {
            let row = columns(0, [5, 9])?;
            match direction {
                Direction::Receive => found.granted_receive_buffer_bytes = bytes(row[0]),
                _ => found.granted_send_buffer_bytes = bytes(row[1]),
            }
            asked.message = bytes(row[2]).filter(|size| *size > 0);
            asked.send_path = Some(match *test {
                "TCP_SENDFILE" => SendPath::Sendfile,
                _ => SendPath::Plain,
            });
            found.seconds = known(row[3]);
            let rate = known(row[4] * unit()?);
            match direction {
                Direction::Receive => found.receive_bits_per_second = rate,
                _ => found.transmit_bits_per_second = rate,
            }
            cpu(&mut found, &row[5..]);
        }
        _ => {
            let row = columns(0, [6, 10])?;
            found.granted_send_buffer_bytes = bytes(row[0]);
            found.granted_receive_buffer_bytes = bytes(row[1]);
            asked.request = bytes(row[2]).filter(|size| *size > 0);
            asked.response = bytes(row[3]).filter(|size| *size > 0);
            found.seconds = known(row[4]);
            found.transactions_per_second = known(row[5]);
            cpu(&mut found, &row[6..]);
        }
    }
    Ok(Imported { remarks, ..run_of(file, "netperf", test, asked, found) })
}

/// The CPU columns: use of both ends, service demand of both ends; empty without.
fn cpu(found: &mut Found, columns: &[f64]) {
    let known = |index: usize| columns.get(index).copied().filter(|value| *value >= 0.0);
    found.cpu_percent = known(0);
    found.client_cpu_percent = known(1);
    found.service_demand_us = known(2);
}

/// So many numbers of a row, and no more.
fn numbers(line: usize, row: &str, count: usize) -> Result<Vec<f64>, ImportError> {
    let fields: Vec<&str> = row.split_whitespace().collect();
    if fields.len() != count {
        let found = format!("{} columns in {:?}", fields.len(), super::shown(row));
        return Err(ImportError::new(place(line), found, format!("{count} columns")));
    }
    let number = |field: &&str| {
        let number = field.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| {
            ImportError::new(place(line), format!("{:?}", super::shown(field)), "a number")
        })
    };
    fields.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use linkrate_model::Family;
    use proptest::prelude::*;

    use super::*;

    fn one(text: &str) -> Imported {
        let mut runs = read("f", text).unwrap();
        assert_eq!(runs.len(), 1);
        runs.remove(0)
    }

    macro_rules! recorded {
        ($name:literal) => {
            include_str!(concat!("../../tests/recorded/", $name))
        };
    }

    #[test]
    fn streams_have_rates_and_cost_where_they_were_asked() {
        let plain = one(recorded!("tcp_stream.txt"));
        assert_eq!((plain.test.as_str(), plain.asked.message), ("TCP_STREAM", Some(16384)));
        assert_eq!(plain.found.transmit_bits_per_second, Some(10_429.65e6));
        assert_eq!((plain.found.cpu_percent, plain.found.service_demand_us), (None, None));
        let metered = one(recorded!("tcp_stream_cpu.txt")).found;
        assert_eq!(metered.cpu_percent, Some(65.32));
        assert_eq!(
            (metered.client_cpu_percent, metered.service_demand_us),
            (Some(65.32), Some(0.96))
        );
        // the remote end was not metered, which netperf prints as -1
        let received = one(recorded!("tcp_maerts_cpu.txt"));
        assert_eq!(received.asked.direction, Direction::Receive);
        assert_eq!(received.found.receive_bits_per_second, Some(12_909.1e6));
        assert_eq!(
            (received.found.cpu_percent, received.found.client_cpu_percent),
            (Some(61.73), None)
        );
        let binary = one(recorded!("tcp_stream_fM.txt")).found.transmit_bits_per_second;
        assert_eq!(binary, Some(1469.10 * 8.0 * 1_048_576.0));
        let over = |text: &str| one(text).asked.family;
        let text = recorded!("tcp_stream.txt");
        assert_eq!(over(text), Some(Family::Ipv4));
        assert_eq!(over(&text.replace("AF_INET ", "AF_INET6 ")), Some(Family::Ipv6));
    }

    #[test]
    fn datagrams_and_transactions_are_read() {
        let datagrams = one(recorded!("udp_stream.txt"));
        assert_eq!(datagrams.found.transmit_bits_per_second, Some(5621.57e6));
        assert_eq!(datagrams.found.lost_datagrams, Some(489_992 - 477_411));
        let more = one(&recorded!("udp_stream.txt").replace("477411", "489993"));
        assert_eq!((more.found.lost_datagrams, more.remarks.len()), (None, 1));
        let metered = one(recorded!("udp_stream_cpu.txt")).found;
        assert_eq!((metered.cpu_percent, metered.service_demand_us), (Some(76.0), Some(2.099)));
        let transactions = one(recorded!("tcp_rr_cpu.txt"));
        assert_eq!(transactions.found.transactions_per_second, Some(9930.51));
        assert_eq!((transactions.asked.request, transactions.asked.burst), (Some(1), Some(1)));
        assert_eq!(transactions.found.service_demand_us, Some(55.825));
        assert_eq!(one(recorded!("tcp_crr.txt")).test, "TCP_CRR");
        let other = one(recorded!("udp_rr_cpu.txt"));
        assert_eq!((other.asked.request, other.asked.response), (Some(64), Some(1024)));
        assert_eq!((other.found.cpu_percent, other.found.client_cpu_percent), (None, Some(27.18)));
    }

    #[test]
    fn several_outputs_in_a_file_are_several_runs() {
        let both = [recorded!("tcp_stream.txt"), recorded!("tcp_rr.txt")].concat();
        let runs = read("f", &both).unwrap();
        assert_eq!(
            runs.iter().map(|run| run.test.as_str()).collect::<Vec<_>>(),
            ["TCP_STREAM", "TCP_RR"]
        );
        assert_eq!(runs[1].place.as_deref(), Some("line 8"));
    }

    #[test]
    fn a_test_that_took_no_time_is_no_run() {
        let text = recorded!("tcp_stream.txt").replace(" 1.00 ", " 0.00 ");
        let both = [recorded!("tcp_rr.txt"), &text].concat();
        let error = super::super::read("f", both.as_bytes()).unwrap_err().to_string();
        assert!(error.ends_with("a time of 0 s, expected a test longer than 0 s"), "{error}");
        assert!(error.starts_with("line "), "{error}");
    }

    #[test]
    fn what_stands_around_a_table_is_said() {
        let whole = recorded!("tcp_stream.txt");
        let rate = one(whole).found.transmit_bits_per_second;
        let run = one(&format!("x\n{whole}catcher: timer popped\n\nHistogram of requests\n0: 1\n"));
        assert_eq!(run.found.transmit_bits_per_second, rate);
        let expected = [
            NO_VERBOSE,
            "The file also has the line \"x\".",
            "The file also has the line \"catcher: timer popped\".",
        ];
        assert_eq!(run.remarks, expected);
        // netperf 2.2
        let (banner, rest) = whole.split_once('\n').unwrap();
        assert!(banner.starts_with("MIGRATED TCP STREAM TEST from"), "{banner}");
        let old = one(&format!("TCP STREAM TEST to 192.0.2.7\n{rest}"));
        assert_eq!((old.found.transmit_bits_per_second, old.asked.family), (rate, None));
        assert!(!is_netperf("this is a TEST to see"));
    }

    #[test]
    fn what_does_not_fit_names_its_line() {
        let whole = recorded!("tcp_stream.txt");
        for (text, error) in [
            (whole.replace("10429.65", "fast"), "line 7: \"fast\", expected a number"),
            (whole.replace("10429.65", ""), "line 7: 4 columns in"),
            (whole.replace("10^6bits/sec", ""), "line 1: no unit of the throughput"),
            (whole.replace("TCP STREAM", "DLPI STREAM"), "line 1: the test \"DLPI STREAM\""),
            (
                "TCP STREAM TEST from a\ncatcher: timer popped\nsend_it: no response\n".to_owned(),
                "line 1: the test failed: send_it: no response, expected the figures",
            ),
        ] {
            let found = read("f", &text).unwrap_err().to_string();
            assert!(found.starts_with(error), "{found}");
        }
    }

    proptest! {
        #[test]
        fn any_change_is_runs_or_an_error(at in 0usize..600, byte in any::<char>()) {
            let mut text: Vec<char> = recorded!("tcp_rr_cpu.txt").chars().collect();
            let at = at % text.len();
            text[at] = byte;
            let _ = read("f", &text.into_iter().collect::<String>());
        }

        #[test]
        fn any_text_behind_a_banner_is_runs_or_an_error(rest in "[ -~\n]{0,300}") {
            let _ = read("f", &format!("MIGRATED TCP STREAM TEST from a\n{rest}"));
            let _ = read("f", &format!("OMNI Send TEST from a\n{rest}"));
        }
    }
}
