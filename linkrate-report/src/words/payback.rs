//! Whether it is worth it to hand connections to the adapter, in words and tables.

use linkrate_study::labels;
use linkrate_study::levels::Levels;
use linkrate_study::quantity::{Interval, Quantity, Unit};
use linkrate_study::results::figures::{OffloadCost, Outcome, Payback, Paybacks, ShortLived};

use super::count;
use super::marks::HOST_LIMITED;
use crate::number::{self, ABSENT};
use crate::table::{NAME, NUMBER, Table, TableRow, headed};

/// Titles beside the cells', of what becomes of the cost of a connection offload.
const TITLES: [&str; 6] = [
    "offloaded",
    "saved, µs/KB",
    "without the driver, µs/KB",
    "pays after, KiB",
    "interval, KiB",
    "without the driver, KiB",
];

/// Titles beside the cell's, of what a connection offload costs.
const COSTS: [&str; 5] = [
    "offloaded",
    "CPU time of the host, µs",
    "interval, µs",
    "frames wait, µs",
    "program stalls, µs",
];

/// What the tables do not say by themselves.
const NOTE: &str = "Break-even is the CPU time of an offload over what it saves per KB, which is 1 KiB; its interval is that of Fieller. \
                        \"Without the driver\" leaves out what the emulated driver saves: no real adapter \
                        has its system calls.";

/// What is said where savings are the emulated driver's, as far as is shown.
const NOT_SHOWN: &str = "without it no saving is shown";

/// Most cells that a sentence names.
const MAX_NAMED: usize = 2;

fn when(busy: bool) -> &'static str {
    if busy { "under traffic" } else { "before traffic" }
}

/// A time with its interval in brackets, in the unit that suits each.
fn time(quantity: &Quantity) -> String {
    let mean = number::duration(quantity.interval.mean);
    match times(quantity) {
        Some(ends) => format!("{mean} ({ends})"),
        None => mean,
    }
}

fn times(quantity: &Quantity) -> Option<String> {
    let (low, high) = (quantity.interval.low?, quantity.interval.high?);
    Some(format!("{} to {}", number::duration(low.max(0.0)), number::duration(high)))
}

/// After how many bytes connection offloads have paid, and what they cost; `None` where no cell has it.
pub fn tables(of: &Paybacks, name: impl Fn(&Levels) -> String) -> [Option<Table>; 2] {
    let kind = |title| (title, if title == TITLES[0] { NAME } else { NUMBER });
    let row = |at: &Levels, fields: &[String]| TableRow::of([&[name(at)][..], fields].concat());
    let paid = of.paybacks.iter().map(|one| row(&one.at, &fields(one)));
    let costs = of.costs.iter().map(|one| row(&one.at, &cost_fields(one)));
    let columns = headed(["At", "offload"], TITLES.map(kind));
    let paid = Table::of("After how many bytes an offload has paid", columns, paid, NOTE);
    let columns = headed(["At", "cost of an offload"], COSTS.map(kind));
    let note = "Waits and stalls are medians of a run, and means over the runs.";
    [paid.map(Table::marked), Table::of("What an offload costs", columns, costs, note)]
}

/// The fields beside the cells' name.
fn fields(payback: &Payback) -> [String; 6] {
    let absent = || ABSENT.to_owned();
    let bytes = payback.bytes.map(|bytes| in_unit(&bytes, BYTES_PER_KIB));
    let after = match (payback.outcome, &bytes) {
        (Outcome::Pays, Some(bytes)) => number::mean_without_unit(bytes),
        (Outcome::Never, _) => "never".to_owned(),
        _ => "open".to_owned(),
    };
    let mark = if payback.host_limited { HOST_LIMITED } else { "" };
    let saved = |saved: &Quantity| with_margin(&in_unit(saved, 1.0));
    let beside = payback.bytes_without_driver.map(|bytes| in_unit(&bytes, BYTES_PER_KIB));
    let beside = beside.map(|bytes| {
        let ends = ends(&bytes).map_or_else(String::new, |ends| format!(" ({ends})"));
        format!("{}{ends}", number::mean_without_unit(&bytes))
    });
    [
        when(payback.busy).to_owned(),
        format!("{}{mark}", saved(&payback.saved)),
        payback.saved_without_driver.as_ref().map_or_else(absent, saved),
        after,
        bytes.as_ref().and_then(ends).unwrap_or_else(absent),
        beside.unwrap_or_else(absent),
    ]
}

const BYTES_PER_KIB: f64 = 1024.0;
const NS_PER_US: f64 = 1e3;

/// The same in a unit that so many of its own are, which the head of a column names.
fn in_unit(of: &Quantity, divisor: f64) -> Quantity {
    let Interval { mean, low, high } = of.interval;
    let [low, high] = [low, high].map(|end| end.map(|end| end / divisor));
    Quantity { interval: Interval { mean: mean / divisor, low, high }, unit: Unit::Ratio }
}

