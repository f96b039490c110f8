//! The nodes that a job of Slurm has been given.

use std::process::{Command, Stdio};

use linkrate_protocol::cleaned;

use crate::error::LabError;

/// The number of the job, in the environment of all its processes.
const JOB: &str = "SLURM_JOB_ID";

/// Its nodes in Slurm's short form, `n[1-4,7]`.
const NODES: &str = "SLURM_JOB_NODELIST";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allocation {
    job: String,
    nodes: String,
}

impl Allocation {
    /// The job that this process belongs to: that of `salloc` or `sbatch`. `None` outside of a job.
    pub(super) fn of_this_process() -> Option<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let filled = |name| variable(name).filter(|value| !value.is_empty());
        Some(Self { job: filled(JOB)?, nodes: filled(NODES)? })
    }

    /// The names of the nodes, each once, in Slurm's order. Fails when `scontrol` is missing, or does not understand
    /// the list.
    pub(super) fn names(&self) -> Result<Vec<String>, LabError> {
        let mut scontrol = Command::new("scontrol");
        scontrol.args(["show", "hostnames", &self.nodes]).stdin(Stdio::null());
        let cannot = |what: String, hint: &str| LabError::CannotMeasure {
            what: format!("the nodes of job {} ({NODES}={:?}): {what}", self.job, self.nodes),
            hint: Some(hint.to_owned()),
        };
        let output = scontrol.output().map_err(|error| {
            cannot(format!("scontrol: {error}"), "install the package slurm-client")
        })?;
        let names: Vec<String> =
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        if output.status.success() && !names.is_empty() {
            return Ok(names);
        }
        let said = cleaned(String::from_utf8_lossy(&output.stderr).trim());
        let what = format!("scontrol names none ({}): {said}", output.status);
        Err(cannot(what, "run inside of a job: salloc, or sbatch"))
    }

    /// Checks that `node` is one of its nodes.
    pub(super) fn expect(&self, node: &str) -> Result<(), LabError> {
        let names = self.names()?;
        if names.iter().any(|name| name == node) {
            return Ok(());
        }
        Err(outside(node, &self.job, &self.nodes))
    }
}

fn outside(node: &str, job: &str, nodes: &str) -> LabError {
    LabError::Invalid {
        what: format!("slurm:{node} is not a node of job {job}, which has {nodes}"),
        hint: "name one of its nodes, or allocate this one too with --nodelist of salloc or sbatch"
            .to_owned(),
    }
}

/// There is no job.
pub(super) fn missing(subject: &str, hint: &str) -> LabError {
    LabError::Invalid {
        what: format!("{subject} needs a job of Slurm, and {JOB} is not set"),
        hint: hint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_known_by_its_number_and_its_nodes() {
        let of = |variables: &[(&str, &str)]| {
            Allocation::from_variables(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let job = of(&[(JOB, "12"), (NODES, "n[1-4]")]).unwrap();
        assert_eq!((job.job.as_str(), job.nodes.as_str()), ("12", "n[1-4]"));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(JOB, "12")]), None);
        assert_eq!(of(&[(JOB, ""), (NODES, "n1")]), None);
    }

    #[test]
    fn other_nodes_are_named_with_those_of_the_job() {
        let error = outside("n9", "12", "n[1-4]");
        assert_eq!(error.to_string(), "slurm:n9 is not a node of job 12, which has n[1-4]");
        assert!(error.hint().is_some());
    }
}
