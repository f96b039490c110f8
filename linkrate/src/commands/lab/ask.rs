//! Requests to a lab that several commands make.

use linkrate_lab::control::client::{ControlError, LabClient};
use linkrate_lab::control::messages::{Reply, Request};
use linkrate_model::lab::LabReport;

/// The report of a lab about its hosts.
pub fn report(lab: &LabClient) -> Result<LabReport, ControlError> {
    match lab.ask(Request::Lab)? {
        Reply::Lab(report) => Ok(report),
        _ => Err(lab.unexpected()),
    }
}
