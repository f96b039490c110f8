//! Every made-up result against the published schema, by an independent validator; and every key
//! of the schema against the made-up results, so that neither has what the other lacks.

use std::collections::BTreeSet;
use std::time::Duration;

use boon::{Compiler, Schemas};
use linkrate_model::latency::LatencyFigures;
use linkrate_model::workload::Loop;
use linkrate_report::json::{COMPARISON_SCHEMA, RESULTS_SCHEMA, TREND_SCHEMA, document};
use linkrate_study::levels::{Level, Levels};
use linkrate_study::quantity::{Interval, Measure, Quantity, Unit};
use linkrate_study::results::{
    Aa, AaRatio, Attribution, CategoryShare, DirectionRate, ImportedRun, Knee, MixFigures,
    StudyResults,
};
use linkrate_study::verdict::{FlowDirection, Shortfall};
use serde_json::{Value, json};

use crate::book;
use crate::fixture;

fn every_fixture() -> Vec<StudyResults> {
    let mut profiled = fixture::stream();
    let disturbed = &mut profiled.cells[0].evidence;
    disturbed.background_cpu_percent = Some(7.0);
    disturbed.background_uncertainty_cpu_percent = Some(0.3);
    disturbed.service_demand_with_others = Some(2.1);
    let way = |direction, rate| {
        let interval = Interval { mean: rate, low: None, high: None };
        DirectionRate { direction, rate: Quantity { interval, unit: Unit::BitsPerSecond } }
    };
    profiled.cells[0].directions =
        vec![way(FlowDirection::Transmit, 4.3e8), way(FlowDirection::Receive, 5.1e8)];
    profiled.cells[0].verdict.directions[0].shortfall =
        vec![Shortfall::Resent(0.3), Shortfall::Unknown];
    profiled.effects[0].without_driver = Some(Interval { mean: 0.6, low: None, high: None });
    profiled.effects[0].without_driver_unknown = true;
    profiled.effects[0].mix_adjusted =
        Some(Interval { mean: 0.8, low: Some(0.79), high: Some(0.81) });
    profiled.cells[0].attribution = Some(Attribution {
        runs: 5,
        shares: vec![CategoryShare {
            category: "data-copy".to_owned(),
            title: "data copy".to_owned(),
            percent: 41.2,
        }],
        meter_percent: 99.8,
        sampled_percent: 99.5,
        error_points: 1.2,
        samples: 1990.0,
        unknown: vec![("__some_symbol".to_owned(), 0.4)],
    });
    let text = |level: &str| Level::Text(level.to_owned());
    profiled.windows = vec![Knee {
        at: Levels(vec![("message".to_owned(), text("64 KiB"))]),
        smallest: text("16 KiB"),
        largest: text("256 KiB"),
        round_trip: Duration::from_micros(300),
        fills: 20_151,
        reached: Some(text("32 KiB")),
    }];
    profiled.payback = Some(super::payback::figures());
    let mut transfers = fixture::stream();
    let sysctl = ("net.ipv4.tcp_rmem".to_owned(), "4096 131072 6291456".to_owned());
    transfers.facts.sysctls.extend([sysctl]);
    let cell = &mut transfers.cells[0];
    cell.completed =
        cell.throughput.map(|rate| Quantity { unit: Unit::TransfersPerSecond, ..rate });
    cell.latency = fixture::request_response().cells[0].latency;
    transfers.aa = Some(Aa {
        levels: cell.levels.clone(),
        ratios: vec![AaRatio {
            measure: Measure::Throughput,
            ratio: Interval { mean: 1.001, low: Some(0.99), high: Some(1.01) },
            blocks: 5,
        }],
    });
    cell.mix = vec![MixFigures {
        name: "small".to_owned(),
        share: 2,
        throughput: cell.throughput,
        completed: cell.completed,
        latency: cell.latency,
        of_loop: Some(Loop::Open),
    }];
    let mut imported = fixture::stream();
    (imported.seed, imported.run_seconds, imported.warm_up_seconds) = (None, None, None);
    imported.cells[0].shared_cpus = None;
    imported.cells[0].latency = Some(LatencyFigures::default());
    imported.imported = vec![ImportedRun {
        file: "tcp.json".to_owned(),
        place: None,
        program: "iperf3 3.12".to_owned(),
        test: "TCP".to_owned(),
        levels: Levels::default(),
        started_unix_ms: None,
        lacks: vec!["service demand".to_owned()],
    }];
    let mut adapter = fixture::adapter();
    let parts = adapter.cells[0].service_demand_parts.as_mut();
    parts.expect("parts").receives_in_driver = true;
    vec![
        imported,
        transfers,
        fixture::stream(),
        fixture::request_response(),
        fixture::single(),
        adapter,
        fixture::failed(),
        fixture::hostile(),
        fixture::fleet(),
        fixture::incast(),
        profiled,
    ]
}

