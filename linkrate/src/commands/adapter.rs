//! `linkrate adapter`: models, and the ports of a lab that is up.

mod change;
mod look;

use crate::args::adapter::{AdapterCommand, AggregateCommand, ModelsArgs, ToeCommand};
use crate::exit::{Exit, Failure};

/// Lists the models of virtual adapters, or shows one.
pub fn models(arguments: &ModelsArgs) -> Result<Exit, Failure> {
    look::models(arguments.model.as_deref(), arguments.json)
}

pub fn run(command: AdapterCommand) -> Result<Exit, Failure> {
    match command {
        AdapterCommand::Show { port, common } => look::show(port.as_deref(), &common),
        AdapterCommand::Aggregate { command: Some(command), .. } => aggregate(command),
        AdapterCommand::Aggregate { command: None, aggregate, common } => {
            look::aggregate(aggregate.as_deref(), &common)
        }
        AdapterCommand::Top(arguments) => look::top(&arguments),
        AdapterCommand::Set { port, settings, common } => change::set(port, settings, &common),
        AdapterCommand::Add { ports, common } => change::add(ports, &common),
        AdapterCommand::Remove { port, common } => change::remove(port, &common),
        AdapterCommand::Capture(arguments) => change::capture(arguments),
        AdapterCommand::Link { port, state, common } => change::link(port, state, &common),
        AdapterCommand::Faults { port, faults, common } => change::faults(port, faults, &common),
        AdapterCommand::Toe { command: ToeCommand::Show { common } } => look::connections(&common),
        AdapterCommand::Toe { command: ToeCommand::Offload { connection, common } } => {
            change::offload(connection, &common)
        }
        AdapterCommand::Vlan { port, vlans, common } => change::vlan(port, vlans, &common),
    }
}

fn aggregate(command: AggregateCommand) -> Result<Exit, Failure> {
    match command {
        AggregateCommand::Create { ports, common } => change::make_aggregate(ports, &common),
        AggregateCommand::Show { aggregate, common } => {
            look::aggregate(aggregate.as_deref(), &common)
        }
        AggregateCommand::Set { aggregate, settings, common } => {
            change::set(aggregate, settings, &common)
        }
        AggregateCommand::Remove { aggregate, common } => change::take_apart(aggregate, &common),
    }
}
