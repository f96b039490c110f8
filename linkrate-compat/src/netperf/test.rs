//! One test, from its request to its results.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linkrate_interop::client::NetperfTest;
use linkrate_interop::iperf3::Transport;
use linkrate_interop::netperf::{OmniRequest, OmniResponse, Shape};
use linkrate_interop::serve::InterfaceReport;

use super::NetperfError;
use super::ends::Ends;
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

fn request(options: &Options, ends: &Ends) -> OmniRequest {
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
        send_width: options.width[0],
        receive_width: options.width[1],
        send_placement: options.placement[1][0],
        receive_placement: options.placement[1][1],
        request_size,
        response_size,
        intervals: options.intervals_of(1),
        nodelay: options.nodelay,
        measures_cpu: options.cpu[1],
        data_port: options.data_ports[1],
        data_address: ends.is_data_named.then(|| ends.data.ip()),
        client_address: ends.local.map(|local| local.ip()).filter(|local| !local.is_unspecified()),
        priority: options.priority[1],
        tos: options.tos[1],
        congestion: options.congestion[1].clone().unwrap_or_default(),
        fill_file: options.fill[1].clone().unwrap_or_default(),
        may_be_routed: options.may_be_routed(),
        ..OmniRequest::of(options.test.shape, options.test.udp, length)
    }
}

/// What a server does not do of what it was asked, where that changes the figure and it says so.
fn unserved(asked: &OmniRequest, response: &OmniResponse) -> Option<&'static str> {
    let unserved = [
        (
            asked.intervals.is_some() && response.intervals != asked.intervals,
            "the second value of -b and -w",
        ),
        (asked.priority.is_some() && response.priority != asked.priority, "the second value of -y"),
    ];
    unserved.into_iter().find_map(|(is_unserved, option)| is_unserved.then_some(option))
}

pub(super) fn run(
    options: &Options,
    ends: &Ends,
    stop: &Arc<AtomicBool>,
    print: &(impl Fn(&str) + Sync),
) -> Result<Report, NetperfError> {
    let asked = request(options, ends);
    let passphrase = options.passphrase.as_deref();
    let test = NetperfTest::ask_on(ends.server, &asked, options.on_cpu[1], passphrase, stop)?;
    let response = test.response().clone();
    if let Some(option) = unserved(&asked, &response) {
        return Err(NetperfError::Unserved(option));
    }
    test.pause(options.wait)?;
    let meter = options.cpu[0].then(HostCpu::start).transpose()?;
    let progress = Progress::default();
    let over = AtomicBool::new(false);
    let tally = std::thread::scope(|scope| {
        let sampler = options.interim.map(|every| {
            let (progress, over) = (&progress, &over);
            let sample = move || interim::run(options, every, progress, over, print);
            std::thread::Builder::new().name("interim".to_owned()).spawn_scoped(scope, sample)
        });
        let tally = flow::run(options, ends, &response, &progress, stop);
        over.store(true, Ordering::Relaxed);
        if let Some(Ok(sampler)) = sampler {
            sampler.thread().unpark();
        }
        tally
    });
    let mut peer = ends.data;
    peer.set_port(response.data_port);
    let during = || format!("data connection to {peer}");
    let data = peer.ip();
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
    let link = tally.local.and_then(|here| InterfaceReport::of(here.ip(), data, transport));
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
        let missing = if is_stream { "no payload arrived" } else { "no transaction was completed" };
        return Some(missing.to_owned());
    }
    link.filter(|_| is_stream)?.refutes(rate * 8.0)
}

#[cfg(test)]
mod tests {
    use linkrate_interop::netperf::{Intervals, Kind, Message};

    use super::*;

    fn asked(line: &str) -> OmniRequest {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let options = Options::parse(&words).unwrap();
        request(&options, &Ends::of(&options).unwrap())
    }

    #[test]
    fn a_server_is_asked_for_its_half_of_the_options() {
        let asked = asked(
            "-H 192.0.2.1 -b 1,2 -w 5,3 -y 4,5 -W 6,7 -A 64, -O 3 -F here,there -L 127.0.0.2 -- -H fd77::2,6 -L ::1",
        );
        let length = Duration::from_millis(3);
        assert_eq!(asked.intervals, Some(Intervals { calls: 2, length }));
        assert_eq!((asked.priority, asked.fill_file.as_str()), (Some(5), "there"));
        assert_eq!((asked.send_width, asked.receive_width), (Some(6), Some(7)));
        let placements = [asked.send_placement, asked.receive_placement];
        assert_eq!(placements.map(|place| (place.alignment, place.offset)), [(64, 3), (8, 3)]);
        assert_eq!(asked.data_address, "fd77::2".parse().ok());
        assert_eq!(asked.client_address, "::1".parse().ok());
    }

    #[test]
    fn a_server_that_goes_without_a_bound_is_found_out() {
        let asked = asked("-b ,2 -y ,5");
        let response = OmniResponse::parse(&Message::new(Kind::OmniResponse)).unwrap();
        let (intervals, priority) = (asked.intervals, asked.priority);
        let granted = OmniResponse { intervals, priority, ..response };
        assert_eq!(unserved(&asked, &granted), None);
        let unpaced = OmniResponse { intervals: None, ..granted.clone() };
        assert_eq!(unserved(&asked, &unpaced), Some("the second value of -b and -w"));
        let other = OmniResponse { priority: Some(0), ..granted };
        assert_eq!(unserved(&asked, &other), Some("the second value of -y"));
    }

    #[test]
    fn a_rate_of_zero_is_no_result() {
        let of = |line: &str, rate| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            defect(&Options::parse(&words).unwrap(), rate, None)
        };
        assert_eq!(of("-t UDP_STREAM", 0.0).as_deref(), Some("no payload arrived"));
        assert_eq!(of("-t UDP_RR", 0.0).as_deref(), Some("no transaction was completed"));
        assert_eq!((of("-t UDP_STREAM", 1.0), of("-t TCP_CC", 1.0)), (None, None));
    }
}
