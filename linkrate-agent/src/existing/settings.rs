//! The settings of an existing interface: read before the first change, restored after the last.
//!
//! The host gets its interface back with every setting that it had: those that runs change, those
//! that change with them (a driver that makes new queues forgets their steering; an MTU below 1280
//! removes IPv6), and those that a move to another network namespace removes.

use std::collections::BTreeMap;
use std::fs;

use linkrate_model::CpuSet;
use linkrate_sys::error::SysError;
use linkrate_sys::ethtool::{Ethtool, Features};
use linkrate_sys::irq_affinity;
use linkrate_sys::netlink::{Addressing, Disciplines, Link, Neighbours, RouteSocket};
use linkrate_sys::sysfs::{self, Napi};
use linkrate_sys::tree::Tree;
use serde::{Deserialize, Serialize};

/// The sysctls of an interface: these directories below `/proc/sys/net`.
const SYSCTLS: [&str; 5] = ["ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh", "mpls/conf"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Settings {
    mtu: u32,
    gso_max_segs: u32,
    gso_max_size: u32,
    gso_ipv4_max_size: u32,
    /// Zero on kernels without it.
    gro_max_size: u32,
    gro_ipv4_max_size: u32,
    tx_queue_length: u32,
    /// The wanted state of the features that can be changed, by name.
    features: BTreeMap<String, bool>,
    /// Receive, transmit and combined channels; `None` where the driver has no channels, or they
    /// cannot be set.
    channels: Option<[u32; 3]>,
    /// Receive packet steering by queue.
    steering: Vec<CpuSet>,
    interrupts: Vec<(u32, CpuSet)>,
    /// The settings of NAPI, in the order of [`Napi::ALL`]; `None` where the kernel does not report.
    napi: [Option<u64>; Napi::ALL.len()],
    up: bool,
    /// Addresses and routes as rtnetlink messages.
    addressing: [Vec<Vec<u8>>; 2],
    /// By path below `/proc/sys/net`.
    sysctls: BTreeMap<String, String>,
    index: u32,
    /// Static neighbours and proxies as rtnetlink messages.
    neighbours: Vec<Vec<u8>>,
    /// Configured queueing disciplines as rtnetlink messages.
    disciplines: Vec<Vec<u8>>,
}

impl Settings {
    /// Reads every setting that a run, its preparation or a move may change.
    pub fn read(interface: &str) -> Result<Self, SysError> {
        let mut route = RouteSocket::open()?;
        let link = route.link(interface)?;
        let addressing = route.addressing(interface)?.permanent();
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
            mtu: link.mtu,
            gso_max_segs: link.gso_max_segs,
            gso_max_size: link.gso_max_size,
            gso_ipv4_max_size: link.gso_ipv4_max_size,
            gro_max_size: link.gro_max_size,
            gro_ipv4_max_size: link.gro_ipv4_max_size,
            tx_queue_length: link.tx_queue_length,
            features: features
                .iter()
                .filter(|(_, feature)| feature.changeable)
                .map(|(name, feature)| (name.to_owned(), feature.wanted))
                .collect(),
            channels: channels.map(|channels| [channels.rx, channels.tx, channels.combined]),
            steering: steering.collect(),
            interrupts: interrupts.collect(),
            napi: Napi::ALL.map(|setting| sysfs::napi(interface, setting).ok()),
            up: addressing.was_up(),
            addressing: addressing.to_messages(),
            sysctls: sysctls(interface),
            index: addressing.index(),
            neighbours: route.static_neighbours(interface)?.to_messages(),
            disciplines: route.configured_disciplines(interface)?.to_messages(),
        })
    }

    pub fn has_ipv4(&self) -> bool {
        self.addressing().is_ok_and(|addressing| addressing.has_ipv4())
    }

    /// Its addresses and routes. Fails where a file had no such messages.
    pub fn addressing(&self) -> Result<Addressing, SysError> {
        Addressing::of_messages(&self.addressing, self.up, self.index)
            .map_err(|error| SysError::new("read the addresses of a record", "", error))
    }

    /// Restores the settings that differ. `moved` says that the interface was in another network
    /// namespace. Continues after a refusal, and returns all refusals.
    pub fn restore(&self, interface: &str, moved: bool) -> Vec<SysError> {
        let mut refused = Vec::new();
        let mut note = |result: Result<(), SysError>| refused.extend(result.err());
        let name = interface;
        let (mut route, mut ethtool) = match (RouteSocket::open(), Ethtool::open()) {
            (Ok(route), Ok(ethtool)) => (route, ethtool),
            (Err(error), _) | (_, Err(error)) => return vec![error],
        };
        let now = match route.link(name) {
            Ok(link) => link,
            Err(error) => return vec![error],
        };
        if let (Some(was), Ok(is)) = (self.channels, ethtool.channels(name)) {
            let changed = |was: u32, is: u32| (was != is).then_some(was);
            let [rx, tx, combined] =
                [changed(was[0], is.rx), changed(was[1], is.tx), changed(was[2], is.combined)];
            if rx.or(tx).or(combined).is_some() {
                note(ethtool.set_channels(name, rx, tx, combined));
            }
        }
        if now.mtu != self.mtu {
            note(route.set_mtu(name, self.mtu));
        }
        if now.tx_queue_length != self.tx_queue_length {
            note(route.set_tx_queue_length(name, self.tx_queue_length));
        }
        let napi = |off| sysfs::set_napi_where_it_differs(name, self.napi, off);
        napi(true).for_each(|(_, error)| note(Err(error)));
        if let Ok(current) = ethtool.features(name) {
            let wishes = wishes(&self.features, &current);
            if !wishes.is_empty() {
                note(ethtool.set_features(name, &wishes));
            }
        }
        napi(false).for_each(|(_, error)| note(Err(error)));
        self.restore_superframes(&mut route, name, &now, &mut note);
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
        restore_sysctls(&self.sysctls, &mut note);
        note(self.restore_addressing(&mut route, name, moved));
        note(self.restore_neighbours(&mut route, name));
        if moved {
            note(self.restore_disciplines(&mut route, name));
            note(self.check_addressing(&mut route, name));
        }
        refused
    }

    /// Restores the neighbours that a move, or an MTU below that of IPv6, has removed.
    fn restore_neighbours(&self, route: &mut RouteSocket, name: &str) -> Result<(), SysError> {
        let was = Neighbours::of_messages(&self.neighbours)
            .map_err(|error| SysError::new("read the neighbours of a record", "", error))?;
        route.restore_static_neighbours(name, &was)
    }

    fn restore_disciplines(&self, route: &mut RouteSocket, name: &str) -> Result<(), SysError> {
        let was = Disciplines::of_messages(&self.disciplines)
            .map_err(|error| SysError::new("read the disciplines of a record", "", error))?;
        match was.is_empty() {
            true => Ok(()),
            false => route.restore_disciplines(name, &was),
        }
    }

    /// Reads addresses and routes back: the kernel may have accepted a request without effect.
    fn check_addressing(&self, route: &mut RouteSocket, name: &str) -> Result<(), SysError> {
        let missing = self.addressing()?.missing_from(&route.addressing(name)?);
        match missing.first() {
            None => Ok(()),
            Some(what) => {
                let cause = std::io::Error::other(format!("{what} is missing after all steps"));
                Err(SysError::new("restore the addresses and routes of", name, cause))
            }
        }
    }

    fn restore_superframes(
        &self,
        route: &mut RouteSocket,
        name: &str,
        now: &Link,
        note: &mut impl FnMut(Result<(), SysError>),
    ) {
        if now.gso_max_segs != self.gso_max_segs {
            note(route.set_gso_max_segs(name, self.gso_max_segs));
        }
        let sizes = (self.gso_max_size, self.gso_ipv4_max_size);
        if (now.gso_max_size, now.gso_ipv4_max_size) != sizes {
            note(route.set_gso_max_sizes(name, sizes.0, sizes.1));
        }
        let sizes = (self.gro_max_size, self.gro_ipv4_max_size);
        if sizes.0 > 0 && (now.gro_max_size, now.gro_ipv4_max_size) != sizes {
            note(route.set_gro_max_sizes(name, sizes.0, sizes.1));
        }
    }

    /// Restores addresses and routes: all after a move. Otherwise only if an MTU or a driver has
    /// removed some, so that a user without privilege needs none.
    fn restore_addressing(
        &self,
        route: &mut RouteSocket,
        name: &str,
        moved: bool,
    ) -> Result<(), SysError> {
        let current = route.addressing(name)?;
        let is = current.clone().permanent().to_messages();
        let missing = |was: &[Vec<u8>], is: &[Vec<u8>]| was.len() > is.len();
        if moved
            || (self.up && !current.was_up())
            || (0..2).any(|kind| missing(&self.addressing[kind], &is[kind]))
        {
            route.restore_addressing(name, &self.addressing()?, true)?;
        }
        Ok(())
    }
}

