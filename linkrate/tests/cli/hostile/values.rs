//! Plans and runs with values that no linkrate writes.

use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;

use linkrate_stats::simulate::times;
use linkrate_study::analysis::analyse;
use linkrate_study::comparison::{Criteria, compare};
use linkrate_study::progress::StudyProgress;
use linkrate_study::store::{PLAN_FILE, RUNS_FILE, Store, StoredRun, line};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::LIMIT;
use crate::common::simulated::{STREAMS, Set, TRANSACTIONS};

pub type Change = fn(&mut Value);

/// Plans that a study file could not have made.
pub const BEYOND: &[(&str, Change)] = &[
    ("a huge window", |plan| plan["study"]["method"]["run"]["secs"] = json!(u64::MAX)),
    ("a huge warm-up", |plan| plan["study"]["method"]["warm_up"]["secs"] = json!(u64::MAX / 2)),
    ("a huge idle run", |plan| plan["study"]["method"]["idle"]["secs"] = json!(1u64 << 40)),
    ("a huge window of a cell", |plan| {
        plan["study"]["cells"][0]["spec"]["duration"]["secs"] = json!(1u64 << 50);
    }),
    ("2^32 blocks", |plan| plan["study"]["method"]["max_blocks"] = json!(u32::MAX)),
    ("a model without ports", |plan| {
        plan["study"]["testbed"]["adapter"]["model"]["ports"] = json!(0);
    }),
    ("a huge ring", |plan| {
        plan["study"]["testbed"]["adapter"]["model"]["transmit-ring"] = json!(u32::MAX);
    }),
    ("scale 0", |plan| plan["study"]["testbed"]["scale"] = json!(0.0)),
    ("scale -1", |plan| plan["study"]["testbed"]["scale"] = json!(-1.0)),
    ("no clients", |plan| plan["study"]["testbed"]["clients"] = json!(0)),
    ("many ports", |plan| plan["study"]["testbed"]["ports"] = json!(60_000)),
    ("many clients", |plan| plan["study"]["testbed"]["clients-per-port"] = json!(u32::MAX)),
    ("more clients in a cell than in the testbed", |plan| {
        plan["study"]["cells"][0]["spec"]["clients"] = json!(64);
    }),
    ("many connections", |plan| {
        let workload = &mut plan["study"]["cells"][0]["spec"]["task"]["workload"];
        workload["connections"] = json!(u32::MAX);
    }),
    ("a huge message", |plan| {
        let workload = &mut plan["study"]["cells"][0]["spec"]["task"]["workload"];
        workload["message"] = json!({"fixed": 1u64 << 50});
    }),
    ("a knob out of range", |plan| {
        plan["study"]["cells"][0]["spec"]["interface"]["mtu"] = json!(3);
    }),
    ("an idle cell", |plan| plan["study"]["cells"][0]["spec"]["task"] = json!("idle")),
    ("precision 0", |plan| plan["study"]["method"]["precision"] = json!(0.0)),
    ("confidence 1", |plan| plan["study"]["method"]["confidence"] = json!(1.0)),
    ("a CPU list that grows", |plan| {
        plan["study"]["testbed"]["sut-cpus"] = json!("0-8191,".repeat(100_000));
    }),
    ("a long title", |plan| plan["study"]["title"] = json!("x".repeat(1 << 20))),
];

/// Runs that no plan asked for.
pub const RUNS_BEYOND: &[(&str, Change)] = &[
    ("block 2^32 - 1", |run| run["block"] = json!(u32::MAX)),
    ("more bytes than a sum can hold", |run| {
        run["outcome"]["measured"]["sut_cpu"]["cpus"][0]["busy_ns"] = json!(u64::MAX);
    }),
];

/// Changes the plan of a results directory.
pub fn edit_plan(directory: &Path, change: impl FnOnce(&mut Value)) {
    let path = directory.join(PLAN_FILE);
    let mut plan: Value = serde_json::from_slice(&fs::read(&path).expect("a plan")).expect("JSON");
    let before = plan.clone();
    change(&mut plan);
    assert_ne!(plan, before, "the change has no effect");
    fs::write(path, serde_json::to_vec(&plan).expect("JSON")).expect("write the plan");
}

/// Changes the first run of a results directory, with a right checksum.
pub fn edit_first_run(directory: &Path, change: impl FnOnce(&mut Value)) {
    let path = directory.join(RUNS_FILE);
    let text = fs::read_to_string(&path).expect("runs");
    let (first, rest) = text.split_once('\n').expect("a line");
    let run = line::decode(first.as_bytes()).expect("a run");
    let mut value = serde_json::to_value(&run).expect("JSON");
    change(&mut value);
    let run: StoredRun = serde_json::from_value(value).expect("a run still");
    let mut bytes = line::encode(&run).expect("a line");
    bytes.extend(rest.as_bytes());
    fs::write(path, bytes).expect("write the runs");
}

