//! What can be read from a PDF without a library: its pages, and on which of them a destination is.
//!
//! Chromium writes page objects and named destinations as plain text, `/name [12 0 R /XYZ x y 0]`.
//! Should that change, nothing is found, and the tests that ask fail.

use std::collections::BTreeMap;

/// A printed page of HTML.
pub struct Pdf {
    /// Object numbers of the pages.
    pub pages: Vec<u32>,
    /// Page object and height on the page, in points from below, by the name of the destination.
    pub destinations: BTreeMap<String, (u32, f64)>,
}

pub fn read(bytes: &[u8]) -> Pdf {
    assert!(bytes.starts_with(b"%PDF-"), "not a PDF");
    let text = String::from_utf8_lossy(bytes);
    let mut pages = Vec::new();
    let mut object = 0;
    let mut destinations = BTreeMap::new();
    for line in text.lines() {
        if let Some(number) = line.strip_suffix(" 0 obj").and_then(|n| n.trim().parse().ok()) {
            object = number;
        }
        if line.contains("/Type /Page") && !line.contains("/Type /Pages") {
            pages.push(object);
        }
        if let Some((name, page, height)) = destination(line) {
            destinations.insert(name, (page, height));
        }
    }
    Pdf { pages, destinations }
}

/// `/figure-1 [38 0 R /XYZ 0 375.4 0]`, as name, page object and height.
fn destination(line: &str) -> Option<(String, u32, f64)> {
    let (name, place) = line.trim_start_matches("<<").strip_prefix('/')?.split_once(" [")?;
    let (page, place) = place.split_once(" 0 R /XYZ ")?;
    let height = place.split(' ').nth(1)?;
    Some((name.to_owned(), page.parse().ok()?, height.parse().ok()?))
}

#[test]
fn destinations_are_read() {
    assert_eq!(
        destination("/figure-1-a [38 0 R /XYZ 0 375.41998 0]"),
        Some(("figure-1-a".to_owned(), 38, 375.41998))
    );
    assert_eq!(destination("/Dest /effect-13"), None);
}
