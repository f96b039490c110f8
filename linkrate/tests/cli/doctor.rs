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
        assert!(state("parts").is_some());
        assert!(state("napi").is_some() || state("tun").unwrap() == "missing");
    }
}

#[test]
fn people_get_a_line_for_each_and_a_summary() {
    let output = doctor(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains('\u{1b}'), "a pipe gets no colour");
    assert!(text.starts_with("Can it measure\n") && text.contains("\n\nHow it could be tuned\n"));
    assert!(text.contains("Nothing was changed"), "{text}");
    match output.status.code() {
        Some(0) => assert!(text.starts_with("Can it measure\n\nThis host can measure"), "{text}"),
        Some(3) => {
            assert!(text.starts_with("Can it measure\n\nThis host cannot measure"), "{text}")
        }
        other => panic!("{other:?}: {text}"),
    }
    // commands stay in one piece
    let wide = |line: &&str| line.chars().count() > 100 && !line.starts_with("  run ");
    assert_eq!(text.lines().find(wide), None, "{text}");
}

#[test]
fn prints_either_half_alone() {
    let only = |argument: &str| -> Value {
        let output = doctor(&["--json", argument]);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let measure = only("check");
    assert!(measure["findings"].is_array() && measure["tuning"].is_null(), "{measure}");
    let tuning = only("tune");
    assert!(tuning["findings"].is_null() && tuning["can_measure"].is_null(), "{tuning}");
    assert!(!tuning["tuning"].as_array().unwrap().is_empty());
    assert_eq!(doctor(&["tune"]).status.code(), Some(0), "advice is no failure");
}

#[test]
fn advice_has_evidence_a_cost_and_a_remedy() {
    let output = doctor(&["tune", "--json", "--round-trip", "150 ms"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for advice in document["tuning"].as_array().unwrap() {
        let state = advice["state"].as_str().unwrap();
        let asks = state == "improve" || state == "consider";
        assert!(asks || state == "good" || state == "unseen", "{advice}");
        assert_eq!(advice["cost"].is_object(), asks, "{advice}");
        let commands = advice["commands"].as_array().unwrap();
        assert!(!asks || !commands.is_empty() || advice["note"].is_string(), "{advice}");
        assert!(!asks || !advice["evidence"].as_array().unwrap().is_empty(), "{advice}");
    }
}

#[test]
fn refuses_wrong_arguments_before_any_work() {
    for (arguments, word) in [
        (&["tune", "--interface", "no-such-if"][..], "no interface \"no-such-if\""),
        (&["tune", "--round-trip", "12"][..], "--round-trip"),
        (&["check", "--interface", "eth0"][..], "unexpected argument"),
    ] {
        let output = doctor(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(word), "{error}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_host_without_namespaces_cannot_measure_and_gets_a_remedy() {
    // a user who may have no namespaces: the limit is inherited, and only this child's
    let output = or_skip!(without_namespaces());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &document["can_measure"]), (Some(3), &Value::Bool(false)));
    let findings = document["findings"].as_array().unwrap();
    let find = |name| findings.iter().find(|finding| finding["name"] == name).unwrap();
    assert_eq!([&find("isolation")["state"], &find("testbed")["state"]], ["missing", "missing"]);
    let remedy = find("isolation")["remedy"].as_str().unwrap();
    assert!(remedy.contains("sysctl -w user.max_user_namespaces"), "{remedy}");
}

/// Runs the doctor in a user namespace that may have no further ones, if such a namespace can be made.
fn without_namespaces() -> Result<Output, String> {
    let script = r#"echo 0 > /proc/sys/user/max_user_namespaces &&
        echo 0 > /proc/sys/user/max_net_namespaces && exec "$0" doctor --json"#;
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_linkrate"))
        .output()
        .map_err(|error| format!("unshare: {error}; apt-get install util-linux"))?;
    let ran = matches!(output.status.code(), Some(0 | 3)) && output.stdout.starts_with(b"{");
    if !ran {
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        return Err(format!("no user namespace with limits of its own: {said}"));
    }
    Ok(output)
}
