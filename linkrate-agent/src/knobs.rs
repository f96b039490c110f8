//! Interface knobs: set, then read back. A knob that differs is an error.
//!
//! The settings behind each knob, by the kernel's names (net/ethtool/common.c,
//! include/uapi/linux/if_link.h):
//!
//! | knob | set through |
//! |---|---|
//! | offload `none` | `IFLA_GSO_MAX_SEGS` 1 |
//! | offload `gso` | `IFLA_GSO_MAX_SEGS` as the device allows, every `tx-tcp*-segmentation` off |
//! | offload `tso` | the same, and every `tx-tcp*-segmentation` on |
//! | gro-list, udp-gro-forwarding | features `rx-gro-list`, `rx-udp-gro-forwarding` |
//! | threaded, napi-defer-hard-irqs, gro-flush-timeout | the files of sysfs |
//! | gro, tx-checksum, rx-checksum | features `rx-gro`, `tx-checksum-ip-generic` or the per-protocol ones, `rx-checksum` |
//! | mtu, gso-max-size | `IFLA_MTU`, `IFLA_GSO_MAX_SIZE` with `IFLA_GSO_IPV4_MAX_SIZE` |
//! | gro-max-size | `IFLA_GRO_MAX_SIZE` with `IFLA_GRO_IPV4_MAX_SIZE` |
//! | txqueuelen | `IFLA_TXQLEN` |
//! | queues | ethtool channels |
//!
//! A TAP is such an interface too, with these differences. Its features can be switched as far as
//! its reader offers them (`tun_net_fix_features`, drivers/net/tun.c). Its channels are the queues
//! that its reader attached; they are read here and cannot be set (`tun_ethtool_ops`). The adapter
//! behind it checks received packets, or no program does, so there is no `rx-checksum`. `rx-gro` can
//! be switched, and has an effect where NAPI threads process what is received ([`linkrate_sys::tap`]).

use linkrate_model::knobs::{AggregateRequest, AtmRequest, KNOBS, PortRequest};
use linkrate_model::{InterfaceKnobs, Offload};
use linkrate_sys::error::SysError;
use linkrate_sys::ethtool::{Channels, Ethtool, Features};
use linkrate_sys::netlink::{Link, RouteSocket};
use linkrate_sys::sysfs::{self, Napi};

/// The features of "TSO" on the ladder; those that a device lacks are left out.
const TSO_FEATURES: &[&str] = &["tx-tcp-segmentation", "tx-tcp6-segmentation"];
const TX_CHECKSUM_FEATURES: &[&str] =
    &["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"];
/// Either of these covers IPv4, which testbeds use.
const IPV4_CHECKSUM_FEATURES: &[&str] = &["tx-checksum-ip-generic", "tx-checksum-ipv4"];
const RX_CHECKSUM: &str = "rx-checksum";
pub(crate) const GRO: &str = "rx-gro";
const GRO_LIST: &str = "rx-gro-list";
const UDP_GRO_FORWARDING: &str = "rx-udp-gro-forwarding";
/// The kernel's GSO_MAX_SEGS, the default of devices without a value of their own.
const DEFAULT_GSO_MAX_SEGS: u32 = 65535;
/// The feature that is TSO on IPv4, which testbeds use.
const IPV4_TSO: &str = "tx-tcp-segmentation";

/// Why a knob could not be set, or did not keep its value.
#[derive(Debug, thiserror::Error)]
pub enum KnobError {
    #[error("knob \"{knob}\" of {interface}: {cause}")]
    Refused { knob: &'static str, interface: String, cause: Box<SysError> },
    /// The driver does not allow changing a feature of the knob.
    #[error(
        "knob \"{knob}\" of {interface}: the driver fixes feature {feature} to {}",
        if *.active { "on" } else { "off" }
    )]
    Fixed {
        knob: &'static str,
        interface: String,
        /// The feature, by ethtool's name.
        feature: &'static str,
        active: bool,
    },
    /// The value reads back differently.
    #[error("knob \"{knob}\" of {interface}: requested {requested}, effective is {effective}")]
    Differs { knob: &'static str, interface: String, requested: String, effective: String },
}

/// Sets `knobs` on `interface`, reads every knob back, and returns the effective values. Where
/// superframes are on, they have up to `segments` segments; with `None`, as many as the device takes.
pub fn apply(
    interface: &str,
    knobs: &InterfaceKnobs,
    segments: Option<u32>,
) -> Result<InterfaceKnobs, KnobError> {
    set(interface, knobs, segments)?;
    let effective = read(interface)?;
    compare(interface, knobs, &effective)?;
    Ok(effective)
}

