//! `linkrate iperf3`: a drop-in for iperf3.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linkrate_compat::cpu::HostCpu;
use linkrate_compat::iperf3::json::{Document, event, output_key};
use linkrate_compat::iperf3::notes::Notes;
use linkrate_compat::iperf3::served;
use linkrate_compat::iperf3::{self, Event, Options, Problem, Text};
use linkrate_interop::client::ClientError;
use linkrate_interop::iperf3::{Directions, Padding, Transport};
use linkrate_interop::serve::{self, Budget, Limits, Printed, SessionReport};
use linkrate_sys::clock::local_time;
use linkrate_sys::{connect, stderr};
use serde_json::json;

use super::serve::{add, lines, listen, read_users};
use crate::args::iperf3::{Iperf3Args, values};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::print;

mod background;

/// Memory of all tests of a server, bytes: that of `linkrate serve`.
const MEMORY: u64 = 1 << 30;

/// Measures or serves.
pub fn run(arguments: &Iperf3Args) -> Result<Exit, Failure> {
    if arguments.version {
        print(&format!("{}\n", iperf3::version()))?;
        return Ok(Exit::Success);
    }
    if arguments.daemon && !background::is_here() {
        return background::start();
    }
    let _pid_file = arguments.pidfile.as_deref().map(background::PidFile::write).transpose()?;
    let stop = interrupt::on_signal()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    match &arguments.client {
        Some(host) => client(arguments, host, &stop),
        None => server(arguments, &stop),
    }
}

fn options(arguments: &Iperf3Args, host: &str) -> Options {
    let ms = |ms: u32| Duration::from_millis(ms.into());
    let (host, host_device) = values::host(host);
    let bind = arguments.bind.as_ref();
    let device = arguments.bind_dev.as_deref();
    let device = device.or(bind.and_then(|bind| bind.device.as_deref())).or(host_device);
    Options {
        host: host.to_owned(),
        port: arguments.port,
        wants_ipv6: match (arguments.version4, arguments.version6) {
            (true, _) => Some(false),
            (_, true) => Some(true),
            _ => None,
        },
        transport: if arguments.udp { Transport::Udp } else { Transport::Tcp },
        ways: match (arguments.reverse, arguments.bidir) {
            (true, _) => Directions::Reverse,
            (_, true) => Directions::Both,
            _ => Directions::Forward,
        },
        parallel: arguments.parallel,
        seconds: arguments.time.map(|time| time.whole),
        bytes: arguments.bytes.unwrap_or(0),
        blocks: arguments.blockcount.unwrap_or(0),
        omit_seconds: arguments.omit.map_or(0, |omit| omit.whole),
        interval_seconds: arguments.interval,
        block: arguments.length.filter(|octets| *octets > 0),
        rate: arguments.bitrate.map(|rate| (rate.bits_per_second, rate.burst)),
        zero_copy: arguments.zerocopy,
        cpu: arguments.affinity.map(|(own, _)| own),
        server_cpu: arguments.affinity.and_then(|(_, server)| server),
        socket: connect::Options {
            from: bind.map(|bind| bind.address),
            from_port: arguments.cport,
            device: device.map(str::to_owned),
            buffers: arguments.window.filter(|octets| *octets > 0).map(|octets| octets as usize),
            mss: arguments.set_mss.filter(|octets| *octets > 0),
            nodelay: arguments.no_delay,
            congestion: arguments.congestion.clone(),
            tos: arguments.dscp.or(arguments.tos).unwrap_or(0),
            flow_label: arguments.flowlabel,
            pacing_rate: arguments.fq_rate.map(|rate| rate / 8).filter(|rate| *rate > 0),
            dont_fragment: arguments.dont_fragment,
            user_timeout: arguments.snd_timeout.filter(|ms| *ms > 0).map(ms),
            multipath: arguments.mptcp,
            keepalive: None,
        },
        keepalive: arguments.cntl_ka,
        connect_timeout: arguments.connect_timeout.filter(|ms| *ms > 0).map(ms),
        receive_timeout: arguments.rcv_timeout.map(ms),
        repeating: arguments.repeating_payload,
        discards: arguments.skip_rx_copy,
        segments: arguments.gsro,
        wants_server_output: arguments.get_server_output,
        extra_data: arguments.extra_data.clone(),
        wide_counters: arguments.udp_counters_64bit,
        user: arguments.username.clone().zip(arguments.rsa_public_key_path.clone()),
        pkcs1_padding: arguments.use_pkcs1_padding,
        title: arguments.title.clone(),
        format: arguments.format.unwrap_or_default(),
        verbose: arguments.verbose,
    }
}

