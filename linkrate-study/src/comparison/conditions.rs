//! The conditions of two result sets: those that must be equal, and those that differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use linkrate_model::discipline::Discipline;
use linkrate_model::mix::MixPart;
use linkrate_model::model::Model;
use linkrate_model::nearest::nearest;
use linkrate_model::spec::{Adapter, Task};
use linkrate_model::units::format_duration;
use linkrate_model::{ByteSize, RunSpec, TestbedSpec};
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::disciplines::{self, Of};
use crate::analysis::runs_by_cell::RunsByCell;
use crate::analysis::warnings::{unplanned_end, went_on};
use crate::comparison::ComparisonError;
use crate::fleet::facts::is_of_a_node;
use crate::keys::{KEYS, Setup};
use crate::labels;
use crate::levels::Levels;
use crate::store::{StoredPlan, StoredStudy};
use crate::study::{Method, Study};

/// Facts of a testbed that decide the meaning of a figure: the source of CPU time, its owner, and the
/// work in it. Every other fact describes the host.
const MEANING: [&str; 6] =
    ["adapter", "clients", "idle-time", "plain-payload", "receive-processing", "shared-cpus"];

/// The name under which linkrate's own version is a difference.
const VERSION: &str = "linkrate";

/// The name of the queue disciplines through which the system under test sent. The runs tell them.
const DISCIPLINES: &str = "queue-disciplines";

/// The same of the clients, where they are agents.
const CLIENT_DISCIPLINES: &str = "client-queue-disciplines";

/// The name under which it is a difference that a set was imported: its conditions are not known, and who
/// allows it takes them as those of the other set.
pub const IMPORTED: &str = "imported";

/// Names that a warning lists.
const LISTED: usize = 5;

/// What stands for the pattern of a study without a fleet.
const ONE_PAIR: &str = "one pair";

/// What stands for a knob that a study leaves as it is.
const UNSET: &str = "not set";

/// One thing that is not the same in both sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// Its name: a fact (`kernel`), `linkrate`, or a part of the study (`run`, `scale`).
    pub name: String,
    /// The baseline's value, as people write it.
    pub baseline: String,
    /// The candidate's.
    pub candidate: String,
    /// Whether it changes the meaning of a cell, so that it can never be allowed.
    pub meaning: bool,
    /// Which cells it is about, in words; absent where it is about all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cells: Option<String>,
}

/// All differences; those that change the meaning of cells come first.
pub fn between(baseline: &StoredStudy, candidate: &StoredStudy) -> Vec<Difference> {
    let (of_host, of_other) = (host(baseline), host(candidate));
    let (baseline, candidate) = (&baseline.plan, &candidate.plan);
    let mut found = study(&baseline.study, &candidate.study);
    let imported = [baseline, candidate].map(StoredPlan::is_imported);
    if imported.contains(&true) {
        // a testbed that is not known differs in nothing that is known
        let unknown = |one: &Difference| match one.name.as_str() {
            "adapter" | "purpose" => imported != [true; 2],
            "ports" => one.baseline == UNSET || one.candidate == UNSET,
            _ => false,
        };
        found.retain(|one| !unknown(one));
        let conditions = |imported: bool| match imported {
            true => "conditions not known",
            false => "measured by linkrate",
        };
        let [a, b] = imported.map(conditions);
        found.push(Difference {
            name: IMPORTED.to_owned(),
            baseline: a.to_owned(),
            candidate: b.to_owned(),
            meaning: false,
            cells: None,
        });
    }
    let difference = |name: &str, a: &str, b: &str| Difference {
        name: name.to_owned(),
        baseline: a.to_owned(),
        candidate: b.to_owned(),
        meaning: MEANING.contains(&name),
        cells: None,
    };
    // a fact that one set lacks was not recorded by the linkrate of its time: a warning
    let known = of_host.iter().filter_map(|(name, a)| Some((name, a, of_other.get(name)?)));
    let mut differing: Vec<Difference> =
        known.filter(|(_, a, b)| a != b).map(|(name, a, b)| difference(name, a, b)).collect();
    let (a, b) = (&baseline.linkrate_version, &candidate.linkrate_version);
    if a != b {
        differing.push(difference(VERSION, a, b));
    }
    // the testbed of the study says the same in more words
    differing.retain(|fact| !found.iter().any(|one| one.name == fact.name));
    differing.sort_by_key(|fact| !fact.meaning);
    found.extend(differing);
    found
}

