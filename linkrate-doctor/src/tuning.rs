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
//! | `link` | a link or a bus that is slower than the card |
//! | `receive_cpus` | the CPUs that do the work: queues, interrupts, processes |
//! | `losses` | where packets are lost: rings, pause frames, backlogs |
//! | `delays` | delays by waiting interrupts and sleeping CPUs |

mod advice;
mod aggregate;
mod congestion;
mod delays;
pub mod facts;
mod link;
mod losses;
mod mtu;
mod offloads;
mod read;
mod receive_cpus;
#[cfg(test)]
mod tests;
mod window;

use std::time::Duration;

pub use advice::{Advice, Basis, Cost, Evidence, Tuning};
pub use read::{from_files, this_host};

use facts::{Host, Interface};
use window::RoundTrip;

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
    all.extend(losses::softnet(host));
    all.extend(delays::power(host));
    all.extend(unreadable(host, &subjects));
    all.extend(mtu::of_controllers(host, &subjects));
    for (interface, round_trip) in &paths {
        all.extend(offloads::advice(host, interface));
        all.extend(mtu::advice(host, interface));
        all.extend(link::advice(interface));
        all.extend(aggregate::advice(interface));
        all.extend(link::bus(host, interface));
        all.extend(receive_cpus::queues(host, interface));
        all.extend(receive_cpus::interrupts(host, interface));
        all.extend(receive_cpus::processes(host, interface));
        all.extend(losses::rings(interface, round_trip));
        all.extend(losses::pause(interface));
        all.extend(delays::coalescing(interface, round_trip));
    }
    // a stable sort keeps the order of the subjects where costs are equal
    all.sort_by_key(Advice::rank);
    Ok(all)
}

fn names(interfaces: &[Interface]) -> String {
    let names: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Lists the facts that could not be read, and interfaces whose adapter is outside this host, so that a
/// missing finding is not mistaken for a good one.
fn unreadable(host: &Host, subjects: &[&Interface]) -> Vec<Advice> {
    let mut all: Vec<Advice> =
        host.unseen.iter().map(|(what, why)| Advice::unseen(what, why.clone())).collect();
    let adapters: Vec<&&Interface> =
        subjects.iter().filter(|interface| interface.device.is_some()).collect();
    if adapters.is_empty() {
        let detail = "this host has only software interfaces; rings, interrupts, link and bus belong to \
                      the physical machine: run linkrate doctor there";
        all.push(Advice::unseen("adapter", detail));
    }
    for interface in adapters.iter().filter(|interface| interface.is_paravirtual()) {
        let driver = interface.device.as_ref().and_then(|device| device.driver.as_deref());
        let detail = format!(
            "a hypervisor emulates this adapter ({}); link, bus and offloads of the real one belong to \
             the physical machine: run linkrate doctor there",
            driver.unwrap_or("unknown driver")
        );
        all.push(Advice::unseen("adapter", detail).on(&interface.name));
    }
    all
}
