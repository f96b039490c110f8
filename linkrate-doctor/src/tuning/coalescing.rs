//! Interrupt coalescing: one interrupt for each packet, or interrupts so late that answers wait.

use linkrate_model::shell;

use super::advice::{Advice, Basis, Cost};
use super::facts::Interface;
use super::round_trip::RoundTrip;

/// A longer wait is noticeable in a round trip, µs.
const LONG_US: u32 = 100;

/// A usual wait for throughput, µs.
const USUAL_US: u32 = 20;

/// More interrupts per packet mean that they are not coalesced.
const UNCOALESCED: f64 = 0.5;

/// Advice on the wait of the receive interrupt.
pub(super) fn advice(interface: &Interface, round_trip: &RoundTrip) -> Option<Advice> {
    let device = interface.device.as_ref()?;
    let coalescing = interface.coalescing?;
    let micros = coalescing.rx_usecs?;
    let word = shell::word(&interface.name);
    let adaptive = coalescing.adaptive_rx;
    let total: u64 = device.interrupts.iter().map(super::facts::Interrupt::total).sum();
    let packets = interface.count("rx_packets") as f64 + interface.count("tx_packets") as f64;
    let each = total as f64 / packets.max(1.0);
    let seen = format!(
        "rx-usecs {micros}, rx-frames {}, adaptive-rx {}",
        coalescing.rx_frames.map_or_else(|| "n/a".to_owned(), |frames| frames.to_string()),
        match adaptive {
            Some(true) => "on",
            Some(false) => "off",
            None => "n/a",
        }
    );
    let evidence = |advice: Advice| {
        advice
            .on(&interface.name)
            .seen(seen.clone(), format!("ethtool -c {word}"))
            .seen(format!("{each:.2} interrupts per packet"), "/proc/interrupts, statistics")
    };
    if adaptive == Some(true) {
        return Some(evidence(Advice::good(
            "coalescing",
            "the driver adapts the wait to the load",
        )));
    }
    if micros > LONG_US {
        let trip = round_trip.time.as_secs_f64() * 1e6;
        let share = f64::from(micros) / (trip + f64::from(micros));
        let text = format!(
            "a single packet waits up to {micros} µs: requests over {round_trip} lose up to {:.0} %; \
             streams lose nothing",
            share * 100.0
        );
        let cost = Cost::known(Basis::Computed, share, text, "wait / (round trip + wait)");
        let detail = format!("receive interrupts wait up to {micros} µs");
        let advice = evidence(Advice::consider("coalescing", detail, cost));
        return Some(advice.run(change(&word, adaptive)));
    }
    let every = micros == 0 && coalescing.rx_frames.is_none_or(|frames| frames <= 1);
    // a hypervisor coalesces interrupts itself, and its counts are not those of hardware
    if every && each > UNCOALESCED && packets > 10_000.0 && !interface.is_paravirtual() {
        let cost =
            Cost::unknown("about one interrupt for each packet; a wait would save most of them");
        let detail = format!("{each:.2} interrupts per packet: interrupts are not coalesced");
        let advice = evidence(Advice::consider("coalescing", detail, cost));
        return Some(advice.run(change(&word, adaptive)));
    }
    let detail = format!("receive interrupts wait {micros} µs; {each:.2} interrupts per packet");
    Some(evidence(Advice::good("coalescing", detail)))
}

fn change(word: &str, adaptive: Option<bool>) -> String {
    match adaptive {
        Some(_) => format!("ethtool -C {word} adaptive-rx on"),
        None => format!("ethtool -C {word} rx-usecs {USUAL_US}"),
    }
}
