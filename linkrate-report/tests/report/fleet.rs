//! Matrices of a fleet in terminal, HTML and Markdown.

use linkrate_report::terminal::{Style, table};
use linkrate_report::{html, markdown};

use crate::fixture;

#[test]
fn the_terminal_has_a_matrix_and_what_stands_out() {
    let text = table(&fixture::fleet(), Some(100), Style::default());
    for part in [
        "Throughput of each pair, Gb/s\n",
        "n3         failed  0.940   9.40",
        "stands out: node n1: −90.0 % (−90.1 to −89.9 %), adjusted p = 2.30e-9",
        "  link of n1 is 1 Gb/s, where 3 of 4 nodes have 10 Gb/s",
        "stands out: pair n2 → n3:",
        "slow nodes have in common: firmware is 1.9 on 2 of 2, and on 1 of 14 other nodes, adjusted p = 2.50e-2",
        "failed: 5 failed runs of n3 → n0: testbed: ssh made no connection",
        "Retransmissions of each pair, segments a run\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let narrow = table(&fixture::fleet(), Some(40), Style::default());
    assert!(narrow.contains("medians over the pairs of a node"), "{narrow}");
}

#[test]
fn the_report_has_a_picture_for_each_figure() {
    let page = html::page(&fixture::fleet()).unwrap();
    for part in ["Pairs of the fleet", "n1 to n2 0.940", "link of n1 is"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!html::page(&fixture::single()).unwrap().contains("Pairs of the fleet"));
    let report = markdown::document(&fixture::fleet()).unwrap();
    assert!(report.text.contains("Pairs of the fleet"));
}

#[test]
fn an_incast_has_the_rate_of_all_others_together_and_who_had_least() {
    let table = table(&fixture::incast(), Some(120), Style::default());
    let text = table.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "all others to n0: 9.40 Gb/s (9.31 to 9.49), Jain's index 0.842, least with n2: 1.20 Gb/s, 2100 segments",
        "all others to n3: no figures, 3 runs failed",
    ] {
        assert!(text.contains(part), "{part}\n{table}");
    }
    assert!(!text.contains("stands out"), "{text}");
}
