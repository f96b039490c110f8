//! TCP connections to other hosts, through sock_diag(7), and the processes that own them.

use std::collections::BTreeSet;

use linkrate_model::clean;
use linkrate_sys::sock_diag;
use linkrate_sys::tree::Tree;

use crate::tuning::facts::{Host, Process};

/// Adds connections and their processes to `host`.
pub(super) fn complete(host: &mut Host, tree: &Tree) {
    match sock_diag::connections() {
        Ok(mut connections) => {
            connections.retain(|connection| !connection.stays_here());
            host.connections = connections;
        }
        Err(error) => host.unseen.push(("round-trip", error.to_string())),
    }
    host.processes = owners(host, tree);
}

/// Processes that own the connections, where this process may read `/proc/PID/fd`.
fn owners(host: &Host, tree: &Tree) -> Vec<Process> {
    let wanted: BTreeSet<u32> = host.connections.iter().map(|c| c.inode).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    super::processes(tree).filter_map(|pid| owner(pid, &wanted, tree)).collect()
}

fn owner(pid: u32, wanted: &BTreeSet<u32>, tree: &Tree) -> Option<Process> {
    let directory = format!("/proc/{pid}/fd");
    let sockets: Vec<u32> = tree
        .names(&directory)
        .iter()
        .filter_map(|fd| socket_inode(&tree.link_name(format!("{directory}/{fd}"))?))
        .filter(|inode| wanted.contains(inode))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let status = tree.text(format!("/proc/{pid}/status"))?;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    // its owner chose it
    let name = tree.text(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = clean::line(&name).into_owned();
    Some(Process { pid, name, cpus: cpus.trim().parse().ok()?, sockets })
}

/// `socket:[12345]`.
fn socket_inode(target: &str) -> Option<u32> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_name_of_a_process_does_not_drive_a_terminal() {
        let root = std::env::temp_dir().join(format!("linkrate-owner-{}", std::process::id()));
        let process = root.join("proc/777");
        fs::create_dir_all(process.join("fd")).unwrap();
        symlink("socket:[12345]", process.join("fd/3")).unwrap();
        fs::write(process.join("status"), "Cpus_allowed_list:\t0-3\n").unwrap();
        fs::write(process.join("comm"), "\u{1b}[2Jx\n").unwrap();
        let found = owner(777, &[12345].into(), &Tree::below(&root)).unwrap();
        assert_eq!((found.name.as_str(), found.sockets), ("\u{fffd}[2Jx", vec![12345]));
        fs::remove_dir_all(root).unwrap();
    }
}