/// Reads every knob of `interface`.
pub fn read(interface: &str) -> Result<InterfaceKnobs, KnobError> {
    let refused = |cause| refused("read-back", interface, cause);
    let link = RouteSocket::open().and_then(|mut s| s.link(interface)).map_err(refused)?;
    let mut ethtool = Ethtool::open().map_err(refused)?;
    let features = ethtool.features(interface).map_err(refused)?;
    // a device without channels has as many queues as it was made with
    let queues = ethtool.channels(interface).map_or(link.rx_queues, |c| c.rx.max(c.combined));
    let napi = |setting| sysfs::napi(interface, setting).ok();
    Ok(InterfaceKnobs {
        threaded: napi(Napi::Threaded).map(|value| value != 0),
        napi_defer_hard_irqs: napi(Napi::DeferHardIrqs).and_then(|value| value.try_into().ok()),
        gro_flush_timeout: napi(Napi::GroFlushTimeout).and_then(|value| value.try_into().ok()),
        ..effective_knobs(&link, &features, queues)
    })
}

/// Reads the knobs of `interface` to which later runs [return](defaults): those it has, and that
/// can be set.
pub fn fresh(interface: &str) -> Result<InterfaceKnobs, KnobError> {
    let refused = |cause| refused("read-back", interface, cause);
    let fresh = read(interface)?;
    match Ethtool::open().and_then(|mut s| s.can_set_channels(interface)).map_err(refused)? {
        true => Ok(fresh),
        false => Ok(InterfaceKnobs { queues: None, ..fresh }),
    }
}

fn effective_knobs(link: &Link, features: &Features, queues: u32) -> InterfaceKnobs {
    // testbeds use IPv4: a feature for IPv6 only does not count
    let tso = features.is_active(IPV4_TSO);
    let offload = match (link.gso_max_segs, tso) {
        (1, _) => Offload::None,
        (_, false) => Offload::Gso,
        (_, true) => Offload::Tso,
    };
    InterfaceKnobs {
        offload: Some(offload),
        gro: Some(features.is_active(GRO)),
        // kernels before 5.6 and 5.12 do not have them
        gro_list: features.get(GRO_LIST).map(|feature| feature.active),
        udp_gro_forwarding: features.get(UDP_GRO_FORWARDING).map(|feature| feature.active),
        tx_checksum: Some(IPV4_CHECKSUM_FEATURES.iter().any(|name| features.is_active(name))),
        rx_checksum: features
            .get(RX_CHECKSUM)
            .filter(|feature| feature.active || feature.changeable)
            .map(|feature| feature.active),
        mtu: Some(link.mtu),
        gso_max_size: Some(ipv4_superframe(link)),
        // kernels before 5.19 do not have it
        gro_max_size: Some(ipv4_merged(link)).filter(|bytes| *bytes > 0),
        txqueuelen: Some(link.tx_queue_length),
        queues: Some(queues),
        // settings of NAPI, which are not here, and of the adapter, which the kernel of its host does not know
        ..InterfaceKnobs::default()
    }
}

/// Sets the knobs that differ: a knob that a run leaves alone needs no privilege and disturbs no
/// link.
fn set(interface: &str, knobs: &InterfaceKnobs, segments: Option<u32>) -> Result<(), KnobError> {
    let refuse = |knob| move |cause| refused(knob, interface, cause);
    let mut route = RouteSocket::open().map_err(refuse("netlink"))?;
    let mut ethtool = Ethtool::open().map_err(refuse("ethtool"))?;
    let features = ethtool.features(interface).map_err(refuse("features"))?;
    let link = route.link(interface).map_err(refuse("read-back"))?;
    check_fixed(interface, knobs, &features)?;
    if let Some(mtu) = knobs.mtu.filter(|mtu| *mtu != link.mtu) {
        route.set_mtu(interface, mtu).map_err(refuse("mtu"))?;
    }
    if let Some(packets) = knobs.txqueuelen.filter(|packets| *packets != link.tx_queue_length) {
        route.set_tx_queue_length(interface, packets).map_err(refuse("txqueuelen"))?;
    }
    if let Some(queues) = knobs.queues {
        set_queues(&mut ethtool, interface, queues).map_err(refuse("queues"))?;
    }
    let mut wanted: Vec<(&str, bool)> = Vec::new();
    // checksum offload first in the list: segmentation offload depends on it
    if let Some(on) = knobs.tx_checksum {
        wanted.extend(present(&features, TX_CHECKSUM_FEATURES, on));
    }
    if let Some(on) = knobs.rx_checksum {
        wanted.push((RX_CHECKSUM, on));
    }
    let receive = [
        (GRO, knobs.gro),
        (GRO_LIST, knobs.gro_list),
        (UDP_GRO_FORWARDING, knobs.udp_gro_forwarding),
    ];
    wanted.extend(receive.iter().filter_map(|(feature, on)| Some((*feature, (*on)?))));
    if let Some(offload) = knobs.offload {
        wanted.extend(present(&features, TSO_FEATURES, offload == Offload::Tso));
        let most = match link.tso_max_segs {
            0 => DEFAULT_GSO_MAX_SEGS,
            most => most,
        };
        let segments = match offload {
            Offload::None => 1,
            Offload::Gso | Offload::Tso => segments.unwrap_or(most),
        };
        if segments != link.gso_max_segs {
            route.set_gso_max_segs(interface, segments).map_err(refuse("offload"))?;
        }
    }
    let is_so = |name: &str, on: bool| {
        features.get(name).is_some_and(|feature| feature.active == on && feature.wanted == on)
    };
    wanted.retain(|(name, on)| !is_so(name, *on));
    set_napi(interface, knobs, true)?;
    if !wanted.is_empty() {
        ethtool.set_features(interface, &wanted).map_err(refuse("features"))?;
    }
    set_napi(interface, knobs, false)?;
    if let Some(bytes) = knobs.gso_max_size {
        // read again: the settings before may have changed it
        let link = route.link(interface).map_err(refuse("read-back"))?;
        if ipv4_superframe(&link) != bytes {
            route.set_gso_max_size(interface, bytes).map_err(refuse("gso-max-size"))?;
        }
    }
    if let Some(bytes) = knobs.gro_max_size.filter(|bytes| *bytes != ipv4_merged(&link)) {
        route.set_gro_max_size(interface, bytes).map_err(refuse("gro-max-size"))?;
    }
    Ok(())
}

