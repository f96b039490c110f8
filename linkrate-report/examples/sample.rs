//! Writes reports of made-up results, to look at while working on them:
//! `cargo run -p linkrate-report --example sample -- DIR`.

use std::error::Error;
use std::path::PathBuf;

#[path = "../tests/report/fixture.rs"]
mod fixture;

use linkrate_report::terminal::{Style, table};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(std::env::args_os().nth(1).ok_or("give a directory")?);
    for (name, results) in [
        ("stream", fixture::stream()),
        ("request-response", fixture::request_response()),
        ("single", fixture::single()),
        ("adapter", fixture::adapter()),
        ("failed", fixture::failed()),
        ("fleet", fixture::fleet()),
        ("incast", fixture::incast()),
        ("hostile", fixture::hostile()),
    ] {
        let to = directory.join(name);
        std::fs::create_dir_all(&to)?;
        std::fs::write(to.join("report.html"), linkrate_report::html::page(&results)?)?;
        std::fs::write(to.join("runs.csv"), linkrate_report::csv::runs(&results)?)?;
        std::fs::write(to.join("results.json"), linkrate_report::json::document(&results))?;
        println!("{}", table(&results, None, Style { color: true }));
    }
    Ok(())
}
