//! Arguments of `linkrate limit`.

pub mod aggregate;

use clap::{Args, Subcommand};
use linkrate_model::nearest::did_you_mean;
use linkrate_model::{BitRate, ByteSize};
use linkrate_wire::link::atm::{OC3C, OC12C};

/// The words for ATM rates.
const ATM_WORDS: [(&str, BitRate); 2] = [("oc3c", OC3C), ("oc12c", OC12C)];

/// `linkrate limit`
#[derive(Debug, Args)]
pub struct LimitArgs {
    #[command(subcommand)]
    pub link: LinkCommand,
}

#[derive(Debug, Subcommand)]
pub enum LinkCommand {
    /// Ethernet: preamble, frame, frame check sequence and gap
    ///
    /// The highest payload rate of one direction of an Ethernet link. Acknowledgements and
    /// retransmissions are not included, so measured rates are lower.
    Ethernet(EthernetArgs),
    /// ATM over SONET: AAL5 units in cells of 53 bytes
    ///
    /// The highest payload rate of one direction of an ATM link. Acknowledgements and
    /// retransmissions are not included, so measured rates are lower.
    Atm(AtmArgs),
    /// Aggregates: what several ports deliver together under a balancing
    ///
    /// A flow leaves by one port, except with round robin. So an aggregate is as fast as all its
    /// ports only if each port has a flow. Flows are equal and greedy. For random flows it prints the
    /// distribution of the throughput, for named ones (--flow) the port of each. The balancing is that
    /// of linkrate's own aggregates: a table of 256 entries, of which each takes the next port in turn
    /// when it is first used.
    Aggregate(aggregate::AggregateArgs),
}

#[derive(Debug, Args)]
pub struct EthernetArgs {
    /// Line rates, for example 10G or 2.5G,100M [default: 1G,10G,25G,40G,100G]
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = ethernet_rate)]
    pub rate: Vec<BitRate>,
    /// Largest IP packets in bytes [default: 1500,9000; with --snap 1492,9000]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = mtu)]
    pub mtu: Vec<u32>,
    #[command(flatten)]
    pub framing: EthernetFramingArgs,
    #[command(flatten)]
    pub traffic: TrafficArgs,
}

/// What is around an IP packet on Ethernet.
#[derive(Debug, Args)]
pub struct EthernetFramingArgs {
    /// VLAN tags on each frame, which come on top of the MTU
    #[arg(
        long, value_name = "TAGS", default_value_t = 0, num_args = 0..=1,
        default_missing_value = "1", value_parser = clap::value_parser!(u8).range(0..=2)
    )]
    pub vlan: u8,
    /// LLC and SNAP headers (RFC 1042) instead of the type field
    #[arg(long)]
    pub snap: bool,
}

#[derive(Debug, Args)]
pub struct AtmArgs {
    /// SONET line rates: oc3c, oc12c, or a rate such as 155.52M [default: oc3c,oc12c]
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = atm_rate)]
    pub rate: Vec<BitRate>,
    /// Largest IP packets in bytes [default: 1500,9180; with --lane 1500,9218]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = mtu)]
    pub mtu: Vec<u32>,
    /// LAN Emulation instead of Classical IP: eight more bytes in each packet
    #[arg(long)]
    pub lane: bool,
    /// The formula of the ATM paper instead of the limit of real packets
    ///
    /// T = D / (D + 56 + p) × 48/53 × 26/27 × line rate. A message of D bytes is one packet,
    /// however large. 56 bytes are TCP (20, no timestamps), IPv4 (20), LLC/SNAP (8) and the AAL5
    /// trailer (8); p pads to whole cells. A cell of 53 bytes has a header of 5; 26 of the 27 columns
    /// of a SONET frame carry cells.
    ///
    /// Without --rate and --message it prints the ten values of the paper's appendix, which rounds
    /// them to whole Mb/s. One differs: for 4096 bytes at 622 Mb/s the paper prints 535, which is the
    /// formula without padding; with padding it is 532.
    #[arg(long, conflicts_with_all = ["mtu", "lane", "udp", "ipv6", "no_timestamps"])]
    pub published_formula: bool,
    #[command(flatten)]
    pub traffic: TrafficArgs,
}

/// The traffic on the link, for both kinds.
#[derive(Debug, Args)]
pub struct TrafficArgs {
    /// Message sizes, each message in packets of its own, for example 64,32K [default: full
    /// packets]
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub message: Vec<ByteSize>,
    /// UDP instead of TCP
    #[arg(long)]
    pub udp: bool,
    /// IPv6 instead of IPv4
    #[arg(long)]
    pub ipv6: bool,
    /// TCP without its timestamps option, which Linux sends on every segment
    #[arg(long, conflicts_with = "udp")]
    pub no_timestamps: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

fn ethernet_rate(given: &str) -> Result<BitRate, String> {
    if given.trim().parse::<f64>().is_ok() {
        return Err("a rate needs a unit, for example 10G or 100M".to_owned());
    }
    if given.contains('B') {
        // B is a byte, which is eight bits
        return Err("a rate is in bits per second, for example 10G or 10Gb/s".to_owned());
    }
    given.parse().map_err(|error: linkrate_model::units::UnitError| error.to_string())
}

fn atm_rate(given: &str) -> Result<BitRate, String> {
    let word = given.trim().to_lowercase().replace('-', "");
    if let Some((_, rate)) = ATM_WORDS.iter().find(|(name, _)| *name == word) {
        return Ok(*rate);
    }
    if word.starts_with(|first: char| first.is_alphabetic()) {
        let nearest = did_you_mean(&word, ATM_WORDS.map(|(name, _)| name));
        return Err(format!("expected oc3c, oc12c or a rate such as 155.52M{nearest}"));
    }
    ethernet_rate(given)
}

/// Reads an MTU. The limit checks its range, which depends on the IP version and the link.
fn mtu(given: &str) -> Result<u32, String> {
    let size: ByteSize =
        given.parse().map_err(|error: linkrate_model::units::UnitError| error.to_string())?;
    u32::try_from(size.0).map_err(|_| "expected a number of bytes such as 1500 or 9000".to_owned())
}
