//! Tests of published figures in study files.

use super::*;
use crate::file::parse;

fn text(published: &str) -> String {
    format!(
        "title = \"t\"\n[factors]\noffload = [\"none\", \"tso\"]\nmtu = [1500, \"9000 B\"]\n\
         [workload]\ncongestion = \"cubic\"\n[[published]]\n{published}\n"
    )
}

fn read_one(published: &str) -> Result<Published, String> {
    let study = parse("t", "t.toml", &text(published)).map_err(|errors| errors.to_string())?;
    Ok(study.published[0].clone())
}

const STEP: &str = "factor = \"offload\"\nfrom = \"none\"\nto = \"tso\"\n";

#[test]
fn figures_are_read_in_their_units() {
    for (measure, line, expected) in [
        ("throughput", "value = \"9.47 Gb/s\"", 9.47e9),
        ("service-demand", "value = \"1.35 us/KB\"", 1.35),
        ("service-demand", "value = \"2.20 µs/KB\"", 2.2),
        ("cpu", "value = \"57.1 %\"", 57.1),
    ] {
        let at = "at = { offload = \"tso\", mtu = 9000 }";
        let found = read_one(&format!("measure = \"{measure}\"\n{at}\n{line}")).unwrap();
        let PublishedFigure::Value(value) = found.figure else { panic!("{found:?}") };
        assert!((value - expected).abs() <= expected * 1e-12, "{value}");
        // as the factor has it
        assert_eq!(found.at.get("mtu"), Some(&Level::Text("9000 B".to_owned())));
    }
    let found =
        read_one(&format!("measure = \"service-demand\"\n{STEP}effect = \"−47 %\"")).unwrap();
    let PublishedFigure::Effect(step, ratio) = &found.figure else { panic!("{found:?}") };
    assert_eq!((step.factor.as_str(), &step.to), ("offload", &Level::Text("tso".to_owned())));
    assert!((ratio - 0.53).abs() < 1e-12);
    let line = "at = { mtu = 1500 }\ndifference = \"+178.63 Mb/s\"";
    let found = read_one(&format!("measure = \"throughput\"\n{STEP}{line}")).unwrap();
    assert!(
        matches!(found.figure, PublishedFigure::Difference(_, bits) if (bits - 178.63e6).abs() < 1.0)
    );
}

#[test]
fn a_figure_may_name_its_source() {
    let of = |line: &str| {
        let found = format!("measure = \"service-demand\"\n{STEP}effect = \"−47 %\"\n{line}");
        read_one(&found).map(|published| published.source)
    };
    assert_eq!(of(""), Ok(None));
    assert_eq!(of("source = \"a letter (2022)\""), Ok(Some("a letter (2022)".to_owned())));
    for (line, message) in [
        ("source = 2022".to_owned(), "published.source: 2022 is not text"),
        ("source = \" \"".to_owned(), "published.source: the source is empty"),
        (format!("source = \"{}\"", "a".repeat(101)), "is longer than 100 characters"),
    ] {
        let refused = of(&line).unwrap_err();
        assert!(refused.contains(message), "{line}: {refused}");
    }
}

#[test]
fn a_figure_has_a_basis() {
    let of = |line: &str| {
        let found = format!("measure = \"service-demand\"\n{STEP}effect = \"−47 %\"\n{line}");
        read_one(&found).map(|published| published.basis)
    };
    assert_eq!(of(""), Ok(Basis::Printed));
    for (word, basis) in Basis::ALL {
        assert_eq!(of(&format!("basis = \"{word}\"")), Ok(basis));
    }
    let refused = of("basis = \"guessed\"").unwrap_err();
    assert!(refused.contains("unknown value \"guessed\""), "{refused}");
    // a plan of before the key exists reads as it was
    let printed =
        read_one("measure = \"cpu\"\nat = { offload = \"tso\", mtu = 9000 }\nvalue = \"5 %\"");
    let stored = serde_json::to_value(printed.unwrap()).unwrap();
    assert_eq!(stored.get("basis"), None);
}

