//! One test, from its request to its results.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linkrate_interop::client::NetperfTest;
use linkrate_interop::iperf3::Transport;
use linkrate_interop::netperf::{OmniRequest, Shape};
use linkrate_interop::serve::InterfaceReport;

use super::NetperfError;
use super::flow;
use super::interim;
use super::options::{Length, Options};
use super::report::{Progress, Report};
use crate::cpu::HostCpu;

/// How much longer than a test a server may take for its results: netserver waits some seconds for a client that
/// began later.
const RESULTS: Duration = Duration::from_secs(20);
/// How long a test of a number of octets or transactions may take there.
const MAX_TEST_TIME: Duration = Duration::from_secs(86_400);

pub(super) fn server(options: &Options) -> Result<SocketAddrV4, NetperfError> {
    address(&options.host, options.port)
}

fn address(host: &str, port: u16) -> Result<SocketAddrV4, NetperfError> {
    let found = (host, port).to_socket_addrs();
    let found = found.ok().and_then(|mut all| {
        all.find_map(|address| match address {
            SocketAddr::V4(address) => Some(address),
            SocketAddr::V6(_) => None,
        })
    });
    found.ok_or_else(|| NetperfError::Host(host.to_owned()))
}

/// The address that the data connection goes to, where it is not that of the control connection.
fn data_address(options: &Options) -> Result<Option<Ipv4Addr>, NetperfError> {
    let named = options.data_host.as_ref();
    named.map(|host| address(host, 0).map(|address| *address.ip())).transpose()
}

fn request(options: &Options, data: Option<Ipv4Addr>) -> OmniRequest {
    let [[_, _], [send_buffer, receive_buffer]] = options.buffers;
    let [request_size, response_size] = options.sizes();
    let of_stream = |shape, size: Option<u32>| size.filter(|_| options.test.shape == shape);
    let length = match options.length {
        Length::Seconds(seconds) => seconds.cast_signed(),
        Length::Units(units) => i32::try_from(units).map_or(i32::MIN, |units| -units),
    };
    OmniRequest {
        send_buffer,
        receive_buffer,
        send_size: of_stream(Shape::Maerts, options.message[1][0]),
        receive_size: of_stream(Shape::Stream, options.message[1][1]),
        request_size,
        response_size,
        nodelay: options.nodelay,
        measures_cpu: options.cpu[1],
        data_port: options.data_ports[1],
        data_address: data.map(IpAddr::from),
        client_address: options.local.map(IpAddr::from),
        tos: options.tos[1],
        congestion: options.congestion[1].clone().unwrap_or_default(),
        may_be_routed: options.may_be_routed(),
        ..OmniRequest::of(options.test.shape, options.test.udp, length)
    }
}

pub(super) fn run(
    options: &Options,
    server: SocketAddrV4,
    stop: &Arc<AtomicBool>,
    print: &(impl Fn(&str) + Sync),
) -> Result<Report, NetperfError> {
    let named = data_address(options)?;
    let data = named.unwrap_or(*server.ip());
    let asked = request(options, named);
    let passphrase = options.passphrase.as_deref();
    let test = NetperfTest::ask_on(server, &asked, options.on_cpu[1], passphrase, stop)?;
    let response = test.response().clone();
    let meter = options.cpu[0].then(HostCpu::start).transpose()?;
    let progress = Progress::default();
    let over = AtomicBool::new(false);
    let tally = std::thread::scope(|scope| {
        let sampler = options.interim.map(|every| {
            let (progress, over) = (&progress, &over);
            let sample = move || interim::run(options, every, progress, over, print);
            std::thread::Builder::new().name("interim".to_owned()).spawn_scoped(scope, sample)
        });
        let tally = flow::run(options, data, &response, &progress, stop);
        over.store(true, Ordering::Relaxed);
        if let Some(Ok(sampler)) = sampler {
            sampler.thread().unpark();
        }
        tally
    });
    let during = || format!("data connection to {data}:{}", response.data_port);
    let tally = tally.map_err(|reason| {
        let off_the_link = reason.kind() == io::ErrorKind::NetworkUnreachable;
        match off_the_link && !options.may_be_routed() {
            true => NetperfError::Router { during: during(), reason },
            false => NetperfError::Payload { during: during(), reason },
        }
    })?;
    let cpu = meter.map(|meter| meter.used()).transpose()?;
    if stop.load(Ordering::Relaxed) {
        return Err(NetperfError::Interrupted);
    }
    let timeout = match options.length {
        Length::Seconds(seconds) => Duration::from_secs(seconds.into()) + RESULTS,
        Length::Units(_) => MAX_TEST_TIME,
    };
    let results = test.end(timeout)?;
    let rate = Report::rate_of(options, &tally, &results);
    let transport = if options.test.udp { Transport::Udp } else { Transport::Tcp };
    let link = tally.local.and_then(|here| InterfaceReport::of(here.ip(), data.into(), transport));
    if let Some(reason) = defect(options, rate, link.as_ref()) {
        return Err(NetperfError::NoResult(reason));
    }
    Ok(Report { data, tally, response, results, cpu, tests: 1, width: None, rate })
}

/// Why a rate cannot be right, octets of a stream or transactions a second; `None` where it can. `link` is the interface
/// of the data connection.
fn defect(options: &Options, rate: f64, link: Option<&InterfaceReport>) -> Option<String> {
    let is_stream = matches!(options.test.shape, Shape::Stream | Shape::Maerts);
    if rate <= 0.0 {
        let missing = if is_stream { "no payload arrived" } else { "no transaction was made" };
        return Some(missing.to_owned());
    }
    link.filter(|_| is_stream)?.refutes(rate * 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_zero_is_no_result() {
        let of = |line: &str, rate| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            defect(&Options::parse(&words).unwrap(), rate, None)
        };
        assert_eq!(of("-t UDP_STREAM", 0.0).as_deref(), Some("no payload arrived"));
        assert_eq!(of("-t UDP_RR", 0.0).as_deref(), Some("no transaction was made"));
        assert_eq!((of("-t UDP_STREAM", 1.0), of("-t TCP_CC", 1.0)), (None, None));
    }
}
