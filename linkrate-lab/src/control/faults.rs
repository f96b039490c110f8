//! Faults of a segment as people write them: `loss=1% delay=1ms`.

use std::collections::BTreeMap;
use std::time::Duration;

use linkrate_model::units::{parse_duration, parse_percent};

use super::messages::{Refused, Setting};
use crate::backend::adapters::Faults;

type Share = fn(&mut Faults) -> &mut f64;
type Time = fn(&mut Faults) -> &mut Duration;

const SHARES: [(&str, Share); 9] = [
    ("loss", |faults| &mut faults.loss),
    ("corrupt", |faults| &mut faults.corrupt),
    ("fcs-error", |faults| &mut faults.fcs_error),
    ("duplicate", |faults| &mut faults.duplicate),
    ("reorder", |faults| &mut faults.reorder),
    ("header-error", |faults| &mut faults.header_error),
    ("double-header-error", |faults| &mut faults.double_header_error),
    ("payload-error", |faults| &mut faults.payload_error),
    ("misinsert", |faults| &mut faults.misinsert),
];

const TIMES: [(&str, Time); 2] =
    [("reorder-by", |faults| &mut faults.reorder_by), ("delay", |faults| &mut faults.delay)];

const SEED: &str = "seed";

/// Reads faults; faults that are not named are off. Fails, too, for faults that exclude each other.
pub fn parse(settings: &[Setting]) -> Result<Faults, Refused> {
    let mut faults = Faults::default();
    for Setting { key, value } in settings {
        let refused = |error: String| Refused::wrong(format!("{key}: {error}"));
        if let Some((_, share)) = SHARES.iter().find(|(name, _)| name == key) {
            *share(&mut faults) =
                parse_percent(value).map_err(|error| refused(error.to_string()))?;
        } else if let Some((_, time)) = TIMES.iter().find(|(name, _)| name == key) {
            *time(&mut faults) =
                parse_duration(value).map_err(|error| refused(error.to_string()))?;
        } else if key == SEED {
            faults.seed = value.parse().map_err(|_| {
                refused(format!("{value:?} is not a seed; expected a whole number"))
            })?;
        } else {
            return Err(Refused::unknown("fault", key, names()));
        }
    }
    faults.check().map_err(|error| Refused::wrong(error.to_string()))?;
    Ok(faults)
}

fn names() -> impl Iterator<Item = &'static str> {
    let shares = SHARES.iter().map(|(name, _)| *name);
    shares.chain(TIMES.iter().map(|(name, _)| *name)).chain([SEED])
}

/// The faults that are on, as people write them.
pub fn describe(faults: &Faults) -> BTreeMap<String, String> {
    let mut faults = *faults;
    let mut out = BTreeMap::new();
    for (name, share) in SHARES {
        let share = *share(&mut faults);
        if share > 0.0 {
            out.insert(name.to_owned(), format!("{} %", share * 100.0));
        }
    }
    if faults.delay > Duration::ZERO {
        out.insert("delay".to_owned(), written(faults.delay));
    }
    if faults.reorder > 0.0 {
        out.insert("reorder-by".to_owned(), written(faults.reorder_by));
    }
    if !out.is_empty() {
        out.insert(SEED.to_owned(), faults.seed.to_string());
    }
    out
}

/// As a user writes it, to the microsecond.
fn written(duration: Duration) -> String {
    match duration.as_micros() {
        us if us.is_multiple_of(1000) => format!("{} ms", us / 1000),
        us => format!("{us} us"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(words: &str) -> Result<BTreeMap<String, String>, String> {
        let settings: Vec<Setting> = words
            .split(' ')
            .filter_map(|word| word.split_once('='))
            .map(|(key, value)| Setting { key: key.to_owned(), value: value.to_owned() })
            .collect();
        parse(&settings).map(|faults| describe(&faults)).map_err(|refused| refused.reason)
    }

    #[test]
    fn faults_read_back_as_they_were_written() {
        assert_eq!(parsed("").unwrap(), BTreeMap::new());
        let faults = parsed("loss=1% delay=1ms reorder=0.5% reorder-by=150us seed=7").unwrap();
        let expected = [
            ("delay", "1 ms"),
            ("loss", "1 %"),
            ("reorder", "0.5 %"),
            ("reorder-by", "150 us"),
            ("seed", "7"),
        ];
        let found: Vec<_> = faults.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn any_words_are_faults_or_refused(key in "[a-z-]{0,12}", value in ".{0,20}") {
            let settings = names().map(str::to_owned).chain([key]);
            for key in settings {
                if let Ok(faults) = parse(&[Setting { key, value: value.clone() }]) {
                    prop_assert!(faults.check().is_ok());
                }
            }
        }
    }

    #[test]
    fn wrong_faults_are_refused_by_name() {
        for (words, said) in [
            ("los=1%", "unknown fault \"los\"; did you mean \"loss\"?"),
            ("jitter=1ms", "unknown fault \"jitter\"; expected one of loss, corrupt, fcs-error, "),
            ("loss=101%", "loss"),
            ("delay=1min", "delay is 60s, expected at most 10 s"),
            ("delay=soon", "delay: "),
            ("seed=-1", "seed: \"-1\" is not a seed; expected a whole number"),
        ] {
            let refused = parsed(words).unwrap_err();
            assert!(refused.starts_with(said), "{words}: {refused}");
        }
    }
}
