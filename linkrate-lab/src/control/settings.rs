//! Knobs of a port as people write them (`lro=on`), applied to the knobs that are set.

use linkrate_model::knobs::{self, Ends, KNOBS, Owner};
use linkrate_model::model::LinkKind;
use linkrate_model::nearest::{did_you_mean, nearest};
use linkrate_model::spec::Adapter;
use linkrate_model::{InterfaceKnobs, Model, Offload, TestbedSpec};
use linkrate_study::keys::{self, KEYS, Setup};
use linkrate_study::levels::Level;

use super::messages::{Refused, Setting};

/// Keys of the knobs that the ports at both ends of a link must share.
pub(super) fn shared() -> impl Iterator<Item = &'static str> {
    KNOBS.iter().filter(|knob| knob.ends == Ends::Both).map(|knob| knob.key)
}

/// The knobs of a port of `model` after `settings`, where `now` are the knobs before. The port is an
/// aggregate of `aggregate` ports, or none where that is 0. Fails for an unknown key, and for a value that the knob or
/// the model does not allow.
pub fn over(
    now: &InterfaceKnobs,
    settings: &[Setting],
    model: &Model,
    aggregate: usize,
) -> Result<InterfaceKnobs, Refused> {
    let mut setup = Setup { interface: now.clone(), ..Setup::default() };
    let named = |key: &str| settings.iter().any(|setting| setting.key == key);
    for Setting { key, value } in settings {
        let knob = knobs::find(key).ok_or_else(|| unknown(key))?;
        if aggregate == 0 && knob.owner == Owner::Aggregate {
            let reason = format!("{key} is a knob of an aggregate, and this is a single port");
            return Err(Refused::wrong(reason).with_hint("linkrate lab up --aggregate 2"));
        }
        if model.link != LinkKind::Atm && knob.owner == Owner::Atm {
            let reason = format!("{key} is a knob of an ATM port, and {} has none", model.name);
            return Err(Refused::wrong(reason).with_hint("linkrate lab up --adapter atm-622"));
        }
        keys::apply(&mut setup, key, &Level::Text(value.clone())).map_err(|error| {
            let (message, remedy) = error.parts("value");
            let remedy = remedy.map_or(String::new(), |remedy| format!("; {remedy}"));
            Refused::wrong(format!("{key}: {message}{remedy}")).with_hint(knob.hint())
        })?;
    }
    if setup.interface.offload == Some(Offload::None) && !named("gso-max-size") {
        // without superframes there is no largest superframe
        setup.interface.gso_max_size = None;
    }
    if setup.interface.gro != Some(true) && !named("gro-max-size") {
        // the same without GRO
        setup.interface.gro_max_size = None;
    }
    let adapter = Adapter::Model(Box::new(model.clone()));
    let aggregate = u32::try_from(aggregate).unwrap_or(u32::MAX);
    let testbed = TestbedSpec { adapter, aggregate, ..TestbedSpec::default() };
    keys::check(&setup, &testbed).map_err(|error| Refused::wrong(error.to_string()))?;
    Ok(setup.interface)
}

fn unknown(key: &str) -> Refused {
    let keys = || KNOBS.iter().map(|knob| knob.key);
    let all = || format!("expected one of {}", keys().collect::<Vec<_>>().join(", "));
    if KEYS.iter().any(|known| known.name == key) {
        return Refused::wrong(format!("{key} is a setting of a workload, not of a port"))
            .with_hint(all());
    }
    let refused = Refused::wrong(format!("unknown knob {key:?}{}", did_you_mean(key, keys())));
    match nearest(key, keys()).and_then(knobs::find) {
        Some(knob) => refused.with_hint(knob.hint()),
        None => refused.with_hint(all()),
    }
}

#[cfg(test)]
mod tests {
    use linkrate_model::model;
    use proptest::prelude::*;

    use super::*;

    fn set(now: &InterfaceKnobs, words: &str) -> Result<InterfaceKnobs, String> {
        let settings: Vec<Setting> = words
            .split(' ')
            .filter_map(|word| word.split_once('='))
            .map(|(key, value)| Setting { key: key.to_owned(), value: value.to_owned() })
            .collect();
        over(now, &settings, &model::find("gigabit").unwrap(), 0).map_err(|refused| refused.reason)
    }

