//! The links of existing interfaces.

use serde::{Deserialize, Serialize};

use crate::BitRate;
use crate::existing_aggregate::ExistingAggregate;

/// The link of an existing interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkEvidence {
    /// The interface.
    pub interface: String,
    /// Its rate; absent where it has none of its own, as a veth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// The bond or team that it is, with what its members counted from before the run until after
    /// it; absent for other interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Box<ExistingAggregate>>,
}
