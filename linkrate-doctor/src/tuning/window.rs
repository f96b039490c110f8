//! Socket buffers compared with the bandwidth-delay product: one connection sends at most one
//! window each round trip.

use std::fmt;
use std::time::Duration;

use linkrate_model::units::format_duration;
use linkrate_model::{BitRate, ByteSize};
use linkrate_wire::limits::path::{bandwidth_delay, window_rate};

use super::advice::{Advice, Basis, Cost};
use super::facts::{Host, Interface};

/// About half of a buffer becomes window: the kernel also charges its own overhead
/// (TCP_DEFAULT_SCALING_RATIO, include/net/tcp.h).
const WINDOW_SHARE: u64 = 2;

/// Round trips to print if no link reports its rate.
const TABLE: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(10), Duration::from_millis(100)];

const FROM: &str = "window / round trip (linkrate-wire, limits::path)";

/// Advice on autotuned buffers, and on the maximum that programs may set.
pub(super) fn advice(host: &Host, paths: &[(&Interface, RoundTrip)]) -> Vec<Advice> {
    let mut all = protocol(host);
    // the path with the largest product
    let widest = paths
        .iter()
        .filter_map(|(interface, trip)| Some(Path { interface, trip, rate: interface.rate()? }))
        .max_by_key(Path::product);
    all.extend(autotuned(host, widest.as_ref()));
    all.extend(widest.as_ref().and_then(|path| asked_for(host, path)));
    all
}

struct Path<'a> {
    interface: &'a Interface,
    trip: &'a RoundTrip,
    rate: BitRate,
}

impl Path<'_> {
    /// Bandwidth-delay product, bytes.
    fn product(&self) -> u64 {
        bandwidth_delay(self.rate, self.trip.time)
    }

    /// The cost of a window smaller than the product.
    fn cost(&self, window: u64) -> Cost {
        let Some(rate) = window_rate(window, self.trip.time) else {
            return Cost::unknown("a round trip of zero sets no limit");
        };
        let lost = 1.0 - rate.0 / self.rate.0;
        let text = format!(
            "one connection reaches at most {rate} of {}: one window of {} each round trip of {}",
            self.rate,
            size(window),
            self.trip
        );
        Cost::known(Basis::Computed, lost, text, FROM)
    }
}

/// `bytes` rounded up to KiB or MiB.
fn size(bytes: u64) -> String {
    match bytes {
        small if small < 4 << 20 => ByteSize(small.div_ceil(1 << 10) << 10).to_string(),
        large => ByteSize(large.div_ceil(1 << 20).min(1 << 43) << 20).to_string(),
    }
}

/// The next power of two that fits the settings, which are signed 32-bit numbers.
fn power_of_two(bytes: u64) -> u64 {
    const MAX_BYTES: u64 = i32::MAX as u64;
    bytes.min(MAX_BYTES).next_power_of_two().min(MAX_BYTES)
}

fn autotuned(host: &Host, widest: Option<&Path<'_>>) -> Option<Advice> {
    let name = "socket-buffers";
    let (rmem, wmem) = (host.settings.tcp_rmem?, host.settings.tcp_wmem?);
    let largest = rmem[2].min(wmem[2]);
    let window = largest / WINDOW_SHARE;
    let evidence = |advice: Advice| {
        let values = |three: [u64; 3]| three.map(|value| value.to_string()).join(" ");
        advice
            .seen(format!("tcp_rmem {}", values(rmem)), "/proc/sys/net/ipv4/tcp_rmem")
            .seen(format!("tcp_wmem {}", values(wmem)), "/proc/sys/net/ipv4/tcp_wmem")
    };
    let Some(path) = widest else {
        let limits: Vec<String> = TABLE
            .iter()
            .filter_map(|time| {
                Some(format!("{} over {}", window_rate(window, *time)?, format_duration(*time)))
            })
            .collect();
        let detail = format!(
            "no link reports its rate; one connection reaches at most {}",
            limits.join(", ")
        );
        return Some(evidence(Advice::good(name, detail)));
    };
    let product = path.product();
    let trip = path.trip;
    let needed = power_of_two(product.saturating_mul(WINDOW_SHARE));
    let about = |advice: Advice| {
        evidence(advice)
            .seen(format!("{} at {}", path.interface.name, path.rate), "link rate (ethtool)")
            .seen(format!("round trip {trip}"), trip.place())
    };
    if window >= product {
        let detail = format!(
            "autotuning allows a window of {}; {} over {trip} needs {}",
            size(window),
            path.rate,
            size(product)
        );
        return Some(about(Advice::good(name, detail)));
    }
    let detail = format!(
        "autotuning allows a window of at most {}; {} over {trip} needs {}",
        size(window),
        path.rate,
        size(product)
    );
    let make = if trip.is_known() { Advice::improve } else { Advice::consider };
    let mut advice = about(make(name, detail, path.cost(window)));
    for (key, three) in [("tcp_rmem", rmem), ("tcp_wmem", wmem)] {
        if three[2] / WINDOW_SHARE < product {
            advice = advice
                .run(format!("sysctl -w net.ipv4.{key}='{} {} {needed}'", three[0], three[1]));
        }
    }
    Some(advice.note("several connections share the link, so each needs only its part"))
}

