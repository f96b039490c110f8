//! MTUs: those that differ between interfaces that pass packets to one another, paths that carry
//! less than their link, and links that could carry more.

use linkrate_sys::shell;
use linkrate_terms::BitRate;
use linkrate_wire::limits::Traffic;
use linkrate_wire::link::Link;

use super::advice::{Advice, Basis, Cost};
use super::facts::{Host, Interface};
use super::measured;

/// The MTU of Ethernet without jumbo frames.
const USUAL: u32 = 1500;

/// The usual MTU with them.
const JUMBO: u32 = 9000;

/// Routes that are named; the others are counted.
const SHOWN: usize = 4;

/// Below this rate the CPU is not what bounds a link.
const FAST: BitRate = BitRate(1e9);

/// Bridges and bonds whose members differ.
pub(super) fn of_controllers(host: &Host, subjects: &[&Interface]) -> Vec<Advice> {
    let mut all = Vec::new();
    for controller in &host.interfaces {
        let members: Vec<&Interface> = host
            .interfaces
            .iter()
            .filter(|member| member.controller.as_deref() == Some(controller.name.as_str()))
            .collect();
        let asked = |one: &&Interface| subjects.iter().any(|subject| subject.index == one.index);
        if asked(&controller) || members.iter().any(asked) {
            all.extend(differing(controller, &members));
        }
    }
    all
}

fn differing(controller: &Interface, members: &[&Interface]) -> Option<Advice> {
    let most = members.iter().map(|member| member.mtu).max()?;
    let least = members.iter().map(|member| member.mtu).min()?;
    if most == least {
        return None;
    }
    let kind = controller.kind.as_deref().unwrap_or("controller");
    let detail = format!("members of this {kind} have MTUs from {least} to {most}");
    let mut advice = Advice::improve("mtu", detail, dropped(least)).on(&controller.name);
    for member in members {
        let word = shell::word(&member.name);
        advice = advice
            .seen(format!("{} {}", member.name, member.mtu), format!("/sys/class/net/{word}/mtu"));
    }
    let could = members.iter().all(|member| member.max_mtu.is_none_or(|largest| largest >= most));
    let to = if could { most } else { least };
    for member in members.iter().filter(|member| member.mtu != to) {
        advice = advice.run(format!("ip link set dev {} mtu {to}", shell::word(&member.name)));
    }
    Some(advice.note("whatever is behind the members must have that MTU too"))
}

fn dropped(least: u32) -> Cost {
    Cost::unknown(format!(
        "packets above {least} bytes are dropped between them, and no router tells the sender"
    ))
}

/// What is wrong with the MTU of one interface and of the paths over it.
pub(super) fn advice(host: &Host, interface: &Interface) -> Vec<Advice> {
    let mut all = Vec::new();
    all.extend(against_lower(host, interface));
    all.extend(paths(host, interface));
    all.extend(jumbo(interface));
    if all.is_empty() && interface.controller.is_none() {
        let largest = interface.max_mtu.filter(|largest| *largest > interface.mtu);
        let detail = match largest {
            Some(largest) => format!("{}, of at most {largest}", interface.mtu),
            None => interface.mtu.to_string(),
        };
        let from = format!("/sys/class/net/{}/mtu", interface.name);
        all.push(
            Advice::good("mtu", detail).on(&interface.name).seen(interface.mtu.to_string(), from),
        );
    }
    all
}

/// An interface that stands on another, or is joined to it.
fn against_lower(host: &Host, interface: &Interface) -> Option<Advice> {
    let lower = host.interface(interface.lower.as_deref()?)?;
    if interface.mtu <= lower.mtu {
        return None;
    }
    let joined = interface.kind.as_deref() == Some("veth");
    let (large, small) = (interface, lower);
    let relation = if joined { "its far end" } else { "what it stands on" };
    let detail =
        format!("an MTU of {}, and {relation}, {}, has {}", large.mtu, small.name, small.mtu);
    let from = |name: &str| format!("/sys/class/net/{name}/mtu");
    Some(
        Advice::improve("mtu", detail, dropped(small.mtu))
            .on(&interface.name)
            .seen(large.mtu.to_string(), from(&large.name))
            .seen(small.mtu.to_string(), from(&small.name))
            .run(format!("ip link set dev {} mtu {}", shell::word(&small.name), large.mtu)),
    )
}

