//! Which connection leads to an IP address: each end of a permanent connection asks the other one
//! for its address (InATMARP, RFC 2225, 8.2).

use std::net::Ipv4Addr;
use std::time::Duration;

use linkrate_wire::atm::AtmAddress;
use linkrate_wire::control::AtmArp;
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::atmarp::{Circuit, Client, ClientAction, ClientEvent, Route};

/// The client of a port. Circuits are the numbers of channels.
#[derive(Debug)]
pub(super) struct Resolution {
    client: Client,
    /// The channel of the latest packet: the next packets mostly go there too.
    recent: Option<(Ipv4Addr, usize)>,
    actions: Vec<ClientAction>,
}

impl Resolution {
    pub(super) fn new(atm: AtmAddress, ip: Ipv4Addr) -> Self {
        Self { client: Client::new(atm, ip), recent: None, actions: Vec::new() }
    }

    /// A permanent connection is there.
    pub(super) fn opened(&mut self, now: Duration, channel: usize) {
        self.handle(now, ClientEvent::Permanent(circuit(channel)));
    }

    pub(super) fn received(&mut self, now: Duration, channel: usize, message: AtmArp) {
        self.handle(now, ClientEvent::Received { circuit: circuit(channel), message });
    }

    pub(super) fn channel_to(&mut self, now: Duration, ip: Ipv4Addr) -> Option<usize> {
        if let Some((_, channel)) = self.recent.filter(|(recent, _)| *recent == ip) {
            return Some(channel);
        }
        match self.client.route(ip) {
            Some(Route::Circuit(Circuit(channel))) => {
                self.recent = Some((ip, channel as usize));
                Some(channel as usize)
            }
            // a call would lead there
            Some(Route::EndSystem(_)) => None,
            None => {
                self.handle(now, ClientEvent::Wanted(ip));
                None
            }
        }
    }

    pub(super) fn due(&self) -> Option<Duration> {
        if self.actions.is_empty() { self.client.due() } else { Some(Duration::ZERO) }
    }

    /// The messages to be sent by `now`, each with its channel.
    pub(super) fn poll(&mut self, now: Duration) -> Vec<(usize, AtmArp)> {
        if self.client.due().is_some_and(|due| due <= now) {
            self.client.poll(now, &mut self.actions);
            self.recent = None;
        }
        let messages = self.actions.drain(..).filter_map(|action| match action {
            ClientAction::Send { circuit: Circuit(channel), message } => {
                Some((channel as usize, message))
            }
            ClientAction::Route(..) | ClientAction::NoRoute(_) => None,
        });
        messages.collect()
    }

    fn handle(&mut self, now: Duration, event: ClientEvent) {
        self.client.handle(now, event, &mut self.actions);
        self.recent = None;
    }
}

fn circuit(channel: usize) -> Circuit {
    Circuit(channel as u32)
}
