//! `linkrate doctor`, whatever the host it runs on.

use std::process::{Command, Output};

use serde_json::Value;

fn doctor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linkrate"))
        .arg("doctor")
        .args(arguments)
        .output()
        .expect("the built program runs")
}

#[test]
fn every_finding_that_is_not_good_has_a_remedy() {
    let output = doctor(&["--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["format"], 1);
    let findings = document["findings"].as_array().unwrap();
    let state = |name: &str| {
        let finding = findings.iter().find(|finding| finding["name"] == name);
        finding.map(|finding| finding["state"].as_str().unwrap().to_owned())
    };
    for finding in findings {
        let remedy = finding["remedy"].as_str();
        match finding["state"].as_str() {
            Some("good") => assert_eq!(remedy, None, "{finding}"),
            Some("limited" | "missing") => assert!(!remedy.unwrap().is_empty(), "{finding}"),
            _ => panic!("no such state: {finding}"),
        }
        assert!(!finding["detail"].as_str().unwrap().is_empty(), "{finding}");
    }
    let can_measure = document["can_measure"].as_bool().unwrap();
    assert_eq!(can_measure, state("testbed").unwrap() != "missing");
    assert_eq!(output.status.code(), Some(if can_measure { 0 } else { 3 }), "{output:?}");
    if can_measure {
        for name in ["isolation", "steering", "placement", "idle-time", "background", "congestion"]
        {
            assert!(state(name).is_some(), "{name}");
        }
    }
}

#[test]
fn people_get_a_line_for_each_and_a_summary() {
    let output = doctor(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains('\u{1b}'), "a pipe gets no colour");
    let summary = text.lines().last().unwrap();
    match output.status.code() {
        Some(0) => assert!(summary.starts_with("This host can measure"), "{text}"),
        Some(3) => assert!(text.contains("This host cannot measure"), "{text}"),
        other => panic!("{other:?}: {text}"),
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn a_host_without_namespaces_cannot_measure_and_says_what_would_help() {
    // a user who may have no namespaces: the limit is inherited, and only this child's
    let Some(output) = without_namespaces() else { return };
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &document["can_measure"]), (Some(3), &Value::Bool(false)));
    let findings = document["findings"].as_array().unwrap();
    let find = |name| findings.iter().find(|finding| finding["name"] == name).unwrap();
    assert_eq!([&find("isolation")["state"], &find("testbed")["state"]], ["missing", "missing"]);
    let remedy = find("isolation")["remedy"].as_str().unwrap();
    assert!(remedy.contains("sysctl -w user.max_user_namespaces"), "{remedy}");
}

/// Runs the doctor in a user namespace that may have no further ones. `None` where no such
/// namespace can be made.
fn without_namespaces() -> Option<Output> {
    let script = r#"echo 0 > /proc/sys/user/max_user_namespaces &&
        echo 0 > /proc/sys/user/max_net_namespaces && exec "$0" doctor --json"#;
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_linkrate"))
        .output()
        .ok()?;
    let ran = matches!(output.status.code(), Some(0 | 3)) && output.stdout.starts_with(b"{");
    if !ran {
        println!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    ran.then_some(output)
}
