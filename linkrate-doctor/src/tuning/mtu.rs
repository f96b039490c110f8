//! MTUs: interfaces that exchange packets and have different MTUs, paths with a smaller MTU than
//! their link, and links that allow a larger one.

use linkrate_model::BitRate;
use linkrate_model::shell;
use linkrate_wire::limits::Traffic;
use linkrate_wire::link::Link;

use super::advice::{Advice, Basis, Cost};
use super::facts::{Host, Interface};

/// The MTU of Ethernet without jumbo frames.
const USUAL: u32 = 1500;

/// The usual MTU with jumbo frames.
const JUMBO: u32 = 9000;

/// The most routes to name; the others are counted.
const SHOWN: usize = 4;

/// Below this rate the link is the limit, not the CPU.
const FAST: BitRate = BitRate(1e9);

/// Advice on bridges and bonds whose members have different MTUs.
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
    let detail = format!("the members of this {kind} have MTUs from {least} to {most}");
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
    Some(advice.note("the hosts behind the members need the same MTU"))
}

fn dropped(least: u32) -> Cost {
    Cost::unknown(format!(
        "packets larger than {least} bytes are dropped between them, and no router tells the sender"
    ))
}

/// Advice on the MTU of one interface, and on the paths over it.
pub(super) fn advice(host: &Host, interface: &Interface) -> Vec<Advice> {
    let mut all = Vec::new();
    all.extend(against_lower(host, interface));
    all.extend(paths(host, interface));
    all.extend(jumbo(interface));
    if all.is_empty() && interface.controller.is_none() {
        let largest = interface.max_mtu.filter(|largest| *largest > interface.mtu);
        let detail = match largest {
            Some(largest) => format!("{} of at most {largest}", interface.mtu),
            None => interface.mtu.to_string(),
        };
        let from = format!("/sys/class/net/{}/mtu", interface.name);
        all.push(
            Advice::good("mtu", detail).on(&interface.name).seen(interface.mtu.to_string(), from),
        );
    }
    all
}

/// An interface whose MTU is larger than that of its lower interface or its veth peer.
fn against_lower(host: &Host, interface: &Interface) -> Option<Advice> {
    let lower = host.interface(interface.lower.as_deref()?)?;
    if interface.mtu <= lower.mtu {
        return None;
    }
    let joined = interface.kind.as_deref() == Some("veth");
    let (large, small) = (interface, lower);
    let relation = if joined { "its veth peer" } else { "its lower interface" };
    let detail =
        format!("the MTU is {}, and {relation} {} has {}", large.mtu, small.name, small.mtu);
    let from = |name: &str| format!("/sys/class/net/{name}/mtu");
    Some(
        Advice::improve("mtu", detail, dropped(small.mtu))
            .on(&interface.name)
            .seen(large.mtu.to_string(), from(&large.name))
            .seen(small.mtu.to_string(), from(&small.name))
            .run(format!("ip link set dev {} mtu {}", shell::word(&small.name), large.mtu)),
    )
}

/// Routes with a smaller MTU, and destinations for which the kernel learned one.
fn paths(host: &Host, interface: &Interface) -> Vec<Advice> {
    let over = host.routes.iter().filter(|route| {
        route.interface == Some(interface.index)
            && route.mtu.is_some_and(|mtu| mtu > 0 && mtu < interface.mtu)
    });
    let (learned, set): (Vec<_>, Vec<_>) = over.partition(|route| route.learned);
    let word = shell::word(&interface.name);
    let mut all = Vec::new();
    for (routes, name, finding, from) in [
        (set, "route-mtu", "routes set a smaller MTU than", "ip route show"),
        (learned, "path-mtu", "paths carry a smaller MTU than", "ip route show cache"),
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
        let detail =
            format!("{finding} the {} of the link: {}{more}", interface.mtu, listed.join(", "));
        let note = match name {
            "route-mtu" => "remove `mtu` from the route if no part of the path needs it",
            _ => {
                "raise the MTU of the path (tunnels and VPNs reduce it); the kernel forgets a learned \
                 MTU after net.ipv4.route.mtu_expires seconds, or with the command"
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

/// The cost of a smaller MTU: a larger share of headers.
fn smaller(large: u32, small: u32) -> Cost {
    // the share does not depend on the rate
    let link = Link::ethernet(BitRate(1e9));
    let efficiency = |mtu| link.limit(&Traffic::tcp(mtu)).map(|limit| limit.efficiency());
    match (efficiency(large), efficiency(small)) {
        (Ok(large), Ok(small)) => {
            let lost = 1.0 - small / large;
            let text = format!(
                "headers take {:.1} % more of the link, and the same bytes need more packets",
                lost * 100.0
            );
            Cost::known(Basis::Computed, lost, text, "linkrate limit ethernet")
        }
        _ => Cost::unknown("the same bytes need more packets"),
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
    let detail = format!("the MTU is {}, and the adapter allows up to {largest}", interface.mtu);
    Some(
        Advice::consider("jumbo-frames", detail, Cost::without_jumbo())
            .on(&interface.name)
            .seen(
                format!("mtu {}, maxmtu {largest}", interface.mtu),
                format!("ip -d link show dev {word}"),
            )
            .run(format!("ip link set dev {word} mtu {JUMBO}"))
            .note("only if every host and every switch of the network segment has the same MTU"),
    )
}
