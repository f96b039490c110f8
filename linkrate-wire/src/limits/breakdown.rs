//! The account of a link: every byte of a unit of traffic.

use linkrate_model::BitRate;

/// Bytes that one layer adds to a unit of traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The name for people: `TCP header`, `inter-frame gap`.
    pub name: &'static str,
    /// Their number for one unit. Whole, except where a layer is spread over packets (SONET).
    pub bytes: f64,
}

/// The limit of a link for one kind of traffic, with the account of all bytes.
///
/// The account is for one *unit*: one full packet of a stream, or one message with all the
/// packets it was cut into.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The rate at which the link moves all its bytes.
    pub line_rate: BitRate,
    /// Payload bytes of one unit.
    pub payload: u64,
    /// IP packets of one unit.
    pub packets: u64,
    /// ATM cells of one unit; `None` on Ethernet, where each packet is one frame.
    pub cells: Option<u64>,
    /// All layers except the payload, from the top of the stack down. Layers without bytes are left
    /// out.
    pub layers: Vec<Layer>,
}

impl Limit {
    /// Bytes on the line for one unit, including the payload.
    pub fn line_bytes(&self) -> f64 {
        self.payload as f64 + self.layers.iter().map(|layer| layer.bytes).sum::<f64>()
    }

    /// The payload's share of the line rate, in (0, 1).
    pub fn efficiency(&self) -> f64 {
        self.payload as f64 / self.line_bytes()
    }

    /// The highest payload rate: the limit itself.
    pub fn payload_rate(&self) -> BitRate {
        BitRate(self.line_rate.0 * self.efficiency())
    }

    /// Units (messages, or packets of a stream) per second at the limit.
    pub fn units_per_second(&self) -> f64 {
        self.line_rate.0 / 8.0 / self.line_bytes()
    }

    /// IP packets per second at the limit.
    pub fn packets_per_second(&self) -> f64 {
        self.units_per_second() * self.packets as f64
    }

    /// ATM cells per second at the limit; `None` on Ethernet.
    pub fn cells_per_second(&self) -> Option<f64> {
        self.cells.map(|cells| self.units_per_second() * cells as f64)
    }

    /// The share of the line rate that `layer` takes, in (0, 1).
    pub fn share(&self, layer: &Layer) -> f64 {
        layer.bytes / self.line_bytes()
    }
}

/// Collects layers in the order in which they are first named.
#[derive(Debug, Default)]
pub(super) struct Layers(Vec<Layer>);

impl Layers {
    /// Adds whole bytes, to those that the layer has already.
    pub(super) fn add(&mut self, name: &'static str, bytes: u64) {
        self.add_spread(name, bytes as f64);
    }

    /// Adds bytes that need not be whole for one unit.
    pub(super) fn add_spread(&mut self, name: &'static str, bytes: f64) {
        match self.0.iter_mut().find(|layer| layer.name == name) {
            Some(layer) => layer.bytes += bytes,
            None => self.0.push(Layer { name, bytes }),
        }
    }

    /// The layers that add something.
    pub(super) fn into_vec(self) -> Vec<Layer> {
        self.0.into_iter().filter(|layer| layer.bytes > 0.0).collect()
    }
}