/// Says how iperf3's reading of an option differs from what its words may mean.
fn explain(arguments: &Iperf3Args) {
    for (option, seconds) in [("--time", arguments.time), ("--omit", arguments.omit)] {
        if let Some(seconds) = seconds.filter(|seconds| seconds.is_cut) {
            let whole = seconds.whole;
            stderr::line(format_args!("note: {option}: {whole} s, whole seconds as for iperf3"));
        }
    }
    if arguments.bitrate.is_some_and(|rate| rate.is_below_zero) {
        stderr::line("note: --bitrate below zero is no bound, as for iperf3");
    }
    for (option, is_there) in [
        ("--zerocopy", arguments.zerocopy),
        ("--congestion", arguments.congestion.is_some()),
        ("--no-delay", arguments.no_delay),
        ("--set-mss", arguments.set_mss.is_some()),
    ] {
        if arguments.udp && is_there {
            stderr::line(format_args!("note: {option} has no effect with --udp"));
        }
    }
    if arguments.mptcp {
        stderr::line(
            "note: --mptcp: a server without MPTCP, as linkrate's is, makes this plain TCP",
        );
    }
    if arguments.gsro && !arguments.udp {
        stderr::line("note: --gsro has no effect without --udp");
    }
}

/// Where output goes: stdout, or a file.
struct Output(Option<PathBuf>);

impl Output {
    fn write(&self, text: &str) {
        self.with(|to| to.write_all(text.as_bytes()));
    }

    /// Lets `write` write.
    fn with(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        let Some(path) = &self.0 else {
            let mut stdout = io::stdout().lock();
            // a reader that has gone away does not end the test
            let _ = write(&mut stdout).and_then(|()| stdout.flush());
            return;
        };
        let file = OpenOptions::new().create(true).append(true).open(path);
        if let Err(error) = file.and_then(|mut file| write(&mut file)) {
            stderr::line(format_args!("warning: {}: {error}", path.display()));
        }
    }
}

fn client(arguments: &Iperf3Args, host: &str, stop: &Arc<AtomicBool>) -> Result<Exit, Failure> {
    explain(arguments);
    let options = options(arguments, host);
    let output = Output(arguments.logfile.clone());
    let is_text = !arguments.json && !arguments.json_stream;
    let text = Text::new(options.format, options.verbose, options.title.clone());
    let mut text = text.with_timestamps(arguments.timestamps.clone());
    let document = Document::new(options.title.clone());
    let is_whole = arguments.json || arguments.json_stream_full_output;
    let mut document = if is_whole { document } else { document.in_parts() };
    let (mut notes, mut is_own) = (Notes::default(), false);
    let (mut meter, mut used) = (None::<HostCpu>, None);
    let mut hear = |moment: Event<'_>| {
        if is_text {
            output.write(&text.lines(&moment));
        } else {
            if let Event::End(end) = &moment
                && let Some(found) = end.server_output.as_ref().filter(|_| arguments.json_stream)
            {
                output.write(&event(output_key(found), found));
            }
            document.take(&moment);
            let part = arguments.json_stream.then(|| document.part(&moment)).flatten();
            if let Some((name, data)) = part {
                output.write(&event(name, &data));
            }
        }
        match moment {
            Event::Start(start) => {
                let server = start.streams.first().map(|stream| stream.remote.ip());
                is_own = server.is_some_and(connect::is_of_this_host);
            }
            // a host that does not report has no note
            Event::Started => meter = HostCpu::start().ok(),
            Event::Over => used = meter.as_ref().and_then(|meter| meter.used().ok()),
            Event::Interval(interval) => notes.take(interval),
            Event::End(end) => {
                for line in notes.lines(end, used.as_ref(), is_own) {
                    stderr::line(line);
                }
            }
        }
    };
    let ended = iperf3::run(&options, stop, &mut hear);
    let is_interrupted = match &ended {
        Ok(end) => end.is_interrupted,
        Err(problem) => matches!(problem, Problem::Client(ClientError::Interrupted)),
    };
    let error = match &ended {
        _ if is_interrupted => Some(terminated()),
        Ok(_) => None,
        Err(problem) => Some(problem.to_string()),
    };
    let whole = |to: &mut dyn Write| document.write(to, error.as_deref());
    if arguments.json_stream {
        if let Some(error) = &error {
            output.write(&event("error", &json!(error)));
        }
        if arguments.json_stream_full_output {
            output.with(whole);
        }
    } else if arguments.json {
        output.with(whole);
    } else if let Some(error) = &error {
        let kind = if is_interrupted { "" } else { "error - " };
        stderr::line(format_args!("iperf3: {kind}{error}"));
    }
    // since 3.19
    Ok(if error.is_none() || is_interrupted { Exit::Success } else { Exit::Failure })
}

