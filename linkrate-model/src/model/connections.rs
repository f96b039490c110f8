//! How the connections of an ATM port come about.

use serde::{Deserialize, Serialize};

/// The connections of a port with Classical IP. A port keeps them from its making to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// One to each other end of the segment, which tell each other their addresses (InATMARP).
    #[default]
    Permanent,
    /// Calls to the end systems that packets are for. An ATMARP server in the switch knows them.
    Switched,
}

impl Connections {
    /// The word for them in a model.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Switched => "switched",
        }
    }

    /// Whether they are calls.
    #[must_use]
    pub const fn is_switched(self) -> bool {
        matches!(self, Self::Switched)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn is_permanent(&self) -> bool {
        !self.is_switched()
    }
}
