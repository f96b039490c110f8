//! One piece of advice: what was seen, what it likely costs, and the command that changes it.

use serde::Serialize;

/// How something is tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tuning {
    /// It costs something here, and the remedy has no price that is known.
    Improve,
    /// It may be better otherwise: that depends on the use, or has a price.
    Consider,
    /// Nothing to gain is known.
    Good,
    /// It cannot be seen from here.
    Unseen,
}

impl Tuning {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Improve => "improve",
            Self::Consider => "consider",
            Self::Good => "good",
            Self::Unseen => "unseen",
        }
    }
}

/// A value that was read, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// What was read, for people: `rx 256 of 4096`.
    pub value: String,
    /// The file, or the command that shows the same.
    pub from: String,
}

/// What a cost is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Measured with linkrate, on virtual adapters or veth.
    Measured,
    /// A figure of one of the five papers.
    Published,
    /// A limit that follows from the values read.
    Computed,
    /// Nobody has measured it here.
    Unknown,
}

/// What a finding likely costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// What the figure is known by.
    pub basis: Basis,
    /// The share of throughput or CPU time that is likely lost, 0 to 1, by which findings are
    /// ordered; `None` where it is not known.
    pub lost_share: Option<f64>,
    /// The cost in words.
    pub text: String,
    /// The study, paper or limit that the figure comes from.
    pub from: Option<String>,
}

impl Cost {
    /// A figure from `from`.
    pub(super) fn known(
        basis: Basis,
        lost_share: f64,
        text: impl Into<String>,
        from: impl Into<String>,
    ) -> Self {
        let lost_share = Some(lost_share.clamp(0.0, 1.0));
        Self { basis, lost_share, text: text.into(), from: Some(from.into()) }
    }

    /// No figure; `text` says what it does.
    pub(super) fn unknown(text: impl Into<String>) -> Self {
        Self { basis: Basis::Unknown, lost_share: None, text: text.into(), from: None }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// What was looked at, one word that scripts may rely on.
    pub name: &'static str,
    /// The interface it is about; `None` for the whole host.
    pub interface: Option<String>,
    /// How it is tuned.
    pub state: Tuning,
    /// What was seen.
    pub detail: String,
    /// The values it rests on.
    pub evidence: Vec<Evidence>,
    /// What it likely costs; there unless it is good or unseen.
    pub cost: Option<Cost>,
    /// Commands for a shell of root that change it, in this order, until the next boot.
    pub commands: Vec<String>,
    /// What no command can do, or what to know before running them.
    pub note: Option<String>,
}

impl Advice {
    fn new(name: &'static str, state: Tuning, detail: impl Into<String>) -> Self {
        Self {
            name,
            interface: None,
            state,
            detail: detail.into(),
            evidence: Vec::new(),
            cost: None,
            commands: Vec::new(),
            note: None,
        }
    }

    pub(super) fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Tuning::Good, detail)
    }

    pub(super) fn unseen(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Tuning::Unseen, detail)
    }

    pub(super) fn improve(name: &'static str, detail: impl Into<String>, cost: Cost) -> Self {
        Self { cost: Some(cost), ..Self::new(name, Tuning::Improve, detail) }
    }

    pub(super) fn consider(name: &'static str, detail: impl Into<String>, cost: Cost) -> Self {
        Self { cost: Some(cost), ..Self::new(name, Tuning::Consider, detail) }
    }

    pub(super) fn on(mut self, interface: &str) -> Self {
        self.interface = Some(interface.to_owned());
        self
    }

    pub(super) fn seen(mut self, value: impl Into<String>, from: impl Into<String>) -> Self {
        self.evidence.push(Evidence { value: value.into(), from: from.into() });
        self
    }

    pub(super) fn run(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }

    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// By likely gain: what is to be improved first, the dearest first in each state, and what has
    /// no figure after what has one.
    pub(super) fn rank(&self) -> (Tuning, i64) {
        let share = self.cost.as_ref().and_then(|cost| cost.lost_share);
        (self.state, share.map_or(1, |share| -((share * 1e6) as i64)))
    }
}