/// Everything that a set reports on its host: facts, sysctls, and the queue disciplines of its
/// runs.
pub(super) fn host(set: &StoredStudy) -> Values {
    let facts = &set.plan.facts;
    let mut values: Values = facts.facts.clone();
    values.extend(facts.sysctls.clone());
    let good = set.runs.iter().filter_map(|run| run.measurement());
    // the kernel counts handles on, and queues of its own have numbers: neither is a difference
    let words = |one: &Discipline| {
        let mut words = format!("{} {}", one.interface, one.kind);
        if let Some(rate) = one.rate {
            let _ = write!(words, ", {rate}");
        }
        if let Some(bytes) = one.limit_bytes {
            let _ = write!(words, ", limit {}", ByteSize(bytes));
        }
        if let Some(packets) = one.limit_packets {
            let _ = write!(words, ", limit {packets} packets");
        }
        words
    };
    for (name, of) in
        [(DISCIPLINES, disciplines::of_sut as Of), (CLIENT_DISCIPLINES, disciplines::of_clients)]
    {
        let all: BTreeSet<String> = good.clone().flat_map(of).map(words).collect();
        if !all.is_empty() {
            let all: Vec<String> = all.into_iter().collect();
            values.insert(name.to_owned(), all.join("; "));
        }
    }
    values
}

/// The names that may be allowed, whether they differ or not.
pub fn names(baseline: &StoredStudy, candidate: &StoredStudy) -> Vec<String> {
    let facts = host(baseline).into_keys().chain(host(candidate).into_keys());
    let mut names: Vec<String> = facts.filter(|name| !MEANING.contains(&name.as_str())).collect();
    names.push(VERSION.to_owned());
    if baseline.plan.is_imported() || candidate.plan.is_imported() {
        names.push(IMPORTED.to_owned());
    }
    names.sort();
    names.dedup();
    names
}

/// Refuses differences that were not allowed, and names that cannot be allowed. Returns the differences, and the
/// allowed names without a difference.
pub fn check(
    found: Vec<Difference>,
    allow: &[String],
    names: &[String],
) -> Result<(Vec<Difference>, Vec<String>), ComparisonError> {
    for given in allow {
        if names.contains(given) {
            continue;
        }
        let given = given.clone();
        let meaning = MEANING.contains(&given.as_str())
            || found.iter().any(|difference| difference.meaning && difference.name == given);
        if meaning {
            return Err(ComparisonError::NeverAllowed { given });
        }
        let known = match nearest(&given, names.iter().map(String::as_str)) {
            Some(name) => format!("did you mean \"{name}\"?"),
            None => format!("known: {}", names.join(", ")),
        };
        return Err(ComparisonError::UnknownAllowance { given, known });
    }
    let refused: Vec<Difference> = found
        .iter()
        .filter(|difference| difference.meaning || !allow.contains(&difference.name))
        .cloned()
        .collect();
    if !refused.is_empty() {
        return Err(ComparisonError::Different(refused));
    }
    let idle = allow.iter().filter(|name| !found.iter().any(|one| one.name == **name));
    let idle = idle.cloned().collect();
    Ok((found, idle))
}

