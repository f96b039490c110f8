//! One test, from its request to its results.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linkrate_interop::client::NetperfTest;
use linkrate_interop::netperf::{OmniRequest, OmniResponse, OmniResults, Shape};

use super::NetperfError;
use super::flow::{self, Progress, Tally};
use super::interim;
use super::options::{Length, Options};
use crate::cpu::{HostCpu, HostCpuUse};

/// How much longer than a test a server may take for its results: netserver waits some seconds for a client that
/// began later.
const RESULTS: Duration = Duration::from_secs(20);
/// How long a test of a number of octets or transactions may take there.
const LONGEST: Duration = Duration::from_secs(86_400);

/// What a test has shown.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) server: SocketAddrV4,
    pub(super) tally: Tally,
    pub(super) response: OmniResponse,
    pub(super) results: OmniResults,
    pub(super) cpu: Option<HostCpuUse>,
    /// Tests, and the full width of the interval of their throughput as a part of its mean.
    pub(super) tests: u32,
    pub(super) width: Option<f64>,
    /// The mean of all tests; units/s.
    pub(super) rate: f64,
}

impl Report {
    /// Octets of a stream, or transactions, in a second.
    pub(super) fn rate_of(options: &Options, tally: &Tally) -> f64 {
        let units = match options.test.shape {
            Shape::Stream => tally.sent_bytes,
            Shape::Maerts => tally.received_bytes,
            _ => tally.transactions,
        };
        if tally.seconds > 0.0 { units as f64 / tally.seconds } else { 0.0 }
    }
}

/// The address of the server.
pub(super) fn server(options: &Options) -> Result<SocketAddrV4, NetperfError> {
    let found = (options.host.as_str(), options.port).to_socket_addrs();
    let found = found.ok().and_then(|mut all| {
        all.find_map(|address| match address {
            SocketAddr::V4(address) => Some(address),
            SocketAddr::V6(_) => None,
        })
    });
    found.ok_or_else(|| NetperfError::Host(options.host.clone()))
}

fn request(options: &Options) -> OmniRequest {
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
        send_size: of_stream(Shape::Maerts, options.message[0]),
        receive_size: of_stream(Shape::Stream, options.message[1]),
        request_size,
        response_size,
        nodelay: options.nodelay,
        measures_cpu: options.cpu[1],
        data_port: options.data_ports[1],
        client_address: options.local,
        tos: options.tos[1],
        congestion: options.congestion[1].clone().unwrap_or_default(),
        may_be_routed: options.may_be_routed(),
        ..OmniRequest::of(options.test.shape, options.test.udp, length)
    }
}

/// Runs a test.
pub(super) fn run(
    options: &Options,
    server: SocketAddrV4,
    stop: &Arc<AtomicBool>,
    print: &(impl Fn(&str) + Sync),
) -> Result<Report, NetperfError> {
    let asked = request(options);
    let test = NetperfTest::ask_on(server, &asked, options.on_cpu[1], stop)?;
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
        let tally = flow::run(options, *server.ip(), &response, &progress, stop);
        over.store(true, Ordering::Relaxed);
        if let Some(Ok(sampler)) = sampler {
            sampler.thread().unpark();
        }
        tally
    });
    let during = || format!("data connection to {}:{}", server.ip(), response.data_port);
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
    let patience = match options.length {
        Length::Seconds(seconds) => Duration::from_secs(seconds.into()) + RESULTS,
        Length::Units(_) => LONGEST,
    };
    let results = test.end(patience)?;
    let rate = Report::rate_of(options, &tally);
    Ok(Report { server, tally, response, results, cpu, tests: 1, width: None, rate })
}