fn validate(schema: &str, document: &Value) -> Result<(), String> {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let id = schema["$id"].as_str().unwrap().to_owned();
    let mut compiler = Compiler::new();
    compiler.add_resource(&id, schema).unwrap();
    let mut schemas = Schemas::new();
    let index = compiler.compile(&id, &mut schemas).unwrap();
    schemas.validate(document, index).map_err(|error| format!("{error:#}"))
}

#[test]
fn made_up_results_are_valid() {
    for results in every_fixture() {
        let value = serde_json::from_str(&document(&results)).unwrap();
        validate(RESULTS_SCHEMA, &value)
            .unwrap_or_else(|reason| panic!("{}: {reason}", results.title));
    }
}

#[test]
fn the_schema_refuses_unknown_keys_at_every_level() {
    let whole = fixture::stream();
    let results =
        StudyResults { effects: whole.effects, failures: whole.failures, ..fixture::adapter() };
    let mut good: Value = serde_json::from_str(&document(&results)).unwrap();
    let failed: Value = serde_json::from_str(&document(&fixture::failed())).unwrap();
    good["cells"][0]["failure"] = failed["cells"][0]["failure"].clone();
    for place in [
        "",
        "/cells/0",
        "/cells/0/evidence",
        "/cells/0/evidence/adapter",
        "/effects/0",
        "/effects/0/ratio",
        "/cells/0/throughput",
        "/cells/0/failure",
        "/cells/0/failure/restored",
        "/published/0",
        "/facts",
        "/failures/0",
    ] {
        let mut value = good.clone();
        let object = value.pointer_mut(place).and_then(Value::as_object_mut);
        object.unwrap_or_else(|| panic!("{place}")).insert("surprise".to_owned(), json!(1));
        let reason = validate(RESULTS_SCHEMA, &value).unwrap_err();
        assert!(reason.contains("surprise"), "{place}: {reason}");
    }
    for (place, wrong) in [
        ("/format", json!(2)),
        ("/cells/0/throughput/unit", json!("Gb/s")),
        ("/cells/0/runs", json!(-1)),
        ("/confidence", json!(95)),
        ("/results", json!(null)),
    ] {
        let mut value = good.clone();
        *value.pointer_mut(place).unwrap() = wrong;
        assert!(validate(RESULTS_SCHEMA, &value).is_err(), "{place}");
    }
}

