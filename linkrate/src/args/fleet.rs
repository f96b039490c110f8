//! Options that name the nodes of a fleet.

use std::path::{Path, PathBuf};

use clap::Args;
use linkrate_model::Peer;
use linkrate_model::interfaces::is_interface_name;
use linkrate_study::fleet::{Given, Node, Pattern, hosts};

use super::read_text;
use crate::exit::{Exit, Failure};

/// The word for the nodes of an allocation. A file of this name is `./slurm`.
const SLURM: &str = "slurm";

/// Nodes, instead of the testbed and the nodes of the study file.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Many hosts")]
pub struct FleetArgs {
    /// Node list, one per line: NAME ssh:HOST INTERFACE [rack=NAME] [switch=NAME]; every pair is measured, unless
    /// section "fleet" of the study file chooses others. "slurm" stands for all nodes of the allocation of Slurm that linkrate runs in, with --fleet-interface
    #[arg(long, value_name = "FILE|slurm", conflicts_with = "interface")]
    pub fleet: Option<PathBuf>,
    /// The interface to measure on each node of --fleet slurm
    #[arg(long, value_name = "NAME", requires = "fleet")]
    pub fleet_interface: Option<String>,
    /// Traffic pattern, instead of that of the study file: all-pairs, ring, bisection, incast (all
    /// others send to one node, each in turn) or one-to-many
    #[arg(long, value_name = "PATTERN", requires = "fleet", value_parser = pattern)]
    pub fleet_pattern: Option<Pattern>,
}

fn pattern(word: &str) -> Result<Pattern, String> {
    let words = || Pattern::ALL.map(Pattern::word).join(", ");
    Pattern::from_word(word).ok_or_else(|| format!("expected one of {}", words()))
}

impl FleetArgs {
    /// The nodes and the pattern, if a list or an allocation is named.
    pub fn given(&self) -> Result<Option<Given>, Failure> {
        let given = |nodes| Given { nodes, pattern: self.fleet_pattern };
        Ok(self.nodes()?.map(given))
    }

    /// The nodes, if a list or an allocation is named.
    fn nodes(&self) -> Result<Option<Vec<Node>>, Failure> {
        let Some(path) = &self.fleet else { return Ok(None) };
        let refused = |reason: String| Failure::new(Exit::Usage, reason);
        match (path == Path::new(SLURM), self.fleet_interface.as_deref()) {
            (true, Some(interface)) if is_interface_name(interface) => {
                let names = linkrate_lab::peer::allocated_nodes()?;
                of_allocation(&names, interface).map(Some).map_err(refused)
            }
            (true, Some(name)) => {
                Err(refused(format!("--fleet-interface: {name:?} is not an interface name")))
            }
            (true, None) => {
                let message = "--fleet slurm: the interface to measure is missing".to_owned();
                Err(refused(message).with_hint(Some("add --fleet-interface eth1")))
            }
            (false, Some(_)) => {
                let message =
                    format!("--fleet-interface cannot be combined with --fleet {}", path.display());
                Err(refused(message)
                    .with_hint(Some("leave it out: a list names the interface of each node")))
            }
            (false, None) => listed(path).map(Some),
        }
    }
}

/// The nodes of a list.
pub fn listed(path: &Path) -> Result<Vec<Node>, Failure> {
    let refused = |reason: String| {
        Failure::new(Exit::Usage, format!("--fleet: {}: {reason}", path.display()))
    };
    let text = read_text(path, hosts::MAX_LIST_BYTES as u64, "list of nodes").map_err(refused)?;
    hosts::parse(&text).map_err(|error| refused(error.to_string()))
}

/// The nodes of an allocation. Their racks are not known.
fn of_allocation(names: &[String], interface: &str) -> Result<Vec<Node>, String> {
    if names.len() < 2 {
        return Err(format!(
            "--fleet slurm: the allocation has only the node {}, expected 2 nodes or more",
            names.join(", ")
        ));
    }
    let node = |name: &String| {
        let end: Peer = format!("slurm:{name}")
            .parse()
            .map_err(|error| format!("--fleet slurm: node {name}: {error}"))?;
        let interface = interface.to_owned();
        Ok(Node { name: name.clone(), end, interface, rack: None, switch: None })
    };
    names.iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(fleet: &str, interface: Option<&str>) -> FleetArgs {
        let fleet_interface = interface.map(str::to_owned);
        FleetArgs { fleet: Some(fleet.into()), fleet_interface, fleet_pattern: None }
    }

    #[test]
    fn nodes_of_an_allocation_are_reached_by_slurm() {
        let names = ["n1".to_owned(), "n2".to_owned()];
        let nodes = of_allocation(&names, "ib0").unwrap();
        assert_eq!(nodes.len(), 2);
        assert_eq!(nodes[1].end.to_string(), "slurm:n2");
        assert_eq!((nodes[1].name.as_str(), nodes[1].interface.as_str()), ("n2", "ib0"));
        assert_eq!((&nodes[1].rack, &nodes[1].switch), (&None, &None));
        let error = of_allocation(&names[..1], "ib0").unwrap_err();
        assert!(error.contains("only the node n1, expected 2"), "{error}");
    }

    #[test]
    fn interface_and_allocation_go_together() {
        for (args, part) in [
            (args("slurm", None), "the interface to measure is missing"),
            (args("slurm", Some("a/b")), "\"a/b\" is not an interface name"),
            (
                args("hosts.txt", Some("eth1")),
                "--fleet-interface cannot be combined with --fleet hosts.txt",
            ),
        ] {
            let failure = args.nodes().unwrap_err();
            assert!(failure.message.contains(part), "{failure:?}");
        }
    }
}
