//! VLANs of a switch's port as people write them: `access=10`, `trunk=10,20-29 native=1`.

use std::collections::BTreeMap;

use super::messages::{Refused, Setting};
use crate::backend::adapters::{VlanSet, Vlans, parse_vlan};

const ACCESS: &str = "access";
const TRUNK: &str = "trunk";
const NATIVE: &str = "native";
const KEYS: [&str; 3] = [ACCESS, TRUNK, NATIVE];

/// Reads VLANs; without settings the port is a member of all. Fails, too, for keys that exclude each other.
pub fn parse(settings: &[Setting]) -> Result<Vlans, Refused> {
    let (mut access, mut native) = (None, None);
    let mut tagged: Option<VlanSet> = None;
    for Setting { key, value } in settings {
        let refused = |error: String| Refused::wrong(format!("{key}: {error}"));
        let again = match key.as_str() {
            TRUNK => {
                let set = value.parse().map_err(|error| refused(format!("{error}")))?;
                tagged.replace(set).is_some()
            }
            ACCESS | NATIVE => {
                let vlan = parse_vlan(value).map_err(|error| refused(error.to_string()))?;
                if key == ACCESS { access.replace(vlan) } else { native.replace(vlan) }.is_some()
            }
            _ => return Err(Refused::unknown("key", key, KEYS)),
        };
        if again {
            return Err(refused("given twice; expected once".to_owned()));
        }
    }
    match (access, tagged, native) {
        (None, None, None) => Ok(Vlans::All),
        (Some(vlan), None, None) => Ok(Vlans::Access(vlan)),
        (None, Some(tagged), native) => Ok(Vlans::Trunk { tagged, native }),
        (None, None, Some(_)) => {
            Err(Refused::wrong("native without trunk: native belongs to a trunk")
                .with_hint("trunk=VLANS native=VLAN, or access=VLAN"))
        }
        (Some(_), ..) => Err(Refused::wrong("access cannot go with trunk or native")
            .with_hint("give access=VLAN, or trunk=VLANS with or without native=VLAN")),
    }
}

/// The VLANs as people write them; empty where a port is a member of all.
pub fn describe(vlans: &Vlans) -> BTreeMap<String, String> {
    let named = |key: &str, value: String| (key.to_owned(), value);
    match vlans {
        Vlans::All => BTreeMap::new(),
        Vlans::Access(vlan) => BTreeMap::from([named(ACCESS, vlan.to_string())]),
        Vlans::Trunk { tagged, native } => {
            let native = native.map(|vlan| named(NATIVE, vlan.to_string()));
            std::iter::once(named(TRUNK, tagged.to_string())).chain(native).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings(words: &str) -> Vec<Setting> {
        let words = words.split(' ').filter_map(|word| word.split_once('='));
        words.map(|(key, value)| Setting { key: key.into(), value: value.into() }).collect()
    }

    #[test]
    fn vlans_print_as_they_were_written() {
        for (words, shown) in [
            ("", ""),
            ("access=10", "access=10"),
            ("trunk=20-22,10,11", "trunk=10-11,20-22"),
            ("native=1 trunk=10", "native=1 trunk=10"),
        ] {
            let vlans = parse(&settings(words)).unwrap();
            let described: Vec<String> =
                describe(&vlans).iter().map(|(key, value)| format!("{key}={value}")).collect();
            assert_eq!(described.join(" "), shown);
            assert_eq!(parse(&settings(shown)), Ok(vlans));
        }
    }

    #[test]
    fn wrong_settings_are_refused_by_name() {
        for (words, said) in [
            ("acess=1", "unknown key \"acess\"; did you mean \"access\"?"),
            ("pvid=1", "unknown key \"pvid\"; expected one of access, trunk, native"),
            ("access=0", "access: invalid VLAN list \"0\""),
            ("trunk=5000", "trunk: invalid VLAN list \"5000\"; expected for example 10 or "),
            ("access=1 access=2", "access: given twice"),
            ("access=1 trunk=2", "access cannot go with trunk or native"),
            ("native=2", "native without trunk"),
        ] {
            let refused = parse(&settings(words)).unwrap_err().reason;
            assert!(refused.starts_with(said), "{words}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn any_words_are_vlans_or_refused(key in "[a-z]{0,8}", value in "[0-9,-]{0,12}") {
            for key in KEYS.map(str::to_owned).into_iter().chain([key]) {
                let given = [Setting { key, value: value.clone() }];
                if let Ok(vlans) = parse(&given) {
                    prop_assert!(!describe(&vlans).is_empty());
                }
            }
        }
    }
}
