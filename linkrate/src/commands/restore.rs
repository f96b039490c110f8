//! `linkrate restore`: restores existing interfaces that a killed process has left changed.

use std::fmt::Write as _;

use linkrate_agent::existing::{Left, Outcome, TIMEOUT, restore_all};
use serde::Serialize;

use crate::args::RestoreArgs;
use crate::exit::{Exit, Failure};
use crate::output::print;

/// Version of the JSON document.
const RESTORE_FORMAT: u32 = 1;

#[derive(Serialize)]
struct Document {
    format: u32,
    interfaces: Vec<Restored>,
}

#[derive(Debug, Serialize)]
struct Restored {
    interface: String,
    /// `restored`, `in-use`, `gone` or `refused`.
    outcome: &'static str,
    /// Who uses it, or the settings that are not restored.
    detail: Option<String>,
}

impl From<Left> for Restored {
    fn from(left: Left) -> Self {
        let (outcome, detail) = match left.outcome {
            Outcome::Restored => ("restored", None),
            Outcome::InUse(holder) => ("in-use", Some(holder)),
            Outcome::Gone => ("gone", None),
            Outcome::Refused(refused) => {
                let reasons: Vec<String> = refused.iter().map(ToString::to_string).collect();
                ("refused", Some(reasons.join("; ")))
            }
        };
        Self { interface: left.interface, outcome, detail }
    }
}

/// Restores all interfaces of this network namespace, and prints what became of each.
pub fn run(arguments: &RestoreArgs) -> Result<Exit, Failure> {
    let left = restore_all(TIMEOUT)
        .map_err(|error| Failure::new(Exit::Failure, error.to_string()).with_hint(error.hint()))?;
    let interfaces: Vec<Restored> = left.into_iter().map(Restored::from).collect();
    let is_refused = interfaces.iter().any(|restored| restored.outcome == "refused");
    if arguments.json {
        let document = Document { format: RESTORE_FORMAT, interfaces };
        let text = serde_json::to_string_pretty(&document)
            .map_err(|error| Failure::new(Exit::Failure, format!("outcome as JSON: {error}")))?;
        print(&format!("{text}\n"))?;
    } else {
        print(&text(&interfaces))?;
    }
    Ok(if is_refused { Exit::Failure } else { Exit::Success })
}

fn text(interfaces: &[Restored]) -> String {
    if interfaces.is_empty() {
        return "no interface was left changed: nothing to restore\n".to_owned();
    }
    let mut text = String::new();
    for Restored { interface, outcome, detail } in interfaces {
        let detail = detail.as_deref().unwrap_or_default();
        // writing to a String does not fail
        let _ = match *outcome {
            "restored" => writeln!(text, "{interface}: restored"),
            "gone" => writeln!(text, "{interface}: no longer exists; its record is removed"),
            "in-use" => {
                writeln!(text, "{interface}: not restored: in use by {detail}, which restores it")
            }
            _ => writeln!(text, "{interface}: not restored: {detail}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interface_has_a_line() {
        let left = |interface: &str, outcome| Left { interface: interface.to_owned(), outcome };
        let all = [
            left("eth1", Outcome::Restored),
            left("eth2", Outcome::InUse("process 7 (linkrate agent)".to_owned())),
            left("eth3", Outcome::Gone),
        ];
        let all: Vec<Restored> = all.into_iter().map(Restored::from).collect();
        insta::assert_snapshot!(text(&all), @r"
        eth1: restored
        eth2: not restored: in use by process 7 (linkrate agent), which restores it
        eth3: no longer exists; its record is removed
        ");
        assert!(text(&[]).contains("nothing to restore"));
    }
}
