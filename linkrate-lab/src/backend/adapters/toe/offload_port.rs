//! Where the frames of a connection pass: at one port, or at any port of an aggregate.
//!
//! The switch chooses the port of an aggregate by which a frame of the peer comes. So each of its devices has
//! the connection in its table. What the adapter's TCP sends leaves by the port that the peer's last frame came
//! by, which is where the kernel's queues of one TAP follow each other (`tun_flow_update`, drivers/net/tun.c).

use std::ops::Range;

use linkrate_adapter::interface::tx_revoke::last_piece;
use linkrate_adapter::{AdapterError, Aggregate, Asks, ConnectionEnds, Notify, Port};
use linkrate_model::PortKnobs;
use linkrate_toe::moving::{Move, Side, Step};

use super::stay::Stay;
use super::{State, rules};
use crate::backend::adapters::{Segment, SutPort};

/// A port with an engine, or the ports of an aggregate, which have one table.
#[derive(Debug)]
pub(in crate::backend::adapters) struct OffloadPort<'a> {
    /// The number of the port; for an aggregate, that of the first port that it was made with.
    pub(super) number: u32,
    /// The name of its interface.
    pub(super) name: &'a str,
    /// The first of the ports, which is asked for settings.
    first: &'a SutPort,
    /// All of them.
    ports: &'a [SutPort],
    aggregate: Option<&'a Aggregate>,
}

impl OffloadPort<'_> {
    /// The number of the port that counts for it.
    pub(super) fn counted_at(&self) -> u32 {
        self.first.number
    }

    fn first(&self) -> &Port {
        &self.first.port
    }

    fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().map(|end| &end.port)
    }

    /// The settings that were requested last.
    pub(super) fn knobs(&self) -> PortKnobs {
        self.first().requested_knobs()
    }

    /// The settings that its devices work with.
    pub(super) fn applied_knobs(&self) -> Result<PortKnobs, AdapterError> {
        self.first().applied_knobs()
    }

    /// The ports that carry what the host sends, a bit each by their places.
    pub(super) fn in_use(&self) -> u64 {
        match self.aggregate {
            Some(aggregate) => aggregate.distributing(),
            None => u64::from(self.first().has_carrier()),
        }
    }

    /// Whether all of its links are up.
    pub(super) fn has_all_carriers(&self) -> bool {
        self.ports().all(|port| port.has_carrier())
    }

    /// How many connections may be in its table.
    pub(super) fn most(&self) -> usize {
        rules::most(&self.knobs(), self.first().connections_offloaded().1)
    }

    /// Whether no further connection may come to its engine.
    pub(super) fn is_full(&self) -> bool {
        self.first().connections_offloaded().0 >= self.most()
    }

    /// Moves a connection with these ends. `take_out` takes it out of its TCP, or leaves it there, and returns what
    /// there is of it, and SND.NXT if that was the host's TCP. `put_in` puts it into a TCP; its last bytes with these
    /// sequence numbers have not left, although they were sent. After an error the connection is where it was, unless
    /// the host's TCP does not take it.
    pub(super) fn carry_out<T>(
        &self,
        ends: ConnectionEnds,
        to: Side,
        state: &mut State,
        take_out: impl Fn(&mut State) -> Result<(T, u32), Stay>,
        put_in: impl Fn(&mut State, &mut T, Side, Option<Range<u32>>) -> Result<(), Stay>,
    ) -> Result<(T, u32), Stay> {
        let each = |order: &dyn Fn(&Port) -> Result<(), AdapterError>| {
            self.ports().try_for_each(order).map_err(Stay::from)
        };
        let (mut out, mut unsent, mut failed) = (None, None, None);
        let mut next = Some(Move::new(to));
        while let Some(now) = next {
            let taken = match now.step {
                Step::Hold(Side::Adapter) => each(&|port| port.hold(ends)),
                Step::Hold(Side::Host) => each(&|port| port.hold_to_return(ends)),
                Step::TakeOut => take_out(state).map(|taken| out = Some(taken)),
                Step::TakeBack => {
                    self.take_back(ends).map(|last| unsent = last).map_err(Stay::from)
                }
                Step::PutIn(side) => match &mut out {
                    Some((connection, _)) => put_in(state, connection, side, unsent.clone()),
                    None => Ok(()),
                },
                Step::Deliver(Side::Adapter) => {
                    let send_next = out.as_ref().map_or(0, |(_, send_next)| *send_next);
                    each(&|port| port.to_adapter(ends, send_next))
                }
                Step::Stay if to == Side::Host => each(&|port| port.release(ends)),
                Step::Deliver(Side::Host) | Step::Stay => each(&|port| port.to_host(ends)),
            };
            next = now.after(taken.is_ok());
            failed = taken.err().or(failed);
        }
        let missing = || Stay::from(std::io::Error::other("a move without a connection"));
        failed.map_or_else(|| out.ok_or_else(missing), Err)
    }

    /// Takes back the packets of a connection that have not left, once the TCP that sent them has it no more.
    /// Returns the sequence numbers of the last piece of their payload.
    fn take_back(&self, ends: ConnectionEnds) -> Result<Option<Range<u32>>, AdapterError> {
        let mut payload = Vec::new();
        for port in self.ports() {
            payload.extend(port.take_back(ends)?);
        }
        Ok(last_piece(payload))
    }

    /// Hands the frames of a connection to the host.
    pub(super) fn to_host(&self, ends: ConnectionEnds) -> Result<(), AdapterError> {
        self.ports().try_for_each(|port| port.to_host(ends))
    }

    /// Lets the frames of a connection that was held continue where it is.
    pub(super) fn release(&self, ends: ConnectionEnds) -> Result<(), AdapterError> {
        self.ports().try_for_each(|port| port.release(ends))
    }

    /// The connections that are to return, as the devices have asked since the last call.
    pub(super) fn asked(&self) -> Vec<(ConnectionEnds, Asks)> {
        self.ports().flat_map(|port| port.connections_to_return()).collect()
    }

    /// Lets `notify` know when a device asks that connections return.
    pub(super) fn notify_of_returns(&self, notify: &Notify) {
        self.ports().for_each(|port| port.notify_of_returns(notify));
    }

    /// Hands all frames to the host from now on.
    pub(super) fn forget(&self) -> Result<(), AdapterError> {
        let mut have = self.ports().filter(|port| port.connections_offloaded().1 > 0);
        have.try_for_each(Port::forget_connections)
    }
}

impl Segment {
    /// Where connections of its ports pass.
    pub(in crate::backend::adapters) fn offload_ports(
        &self,
    ) -> impl Iterator<Item = OffloadPort<'_>> {
        let aggregate = self.aggregate.as_deref();
        let together = aggregate.map_or(1, |_| self.ports.len().max(1));
        self.ports.chunks(together).filter_map(move |ports| {
            let first = ports.first()?;
            let number = aggregate.map_or(first.number, |_| self.topology.home);
            let name = self.interface_of(first);
            Some(OffloadPort { number, name, first, ports, aggregate })
        })
    }
}
