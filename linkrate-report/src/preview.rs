//! What would be run: a study's plan, and the list of studies, as text and as JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use linkrate_model::spec::Adapter;
use linkrate_model::units::format_duration;
use linkrate_model::{Direction, Task, TestbedSpec};
use linkrate_study::schedule::Estimate;
use linkrate_study::study::{Factor, PART, Study};
use serde_json::json;

use crate::layout::filled;
use crate::number::percent;
use crate::words::{count, order};

mod settings;

pub use settings::settings;

/// What a CPU carries through an emulated adapter without offloads, about, in bit/s.
const CARRIED_BY_CPU: f64 = 2e9;

/// Columns of the names of what a plan has.
const NAMES: usize = 10;

/// Version of the JSON documents.
const FORMAT: u32 = 1;

/// A study with the time it will take.
#[derive(Debug, Clone, Copy)]
pub struct Preview<'a> {
    pub study: &'a Study,
    pub estimate: Estimate,
    /// CPUs that this machine has for the system under test; `None` where that is another machine.
    pub sut_cpus: Option<usize>,
}

impl Preview<'_> {
    /// The preview for people. `width` is the terminal's.
    pub fn text(&self, width: Option<u16>) -> String {
        let (study, method, estimate) = (self.study, &self.study.method, &self.estimate);
        let columns = width.map_or(usize::MAX, usize::from);
        let title = filled(&study.title, columns);
        let rule = title.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let mut text = format!("{}\n{}\n", title.join("\n"), "─".repeat(rule));
        let room = columns.saturating_sub(NAMES + 1).max(NARROWEST);
        let mut line = |name: &str, value: String| {
            let value = filled(&value, room).join(&format!("\n{:NAMES$} ", ""));
            // writing to a String does not fail
            let _ = writeln!(text, "{name:<NAMES$} {value}");
        };
        let levels = |factor: &Factor| -> String {
            let levels: Vec<String> = factor.levels.iter().map(ToString::to_string).collect();
            levels.join(", ")
        };
        if study.parts.is_empty() {
            for factor in &study.factors {
                line(&factor.name, levels(factor));
            }
        }
        for part in &study.parts {
            let varied: Vec<String> = part
                .factors
                .iter()
                .map(|factor| format!("{}: {}", factor.name, levels(factor)))
                .collect();
            let varied = if varied.is_empty() { "one cell".to_owned() } else { varied.join("; ") };
            line("part", format!("{} ({varied})", part.name));
        }
        let varied: Vec<&Factor> =
            study.factors.iter().filter(|factor| factor.name != PART).collect();
        if varied.iter().any(|factor| !factor.effects) {
            let asked = varied.iter().filter(|factor| factor.effects);
            let asked: Vec<&str> = asked.map(|factor| factor.name.as_str()).collect();
            line("effects", format!("of {}", asked.join(", ")));
        }
        line("cells", study.cells.len().to_string());
        for (number, cell) in study.cells.iter().enumerate() {
            line("", format!("{}: {}", number + 1, cell.levels));
        }
        line("testbed", testbed(&study.testbed));
        line(
            "block",
            format!(
                "{} {}{}, {} in all",
                count(estimate.runs_per_block as usize, "run"),
                order(method, &BTreeSet::new()),
                method.seed.map(|seed| format!(" (seed {seed})")).unwrap_or_default(),
                format_duration(estimate.block)
            ),
        );
        line(
            "run",
            format!(
                "{} after {} of warm-up",
                format_duration(method.run),
                format_duration(method.warm_up)
            ),
        );
        let fewest = method.stop_rule().first_look();
        let blocks = if fewest == method.max_blocks {
            count(fewest as usize, "block")
        } else {
            format!("{fewest} to {} blocks", method.max_blocks)
        };
        let budget = method
            .budget
            .map(|budget| format!(", or {} have passed", format_duration(budget)))
            .unwrap_or_default();
        line(
            "until",
            format!(
                "{} at {} confidence ({blocks}){budget}",
                match method.find {
                    Some(find) => format!("a change of {} would be found", percent(find)),
                    None => format!("every interval is within ±{}", percent(method.precision)),
                },
                percent(method.confidence),
            ),
        );
        let time = if estimate.shortest == estimate.longest {
            format!("about {}", format_duration(estimate.shortest))
        } else {
            format!(
                "{} to {}",
                format_duration(estimate.shortest),
                format_duration(estimate.longest)
            )
        };
        line("time", time);
        if let Some(limit) = self.host_limit() {
            line("warning", limit);
        }
        text
    }

    /// The cells whose links carry more than the CPUs of an emulated adapter do, and the scale at which they do not.
    fn host_limit(&self) -> Option<String> {
        let Adapter::Model(model) = &self.study.testbed.adapter else { return None };
        let (cpus, scale) = (self.sut_cpus?, self.study.testbed.scale);
        let room = cpus as f64 * CARRIED_BY_CPU;
        let loads = self.study.cells.iter().map(|cell| {
            let ways = match &cell.spec.task {
                Task::Workload(of) if of.kind.is_transactional() => 0.0,
                Task::Workload(of) if of.direction == Direction::Bidirectional => 2.0,
                _ => 1.0,
            };
            ways * f64::from(cell.spec.ports.unwrap_or(1))
                * model.rate.map_or(0.0, |rate| rate.0)
                * scale
        });
        let (above, most) = loads
            .filter(|load| *load > room)
            .fold((0, 0.0_f64), |(count, most), load| (count + 1, most.max(load)));
        let fitting = (scale * room / most * 100.0).floor() / 100.0;
        (above > 0).then(|| {
            format!(
                "{above} of {}: this machine, with {} for the system under test, will limit them rather than the \
                 adapter; to avoid that: --scale {}",
                count(self.study.cells.len(), "cell"),
                count(cpus, "CPU"),
                fitting.max(0.01)
            )
        })
    }

    /// The plan as one JSON document.
    pub fn document(&self) -> String {
        let (study, method) = (self.study, &self.study.method);
        let cells: Vec<_> = study.cells.iter().map(|cell| &cell.levels).collect();
        let factors = |factors: &[Factor]| -> Vec<_> {
            factors
                .iter()
                .map(|factor| {
                    let Factor { name, levels, effects } = factor;
                    json!({ "factor": name, "levels": levels, "effects": effects })
                })
                .collect()
        };
        let parts: Vec<_> = study
            .parts
            .iter()
            .map(|part| json!({ "part": part.name, "factors": factors(&part.factors) }))
            .collect();
        let factors = factors(&study.factors);
        let has_ports = !matches!(study.testbed.adapter, Adapter::Veth | Adapter::Unknown);
        let existing = match &study.testbed.adapter {
            Adapter::Interfaces(interfaces) => Some(interfaces),
            _ => None,
        };
        let document = json!({
            "format": FORMAT,
            "study": study.name,
            "title": study.title,
            "paper": study.paper,
            "factors": factors,
            "cells": cells,
            "parts": parts,
            "published": study.published.len(),
            "adapter": study.testbed.adapter.name(),
            "other_adapters": study.testbed.others.iter().map(|other| &other.name).collect::<Vec<_>>(),
            "clients": study.testbed.clients,
            "interfaces": existing.map(|existing| &existing.names),
            "peers": existing.map(|existing| &existing.clients),
            "ports": has_ports.then_some(study.testbed.ports),
            "clients_per_port": has_ports.then_some(study.testbed.clients_per_port),
            "scale": study.testbed.scale,
            "confidence": method.confidence,
            "precision": method.precision,
            "find": method.find,
            "min_blocks": method.min_blocks,
            "max_blocks": method.max_blocks,
            "run_seconds": method.run.as_secs_f64(),
            "warm_up_seconds": method.warm_up.as_secs_f64(),
            "budget_seconds": method.budget.map(|budget| budget.as_secs_f64()),
            "order": method.order,
            "seed": method.seed,
            "runs_per_block": self.estimate.runs_per_block,
            "block_seconds": self.estimate.block.as_secs_f64(),
            "shortest_seconds": self.estimate.shortest.as_secs_f64(),
            "longest_seconds": self.estimate.longest.as_secs_f64(),
        });
        format!("{document}\n")
    }
}