    #[test]
    fn settings_go_over_what_is_set() {
        let fresh = InterfaceKnobs::default();
        let first = set(&fresh, "lro=on mtu=9000 gso-max-size=16000").unwrap();
        let second = set(&first, "lro=off offload=none").unwrap();
        assert_eq!((second.port.lro, second.mtu), (Some(false), Some(9000)));
        assert_eq!((first.gso_max_size, second.gso_max_size), (Some(16_000), None));
        let first = set(&fresh, "gro=on gro-max-size=185000").unwrap();
        let second = set(&first, "gro=off").unwrap();
        assert_eq!((first.gro_max_size, second.gro_max_size), (Some(185_000), None));
    }

    #[test]
    fn what_both_ends_share_can_be_changed() {
        assert_eq!(shared().collect::<Vec<_>>(), ["mtu", "vlan", "snap", "adaptive-rx"]);
    }

    proptest! {
        #[test]
        fn any_words_are_settings_or_refused(key in "[a-z-]{0,12}", value in ".{0,20}") {
            let model = model::find("ten-gigabit").unwrap();
            for key in KNOBS.iter().map(|knob| knob.key.to_owned()).chain([key]) {
                let setting = Setting { key, value: value.clone() };
                if let Ok(knobs) = over(&InterfaceKnobs::default(), &[setting], &model, 0) {
                    prop_assert!(knobs.mtu.is_none_or(|mtu| mtu <= model.max_mtu));
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_says_why() {
        let fresh = InterfaceKnobs::default();
        for (words, said) in [
            ("lor=on", "unknown knob \"lor\"; did you mean \"lro\"?"),
            ("message=1", "message is a setting of a workload, not of a port"),
            ("lro=maybe", "lro: unknown value \"maybe\""),
            ("mtu=9600", "mtu 9600 is above the maximum of adapter gigabit; set at most 9000"),
            ("queues=4", "queues 4 is above the maximum of adapter gigabit; set at most 1"),
            ("gso-max-size=65535", "gso-max-size 65535 is above the superframe"),
            ("gro-max-size=185000", "gro-max-size 185000 has no effect without GRO"),
            ("snap=on", "snap on cannot be combined with mtu 1500"),
            ("offload=tso tx-checksum=off", "tx-checksum off cannot be combined with offload tso"),
        ] {
            let refused = set(&fresh, words).unwrap_err();
            assert!(refused.starts_with(said), "{words}: {refused}");
        }
        assert!(set(&fresh, "snap=on mtu=1492").is_ok());
    }

    #[test]
    fn a_refusal_names_the_nearest_key_the_owner_and_the_range() {
        let model = model::find("gigabit").unwrap();
        for (key, value, reason, hint) in [
            (
                "tx-usec",
                "50",
                "unknown knob \"tx-usec\"; did you mean \"tx-usecs\"?",
                "the port obeys tx-usecs, which takes a whole number of microseconds from 0 to 10000",
            ),
            (
                "tx-usecs",
                "20000",
                "tx-usecs: 20000 is out of range; expected a whole number of microseconds from 0 to \
                 10000",
                "the port obeys tx-usecs, which takes a whole number of microseconds from 0 to 10000",
            ),
            (
                "tx-usecs",
                "50us",
                "tx-usecs: \"50us\" is not a valid value; expected a whole number of microseconds \
                 from 0 to 10000",
                "the port obeys tx-usecs, which takes a whole number of microseconds from 0 to 10000",
            ),
            (
                "steering",
                "rrs",
                "steering: unknown value \"rrs\"; did you mean \"rss\"?",
                "the port obeys steering, which takes one of off, rss, destination-port",
            ),
            (
                "mtu",
                "67",
                "mtu: 67 B is out of range; expected a size from 68 B to 65535 B",
                "the kernel obeys mtu, which takes a size from 68 B to 65535 B",
            ),
            (
                "adaptive-rx",
                "auto",
                "adaptive-rx: unknown value \"auto\"; expected on or off",
                "the port obeys adaptive-rx, which takes on or off",
            ),
        ] {
            let setting = Setting { key: key.to_owned(), value: value.to_owned() };
            let refused = over(&InterfaceKnobs::default(), &[setting], &model, 0).unwrap_err();
            assert_eq!((refused.reason.as_str(), refused.hint.as_deref()), (reason, Some(hint)));
        }
        let setting = Setting { key: "colour".to_owned(), value: "red".to_owned() };
        let refused = over(&InterfaceKnobs::default(), &[setting], &model, 0).unwrap_err();
        assert_eq!(refused.reason, "unknown knob \"colour\"");
        let hint = refused.hint.unwrap();
        assert!(KNOBS.iter().all(|knob| hint.contains(knob.key)), "{hint}");
    }
}