/// What iperf3 says of a signal that ends it.
fn terminated() -> String {
    let signal = i32::from(interrupt::exit_code()) - 128;
    let name = match signal {
        1 => "Hangup",
        15 => "Terminated",
        _ => "Interrupt",
    };
    format!("interrupt - the client has terminated by signal {name}({signal})")
}

/// Listens on all addresses, as iperf3 does: those of IPv6 with those of IPv4, or of IPv4 alone.
fn everywhere(arguments: &Iperf3Args) -> Result<TcpListener, Failure> {
    if arguments.authorized_users_path.is_none() {
        stderr::line(
            "note: every client on the network is served, without any authentication; --bind 127.0.0.1 \
             serves this host only",
        );
    }
    let on = |address: IpAddr| listen(address, arguments.port, "iperf3", "-p PORT");
    let (ipv4, ipv6) = (Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into());
    match (arguments.version4, arguments.version6) {
        (true, _) => on(ipv4),
        (_, true) => on(ipv6),
        // a host may have no IPv6
        _ => on(ipv6).or_else(|_| on(ipv4)),
    }
}

fn server(arguments: &Iperf3Args, stop: &Arc<AtomicBool>) -> Result<Exit, Failure> {
    iperf3::check_interval(arguments.interval)
        .map_err(|wrong| Failure::new(Exit::Failure, format!("parameter error: {wrong}")))?;
    let users =
        arguments.authorized_users_path.as_ref().zip(arguments.rsa_private_key_path.as_ref());
    let padding = if arguments.use_pkcs1_padding { Padding::Pkcs1 } else { Padding::Oaep };
    let skew = arguments.time_skew_threshold.unwrap_or(10);
    let users = users.map(|(users, key)| read_users(users, key, padding, skew)).transpose()?;
    let listener = match &arguments.bind {
        Some(bind) if bind.device.is_some() => {
            let message = "a server listens on an address; it cannot listen on an interface \
                           without one";
            return Err(Failure::new(Exit::Failure, format!("--bind: {message}")));
        }
        Some(bind) => listen(bind.address, arguments.port, "iperf3", "-p PORT"),
        None => everywhere(arguments),
    }?;
    let longest = arguments.server_max_duration.filter(|seconds| *seconds > 0);
    let idle = arguments.idle_timeout.filter(|_| arguments.one_off);
    let limits = Limits {
        seconds: longest.unwrap_or(u32::MAX),
        refuses_endless: longest.is_some(),
        rate: arguments.server_bitrate_limit.filter(|(most, _)| *most > 0),
        idle: idle.map(|seconds| Duration::from_secs(seconds.into())),
        ..Limits::default()
    };
    let output = Output(arguments.logfile.clone());
    // a document has no time before its lines, as iperf3's
    let format = arguments.timestamps.clone().filter(|_| !arguments.json);
    let lines = lines(move |line| {
        let time = format.as_deref().and_then(local_time).unwrap_or_default();
        output.write(&(time + line));
    })?;
    let printed = Printed {
        interval_seconds: arguments.interval,
        always: arguments.json,
        document: &served::output,
    };
    let ended = |session: &SessionReport| {
        match arguments.json {
            true => lines.add(served::document(session)),
            false => add(&lines, session),
        }
        // neither strangers nor wrong passwords are a test
        let is_test = session.direction.is_some() && (users.is_none() || session.user.is_some());
        if arguments.one_off && is_test {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let budget = Budget::new(MEMORY);
    let served = serve::iperf3(&listener, &limits, &budget, users.as_ref(), printed, stop, &ended);
    lines.end();
    served.map_err(|error| Failure::new(Exit::Failure, format!("listen: {error}")))?;
    Ok(Exit::Success)
}
