//! Offloads that are off and could be on.

use linkrate_model::shell;
use linkrate_sys::ethtool::{Feature, Features};

use super::advice::{Advice, Cost};
use super::facts::{Host, Interface};

/// The usual limit of superframes, bytes.
const MIN_SUPERFRAME: u32 = 65_536;

struct Offload {
    name: &'static str,
    what: &'static str,
    /// Each of these features provides the offload.
    features: &'static [&'static str],
    /// The name that `ethtool -K` takes.
    switch: &'static str,
    /// Offloads, in this order, without which the kernel turns this one off again.
    needs: &'static [(&'static str, &'static [&'static str])],
    cost: fn() -> Cost,
}

const CHECKSUMS: &[&str] = &["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"];
const SCATTER: &[&str] = &["tx-scatter-gather"];

const OFFLOADS: &[Offload] = &[
    Offload {
        name: "tso",
        what: "TCP segmentation by the adapter (TSO)",
        features: &["tx-tcp-segmentation", "tx-tcp6-segmentation"],
        switch: "tso",
        needs: &[("sg", SCATTER), ("tx", CHECKSUMS)],
        cost: Cost::without_tso,
    },
    Offload {
        name: "gso",
        what: "segmentation of superframes just before the driver (GSO)",
        features: &["tx-generic-segmentation"],
        switch: "gso",
        needs: &[("sg", SCATTER)],
        cost: Cost::without_gso,
    },
    Offload {
        name: "gro",
        what: "merging of received packets by the kernel (GRO)",
        features: &["rx-gro"],
        switch: "gro",
        needs: &[],
        cost: Cost::without_gro,
    },
    Offload {
        name: "tx-checksum",
        what: "transmit checksums by the adapter",
        features: CHECKSUMS,
        switch: "tx",
        needs: &[],
        cost: Cost::without_tx_checksum,
    },
    Offload {
        name: "rx-checksum",
        what: "receive checksums by the adapter",
        features: &["rx-checksum"],
        switch: "rx",
        needs: &[],
        cost: || {
            Cost::unknown(
                "the kernel reads every received byte to compute the checksum; GRO needs this offload",
            )
        },
    },
    Offload {
        name: "scatter-gather",
        what: "scatter-gather, which sends a packet from several buffers,",
        features: SCATTER,
        switch: "sg",
        needs: &[],
        cost: || {
            Cost::unknown(
                "the kernel copies every packet into one buffer; TSO needs scatter-gather",
            )
        },
    },
];

/// Each offload that is off and could be on; otherwise one summary.
pub(super) fn advice(host: &Host, interface: &Interface) -> Vec<Advice> {
    let Some(features) = &interface.features else {
        let unseen = Advice::unseen("offloads", "ethtool does not report them");
        return vec![unseen.on(&interface.name)];
    };
    let mut all: Vec<Advice> =
        OFFLOADS.iter().filter_map(|offload| off(offload, interface, features)).collect();
    all.extend(superframes(interface));
    if all.is_empty() {
        all.push(in_order(interface, features));
    }
    all.extend(merging(host, interface, features));
    all
}

fn off(offload: &Offload, interface: &Interface, features: &Features) -> Option<Advice> {
    let kind = interface.kind.as_deref();
    if offload.name == "gro" && kind == Some("veth") {
        // superframes cross a veth whole, so GRO has nothing to merge
        return None;
    }
    let changeable = |name: &str| features.get(name).filter(|feature| feature.changeable);
    let seen: Vec<(&str, Feature)> =
        offload.features.iter().filter_map(|name| Some((*name, changeable(name)?))).collect();
    // an offload that is off for one protocol only is reported; a feature that the adapter lacks is
    // not
    let off: Vec<&str> = seen.iter().filter(|(_, f)| !f.active).map(|(name, _)| *name).collect();
    let wanted = match offload.features {
        // generic checksums replace the others
        CHECKSUMS => off.len() == seen.len(),
        _ => !off.is_empty(),
    };
    if seen.is_empty() || !wanted {
        return None;
    }
    let word = shell::word(&interface.name);
    let missing = offload.needs.iter().filter(|(_, names)| {
        let active = names.iter().any(|name| features.is_active(name));
        !active && names.iter().any(|name| changeable(name).is_some())
    });
    let mut switches: Vec<&str> = missing.map(|(switch, _)| *switch).collect();
    switches.push(offload.switch);
    let switches: Vec<String> = switches.iter().map(|switch| format!("{switch} on")).collect();
    let detail = format!("{} is off, and the driver supports it", offload.what);
    Some(
        Advice::improve(offload.name, detail, (offload.cost)())
            .on(&interface.name)
            .seen(format!("{}: off, changeable", off.join(", ")), format!("ethtool -k {word}"))
            .run(format!("ethtool -K {word} {}", switches.join(" "))),
    )
}

