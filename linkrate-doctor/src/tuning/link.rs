//! The link: negotiated rate and duplex compared with the modes of both ends, and damaged frames.

use linkrate_model::shell;

use super::advice::{Advice, Basis, Cost};
use super::facts::Interface;

/// A larger share of damaged frames is a fault of the link.
const DAMAGED: f64 = 1e-6;

pub(super) fn advice(interface: &Interface) -> Vec<Advice> {
    if interface.device.is_none() {
        return Vec::new();
    }
    let mut all = Vec::new();
    all.extend(duplex(interface));
    all.extend(rate(interface));
    all.extend(damaged(interface));
    if all.is_empty() {
        let advice = match interface.rate() {
            Some(rate) => Advice::good("link", format!("{rate}, the fastest mode of the adapter")),
            // an adapter that a hypervisor emulates has no link; `unreadable_facts` says so
            None if interface.is_paravirtual() => return all,
            None => Advice::unseen("link", "the driver does not report a link rate"),
        };
        let from = format!("ethtool {}", shell::word(&interface.name));
        all.push(advice.on(&interface.name).seen("speed, duplex, link modes", from));
    }
    all
}

fn duplex(interface: &Interface) -> Option<Advice> {
    if interface.full_duplex != Some(false) {
        return None;
    }
    let word = shell::word(&interface.name);
    let text = "both directions share the rate; if the peer is full duplex, frames are also \
                lost to collisions";
    let cost = Cost::known(Basis::Computed, 0.5, text, "one of two directions");
    let advice = Advice::improve("duplex", "the link is half duplex", cost)
        .on(&interface.name)
        .seen("half", format!("/sys/class/net/{}/duplex", interface.name))
        .seen(
            format!("collisions {}", interface.count("collisions")),
            interface.counter_path("collisions"),
        )
        .run(format!("ethtool -s {word} autoneg on"));
    Some(
        advice.note(
            "the peer must negotiate too: if its mode is fixed, this end assumes half duplex",
        ),
    )
}

fn rate(interface: &Interface) -> Option<Advice> {
    let modes = interface.modes.as_ref()?;
    let now = interface.speed_mbps?;
    let fastest = |names: &[String]| names.iter().filter_map(|name| mbps(name)).max();
    let own = fastest(&modes.supported).filter(|most| *most > now)?;
    let peer = fastest(&modes.peer);
    let word = shell::word(&interface.name);
    let lost = 1.0 - f64::from(now) / f64::from(own);
    let text = format!("the link carries {now} of {own} Mb/s");
    let cost = Cost::known(Basis::Computed, lost, text, format!("ethtool {word}"));
    let offered = fastest(&modes.advertised).is_some_and(|most| most >= own);
    let detail = format!("the link runs at {now} Mb/s, and the adapter has {own} Mb/s");
    let make = match (offered, peer) {
        // the peer limits the rate
        (true, Some(peer)) if peer <= now => Advice::consider,
        _ => Advice::improve,
    };
    let mut advice = make("link-speed", detail, cost)
        .on(&interface.name)
        .seen(format!("speed {now}"), format!("/sys/class/net/{}/speed", interface.name))
        .seen(
            format!(
                "fastest mode: supported {own}, advertised {}, peer {} Mb/s",
                reported(fastest(&modes.advertised)),
                reported(peer)
            ),
            format!("ethtool {word}"),
        );
    if !offered {
        return Some(advice.run(format!("ethtool -s {word} speed {own} duplex full autoneg on")));
    }
    advice = match peer {
        Some(peer) if peer <= now => {
            advice.note("the peer offers no faster mode: use another port or switch")
        }
        _ => advice.note("check the cable and the transceivers, then negotiate again"),
    };
    Some(advice.run(format!("ethtool -r {word}")))
}

fn reported(mbps: Option<u32>) -> String {
    mbps.map_or_else(|| "unknown".to_owned(), |mbps| mbps.to_string())
}

/// The rate of a link mode by its name: `10000baseT/Full`, `2500baseX/Full`.
fn mbps(mode: &str) -> Option<u32> {
    let (digits, rest) = mode.split_at(mode.find(|c: char| !c.is_ascii_digit())?);
    rest.starts_with("base").then(|| digits.parse().ok()).flatten()
}

fn damaged(interface: &Interface) -> Option<Advice> {
    let names = ["rx_crc_errors", "rx_frame_errors", "tx_carrier_errors"];
    let counts: Vec<(&str, u64)> =
        names.iter().map(|name| (*name, interface.count(name))).filter(|(_, n)| *n > 0).collect();
    let bad: u64 = counts.iter().map(|(_, count)| count).sum();
    let share = interface.share_lost(bad);
    if share <= DAMAGED {
        return None;
    }
    let text =
        format!("{:.4} % of the frames are lost, and TCP must send each again", share * 100.0);
    let cost = Cost::known(Basis::Computed, share, text, "damaged / received frames");
    let detail = format!("{bad} frames were damaged on the link");
    let mut advice = Advice::improve("damaged-frames", detail, cost).on(&interface.name);
    for (name, count) in counts {
        advice = advice.seen(format!("{name} {count}"), interface.counter_path(name));
    }
    Some(advice.note("replace the cable, the transceiver or the port; no setting corrects it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_known_by_their_rate() {
        for (mode, rate) in [
            ("10000baseT/Full", Some(10_000)),
            ("100000baseKR4/Full", Some(100_000)),
            ("10baseT/Half", Some(10)),
            ("Autoneg", None),
            ("25000", None),
            ("", None),
        ] {
            assert_eq!(mbps(mode), rate, "{mode}");
        }
    }
}
