//! Commands that only read: models, ports, and their traffic.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use linkrate_lab::control::client::LabClient;
use linkrate_lab::control::messages::{Reply, Request};
use linkrate_model::aggregate::AggregateReport;
use linkrate_model::lab::{AdapterReport, PortReport};
use linkrate_model::model;
use linkrate_model::nearest::did_you_mean;
use linkrate_model::spec::Adapter;
use linkrate_model::units::{format_duration, parse_duration};
use linkrate_report::adapter::{self as tables, aggregate as aggregates, toe as offloaded, top};
use linkrate_study::adapter;

use crate::args::adapter::{Common, TopArgs};
use crate::args::load_model;
use crate::exit::{Exit, Failure};
use crate::interrupt::{self, sleep_until};
use crate::output::{REDRAW, print, terminal_style};

/// Shortest and longest time between two samples.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);

pub fn models(given: Option<&str>, json: bool) -> Result<Exit, Failure> {
    let models = match given {
        None => model::built_in().collect(),
        Some(given) => {
            let found = adapter::find(given, &mut |path| load_model(Path::new(path)))
                .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
            match found {
                Adapter::Model(model) => vec![*model],
                Adapter::Veth | Adapter::Interfaces(_) | Adapter::Unknown => {
                    let message = "veth is not a model; name a model, or a file that ends in .toml";
                    return Err(Failure::new(Exit::Usage, message));
                }
            }
        }
    };
    let (_, style) = terminal_style();
    let document = || tables::models_document(&models);
    print(&if json { document() } else { tables::models(&models, style) })?;
    Ok(Exit::Success)
}

pub fn show(port: Option<&str>, common: &Common) -> Result<Exit, Failure> {
    let lab = common.which.find()?;
    let report = look(&lab, true)?;
    if let Some(name) = port.filter(|name| report.aggregate(name).is_some()) {
        return aggregate(Some(name), common);
    }
    let ports: Vec<&PortReport> = match port {
        None => report.ports.iter().filter(|port| port.adapter.is_some()).collect(),
        Some(name) => vec![report.port(name).ok_or_else(|| no_port(&report, name))?],
    };
    let (_, style) = terminal_style();
    let mut text = match common.json {
        true => tables::show_document(&report, &ports),
        false => tables::show(&report, &ports, style),
    };
    if port.is_none() && !common.json && !report.aggregates.is_empty() {
        let all: Vec<&AggregateReport> = report.aggregates.iter().collect();
        text = format!("{text}\n{}", aggregates::show(&report, &all, style));
    }
    print(&text)?;
    Ok(Exit::Success)
}

fn no_port(report: &AdapterReport, name: &str) -> Failure {
    let names: Vec<&str> = report.ports.iter().map(|port| port.name.as_str()).collect();
    let tail = did_you_mean(name, names.iter().copied());
    Failure::new(Exit::Usage, format!("no port {name:?} in lab {}{tail}", report.lab))
        .with_hint(Some(format!("the lab has the ports {}", names.join(", "))))
}

pub fn aggregate(name: Option<&str>, common: &Common) -> Result<Exit, Failure> {
    let lab = common.which.find()?;
    let report = look(&lab, false)?;
    let aggregates: Vec<&AggregateReport> = match name {
        None => report.aggregates.iter().collect(),
        Some(name) => vec![report.aggregate(name).ok_or_else(|| no_aggregate(&report, name))?],
    };
    if aggregates.is_empty() {
        let message = format!("lab {} has no aggregate", report.lab);
        let hint = "linkrate lab up --aggregate 2".to_owned();
        return Err(Failure::new(Exit::Failure, message).with_hint(Some(hint)));
    }
    let (_, style) = terminal_style();
    print(&match common.json {
        true => tables::done_document("aggregates", &aggregates),
        false => aggregates::show(&report, &aggregates, style),
    })?;
    Ok(Exit::Success)
}

fn no_aggregate(report: &AdapterReport, name: &str) -> Failure {
    let names: Vec<&str> = report.aggregates.iter().map(|known| known.name.as_str()).collect();
    let tail = did_you_mean(name, names.iter().copied());
    let hint = match names.is_empty() {
        true => "linkrate lab up --aggregate 2".to_owned(),
        false => format!("the lab has the aggregate {}", names.join(", ")),
    };
    Failure::new(Exit::Usage, format!("no aggregate {name:?} in lab {}{tail}", report.lab))
        .with_hint(Some(hint))
}

/// `adapter toe show`
pub fn connections(common: &Common) -> Result<Exit, Failure> {
    let lab = common.which.find()?;
    let report = match lab.ask(Request::Connections)? {
        Reply::Connections(report) => *report,
        _ => return Err(lab.unexpected().into()),
    };
    let (_, style) = terminal_style();
    print(&if common.json {
        offloaded::document(&report)
    } else {
        offloaded::text(&report, style)
    })?;
    Ok(Exit::Success)
}

pub fn top(arguments: &TopArgs) -> Result<Exit, Failure> {
    let interval = parse_duration(&arguments.interval)
        .map_err(|error| Failure::new(Exit::Usage, format!("--interval: {error}")))?;
    if !INTERVALS.contains(&interval) {
        let message = format!(
            "--interval: {} is out of range; expected {} to {}",
            arguments.interval,
            format_duration(*INTERVALS.start()),
            format_duration(*INTERVALS.end())
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    let lab = arguments.common.which.find()?;
    let stop = interrupt::on_signal()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    let redraws = std::io::stdout().is_terminal() && !arguments.common.json;
    let mut before = look(&lab, false)?;
    let mut next = Instant::now();
    let mut looks = 0;
    while arguments.count.is_none_or(|count| looks < count) {
        next += interval;
        if !sleep_until(next, &stop) {
            break;
        }
        let now = look(&lab, false)?;
        let rates = top::rates(&before, &now);
        let text = if arguments.common.json {
            tables::done_document("rates", &rates)
        } else if redraws {
            let (title, heads) = (top::title(&now, &rates), top::heads(&rates));
            format!("{REDRAW}{title}\n{heads}{}\n{}\n", top::lines(&rates), top::LEGEND)
        } else if looks == 0 {
            format!("{}{}", top::heads(&rates), top::lines(&rates))
        } else {
            top::lines(&rates)
        };
        print(&text)?;
        before = now;
        looks += 1;
    }
    Ok(Exit::Success)
}

fn look(lab: &LabClient, kernel: bool) -> Result<AdapterReport, Failure> {
    match lab.ask(Request::Adapters { kernel })? {
        Reply::Adapters(report) => Ok(*report),
        _ => Err(lab.unexpected().into()),
    }
}
