//! What documents have of verdicts.

use schemars::JsonSchema;
use serde::Serialize;

use super::{FlowDirection, Judged, Shortfall, Verdict};

#[derive(Serialize, JsonSchema)]
pub struct OfCell {
    /// The verdict: the resource that limited the cell, as a sentence.
    verdict: String,
    /// What limited each loaded direction; empty if no run succeeded.
    bottlenecks: Vec<Judged>,
}

impl From<Verdict> for OfCell {
    fn from(of: Verdict) -> Self {
        Self { verdict: of.sentence(), bottlenecks: of.directions }
    }
}

/// What limited one direction of a cell.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Bottleneck")]
pub struct OfDirection {
    /// The direction, seen from the SUT; null for transactions, which load both in turn.
    direction: Option<FlowDirection>,
    /// The resource that is used up.
    #[schemars(extend("enum" = [
        "link", "one_port", "superframe_store", "bus", "sut_cpu", "client_cpu", "both_cpus", "shared_cpu",
        "device_cpu", "receiver_window", "send_buffer", "congestion_window", "drives", "queue_discipline",
        "acknowledgement", "request_rate", "round_trip", "no_single_resource",
    ]))]
    resource: &'static str,
    /// Its share: of time occupied, of one CPU busy, of sending time, of the rate of a queue discipline; of both ends'
    /// CPUs the SUT's. Null if no resource is used up, and for a queue discipline whose rate is not known.
    percent: Option<f64>,
    /// Share of time in which the links were occupied in this direction, mean over the ports; null where the adapter has
    /// no rate.
    link_percent: Option<f64>,
    /// What took the rest where the links are the bottleneck and less than 99.5 % occupied; empty otherwise.
    shortfall: Vec<Shortfall>,
    /// Runs that by themselves have the same bottleneck.
    runs_agreeing: u32,
    /// Runs with figures.
    runs: u32,
}

impl From<Judged> for OfDirection {
    fn from(of: Judged) -> Self {
        Self {
            direction: of.direction,
            resource: of.bottleneck.word(),
            percent: of.bottleneck.percent(),
            link_percent: of.link_percent,
            shortfall: of.shortfall,
            runs_agreeing: of.agreeing.0,
            runs: of.agreeing.1,
        }
    }
}

/// What was full beside a link, or kept senders from it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Shortfall")]
pub struct OfShortfall {
    /// What was full too, or kept senders from the link.
    #[schemars(extend("enum" = [
        "sut_cpu", "client_cpu", "device_cpu", "resent", "nothing_to_send", "receiver_window", "send_buffer",
        "superframe_store", "acknowledgement", "queue_discipline", "unknown",
    ]))]
    cause: &'static str,
    /// Of a CPU busy, of the payload sent again, of the time, of sending time, of the rate of a discipline; null for
    /// unknown.
    percent: Option<f64>,
}

impl From<Shortfall> for OfShortfall {
    fn from(of: Shortfall) -> Self {
        let (cause, percent) = of.word();
        Self { cause, percent }
    }
}