/// What a reader of the comparison must know of how the sets came about, as full sentences.
pub fn warnings(
    baseline: &StoredStudy,
    candidate: &StoredStudy,
    differences: &[Difference],
    idle_allowances: &[String],
) -> Vec<String> {
    let mut found = Vec::new();
    if differences.len() > 1 {
        let names: Vec<&str> = differences.iter().map(|one| one.name.as_str()).collect();
        found.push(format!(
            "Several conditions differ ({}): the figures do not tell which of them caused a \
             change.",
            names.join(", ")
        ));
    }
    for name in idle_allowances {
        let value = if name == VERSION {
            Some(baseline.plan.linkrate_version.clone())
        } else {
            host(baseline).remove(name)
        };
        let value = value.map_or(String::new(), |value| format!(": {value}"));
        found.push(format!("Both sets have the same {name}{value}."));
    }
    for (which, set, other) in
        [("baseline", baseline, candidate), ("candidate", candidate, baseline)]
    {
        if set.plan.is_imported() {
            found.push(format!(
                "The {which} was imported: linkrate cannot check that its testbed and its \
                 conditions were those of the other set."
            ));
            continue;
        }
        let facts = &set.plan.facts.facts;
        let lacking = other.plan.facts.facts.keys().filter(|name| !facts.contains_key(*name));
        // of nodes that one set has alone, the pairs tell
        for name in lacking.filter(|name| !is_of_a_node(name)) {
            found.push(format!("The {which} does not record its {name}."));
        }
        found.extend(unknown_sysctls(which, set, other));
        for session in &set.plan.resumed {
            let changed = set.plan.changed_facts(&session.facts);
            found.extend(
                changed
                    .iter()
                    .map(|change| format!("The {which} was resumed on another testbed: {change}.")),
            );
        }
        let fleet = set.plan.study.fleet.as_ref();
        found.extend(fleet.filter(|fleet| !fleet.moves.is_empty()).map(|fleet| {
            format!(
                "The {which} went on with other nodes ({} changes of places). Figures of cells are of the pairs that it \
                 had all the time.",
                fleet.moves.len()
            )
        }));
        let lacking =
            set.runs.iter().filter(|run| run.is_good() && !run.missing_nodes.is_empty()).count();
        if lacking > 0 {
            found.push(format!(
                "The {which} has {lacking} runs from which nodes were absent. They are left out."
            ));
        }
        match &set.ended {
            None => found.push(format!("The {which} is still running, or was killed.")),
            Some(ended) if !ended.is_complete() => {
                found.push(format!("The {which} is incomplete: {ended}."));
            }
            Some(_) => {}
        }
        let runs = RunsByCell::of(&set.plan.study, &set.runs);
        let marks = [unplanned_end(set, &runs), went_on(set, &runs)].into_iter().flatten();
        found.extend(marks.map(|mark| format!("Of the {which}: {mark}")));
        let failed = set.runs.iter().filter(|run| run.failure().is_some()).count();
        if failed > 0 {
            let of = set.runs.len();
            found.push(format!("{failed} of the {of} runs of the {which} failed."));
        }
    }
    let (a, b) = (&baseline.plan.study, &candidate.plan.study);
    if a.name != b.name {
        found.push(format!(
            "The studies have the same cells under two names: {} and {}.",
            a.name, b.name
        ));
    }
    if a.method.confidence != b.method.confidence {
        found.push("The sets have different confidence levels; the baseline's is used.".to_owned());
    }
    let imported = baseline.plan.is_imported() || candidate.plan.is_imported();
    // imported runs have no order
    let orders = [("baseline", a, b), ("candidate", b, a)];
    for (which, study, other) in orders.into_iter().filter(|_| !imported) {
        if study.method.rebuild && !other.method.rebuild {
            found.push(format!(
                "The {which} alone built its testbed anew for each block: the intervals of the other set \
                 do not cover differences between builds of the testbed."
            ));
        }
    }
    found
}

/// Sysctls that only the other set has: another kernel has others.
fn unknown_sysctls(which: &str, set: &StoredStudy, other: &StoredStudy) -> Option<String> {
    let (own, others) = (&set.plan.facts.sysctls, &other.plan.facts.sysctls);
    if own.is_empty() {
        let reported = !others.is_empty();
        return reported
            .then(|| format!("The {which} does not record the sysctls of its network."));
    }
    let lacking: Vec<&str> =
        others.keys().filter(|name| !own.contains_key(*name)).map(String::as_str).collect();
    let named = lacking.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
    match lacking.len().saturating_sub(LISTED) {
        _ if lacking.is_empty() => None,
        0 => Some(format!("The {which} does not record {named}.")),
        more => Some(format!("The {which} does not record {named} and {more} more sysctls.")),
    }
}

/// How the pairs of a fleet share it. Its nodes may be others.
fn fleet(study: &Study) -> Values {
    let Some(fleet) = &study.fleet else { return Values::new() };
    Values::from([
        ("pattern".to_owned(), fleet.pattern.word().to_owned()),
        ("at-once".to_owned(), fleet.at_once.to_string()),
    ])
}

/// What makes a cell of one study mean something else than in the other.
fn study(baseline: &Study, candidate: &Study) -> Vec<Difference> {
    let mut found = whole(method(&baseline.method), method(&candidate.method), UNSET);
    found.extend(whole(testbed(&baseline.testbed), testbed(&candidate.testbed), UNSET));
    found.extend(whole(fleet(baseline), fleet(candidate), ONE_PAIR));
    // the names of two adapters say enough; their parts are not listed
    if found.iter().any(|one| one.name == "adapter") {
        found.retain(|one| !one.name.starts_with("model."));
    }
    let cells = levels(baseline, candidate);
    let same_cells = cells.is_empty();
    found.extend(cells);
    if same_cells {
        found.extend(specs(baseline, candidate));
    }
    found
}

