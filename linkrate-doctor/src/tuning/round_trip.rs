//! The round trip that a finding reckons with, and how it is known.

use std::fmt;
use std::time::Duration;

use super::facts::{Host, Interface};

/// What is taken where nothing was seen: a local network with some queues.
const ASSUMED: Duration = Duration::from_millis(1);

/// Less than this was moved by connections that say nothing about bulk traffic.
const LEAST_BYTES: u64 = 64 * 1024;

/// A round trip and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RoundTrip {
    pub(super) time: Duration,
    pub(super) from: Source,
}

/// How a round trip is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// The person said so.
    Given,
    /// The least of the connection that moved most bytes over the interface; to this address.
    Connection(String),
    /// The metric of this route.
    Route(String),
    /// Nothing was seen.
    Assumed,
}

impl RoundTrip {
    /// The one to reckon with for `interface`.
    pub(super) fn of(host: &Host, interface: &Interface, given: Option<Duration>) -> Self {
        if let Some(time) = given {
            return Self { time, from: Source::Given };
        }
        let over = host.connections.iter().filter(|connection| {
            let moved = connection.path.bytes_acked + connection.path.bytes_received;
            moved >= LEAST_BYTES && interface.addresses.contains(&connection.local.ip())
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

    /// Whether somebody or something said so.
    pub(super) fn is_known(&self) -> bool {
        self.from != Source::Assumed
    }

    /// Where it can be looked up.
    pub(super) fn place(&self) -> &'static str {
        match self.from {
            Source::Given => "--round-trip",
            Source::Connection(_) => "TCP_INFO of the busiest connection (ss -ti)",
            Source::Route(_) => "route metric (ip route)",
            Source::Assumed => "assumed; --round-trip TIME names another",
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
