//! The testbed as a picture: hosts, adapters with their ports, wires and clients.
//!
//! The layout is computed here; `templates/testbed.svg` has the drawing. Ports that are
//! alike beyond the first eight are one row.

use linkrate_model::spec::Adapter;
use linkrate_study::quantity::Unit;
use linkrate_study::results::StudyResults;
use serde::Serialize;

use super::figure::{Figure, Picture, Svg};
use crate::ReportError;
use crate::number;
use crate::words::{self, count};

const TEMPLATE: &str = include_str!("../../templates/testbed.svg");

/// Most rows of ports or clients that are drawn one by one.
const MAX_ROWS: u32 = 8;
/// Most characters of a client's name that fit.
const MAX_END: usize = 15;
/// Height of a row.
const ROW: u32 = 40;

/// What the template needs; lengths in pixels.
#[derive(Debug, Serialize)]
struct Scene {
    width: u32,
    height: u32,
    /// Right edge of the box of the system under test.
    sut: u32,
    /// Left edge of the boxes of clients.
    clients: u32,
    middle: u32,
    sut_cpus: String,
    client_cpus: String,
    adapters: Vec<Card>,
    wires: Vec<Wire>,
}

/// An adapter in the system under test.
#[derive(Debug, Clone, Serialize)]
struct Card {
    y: u32,
    height: u32,
    name: String,
}

/// A port with its clients.
#[derive(Debug, Clone, Serialize)]
struct Wire {
    y: u32,
    port: String,
    rate: String,
    /// Whether a switch is between them.
    switch: bool,
    clients: String,
}

