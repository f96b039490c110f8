//! What a client knows of a station: its ATM address, and the path of frames to it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::atm::AtmAddress;
use crate::machine::call::Call;
use crate::machine::lane::{Bucket, Times};

/// Most stations.
pub(super) const MAX_DESTINATIONS: usize = 1024;
/// Most frames that wait for their station, and for all.
pub(super) const MAX_HELD: usize = 64;
pub(super) const MAX_HELD_TOTAL: usize = 1024;
/// How long a frame waits at most. A path is empty sooner.
const MAX_HOLD_TIME: Duration = Duration::from_secs(8);
/// How long a client that has refused a call is not called again.
pub(super) const HELD_DOWN: Duration = Duration::from_secs(5);
/// How long before an entry expires it is verified, if it is in use.
const VERIFIED_AHEAD: Duration = Duration::from_secs(10);

/// The way of frames to a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// Through the BUS, to all clients.
    Bus,
    /// By a data-direct connection.
    Direct(Call),
}

/// A question for the ATM address of a station.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    pub(super) transaction: u32,
    pub(super) again: Duration,
}

/// What is known of the ATM address.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    Unknown,
    Asked(Asking),
    Known {
        atm: AtmAddress,
        /// A proxy has answered.
        is_remote: bool,
        /// When it was told or verified last.
        verified: Duration,
        expires: Duration,
        /// It is being verified.
        asking: Option<Asking>,
    },
}

/// A change of paths: the old one is being proved empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switching {
    pub(super) transaction: u32,
    /// When the proof is to be asked for again.
    pub(super) again: Duration,
}

/// A station.
#[derive(Debug, Clone)]
pub(super) struct Destination<U> {
    pub(super) target: Target,
    pub(super) path: Path,
    /// When the last frame left by the path; `None` where the path is known to be empty.
    pub(super) sent: Option<Duration>,
    /// Frames were sent since the address was told.
    pub(super) is_used: bool,
    pub(super) switching: Option<Switching>,
    /// Frames that wait, and since when.
    pub(super) held: VecDeque<(Duration, U)>,
    /// Frames through the BUS.
    pub(super) unknown: Bucket,
    /// The client is not called before this time.
    pub(super) call_again: Duration,
}

impl<U> Destination<U> {
    pub(super) fn new(times: &Times) -> Self {
        Self {
            target: Target::Unknown,
            path: Path::Bus,
            sent: None,
            is_used: false,
            switching: None,
            held: VecDeque::new(),
            unknown: Bucket::new(times.unknown_frames, times.unknown),
            call_again: Duration::ZERO,
        }
    }

    pub(super) const fn atm(&self) -> Option<AtmAddress> {
        match self.target {
            Target::Known { atm, .. } => Some(atm),
            _ => None,
        }
    }

    /// When its entry is to be verified.
    pub(super) fn verify_at(&self, times: &Times) -> Option<Duration> {
        let Target::Known { is_remote, expires, asking: None, .. } = self.target else {
            return None;
        };
        let age = if is_remote { times.ageing.min(times.forward_delay) } else { times.ageing };
        self.is_used.then(|| expires.saturating_sub(VERIFIED_AHEAD.min(age / 2)))
    }

    /// A frame can follow the one before without a look at anything else.
    pub(super) fn is_steady(&self, now: Duration) -> bool {
        let is_fresh = match self.target {
            // one that is verified soon is not
            Target::Known { expires, asking, .. } => {
                asking.is_some() && now < expires || now + VERIFIED_AHEAD < expires
            }
            _ => false,
        };
        is_fresh && self.is_used && self.held.is_empty() && self.switching.is_none()
    }

    /// When it is empty and forgotten.
    pub(super) fn gone_at(&self, times: &Times) -> Option<Duration> {
        let is_idle = self.held.is_empty() && self.switching.is_none();
        let Target::Unknown = self.target else { return None };
        let quiet = times.path_switching.max(times.unknown);
        is_idle.then(|| self.sent.map_or(Duration::ZERO, |sent| sent + quiet))
    }

    /// Whether the path is empty without proof.
    pub(super) fn is_quiet(&self, now: Duration, times: &Times) -> bool {
        self.sent.is_none_or(|sent| sent + times.path_switching <= now)
    }

    /// When its oldest frame has waited too long.
    pub(super) fn stale_at(&self) -> Option<Duration> {
        self.held.front().map(|(since, _)| *since + MAX_HOLD_TIME)
    }

    /// When it has something to do.
    pub(super) fn due(&self, times: &Times) -> Option<Duration> {
        let target = match self.target {
            Target::Unknown => None,
            Target::Asked(asking) => Some(asking.again),
            Target::Known { expires, asking: Some(asking), .. } => Some(expires.min(asking.again)),
            Target::Known { expires, .. } => Some(self.verify_at(times).unwrap_or(expires)),
        };
        let path = match (self.switching, self.path) {
            (Some(switching), _) => {
                let quiet = self.sent.map(|sent| sent + times.path_switching);
                Some(quiet.map_or(switching.again, |quiet| quiet.min(switching.again)))
            }
            (None, Path::Bus) if !self.held.is_empty() => Some(self.unknown.free()),
            _ => None,
        };
        let all = [target, path, self.stale_at(), self.gone_at(times)];
        all.into_iter().flatten().min()
    }
}
