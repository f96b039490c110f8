//! Interrupts that come for every packet, or so late that answers wait.

use linkrate_sys::shell;

use super::advice::{Advice, Basis, Cost};
use super::facts::Interface;
use super::round_trip::RoundTrip;

/// More waiting than this is felt in a round trip, µs.
const LONG_US: u32 = 100;

/// A usual wait for throughput, µs.
const USUAL_US: u32 = 20;

/// More interrupts for a packet than this: they are not moderated.
const FOR_EACH: f64 = 0.5;

/// The wait of the receive interrupt against what it costs either way.
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
            .seen(format!("{each:.2} interrupts for a packet"), "/proc/interrupts, statistics")
    };
    if adaptive == Some(true) {
        return Some(evidence(Advice::good("coalescing", "the wait follows the load")));
    }
    if micros > LONG_US {
        let trip = round_trip.time.as_secs_f64() * 1e6;
        let share = f64::from(micros) / (trip + f64::from(micros));
        let text = format!(
            "up to {micros} µs for a packet that comes alone: requests over {round_trip} lose up to \
             {:.0} %; streams lose nothing",
            share * 100.0
        );
        let cost = Cost::known(Basis::Computed, share, text, "wait / (round trip + wait)");
        let detail = format!("receive interrupts wait up to {micros} µs");
        let advice = evidence(Advice::consider("coalescing", detail, cost));
        return Some(advice.run(change(&word, adaptive)));
    }
    let every = micros == 0 && coalescing.rx_frames.is_none_or(|frames| frames <= 1);
    // a hypervisor moderates by itself, and what it takes for an interrupt is no hardware's
    if every && each > FOR_EACH && packets > 10_000.0 && !interface.is_paravirtual() {
        let cost = Cost::unknown("an interrupt for about each packet, which a wait would spare");
        let detail = format!("{each:.2} interrupts for each packet: none waits for more to come");
        let advice = evidence(Advice::consider("coalescing", detail, cost));
        return Some(advice.run(change(&word, adaptive)));
    }
    let detail = format!("receive interrupts wait {micros} µs; {each:.2} for each packet");
    Some(evidence(Advice::good("coalescing", detail)))
}

fn change(word: &str, adaptive: Option<bool>) -> String {
    match adaptive {
        Some(_) => format!("ethtool -C {word} adaptive-rx on"),
        None => format!("ethtool -C {word} rx-usecs {USUAL_US}"),
    }
}
