//! On what a study ran, in a few words: the adapter, the host, and how much was measured.

use std::time::Duration;

use linkrate_model::CpuSet;
use linkrate_model::spec::Adapter;
use linkrate_model::units::format_duration;
use linkrate_study::results::StudyResults;
use linkrate_study::store::StoredRun;

use crate::words;

/// What joins the hosts, in words.
pub struct Testbed {
    /// `Emulated adapter gigabit`.
    pub adapter: String,
    /// Whether software stands in for the adapter.
    pub is_emulated: bool,
    /// `SUT CPU 0 of 2, Intel Xeon, Linux 6.18`; empty where it is not known.
    pub host: String,
    /// `3 cells × 12 runs in 54 s`.
    pub size: String,
}

impl Testbed {
    pub fn of(results: &StudyResults) -> Self {
        let adapter = results.plan.as_ref().map(|plan| &plan.study.testbed.adapter);
        let scaled =
            words::scaled(results).map_or_else(String::new, |scaled| format!(", {scaled}"));
        Self {
            adapter: named(results, adapter) + &scaled,
            is_emulated: matches!(adapter, Some(Adapter::Model(_) | Adapter::Veth)),
            host: host(results),
            size: size(results),
        }
    }

    /// All of it in a line.
    pub fn line(&self) -> String {
        let parts = [&self.adapter, &self.host, &self.size];
        let known: Vec<&str> =
            parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        known.join("; ")
    }
}

/// A fact that is known.
fn fact<'r>(results: &'r StudyResults, name: &str) -> Option<&'r str> {
    let value = results.facts.facts.get(name)?.as_str();
    (!value.is_empty()).then_some(value)
}

/// The adapter, and of an interface its driver and firmware.
fn named(results: &StudyResults, adapter: Option<&Adapter>) -> String {
    let name = &results.adapter;
    match adapter {
        Some(Adapter::Interfaces(on)) => {
            let ports = (1..).zip(&on.names).map(|(number, name)| {
                let of_port = |what: &str| fact(results, &format!("port-{number}-{what}"));
                let driver = of_port("driver").map(|driver| format!("driver {driver}"));
                let firmware = of_port("firmware").map(|version| format!("firmware {version}"));
                let known: Vec<String> = driver.into_iter().chain(firmware).collect();
                match known.is_empty() {
                    true => name.clone(),
                    false => format!("{name} ({})", known.join(", ")),
                }
            });
            let ports: Vec<String> = ports.collect();
            format!("Interface {}", ports.join(", "))
        }
        Some(Adapter::Veth) => "veth pair".to_owned(),
        Some(Adapter::Model(_)) => format!("Emulated adapter {name}"),
        Some(Adapter::Unknown) | None => format!("Adapter {name}"),
    }
}

fn host(results: &StudyResults) -> String {
    let fact = |name: &str| fact(results, name);
    let mut host = Vec::new();
    host.extend(fact("sut-cpus").map(|cpus| {
        let all = fact("online-cpus").and_then(|all| all.parse::<CpuSet>().ok());
        let all = all.map_or_else(String::new, |all| format!(" of {}", all.len()));
        format!("SUT {}{all}", words::cpus(cpus))
    }));
    host.extend(
        fact("cpu-model")
            .map(|model| model.replace("(R)", "").replace("(TM)", "").replace(" Processor", "")),
    );
    host.extend(fact("kernel").map(|kernel| {
        let version: Vec<&str> = kernel.trim_start_matches("Linux ").splitn(3, '.').collect();
        format!("Linux {}", version.iter().take(2).copied().collect::<Vec<_>>().join("."))
    }));
    host.join(", ")
}

fn size(results: &StudyResults) -> String {
    let cells = words::count(results.cells.len(), "cell");
    let runs = results.cells.iter().map(|cell| cell.runs);
    let each = match (runs.clone().min(), runs.max()) {
        (Some(low), Some(high)) if low == high => {
            format!(" × {}", words::count(low as usize, "run"))
        }
        (Some(low), Some(high)) => format!(" × {low} to {high} runs"),
        _ => String::new(),
    };
    let took =
        duration(results).map_or_else(String::new, |took| format!(" in {}", format_duration(took)));
    format!("{cells}{each}{took}")
}

/// From the first run to the end of the last of each session, in whole seconds: not the time between sessions.
fn duration(results: &StudyResults) -> Option<Duration> {
    let resumed = results.plan.iter().flat_map(|plan| &plan.resumed);
    let resumed: Vec<u64> = resumed.map(|session| session.started_unix_ms).collect();
    let session =
        |run: &StoredRun| resumed.iter().filter(|began| **began <= run.started_unix_ms).count();
    let of_session = |runs: &[StoredRun]| {
        let (first, last) = (runs.first()?, runs.last()?);
        let between = last.started_unix_ms.saturating_sub(first.started_unix_ms);
        Some(Duration::from_millis(between) + last.spec.duration + last.spec.warm_up)
    };
    let sessions = results.runs.chunk_by(|one, next| session(one) == session(next));
    let whole: Duration = sessions.filter_map(of_session).sum();
    (!whole.is_zero()).then(|| Duration::from_secs(whole.as_secs().max(1)))
}