#[test]
fn every_key_is_required_but_those_of_what_was_not_asked_for() {
    fn objects<'a>(schema: &'a Value, found: &mut Vec<&'a Value>) {
        match schema {
            Value::Object(map) => {
                if map.get("properties").is_some_and(Value::is_object) {
                    found.push(schema);
                }
                map.values().for_each(|value| objects(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| objects(value, found)),
            _ => {}
        }
    }
    for text in [RESULTS_SCHEMA, COMPARISON_SCHEMA] {
        let schema: Value = serde_json::from_str(text).unwrap();
        let mut found = Vec::new();
        objects(&schema, &mut found);
        assert!(found.len() > 5);
        for object in found {
            assert_eq!(object["additionalProperties"], false, "{object}");
            let required: BTreeSet<&str> =
                object["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            for (key, of) in object["properties"].as_object().unwrap() {
                let optional = [
                    "aa",
                    "acknowledgements_per_segment",
                    "attribution",
                    "client_disciplines",
                    "client_receive_batches",
                    "completed",
                    "contention",
                    "counters",
                    "disciplines",
                    "mix_adjusted",
                    "failure",
                    "family",
                    "fleet",
                    "hubs",
                    "imported",
                    "intervals",
                    "line",
                    "loop",
                    "measured",
                    "members",
                    "mix",
                    "node",
                    "open_share",
                    "at_least_ns",
                    "background_cpu_percent",
                    "background_uncertainty_cpu_percent",
                    "pairs",
                    "predicted",
                    "receiver",
                    "replaced",
                    "round_trip",
                    "sender",
                    "service_demand_with_others",
                    "shared",
                    "sysctls",
                    "directions",
                    "windows",
                    "without_driver",
                    "without_driver_unknown",
                    "receives_in_driver",
                    "payback",
                    "two_groups",
                ]
                .contains(&key.as_str());
                assert!(required.contains(key.as_str()) || optional, "{key}");
                assert!(
                    of.get("description").is_some() || of.get("$ref").is_some(),
                    "{key} says nothing"
                );
            }
        }
    }
}

#[test]
fn the_schema_has_no_key_that_no_document_has() {
    fn keys(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                found.insert(key.clone());
                keys(value, found);
            }),
            Value::Array(items) => items.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }
    fn named(schema: &Value, found: &mut BTreeSet<String>) {
        match schema {
            Value::Object(map) => {
                if let Some(properties) = map.get("properties").and_then(Value::as_object) {
                    found.extend(properties.keys().cloned());
                }
                map.values().for_each(|value| named(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| named(value, found)),
            _ => {}
        }
    }
    let (mut in_documents, mut in_schema) = (BTreeSet::new(), BTreeSet::new());
    for results in every_fixture() {
        keys(&serde_json::from_str(&document(&results)).unwrap(), &mut in_documents);
    }
    named(&serde_json::from_str(RESULTS_SCHEMA).unwrap(), &mut in_schema);
    let missing: Vec<_> = in_schema.difference(&in_documents).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn the_page_has_the_keys_of_the_schemas() {
    let mut text = String::new();
    for (title, schema, definition) in [
        ("Results", RESULTS_SCHEMA, None),
        ("A cell of results", RESULTS_SCHEMA, Some("cell")),
        ("An effect of results", RESULTS_SCHEMA, Some("effect")),
        ("Comparison", COMPARISON_SCHEMA, None),
        ("A row of a comparison", COMPARISON_SCHEMA, Some("row")),
        ("Trend", TREND_SCHEMA, None),
    ] {
        let schema: Value = serde_json::from_str(schema).unwrap();
        let object = definition.map_or(&schema, |name| &schema["$defs"][name]);
        let table = book::table(["key", "meaning"], keys_of(&schema, object));
        text.push_str(&format!("### {title}\n\n{table}\n"));
    }
    book::check("reference/results.md", "linkrate-report/tests/report/schema.rs", &text);
}

/// Each key of an object with the first clause of its description, required ones in their order first.
fn keys_of(schema: &Value, object: &Value) -> Vec<[String; 2]> {
    let properties = object["properties"].as_object().unwrap();
    let required = object["required"].as_array().unwrap().iter().filter_map(Value::as_str);
    let mut keys: Vec<&str> = required.collect();
    let others = properties.keys().map(String::as_str).filter(|key| !keys.contains(key));
    keys.extend(others.collect::<Vec<_>>());
    let meaning = |key: &str| {
        let property = &properties[key];
        let referred = || {
            let name = property["$ref"].as_str()?.strip_prefix("#/$defs/")?;
            schema["$defs"][name]["description"].as_str()
        };
        let description = property["description"].as_str().or_else(referred).unwrap_or_default();
        let clause = description.split("; ").next().unwrap_or_default();
        clause.split(". ").next().unwrap_or_default().trim_end_matches('.').to_owned()
    };
    keys.into_iter().map(|key| [format!("`{key}`"), meaning(key)]).collect()
}