/// The picture; nothing where results do not know their testbed.
pub fn figure(results: &StudyResults) -> Result<Option<Figure>, ReportError> {
    let Some(plan) = &results.plan else { return Ok(None) };
    let testbed = &plan.study.testbed;
    if matches!(testbed.adapter, Adapter::Unknown) {
        return Ok(None);
    }
    let fact = |name: &str| plan.facts.facts.get(name).cloned().unwrap_or_default();
    let cpus = |name: &str, whose: &str| match fact(name).as_str() {
        "" => format!("CPUs of {whose} not known"),
        list => words::cpus(list),
    };
    let (sut_cpus, client_cpus) =
        (cpus("sut-cpus", "the host"), cpus("client-cpus", "the clients"));
    let mut adapters = Vec::new();
    let mut wires = Vec::new();
    let mut y = 92;
    let mut reported = Vec::new();
    match &testbed.adapter {
        // drawn below: it has no cards
        Adapter::Interfaces(_) | Adapter::Unknown => {}
        Adapter::Veth => {
            let rows = testbed.clients.clamp(1, MAX_ROWS);
            for row in 0..rows {
                let rest = row + 1 == rows && testbed.clients > rows;
                let clients = match rest {
                    true => format!("clients {} to {}", row + 1, testbed.clients),
                    false => format!("client {}", row + 1),
                };
                let (port, rate) = (format!("veth{row}"), String::new());
                wires.push(Wire { y, port, rate, switch: false, clients });
                y += ROW;
            }
            reported.push(format!(
                "A system under test and {}, each joined by a veth pair, which has no link rate.",
                count(testbed.clients as usize, "client")
            ));
        }
        Adapter::Model(model) => {
            let per_port = testbed.clients_per_port.max(1);
            let rate = model
                .rate
                .map_or_else(String::new, |rate| number::published(rate.0, Unit::BitsPerSecond));
            let shown = testbed.ports.clamp(1, MAX_ROWS);
            let per_card = model.ports.max(1);
            for port in 0..shown {
                if port % per_card == 0 {
                    y += if port == 0 { 22 } else { 38 };
                    let ports = per_card.min(shown - port);
                    adapters.push(Card {
                        y: y - 38,
                        height: ports * ROW + 26,
                        name: format!("{} {}", model.name, port / per_card + 1),
                    });
                }
                let rest = port + 1 == shown && testbed.ports > shown;
                let last = if rest { testbed.ports - 1 } else { port };
                let (first_client, last_client) = (port * per_port + 1, (last + 1) * per_port);
                let clients = match first_client == last_client {
                    true => format!("client {first_client}"),
                    false => format!("clients {first_client} to {last_client}"),
                };
                let name = if rest { format!("eth{port} to {last}") } else { format!("eth{port}") };
                wires.push(Wire {
                    y,
                    port: name,
                    rate: rate.clone(),
                    switch: per_port > 1,
                    clients,
                });
                y += ROW;
            }
            let cards = count(testbed.ports.div_ceil(per_card) as usize, "virtual adapter");
            let each = if rate.is_empty() { String::new() } else { format!(" of {rate}") };
            reported.push(format!(
                "A system under test with {cards} of the model {} ({}), {}{each}, and {} behind each \
                 port{}.",
                model.name,
                model.title,
                count(testbed.ports as usize, "port"),
                count(per_port as usize, "client"),
                if per_port > 1 { " on a switch" } else { "" },
            ));
        }
    }
    if let Adapter::Interfaces(existing) = &testbed.adapter {
        let per_port = existing.clients_per_port().max(1) as usize;
        // a link without a rate has no label
        let rate_of = |number: usize| {
            Some(fact(&format!("port-{number}-rate")))
                .filter(|rate| rate.starts_with(char::is_numeric))
                .unwrap_or_default()
        };
        let shown = existing.names.len().min(MAX_ROWS as usize);
        for (index, name) in existing.names.iter().enumerate().take(shown) {
            let ends: Vec<String> = existing
                .clients
                .iter()
                .skip(index * per_port)
                .take(per_port)
                .map(|end| end.name().chars().take(MAX_END).collect())
                .collect();
            let clients = match ends.as_slice() {
                [one] => one.clone(),
                [first, ..] => format!("{first} and {} more", ends.len() - 1),
                [] => String::new(),
            };
            let (port, rate) = (name.clone(), rate_of(index + 1));
            wires.push(Wire { y, port, rate, switch: per_port > 1, clients });
            y += ROW;
        }
        let interfaces = (1..).zip(&existing.names).map(|(number, name)| {
            let known = [fact(&format!("port-{number}-driver")), rate_of(number)];
            let known: Vec<String> = known.into_iter().filter(|text| !text.is_empty()).collect();
            match known.is_empty() {
                true => name.clone(),
                false => format!("{name} ({})", known.join(", ")),
            }
        });
        let ends: Vec<String> = existing.clients.iter().map(ToString::to_string).collect();
        let whose = match existing.is_remote() {
            true => "separate machines",
            false => "network namespaces of the same machine",
        };
        reported.push(format!(
            "The system under test is an existing host with {}. Clients are {}, in {whose}.",
            interfaces.collect::<Vec<_>>().join(", "),
            ends.join(", ")
        ));
        for (number, name) in (1..).zip(&existing.names) {
            let aggregate = fact(&format!("port-{number}-aggregate"));
            if !aggregate.is_empty() {
                reported.push(format!("{name} is an aggregate of the host: {aggregate}."));
            }
        }
    }
    if let Adapter::Model(model) = &testbed.adapter {
        reported.extend(model.bus.map(|bus| {
            let bus = number::published(bus.0, Unit::BitsPerSecond);
            format!("Each adapter's bus carries {bus}, both directions together.")
        }));
    }
    reported.extend(testbed.others.iter().map(|other| {
        let rate = other.rate.map(|rate| number::published(rate.0, Unit::BitsPerSecond));
        let rate = rate.map_or_else(String::new, |rate| format!(" of {rate}"));
        format!(
            "Cells that name the adapter {} ({}) run on as many ports{rate} of that model.",
            other.name, other.title
        )
    }));
    reported.extend(words::scaled(results).map(|scaled| words::capitalised(&scaled) + "."));
    let height = y + 6;
    let draw = |width: u32| -> Result<Svg, ReportError> {
        let sut = if width > 500 { 260 } else { 128 };
        let clients = width - if width > 500 { 180 } else { 108 };
        let scene = Scene {
            width,
            height,
            sut,
            clients,
            middle: u32::midpoint(sut, clients),
            sut_cpus: sut_cpus.clone(),
            client_cpus: client_cpus.clone(),
            adapters: adapters.clone(),
            wires: wires.clone(),
        };
        Ok(Svg { svg: super::render("testbed.svg", TEMPLATE, &scene)?, width, height })
    };
    let reported = reported.join(" ");
    let description = format!(
        "{reported} The system under test has {}, the clients have {}.",
        fact_or(&sut_cpus, "CPUs that are not known"),
        fact_or(&client_cpus, "CPUs that are not known"),
    );
    let picture = Picture {
        title: "The testbed".to_owned(),
        description,
        wide: draw(760)?,
        narrow: Some(draw(340)?),
    };
    Ok(Some(Figure {
        number: 0,
        title: "The testbed".to_owned(),
        note: reported,
        panels: vec![picture],
    }))
}

fn fact_or<'t>(text: &'t str, otherwise: &'t str) -> &'t str {
    if text.ends_with("not known") { otherwise } else { text }
}
