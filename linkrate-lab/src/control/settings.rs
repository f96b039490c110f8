//! Settings of a port as people write them, over what is set already.

use linkrate_study::keys::{self, KEYS, Setup};
use linkrate_study::levels::Level;
use linkrate_terms::knobs::{Change, Ends, KNOBS};
use linkrate_terms::nearest::did_you_mean;
use linkrate_terms::spec::Adapter;
use linkrate_terms::{InterfaceKnobs, Model, Offload, TestbedSpec};

use super::messages::{Refused, Setting};

/// Keys of the knobs that the ports at both ends of a link must share.
pub(super) fn shared() -> impl Iterator<Item = &'static str> {
    KNOBS.iter().filter(|knob| knob.ends == Ends::Both).map(|knob| knob.key)
}

/// Keys of the knobs that may change while traffic flows.
fn changeable() -> impl Iterator<Item = &'static str> {
    KNOBS.iter().filter(|knob| knob.change == Change::Live).map(|knob| knob.key)
}

/// What a port of `model` is to have once `settings` are made over `now`.
///
/// # Errors
/// A key that is no port's, a value that cannot be read, or one that the model does not allow.
pub fn over(
    now: &InterfaceKnobs,
    settings: &[Setting],
    model: &Model,
) -> Result<InterfaceKnobs, Refused> {
    let mut setup = Setup { interface: now.clone(), ..Setup::default() };
    let named = |key: &str| settings.iter().any(|setting| setting.key == key);
    for Setting { key, value } in settings {
        if !changeable().any(|known| known == key) {
            return Err(no_such(key));
        }
        keys::apply(&mut setup, key, &Level::Text(value.clone()))
            .map_err(|error| Refused::wrong(format!("{key}: {error}")))?;
    }
    if setup.interface.offload == Some(Offload::None) && !named("gso-max-size") {
        // what builds no superframes has no largest one
        setup.interface.gso_max_size = None;
    }
    let adapter = Adapter::Model(Box::new(model.clone()));
    let testbed = TestbedSpec { adapter, ..TestbedSpec::default() };
    keys::check(&setup, &testbed).map_err(|error| Refused::wrong(error.to_string()))?;
    Ok(setup.interface)
}

fn no_such(key: &str) -> Refused {
    let all = || changeable().collect::<Vec<_>>().join(", ");
    if KEYS.iter().any(|known| known.name == key) {
        return Refused::wrong(format!("{key} is a setting of a workload, not of a port"))
            .with_hint(format!("a port has {}", all()));
    }
    let tail = did_you_mean(key, changeable());
    let refused = Refused::wrong(format!("unknown setting {key:?}{tail}"));
    match tail.is_empty() {
        true => refused.with_hint(format!("expected one of {}", all())),
        false => refused,
    }
}

#[cfg(test)]
mod tests {
    use linkrate_terms::model;
    use proptest::prelude::*;

    use super::*;

    fn set(now: &InterfaceKnobs, words: &str) -> Result<InterfaceKnobs, String> {
        let settings: Vec<Setting> = words
            .split(' ')
            .filter_map(|word| word.split_once('='))
            .map(|(key, value)| Setting { key: key.to_owned(), value: value.to_owned() })
            .collect();
        over(now, &settings, &model::find("gigabit").unwrap()).map_err(|refused| refused.reason)
    }

    #[test]
    fn settings_go_over_what_is_set() {
        let fresh = InterfaceKnobs::default();
        let first = set(&fresh, "lro=on mtu=9000 gso-max-size=16000").unwrap();
        let second = set(&first, "lro=off offload=none").unwrap();
        assert_eq!((second.port.lro, second.mtu), (Some(false), Some(9000)));
        assert_eq!((first.gso_max_size, second.gso_max_size), (Some(16_000), None));
    }

    #[test]
    fn what_both_ends_share_can_be_changed() {
        let changeable: Vec<&str> = changeable().collect();
        assert!(shared().all(|key| changeable.contains(&key)));
        assert_eq!(shared().collect::<Vec<_>>(), ["mtu", "vlan", "snap", "adaptive-rx"]);
    }

    proptest! {
        #[test]
        fn any_words_are_settings_or_refused(key in "[a-z-]{0,12}", value in ".{0,20}") {
            let model = model::find("ten-gigabit").unwrap();
            for key in changeable().map(str::to_owned).chain([key]) {
                let setting = Setting { key, value: value.clone() };
                if let Ok(knobs) = over(&InterfaceKnobs::default(), &[setting], &model) {
                    prop_assert!(knobs.mtu.is_none_or(|mtu| mtu <= model.max_mtu));
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_says_why() {
        let fresh = InterfaceKnobs::default();
        for (words, said) in [
            ("lor=on", "unknown setting \"lor\"; did you mean \"lro\"?"),
            ("message=1", "message is a setting of a workload, not of a port"),
            ("lro=maybe", "lro: unknown value \"maybe\""),
            ("mtu=9600", "mtu 9600 is more than adapter gigabit takes; set at most 9000"),
            ("queues=4", "queues 4 is more than a port of adapter gigabit has; set at most 1"),
            ("gso-max-size=65535", "gso-max-size 65535 is more than the superframe"),
            ("snap=on", "snap on cannot go with mtu 1500"),
            ("offload=tso tx-checksum=off", "tx-checksum off cannot go with offload tso"),
        ] {
            let refused = set(&fresh, words).unwrap_err();
            assert!(refused.starts_with(said), "{words}: {refused}");
        }
        assert!(set(&fresh, "snap=on mtu=1492").is_ok());
    }
}
