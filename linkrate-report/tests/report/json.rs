//! The shape that scripts rely on.

use linkrate_report::json::document;
use serde_json::{Value, json};

use crate::fixture;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_document_has_the_promised_shape() {
    let text = document(&fixture::stream());
    assert!(text.ends_with("}\n"));
    let value = parsed(&text);
    assert_eq!(value["format"], 1);
    assert_eq!(value["study"], "tso");
    assert_eq!(value["results"], "tso-20231114-2213");
    assert!(value.get("directory").is_none());
    let cell = &value["cells"][4];
    assert_eq!(cell["levels"], json!({"offload": "tso", "direction": "transmit"}));
    assert_eq!(cell["runs"], 5);
    for (figure, unit) in [("throughput", "bit/s"), ("service_demand", "us/KB"), ("cpu", "%")] {
        assert_eq!(cell[figure]["unit"], unit);
        for key in ["mean", "low", "high"] {
            assert!(cell[figure][key].is_f64(), "{figure}.{key}");
        }
    }
    assert!(cell["evidence"].is_object());
    let verdict = cell["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("limited by the clients' CPU") && verdict.ends_with("clients"));
    assert_eq!(cell["bottlenecks"][0]["resource"], "client_cpu");
    let effect = &value["effects"][6];
    assert_eq!(
        *effect,
        json!({
            "factor": "offload", "from": "none", "to": "tso", "at": {"direction": "transmit"},
            "measure": "service_demand", "ratio": {"mean": 0.167, "low": 0.162, "high": 0.172},
            "pairs": 5, "p": 0.0001, "adjusted_p": 0.001, "p_beyond": 0.0002, "adjusted_p_beyond": 0.002,
            "significant": true, "different": false, "equivalent": false, "detectable": null, "host_limited": null,
            "same_as": null,
        })
    );
}

#[test]
fn adapters_and_published_figures_have_their_shape() {
    let value = parsed(&document(&fixture::adapter()));
    assert_eq!((&value["adapter"], &value["scale"]), (&json!("gigabit"), &json!(0.1)));
    let cell = &value["cells"][1];
    assert_eq!(cell["limit"]["unit"], "bit/s");
    let adapter = &cell["evidence"]["adapter"];
    assert_eq!(adapter["ports"][1]["port"], "eth1");
    assert_eq!(adapter["drops"], json!({"rxDropRingFull": 2.5}));
    assert!(adapter["merges_per_superframe"].is_null());
    assert_eq!(
        value["published"][0],
        json!({
            "measure": "service_demand", "at": {"direction": "transmit"}, "factor": "offload",
            "from": "none", "to": "tso", "kind": "effect", "basis": "printed",
            "combinations": 3, "left_out": 0,
            "published": 0.53,
            "measured": {"mean": 0.167, "low": 0.162, "high": 0.172}, "unit": "ratio",
            "published_percent_of_limit": null, "measured_percent_of_limit": null,
        })
    );
    assert!(value["published"][1]["measured"].is_null());
    let of_limit = &value["published"][3];
    assert_eq!(of_limit["published_percent_of_limit"], 97.8);
    assert_eq!(of_limit["measured_percent_of_limit"]["mean"], 98.9);
    let predicted = &value["cells"][0]["predicted"];
    assert_eq!(
        (&predicted[0]["direction"], &predicted[0]["balance"]),
        (&json!("transmit"), &json!("port"))
    );
    assert_eq!(predicted[0]["ports"][0]["share_percent"], 61.0);
    assert_eq!(predicted[1]["unpredictable"], "each frame takes the next port");
    assert_eq!(value["cells"][0]["evidence"]["adapter"]["frames_overtaken"], 12_340.0);
    assert!(cell["predicted"].is_null(), "without an aggregate");
    assert!(parsed(&document(&fixture::stream()))["cells"][0]["evidence"]["adapter"].is_null());
}

#[test]
fn without_an_interval_its_ends_are_null() {
    let value = parsed(&document(&fixture::single()));
    let throughput = &value["cells"][0]["throughput"];
    assert!(throughput["mean"].is_f64());
    assert!(throughput["low"].is_null() && throughput["high"].is_null());
    assert_eq!(value["effects"], json!([]));
}

#[test]
fn numbers_and_switches_stay_what_they_are() {
    let value = parsed(&document(&fixture::request_response()));
    assert_eq!(value["cells"][1]["levels"], json!({"connections": 8}));
    assert_eq!(value["cells"][1]["service_demand"]["unit"], "us/transaction");
}

#[test]
fn the_same_results_give_the_same_bytes() {
    assert_eq!(document(&fixture::stream()), document(&fixture::stream()));
}
