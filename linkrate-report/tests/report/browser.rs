//! The page as a browser has it: nothing fetched, nothing complained of, nothing cut, nothing that
//! overlaps, in every width, scheme and on paper. Each look is also taken at a page that is wrong
//! in that way, so that a look that sees nothing is noticed.

use std::path::PathBuf;

use linkrate_report::html::page;
use linkrate_stats::simulate::times;
use serde_json::{Value, json};

use crate::chromium::Browser;
use crate::{fixture, pdf, simulated, trend};

/// A directory with the pages of very different studies.
struct Pages {
    directory: tempfile::TempDir,
    names: Vec<&'static str>,
}

impl Pages {
    fn write() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let all = [
            ("tso", simulated::study("tso")),
            ("ten-gigabit", simulated::study("ten-gigabit")),
            ("profiled", simulated::profiled()),
            ("hostile", fixture::hostile()),
            ("single", fixture::single()),
            ("message-size", simulated::study("message-size")),
            ("request-response", simulated::study("request-response")),
            ("stream", fixture::stream()),
            ("adapter", fixture::adapter()),
        ];
        for (name, results) in &all {
            let html = page(results).unwrap();
            std::fs::write(directory.path().join(format!("{name}.html")), html).unwrap();
        }
        let html = linkrate_report::trend::page(&trend::of_nights()).unwrap();
        std::fs::write(directory.path().join("trend.html"), html).unwrap();
        // those that are looked at in each width and scheme
        let names = all.iter().map(|(name, _)| *name).chain(["trend"]);
        let names = names.take(times(5, 10) as usize).collect();
        Self { directory, names }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.html"))
    }

    /// A page that is not made by us.
    fn wrong(&self, body: &str) -> PathBuf {
        let path = self.path("wrong");
        let html = format!("<!DOCTYPE html><html><head><meta charset=utf-8></head><body>{body}");
        std::fs::write(&path, html).unwrap();
        path
    }
}

#[test]
fn a_page_loads_nothing_and_logs_no_error() {
    let mut browser = or_skip!(Browser::start());
    let pages = Pages::write();
    for name in &pages.names {
        let loaded = browser.load(&pages.path(name));
        let itself = format!("file://{}", pages.path(name).display());
        assert_eq!(loaded.requests, [itself], "{name}");
        assert_eq!(loaded.complaints, Vec::<String>::new(), "{name}");
    }
    let body = "<img src='http://127.0.0.1:9/x.png'><script>console.error('oh')</script>";
    let loaded = browser.load(&pages.wrong(body));
    assert!(loaded.requests.iter().any(|url| url.contains("127.0.0.1:9")), "{loaded:?}");
    assert!(loaded.complaints.iter().any(|complaint| complaint.contains("oh")), "{loaded:?}");
}

/// Whether the page is as wide as its window, and whether each table that is wider scrolls in a
/// box of its own.
const WIDTHS: &str = "(() => {
    const root = document.documentElement;
    const wide = [...document.querySelectorAll('body *')]
        .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
        .filter(e => !e.closest('.scroll, pre') && !e.closest('details:not([open])'));
    return [root.scrollWidth <= innerWidth, wide.map(e => e.outerHTML.slice(0, 120))];
})()";

#[test]
fn a_page_fits_every_window() {
    let mut browser = or_skip!(Browser::start());
    let pages = Pages::write();
    for name in &pages.names {
        browser.load(&pages.path(name));
        let widths = [360, 768, 1920, 390, 705, 1280];
        for width in widths.into_iter().take(times(3, 6) as usize) {
            browser.set(width, "light", "screen");
            assert_eq!(browser.evaluate(WIDTHS), json!([true, []]), "{name} at {width}");
        }
    }
    browser.load(&pages.wrong("<div style='width: 3000px'>wide</div>"));
    assert_eq!(browser.evaluate(WIDTHS)[0], json!(false));
}

