//! The nodes of a fleet that continues: those of a list or of an allocation, in place of those that are not
//! there.

use std::path::Path;

use linkrate_lab::peer;
use linkrate_study::fleet::Fleet;
use linkrate_study::fleet::places::Candidate;
use linkrate_sys::stderr;

use crate::args::fleet::listed;
use crate::exit::{Exit, Failure};

/// The fleet with other nodes at some places from run `next_run` on; `None` if nothing changes.
pub fn moved(
    fleet: Option<&Fleet>,
    list: Option<&Path>,
    next_run: u32,
) -> Result<Option<Fleet>, Failure> {
    let Some(fleet) = fleet else {
        return match list {
            None => Ok(None),
            Some(_) => Err(Failure::new(
                Exit::Usage,
                "--fleet: this is not the study of a fleet".to_owned(),
            )),
        };
    };
    let present = match list {
        Some(list) => Some(listed(list)?.into_iter().map(Candidate::Listed).collect()),
        None if peer::is_in_allocation() => fleet.present_in(&peer::allocated_nodes()?),
        None => None,
    };
    let Some(present) = present else { return Ok(None) };
    let refused = |reason| Failure::new(Exit::Usage, format!("the nodes of the fleet: {reason}"));
    let (moved, changes) = fleet.moved(&present, next_run).map_err(refused)?;
    for change in changes {
        stderr::note(change);
    }
    Ok(moved)
}