/// The testbed in a line: `gigabit, up to 4 ports with 2 clients each, links at 0.1 of their rate`.
fn testbed(testbed: &TestbedSpec) -> String {
    let model = match &testbed.adapter {
        Adapter::Model(model) => model,
        Adapter::Veth => return format!("veth, {}", count(testbed.clients as usize, "client")),
        Adapter::Unknown => return testbed.adapter.name().to_owned(),
        Adapter::Interfaces(existing) => {
            let clients: Vec<String> = existing.clients.iter().map(ToString::to_string).collect();
            let (names, clients) = (existing.names.join(", "), clients.join(", "));
            return format!("{names} of this host, with {clients}");
        }
    };
    let ports = count(testbed.ports as usize, "port");
    let most = if testbed.ports > 1 { "up to " } else { "" };
    let clients = count(testbed.clients_per_port as usize, "client");
    let each = if testbed.ports > 1 { " each" } else { "" };
    let scale = if testbed.scale < 1.0 {
        format!(", links at {} of their rate", testbed.scale)
    } else {
        String::new()
    };
    let others: Vec<&str> = testbed.others.iter().map(|other| other.name.as_str()).collect();
    let others = match others.as_slice() {
        [] => String::new(),
        names => format!(", in some cells {}", names.join(" or ")),
    };
    format!("{}{others}, {most}{ports} with {clients}{each}{scale}", model.name)
}

