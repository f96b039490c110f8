//! How this host should be tuned: what each setting likely costs, and the command that changes it.
//! Nothing is changed.
//!
//! `read` makes [`facts::Host`] of the host's files and sockets, from any root, so that tests feed
//! hosts they never had. Everything after it is pure: each subject has a file that makes [`Advice`]
//! of the facts, [`advise`] asks all of them and puts the dearest first.
//!
//! | file | about |
//! |---|---|
//! | `window` | socket buffers against what is under way on the path |
//! | `congestion` | congestion control and queueing discipline |
//! | `offloads` | what the adapter could do and does not |
//! | `mtu` | MTUs that differ along the path; jumbo frames |
//! | `link`, `pcie` | a link or a bus below what the card can do |
//! | `queues`, `interrupts`, `processes` | which CPUs do the work |
//! | `rings`, `pause`, `softnet` | where packets are lost |
//! | `coalescing`, `power` | what waits and sleeps |
//! | `sight` | what cannot be seen from here |

mod advice;
mod coalescing;
mod congestion;
pub mod facts;
mod interrupts;
mod link;
mod measured;
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
mod sight;
mod softnet;
#[cfg(test)]
mod tests;
mod window;

use std::time::Duration;

pub use advice::{Advice, Basis, Cost, Evidence, Tuning};
pub use read::{from_files, this_host};

use facts::{Host, Interface};
use round_trip::RoundTrip;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Only this interface; all that are up otherwise.
    pub interface: Option<String>,
    /// The round trip to reckon with, instead of the one seen.
    pub round_trip: Option<Duration>,
}

/// There is no interface of the name that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no interface \"{given}\" here; there are: {known}")]
pub struct NoSuchInterface {
    given: String,
    known: String,
}

/// Advice about `host`, by likely gain.
///
/// # Errors
/// When the host has no interface of the name asked for.
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
    all.extend(sight::advice(host, &subjects));
    all.extend(mtu::of_controllers(host, &subjects));
    for (interface, round_trip) in &paths {
        all.extend(offloads::advice(host, interface));
        all.extend(mtu::advice(host, interface));
        all.extend(link::advice(interface));
        all.extend(pcie::advice(host, interface));
        all.extend(queues::advice(host, interface));
        all.extend(interrupts::advice(host, interface));
        all.extend(processes::advice(host, interface));
        all.extend(rings::advice(interface, round_trip));
        all.extend(pause::advice(interface));
        all.extend(coalescing::advice(interface, round_trip));
    }
    // a stable sort: what costs the same stays in the order of the subjects
    all.sort_by_key(Advice::rank);
    Ok(all)
}

fn names(interfaces: &[Interface]) -> String {
    let names: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