/// Paths of all values of a document that hold no others.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            found.push(path.to_owned());
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                leaves(value, &format!("{path}/{key}"), found);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            found.push(path.to_owned());
            for (index, value) in list.iter().enumerate() {
                leaves(value, &format!("{path}/{index}"), found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

fn anything() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::sample::select(vec![
            json!(0),
            json!(1),
            json!(2),
            json!(u32::MAX),
            json!(1u64 << 32),
            json!(1u64 << 53),
            json!(u64::MAX),
            json!(-1),
            json!(1e308),
            json!(-1e308),
            json!(1e-308),
            json!(0.5),
            json!(null),
            json!(true),
            json!(""),
            json!("\u{1b}[2J\n=1+1"),
            json!("tso"),
            json!("0-8191"),
            json!([]),
            json!({}),
            json!({"secs": u64::MAX, "nanos": 999_999_999}),
        ]),
        any::<u64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,40}".prop_map(|text| json!(text)),
    ]
}

/// Changes some values of a document.
fn changed(mut value: Value, changes: &[(prop::sample::Index, Value)]) -> Value {
    for (at, to) in changes {
        let mut paths = Vec::new();
        leaves(&value, "", &mut paths);
        if let Some(found) = value.pointer_mut(at.get::<String>(&paths)) {
            *found = to.clone();
        }
    }
    value
}

/// Everything that is made of a results directory; a panic fails the test.
fn read_all(good: &Path, bad: &Path) {
    let Ok(stored) = Store::read(bad) else { return };
    let results = analyse(&stored);
    let page = linkrate_report::html::page(&results).expect("a page");
    let csv = linkrate_report::csv::runs(&results).expect("rows");
    let style = linkrate_report::terminal::Style::default();
    let table = linkrate_report::terminal::table(&results, Some(80), style);
    let markdown = linkrate_report::markdown::document(&results).expect("a document").text;
    linkrate_report::json::document(&results);
    let look = StudyProgress::of(&stored, 1_795_273_980_000);
    let screen = linkrate_report::live_view::screen(&look, Some((80, 24)), style);
    let mut texts = vec![page, table, markdown, screen];
    texts.push(String::from_utf8(csv).expect("text"));
    if let Ok(found) =
        compare(&[&Store::read(good).expect("a set")], &[&stored], &Criteria::default())
    {
        texts.push(linkrate_report::comparison::table(&found, None, style));
    }
    for text in texts {
        let harmful = |c: char| linkrate_model::clean::is_harmful(c) && c != '\n';
        if let Some(at) = text.find(harmful) {
            let from = text[..at].char_indices().rev().nth(40).map_or(0, |(index, _)| index);
            panic!("{:?} has {:?}", &text[from..], text[at..].chars().next());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: times(64, 192), failure_persistence: None,
        max_shrink_time: 60_000, ..ProptestConfig::default() })]

    #[test]
    fn changed_values_are_refused_or_reported(
        of_plan in proptest::collection::vec((any::<prop::sample::Index>(), anything()), 0..3),
        of_run in proptest::collection::vec((any::<prop::sample::Index>(), anything()), 0..3),
        transactions in any::<bool>(),
    ) {
        let home = tempfile::tempdir().expect("a directory");
        let (good, bad) = (home.path().join("good"), home.path().join("bad"));
        let study = if transactions { TRANSACTIONS } else { STREAMS };
        Set { study, blocks: 2, ..Set::default() }.store(&good);
        Set { study, blocks: 2, seed: 2, ..Set::default() }.store(&bad);
        let path = bad.join(PLAN_FILE);
        let plan = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        fs::write(&path, serde_json::to_vec(&changed(plan, &of_plan)).unwrap()).unwrap();
        let path = bad.join(RUNS_FILE);
        let text = fs::read_to_string(&path).unwrap();
        let mut bytes = Vec::new();
        for (number, one) in text.lines().enumerate() {
            let run = line::decode(one.as_bytes()).unwrap();
            let value = serde_json::to_value(&run).unwrap();
            // most changes make another type of it, which the reader refuses
            let other = serde_json::from_value::<StoredRun>(changed(value, &of_run));
            let run = if number == 1 { other.unwrap_or(run) } else { run };
            bytes.extend(line::encode(&run).unwrap_or_default());
        }
        fs::write(&path, bytes).unwrap();
        let (done, wait) = channel();
        let reader = std::thread::spawn(move || {
            read_all(&good, &bad);
            // a test that has given up no longer listens
            let _ = done.send(());
        });
        match wait.recv_timeout(LIMIT) {
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("not read within {LIMIT:?}"),
            _ => reader.join().map_err(|_| TestCaseError::fail("a panic"))?,
        }
    }
}
