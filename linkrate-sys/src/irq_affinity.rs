//! Interrupts of adapters, and the CPUs that handle them
//! (Documentation/core-api/irq/irq-affinity.rst).

use std::fs;
use std::path::{Path, PathBuf};

use linkrate_model::CpuSet;

use crate::error::{SysError, SysResult};
use crate::tree::Tree;

/// Numbers of the message-signalled interrupts of the adapter of `interface`; empty for a software
/// interface, or if the bus has no such interrupts.
pub fn of_interface(tree: &Tree, interface: &str) -> Vec<u32> {
    let device = tree.resolve(format!("/sys/class/net/{interface}/device"));
    device.map_or_else(Vec::new, |device| of_device(tree, &device))
}

/// The same for a device, by its real path below `/sys/devices`.
pub fn of_device(tree: &Tree, device: &Path) -> Vec<u32> {
    // virtio and a few others are devices below the PCI function
    let function = pci_function(device);
    let names = tree.names(function.as_deref().unwrap_or(device).join("msi_irqs"));
    names.iter().filter_map(|number| number.parse().ok()).collect()
}

/// The deepest part of `path` that is a PCI function: `0000:3b:00.0`.
pub fn pci_function(path: &Path) -> Option<PathBuf> {
    let name = |part: &Path| Some(part.file_name()?.to_string_lossy().into_owned());
    path.ancestors()
        .find(|part| name(part).is_some_and(|name| is_pci_address(&name)))
        .map(Into::into)
}

fn is_pci_address(name: &str) -> bool {
    let pieces: Vec<&str> = name.split([':', '.']).collect();
    let lengths: Vec<usize> = pieces.iter().map(|piece| piece.len()).collect();
    let hexadecimal = |piece: &&str| piece.chars().all(|c| c.is_ascii_hexdigit());
    matches!(lengths[..], [domain, 2, 2, 1] if domain >= 4) && pieces.iter().all(hexadecimal)
}

fn affinity_path(number: u32) -> String {
    format!("/proc/irq/{number}/smp_affinity_list")
}

/// The CPUs that may handle an interrupt; `None` if the interrupt does not exist.
pub fn affinity(tree: &Tree, number: u32) -> Option<CpuSet> {
    tree.cpu_list(affinity_path(number))
}

/// The CPUs that handle an interrupt: one, or a few, of those that may; `None` if the interrupt does not exist.
pub fn effective(tree: &Tree, number: u32) -> Option<CpuSet> {
    let effective = tree.cpu_list(format!("/proc/irq/{number}/effective_affinity_list"));
    effective.filter(|cpus| !cpus.is_empty()).or_else(|| affinity(tree, number))
}

/// Sets the CPUs that may handle an interrupt.
///
/// # Errors
/// `EIO` for an interrupt that its driver manages itself, `EACCES` without privilege.
pub fn set_affinity(number: u32, cpus: &CpuSet) -> SysResult<()> {
    let path = affinity_path(number);
    fs::write(&path, cpus.to_string()).map_err(|error| {
        let managed = error.raw_os_error() == Some(libc::EIO);
        let error = SysError::new(format!("write CPUs \"{cpus}\" to"), path, error);
        if managed {
            return error.with_hint(
                "the driver manages its interrupts itself and does not allow moving them",
            );
        }
        error
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pci_address_is_reported_from_what_surrounds_it() {
        let function = |path: &str| {
            let function = pci_function(Path::new(path))?;
            Some(function.file_name()?.to_string_lossy().into_owned())
        };
        let path = "/sys/devices/pci0000:00/0000:00:03.0/0000:3b:00.1/virtio2";
        assert_eq!(function(path).as_deref(), Some("0000:3b:00.1"));
        let above = "/sys/devices/pci0000:00/0000:00:03.0";
        assert_eq!(function(above).as_deref(), Some("0000:00:03.0"));
        assert_eq!(function("/sys/devices/pci0000:00"), None);
        assert_eq!(function("/sys/devices/virtual/net/v0"), None);
    }

    #[test]
    fn interrupts_are_found_on_the_function_below_which_the_device_is() {
        let root = std::env::temp_dir().join(format!("linkrate-interrupts-{}", std::process::id()));
        let device = root.join("sys/devices/pci0000:00/0000:00:03.0/virtio0");
        fs::create_dir_all(device.join("../msi_irqs")).unwrap();
        for number in ["24", "25"] {
            fs::write(device.join("../msi_irqs").join(number), "msix").unwrap();
        }
        fs::create_dir_all(root.join("sys/class/net/eth0")).unwrap();
        std::os::unix::fs::symlink(&device, root.join("sys/class/net/eth0/device")).unwrap();
        fs::create_dir_all(root.join("proc/irq/24")).unwrap();
        fs::write(root.join("proc/irq/24/smp_affinity_list"), "0-1\n").unwrap();
        let tree = Tree::below(&root);
        let found = (of_interface(&tree, "eth0"), of_interface(&tree, "eth1"));
        let cpus = (affinity(&tree, 24), affinity(&tree, 25));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, (vec![24, 25], vec![]));
        assert_eq!(cpus, (Some("0-1".parse().unwrap()), None));
    }
}