/// Routes with a smaller MTU, and destinations that turned out to have one.
fn paths(host: &Host, interface: &Interface) -> Vec<Advice> {
    let over = host.routes.iter().filter(|route| {
        route.interface == Some(interface.index)
            && route.mtu.is_some_and(|mtu| mtu > 0 && mtu < interface.mtu)
    });
    let (learned, set): (Vec<_>, Vec<_>) = over.partition(|route| route.learned);
    let word = shell::word(&interface.name);
    let mut all = Vec::new();
    for (routes, name, what, from) in [
        (set, "route-mtu", "asked for by routes", "ip route show"),
        (learned, "path-mtu", "all that paths carry", "ip route show cache"),
    ] {
        let Some(least) = routes.iter().filter_map(|route| route.mtu).min() else { continue };
        let listed: Vec<String> = routes
            .iter()
            .take(SHOWN)
            .map(|route| format!("{} mtu {}", route.destination, route.mtu.unwrap_or(0)))
            .collect();
        let more = match routes.len() {
            few if few <= SHOWN => String::new(),
            many => format!(", {} more", many - SHOWN),
        };
        let detail = format!(
            "packets smaller than the link's {} are {what}: {}{more}",
            interface.mtu,
            listed.join(", ")
        );
        let note = match name {
            "route-mtu" => "take `mtu` out of the route, if nothing on the way needs it",
            _ => {
                "raise the MTU on the way (tunnels and VPNs take from it); what was learned is \
                 forgotten after net.ipv4.route.mtu_expires seconds, or by the command"
            }
        };
        let advice = Advice::consider(name, detail, smaller(interface.mtu, least))
            .on(&interface.name)
            .seen(format!("mtu {least}"), format!("{from} dev {word}"))
            .note(note);
        all.push(match name {
            "route-mtu" => advice,
            _ => advice.run("ip route flush cache"),
        });
    }
    all
}

/// What headers take more of a smaller packet.
fn smaller(large: u32, small: u32) -> Cost {
    // the share does not depend on the rate
    let link = Link::ethernet(BitRate(1e9));
    let efficiency = |mtu| link.limit(&Traffic::tcp(mtu)).map(|limit| limit.efficiency());
    match (efficiency(large), efficiency(small)) {
        (Ok(large), Ok(small)) => {
            let lost = 1.0 - small / large;
            let text = format!(
                "{:.1} % of the link for headers, and more packets for the same bytes",
                lost * 100.0
            );
            Cost::known(Basis::Computed, lost, text, "linkrate limit ethernet")
        }
        _ => Cost::unknown("more packets for the same bytes"),
    }
}

fn jumbo(interface: &Interface) -> Option<Advice> {
    let rate = interface.rate()?;
    let largest = interface.max_mtu?;
    let fits = interface.device.is_some() && !interface.is_paravirtual() && largest >= JUMBO;
    if !fits || interface.mtu > USUAL || rate < FAST {
        return None;
    }
    let word = shell::word(&interface.name);
    let detail = format!("an MTU of {}, and the adapter takes up to {largest}", interface.mtu);
    Some(
        Advice::consider("jumbo-frames", detail, measured::without_jumbo())
            .on(&interface.name)
            .seen(
                format!("mtu {}, maxmtu {largest}", interface.mtu),
                format!("ip -d link show dev {word}"),
            )
            .run(format!("ip link set dev {word} mtu {JUMBO}"))
            .note("only if every host and every switch of the segment has it too"),
    )
}
