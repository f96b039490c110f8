//! `linkrate limit aggregate`.

use linkrate_report::limit::{AggregateCase, aggregate_document, aggregate_text};
use linkrate_wire::limits::Cut;
use linkrate_wire::limits::aggregate::{Aggregate, AggregateError};
use linkrate_wire::link::Link;

use super::{ethernet_framing, refused, traffic};
use crate::args::limit::aggregate::AggregateArgs;
use crate::exit::{Exit, Failure};
use crate::output::{print, terminal_style};

/// Prints every combination of balancing, ports and flows.
pub fn run(arguments: &AggregateArgs) -> Result<Exit, Failure> {
    let (framing, mtus) = ethernet_framing(&arguments.framing);
    let cut = match arguments.traffic.message[..] {
        [] => Cut::Full,
        [size] => Cut::Message(size),
        [..] => {
            let message = "--message: several sizes, expected one for an aggregate";
            return Err(Failure::new(Exit::Usage, message.to_owned()));
        }
    };
    let traffic = traffic(&arguments.traffic, arguments.mtu.unwrap_or(mtus[0]), cut);
    let link = Link { line_rate: arguments.rate, framing };
    let limit = link.limit(&traffic).map_err(refused)?;
    let mut cases = Vec::new();
    for balance in &arguments.balance {
        for ports in &arguments.ports {
            let queues = arguments.queues.unwrap_or(1);
            let aggregate = Aggregate { ports: *ports, balance: *balance, queues };
            let port = || (link, traffic, limit.clone());
            if !arguments.flow.is_empty() {
                let case = AggregateCase::named(aggregate, port(), arguments.flow.clone());
                cases.push(case.map_err(out_of_range)?);
                continue;
            }
            for flows in &arguments.flows {
                let case = AggregateCase::random(aggregate, port(), *flows, arguments.seed);
                cases.push(case.map_err(out_of_range)?);
            }
        }
    }
    if arguments.traffic.json {
        print(&aggregate_document(&cases))?;
    } else {
        print(&aggregate_text(&cases, terminal_style().1))?;
    }
    Ok(Exit::Success)
}

/// A refusal by the option that it is about.
fn out_of_range(error: AggregateError) -> Failure {
    let option = match &error {
        AggregateError::Ports(_) => "--ports",
        AggregateError::Flows { .. } => "--flows",
        AggregateError::Queues { .. } => "--queues",
        AggregateError::NoMac { .. } | AggregateError::Versions { .. } => "--flow",
        AggregateError::Queue => "--balance",
    };
    Failure::new(Exit::Usage, format!("{option}: {error}"))
}