fn with_margin(of: &Quantity) -> String {
    let margin = number::margin(of).map_or_else(String::new, |margin| format!(" {margin}"));
    format!("{}{margin}", number::mean_without_unit(of))
}

/// The ends of an interval, without their unit.
fn ends(of: &Quantity) -> Option<String> {
    number::ends(of).map(|ends| ends.trim_end().to_owned())
}

/// Bytes with their interval in brackets.
fn with_ends(bytes: &Quantity) -> String {
    let ends = number::ends(bytes).map_or_else(String::new, |ends| format!(" ({ends})"));
    format!("{}{ends}", number::mean(bytes))
}

/// The fields beside the cell's name.
fn cost_fields(of: &OffloadCost) -> [String; 5] {
    let absent = || ABSENT.to_owned();
    let us = |quantity: &Quantity| in_unit(quantity, NS_PER_US);
    let mut cpu = us(&of.cpu);
    cpu.interval.low = cpu.interval.low.map(|low| low.max(0.0));
    let brief = |quantity: &Option<Quantity>| {
        quantity.map_or_else(absent, |quantity| number::mean_without_unit(&us(&quantity)))
    };
    [
        when(of.busy).to_owned(),
        number::mean_without_unit(&cpu),
        ends(&cpu).unwrap_or_else(absent),
        brief(&of.peer_wait),
        brief(&of.stall),
    ]
}

/// What the study shows about connection offloads, in sentences. The first one is the conclusion.
pub fn sentences(worth: &Paybacks) -> Vec<String> {
    let costs = [false, true].into_iter().filter_map(|busy| cost(worth, busy));
    let short = worth.short_lived.iter().map(short);
    std::iter::once(conclusion(worth)).chain(costs).chain(short).collect()
}

/// Whether connection offloads pay, whichever way it goes.
fn conclusion(worth: &Paybacks) -> String {
    let all = worth.paybacks.len();
    let of = |outcome: Outcome| -> Vec<&Payback> {
        worth.paybacks.iter().filter(|of| of.outcome == outcome).collect()
    };
    let (pays, never, open) = (of(Outcome::Pays), of(Outcome::Never), of(Outcome::Open));
    let cases = match (pays.len(), all) {
        (some, all) if some == all => format!("in {}", every(all)),
        (0, all) => format!("in none of {}", count(all, "comparison")),
        (some, all) => format!("in {some} of {}", count(all, "comparison")),
    };
    let mut text = format!("Handing a connection to the adapter pays {cases}");
    // what this host limits is no figure of the adapter
    let (of_host, of_adapter): (Vec<&Payback>, Vec<&Payback>) =
        pays.iter().copied().partition(|of| of.host_limited);
    match (of_host.len(), of_adapter.is_empty()) {
        (0, _) => {}
        (some, true) => text = format!("{text} ({some} limited by this host)"),
        (some, false) => text = format!("{text} ({some} limited by this host, left out)"),
    }
    let pays = if of_adapter.is_empty() { of_host } else { of_adapter };
    match &pays[..] {
        [] => {}
        [only] => text = format!("{text}. It takes {}", point(only)),
        _ => {
            let with = range(pays.iter().map(|of| of.bytes));
            let without = range(pays.iter().map(|of| of.bytes_without_driver));
            let so = pays.iter().filter(|of| of.bytes_without_driver.is_some()).count();
            text = match (with, without) {
                (Some(with), Some(without)) if so == pays.len() => format!(
                    "{text}. It takes {with} with the emulated driver, {without} without it"
                ),
                (Some(with), Some(without)) => format!(
                    "{text}. It takes {with} with the emulated driver. In {so} of them it takes {without} without it"
                ),
                (Some(with), None) if pays.iter().any(|of| of.saved_without_driver.is_some()) => {
                    format!("{text}. It takes {with} with the emulated driver; {NOT_SHOWN}")
                }
                (Some(with), None) => format!("{text}. It takes {with}"),
                (None, _) => text,
            };
        }
    }
    text.push('.');
    if !never.is_empty() {
        let each = "Each KB costs the host more with its connection at the adapter.";
        text = format!("{text} It never pays in {}: {}. {each}", never.len(), named(&never));
    }
    if !open.is_empty() {
        let why = "No saving above the minimum is shown there, or it is too uncertain.";
        text = format!("{text} It is inconclusive in {}: {}. {why}", open.len(), named(&open));
    }
    text
}

