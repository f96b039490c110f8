//! The VLANs of a switch's port, and their tags (IEEE 802.1Q).

use std::fmt;
use std::str::FromStr;

/// The default VLAN of frames without a tag.
pub const DEFAULT_VLAN: u16 = 1;

/// VLANs that can be used; 0 is a priority without a VLAN, 4095 is reserved.
const VIDS: std::ops::RangeInclusive<u16> = 1..=4094;

/// The VLANs that a port of a switch is a member of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Vlans {
    /// Every VLAN; frames leave as they came. A switch without a configuration.
    #[default]
    All,
    /// One VLAN, whose frames have no tag here.
    Access(u16),
    /// VLANs whose frames have a tag here, and at most one VLAN whose frames have no tag.
    Trunk { tagged: VlanSet, native: Option<u16> },
}

/// The tag that a frame must leave with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tagging {
    /// The tag that it came with.
    AsItCame,
    Tagged,
    Untagged,
}

impl Vlans {
    /// The VLAN of a frame that comes in with a tag of VLAN `tag`, or none; `None` when the port is
    /// no member of it, and the frame is to be dropped (ingress filtering, 802.1Q 8.6.2).
    pub(crate) fn of_incoming(&self, tag: Option<u16>) -> Option<u16> {
        let tag = tag.filter(|vlan| *vlan != 0);
        match self {
            Self::All => Some(tag.unwrap_or(DEFAULT_VLAN)),
            Self::Access(own) => Some(tag.unwrap_or(*own)).filter(|vlan| vlan == own),
            Self::Trunk { tagged, native } => match tag {
                Some(vlan) => Some(vlan).filter(|vlan| self.is_native(*vlan) || tagged.has(*vlan)),
                None => *native,
            },
        }
    }

    /// How a frame of `vlan` that came with a tag of VLAN `tag`, or none, leaves; `None` when the
    /// port is no member.
    pub(crate) fn of_outgoing(&self, vlan: u16, tag: Option<u16>) -> Option<Tagging> {
        match self {
            Self::All => Some(match tag {
                Some(tag) if tag == vlan => Tagging::AsItCame,
                _ if vlan == DEFAULT_VLAN => Tagging::AsItCame,
                _ => Tagging::Tagged,
            }),
            Self::Access(own) => (vlan == *own).then_some(Tagging::Untagged),
            Self::Trunk { .. } if self.is_native(vlan) => Some(Tagging::Untagged),
            Self::Trunk { tagged, .. } => tagged.has(vlan).then_some(Tagging::Tagged),
        }
    }

    fn is_native(&self, vlan: u16) -> bool {
        matches!(self, Self::Trunk { native: Some(native), .. } if *native == vlan)
    }
}

/// A set of VLANs, written as `10,20-29`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VlanSet(Box<[u64; 64]>);

/// A text that is not a VLAN list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid VLAN list {given:?}; expected for example 10 or 10,20-29, each 1 to 4094")]
pub struct VlanError {
    given: String,
}

impl VlanError {
    fn of(given: &str) -> Self {
        Self { given: given.chars().take(40).collect() }
    }
}

impl VlanSet {
    #[must_use]
    pub fn has(&self, vlan: u16) -> bool {
        self.0.get(usize::from(vlan / 64)).is_some_and(|word| word >> (vlan % 64) & 1 == 1)
    }

    fn add(&mut self, vlan: u16) {
        if let Some(word) = self.0.get_mut(usize::from(vlan / 64)) {
            *word |= 1 << (vlan % 64);
        }
    }
}

/// Fails unless `given` is a number from 1 to 4094.
pub fn parse_vlan(given: &str) -> Result<u16, VlanError> {
    let vlan = given.trim().parse().ok().filter(|vlan| VIDS.contains(vlan));
    vlan.ok_or_else(|| VlanError::of(given))
}

impl FromStr for VlanSet {
    type Err = VlanError;

    fn from_str(given: &str) -> Result<Self, VlanError> {
        let mut all = Self(Box::new([0; 64]));
        for part in given.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let wrong = |_| VlanError::of(given);
            let (first, last) =
                (parse_vlan(first).map_err(wrong)?, parse_vlan(last).map_err(wrong)?);
            if first > last {
                return Err(VlanError::of(given));
            }
            (first..=last).for_each(|vlan| all.add(vlan));
        }
        Ok(all)
    }
}

