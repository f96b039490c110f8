//! The checks of a study, whoever wrote it: a user in a study file, or the plan of a results
//! directory, which may come from anywhere.
//!
//! The parser of study files refuses the same with line and column. What passes here cannot make the
//! runner, the testbed or the statistics panic, run for ever or take all memory.

use std::time::Duration;

use linkrate_model::clean;
use linkrate_model::spec::Adapter;
use linkrate_model::units::format_duration;
use linkrate_model::{Interfaces, RunSpec, Task, TestbedSpec};

use super::{Factor, Method, Study};
use crate::bounds::{
    CONFIDENCES, MAX_BLOCKS, MAX_BUDGET, MAX_CELLS, MAX_CLIENTS, MAX_FILE_BYTES, MAX_FILE_TABLES,
    MAX_LEVELS, MAX_RUN, MAX_TITLE, MAX_TURNS, MIN_RUN, PAPERS, PRECISIONS, SCALES,
};
use crate::keys::{self, Setup};
use crate::levels::{Level, Levels};
use crate::published::PublishedFigure;

/// Most characters of a name: of a study, a part, a factor, a level.
const MAX_NAME: usize = 255;

/// Fails with the sentence unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($sentence:tt)+) => {
        if !$holds {
            return Err(format!($($sentence)+));
        }
    };
}

impl Study {
    /// Checks everything that runner, testbed, statistics and reports rely on; the error has the value and the remedy.
    pub fn check(&self) -> Result<(), String> {
        name("name", &self.name)?;
        one_line("title", &self.title, MAX_TITLE)?;
        if let Some(paper) = &self.paper {
            let known = PAPERS.contains(&paper.as_str());
            ensure!(known, "paper {paper:?}, expected one of {}", PAPERS.join(", "));
        }
        let bytes = self.source.len();
        ensure!(
            bytes <= MAX_FILE_BYTES,
            "source has {bytes} bytes, expected at most {MAX_FILE_BYTES}"
        );
        self.testbed.check_plan()?;
        factors(&self.factors)?;
        ensure!(
            self.parts.len() <= MAX_FILE_TABLES,
            "{} parts, expected at most {MAX_FILE_TABLES}",
            self.parts.len()
        );
        for part in &self.parts {
            name("part", &part.name)?;
            factors(&part.factors)?;
        }
        let cells = self.cells.len();
        ensure!(cells > 0, "a study without cells");
        ensure!(cells <= MAX_CELLS, "{cells} cells, expected at most {MAX_CELLS}");
        for (number, cell) in self.cells.iter().enumerate() {
            let of_cell = |error: String| format!("cell {number}: {error}");
            levels(&cell.levels).map_err(of_cell)?;
            spec(&cell.spec, &self.testbed).map_err(of_cell)?;
        }
        self.published_figures()?;
        if let Some(quick) = &self.quick {
            interval("quick run", quick.run)?;
            at_most("quick warm-up", quick.warm_up)?;
            let inside = quick.cells.len() <= cells
                && quick.cells.iter().all(|cell| (*cell as usize) < cells);
            ensure!(inside, "quick names cells beyond the {cells} of the study");
        }
        if let Some(fleet) = &self.fleet {
            fleet.check().map_err(|error| format!("fleet: {error}"))?;
            let is_template =
                matches!(&self.testbed.adapter, Adapter::Interfaces(on) if on.sut.is_some());
            ensure!(is_template, "a fleet on a testbed of its own");
            let turns = u64::from(fleet.turns()) * u64::from(self.method.max_blocks);
            ensure!(
                turns <= u64::from(MAX_TURNS),
                "{} pairs in {} blocks, expected at most {MAX_TURNS} together",
                fleet.turns(),
                self.method.max_blocks
            );
        }
        if self.method.find.is_some() {
            let factors = self.parts.iter().flat_map(|part| &part.factors).chain(&self.factors);
            let asked = |factor: &Factor| factor.effects && factor.levels.len() > 1;
            ensure!(
                self.fleet.is_none() && factors.into_iter().any(asked),
                "find, but nothing to compare; expected a factor with two levels, and no fleet"
            );
        }
        self.method.check()
    }

    fn published_figures(&self) -> Result<(), String> {
        let count = self.published.len();
        ensure!(
            count <= MAX_FILE_TABLES,
            "{count} published figures, expected at most {MAX_FILE_TABLES}"
        );
        for published in &self.published {
            levels(&published.at)?;
            let figure = match &published.figure {
                PublishedFigure::Value(figure) => *figure,
                PublishedFigure::Effect(step, figure)
                | PublishedFigure::Difference(step, figure) => {
                    name("published factor", &step.factor)?;
                    level(&step.from)?;
                    level(&step.to)?;
                    *figure
                }
            };
            ensure!(figure.is_finite(), "published figure {figure}, expected a number");
        }
        Ok(())
    }
}

