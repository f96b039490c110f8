//! Every setting of a cell as an option of its own, from the table that study files use.

use clap::{ArgMatches, Args, FromArgMatches};
use linkrate_study::keys::{KEYS, Key, Values};

/// Whether a key is an option of a single workload: a label only tells cells apart, and the adapter
/// is an option of the testbed.
fn is_setting(key: &Key) -> bool {
    !matches!(key.values, Values::Label(_) | Values::Model(_))
}

/// Every setting of a cell as an option of its own, from the table that study files use.
#[derive(Debug, Default)]
pub struct Settings(pub Vec<(&'static str, String)>);

impl Args for Settings {
    fn augment_args(mut command: clap::Command) -> clap::Command {
        for key in KEYS.iter().filter(|key| is_setting(key)) {
            let expected = key.values.expected();
            command = command.arg(
                clap::Arg::new(key.name)
                    .long(key.name)
                    // refused with what would be right, not taken for an option
                    .allow_negative_numbers(true)
                    .help(format!("{} [{expected}]", key.help))
                    .value_name(key.values.placeholder())
                    .help_heading("Settings"),
            );
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
