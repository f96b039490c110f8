//! Every setting of a cell as an option of its own, from the table that study files use, with the letters that users of
//! iperf3 and netperf know.

use std::ffi::OsString;

use clap::{ArgMatches, Args, FromArgMatches};
use linkrate_model::knobs::{Knob, Owner};
use linkrate_study::keys::{KEYS, Key, Values};

use crate::program;

/// Whether a key is an option of a single workload: a label only tells cells apart, and the adapter
/// is an option of the testbed.
fn is_setting(key: &Key) -> bool {
    !matches!(key.values, Values::Label(_) | Values::Model(_))
}

/// Headings of the help, each with its settings. Those of knobs of an aggregate and of an ATM port follow from their
/// owners.
const HEADINGS: [(&str, &str); 6] = [
    (
        "Traffic",
        "kind direction connections clients ports message request response transfer burst request-rate files tree \
         directory cache drives drive-rate load loss",
    ),
    (
        "Sockets and calls",
        "socket congestion nodelay family send-path receive-path working-set receive-batching udp-segment udp-gro \
         cpu-binding",
    ),
    (
        "Offloads and queues",
        "offload merge gro gro-list udp-gro-forwarding lro client-lro tx-checksum rx-checksum mtu gso-max-size \
         gro-max-size txqueuelen queues steering vlan snap",
    ),
    (
        "Interrupts",
        "rx-usecs rx-frames tx-usecs adaptive-rx threaded napi-defer-hard-irqs gro-flush-timeout",
    ),
    ("Failure within the run", "event event-at event-recover"),
    ("TCP offload engine", "toe toe-after toe-age toe-max toe-idle"),
];

/// The letters of iperf3 and netperf.
const LETTERS: [(&str, char); 5] = [
    ("connections", 'P'),
    ("message", 'l'),
    ("socket", 'w'),
    ("congestion", 'C'),
    ("nodelay", 'N'),
];

/// What most people use, with a help of few words: the others are in `--help` alone.
const COMMON: [(&str, &str); 5] = [
    ("connections", "Connections per client"),
    ("message", "Bytes per send() call, or payload of a datagram"),
    ("offload", "Transmit offload"),
    ("mtu", "Largest IP packet"),
    ("congestion", "Congestion control"),
];

/// Headings of settings that few adapters have.
const OF_FEW: [&str; 3] = ["Aggregates", "ATM", "TCP offload engine"];

/// Whether help has the settings of all adapters: where one is named, and where all are asked for.
fn shows_all() -> bool {
    let is_it = |word: &OsString| {
        let word = word.to_string_lossy();
        word == "--help-all" || word == "--adapter" || word.starts_with("--adapter=")
    };
    program::words().iter().any(is_it)
}

fn heading(key: &Key) -> &'static str {
    match key.values {
        Values::Knob(Knob { owner: Owner::Aggregate, .. }) => "Aggregates",
        Values::Knob(Knob { owner: Owner::Atm, .. }) => "ATM",
        _ => {
            let is_of = |keys: &str| keys.split(' ').any(|name| name == key.name);
            let of = HEADINGS.iter().find(|(_, keys)| is_of(keys));
            of.map_or("Settings", |(heading, _)| heading)
        }
    }
}

/// Every setting of a cell as an option of its own, from the table that study files use.
#[derive(Debug, Default)]
pub struct Settings(pub Vec<(&'static str, String)>);

impl Args for Settings {
    fn augment_args(mut command: clap::Command) -> clap::Command {
        let shows_all = shows_all();
        for key in KEYS.iter().filter(|key| is_setting(key)) {
            let expected = key.values.expected();
            let short = COMMON.iter().find(|(name, _)| *name == key.name).map(|(_, help)| *help);
            let heading = heading(key);
            let mut option = clap::Arg::new(key.name)
                .long(key.name)
                // refused with what would be right, not taken for an option
                .allow_negative_numbers(true)
                .help(short.unwrap_or(key.help))
                .long_help(format!("{} [{expected}]", key.help))
                .value_name(key.values.placeholder())
                .hide_short_help(short.is_none())
                .hide_long_help(OF_FEW.contains(&heading) && !shows_all);
            // what most people use stands before all headings
            option = option.help_heading(short.is_none().then_some(heading));
            if let Some((_, letter)) = LETTERS.iter().find(|(name, _)| *name == key.name) {
                option = option.short(*letter);
            }
            if key.values.is_switch() {
                option = option.num_args(0..=1).default_missing_value("on");
            }
            command = command.arg(option);
        }
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = KEYS
            .iter()
            .filter(|key| is_setting(key))
            .filter_map(|key| Some((key.name, matches.get_one::<String>(key.name)?.clone())));
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use linkrate_study::keys;

    use super::*;

    #[test]
    fn every_setting_has_a_heading_and_every_name_is_one() {
        for key in KEYS.iter().filter(|key| is_setting(key)) {
            assert_ne!(heading(key), "Settings", "{}", key.name);
        }
        let named = HEADINGS.iter().flat_map(|(_, keys)| keys.split(' '));
        let named = named.chain(LETTERS.iter().map(|(name, _)| *name));
        for name in named.chain(COMMON.iter().map(|(name, _)| *name)) {
            assert!(keys::get(name).is_some(), "{name}");
        }
    }
}
