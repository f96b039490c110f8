//! What cannot be seen from here, so that silence is not taken for praise.

use super::advice::Advice;
use super::facts::{Host, Interface};

/// What was not read, and what is elsewhere.
pub(super) fn advice(host: &Host, subjects: &[&Interface]) -> Vec<Advice> {
    let mut all: Vec<Advice> =
        host.unseen.iter().map(|(what, why)| Advice::unseen(what, why.clone())).collect();
    let adapters: Vec<&&Interface> =
        subjects.iter().filter(|interface| interface.device.is_some()).collect();
    if adapters.is_empty() {
        let detail = "no adapter here, only software interfaces: rings, interrupts, link and bus are \
                      those of the machine outside; run linkrate doctor there";
        all.push(Advice::unseen("adapter", detail));
    }
    for interface in adapters.iter().filter(|interface| interface.is_paravirtual()) {
        let driver = interface.device.as_ref().and_then(|device| device.driver.as_deref());
        let detail = format!(
            "an adapter that a hypervisor makes up ({}): the real one's link, bus and offloads are \
             the machine's outside; run linkrate doctor there",
            driver.unwrap_or("unknown driver")
        );
        all.push(Advice::unseen("adapter", detail).on(&interface.name));
    }
    all
}
