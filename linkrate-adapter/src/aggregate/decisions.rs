//! The decisions of one end of an aggregate, with their times: when it learned that a port failed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use linkrate_sys::clock::monotonic_ns;

/// The most decisions that are kept. Of more, the oldest go.
const MAX_KEPT: usize = 1024;

/// Which ports of an aggregate carried traffic from a moment on, as one end decided. Ports are numbers
/// within the aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// When, CLOCK_MONOTONIC in ns.
    pub at_ns: u64,
    /// The ports that it is about: those on one of two switches. `None` for all.
    about: Option<Arc<[usize]>>,
    /// The ports that frames were taken from, ascending.
    pub collecting: Vec<usize>,
    /// The ports that frames went to, ascending.
    pub distributing: Vec<usize>,
}

impl Decision {
    /// Whether it says that no frames went to this port.
    #[must_use]
    pub fn leaves_out(&self, port: usize) -> bool {
        let is_about = self.about.as_ref().is_none_or(|ports| ports.contains(&port));
        is_about && !self.distributing.contains(&port)
    }
}

/// The latest decisions of one end, or of two switches at one end. Copies are the same log.
#[derive(Debug, Clone, Default)]
pub struct DecisionLog {
    kept: Arc<Mutex<VecDeque<Decision>>>,
    /// The ports that the one who writes decides about; `None` if it decides about all.
    about: Option<Arc<[usize]>>,
}

impl DecisionLog {
    /// The same log for one who decides about these ports alone.
    pub(crate) fn about(&self, ports: impl IntoIterator<Item = usize>) -> Self {
        Self { kept: Arc::clone(&self.kept), about: Some(ports.into_iter().collect()) }
    }

    /// Adds the decision of this moment.
    pub(crate) fn add(&self, collecting: &[usize], distributing: &[usize]) {
        let decision = Decision {
            at_ns: monotonic_ns(),
            about: self.about.clone(),
            collecting: collecting.to_vec(),
            distributing: distributing.to_vec(),
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(decision);
    }

    /// The decisions since `from_ns`, in their order.
    #[must_use]
    pub fn since(&self, from_ns: u64) -> Vec<Decision> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().filter(|decision| decision.at_ns >= from_ns).cloned().collect()
    }
}

/// Two logs are equal if they are the same one.
impl PartialEq for DecisionLog {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.kept, &other.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_decisions_are_kept_with_their_times() {
        let log = DecisionLog::default();
        let before = monotonic_ns();
        for port in 0..MAX_KEPT + 5 {
            log.clone().add(&[port], &[]);
        }
        let kept = log.since(before);
        assert_eq!((kept.len(), kept[0].collecting[0]), (MAX_KEPT, 5));
        assert!(kept.is_sorted_by_key(|decision| decision.at_ns));
        assert!(log.since(monotonic_ns() + 1).is_empty());
        assert_ne!(log, DecisionLog::default());
    }

    #[test]
    fn a_decision_about_a_part_of_the_ports_leaves_out_none_of_the_others() {
        let log = DecisionLog::default();
        log.about([5, 3]).add(&[3, 5], &[5]);
        let [decision] = &log.since(0)[..] else { panic!("one decision") };
        assert_eq!((&decision.collecting[..], &decision.distributing[..]), (&[3, 5][..], &[5][..]));
        let left_out = (0..7).filter(|port| decision.leaves_out(*port)).collect::<Vec<_>>();
        assert_eq!(left_out, [3], "the others are no part of it");
    }
}
