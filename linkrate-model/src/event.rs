//! An event inside the measurement of a run: a part of the network fails at a known moment, and may
//! recover.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What fails. "Transmit" and "receive" are as the system under test sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The link of the port loses its carrier, at both of its ends.
    Carrier,
    /// The link of the port loses every frame, both ways, and keeps its carrier.
    Silent,
    /// The same for the frames that the port sends only.
    SilentTransmit,
    /// The same for the frames to the port only.
    SilentReceive,
    /// One of two switches loses every frame of all its ports, and the ports keep their carriers.
    Switch,
    /// A port leaves the aggregate in good order, as by `adapter remove`.
    Removed,
}

impl Fault {
    /// All, in the order of their help.
    pub const ALL: [Self; 6] = [
        Self::Carrier,
        Self::Silent,
        Self::SilentTransmit,
        Self::SilentReceive,
        Self::Switch,
        Self::Removed,
    ];

    /// The word for it, as study files and options have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Carrier => "carrier",
            Self::Silent => "silent",
            Self::SilentTransmit => "silent-transmit",
            Self::SilentReceive => "silent-receive",
            Self::Switch => "switch",
            Self::Removed => "removed",
        }
    }

    /// What happened, as a phrase of a sentence or a drawing.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Carrier => "carrier lost",
            Self::Silent => "silent loss both ways",
            Self::SilentTransmit => "silent loss, transmit",
            Self::SilentReceive => "silent loss, receive",
            Self::Switch => "switch dead",
            Self::Removed => "port removed",
        }
    }
}

/// A fault with its moments, counted from the beginning of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Event {
    /// What fails.
    pub fault: Fault,
    /// When it fails.
    pub at: Duration,
    /// When it recovers; `None` for not within the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recover: Option<Duration>,
}

/// The least time between the beginning of the measurement, the fault, the recovery, and the closing of the
/// measurement: shorter parts have no rate worth the name.
pub const MIN_PART: Duration = Duration::from_millis(50);

/// An event that does not fit the measurement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{moment} {value:?} is not inside the measurement; expected from {from:?} to {to:?}")]
pub struct OutsideMeasurement {
    /// The key: `event-at` or `event-recover`.
    pub moment: &'static str,
    value: Duration,
    from: Duration,
    to: Duration,
}

impl Event {
    /// Checks that its moments are inside the measurement, in their order and apart; tells the first that is not.
    pub fn check(&self, interval: Duration) -> Result<(), OutsideMeasurement> {
        let to = interval.saturating_sub(MIN_PART);
        let check = |moment, value: Duration, from: Duration| {
            let inside = value >= from && value <= to;
            inside.then_some(()).ok_or(OutsideMeasurement { moment, value, from, to })
        };
        check("event-at", self.at, MIN_PART)?;
        match self.recover {
            Some(recover) => check("event-recover", recover, self.at.saturating_add(MIN_PART)),
            None => Ok(()),
        }
    }

    /// The same event at the same parts of a measurement of another length.
    #[must_use]
    pub fn rescaled(self, from: Duration, to: Duration) -> Self {
        let share = to.as_secs_f64() / from.as_secs_f64().max(1e-9);
        let moved = |moment: Duration| {
            // whole microseconds, as people write them
            Duration::from_micros((moment.as_secs_f64() * share * 1e6).round() as u64)
        };
        Self { fault: self.fault, at: moved(self.at), recover: self.recover.map(moved) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: u64, recover: Option<u64>) -> Event {
        let ms = Duration::from_millis;
        Event { fault: Fault::Carrier, at: ms(at), recover: recover.map(ms) }
    }

    #[test]
    fn moments_are_inside_the_interval_and_in_order() {
        let interval = Duration::from_secs(1);
        assert_eq!(event(300, Some(600)).check(interval), Ok(()));
        assert_eq!(event(300, None).check(interval), Ok(()));
        let refused = |event: Event| event.check(interval).unwrap_err().to_string();
        assert_eq!(
            refused(event(1000, None)),
            "event-at 1s is not inside the measurement; expected from 50ms to 950ms"
        );
        assert!(refused(event(0, None)).starts_with("event-at 0ns"));
        assert_eq!(
            refused(event(300, Some(320))),
            "event-recover 320ms is not inside the measurement; expected from 350ms to 950ms"
        );
    }

    #[test]
    fn another_interval_has_the_event_at_the_same_part() {
        let (four, one) = (Duration::from_secs(4), Duration::from_secs(1));
        assert_eq!(event(1000, Some(3000)).rescaled(four, one), event(250, Some(750)));
    }

    #[test]
    fn every_fault_has_a_word_of_its_own_that_stored_plans_use_too() {
        for fault in Fault::ALL {
            let stored = serde_json::to_string(&fault).unwrap();
            assert_eq!(stored, format!("{:?}", fault.word()));
            assert_eq!(Fault::ALL.iter().filter(|other| other.word() == fault.word()).count(), 1);
        }
    }
}
