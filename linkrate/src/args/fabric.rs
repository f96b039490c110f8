//! What is between the ports of the system under test and its clients.

use clap::Args;
use linkrate_model::TestbedSpec;

use crate::exit::{Exit, Failure};

/// The fabric of an aggregate, or of an emulated LAN.
#[derive(Debug, Args)]
pub struct FabricArgs {
    /// Switches before an aggregate: with 2, ports eth0, eth2, ... are on the first, and eth1, eth3,
    /// ... and the clients on the second; a link joins the switches
    #[arg(long, hide_short_help = true, value_name = "NUMBER", requires = "aggregate", value_parser = clap::value_parser!(u32).range(1..=2))]
    pub switches: Option<u32>,
    /// Alternate clients between the two switches
    #[arg(long, hide_short_help = true, requires = "switches")]
    pub spread_clients: bool,
    /// Put the clients of an aggregate behind a router, in a network of their own
    #[arg(long, hide_short_help = true, requires = "aggregate", conflicts_with = "switches")]
    pub router: bool,
    /// Put the last N clients of each port behind an Ethernet bridge into the emulated LAN of the others: with
    /// a model such as atm-155-lane-1516
    #[arg(long, hide_short_help = true, value_name = "NUMBER", conflicts_with = "aggregate", value_parser = clap::value_parser!(u32).range(0..=16))]
    pub bridged_clients: Option<u32>,
}

impl FabricArgs {
    /// The testbed with this fabric.
    pub fn apply(&self, testbed: TestbedSpec) -> Result<TestbedSpec, Failure> {
        let switches = self.switches.unwrap_or(1);
        if self.spread_clients && switches < 2 {
            let message = "--spread-clients: one switch, expected --switches 2";
            return Err(Failure::new(Exit::Usage, message.to_owned()));
        }
        let (spread_clients, router) = (self.spread_clients, self.router);
        let bridged_clients = self.bridged_clients.unwrap_or(0);
        let testbed = TestbedSpec { switches, spread_clients, router, bridged_clients, ..testbed };
        testbed.check_bridge().map_err(|error| {
            let message = format!("--bridged-clients: {error}; {}", error.hint());
            Failure::new(Exit::Usage, message)
        })?;
        Ok(testbed)
    }
}