/// Changes how NAPI polls the interface, see [`sysfs::set_napi_where_it_differs`].
fn set_napi(interface: &str, knobs: &InterfaceKnobs, off: bool) -> Result<(), KnobError> {
    let values = [
        knobs.threaded.map(u64::from),
        knobs.napi_defer_hard_irqs.map(u64::from),
        knobs.gro_flush_timeout.map(u64::from),
    ];
    match sysfs::set_napi_where_it_differs(interface, values, off).next() {
        Some((setting, cause)) => Err(refused(napi_knob(setting), interface, cause)),
        None => Ok(()),
    }
}

/// The knob of a setting of NAPI.
fn napi_knob(setting: Napi) -> &'static str {
    match setting {
        Napi::Threaded => "threaded",
        Napi::DeferHardIrqs => "napi-defer-hard-irqs",
        Napi::GroFlushTimeout => "gro-flush-timeout",
    }
}

/// Largest superframe of IPv4.
const fn ipv4_superframe(link: &Link) -> u32 {
    of_ipv4(link.gso_ipv4_max_size, link.gso_max_size)
}

/// Largest packet of IPv4 that GRO merges.
const fn ipv4_merged(link: &Link) -> u32 {
    of_ipv4(link.gro_ipv4_max_size, link.gro_max_size)
}

/// The limit of IPv4; kernels before 6.3 have one for both IP versions.
const fn of_ipv4(own: u32, both: u32) -> u32 {
    if own == 0 { both } else { own }
}

/// Refuses a feature that no request can change, by its name.
fn check_fixed(
    interface: &str,
    knobs: &InterfaceKnobs,
    features: &Features,
) -> Result<(), KnobError> {
    let tso = knobs.offload.and_then(|offload| match offload {
        Offload::Tso => Some(true),
        Offload::Gso => Some(false),
        // superframes of one segment need no segmentation
        Offload::None => None,
    });
    let ipv4_checksum = IPV4_CHECKSUM_FEATURES
        .iter()
        .copied()
        .find(|name| features.get(name).is_some_and(|feature| feature.active || feature.changeable))
        .unwrap_or("tx-checksum-ip-generic");
    for (knob, feature, asked) in [
        ("offload", IPV4_TSO, tso),
        ("gro", GRO, knobs.gro),
        ("gro-list", GRO_LIST, knobs.gro_list),
        ("udp-gro-forwarding", UDP_GRO_FORWARDING, knobs.udp_gro_forwarding),
        ("tx-checksum", ipv4_checksum, knobs.tx_checksum),
        ("rx-checksum", RX_CHECKSUM, knobs.rx_checksum),
    ] {
        let Some(is) = features.get(feature) else { continue };
        if asked.is_some_and(|asked| asked != is.active) && !is.changeable {
            let interface = interface.to_owned();
            return Err(KnobError::Fixed { knob, interface, feature, active: is.active });
        }
    }
    Ok(())
}