/// Limits that make superframes small although offloads are on.
fn superframes(interface: &Interface) -> Option<Advice> {
    let (bytes, segments) = (interface.gso_max_size, interface.gso_max_segs);
    // zero: unknown
    let small = bytes > 0 && bytes < MIN_SUPERFRAME.min(interface.tso_max_size.max(1));
    let few = segments > 0 && u64::from(segments) * u64::from(interface.mtu) < 32 * 1024;
    if !small && !few {
        return None;
    }
    let word = shell::word(&interface.name);
    let detail = format!("superframes are limited to {bytes} bytes and {segments} segments");
    let advice =
        Advice::improve("superframes", detail, Cost::without_gso()).on(&interface.name).seen(
            format!("gso_max_size {bytes}, gso_max_segs {segments}"),
            format!("ip -d link show dev {word}"),
        );
    Some(match (small, few) {
        (true, false) => advice.run(format!(
            "ip link set dev {word} gso_max_size {MIN_SUPERFRAME} gso_ipv4_max_size {MIN_SUPERFRAME}"
        )),
        (false, _) => advice.run(format!("ip link set dev {word} gso_max_segs 65535")),
        (true, true) => advice.run(format!(
            "ip link set dev {word} gso_max_size {MIN_SUPERFRAME} gso_ipv4_max_size \
             {MIN_SUPERFRAME} gso_max_segs 65535"
        )),
    })
}

fn in_order(interface: &Interface, features: &Features) -> Advice {
    let on: Vec<&str> = OFFLOADS
        .iter()
        .filter(|offload| offload.features.iter().any(|name| features.is_active(name)))
        .map(|offload| offload.name)
        .collect();
    let lacking: Vec<&str> = OFFLOADS
        .iter()
        .filter(|offload| {
            let known = |name: &&&str| features.get(name);
            offload
                .features
                .iter()
                .filter_map(|name| known(&name))
                .all(|f| !f.active && !f.changeable)
        })
        .map(|offload| offload.name)
        .collect();
    let detail = match lacking[..] {
        [] => format!("on: {}", on.join(", ")),
        _ => format!("on: {}; not supported by the driver: {}", on.join(", "), lacking.join(", ")),
    };
    let from = format!("ethtool -k {}", shell::word(&interface.name));
    Advice::good("offloads", detail)
        .on(&interface.name)
        .seen("all that the driver supports are on", from)
}

/// Merging by the adapter (LRO), which must stay off on hosts that forward packets.
fn merging(host: &Host, interface: &Interface, features: &Features) -> Option<Advice> {
    features.get("rx-lro").filter(|feature| feature.changeable && !feature.active)?;
    let forwards = host.settings.forwarding == Some(1) || interface.controller.is_some();
    if forwards || interface.device.is_none() {
        return None;
    }
    let word = shell::word(&interface.name);
    let cost = Cost::unknown(
        "little if GRO is on; the ten-gigabit paper recommends LRO for receivers such as backup \
         servers",
    );
    let detail = "merging of received packets by the adapter (LRO) is off";
    Some(
        Advice::consider("lro", detail, cost)
            .on(&interface.name)
            .seen("rx-lro: off, changeable", format!("ethtool -k {word}"))
            .run(format!("ethtool -K {word} lro on"))
            .note(
                "only on a host that does not route or bridge: merged packets cannot be forwarded",
            ),
    )
}