/// From the least bytes to the most, or the only ones.
fn range(bytes: impl Iterator<Item = Option<Quantity>>) -> Option<String> {
    let mut bytes: Vec<Quantity> = bytes.flatten().collect();
    bytes.sort_by(|one, other| one.interval.mean.total_cmp(&other.interval.mean));
    let (least, most) = (bytes.first()?, bytes.last()?);
    let (least, most) = (number::mean(least), number::mean(most));
    Some(if least == most { least } else { format!("{least} to {most}") })
}

fn every(all: usize) -> String {
    match all {
        1 => "the only comparison".to_owned(),
        all => format!("all {all} comparisons"),
    }
}

fn name(payback: &Payback) -> String {
    format!("{}, {}", labels::cell(&payback.at), when(payback.busy))
}

/// The bytes of a connection offload that pays, as a range from all that is saved to what the driver does not save, and
/// the cells.
fn point(payback: &Payback) -> String {
    let Some(bytes) = &payback.bytes else { return ABSENT.to_owned() };
    match &payback.bytes_without_driver {
        Some(beside) => format!(
            "{} to {} without the emulated driver ({})",
            number::mean(bytes),
            number::mean(beside),
            name(payback)
        ),
        None => format!("{} ({})", with_ends(bytes), name(payback)),
    }
}

fn named(some: &[&Payback]) -> String {
    let mut named: Vec<String> = some.iter().take(MAX_NAMED).map(|of| name(of)).collect();
    if some.len() > MAX_NAMED {
        named.push(format!("{} more", some.len() - MAX_NAMED));
    }
    named.join("; ")
}

/// What a connection offload costs before or under traffic, over all cells.
fn cost(worth: &Paybacks, busy: bool) -> Option<String> {
    let mut some: Vec<&OffloadCost> = worth.costs.iter().filter(|of| of.busy == busy).collect();
    some.sort_by(|one, other| one.cpu.interval.mean.total_cmp(&other.cpu.interval.mean));
    let (least, most) = (some.first()?, some.last()?);
    let cost = match some.len() {
        1 => time(&least.cpu),
        _ => format!("{} to {}", time(&least.cpu), time(&most.cpu)),
    };
    let longest = |pick: fn(&OffloadCost) -> Option<Quantity>| {
        let all = some.iter().filter_map(|of| pick(of)).map(|quantity| quantity.interval.mean);
        all.reduce(f64::max).map(number::duration)
    };
    let mut text = format!("An offload {} costs the host {cost} of CPU time", when(busy));
    if let Some(held) = longest(|of| of.peer_wait) {
        text = format!("{text}, holds the frames of the peer for up to {held}");
        if let Some(stall) = longest(|of| of.stall) {
            text = format!("{text} and stops the calls of the program for up to {stall}");
        }
        text.push_str(" (medians of a run)");
    }
    Some(format!("{text}."))
}

fn short(of: &ShortLived) -> String {
    let change = number::change(&of.with_offload);
    let ends = change.ends.map_or_else(String::new, |ends| format!(" ({ends})"));
    format!(
        "A connection with one request ({}) costs the host {} of CPU time in all; an offload would change \
         that by {}{ends}, if it saved nothing.",
        labels::cell(&of.at),
        number::duration(of.connection.interval.mean * 1e3),
        change.mean
    )
}

#[cfg(test)]
mod tests {
    use linkrate_study::levels::{Level, Levels};

    use super::*;

    fn quantity(mean: f64, unit: Unit) -> Quantity {
        let interval = Interval { mean, low: Some(mean * 0.9), high: Some(mean * 1.1) };
        Quantity { interval, unit }
    }

    fn payback(direction: &str, bytes: Option<f64>, outcome: Outcome) -> Payback {
        Payback {
            at: Levels(vec![("direction".to_owned(), Level::Text(direction.to_owned()))]),
            busy: false,
            saved: quantity(0.5, Unit::MicrosecondsPerKb),
            saved_without_driver: Some(quantity(0.1, Unit::MicrosecondsPerKb)),
            outcome,
            bytes: bytes.map(|bytes| quantity(bytes, Unit::Bytes)),
            bytes_without_driver: bytes.map(|bytes| quantity(3.0 * bytes, Unit::Bytes)),
            pairs: 5,
            host_limited: false,
        }
    }

    fn worth(paybacks: Vec<Payback>) -> Paybacks {
        Paybacks { costs: Vec::new(), paybacks, short_lived: Vec::new() }
    }

