//! Arguments of `linkrate adapter`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use linkrate_lab::control::messages::Setting;
use linkrate_model::BitRate;
use linkrate_model::knobs::{Ends, KNOBS, Knob, Owner};
use linkrate_model::units::parse_duration;

use super::lab::Which;

/// `linkrate models`
#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// Name of a built-in model, or path of a model that ends in .toml
    pub model: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// `linkrate adapter ...`
#[derive(Debug, Subcommand)]
pub enum AdapterCommand {
    /// Show the knobs of ports, as read back, and their counters
    Show {
        /// Port: eth0, or client-0 for the port of a client [default: all ports of the system under
        /// test]
        port: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Show the ports of aggregates: which carry traffic, and why; LACP and its partner
    #[command(args_conflicts_with_subcommands = true)]
    Aggregate {
        #[command(subcommand)]
        command: Option<AggregateCommand>,
        /// Aggregate: agg0 [default: all aggregates of the lab]
        aggregate: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Live traffic by port
    Top(TopArgs),
    /// Change knobs of a port while traffic flows
    #[command(long_about = set_help())]
    Set {
        /// Port or aggregate of the system under test
        port: String,
        /// Knobs, for example lro=on rx-usecs=50
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = setting)]
        settings: Vec<Setting>,
        #[command(flatten)]
        common: Common,
    },
    /// Add ports with their clients, or ports to an aggregate, while other ports carry traffic
    Add {
        /// Number of ports; they fill one adapter after the other
        #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=64))]
        ports: u32,
        #[command(flatten)]
        common: Common,
    },
    /// Remove a port with its clients, or a port of an aggregate, while other ports carry traffic
    Remove {
        /// Port of the system under test
        port: String,
        #[command(flatten)]
        common: Common,
    },
    /// Capture a port's packets to a pcapng file, before and after offloads
    ///
    /// This command opens the file with its own rights, and the lab writes to it. A FIFO is opened
    /// when a program reads it. Packets that the file takes too slowly are left out and counted
    /// (captureLost).
    Capture(CaptureArgs),
    /// Set the link of a port down or up, or to another rate
    Link {
        /// Port: eth0, or client-0 for the port of a client
        port: String,
        /// up, down, or a rate up to that of the model, for example 100M
        #[arg(value_name = "up|down|RATE", value_parser = link_state)]
        state: LinkState,
        #[command(flatten)]
        common: Common,
    },
    /// Set the faults of the link at a port; faults that are not named are off
    ///
    /// Shares of frames: loss; corrupt (one bit flipped, found by checksums only); fcs-error
    /// (frames with a bad FCS, which the port that receives them drops); duplicate; reorder. Times:
    /// delay (of every frame); reorder-by (of the frames that others overtake). Shares of ATM cells:
    /// loss; header-error (one bit of the header, which is corrected); double-header-error (two bits);
    /// payload-error (one bit, found by the CRC of AAL5); misinsert (cells of another connection come
    /// behind them). The same seed gives the same faults to the same frames or cells again.
    Faults {
        /// Port: eth0, or client-0 for the port of a client
        port: String,
        /// Faults, for example loss=1% delay=1ms, or none
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = fault)]
        faults: Vec<Option<Setting>>,
        #[command(flatten)]
        common: Common,
    },
    /// Show the connections of the system under test, and move one to the TCP offload engine
    Toe {
        #[command(subcommand)]
        command: ToeCommand,
    },
    /// Set the VLANs of the switch port that a port is connected to
    ///
    /// access=VLAN makes the switch port a member of one VLAN; its frames have no tag on the link.
    /// trunk=VLANS makes it a member of several VLANs; their frames have a tag. native=VLAN, together
    /// with trunk, adds one VLAN whose frames have no tag. all makes it a member of every VLAN; the
    /// switch then adds and removes no tag. The switch drops frames of any other VLAN and counts
    /// them (switchDropVlan).
    Vlan {
        /// Port: eth0, or client-0 for the port of a client
        port: String,
        /// VLANs, for example access=10 or trunk=10,20-29 native=1, or all
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = vlan)]
        vlans: Vec<Option<Setting>>,
        #[command(flatten)]
        common: Common,
    },
}

/// `linkrate adapter aggregate ...`
#[derive(Debug, Subcommand)]
pub enum AggregateCommand {
    /// Make ports of one switch an aggregate, with one interface for all
    ///
    /// Removes their interfaces and drops open connections.
    Create {
        /// All ports of the system under test on one switch, for example eth0 eth1
        #[arg(required = true)]
        ports: Vec<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Take an aggregate apart: each of its ports becomes an interface again
    ///
    /// The interface of the aggregate is removed. Each port gets its share of the clients, in a
    /// separate network.
    Remove {
        /// Aggregate: agg0
        aggregate: String,
        #[command(flatten)]
        common: Common,
    },
    /// Show aggregates and their ports, as without a command
    #[command(hide = true)]
    Show {
        /// Aggregate: agg0 [default: all aggregates of the lab]
        aggregate: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Change knobs of an aggregate while traffic flows, as `adapter set` does
    #[command(hide = true)]
    Set {
        /// Aggregate: agg0
        aggregate: String,
        /// Knobs, for example mode=lacp balance=port aggregate=3
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = setting)]
        settings: Vec<Setting>,
        #[command(flatten)]
        common: Common,
    },
}