#[test]
fn explains_a_figure_without_a_cell() {
    let step = |rest: &str| format!("measure = \"throughput\"\n{STEP}{rest}");
    for (published, message) in [
        (String::new(), "t.toml:7:1: published.measure: missing; expected one of throughput"),
        ("measure = \"speed\"\nvalue = \"1 Gb/s\"".to_owned(), "unknown value \"speed\""),
        (step(""), "published.effect: missing; give one of effect, difference and value"),
        (step("effect = \"1 %\"\nvalue = \"1 Gb/s\""), "give one of effect, difference"),
        (step("value = \"1 Gb/s\""), "published.factor: a published value has no such key"),
        (step("effect = 3"), "3 is not text; expected a change such as"),
        (step("effect = \"-100 %\""), "\"-100 %\" is not a valid effect of this"),
        (step("at = { mtu = 1500 }\ndifference = \"3 %\""), "expected a rate such as"),
        (step("difference = \"1 Mb/s\""), "difference needs one pair of cells, but at matches 2"),
        (step("at = { mtu = 1501 }\neffect = \"1 %\""), "1501 is not a level of mtu; expected one"),
        (
            step("at = { mut = 1 }\neffect = \"1 %\""),
            "\"mut\" is not a factor of this study; did you",
        ),
        (step("at = 3\neffect = \"1 %\""), "published.at: 3 is not a table"),
        (
            step("at = { offload = \"tso\" }\neffect = \"1 %\""),
            "offload is fixed in at and cannot change",
        ),
        (step("colour = 3\neffect = \"1 %\""), "published: unknown key \"colour\""),
        (
            "measure = \"throughput\"\nfactor = \"offload\"\nfrom = \"tso\"\nto = \"tso\"\n\
             effect = \"1 %\""
                .to_owned(),
            "published.to: from and to are both tso; name two levels",
        ),
        (
            "measure = \"throughput\"\neffect = \"1 %\"".to_owned(),
            "published.factor: missing; give factor, from and to",
        ),
        (
            "measure = \"throughput\"\nat = { mtu = 1500 }\nvalue = \"1 Gb/s\"".to_owned(),
            "published.value: value needs one cell, but at matches 2; name the levels",
        ),
        (
            "measure = \"transactions\"\nat = { mtu = 1500 }\nvalue = \"1 /s\"".to_owned(),
            "value needs one cell",
        ),
        (
            "measure = \"transactions\"\nat = { mtu = 1500, offload = \"tso\" }\nvalue = \"1 /s\""
                .to_owned(),
            "transactions are a measure of request/response; these cells are streams",
        ),
    ] {
        let error = read_one(&published).unwrap_err();
        assert_eq!(error.lines().count(), 1, "{published}: {error}");
        assert!(error.contains(message), "{published}: {error}");
    }
}

#[test]
fn of_transactions_too() {
    let study = |lines: &str| {
        let text = format!(
            "title = \"t\"\n[factors]\nburst = [1, 8]\n[workload]\nkind = \"request-response\"\n\
             [[published]]\nat = {{ burst = 8 }}\n{lines}"
        );
        parse("t", "t.toml", &text).map(|study| study.published[0].figure.clone())
    };
    let value = PublishedFigure::Value(12_000.0);
    assert_eq!(study("measure = \"transactions\"\nvalue = \"12000 /s\""), Ok(value));
    let value = PublishedFigure::Value(17.1);
    let cost = "measure = \"service-demand\"\nvalue = \"17.1 us/transaction\"";
    assert_eq!(study(cost), Ok(value));
    let error = study("measure = \"throughput\"\nvalue = \"1 Gb/s\"").unwrap_err();
    assert!(error.to_string().contains("throughput is a measure of streams"), "{error}");
    assert!(study("measure = \"service-demand\"\nvalue = \"17.1 us/KB\"").is_err());
}