/// The sysctls of an interface that can be read, by path.
fn sysctls(interface: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for directory in SYSCTLS {
        let below = format!("{directory}/{interface}");
        for entry in fs::read_dir(format!("/proc/sys/net/{below}")).into_iter().flatten().flatten()
        {
            let path = format!("{below}/{}", entry.file_name().to_string_lossy());
            // some can only be written
            if let Ok(value) = fs::read_to_string(format!("/proc/sys/net/{path}")) {
                found.insert(path, value);
            }
        }
    }
    found
}

fn restore_sysctls(was: &BTreeMap<String, String>, note: &mut impl FnMut(Result<(), SysError>)) {
    for (path, value) in was {
        let path = format!("/proc/sys/net/{path}");
        let is_same = || fs::read_to_string(&path).is_ok_and(|is| is == *value);
        if is_same() {
            continue;
        }
        match fs::write(&path, value) {
            // the kernel may have set it with another one meanwhile
            Err(error) if !is_same() => note(Err(SysError::new("write", &path, error))),
            _ => {}
        }
    }
}

/// Features whose wanted state differs from before, with the state before.
fn wishes<'a>(was: &'a BTreeMap<String, bool>, now: &Features) -> Vec<(&'a str, bool)> {
    was.iter()
        .filter(|(name, wanted)| now.get(name).is_some_and(|now| now.wanted != **wanted))
        .map(|(name, wanted)| (name.as_str(), *wanted))
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
        let was = [("tso".to_owned(), true), ("gro".to_owned(), false)].into();
        let now = features(&[("tso", false, true), ("gro", false, true), ("fixed", false, false)]);
        assert_eq!(wishes(&was, &now), [("tso", true)]);
        let same = features(&[("tso", true, true), ("gro", false, true)]);
        assert!(wishes(&was, &same).is_empty());
    }

    #[test]
    fn a_missing_interface_is_named() {
        let error = Settings::read("no-such-if").unwrap_err().to_string();
        assert!(error.contains("no-such-if"), "{error}");
    }

    #[test]
    fn settings_survive_a_file() {
        let settings = Settings::read("lo").unwrap();
        assert!(settings.has_ipv4() && !settings.sysctls.is_empty());
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
    }
}
