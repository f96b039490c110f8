//! Facts that could not be read. They are listed, so that a missing finding is not mistaken for a
//! good one.

use super::advice::Advice;
use super::facts::{Host, Interface};

/// Lists the facts that could not be read, and interfaces whose adapter is outside this host.
pub(super) fn advice(host: &Host, subjects: &[&Interface]) -> Vec<Advice> {
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
