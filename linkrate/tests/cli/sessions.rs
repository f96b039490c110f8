//! The judge of `cargo xtask sessions`, on sessions of known spread.

use crate::common;
#[path = "../../benches/sessions/judge.rs"]
mod judge;

use crate::common::simulated::Set;
use judge::{Judgement, MAX_BETWEEN};
use serde_json::{Value, json};

/// Eight runs of a session at 95 % whose mean has this standard error.
fn interval(mean: f64, standard_error: f64, runs: u32) -> Value {
    let half = linkrate_stats::student_t::critical_value(0.95, f64::from(runs) - 1.0);
    let half = half * standard_error;
    json!({ "mean": mean, "low": mean - half, "high": mean + half })
}

/// The results of a session whose cost is this many standard errors of 1 % above 2 µs/KB.
fn session(errors: f64) -> Value {
    let cost = 2.0 * (1.0 + 0.01 * errors);
    json!({
        "interval_confidence": 0.95,
        "effect_interval_confidence": 0.95,
        "cells": [{
            "levels": { "offload": "tso" },
            "runs": 8,
            "throughput": interval(9.4e8, 9.4e5, 8),
            "service_demand": interval(cost, 0.02, 8),
        }],
        "effects": [{
            "from": "none",
            "to": "tso",
            "measure": "service_demand",
            "ratio": interval(0.5, 0.005, 6),
            "pairs": 6,
        }],
    })
}

#[test]
fn sessions_that_differ_by_chance_alone_pass() {
    let judged = Judgement::of(&[-1.0, -0.5, 0.0, 0.5, 1.0].map(session)).unwrap();
    let names: Vec<&str> = judged.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["none to tso, service_demand", "tso service_demand", "tso throughput"]);
    let cost = &judged.rows[1];
    assert!((cost.mean - 2.0).abs() < 1e-9 && (cost.within - 0.01).abs() < 1e-9, "{cost:?}");
    // the root of 2.5 over 4
    assert!((cost.between - 0.01 * 0.625_f64.sqrt()).abs() < 1e-9, "{cost:?}");
    assert_eq!((cost.outside, cost.compared), (0, 20));
    // a t variable with 7 degrees of freedom beyond 2.365 over the root of 2: 14 % of 20
    assert!((cost.expected - 2.8).abs() < 0.05, "{cost:?}");
    assert_eq!(judged.check(), Ok(()));
    let text = judged.to_string();
    assert!(text.contains("0 of 60 means outside the interval of another session, "), "{text}");
}

#[test]
fn sessions_that_differ_more_than_their_runs_explain_fail() {
    // 2.4 standard errors are outside an interval that reaches to 2.365
    let judged = Judgement::of(&[0.0, 0.0, 0.0, 0.0, 2.4].map(session)).unwrap();
    assert_eq!((judged.rows[1].outside, judged.rows[1].compared), (8, 20));
    assert_eq!(judged.check(), Ok(()));
    let far = Judgement::of(&[0.0, 0.0, 0.0, 0.0, 8.0].map(session)).unwrap();
    assert!(far.spread() > MAX_BETWEEN, "{far}");
    let reason = far.check().unwrap_err();
    assert!(reason.contains("expected at most 2: intervals do not cover"), "{reason}");
}

#[test]
fn one_session_and_a_figure_without_an_interval_are_no_pass() {
    assert!(Judgement::of(&[]).unwrap().check().is_err());
    let mut torn = session(0.0);
    torn["cells"][0]["service_demand"]["low"] = Value::Null;
    let error = Judgement::of(&[torn]).unwrap_err();
    assert!(error.starts_with("no number in "), "{error}");
    assert!(Judgement::of(&[json!({})]).is_err());
}

/// The keys that the judge reads are those that the program writes.
#[test]
fn results_of_the_program_are_judged() {
    const LADDER: &str = "title = \"t\"\n[testbed]\nadapter = \"gigabit\"\n[factors]\noffload = [\"none\", \
                          \"tso\"]\n[method]\nrun = \"1 s\"\nblocks = { min = 5, max = 5 }\n";
    let folder = tempfile::tempdir().unwrap();
    let document = |seed: u64| -> Value {
        let directory = folder.path().join(format!("session-{seed}"));
        Set { study: LADDER, seed, ..Set::default() }.store(&directory);
        let words = format!("report {} --json", directory.display());
        serde_json::from_str(&common::linkrate(&words).expect_code(0).stdout).unwrap()
    };
    let judged = Judgement::of(&[1, 2, 3].map(document)).unwrap();
    let names: Vec<&str> = judged.rows.iter().map(|row| row.name.as_str()).collect();
    let expected = [
        "none service_demand",
        "none throughput",
        "none to tso, service_demand",
        "none to tso, throughput",
        "tso service_demand",
        "tso throughput",
    ];
    assert_eq!(names, expected);
    assert!(judged.rows.iter().all(|row| row.compared == 6 && row.within > 0.0), "{judged}");
}