/// Texts of drawings that leave their drawing, or lie on another text, or are too pale for what
/// they lie on. Only drawings that are shown.
const TEXTS: &str = "(() => {
    const channel = c => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
    const luminance = color => {
        const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(channel);
        return .2126 * r + .7152 * g + .0722 * b;
    };
    const contrast = (a, b) => {
        const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
        return (light + .05) / (dark + .05);
    };
    const ground = getComputedStyle(document.body).backgroundColor;
    const wrong = [];
    let seen = 0;
    for (const svg of document.querySelectorAll('svg[role=img]')) {
        const frame = svg.getBoundingClientRect();
        if (frame.width === 0) continue;
        const texts = [...svg.querySelectorAll('text')].map(text => [text, text.getBoundingClientRect()]);
        for (const [index, [text, box]] of texts.entries()) {
            seen += 1;
            const name = svg.querySelector('title').textContent + ': ' + text.textContent.trim();
            if (box.left < frame.left - 1 || box.right > frame.right + 1
                || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) wrong.push('cut: ' + name);
            const pale = contrast(getComputedStyle(text).fill, ground);
            if (pale < 4.5) wrong.push('pale: ' + name + ' ' + pale.toFixed(1));
            for (const [other, its] of texts.slice(index + 1)) {
                const x = Math.min(box.right, its.right) - Math.max(box.left, its.left);
                const y = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
                // line boxes have air above and below their letters
                if (x > 1 && y > .45 * Math.min(box.height, its.height))
                    wrong.push('on each other: ' + name + ' and ' + other.textContent.trim());
            }
        }
    }
    return [seen, wrong];
})()";

fn wrong_texts(browser: &mut Browser) -> (u64, Vec<Value>) {
    let looked = browser.evaluate(TEXTS);
    (looked[0].as_u64().unwrap(), looked[1].as_array().unwrap().clone())
}

#[test]
fn drawings_are_legible_in_every_width_and_scheme() {
    let mut browser = or_skip!(Browser::start());
    let pages = Pages::write();
    for name in &pages.names {
        browser.load(&pages.path(name));
        let grounds = [
            (1280, "light", "screen"),
            (1280, "dark", "screen"),
            (360, "light", "screen"),
            (673, "dark", "print"),
        ]
        .map(|(width, scheme, medium)| {
            browser.set(width, scheme, medium);
            let (seen, wrong) = wrong_texts(&mut browser);
            assert!(wrong.is_empty(), "{name} at {width}, {scheme}, {medium}: {wrong:#?}");
            assert!(seen > 20 || ["single", "hostile"].contains(name), "{name}: {seen} texts");
            browser.evaluate("getComputedStyle(document.body).backgroundColor")
        });
        // paper stays white whatever the screen prefers
        let [light, dark, narrow, paper] = &grounds;
        assert!(light == narrow && light == paper && light != dark, "{grounds:?}");
    }
    let text = "<text x='190' y='20'>long long long</text><text x='100' y='50'>a</text>\
                <text x='101' y='50'>b</text><text x='20' y='80' fill='#eeeeee'>pale</text>";
    browser.set(1280, "light", "screen");
    let body = format!(
        "<body style='background: rgb(255, 255, 255)'><svg role=img width=200 height=100>\
         <title>t</title>{text}</svg>"
    );
    browser.load(&pages.wrong(&body));
    assert_eq!(wrong_texts(&mut browser).1.len(), 3);
}

/// Puts a mark at the beginning and at the end of each figure and row that is printed, and links to
/// all marks, so that the PDF says on which page they are.
const MARKS: &str = "(() => {
    const links = document.createElement('p');
    links.style.fontSize = '1px';
    const marked = [...document.querySelectorAll('figure, tbody tr')].filter(e => !e.closest('details'));
    marked.forEach((element, index) => {
        const inside = element.tagName === 'TR' ? [element.firstElementChild] : [element];
        for (const [place, end] of [['prepend', 'a'], ['append', 'b']]) {
            const mark = document.createElement('span');
            mark.id = 'mark-' + index + '-' + end;
            mark.style = 'display: block; height: 0';
            (place === 'append' && element.tagName === 'TR'
                ? [...element.children].sort((x, y) => y.scrollHeight - x.scrollHeight)[0] : inside[0])[place](mark);
            const link = document.createElement('a');
            link.href = '#' + mark.id;
            link.textContent = '.';
            links.append(link);
        }
    });
    document.body.append(links);
    return marked.length;
})()";

