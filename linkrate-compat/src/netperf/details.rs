//! What netperf's `-v 2` adds to classic lines of TCP.

use std::fmt::Write;

use linkrate_interop::netperf::{Placement, Shape};

use super::options::Options;
use super::report::{Report, Unit};

/// The lines behind the results; none of datagrams, and of connections without requests.
pub(super) fn text(options: &Options, report: &Report) -> String {
    match options.test.shape {
        _ if options.test.udp => String::new(),
        Shape::Stream | Shape::Maerts => stream(options, report),
        Shape::RequestResponse => transactions(options, report),
        Shape::ConnectRequestResponse => format!(
            "\nAlignment      Offset\n\
             Local  Remote  Local  Remote\n\
             Send   Recv    Send   Recv\n\
             {}\n",
            places(options.placement[0][0], options.placement[1][1])
        ),
        Shape::Connect => String::new(),
    }
}

fn places(here: Placement, there: Placement) -> String {
    let Placement { alignment, offset } = here;
    format!("{alignment:>5}   {:>5}  {offset:>5}   {:>5}", there.alignment, there.offset)
}

fn stream(options: &Options, report: &Report) -> String {
    let (tally, results) = (&report.tally, &report.results);
    let sends = options.test.shape == Shape::Stream;
    let [local, remote] = options.placement;
    let ((here, there), bytes, calls, remote_calls) = match sends {
        true => (
            ((local[0], "Send"), (remote[1], "Recv")),
            [tally.sent_bytes; 2],
            tally.send_calls,
            results.receive_calls,
        ),
        false => (
            ((local[1], "Recv"), (remote[0], "Send")),
            [tally.received_bytes, results.sent_bytes],
            tally.receive_calls,
            results.send_calls,
        ),
    };
    let each = |bytes: u64, calls: u64| bytes as f64 / calls.max(1) as f64;
    let mut text = format!(
        "\nAlignment      Offset         Bytes    Bytes       {0}s   Bytes    {1}s\n\
         Local  Remote  Local  Remote  Xfered   Per                 Per\n\
         {0}   {1}    {0}   {1}             {0} (avg)          {1} (avg)\n",
        here.1, there.1
    );
    let mss = tally.info.map_or(-1, |info| i64::from(info.snd_mss));
    let _ = write!(
        text,
        "{} {:>6}  {:>6.2}    {calls:>6}   {:>6.2} {remote_calls:>6}\n\n\
         Maximum\nSegment\nSize (bytes)\n{mss:>6}\n",
        places(here.0, there.0),
        bytes[0],
        each(bytes[0], calls),
        each(bytes[1], remote_calls.into())
    );
    text
}

fn transactions(options: &Options, report: &Report) -> String {
    let tally = &report.tally;
    let unit = Unit::of_octets(options);
    let rate = tally.transactions as f64 / tally.seconds.max(f64::MIN_POSITIVE);
    let latency = (f64::from(options.burst) + 1.0) * 1e6 / rate.max(f64::MIN_POSITIVE);
    let [outbound, inbound] = tally.calls.map(|octets| unit.convert(rate * f64::from(octets)));
    format!(
        "Alignment      Offset         RoundTrip  Trans    Throughput\n\
         Local  Remote  Local  Remote  Latency    Rate     {:<8}/s\n\
         Send   Recv    Send   Recv    usec/Tran  per sec  Outbound   Inbound\n\
         {}   {latency:<6.3}   {rate:<6.3} {outbound:<6.3}    {inbound:<6.3}\n",
        unit.name(),
        places(options.placement[0][0], options.placement[1][1])
    )
}