    #[test]
    fn the_conclusion_goes_either_way() {
        let soon = payback("transmit", Some(1e5), Outcome::Pays);
        let late = payback("receive", Some(2e6), Outcome::Pays);
        let never = payback("receive", None, Outcome::Never);
        let open = payback("transmit", None, Outcome::Open);
        let of = |some: &[&Payback]| {
            sentences(&worth(some.iter().map(|of| (*of).clone()).collect())).remove(0)
        };
        assert_eq!(
            of(&[&late, &soon]),
            "Handing a connection to the adapter pays in all 2 comparisons. It takes 97.7 KiB to 1.91 MiB with the \
             emulated driver, 293 KiB to 5.72 MiB without it."
        );
        // the order without the driver is another one
        let mut soon_with_it = soon.clone();
        soon_with_it.bytes_without_driver = Some(quantity(9e6, Unit::Bytes));
        let text = of(&[&late, &soon_with_it]);
        assert!(text.ends_with("driver, 5.72 MiB to 8.58 MiB without it."), "{text}");
        // not all that pay do so without the driver
        let with_it_alone = Payback { bytes_without_driver: None, ..late.clone() };
        let text = of(&[&with_it_alone, &soon, &late]);
        assert!(
            text.ends_with(
                "with the emulated driver. In 2 of them it takes 293 KiB to 5.72 MiB without it."
            ),
            "{text}"
        );
        let text = of(&[&with_it_alone, &soon]);
        assert!(text.ends_with("In 1 of them it takes 293 KiB without it."), "{text}");
        let text = of(&[&soon, &never, &open]);
        assert!(
            text.contains("pays in 1 of 3 comparisons. It takes 97.7 KiB to 293 KiB"),
            "{text}"
        );
        assert!(text.contains("It never pays in 1: receive, before traffic. Each KB"), "{text}");
        assert!(
            text.contains("It is inconclusive in 1: transmit, before traffic. No saving"),
            "{text}"
        );
        let text = of(&[&never]);
        assert!(
            text.starts_with("Handing a connection to the adapter pays in none of 1 comparison.")
        );
        let text = of(&[&open, &open, &open, &open, &never]);
        assert!(text.contains("; 2 more. No saving"), "{text}");
        for sentence in text.split(". ") {
            assert!(sentence.split_whitespace().count() <= 20, "{sentence}");
        }
    }

    #[test]
    fn what_this_host_limits_has_its_mark() {
        let pays = payback("transmit", Some(1e5), Outcome::Pays);
        let of_host = Payback { host_limited: true, ..pays.clone() };
        assert_eq!(fields(&pays)[1..3], ["0.500 ±10 %", "0.100 ±10 %"]);
        assert_eq!(fields(&of_host)[1], "0.500 ±10 % ‡");
        let kib = ["97.7", "87.9 to 107.4", "293 (264 to 322)"];
        assert_eq!(fields(&pays)[3..], kib);
        let text = sentences(&worth(vec![of_host.clone(), of_host.clone()])).remove(0);
        assert!(text.contains("in all 2 comparisons (2 limited by this host). It takes"), "{text}");
        // beside those of the adapter its figures are in no range
        let later = payback("receive", Some(2e6), Outcome::Pays);
        let of_host = Payback { host_limited: true, ..later };
        let text = sentences(&worth(vec![pays, of_host])).remove(0);
        let expected = "in all 2 comparisons (1 limited by this host, left out). It takes 97.7 KiB to \
                        293 KiB without the emulated driver (transmit, before traffic).";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn costs_are_reported_for_each_moment_of_a_offload() {
        let offload = |busy, cost: f64| OffloadCost {
            at: Levels::default(),
            busy,
            per_run: 4.0,
            cpu: quantity(cost, Unit::Nanoseconds),
            peer_wait: Some(quantity(1e6, Unit::Nanoseconds)),
            stall: Some(quantity(2e5, Unit::Nanoseconds)),
        };
        let short = ShortLived {
            at: Levels(vec![("response".to_owned(), Level::Text("1 B".to_owned()))]),
            connection: quantity(80.0, Unit::MicrosecondsPerTransaction),
            with_offload: Interval { mean: 2.5, low: Some(2.3), high: Some(2.7) },
        };
        let reported = sentences(&Paybacks {
            costs: vec![offload(false, 5e4), offload(true, 4e5), offload(false, 1e5)],
            paybacks: vec![payback("transmit", None, Outcome::Open)],
            short_lived: vec![short],
        });
        assert_eq!(reported.len(), 4);
        assert_eq!(
            reported[1],
            "An offload before traffic costs the host 50.0 µs (45.0 µs to 55.0 µs) to 100 µs (90.0 µs to \
             110 µs) of CPU time, holds the frames of the peer for up to 1.00 ms and stops the calls of the \
             program for up to 200 µs (medians of a run)."
        );
        assert!(
            reported[2].starts_with("An offload under traffic costs the host 400 µs"),
            "{}",
            reported[2]
        );
        assert_eq!(
            reported[3],
            "A connection with one request (1 B responses) costs the host 80.0 µs of CPU time in all; an offload \
             would change that by +150 % (+130 to +170 %), if it saved nothing."
        );
    }
}