impl fmt::Display for VlanSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut vlans = VIDS.filter(|vlan| self.has(*vlan)).peekable();
        let mut comma = "";
        while let Some(first) = vlans.next() {
            let mut last = first;
            while let Some(next) = vlans.next_if(|next| *next == last + 1) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trunk(tagged: &str, native: Option<u16>) -> Vlans {
        Vlans::Trunk { tagged: tagged.parse().unwrap(), native }
    }

    #[test]
    fn incoming_frames_belong_to_the_vlan_of_their_tag_or_port() {
        for (vlans, tag, vlan) in [
            (Vlans::All, None, Some(1)),
            (Vlans::All, Some(0), Some(1)),
            (Vlans::All, Some(4094), Some(4094)),
            (Vlans::Access(7), None, Some(7)),
            (Vlans::Access(7), Some(0), Some(7)),
            (Vlans::Access(7), Some(7), Some(7)),
            (Vlans::Access(7), Some(8), None),
            (trunk("7,9-11", None), None, None),
            (trunk("7,9-11", Some(3)), None, Some(3)),
            (trunk("7,9-11", Some(3)), Some(3), Some(3)),
            (trunk("7,9-11", None), Some(10), Some(10)),
            (trunk("7,9-11", None), Some(8), None),
            (trunk("7,9-11", None), Some(4095), None),
        ] {
            assert_eq!(vlans.of_incoming(tag), vlan, "{vlans:?} {tag:?}");
        }
    }

    #[test]
    fn who_may_go_out_and_with_which_tag() {
        for (vlans, vlan, tag, tagging) in [
            (Vlans::All, 1, None, Some(Tagging::AsItCame)),
            (Vlans::All, 1, Some(1), Some(Tagging::AsItCame)),
            (Vlans::All, 7, Some(7), Some(Tagging::AsItCame)),
            (Vlans::All, 7, None, Some(Tagging::Tagged)),
            (Vlans::All, 7, Some(0), Some(Tagging::Tagged)),
            (Vlans::Access(7), 7, Some(7), Some(Tagging::Untagged)),
            (Vlans::Access(7), 1, None, None),
            (trunk("7", Some(3)), 7, None, Some(Tagging::Tagged)),
            (trunk("7", Some(3)), 3, Some(3), Some(Tagging::Untagged)),
            (trunk("7", Some(7)), 7, Some(7), Some(Tagging::Untagged)),
            (trunk("7", None), 3, None, None),
        ] {
            assert_eq!(vlans.of_outgoing(vlan, tag), tagging, "{vlans:?} {vlan} {tag:?}");
        }
    }

    #[test]
    fn what_is_no_list_of_vlans_is_refused() {
        for bad in ["", "0", "4095", "65536", "x", "1,", "9-7", "1-", "-1", "1--2", "1;2"] {
            assert!(bad.parse::<VlanSet>().is_err(), "{bad}");
        }
        assert_eq!("1-4094".parse::<VlanSet>().unwrap().to_string(), "1-4094");
    }

    proptest! {
        #[test]
        fn sets_are_written_as_they_are_read(
            vlans in prop::collection::btree_set(1u16..=4094, 1..60),
            near in 1u16..4000,
        ) {
            let listed: Vec<String> =
                vlans.iter().chain(&[near, near + 1]).map(u16::to_string).collect();
            let set: VlanSet = listed.join(",").parse().unwrap();
            prop_assert_eq!(&set.to_string().parse::<VlanSet>().unwrap(), &set);
            for vlan in 0..=u16::MAX {
                let among = vlans.contains(&vlan) || vlan == near || vlan == near + 1;
                prop_assert_eq!(set.has(vlan), among);
            }
        }

        #[test]
        fn any_text_is_vlans_or_refused(text in "[0-9,-]{0,16}") {
            if let Ok(set) = text.parse::<VlanSet>() {
                prop_assert!(!set.has(0) && !set.has(4095));
            }
        }
    }
}
