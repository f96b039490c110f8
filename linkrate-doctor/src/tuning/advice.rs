//! One piece of advice: the finding, its likely cost, and the command that changes it.

use serde::Serialize;

/// Whether a setting can be improved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tuning {
    /// The setting has a cost here, and the remedy has no known disadvantage.
    Improve,
    /// Another setting may be better; this depends on the use, or has a disadvantage.
    Consider,
    /// No better setting is known.
    Good,
    /// The setting cannot be read.
    Unseen,
}

impl Tuning {
    /// The word in text and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Improve => "improve",
            Self::Consider => "consider",
            Self::Good => "good",
            Self::Unseen => "unseen",
        }
    }
}

/// A value, and where it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The value as text: `rx 256 of 4096`.
    pub value: String,
    /// The file, or the command that prints the same.
    pub from: String,
}

/// What a cost is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Measured with linkrate, on virtual adapters or veth.
    Measured,
    /// A figure from one of the five papers.
    Published,
    /// A limit computed from the values that were read.
    Computed,
    /// No figure exists.
    Unknown,
}

/// The likely cost of a finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// What the figure is based on.
    pub basis: Basis,
    /// The share of throughput or CPU time that is likely lost, 0 to 1; `None` if unknown. It only
    /// sorts the findings.
    pub lost_share: Option<f64>,
    /// The cost as text.
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

    /// A cost without a figure; `text` describes the effect.
    pub(super) fn unknown(text: impl Into<String>) -> Self {
        Self { basis: Basis::Unknown, lost_share: None, text: text.into(), from: None }
    }
}

/// Source of the costs that were measured.
const RUNS: &str = "linkrate measure on veth, guide \"Tuning a host\"";

/// Costs of settings that were measured or published. docs/src/guide/tuning.md, "Sources of the costs", has
/// the runs; the studies print the figures of the papers beside their own.
impl Cost {
    /// TSO off and software GSO on: 0.427 against 0.248 µs/KB; the tso paper has 47 % for TSO off
    /// without GSO.
    pub(super) fn without_tso() -> Self {
        let text = "TSO saves about 42 % of the CPU time per byte sent (0.427 to 0.248 µs/KB, 10.5 to \
                    32.7 Gb/s); the tso paper reports 47 % compared with no segmentation offload";
        Self::known(Basis::Measured, 0.42, text, RUNS)
    }

    /// Neither TSO nor GSO: 1.50 against 0.427 µs/KB.
    pub(super) fn without_gso() -> Self {
        let text = "GSO saves about 72 % of the CPU time per byte sent (1.50 to 0.427 µs/KB, 5.15 to \
                    10.5 Gb/s)";
        Self::known(Basis::Measured, 0.72, text, RUNS)
    }

    /// GRO off: 0.585 against 0.454 µs/KB.
    pub(super) fn without_gro() -> Self {
        let text = "GRO saves about 22 % of the CPU time per byte received (0.585 to 0.454 µs/KB, 10.7 to \
                    12.8 Gb/s)";
        Self::known(Basis::Measured, 0.22, text, RUNS)
    }

    /// Transmit checksums in software: 0.534 against 0.424 µs/KB.
    pub(super) fn without_tx_checksum() -> Self {
        let text = "checksum offload saves about 21 % of the CPU time per byte sent (0.534 to 0.424 \
                    µs/KB), and TSO needs it";
        Self::known(Basis::Measured, 0.21, text, RUNS)
    }

    /// bbr instead of cubic over a fast path: 1.10 against 0.248 µs/KB with TSO.
    pub(super) fn pacing() -> Self {
        let text = "on a fast path without loss, cubic saves about 77 % of the CPU time per byte sent \
                    (1.10 to 0.248 µs/KB with TSO, 7.15 to 32.7 Gb/s); on long or lossy paths bbr may \
                    reach a higher rate";
        Self::known(Basis::Measured, 0.77, text, RUNS)
    }

    /// MTU 1500 instead of 9000, ten-gigabit paper: 1.35 to 0.86 and 2.20 to 1.21 µs/KB.
    pub(super) fn without_jumbo() -> Self {
        let text = "an MTU of 9000 saves 36 % of the CPU time per byte sent and 45 % per byte received \
                    (1.35 to 0.86 and 2.20 to 1.21 µs/KB)";
        Self::known(Basis::Published, 0.36, text, "the ten-gigabit paper, 2008")
    }

    /// A process on another CPU than the interrupts of its adapter, atm paper.
    pub(super) fn unbound() -> Self {
        let text = "a process bound to the CPU of its adapter's interrupts has about 20 % more \
                    throughput";
        Self::known(Basis::Published, 0.17, text, "the atm paper, tuning guidelines")
    }
}

/// One finding about one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The setting, one word that scripts may rely on.
    pub name: &'static str,
    /// The interface of the setting; `None` for a setting of the host.
    pub interface: Option<String>,
    /// Whether it can be improved.
    pub state: Tuning,
    /// The finding as text.
    pub detail: String,
    /// The values that the finding is based on.
    pub evidence: Vec<Evidence>,
    /// The likely cost; `None` if the state is good or unseen.
    pub cost: Option<Cost>,
    /// Commands for a root shell, in this order; they hold until the next boot.
    pub commands: Vec<String>,
    /// A remedy that is no command, or a condition for the commands.
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

    /// Sort key: state first, then cost in descending order; unknown costs come last in each state.
    pub(super) fn rank(&self) -> (Tuning, i64) {
        let share = self.cost.as_ref().and_then(|cost| cost.lost_share);
        (self.state, share.map_or(1, |share| -((share * 1e6) as i64)))
    }
}