/// A study with the most time that it takes.
#[derive(Debug, Clone)]
pub struct Listed {
    pub study: Study,
    /// In full.
    pub full: Duration,
    /// With `--quick`; `None` where it has no quick form.
    pub quick: Option<Duration>,
}

/// Fewest columns of a question, however narrow the terminal.
const NARROWEST: usize = 20;

/// The studies, a line each where `width` permits: those of today, then those after the papers.
pub fn list(studies: &[Listed], width: Option<u16>) -> String {
    let widest = studies.iter().map(|one| one.study.name.chars().count()).max().unwrap_or(0);
    let time = |time: Duration| {
        let seconds = time.as_secs();
        match seconds {
            0..=89 => format!("{seconds} s"),
            _ => format!("{} min", (seconds + 30) / 60),
        }
    };
    let mut text = format!("{:<widest$}  {:>5}  {:>5}  QUESTION\n", "NAME", "QUICK", "FULL");
    let before = widest + "  quick   full  ".len();
    let room = width.map_or(usize::MAX, usize::from).saturating_sub(before).max(NARROWEST);
    for (heading, of_paper) in [("today", false), ("after the five papers", true)] {
        // writing to a String does not fail
        let _ = writeln!(text, "\n{heading}");
        for one in studies.iter().filter(|one| one.study.paper.is_some() == of_paper) {
            let quick = one.quick.map_or_else(|| "–".to_owned(), time);
            let title = filled(&one.study.title, room);
            let title = title.join(&format!("\n{:before$}", ""));
            let _ = writeln!(
                text,
                "{:<widest$}  {quick:>5}  {:>5}  {title}",
                one.study.name,
                time(one.full),
            );
        }
    }
    text
}

/// The studies as one JSON document.
pub fn list_document(studies: &[Listed]) -> String {
    let studies: Vec<_> = studies
        .iter()
        .map(|Listed { study, quick, full }| {
            let (name, title, paper) = (&study.name, &study.title, &study.paper);
            let seconds = |time: Duration| time.as_secs();
            let (quick, full) = (quick.map(seconds), seconds(*full));
            json!({
                "study": name, "title": title, "paper": paper, "cells": study.cells.len(),
                "quick_seconds": quick, "full_seconds": full,
            })
        })
        .collect();
    format!("{}\n", json!({ "format": FORMAT, "studies": studies }))
}