/// The maximum for programs that set their buffers themselves, which turns autotuning off.
fn asked_for(host: &Host, path: &Path<'_>) -> Option<Advice> {
    let name = "buffer-limits";
    let (receive, send) = (host.settings.rmem_max?, host.settings.wmem_max?);
    let product = path.product();
    // setsockopt doubles the requested size, so that about all of the request becomes window
    let window = receive.min(send);
    let evidence = |advice: Advice| {
        advice
            .seen(format!("rmem_max {receive}"), "/proc/sys/net/core/rmem_max")
            .seen(format!("wmem_max {send}"), "/proc/sys/net/core/wmem_max")
    };
    if window >= product {
        let detail = format!("programs that set their socket buffers get up to {}", size(window));
        return Some(evidence(Advice::good(name, detail)));
    }
    let detail = format!(
        "programs that set their socket buffers get at most {}; {} over {} needs {}",
        size(window),
        path.rate,
        path.trip,
        size(product)
    );
    let mut advice = evidence(Advice::consider(name, detail, path.cost(window)));
    let needed = power_of_two(product);
    for (key, value) in [("rmem_max", receive), ("wmem_max", send)] {
        if value < product {
            advice = advice.run(format!("sysctl -w net.core.{key}={needed}"));
        }
    }
    Some(advice.note("only for programs that set SO_RCVBUF or SO_SNDBUF; the kernel tunes the buffers of all others"))
}

/// Advice on TCP options that enlarge windows or repair losses.
fn protocol(host: &Host) -> Vec<Advice> {
    let mut all = Vec::new();
    if host.settings.window_scaling == Some(0) {
        let rate = window_rate(65_535, Duration::from_millis(1)).map(|rate| rate.to_string());
        let text = format!(
            "one connection reaches at most {} over 1 ms and a tenth of it over 10 ms",
            rate.unwrap_or_default()
        );
        let cost = Cost::known(Basis::Computed, 0.95, text, FROM);
        let detail = "window scaling (RFC 7323) is off, so TCP windows are at most 64 KiB";
        all.push(
            Advice::improve("window-scaling", detail, cost)
                .seen("0", "/proc/sys/net/ipv4/tcp_window_scaling")
                .run("sysctl -w net.ipv4.tcp_window_scaling=1"),
        );
    }
    if host.settings.selective_acknowledgements == Some(0) {
        let cost = Cost::unknown(
            "after several losses in one window, TCP retransmits packets that had arrived",
        );
        let detail = "selective acknowledgements (RFC 2018) are off";
        all.push(
            Advice::improve("selective-acknowledgements", detail, cost)
                .seen("0", "/proc/sys/net/ipv4/tcp_sack")
                .run("sysctl -w net.ipv4.tcp_sack=1"),
        );
    }
    all
}

/// The default: a local network with some queueing.
const ASSUMED: Duration = Duration::from_millis(1);

/// Connections that moved fewer bytes say nothing about bulk traffic.
const MIN_BYTES: u64 = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RoundTrip {
    pub(super) time: Duration,
    pub(super) from: Source,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// `--round-trip`.
    Given,
    /// The minimum of the connection that moved the most bytes over the interface, to this address.
    Connection(String),
    /// The metric of this route.
    Route(String),
    Assumed,
}

impl RoundTrip {
    pub(super) fn of(host: &Host, interface: &Interface, given: Option<Duration>) -> Self {
        if let Some(time) = given {
            return Self { time, from: Source::Given };
        }
        let over = host.connections.iter().filter(|connection| {
            let moved = connection.path.bytes_acked + connection.path.bytes_received;
            moved >= MIN_BYTES && interface.addresses.contains(&connection.local.ip())
        });
        let busiest = over
            .filter_map(|connection| Some((connection, connection.path.round_trip_us()?)))
            .max_by_key(|(connection, _)| {
                connection.path.bytes_acked + connection.path.bytes_received
            });
        if let Some((connection, micros)) = busiest {
            let from = Source::Connection(connection.remote.ip().to_string());
            return Self { time: Duration::from_micros(micros.into()), from };
        }
        let routes = host.routes.iter().filter(|route| route.interface == Some(interface.index));
        let known = routes.filter_map(|r| Some((r, r.round_trip_us.filter(|micros| *micros > 0)?)));
        match known.max_by_key(|(_, micros)| *micros) {
            Some((route, micros)) => Self {
                time: Duration::from_micros(micros.into()),
                from: Source::Route(route.destination.clone()),
            },
            None => Self { time: ASSUMED, from: Source::Assumed },
        }
    }

    /// Whether it is given or observed, and not the default.
    pub(super) fn is_known(&self) -> bool {
        self.from != Source::Assumed
    }

    pub(super) fn place(&self) -> &'static str {
        match self.from {
            Source::Given => "--round-trip",
            Source::Connection(_) => "TCP_INFO of the busiest connection (ss -ti)",
            Source::Route(_) => "route metric (ip route)",
            Source::Assumed => "default; set another with --round-trip TIME",
        }
    }
}

impl fmt::Display for RoundTrip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.time.as_secs_f64() * 1e6;
        let time = match micros {
            short if short < 999.5 => format!("{short:.0} µs"),
            medium if medium < 99_950.0 => format!("{} ms", (medium / 100.0).round() / 10.0),
            long => format!("{:.0} ms", long / 1e3),
        };
        match &self.from {
            Source::Given => write!(f, "{time}"),
            Source::Connection(remote) => write!(f, "{time} to {remote}"),
            Source::Route(destination) => write!(f, "{time} to {destination}"),
            Source::Assumed => write!(f, "{time}, assumed"),
        }
    }
}
