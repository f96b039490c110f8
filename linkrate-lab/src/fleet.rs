//! The hosts of a fleet: a lab for each pair, whose agents live as long as the pair's turn.
//!
//! The agents of a turn are started when it begins and end with it, and so restore their
//! interfaces; no agent waits while others are measured. A node is a peer, whatever carries its agent.

use std::collections::BTreeMap;
use std::thread;

use linkrate_model::TestbedSpec;
use linkrate_model::spec::Adapter;
use linkrate_protocol::InterfaceFacts;
use linkrate_study::executor::{Executor, Facts, RunFailure, Stage};
use linkrate_study::fleet::facts::fact_name;
use linkrate_study::fleet::runner::FleetExecutor;
use linkrate_study::fleet::{ASKED_AT_ONCE, Fleet, Node, Pair};
use linkrate_study::study::Purpose;

use crate::backend::existing;
use crate::error::LabError;
use crate::executor::Lab;
use crate::executor::participants::failure;
use crate::host::Host;
use crate::options::LabOptions;

#[derive(Debug)]
pub struct LabFleet {
    fleet: Fleet,
    /// The testbed of the first pair, and of all others except for its interfaces.
    spec: TestbedSpec,
    options: LabOptions,
    facts: Facts,
}

impl LabFleet {
    /// Asks all nodes for their facts. A node that cannot be reached is a warning among them. Fails when fewer than two
    /// can be reached.
    pub fn survey(
        fleet: &Fleet,
        spec: &TestbedSpec,
        options: LabOptions,
    ) -> Result<Self, LabError> {
        let mut found =
            Self { fleet: fleet.clone(), spec: spec.clone(), options, facts: Facts::default() };
        let mut asked = Vec::new();
        let nodes = fleet.nodes_now();
        for some in nodes.chunks(ASKED_AT_ONCE) {
            let lab = &found;
            let answers = thread::scope(|scope| {
                let ask =
                    |node| thread::Builder::new().spawn_scoped(scope, move || lab.facts_of(node));
                let threads: Vec<_> = some.iter().copied().map(ask).collect();
                let lost =
                    |_| Err(std::io::Error::other("the thread that asked it has panicked").into());
                let answers = threads.into_iter().map(|thread| thread?.join().unwrap_or_else(lost));
                answers.collect::<Vec<Result<_, LabError>>>()
            });
            asked.extend(answers);
        }
        let reached = asked.iter().filter(|answer| answer.is_ok()).count();
        let mut first = None;
        for (node, answer) in nodes.iter().zip(asked) {
            match answer {
                Ok(facts) => found.facts.facts.extend(
                    facts.into_iter().map(|(name, value)| (fact_name(&node.name, &name), value)),
                ),
                Err(error) => {
                    let warning = format!("node {} cannot be reached: {error}", node.name);
                    found.facts.warnings.push(warning);
                    first.get_or_insert(error);
                }
            }
        }
        found.leave_out_common_sysctls();
        let count = nodes.len();
        found.facts.facts.insert("nodes".to_owned(), count.to_string());
        found.facts.facts.insert("pattern".to_owned(), fleet.pattern.word().to_owned());
        found.facts.facts.insert("at-once".to_owned(), fleet.at_once.to_string());
        match first {
            Some(error) if reached < 2 => Err(error),
            _ => Ok(found),
        }
    }

    /// Leaves the sysctls out that all nodes have alike: there are hundreds of each node.
    fn leave_out_common_sysctls(&mut self) {
        let facts = &self.facts.facts;
        let nodes = self.fleet.all_nodes().map(|node| node.name.as_str());
        let reported: Vec<&str> =
            nodes.filter(|node| facts.contains_key(&fact_name(node, "kernel"))).collect();
        let prefixes: Vec<String> = reported.iter().map(|node| fact_name(node, "")).collect();
        let is_common = |fact: &str| {
            let mut values = reported.iter().map(|node| facts.get(&fact_name(node, fact)));
            let first = values.next();
            values.all(|value| Some(value) == first)
        };
        let sysctls = facts.keys().filter_map(|name| {
            let fact = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))?;
            (fact.starts_with("net.") && is_common(fact)).then(|| name.clone())
        });
        let common: Vec<String> = sysctls.collect();
        common.iter().for_each(|name| drop(self.facts.facts.remove(name)));
    }

    fn start(&self, node: &Node) -> Result<Host, LabError> {
        existing::elsewhere(&node.end, &self.fleet.program, None, &self.options)
    }

    /// What a node reports on itself and of its interface.
    fn facts_of(&self, node: &Node) -> Result<BTreeMap<String, String>, LabError> {
        let mut host = self.start(node)?;
        let described = host.describe(&node.interface);
        let interface = host.named(described)?;
        Ok(facts(&host, &interface))
    }
}

/// The facts of a host and its interface that can tell one node from others.
fn facts(host: &Host, interface: &InterfaceFacts) -> BTreeMap<String, String> {
    let hello = &host.hello;
    let link = match (interface.running, interface.rate) {
        (false, _) => "down".to_owned(),
        (true, Some(rate)) => rate.to_string(),
        (true, None) => "up, without a rate of its own".to_owned(),
    };
    // a link without a rate of its own tells nothing of it
    let duplex = match (interface.half_duplex, interface.rate) {
        (true, _) => "half",
        (false, Some(_)) => "full",
        (false, None) => "",
    };
    let mut facts = BTreeMap::from(
        [
            ("kernel", hello.kernel.clone()),
            ("cpu-model", hello.cpu_model.clone()),
            ("online-cpus", hello.online_cpus.to_string()),
            ("interface", interface.name.clone()),
            ("driver", interface.driver.clone()),
            ("driver-version", interface.driver_version.clone()),
            ("firmware", interface.firmware.clone()),
            ("bus-link", interface.bus_link.clone()),
            ("numa-node", interface.node.map_or_else(String::new, |node| node.to_string())),
            ("interrupts", interface.interrupts.clone()),
            ("link", link),
            ("duplex", duplex.to_owned()),
            ("mtu", interface.mtu.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    facts.extend(hello.sysctls.clone());
    facts.extend(hello.settings.clone());
    facts.retain(|_, value| !value.is_empty());
    facts
}

impl FleetExecutor for LabFleet {
    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn pair(&self, pair: &Pair, absent: &[u32]) -> Result<Box<dyn Executor + '_>, RunFailure> {
        let refused = |reason: String| RunFailure::at(Stage::Testbed, reason);
        let on = self.fleet.interfaces(pair, absent);
        let on = on.map_err(|error| refused(error.to_string()))?;
        let spec = TestbedSpec { adapter: Adapter::Interfaces(on), ..self.spec.clone() };
        // costs that are not known well have wide intervals, and the rate of the pair counts
        let purpose = match self.options.purpose {
            Purpose::Costs => Purpose::Rates,
            purpose => purpose,
        };
        let options = LabOptions { purpose, ..self.options.clone() };
        let lab = Lab::build(&spec, options);
        let lab = lab.map_err(|error| failure(Stage::Testbed, error))?;
        Ok(Box::new(lab))
    }

    fn reach(&self, node: u32) -> Result<(), RunFailure> {
        let Some(node) = self.fleet.node(node) else { return Ok(()) };
        self.facts_of(node).map(|_| ()).map_err(|error| failure(Stage::Testbed, error))
    }
}
