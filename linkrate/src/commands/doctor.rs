//! `linkrate doctor`: what this host can measure, how it could be tuned (`tuning`), and how exactly
//! its CPU meters measure (`self_test`).

mod self_test;
mod tuning;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use linkrate_doctor::tuning::Advice;
use linkrate_doctor::{Finding, State, can_emulate, can_measure, examine};
use serde::Serialize;

use crate::args::{DoctorArgs, DoctorJob, TuneArgs};
use crate::exit::{self, Exit, Failure};
use crate::interrupt;
use crate::output::{PIPE_WIDTH, print, terminal_style, wrap};
use crate::program::this_program;

/// Version of the JSON document.
const DOCTOR_FORMAT: u32 = 1;

/// Columns of the longest state word.
const STATE_WIDTH: usize = 7;

/// A part that was not requested is null.
#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    can_measure: Option<bool>,
    findings: Option<&'a [Finding]>,
    tuning: Option<&'a [Advice]>,
}

/// Prints what this host can measure and how it could be tuned, or with `self-test` how exactly
/// its meters measure.
pub fn run(arguments: &DoctorArgs) -> Result<Exit, Failure> {
    let all = TuneArgs::default();
    // the parts: what can be measured, and tuning
    let (checks, tune) = match &arguments.job {
        Some(DoctorJob::SelfTest) => return self_test::run(arguments.json),
        Some(DoctorJob::Check) => (true, None),
        Some(DoctorJob::Tune(tune)) => (false, Some(tune)),
        None => (true, Some(&all)),
    };
    let stop = interrupt::on_signal()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    // first, since the trial testbed changes counters that the advice reads
    let question = tune.map(tuning::question).transpose()?;
    let advice = question.as_ref().map(tuning::findings).transpose()?;
    let findings = match checks {
        true => Some(examine(&this_program()?, Arc::clone(&stop))),
        false => None,
    };
    if stop.load(Ordering::Relaxed) {
        // an interrupted trial would be reported as missing
        return Ok(Exit::Interrupted);
    }
    let can_measure = findings.as_deref().map(can_measure);
    if arguments.json {
        let document = Document {
            format: DOCTOR_FORMAT,
            can_measure,
            findings: findings.as_deref(),
            tuning: advice.as_deref(),
        };
        let text = serde_json::to_string_pretty(&document)
            .map_err(|error| Failure::new(Exit::Failure, format!("findings as JSON: {error}")))?;
        print(&format!("{text}\n"))?;
    } else {
        let (width, style) = terminal_style();
        let width = width.map_or(PIPE_WIDTH, usize::from).min(PIPE_WIDTH);
        let measure = findings.as_deref().zip(can_measure);
        let measure =
            measure.map(|(all, can)| ("Can it measure", text(all, can, width, style.color)));
        let tuned = advice.as_deref().map(|all| tuning::text(all, width, style.color));
        let tuned = tuned.map(|text| ("How it could be tuned", text));
        let sections: Vec<String> = measure
            .into_iter()
            .chain(tuned)
            .map(|(heading, text)| format!("{}\n\n{text}", headed(heading, style.color)))
            .collect();
        print(&sections.join("\n"))?;
    }
    // advice does not change the exit code
    if can_measure.unwrap_or(true) {
        return Ok(Exit::Success);
    }
    let reasons: Vec<&str> = findings.iter().flatten().map(|finding| &*finding.detail).collect();
    exit::unless_limited(Exit::CannotMeasure, "this host cannot measure", &reasons.join("\n"))
}

fn headed(heading: &str, color: bool) -> String {
    if color { format!("\u{1b}[1m{heading}\u{1b}[0m") } else { heading.to_owned() }
}

/// One paragraph for each finding: name, state and detail, and the remedy below.
fn text(findings: &[Finding], can_measure: bool, width: usize, color: bool) -> String {
    let name_width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    let indent = name_width + STATE_WIDTH + 4;
    let room = width.saturating_sub(indent).max(20);
    let mut text = String::new();
    for line in wrap(&summary(findings, can_measure), width) {
        // writing to a String does not fail
        let _ = writeln!(text, "{line}");
    }
    text.push('\n');
    for finding in findings {
        let state = dressed(finding.state, color);
        let remedy =
            finding.remedy.iter().flat_map(|remedy| wrap(&format!("hint: {remedy}"), room));
        for (index, line) in wrap(&finding.detail, room).into_iter().chain(remedy).enumerate() {
            let _ = match index {
                0 => writeln!(text, "{:<name_width$}  {state}  {line}", finding.name),
                _ => writeln!(text, "{:indent$}{line}", ""),
            };
        }
    }
    text
}

fn dressed(state: State, color: bool) -> String {
    let word = format!("{:<STATE_WIDTH$}", state.word());
    if !color {
        return word;
    }
    let code = match state {
        State::Good => "32",
        State::Limited => "1;33",
        State::Missing => "1;31",
    };
    format!("\u{1b}[{code}m{word}\u{1b}[0m")
}

fn summary(findings: &[Finding], can_measure: bool) -> String {
    let of = |state| -> Vec<&str> {
        findings.iter().filter(|finding| finding.state == state).map(|f| f.name).collect()
    };
    let answer = match (can_measure, can_emulate(findings)) {
        (true, true) => "This host can measure",
        (true, false) => {
            "This host can measure veth pairs and existing interfaces, but has no emulated adapters"
        }
        (false, _) => "This host cannot measure",
    };
    let mut parts = vec![answer.to_owned()];
    for state in [State::Limited, State::Missing] {
        let names = of(state);
        if !names.is_empty() {
            parts.push(format!("{}: {}", state.word(), names.join(", ")));
        }
    }
    format!("{}.", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(name: &'static str, state: State, remedy: Option<&str>) -> Finding {
        let detail = "receive processing runs on the CPU of the sender, for any of the settings";
        Finding { name, state, detail: detail.to_owned(), remedy: remedy.map(str::to_owned) }
    }

    #[test]
    fn paragraphs_hang_from_their_names() {
        let findings = [
            finding("testbed", State::Good, None),
            finding("steering", State::Limited, Some("run as root")),
            finding("tun", State::Missing, Some("modprobe tun")),
        ];
        insta::assert_snapshot!(text(&findings, true, 60, false), @r"
        This host can measure veth pairs and existing interfaces,
        but has no emulated adapters; limited: steering; missing:
        tun.

        testbed   good     receive processing runs on the CPU of the
                           sender, for any of the settings
        steering  limited  receive processing runs on the CPU of the
                           sender, for any of the settings
                           hint: run as root
        tun       missing  receive processing runs on the CPU of the
                           sender, for any of the settings
                           hint: modprobe tun
        ");
        let colored = text(&findings, true, 60, true);
        assert!(colored.contains("\u{1b}[1;31mmissing\u{1b}[0m"));
    }
}
