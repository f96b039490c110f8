//! Settings of each interface's driver, through ethtool's netlink family: offloads, rings,
//! coalescing, pause frames, channels and link modes.

use linkrate_sys::ethtool::Ethtool;

use crate::tuning::facts::{Host, Interface};

/// Adds driver settings to the interfaces of `host` that are up.
pub(super) fn complete(host: &mut Host) {
    match Ethtool::open() {
        Ok(mut ethtool) => {
            for interface in host.interfaces.iter_mut().filter(|interface| interface.up) {
                settings(interface, &mut ethtool);
            }
        }
        Err(error) => host.unseen.push(("offloads", error.to_string())),
    }
}

/// A setting that the driver does not report is `None`; this is not a failure.
fn settings(interface: &mut Interface, ethtool: &mut Ethtool) {
    let name = &interface.name;
    interface.features = ethtool.features(name).ok();
    interface.rings = ethtool.rings(name).ok();
    interface.coalescing = ethtool.coalescing(name).ok();
    interface.pause = ethtool.pause(name).ok();
    interface.channels = ethtool.channels(name).ok();
    interface.modes = ethtool.link_modes(name).ok();
    if let Some(modes) = &interface.modes {
        interface.speed_mbps = interface.speed_mbps.or(modes.speed_mbps);
        interface.full_duplex = interface.full_duplex.or(modes.full_duplex);
    }
}
