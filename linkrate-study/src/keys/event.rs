//! The event of a cell: what fails inside the measurement, and whether the testbed can do it.

use std::time::Duration;

use linkrate_model::event::{Event, Fault};
use linkrate_model::knobs::AggregateMode;
use linkrate_model::spec::Adapter;
use linkrate_model::{Family, ReceivePath, SendPath, TestbedSpec};

use super::Setup;
use super::refusal::{Combination, refuse};

/// The part of the measurement before an event whose moment is not named.
const BEFORE: u32 = 4;

/// An event as a user asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventRequest {
    /// What fails; `None` for nothing.
    pub fault: Option<Fault>,
    /// When; a quarter of the measurement if `None`.
    pub at: Option<Duration>,
    /// When it recovers; not within the measurement if `None`.
    pub recover: Option<Duration>,
}

impl EventRequest {
    /// The event in a measurement of that length.
    #[must_use]
    pub fn of_measurement(&self, interval: Duration) -> Option<Event> {
        let at = self.at.unwrap_or(interval / BEFORE);
        Some(Event { fault: self.fault?, at, recover: self.recover })
    }

    /// Checks the moments against the measurement.
    pub fn check(&self, interval: Duration) -> Result<(), Combination> {
        let checked = self.of_measurement(interval).map_or(Ok(()), |event| event.check(interval));
        checked.map_err(|outside| Combination {
            key: outside.moment,
            other: "event",
            sentence: format!("{outside}; move it, or lengthen the run"),
        })
    }
}

impl From<Event> for EventRequest {
    fn from(Event { fault, at, recover }: Event) -> Self {
        Self { fault: Some(fault), at: Some(at), recover }
    }
}

