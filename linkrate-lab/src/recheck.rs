//! Observations around a run: is everything still as it was when the run began?
//!
//! Another program may change a knob while a run is measured, and step a clock. The observations go
//! to [`linkrate_study::belief`], which decides whether the run counts.

use linkrate_agent::protocol::{AGENT_THREAD, WindowReport};
use linkrate_study::belief::{
    ClockSeen, DisciplinesSeen, KnobsSeen, Observed, RateSeen, WindowSeen,
};
use linkrate_study::executor::{RunFailure, Stage};
use linkrate_terms::measurement::{LinkEvidence, ThreadTime};
use linkrate_terms::{InterfaceKnobs, discipline};

use crate::executor::{failure, participants};
use crate::far_end::FarEndReport;
use crate::host::read_clock;
use crate::placement::{strayed, strayed_from_one};
use crate::testbed::{ReceiveSteering, Testbed};

/// The state in which a run begins.
#[derive(Debug)]
pub struct Begun {
    /// Knobs of the system under test's interfaces, as read back.
    pub knobs: InterfaceKnobs,
    /// The links of existing interfaces.
    pub links: Vec<LinkEvidence>,
    /// The flows of the system under test have a CPU each.
    pub is_bound: bool,
}

/// Observes what has become of the state in which a run began; its windows were observed already.
///
/// # Errors
/// When an agent does not answer, and when an existing link is down.
pub fn observe(
    testbed: &mut Testbed,
    begun: &mut Begun,
    sut: &WindowReport,
    far_ends: &[FarEndReport],
    clients: usize,
    windows: Vec<WindowSeen>,
) -> Result<Observed, RunFailure> {
    let mut rates = model_rates(testbed, clients);
    rates.extend(existing_rates(testbed, &mut begun.links, clients)?);
    let steered = testbed.receive_steering == ReceiveSteering::Rps;
    let reports = far_ends
        .iter()
        .zip(&testbed.clients)
        .filter_map(|(report, client)| Some((report.everything()?, &client.host.cpus)));
    let mut astray: Vec<_> =
        reports.flat_map(|(report, cpus)| strayed(&report.cpu.threads, cpus)).collect();
    let is_bound = |thread: &ThreadTime| begun.is_bound && thread.name != AGENT_THREAD;
    let (bound, free): (Vec<_>, Vec<_>) = sut.cpu.threads.iter().cloned().partition(is_bound);
    astray.extend(strayed_from_one(&bound, &testbed.sut.cpus));
    astray.extend(strayed(&free, &testbed.sut.cpus));
    astray.extend(testbed.ground.strayed(&testbed.placement));
    let mut disciplines = DisciplinesSeen::of(&sut.disciplines);
    for (number, report) in far_ends.iter().enumerate() {
        let Some(report) = report.everything() else { continue };
        let of_client = report.disciplines.each_ref().map(|all| discipline::of_client(number, all));
        disciplines.extend(DisciplinesSeen::of(&of_client));
    }
    Ok(Observed {
        strayed: astray,
        rescheduled: testbed.ground.rescheduled(),
        knobs: knobs(testbed, &begun.knobs, clients)?,
        rates,
        clocks: clocks(testbed, clients)?,
        windows,
        disciplines,
        steered_to: steered.then(|| testbed.placement.sut.clone()),
    })
}

fn knobs(
    testbed: &mut Testbed,
    begun: &InterfaceKnobs,
    clients: usize,
) -> Result<Vec<KnobsSeen>, RunFailure> {
    let interfaces = testbed.sut_interfaces(clients).into_iter();
    let seen = interfaces.map(|interface| {
        let after = testbed.ground.read_knobs(&mut testbed.sut, &interface);
        let after = after.map_err(|error| failure(Stage::Knob, error))?;
        Ok(KnobsSeen { interface, before: begun.clone(), after })
    });
    seen.collect()
}

/// The links of existing interfaces, all of which must be up; none on a testbed that linkrate made.
///
/// # Errors
/// The first link that is down.
pub fn links(testbed: &mut Testbed, clients: usize) -> Result<Vec<LinkEvidence>, RunFailure> {
    let (ground, mut hosts) = testbed.with_clients(clients);
    ground.links(&mut hosts).map_err(|error| failure(Stage::Testbed, error))
}

/// Existing links beside the rates at which the run began. Members of bonds and teams keep what they
/// counted since then.
fn existing_rates(
    testbed: &mut Testbed,
    begun: &mut [LinkEvidence],
    clients: usize,
) -> Result<Vec<RateSeen>, RunFailure> {
    let now = links(testbed, clients)?;
    let seen = begun.iter_mut().zip(now).map(|(was, is)| {
        let earlier = was.aggregate.take();
        was.aggregate = is.aggregate.map(|now| match earlier {
            Some(earlier) => Box::new(now.since(&earlier)),
            None => now,
        });
        RateSeen { interface: was.interface.clone(), expected: was.rate, seen: is.rate }
    });
    Ok(seen.collect())
}

/// The links of virtual adapters beside their model's rates.
fn model_rates(testbed: &Testbed, clients: usize) -> Vec<RateSeen> {
    // an aggregate has several ports on one interface
    let segments = testbed.topology.segments.iter();
    let aggregated = segments.filter(|segment| segment.aggregate.is_some());
    let ports = aggregated.map(|segment| segment.ports.len()).sum::<usize>();
    testbed.ground.rates(ports.max(testbed.sut_interfaces(clients).len()))
}

/// Every link must run at its model's rate before a run.
///
/// # Errors
/// The first link that does not.
pub fn link_rates(testbed: &Testbed, clients: usize) -> Result<(), RunFailure> {
    Ok(model_rates(testbed, clients).iter().try_for_each(RateSeen::check)?)
}

/// Every host's clock beside its offset from the controller's when the host was started.
fn clocks(testbed: &mut Testbed, clients: usize) -> Result<Vec<ClockSeen>, RunFailure> {
    let seen = participants(testbed, clients).map(|host| {
        let (now_ns, _) =
            read_clock(&mut host.connection).map_err(|error| failure(Stage::Measure, error))?;
        Ok(ClockSeen {
            host: host.name.clone(),
            moved_ns: now_ns.saturating_sub(host.clock_offset_ns),
        })
    });
    seen.collect()
}
