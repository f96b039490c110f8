//! What the network stacks of a run's hosts are made of beside its knobs: another program may change a sysctl, add rules to
//! netfilter, or open a capture.
//!
//! Each is read when a run begins and when it ends. What no run of linkrate sets must also be what it was in the first run of
//! the session: a change between two runs stays, and would be in all later ones. What belongs to interfaces must be what it was
//! in the first run with the same knobs.

use std::collections::BTreeMap;

use linkrate_model::RunSpec;
use linkrate_model::host::Stack;
use linkrate_model::spec::Adapter;

use super::Rejection;
use crate::executor::Stage;

/// The entries whose names end so are counts: they differ from run to run, and change in runs with an event.
const COUNTS: &str = "carrier changes";

/// One setting or object that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackChanged {
    /// The host: `the system under test`.
    pub host: String,
    /// Its name: `net.ipv4.tcp_rmem`.
    pub what: String,
    /// What it was; `None` where there was none.
    pub before: Option<String>,
    pub after: Option<String>,
    pub since: Since,
}

/// Since when something has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// Since this run began.
    RunBegan,
    /// Since the first run of the session, or the first one with the same knobs.
    FirstRun,
}

/// The stack of a host when a run began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackSeen {
    pub host: String,
    pub stack: Stack,
}

/// The stacks of the first runs of a session.
#[derive(Debug, Default)]
pub struct FirstStacks {
    /// By host and address family, which decides what is read.
    hosts: BTreeMap<(String, String), BTreeMap<String, String>>,
    /// By host, adapter and what was asked of interfaces.
    interfaces: BTreeMap<(String, String), BTreeMap<String, String>>,
}

impl StackChanged {
    /// What has changed of a host's stack while a run lasted.
    pub fn during(began: &StackSeen, ended: &StackSeen) -> Vec<Self> {
        let parts = [
            (&began.stack.host, &ended.stack.host),
            (&began.stack.interfaces, &ended.stack.interfaces),
        ];
        let changes = parts
            .into_iter()
            .flat_map(|(before, after)| between(&began.host, before, after, Since::RunBegan));
        changes.collect()
    }

    /// Whether it is a link that came or went, as in runs with an event.
    pub fn is_of_a_link(&self) -> bool {
        self.what.contains(COUNTS)
    }

    /// Refuses the run: always an error, with the host, the name and both values.
    pub fn check(&self) -> Result<(), Rejection> {
        let Self { host, what, before, after, since } = self;
        let words = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".to_owned());
        let (before, after) = (words(before), words(after));
        let (was, is) = match since {
            Since::RunBegan => ("when the run began", "when it ended"),
            Since::FirstRun => ("in the first run", "in this one"),
        };
        Err(Rejection {
            // a testbed of namespaces is built again, and has its own values again
            stage: Stage::Testbed,
            named: what.clone(),
            reason: format!(
                "{what} of {host}: {before} {was}, {after} {is}: another program changed it"
            ),
        })
    }
}

impl FirstStacks {
    /// What differs at the begin of a run from the first runs on this adapter. The first ones are kept. A run that asks for no
    /// adapter, as an idle one, may have that of the run before.
    pub fn changes(
        &mut self,
        spec: &RunSpec,
        adapter: &Adapter,
        seen: &StackSeen,
    ) -> Vec<StackChanged> {
        let StackSeen { host, stack } = seen;
        let family = (host.clone(), format!("{:?}", spec.socket.family));
        let first = self.hosts.entry(family).or_insert_with(|| stack.host.clone());
        let mut changes = between(host, first, &stack.host, Since::FirstRun);
        let settings =
            (&spec.interface, spec.clients, spec.ports, spec.socket.family, adapter.name());
        let settings = (host.clone(), format!("{settings:?}"));
        let first = self.interfaces.entry(settings).or_insert_with(|| stack.interfaces.clone());
        changes.extend(between(host, first, &stack.interfaces, Since::FirstRun));
        changes.retain(|change| !change.is_of_a_link());
        changes
    }
}

fn between(
    host: &str,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    since: Since,
) -> Vec<StackChanged> {
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let changed = names.filter_map(|what| {
        let (before, after) = (before.get(what), after.get(what));
        (before != after).then(|| StackChanged {
            host: host.to_owned(),
            what: what.clone(),
            before: before.cloned(),
            after: after.cloned(),
            since,
        })
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use linkrate_model::{InterfaceKnobs, Task};

    use super::*;
    use crate::fixture;

    fn seen(host: &[(&str, &str)], interfaces: &[(&str, &str)]) -> StackSeen {
        let map = |entries: &[(&str, &str)]| {
            entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let stack = Stack { host: map(host), interfaces: map(interfaces) };
        StackSeen { host: "the system under test".to_owned(), stack }
    }

    fn reasons(changes: &[StackChanged]) -> Vec<String> {
        changes.iter().map(|change| change.check().unwrap_err().reason).collect()
    }

    #[test]
    fn a_change_in_a_run_is_named_with_both_values() {
        let began = seen(&[("net.ipv4.tcp_rmem", "4096 131072 6291456")], &[("rps of eth0", "1")]);
        assert_eq!(StackChanged::during(&began, &began), []);
        let sockets = ("packet sockets", "\"tcpdump\" (process 55): protocol 0x0003, eth0");
        let ended = seen(&[("net.ipv4.tcp_rmem", "4096 16384 16384"), sockets], &[]);
        let expected = [
            "net.ipv4.tcp_rmem of the system under test: 4096 131072 6291456 when the run began, 4096 16384 16384 \
             when it ended: another program changed it",
            "packet sockets of the system under test: absent when the run began, \"tcpdump\" (process 55): protocol \
             0x0003, eth0 when it ended: another program changed it",
            "rps of eth0 of the system under test: 1 when the run began, absent when it ended: another program \
             changed it",
        ];
        assert_eq!(reasons(&StackChanged::during(&began, &ended)), expected);
    }

    #[test]
    fn a_change_between_runs_stays_a_change_until_it_is_undone() {
        let spec = fixture::ladder().cells[0].spec.clone();
        let mut first = FirstStacks::default();
        let usual = seen(
            &[("rules", "generation 1")],
            &[("features of eth0", "a"), ("carrier changes of eth0", "3")],
        );
        assert_eq!(first.changes(&spec, &Adapter::Veth, &usual), []);
        let later = seen(
            &[("rules", "generation 2")],
            &[("features of eth0", "a"), ("carrier changes of eth0", "4")],
        );
        let reported = "rules of the system under test: generation 1 in the first run, generation 2 in this one: another \
                    program changed it";
        assert_eq!(reasons(&first.changes(&spec, &Adapter::Veth, &later)), [reported]);
        assert_eq!(reasons(&first.changes(&spec, &Adapter::Veth, &later)), [reported]);
        assert_eq!(first.changes(&spec, &Adapter::Veth, &usual), []);
        // other knobs may have other features, which are then the first ones
        let other = RunSpec {
            interface: InterfaceKnobs { mtu: Some(9000), ..InterfaceKnobs::default() },
            ..spec.clone()
        };
        let features = seen(&[("rules", "generation 1")], &[("features of eth0", "b")]);
        assert_eq!(first.changes(&other, &Adapter::Veth, &features), []);
        assert_eq!(first.changes(&spec, &Adapter::Veth, &features).len(), 1);
        // and so may another adapter
        let idle = RunSpec { task: Task::Idle, ..spec };
        assert_eq!(first.changes(&idle, &Adapter::Unknown, &features), []);
        assert_eq!(first.changes(&idle, &Adapter::Veth, &features).len(), 1);
    }
}
