//! What leaves the house names neither hosts nor people.

use linkrate_model::interfaces::Interfaces;
use linkrate_model::measurement::OtherProgram;
use linkrate_model::spec::Adapter;
use linkrate_report::redact::redacted;
use linkrate_report::{csv, html, json, markdown, terminal};
use linkrate_study::analysis::analyse;
use linkrate_study::executor::{RunFailure, Stage};
use linkrate_study::store::{Outcome, StoredStudy};

use crate::simulated;

/// What names somebody or something, in every place of a stored study that has room for it.
const SECRETS: [&str; 14] = [
    "lab2",
    "example.org",
    "alice",
    "bob",
    "10.20.30.40",
    "10.20.30.41",
    "fd00:1234::9",
    "52:54:00:ab:cd:ef",
    "/home/",
    "secretd",
    "backupd",
    "vault-token",
    "root=UUID",
    "control-port",
];

fn stored() -> StoredStudy {
    let mut stored = simulated::runs_of("tso");
    let peers = ["ssh:alice@lab2.example.org,10.20.30.40"].map(|peer| peer.parse().unwrap());
    let program = Some("/home/alice/linkrate".to_owned());
    let on = Interfaces::new(vec!["eth1".to_owned()], peers.to_vec(), program).unwrap();
    stored.plan.study.testbed.adapter = Adapter::Interfaces(on);
    stored.plan.study.source.push_str("# by bob@example.org, /home/bob/my.toml, on lab2\n");
    let facts = &mut stored.plan.facts;
    for (name, value) in [
        ("kernel-command-line", "root=UUID=1-2 isolcpus=1 vault-token=x -- --control-port 5001"),
        ("port-1-driver", "ice 6.12"),
        ("port-1-firmware", "22.5.7.11"),
        ("gateway", "10.20.30.41 at 52:54:00:ab:cd:ef"),
    ] {
        facts.facts.insert(name.to_owned(), value.to_owned());
    }
    facts.warnings.push("lab2 has the address fd00:1234::9 and swaps to /home/swap.".to_owned());
    let other = |name: &str| OtherProgram {
        pid: 77,
        name: name.to_owned(),
        cpu_ns: 60_000_000,
        bound_ns: 60_000_000,
    };
    for run in &mut stored.runs {
        if let Outcome::Measured(measured) = &mut run.outcome {
            measured.sut_cpu.background = vec![other("secretd")];
            measured.client_cpu.background = vec![other("backupd")];
            measured.remarks.push("lab2: /home/alice/linkrate is old".to_owned());
        }
    }
    let reason = "other programs used 70 %: \"secretd\" (process 77) 60 %, \"backupd\" (processes that have ended) 10 % on lab2.example.org";
    let outcome = Outcome::Failed(RunFailure::at(Stage::Measure, reason.to_owned()));
    stored.runs[1].outcome = outcome;
    stored
}

/// Every document of a study.
fn documents(stored: &StoredStudy) -> Vec<(&'static str, String)> {
    let results = analyse(stored);
    let style = terminal::Style { color: false };
    vec![
        ("html", html::page(&results).unwrap()),
        ("md", markdown::document(&results).unwrap().text),
        ("csv", String::from_utf8(csv::runs(&results).unwrap()).unwrap()),
        ("json", json::document(&results)),
        ("terminal", terminal::table(&results, None, style)),
        ("answer", terminal::answer(&results, None, None, style)),
    ]
}

#[test]
fn a_redacted_report_names_neither_hosts_nor_people() {
    let stored = stored();
    let plain = |text: &str| text.replace("&#x2f;", "/").replace('\u{a0}', " ").replace('\\', "");
    // each of them would be somewhere
    let all: String = documents(&stored).iter().map(|(_, text)| plain(text)).collect();
    let in_reports = SECRETS.iter().filter(|secret| all.contains(**secret)).count();
    assert!(in_reports >= 11, "{in_reports}");
    for (format, text) in documents(&redacted(&stored).unwrap()) {
        let text = plain(&text);
        for secret in SECRETS.into_iter().chain(["kernel-command-line"]) {
            assert!(!text.contains(secret), "{secret} in {format}");
        }
        if ["html", "md"].contains(&format) {
            for kept in
                ["ice 6.12", "22.5.7.11", "TSO", "a background process", "Example Core 4200"]
            {
                assert!(text.contains(kept), "{kept} in {format}");
            }
        }
    }
}

#[test]
fn the_kernel_command_line_is_never_printed_whole() {
    let page = html::page(&analyse(&stored())).unwrap();
    assert!(page.contains("<dt>kernel-command-line</dt><dd>isolcpus=1</dd>"));
    for private in ["root=UUID", "vault-token", "control-port"] {
        assert!(!page.contains(private), "{private}");
    }
}

#[test]
fn figures_are_the_same_without_names() {
    let stored = stored();
    let [whole, less] = [analyse(&stored), analyse(&redacted(&stored).unwrap())];
    assert!(whole.cells == less.cells && whole.effects == less.effects);
    assert_eq!(less.directory, "");
}
