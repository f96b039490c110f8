//! Arguments of `linkrate limit aggregate`.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use clap::Args;
use linkrate_model::{Balance, BitRate};
use linkrate_wire::limits::aggregate::Flow;

use super::{EthernetFramingArgs, TrafficArgs, ethernet_rate, mtu};

#[derive(Debug, Args)]
pub struct AggregateArgs {
    /// Ports of the aggregate, 1 to 64
    #[arg(
        long, value_name = "PORTS", value_delimiter = ',', default_value = "2,4,8",
        value_parser = count
    )]
    pub ports: Vec<usize>,
    /// Balancing: mac, ip, port, cpu, round-robin or adaptive
    #[arg(long, value_name = "WORD", value_delimiter = ',', default_value = "port")]
    pub balance: Vec<Balance>,
    /// Random flows, 1 to 4096: each gets a random entry of the table
    #[arg(
        long, value_name = "FLOWS", value_delimiter = ',', default_value = "8",
        value_parser = count
    )]
    pub flows: Vec<usize>,
    /// A flow by its addresses, instead of random ones; may be given several times
    ///
    /// MAC is the Ethernet address that its frames go to, the receiver's or the router's; balancing
    /// by MAC needs it. Flows begin in the order given.
    #[arg(
        long, value_name = "SRC,SPORT,DST,DPORT[,MAC]", conflicts_with_all = ["flows", "seed"],
        value_parser = flow
    )]
    pub flow: Vec<Flow>,
    /// Transmit queues, 1 to 256, for balancing by CPU: each flow gets a random one
    #[arg(long, value_name = "QUEUES", required_if_eq("balance", "cpu"))]
    pub queues: Option<u16>,
    /// Line rate of each port
    #[arg(long, value_name = "RATE", default_value = "1G", value_parser = ethernet_rate)]
    pub rate: BitRate,
    /// Largest IP packet in bytes [default: 1500; with --snap 1492]
    #[arg(long, value_name = "BYTES", value_parser = mtu)]
    pub mtu: Option<u32>,
    #[command(flatten)]
    pub framing: EthernetFramingArgs,
    /// Seed of the samples that the slowest flow comes from
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub traffic: TrafficArgs,
}

fn count(given: &str) -> Result<usize, String> {
    given.trim().parse().map_err(|_| "expected a whole number such as 4".to_owned())
}

/// Reads `SRC,SPORT,DST,DPORT[,MAC]`.
fn flow(given: &str) -> Result<Flow, String> {
    let fields: Vec<&str> = given.split(',').map(str::trim).collect();
    let (ends, mac) = match fields[..] {
        [source, source_port, destination, destination_port] => {
            ([source, source_port, destination, destination_port], None)
        }
        [source, source_port, destination, destination_port, mac] => {
            ([source, source_port, destination, destination_port], Some(mac))
        }
        _ => {
            let count = fields.len();
            return Err(format!("{count} fields, expected SRC,SPORT,DST,DPORT or those and MAC"));
        }
    };
    let [source, source_port, destination, destination_port] = ends;
    Ok(Flow {
        source: end("source", source, source_port)?,
        destination: end("destination", destination, destination_port)?,
        mac: mac.map(|mac| mac.parse().map_err(reported)).transpose()?,
        source_mac: None,
    })
}

fn end(which: &str, address: &str, port: &str) -> Result<SocketAddr, String> {
    let ip = IpAddr::from_str(address).map_err(|_| {
        format!("{which} address is \"{address}\", expected an IP address such as 10.0.0.1")
    })?;
    let port = port
        .parse()
        .map_err(|_| format!("{which} port is \"{port}\", expected a number from 0 to 65535"))?;
    Ok(SocketAddr::new(ip, port))
}

fn reported(error: impl std::fmt::Display) -> String {
    error.to_string()
}
