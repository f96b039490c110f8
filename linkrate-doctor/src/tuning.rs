//! How this host could be tuned: the likely cost of each setting, and the command that changes it.
//! The doctor itself changes nothing.
//!
//! `read` fills [`facts::Host`] from files and sockets. The root of the files is a parameter, so
//! tests can supply other hosts. Everything after `read` is pure: one file for each subject derives
//! [`Advice`] from the facts, and [`advise`] sorts all advice by cost.
//!
//! | file | subject |
//! |---|---|
//! | `window` | socket buffers compared with the bandwidth-delay product |
//! | `congestion` | congestion control and queueing discipline |
//! | `offloads` | offloads that are off and could be on |
//! | `mtu` | MTUs that differ along the path; jumbo frames |
//! | `aggregate` | bonds and teams: members, partner, shares |
//! | `link`, `pcie` | a link or a bus that is slower than the card |
//! | `queues`, `interrupts`, `processes` | the CPUs that do the work |
//! | `rings`, `pause`, `softnet` | where packets are lost |
//! | `coalescing`, `power` | delays by waiting interrupts and sleeping CPUs |
//! | `unreadable_facts` | facts that this host does not reveal |

mod advice;
mod aggregate;
mod coalescing;
mod congestion;
pub mod facts;
mod interrupts;
mod link;
mod measured_costs;
mod mtu;
mod offloads;
mod pause;
mod pcie;
mod power;
mod processes;
mod queues;
mod read;
mod rings;
mod round_trip;
mod softnet;
#[cfg(test)]
mod tests;
mod unreadable_facts;
mod window;

use std::time::Duration;

pub use advice::{Advice, Basis, Cost, Evidence, Tuning};
pub use read::{from_files, this_host};

use facts::{Host, Interface};
use round_trip::RoundTrip;

/// Options of a request for advice.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Advise on this interface only; `None`: on all that are up.
    pub interface: Option<String>,
    /// The round trip to compute with; `None`: the one that connections report.
    pub round_trip: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no interface \"{given}\" on this host; its interfaces: {known}")]
pub struct NoSuchInterface {
    given: String,
    known: String,
}

/// Advice about `host`, sorted by likely gain.
pub fn advise(host: &Host, question: &Question) -> Result<Vec<Advice>, NoSuchInterface> {
    let subjects: Vec<&Interface> = match &question.interface {
        None => host.interfaces.iter().filter(|interface| interface.up).collect(),
        Some(name) => vec![host.interface(name).ok_or_else(|| NoSuchInterface {
            given: name.clone(),
            known: names(&host.interfaces),
        })?],
    };
    let paths: Vec<(&Interface, RoundTrip)> = subjects
        .iter()
        .map(|interface| (*interface, RoundTrip::of(host, interface, question.round_trip)))
        .collect();
    let mut all = window::advice(host, &paths);
    all.extend(congestion::advice(host, &subjects));
    all.extend(softnet::advice(host));
    all.extend(power::advice(host));
    all.extend(unreadable_facts::advice(host, &subjects));
    all.extend(mtu::of_controllers(host, &subjects));
    for (interface, round_trip) in &paths {
        all.extend(offloads::advice(host, interface));
        all.extend(mtu::advice(host, interface));
        all.extend(link::advice(interface));
        all.extend(aggregate::advice(interface));
        all.extend(pcie::advice(host, interface));
        all.extend(queues::advice(host, interface));
        all.extend(interrupts::advice(host, interface));
        all.extend(processes::advice(host, interface));
        all.extend(rings::advice(interface, round_trip));
        all.extend(pause::advice(interface));
        all.extend(coalescing::advice(interface, round_trip));
    }
    // a stable sort keeps the order of the subjects where costs are equal
    all.sort_by_key(Advice::rank);
    Ok(all)
}

fn names(interfaces: &[Interface]) -> String {
    let names: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