/// Pages, marked things, and which of them are on two pages.
fn printed(browser: &mut Browser) -> (usize, usize, Vec<u64>) {
    let marked = browser.evaluate(MARKS).as_u64().unwrap();
    let printed = pdf::read(&browser.print());
    let page = |index: u64, end: char| {
        let name = format!("mark-{index}-{end}");
        printed.destinations.get(&name).unwrap_or_else(|| panic!("{name} is not in the PDF")).0
    };
    let cut = (0..marked).filter(|index| page(*index, 'a') != page(*index, 'b')).collect();
    (printed.pages.len(), usize::try_from(marked).unwrap(), cut)
}

#[test]
fn a_printed_page_cuts_neither_figures_nor_rows() {
    let mut browser = or_skip!(Browser::start());
    let pages = Pages::write();
    browser.set(1280, "dark", "");
    // as many as a user would hand out; a page more or less comes of other fonts
    for (name, expected) in
        [("tso", 7..=12), ("ten-gigabit", 7..=16), ("message-size", 4..=7), ("single", 2..=3)]
    {
        browser.load(&pages.path(name));
        let unmarked = pdf::read(&browser.print()).pages.len();
        assert!(expected.contains(&unmarked), "{name} has {unmarked} pages");
        let (_, marked, cut) = printed(&mut browser);
        assert!(marked > 0 && cut.is_empty(), "{name}: {cut:?} of {marked} are cut");
    }
    // the same look at a page whose figures may be cut
    browser.load(&pages.path("tso"));
    browser.evaluate(
        "document.head.insertAdjacentHTML('beforeend', '<style>figure, tr { break-inside: auto \
         !important } figure { padding-top: 9cm }</style>')",
    );
    let (_, _, cut) = printed(&mut browser);
    assert!(!cut.is_empty(), "nothing is cut where everything may be");
}

/// Answer, trust and comparison are on two sheets; the method begins the third at the latest.
#[test]
fn the_first_part_has_two_pages() {
    let mut browser = or_skip!(Browser::start());
    let pages = Pages::write();
    browser.set(1280, "light", "");
    for name in ["tso", "ten-gigabit", "message-size", "request-response", "stream", "adapter"] {
        browser.load(&pages.path(name));
        browser.evaluate(
            "document.body.insertAdjacentHTML('beforeend', '<a href=\"#h-method\">.</a>')",
        );
        let printed = pdf::read(&browser.print());
        let (object, _) = printed.destinations["h-method"];
        let sheet = printed.pages.iter().position(|page| *page == object).unwrap();
        assert!(sheet <= 2, "{name}: the method begins on page {}", sheet + 1);
    }
}

/// On paper nothing can be scrolled: tables must fit between the margins.
#[test]
fn tables_fit_the_paper() {
    let mut browser = or_skip!(Browser::start());
    let pages = Pages::write();
    // A4 less margins of 16 mm, in CSS pixels
    browser.set(673, "light", "print");
    let look =
        "[...document.querySelectorAll('table')].filter(table => table.getClientRects().length)
        .filter(table => table.scrollWidth > table.parentElement.clientWidth + 1
            || table.getBoundingClientRect().right > innerWidth + 1)
        .map(table => table.caption.textContent + ' ' + table.scrollWidth)";
    for name in &pages.names {
        browser.load(&pages.path(name));
        assert_eq!(browser.evaluate(look), json!([]), "{name}");
    }
    let table = "<table style='width: 900px'><caption>wide</caption><tr><td>a</table>";
    browser.load(&pages.wrong(table));
    assert_eq!(browser.evaluate(look).as_array().map(Vec::len), Some(1));
}

#[test]
fn folded_runs_are_not_printed() {
    let mut browser = or_skip!(Browser::start());
    let pages = Pages::write();
    let shown = "[...document.querySelectorAll('details, .print-only')].map(e => e.getClientRects().length > 0)";
    browser.set(1280, "light", "screen");
    browser.load(&pages.path("tso"));
    assert_eq!(browser.evaluate(shown), json!([true, true, false]));
    browser.set(1280, "light", "print");
    assert_eq!(browser.evaluate(shown), json!([false, false, true]));
}
