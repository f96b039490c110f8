//! The prices of the calls by which drivers read and write TAPs, as facts of a testbed.

use std::net::Ipv4Addr;

use linkrate_adapter::interface::tap_price;
use linkrate_agent::protocol::{Carries, Request};
use linkrate_terms::tap::{CallPrice, Price, SIZES, TapPrices};

use super::{Adapters, taken};
use crate::error::LabError;
use crate::host::Host;

/// The interface that prices are measured with; it exists no longer than that.
const INTERFACE: &str = "price";

impl Adapters {
    /// Measures what calls to a TAP cost on the CPUs of the system under test. To be called while nothing
    /// flows.
    ///
    /// # Errors
    /// The interface cannot be made, or the host does not answer.
    pub(crate) fn tap_prices(&self, sut: &mut Host) -> Result<TapPrices, LabError> {
        let Some((_, drivers)) = &self.threads else {
            return Err(LabError::Io(std::io::Error::other("no threads for adapters")));
        };
        let create = Request::CreateTap {
            name: INTERFACE.to_owned(),
            carries: Carries::Packets,
            queues: 1,
            address: None,
            mtu: Some(tap_price::MTU),
            tx_queue_length: tap_price::QUEUE,
        };
        let tun = taken(sut, INTERFACE, create)?.into_iter().next();
        let Some(tun) = tun else {
            return Err(LabError::Io(std::io::Error::other("a TUN without a queue")));
        };
        let address = Ipv4Addr::from(tap_price::HOST);
        sut.configure(INTERFACE, address, None, None)?;
        sut.await_link(INTERFACE)?;
        Ok(drivers.tap_prices(tun)?)
    }
}

/// The prices as a fact: `read 0.41 µs, of 1500 B +0.04 µs, ...; write ...`.
pub(crate) fn fact(prices: &TapPrices) -> String {
    let us = |ns: f64| format!("{:.2}", ns / 1000.0);
    let of = |name: &str, price: &CallPrice| {
        let call = &price.call;
        let copies = SIZES.iter().zip(&price.copies).skip(1).map(|(bytes, copy)| {
            format!("+{} for {bytes} B ({} to {})", us(copy.ns), us(copy.low_ns), us(copy.high_ns))
        });
        let copies: Vec<String> = copies.collect();
        let (median, low, high) = (us(call.ns), us(call.low_ns), us(call.high_ns));
        format!("{name} {median} µs a call ({low} to {high}), copy {}", copies.join(", "))
    };
    let (read, write) = (of("read", &prices.read), of("write", &prices.write));
    let Price { ns, low_ns, high_ns } = prices.sleep;
    let sleep = format!("sleep {} µs ({} to {})", us(ns), us(low_ns), us(high_ns));
    format!("{read}; {write}; {sleep}; quartiles in brackets")
}
