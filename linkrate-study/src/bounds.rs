//! Bounds of a study, wherever its parts come from.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Longest measurement, warm-up and idle run.
pub const MAX_RUN: Duration = Duration::from_secs(3600);
/// Shortest measurement, and shortest idle run unless there is none.
pub const MIN_RUN: Duration = Duration::from_millis(100);
/// Longest budget: a year.
pub const MAX_BUDGET: Duration = Duration::from_secs(24 * 366 * 3600);
/// Most blocks.
pub const MAX_BLOCKS: u32 = 10_000;
/// Most turns of the pairs of a fleet.
pub const MAX_TURNS: u32 = 100_000_000;
/// Confidence levels.
pub const CONFIDENCES: RangeInclusive<f64> = 0.5..=0.9999;
/// Half-widths to reach, as fractions.
pub const PRECISIONS: RangeInclusive<f64> = 0.0001..=1.0;
/// Most ports, and most clients behind each.
pub const MAX_PORTS: u32 = 16;
/// Most characters of a title.
pub const MAX_TITLE: usize = 200;
/// Longest name of the source of a published figure, characters.
pub const MAX_SOURCE: usize = 100;
/// Most tables of one kind in a study file: parts, published figures.
pub const MAX_FILE_TABLES: usize = 256;
/// Largest study file, in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;
/// Most levels of one factor.
pub const MAX_LEVELS: usize = 64;
/// Most cells of one study.
pub const MAX_CELLS: usize = 4096;
/// The papers whose published figures can stand beside the measured ones.
pub const PAPERS: [&str; 5] = ["tso", "ten-gigabit", "atm", "apa", "toe"];
/// What [`TestbedSpec::scale`](linkrate_model::TestbedSpec::scale) may be.
pub const SCALES: RangeInclusive<f64> = 0.001..=1.0;
/// [`SCALES`] in words.
pub const SCALE_EXPECTED: &str = "expected a number from 0.001 to 1, for example 0.1";
/// Most client hosts of a testbed. Each is a process with a namespace of its own.
pub const MAX_CLIENTS: u32 = 64;
