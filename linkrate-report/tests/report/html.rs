//! The page: self-contained, escaped, complete, the same every time.

use linkrate_study::results::StudyResults;

use crate::{fixture, simulated};

/// The page with ordinary blanks and slashes.
fn page(results: &StudyResults) -> Result<String, linkrate_report::ReportError> {
    let page = linkrate_report::html::page(results)?;
    Ok(page.replace('\u{a0}', " ").replace("&#x2f;", "/"))
}

#[test]
fn the_page_needs_no_network_and_no_script() {
    let html = page(&fixture::stream()).unwrap();
    let fetches = html.replace("http://www.w3.org/2000/svg", "");
    for needle in ["http://", "https://", "<script", "<link", "<img", "<iframe", "@import", "url("]
    {
        assert!(!fetches.contains(needle), "{needle}");
    }
    assert!(html.trim_start().starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
}

#[test]
fn texts_from_outside_are_escaped() {
    let html = page(&fixture::hostile()).unwrap();
    assert!(!html.contains("<script") && !html.contains("alert('x')</"));
    assert!(html.contains("&lt;script&gt;"));
    assert!(!html.contains('\u{1b}'));
}

#[test]
fn figures_verdicts_and_reasons_are_on_the_page() {
    let html = page(&fixture::stream()).unwrap();
    for needle in [
        "24.8 Gb/s",
        "±2.1 %",
        "0.360 µs/KB",
        "window (transmit 68.0 %, receive 68.0 % of sending time)",
        "the SUT may do more with stronger clients",
        "−83.8 to −82.8 %",
        "inconclusive",
        "read back rx-gro",
        "powersave",
        "Example Core 4200",
        "63,900 B",
        "<dt>client CPU</dt><dd>61.2 %</dd>",
    ] {
        assert!(html.contains(needle), "{needle}");
    }
}

#[test]
fn adapter_figures_and_published_ones_are_on_the_page() {
    let html = page(&fixture::adapter()).unwrap();
    for needle in [
        "<dt>Adapter</dt><dd>Adapter gigabit, links at 0.1 of their rate</dd>",
        "Compared with published results",
        "−47 %",
        "−83.3 %",
        "1.35 µs/KB",
        "+178.63 Mb/s",
        "<dt>frame sent on the wire</dt><dd>1511 B</dd>",
        "eth0 98.9/2.2 %, eth1 98.9/2.2 %",
        "compare relative changes",
        // drawings and tables have marks, and their meanings
        "transmit ‡</th>",
        "Dot with interval: measured here. ‡: not limited by the adapter",
        "Parameter: used to calibrate the model",
    ] {
        assert!(html.contains(needle), "{needle}");
    }
    let html = page(&fixture::stream()).unwrap();
    assert!(!html.contains("published results") && !html.contains("of their rate"));
}

#[test]
fn every_chart_has_a_text_alternative_and_unique_names() {
    let html = page(&fixture::stream()).unwrap();
    let charts = html.matches("role=\"img\"").count();
    assert_eq!(charts, 2, "bars side by side");
    assert_eq!(html.matches("<desc id=").count(), charts);
    let mut ids: Vec<&str> =
        html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

/// A screen reader walks from heading to heading and hears the head of each row and column; a keyboard scrolls what is wide.
#[test]
fn headings_tables_and_lists_are_marked_as_such() {
    for results in [simulated::study("tso"), fixture::adapter(), fixture::failed()] {
        let html = page(&results).unwrap();
        let levels = html.match_indices("<h").filter_map(|(at, _)| html[at + 2..].chars().next());
        let levels: Vec<u32> = levels.filter_map(|level| level.to_digit(10)).collect();
        assert_eq!((levels[0], levels.iter().filter(|level| **level == 1).count()), (1, 1));
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
        let heads = html.matches("<th ").count();
        assert_eq!(heads, html.matches("<th scope=\"").count());
        let rows = html.matches("<tr>").count() - html.matches("<thead>").count();
        assert_eq!(rows, html.matches("scope=\"row\"").count(), "each row has its head");
        let scrolling = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"";
        assert_eq!(html.matches("<table>").count(), html.matches(scrolling).count());
        assert!(!html.contains('•') && !html.contains('`'));
        for section in html.split("<section id=\"").skip(1) {
            let name = section.split('"').next().unwrap();
            assert!(section.contains(&format!("<h2 id=\"h-{name}\">")), "{name}");
        }
    }
    assert!(page(&simulated::study("tso")).unwrap().contains("<ul>\n<li>netperf 2 ran"));
}

/// A colour that the style sheet does not know would stay as it is in the dark scheme.
#[test]
fn the_style_sheet_knows_every_colour_of_the_charts() {
    for results in [fixture::stream(), simulated::study("request-response"), simulated::profiled()]
    {
        let html = page(&results).unwrap();
        for attribute in ["fill", "stroke"] {
            for rest in html.split(&format!(" {attribute}=\"#")).skip(1) {
                let rule = format!("[{attribute}=\"#{}\"]", &rest[..6]);
                assert!(html.contains(&rule), "{rule}");
            }
        }
    }
}

#[test]
fn tags_are_closed_in_the_order_in_which_they_were_opened() {
    for results in
        [fixture::stream(), fixture::request_response(), fixture::single(), fixture::adapter()]
    {
        let html = page(&results).unwrap();
        let mut open: Vec<&str> = Vec::new();
        for rest in html.split('<').skip(1) {
            let tag = rest.split('>').next().unwrap();
            let name = tag.split_whitespace().next().unwrap();
            match name.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None if tag.ends_with('/') || ["!DOCTYPE", "meta"].contains(&name) => {}
                None => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }
}

#[test]
fn a_single_run_has_a_page_without_charts_and_effects() {
    let html = page(&fixture::single()).unwrap();
    assert!(html.contains("24.8 Gb/s") && html.contains("All cells"));
    assert!(!html.contains("<svg") && !html.contains("All effects"));
    assert!(html.contains("eth2 70.0/51.2 %, eth3 30.0/48.8 %"), "members of an aggregate");
}

#[test]
fn the_same_results_give_the_same_bytes() {
    assert_eq!(page(&fixture::stream()).unwrap(), page(&fixture::stream()).unwrap());
}