impl Method {
    /// Checks the method alone.
    pub fn check(&self) -> Result<(), String> {
        let Self { confidence, precision, minimum_effect, min_blocks, max_blocks, .. } = self;
        ensure!(
            CONFIDENCES.contains(confidence),
            "confidence {confidence}, expected 0.5 to 0.9999"
        );
        ensure!(PRECISIONS.contains(precision), "precision {precision}, expected 0.0001 to 1");
        if let Some(find) = self.find {
            ensure!(PRECISIONS.contains(&find), "find {find}, expected 0.0001 to 1");
            ensure!(
                min_blocks < max_blocks,
                "{max_blocks} blocks, expected a range: how many it takes to find a change follows \
                 from their scatter"
            );
        }
        ensure!(
            (0.0..=1.0).contains(minimum_effect),
            "minimum effect {minimum_effect}, expected 0 to 1"
        );
        ensure!(
            (1..=MAX_BLOCKS).contains(max_blocks) && min_blocks <= max_blocks,
            "blocks from {min_blocks} to {max_blocks}, expected at most {MAX_BLOCKS}"
        );
        interval("run", self.run)?;
        at_most("warm-up", self.warm_up)?;
        if !self.idle.is_zero() {
            interval("idle", self.idle)?;
        }
        let budget = self.budget.unwrap_or(Duration::ZERO);
        let days = budget.as_secs() / (24 * 3600);
        ensure!(budget <= MAX_BUDGET, "budget {days} days, expected at most 366 days");
        Ok(())
    }
}

/// Checks of the testbed that a plan names.
trait CheckPlan {
    fn check_plan(&self) -> Result<(), String>;
}

impl CheckPlan for TestbedSpec {
    fn check_plan(&self) -> Result<(), String> {
        let remote = self.adapter.has_remote_clients();
        for (what, count, most) in [
            ("clients", self.clients, MAX_CLIENTS),
            ("ports", self.ports, MAX_CLIENTS),
            ("clients per port", self.clients_per_port, MAX_CLIENTS),
            ("queues", self.queues, 64),
        ] {
            ensure!(
                (1..=most).contains(&count),
                "{what} {count} of the testbed, expected 1 to {most}"
            );
        }
        ensure!(
            self.aggregate <= MAX_CLIENTS,
            "aggregate of {} ports, expected at most {MAX_CLIENTS}",
            self.aggregate
        );
        ensure!((1..=2).contains(&self.switches), "{} switches, expected 1 or 2", self.switches);
        ensure!(
            !self.router || self.switches == 1,
            "two switches and a router, expected one of the two"
        );
        let bridge = self.check_bridge();
        bridge.map_err(|error| format!("bridged clients: {error}; {}", error.hint()))?;
        ensure!(
            self.elans.is_empty(),
            "emulated LANs {}, expected one of each port: only labs have more",
            self.elans.join(", ")
        );
        ensure!(SCALES.contains(&self.scale), "scale {}, expected 0.001 to 1", self.scale);
        let most = MAX_FILE_TABLES;
        ensure!(
            self.others.len() <= most,
            "{} other models, expected at most {most}",
            self.others.len()
        );
        for other in &self.others {
            other.check().map_err(|error| format!("model: {error}"))?;
        }
        match &self.adapter {
            Adapter::Veth | Adapter::Unknown => {}
            Adapter::Model(model) => model.check().map_err(|error| format!("model: {error}"))?,
            Adapter::Interfaces(on) => {
                let agents = on.clients.iter().any(linkrate_model::Peer::is_agent_elsewhere);
                let program = agents.then(|| on.program.clone());
                let checked = Interfaces::new(on.names.clone(), on.clients.clone(), program)
                    .map_err(|error| error.to_string())?;
                let checked = Interfaces { sut: on.sut.clone(), ..checked };
                ensure!(checked == *on, "program {:?} for clients of this host", on.program);
                if let Some(sut) = &on.sut {
                    ensure!(
                        sut.is_agent_elsewhere() && !sut.is_command() && remote,
                        "system under test at {sut}, expected \"ssh:HOST\""
                    );
                }
                one_line("program", &on.program, MAX_NAME)?;
            }
        }
        Ok(())
    }
}

