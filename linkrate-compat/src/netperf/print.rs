//! The texts that netperf prints.

use std::fmt::Write;
use std::net::SocketAddr;

use hdrhistogram::Histogram;
use linkrate_interop::netperf::Shape;
use linkrate_model::latency::Percentile;
use linkrate_sys::connect::is_of_this_host;
use linkrate_sys::tcp_info::TcpInfo;

use super::details;
use super::histogram;
use super::options::{Names, Options, Output};
use super::report::{Report, Unit};
use super::selectors;

/// The least part of a stream that is told to be lost: that of one digit of per cents.
const MIN_LOST: f64 = 0.001;

/// The first line of a test whose data goes there.
pub(super) fn banner(options: &Options, data: SocketAddr) -> String {
    let transport = if options.test.udp { "UDP" } else { "TCP" };
    let name = match (options.test.shape, options.test.omni) {
        (_, true) => "OMNI Send".to_owned(),
        (Shape::Stream, _) if options.test.sends_files => format!("{transport} SENDFILE"),
        (Shape::Stream, _) => format!("{transport} STREAM"),
        (Shape::Maerts, _) => format!("{transport} MAERTS"),
        (Shape::RequestResponse, _) => format!("{transport} REQUEST/RESPONSE"),
        (Shape::Connect, _) => format!("{transport} Connect/Close"),
        (Shape::ConnectRequestResponse, _) => format!("{transport} Connect/Request/Response"),
    };
    let is_migrated = !options.test.omni && options.test.shape != Shape::Connect;
    let migrated = if is_migrated { "MIGRATED " } else { "" };
    let (any, family) = match data {
        SocketAddr::V4(_) => ("0.0.0.0 (0.0.0.0)", "AF_INET"),
        SocketAddr::V6(_) => ("::0 (::)", "AF_INET6"),
    };
    let host = &options.host;
    let mut line =
        format!("{migrated}{name} TEST from {any} port 0 {family} to {host} () port 0 {family}");
    if let Some(confidence) = &options.confidence {
        let _ = write!(line, " : {confidence}");
    }
    if options.nodelay {
        line += " : nodelay";
    }
    if options.interim.is_some() {
        line += " : interval";
    }
    if options.on_cpu.iter().any(Option::is_some) {
        line += " : cpu bind";
    }
    if !matches!(options.test.shape, Shape::Stream | Shape::Maerts) && options.burst > 0 {
        let _ = write!(line, " : first burst {}", options.burst);
    }
    line + "\n"
}

/// netperf's warning where an interval is wider than was asked for.
fn warning(options: &Options, report: &Report) -> String {
    let (Some(asked), Some(width)) = (options.confidence, report.width) else {
        return String::new();
    };
    if width <= asked.width {
        return String::new();
    }
    format!(
        "!!! WARNING\n!!! Desired confidence was not achieved within the specified iterations.\n\
         !!! This implies that there was variability in the test environment that\n\
         !!! must be investigated before going further.\n\
         !!! Confidence intervals: Throughput      : {:.3}%\n\n",
        width * 100.0
    )
}

/// The results.
pub(super) fn text(options: &Options, report: &Report) -> String {
    let warning = if options.banner { warning(options, report) } else { String::new() };
    let results = match &options.output {
        Output::Pairs(names) => selectors::of(names, options, report)
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect(),
        Output::Commas(names) => commas(names, options, report),
        Output::Columns(names) => columns(names, options, report),
        Output::Classic if options.verbosity == 0 => branded(options, one(options, report)),
        Output::Classic if options.verbosity == 1 => branded(options, classic(options, report)),
        Output::Classic => {
            branded(options, classic(options, report)) + &details::text(options, report)
        }
    };
    let times = report.tally.latencies.as_ref().filter(|_| options.verbosity > 1);
    let histogram = times.map_or_else(String::new, |times| histogram::text(options, times));
    warning + &results + &histogram
}

/// One number: the rate, or where CPUs are measured the service demand of this end, or else of the server.
fn one(options: &Options, report: &Report) -> String {
    if options.cpu != [false; 2] {
        let cpu = Cpu::of(options, report);
        let end = usize::from(!options.cpu[0]);
        return format!("{:6.3} {}\n", [cpu.here[1], cpu.there[1]][end], cpu.methods[end]);
    }
    let rate = match is_udp_stream(options) {
        true => sent(report),
        false => report.rate,
    };
    format!("{:.2}\n", Unit::of(options).convert(rate))
}

