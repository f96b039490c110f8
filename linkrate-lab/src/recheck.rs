//! After the window: is everything still as it was when the run began?
//!
//! What was set and read back before a run may be changed by another program while it is measured,
//! and a clock may be stepped. Either makes a figure of something that nobody asked for.

use linkrate_study::executor::{RunFailure, Stage};
use linkrate_study::integrity::CLOCK_NS;
use linkrate_terms::InterfaceKnobs;
use linkrate_terms::measurement::LinkEvidence;

use crate::executor::{failure, participants};
use crate::host::read_clock;
use crate::testbed::Testbed;

/// Every knob of the system under test's interfaces must have the value it began with.
///
/// # Errors
/// The first one that has not, by name.
pub fn knobs(
    testbed: &mut Testbed,
    begun: &InterfaceKnobs,
    clients: usize,
) -> Result<(), RunFailure> {
    for interface in testbed.sut_interfaces(clients) {
        let now = testbed.ground.read_knobs(&mut testbed.sut, &interface);
        let now = now.map_err(|error| failure(Stage::Knob, error))?;
        if let Some(reason) = changed(&interface, begun, &now) {
            return Err(RunFailure { stage: Stage::Knob, reason, fatal: false });
        }
    }
    Ok(())
}

/// The links of existing interfaces, all of which must be up; none on a testbed that is linkrate's
/// own.
///
/// # Errors
/// The first that is not up.
pub fn links(testbed: &mut Testbed, clients: usize) -> Result<Vec<LinkEvidence>, RunFailure> {
    let (ground, mut hosts) = testbed.with_clients(clients);
    ground.links(&mut hosts).map_err(|error| failure(Stage::Testbed, error))
}

/// Existing links must be what they were when the run began.
///
/// # Errors
/// The first that is not.
pub fn same_links(
    testbed: &mut Testbed,
    begun: &[LinkEvidence],
    clients: usize,
) -> Result<(), RunFailure> {
    let rate = |link: &LinkEvidence| {
        link.rate.map_or_else(|| "unknown".to_owned(), |rate| rate.to_string())
    };
    let now = links(testbed, clients)?;
    let other = begun.iter().zip(&now).find(|(was, is)| was != is);
    match other {
        Some((was, is)) => {
            let reason = format!(
                "the link of {} ran at {} when the run began and at {} when it ended",
                was.interface,
                rate(was),
                rate(is)
            );
            Err(RunFailure { stage: Stage::Testbed, reason, fatal: false })
        }
        None => Ok(()),
    }
}

/// Every link must run at its model's rate, before a run and after it.
///
/// # Errors
/// The first one that does not.
pub fn link_rates(testbed: &Testbed, clients: usize) -> Result<(), RunFailure> {
    let ports = testbed.sut_interfaces(clients).len();
    match testbed.ground.other_rate(ports) {
        Some(reason) => Err(RunFailure { stage: Stage::Testbed, reason, fatal: false }),
        None => Ok(()),
    }
}

/// The first knob that has another value than at the beginning.
fn changed(interface: &str, begun: &InterfaceKnobs, ended: &InterfaceKnobs) -> Option<String> {
    let (before, after) = (begun.values(), ended.values());
    before.iter().find_map(|(knob, was)| {
        let is = after.iter().find(|(name, _)| name == knob).map(|(_, value)| value.as_str());
        (is != Some(was)).then(|| {
            let is = is.unwrap_or("unknown");
            format!(
                "knob \"{knob}\" on {interface}: {was} when the run began, {is} when it ended: \
                 another program changed it"
            )
        })
    })
}

/// Every host's clock must be where it was against the controller's when the host was started.
///
/// # Errors
/// The host whose clock moved, and how far.
pub fn clocks(testbed: &mut Testbed, clients: usize) -> Result<(), RunFailure> {
    for host in participants(testbed, clients) {
        let (now_ns, _) =
            read_clock(&mut host.connection).map_err(|error| failure(Stage::Measure, error))?;
        if now_ns.abs_diff(host.clock_offset_ns) > CLOCK_NS {
            let moved_ms = (now_ns as f64 - host.clock_offset_ns as f64) / 1e6;
            let reason = format!(
                "the clock of {} is {moved_ms:+.1} ms off where it was when its host was started, \
                 expected at most {} ms: its window was not the common one",
                host.name,
                CLOCK_NS / 1_000_000
            );
            return Err(RunFailure { stage: Stage::Measure, reason, fatal: false });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkrate_terms::Offload;
    use linkrate_terms::knobs::PortRequest;

    #[test]
    fn the_knob_that_changed_is_named() {
        let begun = InterfaceKnobs {
            offload: Some(Offload::Tso),
            mtu: Some(1500),
            port: PortRequest { lro: Some(false), ..PortRequest::default() },
            ..InterfaceKnobs::default()
        };
        assert_eq!(changed("eth0", &begun, &begun), None);
        let other = InterfaceKnobs { offload: Some(Offload::None), ..begun.clone() };
        assert_eq!(
            changed("eth0", &begun, &other).unwrap(),
            "knob \"offload\" on eth0: tso when the run began, none when it ended: another \
             program changed it"
        );
        let other = InterfaceKnobs { port: PortRequest::default(), ..begun.clone() };
        assert!(changed("eth1", &begun, &other).unwrap().contains("\"lro\" on eth1: off when"));
    }
}
