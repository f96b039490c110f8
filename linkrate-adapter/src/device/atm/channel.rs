//! A connection at an ATM port, and what others may know of it.

use std::sync::Arc;

use linkrate_model::BitRate;
use linkrate_wire::atm::cell::Headers;
use linkrate_wire::atm::{AtmAddress, Connection};
use linkrate_wire::machine::call::Purpose;

use super::Atm;
use super::shaping::Shaping;
use crate::atm::assembly::Assembly;
use crate::atm::shared::ChannelShared;

/// A connection, in the hands of its device.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) headers: Headers,
    pub(super) assembly: Assembly,
    /// Holds its cells to its peak rate; `None` where the line alone does.
    pub(super) shaping: Option<Shaping>,
    pub(super) number: usize,
    pub(super) shared: Arc<ChannelShared>,
}

impl Atm {
    /// A call has a connection.
    pub(super) fn add_channel(
        &mut self,
        connection: Connection,
        purpose: Purpose,
        peer: AtmAddress,
    ) {
        let shared = Arc::new(ChannelShared::of_call(connection, purpose, peer));
        self.shared.channels().push(Arc::clone(&shared));
        let rate = BitRate(f64::from(self.atm_knobs.peak_rate) * 1e3);
        self.channels.push(Channel {
            headers: Headers::of(connection),
            assembly: Assembly::new(self.longest_unit),
            shaping: Shaping::new(rate),
            number: self.channels.len(),
            shared,
        });
    }

    /// A connection is no more.
    pub(super) fn remove_channel(&mut self, connection: Connection) {
        self.channels.retain(|channel| channel.headers.connection() != connection);
        for (number, channel) in self.channels.iter_mut().enumerate() {
            channel.number = number;
        }
        let known = self.channels.iter().map(|channel| Arc::clone(&channel.shared));
        *self.shared.channels() = known.collect();
    }
}
