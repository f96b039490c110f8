//! The PCI Express link of an adapter: slower than the card, or than its network links.

use linkrate_model::BitRate;
use linkrate_wire::limits::PcieLink;

use super::advice::{Advice, Basis, Cost};
use super::facts::{Bus, Host, Interface};

const FROM: &str = "data rate of the bus (linkrate-wire, limits::pcie)";

/// Compares the bus with the card, and with the network links that share it.
pub(super) fn advice(host: &Host, interface: &Interface) -> Option<Advice> {
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
    let detail = detail(&bus, narrow, data, links);
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

fn detail(bus: &Bus, narrow: bool, data: BitRate, links: Option<BitRate>) -> String {
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
