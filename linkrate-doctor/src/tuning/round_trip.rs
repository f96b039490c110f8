//! The round trip that findings compute with, and its source.

use std::fmt;
use std::time::Duration;

use super::facts::{Host, Interface};

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