/// Values by name, as people write them.
type Values = BTreeMap<String, String>;

/// The differences between two descriptions; `absent` stands for a missing value.
fn whole(a: Values, b: Values, absent: &str) -> Vec<Difference> {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let value = |of: &Values, name: &String| of.get(name).map_or(absent, String::as_str).to_owned();
    let pairs = names.into_iter().map(|name| (name, value(&a, name), value(&b, name)));
    pairs
        .filter(|(_, a, b)| a != b)
        .map(|(name, baseline, candidate)| Difference {
            name: name.clone(),
            baseline,
            candidate,
            meaning: true,
            cells: None,
        })
        .collect()
}

/// What stands for the levels of a factor that a study does not have.
pub const NOT_VARIED: &str = "not varied";

/// Factors with other levels, or, where those are the same, cells that only one study has.
fn levels(baseline: &Study, candidate: &Study) -> Vec<Difference> {
    let factors = |study: &Study| -> Values {
        let levels = study.factors.iter().map(|factor| {
            let mut levels: Vec<String> = factor.levels.iter().map(ToString::to_string).collect();
            // another order is another baseline of effects, but the same cells
            levels.sort();
            (factor.name.clone(), levels.join(", "))
        });
        levels.collect()
    };
    let found = whole(factors(baseline), factors(candidate), NOT_VARIED);
    if !found.is_empty() {
        return found;
    }
    let only = |study: &Study, other: &Study| -> Vec<String> {
        let missing = study.cells.iter().filter(|cell| find(other, &cell.levels).is_none());
        missing.map(|cell| labels::cell(&cell.levels)).collect()
    };
    let (a, b) = (only(baseline, candidate), only(candidate, baseline));
    if a.is_empty() && b.is_empty() {
        return Vec::new();
    }
    let say = |mine: &[String]| match mine {
        [] => "no additional cell".to_owned(),
        [one] => format!("1 additional cell ({one})"),
        [first, ..] => format!("{} additional cells ({first}, ...)", mine.len()),
    };
    vec![Difference {
        name: "cells".to_owned(),
        baseline: say(&a),
        candidate: say(&b),
        meaning: true,
        cells: None,
    }]
}

/// The cell of a study with these levels, in any order.
pub(crate) fn find(study: &Study, levels: &Levels) -> Option<usize> {
    study.cells.iter().position(|cell| {
        cell.levels.0.len() == levels.0.len()
            && levels.0.iter().all(|(factor, level)| cell.levels.get(factor) == Some(level))
    })
}

/// What the runs of the same cells do otherwise, each difference once with the cells it is about.
fn specs(baseline: &Study, candidate: &Study) -> Vec<Difference> {
    let mut found: Vec<(Difference, Vec<&Levels>)> = Vec::new();
    for cell in &baseline.cells {
        let Some(other) = find(candidate, &cell.levels) else { continue };
        let other = &candidate.cells[other];
        for difference in whole(run(&cell.spec), run(&other.spec), UNSET) {
            match found.iter_mut().find(|(one, _)| *one == difference) {
                Some((_, cells)) => cells.push(&cell.levels),
                None => found.push((difference, vec![&cell.levels])),
            }
        }
    }
    let all = baseline.cells.len();
    let named = found.into_iter().map(|(mut difference, cells)| {
        if cells.len() < all {
            let first = cells.first().map_or_else(String::new, |levels| labels::cell(levels));
            difference.cells = Some(match cells.len() {
                1 => format!("in {first}"),
                some => format!("in {some} of {all} cells, first in {first}"),
            });
        }
        difference
    });
    named.collect()
}