/// Results with the brand behind their first line, where that has no headings.
fn branded(options: &Options, results: String) -> String {
    match (&options.brand, results.split_once('\n')) {
        (Some(brand), Some((first, rest))) if !options.banner => format!("{first} {brand}\n{rest}"),
        _ => results,
    }
}

fn commas(names: &Names, options: &Options, report: &Report) -> String {
    let found: Vec<(&str, String)> = selectors::of(names, options, report).collect();
    let values: Vec<&str> = found.iter().map(|(_, value)| value.as_str()).collect();
    let headings: Vec<&str> = found.iter().map(|(name, _)| selectors::heading(name)).collect();
    match options.banner {
        true => format!("{}\n{}\n", headings.join(","), values.join(",")),
        false => format!("{}\n", values.join(",")),
    }
}

/// Columns whose headings have a word in each line.
fn columns(names: &Names, options: &Options, report: &Report) -> String {
    let found: Vec<(Vec<String>, String)> = selectors::of(names, options, report)
        .map(|(name, value)| {
            let heading = selectors::heading(name);
            (heading.split(' ').map(str::to_owned).collect(), value)
        })
        .collect();
    let widths: Vec<usize> = found
        .iter()
        .map(|(heading, value)| {
            heading.iter().map(String::len).chain([value.len()]).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    let mut row = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text += padded.collect::<Vec<_>>().join(" ").trim_end();
        text += "\n";
    };
    if options.banner {
        let rows = found.iter().map(|(heading, _)| heading.len()).max().unwrap_or(0);
        for line in 0..rows {
            row(found
                .iter()
                .map(|(words, _)| words.get(line).map_or("", String::as_str))
                .collect());
        }
        row(Vec::new());
    }
    row(found.iter().map(|(_, value)| value.as_str()).collect());
    text
}

/// Use and service demand of both ends; −1 where they were not measured, as netperf has it.
struct Cpu {
    here: [f64; 2],
    there: [f64; 2],
    methods: [char; 2],
}

impl Cpu {
    fn of(options: &Options, report: &Report) -> Self {
        let demand = selectors::demand_here(options, report);
        Self {
            here: report
                .cpu
                .map_or([-1.0; 2], |cpu| [cpu.percent_of_host(), demand.unwrap_or(-1.0)]),
            there: [
                report.results.cpu_percent.filter(|_| options.cpu[1]).map_or(-1.0, f64::from),
                selectors::demand_there(options, report).unwrap_or(-1.0),
            ],
            methods: [
                if report.cpu.is_some() { 'S' } else { 'U' },
                selectors::method(report.results.cpu_method),
            ],
        }
    }
}

fn is_udp_stream(options: &Options) -> bool {
    options.test.udp && options.test.shape == Shape::Stream
}

/// Octets that this end sent in a second, of which some may be lost.
fn sent(report: &Report) -> f64 {
    report.tally.sent_bytes as f64 / report.tally.seconds.max(f64::MIN_POSITIVE)
}

fn classic(options: &Options, report: &Report) -> String {
    match (options.test.udp, options.test.shape) {
        (true, Shape::Stream) => datagrams(options, report),
        (_, Shape::Stream | Shape::Maerts) => stream(options, report),
        _ => transactions(options, report),
    }
}

fn stream(options: &Options, report: &Report) -> String {
    let with_cpu = options.cpu != [false; 2];
    let sends = options.test.shape == Shape::Stream;
    let unit = Unit::of(options);
    let (here, there) = if sends { ("Send", "Recv") } else { ("Recv", "Send") };
    let mut text = String::new();
    let cpu = Cpu::of(options, report);
    if options.banner && with_cpu {
        let [local, remote] = cpu.methods;
        let _ = write!(
            text,
            "Recv   Send    Send                          Utilization       Service Demand\n\
             Socket Socket  Message  Elapsed              {here}     {there}     {here}    {there}\n\
             Size   Size    Size     Time     Throughput  local    remote   local   remote\n\
             bytes  bytes   bytes    secs.    {}  % {local}      % {remote}      us/KB   us/KB\n\n",
            unit.interim_name()
        );
    } else if options.banner {
        let _ = write!(
            text,
            "Recv   Send    Send                          \n\
             Socket Socket  Message  Elapsed              \n\
             Size   Size    Size     Time     Throughput  \n\
             bytes  bytes   bytes    secs.    {}  \n\n",
            unit.heading()
        );
    }
    let tally = &report.tally;
    let ((local_send, local_receive), response) = (tally.buffers[0], &report.response);
    let (receive, send, message) = match sends {
        true => (response.receive_buffer, local_send.cast_signed(), tally.calls[0]),
        false => (
            i32::try_from(local_receive).unwrap_or(i32::MAX),
            response.send_buffer.into(),
            response.send_size,
        ),
    };
    let rate = unit.convert(report.rate);
    let _ = write!(
        text,
        "{receive:>6} {send:>6} {message:>6}    {:<6.2}   {rate:>9.2}   ",
        tally.seconds
    );
    if with_cpu {
        let _ = write!(
            text,
            "{:<6.2}   {:<6.2}   {:<6.3}  {:<6.3}",
            cpu.here[0], cpu.there[0], cpu.here[1], cpu.there[1]
        );
    }
    text + "\n"
}

fn transactions(options: &Options, report: &Report) -> String {
    let with_cpu = options.cpu != [false; 2];
    let cpu = Cpu::of(options, report);
    let unit = Unit::of(options);
    let mut text = String::new();
    if options.banner && with_cpu {
        let [local, remote] = cpu.methods;
        let (what, rate, demand) = match unit.is_transactions() {
            true => ("Trans.", "Rate", "us/Tr"),
            false => ("Tput", unit.name(), "us/KB"),
        };
        let _ = write!(
            text,
            "Local /Remote\n\
             Socket Size   Request Resp.  Elapsed {what:<8} CPU    CPU    S.dem   S.dem\n\
             Send   Recv   Size    Size   Time    {rate:<8} local  remote local   remote\n\
             bytes  bytes  bytes   bytes  secs.   per sec  % {local}    % {remote}    {demand}   {demand}\n\n"
        );
    } else if options.banner && !unit.is_transactions() {
        let _ = write!(
            text,
            "Local /Remote\n\
             Socket Size   Request  Resp.   Elapsed  \n\
             Send   Recv   Size     Size    Time     Throughput \n\
             bytes  Bytes  bytes    bytes   secs.    {}   \n\n",
            unit.heading()
        );
    } else if options.banner {
        text += "Local /Remote\n\
                 Socket Size   Request  Resp.   Elapsed  Trans.\n\
                 Send   Recv   Size     Size    Time     Rate         \n\
                 bytes  Bytes  bytes    bytes   secs.    per sec   \n\n";
    }
    let tally = &report.tally;
    let ((send, receive), [request, response]) = (tally.buffers[0], tally.calls);
    let _ = write!(
        text,
        "{send:<6} {receive:<6} {request:<8} {response:<7} {:<6.2}   {:<9.2}",
        tally.seconds,
        unit.convert(report.rate)
    );
    if with_cpu {
        let _ = write!(
            text,
            " {:<6.2} {:<6.2} {:<7.3} {:<7.3}",
            cpu.here[0], cpu.there[0], cpu.here[1], cpu.there[1]
        );
    }
    let there = &report.response;
    let _ = write!(text, "\n{:<6} {:<6}\n", there.send_buffer, there.receive_buffer);
    if let Some(latencies) = tally.latencies.as_ref().filter(|_| options.latencies) {
        text += &latency(latencies);
    }
    text
}

/// Latency on a line. A percentile with too few transactions beyond it is left out.
fn latency(latencies: &Histogram<u64>) -> String {
    let us = |ns: u64| format!("{:.2}", ns as f64 / 1e3);
    let mut text = format!(
        "Latency, microseconds: minimum {}, mean {:.2}",
        us(latencies.min()),
        latencies.mean() / 1e3
    );
    for (name, percentile) in
        [("50%", Percentile::P50), ("90%", Percentile::P90), ("99%", Percentile::P99)]
    {
        if percentile.is_reported(latencies.len()) {
            let value = us(latencies.value_at_quantile(percentile.quantile()));
            let _ = write!(text, ", {name} {value}");
        }
    }
    text + &format!(", maximum {}\n", us(latencies.max()))
}

fn datagrams(options: &Options, report: &Report) -> String {
    let with_cpu = options.cpu != [false; 2];
    let unit = Unit::of(options);
    let cpu = Cpu::of(options, report);
    let mut text = String::new();
    if options.banner && with_cpu {
        let [local, remote] = cpu.methods;
        let _ = write!(
            text,
            "Socket  Message  Elapsed      Messages                   CPU      Service\n\
             Size    Size     Time         Okay Errors   Throughput   Util     Demand\n\
             bytes   bytes    secs            #      #   {} % {local}{remote}     us/KB\n\n",
            unit.heading()
        );
    } else if options.banner {
        let _ = write!(
            text,
            "Socket  Message  Elapsed      Messages                \n\
             Size    Size     Time         Okay Errors   Throughput\n\
             bytes   bytes    secs            #      #   {}\n\n",
            unit.heading()
        );
    }
    let (tally, results) = (&report.tally, &report.results);
    let of_cpu = |figures: [f64; 2]| match with_cpu {
        true => format!("     {:<6.2}   {:<6.3}", figures[0], figures[1]),
        false => String::new(),
    };
    let _ = write!(
        text,
        "{:>6}  {:>6}   {:<6.2}   {:>10} {:>6}   {:>9.2}{}\n{:>6}           {:<6.2}   {:>10}          {:>9.2}{}\n\n",
        tally.buffers[0].0,
        tally.calls[0],
        tally.seconds,
        tally.send_calls,
        tally.failed_calls,
        unit.convert(sent(report)),
        of_cpu(cpu.here),
        report.response.receive_buffer,
        tally.seconds,
        results.receive_calls,
        unit.convert(report.rate),
        of_cpu(cpu.there),
    );
    text
}

/// Names and values of TCP_INFO as netperf dumps them. The word for the congestion window is netperf's.
pub(super) fn tcp_info(info: &TcpInfo) -> String {
    format!(
        "tcpi_pmtu {}\ntcpi_rtt {} tcpi_rttvar {} tcpi_snd_ssthresh {} tpci_snd_cwnd {}\ntcpi_total_retrans {}",
        info.path_mtu,
        info.rtt_us,
        info.rttvar_us,
        info.snd_ssthresh,
        info.snd_cwnd,
        info.total_retrans
    )
}

/// What netperf gets wrong, or does not say.
pub(super) fn notes(options: &Options, report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if options.cpu != [false; 2] && is_of_this_host(report.data) {
        notes.push(
            "both ends are on this host: its CPU time is that of both, and each service demand contains the other"
                .to_owned(),
        );
    }
    let lost = 1.0 - report.rate / sent(report);
    if is_udp_stream(options) && lost >= MIN_LOST {
        notes.push(format!(
            "{:.1} % of what was sent did not arrive; netperf's -v 0 names what was sent, and THROUGHPUT what arrived",
            lost * 100.0
        ));
    }
    if let Some(cpu) = &report.cpu {
        let steal = cpu.uncertainty_seconds * 100.0 / cpu.seconds.max(f64::MIN_POSITIVE);
        notes.push(format!(
            "the {1} CPUs of this host were busy for {0:.1} % of one CPU in {2:.2} s; {steal:.1} % are uncertain because of steal",
            cpu.percent_of_one(),
            cpu.cpus,
            cpu.seconds
        ));
    }
    if let (Some(asked), Some(width)) = (options.confidence, report.width) {
        notes.push(format!(
            "{} tests: the interval of the mean is {:.2} % wide, {:.2} % to either side (Student's t, {:.0} %); \
             netperf's -I names the full width",
            report.tests,
            width * 100.0,
            width * 50.0,
            asked.level * 100.0
        ));
    }
    if !options.without_effect.is_empty() {
        notes.push(format!("without effect here: {}", options.without_effect.join(" ")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_of_few_transactions_is_not_printed() {
        let of = |count| {
            let mut latencies = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
            latencies.record_n(50_000, count).unwrap();
            latency(&latencies)
        };
        let printed =
            |count| ["50%", "90%", "99%"].map(|name| of(count).contains(&format!(", {name} 5")));
        assert_eq!(printed(999), [true, true, false]);
        assert_eq!(printed(1000), [true; 3]);
        assert_eq!(printed(19), [false; 3]);
        assert!(of(19).starts_with("Latency, microseconds: minimum 4"), "{}", of(19));
        assert!(of(19).ends_with("\n") && of(19).contains(", maximum 5"), "{}", of(19));
    }
}
