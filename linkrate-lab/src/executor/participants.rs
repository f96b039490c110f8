//! The hosts of a run, and what the failure of one of them means for it.

use linkrate_study::executor::{RunFailure, Stage};

use crate::connection::AgentError;
use crate::error::LabError;
use crate::testbed::{Host, Testbed};

/// The failure of a run at `stage`, unless the error says that an agent is lost or the user
/// interrupted.
pub(crate) fn failure(stage: Stage, error: impl Into<LabError>) -> RunFailure {
    match error.into() {
        LabError::Agent(error) => agent_failure(stage, error),
        error => {
            let hint = error.hint().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
            RunFailure::at(stage, format!("{error}{hint}"))
        }
    }
}

fn agent_failure(stage: Stage, error: AgentError) -> RunFailure {
    let stage = match error {
        AgentError::Interrupted => Stage::Interrupted,
        AgentError::Lost { .. } => Stage::Agent,
        AgentError::Refused(_) => stage,
    };
    let reason = match &error {
        AgentError::Refused(rejection) => match &rejection.hint {
            Some(hint) => format!("{rejection} (hint: {hint})"),
            None => rejection.to_string(),
        },
        _ => error.to_string(),
    };
    RunFailure::at(stage, reason)
}

/// The hosts of a run, the system under test first.
pub(crate) fn participants(
    testbed: &mut Testbed,
    clients: usize,
) -> impl Iterator<Item = &mut Host> {
    let clients = testbed.clients.iter_mut().take(clients).map(|client| &mut client.host);
    std::iter::once(&mut testbed.sut).chain(clients)
}
