//! The way to a node of a cluster through a step of Slurm.
//!
//! `srun` only carries the protocol: the allocation decides which nodes there are and for how long. The
//! step ends with the job, with `srun`, and with the controller, whose end is the end of its input.

mod allocation;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use linkrate_model::shell;

use super::remote::Transport;
use crate::error::LabError;
use crate::options::LabOptions;

use allocation::Allocation;

/// What every step is: one task on one node, whose standard input and output are passed on as they
/// are. The agent undoes a binding to CPUs itself.
const STEP: [&str; 4] = ["--nodes=1", "--ntasks=1", "--unbuffered", "--mpi=none"];

/// A step beside the one that the controller itself may be.
const OVERLAP: &str = "--overlap";

/// A job waits this long for its node, unless the user says otherwise. A longer queue is for `sbatch`.
const IN_QUEUE: &str = "--immediate=60";

/// Time until a step answers, within an allocation: its start and the prologue of the node.
const STARTS: Duration = Duration::from_secs(30);

/// The same of a job of its own, which waits [`IN_QUEUE`] and has a prologue too.
const STARTS_IN_QUEUE: Duration = Duration::from_secs(90);

/// Exit code of `srun` when there is no step, srun(1). Other codes are those of the task.
const SRUN_FAILED: i32 = 1;

/// Options of an allocation that `srun` takes for its own from the environment, and that put text
/// between the messages, send them elsewhere, or contradict [`STEP`].
const UNWANTED: [&str; 7] = [
    "SLURM_EXACT",
    "SLURM_LABELIO",
    "SLURM_MULTI_PROG",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_STDERRMODE",
    "SLURM_STDINMODE",
    "SLURM_STDOUTMODE",
];

/// The remedies without an allocation.
const NO_JOB: &str = "run inside of salloc or sbatch, or give options for a job of its own, for example \
                      --slurm-options \"--time=10\"";

/// Whether this process belongs to an allocation.
pub fn is_in_allocation() -> bool {
    Allocation::of_this_process().is_some()
}

/// The names of the nodes of the allocation that this process belongs to, in Slurm's order. Fails where there is no
/// allocation, or `scontrol` does not report its nodes.
pub fn allocated_nodes() -> Result<Vec<String>, LabError> {
    const HINT: &str = "run inside of salloc or sbatch, or name a list of nodes: --fleet hosts.txt";
    let allocation = Allocation::of_this_process();
    allocation.ok_or_else(|| allocation::missing("--fleet slurm", HINT))?.names()
}

/// A node that `srun` reaches.
#[derive(Debug)]
pub(crate) struct Slurm<'a> {
    node: &'a str,
    /// Options of the user for `srun`.
    options: &'a [String],
    in_allocation: bool,
}

impl<'a> Slurm<'a> {
    /// The way to `node`: within the allocation that this process belongs to, or by a job of its own
    /// with the options of the user. Fails when the node is not in the allocation, or there is neither an allocation
    /// nor an option.
    pub(crate) fn find(node: &'a str, options: &'a LabOptions) -> Result<Self, LabError> {
        let own = options.slurm_options.as_deref();
        match Allocation::of_this_process() {
            Some(allocation) => {
                allocation.expect(node)?;
                Ok(Self::in_allocation(node, own.unwrap_or_default()))
            }
            None => match own {
                Some(options) => Ok(Self { node, options, in_allocation: false }),
                None => Err(allocation::missing(&format!("slurm:{node}"), NO_JOB)),
            },
        }
    }

    /// The way to a node of the allocation.
    pub(super) fn in_allocation(node: &'a str, options: &'a [String]) -> Self {
        Self { node, options, in_allocation: true }
    }

    /// The options of `srun`. Those of the user come before those that the protocol needs.
    fn all_options(&self) -> Vec<String> {
        let first = if self.in_allocation { OVERLAP } else { IN_QUEUE };
        let mut all = vec![first.to_owned()];
        all.extend_from_slice(self.options);
        all.extend(STEP.map(str::to_owned));
        all.push(format!("--nodelist={}", self.node));
        all
    }
}

impl Transport for Slurm<'_> {
    fn carrier(&self) -> &'static str {
        "srun"
    }

    fn package(&self) -> Option<&'static str> {
        Some("slurm-client")
    }

    fn arguments(&self, command: &str) -> Vec<OsString> {
        let mut all = self.all_options();
        all.extend(["/bin/sh", "-c", command].map(str::to_owned));
        all.into_iter().map(OsString::from).collect()
    }

    fn unwanted(&self) -> &'static [&'static str] {
        &UNWANTED
    }

    fn timeout(&self) -> Duration {
        if self.in_allocation { STARTS } else { STARTS_IN_QUEUE }
    }

    /// Nodes of a cluster share file systems: this program is likely to be there at the same path.
    fn usual_program<'a>(&self, options: &'a LabOptions) -> &'a Path {
        &options.program
    }

    fn trial(&self, command: &str) -> String {
        let mut words = vec!["srun".to_owned()];
        words.extend(self.options.iter().map(|option| shell::word(option)));
        words.extend(["--nodes=1", "--ntasks=1"].map(str::to_owned));
        words.push(format!("--nodelist={} {command}", self.node));
        words.join(" ")
    }

    fn failed(&self, code: i32) -> Option<&'static str> {
        (code == SRUN_FAILED).then_some("srun started no step")
    }

    fn needs(&self) -> &'static str {
        "the node must be up, and Slurm must allow a step there"
    }

    fn talkers(&self) -> &'static str {
        "a prologue of the task that prints text, or --label among the options,"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_the_user_do_not_change_the_step() {
        let own = ["--immediate=5", "--nodes=4", "-pfast lane"].map(str::to_owned);
        let alone = Slurm { node: "n2", options: &own, in_allocation: false };
        let words = alone.all_options().join(" ");
        assert_eq!(
            words,
            "--immediate=60 --immediate=5 --nodes=4 -pfast lane --nodes=1 --ntasks=1 --unbuffered \
             --mpi=none --nodelist=n2"
        );
        let beside = Slurm::in_allocation("n2", &[]).arguments("exec true");
        assert_eq!(beside[0], "--overlap");
        assert_eq!(beside[beside.len() - 3..], ["/bin/sh", "-c", "exec true"]);
        let trial = alone.trial("true");
        assert_eq!(
            trial,
            "srun '--immediate=5' '--nodes=4' '-pfast lane' --nodes=1 --ntasks=1 --nodelist=n2 true"
        );
    }
}
