//! A connection under traffic in both directions moves down and up: every byte arrives, and nothing is
//! reset.

#[path = "../../linkrate-sys/tests/common/mod.rs"]
mod common;
mod wire;

/// How many moves down and up, and one frame in how many is lost (0: none).
fn cycles(default: u32) -> u32 {
    std::env::var("LINKRATE_TOE_MOVES").ok().and_then(|count| count.parse().ok()).unwrap_or(default)
}

#[test]
fn a_busy_connection_moves_without_a_wrong_byte() {
    common::run_inside("inside::without_loss");
}

#[test]
fn a_busy_connection_moves_under_loss() {
    common::run_inside("inside::with_little_loss");
    common::run_inside("inside::with_loss");
}

mod inside {
    use super::{common, cycles, wire};

    #[test]
    #[ignore = "runs in a host of its own"]
    fn without_loss() {
        if common::in_a_host() {
            wire::Testbed::new(0).carry(cycles(20));
        }
    }

    #[test]
    #[ignore = "runs in a host of its own"]
    fn with_little_loss() {
        if common::in_a_host() {
            wire::Testbed::new(333).carry(cycles(8));
        }
    }

    #[test]
    #[ignore = "runs in a host of its own"]
    fn with_loss() {
        if common::in_a_host() {
            wire::Testbed::new(50).carry(cycles(8));
        }
    }
}
