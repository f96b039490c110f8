//! The settings of an existing interface, read before the first change and restored after the last.
//!
//! The host gets its interface back with every setting it had: those that runs change, and those that
//! change with them (a driver that makes new queues forgets their steering). [`Drop`] restores them,
//! however the agent ends, except by SIGKILL.

use linkrate_sys::error::SysError;
use linkrate_sys::ethtool::{Channels, Ethtool, Features};
use linkrate_sys::irq_affinity;
use linkrate_sys::netlink::{Link, RouteSocket};
use linkrate_sys::sysfs;
use linkrate_sys::tree::Tree;
use linkrate_terms::CpuSet;

/// The settings of one interface.
#[derive(Debug)]
pub struct Kept {
    interface: String,
    link: Link,
    features: Features,
    /// `None` where the driver has no channels, or they cannot be set.
    channels: Option<Channels>,
    /// Receive packet steering by queue.
    steering: Vec<CpuSet>,
    interrupts: Vec<(u32, CpuSet)>,
}

impl Kept {
    /// Reads every setting that a run or its preparation may change.
    ///
    /// # Errors
    /// When the interface is missing, or the kernel does not permit to read it.
    pub fn read(interface: &str) -> Result<Self, SysError> {
        let link = RouteSocket::open()?.link(interface)?;
        let mut ethtool = Ethtool::open()?;
        let features = ethtool.features(interface)?;
        let channels = match ethtool.channels(interface) {
            Ok(channels) => ethtool.can_set_channels(interface)?.then_some(channels),
            Err(error) if error.is_unsupported() => None,
            Err(error) => return Err(error),
        };
        let queues = sysfs::rx_queue_count(interface).unwrap_or(0);
        let steering =
            (0..queues).map_while(|queue| sysfs::receive_steering(interface, queue).ok());
        let tree = Tree::of_this_host();
        let interrupts = irq_affinity::of_interface(&tree, interface)
            .into_iter()
            .filter_map(|number| Some((number, irq_affinity::affinity(&tree, number)?)));
        Ok(Self {
            interface: interface.to_owned(),
            link,
            features,
            channels,
            steering: steering.collect(),
            interrupts: interrupts.collect(),
        })
    }

    /// The interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Most segments of a superframe; `None` where superframes were switched off.
    pub fn superframe_segments(&self) -> Option<u32> {
        Some(self.link.gso_max_segs).filter(|segments| *segments > 1)
    }

    /// Restores the settings that differ. Continues after a refusal, and returns all refusals.
    pub fn restore(&self) -> Vec<SysError> {
        let mut refused = Vec::new();
        let mut note = |result: Result<(), SysError>| refused.extend(result.err());
        let name = &self.interface;
        let (mut route, mut ethtool) = match (RouteSocket::open(), Ethtool::open()) {
            (Ok(route), Ok(ethtool)) => (route, ethtool),
            (Err(error), _) | (_, Err(error)) => return vec![error],
        };
        let now = match route.link(name) {
            Ok(link) => link,
            Err(error) => return vec![error],
        };
        let was = &self.link;
        if let (Some(channels), Ok(current)) = (&self.channels, ethtool.channels(name)) {
            let changed = |was: u32, is: u32| (was != is).then_some(was);
            let (rx, tx, combined) = (
                changed(channels.rx, current.rx),
                changed(channels.tx, current.tx),
                changed(channels.combined, current.combined),
            );
            if rx.or(tx).or(combined).is_some() {
                note(ethtool.set_channels(name, rx, tx, combined));
            }
        }
        if now.mtu != was.mtu {
            note(route.set_mtu(name, was.mtu));
        }
        if let Ok(current) = ethtool.features(name) {
            let wishes = wishes(&self.features, &current);
            if !wishes.is_empty() {
                note(ethtool.set_features(name, &wishes));
            }
        }
        if now.gso_max_segs != was.gso_max_segs {
            note(route.set_gso_max_segs(name, was.gso_max_segs));
        }
        if (now.gso_max_size, now.gso_ipv4_max_size) != (was.gso_max_size, was.gso_ipv4_max_size) {
            note(route.set_gso_max_sizes(name, was.gso_max_size, was.gso_ipv4_max_size));
        }
        for (queue, cpus) in (0..).zip(&self.steering) {
            if sysfs::receive_steering(name, queue).is_ok_and(|now| now != *cpus) {
                note(sysfs::set_receive_steering(name, queue, cpus));
            }
        }
        let tree = Tree::of_this_host();
        for (number, cpus) in &self.interrupts {
            if irq_affinity::affinity(&tree, *number).is_some_and(|now| now != *cpus) {
                note(irq_affinity::set_affinity(*number, cpus));
            }
        }
        refused
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for error in self.restore() {
            // the controller may be gone while its terminal is not
            eprintln!("warning: {}: a setting is not restored: {error}", self.interface);
        }
    }
}

/// Features whose wanted state differs from before, with the state before.
fn wishes<'a>(was: &'a Features, now: &Features) -> Vec<(&'a str, bool)> {
    was.iter()
        .filter(|(name, feature)| {
            feature.changeable && now.get(name).is_some_and(|now| now.wanted != feature.wanted)
        })
        .map(|(name, feature)| (name, feature.wanted))
        .collect()
}

#[cfg(test)]
mod tests {
    use linkrate_sys::ethtool::Feature;

    use super::*;

    #[test]
    fn only_features_whose_wanted_state_changed_are_restored() {
        let features = |listed: &[(&str, bool, bool)]| -> Features {
            let feature = |(name, wanted, changeable): &(&str, bool, bool)| {
                (
                    (*name).to_owned(),
                    Feature { active: *wanted, changeable: *changeable, wanted: *wanted },
                )
            };
            listed.iter().map(feature).collect()
        };
        let was = features(&[("tso", true, true), ("gro", false, true), ("fixed", true, false)]);
        let now = features(&[("tso", false, true), ("gro", false, true), ("fixed", false, false)]);
        assert_eq!(wishes(&was, &now), [("tso", true)]);
        assert!(wishes(&was, &was).is_empty());
    }

    #[test]
    fn a_missing_interface_is_named() {
        let error = Kept::read("no-such-if").unwrap_err().to_string();
        assert!(error.contains("no-such-if"), "{error}");
    }
}
