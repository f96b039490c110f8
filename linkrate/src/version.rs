//! Which linkrate this is: its version, the commit that it is built from, and its build. The build
//! script tells the last two.

/// The version and the commit, for `-V`.
pub const SHORT: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("LINKRATE_COMMIT"), ")");

/// A line each for the version, the commit and the build, for `--version`.
pub const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("LINKRATE_COMMIT"),
    "\nbuild:  ",
    env!("LINKRATE_BUILD"),
);
