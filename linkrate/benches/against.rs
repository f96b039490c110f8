//! This linkrate beside that of another commit: the same measurements, each in pairs of which the order changes, so
//! that the ratios are of one session. Run by `cargo xtask bench --against COMMIT`, which builds the other one;
//! `cargo bench -p linkrate --bench against -- PROGRAM WORD` takes a program that is built, and the cases that have the word.

mod common;

use std::process::Command;

use serde_json::Value;

use common::{Failed, ratio};

/// Pairs of each case.
const PAIRS: usize = 7;

/// What is measured.
struct Case {
    name: &'static str,
    /// Words behind `measure`.
    words: &'static str,
    /// What is to be reached beside commit 397de8e2.
    reach: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "ten-gigabit, receive",
        words: "--adapter ten-gigabit --direction receive",
        reach: "rate 1.9, demand 0.5",
    },
    Case { name: "ten-gigabit, transmit", words: "--adapter ten-gigabit", reach: "demand 1.03" },
    Case {
        name: "gigabit, receive",
        words: "--adapter gigabit --direction receive",
        reach: "demand 0.75",
    },
    Case {
        name: "gigabit, transmit",
        words: "--adapter gigabit",
        reach: "demand 1.03, device 12 %",
    },
    Case {
        name: "ten-gigabit, UDP receive",
        words: "--adapter ten-gigabit --kind udp-stream --direction receive --message 1472",
        reach: "rate 1.6",
    },
    Case {
        name: "four ports, both ways",
        words: "--adapter gigabit --ports 4 --clients-per-port 2 --direction bidirectional",
        reach: "7.43 Gb/s",
    },
    Case {
        name: "aggregate of 8, both ways",
        words: "--adapter gigabit --aggregate 8 --clients 8 --direction bidirectional",
        reach: "14.8 Gb/s",
    },
    Case {
        name: "TCP request/response",
        words: "--adapter gigabit --kind request-response",
        reach: "rate 0.98",
    },
    Case {
        name: "UDP request/response",
        words: "--adapter gigabit --kind udp-request-response",
        reach: "rate 0.98",
    },
];

/// The figures of one measurement.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// Bits or transactions a second.
    rate: f64,
    /// µs for a KB or a transaction.
    demand: f64,
    /// Per cent of the busiest CPU of the devices.
    device_percent: f64,
}

fn main() -> Result<(), Failed> {
    let words: Vec<String> = common::words().collect();
    let Some(other) = words.first() else {
        println!(
            "SKIPPED against: it needs the program of another commit: cargo xtask bench --against COMMIT"
        );
        return Ok(());
    };
    if !common::can_run("against", &[]) {
        return Ok(());
    }
    println!("this linkrate beside {other}, {PAIRS} pairs each; ratios with 95 % intervals");
    println!(
        "{:26} {:>22} {:>22} {:>10} {:>8}  to reach",
        "", "rate", "service demand", "rate now", "device"
    );
    let has = |case: &&Case| words.iter().skip(1).all(|word| case.name.contains(word.as_str()));
    CASES.iter().filter(has).try_for_each(|case| compare(case, other))
}

fn compare(Case { name, words, reach }: &Case, other: &str) -> Result<(), Failed> {
    let (mut rates, mut demands, mut now) = (Vec::new(), Vec::new(), Vec::new());
    let program = |is_this| if is_this { env!("CARGO_BIN_EXE_linkrate") } else { other };
    for (this, that) in common::pairs(PAIRS, |is_this| measure(program(is_this), words))? {
        rates.push((this.rate / that.rate).ln());
        demands.push((this.demand / that.demand).ln());
        now.push(this);
    }
    let mean = |of: fn(&Figures) -> f64| now.iter().map(of).sum::<f64>() / now.len() as f64;
    println!(
        "{name:26} {:>22} {:>22} {:>10} {:>6.1} %  {reach}",
        ratio(&rates),
        ratio(&demands),
        scaled(mean(|one| one.rate)),
        mean(|one| one.device_percent)
    );
    Ok(())
}

fn scaled(rate: f64) -> String {
    if rate > 1e8 { format!("{:.2} Gb/s", rate / 1e9) } else { format!("{rate:.0} 1/s") }
}

/// How often a measurement that was refused, because something else ran, is made again.
const AGAIN: u32 = 5;

/// One measurement of a second by a program of its own.
fn measure(program: &str, words: &str) -> Result<Figures, Failed> {
    let again = (0..AGAIN).find_map(|_| measure_once(program, words).ok());
    again.map_or_else(|| measure_once(program, words), Ok)
}

fn measure_once(program: &str, words: &str) -> Result<Figures, Failed> {
    let mut command = Command::new(program);
    command
        .args(["measure", "--json", "--runs", "1", "--warm-up", "300ms", "--time", "1s"])
        .args(words.split_whitespace());
    let output = command.output()?;
    let document: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        format!("{words}: {error}: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    let cell = &document["cells"][0];
    let mean = |measure: &str| cell[measure]["mean"].as_f64();
    let rate = mean("throughput").or_else(|| mean("transactions"));
    let (Some(rate), Some(demand)) = (rate, mean("service_demand")) else {
        return Err(
            format!("{words}: no figures: {}", String::from_utf8_lossy(&output.stderr)).into()
        );
    };
    let device_percent =
        cell["evidence"]["adapter"]["device_busiest_percent"].as_f64().unwrap_or(0.0);
    Ok(Figures { rate, demand, device_percent })
}
