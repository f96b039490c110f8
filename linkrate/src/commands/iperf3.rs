//! `linkrate iperf3`: a drop-in for iperf3.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linkrate_compat::cpu::HostCpu;
use linkrate_compat::iperf3::json::{Document, event};
use linkrate_compat::iperf3::notes::Notes;
use linkrate_compat::iperf3::served;
use linkrate_compat::iperf3::{self, Event, Options, Text};
use linkrate_interop::iperf3::{Directions, Transport};
use linkrate_interop::serve::{self, Budget, Limits, SessionReport};
use linkrate_sys::{connect, stderr};
use serde_json::json;

use super::serve::{add, lines, listen};
use crate::args::iperf3::Iperf3Args;
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::print;

/// Memory of all tests of a server, bytes: that of `linkrate serve`.
const MEMORY: u64 = 1 << 30;

/// Measures or serves.
pub fn run(arguments: &Iperf3Args) -> Result<Exit, Failure> {
    if arguments.version {
        print(&format!("{}\n", iperf3::version()))?;
        return Ok(Exit::Success);
    }
    let stop = interrupt::on_signal()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    match &arguments.client {
        Some(host) => client(arguments, host, &stop),
        None => server(arguments, &stop),
    }
}

fn options(arguments: &Iperf3Args, host: &str) -> Options {
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
        seconds: arguments.time,
        bytes: arguments.bytes.unwrap_or(0),
        blocks: arguments.blockcount.unwrap_or(0),
        omit_seconds: arguments.omit,
        interval_seconds: arguments.interval,
        block: arguments.length,
        rate: arguments.bitrate,
        zero_copy: arguments.zerocopy,
        cpu: arguments.affinity.map(|(own, _)| own),
        server_cpu: arguments.affinity.and_then(|(_, server)| server),
        socket: connect::Options {
            from: arguments.bind,
            from_port: arguments.cport,
            buffers: arguments.window.map(|octets| octets as usize),
            mss: arguments.set_mss,
            nodelay: arguments.no_delay,
            congestion: arguments.congestion.clone(),
            tos: arguments.tos.unwrap_or(0),
        },
        connect_timeout: arguments.connect_timeout.map(|ms| Duration::from_millis(ms.into())),
        wide_counters: arguments.udp_counters_64bit,
        user: arguments.username.clone().zip(arguments.rsa_public_key_path.clone()),
        pkcs1_padding: arguments.use_pkcs1_padding,
        title: arguments.title.clone(),
        format: arguments.format.unwrap_or_default(),
        verbose: arguments.verbose,
    }
}

/// Where output goes: stdout, or a file.
struct Output(Option<PathBuf>);

impl Output {
    fn write(&self, text: &str) {
        let Some(path) = &self.0 else {
            // a reader that has gone away does not end the test
            let _ = print(text);
            return;
        };
        let file = OpenOptions::new().create(true).append(true).open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
            stderr::line(format_args!("warning: {}: {error}", path.display()));
        }
    }
}

fn client(arguments: &Iperf3Args, host: &str, stop: &Arc<AtomicBool>) -> Result<Exit, Failure> {
    let options = options(arguments, host);
    let output = Output(arguments.logfile.clone());
    let is_text = !arguments.json && !arguments.json_stream;
    let mut text = Text::new(options.format, options.verbose, options.title.clone());
    let mut document = Document::new(options.title.clone());
    let (mut notes, mut is_own) = (Notes::default(), false);
    let (mut meter, mut used) = (None::<HostCpu>, None);
    let mut hear = |moment: Event<'_>| {
        if is_text {
            output.write(&text.lines(&moment));
        } else {
            let part = document.take(&moment);
            if let Some((name, data)) = part.filter(|_| arguments.json_stream) {
                output.write(&event(name, data));
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
    let error = match &ended {
        Ok(end) if end.is_interrupted => Some("interrupt - the client has terminated".to_owned()),
        Ok(_) => None,
        Err(problem) => Some(problem.to_string()),
    };
    if arguments.json_stream {
        if let Some(error) = &error {
            output.write(&event("error", &json!(error)));
        }
    } else if arguments.json {
        output.write(&document.text(error.as_deref()));
    } else if let Some(error) = &error {
        stderr::line(format_args!("iperf3: error - {error}"));
    }
    Ok(if error.is_none() { Exit::Success } else { Exit::Failure })
}

/// Listens on all addresses, as iperf3 does: those of IPv6 with those of IPv4, or of IPv4 alone.
fn everywhere(arguments: &Iperf3Args) -> Result<TcpListener, Failure> {
    stderr::line(
        "note: clients of the network are served, without any authentication; --bind 127.0.0.1 serves those of \
         this host alone",
    );
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
    let listener = match arguments.bind {
        Some(address) => listen(address, arguments.port, "iperf3", "-p PORT"),
        None => everywhere(arguments),
    }?;
    let output = Output(arguments.logfile.clone());
    let lines = lines(move |line| output.write(line))?;
    let ended = |session: &SessionReport| {
        match arguments.json {
            true => lines.add(served::document(session)),
            false => add(&lines, session),
        }
        if arguments.one_off {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let served =
        serve::iperf3(&listener, &Limits::default(), &Budget::new(MEMORY), None, stop, &ended);
    lines.end();
    served.map_err(|error| Failure::new(Exit::Failure, format!("listen: {error}")))?;
    Ok(Exit::Success)
}