/// Refuses an event that the testbed cannot cause, or whose run could not prove that every byte
/// arrived.
pub(super) fn check(setup: &Setup, testbed: &TestbedSpec) -> Result<(), Combination> {
    let Some(fault) = setup.event.fault else { return Ok(()) };
    let Setup { workload, socket, interface, .. } = setup;
    let kind = format!(
        "cannot be combined with kind {}; every byte of a TCP stream is followed, so use kind stream",
        super::kind_name(workload.kind)
    );
    let ports = interface.aggregate.aggregate.unwrap_or(0);
    let removed = format!(
        "takes one of the ports of an aggregate away, and there are {ports}; set aggregate to at least 2"
    );
    let of_switch = fault == Fault::Switch;
    let by_lacp = interface.aggregate.mode == Some(AggregateMode::Lacp);
    let causes = [
        (
            !matches!(testbed.adapter, Adapter::Model(_)),
            "adapter",
            "needs virtual adapters, whose links linkrate makes; set adapter to a model such as \
             \"gigabit\"",
        ),
        (!super::is_used("event", workload.kind), "kind", &kind),
        (
            workload.send_path != SendPath::Plain,
            "send-path",
            "needs send-path plain: the payload changes from byte to byte, so that the receiver can \
             verify it",
        ),
        (
            workload.receive_path != ReceivePath::Plain,
            "receive-path",
            "needs receive-path plain: the receiver looks at every byte, and MSG_TRUNC discards them",
        ),
        (
            socket.family != Family::Ipv4,
            "family",
            "needs family ipv4: frames of IPv6 have no identification that tells their order; set \
             family ipv4",
        ),
        (
            workload.working_set.is_some(),
            "working-set",
            "cannot be combined with working-set: the payload is a pattern of 1 MiB, so that every \
             byte can be verified; set working-set auto",
        ),
        (
            of_switch && testbed.switches < 2,
            "testbed",
            "needs two switches, and the topology has one at most; its failure would leave no path \
             to the clients, so set switches to 2",
        ),
        (
            of_switch && testbed.spread_clients,
            "testbed",
            "needs all clients on the switch that does not fail; clients on the other one could \
             not reach the system under test, so leave spread-clients out",
        ),
        (
            of_switch && by_lacp,
            "mode",
            "cannot be combined with mode lacp; each switch is a partner of its own, the aggregate \
             uses the ports of the partner that it agreed with first, and no run could tell which \
             switch that is, so use mode failover",
        ),
        (fault == Fault::Removed && ports < 2, "aggregate", &removed),
    ];
    match causes.into_iter().find(|(applies, ..)| *applies) {
        Some((_, other, why)) => refuse("event", other, format!("event {} {why}", fault.word())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use linkrate_model::Protocol;
    use proptest::prelude::*;

    use super::*;
    use crate::keys::{self, apply};
    use crate::levels::Level;

    fn on_model(aggregate: u32) -> TestbedSpec {
        let model = linkrate_model::model::find("gigabit").unwrap();
        TestbedSpec {
            adapter: Adapter::Model(Box::new(model)),
            aggregate,
            ..TestbedSpec::default()
        }
    }

    fn asked(fault: Fault) -> Setup {
        let event = EventRequest { fault: Some(fault), ..EventRequest::default() };
        Setup { event, ..Setup::default() }
    }

    fn refused(setup: &Setup, testbed: &TestbedSpec) -> String {
        check(setup, testbed).unwrap_err().sentence
    }

    #[test]
    fn an_event_that_the_testbed_cannot_cause_is_refused_with_the_remedy() {
        let model = on_model(0);
        assert_eq!(check(&asked(Fault::Carrier), &model), Ok(()));
        assert!(refused(&asked(Fault::Carrier), &TestbedSpec::default()).contains("gigabit"));
        assert!(refused(&asked(Fault::Switch), &model).contains("needs two switches"));
        let two = TestbedSpec { switches: 2, ..on_model(2) };
        assert_eq!(check(&asked(Fault::Switch), &two), Ok(()));
        let mut lacp = asked(Fault::Switch);
        lacp.interface.aggregate.mode = Some(AggregateMode::Lacp);
        assert!(refused(&lacp, &two).contains("a partner of its own"));
        lacp.event.fault = Some(Fault::Carrier);
        assert_eq!(check(&lacp, &two), Ok(()));
        let spread = TestbedSpec { spread_clients: true, ..two };
        assert!(refused(&asked(Fault::Switch), &spread).contains("spread-clients"));
        assert!(refused(&asked(Fault::Removed), &model).contains("aggregate to at least 2"));
        let mut setup = asked(Fault::Silent);
        setup.workload.send_path = SendPath::Splice;
        assert!(refused(&setup, &model).contains("send-path plain"));
        setup = asked(Fault::Silent);
        setup.workload.receive_path = ReceivePath::Truncate;
        assert!(refused(&setup, &model).contains("receive-path plain"));
        setup = asked(Fault::Silent);
        setup.workload.kind = Protocol::RequestResponse;
        assert!(refused(&setup, &model).contains("kind stream"));
        setup = asked(Fault::Silent);
        setup.socket.family = Family::Ipv6;
        assert!(refused(&setup, &model).contains("set family ipv4"));
        setup.event.fault = None;
        assert_eq!(check(&setup, &model), Ok(()));
    }

    #[test]
    fn an_event_without_a_moment_is_at_a_quarter_of_the_interval() {
        let interval = Duration::from_secs(2);
        let event = asked(Fault::Carrier).event.of_measurement(interval).unwrap();
        assert_eq!((event.at, event.recover), (Duration::from_millis(500), None));
        assert_eq!(EventRequest::default().of_measurement(interval), None);
    }

    proptest! {
        #[test]
        fn any_moments_are_inside_the_interval_or_refused(
            at in ".{0,12}", recover in "([0-9]{1,6} ?(ms|s|us)|never|.{0,8})", interval in 100_u64..10_000,
        ) {
            let mut setup = asked(Fault::Carrier);
            for (key, text) in [("event-at", at), ("event-recover", recover)] {
                let before = setup.clone();
                if apply(&mut setup, key, &Level::Text(text)).is_err() {
                    prop_assert_eq!(&setup, &before);
                }
            }
            let interval = Duration::from_millis(interval);
            if setup.event.check(interval).is_ok() {
                let event = setup.event.of_measurement(interval).unwrap();
                prop_assert!(event.at < interval);
                prop_assert!(event.recover.is_none_or(|recover| event.at < recover && recover < interval));
            }
        }

        #[test]
        fn every_moment_in_milliseconds_is_read(ms in 50_u64..3_600_000) {
            let mut setup = Setup::default();
            apply(&mut setup, "event-at", &Level::Text(format!("{ms} ms"))).unwrap();
            prop_assert_eq!(setup.event.at, Some(Duration::from_millis(ms)));
        }
    }

    #[test]
    fn words_of_faults_are_those_of_the_key() {
        let words = keys::find("event").unwrap().values.words();
        let faults: Vec<&str> = Fault::ALL.iter().map(|fault| fault.word()).collect();
        assert_eq!(words[0], "none");
        assert_eq!(words[1..], faults);
    }
}
