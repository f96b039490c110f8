//! The links of an adapter: rate, duplex and damaged frames on the network, and a PCI Express link
//! slower than the card or than its network links.

use linkrate_model::{BitRate, shell};
use linkrate_wire::limits::PcieLink;

use super::advice::{Advice, Basis, Cost};
use super::facts::{Bus, Host, Interface};

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
            // an adapter that a hypervisor emulates has no link; `unreadable` says so
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

const FROM: &str = "data rate of the bus (linkrate-wire, limits::pcie)";

/// Compares the bus with the card, and with the network links that share it.
pub(super) fn bus(host: &Host, interface: &Interface) -> Option<Advice> {
    let device = interface.device.as_ref()?;
    let address = device.pci_address.as_deref()?;
    let Some(bus) = device.bus else {
        if interface.is_paravirtual() {
            return None;
        }
        let advice = Advice::unseen("pcie", "the card reports no PCI Express link");
        return Some(advice.on(&interface.name));
    };
    let sharing: Vec<&Interface> =
        device.sharing.iter().filter_map(|name| host.interface(name)).filter(|i| i.up).collect();
    let others: f64 = sharing.iter().filter_map(|other| Some(other.rate()?.0)).sum();
    let links = interface.rate().map(|rate| BitRate(rate.0 + others));
    let data = bus.current.data_rate();
    let narrow = bus.current.raw_rate().0 < bus.card.raw_rate().0 * 0.99;
    let detail = bus_detail(&bus, narrow, data, links);
    let advice = match links {
        Some(links) if data < links => {
            let text = format!("the bus carries {data} each way, and its network links {links}");
            Advice::improve(
                "pcie",
                detail,
                Cost::known(Basis::Computed, 1.0 - data.0 / links.0, text, FROM),
            )
        }
        None if narrow => {
            let text = format!(
                "the bus carries {data} each way; the network link reports no rate to compare"
            );
            Advice::consider("pcie", detail, Cost::unknown(text))
        }
        _ => Advice::good("pcie", detail),
    };
    let path =
        |what: &str| format!("/sys/bus/pci/devices/{address}/{what}_link_speed, {what}_link_width");
    let mut advice = advice
        .on(&interface.name)
        .seen(format!("now {}", words(&bus.current)), path("current"))
        .seen(format!("card {}", words(&bus.card)), path("max"));
    if let Some(slot) = bus.slot {
        advice = advice.seen(
            format!("slot {}", words(&slot)),
            "max_link_speed, max_link_width of the port above",
        );
    }
    if advice.cost.is_some() {
        advice = advice.note(remedy(&bus));
    }
    Some(advice)
}

fn bus_detail(bus: &Bus, narrow: bool, data: BitRate, links: Option<BitRate>) -> String {
    let now = words(&bus.current);
    let enough = links.is_some_and(|links| data >= links);
    let card = words(&bus.card);
    match (narrow, enough) {
        (true, true) => format!("{now}; the card supports {card}, but its network links need less"),
        (true, false) => format!("{now}, and the card supports {card}"),
        (false, true) => format!("{now}, the maximum of the card; its network links need less"),
        (false, false) => format!("{now}, the maximum of the card"),
    }
}

fn words(link: &PcieLink) -> String {
    format!("{} GT/s x{}", link.gigatransfers, link.lanes)
}

fn remedy(bus: &Bus) -> &'static str {
    match bus.slot {
        Some(slot) if slot.raw_rate().0 >= bus.card.raw_rate().0 => {
            "the slot is fast enough: reseat the card, and check the firmware setup for a limit or a \
             split (bifurcation) of the slot"
        }
        Some(_) if bus.current.raw_rate().0 < bus.card.raw_rate().0 => {
            "the slot is slower than the card: move the card to a faster or wider slot"
        }
        _ => "no slot makes this card faster: spread the load over several cards",
    }
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
