//! Every made-up result against the published schema, by an independent validator; and every key
//! of the schema against the made-up results, so that neither has what the other lacks.

use std::collections::BTreeSet;
use std::time::Duration;

use boon::{Compiler, Schemas};
use linkrate_model::latency::LatencyFigures;
use linkrate_model::workload::Loop;
use linkrate_report::json::{COMPARISON_SCHEMA, RESULTS_SCHEMA, TREND_SCHEMA, document};
use linkrate_study::comparison::StudyComparison;
use linkrate_study::levels::{Level, Levels};
use linkrate_study::quantity::{Interval, Measure, Quantity, Unit};
use linkrate_study::results::{
    Aa, AaRatio, Attribution, CategoryShare, DirectionRate, ImportedRun, Knee, MixFigures,
    StudyResults,
};
use linkrate_study::trend::StudyTrend;
use linkrate_study::verdict::{FlowDirection, Shortfall};
use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
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
    let lacks = vec!["service demand".to_owned()];
    imported.imported = vec![ImportedRun { lacks, ..imported_run() }];
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

/// A run of another program that lacks nothing.
pub(crate) fn imported_run() -> ImportedRun {
    ImportedRun {
        file: "tcp.json".to_owned(),
        place: None,
        program: "iperf3 3.12".to_owned(),
        test: "TCP".to_owned(),
        levels: Levels::default(),
        started_unix_ms: None,
        lacks: Vec::new(),
    }
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

/// The schema of the documents of a type, as its declaration has it.
fn derived<T: JsonSchema>(id: &str, title: &str) -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(tidy);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), json!(id));
    schema.insert("title".to_owned(), json!(title));
    serde_json::to_string_pretty(&schema).unwrap() + "\n"
}

fn tidy(schema: &mut Schema) {
    // what only Rust knows: the width of a number
    if schema.get("format").is_some_and(Value::is_string) {
        schema.remove("format");
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let first = text.split("\n\n").next().unwrap_or_default();
        *text = first.replace('\n', " ");
    }
    // a list of words without what the code says of each
    let word = |of: &Value| of.get("const").cloned();
    let ways = schema.get("oneOf").and_then(Value::as_array);
    if let Some(words) = ways.and_then(|ways| ways.iter().map(word).collect::<Option<Vec<_>>>()) {
        schema.remove("oneOf");
        schema.insert("enum".to_owned(), Value::Array(words));
    }
    transform_subschemas(&mut tidy, schema);
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required =
        |key: &str| required.as_array().is_some_and(|keys| keys.iter().any(|one| one == key));
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (key, of) in properties.into_iter().flatten() {
        if !is_required(key) {
            without_null(of);
        }
    }
    if schema.get("properties").is_some() {
        let ways = schema.get_mut("oneOf").and_then(Value::as_array_mut);
        let closed = if ways.is_some() { "unevaluatedProperties" } else { "additionalProperties" };
        for way in ways.into_iter().flatten().filter_map(Value::as_object_mut) {
            way.remove("additionalProperties");
        }
        schema.insert(closed.to_owned(), json!(false));
    }
}

/// A key that may be absent is never null.
fn without_null(of: &mut Value) {
    if let Some(Value::Array(ways)) = of.get_mut("anyOf") {
        ways.retain(|way| way["type"] != "null");
        let only = ways.pop().expect("another way");
        let of = of.as_object_mut().expect("an object");
        of.remove("anyOf");
        of.extend(only.as_object().expect("an object").clone());
    }
    if let Some(Value::Array(types)) = of.get_mut("type") {
        types.retain(|one| one != "null");
        of["type"] = types.remove(0);
    }
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let results = "Results of a linkrate study or measurement";
    let comparison = "Two result sets of the same linkrate study";
    let trend = "Result sets of one linkrate study over time";
    for (name, found, expected) in [
        ("results", RESULTS_SCHEMA, derived::<StudyResults>("urn:linkrate:results:1", results)),
        (
            "comparison",
            COMPARISON_SCHEMA,
            derived::<StudyComparison>("urn:linkrate:comparison:1", comparison),
        ),
        ("trend", TREND_SCHEMA, derived::<StudyTrend>("urn:linkrate:trend:1", trend)),
    ] {
        book::check_file(&format!("reference/{name}.schema.json"), found, &expected);
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
        ("A cell of results", RESULTS_SCHEMA, Some("CellResult")),
        ("An effect of results", RESULTS_SCHEMA, Some("Effect")),
        ("Comparison", COMPARISON_SCHEMA, None),
        ("A row of a comparison", COMPARISON_SCHEMA, Some("MeasureRow")),
        ("Trend", TREND_SCHEMA, None),
    ] {
        let schema: Value = serde_json::from_str(schema).unwrap();
        let object = definition.map_or(&schema, |name| &schema["$defs"][name]);
        let table = book::table(["key", "meaning"], keys_of(object));
        text.push_str(&format!("### {title}\n\n{table}\n"));
    }
    book::check("reference/results.md", "linkrate-report/tests/report/schema.rs", &text);
}

/// Each key of an object with the first clause of its description, required ones in their order first.
fn keys_of(object: &Value) -> Vec<[String; 2]> {
    let properties = object["properties"].as_object().unwrap();
    let required = object["required"].as_array().unwrap().iter().filter_map(Value::as_str);
    let mut keys: Vec<&str> = required.collect();
    let others = properties.keys().map(String::as_str).filter(|key| !keys.contains(key));
    keys.extend(others.collect::<Vec<_>>());
    let meaning = |key: &str| {
        let property = &properties[key];
        let description = property["description"].as_str().unwrap_or_default();
        let clause = description.split("; ").next().unwrap_or_default();
        clause.split(". ").next().unwrap_or_default().trim_end_matches('.').to_owned()
    };
    keys.into_iter().map(|key| [format!("`{key}`"), meaning(key)]).collect()
}