/// `linkrate adapter toe ...`
#[derive(Debug, Subcommand)]
pub enum ToeCommand {
    /// Show TCP connections where they are: at the adapter or at the host
    Show {
        #[command(flatten)]
        common: Common,
    },
    /// Move a connection of a running program to the adapter, whatever the knob toe says
    ///
    /// The program stalls meanwhile. It must have been started in the lab. If the connection cannot
    /// move, it goes on at the host.
    Offload {
        /// Process and descriptor of the connection, for example 4711:5, as `adapter toe show` has them
        #[arg(value_name = "PID:FD", value_parser = descriptor)]
        connection: (u32, i32),
        #[command(flatten)]
        common: Common,
    },
}

fn descriptor(given: &str) -> Result<(u32, i32), String> {
    let parsed = given.split_once(':').and_then(|(process, descriptor)| {
        let descriptor: u16 = descriptor.parse().ok()?;
        Some((process.parse().ok().filter(|process| *process > 0)?, descriptor.into()))
    });
    parsed.ok_or_else(|| "expected the numbers PID:FD, for example 4711:5".to_owned())
}

/// Options of every command about a lab.
#[derive(Debug, Args)]
pub struct Common {
    #[command(flatten)]
    pub which: Which,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// `linkrate adapter capture`
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// Port: eth0, or client-0 for the port of a client
    pub port: String,
    /// File or FIFO; the lab writes to it until --stop
    #[arg(required_unless_present = "stop", conflicts_with = "stop")]
    pub file: Option<PathBuf>,
    /// Capture for this time and wait for its end
    #[arg(long, value_name = "TIME", conflicts_with = "stop", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// End the running capture
    #[arg(long)]
    pub stop: bool,
    #[command(flatten)]
    pub common: Common,
}

/// The state that a link gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LinkState {
    /// The link carries frames, and the host sees a carrier.
    Up,
    /// The link carries no frames.
    Down,
    /// The link runs at this rate; it stays up or down.
    Rate(BitRate),
}

fn link_state(given: &str) -> Result<LinkState, String> {
    match given {
        "up" => Ok(LinkState::Up),
        "down" => Ok(LinkState::Down),
        _ => given
            .parse()
            .map(LinkState::Rate)
            .map_err(|error| format!("expected up, down or a rate: {error}")),
    }
}

/// The help of `adapter set`, from the declaration of the knobs.
fn set_help() -> String {
    let keys = |of: fn(&&Knob) -> bool| {
        let keys: Vec<&str> = KNOBS.iter().filter(of).map(|knob| knob.key).collect();
        keys.join(", ")
    };
    format!(
        "Change knobs of a port while traffic flows\n\nThe port obeys {}. The kernel of its \
         host obeys {}. An aggregate of ports obeys {} as well, and an ATM port {}. Each takes the same values as in a study file. The ports at the peer \
         of the link get the same {}. Every knob is read back after it was set, and printed.",
        keys(|knob| { matches!(knob.owner, Owner::Driver | Owner::Port) }),
        keys(|knob| knob.owner == Owner::Kernel),
        keys(|knob| knob.owner == Owner::Aggregate),
        keys(|knob| knob.owner == Owner::Atm),
        keys(|knob| knob.ends == Ends::Both),
    )
}

/// `linkrate adapter top`
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Time between two samples
    #[arg(long, default_value = "1s", value_name = "TIME")]
    pub interval: String,
    /// Number of samples
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    #[command(flatten)]
    pub common: Common,
}

fn setting(given: &str) -> Result<Setting, String> {
    match given.split_once('=') {
        Some((key, value)) if !key.is_empty() => {
            Ok(Setting { key: key.to_owned(), value: value.to_owned() })
        }
        _ => Err("expected KEY=VALUE, for example lro=on".to_owned()),
    }
}

/// A fault, or `none`.
fn fault(given: &str) -> Result<Option<Setting>, String> {
    setting_or("none", "loss=1%", given)
}

/// A VLAN or a list of them, or `all`.
fn vlan(given: &str) -> Result<Option<Setting>, String> {
    setting_or("all", "access=10", given)
}

fn setting_or(word: &str, example: &str, given: &str) -> Result<Option<Setting>, String> {
    if given == word {
        return Ok(None);
    }
    let wrong = |_| format!("expected KEY=VALUE, for example {example}, or {word}");
    setting(given).map(Some).map_err(wrong)
}
