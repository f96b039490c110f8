//! Facilities of Linux, tried in hosts of their own.

#[macro_use]
#[path = "../common/skip.rs"]
mod skip;
#[path = "../common/mod.rs"]
mod common;
mod hosts;
mod interfaces;
mod join;
mod known_work;
mod taps;

#[test]
fn a_test_knows_its_name() {
    assert_eq!(skip::test_path(), "a_test_knows_its_name");
}
