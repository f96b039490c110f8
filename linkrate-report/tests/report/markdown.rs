//! The paper as Markdown: the same story, whole tables, figures that are there.

use linkrate_report::markdown::document;

use crate::{fixture, simulated};

#[test]
fn figures_are_files_that_the_text_refers_to() {
    for results in [simulated::study("tso"), simulated::profiled(), fixture::request_response()] {
        let markdown = document(&results).unwrap();
        let referred: Vec<&str> = markdown
            .text
            .split("<img src=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let files: Vec<&str> = markdown.figures.iter().map(|(name, _)| name.as_str()).collect();
        assert!(!files.is_empty());
        assert_eq!(referred, files);
        for (name, svg) in &markdown.figures {
            assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{name}");
            assert!(svg.contains("<title>") && svg.contains("<desc>"), "{name}");
            assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count(), "{name}");
        }
    }
}

/// GitHub ends a table at the first line that is none, and shows a row with too many fields cut.
#[test]
fn every_row_has_the_columns_of_its_head() {
    for results in [simulated::study("ten-gigabit"), fixture::stream(), fixture::hostile()] {
        let text = document(&results).unwrap().text;
        let mut columns = None;
        for line in text.lines() {
            if !line.starts_with('|') {
                columns = None;
                continue;
            }
            let bars = line.replace("\\|", "").matches('|').count();
            assert_eq!(*columns.get_or_insert(bars), bars, "{line}");
        }
    }
}

#[test]
fn texts_from_outside_are_not_markup() {
    let text = document(&fixture::hostile()).unwrap().text;
    assert!(!text.contains("<script") && text.contains("&lt;script&gt;"));
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn the_same_results_give_the_same_document() {
    let of = || document(&simulated::study("message-size")).unwrap();
    assert_eq!(of(), of());
}

#[test]
fn a_document() {
    let text = document(&fixture::stream()).unwrap().text;
    insta::assert_snapshot!(text);
}
