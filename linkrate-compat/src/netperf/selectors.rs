//! Names of results, as `-k`, `-o` and `-O` have them.

use linkrate_interop::netperf::{CpuModes, Shape};

use super::options::{Length, Names, Options, Output};
use super::report::{Report, Unit};

type Value = fn(&Options, &Report) -> Option<String>;

fn number(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

fn transacts(options: &Options) -> bool {
    !matches!(options.test.shape, Shape::Stream | Shape::Maerts)
}

fn latency(report: &Report, of: impl Fn(&hdrhistogram::Histogram<u64>) -> f64) -> Option<String> {
    let latencies = report.tally.latencies.as_ref()?;
    Some(format!("{:.2}", of(latencies) / 1e3))
}

/// The rate of so many octets.
fn throughput(options: &Options, report: &Report, bytes: u64) -> Option<String> {
    let rate = bytes as f64 / report.tally.seconds.max(f64::MIN_POSITIVE);
    Some(format!("{:.2}", Unit::of_octets(options).convert(rate)))
}

/// The name of the test: that of `-u`, or any.
pub(super) fn uuid(options: &Options) -> Option<String> {
    let any = || std::fs::read_to_string("/proc/sys/kernel/random/uuid").ok();
    options.uuid.clone().or_else(any).map(|name| name.trim_end().to_owned())
}

/// The bound of the calls of this end (0) or the server's (1): calls, and the interval in µs.
fn intervals(options: &Options, end: usize) -> [u128; 2] {
    let intervals = options.intervals_of(end);
    intervals.map_or([0; 2], |asked| [asked.calls.into(), asked.length.as_micros()])
}

/// Octets of a call, mean.
fn each(bytes: u64, calls: u64) -> Option<String> {
    Some(format!("{:.2}", bytes as f64 / calls.max(1) as f64))
}

/// The busiest CPU of the server's host, with its use in per cent.
fn peak_there(options: &Options, report: &Report) -> Option<(u32, f32)> {
    report.results.peak_cpu.filter(|_| options.cpu[1])
}

/// Use of the server's CPUs by one of the things that they did.
fn mode_there(options: &Options, report: &Report, of: fn(CpuModes) -> f32) -> Option<String> {
    let modes = report.results.modes.filter(|_| options.cpu[1])?;
    Some(format!("{:.2}", of(modes)))
}

/// CPU time of this host for each KB or transaction, µs.
pub(super) fn demand_here(options: &Options, report: &Report) -> Option<f64> {
    let (cpu, tally) = (report.cpu?, &report.tally);
    match Unit::of(options).is_transactions() {
        true if tally.transactions > 0 => Some(cpu.busy_seconds * 1e6 / tally.transactions as f64),
        true => None,
        false => cpu.us_per_kb(tally.sent_bytes + tally.received_bytes),
    }
}

/// netperf's letter of a method by its number.
pub(super) fn method(number: u32) -> char {
    match number {
        1 => 'I',
        2 => 'P',
        3 => 'T',
        4 => 'L',
        5 => 'R',
        6 => 'N',
        7 => 'K',
        8 => 'S',
        9 => 'C',
        10 => 'E',
        11 => 'M',
        12 => 'O',
        _ => 'U',
    }
}

/// CPU time of the server's host for each KB or transaction, µs: its use by its own meter, and the payload and the
/// time of this end, because a server leaves it to its client.
pub(super) fn demand_there(options: &Options, report: &Report) -> Option<f64> {
    let (tally, results) = (&report.tally, &report.results);
    let percent = f64::from(results.cpu_percent.filter(|_| options.cpu[1])?);
    let bytes = match (options.test.udp, options.test.shape) {
        // what has not arrived has cost the server nothing
        (true, Shape::Stream) => results.received_bytes,
        _ => tally.sent_bytes + tally.received_bytes,
    };
    let units = match Unit::of(options).is_transactions() {
        true => tally.transactions as f64,
        false => bytes as f64 / 1024.0,
    };
    let busy_us = percent * 1e4 * f64::from(results.cpus) * tally.seconds;
    (units > 0.0).then(|| busy_us / units)
}

/// Name, heading and value of each result that is known here.
const ALL: &[(&str, &str, Value)] = &[
    ("THROUGHPUT", "Throughput", |options, report| {
        Some(format!("{:.2}", Unit::of(options).convert(report.rate)))
    }),
    ("THROUGHPUT_UNITS", "Throughput Units", |options, _| number(Unit::of(options).interim_name())),
    ("ELAPSED_TIME", "Elapsed Time (sec)", |_, report| {
        Some(format!("{:.2}", report.tally.seconds))
    }),
    ("PROTOCOL", "Protocol", |options, _| number(if options.test.udp { "UDP" } else { "TCP" })),
    ("DIRECTION", "Direction", |options, _| {
        number(match options.test.shape {
            Shape::Stream => "Send",
            Shape::Maerts => "Recv",
            Shape::Connect => "Connection",
            Shape::ConnectRequestResponse => "Connection|Send|Recv",
            Shape::RequestResponse => "Send|Recv",
        })
    }),
    ("SOCKET_TYPE", "Socket Type", |options, _| {
        number(if options.test.udp { "Dgram" } else { "Stream" })
    }),
    ("TEST_LENGTH", "Test Length", |options, _| match options.length {
        Length::Seconds(seconds) => number(seconds),
        Length::Units(units) => Some(format!("-{units}")),
    }),
    ("LSS_SIZE_REQ", "Local Send Socket Size Requested", |options, _| {
        number(options.buffers[0][0].map_or(-1, i64::from))
    }),
    ("LSR_SIZE_REQ", "Local Recv Socket Size Requested", |options, _| {
        number(options.buffers[0][1].map_or(-1, i64::from))
    }),
    ("RSS_SIZE_REQ", "Remote Send Socket Size Requested", |options, _| {
        number(options.buffers[1][0].map_or(-1, i64::from))
    }),
    ("RSR_SIZE_REQ", "Remote Recv Socket Size Requested", |options, _| {
        number(options.buffers[1][1].map_or(-1, i64::from))
    }),
    ("LSS_SIZE", "Local Send Socket Size Initial", |_, report| number(report.tally.buffers[0].0)),
    ("LSR_SIZE", "Local Recv Socket Size Initial", |_, report| number(report.tally.buffers[0].1)),
    ("LSS_SIZE_END", "Local Send Socket Size Final", |_, report| number(report.tally.buffers[1].0)),
    ("LSR_SIZE_END", "Local Recv Socket Size Final", |_, report| number(report.tally.buffers[1].1)),
    ("RSS_SIZE", "Remote Send Socket Size Initial", |_, report| {
        number(report.response.send_buffer)
    }),
    ("RSR_SIZE", "Remote Recv Socket Size Initial", |_, report| {
        number(report.response.receive_buffer)
    }),
    ("RSS_SIZE_END", "Remote Send Socket Size Final", |_, report| {
        number(report.results.send_buffer)
    }),
    ("RSR_SIZE_END", "Remote Recv Socket Size Final", |_, report| {
        number(report.results.receive_buffer)
    }),
    ("LOCAL_SEND_SIZE", "Local Send Size", |_, report| number(report.tally.calls[0])),
    ("LOCAL_RECV_SIZE", "Local Recv Size", |_, report| number(report.tally.calls[1])),
    ("REMOTE_SEND_SIZE", "Remote Send Size", |_, report| {
        number(report.response.send_size.cast_signed())
    }),
    ("REMOTE_RECV_SIZE", "Remote Recv Size", |_, report| {
        number(report.response.receive_size.cast_signed())
    }),
    ("REMOTE_SEND_WIDTH", "Remote Send Width", |_, report| {
        number(report.response.send_width.cast_signed())
    }),
    ("REMOTE_RECV_WIDTH", "Remote Recv Width", |_, report| {
        number(report.response.receive_width.cast_signed())
    }),
    ("DEST_ADDR", "Destination Address", |_, report| number(report.data)),
    ("DEST_PORT", "Destination Port", |_, report| number(report.response.data_port)),
    // AF_INET and AF_INET6, by their numbers in Linux
    ("DEST_FAMILY", "Destination Family", |_, report| {
        number(if report.data.is_ipv4() { 2 } else { 10 })
    }),
    ("REQUEST_SIZE", "Request Size Bytes", |options, report| {
        number(if transacts(options) { i64::from(report.tally.calls[0]) } else { -1 })
    }),
    ("RESPONSE_SIZE", "Response Size Bytes", |options, report| {
        number(if transacts(options) { i64::from(report.tally.calls[1]) } else { -1 })
    }),
    ("LOCAL_SEND_CALLS", "Local Send Calls", |_, report| number(report.tally.send_calls)),
    ("LOCAL_RECV_CALLS", "Local Recv Calls", |_, report| number(report.tally.receive_calls)),
    ("REMOTE_SEND_CALLS", "Remote Send Calls", |_, report| number(report.results.send_calls)),
    ("REMOTE_RECV_CALLS", "Remote Recv Calls", |_, report| number(report.results.receive_calls)),
    ("LOCAL_BYTES_PER_SEND", "Local Bytes Per Send", |_, report| {
        each(report.tally.sent_bytes, report.tally.send_calls)
    }),
    ("LOCAL_BYTES_PER_RECV", "Local Bytes Per Recv", |_, report| {
        each(report.tally.received_bytes, report.tally.receive_calls)
    }),
    ("REMOTE_BYTES_PER_SEND", "Remote Bytes Per Send", |_, report| {
        each(report.results.sent_bytes, report.results.send_calls.into())
    }),
    ("REMOTE_BYTES_PER_RECV", "Remote Bytes Per Recv", |_, report| {
        each(report.results.received_bytes, report.results.receive_calls.into())
    }),
    ("LOCAL_BYTES_SENT", "Local Bytes Sent", |_, report| number(report.tally.sent_bytes)),
    ("LOCAL_BYTES_RECVD", "Local Bytes Received", |_, report| number(report.tally.received_bytes)),
    ("LOCAL_BYTES_XFERD", "Local Bytes Xferred", |_, report| {
        number(report.tally.sent_bytes + report.tally.received_bytes)
    }),
    ("REMOTE_BYTES_SENT", "Remote Bytes Sent", |_, report| number(report.results.sent_bytes)),
    ("REMOTE_BYTES_RECVD", "Remote Bytes Received", |_, report| {
        number(report.results.received_bytes)
    }),
    ("REMOTE_BYTES_XFERD", "Remote Bytes Xferred", |_, report| {
        number(report.results.sent_bytes.saturating_add(report.results.received_bytes))
    }),
    ("LOCAL_SEND_THROUGHPUT", "Local Send Throughput", |options, report| {
        throughput(options, report, report.tally.sent_bytes)
    }),
    ("LOCAL_RECV_THROUGHPUT", "Local Recv Throughput", |options, report| {
        throughput(options, report, report.tally.received_bytes)
    }),
    ("REMOTE_SEND_THROUGHPUT", "Remote Send Throughput", |options, report| {
        throughput(options, report, report.results.sent_bytes)
    }),
    ("REMOTE_RECV_THROUGHPUT", "Remote Recv Throughput", |options, report| {
        throughput(options, report, report.results.received_bytes)
    }),
    ("LOCAL_CPU_UTIL", "Local CPU Util %", |_, report| {
        report.cpu.map(|cpu| format!("{:.2}", cpu.percent_of_host()))
    }),
    ("LOCAL_CPU_METHOD", "Local CPU Util Method", |_, report| report.cpu.map(|_| "S".to_owned())),
    ("LOCAL_CPU_COUNT", "Local CPU Count", |_, report| report.cpu.and_then(|cpu| number(cpu.cpus))),
    ("LOCAL_CPU_PEAK_UTIL", "Local Peak Per CPU Util %", |_, report| {
        Some(format!("{:.2}", report.cpu?.busiest?.1))
    }),
    ("LOCAL_CPU_PEAK_ID", "Local Peak Per CPU ID", |_, report| number(report.cpu?.busiest?.0)),
    ("LOCAL_SD", "Local Service Demand", |options, report| {
        demand_here(options, report).map(|demand| format!("{demand:.3}"))
    }),
    ("REMOTE_CPU_UTIL", "Remote CPU Util %", |options, report| {
        let percent = report.results.cpu_percent.filter(|_| options.cpu[1])?;
        Some(format!("{percent:.2}"))
    }),
    ("REMOTE_CPU_METHOD", "Remote CPU Util Method", |options, report| {
        options.cpu[1].then(|| method(report.results.cpu_method).to_string())
    }),
    ("REMOTE_CPU_COUNT", "Remote CPU Count", |_, report| number(report.results.cpus)),
    ("REMOTE_CPU_PEAK_UTIL", "Remote Peak Per CPU Util %", |options, report| {
        peak_there(options, report).map(|(_, percent)| format!("{percent:.2}"))
    }),
    ("REMOTE_CPU_PEAK_ID", "Remote Peak Per CPU ID", |options, report| {
        peak_there(options, report).and_then(|(cpu, _)| number(cpu))
    }),
    ("REMOTE_CPU_PERCENT_USER", "Remote CPU User %", |options, report| {
        mode_there(options, report, |modes| modes.user)
    }),
    ("REMOTE_CPU_PERCENT_SYSTEM", "Remote CPU System %", |options, report| {
        mode_there(options, report, |modes| modes.system)
    }),
    ("REMOTE_CPU_PERCENT_IOWAIT", "Remote CPU I/O %", |options, report| {
        mode_there(options, report, |modes| modes.iowait)
    }),
    ("REMOTE_CPU_PERCENT_IRQ", "Remote CPU IRQ %", |options, report| {
        mode_there(options, report, |modes| modes.irq)
    }),
    ("REMOTE_CPU_PERCENT_SWINTR", "Remote CPU swintr %", |options, report| {
        mode_there(options, report, |modes| modes.softirq)
    }),
    ("LOCAL_CPU_BIND", "Local CPU Bind", |options, _| options.on_cpu[0].and_then(number)),
    ("REMOTE_CPU_BIND", "Remote CPU Bind", |options, _| options.on_cpu[1].and_then(number)),
    ("REMOTE_SD", "Remote Service Demand", |options, report| {
        demand_there(options, report).map(|demand| format!("{demand:.3}"))
    }),
    ("SD_UNITS", "Service Demand Units", |options, _| {
        number(if Unit::of(options).is_transactions() { "usec/Tran" } else { "usec/KB" })
    }),
    ("TRANSACTION_RATE", "Transaction Rate Tran/s", |options, report| {
        let rate = match Unit::of(options).is_transactions() {
            true => report.rate,
            false => report.tally.transactions as f64 / report.tally.seconds.max(f64::MIN_POSITIVE),
        };
        transacts(options).then(|| format!("{rate:.2}"))
    }),
    ("RT_LATENCY", "Round Trip Latency usec/tran", |options, report| {
        let outstanding = f64::from(options.burst) + 1.0;
        // pauses between intervals are no part of a round trip
        let seconds = report.tally.seconds - report.tally.paused_seconds;
        let transactions = report.tally.transactions;
        (transacts(options) && transactions > 0)
            .then(|| format!("{:.3}", outstanding * 1e6 * seconds / transactions as f64))
    }),
    ("BURST_SIZE", "Initial Burst Requests", |options, _| number(options.burst)),
    ("MIN_LATENCY", "Minimum Latency Microseconds", |_, report| {
        latency(report, |latencies| latencies.min() as f64)
    }),
    ("MAX_LATENCY", "Maximum Latency Microseconds", |_, report| {
        latency(report, |latencies| latencies.max() as f64)
    }),
    ("MEAN_LATENCY", "Mean Latency Microseconds", |_, report| {
        latency(report, hdrhistogram::Histogram::mean)
    }),
    ("STDDEV_LATENCY", "Stddev Latency Microseconds", |_, report| {
        latency(report, hdrhistogram::Histogram::stdev)
    }),
    ("P50_LATENCY", "50th Percentile Latency Microseconds", |_, report| {
        latency(report, |latencies| latencies.value_at_quantile(0.5) as f64)
    }),
    ("P90_LATENCY", "90th Percentile Latency Microseconds", |_, report| {
        latency(report, |latencies| latencies.value_at_quantile(0.9) as f64)
    }),
    ("P99_LATENCY", "99th Percentile Latency Microseconds", |_, report| {
        latency(report, |latencies| latencies.value_at_quantile(0.99) as f64)
    }),
    ("LOCAL_CONG_CONTROL", "Local Congestion Control Algorithm", |_, report| {
        report.tally.congestion.clone()
    }),
    ("REMOTE_CONG_CONTROL", "Remote Congestion Control Algorithm", |_, report| {
        Some(report.results.congestion.clone()).filter(|name| !name.is_empty())
    }),
    ("LOCAL_TRANSPORT_RETRANS", "Local Transport Retransmissions", |_, report| {
        report.tally.info.and_then(|info| number(info.total_retrans))
    }),
    ("REMOTE_TRANSPORT_RETRANS", "Remote Transport Retransmissions", |_, report| {
        report.results.retransmits.and_then(number)
    }),
    ("TRANSPORT_MSS", "Transport MSS bytes", |_, report| {
        report.tally.info.and_then(|info| number(info.snd_mss))
    }),
    ("LOCAL_SOCKET_TOS", "Local Socket TOS", |options, _| {
        Some(format!("{:#04x}", options.tos[0].unwrap_or(0)))
    }),
    ("REMOTE_SOCKET_TOS", "Remote Socket TOS", |_, report| {
        Some(format!("{:#04x}", report.response.tos.unwrap_or(0)))
    }),
    ("LOCAL_NODELAY", "Local NODELAY", |options, _| number(u8::from(options.nodelay))),
    ("REMOTE_NODELAY", "Remote NODELAY", |_, report| number(u8::from(report.response.nodelay))),
    ("CONFIDENCE_LEVEL", "Confidence Level Percent", |options, _| {
        number(options.confidence.map_or(-1.0, |asked| asked.level * 100.0))
    }),
    ("CONFIDENCE_INTERVAL", "Confidence Width Target", |options, _| {
        Some(format!("{:.6}", options.confidence.map_or(-1.0, |asked| asked.width)))
    }),
    ("CONFIDENCE_ITERATION", "Confidence Iterations Run", |_, report| number(report.tests)),
    ("THROUGHPUT_CONFID", "Throughput Confidence Width (%)", |_, report| {
        Some(format!("{:.3}", report.width.map_or(-1.0, |width| width * 100.0)))
    }),
    ("LOCAL_SEND_WIDTH", "Local Send Width", |_, report| number(report.tally.widths[0])),
    ("LOCAL_RECV_WIDTH", "Local Recv Width", |_, report| number(report.tally.widths[1])),
    ("LOCAL_SEND_OFFSET", "Local Send Offset", |options, _| number(options.placement[0][0].offset)),
    ("LOCAL_RECV_OFFSET", "Local Recv Offset", |options, _| number(options.placement[0][1].offset)),
    ("LOCAL_SEND_ALIGN", "Local Send Alignment", |options, _| {
        number(options.placement[0][0].alignment)
    }),
    ("LOCAL_RECV_ALIGN", "Local Recv Alignment", |options, _| {
        number(options.placement[0][1].alignment)
    }),
    ("REMOTE_SEND_OFFSET", "Remote Send Offset", |options, _| {
        number(options.placement[1][0].offset)
    }),
    ("REMOTE_RECV_OFFSET", "Remote Recv Offset", |options, _| {
        number(options.placement[1][1].offset)
    }),
    ("REMOTE_SEND_ALIGN", "Remote Send Alignment", |options, _| {
        number(options.placement[1][0].alignment)
    }),
    ("REMOTE_RECV_ALIGN", "Remote Recv Alignment", |options, _| {
        number(options.placement[1][1].alignment)
    }),
    ("LOCAL_CORK", "Local Cork", |options, _| number(u8::from(options.cork))),
    ("LOCAL_INTERVAL_USECS", "Local Interval Usecs", |options, _| number(intervals(options, 0)[1])),
    ("LOCAL_INTERVAL_BURST", "Local Interval Burst", |options, _| number(intervals(options, 0)[0])),
    ("REMOTE_INTERVAL_USECS", "Remote Interval Usecs", |options, _| {
        number(intervals(options, 1)[1])
    }),
    ("REMOTE_INTERVAL_BURST", "Remote Interval Burst", |options, _| {
        number(intervals(options, 1)[0])
    }),
    ("RESULT_BRAND", "Result Tag", |options, _| options.brand.clone().or(Some(String::new()))),
    ("UUID", "Test UUID", |options, _| uuid(options)),
    ("LOCAL_SOCKET_PRIO", "Local Socket Priority", |options, _| {
        options.priority[0].and_then(number)
    }),
    ("REMOTE_SOCKET_PRIO", "Remote Socket Priority", |options, _| {
        options.priority[1].and_then(number)
    }),
    ("LOCAL_FILL_FILE", "Local Fill File", |options, _| {
        options.fill[0].clone().or(Some(String::new()))
    }),
    ("REMOTE_FILL_FILE", "Remote Fill File", |options, _| {
        options.fill[1].clone().or(Some(String::new()))
    }),
    ("COMMAND_LINE", "Command Line", |options, _| {
        Some(format!("\"netperf {}\"", options.command_line))
    }),
    ("LOCAL_VERSION", "Local Version", |_, _| {
        number(concat!("linkrate ", env!("CARGO_PKG_VERSION")))
    }),
];

/// Name and heading of netperf's other results. They keep their place among the others and have no value.
const WITHOUT_VALUE: &[(&str, &str)] = &[
    ("LOCAL_CPU_PERCENT_USER", "Local CPU User %"),
    ("LOCAL_CPU_PERCENT_SYSTEM", "Local CPU System %"),
    ("LOCAL_CPU_PERCENT_IOWAIT", "Local CPU I/O %"),
    ("LOCAL_CPU_PERCENT_IRQ", "Local CPU IRQ %"),
    ("LOCAL_CPU_PERCENT_SWINTR", "Local CPU swintr %"),
    ("LOCAL_CPU_CONFID", "Local CPU Confidence Width (%)"),
    ("REMOTE_CPU_CONFID", "Remote CPU Confidence Width (%)"),
    ("LOCAL_CPU_MODEL", "Local CPU Model"),
    ("LOCAL_CPU_FREQUENCY", "Local CPU Frequency MHz"),
    ("REMOTE_CPU_MODEL", "Remote CPU Model"),
    ("REMOTE_CPU_FREQUENCY", "Remote CPU Frequency MHz"),
    ("SOURCE_PORT", "Source Port"),
    ("SOURCE_ADDR", "Source Address"),
    ("SOURCE_FAMILY", "Source Family"),
    ("LOCAL_SEND_DIRTY_COUNT", "Local Send Dirty Count"),
    ("LOCAL_RECV_DIRTY_COUNT", "Local Recv Dirty Count"),
    ("LOCAL_RECV_CLEAN_COUNT", "Local Recv Clean Count"),
    ("REMOTE_SEND_DIRTY_COUNT", "Remote Send Dirty Count"),
    ("REMOTE_RECV_DIRTY_COUNT", "Remote Recv Dirty Count"),
    ("REMOTE_RECV_CLEAN_COUNT", "Remote Recv Clean Count"),
    ("REMOTE_CORK", "Remote Cork"),
    ("LOCAL_SYSNAME", "Local Sysname"),
    ("LOCAL_SYSTEM_MODEL", "Local System Model"),
    ("LOCAL_RELEASE", "Local Release"),
    ("LOCAL_MACHINE", "Local Machine"),
    ("REMOTE_SYSNAME", "Remote Sysname"),
    ("REMOTE_SYSTEM_MODEL", "Remote System Model"),
    ("REMOTE_RELEASE", "Remote Release"),
    ("REMOTE_VERSION", "Remote Version"),
    ("REMOTE_MACHINE", "Remote Machine"),
    ("LOCAL_INTERFACE_NAME", "Local Interface Name"),
    ("LOCAL_INTERFACE_VENDOR", "Local Interface Vendor"),
    ("LOCAL_INTERFACE_DEVICE", "Local Interface Device"),
    ("LOCAL_INTERFACE_SUBVENDOR", "Local Interface Subvendor"),
    ("LOCAL_INTERFACE_SUBDEVICE", "Local Interface Subdevice"),
    ("LOCAL_DRIVER_NAME", "Local Driver Name"),
    ("LOCAL_DRIVER_VERSION", "Local Driver Version"),
    ("LOCAL_DRIVER_FIRMWARE", "Local Driver Firmware"),
    ("LOCAL_DRIVER_BUS", "Local Driver Bus"),
    ("LOCAL_INTERFACE_SLOT", "Local Interface Slot"),
    ("REMOTE_INTERFACE_NAME", "Remote Interface Name"),
    ("REMOTE_INTERFACE_VENDOR", "Remote Interface Vendor"),
    ("REMOTE_INTERFACE_DEVICE", "Remote Interface Device"),
    ("REMOTE_INTERFACE_SUBVENDOR", "Remote Interface Subvendor"),
    ("REMOTE_INTERFACE_SUBDEVICE", "Remote Interface Subdevice"),
    ("REMOTE_DRIVER_NAME", "Remote Driver Name"),
    ("REMOTE_DRIVER_VERSION", "Remote Driver Version"),
    ("REMOTE_DRIVER_FIRMWARE", "Remote Driver Firmware"),
    ("REMOTE_DRIVER_BUS", "Remote Driver Bus"),
    ("REMOTE_INTERFACE_SLOT", "Remote Interface Slot"),
    ("LOCAL_SECURITY_TYPE_ID", "Local OS Security Type ID"),
    ("LOCAL_SECURITY_TYPE", "Local OS Security Type"),
    ("LOCAL_SECURITY_ENABLED_NUM", "Local OS Security Enabled Num"),
    ("LOCAL_SECURITY_ENABLED", "Local OS Security Enabled"),
    ("LOCAL_SECURITY_SPECIFIC", "Local OS Security Specific"),
    ("REMOTE_SECURITY_TYPE_ID", "Remote OS Security Type"),
    ("REMOTE_SECURITY_TYPE", "Remote OS Security Type"),
    ("REMOTE_SECURITY_ENABLED_NUM", "Remote OS Security Enabled"),
    ("REMOTE_SECURITY_ENABLED", "Remote OS Security Enabled"),
    ("REMOTE_SECURITY_SPECIFIC", "Remote OS Security Specific"),
];

/// A result: its name, its heading, and its value where it has one.
type Selector = (&'static str, &'static str, Option<Value>);

/// The result of this name; `None` for a name that netperf does not have either.
fn find(name: &str) -> Option<Selector> {
    let with = ALL.iter().find(|(known, ..)| *known == name);
    let with = with.map(|(name, heading, value)| (*name, *heading, Some(*value)));
    let without = || WITHOUT_VALUE.iter().find(|(known, _)| *known == name);
    with.or_else(|| without().map(|(name, heading)| (*name, *heading, None)))
}

/// All results of netperf. Those that are not measured here are empty, and come last.
fn all() -> Vec<&'static str> {
    let with_value = ALL.iter().map(|(name, ..)| *name);
    with_value.chain(WITHOUT_VALUE.iter().map(|(name, _)| *name)).collect()
}

