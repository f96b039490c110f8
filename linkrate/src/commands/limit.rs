//! `linkrate limit`: theory.

use std::io::{IsTerminal, stderr, stdout};

use linkrate_model::{BitRate, ByteSize};
use linkrate_report::limit::{
    AggregateCase, Case, Formula, aggregate_document, aggregate_text, document, formula_document,
    formula_text, text,
};
use linkrate_sys::stderr;
use linkrate_wire::limits::aggregate::{Aggregate, AggregateError};
use linkrate_wire::limits::{Cut, IpVersion, LimitError, Traffic, Transport};
use linkrate_wire::link::atm::{OC3C, OC12C};
use linkrate_wire::link::{Framing, Link};

use crate::args::limit::aggregate::AggregateArgs;
use crate::args::limit::{
    AtmArgs, EthernetArgs, EthernetFramingArgs, LimitArgs, LinkCommand, TrafficArgs,
};
use crate::exit::{Exit, Failure};
use crate::output::{print, terminal_style};

const ETHERNET_RATES: [BitRate; 5] =
    [BitRate(1e9), BitRate(10e9), BitRate(25e9), BitRate(40e9), BitRate(100e9)];
const ETHERNET_MTUS: [u32; 2] = [1500, 9000];
/// A frame with LLC/SNAP of the standard length has room for 1492 bytes, RFC 1042.
const SNAP_MTUS: [u32; 2] = [1492, 9000];
const ATM_RATES: [BitRate; 2] = [OC3C, OC12C];
const CLASSICAL_IP_MTUS: [u32; 2] = [1500, 9180];
const LANE_MTUS: [u32; 2] = [1500, 9218];
/// Those of the ATM paper's appendix.
const FORMULA_MESSAGES: [ByteSize; 5] =
    [ByteSize(128), ByteSize(256), ByteSize(1024), ByteSize(4096), ByteSize(65536)];

pub fn run(arguments: &LimitArgs) -> Result<Exit, Failure> {
    match &arguments.link {
        LinkCommand::Ethernet(arguments) => ethernet(arguments),
        LinkCommand::Atm(arguments) if arguments.published_formula => formula(arguments),
        LinkCommand::Atm(arguments) => atm(arguments),
        LinkCommand::Aggregate(arguments) => aggregate(arguments),
    }
}

fn ethernet(arguments: &EthernetArgs) -> Result<Exit, Failure> {
    let (framing, mtus) = ethernet_framing(&arguments.framing);
    let rates = or(&arguments.rate, &ETHERNET_RATES);
    show(&arguments.traffic, rates, or(&arguments.mtu, &mtus), framing)
}

/// The framing of these arguments, and its usual MTUs.
fn ethernet_framing(arguments: &EthernetFramingArgs) -> (Framing, [u32; 2]) {
    let framing = Framing::Ethernet { vlan_tags: arguments.vlan, snap: arguments.snap };
    (framing, if arguments.snap { SNAP_MTUS } else { ETHERNET_MTUS })
}

fn atm(arguments: &AtmArgs) -> Result<Exit, Failure> {
    let framing = if arguments.lane { Framing::LanEmulation } else { Framing::ClassicalIp };
    let mtus = if arguments.lane { LANE_MTUS } else { CLASSICAL_IP_MTUS };
    let rates = or(&arguments.rate, &ATM_RATES);
    show(&arguments.traffic, rates, or(&arguments.mtu, &mtus), framing)
}

fn formula(arguments: &AtmArgs) -> Result<Exit, Failure> {
    let mut formulas = Vec::new();
    for rate in or(&arguments.rate, &ATM_RATES) {
        for message in or(&arguments.traffic.message, &FORMULA_MESSAGES) {
            formulas.push(Formula::new(*rate, *message).map_err(refused)?);
        }
    }
    if arguments.traffic.json {
        print(&formula_document(&formulas))?;
    } else {
        print(&formula_text(&formulas, terminal_style().1))?;
    }
    Ok(Exit::Success)
}

/// Every combination of rate, MTU and message.
fn show(
    arguments: &TrafficArgs,
    rates: &[BitRate],
    mtus: &[u32],
    framing: Framing,
) -> Result<Exit, Failure> {
    let cuts: Vec<Cut> = arguments.message.iter().map(|size| Cut::Message(*size)).collect();
    let mut cases = Vec::new();
    for rate in rates {
        for mtu in mtus {
            for cut in or(&cuts, &[Cut::Full]) {
                let traffic = traffic(arguments, *mtu, *cut);
                let link = Link { line_rate: *rate, framing };
                cases.push(Case::new(link, traffic).map_err(refused)?);
            }
        }
    }
    if arguments.json {
        print(&document(&cases))?;
        return Ok(Exit::Success);
    }
    print(&text(&cases, terminal_style().1))?;
    if cases.len() > 1 && stdout().is_terminal() && stderr().is_terminal() {
        stderr::line("\nhint: give one --rate and one --mtu to see where every byte goes");
    }
    Ok(Exit::Success)
}

fn traffic(arguments: &TrafficArgs, mtu: u32, cut: Cut) -> Traffic {
    let transport = match arguments.udp {
        true => Transport::Udp,
        false => Transport::Tcp { timestamps: !arguments.no_timestamps },
    };
    let ip = if arguments.ipv6 { IpVersion::V6 } else { IpVersion::V4 };
    Traffic { ip, transport, mtu, cut }
}

/// What was given, or else the default.
fn or<'a, T>(given: &'a [T], default: &'a [T]) -> &'a [T] {
    if given.is_empty() { default } else { given }
}

/// A refusal by the option that it is about.
fn refused(error: LimitError) -> Failure {
    let option = match &error {
        LimitError::LineRate { .. } => "--rate",
        LimitError::Mtu { .. } => "--mtu",
        LimitError::VlanTags { .. } => "--vlan",
        LimitError::Message { .. } => "--message",
    };
    Failure::new(Exit::Usage, format!("{option}: {error}"))
}

/// Prints every combination of balancing, ports and flows.
fn aggregate(arguments: &AggregateArgs) -> Result<Exit, Failure> {
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