/// Adds the values of a fresh interface for knobs that the run does not name, so that a run does not
/// inherit knobs of the run before.
pub fn defaults(knobs: &InterfaceKnobs, fresh: &InterfaceKnobs) -> InterfaceKnobs {
    // without transmit checksums the kernel switches segmentation offload off as well
    let offload = match (knobs.tx_checksum, fresh.offload) {
        (Some(false), Some(Offload::Tso)) => Some(Offload::Gso),
        (_, fresh) => fresh,
    };
    let fresh = InterfaceKnobs { offload, ..fresh.clone() };
    let (port, aggregate) = (PortRequest::default(), AggregateRequest::default());
    InterfaceKnobs { port, aggregate, atm: AtmRequest::default(), ..knobs.or(&fresh) }
}

fn present<'a>(
    features: &'a Features,
    names: &'a [&'a str],
    on: bool,
) -> impl Iterator<Item = (&'a str, bool)> {
    names
        .iter()
        .filter(|name| features.get(name).is_some_and(|feature| feature.changeable))
        .map(move |name| (*name, on))
}

/// Sets how many queues of an interface are in use. A device without channels, or whose reader changes them, refuses.
pub fn set_queues(ethtool: &mut Ethtool, interface: &str, queues: u32) -> Result<(), SysError> {
    let now: Channels = ethtool.channels(interface)?;
    let (rx, tx, combined) =
        if now.combined_max > 0 { (0, 0, queues) } else { (queues, queues, 0) };
    if (now.rx, now.tx, now.combined) == (rx, tx, combined) {
        // the kernel refuses a change to the present value
        return Ok(());
    }
    let wanted = |maximum: u32, count: u32| (maximum > 0).then_some(count);
    let set = ethtool.set_channels(
        interface,
        wanted(now.rx_max, rx),
        wanted(now.tx_max, tx),
        wanted(now.combined_max, combined),
    );
    set.map_err(|error| match error.is_unsupported() {
        true => error
            .with_detail(format!("it uses {}", now.rx.max(now.combined)))
            .with_hint("the queues of a virtual adapter are changed at the adapter"),
        false => error,
    })
}

fn refused(knob: &'static str, interface: &str, cause: SysError) -> KnobError {
    KnobError::Refused { knob, interface: interface.to_owned(), cause: Box::new(cause) }
}

fn compare(
    interface: &str,
    requested: &InterfaceKnobs,
    effective: &InterfaceKnobs,
) -> Result<(), KnobError> {
    for knob in KNOBS.iter().filter(|knob| knob.owner.is_of_every_interface()) {
        let Some(asked) = knob.get(requested) else { continue };
        let is = knob.get(effective);
        if is != Some(asked) {
            return Err(KnobError::Differs {
                knob: knob.key,
                interface: interface.to_owned(),
                requested: asked.to_string(),
                effective: is.map_or_else(|| "unknown".to_owned(), |value| value.to_string()),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_fails_by_the_knobs_name() {
        let requested = InterfaceKnobs { offload: Some(Offload::Tso), ..Default::default() };
        let effective = InterfaceKnobs { offload: Some(Offload::Gso), ..Default::default() };
        let error = compare("sut0", &requested, &effective).unwrap_err().to_string();
        assert_eq!(error, "knob \"offload\" of sut0: requested tso, effective is gso");
        assert!(compare("sut0", &InterfaceKnobs::default(), &effective).is_ok());
    }

    #[test]
    fn a_fixed_feature_is_refused_by_its_name() {
        use linkrate_sys::ethtool::Feature;
        let features: Features = [
            (IPV4_TSO.to_owned(), Feature { active: false, changeable: false, wanted: false }),
            (GRO.to_owned(), Feature { active: true, changeable: true, wanted: true }),
        ]
        .into_iter()
        .collect();
        let check = |knobs: InterfaceKnobs| {
            check_fixed("eth1", &knobs, &features).map_err(|error| error.to_string())
        };
        let offload =
            |offload| InterfaceKnobs { offload: Some(offload), ..InterfaceKnobs::default() };
        assert_eq!(
            check(offload(Offload::Tso)).unwrap_err(),
            "knob \"offload\" of eth1: the driver fixes feature tx-tcp-segmentation to off"
        );
        assert_eq!(check(offload(Offload::Gso)), Ok(()));
        assert_eq!(check(offload(Offload::None)), Ok(()));
        assert_eq!(check(InterfaceKnobs { gro: Some(false), ..Default::default() }), Ok(()));
    }

    #[test]
    fn what_a_run_does_not_name_returns_to_its_default() {
        let fresh = InterfaceKnobs { mtu: Some(1500), gro: Some(false), ..Default::default() };
        let run = InterfaceKnobs { mtu: Some(9000), ..Default::default() };
        let set = defaults(&run, &fresh);
        assert_eq!((set.mtu, set.gro), (Some(9000), Some(false)));
    }
}