/// Names of results that are asked for, and that netperf does not have.
pub(super) fn unknown(output: &Output) -> Vec<&str> {
    let (Output::Pairs(names) | Output::Commas(names) | Output::Columns(names)) = output else {
        return Vec::new();
    };
    let Names::Named(names) = names else { return Vec::new() };
    names.iter().map(String::as_str).filter(|name| find(name).is_none()).collect()
}

pub(super) fn heading(name: &str) -> &'static str {
    find(name).map_or("", |(_, heading, _)| heading)
}

/// How netperf writes that a test has no such result: −1 in the form of the result, which scripts compare as a text
/// (super-netperf of k8s-netperf does).
fn not_known(name: &str) -> &'static str {
    match name {
        "RT_LATENCY" | "LOCAL_SD" | "REMOTE_SD" => "-1.000",
        name if name.ends_with("_UTIL") => "-1.00",
        _ => "-1",
    }
}

/// Known results with their values, in the order of `names`: −1 where this test has none, as netperf has it, and
/// nothing where linkrate has none.
pub(super) fn of<'a>(
    names: &Names,
    options: &'a Options,
    report: &'a Report,
) -> impl Iterator<Item = (&'static str, String)> + use<'a> {
    let selectors: Vec<Selector> = match names {
        Names::Usual => usual(options).into_iter().filter_map(find).collect(),
        Names::All => all().into_iter().filter_map(find).collect(),
        Names::Named(names) => names.iter().filter_map(|name| find(name)).collect(),
    };
    let value = move |(name, _, value): Selector| {
        let of_test =
            |value: Value| value(options, report).unwrap_or_else(|| not_known(name).to_owned());
        (name, value.map(of_test).unwrap_or_default())
    };
    selectors.into_iter().map(value)
}

/// Those that are printed where none is named.
fn usual(options: &Options) -> Vec<&'static str> {
    let mut names = match transacts(options) {
        true => vec![
            "LSS_SIZE_END",
            "LSR_SIZE_END",
            "RSR_SIZE_END",
            "RSS_SIZE_END",
            "REQUEST_SIZE",
            "RESPONSE_SIZE",
        ],
        false if options.test.shape == Shape::Maerts => {
            vec!["RSS_SIZE_END", "LSR_SIZE_END", "REMOTE_SEND_SIZE"]
        }
        false => vec!["LSS_SIZE_END", "RSR_SIZE_END", "LOCAL_SEND_SIZE"],
    };
    names.extend(["ELAPSED_TIME", "THROUGHPUT", "THROUGHPUT_UNITS"]);
    if options.cpu[0] {
        names.extend(["LOCAL_CPU_UTIL", "LOCAL_CPU_METHOD", "LOCAL_SD"]);
    }
    if options.cpu[1] {
        names.extend(["REMOTE_CPU_UTIL", "REMOTE_CPU_METHOD", "REMOTE_SD"]);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(name: &str) -> String {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../linkrate-interop/tests/recorded");
        std::fs::read_to_string(format!("{directory}/{name}")).unwrap()
    }

    #[test]
    fn names_are_unique_and_in_capitals() {
        let with = ALL.iter().map(|(name, heading, _)| (*name, *heading));
        let all: Vec<_> = with.chain(WITHOUT_VALUE.iter().copied()).collect();
        for (at, (name, heading)) in all.iter().enumerate() {
            assert_eq!(*name, name.to_uppercase());
            assert!(!heading.is_empty());
            assert!(all[..at].iter().all(|(earlier, _)| earlier != name), "{name}");
        }
        for options in [Options::default(), Options { cpu: [true; 2], ..Options::default() }] {
            assert!(usual(&options).iter().all(|name| find(name).is_some()));
        }
    }

    #[test]
    fn what_is_not_known_has_the_form_of_netperf() {
        let mut compared = 0;
        for (name, value) in
            recorded("udp_stream.keyval").lines().filter_map(|line| line.split_once('='))
        {
            // those of confidence have it in their own places
            let is_own = find(name).is_some_and(|(.., value)| value.is_some());
            if is_own
                && value.starts_with("-1")
                && !name.starts_with("CONF")
                && !name.ends_with("CONFID")
            {
                assert_eq!(not_known(name), value, "{name}");
                compared += 1;
            }
        }
        assert!(compared > 10, "{compared}");
    }

    #[test]
    fn all_results_of_netperf_have_their_headings() {
        let pairs = recorded("omni_rr_all.keyval");
        let names =
            pairs.lines().skip(1).filter_map(|line| line.split_once('=')).map(|line| line.0);
        let commas = recorded("omni_all.csv");
        // netperf prints no pair of a tag that nobody has given
        let headings =
            commas.lines().nth(1).unwrap().split(',').filter(|text| *text != "Result Tag");
        let found: Vec<(&str, &str)> = names.clone().map(|name| (name, heading(name))).collect();
        assert_eq!(found, names.zip(headings).collect::<Vec<_>>());
        let mut asked = all();
        asked.sort_unstable();
        asked.dedup();
        assert!(found.iter().all(|(name, _)| asked.contains(name)));
        assert!(found.len() > 170 && find("RESULT_BRAND").is_some() && find("NOSUCH").is_none());
    }
}