fn spec(spec: &RunSpec, testbed: &TestbedSpec) -> Result<(), String> {
    ensure!(matches!(spec.task, Task::Workload(_)), "it has no workload");
    if matches!(testbed.adapter, Adapter::Unknown) {
        // another program set these, and nothing is built or run of them
        return Ok(());
    }
    interval("run", spec.duration)?;
    at_most("warm-up", spec.warm_up)?;
    let on_veth = matches!(testbed.adapter, Adapter::Veth);
    match spec.ports {
        Some(ports) => {
            ensure!(!on_veth, "ports {ports} on veth, which has none");
            ensure!(
                (1..=testbed.ports).contains(&ports),
                "ports {ports}, expected 1 to {}, as many as the testbed has",
                testbed.ports
            );
            let clients = match testbed.aggregate {
                0 => ports.saturating_mul(testbed.clients_per_port),
                _ => testbed.clients,
            };
            ensure!(spec.clients == clients, "clients {}, expected {clients}", spec.clients);
        }
        None => ensure!(on_veth, "no ports, expected 1 to {}", testbed.ports),
    }
    ensure!(
        (1..=testbed.clients).contains(&spec.clients),
        "clients {}, expected 1 to {}, as many as the testbed has",
        spec.clients,
        testbed.clients
    );
    if let Some(name) = &spec.adapter {
        let known = testbed.others.iter().any(|model| model.name == *name);
        ensure!(known, "adapter {name:?}, which the testbed does not have");
    }
    let made = matches!(testbed.adapter, Adapter::Model(_));
    ensure!(made || spec.loss_ppm == 0, "loss on links that linkrate does not make");
    let setup = Setup::of(spec);
    keys::check_values(&setup)?;
    setup.event.check(spec.duration).map_err(|error| error.to_string())?;
    keys::check(&setup, testbed).map_err(|error| error.to_string())
}

fn interval(what: &str, length: Duration) -> Result<(), String> {
    ensure!(length >= MIN_RUN, "{what} {}, expected at least 100 ms", format_duration(length));
    at_most(what, length)
}

fn at_most(what: &str, length: Duration) -> Result<(), String> {
    // a length beyond all bounds is no duration to print
    let seconds = length.as_secs();
    ensure!(length <= MAX_RUN, "{what} {seconds} s, expected at most 1 h");
    Ok(())
}

fn factors(factors: &[Factor]) -> Result<(), String> {
    let most = MAX_FILE_TABLES;
    ensure!(factors.len() <= most, "{} factors, expected at most {most}", factors.len());
    for factor in factors {
        name("factor", &factor.name)?;
        let count = factor.levels.len();
        // a factor of several parts has the levels of all
        let most = MAX_LEVELS * MAX_FILE_TABLES;
        ensure!(count <= most, "{count} levels of {}, expected at most {most}", factor.name);
        factor.levels.iter().try_for_each(level)?;
    }
    Ok(())
}

fn levels(levels: &Levels) -> Result<(), String> {
    ensure!(
        levels.0.len() <= MAX_FILE_TABLES,
        "{} levels, expected at most {MAX_FILE_TABLES}",
        levels.0.len()
    );
    for (factor, of_factor) in &levels.0 {
        name("factor", factor)?;
        level(of_factor)?;
    }
    Ok(())
}

fn level(level: &Level) -> Result<(), String> {
    match level {
        Level::Text(text) => name("level", text),
        Level::Number(_) | Level::Switch(_) => Ok(()),
    }
}

fn name(what: &str, text: &str) -> Result<(), String> {
    one_line(what, text, MAX_NAME)
}

fn one_line(what: &str, text: &str, most: usize) -> Result<(), String> {
    let short = clean::short_line(text, 64);
    ensure!(text.chars().count() <= most, "{what} {short:?}, expected at most {most} characters");
    ensure!(!text.contains(clean::is_harmful), "{what} {short:?}, expected no control characters");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::{builtin, file};

    #[test]
    fn what_a_person_may_ask_passes() {
        fixture::ladder().check().unwrap();
        for found in builtin::all() {
            let study = file::parse(found.name, &found.path(), found.text).unwrap();
            study.check().unwrap();
            // not every study has a quick form
            let quick = crate::quick::form(study).map(|quick| quick.check());
            assert!(quick.is_err() || quick == Ok(Ok(())), "{}: {quick:?}", found.name);
        }
    }

    #[test]
    fn a_value_beyond_its_range_is_refused_by_name() {
        type Change = fn(&mut Study);
        let changes: [(Change, &str); 9] = [
            (|s| s.name = "a\u{1b}".to_owned(), "name \"a\u{fffd}\""),
            (|s| s.method.budget = Some(Duration::MAX), "budget 213503982334601 days"),
            (|s| s.method.run = Duration::MAX, "run 18446744073709551615 s"),
            (|s| s.method.minimum_effect = f64::NAN, "minimum effect NaN"),
            (|s| s.method.min_blocks = 7, "blocks from 7 to 6"),
            (|s| s.cells[1].spec.clients = 2, "cell 1: clients 2, expected 1 to 1"),
            (|s| s.cells[1].spec.interface.mtu = Some(3), "cell 1: mtu: "),
            (|s| s.cells[2].spec.socket.congestion = "a b".to_owned(), "cell 2: congestion: "),
            (|s| s.cells = vec![s.cells[0].clone(); MAX_CELLS + 1], "4097 cells"),
        ];
        for (change, expected) in changes {
            let mut study = fixture::ladder();
            change(&mut study);
            let error = study.check().unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