/// Everything that a run does, by the names of the study file. The structure is taken apart whole, so that
/// a field that is added is not forgotten here.
fn run(spec: &RunSpec) -> Values {
    let RunSpec {
        task,
        warm_up,
        duration: interval,
        profile,
        // each run has another, so that runs are replicates
        seed: _,
        // settings
        interface: _,
        socket: _,
        clients: _,
        ports: _,
        adapter: _,
        event: _,
        loss_ppm: _,
    } = spec;
    let mut values = Values::new();
    if let Task::Workload(workload) = task {
        let setup = Setup::of(spec);
        // a shorthand of knobs is none of its own
        let used = KEYS.iter().filter(|key| key.name != "merge" && (key.used_by)(workload.kind));
        let set = used
            .filter_map(|key| Some((key.name.to_owned(), key.values.level(&setup)?.to_string())));
        values.extend(set);
        for MixPart { name, share, workload } in &workload.mix {
            let own = serde_json::to_string(workload).unwrap_or_default();
            values.insert(format!("mix {name}"), format!("share {share}: {own}"));
        }
    }
    values.extend([
        ("run".to_owned(), format_duration(*interval)),
        ("warm-up".to_owned(), format_duration(*warm_up)),
        // sampling costs CPU time itself
        ("profile".to_owned(), profile.to_string()),
    ]);
    values
}

/// What a method decides of the meaning of a cell: what its figures are for. How long a run is stands in each
/// cell, and the rest says how many runs there are, in which order, and what is said of them. Destructured
/// exhaustively so that a new field fails to compile here.
fn method(method: &Method) -> Values {
    let Method {
        confidence: _,
        precision: _,
        find: _,
        minimum_effect: _,
        min_blocks: _,
        max_blocks: _,
        run: _,
        warm_up: _,
        idle: _,
        budget: _,
        order: _,
        seed: _,
        on_failure: _,
        purpose,
        profile: _,
        family: _,
        // it changes what the intervals cover, which a warning tells
        rebuild: _,
        aa: _,
    } = method;
    Values::from([("purpose".into(), purpose.word().to_owned())])
}

/// What the testbed is made of, by the names of the study file and of a model's. Which CPUs it was
/// asked to use, and by which meter, is not in it: the facts say which it used.
fn testbed(testbed: &TestbedSpec) -> Values {
    let TestbedSpec {
        adapter,
        others,
        clients: _,
        ports: _,
        clients_per_port,
        // the number of ports in use is a knob of each cell
        aggregate: _,
        switches,
        spread_clients,
        router,
        bridged_clients,
        // of labs alone
        elans: _,
        scale,
        queues: _,
        sut_cpus: _,
        client_cpus: _,
        cpu_meter: _,
    } = testbed;
    let mut values = Values::new();
    values.insert("adapter".to_owned(), adapter.name().to_owned());
    values.insert("clients-per-port".to_owned(), clients_per_port.to_string());
    values.insert("scale".to_owned(), scale.to_string());
    values.insert("switches".to_owned(), switches.to_string());
    values.insert("spread-clients".to_owned(), spread_clients.to_string());
    values.insert("router".to_owned(), router.to_string());
    values.insert("bridged-clients".to_owned(), bridged_clients.to_string());
    for other in others {
        // author and source of the model change nothing on the wire
        let other = Model { title: String::new(), source: String::new(), ..other.clone() };
        values.insert(format!("adapter {}", other.name), word(&other));
    }
    if let Adapter::Model(model) = adapter {
        // author and source of the model change nothing on the wire
        let Model {
            name: _,
            title: _,
            source: _,
            ports,
            link,
            encapsulation,
            connections,
            rate,
            bus,
            queues,
            superframe,
            max_mtu,
            transmit_ring,
            receive_ring,
            toe_connections,
            stores_superframes,
            hand_through,
            defaults,
        } = model.as_ref();
        let rate_text = |rate: &Option<linkrate_model::BitRate>| {
            rate.map_or_else(|| UNSET.to_owned(), |rate| rate.to_string())
        };
        for (name, value) in [
            ("ports", ports.to_string()),
            ("link", link.name().to_owned()),
            ("rate", rate_text(rate)),
            ("bus", rate_text(bus)),
            ("queues", queues.to_string()),
            ("superframe", superframe.to_string()),
            ("max-mtu", max_mtu.to_string()),
            ("transmit-ring", transmit_ring.to_string()),
            ("receive-ring", receive_ring.to_string()),
            ("toe-connections", toe_connections.to_string()),
            ("hand-through", hand_through.to_string()),
            ("defaults", word(defaults)),
        ] {
            values.insert(format!("model.{name}"), value);
        }
        // imported sets have none of these
        if *stores_superframes {
            values.insert("model.stores-superframes".to_owned(), "true".to_owned());
        }
        if connections.is_switched() {
            values.insert("model.connections".to_owned(), connections.name().to_owned());
        }
        if encapsulation.is_emulated() {
            values.insert("model.encapsulation".to_owned(), encapsulation.name().to_owned());
        }
    }
    values
}

/// A value as files have it.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}
